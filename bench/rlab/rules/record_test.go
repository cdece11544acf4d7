package rules

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/bench/rlab"
)

// registry is a system of record.
type registry struct {
	values map[[2]string]string
	down   bool
	asked  int
}

func (r *registry) Lookup(_ context.Context, subject, predicate string) (string, bool, error) {
	if r.asked++; r.down {
		return "", false, errors.New("down")
	}
	value, found := r.values[[2]string{subject, predicate}]
	return value, found, nil
}

// TestAskRecordActsOnWhatTheRecordSaysNow, however often something else was said, and on what a
// user said last of what no record has.
func TestAskRecordActsOnWhatTheRecordSaysNow(t *testing.T) {
	now, record := time.Unix(0, 0), &registry{values: map[[2]string]string{{"Tor", "city"}: "Oslo"}}
	s, err := openAsking(t.Context(), rlab.Env{Now: func() time.Time { return now }, Record: record})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, say := range []rlab.Statement{
		{Author: rlab.Author{Kind: rlab.Agent, Name: "a"}, Text: "Tor's city is Oslo"},
		{Author: rlab.Author{Kind: rlab.User, Name: "ana"}, Text: "Tor's city is Rome"},
		{Author: rlab.Author{Kind: rlab.Agent, Name: "a"}, Text: "Tor has moved to Oslo"},
		{Author: rlab.Author{Kind: rlab.User, Name: "ana"}, Text: "Ana's editor is Vim"},
		{Author: rlab.Author{Kind: rlab.User, Name: "ana"}, Text: "Ana's editor is Emacs"},
		{Author: rlab.Author{Kind: rlab.Agent, Name: "a"}, Text: "Ana's editor is Nano"},
		{Author: rlab.Author{Kind: rlab.Agent, Name: "a"}, Text: "Ana's shell is fish"},
	} {
		if ids[say.Text], err = s.Write(t.Context(), rlab.Turn{}, say); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, want map[string]bool) {
		t.Helper()
		for text, id := range ids {
			triple, _ := rlab.Extract(text)
			verdict, err := s.(rlab.Decider).Decide(t.Context(), rlab.Turn{}, rlab.Action{Value: triple.Object, Recalled: []string{id}})
			if seen := look(t, s, id)[0]; err != nil || verdict.Allowed != want[text] || seen.Trusted != want[text] {
				t.Errorf("%s: %s: %+v, %+v, %v", when, text, verdict, seen, err)
			}
		}
	}
	check("at first", map[string]bool{"Tor's city is Oslo": true, "Ana's editor is Emacs": true})
	record.values[[2]string{"Tor", "city"}] = "Rome"
	check("when it has changed", map[string]bool{"Tor's city is Rome": true, "Ana's editor is Emacs": true})
	record.down = true
	check("when it is down", nil)
}

// TestAskRecordKeepsToItsBudget of questions in a simulated minute.
func TestAskRecordKeepsToItsBudget(t *testing.T) {
	now, record := time.Unix(0, 0), &registry{values: map[[2]string]string{{"Tor", "city"}: "Oslo"}}
	s, err := openAsking(t.Context(), rlab.Env{Now: func() time.Time { return now }, Record: record, Budget: 2})
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.Write(t.Context(), rlab.Turn{}, rlab.Statement{Author: rlab.Author{Kind: rlab.Agent, Name: "a"}, Text: "Tor's city is Oslo"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for n := range 4 {
			if got := look(t, s, id)[0]; got.Trusted != (n < 2) {
				t.Errorf("question %d: %+v", n, got)
			}
		}
		now = now.Add(time.Minute)
	}
	if record.asked != 4 {
		t.Errorf("asked %d times", record.asked)
	}
	found, err := s.Recall(t.Context(), rlab.Turn{}, rlab.Query{Text: "Tor's city"})
	if err != nil || len(found) != 1 || !found[0].Trusted {
		t.Errorf("%+v, %v", found, err)
	}
}
