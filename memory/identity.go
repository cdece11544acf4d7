package memory

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
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

// Canonical returns the one canonical form in which it is judged whether a claim says
// nothing new. Names that fall together in it are still two names: see [ExactName]. The
// form is:
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
	if printable(s) {
		return canonicalASCII(s)
	}
	return canonical(s)
}

// printable reports whether a text is of ASCII that is seen, and of spaces.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// canonicalASCII is canonical for what is printable, which most texts are.
func canonicalASCII(s string) string {
	b := make([]byte, 0, len(s))
	afterNumber := false
	for word := range strings.FieldsSeq(s) {
		if len(b) > 0 {
			b = append(b, ' ')
		}
		at := len(b)
		if b = append(b, word...); !afterNumber && foldsASCII(word) {
			for i := at; i < len(b); i++ {
				if b[i] >= 'A' && b[i] <= 'Z' {
					b[i] += 'a' - 'A'
				}
			}
		}
		afterNumber = word[0] >= '0' && word[0] <= '9'
	}
	return string(b)
}

// foldsASCII reports whether foldWord takes a word of ASCII to lower case.
func foldsASCII(w string) bool {
	for len(w) > 0 && strings.IndexByte(aroundWords, w[0]) >= 0 {
		w = w[1:]
	}
	for len(w) > 0 && strings.IndexByte(aroundWords, w[len(w)-1]) >= 0 {
		w = w[:len(w)-1]
	}
	for i := range len(w) {
		switch c := w[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z' && i == 0, c == '\'', c == '-':
		default:
			return false
		}
	}
	return true
}

func canonical(s string) string {
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

// Hides reports whether a text has a character that [Canonical] drops, or one that has no ink:
// who sees the text, or compares canonical forms, does not see all of it.
func Hides(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return visible(r) < 0 || slices.Contains(inkless, r) })
}

// inkless are characters that a font draws as nothing, and that Unicode does not call a space
// or ignorable: the braille blank, the null notehead, two Egyptian blanks, the Khitan filler.
var inkless = []rune{0x2800, 0x1D159, 0x13441, 0x13442, 0x16FE4}

func visible(r rune) rune {
	if r >= ' ' && r < 0x7f { // of ASCII only controls hide
		return r
	}
	if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) ||
		unicode.IsControl(r) && !unicode.IsSpace(r) {
		return -1
	}
	return r
}

const aroundWords = `.,;:!?'"()[]`

func foldWord(w string) string {
	core := strings.Trim(w, aroundWords)
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
	const prefix = "hearsay/"
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 512), uint64(len(prefix)+len(domain)))
	b = append(append(b, prefix...), domain...)
	for _, p := range parts {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(p))), p...)
	}
	return sha256.Sum256(b)
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

// IdentityKey is the key of MP-12: the claim, of exactly this subject and predicate,
// and the external anchor it was seen at. Rows of one claim from two anchors are two
// rows, and so are those of two names that fall together: what a source says of one
// renews nothing that it said of the other (I-9). Of free text the exact bytes count, not
// their canonical form: who was shown a text was shown just these bytes, and no row with
// other bytes may stand for them.
func (c Content) IdentityKey(anchor string) Key { return c.identityKey(c.ClaimKey(), anchor) }

func (c Content) identityKey(claim Key, anchor string) Key {
	if !c.Typed() {
		return digest("identity/2", c.Text, anchor)
	}
	return digest("identity/2", string(claim[:]), anchor, ExactName(c.Subject), ExactName(c.Predicate))
}

// line names an exact subject and predicate: the line on which objects of a functional
// predicate contradict each other.
func (c Content) line() string {
	k := digest("line/2", ExactName(c.Subject), ExactName(c.Predicate))
	return string(k[:])
}

// beside reports whether two contents are on one line: of the same exact subject and
// predicate.
func (c Content) beside(o Content) bool {
	return SameName(c.Subject, o.Subject) && SameName(c.Predicate, o.Predicate)
}

// Limits of one row, in bytes.
const (
	MaxText   = 1 << 20  // Content.Text
	MaxObject = 64 << 10 // Content.Object
	MaxField  = 4 << 10  // any other string
	MaxItems  = 10_000   // DerivedFrom, SelectedBy, Evidence
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
