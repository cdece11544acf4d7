package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// orderDesk is a service that says what the status and the address of each order are now.
type orderDesk struct {
	mu      sync.Mutex
	status  map[string]string
	address map[string]string
	slow    chan struct{} // if not nil, an answer waits for it after it was read
	began   chan struct{}
}

type (
	orderIn struct {
		Order string  `json:"order"`
		AsOf  *string `json:"as_of,omitempty"`
		Lang  *string `json:"lang,omitempty"`
	}
	orderOut struct {
		Status  string `json:"status"`
		Address string `json:"address"`
	}
	statusIn struct {
		Order  string `json:"order"`
		Status string `json:"status"`
	}
	shipIn struct {
		Order string `json:"order"`
		To    string `json:"to"`
	}
)

func newOrderDesk() *orderDesk {
	return &orderDesk{status: map[string]string{"order-7": "open"}, address: map[string]string{"order-7": "12 Mill Lane"}}
}

func (o *orderDesk) set(order, status string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.status[order] = status
}

func (o *orderDesk) get(_ context.Context, in orderIn) (orderOut, error) {
	o.mu.Lock()
	out := orderOut{Status: o.status[in.Order], Address: o.address[in.Order]}
	slow, began := o.slow, o.began
	o.mu.Unlock()
	if in.AsOf != nil {
		out.Address = "1 Old Street"
	}
	if slow != nil {
		close(began)
		<-slow
	}
	return out, nil
}

func (o *orderDesk) tools(w *world) []agent.Tool {
	return []agent.Tool{
		agent.Func("get_order", "reads an order", o.get, agent.ReadOnly(),
			agent.Authoritative("/status", "order.status", "/order"), agent.Authoritative("/address", "order.address", "/order"), agent.Fixed("/lang", "en")),
		agent.Func("set_status", "sets the status of an order", func(_ context.Context, in statusIn) (nothing, error) {
			o.set(in.Order, in.Status)
			w.fire("set_status")
			return nothing{}, nil
		}, agent.StateChanging(), agent.Sinks("/order")),
		agent.Func("ship", "ships an order", func(context.Context, shipIn) (nothing, error) {
			w.fire("ship")
			return nothing{}, nil
		}, agent.Irreversible(), agent.Sinks("/to")),
	}
}

func desk(t *testing.T) (*world, *orderDesk, *agent.Agent) {
	w, o := newWorld(t), newOrderDesk()
	return w, o, w.agentWith(t, "desk", w.gate, o.tools(w), nil)
}

func call(t *testing.T, run *agent.Run, tool, args string) (agent.Result, error) {
	t.Helper()
	res, err := run.Call(t.Context(), tool, json.RawMessage(args))
	if err != nil && !errors.Is(err, gate.ErrDenied) {
		t.Fatalf("%s: %v", tool, err)
	}
	return res, err
}

func reads(t *testing.T, run *agent.Run) agent.Result {
	t.Helper()
	res, err := call(t, run, "get_order", `{"order":"order-7"}`)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// superseded asks that a call is held since what it goes by is history.
func superseded(t *testing.T, res agent.Result, err error) {
	t.Helper()
	if !errors.Is(err, gate.ErrSuperseded) || !errors.Is(err, gate.ErrHeld) {
		t.Errorf("want a hold that says what was superseded, got %v", err)
		return
	}
	for _, r := range res.Decision.Remedies {
		if r.Kind == gate.RemedyCallTool && r.Tool == "get_order" {
			return
		}
	}
	t.Errorf("nothing says what to read again: %+v", res.Decision.Remedies)
}

func TestI16ARecordThatChangesEndsNoRun(t *testing.T) {
	w, _, a := desk(t)
	run := a.Start("ana")
	for i, status := range []string{"packed", "sent", "open", "packed", "open", "packed"} {
		reads(t, run)
		if _, err := call(t, run, "set_status", fmt.Sprintf(`{"order":"order-7","status":%q}`, status)); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	if n := w.ran("set_status"); n != 6 {
		t.Errorf("%d writes", n)
	}
	fresh := a.Start("bob")
	reads(t, fresh)
	if _, err := call(t, fresh, "set_status", `{"order":"order-7","status":"sent"}`); err != nil {
		t.Errorf("a run that begins now: %v", err)
	}
}

func TestARunThatHasNotReadWhatIsSoNowIsTold(t *testing.T) {
	_, o, a := desk(t)
	run, other := a.Start("ana"), a.Start("bob")
	reads(t, run)
	o.set("order-7", "packed")
	reads(t, other)
	res, err := call(t, run, "set_status", `{"order":"order-7","status":"sent"}`)
	superseded(t, res, err)
	reads(t, run) // what it was told to do
	if _, err := call(t, run, "set_status", `{"order":"order-7","status":"sent"}`); err != nil {
		t.Errorf("it has read what is so now: %v", err)
	}

	t.Run("and one that read it before it changed back", func(t *testing.T) {
		_, o, a := desk(t)
		run, other := a.Start("ana"), a.Start("bob")
		reads(t, run)
		o.set("order-7", "packed")
		reads(t, run)
		o.set("order-7", "open")
		reads(t, other)
		res, err := call(t, run, "set_status", `{"order":"order-7","status":"sent"}`)
		superseded(t, res, err)
	})
}

func TestAValueThatIsHistoryClearsNothing(t *testing.T) {
	w, o, a := desk(t)
	run := a.Start("ana")
	reads(t, run)
	o.mu.Lock()
	o.address["order-7"] = "99 New Road"
	o.mu.Unlock()
	reads(t, run)
	res, err := call(t, run, "ship", `{"order":"order-7","to":"12 Mill Lane"}`)
	superseded(t, res, err)
	if _, err := call(t, run, "ship", `{"order":"order-7","to":"99 New Road"}`); err != nil || w.ran("ship") != 1 {
		t.Errorf("to where it goes now: %v", err)
	}
}

func TestWhoReadsForAnotherRunReadsNothingForIt(t *testing.T) {
	_, o, a := desk(t)
	run := a.Start("ana")
	reads(t, run)
	o.set("order-7", "packed")
	reads(t, run)
	fork, err := run.Fork()
	if err != nil {
		t.Fatal(err)
	}
	res, err := call(t, fork, "set_status", `{"order":"order-7","status":"sent"}`)
	superseded(t, res, err)
	reads(t, fork)
	if _, err := call(t, fork, "set_status", `{"order":"order-7","status":"sent"}`); err != nil {
		t.Errorf("a fork that read for itself: %v", err)
	}
}

func TestAnArgumentThatChoosesWhichTruthIsToldMakesNoRecord(t *testing.T) {
	for args, verified := range map[string]bool{
		`{"order":"order-7"}`:                           true,
		`{"order":"order-7","as_of":null}`:              true,
		`{"order":"order-7","lang":"en"}`:               true,
		`{"order":"order-7","lang":"de"}`:               false,
		`{"order":"order-7","as_of":"2019"}`:            false,
		`{"order":"order-7","as_of":""}`:                false,
		`{"order":"order-7","as_of":"1","lang":"en"}`:   false,
		`{"order":"order-7","as_of":null,"lang":null}`:  true,
		`{"order":"order-7","as_of":null,"lang":"En"}`:  false,
		`{"order":"order-7","as_of":null,"lang":" en"}`: false,
	} {
		w, _, a := desk(t)
		now := w.row(t, reads(t, a.Start("ana")).Rows[1])
		run := a.Start("bob")
		res, err := call(t, run, "get_order", args)
		if err != nil {
			t.Fatal(args, err)
		}
		believed := true
		for _, id := range res.Rows {
			r := w.row(t, id)
			believed = believed && r.State() == memory.StateVerified
		}
		if believed != verified {
			t.Errorf("%s: believed %v", args, believed)
		}
		if after := w.row(t, now.ID); !verified && (after.State() != memory.StateVerified || after.Revision != now.Revision) {
			t.Errorf("%s: what is so now is %s", args, after.Truth)
		}
	}
}

func TestASubjectOfSeveralArgumentsIsOneOfItsOwn(t *testing.T) {
	type route struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	type fare struct {
		Price string `json:"price"`
	}
	prices := map[route]string{{"BER", "MUC"}: "120 EUR", {"MUC", "BER"}: "140 EUR", {`BER","MUC`, "X"}: "1 EUR", {"BER", `MUC","X`}: "2 EUR"}
	w := newWorld(t)
	a := w.agentWith(t, "desk", w.gate, []agent.Tool{agent.Func("fare", "", func(_ context.Context, in route) (fare, error) {
		return fare{prices[in]}, nil
	}, agent.ReadOnly(), agent.Authoritative("/price", "fare", "/from", "/to"))}, nil)
	run := a.Start("ana")
	seen := map[string]bool{}
	for in, price := range prices {
		args, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		res, err := call(t, run, "fare", string(args))
		if err != nil {
			t.Fatal(err)
		}
		r := w.row(t, res.Rows[0])
		if len(res.Rows) != 1 || r.State() != memory.StateVerified || r.Content.Object != price || seen[r.Content.Subject] {
			t.Errorf("%v: %s %v", in, r.State(), r.Content)
		}
		seen[r.Content.Subject] = true
	}
	for subject := range seen {
		var parts []string
		if err := json.Unmarshal([]byte(subject), &parts); err != nil || len(parts) != 2 {
			t.Errorf("%q: %v", subject, err)
		}
	}
	if res, err := call(t, run, "fare", `{"from":"BER","to":" "}`); err != nil || len(res.Rows) > 0 && strings.Contains(fmt.Sprint(w.row(t, res.Rows[0]).State()), "verified_") {
		t.Errorf("a subject with a blank part: %v", err)
	}
}

// hangs has a run ask for the order while the desk is slow. What the order is then is changed before the answer comes.
func (o *orderDesk) hangs(t *testing.T, run *agent.Run, then string) (answer func() agent.Result) {
	o.slow, o.began = make(chan struct{}), make(chan struct{})
	hang, done := o.slow, make(chan agent.Result, 1)
	go func() {
		res, err := run.Call(t.Context(), "get_order", json.RawMessage(`{"order":"order-7"}`))
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	<-o.began
	o.mu.Lock()
	o.slow = nil
	o.mu.Unlock()
	o.set("order-7", then)
	return func() agent.Result {
		close(hang)
		return <-done
	}
}

func TestASlowAnswerSupersedesNothing(t *testing.T) {
	w, o, a := desk(t)
	slow := a.Start("ana")
	answer := o.hangs(t, slow, "packed")
	other := a.Start("bob")
	now := reads(t, other).Rows[0]
	res := answer()
	if r := w.row(t, now); r.State() != memory.StateVerified || r.Content.Object != "packed" {
		t.Errorf("an answer from before took its place: %s", r.Truth)
	}
	if r := w.row(t, res.Rows[0]); r.State() == memory.StateVerified {
		t.Errorf("%q is verified", r.Content.Object)
	}
	held, err := call(t, slow, "set_status", `{"order":"order-7","status":"sent"}`)
	superseded(t, held, err)
	reads(t, slow)
	if _, err := call(t, slow, "set_status", `{"order":"order-7","status":"sent"}`); err != nil {
		t.Errorf("after it read again: %v", err)
	}
	if _, err := call(t, other, "set_status", `{"order":"order-7","status":"sent"}`); err != nil {
		t.Errorf("the other run: %v", err)
	}
}

// A run that was told what was overtaken after what is so now was told the wrong thing last.
func TestWhatWasOvertakenIsNotWhatTheRunKnows(t *testing.T) {
	w, o, a := desk(t)
	run, other := a.Start("ana"), a.Start("bob")
	reads(t, run)
	o.set("order-7", "packed")
	answer := o.hangs(t, run, "open")
	reads(t, other) // it says again what it said
	if r := w.row(t, answer().Rows[0]); r.Content.Object != "packed" || !r.Has(memory.FlagOutdated) {
		t.Errorf("%v is %s", r.Content, r.Truth)
	}
	res, err := call(t, run, "set_status", `{"order":"order-7","status":"sent"}`)
	superseded(t, res, err)
	reads(t, run)
	if _, err := call(t, run, "set_status", `{"order":"order-7","status":"sent"}`); err != nil {
		t.Errorf("after it read again: %v", err)
	}
}

// Two tools of one system, and a verifier of it, are one source; two tools of no declared
// system are two.
func TestToolsOfOneSystemAreOneSource(t *testing.T) {
	for _, one := range []bool{true, false} {
		w, o := newWorld(t), newOrderDesk()
		name := func(id string) agent.Option {
			if !one {
				return agent.BlastRadius(gate.OneObject)
			}
			return agent.SystemOfRecord(id)
		}
		a := w.agentWith(t, "desk", w.gate, append(o.tools(w)[1:],
			agent.Func("get_order", "", o.get, agent.ReadOnly(), agent.Authoritative("/status", "order.status", "/order"), agent.Identifier("/address"), name("shop")),
			agent.Func("find_order", "", o.get, agent.ReadOnly(), agent.Authoritative("/status", "order.status", "/order"), agent.Identifier("/address"), name("shop"))), nil)
		o.address["order-7"] = "a1"
		run := a.Start("ana")
		before := w.row(t, reads(t, run).Rows[0])
		o.set("order-7", "packed")
		res, err := call(t, run, "find_order", `{"order":"order-7"}`)
		if err != nil {
			t.Fatal(err)
		}
		now, before := w.row(t, res.Rows[0]), w.row(t, before.ID)
		if contested := now.Has(memory.FlagContested) && before.Has(memory.FlagContested); contested == one || before.Has(memory.FlagOutdated) != one {
			t.Errorf("of one system %v: %s %v, then %s %v", one, before.Truth, before.Flags.Names(), now.Truth, now.Flags.Names())
		}
		if one && now.Asserter.Group() != (memory.Asserter{Principal: "x", Tool: "shop"}).Group() {
			t.Errorf("the group is %s", now.Asserter.Group())
		}
	}
}

// What a block advises helps when it is done: the model's own note waits, the tool is asked,
// and the call goes by what the tool said. The note itself stays what it was.
func TestAFitRowAnswersForOneThatSaysExactlyTheSame(t *testing.T) {
	w, o := newWorld(t), newOrderDesk()
	everything := &agent.Options{Recall: recall.Policy{Channels: recall.All}}
	a := w.agentWith(t, "desk", w.gate, o.tools(w), everything)
	recalled := func(run *agent.Run, c memory.Content, id memory.ID) {
		t.Helper()
		got, err := run.Recall(t.Context(), recall.Query{Subject: c.Subject, Predicate: c.Predicate})
		if err != nil || !slices.ContainsFunc(got.Rows, func(r memory.Row) bool { return r.ID == id }) {
			t.Fatalf("the note was not recalled: %v", err)
		}
	}
	run := a.Start("ana")
	note, err := run.Remember(t.Context(), agent.Note{Content: fact("order-7", "order.address", "12 Mill Lane")})
	if err != nil {
		t.Fatal(err)
	}
	other := a.Start("ana")
	recalled(other, fact("order-7", "order.address", ""), note.ID)
	if _, err := call(t, other, "ship", `{"order":"order-7","to":"12 Mill Lane"}`); !errors.Is(err, gate.ErrUnverified) {
		t.Fatalf("it went by a note that nobody verified: %v", err)
	}
	reads(t, other)
	res, err := call(t, other, "ship", `{"order":"order-7","to":"12 Mill Lane"}`)
	if err != nil {
		t.Fatalf("what was advised was done: %v", err)
	}
	cited := map[memory.ID]bool{}
	for _, c := range res.Decision.Consumed {
		cited[c.Row] = true
	}
	if !cited[note.ID] || w.row(t, note.ID).State() == memory.StateVerified {
		t.Errorf("the permit cites the note: %v; the note is %s", cited[note.ID], w.row(t, note.ID).State())
	}

	for name, content := range map[string]memory.Content{
		"another object":          fact("order-7", "order.address", "12 Mill Lane, back door"),
		"another letter case":     fact("order-7", "order.address", "12 mill lane"),
		"another subject":         fact("Order-7", "order.address", "12 Mill Lane"),
		"a sign that is not seen": fact("order-7", "order.address", "12 Mill\u00a0Lane"),
		"any number of objects":   {Subject: "order-7", Predicate: "order.address", Object: "12 Mill Lane", Cardinality: memory.CardinalitySetValued},
	} {
		t.Run(name+" is not the same", func(t *testing.T) {
			w, o := newWorld(t), newOrderDesk()
			a := w.agentWith(t, "desk", w.gate, o.tools(w), everything)
			writer, run := a.Start("ana"), a.Start("ana")
			note, err := writer.Remember(t.Context(), agent.Note{Content: content})
			if err != nil {
				t.Fatal(err)
			}
			recalled(run, content, note.ID)
			reads(t, run)
			if _, err := call(t, run, "ship", `{"order":"order-7","to":"12 Mill Lane"}`); err == nil {
				t.Error("it was let through")
			}
		})
	}
}

// The id that a found record names itself by may be acted on where nothing unfit was read.
// One that only the call named, that an empty answer repeats, or that stands beside a
// stranger's words, came from nowhere as ever.
func TestTheIdentifierOfAFoundRecordMayBeActedOn(t *testing.T) {
	type found struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	}
	w := newWorld(t)
	tools := append(w.tools(),
		agent.Func("find", "", func(_ context.Context, in lookupIn) (found, error) {
			if in.Customer == "nobody" {
				return found{ID: "ord-9"}, nil
			}
			return found{ID: "ord-7", Status: "open"}, nil
		}, agent.ReadOnly(), agent.Identifier("/id"), agent.Authoritative("/status", "order.status", "/customer")),
		agent.Func("cancel", "", func(context.Context, orderIn) (nothing, error) { return nothing{}, nil }, agent.Irreversible(), agent.TypedSink(gate.KindObjectID, "/order")),
		agent.Func("pay", "", func(context.Context, orderIn) (nothing, error) { return nothing{}, nil }, agent.Irreversible(), agent.TypedSink(gate.KindAccount, "/order")))
	a := w.agentWith(t, "desk", w.gate, tools, nil)
	for name, c := range map[string]struct {
		before [][2]string
		call   [2]string
		fires  bool
	}{
		"a record that was found":         {[][2]string{{"find", `{"customer":"acme"}`}}, [2]string{"cancel", `{"order":"ord-7"}`}, true},
		"another id":                      {[][2]string{{"find", `{"customer":"acme"}`}}, [2]string{"cancel", `{"order":"ord-8"}`}, false},
		"another letter case":             {[][2]string{{"find", `{"customer":"acme"}`}}, [2]string{"cancel", `{"order":"ORD-7"}`}, false},
		"nothing was read":                {nil, [2]string{"cancel", `{"order":"ord-7"}`}, false},
		"an answer without a record":      {[][2]string{{"find", `{"customer":"nobody"}`}}, [2]string{"cancel", `{"order":"ord-9"}`}, false},
		"the key that the model asked by": {[][2]string{{"find", `{"customer":"ord-66"}`}}, [2]string{"cancel", `{"order":"ord-66"}`}, false},
		"beside a stranger's words":       {[][2]string{{"find", `{"customer":"acme"}`}, {"search", `{"words":"x"}`}}, [2]string{"cancel", `{"order":"ord-7"}`}, false},
		"a sink that is no object":        {[][2]string{{"find", `{"customer":"acme"}`}}, [2]string{"pay", `{"order":"ord-7"}`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			run := a.Start("ana")
			for _, b := range c.before {
				if _, err := call(t, run, b[0], b[1]); err != nil {
					t.Fatal(err)
				}
			}
			if res, err := call(t, run, c.call[0], c.call[1]); (err == nil) != c.fires || c.fires && !res.Decision.Has(gate.FromNowhere) {
				t.Errorf("%v", err)
			}
		})
	}
}
