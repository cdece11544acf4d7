package rules

import (
	"math"
	"slices"

	"github.com/hearsay-go/hearsay/bench/rlab"
)

// alike is how much two texts have in common from which on B4 takes them for one.
const alike = 0.90

// B4
var similarity = rule{
	name:     "similarity-dedup",
	sentence: "Two texts whose character trigrams have a cosine of 0.90 or more are one row that counts how often it came; an agent acts on any row.",
	place: func(s *baseline, _ rlab.Turn, say rlab.Statement) *row {
		if same := s.said(folded(say.Text)); len(same) > 0 {
			return same[0]
		}
		s.indexTrigrams()
		return s.mostAlike(trigramsOf(folded(say.Text)))
	},
	supports: func(_ *baseline, r *row) int { return r.hits },
}

// indexTrigrams adds the rows that came since the last time.
func (s *baseline) indexTrigrams() {
	if s.holding == nil {
		s.holding = map[uint64][]*row{}
	}
	for _, r := range s.rows[s.indexed:] {
		r.trigrams = trigramsOf(r.key)
		for _, t := range r.trigrams.runs {
			s.holding[t.number] = append(s.holding[t.number], r)
		}
	}
	s.indexed = len(s.rows)
}

// mostAlike is the row with the greatest cosine of at least alike, the first of several; nil if
// there is none. It compares only rows that share one of the rarest trigrams of the text. Of any
// other row the cosine is at most the share of the norm that the other trigrams have.
func (s *baseline) mostAlike(of *trigrams) (best *row) {
	rare := slices.Clone(of.runs)
	slices.SortFunc(rare, func(a, b run) int { return len(s.holding[a.number]) - len(s.holding[b.number]) })
	const slack = 1e-9 // of the sums
	compared, most, rest := map[*row]bool{}, alike, of.size
	for i := 0; i < len(rare) && rest >= (alike-slack)*(alike-slack)*of.size; i++ {
		rest -= rare[i].times * rare[i].times
		for _, r := range s.holding[rare[i].number] {
			if compared[r] {
				continue
			}
			compared[r] = true
			if c := cosine(of, r.trigrams); c > most || c == most && (best == nil || r.at < best.at) {
				best, most = r, c
			}
		}
	}
	return best
}

// trigrams are the runs of three characters of a text, by their number, with how often each is
// there.
type trigrams struct {
	runs []run
	size float64 // the sum of the squares
}

type run struct {
	number uint64
	times  float64
}

// trigramsOf counts the runs of three characters of a text. A shorter text is one run.
func trigramsOf(text string) *trigrams {
	runes := []rune(text)
	var numbers []uint64
	for i := range max(len(runes)-2, min(len(runes), 1)) {
		var n uint64
		for _, c := range runes[i:min(i+3, len(runes))] {
			n = n<<21 | uint64(c) + 1 // a character has 21 bits
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	out := &trigrams{}
	for i, n := range numbers {
		if i == 0 || n != numbers[i-1] {
			out.runs = append(out.runs, run{number: n})
		}
		out.runs[len(out.runs)-1].times++
	}
	for _, r := range out.runs {
		out.size += r.times * r.times
	}
	return out
}

func cosine(a, b *trigrams) float64 {
	if a.size == 0 || b.size == 0 {
		return 0
	}
	var product float64
	for i, j := 0, 0; i < len(a.runs) && j < len(b.runs); {
		switch x, y := &a.runs[i], &b.runs[j]; {
		case x.number < y.number:
			i++
		case x.number > y.number:
			j++
		default:
			product += x.times * y.times
			i, j = i+1, j+1
		}
	}
	return product / math.Sqrt(a.size*b.size)
}

// Of B8: how far back it looks, how many statements make a loop, and from which likeness on
// they are the same.
const (
	guardWindow = 60 // seconds
	guardWrites = 3
	guardAlike  = 0.85
)

// B8 keeps what it reports: its strict preset has no rule that refuses a loop.
var guard = rule{
	name:     "owasp-guard-like",
	sentence: "A statement that resembles two others of the same agent in the last minute, with none of a user or a tool in between, is reported as a loop and stored; an agent acts on any row.",
	place: func(s *baseline, t rlab.Turn, say rlab.Statement) *row {
		if say.Author.Kind != rlab.Agent {
			s.recent, s.loop = nil, false
			return nil
		}
		s.recent = slices.DeleteFunc(s.recent, func(w own) bool { return t.At.Sub(w.at).Seconds() > guardWindow })
		same := 1
		for _, w := range s.recent {
			if w.agent == t.Agent && quickRatio(w.text, say.Text) >= guardAlike {
				same++
			}
		}
		s.loop = same >= guardWrites
		s.recent = append(s.recent, own{t.Agent, say.Text, t.At})
		return nil
	},
	supports: func(*baseline, *row) int { return 1 },
}

// quickRatio is twice the characters that two texts have in common, in any order, of all that
// they have: the quick_ratio of Python's difflib.
func quickRatio(a, b string) float64 {
	left, common, size := map[rune]int{}, 0, 0
	for _, c := range b {
		left[c]++
		size++
	}
	for _, c := range a {
		size++
		if left[c] > 0 {
			left[c]--
			common++
		}
	}
	if size == 0 {
		return 1
	}
	return 2 * float64(common) / float64(size)
}
