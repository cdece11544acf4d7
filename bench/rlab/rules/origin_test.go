package rules

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/bench/rlab"
)

// TestSimilarityDedupKeepsNearlyTheSameTextOnce, and tells another statement of the same
// subject apart.
func TestSimilarityDedupKeepsNearlyTheSameTextOnce(t *testing.T) {
	const text = "the invoice of the Alder Bay Bakery is sent on the first day of each month"
	s, ids := told(t, similarity, text, text+".", "the invoice of the Alder Bay Bakery is paid by its bank", "something else altogether")
	if ids[0] != ids[1] || ids[0] == ids[2] || ids[2] == ids[3] || look(t, s, ids[0])[0].Supports != 2 {
		t.Errorf("%q, %+v", ids, look(t, s, ids[0]))
	}
	for _, c := range []struct {
		a, b string
		want float64
	}{{"", "", 0}, {"abc", "abc", 1}, {"ab", "ab", 1}, {"abc", "xyz", 0}, {"abcd", "abce", 0.5}} {
		if got := cosine(trigramsOf(c.a), trigramsOf(c.b)); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%q and %q: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestAddOnlySkipsTheVeryBytes, and keeps both sides of a contradiction.
func TestAddOnlySkipsTheVeryBytes(t *testing.T) {
	_, ids := told(t, addOnly, "My name is Liu", "My name is Liu", "my name is Liu", "My name is Lee")
	if ids[0] != ids[1] || ids[0] == ids[2] || ids[0] == ids[3] {
		t.Errorf("%q", ids)
	}
}

// TestGraphTakesTheLatestValueOfASlot.
func TestGraphTakesTheLatestValueOfASlot(t *testing.T) {
	s, ids := told(t, graph, "Acme's account is A-1", "Acme's account is a-1", "Acme's account is B-2", "Acme's manager is Kim", "Pay Acme soon", "pay  acme soon")
	if ids[0] != ids[1] || ids[1] == ids[2] || ids[4] != ids[5] || len(look(t, s, ids[0])) != 0 || look(t, s, ids[2])[0].Supports != 1 || len(look(t, s, ids[3])) != 1 {
		t.Errorf("%q, %+v", ids, look(t, s, ids...))
	}
	got, err := s.Recall(t.Context(), rlab.Turn{}, rlab.Query{Text: "account of Acme"})
	if err != nil || slices.ContainsFunc(got, func(m rlab.Memory) bool { return m.ID == ids[0] }) || got[0].ID != ids[2] {
		t.Errorf("%+v, %v", got, err)
	}
	again, err := s.Write(t.Context(), rlab.Turn{}, rlab.Statement{Text: "Acme's account is A-1"})
	if err != nil || again == ids[0] || len(look(t, s, ids[2])) != 0 || len(look(t, s, again)) != 1 {
		t.Errorf("what comes back is %q (%v)", again, err)
	}
}

// TestSessionsCorroborate: twice in one session is one source, in two it is two.
func TestSessionsCorroborate(t *testing.T) {
	s := sessions.open()
	say := func(session, text string) rlab.Memory {
		t.Helper()
		id, err := s.Write(t.Context(), rlab.Turn{Session: session}, rlab.Statement{Author: rlab.Author{Kind: rlab.Agent, Name: "a"}, Text: text})
		if err != nil {
			t.Fatal(err)
		}
		return look(t, s, id)[0]
	}
	say("1", "x")
	if got := say("1", "x"); got.Trusted || got.Supports != 1 {
		t.Errorf("%+v", got)
	}
	if got := say("2", "x"); !got.Trusted || got.Supports != 2 {
		t.Errorf("%+v", got)
	}
}

// TestTheGuardReportsALoop within a minute, and none of different statements, over a longer
// time, or with a word of the user in between.
func TestTheGuardReportsALoop(t *testing.T) {
	for name, c := range map[string]struct {
		texts []string
		gap   time.Duration
		user  int // which one is the user's; -1 = none
		loop  bool
	}{
		"the same":               {[]string{"User prefers Vim", "User prefers Vim", "User prefers Vim!"}, time.Second, -1, true},
		"two only":               {[]string{"User prefers Vim", "User prefers Vim"}, time.Second, -1, false},
		"different":              {[]string{"User prefers Vim", "The bill is paid", "Acme has moved"}, time.Second, -1, false},
		"slowly":                 {[]string{"User prefers Vim", "User prefers Vim", "User prefers Vim"}, time.Minute, -1, false},
		"with a user in between": {[]string{"User prefers Vim", "User prefers Vim", "No", "User prefers Vim"}, time.Second, 2, false},
	} {
		s, at, reported := guard.open(), time.Unix(0, 0), false
		for i, text := range c.texts {
			author := rlab.Author{Kind: rlab.Agent, Name: "a"}
			if i == c.user {
				author = rlab.Author{Kind: rlab.User, Name: "ana"}
			}
			at = at.Add(c.gap)
			id, err := s.Write(t.Context(), rlab.Turn{At: at, Agent: "a"}, rlab.Statement{Author: author, Text: text})
			if err != nil {
				t.Fatal(err)
			}
			m := look(t, s, id)[0]
			if reported = reported || m.State == "reported"; !m.Trusted {
				t.Errorf("%s: it is not stored as it is: %+v", name, m)
			}
		}
		if reported != c.loop {
			t.Errorf("%s: reported %t", name, reported)
		}
	}
	if quickRatio("", "") != 1 || quickRatio("ab", "ba") != 1 || quickRatio("ab", "cd") != 0 {
		t.Error("quickRatio")
	}
}

// TestOriginsWantTwoWhoSaidItFirstHand: agents are none, and the same one counts once.
func TestOriginsWantTwoWhoSaidItFirstHand(t *testing.T) {
	s := origins.open()
	var id string
	for i, c := range []struct {
		author   rlab.Author
		supports int
	}{{rlab.Author{Kind: rlab.Agent, Name: "a"}, 0}, {rlab.Author{Kind: rlab.Agent, Name: "b"}, 0}, {rlab.Author{Kind: rlab.User, Name: "ana"}, 1}, {rlab.Author{Kind: rlab.User, Name: "ana"}, 1}, {rlab.Author{Kind: rlab.Tool, Name: "crm"}, 2}} {
		var err error
		if id, err = s.Write(t.Context(), rlab.Turn{Session: fmt.Sprint(i)}, rlab.Statement{Author: c.author, Text: "x is y"}); err != nil {
			t.Fatal(err)
		}
		if got := look(t, s, id)[0]; got.Supports != c.supports || got.Trusted != (c.supports == 2) {
			t.Errorf("%d: %+v", i, got)
		}
	}
	if got, err := s.(rlab.Decider).Decide(t.Context(), rlab.Turn{}, rlab.Action{Value: "y", Recalled: []string{id}}); err != nil || !got.Allowed {
		t.Errorf("%+v, %v", got, err)
	}
}
