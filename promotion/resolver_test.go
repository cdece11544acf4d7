package promotion_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier"
)

var update = flag.Bool("update", false, "write the table of docs/promotion.md anew")

// standings are all the ways in which a row may stand, as far as the rule looks.
func standings() (names []string, rows []memory.Row) {
	add := func(name string, row memory.Row) { names, rows = append(names, name), append(rows, row) }
	fresh := func(row memory.Row) memory.Row { row.Freshness = memory.FreshnessFresh; return row }
	outage := standing(memory.TruthUnverified, 0, "")
	outage.Outage = memory.OutageRecorded
	denied := func(truth memory.Truth, rank memory.Rank, by string) memory.Row {
		row := standing(truth, 0, "")
		row.Evidence = []memory.Evidence{{Relation: memory.RelationContradicts, Rank: rank, Group: by}}
		return row
	}
	rejected := standing(memory.TruthContradicted, 0, "")
	rejected.Rejection = &memory.Rejection{By: "ana"}
	add("unverified", standing(memory.TruthUnverified, 0, ""))
	add("unavailable at write time", outage)
	add("unverified, denied by another model", denied(memory.TruthUnverified, memory.RankSecondModel, "other"))
	add("contradicted by another tool", denied(memory.TruthContradicted, memory.RankTool, "other"))
	add("contradicted by another primary source", denied(memory.TruthContradicted, memory.RankPrimarySource, "other"))
	add("contradicted by the one asked", denied(memory.TruthContradicted, memory.RankTool, "asked"))
	for rank := memory.RankSecondModel; rank <= memory.RankUser; rank++ {
		add("verified by another "+strings.ReplaceAll(rank.String(), "_", " "), fresh(standing(memory.TruthSupported, rank, "other")))
		if rank < memory.RankUser {
			add("verified by the one asked, rank "+strings.ReplaceAll(rank.String(), "_", " "), fresh(standing(memory.TruthSupported, rank, "asked")))
		}
	}
	add("rejected by a user", rejected)
	add("retracted", standing(memory.TruthSuperseded, 0, ""))
	outdated := standing(memory.TruthSuperseded, 0, "")
	outdated.Flags |= memory.FlagOutdated
	add("superseded by its own source", outdated)
	return names, rows
}

// resolver is the whole rule as a table. No verifier has the ranks that it leaves out.
func resolver() string {
	var b strings.Builder
	b.WriteString("| the row is | one model | second model | tool | primary source |\n|---|---|---|---|---|\n")
	names, rows := standings()
	for i, name := range names {
		fmt.Fprintf(&b, "| %s |", name)
		for rank := memory.RankModel; rank <= memory.RankPrimarySource; rank++ {
			var actions []string
			for _, o := range []verifier.Outcome{verifier.Supported, verifier.Refuted, verifier.Gone} {
				v := verdict(o, rank, "asked")
				if o == verifier.Gone {
					v.Evidence.Relation = memory.RelationContextualizes
				}
				actions = append(actions, promotion.Next(rows[i], v).Action.String())
			}
			fmt.Fprintf(&b, " %s |", strings.Join(actions, "/"))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// The table in docs/promotion.md is the rule, over every rank, state and relation.
func TestTheResolversTableIsTheOneInTheDocs(t *testing.T) {
	const path, begin, end = "../docs/promotion.md", "<!-- resolver: written by go test ./promotion -run Resolver -update -->\n", "<!-- end -->"
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(doc), begin)
	table, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", path)
	}
	if table == resolver() {
		return
	}
	if !*update {
		t.Fatalf("%s has another table than the rule; look at the difference and run with -update\n%s", path, resolver())
	}
	if err := os.WriteFile(path, []byte(head+begin+resolver()+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What holds in every cell of the table, whatever the golden file says.
func TestWhatNoCellOfTheResolverMayBreak(t *testing.T) {
	names, rows := standings()
	for i, row := range rows {
		for rank := memory.RankRecall; rank <= memory.RankUser; rank++ {
			for _, o := range []verifier.Outcome{verifier.Unknown, verifier.Supported, verifier.Refuted, verifier.Unclear, verifier.Gone} {
				v := verdict(o, rank, "asked")
				if o == verifier.Gone {
					v.Evidence.Relation = memory.RelationContextualizes
				}
				m := promotion.Next(row, v)
				byUser := row.Rejection != nil || row.Truth == memory.TruthSupported && row.Rank == memory.RankUser
				for rule, broken := range map[string]bool{
					"no verifier speaks for a user, and a recall says nothing": (rank == memory.RankUser || rank == memory.RankRecall) && m.Action != promotion.Nothing,
					"only support promotes":                                        m.Action == promotion.Promote && o != verifier.Supported,
					"only a refutation demotes":                                    m.Action == promotion.Demote && o != verifier.Refuted,
					"what is gone refutes nothing":                                 o == verifier.Gone && m.Action != promotion.Keep && m.Action != promotion.Age && m.Action != promotion.Nothing,
					"after a user's word a verdict is only reported (SR-7.5)":      byUser && m.Action != promotion.Keep && m.Action != promotion.Nothing,
					"a lower rank takes nothing away (X-5)":                        row.Truth == memory.TruthSupported && rank < row.Rank && m.Action != promotion.Keep && m.Action != promotion.Nothing,
					"a model demotes no more than models verified":                 m.Action == promotion.Demote && rank < memory.RankTool && row.Rank != memory.RankSecondModel,
					"an answer that was no verdict moves nothing and ends nothing": o == verifier.Unknown && (m.Action != promotion.Nothing || m.Answered),
				} {
					if broken {
						t.Errorf("%s; %s by a %s gives %s: %s", names[i], o, rank, m.Action, rule)
					}
				}
			}
		}
	}
}
