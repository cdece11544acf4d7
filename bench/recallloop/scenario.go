// Package recallloop replays the shape of an audited case: one invented
// preference that became 808 stored entries, 191 of them one sentence and 617
// reworded, over 32 days (mem0ai/mem0 issue 4573, one deployment). Beside it run
// twenty true facts and a few near-miss contradictions, so that a store which
// blocks or merges everything does not look good.
//
// Every write carries a hidden label that no store sees. All figures are counted.
package recallloop

import (
	"fmt"
	"math/rand/v2"
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

// cores are ways to say the claim, none of which adds anything to it.
var cores = []string{
	"user prefers Vim", "the user prefers Vim", "the user likes Vim best", "the user favors Vim", "the user has a preference for Vim",
	"Vim is the user's preferred editor", "the user's preferred editor is Vim", "the user's favorite editor is Vim", "Vim is the user's favorite editor",
	"the user prefers Vim as an editor", "the user prefers to use Vim", "the user prefers using Vim", "the user would rather use Vim", "Vim is preferred by the user",
	"the preferred editor of the user is Vim", "the editor the user prefers is Vim", "preferred editor: Vim", "editor preference: Vim",
	"the user's editor of choice is Vim", "Vim is the user's editor of choice", "for editing, the user prefers Vim", "when it comes to editors, the user prefers Vim",
	"the user's editor preference is Vim", "the user's go-to editor is Vim", "Vim is the user's go-to editor", "Vim is the editor the user prefers",
	"the user likes to use Vim best", "Vim is the user's first choice of editor", "the user's first choice is Vim", "Vim is what the user prefers",
	"the user goes for Vim", "the user is a Vim person", "user's text editor preference is Vim", "the user leans toward Vim", "Vim suits the user best",
	"the user tends to reach for Vim", "Vim is the user's pick", "the user picks Vim", "the text editor the user likes best is Vim", "among editors, the user likes Vim best",
}

// frames are what echo loops put around a recalled sentence.
var frames = []string{
	"%s", "%s.", "Note: %s", "Remember: %s.", "As noted earlier, %s.", "According to memory, %s.", "I recall that %s.", "It is known that %s.",
	"As mentioned before, %s.", "Memory: %s", "From earlier conversations: %s.", "Recalled: %s.", "To recap, %s.", "Keep in mind that %s.",
	"For reference, %s.", "As previously stated, %s.",
}

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
	for range SameText - 1 { // the invention itself is the first of the 191
		texts = append(texts, Write{Label: Echo, Text: Claim})
	}
	wordings := make([]string, 0, len(frames)*len(cores))
	for _, f := range frames {
		for _, c := range cores {
			if w := capital(fmt.Sprintf(f, c)); w != Claim {
				wordings = append(wordings, w)
			}
		}
	}
	rng.Shuffle(len(wordings), func(i, j int) { wordings[i], wordings[j] = wordings[j], wordings[i] })
	for i := range Reworded {
		texts = append(texts, Write{Label: Echo, Text: wordings[i%len(wordings)]})
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

func capital(s string) string {
	if s[0] >= 'a' && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
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
