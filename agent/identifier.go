package agent

import (
	"strings"
	"unicode"

	"github.com/hearsay-go/hearsay/gate"
)

// IdentifierForm is [Identifier] for ids of another form: of at most so many bytes, up to
// 200, and with the characters of also in them. What it lets through is shown to a model
// and taints nothing, so a form in which a sentence can be written is a hole.
func IdentifierForm(field string, bytes int, also string) Option {
	return func(t *Tool) {
		t.contract.Output = append(t.contract.Output, gate.OutputField{Pointer: field, Trust: gate.Identifier, MaxBytes: bytes, Also: also})
		if bytes < 1 || bytes > maxIdentifier || strings.ContainsFunc(also, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
			t.err = t.refused("identifier", field, "wants at most 1 to 200 bytes, and characters that are seen")
		}
	}
}

// shortIdentifier is the most bytes of an identifier whose form nobody declares.
const shortIdentifier = 64

// identifies reports whether a value has the form that the field declares for its ids.
func identifies(f *gate.OutputField, v any) bool {
	s, ok := scalar(v)
	most := shortIdentifier
	if f.MaxBytes > 0 {
		most = f.MaxBytes
	}
	return ok && s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool {
		plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:-", r)
		return !plain && !strings.ContainsRune(f.Also, r)
	})
}
