package main

import (
	"errors"
	"flag"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/bench/rlab/command"
)

func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure what a recall loop does to a memory",
		Example: "  hearsay bench run --scenario S1 --seeds 5",
		RunE:    subcommandWanted,
		Args:    cobra.ArbitraryArgs,
	}
	cmd.AddCommand(a.benchRunCommand())
	return cmd
}

func (a *app) benchRunCommand() *cobra.Command {
	var run command.Run
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Play the scenarios, and print what was measured",
		Long: `run plays what recall loops do against Hearsay and against memories that follow one
rule each: what a model once said comes back, is said again, and counts as proof. It
measures how many memories one invention becomes, how many sources are counted for it,
and what an agent may do on it, beside honest work on the same memory. No model is called
and nothing leaves this machine. docs/bench.md has the scenarios, the rules and the
measures.`,
		Example: "  hearsay bench run\n  hearsay bench run --scenario S1 --systems hearsay,append --seeds 5 -o json",
		Args:    args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := run.Run(cmd.Context(), a.out, a.talk)
			switch {
			case errors.Is(err, command.ErrUsage):
				return usage("hearsay bench run: %w", err)
			case errors.Is(err, command.ErrMissed):
				return fail(exitNo, "%w", err)
			}
			return err
		},
	}
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	run.Flags(fs)
	cmd.Flags().AddGoFlagSet(fs)
	cmd.Flags().StringVarP(&run.Output, "output", "o", "table", "output: table or json")
	return cmd
}
