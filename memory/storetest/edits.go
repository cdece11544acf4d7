package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/internal/sample"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// RunEdits asks that whoever changes one thing behind a store, through its driver and
// without its keys, is found by a verification: a part of an object, an object that is
// taken away or put back, an entry of a log, a line of the index of terms. It makes a
// sample of the edits, with one of each kind on each kind of object; in a full run, all.
func RunEdits(t *testing.T, open func(t *testing.T) memory.Driver) {
	t.Helper()
	d := open(t)
	closeLater(t, d)
	w := &edited{T: t, ctx: t.Context(), d: d, keys: keyring.Ephemeral(), now: time.Date(2026, 4, 17, 9, 0, 0, 0, time.UTC), older: map[string]memory.Restored{}, ended: map[string]bool{}}
	w.write()
	w.holds("before anything is changed")
	kinds := map[string]int{}
	var edits []edit
	for _, o := range w.objects() {
		kind, _, _ := strings.Cut(memory.KeyText(o.Key), "/")
		if kinds[kind]++; kinds[kind] > 2 && kind != "system" && kind != "class" && !w.ended[o.Key] { // no two classes are for the same
			continue
		}
		edits = append(edits, w.object(kind, o)...)
	}
	edits = append(edits, w.logs()...)
	tried := sample.Of(len(edits), func(i int) string { return edits[i].kind })
	for _, i := range tried {
		edits[i].do()
		w.found(edits[i].what)
		edits[i].undo()
	}
	t.Logf("storetest: %d of %d edits of %d kinds of objects", len(tried), len(edits), len(kinds))
	if len(kinds) < 21 {
		t.Errorf("only %d kinds of objects were there: %v", len(kinds), kinds)
	}
	w.replays()
	w.holds("after everything was put back")
}

// edit is a change behind the store.
type edit struct {
	what, kind string
	do, undo   func()
}

// edited is a store and what is below it.
type edited struct {
	*testing.T
	ctx   context.Context
	d     memory.Driver
	keys  memory.Keys
	now   time.Time
	s     *memory.Store
	older map[string]memory.Restored // what objects were before they moved
	ended map[string]bool            // identities and claims of erased rows, which stand for nothing
	rows  []memory.ID
	hold  memory.Hold
	nonce memory.Token
}

func (w *edited) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// reopen is another process on the same store, which has met nothing of it.
func (w *edited) reopen() *memory.Store {
	w.Helper()
	s, err := memory.New(w.d, w.keys, &memory.Options{Tenant: "edits", Clock: func() time.Time { return w.now }})
	w.must(err)
	return s
}

func (w *edited) put(d memory.Draft) memory.ID {
	w.Helper()
	w.now = w.now.Add(time.Second)
	r, err := w.s.Put(w.ctx, d)
	w.must(err)
	return r.ID
}

func (w *edited) move(s *memory.Store, id memory.ID, to memory.AxisValue, authority memory.Authority) {
	w.Helper()
	w.now = w.now.Add(time.Second)
	f, err := s.Fitness(w.ctx, []memory.ID{id})
	w.must(err)
	t := memory.Transition{Row: id, Revision: f.Heads[0].Revision, To: to, Authority: authority, Actor: "ana", Source: "crm", Reason: "asked"}
	switch to {
	case memory.AxisValue(memory.TruthSupported):
		t.Evidence = []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "crm", Group: fmt.Sprint("tool:crm", w.now.Unix()), Anchor: memory.Anchor{URI: "crm://1"}, At: w.now}}
	case memory.AxisValue(memory.TruthContradicted):
		t.Reject = authority == memory.AuthorityUser
		t.Evidence = []memory.Evidence{{Relation: memory.RelationContradicts, Rank: memory.RankUser, Source: "ana", Verifier: "ana", Group: "principal:ana", Authority: "ana", At: w.now}}
	}
	_, err = s.Apply(w.ctx, t)
	w.must(err)
}

// remember keeps what all objects are now, to be put back later.
func (w *edited) remember() {
	for _, o := range w.objects() {
		w.older[o.Key] = o
	}
}

// write fills the store with something of each kind.
func (w *edited) write() {
	w.s = w.reopen()
	model := func(subject, object string, from ...memory.ID) memory.Draft {
		return memory.Draft{Content: memory.Content{Subject: subject, Predicate: "lives in", Object: object, Cardinality: memory.CardinalityFunctional}, Origin: memory.OriginModelDerived,
			State: memory.StateUnverified, Asserter: memory.Asserter{Principal: "ana", Model: "sonnet", Family: "claude"}, DerivedFrom: from, Sensitivity: memory.SensitivityInternal, Run: "run-1"}
	}
	w.rows = []memory.ID{w.put(model("acme", "Oslo")), w.put(model("initech", "Bergen")), w.put(model("ana", "Rome"))}
	w.rows = append(w.rows, w.put(model("globex", "Oslo", w.rows...)))
	w.move(w.s, w.rows[0], memory.TruthSupported, memory.AuthorityProbe)
	w.remember()
	w.move(w.s, w.rows[0], memory.TruthUnverified, memory.AuthorityProbe)
	w.move(w.s, w.rows[0], memory.TruthSupported, memory.AuthorityProbe)
	w.move(w.s, w.rows[2], memory.TruthContradicted, memory.AuthorityUser)
	_, err := w.s.Echo(w.ctx, w.rows[1], memory.Asserter{Principal: "ana", Model: "sonnet", Family: "claude"}, "run-1", "said again")
	w.must(err)
	_, err = w.s.AddHeat(w.ctx, map[memory.ID]float64{w.rows[1]: 2})
	w.must(err)
	w.must(w.s.Leave(w.ctx, memory.Token{1}, w.now.Add(time.Hour), []byte("rows")))
	w.nonce = memory.Token{2}
	_, err = w.s.Spend(w.ctx, w.nonce)
	w.must(err)
	in, err := w.s.Importing(w.ctx, memory.ImportSource{Name: "dump", Dump: "1", Actor: "test"})
	w.must(err)
	_, err = in.Put(w.ctx, []memory.Imported{{Name: "theirs", Draft: model("hooli", "Oslo")}}, func([]memory.ImportReceipt) []byte { return []byte{1} })
	w.must(err)
	many := slices.Clone(w.rows[:2])
	for i := range 10 {
		many = append(many, w.put(model(fmt.Sprint("customer ", i), "Oslo")))
	}
	w.put(model("eve", "Paris"))
	before := w.objects()
	_, err = w.s.Erase(w.ctx, memory.Erasure{Subject: "eve", Request: "R-1", Actor: "dpo"})
	w.must(err)
	for _, o := range w.objects() {
		kind, _, _ := strings.Cut(memory.KeyText(o.Key), "/")
		if (kind == "identity" || kind == "claim") && slices.ContainsFunc(before, func(was memory.Restored) bool { return was.Key == o.Key && was.Revision < o.Revision }) {
			w.ended[o.Key] = true
		}
	}
	if len(w.ended) != 2 {
		w.Errorf("the erasure ended %d identities and claims of the row, want one of each", len(w.ended))
	}
	w.decide(w.s, false, nil, many...)
	w.sets(w.rows[1])
	w.hold = w.held(w.rows[0])
	w.remember()
	w.sets(w.rows[1])
	w.decide(w.s, true, w.granted(), w.rows[0])
}

// sets records a call that fired on a row that is not fit, and what it set.
func (w *edited) sets(row memory.ID) {
	w.Helper()
	w.now = w.now.Add(time.Second)
	f, err := w.s.Fitness(w.ctx, []memory.ID{row})
	w.must(err)
	w.must(w.s.Record(w.ctx, memory.DecisionRecord{ID: w.s.NewDecisionID(), Tool: "update", Run: "run-1", Fired: true, Epoch: f.Epoch, Data: json.RawMessage(`{}`),
		Rows: []memory.Cited{f.Heads[0].Cite()}, Unvouched: []memory.ID{row}, Writes: []memory.OwnWrite{{Subject: "initech", Predicate: "lives in", Value: "Bergen"}}}))
}

// decide records a decision, which fires or is held.
func (w *edited) decide(s *memory.Store, fired bool, call *memory.CallStep, rows ...memory.ID) string {
	w.Helper()
	w.now = w.now.Add(time.Second)
	f, err := s.Fitness(w.ctx, rows)
	w.must(err)
	r := memory.DecisionRecord{ID: s.NewDecisionID(), Tool: "pay", Run: "run-1", Fired: fired, Epoch: f.Epoch, Call: call, Data: json.RawMessage(`{}`)}
	if call != nil && call.Hold != nil {
		if call.Hold.ID == "" {
			call.Hold.ID = r.ID
		} else {
			call.Hold.Fired = r.ID
		}
		r.Data, err = json.Marshal(map[string]any{"block_id": call.Hold.ID})
		w.must(err)
	}
	for i := range f.Heads {
		r.Rows = append(r.Rows, f.Heads[i].Cite())
	}
	w.must(s.Record(w.ctx, r))
	return r.ID
}

var heldSlot = memory.Digest{7}

// held opens a hold that a person approves.
func (w *edited) held(row memory.ID) memory.Hold {
	w.Helper()
	f, err := w.s.Fitness(w.ctx, []memory.ID{row})
	w.must(err)
	h := memory.Hold{State: memory.HoldWaiting, Epoch: f.Epoch, Slot: heldSlot, Tool: "pay", Args: json.RawMessage(`{}`), OpenedAt: w.now, ExpiresAt: w.now.Add(time.Hour),
		AtFault: []memory.ID{row}, Rows: []memory.Cited{f.Heads[0].Cite()}, By: "gate", Why: "held"}
	id := w.decide(w.s, false, &memory.CallStep{Slot: heldSlot, Hold: &h}, row)
	h, err = w.s.Hold(w.ctx, id)
	w.must(err)
	h, err = w.s.MoveHold(w.ctx, memory.HoldMove{Hold: id, Round: h.Round, To: memory.HoldGranted, Actor: "ana", Reason: "it is right", Grant: json.RawMessage(`{}`), Ends: w.now.Add(time.Hour)})
	w.must(err)
	return h
}

// granted is the step of a call that fires out of the hold.
func (w *edited) granted() *memory.CallStep {
	w.Helper()
	s := w.reopen()
	at, err := s.Standing(w.ctx, heldSlot)
	w.must(err)
	h, err := s.Hold(w.ctx, w.hold.ID)
	w.must(err)
	h.State, h.By, h.Why = memory.HoldFired, "gate", "approved"
	return &memory.CallStep{Slot: heldSlot, Seen: at.Revision, Hold: &h}
}

func (w *edited) objects() (all []memory.Restored) {
	w.Helper()
	for o, err := range w.d.Objects(w.ctx, "edits", "") {
		w.must(err)
		all = append(all, o)
	}
	slices.SortFunc(all, compareRestored)
	return all
}

func (w *edited) holds(when string) {
	w.Helper()
	if _, err := w.reopen().Verify(w.ctx, nil, nil); err != nil {
		w.Fatalf("%s: %v", when, err)
	}
}

// found asks that a verification finds a change.
func (w *edited) found(what string) {
	w.Helper()
	var told []error
	v, err := w.reopen().VerifyAll(w.ctx, memory.Verifying{Found: func(err error) error {
		told = append(told, err)
		return nil
	}})
	switch {
	case err != nil && (errors.Is(err, memory.ErrTampered) || errors.Is(err, memory.ErrDamaged) || errors.Is(err, memory.ErrKey)):
	case err != nil:
		w.Errorf("%s: the verification ended with %v", what, err)
	case len(told) == 0 || v.Found != len(told):
		w.Errorf("%s is not found", what)
	}
}

func (w *edited) restore(objects ...memory.Restored) {
	w.Helper()
	w.must(w.d.Restore(w.ctx, "edits", objects))
}

// unguarded are the kinds of which one that is taken away decides nothing: how far an import is,
// what a name of another store stands for.
var unguarded = []string{"importing", "import"}

// object lists edits of an object.
func (w *edited) object(kind string, o memory.Restored) (list []edit) {
	w.Helper()
	name := memory.KeyText(o.Key)
	with := func(data []byte, terms ...memory.Term) memory.Restored {
		return memory.Restored{Object: memory.Object{Key: o.Key, Revision: o.Revision, Data: data}, Terms: terms}
	}
	add := func(of, what string, changed memory.Restored) {
		list = append(list, edit{what, kind + ": " + of, func() { w.restore(changed) }, func() { w.restore(o) }})
	}
	n := len(o.Data)
	for _, at := range []int{0, 1, 8, n / 3, n / 2, n - 22, n - 21, n - 17, n - 16, n - 1} {
		if at < 0 || at >= n {
			continue
		}
		bad := bytes.Clone(o.Data)
		bad[at] ^= 0x40
		add("a byte", fmt.Sprintf("byte %d of %d of %s", at, n, name), with(bad, o.Terms...))
	}
	add("cut short", name+", cut short", with(o.Data[:n-1], o.Terms...))
	add("emptied", name+", emptied", with(nil, o.Terms...))
	next := with(o.Data, o.Terms...)
	next.Revision++
	add("revision", name+", at another revision", next)
	if !slices.Contains(unguarded, kind) && !w.ended[o.Key] {
		add("taken away", name+", taken away", memory.Restored{Object: memory.Object{Key: o.Key}})
	}
	if kind == "system" || kind == "head" {
		var log []memory.LogEntry
		list = append(list, edit{name + ", taken away with its log", kind + ": with its log", func() {
			log = w.strike(o.Key, 0)
			w.restore(memory.Restored{Object: memory.Object{Key: o.Key}})
		}, func() {
			w.restore(o)
			w.append(o.Key, log)
		}})
	}
	for i, t := range o.Terms {
		add("without a term", fmt.Sprintf("%s without its term %x", name, t.Name), with(o.Data, slices.Delete(slices.Clone(o.Terms), i, i+1)...))
		sorted := slices.Clone(o.Terms)
		sorted[i].Sort += 7
		add("a term elsewhere", fmt.Sprintf("%s with its term %x elsewhere", name, t.Name), with(o.Data, sorted...))
		if i == 2 {
			break
		}
	}
	add("a term more", name+" with a term more", with(o.Data, append(slices.Clone(o.Terms), memory.Term{Name: "R", Sort: 3}, memory.Term{Name: "z", Sort: 3})...))
	if old, ok := w.older[o.Key]; ok && old.Revision < o.Revision && !slices.Contains([]string{"due", "class"}, kind) {
		add("an older one", name+", an older one put back", old)
	}
	return list
}

// logs lists edits of each entry of some logs.
func (w *edited) logs() (list []edit) {
	keys, _, err := w.d.Logs(w.ctx, "edits", "", "", 1000)
	w.must(err)
	kinds := map[string]int{}
	for _, key := range keys {
		name := memory.KeyText(key)
		kind, _, _ := strings.Cut(name, "/")
		if kinds[kind]++; kinds[kind] > 1 {
			continue
		}
		log, err := w.d.History(w.ctx, "edits", key, 0, 100)
		w.must(err)
		add := func(of, what string, bad, good []memory.LogEntry) {
			write := func(entries []memory.LogEntry) func() {
				return func() { w.must(Rewrite(w.ctx, w.d, "edits", key, entries)) }
			}
			list = append(list, edit{what, "log of " + kind + ": " + of, write(bad), write(good)})
		}
		for i, e := range log {
			n := len(e.Data)
			for _, at := range []int{0, 3, 9, 20, 31, n / 2, n - 33, n - 1} {
				bad := bytes.Clone(e.Data)
				bad[at] ^= 1
				add("a byte", fmt.Sprintf("byte %d of entry %d of %s", at, e.Revision, name), []memory.LogEntry{{Revision: e.Revision, Data: bad}}, []memory.LogEntry{e})
			}
			if i+1 < len(log) {
				add("swapped", fmt.Sprintf("entries %d and %d of %s in each other's place", e.Revision, e.Revision+1, name),
					[]memory.LogEntry{{Revision: e.Revision, Data: log[i+1].Data}, {Revision: e.Revision + 1, Data: e.Data}}, log[i:i+2])
			}
		}
	}
	return list
}

// replays puts authentic objects back together with the ends of their logs, has a call
// fire, and undoes it.
func (w *edited) replays() {
	whole := map[string]memory.Restored{}
	for _, o := range w.objects() {
		whole[o.Key] = o
	}
	key := memory.HeadKey(w.rows[0])
	old := w.older[key]
	// A row was demoted some time ago, and is as it was for the length of one call.
	w.now = w.now.Add(time.Hour)
	w.move(w.reopen(), w.rows[0], memory.TruthUnverified, memory.AuthorityProbe)
	w.now = w.now.Add(time.Hour)
	demoted := w.objects()
	gone := w.strike(key, old.Revision)
	evidence := strings.Replace(key, "h/", "e/", 1)
	w.restore(old)
	if e, ok := w.older[evidence]; ok {
		w.restore(e)
	}
	decision := w.decide(w.reopen(), true, nil, w.rows[0])
	for _, o := range demoted {
		if o.Key == key || o.Key == evidence {
			w.restore(o)
		}
	}
	w.append(key, gone)
	w.found("a call that fired while a row was put back for its length")
	w.forget(memory.DecisionKey(decision))

	// A hold that fired is granted again, and fires again.
	holdKey := ""
	for k := range w.older {
		if strings.HasPrefix(memory.KeyText(k), "hold/") {
			holdKey = k
		}
	}
	now := map[string]memory.Restored{}
	for _, o := range w.objects() {
		now[o.Key] = o
	}
	first := w.strike(holdKey, w.older[holdKey].Revision)
	w.restore(w.older[holdKey])
	again := w.decide(w.reopen(), true, w.granted(), w.rows[0])
	w.found("an approval that fired twice")
	w.forget(memory.DecisionKey(again))
	w.strike(holdKey, w.older[holdKey].Revision)
	w.restore(now[holdKey])
	w.append(holdKey, first)
	for k, o := range now {
		if strings.HasPrefix(memory.KeyText(k), "call/") { // the mark named the second decision
			w.restore(o)
		}
	}
	w.holds("the approval is as it was")

	// A rejection is taken from what is known of a claim.
	for k, o := range w.older {
		if strings.HasPrefix(memory.KeyText(k), "claim/") && whole[k].Revision > o.Revision {
			w.restore(o)
			w.found("a claim that a user rejected, as it was before")
			w.restore(whole[k])
		}
	}

	// A nonce that was spent is not new when its object is gone.
	spent := ""
	for _, o := range w.objects() {
		if strings.HasSuffix(o.Key, string(w.nonce[:])) && strings.HasPrefix(memory.KeyText(o.Key), "handover/") {
			spent = o.Key
			w.restore(memory.Restored{Object: memory.Object{Key: o.Key}})
			if _, err := w.reopen().Spend(w.ctx, w.nonce); !errors.Is(err, memory.ErrSpent) {
				w.Errorf("a nonce was spent again: %v", err)
			}
			w.found("a nonce that was taken away")
			w.restore(o)
		}
	}
	if spent == "" {
		w.Error("no nonce was spent")
	}
}

// strike cuts a log after a revision.
func (w *edited) strike(key string, after uint64) (gone []memory.LogEntry) {
	w.Helper()
	log, err := w.d.History(w.ctx, "edits", key, after, 100)
	w.must(err)
	var strike []memory.LogEntry
	for _, e := range log {
		gone, strike = append(gone, e), append(strike, memory.LogEntry{Revision: e.Revision})
	}
	w.must(Rewrite(w.ctx, w.d, "edits", key, strike))
	return gone
}

// append puts entries back at the end of a log, by way of the object.
func (w *edited) append(key string, entries []memory.LogEntry) {
	w.Helper()
	var whole memory.Restored
	for _, o := range w.objects() {
		if o.Key == key {
			whole = o
		}
	}
	for _, e := range entries {
		before := memory.Object{Key: key}
		if before.Revision = e.Revision - 1; before.Revision > 0 {
			before.Data = []byte("x")
		}
		w.restore(memory.Restored{Object: before})
		w.must(w.d.Apply(w.ctx, "edits", memory.Batch{Puts: []memory.Put{{Key: key, From: e.Revision - 1, Data: []byte("x"), Entry: e.Data}}}))
	}
	w.restore(whole)
}

// forget takes a decision out of the store altogether, with its log.
func (w *edited) forget(key string) {
	w.Helper()
	w.strike(key, 0)
	w.restore(memory.Restored{Object: memory.Object{Key: key}})
}
