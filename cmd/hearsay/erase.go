package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory"
)

// erasureJSON is the output of erase.
type erasureJSON struct {
	Schema      string             `json:"schema"` // hearsay.erasure/1
	Tenant      string             `json:"tenant"`
	Subject     string             `json:"subject_digest"`
	Request     string             `json:"request_digest"`
	Certificate memory.Certificate `json:"certificate"`
	Alike       []memory.Alike     `json:"alike,omitempty"` // names that a person may take for the subject; they stay
	Would       []wouldGoJSON      `json:"would,omitempty"` // of a dry run: the rows that can be read, oldest first
}

// wouldGoJSON is a row that an erasure would take.
type wouldGoJSON struct {
	Row memory.ID `json:"row"`
	Why string    `json:"why"`
}

// listedGoing is how many of the rows that would go a table shows.
const listedGoing = 50

func (a *app) eraseCommand() *cobra.Command {
	var (
		e       memory.Erasure
		spelled []string
		yes     int
	)
	cmd := &cobra.Command{
		Use:   "erase",
		Short: "Erase what the store holds of a person",
		Long: `erase takes out of the store the rows about a subject or asserted by it, those whose
words name it, all that was made from them through any depth, and the decisions that
cite them; then it destroys their data keys and compacts the store. That something
was there, and what moved when, stays in the audit, which still holds.

The subject is compared byte for byte (after Unicode NFC), and so are the words of
typed rows; in free text the name counts in any letter case. Names that are only
spelled alike stay and are listed; --spelling adds one, in quotes as it is listed.

It shows what it would take first, and wants the number of rows typed back; in a script
--yes N says it, and nothing is erased if another number would go. --dry-run only shows
and counts. Note what the principal asserted: answers of tools that ran for a person are
among it. Interrupted, erase goes on when it is run again, with the number that is left.
The certificate names subject and request by keyed digests only.

A row that cannot be read, since it or its class is damaged or its key is missing, goes
too if it is known to be under a key of the subject. The others stay and are counted:
nobody knows whether they name the subject. Then the exit code is 4. A damaged or missing
head ends the erasure: hearsay store rebuild makes it again.

What it cannot reach: copies and backups made before (their rows are unreadable once
the data keys are gone, except rows that only name the subject), files that a program
exported, and the keyring's own backups.

With -o json: {"schema": "hearsay.erasure/1", "certificate": {"rows": …}}.`,
		Example: "  hearsay erase --store sqlite:agent.db --subject 'Eve Doe' --request GDPR-17 --dry-run\n" +
			"  hearsay erase --store sqlite:agent.db --subject 'Eve Doe' --request GDPR-17 --yes 12",
		Args: args(),
	}
	store := addStoreFlags(cmd)
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&e.Subject, "subject", "", "whom to erase, spelled exactly")
	cmd.Flags().StringArrayVar(&spelled, "spelling", nil, "another exact spelling of the subject, as the list of names alike shows it")
	cmd.Flags().StringVar(&e.Request, "request", "", "the name of the request, for the certificate")
	cmd.Flags().BoolVar(&e.DryRun, "dry-run", false, "show and count only")
	cmd.Flags().IntVar(&yes, "yes", -1, "the number of rows that go, instead of typing it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if e.Subject == "" {
			return usage("erase: --subject NAME is missing: who is to be erased")
		}
		if e.DryRun && cmd.Flags().Changed("yes") {
			return usage("erase: --dry-run and --yes do not go together")
		}
		for _, name := range spelled {
			if plain, err := strconv.Unquote(name); err == nil {
				name = plain
			}
			e.Spellings = append(e.Spellings, name)
		}
		s, err := a.open(cmd.Context(), store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		alike, err := s.Alike(cmd.Context(), e.Subject)
		if err != nil {
			return err
		}
		alike = slices.DeleteFunc(alike, func(n memory.Alike) bool {
			return slices.ContainsFunc(e.Spellings, func(s string) bool { return memory.SameName(s, n.Name) })
		})
		e.Actor, e.Progress = operator(), a.progress("rows erased")
		said := erasureJSON{Schema: "hearsay.erasure/1", Tenant: s.Tenant(), Alike: alike}
		t := table{head: []string{"WHY", "ID", "SAID BY", "CLAIM"}}
		shown := e
		shown.DryRun, shown.Would = true, func(r memory.Row) bool {
			why := goesSince(&r, &e)
			if *o == asJSON && e.DryRun {
				said.Would = append(said.Would, wouldGoJSON{r.ID, why})
				return true
			}
			t.add("", why, short(r.ID), saidBy(r.Asserter), claimOf(&r))
			return len(t.rows) < listedGoing
		}
		done, err := s.Erase(cmd.Context(), shown)
		if err != nil {
			return err
		}
		for _, n := range alike {
			fmt.Fprintf(a.talk, "spelled alike, and not erased: %s, %s\n", strconv.QuoteToASCII(n.Name), plural(n.Rows, "row"))
		}
		if *o == asTable || !e.DryRun {
			to := a.talk
			if e.DryRun {
				to = a.out
			}
			if err := a.showGoing(to, &t, done); err != nil {
				return err
			}
		}
		if !e.DryRun {
			if done.Unread > 0 {
				fmt.Fprintf(a.talk, "%s cannot be read: whether they name the subject is not known, and they would stay\n", plural(done.Unread, "row"))
			}
			if err := a.mayErase(done, yes); err != nil {
				return err
			}
			if done, err = s.Erase(cmd.Context(), e); err != nil {
				return err
			}
		}
		var unread error
		if done.Unread > 0 {
			unread = fail(exitNo, "erase: %s cannot be read: whether they name the subject is not known, and they stay", plural(done.Unread, "row")).
				with("hearsay row list names them. Put them right from a backup, then erase again.")
		}
		if *o == asJSON {
			said.Subject, said.Request, said.Certificate = done.Subject.String(), done.Request.String(), done
			return errors.Join(a.emit(said), unread)
		}
		verb, keys := "erased", "destroyed"
		if done.DryRun {
			verb, keys = "would go", "would be destroyed"
		}
		gone := ""
		if done.Version != "" {
			gone = fmt.Sprintf("version %s of the wrapping key was found destroyed at %s\n", done.Version, done.Gone.Format(time.RFC3339))
		}
		return errors.Join(a.write(fmt.Sprintf("%d rows and %d decisions %s, %d data keys %s\n%ssubject %s, request %s\n",
			done.Rows, done.Decisions, verb, done.Keys, keys, gone, done.Subject, done.Request)), unread)
	}
	return cmd
}

// goesSince says why an erasure takes a row.
func goesSince(r *memory.Row, e *memory.Erasure) string {
	is := func(name string) bool {
		return slices.ContainsFunc(append([]string{e.Subject}, e.Spellings...), func(s string) bool { return memory.SameName(s, name) })
	}
	switch {
	case is(r.Content.Subject):
		return "about"
	case is(r.Asserter.Principal):
		return "asserted by"
	}
	return "names it, or made from such"
}

// showGoing prints the rows that would go.
func (a *app) showGoing(to io.Writer, t *table, would memory.Certificate) error {
	text := ""
	if len(t.rows) > 0 {
		text = a.aligned(t)
	}
	if more := would.Rows - len(t.rows); more > 0 {
		text += fmt.Sprintf("… and %s more\n", plural(more, "row"))
	}
	_, err := io.WriteString(to, text)
	return err
}

// mayErase asks whoever sits there for the number of rows that go.
func (a *app) mayErase(would memory.Certificate, yes int) error {
	if would.Rows+would.Decisions+would.Keys == 0 {
		return nil
	}
	what := fmt.Sprintf("%s, %s and %s", plural(would.Rows, "row"), plural(would.Decisions, "decision"), plural(would.Keys, "data key"))
	switch {
	case yes == would.Rows:
		return nil
	case yes >= 0:
		return fail(exitChanged, "erase: %s would go, not %d: nothing was erased", what, yes)
	case !a.asks:
		return usage("erase: %s would go, for good: nothing was erased; say --yes %d", what, would.Rows)
	}
	fmt.Fprintf(a.talk, "%s go, for good. Type the number of rows: ", what)
	line, _ := bufio.NewReader(a.in).ReadString('\n')
	if n, bad := strconv.Atoi(strings.TrimSpace(line)); bad != nil || n != would.Rows {
		return fail(exitNo, "erase: that is not the number of rows: nothing was erased")
	}
	return nil
}
