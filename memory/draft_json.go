package memory

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxDraftJSON is the most bytes of a draft in JSON.
const MaxDraftJSON = 2 << 20

const maxJSONDepth = 16

type draftWire struct {
	Content             Content     `json:"content"`
	Origin              Origin      `json:"origin"`
	State               State       `json:"state"`
	Asserter            Asserter    `json:"asserter"`
	DerivedFrom         []ID        `json:"derived_from"`
	SelectedBy          []ID        `json:"selected_by"`
	Subjects            []string    `json:"subjects"`
	LineageUnknown      bool        `json:"lineage_unknown"`
	Evidence            []Evidence  `json:"evidence"`
	Anchor              string      `json:"anchor"`
	Sensitivity         Sensitivity `json:"sensitivity"`
	Criticality         Criticality `json:"criticality"`
	Kind                Kind        `json:"kind"`
	Layer               Layer       `json:"layer"`
	ValueConfidence     float64     `json:"value_confidence"`
	ValidTimeConfidence float64     `json:"valid_time_confidence"`
	ValidFrom           time.Time   `json:"valid_from"`
	ValidUntil          time.Time   `json:"valid_until"`
	CheckEvery          string      `json:"check_every"` // as time.ParseDuration reads it
	Source              string      `json:"source"`
	Category            string      `json:"category"`
	Run                 string      `json:"run"`

	Supersedes           ID          `json:"supersedes"`
	Quotes               ID          `json:"quotes"`
	DeclaredFrom         []ID        `json:"declared_from"`
	AgentVersion         string      `json:"agent_version"`
	Task                 string      `json:"task"`
	Purpose              string      `json:"purpose"`
	DataClass            DataClass   `json:"data_class"`
	Domains              []string    `json:"domains"`
	SaidAt               time.Time   `json:"said_at"`
	ValidFromGrain       Granularity `json:"valid_from_grain"`
	ValidUntilGrain      Granularity `json:"valid_until_grain"`
	ValidFromConfidence  float64     `json:"valid_from_confidence"`
	ValidUntilConfidence float64     `json:"valid_until_confidence"`
	Foreign              []Attribute `json:"foreign"`
}

// DecodeDraft reads one draft from JSON and checks it as [Draft.Check] does. It
// is strict: an unknown field, a key given twice at any depth or in another
// letter case, anything after the object, invalid UTF-8 and more than
// [MaxDraftJSON] bytes are refused, each with a [*FieldError]. Origin and state
// have no default (I-1); content.cardinality is unknown if not given. The names
// of the fields are stable.
func DecodeDraft(b []byte) (Draft, error) {
	if len(b) > MaxDraftJSON {
		return Draft{}, invalid("draft", "too_long", "%d bytes, at most %d", len(b), MaxDraftJSON)
	}
	if !utf8.Valid(b) {
		return Draft{}, invalid("draft", "not_utf8", "invalid UTF-8")
	}
	if err := checkKeys(b); err != nil {
		return Draft{}, err
	}
	w := draftWire{Content: Content{Cardinality: CardinalityUnknown}}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return Draft{}, draftError(err)
	}
	d := Draft{Content: w.Content, Origin: w.Origin, State: w.State, Asserter: w.Asserter,
		DerivedFrom: w.DerivedFrom, SelectedBy: w.SelectedBy, Subjects: w.Subjects, LineageUnknown: w.LineageUnknown, Evidence: w.Evidence, Anchor: w.Anchor,
		Sensitivity: w.Sensitivity, Criticality: w.Criticality, Kind: w.Kind, Layer: w.Layer,
		ValueConfidence: w.ValueConfidence, ValidTimeConfidence: w.ValidTimeConfidence, ValidFrom: w.ValidFrom, ValidUntil: w.ValidUntil,
		Source: w.Source, Category: w.Category, Run: w.Run,
		Supersedes: w.Supersedes, Quotes: w.Quotes, DeclaredFrom: w.DeclaredFrom, AgentVersion: w.AgentVersion, Task: w.Task, Purpose: w.Purpose,
		DataClass: w.DataClass, Domains: w.Domains, SaidAt: w.SaidAt, ValidFromGrain: w.ValidFromGrain, ValidUntilGrain: w.ValidUntilGrain,
		ValidFromConfidence: w.ValidFromConfidence, ValidUntilConfidence: w.ValidUntilConfidence, Foreign: w.Foreign}
	if w.CheckEvery != "" {
		every, err := time.ParseDuration(w.CheckEvery)
		if err != nil {
			return Draft{}, invalid("check_every", "malformed", "not a duration such as 720h")
		}
		d.CheckEvery = every
	}
	if err := d.Check(); err != nil {
		return Draft{}, err
	}
	return d, nil
}

// checkKeys refuses what encoding/json lets pass: keys given twice, keys that
// match a field in another letter case, and trailing data.
func checkKeys(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	type level struct {
		object, value bool // value: the next token is a value of the last key
		keys          map[string]bool
	}
	var open []level
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return invalid("draft", "malformed", "not a JSON object")
		}
		if err != nil {
			return invalid("draft", "malformed", "not JSON")
		}
		if n := len(open); n > 0 && open[n-1].object && !open[n-1].value {
			if key, ok := tok.(string); ok {
				if key == "" || strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") != "" {
					return invalid(firstNonEmpty(clip(key, 40), "draft"), "unknown_field", "no such field")
				}
				if open[n-1].keys[key] {
					return invalid(key, "duplicate", "given twice")
				}
				open[n-1].keys[key], open[n-1].value = true, true
				continue
			}
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			if len(open) == maxJSONDepth {
				return invalid("draft", "too_deep", "more than %d levels", maxJSONDepth)
			}
			open = append(open, level{object: tok == json.Delim('{'), keys: map[string]bool{}})
			if len(open) == 1 && !open[0].object {
				return invalid("draft", "malformed", "not a JSON object")
			}
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			if tok != json.Delim('}') {
				return invalid("draft", "malformed", "not a JSON object")
			}
			if _, err := dec.Token(); !errors.Is(err, io.EOF) {
				return invalid("draft", "trailing_data", "something follows the object")
			}
			return nil
		}
		open[len(open)-1].value = false
	}
}

func draftError(err error) error {
	var field *FieldError
	if errors.As(err, &field) {
		return field
	}
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) {
		return invalid(firstNonEmpty(typed.Field, "draft"), "wrong_type", "a JSON %s does not fit", typed.Value)
	}
	if name, ok := strings.CutPrefix(err.Error(), `json: unknown field "`); ok {
		return invalid(clip(strings.TrimSuffix(name, `"`), 40), "unknown_field", "no such field")
	}
	return invalid("draft", "malformed", "%s", strings.TrimPrefix(err.Error(), "json: "))
}

var flagNames = [...]struct {
	flag Flags
	name string
}{{FlagContested, "contested"}, {FlagTainted, "tainted"}, {FlagLineageUnknown, "lineage_unknown"}, {FlagTraced, "traced"}, {FlagErased, "erased"}, {FlagOwnWord, "own_word"},
	{FlagOwnDispute, "own_dispute"}, {FlagDamaged, "damaged"}, {FlagOutdated, "outdated"}, {FlagImported, "imported"}}

// Names returns the wire names of the flags that are set, in a fixed order.
func (f Flags) Names() []string {
	var out []string
	for _, n := range flagNames {
		if f&n.flag != 0 {
			out = append(out, n.name)
		}
	}
	return out
}

// MarshalJSON writes the row with its state, its axes and all that is known of
// it, in snake_case names that are stable; the origin has its short name, as in
// [Origin.String]. Digests are hexadecimal; times that are not stated and lists that
// are empty are left out.
func (r Row) MarshalJSON() ([]byte, error) {
	hash := r.Content.Hash()
	return json.Marshal(struct {
		ID                  ID          `json:"id"`
		Revision            uint64      `json:"revision"`
		State               State       `json:"state"`
		Origin              string      `json:"origin"`
		Content             Content     `json:"content"`
		Asserter            Asserter    `json:"asserter"`
		Truth               Truth       `json:"truth"`
		Retrieval           Retrieval   `json:"retrieval"`
		Security            Security    `json:"security"`
		Freshness           Freshness   `json:"freshness"`
		Outage              Outage      `json:"outage"`
		Rank                Rank        `json:"rank,omitzero"`
		Flags               []string    `json:"flags,omitempty"`
		Sensitivity         Sensitivity `json:"sensitivity"`
		Criticality         Criticality `json:"criticality"`
		Kind                Kind        `json:"kind"`
		Layer               string      `json:"layer"` // "unset" if nobody said
		Depth               uint32      `json:"depth"`
		DerivedFrom         []ID        `json:"derived_from,omitempty"`
		SelectedBy          []ID        `json:"selected_by,omitempty"`
		Subjects            []string    `json:"subjects,omitempty"`
		Evidence            []Evidence  `json:"evidence,omitempty"`
		Echoes              Echoes      `json:"echoes,omitzero"`
		Rejection           *Rejection  `json:"rejection,omitempty"`
		Anchor              string      `json:"anchor,omitempty"`
		ValueConfidence     float64     `json:"value_confidence"`
		ValidTimeConfidence float64     `json:"valid_time_confidence"`
		CreatedAt           time.Time   `json:"created_at"`
		VerifiedAt          time.Time   `json:"verified_at,omitzero"`
		StaleAt             time.Time   `json:"stale_at,omitzero"`
		ExpiresAt           time.Time   `json:"expires_at,omitzero"`
		ValidFrom           time.Time   `json:"valid_from,omitzero"`
		ValidUntil          time.Time   `json:"valid_until,omitzero"`
		ContentHash         string      `json:"content_hash"`
		Claim               string      `json:"claim"`
		Group               string      `json:"group"`
		Source              string      `json:"source"`
		Category            string      `json:"category,omitempty"`
		Run                 string      `json:"run,omitempty"`

		Supersedes           ID          `json:"supersedes,omitempty"`
		Quotes               ID          `json:"quotes,omitempty"`
		DeclaredFrom         []ID        `json:"declared_from,omitempty"`
		AgentVersion         string      `json:"agent_version,omitempty"`
		Task                 string      `json:"task,omitempty"`
		Purpose              string      `json:"purpose,omitempty"`
		DataClass            DataClass   `json:"data_class,omitzero"`
		Domains              []string    `json:"domains,omitempty"`
		SaidAt               time.Time   `json:"said_at,omitzero"`
		ValidFromGrain       Granularity `json:"valid_from_grain,omitzero"`
		ValidUntilGrain      Granularity `json:"valid_until_grain,omitzero"`
		ValidFromConfidence  float64     `json:"valid_from_confidence,omitzero"`
		ValidUntilConfidence float64     `json:"valid_until_confidence,omitzero"`
		Foreign              []Attribute `json:"foreign,omitempty"`
	}{
		r.ID, r.Revision, r.State(), r.Origin.String(), r.Content, r.Asserter, r.Truth, r.Retrieval, r.Security, r.Freshness, r.Outage,
		r.Rank, r.Flags.Names(), r.Sensitivity, r.Criticality, r.Kind, r.Layer.String(), r.Depth, r.DerivedFrom, r.SelectedBy, r.Subjects, r.Evidence,
		r.Echoes, r.Rejection, r.Anchor, r.ValueConfidence, r.ValidTimeConfidence, r.CreatedAt, r.VerifiedAt, r.StaleAt, r.ExpiresAt,
		r.ValidFrom, r.ValidUntil, hex.EncodeToString(hash[:]), r.Content.ClaimKey().String(), r.Asserter.Group(), r.Source, r.Category, r.Run,
		r.Supersedes, r.Quotes, r.DeclaredFrom, r.AgentVersion, r.Task, r.Purpose, r.DataClass, r.Domains, r.SaidAt, r.ValidFromGrain, r.ValidUntilGrain,
		r.ValidFromConfidence, r.ValidUntilConfidence, r.Foreign,
	})
}
