package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// firedJSON is the output of call list --fired.
type firedJSON struct {
	Schema string         `json:"schema"` // hearsay.fired/1
	Calls  []firedOneJSON `json:"calls"`  // newest first
	More   bool           `json:"more"`
}

type firedOneJSON struct {
	ID        string      `json:"id"`
	At        time.Time   `json:"at"`
	Tool      string      `json:"tool"`
	Agent     string      `json:"agent"`
	Run       string      `json:"run"`
	Principal string      `json:"principal"`
	Observed  bool        `json:"observed,omitempty"`
	Outcome   string      `json:"outcome"` // "" while nobody has said
	Note      string      `json:"note,omitempty"`
	Rows      []memory.ID `json:"rows"`
}

// fired lists the calls that were made.
func fired(decisions []memory.DecisionRecord, tool string, row memory.ID, limit int) firedJSON {
	found := firedJSON{Schema: "hearsay.fired/1", Calls: []firedOneJSON{}}
	for i := range decisions {
		d := &decisions[i]
		if !d.Fired || tool != "" && d.Tool != tool || row != "" && !slices.ContainsFunc(d.Rows, func(c memory.Cited) bool { return c.Row == row }) {
			continue
		}
		if limit > 0 && len(found.Calls) == limit {
			found.More = true
			break
		}
		var said struct{ Status, Agent, Principal string }
		if json.Unmarshal(d.Data, &said) != nil {
			said.Agent, said.Principal = "", "" // not one of a gate
		}
		on := map[memory.ID]bool{}
		for _, c := range d.Rows {
			on[c.Row] = true
		}
		outcome := ""
		if d.Outcome != 0 {
			outcome = d.Outcome.String()
		}
		found.Calls = append(found.Calls, firedOneJSON{ID: d.ID, At: d.At, Tool: d.Tool, Agent: said.Agent, Run: d.Run, Principal: said.Principal, Observed: said.Status == "observed",
			Outcome: outcome, Note: d.Note, Rows: append([]memory.ID{}, slices.Sorted(maps.Keys(on))...)})
	}
	return found
}

func (a *app) listFired(o output, found firedJSON) error {
	switch o {
	case asJSON:
		return a.emit(found)
	case asNDJSON, asIDs:
		return a.lines(o, len(found.Calls), func(i int) (string, any) { return found.Calls[i].ID, found.Calls[i] })
	}
	if len(found.Calls) == 0 {
		fmt.Fprintln(a.talk, "no calls")
		return nil
	}
	t := table{head: []string{"TIME", "ID", "TOOL", "AGENT", "FOR", "RUN", "ROWS", "OUTCOME"}}
	for i := range found.Calls {
		c := &found.Calls[i]
		outcome := strings.ReplaceAll(cmp.Or(c.Outcome, "not known"), "_", " ")
		if c.Note != "" {
			outcome += ", " + c.Note
		}
		if c.Observed && c.Outcome != "" {
			outcome += ", only observed"
		}
		t.add("", moment(c.At), oneLine(c.ID, maxName), oneLine(c.Tool, maxName), oneLine(c.Agent, maxName), oneLine(c.Principal, maxName), oneLine(c.Run, maxName), strconv.Itoa(len(c.Rows)), oneLine(outcome, maxClaim))
	}
	if err := a.print(&t); err != nil {
		return err
	}
	if found.More {
		fmt.Fprintf(a.talk, "the newest %s; --limit shows more\n", plural(len(found.Calls), "call"))
	}
	return nil
}
