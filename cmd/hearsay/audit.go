package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory"
)

func (a *app) auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "audit",
		Short:   "See who moved what, and why; prove that nothing of it was changed",
		Example: "  hearsay audit list -store sqlite:agent.db --row k3f9a2b1\n  hearsay audit verify -store sqlite:agent.db --checkpoint-keys audit.pub",
		RunE:    subcommandWanted,
		Args:    cobra.ArbitraryArgs,
	}
	store := addStoreFlags(cmd)
	cmd.AddCommand(a.auditListCommand(store), a.auditVerifyCommand(store), a.auditCheckpointCommand(store), a.auditExportCommand(store), a.auditKeygenCommand())
	return cmd
}

// auditJSON is the output of audit list.
type auditJSON struct {
	Schema  string              `json:"schema"`  // hearsay.audit/1
	Entries []memory.AuditEntry `json:"entries"` // newest first
	More    bool                `json:"more"`    // more entries than the limit
}

func (a *app) auditListCommand(store *storeFlags) *cobra.Command {
	var (
		row    string
		limit  int
		echoes bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the moves of one row or of all, newest first",
		Long: `list prints one line for each move: when, who, with which authority, which row,
from what to what, and why. The histories of all rows are read, so on a large store
--row is faster. Re-entries of a claim move nothing and are left out without --echoes.

With -o json: {"schema": "hearsay.audit/1", "entries": […], "more": false}.`,
		Example: "  hearsay audit list -store sqlite:agent.db --limit 20\n  hearsay audit list -store sqlite:agent.db --row k3f9a2b1 -o json",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&row, "row", "", "only the moves of this row")
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many entries; 0 = all")
	cmd.Flags().BoolVar(&echoes, "echoes", false, "with the re-entries of the claim, which move nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 0 {
			return usage("--limit %d: want 0 or more", limit)
		}
		ctx := cmd.Context()
		s, err := a.open(ctx, store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		entries, err := moves(ctx, s, row, echoes, limit)
		if err != nil {
			return err
		}
		found := auditJSON{Schema: "hearsay.audit/1", Entries: entries}
		if limit > 0 && len(entries) > limit {
			found.Entries, found.More = entries[:limit], true
		}
		if *o == asJSON {
			return a.emit(found)
		}
		return a.auditTable(found)
	}
	return cmd
}

// moves reads the histories of one row or of all, newest entry first. Of more entries
// than limit it keeps one more than that, or somewhat more; 0 = all.
func moves(ctx context.Context, s *memory.Store, row string, echoes bool, limit int) ([]memory.AuditEntry, error) {
	entries := []memory.AuditEntry{}
	inOrder := func() {
		slices.SortStableFunc(entries, func(x, y memory.AuditEntry) int { return x.At.Compare(y.At) })
	}
	add := func(id memory.ID) error {
		history, err := s.History(ctx, id, echoes)
		if err != nil {
			return err
		}
		for i := range history {
			history[i].Row = id // an echo is kept with the claim and names no row
		}
		entries = append(entries, history...)
		if limit > 0 && len(entries) > 2*limit+1000 {
			inOrder()
			entries = slices.Delete(entries, 0, len(entries)-limit-1)
		}
		return nil
	}
	if row != "" {
		r, err := resolve(ctx, s, row)
		if err != nil {
			return nil, err
		}
		if err := add(r.ID); err != nil {
			return nil, err
		}
	} else {
		for r, err := range s.Rows(ctx, memory.Filter{}) {
			if err != nil {
				return nil, err
			}
			if err := add(r.ID); err != nil {
				return nil, err
			}
		}
	}
	inOrder()
	slices.Reverse(entries) // of one moment, the later entry first
	return entries, nil
}

func (a *app) auditTable(found auditJSON) error {
	if len(found.Entries) == 0 {
		fmt.Fprintln(a.talk, "no entries")
		return nil
	}
	t := table{head: []string{"TIME", "WHO", "AUTHORITY", "ROW", "MOVE", "WHY"}}
	for i := range found.Entries {
		e := &found.Entries[i]
		t.add("", moment(e.At), oneLine(e.Actor, maxName), e.Authority.String(), short(e.Row), moveOf(e), oneLine(e.Reason, maxClaim))
	}
	if err := a.print(&t); err != nil {
		return err
	}
	if found.More {
		fmt.Fprintf(a.talk, "the newest %d; --limit shows more\n", len(found.Entries))
	}
	return nil
}

// moveOf says what an entry did, in the words of the axis.
func moveOf(e *memory.AuditEntry) string {
	switch e.Kind {
	case memory.EntryWrite:
		return "written " + e.To
	case memory.EntryErase:
		return "erased"
	case memory.EntryTransition, memory.EntryReject, memory.EntryRollback:
		return e.Axis.String() + " " + e.From + " → " + e.To
	case memory.EntryReaffirm:
		return "verified again"
	case memory.EntryContest:
		return "contested, stays " + e.To
	case memory.EntryEvidence:
		s := "evidence"
		for i, v := range e.Evidence {
			if i == 2 {
				return s + " …"
			}
			s += " " + v.Relation.String()
		}
		return s
	case memory.EntryEcho:
		return "came back, moved nothing"
	}
	return oneLine(string(e.Kind), maxName)
}
