package main

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
)

// statementFlags say who speaks, with which key, and who is trusted.
type statementFlags struct {
	key, as, reason, trusted, object string
	revision                         uint64
}

// statementValidity is how long a statement lives: it is applied at once.
const statementValidity = 5 * time.Minute

const keyHint = `Make a key with
  hearsay keygen -out ana --principal ana --scope 'acme/*'
put the line it prints into a trusted-keys file that the agent cannot write, and give
  --key ana.key --as ana -trusted-keys FILE     (or HEARSAY_TRUSTED_KEYS)`

// statementJSON is the output of row confirm, reject and contradict.
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
	// Dependent are calls that ran on the row before it lost trust.
	Dependent []decisionJSON `json:"dependent"`
	Undo      string         `json:"undo"` // the command that takes it back
}

type standingJSON struct {
	State    memory.State `json:"state"`
	Mark     string       `json:"mark"`
	Truth    memory.Truth `json:"truth"`
	Rank     memory.Rank  `json:"rank,omitzero"`
	Revision uint64       `json:"revision"`
}

func standing(r *memory.Row) standingJSON {
	return standingJSON{State: r.State(), Mark: markOf(r).word, Truth: r.Truth, Rank: r.Rank, Revision: r.Revision}
}

func (a *app) statementCommands(store *storeFlags) []*cobra.Command {
	command := func(verb confirm.Verb, short, long string) *cobra.Command {
		var f statementFlags
		name := verb.String()
		object := ""
		if verb == confirm.Contradict {
			object = " --object pay@acme.example"
		}
		cmd := &cobra.Command{
			Use:   name + " ID",
			Short: short,
			Long: long + `

The statement is signed with your key, bound to the content and the version of the
row as it is now, and checked against the trusted keys. With --revision, the version
that row show printed, it is refused (exit 6) if the row has changed since you looked.

With -o json: {"schema": "hearsay.statement/1", "verb", "row", "before", "after",
"blocked", "dependent", "undo", …}.`,
			Example: "  hearsay row " + name + " -store sqlite:agent.db k3f9a2b1 --key ana.key --as ana \\\n" +
				"      -trusted-keys trusted-keys --reason \"asked Acme by phone\"" + object,
			Args: args("ID"),
		}
		o := outputFlag(cmd)
		cmd.Flags().StringVar(&f.key, "key", "", "your private key, as keygen wrote it")
		cmd.Flags().StringVar(&f.as, "as", "", "the principal you speak as")
		cmd.Flags().StringVar(&f.reason, "reason", "", "why, for people")
		cmd.Flags().StringVar(&f.trusted, "trusted-keys", "", "file of trusted public keys (or HEARSAY_TRUSTED_KEYS)")
		cmd.Flags().Uint64Var(&f.revision, "revision", 0, "the version of the row that you looked at; 0 = as it is now")
		if verb == confirm.Contradict {
			cmd.Flags().StringVar(&f.object, "object", "", "what is right instead; becomes a verified row of yours")
		}
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			said, err := a.state(cmd.Context(), store, verb, &f, args[0])
			if err != nil {
				return err
			}
			if *o == asJSON {
				return a.emit(said)
			}
			return a.stateText(said)
		}
		return cmd
	}
	return []*cobra.Command{
		command(confirm.Confirm, "Say that a row is right, signed with your key",
			`confirm makes a row verified on your word, for every agent. Only a user's word
ends that.`),
		command(confirm.Reject, "Say that a row is wrong, signed with your key",
			`reject says that the claim is wrong, however it is spelled. What supported it
is void, and only a user's confirmation brings it back.`),
		command(confirm.Contradict, "Say that a row is wrong and what is right, signed with your key",
			`contradict rejects a row, and with --object says what is right instead.`),
	}
}

// state signs a statement on a row as it is now, checks it against the trusted
// keys, and applies it.
func (a *app) state(ctx context.Context, store *storeFlags, verb confirm.Verb, f *statementFlags, arg string) (statementJSON, error) {
	keyring, key, err := a.signer(f, verb.String()+" a row")
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
	statement := confirm.New(verb, &row, s.Tenant(), f.as, f.reason, s.Now(), statementValidity)
	statement.Object = f.object
	signed, err := confirm.Sign(key, statement)
	if err != nil {
		return statementJSON{}, err
	}
	done, err := confirm.Apply(ctx, s, keyring, signed)
	if err != nil {
		return statementJSON{}, err
	}
	after, err := s.Get(ctx, row.ID)
	if err != nil {
		return statementJSON{}, err
	}
	said := statementJSON{Schema: "hearsay.statement/1", Verb: verb, Row: row.ID, Content: row.Content, Principal: f.as, Reason: f.reason,
		Before: standing(&row), After: standing(&after[0]), Correction: done.Correction, Blocked: []decisionJSON{}, Dependent: []decisionJSON{}}
	back := confirm.Confirm
	if verb == confirm.Confirm {
		back = confirm.Reject
	}
	said.Undo = fmt.Sprintf("hearsay row %s %s --reason TEXT", back, row.ID)
	if said.Correction != "" { // or the two would contest each other
		said.Undo = fmt.Sprintf("hearsay row reject %s --reason TEXT, then %s", said.Correction, said.Undo)
	}
	decisions, err := citing(ctx, s, row.ID)
	if err != nil {
		return statementJSON{}, err
	}
	for _, d := range decisions {
		switch {
		case d.Dependent:
			said.Dependent = append(said.Dependent, d)
		case !d.Fired && verb == confirm.Confirm:
			said.Blocked = append(said.Blocked, d)
		}
	}
	return said, nil
}

// signer is who speaks, by flags and environment: whom to trust, and the key.
func (a *app) signer(f *statementFlags, what string) (*confirm.Keyring, ed25519.PrivateKey, error) {
	trusted := f.trusted
	if trusted == "" {
		trusted = a.getenv("HEARSAY_TRUSTED_KEYS")
	}
	for _, required := range [...]struct{ flag, value string }{
		{"--key FILE", f.key}, {"--as PRINCIPAL", f.as}, {"-trusted-keys FILE (or HEARSAY_TRUSTED_KEYS)", trusted},
	} {
		if required.value == "" {
			return nil, nil, usage("%s is missing: only a person with a trusted key may %s", required.flag, what).with(keyHint)
		}
	}
	if f.reason == "" {
		return nil, nil, usage("--reason TEXT is missing: it is kept with the move, for whoever asks later")
	}
	keyring, err := confirm.LoadKeyring(trusted)
	if err != nil {
		return nil, nil, fmt.Errorf("trusted keys: %w", err)
	}
	key, err := confirm.LoadKey(f.key)
	if err != nil {
		return nil, nil, fmt.Errorf("key %s: %w", f.key, err)
	}
	return keyring, key, nil
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
	if said.Verb == confirm.Confirm {
		c.line("unblocks", "%s on it; the next try is decided afresh", plural(len(said.Blocked), "refused call"))
		c.some(said.Blocked)
	}
	if n := len(said.Dependent); n > 0 {
		c.line("DEPENDENT", "%s ran on it before", plural(n, "call"))
		c.some(said.Dependent)
	}
	c.line("undo", "%s", said.Undo)
	return a.write(c.String())
}

func (s standingJSON) text() string {
	text := s.Mark
	if s.Rank != 0 {
		text += " (rank " + s.Rank.String() + ")"
	}
	return fmt.Sprintf("%s, version %d", text, s.Revision)
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
