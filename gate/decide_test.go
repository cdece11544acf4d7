package gate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// TestI1ZeroValuesDeny: nothing that somebody forgot to fill in permits a call.
func TestI1ZeroValuesDeny(t *testing.T) {
	fit := memory.Fitness{Now: clock0}
	p := declared()
	good := mail()
	for name, d := range map[string]gate.Decision{
		"zero request":               p.Evaluate(&gate.Request{}, fit),
		"no request":                 p.Evaluate(nil, fit),
		"zero policy":                (&gate.Policy{}).Evaluate(&good, fit),
		"no policy":                  (*gate.Policy)(nil).Evaluate(&good, fit),
		"zero fitness":               p.Evaluate(&good, memory.Fitness{}),
		"zero decision":              {},
		"zero lineage":               p.Evaluate(&gate.Request{Contract: gate.Contract{Tool: "t", Effect: gate.StateChanging}}, fit),
		"zero effect, zero lineage":  p.Evaluate(&gate.Request{Contract: gate.Contract{Tool: "t"}}, fit),
		"zero head":                  p.Evaluate(&gate.Request{Contract: gate.Contract{Tool: "t", Effect: gate.ReadOnly}, Lineage: gate.Known([]memory.ID{""}, nil)}, memory.Fitness{Now: clock0, Heads: make([]memory.Head, 1)}),
		"zero gate":                  (&gate.Gate{}).Decide(t.Context(), good),
		"no gate":                    (*gate.Gate)(nil).Decide(t.Context(), good),
		"an outcome nobody defined":  {Outcome: 9},
		"a permit with a fault":      {Outcome: gate.Permit, Fault: true},
		"observed, but no permit":    {Observed: true},
		"zero request, zero fitness": (&gate.Policy{}).Evaluate(&gate.Request{}, memory.Fitness{}),
	} {
		if !errors.Is(d.Err(), gate.ErrDenied) {
			t.Errorf("%s: %v", name, d.Err())
		}
	}
	var (
		e gate.Effect
		l gate.Lineage
		o gate.Outcome
		s gate.Source
		u gate.Trust
	)
	if e != gate.Irreversible || l.IsKnown() || o != gate.Deny || s != gate.SourceNowhere || u != gate.ThirdParty {
		t.Error("a zero value is not the safe one")
	}
	if d := p.Evaluate(&good, fit); d.Err() != nil {
		t.Errorf("and the good request is denied: %v", d.Err())
	}
}

var errDown = fmt.Errorf("%w: connection refused", memory.ErrStore)

// TestI5EveryFaultDenies: a store that fails, hangs, lies, loses a row or cannot
// record permits nothing.
func TestI5EveryFaultDenies(t *testing.T) {
	wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, spoil := range map[string]func(*fake){
		"the read fails": func(f *fake) {
			f.fitness = func(context.Context, []memory.ID, memory.Fitness) (memory.Fitness, error) {
				return memory.Fitness{}, errDown
			}
		},
		"the read fails and gives rows all the same": func(f *fake) {
			f.fitness = func(_ context.Context, _ []memory.ID, fit memory.Fitness) (memory.Fitness, error) {
				return fit, errDown
			}
		},
		"the read hangs": func(f *fake) {
			f.fitness = func(ctx context.Context, _ []memory.ID, fit memory.Fitness) (memory.Fitness, error) {
				return fit, wait(ctx)
			}
		},
		"the read loses a row": func(f *fake) {
			f.fitness = func(_ context.Context, _ []memory.ID, fit memory.Fitness) (memory.Fitness, error) {
				fit.Heads = fit.Heads[1:]
				return fit, nil
			}
		},
		"the read gives rows in another order": func(f *fake) {
			f.fitness = func(_ context.Context, _ []memory.ID, fit memory.Fitness) (memory.Fitness, error) {
				slices.Reverse(fit.Heads)
				return fit, nil
			}
		},
		"the read gives nothing": func(f *fake) {
			f.fitness = func(context.Context, []memory.ID, memory.Fitness) (memory.Fitness, error) {
				return memory.Fitness{}, nil
			}
		},
		"the read has no clock": func(f *fake) {
			f.fitness = func(_ context.Context, _ []memory.ID, fit memory.Fitness) (memory.Fitness, error) {
				fit.Now = time.Time{}
				return fit, nil
			}
		},
		"the record fails": func(f *fake) {
			f.record = func(context.Context, memory.DecisionRecord) error { return errDown }
		},
		"the record hangs": func(f *fake) {
			f.record = func(ctx context.Context, _ memory.DecisionRecord) error { return wait(ctx) }
		},
		"the record is too large": func(f *fake) {
			f.record = func(context.Context, memory.DecisionRecord) error { return memory.ErrTooLarge }
		},
		"the record meets another row each time": func(f *fake) {
			f.record = func(_ context.Context, r memory.DecisionRecord) error {
				if r.Fired {
					return &memory.ConflictError{Key: "head/x"}
				}
				return nil
			}
		},
		"the store is closed": func(f *fake) {
			f.record = func(context.Context, memory.DecisionRecord) error { return memory.ErrClosed }
		},
	} {
		for _, effect := range []gate.Effect{gate.Irreversible, gate.StateChanging, gate.ReadOnly} {
			for _, mode := range []gate.Mode{gate.Enforce, gate.Observe} {
				t.Run(fmt.Sprintf("%s, %s, %s", name, effect, mode), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f := newFake(verified("a"), verified("b"))
						req := mail(id("a"), id("b"))
						req.Contract.Effect = effect
						g, err := gate.New(f, declared(), &gate.Options{Mode: mode}) // its timeout is the default
						if err != nil {
							t.Fatal(err)
						}
						if d := g.Decide(t.Context(), req); d.Err() != nil {
							t.Fatalf("a sound store denies: %v", d.Err())
						}
						f.records = nil
						spoil(f)
						start := time.Now()
						d := g.Decide(t.Context(), req)
						if d.Err() == nil || !errors.Is(d.Err(), gate.ErrDenied) || !errors.Is(d.Err(), gate.ErrUndecided) || !d.Fault {
							t.Errorf("outcome %s, fault %t, %v", d.Outcome, d.Fault, d.Err())
						}
						if len(d.Consumed) != 0 {
							t.Error("it consumed something")
						}
						for _, r := range f.records {
							if r.Fired {
								t.Error("a fire intent was recorded")
							}
						}
						if waited := time.Since(start); waited > gate.DefaultTimeout {
							t.Errorf("it took %s", waited)
						}
					})
				})
			}
		}
	}
	t.Run("an ended context", func(t *testing.T) {
		f := newFake(verified("a"))
		g := newGate(t, f, declared(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if d := g.Decide(ctx, mail(id("a"))); !errors.Is(d.Err(), gate.ErrUndecided) || !errors.Is(d.Err(), context.Canceled) {
			t.Errorf("%v", d.Err())
		}
	})
	t.Run("a deadline of the caller", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(verified("a"))
			f.fitness = func(ctx context.Context, _ []memory.ID, fit memory.Fitness) (memory.Fitness, error) {
				return fit, wait(ctx)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			d := newGate(t, f, declared(), nil).Decide(ctx, mail(id("a")))
			if !errors.Is(d.Err(), gate.ErrUndecided) || !errors.Is(d.Err(), context.DeadlineExceeded) || time.Since(start) != time.Second {
				t.Errorf("after %s: %v", time.Since(start), d.Err())
			}
		})
	})
	t.Run("a block that cannot be recorded stays a block", func(t *testing.T) {
		f := newFake(unverified("a"))
		f.record = func(context.Context, memory.DecisionRecord) error { return errDown }
		d := newGate(t, f, declared(), nil).Decide(t.Context(), mail(id("a")))
		if !errors.Is(d.Err(), gate.ErrUndecided) || !errors.Is(d.Err(), memory.ErrStore) {
			t.Errorf("%v", d.Err())
		}
	})
	t.Run("rows that cannot be explained take nothing from the block", func(t *testing.T) {
		f := newFake(unverified("a"))
		f.get = func(context.Context, []memory.ID) error { return errDown }
		d := newGate(t, f, declared(), nil).Decide(t.Context(), mail(id("a")))
		if !errors.Is(d.Err(), gate.ErrUnverified) || d.Fault || len(d.Rows) != 1 || d.Rows[0].State != memory.StateUnverified {
			t.Errorf("%v, rows %+v", d.Err(), d.Rows)
		}
	})
}

func TestAPermitIsBoundedByTheClockToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := verified("a")
		h.ExpiresAt = clock0.Add(time.Second)
		f := newFake(h)
		g := newGate(t, f, declared(), nil)
		if d := g.Decide(t.Context(), mail(h.ID)); d.Err() != nil {
			t.Fatal(d.Err())
		}
		f.record = func(ctx context.Context, _ memory.DecisionRecord) error { // a store that takes its time and no notice
			<-time.After(2 * time.Second)
			return nil
		}
		if d := g.Decide(t.Context(), mail(h.ID)); !errors.Is(d.Err(), gate.ErrUndecided) {
			t.Errorf("a row that expired while the permit was recorded: %v", d.Err())
		}
	})
}

// TestMonotonicity: another row, and a stricter rule, never permit more.
func TestMonotonicity(t *testing.T) {
	permits := 0
	rapid.Check(t, func(rt *rapid.T) {
		var heads []memory.Head
		var direct, ancestors []memory.ID
		for i := range rapid.IntRange(0, 4).Draw(rt, "rows") {
			h := drawHead(rt, fmt.Sprintf("r%d", i))
			heads, direct = append(heads, h), append(direct, h.ID)
		}
		for i := range rapid.IntRange(0, 3).Draw(rt, "ancestors") {
			h := drawHead(rt, fmt.Sprintf("a%d", i))
			heads, ancestors = append(heads, h), append(ancestors, h.ID)
		}
		contract := gate.Contract{Tool: "t", Effect: gate.Effect(rapid.IntRange(0, 3).Draw(rt, "effect")), Ceiling: memory.Sensitivity(rapid.IntRange(0, 4).Draw(rt, "ceiling")),
			MaxAge: time.Duration(rapid.IntRange(0, 3).Draw(rt, "age")) * 30 * time.Minute, Privileged: rapid.Bool().Draw(rt, "privileged")}
		req := gate.Request{Contract: contract, Lineage: gate.Known(direct, ancestors)}
		for i := range rapid.IntRange(0, 2).Draw(rt, "sinks") {
			req.Sinks = append(req.Sinks, gate.Sink{Pointer: fmt.Sprint("/", i), Source: gate.Source(rapid.IntRange(0, 6).Draw(rt, "source")), Row: id("r0")})
		}
		p := declared()
		fit := memory.Fitness{Heads: heads, Now: clock0}
		before := p.Evaluate(&req, fit)
		if before.Err() == nil {
			permits++
		}

		// A rule, whatever it says.
		rule := gate.Rule{Never: rapid.IntRange(0, 9).Draw(rt, "never") == 0, MaxAge: time.Duration(rapid.IntRange(0, 3).Draw(rt, "rule age")) * 30 * time.Minute,
			Ceiling: memory.Sensitivity(rapid.IntRange(0, 4).Draw(rt, "rule ceiling")), FromNowhere: rapid.Bool().Draw(rt, "rule nowhere")}
		if rapid.Bool().Draw(rt, "rule has effect") {
			e := gate.Effect(rapid.IntRange(0, 2).Draw(rt, "rule effect"))
			rule.Effect = &e
		}
		p.Tools = map[string]gate.Rule{"t": rule}
		ruled := p.Evaluate(&req, fit)
		if ruled.Outcome > before.Outcome {
			rt.Fatalf("a rule lifted %s to %s: %+v", before.Outcome, ruled.Outcome, rule)
		}
		stricter := rule
		stricter.Never = stricter.Never || rapid.Bool().Draw(rt, "stricter never")
		if stricter.MaxAge == 0 || stricter.MaxAge > time.Minute {
			stricter.MaxAge = time.Minute
		}
		stricter.Ceiling, stricter.FromNowhere = memory.SensitivityPublic, true
		e := gate.Irreversible
		stricter.Effect = &e
		p.Tools["t"] = stricter
		if d := p.Evaluate(&req, fit); d.Outcome > ruled.Outcome {
			rt.Fatalf("a stricter rule lifted %s to %s", ruled.Outcome, d.Outcome)
		}

		// Another row, as input or as ancestor.
		p.Tools = nil
		extra := drawHead(rt, "extra")
		more := req
		if rapid.Bool().Draw(rt, "as input") {
			more.Lineage = gate.Known(append(slices.Clone(direct), extra.ID), ancestors)
			fit.Heads = slices.Insert(slices.Clone(heads), len(direct), extra)
		} else {
			more.Lineage = gate.Known(direct, append(slices.Clone(ancestors), extra.ID))
			fit.Heads = append(slices.Clone(heads), extra)
		}
		after := p.Evaluate(&more, fit)
		if after.Outcome > before.Outcome {
			rt.Fatalf("another row lifted %s to %s", before.Outcome, after.Outcome)
		}
		for _, r := range before.Reasons {
			if !slices.Contains(after.Reasons, r) {
				rt.Fatalf("another row took away %+v", r)
			}
		}
		// An unknown lineage, and a graver effect, permit no more either.
		more = req
		more.Lineage = gate.Partial("lost", direct, ancestors)
		fit.Heads = heads
		if d := p.Evaluate(&more, fit); d.Outcome > before.Outcome {
			rt.Fatalf("not knowing lifted %s to %s", before.Outcome, d.Outcome)
		}
		more = req
		more.Contract.Effect = gate.Irreversible
		if d := p.Evaluate(&more, fit); d.Outcome > before.Outcome {
			rt.Fatalf("a graver effect lifted %s to %s", before.Outcome, d.Outcome)
		}
		// The same question has the same answer.
		if again := p.Evaluate(&req, fit); again.Outcome != before.Outcome || !slices.Equal(again.Reasons, before.Reasons) {
			rt.Fatal("the same question has another answer")
		}
	})
	if permits == 0 {
		t.Fatal("no request was permitted, so nothing was tested")
	}
	t.Logf("%d of the requests were permitted", permits)
}

func drawHead(rt *rapid.T, name string) memory.Head {
	h := verified(name)
	if rapid.IntRange(0, 2).Draw(rt, name+" fit") > 0 {
		return h // often enough, so that permits occur
	}
	h.Revision = uint64(rapid.IntRange(0, 2).Draw(rt, name+" revision"))
	h.Truth = memory.Truth(rapid.IntRange(0, 5).Draw(rt, name+" truth"))
	h.Retrieval = memory.Retrieval(rapid.IntRange(0, 6).Draw(rt, name+" retrieval"))
	h.Security = memory.Security(rapid.IntRange(0, 5).Draw(rt, name+" security"))
	h.Freshness = memory.Freshness(rapid.IntRange(0, 4).Draw(rt, name+" freshness"))
	h.Outage = memory.Outage(rapid.IntRange(0, 3).Draw(rt, name+" outage"))
	h.Sensitivity = memory.Sensitivity(rapid.IntRange(0, 5).Draw(rt, name+" sensitivity"))
	h.Rank = memory.Rank(rapid.IntRange(0, 6).Draw(rt, name+" rank"))
	h.Flags = memory.Flags(rapid.IntRange(0, 15).Draw(rt, name+" flags"))
	h.VerifiedAt = clock0.Add(-time.Duration(rapid.IntRange(0, 200).Draw(rt, name+" verified")) * time.Minute)
	return h
}

// spoofs reads the corpus of texts that try to pass for something else.
func spoofs(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "spoofs.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	seen := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		s, err := strconv.Unquote(line)
		if err != nil || seen[s] {
			t.Fatalf("%s: %v, or it stands there twice", line, err)
		}
		seen[s] = true
		out = append(out, s)
	}
	return out
}

// TestSpoofing: what a row says changes nothing in what is decided of it; only
// its head does, found by its id (I-10, L7).
func TestSpoofing(t *testing.T) {
	spoofs := spoofs(t)
	if len(spoofs) < 200 {
		t.Fatalf("%d distinct spoofs", len(spoofs))
	}
	g := func(c memory.Content, by memory.Asserter, source string) (gate.Decision, error) {
		f := newFake(unverified("a"), verified("b"))
		f.says(id("a"), c)
		r := f.rows[id("a")]
		r.Asserter, r.Source, r.Category, r.Anchor = by, source, source, source
		f.rows[id("a")] = r
		d := newGate(t, f, declared(), nil).Decide(t.Context(), mail(id("a"), id("b")))
		return d, d.Err()
	}
	want, _ := g(memory.Content{Text: "plain"}, memory.Asserter{Model: "m"}, "")
	n := 0
	for _, s := range spoofs {
		for _, c := range []memory.Content{{Text: s}, {Subject: s, Predicate: s, Object: s}, {Subject: "a", Predicate: "state", Object: s}, {Text: strings.Repeat(s+"\n", 20)}} {
			for _, by := range []memory.Asserter{{Model: s, Family: s}, {Tool: s}, {Principal: s}} {
				n++
				d, err := g(c, by, s)
				if err == nil || d.Outcome != want.Outcome || !slices.Equal(d.Reasons, want.Reasons) {
					t.Errorf("%q: %s %v", s, d.Outcome, d.Reasons)
				}
				checkToolText(t, d.ToolText())
			}
		}
	}
	t.Logf("%d distinct spoofs in %d places, 0 decisions changed", len(spoofs), n)
	t.Run("in what names the call", func(t *testing.T) {
		for _, s := range spoofs {
			for where, spoil := range map[string]func(r *gate.Request){
				"call id": func(r *gate.Request) { r.CallID = s }, "agent": func(r *gate.Request) { r.Agent = s }, "run": func(r *gate.Request) { r.Run = s },
				"principal": func(r *gate.Request) { r.Principal = s }, "why unknown": func(r *gate.Request) { r.Lineage = gate.Partial(s, r.Lineage.Direct(), nil) },
			} {
				f := newFake(unverified("a"), verified("b"))
				req := mail(id("a"), id("b"))
				spoil(&req)
				d := newGate(t, f, declared(), nil).Decide(t.Context(), req)
				if !d.Blocked() || !errors.Is(d.Err(), gate.ErrUnverified) {
					t.Errorf("%s %q: %s %v", where, s, d.Outcome, d.Reasons)
				}
				checkToolText(t, d.ToolText())
			}
		}
	})
	t.Run("look-alike ids are other rows", func(t *testing.T) {
		good := id("a")
		for _, other := range []memory.ID{good + " ", " " + good, memory.ID(strings.ToUpper(string(good))), good + "\x00", good + "\u200b", good[:29], "mem_000000000000000000000000а0", good + "a", "", "head/" + good} {
			f := newFake(verified("a"))
			d := newGate(t, f, declared(), nil).Decide(t.Context(), mail(other))
			if !errors.Is(d.Err(), gate.ErrRowMissing) {
				t.Errorf("%q: %v", other, d.Err())
			}
		}
	})
	t.Run("look-alike tools are other tools", func(t *testing.T) {
		p := gate.Policy{Tools: map[string]gate.Rule{"search": {}}}
		for _, name := range []string{"Search", "search ", "ѕearch", "search\x00", "search\u200b", ""} {
			req := gate.Request{Contract: gate.Contract{Tool: name, Effect: gate.ReadOnly}, Lineage: gate.Known(nil, nil)}
			if d := newGate(t, newFake(), p, nil).Decide(t.Context(), req); !errors.Is(d.Err(), gate.ErrToolNotNamed) {
				t.Errorf("%q: %v", name, d.Err())
			}
		}
	})
}

// TestEveryCodeHasItsSentinel: each reason is found by errors.Is and errors.As,
// and no other reason is found with it.
func TestEveryCodeHasItsSentinel(t *testing.T) {
	sentinels := map[gate.Code]error{
		gate.UnverifiedInput: gate.ErrUnverified, gate.VerifierWasDown: gate.ErrVerifierDown, gate.ContradictedInput: gate.ErrContradicted,
		gate.QuarantinedInput: gate.ErrQuarantined, gate.NotRetrievable: gate.ErrNotRetrievable, gate.StaleInput: gate.ErrStale, gate.SupersededInput: gate.ErrSuperseded,
		gate.SensitivityExceeded: gate.ErrSensitivity, gate.RankTooLow: gate.ErrRankTooLow, gate.ContestedInput: gate.ErrContested,
		gate.LineageUnknown: gate.ErrLineageUnknown, gate.ClosureTooLarge: gate.ErrClosureTooLarge, gate.RowMissing: gate.ErrRowMissing, gate.RowDamaged: gate.ErrRowDamaged,
		gate.FromNowhere: gate.ErrFromNowhere, gate.ToolNotNamed: gate.ErrToolNotNamed, gate.EffectNotDeclared: gate.ErrEffectNotDeclared,
		gate.PolicyNever: gate.ErrNever, gate.ArgumentsInvalid: gate.ErrArgumentsInvalid, gate.Undecided: gate.ErrUndecided,
	}
	for code, want := range sentinels {
		err := error(&gate.DeniedError{Decision: gate.Decision{Tool: "t", Reasons: []gate.Reason{{Code: code}}}})
		wrapped := fmt.Errorf("agent: %w", err)
		var denied *gate.DeniedError
		if !errors.Is(wrapped, want) || !errors.Is(wrapped, gate.ErrDenied) || !errors.As(wrapped, &denied) || !errors.Is(code.Err(), want) {
			t.Errorf("%s: %v", code, err)
		}
		for other, sentinel := range sentinels {
			if other != code && errors.Is(wrapped, sentinel) {
				t.Errorf("%s is %s too", code, other)
			}
		}
		if errors.Is(wrapped, gate.ErrHeld) {
			t.Errorf("%s: a denial is a hold", code)
		}
		if !strings.Contains(string(mustJSON(t, denied)), `"`+string(code)+`"`) || !strings.Contains(denied.LogValue().String(), string(code)) {
			t.Errorf("%s is not in the JSON and the log", code)
		}
		checkToolText(t, denied.ToolText())
	}
	if gate.Code("other").Err() != nil {
		t.Error("an unknown code has a sentinel")
	}
	held := gate.Decision{Outcome: gate.Hold, Reasons: []gate.Reason{{Code: gate.FromNowhere, Outcome: gate.Hold}}}.Err()
	if !errors.Is(held, gate.ErrHeld) || !errors.Is(held, gate.ErrDenied) || !errors.Is(gate.ErrHeld, gate.ErrDenied) {
		t.Error("a hold is not held and denied")
	}
	note := gate.Decision{Reasons: []gate.Reason{{Code: gate.ContestedInput, Outcome: gate.Permit}}}.Err()
	if errors.Is(note, gate.ErrContested) {
		t.Error("a note blocks")
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestObserve(t *testing.T) {
	observe := &gate.Options{Mode: gate.Observe}
	change := func(effect gate.Effect, c func(*gate.Request), heads ...memory.Head) (*fake, gate.Request) {
		f := newFake(heads...)
		var ids []memory.ID
		for _, h := range heads {
			ids = append(ids, h.ID)
		}
		req := mail(ids...)
		req.Contract.Effect = effect
		if c != nil {
			c(&req)
		}
		return f, req
	}
	t.Run("what only rows speak against fires, is recorded, and says so", func(t *testing.T) {
		f, req := change(gate.StateChanging, nil, unverified("a"))
		var logged bytes.Buffer
		var told []memory.ID
		g := newGate(t, f, declared(), &gate.Options{Mode: gate.Observe, Logger: quietLogger(&logged), OnBlock: func(_ context.Context, ids []memory.ID) { told = ids }})
		d := g.Decide(t.Context(), req)
		if d.Err() != nil || !d.Observed || !d.Has(gate.UnverifiedInput) || len(d.Consumed) != 1 || len(f.records) != 1 || !f.records[0].Fired {
			t.Errorf("%v, %+v", d.Err(), d)
		}
		if !strings.Contains(logged.String(), `level=INFO msg="tool call would be blocked`) || !strings.Contains(string(mustJSON(t, d)), `"status":"observed"`) {
			t.Errorf("logged %s", logged.String())
		}
		if !slices.Equal(told, []memory.ID{id("a")}) {
			t.Errorf("told %v", told)
		}
		if g.Mode() != gate.Observe {
			t.Error("the mode is not shown")
		}
	})
	t.Run("a row that has expired is observed too", func(t *testing.T) {
		h := verified("a")
		h.ExpiresAt = clock0.Add(-time.Hour)
		f, req := change(gate.StateChanging, nil, h)
		if d := newGate(t, f, declared(), observe).Decide(t.Context(), req); d.Err() != nil || !d.Observed || !d.Has(gate.StaleInput) {
			t.Errorf("%v, %+v", d.Err(), d)
		}
	})
	t.Run("what is permitted is no observation", func(t *testing.T) {
		f, req := change(gate.StateChanging, nil, verified("a"))
		if d := newGate(t, f, declared(), observe).Decide(t.Context(), req); d.Err() != nil || d.Observed {
			t.Errorf("%+v", d)
		}
	})
	never := declared()
	never.Tools = map[string]gate.Rule{"send_email": {Never: true}}
	graver := declared()
	irreversible := gate.Irreversible
	graver.Tools = map[string]gate.Rule{"send_email": {Effect: &irreversible}}
	near := declared()
	near.MaxBlastRadius = gate.WholeTenant
	for name, c := range map[string]struct {
		policy gate.Policy
		effect gate.Effect
		change func(*gate.Request)
		head   memory.Head
	}{
		"what cannot be undone":          {declared(), gate.Irreversible, nil, unverified("a")},
		"what a rule calls irreversible": {graver, gate.StateChanging, nil, unverified("a")},
		"what nobody declared":           {declared(), gate.ReadOnly, func(r *gate.Request) { r.Contract.Undeclared = true }, unverified("a")},
		"what the policy never allows":   {never, gate.StateChanging, nil, verified("a")},
		"what may reach too far":         {near, gate.StateChanging, nil, verified("a")},
		"what the policy does not name":  {gate.Policy{}, gate.StateChanging, nil, verified("a")},
		"arguments that are invalid":     {declared(), gate.StateChanging, func(r *gate.Request) { r.Args = []byte(`{"b":1,"a":2}`) }, verified("a")},
		"a row that is not there":        {declared(), gate.StateChanging, nil, memory.Head{ID: id("a")}},
	} {
		t.Run(name+" does not fire", func(t *testing.T) {
			f, req := change(c.effect, c.change, c.head)
			d := newGate(t, f, c.policy, observe).Decide(t.Context(), req)
			if d.Err() == nil || d.Observed || len(f.records) != 1 || f.records[0].Fired {
				t.Errorf("%v, %+v", d.Err(), f.records)
			}
		})
	}
}

func TestDecideRecordsWhatItStandsOn(t *testing.T) {
	f := newFake(verified("a"), verified("root"))
	req := mail()
	req.Lineage = gate.Known([]memory.ID{id("a")}, []memory.ID{id("root")})
	d := newGate(t, f, declared(), nil).Decide(t.Context(), req)
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	want := []memory.Cited{{Row: id("a"), Revision: 3}, {Row: id("root"), Revision: 3}}
	r := f.records[0]
	if !slices.Equal(d.Consumed, want) || !slices.Equal(r.Rows, want) || !r.Fired || r.Epoch != 7 || d.Epoch != 7 || r.ID != d.ID || r.Tool != "send_email" || r.Run != "ses_91" {
		t.Errorf("consumed %v, record %+v", d.Consumed, r)
	}
	t.Run("a block cites its rows too (LS-22)", func(t *testing.T) {
		f := newFake(unverified("a"))
		newGate(t, f, declared(), nil).Decide(t.Context(), mail(id("a"), "no id at all"))
		if r := f.records[0]; r.Fired || len(r.Rows) != 1 || r.Rows[0].Row != id("a") || !json.Valid(r.Data) {
			t.Errorf("record %+v", r)
		}
	})
	t.Run("a conflict is judged anew", func(t *testing.T) {
		f := newFake(verified("a"))
		left := 3
		f.record = func(context.Context, memory.DecisionRecord) error {
			if left--; left >= 0 {
				return &memory.ConflictError{Key: memory.HeadKey(id("a"))}
			}
			return nil
		}
		if d := newGate(t, f, declared(), nil).Decide(t.Context(), mail(id("a"))); d.Err() != nil || f.tries != 4 {
			t.Errorf("after %d tries: %v", f.tries, d.Err())
		}
	})
	t.Run("rows that workers verify one after the other delay the call, and deny it only after half of its time", func(t *testing.T) {
		for name, c := range map[string]struct {
			moves int
			ctx   time.Duration // 0 = the gate's own time
			stops time.Duration // when it is denied; 0 = it is not
		}{
			"a few":                                {moves: 8},
			"fifty":                                {moves: 50},
			"without an end":                       {moves: 1 << 30, stops: gate.DefaultTimeout / 2},
			"without an end, in the caller's time": {moves: 1 << 30, ctx: time.Second, stops: time.Second / 2},
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFake(verified("a"))
					f.record = func(_ context.Context, r memory.DecisionRecord) error {
						if r.Fired && f.tries <= c.moves {
							h := verified("a")
							h.Revision += uint64(f.tries)
							f.heads[h.ID] = h
							return &memory.ConflictError{Key: memory.HeadKey(h.ID)}
						}
						return nil
					}
					ctx := t.Context()
					if c.ctx > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, c.ctx)
						defer cancel()
					}
					start := time.Now()
					d := newGate(t, f, declared(), &gate.Options{Timeout: gate.DefaultTimeout}).Decide(ctx, mail(id("a")))
					took := time.Since(start)
					if c.stops == 0 {
						if d.Err() != nil || f.tries != c.moves+1 || took > gate.DefaultTimeout/2 {
							t.Errorf("%v after %d tries and %s", d.Err(), f.tries, took)
						}
						return
					}
					last := f.records[len(f.records)-1]
					if !d.Fault || f.tries < 4 || took < c.stops || took > c.stops+20*time.Millisecond || last.Fired || last.ID != d.ID {
						t.Errorf("%v after %d tries and %s, record %+v", d.Err(), f.tries, took, last)
					}
				})
			})
		}
	})
	t.Run("a row that was demoted in between is judged anew, and blocks", func(t *testing.T) {
		f := newFake(verified("a"))
		f.record = func(_ context.Context, r memory.DecisionRecord) error {
			if r.Fired {
				h := unverified("a")
				h.Revision = 4
				f.heads[h.ID] = h
				return &memory.ConflictError{Key: memory.HeadKey(h.ID)}
			}
			return nil
		}
		d := newGate(t, f, declared(), nil).Decide(t.Context(), mail(id("a")))
		if !errors.Is(d.Err(), gate.ErrUnverified) || d.Fault {
			t.Errorf("%v", d.Err())
		}
	})
}

func TestALineageThatIsTooLargeIsDeniedUnread(t *testing.T) {
	ids := make([]memory.ID, gate.MaxLineage+1)
	for i := range ids {
		ids[i] = id(fmt.Sprintf("%08d", i))
	}
	w := newWorld(t)
	g := newGate(t, w, declared(), nil)
	req := mail(ids...)
	d := g.Decide(t.Context(), req)
	if !errors.Is(d.Err(), gate.ErrClosureTooLarge) || d.Fault {
		t.Errorf("%v", d.Err())
	}
	records, err := w.Decisions(t.Context())
	if err != nil || len(records) != 1 || len(records[0].Rows) != gate.MaxLineage {
		t.Errorf("%d records, %v", len(records), err)
	}
}

func TestALineageThatIsTooLargeAndCannotBeRecordedIsAFault(t *testing.T) {
	ids := make([]memory.ID, gate.MaxLineage+1)
	for i := range ids {
		ids[i] = id(fmt.Sprintf("%08d", i))
	}
	f := newFake()
	f.record = func(context.Context, memory.DecisionRecord) error { return errDown }
	if d := newGate(t, f, declared(), nil).Decide(t.Context(), mail(ids...)); !d.Fault || !errors.Is(d.Err(), gate.ErrUndecided) || !errors.Is(d.Err(), gate.ErrClosureTooLarge) || d.Retry != gate.RetryLater {
		t.Errorf("%v", d.Err())
	}
}

func TestTheLargestLineageFires(t *testing.T) {
	w := newWorld(t)
	ids := make([]memory.ID, gate.MaxLineage)
	for i := range ids {
		ids[i] = w.put(t, w.fromTool(triple("acme", fmt.Sprintf("p%d", i), "x")))
	}
	if d := newGate(t, w, declared(), nil).Decide(t.Context(), mail(ids...)); d.Err() != nil || len(d.Consumed) != len(ids) {
		t.Errorf("%v", d.Err())
	}
}

func TestArgumentsThatAreNotCanonicalAreDenied(t *testing.T) {
	for _, args := range []string{`{"to":"a", "b":1}`, `{"b":1,"a":2}`, `{"a":1,"a":1}`, `[]`, `x`, `{"a":9007199254740993}`, ` {}`, `{"a":1.0}`} {
		f := newFake()
		req := mail()
		req.Args = []byte(args)
		d := newGate(t, f, declared(), nil).Decide(t.Context(), req)
		if !errors.Is(d.Err(), gate.ErrArgumentsInvalid) || len(f.records) != 1 || f.records[0].Fired {
			t.Errorf("%s: %v", args, d.Err())
		}
	}
	req := mail()
	req.Args, req.Sinks = nil, nil
	if d := newGate(t, newFake(), declared(), nil).Decide(t.Context(), req); d.Err() != nil {
		t.Errorf("no arguments: %v", d.Err())
	}
}

// TestSinksThatNobodySpokeOf: leaving a sink out is no better than naming it.
func TestSinksThatNobodySpokeOf(t *testing.T) {
	args := json.RawMessage(`{"body":"hi","cc":["x@x.example","y@y.example"],"n/m":{"a~b":1},"to":"a@a.example"}`)
	said := func(pointers ...string) (out []gate.Sink) {
		for _, p := range pointers {
			out = append(out, gate.Sink{Pointer: p, Source: gate.SourcePrincipal})
		}
		return out
	}
	for name, c := range map[string]struct {
		sinks []string // of the contract
		said  []gate.Sink
		want  []string
	}{
		"none declared, none said":    {nil, nil, []string{"/body", "/cc/0", "/cc/1", "/n~1m/a~0b", "/to"}},
		"none declared, some said":    {nil, said("/body", "/cc/0", "/to"), []string{"/cc/1", "/n~1m/a~0b"}},
		"declared, none said":         {[]string{"/to", "/cc"}, nil, []string{"/cc/0", "/cc/1", "/to"}},
		"declared, all said":          {[]string{"/to", "/cc"}, said("/to", "/cc/0", "/cc/1"), nil},
		"declared as one":             {[]string{"/n~1m"}, nil, []string{"/n~1m/a~0b"}},
		"a prefix is not a parent":    {[]string{"/t", "/bod"}, said("/to", "/cc/0"), []string{"/body", "/cc/1", "/n~1m/a~0b"}},
		"the whole is a sink":         {[]string{""}, said("/body", "/cc/0", "/cc/1", "/n~1m/a~0b"), []string{"/to"}},
		"declared, and there is none": {[]string{"/bcc"}, nil, []string{"/body", "/cc/0", "/cc/1", "/n~1m/a~0b", "/to"}},
		"declared, and one is absent": {[]string{"/to", "/bcc"}, said("/to"), []string{"/body", "/cc/0", "/cc/1", "/n~1m/a~0b"}},
		"said of something else":      {[]string{"/to"}, said("/to/0", "to", "/TO"), []string{"/to"}},
	} {
		req := mail()
		req.Args, req.Sinks, req.Contract.Sinks = args, c.said, c.sinks
		d := newGate(t, newFake(), declared(), nil).Decide(t.Context(), req)
		var got []string
		for _, r := range d.Reasons {
			if r.Code == gate.FromNowhere {
				got = append(got, r.Argument)
			}
		}
		if !slices.Equal(got, c.want) || (d.Err() == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestTheGateKeepsItsOwnCopies(t *testing.T) {
	p := declared()
	effect := gate.StateChanging
	p.Tools = map[string]gate.Rule{"send_email": {Effect: &effect}}
	g := newGate(t, newFake(unverified("a")), p, nil)
	effect = gate.ReadOnly
	p.Tools["send_email"] = gate.Rule{}
	ids := []memory.ID{id("a")}
	req := mail(ids...)
	req.Contract.Effect = gate.ReadOnly
	ids[0] = id("b")
	req.Lineage.Direct()[0] = id("c")
	if d := g.Decide(t.Context(), req); !errors.Is(d.Err(), gate.ErrUnverified) {
		t.Errorf("%v", d.Err())
	}
	sinks := make([]gate.Sink, 0, 8)
	req = mail()
	req.Sinks = sinks
	g.Decide(t.Context(), req)
	if s := sinks[:1][0]; s != (gate.Sink{}) {
		t.Errorf("the caller's slice holds %+v", s)
	}
}

func TestNewRefusesHalfAConfiguration(t *testing.T) {
	bad := gate.Effect(9)
	for name, build := range map[string]func() (*gate.Gate, error){
		"no store":           func() (*gate.Gate, error) { return gate.New(nil, declared(), nil) },
		"an unknown mode":    func() (*gate.Gate, error) { return gate.New(newFake(), declared(), &gate.Options{Mode: 9}) },
		"a negative hold":    func() (*gate.Gate, error) { return gate.New(newFake(), declared(), &gate.Options{HoldFor: -1}) },
		"a negative timeout": func() (*gate.Gate, error) { return gate.New(newFake(), declared(), &gate.Options{Timeout: -1}) },
		"a rule without a tool": func() (*gate.Gate, error) {
			return gate.New(newFake(), gate.Policy{Tools: map[string]gate.Rule{"": {}}}, nil)
		},
		"an effect that is none": func() (*gate.Gate, error) {
			return gate.New(newFake(), gate.Policy{Tools: map[string]gate.Rule{"t": {Effect: &bad}}}, nil)
		},
		"a negative age": func() (*gate.Gate, error) {
			return gate.New(newFake(), gate.Policy{Tools: map[string]gate.Rule{"t": {MaxAge: -1}}}, nil)
		},
		"a ceiling that is none": func() (*gate.Gate, error) {
			return gate.New(newFake(), gate.Policy{Tools: map[string]gate.Rule{"t": {Ceiling: 9}}}, nil)
		},
		"a verifier without a name": func() (*gate.Gate, error) {
			return gate.New(newFake(), gate.Policy{Verifies: map[string]string{"p": ""}}, nil)
		},
	} {
		if _, err := build(); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// TestRemediesExist: what is offered can be done.
func TestRemediesExist(t *testing.T) {
	kinds := func(d gate.Decision) (out []gate.RemedyKind) {
		for _, r := range d.Remedies {
			out = append(out, r.Kind)
		}
		return out
	}
	decide := func(p gate.Policy, c func(*memory.Head)) gate.Decision {
		h := unverified("a")
		if c != nil {
			c(&h)
		}
		f := newFake(h)
		f.says(h.ID, triple("acme", "billing.email", "ops@acme.example"))
		return newGate(t, f, p, nil).Decide(t.Context(), mail(h.ID))
	}
	with := func(tools map[string]gate.Rule, verifies map[string]string) gate.Policy {
		p := declared()
		p.Tools, p.Verifies = tools, verifies
		return p
	}
	knows := map[string]string{"billing.email": "crm"}
	undeclared := with(map[string]gate.Rule{"send_email": {}}, knows)
	undeclared.Declared = false
	full := []gate.RemedyKind{gate.RemedyCallTool, gate.RemedyAskUser, gate.RemedyConfirmRow, gate.RemedyGoOnWithout}
	for name, c := range map[string]struct {
		d    gate.Decision
		want []gate.RemedyKind
	}{
		"a tool that knows":              {decide(with(nil, knows), nil), full},
		"no tool that knows":             {decide(declared(), nil), full[1:]},
		"a tool for another predicate":   {decide(with(nil, map[string]string{"city": "crm"}), nil), full[1:]},
		"the blocked tool itself":        {decide(with(nil, map[string]string{"billing.email": "send_email"}), nil), full[1:]},
		"a tool that never runs":         {decide(with(map[string]gate.Rule{"crm": {Never: true}}, knows), nil), full[1:]},
		"a tool that no rule names":      {decide(undeclared, nil), full[1:]},
		"a verifier that was down":       {decide(with(nil, knows), func(h *memory.Head) { h.Outage = memory.OutageRecorded }), full[1:]},
		"a quarantined row":              {decide(with(nil, knows), func(h *memory.Head) { h.Security = memory.SecurityQuarantined }), full[3:]},
		"a row that is too secret":       {decide(with(nil, knows), func(h *memory.Head) { h.Sensitivity = memory.SensitivitySecret }), full[3:]},
		"a tool that never runs at all":  {decide(with(map[string]gate.Rule{"send_email": {Never: true}}, knows), nil), nil},
		"a row that is not there at all": {decide(with(nil, knows), func(h *memory.Head) { h.Revision = 0 }), full[3:]},
	} {
		if got := kinds(c.d); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestOnBlockHearsOfRows(t *testing.T) {
	var told []memory.ID
	g := newGate(t, newFake(unverified("a"), verified("b"), unverified("c")), declared(), &gate.Options{OnBlock: func(_ context.Context, ids []memory.ID) { told = append(told, ids...) }})
	g.Decide(t.Context(), mail(id("a"), id("b"), id("c")))
	if !slices.Equal(told, []memory.ID{id("a"), id("c")}) {
		t.Errorf("told %v", told)
	}
	told = nil
	g.Decide(t.Context(), mail(id("b")))
	if told != nil {
		t.Errorf("a permit told %v", told)
	}
}

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"": "{}", "  \n": "{}", "{}": "{}", `{"b":1,"a":[1.0,"\u0041"]}`: `{"a":[1,"A"],"b":1}`, `{"n":9007199254740992}`: `{"n":9007199254740992}`,
		`{"n":-9007199254740992}`: `{"n":-9007199254740992}`, `{"n":1e3}`: `{"n":1000}`, `{"n":0.1}`: `{"n":0.1}`, `{"a":{"a":1},"b":{"a":1}}`: `{"a":{"a":1},"b":{"a":1}}`,
	} {
		got, err := gate.Canonical([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
	for in, rule := range map[string]string{
		"[]": "not_object", "null": "not_object", `"x"`: "not_object", "1": "not_object", "{": "malformed", `{"a":1}{}`: "malformed", `{"a":1} x`: "malformed",
		`{"a":1,"a":2}`: "duplicate_key", `{"a":{"b":1,"b":1}}`: "duplicate_key", `{"a":1,"\u0061":2}`: "duplicate_key",
		`{"To":1,"to":2}`: "duplicate_key", `{"address":1,"addre\u017fs":2}`: "duplicate_key", `{"a":[{"\u212aey":1,"key":2}]}`: "duplicate_key",
		`{"n":9007199254740993}`: "integer_range", `{"n":[{"m":1e16}]}`: "integer_range", `{"n":-1e300}`: "integer_range", `{"n":1e999}`: "integer_range",
		`{"n":NaN}`: "malformed", `{"n":Infinity}`: "malformed", `{"n":01}`: "malformed", "{\"a\":\"\xff\"}": "malformed", `{"a":"\ud800"}`: "malformed",
		"\ufeff{}": "not_object", "\u00a0{}": "not_object", `{a:1}`: "malformed", `{"a":1,}`: "malformed", `{"a":tru}`: "malformed",
		`{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`: "too_deep", `{"a":"` + strings.Repeat("x", gate.MaxArguments) + `"}`: "too_large",
	} {
		got, err := gate.Canonical([]byte(in))
		var a *gate.ArgumentError
		if !errors.As(err, &a) || !errors.Is(err, gate.ErrArguments) || a.Rule != rule || got != nil {
			t.Errorf("%.40q: %s, %v, want %s", in, got, err, rule)
		}
		if err != nil && (len(err.Error()) > 300 || strings.ContainsAny(err.Error(), "\n\x1b")) {
			t.Errorf("error %q", err)
		}
	}
}

// FuzzCanonical: the form is a fixed point, and holds what the input held.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[1.0,"\u0041"]}`, `{"a":1,"a":2}`, `{"n":9007199254740993}`, "", `{"é":"\u00e9\n\ud83d\ude00"}`, `{"a":{"b":[null,true,-0,1e-7]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := gate.Canonical(in)
		if err != nil {
			if !errors.Is(err, gate.ErrArguments) {
				t.Fatalf("%v is no argument error", err)
			}
			return
		}
		twice, err := gate.Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s becomes %s, %v", once, twice, err)
		}
		if len(bytes.TrimSpace(in)) == 0 {
			return
		}
		var a, b any
		if json.Unmarshal(in, &a) != nil || json.Unmarshal(once, &b) != nil || !reflect.DeepEqual(a, b) { // -0 is 0
			t.Fatalf("%s is not %s", once, in)
		}
	})
}
