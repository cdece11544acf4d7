package memory

import (
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Class names a set of data subjects: those that a row is about, and those that
// the rows it was made from are about. All that a row says is sealed under the key
// of its class. That key is made of shares, one a subject. Each share lies in the store,
// sealed under the data key of its subject, and all of them are needed. So the destruction
// of any one subject's key makes unreadable whatever had a part in it. A subject costs
// one key in the keyring, however its rows are mixed with others'. The zero Class is none.
//
// Its number is random, and belongs to one key for ever. A fail-over may put a store back to
// before a class, and somebody else may make one of the same subjects there: that one has
// another number, and what was sealed under the lost one is refused.
// So two writers may make two classes of the same subjects, and each is as good.
type Class uint64

// String returns the class in hexadecimal.
func (c Class) String() string { return fmt.Sprintf("%016x", uint64(c)) }

// sealing is a class with its key.
type sealing struct {
	class Class
	set   uint64  // see setOf
	keys  []KeyID // ascending
	aead  cipher.AEAD
	until time.Time // when the shares are opened again
	made  []byte    // what the object of a class that is not in the store yet will hold
}

// kept is how long the key of a class is kept before its shares are opened anew: an
// erasure in another process is felt no later.
const kept = time.Second

// classObject is the object of a class. It is at revision 1 as long as the class
// is in use; erasing a subject moves it on. Whatever is sealed under a class is
// written in a transaction that checks that: nothing escapes an erasure that began
// between the reading of a row and the writing of what was made from it.
func classObject(c Class) string {
	return classKey.named(string(binary.BigEndian.AppendUint64(nil, uint64(c))))
}

// classIn is the class that the name of a class object is.
func classIn(name string) Class { return Class(binary.BigEndian.Uint64([]byte(name))) }

// endedObject exists once the data key of a subject is being destroyed. No class is
// made with it any more.
func endedObject(k KeyID) string {
	return endedKey.named(string(binary.BigEndian.AppendUint64(nil, uint64(k))))
}

func termClass(c Class) string { return "k" + string(binary.BigEndian.AppendUint64(nil, uint64(c))) }
func termKey(k KeyID) string   { return "K" + string(binary.BigEndian.AppendUint64(nil, uint64(k))) }

// classFor is the class of the subjects of some classes and some more, by canonical
// name, for what the transaction writes. If it is new the transaction puts it.
func (t *transaction) classFor(parents []Class, subjects []string) Class {
	if t.err != nil {
		return 0
	}
	c, err := t.find(parents, subjects)
	if err != nil {
		t.err = err
		return 0
	}
	t.use(c)
	return c.class
}

func (t *transaction) find(parents []Class, subjects []string) (*sealing, error) {
	s := t.store
	var above []KeyID
	for _, p := range parents {
		c, err := t.sealing(p)
		if err != nil {
			return nil, err
		}
		above = append(above, c.keys...)
	}
	c, err := t.findWith(above, subjects)
	if isErased(err) { // a subject was retired, and what it is written under now is not known here yet
		s.subjects.clear()
		c, err = t.findWith(above, subjects)
	}
	return c, err
}

func (t *transaction) findWith(above []KeyID, subjects []string) (*sealing, error) {
	s := t.store
	nobody, err := s.keyOf(t.ctx, "")
	if err != nil {
		return nil, err
	}
	keys := append([]KeyID{nobody}, above...)
	for _, name := range subjects {
		k, err := s.keyOf(t.ctx, name)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	set := s.setOf(keys)
	if c := t.made[set]; c != nil {
		return c, nil
	}
	class, ok := s.sets.get(set)
	if !ok {
		if class, err = s.classOf(t.ctx, set, keys); err != nil {
			return nil, err
		}
	}
	if class == 0 {
		return s.newClass(t.ctx, set, keys)
	}
	c, err := t.sealing(class)
	switch {
	case ok && unreadable(err): // it is of a server of before, or was damaged
		s.sets.drop(set)
		return t.findWith(above, subjects)
	case err != nil:
		s.sets.drop(set)
		return nil, err
	case !slices.Equal(c.keys, keys):
		return nil, fmt.Errorf("%w: class %s is of other subjects", ErrStore, class)
	}
	s.sets.put(set, class)
	return c, nil
}

// classOf finds a class of a set of subjects; 0 if there is none. The index only says
// where to look: a line of it that somebody added stands for nothing.
func (s *Store) classOf(ctx context.Context, set uint64, keys []KeyID) (Class, error) {
	for after := ""; ; {
		const some = 8
		hits, next, err := s.queryOf(ctx, Query{Term: termKey(keys[0]), From: set, To: set, After: after, Limit: some},
			func(key string) bool { p, rest := placeOf(key); return p == classKey && len(rest) == 8 })
		if err != nil {
			return 0, err
		}
		for _, h := range hits {
			_, rest := placeOf(h.Key)
			class := classIn(rest)
			switch c, err := s.sealing(ctx, class); {
			case err == nil && slices.Equal(c.keys, keys):
				return class, nil
			case err != nil && !unreadable(err) && !isErased(err):
				return 0, err
			}
		}
		if after = next; after == "" {
			return 0, nil
		}
	}
}

// cache keeps what can be looked up again, up to a number of things.
type cache[K comparable, V any] struct {
	mu sync.RWMutex
	m  map[K]V
}

// cacheSize bounds each cache: a class with its cipher is about a kilobyte.
const cacheSize = 1 << 13

func (s *cache[K, V]) get(k K) (v V, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, ok = s.m[k]
	return v, ok
}

func (s *cache[K, V]) put(k K, v V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil || len(s.m) >= cacheSize {
		s.m = map[K]V{}
	}
	s.m[k] = v
}

func (s *cache[K, V]) drop(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, k)
}

func (s *cache[K, V]) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m = nil
}

// keyOf is the data key of a subject. It is kept: what is written under one that was
// retired since is refused by the check of its class, and then it is forgotten.
func (s *Store) keyOf(ctx context.Context, name string) (KeyID, error) {
	if k, ok := s.subjects.get(name); ok {
		return k, nil
	}
	k, err := s.keys.Key(ctx, s.scope.subject(name))
	if err != nil {
		return 0, fmt.Errorf("the data key: %w", err)
	}
	s.subjects.put(name, k)
	return k, nil
}

// trusted is how long a writer seals under a class that it does not read again. Past it what
// it writes could be unreadable, as the object of the class was damaged meanwhile.
const trusted = time.Minute

// sealing is a class that the transaction puts, or that is in the store. The transaction checks
// that it is in use, so that it is read again once a minute and not once a second.
func (t *transaction) sealing(class Class) (*sealing, error) {
	if c := t.classes[class]; c != nil {
		return c, nil
	}
	if c, ok := t.store.classes.get(class); ok && time.Since(c.until) < trusted {
		return c, nil
	}
	return t.store.sealing(t.ctx, class)
}

// setOf names a set of subjects: the classes of it carry the terms of its keys, sorted
// by the name.
func (s *Store) setOf(keys []KeyID) uint64 {
	sum := s.scope.index.sum(func(b []byte) []byte {
		b = append(b, "class\x00"...)
		for _, k := range keys {
			b = binary.BigEndian.AppendUint64(b, uint64(k))
		}
		return b
	})
	return min(max(binary.BigEndian.Uint64(sum[:]), 1), math.MaxUint64-1) // the ends of a query's range mean all
}

// newClass makes a class with a key of its own, from a new share for each of its subjects.
func (s *Store) newClass(ctx context.Context, set uint64, keys []KeyID) (*sealing, error) {
	var number [8]byte
	rand.Read(number[:])                                       // never fails (crypto/rand)
	class := Class(max(binary.BigEndian.Uint64(number[:]), 1)) // 0 is no class
	c := &sealing{class: class, set: set, keys: keys}
	shares := make([]byte, len(keys)*shareSize)
	rand.Read(shares)
	e := encoder{}
	e.num(uint64(len(keys)))
	for i, k := range keys {
		sealed, err := s.keys.Seal(ctx, k, shares[i*shareSize:][:shareSize], s.scope.associated(classObject(class), uint64(k)))
		if err != nil {
			return nil, fmt.Errorf("the data key: %w", err)
		}
		e.b = binary.BigEndian.AppendUint64(e.b, uint64(k))
		e.str(string(sealed))
	}
	c.made = e.b
	return c, c.arm(shares)
}

// shareSize is the size of a share in bytes. Whoever lacks one has to guess as many bits as
// the key of the class has.
const shareSize = 32

// arm makes the key of the class of the shares, in the order of their keys.
func (c *sealing) arm(shares []byte) error {
	key, err := hkdf.Key(sha256.New, shares, nil, "hearsay memory: class "+c.class.String(), 32)
	if err != nil {
		return err
	}
	c.aead = cipherOf([32]byte(key))
	return nil
}

var errNoClass = fmt.Errorf("%w: a class is missing", ErrDamaged)

// sealing returns a class that is in the store, with its key.
func (s *Store) sealing(ctx context.Context, class Class) (*sealing, error) {
	now := time.Now()
	if c, ok := s.classes.get(class); ok && now.Before(c.until) {
		return c, nil
	}
	eraser, _ := ctx.Value(eraserKey{}).(*erasing)
	if eraser != nil {
		if c, ok := eraser.opened.get(class); ok {
			return c, nil
		}
	}
	objs, err := s.get(ctx, classObject(class))
	if err != nil {
		return nil, err
	}
	return s.joined(ctx, class, objs[0], eraser, now)
}

// openAll reads the classes that objects are sealed under, in one trip for those that are not
// kept. What cannot be opened is said where it is opened.
func (s *Store) openAll(ctx context.Context, objs []Object) {
	if ctx.Value(eraserKey{}) != nil {
		return
	}
	now, seen := time.Now(), map[Class]bool{}
	var classes []Class
	var keys []string
	for _, o := range objs {
		if len(o.Data) < 8 {
			continue
		}
		class := Class(binary.BigEndian.Uint64(o.Data))
		if c, ok := s.classes.get(class); ok && now.Before(c.until) || seen[class] {
			continue
		}
		seen[class] = true
		classes, keys = append(classes, class), append(keys, classObject(class))
	}
	if len(keys) < 2 {
		return
	}
	found, err := s.get(ctx, keys...)
	if err != nil {
		return
	}
	for i := range found {
		_, err := s.joined(ctx, classes[i], found[i], nil, now)
		if err != nil && !isErased(err) && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrKey) {
			return // nobody gives keys now, and the first object that is opened says so
		}
	}
}

// joined is the class of an object, with the key that its shares make.
func (s *Store) joined(ctx context.Context, class Class, o Object, eraser *erasing, now time.Time) (*sealing, error) {
	ending := o.Revision > 1 && eraser != nil && eraser.classes[class]
	switch {
	case o.Revision == 0:
		return nil, errNoClass
	case o.Revision > 1 && !ending:
		s.classes.drop(class)
		return nil, fmt.Errorf("%w: a subject of class %s", ErrErased, class)
	}
	c, sealed, err := decodeClass(class, o.Data)
	if err != nil {
		s.classes.drop(class)
		return nil, err
	}
	shares := make([]byte, 0, len(sealed)*shareSize)
	for i, k := range c.keys {
		share, err := s.keys.Open(ctx, k, sealed[i], s.scope.associated(o.Key, uint64(k)))
		if err != nil {
			s.classes.drop(class)
			return nil, fmt.Errorf("the data key of class %s: %w", class, err)
		}
		shares = append(shares, share...)
	}
	if err := c.arm(shares); err != nil {
		return nil, err
	}
	if ending {
		eraser.opened.put(class, c)
		return c, nil
	}
	c.until = now.Add(kept)
	s.classes.put(class, c)
	return c, nil
}

// decodeClass is a class without its key, and the sealed shares of that.
func decodeClass(class Class, b []byte) (c *sealing, sealed [][]byte, err error) {
	d := decoder{b: b}
	n := d.num()
	if n == 0 || n > uint64(len(d.b))/8 {
		return nil, nil, faulty(errWire, "a class")
	}
	c, sealed = &sealing{class: class, keys: make([]KeyID, n)}, make([][]byte, n)
	for i := range c.keys {
		c.keys[i] = KeyID(d.fixed())
		sealed[i] = d.take(d.num())
		if i > 0 && c.keys[i] <= c.keys[i-1] {
			return nil, nil, faulty(errWire, "a class")
		}
	}
	if err := d.end(); err != nil {
		return nil, nil, faulty(err, "a class")
	}
	return c, sealed, nil
}

func (c *sealing) seal(plain, associated []byte) []byte {
	return c.aead.Seal(nil, nil, plain, associated)
}

func (c *sealing) open(sealed, associated []byte) ([]byte, error) {
	plain, err := c.aead.Open(nil, nil, sealed, associated)
	if err != nil {
		return nil, fmt.Errorf("%w: it is not of class %s, or was changed", ErrKey, c.class)
	}
	return plain, nil
}

// use has the transaction write under a class: it checks that the class is in use, and
// puts it if it is new.
func (t *transaction) use(c *sealing) {
	if t.classes[c.class] != nil {
		return
	}
	if t.classes == nil {
		t.classes = map[Class]*sealing{}
	}
	t.classes[c.class] = c
	if c.made == nil {
		t.check(classObject(c.class), 1)
		return
	}
	if t.made == nil {
		t.made = map[uint64]*sealing{}
	}
	t.made[c.set] = c
	p := Put{Key: classObject(c.class), Data: c.made}
	for _, k := range c.keys {
		t.check(endedObject(k), 0)
		p.Add = append(p.Add, Term{termKey(k), c.set})
	}
	t.put(p)
}

// under is a class that the transaction writes under.
func (t *transaction) under(class Class) *sealing {
	c := t.classes[class]
	if c == nil && t.err == nil {
		if c, t.err = t.sealing(class); t.err == nil {
			t.use(c)
		}
	}
	return c
}

// settled remembers the classes, claims, lines, names and fences that a transaction put, once it was
// applied; forget drops what is known of what it conflicted on.
func (t *transaction) settled() {
	for i := range t.Puts {
		if p := &t.Puts[i]; claimKey.holds(p.Key) || lineKey.holds(p.Key) || alikeKey.holds(p.Key) || fenceKey.holds(p.Key) {
			t.store.remember(Object{Key: p.Key, Revision: p.From + 1, Data: p.Data})
		}
	}
	for class, c := range t.classes {
		if c.made != nil {
			known := *c
			known.made, known.until = nil, time.Now().Add(kept)
			t.store.classes.put(class, &known)
			t.store.sets.put(c.set, class)
		}
	}
}

// remember keeps how a line, its names and a fence are, and that a claim was made.
func (s *Store) remember(o Object) {
	key := o.Key
	if claimKey.holds(key) {
		o = Object{}
	}
	s.moved.put(key, o)
}

func (s *Store) forget(key string) {
	switch p, rest := placeOf(key); {
	case p == classKey && len(rest) == 8:
		s.classes.drop(classIn(rest))
		s.sets.clear()
	case p == endedKey:
		s.subjects.clear()
	case p == lineKey, p == alikeKey, p == fenceKey:
		s.moved.drop(key)
	case key == revokedKey:
		s.revoked.Store(nil)
	case p == ledgerKey:
		s.ledgers.forget(key)
	}
}

// nobody is the class of what is about no person.
func (t *transaction) nobody() Class { return t.classFor(nil, nil) }
