package gate

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// OutputField declares how far one field of a tool's output may be relied on.
// What no field names is third-party text.
type OutputField struct {
	Pointer string // RFC 6901, into the tool's JSON output
	Trust   Trust
	// Of an authoritative field: the subject, literally or as an RFC 6901 pointer
	// into the arguments, the predicate, and how many objects it may have.
	Subject        string
	SubjectPointer string
	Predicate      string
	Cardinality    memory.Cardinality
}

// Contract is what is declared about a tool. What is not declared is assumed to
// be the worst. A [Rule] of the policy may tighten a contract and never lift it.
type Contract struct {
	Tool   string
	Effect Effect
	// BlastRadius is how far what one call changes may reach; unset = the outside world.
	BlastRadius BlastRadius
	// Sinks are RFC 6901 pointers to the arguments where the harm of a call is
	// decided: recipient, account, amount. nil = every scalar argument.
	Sinks []string
	// Kinds says what each sink picks, by its pointer. Only typed sinks want it.
	Kinds map[string]Kind
	// Precision is which rows of its run a call is judged by. Typed sinks want a
	// declared effect and a kind for every sink; see [Contract.CheckPrecision].
	Precision Precision
	// Corroborate lets a verified row that the run was not shown vouch for a sink that
	// came from an unverified one. It is part of typed sinks.
	Corroborate bool
	// Named holds a call unless the principal, or a row that a person endorsed, named
	// the tool.
	Named  bool
	Output []OutputField
	// Ceiling is how sensitive the inputs of a call may be, since arguments leave
	// with it. Unset = internal.
	Ceiling memory.Sensitivity
	// MaxAge is how long inputs may feed the tool after they were verified: when it is
	// over, they are stale. 0 = their own freshness decides.
	MaxAge time.Duration
	// Privileged clears the tool for rows whose retrieval is privileged_only.
	Privileged bool
	// Undeclared says that nobody declared the effect. The tool then counts as
	// irreversible, whatever Effect holds, and the decision notes it.
	Undeclared bool
	// Unknown says that the caller has no tool of this name. It is denied.
	Unknown bool
	// Schema is the SHA-256 of the argument schema, which pins the declaration.
	Schema [32]byte
}

// Sink is one sink argument and where it came from.
type Sink struct {
	Pointer string // RFC 6901, into the arguments
	Value   string // its exact text; it enters no log
	Source  Source
	Row     memory.ID // of SourceRow, SourceField, SourceHandle and SourceCorroborated; must be of the direct lineage
}

// Lineage is what a call was made from: the rows that reached the caller, and
// their ancestors. The zero value is unknown, and unknown blocks whatever changes
// something (I-1, I-8). It is immutable and safe for concurrent use.
type Lineage struct {
	known             bool
	why               string
	direct, ancestors []memory.ID
}

// Known is a lineage of which all is known. direct are the rows whose content
// reached the caller; ancestors are the strict ancestors of them together, as
// [memory.Store.Closure] gives them. That there are none must be said:
// Known(nil, nil). Repeated ids count once, an ancestor that is direct as direct.
func Known(direct, ancestors []memory.ID) Lineage {
	l := Partial("", direct, ancestors)
	l.known = true
	return l
}

// Unknown is a lineage of which nothing is known, and why.
func Unknown(why string) Lineage { return Lineage{why: why} }

// Partial is a lineage of which only a part is known, and why. It blocks like an
// unknown one; the known part is judged and cited all the same, so that a call
// that changes nothing still keeps to its sensitivity ceiling.
func Partial(why string, direct, ancestors []memory.ID) Lineage {
	l := Lineage{why: why}
	if len(direct)+len(ancestors) < 2 { // nothing to tell apart
		l.direct, l.ancestors = slices.Clone(direct), slices.Clone(ancestors)
		return l
	}
	seen := make(map[memory.ID]bool, len(direct)+len(ancestors))
	fresh := func(ids []memory.ID) []memory.ID {
		out := make([]memory.ID, 0, len(ids))
		for _, id := range ids {
			if !seen[id] {
				seen[id] = true
				out = append(out, id)
			}
		}
		return out
	}
	l.direct = fresh(direct)
	l.ancestors = fresh(ancestors)
	return l
}

// IsKnown reports whether all of the lineage is known.
func (l Lineage) IsKnown() bool { return l.known }

// Why says what is not known, for people; "" if all is known.
func (l Lineage) Why() string { return l.why }

// Direct returns a copy of the rows whose content reached the caller, in order.
func (l Lineage) Direct() []memory.ID { return slices.Clone(l.direct) }

// Ancestors returns a copy of their strict ancestors, in order.
func (l Lineage) Ancestors() []memory.ID { return slices.Clone(l.ancestors) }

// ids are all rows, in the order Evaluate expects their heads.
func (l Lineage) ids() []memory.ID { return slices.Concat(l.direct, l.ancestors) }

func (l Lineage) len() int { return len(l.direct) + len(l.ancestors) }

// MaxLineage is the most rows one decision is made on. A permit checks each of
// them in one atom.
const MaxLineage = memory.MaxClosure

// Request asks whether a call may fire. It carries ids, never states: those are
// read when the question is asked. The zero Request is denied.
type Request struct {
	Contract Contract
	// Args are the arguments exactly as the tool will get them, in the form of
	// [Canonical]; nil = {}. Any other form is denied.
	Args json.RawMessage
	// CallID is the id the model gave the call, Agent the caller, Run its
	// conversation, Principal the person it acts for.
	CallID, Agent, Run, Principal string
	Lineage                       Lineage
	// Sinks says where each sink argument came from. A sink argument that it does
	// not speak of came from nowhere. With typed sinks, what another argument points
	// to is a sink too; see [Targets].
	Sinks []Sink
	// Park asks that the call, if it is held, wait a shorter time to be made by the
	// caller itself once its rows are fit. An irreversible one is never parked.
	Park bool
	// Resumes is the hold of a parked call that is made now: it is decided afresh,
	// and denied unless that hold is still open and still its own.
	Resumes string
	// Choice says who named the tool: SourcePrincipal, or SourceRow with the row of
	// the direct lineage that names it. The zero Choice is the model's own.
	Choice Sink
	// Unseen are rows of the direct lineage that the caller was not shown, such as
	// those behind a handle. They are judged as any other, and a block quotes none.
	Unseen []memory.ID
}
