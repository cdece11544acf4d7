package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// An agent in another process labels what it writes while the verifier is down, and no
// more once it is up again, or the worker has gone (SR-2.2).
func TestAgentsAreToldThatAVerifierIsDown(t *testing.T) {
	t.Parallel()
	env, _ := withRedis(t)
	o := newOffice(t)
	o.down.Store(true)
	path := filepath.Join(t.TempDir(), "agent.db")
	d := start(t, env, "-store", "sqlite:"+path, "-budget", "0", "-sweep-every", "200ms", "-leave-alone", "1s", "-publish-every", "200ms",
		"-verifier-http", "crm="+o.URL+"/fact,predicate=billing.email")
	s := openStore(t, path)
	g, err := gate.New(s, gate.Policy{Name: "t", Version: "1", Declared: true}, &gate.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New("billing", agent.Model{ID: "sonnet", Family: "claude"}, s, g, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	note := func(predicate string) memory.State {
		t.Helper()
		n++
		r, err := a.Start("ana").Remember(t.Context(), agent.Note{Content: memory.Content{Subject: "acme", Predicate: predicate, Object: "v" + string(rune('a'+n%26)) + string(rune('a'+n/26%26))}})
		if err != nil {
			t.Fatal(err)
		}
		return r.State
	}
	for _, object := range []string{"a", "b", "c", "d"} {
		put(t, s, "acme", object)
	}
	down := func() bool {
		is, err := s.VerifiersDown(t.Context(), memory.Content{Subject: "acme", Predicate: "billing.email", Object: "x", Cardinality: memory.CardinalityFunctional})
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	// What the worker says ends by itself when the worker stalls, so one look is not enough.
	eventually(t, "what an agent writes while the verifier is down is labelled", func() bool {
		return note("billing.email") == memory.StateUnavailableAtWriteTime
	})
	if is := note("phone"); is != memory.StateUnverified {
		t.Errorf("nobody can be asked about it, and it is %s", is)
	}
	o.down.Store(false)
	eventually(t, "the worker finds that it is up", func() bool {
		_, body := d.get("/metrics")
		return strings.Contains(body, `hearsay_verifier_up{verifier="crm"} 1`)
	})
	eventually(t, "what an agent writes is labelled no more", func() bool { return note("billing.email") == memory.StateUnverified })
	o.down.Store(true)
	for _, object := range []string{"e", "f", "g", "h"} {
		put(t, s, "acme", object)
	}
	eventually(t, "the store says that it is down again", down)
	if err := d.cmd.Process.Signal(syscall.SIGKILL); err != nil { // it takes nothing back
		t.Fatal(err)
	}
	d.end()
	eventually(t, "what a worker said that has died is not known", func() bool { return !down() })
}
