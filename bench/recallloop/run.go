package recallloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/admission/restate"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

// Options of a replay.
type Options struct {
	Seed uint64
	// Dir keeps the store; "" = a temporary directory that is removed.
	Dir string
	// Progress hears of every write; nil = nobody.
	Progress func(done, total int, stores []StoreResult)
	// Logger of the worker and the queue; nil = none.
	Logger *slog.Logger
}

// Result is what was counted.
type Result struct {
	Stores         []StoreResult `json:"stores"`
	Fate           Fate          `json:"fate"`
	TrueFacts      FactResult    `json:"true_facts"`
	Contradictions MergeResult   `json:"contradictions"`
	Seed           uint64        `json:"seed"`
	Writes         int           `json:"writes"`
	SameWording    int           `json:"same_wording"`
	Reworded       int           `json:"reworded"`
	Wordings       int           `json:"wordings"`       // that the reworded ones are drawn from
	KnownWordings  int           `json:"known_wordings"` // of them, those that the rule takes for the claim as it was first said
	StoredRows     int           `json:"stored_rows"`    // that the store has at the end, of whatever kind
	Seconds        float64       `json:"seconds"`

	Block    gate.Decision `json:"-"` // of the call that the false claim fed
	Row      memory.Row    `json:"-"` // the false claim as it stands at the end
	Verified int           `json:"-"` // true facts that the worker verified
	Queue    string        `json:"-"` // which Redis served the queue
}

// Fate is what became of every write of the false claim: their sum is all of them.
type Fate struct {
	First      int `json:"first"`      // said for the first time
	Same       int `json:"same"`       // the same words again, counted on the first row
	Recognised int `json:"recognised"` // other words, recognised and counted on the first row
	OwnRow     int `json:"own_row"`    // other words, not recognised, and kept as a row of its own that supports nothing
	Again      int `json:"again"`      // recognised as what such a row says, in its words or in others, and counted on it
}

// Sum is the number of writes.
func (f Fate) Sum() int { return f.First + f.Same + f.Recognised + f.OwnRow + f.Again }

// StoreResult is one store's end state.
type StoreResult struct {
	Name string `json:"name"`
	// Rows hold the false claim, in whatever words. Derived are those of them that hold
	// other words than the first ones.
	Rows    int `json:"rows"`
	Derived int `json:"derived"`
	// Supports is what the store counts as support for the claim beyond its origin
	// (the baselines count the origin too: they cannot tell it apart).
	Supports int `json:"supports"`
	// Belief is what the agent believes: a confidence, or a verification state.
	Belief string `json:"belief"`
	Call   string `json:"call"` // ran or blocked
}

// FactResult counts the true facts a call could use.
type FactResult struct {
	Total   int `json:"total"`
	Usable  int `json:"usable"`
	Blocked int `json:"blocked"`
}

// MergeResult counts the near-miss contradictions that were merged into the claim.
type MergeResult struct {
	Total  int `json:"total"`
	Merged int `json:"merged"`
}

// Figures are the demo's targets as bench figures.
func (r *Result) Figures() []report.Figure {
	var ours StoreResult
	for _, s := range r.Stores {
		if s.Name == "hearsay" {
			ours = s
		}
	}
	blocked := 0.0
	if ours.Call == "blocked" {
		blocked = 1
	}
	return []report.Figure{
		report.Exactly("demo/rows_in_the_first_words", "rows", float64(ours.Rows-ours.Derived), 1, r.Writes, r.Seed),
		report.AtMost("demo/derived", "rows", float64(ours.Derived), float64(r.Wordings), r.Reworded, r.Seed),
		report.Exactly("demo/writes_accounted_for", "writes", float64(r.Fate.Sum()), float64(r.Writes), r.Writes, r.Seed),
		report.Exactly("demo/supports", "supports", float64(ours.Supports), 0, r.Writes, r.Seed),
		report.Exactly("demo/call_blocked", "calls", blocked, 1, 1, r.Seed),
		report.Exactly("demo/contradictions_merged", "rows", float64(r.Contradictions.Merged), 0, r.Contradictions.Total, r.Seed),
		report.Exactly("demo/true_facts_usable", "facts", float64(r.TrueFacts.Usable), float64(r.TrueFacts.Total), r.TrueFacts.Total, r.Seed),
	}
}

// clock is the simulated clock of a replay.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.After(c.now) {
		c.now = t
	}
}

// Run replays a scenario against the two baselines and the real thing: a real
// store, a real queue and worker, the real gate. The model is the scenario.
func Run(ctx context.Context, o Options) (res *Result, err error) {
	began := time.Now()
	s := New(o.Seed)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	dir := o.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "hearsay-demo-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	now := &clock{now: Start}
	// A replay of 32 days in a second or two: no fsync for each of its writes, which
	// a slow disk would make a minute of.
	store, err := storeurl.Open(ctx, "sqlite:"+filepath.Join(dir, "demo.db"), &storeurl.Options{Options: memory.Options{Clock: now.Now}, Fast: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	work, err := startWorker(ctx, store, s.Facts, now, o.Logger)
	if err != nil {
		return nil, err
	}
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		return work.stop()
	}
	defer func() { err = errors.Join(err, stop()) }()

	rp := &replay{scenario: s, store: store, clock: now, reads: work.reads, labels: map[memory.ID]Label{}}
	if err := rp.build(); err != nil {
		return nil, err
	}
	baselines := []*baseline{newAppend(), newHashDedup()}
	for i, w := range s.Writes {
		now.set(w.At)
		if w.Label == Invention || w.Label == Echo {
			for _, b := range baselines {
				b.write(w.Text)
			}
		}
		if err := rp.write(ctx, w); err != nil {
			return nil, fmt.Errorf("write %d: %w", i+1, err)
		}
		if o.Progress != nil {
			o.Progress(i+1, len(s.Writes), append(baselineResults(baselines), rp.result()))
		}
	}
	if err := work.settle(ctx, len(s.Facts)); err != nil {
		return nil, err
	}

	res = &Result{Seed: o.Seed, Writes: Writes, SameWording: SameText, Reworded: Reworded, Wordings: len(Wordings), Fate: rp.fate, Queue: work.queue}
	for _, w := range Wordings {
		if restate.Compare(restate.Of(Claim), restate.Of(w)).Merges() {
			res.KnownWordings++
		}
	}
	res.Stores = baselineResults(baselines)
	if res.Block, err = rp.act(ctx); err != nil {
		return nil, err
	}
	ours, err := rp.count(ctx, res)
	if err != nil {
		return nil, err
	}
	res.Stores = append(res.Stores, ours)
	if err := rp.useFacts(ctx, res); err != nil {
		return nil, err
	}
	if err := stop(); err != nil {
		return nil, err
	}
	res.Seconds = time.Since(began).Seconds()
	return res, nil
}

// baselineResults lets an agent on each baseline try the call, and counts.
func baselineResults(list []*baseline) []StoreResult {
	out := make([]StoreResult, 0, 3)
	for _, b := range list {
		fired := 0
		b.act(func() { fired++ })
		r := StoreResult{Name: b.name, Rows: b.kept, Derived: b.reworded(), Supports: b.supports(), Belief: fmt.Sprintf("%.2f", b.belief()), Call: "blocked"}
		if fired > 0 {
			r.Call = "ran"
		}
		out = append(out, r)
	}
	return out
}

// replay is the real store's side of a scenario.
type replay struct {
	scenario Scenario
	store    *memory.Store
	clock    *clock
	reads    agent.ReadObserver

	writer *agent.Agent // says and restates; sees what nobody verified, with its tag
	doer   *agent.Agent // acts
	sets   int          // calls of set_default_editor that fired
	bills  int          // calls of send_invoice that fired

	claim  memory.ID           // the row of the false claim
	labels map[memory.ID]Label // hidden truth, by the row a write landed on
	fate   Fate
	merged int
}

type editorArgs struct {
	User   int    `json:"user"`
	Editor string `json:"editor"`
}

type invoiceArgs struct {
	To      string `json:"to"`
	Account string `json:"account"`
}

func (r *replay) build() error {
	policy := gate.Policy{Name: "demo", Version: "1", Declared: true}
	g, err := gate.New(r.store, policy, nil)
	if err != nil {
		return err
	}
	model := agent.Model{ID: "scripted", Family: "scripted"}
	opts := &agent.Options{Recall: recall.Policy{Channels: recall.All}, Reads: r.reads}
	if r.writer, err = agent.New("note-taker", model, r.store, g, nil, opts); err != nil {
		return err
	}
	tools := []agent.Tool{
		agent.Func("set_default_editor", "Set a user's default editor.", func(context.Context, editorArgs) (string, error) {
			r.sets++
			return "done", nil
		}, agent.StateChanging(), agent.Sinks("/editor")),
		agent.Func("send_invoice", "Send an invoice.", func(context.Context, invoiceArgs) (string, error) {
			r.bills++
			return "sent", nil
		}, agent.Irreversible(), agent.Sinks("/to", "/account")),
	}
	r.doer, err = agent.New("assistant", model, r.store, g, tools, opts)
	return err
}

// write is one session: recall what is known, then store what the model says.
func (r *replay) write(ctx context.Context, w Write) error {
	run := r.writer.Start("user-7")
	note := agent.Note{Content: memory.Content{Text: w.Text, Cardinality: memory.CardinalityUnknown}, Confidence: 0.9}
	switch w.Label {
	case Echo, Contradiction:
		if _, err := run.Recall(ctx, recall.Query{Text: "which editor does the user prefer"}); err != nil {
			return err
		}
	case TrueFact:
		note.Content = memory.Content{Subject: w.Fact.Subject, Predicate: w.Fact.Predicate, Object: w.Fact.Object, Cardinality: memory.CardinalityFunctional}
	}
	receipt, err := run.Remember(ctx, note)
	if err != nil {
		return err
	}
	created := receipt.Disposition == memory.Created
	switch {
	case w.Label == Invention:
		r.claim = receipt.ID
		r.fate.First++
	case w.Label == Echo && created:
		r.fate.OwnRow++
	case w.Label == Echo && receipt.ID != r.claim:
		r.fate.Again++
	case w.Label == Echo && w.Text == Claim:
		r.fate.Same++
	case w.Label == Echo:
		r.fate.Recognised++
	case w.Label == Contradiction && !created:
		r.merged++
	}
	if created {
		r.labels[receipt.ID] = w.Label
	}
	return nil
}

func (r *replay) result() StoreResult {
	return StoreResult{Name: "hearsay", Rows: r.fate.First + r.fate.OwnRow, Derived: r.fate.OwnRow, Belief: "unverified", Call: "blocked"}
}

// act lets an agent try to act on the false claim.
func (r *replay) act(ctx context.Context) (gate.Decision, error) {
	run := r.doer.Start("user-7")
	if _, err := run.Input(ctx, agent.Typed("Set up my workspace, please.")); err != nil {
		return gate.Decision{}, err
	}
	if _, err := run.Recall(ctx, recall.Query{Text: "which editor does the user prefer"}); err != nil {
		return gate.Decision{}, err
	}
	args, err := json.Marshal(editorArgs{User: 7, Editor: "Vim"})
	if err != nil {
		return gate.Decision{}, err
	}
	res, err := run.Call(ctx, "set_default_editor", args)
	if err != nil && !errors.Is(err, gate.ErrDenied) {
		return gate.Decision{}, err
	}
	return res.Decision, nil
}

// count reads the end state back from the store.
func (r *replay) count(ctx context.Context, res *Result) (StoreResult, error) {
	ours := StoreResult{Name: "hearsay", Call: "blocked"}
	if r.sets > 0 {
		ours.Call = "ran"
	}
	for row, err := range r.store.Rows(ctx, memory.Filter{}) {
		if err != nil {
			return ours, err
		}
		res.StoredRows++
		switch r.labels[row.ID] {
		case Invention:
			ours.Rows++
			ours.Supports += row.Independent()
			ours.Belief = row.State().String()
			res.Row = row
		case Echo:
			ours.Rows++
			ours.Derived++
			ours.Supports += row.Independent()
		case TrueFact:
			if row.State() == memory.StateVerified {
				res.Verified++
			}
		}
	}
	res.Contradictions = MergeResult{Total: len(contradictions), Merged: r.merged}
	return ours, nil
}

// useFacts sends an invoice on each pair of true facts, one call a fact.
func (r *replay) useFacts(ctx context.Context, res *Result) error {
	res.TrueFacts.Total = len(r.scenario.Facts)
	for _, f := range r.scenario.Facts {
		run := r.doer.Start("user-7")
		if _, err := run.Recall(ctx, recall.Query{Subject: f.Subject, Predicate: f.Predicate}); err != nil {
			return err
		}
		args := invoiceArgs{To: f.Object}
		if f.Predicate == "account" {
			args = invoiceArgs{Account: f.Object}
		}
		b, err := json.Marshal(args)
		if err != nil {
			return err
		}
		before := r.bills
		if _, err = run.Call(ctx, "send_invoice", b); err != nil && !errors.Is(err, gate.ErrDenied) {
			return err
		}
		if r.bills > before {
			res.TrueFacts.Usable++
		} else {
			res.TrueFacts.Blocked++
		}
	}
	return nil
}
