package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func TestWhatIsWrittenWhileEveryVerifierIsDownSaysSo(t *testing.T) {
	down := func(name string, predicates ...string) memory.VerifierState {
		return memory.VerifierState{Name: name, Predicates: predicates, Down: true}
	}
	up := func(name string, predicates ...string) memory.VerifierState {
		return memory.VerifierState{Name: name, Predicates: predicates}
	}
	email := says("acme", "billing.email", "pay@acme.example")
	type word struct {
		worker string
		of     []memory.VerifierState
	}
	for _, tc := range []struct {
		name    string
		said    []word
		later   time.Duration
		content memory.Content
		want    memory.State
	}{
		{"nobody said anything", nil, 0, email, memory.StateUnverified},
		{"its verifier is down", []word{{"a", []memory.VerifierState{down("crm", "billing.email")}}}, 0, email, memory.StateUnavailableAtWriteTime},
		{"one of everything is down", []word{{"a", []memory.VerifierState{down("crm")}}}, 0, email, memory.StateUnavailableAtWriteTime},
		{"the predicate is spelled otherwise", []word{{"a", []memory.VerifierState{down("crm", " billing.email")}}}, 0, email, memory.StateUnavailableAtWriteTime},
		{"its verifier is up", []word{{"a", []memory.VerifierState{up("crm", "billing.email"), down("hr", "salary")}}}, 0, email, memory.StateUnverified},
		{"another one is up", []word{{"a", []memory.VerifierState{down("crm"), up("erp")}}}, 0, email, memory.StateUnverified},
		{"nobody can be asked about it", []word{{"a", []memory.VerifierState{down("hr", "salary")}}}, 0, email, memory.StateUnverified},
		{"free text", []word{{"a", []memory.VerifierState{down("crm")}}}, 0, memory.Content{Text: "Acme pays.", Cardinality: memory.CardinalityUnknown}, memory.StateUnverified},
		{"the lease has ended", []word{{"a", []memory.VerifierState{down("crm")}}}, 30 * time.Second, email, memory.StateUnverified},
		{"the lease ends soon", []word{{"a", []memory.VerifierState{down("crm")}}}, 30*time.Second - time.Microsecond, email, memory.StateUnavailableAtWriteTime},
		{"a model is up", []word{{"a", []memory.VerifierState{down("crm"), {Name: "model", Advisory: true}}}}, 0, email, memory.StateUnavailableAtWriteTime},
		{"a model is down", []word{{"a", []memory.VerifierState{{Name: "model", Advisory: true, Down: true}}}}, 0, email, memory.StateUnverified},
		{"another worker reaches it", []word{{"a", []memory.VerifierState{down("crm")}}, {"b", []memory.VerifierState{up("crm")}}}, 0, email, memory.StateUnverified},
		{"two workers do not", []word{{"a", []memory.VerifierState{down("crm")}}, {"b", []memory.VerifierState{down("crm")}}}, 0, email, memory.StateUnavailableAtWriteTime},
		{"it was said that it is up again", []word{{"a", []memory.VerifierState{down("crm")}}, {"a", []memory.VerifierState{up("crm")}}}, 0, email, memory.StateUnverified},
		{"it was taken back", []word{{"a", []memory.VerifierState{down("crm")}}, {"a", nil}}, 0, email, memory.StateUnverified},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			for _, w := range tc.said {
				lease := 30 * time.Second
				if w.of == nil {
					lease = 0
				}
				if err := b.PublishVerifiers(t.Context(), w.worker, lease, w.of); err != nil {
					t.Fatal(err)
				}
			}
			b.pass(tc.later)
			d := modelDraft(tc.content)
			d.LabelOutage = true
			if r := b.put(d); r.State != tc.want {
				t.Errorf("%s, want %s", r.State, tc.want)
			}
			if is, err := b.VerifiersDown(t.Context(), tc.content); err != nil || is != (tc.want == memory.StateUnavailableAtWriteTime) {
				t.Errorf("down %t, %v", is, err)
			}
			if v, err := b.VerifyAll(t.Context(), memory.Verifying{}); err != nil || v.Found != 0 {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// The label is a label: nothing else of a row, and no row that did not ask for it, goes by
// what a worker says.
func TestAnOutageChoosesTheLabelAndNothingElse(t *testing.T) {
	b := newBench(t)
	if err := b.PublishVerifiers(t.Context(), "a", time.Minute, []memory.VerifierState{{Name: "crm", Down: true}}); err != nil {
		t.Fatal(err)
	}
	for _, d := range []memory.Draft{modelDraft(says("acme", "owner", "Ada")), toolDraft(says("acme", "phone", "1"), "crm")} {
		if r := b.put(d); r.State == memory.StateUnavailableAtWriteTime {
			t.Errorf("%+v", r)
		}
	}
	labelled := toolDraft(says("acme", "city", "Oslo"), "crm")
	labelled.LabelOutage = true
	if r := b.put(labelled); r.State != memory.StateVerified {
		t.Error(r.State)
	}
	d := modelDraft(says("acme", "editor", "vim"))
	d.LabelOutage = true
	down := b.put(d)
	d.Content.Subject, d.LabelOutage = "initech", false
	other := b.put(d)
	if a, b := b.head(down.ID), b.head(other.ID); a.Outage != memory.OutageRecorded || a.Truth != b.Truth || a.Retrieval != b.Retrieval || a.Security != b.Security || a.Flags != b.Flags {
		t.Errorf("%+v\n%+v", a, b)
	}
	x, _, err := b.DueMark(t.Context(), down.ID)
	y, _, err2 := b.DueMark(t.Context(), other.ID)
	if err != nil || err2 != nil || !x.At.Equal(y.At) {
		t.Errorf("due at %s and %s, %v %v", x.At, y.At, err, err2)
	}
}

// What is not what a worker wrote, or is gone, is not known, and stops neither a write nor
// the gate.
func TestAnOutageThatCannotBeReadIsNotKnown(t *testing.T) {
	for _, how := range []string{"damaged", "gone", "put back"} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t)
			publish := func(down bool) {
				t.Helper()
				if err := b.PublishVerifiers(t.Context(), "a", time.Hour, []memory.VerifierState{{Name: "crm", Down: down}}); err != nil {
					t.Fatal(err)
				}
			}
			publish(true)
			var o memory.Restored
			for found, err := range b.driver.Objects(t.Context(), b.Tenant(), "j/") {
				if err != nil {
					t.Fatal(err)
				}
				o = found
			}
			if o.Revision == 0 {
				t.Fatal("it is nowhere")
			}
			want := memory.StateUnverified
			switch how {
			case "damaged":
				o.Data[3] ^= 1
			case "gone":
				o.Revision, o.Data = 0, nil
			case "put back": // it counts until its lease ends
				publish(false)
				want = memory.StateUnavailableAtWriteTime
			}
			if err := b.driver.Restore(t.Context(), b.Tenant(), []memory.Restored{o}); err != nil {
				t.Fatal(err)
			}
			b.pass(time.Minute)
			d := modelDraft(says("acme", "editor", fmt.Sprint(how)))
			d.LabelOutage = true
			if r := b.put(d); r.State != want {
				t.Errorf("%s, want %s", r.State, want)
			}
			if _, err := b.Fitness(t.Context(), []memory.ID{b.put(d).ID}); err != nil {
				t.Error(err)
			}
			if how == "damaged" {
				publish(true) // it is made anew
				if is, err := b.VerifiersDown(t.Context(), d.Content); err != nil || !is {
					t.Error(is, err)
				}
			}
		})
	}
}

// tripping counts the round trips of a store.
type tripping struct {
	memory.Driver
	trips int
}

func (c *tripping) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	c.trips++
	return c.Driver.Get(ctx, tenant, keys)
}

func (c *tripping) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	c.trips++
	return c.Driver.Apply(ctx, tenant, b)
}

// A writer learns of an outage with what it reads anyway.
func TestAWriterReadsOfOutagesWithoutATripOfTheirOwn(t *testing.T) {
	d := &tripping{Driver: storetest.NewMap()}
	s := storetest.On(d, nil)
	trips := func(draft memory.Draft) int {
		t.Helper()
		was := d.trips
		if _, err := s.Put(t.Context(), draft); err != nil {
			t.Fatal(err)
		}
		return d.trips - was
	}
	labelled := func(d memory.Draft) memory.Draft {
		d.LabelOutage = true
		return d
	}
	from, err := s.Put(t.Context(), modelDraft(says("mail", "says", "hello")))
	if err != nil {
		t.Fatal(err)
	}
	trips(modelDraft(says("acme", "editor", "ed"), from.ID)) // the class is known from here on
	plain := trips(modelDraft(says("acme", "editor", "vim"), from.ID))
	if n := trips(labelled(modelDraft(says("acme", "editor", "emacs"), from.ID))); n != plain {
		t.Errorf("%d trips, and %d without", n, plain)
	}
	trips(modelDraft(says("acme", "phone", "0")))
	plain = trips(modelDraft(says("acme", "phone", "1")))
	if _, err := s.Fitness(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n := trips(labelled(modelDraft(says("acme", "phone", "2")))); n != plain {
		t.Errorf("after a decision: %d trips, and %d without", n, plain)
	}
}

func TestWhatNoWorkerMaySay(t *testing.T) {
	b := newBench(t)
	many := make([]memory.VerifierState, memory.MaxVerifiers+1)
	for i := range many {
		many[i].Name = fmt.Sprint(i)
	}
	for field, err := range map[string]error{
		"worker":    b.PublishVerifiers(t.Context(), "", time.Minute, nil),
		"lease":     b.PublishVerifiers(t.Context(), "a", memory.MaxLease+1, nil),
		"verifiers": b.PublishVerifiers(t.Context(), "a", time.Minute, many),
		"verifier":  b.PublishVerifiers(t.Context(), "a", time.Minute, []memory.VerifierState{{}}),
	} {
		var f *memory.FieldError
		if !errors.As(err, &f) || f.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for i := range 70 { // those that end first make room
		if err := b.PublishVerifiers(t.Context(), fmt.Sprint("w", i), time.Minute+time.Duration(i)*time.Second, []memory.VerifierState{{Name: "crm", Down: i > 0}}); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := b.VerifiersDown(t.Context(), says("a", "b", "c")); err != nil || !is {
		t.Error(is, err)
	}
}

// TestWhatWorkersCover: up, down or advisory, until their leases end.
func TestWhatWorkersCover(t *testing.T) {
	b := newBench(t)
	text := memory.Content{Text: "Acme pays.", Cardinality: memory.CardinalityUnknown}
	contents := []memory.Content{says("acme", " billing.email", "a@b.example"), says("acme", "salary", "1"), text}
	want := func(want ...bool) {
		t.Helper()
		if got, err := b.Covered(t.Context(), contents...); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	want(false, false, false)
	publish := func(worker string, lease time.Duration, of ...memory.VerifierState) {
		t.Helper()
		if err := b.PublishVerifiers(t.Context(), worker, lease, of); err != nil {
			t.Fatal(err)
		}
	}
	publish("a", time.Minute, memory.VerifierState{Name: "crm", Predicates: []string{"billing.email"}, Down: true})
	want(true, false, false)
	publish("a", time.Minute, memory.VerifierState{Name: "web"}) // of all triples
	want(true, true, false)
	publish("a", time.Minute, memory.VerifierState{Name: "crm", Predicates: []string{"billing.email"}, Down: true})
	publish("b", 2*time.Minute, memory.VerifierState{Name: "model", Advisory: true, Down: true})
	want(true, true, true)
	publish("b", 2*time.Minute, memory.VerifierState{Name: "terms", Predicates: []string{"salary"}, Advisory: true})
	want(true, true, false)
	b.pass(time.Minute)
	want(false, true, false)
	b.pass(time.Minute)
	want(false, false, false)
}
