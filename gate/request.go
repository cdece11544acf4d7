package gate

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// OutputField declares how far one field of a tool's output may be relied on.
// What no field names is third-party text.
type OutputField struct {
	Pointer string // RFC 6901, into the tool's JSON output
	Trust   Trust
	// Of an authoritative field or a record: the subject, as RFC 6901 pointers into the
	// arguments, the predicate, and how many objects it may have. Of a record without
	// pointers the subject is About, or, if that is empty, the principal.
	Subject     []string
	About       string
	Predicate   string
	Cardinality memory.Cardinality
	// Of an identifier: how many bytes it has at most, and which characters may be in it
	// besides A-Z, a-z, 0-9 and ._:- . 0 = 64.
	MaxBytes int
	Also     string
}

// Setting says of an argument that the call sets what a system of record says: of the
// subject that the arguments name, under a predicate, which may be a place in a record.
type Setting struct {
	Pointer   string   // RFC 6901, into the arguments
	Predicate string   // "order.status", or "order/status" of a record
	Subject   []string // RFC 6901, into the arguments
}

// Contract is what is declared about a tool. What is not declared is assumed to
// be the worst. A [Rule] of the policy may tighten a contract and never lift it.
type Contract struct {
	Tool string
	// Server names the server that has the tool; "" = this program. Tools of one name on two
	// servers are different ones.
	Server string
	// AtServer is the name of the tool there; "" = Tool. A call stays the same call if only
	// Tool is another name, as after a start with another prefix.
	AtServer string
	Effect   Effect
	// BlastRadius is how far what one call changes may reach; unset = the outside world.
	BlastRadius BlastRadius
	// Sinks are RFC 6901 pointers to the arguments where the harm of a call is
	// decided: recipient, account, amount. nil = every scalar argument, and so it is
	// for a call that gives nothing for one of them; see [Contract.GivenSinks].
	Sinks []string
	// Optional are those of the sinks that a call may leave out. What is left out clears
	// nothing.
	Optional []string
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
	Named bool
	// NamedWaived says that an irreversible tool with typed sinks does without Named:
	// that a stranger may be the one who asks for the call is accepted.
	NamedWaived bool
	Output      []OutputField
	// Fixed are the arguments, by RFC 6901 pointer, that may be there besides those that
	// are the subject of an authoritative field, with the only value that each may have.
	Fixed map[string]string
	// ErrorTexts are the errors that say nothing of anybody else's.
	ErrorTexts []string
	// Derived are the arguments that may be computed, by RFC 6901 pointer.
	Derived map[string]Derivation
	// Sets are the arguments that set what a system of record says.
	Sets []Setting
	// Operator are the places in records, as RFC 6901 pointers in which a step may be *,
	// where nobody but the operator of the system of record writes a string.
	Operator []string
	// Ceiling is how sensitive the inputs of a call may be, since arguments leave
	// with it. Unset = internal.
	Ceiling memory.Sensitivity
	// MaxAge is how long inputs may feed the tool after they were verified: when it is
	// over, they are stale. 0 = their own freshness decides.
	MaxAge time.Duration
	// Privileged clears the tool for rows whose retrieval is privileged_only.
	Privileged bool
	// Identity are the arguments, by RFC 6901 pointer, that say which call it is: two calls
	// in which they are equal are the same one, whatever else they give. nil = all of them.
	Identity []string
	// Repeatable lets a run make the same irreversible call again after it was done.
	Repeatable bool
	// Shown is the functional predicate of which the system of record says, in an
	// authoritative field of another tool, whether the call was made. "" = none says so.
	Shown string
	// Undeclared says that nobody declared the effect. The tool then counts as
	// irreversible, whatever Effect holds, and the decision notes it.
	Undeclared bool
	// Unknown says that the caller has no tool of this name. It is denied.
	Unknown bool
	// Schema is the SHA-256 of the argument schema, which pins the declaration.
	Schema [32]byte
}

// Loosened lists what the contract loosens and a rule leaves to it. All else that a
// contract declares can only tighten; the list is closed:
//
//	typed_sinks          a call is judged by the rows of its sinks
//	corroborated         a row that the run was not shown may vouch for a sink
//	named_waived         an irreversible tool with typed sinks need not be named
//	optional POINTER     a call may leave the sink out
//	authoritative FIELD  the field of an output is believed
//	identifier FIELD     the field of an output taints nothing
//	derived POINTER      an argument may be computed
//	sets POINTER         an argument may put back what the source said before
//	record FIELD         the field of an output is believed as far as its schema closes it
//	error_texts          an error of a closed set taints nothing
//	operator FIELD       a string in a record is believed too
//	fixed POINTER        the output is believed though the argument is given, if it is as declared
//	shown PREDICATE      what the source says of it ends the wait for the outcome of a call
//	repeatable           a run may make a call again that was done and cannot be undone
func (c *Contract) Loosened(r Rule) (list []string) {
	if c.Precision == TypedSinks && !r.WholeRun {
		list = append(list, TypedSinks.String())
		if c.Corroborate && !r.Uncorroborated {
			list = append(list, "corroborated")
		}
		if c.NamedWaived && !c.Named && !r.Named {
			list = append(list, "named_waived")
		}
	}
	if !r.AllSinks {
		for _, p := range c.Optional {
			list = append(list, "optional "+p)
		}
	}
	if !r.Underived {
		for _, p := range slices.Sorted(maps.Keys(c.Derived)) {
			list = append(list, "derived "+p)
		}
	}
	for _, f := range c.Output {
		if f.Trust != ThirdParty && !r.PlainOutput {
			list = append(list, f.Trust.String()+" "+f.Pointer)
		}
	}
	if !r.PlainOutput {
		for _, p := range slices.Sorted(maps.Keys(c.Fixed)) {
			list = append(list, "fixed "+p)
		}
		if len(c.ErrorTexts) > 0 {
			list = append(list, "error_texts")
		}
		for _, p := range c.Operator {
			list = append(list, "operator "+p)
		}
		for _, s := range c.Sets {
			list = append(list, "sets "+s.Pointer)
		}
		if c.Shown != "" {
			list = append(list, c.shown())
		}
	}
	if c.Repeatable && !r.Once {
		list = append(list, repeatable)
	}
	return list
}

// repeatable names [Contract.Repeatable] in [Decision.Loosened].
const repeatable = "repeatable"

func (c *Contract) shown() string { return "shown " + c.Shown }

// SameCall is what of canonical arguments says which call it is, in canonical form: all of
// them, or the values at [Contract.Identity]. What is not there counts as null.
func (c *Contract) SameCall(args json.RawMessage) json.RawMessage {
	if len(c.Identity) == 0 {
		return args
	}
	v, ok := parsed(args)
	if !ok {
		return args
	}
	of := make(map[string]any, len(c.Identity))
	for _, p := range c.Identity {
		of[p], _ = find(v, p) // nil for what is absent
	}
	b, err := json.Marshal(of)
	if err != nil {
		return args
	}
	return b
}

// Believes reports whether the decision leaves the tool's declarations of its output in
// force; if not, all that it returns is a third party's words.
func (d *Decision) Believes(f *OutputField) bool {
	return slices.Contains(d.Loosened, f.Trust.String()+" "+f.Pointer)
}

// Sink is one sink argument and where it came from.
type Sink struct {
	Pointer string // RFC 6901, into the arguments
	Value   string // its exact text; it enters no log
	Source  Source
	Row     memory.ID // of SourceRow, SourceField, SourceHandle and SourceCorroborated; must be of the direct lineage
	// Computed says, of SourceComputed, from what: "sum of order/items/*/price". It holds no
	// value.
	Computed string
	// Restores says, of SourceRow, that the call sets the very thing that the row says of its
	// subject: a value that is history is put back.
	Restores bool
}

// Write is what a call sets in a system of record, at an argument.
type Write struct {
	Pointer string // RFC 6901, into the arguments
	memory.OwnWrite
}

// Newer says that of one subject and functional predicate the caller read By last, as
// verified, and Row before. If Row was superseded since, and By is verified now, the
// caller has seen what its source says now (I-16). It is the caller's word, like the
// lineage itself.
type Newer struct {
	Row, By memory.ID
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
// them in one transaction.
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
	// SentBy names the run that the call came from, of another process or agent, if Run is only this
	// one call's: the same call of that run is then the same call. "" = Run is a run itself.
	SentBy string
	// Within says that the call is asked for inside the very same call, by the tool that
	// makes it. It is denied, unless it changes nothing.
	Within bool
	// Told is a row of the direct lineage with the predicate of [Contract.Shown]: what the
	// source said when the caller asked it after the same call had ended in doubt.
	Told memory.ID
	// ToldOf is the decision that let that same call through. Told shows nothing of any other
	// call.
	ToldOf string
	// Choice says who named the tool: SourcePrincipal, or SourceRow with the row of
	// the direct lineage that names it. The zero Choice is the model's own.
	Choice Sink
	// Spoken says that the principal typed something in this run.
	Spoken bool
	// Writes are what the call sets in systems of record: as the tool declares it, or of one
	// that changes something and declares nothing, each argument about each other one.
	Writes []Write
	// Newer says which rows the caller has read again since, of the direct lineage. It
	// lets history be history, and clears no argument.
	Newer []Newer
	// Reads names, by exact predicate, the caller's own tool that reads the system of record
	// for it. It is offered as a remedy, and nothing else follows from it.
	Reads map[string]string
	// Unseen are rows of the direct lineage that the caller was not shown, such as
	// those behind a handle. They are judged as any other, and a block quotes none.
	Unseen []memory.ID

	speaker memory.Token // of Principal; the gate sets it
}
