package memory_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"unicode"

	"github.com/hearsay-go/hearsay/memory"
)

// TestFoldMemberFoldsWhatADecoderFolds goes through all of Unicode: whatever
// encoding/json takes for the field "ks" folds to it.
func TestFoldMemberFoldsWhatADecoderFolds(t *testing.T) {
	folded := 0
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if !unicode.IsLetter(r) {
			continue
		}
		for _, name := range []string{"k" + string(r), string(r) + "s"} {
			var into struct {
				KS string `json:"ks"`
			}
			if err := json.Unmarshal(fmt.Appendf(nil, "{%q:%q}", name, "x"), &into); err != nil {
				t.Fatal(err)
			}
			if same := memory.FoldMember(name) == memory.FoldMember("ks"); (into.KS == "x") != same {
				t.Errorf("%q: the decoder takes it for ks: %t, and so does FoldMember: %t", name, into.KS == "x", same)
			} else if same {
				folded++
			}
		}
	}
	if folded != 2 { // the Kelvin sign and the long s
		t.Errorf("%d letters beyond ASCII fold, want 2", folded)
	}
}

func TestPlainWritesWhatATextLooksLike(t *testing.T) {
	for text, want := range map[string]string{
		"ⓔⓥⓘⓛ.ⓒⓞⓜ":    "evil.com",
		"evil﹒com":    "evil.com",
		"ｅｖｉｌ．ｃｏｍ":    "evil.com",
		"٠٩١١٥٥٥١٢٣٤": "09115551234",
		"०९११":        "0911",
		"𝟘𝟡𝟙𝟙":        "0911",
		"ev\u200bil":  "evil",
		"plain text":  "plain text",
		"":            "",
	} {
		if got := memory.Plain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.Is(unicode.Nd, r) {
			if got := memory.Plain(string(r)); len(got) != 1 || got[0] < '0' || got[0] > '9' {
				t.Errorf("%q is written %q", r, got)
			}
		}
	}
}
