package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/redisstore/redisurl"
	"github.com/redis/go-redis/v9"
)

// Errors of [Open] and [New], besides those of package memory.
var (
	// ErrURL: the URL or the options name no server. The URL is never in the text,
	// since it may hold a password.
	ErrURL = redisurl.ErrURL
	// ErrServer: the server cannot hold a store: it is older than 6.2, is not what
	// the URL says, or does not let the user run scripts.
	ErrServer = errors.New("redisstore: the server cannot hold a store")
	// ErrMissing: there is no store under the prefix, and none was to be made.
	ErrMissing = errors.New("redisstore: no store")
)

// UnsafeError says why [Open] with Options.Strict did not open a store. It wraps
// [memory.ErrStore].
type UnsafeError struct {
	Findings []memory.Finding // the unsafe ones, at least one
}

func (e *UnsafeError) Error() string {
	var list []string
	for _, f := range e.Findings {
		list = append(list, fmt.Sprintf("%s is %s (%s)", f.Name, f.Found, f.Loss))
	}
	return "the server is not safe: " + strings.Join(list, "; ")
}

// Unwrap returns [memory.ErrStore].
func (e *UnsafeError) Unwrap() error { return memory.ErrStore }

// refusal is why a new connection is not used. The client puts its own words around
// it.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// oom is the code of a server that has no memory left for what it was asked.
const oom = "OOM"

// faults are the codes that replies of Redis begin with, and what they mean.
var faults = []struct{ code, words string }{
	{oom, "the server is out of memory, and nothing was written"},
	{"READONLY", "the server is a replica, and nothing was written"},
	{"MISCONF", "the server cannot write to its disk, and nothing was written"},
	{"NOREPLICAS", "the server has too few replicas, and nothing was written"},
	{"LOADING", "the server is still loading its data"},
	{"MASTERDOWN", "the server is a replica without a master"},
	{"CLUSTERDOWN", "the cluster is down"},
	{"TRYAGAIN", "the keys of the tenant are moving to another server"},
	{"MOVED", "the keys of the tenant have moved to another server"},
	{"CROSSSLOT", "the server does not keep the keys of a tenant together"},
	{"BUSY", "the server is busy with a script"},
	{"NOPERM", "the user may not do this"},
	{"WRONGTYPE", "a key of the store holds what is not of the store"},
}

// code is the code of an error reply, "" of any other error. A script of Redis 6.2
// that was refused a command has the code of that further back in its reply.
func code(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	text := reply.Error()
	first, _, _ := strings.Cut(text, " ")
	for _, f := range faults {
		if first == f.code || first == "ERR" && strings.Contains(text, "-"+f.code+" ") {
			return f.code
		}
	}
	return first
}

// edge translates an error on its way out. What is a sentinel or a context error
// stays what it is; the text of the server or the client ends here. at names the server.
func edge(ctx context.Context, op, at string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrURL) || errors.Is(err, ErrServer) || errors.Is(err, ErrMissing) {
		return bare(err) // these say whose they are
	}
	for _, sentinel := range []error{
		memory.ErrConflict, memory.ErrClosed, memory.ErrTooLarge, memory.ErrInvalidBatch, memory.ErrForeign, memory.ErrSchema,
		memory.ErrStore,
	} {
		if errors.Is(err, sentinel) {
			return fmt.Errorf("redisstore: %s: %w", op, bare(err))
		}
	}
	// The connection notices a deadline by its own clock, now and then before the context does.
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return fmt.Errorf("redisstore: %s: %w", op, context.DeadlineExceeded)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("redisstore: %s: %w", op, ctx.Err())
	}
	if code(err) == oom {
		return fmt.Errorf("redisstore: %s: %w: %s", op, memory.ErrFull, words(err, at))
	}
	return fmt.Errorf("redisstore: %s: %w: %s", op, memory.ErrStore, words(err, at))
}

// bare is an error of ours without what the client put around it.
func bare(err error) error {
	var conflict *memory.ConflictError
	if errors.As(err, &conflict) {
		return conflict
	}
	var r refusal
	if errors.As(err, &r) {
		return r.error
	}
	return err
}

// words says what happened. server is where the client was sent to.
func words(err error, server string) string {
	if why := redisurl.Why(err, server); why != "" {
		return why
	}
	at := code(err)
	for _, f := range faults {
		if f.code == at {
			return f.words
		}
	}
	switch {
	case at != "":
		return "the server reported a fault"
	case errors.Is(err, redis.ErrPoolTimeout):
		return "all connections are in use"
	}
	return "what answers at " + server + " does not speak as Redis does; if it wants TLS, say rediss://"
}
