package confirm

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// CallVerb is what a statement says of a held call, or of one that was made. The zero
// value says nothing and is refused.
type CallVerb uint8

// The verbs of a call.
const (
	_ CallVerb = iota
	// Approve lets exactly this call be made once. Its rows stay what they are.
	Approve
	// Withdraw takes an approval back that was not used yet; the call waits again.
	Withdraw
	// Refuse refuses the call for a day; the words go to the model. Its name is reject.
	Refuse
	// Done says of a call that was let through, and of which nobody knew how it ended, that
	// it was done.
	Done
	// NotDone says of such a call that it was not: the same call may be made again.
	NotDone
)

var callVerbNames = [...]string{"", "approve", "withdraw", "reject", "done", "not-done"}

// Settles reports whether the verb says how a call ended that was made.
func (v CallVerb) Settles() bool { return v == Done || v == NotDone }

// String returns approve, withdraw, reject, done or not-done, or "unset".
func (v CallVerb) String() string {
	if v == 0 || int(v) >= len(callVerbNames) {
		return "unset"
	}
	return callVerbNames[v]
}

// MarshalText returns the name; an unset verb is an error.
func (v CallVerb) MarshalText() ([]byte, error) {
	if v == 0 || int(v) >= len(callVerbNames) {
		return nil, refuse(ErrStatement, "verb", "it is none")
	}
	return []byte(callVerbNames[v]), nil
}

// UnmarshalText accepts exactly the names.
func (v *CallVerb) UnmarshalText(b []byte) error {
	for i, n := range callVerbNames {
		if i > 0 && n == string(b) {
			*v = CallVerb(i)
			return nil
		}
	}
	return refuse(ErrStatement, "verb", "none of "+strings.Join(callVerbNames[1:], ", "))
}

func (v CallVerb) to() memory.HoldState {
	switch v {
	case Approve:
		return memory.HoldGranted
	case Withdraw:
		return memory.HoldWaiting
	case Refuse:
		return memory.HoldRejected
	}
	return 0
}

// CallStatement is what a person signs about one held call, as she saw it.
type CallStatement struct {
	Verb   CallVerb `json:"verb"`
	Tenant string   `json:"tenant"`
	// Call is the id of the hold. Of Done and NotDone it is that of the decision that let the
	// call through, or, if its record was erased, that of a hold that waits for it.
	Call  string `json:"call"`
	Round uint64 `json:"round"` // of the hold as she saw it
	// Binding stands for all that a permit of the call is bound to: tool,
	// arguments, rows with their versions and contents, policy, schema, agent, run,
	// principal, epoch; and for what stood against it.
	Binding    memory.Digest `json:"binding"`
	Tool       string        `json:"tool"`
	ArgsSHA256 memory.Digest `json:"args_sha256"`
	Principal  string        `json:"principal"` // she herself
	Expires    time.Time     `json:"expires"`   // of an approval: when that ends, too
	Nonce      string        `json:"nonce"`
	Reason     string        `json:"reason"` // why; of a refusal, what the model is told
}

// SignedCall is a call statement with its signature. Every field is under it.
type SignedCall struct {
	CallStatement
	Signature []byte `json:"signature"`
}

// NewCall returns a statement about a hold as it is seen now, with a nonce of its
// own. It ends validFor from now, at most [MaxValidity], and an approval with the
// hold if that is sooner.
func NewCall(v CallVerb, h *memory.Hold, tenant, principal, reason string, now time.Time, validFor time.Duration) CallStatement {
	ends := now.UTC().Add(validFor)
	if v == Approve && h.ExpiresAt.Before(ends) {
		ends = h.ExpiresAt.UTC()
	}
	return CallStatement{Verb: v, Tenant: tenant, Call: h.ID, Round: h.Round, Binding: h.Binding, Tool: h.Tool, ArgsSHA256: h.ArgsSHA256,
		Principal: principal, Expires: ends, Nonce: rand.Text(), Reason: reason}
}

// NewSettlement returns a statement about how a call ended that a decision of a gate let
// through, with a nonce of its own. v is [Done] or [NotDone]. It ends validFor from now, at
// most [MaxValidity].
func NewSettlement(v CallVerb, d *memory.DecisionRecord, tenant, principal, reason string, now time.Time, validFor time.Duration) (CallStatement, error) {
	if !v.Settles() {
		return CallStatement{}, refuse(ErrStatement, "verb", "it says nothing of how a call ended")
	}
	made, err := madeBy(d)
	return CallStatement{Verb: v, Tenant: tenant, Call: d.ID, Binding: made.Binding, Tool: d.Tool, ArgsSHA256: made.ArgsSHA256,
		Principal: principal, Expires: now.UTC().Add(validFor), Nonce: rand.Text(), Reason: reason}, err
}

// made is what the record of a gate says of a call that it let through.
type made struct {
	Binding    memory.Digest `json:"binding"`
	ArgsSHA256 memory.Digest `json:"args_sha256"`
	Agent      string        `json:"agent"`
}

func madeBy(d *memory.DecisionRecord) (m made, err error) {
	if json.Unmarshal(d.Data, &m) != nil || m.Binding.IsZero() || m.ArgsSHA256.IsZero() {
		return m, refuse(ErrContent, "call", "it is no decision of a gate that let a call through")
	}
	return m, nil
}

func (s *CallStatement) check() error {
	if s.Verb == 0 || int(s.Verb) >= len(callVerbNames) {
		return refuse(ErrStatement, "verb", "it is none")
	}
	if err := checkWords([]words{
		{"tenant", s.Tenant, memory.MaxField, false}, {"call", s.Call, maxName, false}, {"tool", s.Tool, memory.MaxField, false},
		{"principal", s.Principal, maxName, false}, {"nonce", s.Nonce, maxName, false}, {"reason", s.Reason, memory.MaxField, false},
	}); err != nil {
		return err
	}
	switch {
	case !strings.HasPrefix(s.Call, "blk_"):
		return refuse(ErrStatement, "call", "not the id of a held call")
	case s.Binding.IsZero():
		return refuse(ErrStatement, "binding", "it is none")
	case s.ArgsSHA256.IsZero():
		return refuse(ErrStatement, "args_sha256", "it is none")
	case s.Expires.IsZero():
		return refuse(ErrStatement, "expires", "it is none")
	}
	return checkNonce(s.Nonce)
}

// callDomain keeps a signature about a call from counting for a row.
const callDomain = "hearsay/call/1"

func (s *CallStatement) bytes() []byte {
	var b []byte
	for _, p := range [...]string{callDomain, s.Verb.String(), s.Tenant, s.Call, strconv.FormatUint(s.Round, 10), string(s.Binding[:]), s.Tool,
		string(s.ArgsSHA256[:]), s.Principal, s.Expires.UTC().Format(time.RFC3339Nano), s.Nonce, s.Reason} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}

// SignCall signs a statement about a call. It refuses one that could not be accepted
// anywhere.
func SignCall(key ed25519.PrivateKey, s CallStatement) (SignedCall, error) {
	if len(key) != ed25519.PrivateKeySize {
		return SignedCall{}, refuse(ErrKey, "key", "not an Ed25519 private key")
	}
	if err := s.check(); err != nil {
		return SignedCall{}, err
	}
	return SignedCall{CallStatement: s, Signature: ed25519.Sign(key, s.bytes())}, nil
}

// ParseCall reads a signed statement about a call from JSON: one object, no unknown
// member, at most [MaxSigned] bytes. It does not verify it.
func ParseCall(b []byte) (SignedCall, error) {
	var s SignedCall
	if err := parseOne(b, &s); err != nil {
		return SignedCall{}, err
	}
	return s, nil
}

// parseOne reads one JSON value that has no unknown member.
func parseOne(b []byte, into any) error {
	if len(b) > MaxSigned {
		return refuse(ErrStatement, "", fmt.Sprintf("more than %d bytes", MaxSigned))
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		var refused *RefusedError
		if errors.As(err, &refused) {
			return refused
		}
		return refuse(ErrStatement, "", "not the JSON of a signed statement")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refuse(ErrStatement, "", "more than one JSON value")
	}
	return nil
}

// VerifyCall checks a signed statement about a call: its form, that it has not
// ended, that a key of its principal signed exactly this, and that the key may
// speak for calls of the tool. It does not look at the store; [ApplyCall] does.
// Errors are a [*RefusedError].
func VerifyCall(k *Keyring, s SignedCall, now time.Time) error {
	if err := k.signedCall(&s); err != nil {
		return err
	}
	return ends(s.Expires, now)
}

func (k *Keyring) signedCall(s *SignedCall) error {
	if err := s.check(); err != nil {
		return err
	}
	signer, err := k.signer(s.Principal, s.CallStatement.bytes(), s.Signature)
	if err != nil {
		return err
	}
	if !signer.calls(s.Tool) {
		return refuse(ErrScope, "principal", "the key has no scope over calls of the tool")
	}
	return nil
}

// OpenGrant verifies a signed approval as it is kept with a hold, and returns what
// was signed. It makes a Keyring the Approvals of a gate: it holds public keys only.
// That the grant is for the call at hand, and has not ended, is for the gate to ask.
func (k *Keyring) OpenGrant(signed []byte) (memory.Grant, error) {
	s, err := ParseCall(signed)
	if err != nil {
		return memory.Grant{}, err
	}
	if err := k.signedCall(&s); err != nil {
		return memory.Grant{}, err
	}
	if s.Verb != Approve {
		return memory.Grant{}, refuse(ErrForged, "verb", "it is no approval")
	}
	return memory.Grant{Tenant: s.Tenant, Hold: s.Call, Round: s.Round, Binding: s.Binding, Tool: s.Tool, Principal: s.Principal, Expires: s.Expires}, nil
}

// CallStore is what applying a statement about a call needs of a store;
// [*memory.Store] is one.
type CallStore interface {
	Hold(ctx context.Context, id string) (memory.Hold, error)
	MoveHold(ctx context.Context, m memory.HoldMove) (memory.Hold, error)
	Decision(ctx context.Context, id string) (memory.DecisionRecord, error)
	Settle(ctx context.Context, m memory.Settlement) error
	Now() time.Time
	Tenant() string
}

// CallResult is what a statement about a call did. Of [Done] and [NotDone] the state is
// that of the call that was made: done or failed.
type CallResult struct {
	Verb  CallVerb         `json:"verb"`
	Call  string           `json:"call"`
	State memory.HoldState `json:"state"`
	// Until is when an approval or a refusal ends.
	Until time.Time `json:"until,omitzero"`
}

// ApplyCall verifies a signed statement about a held call by the store's clock and
// writes it down. What is forged, expired, of another tenant, of another call,
// stale, used, replayed or out of the key's scope is refused with a
// [*RefusedError], and nothing is written. An approval makes no call: the agent's
// next one is decided afresh, and its gate verifies the signature once more.
//
// [Done] and [NotDone] settle a call that was made. One of which it is known how it ended,
// or that may still be at work, is refused.
//
// The requesting agent cannot decide about its own call, whoever holds its key.
func ApplyCall(ctx context.Context, store CallStore, k *Keyring, s SignedCall) (CallResult, error) {
	now := store.Now()
	if err := VerifyCall(k, s, now); err != nil {
		return CallResult{}, err
	}
	if s.Tenant != store.Tenant() {
		return CallResult{}, refuse(ErrTenant, "tenant", "it was signed for another")
	}
	if s.Verb.Settles() {
		return settle(ctx, store, &s)
	}
	h, err := store.Hold(ctx, s.Call)
	if err != nil {
		return CallResult{}, fmt.Errorf("confirm: %w", err)
	}
	switch {
	case h.Tool != s.Tool || h.ArgsSHA256 != s.ArgsSHA256 || h.Binding != s.Binding:
		return CallResult{}, refuse(ErrContent, "binding", "the held call is another one than what was signed")
	case memory.SameName(s.Principal, h.Agent):
		return CallResult{}, refuse(ErrScope, "principal", "who asks for a call cannot decide about it")
	}
	if s.Verb == Approve && h.Open(now) && sha256.Sum256(h.Args) != h.ArgsSHA256 {
		return CallResult{}, refuse(ErrContent, "args_sha256", "the held call has other arguments than those that its digest stands for, so nobody has seen them")
	}
	m := memory.HoldMove{Hold: s.Call, Round: s.Round, To: s.Verb.to(), Actor: s.Principal, Reason: s.Reason}
	if s.Verb == Approve {
		if m.Grant, err = json.Marshal(s); err != nil {
			return CallResult{}, fmt.Errorf("confirm: %w", err)
		}
		m.Ends = s.Expires
	}
	moved, err := store.MoveHold(ctx, m)
	var hold *memory.HoldError
	switch {
	case errors.As(err, &hold):
		return CallResult{}, holdRefused(hold)
	case errors.Is(err, memory.ErrConflict):
		return CallResult{}, &RefusedError{Kind: ErrStale, Field: "call", Text: "it moved meanwhile", cause: err}
	case err != nil:
		return CallResult{}, fmt.Errorf("confirm: %w", err)
	}
	res := CallResult{Verb: s.Verb, Call: s.Call, State: moved.State}
	switch s.Verb {
	case Approve:
		res.Until = moved.GrantEnds
	case Refuse:
		res.Until = moved.At.Add(memory.RejectedFor)
	}
	return res, nil
}

// settle writes down how a call ended.
func settle(ctx context.Context, store CallStore, s *SignedCall) (CallResult, error) {
	d, err := store.Decision(ctx, s.Call)
	if err != nil {
		return CallResult{}, fmt.Errorf("confirm: %w", err)
	}
	if !d.Fired {
		return settleErased(ctx, store, s)
	}
	made, err := madeBy(&d)
	switch {
	case err != nil:
		return CallResult{}, err
	case d.Tool != s.Tool || made.ArgsSHA256 != s.ArgsSHA256 || made.Binding != s.Binding:
		return CallResult{}, refuse(ErrContent, "binding", "the call is another one than what was signed")
	case memory.SameName(s.Principal, made.Agent):
		return CallResult{}, refuse(ErrScope, "principal", "who asks for a call cannot decide about it")
	}
	return settled(ctx, store, s, s.Call)
}

// settleErased writes down how a call ended whose record was erased: that for which the held
// call waits that the statement names.
func settleErased(ctx context.Context, store CallStore, s *SignedCall) (CallResult, error) {
	h, err := store.Hold(ctx, s.Call)
	if errors.Is(err, memory.ErrNotFound) {
		return CallResult{}, refuse(ErrContent, "call", "it is no decision of a gate that let a call through")
	}
	if err != nil {
		return CallResult{}, fmt.Errorf("confirm: %w", err)
	}
	made := h.Unknown()
	switch {
	case h.Tool != s.Tool || h.ArgsSHA256 != s.ArgsSHA256 || h.Binding != s.Binding:
		return CallResult{}, refuse(ErrContent, "binding", "the held call is another one than what was signed")
	case memory.SameName(s.Principal, h.Agent):
		return CallResult{}, refuse(ErrScope, "principal", "who asks for a call cannot decide about it")
	case made == "":
		return CallResult{}, refuse(ErrDecided, "call", "it waits for no call of which it is not known how it ended")
	}
	if _, err := store.Decision(ctx, made); !errors.Is(err, memory.ErrErased) {
		return CallResult{}, refuse(ErrContent, "call", "the call that was made has a record: sign for that, "+made)
	}
	return settled(ctx, store, s, made)
}

// settled settles the call that a decision let through.
func settled(ctx context.Context, store CallStore, s *SignedCall, decision string) (CallResult, error) {
	err := store.Settle(ctx, memory.Settlement{Decision: decision, Done: s.Verb == Done, Actor: s.Principal, Reason: s.Reason})
	var hold *memory.HoldError
	switch {
	case errors.As(err, &hold) && (hold.State == memory.HoldDone || hold.State == memory.HoldFailed):
		return CallResult{}, &RefusedError{Kind: ErrDecided, Field: "call", Text: hold.Text, cause: err}
	case errors.As(err, &hold):
		return CallResult{}, &RefusedError{Kind: ErrEarly, Field: "call", Text: hold.Text, cause: err}
	case err != nil:
		return CallResult{}, fmt.Errorf("confirm: %w", err)
	}
	res := CallResult{Verb: s.Verb, Call: decision, State: memory.HoldFailed}
	if s.Verb == Done {
		res.State = memory.HoldDone
	}
	return res, nil
}

// holdRefused says why a held call did not move, in the words of this package.
func holdRefused(e *memory.HoldError) error {
	r := &RefusedError{Kind: ErrStale, Field: "call", Text: e.Text, cause: e}
	switch e.State {
	case memory.HoldExpired:
		r.Kind = ErrExpired
	case memory.HoldFired, memory.HoldDone, memory.HoldFailed, memory.HoldUnknown:
		r.Kind, r.Text = ErrUsed, "the call was made"
	case memory.HoldRejected:
		r.Kind, r.Text = ErrDecided, "refused by "+e.By+" already"
	case memory.HoldGranted:
		r.Kind, r.Text = ErrDecided, "approved by "+e.By+" already"
	case memory.HoldWaiting:
		if e.Ended {
			r.Kind = ErrRunEnded
			break
		}
		if e.Moved {
			r.Kind = ErrReplayed
		} else {
			r.Kind = ErrDecided
		}
	}
	return r
}

// BarrierStore is what a [Barrier] needs of a store; [*memory.Store] is one.
type BarrierStore interface {
	DecisionsCiting(ctx context.Context, row memory.ID) ([]memory.CitedDecision, error)
	OpenCalls(ctx context.Context, decisions ...string) ([]string, error)
	Now() time.Time
}

// Pauses between two looks of a [Barrier].
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// Barrier waits, after a demotion of a row was acknowledged, until no call is open
// that was let through on the row before: each has an outcome. It returns those
// calls, newest first: the dependent decisions. No call can come to them, since
// none is let through on a demoted row.
//
// If ctx ends first it returns them all the same, with a [*BarrierError] that names
// those that are open. A call that has had no outcome for [memory.UnknownAfter] is not
// waited for, since its process may have died: if no others are open, it is named so
// at once. An error of another kind is the store's.
func Barrier(ctx context.Context, store BarrierStore, row memory.ID) ([]memory.CitedDecision, error) {
	cited, err := store.DecisionsCiting(ctx, row)
	if err != nil {
		return nil, fmt.Errorf("confirm: barrier: %w", err)
	}
	var fired []memory.CitedDecision
	var open []string
	at := map[string]time.Time{}
	for i := range cited {
		if cited[i].Dependent {
			fired = append(fired, cited[i])
			open = append(open, cited[i].ID)
			at[cited[i].ID] = cited[i].At
		}
	}
	long := func(id string) bool { return store.Now().Sub(at[id]) >= memory.UnknownAfter }
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		still, err := store.OpenCalls(ctx, open...)
		if err != nil {
			if ctx.Err() != nil {
				return fired, &BarrierError{Open: open, cause: ctx.Err()}
			}
			return fired, fmt.Errorf("confirm: barrier: %w", err)
		}
		open = still
		switch {
		case len(open) == 0:
			return fired, nil
		case !slices.ContainsFunc(open, func(id string) bool { return !long(id) }):
			return fired, &BarrierError{Open: open}
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return fired, &BarrierError{Open: open, cause: ctx.Err()}
		case <-t.C:
		}
	}
}

// BarrierError names the calls that had fired on a row and whose outcome was not
// recorded when the wait ended. It unwraps to the error of the context, or to nothing if
// they have been open for too long.
type BarrierError struct {
	Open  []string // ids of decisions
	cause error
}

// Error is one line.
func (e *BarrierError) Error() string {
	return fmt.Sprintf("confirm: barrier: the outcome of %d calls is not known yet", len(e.Open))
}

// Unwrap returns why the wait ended.
func (e *BarrierError) Unwrap() error { return e.cause }
