package gate_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// What one look clears must be what nothing is found of, one reason after the other: for
// a row that is fit, and for all that differ from it in one or two respects.
func TestOneLookClearsARowOfWhichNothingIsFound(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const id = memory.ID("row")
	fit := memory.Head{ID: id, Revision: 3, Truth: memory.TruthSupported, Rank: memory.RankUser, Security: memory.SecurityClean,
		Retrieval: memory.RetrievalNormal, Freshness: memory.FreshnessFresh, Sensitivity: memory.SensitivityInternal, VerifiedAt: now.Add(-time.Minute)}
	type change func(*memory.Head)
	var fields [][]change
	field := func(values int, set func(h *memory.Head, n int)) {
		all := make([]change, values)
		for n := range all {
			all[n] = func(h *memory.Head) { set(h, n) }
		}
		fields = append(fields, all)
	}
	at := func(n int) time.Time {
		return [...]time.Time{{}, now.Add(-time.Hour), now, now.Add(time.Microsecond), now.Add(time.Hour)}[n]
	}
	const values = 10 // more than any of the enumerations has
	field(2, func(h *memory.Head, n int) { h.ID = [...]memory.ID{id, "another"}[n] })
	field(2, func(h *memory.Head, n int) { h.Revision = uint64(n) })
	field(values, func(h *memory.Head, n int) { h.Truth = memory.Truth(n) })
	field(values, func(h *memory.Head, n int) { h.Rank = memory.Rank(n) })
	field(values, func(h *memory.Head, n int) { h.Security = memory.Security(n) })
	field(values, func(h *memory.Head, n int) { h.Retrieval = memory.Retrieval(n) })
	field(values, func(h *memory.Head, n int) { h.Freshness = memory.Freshness(n) })
	field(values, func(h *memory.Head, n int) { h.Sensitivity = memory.Sensitivity(n) })
	field(256, func(h *memory.Head, n int) { h.Flags = memory.Flags(n) })
	field(5, func(h *memory.Head, n int) { h.ExpiresAt = at(n) })
	field(5, func(h *memory.Head, n int) { h.ValidUntil = at(n) })
	field(5, func(h *memory.Head, n int) { h.StaleAt = at(n) })
	field(5, func(h *memory.Head, n int) { h.VerifiedAt = at(n) })

	judged, permitted, until := 0, 0, 0
	for _, c := range []gate.Contract{
		{Effect: gate.ReadOnly}, {Effect: gate.StateChanging}, {Effect: gate.Irreversible},
		{Effect: gate.Irreversible, Privileged: true}, {Effect: gate.StateChanging, MaxAge: time.Hour}, {Effect: gate.StateChanging, MaxAge: -1},
		{Effect: gate.Irreversible, Ceiling: memory.SensitivitySecret},
	} {
		for i, first := range fields {
			for _, second := range fields[i:] {
				for _, one := range first {
					for _, two := range second {
						h := fit
						one(&h)
						two(&h)
						quick, quickUntil := gate.Directly(c, now, h, id)
						slow, slowUntil := gate.Weighed(c, now, h, id)
						if !quickUntil.Equal(slowUntil) || quick.Fault != slow.Fault || !reflect.DeepEqual(quick.Reasons, slow.Reasons) || quick.Outcome != slow.Outcome {
							t.Fatalf("%+v\n%+v\nat one look: %v until %v\nby reasons: %v until %v", c, h, quick.Reasons, quickUntil, slow.Reasons, slowUntil)
						}
						judged++
						if len(slow.Reasons) == 0 {
							permitted++
						}
						if !slowUntil.IsZero() {
							until++
						}
					}
				}
			}
		}
	}
	if permitted == 0 || permitted == judged || until == 0 {
		t.Fatalf("%d of %d rows are fit, %d until a time", permitted, judged, until)
	}
	t.Logf("%d heads, %d of them fit, %d until a time", judged, permitted, until)
}
