package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

func (a *app) observeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "observe",
		Short: "See what a gate that only observes would have blocked",
		Long: `A gate in mode Observe decides about each call and records it, and lets fire what can be
put back whatever it decided. So a team sees what the gate would stop before it does.
What cannot be undone is blocked in that mode too.`,
		Example: "  hearsay observe report -store sqlite:agent.db --since 7d",
		RunE:    subcommandWanted,
		Args:    cobra.ArbitraryArgs,
	}
	store := addStoreFlags(cmd)
	cmd.AddCommand(a.observeReportCommand(store))
	return cmd
}

// observedJSON is the output of observe report.
type observedJSON struct {
	Schema string    `json:"schema"` // hearsay.observe/1
	Since  time.Time `json:"since,omitzero"`
	// Calls are all that were decided: Permitted without an objection, Observed in spite of
	// one, Blocked all the same.
	Calls     int          `json:"calls"`
	Permitted int          `json:"permitted"`
	Observed  int          `json:"observed"`
	Blocked   int          `json:"blocked"`
	Reasons   []reasonJSON `json:"reasons"` // the one that speaks most often first
}

// reasonJSON is how often one reason spoke against calls of one tool.
type reasonJSON struct {
	Tool     string    `json:"tool"`
	Code     string    `json:"code"`
	Observed int       `json:"observed"` // calls that it would have blocked, and that were made
	Blocked  int       `json:"blocked"`
	Last     time.Time `json:"last"`
	Example  string    `json:"example"` // the newest such decision
}

func (a *app) observeReportCommand(store *storeFlags) *cobra.Command {
	var since, tool string
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Count what would have been blocked, by tool and reason",
		Long: `report counts the decisions of a store: those that nothing spoke against, those that
would have been blocked and were only observed, and those that were blocked all the
same. Below, it says how often each reason spoke against which tool, with an example
that hearsay call why explains. A call counts once for each of its reasons.

With -o json: {"schema": "hearsay.observe/1", "calls", "permitted", "observed",
"blocked", "reasons": [{"tool", "code", "observed", "blocked", "last", "example"}]}.`,
		Example: "  hearsay observe report -store sqlite:agent.db --since 7d\n  hearsay observe report -store sqlite:agent.db --tool book -o json",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&since, "since", "", sinceUsage)
	cmd.Flags().StringVar(&tool, "tool", "", "only calls of this tool")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		s, err := a.open(ctx, store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		from, err := pastMoment("--since", since, s.Now())
		if err != nil {
			return err
		}
		decisions, err := s.Decisions(ctx)
		if err != nil {
			return err
		}
		found := observedJSON{Schema: "hearsay.observe/1", Since: from, Reasons: []reasonJSON{}}
		for i := range decisions {
			if d := &decisions[i]; !d.At.Before(from) && (tool == "" || d.Tool == tool) {
				found.count(d)
			}
		}
		found.order()
		if *o == asJSON {
			return a.emit(found)
		}
		return a.observedTable(&found)
	}
	return cmd
}

// count adds a decision.
func (o *observedJSON) count(d *memory.DecisionRecord) {
	var said struct {
		Status  string
		Reasons []struct{ Code, Outcome string }
	}
	o.Calls++
	if json.Unmarshal(d.Data, &said) != nil { // not one of a gate
		if d.Fired {
			o.Permitted++
		} else {
			o.Blocked++
		}
		return
	}
	observed := said.Status == "observed"
	switch {
	case observed:
		o.Observed++
	case d.Fired:
		o.Permitted++
		return
	default:
		o.Blocked++
	}
	codes := map[string]bool{}
	for _, r := range said.Reasons {
		if r.Outcome != gate.Permit.String() {
			codes[r.Code] = true
		}
	}
	for code := range codes {
		at := slices.IndexFunc(o.Reasons, func(r reasonJSON) bool { return r.Tool == d.Tool && r.Code == code })
		if at < 0 {
			at, o.Reasons = len(o.Reasons), append(o.Reasons, reasonJSON{Tool: d.Tool, Code: code})
		}
		r := &o.Reasons[at]
		if observed {
			r.Observed++
		} else {
			r.Blocked++
		}
		if d.At.After(r.Last) {
			r.Last, r.Example = d.At, d.ID
		}
	}
}

func (o *observedJSON) order() {
	slices.SortFunc(o.Reasons, func(x, y reasonJSON) int {
		return cmp.Or(cmp.Compare(y.Observed+y.Blocked, x.Observed+x.Blocked), cmp.Compare(x.Tool, y.Tool), cmp.Compare(x.Code, y.Code))
	})
}

func (a *app) observedTable(o *observedJSON) error {
	fmt.Fprintf(a.talk, "%s decided: %d permitted, %d would have been blocked and were only observed, %d blocked\n", plural(o.Calls, "call"), o.Permitted, o.Observed, o.Blocked)
	if len(o.Reasons) == 0 {
		return nil
	}
	t := table{head: []string{"TOOL", "REASON", "OBSERVED", "BLOCKED", "LAST", "EXAMPLE"}}
	for _, r := range o.Reasons {
		t.add("", oneLine(r.Tool, maxName), oneLine(r.Code, maxName), strconv.Itoa(r.Observed), strconv.Itoa(r.Blocked), moment(r.Last), oneLine(r.Example, maxName))
	}
	return a.print(&t)
}

const sinceUsage = "only from this moment on: 2026-04-17T09:00:00Z, or how long ago: 36h, 7d"

// howLong reads a time that is not negative, as 36h or 7d.
func howLong(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok && err != nil {
		n, dayErr := strconv.ParseUint(days, 10, 16)
		d, err = time.Duration(n)*24*time.Hour, dayErr
	}
	if err == nil && d < 0 {
		err = errors.New("negative")
	}
	return d, err
}

// pastMoment is a moment that a flag gives, or the time before now; the zero moment if it is "".
func pastMoment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	ago, err := howLong(text)
	if err != nil {
		return time.Time{}, usage("%s %q: want a moment as 2026-04-17T09:00:00Z, or how long ago, as 36h or 7d", flag, text)
	}
	return now.Add(-ago), nil
}
