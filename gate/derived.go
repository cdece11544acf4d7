package gate

import (
	"errors"
	"math/big"
	"regexp"
	"time"
)

// Derivation says of an argument that it may be computed: a sum, a difference, the day on
// which something is due.
type Derivation struct {
	// Kind is KindAmount or KindSchedule; nothing else is computed.
	Kind Kind
	// AtMost is the number that a call which cannot be undone may give without a proof of
	// where it is from; "" = none.
	AtMost string
}

// decimal is a number as a declaration gives it.
var decimal = regexp.MustCompile(`^[0-9]{1,30}(?:\.[0-9]{1,30})?$`)

// Check reports what is wrong with a declaration; nil if nothing is.
func (d Derivation) Check() error {
	switch {
	case d.Kind != KindAmount && d.Kind != KindSchedule:
		return errDerivedKind
	case d.AtMost != "" && (d.Kind != KindAmount || !decimal.MatchString(d.AtMost)):
		return errDerivedMost
	}
	return nil
}

var (
	errDerivedKind = errors.New("gate: what is computed is an amount or a date")
	errDerivedMost = errors.New("gate: a maximum is a plain number, of an amount")
)

// Derivation is what is declared of the argument at exactly this pointer; the zero Derivation,
// of no kind, if nothing is. What is declared of a list says nothing of its elements: their
// number has no limit.
func (c *Contract) Derivation(pointer string) Derivation {
	if d, declared := c.Derived[pointer]; declared && d.Check() == nil {
		return d
	}
	return Derivation{}
}

// fits reports whether a value is one that can be computed: a plain number that is not
// negative, or a date or a time.
func (d Derivation) fits(value string) bool {
	if d.Kind == KindAmount {
		return decimal.MatchString(value) && !grouped.MatchString(value)
	}
	for _, layout := range []string{time.DateOnly, time.TimeOnly, time.RFC3339Nano} {
		if _, err := time.Parse(layout, value); err == nil && len(value) <= len(time.RFC3339Nano) {
			return true
		}
	}
	return false
}

// grouped is a number whose point may stand before a group of three digits.
var grouped = regexp.MustCompile(`\.[0-9]{3}$`)

// derived judges the sinks that may be computed. It asks for a person's word in a run in which
// something unfit is, or in which the principal has not spoken. Elsewhere it is a note, if
// values of its rows give the argument, or the call can be put back, or the number is not
// above the declared maximum.
func (d *Decision) derived(t *terms, req *Request, fit bool) {
	for i := range req.Sinks {
		s := &req.Sinks[i]
		of, may := t.computes(req, s)
		if !may {
			continue
		}
		r := Reason{Code: FromNowhere, Argument: s.Pointer}
		switch {
		case !fit || !req.Spoken || !req.Lineage.known:
			d.add(r)
		case s.Source == SourceComputed:
			r.Detail = "it is computed: " + s.Computed
			d.note(r)
		case t.effect == StateChanging:
			r.Detail = "it may be computed, and nothing shows from what"
			d.note(r)
		case of.AtMost != "" && atMost(s.Value, of.AtMost):
			r.Detail = "it may be computed, and is not above the declared maximum"
			d.note(r)
		default:
			d.add(r)
		}
	}
}

// computes reports whether a sink that nothing gave may be computed.
func (t *terms) computes(req *Request, s *Sink) (Derivation, bool) {
	if t.underived || s.Source != SourceNowhere && s.Source != SourceComputed {
		return Derivation{}, false
	}
	of := req.Contract.Derivation(s.Pointer)
	return of, of.Kind != KindNone && of.fits(s.Value)
}

func atMost(value, limit string) bool {
	v, ok := new(big.Rat).SetString(value)
	most, fine := new(big.Rat).SetString(limit)
	return ok && fine && v.Cmp(most) <= 0
}
