package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/hearsay-go/hearsay/memory/recall"
)

// TokenHeader is the HTTP header that carries a lineage token, and TokenMember the
// member of W3C baggage.
const (
	TokenHeader = "Hearsay-Lineage"
	TokenMember = "hearsay-lineage"
)

// Limits of W3C baggage that everybody on the way must pass on.
const (
	maxBaggage        = 8192
	maxBaggageMembers = 64
)

// MaxBody is the most bytes of a request that a lineage token is bound to. A larger
// request is refused, on both sides.
const MaxBody = 8 << 20

var (
	// ErrBody: the body of a request is larger than [MaxBody].
	ErrBody = errors.New("agent: request body too large to bind a lineage token to")
	// ErrBaggage: the token does not fit beside what the baggage holds already.
	ErrBaggage = errors.New("agent: no room in the baggage")
)

// Transport adds a lineage token to each request, bound to its method, path, query
// and body. It is an [http.RoundTripper], safe for concurrent use.
//
// With Run it signs for that run, to Audience. Without, it signs for the call in the
// request's context: that of the tool function it is used in, to the audience that
// the tool declares with [SendsTo]. A request outside of any call gets no token, and
// is of unknown lineage where it arrives; so is one that follows a redirect, since the
// server that redirects has chosen where it goes.
type Transport struct {
	Run      *Run
	Audience string
	Base     http.RoundTripper // nil = http.DefaultTransport
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	body, err := slurp(req.Body)
	if err != nil {
		return nil, err
	}
	var token string
	call := requestBytes(req, body)
	switch {
	case req.Response != nil: // a redirect: where it goes is the word of whoever answered
	case t.Run != nil:
		token, err = t.Run.Token(req.Context(), t.Audience, call)
	default:
		token, err = Token(req.Context(), call)
	}
	if err != nil {
		return nil, err
	}
	out := req.Clone(req.Context())
	if out.Body = http.NoBody; len(body) > 0 {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	out.Header.Del(TokenHeader)
	if token != "" {
		out.Header.Set(TokenHeader, token)
	}
	return base.RoundTrip(out)
}

func slurp(r io.ReadCloser) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	b, err := io.ReadAll(io.LimitReader(r, MaxBody+1))
	err = errors.Join(err, r.Close())
	if len(b) > MaxBody {
		err = ErrBody
	}
	return b, err
}

// requestBytes are what a token of a request is bound to: all in it that may carry
// words to a tool or a model. Headers are not.
func requestBytes(r *http.Request, body []byte) []byte {
	return fmt.Appendf(nil, "%s\n%s\n%s", r.Method, r.URL.RequestURI(), body)
}

// Served is what a [Agent.Handler] calls for each request. The run rests on all that
// the sender had read. words is the body of the request for a model: give it to
// Run.Input. The body can be read too, for a program that passes what is in it to
// tools.
type Served func(w http.ResponseWriter, r *http.Request, run *Run, words Segment)

// Handler serves requests that come from runs of other processes, each in a run of
// its own. The token is looked for in [TokenHeader], and in the baggage if that has
// none. Without one that holds, the lineage of the run is unknown.
//
// principal says whom the request is for, from what the front end has authenticated
// (never from the token); its error is answered with 401.
func (a *Agent) Handler(principal func(*http.Request) (string, error), next Served) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		who, err := principal(req)
		if err != nil {
			http.Error(w, "not authenticated", http.StatusUnauthorized)
			return
		}
		run := a.Start(who)
		if run.ready() != nil {
			http.Error(w, "the agent is not built", http.StatusInternalServerError)
			return
		}
		body, err := slurp(req.Body)
		if errors.Is(err, ErrBody) {
			http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		words := UnknownText(recall.Defuse(string(body)))
		token, err := FindToken(req.Header)
		if err != nil {
			run.refuse(req.Context(), err)
		} else if c, ok := run.admit(req.Context(), token, requestBytes(req, body), run.ledger.carry); ok {
			words = Segment{kind: segmentRelayed, from: c, text: string(body)}
		}
		req = req.WithContext(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
		next(w, req, run, words)
	})
}

// FindToken gets the lineage token of a request or response: that of [TokenHeader],
// or else of the baggage. None is "". More than one, or two that differ, is an error,
// and none of them is to be believed.
func FindToken(h http.Header) (string, error) {
	direct := h.Values(TokenHeader)
	carried, err := baggageTokens(h)
	switch {
	case err != nil:
		return "", err
	case len(direct) > 1, len(carried) > 1, len(direct) == 1 && len(carried) == 1 && direct[0] != carried[0]:
		return "", refusedTwice
	case len(direct) == 1:
		return direct[0], nil
	case len(carried) == 1:
		return carried[0], nil
	}
	return "", nil
}

// AddBaggage puts a token into the W3C baggage of a request, in place of one that is
// there. If it does not fit into what everybody on the way must pass on (8,192 bytes,
// 64 members), it is [ErrBaggage], and the header is left without a token.
func AddBaggage(h http.Header, token string) error {
	var members []string
	for _, m := range baggage(h) {
		if key, _, _ := strings.Cut(m, "="); strings.TrimSpace(key) != TokenMember {
			members = append(members, m)
		}
	}
	set := func(m []string) {
		h.Del("Baggage")
		if len(m) > 0 {
			h.Set("Baggage", strings.Join(m, ","))
		}
	}
	set(members)
	members = append(members, TokenMember+"="+token)
	if len(members) > maxBaggageMembers || len(strings.Join(members, ",")) > maxBaggage {
		return ErrBaggage
	}
	set(members)
	return nil
}

// baggage lists the members of the baggage, of all lines.
func baggage(h http.Header) (members []string) {
	for _, line := range h.Values("Baggage") {
		for m := range strings.SplitSeq(line, ",") {
			if m = strings.TrimSpace(m); m != "" {
				members = append(members, m)
			}
		}
	}
	return members
}

func baggageTokens(h http.Header) (tokens []string, err error) {
	for _, m := range baggage(h) {
		key, value, _ := strings.Cut(m, "=")
		if strings.TrimSpace(key) != TokenMember {
			continue
		}
		value, _, _ = strings.Cut(value, ";") // properties of the member
		tokens = append(tokens, strings.TrimSpace(value))
	}
	if len(tokens) == 1 && tokens[0] == "" {
		return nil, refusedMalformed
	}
	return tokens, nil
}
