package memory

import (
	"context"
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// Whoever can write a store's files, and holds no key, must not decide anything by it.
// So every object bears a MAC: over its tenant, namespace, key, revision, form and
// bytes, tombstones included. It is made where an object is written and held against
// the object where it is read, below every rule; see [I-14] in docs/sources.md.
//
// What a MAC cannot show is that an authentic object is an older one, or that one is
// gone. Against the first a process remembers the revisions that it met; against the
// second, what must exist is made with the store. docs/threats.md says what is left.

// An object ends with its form, the id of the audit key, and the MAC.
const (
	objectForm  = 2
	formGone    = objectForm | 0x80 // of a tombstone
	objectMAC   = 16                // bytes of the HMAC that are kept
	objectSeals = 1 + 4 + objectMAC
)

// DamagedError names objects that are not as they were written, or cannot be read.
// errors.Is(err, ErrDamaged) holds.
type DamagedError struct{ Keys []string }

func (e *DamagedError) Error() string {
	if len(e.Keys) == 1 {
		return ErrDamaged.Error() + ": " + KeyText(e.Keys[0]) + " is not what was written"
	}
	return fmt.Sprintf("%v: %d objects are not what was written, the first %s", ErrDamaged, len(e.Keys), KeyText(e.Keys[0]))
}

// Is reports whether target is [ErrDamaged] or [ErrStore].
func (e *DamagedError) Is(target error) bool { return errors.Is(ErrDamaged, target) }

// authentic is a driver as the store uses it: what it writes bears a MAC, and what it
// reads is held against it.
type authentic struct {
	Driver
	keys  Keys
	scope *scope
	macs  objectMACs
	floor floor
}

// objectMACs has the MAC of objects under each audit key, made once.
type objectMACs struct {
	last  atomic.Pointer[chain]
	known sync.Map
}

func (m *objectMACs) of(k Keys, s *scope, id uint32) (*chain, bool) {
	if last := m.last.Load(); last != nil && last.id == id {
		return last, true
	}
	found, ok := m.known.Load(id)
	if !ok {
		key, ok := k.AuditKey(id)
		if !ok {
			return nil, false
		}
		found, _ = m.known.LoadOrStore(id, &chain{id, newKeyed(derive(key, "object/1", s.tenant, s.namespace))})
	}
	m.last.Store(found.(*chain))
	return found.(*chain), true
}

// object is the MAC of an object at a revision.
func (c *chain) object(key string, revision uint64, form byte, data []byte) (mac [objectMAC]byte) {
	sum := c.keyed.sum(func(b []byte) []byte {
		b = binary.BigEndian.AppendUint64(b, revision)
		b = append(b, form)
		b = binary.BigEndian.AppendUint32(b, c.id)
		b = binary.BigEndian.AppendUint64(b, uint64(len(key)))
		b = append(b, key...)
		return append(b, data...)
	})
	copy(mac[:], sum[:])
	return mac
}

// current is the MAC under the present audit key.
func (d *authentic) current() (*chain, error) {
	id, _ := d.keys.Audit()
	c, ok := d.macs.of(d.keys, d.scope, id)
	if !ok {
		return nil, fmt.Errorf("%w: no audit key %d", ErrKey, id)
	}
	return c, nil
}

// sealed is what is stored of an object: its data, which is nil of a tombstone, and
// its MAC.
func (c *chain) sealed(key string, revision uint64, data []byte) []byte {
	form := byte(objectForm)
	if data == nil {
		form = formGone
	}
	mac := c.object(key, revision, form, data)
	out := append(make([]byte, 0, len(data)+objectSeals), data...)
	out = binary.BigEndian.AppendUint32(append(out, form), c.id)
	return append(out, mac[:]...)
}

// unsealed takes the MAC from an object that was read. ok is false if it does not hold.
func (d *authentic) unsealed(o *Object) (ok bool) {
	if o.Revision == 0 {
		return o.Data == nil
	}
	n := len(o.Data) - objectSeals
	if n < 0 {
		return false
	}
	data, form := o.Data[:n:n], o.Data[n]
	if form != objectForm && (form != formGone || n > 0) {
		return false
	}
	c, ok := d.macs.of(d.keys, d.scope, binary.BigEndian.Uint32(o.Data[n+1:]))
	if !ok {
		return false
	}
	mac := c.object(o.Key, o.Revision, form, data)
	if !hmac.Equal(mac[:], o.Data[n+5:]) {
		return false
	}
	if o.Data = data; form == formGone {
		o.Data = nil
	}
	return true
}

func (d *authentic) Apply(ctx context.Context, tenant string, b Batch) error {
	c, err := d.current()
	if err != nil {
		return err
	}
	signed := Batch{Checks: b.Checks, Puts: slices.Clone(b.Puts)}
	for i := range signed.Puts {
		p := &signed.Puts[i]
		p.Data = c.sealed(p.Key, p.From+1, p.Data)
	}
	if err := d.Driver.Apply(ctx, tenant, signed); err != nil {
		return err
	}
	for i := range signed.Puts {
		d.floor.raise(signed.Puts[i].Key, signed.Puts[i].From+1)
	}
	return nil
}

// Get gives [*DamagedError] if one of the objects is damaged, and [ErrBehind] if one is
// older than it was when this process met it last.
func (d *authentic) Get(ctx context.Context, tenant string, keys []string) ([]Object, error) {
	objs, damaged, err := d.each(ctx, tenant, keys)
	if err != nil || len(damaged) == 0 {
		return objs, err
	}
	e := &DamagedError{}
	for _, i := range damaged {
		e.Keys = append(e.Keys, objs[i].Key)
	}
	return nil, e
}

// each is Get for who can do without some of the objects: damaged are the indices of
// those that are not what was written. Nothing of them is to be believed but the key, and the
// revision only as what the next write has to name.
func (d *authentic) each(ctx context.Context, tenant string, keys []string) (objs []Object, damaged []int, err error) {
	// What was met before the read is not undone by it; what is met meanwhile may be newer.
	var few [64]uint64
	met := d.floor.of(keys, few[:0])
	objs, damaged, err = d.asStored(ctx, tenant, keys)
	for i := range objs {
		switch o := &objs[i]; {
		case o.Revision < met[i]:
			return nil, nil, fmt.Errorf("%w: %s is at revision %d, and was at %d", ErrBehind, KeyText(o.Key), o.Revision, met[i])
		case o.Revision > met[i] && !slices.Contains(damaged, i):
			d.floor.raise(o.Key, o.Revision)
		}
	}
	return objs, damaged, err
}

// asStored is each for who looks for what was put back: it holds nothing against what
// this process met before.
func (d *authentic) asStored(ctx context.Context, tenant string, keys []string) (objs []Object, damaged []int, err error) {
	objs, err = d.Driver.Get(ctx, tenant, keys)
	if err != nil {
		return nil, nil, err
	}
	for i := range objs {
		if !d.unsealed(&objs[i]) {
			objs[i].Data, damaged = nil, append(damaged, i)
		}
	}
	return objs, damaged, nil
}

// Restore signs what it sets. Its objects are the floor from then on, whatever was met.
func (d *authentic) Restore(ctx context.Context, tenant string, objects []Restored) error {
	c, err := d.current()
	if err != nil {
		return err
	}
	signed := slices.Clone(objects)
	for i := range signed {
		if o := &signed[i]; o.Revision > 0 {
			o.Data = c.sealed(o.Key, o.Revision, o.Data)
		}
	}
	d.floor.clear()
	defer d.floor.clear() // what was met meanwhile may be of before
	return d.Driver.Restore(ctx, tenant, signed)
}

// Objects lists an object whose MAC does not hold with [ErrDamaged], as one that
// cannot be read.
func (d *authentic) Objects(ctx context.Context, tenant, prefix string) iter.Seq2[Restored, error] {
	return func(yield func(Restored, error) bool) {
		for o, err := range d.Driver.Objects(ctx, tenant, prefix) {
			if err == nil && !d.unsealed(&o.Object) {
				o.Data, err = nil, &DamagedError{Keys: []string{o.Key}}
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// floor remembers the revisions at which this process met what decides, and those that a
// witness vouches for. An object below its floor was put back.
type floor struct {
	mu   sync.RWMutex
	m    map[string]uint64
	kept map[string]uint64 // of a witness; as many as it has
}

// floorSize is how many objects are remembered. Past it all are forgotten, but for
// those of the whole store.
const floorSize = 1 << 16

// decides reports whether somebody would gain by putting an older object back. A due mark
// only orders work.
func decides(key string) bool {
	switch p, _ := placeOf(key); p {
	case headKey, claimKey, lineKey, callKey, holdKey, decisionKey, fenceKey, systemKey, handKey, identKey, classKey, endedKey, ownKey, alikeKey:
		return key != probeKey
	}
	return false
}

func (f *floor) of(keys []string, into []uint64) []uint64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, k := range keys {
		met := f.m[k]
		if len(f.kept) > 0 {
			met = max(met, f.kept[k])
		}
		into = append(into, met)
	}
	return into
}

// keep raises the floor of what a witness vouches for.
func (f *floor) keep(key string, revision uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept == nil {
		f.kept = map[string]uint64{}
	}
	f.kept[key] = max(f.kept[key], revision)
}

func (f *floor) raise(key string, revision uint64) {
	if !decides(key) {
		return
	}
	f.mu.RLock()
	have := f.m[key]
	f.mu.RUnlock()
	if have >= revision {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.m == nil:
		f.m = map[string]uint64{}
	case len(f.m) >= floorSize:
		kept := map[string]uint64{}
		for k, v := range f.m {
			if systemKey.holds(k) || fenceKey.holds(k) {
				kept[k] = v
			}
		}
		f.m = kept
	}
	f.m[key] = max(f.m[key], revision)
}

func (f *floor) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.m, f.kept = nil, nil
}
