package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	api "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/bench/rlab"
	"github.com/hearsay-go/hearsay/bench/rlab/command"
	"github.com/hearsay-go/hearsay/bench/rlab/page"
	"github.com/hearsay-go/hearsay/bench/rlab/remote"
	"github.com/hearsay-go/hearsay/bench/rlab/rules"
	"github.com/hearsay-go/hearsay/internal/localhttp"
)

func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure what a recall loop does to a memory",
		Example: "  hearsay bench run --scenario S1 --seeds 5",
		RunE:    subcommandWanted,
		Args:    cobra.ArbitraryArgs,
	}
	cmd.AddCommand(a.benchRunCommand(), a.benchCompareCommand(), a.benchReportCommand(), a.benchServeCommand())
	return cmd
}

func (a *app) benchCompareCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Compare two runs, and exit with 4 if a figure is worse",
		Long: `compare reads two files that bench run printed with -o json. A figure is worse if its
interval in NEW lies above that in OLD: the Wilson 95 % interval of a share, the least and
the most of the means of the seeds of another figure. A figure that is gone, and a system
that fails now, are worse too. Times, and the questions of S6 and S11, are compared if both runs
are of one kind of machine and have three seeds or more. Figures of another form of the bench,
another scale or other public sets are not compared, and nothing of a run that was interrupted.
It lists what changed, and exits with 4 if anything is worse, and with 2 if nothing can be
compared.`,
		Example: "  hearsay bench run -o json > old.json\n  hearsay bench run -o json > new.json\n  hearsay bench compare old.json new.json",
		Args:    args("OLD", "NEW"),
		RunE: func(_ *cobra.Command, files []string) error {
			if output != "table" && output != "json" {
				return usage("hearsay bench compare: -o %q: want table or json", output)
			}
			var runs [2][]rlab.Figure
			for i, name := range files {
				var err error
				if runs[i], err = figuresOf(name); err != nil {
					return usage("hearsay bench compare: %w", err)
				}
			}
			changes := rlab.Compare(runs[0], runs[1])
			var err error
			if output == "json" {
				enc := json.NewEncoder(a.out)
				enc.SetIndent("", "  ")
				err = enc.Encode(changes)
			} else {
				err = rlab.WriteChanges(a.out, changes)
			}
			worse, compared := 0, 0
			for _, c := range changes {
				if c.Outcome.Regression() {
					worse++
				}
				if c.Compared() {
					compared++
				}
			}
			if err == nil && compared == 0 {
				return usage("hearsay bench compare: no figure of %s can be compared with one of %s", files[0], files[1])
			}
			if err == nil && worse > 0 {
				return fail(exitNo, "%d of %d figures are worse", worse, len(changes))
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "output: table or json")
	return cmd
}

func (a *app) benchServeCommand() *cobra.Command {
	var address, system string
	var stdio bool
	var names []string
	for _, e := range rules.All() {
		names = append(names, e.Name)
	}
	cmd := &cobra.Command{
		Use:   "serve-example",
		Short: "Serve a sample memory, to try run --http and --mcp against",
		Long: `serve-example serves one of the memories of the bench on a local address, over HTTP
and over MCP, until it is interrupted. A memory of your own, in any language, answers the
same: docs/bench.md has the protocol.`,
		Example: `  hearsay bench serve-example &
  hearsay bench run --scenario S1 --systems hearsay --http mine=http://127.0.0.1:8799
  hearsay bench run --scenario S1 --systems hearsay --mcp mine=http://127.0.0.1:8799/mcp
  hearsay bench run --scenario S1 --systems hearsay --mcp "mine=hearsay bench serve-example --stdio"`,
		Args: args(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			at := slices.Index(names, system)
			if at < 0 {
				return usage("hearsay bench serve-example: --system %q: want one of %s", system, strings.Join(names, ", "))
			}
			if err := local("hearsay bench serve-example", address, "writes into the memory"); err != nil {
				return err
			}
			server := remote.NewServer(rules.All()[at])
			defer func() { err = errors.Join(err, server.Close()) }()
			if stdio {
				in, ok := a.in.(io.ReadCloser)
				if !ok {
					in = io.NopCloser(a.in)
				}
				err := server.MCP().Run(cmd.Context(), &api.IOTransport{Reader: in, Writer: unclosed{a.out}})
				if cmd.Context().Err() != nil { // a signal
					return nil
				}
				return err
			}
			return a.serveExample(cmd.Context(), address, server)
		},
	}
	cmd.Flags().StringVar(&address, "listen", "127.0.0.1:8799", "the local address")
	cmd.Flags().StringVar(&system, "system", "append", "the memory: "+strings.Join(names, ", "))
	cmd.Flags().BoolVar(&stdio, "stdio", false, "serve MCP over stdin and stdout, in place of the address")
	return cmd
}

// serveExample serves until the context ends.
func (a *app) serveExample(ctx context.Context, address string, s *remote.Server) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("hearsay bench serve-example: %w", err)
	}
	fmt.Fprintf(a.talk, "listening on http://%s, and for MCP on http://%[1]s/mcp\n", l.Addr())
	server := &http.Server{Handler: localhttp.Guard{}.Handler(s.Handler()), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		_ = server.Close()
		<-failed
		return nil
	}
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

func (a *app) benchReportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "report FILE",
		Short: "Make a page with charts of a run",
		Long: `report reads a file that bench run printed with -o json, and prints one HTML page with
charts and tables of it. The page needs no network and runs no script.`,
		Example: "  hearsay bench run -o json > run.json\n  hearsay bench report run.json > report.html",
		Args:    args("FILE"),
		RunE: func(_ *cobra.Command, files []string) error {
			figures, err := figuresOf(files[0])
			if err != nil {
				return usage("hearsay bench report: %w", err)
			}
			return page.Write(a.out, figures)
		},
	}
}

// figuresOf reads the file of a run.
func figuresOf(name string) ([]rlab.Figure, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	figures, err := rlab.ReadFigures(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return figures, nil
}
