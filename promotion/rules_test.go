package promotion_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier"
)

// verdict of a rank and group, complete.
func verdict(o verifier.Outcome, rank memory.Rank, group string) verifier.Verdict {
	relation := memory.RelationSupports
	if o == verifier.Refuted {
		relation = memory.RelationContradicts
	}
	return verifier.Verdict{Outcome: o, Evidence: memory.Evidence{Relation: relation, Rank: rank, Source: "s", Verifier: "v",
		Group: group, Anchor: memory.Anchor{URI: "s:1"}, At: time.Unix(1, 0)}}
}

func standing(truth memory.Truth, rank memory.Rank, by string) memory.Row {
	row := memory.Row{Head: memory.Head{Revision: 1, Truth: truth, Rank: rank}}
	if by != "" {
		row.Evidence = []memory.Evidence{{Relation: memory.RelationSupports, Rank: rank, Group: by}}
	}
	return row
}

// The whole rule of SR-4.7: what stands, who speaks, and what it says.
func TestRankDecidesWhatAVerdictDoes(t *testing.T) {
	rejected := standing(memory.TruthContradicted, 0, "")
	rejected.Rejection = &memory.Rejection{By: "ana"}
	voided := standing(memory.TruthSupported, memory.RankTool, "other")
	voided.Evidence = append(voided.Evidence, memory.Evidence{Relation: memory.RelationSupports, Rank: memory.RankTool, Group: "asked", Void: true})

	disputed := standing(memory.TruthContradicted, 0, "")
	disputed.Evidence = []memory.Evidence{{Relation: memory.RelationContradicts, Rank: memory.RankTool, Group: "other"}}
	recanted := standing(memory.TruthContradicted, 0, "")
	recanted.Evidence = []memory.Evidence{{Relation: memory.RelationContradicts, Rank: memory.RankTool, Group: "asked"}}

	outdated := standing(memory.TruthSuperseded, 0, "")
	outdated.Flags |= memory.FlagOutdated

	const N, K, P, D = promotion.Nothing, promotion.Keep, promotion.Promote, promotion.Demote
	type by [4]promotion.Action // model, second model, tool, primary source
	ranks := [4]memory.Rank{memory.RankModel, memory.RankSecondModel, memory.RankTool, memory.RankPrimarySource}
	for _, c := range []struct {
		name                  string
		row                   memory.Row
		supports, contradicts by
	}{
		{"an unverified row", standing(memory.TruthUnverified, 0, ""), by{P, P, P, P}, by{K, K, D, D}},
		{"a contradicted row", standing(memory.TruthContradicted, 0, ""), by{P, P, P, P}, by{K, K, K, K}},
		{"a row that another tool contradicts", disputed, by{K, K, K, P}, by{K, K, K, K}}, // SR-7.14
		{"a row that the very tool contradicted", recanted, by{K, K, P, P}, by{K, K, K, K}},
		{"a row that was retracted", standing(memory.TruthSuperseded, 0, ""), by{K, K, K, K}, by{K, K, K, K}},
		{"a row that its own source superseded", outdated, by{P, P, P, P}, by{K, K, K, K}},
		{"a row that a user rejected", rejected, by{K, K, K, K}, by{K, K, K, K}},
		{"a row verified by two models", standing(memory.TruthSupported, memory.RankSecondModel, "other"), by{K, P, P, P}, by{K, K, D, D}},
		{"a row verified by two models, the one asked among them", standing(memory.TruthSupported, memory.RankSecondModel, "asked"), by{K, P, P, P}, by{K, D, D, D}},
		{"a row verified by another tool", standing(memory.TruthSupported, memory.RankTool, "other"), by{K, K, P, P}, by{K, K, K, D}},
		{"a row verified by the very tool", standing(memory.TruthSupported, memory.RankTool, "asked"), by{K, K, P, P}, by{K, K, D, D}},
		{"a row the tool's support of which is void", voided, by{K, K, P, P}, by{K, K, K, D}},
		{"a row verified by another primary source", standing(memory.TruthSupported, memory.RankPrimarySource, "other"), by{K, K, K, P}, by{K, K, K, K}},
		{"a row verified by the very primary source", standing(memory.TruthSupported, memory.RankPrimarySource, "asked"), by{K, K, K, P}, by{K, K, K, D}},
		{"a row verified by a user", standing(memory.TruthSupported, memory.RankUser, "other"), by{K, K, K, K}, by{K, K, K, K}},
		{"a row verified by a user, and by the source asked", standing(memory.TruthSupported, memory.RankUser, "asked"), by{K, K, K, K}, by{K, K, K, K}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, rank := range ranks {
				for outcome, want := range map[verifier.Outcome]promotion.Action{verifier.Supported: c.supports[i], verifier.Refuted: c.contradicts[i]} {
					// Confidence occurs in no condition (SR-4.1, SR-4.4).
					for _, confidence := range []float64{0, 0.5, 1, math.NaN()} {
						row := c.row
						row.ValueConfidence, row.ValidTimeConfidence = confidence, 1-confidence
						got := promotion.Next(row, verdict(outcome, rank, "asked"))
						if got.Action != want || !got.Answered || got.Reason == "" {
							t.Errorf("%s by a %s, confidence %v: %+v, want %s", outcome, rank, confidence, got, want)
						}
					}
				}
				if got := promotion.Next(c.row, verifier.Verdict{Outcome: verifier.Unclear}); got.Action != N || !got.Answered {
					t.Errorf("unclear: %+v", got)
				}
			}
		})
	}
}

func TestAVerdictThatCannotBeActedOnDoesNothing(t *testing.T) {
	row := standing(memory.TruthUnverified, 0, "")
	bare := verdict(verifier.Supported, memory.RankTool, "asked")
	bare.Evidence.Anchor = memory.Anchor{}
	turned := verdict(verifier.Supported, memory.RankTool, "asked")
	turned.Outcome = verifier.Refuted
	for name, v := range map[string]verifier.Verdict{
		"no verdict":                           {},
		"support without evidence":             {Outcome: verifier.Supported},
		"support that rests on nothing":        bare,
		"a refutation that supports":           turned,
		"a verifier that speaks for a user":    verdict(verifier.Supported, memory.RankUser, "user:ana"),
		"a recall that comes back as evidence": verdict(verifier.Supported, memory.RankRecall, "recall"),
		"an outcome nobody knows":              {Outcome: 9},
	} {
		t.Run(name, func(t *testing.T) {
			if got := promotion.Next(row, v); got.Action != promotion.Nothing || got.Answered || got.Reason == "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestActionsAndStatusesHaveNames(t *testing.T) {
	for got, want := range map[fmt.Stringer]string{
		promotion.Nothing: "nothing", promotion.Keep: "keep", promotion.Promote: "promote", promotion.Demote: "demote", promotion.Age: "age", promotion.Action(9): "nothing",
		promotion.Status(0): "unset", promotion.Promoted: "promoted", promotion.Moved: "moved", promotion.Status(99): "unset",
	} {
		if got.String() != want {
			t.Errorf("%T %v, want %s", got, got, want)
		}
	}
}
