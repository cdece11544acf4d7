package memory_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// identifiers is a registry in which mail is an identifier.
var identifiers = map[string]memory.Predicate{"mail": {Identifier: true}}

// rejects is a person's rejection of a claim.
func (b *bench) rejects(id memory.ID) {
	b.Helper()
	if _, err := b.Apply(b.Context(), memory.Transition{Row: id, Revision: b.head(id).Revision, To: memory.TruthContradicted, Authority: memory.AuthorityUser, Reject: true,
		Actor: "cleo", Source: "confirm", Reason: "a false one", Evidence: []memory.Evidence{contradicts(memory.RankUser, "user:cleo")}}); err != nil {
		b.Fatal(err)
	}
}

// spelt asks that what a tool reads is verified or not, and for the reason if it is not.
func (b *bench) spelt(d memory.Draft, verified bool, reason string) memory.Receipt {
	b.Helper()
	r := b.put(d)
	if (r.State == memory.StateVerified) != verified || !verified && !strings.Contains(r.Reason, reason) {
		b.Errorf("%s: %s, %q", d.Content, r.State, r.Reason)
	}
	return r
}

const (
	otherSpelling = "only spelled otherwise"
	rejectedThere = "a person rejected the value"
)

// Of two spellings of a name, that came second which a source says the same of.
func TestASecondSpellingMakesNoSecondVerifiedRow(t *testing.T) {
	exact := func(d memory.Draft) memory.Draft { d.Exact = true; return d }
	for _, c := range []struct {
		name          string
		first, second memory.Draft
		verified      bool
	}{
		{"capitals", toolDraft(says("acme", "phone", "1"), "crm"), toolDraft(says("ACME", "phone", "1"), "crm"), false},
		{"one capital", toolDraft(says("acme", "phone", "1"), "crm"), toolDraft(says("Acme", "phone", "1"), "crm"), false},
		{"a full stop", toolDraft(says("acme", "phone", "1"), "crm"), toolDraft(says("acme.", "phone", "1"), "crm"), false},
		{"blanks", toolDraft(says("acme inc", "phone", "1"), "crm"), toolDraft(says("AcmeInc", "phone", "1"), "crm"), false},
		{"wide letters", toolDraft(says("acme", "phone", "1"), "crm"), toolDraft(says("ａｃｍｅ", "phone", "1"), "crm"), false},
		{"the capitals came first", toolDraft(says("ACME", "phone", "1"), "crm"), toolDraft(says("acme", "phone", "1"), "crm"), false},
		{"a list of names", toolDraft(says(`["acme","Bob"]`, "phone", "1"), "crm"), toolDraft(says(`["acme.", "BOB"]`, "phone", "1"), "crm"), false},
		{"a list of other names", toolDraft(says(`["acme","Bob"]`, "phone", "1"), "crm"), toolDraft(says(`["acmeBob"]`, "phone", "1"), "crm"), true},
		{"a list of one", toolDraft(says("acme", "phone", "1"), "crm"), toolDraft(says(`["Acme"]`, "phone", "1"), "crm"), false},
		{"a record with a time in it", toolDraft(says("acme", "customer", `{"id":"acme","at":1}`), "crm"), toolDraft(says("ACME", "customer", `{"id":"acme","at":2}`), "crm"), false},
		{"of several", toolDraft(several("acme", "phone", "1"), "crm"), toolDraft(several("ACME", "phone", "1"), "crm"), false},
		{"another value", toolDraft(says("acme", "phone", "1"), "crm"), toolDraft(says("ACME", "phone", "2"), "crm"), true},
		{"another source", toolDraft(says("acme", "phone", "1"), "crm"), toolDraft(says("ACME", "phone", "1"), "erp"), true},
		{"another predicate", toolDraft(says("acme", "phone", "1"), "crm"), toolDraft(says("ACME", "fax", "1"), "crm"), true},
		{"the operator named it", toolDraft(says("acme", "phone", "1"), "crm"), exact(toolDraft(says("ACME", "phone", "1"), "crm")), true},
		{"registered", toolDraft(says("acme", "code", "1"), "crm"), toolDraft(says("ACME", "code", "1"), "crm"), true},
		{"another name", toolDraft(says("A-17", "phone", "1"), "crm"), toolDraft(says("A1-7", "phone", "1"), "crm"), true},
		{"the word of a person", toolDraft(says("acme", "phone", "1"), "crm"), userDraft("ana", says("ACME", "phone", "1")), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := registered(t, map[string]memory.Predicate{"code": {ExactSubjects: true}})
			first := b.spelt(c.first, true, "")
			second := b.spelt(c.second, c.verified, otherSpelling)
			if again := b.spelt(c.second, c.verified, otherSpelling); again.ID != second.ID {
				t.Errorf("said again it is %+v", again)
			}
			b.current(first.ID)
			if again := b.spelt(c.first, true, ""); again.ID != first.ID {
				t.Errorf("the first, said again, is %+v", again)
			}
			clean(b)
		})
	}
}

// A row of the first spelling that a worker's source verified, and one that cannot be read, stand in the way too.
func TestWhatTheFirstSpellingSaysCountsHoweverItWasVerified(t *testing.T) {
	b := newBench(t)
	note := b.put(modelDraft(says("acme", "phone", "1"))).ID
	b.mustMove(note, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
	b.spelt(toolDraft(says("ACME", "phone", "1"), "crm"), false, otherSpelling)
	b.spelt(toolDraft(says("ACME", "phone", "1"), "erp"), true, "")
	clean(b)

	b = newBench(t)
	first := b.put(toolDraft(says("acme", "phone", "1"), "crm")).ID
	spoil(t, b.driver, "b"+memory.HeadKey(first)[1:], flip)
	b.Store = b.another()
	b.spelt(toolDraft(says("ACME", "phone", "2"), "crm"), false, otherSpelling)
}

// A process that has just written rows of a line looks at other spellings all the same.
func TestWhatAProcessRemembersHidesNoSpelling(t *testing.T) {
	b := registered(t, identifiers)
	for _, name := range []string{"ann", "bob"} {
		b.spelt(toolDraft(several("acme", "contact", name), "crm"), true, "")
		b.spelt(toolDraft(several("umbrella", "mail", name+"@x.example"), "crm"), true, "")
	}
	b.spelt(toolDraft(several("ACME", "contact", "cid"), "crm"), true, "")
	b.spelt(toolDraft(several("ACME", "contact", "bob"), "crm"), false, otherSpelling)
	b.rejects(b.put(toolDraft(several("acme", "mail", "old@x.example"), "crm")).ID)
	b.spelt(toolDraft(several("umbrella", "mail", "old@x.example"), "crm"), false, rejectedThere)
	clean(b)
}

// What is refused contests what was said before of a critical predicate, and takes nothing where its source does
// not speak.
func TestWhatIsRefusedTakesNoMoreThanWhatCounts(t *testing.T) {
	for name, c := range map[string]struct {
		of        memory.Predicate
		contested bool
	}{
		"critical":                   {memory.Predicate{Identifier: true, Criticality: memory.CriticalityCritical}, true},
		"of which it does not speak": {memory.Predicate{Identifier: true, Sources: []string{"erp"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := registered(t, map[string]memory.Predicate{"mail": c.of})
			b.rejects(b.put(toolDraft(says("acme", "mail", "old@x.example"), "crm")).ID)
			before := b.put(toolDraft(says("umbrella", "mail", "new@x.example"), "erp")).ID
			if c.contested {
				before = b.put(toolDraft(says("hooli", "mail", "new@x.example"), "crm")).ID
			}
			b.spelt(toolDraft(says(b.row(before).Content.Subject, "mail", "old@x.example"), "crm"), false, "")
			b.contested(c.contested, before)
			clean(b)
		})
	}
}

// Where not all rows of the first spelling are listed, it is not known what it says.
func TestALineThatIsNotWholeStandsInTheWayOfAnotherSpelling(t *testing.T) {
	b := newBench(t)
	for i := range listable + 1 {
		b.put(toolDraft(several("acme", "contact", fmt.Sprint("person ", i)), "crm"))
	}
	b.spelt(toolDraft(several("ACME", "contact", fmt.Sprint("person ", listable)), "crm"), false, otherSpelling)
	clean(b)
}

// A name with more spellings than are listed: of the others nothing is verified.
func TestMoreSpellingsThanAreListed(t *testing.T) {
	b := newBench(t)
	named := func(i int) memory.Content { return says("acme"+strings.Repeat(".", i), "phone", fmt.Sprint(i)) }
	for i := range listable + 1 {
		b.spelt(toolDraft(named(i), "crm"), true, "")
	}
	b.spelt(toolDraft(named(listable+1), "crm"), false, otherSpelling)
	b.spelt(toolDraft(named(0), "crm"), true, "")
	clean(b)
}

// What is refused takes nothing from the name that came first, and is what its source says of the other
// one now.
func TestARefusedSpellingMakesHistoryOfItsOwnLine(t *testing.T) {
	b := newBench(t)
	first := b.reads("crm", "open")
	other := func(state string) memory.Draft { return toolDraft(says("ORDER 7", "state", state), "crm") }
	packed := b.spelt(other("packed"), true, "").ID
	b.spelt(other("open"), false, otherSpelling)
	b.outdated(packed)
	b.current(first.ID)
	// The first may always say what the other said.
	packed = b.spelt(other("packed"), true, "").ID
	b.current(b.reads("crm", "packed").ID)
	b.outdated(first.ID)
	b.spelt(other("packed"), true, "")
	b.current(packed)
	clean(b)
}

// A worker's source that says the same of a note about another spelling is kept, and supports nothing.
func TestNoWorkerVerifiesASecondSpelling(t *testing.T) {
	b := newBench(t)
	b.reads("crm", "open")
	note := b.put(modelDraft(says("ORDER 7", "state", "open"))).ID
	// What would not suffice anyway is not refused for it.
	if _, err := b.move(note, memory.TruthSupported, memory.AuthorityProbe, func() memory.Evidence {
		e := supports(memory.RankTool, "tool:web")
		e.Quorum = 3
		return e
	}()); !errors.Is(err, memory.ErrInsufficient) || errors.Is(err, memory.ErrRespelt) {
		t.Errorf("one of three: %v", err)
	}
	if _, err := b.move(note, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm")); !errors.Is(err, memory.ErrRespelt) || !errors.Is(err, memory.ErrInsufficient) {
		t.Fatalf("%v", err)
	}
	// Whoever keeps it as a support gains nothing by it.
	if err := b.AddEvidence(b.Context(), note, "worker:1", "kept", supports(memory.RankTool, "tool:crm")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.move(note, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankSecondModel, "family:gpt")); !errors.Is(err, memory.ErrRespelt) {
		t.Errorf("beside a second model: %v", err)
	}
	b.mustMove(note, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"), supports(memory.RankTool, "tool:erp"))
	clean(b)
	// Without the other source nothing is left that counts.
	b.pass(time.Hour)
	b.revoke(memory.RevokedSource, "tool:erp")
	b.walk()
	if h := b.head(note); h.Truth != memory.TruthUnverified {
		t.Errorf("on the word of the first it is %s", h.Truth)
	}
	clean(b)
}

// A value that a person rejected is born verified of no other name that its source gives it for.
func TestARejectedIdentifierComesBackUnderNoOtherName(t *testing.T) {
	mail := func(subject, address, tool string) memory.Draft {
		return toolDraft(says(subject, "mail", address), tool)
	}
	const old = "old@acme.example"
	for _, c := range []struct {
		name     string
		before   *memory.Draft // the rejection
		draft    memory.Draft
		verified bool
	}{
		{name: "capitals", draft: mail("ACME", old, "crm")},
		{name: "a full stop", draft: mail("acme.", old, "crm")},
		{name: "somebody else", draft: mail("umbrella", old, "crm")},
		{name: "another spelling of the value", draft: mail("umbrella", "OLD@acme.example", "crm")},
		{name: "another spelling of the value for the same", draft: mail("acme", "<OLD@ACME.example>", "crm")},
		{name: "another source", draft: mail("umbrella", old, "erp"), verified: true},
		{name: "another value", draft: mail("ACME", "new@acme.example", "crm"), verified: true},
		{name: "another predicate", draft: toolDraft(says("ACME", "login", old), "crm"), verified: true},
		{name: "a person", draft: userDraft("ana", says("ACME", "mail", old)), verified: true},
		{name: "it had it before", before: new(mail("umbrella", old, "crm")), draft: mail("umbrella", old, "crm"), verified: true},
		{name: "a person says so before", before: new(userDraft("ana", says("umbrella", "mail", old))), draft: mail("umbrella", old, "crm"), verified: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := registered(t, identifiers)
			rejected := b.put(mail("acme", old, "crm")).ID
			if c.before != nil {
				b.spelt(*c.before, true, "")
			}
			b.rejects(rejected)
			b.spelt(c.draft, c.verified, rejectedThere)
			b.spelt(c.draft, c.verified, rejectedThere)
			clean(b)
			if c.verified {
				return
			}
			// Whoever rejected it takes that back; then the source counts again.
			b.mustMove(rejected, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "user:cleo"))
			if c.draft.Content.Subject == "umbrella" { // the other names are spelled alike
				b.spelt(c.draft, true, "")
			}
			clean(b)
		})
	}
}

// The word of who gave a value that was rejected counts for no note either, and a person's word does.
func TestNoWorkerVerifiesARejectedIdentifier(t *testing.T) {
	for name, gives := range map[string]func(b *bench) memory.ID{
		"it read it": func(b *bench) memory.ID { return b.put(toolDraft(says("acme", "mail", "old@x.example"), "crm")).ID },
		"it supported a note": func(b *bench) memory.ID {
			id := b.put(modelDraft(says("acme", "mail", "old@x.example"))).ID
			b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
			return id
		},
		"it took it back": func(b *bench) memory.ID {
			id := b.put(modelDraft(says("acme", "mail", "old@x.example"))).ID
			b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
			b.mustMove(id, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankTool, "tool:crm"))
			return id
		},
		"only since then": func(b *bench) memory.ID {
			id := b.put(modelDraft(says("acme", "mail", "old@x.example"))).ID
			b.rejects(id)
			b.spelt(toolDraft(says("acme", "mail", "old@x.example"), "crm"), false, "rejected")
			return ""
		},
		"only since then, of a note": func(b *bench) memory.ID {
			id := b.put(modelDraft(says("acme", "mail", "old@x.example"))).ID
			b.rejects(id)
			if err := b.AddEvidence(b.Context(), id, "worker:1", "kept", supports(memory.RankTool, "tool:crm")); err != nil {
				b.Fatal(err)
			}
			return ""
		},
		"under another spelling of the predicate": func(b *bench) memory.ID {
			return b.put(toolDraft(says("acme", "Mail", "old@x.example"), "crm")).ID
		},
		"of a row beside the rejected one": func(b *bench) memory.ID {
			b.put(anchored(says("acme", "mail", "old@x.example"), 2))
			return b.put(toolDraft(says("acme", "mail", "old@x.example"), "web")).ID
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := registered(t, identifiers)
			if id := gives(b); id != "" {
				b.rejects(id)
			}
			note := b.put(modelDraft(says("ACME", "mail", "old@x.example"))).ID
			_, err := b.move(note, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
			if !errors.Is(err, memory.ErrRejectedElsewhere) || !errors.Is(err, memory.ErrInsufficient) {
				t.Errorf("%v", err)
			}
			b.mustMove(note, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "user:ana"))
			clean(b)
		})
	}
}

// What exempts a subject is a row that a source or a person verified, also one whose source has said
// something else since.
func TestASubjectThatHadTheValueKeepsIt(t *testing.T) {
	b := registered(t, identifiers)
	low := modelDraft(says("umbrella", "mail", "old@x.example"))
	low.Criticality = memory.CriticalityLow
	note := b.put(low).ID
	b.mustMove(note, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankSecondModel, "family:gpt"), supports(memory.RankSecondModel, "family:gemini"))
	had := func(address string) memory.Draft { return toolDraft(says("initech", "mail", address), "crm") }
	b.spelt(had("old@x.example"), true, "")
	b.spelt(had("new@x.example"), true, "")
	b.rejects(b.put(toolDraft(says("acme", "mail", "old@x.example"), "crm")).ID)
	b.spelt(had("old@x.example"), true, "")
	if _, err := b.move(note, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm")); !errors.Is(err, memory.ErrRejectedElsewhere) {
		t.Errorf("what models verified: %v", err)
	}
	clean(b)
}

// An answer that was overtaken was never verified.
func TestAnOvertakenAnswerIsNoRowBefore(t *testing.T) {
	b := registered(t, identifiers)
	mail := func(subject, address string) memory.Draft { return toolDraft(says(subject, "mail", address), "crm") }
	marks, err := b.MarkLines(b.Context(), says("umbrella", "mail", ""))
	if err != nil {
		t.Fatal(err)
	}
	b.spelt(mail("umbrella", "new@x.example"), true, "")
	late := mail("umbrella", "old@x.example")
	late.Asked = marks[0]
	b.outdated(b.put(late).ID)
	b.rejects(b.put(mail("acme", "old@x.example")).ID)
	b.spelt(mail("umbrella", "old@x.example"), false, rejectedThere)
	clean(b)
}

// A row that loses the word of another source does not stand on that of who gave the value elsewhere.
func TestARejectedIdentifierIsLostWithTheOtherSource(t *testing.T) {
	b := registered(t, identifiers)
	b.rejects(b.put(toolDraft(says("acme", "mail", "old@x.example"), "crm")).ID)
	note := b.put(modelDraft(says("umbrella", "mail", "old@x.example"))).ID
	b.mustMove(note, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"), supports(memory.RankTool, "tool:erp"))
	b.pass(time.Hour)
	b.revoke(memory.RevokedSource, "tool:erp")
	b.walk()
	if h := b.head(note); h.Truth != memory.TruthUnverified {
		t.Errorf("it is %s", h.Truth)
	}
	clean(b)
}

// A row that a source gave before a rejection elsewhere does not lose its word because somebody else's is revoked.
func TestARevocationOfWhoDisagreesTakesNoWordAway(t *testing.T) {
	b := registered(t, identifiers)
	before := b.put(toolDraft(says("umbrella", "mail", "old@x.example"), "crm")).ID
	if err := b.AddEvidence(b.Context(), before, "worker:1", "kept", contradicts(memory.RankTool, "tool:web")); err != nil {
		t.Fatal(err)
	}
	b.rejects(b.put(toolDraft(says("acme", "mail", "old@x.example"), "crm")).ID)
	b.pass(time.Hour)
	b.revoke(memory.RevokedSource, "tool:web")
	b.walk()
	if h := b.head(before); h.Truth != memory.TruthSupported {
		t.Errorf("it is %s", h.Truth)
	}
	clean(b)
}

// Whoever took the word of a wider person over by rejecting the same of herself lifts no more than her own.
func TestAnOwnWordLiftsNoWiderRejection(t *testing.T) {
	b := newBenchOf(t, func(principal, subject, _ string) bool { return principal == "cleo" || principal == subject })
	s, err := memory.New(b.driver, b.keys, &memory.Options{Clock: b.clock, Authority: b.scopes, Predicates: identifiers})
	if err != nil {
		t.Fatal(err)
	}
	b.Store = s
	id := b.put(toolDraft(says("ana", "mail", "old@x.example"), "crm")).ID
	b.rejects(id)
	if _, err := b.Apply(b.Context(), memory.Transition{Row: id, Revision: b.head(id).Revision, To: memory.TruthContradicted, Authority: memory.AuthorityUser, Reject: true, Actor: "ana", Source: "confirm",
		Reason: "not mine", Evidence: []memory.Evidence{contradicts(memory.RankUser, "user:ana")}}); err != nil {
		t.Fatal(err)
	}
	b.mustMove(id, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "user:ana"))
	b.spelt(toolDraft(says("umbrella", "mail", "old@x.example"), "crm"), false, rejectedThere)
	clean(b)
}

// A subject that nobody spelled stays exact for the workers that look again.
func TestAnExactSubjectStaysSo(t *testing.T) {
	b := newBench(t)
	b.put(toolDraft(says("Ana", "phone", "1"), "crm"))
	d := toolDraft(says("ana", "phone", "1"), "crm")
	d.Exact = true
	id := b.spelt(d, true, "").ID
	again := supports(memory.RankTool, "tool:crm")
	again.At = day0.Add(time.Hour)
	again.Anchor.Version = "2"
	b.pass(time.Hour)
	b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, again)
	clean(b)
}

// A namesake whose true value somebody rejected for herself only has it from a source (I-9).
func TestWhoRejectsForHerselfTakesNothingFromANamesake(t *testing.T) {
	b := newBenchOf(t, func(principal, subject, _ string) bool { return principal == subject })
	s, err := memory.New(b.driver, b.keys, &memory.Options{Clock: b.clock, Authority: b.scopes, Predicates: map[string]memory.Predicate{"mail": {Identifier: true, ExactSubjects: true}}})
	if err != nil {
		t.Fatal(err)
	}
	b.Store = s
	id := b.put(toolDraft(says("Ana", "mail", "ana@x.example"), "crm")).ID
	if _, err := b.Apply(b.Context(), memory.Transition{Row: id, Revision: 1, To: memory.TruthContradicted, Authority: memory.AuthorityUser, Reject: true, Actor: "Ana", Source: "confirm",
		Reason: "not mine", Evidence: []memory.Evidence{contradicts(memory.RankUser, "user:Ana")}}); err != nil {
		t.Fatal(err)
	}
	b.spelt(toolDraft(says("ana", "mail", "ana@x.example"), "crm"), true, "")
	clean(b)
}

// Where it is not known who gave the value, nobody's word counts.
func TestARejectionBesideARowThatIsDamaged(t *testing.T) {
	b := registered(t, identifiers)
	rejected := b.put(toolDraft(says("acme", "mail", "old@x.example"), "crm")).ID
	beside := b.put(anchored(says("acme", "mail", "old@x.example"), 2)).ID
	spoil(t, b.driver, "b"+memory.HeadKey(beside)[1:], flip)
	b.Apply(b.Context(), memory.Transition{Row: rejected, Revision: b.head(rejected).Revision, To: memory.TruthContradicted, Authority: memory.AuthorityUser, Reject: true,
		Actor: "cleo", Source: "confirm", Reason: "a false one", Evidence: []memory.Evidence{contradicts(memory.RankUser, "user:cleo")}})
	if h := b.head(rejected); h.Truth != memory.TruthContradicted {
		t.Fatalf("it is %s", h.Truth)
	}
	b.spelt(toolDraft(says("umbrella", "mail", "old@x.example"), "erp"), false, rejectedThere)
}

// A principal's own word about itself is nobody else's: what it says does not open the way for a source.
func TestAnOwnWordIsNoRowBefore(t *testing.T) {
	b := newBenchOf(t, func(principal, subject, _ string) bool { return principal == "cleo" || principal == subject })
	s, err := memory.New(b.driver, b.keys, &memory.Options{Clock: b.clock, Authority: b.scopes, Predicates: identifiers})
	if err != nil {
		t.Fatal(err)
	}
	b.Store = s
	gave := b.put(toolDraft(says("acme", "mail", "old@x.example"), "crm")).ID
	b.rejects(gave)
	own := b.put(userDraft("ana", says("ana", "mail", "old@x.example"))).ID
	if h := b.head(own); !h.Has(memory.FlagOwnWord) {
		t.Fatalf("%v", h.Flags)
	}
	b.spelt(toolDraft(says("ana", "mail", "old@x.example"), "crm"), false, rejectedThere)
	if _, err := b.move(own, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm")); !errors.Is(err, memory.ErrRejectedElsewhere) {
		t.Errorf("%v", err)
	}
	b.put(userDraft("ana", says("ana", "mail", "new@x.example"))) // what she said before is history
	b.spelt(toolDraft(says("ana", "mail", "old@x.example"), "crm"), false, rejectedThere)
	clean(b)
}

// Whoever speaks for one spelling only rejects for the others too, where the predicate is an identifier.
func TestARejectionByWhoSpeaksForOneSpelling(t *testing.T) {
	b := newBenchOf(t, func(principal, subject, _ string) bool { return principal == "cleo" && subject == "acme" })
	s, err := memory.New(b.driver, b.keys, &memory.Options{Clock: b.clock, Authority: b.scopes, Predicates: identifiers})
	if err != nil {
		t.Fatal(err)
	}
	b.Store = s
	b.rejects(b.put(toolDraft(says("acme", "mail", "old@x.example"), "crm")).ID)
	for _, name := range []string{"Acme", "ACME", "acme."} {
		b.spelt(toolDraft(says(name, "mail", "old@x.example"), "crm"), false, rejectedThere)
	}
	clean(b)
}

// A person's word about a subject of which the value is rejected as well is left alone.
func TestARejectedValueContestsNoPersonsWord(t *testing.T) {
	b := registered(t, identifiers)
	mail := func(subject, address string) memory.Draft { return toolDraft(says(subject, "mail", address), "crm") }
	b.rejects(b.put(mail("umbrella", "old@x.example")).ID)
	right := b.put(userDraft("ana", says("umbrella", "mail", "new@x.example"))).ID
	b.rejects(b.put(mail("acme", "old@x.example")).ID)
	b.spelt(mail("umbrella", "old@x.example"), false, "rejected")
	b.contested(false, right)
	clean(b)
}

// What became of the rejected row makes no difference, as long as the rejection stands.
func TestARejectionIsRememberedWhateverBecomesOfTheRow(t *testing.T) {
	draft := toolDraft(says("umbrella", "mail", "old@x.example"), "crm")
	for name, then := range map[string]func(b *bench, id memory.ID){
		"erased": func(b *bench, _ memory.ID) {
			if _, err := b.Erase(b.Context(), memory.Erasure{Subject: "acme", Actor: "ops", Request: "1"}); err != nil {
				b.Fatal(err)
			}
		},
		"erased, and noted again": func(b *bench, _ memory.ID) {
			if _, err := b.Erase(b.Context(), memory.Erasure{Subject: "acme", Actor: "ops", Request: "1"}); err != nil {
				b.Fatal(err)
			}
			b.pass(time.Second)
			b.put(modelDraft(says("acme", "mail", "old@x.example")))
		},
		"rebuilt": func(b *bench, _ memory.ID) {
			if _, err := b.another().Rebuild(b.Context(), "operator", nil); err != nil {
				b.Fatal(err)
			}
		},
		"the lists are gone, and rebuilt": func(b *bench, _ memory.ID) {
			n := 0
			for _, key := range b.alikeObjects() {
				n++
				b.restore(memory.Restored{Object: memory.Object{Key: key}})
			}
			if n != 3 {
				b.Fatalf("%d objects", n)
			}
			if _, err := b.another().VerifyAll(b.Context(), memory.Verifying{}); !errors.Is(err, memory.ErrTampered) {
				b.Errorf("a verification: %v", err)
			}
			if _, err := b.another().Rebuild(b.Context(), "operator", nil); err != nil {
				b.Fatal(err)
			}
		},
		"the lists are damaged": func(b *bench, _ memory.ID) {
			for _, key := range b.alikeObjects() {
				o := b.beneath(key)
				o.Data = append([]byte{}, o.Data...)
				o.Data[3] ^= 1
				b.restore(o)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := registered(t, identifiers)
			id := b.put(toolDraft(says("acme", "mail", "old@x.example"), "crm")).ID
			b.put(toolDraft(says("acme", "phone", "1"), "crm"))
			b.rejects(id)
			then(b, id)
			s, err := memory.New(b.driver, b.keys, &memory.Options{Clock: b.clock, Authority: b.scopes, Predicates: identifiers})
			if err != nil {
				t.Fatal(err)
			}
			b.Store = s
			b.spelt(draft, false, rejectedThere)
			if name != "the lists are damaged" {
				if !strings.HasPrefix(name, "erased") {
					b.spelt(toolDraft(says("ACME", "phone", "1"), "crm"), false, otherSpelling)
				}
				clean(b)
				// A person says again what was rejected.
				b.pass(time.Second)
				b.spelt(userDraft("ana", says("acme", "mail", "old@x.example")), true, "")
				b.spelt(draft, true, "")
				clean(b)
				return
			}
			b.spelt(userDraft("ana", says("acme", "mail", "new@x.example")), true, "")
			b.spelt(toolDraft(says("acme", "mail", "other@x.example"), "erp"), false, otherSpelling)
		})
	}
}

// A process that met the list does not believe an older one that is put back.
func TestAnOlderListThatIsPutBackIsNotBelieved(t *testing.T) {
	b := registered(t, identifiers)
	draft := func(subject string) memory.Draft { return toolDraft(says(subject, "mail", "old@x.example"), "crm") }
	b.rejects(b.put(draft("acme")).ID)
	old := map[string]memory.Restored{}
	for _, key := range b.alikeObjects() {
		old[key] = b.beneath(key)
	}
	b.rejects(b.put(toolDraft(says("initech", "mail", "old@x.example"), "erp")).ID)
	put := 0
	for key, o := range old {
		if now := b.beneath(key); now.Revision > o.Revision {
			put++
			if err := b.driver.Restore(b.Context(), b.Tenant(), []memory.Restored{o}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if put != 1 {
		t.Fatalf("%d lists have changed", put)
	}
	if _, err := b.Put(b.Context(), toolDraft(says("umbrella", "mail", "old@x.example"), "erp")); !errors.Is(err, memory.ErrBehind) {
		t.Errorf("%v", err)
	}
	b.rejects(b.put(modelDraft(says("hooli", "mail", "old@x.example"))).ID) // which takes effect
}

// alikeObjects are the keys of the objects that say what is spelled alike, or was rejected.
func (b *bench) alikeObjects() (keys []string) {
	b.Helper()
	for o, err := range b.driver.Objects(b.Context(), b.Tenant(), "t/") {
		if err != nil {
			b.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

// Of two spellings that are verified at once one sees the other.
func TestTwoSpellingsAtOnceMakeOneVerifiedRow(t *testing.T) {
	for i := range 20 {
		b := newBench(t)
		var wg sync.WaitGroup
		for _, subject := range []string{"acme", "ACME", "Acme.", "aCme"} {
			wg.Go(func() {
				if _, err := b.another().Put(b.Context(), toolDraft(says(subject, "phone", "1"), "crm")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := len(b.rows(memory.Filter{State: memory.StateVerified})); n != 1 {
			t.Fatalf("round %d: %d verified rows", i, n)
		}
		clean(b)
	}
}

// A list that is full of what was rejected withholds the value from all sources, and what was taken back
// makes room before.
func TestAValueThatIsRejectedOfManyIsWithheld(t *testing.T) {
	b := registered(t, identifiers)
	of := func(i int) memory.ID {
		d := toolDraft(says(fmt.Sprint("customer ", i), "mail", "old@x.example"), fmt.Sprint("tool ", i))
		b.pass(time.Second)
		return b.put(d).ID
	}
	for i := range listable {
		id := of(i)
		b.rejects(id)
		b.mustMove(id, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "user:cleo")) // it is taken back
	}
	last := of(listable)
	b.rejects(last)
	b.spelt(toolDraft(says("umbrella", "mail", "old@x.example"), "tool 3"), true, "")
	b.spelt(toolDraft(says("umbrella", "mail", "old@x.example"), fmt.Sprint("tool ", listable)), true, "") // it has it
	b.spelt(toolDraft(says("initech", "mail", "old@x.example"), fmt.Sprint("tool ", listable)), false, rejectedThere)
	clean(b)
	for i := range listable {
		b.rejects(b.put(toolDraft(says(fmt.Sprint("other ", i), "mail", "old@x.example"), fmt.Sprint("web ", i))).ID)
	}
	b.spelt(toolDraft(says("hooli", "mail", "old@x.example"), "phone book"), false, rejectedThere)
	clean(b)
}
