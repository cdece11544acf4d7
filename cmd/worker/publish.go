package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/roster"
)

// publishEvery is how often a worker says through the store how its verifiers are, if
// nothing else is asked for. What it
// says ends after three times that, so that nobody goes by a worker that has died.
const publishEvery = 10 * time.Second

// publishing says how the verifiers of a process are, for one namespace.
type publishing struct {
	store   *memory.Store
	name    string // of the process
	entries []roster.Entry
	guards  []watched
	every   time.Duration
	log     *slog.Logger
}

// processName tells processes of one host apart.
func processName(host string) string {
	var b [6]byte
	rand.Read(b[:])
	return "worker:" + host + ":" + hex.EncodeToString(b[:])
}

// serve says it until ctx ends, and then takes it back.
func (p *publishing) serve(ctx context.Context) {
	t := time.NewTicker(p.every)
	defer t.Stop()
	for {
		if err := p.say(ctx, min(3*p.every, memory.MaxLease)); err != nil && ctx.Err() == nil {
			p.log.Warn("agents are not told which verifiers are down", "err", err)
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			if err := p.say(last, 0); err != nil {
				p.log.Debug("what was said of verifiers ends by itself", "err", err)
			}
			return
		case <-t.C:
		}
	}
}

func (p *publishing) say(ctx context.Context, lease time.Duration) error {
	up := map[string]bool{}
	for _, g := range p.guards {
		up[g.Name()] = g.State() == verifier.StateClosed
	}
	var states []memory.VerifierState
	for _, e := range p.entries {
		if len(states) == memory.MaxVerifiers {
			break
		}
		answering := 0
		for _, name := range e.Asks {
			if up[name] {
				answering++
			}
		}
		states = append(states, memory.VerifierState{Name: e.Name, Predicates: e.Predicates, Down: answering < e.Need, Advisory: e.Need == 0})
	}
	if len(states) == 0 {
		return nil
	}
	return p.store.PublishVerifiers(ctx, p.name, lease, states)
}
