package memory_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func TestFindSaysWhetherItLookedAtAllThatMatches(t *testing.T) {
	for _, tc := range []struct {
		name            string
		older, newer    int // unverified rows, written before the verified one and after
		limit, wantRows int
		wantMore        bool
	}{
		{"few rows", 0, 20, 0, 21, false},
		{"as many as are looked at", 0, 199, 0, 200, false},
		{"one more, and that one is verified", 0, 200, 0, 201, false},
		{"one more, which nobody verified", 0, 201, 0, 201, true},
		{"one older than the verified one", 1, 200, 0, 201, true},
		{"the limit leaves out one", 0, 20, 20, 20, true},
		{"the limit is met", 0, 20, 21, 21, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			for i := range tc.older {
				b.put(modelDraft(says("acme", "contact", fmt.Sprint("old ", i))))
				b.pass(time.Second)
			}
			verified := b.put(toolDraft(several("acme", "contact", "zoe"), "crm")).ID
			for i := range tc.newer {
				b.pass(time.Second)
				b.put(modelDraft(says("acme", "contact", fmt.Sprint("new ", i))))
			}
			rows, more, err := b.Find(b.Context(), memory.Lookup{Text: "contact", Limit: tc.limit})
			if err != nil || len(rows) != tc.wantRows || more != tc.wantMore || !slices.ContainsFunc(rows, func(r memory.Row) bool { return r.ID == verified }) {
				t.Errorf("%d rows, more %t, %v", len(rows), more, err)
			}
			if tc.limit == 0 {
				rows, more, err = b.Find(b.Context(), memory.Lookup{Subject: "acme", Predicate: "contact"})
				if err != nil || len(rows) != tc.older+1+tc.newer || more {
					t.Errorf("by the line: %d rows, more %t, %v", len(rows), more, err)
				}
			}
		})
	}
}

// Whoever says a lot of itself hides nothing that counts for others.
func TestOwnWordsHideNoVerifiedRow(t *testing.T) {
	b := newBench(t)
	verified := b.put(toolDraft(several("acme", "contact", "zoe"), "crm")).ID
	for i := range 520 {
		b.put(userDraft("mallory", several("mallory", "contact", fmt.Sprint("acme ", i))))
	}
	for _, principal := range []string{"", "bob"} {
		rows, more, err := b.Find(b.Context(), memory.Lookup{Text: "acme contact", Principal: principal, Limit: 50})
		if err != nil || !more || !slices.ContainsFunc(rows, func(r memory.Row) bool { return r.ID == verified }) {
			t.Errorf("for %q: %d rows, more %t, %v", principal, len(rows), more, err)
		}
	}
}

func TestABadLookupIsRefused(t *testing.T) {
	b := newBench(t)
	for field, l := range map[string]memory.Lookup{
		"query":     {Text: "x", Subject: "acme", Predicate: "contact"},
		"limit":     {Text: "x", Limit: -1},
		"predicate": {Subject: "acme", Predicate: "a\x00b"},
	} {
		var f *memory.FieldError
		if _, _, err := b.Find(b.Context(), l); !errors.As(err, &f) || f.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	var f *memory.FieldError
	if _, _, err := b.Find(b.Context(), memory.Lookup{Subject: "acme"}); !errors.As(err, &f) || f.Field != "query" {
		t.Error(err)
	}
}

func TestAStoreOfAnotherFormIsRefusedAndKept(t *testing.T) {
	for _, form := range []int{0, 1, memory.Form - 1, memory.Form + 1} {
		d := storetest.NewMap()
		s, err := memory.New(d, keyring.Ephemeral(), nil)
		if err != nil {
			t.Fatal(err)
		}
		key, data := s.OlderForm()
		if form == 0 {
			err = d.Apply(t.Context(), s.Tenant(), memory.Batch{Puts: []memory.Put{{Key: key, Data: data}}})
		} else {
			err = s.MakeForm(t.Context(), uint64(form))
		}
		if err != nil {
			t.Fatal(err)
		}
		before, err := d.Get(t.Context(), s.Tenant(), []string{key})
		if err != nil {
			t.Fatal(err)
		}
		id := memory.ID("mem_000000000000000000000000a0")
		_, _, find := s.Find(t.Context(), memory.Lookup{Text: "contact"})
		_, get := s.Get(t.Context(), id)
		_, fit := s.Fitness(t.Context(), []memory.ID{id})
		_, put := s.Put(t.Context(), modelDraft(says("acme", "phone", "1")))
		_, verify := s.VerifyAll(t.Context(), memory.Verifying{})
		_, rebuild := s.Rebuild(t.Context(), "test", nil)
		for what, err := range map[string]error{"find": find, "get": get, "fitness": fit, "put": put, "verify": verify, "rebuild": rebuild} {
			var wrong *memory.FormError
			if !errors.As(err, &wrong) || wrong.Found != form || !errors.Is(err, memory.ErrSchema) {
				t.Errorf("form %d: %s: %v", form, what, err)
			}
		}
		if after, err := d.Get(t.Context(), s.Tenant(), []string{key}); err != nil || !reflect.DeepEqual(after, before) {
			t.Errorf("form %d: %+v, %v: it was changed", form, after, err)
		}
	}
}
