package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// orderSchema is how a shop's service describes an order, as its operator has it.
const orderSchema = `{"type":"object","properties":{
	"id":{"type":"string"},
	"status":{"type":"string","enum":["open","packed","sent"]},
	"due":{"type":"string","format":"date"},
	"total":{"type":"number"},
	"gift":{"type":"boolean"},
	"note":{"type":"string"},
	"items":{"type":"array","items":{"$ref":"#/$defs/item"}},
	"stock":{"type":"object","additionalProperties":{"type":"integer"}}},
	"$defs":{"item":{"type":"object","properties":{"sku":{"type":"string"},"title":{"type":"string"},"price":{"type":"number"},"quantity":{"type":"integer"},"engraving":{"type":"string"}}}}}`

func schemaOf(t testing.TB, text string) *jsonschema.Schema {
	t.Helper()
	s := new(jsonschema.Schema)
	if err := json.Unmarshal([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// shop is a desk whose order tool answers what it is told to.
type shop struct {
	*world
	answer string
	err    error
	a      *agent.Agent
	opts   []agent.Option
}

func (s *shop) getOrder(t testing.TB) agent.Tool {
	return agent.Raw("get_order", "reads an order", schemaOf(t, `{"type":"object","properties":{"order":{"type":"string"}},"required":["order"],"additionalProperties":false}`),
		func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(s.answer), s.err
		},
		append([]agent.Option{agent.ReadOnly(), agent.OutputSchema(schemaOf(t, orderSchema))}, s.opts...)...)
}

func refundSchema(t testing.TB) *jsonschema.Schema {
	return schemaOf(t, `{"type":"object","properties":{"order":{"type":"string"},"amount":{"type":"number"},"reason":{"type":"string"}},"required":["order","amount"],"additionalProperties":false}`)
}

func newShop(t testing.TB, kinds map[string][]gate.Kind, refund []agent.Option, opts ...agent.Option) *shop {
	s := &shop{world: newWorld(t), opts: opts}
	order := s.getOrder(t)
	account := agent.Raw("my_account", "reads the account", schemaOf(t, `{"type":"object","additionalProperties":false}`),
		func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"balance":120}`), nil
		},
		agent.ReadOnly(), agent.OutputSchema(schemaOf(t, `{"type":"object","properties":{"balance":{"type":"number"}}}`)), agent.Record("", "account"))
	pay := agent.Raw("refund", "pays money back", refundSchema(t), func(context.Context, json.RawMessage) (json.RawMessage, error) {
		s.fire("refund")
		return json.RawMessage("null"), nil
	}, append([]agent.Option{agent.Irreversible(), agent.Sinks("/order", "/amount"), agent.Optional()}, refund...)...)
	status := agent.Raw("set_status", "sets the status", schemaOf(t, `{"type":"object","properties":{"order":{"type":"string"},"status":{"type":"string"},"amount":{"type":"number"}},"additionalProperties":false}`),
		func(context.Context, json.RawMessage) (json.RawMessage, error) {
			s.fire("set_status")
			return json.RawMessage("null"), nil
		}, append([]agent.Option{agent.StateChanging()}, refund...)...)
	s.a = s.agentWith(t, "shop", s.gate, []agent.Tool{order, account, pay, status}, &agent.Options{Kinds: kinds})
	return s
}

const order7 = `{"id":"o-7","status":"open","due":"2026-05-01","total":230,"gift":true,"note":"EVIL note","items":[{"sku":"A1","title":"Lamp","price":150,"quantity":1,"engraving":"EVIL 1"},{"sku":"B2","title":"Bulb","price":80,"quantity":1,"engraving":"EVIL 2"}],"stock":{"EVIL key":3}}`

var declared = []agent.Option{agent.Record("", "order", "/order"), agent.Identifier("/id"), agent.Identifier("/items/*/sku"), agent.WrittenByOperator("/items/*/title")}

func (s *shop) read(t testing.TB, run *agent.Run) agent.Result {
	t.Helper()
	res, err := run.Call(t.Context(), "get_order", json.RawMessage(`{"order":"o-7"}`))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestARecordIsBelievedAsFarAsItsSchemaClosesIt(t *testing.T) {
	s := newShop(t, nil, nil, declared...)
	s.answer = order7
	run := s.a.Start("ana")
	typed(t, run, "refund order o-7")
	res := s.read(t, run)
	if string(res.Output) != string(canonical(t, order7)) {
		t.Errorf("shown: %s", res.Output)
	}
	var record, rest []string
	for _, id := range res.Rows {
		row := s.row(t, id)
		if row.State() == memory.StateVerified {
			record = append(record, row.Content.String())
			continue
		}
		rest = append(rest, row.Content.Text)
	}
	if want := `o-7.order = {"due":"2026-05-01","gift":true,"items":[{"price":150,"quantity":1,"title":"Lamp"},{"price":80,"quantity":1,"title":"Bulb"}],"status":"open","total":230}`; len(record) != 1 || record[0] != want {
		t.Errorf("believed: %q\nwant %s", record, want)
	}
	if want := `{"items":[{"engraving":"EVIL 1"},{"engraving":"EVIL 2"}],"note":"EVIL note","stock":{"EVIL key":3}}`; len(rest) != 1 || rest[0] != want {
		t.Errorf("a third party's: %q\nwant %s", rest, want)
	}
	mustBlock(t, run, "refund", map[string]any{"order": "o-7", "amount": 230}, gate.ErrUnverified)
}

func TestWhatIsWithheldFeedsNoCallThatDoesNotUseIt(t *testing.T) {
	s := newShop(t, nil, nil, append(declared, agent.Withheld())...)
	s.answer = order7
	run := s.a.Start("ana")
	typed(t, run, "refund order o-7")
	res := s.read(t, run)
	if strings.Contains(string(res.Output), "EVIL") || strings.Contains(agent.ToolText(res, nil), "EVIL") {
		t.Errorf("shown: %s", res.Output)
	}
	if len(res.Withheld) != 4 || !strings.Contains(agent.ToolText(res, nil), res.Withheld[0].Token()) {
		t.Fatalf("%d handles in %s", len(res.Withheld), res.Output)
	}
	mustFire(t, run, "refund", map[string]any{"order": "o-7", "amount": 230})

	for i, h := range res.Withheld {
		mustBlock(t, run, "refund", map[string]any{"order": "o-7", "amount": 230, "reason": h.Token()}, gate.ErrUnverified)
		if _, err := run.Call(t.Context(), "get_order", args(map[string]any{"order": h.Token()})); err != nil {
			t.Errorf("a read with handle %d: %v", i, err)
		}
	}
	text, err := run.Open(t.Context(), res.Withheld[3])
	if err != nil || !strings.Contains(text, "EVIL") {
		t.Errorf("opened: %q %v", text, err)
	}
	mustBlock(t, run, "refund", map[string]any{"order": "o-7", "amount": 230}, gate.ErrUnverified)
}

func TestAToolThatDeclaresNothingWithholdsAll(t *testing.T) {
	s := newShop(t, nil, nil, agent.Withheld())
	for _, answer := range []string{order7, `"EVIL"`, `["EVIL"]`, `not JSON, EVIL`, `[null,"EVIL",null]`, `{"EVIL":{}}`} {
		s.answer = answer
		run := s.a.Start("ana")
		res := s.read(t, run)
		if strings.Contains(string(res.Output), "EVIL") || len(res.Withheld) != 1 {
			t.Errorf("%s: shown %s with %d handles", answer, res.Output, len(res.Withheld))
		}
		if got := len(run.Lineage().Direct()); got != 0 {
			t.Errorf("%s: the run rests on %d rows", answer, got)
		}
	}
}

func TestARecordWithoutASubjectIsOfThePrincipal(t *testing.T) {
	s := newShop(t, nil, nil, declared...)
	for _, who := range []string{"ana", "bob"} {
		res := mustFire(t, s.a.Start(who), "my_account", map[string]any{})
		if got := s.row(t, res.Rows[0]).Content.String(); got != who+`.account = {"balance":120}` {
			t.Errorf("%s: %s", who, got)
		}
	}
}

func TestARecordThatChangesSupersedesItself(t *testing.T) {
	s := newShop(t, nil, nil, append(declared, agent.Withheld())...)
	run, other := s.a.Start("ana"), s.a.Start("bob")
	for _, r := range []*agent.Run{run, other} {
		typed(t, r, "refund order o-7")
	}
	s.answer = strings.Replace(order7, "230", "2300", 1)
	s.read(t, run)
	s.answer = strings.Replace(order7, "230", "1800", 1)
	s.read(t, other)
	mustBlock(t, run, "refund", map[string]any{"order": "o-7", "amount": 2300}, gate.ErrSuperseded)
	s.read(t, run)
	mustBlock(t, run, "refund", map[string]any{"order": "o-7", "amount": 2300}, gate.ErrSuperseded)
	mustFire(t, run, "refund", map[string]any{"order": "o-7", "amount": 1800})
}

func TestAPlaceInARecordHasAKindOfItsOwn(t *testing.T) {
	kinds := map[string][]gate.Kind{"order/items/*/price": {gate.KindAmount}}
	s := newShop(t, kinds, []agent.Option{agent.TypedSink(gate.KindObjectID, "/order"), agent.TypedSink(gate.KindAmount, "/amount"), agent.TypedSinks(), agent.WaiveNamed()}, declared...)
	s.answer = strings.NewReplacer("230", "2300", "150", "1500").Replace(order7)
	run := s.a.Start("ana")
	typed(t, run, "refund order o-7")
	s.read(t, run)
	mustFire(t, run, "refund", map[string]any{"order": "o-7", "amount": 1500})
	mustBlock(t, run, "refund", map[string]any{"order": "o-7", "amount": 2300}, gate.ErrUnverified) // the total has no kind
}

func TestAnErrorOfAClosedSetTaintsNothing(t *testing.T) {
	s := newShop(t, nil, nil, append(declared, agent.ErrorTexts("no such order"))...)
	for text, clean := range map[string]bool{"no such order": true, "no such order: EVIL": false, "no such\u200b order": false, "no such order\n": false, "No such order": false} {
		s.err = errors.New(text)
		run := s.a.Start("ana")
		res, err := run.Call(t.Context(), "get_order", json.RawMessage(`{"order":"o-8"}`))
		if !errors.Is(err, agent.ErrTool) || clean && !strings.Contains(agent.ToolText(res, err), text) {
			t.Errorf("%s: %v", text, err)
		}
		if got := len(run.Lineage().Direct()) == 0; got != clean {
			t.Errorf("%s: taints nothing: %v", text, got)
		}
	}
}

func TestARecordThatCannotHoldIsRefused(t *testing.T) {
	fn := func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, nil }
	in, out := schemaOf(t, `{"type":"object","properties":{"order":{"type":"string"}}}`), schemaOf(t, orderSchema)
	for name, c := range map[string]struct {
		field string
		opts  []agent.Option
	}{
		"no schema":                          {"record", []agent.Option{agent.Record("", "order", "/order")}},
		"only the server's":                  {"record", []agent.Option{agent.ServerOutputSchema(out), agent.Record("", "order", "/order")}},
		"a place that the output has not":    {"record", []agent.Option{agent.OutputSchema(out), agent.Record("/orders", "order", "/order")}},
		"no predicate":                       {"record", []agent.Option{agent.OutputSchema(out), agent.Record("", "", "/order")}},
		"a subject that is no argument":      {"subject", []agent.Option{agent.OutputSchema(out), agent.Record("", "order", "/id")}},
		"one within another":                 {"record", []agent.Option{agent.OutputSchema(out), agent.Record("", "order", "/order"), agent.Record("/items", "items", "/order")}},
		"twice":                              {"record", []agent.Option{agent.OutputSchema(out), agent.Record("", "order", "/order"), agent.Record("", "items", "/order")}},
		"an operator's string in no record":  {"operator", []agent.Option{agent.OutputSchema(out), agent.Record("/items", "items", "/order"), agent.WrittenByOperator("/note")}},
		"an operator's string nowhere":       {"operator", []agent.Option{agent.OutputSchema(out), agent.Record("", "order", "/order"), agent.WrittenByOperator("/items/*/name")}},
		"a computed argument that is not":    {"computed", []agent.Option{agent.Computed(gate.KindAmount, "/amount")}},
		"a computed recipient":               {"computed", []agent.Option{agent.Computed(gate.KindRecipient, "/order")}},
		"a maximum that is no number":        {"computed", []agent.Option{agent.ComputedAtMost(gate.KindAmount, "/order", "1e9")}},
		"an identifier of what a map holds":  {"identifier", []agent.Option{agent.OutputSchema(out), agent.Identifier("/stock/*")}},
		"what sets any element of a list":    {"sets", []agent.Option{agent.Sets("/order", "order/items/*/price", "/order")}},
		"a maximum of a date":                {"computed", []agent.Option{agent.ComputedAtMost(gate.KindSchedule, "/order", "10")}},
		"an identifier of what is not there": {"identifier", []agent.Option{agent.OutputSchema(out), agent.Identifier("/items/*/isbn")}},
	} {
		err := agent.Raw("x", "", in, fn, append(c.opts, agent.ReadOnly())...).Check()
		var wrong *agent.DeclarationError
		if !errors.As(err, &wrong) || wrong.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoStringThatAStrangerMayWriteIsBelieved: a mark in any place that no schema closes,
// or in the name of any member, is in no verified row, and withheld nobody is shown it.
func TestNoStringThatAStrangerMayWriteIsBelieved(t *testing.T) {
	const mark = "EVIL"
	var draw func(t *rapid.T, depth int, closed *bool) (schema map[string]any, value any)
	draw = func(t *rapid.T, depth int, closed *bool) (map[string]any, any) {
		kinds := []string{"number", "integer", "boolean", "enum", "const", "date", "string", "any", "anyOf", "format"}
		if depth > 0 {
			kinds = append(kinds, "object", "list", "map", "ref")
		}
		switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
		case "number", "integer":
			v := any(rapid.IntRange(-9, 999).Draw(t, "n"))
			if rapid.IntRange(0, 3).Draw(t, "lies") == 0 {
				v = mark
			}
			return map[string]any{"type": kind}, v
		case "boolean":
			if rapid.IntRange(0, 3).Draw(t, "lies") == 0 {
				return map[string]any{"type": kind}, mark
			}
			return map[string]any{"type": kind}, rapid.Bool().Draw(t, "b")
		case "enum":
			return map[string]any{"type": "string", "enum": []string{"x", "y"}}, rapid.SampledFrom([]string{"x", "y", mark, "x " + mark}).Draw(t, "e")
		case "const":
			return map[string]any{"const": "x"}, rapid.SampledFrom([]string{"x", mark}).Draw(t, "c")
		case "date":
			return map[string]any{"type": "string", "format": "date"}, rapid.SampledFrom([]string{"2026-04-17", mark, "2026-04-17 " + mark}).Draw(t, "d")
		case "format":
			return map[string]any{"type": "string", "format": rapid.SampledFrom([]string{"email", "uri", "hostname"}).Draw(t, "f")}, mark + "@x.example"
		case "string":
			return map[string]any{"type": "string"}, mark
		case "any":
			return map[string]any{}, rapid.SampledFrom([]any{mark, 3, map[string]any{mark: 1}, []any{mark}}).Draw(t, "any")
		case "anyOf":
			return map[string]any{"anyOf": []any{map[string]any{"enum": []string{"x"}}, map[string]any{"type": "string"}}}, mark
		case "ref":
			s, v := draw(t, depth-1, closed)
			return map[string]any{"allOf": []any{s}}, v
		case "list":
			s, v := draw(t, depth-1, closed)
			list := []any{v}
			for range rapid.IntRange(0, 2).Draw(t, "more") {
				list = append(list, rapid.SampledFrom([]any{v, mark, nil, map[string]any{mark: mark}}).Draw(t, "element"))
			}
			return map[string]any{"type": "array", "items": s}, list
		case "map":
			s, v := draw(t, depth-1, closed)
			return map[string]any{"type": "object", "additionalProperties": s}, map[string]any{mark: v, "b": v}
		default:
			s1, v1 := draw(t, depth-1, closed)
			s2, v2 := draw(t, depth-1, closed)
			value := map[string]any{"one": v1, "two": v2}
			if rapid.Bool().Draw(t, "extra") {
				value[mark] = rapid.SampledFrom([]any{1, mark, true}).Draw(t, "more")
			}
			return map[string]any{"type": "object", "properties": map[string]any{"one": s1, "two": s2}}, value
		}
	}
	checked := 0
	rapid.Check(t, func(rt *rapid.T) {
		s1, v1 := draw(rt, 3, new(bool))
		schema, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"v": s1}})
		if err != nil {
			rt.Fatal(err)
		}
		answer, err := json.Marshal(map[string]any{"v": v1})
		if err != nil {
			rt.Fatal(err)
		}
		hide := rapid.Bool().Draw(rt, "withheld")
		w := newWorld(t)
		opts := []agent.Option{agent.ReadOnly(), agent.OutputSchema(schemaOf(t, string(schema))), agent.Record("", "thing", "/order")}
		if hide {
			opts = append(opts, agent.Withheld())
		}
		a := w.agentWith(t, "shop", w.gate, []agent.Tool{agent.Raw("get", "", schemaOf(t, `{"type":"object","properties":{"order":{"type":"string"}}}`),
			func(context.Context, json.RawMessage) (json.RawMessage, error) { return answer, nil }, opts...)}, nil)
		run := a.Start("ana")
		res, err := run.Call(t.Context(), "get", json.RawMessage(`{"order":"o-7"}`))
		if err != nil {
			rt.Fatal(err)
		}
		for _, row := range w.rows(t) {
			if row.State() == memory.StateVerified && strings.Contains(row.Content.String(), mark) {
				rt.Fatalf("schema %s, answer %s: believed %s", schema, answer, row.Content)
			}
		}
		if hide && strings.Contains(agent.ToolText(res, nil), mark) {
			rt.Fatalf("schema %s, answer %s: shown %s", schema, answer, res.Output)
		}
		// All of it is shown or recorded.
		if said := 0; strings.Contains(string(answer), mark) {
			for _, row := range w.rows(t) {
				said += strings.Count(row.Content.String(), mark)
			}
			if said == 0 {
				rt.Fatalf("schema %s, answer %s: recorded nowhere", schema, answer)
			}
		}
		if !hide && string(res.Output) != string(canonical(t, string(answer))) {
			rt.Fatalf("schema %s, answer %s: shown %s", schema, answer, res.Output)
		}
		checked++
	})
	if checked == 0 {
		t.Error("nothing was checked")
	}
}

func TestAComputedAmount(t *testing.T) {
	kinds := map[string][]gate.Kind{"order/items/*/price": {gate.KindAmount}, "account/balance": {gate.KindAmount}}
	may := agent.Computed(gate.KindAmount, "/amount")
	for name, c := range map[string]struct {
		opts    []agent.Option
		tool    string
		amount  any
		silent  bool // the principal typed nothing of it
		tainted bool
		fires   bool
	}{
		"the sum of all prices":                              {[]agent.Option{may}, "refund", 230, false, false, true},
		"if nobody declared that it is computed":             {nil, "refund", 230, false, false, false},
		"the difference of two prices is below the least":    {[]agent.Option{may}, "refund", 70, false, false, false},
		"the product of two prices":                          {[]agent.Option{may}, "refund", 12000, false, false, false},
		"what no operation gives":                            {[]agent.Option{may}, "refund", 231, false, false, false},
		"a sum in a run whose principal was silent":          {[]agent.Option{may}, "refund", 230, true, false, false},
		"a sum in a run with a stranger's text":              {[]agent.Option{may}, "refund", 230, false, true, false},
		"what no operation gives, below the declared most":   {[]agent.Option{agent.ComputedAtMost(gate.KindAmount, "/amount", "300")}, "refund", 231, false, false, true},
		"what no operation gives, above the declared most":   {[]agent.Option{agent.ComputedAtMost(gate.KindAmount, "/amount", "300")}, "refund", 301, false, false, false},
		"less than nothing":                                  {[]agent.Option{agent.ComputedAtMost(gate.KindAmount, "/amount", "300")}, "refund", -231, false, false, false},
		"below the most, beside a stranger's text":           {[]agent.Option{agent.ComputedAtMost(gate.KindAmount, "/amount", "300")}, "refund", 231, false, true, false},
		"a call that can be put back does without the proof": {[]agent.Option{may}, "set_status", 231, false, false, true},
		"not beside a stranger's text":                       {[]agent.Option{may}, "set_status", 231, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, kinds, c.opts, append(declared, agent.Withheld())...)
			s.answer = strings.Replace(order7, `"total":230,`, "", 1)
			run := s.a.Start("ana")
			if !c.silent {
				typed(t, run, "pay back what is due for order o-7")
			}
			res := s.read(t, run)
			if c.tainted {
				if _, err := run.Open(t.Context(), res.Withheld[0]); err != nil {
					t.Fatal(err)
				}
			}
			given := map[string]any{"amount": c.amount, "order": "o-7"}
			if c.silent {
				given["order"] = "" // nothing else is in the way
			}
			_, err := run.Call(t.Context(), c.tool, args(given))
			if fired := err == nil; fired != c.fires {
				t.Errorf("fired: %v (%v)", fired, err)
			}
		})
	}
}

func canonical(t testing.TB, text string) json.RawMessage {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestACallMayPutBackWhatItItselfSets(t *testing.T) {
	sets := agent.Sets("/status", "order/status", "/order")
	for name, c := range map[string]struct {
		opts  []agent.Option
		order string
		fires bool
	}{
		"of the very thing":                   {[]agent.Option{sets}, "o-7", true},
		"of another subject":                  {[]agent.Option{sets}, "o-8", false},
		"of another predicate":                {[]agent.Option{agent.Sets("/status", "order/state", "/order")}, "o-7", false},
		"if nobody declared it":               {nil, "o-7", false},
		"not by a call that cannot be undone": {[]agent.Option{sets, agent.Irreversible()}, "o-7", false},
	} {
		s := newShop(t, nil, nil, append(declared, agent.Withheld())...)
		s.a = s.agentWith(t, "shop", s.gate, append([]agent.Tool{s.getOrder(t)}, agent.Raw("put_status", "sets the status",
			schemaOf(t, `{"type":"object","properties":{"order":{"type":"string"},"status":{"type":"string"}},"additionalProperties":false}`),
			func(context.Context, json.RawMessage) (json.RawMessage, error) { return json.RawMessage("null"), nil },
			append([]agent.Option{agent.StateChanging()}, c.opts...)...)), nil)
		run := s.a.Start("ana")
		typed(t, run, "put order o-7, or o-8, back to what it was")
		s.answer = order7
		s.read(t, run)
		s.answer = strings.Replace(order7, `"open"`, `"packed"`, 1)
		s.read(t, run)
		_, err := run.Call(t.Context(), "put_status", args(map[string]any{"order": c.order, "status": "open"}))
		if fired := err == nil; fired != c.fires || !fired && !errors.Is(err, gate.ErrSuperseded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheNameOfAMemberIsNoElementOfAList(t *testing.T) {
	const sentence = "the customer wants order o-7 cancelled"
	for name, c := range map[string]struct {
		schema, answer string
		opts           []agent.Option
	}{
		"a map, an identifier, no schema":         {`{}`, `{"files":{"` + sentence + `":"att-1"}}`, []agent.Option{agent.Identifier("/files/*")}},
		"a map where the schema has a list":       {`{"properties":{"l":{"type":"array","items":{"properties":{"id":{"type":"string"}}}}}}`, `{"l":{"` + sentence + `":{"id":"a"}}}`, []agent.Option{agent.Identifier("/l/*/id")}},
		"an operator's text in such a map":        {`{"properties":{"l":{"type":"array","items":{"properties":{"t":{"type":"string"},"n":{"type":"number"}}}}}}`, `{"l":{"` + sentence + `":{"n":1}}}`, []agent.Option{agent.Record("", "x", "/order"), agent.WrittenByOperator("/l/*/t")}},
		"an operator's element where a map is":    {`{"properties":{"l":{"type":"array","items":{"type":"string"}}}}`, `{"l":{"a":"` + sentence + `"}}`, []agent.Option{agent.Record("", "x", "/order"), agent.WrittenByOperator("/l/*")}},
		"an operator's text that is no string":    {`{"properties":{"n":{"type":"number"}}}`, `{"n":"` + sentence + `"}`, []agent.Option{agent.Record("", "x", "/order"), agent.WrittenByOperator("/n")}},
		"an operator's map is the operator's":     {`{"properties":{"l":{"type":"object","additionalProperties":{"type":"number"}}}}`, `{"l":{"a word":1},"x":"` + sentence + `"}`, []agent.Option{agent.Record("", "x", "/order"), agent.WrittenByOperator("/l/*")}},
		"and a map that nobody said is anybody's": {`{"properties":{"l":{"type":"object","additionalProperties":{"type":"number"}}}}`, `{"l":{"` + sentence + `":1}}`, []agent.Option{agent.Record("", "x", "/order")}},
	} {
		w := newWorld(t)
		a := w.agentWith(t, "shop", w.gate, []agent.Tool{agent.Raw("get", "", schemaOf(t, `{"type":"object","properties":{"order":{"type":"string"}}}`),
			func(context.Context, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(c.answer), nil },
			append([]agent.Option{agent.ReadOnly(), agent.Withheld(), agent.OutputSchema(schemaOf(t, c.schema))}, c.opts...)...)}, nil)
		res, err := a.Start("ana").Call(t.Context(), "get", json.RawMessage(`{"order":"o-7"}`))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(res.Output), sentence) {
			t.Errorf("%s: shown %s", name, res.Output)
		}
		for _, row := range w.rows(t) {
			if row.State() == memory.StateVerified && strings.Contains(row.Content.String(), sentence) {
				t.Errorf("%s: believed %s", name, row.Content)
			}
		}
	}
}

func TestAShortValueThatIsHistoryIsHeld(t *testing.T) {
	kinds := map[string][]gate.Kind{"order/total": {gate.KindAmount}, "order/gift": {gate.KindSetting}}
	for name, c := range map[string]struct {
		tool   string
		amount any
		held   bool
	}{
		"an amount that was": {"refund", 230, true},
		"one that is":        {"refund", 180, false},
		"one of another place, which has no kind": {"refund", 80, false},
		"also by a call that can be put back":     {"set_status", 230, true},
	} {
		s := newShop(t, kinds, []agent.Option{agent.TypedSink(gate.KindAmount, "/amount")}, append(declared, agent.Withheld())...)
		run := s.a.Start("ana")
		typed(t, run, "pay for order o-7")
		s.answer = order7
		s.read(t, run)
		s.answer = strings.Replace(order7, "230", "180", 1)
		s.read(t, run)
		_, err := run.Call(t.Context(), c.tool, args(map[string]any{"order": "o-7", "amount": c.amount}))
		if held := errors.Is(err, gate.ErrSuperseded); held != c.held {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyAPlainNumberOrADateIsComputed(t *testing.T) {
	in := schemaOf(t, `{"type":"object","properties":{"n":{},"day":{},"list":{"type":"array","items":{"type":"number"}}},"additionalProperties":false}`)
	w := newWorld(t)
	g, err := gate.New(w.store, gate.Policy{Name: "t", Version: "1", Tools: map[string]gate.Rule{"due": {FromNowhere: true}, "pay": {}}}, &gate.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	fn := func(context.Context, json.RawMessage) (json.RawMessage, error) { return json.RawMessage("null"), nil }
	a := w.agentWith(t, "desk", g, []agent.Tool{
		agent.Raw("due", "", in, fn, agent.StateChanging(), agent.Computed(gate.KindAmount, "/n"), agent.Computed(gate.KindSchedule, "/day")),
		agent.Raw("pay", "", in, fn, agent.Irreversible(), agent.ComputedAtMost(gate.KindAmount, "/n", "250"), agent.ComputedAtMost(gate.KindAmount, "/list", "250")),
	}, nil)
	for text, fires := range map[string]bool{
		`due {"n":2500}`: true, `due {"n":"2500.50"}`: true, `due {"n":-2500}`: false, `due {"n":"any text"}`: false, `due {"n":"DE89370400440532013000"}`: false,
		`due {"n":"1e99"}`: false, `due {"n":"+2500"}`: false, `due {"day":"2026-05-01"}`: true, `due {"day":"2026-05-01T10:00:00Z"}`: true, `due {"day":"any text"}`: false,
		`due {"day":"2026-05-01 any text"}`: false, `pay {"n":200}`: true, `pay {"n":"200.00"}`: true, `pay {"n":"200.000"}`: false, `pay {"list":[200,200]}`: false, `pay {"n":251}`: false,
	} {
		run := a.Start("ana")
		typed(t, run, "do it")
		tool, given, _ := strings.Cut(text, " ")
		_, err := run.Call(t.Context(), tool, json.RawMessage(given))
		if fired := err == nil; fired != fires {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestOnlyARecordIsTakenApart(t *testing.T) {
	kinds := map[string][]gate.Kind{"order": {gate.KindName}, "order/total": {gate.KindAmount}}
	w := newWorld(t)
	pay := agent.Raw("pay", "", schemaOf(t, `{"type":"object","properties":{"n":{"type":"number"}}}`), func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, nil },
		agent.Irreversible(), agent.TypedSink(gate.KindAmount, "/n"), agent.TypedSinks(), agent.WaiveNamed())
	get := agent.Raw("get", "", schemaOf(t, `{"type":"object","properties":{"order":{"type":"string"}}}`),
		func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"title":"{\"total\":5000}"}`), nil
		}, agent.ReadOnly(), agent.Authoritative("/title", "order", "/order"))
	run := w.agentWith(t, "desk", w.gate, []agent.Tool{pay, get}, &agent.Options{Kinds: kinds}).Start("ana")
	mustFire(t, run, "get", map[string]any{"order": "o-7"})
	mustBlock(t, run, "pay", map[string]any{"n": 5000}, gate.ErrFromNowhere)
}

func TestAnEmptyArgumentIsGiven(t *testing.T) {
	for given, believed := range map[string]bool{`{"order":"o-7"}`: true, `{"order":"o-7","limit":null}`: true, `{"order":"o-7","limit":{}}`: false, `{"order":"o-7","limit":[]}`: false, `{"order":"o-7","limit":{"a":[]}}`: false, `{"order":"o-7","limit":10}`: true} {
		w := newWorld(t)
		a := w.agentWith(t, "shop", w.gate, []agent.Tool{agent.Raw("get", "", schemaOf(t, `{"type":"object","properties":{"order":{"type":"string"},"limit":{}}}`),
			func(context.Context, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`{"total":1}`), nil
			},
			agent.ReadOnly(), agent.OutputSchema(schemaOf(t, orderSchema)), agent.Record("", "order", "/order"), agent.Fixed("/limit", "10"))}, nil)
		res, err := a.Start("ana").Call(t.Context(), "get", json.RawMessage(given))
		if err != nil {
			t.Fatal(err)
		}
		if got := w.row(t, res.Rows[0]).State() == memory.StateVerified; got != believed {
			t.Errorf("%s: believed %v", given, got)
		}
	}
}
