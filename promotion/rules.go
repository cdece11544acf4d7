package promotion

import (
	"slices"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

// Action is what a verdict leads to. The zero value does nothing.
type Action uint8

// The actions.
const (
	Nothing Action = iota // the verdict says nothing about the claim
	Keep                  // keep the evidence; no state moves by it
	Promote               // ask the store to verify the row
	Demote                // take the verified state away, or record a refutation
	Age                   // what verified the row is gone: it is stale, and still verified
	Renew                 // ask the store to let the row be fresh for longer; who verified it stays
)

var actionNames = [...]string{"nothing", "keep", "promote", "demote", "age", "renew"}

// String returns nothing, keep, promote, demote, age or renew.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return actionNames[Nothing]
}

// Move is what to do about a row.
type Move struct {
	Action Action
	// Answered says that a verifier answered, whatever it said: an outage recorded
	// at the write is over.
	Answered bool
	Reason   string
}

// Next is the rule. It is pure: the row as it stands, one verdict, one move. Rank
// decides, confidence does not occur (SR-4.1, SR-4.4):
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
//     verified is stale, and checked again.
func Next(row memory.Row, v verifier.Verdict) Move {
	if v.Check() != nil {
		return Move{Reason: "the verdict is malformed"}
	}
	switch v.Outcome {
	case verifier.Supported:
		return support(row, v)
	case verifier.Refuted:
		return refute(row, v.Evidence)
	case verifier.Gone:
		return gone(row, v.Evidence)
	case verifier.Unclear:
		if len(v.Heard) > 0 {
			return Move{Keep, true, "those who were asked do not agree, or are too few"}
		}
		return Move{Answered: true, Reason: "the verifier could not tell"}
	}
	return Move{Reason: "no verdict"}
}

func support(row memory.Row, v verifier.Verdict) Move {
	e := v.Evidence
	switch {
	case row.Rejection != nil:
		return Move{Keep, true, "a user rejected the claim; dissent is reported"}
	case row.Truth == memory.TruthSuperseded && !row.Has(memory.FlagOutdated):
		return Move{Keep, true, "the row was superseded"}
	case row.Has(memory.FlagOwnWord):
		return Move{Promote, true, "an independent source agrees with the principal's own word"}
	case row.Truth == memory.TruthSupported && e.Rank < row.Rank && e.Rank >= memory.RankTool && exactly(row, v):
		return Move{Renew, true, "a source agrees still with what was verified"}
	case row.Truth == memory.TruthSupported && row.Rank == memory.RankUser:
		return Move{Keep, true, "a user verified the row; agreement is reported"}
	case row.Truth != memory.TruthSupported && disputed(row, v):
		return Move{Keep, true, "another source of the same or a higher rank says otherwise"}
	case row.Truth == memory.TruthSupported && e.Rank < row.Rank:
		return Move{Keep, true, "a source of higher rank verified the row; agreement is kept"}
	}
	return Move{Promote, true, "an independent source agrees"}
}

// exactly reports whether the source gave the very value of the row.
func exactly(row memory.Row, v verifier.Verdict) bool {
	return row.Content.Typed() && v.Observed != "" && memory.SameName(v.Observed, row.Content.Object)
}

func refute(row memory.Row, e memory.Evidence) Move {
	switch {
	case row.Rejection != nil, row.Truth == memory.TruthSuperseded:
		return Move{Keep, true, "the row is not believed any more"}
	case row.Truth == memory.TruthContradicted:
		return Move{Keep, true, "contradicted once more"}
	case row.Truth == memory.TruthUnverified && e.Rank >= memory.RankTool:
		return Move{Demote, true, "a source says otherwise"}
	case row.Truth == memory.TruthUnverified:
		return Move{Keep, true, "a model disagrees"}
	case row.Rank == memory.RankUser:
		return Move{Keep, true, "a user verified the row; dissent is reported"}
	case e.Rank > row.Rank:
		return Move{Demote, true, "a source of higher rank says otherwise"}
	case e.Rank == row.Rank && saidIt(row, e.Group):
		return Move{Demote, true, "the source that verified it now says otherwise"}
	case e.Rank == row.Rank:
		return Move{Keep, true, "a source of the same rank says otherwise"}
	}
	return Move{Keep, true, "a source of lower rank says otherwise"}
}

func gone(row memory.Row, e memory.Evidence) Move {
	if row.Truth == memory.TruthSupported && row.Freshness == memory.FreshnessFresh && row.Rank == e.Rank && saidIt(row, e.Group) {
		return Move{Age, true, "what verified the row is gone, or is not what was pinned"}
	}
	return Move{Keep, true, "a source is gone, and the row does not rest on it"}
}

// saidIt reports whether a group's support stands behind the row.
func saidIt(row memory.Row, group string) bool {
	return slices.ContainsFunc(row.Evidence, func(e memory.Evidence) bool {
		return e.Relation == memory.RelationSupports && !e.Void && e.Group == group
	})
}

// disputed reports whether the last word of a group, of the same rank as the verdict
// or a higher one, contradicts the row, and the verdict is not that group's new word.
func disputed(row memory.Row, v verifier.Verdict) bool {
	open := map[string]memory.Rank{}
	for _, said := range slices.Concat(row.Evidence, v.Said()) {
		switch {
		case said.Void:
		case said.Relation == memory.RelationContradicts:
			open[said.Group] = said.Rank
		case said.Relation == memory.RelationSupports && said.Rank >= open[said.Group]:
			delete(open, said.Group)
		}
	}
	for _, rank := range open {
		if rank >= v.Evidence.Rank {
			return true
		}
	}
	return false
}
