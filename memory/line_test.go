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
