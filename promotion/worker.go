package promotion

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

// Store is what promotion needs of a store; [*memory.Store] is one.
type Store interface {
	Get(ctx context.Context, ids ...memory.ID) ([]memory.Row, error)
	Apply(ctx context.Context, t memory.Transition) (memory.Head, error)
	AddEvidence(ctx context.Context, row memory.ID, actor, reason string, evidence ...memory.Evidence) error
	Reschedule(ctx context.Context, row memory.ID, at time.Time, tries int, reason string) error
	DueMark(ctx context.Context, row memory.ID) (memory.Due, bool, error)
	DueRows(ctx context.Context, at time.Time, after string, limit int) ([]memory.Due, string, error)
	AddHeat(ctx context.Context, reads map[memory.ID]float64) error
	Now() time.Time
}

// Source is a verifier and the claims it can be asked about.
type Source struct {
	Name     string
	Verifier verifier.Verifier
	Rank     memory.Rank // sources are asked in order of rank, highest first; unset = last
	// Covers says whether the source can be asked about a claim; nil = about all.
	Covers func(memory.Content) bool
}

// Status is how a check ended.
type Status uint8

// The statuses.
const (
	_        Status = iota
	Promoted        // the row is verified, or verified again
	Demoted         // the row lost the verified state, or was refuted
	Kept            // evidence was kept; no state moved
	Unclear         // nobody could tell
	Down            // every source that could tell is down; the check comes back
	Deferred        // the budget of this tick is spent
	NotDue          // the last verdict still holds; nobody was asked
	Parked          // nobody can be asked; a read brings the row back
	Moved           // the row moved meanwhile, or is gone; nothing to do
)

var statusNames = [...]string{"unset", "promoted", "demoted", "kept", "unclear", "down", "deferred", "not_due", "parked", "moved"}

// String returns the lower-case name.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return statusNames[0]
}

// Result of one check.
type Result struct {
	ID      memory.ID
	Status  Status
	RetryAt time.Time // of Down and Deferred: when to come back, by the wall clock
	Calls   int       // verifiers asked
}

// Defaults of [Options].
const (
	DefaultVerdictLifetime = time.Hour
	DefaultBudget          = 50 // checks a tick (D-20)
	DefaultTick            = 30 * time.Second
	maxBackoff             = 7 * 24 * time.Hour
)

// Options of a [Worker]. Every zero field has a usable default.
type Options struct {
	Name string // of the worker in the audit; "" = "worker"
	// VerdictLifetime is how long an answer that moved nothing stands: the row is
	// not asked about again before, however often it is read. It doubles with each
	// such answer, up to a week. 0 = one hour.
	VerdictLifetime time.Duration
	// Budget is how many calls one verifier gets a tick; 0 = 50, negative = no limit.
	Budget int
	Tick   time.Duration // 0 = 30 s
	// Observe hears of every result, for metrics; nil = nobody. It must not block.
	Observe func(Result)
	Logger  *slog.Logger // nil = none
}

// Worker checks rows. It knows no queue. It is safe for concurrent use, and every
// check is safe to repeat and to overlap.
type Worker struct {
	store   Store
	sources []Source
	opts    Options

	mu    sync.Mutex
	tick  time.Time
	spent map[string]int
}

// NewWorker returns a worker that asks these sources.
func NewWorker(store Store, sources []Source, o *Options) (*Worker, error) {
	if store == nil {
		return nil, errors.New("promotion: NewWorker: no store")
	}
	w := &Worker{store: store, sources: slices.Clone(sources), spent: map[string]int{}}
	if o != nil {
		w.opts = *o
	}
	names := map[string]bool{}
	for _, s := range w.sources {
		switch {
		case s.Name == "" || s.Verifier == nil:
			return nil, errors.New("promotion: NewWorker: a source without a name or a verifier")
		case names[s.Name]:
			return nil, fmt.Errorf("promotion: NewWorker: two sources named %q", s.Name)
		}
		names[s.Name] = true
	}
	slices.SortStableFunc(w.sources, func(a, b Source) int { return int(b.Rank) - int(a.Rank) })
	if w.opts.Name == "" {
		w.opts.Name = "worker"
	}
	if w.opts.VerdictLifetime <= 0 {
		w.opts.VerdictLifetime = DefaultVerdictLifetime
	}
	if w.opts.Budget == 0 {
		w.opts.Budget = DefaultBudget
	}
	if w.opts.Tick <= 0 {
		w.opts.Tick = DefaultTick
	}
	if w.opts.Logger == nil {
		w.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return w, nil
}

// Check asks about one row and applies what the answer leads to. It returns an
// error only for faults of the store and a cancelled ctx; a verifier that is down
// is a result, not a failure (SR-7.6).
func (w *Worker) Check(ctx context.Context, id memory.ID) (Result, error) {
	r, err := w.check(ctx, id)
	r.ID = id
	if err == nil && w.opts.Observe != nil {
		w.opts.Observe(r)
	}
	return r, err
}

func (w *Worker) check(ctx context.Context, id memory.ID) (Result, error) {
	mark, due, err := w.store.DueMark(ctx, id)
	if err != nil {
		return Result{}, err
	}
	if !due || mark.At.IsZero() || mark.At.After(w.store.Now()) {
		return Result{Status: NotDue}, nil
	}
	rows, err := w.store.Get(ctx, id)
	if errors.Is(err, memory.ErrNotFound) {
		return Result{Status: Moved}, nil
	}
	if err != nil {
		return Result{}, err
	}
	row := rows[0]
	var (
		res      Result
		covered  bool
		answered bool
		kept     bool
	)
	for _, s := range w.sources {
		if s.Covers != nil && !s.Covers(row.Content) {
			continue
		}
		covered = true
		if !w.spend(s.Name) {
			res.wait(Deferred, w.nextTick())
			continue
		}
		res.Calls++
		v, err := s.Verifier.Verify(ctx, row)
		if err != nil {
			if ctx.Err() != nil {
				return res, ctx.Err()
			}
			w.fault(ctx, &res, s.Name, id, err)
			continue
		}
		move := Next(row, v)
		answered = answered || move.Answered
		status, err := w.apply(ctx, row, v, move)
		switch {
		case err != nil:
			return res, err
		case status == Promoted, status == Demoted, status == Moved:
			res.Status = status
			return res, nil
		case status == Kept:
			kept = true
		}
	}
	switch {
	case !covered:
		res.Status = Parked
		return res, w.store.Reschedule(ctx, id, time.Time{}, mark.Tries, "no verifier covers this claim")
	case answered:
		res.Status = Unclear
		if kept {
			res.Status = Kept
		}
		return res, w.later(ctx, row, mark)
	case res.Status == 0:
		// Misconfigured all round: somebody was alarmed. Come back later.
		res.Status = Unclear
		return res, w.later(ctx, row, mark)
	}
	return res, nil // down or deferred: the row stays due, as it is
}

// wait notes that the check has to come back, at the earliest time any source can.
func (r *Result) wait(s Status, at time.Time) {
	if r.RetryAt.IsZero() || at.Before(r.RetryAt) {
		r.RetryAt = at
	}
	if r.Status != Down {
		r.Status = s
	}
}

// fault tells a verifier that is down from one that is misconfigured.
func (w *Worker) fault(ctx context.Context, res *Result, source string, id memory.ID, err error) {
	if errors.Is(err, verifier.ErrUnavailable) {
		at := time.Now().Add(time.Second)
		var down *verifier.UnavailableError
		if errors.As(err, &down) && down.RetryAfter > 0 {
			at = time.Now().Add(down.RetryAfter)
		}
		res.wait(Down, at)
		w.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "verifier is down", slog.String("verifier", source), slog.String("row", string(id)), slog.Time("retry_at", at))
		return
	}
	w.opts.Logger.LogAttrs(ctx, slog.LevelError, "verifier cannot be used", slog.String("verifier", source), slog.String("row", string(id)), slog.Any("error", err))
}

// apply makes a move. Kept is the answer of every rule that says "not this time".
func (w *Worker) apply(ctx context.Context, row memory.Row, v verifier.Verdict, m Move) (Status, error) {
	t := memory.Transition{Row: row.ID, Revision: row.Revision, Authority: memory.AuthorityProbe, Actor: w.opts.Name,
		Source: v.Evidence.Source, Reason: m.Reason, Evidence: []memory.Evidence{v.Evidence}}
	done := Promoted
	switch m.Action {
	case Promote:
		t.To = memory.TruthSupported
	case Demote:
		t.To, done = memory.TruthContradicted, Demoted
	case Keep:
		return Kept, w.keep(ctx, row.ID, m.Reason, v.Evidence)
	default:
		return Unclear, nil
	}
	_, err := w.store.Apply(ctx, t)
	switch {
	case err == nil:
		return done, nil
	case errors.Is(err, memory.ErrConflict), errors.Is(err, memory.ErrNotFound):
		return Moved, nil
	case errors.Is(err, memory.ErrContested):
		return Kept, nil
	case errors.Is(err, memory.ErrInsufficient), errors.Is(err, memory.ErrRejected), errors.Is(err, memory.ErrOutranked), errors.Is(err, memory.ErrIllegalMove):
		return Kept, w.keep(ctx, row.ID, m.Reason+"; "+err.Error(), v.Evidence)
	}
	return 0, err
}

func (w *Worker) keep(ctx context.Context, id memory.ID, reason string, e memory.Evidence) error {
	err := w.store.AddEvidence(ctx, id, w.opts.Name, reason, e)
	if errors.Is(err, memory.ErrNotFound) {
		return nil
	}
	return err
}

// later ends an outage that was recorded at the write, and says when the row may
// be asked about again.
func (w *Worker) later(ctx context.Context, row memory.Row, mark memory.Due) error {
	if row.Outage == memory.OutageRecorded {
		_, err := w.store.Apply(ctx, memory.Transition{Row: row.ID, Revision: row.Revision, To: memory.OutageResolved,
			Authority: memory.AuthorityProbe, Actor: w.opts.Name, Source: "verifier", Reason: "the verifier answers again"})
		if err != nil && !errors.Is(err, memory.ErrConflict) {
			return err
		}
	}
	wait := min(w.opts.VerdictLifetime<<min(mark.Tries, 12), maxBackoff)
	return w.store.Reschedule(ctx, row.ID, w.store.Now().Add(wait), mark.Tries+1, "asked, and nothing moved")
}

// spend takes one call from a verifier's budget of this tick.
func (w *Worker) spend(source string) bool {
	if w.opts.Budget < 0 {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.tick) >= w.opts.Tick {
		w.tick = now
		clear(w.spent)
	}
	if w.spent[source] >= w.opts.Budget {
		return false
	}
	w.spent[source]++
	return true
}

func (w *Worker) nextTick() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tick.Add(w.opts.Tick)
}
