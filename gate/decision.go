package gate

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/memory"
)

// Retry says whether a call that did not fire may be tried again.
type Retry string

// The values of [Retry].
const (
	RetryNever     Retry = "never"       // no arguments and no evidence will change it
	RetryNeverAsIs Retry = "never_as_is" // only after a row, or the source of an argument, has changed
	RetryLater     Retry = "later"       // a fault, which may pass
)

// RemedyKind names a way out of a block.
type RemedyKind string

// The kinds of remedies, the best first.
const (
	RemedyCallTool     RemedyKind = "call_tool"     // call the tool that reads the system of record
	RemedyAskUser      RemedyKind = "ask_user"      // ask the person the agent acts for
	RemedyConfirmRow   RemedyKind = "confirm_row"   // a person confirms the row, by a signed statement
	RemedyApproveOnce  RemedyKind = "approve_once"  // a person approves this one call; its rows stay as they are
	RemedyGoOnWithout  RemedyKind = "go_on_without" // do the rest of the task, and say what waits
	maxRemediesPerKind            = 3
)

// Remedy is one way out of a block.
type Remedy struct {
	Kind     RemedyKind `json:"kind"`
	Tool     string     `json:"tool,omitempty"`     // of call_tool
	Subject  string     `json:"subject,omitempty"`  // of call_tool: what to ask it about; content of a row
	Row      memory.ID  `json:"row,omitempty"`      // the row it would help
	Question string     `json:"question,omitempty"` // of ask_user; may quote content of a row
	Hold     string     `json:"hold,omitempty"`     // of approve_once
	By       string     `json:"by,omitempty"`       // "person" if the agent cannot do it
}

// Speaker is who asserted a row.
type Speaker struct {
	Kind string `json:"kind"` // model, tool or user
	Name string `json:"name"`
}

// RowAtFault is a row that a decision fell over.
type RowAtFault struct {
	ID       memory.ID
	Revision uint64       // the fitness version it was judged at; 0 = it is not there
	State    memory.State // 0 = it is not there
	Codes    []Code
	Ancestor bool // it reached the call through a row made from it
	// Chain leads through the lineage, each row made from the next: for a direct
	// input from the row itself up to a row that was made from nothing, for an
	// ancestor from a direct input up to it. It is empty if it could not be read.
	Chain []memory.ID

	// What follows is read for people and for the model, after the decision, and
	// is empty if it could not be read. Claim is hostile text. It is left empty
	// for a row that the caller was not shown, or should not have been.
	Claim       string
	Subject     string
	Predicate   string
	Object      string
	SaidBy      Speaker
	At          time.Time // when it was written
	Independent int       // standing supports by independence group
	Echoes      int       // how often the claim came back, which supports nothing
	// Repeated: its source says the same because a call set it that rested on what was not
	// fit. Whoever asks there again is told nothing new.
	Repeated bool
}

// Decision is what came of a request: one value with four forms. The zero
// Decision denies (I-1).
type Decision struct {
	ID      string // "blk_…", also of a permit; of a fault it may name no record
	Outcome Outcome
	// Fault: no verdict was reached, or it could not be recorded. It is denied.
	Fault bool
	// Observed: it fires only because the gate observes; Reasons say what would
	// have blocked it.
	Observed bool
	Reasons  []Reason // all of them, the gravest first

	Tool                          string
	Effect                        Effect // with what the rule tightened
	BlastRadius                   BlastRadius
	CallID, Agent, Run, Principal string
	ArgsSHA256                    string // of the canonical arguments, hexadecimal
	Policy                        string // "name@version"
	// Precision is TypedSinks if the call was judged by the rows of its sinks.
	Precision Precision
	// Loosened says what the tool's declaration loosens and the policy left to it, in words
	// as "typed_sinks", "optional /cc", "authoritative /iban"; see [Contract.Loosened].
	Loosened  []string
	At        time.Time
	ExpiresAt time.Time // of a hold: when it ends in a denial; else zero
	Retry     Retry     // "" if it fires

	// HoldID is the hold that the call waits in, or fired out of; of a first attempt
	// it is ID, an identical later one has that of the first.
	HoldID   string
	Parked   bool      // it fires by itself once its rows are fit, until ExpiresAt
	Approval *Approval // the grant it fired on; nil if it needed none
	// Answer are the rows that the answer of the first call became, of already_done.
	Answer []memory.ID
	Words  string // of approval_rejected: the person's reason, word for word
	By     string // and who she is

	// Consumed are the rows at the fitness versions the permit was consumed on, in
	// the transaction that recorded it, and Epoch the store's epoch (I-7). Both are empty
	// unless it fires.
	Consumed []memory.Cited
	Epoch    uint64
	// Schema is the SHA-256 of the tool's argument schema, zero if none was given.
	// Binding, of a call that fires, stands for all that the permit is bound to: tool,
	// canonical arguments, agent, run, principal, rows at their fitness versions with
	// the commitments to their contents, policy, Schema and Epoch. If it fired on an
	// approval, it is what the person signed.
	Schema, Binding memory.Digest

	// Rows are the rows at fault, the gravest first, at most eight of them; a permit
	// has none unless it is observed. RowsAtFault counts all.
	Rows        []RowAtFault
	RowsAtFault int
	Remedies    []Remedy // the best first

	unvouched bool            // what it sets was noted
	settled   *memory.Settled // a person's word that the same call was done; nil if there is none
	beside    []memory.ID     // rows of the run that are not fit, and that no sink came from
	until     time.Time       // when the clock alone would make a row unfit
	cause     error           // of a fault
}

// Unvouched reports whether the call fires although something that it rests on is not fit,
// so that what it sets is noted as our own word (I-4).
func (d *Decision) Unvouched() bool { return d.unvouched && !d.Blocked() }

// Blocked reports whether the call must not fire.
func (d *Decision) Blocked() bool { return d.Outcome != Permit || d.Fault }

// Err is nil if the call may fire, and else a [*DeniedError].
func (d Decision) Err() error {
	if !d.Blocked() {
		return nil
	}
	return &DeniedError{Decision: d}
}

// Has reports whether a reason with the code is among the reasons.
func (d *Decision) Has(c Code) bool {
	for i := range d.Reasons {
		if d.Reasons[i].Code == c {
			return true
		}
	}
	return false
}

// primary is the reason that a reader hears of first.
func (d *Decision) primary() Reason {
	if len(d.Reasons) > 0 {
		return d.Reasons[0]
	}
	return Reason{Code: Undecided}
}

// Final reports whether no step of the agent's or its user's would release a
// block: the policy never allows the call, or a person refused it.
func (d *Decision) Final() bool {
	return d.Blocked() && (d.primary().Code == PolicyNever || d.primary().Code == ApprovalRejected)
}

// block is the id that readers know the block by.
func (d *Decision) block() string {
	if d.HoldID != "" {
		return d.HoldID
	}
	return d.ID
}

// DeniedError says that a call did not fire, and why. errors.Is finds [ErrDenied],
// the sentinel of every reason that blocked, [ErrHeld] for a hold, and of a fault
// its cause.
type DeniedError struct{ Decision Decision }

// maxErrorLine is the longest [DeniedError.Error], in characters.
const maxErrorLine = 200

// Error is one line of at most 200 characters for people: which tool, which row,
// why. It quotes the start of the claim; a log that must not hold claims takes
// [DeniedError.LogValue].
func (e *DeniedError) Error() string {
	d := &e.Decision
	r := d.primary()
	var b strings.Builder
	b.WriteString("gate: ")
	b.WriteString(toolName(d.Tool))
	if d.Fault {
		b.WriteString(" could not be decided, so it was")
	}
	b.WriteString(" " + d.status())
	if id := d.block(); id != "" {
		b.WriteString(" (" + id + ")")
	}
	b.WriteString(": ")
	if bad, ok := d.badApproval(); ok && bad.Code != r.Code {
		b.WriteString(bad.Text() + "; ")
	}
	if r.Argument != "" {
		b.WriteString("argument " + quoted(r.Argument, 40) + " ")
	}
	b.WriteString(r.Text())
	if r.Row != "" {
		b.WriteString(": " + neutral(string(r.Row), 40))
		if len(d.Rows) > 0 && d.Rows[0].ID == r.Row && d.Rows[0].Claim != "" {
			b.WriteString(" " + quoted(d.Rows[0].Claim, 40) + ", " + stateText(d.Rows[0].State) + ", said by " + neutral(d.Rows[0].SaidBy.Name, 24))
		}
	}
	if d.cause != nil {
		b.WriteString(": " + neutral(d.cause.Error(), 120))
	}
	return oneLine(b.String(), maxErrorLine)
}

// badApproval is what is wrong with an approval that the call has. Whoever gave it would
// otherwise see the same block as before.
func (d *Decision) badApproval() (Reason, bool) {
	for _, r := range d.Reasons {
		switch r.Code {
		case ApprovalForged, ApprovalForeign, ApprovalStale, ApprovalExpired, ApprovalUsed:
			return r, true
		}
	}
	return Reason{}, false
}

// oneLine keeps quotes that neutral text was put into.
func oneLine(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}

// Unwrap returns ErrDenied, the sentinels of the reasons and the cause of a fault.
func (e *DeniedError) Unwrap() []error {
	d := &e.Decision
	errs := []error{ErrDenied}
	have := map[error]bool{}
	for _, r := range d.Reasons {
		if s := r.Code.Err(); r.Outcome != Permit && s != nil && !have[s] {
			have[s] = true
			errs = append(errs, s)
		}
	}
	if d.Fault && !have[ErrUndecided] {
		errs = append(errs, ErrUndecided)
	}
	if d.Outcome == Hold && !d.Fault {
		errs = append(errs, ErrHeld)
	}
	if d.cause != nil {
		errs = append(errs, d.cause)
	}
	return errs
}

// ToolText is [Decision.ToolText].
func (e *DeniedError) ToolText() string { return e.Decision.ToolText() }

// LogValue is [Decision.LogValue].
func (e *DeniedError) LogValue() slog.Value { return e.Decision.LogValue() }

// MarshalJSON is [Decision.MarshalJSON].
func (e *DeniedError) MarshalJSON() ([]byte, error) { return e.Decision.MarshalJSON() }

// status is the decision in one word.
func (d *Decision) status() string {
	switch {
	case d.Fault:
		return Deny.String()
	case d.Observed && d.Outcome == Permit:
		return "observed"
	}
	return d.Outcome.String()
}

// LogValue is a group of fields without content of rows and without arguments.
func (d Decision) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("tool", cmp.Or(neutral(d.Tool, 64), "the tool")),
		slog.String("effect", d.Effect.String()),
		slog.String("status", d.status()),
		slog.String("block", d.block()),
	}
	if d.HoldID != "" && d.HoldID != d.ID {
		attrs = append(attrs, slog.String("decision", d.ID))
	}
	if d.HoldID != "" && !d.Blocked() {
		how := "rows"
		if d.Approval != nil {
			how = "approve_once"
		}
		attrs = append(attrs, slog.String("how", how))
	}
	if d.Approval != nil {
		attrs = append(attrs, slog.String("approved_by", neutral(d.Approval.By, 80)))
	}
	if len(d.Reasons) > 0 || d.Blocked() {
		attrs = append(attrs, slog.String("reason", string(d.primary().Code)), slog.Int("reasons", len(d.Reasons)))
	}
	if d.Fault {
		attrs = append(attrs, slog.Bool("fault", true))
	}
	if d.cause != nil {
		attrs = append(attrs, slog.String("error", neutral(d.cause.Error(), 160)))
	}
	if d.RowsAtFault > 0 {
		attrs = append(attrs, slog.Int("rows", d.RowsAtFault))
	}
	if len(d.Rows) > 0 {
		r := &d.Rows[0]
		attrs = append(attrs, slog.String("worst", neutral(string(r.ID), 40)), slog.String("state", stateText(r.State)),
			slog.Int("hops", hops(r.Chain)), slog.Int("supports", r.Independent), slog.Int("echoes", r.Echoes))
	}
	return slog.GroupValue(append(attrs,
		slog.String("args_sha256", d.ArgsSHA256[:min(len(d.ArgsSHA256), loggedDigits)]),
		slog.String("policy", neutral(d.Policy, 80)),
		slog.String("agent", neutral(d.Agent, 80)),
		slog.String("session", neutral(d.Run, 80)),
		slog.String("retry", string(d.Retry)),
	)...)
}

// loggedDigits is how much of the digest of the arguments a log has: enough to find a call by,
// and too little to approve one (the command wants eight).
const loggedDigits = 6

// level is how loud a decision is: a block is normal traffic.
func (d *Decision) level() slog.Level {
	switch {
	case !d.Blocked() && d.HoldID != "":
		return slog.LevelInfo // a hold that ends is as loud as one that begins
	case !d.Blocked() && !d.Observed:
		return slog.LevelDebug
	case d.Fault:
		return slog.LevelError
	}
	if d.Has(ApprovalForged) {
		return slog.LevelWarn
	}
	switch d.primary().Code {
	case Undecided:
		return slog.LevelError
	case PolicyNever, LineageUnknown:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

func hops(chain []memory.ID) int { return max(len(chain)-1, 0) }

func stateText(s memory.State) string {
	if s == 0 {
		return "missing"
	}
	return s.String()
}

type reasonJSON struct {
	Code     Code      `json:"code"`
	Text     string    `json:"text"`
	Outcome  Outcome   `json:"outcome"`
	Row      memory.ID `json:"row,omitempty"`
	Ancestor bool      `json:"ancestor,omitempty"`
	Argument string    `json:"argument,omitempty"`
}

type supportsJSON struct {
	Independent int `json:"independent"`
	Echoes      int `json:"echoes"`
}

type rowJSON struct {
	ID       memory.ID     `json:"id"`
	Revision uint64        `json:"revision"`
	State    string        `json:"state"`
	Codes    []Code        `json:"codes"`
	Ancestor bool          `json:"ancestor,omitempty"`
	Claim    string        `json:"claim,omitempty"`
	SaidBy   *Speaker      `json:"said_by,omitempty"`
	At       time.Time     `json:"at,omitzero"`
	Supports *supportsJSON `json:"supports,omitempty"`
	Chain    []memory.ID   `json:"chain,omitempty"`
	Repeated bool          `json:"repeated,omitempty"` // by its source, after a call set it
}

type pathJSON struct {
	Argument string    `json:"argument,omitempty"`
	Row      memory.ID `json:"row"`
	Hops     int       `json:"hops"`
}

type rejectionJSON struct {
	By    string `json:"by"`
	Words string `json:"words"` // as the person wrote them
}

type decisionJSON struct {
	Schema      string         `json:"schema"`
	Status      string         `json:"status"`
	Final       bool           `json:"final"`
	Executed    bool           `json:"executed"`
	Fault       bool           `json:"fault,omitempty"`
	BlockID     string         `json:"block_id"`
	DecisionID  string         `json:"decision_id,omitempty"` // if it is another
	Tool        string         `json:"tool"`
	ToolCallID  string         `json:"tool_call_id,omitempty"`
	Effect      Effect         `json:"effect"`
	BlastRadius BlastRadius    `json:"blast_radius"`
	Reason      *reasonJSON    `json:"reason,omitempty"`
	Reasons     []reasonJSON   `json:"reasons,omitempty"`
	Paths       []pathJSON     `json:"paths,omitempty"`
	Rows        []rowJSON      `json:"rows,omitempty"`
	RowsAtFault int            `json:"rows_at_fault,omitempty"`
	Remedies    []Remedy       `json:"remedies,omitempty"`
	Retry       Retry          `json:"retry,omitempty"`
	Policy      string         `json:"policy"`
	Precision   string         `json:"precision,omitempty"`
	Loosened    []string       `json:"loosened,omitempty"`
	ArgsSHA256  string         `json:"args_sha256"`
	At          time.Time      `json:"at,omitzero"`
	ExpiresAt   time.Time      `json:"expires_at,omitzero"`
	Parked      bool           `json:"parked,omitempty"`
	Approval    *Approval      `json:"approval,omitempty"`
	Answer      []memory.ID    `json:"answer,omitempty"`
	Rejection   *rejectionJSON `json:"rejection,omitempty"`
	Consumed    []memory.Cited `json:"consumed,omitempty"`
	ToolSchema  memory.Digest  `json:"tool_schema,omitzero"`
	Binding     memory.Digest  `json:"binding,omitzero"`
	Agent       string         `json:"agent,omitempty"`
	Session     string         `json:"session,omitempty"`
	Principal   string         `json:"principal,omitempty"`
}

// MarshalJSON writes the object of schema "decision/1". A claim in it is hostile
// text, as it is stored; executed is always false in a block, and says of a
// permit that it was consumed, not how the call ended.
func (d Decision) MarshalJSON() ([]byte, error) {
	j := decisionJSON{
		Schema: "decision/1", Status: d.status(), Final: d.Final(), Executed: !d.Blocked(), Fault: d.Fault,
		BlockID: d.block(), Tool: d.Tool, ToolCallID: d.CallID, Effect: d.Effect, BlastRadius: d.BlastRadius, RowsAtFault: d.RowsAtFault, Remedies: d.Remedies, Retry: d.Retry,
		Policy: d.Policy, Loosened: d.Loosened, ArgsSHA256: d.ArgsSHA256, At: d.At, ExpiresAt: d.ExpiresAt, Parked: d.Parked, Approval: d.Approval,
		Answer: d.Answer, Consumed: d.Consumed, ToolSchema: d.Schema, Binding: d.Binding, Agent: d.Agent, Session: d.Run, Principal: d.Principal,
	}
	if d.ID != j.BlockID {
		j.DecisionID = d.ID
	}
	if d.By != "" {
		j.Rejection = &rejectionJSON{d.By, d.Words}
	}
	if d.Precision != WholeRun {
		j.Precision = d.Precision.String()
	}
	for _, r := range d.Reasons {
		j.Reasons = append(j.Reasons, reasonJSON{r.Code, r.Text(), r.Outcome, r.Row, r.Ancestor, r.Argument})
	}
	if len(d.Reasons) > 0 || d.Blocked() {
		r := d.primary()
		j.Reason = &reasonJSON{r.Code, r.Text(), r.Outcome, r.Row, r.Ancestor, r.Argument}
	}
	for i := range d.Rows {
		r := &d.Rows[i]
		row := rowJSON{ID: r.ID, Revision: r.Revision, State: stateText(r.State), Codes: r.Codes, Ancestor: r.Ancestor, Claim: r.Claim, At: r.At, Chain: r.Chain, Repeated: r.Repeated}
		if r.SaidBy.Kind != "" {
			row.SaidBy, row.Supports = &r.SaidBy, &supportsJSON{r.Independent, r.Echoes}
		}
		j.Rows = append(j.Rows, row)
		if len(r.Chain) > 0 {
			j.Paths = append(j.Paths, pathJSON{Row: r.Chain[len(r.Chain)-1], Hops: hops(r.Chain)})
		}
	}
	return json.Marshal(j)
}
