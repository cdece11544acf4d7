package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/redis/go-redis/v9"
)

// Incarnation grows when the driver comes to talk to another server process than
// before, in whatever place: the server was restarted, or another took over. It
// does so on the first connection that is made there, before anything is answered
// from there; a server that says that it is no master any more makes it grow too.
// In a Cluster it also grows when keys move between masters. What it cannot see is
// a master that was cut off and does not know it yet.
func (d *Driver) Incarnation() uint64 { return d.incarnation.Load() }

// greet looks at the server at the other end of each new connection. place is where
// a server is expected: in a Cluster its address, else "" for the one master.
func (d *Driver) greet(place string, theirs func(context.Context, *redis.Conn) error) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, c *redis.Conn) error {
		about, err := serverInfo(ctx, c)
		if err != nil {
			return err
		}
		if about["redis_mode"] == "sentinel" {
			if d.mode != sentinel {
				return refusal{fmt.Errorf("%w: it is a Sentinel: say master=NAME", ErrServer)}
			}
			return nil // the client asks it for the master
		}
		if err := d.suits(about); err != nil {
			return refusal{err}
		}
		d.met(place, about["run_id"]+" "+about["master_replid"])
		if theirs != nil {
			return theirs(ctx, c)
		}
		return nil
	}
}

// serverInfo asks a server who it is, in one round trip.
func serverInfo(ctx context.Context, c *redis.Conn) (map[string]string, error) {
	replies, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Info(ctx, "server")
		p.Info(ctx, "replication")
		return nil
	})
	if code(err) == "NOPERM" || code(err) == "ERR" {
		return nil, refusal{fmt.Errorf("%w: it does not let this user run INFO", ErrServer)}
	}
	if err != nil {
		return nil, err
	}
	about := map[string]string{}
	for _, r := range replies {
		parseInfo(about, r.(*redis.StringCmd).Val())
	}
	return about, nil
}

func parseInfo(into map[string]string, text string) {
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			into[name] = value
		}
	}
}

// suits says why a server cannot hold the store, or not now.
func (d *Driver) suits(about map[string]string) error {
	version := about["redis_version"]
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, err1 := strconv.Atoi(major)
	y, err2 := strconv.Atoi(minor)
	inCluster := about["redis_mode"] == "cluster"
	switch {
	case err1 != nil || err2 != nil:
		return fmt.Errorf("%w: it does not say its version", ErrServer)
	case x < 6 || x == 6 && y < 2:
		return fmt.Errorf("%w: it is older than 6.2", ErrServer)
	case inCluster && d.mode != cluster:
		return fmt.Errorf("%w: it is a node of a cluster: say cluster=true", ErrServer)
	case !inCluster && d.mode == cluster:
		return fmt.Errorf("%w: it is no node of a cluster", ErrServer)
	case about["role"] != "master":
		return fmt.Errorf("%w: the server is a replica", memory.ErrStore)
	}
	return nil
}

// met notes who answers at a place.
func (d *Driver) met(place, server string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open && d.seen[place] != server {
		d.incarnation.Add(1)
	}
	d.seen[place] = server
}

// watch listens for a server that says that it is not, or not any more, the one to
// ask.
type watch struct{ d *Driver }

// DialHook changes nothing: only replies tell which server answers.
func (watch) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook looks at the error of each command.
func (w watch) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil {
			w.heard(err)
		}
		return err
	}
}

// ProcessPipelineHook looks at the first error of a pipeline.
func (w watch) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if err != nil {
			w.heard(err)
		}
		return err
	}
}

func (w watch) heard(err error) {
	if errors.Is(err, redis.Nil) { // what was asked for is not there
		return
	}
	switch code(err) {
	case "READONLY", "MOVED", "MASTERDOWN":
		w.d.incarnation.Add(1)
	case "": // no reply
		// The client would ask for the masters anew only now and then, and until then
		// go on dialling one that is gone.
		if c, ok := w.d.client.(*redis.ClusterClient); ok && !errors.Is(err, context.Canceled) {
			c.ReloadState(context.Background())
		}
	}
}
