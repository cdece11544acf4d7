package memory

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Key is a digest that stands for an identity. Two keys are equal exactly when
// the canonical forms of their parts are equal byte by byte (I-9).
type Key [32]byte

// String returns the key in hexadecimal.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Canonical returns the one canonical form that identity is judged in:
//
//   - Unicode NFC;
//   - characters that nobody sees (controls, category Cf: zero width and bidi;
//     variation selectors and the other default-ignorable ones) are dropped, so
//     they cannot respell a claim;
//   - white space is trimmed, and each run of it is one space;
//   - a word written like "Berlin" or "berlin" (letters, of which at most the
//     first is upper case) is folded to lower case; a word with a digit, a sign
//     inside, or a second capital keeps its case, and so does one after a number,
//     since "/Home" and "/home", "US" and "us", "5 Mg" and "5 mg" are different
//     things.
//
// Nothing else is folded: "10²" is not "102", NFKC would make it so. The form is
// idempotent.
func Canonical(s string) string {
	s = norm.NFC.String(s)
	var b strings.Builder
	b.Grow(len(s))
	afterNumber := false
	for word := range strings.FieldsFuncSeq(strings.Map(visible, s), unicode.IsSpace) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		if !afterNumber { // "5 Mg" is not "5 mg"
			word = foldWord(word)
		}
		b.WriteString(word)
		afterNumber = word[0] >= '0' && word[0] <= '9'
	}
	return norm.NFC.String(b.String())
}

func visible(r rune) rune {
	if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) ||
		unicode.IsControl(r) && !unicode.IsSpace(r) {
		return -1
	}
	return r
}

func foldWord(w string) string {
	core := strings.TrimFunc(w, func(r rune) bool { return strings.ContainsRune(`.,;:!?'"()[]`, r) })
	for i, r := range core {
		switch {
		case unicode.IsUpper(r) || unicode.IsTitle(r):
			if i > 0 {
				return w
			}
		case unicode.IsLetter(r), unicode.IsMark(r), r == '\'', r == '’', r == '-':
		default:
			return w
		}
	}
	return strings.ToLower(w)
}

// digest hashes length-prefixed parts, so that no two lists of parts run together.
func digest(domain string, parts ...string) Key {
	h := sha256.New()
	var n [8]byte
	for _, p := range append([]string{"hearsay/" + domain}, parts...) {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return Key(h.Sum(nil))
}

// ClaimKey is the key of what is claimed: the canonical subject, predicate and
// object, or the canonical text of a claim that has no triple. Rejections and
// demotions attach to it, so that respelling does not escape them (I-9).
func (c Content) ClaimKey() Key {
	if c.Typed() {
		return digest("claim/1", Canonical(c.Subject), Canonical(c.Predicate), Canonical(c.Object))
	}
	return digest("text/1", Canonical(c.Text))
}

// IdentityKey is the key of MP-12: the claim and the external anchor it was
// seen at. Rows of one claim from two anchors are two rows.
func (c Content) IdentityKey(anchor string) Key {
	claim := c.ClaimKey()
	return digest("identity/1", string(claim[:]), anchor)
}

// line names a subject and predicate: the line on which objects of a functional
// predicate contradict each other.
func (c Content) line() string {
	k := digest("line/1", Canonical(c.Subject), Canonical(c.Predicate))
	return string(k[:])
}

// Limits of one row, in bytes.
const (
	MaxText  = 1 << 20 // Content.Text
	MaxField = 4 << 10 // any other string
	MaxItems = 10_000  // DerivedFrom, SelectedBy, Evidence
)

func checkText(field, s string, limit int) error {
	if len(s) > limit {
		return invalid(field, "too_long", "%d bytes, at most %d", len(s), limit)
	}
	if !utf8.ValidString(s) {
		return invalid(field, "not_utf8", "invalid UTF-8")
	}
	if limit < MaxText && strings.ContainsRune(s, 0) {
		return invalid(field, "nul", "contains NUL")
	}
	return nil
}
