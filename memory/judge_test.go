package memory_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// The facts of these tests are of one row: acme's city is Oslo, as a model of the family claude said.
var (
	judgedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	oslo     = memory.Content{Subject: "acme", Predicate: "city", Object: "Oslo", Cardinality: memory.CardinalityFunctional}
	rome     = memory.Content{Subject: "acme", Predicate: "city", Object: "Rome", Cardinality: memory.CardinalityFunctional}
)

const (
	inFavour = memory.RelationSupports
	opposed  = memory.RelationContradicts
	tool     = memory.RankTool
	primary  = memory.RankPrimarySource
	user     = memory.RankUser
	second   = memory.RankSecondModel
	probe    = memory.AuthorityProbe
)

// groupOf is the token of an independence group.
func groupOf(folded string) (t memory.Token) {
	copy(t[:], folded)
	return t
}

// evid is evidence of a group. Later evidence comes later.
func evid(r memory.Relation, rank memory.Rank, group string) memory.Evidence {
	return memory.Evidence{Relation: r, Rank: rank, Source: group, Verifier: "v", Group: group, Anchor: memory.Anchor{URI: group + "://1"}, At: judgedAt.Add(-time.Hour)}
}

func later(e memory.Evidence) memory.Evidence {
	e.At, e.Anchor.Version = judgedAt, "2"
	return e
}

func void(e memory.Evidence) memory.Evidence {
	e.Void = true
	return e
}

// standing is the row at a truth, verified at a rank.
func standing(t memory.Truth, rank memory.Rank, change ...func(*memory.Head)) memory.Head {
	h := memory.Head{ID: "mem_1", Revision: 3, Origin: memory.OriginModelDerived, Truth: t, Rank: rank, Retrieval: memory.RetrievalNormal, Security: memory.SecurityClean,
		Freshness: memory.FreshnessFresh, Outage: memory.OutageNone, Criticality: memory.CriticalityCritical, Sensitivity: memory.SensitivityInternal,
		Claim: groupOf("claim"), Group: groupOf("claude"), CreatedAt: judgedAt.Add(-time.Hour), VerifiedAt: judgedAt.Add(-time.Hour),
		StaleAt: judgedAt.Add(time.Hour), ExpiresAt: judgedAt.Add(5 * time.Hour)}
	for _, f := range change {
		f(&h)
	}
	return h
}

func flagged(f memory.Flags) func(*memory.Head) { return func(h *memory.Head) { h.Flags |= f } }

func from(o memory.Origin, group string) func(*memory.Head) {
	return func(h *memory.Head) { h.Origin, h.Group = o, groupOf(group) }
}

func critical(c memory.Criticality) func(*memory.Head) {
	return func(h *memory.Head) { h.Criticality = c }
}

// move is the facts of a move.
func move(row memory.Head, to memory.AxisValue, by memory.Authority, change ...func(*memory.Facts)) memory.Facts {
	f := memory.Facts{Event: memory.EventMoved, Now: judgedAt, Row: row, Content: oslo, To: to, By: by, Actor: "ana", MaySpeak: true, Source: "crm", Reason: "why", Whole: true,
		Asserter: "family:claude", Kin: memory.Kin{Claim: row, Group: groupOf}}
	for _, c := range change {
		c(&f)
	}
	return f
}

func verify(row memory.Head, change ...func(*memory.Facts)) memory.Facts {
	return move(row, memory.TruthSupported, probe, change...)
}

// of is the facts of another event.
func of(e memory.Event, row memory.Head, change ...func(*memory.Facts)) memory.Facts {
	f := memory.Facts{Event: e, Now: judgedAt, Row: row, Content: oslo, Kin: memory.Kin{Claim: row, Group: groupOf}, Whole: true}
	for _, c := range change {
		c(&f)
	}
	return f
}

// born is what a source writes as verified.
func born(o memory.Origin, group string, change ...func(*memory.Facts)) memory.Facts {
	row := memory.Head{ID: "mem_1", Origin: o, Claim: groupOf("claim"), Group: groupOf(group), Sensitivity: memory.SensitivityInternal, StaleAt: judgedAt.Add(time.Hour), ExpiresAt: judgedAt.Add(3 * time.Hour)}
	f := of(memory.EventWritten, row)
	f.Wanted = memory.StateVerified
	if o == memory.OriginUserAsserted {
		f.By = memory.AuthorityUser
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func said(e ...memory.Evidence) func(*memory.Facts) {
	return func(f *memory.Facts) { f.Said = append(f.Said, e...) }
}

func had(e ...memory.Evidence) func(*memory.Facts) {
	return func(f *memory.Facts) { f.Standing = append(f.Standing, e...) }
}

// besideIt are verified rows of the line.
func besideIt(rows ...memory.Beside) func(*memory.Facts) {
	return func(f *memory.Facts) { f.Line = append(f.Line, rows...) }
}

// rivalOf is a verified row that says Rome.
func rivalOf(rank memory.Rank, group string, change ...func(*memory.Head)) memory.Beside {
	h := standing(memory.TruthSupported, rank, change...)
	h.ID, h.Claim = "mem_2", groupOf("another")
	return memory.Beside{Row: h, Content: rome, Evidence: []memory.Evidence{evid(inFavour, rank, group)}}
}

// sibling is a verified row of the claim.
func sibling(rank memory.Rank, c memory.Content) memory.Beside {
	h := standing(memory.TruthSupported, rank)
	h.ID = "mem_3"
	return memory.Beside{Row: h, Content: c}
}

func claimed(rows ...memory.Beside) func(*memory.Facts) {
	return func(f *memory.Facts) { f.Claimed = append(f.Claimed, rows...) }
}

func answered(o memory.Outcome, e memory.Evidence, heard ...memory.Evidence) func(*memory.Facts) {
	return func(f *memory.Facts) { f.Answer = memory.Answer{Outcome: o, Evidence: e, Heard: heard} }
}

func nothing(f *memory.Facts) { f.Nothing = true }

func byCRM(f *memory.Facts) { f.Asserter = "tool:crm" }

func elsewhere(f *memory.Facts) { f.Elsewhere = []string{"tool:crm"} }

func respelt(f *memory.Facts) { f.Respelt = []string{"tool:crm"} }

func rejectedAs(r memory.Reach) func(*memory.Facts) {
	return func(f *memory.Facts) { f.Reach, f.RejectedBy = r, "ben" }
}

// shown is a verdict in a few words.
func shown(v memory.Verdict) string {
	if v.Err != nil {
		for _, known := range []struct {
			err  error
			name string
		}{{memory.ErrOwnWrite, "own write"}, {memory.ErrInsufficient, "insufficient"}, {memory.ErrRejected, "rejected"}, {memory.ErrOutranked, "outranked"}, {memory.ErrNoAuthority, "no authority"},
			{memory.ErrRevoked, "revoked"}, {memory.ErrOvertaken, "overtaken"}, {memory.ErrInvalid, "invalid"}, {memory.ErrIllegalMove, "illegal"}} {
			if errors.Is(v.Err, known.err) {
				return known.name
			}
		}
		return "refused"
	}
	h := &v.Next
	words := []string{h.Truth.String()}
	add := func(is bool, word string) {
		if is {
			words = append(words, word)
		}
	}
	add(h.Rank != 0, h.Rank.String())
	for _, f := range []struct {
		flag memory.Flags
		word string
	}{{memory.FlagContested, "contested"}, {memory.FlagOwnWord, "own"}, {memory.FlagOwnDispute, "disputed"}, {memory.FlagOutdated, "outdated"}, {memory.FlagTainted, "tainted"}, {memory.FlagLineageUnknown, "unknown"}} {
		add(h.Has(f.flag), f.word)
	}
	add(h.Security > memory.SecurityClean, h.Security.String())
	add(h.Retrieval != 0 && h.Retrieval != memory.RetrievalNormal, h.Retrieval.String())
	add(h.Sensitivity > memory.SensitivityInternal, h.Sensitivity.String())
	add(h.Freshness > memory.FreshnessFresh, h.Freshness.String())
	add(h.Outage > memory.OutageNone, h.Outage.String())
	add(v.Voids, "voids")
	add(v.VoidsAll, "voids all")
	add(v.Clears, "clears")
	add(v.Kept, "kept")
	add(v.Contested != nil, "against")
	effects := [...]string{"-", "demote", "outdate", "contest", "dispute", "undispute"}
	for _, e := range v.Line {
		words = append(words, "line:"+effects[e.Do])
	}
	for _, e := range v.Claimed {
		words = append(words, "claim:"+effects[e.Do])
	}
	add(v.Ask != 0, v.Ask.String())
	return strings.Join(words, " ")
}

var (
	unverified   = standing(memory.TruthUnverified, 0)
	byTool       = standing(memory.TruthSupported, tool)
	byUser       = standing(memory.TruthSupported, user)
	contradicted = standing(memory.TruthContradicted, 0)
	outdated     = standing(memory.TruthSuperseded, 0, flagged(memory.FlagOutdated))
	retracted    = standing(memory.TruthSuperseded, 0)
	crm, erp     = evid(inFavour, tool, "tool:crm"), evid(inFavour, tool, "tool:erp")
	refuted      = evid(opposed, tool, "tool:erp")
	person       = evid(inFavour, user, "user:ana")
)

// judged are the rules of trust, and facts that show each. A rule that is switched off fails the
// subtest of its name: go run ./internal/ruleoff tries it.
var judged = map[string][]struct {
	facts memory.Facts
	want  string
}{
	"an event is named": {{memory.Facts{}, "invalid"}, {memory.Facts{Event: memory.EventMoved}, "invalid"}},

	// What a row is written as.
	"a first-hand source is believed":              {{born(memory.OriginFirstHand, "crm", said(crm)), "supported tool"}},
	"what was revoked verifies no new row":         {{born(memory.OriginFirstHand, "crm", said(crm), isRevoked), "unverified voids"}},
	"a person speaks only where she has authority": {{born(memory.OriginUserAsserted, "ana", said(person)), "unverified voids"}, {born(memory.OriginUserAsserted, "ana", said(person), maySpeak), "supported user"}},
	"a source speaks only for its predicates":      {{born(memory.OriginFirstHand, "crm", said(crm), func(f *memory.Facts) { f.Mute = true }), "unverified voids"}},
	"what says nothing is not written as verified": {{born(memory.OriginFirstHand, "crm", said(crm), nothing), "unverified voids"},
		{born(memory.OriginUserAsserted, "ana", said(person), maySpeak, nothing), "supported user"}},
	"what says nothing no source verifies": {{verify(unverified, said(crm), nothing), "insufficient"}, {verify(unverified, said(person), actsAs(memory.AuthorityUser), nothing), "supported user"}},
	"a value rejected elsewhere its source does not write as verified": {{born(memory.OriginFirstHand, "crm", said(crm), byCRM, elsewhere), "unverified voids"},
		{born(memory.OriginFirstHand, "erp", said(erp), elsewhere), "supported tool"}, {born(memory.OriginUserAsserted, "ana", said(person), maySpeak, byCRM, elsewhere), "supported user"}},
	"a second spelling is not written as verified": {{born(memory.OriginFirstHand, "crm", said(crm), byCRM, respelt), "unverified voids"}},
	"what does not count for a subject verifies nothing": {{verify(unverified, had(crm), said(later(evid(inFavour, second, "family:gpt"))), elsewhere), "insufficient"},
		{verify(unverified, said(crm), respelt), "insufficient"}, {verify(unverified, said(crm, erp), respelt), "supported tool"}},
	"what does not count for a subject makes no history": {{verify(unverified, had(crm), said(erp), elsewhere, besideIt(rivalOf(tool, "tool:crm"))), "supported tool contested line:contest"}},
	"a source that repeats our own call is no source": {{born(memory.OriginFirstHand, "crm", said(crm), repeats), "unverified voids"},
		{born(memory.OriginUserAsserted, "ana", said(person), maySpeak, repeats), "supported user"}},
	"what a person rejected no source writes as verified": {{born(memory.OriginFirstHand, "crm", said(crm), rejectedAs(memory.ReachesName)), "unverified contested voids"},
		{born(memory.OriginFirstHand, "crm", said(crm), rejectedAs(memory.ReachesClaim)), "unverified contested voids"},
		{born(memory.OriginFirstHand, "crm", said(crm), rejectedAs(memory.ReachesNamesake)), "supported tool"}},
	"a person with authority ends a rejection": {{born(memory.OriginUserAsserted, "ana", said(person), maySpeak, rejectedAs(memory.ReachesName)), "supported user clears"},
		{verify(contradicted, said(person), actsAs(memory.AuthorityUser), rejectedAs(memory.ReachesName)), "supported user clears"}},
	"her own word ends no rejection of a larger scope": {{born(memory.OriginUserAsserted, "ana", said(person), maySpeak, ownName, rejectedAs(memory.ReachesName)), "supported user own"},
		{born(memory.OriginUserAsserted, "ana", said(person), maySpeak, ownName, rejectedAs(memory.ReachesName), func(f *memory.Facts) { f.RejecterOwn = true }), "supported user own clears"}},
	"a claim that rests on itself verifies nothing": {{born(memory.OriginFirstHand, "crm", said(crm), above(memory.Head{Revision: 1, Claim: groupOf("claim")})), "unverified voids"},
		{born(memory.OriginUserAsserted, "ana", said(person), maySpeak, above(memory.Head{Revision: 1, Claim: groupOf("claim")})), "unverified voids"}},
	"a source that was fed its own output says nothing new": {{born(memory.OriginFirstHand, "crm", said(crm), above(memory.Head{Revision: 1, Claim: groupOf("x"), Group: groupOf("crm")})), "unverified voids"}},
	"what contradicts one row of a claim stands against all": {{born(memory.OriginFirstHand, "crm", said(crm), against(refuted)), "unverified voids"},
		{verify(unverified, said(crm), against(refuted)), "insufficient"}, {verify(unverified, had(later(evid(opposed, tool, "tool:crm"))), said(crm), against()), "supported tool"}, // what is said last counts, whatever its clock says
		{verify(unverified, had(later(crm)), said(erp), against(evid(opposed, tool, "tool:crm"))), "supported tool"}, {verify(unverified, had(crm), said(erp), against(later(evid(opposed, tool, "tool:crm")))), "insufficient"}, {verify(unverified, said(crm), against(later(evid(opposed, tool, "tool:crm")))), "supported tool"},
		{verify(unverified, said(later(erp)), against(refuted)), "supported tool"}},
	"what is not known stands against a claim": {{born(memory.OriginFirstHand, "crm", said(crm), unknown), "unverified voids"},
		{verify(unverified, said(evid(inFavour, primary, "register")), unknown), "insufficient"},
		{verify(unverified, said(person), actsAs(memory.AuthorityUser), unknown), "supported user"}},
	"suspicion flows down": {{plainly(memory.OriginModelDerived, memory.Head{Security: memory.SecurityQuarantined}), "unverified tainted suspicious voids"},
		{plainly(memory.OriginModelDerived, memory.Head{Security: memory.SecurityClean, Flags: memory.FlagTainted}), "unverified tainted suspicious voids"}},
	"secrecy flows down":                                        {{plainly(memory.OriginModelDerived, memory.Head{Security: memory.SecurityClean, Sensitivity: memory.SensitivityConfidential}), "unverified confidential voids"}},
	"secrecy of a quotation":                                    {{of(memory.EventWritten, memory.Head{Origin: memory.OriginModelDerived}, func(f *memory.Facts) { f.Quoted = &memory.Head{Sensitivity: memory.SensitivityConfidential} }), "unverified confidential voids"}},
	"unknown lineage flows down":                                {{plainly(memory.OriginModelDerived, memory.Head{Security: memory.SecurityClean, Truth: memory.TruthUnverified, Flags: memory.FlagLineageUnknown}), "unverified unknown voids"}},
	"recall that matched nothing stays out of the main channel": {{plainly(memory.OriginRecallReentry), "unverified restricted voids"}},
	"an answer that was overtaken is history": {{born(memory.OriginFirstHand, "crm", said(crm), tooLate), "superseded outdated voids"}, {verify(unverified, said(crm), tooLate), "overtaken"},
		{of(memory.EventRenewed, byUser, said(crm), actsAs(probe), tooLate), "overtaken"}},
	"a row without room in its claim is contested": {{born(memory.OriginFirstHand, "crm", said(crm), full), "supported tool contested"}, {verify(unverified, said(crm), full), "supported tool contested"}},
	"a principal's word about itself counts for it": {{born(memory.OriginUserAsserted, "ana", said(person), maySpeak, ownName), "supported user own"},
		{verify(unverified, said(person), actsAs(memory.AuthorityUser), ownName), "supported user own"}},

	"an import keeps what was held against it": {{imported(memory.Imported{Flags: memory.FlagContested | memory.FlagTainted}), "unverified contested tainted voids"}},
	"an import is no less suspect than there":  {{imported(memory.Imported{Security: memory.SecurityQuarantined}), "unverified tainted quarantined voids"}},
	"an import is shown no more than there":    {{imported(memory.Imported{Retrieval: memory.RetrievalHidden}), "unverified hidden voids"}},

	// What a move needs.
	"what was revoked moves nothing": {{verify(unverified, said(crm), isRevoked), "revoked"}},
	"a source that repeats our own call verifies nothing": {{verify(unverified, said(crm), repeats), "own write"}, {verify(unverified, said(person), actsAs(memory.AuthorityUser), repeats), "supported user"},
		{of(memory.EventRenewed, byUser, said(crm), actsAs(probe), repeats), "own write"}},
	"a quotation is verified with no claim": {{verify(unverified, said(crm), func(f *memory.Facts) { f.Quotes = true }), "illegal"}},
	"what was retracted stays so":           {{verify(retracted, said(crm)), "illegal"}, {verify(outdated, said(crm)), "supported tool"}},
	"an authority has its moves":            {{verify(unverified, said(crm), actsAs(memory.AuthoritySentinel)), "illegal"}, {verify(byTool, said(crm), actsAs(memory.AuthoritySystem)), "illegal"}, {move(unverified, memory.SecurityClean, probe), "illegal"}},
	"a user's word ends by a user's word": {{move(byUser, memory.TruthUnverified, probe), "outranked"}, {move(byTool, memory.TruthUnverified, probe, had(crm)), "unverified voids"},
		{move(byUser, memory.TruthContradicted, probe, said(evid(opposed, primary, "register"))), "outranked"},
		{move(byUser, memory.TruthContradicted, memory.AuthorityUser), "contradicted"}},
	"a word of no higher rank demotes nothing": {{move(byTool, memory.TruthContradicted, probe, had(crm), said(refuted)), "outranked"},
		{move(byTool, memory.TruthContradicted, probe, had(crm), said(evid(opposed, primary, "register"))), "contradicted voids"}},
	"a user moves only what she may speak for": {{move(unverified, memory.TruthSupported, memory.AuthorityUser, said(person), mute), "no authority"},
		{move(standing(memory.TruthUnverified, 0, quarantined), memory.SecurityClean, memory.AuthorityUser, mute), "no authority"}},
	"nobody else speaks with the rank of a user": {{verify(unverified, said(person)), "invalid"}},
	"what a person rejected no source verifies": {{verify(unverified, said(crm), rejectedAs(memory.ReachesName)), "rejected"},
		{verify(standing(memory.TruthUnverified, 0, critical(memory.CriticalityLow)), said(evid(inFavour, second, "gpt"), evid(inFavour, second, "gemini")), rejectedAs(memory.ReachesNamesake)), "rejected"}},

	// What verifies.
	"nothing verifies without evidence":         {{verify(unverified), "insufficient"}},
	"evidence of the claim's own group is none": {{verify(unverified, said(evid(inFavour, tool, "family:claude"))), "insufficient"}},
	"evidence of an ancestor's group is none":   {{verify(unverified, said(crm), above(memory.Head{Revision: 1, Group: groupOf("crm")})), "insufficient"}},
	"evidence that rests on the claim is none": {{verify(unverified, said(crm), lineage(memory.Head{ID: "mem_9", Revision: 1, Claim: groupOf("claim")})), "insufficient"},
		{verify(unverified, said(crm), lineage(memory.Head{})), "insufficient"}},
	"what a model says unasked verifies nothing": {{verify(standing(memory.TruthUnverified, 0, critical(memory.CriticalityLow)), said(evid(inFavour, memory.RankModel, "gpt"), evid(inFavour, memory.RankModel, "gemini"))), "insufficient"}},
	"two models suffice for what is of low criticality": {{verify(standing(memory.TruthUnverified, 0, critical(memory.CriticalityLow)), said(evid(inFavour, second, "gpt"), evid(inFavour, second, "gemini"))), "supported second_model"},
		{verify(unverified, said(evid(inFavour, second, "gpt"), evid(inFavour, second, "gemini"))), "insufficient"}},
	"a quorum counts whole":                                         {{verify(unverified, said(quorum(crm))), "insufficient"}, {verify(unverified, said(quorum(crm), erp)), "supported tool"}},
	"what rows merely show needs two tools":                         {{verify(unverified, said(crm), actsAs(memory.AuthorityAutoObservation)), "insufficient"}, {verify(unverified, said(crm, erp), actsAs(memory.AuthorityAutoObservation)), "supported tool"}},
	"a source that does not speak for the predicate is not counted": {{verify(unverified, said(crm), func(f *memory.Facts) { f.Silent = []string{"tool:crm"} }), "insufficient"}},
	"an own word is not everybody's":                                {{verify(unverified, had(ownWordOf(person))), "insufficient"}},
	"sources that disagree verify nothing":                          {{verify(unverified, had(refuted), said(crm)), "insufficient"}, {verify(unverified, had(refuted), said(later(erp))), "supported tool"}},
	"a verifier that answers ends the outage":                       {{verify(standing(memory.TruthUnverified, 0, func(h *memory.Head) { h.Outage = memory.OutageRecorded }), said(crm)), "supported tool resolved"}},
	"an own word adds nothing to what counts for all":               {{verify(byTool, had(crm), said(person), actsAs(memory.AuthorityUser), ownName), "supported tool kept"}},
	"who agrees disputes it no more":                                {{verify(standing(memory.TruthSupported, tool, flagged(memory.FlagOwnDispute)), had(crm), said(person), actsAs(memory.AuthorityUser), ownName), "supported tool kept"}},
	"an own word that agrees ends the dispute":                      {{verify(unverified, said(person), actsAs(memory.AuthorityUser), ownName, besideIt(agreeing(tool, flagged(memory.FlagOwnDispute)))), "supported user own line:undispute"}},
	"a lower rank reaffirms nothing":                                {{verify(standing(memory.TruthSupported, primary), had(evid(inFavour, primary, "register")), said(later(crm))), "insufficient"}},
	"its own source says again what it said": {{verify(standing(memory.TruthSupported, tool, from(memory.OriginFirstHand, "crm")), said(later(crm))), "supported tool"},
		{verify(standing(memory.TruthUnverified, 0, from(memory.OriginFirstHand, "crm")), said(later(crm))), "insufficient"}},
	"what its source took back it may say again": {{of(memory.EventSaidAgain, standing(memory.TruthContradicted, 0, from(memory.OriginFirstHand, "crm")), had(evid(opposed, tool, "tool:crm")), asserter("tool:crm")), "contradicted"},
		{of(memory.EventSaidAgain, standing(memory.TruthContradicted, 0, from(memory.OriginFirstHand, "crm")), had(refuted), asserter("tool:crm")), "refused"},
		{of(memory.EventSaidAgain, standing(memory.TruthSuperseded, 0, from(memory.OriginFirstHand, "crm")), asserter("tool:crm")), "refused"},
		{of(memory.EventSaidAgain, unverified, asserter("tool:crm")), "refused"}},

	// What it does to others.
	"a higher rank demotes a rival":    {{verify(unverified, said(evid(inFavour, primary, "register")), besideIt(rivalOf(tool, "tool:erp"))), "supported primary_source line:demote"}},
	"equal ranks are both contested":   {{verify(unverified, said(crm), besideIt(rivalOf(tool, "tool:erp"))), "supported tool contested line:contest"}},
	"a lower rank is not verified":     {{verify(unverified, said(crm), besideIt(rivalOf(primary, "register"))), "unverified contested against line:contest"}, {born(memory.OriginFirstHand, "crm", said(crm), besideIt(rivalOf(primary, "register"))), "unverified contested voids line:contest"}},
	"a source supersedes what it said": {{verify(unverified, said(crm), besideIt(rivalOf(tool, "tool:crm"))), "supported tool line:outdate"}},
	"of what is critical one source makes no history": {{verify(unverified, said(crm), isCritical, besideIt(rivalOf(tool, "tool:crm"))), "supported tool contested line:contest"},
		{move(byTool, memory.TruthContradicted, probe, had(crm), said(later(evid(opposed, tool, "tool:crm"))), isCritical), "contradicted voids"}},
	"a source that contradicts itself makes history": {{move(byTool, memory.TruthContradicted, probe, had(crm), said(later(evid(opposed, tool, "tool:crm")))), "superseded outdated voids"}},
	"an own word takes nothing from others":          {{verify(unverified, said(person), actsAs(memory.AuthorityUser), ownName, besideIt(rivalOf(tool, "tool:erp"))), "supported user own line:dispute"}},
	"an own word disputes for its speaker":           {{verify(unverified, said(crm), besideIt(rivalOf(user, "user:ana", flagged(memory.FlagOwnWord)))), "supported tool disputed line:contest"}},
	"an own word that ends disputes nothing":         {{move(standing(memory.TruthSupported, user, flagged(memory.FlagOwnWord)), memory.TruthContradicted, memory.AuthorityUser, besideIt(rivalOf(tool, "tool:erp", flagged(memory.FlagOwnDispute)))), "contradicted line:undispute"}},
	"what may be several supersedes nothing": {{born(memory.OriginUserAsserted, "ana", said(person), maySpeak, ofAny, besideIt(assertedBy("user:ana"))), "supported user contested line:contest"},
		{born(memory.OriginUserAsserted, "ana", said(person), maySpeak, ofAny, besideIt(assertedBy("user:ben"))), "supported user line:-"}},
	"a rival that cannot be read stands": {{verify(unverified, said(crm), besideIt(unread(rivalOf(tool, "tool:crm")))), "supported tool contested line:contest"}, {verify(unverified, said(crm), besideIt(unread(rivalOf(primary, "register")))), "unverified contested against line:contest"}},
	"a line that is not whole contests":  {{verify(unverified, said(crm), func(f *memory.Facts) { f.Whole = false }), "supported tool contested"}},
	"a contest with a user ends by a user": {{verify(standing(memory.TruthUnverified, 0, flagged(memory.FlagContested)), said(person), had(refuted), actsAs(memory.AuthorityUser)), "supported user"},
		{verify(standing(memory.TruthSupported, user, flagged(memory.FlagContested)), had(refuted), said(later(evid(inFavour, primary, "register")))), "insufficient"}},
	"a user's contradiction reaches each spelling":  {{move(byTool, memory.TruthContradicted, memory.AuthorityUser, claimed(sibling(user, oslo))), "contradicted claim:demote"}},
	"a contradiction reaches what is of lower rank": {{move(byTool, memory.TruthContradicted, probe, had(crm), said(evid(opposed, primary, "register")), claimed(sibling(tool, oslo), sibling(primary, oslo))), "contradicted voids claim:demote claim:contest"}},
	"a namesake loses nothing":                      {{move(byTool, memory.TruthContradicted, memory.AuthorityUser, claimed(sibling(tool, memory.Content{Subject: "ACME", Predicate: "city", Object: "Oslo"}))), "contradicted claim:-"}},
	"a demotion ends what supported the row":        {{move(byTool, memory.TruthContradicted, memory.AuthorityUser, had(crm)), "contradicted voids"}},
	"a rejection ends what was said":                {{move(unverified, memory.TruthContradicted, memory.AuthorityUser, had(crm), func(f *memory.Facts) { f.Reject = true }), "contradicted voids all"}},

	// Renewal, evidence, what is taken back or lost.
	"a tool renews what stands higher": {{of(memory.EventRenewed, standing(memory.TruthSupported, user, stale), said(crm), actsAs(probe)), "supported user"},
		{of(memory.EventRenewed, standing(memory.TruthSupported, user, stale, critical(memory.CriticalityLow)), said(evid(inFavour, second, "gpt"), evid(inFavour, second, "gemini")), actsAs(probe)), "insufficient"}},
	"what is contested is not renewed":            {{of(memory.EventRenewed, standing(memory.TruthSupported, user, stale, flagged(memory.FlagContested)), said(crm), actsAs(probe)), "insufficient"}, {of(memory.EventRenewed, standing(memory.TruthSupported, user, stale), had(refuted), said(crm), actsAs(probe)), "insufficient"}},
	"whoever verified it looks again in the end":  {{of(memory.EventRenewed, standing(memory.TruthSupported, user, stale, func(h *memory.Head) { h.VerifiedAt = judgedAt.Add(-1000 * time.Hour) }), said(crm), actsAs(probe)), "insufficient"}},
	"only what is verified is renewed":            {{of(memory.EventRenewed, unverified, said(crm), actsAs(probe)), "illegal"}, {of(memory.EventRenewed, byUser, said(crm), actsAs(memory.AuthorityUser)), "illegal"}},
	"what was revoked renews nothing":             {{of(memory.EventRenewed, byUser, said(crm), actsAs(probe), isRevoked), "revoked"}},
	"what was revoked is not heard":               {{of(memory.EventHeard, byUser, said(refuted), isRevoked), "revoked"}},
	"a contradiction by a tool contests":          {{of(memory.EventHeard, byUser, said(refuted)), "supported user contested"}, {of(memory.EventHeard, byUser, said(evid(opposed, second, "gpt"))), "supported user"}},
	"a user's support is applied, and not added":  {{of(memory.EventHeard, unverified, said(person)), "invalid"}},
	"a user or an operator retracts":              {{of(memory.EventRetracted, byTool, actsAs(probe)), "illegal"}, {of(memory.EventRetracted, byTool, actsAs(memory.AuthorityPolicy)), "superseded voids"}, {of(memory.EventRetracted, retracted, actsAs(memory.AuthorityPolicy)), "illegal"}},
	"a user retracts only what she may speak for": {{of(memory.EventRetracted, byTool, actsAs(memory.AuthorityUser)), "no authority"}},
	"what comes back is unverified":               {{of(memory.EventReturned, contradicted), "unverified"}, {of(memory.EventReturned, outdated), "unverified"}, {of(memory.EventReturned, byTool), "refused"}},
	"what was rejected does not come back":        {{of(memory.EventReturned, contradicted, rejectedAs(memory.ReachesName)), "refused"}},
	"a row stands on what was not revoked": {{of(memory.EventRevoked, byTool, had(void(crm))), "unverified voids"}, {of(memory.EventRevoked, byTool, had(void(crm), erp)), "supported tool"},
		{of(memory.EventRevoked, standing(memory.TruthSupported, primary), had(void(evid(inFavour, primary, "register")), erp)), "supported tool"}},
	"a row that was born verified stands on its own source": {{of(memory.EventRevoked, standing(memory.TruthSupported, tool, from(memory.OriginFirstHand, "crm")), had(crm), func(f *memory.Facts) { f.BornSo = true }), "supported tool"},
		{of(memory.EventRevoked, standing(memory.TruthSupported, tool, from(memory.OriginFirstHand, "crm")), had(crm)), "unverified voids"}},
	"what only the revoked contradicted is open again": {{of(memory.EventRevoked, contradicted, had(void(refuted))), "unverified"}, {of(memory.EventRevoked, contradicted, had(refuted)), "contradicted"}},
	"a lost demotion is made good for":                 {{of(memory.EventRecovered, byUser), "contradicted hidden voids"}, {of(memory.EventRecovered, standing(memory.TruthUnverified, 0, func(h *memory.Head) { h.Retrieval = memory.RetrievalBlocked })), "unverified blocked voids"}},
	"what is made good for is hidden":                  {{of(memory.EventRecovered, byUser), "contradicted hidden voids"}},

	// What an answer asks of the store.
	"an independent source promotes":            {{answer(unverified, memory.AnswerSupports, crm), "unverified promote"}},
	"what a person rejected no answer promotes": {{answer(unverified, memory.AnswerSupports, crm, rejectedAs(memory.ReachesName)), "unverified keep"}, {answer(unverified, memory.AnswerRefutes, refuted, rejectedAs(memory.ReachesName)), "unverified keep"}},
	"what was retracted no answer promotes":     {{answer(retracted, memory.AnswerSupports, crm), "superseded keep"}, {answer(outdated, memory.AnswerSupports, crm), "superseded outdated promote"}},
	"an own word is verified for everybody":     {{answer(standing(memory.TruthSupported, user, flagged(memory.FlagOwnWord)), memory.AnswerSupports, crm), "supported user own promote"}},
	"the very value renews":                     {{answer(byUser, memory.AnswerSupports, crm, exact), "supported user renew"}, {answer(byUser, memory.AnswerSupports, crm), "supported user keep"}},
	"a lower rank is kept":                      {{answer(standing(memory.TruthSupported, primary), memory.AnswerSupports, crm), "supported primary_source keep"}},
	"one against one is kept":                   {{answer(unverified, memory.AnswerSupports, crm, had(refuted)), "unverified keep"}},
	"a model's dissent moves nothing":           {{answer(unverified, memory.AnswerRefutes, evid(opposed, second, "gpt")), "unverified keep"}, {answer(unverified, memory.AnswerRefutes, refuted), "unverified demote"}},
	"no answer takes back a user's word":        {{answer(byUser, memory.AnswerRefutes, evid(opposed, primary, "register")), "supported user keep"}},
	"a higher rank takes the state":             {{answer(byTool, memory.AnswerRefutes, evid(opposed, primary, "register"), had(crm)), "supported tool demote"}},
	"a source takes its own word back":          {{answer(byTool, memory.AnswerRefutes, evid(opposed, tool, "tool:crm"), had(crm)), "supported tool demote"}, {answer(byTool, memory.AnswerRefutes, refuted, had(crm)), "supported tool keep"}},
	"what is gone refutes nothing":              {{answer(byTool, memory.AnswerGone, evid(memory.RelationContextualizes, tool, "tool:crm"), had(crm)), "supported tool age"}, {answer(byTool, memory.AnswerGone, evid(memory.RelationContextualizes, tool, "tool:erp"), had(crm)), "supported tool keep"}},
	"who cannot tell moves nothing":             {{answer(unverified, memory.AnswerUnclear, memory.Evidence{}), "unverified"}, {of(memory.EventAnswered, unverified, answered(memory.AnswerUnclear, memory.Evidence{}, crm)), "unverified keep"}, {answer(unverified, 0, crm), "unverified"}},
	"an answer that says nothing refutes nothing": {{of(memory.EventAnswered, byTool, had(crm), func(f *memory.Facts) {
		f.Answer = memory.Answer{Outcome: memory.AnswerRefutes, Evidence: evid(opposed, tool, "tool:crm"), Nothing: true}
	}), "supported tool"}},
	"an answer promotes nothing that says nothing": {{of(memory.EventAnswered, unverified, answered(memory.AnswerSupports, crm), nothing), "unverified"}},
}

func actsAs(a memory.Authority) func(*memory.Facts) { return func(f *memory.Facts) { f.By = a } }

func against(e ...memory.Evidence) func(*memory.Facts) {
	return func(f *memory.Facts) { f.Disputed, f.Against = true, [][]memory.Evidence{e} }
}

func above(h ...memory.Head) func(*memory.Facts) {
	return func(f *memory.Facts) { f.Kin.Ancestors = h }
}

// lineage is what the first piece of evidence rests on.
func lineage(h ...memory.Head) func(*memory.Facts) {
	return func(f *memory.Facts) {
		f.Kin.EvidenceLineage = map[string][]memory.Head{f.Said[0].ID(): h}
	}
}

func asserter(group string) func(*memory.Facts) { return func(f *memory.Facts) { f.Asserter = group } }

func unknown(f *memory.Facts)    { f.Disputed, f.Unknown = true, "?" }
func isRevoked(f *memory.Facts)  { f.Revoked = memory.ErrRevoked }
func maySpeak(f *memory.Facts)   { f.MaySpeak = true }
func mute(f *memory.Facts)       { f.MaySpeak = false }
func ownName(f *memory.Facts)    { f.OwnName = true }
func repeats(f *memory.Facts)    { f.Repeats = true }
func tooLate(f *memory.Facts)    { f.Overtaken = memory.ErrOvertaken }
func full(f *memory.Facts)       { f.Full = true }
func isCritical(f *memory.Facts) { f.Critical = true }
func exact(f *memory.Facts)      { f.Answer.Exact = true }

// ofAny makes it unknown whether the subject may have more than one object.
func ofAny(f *memory.Facts) { f.Content.Cardinality = memory.CardinalityUnknown }

// assertedBy is a row that says Rome, on the word of a person.
func assertedBy(group string) memory.Beside {
	b := rivalOf(user, group, from(memory.OriginUserAsserted, group))
	b.Content.Cardinality = memory.CardinalityUnknown
	return b
}

// agreeing is another verified row of the claim.
func agreeing(rank memory.Rank, change ...func(*memory.Head)) memory.Beside {
	b := rivalOf(rank, "tool:erp", change...)
	b.Row.Claim, b.Content = groupOf("claim"), oslo
	return b
}

// imported is a row that comes from elsewhere.
func imported(m memory.Imported) memory.Facts {
	f := plainly(memory.OriginModelDerived)
	f.Imported = &m
	return f
}

func quarantined(h *memory.Head) { h.Security = memory.SecurityQuarantined }
func stale(h *memory.Head) {
	h.StaleAt, h.ExpiresAt = judgedAt.Add(-time.Hour), judgedAt.Add(3*time.Hour)
}

func quorum(e memory.Evidence) memory.Evidence {
	e.Quorum = 2
	return e
}

func ownWordOf(e memory.Evidence) memory.Evidence {
	e.Authority = "own"
	return e
}

func unread(b memory.Beside) memory.Beside {
	b.Unread = true
	return b
}

// plainly is a row that asks for nothing, made from others.
func plainly(o memory.Origin, parents ...memory.Head) memory.Facts {
	return of(memory.EventWritten, memory.Head{Origin: o}, func(f *memory.Facts) { f.Wanted, f.Parents = memory.StateUnverified, parents })
}

func answer(row memory.Head, o memory.Outcome, e memory.Evidence, change ...func(*memory.Facts)) memory.Facts {
	return of(memory.EventAnswered, row, append([]func(*memory.Facts){answered(o, e)}, change...)...)
}

// TestJudge holds each rule of trust against facts, without a store.
func TestJudge(t *testing.T) {
	for name, cases := range judged {
		t.Run(name, func(t *testing.T) {
			for i, c := range cases {
				if got := shown(memory.Judge(c.facts)); got != c.want {
					t.Errorf("case %d: %s, want %s", i, got, c.want)
				}
			}
		})
	}
}

// TestJudgeLeavesFactsAlone: the same facts give the same verdict.
func TestJudgeLeavesFactsAlone(t *testing.T) {
	for name, cases := range judged {
		for i, c := range cases {
			given := func() []any {
				f := &c.facts
				return []any{slices.Clone(f.Standing), slices.Clone(f.Said), slices.Clone(f.Against), slices.Clone(f.Line), slices.Clone(f.Claimed), slices.Clone(f.Parents)}
			}
			before := given()
			first := shown(memory.Judge(c.facts))
			if again := shown(memory.Judge(c.facts)); again != first {
				t.Errorf("%s, case %d: %s, and then %s", name, i, first, again)
			}
			if !reflect.DeepEqual(before, given()) {
				t.Errorf("%s, case %d: the facts were changed", name, i)
			}
		}
	}
}
