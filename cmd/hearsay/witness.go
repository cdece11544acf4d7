package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory/audit"
)

func (a *app) witnessCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "witness",
		Short: "Make the file that remembers what a store must not lose",
		Long: `A witness is a file on another disk or machine than the store. Demotions, erasures
and checkpoints are written there before they are acknowledged, so that a fail-over or
an older copy that lost one is noticed, and the gate stays closed. Programs and
commands are told of it by HEARSAY_WITNESS.

They never make it: a witness that was taken away with an older copy put in the
store's place must not look like a new one. If it is gone, bring it back; make one
anew only if you know that nothing was lost.`,
		Example: "  hearsay witness create /mnt/other/witness",
		RunE:    subcommandWanted,
		Args:    cobra.ArbitraryArgs,
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "create FILE",
		Short:   "Make a witness that has seen nothing yet; never over another one",
		Example: "  hearsay witness create /mnt/other/witness",
		Args:    args("FILE"),
		RunE: func(_ *cobra.Command, got []string) error {
			w, err := audit.CreateWitness(got[0])
			if errors.Is(err, fs.ErrExist) {
				return usage("witness create: %s is there already; nothing was changed", oneLine(got[0], maxMessage))
			}
			if err != nil {
				return err
			}
			if err := w.Close(); err != nil {
				return err
			}
			fmt.Fprintf(a.talk, "witness: %s (it remembers what happens from now on; set %s to it for programs and commands alike)\n", oneLine(got[0], maxMessage), witnessVariable)
			return nil
		},
	})
	return cmd
}
