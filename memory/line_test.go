package memory_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// unmarked is a driver that shows no mark of a line: whoever verifies has to look for
// rivals. queries counts what is asked of any driver.
type unmarked struct {
	memory.Driver
	hide    bool
	queries int
}

func (d *unmarked) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	objs, err := d.Driver.Get(ctx, tenant, keys)
	for i := range objs {
		if d.hide && objs[i].Data != nil && strings.HasPrefix(memory.KeyText(objs[i].Key), "line/") {
			objs[i].Data = []byte{1}
		}
	}
	return objs, err
}

func (d *unmarked) Query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	d.queries++
	return d.Driver.Query(ctx, tenant, q)
}

// Rivals are found, or nobody looks for them, by the mark of their line. With it and
// without it the same rows are verified, contested and demoted, in any order.
func TestTheMarkOfALineHidesNoRival(t *testing.T) {
	settled, saved := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		at := day0
		options := &memory.Options{Clock: func() time.Time { return at }}
		drivers := [2]*unmarked{{Driver: storetest.NewMap()}, {Driver: storetest.NewMap(), hide: true}}
		stores := [2]*memory.Store{storetest.On(drivers[0], options), storetest.On(drivers[1], options)}
		var ids [2][]memory.ID
		said := map[string]int{}
		for range rapid.IntRange(2, 12).Draw(t, "steps") {
			c := says("bill", "is", rapid.SampledFrom([]string{"open", "paid", "lost"}).Draw(t, "object"))
			c.Cardinality = rapid.SampledFrom([]memory.Cardinality{memory.CardinalityFunctional, memory.CardinalityUnknown, memory.CardinalitySetValued}).Draw(t, "cardinality")
			var draft memory.Draft
			who := rapid.SampledFrom([]string{"crm", "erp", "model"}).Draw(t, "who")
			if draft = modelDraft(c); who != "model" {
				draft = toolDraft(c, who)
			}
			verify := rapid.IntRange(-1, len(ids[0])-1).Draw(t, "verify")
			at = at.Add(1e9)
			var outcome [2]string
			for i, s := range stores {
				if verify >= 0 {
					f, err := s.Fitness(context.Background(), ids[i][verify:verify+1])
					if err != nil {
						t.Fatal(err)
					}
					group := fmt.Sprint("tool:", who)
					_, err = s.Apply(context.Background(), memory.Transition{Row: ids[i][verify], Revision: f.Heads[0].Revision, To: memory.TruthSupported,
						Authority: memory.AuthorityProbe, Actor: "w", Source: who, Reason: "r", Evidence: []memory.Evidence{supports(memory.RankTool, group)}})
					outcome[i] = fmt.Sprint(err != nil)
					continue
				}
				r, err := s.Put(context.Background(), draft)
				if err != nil {
					t.Fatal(err)
				}
				outcome[i] = fmt.Sprint(r.State, r.Disposition, r.Reason)
				if r.Disposition == memory.Created {
					ids[i] = append(ids[i], r.ID)
				}
			}
			if outcome[0] != outcome[1] {
				t.Fatalf("with the mark %s, without it %s", outcome[0], outcome[1])
			}
			said[outcome[0]]++
		}
		var is [2][]string
		for i, s := range stores {
			f, err := s.Fitness(context.Background(), ids[i])
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range f.Heads {
				is[i] = append(is[i], fmt.Sprint(h.State(), h.Truth, h.Rank, h.Flags, h.Revision))
				if h.Has(memory.FlagContested) || h.Truth == memory.TruthContradicted {
					settled++
				}
			}
		}
		if diff := cmp.Diff(is[1], is[0]); diff != "" {
			t.Fatalf("the mark makes a difference: %s", diff)
		}
		saved += drivers[1].queries - drivers[0].queries
	})
	t.Logf("%d rows contested or demoted, %d queries saved", settled, saved)
	if settled == 0 || saved <= 0 {
		t.Fatal("nothing was settled, or nothing saved")
	}
}

// counting counts the calls of a driver.
type counting struct {
	memory.Driver
	gets, applies int
}

func (d *counting) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	d.gets++
	return d.Driver.Get(ctx, tenant, keys)
}

func (d *counting) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	d.applies++
	return d.Driver.Apply(ctx, tenant, b)
}

func TestWhatIsPresumedIsChecked(t *testing.T) {
	d, keys := &counting{Driver: storetest.NewMap()}, keyring.Ephemeral()
	open := func() *memory.Store {
		s, err := memory.New(d, keys, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := open(), open()
	put := func(s *memory.Store, draft memory.Draft) memory.Receipt {
		t.Helper()
		r, err := s.Put(t.Context(), draft)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	trips := func(gets, applies int) {
		t.Helper()
		if d.gets != gets || d.applies != applies {
			t.Fatalf("%d reads and %d writes, want %d and %d", d.gets, d.applies, gets, applies)
		}
		d.gets, d.applies = 0, 0
	}
	plain := func(object string) memory.Content {
		c := says("customer 7", "note", object)
		c.Cardinality = memory.CardinalityUnknown
		return c
	}
	put(a, toolDraft(plain("one"), "crm"))
	put(b, toolDraft(plain("two"), "crm"))
	d.gets, d.applies = 0, 0

	put(b, toolDraft(plain("three"), "crm"))
	trips(0, 1) // nothing to look for
	put(b, modelDraft(plain("four")))
	trips(0, 1)
	if r := put(b, modelDraft(plain("four"))); r.Disposition != memory.Collapsed {
		t.Fatal(r)
	}
	trips(2, 1) // it said so itself: it looks, and the write of an echo is the only one
	if r := put(a, modelDraft(plain("four"))); r.Disposition != memory.Collapsed {
		t.Fatal(r)
	}
	trips(2, 2) // another handle said so: the row that it presumed is refused
	put(b, toolDraft(plain("five"), "crm"))
	trips(0, 1)
	put(a, toolDraft(plain("nine"), "crm"))
	trips(1, 2) // the line has moved on

	// A functional row that the other handle verified meanwhile is met.
	put(b, toolDraft(plain("six"), "crm"))
	rival := put(a, toolDraft(says("customer 7", "note", "seven"), "erp"))
	r := put(b, toolDraft(plain("eight"), "crm"))
	for _, id := range []memory.ID{rival.ID, r.ID} {
		f, err := a.Fitness(t.Context(), []memory.ID{id})
		if err != nil || !f.Heads[0].Has(memory.FlagContested) {
			t.Fatalf("%+v %v", f.Heads, err)
		}
	}
	if _, err := a.Verify(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
}
