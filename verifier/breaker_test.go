package verifier_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// ask returns the error, and how long the guard says to wait.
func ask(t *testing.T, v verifier.Verifier) (verifier.Outcome, time.Duration, error) {
	t.Helper()
	got, err := v.Verify(t.Context(), row("acme", "iban", "DE89", functional))
	var down *verifier.UnavailableError
	if err != nil && (got.Outcome != 0 || got.Evidence.Relation != 0) {
		t.Fatalf("an error comes with the verdict %v", got)
	}
	if errors.As(err, &down) {
		return got.Outcome, down.RetryAfter, err
	}
	return got.Outcome, 0, err
}

func TestTheBreakerOpensProbesAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := verifiertest.New("crm", verifiertest.Down(0))
		g := verifier.WithBreaker("crm", s, &verifier.BreakerOptions{FirstOpen: 10 * time.Second, OpenFor: 10 * time.Second})
		if g.State() != verifier.StateClosed || !g.RetryAt().IsZero() || g.Name() != "crm" {
			t.Fatal("a new breaker is not closed")
		}
		for range 3 {
			if _, _, err := ask(t, g); !errors.Is(err, verifier.ErrUnavailable) || errors.Is(err, verifier.ErrOpen) {
				t.Fatal(err)
			}
		}
		opened := time.Now()
		if g.State() != verifier.StateOpen {
			t.Fatal("three outages in a row did not open it")
		}
		<-time.After(4 * time.Second)
		_, wait, err := ask(t, g)
		if !errors.Is(err, verifier.ErrOpen) || wait != 6*time.Second+time.Nanosecond || s.Calls() != 3 {
			t.Fatalf("open: %v after %d calls", err, s.Calls())
		}
		if at := g.RetryAt(); at.Sub(opened) != 10*time.Second+time.Nanosecond {
			t.Fatalf("it may be asked again after %v", at.Sub(opened))
		}

		// A task that comes back exactly at RetryAt is let through; the probe fails.
		<-time.After(time.Until(g.RetryAt()))
		if g.State() != verifier.StateHalfOpen {
			t.Fatalf("at RetryAt it is %v", g.State())
		}
		if _, _, err := ask(t, g); errors.Is(err, verifier.ErrOpen) || s.Calls() != 4 || g.State() != verifier.StateOpen {
			t.Fatalf("the probe: %v, then %v", err, g.State())
		}

		// The next one succeeds: it is back.
		s.Set(verifiertest.Supports())
		<-time.After(time.Until(g.RetryAt()))
		if o, _, err := ask(t, g); err != nil || o != verifier.Supported || g.State() != verifier.StateClosed {
			t.Fatalf("%v %v, then %v", o, err, g.State())
		}
	})
}

// TestABreakerOpensForLongerAfterEachProbeInVain, up to OpenFor, and begins anew when it was closed.
func TestABreakerOpensForLongerAfterEachProbeInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := verifiertest.New("crm", verifiertest.Down(0))
		g := verifier.WithBreaker("crm", s, nil)
		for range 2 {
			time.Sleep(time.Second) // it was silent for so long
			for range 3 {
				ask(t, g)
			}
			for _, ms := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
				if got, want := time.Until(g.RetryAt()), ms*time.Millisecond+time.Nanosecond; got != want || g.State() != verifier.StateOpen {
					t.Fatalf("%s for %s, want %s", g.State(), got, want)
				}
				time.Sleep(time.Until(g.RetryAt()) - time.Nanosecond)
				if _, _, err := ask(t, g); !errors.Is(err, verifier.ErrOpen) {
					t.Fatal(err)
				}
				time.Sleep(time.Nanosecond)
				if g.State() != verifier.StateHalfOpen {
					t.Fatal(g.State())
				}
				if _, _, err := ask(t, g); errors.Is(err, verifier.ErrOpen) {
					t.Fatal(err)
				}
			}
			s.Set(verifiertest.Supports())
			time.Sleep(time.Until(g.RetryAt()))
			if _, _, err := ask(t, g); err != nil || g.State() != verifier.StateClosed {
				t.Fatal(err, g.State())
			}
			s.Set(verifiertest.Down(0))
		}
		if n := s.Calls(); n != 2*(3+8+1) {
			t.Errorf("%d questions", n)
		}
	})
}

// TestFailuresDoNotOpenTheBreakerWhileOthersAreAnswered: some rows always fail.
func TestFailuresDoNotOpenTheBreakerWhileOthersAreAnswered(t *testing.T) {
	for name, answers := range map[string]verifiertest.Step{"unclear": verifiertest.Unclear(), "refutations": verifiertest.Refutes("GB12")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := verifiertest.New("crm", verifiertest.Down(0))
				g := verifier.WithBreaker("crm", s, nil)
				for range 10 {
					s.Set(answers)
					ask(t, g)
					s.Set(verifiertest.Down(0))
					for range 9 {
						time.Sleep(100 * time.Millisecond)
						if ask(t, g); g.State() != verifier.StateClosed {
							t.Fatal(g.State())
						}
					}
				}
				time.Sleep(100 * time.Millisecond)
				if ask(t, g); g.State() != verifier.StateOpen {
					t.Fatal(g.State())
				}
			})
		})
	}
}

func TestOnlyOneProbePassesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := verifiertest.New("crm", verifiertest.Down(0))
		g := verifier.WithBreaker("crm", s, &verifier.BreakerOptions{Failures: 1, Timeout: 5 * time.Second})
		ask(t, g)
		<-time.After(time.Until(g.RetryAt()))
		release := make(chan struct{})
		s.Set(verifiertest.Stuck(release, verifiertest.Supports()))
		probe := make(chan error)
		go func() { _, _, err := ask(t, g); probe <- err }()
		synctest.Wait()
		if _, wait, err := ask(t, g); !errors.Is(err, verifier.ErrOpen) || wait <= 0 || wait > time.Second || s.Calls() != 2 {
			t.Fatal(wait, err)
		}
		close(release)
		if err := <-probe; err != nil || g.State() != verifier.StateClosed || g.InFlight() != 0 {
			t.Fatal(err, g.State(), g.InFlight())
		}
	})
}

// comparing is an error that panics where errors.Is asks it.
type comparing struct{}

func (comparing) Error() string { return "boom" }
func (comparing) Is(error) bool { panic("boom") }

// unwrapping is an error that panics where errors.Is asks for its cause.
type unwrapping struct{}

func (unwrapping) Error() string { return "boom" }
func (unwrapping) Unwrap() error { panic("boom") }

func TestWhatOpensTheBreaker(t *testing.T) {
	for name, step := range map[string]verifiertest.Step{
		"refutations":     verifiertest.Refutes("GB12"),
		"unclear answers": verifiertest.Unclear(),
		"malformed ones":  verifiertest.Malformed(),
		"flapping":        verifiertest.Flaps(verifiertest.Down(0), verifiertest.Unclear()),
	} {
		t.Run(name+" leave it closed", func(t *testing.T) {
			g := verifier.WithBreaker("crm", verifiertest.New("crm", step), &verifier.BreakerOptions{Failures: 2})
			for range 9 {
				ask(t, g)
			}
			if g.State() != verifier.StateClosed || g.InFlight() != 0 {
				t.Fatal(g.State(), g.InFlight())
			}
		})
	}
	for name, step := range map[string]verifiertest.Step{"misconfigurations": verifiertest.Misconfigured(), "panics": verifiertest.Panics("boom")} {
		t.Run(name+" open it", func(t *testing.T) {
			g := verifier.WithBreaker("crm", verifiertest.New("crm", step), &verifier.BreakerOptions{Failures: 2})
			for range 2 {
				ask(t, g)
			}
			if g.State() != verifier.StateOpen || g.InFlight() != 0 {
				t.Fatal(g.State(), g.InFlight())
			}
		})
	}
	for name, err := range map[string]error{"an error that is a nil pointer": (*verifier.Quote)(nil), "an error without a cause": &verifier.Quote{}, "an error that panics where it is compared": comparing{},
		"one around an error that panics": &verifier.MisconfiguredError{Verifier: "crm", Err: comparing{}}, "one around an error that has no cause": &verifier.MisconfiguredError{Verifier: "crm", Err: unwrapping{}}} {
		t.Run(name+" opens it, and keeps no place", func(t *testing.T) {
			g := verifier.WithBreaker("crm", verifier.Func(func(context.Context, memory.Row) (verifier.Verdict, error) { return verifier.Verdict{}, err }), &verifier.BreakerOptions{Failures: 2})
			for range 2 {
				if _, _, err := ask(t, g); !errors.Is(err, verifier.ErrMisconfigured) {
					t.Error(err)
				}
			}
			if g.State() != verifier.StateOpen || g.InFlight() != 0 {
				t.Fatal(g.State(), g.InFlight())
			}
		})
	}
	t.Run("cancellations leave it as it is", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := verifiertest.New("crm", verifiertest.Down(0), verifiertest.Hangs())
			g := verifier.WithBreaker("crm", s, &verifier.BreakerOptions{Failures: 2})
			ask(t, g)
			for range 9 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				time.AfterFunc(time.Second, cancel)
				if _, err := g.Verify(ctx, memory.Row{}); err != context.Canceled {
					t.Fatal(err)
				}
				cancel()
			}
			if g.State() != verifier.StateClosed {
				t.Fatal("opened by the caller")
			}
			s.Set(verifiertest.Down(0))
			ask(t, g)
			if g.State() != verifier.StateOpen {
				t.Fatal("the cancellations broke the row of outages")
			}
			// A cancelled probe is no answer: the next question is the probe.
			<-time.After(time.Until(g.RetryAt()))
			s.Set(verifiertest.Hangs())
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if _, err := g.Verify(ctx, memory.Row{}); err != context.Canceled || g.State() != verifier.StateHalfOpen {
				t.Fatal(err, g.State())
			}
			synctest.Wait()
			s.Set(verifiertest.Supports())
			if o, _, err := ask(t, g); o != verifier.Supported || g.State() != verifier.StateClosed {
				t.Fatal(o, err)
			}
		})
	})
}

func TestRetryAfterIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := verifiertest.New("crm", verifiertest.Down(30*time.Second), verifiertest.Supports())
		g := verifier.WithBreaker("crm", s, nil)
		start := time.Now()
		if _, wait, err := ask(t, g); wait != 30*time.Second || errors.Is(err, verifier.ErrOpen) {
			t.Fatal(err)
		}
		if g.State() != verifier.StateOpen || g.RetryAt().Sub(start) != 30*time.Second {
			t.Fatal(g.State(), g.RetryAt().Sub(start))
		}
		<-time.After(29 * time.Second)
		if _, wait, err := ask(t, g); wait != time.Second || !errors.Is(err, verifier.ErrOpen) || s.Calls() != 1 {
			t.Fatal(err, s.Calls())
		}
		<-time.After(time.Second)
		if o, _, err := ask(t, g); o != verifier.Supported || g.State() != verifier.StateClosed {
			t.Fatal(err)
		}
	})
	t.Run("the later of it and the breaker counts", func(t *testing.T) {
		for after, want := range map[time.Duration]time.Duration{
			50 * time.Millisecond:    100*time.Millisecond + time.Nanosecond,
			20 * time.Second:         20 * time.Second,
			10000 * time.Hour:        time.Hour, // nobody is told to stay away for ever
			-7 * time.Second:         100*time.Millisecond + time.Nanosecond,
			9223372036 * time.Second: time.Hour,
		} {
			synctest.Test(t, func(t *testing.T) {
				g := verifier.WithBreaker("crm", verifiertest.New("crm", verifiertest.Down(after)), &verifier.BreakerOptions{Failures: 1})
				start := time.Now()
				if _, wait, _ := ask(t, g); wait > time.Hour {
					t.Errorf("told to stay away for %s, the caller hears %s", after, wait)
				}
				if got := g.RetryAt().Sub(start); got != want {
					t.Errorf("told to wait %v, it waits %v, want %v", after, got, want)
				}
			})
		}
	})
}

func TestAHangingVerifierIsBounded(t *testing.T) {
	t.Run("one that obeys ctx is an outage at the deadline", func(t *testing.T) {
		for name, step := range map[string]verifiertest.Step{
			"hanging": verifiertest.Hangs(), "slow": verifiertest.Slow(time.Minute, verifiertest.Supports()),
		} {
			synctest.Test(t, func(t *testing.T) {
				g := verifier.WithBreaker("crm", verifiertest.New("crm", step), nil)
				start := time.Now()
				_, _, err := ask(t, g)
				if !errors.Is(err, verifier.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 10*time.Second {
					t.Errorf("%s: %v after %v", name, err, time.Since(start))
				}
				synctest.Wait()
				if g.InFlight() != 0 {
					t.Errorf("%s: %d questions in flight", name, g.InFlight())
				}
			})
		}
	})

	t.Run("the caller's own deadline is an outage, asked or not", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := verifiertest.New("crm", verifiertest.Hangs())
			g := verifier.WithBreaker("crm", s, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			for range 2 {
				_, err := g.Verify(ctx, memory.Row{})
				if !errors.Is(err, verifier.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || s.Calls() != 1 {
					t.Fatal(err, s.Calls())
				}
			}
		})
	})

	t.Run("one that is slow and in time is heard", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := verifier.WithBreaker("crm", verifiertest.New("crm", verifiertest.Slow(9*time.Second, verifiertest.Refutes("GB12"))), nil)
			if o, _, err := ask(t, g); o != verifier.Refuted {
				t.Fatal(o, err)
			}
		})
	})

	t.Run("one that ignores ctx holds at most MaxConcurrent goroutines", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			s := verifiertest.New("crm", verifiertest.Stuck(release, verifiertest.Refutes("GB12")))
			g := verifier.WithBreaker("crm", s, &verifier.BreakerOptions{
				MaxConcurrent: 3, Failures: 1000, Timeout: time.Second,
			})
			var wg sync.WaitGroup
			var mu sync.Mutex
			busy := 0
			start := time.Now()
			for range 50 {
				wg.Go(func() {
					_, wait, err := ask(t, g)
					if !errors.Is(err, verifier.ErrUnavailable) || time.Since(start) > 2*time.Second {
						t.Errorf("%v after %v", err, time.Since(start))
					}
					if errors.Is(err, verifier.ErrBusy) && wait == time.Second {
						mu.Lock()
						busy++
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if s.Calls() != 3 || g.InFlight() != 3 || busy != 47 {
				t.Fatalf("%d calls, %d in flight, %d found no place", s.Calls(), g.InFlight(), busy)
			}
			// A place that never frees is no reason to ignore the caller.
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			if _, err := g.Verify(ctx, memory.Row{}); err != context.Canceled {
				t.Fatal(err)
			}
			// The late answers reach nobody, and the places are free again.
			close(release)
			synctest.Wait()
			if g.InFlight() != 0 {
				t.Fatal("a place was lost")
			}
			if o, _, err := ask(t, g); o != verifier.Refuted {
				t.Fatal(o, err)
			}
		})
	})

	t.Run("those who wait for a place do not ask one that was found down meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := verifiertest.New("crm", verifiertest.Slow(time.Second, verifiertest.Down(0)))
			g := verifier.WithBreaker("crm", s, &verifier.BreakerOptions{MaxConcurrent: 1, Failures: 1})
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					if _, _, err := ask(t, g); !errors.Is(err, verifier.ErrUnavailable) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if s.Calls() != 1 || g.InFlight() != 0 {
				t.Fatal(s.Calls(), g.InFlight())
			}
		})
	})
}

func TestTheGuardTrustsNoVerifier(t *testing.T) {
	odd := errors.New("odd")
	long := strings.Repeat("x", memory.MaxField) + "ü"
	for _, c := range []struct {
		name string
		v    verifier.Verifier
		want verifier.Outcome
		is   error
	}{
		{"a panic is a misconfiguration", verifiertest.New("crm", verifiertest.Panics("boom")), 0, verifier.ErrMisconfigured},
		{"a panic with nil is a misconfiguration", verifiertest.New("crm", verifiertest.Panics(nil)), 0, verifier.ErrMisconfigured},
		{"a goroutine that ends is a misconfiguration", verifier.Func(func(context.Context, memory.Row) (verifier.Verdict, error) {
			runtime.Goexit()
			return verifier.Verdict{}, nil
		}), 0, verifier.ErrMisconfigured},
		{"an error of no class is an outage", verifiertest.New("crm", verifiertest.Fails(odd)), 0, verifier.ErrUnavailable},
		{"a wrapped outage is an outage", verifiertest.New("crm", verifiertest.Fails(fmt.Errorf("x: %w", verifier.ErrUnavailable))), 0, verifier.ErrUnavailable},
		{"support without evidence is unclear", verifiertest.New("crm", verifiertest.Malformed()), verifier.Unclear, nil},
		{"a verdict beside an error counts nothing", verifier.Func(func(context.Context, memory.Row) (verifier.Verdict, error) {
			return good(verifier.Refuted), odd
		}), 0, verifier.ErrUnavailable},
		{"the zero verdict stays zero", verifier.Func(func(context.Context, memory.Row) (verifier.Verdict, error) {
			return verifier.Verdict{}, nil
		}), verifier.Unknown, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := verifier.WithBreaker("crm", c.v, nil)
			o, _, err := ask(t, g)
			if o != c.want || !errors.Is(err, c.is) {
				t.Fatalf("%v, %v", o, err)
			}
		})
	}
	t.Run("what it observed is bounded and text", func(t *testing.T) {
		g := verifier.WithBreaker("crm", verifiertest.New("crm", verifiertest.Refutes(long[1:]+"\xff")), nil)
		v, err := g.Verify(t.Context(), memory.Row{})
		if err != nil || v.Observed != long[1:memory.MaxField] {
			t.Fatal(len(v.Observed), err)
		}
	})
}

func TestStatesHaveNames(t *testing.T) {
	var zero verifier.State
	if zero != verifier.StateOpen || zero.String() != "open" || verifier.StateHalfOpen.String() != "half-open" ||
		verifier.StateClosed.String() != "closed" || verifier.State(9).String() != "open" {
		t.Error("a state is misnamed")
	}
}

// A condition that costs something is asked when the question would be, and one that it
// denies counts nothing and leaves its place and the probe to others.
func TestAConditionIsAskedWhenTheQuestionWouldBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		denied := fmt.Errorf("no budget: %w", verifier.ErrUnavailable) // which would count as an outage
		s := verifiertest.New("crm", verifiertest.Down(0))
		g := verifier.WithBreaker("crm", s, &verifier.BreakerOptions{Failures: 1, MaxConcurrent: 1})
		asked := 0
		ask := func(says error) (verifier.Verdict, error) {
			return g.VerifyIf(t.Context(), row("acme", "iban", "DE89", functional), func(context.Context) error { asked++; return says })
		}
		want := func(what string, err, wantErr error, conditions, calls int) {
			t.Helper()
			if !errors.Is(err, wantErr) || wantErr == denied && err != denied || asked != conditions || s.Calls() != calls || g.InFlight() != 0 {
				t.Fatalf("%s: %v after %d conditions and %d questions, %d places taken; want %v, %d and %d", what, err, asked, s.Calls(), g.InFlight(), wantErr, conditions, calls)
			}
		}
		for i := range 3 {
			_, err := ask(denied)
			want("closed, and denied", err, denied, i+1, 0)
		}
		if g.State() != verifier.StateClosed {
			t.Fatal("what was denied opened it")
		}
		_, err := ask(nil)
		synctest.Wait()
		want("it fails", err, verifier.ErrUnavailable, 4, 1)
		_, err = ask(nil)
		want("open", err, verifier.ErrOpen, 4, 1)
		<-time.After(time.Until(g.RetryAt()))
		for i := range 3 {
			_, err = ask(denied)
			want("half-open, and denied", err, denied, 5+i, 1)
		}
		s.Set(verifiertest.Supports())
		v, err := ask(nil)
		synctest.Wait()
		want("it answers the probe", err, nil, 8, 2)
		if v.Outcome != verifier.Supported || g.State() != verifier.StateClosed {
			t.Fatal(v, g.State())
		}
	})
}

func TestAConditionThatPanicsIsAnErrorAndKeepsNoPlace(t *testing.T) {
	s := verifiertest.New("crm", verifiertest.Supports())
	g := verifier.WithBreaker("crm", s, &verifier.BreakerOptions{Failures: 1, MaxConcurrent: 1})
	if _, err := g.VerifyIf(t.Context(), row("acme", "iban", "DE89", functional), func(context.Context) error { panic("secret") }); err == nil || s.Calls() != 0 || g.InFlight() != 0 || g.State() != verifier.StateClosed {
		t.Errorf("%v after %d questions, %d places taken, %s", err, s.Calls(), g.InFlight(), g.State())
	}
}

func TestTheTimeoutOfAQuestionIsADayAtMost(t *testing.T) {
	for timeout, bound := range map[time.Duration]time.Duration{0: 20 * time.Second, time.Hour: 2 * time.Hour, 25 * time.Hour: 48 * time.Hour, math.MaxInt64: 48 * time.Hour} {
		g := verifier.WithBreaker("crm", verifiertest.New("crm", verifiertest.Supports()), &verifier.BreakerOptions{Timeout: timeout})
		if g.Bound() != bound {
			t.Errorf("%s: %s, want %s", timeout, g.Bound(), bound)
		}
	}
}
