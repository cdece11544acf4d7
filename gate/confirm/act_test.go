package confirm_test

import (
	"errors"
	"testing"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// Who approves a call knows which other run may have made it. What she signed does not count
// once a further run has.
func TestAnApprovalCountsForWhatItsCardNamed(t *testing.T) {
	for name, early := range map[string]bool{"posted before the call is asked for again": true, "posted after": false} {
		w := newDesk(t, storetest.NewMap(), "")
		defer w.Close()
		ask := func(run string) gate.Decision { return w.decide(w.ask("send", run, "a@b.example")) }
		first := ask("r1")
		if first.Err() != nil {
			t.Fatal(first.Err())
		}
		waits, other := ask("r2"), ask("r3")
		if h, err := w.Hold(t.Context(), waits.HoldID); err != nil || h.Made != first.ID || h.Prior != "" || h.Unknown() != first.ID {
			t.Fatalf("%s: %+v, %v", name, h, err)
		}
		signed := w.said(confirm.Approve, waits.HoldID, "cleo", nil)
		must(t, w.put(w.said(confirm.Approve, other.HoldID, "cleo", nil)))
		second := ask("r3")
		if second.Err() != nil || second.Approval == nil {
			t.Fatal(second.Err())
		}
		if early {
			must(t, w.put(signed))
		}
		again := ask("r2")
		if again.Err() == nil || !again.Has(gate.OutcomeUnknown) || again.Reasons[0].Detail != second.ID || again.Has(gate.ApprovalStale) != early {
			t.Fatalf("%s: %v, %+v", name, again.Err(), again.Reasons)
		}
		var refused *confirm.RefusedError
		if !early {
			if err := w.put(signed); !errors.As(err, &refused) {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if h, err := w.Hold(t.Context(), again.HoldID); err != nil || h.Made != second.ID {
			t.Fatalf("%s: %+v, %v", name, h, err)
		}
		must(t, w.put(w.said(confirm.Approve, again.HoldID, "cleo", nil))) // now she knows
		if d := ask("r2"); d.Err() != nil || d.Approval == nil {
			t.Fatalf("%s: %v", name, d.Err())
		}
	}
}
