package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// runEnded is what stands in the way of a call whose run has ended: nobody asks for it
// again, and an approval would free nothing.
const runEnded = "run_ended"

// obstacles is what still stands in the way of a call that waits: what the gate says that
// judges it again by the terms it was held by, with its rows as they are now. The gate
// decides it afresh when the agent asks again.
type obstacles struct {
	codes  []string                // reasons that hold or deny it now
	rows   []memory.ID             // rows at fault that are not verified now, or not to be retrieved as others are
	why    map[memory.ID]gate.Code // of rows that are at fault now, the gravest reason
	denied gate.Code               // the gravest reason that no approval releases; "" if there is none
	ended  bool                    // its run has ended
	// moved says that a row it rests on, or the store's epoch, has moved since, so that no
	// approval of this hold counts any more.
	moved bool
}

// none reports whether the reasons are gone.
func (o *obstacles) none() bool { return len(o.codes) == 0 }

// obstaclesOf looks at the rows of a held call as they are now. Rows that cannot be read
// stay in the way.
func obstaclesOf(ctx context.Context, s *memory.Store, h *memory.Hold) (o obstacles, err error) {
	denied := gate.Code("") // by the rows at fault alone
	for _, id := range h.AtFault {
		rows, err := s.Get(ctx, id)
		switch {
		case err != nil:
		case rows[0].Security != memory.SecurityClean:
			denied = gate.QuarantinedInput
		case rows[0].Truth == memory.TruthContradicted && denied == "":
			denied = gate.ContradictedInput
		}
		switch {
		case unreadable(err):
			o.rows = append(o.rows, id)
		case err != nil:
			return o, err
		case rows[0].State() != memory.StateVerified || rows[0].Retrieval != memory.RetrievalNormal:
			o.rows = append(o.rows, id)
		}
	}
	tried, kept, err := gate.Try(ctx, s, h)
	if err == nil {
		o.moved, err = movedSince(ctx, s, h)
	}
	switch {
	case unreadable(err):
		return obstacles{codes: h.Codes, rows: o.rows, moved: true}, nil
	case err != nil:
		return o, err
	case kept:
		for _, r := range tried.Reasons {
			if r.Outcome == gate.Permit {
				continue
			}
			if !slices.Contains(o.codes, string(r.Code)) {
				o.codes = append(o.codes, string(r.Code))
			}
			if r.Row.Valid() && o.why[r.Row] == "" {
				if o.why == nil {
					o.why = map[memory.ID]gate.Code{}
				}
				if o.why[r.Row] = r.Code; !slices.Contains(o.rows, r.Row) { // it was fit when the call was held
					o.rows = append(o.rows, r.Row)
				}
			}
			if r.Outcome == gate.Deny && o.denied == "" {
				o.denied = r.Code
			}
		}
	default:
		if o.recorded(h); denied != "" {
			o.denied, o.codes = denied, append(o.codes, string(denied))
		}
	}
	if o.ended, err = s.RunEnded(ctx, h.Run); o.ended {
		o.codes = append(o.codes, runEnded)
	}
	return o, err
}

// recorded goes by the reasons that were recorded when the call was held, which is all that
// a hold tells once it has ended.
func (o *obstacles) recorded(h *memory.Hold) {
	for _, code := range h.Codes {
		switch gate.Code(code) {
		case gate.UnverifiedInput, gate.VerifierWasDown:
			if len(o.rows) == 0 {
				continue
			}
		case gate.OutcomeUnknown:
			if h.Unknown() == "" { // it is known by now
				continue
			}
		case gate.ApprovalForeign, gate.ApprovalStale, gate.ApprovalExpired, gate.ApprovalWithdrawn, gate.ApprovalUsed:
			continue // they say why an approval did not help, and hold nothing
		}
		o.codes = append(o.codes, code)
	}
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
