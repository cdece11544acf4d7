package confirm

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"

	"github.com/hearsay-go/hearsay/memory"
)

// HandlerOptions of [NewHandler]. Every zero field has a usable default.
type HandlerOptions struct {
	// TrustedOrigins may post from a browser besides the handler's own, each as
	// "https://host[:port]".
	TrustedOrigins []string
	// Logger gets one line a statement, without content of rows; nil = none.
	Logger *slog.Logger
}

// NewHandler returns the handler behind a web app's own yes-button: POST the JSON
// of a [Signed] or a [SignedCall] as application/json, and get the JSON of a
// [Result] or a [CallResult], or of
// {"error": {"code": "stale", "text": "…"}} with the status that fits. A browser
// page of another origin is refused; so is a body of more than [MaxSigned] bytes.
// It holds no key: who may confirm is decided by the signature alone.
func NewHandler(store HandlerStore, k *Keyring, o *HandlerOptions) (http.Handler, error) {
	if store == nil {
		return nil, errors.New("confirm: NewHandler: no store")
	}
	h := &handler{store: store, keys: k, log: slog.New(slog.DiscardHandler)}
	origins := http.NewCrossOriginProtection()
	if o != nil {
		for _, origin := range o.TrustedOrigins {
			if err := origins.AddTrustedOrigin(origin); err != nil {
				return nil, err
			}
		}
		if o.Logger != nil {
			h.log = o.Logger
		}
	}
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusForbidden, "cross_origin", "posted by a page of another origin")
	}))
	return origins.Handler(h), nil
}

// HandlerStore is what a handler needs of a store; [*memory.Store] is one.
type HandlerStore interface {
	Store
	CallStore
}

type handler struct {
	store HandlerStore
	keys  *Keyring
	log   *slog.Logger
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		fail(w, http.StatusMethodNotAllowed, "method", "post a signed statement")
		return
	}
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		fail(w, http.StatusUnsupportedMediaType, "media_type", "post application/json")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxSigned))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		fail(w, http.StatusRequestEntityTooLarge, "too_large", "the statement is too large")
		return
	case err != nil:
		fail(w, http.StatusBadRequest, "malformed", "the body could not be read")
		return
	}
	done, attrs, err := h.apply(r.Context(), body)
	if err == nil {
		h.log.LogAttrs(r.Context(), slog.LevelInfo, "statement applied", attrs...)
		write(w, http.StatusOK, done)
		return
	}
	status, code, text := classify(err)
	if status >= http.StatusInternalServerError {
		h.log.LogAttrs(r.Context(), slog.LevelError, "statement not decided", slog.String("code", code), slog.Any("error", err))
	} else { // the error may name what the row is about
		h.log.LogAttrs(r.Context(), slog.LevelInfo, "statement refused", slog.String("code", code))
	}
	fail(w, status, code, text)
}

// apply applies a statement about a row or about a call, which names a call.
func (h *handler) apply(ctx context.Context, body []byte) (done any, attrs []slog.Attr, err error) {
	var about struct {
		Call json.RawMessage `json:"call"`
	}
	if json.Unmarshal(body, &about) == nil && about.Call != nil {
		s, err := ParseCall(body)
		if err != nil {
			return nil, nil, err
		}
		res, err := ApplyCall(ctx, h.store, h.keys, s)
		return res, []slog.Attr{slog.String("verb", s.Verb.String()), slog.String("call", s.Call), slog.String("by", s.Principal), slog.String("state", res.State.String())}, err
	}
	s, err := Parse(body)
	if err != nil {
		return nil, nil, err
	}
	res, err := Apply(ctx, h.store, h.keys, s)
	return res, []slog.Attr{slog.String("verb", s.Verb.String()), slog.String("row", string(s.Row)), slog.String("by", s.Principal), slog.String("state", res.State.String())}, err
}

// refusals are the errors that a caller may be told of, in words that hold
// nothing of the store's. That a principal has no key is told no better than that
// its signature is wrong.
var refusals = []struct {
	err    error
	status int
	code   string
	text   string
}{
	{memory.ErrUnwitnessed, http.StatusServiceUnavailable, "unwitnessed", "it has taken effect, and the store's witness did not confirm it; it is told later"},
	{memory.ErrWitnessMissing, http.StatusServiceUnavailable, "witness_missing", "the store's witness is not at hand, so nothing is approved"},
	{ErrStatement, http.StatusBadRequest, "malformed", "not a well-formed signed statement"},
	{ErrKey, http.StatusForbidden, "not_configured", "no key is configured here, so nothing can be confirmed"},
	{ErrUnknownKey, http.StatusForbidden, "not_signed", "not signed by a key that is known here"},
	{ErrForged, http.StatusForbidden, "not_signed", "not signed by a key that is known here"},
	{ErrExpired, http.StatusGone, "expired", "the statement has ended; sign a new one"},
	{ErrTenant, http.StatusForbidden, "tenant", "signed for another tenant"},
	{memory.ErrNoAuthority, http.StatusForbidden, "no_authority", "the key reaches this subject, and the store gives its principal no authority over it: open the store with the keyring's Authority (memory.Options.Authority)"},
	{ErrScope, http.StatusForbidden, "scope", "the key does not reach this subject, or calls of this tool"},
	{ErrUsed, http.StatusConflict, "used", "the call was made; what approved it is spent"},
	{ErrDecided, http.StatusConflict, "decided", "somebody decided about the call already"},
	{ErrRunEnded, http.StatusGone, "run_ended", "the run that asked has ended, and an approval counts for that run only; have the agent ask again, and approve the call that is held then"},
	{ErrEarly, http.StatusConflict, "early", "the call may still be at work; look again later"},
	{ErrReplayed, http.StatusConflict, "replayed", "the call was decided since this was signed; look again and sign anew"},
	{ErrHalf, http.StatusConflict, "half", "the contradiction stands; the right object was not written"},
	{ErrContent, http.StatusConflict, "content", "the row holds something else than what was signed"},
	{ErrStale, http.StatusConflict, "stale", "the row has moved since; look again and sign anew"},
	{memory.ErrErased, http.StatusGone, "erased", "its record was erased; to settle the call that was made, sign for the same call that waits"},
	{memory.ErrNotFound, http.StatusNotFound, "not_found", "no such row or call"},
	{memory.ErrIllegalMove, http.StatusConflict, "illegal_move", "the row may not move there"},
	{memory.ErrContested, http.StatusConflict, "contested", "another user verified the contrary; both stand contested"},
	{memory.ErrInsufficient, http.StatusConflict, "insufficient", "the evidence does not suffice"},
	{context.Canceled, 499, "cancelled", "the request ended"},
}

func classify(err error) (status int, code, text string) {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return r.status, r.code, r.text
		}
	}
	return http.StatusServiceUnavailable, "unavailable", "the store failed; whether the statement was applied is not known"
}

func fail(w http.ResponseWriter, status int, code, text string) {
	type problem struct {
		Code string `json:"code"`
		Text string `json:"text"`
	}
	write(w, status, map[string]problem{"error": {code, text}})
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"code":"unavailable","text":"no answer"}}`)
	}
	w.WriteHeader(status)
	if _, err := w.Write(append(b, '\n')); err != nil {
		return // the client is gone
	}
}
