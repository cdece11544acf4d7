package witnesshttp_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/audit/witnesshttp"
	"github.com/hearsay-go/hearsay/memory/audit/witnesstest"
)

func TestMain(m *testing.M) {
	witnesshttp.WithoutPauses()
	testmain.Run(m)
}

const (
	token    = "the-token-that-every-machine-has-0123456789"
	recovery = "the-token-of-whoever-recovers-a-store-0123456789"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// created is the file of a witness that has seen nothing.
func created(t testing.TB) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "witness")
	w, err := audit.CreateWitness(path)
	must(t, err)
	must(t, w.Close())
	return path
}

// served is a server that a test can stop, change and look into.
type served struct {
	testing.TB
	path string
	log  *testmain.Output
	*httptest.Server
	file  *audit.WitnessFile
	front atomic.Pointer[func(next http.Handler, w http.ResponseWriter, r *http.Request)]
}

func serve(t testing.TB) *served {
	t.Helper()
	s := &served{TB: t, path: created(t), log: &testmain.Output{}}
	s.start("127.0.0.1:0")
	t.Cleanup(s.stop)
	return s
}

func (s *served) start(addr string) {
	s.Helper()
	var err error
	s.file, err = audit.ServeWitness(s.path)
	must(s, err)
	h, err := witnesshttp.NewServer(s.file, witnesshttp.ServerOptions{Token: token, RecoveryToken: recovery, Logger: slog.New(slog.NewTextHandler(s.log, nil))})
	must(s, err)
	next := h.Handler()
	l, err := net.Listen("tcp", addr)
	must(s, err)
	s.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if front := s.front.Load(); front != nil {
			(*front)(next, w, r)
			return
		}
		next.ServeHTTP(w, r)
	})}}
	s.Start()
}

func (s *served) stop() {
	s.Close()
	_ = s.file.Close()
}

// again stops the server, and starts it at the same address.
func (s *served) again(meanwhile func()) {
	s.Helper()
	addr := s.Listener.Addr().String()
	s.stop()
	meanwhile()
	s.start(addr)
}

func (s *served) before(front func(next http.Handler, w http.ResponseWriter, r *http.Request)) {
	s.front.Store(&front)
}

func (s *served) dial(token string) *audit.Witness {
	s.Helper()
	w, err := witnesshttp.Dial(s.Context(), s.URL, &witnesshttp.Options{Token: token})
	must(s, err)
	s.Cleanup(func() { _ = w.Close() })
	return w
}

func tell(ctx context.Context, w *audit.Witness, key string, revision uint64) error {
	return w.Ledger("acme", "").Acknowledge(ctx, memory.EntryTransition, []memory.Leaf{witnesstest.Leaf(key, revision, 1)})
}

// kept is what the file has, read by nobody's help.
func (s *served) kept() []memory.Leaf {
	s.Helper()
	w, err := audit.ReadWitness(s.path)
	must(s, err)
	defer w.Close()
	var out []memory.Leaf
	must(s, w.Ledger("acme", "").Acknowledged(s.Context(), func(_ memory.EntryKind, l memory.Leaf) error { out = append(out, l); return nil }))
	return out
}

func TestAServerIsAWitness(t *testing.T) {
	witnesstest.Run(t, func(t *testing.T) func() *audit.Witness {
		s := serve(t)
		return func() *audit.Witness {
			t.Helper()
			w, err := witnesshttp.Dial(t.Context(), s.URL, &witnesshttp.Options{Token: recovery})
			must(t, err)
			return w
		}
	})
}

func TestAServerThatDiesBetweenAppendAndAnswerIsToldAgain(t *testing.T) {
	s := serve(t)
	w := s.dial(token)
	asked := 0
	s.before(func(next http.Handler, out http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			next.ServeHTTP(httptest.NewRecorder(), r) // it is on disk
			panic(http.ErrAbortHandler)               // and nobody hears of it
		}
		next.ServeHTTP(out, r)
	})
	must(t, tell(t.Context(), w, "h/a", 1))
	if got := s.kept(); asked != 2 || len(got) != 1 {
		t.Fatal(asked, got)
	}
	t.Run("and one that stays away has what it was told when it is back", func(t *testing.T) {
		s.before(func(next http.Handler, _ http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		})
		if err := tell(t.Context(), w, "h/b", 1); !errors.Is(err, witnesshttp.ErrUnavailable) || !errors.Is(err, memory.ErrWitnessMissing) {
			t.Fatal(err)
		}
		s.front.Store(nil)
		s.again(func() {})
		must(t, tell(t.Context(), w, "h/b", 1))
		if got := s.kept(); len(got) != 2 {
			t.Fatal(got)
		}
	})
}

func TestAServerThatIsNotReachedIsAWitnessThatIsNotAtHand(t *testing.T) {
	s := serve(t)
	w := s.dial(token)
	addr := s.Listener.Addr().String()
	s.stop()
	var known *witnesshttp.UnavailableError
	err := tell(t.Context(), w, "h/a", 1)
	if !errors.As(err, &known) || known.Server != addr || !strings.Contains(err.Error(), addr+" refused the connection") || !errors.Is(err, memory.ErrWitnessMissing) {
		t.Fatal(err)
	}
	if errors.Is(err, audit.ErrWitness) {
		t.Fatal("what may pass ends a worker:", err)
	}
	if _, err := witnesshttp.Dial(t.Context(), s.URL, &witnesshttp.Options{Token: token}); !errors.As(err, &known) {
		t.Fatal("at the start:", err)
	}
	s.start(addr)
	must(t, tell(t.Context(), w, "h/a", 1))
}

func TestAnotherOrAnOlderFileBehindAServerIsFoundOut(t *testing.T) {
	copied := func(from, to string) {
		t.Helper()
		b, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(to, b, 0o600))
	}
	for name, c := range map[string]struct {
		back func(s *served, old string)
		want error
	}{
		"a shorter copy": {func(s *served, old string) { copied(old, s.path) }, audit.ErrWitnessOlder},
		"a shorter copy that has grown further since": {func(s *served, old string) {
			copied(old, s.path)
			w, err := audit.OpenWitness(s.path)
			must(s, err)
			for n := range uint64(9) {
				must(s, tell(s.Context(), w, "h/z", n+1))
			}
			must(s, w.Close())
		}, audit.ErrWitnessOlder},
		"an empty witness": {func(s *served, _ string) { copied(created(s), s.path) }, audit.ErrWitness},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			w := s.dial(token)
			must(t, tell(t.Context(), w, "h/a", 1))
			old := filepath.Join(t.TempDir(), "old")
			copied(s.path, old)
			must(t, tell(t.Context(), w, "h/b", 1))
			s.again(func() { c.back(s, old) })
			for range 2 { // and stays found out
				if err := tell(t.Context(), w, "h/c", 1); !errors.Is(err, c.want) || !errors.Is(err, audit.ErrWitness) {
					t.Fatal("append:", err)
				}
				if err := w.Ledger("acme", "").Acknowledged(t.Context(), func(memory.EntryKind, memory.Leaf) error { return nil }); !errors.Is(err, c.want) {
					t.Fatal("read:", err)
				}
			}
		})
	}
	t.Run("one that was made small while it was served is the same, and so is it when it is served again", func(t *testing.T) {
		s := serve(t)
		w := s.dial(token)
		other := s.dial(token)
		must(t, tell(t.Context(), other, "h/a", 1))
		for round := range uint64(4) {
			var many []memory.Leaf
			for i := range 4000 {
				many = append(many, witnesstest.Leaf("h/"+string(rune('A'+i%26))+strings.Repeat("x", i/26), round+1, 1))
			}
			must(t, w.Ledger("acme", "").Acknowledge(t.Context(), memory.EntryErase, many))
		}
		b, err := os.ReadFile(s.path)
		must(t, err)
		if !bytes.Contains(b[:bytes.IndexByte(b, '\n')], []byte(`"folded"`)) {
			t.Fatal("it was not made small")
		}
		must(t, tell(t.Context(), w, "h/b", 1))
		must(t, tell(t.Context(), other, "h/b", 1))
		s.again(func() {})
		must(t, tell(t.Context(), w, "h/c", 1))
		must(t, tell(t.Context(), other, "h/c", 1))
	})
	t.Run("one that was made small while nobody served it is the same", func(t *testing.T) {
		s := serve(t)
		w := s.dial(token)
		must(t, tell(t.Context(), w, "h/a", 1))
		s.again(func() {
			w, err := audit.OpenWitness(s.path)
			must(t, err)
			defer w.Close()
			var many []memory.Leaf
			for i := range 8000 {
				many = append(many, witnesstest.Leaf("h/"+string(rune('A'+i%26))+strings.Repeat("x", i/26), 1, 1))
			}
			must(t, w.Ledger("acme", "").Acknowledge(t.Context(), memory.EntryErase, many))
		})
		must(t, tell(t.Context(), w, "h/b", 1))
	})
}

func TestOneProgramServesAFile(t *testing.T) {
	s := serve(t)
	for name, open := range map[string]func() error{
		"to write": func() error { _, err := audit.OpenWitness(s.path); return err },
		"to serve": func() error { _, err := audit.ServeWitness(s.path); return err },
	} {
		if err := open(); !errors.Is(err, audit.ErrWitness) || !strings.Contains(err.Error(), "served") {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := s.dial(token)
	must(t, tell(t.Context(), w, "h/a", 1))
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString("half a line")
	must(t, errors.Join(err, f.Close()))
	for range 2 {
		if err := tell(t.Context(), w, "h/b", 1); !errors.Is(err, audit.ErrWitness) {
			t.Fatal("it was written from beside:", err)
		}
	}
}

// ask makes a request as no client of ours does.
func (s *served) ask(method, path string, change func(r *http.Request), body string) (int, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.URL+path, strings.NewReader(body))
	must(s, err)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	if change != nil {
		change(r)
	}
	resp, err := s.Client().Do(r)
	must(s, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(s, err)
	var fault struct {
		Code string `json:"error"`
	}
	_ = json.Unmarshal(b, &fault)
	return resp.StatusCode, fault.Code
}

func TestAServerRefusesWhatIsNotAQuestionOfItsClients(t *testing.T) {
	s := serve(t)
	w := s.dial(token)
	must(t, tell(t.Context(), w, "h/a", 5))
	const scope = `"scope":"00000000000000000000000000000000"`
	header := func(name, value string) func(r *http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, c := range map[string]struct {
		method, path string
		change       func(r *http.Request)
		body         string
		status       int
		code         string
	}{
		"no token":                               {"POST", "/v1/read", header("Authorization", ""), `{}`, 401, "token"},
		"a token that is empty":                  {"POST", "/v1/read", header("Authorization", "Bearer "), `{}`, 401, "token"},
		"another token":                          {"POST", "/v1/append", header("Authorization", "Bearer x"+token), `{}`, 401, "token"},
		"a token of another scheme":              {"POST", "/v1/append", header("Authorization", "Basic "+token), `{}`, 401, "token"},
		"a request for another witness":          {"POST", "/v1/read", header("Hearsay-Witness", strings.Repeat("0", 32)), `{}`, 409, "another_witness"},
		"a form of a web page":                   {"POST", "/v1/read", header("Content-Type", "text/plain"), `{}`, 415, "invalid"},
		"a page of another site":                 {"POST", "/v1/read", header("Origin", "https://evil.example"), `{}`, 403, ""},
		"another host name":                      {"POST", "/v1/read", func(r *http.Request) { r.Host = "evil.example" }, `{}`, 403, ""},
		"a method that reads":                    {"GET", "/v1/read", nil, ``, 405, ""},
		"a method that takes away":               {"DELETE", "/v1/append", nil, ``, 405, ""},
		"no JSON":                                {"POST", "/v1/read", nil, `nothing`, 400, "invalid"},
		"a field that nobody knows":              {"POST", "/v1/read", nil, `{"truncate":1}`, 400, "invalid"},
		"something after the question":           {"POST", "/v1/read", nil, `{}{}`, 400, "invalid"},
		"a change of no scope":                   {"POST", "/v1/append", nil, `{"acknowledge":[]}`, 400, "invalid"},
		"a change that is none":                  {"POST", "/v1/append", nil, `{` + scope + `}`, 400, "invalid"},
		"an entry without a key":                 {"POST", "/v1/append", nil, `{` + scope + `,"acknowledge":[{"revision":1}]}`, 400, "invalid"},
		"a settlement without that token":        {"POST", "/v1/append", nil, `{` + scope + `,"settle":{"lost":{"key":"aA==","revision":1,"mac":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","kind":"x"},"again":{"key":"aA==","revision":1,"mac":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","kind":"x"}}}`, 403, "recovery_token"},
		"an older copy without that token":       {"POST", "/v1/append", nil, `{` + scope + `,"accept":true,"checkpoint":{}}`, 403, "recovery_token"},
		"a checkpoint whose tree is not its own": {"POST", "/v1/append", nil, `{` + scope + `,"checkpoint":{"origin":"x/00000000000000000000000000000000","index":1,"size":1,"root":"AA==","tree":["AQ=="]}}`, 400, "invalid"},
		"a checkpoint with more tree than size":  {"POST", "/v1/append", nil, `{` + scope + `,"checkpoint":{"origin":"x","index":1,"size":0,"root":"AA==","tree":["AQ=="]}}`, 400, "invalid"},
		"a body that has no end":                 {"POST", "/v1/append", nil, `{"after":"` + strings.Repeat("x", 5<<20) + `"}`, 413, "too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			if status, code := s.ask(c.method, c.path, c.change, c.body); status != c.status || code != c.code {
				t.Fatalf("%d %q, want %d %q", status, code, c.status, c.code)
			}
		})
	}
	must(t, tell(t.Context(), w, "h/a", 4)) // came late
	if got := s.kept(); len(got) != 1 || got[0].Revision != 5 {
		t.Fatal("something was taken away:", got)
	}
	if text := s.log.String(); text == "" || strings.Contains(text, token) || strings.Contains(text, recovery) {
		t.Fatal("the log:", text)
	}
}

func TestAClientGoesNowhereElse(t *testing.T) {
	s := serve(t)
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	for name, c := range map[string]struct {
		front func(next http.Handler, w http.ResponseWriter, r *http.Request)
		token string
		say   string
	}{
		"a redirect is not followed": {front: func(_ http.Handler, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, say: "redirect"},
		"a page of something else is no answer": {front: func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>secret of the server</html>")
		}, say: "as a witness does"},
		"an answer without end is none": {front: func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Hearsay-Witness", strings.Repeat("1", 32))
			_, _ = w.Write(bytes.Repeat([]byte(" "), 9<<20))
		}, say: "as a witness does"},
		"a server in front that fails": {front: func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
		}, say: "status 502"},
		"another token": {token: strings.Repeat("wrong", 10), say: "HEARSAY_WITNESS_TOKEN"},
	} {
		t.Run(name, func(t *testing.T) {
			s.front.Store(nil)
			if c.front != nil {
				s.before(c.front)
			}
			o := &witnesshttp.Options{Token: c.token}
			if c.token == "" {
				o.Token = token
			}
			_, err := witnesshttp.Dial(t.Context(), s.URL, o)
			if !errors.Is(err, witnesshttp.ErrUnavailable) || !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), o.Token) {
				t.Fatal(err)
			}
		})
	}
	if elsewhere > 0 {
		t.Fatal("it went there")
	}
	for name, where := range map[string]string{
		"plain text to another machine":  "http://witness.example:80",
		"a password":                     "https://me:hidden@127.0.0.1:1",
		"a path":                         "https://127.0.0.1:1/deep",
		"no host":                        "http://",
		"another scheme":                 "ftp://127.0.0.1",
		"a name that begins like a host": "http://localhost.evil.example",
	} {
		if _, err := witnesshttp.Dial(t.Context(), where, &witnesshttp.Options{Token: token}); !errors.Is(err, memory.ErrInvalid) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := witnesshttp.Dial(t.Context(), s.URL, nil); !errors.Is(err, witnesshttp.ErrToken) {
		t.Error("no token:", err)
	}
}

func TestWhoeverRecoversHasATokenOfItsOwn(t *testing.T) {
	s := serve(t)
	plain, high := s.dial(token), s.dial(recovery)
	lost, again := witnesstest.Leaf("h/a", 5, 1), witnesstest.Leaf("h/a", 2, 2)
	must(t, tell(t.Context(), plain, "h/a", 5))
	if err := plain.Ledger("acme", "").Settle(t.Context(), memory.EntryTransition, lost, again); !errors.Is(err, witnesshttp.ErrRecovery) {
		t.Fatal(err)
	}
	must(t, high.Ledger("acme", "").Settle(t.Context(), memory.EntryTransition, lost, again))
	if got := s.kept(); len(got) != 1 || got[0] != again {
		t.Fatal(got)
	}
	for name, o := range map[string]witnesshttp.ServerOptions{
		"no token":                {},
		"a short one":             {Token: "short"},
		"one with a blank":        {Token: token + " " + token},
		"one token for both":      {Token: token, RecoveryToken: token},
		"a short one of recovery": {Token: token, RecoveryToken: "short"},
	} {
		if _, err := witnesshttp.NewServer(s.file, o); !errors.Is(err, witnesshttp.ErrToken) || strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOverTLSTheServerIsWhoItsAuthoritySays(t *testing.T) {
	path := created(t)
	file, err := audit.ServeWitness(path)
	must(t, err)
	defer file.Close()
	h, err := witnesshttp.NewServer(file, witnesshttp.ServerOptions{Token: token, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	borrowed := httptest.NewTLSServer(nil) // for its certificate, which is for 127.0.0.1
	borrowed.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(ctx, l, &tls.Config{Certificates: borrowed.TLS.Certificates}) }()
	roots := x509.NewCertPool()
	roots.AddCert(borrowed.Certificate())
	server := "https://" + l.Addr().String()
	w, err := witnesshttp.Dial(t.Context(), server, &witnesshttp.Options{Token: token, Roots: roots})
	must(t, err)
	must(t, tell(t.Context(), w, "h/a", 1))
	must(t, w.Close())
	for name, c := range map[string]struct{ server, say string }{
		"an authority that nobody knows": {server, "signed by nobody"},
		"plain text to it":               {"http://" + l.Addr().String(), "as a witness does"},
	} {
		_, err := witnesshttp.Dial(t.Context(), c.server, &witnesshttp.Options{Token: token})
		if !errors.Is(err, witnesshttp.ErrUnavailable) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cancel()
	must(t, <-ended)
}

func TestOptionsComeFromTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	own, open := file("own", token+"\n", 0o600), file("open", token, 0o644)
	for name, c := range map[string]struct {
		env  map[string]string
		want error
	}{
		"nothing":                        {nil, nil},
		"a token":                        {map[string]string{"HEARSAY_WITNESS_TOKEN": token}, nil},
		"a file":                         {map[string]string{"HEARSAY_WITNESS_TOKEN_FILE": own}, nil},
		"both":                           {map[string]string{"HEARSAY_WITNESS_TOKEN": token, "HEARSAY_WITNESS_TOKEN_FILE": own}, witnesshttp.ErrToken},
		"a file that others can read":    {map[string]string{"HEARSAY_WITNESS_TOKEN_FILE": open}, witnesshttp.ErrToken},
		"a file that is not there":       {map[string]string{"HEARSAY_WITNESS_TOKEN_FILE": own + ".none"}, witnesshttp.ErrToken},
		"an authority that is none":      {map[string]string{"HEARSAY_WITNESS_CA": own}, memory.ErrInvalid},
		"an authority that is not there": {map[string]string{"HEARSAY_WITNESS_CA": own + ".none"}, memory.ErrInvalid},
	} {
		o, err := witnesshttp.Environment(func(name string) string { return c.env[name] })
		if !errors.Is(err, c.want) || err != nil && strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && c.env != nil && o.Token != token {
			t.Errorf("%s: no token", name)
		}
	}
	path := created(t)
	w, err := witnesshttp.Open(t.Context(), path, os.Getenv)
	must(t, err)
	must(t, w.Close())
	if !witnesshttp.IsURL("HTTPS://x") || witnesshttp.IsURL(path) || witnesshttp.IsURL("http:/file") {
		t.Error("what is a URL")
	}
}
