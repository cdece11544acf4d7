package main

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/audit/witnesshttp"
)

// TestAWorkerReachesItsWitnessThroughAServer: a server that is away for a while ends no
// worker, and is shown what was signed meanwhile once it is back.
func TestAWorkerReachesItsWitnessThroughAServer(t *testing.T) {
	t.Parallel()
	const token = "the-token-that-every-machine-has-0123456789"
	path, witness := filepath.Join(t.TempDir(), "agent.db"), newWitness(t)
	serve := func(addr string) (url string, stop func()) {
		t.Helper()
		w, err := audit.ServeWitness(witness)
		if err != nil {
			t.Fatal(err)
		}
		h, err := witnesshttp.NewServer(w, witnesshttp.ServerOptions{Token: token, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h.Handler()}}
		s.Start()
		stop = func() { s.Close(); _ = w.Close() }
		t.Cleanup(stop)
		return s.URL, stop
	}
	file, key := signer(t)
	s := openStore(t, path)
	put(t, s, "acme", right)
	url, stop := serve("127.0.0.1:0")
	env := []string{"TMPDIR=" + shortDir(t), "HEARSAY_WITNESS=" + url, "HEARSAY_WITNESS_TOKEN=" + token}
	args := []string{"-store", "sqlite:" + path, "-checkpoint-key", file, "-checkpoint-every", "100ms"}
	d := start(t, env, args...)
	eventually(t, "the first look is signed", func() bool { return d.metric("hearsay_checkpoint_index") == 1 })
	stop()
	d.wait("refused the connection")
	other := launch(t, env, args...)
	if code := other.end(); code != exitFailed || !strings.Contains(other.log(), "refused the connection") {
		t.Fatalf("without the server one starts: exit %d\n%s", code, other.log())
	}
	put(t, s, "other", right)
	serve(strings.TrimPrefix(url, "http://"))
	eventually(t, "the next one is signed", func() bool { return d.metric("hearsay_checkpoint_index") == 2 })
	if code := d.stop(); code != exitDone || strings.Contains(d.log(), token) {
		t.Fatalf("exit %d\n%s", code, d.log())
	}
	if report, err := verified(t, s, key, witness); err != nil || report.Witnessed != 2 {
		t.Errorf("%+v %v", report, err)
	}
}
