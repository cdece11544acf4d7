package roster

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/verifier"
)

const secret = "sk-never-print-this"

// ask asks a source that answers as h does.
func ask(t *testing.T, token string, h http.HandlerFunc) (verifier.Answer, error) {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	u, err := url.Parse(srv.URL + "/fact?v=1")
	if err != nil {
		t.Fatal(err)
	}
	s := &httpSource{name: "crm", url: u, token: token, client: sourceClient(), now: time.Now}
	defer s.client.CloseIdleConnections()
	return s.ask(t.Context(), verifier.Question{Subject: "acme & co", Predicate: "billing.email"})
}

func TestSourceIsAskedBlind(t *testing.T) {
	var got *http.Request
	_, err := ask(t, secret, func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Write([]byte(`{"found":false}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	if q := got.URL.Query(); got.Method != http.MethodGet || len(q) != 3 || q.Get("subject") != "acme & co" || q.Get("predicate") != "billing.email" || q.Get("v") != "1" {
		t.Errorf("%s %s", got.Method, got.URL)
	}
	if got.Header.Get("Authorization") != "Bearer "+secret {
		t.Error("no token")
	}
}

func TestSourceAnswers(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       verifier.Answer
	}{
		{"one value", `{"found":true,"value":"a@b","uri":"crm://7","version":"3"}`, verifier.Answer{Found: true, Value: "a@b", URI: "crm://7", Version: "3"}},
		{"a number as it is written", `{"found":true,"value":1.50}`, verifier.Answer{Found: true, Value: "1.50"}},
		{"a truth value", `{"found":true,"value":false}`, verifier.Answer{Found: true, Value: "false"}},
		{"fields of its own", `{"found":true,"value":"a","score":{"value":"b"}}`, verifier.Answer{Found: true, Value: "a"}},
		{"nothing", `{"found":false}`, verifier.Answer{}},
		{"nothing, said at length", `{"found":false,"value":"","values":null}`, verifier.Answer{}},
		{"null for nothing", `{"found":false,"value":null}`, verifier.Answer{}},
	} {
		t.Run(c.name+" is an answer", func(t *testing.T) {
			got, err := ask(t, "", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(c.body)) })
			if err != nil || got.Found != c.want.Found || got.Value != c.want.Value || got.URI != c.want.URI || got.Version != c.want.Version || len(got.Values) != 0 {
				t.Errorf("%+v %v, want %+v", got, err, c.want)
			}
		})
	}
	t.Run("several values are an answer", func(t *testing.T) {
		got, err := ask(t, "", func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(`{"found":true,"values":["a",2],"complete":true}`))
		})
		if err != nil || len(got.Values) != 2 || got.Values[1] != "2" || !got.Complete {
			t.Errorf("%+v %v", got, err)
		}
	})
	for name, body := range map[string]string{
		"no JSON": `<html>`, "an empty body": ``, "a half": `{"found":true,"value":"a"`, "something behind it": `{"found":true,"value":"a"} {}`,
		"too much": `{"found":true,"value":"` + strings.Repeat("a", maxAnswer) + `"}`, "no UTF-8": "{\"found\":true,\"value\":\"\xff\"}",
		"an error": `{"error":{"message":"db"}}`, "an error beside a value": `{"found":true,"value":"a","error":"db"}`,
	} {
		t.Run(name+" is an outage, and no answer", func(t *testing.T) {
			got, err := ask(t, "", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(body)) })
			if !errors.Is(err, verifier.ErrUnavailable) || got.Found || strings.Contains(err.Error(), "db") {
				t.Errorf("%+v %v", got, err)
			}
		})
	}
	for name, body := range map[string]string{
		"a list": `[]`, "null": `null`, "a text": `"found"`, "no found": `{"value":"a"}`, "found null": `{"found":null}`,
		"found in another case": `{"Found":true,"value":"a"}`, "found as text": `{"found":"true","value":"a"}`,
		"found without a value": `{"found":true}`, "an empty value": `{"found":true,"value":" "}`, "a value not found": `{"found":false,"value":"a"}`,
		"a value twice": `{"found":true,"value":"a","value":"b"}`, "a value in two cases": `{"found":true,"value":"a","VALUE":"b"}`,
		"an object for a value": `{"found":true,"value":{"a":1}}`, "a list in a list": `{"found":true,"values":[["a"]]}`, "values that are no list": `{"found":true,"values":"a"}`,
	} {
		t.Run(name+" is no answer, and no outage", func(t *testing.T) {
			got, err := ask(t, "", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(body)) })
			if !errors.Is(err, verifier.ErrAnswer) || errors.Is(err, verifier.ErrUnavailable) || got.Found {
				t.Errorf("%+v %v", got, err)
			}
		})
	}
	t.Run("an error field that says that there was none is the source's own business", func(t *testing.T) {
		for _, none := range []string{`null`, `""`, `false`} {
			got, err := ask(t, "", func(w http.ResponseWriter, _ *http.Request) {
				w.Write([]byte(`{"found":true,"value":"a","error":` + none + `}`))
			})
			if err != nil || got.Value != "a" {
				t.Errorf("%+v %v", got, err)
			}
		}
	})
}

func TestSourceStatus(t *testing.T) {
	for _, c := range []struct {
		status int
		want   error
	}{
		{204, verifier.ErrUnavailable}, {301, verifier.ErrMisconfigured}, {302, verifier.ErrMisconfigured}, {400, verifier.ErrMisconfigured},
		{401, verifier.ErrMisconfigured}, {403, verifier.ErrMisconfigured}, {404, verifier.ErrMisconfigured}, {408, verifier.ErrUnavailable},
		{425, verifier.ErrUnavailable}, {429, verifier.ErrUnavailable}, {500, verifier.ErrUnavailable}, {503, verifier.ErrUnavailable},
	} {
		t.Run(http.StatusText(c.status)+" is "+c.want.Error(), func(t *testing.T) {
			_, err := ask(t, "", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
			})
			if !errors.Is(err, c.want) {
				t.Errorf("%v", err)
			}
			var down *verifier.UnavailableError
			if (c.status == 429 || c.status == 503) && (!errors.As(err, &down) || down.RetryAfter != 7*time.Second) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestSourceErrorsHoldNoQuestion(t *testing.T) {
	u, err := url.Parse("http://127.0.0.1:1/fact")
	if err != nil {
		t.Fatal(err)
	}
	s := &httpSource{name: "crm", url: u, token: secret, client: sourceClient(), now: time.Now}
	_, err = s.ask(t.Context(), verifier.Question{Subject: "acme", Predicate: "billing.email"})
	if !errors.Is(err, verifier.ErrUnavailable) || strings.Contains(err.Error(), "acme") || strings.Contains(err.Error(), "billing") || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = s.ask(ctx, verifier.Question{Subject: "acme", Predicate: "p"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled question: %v", err)
	}
}

func FuzzDecodeAnswer(f *testing.F) {
	f.Add([]byte(`{"found":true,"value":"a","values":["b",1,true],"complete":true,"uri":"u","version":"v"}`))
	f.Add([]byte(`{"found":false,"value":null}`))
	f.Add([]byte(`{"found":true,"value":"a","Value":"b"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeAnswer(b)
		if err != nil && (a.Found || a.Value != "" || a.Values != nil) {
			t.Error("half an answer beside an error")
		}
		if err == nil && a.Found != (a.Value != "" || len(a.Values) > 0) {
			t.Error("found without a value, or a value that was not found")
		}
	})
}
