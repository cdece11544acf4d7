package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// changing are two systems of record, whose values change, and processes with clocks of their own that ask them.
type changing struct {
	t     *rapid.T
	store *memory.Store
	now   map[string]string // what a system says of a subject now, by "system/subject"
	runs  []*asker

	mu   sync.Mutex
	acts []string // "system/subject=value" of the calls that fired
}

// asker is a run and what it does now. An answer reaches it when it is told to go on.
type asker struct {
	run    *agent.Run
	read   map[string]string // what it was shown last, by place
	place  string            // that it asks about; "" = it asks nothing
	stood  int               // how often what is verified there had changed when it asked
	answer string
	asked  chan struct{}
	goOn   chan struct{}
	done   chan agent.Result
}

type (
	aboutIn struct {
		Subject string `json:"subject"`
	}
	valueOut struct {
		Value string `json:"value"`
	}
	actIn struct {
		Subject string `json:"subject"`
		Value   string `json:"value"`
	}
)

var (
	systems  = []string{"crm", "erp"}
	subjects = []string{"acme"}
	sayings  = []string{"account-1111", "account-2222", "account-3333"}
)

func places() (out []string) {
	for _, system := range systems {
		for _, subject := range subjects {
			out = append(out, system+"/"+subject)
		}
	}
	return out
}

// process is an agent over a store of its own on a driver, whose clock is off by some time.
func (c *changing) process(d memory.Driver, keys memory.Keys, off *time.Duration) *agent.Agent {
	store, err := memory.New(d, keys, &memory.Options{Clock: func() time.Time { return time.Now().Add(*off) }})
	if err != nil {
		c.t.Fatal(err)
	}
	g, err := gate.New(store, gate.Policy{Name: "test", Version: "1", Declared: true}, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.store = store
	var tools []agent.Tool
	for _, system := range systems {
		tools = append(tools,
			agent.Func(system+"_get", "asks "+system, func(ctx context.Context, in aboutIn) (valueOut, error) {
				r := ctx.Value(askerKey{}).(*asker)
				close(r.asked)
				<-r.goOn
				return valueOut{r.answer}, nil
			}, agent.ReadOnly(), agent.SystemOfRecord(system), agent.Authoritative("/value", system+".account", "/subject")),
			agent.Func(system+"_pay", "pays what "+system+" says", func(_ context.Context, in actIn) (nothing, error) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.acts = append(c.acts, system+"/"+in.Subject+"="+in.Value)
				return nothing{}, nil
			}, agent.Irreversible(), agent.Sinks("/subject", "/value"), agent.Repeatable()))
	}
	a, err := agent.New("desk", agent.Model{ID: "m", Family: "f"}, store, g, tools, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

type askerKey struct{}

// start asks a system about a subject. The answer is what it says now, and comes when finish is called.
func (c *changing) start(r *asker, place string) {
	system, subject := place[:3], place[4:]
	r.place, r.answer, r.asked, r.goOn, r.done = place, c.now[place], make(chan struct{}), make(chan struct{}), make(chan agent.Result, 1)
	go func() {
		res, err := r.run.Call(context.WithValue(context.Background(), askerKey{}, r), system+"_get", json.RawMessage(fmt.Sprintf(`{"subject":%q}`, subject)))
		if err != nil {
			c.t.Errorf("asking %s: %v", place, err)
		}
		r.done <- res
	}()
	select {
	case <-r.asked:
	case <-r.done: // it failed
		c.t.FailNow()
	}
}

// finish lets the answer come. It reports whether it is verified.
func (c *changing) finish(r *asker) bool {
	close(r.goOn)
	res := <-r.done
	r.read[r.place], r.place = r.answer, ""
	verified := false
	rows, err := c.store.Get(context.Background(), res.Rows...)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, row := range rows {
		verified = verified || row.State() == memory.StateVerified
	}
	return verified
}

// act pays what the run was shown last. It reports whether it may.
func (c *changing) act(r *asker, place string) bool {
	before := len(c.acts)
	_, err := r.run.Call(context.Background(), place[:3]+"_pay", json.RawMessage(fmt.Sprintf(`{"subject":%q,"value":%q}`, place[4:], r.read[place])))
	switch {
	case err == nil && len(c.acts) == before+1:
		return true
	case !errors.Is(err, gate.ErrHeld):
		c.t.Fatalf("%s = %s is denied for good: %v", place, r.read[place], err)
	case len(c.acts) != before:
		c.t.Fatalf("%s was paid though it is held", place)
	}
	return false
}

// TestI16FactsChangeAnyhow: whatever the delays of answers, and whatever the clocks say, what is verified in the end is what
// each source said last, no call fires on a value that was not the last to be verified, and none is denied for good.
func TestI16FactsChangeAnyhow(t *testing.T) {
	fired, held := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		c := &changing{t: rt, now: map[string]string{}}
		d, keys, offs := storetest.NewMap(), keyring.Ephemeral(), [2]time.Duration{}
		stands, changes := map[string]string{}, map[string]int{}
		for _, place := range places() {
			c.now[place] = sayings[0]
		}
		for i := range offs {
			a := c.process(d, keys, &offs[i])
			for range 2 {
				r := &asker{run: a.Start("ana"), read: map[string]string{}}
				defer r.run.Close()
				defer func() {
					if r.place != "" {
						close(r.goOn)
					}
				}()
				if _, err := r.run.Input(context.Background(), agent.Typed("Pay acme what crm and erp say.")); err != nil {
					rt.Fatal(err)
				}
				c.runs = append(c.runs, r)
			}
		}
		finish := func(r *asker) bool {
			place, value := r.place, r.answer
			verified := c.finish(r)
			if verified && value != stands[place] {
				if changes[place] > r.stood {
					rt.Fatalf("%s = %s took the place of %s, which was verified since it was asked for", place, value, stands[place])
				}
				stands[place] = value
				changes[place]++
			}
			return verified
		}
		for range rapid.IntRange(10, 60).Draw(rt, "steps") {
			r, place := rapid.SampledFrom(c.runs).Draw(rt, "run"), rapid.SampledFrom(places()).Draw(rt, "place")
			if known := slices.Sorted(maps.Keys(r.read)); len(known) > 0 && rapid.Bool().Draw(rt, "known") {
				place = rapid.SampledFrom(known).Draw(rt, "of those")
			}
			switch rapid.IntRange(0, 7).Draw(rt, "step") {
			case 0:
				offs[rapid.IntRange(0, 1).Draw(rt, "process")] = time.Duration(rapid.IntRange(-24, 24).Draw(rt, "hours")) * time.Hour
			case 1, 2:
				c.now[place] = rapid.SampledFrom(sayings).Draw(rt, "value")
			case 3, 4, 5:
				if r.place != "" {
					finish(r)
				} else {
					c.start(r, place)
					r.stood = changes[place]
				}
			default:
				switch {
				case r.place != "":
					finish(r)
				case r.read[place] == "":
				case !c.act(r, place):
					held++
				case r.read[place] != stands[place]:
					rt.Fatalf("%s = %s fired, and %s was verified last", place, r.read[place], stands[place])
				}
			}
		}
		for _, r := range c.runs {
			if r.place != "" {
				finish(r)
			}
		}
		for _, r := range c.runs {
			for _, place := range places() {
				for range 2 { // an answer that was overtaken is asked for once more
					c.start(r, place)
					if r.stood = changes[place]; finish(r) {
						break
					}
				}
			}
			for _, place := range places() {
				if stands[place] != c.now[place] {
					rt.Fatalf("%s: %s is verified, and it says %s", place, stands[place], c.now[place])
				}
				if !c.act(r, place) {
					rt.Fatalf("%s = %s is held after it was read again", place, c.now[place])
				}
			}
		}
		fired += len(c.acts)
	})
	if fired == 0 || held == 0 {
		t.Errorf("%d calls fired, %d were held", fired, held)
	}
	t.Logf("%d calls fired, %d were held", fired, held)
}
