package memory

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Predicate is what an operator says of a predicate: how many objects it has at a time, how
// much hangs on it, how long a verification of it lasts, and who may speak for it. The zero
// Predicate says nothing. It holds for each row that is written from then on; what was
// written before stays as it was. An entry of a place in records, "supplier/iban", holds for
// the records "supplier" as well, but for its cardinality: of several entries the strictest
// counts.
type Predicate struct {
	// Cardinality is how many objects a subject has. A row of another declared cardinality
	// is refused; one of none takes this.
	Cardinality Cardinality
	// Criticality is the least that hangs on the predicate. What is critical is never
	// superseded by its own source alone: both words are contested until a person or a second
	// source agrees.
	Criticality Criticality
	// CheckEvery is how long a verification lasts, where the draft does not say; 0 = 30 days.
	CheckEvery time.Duration
	// Sources are the systems of record whose word verifies it: names of tools, verifiers
	// or of agent.SystemOfRecord. nil = any. A person with authority speaks for it all the same.
	Sources []string
	// Placeholders are objects that say that nothing is known, besides those of [SaysNothing]:
	// "none given", "-1". Letter case and blanks around them do not count. A source that gives one
	// has not answered.
	Placeholders []string
	// Identifier says that an object is an address, an account or another identifier. What a person
	// rejected of one subject, the same source does not verify of another one that had no verified
	// row with it before: [ErrRejectedElsewhere]. Records are not covered.
	Identifier bool
	// ExactSubjects says that each spelling of a subject is a name of its own. If not, what a source
	// says of "ACME" is not verified while it is verified of "acme", which came first: [ErrRespelt].
	ExactSubjects bool
}

// predicates is a registry, by exact predicate.
type predicates map[string]Predicate

// checked is a copy of a registry that is well formed.
func checked(registry map[string]Predicate) (predicates, error) {
	out := predicates{}
	for _, name := range slices.Sorted(maps.Keys(registry)) {
		p := registry[name]
		field := "predicates." + clip(name, 100)
		if err := CheckName(field, name); err != nil {
			return nil, err
		}
		if Canonical(name) == "" {
			return nil, invalid(field, "required", "a predicate has a name")
		}
		for _, err := range [...]error{optional(cardinalityEnum, p.Cardinality), optional(criticalityEnum, p.Criticality)} {
			if err != nil {
				return nil, invalid(field, "unknown", "%v", err)
			}
		}
		if p.CheckEvery < 0 || p.CheckEvery > maxCheckEvery {
			return nil, invalid(field+".check_every", "out_of_range", "not between 0 and %s", maxCheckEvery)
		}
		if p.Sources != nil && len(p.Sources) == 0 || slices.Contains(p.Sources, "") {
			return nil, invalid(field+".sources", "required", "a list of sources names at least one, and each by its name")
		}
		p.Sources, p.Placeholders = slices.Clone(p.Sources), slices.Clone(p.Placeholders)
		for i, text := range p.Placeholders {
			if p.Placeholders[i] = placeholder(text); p.Placeholders[i] == "" || len(text) > maxPlaceholder {
				return nil, invalid(field+".placeholders", "required", "a placeholder has a word, and at most %d bytes", maxPlaceholder)
			}
		}
		out[ExactName(name)] = p
	}
	return out, nil
}

// fill gives a draft what its predicate is registered with.
func (r predicates) fill(d *Draft) error {
	if len(r) == 0 || !d.Content.Typed() {
		return nil
	}
	given := d.CheckEvery != 0
	for _, e := range r.entries(d.Content.Predicate) {
		if d.Criticality != 0 || e.Criticality != 0 { // unset is critical
			d.Criticality = max(d.Criticality, e.Criticality)
		}
		if !given && e.CheckEvery > 0 && (d.CheckEvery == 0 || e.CheckEvery < d.CheckEvery) {
			d.CheckEvery = e.CheckEvery
		}
	}
	switch p := r[ExactName(d.Content.Predicate)]; {
	case p.Cardinality == 0 || p.Cardinality == CardinalityUnknown:
	case d.Content.Cardinality == CardinalityUnknown:
		d.Content.Cardinality = p.Cardinality
	case d.Content.Cardinality != p.Cardinality:
		return invalid("content.cardinality", "conflict", "the predicate is registered as %s", p.Cardinality)
	}
	return nil
}

// entries are what is registered of a predicate, and of the places in it if its objects are
// records: "supplier" and "supplier/iban".
func (r predicates) entries(predicate string) (out []Predicate) {
	name := ExactName(predicate)
	for registered, p := range r {
		if registered == name || strings.HasPrefix(registered, name+"/") {
			out = append(out, p)
		}
	}
	return out
}

// isCritical reports whether a predicate is critical: one source alone makes no history of
// what it said before.
func (r predicates) isCritical(predicate string) bool {
	return slices.ContainsFunc(r.entries(predicate), func(p Predicate) bool { return p.Criticality == CriticalityCritical })
}

// speaks reports whether the word of a group verifies a predicate.
func (r predicates) speaks(predicate, group string) bool {
	return !slices.ContainsFunc(r.entries(predicate), func(p Predicate) bool {
		return p.Sources != nil && !slices.ContainsFunc(p.Sources, func(name string) bool { return group == Asserter{Tool: name}.Group() })
	})
}

// identifies reports whether the objects of a predicate are identifiers.
func (r predicates) identifies(predicate string) bool { return r[ExactName(predicate)].Identifier }

// exact reports whether each spelling of a subject is a name of its own.
func (r predicates) exact(predicate string) bool { return r[ExactName(predicate)].ExactSubjects }

// Cardinality is how many objects of a predicate a subject has, as the registry says; [CardinalityUnknown]
// if it does not.
func (s *Store) Cardinality(predicate string) Cardinality {
	return cmp.Or(s.registry[ExactName(predicate)].Cardinality, CardinalityUnknown)
}
