package rlab

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// asking is a memory that asks the system of record when it is looked at.
type asking struct {
	mu      sync.Mutex
	env     Env
	bad     string // what it does badly
	texts   []string
	trusted map[string]bool
	known   map[string]bool // an answer came
	open    time.Time       // until when it leaves the system of record alone
}

func (a *asking) Write(_ context.Context, _ Turn, s Statement) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bad != "loses" || len(a.texts)%10 > 0 {
		a.texts = append(a.texts, s.Text)
	} else {
		a.texts = append(a.texts, "")
	}
	return s.Text, nil
}

func (a *asking) ask(ctx context.Context, text string) {
	if a.known[text] || a.bad != "storms" && a.env.Now().Before(a.open) {
		return
	}
	t, _ := Extract(text)
	value, found, err := a.env.Record.Lookup(ctx, t.Subject, t.Predicate)
	for range 2 {
		if err != nil && a.bad == "storms" { // it tries again at once
			value, found, err = a.env.Record.Lookup(ctx, t.Subject, t.Predicate)
		}
	}
	if err != nil {
		a.open = a.env.Now().Add(5 * time.Minute)
		a.trusted[text] = a.bad == "believes"
		return
	}
	a.known[text], a.trusted[text] = true, found && value == t.Object && a.bad != "gives up"
}

func (a *asking) Look(ctx context.Context, ids []string) (out []Memory, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		at := slices.Index(a.texts, id)
		if at >= 0 && (a.bad != "evicts" || at%10 > 0 || a.env.Now().Sub(start) < outageLasts/2) {
			a.ask(ctx, id)
			out = append(out, Memory{ID: id, Text: id, Trusted: a.trusted[id]})
		}
	}
	return out, nil
}

func (a *asking) Recall(ctx context.Context, _ Turn, q Query) (out []Memory, err error) {
	var ids []string
	a.mu.Lock()
	for _, text := range a.texts {
		if t, _ := Extract(text); t.Subject == q.Subject {
			ids = append(ids, text)
		}
	}
	a.mu.Unlock()
	return a.Look(ctx, ids)
}

func (a *asking) Decide(_ context.Context, _ Turn, do Action) (Verdict, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Verdict{Allowed: slices.ContainsFunc(do.Recalled, func(id string) bool { return a.trusted[id] })}, nil
}

// Settle makes a bubble wait for it: time passes by itself.
func (a *asking) Settle(context.Context) error { return nil }

// TestOutage: what a memory loses, believes and asks while nobody can check it is measured, and
// whether it gets over that.
func TestOutage(t *testing.T) {
	n, isTrue := outageClaims(Small), outageClaims(Small)*outageTrue/10
	// One that asks at each look has an answer at the first look, half a minute after the system of
	// record is back. One that waits for five minutes after an error had one at the end of the
	// outage.
	for bad, want := range map[string]struct {
		lost, down, verified, blocked Rate
		storms                        bool
		minutes                       float64
	}{
		"": {lost: Rate{0, n}, down: Rate{0, n}, verified: Rate{0, n - isTrue}, blocked: Rate{0, isTrue}, minutes: 5},
		// What it loses is true or false as it comes.
		"loses": {lost: Rate{n / 10, n}, down: Rate{0, n}, verified: Rate{0, n - isTrue}, blocked: Rate{16, isTrue}, minutes: outageRepair.Minutes()},
		// It has all claims when they are written, and drops some later.
		"evicts":   {lost: Rate{n / 10, n}, down: Rate{0, n}, verified: Rate{0, n - isTrue}, blocked: Rate{16, isTrue}, minutes: outageRepair.Minutes()},
		"believes": {lost: Rate{0, n}, verified: Rate{0, n - isTrue}, blocked: Rate{0, isTrue}, minutes: 5},
		"storms":   {lost: Rate{0, n}, down: Rate{0, n}, verified: Rate{0, n - isTrue}, blocked: Rate{0, isTrue}, storms: true, minutes: 0.5},
		"gives up": {lost: Rate{0, n}, down: Rate{0, n}, verified: Rate{0, n - isTrue}, blocked: Rate{isTrue, isTrue}, minutes: outageRepair.Minutes()},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := Entrant{Name: bad, Open: func(_ context.Context, env Env) (System, error) {
				if env.Speed != outageSpeed {
					t.Errorf("the clock is %d times as fast as real time", env.Speed)
				}
				return &asking{env: env, bad: bad, trusted: map[string]bool{}, known: map[string]bool{}}, nil
			}}
			began := time.Now()
			p := measures(t, "S6", e, map[string]Rate{lost: want.lost, falseVerified: want.verified, benignBlocked: want.blocked})
			if down := p.Rates[downTrusted]; down.N != n || (down.K > 0) != (bad == "believes") {
				t.Errorf("%q: %s trusted while down", bad, down)
			}
			if v := p.Values[outageAsked][0].V; (v > 1) != want.storms || v == 0 {
				t.Errorf("%q: %v questions a claim while down", bad, v)
			}
			minutes := p.Values[repairMinutes][0].V
			if minutes != want.minutes {
				t.Errorf("%q: repaired after %v minutes", bad, minutes)
			}
			if v := p.Values[repairAsked][0].V; v < 0.9 || v > 1.3 && bad != "storms" {
				t.Errorf("%q: %v questions a claim afterwards", bad, v)
			}
			// Real time is a sixtieth.
			if took, least := time.Since(began), (outageLasts+outageFlaps+outageErrs)/outageSpeed; took < least || took > least+outageRepair/outageSpeed {
				t.Errorf("%q: it took %s", bad, took)
			}
		})
	}
}

// TestAClockThatRuns goes on by itself, and turns move it on.
func TestAClockThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clock{now: start}
		time.Sleep(time.Second)
		if !c.Now().Equal(start) {
			t.Error("it runs before it is let run")
		}
		c.run(60)
		time.Sleep(time.Second)
		c.pass(time.Hour)
		if got := c.Now().Sub(start); got != time.Hour+time.Minute {
			t.Errorf("%s", got)
		}
	})
}

// budgeted is a memory that asks the system of record about as many claims a minute as it may:
// about the one that is read, or in the order in which they were written.
type budgeted struct {
	asking
	inOrder, forgets bool
	of               map[string]string // texts by subject
	minute           int64
	left, next       int
}

func (b *budgeted) Write(_ context.Context, _ Turn, s Statement) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t, _ := Extract(s.Text); b.of[t.Subject] == "" {
		b.of[t.Subject] = s.Text
		b.texts = append(b.texts, s.Text)
	}
	return s.Text, nil
}

func (b *budgeted) check(ctx context.Context, text string) bool {
	if now := b.env.Now().Unix() / 60; now != b.minute {
		b.minute, b.left = now, b.env.Budget
	}
	if b.left == 0 {
		return false
	}
	if b.ask(ctx, text); b.forgets && !b.trusted[text] {
		b.known[text] = false
	}
	b.left--
	return true
}

func (b *budgeted) Recall(ctx context.Context, _ Turn, q Query) ([]Memory, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.of[q.Subject]
	switch {
	case b.inOrder:
		for b.next < len(b.texts) && b.check(ctx, b.texts[b.next]) {
			b.next++
		}
	case !b.known[text]:
		b.check(ctx, text)
	}
	return []Memory{{ID: text, Text: text, Trusted: b.trusted[text]}}, nil
}

// TestBudget: who asks about what is read has the hot claims soon; who does not, has not; and
// who asks about the loop's claim each time it is read, spends his budget on it.
func TestBudget(t *testing.T) {
	played := map[string]Played{}
	for name, b := range map[string]struct{ inOrder, forgets bool }{"read": {}, "written": {inOrder: true}, "forgets": {forgets: true}} {
		e := Entrant{Name: name, Open: func(_ context.Context, env Env) (System, error) {
			if env.Budget != hotBudget(Small) || env.Speed != hotSpeed {
				t.Errorf("budget %d, speed %d", env.Budget, env.Speed)
			}
			return &budgeted{asking: asking{env: env, trusted: map[string]bool{}, known: map[string]bool{}}, inOrder: b.inOrder, forgets: b.forgets, of: map[string]string{}}, nil
		}}
		synctest.Test(t, func(t *testing.T) {
			played[name] = measures(t, "S11", e, map[string]Rate{unsafe: {0, 1}})
		})
	}
	value := func(name, of string) float64 { return played[name].Values[of][0].V }
	for name, p := range played {
		if r := p.Rates[hotMissed]; r.N < 15 || r.N > 20 || (r.K > 0) != (name == "written") {
			t.Errorf("%s: %s hot claims missed", name, r)
		}
		if r := p.Rates[readsEarly]; r.N != 12_000 || r.K == 0 || r.K == r.N {
			t.Errorf("%s: %s reads too early", name, r)
		}
		if q := value(name, questions); q < 1 || p.Values[questions][0].N == 0 {
			t.Errorf("%s: %v questions a claim of use", name, q)
		}
	}
	if read, written := value("read", promotedP50), value("written", promotedP50); read > 120 || written < 10*read {
		t.Errorf("promoted after %v s by reads, %v s in the order of the writes", read, written)
	}
	if once, again := value("read", loopAsked), value("forgets", loopAsked); once != 1 || again < 50 {
		t.Errorf("%v and %v questions about the loop", once, again)
	}
}

// TestTheSystemOfRecordFailsByTheNumber of the question, from 0.
func TestTheSystemOfRecordFailsByTheNumber(t *testing.T) {
	r := &register{values: map[[2]string]string{}, asked: map[[2]string]int{}}
	r.set(Triple{"acme", "account", "alpha"})
	ask := func() error {
		value, found, err := r.Lookup(t.Context(), "acme", "account")
		if err == nil && (!found || value != "alpha") {
			t.Errorf("%q, %t", value, found)
		}
		return err
	}
	for n, fails := range []bool{true, false, false, true} {
		r.fail(func(n int) bool { return n%3 == 0 })
		if err := ask(); (err != nil) != fails {
			t.Errorf("question %d: %v", n, err)
		}
	}
	if n := r.questions(); n != 4 {
		t.Errorf("%d questions", n)
	}
}

// TestPromotions: how soon hot claims were found promoted, of those that the system of record
// has and that somebody read. One that was not counts with the whole hour.
func TestPromotions(t *testing.T) {
	p := &play{rates: map[string]*Rate{}, values: map[string][]Value{}, record: &register{total: 9}}
	all := make([]popular, 8*hotShare)
	order := make([]int, len(all))
	for i := range all {
		order[i] = len(all) - 1 - i
	}
	read := func(rank int, first, promoted time.Duration) {
		c := &all[order[rank]]
		c.first = start.Add(first)
		if promoted > 0 {
			c.promoted = start.Add(promoted)
		}
	}
	read(0, time.Second, 11*time.Second) // 10 s
	read(1, time.Minute, 0)              // missed
	read(2, 2*time.Second, 22*time.Second)
	read(3, time.Second, 31*time.Second)
	read(4, time.Second, 41*time.Second) // 40 s
	order[5] = 0                         // the system of record knows nothing of it
	all[0].unknown, all[0].first, all[0].promoted = true, start, start.Add(time.Second)
	// Nobody reads the other hot ones.
	read(8, time.Second, 61*time.Second) // of use, and not hot
	p.promotions(all, order)
	if r := *p.rates[hotMissed]; r != (Rate{1, 5}) {
		t.Errorf("%s missed", r)
	}
	for name, want := range map[string]Value{promotedP50: {V: 30, N: 5}, promotedP99: {V: hotLasts.Seconds(), N: 5}, questions: {V: 1.5, N: 6}} {
		if got := p.values[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
