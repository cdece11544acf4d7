package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// Witness remembers, outside the store, what must not be lost: that trust was taken
// away, and that something was erased. To lose a promotion is safe, to lose a
// demotion is not (reliability of a replicated store: the last fail-over wins).
// memory/audit has one in a file. It must be safe for concurrent use.
type Witness interface {
	// Identity must name the witness: always the same, and never that of another one,
	// such as an empty one in its place. It is not zero.
	Identity() Token
	// Acknowledge must make the last entries of logs durable before it returns nil.
	Acknowledge(ctx context.Context, kind EntryKind, leaves []Leaf) error
	// Acknowledged must yield the newest acknowledged entry of each log.
	Acknowledged(ctx context.Context, yield func(kind EntryKind, entry Leaf) error) error
	// Behind must list the acknowledged entries that a store does not have.
	Behind(ctx context.Context, s *Store) ([]Leaf, error)
	// Settle must record that again makes good for what was lost.
	Settle(ctx context.Context, kind EntryKind, lost, again Leaf) error
}

var (
	// ErrBehind: the store lacks a demotion or an erasure that was acknowledged: a
	// fail-over went to a replica that lagged, or an older copy was restored. Nothing
	// is decided on it until [Store.Recover] has made good for what is missing.
	ErrBehind = errors.New("memory: the store lost what was acknowledged")
	// ErrUnwitnessed: the change is in the store and holds, and the witness did not
	// confirm it: a fail-over or an older copy may lose it unnoticed. It waits in the
	// store until a process that has the witness tells it.
	ErrUnwitnessed = errors.New("memory: not confirmed by the witness")
)

// unconfirmed is the incarnation, in Store.confirmed, of a store that is to be confirmed
// again though its server is the same.
const unconfirmed = math.MaxUint64

// confirm makes sure that what the driver talks to has every acknowledged demotion,
// whenever it may be another server or another copy than before; permits that were
// open then are void.
func (s *Store) confirm(ctx context.Context) (incarnation uint64, err error) {
	s.freshen()
	if err := s.Attend(ctx); err != nil {
		return 0, err
	}
	incarnation = s.driver.Incarnation()
	if s.confirmed.Load() == incarnation+1 {
		return incarnation, nil
	}
	s.confirming.Lock()
	defer s.confirming.Unlock()
	for {
		incarnation = s.driver.Incarnation()
		if s.confirmed.Load() == incarnation+1 {
			return incarnation, nil
		}
		if s.witness != nil {
			if _, err := s.TellWitness(ctx); err != nil && !errors.Is(err, ErrUnwitnessed) { // what it does not take now still waits
				return 0, err
			}
			lost, err := s.witness.Behind(ctx, s)
			if err != nil {
				return 0, fmt.Errorf("the witness: %w", err)
			}
			if len(lost) > 0 {
				return 0, fmt.Errorf("%w: %d entries, the first of %s; hearsay store recover makes good for them", ErrBehind, len(lost), KeyText(lost[0].Key))
			}
			// What was acknowledged is the floor, also of what this process has not met.
			err = s.witness.Acknowledged(ctx, func(_ EntryKind, l Leaf) error {
				s.driver.floor.keep(l.Key, l.Revision)
				return nil
			})
			if err != nil {
				return 0, fmt.Errorf("the witness: %w", err)
			}
		}
		if s.confirmed.Load() > 0 { // not the first look: something happened to the server
			if err := s.BumpEpoch(ctx, "store", "the server was restarted or failed over"); err != nil {
				return 0, err
			}
		}
		if s.driver.Incarnation() == incarnation {
			s.confirmed.Store(incarnation + 1)
		}
	}
}

// same reports an error if the driver has changed servers since a confirmation:
// what was read or written may be of the wrong one.
func (s *Store) same(incarnation uint64) error {
	if s.driver.Incarnation() != incarnation {
		return fmt.Errorf("%w: the server was restarted or failed over meanwhile", ErrStore)
	}
	return nil
}

// Recovered is what [Store.Recover] made good for.
type Recovered struct {
	Demoted int `json:"demoted"` // rows whose demotion was lost
	Erased  int `json:"erased"`  // rows and decisions whose erasure was lost
	Noted   int `json:"noted"`   // other logs
}

// Recover makes good for acknowledged demotions and erasures that the store lost:
// rows whose demotion is missing lose their verified state, whatever it was that
// they were demoted to, and are hidden until a user looks at them; what had been
// erased is erased again. Open permits are voided. Interrupted, it is run again.
// Without a witness there is nothing to recover from.
//
// A lost revocation is [ErrBehind] until one is made again. The witness knows no names,
// so that it cannot say whether it is the same: whoever recovers revokes what had been
// revoked since the copy was made, all of it, before.
func (s *Store) Recover(ctx context.Context, actor string) (Recovered, error) {
	var r Recovered
	if s.witness == nil {
		return r, invalid("witness", "required", "there is none to recover from")
	}
	// What is stored counts, not what this process met. Until the witness has looked at
	// it again nothing is decided, and what was read meanwhile may be of before.
	s.confirmed.Store(unconfirmed)
	s.driver.floor.clear()
	defer s.driver.floor.clear()
	if err := s.Attend(ctx); err != nil {
		return r, err
	}
	if _, err := s.TellWitness(ctx); err != nil {
		return r, err
	}
	lost, err := s.witness.Behind(ctx, s)
	if err != nil {
		return r, fmt.Errorf("the witness: %w", err)
	}
	kinds := map[string]EntryKind{}
	if err := s.witness.Acknowledged(ctx, func(kind EntryKind, l Leaf) error { kinds[l.Key] = kind; return nil }); err != nil {
		return r, fmt.Errorf("the witness: %w", err)
	}
	for _, l := range lost {
		again, err := retry(ctx, func() (Leaf, error) {
			tried := r
			again, err := s.recover(ctx, actor, l, kinds[l.Key], &tried)
			if err == nil {
				r = tried
			}
			return again, err
		})
		if err != nil {
			return r, err
		}
		if err := s.witness.Settle(ctx, kinds[l.Key], l, again); err != nil {
			return r, fmt.Errorf("the witness: %w", err)
		}
	}
	return r, s.BumpEpoch(ctx, actor, "the store was recovered")
}

// recover makes good for one lost entry, and returns the one that does.
func (s *Store) recover(ctx context.Context, actor string, lost Leaf, kind EntryKind, r *Recovered) (Leaf, error) {
	now := s.Now()
	tx := s.begin(ctx, now)
	nobody := tx.nobody()
	e := AuditEntry{Kind: EntryTransition, Row: rowOf(lost.Key), At: now, Actor: actor, Authority: AuthoritySystem, Source: "witness",
		Reason: "an acknowledged demotion was lost", Nonce: newNonce(), Axis: AxisTruth}
	objs, err := s.get(ctx, lost.Key)
	if err != nil {
		return Leaf{}, err
	}
	id := rowOf(lost.Key)
	switch {
	case headKey.holds(lost.Key) && objs[0].Data == nil:
		// The row itself is gone with its demotion. Nothing can be decided on it.
		return Leaf{}, fmt.Errorf("%w: row %s is gone altogether; restore a newer copy", ErrBehind, id)
	case headKey.holds(lost.Key) && kind == EntryErase:
		x := erasing{s: s, open: true, again: true}
		rows, _, err := x.look(ctx, []ID{id}, nil)
		if err != nil {
			return Leaf{}, err
		}
		for _, row := range rows {
			if err := x.eraseRow(tx, row); err != nil {
				return Leaf{}, err
			}
		}
		r.Erased++
	case headKey.holds(lost.Key):
		heads, err := decodeHeads(objs, []ID{id})
		if err != nil {
			return Leaf{}, err
		}
		evid, err := s.get(ctx, evidKey.of(id), dueKey.of(id))
		if err != nil {
			return Leaf{}, err
		}
		old, next := heads[0], Judge(Facts{Event: EventRecovered, Now: now, Row: heads[0]}).Next
		have, err := s.evidenceOf(ctx, &old, evid[0])
		if err != nil {
			return Leaf{}, err
		}
		e.From, e.To = old.Truth.String(), next.Truth.String()
		var c change
		if _, any := voidSupports(have.list); any {
			c = tx.evidence(&old, have, voidsSupports, nil)
		}
		tx.due(&old, evid[1], due{Reason: "demoted: " + e.Reason}, now)
		tx.head(old, next, nil, e, c)
		r.Demoted++
	case lost.Key == revokedKey && objs[0].Revision < lost.Revision:
		return Leaf{}, fmt.Errorf("%w: a revocation; revoke again all that was revoked since the copy was made, and then recover", ErrBehind)
	case lost.Key == revokedKey: // it was revoked again
		have, err := s.revocationsOf(objs[0])
		if err != nil {
			return Leaf{}, err
		}
		tx.revocations(EntryRevoke, have, have.list, actor, "witness", "a lost revocation was made again")
		r.Noted++
	default: // the record of an erasure, a decision that was erased
		var prev link
		rest := []byte(nil)
		if objs[0].Data != nil {
			if rest, err = prev.decode(objs[0].Data); err != nil {
				return Leaf{}, faulty(err, KeyText(lost.Key))
			}
		}
		if erasureKey.holds(lost.Key) && objs[0].Data == nil {
			rest = (&erasing{}).encode() // of nothing and complete: its rows are acknowledged one by one
		}
		e.Kind, e.Axis = EntryErase, 0
		decision := decisionKey.holds(lost.Key) || ledgerKey.holds(lost.Key)
		if decision {
			rest = nil
		}
		tx.log(Put{Key: lost.Key, From: objs[0].Revision, Clear: decision}, prev, rest, rest, nobody, e, change{})
		r.Noted++
	}
	done := tx.logged
	if err := tx.complete(); err != nil {
		return Leaf{}, err
	}
	if err := s.write(ctx, tx.Batch); err != nil {
		return Leaf{}, err
	}
	if kind == EntryErase { // the key of what the logs say may not be one that went
		for i := range done {
			if err := s.stripLog(ctx, tx.Puts[done[i].put].Key); err != nil {
				return Leaf{}, err
			}
		}
	}
	for i := range done {
		if p := tx.Puts[done[i].put]; p.Key == lost.Key {
			return Leaf{Key: p.Key, Revision: p.From + 1, MAC: done[i].mac}, nil
		}
	}
	return Leaf{}, fmt.Errorf("%w: nothing makes good for %s", ErrStore, KeyText(lost.Key))
}
