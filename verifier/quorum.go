package verifier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Member is one of those that a quorum asks.
type Member struct {
	Name     string
	Rank     memory.Rank // RankTool or RankPrimarySource
	Verifier Verifier
}

// Quorum asks several sources and answers when enough of them agree. It is safe for
// concurrent use if its members are.
type Quorum struct {
	name    string
	k       int
	members []Member
}

// NewQuorum returns a verifier that supports a claim when members of k independence
// groups support it, and refutes it when members of k groups refute it. It panics if
// that can never be: a program with such a line cannot work.
//
// Members are asked one after the other in order of rank, highest first, until the
// answer is known: so many agree, two disagree, or too few are left that are not down. Two that
// disagree decide nothing: the verdict is [Unclear], and [Verdict.Heard] has both
// words, to be kept with the row where people see them (SR-4.8, SR-7.14). A member
// that is down leaves its place open; if the others do not make k, the quorum is
// down, until the first of those comes back. Guard each member with [WithBreaker].
//
// The support is marked with k ([memory.Evidence.Quorum]): none of it verifies a row
// without the others, now or after one of them was revoked.
func NewQuorum(name string, k int, members ...Member) *Quorum {
	switch {
	case strings.TrimSpace(name) == "":
		panic("verifier: NewQuorum: no name")
	case k < 1 || k > len(members) || len(members) > memory.MaxQuorum:
		panic(fmt.Sprintf("verifier: NewQuorum: %d of %d, at most %d", k, len(members), memory.MaxQuorum))
	}
	q := &Quorum{name: name, k: k, members: slices.Clone(members)}
	for _, m := range members {
		if m.Verifier == nil || m.Rank != memory.RankTool && m.Rank != memory.RankPrimarySource {
			panic("verifier: NewQuorum: a member is a tool or a primary source: " + m.Name)
		}
	}
	slices.SortStableFunc(q.members, func(a, b Member) int { return cmp.Compare(b.Rank, a.Rank) })
	return q
}

// Name returns the name the quorum was made with.
func (q *Quorum) Name() string { return q.name }

// State is that of the k-th best member: without so many that can be asked, no answer comes. A member
// without a breaker can be asked always.
func (q *Quorum) State() State {
	states := make([]State, len(q.members))
	for i, m := range q.members {
		states[i] = stateOf(m.Verifier)
	}
	slices.Sort(states) // open, half-open, closed
	return states[len(states)-q.k]
}

// stateOf is the state of a member; closed if it has no breaker.
func stateOf(v Verifier) State {
	if b, ok := v.(interface{ State() State }); ok {
		return b.State()
	}
	return StateClosed
}

// Places is how many questions the member with the fewest places lets through at a time; 0 = it is not
// known, since none is guarded.
func (q *Quorum) Places() (least int) {
	for _, m := range q.members {
		if b, ok := m.Verifier.(interface{ Places() int }); ok && (least == 0 || b.Places() < least) {
			least = b.Places()
		}
	}
	return least
}

// IsFull reports whether a member is full that may be asked: a question would wait for it.
func (q *Quorum) IsFull() bool {
	return slices.ContainsFunc(q.members, func(m Member) bool {
		f, ok := m.Verifier.(interface{ IsFull() bool })
		return ok && f.IsFull() && stateOf(m.Verifier) != StateOpen
	})
}

// Bound is the longest that Verify takes, if all members are guarded; 0 = it is not known.
func (q *Quorum) Bound() (all time.Duration) {
	for _, m := range q.members {
		b, ok := m.Verifier.(interface{ Bound() time.Duration })
		if !ok {
			return 0
		}
		all += b.Bound()
	}
	return all
}

// Verify asks the members.
func (q *Quorum) Verify(ctx context.Context, row memory.Row) (Verdict, error) {
	return q.VerifyIf(ctx, row, func(context.Context) error { return nil })
}

// VerifyIf is Verify on a condition; see [Guarded.VerifyIf]. may is called once, when the
// first member would be asked, and not if none can be.
func (q *Quorum) VerifyIf(ctx context.Context, row memory.Row, may func(context.Context) error) (Verdict, error) {
	var allowed bool
	var denied error
	ask := func(v Verifier) (Verdict, error) {
		first := func(ctx context.Context) error {
			if !allowed {
				denied = may(ctx)
				allowed = denied == nil
			}
			return denied
		}
		if c, ok := v.(interface {
			VerifyIf(context.Context, memory.Row, func(context.Context) error) (Verdict, error)
		}); ok {
			return c.VerifyIf(ctx, row, first)
		}
		if err := first(ctx); err != nil {
			return Verdict{}, err
		}
		return v.Verify(ctx, row)
	}
	var (
		asked   int // members that answered
		missing int // those that did not
		says    = map[memory.Relation]map[string]bool{memory.RelationSupports: {}, memory.RelationContradicts: {}}
		heard   []memory.Evidence
		down    *UnavailableError
		wrong   error
	)
	yes, no := says[memory.RelationSupports], says[memory.RelationContradicts]
	left := len(q.members)
	for _, m := range q.members {
		few := max(len(yes), len(no))+left < q.k // without those that are down too few are left
		if len(yes) > 0 && len(no) > 0 || few && stateOf(m.Verifier) != StateHalfOpen {
			break
		}
		left--
		v, err := ask(m.Verifier)
		if denied != nil {
			return Verdict{}, denied
		}
		if err == nil {
			err = v.Check()
		}
		if err != nil {
			if err = classify(ctx, m.Name, err); errors.Is(ctx.Err(), context.Canceled) {
				return Verdict{}, ctx.Err()
			}
			if u := (*UnavailableError)(nil); errors.As(err, &u) {
				down = sooner(down, u)
			} else {
				wrong = err
			}
			missing++
			continue
		}
		asked++
		for _, e := range v.Said() {
			if e.Rank != memory.RankTool && e.Rank != memory.RankPrimarySource {
				continue // it is no member's word
			}
			if e.Relation == memory.RelationSupports {
				e.Quorum = q.k
			}
			if heard = append(heard, e); says[e.Relation] != nil && len(heard) <= memory.MaxQuorum {
				says[e.Relation][strings.ToLower(memory.Canonical(e.Group))] = true
			}
		}
		if len(heard) > memory.MaxQuorum {
			return Verdict{}, &MisconfiguredError{Verifier: q.name, Err: errors.New("its members say more than a row can keep")}
		}
		if len(no) == 0 && len(yes) >= q.k {
			return q.decided(Supported, memory.RelationSupports, heard), nil
		}
		if len(yes) == 0 && len(no) >= q.k {
			return q.decided(Refuted, memory.RelationContradicts, heard), nil
		}
	}
	switch {
	case len(yes) > 0 && len(no) > 0:
		return Verdict{Outcome: Unclear, Heard: heard, Detail: "the sources disagree"}, nil
	case max(len(yes), len(no))+missing+left < q.k:
	case down != nil:
		cause := error(down)
		if asked > 0 { // not ErrOpen, by which nobody was asked: somebody was, and it counts
			cause = errors.New(down.LogValue().String())
		}
		return Verdict{}, &UnavailableError{Verifier: q.name, RetryAfter: down.RetryAfter, Err: cause}
	default:
		return Verdict{}, &MisconfiguredError{Verifier: q.name, Err: wrong}
	}
	return Verdict{Outcome: Unclear, Heard: heard, Detail: fmt.Sprintf("fewer than %d sources say so", q.k)}, nil
}

// decided puts the evidence of the highest rank first.
func (q *Quorum) decided(o Outcome, r memory.Relation, heard []memory.Evidence) Verdict {
	best := -1
	for i := range heard {
		if heard[i].Relation == r && (best < 0 || heard[i].Rank > heard[best].Rank) {
			best = i
		}
	}
	return Verdict{Outcome: o, Evidence: heard[best], Heard: slices.Delete(slices.Clone(heard), best, best+1),
		Detail: fmt.Sprintf("%d independent sources say so", q.k)}
}

// sooner is the outage that ends first; one that does not say when ends at once.
func sooner(a, b *UnavailableError) *UnavailableError {
	if a == nil || b.RetryAfter < a.RetryAfter {
		return b
	}
	return a
}
