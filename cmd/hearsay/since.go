package main

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// decided is a call that was decided about: what was decided about the same one since is looked
// for.
type decided struct {
	store *memory.Store
	id    string    // of the decision, or of the hold that it opened
	at    time.Time // when that was, or when the hold was over
	same  func(*memory.DecisionRecord) bool
}

// made finds the last decision that let the same call through since, in the same transaction
// too. A call that was let through and not made is none. If there is none, unread says that a
// record could not be read that may be one.
func (c *decided) made(ctx context.Context) (made memory.DecisionRecord, ok, unread bool, err error) {
	list, unread, err := c.since(ctx)
	for i := range list {
		if d := &list[i]; d.Fired && !d.At.Before(c.at) && c.same(d) && !notMade(d) {
			return *d, true, false, nil
		}
	}
	return made, false, unread, err
}

// since reads the decisions since then, newest first, and perhaps older ones.
func (c *decided) since(ctx context.Context) (list []memory.DecisionRecord, unread bool, err error) {
	for _, limit := range []int{100, memory.MaxQueryLimit} {
		if list, err = c.store.NewestDecisions(ctx, limit); err != nil {
			break
		}
		if n := len(list); n > 0 && list[n-1].At.Before(c.at) {
			return list, false, nil
		}
	}
	if err == nil {
		list, err = c.store.Decisions(ctx)
	}
	if unreadable(err) {
		return c.each(ctx)
	}
	return list, false, err
}

// each reads the decisions since then one by one, where some cannot be read. Their ids are in the
// order of time.
func (c *decided) each(ctx context.Context) (list []memory.DecisionRecord, unread bool, err error) {
	for key, err := range c.store.Logs(ctx) {
		if err != nil {
			return nil, false, err
		}
		id, ok := strings.CutPrefix(memory.KeyText(key), "decision/")
		if !ok || id <= c.id {
			continue
		}
		d, err := c.store.Decision(ctx, id)
		switch {
		case errors.Is(err, memory.ErrErased), errors.Is(err, memory.ErrNotFound):
		case unreadable(err):
			unread = true
		case err != nil:
			return nil, false, err
		default:
			list = append(list, d)
		}
	}
	slices.SortStableFunc(list, func(a, b memory.DecisionRecord) int { return b.At.Compare(a.At) })
	return list, unread, nil
}

// gateRecord is what a gate records of a decision, as far as it is read here.
type gateRecord struct {
	Status, Effect, Agent, Principal, Policy string

	ArgsSHA256 memory.Digest `json:"args_sha256"`
	Final      bool
	Reasons    []struct {
		Code     gate.Code
		Text     string
		Outcome  gate.Outcome
		Row      memory.ID
		Ancestor bool
		Argument string
	}
}

func recordOf(d *memory.DecisionRecord) (r gateRecord, err error) {
	if json.Unmarshal(d.Data, &r) != nil {
		return r, fail(exitFailed, "the record of %s is not one of a gate", d.ID)
	}
	return r, nil
}

// same reports whether another decision is about the same call, as far as the record of a denial
// tells: with the same arguments, all of them.
func (r *gateRecord) same(d, other *memory.DecisionRecord) bool {
	if r.ArgsSHA256.IsZero() || other.Tool != d.Tool || other.Run != d.Run {
		return false
	}
	its, err := recordOf(other)
	return err == nil && its.ArgsSHA256 == r.ArgsSHA256 && its.Agent == r.Agent && its.Principal == r.Principal
}

// heldSince is the open hold of the same call that was opened since; "" if there is none.
func (r *gateRecord) heldSince(ctx context.Context, s *memory.Store, d *memory.DecisionRecord) (string, error) {
	for h, err := range s.HeldCalls(ctx, memory.HoldFilter{Open: true}) {
		if errors.Is(err, memory.ErrDamaged) {
			continue
		}
		if err != nil {
			return "", err
		}
		if h.OpenedAt.Before(d.At) {
			break // the newest comes first
		}
		if h.Open(s.Now()) && h.Tool == d.Tool && h.Run == d.Run && h.Agent == r.Agent && h.Principal == r.Principal && h.ArgsSHA256 == r.ArgsSHA256 {
			return h.ID, nil
		}
	}
	return "", nil
}

// now are the reasons of a decision that still hold.
func (r *gateRecord) now(ctx context.Context, s *memory.Store, d *memory.DecisionRecord) ([]gate.Reason, error) {
	var reasons []gate.Reason
	for _, why := range r.Reasons {
		reason, holds := gate.Reason{Code: why.Code, Outcome: why.Outcome, Row: why.Row, Ancestor: why.Ancestor, Argument: why.Argument}, true
		if why.Outcome != gate.Permit && (why.Code == gate.OutcomeUnknown || why.Code == gate.AlreadyDone) {
			reason.Detail = decisionID.FindString(why.Text)
			var err error
			if holds, err = before(ctx, s, d, &reason); err != nil {
				return nil, err
			}
		}
		if holds {
			reasons = append(reasons, reason)
		}
	}
	past := pastCall{effect: effectOf(r.Effect), principal: r.Principal, at: d.At}
	return past.again(ctx, s, reasons)
}

var decisionID = regexp.MustCompile(`blk_[0-9a-v]{26}`)

// before makes a reason of a decision about the same call before, which its detail names, the one
// that it is now; holds is false if there is none any more.
func before(ctx context.Context, s *memory.Store, d *memory.DecisionRecord, r *gate.Reason) (holds bool, err error) {
	was, err := s.Decision(ctx, r.Detail)
	switch {
	case unreadable(err): // nobody knows
		return true, nil
	case err != nil:
		return false, err
	case was.Unsettled():
		r.Code = gate.OutcomeUnknown
		return true, nil
	case was.StateAt(s.Now()) != memory.HoldDone || !was.Once:
		return false, nil
	}
	wasDone := r.Code == gate.AlreadyDone
	r.Code = gate.AlreadyDone
	if by := was.Settled; by != nil && was.Run != d.Run { // it stands for a day in other runs
		return s.Now().Sub(by.At) < memory.RejectedFor, nil
	}
	return wasDone || was.Run == d.Run, nil
}
