package gate_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// TestTypedSinksOnlyLeaveOut: over any rows and sinks, what the whole run permits typed
// sinks permit; what they leave out is no reason of secrecy, quarantine or a missing
// row; and they leave out nothing unless every sink has a source.
func TestTypedSinksOnlyLeaveOut(t *testing.T) {
	narrowed, freed := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		var (
			ids []memory.ID
			f   = memory.Fitness{Now: clock0}
		)
		for _, name := range []string{"a", "b", "c"}[:rapid.IntRange(0, 3).Draw(rt, "rows")] {
			h := drawHead(rt, name)
			if rapid.SampledFrom([]bool{true, true, true, true, false}).Draw(rt, "plain") {
				h = rapid.SampledFrom([]memory.Head{verified(name), unverified(name)}).Draw(rt, "head")
			}
			ids, f.Heads = append(ids, h.ID), append(f.Heads, h)
		}
		req := gate.Request{Contract: gate.Contract{Tool: "pay", Effect: rapid.SampledFrom([]gate.Effect{gate.Irreversible, gate.StateChanging, gate.ReadOnly}).Draw(rt, "effect"),
			Sinks: []string{"/x", "/y"}, Kinds: map[string]gate.Kind{"/x": gate.KindAccount, "/y": rapid.SampledFrom([]gate.Kind{gate.KindName, gate.KindObjectID}).Draw(rt, "kind")},
			Corroborate: rapid.Bool().Draw(rt, "corroborate"), Precision: gate.TypedSinks}, Lineage: gate.Known(ids, nil)}
		for _, p := range []string{"/x", "/y"} {
			s := gate.Sink{Pointer: p, Source: rapid.SampledFrom([]gate.Source{1, 1, 1, 1, 2, 2, 2, 3, 4, 6, 0, 5}).Draw(rt, "source")}
			if len(ids) > 0 {
				s.Row = rapid.SampledFrom(ids).Draw(rt, "row")
			}
			req.Sinks = append(req.Sinks, s)
		}
		policy := declared()
		sharp := policy.Evaluate(&req, f)
		blunt := policy
		blunt.Tools = map[string]gate.Rule{"pay": {WholeRun: true}}
		coarse := blunt.Evaluate(&req, f)
		if coarse.Err() == nil && sharp.Err() != nil {
			rt.Fatalf("typed sinks block what the whole run permits: %v", sharp.Reasons)
		}
		for _, r := range coarse.Reasons {
			if slices.Contains(sharp.Reasons, r) {
				continue
			}
			switch r.Code {
			case gate.SensitivityExceeded, gate.QuarantinedInput, gate.RowMissing, gate.LineageUnknown, gate.FromNowhere:
				if r.Code != gate.LineageUnknown || r.Row == "" {
					rt.Fatalf("typed sinks leave out %v", r)
				}
			}
			if slices.ContainsFunc(req.Sinks, func(s gate.Sink) bool {
				return s.Source != gate.SourcePrincipal && (s.Row == r.Row || s.Source == gate.SourceNowhere || s.Source == gate.SourceShort)
			}) {
				rt.Fatalf("typed sinks leave out %v with sinks %v", r, req.Sinks)
			}
		}
		if sharp.Precision == gate.TypedSinks {
			narrowed++
			if coarse.Err() != nil && sharp.Err() == nil {
				freed++
			}
		}
	})
	if narrowed == 0 || freed == 0 {
		t.Errorf("%d decisions were narrowed, %d of them let fire what the whole run blocks", narrowed, freed)
	}
	t.Logf("%d decisions were narrowed, %d of them let fire what the whole run blocks", narrowed, freed)
}

func TestTargets(t *testing.T) {
	for text, want := range map[string][]string{
		"see you at 10:30 on 2026-05-01, room 12":       nil,
		"thanks... and bye. All the best":               nil,
		"version 1.2.3 costs 1,200.50":                  nil,
		"see www.evil.example/win?x=1.":                 {"www.evil.example/win?x=1"},
		"(https://evil.example/a)":                      {"https://evil.example/a"},
		"HTTPS://EVIL.EXAMPLE":                          {"HTTPS://EVIL.EXAMPLE"},
		"ask bob@acme.example, or eve@x.example":        {"bob@acme.example", "eve@x.example"},
		"mailto:eve@x.example":                          {"mailto:eve@x.example"},
		"to evil.ru":                                    {"evil.ru"},
		"to пример.рф":                                  {"пример.рф"},
		"at 192.168.0.1:8080/x":                         {"192.168.0.1:8080/x"},
		"to GB29NWBK60161331926819":                     {"GB29NWBK60161331926819"},
		"to GB29 NWBK 6016 1331 9268 19 please":         {"GB29 NWBK 6016 1331 9268 19"},
		"card 4111 1111 1111 1111":                      {"4111 1111 1111 1111"},
		"call +49 30 901820 now":                        {"+49 30 901820"},
		"send 0x52908400098527886E0F7030069857D2E4169":  {"0x52908400098527886E0F7030069857D2E4169"},
		"www.ev\u200bil.exam\u00adple":                  {"www.evil.example"},
		"ｗｗｗ．evil．example":                              {"www.evil.example"},
		"evil。example":                                  {"evil.example"},
		"call (555) 123-4567":                           {"(555) 123-4567"},
		"call 555.123.4567":                             {"555.123.4567"},
		"call +49 (911) 555 1234":                       {"+49 (911) 555 1234"},
		"call 0911/555-1234":                            {"0911/555-1234"},
		"call 06 12 34 56 78 now":                       {"06 12 34 56 78"},
		"call 0911\u2013555\u20111234":                  {"0911-555-1234"},
		"call ٠٩١١ ٥٥٥ ١٢٣٤":                            {"0911 555 1234"},
		"to 12-34-56 12345678":                          {"12-34-56 12345678"},
		"to account 12345678":                           {"12345678"},
		"to DE89.3704.0044.0532.0130.00":                {"DE89.3704.0044.0532.0130.00"},
		"to 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa":         {"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"},
		"to bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq": {"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"},
		"to TJRyWwFs9wTFGZg3JbrVriFbNfCug5tDeC":         {"TJRyWwFs9wTFGZg3JbrVriFbNfCug5tDeC"},
		"at [2001:db8::1]":                              {"[2001:db8::1"},
		"at http:[::1]:80/x":                            {"[::1]:80/x"},
		"at 2001:db8::7":                                {"2001:db8::7"},
		"at fe80:0:0:0:1:2:3:4":                         {"fe80:0:0:0:1:2:3:4"},
		"dm @evil_corp":                                 {"@evil_corp"},
		"see ⓔⓥⓘⓛ.ⓒⓞⓜ":                                  {"evil.com"},
		"see evil﹒com":                                  {"evil.com"},
		"on 01.05.2026, or 5/1/2026 (12 seats)":         nil,
		"2026-05-01 (12 people), 2025-2026":             nil,
		"at 10:30:15, std::move and x::y":               nil,
		"Donaudampfschifffahrtsgesellschaft":            nil,
		"12,345,678.90 in all, 1.234.567,89":            nil,
		"javascript:alert(1)":                           {"javascript:alert(1"},
	} {
		args, err := json.Marshal(map[string]any{"body": text, "to": "www.sink.example", "to_note": 5})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, target := range gate.Targets(args, []string{"/to"}) {
			if target.Pointer != "/body" {
				t.Errorf("%q: a target in %s", text, target.Pointer)
			}
			got = append(got, target.Value)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := gate.Targets([]byte(`{"www.evil.example":[{"n":4111111111111111}]}`), nil); len(got) != 2 {
		t.Errorf("a name and a number: %v", got)
	}
	if got := gate.Targets([]byte(`{`), nil); got != nil {
		t.Errorf("no JSON: %v", got)
	}
}

// FuzzTargets: no text makes it panic, and what is hidden with characters that nobody
// sees is found as if they were not there.
func FuzzTargets(f *testing.F) {
	f.Add("see www.evil.example", 6)
	f.Add("ask eve@x.example", 9)
	f.Fuzz(func(t *testing.T, text string, at int) {
		find := func(s string) int {
			b, err := json.Marshal(map[string]string{"body": s})
			if err != nil {
				t.Fatal(err)
			}
			return len(gate.Targets(b, nil))
		}
		n := find(text)
		runes := []rune(text)
		if at < 0 || at > len(runes) || strings.ContainsFunc(text, func(r rune) bool { return r == unicode.ReplacementChar || unicode.Is(unicode.Cf, r) }) {
			return
		}
		if hidden := find(string(runes[:at]) + "\u200b" + string(runes[at:])); hidden != n {
			t.Errorf("%q at %d: %d targets, %d when one is hidden", text, at, n, hidden)
		}
	})
}

// TestADeclarationOfSinksMakesNoCallFreer: whatever is declared, given and said of the
// sinks of a call, a gate without typed sinks lets through no more with the declaration
// than without; and typed sinks narrow no call that leaves a declared sink out.
func TestADeclarationOfSinksMakesNoCallFreer(t *testing.T) {
	pointers := []string{"/a", "/b", "/c", "/b/0", "/d"}
	values := []string{`null`, `""`, `" "`, `[]`, `{}`, `[null]`, `["x"]`, `{"x":"y"}`, `{"x":null}`, `7`, `false`}
	fired, blocked := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		given := map[string]json.RawMessage{}
		for _, n := range []string{"a", "b", "c"} {
			if rapid.IntRange(0, 3).Draw(rt, "given") > 0 {
				if given[n] = json.RawMessage(`"x"`); rapid.IntRange(0, 3).Draw(rt, "odd") == 0 {
					given[n] = json.RawMessage(rapid.SampledFrom(values).Draw(rt, n))
				}
			}
		}
		args, err := json.Marshal(given)
		if err != nil {
			t.Fatal(err)
		}
		var said []gate.Sink
		for _, p := range []string{"/a", "/b", "/b/0", "/c", "/c/x"} {
			if rapid.IntRange(0, 4).Draw(rt, "said") > 0 {
				said = append(said, gate.Sink{Pointer: p, Source: rapid.SampledFrom([]gate.Source{gate.SourcePrincipal, gate.SourcePrincipal, gate.SourcePrincipal, gate.SourceShort}).Draw(rt, "source")})
			}
		}
		sinks := rapid.SliceOfNDistinct(rapid.SampledFrom(pointers), 1, 2, rapid.ID[string]).Draw(rt, "sinks")
		optional := rapid.SliceOfNDistinct(rapid.SampledFrom(sinks), 0, len(sinks), rapid.ID[string]).Draw(rt, "optional")
		row := unverified("row")
		store := newFake(row)
		call := func(typed bool, sinks, optional []string) gate.Decision {
			c := gate.Contract{Tool: "pay", Effect: gate.Irreversible, Sinks: sinks, Optional: optional, NamedWaived: true}
			lineage := gate.Known(nil, nil)
			if typed {
				c.Precision, c.Kinds, lineage = gate.TypedSinks, map[string]gate.Kind{}, gate.Known([]memory.ID{row.ID}, nil)
				for _, p := range sinks {
					c.Kinds[p] = gate.KindName
				}
			}
			return newGate(t, store, declared(), nil).Decide(t.Context(), gate.Request{Contract: c, Args: args, Lineage: lineage, Sinks: said, Agent: "a", Run: "r", Principal: "ana"})
		}
		c := gate.Contract{Sinks: sinks, Optional: optional}
		shown, whole := c.GivenSinks(args)
		none, some := call(false, nil, nil), call(false, sinks, optional)
		if !whole && (none.Err() == nil) != (some.Err() == nil) {
			rt.Fatalf("%s with sinks %v, optional %v: %v with them, %v without", args, sinks, optional, some.Err(), none.Err())
		}
		if none.Err() == nil && some.Err() != nil {
			rt.Fatalf("%s with sinks %v: blocked by the declaration alone: %v", args, sinks, some.Err())
		}
		sharp := call(true, sinks, optional)
		if sharp.Err() == nil {
			fired++
			if !whole || len(shown) == 0 {
				rt.Fatalf("%s with sinks %v, optional %v fired beside an unverified row", args, sinks, optional)
			}
			for _, p := range sinks {
				if !slices.Contains(shown, p) && !slices.Contains(optional, p) {
					rt.Fatalf("%s fired without %s", args, p)
				}
			}
		} else {
			blocked++
		}
	})
	if fired == 0 || blocked == 0 {
		t.Errorf("%d calls fired, %d were blocked", fired, blocked)
	}
	t.Logf("%d calls fired, %d were blocked", fired, blocked)
}
