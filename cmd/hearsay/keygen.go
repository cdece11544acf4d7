package main

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/gate/confirm"
)

// keyJSON is the output of keygen.
type keyJSON struct {
	Schema    string   `json:"schema"` // hearsay.key/1
	Principal string   `json:"principal"`
	Scopes    []string `json:"scopes"`
	File      string   `json:"private_key_file"`
	Line      string   `json:"trusted_keys_line"`
}

func (a *app) keygenCommand() *cobra.Command {
	var (
		out, principal string
		scopes         []string
	)
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Make a key to confirm rows and approve calls with",
		Long: `keygen writes a new private key to PREFIX.key, readable by you only, and prints
the line for the trusted-keys file. It never overwrites a file.

A scope says what the key may speak for: a subject, or subject/predicate; either may
end in *. Write a blank, slash, star or percent sign inside as %20, %2F, %2A, %25.
call:TOOL is a scope over held calls of a tool, call:* over those of all; of the
others only * reaches calls. A subject that begins so is written call%3A.
Without a scope the key speaks for the principal itself. Keep both files out of
reach of the agent: who writes the trusted-keys file speaks for everybody in it.`,
		Example: "  hearsay keygen -out ana --principal ana --scope 'acme/billing.*' --scope call:send_email >> trusted-keys",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&out, "out", "", "the private key is written to this path and \".key\"")
	cmd.Flags().StringVar(&principal, "principal", "", "who will speak with it")
	cmd.Flags().StringArrayVar(&scopes, "scope", nil, "what it may speak for; may be repeated")
	cmd.RunE = func(*cobra.Command, []string) error {
		if out == "" {
			return usage("keygen: -out PREFIX is missing: where the private key goes")
		}
		if principal == "" {
			return usage("keygen: --principal NAME is missing: who will speak with the key")
		}
		if len(scopes) == 0 {
			scopes = []string{strings.NewReplacer("*", "%2A", ":", "%3A").Replace(url.PathEscape(principal))}
		}
		// Before a file is made: would the line be read?
		if _, err := confirm.Line(principal, make(ed25519.PublicKey, ed25519.PublicKeySize), scopes...); err != nil {
			var field *confirm.KeyringError
			if errors.As(err, &field) {
				return usage("keygen: %s: %s", field.Field, field.Text)
			}
			return err
		}
		made := keyJSON{Schema: "hearsay.key/1", Principal: principal, Scopes: scopes, File: out + ".key"}
		public, err := confirm.GenerateKey(made.File)
		if errors.Is(err, fs.ErrExist) {
			return fail(exitFailed, "keygen: %s exists, and no key is ever overwritten", made.File)
		}
		if err != nil {
			return err
		}
		if made.Line, err = confirm.Line(principal, public, scopes...); err != nil {
			return err
		}
		fmt.Fprintf(a.talk, "private key: %s (keep it from the agent)\nappend the line to the trusted-keys file:\n", oneLine(made.File, maxMessage))
		if *o == asJSON {
			return a.emit(made)
		}
		return a.write(made.Line + "\n")
	}
	return cmd
}
