package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
)

// statementFlags say who speaks, with which key, and who is trusted.
type statementFlags struct {
	key, as, reason, trusted, object, shown string
	revision                                uint64
	barrier                                 time.Duration
}

// statementValidity is how long a statement lives: it is applied at once.
const statementValidity = 5 * time.Minute

const keyHint = `Make a key with
  hearsay keygen -out ana --principal ana --scope 'acme/*'
(for rows about acme; --scope call:mail for calls of the tool mail),
put the line it prints into a trusted-keys file that the agent cannot write, and give
  --key ana.key --as ana -trusted-keys FILE     (or HEARSAY_TRUSTED_KEYS)`

// statementJSON is the output of row confirm, reject, contradict, and of the verbs that say
// where a row may go.
type statementJSON struct {
	Schema     string         `json:"schema"` // hearsay.statement/1
	Verb       confirm.Verb   `json:"verb"`
	Row        memory.ID      `json:"row"`
	Content    memory.Content `json:"content"`
	Principal  string         `json:"principal"`
	Reason     string         `json:"reason"`
	Before     standingJSON   `json:"before"`
	After      standingJSON   `json:"after"`
	Correction memory.ID      `json:"correction,omitempty"` // the row of the right object
	// Blocked are calls that were refused and cite the row. They do not run by
	// themselves; the next try is decided afresh.
	Blocked []decisionJSON `json:"blocked"`
	// Free are calls that wait for the row and that nothing stored stands in the way of any
	// more: the agent's next try is decided afresh. StillHeld are the others, with why.
	Free      []waitingJSON `json:"free"`
	StillHeld []waitingJSON `json:"still_held"`
	// Derived are the rows made from it, and from those, that a quarantine holds with it or a
	// release lets go.
	Derived []memory.ID `json:"derived,omitempty"`
	// Displaced are rows of the same subject and predicate that were verified before and are
	// not any more.
	Displaced []displacedJSON `json:"displaced,omitempty"`
	// Dependent are calls that ran on the row, or on one that was displaced, before it lost trust.
	Dependent []decisionJSON `json:"dependent"`
	// Open are those of them whose outcome was not known when the barrier ended.
	Open []string `json:"open,omitempty"`
	Undo string   `json:"undo"` // the command that takes it back
}

type displacedJSON struct {
	Row    memory.ID    `json:"row"`
	Claim  string       `json:"claim"`
	Before standingJSON `json:"before"`
	After  standingJSON `json:"after"`
}

type standingJSON struct {
	State    memory.State `json:"state"`
	Mark     string       `json:"mark"`
	Truth    memory.Truth `json:"truth"`
	Rank     memory.Rank  `json:"rank,omitzero"`
	Revision uint64       `json:"revision"`
	// Where it may go, of a verb that moves that.
	Security  memory.Security  `json:"security,omitzero"`
	Retrieval memory.Retrieval `json:"retrieval,omitzero"`
}

func standing(r *memory.Row, verb confirm.Verb) standingJSON {
	s := standingJSON{State: r.State(), Mark: markOf(r).word, Truth: r.Truth, Rank: r.Rank, Revision: r.Revision}
	if verb.Places() {
		s.Security, s.Retrieval = r.Security, r.Retrieval
	}
	return s
}

// undone is the verb that takes a statement back; ok is false if none does.
func undone(verb confirm.Verb, before *memory.Row) (back confirm.Verb, ok bool) {
	switch verb {
	case confirm.Confirm:
		return confirm.Reject, true
	case confirm.Reject, confirm.Contradict:
		return confirm.Confirm, true
	case confirm.Quarantine:
		return confirm.Release, true
	case confirm.Release:
		return confirm.Quarantine, true
	case confirm.Acquit: // only a sentinel, or a program, finds a row malicious
		return 0, false
	}
	back, ok = map[memory.Retrieval]confirm.Verb{memory.RetrievalNormal: confirm.Expose, memory.RetrievalHidden: confirm.Hide,
		memory.RetrievalRestricted: confirm.Restrict, memory.RetrievalBlocked: confirm.Block}[before.Retrieval]
	return back, ok
}

// derivedFrom are the rows that were made from a row, and from those, and what quotes any of
// them, nearest first.
func derivedFrom(ctx context.Context, s *memory.Store, id memory.ID) ([]memory.ID, error) {
	seen := map[memory.ID]bool{id: true}
	var out []memory.ID
	for queue := []memory.ID{id}; len(queue) > 0; queue = queue[1:] {
		for _, f := range []memory.Filter{{Parent: queue[0]}, {Quotes: queue[0]}} {
			for r, err := range s.Rows(ctx, f) {
				var one *memory.UnreadableError
				if err != nil && !errors.As(err, &one) {
					return nil, err
				}
				if seen[r.ID] {
					continue
				}
				if len(out) == memory.MaxClosure {
					return nil, fail(exitFailed, "%w: more than %d rows were made from it", memory.ErrClosureTooLarge, memory.MaxClosure)
				}
				seen[r.ID] = true
				out, queue = append(out, r.ID), append(queue, r.ID)
			}
		}
	}
	return out, nil
}

func (a *app) statementCommands(store *storeFlags) []*cobra.Command {
	command := func(verb confirm.Verb, short, long string) *cobra.Command {
		var f statementFlags
		name := verb.String()
		object, wait := "", ""
		if !verb.Opens() {
			wait = `

With --barrier 30s it waits, after the row has lost its trust, until no call is open
that was made on it before, and exits with 4 and names them if some are.`
		}
		switch verb {
		case confirm.Confirm, confirm.Release, confirm.Expose, confirm.Acquit:
			object = " --shown-sha256 9f2c41d0"
		case confirm.Contradict:
			object = " --object pay@acme.example --shown-sha256 9f2c41d0"
		}
		cmd := &cobra.Command{
			Use:   name + " ID",
			Short: short,
			Long: long + `

The statement is signed with your key, bound to what the card shows and the version of
the row as it is now, and checked against the trusted keys. With --revision, the version
that row show printed, it is refused (exit 6) if the row has changed since you looked.` + wait + `

With -o json: {"schema": "hearsay.statement/1", "verb", "row", "before", "after",
"free", "still_held", "blocked", "dependent", "undo", …}.`,
			Example: "  hearsay row " + name + " -store sqlite:agent.db k3f9a2b1 --key ana.key --as ana \\\n" +
				"      -trusted-keys trusted-keys --reason \"asked Acme by phone\"" + object,
			Args: args("ID"),
		}
		o := outputFlag(cmd)
		cmd.Flags().StringVar(&f.key, "key", "", "your private key, as keygen wrote it")
		cmd.Flags().StringVar(&f.as, "as", "", "the principal you speak as")
		cmd.Flags().StringVar(&f.reason, "reason", "", "why, for people")
		cmd.Flags().StringVar(&f.trusted, "trusted-keys", "", "file of trusted public keys (or HEARSAY_TRUSTED_KEYS)")
		if verb == confirm.Contradict || verb.Opens() {
			cmd.Flags().StringVar(&f.shown, "shown-sha256", "", "the first digits of what you were shown, from row show")
		}
		cmd.Flags().Uint64Var(&f.revision, "revision", 0, "the version of the row that you looked at; 0 = as it is now")
		if !verb.Opens() {
			cmd.Flags().DurationVar(&f.barrier, "barrier", 0, "wait so long until no call is open that was made on the row before, as 30s")
		}
		if verb == confirm.Contradict {
			cmd.Flags().StringVar(&f.object, "object", "", "what is right instead; becomes a verified row of yours")
		}
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			said, err := a.state(cmd.Context(), store, verb, &f, args[0])
			untold := err
			if err != nil && !errors.Is(err, memory.ErrUnwitnessed) {
				return err
			}
			if *o == asJSON {
				err = a.emit(said)
			} else {
				err = a.stateText(said)
			}
			if err == nil && len(said.Open) > 0 {
				return fail(exitNo, "the row lost its trust; the outcome of %s made on it before is not known yet", plural(len(said.Open), "call"))
			}
			if err == nil {
				err = untold
			}
			return err
		}
		return cmd
	}
	return []*cobra.Command{
		command(confirm.Confirm, "Say that a row is right, signed with your key",
			`confirm makes the claim of a row verified on your word, for every agent. Only a user's
word ends that. Words that stand beside the claim are not confirmed. It names the calls
that wait for the row: those it frees, and those that something else still holds. A row that
gave the thing another value is verified no more; it is named, with the calls that ran on it.

You give the first digits of what row show prints, so that nobody confirms a claim
without having seen all of it.`),
		command(confirm.Reject, "Say that a row is wrong, signed with your key",
			`reject says that the claim is wrong, however it is spelled. What supported it
is void, and only a user's confirmation brings it back.`),
		command(confirm.Contradict, "Say that a row is wrong and what is right, signed with your key",
			`contradict rejects a row, and with --object says what is right instead, and then wants
the first digits of what row show prints.`),
		command(confirm.Quarantine, "Hold a row, and all that was made from it, signed with your key",
			`quarantine holds a row and every row that was made from it, however far down: they are
shown to nobody, and no call that changes something is let through on them. It lists
them first. Their own states stay what they are.`),
		command(confirm.Release, "End the quarantine of a row that you reviewed, signed with your key",
			`release ends a quarantine or a suspicion: you have reviewed the row. What was made from
it is free again, unless another row holds it. It verifies nothing. A row that was found
malicious is acquitted first (hearsay row acquit).

`+seeFirst),
		command(confirm.Acquit, "Say that a row was wrongly found malicious, signed with your key",
			`acquit says that what was found malicious is no attack. The row goes back under
quarantine, and so does what was made from it, until it is released: nothing is free by
this alone.

`+seeFirst),
		command(confirm.Hide, "Keep a row from being recalled, signed with your key",
			`hide keeps a row from being recalled by a model. Its state stays what it is.`),
		command(confirm.Block, "Keep a row from being recalled, and from coming back by itself, signed with your key",
			`block keeps a row from being recalled, as hide does, and nothing but a person's word
brings it back.`),
		command(confirm.Restrict, "Let a row be read and not acted on, signed with your key",
			`restrict lets a row be read among what is uncertain. No call that changes something is
let through on it, verified or not.`),
		command(confirm.Expose, "Let a row be recalled and acted on, signed with your key",
			`expose lets a row be recalled, and acted on if it is verified. What a model recalled and
wrote down again is restricted until then, also if its claim was confirmed.

`+seeFirst),
	}
}

const seeFirst = `You give the first digits of what row show prints, so that nobody lets a row go without
having seen all of it.`

// speaker reads who is trusted, and the key of who speaks. what is what she is about
// to do.
func (a *app) speaker(keyFile, as, trusted, reason, what string) (*confirm.Keyring, ed25519.PrivateKey, error) {
	if trusted == "" {
		trusted = a.getenv("HEARSAY_TRUSTED_KEYS")
	}
	for _, required := range [...]struct{ flag, value string }{
		{"--key FILE", keyFile}, {"--as PRINCIPAL", as}, {"-trusted-keys FILE (or HEARSAY_TRUSTED_KEYS)", trusted},
	} {
		if required.value == "" {
			return nil, nil, usage("%s is missing: only a person with a trusted key may %s", required.flag, what).with(keyHint)
		}
	}
	if reason == "" {
		return nil, nil, usage("--reason TEXT is missing: it is kept with the move, for whoever asks later")
	}
	keyring, err := confirm.LoadKeyring(trusted)
	if err != nil {
		return nil, nil, fmt.Errorf("trusted keys: %w", err)
	}
	key, err := confirm.LoadKey(keyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("key %s: %w", keyFile, err)
	}
	return keyring, key, nil
}

// state signs a statement on a row as it is now, checks it against the trusted
// keys, and applies it.
func (a *app) state(ctx context.Context, store *storeFlags, verb confirm.Verb, f *statementFlags, arg string) (statementJSON, error) {
	keyring, key, err := a.speaker(f.key, f.as, f.trusted, f.reason, verb.String()+" a row")
	if err != nil {
		return statementJSON{}, err
	}
	s, err := a.open(ctx, store, &memory.Options{Authority: keyring.Authority})
	if err != nil {
		return statementJSON{}, err
	}
	defer s.Close()
	row, err := resolve(ctx, s, arg)
	if err != nil {
		return statementJSON{}, err
	}
	if f.revision != 0 && f.revision != row.Revision {
		return statementJSON{}, fail(exitChanged, "row %s is at version %d, you looked at %d", row.ID, row.Revision, f.revision).with(changedHint)
	}
	shown, err := a.present(ctx, s, &row, verb.Opens() || f.object != "", f.shown)
	if err != nil {
		return statementJSON{}, err
	}
	var derived []memory.ID
	if verb == confirm.Quarantine || verb == confirm.Release {
		if derived, err = derivedFrom(ctx, s, row.ID); err != nil {
			return statementJSON{}, err
		}
		c := card{}
		c.derived(verb, derived)
		if _, err := fmt.Fprint(a.talk, c.String()); err != nil {
			return statementJSON{}, err
		}
	}
	rivals, err := verifiedBeside(ctx, s, &row)
	if err != nil {
		return statementJSON{}, err
	}
	statement := shown.Statement(verb, s.Tenant(), f.as, f.reason, s.Now(), statementValidity)
	statement.Object = f.object
	signed, err := confirm.Sign(key, statement)
	if err != nil {
		return statementJSON{}, err
	}
	done, err := confirm.Apply(ctx, s, keyring, signed)
	untold := err
	if err != nil && !errors.Is(err, memory.ErrUnwitnessed) {
		return statementJSON{}, err
	}
	after, err := s.Get(ctx, row.ID)
	if err != nil {
		return statementJSON{}, err
	}
	said := statementJSON{Schema: "hearsay.statement/1", Verb: verb, Row: row.ID, Content: row.Content, Principal: f.as, Reason: f.reason,
		Before: standing(&row, verb), After: standing(&after[0], verb), Derived: derived, Correction: done.Correction, Blocked: []decisionJSON{}, Free: []waitingJSON{}, StillHeld: []waitingJSON{}, Dependent: []decisionJSON{}}
	if said.Displaced, err = displaced(ctx, s, rivals, verb); err != nil {
		return statementJSON{}, err
	}
	switch back, ok := undone(verb, &row); {
	case ok && verb == confirm.Confirm && len(said.Displaced) > 0: // a rejection brings none of them back
		said.Undo = a.command(store, "", fmt.Sprintf("hearsay row rollback %s --revision %d --reason TEXT", row.ID, said.After.Revision))
	case ok:
		said.Undo = a.command(store, f.trusted, fmt.Sprintf("hearsay row %s %s --reason TEXT%s --key FILE --as NAME", back, row.ID, map[bool]string{true: " --shown-sha256 DIGITS"}[back.Opens()]))
	}
	if said.Correction != "" { // or the two would contest each other
		said.Undo = a.command(store, f.trusted, fmt.Sprintf("hearsay row reject %s --reason TEXT --key FILE --as NAME", said.Correction)) + ", then " + said.Undo
	}
	var open *confirm.BarrierError
	if f.barrier > 0 {
		limited, cancel := context.WithTimeout(ctx, f.barrier)
		_, err := confirm.Barrier(limited, s, row.ID)
		cancel()
		if err != nil && !errors.As(err, &open) {
			return statementJSON{}, err
		}
	}
	if open != nil {
		said.Open = open.Open
	}
	for i := range said.Displaced {
		decisions, err := citing(ctx, s, said.Displaced[i].Row)
		if err != nil {
			return statementJSON{}, err
		}
		said.Dependent = append(said.Dependent, slices.DeleteFunc(decisions, func(d decisionJSON) bool { return !d.Dependent })...)
	}
	decisions, err := citing(ctx, s, row.ID)
	if err != nil {
		return statementJSON{}, err
	}
	for _, d := range decisions {
		switch {
		case d.Dependent:
			said.Dependent = append(said.Dependent, d)
		case !d.Fired && verb.Opens():
			said.Blocked = append(said.Blocked, d)
		}
	}
	if verb.Opens() {
		if said.Free, said.StillHeld, err = waitingFor(ctx, s, row.ID, s.Now()); err != nil {
			return statementJSON{}, err
		}
	}
	return said, untold
}

// verifiedBeside are the other verified rows of the subject and predicate of a row.
func verifiedBeside(ctx context.Context, s *memory.Store, r *memory.Row) (out []memory.Row, err error) {
	if !r.Content.Typed() {
		return nil, nil
	}
	for other, err := range s.Rows(ctx, memory.Filter{Subject: r.Content.Subject, Predicate: r.Content.Predicate, State: memory.StateVerified}) {
		var one *memory.UnreadableError
		switch {
		case errors.As(err, &one): // what becomes of it is not known
		case err != nil:
			return nil, err
		case other.ID != r.ID:
			out = append(out, other)
		}
	}
	return out, nil
}

// against are the verified rows that cannot be right if a row is.
func against(ctx context.Context, s *memory.Store, r *memory.Row) (out []rivalJSON, err error) {
	beside, err := verifiedBeside(ctx, s, r)
	for i := range beside {
		if v := &beside[i]; rivals(v, r) {
			out = append(out, rivalJSON{v.ID, v.Content.String(), standing(v, confirm.Confirm)})
		}
	}
	return out, err
}

// displaced are those of some verified rows that a statement took the trust from.
func displaced(ctx context.Context, s *memory.Store, before []memory.Row, verb confirm.Verb) (out []displacedJSON, err error) {
	for i := range before {
		now, err := s.Get(ctx, before[i].ID)
		if unreadable(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if now[0].State() != memory.StateVerified {
			out = append(out, displacedJSON{Row: now[0].ID, Claim: now[0].Content.String(), Before: standing(&before[i], verb), After: standing(&now[0], verb)})
		}
	}
	return out, nil
}

// present is the card that a statement is signed on. One that makes a claim verified
// needs the first digits of its hash, so that nobody signs what she has not seen; any
// other shows the card as it is signed.
func (a *app) present(ctx context.Context, s *memory.Store, row *memory.Row, verifies bool, digits string) (confirm.Card, error) {
	shown, unshown, err := cardOf(ctx, s, row)
	if err != nil {
		return shown, err
	}
	if seen := len(digits) >= minDigits && strings.HasPrefix(fmt.Sprintf("%x", shown.Hash()), strings.ToLower(digits)); seen {
		return shown, nil
	}
	other, err := against(ctx, s, row)
	if err != nil {
		return shown, err
	}
	c := card{}
	c.claim(shown, unshown)
	c.rivals(other)
	if _, err := fmt.Fprint(a.talk, c.String()); err != nil {
		return shown, err
	}
	if verifies || digits != "" {
		return shown, usage("--shown-sha256 is missing, or not that of this row: give at least %d digits of it, from the card above", minDigits)
	}
	return shown, nil
}

func (a *app) stateText(said statementJSON) error {
	c := card{}
	fmt.Fprintf(&c, "%s\n", oneLine(said.Content.String(), maxClaim))
	c.line("id", "%s", said.Row)
	c.line("before", "%s", said.Before.text())
	c.line("after", "%s, by %s", said.After.text(), oneLine(said.Principal, maxName))
	if said.Correction != "" {
		c.line("instead", "%s, verified", said.Correction)
	}
	for i := range said.Displaced {
		d := &said.Displaced[i]
		c.line("DISPLACED", "%s  %s: %s, and it is %s now", d.Row, oneLine(d.Claim, maxClaim), d.Before.text(), d.After.text())
	}
	if said.Verb.Opens() {
		if n := len(said.Free); n == 0 {
			c.line("frees", "no call that waits")
		} else {
			c.line("frees", "%s: made when the agent asks again in the same run, or by itself if it is parked", plural(n, "call"))
			c.waiting(said.Free)
		}
		if n := len(said.StillHeld); n > 0 {
			c.line("still held", "%s, though they wait for this row too", plural(n, "call"))
			c.waiting(said.StillHeld)
		}
	}
	if n := len(said.Dependent); n > 0 {
		on := "it"
		if len(said.Displaced) > 0 {
			on = "what lost its trust"
		}
		c.line("DEPENDENT", "%s ran on %s before", plural(n, "call"), on)
		c.some(said.Dependent)
	}
	for i, id := range said.Open {
		label := ""
		if i == 0 {
			label = "OPEN"
		}
		c.line(label, "%s: its outcome is not known yet", oneLine(id, maxName))
	}
	if said.Undo != "" {
		c.line("undo", "%s", said.Undo)
		if said.Verb == confirm.Confirm && len(said.Displaced) > 0 {
			c.line("", "  it retracts this row for good; what it displaced is back, unverified")
		}
	}
	return a.write(c.String())
}

func (s standingJSON) text() string {
	text := s.Mark
	if s.Rank != 0 {
		text += " (rank " + s.Rank.String() + ")"
	}
	if s.Security != 0 {
		text += ", " + s.Security.String() + ", " + s.Retrieval.String()
	}
	return fmt.Sprintf("%s, version %d", text, s.Revision)
}

// derived lists what a quarantine or a release reaches besides its row.
func (c *card) derived(verb confirm.Verb, rows []memory.ID) {
	does := "are held with it"
	if verb == confirm.Release {
		does = "are free with it, unless another row holds them"
	}
	c.line("derived", "%s %s", plural(len(rows), "row"), does)
	for i, id := range rows {
		if i == 10 {
			c.line("", "and %d more; -o json has all", len(rows)-i)
			return
		}
		c.line("", "%s", id)
	}
}

func (c *card) some(list []decisionJSON) {
	for i, d := range list {
		if i == 10 {
			c.line("", "and %d more; -o json has all", len(list)-i)
			return
		}
		c.line("", "%s  %s  %s", moment(d.At), oneLine(d.ID, maxName), oneLine(d.Tool, maxName))
	}
}

func (c *card) waiting(list []waitingJSON) {
	for i, w := range list {
		if i == 10 {
			c.line("", "and %d more; -o json has all", len(list)-i)
			return
		}
		why := ""
		if len(w.Codes) > 0 {
			why = "  " + oneLine(strings.Join(w.Codes, ", "), maxClaim)
		}
		c.line("", "%s  %s, run %s%s", oneLine(w.ID, maxName), oneLine(w.Tool, maxName), oneLine(w.Run, maxName), why)
	}
}
