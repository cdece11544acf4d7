package rules

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestTheMostAlikeRowIsFound compares the search by rare trigrams with one over all rows.
func TestTheMostAlikeRowIsFound(t *testing.T) {
	found, none := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"the", "invoice", "of", "alder", "bay", "bakery", "is", "paid", "unpaid", "a", "aaaa", "12", "123456", "é"})
		sentence := rapid.Map(rapid.SliceOfN(word, 0, 9), func(words []string) string { return strings.Join(words, " ") })
		s, rows := similarity.empty(), rapid.SliceOfN(sentence, 0, 40).Draw(t, "rows")
		for i, text := range rows {
			s.rows = append(s.rows, &row{at: i, key: text})
			if rapid.Bool().Draw(t, "indexed between") {
				s.indexTrigrams()
			}
		}
		s.indexTrigrams()
		if len(rows) > 0 { // what was never said before is hardly ever found
			sentence = rapid.OneOf(sentence, rapid.SampledFrom(rows))
		}
		of := trigramsOf(sentence.Draw(t, "text"))
		var want *row
		most := alike
		for _, r := range s.rows {
			if c := cosine(of, r.trigrams); c > most || c == most && want == nil {
				want, most = r, c
			}
		}
		if got := s.mostAlike(of); got != want {
			t.Fatalf("found %+v, want %+v", got, want)
		}
		if want == nil {
			none++
		} else {
			found++
		}
	})
	if found == 0 || none == 0 {
		t.Errorf("%d found, %d not", found, none)
	}
}
