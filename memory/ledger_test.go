package memory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// written keeps the last batch.
type written struct {
	memory.Driver
	last    memory.Batch
	refused int
}

func (w *written) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	w.last = b
	err := w.Driver.Apply(ctx, tenant, b)
	if err != nil {
		w.refused++
	}
	return err
}

func (w *written) terms() (n int) {
	for _, p := range w.last.Puts {
		n += len(p.Add)
	}
	return n
}

// ledgers is some processes on one store, and what their decisions cited.
type ledgers struct {
	t         testing.TB
	driver    *written
	keys      memory.Keys
	stores    []*memory.Store
	rows      []memory.ID
	subjects  map[memory.ID]string
	decisions map[string]map[memory.ID]uint64
	fired     map[string]bool
}

func newLedgers(t testing.TB) *ledgers {
	l := &ledgers{t: t, driver: &written{Driver: storetest.NewMap()}, keys: keyring.Ephemeral(), subjects: map[memory.ID]string{},
		decisions: map[string]map[memory.ID]uint64{}, fired: map[string]bool{}}
	l.open()
	l.open()
	return l
}

func (l *ledgers) open() *memory.Store {
	s, err := memory.New(l.driver, l.keys, &memory.Options{Namespace: "n", Authority: func(string, string, string) bool { return true }})
	if err != nil {
		l.t.Fatal(err)
	}
	l.stores = append(l.stores, s)
	return s
}

func (l *ledgers) add(subject string) {
	l.write(subject, toolDraft(says(subject, fmt.Sprint("p", len(l.rows)), "x"), "crm"))
}

// name adds a row that is about nobody, and only names a subject.
func (l *ledgers) name(subject string) {
	l.write(subject, modelDraft(memory.Content{Text: fmt.Sprintf("Call %d was for %s.", len(l.rows), subject), Cardinality: memory.CardinalityUnknown}))
}

func (l *ledgers) write(subject string, d memory.Draft) {
	r, err := l.stores[0].Put(context.Background(), d)
	if err != nil {
		l.t.Fatal(err)
	}
	l.rows = append(l.rows, r.ID)
	l.subjects[r.ID] = subject
}

func (l *ledgers) heads(ids []memory.ID) memory.Fitness {
	f, err := l.stores[0].Fitness(context.Background(), ids)
	if err != nil {
		l.t.Fatal(err)
	}
	return f
}

func (l *ledgers) decide(s *memory.Store, run string, fired bool, ids []memory.ID) {
	f := l.heads(ids)
	r := memory.DecisionRecord{ID: s.NewDecisionID(), Tool: "mail", Run: run, Fired: fired, Epoch: f.Epoch, Data: []byte(`{"n":1}`)}
	cites := map[memory.ID]uint64{}
	for i, id := range ids {
		r.Rows = append(r.Rows, memory.Cited{Row: id, Revision: f.Heads[i].Revision, Class: f.Heads[i].Class})
		cites[id] = f.Heads[i].Revision
	}
	if err := s.Record(context.Background(), r); err != nil {
		l.t.Fatal(err)
	}
	l.decisions[r.ID], l.fired[r.ID] = cites, fired
}

func (l *ledgers) move(id memory.ID) {
	h := l.heads([]memory.ID{id}).Heads[0]
	to := memory.AxisValue(memory.SecuritySuspicious)
	if h.Security != memory.SecurityClean {
		to = memory.SecurityClean
	}
	if _, err := l.stores[0].Apply(context.Background(), memory.Transition{Row: id, Revision: h.Revision, To: to, Authority: memory.AuthorityUser, Actor: "ana", Source: "test", Reason: "test"}); err != nil {
		l.t.Fatal(err)
	}
}

// check compares what a store says of its decisions with what was recorded.
func (l *ledgers) check(s *memory.Store) {
	l.t.Helper()
	all, err := s.Decisions(context.Background())
	if err != nil || len(all) != len(l.decisions) {
		l.t.Fatalf("%d decisions, want %d: %v", len(all), len(l.decisions), err)
	}
	for _, r := range all {
		got := map[memory.ID]uint64{}
		for _, c := range r.Rows {
			got[c.Row] = c.Revision
		}
		if !maps.Equal(got, l.decisions[r.ID]) || len(r.Rows) != len(got) {
			l.t.Fatalf("decision %s cites %v, want %v", r.ID, r.Rows, l.decisions[r.ID])
		}
	}
	for i := 0; i < len(l.rows); i += 1 + len(l.rows)/40 {
		id := l.rows[i]
		cited, err := s.DecisionsCiting(context.Background(), id)
		if err != nil {
			l.t.Fatal(err)
		}
		harmed := l.harmed(s, id)
		want := 0
		for _, cites := range l.decisions {
			if cites[id] > 0 {
				want++
			}
		}
		for i, c := range cited {
			at := l.decisions[c.ID][id]
			if at == 0 || c.Dependent != (l.fired[c.ID] && at < harmed) || i > 0 && cited[i-1].At.Before(c.At) {
				l.t.Fatalf("%s of %s at %d, harmed at %d: %+v", c.ID, id, at, harmed, c)
			}
		}
		if len(cited) != want {
			l.t.Fatalf("%d decisions cite %s, want %d", len(cited), id, want)
		}
	}
}

func (l *ledgers) harmed(s *memory.Store, id memory.ID) (at uint64) {
	log, err := s.History(context.Background(), id, false)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, e := range log {
		if e.Kind == memory.EntryTransition && e.To == memory.SecuritySuspicious.String() {
			at = e.Revision
		}
	}
	return at
}

// TestI11DecisionsAreFoundThroughTheirLedger: whatever is kept of the rows of
// decisions as segments, every reader sees each decision with exactly the rows and
// versions that were recorded: another process, after a rebuild, and after an erasure,
// which takes exactly the decisions that cite what is erased.
func TestI11DecisionsAreFoundThroughTheirLedger(t *testing.T) {
	ctx := t.Context()
	segments, decisions := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		l := newLedgers(t)
		ledger := map[string][]memory.ID{}
		for range rapid.IntRange(1, 10).Draw(rt, "steps") {
			run := rapid.SampledFrom([]string{"a", "b", ""}).Draw(rt, "run")
			s := l.stores[rapid.IntRange(0, 1).Draw(rt, "process")]
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0: // it reads more
				for range rapid.IntRange(1, 30).Draw(rt, "more") {
					if n := rapid.IntRange(0, 4).Draw(rt, "subject"); n < 4 {
						l.add(fmt.Sprint("person", n))
					} else {
						l.name("person1")
					}
					ledger[run] = append(ledger[run], l.rows[len(l.rows)-1])
				}
			case 1:
				for range rapid.IntRange(1, 8).Draw(rt, "moves") {
					if len(l.rows) > 0 {
						l.move(rapid.SampledFrom(l.rows).Draw(rt, "row"))
					}
				}
			case 2: // of a part of what it read
				ids := ledger[run]
				from := rapid.IntRange(0, len(ids)).Draw(rt, "from")
				l.decide(s, run, rapid.Bool().Draw(rt, "fires"), ids[from:])
				continue
			}
			l.decide(s, run, true, ledger[run])
			for _, p := range l.driver.last.Puts {
				if strings.Contains(p.Key, "w/") {
					segments++
				}
			}
		}
		decisions += len(l.decisions)
		l.check(l.stores[0])
		l.check(l.open())
		verify := func() {
			if _, err := l.stores[0].Verify(ctx, nil, nil); err != nil {
				rt.Fatal(err)
			}
		}
		verify()
		if _, err := l.stores[0].Rebuild(ctx, "ops", nil); err != nil {
			rt.Fatal(err)
		}
		l.check(l.open())
		if rapid.Bool().Draw(rt, "erase") {
			who := "person1"
			dry, err := l.stores[1].Erase(ctx, memory.Erasure{Subject: who, Request: "1", Actor: "dpo", DryRun: true})
			if err != nil {
				rt.Fatal(err)
			}
			certificate, err := l.stores[1].Erase(ctx, memory.Erasure{Subject: who, Request: "1", Actor: "dpo"})
			if err != nil {
				rt.Fatal(err)
			}
			was := len(l.decisions)
			maps.DeleteFunc(l.decisions, func(_ string, cites map[memory.ID]uint64) bool {
				for id := range cites {
					if l.subjects[id] == who {
						return true
					}
				}
				return false
			})
			for _, id := range l.rows {
				if cited, err := l.stores[0].DecisionsCiting(ctx, id); l.subjects[id] == who && (err != nil || len(cited) > 0) {
					rt.Fatalf("%s was erased, and %d decisions cite it: %v", id, len(cited), err)
				}
			}
			l.rows = slices.DeleteFunc(l.rows, func(id memory.ID) bool { return l.subjects[id] == who })
			if n := was - len(l.decisions); certificate.Decisions != n || dry.Decisions != n {
				rt.Fatalf("%d decisions erased, %d in the dry run, want %d", certificate.Decisions, dry.Decisions, n)
			}
			l.check(l.stores[0])
			verify()
			for run, ids := range ledger { // it goes on with what is left
				ids = slices.DeleteFunc(ids, func(id memory.ID) bool { return l.subjects[id] == who })
				l.decide(l.stores[0], run, true, ids)
				l.decide(l.stores[1], run, true, ids)
			}
			l.check(l.open())
			if _, err := l.stores[0].Rebuild(ctx, "ops", nil); err != nil {
				rt.Fatal(err)
			}
			l.check(l.open())
			verify()
		}
	})
	t.Logf("%d decisions, %d segments", decisions, segments)
	if segments == 0 {
		t.Error("nothing was kept as a segment")
	}
}

// TestTheRowsOfALedgerAreWrittenOnce: a later decision of a run writes terms for what
// the run has read since and not again for all of it, and a row that moved is cited
// beside the segment that it is in.
func TestTheRowsOfALedgerAreWrittenOnce(t *testing.T) {
	l := newLedgers(t)
	s := l.stores[0]
	for range 600 {
		l.add("acme")
	}
	terms := func(ids []memory.ID) int {
		l.decide(s, "run", true, ids)
		return l.driver.terms()
	}
	if n := terms(l.rows[:550]); n < 550 {
		t.Errorf("%d terms for the first decision", n)
	}
	if n := terms(l.rows[:550]); n > 8 {
		t.Errorf("%d terms for the same rows again", n)
	}
	if n := terms(l.rows[:553]); n > 8+3 {
		t.Errorf("%d terms for 3 more rows", n)
	}
	if l.move(l.rows[1]); terms(l.rows[:550]) > 8+1 {
		t.Errorf("%d terms after a row moved", l.driver.terms())
	}
	sum := 0
	for n := 554; n <= 600; n++ {
		sum += terms(l.rows[:n])
	}
	if sum > 47*30 {
		t.Errorf("%d terms in 47 decisions, each of a row more", sum)
	}
	if l.stores[1].Record(t.Context(), memory.DecisionRecord{}) == nil {
		t.Error("a record without an id")
	}
	l.check(l.open())
}

// TestASegmentThatWasChangedIsFound by verification, and is not read.
func TestASegmentThatWasChangedIsFound(t *testing.T) {
	l := newLedgers(t)
	for range 20 {
		l.add("acme")
	}
	l.decide(l.stores[0], "run", true, l.rows)
	for _, p := range l.driver.last.Puts {
		if strings.Contains(p.Key, "w/") {
			changed := bytes.Clone(p.Data)
			changed[len(changed)-1] ^= 1
			objs, err := l.driver.Get(t.Context(), "default", []string{p.Key})
			if err != nil || objs[0].Revision != 1 {
				t.Fatal(objs, err)
			}
			if err := l.driver.Restore(t.Context(), "default", []memory.Restored{{Object: memory.Object{Key: p.Key, Revision: 1, Data: changed}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := l.stores[0].Verify(t.Context(), nil, nil); !errors.Is(err, memory.ErrTampered) {
		t.Errorf("verify: %v", err)
	}
	if _, err := l.open().Decisions(t.Context()); !errors.Is(err, memory.ErrDamaged) {
		t.Errorf("read: %v", err)
	}
}

// TestTwoProcessesOfOneRunMeet in the ledger: both write the same segment, and both
// decisions stand.
func TestTwoProcessesOfOneRunMeet(t *testing.T) {
	l := newLedgers(t)
	for range 1100 {
		l.add("acme")
	}
	for _, s := range l.stores {
		l.decide(s, "run", true, l.rows)
	}
	if n := len(l.driver.last.Puts); n != 1 {
		t.Errorf("the second process put %d objects", n)
	}
	l.check(l.open())
}

// TestErasingARowThatNamesSomebodyTakesItsSegment: the decision is of a class that the
// subject has no part in, and is found through the segment alone.
func TestErasingARowThatNamesSomebodyTakesItsSegment(t *testing.T) {
	l := newLedgers(t)
	for range 10 {
		l.add("other")
	}
	l.name("person1")
	l.decide(l.stores[0], "run", true, l.rows)
	certificate, err := l.stores[0].Erase(t.Context(), memory.Erasure{Subject: "person1", Request: "1", Actor: "dpo"})
	if err != nil || certificate.Decisions != 1 || certificate.Rows != 1 {
		t.Fatalf("%+v, %v", certificate, err)
	}
	clear(l.decisions)
	l.check(l.open())
}

// TestARowThatTwoSegmentsHoldIsCitedOnce: at the version that the decision was made on,
// though one of the segments has it at an earlier one.
func TestARowThatTwoSegmentsHoldIsCitedOnce(t *testing.T) {
	l := newLedgers(t)
	for range 15 {
		l.add("acme")
	}
	s, first, second := l.stores[0], l.rows[:8], l.rows[7:]
	l.decide(s, "run", true, first)
	l.move(l.rows[7])
	l.decide(s, "run", true, second)
	l.decide(s, "run", true, first) // so that the older one is looked at first
	l.decide(s, "run", true, l.rows)
	l.check(s)
	l.check(l.open())
}

// TestASegmentThatAnotherProcessErasedIsForgotten: the next decision of the run meets
// it once, and no later one does.
func TestASegmentThatAnotherProcessErasedIsForgotten(t *testing.T) {
	l := newLedgers(t)
	for range 20 {
		l.add("other")
	}
	l.name("person1")
	l.decide(l.stores[0], "run", true, l.rows)
	if _, err := l.stores[1].Erase(t.Context(), memory.Erasure{Subject: "person1", Request: "1", Actor: "dpo"}); err != nil {
		t.Fatal(err)
	}
	clear(l.decisions)
	for _, want := range []int{1, 0, 0} {
		l.driver.refused = 0
		l.decide(l.stores[0], "run", false, l.rows)
		if l.driver.refused > want {
			t.Errorf("%d transactions were refused, want %d", l.driver.refused, want)
		}
	}
	l.check(l.open())
}

// TestARebuildFindsDecisionsThroughTheirLedgerAgain, with every index of the segments gone.
func TestARebuildFindsDecisionsThroughTheirLedgerAgain(t *testing.T) {
	l := newLedgers(t)
	for range 20 {
		l.add("acme")
	}
	s := l.stores[0]
	l.decide(s, "run", true, l.rows)
	var keys []string
	for _, p := range l.driver.last.Puts {
		if strings.Contains(p.Key, "w/") {
			keys = append(keys, p.Key)
		}
	}
	objs, err := l.driver.Get(t.Context(), s.Tenant(), keys)
	if err != nil || len(objs) != 1 {
		t.Fatalf("%d segments, %v", len(objs), err)
	}
	if err := l.driver.Restore(t.Context(), s.Tenant(), []memory.Restored{{Object: objs[0]}}); err != nil {
		t.Fatal(err)
	}
	if cited, err := s.DecisionsCiting(t.Context(), l.rows[0]); err != nil || len(cited) != 0 {
		t.Fatalf("nothing was dropped: %v, %v", cited, err)
	}
	if _, err := s.Rebuild(t.Context(), "ops", nil); err != nil {
		t.Fatal(err)
	}
	l.check(l.open())
	if c, err := s.Erase(t.Context(), memory.Erasure{Subject: "acme", Request: "1", Actor: "dpo", DryRun: true}); err != nil || c.Decisions != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}
