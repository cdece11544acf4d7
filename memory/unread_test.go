package memory_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// spoil flips a bit of an object on the disk. It is found by no class any more.
func spoil(t *testing.T, d memory.Driver, key string) {
	t.Helper()
	n := 0
	for o, err := range d.Objects(t.Context(), "default", "") {
		if err != nil {
			t.Fatal(err)
		}
		if o.Key != key {
			continue
		}
		o.Data = slices.Clone(o.Data)
		o.Data[len(o.Data)-1] ^= 1
		o.Terms = slices.DeleteFunc(slices.Clone(o.Terms), func(t memory.Term) bool { return strings.HasPrefix(t.Name, "k") && len(t.Name) == 9 })
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

// TestWhatIsLostBlocksNoErasure spoils each object of a store in turn. If an erasure needs what
// is damaged a rebuild makes it again, and then the erasure ends: with each row of the subject
// that is under a key of hers, and with a count of the rows that nobody can read.
func TestWhatIsLostBlocksNoErasure(t *testing.T) {
	tried, rebuilt, unread := map[string]int{}, 0, 0
	for n, count := 0, 1; n < count; n++ {
		e := newErasable(t, 2)
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
		name := memory.KeyText(keys[n])
		kind, _, _ := strings.Cut(name, "/")
		spoil(t, e.driver, keys[n])
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
		if _, err := s.Hold(t.Context(), held); !errors.Is(err, memory.ErrErased) && left == 0 {
			t.Errorf("%s: her hold is left: %v", name, err)
		}
		if again, err := s.Erase(t.Context(), ask); err != nil || again.Rows != 0 || again.Unread != done.Unread {
			t.Errorf("%s: again: %+v, %v", name, again, err)
		}
	}
	t.Logf("%v, %d rebuilt, %d rows not read", tried, rebuilt, unread)
	if tried["body"] < 7 || tried["class"] < 3 || tried["decision"] < 3 || tried["hold"] == 0 || unread == 0 {
		t.Error("not everything was tried")
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
