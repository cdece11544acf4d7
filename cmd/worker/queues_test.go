package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

// TestABusyNamespaceDoesNotStarveAnother floods one of two namespaces that a worker
// serves before the other has a row: the other's rows are all asked about while most of the
// flood still waits. No question is answered before all rows of the other wait. Each has series, checks and signed checkpoints of its own, and a
// third namespace of the same store is left alone.
func TestABusyNamespaceDoesNotStarveAnother(t *testing.T) {
	t.Parallel()
	const flood, few = 200, 8
	var mu sync.Mutex
	asked, subjects := map[string]int{}, map[string]bool{}
	busy := 0 // questions about the busy namespace, at the last new one about the quiet one
	open := make(chan struct{})
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		subject := r.URL.Query().Get("subject")
		name, _, _ := strings.Cut(subject, " ")
		takes := 50 * time.Millisecond // so that rows are taken one at a time
		mu.Lock()
		asked[name]++
		switch {
		case name == "busy":
			takes = time.Second // so that a machine that stalls is far from the end of the flood
		case !subjects[subject]:
			subjects[subject], busy = true, asked["busy"]
		}
		mu.Unlock()
		select {
		case <-open:
			time.Sleep(takes)
		case <-r.Context().Done():
		}
		io.WriteString(w, `{"found":true,"value":"`+right+`"}`)
	}))
	t.Cleanup(crm.Close)
	questions := func(of string) int {
		mu.Lock()
		defer mu.Unlock()
		return asked[of]
	}

	path := filepath.Join(t.TempDir(), "agent.db")
	stores := map[string]*memory.Store{}
	for _, name := range []string{"busy", "quiet", "other"} {
		s, err := storeurl.Open(t.Context(), "sqlite:"+path, &storeurl.Options{Options: memory.Options{Namespace: name}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		stores[name] = s
	}
	for i := range flood {
		put(t, stores["busy"], fmt.Sprint("busy ", i), right)
	}
	elsewhere := put(t, stores["other"], "other", right)

	env, _ := withRedis(t)
	witness := newWitness(t)
	file, key := signer(t)
	d := start(t, env, "-store", "sqlite:"+path, "-queues", "busy=3,quiet=1", "-budget", "0", "-sweep-every", "200ms", "-concurrency", "2",
		"-checkpoint-key", file, "-checkpoint-every", "200ms", "-witness", witness, "-verifier-http", "crm="+crm.URL+",predicate=billing.email,timeout=5m")
	for _, want := range []string{"namespace=busy weight=3", "namespace=quiet weight=1"} {
		d.wait(want)
	}
	eventually(t, "the flood has both places", func() bool { return questions("busy") >= 2 })
	var quiet []memory.ID
	for i := range few {
		quiet = append(quiet, put(t, stores["quiet"], fmt.Sprint("quiet ", i), right))
	}
	lie := put(t, stores["quiet"], "quiet lie", wrong)
	close(open)
	eventually(t, "the rows of the quiet namespace are verified", func() bool {
		rows, err := stores["quiet"].Get(t.Context(), quiet...)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.State() != memory.StateVerified {
				return false
			}
		}
		return true
	})
	eventually(t, "a wrong row of it is contradicted", func() bool { return get(t, stores["quiet"], lie).Truth == memory.TruthContradicted })
	mu.Lock()
	t.Logf("%d of %d rows of the flood were asked about before the last of %d", busy, flood, few)
	if busy > flood*3/4 {
		t.Errorf("the quiet namespace waited for %d of %d rows of the other", busy, flood)
	}
	mu.Unlock()

	eventually(t, "each namespace has its series", func() bool {
		_, body := d.get("/metrics")
		for _, want := range []string{`hearsay_rows_due{namespace="busy",state="due"}`, `hearsay_queue_processes{verifier="crm"} 1`,
			fmt.Sprintf(`hearsay_promotion_checks_total{namespace="quiet",result="promoted"} %d`, few), `hearsay_rows{namespace="busy",state="verified"}`,
			`hearsay_checkpoint_index{namespace="busy"}`, `hearsay_verifier_up{verifier="crm"} 1`} {
			if !strings.Contains(body, want) {
				return false
			}
		}
		return true
	})
	var body string
	eventually(t, "it is ready", func() bool {
		status := 0
		status, body = d.get("/readyz")
		return status == http.StatusOK
	})
	for _, name := range []string{"busy", "quiet"} {
		for _, of := range []string{"store", "schema", "checkpoints"} {
			if want := fmt.Sprintf(`"name": "%s of namespace %s"`, of, name); !strings.Contains(body, want) {
				t.Errorf("/readyz has no %s: %s", want, body)
			}
		}
	}
	if code := d.stop(); code != exitDone {
		t.Errorf("exit %d\n%s", code, d.log())
	}
	for _, name := range []string{"busy", "quiet"} {
		if report, err := verified(t, stores[name], key, witness); err != nil || report.Checkpoints == 0 || report.Witnessed == 0 {
			t.Errorf("%s: %+v %v", name, report, err)
		}
	}
	w, err := audit.ReadWitness(witness)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for name, want := range map[string]int{"busy": 0, "quiet": 1, "": 0} {
		n := 0
		if err := w.Ledger("", name).Acknowledged(t.Context(), func(memory.EntryKind, memory.Leaf) error { n++; return nil }); err != nil || n != want {
			t.Errorf("the witness saw %d demotions of namespace %q, want %d: %v", n, name, want, err)
		}
	}
	if row := get(t, stores["other"], elsewhere); row.Revision != 1 || row.State() != memory.StateUnverified || questions("other") > 0 {
		t.Errorf("a row of a namespace that is not served is %s at revision %d", row.State(), row.Revision)
	}
}

// TestOneNamespaceThatCannotBeSignedEndsTheWorker: the audit of each is what its rows'
// states rest on, and the worker's log says which.
func TestOneNamespaceThatCannotBeSignedEndsTheWorker(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.db")
	openStore(t, path)
	s, err := storeurl.Open(t.Context(), "sqlite:"+path, &storeurl.Options{Options: memory.Options{Namespace: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, s, "acme", right)
	file, _ := signer(t)
	args := []string{"-store", "sqlite:" + path, "-checkpoint-key", file, "-checkpoint-every", "200ms"}
	temp := []string{"TMPDIR=" + shortDir(t)}
	d := start(t, temp, append(args, "-namespace", "b")...)
	d.wait("msg=checkpoint index=1")
	d.stop()
	d = launch(t, temp, append(args, "-queues", "a=1,b=1", "-checkpoint-origin", "another.example")...)
	if code := d.end(); code != exitFailed || !strings.Contains(d.log(), "the origin is") || !strings.Contains(d.log(), "namespace=b") {
		t.Errorf("exit %d\n%s", code, d.log())
	}
}
