package memory

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
)

// ErrSpent: what was left under this nonce was taken already, or its time is over;
// or the nonce, under which nothing was left, was used before.
var ErrSpent = errors.New("memory: spent already")

// MaxLeft is the most bytes that [Store.Leave] takes.
const MaxLeft = 1 << 20

// What an object of a hand-over holds begins, after its link, with one of these. It
// begins as left, or at once as spent, and never goes back: revisions are never reused,
// so that one nonce is spent once, whoever asks and from whichever process. It has a log:
// an object that is taken away does not make its nonce new.
const (
	leftMark  = 'L'
	spentMark = 'S'
)

// handed is an object of a hand-over.
type handed struct {
	Object
	link  link
	spent bool
	until time.Time
	left  []byte
}

func decodeHanded(o Object) (h handed, err error) {
	h.Object = o
	if o.Revision == 0 {
		return h, nil
	}
	rest, err := h.link.decode(o.Data)
	d := decoder{b: rest}
	switch mark := d.byte(); {
	case err != nil:
	case mark == leftMark:
		h.until, h.left = d.time(), d.b
	case mark == spentMark:
		h.spent = true
	default:
		d.bad = true
	}
	if d.bad {
		err = errWire
	}
	return h, faulty(err, "hand-over")
}

// terms are what something left is found by, to be dropped once its time is over.
func (h *handed) terms() []Term {
	if h.spent {
		return nil
	}
	return []Term{{termLeft, uint64(h.until.UnixMicro())}}
}

// handState is what the chain covers of the data: all of a spent one, a digest of what
// was left.
func handState(data []byte) []byte {
	if data[0] == spentMark {
		return data
	}
	digest := sha256.Sum256(data)
	return digest[:]
}

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
	overdue, err := s.overdue(ctx)
	if err != nil {
		return err
	}
	tx := s.begin(ctx, s.Now())
	for _, h := range overdue {
		tx.spend(h, "dropped: nobody took it in time")
	}
	e := encoder{b: make([]byte, 0, len(b)+9)}
	e.byte(leftMark)
	e.time(until)
	data := append(e.b, b...)
	entry := AuditEntry{Kind: EntryLeave, Revision: 1, At: tx.now, Actor: "run", Authority: AuthoritySystem, Source: "hand-over", Reason: "left", Nonce: newNonce()}
	left := handed{until: fromMicros(micros(until))}
	key := handKey.at(nonce)
	tx.log(Put{Key: key, Add: left.terms()}, link{}, data, handState(data), tx.nobody(), entry, change{})
	return tx.commit(key, 1, entry.Nonce)
}

// spend uses a nonce up, and returns the nonce of the entry that says so.
func (t *transaction) spend(h handed, why string) (nonce string) {
	nonce = newNonce()
	data := append([]byte{spentMark}, nonce...)
	p := Put{Key: h.Key, From: h.Revision}
	if h.Revision > 0 {
		p.Remove = []string{termLeft}
	}
	t.log(p, h.link, data, handState(data), t.nobody(), AuditEntry{Kind: EntrySpend, Revision: h.Revision + 1, At: t.now,
		Actor: "run", Authority: AuthoritySystem, Source: "hand-over", Reason: why, Nonce: nonce}, change{})
	return nonce
}

// overdue is a little of what nobody took, to be dropped so that it does not pile up.
func (s *Store) overdue(ctx context.Context) ([]handed, error) {
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
	var out []handed
	for _, o := range objs {
		if h, err := decodeHanded(o); err == nil && o.Revision > 0 && !h.spent { // one that cannot be read holds up nobody
			out = append(out, h)
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
	objs, err := s.get(ctx, handKey.at(nonce))
	if err != nil {
		return nil, err
	}
	h, err := decodeHanded(objs[0])
	if err != nil {
		return nil, err
	}
	if h.spent {
		return nil, ErrSpent
	}
	tx := s.begin(ctx, s.Now())
	entry := tx.spend(h, "taken")
	err = tx.commit(h.Key, h.Revision+1, entry)
	var conflict *ConflictError
	switch {
	case errors.As(err, &conflict) && conflict.Key == h.Key:
		return nil, ErrSpent
	case err != nil:
		return nil, err
	}
	if err := s.same(incarnation); err != nil {
		return nil, err
	}
	return h.left, nil
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
