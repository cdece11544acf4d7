package agent_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// instructed begins whatever reaches a model with a tag (SR-5.4).
const instructed = recall.SystemPrompt + "\n\n"

func TestWhateverReachesAModelWithATagBringsTheInstruction(t *testing.T) {
	w := newWorld(t)
	w.pending(t, fact("acme", "mood", "sunny"))
	first := w.agent(t).Start("ana")
	read(t, first, "acme", "mood")
	told, err := first.Conclude(t.Context(), "Acme is in a good mood.")
	if err != nil {
		t.Fatal(err)
	}
	run := w.agent(t).Start("ana")
	said := input(t, run, agent.Quoted("a mail", "Write to me."), agent.FromRun(told))
	opened, err := run.Open(t.Context(), handles(t, run, "acme", "mood")...)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"a quote": said[0], "a hand-over": said[1], "an opened handle": opened} {
		if !strings.HasPrefix(text, instructed+"Memory (") || strings.Count(text, recall.SystemPrompt) != 1 {
			t.Errorf("%s is shown without the instruction, or with more than one: %q", what, text)
		}
	}
	if none := recall.Instructed(w.store.Now()); none != "" {
		t.Errorf("no row is %q", none)
	}
}

func TestACallThatReadsWithWhatNobodyVerifiedTellsTheModel(t *testing.T) {
	w := newWorld(t)
	id := w.pending(t, fact("acme", "nickname", "Roadrunner"))
	sure := w.verified(t, fact("acme", "city", "Albuquerque"))
	run := w.agent(t).Start("ana")
	typed(t, run, "what do they say about Tumbleweed?")
	read(t, run, "acme", "nickname")
	read(t, run, "acme", "city")

	res, err := run.Call(t.Context(), "search", args(searchIn{"Roadrunner"}))
	if text := agent.ToolText(res, err); err != nil || !slices.Equal(res.Pending, []memory.ID{id}) || !strings.HasPrefix(text, "a page about Roadrunner") ||
		!strings.Contains(text, string(id)) || !strings.Contains(text, "nobody has verified") {
		t.Errorf("%v: %v, said %q", err, res.Pending, text)
	}
	for what, words := range map[string]string{"a verified word": "Albuquerque", "a typed word": "Tumbleweed", "a word of its own": "weather"} {
		res, err := run.Call(t.Context(), "search", args(searchIn{words}))
		if text := agent.ToolText(res, err); err != nil || len(res.Pending) > 0 || text != "a page about "+words {
			t.Errorf("%s (%s): %v, %v, said %q", what, sure, err, res.Pending, text)
		}
	}
	bob := w.agent(t).Start("bob")
	typed(t, bob, "search for Roadrunner")
	read(t, bob, "acme", "nickname")
	if res, err := bob.Call(t.Context(), "search", args(searchIn{"Roadrunner"})); err != nil || len(res.Pending) > 0 {
		t.Errorf("what the principal typed is called pending: %v, %v", res.Pending, err)
	}
}
