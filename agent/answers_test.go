package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// One answer of "N/A" is verified as nothing, kills no value and ends no run.
func TestAnAnswerThatSaysNothingIsNoAnswer(t *testing.T) {
	for _, nothing := range []string{"N/A", "unknown", "", " - ", "none yet"} {
		for _, first := range []bool{true, false} { // it comes before any value
			w := newWorldWith(t, memory.Options{Predicates: map[string]memory.Predicate{"order.status": {Placeholders: []string{"None yet"}}}})
			o := newOrderDesk()
			a := w.agentWith(t, "desk", w.gate, o.tools(w), nil)
			run := a.Start("ana")
			var was memory.ID
			if !first {
				was = reads(t, run).Rows[0]
			}
			o.set("order-7", nothing)
			for _, id := range reads(t, run).Rows {
				if r := w.row(t, id); r.Content.Predicate == "order.status" || r.State() != memory.StateVerified {
					t.Errorf("%q became a row: %v, %s", nothing, r.Content, r.State())
				}
			}
			if !first {
				if r := w.row(t, was); r.State() != memory.StateVerified || r.Has(memory.FlagContested) {
					t.Errorf("after %q what was so is %s %v", nothing, r.State(), r.Flags.Names())
				}
			}
			o.set("order-7", "packed")
			now := w.row(t, reads(t, run).Rows[0])
			if now.Content.Object != "packed" || now.State() != memory.StateVerified || now.Has(memory.FlagContested) {
				t.Errorf("after %q: %v is %s %v", nothing, now.Content, now.State(), now.Flags.Names())
			}
			if _, err := call(t, run, "set_status", `{"order":"order-7","status":"sent"}`); err != nil {
				t.Errorf("after %q: %v", nothing, err)
			}
		}
	}
}

// What says nothing vouches for no argument, also as a value in a record.
func TestWhatSaysNothingVouchesForNoArgument(t *testing.T) {
	out := &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}, Properties: map[string]*jsonschema.Schema{
		"account": {Type: "string", Enum: []any{"unknown", "DE89 3704 0044 0532 0130 00"}},
	}}
	for _, value := range []string{"unknown", "DE89 3704 0044 0532 0130 00"} {
		w := newWorld(t)
		tools := []agent.Tool{
			agent.Raw("get_supplier", "", byID(), func(context.Context, json.RawMessage) (json.RawMessage, error) {
				return json.Marshal(map[string]string{"account": value})
			}, agent.ReadOnly(), agent.OutputSchema(out), agent.Record("", "supplier", "/id")),
			agent.Func("pay", "", func(context.Context, struct {
				To string `json:"to"`
			}) (nothing, error) {
				return nothing{}, nil
			}, agent.Irreversible(), agent.TypedSink(gate.KindAccount, "/to"), agent.TypedSinks(), agent.WaiveNamed()),
		}
		a := w.agentWith(t, "desk", w.gate, tools, &agent.Options{Kinds: map[string][]gate.Kind{"supplier/account": {gate.KindAccount}}})
		run := a.Start("ana")
		if _, err := call(t, run, "get_supplier", `{"id":"acme"}`); err != nil {
			t.Fatal(err)
		}
		args, _ := json.Marshal(map[string]string{"to": value})
		if _, err := call(t, run, "pay", string(args)); (err == nil) == (value == "unknown") {
			t.Errorf("paid to %q: %v", value, err)
		}
	}
}

func byID() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"id": {Type: "string"}}, Required: []string{"id"}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
}

// Two contacts of one company do not contradict each other if the predicate may have many.
func TestAPredicateOfManyObjectsHasManyReadings(t *testing.T) {
	type in struct {
		Company string `json:"company"`
	}
	type out struct {
		Email string `json:"email"`
	}
	tool := func(name, email string) agent.Tool {
		return agent.Func(name, "", func(context.Context, in) (out, error) { return out{email}, nil }, agent.ReadOnly(), agent.Authoritative("/email", "contact", "/company"))
	}
	for _, c := range []memory.Cardinality{memory.CardinalityUnknown, memory.CardinalitySetValued} {
		w := newWorldWith(t, memory.Options{Predicates: map[string]memory.Predicate{"contact": {Cardinality: c}}})
		a := w.agentWith(t, "desk", w.gate, []agent.Tool{tool("first", "ana@acme.example"), tool("second", "bob@acme.example")}, nil)
		run := a.Start("ana")
		var ids []memory.ID
		for _, c := range []string{"first", "second"} {
			res, err := call(t, run, c, `{"company":"acme"}`)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, res.Rows...)
		}
		for _, id := range ids {
			many := c == memory.CardinalitySetValued
			if r := w.row(t, id); r.State() != memory.StateVerified || r.Has(memory.FlagContested) == many || (r.Content.Cardinality == memory.CardinalitySetValued) != many {
				t.Errorf("registered %s: %v is %s %v", c, r.Content, r.State(), r.Flags.Names())
			}
		}
	}
}

func TestARecordIsOneObject(t *testing.T) {
	w := newWorldWith(t, memory.Options{Predicates: map[string]memory.Predicate{"order": {Cardinality: memory.CardinalitySetValued}}})
	tool := agent.Func("get_order", "", newOrderDesk().get, agent.ReadOnly(), agent.Record("", "order", "/order"))
	_, err := agent.New("desk", agent.Model{ID: "m-1", Family: "m"}, w.store, w.gate, []agent.Tool{tool}, nil)
	var wrong *agent.DeclarationError
	if !errors.As(err, &wrong) || wrong.Tool != "get_order" || wrong.Field != "record" {
		t.Error(err)
	}
}

// A tool that is called as the declared system of another one says whether it is of it.
func TestAToolThatIsCalledAsASystemSaysWhetherItIsOfIt(t *testing.T) {
	w, o := newWorld(t), newOrderDesk()
	read := func(name string, more ...agent.Option) agent.Tool {
		return agent.Func(name, "", o.get, append(more, agent.ReadOnly())...)
	}
	for _, tools := range [][]agent.Tool{
		{read("shop"), read("get_order", agent.SystemOfRecord("shop"))},
		{read("get_order", agent.SystemOfRecord("shop")), read("shop")},
	} {
		_, err := agent.New("desk", agent.Model{ID: "m-1", Family: "m"}, w.store, w.gate, tools, nil)
		var wrong *agent.DeclarationError
		if !errors.As(err, &wrong) || wrong.Field != "system_of_record" {
			t.Error(err)
		}
	}
	if _, err := agent.New("desk", agent.Model{ID: "m-1", Family: "m"}, w.store, w.gate, []agent.Tool{read("shop", agent.SystemOfRecord("shop")), read("get_order", agent.SystemOfRecord("shop"))}, nil); err != nil {
		t.Error(err)
	}
}

// One argument that looks like a list names no other tool's subject of two.
func TestASubjectThatLooksLikeAListIsOne(t *testing.T) {
	type route struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	type place struct {
		At string `json:"at"`
	}
	type fare struct {
		Price string `json:"price"`
	}
	w := newWorld(t)
	a := w.agentWith(t, "desk", w.gate, []agent.Tool{
		agent.Func("fare", "", func(context.Context, route) (fare, error) { return fare{"120 EUR"}, nil }, agent.ReadOnly(), agent.Authoritative("/price", "fare", "/from", "/to")),
		agent.Func("local", "", func(context.Context, place) (fare, error) { return fare{"1 EUR"}, nil }, agent.ReadOnly(), agent.Authoritative("/price", "fare", "/at")),
	}, nil)
	run := a.Start("ana")
	subjects := map[string]bool{}
	for _, c := range [][2]string{{"fare", `{"from":"BER","to":"MUC"}`}, {"local", `{"at":"[\"BER\",\"MUC\"]"}`}, {"local", `{"at":"[\"[\\\"BER\\\",\\\"MUC\\\"]\"]"}`}, {"local", `{"at":"BER"}`}} {
		res, err := call(t, run, c[0], c[1])
		if err != nil {
			t.Fatal(err)
		}
		r := w.row(t, res.Rows[0])
		subjects[r.Content.Subject] = true
		if r.State() != memory.StateVerified || r.Has(memory.FlagContested) {
			t.Errorf("%v is %s %v", r.Content, r.State(), r.Flags.Names())
		}
	}
	if len(subjects) != 4 {
		t.Errorf("the subjects are %v", subjects)
	}
}
