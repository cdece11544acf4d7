package promotion_test

import (
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// imported is a row of a dump that nobody signed.
func (w *world) imported(subject, object string) memory.ID {
	w.t.Helper()
	i, err := w.store.Importing(w.ctx, memory.ImportSource{Name: "elsewhere", Dump: subject, Actor: "op"})
	if err != nil {
		w.t.Fatalf("Importing: %v", err)
	}
	r, err := i.Put(w.ctx, []memory.Imported{{Name: subject, WrittenAt: w.clock().Add(-200 * 24 * time.Hour), Draft: memory.Draft{
		Content: memory.Content{Subject: subject, Predicate: "city", Object: object, Cardinality: memory.CardinalityFunctional},
		Origin:  memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
		Asserter: memory.Asserter{Principal: "agent", Model: "m-1", Family: "m"},
	}}}, func([]memory.ImportReceipt) []byte { return nil })
	if err != nil || r[0].Err != nil {
		w.t.Fatalf("Put: %v %+v", err, r)
	}
	return r[0].ID
}

// TestAVerifierThatAgreesEndsWhatAnImportIsRestrictedFor is LS-14.
func TestAVerifierThatAgreesEndsWhatAnImportIsRestrictedFor(t *testing.T) {
	w := newWorld(t)
	worker := w.worker(nil, source(verifiertest.New("crm", verifiertest.Supports(), verifiertest.Supports(), verifiertest.Refutes("Rome"))))

	agreed := w.imported("acme", "Oslo")
	if r := w.row(agreed); r.Retrieval != memory.RetrievalRestricted || r.FreshnessAt(w.clock()) != memory.FreshnessExpired {
		t.Fatalf("it lands %s and %s", r.Retrieval, r.FreshnessAt(w.clock()))
	}
	w.want(agreed, memory.StateVerified, w.check(worker, agreed), promotion.Promoted)
	if r := w.row(agreed); r.Retrieval != memory.RetrievalNormal || r.Has(memory.FlagImported) || r.FreshnessAt(w.clock()) != memory.FreshnessFresh {
		t.Errorf("the source agrees, and it is %s and %s", r.Retrieval, r.FreshnessAt(w.clock()))
	}
	moves := w.moves(agreed)
	last := moves[len(moves)-1]
	if last.Axis != memory.AxisRetrieval || last.Authority != memory.AuthorityProbe || last.To != memory.RetrievalNormal.String() {
		t.Errorf("the last move is %+v", last)
	}

	kept := w.imported("bird", "Oslo") // a person put it there on purpose
	for _, to := range []memory.Retrieval{memory.RetrievalHidden, memory.RetrievalRestricted} {
		if _, err := w.store.Apply(w.ctx, memory.Transition{Row: kept, Revision: w.row(kept).Revision, To: to, Authority: memory.AuthorityUser, Actor: "bird", Source: "user:bird", Reason: "not to everybody"}); err != nil {
			t.Fatal(err)
		}
	}
	w.want(kept, memory.StateVerified, w.check(worker, kept), promotion.Promoted)
	if r := w.row(kept); r.Retrieval != memory.RetrievalRestricted {
		t.Errorf("a verifier moved what a person had restricted to %s", r.Retrieval)
	}

	wrong := w.imported("cold", "Oslo")
	w.want(wrong, memory.StateUnverified, w.check(worker, wrong), promotion.Demoted)
	if r := w.row(wrong); r.Retrieval != memory.RetrievalRestricted {
		t.Errorf("the source disagrees, and it is %s", r.Retrieval)
	}
}
