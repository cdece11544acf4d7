package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
		f      auditFilter
		limit  int
		echoes bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the moves of one row or of all, newest first",
		Long: `list prints one line for each move: when, who, with which authority, which row,
from what to what, and why. The histories of all rows are read, so on a large store
--row, --tool and --run are faster. Re-entries of a claim move nothing and are left out
without --echoes. Of several filters all must hold.

With -o json: {"schema": "hearsay.audit/1", "entries": […], "more": false}.`,
		Example: "  hearsay audit list -store sqlite:agent.db --limit 20\n  hearsay audit list -store sqlite:agent.db --row k3f9a2b1 -o json",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&f.row, "row", "", "only the moves of this row")
	cmd.Flags().StringVar(&f.tool, "tool", "", "only rows that this tool gave")
	cmd.Flags().StringVar(&f.run, "run", "", "only rows that this run wrote")
	cmd.Flags().StringVar(&f.actor, "by", "", "only moves that this agent, worker or person made")
	cmd.Flags().StringVar(&f.source, "source", "", "only moves on the word of this source")
	cmd.Flags().StringVar(&f.authority, "authority", "", "only moves made with this authority: "+strings.Join(authorityNames(), ", "))
	cmd.Flags().StringVar(&f.since, "since", "", sinceUsage)
	cmd.Flags().StringVar(&f.until, "until", "", "only before this moment, given in the same way")
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
		if err := f.at(s.Now()); err != nil {
			return err
		}
		entries, lost, err := moves(ctx, s, &f, echoes, limit)
		if err != nil {
			return err
		}
		found := auditJSON{Schema: "hearsay.audit/1", Entries: entries}
		if limit > 0 && len(entries) > limit {
			found.Entries, found.More = entries[:limit], true
		}
		if *o == asJSON {
			err = a.emit(found)
		} else {
			err = a.auditTable(found)
		}
		switch first := firstOf(lost); {
		case err != nil || first == nil:
		case errors.Is(first, memory.ErrKey):
			err = fail(exitNo, "audit list: %s cannot be read with this keyring: %w", plural(len(lost), "row"), first).with(keysHint)
		default:
			err = fail(exitTampered, "audit list: %s cannot be read: %w", plural(len(lost), "row"), lost[0]).with("The others are listed. hearsay audit verify says what is not as it was written.")
		}
		return err
	}
	return cmd
}

// auditFilter says which moves are listed.
type auditFilter struct {
	row, tool, run, actor, source, authority, since, until string

	from, to time.Time // of since and until
}

func authorityNames() (names []string) {
	for a := memory.AuthorityUser; a <= memory.AuthoritySystem; a++ {
		names = append(names, a.String())
	}
	return names
}

// at reads since and until, by a clock.
func (f *auditFilter) at(now time.Time) (err error) {
	if f.from, err = pastMoment("--since", f.since, now); err != nil {
		return err
	}
	if f.to, err = pastMoment("--until", f.until, now); err != nil {
		return err
	}
	if f.authority != "" && !slices.Contains(authorityNames(), f.authority) {
		return usage("--authority %q: want one of %s", f.authority, strings.Join(authorityNames(), ", "))
	}
	return nil
}

// wants reports whether an entry is listed; which rows are read is up to rows.
func (f *auditFilter) wants(e *memory.AuditEntry) bool {
	return !e.At.Before(f.from) && (f.to.IsZero() || e.At.Before(f.to)) && (f.actor == "" || e.Actor == f.actor) &&
		(f.source == "" || e.Source == f.source) && (f.authority == "" || e.Authority.String() == f.authority)
}

// rows are the rows whose histories are read: by the narrowest index that there is.
func (f *auditFilter) rows() memory.Filter {
	switch {
	case f.run != "":
		return memory.Filter{Run: f.run}
	case f.tool != "":
		return memory.Filter{Asserter: memory.Asserter{Tool: f.tool}}
	}
	return memory.Filter{}
}

func (f *auditFilter) of(r *memory.Row) bool {
	return (f.run == "" || r.Run == f.run) && (f.tool == "" || r.Asserter.Tool == f.tool)
}

// moves reads the histories of one row or of all, newest entry first. Of more entries
// than limit it keeps one more than that, or somewhat more; 0 = all.
func moves(ctx context.Context, s *memory.Store, f *auditFilter, echoes bool, limit int) (_ []memory.AuditEntry, lost []error, err error) {
	entries := []memory.AuditEntry{}
	inOrder := func() {
		slices.SortStableFunc(entries, func(x, y memory.AuditEntry) int { return x.At.Compare(y.At) })
	}
	add := func(id memory.ID) error {
		history, err := s.History(ctx, id, echoes)
		if unreadable(err) { // it hides no other
			lost = append(lost, fmt.Errorf("row %s: %w", id, err))
			return nil
		}
		if err != nil {
			return err
		}
		for i := range history {
			if history[i].Row = id; f.wants(&history[i]) { // an echo is kept with the claim and names no row
				entries = append(entries, history[i])
			}
		}
		if limit > 0 && len(entries) > 2*limit+1000 {
			inOrder()
			entries = slices.Delete(entries, 0, len(entries)-limit-1)
		}
		return nil
	}
	if f.row != "" {
		r, err := resolve(ctx, s, f.row)
		if err != nil {
			return nil, nil, err
		}
		if f.of(&r) {
			if err := add(r.ID); err != nil {
				return nil, nil, err
			}
		}
	} else {
		for r, err := range s.Rows(ctx, f.rows()) {
			var one *memory.UnreadableError
			if err != nil && !errors.As(err, &one) {
				return nil, nil, err
			}
			if err != nil && (f.run != "" || f.tool != "") || err == nil && !f.of(&r) {
				continue
			}
			if err := add(r.ID); err != nil {
				return nil, nil, err
			}
		}
	}
	inOrder()
	slices.Reverse(entries) // of one moment, the later entry first
	return entries, lost, nil
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
