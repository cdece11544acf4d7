package confirm_test

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/internal/teststore"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// desk is a store with rows, a gate over it, and people who approve calls: cleo
// has a key for all of them, tom one for the tool book, eve none that is known.
type desk struct {
	*memory.Store
	t       testing.TB
	keys    *confirm.Keyring
	gate    *gate.Gate
	version int
	mu      sync.Mutex
	now     time.Time
	rows    []memory.ID
	between func() // once, between the reading and the recording of a decision
}

func newDesk(t testing.TB, d memory.Driver, name string) *desk {
	w := &desk{t: t, now: day0, keys: ring(t, line(t, "cleo", "*"), line(t, "tom", "call:book"), line(t, "ana", "acme/*"))}
	w.Store = storetest.On(d, &memory.Options{Tenant: name, Authority: func(string, string, string) bool { return true }, Clock: func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.now = w.now.Add(time.Microsecond)
		return w.now
	}})
	w.reopen()
	return w
}

// reopen is a new process: another gate over the same store.
func (w *desk) reopen() {
	w.t.Helper()
	g, err := gate.New(w, gate.Policy{Name: "desk", Version: fmt.Sprint(w.version), Declared: true}, &gate.Options{Approvals: w.keys, Timeout: time.Hour})
	if err != nil {
		w.t.Fatal(err)
	}
	w.gate = g
}

func (w *desk) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *desk) Record(ctx context.Context, r memory.DecisionRecord) error {
	if between := w.between; between != nil {
		w.between = nil
		between()
	}
	return w.Store.Record(ctx, r)
}

// say writes a row that a model made up.
func (w *desk) say(predicate, object string) memory.ID {
	w.t.Helper()
	r, err := w.Put(context.Background(), memory.Draft{Content: memory.Content{Subject: "acme", Predicate: predicate, Object: object, Cardinality: memory.CardinalityUnknown},
		Origin: memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal, Criticality: memory.CriticalityHigh,
		Asserter: memory.Asserter{Principal: "assistant", Model: "sonnet-4.6", Family: "claude"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return r.ID
}

func (w *desk) fitness() memory.Fitness {
	w.t.Helper()
	f, err := w.Fitness(context.Background(), w.rows)
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

// move moves a row on a user's word.
func (w *desk) move(i int, to memory.AxisValue) {
	w.t.Helper()
	h := w.fitness().Heads[i]
	tr := memory.Transition{Row: h.ID, Revision: h.Revision, To: to, Authority: memory.AuthorityUser, Actor: "boss", Source: "test", Reason: "test"}
	if to == memory.AxisValue(memory.TruthSupported) {
		tr.Evidence = []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankUser, Source: "user:boss", Verifier: "test", Group: "user:boss",
			Anchor: memory.Anchor{URI: fmt.Sprint("said:", h.Revision)}, At: w.Now()}}
	}
	if _, err := w.Apply(context.Background(), tr); err != nil && !errors.Is(err, memory.ErrIllegalMove) {
		w.t.Fatalf("to %s: %v", to, err)
	}
}

// ask is a call of tool i: send cannot be undone, book can.
func (w *desk) ask(tool, run, arg string, rows ...memory.ID) gate.Request {
	effect := gate.StateChanging
	if tool == "send" {
		effect = gate.Irreversible
	}
	return gate.Request{Contract: gate.Contract{Tool: tool, Effect: effect, Sinks: []string{"/to"}}, Args: json.RawMessage(`{"to":"` + arg + `"}`),
		Agent: "clerk", Run: run, Principal: "ana", Lineage: gate.Known(rows, nil), Sinks: []gate.Sink{{Pointer: "/to", Value: arg, Source: gate.SourcePrincipal}}}
}

func (w *desk) decide(r gate.Request) gate.Decision { return w.gate.Decide(context.Background(), r) }

// said is a statement about a held call as it is now, signed.
func (w *desk) said(v confirm.CallVerb, hold, who string, change func(*confirm.CallStatement)) confirm.SignedCall {
	w.t.Helper()
	h, err := w.Hold(context.Background(), hold)
	if err != nil {
		w.t.Fatal(err)
	}
	s := confirm.NewCall(v, &h, w.Tenant(), who, "I asked them by phone", w.Now(), time.Hour)
	if change != nil {
		change(&s)
	}
	signed, err := confirm.SignCall(keyOf(who), s)
	if err != nil {
		w.t.Fatal(err)
	}
	return signed
}

func (w *desk) put(s confirm.SignedCall) error {
	_, err := confirm.ApplyCall(context.Background(), w.Store, w.keys, s)
	return err
}

// machine is what a person keeps in her head of the desk: it knows which calls may
// fire, and is told of each that did.
type machine struct {
	*desk
	pick    func(n int) int
	holds   []string             // all that were opened
	signed  []confirm.SignedCall // all that was signed, to be said again
	grants  map[string]*approved // by hold
	blocked map[string]time.Time // refused calls, and when
	silent  map[string]string    // calls that were let through without an outcome: the decision
	done    map[string]string    // calls that cannot be undone and were done: the last decision
	acts    map[string]string    // of what cannot be undone, whichever run asked: the last such decision
	since   map[string]time.Time // when they were
	flying  map[string]string    // decision: call
	spent   map[string]bool      // decisions and grants that were used
	calls   map[string]string    // hold: call
	n       struct{ steps, fired, byGrant, refusedGrants, unknown, raced, settled, repeated int }
}

// approved is an approval that stands, and what it is bound to.
type approved struct {
	call    string
	bound   string
	ends    time.Time
	settles []string // calls without an outcome that whoever approved was told of
}

func newMachine(w *desk, pick func(int) int) *machine {
	return &machine{desk: w, pick: pick, grants: map[string]*approved{}, blocked: map[string]time.Time{}, done: map[string]string{}, silent: map[string]string{}, acts: map[string]string{}, since: map[string]time.Time{}, flying: map[string]string{},
		spent: map[string]bool{}, calls: map[string]string{}}
}

// bound is all that an approval of a call is bound to, as it is now.
func (m *machine) bound(call string) string {
	f := m.fitness()
	var b strings.Builder
	fmt.Fprint(&b, call, m.version, f.Epoch, m.done[call] != "")
	for i := range f.Heads {
		fmt.Fprint(&b, " ", f.Heads[i].Revision)
	}
	return b.String()
}

func (m *machine) fit() bool {
	f := m.fitness()
	return !slices.ContainsFunc(f.Heads, func(h memory.Head) bool { return h.Truth != memory.TruthSupported })
}

func (m *machine) clock() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// call makes a call and holds what came of it against what is known.
func (m *machine) call(fatal func(string, ...any), race bool) {
	tools, runs := []string{"send", "book"}, []string{"r1", "r2"}
	tool, run, arg := tools[m.pick(2)], runs[m.pick(2)], []string{"a@b.example", "c@d.example"}[m.pick(2)]
	call, act := tool+"/"+run+"/"+arg, tool+"/"+arg
	if race {
		m.between = func() { m.n.raced++; m.disturb() }
	}
	d := m.decide(m.ask(tool, run, arg, m.rows...))
	m.between = nil
	if d.Fault {
		fatal("%s: a fault: %v", call, d.Err())
	}
	fit, grant := m.fit(), m.grants[d.HoldID]
	prior := cmp.Or(m.acts[act], m.silent[call])
	unknown := prior != "" && (tool == "send" || m.clock().Sub(m.since[call]) < gate.DefaultUnknownFor) // what can be put back waits no longer
	repeated := m.done[call] != ""
	refused := false
	if at, ok := m.blocked[call]; ok && m.clock().Sub(at) < memory.RejectedFor {
		refused = true
	}
	good := grant != nil && grant.call == call && grant.bound == m.bound(call) && m.clock().Before(grant.ends) && (!unknown || slices.Contains(grant.settles, prior))
	if d.Blocked() {
		if d.HoldID == d.ID {
			m.holds, m.calls[d.ID] = append(m.holds, d.ID), call
		}
		if !race && !refused && (fit && !unknown && !repeated || good) {
			fatal("%s is blocked (%v), although it may fire: fit %v, unknown %v, done %v, approved %v; refused %v, now %v", call, d.Err(), fit, unknown, repeated, good, m.blocked[call], m.clock())
		}
		if !race && repeated && !unknown && d.HoldID != "" && !refused {
			if i := slices.IndexFunc(d.Reasons, func(r gate.Reason) bool { return r.Code == gate.AlreadyDone }); i < 0 || !strings.HasPrefix(d.Reasons[i].Detail, m.done[call]+" at ") {
				fatal("%s is held, and not as done by %s: %+v", call, m.done[call], d.Reasons)
			}
			m.n.repeated++
		}
		if grant != nil && !good {
			m.n.refusedGrants++
			delete(m.grants, d.HoldID)
		}
		for id, g := range m.grants { // another hold took its place
			if g.call == call && id != d.HoldID && !d.Has(gate.ApprovalRejected) && !d.Has(gate.ContradictedInput) {
				m.n.refusedGrants++
				delete(m.grants, id)
			}
		}
		if unknown {
			m.n.unknown++
		}
		return
	}
	m.n.fired++
	switch {
	case refused:
		fatal("%s fires, and a person refused it", call)
	case unknown && (d.Approval == nil || !good):
		fatal("%s fires again, and nobody knows how it ended before: prior %s own %s; race %v; approval %+v; grant %+v bound %v; reasons %+v", call, prior, m.silent[call], race, d.Approval, grant, m.bound(call), d.Reasons)
	case repeated && (d.Approval == nil || !good):
		fatal("%s fires again, and was done by %s; race %v; approval %+v; grant %+v", call, m.done[call], race, d.Approval, grant)
	case !fit && d.Approval == nil:
		fatal("%s fires on rows that are not fit", call)
	case !fit && !good:
		fatal("%s fires on an approval that does not stand: %+v", call, grant)
	case m.spent[d.ID]:
		fatal("%s fires twice on one decision", call)
	}
	if d.Approval != nil {
		if m.spent[d.HoldID] {
			fatal("%s fires twice on one approval", call)
		}
		m.spent[d.HoldID] = true
		m.n.byGrant++
	}
	m.spent[d.ID] = true
	for id, g := range m.grants {
		if g.call == call {
			delete(m.grants, id)
		}
	}
	m.flying[d.ID] = call
	m.silent[call], m.since[call] = d.ID, m.clock()
	if tool == "send" {
		m.acts[act] = d.ID
	}
}

// settle has a person say that a call was not done of which nobody knows.
func (m *machine) settle(fatal func(string, ...any)) {
	if len(m.silent) > 0 {
		call := slices.Min(slices.Collect(maps.Keys(m.silent)))
		id := m.silent[call]
		err := m.Settle(context.Background(), memory.Settlement{Decision: id, Actor: "cleo", Reason: "looked"})
		switch early := m.clock().Sub(m.since[call]) < memory.UnknownAfter; {
		case early && !errors.Is(err, memory.ErrHold), !early && err != nil:
			fatal("%s is settled: %v", call, err)
		case err == nil:
			m.n.settled++
			m.ended(call, id)
		}
	}
}

// ended notes that it is known how a call ended.
func (m *machine) ended(call, id string) {
	if m.silent[call] == id {
		delete(m.silent, call)
	}
	maps.DeleteFunc(m.acts, func(_, last string) bool { return last == id })
	delete(m.flying, id)
}

// say has somebody say something about a held call, and holds what came of it
// against what is known.
func (m *machine) say(fatal func(string, ...any)) {
	if len(m.holds) == 0 {
		return
	}
	id := m.holds[max(len(m.holds)-1-m.pick(4), 0)]
	call := m.calls[id]
	h, err := m.Hold(context.Background(), id)
	if err != nil {
		fatal("%v", err)
	}
	who := []string{"cleo", "cleo", "cleo", "tom", "ana", "clerk", "eve"}[m.pick(7)]
	verb := []confirm.CallVerb{confirm.Approve, confirm.Approve, confirm.Approve, confirm.Withdraw, confirm.Refuse}[m.pick(5)]
	may := who == "cleo" || who == "tom" && h.Tool == "book"
	s := m.said(verb, id, who, nil)
	if m.pick(6) == 0 { // somebody changes what was signed
		may = false
		switch m.pick(4) {
		case 0:
			s.Reason = "else"
		case 1:
			s.Expires = s.Expires.Add(time.Hour)
		case 2:
			s.Signature = ed25519.Sign(keyOf("eve"), []byte("x"))
		case 3:
			s.Binding[0] ^= 1
		}
	}
	bound := m.bound(call)
	err = m.put(s)
	if err == nil {
		if !may {
			fatal("%s by %s is accepted", verb, who)
		}
		m.signed = append(m.signed, s)
		switch verb {
		case confirm.Approve:
			m.grants[id] = &approved{call: call, bound: bound, ends: s.Expires, settles: []string{h.Prior, h.Made}}
		case confirm.Withdraw:
			delete(m.grants, id)
		case confirm.Refuse:
			delete(m.grants, id)
			m.blocked[call] = m.clock()
		}
		return
	}
	var refused *confirm.RefusedError
	if !errors.As(err, &refused) {
		fatal("%s by %s: %v", verb, who, err)
	}
}

// again says something again that was said before. Nothing may come of it.
func (m *machine) again(fatal func(string, ...any)) {
	if len(m.signed) == 0 {
		return
	}
	s := m.signed[m.pick(len(m.signed))]
	if err := m.put(s); err == nil {
		fatal("%s of %s is accepted twice", s.Verb, s.Call)
	}
}

// disturb moves something that a call may stand on.
func (m *machine) disturb() {
	switch m.pick(6) {
	case 0:
		m.move(m.pick(len(m.rows)), memory.TruthSupported)
	case 1:
		m.move(m.pick(len(m.rows)), memory.TruthUnverified)
	case 2:
		if err := m.BumpEpoch(context.Background(), "ops", "restored"); err != nil {
			m.t.Fatal(err)
		}
	case 3:
		m.say(m.t.Fatalf)
	case 4:
		if len(m.signed) > 0 {
			m.again(m.t.Fatalf)
		}
	case 5: // harmless: it voids nothing
		if _, err := m.AddHeat(context.Background(), map[memory.ID]float64{m.rows[0]: 1}); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *machine) step(fatal func(string, ...any)) {
	m.n.steps++
	switch k := m.pick(20); {
	case k < 7:
		m.call(fatal, false)
	case k < 9:
		m.call(fatal, true)
	case k < 14:
		m.say(fatal)
	case k < 15:
		m.again(fatal)
	case k < 16:
		m.disturb()
	case k < 17: // a call ends
		if len(m.flying) > 0 {
			id := slices.Min(slices.Collect(maps.Keys(m.flying)))
			call := m.flying[id]
			outcome := []memory.CallOutcome{memory.CallDone, memory.CallFailed}[m.pick(2)]
			if err := m.RecordOutcome(context.Background(), id, outcome, ""); err != nil {
				fatal("%v", err)
			}
			m.ended(call, id)
			if outcome == memory.CallDone && strings.HasPrefix(call, "send/") {
				m.done[call] = id
			}
		}
	case k < 18: // the process dies: what was under way has no outcome
		clear(m.flying)
		m.reopen()
		m.settle(fatal)
	case k < 19:
		m.pass([]time.Duration{time.Minute, 20 * time.Minute, 2 * time.Hour, 25 * time.Hour}[m.pick(4)])
		m.settle(fatal)
	default:
		if m.pick(4) == 0 {
			m.version++
			m.reopen()
		}
	}
}

// prepare writes the rows of a play: two that calls rest on.
func (m *machine) prepare() {
	m.rows = []memory.ID{m.desk.say("a", "x"), m.desk.say("b", "y")}
	for i := range m.rows {
		if m.pick(2) == 0 {
			m.move(i, memory.TruthSupported)
		}
	}
}

// TestHeldCallsFireOnceAndOnlyOnAGrantThatStands plays a desk at random, and asks of
// each call that fires whether it may, and of each that is blocked whether it must.
func TestHeldCallsFireOnceAndOnlyOnAGrantThatStands(t *testing.T) {
	start := time.Now()
	var total machine
	count := func(m *machine) {
		total.n.steps += m.n.steps
		total.n.fired += m.n.fired
		total.n.byGrant += m.n.byGrant
		total.n.refusedGrants += m.n.refusedGrants
		total.n.unknown += m.n.unknown
		total.n.raced += m.n.raced
		total.n.settled += m.n.settled
		total.n.repeated += m.n.repeated
	}
	const steps = 130
	rapid.Check(t, func(rt *rapid.T) {
		w := newDesk(t, storetest.NewMap(), "")
		defer w.Close()
		m := newMachine(w, func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "pick") })
		defer func() { count(m) }()
		m.prepare()
		for range steps {
			m.step(rt.Fatalf)
		}
	})
	t.Logf("%d steps in %s: %d calls fired, %d of them on an approval; %d approvals did not stand; %d repeats of a call without an outcome were held, and %d of one that was done; %d raced",
		total.n.steps, time.Since(start).Round(time.Millisecond), total.n.fired, total.n.byGrant, total.n.refusedGrants, total.n.unknown, total.n.repeated, total.n.raced)
	if total.n.steps < 10_000 || total.n.byGrant < 100 || total.n.refusedGrants < 50 || total.n.unknown < 50 || total.n.raced < 500 || total.n.settled < 50 || total.n.repeated < 20 {
		t.Error("too little was played")
	}
}

// TestAnApprovalCoversEveryCallThatThePersonWasToldOf: the call was made before in its own run and
// in another, and nobody knows how either ended. A person is told of both and approves. When the
// outcome of one of them comes in, the approval stands for the other. (The machine once took the
// person to know of the last one only.)
func TestAnApprovalCoversEveryCallThatThePersonWasToldOf(t *testing.T) {
	w := newDesk(t, storetest.NewMap(), "")
	defer w.Close()
	row := w.say("a", "x")
	w.rows = []memory.ID{row}
	w.move(0, memory.TruthSupported)
	call := func(run string) gate.Decision { return w.decide(w.ask("send", run, "c@d.example", row)) }
	approve := func(id string) {
		t.Helper()
		if err := w.put(w.said(confirm.Approve, id, "cleo", nil)); err != nil {
			t.Fatal(err)
		}
	}
	own := call("r2")
	if own.Blocked() {
		t.Fatal(own.Err())
	}
	held := call("r1")
	approve(held.HoldID)
	other := call("r1")
	if !held.Blocked() || other.Blocked() {
		t.Fatal(held.Err(), other.Err())
	}
	again := call("r2")
	h, err := w.Hold(t.Context(), again.HoldID)
	if err != nil || h.Prior != own.ID || h.Made != other.ID {
		t.Fatalf("the hold knows of %q and %q, want %q and %q (%v)", h.Prior, h.Made, own.ID, other.ID, err)
	}
	approve(again.HoldID)
	if err := w.RecordOutcome(t.Context(), other.ID, memory.CallFailed, ""); err != nil {
		t.Fatal(err)
	}
	if d := call("r2"); d.Blocked() || d.Approval == nil {
		t.Errorf("%v, approval %+v", d.Err(), d.Approval)
	}
	if d := call("r2"); !d.Blocked() {
		t.Error("it fires a third time")
	}
}

// TestHeldCallsOnRealStores plays some of it on each store, and lets deciders race
// for one grant.
func TestHeldCallsOnRealStores(t *testing.T) {
	for _, name := range teststore.Durable() {
		t.Run(name, func(t *testing.T) {
			d := teststore.Open(t, name)
			defer d.Close()
			var n int
			for seed := range uint64(3) {
				r := rand.New(rand.NewPCG(testmain.Drawn(t)+seed, 1))
				m := newMachine(newDesk(t, d, fmt.Sprint("play", seed)), r.IntN)
				m.prepare()
				for range 120 {
					m.step(t.Fatalf)
				}
				n += m.n.fired
			}
			if n == 0 {
				t.Error("nothing fired")
			}
			w := newDesk(t, d, "race")
			w.rows = []memory.ID{w.say("a", "x")}
			for round := range 10 {
				ask := w.ask("send", fmt.Sprint("race", round), "a@b.example", w.rows...)
				held := w.decide(ask)
				if err := w.put(w.said(confirm.Approve, held.HoldID, "cleo", nil)); err != nil {
					t.Fatal(err)
				}
				var fired atomic.Int32
				var group sync.WaitGroup
				for range 4 {
					group.Go(func() {
						if d := w.decide(ask); !d.Blocked() {
							fired.Add(1)
						} else if d.Fault {
							t.Errorf("a fault: %v", d.Err())
						}
					})
				}
				group.Wait()
				if fired.Load() != 1 {
					t.Fatalf("%d calls fired on one approval", fired.Load())
				}
			}
		})
	}
}
