package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"

	"github.com/gowebpki/jcs"

	"github.com/hearsay-go/hearsay/memory"
)

// Lineage is the set of rows that fed a call. The zero Lineage is unknown, which
// is not empty: an empty one must be said with Known(nil, nil).
type Lineage struct {
	known     bool
	why       string
	direct    []memory.ID
	ancestors []memory.ID
}

// Known is a lineage of which every row is named: those whose text reached the
// run, and the strict ancestors of these. The slices are kept, not copied.
func Known(direct, ancestors []memory.ID) Lineage {
	return Lineage{known: true, direct: direct, ancestors: ancestors}
}

// Unknown is a lineage of which part is lost, and why. It blocks.
func Unknown(why string) Lineage { return Lineage{why: why} }

// IsKnown reports whether every row is named.
func (l Lineage) IsKnown() bool { return l.known }

// Why says what was lost; "" if nothing was, or nobody said.
func (l Lineage) Why() string { return l.why }

// Direct are the rows whose text reached the run.
func (l Lineage) Direct() []memory.ID { return l.direct }

// Ancestors are the rows that the direct ones were made from.
func (l Lineage) Ancestors() []memory.ID { return l.ancestors }

// Source says where a sink argument came from, as far as the runtime can show.
type Source uint8

// The sources. The zero value is the worst: the model made it up.
const (
	SourceNowhere   Source = iota
	SourcePrincipal        // verbatim in the principal's typed words
	SourceRow              // verbatim the typed object of a row of the lineage
	SourceField            // verbatim an authoritative field
	SourceHandle           // bound through a handle
	SourceShort            // too short to show anything; the whole run answers for it
)

// Sink is one argument where harm is decided.
type Sink struct {
	Pointer string
	Value   string
	Source  Source
	Row     memory.ID // of SourceRow and SourceField
}

// Request asks whether a call may run. It names rows and never their states.
type Request struct {
	Contract  Contract
	Args      json.RawMessage // canonical, see Canonical
	CallID    string          // the id the model gave the call
	Agent     string
	Run       string
	Principal string
	Lineage   Lineage
	Sinks     []Sink
}

// MaxArguments is the most bytes of arguments a call may have.
const MaxArguments = 1 << 20

// ErrArguments is the sentinel of [*ArgumentError].
var ErrArguments = errors.New("gate: invalid arguments")

// ArgumentError says which argument broke which rule. The call was not decided
// and did not run. errors.Is(err, ErrArguments) holds.
type ArgumentError struct {
	Pointer string // JSON pointer; "" = the arguments as a whole
	Rule    string // malformed, duplicate_key, number_too_large, too_large, not_an_object, schema
	Text    string
}

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("gate: arguments %q: %s (%s)", e.Pointer, e.Text, e.Rule)
}

// Is reports whether target is [ErrArguments].
func (e *ArgumentError) Is(target error) bool { return target == ErrArguments }

var maxExact = new(big.Int).Lsh(big.NewInt(1), 53)

// Canonical returns the RFC 8785 form of a call's arguments. Empty arguments are
// {}. Refused are: what is no JSON object, a key twice, an integer beyond 2^53
// (two of them would become one), and more than MaxArguments bytes.
func Canonical(args []byte) ([]byte, error) {
	if len(args) > MaxArguments {
		return nil, &ArgumentError{Rule: "too_large", Text: fmt.Sprintf("%d bytes, at most %d", len(args), MaxArguments)}
	}
	trimmed := bytes.TrimSpace(args)
	if len(trimmed) == 0 {
		return []byte("{}"), nil
	}
	if trimmed[0] != '{' {
		return nil, &ArgumentError{Rule: "not_an_object", Text: "arguments are a JSON object"}
	}
	if !json.Valid(trimmed) {
		return nil, &ArgumentError{Rule: "malformed", Text: "not JSON"}
	}
	if err := exactNumbers(trimmed); err != nil {
		return nil, err
	}
	out, err := jcs.Transform(trimmed)
	if err != nil {
		return nil, &ArgumentError{Rule: "malformed", Text: "no canonical form: a key twice, or a number or text that JSON cannot carry"}
	}
	return out, nil
}

func exactNumbers(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	for {
		t, err := dec.Token()
		if err != nil {
			return nil // the end; b was valid
		}
		n, ok := t.(json.Number)
		if !ok {
			continue
		}
		if len(n) > 400 {
			return &ArgumentError{Rule: "number_too_large", Text: "a number of more than 400 characters"}
		}
		i, isInt := new(big.Int).SetString(n.String(), 10)
		f, rangeErr := n.Float64()
		if isInt && i.CmpAbs(maxExact) > 0 || !isInt && (rangeErr != nil || math.Abs(f) > 1<<53) {
			return &ArgumentError{Rule: "number_too_large", Text: "an integer beyond 2^53; send it as a string"}
		}
	}
}
