package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// flip flips a bit of an object. It is found by no class any more.
func flip(o *memory.Restored) {
	o.Data = slices.Clone(o.Data)
	o.Data[len(o.Data)-1] ^= 1
	o.Terms = slices.DeleteFunc(slices.Clone(o.Terms), func(t memory.Term) bool { return strings.HasPrefix(t.Name, "k") && len(t.Name) == 9 })
}

// advance alters the revision of an object and nothing else.
func advance(o *memory.Restored) { o.Revision++ }

// remove takes an object away, with what it is found by.
func remove(o *memory.Restored) { *o = memory.Restored{Object: memory.Object{Key: o.Key}} }

// spoil alters an object on the disk.
func spoil(t *testing.T, d memory.Driver, key string, alter func(*memory.Restored)) {
	t.Helper()
	n := 0
	for o, err := range d.Objects(t.Context(), "default", "") {
		if err != nil {
			t.Fatal(err)
		}
		if o.Key != key {
			continue
		}
		alter(&o)
		if err := d.Restore(t.Context(), "default", []memory.Restored{o}); err != nil {
			t.Fatal(err)
		}
		n++
		break
	}
	if n == 0 {
		t.Fatal("nothing was spoiled")
	}
}

// furnish puts objects of further kinds into the store: notes, a segment of a ledger, and
// the record of an erasure.
func (e *erasable) furnish(t *testing.T) {
	t.Helper()
	many := slices.Concat(e.eve, e.kept)
	for i := range 4 {
		many = append(many, e.put(modelDraft(says(fmt.Sprint("box ", i), "weighs", "2 kg"))).ID)
	}
	e.kept = append(e.kept, many[len(many)-4:]...)
	rows, heat := []memory.Cited{}, map[memory.ID]float64{}
	for _, id := range many {
		heat[id] = 2
		rows = append(rows, memory.Cited{Row: id, Revision: e.head(id).Revision})
	}
	if _, err := e.AddHeat(t.Context(), heat); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one has the ledger of the first
		if err := e.Record(t.Context(), memory.DecisionRecord{Epoch: 1, ID: e.NewDecisionID(), Tool: "mail", Run: "run-2", Fired: true, Data: []byte(`{"args":"canary"}`), Rows: rows}); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []memory.ID{e.eve[0], e.kept[0]} {
		if err := e.AddEvidence(t.Context(), id, "w", "a context", says4(memory.RelationContextualizes, memory.RankTool, "web", "tool:web")); err != nil {
			t.Fatal(err)
		}
	}
	e.put(userDraft("gone", says("gone", "lives in", "Oslo")))
	if _, err := e.Erase(t.Context(), memory.Erasure{Subject: "gone", Request: "R-0", Actor: "dpo"}); err != nil {
		t.Fatal(err)
	}
}

// TestWhatIsLostBlocksNoErasure spoils each object of a store in turn: a bit of it, its revision, or all of it. If an erasure needs what
// is damaged a rebuild makes it again, and then the erasure ends: with each row of the subject
// that is under a key of hers, and with a count of the rows that nobody can read.
func TestWhatIsLostBlocksNoErasure(t *testing.T) {
	tried, rebuilt, unread := map[string]int{}, 0, 0
	for n, count := 0, 1; n < 3*count; n++ {
		e := newErasable(t, 2)
		e.furnish(t)
		held := openHold(t, e.Store, e.eve[len(e.eve)-2])
		var keys []string
		for o, err := range e.driver.Objects(t.Context(), "default", "") {
			if err != nil {
				t.Fatal(err)
			}
			if len(o.Data) > 0 {
				keys = append(keys, o.Key)
			}
		}
		slices.SortFunc(keys, func(a, b string) int { return strings.Compare(memory.KeyText(a), memory.KeyText(b)) })
		count = len(keys)
		name := memory.KeyText(keys[n%count])
		kind, _, _ := strings.Cut(name, "/")
		spoil(t, e.driver, keys[n%count], []func(*memory.Restored){flip, advance, remove}[n/count])
		s := e.another()
		ask := memory.Erasure{Subject: "eve canary", Request: "R-1", Actor: "dpo"}
		done, err := s.Erase(t.Context(), ask)
		if err != nil {
			if !errors.Is(err, memory.ErrDamaged) {
				t.Fatalf("%s: %v", name, err)
			}
			rebuilt++
			if _, err := s.Rebuild(t.Context(), "operator", nil); err != nil {
				t.Fatalf("%s: rebuild: %v", name, err)
			}
			if done, err = e.another().Erase(t.Context(), ask); err != nil {
				t.Fatalf("%s: after a rebuild: %v", name, err)
			}
		}
		tried[kind]++
		unread += done.Unread
		if done.Unread > 0 && kind != "body" && kind != "class" {
			t.Errorf("%s: %d rows are not read", name, done.Unread)
		}
		own := slices.ContainsFunc(e.eve[:len(e.eve)-2], func(id memory.ID) bool { return name == "body/"+string(id) })
		if done.Unread > 0 && own {
			t.Errorf("%s: a row under her key is passed over", name)
		}
		s = e.another()
		if name == "system/revoked" { // no row is read without
			if _, err := s.Rebuild(t.Context(), "operator", nil); err != nil {
				t.Fatal(err)
			}
		}
		left := 0
		for _, id := range e.eve {
			if _, err := s.Get(t.Context(), id); !errors.Is(err, memory.ErrErased) {
				left++
			}
		}
		// Only her row of another class, whose words name her, may not be found, and what was made of it.
		if left > 2*done.Unread {
			t.Errorf("%s: %d of her rows are left, %d are not read", name, left, done.Unread)
		}
		for _, id := range e.kept {
			if _, err := s.Get(t.Context(), id); errors.Is(err, memory.ErrErased) {
				t.Errorf("%s: a row of somebody else is erased", name)
			}
		}
		if _, err := s.Hold(t.Context(), held); !errors.Is(err, memory.ErrErased) && !errors.Is(err, memory.ErrNotFound) && left == 0 {
			t.Errorf("%s: her hold is left: %v", name, err)
		}
		if _, err := s.Rebuild(t.Context(), "operator", nil); err != nil {
			t.Errorf("%s: a rebuild after the erasure: %v", name, err)
		}
		if again, err := s.Erase(t.Context(), ask); err != nil || again.Rows != 0 || again.Unread != done.Unread {
			t.Errorf("%s: again: %+v, %v", name, again, err)
		}
	}
	t.Logf("%v, %d rebuilt, %d rows not read", tried, rebuilt, unread)
	for _, kind := range strings.Fields("body call claim class decision due echo erasure evidence fence head hold identity ledger line note system") {
		if tried[kind] < 2 {
			t.Errorf("no %s was tried", kind)
		}
	}
	if unread == 0 || rebuilt == 0 {
		t.Error("nothing was unread, or made again")
	}
}

// openHold has a call held that rests on a row.
func openHold(t *testing.T, s *memory.Store, row memory.ID) string {
	t.Helper()
	slot := memory.Digest{7}
	f, err := s.Fitness(t.Context(), []memory.ID{row})
	if err != nil {
		t.Fatal(err)
	}
	at, err := s.Standing(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	id := s.NewDecisionID()
	cited := []memory.Cited{{Row: row, Revision: f.Heads[0].Revision}}
	h := memory.Hold{ID: id, Epoch: f.Epoch, State: memory.HoldWaiting, Slot: slot, Tool: "send", Args: json.RawMessage(`{"to":"canary"}`),
		OpenedAt: s.Now(), ExpiresAt: s.Now().Add(time.Hour), AtFault: []memory.ID{row}, Rows: cited, By: "gate", Why: "held"}
	if err := s.Record(t.Context(), memory.DecisionRecord{Epoch: f.Epoch, ID: id, Tool: "send", Run: "r", Data: json.RawMessage(`{}`),
		Call: &memory.CallStep{Slot: slot, Seen: at.Revision, Hold: &h}, Rows: cited}); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestAMissingKeyBlocksNoErasure: the rows of somebody else whose key is missing are counted, and
// those of the subject go though her own key is missing, if the keyring knows of it.
func TestAMissingKeyBlocksNoErasure(t *testing.T) {
	for _, whose := range []string{"ann", "bob"} {
		d, keys := newMapDriver(), &lacking{Keys: keyring.Ephemeral()}
		s := storeOn(t, d, keys)
		var lost memory.KeyID
		var rows []memory.ID
		for _, subject := range []string{"ann", "bob"} {
			rows = append(rows, put(t, s, toolDraft(says(subject, "likes", "songs"), "crm")).ID)
			if subject == whose {
				lost = keys.given
			}
		}
		keys.lost = lost
		done, err := storeOn(t, d, keys).Erase(t.Context(), memory.Erasure{Subject: "ann", Request: "R-1", Actor: "dpo"})
		unread := map[string]int{"ann": 0, "bob": 1}[whose]
		if err != nil || done.Rows != 1 || done.Unread != unread {
			t.Errorf("the key of %s is missing: %+v, %v", whose, done, err)
		}
		keys.lost = 0
		s = storeOn(t, d, keys)
		if _, err := s.Get(t.Context(), rows[0]); !errors.Is(err, memory.ErrErased) {
			t.Errorf("the key of %s was missing: her row: %v", whose, err)
		}
		if _, err := s.Get(t.Context(), rows[1]); err != nil {
			t.Errorf("the key of %s was missing: a row of somebody else: %v", whose, err)
		}
		for e, err := range s.Erasures(t.Context()) {
			if err != nil || e.Unread != unread || e.Open {
				t.Errorf("the record says %+v, %v", e, err)
			}
		}
	}
}

// TestAnErasureGoesOnWithWhatCameMeanwhile interrupts an erasure before and after each of its writes.
// What is written of the subject until it goes on is erased too, under whatever key, and no log
// keeps more than that of an erasure that was not interrupted.
func TestAnErasureGoesOnWithWhatCameMeanwhile(t *testing.T) {
	ask := memory.Erasure{Subject: "eve canary", Request: "R-1", Actor: "dpo"}
	errCut := errors.New("cut off")
	fill := func() *erasable {
		e := newErasable(t, 2)
		e.furnish(t)
		openHold(t, e.Store, e.eve[3])
		return e
	}
	whole := fill()
	if _, err := whole.Erase(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	cut, newer := 0, 0
	for _, late := range []bool{false, true} {
		for n, reached := 1, true; reached; n++ {
			e := fill()
			writes := 0
			e.driver.before = func(memory.Batch) error {
				if writes++; writes > n || writes == n && !late {
					return errCut
				}
				return nil
			}
			e.driver.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
				if writes >= n {
					return errCut
				}
				return e.driver.Driver.Rewrite(ctx, tenant, key, entries)
			}
			_, err := e.another().Erase(t.Context(), ask)
			e.driver.before, e.driver.rewrite = nil, nil
			if reached = err != nil; !reached {
				continue
			}
			cut++
			s := e.another()
			again := put(t, s, userDraft("eve canary", says("eve canary", "owns", "a boat")))
			done, err := s.Erase(t.Context(), ask)
			if err != nil {
				t.Fatalf("cut at write %d: %v", n, err)
			}
			if done.Keys > 1 {
				newer++
			}
			if _, err := s.Get(t.Context(), again.ID); !errors.Is(err, memory.ErrErased) {
				t.Errorf("cut at write %d: what was written meanwhile: %v", n, err)
			}
			if done, err = e.another().Erase(t.Context(), ask); err != nil || done.Rows != 0 || done.Keys != 0 {
				t.Errorf("cut at write %d: a key of hers is left: %+v, %v", n, done, err)
			}
			for kind, want := range whole.logSizes(t) {
				for i, got := range e.logSizes(t)[kind] {
					if got > want[i] {
						t.Errorf("cut at write %d (after it: %t): a log of a %s has %d bytes, want %d at most", n, late, kind, got, want[i])
					}
				}
			}
		}
	}
	t.Logf("%d times cut, %d with a newer key", cut, newer)
	if cut < 10 || newer == 0 {
		t.Error("not enough was tried")
	}
}

// logSizes are how many bytes the logs of decisions, holds and segments have.
func (e *erasable) logSizes(t *testing.T) map[string][]int {
	t.Helper()
	sizes := map[string][]int{}
	for _, key := range e.logs() {
		kind, _, _ := strings.Cut(memory.KeyText(key), "/")
		if kind != "decision" && kind != "hold" && kind != "ledger" {
			continue
		}
		size := 0
		for _, l := range e.stored(key) {
			size += len(l.Data)
		}
		sizes[kind] = append(sizes[kind], size)
	}
	for _, s := range sizes {
		slices.Sort(s)
	}
	return sizes
}
