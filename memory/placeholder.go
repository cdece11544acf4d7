package memory

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// What says that nothing is known is no answer. A source that gives it has not contradicted
// what it said before, and it is no value that a call may use.

// placeholders are the objects that say nothing, whatever the predicate. "None" and "NA" are not
// among them: a patient has no allergies, and Namibia has a code.
var placeholders = []string{"n/a", "n.a", "unknown", "not known", "not available", "undefined", "null", "tbd"}

const maxPlaceholder = 40 // bytes

const placeholderReason = "the object says that nothing is known"

// ErrPlaceholder: the object says that nothing is known, which no source verifies. It is an
// [ErrInsufficient].
var ErrPlaceholder = fmt.Errorf("%w: %s", ErrInsufficient, placeholderReason)

// SaysNothing reports whether an object says that nothing is known: in any letter case, and without
// the blanks and the punctuation around it, it is empty or one of n/a, n.a., unknown, not known,
// not available, undefined, null and tbd. An object of more than 40 bytes says something, if only
// in its blanks.
func SaysNothing(object string) bool {
	word := bare(object)
	return word == "" || slices.Contains(placeholders, word)
}

// bare is an object in small letters, without what stands around its words.
func bare(object string) string {
	around := func(r rune) bool {
		return unicode.IsSpace(r) || visible(r) < 0 || strings.ContainsRune(`.,;:!?()<>"'#-–—_`, r)
	}
	if len(object) > maxPlaceholder {
		return object
	}
	return strings.ToLower(strings.TrimFunc(object, around))
}

// SaysNothing is [SaysNothing] for an object of a predicate: what the registry lists as
// [Predicate.Placeholders] says nothing either.
func (s *Store) SaysNothing(predicate, object string) bool {
	return SaysNothing(object) || s.registry.saysNothing(predicate, object)
}

// saysNothing reports whether an object is registered as one that says nothing.
func (r predicates) saysNothing(predicate, object string) bool {
	return slices.Contains(r[ExactName(predicate)].Placeholders, placeholder(object))
}

// placeholder is what is compared of an object with what is registered.
func placeholder(object string) string { return strings.ToLower(strings.TrimSpace(object)) }
