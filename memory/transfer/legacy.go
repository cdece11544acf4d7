package transfer

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// trustWords are the members by which a program says how far it believes a line.
var trustWords = [...]string{"verified", "state", "status", "provenance", "confidence", "trust", "trusted"}

// parseLegacy reads a line of another program. What it says of itself raises nothing
// (I-1, SR-1.8): it is a claim of a model, unverified, made from what nobody knows.
func parseLegacy(line []byte, o Options) (memory.Imported, error) {
	if err := scan(line, false); err != nil {
		return memory.Imported{}, err
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(line, &all) != nil {
		return memory.Imported{}, bad(wholeLine, "malformed")
	}
	var fault error
	text := func(names ...string) string {
		for _, name := range names {
			raw, ok := all[name]
			if !ok || string(raw) == "null" {
				continue
			}
			var s string
			if json.Unmarshal(raw, &s) != nil && fault == nil {
				fault = bad(name, "wrong_type")
			}
			return s
		}
		return ""
	}
	m := memory.Imported{Name: hashed(line).String()}
	m.Draft = memory.Draft{
		Content: memory.Content{Text: text("text", "content"), Subject: text("subject"), Predicate: text("predicate"), Object: text("object"),
			Cardinality: memory.CardinalityUnknown},
		Origin: memory.OriginModelDerived, State: memory.StateUnverified, LineageUnknown: true, Sensitivity: o.Sensitivity,
		Asserter: memory.Asserter{Principal: o.Actor, Model: text("model", "model_used"), Family: memory.ImportedBy},
		Source:   text("source"), Category: text("category"),
	}
	if strings.TrimSpace(m.Draft.Asserter.Model) == "" {
		m.Draft.Asserter.Model = memory.ImportedBy
	}
	var said []string
	for _, word := range trustWords {
		if raw, ok := all[word]; ok && len(raw) <= 40 {
			said = append(said, word+" "+string(raw))
		}
	}
	if said != nil {
		m.Note = "it said of itself: " + strings.Join(said, ", ")
	}
	for _, name := range [...]string{"created_at", "timestamp"} {
		raw, ok := all[name]
		if !ok || string(raw) == "null" || !m.WrittenAt.IsZero() || fault != nil {
			continue
		}
		m.WrittenAt, fault = legacyTime(name, raw)
	}
	return m, fault
}

// legacyTime reads a time as programs write it: RFC 3339 with or without a zone, or
// seconds since 1970.
func legacyTime(name string, raw json.RawMessage) (time.Time, error) {
	var (
		seconds float64
		s       string
		t       time.Time
	)
	switch {
	case json.Unmarshal(raw, &seconds) == nil:
		whole, part := math.Modf(seconds)
		if math.Abs(whole) > 1<<40 {
			return t, bad(name, "out_of_range")
		}
		t = time.Unix(int64(whole), int64(part*1e9))
	case json.Unmarshal(raw, &s) == nil:
		err := error(bad(name, "malformed"))
		for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", time.DateOnly} {
			if t, err = time.Parse(layout, s); err == nil {
				break
			}
		}
		if err != nil {
			return time.Time{}, bad(name, "malformed")
		}
	default:
		return t, bad(name, "wrong_type")
	}
	if !inRange(t) {
		return time.Time{}, bad(name, "out_of_range")
	}
	return t.UTC(), nil
}
