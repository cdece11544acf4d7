package confirm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Store is what applying a statement needs of a store; [*memory.Store] is one. Its
// own authority (memory.Options.Authority) has the last word, so give it
// [Keyring.Authority].
type Store interface {
	Get(ctx context.Context, ids ...memory.ID) ([]memory.Row, error)
	Apply(ctx context.Context, t memory.Transition) (memory.Head, error)
	Put(ctx context.Context, d memory.Draft) (memory.Receipt, error)
	Now() time.Time
	Tenant() string
}

// Result is what a statement did.
type Result struct {
	Verb     Verb         `json:"verb"`
	Row      memory.ID    `json:"row"`
	State    memory.State `json:"state"`
	Revision uint64       `json:"revision"`
	// Correction is the row of the right object, if the statement named one.
	Correction memory.ID `json:"correction,omitempty"`
}

// Apply verifies a signed statement by the store's clock and makes the
// transitions it asks for, with the authority of a user. What is forged, expired,
// of another tenant, of other content, stale, or out of the key's scope is refused
// with a [*RefusedError], and nothing is written. A move that the rules of the
// store forbid gives the store's error; after [memory.ErrContested] the evidence
// is kept, and the contradiction of two users shows on both rows.
//
// Confirm adds the user's evidence and verifies the row. Reject and Contradict
// contradict it, void its evidence and attach the rejection to the claim. The
// right object of a Contradict is written after that, as a row of the user's with
// the secrecy and criticality of the wrong one; if that fails, the error is
// [ErrHalf], the contradiction stands, and a new statement can say it again.
func Apply(ctx context.Context, store Store, k *Keyring, s Signed) (Result, error) {
	signer, err := k.verify(&s, store.Now())
	if err != nil {
		return Result{}, err
	}
	if s.Tenant != store.Tenant() {
		return Result{}, refuse(ErrTenant, "tenant", "it was signed for another")
	}
	rows, err := store.Get(ctx, s.Row)
	if err != nil {
		return Result{}, fmt.Errorf("confirm: %w", err)
	}
	row := &rows[0]
	switch {
	case row.Content.Hash() != s.ContentHash:
		return Result{}, refuse(ErrContent, "content_hash", "the row holds something else")
	case row.Revision != s.Revision:
		return Result{}, refuse(ErrStale, "revision", fmt.Sprintf("the row is at %d, the statement is of %d", row.Revision, s.Revision))
	case !signer.covers(row.Content.Subject, row.Content.Predicate):
		return Result{}, refuse(ErrScope, "principal", "the key has no scope over the subject and predicate")
	case s.Object != "" && !row.Content.Typed():
		return Result{}, refuse(ErrStatement, "object", "the row is no triple, so there is no object to correct")
	}
	head, err := move(ctx, store, &s)
	if err != nil {
		return Result{}, err
	}
	res := Result{Verb: s.Verb, Row: s.Row, State: head.State(), Revision: head.Revision}
	if s.Object != "" {
		if res.Correction, err = correct(ctx, store, &s, row); err != nil {
			return res, &RefusedError{Kind: ErrHalf, Field: "object", Text: "the right object was not written", cause: err}
		}
	}
	return res, nil
}

// move makes the transition of the statement, compared and swapped on the fitness
// version that was signed.
func move(ctx context.Context, store Store, s *Signed) (memory.Head, error) {
	t := memory.Transition{Row: s.Row, Revision: s.Revision, To: memory.TruthSupported, Authority: memory.AuthorityUser,
		Actor: s.Principal, Source: "confirm", Reason: s.Reason, Evidence: []memory.Evidence{s.evidence(memory.RelationSupports, store.Now())}}
	if s.Verb != Confirm {
		t.To, t.Reject = memory.TruthContradicted, true
		t.Evidence[0].Relation = memory.RelationContradicts
	}
	return apply(ctx, store, t)
}

func apply(ctx context.Context, store Store, t memory.Transition) (memory.Head, error) {
	h, err := store.Apply(ctx, t)
	switch {
	case errors.Is(err, memory.ErrConflict):
		return memory.Head{}, &RefusedError{Kind: ErrStale, Field: "revision", Text: "the row moved meanwhile", cause: err}
	case errors.Is(err, memory.ErrNoAuthority):
		return memory.Head{}, &RefusedError{Kind: ErrScope, Field: "principal", Text: "the store gives it no authority over the subject", cause: err}
	case err != nil:
		return memory.Head{}, fmt.Errorf("confirm: %w", err)
	}
	return h, nil
}

func (s *Signed) evidence(r memory.Relation, at time.Time) memory.Evidence {
	hash, err := s.ContentHash.MarshalText()
	if err != nil { // it never fails
		hash = nil
	}
	by := memory.Asserter{Principal: s.Principal}.Group()
	return memory.Evidence{Relation: r, Rank: memory.RankUser, Source: by, Verifier: "confirm", Group: by,
		Anchor: memory.Anchor{URI: "confirm:" + s.Nonce, Hash: string(hash)}, Authority: "key", At: at}
}

// correct writes the right object as the user's own word.
func correct(ctx context.Context, store Store, s *Signed, wrong *memory.Row) (memory.ID, error) {
	right := memory.Content{Subject: wrong.Content.Subject, Predicate: wrong.Content.Predicate, Object: s.Object, Cardinality: wrong.Content.Cardinality}
	receipt, err := store.Put(ctx, memory.Draft{
		Content: right, Origin: memory.OriginUserAsserted, State: memory.StateVerified, Asserter: memory.Asserter{Principal: s.Principal},
		Evidence: []memory.Evidence{s.evidence(memory.RelationSupports, store.Now())}, Anchor: "user:" + s.Principal,
		Sensitivity: wrong.Sensitivity, Criticality: wrong.Criticality, Kind: wrong.Kind, Layer: wrong.Layer, Source: "confirm",
	})
	if err != nil {
		return "", err
	}
	if receipt.State != memory.StateVerified {
		return receipt.ID, fmt.Errorf("confirm: the row is %s: %s", receipt.State, receipt.Reason)
	}
	return receipt.ID, nil
}
