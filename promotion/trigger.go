package promotion

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/hearsay-go/hearsay/memory"
)

// Offer is a row that wants a check, and its place in the order: heat first, then
// confidence, then age.
type Offer struct {
	ID         memory.ID
	Heat       float64
	Confidence float64
	Reader     trace.SpanContext // of the read or blocked call that wants it; zero = unknown
}

// Order is the place of an offer: the lowest goes first. Heat decides, then
// confidence; of equals the older id, which a queue sees to.
func (o Offer) Order() float64 {
	return -(math.Round(within(o.Heat, 1e9)*100)*10 + 9*within(o.Confidence, 1))
}

// within puts v into 0..limit; what is no number is 0.
func within(v, limit float64) float64 {
	if !(v > 0) {
		return 0
	}
	return min(v, limit)
}

// Queue takes offers. Offering a row that is waiting moves it; offering one that
// is being worked on does nothing. It must be safe for concurrent use.
type Queue interface {
	Offer(ctx context.Context, rows []Offer) error
}

// sweepPage is how many due rows are read at a time.
const sweepPage = 200

// Sweeper offers every due row to the queue, on its own schedule (SR-7.2). Since
// the row store alone says what is due, a sweep is also how a lost queue is
// rebuilt.
type Sweeper struct {
	store    Store
	queue    Queue
	interval time.Duration
	logger   *slog.Logger
}

// NewSweeper returns a sweeper. interval 0 = 30 s; a nil logger is none.
func NewSweeper(store Store, queue Queue, interval time.Duration, logger *slog.Logger) *Sweeper {
	if interval <= 0 {
		interval = DefaultTick
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Sweeper{store: store, queue: queue, interval: interval, logger: logger}
}

// Sweep offers all rows that are due now, and says how many.
func (s *Sweeper) Sweep(ctx context.Context) (int, error) {
	for woken := sweepPage; woken == sweepPage; {
		var err error
		if woken, _, err = s.store.WakeDue(ctx, sweepPage); err != nil {
			return 0, err
		}
	}
	n := 0
	var page []memory.Due
	flush := func() error {
		offers, err := offer(ctx, s.store, page)
		if page = nil; err != nil || len(offers) == 0 {
			return err
		}
		n += len(offers)
		return s.queue.Offer(ctx, offers)
	}
	for d, err := range s.store.DueNow(ctx) {
		if err != nil {
			return n, err
		}
		if page = append(page, d); len(page) == sweepPage {
			if err := flush(); err != nil {
				return n, err
			}
		}
	}
	return n, flush()
}

// Why rows are parked.
const (
	uncovered = "no verifier covers this claim"
	stuck     = "stuck: " // the queue gave up on it; a read does not bring it back
)

// Reconsider marks the rows due again that were parked since no verifier covered
// them: another worker, or this one with another configuration, may have one that
// does. It says how many.
func (s *Sweeper) Reconsider(ctx context.Context) (int, error) { return reconsider(ctx, s.store) }

func reconsider(ctx context.Context, store Store) (int, error) {
	return Unpark(ctx, store, "a worker started", func(d memory.Due) bool { return d.Reason == uncovered })
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
		switch err := store.Reschedule(ctx, r.ID, store.Now(), r.Tries, why); {
		case errors.Is(err, memory.ErrNotFound), errors.Is(err, memory.ErrErased):
		case isUnreadable(err):
			faults = append(faults, err)
		case err != nil:
			return n, err
		default:
			n++
		}
	}
	return n, errors.Join(faults...)
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

// sweepShare bounds what of the time sweeps take, of a store with very many due rows:
// after one that took long, the next begins later than the interval.
const sweepShare = 4

// Serve reconsiders what is parked, sweeps at once and then at every interval,
// until ctx ends. A sweep that fails is tried again at the next. Between two sweeps
// passes four times what the last one took, at least.
func (s *Sweeper) Serve(ctx context.Context) error {
	if _, err := s.Reconsider(ctx); err != nil && ctx.Err() == nil {
		s.logger.LogAttrs(ctx, slog.LevelWarn, "parked rows were not reconsidered", slog.Any("error", err))
	}
	t := time.NewTimer(0)
	<-t.C
	defer t.Stop()
	for {
		began := time.Now()
		if n, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.logger.LogAttrs(ctx, slog.LevelWarn, "sweep failed", slog.Int("offered", n), slog.Any("error", err))
		}
		took := time.Since(began)
		t.Reset(max(s.interval-took, sweepShare*took))
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// offer completes due rows with their confidence, in one read unless one of them
// vanished or is being erased; those are left out. If the rows cannot be read, they are
// offered without it: one that is damaged holds up no other, and its check says so.
func offer(ctx context.Context, store Store, due []memory.Due) ([]Offer, error) {
	if len(due) == 0 {
		return nil, nil
	}
	ids := make([]memory.ID, len(due))
	for i, d := range due {
		ids[i] = d.ID
	}
	rows, err := store.Get(ctx, ids...)
	gone := errors.Is(err, memory.ErrNotFound) || errors.Is(err, memory.ErrErased)
	switch {
	case gone && len(due) == 1:
		return nil, nil
	case gone:
		half := len(due) / 2
		left, err := offer(ctx, store, due[:half])
		if err != nil {
			return nil, err
		}
		right, err := offer(ctx, store, due[half:])
		return append(left, right...), err
	case ctx.Err() != nil:
		return nil, err
	}
	out := make([]Offer, len(due))
	for i, d := range due {
		out[i] = Offer{ID: d.ID, Heat: d.Heat}
		if err == nil {
			out[i].Confidence = rows[i].ValueConfidence
		}
	}
	return out, nil
}

// Limits of a [Heater].
const (
	heatFlush    = 100 * time.Millisecond
	maxHeated    = 10_000 // rows noted between two flushes; more are dropped, and cost order only
	unparkEvery  = 10 * time.Minute
	blockedReads = 100 // a blocked call is the hottest read there is
	maxWeight    = 1e9
)

// Heater notes reads and passes them on in batches, off the tool-call path: to
// the store, which keeps the decayed count, and to the queue, if the row is due
// (SR-7.3). It is safe for concurrent use.
type Heater struct {
	store  Store
	queue  Queue
	logger *slog.Logger

	mu      sync.Mutex
	reads   map[memory.ID]float64
	readers map[memory.ID]trace.SpanContext // the last of each row

	flush    sync.Mutex              // one flush at a time
	unparked map[memory.ID]time.Time // when a read last brought a parked row back; used by a flush
}

// NewHeater returns a heater; it passes nothing on before Serve runs. With a nil
// queue it counts in the store only, and the sweep of a worker in another process
// takes the rows up by that count. A nil logger is none.
func NewHeater(store Store, queue Queue, logger *slog.Logger) *Heater {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Heater{store: store, queue: queue, logger: logger, reads: map[memory.ID]float64{}, readers: map[memory.ID]trace.SpanContext{}, unparked: map[memory.ID]time.Time{}}
}

// ObserveReads notes that rows were read. It never blocks on I/O and never fails.
// A weight that is not above 0 and finite counts nothing. Of ctx only the span is
// used: the check that follows is linked to it.
func (h *Heater) ObserveReads(ctx context.Context, ids []memory.ID, weight float64) {
	if !(weight > 0 && weight <= maxWeight) {
		return
	}
	span := trace.SpanContextFromContext(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		if _, have := h.reads[id]; have || len(h.reads) < maxHeated {
			h.reads[id] += weight
			if span.IsValid() {
				h.readers[id] = span
			}
		}
	}
}

// ObserveBlocked notes that a call was blocked over these rows.
func (h *Heater) ObserveBlocked(ctx context.Context, ids []memory.ID) {
	h.ObserveReads(ctx, ids, blockedReads)
}

// Serve passes reads on every tenth of a second until ctx ends, and once more
// then.
func (h *Heater) Serve(ctx context.Context) error {
	t := time.NewTicker(heatFlush)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			return h.Flush(last)
		case <-t.C:
			if err := h.Flush(ctx); err != nil && ctx.Err() == nil {
				h.logger.LogAttrs(ctx, slog.LevelWarn, "reads not counted", slog.Any("error", err))
			}
		}
	}
}

// unpark says whether a read may bring a parked row back now.
func (h *Heater) unpark(id memory.ID) bool {
	now := h.store.Now()
	if now.Sub(h.unparked[id]) < unparkEvery {
		return false
	}
	if len(h.unparked) >= maxHeated {
		clear(h.unparked)
	}
	h.unparked[id] = now
	return true
}

// Flush passes on what was noted so far. It waits for another flush to end, also for one of
// Serve. A row whose mark cannot be read is left out, and the error says so.
func (h *Heater) Flush(ctx context.Context) error {
	h.flush.Lock()
	defer h.flush.Unlock()
	h.mu.Lock()
	reads, readers := h.reads, h.readers
	h.reads, h.readers = map[memory.ID]float64{}, map[memory.ID]trace.SpanContext{}
	h.mu.Unlock()
	if len(reads) == 0 {
		return nil
	}
	marks, fault := h.store.AddHeat(ctx, reads)
	if err := fault; err != nil && !errors.Is(err, memory.ErrDamaged) {
		if ctx.Err() != nil { // for the last flush
			for id, weight := range reads {
				h.ObserveReads(trace.ContextWithSpanContext(ctx, readers[id]), []memory.ID{id}, weight)
			}
		}
		return err
	}
	var due []memory.Due
	for _, mark := range marks { // of damaged ones, fault says so
		wanted, err := h.wanted(ctx, mark)
		switch {
		case errors.Is(err, memory.ErrErased), errors.Is(err, memory.ErrNotFound): // it goes this moment
		case err != nil:
			return err
		case wanted:
			due = append(due, mark)
		}
	}
	return errors.Join(fault, h.offer(ctx, due, readers))
}

// wanted reports whether a row that was read wants a check now. A row that was parked does so
// because it was read, once in a while.
func (h *Heater) wanted(ctx context.Context, mark memory.Due) (bool, error) {
	if !mark.At.IsZero() {
		return !mark.At.After(h.store.Now()), nil
	}
	if strings.HasPrefix(mark.Reason, stuck) || !h.unpark(mark.ID) {
		return false, nil
	}
	err := h.store.Reschedule(ctx, mark.ID, h.store.Now(), mark.Tries, "read again")
	return err == nil, err
}

// offer passes rows that are due on to the queue.
func (h *Heater) offer(ctx context.Context, due []memory.Due, readers map[memory.ID]trace.SpanContext) error {
	if h.queue == nil {
		return nil
	}
	offers, err := offer(ctx, h.store, due)
	if err != nil || len(offers) == 0 {
		return err
	}
	for i := range offers {
		offers[i].Reader = readers[offers[i].ID]
	}
	return h.queue.Offer(ctx, offers)
}
