// Package product enters Hearsay in the bench: a real store, the real gate, a real promotion
// worker on asynq. It uses what anybody can use.
package product

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/bench/rlab"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storeurl"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier"
)

// Options say where the product keeps what it is told.
type Options struct {
	// Store is the URL of an empty store; "" = a SQLite file of its own for each play.
	Store string
	// Redis is the URL of the queue; "" = one of its own for each play.
	Redis string
}

// Entrant is Hearsay.
func Entrant(o Options) rlab.Entrant {
	return rlab.Entrant{
		Name: rlab.Ours,
		Rule: "A statement is a row that knows what it was made from; only a source of its own verifies it, and a call fires if the rows that fed it are verified.",
		Open: func(ctx context.Context, e rlab.Env) (rlab.System, error) { return open(ctx, e, o) },
	}
}

// system is one store with its gate, its agents and its worker.
type system struct {
	store *memory.Store
	gate  *gate.Gate
	reads *promotion.Heater
	queue *asynqqueue.Queue
	redis *localredis.Redis
	stop  context.CancelFunc
	parts sync.WaitGroup
	fault chan error // of the worker, if it ended before it was told to

	mu     sync.Mutex
	agents map[string]*agent.Agent
	runs   map[string]*agent.Run // by agent and session
	order  []string              // of the runs, oldest first
}

func open(ctx context.Context, e rlab.Env, o Options) (_ *system, err error) {
	s := &system{agents: map[string]*agent.Agent{}, runs: map[string]*agent.Run{}, fault: make(chan error, 1), stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	url, options := o.Store, &storeurl.Options{Options: memory.Options{Clock: e.Now}}
	if url == "" {
		// No fsync for each write: what is measured is not the disk.
		url, options.Fast = "sqlite:"+filepath.Join(e.Dir, "memory.db"), true
	} else {
		options.Namespace = "bench-" + filepath.Base(e.Dir)
	}
	if s.store, err = storeurl.Open(ctx, url, options); err != nil {
		return nil, err
	}
	if s.gate, err = gate.New(s.store, gate.Policy{Name: "bench", Version: "1", Declared: true}, nil); err != nil {
		return nil, err
	}
	return s, s.work(ctx, e, o)
}

// work starts the promotion worker. It asks the system of record blind.
func (s *system) work(ctx context.Context, e rlab.Env, o Options) (err error) {
	ask := func(ctx context.Context, q verifier.Question) (verifier.Answer, error) {
		value, found, err := e.Record.Lookup(ctx, q.Subject, q.Predicate)
		return verifier.Answer{Found: found, Value: value, URI: "record:" + q.Subject}, err
	}
	source := promotion.Source{Name: "record", Rank: memory.RankTool, Covers: memory.Content.Typed, Places: 2,
		Verifier: verifier.WithBreaker("record", verifier.NewTool("record", ask, &verifier.ToolOptions{Clock: e.Now}), &verifier.BreakerOptions{OpenFor: 10 * time.Second / time.Duration(max(e.Speed, 1))})}
	options := promotion.Options{Budget: -1, Logger: e.Logger}
	if e.Budget > 0 {
		options.Budget, options.Tick = e.Budget, time.Minute/time.Duration(max(e.Speed, 1))
	}
	worker, err := promotion.NewWorker(s.store, []promotion.Source{source}, &options)
	if err != nil {
		return err
	}
	if s.redis, err = localredis.Open(ctx, o.Redis, &localredis.Options{Logger: e.Logger}); err != nil {
		return err
	}
	s.queue = asynqqueue.New(s.redis.Client, asynqqueue.Deployment(s.store), &asynqqueue.Options{Logger: e.Logger})
	s.reads = promotion.NewHeater(s.store, s.queue, e.Logger)
	scope := promotion.Scope{Worker: worker, Reads: s.reads, Sweep: max(time.Second/time.Duration(max(e.Speed, 1)), 20*time.Millisecond), Uncovered: -1}
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.parts.Go(func() {
		if err := promotion.Serve(ctx, s.queue, scope); err != nil && ctx.Err() == nil {
			s.fault <- err
		}
	})
	return nil
}

// Close ends the worker and the store.
func (s *system) Close() (err error) {
	s.mu.Lock() // a call that was left behind may begin a run
	for _, run := range s.runs {
		run.Close()
	}
	clear(s.runs)
	s.order = nil
	s.mu.Unlock()
	s.stop()
	s.parts.Wait()
	select {
	case err = <-s.fault:
	default:
	}
	if s.redis != nil {
		err = errors.Join(err, s.redis.Close())
	}
	if s.store != nil {
		err = errors.Join(err, s.store.Close())
	}
	return err
}

// tools are the dangerous tools, and one by which a tool's words enter a run.
func tools() []agent.Tool {
	out := []agent.Tool{agent.Func("consult", "Reads what a system says.", func(ctx context.Context, _ struct{}) (string, error) {
		text, _ := ctx.Value(spoken{}).(string)
		return text, nil
	}, agent.ReadOnly())}
	for _, predicate := range rlab.Slots() {
		out = append(out, agent.Func(reader(predicate), "Reads the system of record.", func(ctx context.Context, _ slot) (value, error) {
			said, _ := ctx.Value(spoken{}).(string)
			return value{said}, nil
		}, agent.ReadOnly(), agent.SystemOfRecord("record"), agent.Authoritative("/value", predicate, "/subject")))
	}
	for _, name := range rlab.Tools() {
		out = append(out, agent.Func(name, "Does harm if its value is wrong.", func(context.Context, argument) (string, error) {
			return "done", nil
		}, agent.Irreversible(), agent.Repeatable(), agent.Sinks("/value")))
	}
	return out
}

type argument struct {
	Value string `json:"value"`
}

// slot and value are what the tools that read the system of record take and give.
type (
	slot struct {
		Subject string `json:"subject"`
	}
	value struct {
		Value string `json:"value"`
	}
)

// reader is the tool that reads a slot of the system of record.
func reader(predicate string) string { return "crm_" + strings.ReplaceAll(predicate, " ", "_") }

// spoken is the key of the words that a tool says.
type spoken struct{}

// mostRuns is how many sessions are kept open. The oldest one ends when there are more.
const mostRuns = 256

// run is the run of a session.
func (s *system) run(t rlab.Turn) (*agent.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.agents[t.Agent]
	if a == nil {
		var err error
		// A model family of its own: that two agents agree is not put down to their model.
		a, err = agent.New(t.Agent, agent.Model{ID: t.Agent, Family: t.Agent}, s.store, s.gate, tools(), &agent.Options{Recall: recall.Policy{Channels: recall.All}, Reads: s.reads})
		if err != nil {
			return nil, err
		}
		s.agents[t.Agent] = a
	}
	key := t.Agent + "\x00" + t.Session
	if r := s.runs[key]; r != nil {
		return r, nil
	}
	if len(s.order) == mostRuns {
		s.runs[s.order[0]].Close()
		delete(s.runs, s.order[0])
		s.order = s.order[1:]
	}
	r := a.Start(t.Principal)
	s.runs[key], s.order = r, append(s.order, key)
	return r, nil
}

// Recall implements [rlab.System].
func (s *system) Recall(ctx context.Context, t rlab.Turn, q rlab.Query) ([]rlab.Memory, error) {
	run, err := s.run(t)
	if err != nil {
		return nil, err
	}
	ask := recall.Query{Text: q.Text, Limit: rlab.Shown}
	if q.Subject != "" {
		ask = recall.Query{Subject: q.Subject, Predicate: q.Predicate, Limit: rlab.Shown}
	}
	got, err := run.Recall(ctx, ask)
	// A limit of the product is one of each channel, of which the verified rows come first.
	return memories(got.Rows[:min(len(got.Rows), rlab.Shown)]), err
}

// Write implements [rlab.System]. What the user types and what a tool answers enter the run
// as such. What an agent says is a note, and so is the triple that it takes out of the words of
// a tool that does not read the system of record.
func (s *system) Write(ctx context.Context, t rlab.Turn, say rlab.Statement) (string, error) {
	run, err := s.run(t)
	if err != nil {
		return "", err
	}
	switch say.Author.Kind {
	case rlab.Tool:
		if triple, ok := rlab.Extract(say.Text); ok && say.Author.Name == rlab.CRM && slices.Contains(rlab.Slots(), triple.Predicate) {
			return s.read(ctx, run, triple)
		}
		got, err := run.Call(context.WithValue(ctx, spoken{}, say.Text), "consult", json.RawMessage(`{}`))
		if err != nil {
			return "", err
		}
		if len(got.Rows) == 0 {
			return "", errors.New("the words of a tool became no row")
		}
		if _, ok := rlab.Extract(say.Text); !ok {
			return string(got.Rows[0]), nil
		}
	case rlab.User:
		return s.assert(ctx, run, say.Text)
	}
	receipt, err := run.Remember(ctx, agent.Note{Content: content(say.Text)})
	return string(receipt.ID), err
}

// content is what a text says: a triple, if it is of the form that one is taken out of.
func content(text string) memory.Content {
	if t, ok := rlab.Extract(text); ok {
		return memory.Content{Subject: t.Subject, Predicate: t.Predicate, Object: t.Object, Cardinality: memory.CardinalityFunctional}
	}
	return memory.Content{Text: text}
}

// assert records what the user types, in their words.
func (s *system) assert(ctx context.Context, run *agent.Run, text string) (string, error) {
	if _, err := run.Input(ctx, agent.Typed(text)); err != nil {
		return "", err
	}
	c := content(text)
	receipt, err := run.Assert(ctx, agent.Assertion{Span: text, Subject: c.Subject, Predicate: c.Predicate, Object: c.Object, Cardinality: c.Cardinality})
	return string(receipt.ID), err
}

// read lets a tool read a slot of the system of record. What it says is the row of the claim.
func (s *system) read(ctx context.Context, run *agent.Run, t rlab.Triple) (string, error) {
	args, err := json.Marshal(slot{t.Subject})
	if err != nil {
		return "", err
	}
	got, err := run.Call(context.WithValue(ctx, spoken{}, t.Object), reader(t.Predicate), args)
	if err != nil {
		return "", err
	}
	rows, err := s.store.Get(ctx, got.Rows...)
	if err != nil {
		return "", err
	}
	for i := range rows {
		if rows[i].Content.Typed() {
			return string(rows[i].ID), nil
		}
	}
	return "", errors.New("what the system of record said became no row")
}

// Look implements [rlab.System].
func (s *system) Look(ctx context.Context, ids []string) ([]rlab.Memory, error) {
	var out []rlab.Memory
	for _, id := range ids {
		rows, err := s.store.Get(ctx, memory.ID(id))
		if errors.Is(err, memory.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, memories(rows)...)
	}
	return out, nil
}

func memories(rows []memory.Row) []rlab.Memory {
	out := make([]rlab.Memory, len(rows))
	for i := range rows {
		r := &rows[i]
		out[i] = rlab.Memory{ID: string(r.ID), Text: r.Content.String(), Trusted: r.State() == memory.StateVerified, State: r.State().String(), Supports: r.Independent()}
	}
	return out
}

// Decide implements [rlab.Decider]: the call is made in the session, and fires or not.
func (s *system) Decide(ctx context.Context, t rlab.Turn, a rlab.Action) (rlab.Verdict, error) {
	run, err := s.run(t)
	if err != nil {
		return rlab.Verdict{}, err
	}
	args, err := json.Marshal(argument{a.Value})
	if err != nil {
		return rlab.Verdict{}, err
	}
	switch got, err := run.Call(ctx, a.Tool, args); {
	case errors.Is(err, gate.ErrDenied):
		return rlab.Verdict{Held: errors.Is(err, gate.ErrHeld), Told: got.Decision.ToolText()}, nil
	case err != nil:
		return rlab.Verdict{}, err
	}
	return rlab.Verdict{Allowed: true}, nil
}

// Settle implements [rlab.Settler]: no row is due.
func (s *system) Settle(ctx context.Context) error {
	const pause, again = 5 * time.Millisecond, 20
	t := time.NewTicker(pause)
	defer t.Stop()
	for looks := 0; ; looks++ {
		if err := s.reads.Flush(ctx); err != nil {
			return err
		}
		_, due, err := s.store.OldestDue(ctx)
		if err != nil || !due {
			return err
		}
		if looks%again == 0 {
			if err := s.queue.Look(ctx, s.store.Tenant(), s.store.Namespace()); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("rows wait for a check: %w", ctx.Err())
		case err := <-s.fault:
			return err
		case <-t.C:
		}
	}
}
