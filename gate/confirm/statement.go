package confirm

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/memory"
)

// Verb is what a statement says of a row. The zero value says nothing and is
// refused.
type Verb uint8

// The verbs.
const (
	_ Verb = iota
	// Confirm says that the claim is right: the row becomes verified, rank user.
	Confirm
	// Reject says that the claim is wrong. It attaches to the claim, however it is
	// spelled, and only a user lifts it.
	Reject
	// Contradict is Reject, and may say what is right instead: the corrected triple
	// becomes a verified row of the user's.
	Contradict
	// Quarantine holds the row, and all that was made from it, until a person releases it.
	Quarantine
	// Release ends a quarantine, or a suspicion: the person has reviewed the row.
	Release
	// Hide keeps the row from being recalled.
	Hide
	// Block does, and lets no move but another statement bring it back.
	Block
	// Restrict keeps the row from being acted on; it may still be read.
	Restrict
	// Expose lets the row be recalled, and acted on if it is verified.
	Expose
	// Acquit says that a row that was found malicious is none. It is under quarantine then,
	// until it is released by another statement.
	Acquit
)

var verbNames = [...]string{"", "confirm", "reject", "contradict", "quarantine", "release", "hide", "block", "restrict", "expose", "acquit"}

// places is where the verbs want a row that say nothing of its claim.
var places = map[Verb]memory.AxisValue{
	Quarantine: memory.SecurityQuarantined, Release: memory.SecurityClean, Acquit: memory.SecurityQuarantined,
	Hide: memory.RetrievalHidden, Block: memory.RetrievalBlocked, Restrict: memory.RetrievalRestricted, Expose: memory.RetrievalNormal,
}

// Places reports whether the verb says where a row may go, and nothing of its claim.
func (v Verb) Places() bool { return places[v] != nil }

// Opens reports whether the verb lets a claim be believed, or a row go where it could not.
// Whoever says it must have seen the row.
func (v Verb) Opens() bool { return v == Confirm || v == Release || v == Expose || v == Acquit }

// String returns the name as in the command: confirm, reject, quarantine; or "unset".
func (v Verb) String() string {
	if v == 0 || int(v) >= len(verbNames) {
		return "unset"
	}
	return verbNames[v]
}

// MarshalText returns the name; an unset verb is an error.
func (v Verb) MarshalText() ([]byte, error) {
	if v == 0 || int(v) >= len(verbNames) {
		return nil, refuse(ErrStatement, "verb", "it is none")
	}
	return []byte(verbNames[v]), nil
}

// UnmarshalText accepts exactly the names.
func (v *Verb) UnmarshalText(b []byte) error {
	for i, n := range verbNames {
		if i > 0 && n == string(b) {
			*v = Verb(i)
			return nil
		}
	}
	return refuse(ErrStatement, "verb", "none of "+strings.Join(verbNames[1:], ", "))
}

// Hash is a SHA-256 in hexadecimal.
type Hash [32]byte

// MarshalText returns 64 hexadecimal digits.
func (h Hash) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h[:])), nil }

// UnmarshalText accepts exactly 64 hexadecimal digits.
func (h *Hash) UnmarshalText(b []byte) error {
	if len(b) != hex.EncodedLen(len(h)) {
		return refuse(ErrStatement, "content_hash", "not 64 hexadecimal digits")
	}
	if _, err := hex.Decode(h[:], b); err != nil {
		return refuse(ErrStatement, "content_hash", "not 64 hexadecimal digits")
	}
	return nil
}

// Statement is what a person signs: one verb on one row, as she saw it.
type Statement struct {
	Verb        Verb      `json:"verb"`
	Tenant      string    `json:"tenant"`
	Row         memory.ID `json:"row"`
	ContentHash Hash      `json:"content_hash"` // of what she saw; see [Card.Hash]
	Revision    uint64    `json:"revision"`     // the fitness version she saw
	Principal   string    `json:"principal"`    // she herself
	Expires     time.Time `json:"expires"`
	Nonce       string    `json:"nonce"`
	Reason      string    `json:"reason"`           // why, for people
	Object      string    `json:"object,omitempty"` // of Contradict: the right object
	// Quoted are the quotations that she was shown beside the claim. The statement says
	// nothing of them.
	Quoted []memory.ID `json:"quoted,omitempty"`
}

// Signed is a statement with its signature. Every field of the statement is
// under it.
type Signed struct {
	Statement
	Signature []byte `json:"signature"`
}

// MaxValidity is the longest time from signing to the end of a statement that is
// accepted.
const MaxValidity = 24 * time.Hour

// MaxSigned is the most bytes of a signed statement.
const MaxSigned = 64 << 10

const (
	minNonce = 16
	maxName  = 512
)

// New returns a statement on a row as it is seen now, with a nonce of its own. It
// ends validFor from now; at most [MaxValidity]. Whoever signs it has been shown all of
// the claim, row.Content.String(), and no quotation; else use [Card.Statement].
func New(v Verb, row *memory.Row, tenant, principal, reason string, now time.Time, validFor time.Duration) Statement {
	return Card{Row: row}.Statement(v, tenant, principal, reason, now, validFor)
}

// Statement is [New] for whoever was shown the card.
func (c Card) Statement(v Verb, tenant, principal, reason string, now time.Time, validFor time.Duration) Statement {
	s := Statement{Verb: v, Tenant: tenant, Row: c.Row.ID, ContentHash: c.Hash(), Revision: c.Row.Revision,
		Principal: principal, Expires: now.UTC().Add(validFor), Nonce: rand.Text(), Reason: reason}
	for i := range c.Quoted {
		s.Quoted = append(s.Quoted, c.Quoted[i].ID)
	}
	return s
}

func (s *Statement) check() error {
	if s.Verb == 0 || int(s.Verb) >= len(verbNames) {
		return refuse(ErrStatement, "verb", "it is none")
	}
	if err := checkWords([]words{
		{"tenant", s.Tenant, memory.MaxField, false}, {"principal", s.Principal, maxName, false}, {"nonce", s.Nonce, maxName, false},
		{"reason", s.Reason, memory.MaxField, false}, {"object", s.Object, memory.MaxField, true},
	}); err != nil {
		return err
	}
	switch {
	case !s.Row.Valid():
		return refuse(ErrStatement, "row", "not a row id")
	case s.Revision == 0:
		return refuse(ErrStatement, "revision", "it is none")
	case s.Expires.IsZero():
		return refuse(ErrStatement, "expires", "it is none")
	case s.Object != "" && s.Verb != Contradict:
		return refuse(ErrStatement, "object", "only contradict says what is right")
	case len(s.Quoted) > memory.MaxQuotations:
		return refuse(ErrStatement, "quoted", fmt.Sprintf("more than %d", memory.MaxQuotations))
	}
	for _, id := range s.Quoted {
		if !id.Valid() {
			return refuse(ErrStatement, "quoted", "not a row id")
		}
	}
	return checkNonce(s.Nonce)
}

// words are a field of a statement that is text.
type words struct {
	name, value string
	limit       int
	optional    bool
}

func checkWords(fields []words) error {
	for _, f := range fields {
		switch {
		case f.value == "" && f.optional:
		case strings.TrimSpace(f.value) == "":
			return refuse(ErrStatement, f.name, "it is empty")
		case len(f.value) > f.limit:
			return refuse(ErrStatement, f.name, fmt.Sprintf("more than %d bytes", f.limit))
		case !utf8.ValidString(f.value) || strings.ContainsRune(f.value, 0):
			return refuse(ErrStatement, f.name, "not text")
		}
	}
	return nil
}

func checkNonce(nonce string) error {
	switch {
	case len(nonce) < minNonce:
		return refuse(ErrStatement, "nonce", fmt.Sprintf("fewer than %d bytes", minNonce))
	case strings.ContainsFunc(nonce, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) || r == ' ' }):
		return refuse(ErrStatement, "nonce", "not printable ASCII")
	}
	return nil
}

// domain keeps a signature for one purpose from counting for another.
const domain = "hearsay/confirm/1"

// bytes is the one form that is signed: the domain and every field, each with its
// length before it, so that no two statements share it. The quotations come last.
func (s *Statement) bytes() []byte {
	parts := []string{domain, s.Verb.String(), s.Tenant, string(s.Row), string(s.ContentHash[:]), strconv.FormatUint(s.Revision, 10),
		s.Principal, s.Expires.UTC().Format(time.RFC3339Nano), s.Nonce, s.Reason, s.Object}
	for _, id := range s.Quoted {
		parts = append(parts, string(id))
	}
	var b []byte
	for _, p := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}

// Sign signs a statement. It refuses one that could not be accepted anywhere.
func Sign(key ed25519.PrivateKey, s Statement) (Signed, error) {
	if len(key) != ed25519.PrivateKeySize {
		return Signed{}, refuse(ErrKey, "key", "not an Ed25519 private key")
	}
	if err := s.check(); err != nil {
		return Signed{}, err
	}
	return Signed{Statement: s, Signature: ed25519.Sign(key, s.bytes())}, nil
}

// Parse reads a signed statement from JSON: one object, no unknown member, at most
// [MaxSigned] bytes. It does not verify it.
func Parse(b []byte) (Signed, error) {
	var s Signed
	if err := parseOne(b, &s); err != nil {
		return Signed{}, err
	}
	return s, nil
}

// Verify checks a signed statement: its form, that it has not ended, and that a
// key of its principal signed exactly this. It does not look at the store; [Apply]
// does that too. Errors are a [*RefusedError].
func Verify(k *Keyring, s Signed, now time.Time) error {
	_, err := k.verify(&s, now)
	return err
}

func (k *Keyring) verify(s *Signed, now time.Time) (*key, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	signer, err := k.signer(s.Principal, s.Statement.bytes(), s.Signature)
	if err != nil {
		return nil, err
	}
	return signer, ends(s.Expires, now)
}

// signer is the key of a principal that made a signature.
func (k *Keyring) signer(principal string, signed, signature []byte) (*key, error) {
	if k == nil || len(k.keys) == 0 {
		return nil, refuse(ErrKey, "", "no key is configured, so nothing can be confirmed")
	}
	known := false
	for i := range k.keys {
		if k.keys[i].principal != principal {
			continue
		}
		known = true
		if ed25519.Verify(k.keys[i].public, signed, signature) {
			return &k.keys[i], nil
		}
	}
	if !known {
		return nil, refuse(ErrUnknownKey, "principal", "no key is configured for it")
	}
	return nil, refuse(ErrForged, "signature", "no key of the principal made it for this statement")
}

// ends asks that a statement has not ended, and does not end too far ahead.
func ends(expires, now time.Time) error {
	switch {
	case !now.Before(expires):
		return refuse(ErrExpired, "expires", "it has ended")
	case expires.Sub(now) > MaxValidity:
		return refuse(ErrExpired, "expires", fmt.Sprintf("more than %s ahead", MaxValidity))
	}
	return nil
}
