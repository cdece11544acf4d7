package rlab

import "strings"

// Triple is a statement of a slot's value.
type Triple struct{ Subject, Predicate, Object string }

// String is the sentence that [Extract] takes the triple from.
func (t Triple) String() string { return t.Subject + "'s " + t.Predicate + " is " + t.Object }

// Extract takes a triple out of a sentence of the form "SUBJECT's PREDICATE is OBJECT", which
// stands for the extractor that a memory has. Any other sentence is prose. Every system may
// use it.
func Extract(text string) (t Triple, ok bool) {
	subject, rest, ok := strings.Cut(strings.TrimSuffix(strings.TrimSpace(text), "."), "'s ")
	if !ok {
		return Triple{}, false
	}
	predicate, object, ok := strings.Cut(rest, " is ")
	if !ok || subject == "" || predicate == "" || object == "" || strings.ContainsAny(predicate, ".,;?") || strings.Count(predicate, " ") > 2 {
		return Triple{}, false
	}
	return Triple{subject, predicate, object}, true
}
