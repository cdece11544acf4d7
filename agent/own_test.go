package agent_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// TestAnotherPrincipalsWordClearsNoCall: what a principal says of itself has rank user in
// calls made for it, and is an unverified claim in calls made for anybody else: it names no
// tool and clears no sink there.
func TestAnotherPrincipalsWordClearsNoCall(t *testing.T) {
	for name, c := range map[string]struct {
		caller string
		fires  bool
	}{"in a call for itself": {"mallory", true}, "in a call for somebody else": {"ana", false}, "in a call for nobody": {"", false}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			type in struct {
				Path string `json:"path"`
			}
			a := w.agentWith(t, "cleaner", w.gate, []agent.Tool{
				agent.Func("wipe", "wipes", func(context.Context, in) (nothing, error) { w.fire("wipe"); return nothing{}, nil },
					agent.Irreversible(), agent.Sinks("/path")),
			}, &agent.Options{Recall: recall.Policy{Channels: recall.All}})
			said := a.Start("mallory")
			typed(t, said, "my folder is /home/ana/ledger")
			r, err := said.Assert(t.Context(), agent.Assertion{Span: "my folder is /home/ana/ledger", Subject: "mallory", Predicate: "folder", Object: "/home/ana/ledger"})
			if err != nil || r.State != memory.StateVerified {
				t.Fatal(r, err)
			}
			run := a.Start(c.caller)
			shown, err := run.Recall(t.Context(), recall.Query{Subject: "mallory", Predicate: "folder"})
			if err != nil || len(shown.Rows) == 0 {
				t.Fatal(shown, err)
			}
			if state := shown.Rows[0].State(); (state == memory.StateVerified) != c.fires {
				t.Errorf("it is shown as %s", state)
			}
			_, err = run.Call(t.Context(), "wipe", args(in{"/home/ana/ledger"}))
			if (err == nil) != c.fires || !c.fires && !errors.Is(err, gate.ErrUnverified) {
				t.Errorf("%v", err)
			}
		})
	}
}
