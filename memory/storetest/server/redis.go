// Package server starts servers for tests and measurements: each in a folder of its
// own, on a port that nobody else uses, and gone when it is stopped.
package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// RedisOptions of [Redis]. Every zero field has a usable default.
type RedisOptions struct {
	// Settings are lines of the server's configuration, "appendfsync everysec", on
	// top of: appendonly yes, appendfsync always, no snapshots, and a clock of 100 Hz,
	// which sees ten times as soon that a rewrite is done.
	Settings []string
	// Password is what the server asks for; "" = none.
	Password string
	// Sentinel starts a Sentinel instead. It watches what a call of [RedisServer.Do]
	// tells it to.
	Sentinel bool
	// Cluster starts a node of a Cluster; [RedisCluster] makes one of several.
	Cluster bool
}

// RedisServer is a private redis-server. Its methods may be called by one goroutine
// at a time.
type RedisServer struct {
	Addr string // host:port, on the loopback
	Dir  string // its files

	options RedisOptions
	port    port
	config  string
	process *os.Process
	exited  chan struct{} // closed when the process is gone
}

// How long a server may take to start, a group to agree, and a server to end.
const redisPatience = time.Minute

// unmissed is how long a group waits for a server that does not answer, in ms. A machine
// under load is no reason to fail over; [RedisGroup.FailOver] does it at once.
const unmissed = "60000"

// Redis starts a redis-server from the PATH, in a temporary folder. The caller ends
// with Stop, which removes the folder. An error that wraps [exec.ErrNotFound] means
// that no Redis is installed.
func Redis(ctx context.Context, o RedisOptions) (*RedisServer, error) {
	dir, err := os.MkdirTemp("", "hearsay-redis-")
	if err != nil {
		return nil, err
	}
	s := &RedisServer{Dir: dir, options: o}
	for range 5 { // somebody else may take the port first
		if err = s.configure(); err == nil {
			err = s.Start(ctx)
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, exec.ErrNotFound) {
			break
		}
	}
	if err != nil {
		s.port.free()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// configure takes a port and writes the configuration.
func (s *RedisServer) configure() (err error) {
	s.port.free()
	if s.port, err = takePort(s.options.Cluster); err != nil {
		return err
	}
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port.number))
	lines := []string{
		"port " + strconv.Itoa(s.port.number), "bind 127.0.0.1", "dir " + s.Dir, "daemonize no", "loglevel warning", "logfile " + filepath.Join(s.Dir, "log"),
	}
	if s.options.Password != "" {
		lines = append(lines, "requirepass "+s.options.Password)
	}
	if !s.options.Sentinel {
		lines = append(lines, "appendonly yes", "appendfsync always", `save ""`, "hz 100", "repl-diskless-sync-delay 0", "repl-ping-replica-period 1")
	}
	if s.options.Cluster {
		lines = append(lines, "cluster-enabled yes", "cluster-node-timeout "+unmissed, "cluster-replica-validity-factor 0")
	}
	lines = append(lines, s.options.Settings...)
	s.config = filepath.Join(s.Dir, "redis.conf")
	return os.WriteFile(s.config, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// Start starts the server again after [RedisServer.Kill9] or
// [RedisServer.Shutdown], with its files and its port, and waits until it answers.
func (s *RedisServer) Start(ctx context.Context) error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	args := []string{s.config}
	if s.options.Sentinel {
		args = append(args, "--sentinel")
	}
	cmd := exec.Command(path, args...)
	hold := redisChild(cmd)
	exited, started := make(chan struct{}), make(chan error, 1)
	go func() {
		hold()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed, as often as not
			close(exited)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.process, s.exited = cmd.Process, exited
	err = wait(ctx, func() error {
		select {
		case <-exited:
			return errEnded
		default:
		}
		return s.answers(ctx)
	})
	if err != nil {
		s.Kill9()
		return fmt.Errorf("server: redis-server does not start: %w", err)
	}
	return nil
}

// answers reports an error unless this server answers, and no other one on its port.
func (s *RedisServer) answers(ctx context.Context) error {
	if _, err := s.Do(ctx, "PING"); err != nil {
		return err
	}
	info, err := s.Do(ctx, "INFO", "server")
	if err == nil && !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.process.Pid)) {
		return errOther
	}
	return err
}

var (
	errEnded = errors.New("it ended")
	errOther = errors.New("another server answers on its port")
)

// wait asks until there is no error, or the patience or the context is over.
func wait(ctx context.Context, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	for {
		err := ask()
		if err == nil || errors.Is(err, errEnded) || errors.Is(err, errOther) {
			return err
		}
		timer := time.NewTimer(5 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(err, ctx.Err())
		case <-timer.C:
		}
	}
}

// URL names the server, with the password.
func (s *RedisServer) URL() string {
	if s.options.Password != "" {
		return "redis://:" + s.options.Password + "@" + s.Addr
	}
	return "redis://" + s.Addr
}

// Kill9 kills the process outright and waits until it is gone.
func (s *RedisServer) Kill9() {
	_ = s.process.Kill() // it may be gone already
	<-s.exited
}

// Shutdown ends the process as an operator would, and keeps the files.
func (s *RedisServer) Shutdown() {
	_ = s.process.Signal(os.Interrupt) // it may be gone already
	timer := time.NewTimer(redisPatience)
	defer timer.Stop()
	select {
	case <-s.exited:
	case <-timer.C:
		s.Kill9()
	}
}

// Restart is Shutdown and Start.
func (s *RedisServer) Restart(ctx context.Context) error {
	s.Shutdown()
	return s.Start(ctx)
}

// Stop kills the process and removes the files. A child that the process had begun,
// to write a file anew, may go on for a moment.
func (s *RedisServer) Stop() error {
	s.Kill9()
	defer s.port.free()
	for end := time.Now().Add(redisPatience); ; time.Sleep(5 * time.Millisecond) {
		if err := os.RemoveAll(s.Dir); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// Do runs one command on a connection of its own and returns the reply: a text or a
// number as they are, a list as its parts in lines. An error reply is an error.
func (s *RedisServer) Do(ctx context.Context, args ...string) (string, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	replies := bufio.NewReader(c)
	if s.options.Password != "" {
		if _, err := c.Write(command("AUTH", s.options.Password)); err != nil {
			return "", err
		}
		if _, err := reply(replies); err != nil {
			return "", err
		}
	}
	if _, err := c.Write(command(args...)); err != nil {
		return "", err
	}
	return reply(replies)
}

func command(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

func reply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimSpace(line[1:])
	switch kind {
	case '+', ':':
		return text, nil
	case '-':
		return "", errors.New(text)
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return "", fmt.Errorf("server: a reply begins with %q", line)
	case n < 0:
		return "", nil
	case kind == '$':
		b := make([]byte, n+2)
		_, err := io.ReadFull(r, b)
		return string(b[:n]), err
	}
	var parts []string
	for range n {
		part, err := reply(r)
		if err != nil {
			return "", err
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "\n"), nil
}

// RedisGroup is several servers that belong together.
type RedisGroup struct {
	// Servers are the masters, then the replicas: the replica i of m masters is that
	// of master i modulo m.
	Servers []*RedisServer
	// Sentinels watch the one master, "mymaster"; none in a Cluster.
	Sentinels []*RedisServer

	masters int
}

// URL names the group as memory/redisstore wants it.
func (g *RedisGroup) URL() string {
	list, parameter := g.Sentinels, "master=mymaster"
	if len(list) == 0 {
		list, parameter = g.Servers, "cluster=true"
	}
	var addrs []string
	for _, s := range list {
		addrs = append(addrs, s.Addr)
	}
	return "redis://" + strings.Join(addrs, ",") + "/?" + parameter
}

// FailOver kills master i outright, and has its replica become the master. It returns
// before the replica is the master.
func (g *RedisGroup) FailOver(ctx context.Context, i int) error {
	g.Servers[i].Kill9()
	to, order := g.Servers[g.masters+i], []string{"CLUSTER", "FAILOVER", "TAKEOVER"}
	if len(g.Sentinels) > 0 {
		to, order = g.Sentinels[0], []string{"SENTINEL", "FAILOVER", "mymaster"}
	}
	return wait(ctx, func() error { // a Sentinel refuses while it has not heard from the replica lately
		_, err := to.Do(ctx, order...)
		return err
	})
}

// Stop stops all of them.
func (g *RedisGroup) Stop() error {
	var errs []error
	for _, s := range append(g.Sentinels, g.Servers...) {
		errs = append(errs, s.Stop())
	}
	return errors.Join(errs...)
}

// start adds servers to the group, all at once.
func (g *RedisGroup) start(ctx context.Context, n int, o RedisOptions) ([]*RedisServer, error) {
	servers, errs := make([]*RedisServer, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { servers[i], errs[i] = Redis(ctx, o) })
	}
	all.Wait()
	for _, s := range servers {
		switch {
		case s == nil:
		case o.Sentinel:
			g.Sentinels = append(g.Sentinels, s)
		default:
			g.Servers = append(g.Servers, s)
		}
	}
	return servers, errors.Join(errs...)
}

const redisSlots = 16384

// RedisCluster starts a Cluster of masters, each with so many replicas, and waits
// until all of them agree on it. Masters are at least 3.
func RedisCluster(ctx context.Context, masters, replicas int, o RedisOptions) (*RedisGroup, error) {
	o.Cluster = true
	g := &RedisGroup{masters: masters}
	_, err := g.start(ctx, masters*(1+replicas), o)
	if err == nil {
		err = g.form(ctx, masters)
	}
	if err != nil {
		return nil, errors.Join(err, g.Stop())
	}
	return g, nil
}

func (g *RedisGroup) form(ctx context.Context, masters int) error {
	ids := make([]string, len(g.Servers))
	for i, s := range g.Servers {
		if i < masters {
			slots := []string{"CLUSTER", "ADDSLOTS"}
			for slot := i * redisSlots / masters; slot < (i+1)*redisSlots/masters; slot++ {
				slots = append(slots, strconv.Itoa(slot))
			}
			if _, err := s.Do(ctx, slots...); err != nil {
				return err
			}
		}
		if _, err := s.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		var err error
		if ids[i], err = s.Do(ctx, "CLUSTER", "MYID"); err != nil {
			return err
		}
		host, port, _ := net.SplitHostPort(s.Addr)
		for _, other := range g.Servers[:max(i, 1)] { // gossip alone would take its time
			if _, err := other.Do(ctx, "CLUSTER", "MEET", host, port); err != nil {
				return err
			}
		}
	}
	all := func(want func(nodes string) error) error {
		return wait(ctx, func() error {
			for _, s := range g.Servers {
				nodes, err := s.Do(ctx, "CLUSTER", "NODES")
				if err != nil {
					return err
				}
				if err := want(nodes); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := all(func(nodes string) error {
		if known := strings.Count(nodes, " connected"); known != len(g.Servers) || strings.Contains(nodes, "handshake") {
			return fmt.Errorf("server: a node knows %d of %d nodes", known, len(g.Servers))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, s := range g.Servers[masters:] {
		if _, err := s.Do(ctx, "CLUSTER", "REPLICATE", ids[i%masters]); err != nil {
			return err
		}
	}
	err = all(func(nodes string) error {
		if n := strings.Count(nodes, "slave "); n != len(g.Servers)-masters {
			return fmt.Errorf("server: a node knows %d of %d replicas", n, len(g.Servers)-masters)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return wait(ctx, func() error {
		for i, s := range g.Servers {
			state, err := s.Do(ctx, "CLUSTER", "INFO")
			if err != nil {
				return err
			}
			if !strings.Contains(state, "cluster_state:ok") || !strings.Contains(state, "cluster_slots_ok:16384") {
				return errors.New("server: a node is not ready")
			}
			if i < masters {
				continue
			}
			if link, err := s.Do(ctx, "INFO", "replication"); err != nil || !strings.Contains(link, "master_link_status:up") {
				return errors.Join(err, errors.New("server: a replica has no copy yet"))
			}
		}
		return nil
	})
}

// RedisSentinel starts a master with so many replicas, and one Sentinel that watches
// it under the name "mymaster".
func RedisSentinel(ctx context.Context, replicas int, o RedisOptions) (*RedisGroup, error) {
	g := &RedisGroup{masters: 1}
	err := g.watch(ctx, replicas, o)
	if err != nil {
		return nil, errors.Join(err, g.Stop())
	}
	return g, nil
}

func (g *RedisGroup) watch(ctx context.Context, replicas int, o RedisOptions) error {
	servers, err := g.start(ctx, 1+replicas, o)
	if err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(servers[0].Addr)
	for _, s := range servers[1:] {
		if _, err := s.Do(ctx, "REPLICAOF", host, port); err != nil {
			return err
		}
	}
	for _, s := range servers[1:] {
		err := wait(ctx, func() error {
			link, err := s.Do(ctx, "INFO", "replication")
			if err == nil && !strings.Contains(link, "master_link_status:up") {
				err = errors.New("server: a replica has no copy yet")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	sentinels, err := g.start(ctx, 1, RedisOptions{Sentinel: true})
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"SENTINEL", "MONITOR", "mymaster", host, port, "1"},
		{"SENTINEL", "SET", "mymaster", "down-after-milliseconds", unmissed, "failover-timeout", unmissed},
	} {
		if _, err := sentinels[0].Do(ctx, args...); err != nil {
			return err
		}
	}
	return wait(ctx, func() error {
		known, err := sentinels[0].Do(ctx, "SENTINEL", "REPLICAS", "mymaster")
		if err == nil && strings.Count(known, "runid") != replicas {
			err = errors.New("server: the Sentinel does not know all replicas yet")
		}
		return err
	})
}
