package memory

import (
	"slices"
	"time"
)

// A principal speaks for the subject of its own name, and that word counts in calls made
// for that principal (I-13). Elsewhere it is unverified evidence: it verifies nothing, and
// it takes nothing from a row that stands on anybody else's. A principal to whom somebody
// gave a scope beyond itself counts everywhere.

// ownWord is the authority of evidence that is a principal's word about itself.
const ownWord = "own"

// own reports whether a principal speaks for a subject only because it bears its name.
func (s *Store) own(principal, subject, predicate string) bool {
	return SameName(principal, subject) && !s.authority(principal, "", predicate)
}

// asOwn marks the evidence of a principal's word about itself.
func asOwn(evidence []Evidence) []Evidence {
	out := slices.Clone(evidence)
	for i := range out {
		if out[i].Rank == RankUser {
			out[i].Authority = ownWord
		}
	}
	return out
}

// everybodys is the evidence that counts in everybody's calls.
func everybodys(evidence []Evidence) []Evidence {
	return slices.DeleteFunc(slices.Clone(evidence), func(e Evidence) bool { return e.Rank == RankUser && e.Authority == ownWord })
}

// For is the head as it counts in calls made for the principal that speaker stands for.
// The own word of somebody else verifies nothing there; where the speaker's own word says
// otherwise the row is outranked, and where somebody else's does it is contested.
func (h Head) For(speaker Token) Head {
	its := h.Speaker == speaker && speaker != Token{}
	switch {
	case h.Has(FlagOwnWord) && !its:
		h.Truth, h.Rank = TruthUnverified, 0
	case h.Has(FlagOwnDispute) && its && h.Rank < RankUser:
		h.Truth, h.Rank = TruthContradicted, 0
	case h.Has(FlagOwnDispute):
		h.Flags |= FlagContested
	}
	return h
}

// For is the row as it counts in calls made for a principal; see [Head.For]. A word that
// counts for one is one about the subject of its own name.
func (r Row) For(principal string) Row {
	speaker := Token{}
	if principal != "" && SameName(principal, r.Content.Subject) {
		speaker = r.Speaker
	}
	r.Head = r.Head.For(speaker)
	return r
}

// For is the fitness with each head as it counts in calls made for a principal; see
// [Head.For]. It costs nothing unless a head has an own word to it.
func (f Fitness) For(speaker Token) Fitness {
	own := func(h Head) bool { return h.Flags&(FlagOwnWord|FlagOwnDispute) != 0 }
	first := slices.IndexFunc(f.Heads, own)
	if first < 0 {
		return f
	}
	f.Heads = slices.Clone(f.Heads)
	for i := first; i < len(f.Heads); i++ {
		f.Heads[i] = f.Heads[i].For(speaker)
	}
	return f
}

// dispute notes that the own word of a principal says otherwise than the row.
func (r *bystander) dispute(tx *transaction, e AuditEntry, speaker Token, now time.Time) {
	if r.Has(FlagOwnDispute) && r.Speaker == speaker {
		return
	}
	next := r.Head
	next.Flags |= FlagOwnDispute
	next.Speaker = speaker
	tx.head(r.Head, next, nil, r.entry(e, EntryContest, r.Truth, now), change{})
}

// agree ends a dispute: whoever's own word said otherwise says so no more.
func (r *bystander) agree(tx *transaction, e AuditEntry, now time.Time) {
	next := r.Head
	next.Flags &^= FlagOwnDispute
	next.Speaker = Token{}
	tx.head(r.Head, next, nil, r.entry(e, EntryContest, r.Truth, now), change{})
}
