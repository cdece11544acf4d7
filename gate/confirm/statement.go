package confirm

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
)

var verbNames = [...]string{"", "confirm", "reject", "contradict"}

// String returns confirm, reject or contradict, or "unset".
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
	return refuse(ErrStatement, "verb", "none of confirm, reject, contradict")
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
	ContentHash Hash      `json:"content_hash"` // of the content she saw
	Revision    uint64    `json:"revision"`     // the fitness version she saw
	Principal   string    `json:"principal"`    // she herself
	Expires     time.Time `json:"expires"`
	Nonce       string    `json:"nonce"`
	Reason      string    `json:"reason"`           // why, for people
	Object      string    `json:"object,omitempty"` // of Contradict: the right object
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
// ends validFor from now; at most [MaxValidity].
func New(v Verb, row *memory.Row, tenant, principal, reason string, now time.Time, validFor time.Duration) Statement {
	return Statement{Verb: v, Tenant: tenant, Row: row.ID, ContentHash: row.Content.Hash(), Revision: row.Revision,
		Principal: principal, Expires: now.UTC().Add(validFor), Nonce: rand.Text(), Reason: reason}
}

func (s *Statement) check() error {
	if s.Verb == 0 || int(s.Verb) >= len(verbNames) {
		return refuse(ErrStatement, "verb", "it is none")
	}
	for _, f := range [...]struct {
		name, value string
		limit       int
		optional    bool
	}{
		{"tenant", s.Tenant, memory.MaxField, false}, {"principal", s.Principal, maxName, false}, {"nonce", s.Nonce, maxName, false},
		{"reason", s.Reason, memory.MaxField, false}, {"object", s.Object, memory.MaxField, true},
	} {
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
	switch {
	case !s.Row.Valid():
		return refuse(ErrStatement, "row", "not a row id")
	case s.Revision == 0:
		return refuse(ErrStatement, "revision", "it is none")
	case len(s.Nonce) < minNonce:
		return refuse(ErrStatement, "nonce", fmt.Sprintf("fewer than %d bytes", minNonce))
	case strings.ContainsFunc(s.Nonce, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) || r == ' ' }):
		return refuse(ErrStatement, "nonce", "not printable ASCII")
	case s.Expires.IsZero():
		return refuse(ErrStatement, "expires", "it is none")
	case s.Object != "" && s.Verb != Contradict:
		return refuse(ErrStatement, "object", "only contradict says what is right")
	}
	return nil
}

// domain keeps a signature for one purpose from counting for another.
const domain = "hearsay/confirm/1"

// bytes is the one form that is signed: the domain and every field, each with its
// length before it, so that no two statements share it.
func (s *Statement) bytes() []byte {
	parts := [...]string{domain, s.Verb.String(), s.Tenant, string(s.Row), string(s.ContentHash[:]), strconv.FormatUint(s.Revision, 10),
		s.Principal, s.Expires.UTC().Format(time.RFC3339Nano), s.Nonce, s.Reason, s.Object}
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
	if len(b) > MaxSigned {
		return Signed{}, refuse(ErrStatement, "", fmt.Sprintf("more than %d bytes", MaxSigned))
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var s Signed
	if err := d.Decode(&s); err != nil {
		var refused *RefusedError
		if errors.As(err, &refused) {
			return Signed{}, refused
		}
		return Signed{}, refuse(ErrStatement, "", "not the JSON of a signed statement")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Signed{}, refuse(ErrStatement, "", "more than one JSON value")
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
	return k.signer(s.Principal, s.bytes(), s.Signature, s.Expires, now)
}

// signer is the key of a principal that signed exactly this, and not too long ago.
func (k *Keyring) signer(principal string, signed, signature []byte, expires, now time.Time) (*key, error) {
	if k == nil || len(k.keys) == 0 {
		return nil, refuse(ErrKey, "", "no key is configured, so nothing can be confirmed")
	}
	var signer *key
	known := false
	for i := range k.keys {
		if k.keys[i].principal != principal {
			continue
		}
		known = true
		if ed25519.Verify(k.keys[i].public, signed, signature) {
			signer = &k.keys[i]
			break
		}
	}
	switch {
	case !known:
		return nil, refuse(ErrUnknownKey, "principal", "no key is configured for it")
	case signer == nil:
		return nil, refuse(ErrForged, "signature", "no key of the principal made it for this statement")
	case !now.Before(expires):
		return nil, refuse(ErrExpired, "expires", "it has ended")
	case expires.Sub(now) > MaxValidity:
		return nil, refuse(ErrExpired, "expires", fmt.Sprintf("more than %s ahead", MaxValidity))
	}
	return signer, nil
}
