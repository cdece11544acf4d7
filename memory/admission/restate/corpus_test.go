package restate

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

type pair struct{ domain, row, text string }

// corpus reads a table of rows at the margin with indented texts below.
func corpus(t *testing.T, file string) []pair {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []pair
	var domain, row string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		switch line := sc.Text(); {
		case strings.HasPrefix(line, "## "):
			domain = line[3:]
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "  "):
			out = append(out, pair{domain, row, strings.TrimSpace(line)})
		default:
			row = line
		}
	}
	return out
}

func TestCorpusOfRestatements(t *testing.T) {
	for _, c := range []struct {
		file        string
		pairs, want int
	}{
		{"testdata/restatements.txt", 250, 75},
		{"testdata/heldout.txt", 50, 65},
	} {
		all := corpus(t, c.file)
		merged, byDomain := 0, map[string][2]int{}
		for _, p := range all {
			n := byDomain[p.domain]
			n[1]++
			v := Compare(Of(p.row), Of(p.text))
			if v.Merges() {
				merged++
				n[0]++
			} else {
				t.Logf("not recognised (%s): %q: %q", v.Reason(), p.row, p.text)
			}
			byDomain[p.domain] = n
		}
		for d, n := range byDomain {
			t.Logf("%-32s %3d of %3d", d, n[0], n[1])
		}
		t.Logf("%s: %d of %d recognised", c.file, merged, len(all))
		if len(all) < c.pairs || merged*100 < c.want*len(all) {
			t.Errorf("%s: %d of %d recognised, want %d%% of at least %d", c.file, merged, len(all), c.want, c.pairs)
		}
	}
}

func TestCorpusOfNearMisses(t *testing.T) {
	all := corpus(t, "testdata/nearmisses.txt")
	reasons := map[string]int{}
	for _, p := range all {
		a, b := Of(p.row), Of(p.text)
		v := Compare(a, b)
		reasons[v.Reason()]++
		if v.Merges() {
			t.Errorf("%q merged with %q (%s)", p.text, p.row, v.Reason())
		}
		if v := Compare(b, a); v.Merges() {
			t.Errorf("%q merged with %q (%s), exchanged", p.row, p.text, v.Reason())
		}
	}
	t.Logf("%d near misses, by reason: %v", len(all), reasons)
	if len(all) < 300 {
		t.Errorf("only %d near misses read", len(all))
	}
}
