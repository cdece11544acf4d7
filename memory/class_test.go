package memory_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// failing is a driver whose server fails over to a replica in the middle of a batch:
// the store has seen the old server until it sends the batch, and the new one gets it.
type failing struct {
	memory.Driver
	replica     memory.Driver // not nil: the next batch goes there, and all that follows
	incarnation uint64
}

func (d *failing) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	if d.replica != nil {
		d.Driver, d.replica = d.replica, nil
		d.incarnation++
	}
	return d.Driver.Apply(ctx, tenant, b)
}

func (d *failing) Incarnation() uint64 { return d.incarnation }

// diverged are a server and a replica of it, from the moment at which the store was made.
func diverged(t *testing.T, keys memory.Keys) (*failing, memory.Driver) {
	t.Helper()
	d, replica := storetest.NewMap(), storetest.NewMap()
	s, err := memory.New(d, keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Fitness(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for o, err := range d.Objects(t.Context(), "default", "") {
		if err != nil {
			t.Fatal(err)
		}
		log, err := d.History(t.Context(), "default", o.Key, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		p := memory.Put{Key: o.Key, Data: o.Data, Add: o.Terms}
		if len(log) == 1 && o.Revision == 1 {
			p.Entry = log[0].Data
		} else if len(log) > 0 {
			t.Fatalf("%s has %d entries", memory.KeyText(o.Key), len(log))
		}
		if err := replica.Apply(t.Context(), "default", memory.Batch{Puts: []memory.Put{p}}); err != nil {
			t.Fatal(err)
		}
	}
	return &failing{Driver: d}, replica
}

// TestNothingIsSealedUnderAClassThatAFailOverLost: a replica that lagged has no class
// of a subject, another process has made one there, and a writer that still knows the
// lost one writes about the subject.
func TestNothingIsSealedUnderAClassThatAFailOverLost(t *testing.T) {
	keys := keyring.Ephemeral()
	on := func(d memory.Driver) *memory.Store {
		t.Helper()
		s, err := memory.New(d, keys, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	put := func(s *memory.Store, object string) memory.ID {
		t.Helper()
		r, err := s.Put(t.Context(), modelDraft(says("ana", "likes", object)))
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	d, replica := diverged(t, keys)
	writer := on(d)
	put(writer, "tea")
	put(on(replica), "milk")
	d.replica = replica
	ids := []memory.ID{put(writer, "coffee"), put(writer, "water")}
	if d.incarnation != 1 {
		t.Fatal("nothing failed over")
	}
	reader := on(replica)
	for _, id := range ids {
		rows, err := reader.Get(t.Context(), id)
		if err != nil || rows[0].Content.Subject != "ana" {
			t.Errorf("%s is in the store and cannot be read: %v", id, err)
		}
	}
	if _, err := reader.Verify(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}
	// Whichever class a row is of, an erasure finds it.
	done, err := reader.Erase(t.Context(), memory.Erasure{Subject: "ana", Actor: "ops", Request: "1"})
	if err != nil || done.Rows != 3 {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestNoRivalHidesBehindAMarkThatAFailOverLost: a writer remembers that nobody calls the
// predicate of a line functional. On the replica that takes over somebody did, at the
// same revision of the line.
func TestNoRivalHidesBehindAMarkThatAFailOverLost(t *testing.T) {
	for _, noticed := range []bool{false, true} {
		keys := keyring.Ephemeral()
		on := func(d memory.Driver) *memory.Store {
			t.Helper()
			s, err := memory.New(d, keys, nil)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		put := func(s *memory.Store, object, tool string, cardinality memory.Cardinality) memory.ID {
			t.Helper()
			c := says("ana", "city", object)
			c.Cardinality = cardinality
			r, err := s.Put(t.Context(), toolDraft(c, tool))
			if err != nil {
				t.Fatal(err)
			}
			return r.ID
		}
		d, replica := diverged(t, keys)
		writer := on(d)
		put(writer, "Oslo", "crm", memory.CardinalityUnknown)
		put(writer, "Bergen", "erp", memory.CardinalityUnknown)
		other := on(replica)
		put(other, "Oslo", "dms", memory.CardinalityUnknown)
		rival := put(other, "Rome", "hr", memory.CardinalityFunctional)
		if d.replica = replica; noticed {
			d.Driver, d.replica, d.incarnation = replica, nil, 1
		}
		id := put(writer, "Paris", "pim", memory.CardinalityUnknown)
		if d.incarnation != 1 {
			t.Fatal("nothing failed over")
		}
		heads, err := other.Fitness(t.Context(), []memory.ID{rival, id})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range heads.Heads {
			if !h.Has(memory.FlagContested) {
				t.Errorf("noticed before: %t: two values of a functional predicate stand verified, and %s is not contested", noticed, h.ID)
			}
		}
	}
}

// cutting is a driver that returns one object cut short.
type cutting struct {
	memory.Driver
	id   memory.ID
	kept map[string]bool
	cut  string
}

func (c *cutting) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	objs, err := c.Driver.Get(ctx, tenant, keys)
	for i := range objs {
		if c.id != "" && strings.Contains(memory.KeyText(objs[i].Key), string(c.id)) && objs[i].Data != nil {
			c.kept[objs[i].Key] = true
			if objs[i].Key == c.cut {
				objs[i].Data = objs[i].Data[:3]
			}
		}
	}
	return objs, err
}

// What cannot be read is told from a store that does not answer.
func TestADamagedRowIsToldFromAStoreThatFails(t *testing.T) {
	d := &cutting{Driver: storetest.NewMap(), kept: map[string]bool{}}
	s, err := memory.New(d, keyring.Ephemeral(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Put(t.Context(), toolDraft(says("ana", "city", "Oslo"), "crm"))
	if err != nil {
		t.Fatal(err)
	}
	d.id = r.ID
	if _, err := s.Get(t.Context(), r.ID); err != nil || len(d.kept) != 3 {
		t.Fatalf("%v, %d objects", err, len(d.kept))
	}
	for key := range d.kept {
		d.cut = key
		if _, err := s.Get(t.Context(), r.ID); !errors.Is(err, memory.ErrDamaged) || !errors.Is(err, memory.ErrStore) {
			t.Errorf("%s: %v", memory.KeyText(key), err)
		}
	}
	d.cut = ""
	if _, err := s.Get(t.Context(), "mem_zzzzzzzzzzzzzzzzzzzzzzzzzz"); errors.Is(err, memory.ErrDamaged) {
		t.Error(err)
	}
}

// A due mark that cannot be read hides no other, and is written anew.
func TestADamagedDueMarkIsListed(t *testing.T) {
	for _, parked := range []bool{false, true} {
		d := &cutting{Driver: storetest.NewMap(), kept: map[string]bool{}}
		s, err := memory.New(d, keyring.Ephemeral(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var ids []memory.ID
		at := s.Now().Add(-time.Minute)
		for i := range 3 {
			r, err := s.Put(t.Context(), modelDraft(says("ana", "likes", fmt.Sprint("thing", i))))
			if err != nil {
				t.Fatal(err)
			}
			if parked {
				err = s.Park(t.Context(), memory.Due{ID: r.ID, Tries: 4}, memory.ParkedUncovered, "why")
			} else {
				err = s.Reschedule(t.Context(), r.ID, at, 4, "why")
			}
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		list := func() (rows []memory.Due) {
			t.Helper()
			if parked {
				return listed(t, s.ParkedRows(t.Context()))
			}
			return listed(t, s.DueRows(t.Context(), s.Now()))
		}
		d.id = ids[1]
		list()
		for key := range d.kept {
			if memory.KeyText(key) == "due/"+string(ids[1]) {
				d.cut = key
			}
		}
		rows := list()
		if len(rows) != 3 || d.cut == "" {
			t.Fatalf("parked %t: %+v", parked, rows)
		}
		for _, r := range rows {
			if r.At.IsZero() != parked || !parked && !r.At.Equal(rows[0].At) || (r.Reason == "why" && r.Tries == 4) == (r.ID == ids[1]) {
				t.Errorf("parked %t: %+v", parked, r)
			}
		}
		if _, _, err := s.DueMark(t.Context(), ids[1]); !errors.Is(err, memory.ErrDamaged) {
			t.Errorf("the mark itself: %v", err)
		}
		if err := s.Reschedule(t.Context(), ids[1], at, 1, "anew"); err != nil {
			t.Fatal(err)
		}
		d.cut = ""
		if m, ok, err := s.DueMark(t.Context(), ids[1]); err != nil || !ok || m.Reason != "anew" || m.Tries != 1 {
			t.Errorf("parked %t: %+v, %v", parked, m, err)
		}
	}
}

// Two writers that make a class of one subject at once make two, or one of them begins
// again: what either wrote is read, found and erased.
func TestTwoClassesOfOneSubject(t *testing.T) {
	keys, d := keyring.Ephemeral(), storetest.NewMap()
	var ids []memory.ID
	for _, object := range []string{"tea", "milk"} {
		s, err := memory.New(hiding{d}, keys, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Put(t.Context(), modelDraft(says("ana", "likes", object)))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	s, err := memory.New(d, keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Fitness(t.Context(), ids)
	if err != nil || f.Heads[0].Class == f.Heads[1].Class {
		t.Fatalf("%+v, %v", f.Heads, err)
	}
	rows, err := s.Get(t.Context(), ids...)
	if err != nil || rows[0].Content.Object != "tea" || rows[1].Content.Object != "milk" {
		t.Fatalf("%+v, %v", rows, err)
	}
	if _, err := s.Rebuild(t.Context(), "ops", nil); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Erase(t.Context(), memory.Erasure{Subject: "ana", Actor: "ops", Request: "1"}); err != nil || done.Rows != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
}

// hiding is a driver whose index shows nothing yet.
type hiding struct{ memory.Driver }

func (hiding) Query(context.Context, string, memory.Query) ([]memory.Hit, string, error) {
	return nil, "", nil
}

// forging are keys of which one opens whatever it is asked for, to something else.
type forging struct {
	memory.Keys
	forged memory.KeyID
	share  []byte
}

func (k *forging) Open(ctx context.Context, id memory.KeyID, ciphertext, associated []byte) ([]byte, error) {
	if id == k.forged {
		return k.share, nil
	}
	return k.Keys.Open(ctx, id, ciphertext, associated)
}

// TestAClassNeedsTheShareOfEachSubject: with a false share, or one that is too short, nothing
// of the class is read, and none of them stands for another.
func TestAClassNeedsTheShareOfEachSubject(t *testing.T) {
	d, ring := storetest.NewMap(), keyring.Ephemeral()
	keys := &forging{Keys: ring}
	open := func() *memory.Store { return storeOn(t, d, keys) }
	s := open()
	subjects := []string{"ann", "bob", "cid"}
	ids := map[memory.KeyID]bool{}
	var parents []memory.ID
	for _, subject := range subjects {
		r, err := s.Put(t.Context(), modelDraft(says(subject, "likes", "nuts")))
		if err != nil {
			t.Fatal(err)
		}
		parents = append(parents, r.ID)
	}
	r, err := s.Put(t.Context(), modelDraft(says("ann", "dines with", "bob and cid"), parents...))
	if err != nil {
		t.Fatal(err)
	}
	for o, err := range d.Objects(t.Context(), "default", "") {
		if err != nil {
			t.Fatal(err)
		}
		for _, term := range o.Terms {
			if term.Name[0] == 'K' {
				ids[memory.KeyID(binary.BigEndian.Uint64([]byte(term.Name[1:])))] = true
			}
		}
	}
	if len(ids) != len(subjects)+1 { // and the one of nobody
		t.Fatalf("%d keys", len(ids))
	}
	for id := range ids {
		for _, size := range []int{0, 31, 32, 64} {
			keys.forged, keys.share = id, make([]byte, size)
			if rows, err := open().Get(t.Context(), r.ID); !errors.Is(err, memory.ErrKey) && !errors.Is(err, memory.ErrDamaged) {
				t.Errorf("key %s, %d bytes: %v, %v", id, size, rows, err)
			}
		}
	}
	keys.forged = 0
	if _, err := open().Get(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
}

// silent are keys of a service that does not answer.
type silent struct {
	memory.Keys
	down  bool
	asked int
}

func (k *silent) Open(ctx context.Context, id memory.KeyID, ciphertext, associated []byte) ([]byte, error) {
	if k.asked++; k.down {
		return nil, errors.New("the key service does not answer")
	}
	return k.Keys.Open(ctx, id, ciphertext, associated)
}

// TestAKeyServiceThatIsDownIsNotAskedForEachRow: with a time limit for each call that would take
// minutes.
func TestAKeyServiceThatIsDownIsNotAskedForEachRow(t *testing.T) {
	d, keys := storetest.NewMap(), &silent{Keys: keyring.Ephemeral()}
	open := func() *memory.Store { return storeOn(t, d, keys) }
	s := open()
	var ids []memory.ID
	for i := range 20 {
		r, err := s.Put(t.Context(), modelDraft(says(fmt.Sprint("subject ", i), "is", "b")))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	s = open()
	keys.down, keys.asked = true, 0
	if _, err := s.Get(t.Context(), ids...); err == nil || !strings.Contains(err.Error(), "does not answer") || keys.asked > 2 {
		t.Errorf("it was asked %d times: %v", keys.asked, err)
	}
}
