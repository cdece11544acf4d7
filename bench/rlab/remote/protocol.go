// Package remote lets systems that are no Go code play the bench: over HTTP with JSON
// ([HTTP]) or over MCP ([MCP]). [Server] is the other side: it serves a system of this module
// both ways.
//
// There are seven operations. Over HTTP each is a POST of a JSON object to URL/NAME, answered
// with status 200 and a JSON object. Over MCP each is a tool of that name with the same object
// as its arguments; the answer is the structured content, or else the text, of its result.
//
//	open    {"memory","now","speed","budget","record"}  {"gate","settles"}
//	recall  {"memory","turn","query"}                   {"memories"}
//	write   {"memory","turn","statement"}               {"id"}
//	look    {"memory","now","ids"}                      {"memories"}
//	decide  {"memory","turn","action"}                  {"allowed","held","told"}
//	settle  {"memory","now"}                            {}
//	close   {"memory"}                                  {}
//
// The objects are those of [rlab.System] under the names of their JSON tags. memory names an
// empty memory that open makes and close drops; the bench chooses it, and has several open at
// once. now is the simulated time. speed is how much faster than real time it runs by itself
// ([rlab.Env]), 0 if it stands still between two turns. budget is how many questions record may
// be asked in a simulated minute, 0 if as many as the system likes. gate says whether decide is
// to be asked ([rlab.Decider]), settles whether settle is ([rlab.Settler]).
//
// record is a URL of the system of record ([rlab.Record]) on a loopback address of the bench:
// GET record?subject=S&predicate=P answers {"value","found"}. It ends with the memory.
//
// Another status than 200, or an MCP result that is an error, is an error of the system
// itself. No connection is [rlab.ErrNoAnswer]. An answer that is not JSON, has more than 4
// MiB, or lacks a member is [rlab.ErrNonsense]; settles, held, told and the state of a memory may be
// left out. Other members are ignored.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/bench/rlab"
)

// maxAnswer bounds a request and an answer, in bytes.
const maxAnswer = 4 << 20

// The operations.
const (
	opOpen   = "open"
	opRecall = "recall"
	opWrite  = "write"
	opLook   = "look"
	opDecide = "decide"
	opSettle = "settle"
	opClose  = "close"
)

type openRequest struct {
	Memory string    `json:"memory"`
	Now    time.Time `json:"now"`
	Speed  int       `json:"speed" jsonschema:"how much faster than real time the clock runs by itself; 0 = it stands still"`
	Budget int       `json:"budget" jsonschema:"questions to the record in a simulated minute; 0 = no limit"`
	Record string    `json:"record" jsonschema:"URL that answers GET with subject and predicate by value and found"`
}

type openAnswer struct {
	Gate    *bool `json:"gate"`
	Settles bool  `json:"settles"`
}

type recallRequest struct {
	Memory string     `json:"memory"`
	Turn   rlab.Turn  `json:"turn"`
	Query  rlab.Query `json:"query"`
}

type memoriesAnswer struct {
	Memories *[]memoryAnswer `json:"memories"`
}

// memoryAnswer is [rlab.Memory] of which one can see what is missing: a memory without supports
// would seem to count nobody.
type memoryAnswer struct {
	ID       *string `json:"id"`
	Text     *string `json:"text"`
	Trusted  *bool   `json:"trusted"`
	State    string  `json:"state,omitempty"`
	Supports *int    `json:"supports"`
}

// of is the answer for memories.
func of(list []rlab.Memory) memoriesAnswer {
	out := make([]memoryAnswer, len(list))
	for i := range list {
		m := &list[i]
		out[i] = memoryAnswer{&m.ID, &m.Text, &m.Trusted, m.State, &m.Supports}
	}
	return memoriesAnswer{&out}
}

// memories are those of an answer.
func (a *memoriesAnswer) memories() ([]rlab.Memory, error) {
	if a.Memories == nil {
		return nil, lacks("memories")
	}
	list := make([]rlab.Memory, len(*a.Memories))
	for i, m := range *a.Memories {
		for member, missing := range map[string]bool{"id": m.ID == nil, "text": m.Text == nil, "trusted": m.Trusted == nil, "supports": m.Supports == nil} {
			if missing {
				return nil, fmt.Errorf("%w: memory %d has no %q", rlab.ErrNonsense, i+1, member)
			}
		}
		list[i] = rlab.Memory{ID: *m.ID, Text: *m.Text, Trusted: *m.Trusted, State: m.State, Supports: *m.Supports}
	}
	return list, nil
}

type writeRequest struct {
	Memory    string         `json:"memory"`
	Turn      rlab.Turn      `json:"turn"`
	Statement rlab.Statement `json:"statement"`
}

type writeAnswer struct {
	ID *string `json:"id"`
}

type lookRequest struct {
	Memory string    `json:"memory"`
	Now    time.Time `json:"now"`
	IDs    []string  `json:"ids"`
}

type decideRequest struct {
	Memory string      `json:"memory"`
	Turn   rlab.Turn   `json:"turn"`
	Action rlab.Action `json:"action"`
}

type decideAnswer struct {
	Allowed *bool  `json:"allowed"`
	Held    bool   `json:"held,omitempty"`
	Told    string `json:"told,omitempty"`
}

type settleRequest struct {
	Memory string    `json:"memory"`
	Now    time.Time `json:"now"`
}

type closeRequest struct {
	Memory string `json:"memory"`
}

// recordAnswer is what the system of record knows of a slot.
type recordAnswer struct {
	Value string `json:"value"`
	Found bool   `json:"found"`
}

// decode reads an answer of a system.
func decode(answer []byte, into any) error {
	if len(answer) > maxAnswer {
		return fmt.Errorf("%w: more than %d bytes", rlab.ErrNonsense, maxAnswer)
	}
	if !utf8.Valid(answer) { // encoding/json would replace what is not
		return fmt.Errorf("%w: not UTF-8: %q", rlab.ErrNonsense, brief(answer))
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%w: %q: %w", rlab.ErrNonsense, brief(answer), err)
	}
	return nil
}

// lacks is the error of an answer without a member.
func lacks(member string) error {
	return fmt.Errorf("%w: the answer has no %q", rlab.ErrNonsense, member)
}

// brief is the beginning of a text.
func brief(text []byte) []byte { return text[:min(len(text), 200)] }

// gone is the error of a call that got no answer.
func gone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", rlab.ErrNoAnswer, err)
}

var errName = errors.New("memory: empty")
