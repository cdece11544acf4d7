package gate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Rule is what a policy says of one tool. It may tighten what the tool declares,
// never loosen it (UP-L12).
type Rule struct {
	// Never refuses the tool, whatever its inputs; Why says it to people.
	Never bool
	Why   string
	// Effect treats the tool as graver than it declares; nil = as it declares.
	Effect *Effect
	// MaxAge is how long inputs may feed the tool after they were verified; 0 = as declared.
	MaxAge time.Duration
	// Ceiling is how sensitive the inputs may be; unset = as declared.
	Ceiling memory.Sensitivity
	// FromNowhere holds a call with a sink argument from nowhere also if the tool
	// is not irreversible.
	FromNowhere bool
	// WholeRun judges every call of the tool by its whole run, though the tool
	// declares typed sinks.
	WholeRun bool
	// Uncorroborated takes a value from what the run was shown only, though the tool
	// lets a verified row that it was not shown vouch for one.
	Uncorroborated bool
	// Named holds a call unless the principal, or a row that a person endorsed, named
	// the tool.
	Named bool
	// AllSinks has every call of the tool give every declared sink, though the tool
	// declares some of them optional.
	AllSinks bool
	// PlainOutput takes all that the tool returns as a third party's words, though it
	// declares fields that are believed, or that are identifiers.
	PlainOutput bool
	// Underived takes no argument as computed, though the tool declares that it may be.
	Underived bool `json:",omitempty"`
	// Once holds a call that was done in the same run and cannot be undone, though the tool
	// declares that it may be repeated, or nobody declared it.
	Once bool `json:",omitempty"`
	// MaxBlastRadius holds a call of the tool if it may reach further and changes
	// something; the zero value, OutsideWorld, holds none.
	MaxBlastRadius BlastRadius
}

// Policy is what may fire at all. The zero Policy denies everything: it names no
// tool (I-1). It is plain data; [New] takes a copy.
type Policy struct {
	Name, Version string
	// Tools are the rules by exact tool name.
	Tools map[string]Rule
	// Declared lets a tool that Tools does not name run by its own contract.
	Declared bool
	// MaxBlastRadius is [Rule.MaxBlastRadius] for every tool, also one that Tools does
	// not name. A rule may ask for less, and lifts nothing.
	MaxBlastRadius BlastRadius
	// Verifies names, by predicate, the tool that reads the system of record for
	// it. It is offered as a remedy, and nothing else follows from it.
	Verifies map[string]string
	// Predicates is the registry, by exact predicate. The gate itself asks nothing of it:
	// it is for the stores and agents of a program; see [Policy.Registry] and [Policy.Kinds].
	Predicates map[string]Predicate `json:",omitempty"`
	// UnknownFor is how long a state-changing call of which nobody knows how it ended
	// keeps the same call of its run from being made; 0 = [DefaultUnknownFor]. Negative:
	// until it is known, as it is for what cannot be undone.
	UnknownFor time.Duration `json:",omitempty"`
}

// Predicate is what an operator says of a predicate: what [memory.Predicate] says, and
// which kinds of sink its objects may clear.
type Predicate struct {
	memory.Predicate
	Kinds []Kind
}

// Registry is the registry for [memory.Options].
func (p *Policy) Registry() map[string]memory.Predicate {
	out := map[string]memory.Predicate{}
	for name, of := range p.Predicates {
		of.Sources, of.Placeholders = slices.Clone(of.Sources), slices.Clone(of.Placeholders)
		of.Identifier = of.Identifier || slices.ContainsFunc(of.Kinds, Kind.identifies)
		out[name] = of.Predicate
	}
	return out
}

// Kinds are the kinds for the options of an agent.
func (p *Policy) Kinds() map[string][]Kind {
	out := map[string][]Kind{}
	for name, of := range p.Predicates {
		if len(of.Kinds) > 0 {
			out[name] = slices.Clone(of.Kinds)
		}
	}
	return out
}

// DefaultUnknownFor is [Policy.UnknownFor] of a policy that does not say.
const DefaultUnknownFor = 24 * time.Hour

// unknownFor is how long an unknown outcome holds what can be put back; 0 = for ever.
func (p *Policy) unknownFor() time.Duration {
	if p.UnknownFor == 0 {
		return DefaultUnknownFor
	}
	return max(p.UnknownFor, 0)
}

// String is "name@version", for records and logs.
func (p *Policy) String() string {
	name := p.Name
	if name == "" {
		name = "unnamed"
	}
	if p.Version == "" {
		return name
	}
	return name + "@" + p.Version
}

// check refuses half a configuration.
func (p *Policy) check() error {
	if p.MaxBlastRadius > OneObject {
		return fmt.Errorf("gate: policy: max_blast_radius %d is none", uint8(p.MaxBlastRadius))
	}
	for tool, r := range p.Tools {
		switch {
		case tool == "":
			return errors.New("gate: policy: a rule for a tool without a name")
		case r.Effect != nil && *r.Effect > ReadOnly:
			return fmt.Errorf("gate: policy: rule %q: effect %d is none", tool, uint8(*r.Effect))
		case r.MaxBlastRadius > OneObject:
			return fmt.Errorf("gate: policy: rule %q: max_blast_radius %d is none", tool, uint8(r.MaxBlastRadius))
		case r.MaxAge < 0:
			return fmt.Errorf("gate: policy: rule %q: max_age is negative", tool)
		case r.Ceiling > memory.SensitivitySecret:
			return fmt.Errorf("gate: policy: rule %q: ceiling %d is none", tool, uint8(r.Ceiling))
		}
	}
	for predicate, tool := range p.Verifies {
		if predicate == "" || tool == "" {
			return errors.New("gate: policy: verifies: a predicate or a tool without a name")
		}
	}
	return nil
}

func (p *Policy) clone() Policy {
	c := *p
	c.Tools, c.Verifies, c.Predicates = maps.Clone(p.Tools), maps.Clone(p.Verifies), maps.Clone(p.Predicates)
	for tool, r := range c.Tools {
		if r.Effect != nil {
			e := *r.Effect
			r.Effect = &e
			c.Tools[tool] = r
		}
	}
	return c
}

// terms are what rule and contract together ask of each row.
type terms struct {
	effect      Effect
	ceiling     memory.Sensitivity
	maxAge      time.Duration
	privileged  bool
	precision   Precision
	corroborate bool
	named       bool // somebody but the model must have named the tool
	everySink   bool // none may be left out
	underived   bool // no argument counts as computed
	plain       bool // nothing that the tool declares about systems of record counts
	now         time.Time
	req         *Request
	heads       []memory.Head         // of the direct lineage first
	said        map[memory.Token]bool // by fit rows of the direct lineage; nil = not looked yet
}

// answered reports whether a fit row of the same request says exactly what a row says that
// nobody verified. The call then rests on that row; the waiting one is moved by it nowhere
// (I-4). Of content that nothing stands for nothing is known.
func (t *terms) answered(h *memory.Head) bool {
	if h.Truth != memory.TruthUnverified || h.Commitment == (memory.Token{}) || h.Flags&(memory.FlagLineageUnknown|memory.FlagContested|memory.FlagRevoked) != 0 || h.NotYetValid(t.now) {
		return false
	}
	if t.said == nil {
		t.said = map[memory.Token]bool{}
		for i := range t.req.Lineage.direct {
			if other := &t.heads[i]; other.ID == t.req.Lineage.direct[i] && t.clear(other) {
				t.said[other.Commitment] = true
			}
		}
	}
	return t.said[h.Commitment]
}

// readAgain reports whether the run read since what the source of a superseded row says
// now, and that is verified. No sink may have come from the row: what the run was told
// then is told no more.
func (t *terms) readAgain(id memory.ID) bool {
	for _, n := range t.req.Newer {
		if n.Row != id {
			continue
		}
		for i, by := range t.req.Lineage.direct {
			if h := &t.heads[i]; by == n.By && h.ID == by {
				return h.Truth == memory.TruthSupported && h.Security == memory.SecurityClean && h.Flags&(memory.FlagTainted|memory.FlagContested) == 0
			}
		}
	}
	return false
}

// Evaluate judges a request by the current states of its rows. f.Heads are those
// of Lineage.Direct() and then Lineage.Ancestors(), in that order, as
// [memory.Store.Fitness] gives them; anything else is a fault and denies (I-5). The own
// word of a principal counts in a request that [Gate.Decide] judges for it, and in no
// other: only a store can tell whose word a row is.
//
// It is pure: no clock but f.Now, no I/O, the same answer for the same input. All
// reasons are collected. A request that is permitted without a note costs no
// allocation. Fields that name the decision (ID, ArgsSHA256, Policy and the like)
// are left to [Gate.Decide].
func (p *Policy) Evaluate(req *Request, f memory.Fitness) Decision {
	if req == nil {
		req = &Request{}
	}
	c, l := &req.Contract, &req.Lineage
	f = f.For(req.speaker)
	d := Decision{Outcome: Permit, Tool: c.Tool, CallID: req.CallID, Agent: req.Agent, Run: req.Run, Principal: req.Principal, At: f.Now}
	rule, named, reach := Rule{}, false, OutsideWorld
	if p != nil {
		rule, named = p.Tools[c.Tool]
		named = named || p.Declared
		reach = max(p.MaxBlastRadius, rule.MaxBlastRadius)
	}
	t := tighten(c, rule, f.Now)
	d.Effect, d.BlastRadius = t.effect, c.BlastRadius.widest()

	switch {
	case c.Tool == "" || c.Unknown || !named:
		d.add(Reason{Code: ToolNotNamed})
	case rule.Never:
		d.add(Reason{Code: PolicyNever, Detail: rule.Why})
	}
	if c.Undeclared {
		d.note(Reason{Code: EffectNotDeclared})
	}
	switch {
	case l.known:
	case t.effect == ReadOnly:
		d.note(Reason{Code: LineageUnknown, Detail: l.why})
	default:
		d.add(Reason{Code: LineageUnknown, Detail: l.why})
	}
	if t.effect == Irreversible || rule.FromNowhere && t.effect != ReadOnly {
		for i := range req.Sinks {
			s := &req.Sinks[i]
			if s.Source == SourceIdentifier || !fromNowhere(s, l.direct) {
				continue
			}
			if _, may := t.computes(req, s); !may {
				d.add(Reason{Code: FromNowhere, Argument: s.Pointer})
			}
		}
	}
	if t.named {
		switch h, ok := req.chosen(&f); {
		case !ok:
			d.add(Reason{Code: ToolNotChosen})
		case h != nil: // it may not be judged otherwise: nothing need rest on it
			d.lasts(&t, h)
		}
	}
	if t.effect != ReadOnly && d.BlastRadius < reach {
		d.add(Reason{Code: BlastTooWide})
	}
	d.judge(&t, req, &f)
	if t.effect == Irreversible || rule.FromNowhere && t.effect != ReadOnly {
		fit := d.allFit()
		d.identified(req, fit)
		d.derived(&t, req, fit)
	}
	order(d.Reasons)
	return d
}

// tighten joins contract and rule: of each pair of limits the stricter.
func tighten(c *Contract, rule Rule, now time.Time) terms {
	t := terms{effect: c.Effect.floor(), ceiling: c.Ceiling, maxAge: c.MaxAge, privileged: c.Privileged, now: now}
	if c.Undeclared {
		t.effect = Irreversible
	}
	if rule.Effect != nil {
		t.effect = min(t.effect, rule.Effect.floor())
	}
	if t.ceiling == 0 || t.ceiling > memory.SensitivitySecret {
		t.ceiling = memory.SensitivityInternal
	}
	if rule.Ceiling != 0 {
		t.ceiling = min(t.ceiling, rule.Ceiling)
	}
	if !rule.WholeRun {
		t.precision = c.Precision
	}
	t.corroborate = c.Corroborate && !rule.Uncorroborated
	t.named, t.everySink, t.underived, t.plain = c.Named || rule.Named, rule.AllSinks, rule.Underived, rule.PlainOutput
	if rule.MaxAge > 0 && (t.maxAge <= 0 || rule.MaxAge < t.maxAge) {
		t.maxAge = rule.MaxAge
	}
	return t
}

// fromNowhere reports whether nothing vouches for a sink. A row does only if the
// call rests on it, so that it is judged.
func fromNowhere(s *Sink, direct []memory.ID) bool {
	switch s.Source {
	case SourcePrincipal, SourceShort:
		return false
	case SourceRow, SourceField, SourceHandle, SourceCorroborated:
		for _, id := range direct {
			if id == s.Row {
				return false
			}
		}
	}
	return true
}

// identified judges the sinks that only an identifier of a found record vouches for. That
// an id is genuine does not say that it is the one to act on; in a run in which nothing
// unfit is, somebody may act on what was found. So it is a note there, of a sink that picks
// one of one's own objects, and anywhere else it came from nowhere (I-16).
func (d *Decision) identified(req *Request, fit bool) {
	for i := range req.Sinks {
		s := &req.Sinks[i]
		if s.Source != SourceIdentifier {
			continue
		}
		if r := (Reason{Code: FromNowhere, Argument: s.Pointer}); fit && req.Contract.PicksObject(s.Pointer) {
			r.Detail = "a record that was found names it"
			d.note(r)
		} else {
			d.add(r)
		}
	}
}

// allFit reports whether nothing unfit is in the run as far as it was judged. A note about a
// row says that the row alone would not do.
func (d *Decision) allFit() bool {
	for i := range d.Reasons {
		if r := &d.Reasons[i]; r.Outcome != Permit || r.Row != "" {
			return false
		}
	}
	return true
}

// judge looks at every row.
func (d *Decision) judge(t *terms, req *Request, f *memory.Fitness) {
	l := &req.Lineage
	if l.len() > MaxLineage {
		d.add(Reason{Code: ClosureTooLarge})
		return
	}
	if f.Now.IsZero() || len(f.Heads) != l.len() {
		d.Fault = true
		d.add(Reason{Code: Undecided, Detail: "the store did not give the rows that were asked for"})
		return
	}
	t.req, t.heads = req, f.Heads
	if req.narrow(t, f) {
		d.Precision = TypedSinks
		if p := req.leftOut(); p != "" {
			d.note(Reason{Code: SinkLeftOut, Argument: p})
		}
	}
	for i, id := range l.direct {
		if d.Precision == TypedSinks && !req.rests(id) {
			d.bystander(t, &f.Heads[i], id)
			if !t.clear(&f.Heads[i]) {
				d.beside = append(d.beside, id)
			}
		} else {
			d.direct(t, &f.Heads[i], id)
		}
	}
	for i, id := range l.ancestors {
		d.ancestor(t, &f.Heads[len(l.direct)+i], id)
	}
}

// here reports whether the head is that of the row, and says so if not.
func (d *Decision) here(h *memory.Head, id memory.ID, ancestor bool) bool {
	switch {
	case h.ID != id:
		d.Fault = true
		d.add(Reason{Code: Undecided, Row: id, Ancestor: ancestor, Detail: "the store gave another row than was asked for"})
	case h.Has(memory.FlagDamaged):
		d.add(Reason{Code: RowDamaged, Row: id, Ancestor: ancestor})
	case h.Revision == 0:
		d.add(Reason{Code: RowMissing, Row: id, Ancestor: ancestor})
	default:
		return true
	}
	return false
}

// direct judges a row whose content reached the caller: it must itself be fit. Nearly
// all are, in every respect at once, which one look tells.
func (d *Decision) direct(t *terms, h *memory.Head, id memory.ID) {
	if h.ID == id && t.clear(h) {
		d.before(h.ExpiresAt)
		d.before(h.ValidUntil)
		return
	}
	d.weigh(t, h, id)
}

// clear reports whether [Decision.weigh] would find nothing, of a row that can stop a
// call. It takes a third of the time, and leaves to weigh whatever is not plain.
func (t *terms) clear(h *memory.Head) bool {
	return t.effect != ReadOnly && t.maxAge == 0 && h.Revision != 0 &&
		h.Sensitivity != 0 && h.Sensitivity <= t.ceiling &&
		h.Truth == memory.TruthSupported && h.Rank >= memory.RankTool &&
		h.Security == memory.SecurityClean && h.Retrieval == memory.RetrievalNormal &&
		h.Flags&(memory.FlagTainted|memory.FlagContested) == 0 &&
		(h.Freshness == memory.FreshnessFresh || h.Freshness == memory.FreshnessStale) &&
		!h.NotYetValid(t.now) && (h.ExpiresAt.IsZero() || t.now.Before(h.ExpiresAt)) && (h.ValidUntil.IsZero() || t.now.Before(h.ValidUntil))
}

// weigh goes through all that can be wrong with a row whose content reached the caller.
func (d *Decision) weigh(t *terms, h *memory.Head, id memory.ID) {
	if !d.here(h, id, false) {
		return
	}
	d.secrecy(t, h, false)
	if t.effect == ReadOnly {
		return // pending rows may be read with (SR-6.2)
	}
	if h.Security != memory.SecurityClean || h.Flags&memory.FlagTainted != 0 {
		d.add(Reason{Code: QuarantinedInput, Row: id})
	}
	if h.Retrieval != memory.RetrievalNormal && (h.Retrieval != memory.RetrievalPrivilegedOnly || !t.privileged) {
		d.add(Reason{Code: NotRetrievable, Row: id})
	}
	if h.Has(memory.FlagOutdated) && h.Truth == memory.TruthSuperseded {
		d.superseded(t, id)
		return
	}
	if t.answered(h) {
		d.note(Reason{Code: UnverifiedInput, Row: id, Detail: "a verified row that the run has read says the same"})
		return
	}
	verified := h.Truth == memory.TruthSupported
	if !verified {
		r := Reason{Code: unverified(h), Row: id}
		if h.Flags&memory.FlagRevoked != 0 {
			r.Detail = "what verified it was revoked"
		}
		switch {
		case h.Flags&memory.FlagOwnWord != 0:
			r.Detail = "it is the own word of somebody whom the call is not made for"
		case h.Flags&memory.FlagOwnDispute != 0:
			r.Detail = "whom the call is made for says otherwise"
		}
		d.add(r)
		if h.Flags&memory.FlagLineageUnknown != 0 {
			d.add(Reason{Code: LineageUnknown, Row: id})
		}
	}
	tooOld := verified && t.maxAge > 0 && t.now.Sub(h.VerifiedAt) >= t.maxAge // a permit ends in that very moment
	switch f := h.FreshnessAt(t.now); {
	case h.NotYetValid(t.now):
		d.add(Reason{Code: NotYetValid, Row: id})
	case tooOld, f != memory.FreshnessFresh && f != memory.FreshnessStale:
		d.add(Reason{Code: StaleInput, Row: id})
	}
	if verified && t.effect == Irreversible && h.Rank < memory.RankTool {
		d.add(Reason{Code: RankTooLow, Row: id})
	}
	if h.Flags&memory.FlagContested != 0 {
		if r := (Reason{Code: ContestedInput, Row: id}); t.effect == Irreversible {
			d.add(r)
		} else {
			d.note(r)
		}
	}
	if verified {
		d.lasts(t, h)
	}
}

// superseded judges a row whose own source has said otherwise since. It is history to a run
// that has read what the source says now. Else, or if an argument came from it, what the run
// goes by is out of date, unless a call that can be put back itself puts the value back where
// it stood.
func (d *Decision) superseded(t *terms, id memory.ID) {
	used := false
	for i := range t.req.Sinks {
		if s := &t.req.Sinks[i]; s.Row == id && s.Source.row() && !(s.Restores && t.effect == StateChanging && !t.plain) {
			d.add(Reason{Code: SupersededInput, Row: id, Argument: s.Pointer})
			used = true
		}
	}
	switch {
	case used:
	case t.readAgain(id):
		d.note(Reason{Code: SupersededInput, Row: id})
	default:
		d.add(Reason{Code: SupersededInput, Row: id})
	}
}

// ancestor judges a row above a direct one. Whether the direct row may be acted
// on was settled by its own evidence; what remains is secrecy and security
// (design section 4).
func (d *Decision) ancestor(t *terms, h *memory.Head, id memory.ID) {
	if !d.here(h, id, true) {
		return
	}
	d.secrecy(t, h, true)
	if t.effect == ReadOnly {
		return
	}
	if h.Held() {
		d.add(Reason{Code: QuarantinedInput, Row: id, Ancestor: true})
	}
}

func (d *Decision) secrecy(t *terms, h *memory.Head, ancestor bool) {
	if h.Sensitivity == 0 || h.Sensitivity > t.ceiling { // unset is secret
		d.add(Reason{Code: SensitivityExceeded, Row: h.ID, Ancestor: ancestor})
	}
}

func unverified(h *memory.Head) Code {
	switch {
	case h.Truth == memory.TruthContradicted || h.Truth == memory.TruthSuperseded:
		return ContradictedInput
	case h.Outage == memory.OutageRecorded:
		return VerifierWasDown
	}
	return UnverifiedInput
}

// lasts notes the first moment to come at which the clock alone would make a row
// unfit. What is over already speaks for itself, and a person may have approved it.
func (d *Decision) lasts(t *terms, h *memory.Head) {
	if h.ExpiresAt.After(t.now) {
		d.before(h.ExpiresAt)
	}
	if h.ValidUntil.After(t.now) {
		d.before(h.ValidUntil)
	}
	if t.maxAge > 0 {
		if end := h.VerifiedAt.Add(t.maxAge); end.After(t.now) {
			d.before(end)
		}
	}
}

func (d *Decision) before(end time.Time) {
	if !end.IsZero() && (d.until.IsZero() || end.Before(d.until)) {
		d.until = end
	}
}

// add keeps a reason that blocks, and lets it lower the outcome.
func (d *Decision) add(r Reason) {
	r.Outcome = r.Code.outcome()
	d.Reasons = append(d.Reasons, r)
	d.Outcome = min(d.Outcome, r.Outcome)
}

// note keeps a reason that blocks nothing.
func (d *Decision) note(r Reason) {
	r.Outcome = Permit
	d.Reasons = append(d.Reasons, r)
}
