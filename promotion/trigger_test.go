package promotion_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

func TestAVerifierGetsNoMoreThanItsBudgetATick(t *testing.T) { // D-20
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := verifiertest.New("one", verifiertest.Unclear()), verifiertest.New("two", verifiertest.Unclear())
		worker := w.worker(&promotion.Options{Budget: 5, Tick: time.Minute}, source(one), promotion.Source{Name: "two", Verifier: two,
			Covers: func(c memory.Content) bool { return c.Subject == "row11" }})
		var ids []memory.ID
		for i := range 12 {
			ids = append(ids, w.claim(fmt.Sprint("row", i), "Oslo", nil))
		}
		for i, id := range ids {
			r := w.check(worker, id)
			want := promotion.Unclear
			if i >= 5 {
				want = promotion.Deferred
			}
			if r.Status != want || want == promotion.Deferred && time.Until(r.RetryAt).Round(time.Millisecond) != 12*time.Second {
				t.Errorf("row %d: %+v", i, r)
			}
		}
		if one.Calls() != 5 || two.Calls() != 1 {
			t.Errorf("%d and %d calls; each verifier has a budget of its own", one.Calls(), two.Calls())
		}
		<-time.After(time.Minute)
		for _, id := range ids[5:] {
			w.check(worker, id)
		}
		if one.Calls() != 10 {
			t.Errorf("%d calls in two ticks", one.Calls())
		}
	})
}

// unmarked is a store that counts reads, and gives an error in the place of the mark of one row.
type unmarked struct {
	promotion.Store
	row memory.ID
	err error
}

func (u unmarked) AddHeat(ctx context.Context, reads map[memory.ID]float64) ([]memory.Due, error) {
	marks, err := u.Store.AddHeat(ctx, reads)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(marks, func(d memory.Due) bool { return d.ID == u.row }), u.err
}

func TestAMarkThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		looks int64
	}{
		{"of a row that has gone", nil, 1},
		{"one that is damaged", fmt.Errorf("%w: due mark", memory.ErrDamaged), 1},
		{"but a store that fails is not asked for the rest", fmt.Errorf("%w: gone", memory.ErrStore), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, q := newWorld(t), &looks{}
			var ids []memory.ID
			for i := range 8 {
				ids = append(ids, w.claim(fmt.Sprint("row", i), "Oslo", nil))
			}
			h := promotion.NewHeater(unmarked{w.store, ids[3], c.err}, q, nil)
			h.ObserveReads(w.ctx, ids, 1)
			if err := h.Flush(w.ctx); q.n.Load() != c.looks || !errors.Is(err, c.err) {
				t.Errorf("%d looks, %v", q.n.Load(), err)
			}
		})
	}
}

// cut is a driver that gives the due mark of one row cut short.
type cut struct {
	memory.Driver
	row memory.ID
}

func (c *cut) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	objs, err := c.Driver.Get(ctx, tenant, keys)
	for i := range objs {
		if c.row != "" && memory.KeyText(objs[i].Key) == "due/"+string(c.row) && objs[i].Data != nil {
			objs[i].Data = objs[i].Data[:3]
		}
	}
	return objs, err
}

// A row whose due mark is damaged is not lost: it is listed, and parked, where a person finds it and brings it
// back.
func TestADamagedMarkLosesNoRow(t *testing.T) {
	w := newWorld(t)
	d := &cut{Driver: storetest.NewMap()}
	w.store = storetest.On(d, &memory.Options{Clock: w.clock})
	var ids []memory.ID
	for i := range 5 {
		ids = append(ids, w.claim(fmt.Sprint("row", i), "Oslo", nil))
	}
	d.row = ids[2]
	listed := map[memory.ID]bool{}
	for mark, err := range w.store.DueNow(w.ctx) {
		if err != nil {
			t.Fatal(err)
		}
		listed[mark.ID] = true
	}
	if len(listed) != 5 {
		t.Errorf("%d rows are listed", len(listed))
	}
	worker := w.worker(nil, source(verifiertest.New("crm", verifiertest.Supports())))
	if _, err := worker.Check(w.ctx, ids[2]); !errors.Is(err, memory.ErrDamaged) {
		t.Errorf("its check says %v", err)
	}
	if err := worker.Park(w.ctx, ids[2], "it cannot be checked"); err != nil {
		t.Fatal(err)
	}
	d.row = ""
	if m := w.mark(ids[2]); !m.At.IsZero() || m.Reason != "stuck: it cannot be checked" {
		t.Errorf("%+v", m)
	}
	if n, err := promotion.Unpark(w.ctx, w.store, "mended", func(memory.Due) bool { return true }); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	w.want(ids[2], memory.StateVerified, w.check(worker, ids[2]), promotion.Promoted)
}

// failing is a queue that is not there.
type failing struct{ err error }

func (f failing) Look(context.Context, string, string) error { return f.err }

func TestAHeaterSaysWhenTheQueueIsNotReached(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "Oslo", nil)
	gone := errors.New("gone")
	h := promotion.NewHeater(w.store, failing{gone}, nil)
	h.ObserveReads(t.Context(), []memory.ID{id, "no id"}, 3) // what is no id takes nothing from the others
	if err := h.Flush(w.ctx); !errors.Is(err, gone) {
		t.Errorf("flush: %v", err)
	}
	if got := w.mark(id).Heat; got != 3 {
		t.Errorf("the reads are counted none the less: %v", got)
	}
}

func TestAHeaterPassesReadsOnInBatchesAndOnceMoreAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, q := newWorld(t), &looks{}
		id := w.claim("acme", "Oslo", nil)
		h := promotion.NewHeater(w.store, q, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.Serve(ctx) }()
		for range 30 {
			h.ObserveReads(t.Context(), []memory.ID{id}, 1)
		}
		<-time.After(time.Second)
		if n, heat := q.n.Load(), w.mark(id).Heat; n != 1 || heat != 30 {
			t.Errorf("thirty reads were passed on %d times: %v", n, heat)
		}
		h.ObserveBlocked(t.Context(), []memory.ID{id})
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n, heat := q.n.Load(), w.mark(id).Heat; n != 2 || heat != 130 {
			t.Errorf("what a blocked call noted last was lost: %d, %v", n, heat)
		}
	})
}

// stuck is a store whose heat is never taken.
type stuck struct {
	promotion.Store
	got     chan int
	release chan struct{}
}

func (s *stuck) AddHeat(ctx context.Context, reads map[memory.ID]float64) ([]memory.Due, error) {
	s.got <- len(reads)
	<-s.release
	return nil, nil
}

func TestAHeaterNeverBlocksAndIsBounded(t *testing.T) { // SR-7.3
	s := &stuck{Store: storetest.NewStore(nil), got: make(chan int, 9), release: make(chan struct{})}
	h := promotion.NewHeater(s, nil, nil)
	note := func(from, to int) {
		for i := from; i < to; i++ {
			h.ObserveReads(t.Context(), []memory.ID{memory.ID(fmt.Sprintf("mem_%025d0", i))}, 1)
		}
	}
	note(0, 5)
	var flushes sync.WaitGroup
	flushes.Go(func() {
		if err := h.Flush(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if n := <-s.got; n != 5 {
		t.Errorf("%d rows", n)
	}
	// The store is stuck now. Readers go on, from all sides.
	var readers sync.WaitGroup
	for i := range 8 {
		readers.Go(func() { note(i*10_000, (i+1)*10_000) })
	}
	readers.Wait()
	close(s.release)
	flushes.Wait()
	if err := h.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := <-s.got; n != 10_000 {
		t.Errorf("%d rows were held", n)
	}
}

// busy is a store whose counting of reads takes until it is told to go on.
type busy struct {
	promotion.Store
	begun chan struct{}
	end   chan struct{}
}

func (b busy) AddHeat(ctx context.Context, reads map[memory.ID]float64) ([]memory.Due, error) {
	b.begun <- struct{}{}
	<-b.end
	return b.Store.AddHeat(ctx, reads)
}

// TestFlushesAreMadeOneAtATime: that of Serve, too.
func TestFlushesAreMadeOneAtATime(t *testing.T) {
	w := newWorld(t)
	ids := []memory.ID{w.claim("one", "Oslo", nil), w.claim("two", "Oslo", nil)}
	b := busy{w.store, make(chan struct{}, 2), make(chan struct{})}
	h := promotion.NewHeater(b, nil, nil)
	ended := make(chan error, len(ids))
	for i, id := range ids {
		h.ObserveReads(w.ctx, []memory.ID{id}, 1)
		go func() { ended <- h.Flush(w.ctx) }()
		if i == 0 {
			<-b.begun
		}
	}
	select {
	case <-b.begun:
		t.Error("a flush begins while another one is at work")
	case <-time.After(50 * time.Millisecond):
	}
	close(b.end)
	for range ids {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
