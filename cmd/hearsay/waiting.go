package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// runEnded is what stands in the way of a call whose run has ended: nobody asks for it
// again, and an approval would free nothing.
const runEnded = "run_ended"

// obstacles is what still stands in the way of a call: what the gate says that judges it again
// by the terms it was held by, with its rows as they are now. The gate decides it afresh when
// the agent asks again.
type obstacles struct {
	codes     []string               // reasons that hold or deny it now, the gravest first
	faults    []fault                // the rows that they are about
	others    []gate.Code            // those that are about no row
	arguments map[gate.Code][]string // pointers of the arguments that these are about
	denied    gate.Code              // the gravest reason that no approval releases; "" if there is none
	unsettled string                 // the same call, if it is not known how that ended
	ended     bool                   // its run has ended
	principal string                 // whom it is made for
	// moved says that an approval of this hold counts no more: a row, the store's epoch, or what
	// stands against the call is not what the hold says.
	moved bool
	// unread says that a record of a decision cannot be read, so that it is not known whether the
	// same call was made since.
	unread bool
}

// fault is a row that stands in the way of a call.
type fault struct {
	row      memory.ID
	reasons  []gate.Reason // the gravest first
	ancestor bool          // the call rests on what was made from it
}

// has reports whether a row is at fault for one of the reasons.
func (f *fault) has(codes ...gate.Code) bool {
	return slices.ContainsFunc(f.reasons, func(r gate.Reason) bool { return slices.Contains(codes, r.Code) })
}

// none reports whether the reasons are gone.
func (o *obstacles) none() bool { return len(o.codes) == 0 }

// add adds the reasons that block, the gravest first.
func (o *obstacles) add(reasons []gate.Reason) {
	for _, r := range reasons {
		if r.Outcome == gate.Permit {
			continue
		}
		if !slices.Contains(o.codes, string(r.Code)) {
			o.codes = append(o.codes, string(r.Code))
		}
		if r.Outcome == gate.Deny && o.denied == "" {
			o.denied = r.Code
		}
		if r.Code == gate.OutcomeUnknown && o.unsettled == "" {
			o.unsettled = r.Detail
		}
		if !r.Row.Valid() {
			if r.Argument != "" {
				if o.arguments == nil {
					o.arguments = map[gate.Code][]string{}
				}
				o.arguments[r.Code] = append(o.arguments[r.Code], r.Argument)
			}
			if !slices.Contains(o.others, r.Code) {
				o.others = append(o.others, r.Code)
			}
			continue
		}
		at := slices.IndexFunc(o.faults, func(f fault) bool { return f.row == r.Row })
		if at < 0 {
			at, o.faults = len(o.faults), append(o.faults, fault{row: r.Row, ancestor: r.Ancestor})
		}
		o.faults[at].reasons = append(o.faults[at].reasons, r)
	}
}

// at names the arguments that a reason is about: " (/to)".
func (o *obstacles) at(c gate.Code) string {
	if len(o.arguments[c]) == 0 {
		return ""
	}
	return " (" + oneLine(strings.Join(o.arguments[c], ", "), maxMessage) + ")"
}

// otherwise reports whether something else stands against the call than what it was held for, or
// another row. An approval counts only against what the person saw.
func (o *obstacles) otherwise(h *memory.Hold) bool {
	against := func(codes []string) (out []string) {
		for _, code := range codes {
			if c := gate.Code(code); !isNote(c) && c != gate.OutcomeUnknown { // that one can only pass
				out = append(out, code)
			}
		}
		slices.Sort(out)
		return out
	}
	rows := make([]memory.ID, len(o.faults))
	for i := range o.faults {
		rows[i] = o.faults[i].row
	}
	slices.Sort(rows)
	return !slices.Equal(against(o.codes), against(h.Codes)) || !slices.Equal(rows, slices.Sorted(slices.Values(h.AtFault)))
}

// obstaclesOf looks at the rows of a held call as they are now. Rows that cannot be read
// stay in the way.
func obstaclesOf(ctx context.Context, s *memory.Store, h *memory.Hold) (o obstacles, err error) {
	tried, kept, err := gate.Try(ctx, s, h)
	reasons := tried.Reasons
	if unreadable(err) || err == nil && !kept {
		reasons, err = recorded(ctx, s, h)
	}
	if err != nil {
		return o, err
	}
	o.principal = h.Principal
	o.add(reasons)
	if o.moved, err = movedSince(ctx, s, h); unreadable(err) {
		o.moved, err = true, nil
	}
	if err != nil {
		return o, err
	}
	o.moved = o.moved || kept && o.otherwise(h)
	return o, o.endedBy(ctx, s, h.Run)
}

// endedBy adds that the run has ended, if it has.
func (o *obstacles) endedBy(ctx context.Context, s *memory.Store, run string) (err error) {
	if o.ended, err = s.RunEnded(ctx, run); o.ended {
		o.codes = append(o.codes, runEnded)
	}
	return err
}

// recorded are the reasons that were recorded when a call was held and that hold still. They
// are all that tells of a hold that does not keep its terms, or that has a row nobody can read.
func recorded(ctx context.Context, s *memory.Store, h *memory.Hold) ([]gate.Reason, error) {
	var said []gate.Reason
	for _, code := range h.Codes {
		r := gate.Reason{Code: gate.Code(code), Outcome: gate.Hold}
		switch r.Code {
		case gate.OutcomeUnknown:
			if r.Detail = h.Unknown(); r.Detail == "" { // it is known by now
				continue
			}
		case gate.UnverifiedInput, gate.VerifierWasDown, gate.SupersededInput, gate.StaleInput, gate.NotYetValid, gate.RankTooLow, gate.ContestedInput:
			for _, r.Row = range h.AtFault { // the hold does not tell which
				said = append(said, r)
			}
			continue
		}
		if !isNote(r.Code) {
			said = append(said, r)
		}
	}
	past := pastCall{effect: effectOf(h.Effect), principal: h.Principal, at: h.OpenedAt}
	return past.again(ctx, s, said)
}

func effectOf(name string) gate.Effect {
	var e gate.Effect
	if e.UnmarshalText([]byte(name)) != nil {
		return gate.Irreversible
	}
	return e
}

// isNote reports whether a code says why an approval did not help. It holds nothing.
func isNote(c gate.Code) bool {
	switch c {
	case gate.ApprovalForeign, gate.ApprovalStale, gate.ApprovalExpired, gate.ApprovalWithdrawn, gate.ApprovalUsed, gate.ApprovalForged:
		return true
	}
	return false
}

// pastCall is what a record tells of a call whose terms are not kept.
type pastCall struct {
	effect    gate.Effect
	principal string
	at        time.Time // when it was decided
}

// again gives the reasons that still hold, the gravest first: those about no row, and those of
// the rows as they are now.
func (c *pastCall) again(ctx context.Context, s *memory.Store, said []gate.Reason) (reasons []gate.Reason, err error) {
	var was obstacles
	was.add(said)
	for _, r := range said {
		if !r.Row.Valid() && r.Outcome != gate.Permit {
			reasons = append(reasons, r)
		}
	}
	for i := range was.faults {
		now, err := c.judge(ctx, s, &was.faults[i])
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, now...)
	}
	slices.SortStableFunc(reasons, func(a, b gate.Reason) int { return cmp.Compare(a.Outcome, b.Outcome) })
	return reasons, nil
}

// judge gives the reasons for which a row, which was at fault then, is at fault now.
func (c *pastCall) judge(ctx context.Context, s *memory.Store, was *fault) (reasons []gate.Reason, err error) {
	rows, err := s.Get(ctx, was.row)
	if unreadable(err) {
		return was.reasons, nil
	}
	if err != nil {
		return nil, err
	}
	r := rows[0].For(c.principal)
	verified := r.VerifiedAt
	r.Flags &^= memory.FlagOwnWord | memory.FlagOwnDispute // they are counted
	req := gate.Request{Contract: gate.Contract{Tool: "any", Effect: c.effect, Ceiling: memory.SensitivitySecret, Privileged: !was.has(gate.NotRetrievable)}}
	if req.Lineage = gate.Known([]memory.ID{was.row}, nil); was.ancestor {
		req.Lineage = gate.Known(nil, []memory.ID{was.row})
	}
	for _, r := range (&gate.Policy{Declared: true}).Evaluate(&req, memory.Fitness{Heads: []memory.Head{r.Head}, Now: s.Now()}).Reasons {
		if r.Row.Valid() && r.Outcome != gate.Permit {
			reasons = append(reasons, r)
		}
	}
	now := fault{reasons: reasons}
	for _, r := range was.reasons { // what the tool's own terms say of the row is in the record alone
		if r.Code == gate.SensitivityExceeded || r.Code == gate.StaleInput && !now.has(r.Code) && !verified.After(c.at) {
			reasons = append(reasons, r)
		}
	}
	return reasons, nil
}

// unreadable reports whether an error is about one row and not about the store, so that
// the row stays in the way and the calls beside it are still shown.
func unreadable(err error) bool {
	return errors.Is(err, memory.ErrErased) || errors.Is(err, memory.ErrNotFound) ||
		errors.Is(err, memory.ErrDamaged) || errors.Is(err, memory.ErrKey) || errors.Is(err, memory.ErrBehind)
}

// movedSince reports whether a row of a held call is not at the version that the call
// was held at, or the store at another epoch.
func movedSince(ctx context.Context, s *memory.Store, h *memory.Hold) (bool, error) {
	ids := make([]memory.ID, len(h.Rows))
	for i := range h.Rows {
		ids[i] = h.Rows[i].Row
	}
	f, err := s.Fitness(ctx, ids)
	if err != nil {
		return false, err
	}
	for i := range f.Heads {
		if f.Heads[i].Revision != h.Rows[i].Revision {
			return true, nil
		}
	}
	return f.Epoch != h.Epoch, nil
}

// waitingJSON is a call that waits for a row, after somebody spoke about the row.
type waitingJSON struct {
	ID    string   `json:"id"`
	Tool  string   `json:"tool"`
	Agent string   `json:"agent"`
	Run   string   `json:"run"`
	Codes []string `json:"codes"` // what still stands in its way; none if it is free
}

// waitingFor lists the calls that wait for a row: those of which nothing stands in the
// way any more, and the others.
func waitingFor(ctx context.Context, s *memory.Store, row memory.ID, now time.Time) (free, held []waitingJSON, err error) {
	free, held = []waitingJSON{}, []waitingJSON{}
	for h, err := range s.HeldCalls(ctx, memory.HoldFilter{Row: row}) {
		if errors.Is(err, memory.ErrDamaged) {
			continue // verifying the row frees it no more
		}
		if err != nil {
			return nil, nil, err
		}
		if h.StateAt(now) != memory.HoldWaiting || slices.ContainsFunc(append(free, held...), func(w waitingJSON) bool { return w.ID == h.ID }) {
			continue
		}
		o, err := obstaclesOf(ctx, s, &h)
		if err != nil {
			return nil, nil, err
		}
		w := waitingJSON{ID: h.ID, Tool: h.Tool, Agent: h.Agent, Run: h.Run, Codes: append([]string{}, o.codes...)}
		if o.none() {
			free = append(free, w)
		} else {
			held = append(held, w)
		}
	}
	return free, held, nil
}
