package rules

import (
	"github.com/hearsay-go/hearsay/bench/rlab"
)

// sameWords puts a statement on the row with the same words.
func sameWords(s *baseline, _ rlab.Turn, say rlab.Statement) *row {
	if same := s.said(folded(say.Text)); len(same) > 0 {
		return same[0]
	}
	return nil
}

// B5
var addOnly = rule{
	name:     "mem0-v3-like",
	sentence: "A text is added unless the very same bytes are there; nothing is updated or taken back, and an agent acts on any row.",
	place: func(s *baseline, _ rlab.Turn, say rlab.Statement) *row {
		for _, r := range s.said(folded(say.Text)) {
			if r.text == say.Text {
				return r
			}
		}
		return nil
	},
	supports: func(*baseline, *row) int { return 1 },
}

// B6
var graph = rule{
	name:     "graph-like",
	sentence: "A triple is an edge that is there once, and a new object of its subject and predicate takes its place; other sentences are nodes by their words; an agent acts on what is there.",
	place: func(s *baseline, t rlab.Turn, say rlab.Statement) *row {
		triple, ok := rlab.Extract(say.Text)
		if !ok {
			return sameWords(s, t, say)
		}
		slot := folded(triple.Subject + "\x00" + triple.Predicate)
		if at := s.edges[slot]; at != nil {
			if have, _ := rlab.Extract(at.text); folded(have.Object) == folded(triple.Object) {
				return at
			}
			at.gone = true
		}
		s.slot = slot // of the row that it gets
		return nil
	},
	supports: func(_ *baseline, r *row) int { return r.hits },
}

// B7
var sessions = rule{
	name:     "session-corroboration",
	sentence: "The same words are one row, each session in which they were said counts as a source, and an agent acts on two.",
	place:    sameWords,
	supports: func(_ *baseline, r *row) int { return len(r.sessions) },
	trusts:   func(_ *baseline, r *row) bool { return len(r.sessions) >= 2 },
}

// B9
var origins = rule{
	name:     "tma-nm-like",
	sentence: "The same words are one row that keeps who said them first-hand, a user or a tool and never an agent, and an agent acts on two such.",
	place:    sameWords,
	supports: func(_ *baseline, r *row) int { return len(r.principals) },
	trusts:   func(_ *baseline, r *row) bool { return len(r.principals) >= 2 },
}
