package roster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/document"
	"github.com/hearsay-go/hearsay/verifier/secondmodel"
)

// kinds makes a verifier of each kind that asks the server, and waits so long for it.
var kinds = map[string]func(t *testing.T, server *httptest.Server, patience time.Duration) verifier.Verifier{
	"http": func(t *testing.T, server *httptest.Server, patience time.Duration) verifier.Verifier {
		u, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		client := sourceClient()
		client.Transport.(*http.Transport).TLSClientConfig = trusting(server)
		t.Cleanup(client.CloseIdleConnections)
		s := &httpSource{name: "v", url: u, client: client, now: time.Now}
		return verifier.NewTool("v", s.ask, &verifier.ToolOptions{Timeout: patience})
	},
	"document": func(t *testing.T, server *httptest.Server, patience time.Duration) verifier.Verifier {
		u, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		f, err := document.NewFetcher(document.FetcherOptions{Hosts: []string{u.Host}, Private: []string{u.Host}, TLS: trusting(server), Timeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		ask, err := document.Table{Pin: document.Pin{URI: server.URL}, Subject: "country", Columns: map[string]string{"capital": "capital"}}.Ask(f)
		if err != nil {
			t.Fatal(err)
		}
		return verifier.NewTool("v", ask, &verifier.ToolOptions{Rank: memory.RankPrimarySource, Timeout: patience})
	},
	"model": func(t *testing.T, server *httptest.Server, patience time.Duration) verifier.Verifier {
		client := server.Client()
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		v, err := secondmodel.New(secondmodel.Config{Name: "v", BaseURL: server.URL + "/v1", Model: "m", Family: "llama", HTTPClient: client, Timeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		return v
	},
}

func trusting(server *httptest.Server) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return &tls.Config{RootCAs: pool}
}

// class is a verdict or an error in the words of the table.
func class(v verifier.Verdict, err error) string {
	switch {
	case errors.Is(err, verifier.ErrMisconfigured):
		return "misconfigured"
	case errors.Is(err, verifier.ErrUnavailable):
		return "down"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case err != nil:
		return "of no class: " + err.Error()
	}
	return v.Outcome.String()
}

var nonceOf = regexp.MustCompile(`BEGIN CLAIM ([A-Z2-7]{26})`)

// says answers 200 with a body; of a model's, NONCE is the one that was asked with.
func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		asked, err := io.ReadAll(r.Body)
		nonce := "NONCE"
		if m := nonceOf.FindSubmatch(asked); err == nil && m != nil {
			nonce = string(m[1])
		}
		io.WriteString(w, strings.ReplaceAll(body, "NONCE", nonce))
	}
}

// completes is the body of a model's server.
func completes(finish, content, refusal string) string {
	b, err := json.Marshal(map[string]any{"id": "1", "object": "chat.completion", "model": "m",
		"choices": []any{map[string]any{"index": 0, "finish_reason": finish, "message": map[string]any{"role": "assistant", "content": content, "refusal": refusal}}}})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func everywhere(h http.HandlerFunc) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{"http": h, "document": h, "model": h}
}

func fails(status int, body string, header ...string) map[string]http.HandlerFunc {
	return everywhere(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
}

// TestEveryKindOfVerifierAnswersByOneTable: what a server does means the same to all
// that ask one. Down comes back, misconfigured wants a person, unclear moves nothing; only
// what was read to its end, and has the form that was agreed, refutes.
func TestEveryKindOfVerifierAnswersByOneTable(t *testing.T) {
	const answer = `{"nonce":"NONCE","reason":"r","verdict":"%s","value":"Paris"}`
	for _, c := range []struct {
		name   string
		does   map[string]http.HandlerFunc // by kind of verifier
		want   string
		except map[string]string // kinds that answer otherwise
		wait   time.Duration     // that the server asked for
		hangs  bool
	}{
		{name: "429 with a time", does: fails(429, `{"error":{"message":"slow down"}}`, "Retry-After", "7"), want: "down", wait: 7 * time.Second},
		{name: "429 in plain text", does: fails(429, "slow down"), want: "down"},
		{name: "500 in plain text", does: fails(500, "oops"), want: "down"},
		{name: "502 in HTML", does: fails(502, "<html>bad gateway</html>"), want: "down"},
		{name: "503 while it loads", does: fails(503, `{"error":{"message":"Loading model"}}`, "Retry-After", "2"), want: "down", wait: 2 * time.Second},
		{name: "a closed connection", does: everywhere(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), want: "down"},
		{name: "a connection that closes in the body", does: everywhere(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "500")
			io.WriteString(w, `{"found":true`)
		}), want: "down"},
		{name: "no answer for ever", does: everywhere(func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // lets the server notice that the client left
			<-r.Context().Done()
		}), want: "down", hangs: true},
		{name: "half an answer for ever", does: everywhere(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, `{"found":true,"choices":[`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}), want: "down", hangs: true},
		{name: "200 with HTML", does: everywhere(says("<html>sign in</html>")), want: "down"},
		{name: "200 with an error", does: everywhere(says(`{"error":{"message":"overloaded"}}`)), want: "down"},
		{name: "200 without choices", does: map[string]http.HandlerFunc{"model": says(`{"id":"1","object":"chat.completion","model":"m","choices":[]}`)}, want: "down"},

		{name: "400", does: fails(400, `{"error":{"message":"bad request"}}`), want: "misconfigured"},
		{name: "401", does: fails(401, "who are you"), want: "misconfigured"},
		{name: "404", does: fails(404, `{"error":{"message":"model not found"}}`), want: "misconfigured",
			except: map[string]string{"document": "gone"}}, // what rested on it is stale

		{name: "200 off the form", does: map[string]http.HandlerFunc{
			"http": says(`{"found":"true","value":"Paris"}`), "document": says("country,seat\nFrance,Paris\n"), "model": says(completes("stop", `{"verdict":"refuted"}`, "")),
		}, want: "unclear"},
		{name: "200 of another form altogether", does: map[string]http.HandlerFunc{
			"http": says(`[{"found":true,"value":"Paris"}]`), "document": says("Paris\n"), "model": says(completes("stop", "That is refuted: it is Paris.", "")),
		}, want: "unclear"},
		{name: "200 with a verdict twice", does: map[string]http.HandlerFunc{
			"http": says(`{"found":true,"value":"Lyon","value":"Paris"}`), "document": says("country,capital,capital\nFrance,Lyon,Paris\n"),
			"model": says(completes("stop", strings.Replace(fmt.Sprintf(answer, "refuted"), "{", `{"verdict":"supported",`, 1), "")),
		}, want: "unclear"},
		{name: "200 that was cut at its length", does: map[string]http.HandlerFunc{"model": says(completes("length", fmt.Sprintf(answer, "refuted"), ""))}, want: "unclear"},
		{name: "200 with a refusal", does: map[string]http.HandlerFunc{"model": says(completes("stop", "", "I cannot help with that"))}, want: "unclear"},
		{name: "200 that knows nothing of it", does: map[string]http.HandlerFunc{
			"http": says(`{"found":false}`), "document": says("country,capital\nItaly,Rome\n"), "model": says(completes("stop", `{"nonce":"NONCE","reason":"r","verdict":"unclear","value":""}`, "")),
		}, want: "unclear"},

		{name: "200 with a refutation", does: map[string]http.HandlerFunc{
			"http": says(`{"found":true,"value":"Paris"}`), "document": says("country,capital\nFrance,Paris\n"), "model": says(completes("stop", fmt.Sprintf(answer, "refuted"), "")),
		}, want: "refuted"},
	} {
		for kind, does := range c.does {
			want := c.want
			if other := c.except[kind]; other != "" {
				want = other
			}
			t.Run(c.name+" is "+want+" to "+kind, func(t *testing.T) {
				t.Parallel()
				patience := time.Hour
				if c.hangs {
					patience = 150 * time.Millisecond
				}
				v := kinds[kind](t, serves(t, does), patience)
				got, err := v.Verify(t.Context(), capital)
				if class(got, err) != want || got.Check() != nil {
					t.Fatalf("%s: %+v %v", class(got, err), got, err)
				}
				if err != nil && got.Outcome != verifier.Unknown || want != "refuted" && got.Evidence.Relation == memory.RelationContradicts {
					t.Errorf("half a verdict: %+v beside %v", got, err)
				}
				var down *verifier.UnavailableError
				if errors.As(err, &down) && down.RetryAfter != c.wait {
					t.Errorf("comes back after %s, want %s", down.RetryAfter, c.wait)
				}
			})
		}
	}
	for kind, build := range kinds {
		t.Run("a refused connection is down to "+kind, func(t *testing.T) {
			server := serves(t, says(""))
			v := build(t, server, time.Hour)
			server.Close()
			if got, err := v.Verify(t.Context(), capital); class(got, err) != "down" {
				t.Errorf("%+v %v", got, err)
			}
		})
		t.Run("a caller who leaves is cancelled to "+kind, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			v := build(t, serves(t, func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				cancel()
				<-r.Context().Done()
			}), time.Hour)
			if got, err := v.Verify(ctx, capital); class(got, err) != "cancelled" {
				t.Errorf("%+v %v", got, err)
			}
		})
	}
}

var capital = memory.Row{
	Content:  memory.Content{Subject: "France", Predicate: "capital", Object: "Lyon", Cardinality: memory.CardinalityFunctional},
	Asserter: memory.Asserter{Principal: "ana", Model: "gpt-x", Family: "gpt"},
}

func serves(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	return server
}
