package gate

import (
	"cmp"
	"errors"
	"slices"

	"github.com/hearsay-go/hearsay/memory"
)

// Code names a reason. Codes are stable: programs may switch on them.
type Code string

// The codes, and what each says.
const (
	UnverifiedInput     Code = "unverified_input"     // a row that fed the call is not verified
	VerifierWasDown     Code = "verifier_was_down"    // it is not, since the verifier was down when it was written
	ContradictedInput   Code = "contradicted_input"   // a row was contradicted, or retracted
	SupersededInput     Code = "superseded_input"     // what verified a row has said otherwise since; a note if the run has read that
	QuarantinedInput    Code = "quarantined_input"    // a row, or an ancestor, is or was under quarantine
	NotRetrievable      Code = "not_retrievable"      // a row may not be acted on by its retrieval axis
	StaleInput          Code = "stale_input"          // a row expired, or was verified too long ago for this tool
	NotYetValid         Code = "not_yet_valid"        // a row says what holds from a later moment on
	SensitivityExceeded Code = "sensitivity_exceeded" // a row, or an ancestor, is more secret than the tool may be given
	RankTooLow          Code = "rank_too_low"         // an irreversible tool wants evidence of rank tool or higher
	ContestedInput      Code = "contested_input"      // a contradiction of rank tool or higher is open; holds an irreversible tool
	LineageUnknown      Code = "lineage_unknown"      // part of what the call, or a row, was made from is not known
	ClosureTooLarge     Code = "closure_too_large"    // more than MaxLineage rows
	RowMissing          Code = "row_missing"          // a row of the lineage is not in the store
	RowDamaged          Code = "row_damaged"          // a row of the lineage is not what was written
	FromNowhere         Code = "from_nowhere"         // a sink argument came from no word, row or handle; holds
	ToolNotChosen       Code = "tool_not_chosen"      // neither the principal nor an endorsed row named the tool; holds
	BlastTooWide        Code = "blast_too_wide"       // the tool may reach further than the policy lets it unasked; holds
	ToolNotNamed        Code = "tool_not_named"       // the policy, or the caller, knows no tool of this name
	EffectNotDeclared   Code = "effect_not_declared"  // nobody declared the effect, so it counts as irreversible; a note
	SinkLeftOut         Code = "sink_left_out"        // an optional sink was not given, and its absence clears nothing; a note
	PolicyNever         Code = "policy_never"         // a rule never allows the tool
	ArgumentsInvalid    Code = "arguments_invalid"    // the arguments are not in canonical form
	Undecided           Code = "undecided"            // a fault: no verdict, so no call
	OutcomeUnknown      Code = "outcome_unknown"      // the same call was let through before, and how it ended is not known; a note once the policy's time has passed or the source has told
	AlreadyDone         Code = "already_done"         // the run made the same call before, and it was done; a note if nobody declared the tool
	NestedCall          Code = "nested_call"          // it was asked for inside the very same call
	ApprovalRejected    Code = "approval_rejected"    // a person refused the call
	ApprovalStale       Code = "approval_stale"       // it was approved, and something it was bound to has moved since
	ApprovalExpired     Code = "approval_expired"     // it was approved, and the approval ended
	ApprovalWithdrawn   Code = "approval_withdrawn"   // it was approved, and the person took that back
	ApprovalUsed        Code = "approval_used"        // the approval was used: it was for one call
	ApprovalForeign     Code = "approval_foreign"     // an approval exists, for another call
	ApprovalForged      Code = "approval_forged"      // what is kept as an approval was signed by nobody who may
	HoldEnded           Code = "hold_ended"           // a parked call may not go on
)

// Errors of a block, for errors.Is on what [Decision.Err] returns. All of them
// are also [ErrDenied]; there is one for each [Code], and ErrHeld for a hold.
var (
	ErrDenied = errors.New("gate: denied")

	ErrHeld              = denial("gate: held until a person releases it")
	ErrUnverified        = denial("gate: unverified input")
	ErrVerifierDown      = denial("gate: the verifier was down when an input was written")
	ErrContradicted      = denial("gate: contradicted input")
	ErrSuperseded        = denial("gate: superseded input")
	ErrQuarantined       = denial("gate: quarantined input")
	ErrNotRetrievable    = denial("gate: an input that may not be retrieved")
	ErrStale             = denial("gate: stale input")
	ErrNotYetValid       = denial("gate: input that is not valid yet")
	ErrSensitivity       = denial("gate: an input is too sensitive for the tool")
	ErrRankTooLow        = denial("gate: the evidence for an input is of too low a rank")
	ErrContested         = denial("gate: contested input")
	ErrLineageUnknown    = denial("gate: lineage unknown")
	ErrClosureTooLarge   = denial("gate: lineage too large")
	ErrRowMissing        = denial("gate: a row of the lineage is missing")
	ErrRowDamaged        = denial("gate: a row of the lineage is damaged")
	ErrFromNowhere       = denial("gate: an argument came from nowhere")
	ErrToolNotChosen     = denial("gate: nobody but the model chose the tool")
	ErrBlastTooWide      = denial("gate: the tool may reach too far")
	ErrToolNotNamed      = denial("gate: tool not named")
	ErrEffectNotDeclared = denial("gate: effect not declared")
	ErrSinkLeftOut       = denial("gate: an optional sink was left out")
	ErrNever             = denial("gate: never allowed")
	ErrArgumentsInvalid  = denial("gate: arguments not canonical")
	ErrUndecided         = denial("gate: undecided")
	ErrOutcomeUnknown    = denial("gate: the outcome of an earlier call is unknown")
	ErrAlreadyDone       = denial("gate: the same call was done before")
	ErrNestedCall        = denial("gate: a call inside the very same call")
	ErrApprovalRejected  = denial("gate: a person refused the call")
	ErrApprovalStale     = denial("gate: the approval is stale")
	ErrApprovalExpired   = denial("gate: the approval has ended")
	ErrApprovalWithdrawn = denial("gate: the approval was withdrawn")
	ErrApprovalUsed      = denial("gate: the approval was used")
	ErrApprovalForeign   = denial("gate: the approval is for another call")
	ErrApprovalForged    = denial("gate: the approval is forged")
	ErrHoldEnded         = denial("gate: the parked call may not go on")
)

// denied is a sentinel that is ErrDenied too.
type denied struct{ text string }

func denial(text string) error { return &denied{text} }

func (e *denied) Error() string { return e.text }
func (e *denied) Unwrap() error { return ErrDenied }

// codes are all codes, the one that a reader must hear of first at the front,
// with what each comes to alone: what a person's word or new evidence would
// release holds, anything else denies.
var codes = []struct {
	code     Code
	sentinel error
	outcome  Outcome
	text     string
}{
	{Undecided, ErrUndecided, Deny, "it could not be decided"},
	{PolicyNever, ErrNever, Deny, "the policy never allows it"},
	{ToolNotNamed, ErrToolNotNamed, Deny, "no rule and no declaration names this tool"},
	{ArgumentsInvalid, ErrArgumentsInvalid, Deny, "the arguments are not in canonical form"},
	{ApprovalRejected, ErrApprovalRejected, Deny, "a person refused this call"},
	{HoldEnded, ErrHoldEnded, Deny, "it was waiting, and may not go on by itself"},
	{LineageUnknown, ErrLineageUnknown, Deny, "where part of its inputs came from is not known"},
	{ClosureTooLarge, ErrClosureTooLarge, Deny, "rests on more rows than can be judged"},
	{RowMissing, ErrRowMissing, Deny, "rests on a row that is not in the store"},
	{RowDamaged, ErrRowDamaged, Deny, "rests on a row that is not what was written"},
	{QuarantinedInput, ErrQuarantined, Deny, "rests on a row that is or was under quarantine"},
	{ContradictedInput, ErrContradicted, Deny, "rests on a row that was contradicted"},
	{NotRetrievable, ErrNotRetrievable, Deny, "rests on a row that may not be used"},
	{SensitivityExceeded, ErrSensitivity, Deny, "rests on a row more secret than the tool may be given"},
	{NestedCall, ErrNestedCall, Deny, "was asked for inside the very same call"},
	{OutcomeUnknown, ErrOutcomeUnknown, Hold, "how the same call ended before is not known"},
	{AlreadyDone, ErrAlreadyDone, Hold, "the same call was done before"},
	{UnverifiedInput, ErrUnverified, Hold, "rests on a row that nobody has verified"},
	{VerifierWasDown, ErrVerifierDown, Hold, "rests on a row stored while the verifier was down"},
	{SupersededInput, ErrSuperseded, Hold, "rests on a row whose source has said otherwise since"},
	{StaleInput, ErrStale, Hold, "rests on a row that was verified too long ago"},
	{NotYetValid, ErrNotYetValid, Hold, "rests on a row that says what holds later"},
	{RankTooLow, ErrRankTooLow, Hold, "cannot be undone, and rests on a row with too weak evidence"},
	{ContestedInput, ErrContested, Hold, "rests on a row that a good source contradicts"},
	{FromNowhere, ErrFromNowhere, Hold, "comes from no typed word and from no row"},
	{ApprovalForged, ErrApprovalForged, Hold, "what is kept as its approval was signed by nobody who may"},
	{ApprovalForeign, ErrApprovalForeign, Hold, "an approval exists, but for another call"},
	{ApprovalStale, ErrApprovalStale, Hold, "it was approved, but what it rests on has moved since"},
	{ApprovalExpired, ErrApprovalExpired, Hold, "it was approved, but the approval has ended"},
	{ApprovalWithdrawn, ErrApprovalWithdrawn, Hold, "its approval was withdrawn"},
	{ApprovalUsed, ErrApprovalUsed, Hold, "its approval was for one call, which used it"},
	{ToolNotChosen, ErrToolNotChosen, Hold, "neither the user's words nor an endorsed row name this tool"},
	{BlastTooWide, ErrBlastTooWide, Hold, "may reach further than the policy lets it unasked"},
	{SinkLeftOut, ErrSinkLeftOut, Permit, "a sink that may be left out was"},
	{EffectNotDeclared, ErrEffectNotDeclared, Permit, "its effect is not declared, so it counts as irreversible"},
}

var weights = func() map[Code]int {
	m := make(map[Code]int, len(codes))
	for i := range codes {
		m[codes[i].code] = i
	}
	return m
}()

func (c Code) weight() int {
	if i, ok := weights[c]; ok {
		return i
	}
	return len(codes)
}

// taints reports whether a call that is let through all the same may set what nobody vouches
// for.
func (c Code) taints() bool {
	switch c {
	case UnverifiedInput, VerifierWasDown, ContradictedInput, SupersededInput, QuarantinedInput, NotRetrievable, StaleInput,
		NotYetValid, RankTooLow, ContestedInput, LineageUnknown, RowMissing, RowDamaged, FromNowhere:
		return true
	}
	return false
}

// outcome is what the code comes to alone; one that is none denies.
func (c Code) outcome() Outcome {
	if i := c.weight(); i < len(codes) {
		return codes[i].outcome
	}
	return Deny
}

// Err is the sentinel of the code, nil if it is none.
func (c Code) Err() error {
	if i := c.weight(); i < len(codes) {
		return codes[i].sentinel
	}
	return nil
}

// Reason is one thing that spoke for a decision.
type Reason struct {
	Code Code
	// Outcome is what this reason alone comes to; the zero value denies. Permit is a
	// note, which blocks nothing.
	Outcome  Outcome
	Row      memory.ID // the row it is about, if it is about one
	Ancestor bool      // the row is an ancestor, not a direct input
	Argument string    // RFC 6901 pointer of the argument it is about
	Detail   string    // what only this case can say; never content of a row
}

// Text says the reason in plain words, without content of rows or arguments.
func (r Reason) Text() string {
	text := "denied"
	if i := r.Code.weight(); i < len(codes) {
		text = codes[i].text
	}
	if r.Detail != "" {
		text += ": " + neutral(r.Detail, maxDetail)
	}
	return text
}

// maxDetail bounds the detail of a reason that is shown, in characters.
const maxDetail = 280

// order brings what a reader must hear of first to the front: what denies before
// what holds before notes, faults of the call before faults of its rows, and
// direct inputs before ancestors. It is stable and so keeps the order of rows.
func order(reasons []Reason) {
	slices.SortStableFunc(reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.place(), b.place()), compareBool(a.Ancestor, b.Ancestor))
	})
}

// place is the weight of the code; a row of unknown lineage is first of all an
// unverified row, since evidence mends it.
func (r Reason) place() int {
	if r.Code == LineageUnknown && r.Row != "" {
		return len(codes)
	}
	return r.Code.weight()
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
