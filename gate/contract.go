package gate

import (
	"fmt"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Effect is what a tool does to the world. The zero value is the worst: a tool
// that declares nothing is irreversible (D-23).
type Effect uint8

// The effects, from the heaviest.
const (
	Irreversible  Effect = iota // cannot be undone
	StateChanging               // changes something that can be put back
	ReadOnly                    // changes nothing
)

var effectNames = [...]string{"irreversible", "state_changing", "read_only"}

// String returns irreversible, state_changing or read_only.
func (e Effect) String() string {
	if int(e) < len(effectNames) {
		return effectNames[e]
	}
	return effectNames[Irreversible]
}

// MarshalText returns the same.
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText accepts exactly the three names.
func (e *Effect) UnmarshalText(b []byte) error {
	for i, n := range effectNames {
		if string(b) == n {
			*e = Effect(i)
			return nil
		}
	}
	return fmt.Errorf("gate: effect %q is none of %q", b, effectNames)
}

// Trust is what the output field of a tool may be taken for.
type Trust uint8

// The trusts.
const (
	ThirdParty    Trust = iota // anybody's words; what every undeclared field is
	Identifier                 // an id the system assigned; taints nothing, vouches for nothing
	Authoritative              // the system of record for a predicate
)

// OutputField declares one field of a tool's JSON output.
type OutputField struct {
	Pointer        string // RFC 6901, into the output
	Trust          Trust
	Subject        string // of an authoritative field: the subject itself,
	SubjectPointer string // or where it stands in the arguments
	Predicate      string
	Cardinality    memory.Cardinality
}

// Contract is what a tool declares of itself. The zero contract is the
// strictest: irreversible, every scalar argument a sink, internal inputs at most.
type Contract struct {
	Tool   string
	Effect Effect
	// Unknown marks a tool that the agent does not have. It is always denied.
	Unknown bool
	// Sinks are JSON pointers to the arguments where harm is decided; nil = every
	// scalar argument.
	Sinks   []string
	Output  []OutputField
	Ceiling memory.Sensitivity // of the inputs; unset = internal
	MaxAge  time.Duration      // of the last verification of the inputs; 0 = no limit
	Schema  [32]byte           // SHA-256 of the argument schema
}
