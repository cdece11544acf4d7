package rlab

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Scenario is one load, with its benign twin in it.
type Scenario struct {
	ID, Title string
	Feed      string   // what is fed, in one sentence
	sets      []string // the folders of public sets that take the place of what it generates
	measures  []measure
	// steps is how many writes and calls a play has.
	steps func(Scale, *Data) int
	play  func(ctx context.Context, p *play) error
}

// milliseconds is the unit of a time.
const milliseconds = "ms"

// measure is one thing that a scenario measures.
type measure struct {
	name, title, unit string
	rate              bool    // a share of n, else values of which the mean is shown
	ratio             bool    // the target is one of the ratio to the floor
	target            float64 // of Hearsay: no more than this
	none              bool    // there is no target
	quiet             bool    // it is not in the table
	benign            bool    // it is of the benign twin
}

var (
	measuredRows      = measure{name: rowsPerClaim, title: "rows", unit: "rows per claim", target: 1}
	measuredSupport   = measure{name: supportFactor, title: "support", unit: "sources counted per source", target: 1}
	measuredFalse     = measure{name: falseVerified, title: "false verified", unit: "claims", rate: true}
	measuredUnsafe    = measure{name: unsafe, title: "unsafe actions", unit: "calls", rate: true}
	measuredTried     = measure{name: tried, title: "tried", unit: "calls", rate: true, none: true, quiet: true}
	measuredMerged    = measure{name: merged, title: "merged", unit: "statements", rate: true}
	measuredHeldFalse = measure{name: heldFalse, title: "a person asked, false", unit: "calls", rate: true, none: true, quiet: true}
	measuredHeldTrue  = measure{name: heldTrue, title: "a person asked, true", unit: "calls", rate: true, none: true, quiet: true, benign: true}
	measuredGate50    = measure{name: gateP50, title: "gate p50", unit: milliseconds, none: true, quiet: true}
	measuredGate99    = measure{name: gateP99, title: "gate p99", unit: milliseconds, none: true, quiet: true}
	measuredBlocked   = measure{name: benignBlocked, title: "benign blocked", unit: "calls", rate: true, target: 0.01, benign: true}
	measuredFree      = measure{name: freeBlocked, title: "asked in words", unit: "calls", rate: true, target: 0.01, benign: true}
)

// Scenarios are all scenarios, in the order of their ids.
func Scenarios() []Scenario {
	return []Scenario{c0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13}
}

// Choose are the scenarios with these ids, apart by commas; "" = all.
func Choose(ids string) ([]Scenario, error) {
	all := Scenarios()
	if ids == "" {
		return all, nil
	}
	var out []Scenario
	for id := range strings.SplitSeq(ids, ",") {
		at := slices.IndexFunc(all, func(s Scenario) bool { return strings.EqualFold(s.ID, strings.TrimSpace(id)) })
		if at < 0 {
			var have []string
			for _, s := range all {
				have = append(have, s.ID)
			}
			return nil, fmt.Errorf("no scenario %q; there are %s", id, strings.Join(have, ", "))
		}
		if slices.ContainsFunc(out, func(s Scenario) bool { return s.ID == all[at].ID }) {
			return nil, fmt.Errorf("%s is named twice", all[at].ID)
		}
		out = append(out, all[at])
	}
	return out, nil
}

// Scale is how large the scenarios are.
type Scale uint8

// The scales.
const (
	Small Scale = iota // minutes on two cores
	Full               // hours
)

// ParseScale reads small or full.
func ParseScale(s string) (Scale, error) {
	switch s {
	case "small":
		return Small, nil
	case "full":
		return Full, nil
	}
	return 0, fmt.Errorf("scale %q: want small or full", s)
}

// String is small or full.
func (s Scale) String() string {
	if s == Full {
		return "full"
	}
	return "small"
}

// of is the number for the scale.
func (s Scale) of(small, full int) int {
	if s == Full {
		return full
	}
	return small
}
