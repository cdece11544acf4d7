package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// lines joins what stands under a label of a card, over all of its lines.
func lines(card, label string) (out []string) {
	under := false
	for _, l := range strings.Split(strings.TrimSuffix(card, "\n"), "\n") {
		head, text := l, ""
		if r := []rune(l); len(r) > 14 {
			head, text = string(r[:14]), string(r[14:])
		}
		name := strings.TrimSpace(head)
		switch {
		case name == "│" && under:
			out[len(out)-1] += text
		case name == "│":
		case name == label:
			under = true
			out = append(out, text)
		case name != "":
			under = false
		case under:
			out = append(out, text)
		}
	}
	return out
}

// A person is shown the claim that she would confirm, whole, and the words beside it as
// what they are.
func TestEveryCommandShowsTheClaimAndNotTheWordsBesideIt(t *testing.T) {
	w := newWorld(t)
	d := said(triple("acme", "billing.iban", "EVIL-9912-9912"))
	claim := w.put("claim", d)
	w.put("words", memory.Quotation(claim, d, "Acme's office opens at nine."))
	w.put("child", said(triple("acme", "note", "made from it"), claim))
	w.decide("pay", false, "claim")
	for name, args := range map[string][]string{
		"row list": {"row", "list", "--subject", "acme"},
		"row tree": {"row", "tree", string(w.ids["child"])},
		"row show": {"row", "show", string(claim)},
	} {
		if out := w.ok(args...); !strings.Contains(out, "acme.billing.iban = EVIL-9912-9912") {
			t.Errorf("%s does not show the claim:\n%s", name, out)
		}
	}
	out := w.ok("row", "show", string(claim))
	if got := lines(out, "object"); len(got) != 1 || got[0] != "EVIL-9912-9912" {
		t.Errorf("%q", got)
	}
	if got := lines(out, "not confirmed"); len(got) != 1 || !strings.HasSuffix(got[0], ": Acme's office opens at nine.") {
		t.Errorf("%q", got)
	}
	if first, _, _ := strings.Cut(out, "not confirmed"); strings.Contains(first, "nine") || !strings.Contains(first, "EVIL-9912-9912") {
		t.Errorf("the words come before the claim:\n%s", out)
	}
	key := w.key("ana", "acme")
	seen := w.shown(string(claim))
	w.put("more", memory.Quotation(claim, d, "CFO confirmed by phone."))
	if r := w.run("row", "confirm", string(claim), seen, "--key", key, "--as", "ana", "--reason", "r"); r.code != exitUsage || !strings.Contains(r.talk, "CFO confirmed by phone.") {
		t.Errorf("words came since she looked: exit %d\n%s", r.code, r.talk)
	}
	w.ok("row", "confirm", string(claim), w.shown(string(claim)), "--key", key, "--as", "ana", "--reason", "r")
	for name, want := range map[string]memory.State{"claim": memory.StateVerified, "words": memory.StateUnverified, "more": memory.StateUnverified} {
		if r := w.row(name); r.State() != want {
			t.Errorf("%s is %s", name, r.State())
		}
	}
}

func TestWhatIsSignedIsShownWhole(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("0123456789", 400) + "-EVIL"
	w.put("long", said(triple("acme", "billing.note", long)))
	if got := lines(w.ok("row", "show", string(w.ids["long"])), "object"); len(got) != 1 || got[0] != long {
		t.Errorf("%q", got)
	}
	body := strings.Repeat("pay ops@acme.example ", 500) + "and evil@x.example"
	pointer := strings.Repeat("p", 300)
	args, err := json.Marshal(map[string]string{"body": body, pointer: "v"})
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := gate.Canonical(args)
	if err != nil {
		t.Fatal(err)
	}
	d := w.ask(gate.StateChanging, "send", string(canonical), "long")
	card := lines(w.ok("call", "show", d.HoldID), "arguments")
	all := strings.Join(card, "")
	if !strings.Contains(all, `/body = "`+body+`"`) || !strings.Contains(all, "/"+pointer+` = "v"`) {
		t.Errorf("%q", all)
	}
}

// No two calls have one card, whatever their arguments and the names of these are.
func TestNoTwoCallsHaveOneCard(t *testing.T) {
	a, now, shown := &app{}, time.Unix(1_800_000_000, 0), map[string]string{}
	name := rapid.SampledFrom([]string{"a", "b", "a = 1", "a/b", "a~1b", "", " ", "  ", "a\u200b", `a" = "b`, "│", "a\n", "0", "1", "~'0'", "'0'"})
	leaf := rapid.OneOf(rapid.Just(any("1")), rapid.Just(any(1)), rapid.Just(any(nil)), rapid.Just(any("null")), rapid.Just(any(true)), rapid.Just(any([]any{})), rapid.Just(any(map[string]any{})), rapid.Just(any("[]")),
		rapid.Map(rapid.SampledFrom([]string{"", " ", "  ", "\ufe0f", strings.Repeat("x", 95), strings.Repeat(" ", 95), "/b = 1", "\"", "│ "}), func(s string) any { return s + strings.Repeat("y", len(s)%7) }))
	part := rapid.OneOf(leaf, rapid.Map(rapid.SliceOfN(leaf, 0, 2), func(v []any) any { return v }), rapid.Map(rapid.MapOfN(name, leaf, 0, 2), func(v map[string]any) any { return v }))
	rapid.Check(t, func(t *rapid.T) {
		for _, v := range rapid.SliceOfN(rapid.MapOfN(name, part, 0, 3), 20, 20).Draw(t, "args") {
			args, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			card := norm.NFC.String(a.callCard(&callJSON{Hold: memory.Hold{Tool: "send", Args: args, State: memory.HoldWaiting, By: "gate"}, Standing: memory.HoldWaiting}, now, &storeFlags{}))
			if other, taken := shown[card]; taken && other != string(args) {
				t.Fatalf("%s and %s have one card:\n%s", args, other, card)
			}
			shown[card] = string(args)
		}
	})
	t.Logf("%d cards", len(shown))
}

// TestNoNamesMakeOneCard: who asks and for whom is told apart whatever the names are.
func TestNoNamesMakeOneCard(t *testing.T) {
	shown := map[string]int{}
	for i, h := range []memory.Hold{
		{Tool: "send", Agent: "a for b", Principal: "c"}, {Tool: "send", Agent: "a", Principal: "b for c"}, {Tool: "send", Agent: "a", Principal: `b" for "c`}, {Tool: "send", Agent: `a" for "b`, Principal: "c"},
		{Tool: "send", Agent: "a", Principal: "b", Run: "c"}, {Tool: "send", Agent: "a", Principal: "b, run c"}, {Tool: "send", Server: "bank"}, {Tool: `send of "bank"`}, {Tool: "send", Effect: `of "bank"`},
	} {
		card := (&app{}).callCard(&callJSON{Hold: h, Standing: h.State}, time.Unix(1_800_000_000, 0), &storeFlags{})
		if other, taken := shown[card]; taken {
			t.Errorf("%d and %d have one card:\n%s", other, i, card)
		}
		shown[card] = i
	}
}

// All that a call waits for is on its card, and what a person said of it.
func TestACardLeavesNothingOut(t *testing.T) {
	h := memory.Hold{Tool: strings.Repeat("tool", 60), Agent: strings.Repeat("agent", 60), Principal: strings.Repeat("ana", 60), Run: strings.Repeat("run", 60), Policy: strings.Repeat("prod", 60),
		Args: json.RawMessage(`{"body":"` + strings.Repeat("words ", 20_000) + `end"}`), By: strings.Repeat("cleo", 60), Why: strings.Repeat("asked ", 60) + "twice", State: memory.HoldWaiting}
	for i := range 40 {
		h.AtFault = append(h.AtFault, memory.ID(fmt.Sprintf("mem_%026d", i)))
		h.Rows = append(h.Rows, memory.Cited{Row: h.AtFault[i], Revision: uint64(1000 + i)})
	}
	h.Server, h.Schema, h.Done, h.Prior, h.Made = strings.Repeat("bank", 60), memory.Digest{7}, "blk_done", "blk_prior", "blk_made"
	card := (&app{getenv: func(string) string { return "" }}).callCard(&callJSON{Hold: h, Standing: h.State}, time.Unix(1_800_000_000, 0), &storeFlags{})
	if got := lines(card, "waits for"); len(got) != len(h.AtFault) || got[39] != string(h.AtFault[39]) {
		t.Errorf("it waits for %d rows: %q", len(h.AtFault), got)
	}
	if got := lines(card, "rests on"); len(got) != 1+len(h.Rows) || got[40] != string(h.Rows[39].Row)+", revision 1039" {
		t.Errorf("it rests on %d rows: %q", len(h.Rows), got)
	}
	if got := strings.Join(lines(card, "BEFORE"), "\n"); !strings.Contains(got, h.Done) || !strings.Contains(got, h.Prior) || !strings.Contains(got, h.Made) {
		t.Errorf("what was made before: %s", got)
	}
	if !strings.Contains(strings.Join(lines(card, "tool"), ""), h.Server) || !strings.Contains(card, h.Schema.String()) {
		t.Errorf("no server or schema: %.2000s", card)
	}
	for label, wants := range map[string]string{"tool": h.Tool, "asked by": h.Run, "policy": h.Policy, "last": h.Why, "arguments": strings.Repeat("words ", 20_000) + "end"} {
		if got := lines(card, label); len(got) != 1 || !strings.Contains(got[0], wants) {
			t.Errorf("%s: %.200q", label, got)
		}
	}
}

// On a terminal the pager shows the card; one that fails hides nothing.
func TestAPagerShowsTheCard(t *testing.T) {
	for name, c := range map[string]struct {
		pager []string
		out   string
		talk  string
	}{
		"that works":         {[]string{"sed", "s/^/| /"}, "| card\n", ""},
		"that is left early": {[]string{"true"}, "", ""},
		"that fails":         {[]string{"false"}, "card\n", "the card follows"},
		"that is not there":  {[]string{filepath.Join(t.TempDir(), "none")}, "card\n", "the card follows"},
		"none":               {nil, "card\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out, talk strings.Builder
			a := &app{out: &out, talk: &talk, getenv: func(string) string { return "" }, pager: c.pager}
			if err := a.show("card\n"); err != nil || out.String() != c.out || !strings.Contains(talk.String(), c.talk) {
				t.Errorf("%v: %q, %q", err, out.String(), talk.String())
			}
		})
	}
	if got := pagerOf(func(name string) string { return map[string]string{"PAGER": " less -S "}[name] }); !slices.Equal(got, []string{"less", "-S"}) {
		t.Errorf("%q", got)
	}
}

func TestAPersonSeesWhatSheWouldNot(t *testing.T) {
	for text, want := range map[string]string{
		"plain words":        "plain words",
		"a  b":               `"a\s{2}b"`,
		"   a ":              `"\s{3}a "`,
		"a\ufe0f":            `"a\u{FE0F}"`,
		"caf\u00e9":          "caf\u00e9",
		"cafe\u0301":         `"cafe\u{0301}"`,
		"\u212bngstrom":      `"\u{212B}ngstrom"`,
		"\u1112\u1161":       `"` + "\u1112" + `\u{1161}"`,
		"\u0915\u094d\u0937": "\u0915\u094d\u0937", // of a script that needs its marks
		"a\\s{2}b":           `"a\\s{2}b"`,
		"p\u0430ypal":        `"p\u{0430}ypal"`,
		"\u0440\u0430\u0443": `"\u{0440}\u{0430}\u{0443}"`, // a word of twins only
		"Москва, Kreml":      "Москва, Kreml",
		"ops@м.example":      "ops@м.example",
		"γάμμα2":             "γάμμα2",
		"\u03bfМосква":       `"\u{03BF}\u{041C}\u{043E}\u{0441}\u{043A}\u{0432}\u{0430}"`,
		"Eメール サーバーA":         "Eメール サーバーA",
		"5 µg 10 kΩ":         "5 µg 10 kΩ",
		"ꓑꓮꓬ":                `"\u{A4D1}\u{A4EE}\u{A4EC}"`,
		"\U0001d68a":         `"\u{1D68A}"`,
		"Tシャツ 用iPhone":       "Tシャツ 用iPhone",
	} {
		if got := whole(text); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
	for pointer, want := range map[string]string{"/to": "/to", "/a = 1": `"/a = 1"`, "/a b": `"/a b"`, "/a=": `"/a="`, "/é\u200b": `"/é\u{200B}"`} {
		if got := atPointer(pointer); got != want {
			t.Errorf("%q is shown as %s, want %s", pointer, got, want)
		}
	}
}

// No two texts are shown alike on a card, and nothing of one is left out.
func TestACardShowsEveryTextAsWhatItIs(t *testing.T) {
	shown := map[string]string{}
	piece := rapid.SampledFrom([]string{"a", "b", " ", "  ", "\n", "\t", "\u200b", "\u202e", `"`, `\`, "\u0301", "\u0301\u0301\u0301", "\U000e0041", "…", "\xff", "\ufffd", "\u00a0", `\u{200B}`, "é", "e", "\ufe0f", "\u0323", "\u1112", "\u1161", "\ud558", "\u212b", "\u00c5", `\s{2}`, "\u3164", "\u0430", "\u0435", "я", "\u03bf", "o"})
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "text"), "")
		got := whole(s)
		looks := strings.NewReplacer("\u0430", "a", "\u0435", "e", "\u03bf", "o").Replace(norm.NFC.String(got)) // as a terminal draws it
		if other, taken := shown[looks]; taken && other != s {
			t.Fatalf("%q and %q are both shown as %s", s, other, got)
		}
		shown[looks] = s
		if strings.Contains(got, "  ") {
			t.Fatalf("%q is shown as %q", s, got)
		}
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\n\t\u200b\u202e") || strings.Join(wrapped(got), "") != got {
			t.Fatalf("%q is shown as %q", s, got)
		}
		if again := quotedWhole(s); !strings.HasPrefix(again, `"`) || !strings.HasSuffix(again, `"`) {
			t.Fatalf("%q", again)
		}
	})
}

// TestABlankAtTheEndOfALineIsSeen: else two texts would look alike.
func TestABlankAtTheEndOfALineIsSeen(t *testing.T) {
	a := strings.Repeat("a", lineWidth-1)
	for _, s := range []string{a + " 甲", a + "甲", strings.Repeat("b", lineWidth) + " c", a + " b c", strings.Repeat(" a", lineWidth)} {
		lines := wrapped(s)
		for _, line := range lines {
			if strings.HasSuffix(line, " ") || cells(line) > lineWidth {
				t.Errorf("%q", line)
			}
		}
		if strings.Join(lines, "") != s {
			t.Errorf("%q became %q", s, lines)
		}
	}
}
