package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

// doctorJSON is the output of doctor.
type doctorJSON struct {
	Schema   string        `json:"schema"` // hearsay.doctor/1
	Server   string        `json:"server"`
	Promise  string        `json:"promise"`
	Healthy  bool          `json:"healthy"`
	Findings []findingJSON `json:"findings"`
}

type findingJSON struct {
	Check string `json:"check"`
	Found string `json:"found"`
	Safe  bool   `json:"safe"`
	Loss  string `json:"loss,omitempty"`
	Fix   string `json:"fix,omitempty"`
}

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what the store promises, and what would be lost",
		Long: `doctor looks at the store, at the settings of its server and at the keyring, and says
for each what it found: whether something that was acknowledged could be lost, what,
and what to set. It changes nothing.

Exit code 0 if all is safe, 4 if something is not.

With -o json: {"schema": "hearsay.doctor/1", "healthy": …, "findings": […]}.`,
		Example: "  hearsay doctor --store sqlite:agent.db",
		Args:    args(),
	}
	store := addStoreFlags(cmd)
	o := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		seen, err := a.examine(cmd.Context(), store)
		if err != nil {
			return err
		}
		if *o == asJSON {
			if err := a.emit(seen); err != nil {
				return err
			}
		} else if err := a.doctorText(seen); err != nil {
			return err
		}
		if !seen.Healthy {
			return fail(exitNo, "something that was acknowledged could be lost")
		}
		return nil
	}
	return cmd
}

func (a *app) examine(ctx context.Context, f *storeFlags) (doctorJSON, error) {
	seen := doctorJSON{Schema: "hearsay.doctor/1", Healthy: true}
	url, o, err := a.storeOptions(f)
	if err != nil {
		return seen, err
	}
	d, err := storeurl.Driver(ctx, url, o)
	if err != nil {
		return seen, err
	}
	defer d.Close()
	i, err := d.Inspect(ctx)
	if err != nil {
		return seen, err
	}
	seen.Server, seen.Promise = i.Server, i.Promise
	findings := i.Findings
	keys, err := storeurl.Keys(url, o)
	switch {
	case errors.Is(err, keyring.ErrNotFound), errors.Is(err, keyring.ErrExposed), errors.Is(err, keyring.ErrDamaged), errors.Is(err, storeurl.ErrNoKeyring):
		findings = append(findings, memory.Finding{Name: "keyring", Found: err.Error(), Loss: "nothing in the store can be read without its keys",
			Fix: "name the keyring that the store was made with (--keyring); hearsay keyring create makes one for a new store"})
	case err != nil:
		return seen, err
	default:
		if ring, ok := keys.(*keyring.Ring); ok {
			findings = append(findings, ring.Findings()...)
		}
		s, err := memory.New(d, keys, &o.Options)
		if err != nil {
			return seen, err
		}
		fits := memory.Finding{Name: "keys fit the store", Found: "yes", Safe: true}
		if _, err := s.LastCheckpoint(ctx); errors.Is(err, memory.ErrKey) {
			fits = memory.Finding{Name: fits.Name, Found: "no", Loss: "nothing in the store can be read with these keys", Fix: "name the keyring that the store was made with (--keyring)"}
		} else if err != nil {
			return seen, err
		}
		findings = append(findings, fits)
	}
	seenBy := memory.Finding{Name: "witness", Found: a.getenv(witnessVariable), Safe: true}
	if seenBy.Found == "" {
		seenBy = memory.Finding{Name: "witness", Found: "none", Loss: "that an older copy of the store was restored, or that a fail-over lost a demotion, would go unnoticed",
			Fix: "set HEARSAY_WITNESS to a file on another disk or machine, for programs and commands alike"}
	}
	findings = append(findings, seenBy)
	for _, f := range findings {
		seen.Findings = append(seen.Findings, findingJSON{f.Name, f.Found, f.Safe, f.Loss, f.Fix})
		seen.Healthy = seen.Healthy && f.Safe
	}
	return seen, nil
}

func (a *app) doctorText(seen doctorJSON) error {
	c := card{}
	c.line("store", "%s", oneLine(seen.Server, maxMessage))
	c.line("promise", "%s", oneLine(seen.Promise, maxMessage))
	for _, f := range seen.Findings {
		mark := a.paint("✓", green)
		if !f.Safe {
			mark = a.paint("✗", red)
		}
		c.WriteString("\n" + mark + " " + oneLine(f.Check, maxName) + ": " + oneLine(f.Found, maxMessage) + "\n")
		if !f.Safe {
			c.WriteString("    would be lost: " + oneLine(f.Loss, maxMessage) + "\n    to mend it:    " + oneLine(f.Fix, maxMessage) + "\n")
		}
	}
	return a.write(c.String())
}
