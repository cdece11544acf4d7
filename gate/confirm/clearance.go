package confirm

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// DamageStore is what clearing a damaged row needs of a store; [*memory.Store] is one.
type DamageStore interface {
	ClearDamaged(ctx context.Context, row memory.ID, by, reason string, revision uint64) error
	Place
}

// ClearPredicate is the predicate over which a key needs a scope to clear a damaged row.
// The subject is the row: a key of scope "row:*/clear-damage" may clear each.
const ClearPredicate = "clear-damage"

// Clearance is what a person signs to say that a row which a verification found changed
// was put right.
type Clearance struct {
	Store     memory.Token // its identity: copies of a store with its keys are one, others are not
	Tenant    string
	Namespace string // of the tenant; "" is one like any other
	Row       memory.ID
	Revision  uint64 // of the record of damaged rows as she saw it: a clearance counts once
	Principal string // she herself
	Expires   time.Time
	Nonce     string
	Reason    string
}

// SignedClearance is a clearance with its signature. Every field is under it.
type SignedClearance struct {
	Clearance
	Signature []byte
}

// NewClearance returns a clearance for one store, with a nonce of its own. revision is
// what memory.Store.DamagedRows gave; it ends validFor from now, at most [MaxValidity].
func NewClearance(store Place, row memory.ID, revision uint64, principal, reason string, validFor time.Duration) Clearance {
	return Clearance{Store: store.Identity(), Tenant: store.Tenant(), Namespace: store.Namespace(), Row: row, Revision: revision, Principal: principal,
		Expires: store.Now().UTC().Add(validFor), Nonce: rand.Text(), Reason: reason}
}

func (c *Clearance) check() error {
	if !c.Row.Valid() {
		return refuse(ErrStatement, "row", "not a row id")
	}
	if err := checkWords([]words{{"tenant", c.Tenant, memory.MaxField, false}, {"namespace", c.Namespace, memory.MaxField, true},
		{"principal", c.Principal, maxName, false}, {"nonce", c.Nonce, maxName, false}, {"reason", c.Reason, memory.MaxField, false}}); err != nil {
		return err
	}
	if c.Expires.IsZero() {
		return refuse(ErrStatement, "expires", "it is none")
	}
	return checkNonce(c.Nonce)
}

// clearanceDomain keeps any other signature from counting for a clearance.
const clearanceDomain = "hearsay/clear-damage/1"

func (c *Clearance) bytes() []byte {
	return framed(clearanceDomain, c.Store.String(), c.Tenant, c.Namespace, string(c.Row), strconv.FormatUint(c.Revision, 10),
		c.Principal, c.Expires.UTC().Format(time.RFC3339Nano), c.Nonce, c.Reason)
}

// SignClearance signs a clearance. It refuses one that could not be accepted anywhere.
func SignClearance(key ed25519.PrivateKey, c Clearance) (SignedClearance, error) {
	if len(key) != ed25519.PrivateKeySize {
		return SignedClearance{}, refuse(ErrKey, "key", "not an Ed25519 private key")
	}
	if err := c.check(); err != nil {
		return SignedClearance{}, err
	}
	return SignedClearance{Clearance: c, Signature: ed25519.Sign(key, c.bytes())}, nil
}

// Clear verifies a signed clearance by the store's clock and records it. What is forged,
// expired, of another store, tenant or namespace, stale or out of the key's scope is
// refused with a [*RefusedError], and nothing is written. Once it returns, the row is read
// as it is stored. Whoever calls it has verified the store since the row was put right.
func Clear(ctx context.Context, store DamageStore, k *Keyring, s SignedClearance) error {
	if err := s.check(); err != nil {
		return err
	}
	signer, err := k.signer(s.Principal, s.bytes(), s.Signature)
	if err == nil {
		err = from(store, s.Store, s.Tenant, s.Namespace, s.Expires)
	}
	if err != nil {
		return err
	}
	if of := "row:" + string(s.Row); !signer.covers(of, ClearPredicate) {
		return refuse(ErrScope, "principal", "the key has no scope over "+of+"/"+ClearPredicate)
	}
	err = store.ClearDamaged(ctx, s.Row, s.Principal, s.Reason, s.Revision)
	switch {
	case errors.Is(err, memory.ErrConflict):
		return &RefusedError{Kind: ErrStale, Field: "revision", Text: "what is damaged or revoked was recorded anew meanwhile", cause: err}
	case err != nil:
		return fmt.Errorf("confirm: %w", err)
	}
	return nil
}
