package memory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// lacking are keys that have lost the key of one subject.
type lacking struct {
	memory.Keys
	given, lost memory.KeyID
}

func (k *lacking) Key(ctx context.Context, subject string) (id memory.KeyID, err error) {
	id, err = k.Keys.Key(ctx, subject)
	k.given = id
	return id, err
}

func (k *lacking) Open(ctx context.Context, id memory.KeyID, ciphertext, associated []byte) ([]byte, error) {
	if id == k.lost {
		return nil, fmt.Errorf("key %s: %w", id, memory.ErrKey)
	}
	return k.Keys.Open(ctx, id, ciphertext, associated)
}

func TestARowWhoseKeyIsMissingHidesNoOther(t *testing.T) {
	d, keys := newMapDriver(), &lacking{Keys: keyring.Ephemeral()}
	open := func() *memory.Store { return storeOn(t, d, keys) }
	s := open()
	var about [3]memory.ID
	for i, subject := range []string{"ann", "bob", "cid"} {
		r, err := s.Put(t.Context(), toolDraft(says(subject, "likes", "wild canary songs"), "crm"))
		if err != nil {
			t.Fatal(err)
		}
		if about[i] = r.ID; subject == "bob" {
			keys.lost = keys.given
		}
	}
	s = open() // nothing is remembered
	listed := func(what string, f memory.Filter, want int) {
		t.Helper()
		seen, shut := 0, 0
		for row, err := range s.Rows(t.Context(), f) {
			var one *memory.UnreadableError
			switch {
			case errors.As(err, &one):
				if shut++; one.Row != about[1] || !errors.Is(err, memory.ErrKey) || !row.Has(memory.FlagDamaged) {
					t.Fatal(what, row, err)
				}
			case err != nil:
				t.Fatal(what, err)
			default:
				seen++
			}
		}
		if seen != want || shut != 1 {
			t.Fatalf("%s: %d rows are listed, %d cannot be read", what, seen, shut)
		}
	}
	listed("all", memory.Filter{}, 2)
	listed("by state", memory.Filter{State: memory.StateVerified}, 2)
	listed("by tool", memory.Filter{Asserter: memory.Asserter{Tool: "crm"}}, 2)
	listed("of the subject", memory.Filter{Subject: "bob", Predicate: "likes"}, 0)
	for what, q := range map[string]recall.Query{"text": {Text: "wild canary songs"}, "subject": {Subject: "cid", Predicate: "likes"}} {
		got, err := recall.Recall(t.Context(), s, q, recall.Policy{Channels: recall.Context | recall.Uncertain})
		want := map[string]int{"text": 2, "subject": 1}[what]
		if err != nil || len(got.Context) != want || got.Truncated != (what == "text") {
			t.Fatalf("by %s: %d rows, truncated %v, %v", what, len(got.Context), got.Truncated, err)
		}
	}
	if _, err := s.Get(t.Context(), about[1]); !errors.Is(err, memory.ErrKey) {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), modelDraft(says("dan", "is", "here"))); err != nil { // writing goes on
		t.Fatal(err)
	}
}
