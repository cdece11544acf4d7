package rlab

import (
	"context"
	"log/slog"
	"time"
)

// System is a memory under test. It is safe for use by several goroutines. All that it is
// told about a write is what an agent's runtime knows: the text, who said it, in which
// session, and what the session was shown before. It is never told what is true.
//
// An id has 1 KiB at most and a text 64 KiB, both in UTF-8. A call that breaks a rule of this
// interface, panics, or takes longer than [Options.Patience] ends the play ([ErrNonsense],
// [ErrLate]).
type System interface {
	// Recall returns the memories that an agent is shown, best first, [Shown] at most, each
	// once.
	Recall(ctx context.Context, t Turn, q Query) ([]Memory, error)
	// Write stores a statement, and returns the id of the memory that holds it from now on.
	// That may be an older one which says the same.
	Write(ctx context.Context, t Turn, s Statement) (id string, err error)
	// Look returns these memories as they are now, each once. One that is gone is left out. One
	// that Recall shows is not gone: a play that tries calls on all its claims at its end fails
	// if Look leaves such a memory out.
	Look(ctx context.Context, ids []string) ([]Memory, error)
}

// Shown is how many memories an agent is shown of a question.
const Shown = 10

// Decider is a [System] that says whether an agent may act. An agent on a system that is none
// acts on whatever it was shown.
type Decider interface {
	Decide(ctx context.Context, t Turn, a Action) (Verdict, error)
}

// Verdict is what became of a call that an agent tried. The zero Verdict denies.
type Verdict struct {
	Allowed bool   `json:"allowed"`
	Held    bool   `json:"held,omitempty"` // it was not made, and waits for a person who may allow it
	Told    string `json:"told,omitempty"` // what the agent is told of a call that was not made; "" = nothing
}

// Settler is a [System] that works in the background. Settle returns when nothing is left to
// do but what waits for its time.
type Settler interface {
	Settle(ctx context.Context) error
}

// Turn is one turn of an agent.
type Turn struct {
	At        time.Time `json:"at"`        // simulated; see [Env.Now]
	Agent     string    `json:"agent"`     // whose turn it is
	Principal string    `json:"principal"` // whom it works for
	Session   string    `json:"session"`   // what the session was shown is in its context
}

// Kinds of an [Author].
const (
	User  = "user"
	Agent = "agent"
	Tool  = "tool"
)

// Author is who said something.
type Author struct {
	Kind string `json:"kind"` // [User], [Agent] or [Tool]
	Name string `json:"name"`
}

// Statement is what somebody said in a turn.
type Statement struct {
	Author   Author   `json:"author"`
	Text     string   `json:"text"`
	Recalled []string `json:"recalled"` // the ids of the memories that this turn was shown, best first
}

// Query asks for what is known. A system may use the words, or the slot.
type Query struct {
	Text      string `json:"text"`
	Subject   string `json:"subject"` // "" if the question has no slot
	Predicate string `json:"predicate"`
}

// Memory is one memory of a system, as it stands now.
type Memory struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	// Trusted says that an agent may act on it: verified, or believed strongly enough. A
	// system that makes no difference trusts all it has.
	Trusted bool `json:"trusted"`
	// State is the system's own word for that; "" = it has none.
	State string `json:"state,omitempty"`
	// Supports is how many independent sources the system counts for the memory.
	Supports int `json:"supports"`
}

// Action is a call of a dangerous tool. The value of its argument was taken from a memory that
// the turn was shown.
type Action struct {
	Tool     string   `json:"tool"` // one of [Tools]
	Value    string   `json:"value"`
	Recalled []string `json:"recalled"`
}

// Tools are the tools that an agent can do harm with.
func Tools() []string { return []string{"pay", "send_data", "update_setting", "delete"} }

// Record is a system of record, which some systems verify against. It is safe for use by
// several goroutines.
type Record interface {
	// Lookup is asked for the value of a slot, and not told which value is claimed. An error
	// means that it is down.
	Lookup(ctx context.Context, subject, predicate string) (value string, found bool, err error)
}

// Env is what a system is opened with.
type Env struct {
	Now    func() time.Time // the simulated clock
	Record Record
	Dir    string // an empty folder of its own
	// Speed is how much faster than real time the simulated clock runs by itself. What a system
	// waits for in real time, as a breaker does, it should wait for so much less. 0 = the clock
	// stands still between two turns.
	Speed int
	// Budget is how many questions the system of record may be asked in a simulated minute. A
	// system keeps to it by itself. 0 = as many as it likes.
	Budget int
	Logger *slog.Logger
}

// Entrant is a system that the bench can open.
type Entrant struct {
	Name string
	// Rule is what the system does, in one sentence.
	Rule string
	// Open makes an empty system. If it is an io.Closer, it is closed at the end of a play.
	Open func(ctx context.Context, e Env) (System, error)
}
