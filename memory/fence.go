package memory

import (
	"math/bits"
	"strconv"
	"time"
)

// A permit on a thousand rows need not look at a thousand heads if nothing was taken
// from any row since they were looked at. That is what the demotion fence is for: an
// object that is moved in the same transaction as any write that may leave a row less fit
// than it was (I-7). A promotion leaves it alone, and so does what is no input of
// fitness. Rows share a few fences, by their ids: all would stand in line at one, and
// one each would be their heads again.

// fences is how many there are. A decision on many rows looks at all of them, two
// demotions at once meet at one of them.
const fences = 8

// Fence is where the demotion fence of a store stood at a moment. The zero Fence is
// of no moment: nothing can be recorded on it. Two are equal if nothing was taken from
// any row between their moments, and the store was not restarted.
type Fence struct {
	revision    [fences]uint64
	incarnation uint64 // of the driver, plus 1
}

// fenceOf is the number of the fence of a row: by a character of its id that is random.
func fenceOf(id ID) uint {
	const from = 2 // the last one has bits that say nothing
	if len(id) < from {
		return 0
	}
	return uint(id[len(id)-from]) % fences
}

// fenceKeys are the keys of all fences.
var fenceKeys = func() (keys [fences]string) {
	for n := range keys {
		keys[n] = fenceKey.named(strconv.Itoa(n))
	}
	return keys
}()

// FenceKey is the key of the object that a write which takes from a row moves; see
// [HeadKey].
func FenceKey(row ID) string { return fenceKeys[fenceOf(row)] }

// fence has the transaction move the fences of the rows that it takes from.
func (t *transaction) fence() error {
	var moved uint
	for i := range t.logged {
		l := &t.logged[i]
		if p := &t.Puts[l.put]; headKey.holds(p.Key) && p.From > 0 && !l.takesNothing {
			moved |= 1 << fenceOf(rowOf(p.Key))
		}
	}
	if moved == 0 {
		return nil
	}
	var unknown []string
	for rest := moved; rest != 0; rest &= rest - 1 {
		key := fenceKeys[bits.TrailingZeros(rest)]
		// Where this store left it. If another one moved it since, the transaction conflicts,
		// and whoever retries it looks.
		if o, ok := t.store.moved.get(key); ok {
			t.put(Put{Key: key, From: o.Revision, Data: fenceData})
		} else {
			unknown = append(unknown, key)
		}
	}
	objs, err := t.store.get(t.ctx, unknown...)
	for _, o := range objs {
		t.put(Put{Key: o.Key, From: o.Revision, Data: fenceData})
	}
	return err
}

var fenceData = []byte{1}

// since has the transaction ask that nothing was taken from rows since a fence was looked at.
// What this store moved itself since then it knows without asking.
func (t *transaction) since(f *Fence, rows []Cited) error {
	var of uint
	for i := range rows {
		of |= 1 << fenceOf(rows[i].Row)
	}
	for rest := of; rest != 0; rest &= rest - 1 {
		n := bits.TrailingZeros(rest)
		if o, ok := t.store.moved.get(fenceKeys[n]); ok && o.Revision > f.revision[n] {
			return &ConflictError{Key: fenceKeys[n]}
		}
		t.check(fenceKeys[n], f.revision[n])
	}
	return nil
}

// TakesFrom reports whether the head may be less fit than an older one of its row, for
// whatever call. If it does not, whatever was permitted on the older one may be
// permitted on this one, as long as the limits of time of the older one are kept.
// A write for which it holds moves the demotion fence.
func (h *Head) TakesFrom(old *Head) bool {
	switch {
	case h.Truth != old.Truth && h.Truth != TruthSupported, h.Rank < old.Rank,
		h.Retrieval != old.Retrieval && h.Retrieval != RetrievalNormal,
		h.Security != old.Security && h.Security != SecurityClean,
		h.Freshness != old.Freshness && h.Freshness != FreshnessFresh,
		h.Outage != old.Outage && h.Outage == OutageRecorded,
		h.Sensitivity > old.Sensitivity, h.Sensitivity == 0,
		h.Flags&^old.Flags != 0, h.Speaker != old.Speaker && h.Speaker != Token{}:
		return true
	case h.Origin != old.Origin, h.Criticality != old.Criticality, h.Kind != old.Kind, h.Layer != old.Layer, h.Depth != old.Depth:
		return true // they do not move; if they did, nobody would know what for
	}
	return h.VerifiedAt.Before(old.VerifiedAt) || sooner(h.StaleAt, old.StaleAt) || sooner(h.ExpiresAt, old.ExpiresAt) || sooner(h.ValidUntil, old.ValidUntil) ||
		h.ValidFrom.After(old.ValidFrom)
}

// sooner reports whether a limit ends before another one; zero is none.
func sooner(limit, than time.Time) bool {
	return !limit.IsZero() && (than.IsZero() || limit.Before(than))
}

// WithoutLineage is the head without the ancestors that it carries, for whoever keeps
// it for its fitness. [Head.Ancestors] then says that they are not at hand.
func (h Head) WithoutLineage() Head {
	h.mark = h.read()
	h.ancestors, h.moving = nil, nil
	h.Flags |= FlagTraced
	return h
}
