package rules

import (
	"fmt"
	"testing"

	"github.com/hearsay-go/hearsay/bench/rlab"
)

// told is a memory that was told statements, in a session each, and the ids that hold them.
func told(t *testing.T, r rule, texts ...string) (s rlab.System, ids []string) {
	t.Helper()
	s = r.open()
	for i, text := range texts {
		id, err := s.Write(t.Context(), rlab.Turn{Session: fmt.Sprint("s", i)}, rlab.Statement{Author: rlab.Author{Kind: rlab.User, Name: "ana"}, Text: text})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return s, ids
}

func look(t *testing.T, s rlab.System, ids ...string) []rlab.Memory {
	t.Helper()
	got, err := s.Look(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestAppendLosesNothing, which is what it is good at.
func TestAppendLosesNothing(t *testing.T) {
	s, ids := told(t, appends, "a b", "a b", "c d")
	if got := look(t, s, ids...); len(got) != 3 || got[0].ID == got[1].ID || got[2].Text != "c d" || !got[0].Trusted || got[0].Supports != 1 {
		t.Errorf("%+v", got)
	}
}

// TestConfidenceActsOnWhatWasSeenTwice, and not on what was seen once.
func TestConfidenceActsOnWhatWasSeenTwice(t *testing.T) {
	s, ids := told(t, confidence, "the sky is blue", "The  sky is blue", "the sky is green")
	for i, want := range []bool{true, true, false} {
		got := look(t, s, ids[i])[0]
		verdict, err := s.(rlab.Decider).Decide(t.Context(), rlab.Turn{}, rlab.Action{Tool: "pay", Value: "sky", Recalled: ids[i : i+1]})
		if err != nil || got.Trusted != want || verdict.Allowed != want {
			t.Errorf("%d: %+v, %+v, %v", i, got, verdict, err)
		}
	}
}

// TestHashDedupKeepsTheSameWordsOnce, and counts them.
func TestHashDedupKeepsTheSameWordsOnce(t *testing.T) {
	s, ids := told(t, hashDedup, "User prefers Vim", "user  prefers vim ", "User likes Vim")
	got := look(t, s, ids[0], ids[2])
	if ids[0] != ids[1] || ids[0] == ids[2] || got[0].Supports != 2 || got[1].Supports != 1 {
		t.Errorf("%q, %+v", ids, got)
	}
}

// TestRecallFindsByWords: most in common first, later ones before earlier ones, and nothing
// that has none in common.
func TestRecallFindsByWords(t *testing.T) {
	s, ids := told(t, appends, "the manager of Alder is Kim", "the account of Alder is 7", "the account of Birch is 8", "the account of Alder is 9", "nothing at all")
	got, err := s.Recall(t.Context(), rlab.Turn{}, rlab.Query{Text: "What is the account of Alder?"})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, m := range got {
		order = append(order, m.ID)
	}
	if want := []string{ids[3], ids[1], ids[2], ids[0]}; fmt.Sprint(order) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", order, want)
	}
	if _, gate := s.(rlab.Decider); gate {
		t.Error("a rule that trusts everything is a gate")
	}
	if got := look(t, s, "m0", "m99", "x", ids[0]); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestEveryBaselineSaysItsRule in one sentence, under a name of its own.
func TestEveryBaselineSaysItsRule(t *testing.T) {
	names := map[string]bool{rlab.Ours: true}
	for _, e := range All() {
		if names[e.Name] || len(e.Rule) < 20 || e.Rule[len(e.Rule)-1] != '.' {
			t.Errorf("%q: %q", e.Name, e.Rule)
		}
		names[e.Name] = true
	}
	if two := Named("hash-dedup", "append", "none"); len(two) != 2 || two[0].Name != "append" || two[1].Name != "hash-dedup" {
		t.Errorf("%+v", two)
	}
	if len(names) != 11 {
		t.Errorf("%d baselines", len(names)-1)
	}
}
