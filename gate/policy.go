package gate

import (
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Policy is the operator's rules. The zero Policy denies every tool.
type Policy struct {
	Name, Version string
	// Tools are rules by tool name. A rule tightens the tool's own contract and
	// never lifts it.
	Tools map[string]Rule
	// Declared lets a tool without a rule run by its contract alone.
	Declared bool
	// Verifies names, by predicate, the tool that can check a row with it: the
	// remedy a block offers. Name only tools that ask a source, not our memory.
	Verifies map[string]string
}

// Rule tightens the contract of one tool.
type Rule struct {
	Never       bool               // not with any arguments, and no approval changes that
	Why         string             // of Never, for people
	Effect      *Effect            // a heavier effect; a lighter one is ignored
	MaxAge      time.Duration      // a shorter age; 0 = the contract's
	Ceiling     memory.Sensitivity // a lower ceiling; unset = the contract's
	FromNowhere bool               // hold invented sink arguments, as for irreversible tools
}

// terms are a contract and a rule together.
type terms struct {
	effect      Effect
	ceiling     memory.Sensitivity
	maxAge      time.Duration
	fromNowhere bool
}

func (p *Policy) terms(c *Contract, r Rule) terms {
	t := terms{effect: c.Effect, ceiling: c.Ceiling, maxAge: c.MaxAge, fromNowhere: r.FromNowhere}
	if r.Effect != nil && *r.Effect < t.effect {
		t.effect = *r.Effect
	}
	if t.effect > ReadOnly {
		t.effect = Irreversible
	}
	if t.ceiling == 0 {
		t.ceiling = memory.SensitivityInternal
	}
	if r.Ceiling != 0 && r.Ceiling < t.ceiling {
		t.ceiling = r.Ceiling
	}
	if r.MaxAge > 0 && (t.maxAge == 0 || r.MaxAge < t.maxAge) {
		t.maxAge = r.MaxAge
	}
	t.fromNowhere = t.fromNowhere || t.effect == Irreversible
	return t
}

// Evaluate decides. It is pure: no I/O, no clock but f.Now, and the same answer
// for the same input. f.Heads are the rows of req.Lineage, direct ones first,
// then the ancestors; anything else is a fault, and denies. All reasons are
// collected, not only the first.
//
// A state-changing call needs every row that reached the run to be fit:
// verified, retrievable, clean, fresh, within the tool's age. Above a verified
// row the walk for integrity is cut; only secrecy and security holds are looked
// for there (design section 4). A read-only call may use pending rows, up to its
// sensitivity ceiling.
func (p *Policy) Evaluate(req *Request, f memory.Fitness) Decision {
	d := Decision{Tool: req.Contract.Tool, CallID: req.CallID, Agent: req.Agent, Run: req.Run, Principal: req.Principal,
		Policy: p.Name + "@" + p.Version, At: f.Now}
	rule, named := p.Tools[req.Contract.Tool]
	t := p.terms(&req.Contract, rule)
	d.Effect = t.effect
	switch {
	case req.Contract.Unknown, !named && !p.Declared:
		d.add(Reason{Code: ToolNotNamed})
	case rule.Never:
		d.add(Reason{Code: PolicyNever, Detail: rule.Why})
	}
	changes := t.effect != ReadOnly
	if !req.Lineage.known && changes {
		d.add(Reason{Code: LineageUnknown, Detail: req.Lineage.why})
	}
	direct := len(req.Lineage.direct)
	if len(f.Heads) != direct+len(req.Lineage.ancestors) {
		d.Fault = true
		d.add(Reason{Code: Undecided, Detail: "the rows read are not the rows asked for"})
		return d
	}
	for i := range f.Heads {
		h := &f.Heads[i]
		switch {
		case h.Revision == 0:
			d.add(Reason{Code: RowMissing, Row: h.ID})
			continue
		case h.Sensitivity == 0 || h.Sensitivity > t.ceiling:
			d.add(Reason{Code: SensitivityExceeded, Row: h.ID})
		}
		if !changes {
			continue
		}
		if h.Security != memory.SecurityClean || h.Has(memory.FlagTainted) {
			d.add(Reason{Code: QuarantinedInput, Row: h.ID})
		}
		if i < direct {
			d.integrity(h, &t, f.Now)
		}
	}
	if t.fromNowhere {
		for i := range req.Sinks {
			if req.Sinks[i].Source == SourceNowhere {
				d.add(Reason{Code: FromNowhere, Argument: req.Sinks[i].Pointer})
			}
		}
	}
	d.conclude()
	return d
}

// integrity checks one row that reached the run.
func (d *Decision) integrity(h *memory.Head, t *terms, now time.Time) {
	if h.Truth != memory.TruthSupported {
		code := UnverifiedInput
		switch {
		case h.Truth == memory.TruthContradicted || h.Truth == memory.TruthSuperseded:
			code = ContradictedInput
		case h.Outage == memory.OutageRecorded:
			code = VerifierWasDown
		}
		d.add(Reason{Code: code, Row: h.ID})
		return
	}
	if h.Retrieval != memory.RetrievalNormal {
		d.add(Reason{Code: NotRetrievable, Row: h.ID})
	}
	if h.FreshnessAt(now) == memory.FreshnessExpired || t.maxAge > 0 && now.Sub(h.VerifiedAt) > t.maxAge {
		d.add(Reason{Code: StaleInput, Row: h.ID})
	}
	if t.effect == Irreversible && h.Rank < memory.RankTool {
		d.add(Reason{Code: RankTooLow, Row: h.ID})
	}
	if h.Has(memory.FlagContested) {
		d.add(Reason{Code: ContestedInput, Row: h.ID, Warning: t.effect != Irreversible})
	}
}

// conclude turns the reasons into an outcome.
func (d *Decision) conclude() {
	d.Outcome = Permit
	for i := range d.Reasons {
		r := &d.Reasons[i]
		switch {
		case r.Warning:
		case r.Code.final():
			d.Outcome = Deny
			return
		case r.Code.holds() && d.Outcome == Permit:
			d.Outcome = Hold
		case !r.Code.holds():
			d.Outcome = Deny
		}
	}
}
