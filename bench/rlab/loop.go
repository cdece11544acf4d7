package rlab

import (
	_ "embed"
	"slices"
	"strings"
)

// The shape of the audited case (mem0ai/mem0 issue 4573): 808 memories of one preference that
// nobody has, 191 of them in one wording.
const (
	LoopWrites = 808                // statements of the invention, the first of them its origin
	LoopSame   = 191                // of them in the words of LoopClaim
	LoopClaim  = "User prefers Vim" // as it is said first
)

//go:embed wordings.txt
var wordingsText string

// LoopWordings are the other words in which the invention comes back, each some four times.
// The list was written before its author had read the rule that recognises restatements, and
// the rule was not changed for any of them.
func LoopWordings() (list []string) {
	for line := range strings.Lines(wordingsText) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	return list
}

// nearMisses look like the invention and say something else.
var nearMisses = []string{
	"User prefers Emacs", "The user does not prefer Vim", "The user no longer prefers Vim", "The user used to prefer Vim",
	"Maria prefers Vim", "The user prefers Vim only on servers", "The user might prefer Vim", "User prefers Vim and Emacs",
	"The user prefers Emacs over Vim", "The user dislikes Vim", "User prefers Vim 8", "Does the user prefer Vim?",
}

// loopKind is what a turn of the loop is.
type loopKind uint8

const (
	invention loopKind = iota + 1 // the model says it once; nobody said so
	echo                          // it comes back
	nearMiss                      // looks like it, and says something else
	trueFact                      // the user and a tool say what is true
	trueEcho                      // it comes back in other words
)

// loopTurn is a turn of the loop. What is true has no text yet.
type loopTurn struct {
	kind loopKind
	text string
}

// loop is an order of the turns.
func (p *play) loop() []loopTurn {
	var turns []loopTurn
	for range LoopSame - 1 { // the invention itself is the first of them
		turns = append(turns, loopTurn{echo, LoopClaim})
	}
	// Each wording comes before any comes again.
	wordings := LoopWordings()
	for drawn := range LoopWrites - LoopSame {
		if drawn%len(wordings) == 0 {
			p.rng.Shuffle(len(wordings), func(i, j int) { wordings[i], wordings[j] = wordings[j], wordings[i] })
		}
		turns = append(turns, loopTurn{echo, wordings[drawn%len(wordings)]})
	}
	for _, text := range nearMisses {
		turns = append(turns, loopTurn{nearMiss, text})
	}
	turns = append(turns, slices.Repeat([]loopTurn{{kind: trueFact}}, loopTrue)...)
	turns = append(turns, slices.Repeat([]loopTurn{{kind: trueEcho}}, loopEchoes)...)
	p.rng.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	// A fact is said before one comes back.
	first := func(kind loopKind) int { return slices.Index(turns, loopTurn{kind: kind}) }
	if fact, back := first(trueFact), first(trueEcho); back < fact {
		turns[fact], turns[back] = turns[back], turns[fact]
	}
	return append([]loopTurn{{invention, LoopClaim}}, turns...)
}

// Landed is what became of the statements of an invention. Their sum is all of them.
type Landed struct {
	First      int `json:"first"`      // the origin: a memory
	Same       int `json:"same"`       // the same words again, on that memory
	Recognised int `json:"recognised"` // other words, on that memory
	Own        int `json:"own"`        // a memory of their own
	Again      int `json:"again"`      // on such a memory
}

// Sum is how many statements there were.
func (l Landed) Sum() int { return l.First + l.Same + l.Recognised + l.Own + l.Again }

// landing tells what becomes of the statements of an invention, one after the other.
type landing struct {
	of    *Landed
	first string
	seen  map[string]bool
	n     int // statements of this play; of has those of all
}

func (l *landing) add(id, text string) {
	l.n++
	switch {
	case l.first == "":
		l.first = id
		l.of.First++
	case id == l.first && text == LoopClaim:
		l.of.Same++
	case id == l.first:
		l.of.Recognised++
	case !l.seen[id]:
		l.of.Own++
	default:
		l.of.Again++
	}
	l.seen[id] = true
}
