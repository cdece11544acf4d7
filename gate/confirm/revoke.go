package confirm

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/memory"
)

// RevocationStore is what a revocation needs of a store; [*memory.Store] is one.
type RevocationStore interface {
	Revoke(ctx context.Context, r memory.Revocation, revision uint64) error
	Revocations(ctx context.Context) ([]memory.Revocation, uint64, error)
	Now() time.Time
	Tenant() string
}

// RevokePredicate is the predicate over which a key needs a scope to revoke. The
// subject is the kind and the name: a key of scope "verifier:crm/revoke" may revoke
// that verifier, one of "verifier:*/revoke" all of them.
const RevokePredicate = "revoke"

// Revocation is what a person signs to say that a verifier, a source or a document is
// not to be believed from a moment on.
type Revocation struct {
	Tenant    string
	Kind      memory.RevokedKind
	Name      string
	Version   string // of a document; "" = every one
	Since     time.Time
	Revision  uint64 // of the revocations as she saw them: it counts once
	Principal string // she herself
	Expires   time.Time
	Nonce     string
	Reason    string
}

// SignedRevocation is a revocation with its signature. Every field is under it.
type SignedRevocation struct {
	Revocation
	Signature []byte
}

// NewRevocation returns a revocation with a nonce of its own. revision is what
// memory.Store.Revocations gave; it ends validFor from now, at most [MaxValidity].
func NewRevocation(kind memory.RevokedKind, name string, since time.Time, tenant string, revision uint64, principal, reason string, now time.Time, validFor time.Duration) Revocation {
	return Revocation{Tenant: tenant, Kind: kind, Name: name, Since: since.UTC(), Revision: revision, Principal: principal,
		Expires: now.UTC().Add(validFor), Nonce: rand.Text(), Reason: reason}
}

func (r *Revocation) check() error {
	if _, err := r.Kind.MarshalText(); err != nil {
		return refuse(ErrStatement, "kind", "none of verifier, source, document")
	}
	for _, f := range [...]struct {
		name, value string
		limit       int
		optional    bool
	}{
		{"tenant", r.Tenant, memory.MaxField, false}, {"name", r.Name, memory.MaxField, false}, {"version", r.Version, memory.MaxField, true},
		{"principal", r.Principal, maxName, false}, {"nonce", r.Nonce, maxName, false}, {"reason", r.Reason, memory.MaxField, false},
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
	case r.Version != "" && r.Kind != memory.RevokedDocument:
		return refuse(ErrStatement, "version", "only a document has one")
	case r.Since.IsZero():
		return refuse(ErrStatement, "since", "it is none")
	case len(r.Nonce) < minNonce:
		return refuse(ErrStatement, "nonce", fmt.Sprintf("fewer than %d bytes", minNonce))
	case r.Expires.IsZero():
		return refuse(ErrStatement, "expires", "it is none")
	}
	return nil
}

// revocationDomain keeps a signature on a row from counting for a revocation.
const revocationDomain = "hearsay/revoke/1"

func (r *Revocation) bytes() []byte {
	var b []byte
	for _, p := range [...]string{revocationDomain, r.Tenant, r.Kind.String(), r.Name, r.Version, r.Since.UTC().Format(time.RFC3339Nano),
		strconv.FormatUint(r.Revision, 10), r.Principal, r.Expires.UTC().Format(time.RFC3339Nano), r.Nonce, r.Reason} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}

// SignRevocation signs a revocation. It refuses one that could not be accepted
// anywhere.
func SignRevocation(key ed25519.PrivateKey, r Revocation) (SignedRevocation, error) {
	if len(key) != ed25519.PrivateKeySize {
		return SignedRevocation{}, refuse(ErrKey, "key", "not an Ed25519 private key")
	}
	if err := r.check(); err != nil {
		return SignedRevocation{}, err
	}
	return SignedRevocation{Revocation: r, Signature: ed25519.Sign(key, r.bytes())}, nil
}

// Revoke verifies a signed revocation by the store's clock and records it. What is
// forged, expired, of another tenant, stale or out of the key's scope is refused with
// a [*RefusedError], and nothing is written. Once it returns, nothing that rests on
// what was revoked is fit; memory.Store.WalkRevocations moves the rows.
func Revoke(ctx context.Context, store RevocationStore, k *Keyring, s SignedRevocation) error {
	if err := s.check(); err != nil {
		return err
	}
	signer, err := k.signer(s.Principal, s.bytes(), s.Signature)
	if err == nil {
		err = ends(s.Expires, store.Now())
	}
	switch {
	case err != nil:
		return err
	case s.Tenant != store.Tenant():
		return refuse(ErrTenant, "tenant", "it was signed for another")
	case !signer.covers(s.Kind.String()+":"+s.Name, RevokePredicate):
		return refuse(ErrScope, "principal", "the key has no scope over "+s.Kind.String()+":"+s.Name+"/"+RevokePredicate)
	}
	err = store.Revoke(ctx, memory.Revocation{Kind: s.Kind, Name: s.Name, Version: s.Version, Since: s.Since, By: s.Principal, Reason: s.Reason}, s.Revision)
	switch {
	case errors.Is(err, memory.ErrConflict):
		return &RefusedError{Kind: ErrStale, Field: "revision", Text: "something was revoked meanwhile", cause: err}
	case err != nil:
		return fmt.Errorf("confirm: %w", err)
	}
	return nil
}
