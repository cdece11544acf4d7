package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/gate/confirm"
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
	cmd.AddCommand(a.listCommand(store), a.showCommand(store), a.treeCommand(store), a.rollbackCommand(store), a.clearDamageCommand(store))
	cmd.AddCommand(a.statementCommands(store)...)
	return cmd
}

// rowsJSON is the output of row list.
type rowsJSON struct {
	Schema string       `json:"schema"` // hearsay.row_list/1
	Rows   []memory.Row `json:"rows"`   // newest first
	More   bool         `json:"more"`   // more rows match than the limit
	// Damaged are rows that are not what was written, in words; whether they match is
	// not known.
	Damaged []string `json:"damaged,omitempty"`
}

type listFlags struct {
	state, subject, predicate, model, at, expiring string
	limit                                          int
}

func (a *app) listCommand(store *storeFlags) *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List rows, newest first",
		Long: `list prints one line for each row, newest first: its state, the end of its id
(which every command takes for the id), how often it was read lately, how many
independent sources support it, how often it came back, who said it, and the claim.

With --expiring it lists the verified rows that a call will be held on by then, unless
a source or a person looks at them again: the first to expire first, with when each is
stale (it is tagged so) and when it has expired (it holds calls).

With -o json: {"schema": "hearsay.row_list/1", "rows": […], "more": false}. Here as
everywhere, names are stable and are only ever added to.`,
		Example: "  hearsay row list -store sqlite:agent.db --state unverified --limit 20\n" +
			"  hearsay row list -store sqlite:agent.db --subject acme --predicate billing.email -o json\n" +
			"  hearsay row list -store sqlite:agent.db --expiring 14d",
		Args: args(),
	}
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&f.state, "state", "", "only rows in this state: unverified (what was contradicted or rejected too), unavailable_at_write_time, verified")
	cmd.Flags().StringVar(&f.subject, "subject", "", "only rows about this subject, and about those spelled alike")
	cmd.Flags().StringVar(&f.predicate, "predicate", "", "only rows with this predicate")
	cmd.Flags().StringVar(&f.model, "model", "", "only rows that this model said")
	cmd.Flags().IntVar(&f.limit, "limit", 50, "at most so many rows; 0 = all")
	cmd.Flags().StringVar(&f.at, "at", "", atUsage)
	cmd.Flags().StringVar(&f.expiring, "expiring", "", "only verified rows that expire within this time, as 14d or 36h; those that have expired too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		within, err := f.within()
		if err != nil {
			return err
		}
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
		found := rowsJSON{Schema: "hearsay.row_list/1", Rows: []memory.Row{}}
		soon := s.Now().Add(within)
		var damaged []error
		for r, err := range rows {
			var unreadable *memory.UnreadableError
			if errors.As(err, &unreadable) { // the others are listed all the same
				damaged = append(damaged, err)
				continue
			}
			if err != nil {
				return err
			}
			if !want(&r) || f.expiring != "" && ends(&r).After(soon) {
				continue
			}
			if f.expiring == "" && f.limit > 0 && len(found.Rows) == f.limit {
				found.More = true
				break
			}
			found.Rows = append(found.Rows, r)
		}
		if f.expiring != "" {
			slices.SortStableFunc(found.Rows, func(a, b memory.Row) int { return ends(&a).Compare(ends(&b)) })
			if f.limit > 0 && len(found.Rows) > f.limit {
				found.Rows, found.More = found.Rows[:f.limit], true
			}
		}
		for _, err := range damaged {
			found.Damaged = append(found.Damaged, oneLine(err.Error(), maxMessage))
		}
		switch {
		case *o == asJSON:
			err = a.emit(found)
		case f.expiring != "":
			err = a.expiringTable(s.Now(), found)
		default:
			err = a.listTable(ctx, s, found)
		}
		switch first := firstOf(damaged); {
		case err != nil || first == nil:
		case errors.Is(first, memory.ErrKey):
			err = fail(exitNo, "row list: %d rows cannot be read with this keyring: %w", len(damaged), first).with(keysHint)
		default:
			err = fail(exitTampered, "row list: %d rows are damaged: %w", len(damaged), first).with("The others are listed. hearsay audit verify says what is not as it was written.")
		}
		return err
	}
	return cmd
}

// keysHint is said where the keyring lacks keys of some rows.
const keysHint = "The others are listed. Bring back the newest copy of the keyring that there is; hearsay doctor says what it lacks."

func firstOf(list []error) error {
	if len(list) == 0 {
		return nil
	}
	return list[0]
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
	if f.expiring != "" {
		if state != 0 && state != memory.StateVerified || f.at != "" {
			return memory.Filter{}, nil, usage("--expiring lists verified rows as they are now: it goes with no other --state, and not with --at")
		}
		state = memory.StateVerified
	}
	var by memory.Filter
	switch {
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

// within is the time that --expiring gives.
func (f *listFlags) within() (time.Duration, error) {
	if f.expiring == "" {
		return 0, nil
	}
	d, err := howLong(f.expiring)
	if err != nil {
		return 0, usage("--expiring %q: want a time, as 14d or 36h", f.expiring)
	}
	return d, nil
}

// ends is when a row expires by the clock.
func ends(r *memory.Row) time.Time {
	if !r.ValidUntil.IsZero() && r.ValidUntil.Before(r.ExpiresAt) {
		return r.ValidUntil
	}
	return r.ExpiresAt
}

func (a *app) expiringTable(now time.Time, found rowsJSON) error {
	if len(found.Rows) == 0 {
		fmt.Fprintln(a.talk, "no rows")
		return nil
	}
	t := table{head: []string{"STATE", "ID", "STALE", "EXPIRES", "VERIFIED BY", "CLAIM"}}
	for i := range found.Rows {
		r := &found.Rows[i]
		m := markOf(r)
		t.add(m.color, m.glyph+" "+m.word, short(r.ID), until(now, r.StaleAt), until(now, ends(r)), r.Rank.String(), claimOf(r))
	}
	if err := a.print(&t); err != nil {
		return err
	}
	if found.More {
		fmt.Fprintf(a.talk, "the first %s; --limit shows more\n", plural(len(found.Rows), "row"))
	}
	return nil
}

// until says how far off a time is.
func until(now, at time.Time) string {
	if at.After(now) {
		return "in " + age(at, now)
	}
	return age(now, at) + " ago"
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
	Heat      float64        `json:"heat"`             // decayed reads; orders checks, proves nothing
	Alike     []memory.Alike `json:"alike,omitempty"`  // other subjects that a person may take for this one
	Rivals    []rivalJSON    `json:"rivals,omitempty"` // verified rows with another value of the same subject and predicate
	// Quotations are the words beside the claim that the card shows: no statement on the
	// row confirms them. ShownSHA256 stands for claim and quotations, for row confirm.
	Quotations  []memory.Row `json:"quotations"`
	ShownSHA256 string       `json:"shown_sha256"`

	card    confirm.Card
	unshown []memory.ID
}

// face sets what is shown of the row as the card.
func (shown *rowJSON) face(c confirm.Card, unshown []memory.ID) {
	hash := c.Hash()
	shown.card, shown.unshown, shown.ShownSHA256 = c, unshown, hex.EncodeToString(hash[:])
	shown.Quotations = append([]memory.Row{}, c.Quoted...)
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

// rivalJSON is a verified row that says something else than the row that is shown: at most one
// of the two is right.
type rivalJSON struct {
	Row   memory.ID `json:"row"`
	Claim string    `json:"claim"`
	standingJSON
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
		Long: `show prints one row: its claim, whole; apart from it, as not confirmed, the words that
it was taken from; who said it, its state and axes, the line as a model is
shown it, what supports it (independent sources apart from echoes), the verified rows
that say something else, which decisions cite it, and when it is checked next.

With -o json: {"schema": "hearsay.row/1", "row", "tag", "supports": {"groups",
"independent", "not_counted", "against", "context", "echoes"}, "rivals", "decisions",
"due", "heat", "quotations", "shown_sha256"}.`,
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
			shown.face(confirm.Card{Row: &r}, nil)
		}
		if *o == asJSON {
			return a.emit(shown)
		}
		if err := a.showText(s.Now(), shown); err != nil {
			return err
		}
		if r.Truth == memory.TruthSuperseded && !r.Has(memory.FlagOutdated) {
			fmt.Fprintln(a.talk, "it was retracted for good: nobody can confirm it")
			return nil
		}
		fmt.Fprintf(a.talk, "to decide: %s; or row reject %[2]s, or row contradict %[2]s --object VALUE, each with its --help\n", a.toDecide(store, &r, shown.ShownSHA256), r.ID)
		return nil
	}
	return cmd
}

// toDecide is the command that says the first thing that a row lacks, and the verbs that follow on
// it until it can be acted on.
func (a *app) toDecide(store *storeFlags, r *memory.Row, digits string) string {
	var verbs []string
	if r.Security == memory.SecurityMalicious {
		verbs = append(verbs, "acquit")
	}
	if r.Security != memory.SecurityClean {
		verbs = append(verbs, "release")
	}
	if r.Retrieval != memory.RetrievalNormal && r.Retrieval != memory.RetrievalPrivilegedOnly {
		verbs = append(verbs, "expose")
	}
	if len(verbs) == 0 || r.State() != memory.StateVerified {
		verbs = append(verbs, "confirm")
	}
	first := a.command(store, "", fmt.Sprintf("hearsay row %s %s --revision %d --shown-sha256 %.8s --key FILE --as NAME --reason TEXT", verbs[0], r.ID, r.Revision, digits))
	return strings.Join(append([]string{first}, verbs[1:]...), ", then row ")
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
	if r.Content.Typed() {
		if shown.Alike, err = s.Alike(ctx, r.Content.Subject); err != nil {
			return rowJSON{}, err
		}
	}
	if shown.Decisions, err = citing(ctx, s, r.ID); err != nil {
		return rowJSON{}, err
	}
	if shown.Rivals, err = against(ctx, s, &r); err != nil {
		return rowJSON{}, err
	}
	face, unshown, err := cardOf(ctx, s, &shown.Row)
	shown.face(face, unshown)
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

// continued is the label of a line that goes on with the text of the one before it.
const continued = "            │"

// whole prints a text with nothing left out, on as many lines as it takes.
func (c *card) whole(label, text string) {
	for _, line := range wrapped(text) {
		c.line(label, "%s", line)
		label = continued
	}
}

// Limits of the quotations on a card; the others are named, and are no part of it.
const (
	maxQuotedShown = 4
	maxQuotedText  = 4096 // characters
)

// cardOf gathers what a person is shown of a row before she signs a statement on it, and
// the quotations that are too many or too long to be shown.
func cardOf(ctx context.Context, s *memory.Store, r *memory.Row) (shown confirm.Card, others []memory.ID, err error) {
	shown.Row = r
	var all []memory.Row
	for q, err := range s.Rows(ctx, memory.Filter{Quotes: r.ID}) {
		if err != nil {
			return shown, nil, err
		}
		all = append(all, q)
	}
	slices.Reverse(all) // oldest first, so that a later one moves nothing
	for _, q := range all {
		if len(shown.Quoted) == maxQuotedShown || utf8.RuneCountInString(q.Content.Text) > maxQuotedText {
			others = append(others, q.ID)
			continue
		}
		shown.Quoted = append(shown.Quoted, q)
	}
	return shown, others, nil
}

// claim prints what a statement would be on, whole, and apart from it what it would say
// nothing of.
func (c *card) claim(shown confirm.Card, others []memory.ID) {
	content := shown.Row.Content
	if content.Typed() {
		c.whole("subject", whole(content.Subject))
		c.whole("predicate", whole(content.Predicate))
		c.whole("object", whole(content.Object))
	} else {
		c.whole("text", whole(content.Text))
	}
	for i := range shown.Quoted {
		q := &shown.Quoted[i]
		c.whole("not confirmed", short(q.ID)+", quoted by "+saidBy(q.Asserter)+": "+whole(q.Content.Text))
	}
	for _, id := range others {
		c.line("not shown", "%s quotes it too; hearsay row show has its words", id)
	}
	c.line("shown-sha256", "%x", shown.Hash())
}

func (a *app) showText(now time.Time, shown rowJSON) error {
	r, c := &shown.Row, card{}
	m := markOf(r)
	fmt.Fprintf(&c, "%s  %s\n", a.paint(m.glyph+" "+m.word, m.color), claimOf(r))
	for _, n := range shown.Alike {
		c.line("not to be", "taken for %s, another subject with %s", strconv.QuoteToASCII(n.Name), plural(n.Rows, "row"))
	}
	c.line("id", "%s", r.ID)
	c.claim(shown.card, shown.unshown)
	c.line("fitness", "version %d", r.Revision)
	if r.Quotes != "" {
		c.line("quotation of", "%s", r.Quotes)
	}
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
	c.whole("to a model", oneLine(shown.Tag, len(shown.Tag)+1))
	c.ids("made from", r.DerivedFrom)
	c.ids("selected by", r.SelectedBy)
	c.supports(shown.Supports)
	c.rivals(shown.Rivals)
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
	return a.show(c.String())
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

// rivals prints the verified rows of which this one would take the place.
func (c *card) rivals(list []rivalJSON) {
	for i := range list {
		c.line("VERIFIED", "%s  %s: %s; at most one of the two is right", list[i].Row, oneLine(list[i].Claim, maxClaim), list[i].text())
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
