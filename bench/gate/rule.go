package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/cedar-policy/cedar-go"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

var (
	//go:embed rule.cedar
	cedarRule []byte
	//go:embed rule.rego
	regoRule string
)

// An engine brings the inputs of a request to the form it likes best, which is not
// timed, and returns what judges them: the rows that may not feed the call.
type engine func(req *gate.Request, f memory.Fitness) (judge func() []int, err error)

// own is the gate's pure function.
func own(req *gate.Request, f memory.Fitness) (func() []int, error) {
	at := map[memory.ID]int{}
	for i := range f.Heads {
		at[f.Heads[i].ID] = i
	}
	return func() (blocked []int) {
		d := policy.Evaluate(req, f)
		for _, r := range d.Reasons {
			if r.Outcome != gate.Permit {
				blocked = append(blocked, at[r.Row])
			}
		}
		return slices.Compact(slices.Sorted(slices.Values(blocked)))
	}, nil
}

// micros is a moment as a number, 0 if it is none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// cedarEngine asks Cedar about one row after the other: it has no loop.
func cedarEngine() (engine, error) {
	set, err := cedar.NewPolicySetFromBytes("rule.cedar", cedarRule)
	if err != nil {
		return nil, err
	}
	return func(req *gate.Request, f memory.Fitness) (func() []int, error) {
		entities := cedar.EntityMap{}
		requests := make([]cedar.Request, len(f.Heads))
		shared := cedar.Request{
			Principal: cedar.NewEntityUID("User", cedar.String(req.Principal)),
			Action:    cedar.NewEntityUID("Action", cedar.String(req.Contract.Effect.String())),
			Context: cedar.NewRecord(cedar.RecordMap{
				"ceiling": cedar.Long(req.Contract.Ceiling), "privileged": cedar.Boolean(req.Contract.Privileged),
				"now": cedar.Long(f.Now.UnixMicro()), "max_age": cedar.Long(req.Contract.MaxAge.Microseconds()),
			}),
		}
		for i := range f.Heads {
			h := &f.Heads[i]
			requests[i] = shared
			requests[i].Resource = cedar.NewEntityUID("Row", cedar.String(h.ID))
			entities[requests[i].Resource] = cedar.Entity{UID: requests[i].Resource, Attributes: cedar.NewRecord(cedar.RecordMap{
				"revision": cedar.Long(h.Revision), "sensitivity": cedar.Long(h.Sensitivity), "rank": cedar.Long(h.Rank),
				"security": cedar.String(h.Security.String()), "retrieval": cedar.String(h.Retrieval.String()),
				"truth": cedar.String(h.Truth.String()), "freshness": cedar.String(h.Freshness.String()),
				"tainted": cedar.Boolean(h.Has(memory.FlagTainted)), "contested": cedar.Boolean(h.Has(memory.FlagContested)),
				"verified_at": cedar.Long(micros(h.VerifiedAt)), "expires_at": cedar.Long(micros(h.ExpiresAt)), "valid_until": cedar.Long(micros(h.ValidUntil)),
			})}
		}
		return func() (blocked []int) {
			for i := range requests {
				decision, why := cedar.Authorize(set, entities, requests[i])
				if len(why.Errors) > 0 {
					panic(fmt.Errorf("cedar: %s", why.Errors[0].Message))
				}
				if decision != cedar.Allow {
					blocked = append(blocked, i)
				}
			}
			return blocked
		}, nil
	}, nil
}

// regoEngine prepares the query once, and the input of a request as parsed values.
func regoEngine(ctx context.Context) (engine, error) {
	query, err := rego.New(rego.Query("data.gate.blocked"), rego.Module("rule.rego", regoRule)).PrepareForEval(ctx)
	if err != nil {
		return nil, err
	}
	return func(req *gate.Request, f memory.Fitness) (func() []int, error) {
		rows := make([]any, len(f.Heads))
		for i := range f.Heads {
			h := &f.Heads[i]
			rows[i] = map[string]any{
				"revision": h.Revision, "sensitivity": int(h.Sensitivity), "rank": int(h.Rank),
				"security": h.Security.String(), "retrieval": h.Retrieval.String(), "truth": h.Truth.String(), "freshness": h.Freshness.String(),
				"tainted": h.Has(memory.FlagTainted), "contested": h.Has(memory.FlagContested),
				"verified_at": micros(h.VerifiedAt), "expires_at": micros(h.ExpiresAt), "valid_until": micros(h.ValidUntil),
			}
		}
		input, err := ast.InterfaceToValue(map[string]any{
			"effect": req.Contract.Effect.String(), "ceiling": int(req.Contract.Ceiling), "privileged": req.Contract.Privileged,
			"now": f.Now.UnixMicro(), "max_age": req.Contract.MaxAge.Microseconds(), "rows": rows,
		})
		if err != nil {
			return nil, err
		}
		return func() (blocked []int) {
			result := report.Must(query.Eval(ctx, rego.EvalParsedInput(input)))
			if len(result) != 1 {
				panic(fmt.Errorf("rego: %d results", len(result)))
			}
			for _, v := range result[0].Expressions[0].Value.([]any) {
				blocked = append(blocked, report.Must(strconv.Atoi(v.(json.Number).String())))
			}
			slices.Sort(blocked)
			return blocked
		}, nil
	}, nil
}

// draw makes a request of 20 rows. Of most rows one thing is drawn anew, which may or
// may not speak against them; fit leaves them all as they are.
func draw(random *rand.Rand, fit bool) (gate.Request, memory.Fitness) {
	now := time.Date(2026, 4, 17, 9, 0, 0, 0, time.UTC)
	f := memory.Fitness{Now: now}
	var ids []memory.ID
	moment := func() time.Time { return now.Add(time.Duration(random.IntN(5)-2) * time.Hour) }
	for i := range rowsPerCall {
		h := memory.Head{
			ID: memory.ID(fmt.Sprintf("mem_%026d", i)), Revision: 3, Origin: memory.OriginFirstHand, Truth: memory.TruthSupported,
			Retrieval: memory.RetrievalNormal, Security: memory.SecurityClean, Freshness: memory.FreshnessFresh, Outage: memory.OutageNone,
			Sensitivity: memory.SensitivityInternal, Rank: memory.RankTool,
			VerifiedAt: now.Add(-time.Hour), StaleAt: now.Add(24 * time.Hour), ExpiresAt: now.Add(90 * 24 * time.Hour),
		}
		if !fit {
			switch random.IntN(40) {
			case 0:
				h.Truth = memory.Truth(random.IntN(5))
			case 1:
				h.Retrieval = memory.Retrieval(random.IntN(6))
			case 2:
				h.Security = memory.Security(random.IntN(5))
			case 3:
				h.Freshness = memory.Freshness(random.IntN(4))
			case 4:
				h.Sensitivity = memory.Sensitivity(random.IntN(5))
			case 5:
				h.Rank = memory.Rank(random.IntN(7))
			case 6:
				h.Flags = memory.Flags(random.IntN(32))
			case 7:
				h.VerifiedAt = moment()
			case 8:
				h.ExpiresAt = moment()
			case 9:
				h.ValidUntil = moment()
			case 10:
				h.StaleAt = moment()
			case 11:
				h = memory.Head{ID: h.ID}
			}
		}
		f.Heads, ids = append(f.Heads, h), append(ids, h.ID)
	}
	req := request("run_bench", ids, nil)
	req.Contract.Ceiling, req.Contract.MaxAge = memory.SensitivityInternal, 48*time.Hour
	if !fit {
		req.Contract.Effect = gate.Effect(random.IntN(3))
		req.Contract.Privileged = random.IntN(2) == 0
		req.Contract.Ceiling = memory.Sensitivity(1 + random.IntN(4))
		req.Contract.MaxAge = time.Duration(random.IntN(3)) * 90 * time.Minute
		if req.Contract.Ceiling == memory.SensitivityPublic { // or nearly nothing is ever permitted
			for i := range f.Heads {
				f.Heads[i].Sensitivity = min(f.Heads[i].Sensitivity, memory.SensitivityPublic)
			}
		}
	}
	return req, f
}

// agree draws requests until so many were judged, and fails unless all engines name
// the same rows.
func agree(random *rand.Rand, n int, engines map[string]engine) (permitted, blocked int, err error) {
	for range n {
		req, f := draw(random, false)
		judge, err := own(&req, f)
		if err != nil {
			return 0, 0, err
		}
		want := judge()
		if len(want) == 0 {
			permitted++
		} else {
			blocked++
		}
		for name, e := range engines {
			judge, err := e(&req, f)
			if err != nil {
				return 0, 0, err
			}
			if got := judge(); !slices.Equal(got, want) {
				return 0, 0, fmt.Errorf("%s blocks rows %v, the gate %v, of %+v for %+v", name, got, want, f.Heads, req.Contract)
			}
		}
	}
	if permitted < n/20 || blocked < n/20 {
		return 0, 0, fmt.Errorf("of %d requests %d were permitted: they say little", n, permitted)
	}
	return permitted, blocked, nil
}

// rule times the pure function beside the same rule in Cedar and in Rego.
func (b *bench) rule(ctx context.Context, _ string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	c, err := cedarEngine()
	if err != nil {
		return nil, err
	}
	r, err := regoEngine(ctx)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(b.seed, 4))
	n := max(b.rounds, 500)
	permitted, blocked, err := agree(random, n, map[string]engine{"cedar": c, "rego": r})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(b.progress, "  %d requests permitted and %d blocked, each by the gate, Cedar and Rego for the same rows\n", permitted, blocked)

	req, f := draw(random, true)
	const inner = 100 // one call is too short for the clock
	evaluate := func() {
		for range inner {
			if d := policy.Evaluate(&req, f); d.Outcome != gate.Permit {
				panic(fmt.Errorf("not permitted: %v", d.Reasons))
			}
		}
	}
	fed := func(e engine) func() {
		judge := report.Must(e(&req, f))
		return func() {
			if got := judge(); len(got) > 0 {
				panic(fmt.Errorf("rows %v are blocked", got))
			}
		}
	}
	t := report.Interleave(b.rounds, nil, evaluate, fed(c), fed(r))
	us := t[0].Quantile(0.5) / inner
	return []report.Figure{
		report.Exactly("evaluate/same_answers_as_cedar_and_rego", "requests", float64(permitted+blocked), float64(n), n, b.seed),
		report.AtMost("evaluate/20_rows/p50", "us", us, 1, b.rounds, b.seed),
		report.Rate("evaluate/20_rows/cedar", "us", us, t[1].Quantile(0.5), 10, b.rounds, b.seed),
		report.Rate("evaluate/20_rows/rego", "us", us, t[2].Quantile(0.5), 10, b.rounds, b.seed),
	}, nil
}
