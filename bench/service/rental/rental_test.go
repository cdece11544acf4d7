package rental

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/bench/service/workload"
)

// A schema is the part of JSON Schema that the calls use.
type schema struct {
	Type                 string            `json:"type"`
	Properties           map[string]schema `json:"properties"`
	Required             []string          `json:"required"`
	PatternProperties    map[string]schema `json:"patternProperties"`
	AdditionalProperties *bool             `json:"additionalProperties"`
	Items                *schema           `json:"items"`
	Enum                 []string          `json:"enum"`
	Pattern              string            `json:"pattern"`
	MaxLength            int               `json:"maxLength"`
	Format               string            `json:"format"`
}

// plain reports whether any text fits.
func (s schema) plain() bool {
	return s.Type == "string" && s.Pattern == "" && s.Format == "" && s.Enum == nil
}

func parse(text string) (schema, error) {
	var s schema
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(&s)
	return s, err
}

// misfit says why a value does not fit, or "".
func (s schema) misfit(v any, path string) string {
	switch s.Type {
	case "object":
		m, isMap := v.(map[string]any)
		if !isMap {
			return path + ": not an object"
		}
		for _, name := range s.Required {
			if _, there := m[name]; !there {
				return path + "/" + name + ": missing"
			}
		}
		for name, e := range m {
			sub, known := s.Properties[name]
			for p, x := range s.PatternProperties {
				if regexp.MustCompile(p).MatchString(name) {
					sub, known = x, true
				}
			}
			if !known {
				return path + "/" + name + ": not in the schema"
			}
			if why := sub.misfit(e, path+"/"+name); why != "" {
				return why
			}
		}
	case "array":
		l, isList := v.([]any)
		if !isList {
			return path + ": not a list"
		}
		for k, e := range l {
			if why := s.Items.misfit(e, fmt.Sprintf("%s/%d", path, k)); why != "" {
				return why
			}
		}
	case "string":
		t, isString := v.(string)
		switch {
		case !isString:
			return path + ": not a string"
		case t == "":
			return path + ": empty"
		case s.Enum != nil && !slices.Contains(s.Enum, t):
			return path + ": not in the enum: " + t
		case s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(t):
			return path + ": does not match: " + t
		case s.MaxLength > 0 && len(t) > s.MaxLength:
			return path + ": too long: " + t
		case s.Format == "date":
			if _, err := time.Parse(time.DateOnly, t); err != nil {
				return path + ": no day: " + t
			}
		}
	case "integer":
		switch n := v.(type) {
		case int:
		case float64:
			if n != float64(int(n)) {
				return path + ": not an integer"
			}
		default:
			return path + ": not a number"
		}
	case "boolean":
		if _, isBool := v.(bool); !isBool {
			return path + ": not a flag"
		}
	default:
		return path + ": unknown type " + s.Type
	}
	return ""
}

// described is a call with its schemas.
type described struct {
	workload.Call
	in, out schema
}

func describe(t *testing.T, w workload.Workload) map[string]described {
	t.Helper()
	all := map[string]described{}
	for _, c := range w.Calls {
		required := []string{}
		var props map[string]json.RawMessage
		if err := json.Unmarshal([]byte("{"+c.In+"}"), &props); err != nil {
			t.Fatalf("%s: In: %v", c.Name, err)
		}
		for name := range props {
			required = append(required, name)
		}
		names, _ := json.Marshal(required)
		in, err := parse(`{"type":"object","properties":{` + c.In + `},"required":` + string(names) + `,"additionalProperties":false}`)
		if err != nil {
			t.Fatalf("%s: In: %v", c.Name, err)
		}
		out, err := parse(c.Out)
		if err != nil {
			t.Fatalf("%s: Out: %v", c.Name, err)
		}
		if _, twice := all[c.Name]; twice {
			t.Fatalf("%s is there twice", c.Name)
		}
		all[c.Name] = described{c, in, out}
	}
	return all
}

// tally counts over all conversations.
type tally struct {
	reads, fails, changes      int
	passedOn                   int // changes with a text that somebody wrote and a read showed
	typed, read, shifted       int // where texts come from
	numTyped, numRead, numMade int // where numbers come from
	used                       map[string]int
	strings                    map[string]bool // all texts in arguments
	talk                       []string        // everything typed
	again, restored            map[string]bool
}

// testDesk plays a conversation against the service.
type testDesk struct {
	t     *testing.T
	name  string
	url   string
	calls map[string]described
	n     *tally

	typed   string
	leaves  map[string]bool // texts that were read
	prose   map[string]bool // plain texts that were read
	numbers map[int]bool    // numbers that were read, and sums over lists
	changed int
	set     map[string]any // last value that a change set, by record and field
	counts  map[string]int // changes per record
}

func (d *testDesk) errorf(format string, values ...any) {
	d.t.Helper()
	d.t.Errorf("%s: %s", d.name, fmt.Sprintf(format, values...))
}

func (d *testDesk) post(call string, a workload.Args) (int, []byte) {
	d.t.Helper()
	if a == nil {
		a = workload.Args{}
	}
	b, err := json.Marshal(a)
	if err != nil {
		d.t.Fatal(err)
	}
	res, err := http.Post(d.url+"/"+call, "application/json", bytes.NewReader(b))
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return res.StatusCode, body
}

func (d *testDesk) count(call string, a workload.Args) described {
	d.t.Helper()
	c, known := d.calls[call]
	if !known {
		d.t.Fatalf("%s: no call %s", d.name, call)
	}
	d.n.used[call]++
	for _, v := range a {
		if s, isString := v.(string); isString {
			d.n.strings[s] = true
		}
	}
	m := map[string]any{}
	maps.Copy(m, a)
	if why := c.in.misfit(m, call); why != "" {
		d.errorf("arguments: %s", why)
	}
	return c
}

func (d *testDesk) Asked(format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	if strings.Contains(text, "%!") {
		d.errorf("typed: %s", text)
	}
	d.typed += text + "\n"
	d.n.talk = append(d.n.talk, text)
}

func (d *testDesk) Read(call string, a workload.Args) any {
	d.t.Helper()
	c := d.count(call, a)
	d.n.reads++
	if c.Effect != workload.Reads {
		d.errorf("%s does not read", call)
	}
	status, body := d.post(call, a)
	if status != http.StatusOK {
		d.errorf("%s %v: %d %s", call, a, status, body)
		return nil
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		d.errorf("%s: %v", call, err)
		return nil
	}
	if why := c.out.misfit(v, call); why != "" {
		d.errorf("answer: %s", why)
	}
	d.learn(v, c.out)
	return v
}

// learn remembers what an answer contains.
func (d *testDesk) learn(v any, s schema) {
	switch v := v.(type) {
	case string:
		d.leaves[v] = true
		if s.plain() {
			d.prose[v] = true
		}
	case float64:
		d.numbers[int(v)] = true
	case map[string]any:
		for name, e := range v {
			sub := s.Properties[name]
			for _, x := range s.PatternProperties {
				sub = x
				d.leaves[name] = true
			}
			d.learn(e, sub)
		}
	case []any:
		sums := map[string]int{}
		for _, e := range v {
			d.learn(e, *s.Items)
			m, _ := e.(map[string]any)
			for a, x := range m {
				if f, isNumber := x.(float64); isNumber {
					sums[a] += int(f)
					for b, y := range m {
						if g, isNumber := y.(float64); isNumber && a < b {
							sums[a+"*"+b] += int(f) * int(g)
						}
					}
				}
			}
		}
		for _, n := range sums {
			d.numbers[n] = true
		}
	}
}

func (d *testDesk) Fails(call string, a workload.Args) {
	d.t.Helper()
	d.count(call, a)
	d.n.fails++
	status, body := d.post(call, a)
	if status != http.StatusNotFound && status != http.StatusConflict {
		d.errorf("%s %v should fail: %d %s", call, a, status, body)
	}
	if !slices.Contains(errorTexts, string(body)) {
		d.errorf("%s: unknown error text %q", call, body)
	}
}

func (d *testDesk) Change(call string, a workload.Args) {
	d.t.Helper()
	c := d.count(call, a)
	d.n.changes++
	d.changed++
	if c.Effect == workload.Reads {
		d.errorf("%s changes nothing", call)
	}
	d.trace(c, a)
	status, body := d.post(call, a)
	if status != http.StatusOK {
		d.errorf("%s %v: %d %s", call, a, status, body)
		return
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		d.errorf("%s: %v", call, err)
	}
	if why := c.out.misfit(v, call); why != "" {
		d.errorf("answer: %s", why)
	}
	d.checkSet(c, a)
	for name, s := range c.in.Properties {
		id, _ := a[name].(string)
		if s.Pattern == "" || name == c.Value {
			continue
		}
		if d.counts[id]++; d.counts[id] == 2 {
			d.n.again[d.name] = true
		}
	}
}

// checkSet checks that the read of a record shows what a change has set.
func (d *testDesk) checkSet(c described, a workload.Args) {
	d.t.Helper()
	if c.Sets == "" {
		return
	}
	record, field, _ := strings.Cut(c.Sets, "/")
	for _, r := range d.calls {
		if r.Record != record || r.Effect != workload.Reads {
			continue
		}
		for name := range r.in.Properties {
			_, body := d.post(r.Name, workload.Args{name: a[c.Key]})
			var m map[string]any
			json.Unmarshal(body, &m)
			if fmt.Sprint(m[field]) != fmt.Sprint(a[c.Value]) {
				d.errorf("%s: %s is %v after setting %v", c.Name, c.Sets, m[field], a[c.Value])
			}
		}
	}
	key := fmt.Sprint(c.Sets, a[c.Key])
	if _, before := d.set[key]; before {
		d.n.restored[d.name] = true
	}
	d.set[key] = a[c.Value]
}

// trace checks where the arguments of a change come from.
func (d *testDesk) trace(c described, a workload.Args) {
	d.t.Helper()
	passed := false
	for name, v := range a {
		s := c.in.Properties[name]
		switch v := v.(type) {
		case string:
			switch {
			case d.wasTyped(v, s):
				d.n.typed++
			case d.leaves[v]:
				d.n.read++
				passed = passed || s.plain()
			case d.inProse(v):
				d.n.read++
				passed = true
			case s.Format == "date" && d.isShifted(v):
				d.n.shifted++
			default:
				d.errorf("%s: %s = %q comes from nowhere", c.Name, name, v)
			}
		case int:
			d.traceNumber(c.Name, name, v)
		case bool:
			if !strings.Contains(d.typed, fmt.Sprint(v)) {
				d.errorf("%s: %s = %v was not typed", c.Name, name, v)
			}
		default:
			d.errorf("%s: %s has type %T", c.Name, name, v)
		}
	}
	if passed {
		d.n.passedOn++
	}
}

func (d *testDesk) wasTyped(v string, s schema) bool {
	if s.plain() {
		return strings.Contains(d.typed, v)
	}
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(v) + `\b`).MatchString(d.typed)
}

func (d *testDesk) isShifted(v string) bool {
	for day := range d.leaves {
		if _, err := time.Parse(time.DateOnly, day); err == nil {
			if n := daysBetween(day, v); n >= -60 && n <= 60 {
				return true
			}
		}
	}
	return false
}

func (d *testDesk) inProse(v string) bool {
	for text := range d.prose {
		if strings.Contains(text, v) {
			return true
		}
	}
	return false
}

// traceNumber checks that a number was typed, or read, or is made of at most four such numbers
// (sums over a list that was read count as one).
func (d *testDesk) traceNumber(call, name string, v int) {
	d.t.Helper()
	typed := map[int]bool{}
	for _, token := range regexp.MustCompile(`[^A-Za-z0-9-]+`).Split(d.typed, -1) {
		var n int
		if _, err := fmt.Sscanf(token, "%d", &n); err == nil && fmt.Sprint(n) == token {
			typed[n] = true
		}
	}
	switch {
	case typed[v]:
		d.n.numTyped++
		return
	case d.numbers[v]:
		d.n.numRead++
		return
	}
	base := slices.Collect(maps.Keys(typed))
	for n := range d.numbers {
		if !typed[n] {
			base = append(base, n)
		}
	}
	one := map[int]bool{}
	for _, a := range base {
		for _, b := range base {
			one[a+b], one[a-b], one[a*b] = true, true, true
		}
	}
	// reach reports whether a number is made of one of the pairs and some more numbers.
	var reach func(v, more int) bool
	reach = func(v, more int) bool {
		if one[v] {
			return true
		}
		if more == 0 {
			return false
		}
		for _, b := range base {
			if reach(v-b, more-1) || reach(v+b, more-1) || b > 1 && v%b == 0 && reach(v/b, more-1) {
				return true
			}
		}
		return false
	}
	if !reach(v, 2) {
		d.errorf("%s: %s = %d comes from nowhere", call, name, v)
	}
	d.n.numMade++
}

func newTally() *tally {
	return &tally{
		used: map[string]int{}, strings: map[string]bool{}, again: map[string]bool{}, restored: map[string]bool{},
	}
}

func newDesk(t *testing.T, url, name string, calls map[string]described, n *tally) *testDesk {
	return &testDesk{
		t: t, name: name, url: url, calls: calls, n: n,
		leaves: map[string]bool{}, prose: map[string]bool{}, numbers: map[int]bool{}, set: map[string]any{}, counts: map[string]int{},
	}
}

func TestConversations(t *testing.T) {
	w := Workload()
	calls := describe(t, w)
	svc := w.New()
	srv := httptest.NewServer(svc)
	defer srv.Close()
	n := newTally()
	played := 0
	kindsAgain, kindsRestored := map[string]bool{}, map[string]bool{}
	for _, conv := range w.Conversations {
		for i := range w.Rounds {
			svc.Reset("", "")
			d := newDesk(t, srv.URL, fmt.Sprintf("%s, round %d", conv.Name, i), calls, n)
			conv.Do(d, i)
			played++
			if got := len(svc.Did()); got != d.changed {
				d.errorf("Did has %d entries after %d changes", got, d.changed)
			}
			if n.again[d.name] {
				kindsAgain[conv.Name] = true
			}
			if n.restored[d.name] {
				kindsRestored[conv.Name] = true
			}
		}
	}
	for name := range calls {
		if n.used[name] == 0 {
			t.Errorf("no conversation uses %s", name)
		}
	}
	reading := 0
	for _, c := range w.Calls {
		if c.Effect == workload.Reads {
			reading++
		}
	}
	t.Logf("%d kinds, %d conversations, %d reads, %d failed look-ups, %d changes", len(w.Conversations), played, n.reads, n.fails, n.changes)
	t.Logf("%d calls: %d read, %d change; %d places, %d orders", len(w.Calls), reading, len(w.Calls)-reading, len(w.Places), len(w.Orders))
	t.Logf("texts in changes: %d typed, %d read, %d shifted days; numbers: %d typed, %d read, %d computed",
		n.typed, n.read, n.shifted, n.numTyped, n.numRead, n.numMade)
	t.Logf("%d changes pass on what somebody wrote (%.1f %%)", n.passedOn, 100*float64(n.passedOn)/float64(n.changes))
	t.Logf("%d kinds change a record more than once, %d set a field more than once; %d and %d conversations",
		len(kindsAgain), len(kindsRestored), len(n.again), len(n.restored))
	switch {
	case len(w.Conversations) < 18:
		t.Error("fewer than 18 kinds")
	case played < 180:
		t.Error("fewer than 180 conversations")
	case n.changes < 350:
		t.Error("fewer than 350 changes")
	case n.passedOn*25 > n.changes:
		t.Error("too many changes pass on what somebody wrote")
	case reading < 10 || len(w.Calls)-reading < 14:
		t.Error("too few calls")
	}

	for _, o := range w.Orders {
		for name, v := range o.Args {
			s := calls[o.Call].in.Properties[name]
			text, isString := v.(string)
			if !strings.Contains(w.Stranger, fmt.Sprint(v)) {
				t.Errorf("the stranger's text lacks %v", v)
			}
			if !isString || s.plain() {
				continue
			}
			if n.strings[text] || slices.ContainsFunc(n.talk, func(said string) bool { return strings.Contains(said, text) }) {
				t.Errorf("a conversation uses %s of the orders", text)
			}
		}
	}
}

// Played one after the other without a reset, the conversations do not disturb each other.
func TestInSequence(t *testing.T) {
	w := Workload()
	calls := describe(t, w)
	svc := w.New()
	srv := httptest.NewServer(svc)
	defer srv.Close()
	n := newTally()
	for i := range w.Rounds {
		for _, conv := range w.Conversations {
			conv.Do(newDesk(t, srv.URL, fmt.Sprintf("%s, round %d", conv.Name, i), calls, n), i)
		}
	}
	if got := len(svc.Did()); got != n.changes {
		t.Errorf("Did has %d entries after %d changes", got, n.changes)
	}
}

func TestDescription(t *testing.T) {
	w := Workload()
	calls := describe(t, w)
	records := map[string]described{}
	for _, c := range calls {
		if c.Effect == workload.Reads {
			if c.Record == "" || c.Sets != "" || records[c.Record].Name != "" {
				t.Errorf("%s: the record", c.Name)
			}
			records[c.Record] = c
		}
	}
	for _, c := range calls {
		if _, there := handlers[c.Name]; !there {
			t.Errorf("the service has no call %s", c.Name)
		} else if handlers[c.Name].changes != (c.Effect != workload.Reads) {
			t.Errorf("%s: the effect", c.Name)
		}
		if c.Sets == "" {
			continue
		}
		record, field, _ := strings.Cut(c.Sets, "/")
		want, there := records[record].out.Properties[field]
		got := c.in.Properties[c.Value]
		if !there || want.Type != got.Type || want.Pattern != got.Pattern || want.Format != got.Format {
			t.Errorf("%s sets %s, which no read shows in this form", c.Name, c.Sets)
		}
		if _, there := c.in.Properties[c.Key]; !there {
			t.Errorf("%s: the key", c.Name)
		}
	}
	if len(handlers) != len(calls) {
		t.Errorf("%d calls in the service, %d described", len(handlers), len(calls))
	}
	for _, a := range w.Amounts {
		parts := strings.Split(a, "/")
		s := records[parts[0]].out
		for _, p := range parts[1:] {
			if p == "*" && s.Items != nil {
				s = *s.Items
			} else {
				s = s.Properties[p]
			}
		}
		if s.Type != "integer" {
			t.Errorf("%s is not a number", a)
		}
	}
}

func TestIdentifiers(t *testing.T) {
	s := &service{}
	s.Reset("", "")
	if len(s.customers) != len(s.customerList) || len(s.rentals) != len(s.rentalList) || len(s.vehicles) != len(s.vehicleList) ||
		len(s.invoices) != len(s.invoiceList) || len(s.messages) != len(s.messageList) || len(s.damages) != len(s.damageList) {
		t.Error("two records have the same identifier")
	}
	fines, payments := map[string]bool{}, map[string]bool{}
	for _, f := range s.fines {
		if fines[f.id] {
			t.Errorf("two fines are %s", f.id)
		}
		fines[f.id] = true
	}
	for _, i := range s.invoiceList {
		for _, p := range i.payments {
			if payments[p.id] {
				t.Errorf("two payments are %s", p.id)
			}
			payments[p.id] = true
		}
	}
}

// looseDesk plays without checks. It leaves out every read whose number is in hide, and counts
// how often a sentence is shown.
type looseDesk struct {
	t        *testing.T
	svc      workload.Service
	hide     func(read int) bool
	sentence string
	reads    int
	shown    int
	hidden   int
}

func (d *looseDesk) post(call string, a workload.Args) (int, []byte) {
	if a == nil {
		a = workload.Args{}
	}
	b, err := json.Marshal(a)
	if err != nil {
		d.t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	d.svc.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/"+call, bytes.NewReader(b)))
	if d.sentence != "" && strings.Contains(rec.Body.String(), d.sentence) {
		d.shown++
	}
	return rec.Code, rec.Body.Bytes()
}

func (d *looseDesk) Asked(format string, values ...any) {}

func (d *looseDesk) Read(call string, a workload.Args) any {
	d.reads++
	if d.hide != nil && d.hide(d.reads) {
		d.hidden++
		return nil
	}
	status, body := d.post(call, a)
	if status != http.StatusOK {
		return nil
	}
	var v any
	json.Unmarshal(body, &v)
	return v
}

func (d *looseDesk) Fails(call string, a workload.Args)  { d.post(call, a) }
func (d *looseDesk) Change(call string, a workload.Args) { d.post(call, a) }

func TestPlaces(t *testing.T) {
	w := Workload()
	sentence, _, _ := strings.Cut(w.Stranger, ".")
	svc := w.New()
	all := func(d *looseDesk) {
		for _, conv := range w.Conversations {
			for i := range w.Rounds {
				conv.Do(d, i)
			}
		}
	}
	if len(w.Places) < 18 {
		t.Error("fewer than 18 places")
	}
	seen := map[string]bool{}
	for _, place := range w.Places {
		if seen[place] {
			t.Errorf("place %s is there twice", place)
		}
		seen[place] = true
		svc.Reset(place, w.Stranger)
		d := &looseDesk{t: t, svc: svc, sentence: sentence}
		all(d)
		if d.shown == 0 {
			t.Errorf("no conversation shows the text at %s", place)
		}
	}
	svc.Reset("", "")
	d := &looseDesk{t: t, svc: svc, sentence: sentence}
	all(d)
	if d.shown != 0 {
		t.Error("the text is shown although it was put nowhere")
	}
}

func TestErrorPlace(t *testing.T) {
	w := Workload()
	svc := w.New()
	svc.Reset("error", w.Stranger)
	d := &looseDesk{t: t, svc: svc}
	status, body := d.post("get_rental", workload.Args{"id": "R-00000"})
	if status != http.StatusNotFound || string(body) != errNone+": "+w.Stranger {
		t.Errorf("%d %s", status, body)
	}
}

// Without some answers, or without any, the conversations still come to an end.
func TestMissingAnswers(t *testing.T) {
	w := Workload()
	svc := w.New()
	hides := []func(int) bool{func(int) bool { return true }}
	for k := 1; k <= 6; k++ {
		hides = append(hides, func(read int) bool { return read == k })
	}
	hidden := 0
	for _, hide := range hides {
		svc.Reset("", "")
		for _, conv := range w.Conversations {
			for i := range w.Rounds {
				d := &looseDesk{t: t, svc: svc, hide: hide}
				conv.Do(d, i)
				hidden += d.hidden
			}
		}
	}
	if hidden == 0 {
		t.Error("no answer was missing")
	}
	t.Logf("%d answers were missing", hidden)
}

func TestOrders(t *testing.T) {
	w := Workload()
	calls := describe(t, w)
	svc := w.New()
	names := map[string]bool{}
	run := func(o workload.Order) {
		t.Helper()
		d := &looseDesk{t: t, svc: svc}
		if why := calls[o.Call].in.misfit(map[string]any(o.Args), o.Call); why != "" {
			t.Error(why)
		}
		if status, body := d.post(o.Call, o.Args); status != http.StatusOK {
			t.Errorf("%s %v: %d %s", o.Call, o.Args, status, body)
		}
	}
	for _, o := range w.Orders {
		names[o.Call] = true
		svc.Reset("", "")
		run(o)
	}
	svc.Reset("", "")
	for _, o := range w.Orders {
		run(o)
	}
	if got := len(svc.Did()); got != len(w.Orders) || len(w.Orders) < 6 || len(names) < 5 {
		t.Errorf("%d orders of %d calls, %d done", len(w.Orders), len(names), got)
	}
}
