package promotion_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// said writes a claim that a user with authority made, verified.
func (w *world) said(subject, object string) memory.ID {
	return w.claim(subject, object, func(d *memory.Draft) {
		d.Origin, d.State, d.Asserter = memory.OriginUserAsserted, memory.StateVerified, memory.Asserter{Principal: subject}
		d.Evidence = []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankUser, Source: "user:" + subject, Verifier: "statement",
			Group: d.Asserter.Group(), Anchor: memory.Anchor{URI: "statement:1"}, At: w.clock()}}
	})
}

func TestAUsersWordIsTerminalForAVerifier(t *testing.T) { // SR-7.5
	w := newWorld(t)
	id := w.said("ana", "Oslo")
	for _, rank := range []memory.Rank{memory.RankSecondModel, memory.RankTool, memory.RankPrimarySource} {
		crm := ranked("crm-"+rank.String(), rank, verifiertest.Refutes("Rome"))
		worker := w.worker(nil, source(crm))
		w.pass(40 * 24 * time.Hour) // due again
		r := w.check(worker, id)
		w.want(id, memory.StateVerified, r, promotion.Kept)
		if crm.Calls() != 1 || w.row(id).Rank != memory.RankUser {
			t.Errorf("asked %d times; rank %s", crm.Calls(), w.row(id).Rank)
		}
	}
	for _, e := range w.moves(id) {
		if e.Kind == memory.EntryTransition && e.Axis != memory.AxisFreshness { // by the clock
			t.Errorf("the row moved: %+v", e)
		}
	}
	if n := len(w.row(id).Evidence); n != 4 {
		t.Errorf("dissent is reported: %d pieces of evidence", n)
	}
}

func TestAUsersRejectionIsTerminalForAVerifier(t *testing.T) { // SR-7.5, SR-7.11
	w := newWorld(t)
	id := w.claim("ana", "Oslo", nil)
	if _, err := w.store.Apply(w.ctx, memory.Transition{Row: id, Revision: 1, To: memory.TruthContradicted, Authority: memory.AuthorityUser,
		Actor: "ana", Source: "user:ana", Reason: "I moved", Reject: true}); err != nil {
		t.Fatal(err)
	}
	crm := verifiertest.New("crm", verifiertest.Supports())
	r := w.check(w.worker(nil, source(crm)), id)
	w.want(id, memory.StateUnverified, r, promotion.Kept)
	if crm.Calls() != 1 || len(w.row(id).Evidence) != 1 {
		t.Errorf("agreement is reported: %d calls, %+v", crm.Calls(), w.row(id).Evidence)
	}
}

func TestRankSettlesWhatTwoSourcesSay(t *testing.T) { // SR-4.7, SR-2.5, X-5
	for _, c := range []struct {
		name   string
		rank   memory.Rank
		status promotion.Status
		state  memory.State
		flag   memory.Flags
	}{
		{"a source of lower rank is kept", memory.RankSecondModel, promotion.Kept, memory.StateVerified, 0},
		{"a source of equal rank contests", memory.RankTool, promotion.Kept, memory.StateVerified, memory.FlagContested},
		{"a source of higher rank demotes", memory.RankPrimarySource, promotion.Demoted, memory.StateUnverified, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			id := w.claim("acme", "Oslo", nil)
			w.check(w.worker(nil, source(verifiertest.New("crm", verifiertest.Supports()))), id)
			w.pass(31 * 24 * time.Hour)
			r := w.check(w.worker(nil, source(ranked("other", c.rank, verifiertest.Refutes("Rome")))), id)
			w.want(id, c.state, r, c.status)
			if row := w.row(id); row.Flags&memory.FlagContested != c.flag || len(row.Evidence) != 2 {
				t.Errorf("flags %v, evidence %+v", row.Flags, row.Evidence)
			}
			if c.status == promotion.Demoted && w.mark(id).At.After(w.clock()) {
				t.Error("a demoted row is due at once")
			}
		})
	}
	t.Run("the source that verified a row takes its word back", func(t *testing.T) {
		w := newWorld(t)
		id, crm := w.claim("acme", "Oslo", nil), verifiertest.New("crm", verifiertest.Supports(), verifiertest.Refutes("Rome"))
		worker := w.worker(nil, source(crm))
		w.check(worker, id)
		w.pass(31 * 24 * time.Hour)
		w.want(id, memory.StateUnverified, w.check(worker, id), promotion.Demoted)
	})
	t.Run("a verifier that is down lets a stronger or weaker one answer", func(t *testing.T) {
		w := newWorld(t)
		id := w.claim("acme", "Oslo", nil)
		strong, weak := ranked("strong", memory.RankPrimarySource, verifiertest.Down(0)), ranked("weak", memory.RankTool, verifiertest.Supports())
		w.want(id, memory.StateVerified, w.check(w.worker(nil, source(weak), source(strong)), id), promotion.Promoted)
		if strong.Calls() != 1 || weak.Calls() != 1 {
			t.Error("sources are asked in order of rank")
		}
	})
}

func TestAVerifierThatIsDownLeavesTheRowAsItIs(t *testing.T) { // SR-7.6
	synctest.Test(t, func(t *testing.T) { // no time passes
		w := newWorld(t)
		id := w.claim("acme", "Oslo", func(d *memory.Draft) { d.State = memory.StateUnavailableAtWriteTime })
		before := w.mark(id)
		for range 5 {
			r := w.check(w.worker(nil, source(verifiertest.New("crm", verifiertest.Down(time.Minute)))), id)
			w.want(id, memory.StateUnavailableAtWriteTime, r, promotion.Down)
			if in := time.Until(r.RetryAt); in != time.Minute {
				t.Errorf("comes back in %s", in)
			}
			w.want(id, memory.StateUnavailableAtWriteTime, w.check(w.worker(nil, source(verifiertest.New("crm", verifiertest.Supports()))), id), promotion.NotDue) // it is set aside
			w.pass(20 * time.Second)
		}
		after := w.mark(id)
		if n := after.Of("crm").Failures; n != 5 {
			t.Errorf("%d failures", n)
		}
		if after.Sources = nil; !reflect.DeepEqual(after, before) || len(w.moves(id)) != 0 {
			t.Errorf("the outage left a mark: %+v, %+v", after, w.moves(id))
		}
	})
}

func TestAnAnswerEndsTheOutageOfTheWrite(t *testing.T) {
	for _, c := range []struct {
		name   string
		step   verifiertest.Step
		rank   memory.Rank
		state  memory.State
		status promotion.Status
	}{
		{"support verifies the row", verifiertest.Supports(), memory.RankTool, memory.StateVerified, promotion.Promoted},
		{"an unclear answer makes it unverified", verifiertest.Unclear(), memory.RankTool, memory.StateUnverified, promotion.Unclear},
		{"support that does not suffice makes it unverified", verifiertest.Supports(), memory.RankSecondModel, memory.StateUnverified, promotion.Kept},
		{"a refutation makes it unverified", verifiertest.Refutes("Rome"), memory.RankTool, memory.StateUnverified, promotion.Demoted},
		{"a wrong key is no answer", verifiertest.Misconfigured(), memory.RankTool, memory.StateUnavailableAtWriteTime, promotion.Misconfigured},
		{"a malformed verdict is no answer", verifiertest.Malformed(), memory.RankTool, memory.StateUnavailableAtWriteTime, promotion.Unclear},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			id := w.claim("acme", "Oslo", func(d *memory.Draft) { d.State = memory.StateUnavailableAtWriteTime })
			r := w.check(w.worker(nil, source(ranked("crm", c.rank, c.step))), id)
			w.want(id, c.state, r, c.status)
		})
	}
	t.Run("an answer that a rival contests makes it unverified", func(t *testing.T) {
		w := newWorld(t)
		w.said("ana", "Oslo")
		id := w.claim("ana", "Rome", func(d *memory.Draft) { d.State = memory.StateUnavailableAtWriteTime })
		r := w.check(w.worker(nil, source(verifiertest.New("crm", verifiertest.Supports()))), id)
		w.want(id, memory.StateUnverified, r, promotion.Kept)
	})
}

// The first source's word moves the row's version without verifying it; the
// second is heard none the less, and the row is not asked about again at once.
func TestAnAnswerThatOnlyMarksTheRowDoesNotMakeTheNextOneStale(t *testing.T) {
	w := newWorld(t)
	w.said("ana", "Oslo")
	id := w.claim("ana", "Rome", nil)
	first, second := ranked("doc", memory.RankPrimarySource, verifiertest.Supports()), verifiertest.New("crm", verifiertest.Supports())
	worker := w.worker(nil, source(first), source(second))
	r := w.check(worker, id)
	w.want(id, memory.StateUnverified, r, promotion.Kept)
	if r := w.check(worker, id); r.Status != promotion.NotDue || first.Calls() != 1 || second.Calls() != 1 {
		t.Errorf("%s after %d and %d calls", r.Status, first.Calls(), second.Calls())
	}
}

func TestARowThatNobodyCoversIsParkedAndAReadBringsItBack(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "Oslo", nil)
	none := w.worker(nil, promotion.Source{Name: "crm", Verifier: verifiertest.New("crm"), Covers: func(memory.Content) bool { return false }})
	w.want(id, memory.StateUnverified, w.check(none, id), promotion.Parked)
	if m := w.mark(id); !m.At.IsZero() || m.Reason == "" {
		t.Fatalf("not parked, or without a reason: %+v", m)
	}
	if r := w.check(none, id); r.Status != promotion.NotDue {
		t.Errorf("a parked row is not asked about: %s", r.Status)
	}
	q := &looks{}
	heater := promotion.NewHeater(w.store, q, nil)
	heater.ObserveReads(w.ctx, []memory.ID{id}, 1)
	if err := heater.Flush(w.ctx); err != nil {
		t.Fatal(err)
	}
	if q.n.Load() != 1 || w.mark(id).At.IsZero() {
		t.Fatal("the read did not bring it back")
	}
	w.want(id, memory.StateVerified, w.check(w.worker(nil, source(verifiertest.New("crm", verifiertest.Supports()))), id), promotion.Promoted)
}

// The audited loop read one made-up row 808 times.
func TestARowIsAskedAboutOnceAVerdictLifetimeHoweverOftenItIsRead(t *testing.T) {
	w := newWorld(t)
	id, crm := w.claim("acme", "Oslo", nil), verifiertest.New("crm", verifiertest.Unclear())
	worker := w.worker(&promotion.Options{VerdictLifetime: time.Hour, Budget: -1}, source(crm))
	q := &looks{}
	heater := promotion.NewHeater(w.store, q, nil)
	read := func(n int) {
		t.Helper()
		for range n {
			heater.ObserveReads(w.ctx, []memory.ID{id}, 1)
			if err := heater.Flush(w.ctx); err != nil {
				t.Fatal(err)
			}
			w.check(worker, id)
		}
	}
	read(808)
	if crm.Calls() != 1 {
		t.Fatalf("808 reads bought %d calls", crm.Calls())
	}
	// Each answer that moves nothing stands twice as long, up to a week.
	for i, hours := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 168} {
		w.pass(hours*time.Hour - time.Second)
		read(3)
		if crm.Calls() != i+1 {
			t.Fatalf("asked early, in lifetime %d", i)
		}
		w.pass(time.Second)
		read(3)
		if crm.Calls() != i+2 {
			t.Fatalf("lifetime %d: %d calls", i, crm.Calls())
		}
	}
	// Ten times, and nothing moved: while it is read it is asked about once a week.
	w.pass(7*24*time.Hour - time.Second)
	read(808)
	if crm.Calls() != 10 {
		t.Fatalf("asked before the last verdict ended: %d calls", crm.Calls())
	}
	w.pass(time.Second)
	read(808)
	if crm.Calls() != 11 {
		t.Fatalf("%d calls", crm.Calls())
	}
	// Once nobody reads it, it is parked, and not asked about; a read brings it back.
	w.pass(60 * 24 * time.Hour)
	if r := w.check(worker, id); r.Status != promotion.Parked || crm.Calls() != 11 || !w.mark(id).At.IsZero() {
		t.Fatalf("%s after %d calls, %+v", r.Status, crm.Calls(), w.mark(id))
	}
	// Any worker knows when an answer ends, one that was started now too.
	worker = w.worker(&promotion.Options{VerdictLifetime: time.Hour, Budget: -1}, source(crm))
	read(808)
	if crm.Calls() != 12 {
		t.Fatalf("%d calls", crm.Calls())
	}
	for range 5 {
		w.pass(time.Hour)
		worker = w.worker(&promotion.Options{VerdictLifetime: time.Hour, Budget: -1}, source(crm))
		read(808)
	}
	if crm.Calls() != 12 {
		t.Fatalf("each worker asks anew: %d calls", crm.Calls())
	}
	if row, heat := w.row(id), w.mark(id).Heat; heat <= 0 || row.State() != memory.StateUnverified {
		t.Errorf("heat %v, %s", heat, row.State())
	}
}

func TestALongVerdictLifetimeIsKept(t *testing.T) {
	w := newWorld(t)
	const month = 31 * 24 * time.Hour
	id, crm := w.claim("acme", "Oslo", nil), verifiertest.New("crm", verifiertest.Unclear())
	worker := w.worker(&promotion.Options{VerdictLifetime: month, Budget: -1}, source(crm))
	for i := range 10 {
		w.check(worker, id)
		if crm.Calls() != i+1 {
			t.Fatalf("%d calls", crm.Calls())
		}
		w.pass(month - time.Second)
		w.check(worker, id)
		w.pass(time.Second)
	}
}

// A sweep, a read and the user meet on one row: each saw the same version of it.
func TestI6ThreeTriggersOnOneRowGiveOneTransitionAndOneAuditEntry(t *testing.T) { // SR-7.10
	for range 200 {
		w := newWorld(t)
		id := w.claim("ana", "Oslo", nil)
		var met, ended sync.WaitGroup
		met.Add(3)
		won := make(chan string, 3)
		crm := verifiertest.New("crm", func(ctx context.Context, s *verifiertest.Scripted, row memory.Row) (verifier.Verdict, error) {
			met.Done()
			met.Wait()
			return verifiertest.Supports()(ctx, s, row)
		})
		for _, trigger := range []string{"sweep", "read"} {
			worker := w.worker(&promotion.Options{Name: trigger}, source(crm))
			ended.Go(func() {
				r, err := worker.Check(w.ctx, id)
				switch {
				case err != nil:
					t.Error(err)
				case r.Status == promotion.Promoted:
					won <- trigger
				case r.Status != promotion.Moved:
					t.Errorf("the %s ended %s", trigger, r.Status)
				}
			})
		}
		ended.Go(func() {
			met.Done()
			met.Wait()
			_, err := w.store.Apply(w.ctx, memory.Transition{Row: id, Revision: 1, To: memory.TruthSupported, Authority: memory.AuthorityUser, Actor: "ana",
				Source: "user:ana", Reason: "yes", Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankUser, Source: "user:ana",
					Verifier: "statement", Group: "user:ana", Anchor: memory.Anchor{URI: "statement:1"}, At: w.clock()}}})
			switch {
			case err == nil:
				won <- "ana"
			case !errors.Is(err, memory.ErrConflict):
				t.Error(err)
			}
		})
		ended.Wait()
		close(won)
		moves := w.moves(id)
		if len(won) != 1 || len(moves) != 1 || w.row(id).Revision != 2 {
			t.Fatalf("%d winners, revision %d, history %+v", len(won), w.row(id).Revision, moves)
		}
		if winner := <-won; moves[0].Actor != winner || moves[0].Kind != memory.EntryTransition {
			t.Fatalf("%s won, and the audit says %+v", winner, moves[0])
		}
	}
}

// overlapped lets another check run between the first two looks of one.
type overlapped struct {
	promotion.Store
	other func()
}

func (s *overlapped) then() {
	if other := s.other; other != nil {
		s.other = nil
		other()
	}
}

func (s *overlapped) Get(ctx context.Context, ids ...memory.ID) ([]memory.Row, error) {
	defer s.then()
	return s.Store.Get(ctx, ids...)
}

func (s *overlapped) DueMark(ctx context.Context, id memory.ID) (memory.Due, bool, error) {
	defer s.then()
	return s.Store.DueMark(ctx, id)
}

func TestI6ACheckThatBeganBeforeAnotherOneVerifiedTheRowAsksNobody(t *testing.T) {
	w := newWorld(t)
	id, crm := w.claim("acme", "Oslo", nil), verifiertest.New("crm", verifiertest.Supports())
	first := w.worker(nil, source(crm))
	late, err := promotion.NewWorker(&overlapped{w.store, func() { w.check(first, id) }}, []promotion.Source{source(crm)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := w.check(late, id); r.Status != promotion.NotDue || crm.Calls() != 1 || len(w.moves(id)) != 1 {
		t.Errorf("%s after %d calls: %+v", r.Status, crm.Calls(), w.moves(id))
	}
}

// interrupted is a store in which something happens just before a mark is put off.
type interrupted struct {
	promotion.Store
	by func()
}

func (s *interrupted) Postpone(ctx context.Context, mark memory.Due, at time.Time, tries int, reason string) error {
	s.by()
	return s.Store.Postpone(ctx, mark, at, tries, reason)
}

// A row that loses its state at the very end of a check stays due at once.
func TestADemotionAtTheEndOfACheckIsNotPutOff(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "Oslo", nil)
	crm, erp := verifiertest.New("crm", verifiertest.Supports()), verifiertest.New("erp", verifiertest.Unclear())
	w.check(w.worker(nil, source(crm)), id)
	w.pass(40 * 24 * time.Hour)
	late, err := promotion.NewWorker(&interrupted{w.store, func() {
		if err := w.store.Revoke(w.ctx, memory.Revocation{Kind: memory.RevokedVerifier, Name: "crm", Since: time.Unix(1, 0), By: "ops", Reason: "it lied"}, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.WalkRevocations(w.ctx, nil); err != nil {
			t.Fatal(err)
		}
	}}, []promotion.Source{source(erp)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.want(id, memory.StateUnverified, w.check(late, id), promotion.Unclear)
	if m := w.mark(id); !strings.HasPrefix(m.Reason, "demoted: ") || m.At.After(w.clock()) || m.Tries != 0 {
		t.Errorf("it waits for %s: %s, after %d tries", m.At.Sub(w.clock()), m.Reason, m.Tries)
	}
}

func TestARowThatWasErasedWantsNoCheck(t *testing.T) {
	w := newWorld(t)
	id, crm := w.claim("acme", "Oslo", nil), verifiertest.New("crm", verifiertest.Supports())
	if _, err := w.store.Erase(w.ctx, memory.Erasure{Subject: "acme", Actor: "dpo"}); err != nil {
		t.Fatal(err)
	}
	if r := w.check(w.worker(nil, source(crm)), id); r.Status != promotion.Moved || crm.Calls() > 0 {
		t.Errorf("%s after %d questions", r.Status, crm.Calls())
	}
	t.Run("nor one that is erased while it is checked", func(t *testing.T) {
		id := w.claim("umbrella", "Oslo", nil)
		worker, err := promotion.NewWorker(&interrupted{w.store, func() {
			if _, err := w.store.Erase(w.ctx, memory.Erasure{Subject: "umbrella", Actor: "dpo"}); err != nil {
				t.Fatal(err)
			}
		}}, []promotion.Source{source(verifiertest.New("crm", verifiertest.Unclear()))}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r := w.check(worker, id); r.Status != promotion.Unclear {
			t.Error(r.Status)
		}
		if _, due, err := w.store.DueMark(w.ctx, id); due || err != nil {
			t.Errorf("it is due: %t, %v", due, err)
		}
	})
}

// What a server or a panic says may repeat the claim: the log has none of it.
func TestTheLogRepeatsNoWordsOfASource(t *testing.T) {
	const secret = "umbrella-7731"
	for name, c := range map[string]struct {
		step verifiertest.Step
		line string
	}{
		"an outage":          {verifiertest.Fails(&verifier.UnavailableError{Err: &verifier.Quote{Err: errors.New("HTTP 500"), Text: "no row " + secret}}), "verifier is down"},
		"a misconfiguration": {verifiertest.Fails(&verifier.MisconfiguredError{Err: &verifier.Quote{Err: errors.New("HTTP 422"), Text: secret}}), "verifier cannot be used"},
		"a panic":            {verifiertest.Panics("no row " + secret), "it panicked"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			crm := verifiertest.New("crm", c.step)
			guard := verifier.WithBreaker("crm", crm, nil)
			_, err := guard.Verify(t.Context(), w.row(w.claim(secret, "Oslo", nil)))
			if err == nil || !strings.Contains(err.Error(), secret) {
				t.Errorf("whoever asks is not told: %v", err)
			}
			for i, v := range []verifier.Verifier{guard, verifier.NewQuorum("both", 2, verifier.Member{Name: "erp", Rank: memory.RankTool,
				Verifier: verifiertest.New("erp", verifiertest.Supports())}, verifier.Member{Name: "crm", Rank: memory.RankTool, Verifier: guard})} {
				var log bytes.Buffer
				worker := w.worker(&promotion.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, promotion.Source{Name: "crm", Verifier: v})
				w.check(worker, w.claim(secret, fmt.Sprint("Rome ", i), nil))
				if !strings.Contains(log.String(), c.line) || strings.Contains(log.String(), secret) {
					t.Errorf("%s", &log)
				}
			}
		})
	}
}
