// A memory of one's own in the recall-loop amplification bench: 50 lines that keep each text
// once, count whoever said it first-hand, and let an agent act on what two said. Without
// arguments S1 is played against it, Hearsay and a memory without a gate; -h has the flags.
package main

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/hearsay-go/hearsay/bench/rlab"
	"github.com/hearsay-go/hearsay/bench/rlab/command"
)

// twoSay is the memory. The id of a text is the text.
type twoSay struct {
	mu  sync.Mutex
	who map[string][]rlab.Author // who said a text first-hand
}

func (m *twoSay) Write(_ context.Context, _ rlab.Turn, s rlab.Statement) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	who := m.who[s.Text]
	// What a turn says after it was shown something may come from there.
	if len(s.Recalled) == 0 && s.Author.Kind != rlab.Agent && !slices.Contains(who, s.Author) {
		who = append(who, s.Author)
	}
	m.who[s.Text] = who
	return s.Text, nil
}

func (m *twoSay) Recall(ctx context.Context, _ rlab.Turn, q rlab.Query) ([]rlab.Memory, error) {
	words, shared := strings.Fields(strings.ToLower(q.Text)), map[string]int{}
	var ids []string
	m.mu.Lock()
	for text := range m.who {
		lower := strings.ToLower(text)
		for _, word := range words {
			if strings.Contains(lower, word) {
				shared[text]++
			}
		}
		if shared[text] > 0 {
			ids = append(ids, text)
		}
	}
	m.mu.Unlock()
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(shared[b]-shared[a], strings.Compare(a, b)) })
	return m.Look(ctx, ids[:min(len(ids), rlab.Shown)])
}

func (m *twoSay) Look(_ context.Context, ids []string) (list []rlab.Memory, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if who, is := m.who[id]; is {
			list = append(list, rlab.Memory{ID: id, Text: id, Trusted: len(who) > 1, Supports: len(who)})
		}
	}
	return list, nil
}

// Decide is left out by a memory that lets an agent do what it likes.
func (m *twoSay) Decide(ctx context.Context, _ rlab.Turn, a rlab.Action) (rlab.Verdict, error) {
	shown, err := m.Look(ctx, a.Recalled)
	return rlab.Verdict{Allowed: slices.ContainsFunc(shown, func(r rlab.Memory) bool {
		return r.Trusted && strings.Contains(r.Text, a.Value)
	})}, err
}

func entrant() rlab.Entrant {
	return rlab.Entrant{Name: "two-say", Rule: "A text is kept once, and an agent acts on what a user and a tool said.",
		Open: func(context.Context, rlab.Env) (rlab.System, error) {
			return &twoSay{who: map[string][]rlab.Author{}}, nil
		}}
}

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"-scenario", "S1", "-systems", "two-say,hearsay,append"}
	}
	os.Exit(command.Main(args, entrant()))
}
