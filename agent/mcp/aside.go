package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
)

// asides are the methods by which a client reads of a server what no tool returns. Their
// results are shown to a model all the same.
var asides = map[string]string{"resources/read": "resource", "prompts/get": "prompt", "completion/complete": "completion"}

// errNotRecorded is what a client is told in the place of what could not be recorded.
var errNotRecorded = fmt.Errorf("%w: what it gives could not be recorded, so it is not shown", ErrUngated)

// aside notes that a client is about to be shown a text; an error keeps it from it.
type aside func(ctx context.Context, req api.Request, source, text string) error

// enters makes the text a row of the run, as what a stranger wrote. If that cannot be done,
// the lineage of the run is unknown.
func enters(run *agent.Run) aside {
	return func(ctx context.Context, _ api.Request, source, text string) error {
		if _, err := run.Input(ctx, agent.Quoted(source, text)); err == nil {
			return nil
		}
		_, err := run.Input(ctx, agent.UnknownText(text))
		return err
	}
}

// readers are the sessions of a server that have read something besides tools. What they
// call from then on is of unknown lineage, since their tokens do not know of it. Clients of
// a transport without sessions are one.
type readers struct {
	mu       sync.Mutex
	sessions map[string]bool
	all      bool // there were too many to tell apart
}

// maxReaders is how many sessions are told apart.
const maxReaders = 1 << 14

func sessionOf(req api.Request) string {
	if s, ok := req.GetSession().(*api.ServerSession); ok && s != nil {
		return s.ID()
	}
	return ""
}

func (r *readers) note(_ context.Context, req api.Request, _, _ string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions == nil {
		r.sessions = map[string]bool{}
	}
	if r.all = r.all || len(r.sessions) >= maxReaders; r.all {
		r.sessions = map[string]bool{}
		return nil
	}
	r.sessions[sessionOf(req)] = true
	return nil
}

// has reports whether the session of a request has read something.
func (r *readers) has(req api.Request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all || r.sessions[sessionOf(req)]
}

// pass lets a request through that calls no tool, and notes what it gives if a model may be
// shown it.
func (a aside) pass(ctx context.Context, method string, req api.Request, next api.MethodHandler) (api.Result, error) {
	kind, told := asides[method]
	res, err := next(ctx, method, req)
	if !told {
		return res, err
	}
	text := ""
	if err != nil {
		text = err.Error()
	} else {
		b, marshalErr := json.Marshal(res)
		if marshalErr != nil {
			return nil, errNotRecorded
		}
		text = string(b)
	}
	if a(ctx, req, "mcp "+kind, text) != nil {
		return nil, errNotRecorded
	}
	return res, err
}
