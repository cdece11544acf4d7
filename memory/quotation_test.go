package memory_test

import (
	"testing"

	"github.com/hearsay-go/hearsay/memory"
)

func TestWhatIsShownOfAClaim(t *testing.T) {
	for _, c := range []struct {
		name, want string
		content    memory.Content
	}{
		{"a triple", "acme.iban = DE89", memory.Content{Subject: "acme", Predicate: "iban", Object: "DE89"}},
		{"a triple with text beside it", "acme.iban = DE89", memory.Content{Text: "The office opens at nine.", Subject: "acme", Predicate: "iban", Object: "DE89"}},
		{"free text", "The office opens at nine.", memory.Content{Text: "The office opens at nine."}},
		{"a subject that looks like a claim", `"acme.iban = GOOD, not x".iban = EVIL`, memory.Content{Subject: "acme.iban = GOOD, not x", Predicate: "iban", Object: "EVIL"}},
		{"a predicate with a line break", `acme."iban\n" = EVIL`, memory.Content{Subject: "acme", Predicate: "iban\n", Object: "EVIL"}},
	} {
		if got := c.content.String(); got != c.want {
			t.Errorf("%s is shown as %q, want %q", c.name, got, c.want)
		}
	}
}
