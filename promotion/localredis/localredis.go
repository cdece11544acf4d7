// Package localredis finds a Redis for the queue: the one that is named, else a
// redis-server on this machine started as a private child, else one inside the
// process. The queue is a cache of what the row store says is due, so none of
// them has to be kept.
package localredis

import (
	"cmp"
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
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/hearsay-go/hearsay/memory/redisstore/redisurl"
)

// Kind says which Redis was found.
type Kind string

// The kinds.
const (
	URL   Kind = "url"   // the one that was named
	Child Kind = "child" // a redis-server of our own, on a unix socket
	// InProcess is inside this process: slower, and gone with it. A pipeline of more
	// than 4 KiB waits for itself, since there is no buffer between the two ends.
	InProcess Kind = "in-process"
)

// Options of [Open]. Every zero field has a usable default.
type Options struct {
	// Kind asks for one kind and no other; "" = the first that can be had.
	Kind Kind
	// Dir holds the child's socket (r.sock) and data. It is made if it is not there;
	// one that others may enter, or that another child uses, is refused. "" = a
	// temporary directory that goes with Close, or, on Linux, when the next child is
	// started after this process was killed.
	Dir    string
	Logger *slog.Logger // nil = none
}

// Sentinel errors of [Open], matched with errors.Is.
var (
	// ErrTooOld: the server is older than the queue's scripts need.
	ErrTooOld = errors.New("localredis: redis is older than 6.2")
	// ErrDir: the directory is open to others, in use, or its path too long for a
	// socket.
	ErrDir = errors.New("localredis: directory cannot be used")
)

// Redis is a client and what stands behind it.
type Redis struct {
	Client redis.UniversalClient
	Kind   Kind

	stop func() error
	once sync.Once
	err  error
}

// Close closes the client and ends what was started for it. Only the first call
// does so; all return its error.
func (r *Redis) Close() error {
	r.once.Do(func() {
		r.err = r.Client.Close()
		if r.stop != nil {
			r.err = errors.Join(r.err, r.stop())
		}
	})
	return r.err
}

// Open finds a Redis. url is what [redisurl.Parse] reads, of one server, of a Cluster
// or of Sentinel, or "" for one of our own: a redis-server in PATH if there is one and it starts, else one inside the
// process, and the log says so. The caller closes it.
func Open(ctx context.Context, url string, o *Options) (*Redis, error) {
	opts := Options{}
	if o != nil {
		opts = *o
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case url != "" && opts.Kind != "" && opts.Kind != URL:
		return nil, fmt.Errorf("localredis: a URL and kind %q exclude each other", opts.Kind)
	case url != "":
		return named(ctx, url)
	}
	switch opts.Kind {
	case URL:
		return nil, errors.New("localredis: kind url needs a URL")
	case InProcess:
		return inProcess(ctx, opts.Logger, "asked for"), nil
	case Child, "":
	default:
		return nil, fmt.Errorf("localredis: no kind %q", opts.Kind)
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		err = errors.New("localredis: no redis-server in PATH")
	} else {
		var r *Redis
		if r, err = child(ctx, path, opts.Dir); err == nil {
			opts.Logger.LogAttrs(ctx, slog.LevelInfo, "queue runs on a private redis-server", slog.String("redis", string(Child)))
			return r, nil
		}
	}
	if opts.Kind == Child || ctx.Err() != nil || errors.Is(err, ErrDir) {
		return nil, err
	}
	return inProcess(ctx, opts.Logger, err.Error()), nil
}

func named(ctx context.Context, url string) (*Redis, error) {
	parsed, err := redisurl.Parse(url)
	if err != nil {
		return nil, fmt.Errorf("localredis: %w", err)
	}
	r := &Redis{Client: redis.NewUniversalClient(parsed), Kind: URL}
	if err := checkVersion(ctx, r.Client); err != nil {
		server := redisurl.Server(parsed)
		if why := redisurl.Why(err, server); why != "" {
			err = &unreached{why, err}
		} else if parsed.Password != "" && strings.Contains(err.Error(), parsed.Password) { // what answers may repeat it
			err = errors.New("localredis: what answers at " + server + " is no redis")
		}
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// unreached is a fault of the way to a server, in words of our own.
type unreached struct {
	why string
	err error
}

func (u *unreached) Error() string { return "localredis: " + u.why }
func (u *unreached) Unwrap() error { return u.err }

// checkVersion refuses a server that the queue's scripts do not run on.
func checkVersion(ctx context.Context, c redis.UniversalClient) error {
	if many, ok := c.(*redis.ClusterClient); ok { // which has no section that all have
		return many.ForEachMaster(ctx, func(ctx context.Context, one *redis.Client) error { return checkVersion(ctx, one) })
	}
	info, err := c.Info(ctx, "server").Result()
	switch {
	case err != nil && (strings.HasPrefix(err.Error(), "NOPERM ") || strings.HasPrefix(err.Error(), "ERR unknown command")):
		return fmt.Errorf("localredis: redis does not let this user ask for its version: let it run INFO: %w", err)
	case err != nil:
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

// Evicts is the maxmemory-policy of a server that may drop keys to save memory, and with them
// tasks of the queue; "" of one that does not (noeviction). Of a Cluster it is that of any of
// its masters. A Redis of our own evicts nothing.
func (r *Redis) Evicts(ctx context.Context) (policy string, err error) {
	if r.Kind != URL {
		return "", nil
	}
	return evicts(ctx, r.Client)
}

func evicts(ctx context.Context, c redis.UniversalClient) (policy string, err error) {
	if many, ok := c.(*redis.ClusterClient); ok {
		var mu sync.Mutex
		err := many.ForEachMaster(ctx, func(ctx context.Context, one *redis.Client) error {
			found, err := evicts(ctx, one)
			mu.Lock()
			defer mu.Unlock()
			policy = cmp.Or(policy, found)
			return err
		})
		return policy, err
	}
	info, err := c.Info(ctx, "memory").Result()
	if err != nil {
		return "", fmt.Errorf("localredis: redis does not say its maxmemory-policy: %w", err)
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); ok {
			if v == "noeviction" {
				v = ""
			}
			return v, nil
		}
	}
	return "", errors.New("localredis: redis does not say its maxmemory-policy")
}

// inProcess runs miniredis without a port: nobody outside the process can reach
// it. Its time to live does not pass by itself.
func inProcess(ctx context.Context, log *slog.Logger, why string) *Redis {
	log.LogAttrs(ctx, slog.LevelWarn, "queue runs inside the process and ends with it", slog.String("redis", string(InProcess)), slog.String("why", why))
	m := miniredis.NewMiniRedis()
	client := redis.NewClient(&redis.Options{
		Addr: "in-process", Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		// To set them up, the client would look up the address in DNS.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		const step = time.Second
		t := time.NewTicker(step)
		defer t.Stop()
		last := time.Now()
		for {
			select {
			case <-done:
				return
			case now := <-t.C: // a tick may be late or dropped
				m.FastForward(now.Sub(last))
				last = now
			}
		}
	}()
	return &Redis{Client: client, Kind: InProcess, stop: func() error {
		close(done)
		<-ended
		m.Close()
		return nil
	}}
}

// How long the child may take to answer, and to end.
const (
	startWithin = time.Minute
	stopWithin  = 5 * time.Second
)

// maxSocketPath is what the path of a socket may have everywhere.
const maxSocketPath = 103

// prepare makes the directory of a child: of mode 0700, and used by nobody else.
// free undoes it.
func prepare(dir string) (at string, free func() error, err error) {
	if dir == "" {
		sweep(os.TempDir())
		at, err = os.MkdirTemp("", temporary) // of mode 0700
		if err != nil {
			return "", nil, fmt.Errorf("localredis: %w", err)
		}
		unlock, err := lock(filepath.Join(at, lockName))
		if err != nil {
			return "", nil, errors.Join(fmt.Errorf("localredis: %w", err), os.RemoveAll(at))
		}
		free = func() error { return errors.Join(os.RemoveAll(at), unlock()) }
	} else {
		at = dir
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", nil, fmt.Errorf("localredis: %w", err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			return "", nil, fmt.Errorf("localredis: %w", err)
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			return "", nil, fmt.Errorf("%w: %s is open to others (mode %#o): chmod 700", ErrDir, dir, mode)
		}
		if free, err = lock(filepath.Join(dir, lockName)); err != nil {
			return "", nil, fmt.Errorf("%w: %s: %w", ErrDir, dir, err)
		}
	}
	if socket := filepath.Join(at, socketName); len(socket) > maxSocketPath {
		return "", nil, errors.Join(fmt.Errorf("%w: the path of a socket has at most %d bytes: %s", ErrDir, maxSocketPath, socket), free())
	}
	return at, free, nil
}

const (
	socketName = "r.sock"
	lockName   = "lock"
	temporary  = "hearsay-redis-" // begins the names of temporary directories
)

// child starts a redis-server that nobody else can reach: no port, a unix socket
// in a directory of mode 0700.
func child(ctx context.Context, path, dir string) (*Redis, error) {
	dir, free, err := prepare(dir)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, socketName)
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--dir", dir, "--daemonize", "no",
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction", "--loglevel", "warning")
	dieWithParent(cmd)
	exited := make(chan struct{})
	start := make(chan error, 1)
	// Pdeathsig is tied to the thread that started the child, so one goroutine
	// keeps its thread until the child is gone.
	go func() {
		unlock := keepThread()
		defer unlock()
		err := cmd.Start()
		start <- err
		if err == nil {
			cmd.Wait()
			close(exited)
		}
	}()
	if err := <-start; err != nil {
		return nil, errors.Join(fmt.Errorf("localredis: redis-server does not start: %w", err), free())
	}
	r := &Redis{Client: redis.NewClient(&redis.Options{Network: "unix", Addr: socket}), Kind: Child}
	r.stop = func() error {
		err := cmd.Process.Signal(os.Interrupt)
		select {
		case <-exited:
		case <-time.After(stopWithin):
			err = cmd.Process.Kill()
			<-exited
		}
		if errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
		return errors.Join(err, free())
	}
	wait, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	// Dialled here and not by the client, which waits longer between two attempts
	// than the child needs to be there.
	for !listens(socket) {
		select {
		case <-exited:
			return nil, errors.Join(fmt.Errorf("localredis: redis-server ended at once: %s", cmd.ProcessState), r.Close())
		case <-wait.Done():
			return nil, errors.Join(fmt.Errorf("localredis: redis-server does not answer: %w", wait.Err()), r.Close())
		case <-time.After(2 * time.Millisecond):
		}
	}
	if err := checkVersion(wait, r.Client); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func listens(socket string) bool {
	c, err := net.Dial("unix", socket)
	return err == nil && c.Close() == nil
}
