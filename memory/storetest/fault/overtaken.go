package fault

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// Overtaking is how a server comes to lack what it acknowledged.
type Overtaking struct {
	Driver memory.Driver
	// Keep must see to it that what is written from now on is missing later: a replica
	// is cut off, a copy is made.
	Keep func() error
	// Lose must make it missing: the replica becomes the master, the copy is put back.
	Lose func() error
}

// Overtaken asks that a store which lost acknowledged demotions and an erasure lets no
// call pass its gate until it has recovered, if it has a witness. Beside it is a store
// on the same server without one: it logs how many calls fired there on rows whose
// demotion was acknowledged, and fails if none did.
func Overtaken(t *testing.T, o Overtaking) {
	t.Helper()
	const rows = 12
	w, err := audit.CreateWitness(filepath.Join(t.TempDir(), "witness"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var guarded, bare *overtaken
	for tenant, to := range map[string]**overtaken{"guarded": &guarded, "bare": &bare} {
		options := &memory.Options{Tenant: tenant, Authority: func(string, string, string) bool { return true }}
		if tenant == "guarded" {
			options.Witness = w.Ledger(tenant, "")
		}
		if *to, err = newOvertaken(t.Context(), o.Driver, options, rows); err != nil {
			t.Fatal(err)
		}
		fired, _ := (*to).fired(t.Context(), (*to).demoted)
		if fired != rows {
			t.Fatalf("before, %d of %d calls fire", fired, rows)
		}
	}
	if err := o.Keep(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*overtaken{guarded, bare} {
		if err := s.harm(t.Context()); err != nil {
			t.Fatal(err)
		}
		if fired, _ := s.fired(t.Context(), s.demoted); fired != 0 {
			t.Fatalf("%d calls fire on rows that were demoted", fired)
		}
	}
	if err := o.Lose(); err != nil {
		t.Fatal(err)
	}
	// Another master is looked for. A Sentinel whose process gets no processor for two
	// seconds votes for nobody for 30 seconds after that (TILT).
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err = o.Driver.Get(t.Context(), "bare", []string{"k"}); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no server answers: %v", err)
		}
	}

	unsafe, _ := bare.fired(t.Context(), bare.demoted)
	for _, group := range [][]memory.ID{guarded.demoted, guarded.erased, guarded.kept} {
		fired, last := guarded.fired(t.Context(), group)
		if fired > 0 || !errors.Is(last, memory.ErrBehind) {
			t.Fatalf("%d calls fire on a store that is behind its witness (%v)", fired, last)
		}
	}
	if fired, _ := bare.fired(t.Context(), bare.kept); fired != len(bare.kept) {
		t.Fatalf("without a witness %d of %d calls fire on rows that nothing happened to", fired, len(bare.kept))
	}

	done, err := guarded.Recover(t.Context(), "operator")
	if err != nil || done.Demoted != rows || done.Erased != len(guarded.erased) {
		t.Fatalf("recovered %+v, want %d demoted and %d erased (%v)", done, rows, len(guarded.erased), err)
	}
	if fired, _ := guarded.fired(t.Context(), guarded.demoted); fired != 0 {
		t.Fatalf("%d calls fire on demoted rows after the store has recovered", fired)
	}
	if fired, last := guarded.fired(t.Context(), guarded.kept); fired != len(guarded.kept) {
		t.Fatalf("%d of %d calls fire after the store has recovered (%v)", fired, len(guarded.kept), last)
	}
	for _, id := range guarded.erased {
		if _, err := guarded.Get(t.Context(), id); !errors.Is(err, memory.ErrErased) {
			t.Fatalf("what was erased is back: %v", err)
		}
	}
	if _, err := guarded.Verify(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	t.Logf("faults: %d demotions and an erasure of %d rows were acknowledged and lost: with a witness no call fired, without one %d of %d did", rows, len(guarded.erased), unsafe, rows)
	if unsafe == 0 {
		t.Error("nothing was lost: the test shows nothing")
	}
}

// overtaken is a store with a gate, and rows of which some will lose their trust.
type overtaken struct {
	*memory.Store
	gate                  *gate.Gate
	demoted, erased, kept []memory.ID
}

func newOvertaken(ctx context.Context, d memory.Driver, options *memory.Options, rows int) (*overtaken, error) {
	s := &overtaken{}
	var err error
	if s.Store, err = memory.New(d, keyring.Ephemeral(), options); err != nil {
		return nil, err
	}
	if s.gate, err = gate.New(s.Store, gate.Policy{Name: "prod", Version: "1", Declared: true}, &gate.Options{Timeout: time.Hour}); err != nil {
		return nil, err
	}
	put := func(to *[]memory.ID, d memory.Draft) {
		if err == nil {
			var r memory.Receipt
			r, err = s.Put(ctx, d)
			*to = append(*to, r.ID)
		}
	}
	for i := range rows {
		put(&s.demoted, byTool(says(fmt.Sprint("client ", i), "email", "a@b.example")))
	}
	put(&s.kept, byTool(acme))
	put(&s.kept, byTool(says("bolt", "email", "b@bolt.example")))
	put(&s.erased, byTool(says("eve", "lives in", "Oslo")))
	if err == nil {
		put(&s.erased, byModel(says("parcel 1", "goes to", "Oslo"), s.erased[0]))
	}
	return s, err
}

// harm takes the trust of the rows away, each in a way of its own, and erases.
func (s *overtaken) harm(ctx context.Context) error {
	for i, id := range s.demoted {
		t := memory.Transition{Row: id, Revision: 1, Actor: "ana", Source: "form", Reason: "wrong", Authority: memory.AuthorityUser}
		t.To = []memory.AxisValue{memory.TruthContradicted, memory.SecurityQuarantined, memory.TruthUnverified, memory.RetrievalBlocked}[i%4]
		t.Reject = i%8 == 0
		if _, err := s.Apply(ctx, t); err != nil {
			return err
		}
	}
	_, err := s.Erase(ctx, memory.Erasure{Subject: "eve", Request: "R-1", Actor: "dpo"})
	return err
}

// fired counts the calls that the gate lets pass, one on each row, and returns why
// the last one that it did not was not.
func (s *overtaken) fired(ctx context.Context, rows []memory.ID) (n int, last error) {
	for _, id := range rows {
		run := s.NewDecisionID() // and words of its own: nobody says how these calls end
		d := s.gate.Decide(ctx, gate.Request{Contract: gate.Contract{Tool: "send_email", Effect: gate.Irreversible, Sinks: []string{"/to"}}, Principal: "ana", Run: run,
			Args: fmt.Appendf(nil, `{"body":%q,"to":"a@b.example"}`, run), Lineage: gate.Known([]memory.ID{id}, nil), Sinks: []gate.Sink{{Pointer: "/to", Source: gate.SourceRow, Row: id}}})
		if d.Outcome == gate.Permit && !d.Blocked() {
			n++
		} else {
			last = d.Err()
		}
	}
	return n, last
}
