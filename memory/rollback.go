package memory

import (
	"context"
	"errors"
	"fmt"
)

// Rollback asks to take back what a row brought: it is retracted, and the row that
// it displaced comes back (C12-5.6).
type Rollback struct {
	Row      ID
	Revision uint64 // the fitness version that is bad; it must be the current one
	// Authority is AuthorityUser, with authority over the subject, or
	// AuthorityPolicy: an operator.
	Authority Authority
	Actor     string
	Reason    string
}

// RolledBack is what a rollback did. Restored is "" if the row had displaced none.
type RolledBack struct {
	Retracted Head
	Restored  ID
}

// Rollback retracts a row: it is superseded, by nothing. If its verification had
// demoted another row of the same subject and predicate, and that one has not moved
// since, it is reactivated in the same transaction: unverified and due at once, for a
// rollback is no evidence (I-3), and what a user rejected stays rejected.
//
// A revision that is not the current one gives [*ConflictError], and a row that is
// superseded already [*IllegalMoveError].
func (s *Store) Rollback(ctx context.Context, b Rollback) (RolledBack, error) {
	t := Transition{Row: b.Row, Revision: b.Revision, To: TruthSuperseded, Authority: b.Authority, Actor: b.Actor, Source: "rollback", Reason: b.Reason}
	if err := t.check(); err != nil {
		return RolledBack{}, err
	}
	for range conflictRetries {
		done, err := s.rollback(ctx, t)
		var conflict *ConflictError
		if err == nil || !errors.As(err, &conflict) || conflict.Key == headKey.of(t.Row) || ctx.Err() != nil {
			return done, err // done, or the row itself moved on, which trying again cannot mend
		}
	}
	return RolledBack{}, &ConflictError{Key: headKey.of(t.Row)}
}

func (s *Store) rollback(ctx context.Context, t Transition) (RolledBack, error) {
	now := s.Now()
	bad, err := s.bystander(ctx, t.Row)
	if err != nil {
		return RolledBack{}, err
	}
	switch {
	case bad.Has(FlagErased):
		return RolledBack{}, fmt.Errorf("%w: %s", ErrErased, t.Row)
	case bad.Revision != t.Revision:
		return RolledBack{}, &ConflictError{Key: headKey.of(t.Row)}
	}
	about := bad.body.Content
	f := Facts{Event: EventRetracted, Now: now, Row: bad.Head, Content: about, By: t.Authority, Actor: t.Actor}
	f.MaySpeak = t.Authority == AuthorityUser && s.authority(t.Actor, about.Subject, about.Predicate)
	v := Judge(f)
	if v.Err != nil {
		return RolledBack{}, v.Err
	}
	tx := s.begin(ctx, now)
	nonce := newNonce()
	e := AuditEntry{Kind: EntryRollback, Row: bad.ID, Revision: bad.Revision + 1, At: now, Actor: t.Actor, Authority: t.Authority, Source: t.Source,
		Reason: t.Reason, Axis: AxisTruth, From: bad.Truth.String(), To: TruthSuperseded.String(), Nonce: nonce}
	next := v.Next
	var c change
	if _, any := voidSupports(bad.evid.list); any {
		c = tx.evidence(&bad.Head, bad.evid, voidsSupports, nil)
	}
	tx.notDue(bad.ID, bad.mark)
	tx.head(bad.Head, next, nil, e, c)

	done := RolledBack{}
	before, err := s.displaced(ctx, &bad)
	if err != nil {
		return RolledBack{}, err
	}
	if before != nil {
		e.Row, e.Revision, e.Nonce = before.ID, before.Revision+1, newNonce()
		e.Reason, e.From, e.To = "reactivated after rollback of "+string(bad.ID), before.Truth.String(), TruthUnverified.String()
		back := Judge(Facts{Event: EventReturned, Now: now, Row: before.Head})
		if back.Err != nil {
			return RolledBack{}, back.Err
		}
		tx.due(&before.Head, before.mark, due{Reason: "reactivated"}, now)
		tx.head(before.Head, back.Next, nil, e, change{})
		done.Restored = before.ID
	}
	if err := tx.commit(headKey.of(bad.ID), bad.Revision+1, nonce); err != nil {
		return RolledBack{}, err
	}
	next.Revision = bad.Revision + 1
	done.Retracted = next
	return done, nil
}

// bystander reads a row with the objects that move with it.
func (s *Store) bystander(ctx context.Context, id ID) (bystander, error) {
	var r bystander
	objs, err := s.get(ctx, headKey.of(id), bodyKey.of(id), evidKey.of(id), dueKey.of(id))
	if err != nil {
		return r, err
	}
	if objs[0].Data == nil {
		return r, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	heads, err := decodeHeads(objs[:1], []ID{id})
	if err != nil {
		return r, err
	}
	if r.Head, r.mark = heads[0], objs[3]; r.Has(FlagErased) {
		return r, nil
	}
	if r.body, err = s.body(ctx, objs[1]); err != nil {
		return r, err
	}
	r.evid, err = s.evidenceOf(ctx, &r.Head, objs[2])
	return r, err
}

// displaced is the row that was demoted in the transaction in which a row was verified,
// the last one if there were several, and that nothing moved since; nil if none.
func (s *Store) displaced(ctx context.Context, by *bystander) (*bystander, error) {
	if !by.body.Content.Typed() {
		return nil, nil
	}
	verified := map[Sequence]bool{}
	for l, err := range s.entries(ctx, headKey.of(by.ID), 0) {
		if err != nil {
			return nil, err
		}
		var r record
		if _, err := r.decode(l.Data); err != nil {
			return nil, fmt.Errorf("%w: entry %d of %s", ErrStore, l.Revision, KeyText(headKey.of(by.ID)))
		}
		verified[r.sequence] = true
	}
	var last *bystander
	for id, err := range s.carriers(ctx, s.termLine(by.body.Content)) {
		if err != nil {
			return nil, err
		}
		if id == by.ID {
			continue
		}
		r, err := s.bystander(ctx, id)
		if err != nil {
			return nil, err
		}
		if !verified[r.link.sequence] || last != nil && last.link.sequence >= r.link.sequence {
			continue
		}
		f := Facts{Event: EventReturned, Now: s.Now(), Row: r.Head}
		if Judge(f).Err != nil {
			continue
		}
		objs, err := s.get(ctx, claimKey.at(r.Claim))
		if err != nil {
			return nil, err
		}
		known, err := s.claimOf(ctx, objs[0])
		if err != nil {
			return nil, err
		}
		if known.Rejection != nil {
			f.Reach = ReachesName
		}
		if Judge(f).Err == nil {
			last = &r
		}
	}
	return last, nil
}

// String says what was done in the words of a log.
func (r RolledBack) String() string {
	if r.Restored == "" {
		return "ROLLED_BACK_NO_PREDECESSOR"
	}
	return "ROLLED_BACK_WITH_REACTIVATION(" + string(r.Restored) + ")"
}
