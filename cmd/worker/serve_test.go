package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

func TestTheHTTPServerAnswersNoPageOfAnotherSite(t *testing.T) {
	asked := 0
	m := newMeters()
	server := httptest.NewServer(handler(m, func(context.Context) []check { asked++; return []check{{Name: "store", OK: true}} }, "worker.internal"))
	defer server.Close()
	for name, c := range map[string]struct {
		host, header, value string
		status              int
	}{
		"this machine":                     {status: http.StatusOK},
		"a name that was configured":       {host: "worker.internal:8787", status: http.StatusOK},
		"a name that was pointed here":     {host: "evil.example", status: http.StatusForbidden},
		"a page of another site":           {header: "Origin", value: "https://evil.example", status: http.StatusForbidden},
		"a page of no site":                {header: "Origin", value: "null", status: http.StatusForbidden},
		"a browser that says another site": {header: "Sec-Fetch-Site", value: "cross-site", status: http.StatusForbidden},
	} {
		for _, path := range []string{"/healthz", "/readyz", "/metrics", "/debug/pprof/"} {
			t.Run(path+" for "+name, func(t *testing.T) {
				asked = 0
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Host = c.host
				if c.header != "" {
					r.Header.Set(c.header, c.value)
				}
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				want := c.status
				if want == http.StatusOK && strings.HasPrefix(path, "/debug") {
					want = http.StatusNotFound
				}
				if resp.StatusCode != want || want == http.StatusForbidden && asked > 0 {
					t.Fatalf("status %d, want %d; checks ran %d times", resp.StatusCode, want, asked)
				}
			})
		}
	}
}

func TestWhatOthersSayIsEscapedInReadyzAndLogs(t *testing.T) {
	const hostile = "x\u009b2J\u202e\x1b]0;y"
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://localhost/readyz", nil)
	handler(newMeters(), func(context.Context) []check { return []check{{Name: "store", Detail: hostile}} }).ServeHTTP(w, r)
	var talk bytes.Buffer
	for _, format := range []string{"json", "text"} {
		logger(&config{logFormat: format}, &talk).Warn("asked", slog.String("err", hostile))
	}
	for where, text := range map[string]string{"readyz": w.Body.String(), "the log": talk.String()} {
		for _, c := range text {
			if c != '\n' && (unicode.IsControl(c) || unicode.Is(unicode.Cf, c)) {
				t.Errorf("%U in %s: %q", c, where, text)
			}
		}
	}
}

func TestAWorkerMakesNoKeyringInThePlaceOfOneThatIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.db")
	s := openStore(t, path)
	put(t, s, "acme", "a@b.example")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".keys", path+".gone"); err != nil {
		t.Fatal(err)
	}
	d := launch(t, nil, "-store", "sqlite:"+path, "-queues", "other=1,=1")
	if code := d.end(); code != exitFailed || !strings.Contains(d.log(), "other keys") {
		t.Errorf("exit %d\n%s", code, d.log())
	}
	if _, err := os.Stat(path + ".keys"); err == nil {
		t.Error("a keyring was made")
	}
}

func TestAWorkerOfAStoreThatHadAWitnessDoesNotStartWithoutIt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.db")
	w, err := audit.CreateWitness(filepath.Join(dir, "witness"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s, err := storeurl.Open(t.Context(), "sqlite:"+path, &storeurl.Options{Options: memory.Options{Witness: w.Ledger("default", "")}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := &config{store: "sqlite:" + path, tenant: "default", shares: []share{{weight: 1}}}
	refused := func(c *config, w *audit.Witness, say string) {
		t.Helper()
		stores, d, err := open(t.Context(), c, w, slog.New(slog.DiscardHandler))
		if err == nil {
			d.Close()
			t.Fatal("it starts", len(stores))
		}
		if !strings.Contains(err.Error(), say) {
			t.Fatal(err)
		}
	}
	refused(c, nil, "-witness")
	_, d, err := open(t.Context(), c, w, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	if got := witnessCheck(t.Context(), s); !got.OK || got.Detail != "at hand" {
		t.Fatalf("%+v", got)
	}
	ring, err := keyring.Open(path+".keys", nil)
	if err != nil {
		t.Fatal(err)
	}
	below, err := storeurl.Driver(t.Context(), "sqlite:"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	without, err := memory.New(below, ring, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer without.Close()
	if got := witnessCheck(t.Context(), without); got.OK || !strings.Contains(got.Detail, "give-up") {
		t.Fatalf("%+v", got)
	}
	if err := without.GiveUpWitness(t.Context(), w.Identity(), "op", "its disk burnt"); err != nil {
		t.Fatal(err)
	}
	if _, d, err = open(t.Context(), c, nil, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal("after it was given up it does not start:", err)
	}
	d.Close()
	strict := *c
	strict.strict = true
	refused(&strict, nil, "-strict: the store has had a witness")
}
