package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

func (a *app) keyringCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keyring",
		Short: "Make a store's keyring, rotate its audit key, copy it, bring it over",
		Long: `A keyring holds the keys of a store: without it nobody reads the store, and nobody
changes its audit unseen. It is a folder on one machine, or a PostgreSQL database that
several machines share. Keep it on another disk or machine than the store and than the
store's backups. Losing it is losing what the store says.

What is in it is wrapped under a key of its own, the wrapping key: the file "wrap" in the
folder, or what HEARSAY_WRAPPING_KEY names: file:PATH, or versions that you make and
destroy, the newest first, as 2:BASE64,1:BASE64 (32 random bytes each). A keyring in
PostgreSQL needs it. An erasure destroys the version that covered what it erases.

The audit keys may be kept elsewhere: HEARSAY_AUDIT_KEYS=2:BASE64,1:BASE64, 32 random
bytes each, the current one first. A keyring that is made while it is set holds none.`,
		Example: "  hearsay keyring create /etc/hearsay/keys",
		RunE:    subcommandWanted,
		Args:    cobra.ArbitraryArgs,
	}
	cmd.AddCommand(a.keyringCreate(), a.keyringRotate(), a.keyringBackup(), a.keyringRelease(), a.keyringRewrap())
	return cmd
}

// place is what an argument names, as it may be shown: without a password.
func place(arg string) string {
	if storeurl.IsServer(arg) {
		arg = storeurl.Redacted(arg)
	}
	return oneLine(arg, maxMessage)
}

func (a *app) keyringCreate() *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:   "create DIR|URL",
		Short: "Make a keyring in a folder or a PostgreSQL database; never over another one",
		Long: `create makes a keyring in a folder that is empty or not there; or, of a postgres://
URL, the schema, the tables and a keyring in them, as a role that may make them. The
schema is hearsay_keys, or what ?schema=NAME says. --role is the role that programs
connect as.

A keyring in PostgreSQL needs a wrapping key: if HEARSAY_WRAPPING_KEY is file:PATH and
there is no such file, create makes it. Copy the file to each machine that is to use the
keyring, and set HEARSAY_WRAPPING_KEY there.`,
		Example: `  hearsay keyring create /etc/hearsay/keys
  HEARSAY_WRAPPING_KEY=file:/etc/hearsay/wrap hearsay keyring create postgres://owner@keys/hearsay_keys --role app`,
		Args: args("DIR|URL"),
		RunE: func(cmd *cobra.Command, got []string) error {
			if path, ok := strings.CutPrefix(a.getenv(wrappingVariable), "file:"); ok {
				_, err := keyring.CreateWrappingFile(path)
				if err == nil {
					fmt.Fprintf(a.talk, "wrapping key: %s (keep its copies apart from those of the keyring)\n", oneLine(path, maxMessage))
				} else if !errors.Is(err, keyring.ErrExists) {
					return err
				}
			}
			o, err := a.keyringOptions()
			if err != nil {
				return err
			}
			r, err := storeurl.CreateKeyring(cmd.Context(), got[0], o, role)
			if err != nil {
				return err
			}
			defer r.Close()
			fmt.Fprintf(a.talk, "keyring: %s (back it up apart from the store; what is erased must be erased there too)\n", place(got[0]))
			return nil
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "of a PostgreSQL database, the role that programs connect as")
	return cmd
}

func (a *app) keyringRotate() *cobra.Command {
	return &cobra.Command{
		Use:   "rotate DIR|URL",
		Short: "Make a new audit key the current one; old entries stay verifiable",
		Long: `rotate adds an audit key to the keyring and makes it the current one. Programs that
are running take it within a moment. Old keys stay: what they authenticated is verified
with them.`,
		Example: "  hearsay keyring rotate /etc/hearsay/keys",
		Args:    args("DIR|URL"),
		RunE: func(cmd *cobra.Command, got []string) error {
			o, err := a.keyringOptions()
			if err != nil {
				return err
			}
			if len(o.AuditKeys) > 0 {
				return usage("keyring rotate: the audit keys are in %s: put a new one in front there", auditKeysVariable)
			}
			r, err := storeurl.OpenKeyring(cmd.Context(), got[0], o)
			if err != nil {
				return err
			}
			defer r.Close()
			id, err := r.Rotate(cmd.Context())
			if err != nil {
				return err
			}
			return a.write(fmt.Sprintf("audit key %d\n", id))
		},
	}
}

func (a *app) keyringBackup() *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR TO",
		Short: "Copy a keyring in a folder to another folder, while it is in use",
		Long: `backup copies a keyring as it is at one moment, with the wrapping key if that lies in
its folder. With both, what is erased afterwards can still be read from old copies of the
store: keep the copy of the wrapping key (the file "wrap") apart from the rest, make the
copies anew after an erasure, and delete the old ones.`,
		Example: "  hearsay keyring backup /etc/hearsay/keys /mnt/other/keys-monday",
		Args:    args("DIR", "TO"),
		RunE: func(_ *cobra.Command, got []string) error {
			o, err := a.keyringOptions()
			if err != nil {
				return err
			}
			return keyring.Backup(got[0], got[1], o)
		},
	}
}

// newWrappingVariable names the key that a keyring moves to.
const newWrappingVariable = "HEARSAY_NEW_WRAPPING_KEY"

func (a *app) keyringRewrap() *cobra.Command {
	return &cobra.Command{
		Use:   "rewrap DIR|URL",
		Short: "Move a keyring to another wrapping key: from a file to the environment, say",
		Long: `rewrap wraps a keyring under the key that HEARSAY_NEW_WRAPPING_KEY names, in the form of
HEARSAY_WRAPPING_KEY, which names the one of before (or the file "wrap" in the folder).
If it is file:PATH and there is no such file, rewrap makes it. Stop the programs that use
the keyring first, and start them with the new key in HEARSAY_WRAPPING_KEY.

It is one step: interrupted, the keyring opens with the one key or with the other. The key
of before is then needed no more: destroy it and its copies. With it and an older copy of
the keyring, what is erased later can be read. While an erasure is pending, rewrap refuses.`,
		Example: "  HEARSAY_NEW_WRAPPING_KEY=file:/mnt/other/wrap hearsay keyring rewrap /etc/hearsay/keys",
		Args:    args("DIR|URL"),
		RunE: func(cmd *cobra.Command, got []string) error {
			text := a.getenv(newWrappingVariable)
			if text == "" {
				return usage("keyring rewrap: %s is not set: the key that the keyring moves to", newWrappingVariable)
			}
			o, err := a.keyringOptions()
			if err != nil {
				return err
			}
			before := "that of " + wrappingVariable
			if path, ok := strings.CutPrefix(a.getenv(wrappingVariable), "file:"); ok {
				before = path
			} else if o.Wrapping == nil {
				before = filepath.Join(got[0], "wrap")
			}
			r, err := storeurl.OpenKeyring(cmd.Context(), got[0], o)
			if err != nil {
				return err
			}
			defer r.Close()
			if path, ok := strings.CutPrefix(text, "file:"); ok {
				if _, err := keyring.CreateWrappingFile(path); err != nil && !errors.Is(err, keyring.ErrExists) {
					return err
				}
			}
			to, err := keyring.ParseWrapping(text)
			if err != nil {
				return fmt.Errorf("%s: %w", newWrappingVariable, err)
			}
			if err := r.Rewrap(cmd.Context(), to); err != nil {
				return err
			}
			fmt.Fprintf(a.talk, "the wrapping key of before (%s) is no longer needed: destroy it and its copies, and set %s to the new one\n", oneLine(before, maxMessage), wrappingVariable)
			return nil
		},
	}
}

func (a *app) keyringRelease() *cobra.Command {
	return &cobra.Command{
		Use:   "release URL [MACHINE]",
		Short: "List the machines that share a keyring, or take one out that is gone",
		Long: `release takes a machine out of those that share a keyring in PostgreSQL. An erasure is
pending until each of them has let go of the version of the wrapping key that covered what
was erased; one that is gone for good never does. Destroy its file of the wrapping key
first: with that and an old copy of the keyring, what was erased can be read.`,
		Example: "  hearsay keyring release postgres://app@keys/hearsay_keys web3:/etc/hearsay/wrap",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, got []string) error {
			o, err := a.keyringOptions()
			if err != nil {
				return err
			}
			r, err := storeurl.OpenKeyring(cmd.Context(), got[0], o)
			if err != nil {
				return err
			}
			defer r.Close()
			if len(got) == 2 {
				return r.Release(cmd.Context(), got[1])
			}
			list, err := r.Holders(cmd.Context())
			if err != nil {
				return err
			}
			var out strings.Builder
			for _, h := range list {
				fmt.Fprintf(&out, "%s\tfrom epoch %d\n", oneLine(cmp.Or(h.Name, "(no name)"), maxMessage), h.Epoch)
			}
			return a.write(out.String())
		},
	}
}
