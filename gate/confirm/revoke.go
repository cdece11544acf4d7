package confirm

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// RevocationStore is what a revocation needs of a store; [*memory.Store] is one.
type RevocationStore interface {
	Revoke(ctx context.Context, r memory.Revocation, revision uint64) error
	Revocations(ctx context.Context) ([]memory.Revocation, uint64, error)
	Place
}

// Place is which store it is, whose, and its clock; [*memory.Store] is one.
type Place interface {
	Identity() memory.Token
	Tenant() string
	Namespace() string
	Now() time.Time
}

// RevokePredicate is the predicate over which a key needs a scope to revoke. The
// subject is the kind and the name: a key of scope "verifier:crm/revoke" may revoke
// that verifier, one of "verifier:*/revoke" all of them.
const RevokePredicate = "revoke"

// Revocation is what a person signs to say that a verifier, a source or a document is
// not to be believed from a moment on.
type Revocation struct {
	Store     memory.Token // its identity: copies of a store with its keys are one, others are not
	Tenant    string
	Namespace string // of the tenant; "" is one like any other
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

// NewRevocation returns a revocation for one store, with a nonce of its own. revision is
// what memory.Store.Revocations gave; it ends validFor from now, at most [MaxValidity].
func NewRevocation(store Place, kind memory.RevokedKind, name string, since time.Time, revision uint64, principal, reason string, validFor time.Duration) Revocation {
	return Revocation{Store: store.Identity(), Tenant: store.Tenant(), Namespace: store.Namespace(), Kind: kind, Name: name, Since: since.UTC(), Revision: revision, Principal: principal,
		Expires: store.Now().UTC().Add(validFor), Nonce: rand.Text(), Reason: reason}
}

func (r *Revocation) check() error {
	if r.Since.IsZero() {
		return refuse(ErrStatement, "since", "it is none")
	}
	return checkRevoking(&Reinstatement{Tenant: r.Tenant, Namespace: r.Namespace, Kind: r.Kind, Name: r.Name, Version: r.Version, Principal: r.Principal, Expires: r.Expires, Nonce: r.Nonce, Reason: r.Reason})
}

// checkRevoking checks what a revocation and a reinstatement both say.
func checkRevoking(r *Reinstatement) error {
	if _, err := r.Kind.MarshalText(); err != nil {
		return refuse(ErrStatement, "kind", "none of verifier, source, document")
	}
	if err := checkWords([]words{
		{"tenant", r.Tenant, memory.MaxField, false}, {"namespace", r.Namespace, memory.MaxField, true}, {"name", r.Name, memory.MaxField, false}, {"version", r.Version, memory.MaxField, true},
		{"principal", r.Principal, maxName, false}, {"nonce", r.Nonce, maxName, false}, {"reason", r.Reason, memory.MaxField, false},
	}); err != nil {
		return err
	}
	switch {
	case r.Version != "" && r.Kind != memory.RevokedDocument:
		return refuse(ErrStatement, "version", "only a document has one")
	case len(r.Nonce) < minNonce:
		return refuse(ErrStatement, "nonce", fmt.Sprintf("fewer than %d bytes", minNonce))
	case r.Expires.IsZero():
		return refuse(ErrStatement, "expires", "it is none")
	}
	return nil
}

// The domains keep a signature on a row from counting for a revocation, and one on a
// revocation from counting for its end.
const (
	revocationDomain    = "hearsay/revoke/3"
	reinstatementDomain = "hearsay/reinstate/3"
)

func (r *Revocation) bytes() []byte {
	return framed(revocationDomain, r.Store.String(), r.Tenant, r.Namespace, r.Kind.String(), r.Name, r.Version, r.Since.UTC().Format(time.RFC3339Nano),
		strconv.FormatUint(r.Revision, 10), r.Principal, r.Expires.UTC().Format(time.RFC3339Nano), r.Nonce, r.Reason)
}

// framed writes each part behind its length.
func framed(parts ...string) []byte {
	var b []byte
	for _, p := range parts {
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
// forged, expired, of another store, tenant or namespace, stale or out of the key's scope is
// refused with a [*RefusedError], and nothing is written. Once it returns, nothing that rests on
// what was revoked is fit; memory.Store.WalkRevocations moves the rows.
func Revoke(ctx context.Context, store RevocationStore, k *Keyring, s SignedRevocation) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := mayRevoke(store, k, s.Store, s.Tenant, s.Namespace, s.Kind, s.Name, s.Principal, s.Expires, s.bytes(), s.Signature); err != nil {
		return err
	}
	err := store.Revoke(ctx, memory.Revocation{Kind: s.Kind, Name: s.Name, Version: s.Version, Since: s.Since, By: s.Principal, Reason: s.Reason}, s.Revision)
	switch {
	case errors.Is(err, memory.ErrConflict):
		return &RefusedError{Kind: ErrStale, Field: "revision", Text: "something was revoked or reinstated meanwhile", cause: err}
	case err != nil:
		return fmt.Errorf("confirm: %w", err)
	}
	return nil
}

// mayRevoke verifies a signature by the store's clock, and that its key has the scope.
func mayRevoke(store Place, k *Keyring, identity memory.Token, tenant, namespace string, kind memory.RevokedKind, name, principal string, expires time.Time, text, signature []byte) error {
	signer, err := k.signer(principal, text, signature)
	if err == nil {
		err = from(store, identity, tenant, namespace, expires)
	}
	if err != nil {
		return err
	}
	if of := kind.String() + ":" + name; !signer.covers(of, RevokePredicate) {
		return refuse(ErrScope, "principal", "the key has no scope over "+of+"/"+RevokePredicate)
	}
	return nil
}

// from asks that what was signed is for this store, and has not ended.
func from(store Place, identity memory.Token, tenant, namespace string, expires time.Time) error {
	switch {
	case tenant != store.Tenant():
		return refuse(ErrTenant, "tenant", "it was signed for another")
	case namespace != store.Namespace(): // what is recorded is counted by itself there
		return refuse(ErrTenant, "namespace", "it was signed for another")
	case identity != store.Identity():
		return refuse(ErrTenant, "store", "it was signed for another")
	}
	return ends(expires, store.Now())
}

// ReinstatementStore is what a reinstatement needs of a store; [*memory.Store] is one.
type ReinstatementStore interface {
	Reinstate(ctx context.Context, kind memory.RevokedKind, name, version string, r memory.Reinstatement, revision uint64) error
	Place
}

// Reinstatement is what a person signs to say that a verifier, a source or a document
// that was revoked is to be believed again, in what it says from then on. It needs the
// scope that revoking it needs.
type Reinstatement struct {
	Store     memory.Token // its identity: copies of a store with its keys are one, others are not
	Tenant    string
	Namespace string // of the tenant; "" is one like any other
	Kind      memory.RevokedKind
	Name      string
	Version   string // of a document, as it was revoked; "" = every one
	Revision  uint64 // of the revocations as she saw them: it counts once
	Principal string // she herself
	Expires   time.Time
	Nonce     string
	Reason    string
}

// SignedReinstatement is a reinstatement with its signature. Every field is under it.
type SignedReinstatement struct {
	Reinstatement
	Signature []byte
}

// NewReinstatement returns a reinstatement for one store, with a nonce of its own.
// revision is what memory.Store.Revocations gave; it ends validFor from now, at most
// [MaxValidity].
func NewReinstatement(store Place, kind memory.RevokedKind, name string, revision uint64, principal, reason string, validFor time.Duration) Reinstatement {
	return Reinstatement{Store: store.Identity(), Tenant: store.Tenant(), Namespace: store.Namespace(), Kind: kind, Name: name, Revision: revision, Principal: principal,
		Expires: store.Now().UTC().Add(validFor), Nonce: rand.Text(), Reason: reason}
}

func (r *Reinstatement) bytes() []byte {
	return framed(reinstatementDomain, r.Store.String(), r.Tenant, r.Namespace, r.Kind.String(), r.Name, r.Version,
		strconv.FormatUint(r.Revision, 10), r.Principal, r.Expires.UTC().Format(time.RFC3339Nano), r.Nonce, r.Reason)
}

// SignReinstatement signs a reinstatement. It refuses one that could not be accepted
// anywhere.
func SignReinstatement(key ed25519.PrivateKey, r Reinstatement) (SignedReinstatement, error) {
	if len(key) != ed25519.PrivateKeySize {
		return SignedReinstatement{}, refuse(ErrKey, "key", "not an Ed25519 private key")
	}
	if err := checkRevoking(&r); err != nil {
		return SignedReinstatement{}, err
	}
	return SignedReinstatement{Reinstatement: r, Signature: ed25519.Sign(key, r.bytes())}, nil
}

// Reinstate verifies a signed reinstatement by the store's clock and records it. What is
// forged, expired, of another store, tenant or namespace, stale or out of the key's scope is
// refused with a [*RefusedError], and nothing is written. No row moves by it.
func Reinstate(ctx context.Context, store ReinstatementStore, k *Keyring, s SignedReinstatement) error {
	if err := checkRevoking(&s.Reinstatement); err != nil {
		return err
	}
	if err := mayRevoke(store, k, s.Store, s.Tenant, s.Namespace, s.Kind, s.Name, s.Principal, s.Expires, s.bytes(), s.Signature); err != nil {
		return err
	}
	err := store.Reinstate(ctx, s.Kind, s.Name, s.Version, memory.Reinstatement{By: s.Principal, Reason: s.Reason}, s.Revision)
	switch {
	case errors.Is(err, memory.ErrConflict):
		return &RefusedError{Kind: ErrStale, Field: "revision", Text: "something was revoked or reinstated meanwhile", cause: err}
	case err != nil:
		return fmt.Errorf("confirm: %w", err)
	}
	return nil
}
