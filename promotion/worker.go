package promotion

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/time/rate"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

// Store is what promotion needs of a store; [*memory.Store] is one.
type Store interface {
	Get(ctx context.Context, ids ...memory.ID) ([]memory.Row, error)
	Apply(ctx context.Context, t memory.Transition) (memory.Head, error)
	Renew(ctx context.Context, t memory.Transition) (memory.Head, error)
	AddEvidence(ctx context.Context, row memory.ID, actor, reason string, evidence ...memory.Evidence) error
	Reschedule(ctx context.Context, row memory.ID, at time.Time, tries int, reason string) error
	Postpone(ctx context.Context, mark memory.Due, at time.Time, tries int, reason string) error
	Park(ctx context.Context, mark memory.Due, why memory.ParkedFor, reason string) error
	Note(ctx context.Context, mark memory.Due, m memory.SourceMark) (memory.Due, error)
	DueMark(ctx context.Context, row memory.ID) (memory.Due, bool, error)
	DueMarks(ctx context.Context, rows ...memory.ID) (map[memory.ID]memory.Due, error)
	ParkedRows(ctx context.Context) iter.Seq2[memory.Due, error]
	DueNow(ctx context.Context, predicates ...string) iter.Seq2[memory.Due, error]
	DueRows(ctx context.Context, at time.Time) iter.Seq2[memory.Due, error]
	Revocable
	WakeDue(ctx context.Context, limit int) (woken int, next time.Time, err error)
	PublishVerifiers(ctx context.Context, worker string, lease time.Duration, of []memory.VerifierState) error
	Covered(ctx context.Context, contents ...memory.Content) ([]bool, error)
	MarkLines(ctx context.Context, contents ...memory.Content) ([]memory.LineMark, error)
	SaysNothing(predicate, object string) bool
	AddHeat(ctx context.Context, reads map[memory.ID]float64) ([]memory.Due, error)
	Now() time.Time
	Tenant() string
	Namespace() string
	Identity() memory.Token
}

// Source is a verifier and the claims it can be asked about.
type Source struct {
	Name string
	// Verifier is put behind a breaker with the defaults of [verifier.WithBreaker] if it has none.
	// A program that has workers of several namespaces guards it once, so that they share the breaker.
	Verifier verifier.Verifier
	Rank     memory.Rank // sources are asked in order of rank, highest first; unset = last
	// Predicates are those of the claims that the source can be asked about; none = of all. They
	// are compared as [memory.Canonical] writes them. The rows that are due are listed by them,
	// so that the source does not wait while those of others are passed over.
	Predicates []string
	// Covers says whether the source can be asked about a claim of its predicates; nil = about
	// all of them. It must say the same of a claim each time, and not block. Other workers can tell only the
	// Predicates, and so park rows of a source that has a Covers alone; see [Scope.Uncovered].
	Covers func(memory.Content) bool
	// Any says that the Covers leaves out no predicate, if there are no Predicates. Others are told so then.
	Any bool
	// Advisory says that no claim waits for the source: agents label none as written while it was down. It is
	// so of models.
	Advisory bool
	// Places is how many checks of the source are made at a time by [Serve]; 0 = as many as
	// its breaker lets through ([verifier.Guarded.Places]); that is 8 if nothing else is said.
	Places int

	observes bool // made by Observed: it asks nobody
}

// Status is how a check ended.
type Status uint8

// The statuses.
const (
	_             Status = iota
	Promoted             // the row is verified, or verified again
	Demoted              // the row lost the verified state, or was refuted
	Kept                 // evidence was kept; no state moved
	Unclear              // nobody could tell
	Down                 // a source that could tell is down; the check comes back
	Deferred             // the budget of this tick is spent; the check comes back
	NotDue               // the last verdicts still stand; nobody was asked
	Parked               // nobody can be asked, or it was asked often enough; a read brings the row back
	Moved                // the row moved meanwhile, or is gone; nothing to do
	Misconfigured        // a source can never answer as configured: an alarm; the row is set aside
	Renewed              // a source agreed with what a better one verified: the row is fresh for longer
)

var statusNames = [...]string{"unset", "promoted", "demoted", "kept", "unclear", "down", "deferred", "not_due", "parked", "moved", "misconfigured", "renewed"}

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
	RetryAt time.Time     // of Down, Deferred and Misconfigured: when to come back, by the wall clock
	Calls   int           // verifiers asked
	Waited  time.Duration // of Promoted: since the row was written; 0 if it was verified before
}

// Defaults of [Options].
const (
	DefaultVerdictLifetime = time.Hour
	DefaultBudget          = 50 // checks a tick (D-20)
	DefaultTick            = 30 * time.Second
)

// mostName is how many bytes the name of a source has at most: a due mark takes no more.
const mostName = 256

// mostWorkerName is how many bytes the name of a worker has at most: the store takes more, but a process adds to it.
const mostWorkerName = memory.MaxField / 2

// isText reports whether a name is one that the store takes.
func isText(name string, most int) bool {
	return strings.TrimSpace(name) != "" && len(name) <= most && utf8.ValidString(name) && !strings.ContainsRune(name, 0)
}

// clipped is the beginning of a name that may be too long, for an error.
func clipped(name string) string { return name[:min(len(name), 100)] }

const (
	maxBackoff = 7 * 24 * time.Hour
	maxTries   = 10  // answers that moved nothing, after which a row that nobody reads is parked (D-19)
	coldBelow  = 0.5 // decayed reads: nobody read the row for a day
)

// Options of a [Worker]. Every zero field has a usable default.
type Options struct {
	Name string // of the worker in the audit, at most 2,048 bytes; "" = "worker"
	// VerdictLifetime is how long an answer stands: a source is not asked about the
	// same row again before, however often the row is read. If nothing moved, the
	// next check waits twice as long, and so on, up to a week; a row that nobody reads
	// is parked then, after ten such checks, until it is read (D-19, X-16). When an
	// answer ends is kept in the due mark, so that it stands for all workers. 0 = one hour.
	VerdictLifetime time.Duration
	// Budget is the rate of questions to one verifier: so many in a tick, evenly. After a pause so many may be
	// asked at once. 0 = 50, negative = no limit. What an open breaker refuses is no question.
	Budget int
	// Tick is how long a budget lasts; 0 = 30 s.
	Tick time.Duration
	// Spending counts the questions of all workers that share it. nil = that of the queue, once [Serve]
	// serves the worker, or none that is shared, so that two workers ask twice as much. It lets a whole
	// budget pass at once if none was used for a tick, and then one question after the other, evenly.
	Spending Spending
	// Observe hears of every result, for metrics; nil = nobody. It must not block. If it panics, that is logged.
	Observe func(Result)
	// Tracer gets a span of every check, question and transition. Their attributes are
	// ids of rows, names of verifiers and words of this package: no claim, no answer,
	// and no text of an error. nil = none.
	Tracer trace.Tracer
	Logger *slog.Logger // nil = none
}

// Spending counts questions against a budget, for one worker or for all that share it.
// It must be safe for concurrent use.
type Spending interface {
	// Spend takes one question to a source from its budget. It returns 0 if the source may be
	// asked, else how long it is until it may, and nothing is taken. After an error nobody is
	// asked. A question that is not asked after all is not given back.
	Spend(ctx context.Context, source string, budget int, tick time.Duration) (wait time.Duration, err error)
}

// Worker checks rows. It knows no queue. It is safe for concurrent use, and every
// check is safe to repeat and to overlap.
type Worker struct {
	store   Store
	sources []Source
	opts    Options

	mu       sync.Mutex
	spending Spending
	covers   map[memory.ID][]*Source // sources of rows
	served   map[string]int          // by source: how many serve it now
	said     map[string]time.Time    // when a line was last logged
}

// NewWorker returns a worker that asks these sources.
func NewWorker(store Store, sources []Source, o *Options) (*Worker, error) {
	if store == nil {
		return nil, errors.New("promotion: NewWorker: no store")
	}
	w := &Worker{store: store, sources: slices.Clone(sources),
		covers: map[memory.ID][]*Source{}, served: map[string]int{}, said: map[string]time.Time{}}
	if o != nil {
		w.opts = *o
	}
	names := map[string]bool{}
	for i := range w.sources {
		s := &w.sources[i]
		switch {
		case !isText(s.Name, mostName):
			return nil, fmt.Errorf("promotion: NewWorker: source %q: the name of a source is not blank, and at most %d bytes of UTF-8 without NUL", clipped(s.Name), mostName)
		case s.Rank == memory.RankRecall || s.Rank > memory.RankPrimarySource:
			return nil, fmt.Errorf("promotion: NewWorker: source %q: a verifier does not speak with rank %s", s.Name, s.Rank)
		case s.Places < 0:
			return nil, fmt.Errorf("promotion: NewWorker: source %q: Places is %d, below 0", s.Name, s.Places)
		case s.Verifier == nil || s.Verifier == verifier.Verifier(observer{}):
			return nil, fmt.Errorf("promotion: NewWorker: source %q has no verifier, or no rows to observe", s.Name)
		case names[s.Name]:
			return nil, fmt.Errorf("promotion: NewWorker: two sources named %q", s.Name)
		}
		names[s.Name] = true
		if s.Covers != nil {
			s.Covers = w.calm(s.Name, s.Covers)
		}
		if _, guarded := s.Verifier.(breaker); !guarded && !s.observes {
			s.Verifier = verifier.WithBreaker(s.Name, s.Verifier, &verifier.BreakerOptions{MaxConcurrent: s.Places})
		}
		s.Predicates = slices.Clone(s.Predicates)
		for i, p := range s.Predicates {
			if s.Predicates[i] = memory.Canonical(p); !isText(p, memory.MaxField) || !isText(s.Predicates[i], memory.MaxField) {
				return nil, fmt.Errorf("promotion: NewWorker: source %q: predicate %q: a predicate is not blank, and at most %d bytes of UTF-8 without NUL", s.Name, clipped(p), memory.MaxField)
			}
		}
	}
	slices.SortStableFunc(w.sources, func(a, b Source) int { return int(b.Rank) - int(a.Rank) })
	if w.opts.Name == "" {
		w.opts.Name = "worker"
	}
	if !isText(w.opts.Name, mostWorkerName) {
		return nil, fmt.Errorf("promotion: NewWorker: Options.Name %q: the name of a worker is not blank, and at most %d bytes of UTF-8 without NUL", clipped(w.opts.Name), mostWorkerName)
	}
	if w.opts.VerdictLifetime < 0 || w.opts.Tick < 0 {
		return nil, errors.New("promotion: NewWorker: Options.VerdictLifetime and Options.Tick are not below 0")
	}
	if w.opts.VerdictLifetime == 0 {
		w.opts.VerdictLifetime = DefaultVerdictLifetime
	}
	if w.opts.Budget == 0 {
		w.opts.Budget = DefaultBudget
	}
	if w.opts.Tick == 0 {
		w.opts.Tick = DefaultTick
	}
	if w.spending = w.opts.Spending; w.spending == nil {
		w.spending = &ownSpending{limits: map[string]*rate.Limiter{}}
	}
	if w.opts.Tracer == nil {
		w.opts.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if w.opts.Logger == nil {
		w.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return w, nil
}

// Check asks the sources that cover a row, one after the other as [Worker.CheckSource] does, until one
// decides. A row that no source covers is parked. It returns an error only for faults of the store and a
// cancelled ctx; a verifier that is down is a result, not a failure (SR-7.6). Of several results that
// decide nothing, it returns that which says most: [Down], [Deferred], [Kept], [Unclear], [Misconfigured].
func (w *Worker) Check(ctx context.Context, id memory.ID) (Result, error) {
	row, mark, res, ok, err := w.begin(ctx, id)
	if res.ID = id; err != nil {
		return res, err
	}
	if !ok {
		w.observe(res)
		return res, nil
	}
	sources := w.sourcesOf(&row.Content)
	if len(sources) == 0 {
		res.Status = Parked
		w.observe(res)
		return res, w.stays(ctx, mark, memory.ParkedUncovered, uncovered)
	}
	res.Status = NotDue
	for _, s := range sources {
		one, err := w.askSource(ctx, id, s, mark.Generation, asking{})
		if err != nil {
			return res, err
		}
		if res.add(one); one.Status.decides() {
			return res, nil
		}
	}
	return res, nil
}

// decides reports whether no other source is to be asked.
func (s Status) decides() bool { return s == Promoted || s == Demoted || s == Renewed || s == Moved }

// inconclusive are statuses that decide nothing, the one that says least first.
var inconclusive = []Status{NotDue, Misconfigured, Unclear, Kept, Deferred, Down}

// add adds what another source led to.
func (r *Result) add(o Result) {
	r.Calls += o.Calls
	if o.Status.decides() {
		r.Status, r.RetryAt, r.Waited = o.Status, time.Time{}, o.Waited
		return
	}
	if r.RetryAt.IsZero() || !o.RetryAt.IsZero() && o.RetryAt.Before(r.RetryAt) {
		r.RetryAt = o.RetryAt
	}
	if slices.Index(inconclusive, o.Status) > slices.Index(inconclusive, r.Status) {
		r.Status = o.Status
	}
}

// CheckSource asks one source about a row, in the round of a generation, and applies what the
// answer leads to. Nobody is asked if the row has been marked anew since, or if the source does
// not cover it. Nor is it asked while its last answer stands or the row is set aside for it. The
// status is [NotDue] then.
//
// A question that fails sets the row aside for this source: for a second, then twice as long
// after each failure in a row, up to an hour. An answer ends that. What a breaker or a budget
// refuses is no question, and sets nothing aside. The round of the row goes on until an answer
// moves it, or all sources of the worker that cover it have answered.
//
// It is an error if the worker has no source of that name, and otherwise as for [Worker.Check].
func (w *Worker) CheckSource(ctx context.Context, id memory.ID, source string, generation uint64) (Result, error) {
	at := slices.IndexFunc(w.sources, func(s Source) bool { return s.Name == source && !s.observes })
	if at < 0 {
		return Result{ID: id}, fmt.Errorf("promotion: CheckSource: no source %q", source)
	}
	return w.askSource(ctx, id, &w.sources[at], generation, asking{})
}

// askSource is CheckSource, asked in a certain way.
func (w *Worker) askSource(ctx context.Context, id memory.ID, s *Source, generation uint64, how asking) (Result, error) {
	return w.traced(ctx, id, func(ctx context.Context, id memory.ID) (Result, error) {
		return w.checkSource(ctx, id, s, generation, how)
	})
}

// asking is the way in which a source is asked. The zero value does not wait.
type asking struct {
	// probe: the answer decides whether the source is back. A failure says nothing about the row.
	probe bool
	// queued: the question comes from a queue, and is none to probe with.
	queued bool
	// suspect: the question may crash the process, which is noted before it is asked.
	suspect bool
	// inPlace ends when the question waits for a budget no more; nil = it does not wait.
	inPlace context.Context
	// enter is called before the source is asked, and leave after that; nil = nothing is.
	enter func() (leave func(), err error)
	// outside is called when the check waits for its source, and back when that has ended; nil = nothing is.
	outside func() (back func())
	// crashed notes that the question may crash the process; nil = it is not noted.
	crashed func(context.Context) error
}

// unasked is the error of a question that was not asked, through no fault of the source.
type unasked struct{ error }

func (u *unasked) Unwrap() error { return u.error }

// waits waits for a while. It reports whether the context goes on; nil = it does not.
func waits(inPlace context.Context, d time.Duration) bool {
	if inPlace == nil || inPlace.Err() != nil {
		return false
	}
	t := time.NewTimer(max(d, time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-inPlace.Done():
		return false
	}
}

// calm returns a Covers that does not panic: what it panics at is not covered. The first time is logged.
func (w *Worker) calm(source string, covers func(memory.Content) bool) func(memory.Content) bool {
	var once sync.Once
	return func(c memory.Content) (covered bool) {
		defer func() {
			if p := recover(); p != nil { // what it panics with may quote the row
				once.Do(func() {
					w.opts.Logger.LogAttrs(context.Background(), slog.LevelError, "Covers of a source panics: the claim is taken for one that it does not cover", slog.String("verifier", source))
				})
			}
		}()
		return covers(c)
	}
}

// bound is how long an answer takes at most.
func (s *Source) bound() time.Duration {
	if b, ok := s.Verifier.(interface{ Bound() time.Duration }); ok && b.Bound() > 0 {
		return b.Bound()
	}
	return unbounded
}

// breaker is a verifier that knows whether its source can be asked; [verifier.Guarded] and
// [verifier.Quorum] do.
type breaker interface{ State() verifier.State }

// isFull reports whether all places of the verifier are taken; false if it counts none.
func (s *Source) isFull() bool {
	f, ok := s.Verifier.(interface{ IsFull() bool })
	return ok && f.IsFull()
}

// state is that of the breaker of a source, in this process; closed if it has none.
func (s *Source) state() verifier.State {
	if b, ok := s.Verifier.(breaker); ok {
		return b.State()
	}
	return verifier.StateClosed
}

// traced makes a check in a span, and tells its result.
func (w *Worker) traced(ctx context.Context, id memory.ID, check func(context.Context, memory.ID) (Result, error)) (Result, error) {
	ctx, span := w.opts.Tracer.Start(ctx, "promotion.check", trace.WithAttributes(attribute.String("hearsay.row", string(id))))
	defer span.End()
	r, err := check(ctx, id)
	r.ID = id
	if err != nil {
		span.SetStatus(codes.Error, "not checked")
	} else {
		span.SetAttributes(attribute.String("hearsay.status", r.Status.String()), attribute.Int("hearsay.calls", r.Calls))
	}
	if err == nil {
		w.observe(r)
	}
	return r, err
}

// Park sets a row aside with a reason, until somebody calls [Unpark]: the queue gave up
// on it. A read does not bring it back, and nothing of its state moves. A due mark that
// cannot be read is written anew.
func (w *Worker) Park(ctx context.Context, id memory.ID, reason string) error {
	marks, err := w.store.DueMarks(ctx, id)
	mark, marked := marks[id]
	if err != nil || !marked || mark.Generation != 0 && mark.At.IsZero() {
		return err
	}
	return w.park(ctx, mark, memory.ParkedStuck, stuck+reason)
}

// park parks a row, unless it has been marked anew since, and tells it.
func (w *Worker) park(ctx context.Context, mark memory.Due, why memory.ParkedFor, reason string) error {
	err := w.store.Park(ctx, mark, why, reason)
	if remarked(err) {
		return nil
	}
	if err == nil {
		w.observe(Result{ID: mark.ID, Status: Parked})
	}
	return err
}

// stays parks a row whose check is told by its own result.
func (w *Worker) stays(ctx context.Context, mark memory.Due, why memory.ParkedFor, reason string) error {
	if err := w.store.Park(ctx, mark, why, reason); !remarked(err) {
		return err
	}
	return nil
}

// observe tells a result.
func (w *Worker) observe(r Result) {
	if w.opts.Observe == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil && w.first("observe") { // a crash would be counted against the row; what it says may quote it
			w.opts.Logger.LogAttrs(context.Background(), slog.LevelError, "Observe panics", slog.String("row", string(r.ID)))
		}
	}()
	w.opts.Observe(r)
}

// begin reads a row that is due. ok is false if it is not to be checked, for the reason in the
// result.
func (w *Worker) begin(ctx context.Context, id memory.ID) (row memory.Row, mark memory.Due, res Result, ok bool, err error) {
	// The row first: if it moves after this, its mark tells, and if after that, its
	// revision. The other way round a check that overlaps asks about a row that was
	// just verified, and verifies it again.
	rows, err := w.store.Get(ctx, id)
	if errors.Is(err, memory.ErrNotFound) || errors.Is(err, memory.ErrErased) {
		return row, mark, Result{Status: Moved}, false, nil
	}
	if err != nil {
		return row, mark, res, false, err
	}
	row = rows[0]
	mark, due, err := w.store.DueMark(ctx, id)
	if err != nil {
		return row, mark, res, false, err
	}
	if !due || mark.At.IsZero() || mark.At.After(w.store.Now()) {
		return row, mark, Result{Status: NotDue}, false, nil
	}
	if mark.Tries >= maxTries && mark.Heat < coldBelow {
		// Now, and not when it was asked last: a read may bring it back, and not before
		// that answer ended.
		return row, mark, Result{Status: Parked}, false, w.stays(ctx, mark, memory.ParkedAsked, fmt.Sprintf("asked %d times, and nothing moved", mark.Tries))
	}
	if err := w.aged(ctx, &row); errors.Is(err, memory.ErrConflict) || errors.Is(err, memory.ErrNotFound) || errors.Is(err, memory.ErrErased) {
		return row, mark, Result{Status: Moved}, false, nil
	} else if err != nil {
		return row, mark, res, false, err
	}
	return row, mark, res, true, nil
}

// Limits of how long a row is set aside for a source about which a question failed.
const (
	firstAside   = time.Second
	refusedAside = time.Minute // at least, if the store did not take the answer
	mostAside    = time.Hour
)

// aside is for how long a row is set aside after so many failures in a row.
func aside(failures int) time.Duration { return min(firstAside<<min(failures-1, 20), mostAside) }

func (w *Worker) checkSource(ctx context.Context, id memory.ID, s *Source, generation uint64, how asking) (Result, error) {
	row, mark, res, ok, err := w.begin(ctx, id)
	if err != nil || !ok {
		return res, err
	}
	said := mark.Of(s.Name)
	if mark.Generation != generation || !s.covers(&row.Content) || said.Until.After(w.store.Now()) {
		return Result{Status: NotDue}, nil
	}
	if !how.suspect || s.observes {
		return w.checkRound(ctx, row, mark, s, how)
	}
	said.Source, said.Until = s.Name, w.store.Now()
	noted := false
	how.crashed = func(ctx context.Context) error { // other suspects wait for as long
		ctx, cancel := context.WithTimeout(ctx, mostNote)
		defer cancel()
		crashed := said
		crashed.Crashes = min(said.Crashes+1, math.MaxUint8)
		noted = true // it may be, whatever the error says
		_, err := w.store.Note(ctx, mark, crashed)
		return err
	}
	res, err = w.checkRound(ctx, row, mark, s, how)
	if noted && (err != nil || res.Calls == 0 || res.Status == Moved) { // the process lives, and nothing else was noted
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), givenUp)
		defer cancel()
		err = errors.Join(err, w.note(after, mark, []memory.SourceMark{said}))
	}
	return res, err
}

// checkRound asks a source about a row in the round of a mark.
func (w *Worker) checkRound(ctx context.Context, row memory.Row, mark memory.Due, s *Source, how asking) (res Result, err error) {
	id, said := row.ID, mark.Of(s.Name)
	round := round{how: how}
	if round.asked, err = w.line(ctx, &row); err != nil {
		return res, err
	}
	for i := range w.sources { // what asks nobody comes before each question
		if o := &w.sources[i]; o.observes && o != s && o.covers(&row.Content) {
			if done, err := w.one(ctx, o, &row, &round, &res); done || err != nil {
				return res, err
			}
			round.failed, round.alarm, round.answers, res = false, false, nil, Result{} // it is not the one that is asked
		}
	}
	done, err := w.one(ctx, s, &row, &round, &res)
	switch {
	case err != nil:
		return res, err
	case done && (res.Status == Demoted || res.Status == Moved):
		return res, w.stand(ctx, id, round.answers)
	case done:
		return res, nil
	case round.failed && how.probe:
		if round.alarm {
			res.Status = Misconfigured
		}
		return res, nil
	case round.failed, res.Calls > 0 && len(round.answers) == 0:
		switch {
		case round.alarm:
			res.Status = Misconfigured
		case !round.failed: // what it said is no verdict
			res.Status = Unclear
		}
		said = memory.SourceMark{Source: s.Name, Failures: said.Failures + 1, Crashes: said.Crashes}
		wait := aside(said.Failures)
		if round.refused { // its breaker does not know
			wait = max(wait, refusedAside)
		}
		said.Until = w.store.Now().Add(wait)
		if at := time.Now().Add(wait); at.After(res.RetryAt) { // else the source said when
			res.RetryAt = at
		}
		return res, w.note(ctx, mark, []memory.SourceMark{said})
	case s.observes:
		w.answered(s, &round) // what it does not see stands as an answer does
	case len(round.answers) == 0:
		return res, nil // a breaker or a budget refused
	}
	if round.answered {
		if err := w.resolveOutage(ctx, row); err != nil {
			return res, err
		}
	}
	if res.Status = Unclear; round.kept {
		res.Status = Kept
	}
	others := slices.ContainsFunc(w.sources, func(o Source) bool { return o.Name != s.Name && !o.observes && o.covers(&row.Content) })
	switch {
	case others: // they may be asked by others at the same time: whoever answers last ends the round
		if mark, err = w.store.Note(ctx, mark, round.answers[0]); remarked(err) {
			return res, nil
		} else if err != nil {
			return res, err
		}
		open := slices.ContainsFunc(w.sources, func(o Source) bool {
			m := mark.Of(o.Name)
			return !o.observes && o.covers(&row.Content) && (m.Failures > 0 || !m.Until.After(w.store.Now()))
		})
		if open {
			return res, nil
		}
	case s.observes: // nobody was asked
		return res, w.comeBack(ctx, mark, w.store.Now().Add(w.opts.VerdictLifetime), mark.Tries, "tools have not said so")
	}
	return res, w.comeBack(ctx, mark, w.store.Now().Add(w.backoff(mark.Tries)), mark.Tries+1, "asked, and nothing moved")
}

// remarked reports whether a mark could not be written since the row has been marked anew, or is
// gone.
func remarked(err error) bool {
	return errors.Is(err, memory.ErrConflict) || errors.Is(err, memory.ErrNotFound) || errors.Is(err, memory.ErrErased)
}

// round is what is learned in one check.
type round struct {
	answered bool                // somebody answered now
	kept     bool                // evidence was kept
	alarm    bool                // somebody can never answer
	failed   bool                // a question about this row failed
	refused  bool                // the store does not take the answer
	answers  []memory.SourceMark // of the sources that are not to be asked again for a while

	asked memory.LineMark // where the line of the row stood before anybody was asked
	how   asking
}

// covers reports whether the source can be asked about a claim.
func (s *Source) covers(c *memory.Content) bool {
	return (len(s.Predicates) == 0 || slices.Contains(s.Predicates, memory.Canonical(c.Predicate))) && (s.Covers == nil || s.Covers(*c))
}

// Down reports whether the sources of a claim are down: some cover it, and the breaker of none of them is
// closed. No claim waits for a model. Agents of the same process can be given this ([agent.Options]).
//
// [agent.Options]: https://pkg.go.dev/github.com/hearsay-go/hearsay/agent#Options
func (w *Worker) Down(c memory.Content) (down bool) {
	for i := range w.sources {
		s := &w.sources[i]
		if s.observes || s.isAdvisory() || !s.covers(&c) {
			continue
		}
		if s.state() == verifier.StateClosed {
			return false
		}
		down = true
	}
	return down
}

// maxCovering is how many rows are remembered with the sources that cover them, in about 100 bytes each. Beyond,
// a quarter is forgotten.
const maxCovering = 200_000

// covering are the sources that cover some rows. What a row says does not change, so that it is read once. A
// row that is gone or cannot be read is left out.
func (w *Worker) covering(ctx context.Context, marks []memory.Due) (map[memory.ID][]*Source, error) {
	of := make(map[memory.ID][]*Source, len(marks))
	if s := w.only(); s != nil {
		for _, m := range marks {
			of[m.ID] = []*Source{s}
		}
		return of, nil
	}
	var unknown []memory.ID
	w.mu.Lock()
	for _, m := range marks {
		if sources, known := w.covers[m.ID]; known {
			of[m.ID] = sources
		} else {
			unknown = append(unknown, m.ID)
		}
	}
	w.mu.Unlock()
	rows, err := w.readable(ctx, unknown)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.covers)+len(rows) > maxCovering {
		for id := range w.covers {
			if delete(w.covers, id); len(w.covers) < maxCovering*3/4 {
				break
			}
		}
	}
	for i := range rows {
		sources := w.sourcesOf(&rows[i].Content)
		of[rows[i].ID], w.covers[rows[i].ID] = sources, sources
	}
	return of, nil
}

// sourcesOf are the sources that cover a claim, in order of rank: those that are asked, or if there is none,
// those that observe. Otherwise those are part of each check.
func (w *Worker) sourcesOf(c *memory.Content) []*Source {
	var asked, observing []*Source
	for i := range w.sources {
		switch s := &w.sources[i]; {
		case !s.covers(c):
		case s.observes:
			observing = append(observing, s)
		default:
			asked = append(asked, s)
		}
	}
	if len(asked) == 0 {
		return observing
	}
	return asked
}

// only is the source of a worker that has but one, of all rows.
func (w *Worker) only() (only *Source) {
	for i := range w.sources {
		switch s := &w.sources[i]; {
		case s.observes:
		case only != nil || s.Covers != nil || len(s.Predicates) > 0:
			return nil
		default:
			only = s
		}
	}
	return only
}

// readable are those of some rows that can be read.
func (w *Worker) readable(ctx context.Context, ids []memory.ID) (rows []memory.Row, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err = w.store.Get(ctx, ids...)
	switch {
	case err == nil || ctx.Err() != nil:
		return rows, err
	case len(ids) > 1: // one of them cannot be read, as a rule
		for half := range slices.Chunk(ids, (len(ids)+1)/2) {
			some, err := w.readable(ctx, half)
			if err != nil {
				return nil, err
			}
			rows = append(rows, some...)
		}
		return rows, nil
	case errors.Is(err, memory.ErrNotFound), errors.Is(err, memory.ErrErased), isUnreadable(err):
		return nil, nil
	}
	return nil, err
}

// line is where the line of a row stands before anybody is asked: an answer may take its time.
func (w *Worker) line(ctx context.Context, row *memory.Row) (memory.LineMark, error) {
	if row.Content.Cardinality != memory.CardinalityFunctional {
		return memory.LineMark{}, nil
	}
	marks, err := w.store.MarkLines(ctx, row.Content)
	if err != nil {
		return memory.LineMark{}, err
	}
	return marks[0], nil
}

// one asks one source. done says that the check ends with the result; otherwise the next source
// may be asked, about the row as it is now.
func (w *Worker) one(ctx context.Context, s *Source, row *memory.Row, r *round, res *Result) (done bool, err error) {
	v, err := w.verify(ctx, s, *row, &r.how)
	var over *overspent
	var not *unasked
	switch {
	case errors.As(err, &over):
		res.wait(Deferred, time.Now().Add(over.wait))
		return false, nil
	case errors.As(err, &not) && remarked(not.error):
		res.end(NotDue)
		return true, nil
	case errors.As(err, &not):
		return true, not.error
	case s.observes: // nobody was asked
	case errors.Is(err, verifier.ErrOpen), errors.Is(err, verifier.ErrBusy):
	default:
		res.Calls++
	}
	if err != nil {
		if ctx.Err() != nil {
			return true, ctx.Err()
		}
		w.fault(ctx, res, r, s.Name, row.ID, err)
		return false, nil
	}
	move := next(*row, v, func(object string) bool { return w.store.SaysNothing(row.Content.Predicate, object) })
	status, err := w.apply(ctx, s, *row, v, move, r.asked)
	if errors.Is(err, memory.ErrRevoked) || errors.Is(err, memory.ErrInvalid) || errors.Is(err, memory.ErrTooLarge) { // it may say what it likes
		w.fault(ctx, res, r, s.Name, row.ID, &verifier.MisconfiguredError{Verifier: s.Name, Err: err})
		r.refused = true
		return false, nil
	}
	if err != nil {
		return true, err
	}
	if status == Moved { // the answer did not count: it is asked for again
		res.end(Moved)
		return true, nil
	}
	if move.Answered {
		if r.answered = true; !s.observes { // to observe again costs nothing
			w.answered(s, r)
		}
	}
	switch status {
	case Promoted, Demoted, Renewed:
		if status == Promoted && row.Truth != memory.TruthSupported {
			res.Waited = max(w.store.Now().Sub(row.CreatedAt), 0)
		}
		res.end(status)
		return true, nil
	case Kept:
		// What was kept is heard beside the next answer, and may have moved the
		// version that the answer is held against.
		r.kept = true
		now, err := w.store.Get(ctx, row.ID)
		if err != nil {
			return true, err
		}
		if now[0].Truth != row.Truth {
			res.end(Moved)
			return true, nil
		}
		*row = now[0]
	}
	return false, nil
}

// aged moves a verified row to what the clock has made of it, so that its history says so.
func (w *Worker) aged(ctx context.Context, row *memory.Row) error {
	now := w.store.Now()
	for row.Truth == memory.TruthSupported && !row.NotYetValid(now) && row.Freshness != row.FreshnessAt(now) {
		t := memory.Transition{Row: row.ID, Revision: row.Revision, To: memory.FreshnessStale, Authority: memory.AuthoritySystem, Actor: w.opts.Name,
			Source: "clock", Reason: "nobody has looked at it since " + row.LookedAt().UTC().Format(time.RFC3339)}
		if row.Freshness == memory.FreshnessStale {
			t.To = memory.FreshnessExpired
		}
		h, err := w.store.Apply(ctx, t)
		if err != nil {
			return err
		}
		row.Head = h
	}
	return nil
}

// conditional is a verifier that says when it would ask; [verifier.Guarded] is one.
type conditional interface {
	VerifyIf(ctx context.Context, row memory.Row, may func(context.Context) error) (verifier.Verdict, error)
}

// verify asks one source, in a span. A question is taken from the budget when it would be
// asked, and not before: a worker that cannot reach the source would use up the budget of the others.
func (w *Worker) verify(ctx context.Context, s *Source, row memory.Row, how *asking) (v verifier.Verdict, err error) {
	if how.outside != nil && !s.observes {
		defer how.outside()()
	}
	if how.enter != nil && !s.observes { // before the source takes a place of its own, of which several may be in need
		leave, err := how.enter()
		if err != nil {
			return v, &unasked{err}
		}
		defer leave()
	}
	ctx, span := w.opts.Tracer.Start(ctx, "promotion.verify", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("hearsay.row", string(row.ID)), attribute.String("hearsay.verifier", s.Name)))
	defer span.End()
	may := func(ctx context.Context) error {
		for {
			if how.queued && s.state() != verifier.StateClosed { // it opened meanwhile
				return &verifier.UnavailableError{Verifier: s.Name, RetryAfter: stateEvery, Err: verifier.ErrOpen}
			}
			wait := w.spend(ctx, s)
			if wait <= 0 {
				break
			}
			if !waits(how.inPlace, wait) {
				return &overspent{wait}
			}
		}
		if how.crashed != nil && !s.observes {
			if err := how.crashed(ctx); err != nil {
				return &unasked{err}
			}
		}
		return nil
	}
	v, err = s.ask(ctx, row, may, how.probe)
	outcome := v.Outcome.String()
	var over *overspent
	switch {
	case err == nil:
	case errors.As(err, &over):
		span.SetAttributes(attribute.String("hearsay.outcome", Deferred.String()))
		return v, err
	case errors.As(err, new(*unasked)), errors.Is(err, verifier.ErrOpen), errors.Is(err, verifier.ErrBusy):
		outcome = "not_asked"
	case errors.Is(err, verifier.ErrMisconfigured):
		outcome = Misconfigured.String()
	case ctx.Err() != nil:
		outcome = "cancelled"
	default:
		outcome = Down.String()
	}
	if err != nil {
		span.SetStatus(codes.Error, outcome)
	}
	span.SetAttributes(attribute.String("hearsay.outcome", outcome))
	return v, err
}

// ask asks the source if it may. What nothing guards may panic: that counts as a crash of a check in the queue. A probe
// is in none, and would end the process.
func (s *Source) ask(ctx context.Context, row memory.Row, may func(context.Context) error, probe bool) (v verifier.Verdict, err error) {
	defer func() {
		if !probe {
			return
		}
		if p := recover(); p != nil {
			v, err = verifier.Verdict{}, &verifier.MisconfiguredError{Verifier: s.Name, Err: &verifier.Quote{Err: errors.New("it panicked"), Text: fmt.Sprint(p)}}
		}
	}()
	if c, ok := s.Verifier.(conditional); ok {
		return c.VerifyIf(ctx, row, may)
	}
	if err := may(ctx); err != nil {
		return verifier.Verdict{}, err
	}
	return s.Verifier.Verify(ctx, row)
}

// overspent says that the budget of a source is spent.
type overspent struct{ wait time.Duration }

func (o *overspent) Error() string { return "the budget of this tick is spent" }

// answered notes that a source has answered, or cannot.
func (w *Worker) answered(s *Source, r *round) {
	r.answers = append(r.answers, memory.SourceMark{Source: s.Name, Until: w.store.Now().Add(w.opts.VerdictLifetime)})
}

// note notes answers in a mark, unless somebody marked the row anew meanwhile.
func (w *Worker) note(ctx context.Context, mark memory.Due, answers []memory.SourceMark) error {
	for _, m := range answers {
		if _, err := w.store.Note(ctx, mark, m); remarked(err) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// stand notes answers in the mark that a row has now that they have moved it: it is due again.
func (w *Worker) stand(ctx context.Context, id memory.ID, answers []memory.SourceMark) error {
	if len(answers) == 0 {
		return nil
	}
	mark, due, err := w.store.DueMark(ctx, id)
	if err != nil || !due {
		return err
	}
	return w.note(ctx, mark, answers)
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

// end notes that the check has not to come back.
func (r *Result) end(s Status) { r.Status, r.RetryAt = s, time.Time{} }

// fault tells a verifier that is misconfigured, which is an alarm, from one that
// is down, which is traffic (SR-7.8). What is of neither class is taken for down:
// it says nothing of the claim, and asking again may help.
func (w *Worker) fault(ctx context.Context, res *Result, r *round, source string, id memory.ID, err error) {
	level, text := slog.LevelInfo, "verifier is down"
	if errors.Is(err, verifier.ErrBusy) {
		text = "verifier is busy: all of its places are taken"
	}
	if errors.Is(err, verifier.ErrMisconfigured) {
		level, text = slog.LevelError, "verifier cannot be used"
		r.alarm, r.failed = true, true
	} else {
		at := time.Now().Add(time.Second)
		var down *verifier.UnavailableError
		if errors.As(err, &down) && down.RetryAfter > 0 {
			at = time.Now().Add(down.RetryAfter)
		}
		res.wait(Down, at)
		if !errors.Is(err, verifier.ErrOpen) && !errors.Is(err, verifier.ErrBusy) {
			r.failed = true
		}
	}
	if !w.first(text + source) {
		level = slog.LevelDebug
	}
	w.opts.Logger.LogAttrs(ctx, level, text, slog.String("verifier", source), slog.String("row", string(id)), slog.Any("error", err))
}

// first reports whether a line is the first of its kind in this tick: an outage
// is said once, not for every row that waits for its end.
func (w *Worker) first(line string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.said[line]) < w.opts.Tick {
		return false
	}
	w.said[line] = time.Now()
	return true
}

// apply makes a move, in a span if there is one to make.
func (w *Worker) apply(ctx context.Context, s *Source, row memory.Row, v verifier.Verdict, m Move, asked memory.LineMark) (Status, error) {
	if m.Action == Nothing {
		return Unclear, nil
	}
	ctx, span := w.opts.Tracer.Start(ctx, "promotion.transition", trace.WithAttributes(attribute.String("hearsay.row", string(row.ID)),
		attribute.String("hearsay.verifier", s.Name), attribute.String("hearsay.action", m.Action.String())))
	defer span.End()
	status, err := w.move(ctx, s, row, v, m, asked)
	if err != nil {
		span.SetStatus(codes.Error, "not written")
	} else {
		span.SetAttributes(attribute.String("hearsay.status", status.String()))
	}
	return status, err
}

// move makes a move. Kept is the answer of every rule that says "not this time".
func (w *Worker) move(ctx context.Context, s *Source, row memory.Row, v verifier.Verdict, m Move, asked memory.LineMark) (Status, error) {
	t := memory.Transition{Row: row.ID, Revision: row.Revision, Authority: memory.AuthorityProbe, Actor: w.opts.Name,
		Source: v.Evidence.Source, Reason: m.Reason, Evidence: v.Said(), Asked: asked}
	if s.observes {
		t.Authority = memory.AuthorityAutoObservation
	}
	done := Promoted
	switch m.Action {
	case Promote:
		t.To = memory.TruthSupported
	case Demote:
		t.To, done = memory.TruthContradicted, Demoted
	case Age:
		t.To, t.Authority, done = memory.FreshnessStale, memory.AuthoritySystem, Kept
	case Renew:
		t.To, done = memory.FreshnessFresh, Renewed
	case Keep:
		return Kept, w.keep(ctx, row.ID, m.Reason, v.Said())
	default:
		return Unclear, nil
	}
	apply := w.store.Apply
	if m.Action == Renew {
		apply = w.store.Renew
	}
	h, err := apply(ctx, t)
	switch {
	case err == nil && m.Action == Promote:
		// The axes are independent: that it is fresh again is a move of its own, and so is
		// that what nobody vouched for is no longer kept apart.
		var also []memory.AxisValue
		if h.Freshness != memory.FreshnessFresh {
			also = append(also, memory.FreshnessFresh)
		}
		if h.Has(memory.FlagImported) && t.Authority == memory.AuthorityProbe {
			also = append(also, memory.RetrievalNormal)
		}
		for _, to := range also {
			t.Revision, t.To, t.Evidence = h.Revision, to, nil
			next, err := w.store.Apply(ctx, t)
			if errors.Is(err, memory.ErrConflict) {
				break
			}
			if err != nil {
				return 0, err
			}
			h = next
		}
		return done, nil
	case err == nil:
		return done, nil
	case errors.Is(err, memory.ErrConflict), errors.Is(err, memory.ErrNotFound), errors.Is(err, memory.ErrOvertaken):
		return Moved, nil
	case errors.Is(err, memory.ErrContested):
		return Kept, nil
	case errors.Is(err, memory.ErrOwnWrite): // it is kept, and supports nothing later either
		said := slices.Clone(v.Said())
		for i := range said {
			said[i].Relation, said[i].Rank = memory.RelationContextualizes, memory.RankRecall
		}
		return Kept, w.keep(ctx, row.ID, m.Reason+"; "+err.Error(), said)
	case errors.Is(err, memory.ErrInsufficient), errors.Is(err, memory.ErrRejected), errors.Is(err, memory.ErrOutranked), errors.Is(err, memory.ErrIllegalMove):
		return Kept, w.keep(ctx, row.ID, m.Reason+"; "+err.Error(), v.Said())
	}
	return 0, err
}

func (w *Worker) keep(ctx context.Context, id memory.ID, reason string, said []memory.Evidence) error {
	err := w.store.AddEvidence(ctx, id, w.opts.Name, reason, said...)
	if errors.Is(err, memory.ErrNotFound) {
		return nil
	}
	return err
}

// resolveOutage ends the outage that was recorded at the write: somebody answered
// (SR-2.4). Evidence kept meanwhile may have moved the row on; then it looks again.
func (w *Worker) resolveOutage(ctx context.Context, row memory.Row) error {
	for row.Outage == memory.OutageRecorded {
		_, err := w.store.Apply(ctx, memory.Transition{Row: row.ID, Revision: row.Revision, To: memory.OutageResolved,
			Authority: memory.AuthorityProbe, Actor: w.opts.Name, Source: "verifier", Reason: "the verifier answers again"})
		if !errors.Is(err, memory.ErrConflict) {
			return err
		}
		rows, err := w.store.Get(ctx, row.ID)
		if err != nil {
			return err
		}
		row = rows[0]
	}
	return nil
}

// comeBack says when the row wants its next check, unless somebody re-marked it
// while it was being checked.
func (w *Worker) comeBack(ctx context.Context, mark memory.Due, at time.Time, tries int, reason string) error {
	err := w.store.Postpone(ctx, mark, at, tries, reason)
	if remarked(err) {
		return nil
	}
	return err
}

// rest puts off a row that is due again, by a read or a demotion, although all sources have answered about
// it and their verdicts still stand.
func (w *Worker) rest(ctx context.Context, mark memory.Due, sources []*Source, now time.Time) error {
	var until time.Time
	for _, s := range sources {
		said := mark.Of(s.Name)
		if said.Failures > 0 || !said.Until.After(now) {
			return nil
		}
		if until.IsZero() || said.Until.Before(until) {
			until = said.Until
		}
	}
	if until.IsZero() {
		return nil
	}
	return w.comeBack(ctx, mark, until, mark.Tries, "the verdicts still stand")
}

// backoff is how long to wait after so many checks that moved nothing.
func (w *Worker) backoff(tries int) time.Duration {
	wait, limit := w.opts.VerdictLifetime, max(w.opts.VerdictLifetime, maxBackoff)
	for ; tries > 0 && wait < limit; tries-- {
		wait = min(2*wait, limit)
	}
	return wait
}

// spend takes one question from a verifier's budget of this tick. If none is left it says how long that
// lasts. A budget that cannot be counted is spent: the row stays due.
func (w *Worker) spend(ctx context.Context, s *Source) (wait time.Duration) {
	if w.opts.Budget < 0 || s.observes {
		return 0
	}
	w.mu.Lock()
	spending := w.spending
	w.mu.Unlock()
	wait, err := spending.Spend(ctx, s.Name, w.opts.Budget, w.opts.Tick)
	if err != nil {
		w.uncounted(ctx, s.Name, err)
		return time.Second
	}
	return wait
}

func (w *Worker) uncounted(ctx context.Context, source string, err error) {
	const text = "budget cannot be counted"
	if ctx.Err() == nil && w.first(text+source) {
		w.opts.Logger.LogAttrs(ctx, slog.LevelWarn, text, slog.String("verifier", source), slog.Any("error", err))
	}
}

// share has a queue count the budgets, if the worker was told nothing else. ok is false if it cannot.
func (w *Worker) share(q CheckQueue) (ok bool) {
	s, ok := q.(Spending)
	if w.opts.Spending != nil || w.opts.Budget < 0 {
		return true
	}
	if ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.spending = s
	}
	return ok
}

// ownSpending is that of one worker.
type ownSpending struct {
	mu     sync.Mutex
	limits map[string]*rate.Limiter
}

// Spend implements Spending.
func (o *ownSpending) Spend(_ context.Context, source string, budget int, tick time.Duration) (time.Duration, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.limits[source]
	if l == nil {
		l = rate.NewLimiter(rate.Limit(float64(budget)/tick.Seconds()), budget)
		o.limits[source] = l
	}
	r := l.Reserve()
	wait := r.Delay()
	if wait > 0 {
		r.Cancel()
	}
	return wait, nil
}
