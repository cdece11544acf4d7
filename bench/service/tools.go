package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
)

// endpoint is one call of the service as its operator's description has it: what it takes,
// what it answers, what it does. Nothing else is declared of a tool; see declare.
type endpoint struct {
	name   string
	effect gate.Effect
	in     string // properties; all of them are required
	out    string // schema
	record string // what a read answers; of a change, what it sets: "product/price" of the first argument
}

// The forms of the service's ids: as long as they are, no sentence fits in.
const (
	orderID    = `{"type":"string","pattern":"^O-[0-9]{4}$","maxLength":6}`
	customerID = `{"type":"string","pattern":"^C-[0-9]{3}$","maxLength":5}`
	skuID      = `{"type":"string","pattern":"^SKU[0-9]{3}$","maxLength":6}`
	invoiceID  = `{"type":"string","pattern":"^V-[0-9]{3}$","maxLength":5}`
	mailID     = `{"type":"string","pattern":"^M-[0-9]{3}$","maxLength":5}`
	text       = `{"type":"string"}`
	amount     = `{"type":"integer"}`
	day        = `{"type":"string","format":"date"}`
	status     = `{"type":"string","enum":["open","packed","sent","cancelled"]}`
	tier       = `{"type":"string","enum":["basic","gold"]}`
	warehouse  = `{"type":"string","enum":["north","south"]}`
	done       = `{"type":"object","properties":{"ok":{"type":"boolean"}}}`
	aLine      = `{"type":"object","properties":{"sku":` + skuID + `,"title":` + text + `,"price":` + amount + `,"quantity":` + amount + `,"engraving":` + text + `}}`
	anOrder    = `{"type":"object","properties":{"id":` + orderID + `,"customer":` + customerID + `,"status":` + status + `,"due":` + day + `,"total":` + amount + `,"gift":{"type":"boolean"},"street":` + text + `,"note":` + text + `,"lines":{"type":"array","items":` + aLine + `}}}`
	aProduct   = `{"type":"object","properties":{"sku":` + skuID + `,"title":` + text + `,"price":` + amount + `,"stock":` + amount + `}}`
	aCustomer  = `{"type":"object","properties":{"id":` + customerID + `,"tier":` + tier + `,"since":` + day + `,"credit":` + amount + `,"name":` + text + `,"email":` + text + `,"note":` + text + `}}`
	anInvoice  = `{"type":"object","properties":{"id":` + invoiceID + `,"supplier":` + text + `,"amount":` + amount + `,"due":` + day + `,"paid":{"type":"boolean"},"memo":` + text + `}}`
	aMail      = `{"type":"object","properties":{"id":` + mailID + `,"from":` + text + `,"subject":` + text + `,"body":` + text + `}}`
	stockOf    = `{"type":"object","properties":{"warehouse":` + warehouse + `,"of":{"type":"object","patternProperties":{"^SKU[0-9]{3}$":` + amount + `},"additionalProperties":false}}}`
)

func list(name, of string) string {
	return `{"type":"object","properties":{"` + name + `":{"type":"array","items":` + of + `}}}`
}

// endpoints are all calls of the service.
var endpoints = []endpoint{
	{"get_order", gate.ReadOnly, `"order":` + orderID, anOrder, "order"},
	{"get_customer", gate.ReadOnly, `"customer":` + customerID, aCustomer, "customer"},
	{"find_customer", gate.ReadOnly, `"email":` + text, `{"type":"object","properties":{"found":{"type":"boolean"},"id":` + customerID + `,"tier":` + tier + `}}`, "found"},
	{"list_orders", gate.ReadOnly, `"customer":` + customerID, list("orders", `{"type":"object","properties":{"id":`+orderID+`,"status":`+status+`,"due":`+day+`,"total":`+amount+`,"note":`+text+`}}`), "orders"},
	{"search_products", gate.ReadOnly, `"title":` + text + `,"max_price":` + amount + `,"min_stock":` + amount, list("products", aProduct), "products"},
	{"get_product", gate.ReadOnly, `"sku":` + skuID, aProduct, "product"},
	{"get_stock", gate.ReadOnly, `"warehouse":` + warehouse, stockOf, "stock"},
	{"get_invoice", gate.ReadOnly, `"invoice":` + invoiceID, anInvoice, "invoice"},
	{"read_mail", gate.ReadOnly, `"mail":` + mailID, aMail, "mail"},
	{"shop_hours", gate.ReadOnly, ``, `{"type":"object","properties":{"open":{"type":"string","format":"time"},"close":{"type":"string","format":"time"},"holiday":{"type":"boolean"}}}`, "hours"},
	{"set_status", gate.StateChanging, `"order":` + orderID + `,"status":` + status, done, "order/status"},
	{"set_street", gate.StateChanging, `"order":` + orderID + `,"street":` + text, done, ""},
	{"set_due", gate.StateChanging, `"order":` + orderID + `,"due":` + day, done, "order/due"},
	{"set_gift", gate.StateChanging, `"order":` + orderID + `,"gift":{"type":"boolean"}`, done, "order/gift"},
	{"add_note", gate.StateChanging, `"order":` + orderID + `,"text":` + text, done, ""},
	{"add_line", gate.StateChanging, `"order":` + orderID + `,"sku":` + skuID + `,"quantity":` + amount, done, ""},
	{"set_tier", gate.StateChanging, `"customer":` + customerID + `,"tier":` + tier, done, "customer/tier"},
	{"grant_credit", gate.StateChanging, `"customer":` + customerID + `,"amount":` + amount, done, ""},
	{"set_stock", gate.StateChanging, `"warehouse":` + warehouse + `,"sku":` + skuID + `,"count":` + amount, done, ""},
	{"set_price", gate.StateChanging, `"sku":` + skuID + `,"price":` + amount, done, "product/price"},
	{"refund", gate.Irreversible, `"order":` + orderID + `,"amount":` + amount, done, ""},
	{"cancel_order", gate.Irreversible, `"order":` + orderID, done, ""},
	{"pay_invoice", gate.Irreversible, `"invoice":` + invoiceID + `,"amount":` + amount, done, ""},
	{"send_mail", gate.Irreversible, `"customer":` + customerID + `,"template":{"type":"string","enum":["order_cancelled","date_changed","welcome_gold"]}`, done, ""},
}

// kinds are what the numbers of records are, for sums and for typed sinks. Quantities are
// not among them: customers enter those.
var kinds = map[string][]gate.Kind{
	"order/total": {gate.KindAmount}, "order/lines/*/price": {gate.KindAmount}, "orders/orders/*/total": {gate.KindAmount},
	"invoice/amount": {gate.KindAmount}, "product/price": {gate.KindAmount}, "products/products/*/price": {gate.KindAmount},
}

// declare makes the options of a tool from its schemas, by rules that know no tool: a read
// is a record about its arguments; a short string with a pattern is an id; an integer or a
// date that a change takes may be computed; the rest of an answer is withheld.
func declare(e endpoint, in, out *jsonschema.Schema, typed bool) []agent.Option {
	opts := []agent.Option{agent.Effect(e.effect), agent.OutputSchema(out), agent.SystemOfRecord("shop"), agent.Withheld(), agent.ErrorTexts(slices.Collect(maps.Values(errNo))...)}
	ids(out, "", func(p string, length int) { opts = append(opts, agent.IdentifierForm(p, length, "")) })
	if e.effect == gate.ReadOnly {
		if len(in.Properties) == 0 {
			return append(opts, agent.RecordAbout("shop", "", e.record))
		}
		var subject []string
		for _, name := range slices.Sorted(maps.Keys(in.Properties)) {
			subject = append(subject, "/"+name)
		}
		return append(opts, agent.Record("", e.record, subject...))
	}
	opts = append(opts, agent.RecordAbout("shop", "", "done/"+e.name)) // {"ok":true} says no more
	if of, field, sets := strings.Cut(e.record, "/"); sets {
		key := map[string]string{"order": "/order", "customer": "/customer", "product": "/sku"}[of]
		opts = append(opts, agent.Sets("/"+field, e.record, key))
	}
	for name, s := range in.Properties {
		p := "/" + name
		switch {
		case s.Type == "integer":
			opts = append(opts, agent.TypedSink(gate.KindAmount, p), agent.Computed(gate.KindAmount, p))
		case s.Format == "date":
			opts = append(opts, agent.TypedSink(gate.KindSchedule, p), agent.Computed(gate.KindSchedule, p))
		case s.Pattern != "":
			opts = append(opts, agent.TypedSink(gate.KindObjectID, p))
		case s.Type == "string" && len(s.Enum) == 0:
			opts = append(opts, agent.TypedSink(gate.KindSetting, p))
		}
	}
	if typed {
		opts = append(opts, agent.TypedSinks(), agent.WaiveNamed())
	}
	return opts
}

// ids visits the places of ids in a schema.
func ids(s *jsonschema.Schema, at string, visit func(p string, length int)) {
	if s.Type == "string" && s.Pattern != "" && s.MaxLength != nil {
		visit(at, *s.MaxLength)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		ids(s.Properties[name], at+"/"+name, visit)
	}
	if s.Items != nil {
		ids(s.Items, at+"/*", visit)
	}
}

// tools are the endpoints over HTTP.
func (s *service) tools(typed bool) ([]agent.Tool, error) {
	var out []agent.Tool
	for _, e := range endpoints {
		in, err := agent.ReadSchema([]byte(`{"type":"object","properties":{` + e.in + `},"additionalProperties":false}`))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		answers, err := agent.ReadSchema([]byte(e.out))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		in.Required = slices.Sorted(maps.Keys(in.Properties))
		tool := agent.Raw(e.name, e.name, in, func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			return s.post(ctx, e.name, args)
		}, declare(e, in, answers, typed && e.effect != gate.ReadOnly)...)
		if err := tool.Check(); err != nil {
			return nil, err
		}
		out = append(out, tool)
	}
	return out, nil
}

// post makes one call of the service.
func (s *service) post(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server.URL+"/"+name, bytes.NewReader(args))
	if err != nil {
		return nil, err
	}
	res, err := s.server.Client().Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, agent.MaxOutput))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, errors.New(strings.TrimSpace(string(body)))
	}
	return bytes.TrimSpace(body), nil
}
