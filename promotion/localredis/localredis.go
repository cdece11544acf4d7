// Package localredis finds a Redis for the queue: the one that is named, else a
// redis-server on this machine started as a private child, else one inside the
// process. The queue is a cache of what the row store says is due, so none of
// them has to be kept.
package localredis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Kind says which Redis was found.
type Kind string

// The kinds.
const (
	URL       Kind = "url"        // the one that was named
	Child     Kind = "child"      // a redis-server of our own, on a unix socket
	InProcess Kind = "in-process" // inside this process; slower, and gone with it
)

// Options of [Open]. Every zero field has a usable default.
type Options struct {
	// Kind asks for one kind and no other; "" = the first that can be had.
	Kind Kind
	// Dir holds the child's socket and data; "" = a temporary directory.
	Dir    string
	Logger *slog.Logger // nil = none
}

// ErrTooOld: the server is older than the queue's scripts need.
var ErrTooOld = errors.New("localredis: redis is older than 6.2")

// Redis is a client and what stands behind it.
type Redis struct {
	Client redis.UniversalClient
	Kind   Kind

	stop func() error
	once sync.Once
	err  error
}

// Close closes the client and ends what was started for it.
func (r *Redis) Close() error {
	r.once.Do(func() {
		r.err = r.Client.Close()
		if r.stop != nil {
			r.err = errors.Join(r.err, r.stop())
		}
	})
	return r.err
}

// Open finds a Redis. url is redis://, rediss:// or unix://, or "" for one of our
// own: a redis-server in PATH if there is one, else one inside the process, and
// the log says so.
func Open(ctx context.Context, url string, o *Options) (*Redis, error) {
	opts := Options{}
	if o != nil {
		opts = *o
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if url != "" {
		if opts.Kind != "" && opts.Kind != URL {
			return nil, fmt.Errorf("localredis: a URL and kind %q exclude each other", opts.Kind)
		}
		return named(ctx, url)
	}
	if opts.Kind == URL {
		return nil, errors.New("localredis: kind url needs a URL")
	}
	path, lookErr := exec.LookPath("redis-server")
	if opts.Kind == InProcess || opts.Kind == "" && lookErr != nil {
		opts.Logger.LogAttrs(ctx, slog.LevelWarn, "queue runs inside the process and ends with it", slog.String("redis", string(InProcess)))
		return inProcess()
	}
	if lookErr != nil {
		return nil, errors.New("localredis: no redis-server in PATH")
	}
	r, err := child(ctx, path, opts.Dir)
	if err == nil {
		opts.Logger.LogAttrs(ctx, slog.LevelInfo, "queue runs on a private redis-server", slog.String("redis", string(Child)))
	}
	return r, err
}

func named(ctx context.Context, url string) (*Redis, error) {
	parsed, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("localredis: the Redis URL does not parse") // it may hold a password
	}
	r := &Redis{Client: redis.NewClient(parsed), Kind: URL}
	if err := checkVersion(ctx, r.Client); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// checkVersion refuses a server that the queue's scripts do not run on.
func checkVersion(ctx context.Context, c redis.UniversalClient) error {
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("localredis: redis does not answer: %w", err)
	}
	for line := range strings.Lines(info) {
		v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:")
		if !ok {
			continue
		}
		parts := strings.SplitN(v, ".", 3)
		if len(parts) < 2 {
			break
		}
		major, err1 := strconv.Atoi(parts[0])
		minor, err2 := strconv.Atoi(parts[1])
		if err1 != nil || err2 != nil {
			break
		}
		if major < 6 || major == 6 && minor < 2 {
			return fmt.Errorf("%w: it is %s", ErrTooOld, v)
		}
		return nil
	}
	return errors.New("localredis: redis does not say its version")
}

// inProcess runs miniredis without a port. Its clock does not move by itself.
func inProcess() (*Redis, error) {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		return nil, fmt.Errorf("localredis: in process: %w", err)
	}
	client := redis.NewClient(&redis.Options{Addr: "in-process", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return m.Dial() }})
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		const step = time.Second
		t := time.NewTicker(step)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
				m.FastForward(step)
			}
		}
	}()
	return &Redis{Client: client, Kind: InProcess, stop: func() error {
		close(done)
		<-ended
		m.Close()
		return nil
	}}, nil
}

// startWithin bounds how long the child may take to answer.
const startWithin = 10 * time.Second

// child starts a redis-server that nobody else can reach: no port, a unix socket
// in a directory of mode 0700.
func child(ctx context.Context, path, dir string) (*Redis, error) {
	made := ""
	if dir == "" {
		d, err := os.MkdirTemp("", "hearsay-redis-")
		if err != nil {
			return nil, fmt.Errorf("localredis: %w", err)
		}
		dir, made = d, d
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("localredis: %w", err)
	}
	socket := filepath.Join(dir, "r.sock")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--dir", dir, "--daemonize", "no",
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction", "--loglevel", "warning")
	dieWithParent(cmd)
	exited := make(chan error, 1)
	start := make(chan error, 1)
	// Pdeathsig is tied to the thread that started the child, so one goroutine
	// keeps its thread until the child is gone.
	go func() {
		unlock := keepThread()
		defer unlock()
		err := cmd.Start()
		start <- err
		if err == nil {
			exited <- cmd.Wait()
		}
	}()
	if err := <-start; err != nil {
		return nil, fmt.Errorf("localredis: redis-server does not start: %w", err)
	}
	r := &Redis{Client: redis.NewClient(&redis.Options{Network: "unix", Addr: socket}), Kind: Child}
	r.stop = func() error {
		killErr := cmd.Process.Signal(os.Interrupt)
		select {
		case <-exited:
		case <-time.After(5 * time.Second):
			killErr = cmd.Process.Kill()
			<-exited
		}
		if errors.Is(killErr, os.ErrProcessDone) {
			killErr = nil
		}
		if made != "" {
			return errors.Join(killErr, os.RemoveAll(made))
		}
		return killErr
	}
	wait, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		if err := r.Client.Ping(wait).Err(); err == nil {
			if err := checkVersion(ctx, r.Client); err != nil {
				return nil, errors.Join(err, r.Close())
			}
			return r, nil
		}
		select {
		case err := <-exited:
			exited <- err
			return nil, errors.Join(errors.New("localredis: redis-server ended at once"), r.Close())
		case <-wait.Done():
			return nil, errors.Join(errors.New("localredis: redis-server does not answer"), r.Close())
		case <-time.After(2 * time.Millisecond):
		}
	}
}
