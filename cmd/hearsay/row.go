package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

func (a *app) rowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "row",
		Short:   "Look at rows, confirm or reject them",
		Example: "  hearsay row list -store sqlite:agent.db --state unverified\n  hearsay row show -store sqlite:agent.db k3f9a2b1",
		RunE:    subcommandWanted,
		Args:    cobra.ArbitraryArgs,
	}
	store := addStoreFlags(cmd)
	cmd.AddCommand(a.listCommand(store), a.showCommand(store), a.treeCommand(store), a.rollbackCommand(store))
	cmd.AddCommand(a.statementCommands(store)...)
	return cmd
}

// rowsJSON is the output of row list.
type rowsJSON struct {
	Schema string       `json:"schema"` // hearsay.rows/1
	Rows   []memory.Row `json:"rows"`   // newest first
	More   bool         `json:"more"`   // more rows match than the limit
}

type listFlags struct {
	state, subject, predicate, model, at string
	limit                                int
}

func (a *app) listCommand(store *storeFlags) *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List rows, newest first",
		Long: `list prints one line for each row, newest first: its state, the end of its id
(which every command takes for the id), how often it was read lately, how many
independent sources support it, how often it came back, who said it, and the claim.

With -o json: {"schema": "hearsay.rows/1", "rows": […], "more": false}. Here as
everywhere, names are stable and are only ever added to.`,
		Example: "  hearsay row list -store sqlite:agent.db --state unverified --limit 20\n" +
			"  hearsay row list -store sqlite:agent.db --subject acme --predicate billing.email -o json",
		Args: args(),
	}
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&f.state, "state", "", "only rows in this state: unverified, unavailable_at_write_time, verified")
	cmd.Flags().StringVar(&f.subject, "subject", "", "only rows about this subject")
	cmd.Flags().StringVar(&f.predicate, "predicate", "", "only rows with this predicate")
	cmd.Flags().StringVar(&f.model, "model", "", "only rows that this model said")
	cmd.Flags().IntVar(&f.limit, "limit", 50, "at most so many rows; 0 = all")
	cmd.Flags().StringVar(&f.at, "at", "", atUsage)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		filter, want, err := f.filter()
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		s, err := a.open(ctx, store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		rows := s.Rows(ctx, filter)
		if f.at != "" {
			at, err := parseMoment(f.at)
			if err != nil {
				return err
			}
			rows = s.RowsAt(ctx, filter, at)
		}
		found := rowsJSON{Schema: "hearsay.rows/1", Rows: []memory.Row{}}
		for r, err := range rows {
			if err != nil {
				return err
			}
			if !want(&r) {
				continue
			}
			if f.limit > 0 && len(found.Rows) == f.limit {
				found.More = true
				break
			}
			found.Rows = append(found.Rows, r)
		}
		if *o == asJSON {
			return a.emit(found)
		}
		return a.listTable(ctx, s, found)
	}
	return cmd
}

// filter chooses the index that narrows best, and what is left to be looked at
// row by row.
func (f *listFlags) filter() (memory.Filter, func(*memory.Row) bool, error) {
	if f.limit < 0 {
		return memory.Filter{}, nil, usage("--limit %d: want 0 or more", f.limit)
	}
	var state memory.State
	if f.state != "" {
		if err := state.UnmarshalText([]byte(f.state)); err != nil {
			return memory.Filter{}, nil, usage("--state %q: want unverified, unavailable_at_write_time or verified", f.state)
		}
	}
	var by memory.Filter
	switch {
	case f.subject != "" && f.predicate != "":
		by = memory.Filter{Subject: f.subject, Predicate: f.predicate}
	case f.model != "":
		by = memory.Filter{Asserter: memory.Asserter{Model: f.model}}
	case state != 0:
		by = memory.Filter{State: state}
	}
	same := func(want, have string) bool { return want == "" || memory.Canonical(want) == memory.Canonical(have) }
	return by, func(r *memory.Row) bool {
		return (state == 0 || r.State() == state) && (f.model == "" || r.Asserter.Model == f.model) &&
			same(f.subject, r.Content.Subject) && same(f.predicate, r.Content.Predicate)
	}, nil
}

func (a *app) listTable(ctx context.Context, s *memory.Store, found rowsJSON) error {
	if len(found.Rows) == 0 {
		fmt.Fprintln(a.talk, "no rows")
		return nil
	}
	t := table{head: []string{"STATE", "ID", "AGE", "READS", "INDEP", "ECHOES", "SAID BY", "CLAIM"}}
	now := s.Now()
	for i := range found.Rows {
		r := &found.Rows[i]
		due, _, err := s.DueMark(ctx, r.ID)
		if err != nil {
			return err
		}
		m := markOf(r)
		t.add(m.color, m.glyph+" "+m.word, short(r.ID), age(now, r.CreatedAt), fmt.Sprintf("%.0f", due.Heat),
			fmt.Sprint(r.Independent()), fmt.Sprint(r.Echoes.Count), saidBy(r.Asserter), claimOf(r))
	}
	if err := a.print(&t); err != nil {
		return err
	}
	if found.More {
		fmt.Fprintf(a.talk, "the newest %s; --limit shows more\n", plural(len(found.Rows), "row"))
	}
	return nil
}

// rowJSON is the output of row show.
type rowJSON struct {
	Schema    string         `json:"schema"` // hearsay.row/1
	Row       memory.Row     `json:"row"`
	Tag       string         `json:"tag"` // the line as a model is shown it
	Supports  supportsJSON   `json:"supports"`
	Decisions []decisionJSON `json:"decisions"` // newest first
	Due       *dueJSON       `json:"due,omitempty"`
	Heat      float64        `json:"heat"` // decayed reads; orders checks, proves nothing
}

// supportsJSON splits what speaks for a row into what counts and what does not.
type supportsJSON struct {
	Groups      int               `json:"groups"`      // independence groups behind Independent
	Independent []memory.Evidence `json:"independent"` // standing, of rank second_model or higher
	NotCounted  []memory.Evidence `json:"not_counted"` // voided, or no more than the word of a model
	Against     []memory.Evidence `json:"against"`
	Context     []memory.Evidence `json:"context"`
	Echoes      memory.Echoes     `json:"echoes"`
}

type decisionJSON struct {
	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	Tool      string    `json:"tool"`
	Run       string    `json:"run"`
	Fired     bool      `json:"fired"`
	Dependent bool      `json:"dependent"` // it fired, and the row lost trust afterwards
	Revision  uint64    `json:"revision"`  // the fitness version of the row it stood on
}

type dueJSON struct {
	At     time.Time `json:"at,omitzero"` // not before
	Parked bool      `json:"parked"`
	Reason string    `json:"reason"`
	Tries  int       `json:"tries"`
}

const atUsage = "as it was at this time, as 2026-04-17T09:00:00Z, or at this sequence of an audit entry"

// parseMoment reads a time or a sequence.
func parseMoment(text string) (memory.Sequence, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return memory.SequenceAt(at), nil
	}
	var q memory.Sequence
	if err := q.UnmarshalText([]byte(text)); err != nil {
		return 0, usage("--at %q: want a time as 2026-04-17T09:00:00Z, or a sequence", text)
	}
	return q, nil
}

func (a *app) rollbackCommand(store *storeFlags) *cobra.Command {
	var (
		revision uint64
		reason   string
	)
	cmd := &cobra.Command{
		Use:   "rollback ID",
		Short: "Retract a row; what it displaced comes back to be checked",
		Long: `rollback retracts a row: it is kept, and no longer used. If its verification had
demoted another row of the same subject and predicate, that one comes back, unverified
and due for a check at once: a rollback proves nothing.

It is an operator's act and needs no key; a person's word about a row is confirm,
reject or contradict.`,
		Example: "  hearsay row rollback k3f9a2b1 --store sqlite:agent.db --revision 2 --reason 'a bad import'",
		Args:    args("ID"),
	}
	cmd.Flags().Uint64Var(&revision, "revision", 0, "the version that you looked at (hearsay row show prints it)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	cmd.RunE = func(cmd *cobra.Command, got []string) error {
		if reason == "" || revision == 0 {
			return usage("row rollback: --revision N and --reason TEXT are needed")
		}
		s, err := a.open(cmd.Context(), store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		r, err := resolve(cmd.Context(), s, got[0])
		if err != nil {
			return err
		}
		done, err := s.Rollback(cmd.Context(), memory.Rollback{Row: r.ID, Revision: revision, Authority: memory.AuthorityPolicy, Actor: operator(), Reason: reason})
		if err != nil {
			return err
		}
		if done.Restored == "" {
			return a.write(fmt.Sprintf("retracted %s; it had displaced no row\n", r.ID))
		}
		return a.write(fmt.Sprintf("retracted %s; %s is back, unverified\n", r.ID, done.Restored))
	}
	return cmd
}

func (a *app) showCommand(store *storeFlags) *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show all that is known of one row",
		Long: `show prints one row: who said it, its state and axes, the line as a model is
shown it, what supports it (independent sources apart from echoes), which
decisions cite it, and when it is checked next.

With -o json: {"schema": "hearsay.row/1", "row", "tag", "supports": {"groups",
"independent", "not_counted", "against", "context", "echoes"}, "decisions", "due",
"heat"}.`,
		Example: "  hearsay row show -store sqlite:agent.db k3f9a2b1\n  hearsay row show -store sqlite:agent.db k3f9a2b1 -o json",
		Args:    args("ID"),
	}
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&at, "at", "", atUsage)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		s, err := a.open(ctx, store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		r, err := resolve(ctx, s, args[0])
		if err != nil {
			return err
		}
		shown, err := look(ctx, s, r)
		if err != nil {
			return err
		}
		if at != "" {
			q, err := parseMoment(at)
			if err != nil {
				return err
			}
			if r, err = s.RowAt(ctx, r.ID, q); err != nil {
				return err
			}
			shown = rowJSON{Schema: "hearsay.row/1", Row: r, Tag: recall.Line(s.Now(), r), Supports: supportsOf(&r), Decisions: []decisionJSON{}}
		}
		if *o == asJSON {
			return a.emit(shown)
		}
		if err := a.showText(s.Now(), shown); err != nil {
			return err
		}
		fmt.Fprintf(a.talk, "to decide: hearsay row confirm|reject|contradict %s --revision %d --key FILE --as NAME --reason TEXT\n", r.ID, r.Revision)
		return nil
	}
	return cmd
}

// look gathers what row show prints.
func look(ctx context.Context, s *memory.Store, r memory.Row) (rowJSON, error) {
	shown := rowJSON{Schema: "hearsay.row/1", Row: r, Tag: recall.Line(s.Now(), r), Supports: supportsOf(&r)}
	due, ok, err := s.DueMark(ctx, r.ID)
	if err != nil {
		return rowJSON{}, err
	}
	if shown.Heat = due.Heat; ok {
		shown.Due = &dueJSON{At: due.At, Parked: due.At.IsZero(), Reason: due.Reason, Tries: due.Tries}
	}
	shown.Decisions, err = citing(ctx, s, r.ID)
	return shown, err
}

func citing(ctx context.Context, s *memory.Store, id memory.ID) ([]decisionJSON, error) {
	cited, err := s.DecisionsCiting(ctx, id)
	if err != nil {
		return nil, err
	}
	out := make([]decisionJSON, 0, len(cited))
	for _, c := range cited {
		d := decisionJSON{ID: c.ID, At: c.At, Tool: c.Tool, Run: c.Run, Fired: c.Fired, Dependent: c.Dependent}
		for _, on := range c.Rows {
			if on.Row == id {
				d.Revision = on.Revision
			}
		}
		out = append(out, d)
	}
	return out, nil
}

func supportsOf(r *memory.Row) supportsJSON {
	s := supportsJSON{Groups: r.Independent(), Independent: []memory.Evidence{}, NotCounted: []memory.Evidence{},
		Against: []memory.Evidence{}, Context: []memory.Evidence{}, Echoes: r.Echoes}
	for _, e := range r.Evidence {
		switch {
		case e.Relation == memory.RelationContradicts:
			s.Against = append(s.Against, e)
		case e.Relation == memory.RelationContextualizes:
			s.Context = append(s.Context, e)
		case e.Void || e.Rank <= memory.RankModel:
			s.NotCounted = append(s.NotCounted, e)
		default:
			s.Independent = append(s.Independent, e)
		}
	}
	return s
}

// card prints "label  text" lines.
type card struct{ strings.Builder }

func (c *card) line(label, format string, args ...any) {
	fmt.Fprintf(c, "%-14s%s\n", label, fmt.Sprintf(format, args...))
}

func (a *app) showText(now time.Time, shown rowJSON) error {
	r, c := &shown.Row, card{}
	hash := r.Content.Hash()
	m := markOf(r)
	fmt.Fprintf(&c, "%s  %s\n", a.paint(m.glyph+" "+m.word, m.color), claimOf(r))
	c.line("id", "%s", r.ID)
	c.line("fitness", "version %d, content %s", r.Revision, hex.EncodeToString(hash[:8]))
	who := ""
	if f := r.Asserter.Family; f != "" {
		who = ", family " + oneLine(f, maxName)
	}
	if r.Asserter.Principal != "" && saidBy(r.Asserter) != oneLine(r.Asserter.Principal, maxName) {
		who += ", for " + oneLine(r.Asserter.Principal, maxName)
	}
	if r.Run != "" {
		who += ", run " + oneLine(r.Run, maxName)
	}
	c.line("said by", "%s%s, %s (%s ago)", saidBy(r.Asserter), who, moment(r.CreatedAt), age(now, r.CreatedAt))
	c.line("origin", "%s, depth %d", r.Origin, r.Depth)
	state := r.State().String()
	if r.State() == memory.StateVerified {
		state += ", rank " + r.Rank.String() + ", since " + moment(r.VerifiedAt)
	}
	c.line("state", "%s", state)
	c.line("axes", "truth %s, retrieval %s, security %s, freshness %s, outage %s", r.Truth, r.Retrieval, r.Security, r.FreshnessAt(now), r.Outage)
	if names := r.Flags.Names(); len(names) > 0 {
		c.line("flags", "%s", strings.Join(names, ", "))
	}
	if r.Rejection != nil {
		c.line("rejected", "by %s, %s: %s", oneLine(r.Rejection.By, maxName), moment(r.Rejection.At), oneLine(r.Rejection.Reason, maxClaim))
	}
	c.line("for whom", "sensitivity %s, criticality %s", r.Sensitivity, r.Criticality)
	c.line("valid", "stale %s, expires %s", moment(r.StaleAt), moment(r.ExpiresAt))
	c.line("to a model", "%s", oneLine(shown.Tag, 2*maxClaim))
	c.ids("made from", r.DerivedFrom)
	c.ids("selected by", r.SelectedBy)
	c.supports(shown.Supports)
	c.decisions(shown.Decisions)
	switch d := shown.Due; {
	case d == nil:
		c.line("next check", "none")
	case d.Parked:
		c.line("next check", "parked after %d tries: %s", d.Tries, oneLine(d.Reason, maxClaim))
	default:
		c.line("next check", "%s, tried %d times: %s", moment(d.At), d.Tries, oneLine(d.Reason, maxClaim))
	}
	c.line("heat", "%.1f (reads; they order the checks and prove nothing)", shown.Heat)
	return a.write(c.String())
}

func (c *card) ids(label string, ids []memory.ID) {
	for i, id := range ids {
		if i == 10 {
			c.line("", "and %d more", len(ids)-i)
			return
		}
		c.line(label, "%s", id)
		label = ""
	}
}

func (c *card) supports(s supportsJSON) {
	c.line("independent", "%s", plural(s.Groups, "source"))
	c.evidence("+", s.Independent)
	if s.Echoes.Count > 0 {
		c.line("echoes", "~ %s", echoes(s.Echoes))
	}
	if n := len(s.NotCounted); n > 0 {
		c.line("not counted", "%d", n)
		c.evidence("~", s.NotCounted)
	}
	if n := len(s.Against); n > 0 {
		c.line("against", "%d", n)
		c.evidence("-", s.Against)
	}
	if n := len(s.Context); n > 0 {
		c.line("beside it", "%d", n)
		c.evidence("=", s.Context)
	}
}

// echoes says how often a claim came back, and what that is worth.
func echoes(e memory.Echoes) string {
	s := plural(e.Count, "recall")
	if e.Reworded > 0 {
		s += fmt.Sprintf(", %d reworded", e.Reworded)
	}
	return s + ": they add nothing"
}

func (c *card) evidence(sign string, list []memory.Evidence) {
	for _, e := range list {
		void := ""
		if e.Void {
			void = " (void)"
		}
		at := ""
		if e.Anchor.URI != "" {
			at = ", at " + oneLine(e.Anchor.URI, maxClaim)
		}
		if e.Anchor.Version != "" {
			at += ", version " + oneLine(e.Anchor.Version, maxName)
		}
		c.line("", "%s %s %s%s, %s, group %s%s", sign, e.Rank, oneLine(e.Source, maxName), void, moment(e.At), oneLine(e.Group, maxName), at)
	}
}

func (c *card) decisions(list []decisionJSON) {
	c.line("decisions", "%d that cite it", len(list))
	for i, d := range list {
		if i == 10 {
			c.line("", "and %d more; -o json has all", len(list)-i)
			return
		}
		what := "did not run"
		if d.Fired {
			what = "ran"
		}
		if d.Dependent {
			what += "; DEPENDENT: the row lost trust after it ran"
		}
		c.line("", "%s  %s  %s on version %d %s", moment(d.At), oneLine(d.ID, maxName), oneLine(d.Tool, maxName), d.Revision, what)
	}
}
