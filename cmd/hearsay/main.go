// Command hearsay is the operator's tool: it shows what a memory holds, where it
// came from and who checked it, and lets a person with a key confirm or reject a
// row. Data goes to stdout, talk to stderr.
//
// Exit codes:
//
//	0  done
//	1  failed
//	2  usage: an unknown command or flag, a missing or malformed argument
//	3  not found
//	4  the answer is no: refused, no authority, not trusted
//	5  the store cannot be reached
//	6  the row changed meanwhile; look again
//	7  lines of a dump were rejected, or it is not whole
//	8  the audit does not hold, or the store is an older copy
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{out: os.Stdout, talk: os.Stderr, getenv: os.Getenv, now: time.Now}
	a.in, a.asks = os.Stdin, isTerminal(os.Stdin) && isTerminal(os.Stderr)
	if isTerminal(os.Stdout) && os.Getenv("TERM") != "dumb" {
		a.pager = pagerOf(os.Getenv)
	}
	a.color = isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// app is one invocation: where it writes, and the world it sees.
type app struct {
	out, talk io.Writer
	getenv    func(string) string
	now       func() time.Time
	color     bool
	pager     []string  // the program that shows a card, and its arguments; none = it is just written
	in        io.Reader // what a person types
	asks      bool      // a person sits there, and can be asked
}

// commands are the commands of the program, in the order of the help.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{newDemoCommand(a.out, a.talk), a.rowCommand(), a.callCommand(), a.observeCommand(), a.gateCommand(), a.verifierCommand(), a.auditCommand(), a.exportCommand(), a.importCommand(), a.storeCommand(), a.eraseCommand(), a.queueCommand(), a.doctorCommand(), a.mcpCommand(), a.benchCommand(), a.migrateCommand(), a.keygenCommand(), a.keyringCommand(), a.witnessCommand(), a.versionCommand()}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "hearsay",
		Short: "See what a memory holds, where it came from and who checked it",
		Long: `hearsay shows the rows of a memory, their origin and their state, and lets a
person with a key confirm or reject them.

  ✓ verified               independent evidence of sufficient rank supports it
  ? unverified             nobody has checked it
  ~ recalled               memory coming back; it supports nothing
  ✗ contradicted           a better source, or a person, says otherwise; so too: rejected, superseded
  ✗ quarantined            kept for people, and hidden from agents; so too: malicious
  ✗ hidden                 no call is let through on it, verified or not; so too: restricted, blocked
  ⌛ verifier was down      written while nobody could check it

Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 the answer is no,
5 the store cannot be reached, 6 the row changed meanwhile, 7 lines of a dump were
rejected, 8 the audit does not hold.

Long flags may be written with one dash or two. A flag wins over the environment
(HEARSAY_STORE, HEARSAY_KEYRING, HEARSAY_TENANT, HEARSAY_TRUSTED_KEYS). NO_COLOR is obeyed.`,
		Example: "  hearsay row list -store sqlite:agent.db --state unverified\n" +
			"  hearsay row tree -store sqlite:agent.db k3f9a2b1",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          subcommandWanted,
		Args:          cobra.ArbitraryArgs,
	}
	root.SetOut(a.out)
	root.SetErr(a.talk)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage("%s: %w", cmd.CommandPath(), flagError(err)) })
	root.AddCommand(a.commands()...)
	for _, cmd := range root.Commands() {
		if check := cmd.Args; check != nil { // whoever wrote the check, it is about usage
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if err := check(cmd, args); err != nil {
					return usage("%w", err)
				}
				return nil
			}
		}
	}
	return root
}

// flagError says of a value that a flag does not take what it would take.
func flagError(err error) error {
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return err
	}
	want, known := map[string]string{"int": "a whole number", "uint64": "a whole number, 0 or more", "bool": "true or false", "duration": "a duration, as in 90s, 10m or 24h"}[wrong.GetFlag().Value.Type()]
	if !known { // a flag of our own says it itself
		return err
	}
	return fmt.Errorf("--%s %q: want %s", wrong.GetFlag().Name, wrong.GetValue(), want)
}

// run executes one command line and returns its exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(oneDash(root, args))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	code, hint := classify(err)
	text := oneLine(err.Error(), maxMessage)
	if !strings.HasPrefix(text, "hearsay") { // a usage error begins with the command
		text = "hearsay: " + text
	}
	fmt.Fprintln(a.talk, text)
	if hint != "" {
		fmt.Fprintln(a.talk, hint)
	}
	return code
}

// subcommandWanted is what a command that only has subcommands does itself.
func subcommandWanted(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s: no such command %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	cmd.SetOut(cmd.ErrOrStderr())
	_ = cmd.Help() // talk; what failed to be printed there cannot be said there
	return usage("%s: which command?", cmd.CommandPath())
}

// args checks the number of arguments, as a usage error.
func args(want ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, got []string) error {
		if len(got) == len(want) {
			return nil
		}
		if len(want) == 0 {
			return usage("%s: takes no argument, not %q", cmd.CommandPath(), got[0])
		}
		return usage("%s: want %s, got %d arguments; see %s --help", cmd.CommandPath(), strings.Join(want, " "), len(got), cmd.CommandPath())
	}
}

// oneDash lets long flags be written with one dash, as Go programs have them:
// "-store x" becomes "--store x". The values of flags are left alone.
func oneDash(root *cobra.Command, in []string) []string {
	takes := map[string]bool{} // long flag: does it take a value
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		note := func(f *pflag.Flag) { takes[f.Name] = f.NoOptDefVal == "" }
		c.PersistentFlags().VisitAll(note)
		c.Flags().VisitAll(note)
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	takes["help"] = false

	out := make([]string, 0, len(in))
	value, rest := false, false
	for _, arg := range in {
		switch {
		case value || rest:
			value = false
		case arg == "--":
			rest = true
		case strings.HasPrefix(arg, "-"):
			name, _, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			if takesValue, long := takes[name]; long {
				arg = "--" + strings.TrimLeft(arg, "-")
				value = takesValue && !joined
			} else {
				value = arg == "-o"
			}
		}
		out = append(out, arg)
	}
	return out
}

// isTerminal reports whether a person looks at w, or types into it.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}

// output is the format of the data on stdout.
type output string

const (
	asTable output = "table"
	asJSON  output = "json"
)

func (o *output) String() string { return string(*o) }

func (o *output) Type() string { return "table|json" }

func (o *output) Set(s string) error {
	switch v := output(s); v {
	case asTable, asJSON:
		*o = v
		return nil
	}
	return errors.New("want table or json")
}

func outputFlag(cmd *cobra.Command) *output {
	o := asTable
	cmd.Flags().VarP(&o, "output", "o", "what to print")
	return &o
}
