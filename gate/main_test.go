package gate_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/internal/teststore"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

func TestMain(m *testing.M) {
	server.Together(6)
	testmain.Run(m, teststore.Stop)
}

// clock0 is where the clocks of the tests stand.
var clock0 = time.Date(2026, 4, 17, 9, 0, 0, 0, time.UTC)

// id makes a row id that says its name.
func id(name string) memory.ID {
	const width = 26
	return memory.ID("mem_" + strings.Repeat("0", width-1-len(name)) + name + "0") // the last of an id has two bits that are 0
}

// verified is the head of a row that is fit for anything.
func verified(name string) memory.Head {
	return memory.Head{
		ID: id(name), Revision: 3, Origin: memory.OriginFirstHand, Truth: memory.TruthSupported, Retrieval: memory.RetrievalNormal,
		Security: memory.SecurityClean, Freshness: memory.FreshnessFresh, Outage: memory.OutageNone, Sensitivity: memory.SensitivityInternal,
		Criticality: memory.CriticalityHigh, Kind: memory.KindRaw, Layer: memory.LayerEpisodic, Rank: memory.RankTool,
		CreatedAt: clock0.Add(-2 * time.Hour), VerifiedAt: clock0.Add(-time.Hour), StaleAt: clock0.Add(30 * 24 * time.Hour), ExpiresAt: clock0.Add(90 * 24 * time.Hour),
	}
}

func unverified(name string) memory.Head {
	h := verified(name)
	h.Truth, h.Rank, h.VerifiedAt = memory.TruthUnverified, 0, time.Time{}
	return h
}

// fake is a store of heads and rows, whose answers a test may spoil.
type fake struct {
	mu       sync.Mutex
	heads    map[memory.ID]memory.Head
	rows     map[memory.ID]memory.Row
	records  []memory.DecisionRecord
	outcomes []string
	tries    int
	fitness  func(context.Context, []memory.ID, memory.Fitness) (memory.Fitness, error)
	record   func(context.Context, memory.DecisionRecord) error
	get      func(context.Context, []memory.ID) error
	decision int
}

func newFake(heads ...memory.Head) *fake {
	f := &fake{heads: map[memory.ID]memory.Head{}, rows: map[memory.ID]memory.Row{}}
	for _, h := range heads {
		f.heads[h.ID] = h
		f.rows[h.ID] = memory.Row{Head: h, Asserter: memory.Asserter{Principal: "writer", Model: "sonnet-4.6", Family: "claude"}}
	}
	return f
}

// says gives a row its content and parents.
func (f *fake) says(id memory.ID, c memory.Content, from ...memory.ID) {
	r := f.rows[id]
	r.Content, r.DerivedFrom = c, from
	f.rows[id] = r
}

func (f *fake) FitnessFor(ctx context.Context, ids []memory.ID, _, _ memory.Digest) (memory.Fitness, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fit := memory.Fitness{Now: clock0, Epoch: 7}
	for _, id := range ids {
		h := f.heads[id]
		h.ID = id
		fit.Heads = append(fit.Heads, h)
	}
	if f.fitness != nil {
		return f.fitness(ctx, ids, fit)
	}
	return fit, nil
}

func (f *fake) Record(ctx context.Context, r memory.DecisionRecord) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries++
	if f.record != nil {
		if err := f.record(ctx, r); err != nil {
			return err
		}
	}
	f.records = append(f.records, r)
	return nil
}

func (f *fake) RecordOutcome(_ context.Context, decision string, outcome memory.CallOutcome, _ string, _ ...memory.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outcomes = append(f.outcomes, decision+" "+outcome.String())
	return nil
}

func (f *fake) Get(ctx context.Context, ids ...memory.ID) ([]memory.Row, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.get != nil {
		if err := f.get(ctx, ids); err != nil {
			return nil, err
		}
	}
	var out []memory.Row
	for _, id := range ids {
		r, ok := f.rows[id]
		if !ok {
			return nil, fmt.Errorf("%w: %s", memory.ErrNotFound, id)
		}
		out = append(out, r)
	}
	return out, nil
}

// Standing and Granted: a fake keeps no held calls.
func (f *fake) Standing(context.Context, memory.Digest) (memory.Standing, error) {
	return memory.Standing{}, nil
}

func (f *fake) Granted(context.Context, string, int) ([]memory.Hold, error) { return nil, nil }

func (f *fake) Now() time.Time { return clock0 }

func (f *fake) NewDecisionID() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decision++
	return fmt.Sprintf("blk_%026d", f.decision)
}

// declared is a policy under which every declared tool runs.
func declared() gate.Policy { return gate.Policy{Name: "prod", Version: "7", Declared: true} }

// newGate returns a gate whose decisions have an hour, unless o says another time.
func newGate(t testing.TB, s gate.Store, p gate.Policy, o *gate.Options) *gate.Gate {
	t.Helper()
	options := gate.Options{}
	if o != nil {
		options = *o
	}
	if options.Timeout == 0 {
		options.Timeout = time.Hour
	}
	g, err := gate.New(s, p, &options)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// mail asks to send an e-mail to an address that the principal typed, from rows.
func mail(direct ...memory.ID) gate.Request {
	return gate.Request{
		Contract: gate.Contract{Tool: "send_email", Effect: gate.Irreversible, Sinks: []string{"/to"}},
		Args:     []byte(`{"body":"private words","to":"ops@acme.example"}`), CallID: "call_Qm3", Agent: "support-1", Run: "ses_91", Principal: "ana",
		Lineage: gate.Known(direct, nil), Sinks: []gate.Sink{{Pointer: "/to", Value: "ops@acme.example", Source: gate.SourcePrincipal}},
	}
}

var runs atomic.Uint64

// apart is the request in a run of its own: of two equal calls in one run that cannot
// be undone, the second waits for the outcome of the first.
func apart(req gate.Request) gate.Request {
	req.Run = fmt.Sprintf("ses_%d", runs.Add(1))
	return req
}

var letters atomic.Uint64

// another is mail with other words, in the same run.
func another(direct ...memory.ID) gate.Request {
	req := mail(direct...)
	req.Args = fmt.Appendf(nil, `{"body":"private words %d","to":"ops@acme.example"}`, letters.Add(1))
	return req
}

// world is a real store with a clock that moves a microsecond a look.
type world struct {
	*memory.Store
	mu  sync.Mutex
	now time.Time
}

func newWorld(t testing.TB) *world {
	w := &world{now: clock0}
	w.Store = storetest.NewStore(&memory.Options{
		Clock: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.now = w.now.Add(time.Microsecond)
			return w.now
		},
		Authority: func(string, string, string) bool { return true },
	})
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) put(t testing.TB, d memory.Draft) memory.ID {
	t.Helper()
	r, err := w.Put(context.Background(), d)
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

func triple(subject, predicate, object string) memory.Content {
	return memory.Content{Subject: subject, Predicate: predicate, Object: object, Cardinality: memory.CardinalityUnknown}
}

// fromTool is a fact that a tool is the system of record for.
func (w *world) fromTool(c memory.Content) memory.Draft {
	by := memory.Asserter{Principal: "writer", Tool: "crm"}
	return memory.Draft{Content: c, Origin: memory.OriginFirstHand, State: memory.StateVerified, Asserter: by, Sensitivity: memory.SensitivityInternal, Anchor: "tool:crm",
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "call", Group: by.Group(),
			Anchor: memory.Anchor{URI: "call:1"}, At: clock0}}}
}

// fromModel is a fact that a model made up, from rows.
func (w *world) fromModel(c memory.Content, from ...memory.ID) memory.Draft {
	return memory.Draft{Content: c, Origin: memory.OriginModelDerived, State: memory.StateUnverified, DerivedFrom: from,
		Asserter: memory.Asserter{Principal: "writer", Model: "sonnet-4.6", Family: "claude"}, Sensitivity: memory.SensitivityInternal}
}
