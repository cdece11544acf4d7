package gate

import "fmt"

// Effect is what a tool does to the world (D-23). The zero value is the worst:
// a tool that declares nothing cannot be undone.
type Effect uint8

// The effects. A smaller one is the graver.
const (
	Irreversible  Effect = iota // cannot be put back: money, mail, deletion
	StateChanging               // changes something that can be put back
	ReadOnly                    // changes nothing, though its arguments may leak
)

var effectNames = [...]string{"irreversible", "state_changing", "read_only"}

// String returns irreversible, state_changing or read_only; a value that is none
// of the three counts as irreversible and says so.
func (e Effect) String() string { return effectNames[e.floor()] }

// MarshalText returns the same.
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText accepts exactly the three names.
func (e *Effect) UnmarshalText(b []byte) error { return parse(e, "effect", effectNames[:], b) }

// floor reads an effect that nobody defined as the gravest.
func (e Effect) floor() Effect {
	if e > ReadOnly {
		return Irreversible
	}
	return e
}

// BlastRadius is how far what a tool changes may reach in one call. The zero value is
// the worst: a tool that declares nothing may reach anybody. What a tool that is
// [ReadOnly] declares is not asked for.
type BlastRadius uint8

// The blast radii. A smaller one reaches further.
const (
	OutsideWorld  BlastRadius = iota // others than the tenant: mail, payments, what is public
	WholeTenant                      // whatever the tenant has, also other people's things
	PrincipalsOwn                    // no more than what is the principal's own
	OneObject                        // one object, which the arguments name
)

var blastNames = [...]string{"outside_world", "tenant", "principal", "one_object"}

// String returns outside_world, tenant, principal or one_object; a value that is none
// of the four reaches anybody and says so.
func (b BlastRadius) String() string { return blastNames[b.widest()] }

// MarshalText returns the same.
func (b BlastRadius) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText accepts exactly the four names.
func (b *BlastRadius) UnmarshalText(text []byte) error {
	return parse(b, "blast_radius", blastNames[:], text)
}

// widest reads a radius that nobody defined as the widest.
func (b BlastRadius) widest() BlastRadius {
	if b > OneObject {
		return OutsideWorld
	}
	return b
}

// Trust is how far one field of a tool's output may be relied on. The zero value
// is the least: somebody else wrote it.
type Trust uint8

// The values of [Trust].
const (
	ThirdParty    Trust = iota // free text, or anything not declared: it taints
	Identifier                 // an id the system assigned: genuine, and no reason to choose it
	Authoritative              // the system of record for a predicate
	Record                     // a record of the system of record: believed as far as its schema closes it
)

var trustNames = [...]string{"third_party", "identifier", "authoritative", "record"}

// Claims reports whether the field makes a claim that is verified.
func (t Trust) Claims() bool { return t == Authoritative || t == Record }

// String returns third_party, identifier, authoritative or record.
func (t Trust) String() string {
	if int(t) >= len(trustNames) {
		return trustNames[ThirdParty]
	}
	return trustNames[t]
}

// MarshalText returns the same.
func (t Trust) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText accepts exactly the four names.
func (t *Trust) UnmarshalText(b []byte) error { return parse(t, "trust", trustNames[:], b) }

// Source is where the runtime can show that a sink argument came from. The model
// is never asked. The zero value is nowhere: the model made it up.
type Source uint8

// The values of [Source].
const (
	SourceNowhere      Source = iota // no typed word, no row, no handle
	SourcePrincipal                  // verbatim from what the principal typed
	SourceRow                        // verbatim the typed object of a row of the lineage
	SourceField                      // verbatim an authoritative field, as a row of the lineage
	SourceHandle                     // handed over by reference to a row of the lineage
	SourceShort                      // too short to show anything: it vouches for nothing and blames nothing
	SourceCorroborated               // of an unverified row that was shown, and of a verified row that was not
	SourceIdentifier                 // an identifier of a record that a system of record found in this run
	SourceComputed                   // one operation on values of verified rows of the run gives it
)

var sourceNames = [...]string{"nowhere", "principal", "row", "field", "handle", "short", "corroborated", "identifier", "computed"}

// String returns the name; a value that is none of them is nowhere.
func (s Source) String() string {
	if int(s) >= len(sourceNames) {
		return sourceNames[SourceNowhere]
	}
	return sourceNames[s]
}

// row reports whether a row is named with the source.
func (s Source) row() bool {
	return s == SourceRow || s == SourceField || s == SourceHandle || s == SourceCorroborated
}

// MarshalText returns the same.
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText accepts exactly the names.
func (s *Source) UnmarshalText(b []byte) error { return parse(s, "source", sourceNames[:], b) }

// Outcome is what a decision, or one reason in it, comes to. The zero value
// denies (I-1).
type Outcome uint8

// The outcomes, from the strictest.
const (
	Deny   Outcome = iota // does not fire
	Hold                  // does not fire; a person's word or new evidence can release it
	Permit                // fires
)

var outcomeNames = [...]string{"denied", "held", "permitted"}

// String returns denied, held or permitted; a value that is none of them denies.
func (o Outcome) String() string {
	if o > Permit {
		return outcomeNames[Deny]
	}
	return outcomeNames[o]
}

// MarshalText returns the same.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText accepts exactly the three names.
func (o *Outcome) UnmarshalText(b []byte) error { return parse(o, "outcome", outcomeNames[:], b) }

// Mode is what a gate does with its decisions.
type Mode uint8

// The modes.
const (
	// Enforce lets fire what is permitted and nothing else.
	Enforce Mode = iota
	// Observe decides and records the same, and lets fire what only the state of
	// its rows would have blocked. It never does so for an irreversible tool, nor
	// against the policy's own refusal, nor after a fault.
	Observe
)

var modeNames = [...]string{"enforce", "observe"}

// String returns enforce or observe; a value that is neither enforces.
func (m Mode) String() string {
	if m > Observe {
		return modeNames[Enforce]
	}
	return modeNames[m]
}

// MarshalText returns the same.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText accepts exactly the two names.
func (m *Mode) UnmarshalText(b []byte) error { return parse(m, "mode", modeNames[:], b) }

func parse[T ~uint8](dst *T, kind string, names []string, b []byte) error {
	for i, n := range names {
		if n == string(b) {
			*dst = T(i)
			return nil
		}
	}
	return fmt.Errorf("gate: %s: %q is none of %q", kind, neutral(string(b), 40), names)
}
