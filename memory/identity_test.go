package memory_test

import (
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func TestI9IdentityIsExactAfterOneCanonicalForm(t *testing.T) {
	key := func(object string) memory.Key { return says("ana", "p", object).ClaimKey() }
	for _, tc := range []struct {
		name, a, b string
		same       bool
	}{
		{"case of an ordinary word", "Berlin", "berlin", true},
		{"case of a sentence", "The sky is blue", "the sky is blue", true},
		{"case of an abbreviation", "US", "us", false},
		{"case of a path", "/Home/ana", "/home/ana", false},
		{"case of a code", "aB3", "ab3", false},
		{"composed and decomposed", "Caf\u00e9", "Cafe\u0301", true},
		{"zero-width space", "Ber\u200blin", "Berlin", true},
		{"joiner", "Ber\u200dlin", "Berlin", true},
		{"text direction", "\u202eBerlin\u202c", "Berlin", true},
		{"soft hyphen", "Ber\u00adlin", "Berlin", true},
		{"variation selector", "Berlin\ufe0f", "Berlin", true},
		{"tag characters", "Berlin\U000e0041", "Berlin", true},
		{"control character", "Berlin\x7f", "Berlin", true},
		{"escape", "Ber\x1blin", "Berlin", true},
		{"grapheme joiner", "Ber\u034flin", "Berlin", true},
		{"hangul filler", "Berlin\u3164", "Berlin", true},
		{"white space", " Berlin \t\u00a0", "Berlin", true},
		{"line breaks within", "New\r\n\u2028York", "New York", true},
		{"look-alike in Cyrillic", "Веrlin", "Berlin", false},
		{"full width", "Ｂerlin", "Berlin", false},
		{"superscript", "10²", "102", false},
		{"a space within", "New York", "NewYork", false},
		{"a trailing mark", "Berlin.", "Berlin", false},
	} {
		if got := key(tc.a) == key(tc.b); got != tc.same {
			t.Errorf("%s: %q and %q same: %v, want %v", tc.name, tc.a, tc.b, got, tc.same)
		}
	}
	t.Run("parts do not run together", func(t *testing.T) {
		seen := map[memory.Key]string{}
		for _, c := range []memory.Content{says("ab", "c", "d"), says("a", "bc", "d"), says("a", "b", "cd"), says("a b", "c", "d"), says("a", "b c", "d"),
			{Text: "ab c d"}, {Text: "abcd"}} {
			k := c.ClaimKey()
			if other, twice := seen[k]; twice {
				t.Errorf("%v and %s have one key", c, other)
			}
			seen[k] = fmt.Sprint(c)
		}
	})
	t.Run("the anchor is part of the identity, byte by byte (MP-12)", func(t *testing.T) {
		seen := map[memory.Key]bool{}
		for _, c := range []memory.Content{berlin, says("bob", "city", "Berlin"), says("ana", "town", "Berlin"), says("ana", "city", "Rome")} {
			for _, anchor := range []string{"", "doc:1", "DOC:1", "doc:1 "} {
				if k := c.IdentityKey(anchor); seen[k] {
					t.Errorf("%v at %q is another", c, anchor)
				} else {
					seen[k] = true
				}
			}
		}
		if berlin.IdentityKey("x") != says(berlin.Subject, berlin.Predicate, berlin.Object).IdentityKey("x") {
			t.Error("equal in all four, and not the same")
		}
	})
	t.Run("the hash is of the exact content", func(t *testing.T) {
		if says("ana", "city", "Berlin").Hash() == says("ana", "city", "berlin").Hash() {
			t.Error("a confirmation of one spelling would cover another")
		}
	})
	t.Run("tenants do not see each other", func(t *testing.T) {
		b := newBench(t)
		id := b.put(modelDraft(berlin)).ID
		for _, tenant := range []string{"Default", "default ", "d"} {
			other := storetest.On(b.driver, &memory.Options{Tenant: tenant, Clock: b.clock})
			_, err := other.Get(t.Context(), id)
			wantErr(t, err, memory.ErrNotFound)
			if r, err := other.Put(t.Context(), modelDraft(berlin)); err != nil || r.Disposition != memory.Created {
				t.Fatal(r, err)
			}
		}
	})
	t.Run("ids have one form", func(t *testing.T) {
		id := newBench(t).NewDecisionID()
		for _, s := range []string{"", "mem_", id, "MEM_" + strings.Repeat("0", 26), "mem_" + strings.Repeat("0", 25), "mem_" + strings.Repeat("z", 26), "mem_" + strings.Repeat("A", 26), "mem_" + strings.Repeat("0", 25) + "\n", "mem_" + strings.Repeat("0", 25) + "1", "mem_" + strings.Repeat("v", 26)} {
			if memory.ID(s).Valid() {
				t.Errorf("%q is valid", s)
			}
		}
	})
}

func TestIDsSortByTheTimeOfWriting(t *testing.T) {
	b := newBench(t)
	last := ""
	for range 70_000 { // beyond the sequence of one microsecond
		id := b.NewDecisionID()
		if id <= last {
			t.Fatalf("%s after %s", id, last)
		}
		last = id
	}
}

// TestAnIDIsItsBytes: the key of a row ends in the bytes that its id spells.
func TestAnIDIsItsBytes(t *testing.T) {
	letters := base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes")
		id := memory.ID("mem_" + letters.EncodeToString(b))
		if key := memory.HeadKey(id); !id.Valid() || !strings.HasSuffix(key, string(b)) || len(key) != 18 {
			t.Fatalf("%s gives the key %x", id, key)
		}
	})
}

// TestARowHasOneSpelling: sixteen bytes are 26 characters and two bits less, and what
// those two bits say names no other row, nor the same one.
func TestARowHasOneSpelling(t *testing.T) {
	const letters = "0123456789abcdefghijklmnopqrstuv"
	b := newBench(t)
	row := b.put(modelDraft(berlin))
	rapid.Check(t, func(rt *rapid.T) {
		id := row.ID
		n := rapid.IntRange(len("mem_"), len(id)-1).Draw(rt, "character")
		c := rapid.SampledFrom([]byte(letters)).Draw(rt, "letter")
		other := id[:n] + memory.ID(c) + id[n+1:]
		if other == id {
			return
		}
		if other.Valid() && memory.HeadKey(other) == memory.HeadKey(id) {
			rt.Fatalf("%s and %s are one row", id, other)
		}
	})
	last := strings.IndexByte(letters, row.ID[len(row.ID)-1])
	for n := 1; n < 4; n++ {
		respelt := row.ID[:len(row.ID)-1] + memory.ID(letters[last|n])
		var field *memory.FieldError
		_, err := b.Get(t.Context(), respelt)
		if !errors.As(err, &field) || field.Field != "id" {
			t.Errorf("%s for %s: %v", respelt, row.ID, err)
		}
		if _, err := b.Apply(t.Context(), memory.Transition{Row: respelt, Revision: 1}); !errors.As(err, &field) || field.Field != "row" {
			t.Errorf("Apply of %s: %v", respelt, err)
		}
		f, err := b.Fitness(t.Context(), []memory.ID{respelt})
		if err != nil || f.Heads[0].Revision != 0 {
			t.Errorf("the gate finds %s by %s: %+v, %v", row.ID, respelt, f.Heads, err)
		}
	}
}

// TestWhatIsNoIDIsNoRow: asking for it is no fault, and finds nothing.
func TestWhatIsNoIDIsNoRow(t *testing.T) {
	b := newBench(t)
	real := b.put(modelDraft(berlin)).ID
	for _, id := range []memory.ID{"", "x", "mem_", "mem_!", real + "0", real[:29], memory.ID(strings.ToUpper(string(real))), "blk_" + real[4:], real[:29] + "\xff"} {
		f, err := b.Fitness(t.Context(), []memory.ID{id, real})
		if err != nil || len(f.Heads) != 2 || f.Heads[0].ID != id || f.Heads[0].Revision != 0 || f.Heads[1].Revision == 0 {
			t.Errorf("%q: %+v, %v", id, f.Heads, err)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"Berlin", "ber\u200blin", "İstanbul", "ǅ", "E\u200d\u0301", "\u0301a", "ß", "10²", "Σ", "a\x00b", "\u1100\u1161", "\xff"} {
		f.Add(s, "berlin")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		c := memory.Canonical(a)
		if again := memory.Canonical(c); again != c {
			t.Fatalf("%q becomes %q becomes %q", a, c, again)
		}
		if len(c) > 3*len(a)+16 {
			t.Fatalf("%d bytes became %d", len(a), len(c))
		}
		for _, r := range c {
			if unicode.Is(unicode.Cf, r) || unicode.IsControl(r) {
				t.Fatalf("%q keeps %U", c, r)
			}
		}
		same := c == memory.Canonical(b)
		if (says(a, "p", "o").ClaimKey() == says(b, "p", "o").ClaimKey()) != same || (says("s", "p", a).IdentityKey("x") == says("s", "p", b).IdentityKey("x")) != same {
			t.Fatalf("%q and %q: keys and canonical forms disagree", a, b)
		}
	})
}

const goodDraft = `{"content":{"subject":"ana","predicate":"city","object":"Berlin","cardinality":"functional"},
"origin":{"type":"ModelDerived"},"state":"unverified","asserter":{"principal":"ana","model":"Sonnet","family":"claude"},
"sensitivity":"internal","criticality":"low","check_every":"720h","valid_from":"2026-04-17T00:00:00Z","value_confidence":0.5}`

func TestDecodeDraftIsStrict(t *testing.T) {
	d, err := memory.DecodeDraft([]byte(goodDraft))
	if err != nil || d.Content != berlin || d.Origin != memory.OriginModelDerived || d.State != memory.StateUnverified || d.Asserter.Model != "Sonnet" ||
		d.CheckEvery.Hours() != 720 || d.ValueConfidence != 0.5 || d.Criticality != memory.CriticalityLow {
		t.Fatalf("%+v %v", d, err)
	}
	swap := func(old, new string) string { return strings.Replace(goodDraft, old, new, 1) }
	for _, tc := range []struct{ name, json, field string }{
		{"nothing", ``, "draft"},
		{"null", `null`, "draft"},
		{"a list", `[]`, "draft"},
		{"an empty object", `{}`, "origin"},
		{"no end", goodDraft[:len(goodDraft)-1], "draft"},
		{"trailing data", goodDraft + `{}`, "draft"},
		{"trailing word", goodDraft + ` x`, "draft"},
		{"a field that is not there", swap(`"state"`, `"verified":true,"state"`), "verified"},
		{"a nested field that is not there", swap(`"principal"`, `"admin":true,"principal"`), "admin"},
		{"a key twice", swap(`"state"`, `"state":"verified","state"`), "state"},
		{"a nested key twice", swap(`"model"`, `"model":"x","model"`), "model"},
		{"a key twice by letter case", swap(`"state"`, `"State":"verified","state"`), "State"},
		{"a key that folds to another", swap(`"state"`, `"\u017ftate":"verified","state"`), "ſtate"},
		{"no origin", swap(`"origin":{"type":"ModelDerived"},`, ``), "origin"},
		{"a null origin", swap(`{"type":"ModelDerived"}`, `null`), "origin"},
		{"no state", swap(`"state":"unverified",`, ``), "state"},
		{"a null state", swap(`"unverified"`, `null`), "state"},
		{"a fourth state", swap(`"unverified"`, `"expired"`), "state"},
		{"a state in capitals", swap(`"unverified"`, `"Unverified"`), "state"},
		{"no sensitivity", swap(`"sensitivity":"internal",`, ``), "sensitivity"},
		{"a word for a number", swap(`0.5`, `"0.5"`), "value_confidence"},
		{"a duration in days", swap(`720h`, `30d`), "check_every"},
		{"invalid UTF-8", swap(`Berlin`, "\xff"), "draft"},
		{"too deep", swap(`"internal"`, strings.Repeat(`[`, 20)+strings.Repeat(`]`, 20)), "draft"},
		{"a model row born verified", swap(`"unverified"`, `"verified"`), "state"},
		{"too long", goodDraft + strings.Repeat(" ", memory.MaxDraftJSON), "draft"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := memory.DecodeDraft([]byte(tc.json))
			var field *memory.FieldError
			if !errors.As(err, &field) || field.Field != tc.field {
				t.Fatalf("got %v, want a FieldError of %s", err, tc.field)
			}
		})
	}
}

func FuzzDecodeDraft(f *testing.F) {
	f.Add([]byte(goodDraft))
	for _, s := range []string{`{}`, `{"state":"verified","State":1}`, `[`, `{"evidence":[{"relation":"supports","rank":"user"}]}`, "{\"a\":\"\\ud800\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := memory.DecodeDraft(b)
		if err != nil {
			var field *memory.FieldError
			if !errors.As(err, &field) || field.Field == "" || field.Rule == "" {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if err := d.Check(); err != nil || !utf8.Valid(b) || !json.Valid(b) {
			t.Fatalf("accepted %q: %v", b, err)
		}
	})
}

// TestI1EveryRowHasAnOriginAndAState over random drafts, good and bad.
func TestI1EveryRowHasAnOriginAndAState(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		d := modelDraft(says("ana", "p", rapid.StringN(1, 8, -1).Draw(rt, "object")))
		d.Origin = memory.Origin(rapid.IntRange(0, 6).Draw(rt, "origin"))
		d.State = memory.State(rapid.IntRange(0, 5).Draw(rt, "state"))
		if rapid.Bool().Draw(rt, "tool") {
			d.Asserter = memory.Asserter{Principal: "ana", Tool: "crm"}
		}
		r, err := b.Put(t.Context(), d)
		if err != nil {
			if !errors.Is(err, memory.ErrInvalid) || len(b.driver.revisions()) != 0 {
				rt.Fatal(err)
			}
			return
		}
		row := b.row(r.ID)
		if row.Origin != d.Origin || row.State() != d.State || row.State() == memory.StateVerified || row.Asserter != d.Asserter {
			rt.Fatalf("%+v", row)
		}
	})
}

func TestPrintableASCIIHasOneCanonicalForm(t *testing.T) {
	letters := rapid.OneOf(rapid.ByteRange(' ', '~'), rapid.SampledFrom([]byte(` aAzZ09'-.,;:!?"()[]`)))
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOfN(letters, 0, 24).Draw(t, "text"))
		if general, ascii := memory.CanonicalForms(s); general != ascii || memory.Canonical(s) != ascii {
			t.Fatalf("%q is %q, and %q", s, general, ascii)
		}
	})
	if got := memory.Canonical("Berlin\t\u200bStraße"); got != "berlin straße" {
		t.Errorf("%q", got)
	}
}
