package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/roster"
)

// triedJSON is the output of verifier test.
type triedJSON struct {
	Schema   string         `json:"schema"` // hearsay.tried/1
	Claim    memory.Content `json:"claim"`
	Verdicts []verdictJSON  `json:"verdicts"`
}

type verdictJSON struct {
	Verifier string            `json:"verifier"`
	Kind     string            `json:"kind"`
	Rank     memory.Rank       `json:"rank"`
	Outcome  string            `json:"outcome"` // supported, refuted, unclear, gone, unavailable, misconfigured, not_covered
	Detail   string            `json:"detail,omitempty"`
	Observed string            `json:"observed,omitempty"`
	Evidence []memory.Evidence `json:"evidence,omitempty"`
	Millis   int64             `json:"milliseconds"`
}

func (a *app) verifierTestCommand() *cobra.Command {
	var file, cardinality string
	var claim memory.Content
	cmd := &cobra.Command{
		Use:   "test [NAME]",
		Short: "Ask the verifiers of a worker's file about a claim, and write nothing",
		Long: `test makes the verifiers that a worker's -config file names and asks each that covers
the claim, or only NAME, in the way the worker does: what they say, what they rest on,
and who is down or misconfigured. It opens no store and moves no row.

Exit code 0 if all of them answered, 4 if one did not, 2 if the file is half.

With -o json: {"schema": "hearsay.tried/1", "claim", "verdicts": [{"verifier",
"outcome", "detail", "observed", "evidence", …}]}.`,
		Example: "  hearsay verifier test -config verifiers.json --subject acme --predicate billing.email --object ops@acme.example",
		Args:    cobra.MaximumNArgs(1),
	}
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&file, "config", "", "the worker's file of verifiers (or HEARSAY_CONFIG)")
	cmd.Flags().StringVar(&claim.Subject, "subject", "", "of the claim")
	cmd.Flags().StringVar(&claim.Predicate, "predicate", "", "of the claim")
	cmd.Flags().StringVar(&claim.Object, "object", "", "of the claim; no source is shown it")
	cmd.Flags().StringVar(&cardinality, "cardinality", "unknown", "functional, set_valued or unknown")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if file == "" {
			file = a.getenv("HEARSAY_CONFIG")
		}
		if file == "" {
			return usage("-config FILE is missing: which verifiers are to be tried")
		}
		if !claim.Typed() {
			return usage("--subject, --predicate and --object are wanted: the claim to ask about")
		}
		if err := claim.Cardinality.UnmarshalText([]byte(cardinality)); err != nil {
			return usage("--cardinality %q: want functional, set_valued or unknown", cardinality)
		}
		only := ""
		if len(args) == 1 {
			only = args[0]
		}
		tried, err := a.try(cmd.Context(), file, only, claim)
		if err != nil {
			return err
		}
		if *o == asJSON {
			err = a.emit(tried)
		} else {
			err = a.triedTable(tried)
		}
		if err != nil {
			return err
		}
		for _, v := range tried.Verdicts {
			if v.Outcome == "unavailable" || v.Outcome == "misconfigured" {
				return fail(exitNo, "%s: %s: %s", v.Verifier, v.Outcome, v.Detail)
			}
		}
		return nil
	}
	return cmd
}

// try asks.
func (a *app) try(ctx context.Context, file, only string, claim memory.Content) (triedJSON, error) {
	out := triedJSON{Schema: "hearsay.tried/1", Claim: claim, Verdicts: []verdictJSON{}}
	var r roster.Roster
	r.AddFile("-config "+file, file, a.getenv)
	if p := r.Problems(); len(p) > 0 {
		return out, usage("%s", p[0])
	}
	entries, err := r.Make(func(name string, v verifier.Verifier, timeout time.Duration) verifier.Verifier {
		return verifier.WithBreaker(name, v, &verifier.BreakerOptions{Timeout: timeout})
	})
	if err != nil {
		return out, usage("%w", err)
	}
	for _, e := range entries {
		if only != "" && e.Name != only {
			continue
		}
		v := verdictJSON{Verifier: e.Name, Kind: e.Kind, Rank: e.Rank, Outcome: "not_covered"}
		if e.Covers(claim) {
			began := time.Now()
			said, err := e.Verifier.Verify(ctx, memory.Row{Content: claim})
			v.Millis = time.Since(began).Milliseconds()
			switch {
			case ctx.Err() != nil:
				return out, ctx.Err()
			case errors.Is(err, verifier.ErrMisconfigured):
				v.Outcome, v.Detail = "misconfigured", err.Error()
			case err != nil:
				v.Outcome, v.Detail = "unavailable", err.Error()
			default:
				v.Outcome, v.Detail, v.Observed, v.Evidence = said.Outcome.String(), said.Detail, said.Observed, said.Said()
			}
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	if only != "" && len(out.Verdicts) == 0 {
		return out, fail(exitNotFound, "no verifier %q in %s", only, file)
	}
	return out, nil
}

func (a *app) triedTable(tried triedJSON) error {
	t := table{head: []string{"VERIFIER", "KIND", "RANK", "OUTCOME", "SAYS", "DETAIL"}}
	for _, v := range tried.Verdicts {
		color := ""
		if v.Outcome == "unavailable" || v.Outcome == "misconfigured" {
			color = red
		}
		t.add(color, oneLine(v.Verifier, maxName), v.Kind, v.Rank.String(), v.Outcome, oneLine(v.Observed, maxName), oneLine(v.Detail, maxMessage))
	}
	return a.print(&t)
}
