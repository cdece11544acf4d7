package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/gate"
)

// vetJSON is the output of gate vet.
type vetJSON struct {
	Schema   string           `json:"schema"` // hearsay.vet/1
	Policy   bool             `json:"policy"` // the file can be read as one
	Findings []vetFindingJSON `json:"findings"`
}

type vetFindingJSON struct {
	Line  int    `json:"line"`
	Field string `json:"field"`
	Text  string `json:"text"`
}

func (a *app) gateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "gate",
		Short:   "Look at what decides about tool calls",
		Example: "  hearsay gate vet policy.json",
		RunE:    subcommandWanted,
		Args:    cobra.ArbitraryArgs,
	}
	cmd.AddCommand(a.vetCommand())
	return cmd
}

func (a *app) vetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vet POLICY",
		Short: "Look for mistakes in a policy file",
		Long: `vet reads a policy file and runs the cases in it by the rule that the gate runs. It
finds a case that comes to something else than the file says, a rule without a case
that it lets fire or without one that it blocks, a field of a rule that changes no
case, a tool whose effect nobody declares, names that differ in letter case only,
and a verifying tool that the policy does not let run. It opens no store. See
docs/policy.md for the format.

Exit code 0 if it finds nothing, 4 if it finds something, 2 if the file is no
policy; each finding has its line and field.

With -o json: {"schema": "hearsay.vet/1", "policy": …, "findings": [{"line", "field",
"text"}]}.`,
		Example: "  hearsay gate vet policy.json\n  hearsay gate vet policy.json -o json",
		Args:    args("POLICY"),
	}
	o := outputFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		b, err := readPolicy(args[0])
		if err != nil {
			return err
		}
		found, unread := gate.VetPolicy(b)
		if unread != nil {
			found = wrong(unread)
		}
		seen := vetJSON{Schema: "hearsay.vet/1", Policy: unread == nil, Findings: []vetFindingJSON{}}
		text := ""
		for _, f := range found {
			seen.Findings = append(seen.Findings, vetFindingJSON{f.Line, f.Field, f.Text})
			what := f.Text
			if f.Field != "" {
				what = f.Field + ": " + what
			}
			text += oneLine(fmt.Sprintf("%s:%d: %s", args[0], f.Line, what), maxMessage) + "\n"
		}
		if *o == asJSON {
			err = a.emit(seen)
		} else {
			err = a.write(text)
		}
		switch {
		case err != nil:
			return err
		case unread != nil:
			return usage("gate vet: not a policy: %d mistakes", len(found))
		case len(found) > 0:
			return fail(exitNo, "%d findings", len(found))
		}
		return nil
	}
	return cmd
}

// readPolicy reads at most what a policy may be long, and a byte more.
func readPolicy(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail(exitNotFound, "%w", err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, gate.MaxPolicy+1))
}

// wrong are the mistakes for which a file was not read.
func wrong(err error) (out []*gate.PolicyError) {
	var one *gate.PolicyError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			out = append(out, wrong(e)...)
		}
	} else if errors.As(err, &one) {
		out = append(out, one)
	}
	return out
}
