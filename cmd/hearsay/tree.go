package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory"
)

// treeJSON is the output of row tree: every row once, the edges in derived_from.
type treeJSON struct {
	Schema   string     `json:"schema"` // hearsay.tree/1
	Root     memory.ID  `json:"root"`
	Depth    int        `json:"depth"`    // of the --depth flag; 0 = no limit
	Complete bool       `json:"complete"` // false if --depth cut something
	Nodes    []nodeJSON `json:"nodes"`    // the root first, then nearest first
}

type nodeJSON struct {
	ID          memory.ID       `json:"id"`
	State       memory.State    `json:"state"`
	Mark        string          `json:"mark"` // the word people see: verified, unverified, recalled, contradicted, …
	Origin      string          `json:"origin"`
	Asserter    memory.Asserter `json:"asserter"`
	Content     memory.Content  `json:"content"`
	CreatedAt   time.Time       `json:"created_at"`
	Hops        int             `json:"hops"` // from the root, by the shortest way
	DerivedFrom []memory.ID     `json:"derived_from"`
	Cut         bool            `json:"cut"` // its parents are not among the nodes
	Independent int             `json:"independent"`
	Echoes      memory.Echoes   `json:"echoes"`
}

func (a *app) treeCommand(store *storeFlags) *cobra.Command {
	depth := 0
	cmd := &cobra.Command{
		Use:   "tree ID",
		Short: "Show what a row was made from, up to where nobody knows more",
		Long: `tree prints the lineage of a row upward: under each row the rows it was made
from. A row that is met again is printed once more, in short, with "(above)". A cut
by --depth is said. What came back from memory is counted and adds nothing.

With -o json: {"schema": "hearsay.tree/1", "root", "depth", "complete", "nodes":
[{"id", "derived_from", "hops", "cut", …}]}, each row once.`,
		Example: "  hearsay row tree -store sqlite:agent.db k3f9a2b1\n  hearsay row tree -store sqlite:agent.db k3f9a2b1 --depth 2",
		Args:    args("ID"),
	}
	o := outputFlag(cmd)
	cmd.Flags().IntVar(&depth, "depth", 0, "at most so many hops up; 0 = all the way")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if depth < 0 {
			return usage("--depth %d: want 0 or more", depth)
		}
		ctx := cmd.Context()
		s, err := a.open(ctx, store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		root, err := resolve(ctx, s, args[0])
		if err != nil {
			return err
		}
		l, err := trace(ctx, s, root, depth)
		if err != nil {
			return err
		}
		if *o == asJSON {
			return a.emit(l.json())
		}
		return a.write(a.draw(l))
	}
	return cmd
}

// lineage is the rows above a row, breadth first.
type lineage struct {
	depth int
	order []memory.ID
	rows  map[memory.ID]memory.Row
	hops  map[memory.ID]int
}

// trace walks up from root, one round of reads per hop.
func trace(ctx context.Context, s *memory.Store, root memory.Row, depth int) (*lineage, error) {
	l := &lineage{depth: depth, order: []memory.ID{root.ID}, rows: map[memory.ID]memory.Row{root.ID: root}, hops: map[memory.ID]int{root.ID: 0}}
	level := []memory.Row{root}
	for hop := 1; len(level) > 0 && (depth == 0 || hop <= depth); hop++ {
		var want []memory.ID
		for _, r := range level {
			for _, p := range r.DerivedFrom {
				if _, known := l.hops[p]; !known {
					l.hops[p] = hop
					want = append(want, p)
				}
			}
		}
		var err error
		if level, err = s.Get(ctx, want...); err != nil {
			return nil, err
		}
		for _, r := range level {
			l.rows[r.ID] = r
		}
		if l.order = append(l.order, want...); len(l.order) > memory.MaxClosure {
			return nil, fail(exitFailed, "%w: more than %d rows; use --depth", memory.ErrClosureTooLarge, memory.MaxClosure)
		}
	}
	return l, nil
}

// cut counts the parents of a row that --depth left out.
func (l *lineage) cut(r *memory.Row) int {
	n := 0
	for _, p := range r.DerivedFrom {
		if _, here := l.rows[p]; !here {
			n++
		}
	}
	return n
}

func (l *lineage) json() treeJSON {
	t := treeJSON{Schema: "hearsay.tree/1", Root: l.order[0], Depth: l.depth, Complete: true, Nodes: []nodeJSON{}}
	for _, id := range l.order {
		r := l.rows[id]
		n := nodeJSON{ID: id, State: r.State(), Mark: markOf(&r).word, Origin: r.Origin.String(), Asserter: r.Asserter, Content: r.Content, CreatedAt: r.CreatedAt,
			Hops: l.hops[id], DerivedFrom: append([]memory.ID{}, r.DerivedFrom...), Cut: l.cut(&r) > 0, Independent: r.Independent(), Echoes: r.Echoes}
		t.Complete = t.Complete && !n.Cut
		t.Nodes = append(t.Nodes, n)
	}
	return t
}

// draw prints the lineage as a tree. A frame of the walk is kept on a stack of
// its own, since a lineage may be thousands of hops deep.
func (a *app) draw(l *lineage) string {
	type item struct {
		text  string    // of a leaf that is no row
		id    memory.ID // of a row
		lead  string    // what stands before its children
		first string    // what stands before itself
	}
	var b strings.Builder
	seen := map[memory.ID]bool{}
	stack := []item{{id: l.order[0]}}
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if at.id == "" {
			b.WriteString(at.first + at.text + "\n")
			continue
		}
		r := l.rows[at.id]
		m := markOf(&r)
		b.WriteString(at.first + a.paint(m.glyph, m.color) + " " + short(r.ID) + "  " + claimOf(&r))
		if seen[at.id] {
			b.WriteString("  (above)\n")
			continue
		}
		seen[at.id] = true
		fmt.Fprintf(&b, "    %s\n", about(&r, m))

		var below []item
		if r.Echoes.Count > 0 {
			below = append(below, item{text: a.paint("~ "+echoes(r.Echoes), dim)})
		}
		if r.Has(memory.FlagLineageUnknown) {
			below = append(below, item{text: a.paint("? part of what it was made from is not known", yellow)})
		}
		for _, p := range r.DerivedFrom {
			if _, here := l.rows[p]; here {
				below = append(below, item{id: p})
			}
		}
		if n := l.cut(&r); n > 0 {
			below = append(below, item{text: fmt.Sprintf("… %s not shown: cut at --depth %d", plural(n, "parent"), l.depth)})
		}
		for i := len(below) - 1; i >= 0; i-- { // the first one on top of the stack
			branch, trunk := "├── ", "│   "
			if i == len(below)-1 {
				branch, trunk = "└── ", "    "
			}
			below[i].first, below[i].lead = at.lead+branch, at.lead+trunk
			stack = append(stack, below[i])
		}
	}
	return b.String()
}

// about says in a few words who said a row, when, and what stands behind it.
func about(r *memory.Row, m mark) string {
	s := m.word
	if r.State() == memory.StateVerified {
		s += " (" + r.Rank.String() + ")"
	}
	who := "said by "
	switch r.Origin {
	case memory.OriginFirstHand:
		who = "returned by "
	case memory.OriginUserAsserted:
		who = "stated by "
	}
	s += ", " + who + saidBy(r.Asserter) + " " + r.CreatedAt.UTC().Format("2006-01-02")
	if n := r.Independent(); n > 0 {
		s += ", " + plural(n, "independent source")
	}
	return s
}
