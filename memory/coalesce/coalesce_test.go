package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/coalesce"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func TestMain(m *testing.M) { testmain.Run(m) }

func over(*testing.T) memory.Driver { return coalesce.New(storetest.NewMap()) }

func TestItAgreesWithTheReferenceDriver(t *testing.T) { storetest.Compare(t, over) }

// slow takes a millisecond for each call, so that others come meanwhile.
type slow struct {
	memory.Driver
	gets, applies atomic.Int64
	fail          atomic.Pointer[error] // of the next Apply, after it was applied
}

func (s *slow) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	s.gets.Add(1)
	time.Sleep(time.Millisecond) // of a bubble: its clock moves when all wait
	return s.Driver.Get(ctx, tenant, keys)
}

func (s *slow) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	s.applies.Add(1)
	time.Sleep(time.Millisecond)
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.Driver.Apply(ctx, tenant, b)
	if fault := s.fail.Swap(nil); fault != nil && err == nil {
		return *fault
	}
	return err
}

func put(key string, from uint64) memory.Batch {
	return memory.Batch{Puts: []memory.Put{{Key: key, From: from, Data: []byte(key)}}}
}

func TestCallsThatMeetAreOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &slow{Driver: storetest.NewMap()}
		d := coalesce.New(below)
		each := func(f func(i int)) {
			var all sync.WaitGroup
			for i := range 100 {
				all.Go(func() { f(i) })
			}
			all.Wait()
		}
		each(func(i int) {
			if err := d.Apply(t.Context(), "t", put(fmt.Sprint("row", i), 0)); err != nil {
				t.Error(err)
			}
		})
		each(func(i int) {
			got, err := d.Get(t.Context(), "t", []string{"nothing", fmt.Sprint("row", i)})
			if err != nil || len(got) != 2 || got[0].Revision != 0 || string(got[1].Data) != fmt.Sprint("row", i) || got[1].Revision != 1 {
				t.Errorf("%+v, %v", got, err)
			}
		})
		if a, g := below.applies.Load(), below.gets.Load(); a > 2 || g > 2 {
			t.Errorf("100 writes were %d, 100 reads %d; want at most the first alone and the others together", a, g)
		}
		if made, joint := d.Calls(); made != 200 || joint > 4 {
			t.Errorf("%d calls, %d below", made, joint)
		}
	})
}

// quick answers at once, and counts.
type quick struct {
	memory.Driver
	gets atomic.Int64
}

func (q *quick) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	q.gets.Add(1)
	return q.Driver.Get(ctx, tenant, keys)
}

// Below is quicker than the next caller can come: on one processor, whoever is about to
// call comes before what waits is served.
func TestWhoIsAboutToCallJoinsEvenWhatIsServedAtOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	below := &quick{Driver: storetest.NewMap()}
	d := coalesce.New(below)
	const callers, rounds = 32, 20
	for range rounds {
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				if _, err := d.Get(t.Context(), "t", []string{"row"}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	// Two a round, and a few more where the scheduler interrupts somebody.
	if n := below.gets.Load(); n > 4*rounds {
		t.Errorf("%d reads of %d callers were %d below, want some %d", callers*rounds, callers, n, 2*rounds)
	}
}

func TestOfBatchesThatGoTogetherTheStaleOneFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := coalesce.New(&slow{Driver: storetest.NewMap()})
		if err := d.Apply(t.Context(), "t", put("old", 0)); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var stale atomic.Int64
		for i := range 40 {
			all.Go(func() {
				b := put(fmt.Sprint("row", i), 0)
				revision := uint64(1)
				if i%10 == 3 {
					revision = 7 // of the same key that others check rightly
				}
				b.Checks = []memory.Check{{Key: "old", Revision: revision}}
				err := d.Apply(t.Context(), "t", b)
				var conflict *memory.ConflictError
				switch {
				case i%10 == 3 && errors.As(err, &conflict) && conflict.Key == "old":
					stale.Add(1)
				case i%10 == 3 || err != nil:
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		all.Wait()
		if stale.Load() != 4 {
			t.Errorf("%d were stale", stale.Load())
		}
	})
}

func TestAnUnknownOutcomeIsUnknownToAllAndWhoeverLeavesTakesNobodyAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &slow{Driver: storetest.NewMap()}
		d := coalesce.New(below)
		lost := errors.New("the line broke")
		var all sync.WaitGroup
		all.Go(func() { d.Apply(t.Context(), "t", put("first", 0)) })
		synctest.Wait() // it is under way
		below.fail.Store(nil)
		hasty, leave := context.WithCancel(t.Context())
		for i := range 5 {
			all.Go(func() {
				ctx := t.Context()
				if i == 0 {
					ctx = hasty
				}
				err := d.Apply(ctx, "t", put(fmt.Sprint("row", i), 0))
				if i == 0 && !errors.Is(err, context.Canceled) || i > 0 && !errors.Is(err, lost) {
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		synctest.Wait()
		time.Sleep(time.Millisecond) // the first is done, and the five are under way
		synctest.Wait()
		below.fail.Store(&lost)
		leave()
		all.Wait()
		got, err := below.Driver.Get(t.Context(), "t", []string{"row0", "row4"})
		if err != nil || got[0].Revision != 1 || got[1].Revision != 1 {
			t.Errorf("what went together was applied together: %+v, %v", got, err)
		}
	})
}

// Any number of goroutines move money between accounts, and withdraw only if the
// other one is rich: together or not, the sum holds and nobody sees half a move.
func TestTogetherOrNotTheOutcomeIsOneOfSomeOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		accounts, rounds := rapid.IntRange(2, 6).Draw(r, "accounts"), rapid.IntRange(1, 60).Draw(r, "rounds")
		seeds := rapid.SliceOfN(rapid.IntRange(0, 1<<20), rounds, rounds).Draw(r, "moves")
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			d := coalesce.New(&slow{Driver: storetest.NewMap()})
			name := func(i int) string { return fmt.Sprint("account", i%accounts) }
			var fill memory.Batch
			for i := range accounts {
				fill.Puts = append(fill.Puts, memory.Put{Key: name(i), Data: []byte{100}})
			}
			if err := d.Apply(ctx, "t", fill); err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			var moved atomic.Int64
			for _, seed := range seeds {
				all.Go(func() {
					from, to, only := name(seed), name(seed/7), name(seed/49)
					if from == to {
						return
					}
					got, err := d.Get(ctx, "t", []string{from, to, only})
					if err != nil {
						t.Error(err)
						return
					}
					if got[0].Data[0] == 0 || got[2].Data[0] < 50 { // the guard that write skew would break
						return
					}
					b := memory.Batch{Puts: []memory.Put{
						{Key: from, From: got[0].Revision, Data: []byte{got[0].Data[0] - 1}},
						{Key: to, From: got[1].Revision, Data: []byte{got[1].Data[0] + 1}},
						{Key: fmt.Sprintf("log%s@%d", only, got[2].Revision) + fmt.Sprint(seed, got[0].Revision), Data: []byte{1}}}}
					if only != from && only != to {
						b.Checks = []memory.Check{{Key: only, Revision: got[2].Revision}}
					}
					if err := d.Apply(ctx, "t", b); err == nil {
						moved.Add(1)
					} else if !errors.Is(err, memory.ErrConflict) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			sum, revisions := 0, uint64(0)
			for i := range accounts {
				got, err := d.Get(ctx, "t", []string{name(i)})
				if err != nil {
					t.Fatal(err)
				}
				sum, revisions = sum+int(got[0].Data[0]), revisions+got[0].Revision-1
			}
			if sum != 100*accounts || revisions != 2*uint64(moved.Load()) {
				t.Errorf("the accounts have %d, want %d; %d revisions for %d moves", sum, 100*accounts, revisions, moved.Load())
			}
		})
	})
}

// Each of two checks what the other one puts: of such, one goes first and the other
// is stale. Together both would pass.
func TestTwoThatWouldOverlookEachOtherDoNotGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := coalesce.New(&slow{Driver: storetest.NewMap()})
		var all sync.WaitGroup
		var stale atomic.Int64
		all.Go(func() { d.Apply(t.Context(), "t", put("first", 0)) })
		synctest.Wait()
		for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}} {
			all.Go(func() {
				b := put(pair[0], 0)
				b.Checks = []memory.Check{{Key: pair[1], Revision: 0}}
				if err := d.Apply(t.Context(), "t", b); errors.Is(err, memory.ErrConflict) {
					stale.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if stale.Load() != 1 {
			t.Errorf("%d of two were stale", stale.Load())
		}
	})
}
