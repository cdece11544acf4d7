package memory_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
)

func TestANameThatNobodyCanTellFromAnotherIsRefused(t *testing.T) {
	for name, rule := range map[string]string{
		"ana": "", "Ana Lopez": "", "نامه\u200cای": "", "क्\u200dष": "", "👩\u200d💻": "", "❤\ufe0f": "", "O'Neil": "", "五": "",
		"": "required", "\u200b": "required", " ana": "outer_blank", "ana\u00a0": "outer_blank", "ana\n": "outer_blank",
		"ana\u200b": "invisible", "a\u200cna": "invisible", "a\u200dna": "invisible", "ana\ufe0f": "invisible", "an\u202ea": "invisible",
		"ana\u3164x": "invisible", "ana\U000e0041": "invisible", "a\u00adna": "invisible", "a\u0007na": "invisible", "Acme\u2063": "invisible",
		"ا\u200cب": "invisible", // a letter that joins nothing before a non-joiner
	} {
		err := memory.CheckName("subject", name)
		var field *memory.FieldError
		if (err == nil) != (rule == "") || err != nil && (!errors.As(err, &field) || field.Field != "subject" || field.Rule != rule) {
			t.Errorf("%q: %v, want %q", name, err, rule)
		}
	}
	b := newBench(t)
	hidden := "ana\u200b"
	for field, put := range map[string]func() error{
		"content.subject":    func() error { _, err := b.Put(t.Context(), modelDraft(says(hidden, "city", "Oslo"))); return err },
		"content.predicate":  func() error { _, err := b.Put(t.Context(), modelDraft(says("ana", "city ", "Oslo"))); return err },
		"asserter.principal": func() error { _, err := b.Put(t.Context(), userDraft(hidden, says("ana", "city", "Oslo"))); return err },
		"subjects": func() error {
			d := modelDraft(says("x", "is", "y"))
			d.Subjects = []string{hidden}
			_, err := b.Put(t.Context(), d)
			return err
		},
		"subject": func() error {
			_, err := b.Erase(t.Context(), memory.Erasure{Subject: hidden, Actor: "dpo"})
			return err
		},
	} {
		var f *memory.FieldError
		if err := put(); !errors.As(err, &f) || f.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if n := len(b.rows(memory.Filter{})); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

// spellings are names that one canonical form stands for, or that look alike.
var spellings = []string{"ana", "Ana", "ANA", "аna", "ana lopez", "Ana Lopez", "ana  lopez", "ana\u00a0lopez", "café", "Café", "cafe"}

// Whatever is done about one name, by its principal, a tool, a rejection or an erasure,
// leaves the verified row about every other name as it was.
func TestRandomSpellingsMoveNobodyElsesRow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		toolDraft := func(c memory.Content, tool string) memory.Draft {
			d := toolDraft(c, tool)
			d.Asserter.Principal = "desk"
			return d
		}
		owner := rapid.SampledFrom(spellings).Draw(rt, "owner")
		other := rapid.SampledFrom(spellings).Draw(rt, "other")
		if memory.SameName(owner, other) {
			rt.Skip("one name")
		}
		true_ := b.put(toolDraft(says(owner, "iban", "DE1"), "crm"))
		before := *b.head(true_.ID)
		rejected, forgotten := false, false
		for range rapid.IntRange(1, 5).Draw(rt, "steps") {
			object := rapid.SampledFrom([]string{"DE1", "XX9"}).Draw(rt, "object")
			b.pass(time.Minute)
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				b.put(userDraft(other, says(other, "iban", object)))
			case 1:
				b.put(toolDraft(says(other, "iban", object), "crm"))
			case 2:
				b.put(toolDraft(says(other, "iban", object), "erp"))
			case 3:
				r := b.put(toolDraft(says(other, "iban", object), "web"))
				rejected = true
				_, err := b.Apply(t.Context(), memory.Transition{Row: r.ID, Revision: b.head(r.ID).Revision, To: memory.TruthContradicted,
					Authority: memory.AuthorityUser, Actor: other, Source: other, Reason: "wrong", Reject: true})
				if err != nil && !errors.Is(err, memory.ErrIllegalMove) {
					rt.Fatal(err)
				}
			case 4:
				if _, err := b.Erase(t.Context(), memory.Erasure{Subject: other, Actor: "dpo"}); err != nil {
					rt.Fatal(err)
				}
				forgotten = forgotten || rejected
			}
		}
		if after := *b.head(true_.ID); after.Revision != before.Revision || after.State() != memory.StateVerified {
			rt.Fatalf("%q moved the row of %q: %+v", other, owner, after)
		}
		if row := b.row(true_.ID); row.Rejection != nil || row.Content.Object != "DE1" {
			rt.Fatalf("%+v", row)
		}
		if found := b.rows(memory.Filter{Subject: owner, Predicate: "iban"}); len(found) != 1 {
			rt.Fatalf("%d rows of %q", len(found), owner)
		}
		// And it is born verified again, whatever was rejected for the other name, unless an
		// erasure made it unknown whose name that was.
		if forgotten {
			return
		}
		if r := b.put(toolDraft(says(owner, "iban", "DE1"), "register")); r.State != memory.StateVerified {
			rt.Fatalf("a namesake withholds it: %+v", r)
		}
	})
}

func TestNamesThatLookAlikeAreListed(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"acme", "Acme", "Acme", "асme", "other"} {
		b.put(toolDraft(says(name, "is", "here"), "crm"))
		b.put(toolDraft(says(name, "was", "there"), "crm"))
	}
	found, err := b.Alike(t.Context(), "acme")
	if err != nil || len(found) != 2 {
		t.Fatalf("%+v %v", found, err)
	}
	for _, a := range found {
		if a.Name == "acme" || a.Rows != 2 {
			t.Errorf("%+v", a)
		}
	}
}

// A principal's own word is evidence for its own calls, and takes nothing from a row
// that counts for everybody, in whatever order they come.
func TestI13AnOwnWordCountsForWhoGaveIt(t *testing.T) {
	ana, bob := func(b *bench) memory.Token { return b.Speaker("ana") }, func(b *bench) memory.Token { return b.Speaker("bob") }
	for name, lay := range map[string]func(b *bench) (tool, own memory.ID){
		"after a tool's": func(b *bench) (memory.ID, memory.ID) {
			tool := b.put(toolDraft(says("ana", "city", "Oslo"), "crm")).ID
			return tool, b.put(userDraft("ana", says("ana", "city", "Rome"))).ID
		},
		"before a tool's": func(b *bench) (memory.ID, memory.ID) {
			own := b.put(userDraft("ana", says("ana", "city", "Rome"))).ID
			return b.put(toolDraft(says("ana", "city", "Oslo"), "crm")).ID, own
		},
		"by a confirmation": func(b *bench) (memory.ID, memory.ID) {
			tool := b.put(toolDraft(says("ana", "city", "Oslo"), "crm")).ID
			own := b.put(modelDraft(says("ana", "city", "Rome"))).ID
			b.mustMove(own, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "user:ana"))
			return tool, own
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tool, own := lay(b)
			x, y := b.head(tool), b.head(own)
			if x.Truth != memory.TruthSupported || !x.Has(memory.FlagOwnDispute) || !y.Has(memory.FlagOwnWord) || y.Rank != memory.RankUser {
				t.Fatalf("%+v %+v", x, y)
			}
			if h := y.For(bob(b)); h.Truth == memory.TruthSupported || h.Rank != 0 {
				t.Errorf("for bob her word is %s", h.Truth)
			}
			if h := y.For(memory.Token{}); h.Truth == memory.TruthSupported {
				t.Error("it counts for nobody in particular")
			}
			if h := y.For(ana(b)); h.Truth != memory.TruthSupported || h.Rank != memory.RankUser {
				t.Error("it does not count for her")
			}
			if h := x.For(bob(b)); h.Truth != memory.TruthSupported || !h.Has(memory.FlagContested) {
				t.Error("the tool's word does not stand for bob")
			}
			if h := x.For(ana(b)); h.Truth != memory.TruthContradicted {
				t.Error("the tool's word stands for her")
			}
			// She says what the tool says: nothing is disputed any more.
			b.put(userDraft("ana", says("ana", "city", "Oslo")))
			if x := b.head(tool); x.Has(memory.FlagOwnDispute) || b.head(own).State() == memory.StateVerified {
				t.Errorf("%+v", x)
			}
		})
	}
	t.Run("a tool verifies it for everybody", func(t *testing.T) {
		b := newBench(t)
		own := b.put(userDraft("ana", says("ana", "city", "Rome"))).ID
		if h := b.mustMove(own, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm")); h.Has(memory.FlagOwnWord) || h.Rank != memory.RankTool {
			t.Fatalf("%+v", h)
		}
	})
	t.Run("a scope beyond itself counts for everybody", func(t *testing.T) {
		b := newBenchOf(t, everything)
		tool := b.put(toolDraft(says("ana", "city", "Oslo"), "crm")).ID
		own := b.put(userDraft("ana", says("ana", "city", "Rome"))).ID
		if b.head(tool).Truth != memory.TruthContradicted || b.head(own).Has(memory.FlagOwnWord) {
			t.Fatal("it does not")
		}
	})
	t.Run("and what was not valid yet is not fit", func(t *testing.T) {
		b := newBench(t)
		d := toolDraft(says("ana", "city", "Oslo"), "crm")
		d.ValidFrom = b.Now().Add(time.Hour)
		id := b.put(d).ID
		if h := b.head(id); h.FreshnessAt(b.Now()) != memory.FreshnessExpired || h.FreshnessAt(d.ValidFrom) != memory.FreshnessFresh {
			t.Fatalf("%+v", h)
		}
	})
}

func TestWhatIsMadeOfAQuarantinedRowIsUnderSuspicion(t *testing.T) {
	b := newBench(t)
	up := b.put(modelDraft(says("page", "says", "Oslo"))).ID
	b.mustMove(up, memory.SecurityQuarantined, memory.AuthoritySentinel)
	if h := b.head(b.put(modelDraft(says("note", "says", "Oslo"), up)).ID); h.Security == memory.SecurityClean || !h.Has(memory.FlagTainted) {
		t.Fatalf("%+v", h)
	}
}

func TestTwoDocumentsAreNotTwoTools(t *testing.T) { // LS-13, D-30
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	_, err := b.move(id, memory.TruthSupported, memory.AuthorityAutoObservation, supports(memory.RankPrimarySource, "doc:1"), supports(memory.RankPrimarySource, "doc:2"))
	wantErr(t, err, memory.ErrInsufficient)
	_, err = b.move(id, memory.TruthSupported, memory.AuthorityAutoObservation, supports(memory.RankTool, "tool:crm"), supports(memory.RankPrimarySource, "doc:2"))
	wantErr(t, err, memory.ErrInsufficient)
	b.mustMove(id, memory.TruthSupported, memory.AuthorityAutoObservation, supports(memory.RankTool, "tool:crm"), supports(memory.RankTool, "tool:erp"))
}
