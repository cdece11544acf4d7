package gate

import (
	"errors"
	"fmt"

	"github.com/hearsay-go/hearsay/memory"
)

// Outcome is what a decision came to. The zero value denies.
type Outcome uint8

// The outcomes.
const (
	Deny   Outcome = iota // blocked
	Hold                  // blocked, and the remedies say what would release it
	Permit                // may fire, now, once
)

// String returns denied, held or permitted.
func (o Outcome) String() string {
	switch o {
	case Permit:
		return "permitted"
	case Hold:
		return "held"
	}
	return "denied"
}

// MarshalText returns the same.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Code is the stable name of a reason.
type Code string

// The codes. Their meaning does not change; new ones may be added.
const (
	UnverifiedInput     Code = "unverified_input"     // a row nobody has verified
	VerifierWasDown     Code = "verifier_was_down"    // a row written while its verifier was down
	ContradictedInput   Code = "contradicted_input"   // a row that a better source contradicts
	QuarantinedInput    Code = "quarantined_input"    // a row that is, or was, quarantined
	NotRetrievable      Code = "not_retrievable"      // a row that may not be retrieved in normal use
	StaleInput          Code = "stale_input"          // a row verified too long ago
	RankTooLow          Code = "rank_too_low"         // verified by less than a tool, for an irreversible call
	ContestedInput      Code = "contested_input"      // an open contradiction of rank tool or higher
	SensitivityExceeded Code = "sensitivity_exceeded" // more secret than the tool may carry
	RowMissing          Code = "row_missing"          // a row of the lineage does not exist
	LineageUnknown      Code = "lineage_unknown"      // part of what fed the call is not known
	ClosureTooLarge     Code = "closure_too_large"    // more rows than can be checked
	FromNowhere         Code = "from_nowhere"         // a sink argument that nobody gave
	ToolNotNamed        Code = "tool_not_named"       // no such tool, or none the policy names
	PolicyNever         Code = "policy_never"         // the policy never allows it
	Undecided           Code = "undecided"            // a fault while deciding; the call is blocked
)

// Sentinels that errors.Is matches on a [*DeniedError].
var (
	ErrDenied          = errors.New("gate: denied")
	ErrHeld            = errors.New("gate: held")
	ErrUndecided       = errors.New("gate: could not decide")
	ErrUnverified      = errors.New("gate: rests on an unverified row")
	ErrVerifierDown    = errors.New("gate: rests on a row whose verifier was down")
	ErrContradicted    = errors.New("gate: rests on a contradicted row")
	ErrQuarantined     = errors.New("gate: rests on a quarantined row")
	ErrNotRetrievable  = errors.New("gate: rests on a row that may not be retrieved")
	ErrStale           = errors.New("gate: rests on a row verified too long ago")
	ErrRankTooLow      = errors.New("gate: rests on a row verified by too low a rank")
	ErrContested       = errors.New("gate: rests on a contested row")
	ErrSensitivity     = errors.New("gate: carries more than the tool may")
	ErrRowMissing      = errors.New("gate: rests on a row that does not exist")
	ErrLineageUnknown  = errors.New("gate: lineage unknown")
	ErrClosureTooLarge = errors.New("gate: lineage too large")
	ErrFromNowhere     = errors.New("gate: an argument from nowhere")
	ErrToolNotNamed    = errors.New("gate: tool not named")
	ErrNever           = errors.New("gate: never allowed")
)

// codes orders the reasons, gravest first, and says what each comes to.
var codes = []struct {
	code  Code
	err   error
	holds bool // a remedy can release it
	final bool // nothing can
}{
	{Undecided, ErrUndecided, false, false},
	{PolicyNever, ErrNever, false, true},
	{ToolNotNamed, ErrToolNotNamed, false, true},
	{LineageUnknown, ErrLineageUnknown, false, false},
	{ClosureTooLarge, ErrClosureTooLarge, false, false},
	{RowMissing, ErrRowMissing, false, false},
	{QuarantinedInput, ErrQuarantined, false, false},
	{SensitivityExceeded, ErrSensitivity, false, false},
	{ContradictedInput, ErrContradicted, false, false},
	{NotRetrievable, ErrNotRetrievable, false, false},
	{UnverifiedInput, ErrUnverified, true, false},
	{VerifierWasDown, ErrVerifierDown, true, false},
	{StaleInput, ErrStale, true, false},
	{RankTooLow, ErrRankTooLow, true, false},
	{ContestedInput, ErrContested, true, false},
	{FromNowhere, ErrFromNowhere, true, false},
}

func (c Code) index() int {
	for i := range codes {
		if codes[i].code == c {
			return i
		}
	}
	return 0 // an unknown code is a fault
}

func (c Code) holds() bool { return codes[c.index()].holds }
func (c Code) final() bool { return codes[c.index()].final }

// Reason is one thing that stands against a call.
type Reason struct {
	Code     Code      `json:"code"`
	Row      memory.ID `json:"row,omitempty"`
	Argument string    `json:"argument,omitempty"` // JSON pointer
	Detail   string    `json:"detail,omitempty"`
	Warning  bool      `json:"warning,omitempty"` // said, and blocks nothing
}

// maxReasons bounds what one decision lists; the worst come first anyway.
const maxReasons = 64

func (d *Decision) add(r Reason) {
	if len(d.Reasons) < maxReasons {
		d.Reasons = append(d.Reasons, r)
		return
	}
	// Past the bound a blocking reason still has to block.
	last := &d.Reasons[maxReasons-1]
	if !r.Warning && (last.Warning || r.Code.index() < last.Code.index()) {
		*last = r
	}
}

var texts = map[Code]string{
	UnverifiedInput:     "rests on a stored statement that nobody has verified",
	VerifierWasDown:     "rests on a statement that was stored while its checker was down",
	ContradictedInput:   "rests on a statement that a better source contradicts",
	QuarantinedInput:    "rests on a statement that is quarantined",
	NotRetrievable:      "rests on a statement that may not be used here",
	StaleInput:          "rests on a statement that was verified too long ago",
	RankTooLow:          "rests on a statement that only models have verified, and this cannot be undone",
	ContestedInput:      "rests on a statement that another source disputes",
	SensitivityExceeded: "would carry more than this tool may be told",
	RowMissing:          "rests on a statement that is not in the store",
	LineageUnknown:      "nothing is known of where part of its input came from",
	ClosureTooLarge:     "rests on more statements than can be checked",
	FromNowhere:         "has an argument that neither the user nor a verified statement gave",
	ToolNotNamed:        "this tool is not allowed here",
	PolicyNever:         "this tool is never allowed here, with any arguments",
	Undecided:           "it could not be decided, so it was not run",
}

func (c Code) text() string {
	if t, ok := texts[c]; ok {
		return t
	}
	return fmt.Sprintf("reason %s", string(c))
}
