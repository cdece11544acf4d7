package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
)

func (a *app) verifierCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verifier",
		Short: "See who verified what, stop believing one, and believe it again",
		Example: "  hearsay verifier list -store sqlite:agent.db\n" +
			"  hearsay verifier revoke -store sqlite:agent.db crm --since 2026-04-17T09:00:00Z --key ana.key --as ana \\\n" +
			"      -trusted-keys trusted-keys --reason \"its database was restored from a wrong copy\"",
		RunE: subcommandWanted,
		Args: cobra.ArbitraryArgs,
	}
	store := addStoreFlags(cmd)
	cmd.AddCommand(a.verifierListCommand(store), a.verifierTestCommand(), a.revokeCommand(store), a.reinstateCommand(store), a.revocationWalkCommand(store))
	return cmd
}

// verifiersJSON is the output of verifier list.
type verifiersJSON struct {
	Schema      string              `json:"schema"` // hearsay.verifiers/1
	Verifiers   []verifierJSON      `json:"verifiers"`
	Revocations []memory.Revocation `json:"revocations"`      // oldest first
	Unread      int                 `json:"unread,omitempty"` // rows that cannot be read: what evidence they have is not known

	documents map[string]bool // the addresses that evidence is from
}

type verifierJSON struct {
	Name        string      `json:"name"`
	Sources     []string    `json:"sources"` // whom it asked
	Groups      []string    `json:"groups"`  // independence groups
	Rank        memory.Rank `json:"rank"`    // the highest of its evidence
	Supports    int         `json:"supports"`
	Contradicts int         `json:"contradicts"`
	Verified    int         `json:"verified"`         // rows verified now that its standing support is among the evidence of
	Last        time.Time   `json:"last"`             // when it last said something
	Revoked     time.Time   `json:"revoked,omitzero"` // since when, unless it was reinstated
}

func (a *app) verifierListCommand(store *storeFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List who has given evidence, and what was revoked",
		Long: `list reads the evidence of all rows and shows who gave it: how often for a row and
how often against one, how many rows are verified with its support, and since when it
is revoked. It reads the store, not the configuration of a worker. A row that cannot be
read is left out and counted.

With -o json: {"schema": "hearsay.verifiers/1", "verifiers", "revocations", "unread"}.`,
		Example: "  hearsay verifier list -store sqlite:agent.db",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := a.open(cmd.Context(), store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		found, err := verifiers(cmd.Context(), s)
		if err != nil {
			return err
		}
		if *o == asJSON {
			return a.emit(found)
		}
		return a.verifierTable(s.Now(), found)
	}
	return cmd
}

func verifiers(ctx context.Context, s *memory.Store) (verifiersJSON, error) {
	out := verifiersJSON{Schema: "hearsay.verifiers/1", Verifiers: []verifierJSON{}, Revocations: []memory.Revocation{}}
	revoked, _, err := s.Revocations(ctx)
	if err != nil {
		return out, err
	}
	out.Revocations = append(out.Revocations, revoked...)
	at := map[string]*verifierJSON{}
	out.documents = map[string]bool{}
	for r, err := range s.Rows(ctx, memory.Filter{}) {
		if unreadable(err) {
			out.Unread++
			continue
		}
		if err != nil {
			return out, err
		}
		counted := map[string]bool{}
		for _, e := range r.Evidence {
			v := at[e.Verifier]
			if v == nil {
				v = &verifierJSON{Name: e.Verifier}
				at[e.Verifier] = v
			}
			v.note(&e)
			out.documents[e.Anchor.URI] = true
			if e.Relation == memory.RelationSupports && !e.Void && r.State() == memory.StateVerified && !counted[e.Verifier] {
				counted[e.Verifier] = true
				v.Verified++
			}
		}
	}
	for _, v := range at {
		for _, r := range revoked {
			if r.Kind == memory.RevokedVerifier && r.Name == v.Name && r.Reinstated.At.IsZero() && (v.Revoked.IsZero() || r.Since.Before(v.Revoked)) {
				v.Revoked = r.Since
			}
		}
		slices.Sort(v.Sources)
		slices.Sort(v.Groups)
		out.Verifiers = append(out.Verifiers, *v)
	}
	slices.SortFunc(out.Verifiers, func(a, b verifierJSON) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (v *verifierJSON) note(e *memory.Evidence) {
	switch e.Relation {
	case memory.RelationSupports:
		v.Supports++
	case memory.RelationContradicts:
		v.Contradicts++
	}
	v.Rank = max(v.Rank, e.Rank)
	if e.At.After(v.Last) {
		v.Last = e.At
	}
	if !slices.Contains(v.Sources, e.Source) {
		v.Sources = append(v.Sources, e.Source)
	}
	if !slices.Contains(v.Groups, e.Group) {
		v.Groups = append(v.Groups, e.Group)
	}
}

// sourcesOf are the first sources of a verifier, and how many more there are.
func sourcesOf(v *verifierJSON) string {
	const most = 3
	text := ""
	for i, name := range v.Sources[:min(len(v.Sources), most)] {
		if i > 0 {
			text += ", "
		}
		text += oneLine(name, maxName)
	}
	if more := len(v.Sources) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (a *app) verifierTable(now time.Time, found verifiersJSON) error {
	if found.Unread > 0 {
		fmt.Fprintf(a.talk, "%s cannot be read: what evidence they have is not known\n", plural(found.Unread, "row"))
	}
	if len(found.Verifiers)+len(found.Revocations) == 0 {
		fmt.Fprintln(a.talk, "nobody has given evidence")
		return nil
	}
	t := table{head: []string{"VERIFIER", "SOURCES", "RANK", "VERIFIED", "SUPPORTS", "CONTRADICTS", "LAST", "REVOKED SINCE"}}
	for _, v := range found.Verifiers {
		color := ""
		if !v.Revoked.IsZero() {
			color = red
		}
		t.add(color, oneLine(v.Name, maxName), sourcesOf(&v), v.Rank.String(), fmt.Sprint(v.Verified), fmt.Sprint(v.Supports), fmt.Sprint(v.Contradicts), age(now, v.Last), moment(v.Revoked))
	}
	if err := a.print(&t); err != nil {
		return err
	}
	for _, r := range found.Revocations {
		if end := r.Reinstated; !end.At.IsZero() {
			fmt.Fprintf(a.talk, "%s %s was revoked since %s, by %s: %s; it is heard again in what it says since %s, by %s: %s\n", r.Kind, oneLine(r.Name, maxName), moment(r.Since),
				oneLine(r.By, maxName), oneLine(r.Reason, maxMessage), moment(end.At), oneLine(end.By, maxName), oneLine(end.Reason, maxMessage))
			continue
		}
		walked := "every row was looked at"
		if !r.Walked {
			walked = "rows are still held against it; hearsay verifier walk goes on"
		}
		fmt.Fprintf(a.talk, "%s %s is revoked since %s, by %s: %s (%s)\n", r.Kind, oneLine(r.Name, maxName), moment(r.Since), oneLine(r.By, maxName), oneLine(r.Reason, maxMessage), walked)
	}
	return nil
}

// revokedJSON is the output of verifier revoke and verifier walk.
type revokedJSON struct {
	Schema     string                `json:"schema"` // hearsay.revoked/1
	Revocation *memory.Revocation    `json:"revocation,omitempty"`
	Walk       memory.RevocationWalk `json:"walk"`
	Lost       []memory.ID           `json:"lost"`     // rows that lost the verified state
	Children   []memory.ID           `json:"children"` // rows that were made directly from those
	// Dependent are calls that ran on a row before it lost the verified state.
	Dependent []decisionJSON `json:"dependent"`
}

func (a *app) revokeCommand(store *storeFlags) *cobra.Command {
	var f statementFlags
	var what revokedFlags
	var since string
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Stop believing a verifier, a source or a document, signed with your key",
		Long: `revoke says that what a verifier said since a moment counts no more: because it
lied, was broken, or was asked by somebody else. It is one record. The moment it is
acknowledged no row that rests on it can be acted on, no permit decided before can be
used, and none of its evidence verifies anything. Then all rows are looked at, which
may be interrupted (hearsay verifier walk goes on): what else supports a row keeps it
verified, the others are unverified and checked again.

--kind source revokes whom the verifiers asked, --kind document an address, or with
--version one version of it. Your key needs a scope over KIND:NAME/revoke, such as
'verifier:*/revoke'. What is mended comes back under another name, or by hearsay
verifier reinstate.

With -o json: {"schema": "hearsay.revoked/1", "revocation", "walk", "lost",
"children", "dependent"}.`,
		Example: "  hearsay verifier revoke -store sqlite:agent.db crm --since 2026-04-17T09:00:00Z --key ana.key --as ana \\\n" +
			"      -trusted-keys trusted-keys --reason \"its database was restored from a wrong copy\"",
		Args: args("NAME"),
	}
	o := outputFlag(cmd)
	what.add(cmd, &f)
	cmd.Flags().StringVar(&since, "since", "", "from when on it is not believed, as 2026-04-17T09:00:00Z")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		k, err := what.of()
		if err != nil {
			return err
		}
		if since == "" {
			return usage("--since is missing: from when on is it not to be believed, as 2026-04-17T09:00:00Z")
		}
		from, err := time.Parse(time.RFC3339Nano, since)
		if err != nil {
			return usage("--since %q: want a time as 2026-04-17T09:00:00Z", since)
		}
		keyring, key, err := a.speaker(f.key, f.as, f.trusted, f.reason, "revoke it")
		if err != nil {
			return err
		}
		s, err := a.open(ctx, store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		_, revision, err := s.Revocations(ctx)
		if err != nil {
			return err
		}
		statement := confirm.NewRevocation(s, k, args[0], from, revision, f.as, f.reason, statementValidity)
		statement.Version = what.version
		signed, err := confirm.SignRevocation(key, statement)
		if err != nil {
			return err
		}
		untold := confirm.Revoke(ctx, s, keyring, signed)
		if untold != nil && !errors.Is(untold, memory.ErrUnwitnessed) {
			return untold
		}
		fmt.Fprintf(a.talk, "%s %s is revoked: nothing that rests on it is fit any more\n", k, oneLine(args[0], maxName))
		a.sayUnheard(ctx, s, k, args[0])
		err = a.walk(ctx, s, *o, &memory.Revocation{Kind: k, Name: args[0], Version: what.version, Since: from.UTC(), By: f.as, Reason: f.reason, At: s.Now(), Walked: true})
		return cmp.Or(err, untold)
	}
	return cmd
}

// sayUnheard says that nobody of a name has given evidence: it may be mistyped, or of another kind.
func (a *app) sayUnheard(ctx context.Context, s *memory.Store, k memory.RevokedKind, name string) {
	found, err := verifiers(ctx, s)
	if err != nil {
		fmt.Fprintf(a.talk, "it is not known whether any evidence names %s %s: %s\n", k, strconv.QuoteToASCII(name), oneLine(err.Error(), maxClaim))
		return
	}
	heard := map[memory.RevokedKind][]string{memory.RevokedDocument: slices.Collect(maps.Keys(found.documents))}
	for _, v := range found.Verifiers {
		heard[memory.RevokedVerifier] = append(heard[memory.RevokedVerifier], v.Name)
		heard[memory.RevokedSource] = append(heard[memory.RevokedSource], v.Sources...)
	}
	if slices.Contains(heard[k], name) {
		return
	}
	text := fmt.Sprintf("No evidence names %s %s.", k, strconv.QuoteToASCII(name))
	for _, other := range slices.Sorted(maps.Keys(heard)) {
		if other != k && slices.Contains(heard[other], name) {
			text += fmt.Sprintf(" Some names %s %s: revoke that with --kind %s.", other, strconv.QuoteToASCII(name), other)
		}
	}
	if found.Unread > 0 {
		text += fmt.Sprintf(" %s cannot be read.", plural(found.Unread, "row"))
	}
	fmt.Fprintln(a.talk, text+" hearsay verifier list shows who has given evidence.")
}

// revokedFlags name what is revoked or reinstated.
type revokedFlags struct{ kind, version string }

func (w *revokedFlags) add(cmd *cobra.Command, f *statementFlags) {
	cmd.Flags().StringVar(&f.key, "key", "", "your private key, as keygen wrote it")
	cmd.Flags().StringVar(&f.as, "as", "", "the principal you speak as")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for people")
	cmd.Flags().StringVar(&f.trusted, "trusted-keys", "", "file of trusted public keys (or HEARSAY_TRUSTED_KEYS)")
	cmd.Flags().StringVar(&w.kind, "kind", "verifier", "verifier, source or document")
	cmd.Flags().StringVar(&w.version, "version", "", "of a document; none = every version")
}

func (w *revokedFlags) of() (k memory.RevokedKind, err error) {
	if err := k.UnmarshalText([]byte(w.kind)); err != nil {
		return 0, usage("--kind %q: want verifier, source or document", w.kind)
	}
	return k, nil
}

// reinstatedJSON is the output of verifier reinstate.
type reinstatedJSON struct {
	Schema string `json:"schema"` // hearsay.reinstated/1
	// Revocations are those that ended, oldest first.
	Revocations []memory.Revocation `json:"revocations"`
}

func (a *app) reinstateCommand(store *storeFlags) *cobra.Command {
	var f statementFlags
	var what revokedFlags
	cmd := &cobra.Command{
		Use:   "reinstate NAME",
		Short: "Believe what was revoked again, from now on, signed with your key",
		Long: `reinstate says that a verifier, a source or a document that was revoked was mended:
what it says from now on is heard again. What it said since it was revoked never
counts again, and no row moves: rows are verified by new evidence, when they are
checked the next time. All of its revocations end; of a document, those of the
--version that they named.

Rows that a revocation has not reached yet come first: hearsay verifier walk. Your key
needs the scope that revoking needs, over KIND:NAME/revoke.

With -o json: {"schema": "hearsay.reinstated/1", "revocations"}.`,
		Example: "  hearsay verifier reinstate -store sqlite:agent.db crm --key ana.key --as ana \\\n" +
			"      -trusted-keys trusted-keys --reason \"the right copy is back\"",
		Args: args("NAME"),
	}
	o := outputFlag(cmd)
	what.add(cmd, &f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		k, err := what.of()
		if err != nil {
			return err
		}
		keyring, key, err := a.speaker(f.key, f.as, f.trusted, f.reason, "reinstate it")
		if err != nil {
			return err
		}
		s, err := a.open(ctx, store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		before, revision, err := s.Revocations(ctx)
		if err != nil {
			return err
		}
		statement := confirm.NewReinstatement(s, k, args[0], revision, f.as, f.reason, statementValidity)
		statement.Version = what.version
		signed, err := confirm.SignReinstatement(key, statement)
		if err != nil {
			return err
		}
		if err := confirm.Reinstate(ctx, s, keyring, signed); err != nil {
			return err
		}
		after, _, err := s.Revocations(ctx)
		if err != nil {
			return err
		}
		out := reinstatedJSON{Schema: "hearsay.reinstated/1", Revocations: []memory.Revocation{}}
		for i, r := range before { // nothing is ever taken from the list
			if r.Reinstated.At.IsZero() && r.Kind == k && r.Name == args[0] && r.Version == what.version {
				out.Revocations = append(out.Revocations, after[i])
			}
		}
		if *o == asJSON {
			return a.emit(out)
		}
		var c card
		for _, r := range out.Revocations {
			c.line("reinstated", "%s %s, from %s on, by %s", r.Kind, oneLine(r.Name, maxName), moment(r.Reinstated.At), oneLine(r.Reinstated.By, maxName))
			c.line("", "what it said since %s counts no more", moment(r.Since))
		}
		return a.write(c.String())
	}
	return cmd
}

func (a *app) revocationWalkCommand(store *storeFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "walk",
		Short: "Go on looking at the rows after a revocation",
		Long: `walk looks at the rows that a revocation has not reached yet, from where it was
interrupted. The rows are unfit already; this moves their states and has them checked
again.

With -o json: {"schema": "hearsay.revoked/1", "walk", "lost", "children", "dependent"}.`,
		Example: "  hearsay verifier walk -store sqlite:agent.db",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := a.open(cmd.Context(), store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		return a.walk(cmd.Context(), s, *o, nil)
	}
	return cmd
}

// walk moves the rows, and says what depended on those that lost their state.
func (a *app) walk(ctx context.Context, s *memory.Store, o output, r *memory.Revocation) error {
	out := revokedJSON{Schema: "hearsay.revoked/1", Revocation: r, Lost: []memory.ID{}, Children: []memory.ID{}, Dependent: []decisionJSON{}}
	const every = 10_000 // rows between two lines
	said := 0
	w, err := s.WalkRevocations(ctx, func(w memory.RevocationWalk) {
		out.Lost = append(out.Lost, w.Lost...)
		if w.Rows-said >= every {
			said = w.Rows
			fmt.Fprintf(a.talk, "%s looked at, %d lost the verified state\n", plural(w.Rows, "row"), w.Withdrawn)
		}
	})
	out.Walk = w
	untold := err
	if err != nil && !errors.Is(err, memory.ErrUnwitnessed) {
		return fmt.Errorf("the walk over the rows stopped after %d: %w", w.Rows, err)
	}
	for _, id := range out.Lost {
		for child, err := range s.Rows(ctx, memory.Filter{Parent: id}) {
			if err != nil {
				return err
			}
			if !slices.Contains(out.Children, child.ID) {
				out.Children = append(out.Children, child.ID)
			}
		}
		decisions, err := citing(ctx, s, id)
		if err != nil {
			return err
		}
		for _, d := range decisions {
			if d.Dependent {
				out.Dependent = append(out.Dependent, d)
			}
		}
	}
	if o == asJSON {
		return cmp.Or(a.emit(out), untold)
	}
	c := card{}
	if r != nil {
		c.line("revoked", "%s %s since %s, by %s", r.Kind, oneLine(r.Name, maxName), moment(r.Since), oneLine(r.By, maxName))
	}
	c.line("rows", "%d looked at, %d rested on it, %d lost the verified state", w.Rows, w.Touched, len(out.Lost))
	for i, id := range out.Lost {
		if i == 10 {
			c.line("", "and %d more; -o json has all", len(out.Lost)-i)
			break
		}
		c.line("", "%s", id)
	}
	if n := len(out.Children); n > 0 {
		c.line("children", "%s made from them", plural(n, "row"))
	}
	if n := len(out.Dependent); n > 0 {
		c.line("DEPENDENT", "%s ran on them before", plural(n, "call"))
		c.some(out.Dependent)
	}
	return cmp.Or(a.write(c.String()), untold)
}
