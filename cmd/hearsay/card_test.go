package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// lines joins what stands under a label of a card, over all of its lines.
func lines(card, label string) (out []string) {
	under := false
	for _, l := range strings.Split(card, "\n") {
		name, text := strings.TrimSpace(l[:min(len(l), 14)]), l[min(len(l), 14):]
		switch {
		case name == label:
			under = true
			out = append(out, text)
		case name != "":
			under = false
		case under:
			out[len(out)-1] += text
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

// No two texts are shown alike on a card, and nothing of one is left out.
func TestACardShowsEveryTextAsWhatItIs(t *testing.T) {
	shown := map[string]string{}
	piece := rapid.SampledFrom([]string{"a", "b", " ", "  ", "\n", "\t", "\u200b", "\u202e", `"`, `\`, "\u0301", "\u0301\u0301\u0301", "\U000e0041", "…", "\xff", "\ufffd", "\u00a0", `\u{200B}`, "é"})
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "text"), "")
		got := whole(s)
		if other, taken := shown[got]; taken && other != s {
			t.Fatalf("%q and %q are both shown as %s", s, other, got)
		}
		shown[got] = s
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\n\t\u200b\u202e") || strings.Join(wrapped(got), "") != got {
			t.Fatalf("%q is shown as %q", s, got)
		}
		if again := quotedWhole(s); !strings.HasPrefix(again, `"`) || !strings.HasSuffix(again, `"`) {
			t.Fatalf("%q", again)
		}
	})
}
