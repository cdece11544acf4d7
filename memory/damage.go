package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// MaxDamaged is how many damaged rows a store remembers one by one.
const MaxDamaged = 10_000

// MarkDamaged records that a verification found rows that are not what was written. Once
// it returns they are read as damaged by every process, and no call fires on one of them:
// it is one record, read with the rows, as revocations are. Rows that are recorded
// already are left out; nothing is written if none is left. Beyond [MaxDamaged] it gives
// [ErrTooLarge].
func (s *Store) MarkDamaged(ctx context.Context, actor, reason string, rows ...ID) error {
	return s.damaged(ctx, EntryDamage, actor, reason, func(have []ID, _ uint64) ([]ID, error) {
		list := slices.Clone(have)
		for _, id := range rows {
			if err := id.check("rows"); err != nil {
				return nil, err
			}
			if !slices.Contains(list, id) {
				list = append(list, id)
			}
		}
		if len(list) > MaxDamaged {
			return nil, fmt.Errorf("%w: %d damaged rows, at most %d", ErrTooLarge, len(list), MaxDamaged)
		}
		return list, nil
	})
}

// ClearDamaged records that a person looked into a damaged row: it is read as it is
// stored again. [ErrNotFound] if it is not recorded as damaged. revision is what
// [Store.DamagedRows] gave; [ErrConflict] if something was recorded since.
//
// Whoever calls it vouches that by may say so, and that the row was verified since: package
// gate/confirm does for a person's signed word.
func (s *Store) ClearDamaged(ctx context.Context, row ID, by, reason string, revision uint64) error {
	if by == "" || reason == "" {
		return invalid("reason", "required", "whoever clears a damaged row says who and why")
	}
	return s.damaged(ctx, EntryCleared, by, reason, func(have []ID, is uint64) ([]ID, error) {
		if is != revision {
			return nil, &ConflictError{Key: revokedKey}
		}
		at := slices.Index(have, row)
		if at < 0 {
			return nil, fmt.Errorf("%w: %s is not recorded as damaged", ErrNotFound, row)
		}
		return slices.Delete(slices.Clone(have), at, at+1), nil
	})
}

// DamagedRows lists the rows that are recorded as damaged, in the order in which they
// were found, and the revision of the record, which revocations share.
func (s *Store) DamagedRows(ctx context.Context) ([]ID, uint64, error) {
	objs, err := s.get(ctx, revokedKey)
	if err != nil {
		return nil, 0, err
	}
	r, err := s.revocationsOf(objs[0])
	if err != nil {
		return nil, 0, err
	}
	return slices.Clone(r.damaged), r.Revision, nil
}

// damaged changes the list, in one transaction that voids every permit decided before.
func (s *Store) damaged(ctx context.Context, kind EntryKind, actor, reason string, change func(have []ID, revision uint64) ([]ID, error)) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	for range conflictRetries {
		objs, err := s.get(ctx, append([]string{revokedKey, epochKey}, fenceKeys[:]...)...)
		if err != nil {
			return err
		}
		have, err := s.revocationsOf(objs[0])
		if err != nil {
			return err
		}
		list, err := change(have.damaged, have.Revision)
		if err != nil || len(list) == len(have.damaged) {
			return err
		}
		next := *have
		next.damaged = list
		tx := s.begin(ctx, s.Now())
		nonce := tx.revocations(kind, &next, have.list, actor, "verification", reason)
		if err := tx.void(objs[1], objs[2:], actor, reason); err != nil {
			return err
		}
		if err := tx.commit(revokedKey, have.Revision+1, nonce); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return &ConflictError{Key: revokedKey}
}

// void bumps the epoch and moves all fences: whoever kept what it read looks again.
func (t *transaction) void(epoch Object, fences []Object, actor, reason string) error {
	var prev link
	if epoch.Data != nil {
		if _, err := prev.decode(epoch.Data); err != nil {
			return faulty(err, "epoch")
		}
	}
	t.log(Put{Key: epochKey, From: epoch.Revision}, prev, nil, nil, t.nobody(), AuditEntry{Kind: EntryEpoch, Revision: epoch.Revision + 1, At: t.now,
		Actor: actor, Authority: AuthoritySystem, Source: "verification", Reason: reason, Nonce: newNonce()}, change{})
	for _, o := range fences {
		t.put(Put{Key: o.Key, From: o.Revision, Data: fenceData})
	}
	return nil
}

// deny reads the rows that are recorded as damaged as rows of which nothing is known.
func (r *revocations) deny(heads []Head) {
	if len(r.damaged) == 0 {
		return
	}
	for i := range heads {
		if slices.Contains(r.damaged, heads[i].ID) {
			heads[i] = Head{ID: heads[i].ID, Flags: FlagDamaged}
		}
	}
}
