// Package rules has the baselines of the bench: memories that follow one rule each. A name
// that ends in "-like" is a rule that somebody published, made anew from its description. It
// says nothing about a product.
package rules

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/bench/rlab"
)

// All are the baselines, in the order of their numbers.
func All() []rlab.Entrant {
	var out []rlab.Entrant
	for _, r := range []rule{appends, confidence, hashDedup, similarity, addOnly, graph, sessions, guard, origins} {
		out = append(out, rlab.Entrant{Name: r.name, Rule: r.sentence, Open: func(context.Context, rlab.Env) (rlab.System, error) { return r.open(), nil }})
	}
	return append(out, rlab.Entrant{Name: asksRecord.name, Rule: asksRecord.sentence, Open: openAsking})
}

// Named are the baselines with these names, in their order. A name that none has is left out.
func Named(names ...string) []rlab.Entrant {
	return slices.DeleteFunc(All(), func(e rlab.Entrant) bool { return !slices.Contains(names, e.Name) })
}

// rule is how a memory places what it is told, counts its sources and trusts it.
type rule struct {
	name, sentence string
	// place finds the row that a statement falls on; nil = it gets one of its own.
	place func(s *baseline, t rlab.Turn, say rlab.Statement) *row
	// supports is how many sources the rule counts for a row.
	supports func(s *baseline, r *row) int
	// trusts says whether an agent may act on a row; nil = it may on any, and the rule is no
	// gate.
	trusts func(s *baseline, r *row) bool
}

// open makes an empty memory. One that is no gate is no [rlab.Decider].
func (r rule) open() rlab.System {
	if r.trusts == nil {
		return r.empty()
	}
	return gated{r.empty()}
}

func (r rule) empty() *baseline {
	return &baseline{rule: r, texts: map[string]*text{}, words: map[string][]*text{}, edges: map[string]*row{}}
}

// row is one memory of a baseline.
type row struct {
	id   string
	at   int // among all rows
	text string
	key  string // the text in the form in which wordings are compared
	hits int    // statements that fell on it
	gone bool   // another row took its place

	sessions   map[string]bool // in which it was said
	principals map[string]bool // the users and tools who said it
	trigrams   *trigrams
	reported   bool // as a loop
}

// text is what some rows say in the same words.
type text struct {
	rows   []*row
	shared int // words of a question that are in it, while that is answered
}

// own is what an agent said.
type own struct {
	agent, text string
	at          time.Time
}

// baseline is the memory of a baseline.
type baseline struct {
	rule rule

	mu    sync.Mutex
	rows  []*row
	texts map[string]*text   // by key
	words map[string][]*text // those that have a word in them

	edges   map[string]*row   // of graph: the edge of a slot
	slot    string            // that the next row is the edge of; "" = of none
	holding map[uint64][]*row // of similarity: the rows that have a trigram
	indexed int               // rows[:indexed] are in holding

	recent []own // of guard: what agents said last
	loop   bool  // the next row is reported
}

// folded is a text without differences in blanks and letter case.
func folded(text string) string { return strings.ToLower(strings.Join(strings.Fields(text), " ")) }

// Write implements [rlab.System].
func (s *baseline) Write(_ context.Context, t rlab.Turn, say rlab.Statement) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rule.place(s, t, say)
	if r == nil {
		r = &row{at: len(s.rows), text: say.Text, key: folded(say.Text), sessions: map[string]bool{}, principals: map[string]bool{}, reported: s.loop}
		r.id = fmt.Sprintf("m%d", r.at+1)
		of := s.texts[r.key]
		if of == nil {
			of = &text{}
			s.texts[r.key] = of
			for word := range wordsOf(say.Text) {
				s.words[word] = append(s.words[word], of)
			}
		}
		s.rows, of.rows = append(s.rows, r), append(of.rows, r)
	}
	if s.slot != "" {
		s.edges[s.slot], s.slot = r, ""
	}
	r.hits++
	r.sessions[t.Session] = true
	if say.Author.Kind != rlab.Agent {
		r.principals[say.Author.Kind+" "+say.Author.Name] = true
	}
	return r.id, nil
}

// Recall implements [rlab.System]: the rows that share most words with the question, later
// ones first.
func (s *baseline) Recall(_ context.Context, _ rlab.Turn, q rlab.Query) ([]rlab.Memory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var met []*text
	for word := range wordsOf(q.Text) {
		for _, of := range s.words[word] {
			if of.shared++; of.shared == 1 {
				met = append(met, of)
			}
		}
	}
	type scored struct {
		*row
		shared int
	}
	order := func(a, b scored) int { return cmp.Or(b.shared-a.shared, b.at-a.at) }
	best := make([]scored, 0, rlab.Shown+1)
	for _, of := range met {
		for _, r := range slices.Backward(of.rows) {
			if r.gone {
				continue
			}
			next := scored{r, of.shared}
			if len(best) == rlab.Shown && order(best[rlab.Shown-1], next) < 0 {
				break // so do those before it of the same words
			}
			at, _ := slices.BinarySearchFunc(best, next, order)
			best = slices.Insert(best, at, next)
			best = best[:min(len(best), rlab.Shown)]
		}
		of.shared = 0
	}
	rows := make([]*row, len(best))
	for i := range best {
		rows[i] = best[i].row
	}
	return s.shown(rows), nil
}

// said are the rows of the same words, in the form in which wordings are compared.
func (s *baseline) said(key string) []*row {
	if of := s.texts[key]; of != nil {
		return of.rows
	}
	return nil
}

// Look implements [rlab.System].
func (s *baseline) Look(_ context.Context, ids []string) ([]rlab.Memory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown(s.named(ids)), nil
}

func (s *baseline) named(ids []string) (out []*row) {
	for _, id := range ids {
		var n int
		if _, err := fmt.Sscanf(id, "m%d", &n); err == nil && n >= 1 && n <= len(s.rows) && !s.rows[n-1].gone {
			out = append(out, s.rows[n-1])
		}
	}
	return out
}

func (s *baseline) shown(rows []*row) []rlab.Memory {
	out := make([]rlab.Memory, len(rows))
	for i, r := range rows {
		out[i] = rlab.Memory{ID: r.id, Text: r.text, Trusted: s.rule.trusts == nil || s.rule.trusts(s, r), Supports: s.rule.supports(s, r)}
		if r.reported {
			out[i].State = "reported"
		}
	}
	return out
}

// wordsOf are the words of a text that say something, each once.
func wordsOf(text string) map[string]bool {
	out := map[string]bool{}
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127) }) {
		if len(word) > 1 && !stop[word] {
			out[word] = true
		}
	}
	return out
}

// stop are words that say nothing.
var stop = func() map[string]bool {
	out := map[string]bool{}
	for word := range strings.FieldsSeq("the of is a an in on to and or what which who does do did for with at by it its as was were be are that this from") {
		out[word] = true
	}
	return out
}()

// gated is a baseline that decides on calls.
type gated struct{ *baseline }

// Decide implements [rlab.Decider]: an agent may act if a row that it was shown has the value
// and is trusted.
func (g gated) Decide(_ context.Context, _ rlab.Turn, a rlab.Action) (rlab.Verdict, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return rlab.Verdict{Allowed: slices.ContainsFunc(g.named(a.Recalled), func(r *row) bool {
		return strings.Contains(r.key, folded(a.Value)) && g.rule.trusts(g.baseline, r)
	})}, nil
}
