// Package recallloop replays the shape of an audited case: one invented
// preference that became 808 stored entries, 191 of them one sentence and 617
// reworded, over 32 days (mem0ai/mem0 issue 4573, one deployment). Beside it run
// twenty true facts and a few near-miss contradictions, so that a store which
// blocks or merges everything does not look good.
//
// The reworded ones are drawn from wordings.txt, some four times each. The list was
// written before its author had read the rule that recognises restatements, and the
// rule was not changed for any of them: what it recognises of them is what it
// recognises of sentences that it has never met.
//
// Every write carries a hidden label that no store sees. All figures are counted.
package recallloop

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// The shape of the case.
const (
	Writes   = 808 // entries of the false claim, the first of them the invention
	SameText = 191 // of them in one wording
	Reworded = Writes - SameText
	Days     = 32
	Facts    = 20
)

// Start is the first simulated day.
var Start = time.Date(2026, 2, 23, 9, 0, 0, 0, time.UTC)

// Label is the hidden truth about a write.
type Label uint8

// The labels.
const (
	Invention     Label = iota + 1 // the model says it once; nobody said so
	Echo                           // the same claim coming back
	Contradiction                  // looks like it, says otherwise
	TrueFact                       // true, and verifiable
)

// Write is one thing the model stores.
type Write struct {
	At    time.Time
	Label Label
	Text  string
	// Fact is set for a true fact: a typed claim.
	Fact Fact
}

// Fact is a typed true claim, held by the system of record.
type Fact struct{ Subject, Predicate, Object string }

// Scenario is one replay, in the order of time.
type Scenario struct {
	Seed   uint64
	Writes []Write
	Facts  []Fact
}

// Claim is the invented preference, as first written.
const Claim = "User prefers Vim"

// wordingsText is a list of ways to say the claim again. The rule that recognises
// restatements was tuned on none of them.
//
//go:embed wordings.txt
var wordingsText string

// Wordings are the lines of the list.
var Wordings = func() (list []string) {
	for line := range strings.Lines(wordingsText) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	return list
}()

// contradictions look like the claim and say something else. None may merge.
var contradictions = []string{
	"User prefers Emacs", "The user does not prefer Vim", "The user no longer prefers Vim", "The user used to prefer Vim",
	"Maria prefers Vim", "The user prefers Vim only on servers", "The user might prefer Vim", "User prefers Vim and Emacs",
	"The user prefers Emacs over Vim", "The user dislikes Vim", "User prefers Vim 8", "Does the user prefer Vim?",
}

// New builds the scenario of a seed.
func New(seed uint64) Scenario {
	rng := rand.New(rand.NewPCG(seed, 0x48656172736179))
	var texts []Write
	order := make([]int, len(Wordings))
	for i := range order {
		order[i] = i
	}
	for range SameText - 1 { // the invention itself is the first of the 191
		texts = append(texts, Write{Label: Echo, Text: Claim})
	}
	// Each wording is drawn before any is drawn again.
	for drawn := range Reworded {
		if drawn%len(Wordings) == 0 {
			rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		texts = append(texts, Write{Label: Echo, Text: Wordings[order[drawn%len(order)]]})
	}
	for _, c := range contradictions {
		texts = append(texts, Write{Label: Contradiction, Text: c})
	}
	s := Scenario{Seed: seed, Facts: facts()}
	for _, f := range s.Facts {
		texts = append(texts, Write{Label: TrueFact, Fact: f, Text: f.Subject + "'s " + f.Predicate + " is " + f.Object})
	}
	rng.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	texts = append([]Write{{Label: Invention, Text: Claim}}, texts...)
	step := Days * 24 * time.Hour / time.Duration(len(texts))
	for i := range texts {
		texts[i].At = Start.Add(time.Duration(i) * step)
	}
	s.Writes = texts
	return s
}

func facts() []Fact {
	names := []string{"acme", "birch", "cobalt", "dover", "elm", "fjord", "grove", "harbor", "iris", "juniper"}
	out := make([]Fact, 0, Facts)
	for i, n := range names {
		out = append(out, Fact{n, "billing_email", "billing@" + n + ".example"}, Fact{n, "account", fmt.Sprintf("ACC-%05d", 20417+731*i)})
	}
	return out
}
