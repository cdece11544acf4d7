package gate

import (
	"slices"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
)

// TestI4ACallSaysWhatItSetsOnlyWhereSomethingWasExcused goes through the ways in which a call
// fires.
func TestI4ACallSaysWhatItSetsOnlyWhereSomethingWasExcused(t *testing.T) {
	row, other := memory.ID("mem_000000000000000000000000a0"), memory.ID("mem_000000000000000000000000b0")
	amount, note := Write{Pointer: "/amount", OwnWrite: memory.OwnWrite{Subject: "7", Value: "5"}}, Write{Pointer: "/note", OwnWrite: memory.OwnWrite{Subject: "7", Value: "x"}}
	sinks := []Sink{{Pointer: "/amount", Value: "5", Source: SourcePrincipal}}
	for name, tt := range map[string]struct {
		d      Decision
		writes int
		rows   []memory.ID
		more   bool
	}{
		"its rows are fit":                           {Decision{Outcome: Permit}, 0, nil, false},
		"a row is not, and a note says why it may":   {Decision{Outcome: Permit, Reasons: []Reason{{Code: UnverifiedInput, Row: row}}}, 0, nil, false},
		"a person approved it":                       {Decision{Approval: &Approval{}, Reasons: []Reason{{Code: UnverifiedInput, Row: row}, {Code: StaleInput, Row: row}}}, 2, []memory.ID{row}, false},
		"a person approved an argument from nowhere": {Decision{Approval: &Approval{}, Reasons: []Reason{{Code: FromNowhere, Argument: "/amount"}}}, 2, nil, false},
		"a person approved whose choice it was":      {Decision{Approval: &Approval{}, Reasons: []Reason{{Code: ToolNotChosen}, {Code: BlastTooWide}, {Code: OutcomeUnknown}}}, 0, nil, false},
		"the gate observes":                          {Decision{Observed: true, Reasons: []Reason{{Code: ContradictedInput, Row: row}}}, 2, []memory.ID{row}, false},
		"an unfit row is beside its sinks":           {Decision{Precision: TypedSinks, beside: []memory.ID{other}}, 1, []memory.ID{other}, false},
	} {
		t.Run(name, func(t *testing.T) {
			writes, rows, more := tt.d.ownWrites(&Request{Writes: []Write{amount, note}, Sinks: sinks})
			if len(writes) != tt.writes || !slices.Equal(rows, tt.rows) || more != tt.more {
				t.Errorf("writes %v, rows %v, more %v", writes, rows, more)
			}
		})
	}
	t.Run("every code that speaks against a row taints, or is named here", func(t *testing.T) {
		harmless := []Code{SensitivityExceeded, ClosureTooLarge, ToolNotChosen, BlastTooWide, ToolNotNamed, EffectNotDeclared, SinkLeftOut, PolicyNever, ArgumentsInvalid,
			Undecided, OutcomeUnknown, AlreadyDone, NestedCall, ApprovalRejected, ApprovalStale, ApprovalExpired, ApprovalWithdrawn, ApprovalUsed, ApprovalForeign, ApprovalForged, HoldEnded}
		for _, c := range codes {
			if c.code.taints() == slices.Contains(harmless, c.code) {
				t.Errorf("%s", c.code)
			}
		}
	})
}
