package memory

import (
	"bytes"
	"encoding/json"
)

// Origin says who spoke. It is chosen once, when the row is written, and has no
// setter (MP-4, I-2). The zero value is unset: no row can be written with it.
type Origin uint8

// The four labels (MP-5..MP-8).
const (
	// OriginUserAsserted: a person said it first hand, over the principal's own
	// channel. Only the runtime makes it, from typed words (I-13).
	OriginUserAsserted Origin = iota + 1
	// OriginFirstHand: a tool result, a system of record, a sensor.
	OriginFirstHand
	// OriginRecallReentry: what memory served, coming back. It supports nothing.
	OriginRecallReentry
	// OriginModelDerived: a model said or inferred it; the label of all model
	// output that is not recognised as recall.
	OriginModelDerived
)

var originEnum = enum[Origin]{"origin", []string{"", "user_asserted", "first_hand", "recall_reentry", "model_derived"}}

type originWire struct {
	Type string `json:"type"`
	Kind string `json:"kind,omitempty"`
}

var originWires = [...]originWire{
	OriginUserAsserted:  {"External", "UserAsserted"},
	OriginFirstHand:     {"External", "ExternalFirstHand"},
	OriginRecallReentry: {"RecallReEntry", ""},
	OriginModelDerived:  {"ModelDerived", ""},
}

// String returns the short name (user_asserted, first_hand, recall_reentry,
// model_derived), or "unset".
func (o Origin) String() string { return originEnum.text(o) }

// ParseOrigin reads a short name; anything else is a [*FieldError].
func ParseOrigin(s string) (Origin, error) { return originEnum.parse(s) }

// External reports whether the origin is first hand: a person or a source
// outside the model.
func (o Origin) External() bool { return o == OriginUserAsserted || o == OriginFirstHand }

// MarshalJSON writes the wire shape of the seed, for instance
// {"type":"External","kind":"UserAsserted"} or {"type":"RecallReEntry"}.
func (o Origin) MarshalJSON() ([]byte, error) {
	if err := originEnum.check(o); err != nil {
		return nil, err
	}
	return json.Marshal(originWires[o])
}

// UnmarshalJSON accepts exactly the four wire shapes: no other key, no other
// letter case, no key twice.
func (o *Origin) UnmarshalJSON(b []byte) error {
	var compact bytes.Buffer
	if err := json.Compact(&compact, b); err != nil {
		return invalid("origin", "malformed", "not JSON")
	}
	for i, w := range originWires {
		if i == 0 {
			continue
		}
		want, err := json.Marshal(w)
		if err != nil {
			return err
		}
		swapped := []byte(`{"kind":"` + w.Kind + `","type":"` + w.Type + `"}`)
		if bytes.Equal(compact.Bytes(), want) || w.Kind != "" && bytes.Equal(compact.Bytes(), swapped) {
			*o = Origin(i)
			return nil
		}
	}
	return invalid("origin", "unknown_value", "not one of the four origin shapes")
}
