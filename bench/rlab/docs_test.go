package rlab

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestTheDocsNameEveryMeasure with its title, its name in the JSON and its target, and no other.
func TestTheDocsNameEveryMeasure(t *testing.T) {
	text, err := os.ReadFile("../../docs/bench.md")
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ title, target, text string }
	rows := map[string]row{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if name := strings.Trim(cells[min(1, len(cells)-1)], " `"); len(cells) == 4 && strings.HasPrefix(cells[1], "`") {
			rows[name] = row{strings.TrimSpace(cells[0]), cells[2], cells[3]}
		}
	}
	used, aimed := map[string]bool{}, map[string]bool{}
	for _, s := range Scenarios() {
		for _, m := range s.measures {
			r, is := rows[m.name]
			if !is || r.title != m.title && !strings.Contains(r.text, `"`+m.title+`"`) {
				t.Errorf("%s: %s, %q: the docs have %+v", s.ID, m.name, m.title, r)
			}
			if used[m.name] = true; m.none {
				continue
			}
			aimed[m.name] = true
			if want := fmt.Sprintf("%g", m.target); r.target != want && !strings.HasPrefix(r.target, want+" ") {
				t.Errorf("%s: %s: target %s, the docs have %q", s.ID, m.name, want, r.target)
			}
		}
	}
	for name, r := range rows {
		if !used[name] || aimed[name] == (r.target == "none") {
			t.Errorf("%s: used %t, with a target %t; the docs have %+v", name, used[name], aimed[name], r)
		}
	}
	if len(used) < 30 {
		t.Errorf("%d measures", len(used))
	}
}
