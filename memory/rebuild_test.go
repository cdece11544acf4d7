package memory_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// TestARebuildStopsAtALogThatEndsEarly cuts the last entry of each log, and all of it, in turn. A
// rebuild from what is left would forget what the entry said against a row.
func TestARebuildStopsAtALogThatEndsEarly(t *testing.T) {
	tried := map[string]int{}
	for n, count := 0, 1; n < 2*count; n++ {
		e := newErasable(t, 2)
		e.furnish(t)
		openHold(t, e.Store, e.eve[0])
		_, revision, err := e.Revocations(t.Context())
		if err == nil {
			err = e.Revoke(t.Context(), memory.Revocation{Kind: memory.RevokedSource, Name: "web", Since: e.Now().Add(-time.Hour), By: "ops", Reason: "it lied"}, revision)
		}
		if err != nil {
			t.Fatal(err)
		}
		logs := e.logs()
		count = len(logs)
		key := logs[n%count]
		entries := e.stored(key)
		first := 0 // of those that are cut
		if n < count {
			first = len(entries) - 1
		}
		var gone []memory.LogEntry
		for _, l := range entries[first:] {
			gone = append(gone, memory.LogEntry{Revision: l.Revision})
		}
		if err := storetest.Rewrite(t.Context(), e.driver, e.Tenant(), key, gone); err != nil {
			t.Fatal(err)
		}
		name := memory.KeyText(key)
		before := e.objects(t)
		var tamper *memory.TamperError
		if _, err := e.another().Rebuild(t.Context(), "operator", nil); !errors.As(err, &tamper) || tamper.Key != key {
			t.Errorf("%s: cut from entry %d of %d: %v", name, first+1, len(entries), err)
		}
		if after := e.objects(t); !reflect.DeepEqual(before, after) {
			t.Errorf("%s: the rebuild wrote", name)
		}
		kind, _, _ := strings.Cut(name, "/")
		tried[kind]++
	}
	t.Log(tried)
	for _, kind := range strings.Fields("decision echo erasure head hold ledger note system") {
		if tried[kind] < 2 {
			t.Errorf("no %s was tried", kind)
		}
	}
}

// objects are all objects as they are stored.
func (e *erasable) objects(t *testing.T) map[string]memory.Object {
	t.Helper()
	all := map[string]memory.Object{}
	for o, err := range e.driver.Objects(t.Context(), e.Tenant(), "") {
		if err != nil {
			t.Fatal(err)
		}
		all[o.Key] = o.Object
	}
	return all
}

// TestARebuildMakesADamagedMarkAgain: of a call that waits, of one whose end is not known, and of one
// that is over and needs none.
func TestARebuildMakesADamagedMarkAgain(t *testing.T) {
	for name, outcome := range map[string]memory.CallOutcome{"waiting": 0, "unknown": memory.CallUnknown, "done": memory.CallDone} {
		e := newErasable(t, 2)
		slot := memory.Digest{7}
		if name == "waiting" {
			openHold(t, e.Store, e.eve[0])
		} else {
			at, err := e.Standing(t.Context(), slot)
			if err != nil {
				t.Fatal(err)
			}
			r := memory.DecisionRecord{Epoch: 1, ID: e.NewDecisionID(), Tool: "send", Run: "r", Fired: true, Data: []byte(`{}`), Call: &memory.CallStep{Slot: slot, Seen: at.Revision, Track: true}}
			err = e.Record(t.Context(), r)
			if err == nil {
				err = e.RecordOutcome(t.Context(), r.ID, outcome, "")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		want, err := e.another().Standing(t.Context(), slot)
		if err != nil {
			t.Fatal(err)
		}
		marks := 0
		for key := range e.objects(t) {
			if strings.HasPrefix(memory.KeyText(key), "call/") {
				spoil(t, e.driver, key, flip)
				marks++
			}
		}
		if _, err := e.another().Standing(t.Context(), slot); marks == 0 || !errors.Is(err, memory.ErrDamaged) {
			t.Fatalf("%s: %d marks, %v", name, marks, err)
		}
		if _, err := e.another().Rebuild(t.Context(), "operator", nil); err != nil {
			t.Fatal(err)
		}
		got, err := e.another().Standing(t.Context(), slot)
		got.Revision, want.Revision = 0, 0
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: after the rebuild %+v, %v, before %+v", name, got, err, want)
		}
	}
}
