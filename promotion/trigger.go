package promotion

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Why rows are parked, for people.
const (
	uncovered = "no verifier covers this claim"
	stuck     = "stuck: " // begins the reason of [memory.ParkedStuck]
)

// reconsider marks the rows due again that were parked since no source covered them, if this worker has one
// that does. It looks every now and then, since another process may park them while this one cannot say what
// it covers. It returns when ctx ends.
func (w *Worker) reconsider(ctx context.Context) {
	repeat(ctx, nil, func() time.Duration {
		began, pause := time.Now(), mostIdle
		if err := w.unparkCovered(ctx); err == nil || isUnreadable(err) {
			pause = reconsiderEvery
		}
		return max(pause, restOfLooks*time.Since(began))
	})
}

// unparkCovered marks the rows that were parked since no source covered them due, if one does now.
func (w *Worker) unparkCovered(ctx context.Context) error {
	ctx, goesOn, cancel := whileItGoesOn(ctx)
	defer cancel()
	var page []memory.Due
	var faults []error
	those := func() error {
		covering, err := w.covering(ctx, page)
		if err != nil {
			return err
		}
		for _, d := range page {
			if len(covering[d.ID]) == 0 {
				continue
			}
			goesOn()
			if _, err := unpark(ctx, w.store, d, "a worker started"); isUnreadable(err) {
				faults = append(faults, err)
			} else if err != nil {
				return err
			}
		}
		page = page[:0]
		return nil
	}
	for d, err := range w.store.ParkedRows(ctx) {
		if err != nil {
			return err
		}
		if goesOn(); d.Parked != memory.ParkedUncovered {
			continue
		}
		if page = append(page, d); len(page) == parkedPage {
			if err := those(); err != nil {
				return err
			}
		}
	}
	if err := those(); err != nil {
		return err
	}
	return errors.Join(faults...)
}

// Unpark marks those of the parked rows due now that are wanted, and says how many; workers find them at
// their next look. A row whose mark cannot be written holds up no other. The error says so.
func Unpark(ctx context.Context, store Store, why string, want func(memory.Due) bool) (int, error) {
	n := 0
	var faults []error
	for r, err := range store.ParkedRows(ctx) {
		if err != nil {
			return n, err
		}
		if !want(r) {
			continue
		}
		switch done, err := unpark(ctx, store, r, why); {
		case isUnreadable(err):
			faults = append(faults, err)
		case err != nil:
			return n, err
		case done:
			n++
		}
	}
	return n, errors.Join(faults...)
}

// unpark marks a parked row due now. It reports whether the row is still there.
func unpark(ctx context.Context, store Store, d memory.Due, why string) (bool, error) {
	err := store.Reschedule(ctx, d.ID, store.Now(), d.Tries, why)
	if errors.Is(err, memory.ErrNotFound) || errors.Is(err, memory.ErrErased) {
		return false, nil
	}
	return err == nil, err
}

// Retry brings back those of the rows that wait which are wanted: parked rows are due now, and a row
// that was set aside for a source, since questions about it failed, is so no more. It says how many were
// parked, and how many set aside. Workers find them at their next look; see [Scope.Sweep].
func Retry(ctx context.Context, store Store, why string, want func(memory.Due) bool) (parked, aside int, err error) {
	for d, err := range store.DueNow(ctx) {
		if err != nil {
			return parked, aside, err
		}
		if !want(d) {
			continue
		}
		was, now := false, store.Now()
		for _, m := range d.Sources {
			if m.Failures == 0 || !m.Until.After(now) {
				continue
			}
			switch _, err := store.Note(ctx, d, memory.SourceMark{Source: m.Source, Until: now}); {
			case err == nil:
				was = true
			case !remarked(err):
				return parked, aside, err
			}
		}
		if was {
			aside++
		}
	}
	parked, err = Unpark(ctx, store, why, want)
	return parked, aside, err
}

// Limits of a [Heater].
const (
	heatFlush    = 100 * time.Millisecond
	maxHeated    = 10_000 // rows noted between two flushes; more are dropped, and cost order only
	unparkEvery  = 10 * time.Minute
	blockedReads = 100 // a blocked call is the hottest read there is
	maxWeight    = 1e9
)

// Heater notes reads and passes them on in batches, off the tool-call path: to the store, which keeps the
// decayed count, and if a row that was read is due, to those who serve its scope (SR-7.3). It is safe for
// concurrent use.
type Heater struct {
	store  Store
	looker Looker
	logger *slog.Logger

	mu    sync.Mutex
	reads map[memory.ID]float64

	flushing sync.Mutex              // one flush at a time
	unparked map[memory.ID]time.Time // when a read last brought a parked row back; used by a flush
}

// NewHeater returns a heater; it passes nothing on before Serve runs. The looker is the queue, as a rule. With
// a nil looker the heater counts in the store only, and workers of other processes find the rows at their next
// look. A nil logger is none.
func NewHeater(store Store, looker Looker, logger *slog.Logger) *Heater {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Heater{store: store, looker: looker, logger: logger, reads: map[memory.ID]float64{}, unparked: map[memory.ID]time.Time{}}
}

// ObserveReads notes that rows were read. It never blocks on I/O and never fails. A weight that is not
// above 0 and finite counts nothing, nor does an id that is none of a row.
func (h *Heater) ObserveReads(_ context.Context, ids []memory.ID, weight float64) {
	if !(weight > 0 && weight <= maxWeight) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		if _, have := h.reads[id]; id.Valid() && (have || len(h.reads) < maxHeated) {
			h.reads[id] += weight
		}
	}
}

// ObserveBlocked notes that a call was blocked over these rows.
func (h *Heater) ObserveBlocked(ctx context.Context, ids []memory.ID) {
	h.ObserveReads(ctx, ids, blockedReads)
}

// Serve passes reads on every tenth of a second until ctx ends, and once more
// then. A failure is logged, at most every 30 seconds.
func (h *Heater) Serve(ctx context.Context) error { return h.serve(ctx, h.looker) }

func (h *Heater) serve(ctx context.Context, looker Looker) error {
	t := time.NewTicker(heatFlush)
	defer t.Stop()
	for said := (time.Time{}); ; {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			return h.flush(last, looker)
		case <-t.C:
			if err := h.flush(ctx, looker); err != nil && ctx.Err() == nil && time.Since(said) >= DefaultTick {
				said = time.Now()
				h.logger.LogAttrs(ctx, slog.LevelWarn, "reads were not passed on, or not all of them", slog.Any("error", err))
			}
		}
	}
}

// Flush passes on what was noted so far. It waits for another flush to end, also for one of
// Serve. A row whose mark cannot be read is left out, and the error says so.
func (h *Heater) Flush(ctx context.Context) error { return h.flush(ctx, h.looker) }

func (h *Heater) flush(ctx context.Context, looker Looker) error {
	h.flushing.Lock()
	defer h.flushing.Unlock()
	h.mu.Lock()
	reads := h.reads
	h.reads = map[memory.ID]float64{}
	h.mu.Unlock()
	if len(reads) == 0 {
		return nil
	}
	marks, fault := h.store.AddHeat(ctx, reads)
	if err := fault; err != nil && !errors.Is(err, memory.ErrDamaged) {
		if ctx.Err() != nil { // for the last flush
			for id, weight := range reads {
				h.ObserveReads(ctx, []memory.ID{id}, weight)
			}
		}
		return err
	}
	due := false
	for _, mark := range marks { // of damaged ones, fault says so
		wanted, err := h.wanted(ctx, mark)
		if !errors.Is(err, memory.ErrErased) && !errors.Is(err, memory.ErrNotFound) { // it goes this moment
			fault = errors.Join(fault, err)
		}
		due = due || wanted
	}
	if due && looker != nil {
		fault = errors.Join(fault, looker.Look(ctx, h.store.Tenant(), h.store.Namespace()))
	}
	return fault
}

// wanted reports whether a row that was read wants a check now. A row that was parked does so
// because it was read, once in a while.
func (h *Heater) wanted(ctx context.Context, mark memory.Due) (bool, error) {
	now := h.store.Now()
	if !mark.At.IsZero() {
		return !mark.At.After(now), nil
	}
	if mark.Parked == memory.ParkedStuck || now.Sub(h.unparked[mark.ID]) < unparkEvery {
		return false, nil
	}
	if err := h.store.Reschedule(ctx, mark.ID, now, mark.Tries, "read again"); err != nil {
		return false, err
	}
	if len(h.unparked) >= maxHeated {
		clear(h.unparked)
	}
	h.unparked[mark.ID] = now
	return true, nil
}
