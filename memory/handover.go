package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrSpent: what was left under this nonce was taken already, or its time is over;
// or the nonce, under which nothing was left, was used before.
var ErrSpent = errors.New("memory: spent already")

// MaxLeft is the most bytes that [Store.Leave] takes.
const MaxLeft = 1 << 20

// What an object of a hand-over holds begins with one of these. It begins as left,
// or at once as spent, and never goes back: revisions are never reused, so that one
// nonce is spent once, whoever asks and from whichever process.
const (
	leftMark  = 'L'
	spentMark = 'S'
)

// Identity stands for the place that rows live in: the keys of the store, its tenant
// and its namespace. It is the same in every process that opens the store, and says
// nothing to others.
func (s *Store) Identity() Token {
	sum := derive(s.keys.Root(), "identity/1", s.scope.tenant, s.scope.namespace)
	return Token(sum[:16])
}

// Leave keeps bytes for whoever holds the nonce, which must be random and new. They
// are taken once, by [Store.Spend]. Left past the time given, they may be dropped.
func (s *Store) Leave(ctx context.Context, nonce Token, until time.Time, b []byte) error {
	if len(b) > MaxLeft {
		return invalid("left", "too_long", "%d bytes, at most %d", len(b), MaxLeft)
	}
	batch := Batch{Puts: []Put{{Key: handKey.at(nonce), Data: append([]byte{leftMark}, b...), Add: []Term{{termLeft, uint64(until.UnixMicro())}}}}}
	dropped, err := s.overdue(ctx)
	if err != nil {
		return err
	}
	batch.Puts = append(batch.Puts, dropped...)
	return s.write(ctx, batch)
}

// overdue drops a little of what nobody took, so that it does not pile up.
func (s *Store) overdue(ctx context.Context) ([]Put, error) {
	const some = 4
	hits, _, err := s.query(ctx, Query{Term: termLeft, To: uint64(s.Now().Add(-time.Hour).UnixMicro()), Limit: some})
	if err != nil || len(hits) == 0 {
		return nil, err
	}
	keys := make([]string, len(hits))
	for i, h := range hits {
		keys[i] = h.Key
	}
	objs, err := s.get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	var out []Put
	for _, o := range objs {
		if len(o.Data) > 0 && o.Data[0] == leftMark {
			out = append(out, Put{Key: o.Key, From: o.Revision, Data: []byte{spentMark}, Remove: []string{termLeft}})
		}
	}
	return out, nil
}

// Spend uses a nonce up and returns what was left under it: nil if nothing was. A
// nonce is spent once in the life of the store; a second time, in any process, is
// [ErrSpent]. Any other error means that the nonce must not be relied on: it may
// have been spent.
//
// A store that lost acknowledged writes may forget that a nonce was spent. Who
// relies on a nonce binds it to the epoch ([Fitness]), which moves then.
func (s *Store) Spend(ctx context.Context, nonce Token) ([]byte, error) {
	incarnation, err := s.confirm(ctx)
	if err != nil {
		return nil, err
	}
	key := handKey.at(nonce)
	objs, err := s.get(ctx, key)
	if err != nil {
		return nil, err
	}
	o := objs[0]
	if o.Revision > 0 && (len(o.Data) == 0 || o.Data[0] != leftMark) {
		return nil, ErrSpent
	}
	put := Put{Key: key, From: o.Revision, Data: append([]byte{spentMark}, newNonce()...)}
	if o.Revision > 0 {
		put.Remove = []string{termLeft}
	}
	if err := s.write(ctx, Batch{Puts: []Put{put}}); err != nil {
		// A driver that asked twice may have lost against itself.
		again, lookErr := s.get(context.WithoutCancel(ctx), key)
		switch {
		case lookErr == nil && bytes.Equal(again[0].Data, put.Data):
		case errors.Is(err, ErrConflict):
			return nil, ErrSpent
		default:
			return nil, err
		}
	}
	if err := s.same(incarnation); err != nil {
		return nil, err
	}
	if o.Revision == 0 {
		return nil, nil
	}
	return o.Data[1:], nil
}

// PackIDs writes ids without their common prefix, 16 bytes each, in order.
func PackIDs(ids []ID) ([]byte, error) {
	out := make([]byte, 0, packedID*len(ids))
	for _, id := range ids {
		if err := id.check("id"); err != nil {
			return nil, err
		}
		out = appendID(out, id)
	}
	return out, nil
}

// UnpackIDs reads what [PackIDs] wrote.
func UnpackIDs(b []byte) ([]ID, error) {
	if len(b)%packedID != 0 {
		return nil, fmt.Errorf("%w: packed ids of %d bytes", ErrInvalid, len(b))
	}
	return unpackIDs(b), nil
}
