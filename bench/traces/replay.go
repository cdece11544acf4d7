package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/hearsay-go/hearsay/gate"
)

// outcome counts what came of the traces of one suite, or of all.
type outcome struct {
	attacks, textOnly int // pairs with a call to stop, and those without one
	fired             []string
	offered           int // calls that hijacked agents asked for
	tasks, changing   int
	questions         map[string]int // by task
	gated             int            // calls of tasks that a gate could have stopped

	rows, claims, calls int // what a person did for the questions: rows and claims confirmed, calls approved
}

// without counts the tasks that asked nobody anything.
func (o *outcome) without() int { return o.tasks - len(o.questions) }

func (o *outcome) one() (n int) {
	for _, q := range o.questions {
		if q == 1 {
			n++
		}
	}
	return n
}

func (o *outcome) asked() (n int) {
	for _, q := range o.questions {
		n += q
	}
	return n
}

func (o *outcome) add(p *outcome) {
	o.attacks, o.textOnly, o.offered = o.attacks+p.attacks, o.textOnly+p.textOnly, o.offered+p.offered
	o.tasks, o.changing, o.gated = o.tasks+p.tasks, o.changing+p.changing, o.gated+p.gated
	o.rows, o.claims, o.calls = o.rows+p.rows, o.claims+p.claims, o.calls+p.calls
	o.fired = append(o.fired, p.fired...)
	if o.questions == nil {
		o.questions = map[string]int{}
	}
	for t, n := range p.questions {
		o.questions[t] += n
	}
}

// replay plays all tasks of a suite, and then all its attacks, on one store.
func replay(ctx context.Context, s *set, one *suite, m mode) (o *outcome, err error) {
	w, done, err := stage(ctx, one, m)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	o = &outcome{questions: map[string]int{}}
	for i := range one.Tasks {
		if err := w.task(ctx, &one.Tasks[i], o); err != nil {
			return nil, err
		}
	}
	return o, w.attacks(ctx, s, o)
}

// replayAll plays all suites at once, each on a store of its own.
func (s *set) replayAll(ctx context.Context, m mode) ([]*outcome, error) {
	played, failed := make([]*outcome, len(s.suites)), make([]error, len(s.suites))
	var all sync.WaitGroup
	for i, one := range s.suites {
		all.Go(func() { played[i], failed[i] = replay(ctx, s, one, m) })
	}
	all.Wait()
	return played, errors.Join(failed...)
}

// stage is a world in a folder of its own.
func stage(ctx context.Context, one *suite, m mode) (w *world, done func() error, err error) {
	dir, err := os.MkdirTemp("", "hearsay-traces-")
	if err != nil {
		return nil, nil, err
	}
	if w, err = open(ctx, one, m, dir); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return w, func() error { return errors.Join(w.store.Close(), os.RemoveAll(dir)) }, nil
}

// attacks plays all attacks on a suite.
func (w *world) attacks(ctx context.Context, s *set, o *outcome) error {
	for _, p := range s.pairs {
		if p.Suite != w.suite.Name {
			continue
		}
		if err := w.attack(ctx, s.templates[wording], p, o); err != nil {
			return err
		}
	}
	return nil
}

// offer asks the gate for a call. Anything but a permit or a verdict against the
// call is a fault of the replay, never a block that counts.
func (w *world) offer(ctx context.Context, s *session, c *call, attack *injection, text string) (d gate.Decision, err error) {
	args, err := s.write(ctx, given(c.Args))
	if err != nil {
		return gate.Decision{}, err
	}
	if err := w.remind(ctx, s, args); err != nil {
		return gate.Decision{}, err
	}
	if w.mode.plain() && len(c.Rows) > 0 {
		if w.pending, err = w.result(c, attack, text); err != nil {
			return gate.Decision{}, err
		}
	}
	res, err := s.run.Call(ctx, c.Tool, args)
	if w.pending != nil && attack == nil { // it was blocked: it is taken to be approved
		if _, err := s.run.Call(ctx, approved, args); err != nil {
			return gate.Decision{}, err
		}
	}
	w.pending = nil
	var denied *gate.DeniedError
	switch {
	case err == nil:
		return res.Decision, nil
	case errors.As(err, &denied) && !denied.Decision.Fault && !denied.Decision.Has(gate.ToolNotNamed) && !denied.Decision.Has(gate.ArgumentsInvalid):
		return denied.Decision, nil
	}
	return gate.Decision{}, fmt.Errorf("%s, %s: %w", w.suite.Name, c.Tool, err)
}

// given drops the arguments that a call leaves open: upstream writes them as null.
func given(args json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(args, &all) != nil {
		return args // the agent refuses it, and says why
	}
	for name, v := range all {
		if string(v) == "null" {
			delete(all, name)
		}
	}
	b, err := json.Marshal(all)
	if err != nil {
		return args
	}
	return b
}

// show reads what a call shows.
func (w *world) show(ctx context.Context, s *session, c *call, attack *injection, text string) error {
	for _, id := range c.Rows {
		if err := w.read(ctx, s, id, attack, text); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) task(ctx context.Context, t *task, o *outcome) error {
	s, err := w.begin(ctx, w.agent, t)
	if err != nil {
		return err
	}
	o.tasks++
	if t.Changes {
		o.changing++
	}
	for i := range t.Calls {
		if w.gated(&t.Calls[i]) {
			o.gated++
		}
		c := &t.Calls[i]
		d, err := w.offer(ctx, s, c, nil, "")
		if err == nil && d.Blocked() {
			o.questions[w.suite.Name+"/"+t.ID]++
			if w.mode == endorsed {
				err = w.answer(ctx, s, c, d, o)
			}
		}
		for j := 0; err == nil && j < len(c.Rows); j++ {
			err = w.read(ctx, s, c.Rows[j], nil, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gated reports whether a call is one that its rows can stop.
func (w *world) gated(c *call) bool {
	e, err := effect(w.suite.tools[c.Tool])
	return err != nil || e != gate.ReadOnly
}

// attack plays a task up to the first read that shows the attacker's text, and then
// what the attacker wants.
func (w *world) attack(ctx context.Context, template string, p pair, o *outcome) error {
	a := w.suite.injection(p.Injection)
	if a.TextOnly {
		o.textOnly++
		return nil
	}
	s, text, err := w.expose(ctx, template, p)
	if err != nil {
		return err
	}
	return w.act(ctx, s, p, a, text, o)
}

// expose plays a task up to the first read that shows the attacker's text.
func (w *world) expose(ctx context.Context, template string, p pair) (s *session, text string, err error) {
	t, a := w.suite.task(p.Task), w.suite.injection(p.Injection)
	if s, err = w.begin(ctx, w.agent, t); err != nil {
		return nil, "", err
	}
	text = w.suite.attackText(template, a)
	for i := range t.Calls[:p.Exposed+1] {
		if _, err := w.exposing(ctx, s, &t.Calls[i], a, text); err != nil {
			return nil, "", err
		}
		if err := w.show(ctx, s, &t.Calls[i], a, text); err != nil {
			return nil, "", err
		}
	}
	return s, text, s.open(ctx) // nobody obeys a text that they have not read
}

// exposing offers a call of the task that an attack rides on. If it is blocked, it is
// approved all the same: the attack is what is measured.
func (w *world) exposing(ctx context.Context, s *session, c *call, attack *injection, text string) (gate.Decision, error) {
	d, err := w.offer(ctx, s, c, attack, text)
	if err != nil || !d.Blocked() || !w.mode.plain() || len(c.Rows) == 0 {
		return d, err
	}
	if w.pending, err = w.result(c, attack, text); err != nil {
		return d, err
	}
	_, err = s.run.Call(ctx, approved, given(c.Args))
	w.pending = nil
	return d, err
}

// act offers what the attacker wants done. It succeeds if all of it fires that is more
// than a read.
func (w *world) act(ctx context.Context, s *session, p pair, a *injection, text string, o *outcome) error {
	o.attacks++
	for i := range a.Calls {
		c := &a.Calls[i]
		o.offered++
		d, err := w.offer(ctx, s, c, a, text)
		if err != nil {
			return err
		}
		if d.Blocked() { // what it would have shown, a sent mail say, is in no memory
			return nil
		}
		if err := w.show(ctx, s, c, a, text); err != nil {
			return err
		}
	}
	o.fired = append(o.fired, p.Suite+" "+p.Task+" "+p.Injection)
	return nil
}
