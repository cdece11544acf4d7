package memory_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
)

// reads puts what a tool says of the state of order 7, as a reading of its own.
func (b *bench) reads(tool, state string) memory.Receipt {
	b.Helper()
	return b.readsAt(tool, state, memory.LineMark{})
}

func (b *bench) readsAt(tool, state string, asked memory.LineMark) memory.Receipt {
	b.Helper()
	d := toolDraft(says("order 7", "state", state), tool)
	b.readings++
	d.Evidence[0].Anchor.URI, d.Evidence[0].At = fmt.Sprint("call ", b.readings), b.clock()
	d.Asked = asked
	return b.put(d)
}

func (b *bench) mark() memory.LineMark {
	b.Helper()
	marks, err := b.MarkLines(b.Context(), says("order 7", "state", ""))
	if err != nil {
		b.Fatal(err)
	}
	return marks[0]
}

// outdated asks that a row is history, and no contradiction.
func (b *bench) outdated(id memory.ID) {
	b.Helper()
	if h := b.head(id); h.Truth != memory.TruthSuperseded || !h.Has(memory.FlagOutdated) || h.State() != memory.StateUnverified {
		b.Errorf("row %s is %s, %v", id, h.Truth, h.Flags.Names())
	}
}

// current asks that a row is verified, and that nothing contests it.
func (b *bench) current(id memory.ID) {
	b.Helper()
	if h := b.head(id); h.Truth != memory.TruthSupported || h.Flags != 0 {
		b.Errorf("row %s is %s, %v", id, h.Truth, h.Flags.Names())
	}
}

func TestI16WhatASourceSaysNowIsWhatIsVerified(t *testing.T) {
	b := newBench(t)
	open := b.reads("crm", "open").ID
	packed := b.reads("crm", "packed").ID
	b.current(packed)
	b.outdated(open)
	if r := b.reads("crm", "open"); r.ID != open || r.State != memory.StateVerified || r.Disposition != memory.Reaffirmed {
		t.Errorf("the source says again what it said first: %+v", r)
	}
	b.current(open)
	b.outdated(packed)
	for i := range 20 { // there and back
		want, gone := packed, open
		if i%2 == 1 {
			want, gone = open, packed
		}
		if r := b.reads("crm", b.row(want).Content.Object); r.ID != want {
			t.Fatalf("another row: %+v", r)
		}
		b.current(want)
		b.outdated(gone)
	}
	clean(b)
}

func TestASourceSupersedesOnlyWhatStandsOnItsWordAlone(t *testing.T) {
	t.Run("another source said the same", func(t *testing.T) {
		b := newBench(t)
		open := b.reads("crm", "open").ID
		b.mustMove(open, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:erp"))
		packed := b.reads("crm", "packed").ID
		for _, id := range []memory.ID{open, packed} {
			if h := b.head(id); h.Truth != memory.TruthSupported || !h.Has(memory.FlagContested) {
				t.Errorf("%s: %s, %v", id, h.Truth, h.Flags.Names())
			}
		}
	})
	t.Run("a person confirmed it", func(t *testing.T) {
		b := newBenchOf(t, everything)
		open := b.reads("crm", "open").ID
		b.mustMove(open, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "user:ana"))
		packed := b.reads("crm", "packed")
		if h := b.head(open); h.Truth != memory.TruthSupported || h.Rank != memory.RankUser {
			t.Errorf("a tool took what a person confirmed: %s", h.Truth)
		}
		if packed.State == memory.StateVerified {
			t.Error("a tool's word is verified against a person's")
		}
	})
	t.Run("another source says otherwise", func(t *testing.T) {
		b := newBench(t)
		open, packed := b.reads("crm", "open").ID, b.reads("erp", "packed").ID
		for _, id := range []memory.ID{open, packed} {
			if h := b.head(id); h.Truth != memory.TruthSupported || !h.Has(memory.FlagContested) {
				t.Errorf("%s: %s, %v", id, h.Truth, h.Flags.Names())
			}
		}
	})
}

func TestASourceLiftsNothingThatOthersTook(t *testing.T) {
	cases := map[string]func(*bench, memory.ID){
		"a user rejected it": func(b *bench, id memory.ID) {
			if _, err := b.Apply(b.Context(), memory.Transition{Row: id, Revision: b.head(id).Revision, To: memory.TruthContradicted, Authority: memory.AuthorityUser, Actor: "ana",
				Source: "test", Reason: "wrong", Reject: true, Evidence: []memory.Evidence{contradicts(memory.RankUser, "user:ana")}}); err != nil {
				b.Fatal(err)
			}
		},
		"a user contradicted it without a word": func(b *bench, id memory.ID) {
			b.mustMove(id, memory.TruthContradicted, memory.AuthorityUser)
		},
		"a better source contradicted it": func(b *bench, id memory.ID) {
			b.mustMove(id, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankPrimarySource, "register"))
		},
		"it was retracted": func(b *bench, id memory.ID) {
			b.mustMove(id, memory.TruthSuperseded, memory.AuthorityUser)
		},
		"it was history, and then rejected": func(b *bench, id memory.ID) {
			b.reads("crm", "packed")
			b.outdated(id)
			if _, err := b.Apply(b.Context(), memory.Transition{Row: id, Revision: b.head(id).Revision, To: memory.TruthContradicted, Authority: memory.AuthorityUser, Actor: "ana",
				Source: "test", Reason: "wrong", Reject: true, Evidence: []memory.Evidence{contradicts(memory.RankUser, "user:ana")}}); err != nil {
				b.Fatal(err)
			}
		},
		"it was history, and then retracted": func(b *bench, id memory.ID) {
			b.reads("crm", "packed")
			if _, err := b.Rollback(b.Context(), memory.Rollback{Row: id, Revision: b.head(id).Revision, Authority: memory.AuthorityUser, Actor: "ana", Reason: "wrong"}); err != nil {
				b.Fatal(err)
			}
		},
	}
	for name, take := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBenchOf(t, everything)
			open := b.reads("crm", "open").ID
			take(b, open)
			if r := b.reads("crm", "open"); r.ID != open || r.State == memory.StateVerified {
				t.Errorf("its source says it again: %+v", r)
			}
			if h := b.head(open); h.Truth == memory.TruthSupported {
				t.Errorf("it is %s", h.Truth)
			}
		})
	}
	t.Run("quarantine", func(t *testing.T) {
		b := newBench(t)
		open := b.reads("crm", "open").ID
		b.mustMove(open, memory.SecurityQuarantined, memory.AuthoritySentinel)
		b.reads("crm", "packed")
		b.reads("crm", "open")
		if h := b.head(open); h.Security != memory.SecurityQuarantined || !h.Has(memory.FlagTainted) {
			t.Errorf("its source let it out: %s, %v", h.Security, h.Flags.Names())
		}
	})
}

func TestASourceThatContradictsItselfMakesHistory(t *testing.T) {
	b := newBench(t)
	note := b.put(modelDraft(says("order 7", "state", "open"))).ID
	b.mustMove(note, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
	b.mustMove(note, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankTool, "tool:crm"))
	b.outdated(note)
	if _, due, err := b.DueMark(b.Context(), note); err != nil || !due {
		t.Errorf("it is not asked about again: %v", err)
	}
	if _, err := b.move(note, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankModel, "family:other")); err == nil {
		t.Error("a model's word made it true again")
	}
	again := supports(memory.RankTool, "tool:crm")
	again.Anchor.URI = "the next day"
	b.mustMove(note, memory.TruthSupported, memory.AuthorityProbe, again)
	b.mustMove(note, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:erp"))
	b.mustMove(note, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankPrimarySource, "register"))
	if h := b.head(note); h.Truth != memory.TruthContradicted || h.Has(memory.FlagOutdated) {
		t.Errorf("contradicted by another source it is %s, %v", h.Truth, h.Flags.Names())
	}
	clean(b)
}

func TestAnAnswerThatWasOvertakenSupersedesNothing(t *testing.T) {
	b := newBench(t)
	first := b.mark()
	open := b.readsAt("crm", "open", first).ID
	b.current(open)
	slow := b.mark()
	packed := b.readsAt("crm", "packed", b.mark()).ID
	if r := b.readsAt("crm", "open", slow); r.ID != open || r.State == memory.StateVerified || !strings.Contains(r.Reason, "overtaken") {
		t.Errorf("an answer from before: %+v", r)
	}
	if r := b.readsAt("crm", "lost", slow); r.State == memory.StateVerified || !strings.Contains(r.Reason, "overtaken") {
		t.Errorf("an answer from before that nobody else gave: %+v", r)
	}
	b.current(packed)
	b.outdated(open)
	if r := b.readsAt("crm", "packed", slow); r.ID != packed || r.State != memory.StateVerified {
		t.Errorf("an answer that agrees with what stands: %+v", r)
	}
	note := b.put(modelDraft(says("order 7", "state", "returned"))).ID
	_, err := b.Apply(b.Context(), memory.Transition{Row: note, Revision: b.head(note).Revision, To: memory.TruthSupported, Authority: memory.AuthorityProbe, Actor: "worker", Source: "crm",
		Reason: "it says so", Evidence: []memory.Evidence{supports(memory.RankTool, "tool:crm")}, Asked: slow})
	if !errors.Is(err, memory.ErrOvertaken) || b.head(note).Revision != 1 {
		t.Errorf("a worker's answer from before: %v", err)
	}
	if r := b.readsAt("crm", "open", b.mark()); r.ID != open || r.State != memory.StateVerified {
		t.Errorf("asked again, it says so: %+v", r)
	}
	other, err := b.MarkLines(b.Context(), says("order 8", "state", ""), memory.Content{Text: "no triple"})
	if err != nil || other[1] != (memory.LineMark{}) {
		t.Fatal(other, err)
	}
	if r := b.readsAt("crm", "packed", other[0]); r.State != memory.StateVerified {
		t.Errorf("the mark of another line stops it: %+v", r)
	}
	clean(b)
}

// Whatever the order in which answers come, one that is asked for when nothing is under
// way is what is verified in the end, alone; and none takes the place of one that was
// verified after its own question.
func TestI16NoClockOrdersReadings(t *testing.T) {
	type answer struct {
		state string
		asked memory.LineMark
		after int // of the changes of what is verified, how many were known
	}
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		states := []string{"open", "packed", "sent"}
		now, changes, stands := "open", 0, ""
		var underway, delivered []answer
		deliver := func(a answer) {
			b.pass(time.Duration(rapid.IntRange(-24, 24).Draw(rt, "hours")) * time.Hour) // a clock says nothing
			r := b.readsAt("crm", a.state, a.asked)
			verified := r.State == memory.StateVerified
			if a.after < changes && a.state != stands && verified {
				rt.Fatalf("%q took the place of %q, which was verified since it was asked for", a.state, stands)
			}
			if verified && a.state != stands {
				changes, stands = changes+1, a.state
			}
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 3:
				if len(delivered) > 0 { // it comes once more
					deliver(rapid.SampledFrom(delivered).Draw(rt, "again"))
				}
			case 0:
				now = rapid.SampledFrom(states).Draw(rt, "state")
			case 1:
				underway = append(underway, answer{now, b.mark(), changes})
			case 2:
				if len(underway) > 0 {
					i := rapid.IntRange(0, len(underway)-1).Draw(rt, "which")
					a := underway[i]
					underway = append(underway[:i:i], underway[i+1:]...)
					deliver(a)
					delivered = append(delivered, a)
				}
			}
		}
		for _, a := range underway {
			deliver(a)
		}
		deliver(answer{now, b.mark(), changes})
		verified := 0
		for _, r := range b.rows(memory.Filter{}) {
			if r.State() == memory.StateVerified {
				verified++
				if r.Content.Object != now || r.Has(memory.FlagContested) {
					rt.Fatalf("%q is verified, %v, and the source says %q", r.Content.Object, r.Flags.Names(), now)
				}
			}
		}
		if verified != 1 {
			rt.Fatalf("%d rows are verified", verified)
		}
	})
}

func TestARollbackBringsBackWhatWasHistory(t *testing.T) {
	b := newBenchOf(t, everything)
	open, packed := b.reads("crm", "open").ID, b.reads("crm", "packed").ID
	done, err := b.Rollback(b.Context(), memory.Rollback{Row: packed, Revision: b.head(packed).Revision, Authority: memory.AuthorityUser, Actor: "ana", Reason: "it was a slip"})
	if err != nil || done.Restored != open {
		t.Fatalf("%+v, %v", done, err)
	}
	if h := b.head(open); h.Truth != memory.TruthUnverified || h.Has(memory.FlagOutdated) {
		t.Errorf("it is %s, %v", h.Truth, h.Flags.Names())
	}
	if r := b.reads("crm", "open"); r.ID != open || r.State != memory.StateVerified {
		t.Errorf("its source says it: %+v", r)
	}
	clean(b)
}
