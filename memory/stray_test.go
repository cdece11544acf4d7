package memory_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// Whoever can write the index holds up nobody by a line that stands for nothing: of no
// key that the store has, and of a row that does not exist.
func TestALineOfTheIndexThatStandsForNothingHoldsUpNobody(t *testing.T) {
	for name, key := range map[string]string{"no key of the store": "zz", "a row that does not exist": memory.HeadKey("mem_02q9l50fci00002e2f64c1mt4c")} {
		t.Run(name, func(t *testing.T) {
			ctx, d, keys := t.Context(), storetest.NewMap(), keyring.Ephemeral()
			open := func() *memory.Store {
				s, err := memory.New(d, keys, nil)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := open()
			row, err := s.Put(ctx, toolDraft(says("acme", "city", "Oslo"), "crm"))
			if err != nil {
				t.Fatal(err)
			}
			slot := byte(0)
			hold := func(s *memory.Store) {
				slot++
				t.Helper()
				f, err := s.Fitness(ctx, []memory.ID{row.ID})
				if err != nil {
					t.Fatal(err)
				}
				id := s.NewDecisionID()
				h := memory.Hold{ID: id, State: memory.HoldWaiting, Epoch: f.Epoch, Slot: memory.Digest{slot}, Tool: "pay", Args: json.RawMessage(`{}`), OpenedAt: s.Now(),
					ExpiresAt: s.Now().Add(time.Hour), AtFault: []memory.ID{row.ID}, Rows: []memory.Cited{f.Heads[0].Cite()}, By: "gate", Why: "held"}
				err = s.Record(ctx, memory.DecisionRecord{Epoch: f.Epoch, ID: id, Tool: "pay", Run: "run 1", Rows: h.Rows, Call: &memory.CallStep{Slot: h.Slot, Hold: &h}, Data: json.RawMessage(`{}`)})
				if err != nil {
					t.Fatalf("a decision: %v", err)
				}
			}
			hold(s)
			added := map[memory.Term]bool{}
			for c, err := range d.Carriers(ctx, s.Tenant(), "") {
				if err != nil {
					t.Fatal(err)
				}
				added[c.Term] = true
			}
			terms := slices.SortedFunc(maps.Keys(added), func(a, b memory.Term) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Sort, b.Sort)) })
			if len(terms) < 10 {
				t.Fatalf("only %d lines were added", len(terms))
			}
			if err := d.Restore(ctx, s.Tenant(), []memory.Restored{{Object: memory.Object{Key: key, Revision: 1, Data: []byte("x")}, Terms: terms}}); err != nil {
				t.Fatal(err)
			}

			s = open()
			listed := 0
			for r, err := range s.Rows(ctx, memory.Filter{}) {
				var one *memory.UnreadableError
				if err != nil && !errors.As(err, &one) {
					t.Fatalf("rows: %v", err)
				}
				if r.ID == row.ID {
					listed++
				}
			}
			if listed != 1 {
				t.Errorf("the row is listed %d times", listed)
			}
			for q, what := range map[recall.Query]string{{Subject: "acme", Predicate: "city"}: "of its line", {Text: "acme city oslo"}: "of its words"} {
				r, err := recall.Recall(ctx, s, q, recall.Policy{})
				if err != nil || len(r.Context) != 1 {
					t.Errorf("a recall %s: %v, %v", what, r, err)
				}
			}
			calls := 0
			for h, err := range s.HeldCalls(ctx, memory.HoldFilter{Open: true}) {
				if err != nil && !errors.Is(err, memory.ErrDamaged) {
					t.Fatalf("calls: %v", err)
				}
				if h.Tool == "pay" {
					calls++
				}
			}
			if calls != 1 {
				t.Errorf("the call is listed %d times", calls)
			}
			if list, err := s.Decisions(ctx); err != nil || len(list) != 1 {
				t.Errorf("decisions: %v, %v", list, err)
			}
			if list, err := s.DecisionsCiting(ctx, row.ID); err != nil || len(list) != 1 {
				t.Errorf("decisions on the row: %v, %v", list, err)
			}
			if _, err := s.Put(ctx, toolDraft(says("acme", "street", "Main St"), "crm")); err != nil {
				t.Errorf("a row: %v", err)
			}
			hold(s)
			if list, err := s.Alike(ctx, "acme"); err != nil || len(list) > 0 {
				t.Errorf("alike: %v, %v", list, err)
			}
			found := 0
			if _, err := s.VerifyAll(ctx, memory.Verifying{Found: func(error) error { found++; return nil }}); err != nil || found == 0 {
				t.Errorf("a verification finds %d, %v", found, err)
			}
		})
	}
}
