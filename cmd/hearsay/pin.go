package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/agent/mcp"
)

// serverOf names a server by the name that an operator gave it, or by its command: the words,
// each in quotes if it would not be read as one word.
func serverOf(name string, command []string) string {
	if name != "" {
		return name
	}
	words := make([]string, len(command))
	for i, w := range command {
		if words[i] = w; w == "" || strings.ContainsAny(w, " \t\n\"\\'") {
			words[i] = strconv.Quote(w)
		}
	}
	return strings.Join(words, " ")
}

// pinCommand is the command that shows what differs, for a shell.
func pinCommand(file, name, accept string, command []string) string {
	words := []string{"hearsay mcp pin --pins", shellWord(file)}
	if name != "" {
		words = append(words, "--server", shellWord(name))
	}
	if accept != "" {
		words = append(words, "--accept", accept)
	}
	words = append(words, "--")
	for _, w := range command {
		words = append(words, shellWord(w))
	}
	return strings.Join(words, " ")
}

// plainWord is what a shell reads as it stands.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWord is a word as a shell reads it back.
func shellWord(w string) string {
	if plainWord.MatchString(w) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// pinsOf are the pins of a proxy, which says what it pins; nil = it has none.
func (a *app) pinsOf(f *proxyFlags) *mcp.Pins {
	if f.pins == "" {
		return nil
	}
	return &mcp.Pins{File: f.pins, Required: f.requirePin, Seen: func(r mcp.PinReport) {
		if r.First {
			fmt.Fprintf(a.talk, "the first start of this server: %s, pinned in %s as they are now. Read them:\n%s", plural(len(r.Tools), "tool"), f.pins, pinCards(&r))
			if len(r.Alike) > 0 {
				fmt.Fprintf(a.talk, "tools of these names are pinned already. If this is one of those servers, its pins did not count; --server NAME keeps the name of a server when its command changes:\n%s", serverCards(&r))
			}
		}
	}}
}

// differing are the names of tools that differ.
func differing(differences []mcp.PinDifference) string {
	names := make([]string, len(differences))
	for i, d := range differences {
		names[i] = d.Name
	}
	return strings.Join(names, ", ")
}

// pinJSON is the output of mcp pin.
type pinJSON struct {
	Schema      string              `json:"schema"` // hearsay.pin/1
	Server      string              `json:"server"`
	SHA256      string              `json:"sha256"`          // of all its tools: what --accept wants digits of
	Pinned      bool                `json:"pinned"`          // the tools are what the file says, now
	Alike       []string            `json:"alike,omitempty"` // other servers of the file with tools of the same names
	Differences []pinDifferenceJSON `json:"differences"`
}

type pinDifferenceJSON struct {
	Tool string          `json:"tool"`
	What string          `json:"what"` // new, changed or gone
	Was  json.RawMessage `json:"was,omitempty"`
	Is   json.RawMessage `json:"is,omitempty"`
}

// serverUsage is of the flag --server.
const serverUsage = "the name of the server, for pins and for calls whose outcome nobody knows; without one it is known by its command, word by word"

// pinDigits is the fewest digits that say which tools were seen. A server chooses its tools
// before and after: of two that it makes alike in a few digits, one would be accepted for the
// other.
const pinDigits = 40

func (a *app) pinCommand() *cobra.Command {
	var file, name, accept string
	cmd := &cobra.Command{
		Use:   "pin [flags] -- CMD [ARG…]",
		Short: "See how the tools of an MCP server differ from what was pinned, and accept them",
		Long: `pin starts CMD, an MCP server, lists its tools and shows what is not as the file of pins
says: all of a tool that is new, and each value of one that changed, before and now. It
writes nothing. With --accept and the sha256 that it printed, it writes
the tools into the file as they are, if they are still those.

CMD is known by --server, or by its words: with other arguments, or another version in
them, it is then another server.

Exit code 4 while something differs, 0 if nothing does or it was accepted.

With -o json: {"schema": "hearsay.pin/1", "server", "sha256", "pinned", "differences":
[{"tool", "what", "was", "is"}], "alike"}.`,
		Example: "  hearsay mcp pin --pins pins.json -- some-server --stdio\n" +
			"  hearsay mcp pin --pins pins.json --accept SHA256 -- some-server --stdio",
	}
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&file, "pins", "", "the file of pins")
	cmd.Flags().StringVar(&name, "server", "", serverUsage)
	cmd.Flags().StringVar(&accept, "accept", "", fmt.Sprintf("the sha256 that was printed, or its first %d digits at least", pinDigits))
	cmd.Args = commandWanted
	cmd.RunE = func(cmd *cobra.Command, command []string) error {
		if file == "" {
			return usage("hearsay mcp pin: --pins FILE is missing")
		}
		said, report, err := a.pin(cmd.Context(), file, serverOf(name, command), accept, command)
		if err != nil {
			return err
		}
		if *o == asJSON {
			err = a.emit(said)
		} else {
			err = a.show(pinText(&said, &report, pinCommand(file, name, said.SHA256, command)))
		}
		switch {
		case err != nil:
			return err
		case said.Pinned:
			return nil
		case accept != "":
			return fail(exitChanged, "--accept %s: the tools of the server are not those with these digits; at least %d are wanted", oneLine(accept, maxName), pinDigits)
		}
		return fail(exitNo, "the tools of %s are not pinned as they are", oneLine(said.Server, maxMessage))
	}
	return cmd
}

// pin compares the tools of a server with the file, and writes them there if they are
// accepted.
func (a *app) pin(ctx context.Context, file, server, accept string, command []string) (said pinJSON, report mcp.PinReport, err error) {
	starting, give := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("the server did not start within %s", startWithin))
	defer give()
	session, err := mcp.Dial(starting, a.child(command), nil)
	if err != nil {
		return said, report, err
	}
	defer session.Close() // its error is how the server exited
	pins := &mcp.Pins{File: file}
	if report, err = pins.Compare(starting, session, server); err != nil {
		return said, report, err
	}
	said = pinJSON{Schema: "hearsay.pin/1", Server: report.Server, SHA256: report.Digest(), Pinned: !report.First && len(report.Differences) == 0, Alike: report.Alike, Differences: []pinDifferenceJSON{}}
	differences := report.Differences
	if report.First {
		for _, t := range report.Tools {
			differences = append(differences, mcp.PinDifference{Name: t.Name, Is: t.Tool})
		}
	}
	for _, d := range differences {
		what := "changed"
		switch {
		case d.Was == nil:
			what = "new"
		case d.Is == nil:
			what = "gone"
		}
		said.Differences = append(said.Differences, pinDifferenceJSON{d.Name, what, d.Was, d.Is})
	}
	if !said.Pinned && len(accept) >= pinDigits && strings.HasPrefix(said.SHA256, strings.ToLower(accept)) {
		err = pins.Accept(ctx, report)
		said.Pinned = err == nil
	}
	return said, report, err
}

func pinText(said *pinJSON, report *mcp.PinReport, command string) string {
	c := card{}
	c.whole("server", whole(said.Server))
	c.line("tools", "%d", len(report.Tools))
	for _, other := range said.Alike {
		c.whole("same names", whole(other))
	}
	for _, d := range said.Differences {
		c.whole(d.What, whole(d.Tool))
		was, is := leavesOf(d.Was), leavesOf(d.Is)
		places := slices.Collect(maps.Keys(was))
		for at := range is {
			if _, both := was[at]; !both {
				places = append(places, at)
			}
		}
		slices.Sort(places)
		for _, at := range places {
			old, had := was[at]
			now, has := is[at]
			if had && d.Is != nil && old != now {
				c.whole("  was", at+" = "+old)
			}
			if has && old != now {
				c.whole("  is", at+" = "+now)
			}
		}
	}
	c.line("sha256", "%s", said.SHA256)
	switch {
	case said.Pinned && len(said.Differences) > 0:
		c.line("pinned", "as they are now")
	case said.Pinned:
		c.line("pinned", "nothing differs")
	default:
		c.line("to accept", "%s", command)
	}
	return c.String()
}

// serverCards are the servers that are like that of a report.
func serverCards(r *mcp.PinReport) string {
	c := card{}
	for _, server := range r.Alike {
		c.whole("server", whole(server))
	}
	return c.String()
}

// pinCards are the tools of a report, whole.
func pinCards(r *mcp.PinReport) string {
	c := card{}
	for _, t := range r.Tools {
		c.whole("tool", whole(t.Name))
		for _, l := range argumentsOf(t.Tool) {
			if l.pointer != "/name" {
				c.whole("", atPointer(l.pointer)+" = "+l.value)
			}
		}
		c.line("sha256", "%s", t.SHA256)
	}
	return c.String()
}

// leavesOf are the values in a tool, by place, each as a person is shown it.
func leavesOf(tool json.RawMessage) map[string]string {
	out := map[string]string{}
	for _, l := range argumentsOf(tool) {
		out[atPointer(l.pointer)] = l.value
	}
	return out
}
