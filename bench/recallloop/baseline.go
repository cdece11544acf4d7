package recallloop

import (
	"math"
	"strings"
)

// baseline is a store as most agents have one: text, and how often it was seen.
// Each is one rule in one sentence, a model of a rule and not of any product.
type baseline struct {
	name  string
	dedup bool // Append keeps every write; hash dedup keeps one row a wording, and counts hits
	rows  map[string]int
	kept  int
}

func newAppend() *baseline { return &baseline{name: "append", rows: map[string]int{}} }

func newHashDedup() *baseline {
	return &baseline{name: "hash-dedup", dedup: true, rows: map[string]int{}}
}

func (b *baseline) write(text string) {
	key := folded(text)
	if b.rows[key] == 0 || !b.dedup {
		b.kept++
	}
	b.rows[key]++
}

// reworded is how many of the rows hold other words than the claim as it was first said.
func (b *baseline) reworded() int {
	first := b.rows[folded(Claim)]
	if b.dedup {
		first = min(first, 1)
	}
	return b.kept - first
}

func folded(text string) string { return strings.ToLower(strings.Join(strings.Fields(text), " ")) }

// supports is what such a store counts as support for a claim it was told in all
// these wordings: every sighting.
func (b *baseline) supports() int {
	n := 0
	for _, hits := range b.rows {
		n += hits
	}
	return n
}

const (
	sightingConfidence = 0.6  // of one sighting
	actAt              = 0.8  // belief at which such an agent acts
	certain            = 0.99 // belief is shown no higher
)

// belief combines sightings as if they were independent (noisy or).
func (b *baseline) belief() float64 {
	return math.Min(certain, 1-math.Pow(1-sightingConfidence, float64(b.supports())))
}

// act is an agent on such a store: it calls the tool if it believes the claim.
func (b *baseline) act(tool func()) {
	if b.belief() >= actAt {
		tool()
	}
}
