package confirm

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/hearsay-go/hearsay/memory"
)

// Card is what a person is shown of a row before she signs a statement on it: the claim,
// whole, and apart from it, as not confirmed, the words that it was taken from.
type Card struct {
	Row *memory.Row
	// Quoted are the quotations that the card shows; they may be none of those there are.
	Quoted []memory.Row
}

// Hash stands for all that the card shows. It is what a [Statement] is bound to; of a
// card without quotations it is the hash of the content.
func (c Card) Hash() Hash {
	content := c.Row.Content.Hash()
	if len(c.Quoted) == 0 {
		return Hash(content)
	}
	parts := [][]byte{[]byte("hearsay/card/1"), content[:]}
	for i := range c.Quoted {
		words := c.Quoted[i].Content.Hash()
		parts = append(parts, []byte(c.Quoted[i].ID), words[:])
	}
	var b []byte
	for _, p := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	return sha256.Sum256(b)
}

// conceals reports whether a text has characters that nobody sees, but for joiners and
// variation selectors where writing needs them: behind a character of a script beyond
// Hebrew, or of an emoji.
func conceals(s string) bool {
	const firstJoined = 0x0590
	var last rune
	for _, r := range s {
		joins := r == '\u200c' || r == '\u200d' || r == '\ufe0e' || r == '\ufe0f'
		switch {
		case joins && last >= firstJoined && (r == '\u200d' || last != '\ufe0f') && last != '\u200c' && last != '\u200d':
		case memory.Hides(string(r)):
			return true
		}
		last = r
	}
	return false
}

// shows asks that all of a claim can be seen.
func shows(c memory.Content) error {
	for _, f := range [...]struct{ name, value string }{{"subject", c.Subject}, {"predicate", c.Predicate}, {"object", c.Object}} {
		if conceals(f.value) {
			return refuse(ErrContent, f.name, "it has characters that nobody sees, so nobody can say that it is right")
		}
	}
	return nil
}
