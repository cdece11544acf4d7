package confirm

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// Security and Retrieval say where the row may go now, of a verb that moved that.
	Security  memory.Security  `json:"security,omitzero"`
	Retrieval memory.Retrieval `json:"retrieval,omitzero"`
	// Correction is the row of the right object, if the statement named one.
	Correction memory.ID `json:"correction,omitempty"`
}

// Apply verifies a signed statement by the store's clock and makes the
// transitions it asks for, with the authority of a user. It refuses what is forged,
// expired, stale, of another tenant or of other content. It refuses, too, a claim that
// cannot be seen whole, and what is out of the key's scope. A refusal is a
// [*RefusedError], and nothing is written. A move that the rules of the
// store forbid gives the store's error; after [memory.ErrContested] the evidence
// is kept, and the contradiction of two users shows on both rows.
//
// Confirm adds the user's evidence and verifies the row. Reject and Contradict
// contradict it, void its evidence and attach the rejection to the claim. The
// right object of a Contradict is written after that, as a row of the user's with
// the secrecy and criticality of the wrong one; if that fails, the error is
// [ErrHalf], the contradiction stands, and a new statement can say it again.
//
// Quarantine, Release, Acquit, Hide, Block, Restrict and Expose move the row along the legal moves
// of a user, one after the other, and nothing of its claim. A row that is there already is
// refused. What was made from a row is held with it, and no row of that is moved.
func Apply(ctx context.Context, store Store, k *Keyring, s Signed) (Result, error) {
	signer, err := k.verify(&s, store.Now())
	if err != nil {
		return Result{}, err
	}
	if s.Tenant != store.Tenant() {
		return Result{}, refuse(ErrTenant, "tenant", "it was signed for another")
	}
	rows, err := store.Get(ctx, append([]memory.ID{s.Row}, s.Quoted...)...)
	if err != nil {
		return Result{}, fmt.Errorf("confirm: %w", err)
	}
	row := &rows[0]
	for i := range rows[1:] {
		if rows[1+i].Quotes != s.Row {
			return Result{}, refuse(ErrContent, "quoted", "it is no quotation of the row")
		}
	}
	switch {
	case Card{row, rows[1:]}.Hash() != s.ContentHash:
		return Result{}, refuse(ErrContent, "content_hash", "the row holds something else")
	case row.Revision != s.Revision:
		return Result{}, refuse(ErrStale, "revision", fmt.Sprintf("the row is at %d, the statement is of %d", row.Revision, s.Revision))
	case !signer.covers(row.Content.Subject, row.Content.Predicate):
		return Result{}, refuse(ErrScope, "principal", "the key has no scope over the subject and predicate")
	case s.Object != "" && !row.Content.Typed():
		return Result{}, refuse(ErrStatement, "object", "the row is no triple, so there is no object to correct")
	}
	if s.Verb == Confirm || s.Object != "" { // what it says becomes a verified row
		if err := shows(said(row.Content, s.Object)); err != nil {
			return Result{}, err
		}
	}
	if s.Verb.Places() {
		return place(ctx, store, &s, row)
	}
	head, err := move(ctx, store, &s)
	untold := err
	if errors.Is(err, memory.ErrUnwitnessed) { // it holds, so that the rest of it follows
		head, err = moved(ctx, store, s.Row)
	}
	if err != nil {
		return Result{}, err
	}
	res := Result{Verb: s.Verb, Row: s.Row, State: head.State(), Revision: head.Revision}
	if s.Object != "" {
		if res.Correction, err = correct(ctx, store, &s, row); err != nil {
			return res, &RefusedError{Kind: ErrHalf, Field: "object", Text: "the right object was not written", cause: err}
		}
	}
	return res, untold
}

// place moves a row to where the statement wants it.
func place(ctx context.Context, store Store, s *Signed, row *memory.Row) (Result, error) {
	switch malicious := row.Security == memory.SecurityMalicious; {
	case malicious && (s.Verb == Quarantine || s.Verb == Release):
		return Result{}, refuse(ErrStatement, "verb", "the row was found malicious: acquit says that it is not, and leaves it under quarantine")
	case !malicious && s.Verb == Acquit:
		return Result{}, refuse(ErrStatement, "verb", "the row was not found malicious")
	}
	way, err := wayTo(&row.Head, places[s.Verb])
	if err != nil {
		return Result{}, err
	}
	head, untold := row.Head, error(nil)
	for _, to := range way {
		next, err := apply(ctx, store, memory.Transition{Row: s.Row, Revision: head.Revision, To: to, Authority: memory.AuthorityUser,
			Actor: s.Principal, Source: "confirm", Reason: s.Reason})
		if errors.Is(err, memory.ErrUnwitnessed) { // it holds
			untold = err
			next, err = moved(ctx, store, s.Row)
		}
		if err != nil {
			return Result{}, err
		}
		head = next
	}
	return Result{Verb: s.Verb, Row: s.Row, State: head.State(), Revision: head.Revision, Security: head.Security, Retrieval: head.Retrieval}, untold
}

// wayTo is the shortest way of legal moves of a user to where a row is wanted.
func wayTo(h *memory.Head, to memory.AxisValue) ([]memory.AxisValue, error) {
	var from memory.AxisValue = h.Security
	axis := memory.AxisSecurity
	values := []memory.AxisValue{memory.SecurityClean, memory.SecuritySuspicious, memory.SecurityQuarantined, memory.SecurityMalicious}
	if _, is := to.(memory.Retrieval); is {
		from, axis = h.Retrieval, memory.AxisRetrieval
		values = []memory.AxisValue{memory.RetrievalHidden, memory.RetrievalRestricted, memory.RetrievalNormal, memory.RetrievalPrivilegedOnly, memory.RetrievalBlocked}
	}
	if from == to {
		return nil, refuse(ErrStatement, "verb", "the row is "+to.String()+" already")
	}
	ways := map[memory.AxisValue][]memory.AxisValue{from: nil}
	for queue := []memory.AxisValue{from}; len(queue) > 0; queue = queue[1:] {
		for _, next := range values {
			if _, seen := ways[next]; seen || !memory.Legal(queue[0], next, memory.AuthorityUser) {
				continue
			}
			ways[next] = append(slices.Clone(ways[queue[0]]), next)
			queue = append(queue, next)
		}
	}
	if ways[to] == nil {
		return nil, fmt.Errorf("confirm: %w", &memory.IllegalMoveError{Axis: axis, From: from.String(), To: to.String(), Authority: memory.AuthorityUser})
	}
	return ways[to], nil
}

// moved is the head of a row that was moved.
func moved(ctx context.Context, store Store, id memory.ID) (memory.Head, error) {
	rows, err := store.Get(ctx, id)
	if err != nil {
		return memory.Head{}, fmt.Errorf("confirm: %w", err)
	}
	return rows[0].Head, nil
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
	h, err := apply(ctx, store, t)
	if err != nil || s.Verb != Confirm || h.Freshness == memory.FreshnessFresh {
		return h, err
	}
	// The axes are moved one by one: who looked at it made it fresh, too.
	t.Revision, t.To, t.Evidence = h.Revision, memory.FreshnessFresh, nil
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

// said is what a statement on a claim makes verified: the claim, or its right object.
func said(c memory.Content, object string) memory.Content {
	if object != "" {
		c.Object = object
	}
	return c
}

// correct writes the right object as the user's own word.
func correct(ctx context.Context, store Store, s *Signed, wrong *memory.Row) (memory.ID, error) {
	right := memory.Content{Subject: wrong.Content.Subject, Predicate: wrong.Content.Predicate, Object: s.Object, Cardinality: wrong.Content.Cardinality}
	draft := memory.Draft{
		Content: right, Origin: memory.OriginUserAsserted, State: memory.StateVerified, Asserter: memory.Asserter{Principal: s.Principal},
		Evidence: []memory.Evidence{s.evidence(memory.RelationSupports, store.Now())}, Anchor: "user:" + s.Principal,
		Sensitivity: wrong.Sensitivity, Criticality: wrong.Criticality, Kind: wrong.Kind, Layer: wrong.Layer, Source: "confirm",
	}
	receipt, err := store.Put(ctx, draft)
	if errors.Is(err, memory.ErrUnwitnessed) { // it is written; said again it takes nothing more
		receipt, err = store.Put(ctx, draft)
	}
	if err != nil {
		return "", err
	}
	if receipt.State != memory.StateVerified {
		return receipt.ID, fmt.Errorf("confirm: the row is %s: %s", receipt.State, receipt.Reason)
	}
	return receipt.ID, nil
}
