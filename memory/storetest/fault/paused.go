package fault

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// Paused stops a server under load, more than once, as SIGSTOP does, and lets it go
// on. Each call of a driver, a store and a gate must end with the error of its deadline
// while the server stands still. Afterwards the server must be used again without
// anybody's help, and nothing that was acknowledged may be lost. The time that the calls
// took is logged, not asserted.
func Paused(t *testing.T, d memory.Driver, stop, resume func() error) {
	t.Helper()
	const (
		rounds   = 2
		deadline = 150 * time.Millisecond
		guard    = time.Minute // against a call that hangs
	)
	// Calls of the store meet the stop where it hurts: when all is read, at the write.
	at := &stopping{Driver: d, stop: stop}
	s, err := newOvertaken(t.Context(), at, &memory.Options{Tenant: "rows"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	gateOf := func(timeout time.Duration) (*gate.Gate, error) {
		return gate.New(s.Store, gate.Policy{Name: "prod", Version: "1", Declared: true}, &gate.Options{Timeout: timeout})
	}
	// The gate of the last call has time to answer while the server still catches up.
	after, err := gateOf(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	load := Load{Tenant: "load", Streams: 3, Parts: 3, Size: 300}
	acknowledged := make(chan Acknowledged)
	written := make(chan []Acknowledged)
	over := make(chan struct{})
	go func() {
		var all []Acknowledged
		for {
			done, errs := load.Write(context.WithoutCancel(t.Context()), d, func(a Acknowledged) bool {
				select {
				case acknowledged <- a:
					return true
				case <-over:
					return false
				}
			})
			if all = append(all, done...); len(errs) == 0 {
				written <- all
				return
			}
		}
	}()
	some := func() {
		for range 50 {
			<-acknowledged
		}
	}
	n := 0
	put := func(ctx context.Context) error {
		n++
		_, err := s.Put(ctx, byTool(says("somebody", "email", fmt.Sprint(n))))
		return err
	}
	decide := func(ctx context.Context) error {
		if fired, err := s.fired(ctx, s.kept[:1]); fired == 0 {
			return err
		}
		return nil
	}
	asked := 0
	var longest time.Duration
	for range rounds {
		some()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for name, call := range map[string]func(ctx context.Context) error{
			"apply": func(ctx context.Context) error { return d.Apply(ctx, "other", load.Batch(0, 0)) },
			"get": func(ctx context.Context) error {
				_, err := d.Get(ctx, "load", []string{"k"})
				return err
			},
			"query": func(ctx context.Context) error {
				_, _, err := d.Query(ctx, "load", memory.Query{Term: "counter", Limit: 1})
				return err
			},
			"history": func(ctx context.Context) error {
				_, err := d.History(ctx, "load", "k", 0, 1)
				return err
			},
			"logs": func(ctx context.Context) error {
				_, _, err := d.Logs(ctx, "load", "", "", 1)
				return err
			},
			"restore": func(ctx context.Context) error {
				return d.Restore(ctx, "other", []memory.Restored{{Object: memory.Object{Key: "k", Revision: 1}}})
			},
			"a put": put, "a late put": put, "a decision": decide, "a late decision": decide,
		} {
			late := name == "a late put" || name == "a late decision"
			if late {
				if err := resume(); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Fitness(t.Context(), s.kept); err != nil { // it has come back
					t.Fatal(err)
				}
				at.armed.Store(true)
			}
			// The deadline of a late call can pass while the call still reads. The server
			// runs then, and the call is made again, with twice the time, until it reaches
			// its write.
			limit := deadline
			for first := time.Now(); ; limit *= 2 {
				if s.gate, err = gateOf(limit); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				began := time.Now()
				ended := make(chan error, 1)
				go func() { ended <- call(ctx) }()
				select {
				case err := <-ended:
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s gave %v", name, err)
					}
				case <-time.After(guard):
					_ = resume()
					t.Fatalf("%s does not end at its deadline", name)
				}
				cancel()
				asked++
				longest = max(longest, time.Since(began))
				if !late || !at.armed.Load() {
					break
				}
				if time.Since(first) > guard {
					t.Fatalf("%s does not come to its write", name)
				}
			}
		}
		if err := resume(); err != nil {
			t.Fatal(err)
		}
	}
	some()
	close(over)
	all := <-written
	there, err := load.Check(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if lost, _ := Lost(all, time.Now(), there); lost > 0 {
		t.Fatalf("%d of %d acknowledged batches are lost", lost, len(all))
	}
	s.gate = after
	if fired, err := s.fired(t.Context(), s.kept[:1]); fired != 1 {
		t.Fatalf("the gate stays closed: %v", err)
	}
	t.Logf("faults: stopped %d times under load: %d batches acknowledged, none lost; %d calls ended at their deadline of %v, the last after %v", rounds, len(all), asked, deadline, longest.Round(time.Millisecond))
}

// stopping is a driver that stops its server before a batch.
type stopping struct {
	memory.Driver
	stop  func() error
	armed atomic.Bool
}

func (d *stopping) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	if d.armed.CompareAndSwap(true, false) {
		if err := d.stop(); err != nil {
			return err
		}
	}
	return d.Driver.Apply(ctx, tenant, b)
}
