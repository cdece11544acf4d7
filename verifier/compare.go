package verifier

// Match is how two values compare.
type Match uint8

// The matches. The zero value decides nothing.
const (
	MatchUnknown   Match = iota // they cannot be compared, or may be the same in other words
	MatchSame                   // they mean the same
	MatchDifferent              // they cannot mean the same
)

// String returns the name in lower case.
func (m Match) String() string {
	switch m {
	case MatchSame:
		return "same"
	case MatchDifferent:
		return "different"
	default:
		return "unknown"
	}
}

// Compare compares the claimed value with an observed one. It is pure, safe for
// concurrent use, and answers [MatchUnknown] when in doubt.
type Compare func(claimed, observed string) Match

// CompareByType compares by what the values look like.
func CompareByType(claimed, observed string) Match {
	if claimed == observed {
		return MatchSame
	}
	return MatchUnknown
}
