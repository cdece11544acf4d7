package main

import (
	"context"
	"fmt"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/audit/witnesshttp"
)

func (a *app) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "store",
		Short:   "Rebuild, compact and recover a store",
		Example: "  hearsay store rebuild --store sqlite:agent.db",
		RunE:    subcommandWanted,
		Args:    cobra.ArbitraryArgs,
	}
	store := addStoreFlags(cmd)
	cmd.AddCommand(a.rebuildCommand(store), a.compactCommand(store), a.recoverCommand(store))
	return cmd
}

// operator is whom an audit entry of a command names.
func operator() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "operator:" + u.Username
	}
	return "operator"
}

// maintained is the output of the commands that work on a whole store.
type maintained struct {
	Schema string `json:"schema"`
	Tenant string `json:"tenant"`
	Result any    `json:"result"`
}

func (a *app) rebuildCommand(store *storeFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Make everything that is derived again from the logs",
		Long: `rebuild reads the log of every row, verifies it against its chain, and makes again
what is derived from it: the current state of each row, its evidence, its identity,
due marks and every index. Heads come back byte for byte. A log that does not hold
stops it, and says which entry.

Nothing else may write to the store meanwhile; stop agents and workers first. Open
permits are void afterwards. Interrupted, it is simply run again.

With -o json: {"schema": "hearsay.rebuild/1", "tenant": …, "result": {"rows": …}}.`,
		Example: "  hearsay store rebuild --store sqlite:agent.db",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := a.open(cmd.Context(), store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		done, err := s.Rebuild(cmd.Context(), operator(), a.progress("rows"))
		if err != nil {
			return err
		}
		if *o == asJSON {
			return a.emit(maintained{"hearsay.rebuild/1", s.Tenant(), done})
		}
		return a.write(fmt.Sprintf("rebuilt %s\n", done))
	}
	return cmd
}

func (a *app) compactCommand(store *storeFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Pack long histories, and give back what was deleted",
		Long: `compact packs the old entries of long histories. Every answer about the past stays
what it was, and the audit still holds. Then the store gives back, and overwrites,
what was deleted: a vacuum of a SQLite file or of tables, a rewrite of Redis' log.

It may take long, and calls may wait for it. Interrupted, it is simply run again.

With -o json: {"schema": "hearsay.compact/1", "tenant": …, "result": {"entries": …}}.`,
		Example: "  hearsay store compact --store sqlite:agent.db",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := a.open(cmd.Context(), store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		done, err := s.Compact(cmd.Context())
		if err != nil {
			return err
		}
		if *o == asJSON {
			return a.emit(maintained{"hearsay.compact/1", s.Tenant(), done})
		}
		return a.write(fmt.Sprintf("%d entries of %d histories packed: %d bytes are %d\n", done.Entries, done.Logs, done.Before, done.After))
	}
	return cmd
}

func (a *app) recoverCommand(store *storeFlags) *cobra.Command {
	var accept bool
	var verifiers string
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Make good for demotions and erasures that a store lost",
		Long: `recover asks the witness (HEARSAY_WITNESS) which demotions and erasures were
acknowledged that the store no longer has: a fail-over went to a replica that lagged,
or an older copy was restored. Until then the gate is closed on such a store.

Rows whose demotion was lost lose their verified state and are hidden until a person
looks at them; what had been erased is erased again. Open permits are void.

If the witness saw a newer checkpoint than the store has, checkpoints are refused from
then on, and audit verify says so: an older copy was put back. When it was you, say
--accept-older, with the verifier keys of the checkpoints (--checkpoint-keys): the
witness goes on from the newest one that is left.

With -o json: {"schema": "hearsay.recover/1", "tenant": …, "result": {"demoted": …}}.`,
		Example: "  HEARSAY_WITNESS=/mnt/other/witness hearsay store recover --store sqlite:agent.db\n" +
			"  HEARSAY_WITNESS=/mnt/other/witness hearsay store recover --store sqlite:agent.db --accept-older --checkpoint-keys audit.pub",
		Args: args(),
	}
	o := outputFlag(cmd)
	cmd.Flags().BoolVar(&accept, "accept-older", false, "let the witness go on from the newest checkpoint that the store has")
	cmd.Flags().StringVar(&verifiers, "checkpoint-keys", "", "a file of verifier keys, one a line, for --accept-older")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		path := a.getenv(witnessVariable)
		if path == "" {
			return usage("store recover: set %s to the file of the witness, or to the URL of its server", witnessVariable)
		}
		if accept != (verifiers != "") {
			return usage("store recover: --accept-older and --checkpoint-keys go together")
		}
		s, err := a.open(cmd.Context(), store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		done, err := s.Recover(cmd.Context(), operator())
		if err != nil {
			return err
		}
		if err := a.olderCopy(cmd.Context(), s, path, verifiers); err != nil {
			return err
		}
		if *o == asJSON {
			return a.emit(maintained{"hearsay.recover/1", s.Tenant(), done})
		}
		return a.write(fmt.Sprintf("%d demotions and %d erasures are back, %d other entries noted\n", done.Demoted, done.Erased, done.Noted))
	}
	return cmd
}

// olderCopy accepts, if verifiers are named, that a store has fewer checkpoints than
// its witness saw, and says so otherwise.
func (a *app) olderCopy(ctx context.Context, s *memory.Store, path, verifiers string) error {
	w, err := witnesshttp.Open(ctx, path, a.getenv)
	if err != nil {
		return err
	}
	defer w.Close()
	seen, err := w.Ledger(s.Tenant(), s.Namespace()).Checkpoint(ctx)
	if err != nil {
		return err
	}
	last, err := s.LastCheckpoint(ctx)
	if err != nil || seen <= last.Index {
		return err
	}
	if verifiers == "" {
		fmt.Fprintf(a.talk, "the witness saw checkpoint %d and the store is at %d, so that none is made any more; if it was you who put the older copy back, say --accept-older\n", seen, last.Index)
		return nil
	}
	keys, err := audit.ReadVerifiers(verifiers)
	if err != nil {
		return err
	}
	return w.Accept(ctx, s, keys...)
}

// progress prints a count now and then.
func (a *app) progress(what string) func(int) {
	const every = 10_000
	last := 0
	return func(n int) {
		if n/every > last/every {
			fmt.Fprintf(a.talk, "%d %s …\n", n, what)
		}
		last = n
	}
}
