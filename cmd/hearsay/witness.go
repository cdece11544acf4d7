package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
)

func (a *app) witnessCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "witness",
		Short: "Make, or serve, the file that remembers what a store must not lose",
		Long: `A witness is a file on another disk or machine than the store. Demotions, erasures
and checkpoints are written there before they are acknowledged, so that a fail-over or
an older copy that lost one is noticed, and the gate stays closed. Programs and
commands are told of it by HEARSAY_WITNESS. Where several machines share a store, one
serves the file (hearsay witness serve), and HEARSAY_WITNESS is its URL.

They never make it: a witness that was taken away with an older copy put in the
store's place must not look like a new one. And a store that was once used with a
witness knows it: its keyring says so. Without that one, agents, workers and proxies
do not start, no call fires and nothing is erased. What a person demotes or revokes
takes effect, ends with exit code 1, and waits in the store for the witness.

If the witness is gone, bring it back. If it is lost for good, give it up by name.`,
		Example: "  hearsay witness create /mnt/other/witness\n  hearsay witness show -store sqlite:agent.db",
		RunE:    subcommandWanted,
		Args:    cobra.ArbitraryArgs,
	}
	cmd.AddCommand(a.createWitnessCommand(), a.serveWitnessCommand(), a.showWitnessCommand(), a.giveUpWitnessCommand())
	return cmd
}

func (a *app) createWitnessCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "create FILE",
		Short:   "Make a witness that has seen nothing yet; never over another one",
		Example: "  hearsay witness create /mnt/other/witness",
		Args:    args("FILE"),
		RunE: func(_ *cobra.Command, got []string) error {
			w, err := audit.CreateWitness(got[0])
			if errors.Is(err, fs.ErrExist) {
				return usage("witness create: %s is there already; nothing was changed", oneLine(got[0], maxMessage))
			}
			if errors.Is(err, fs.ErrNotExist) {
				return usage("witness create: there is no folder %s; make it first, on another disk or machine than the store's", oneLine(filepath.Dir(got[0]), maxMessage))
			}
			if err != nil { // without the advice to whom a witness is lost
				return fail(exitFailed, "witness create: %w", err)
			}
			if err := w.Close(); err != nil {
				return err
			}
			fmt.Fprintf(a.talk, "witness: %s (it remembers what happens from now on; set %s to it for programs and commands alike)\n", oneLine(got[0], maxMessage), witnessVariable)
			return nil
		},
	}
}

// witnessJSON is the output of witness show and give-up.
type witnessJSON struct {
	Schema  string `json:"schema"` // hearsay.witness/1
	Tenant  string `json:"tenant"`
	Witness string `json:"witness,omitempty"` // of the store; "" = none
	GivenUp bool   `json:"given_up"`          // there was one
	AtHand  bool   `json:"at_hand"`           // HEARSAY_WITNESS names it
	Told    int    `json:"told"`              // what waited for it, and was told
	Untold  int    `json:"untold"`            // what still waits
}

func (a *app) showWitnessCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Say which witness a store has, and tell it what waits for it",
		Long: `show says which witness the store has, and whether HEARSAY_WITNESS names it. If it
does, the witness is told what was taken away while it was not at hand.

With -o json: {"schema": "hearsay.witness/1", "witness", "at_hand", "untold", …}.`,
		Example: "  HEARSAY_WITNESS=/mnt/other/witness hearsay witness show -store sqlite:agent.db",
		Args:    args(),
	}
	store := addStoreFlags(cmd)
	o := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := a.open(cmd.Context(), store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		before, err := s.Witnessing(cmd.Context())
		if err != nil {
			return err
		}
		told := 0
		if before.AtHand {
			if told, err = s.TellWitness(cmd.Context()); err != nil {
				return err
			}
		}
		return a.witnessed(cmd, s, *o, told)
	}
	return cmd
}

func (a *app) giveUpWitnessCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "give-up ID",
		Short: "End that a store has a witness: its file is lost for good",
		Long: `give-up records, in the keyring and in the audit, that the store has no witness any
more, so that agents and workers start without one. ID is what hearsay witness show
and hearsay doctor print. It cannot be taken back: the store never takes that witness
again. A new one (hearsay witness create) becomes its witness with the first use.

Before that, make sure that nothing was lost: a demotion or an erasure that only the
lost witness knew of is not found any more. If the keyring has copies on other
machines, give the witness up with each.`,
		Example: "  hearsay witness give-up 3f9ac2… -store sqlite:agent.db --reason \"the disk of the witness burnt\"",
		Args:    args("ID"),
	}
	store := addStoreFlags(cmd)
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; it is kept in the audit")
	cmd.RunE = func(cmd *cobra.Command, got []string) error {
		var id memory.Token
		b, err := hex.DecodeString(got[0])
		if err != nil || copy(id[:], b) != len(id) || len(b) != len(id) {
			return usage("witness give-up: %q is no id of a witness: want the 32 characters that hearsay witness show prints", oneLine(got[0], maxName))
		}
		if reason == "" {
			return usage("witness give-up: --reason TEXT is missing: it is kept in the audit")
		}
		s, err := a.open(cmd.Context(), store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		if err := s.GiveUpWitness(cmd.Context(), id, operator(), reason); err != nil {
			return err
		}
		return a.witnessed(cmd, s, *o, 0)
	}
	return cmd
}

// witnessed prints what a store has.
func (a *app) witnessed(cmd *cobra.Command, s *memory.Store, o output, told int) error {
	w, err := s.Witnessing(cmd.Context())
	if err != nil {
		return err
	}
	if o == asJSON {
		out := witnessJSON{Schema: "hearsay.witness/1", Tenant: s.Tenant(), GivenUp: w.GivenUp, AtHand: w.AtHand, Told: told, Untold: w.Untold}
		if w.ID != (memory.Token{}) {
			out.Witness = w.ID.String()
		}
		return a.emit(out)
	}
	c := card{}
	switch {
	case w.AtHand:
		c.line("witness", "%s, at hand", w.ID)
	case w.ID != (memory.Token{}):
		c.line("witness", "%s, not at hand: set %s to its file, or to the URL of its server", w.ID, witnessVariable)
	case w.GivenUp:
		c.line("witness", "none; the one that there was was given up")
	default:
		c.line("witness", "none")
	}
	if told > 0 {
		c.line("told", "%s that waited for it", plural(told, "change"))
	}
	if w.Untold > 0 {
		c.line("untold", "%s of trust taken away", plural(w.Untold, "change"))
	}
	return a.write(c.String())
}
