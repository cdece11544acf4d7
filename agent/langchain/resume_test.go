package langchain_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/agents"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/langchain"
	"github.com/hearsay-go/hearsay/examples/scripted"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// verify is a worker whose source agrees with a row.
func (w *world) verify(row memory.ID) {
	w.t.Helper()
	rows, err := w.store.Get(w.t.Context(), row)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.store.Apply(w.t.Context(), memory.Transition{Row: row, Revision: rows[0].Revision, To: memory.TruthSupported, Authority: memory.AuthorityProbe,
		Actor: "worker", Source: "crm", Reason: "it agrees", Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool,
			Source: "crm", Verifier: "crm", Group: "tool:crm", Anchor: memory.Anchor{URI: "crm://1"}, At: w.store.Now()}}}); err != nil {
		w.t.Fatal(err)
	}
}

// TestTheResultOfAParkedCallReachesTheExecutor: the observation says that the call
// waits, and the executor is run again on its result.
func TestTheResultOfAParkedCallReachesTheExecutor(t *testing.T) {
	var w *world
	w = newWorld(t, agent.Func("book", "Books a room.", func(_ context.Context, in words) (string, error) {
		w.ran("book")
		return "booked " + in.Words, nil
	}, agent.StateChanging(), agent.FiresWhenFree()))
	row := w.pending("acme", "room", "Blue")
	run := w.agent.Start("ana")
	recalled, err := run.Recall(t.Context(), recall.Query{Subject: "acme", Predicate: "room"})
	if err != nil {
		t.Fatal(err)
	}
	only, err := langchain.Tools(run)
	if err != nil {
		t.Fatal(err)
	}
	m, server := model(t, scripted.Turns(act("book", "Blue"), finish("It waits."), finish("Done.")))
	e := agents.NewExecutor(agents.NewOneShotAgent(m, only))
	if _, _, err := langchain.Resume(t.Context(), run, e); !errors.Is(err, agent.ErrNothingParked) {
		t.Errorf("before: %v", err)
	}
	if _, _, err := langchain.Resume(t.Context(), run, nil); err == nil {
		t.Error("it ran without an executor")
	}
	got, err := langchain.Ask(t.Context(), run, e, agent.Operator(recalled.Text), agent.Typed("Book our room."))
	if err != nil || got != "It waits." || len(w.fired) != 0 || !strings.Contains(server.Requests()[1].Last(), "made by itself once the statement is verified") {
		t.Fatalf("%q, %v, ran %v", got, err, w.fired)
	}
	w.verify(row)
	before := len(run.Lineage().Direct())
	r, got, err := langchain.Resume(t.Context(), run, e)
	if err != nil || got != "Done." || r.Err != nil || r.Tool != "book" || len(w.fired) != 1 || len(run.Lineage().Direct()) <= before {
		t.Fatalf("%+v, %q, %v, ran %v", r, got, err, w.fired)
	}
	if last := server.Requests()[2].Last(); !strings.Contains(last, "The call of book that was waiting ("+r.Hold+") has ended. Its result:\n\nbooked Blue") {
		t.Errorf("the model was shown:\n%s", last)
	}
}
