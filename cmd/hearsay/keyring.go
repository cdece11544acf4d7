package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory/keyring"
)

func (a *app) keyringCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keyring",
		Short: "Make a store's keyring, and rotate its audit key",
		Long: `A keyring is a folder with the keys of a store: without it nobody reads the store,
and nobody changes its audit unseen. Keep it on another disk or machine than the
store and than the store's backups. Losing it is losing what the store says.

The audit keys may be kept elsewhere: HEARSAY_AUDIT_KEYS=2:BASE64,1:BASE64, 32 random
bytes each, the current one first. A keyring that is made while it is set holds none.`,
		Example: "  hearsay keyring create /etc/hearsay/keys",
		RunE:    subcommandWanted,
		Args:    cobra.ArbitraryArgs,
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "create DIR",
		Short:   "Make a keyring in a folder; never over another one",
		Example: "  hearsay keyring create /etc/hearsay/keys",
		Args:    args("DIR"),
		RunE: func(_ *cobra.Command, got []string) error {
			auditKeys, err := a.auditKeys()
			if err != nil {
				return err
			}
			if _, err := keyring.Create(got[0], &keyring.Options{AuditKeys: auditKeys}); err != nil {
				return err
			}
			fmt.Fprintf(a.talk, "keyring: %s (back it up apart from the store; what is erased must be erased there too)\n", oneLine(got[0], maxMessage))
			return nil
		},
	}, &cobra.Command{
		Use:   "rotate DIR",
		Short: "Make a new audit key the current one; old entries stay verifiable",
		Long: `rotate adds an audit key to the keyring and makes it the current one. Programs that
are running take it when they are started again. Old keys stay: what they
authenticated is verified with them.`,
		Example: "  hearsay keyring rotate /etc/hearsay/keys",
		Args:    args("DIR"),
		RunE: func(cmd *cobra.Command, got []string) error {
			auditKeys, err := a.auditKeys()
			if err != nil {
				return err
			}
			if len(auditKeys) > 0 {
				return usage("keyring rotate: the audit keys are in %s: put a new one in front there", auditKeysVariable)
			}
			r, err := keyring.Open(got[0], nil)
			if err != nil {
				return err
			}
			id, err := r.Rotate(cmd.Context())
			if err != nil {
				return err
			}
			return a.write(fmt.Sprintf("audit key %d\n", id))
		},
	})
	return cmd
}
