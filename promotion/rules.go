package promotion

import (
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

// Action is what a verdict leads to. The zero value does nothing.
type Action = memory.Ask

// The actions.
const (
	Nothing = memory.AskNothing // the verdict says nothing about the claim
	Keep    = memory.AskKeep    // keep the evidence; no state moves by it
	Promote = memory.AskPromote // ask the store to verify the row
	Demote  = memory.AskDemote  // take the verified state away, or record a refutation
	Age     = memory.AskAge     // what verified the row is gone: it is stale, and still verified
	Renew   = memory.AskRenew   // ask the store to let the row be fresh for longer; who verified it stays
)

// Move is what to do about a row.
type Move struct {
	Action Action
	// Answered says that a verifier answered, whatever it said: an outage recorded
	// at the write is over.
	Answered bool
	Reason   string
}

// Next is what a verdict leads to, as [memory.Judge] decides it. It is pure. Rank decides,
// confidence does not occur (SR-4.1, SR-4.4):
//
//   - support promotes, or reaffirms; the store judges whether it suffices (I-4);
//   - support of a lower rank than what verified the row is kept; a source of rank tool or
//     higher that gives exactly its value renews how long the row is fresh, a user's word
//     included, and nothing else;
//   - support of a row that another source of the same or a higher rank says is
//     wrong is kept: sources that disagree verify nothing (SR-7.14);
//   - a contradiction of higher rank than what verified the row demotes it, and so
//     does the very source that verified it (SR-2.5);
//   - a contradiction of equal rank contests, one of lower rank is kept;
//   - what a user said, either way, no verdict takes back (SR-7.5); what stands on
//     a principal's own word alone is verified for everybody by support (I-13);
//   - a source that vanished, or is not what was pinned, refutes nothing: what it
//     verified is stale, and checked again;
//   - a value that says that nothing is known ([memory.SaysNothing]) neither supports nor
//     refutes.
func Next(row memory.Row, v verifier.Verdict) Move { return next(row, v, memory.SaysNothing) }

// next is Next where saysNothing says of a value whether it says that nothing is known.
func next(row memory.Row, v verifier.Verdict, saysNothing func(object string) bool) Move {
	if v.Check() != nil {
		return Move{Reason: "the verdict is malformed"}
	}
	f := memory.Facts{Event: memory.EventAnswered, Row: row.Head, Content: row.Content, Standing: row.Evidence, Answer: memory.Answer{
		Outcome: outcomes[v.Outcome], Evidence: v.Evidence, Heard: v.Heard,
		Exact:   row.Content.Typed() && v.Observed != "" && memory.SameName(v.Observed, row.Content.Object),
		Nothing: v.Observed != "" && saysNothing(v.Observed),
	}}
	f.Nothing = row.Content.Typed() && saysNothing(row.Content.Object)
	if row.Rejection != nil {
		f.Reach = memory.ReachesName
	}
	j := memory.Judge(f)
	return Move{j.Ask, j.Answered, j.Reason}
}

var outcomes = map[verifier.Outcome]memory.Outcome{verifier.Supported: memory.AnswerSupports, verifier.Refuted: memory.AnswerRefutes,
	verifier.Gone: memory.AnswerGone, verifier.Unclear: memory.AnswerUnclear}
