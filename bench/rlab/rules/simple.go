package rules

import (
	"math"

	"github.com/hearsay-go/hearsay/bench/rlab"
)

// apart gives each statement a row of its own.
func apart(*baseline, rlab.Turn, rlab.Statement) *row { return nil }

// B1
var appends = rule{
	name:     "append",
	sentence: "Every statement is a row, and an agent acts on any row.",
	place:    apart,
	supports: func(*baseline, *row) int { return 1 },
}

// Of B2: what one sighting is worth, and the belief at which an agent acts.
const (
	sighting = 0.6
	actAt    = 0.8
)

// B2
var confidence = rule{
	name:     "confidence",
	sentence: "Every statement is a row; each sighting of the same words raises the belief in them as an independent one would (noisy or, 0.6 each), and an agent acts at 0.8.",
	place:    apart,
	supports: func(*baseline, *row) int { return 1 },
	trusts: func(s *baseline, r *row) bool {
		return 1-math.Pow(1-sighting, float64(len(s.said(r.key)))) >= actAt
	},
}

// B3
var hashDedup = rule{
	name:     "hash-dedup",
	sentence: "The same words, whatever their blanks and case, are one row that counts how often they came; an agent acts on any row.",
	place:    sameWords,
	supports: func(_ *baseline, r *row) int { return r.hits },
}
