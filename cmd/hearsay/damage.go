package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
)

func (a *app) clearDamageCommand(store *storeFlags) *cobra.Command {
	var f statementFlags
	cmd := &cobra.Command{
		Use:   "clear-damage ID",
		Short: "Let calls rest on a row again that was found changed, signed with your key",
		Long: `clear-damage ends the record that a verification found a row changed behind the
store's back; the worker makes that record, and no call fires on the row while it
stands. The whole store is verified first: a row that is not what was written stays
damaged, and the exit code is 8. Put it right from a backup, or erase or retract it.

Your key needs a scope over row:ID/clear-damage, as in --scope 'row:*/clear-damage'.
The audit keeps who cleared it and why.`,
		Example: "  hearsay row clear-damage mem_02q9l50fci00002e2f64c1mt4c -store sqlite:agent.db --key ana.key --as ana \\\n" +
			"      -trusted-keys trusted-keys --reason 'put back from the backup of Monday'",
		Args: args("ID"),
	}
	cmd.Flags().StringVar(&f.key, "key", "", "your private key, as keygen wrote it")
	cmd.Flags().StringVar(&f.as, "as", "", "the principal you speak as")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for people")
	cmd.Flags().StringVar(&f.trusted, "trusted-keys", "", "file of trusted public keys (or HEARSAY_TRUSTED_KEYS)")
	cmd.RunE = func(cmd *cobra.Command, got []string) error {
		ctx := cmd.Context()
		id := memory.ID(got[0])
		if !id.Valid() {
			return usage("row clear-damage: the whole ID (mem_…) is needed")
		}
		keyring, key, err := a.speaker(f.key, f.as, f.trusted, f.reason, "clear a damaged row")
		if err != nil {
			return err
		}
		s, err := a.open(ctx, store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		rows, revision, err := s.DamagedRows(ctx)
		if err != nil {
			return err
		}
		if !slices.Contains(rows, id) {
			return fail(exitNotFound, "%s is not recorded as damaged", id)
		}
		var still error
		_, err = s.VerifyAll(ctx, memory.Verifying{Found: func(err error) error {
			var at *memory.TamperError
			if still == nil && errors.As(err, &at) && memory.RowOfKey(at.Key) == id {
				still = err
			}
			return nil
		}})
		if err == nil {
			err = still
		}
		if err != nil {
			return err
		}
		signed, err := confirm.SignClearance(key, confirm.NewClearance(s, id, revision, f.as, f.reason, statementValidity))
		if err != nil {
			return err
		}
		if err := confirm.Clear(ctx, s, keyring, signed); err != nil {
			return err
		}
		return a.write(fmt.Sprintf("%s is read as it is stored again\n", id))
	}
	return cmd
}
