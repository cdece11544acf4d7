package gate

import (
	"fmt"
	"slices"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Precision is which rows of its run a call is judged by. The zero value is the
// whole run.
type Precision uint8

// The values of [Precision].
const (
	// WholeRun: everything that the run was shown feeds every call.
	WholeRun Precision = iota
	// TypedSinks: a call is judged by the rows that its sink arguments came from,
	// where that can be shown of each of them, and by the whole run where it cannot.
	// Secrecy and quarantine are judged by the whole run all the same.
	TypedSinks
)

var precisionNames = [...]string{"run", "typed_sinks"}

// String returns run or typed_sinks; a value that is neither is run.
func (p Precision) String() string {
	if p > TypedSinks {
		return precisionNames[WholeRun]
	}
	return precisionNames[p]
}

// MarshalText returns the same.
func (p Precision) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText accepts exactly the two names.
func (p *Precision) UnmarshalText(b []byte) error { return parse(p, "precision", precisionNames[:], b) }

// Kind is what a sink argument picks. The list is closed, so that no free text can
// be declared a sink that is cleared alone. The zero value is no kind, and a call
// with such a sink is judged by its whole run.
type Kind uint8

// The values of [Kind].
const (
	KindNone       Kind = iota // not declared
	KindRecipient              // who gets it: a mail address, a channel, a user
	KindAccount                // where money goes
	KindAmount                 // how much
	KindURL                    // a web address or a host
	KindPath                   // which of the files of one's own
	KindObjectID               // which of the objects of one's own: a mail, an event, an order
	KindPermission             // what somebody may do from then on
	KindSchedule               // when, or how often
	KindName                   // which of the things that have a public name: a hotel, a product
	KindSetting                // what a setting is from then on: a password, a street
)

var kindNames = [...]string{"none", "recipient", "account", "amount", "url", "path", "object_id", "permission", "schedule", "name", "setting"}

// String returns the name; a value that is no kind is none.
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return kindNames[KindNone]
	}
	return kindNames[k]
}

// MarshalText returns the same.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText accepts exactly the names.
func (k *Kind) UnmarshalText(b []byte) error { return parse(k, "kind", kindNames[:], b) }

// declared reports whether the kind is one.
func (k Kind) declared() bool { return k > KindNone && k <= KindSetting }

// identifies reports whether a value of the kind is an address, an account or another identifier.
func (k Kind) identifies() bool { return k.Directs() || k == KindPath || k == KindObjectID }

// Selects reports whether a value of the kind picks one of several things that all
// are genuine, so that it is the choice that does harm: that "13" is a file does not
// say that it is the file to delete. What selects is cleared by the principal's words
// or by a row that a person endorsed, and by no other row (gate lesson L3).
func (k Kind) Selects() bool { return k == KindPath || k == KindObjectID || k == KindPermission }

// CheckPrecision reports what keeps the contract from being judged by typed sinks
// although it asks for it, as an error that names the tool and the sink; nil if
// nothing does, or if it does not ask. An agent refuses such a tool, and a gate
// judges it by its whole run.
func (c *Contract) CheckPrecision() error {
	switch {
	case c.Precision == WholeRun && !c.Corroborate:
		return nil
	case c.Precision != TypedSinks:
		return fmt.Errorf("gate: tool %q: corroboration is part of typed sinks", neutral(c.Tool, 80))
	case c.Undeclared:
		return fmt.Errorf("gate: tool %q: typed sinks want a declared effect", neutral(c.Tool, 80))
	case len(c.Sinks) == 0:
		return fmt.Errorf("gate: tool %q: typed sinks want at least one sink", neutral(c.Tool, 80))
	case c.Effect.floor() == Irreversible && !c.Named && !c.NamedWaived:
		return fmt.Errorf("gate: tool %q: typed sinks of what cannot be undone want the tool to be named, or that to be waived", neutral(c.Tool, 80))
	}
	for _, p := range c.Sinks {
		if !c.Kinds[p].declared() {
			return fmt.Errorf("gate: tool %q: typed sinks: sink %q has no kind", neutral(c.Tool, 80), neutral(p, 80))
		}
	}
	return nil
}

// selects reports whether an argument belongs to a declared sink that selects. Sinks
// may lie within one another; then the strictest of them counts.
func (c *Contract) selects(pointer string) bool {
	return slices.ContainsFunc(c.Sinks, func(p string) bool { return under(pointer, p) && c.Kinds[p].Selects() })
}

// PicksObject reports whether an argument belongs to declared sinks that all pick one of
// one's own objects.
func (c *Contract) PicksObject(pointer string) bool {
	found := false
	for _, p := range c.Sinks {
		if under(pointer, p) {
			if c.Kinds[p] != KindObjectID {
				return false
			}
			found = true
		}
	}
	return found
}

// narrow reports whether the call may be judged by the rows of its sinks alone: each
// declared sink must be given, and shown to come from the principal's typed words or
// from a row, and what selects from the words or from an endorsed row. Anything else, a
// lineage of which a part is not known included, leaves the call to its whole run, and
// so does an irreversible tool that any row may ask for without the contract saying so.
//
// That a sink came from a row does not say that the row is fit: those rows are then
// judged as all are.
func (r *Request) narrow(t *terms, f *memory.Fitness) bool {
	if t.precision != TypedSinks || t.effect == ReadOnly || !r.Lineage.known || len(f.Heads) != r.Lineage.len() || r.Contract.CheckPrecision() != nil {
		return false
	}
	if t.effect == Irreversible && !t.named && !r.Contract.NamedWaived || !r.covered(t) {
		return false
	}
	for i := range r.Sinks {
		s := &r.Sinks[i]
		if s.Source == SourcePrincipal {
			continue
		}
		at := slices.Index(r.Lineage.direct, s.Row)
		if at < 0 || !s.Source.row() || s.Source == SourceCorroborated && !t.corroborate {
			return false
		}
		if r.Contract.selects(s.Pointer) && !endorsed(&f.Heads[at], f.Now) {
			return false
		}
	}
	return true
}

// rests reports whether one of the sinks came from the row.
func (r *Request) rests(id memory.ID) bool {
	return slices.ContainsFunc(r.Sinks, func(s Sink) bool { return s.Row == id && s.Source.row() })
}

// bystander judges a row that reached the run and that no sink came from: what it
// says is not asked, but a secret in it may leave with any argument, and who slept
// with it under quarantine is not trusted to have chosen well.
func (d *Decision) bystander(t *terms, h *memory.Head, id memory.ID) {
	if !d.here(h, id, false) {
		return
	}
	d.secrecy(t, h, false)
	if h.Security != memory.SecurityClean || h.Flags&memory.FlagTainted != 0 {
		d.add(Reason{Code: QuarantinedInput, Row: id})
	}
}

// chosen reports whether the principal, or a row that a person endorsed, named the
// tool; if it was a row, by gives it.
func (r *Request) chosen(f *memory.Fitness) (by *memory.Head, ok bool) {
	if r.Choice.Source != SourceRow {
		return nil, r.Choice.Source == SourcePrincipal
	}
	at := slices.Index(r.Lineage.direct, r.Choice.Row)
	if at < 0 || at >= len(f.Heads) || f.Heads[at].ID != r.Choice.Row || !endorsed(&f.Heads[at], f.Now) {
		return nil, false
	}
	return &f.Heads[at], true
}

// Directs reports whether a value of the kind says to whom, or to where, something goes.
// A word that the principal typed so that somebody's text is read is no word that
// anything be sent there: what was read may ask for that.
func (k Kind) Directs() bool { return k == KindRecipient || k == KindAccount || k == KindURL }

// endorsed reports whether a person's own word stands behind the row.
func endorsed(h *memory.Head, now time.Time) bool {
	fresh := h.FreshnessAt(now)
	return h.Revision > 0 && h.Truth == memory.TruthSupported && h.Rank >= memory.RankUser && h.Security == memory.SecurityClean &&
		h.Retrieval == memory.RetrievalNormal && h.Flags&(memory.FlagTainted|memory.FlagContested) == 0 &&
		(fresh == memory.FreshnessFresh || fresh == memory.FreshnessStale)
}
