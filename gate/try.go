package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/hearsay-go/hearsay/memory"
)

// asked is what a hold keeps of the question that it came from, so that it can be asked
// again: the terms, and where the arguments came from. The rows and the arguments are in
// the hold itself.
type asked struct {
	Policy   Policy   `json:"policy"` // only what it says of this tool
	Contract Contract `json:"contract"`
	Direct   int      `json:"direct"` // so many of the rows are direct inputs, the rest ancestors
	Known    bool     `json:"known"`
	Why      string   `json:"why,omitempty"`
	Sinks    []Sink   `json:"sinks,omitempty"`
	Choice   Sink     `json:"choice"`
	Newer    []Newer  `json:"newer,omitempty"`
}

// Limits of what a hold keeps of its question: bytes, and sinks. A longer one is not kept.
const (
	maxAsked      = 256 << 10
	maxAskedSinks = 2048
)

// question is what of a request a hold keeps; nil if it is too long.
func (g *Gate) question(req *Request) json.RawMessage {
	if len(req.Sinks) > maxAskedSinks {
		return nil
	}
	p := Policy{Name: g.policy.Name, Version: g.policy.Version, Declared: g.policy.Declared, MaxBlastRadius: g.policy.MaxBlastRadius, UnknownFor: g.policy.UnknownFor}
	if rule, named := g.policy.Tools[req.Contract.Tool]; named {
		if rule.Ceiling == 0 { // what is unset cannot be written down, and secret tightens nothing
			rule.Ceiling = memory.SensitivitySecret
		}
		p.Tools = map[string]Rule{req.Contract.Tool: rule}
	}
	c := req.Contract
	c.Server, c.AtServer, c.Output, c.Fixed, c.Schema = "", "", nil, nil, [32]byte{} // the hold has the schema
	if c.Ceiling == 0 {
		c.Ceiling = memory.SensitivityInternal // as it counts
	}
	a := asked{Policy: p, Contract: c, Direct: len(req.Lineage.direct), Known: req.Lineage.known, Why: req.Lineage.why, Choice: req.Choice, Newer: req.Newer}
	for _, s := range req.Sinks {
		s.Value = "" // the arguments have it
		a.Sinks = append(a.Sinks, s)
	}
	a.Choice.Value = ""
	b, err := json.Marshal(a)
	if err != nil || len(b) > maxAsked {
		return nil
	}
	return b
}

// Tried is what [Try] needs of a store; [*memory.Store] is one.
type Tried interface {
	Fitness(ctx context.Context, ids []memory.ID) (memory.Fitness, error)
	Speaker(principal string) memory.Token
}

// Try judges a held call by the terms that it was held by, with its rows as they are now.
// It records nothing and lets nothing through: it tells a person what her word would free.
// The gate decides afresh when the call is asked for again, by its policy then and by all
// that the run has read since. ok is false if the hold does not keep its terms, because it has ended.
func Try(ctx context.Context, s Tried, h *memory.Hold) (d Decision, ok bool, err error) {
	var a asked
	terms := json.NewDecoder(bytes.NewReader(h.Asked))
	terms.DisallowUnknownFields() // what it does not know it cannot judge
	if len(h.Asked) == 0 || terms.Decode(&a) != nil || a.Direct < 0 || a.Direct > len(h.Rows) {
		return Decision{}, false, nil
	}
	ids := make([]memory.ID, len(h.Rows))
	for i := range h.Rows {
		ids[i] = h.Rows[i].Row
	}
	f, err := s.Fitness(ctx, ids)
	if err != nil {
		return Decision{}, false, fmt.Errorf("gate: try: %w", err)
	}
	a.Contract.Schema = h.Schema
	req := Request{Contract: a.Contract, Args: h.Args, Agent: h.Agent, Run: h.Run, Principal: h.Principal, Sinks: a.Sinks, Choice: a.Choice, Newer: a.Newer,
		Lineage: Lineage{known: a.Known, why: a.Why, direct: ids[:a.Direct:a.Direct], ancestors: ids[a.Direct:]}}
	if h.Principal != "" {
		req.speaker = s.Speaker(h.Principal)
	}
	d = a.Policy.Evaluate(&req, f)
	if h.Unknown() != "" {
		d.add(Reason{Code: OutcomeUnknown, Detail: h.Unknown()})
	}
	if h.Done != "" && !undeclared(&a.Policy, &a.Contract) { // of such a tool it is a note
		d.add(Reason{Code: AlreadyDone, Detail: h.Done})
	}
	order(d.Reasons)
	return d, true, nil
}
