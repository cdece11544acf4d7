// Command worker is the daemon that checks the rows of a memory: by schedule,
// when they are read, and when somebody waits for them. It moves their state by
// evidence and by nothing else; run it with --help for its flags.
//
// Exit codes: 0 after a clean drain, 1 failed, 2 wrong or half a configuration.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/audit/witnesshttp"
	"github.com/hearsay-go/hearsay/memory/coalesce"
	"github.com/hearsay-go/hearsay/memory/storeurl"
	"github.com/hearsay-go/hearsay/memory/visible"
)

const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program: it works until ctx ends, and returns the exit code.
func run(ctx context.Context, args []string, getenv func(string) string, out, talk io.Writer) int {
	c, err := parse(args, getenv, out)
	var wrong *usageError
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case errors.Is(err, errVersion):
		fmt.Fprintf(out, "worker %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return exitDone
	case errors.As(err, &wrong):
		for _, p := range wrong.problems {
			fmt.Fprintf(talk, "worker: %s\n", visible.Text(p))
		}
		fmt.Fprintln(talk, "worker --help shows the flags")
		return exitUsage
	case err != nil:
		fmt.Fprintf(talk, "worker: %s\n", visible.Text(err.Error()))
		return exitFailed
	}
	log := logger(c, talk)
	if err := work(ctx, c, getenv, out, log); err != nil {
		log.Error("the worker stops", "err", err)
		return exitFailed
	}
	log.Info("drained")
	return exitDone
}

func logger(c *config, talk io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.logLevel}
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(visible.JSONWriter(talk), o))
	}
	return slog.New(slog.NewTextHandler(talk, o))
}

// countEvery is the least time between two counts of the rows for /metrics.
const countEvery = 15 * time.Second

// work opens what the configuration names, and works until ctx ends or something
// fails for good. It returns nil after a clean drain.
func work(ctx context.Context, c *config, getenv func(string) string, out io.Writer, log *slog.Logger) (err error) {
	var witness *audit.Witness
	if c.witness != "" {
		if witness, err = witnesshttp.Open(ctx, c.witness, getenv); errors.Is(err, fs.ErrNotExist) && !witnesshttp.IsURL(c.witness) {
			return fmt.Errorf("%w; bring it back, or make one that has seen nothing with hearsay witness create", err)
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, witness.Close()) }()
	}
	stores, driver, err := open(ctx, c, witness, log)
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()): // it was stopped while it waited for the store
		return nil
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, driver.Close()) }()

	tracer, lastSpans, err := newTracer(ctx, c.trace, out, log)
	if err != nil {
		return err
	}
	defer func() { lastSpans(context.WithoutCancel(ctx)) }()
	m := newMeters()
	e, err := newEngine(ctx, c, stores, witness, tracer, m, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()

	var listener net.Listener
	if c.http != "" {
		if listener, err = net.Listen("tcp", c.http); err != nil {
			return err
		}
		if c.insecureBind {
			log.Warn("others may reach the HTTP server, which asks for no login", "addr", listener.Addr().String())
		}
		log.Info("listening", "addr", listener.Addr().String(), "paths", "/healthz /readyz /metrics")
	}
	for _, s := range e.spaces {
		log.Info("serving", "tenant", s.store.Tenant(), "namespace", s.namespace, "weight", s.weight)
	}
	log.Info("working", "store", storeurl.Redacted(c.store), "queue", e.kind, "deployment", e.deployment, "verifiers", c.roster.Names(), "version", version())
	if c.keyring == "" {
		log.Warn("the keyring is beside the store: a copy of the folder holds both, and an erasure does not reach it; -keyring")
	}
	if len(e.verifiers) == 0 {
		log.Warn("no verifier is configured: only people can verify rows")
	}

	// The HTTP server and the counter outlive the drain, so that it can be watched.
	watch, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	serving, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var side sync.WaitGroup
	defer side.Wait()
	defer stopWatching()
	for _, s := range e.spaces {
		side.Go(func() { s.tally.count(watch, s.store, countEvery) })
	}
	if listener != nil {
		side.Go(func() {
			if err := serve(watch, listener, handler(m, e.ready, c.httpHosts...), log); err != nil {
				cancel(fmt.Errorf("the HTTP server ended: %w", err))
			}
		})
	}
	signed := make(chan struct{})
	side.Go(func() {
		defer close(signed)
		e.sign(serving, cancel)
	})
	err = e.serve(serving)
	if cause := context.Cause(serving); err == nil && ctx.Err() == nil && cause != nil {
		err = cause
	}
	cancel(nil)
	<-signed
	return errors.Join(err, e.signLast(context.WithoutCancel(ctx)))
}

// withKeys is a driver, and the keys of the stores over it: what they hold open, such as
// connections to a server, is given up with it.
type withKeys struct {
	memory.Driver
	keys memory.Keys
}

// Close closes both.
func (d withKeys) Close() error {
	err := d.Driver.Close()
	if keys, ok := d.keys.(io.Closer); ok {
		err = errors.Join(err, keys.Close())
	}
	return err
}

// open opens the stores of c.shares over one driver, which the caller closes. The
// calls of checks that run at once are joined, whatever namespace they are of.
func open(ctx context.Context, c *config, witness *audit.Witness, log *slog.Logger) (stores []*memory.Store, d memory.Driver, err error) {
	options := &storeurl.Options{Keyring: c.keyring, AuditKeys: c.auditKeys, Wrapping: c.wrapping, Strict: c.strict, Options: memory.Options{Tenant: c.tenant},
		Waiting: func(waited time.Duration) {
			log.Warn("waiting for the store: it does not answer, or another process has locked it", "store", storeurl.Redacted(c.store), "for", waited.Round(time.Second))
		}}
	names := make([]string, len(c.shares))
	for i, s := range c.shares {
		names[i] = s.namespace
	}
	below, keys, err := storeurl.Parts(ctx, c.store, options, names...)
	if err != nil {
		return nil, nil, err
	}
	d = withKeys{coalesce.New(below), keys}
	for _, s := range c.shares {
		scope := memory.Options{Tenant: c.tenant, Namespace: s.namespace, Predicates: c.predicates}
		if witness != nil {
			scope.Witness = witness.Ledger(c.tenant, s.namespace)
		}
		store, err := memory.New(d, keys, &scope)
		if err == nil {
			err = attend(ctx, store, c.strict)
		}
		if err == nil && c.strict {
			if err = store.CheckWrites(ctx); err != nil {
				err = fmt.Errorf("-strict: the store takes no writes: %w", err)
			}
		}
		if err != nil {
			return nil, nil, errors.Join(err, d.Close())
		}
		stores = append(stores, store)
	}
	if err := apart(keys, c.strict); err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return stores, d, nil
}

// apart refuses, for a strict worker, keys that doctor would not call safe: beside the
// store, open to others, or not whole. That an audit key is old loses nothing.
func apart(keys memory.Keys, strict bool) error {
	ring, ok := keys.(interface{ Findings() []memory.Finding })
	if !strict || !ok {
		return nil
	}
	for _, f := range ring.Findings() {
		if !f.Safe && f.Name != "keys.audit" {
			return fmt.Errorf("-strict: %s: %s; %s; to mend it: %s", f.Name, f.Found, f.Loss, f.Fix)
		}
	}
	return nil
}

// attend makes sure that the witness of a store is at hand. A strict worker does not go
// on without one either if it was given up.
func attend(ctx context.Context, s *memory.Store, strict bool) error {
	if err := s.Attend(ctx); err != nil {
		return err
	}
	w, err := s.Witnessing(ctx)
	if err != nil {
		return err
	}
	if strict && w.GivenUp {
		return errors.New("-strict: the store has had a witness, which was given up; make a new one with hearsay witness create, and name it by -witness")
	}
	return nil
}
