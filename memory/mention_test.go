package memory_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
)

// TestErasureFindsANameAsItIsWritten: in the escapes of a program, in other forms of its
// letters, in any letter case, and where nobody writes blanks between words; and nowhere
// else.
func TestErasureFindsANameAsItIsWritten(t *testing.T) {
	for name, c := range map[string]struct{ found, kept []string }{
		"Müller": {
			found: []string{
				`{"name": "M\u00fcller"}`, `{"name": "M\u00FCLLER"}`, `{"inner": "{\"name\": \"M\\u00fcller\"}"}`, `{"name": "Mu\u0308ller"}`,
				`{'name': 'M\xfcller'}`, `b'M\xc3\xbcller'`, `M\U000000fcller`, "M&uuml;ller", "M&#252;ller", "?name=M%C3%BCller&x=1", "?name=M%FCller", "M%25C3%25BCller",
				"Ｍüｌｌｅｒ called", "MÜLLER", "Mu\u0308ller", "M\u00adüller", "𝐌𝐮\u0308𝐥𝐥𝐞𝐫", `a line\nMüller`, "担当Müllerです",
			},
			kept: []string{"Müllerin", "Schmüller", "Muller", `M\u00fcllerin`, "M%C3%BCllerin", `C:\Schm\xfcller`},
		},
		"O'Neil":     {found: []string{`{"who":"O\u0027Neil"}`, "O&#39;Neil", "O&apos;Neil", "O%27Neil", "O’NEIL", `O\'Neil`}, kept: []string{"O'Neill", `O\u0027Neilson`}},
		"Straße":     {found: []string{"STRASSE", "strasse", "Straße", "STRA\u1e9eE"}, kept: []string{"Straßen", "Trasse"}},
		"İpek Işık":  {found: []string{"ipek ışık", "IPEK IŞIK", "İPEK IŞIK"}, kept: []string{"ipek isik"}},
		"Σίσυφος":    {found: []string{"ΣΊΣΥΦΟΣ", "σίσυφοσ"}, kept: []string{"Σίσυφοσα"}},
		"nora":       {found: []string{`C:\nora\x`, `C:\users\nora`, "50%nora 100% nora"}, kept: []string{`C:\norad`, "eleonora"}},
		"山田":         {found: []string{"山田さんから電話があった。", "昨日、山田太郎が来た", `{"name":"\u5c71\u7530\u3055\u3093"}`, "Mr.山田"}, kept: []string{"山と田", "田山さん"}},
		"ケリー":        {found: []string{"ケリーさん", "ｹﾘｰさん"}, kept: []string{"ケリさん"}},
		"王":          {found: []string{"王 called", "姓：王"}, kept: []string{"国王が来た"}},
		"สมชาย":      {found: []string{"คุณสมชายโทรมา"}, kept: []string{"คุณสมหญิง"}},
		"Ann":        {found: []string{"ann's bill", "ANN.", "Ann-Marie", "担当Annです", `{"n":"\u0041nn"}`}, kept: []string{"Annual", "Joann", `\u0041nnual`, "Annä"}},
		"\U0001d4d0": {found: []string{`\ud835\udcd0 called`, "A called"}, kept: []string{"And"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			gone, kept := map[memory.ID]string{}, map[memory.ID]string{}
			for _, text := range c.found {
				gone[b.put(modelDraft(memory.Content{Text: text, Cardinality: memory.CardinalityUnknown})).ID] = text
			}
			for _, text := range c.kept {
				kept[b.put(modelDraft(memory.Content{Text: text, Cardinality: memory.CardinalityUnknown})).ID] = text
			}
			if _, err := b.Erase(t.Context(), memory.Erasure{Subject: name, Request: "R-1", Actor: "dpo"}); err != nil {
				t.Fatal(err)
			}
			for id, text := range gone {
				if !b.head(id).Has(memory.FlagErased) {
					t.Errorf("%q stays", text)
				}
			}
			for id, text := range kept {
				if b.head(id).Has(memory.FlagErased) {
					t.Errorf("%q went", text)
				}
			}
		})
	}
}

// TestErasureReadsTheEscapesOfATriple: its words are compared as exact names all the same.
func TestErasureReadsTheEscapesOfATriple(t *testing.T) {
	b := newBench(t)
	gone := []memory.ID{
		b.put(modelDraft(says("bill 1", "is of", `M\u00fcller`))).ID,
		b.put(modelDraft(says("bill 2", "is at", "https://x.example/M%C3%BCller"))).ID,
		b.put(modelDraft(says("bill 3", "is of", "様Müller"))).ID,
	}
	kept := []memory.ID{b.put(modelDraft(says("bill 4", "is of", `m\u00fcller`))).ID, b.put(modelDraft(says("bill 5", "is of", "MÜLLER"))).ID}
	if _, err := b.Erase(t.Context(), memory.Erasure{Subject: "Müller", Request: "R-1", Actor: "dpo"}); err != nil {
		t.Fatal(err)
	}
	for i, id := range gone {
		if !b.head(id).Has(memory.FlagErased) {
			t.Errorf("bill %d stays", i+1)
		}
	}
	for i, id := range kept {
		if b.head(id).Has(memory.FlagErased) {
			t.Errorf("bill %d went", i+4)
		}
	}
}

// TestErasureReadsLongTexts: whatever is escaped in them.
func TestErasureReadsLongTexts(t *testing.T) {
	b := newBench(t)
	for i, unit := range []string{`\`, `\u`, `\ud835`, `%C3`, `\xff`, "&amp;", "山", "%25", "ﷺ"} {
		text := strings.Repeat(unit, (memory.MaxText-20)/len(unit)) + fmt.Sprint(" ", i)
		b.put(modelDraft(memory.Content{Text: text, Cardinality: memory.CardinalityUnknown}))
	}
	if _, err := b.Erase(t.Context(), memory.Erasure{Subject: "Müller", Request: "R-1", Actor: "dpo", DryRun: true}); err != nil {
		t.Fatal(err)
	}
}
