package agent

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// Computed says that the amount or the date at a JSON pointer of the arguments may be
// computed by the model: a total, a difference, the day on which something is due. Such a
// value stands in no row, and would come from nowhere. It is asked about all the same unless
// the principal typed something in the run and all that the run has read is fit.
//
// A call that cannot be undone also wants a proof: an amount of 100 or more that one
// operation on fit rows gives. That is the sum or the number of all values of one predicate
// of one row, or the sum or the difference of two values. Only predicates count that are
// registered as amounts in [Options.Kinds]: register no number there that a counterparty
// enters. kind is gate.KindAmount or gate.KindSchedule, of which there is no proof. A typed
// sink is cleared by none of it.
func Computed(kind gate.Kind, pointer string) Option {
	return ComputedAtMost(kind, pointer, "")
}

// ComputedAtMost is [Computed], with the number up to which a call that cannot be undone
// does without the proof: "250".
func ComputedAtMost(kind gate.Kind, pointer, most string) Option {
	return func(t *Tool) {
		if t.contract.Derived == nil {
			t.contract.Derived = map[string]gate.Derivation{}
		}
		t.contract.Derived[pointer] = gate.Derivation{Kind: kind, AtMost: most}
	}
}

const (
	maxComputed = 1000 // results that are looked at for one argument
	minComputed = 100  // a smaller result comes of too many numbers by chance
)

// operand is the number that a fact holds.
type operand struct {
	predicate string
	n         *big.Rat
}

// computed looks for one operation on values of fit rows that gives a number, and says
// which.
func (r *Run) computed(n json.Number) (how string, found bool) {
	want, ok := number(n.String())
	if !ok || want.Cmp(big.NewRat(minComputed, 1)) < 0 {
		return "", false
	}
	of := r.ledger.amounts(func(predicate string) bool { return slices.Contains(r.agent.opts.Kinds[predicate], gate.KindAmount) })
	tried := 0
	is := func(got *big.Rat) bool {
		tried++
		return tried <= maxComputed && got.Cmp(want) == 0
	}
	var all []operand
	for _, row := range of {
		for _, predicate := range slices.Sorted(maps.Keys(row)) {
			sum := new(big.Rat)
			for _, n := range row[predicate] {
				sum.Add(sum, n)
				all = append(all, operand{predicate, n})
			}
			if len(row[predicate]) < 2 {
				continue
			}
			if is(sum) {
				return "the sum of " + predicate, true
			}
			if is(big.NewRat(int64(len(row[predicate])), 1)) {
				return "the number of " + predicate, true
			}
		}
	}
	for i, x := range all {
		for j, y := range all {
			if tried > maxComputed {
				return "", false
			}
			if i == j {
				continue
			}
			pair := x.predicate + " and " + y.predicate
			switch {
			case i < j && is(new(big.Rat).Add(x.n, y.n)):
				return "the sum of " + pair, true
			case is(new(big.Rat).Sub(x.n, y.n)):
				return "the difference of " + pair, true
			}
		}
	}
	return "", false
}

// amounts are the numbers that fit rows hold under predicates that are wanted: for each row,
// by predicate.
func (l *ledger) amounts(wanted func(predicate string) bool) (out []map[string][]*big.Rat) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.served {
		r := l.rows[l.served[i].ID]
		if standing(&r) < memory.RankTool {
			continue
		}
		row := map[string][]*big.Rat{}
		for _, f := range l.facts[r.ID] {
			if n, ok := number(f.object); ok && wanted(f.predicate) {
				row[f.predicate] = append(row[f.predicate], n)
			}
		}
		if len(row) > 0 {
			out = append(out, row)
		}
	}
	return out
}

// spoken reports whether the principal typed something in the run.
func (l *ledger) spoken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.typed) > 0
}
