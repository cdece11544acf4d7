package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// spoiled is a driver whose disk changed one object. Writing the object mends it.
type spoiled struct {
	memory.Driver
	key string
	at  int // the byte that is not what was written, from the end
}

func (d *spoiled) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	objs, err := d.Driver.Get(ctx, tenant, keys)
	if at := slices.Index(keys, d.key); err == nil && at >= 0 && len(objs[at].Data) > d.at {
		b := slices.Clone(objs[at].Data)
		b[len(b)-1-d.at] ^= 1
		objs[at].Data = b
	}
	return objs, err
}

func (d *spoiled) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	err := d.Driver.Apply(ctx, tenant, b)
	if err == nil && slices.ContainsFunc(b.Puts, func(p memory.Put) bool { return p.Key == d.key }) {
		d.key = ""
	}
	return err
}

func (d *spoiled) Restore(ctx context.Context, tenant string, objects []memory.Restored) error {
	err := d.Driver.Restore(ctx, tenant, objects)
	if err == nil && slices.ContainsFunc(objects, func(o memory.Restored) bool { return o.Key == d.key }) {
		d.key = ""
	}
	return err
}

// TestARowThatIsTakenCanBeRead spoils each object of a store in turn: a row that [memory.Store.Put]
// takes then is readable, to a process that opens the store and to one that had it open. A
// process that wrote under a class lately may still write under it when it is spoiled.
func TestARowThatIsTakenCanBeRead(t *testing.T) {
	for at, byte := range map[string]int{"checksum": 0, "first": 37} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, open %t", at, open), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { takesWhatCanBeRead(t, byte, open) })
			})
		}
	}
}

func takesWhatCanBeRead(t *testing.T, at int, open bool) {
	ring, d := keyring.Ephemeral(), &spoiled{Driver: storetest.NewMap(), at: at}
	var keys []string
	first := storeOn(t, d, ring)
	was := put(t, first, toolDraft(says("ana", "city", "Oslo"), "crm")).ID
	for o, err := range d.Objects(t.Context(), "default", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	taken, refused := 0, map[string]int{}
	for n, key := range keys {
		d.key = ""
		s := storeOn(t, d, ring)
		put(t, s, modelDraft(says("ana", "likes", fmt.Sprint("song ", n))))
		if d.key = key; !open {
			s = storeOn(t, d, ring)
		}
		time.Sleep(2 * time.Minute)
		for i, draft := range []memory.Draft{
			modelDraft(says("ana", "likes", fmt.Sprint("book ", n))), modelDraft(says("ben", "likes", fmt.Sprint("book ", n))),
			toolDraft(says("ana", "owns", fmt.Sprint("boat ", n)), "crm"), toolDraft(says("cid", "owns", fmt.Sprint("boat ", n)), "crm"),
		} {
			r, err := s.Put(t.Context(), draft)
			if err != nil {
				if !errors.Is(err, memory.ErrDamaged) && !errors.Is(err, memory.ErrKey) {
					t.Errorf("%s: draft %d: %v", memory.KeyText(key), i, err)
				}
				if refused[memory.KeyText(key)]++; i < 2 && strings.HasPrefix(memory.KeyText(key), "class/") {
					t.Errorf("draft %d: no other class of the subject is made: %v", i, err)
				}
				continue
			}
			taken++
			for _, reader := range []*memory.Store{s, storeOn(t, d, ring)} {
				_, err := reader.Get(t.Context(), r.ID)
				if reader != s && open && memory.KeyText(key) == "system/keys" { // rebuild makes it again
					err = nil
				}
				if err != nil {
					t.Errorf("%s: draft %d was taken: %v", memory.KeyText(key), i, err)
				}
			}
		}
		// What the logs tell is made again, and the rest says what it is about.
		again := storeOn(t, d, ring)
		if _, err := again.Rebuild(t.Context(), "operator", nil); err != nil {
			t.Errorf("%s: rebuild: %v", memory.KeyText(key), err)
		}
		if _, err := again.Fitness(t.Context(), []memory.ID{was}); err != nil {
			t.Errorf("%s: after a rebuild no call is decided: %v", memory.KeyText(key), err)
		}
		_, err := again.Get(t.Context(), was)
		if own := strings.HasPrefix(memory.KeyText(key), "class/") || strings.HasPrefix(memory.KeyText(key), "body/"); err != nil && !own {
			t.Errorf("%s: after a rebuild: %v", memory.KeyText(key), err)
		}
	}
	t.Logf("%d objects, %d rows taken, refused: %v", len(keys), taken, refused)
	if taken == 0 || refused["system/revoked"] != 4 || len(keys) < 15 {
		t.Error("nothing was tried")
	}
}

// TestARejectionOutlivesWhatWasRejected: what a person rejected is damaged, and the store rebuilt.
func TestARejectionOutlivesWhatWasRejected(t *testing.T) {
	for _, what := range []string{"body/", "class/"} {
		ring, d := keyring.Ephemeral(), &spoiled{Driver: storetest.NewMap()}
		s := storeOn(t, d, ring)
		berlin := says("ana", "city", "Berlin")
		first := put(t, s, modelDraft(berlin))
		if _, err := s.Apply(t.Context(), memory.Transition{Row: first.ID, Revision: first.Revision, To: memory.TruthContradicted,
			Authority: memory.AuthorityUser, Actor: "ana", Source: "ana", Reason: "wrong", Reject: true}); err != nil {
			t.Fatal(err)
		}
		// Another row of the claim is of other subjects, too.
		other := toolDraft(berlin, "erp")
		other.Subjects = []string{"ben"}
		second := put(t, s, other)
		for o, err := range d.Objects(t.Context(), "default", "") {
			if err != nil {
				t.Fatal(err)
			}
			if name := memory.KeyText(o.Key); name == what+string(first.ID) || what == "class/" && name == what+classOf(t, s, first.ID) {
				d.key = o.Key
			}
		}
		if d.key == "" {
			t.Fatal("nothing is damaged")
		}
		s = storeOn(t, d, ring)
		done, err := s.Rebuild(t.Context(), "operator", nil)
		if err != nil || done.Rows != 2 || done.Lost != 1 {
			t.Fatalf("%s: %+v, %v", what, done, err)
		}
		s = storeOn(t, d, ring)
		rows, err := s.Get(t.Context(), second.ID)
		if err != nil || rows[0].Rejection == nil || rows[0].Truth == memory.TruthSupported {
			t.Errorf("%s: the other row: %+v, %v", what, rows, err)
		}
		if again := put(t, s, toolDraft(berlin, "crm")); again.State == memory.StateVerified {
			t.Errorf("%s: it is verified again: %+v", what, again)
		}
		if _, err := s.Get(t.Context(), first.ID); !errors.Is(err, memory.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestWhatALostRowSaidIsSaidAnew: its own source says it again. Nothing that was held against a row
// ends by the loss of its body.
func TestWhatALostRowSaidIsSaidAnew(t *testing.T) {
	quarantine := memory.Transition{To: memory.SecurityQuarantined, Authority: memory.AuthoritySentinel, Actor: "sentinel", Source: "sentinel", Reason: "odd"}
	suspect := quarantine
	suspect.To = memory.SecuritySuspicious
	hide := memory.Transition{To: memory.RetrievalHidden, Authority: memory.AuthorityPolicy, Actor: "policy", Source: "policy", Reason: "old"}
	contradict := memory.Transition{To: memory.TruthContradicted, Authority: memory.AuthorityProbe, Actor: "worker", Source: "erp", Reason: "no", Evidence: []memory.Evidence{contradicts(memory.RankPrimarySource, "doc:1")}}
	for _, c := range []struct {
		what string
		held *memory.Transition
		anew bool
	}{{"body/", nil, true}, {"class/", nil, true}, {"body/", &quarantine, false}, {"body/", &suspect, false}, {"body/", &hide, false}, {"body/", &contradict, false}} {
		ring, d := keyring.Ephemeral(), &spoiled{Driver: storetest.NewMap()}
		s := storeOn(t, d, ring)
		says := toolDraft(says("ana", "city", "Oslo"), "crm")
		first := put(t, s, says)
		if c.held != nil {
			move := *c.held
			move.Row, move.Revision = first.ID, first.Revision
			if _, err := s.Apply(t.Context(), move); err != nil {
				t.Fatal(err)
			}
		}
		for o, err := range d.Objects(t.Context(), "default", "") {
			if err != nil {
				t.Fatal(err)
			}
			if name := memory.KeyText(o.Key); name == "body/"+string(first.ID) && c.what == "body/" || name == "class/"+classOf(t, s, first.ID) && c.what == "class/" {
				d.key = o.Key
			}
		}
		for _, rebuilt := range []bool{false, true} {
			s = storeOn(t, d, ring)
			if rebuilt {
				if _, err := s.Rebuild(t.Context(), "operator", nil); err != nil {
					t.Fatal(err)
				}
			}
			r, err := s.Put(t.Context(), says)
			if c.anew && !rebuilt && (err != nil || r.Disposition != memory.Created || r.State != memory.StateVerified || r.ID == first.ID) {
				t.Errorf("%s: %+v, %v", c.what, r, err)
			}
			if !c.anew && err == nil && r.State == memory.StateVerified {
				t.Errorf("%s, %v, rebuilt %t: %+v", c.what, c.held.To, rebuilt, r)
			}
		}
	}
}

// classOf is the class of a row.
func classOf(t *testing.T, s *memory.Store, id memory.ID) string {
	t.Helper()
	f, err := s.Fitness(t.Context(), []memory.ID{id})
	if err != nil {
		t.Fatal(err)
	}
	return f.Heads[0].Class.String()
}

// overtaken is a driver that answers one read with what was there before another goroutine
// wrote. It closes read when the answer is there, and gives it when told is closed.
type overtaken struct {
	memory.Driver
	read, told chan struct{}
	done       atomic.Bool
}

func (d *overtaken) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	objs, err := d.Driver.Get(ctx, tenant, keys)
	if slices.ContainsFunc(keys, func(key string) bool { return memory.KeyText(key) == "system/revoked" }) && d.done.CompareAndSwap(false, true) {
		close(d.read)
		<-d.told
	}
	return objs, err
}

// TestAStoreIsMadeDuringARead: what was read of a store before another goroutine made it is not
// taken for a store that lost something.
func TestAStoreIsMadeDuringARead(t *testing.T) {
	ghost := memory.ID("mem_" + strings.Repeat("0", 26))
	draft := modelDraft(says("ana", "likes", "jazz"))
	for name, read := range map[string]func(*memory.Store) error{
		"Put":         func(s *memory.Store) error { _, err := s.Put(t.Context(), draft); return err },
		"Get":         func(s *memory.Store) error { _, err := s.Get(t.Context(), ghost); return err },
		"Fitness":     func(s *memory.Store) error { _, err := s.Fitness(t.Context(), nil); return err },
		"DamagedRows": func(s *memory.Store) error { _, _, err := s.DamagedRows(t.Context()); return err },
	} {
		t.Run(name, func(t *testing.T) {
			d := &overtaken{Driver: storetest.NewMap(), read: make(chan struct{}), told: make(chan struct{})}
			s := storeOn(t, d, keyring.Ephemeral())
			done := make(chan error, 1)
			go func() { done <- read(s) }()
			<-d.read
			made := put(t, s, modelDraft(says("ben", "likes", "jazz"))).ID
			if _, err := s.Get(t.Context(), made); err != nil {
				t.Error(err)
			}
			close(d.told)
			if err := <-done; err != nil && !errors.Is(err, memory.ErrNotFound) {
				t.Error(err)
			}
		})
	}
}

// TestManyWriteFirst: goroutines write to a store that nobody has made yet.
func TestManyWriteFirst(t *testing.T) {
	for range 50 {
		s := storeOn(t, storetest.NewMap(), keyring.Ephemeral())
		errs := make(chan error, 16)
		for i := range cap(errs) {
			go func() {
				_, err := s.Put(t.Context(), modelDraft(says(fmt.Sprint("subject ", i), "is", "b")))
				errs <- err
			}()
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
	}
}
