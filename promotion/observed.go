package promotion

import (
	"context"
	"iter"
	"slices"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

// Rows is what looking at rows side by side needs of a store; [*memory.Store] is one.
type Rows interface {
	Rows(ctx context.Context, f memory.Filter) iter.Seq2[memory.Row, error]
}

// Observed is the narrow auto-promotion policy (LS-11, D-30): a source that asks
// nobody, and sees that tools have said the claim already. There is none unless a
// program makes one, and it covers the predicates that it is given and no other.
//
// What counts is the evidence of other rows of the same claim that a tool wrote first
// hand as a typed field of its own, and that stand verified: text, a document that
// somebody read, and what an agent made of it count nothing (LS-13). The store asks
// for two independence groups, neither of them the claim's or an ancestor's, and the
// evidence is in the audit entry, under the authority auto_observation. An agent that
// succeeds, reads or repeats itself leaves no such rows (LS-10).
func Observed(store Rows, predicates ...string) Source {
	var allowed []string
	for _, p := range predicates {
		if p = memory.Canonical(p); p != "" {
			allowed = append(allowed, p)
		}
	}
	return Source{Name: "auto_observation", Rank: memory.RankTool, Verifier: observer{store}, observes: true, Predicates: allowed,
		Covers: func(c memory.Content) bool {
			p := memory.Canonical(c.Predicate)
			return c.Typed() && slices.Contains(allowed, p)
		}}
}

type observer struct{ store Rows }

// maxObserved is how many rows of one claim are looked at.
const maxObserved = 100

// Verify implements verifier.Verifier. What it does not see is no answer.
func (o observer) Verify(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
	const enough = 2
	var seen []memory.Evidence
	groups, looked := map[string]bool{row.Asserter.Group(): true}, 0
	for r, err := range o.store.Rows(ctx, memory.Filter{Claim: row.Content.ClaimKey()}) {
		if err != nil {
			return verifier.Verdict{}, &verifier.UnavailableError{Verifier: "auto_observation", Err: err}
		}
		if looked++; looked > maxObserved || len(seen) == memory.MaxQuorum {
			break
		}
		if r.ID != row.ID && sameTriple(&r, &row) && firstHand(&r) {
			for _, e := range supportOf(&r) {
				seen, groups[e.Group] = append(seen, e), true
			}
		}
	}
	if len(groups) <= enough {
		return verifier.Verdict{}, nil
	}
	return verifier.Verdict{Outcome: verifier.Supported, Evidence: seen[0], Heard: seen[1:], Detail: "tools have said so of their own"}, nil
}

// sameTriple reports whether two rows say the same exact words: what a tool says of a name
// says nothing of one that is spelled alike (I-9), and what has one value has no other
// spelling of it.
func sameTriple(a, b *memory.Row) bool {
	return memory.SameName(a.Content.Subject, b.Content.Subject) && memory.SameName(a.Content.Predicate, b.Content.Predicate) &&
		memory.SameName(a.Content.Object, b.Content.Object)
}

// firstHand reports whether a row is a typed field that a tool is the system of record
// for, and that may be acted on.
func firstHand(r *memory.Row) bool {
	return r.Origin == memory.OriginFirstHand && r.Asserter.Tool != "" && r.Content.Typed() &&
		r.State() == memory.StateVerified && r.Rank >= memory.RankTool && r.Security == memory.SecurityClean &&
		r.Retrieval == memory.RetrievalNormal && r.Flags == 0
}

// supportOf is what the tool of a row said at its birth, resting on what the row rests on.
func supportOf(r *memory.Row) (out []memory.Evidence) {
	const groups = 2 // D-30
	for _, e := range r.Evidence {
		if e.Relation == memory.RelationSupports && !e.Void && e.Rank == memory.RankTool && e.Group == r.Asserter.Group() {
			e.Quorum = groups
			e.DerivedFrom = append(slices.Clone(e.DerivedFrom), r.DerivedFrom...)
			return []memory.Evidence{e}
		}
	}
	return nil
}
