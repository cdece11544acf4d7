package memory_test

import (
	"errors"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
)

// A model of another family that says the same by itself is kept as evidence, which verifies
// nothing; what was read back is an echo.
func TestWhatAnotherFamilySaysByItselfIsEvidence(t *testing.T) {
	c := says("acme", "owner", "Ada")
	other := func(family string, from ...memory.ID) memory.Draft {
		d := modelDraft(c, from...)
		d.Asserter.Model, d.Asserter.Family = "model of "+family, family
		return d
	}
	for _, tc := range []struct {
		name string
		want bool
		say  func(b *bench, row memory.ID) memory.Draft
	}{
		{"another family", true, func(*bench, memory.ID) memory.Draft { return other("gpt") }},
		{"another family, from what the row does not come from", true, func(b *bench, _ memory.ID) memory.Draft {
			return other("gpt", b.put(modelDraft(says("mail", "says", "hello"))).ID)
		}},
		{"the same family", false, func(*bench, memory.ID) memory.Draft { return other("claude") }},
		{"the same family, spelled otherwise", false, func(*bench, memory.ID) memory.Draft { return other("Claude") }},
		{"another family that read the row", false, func(_ *bench, row memory.ID) memory.Draft { return other("gpt", row) }},
		{"another family that read what was made of it", false, func(b *bench, row memory.ID) memory.Draft {
			return other("gpt", b.put(modelDraft(says("acme", "boss", "Ada"), row)).ID)
		}},
		{"another family that looked up what the row says", false, func(_ *bench, row memory.ID) memory.Draft {
			d := other("gpt")
			d.SelectedBy = []memory.ID{row}
			return d
		}},
		{"another family, and nobody knows from what", false, func(*bench, memory.ID) memory.Draft {
			d := other("gpt")
			d.LineageUnknown = true
			return d
		}},
		{"another family, labelled as recall", false, func(*bench, memory.ID) memory.Draft {
			d := other("gpt")
			d.Origin = memory.OriginRecallReentry
			return d
		}},
		{"another spelling", false, func(*bench, memory.ID) memory.Draft {
			d := other("gpt")
			d.Content.Object = "ada"
			return d
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			d := modelDraft(c)
			d.Criticality = memory.CriticalityLow
			row := b.put(d).ID
			was := b.head(row).Revision
			r := b.put(tc.say(b, row))
			if r.ID != row && tc.name != "another spelling" || r.Corroborated != tc.want {
				t.Fatalf("%+v", r)
			}
			if n := len(b.row(row).Evidence); (n == 1) != tc.want || n > 1 {
				t.Errorf("%d pieces of evidence", n)
			}
			if h := b.head(row); h.State() != memory.StateUnverified || h.Revision != was {
				t.Errorf("%s at %d", h.State(), h.Revision)
			}
			if tc.want && b.row(row).Echoes.Count != 0 {
				t.Error("it is an echo, too")
			}
		})
	}
	t.Run("said twice, it counts once, and the second time is an echo", func(t *testing.T) {
		b := newBench(t)
		row := b.put(modelDraft(c)).ID
		b.put(other("gpt"))
		if r := b.put(other("gpt")); r.Corroborated || len(b.row(row).Evidence) != 1 || b.row(row).Echoes.Count != 1 {
			t.Errorf("%+v, %d pieces", r, len(b.row(row).Evidence))
		}
	})
	t.Run("what a tool said first is no model's", func(t *testing.T) {
		b := newBench(t)
		row := b.put(toolDraft(c, "crm")).ID
		if r := b.put(other("gpt")); r.Corroborated || len(b.row(row).Evidence) != 1 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("both were told it by the same", func(t *testing.T) {
		b := newBench(t)
		mail := b.put(modelDraft(says("mail", "says", "Ada owns acme"))).ID
		b.put(modelDraft(c, mail))
		if r := b.put(other("gpt", mail)); r.Corroborated {
			t.Errorf("%+v", r)
		}
	})
	t.Run("however many families say so, nothing is verified by it, nor by one that is asked beside them", func(t *testing.T) {
		b := newBench(t)
		d := modelDraft(c)
		d.Criticality = memory.CriticalityLow
		row := b.put(d).ID
		for _, family := range []string{"gpt", "gemini", "mistral"} {
			if r := b.put(other(family)); !r.Corroborated {
				t.Fatalf("%s: %+v", family, r)
			}
		}
		if _, err := b.move(row, memory.TruthSupported, memory.AuthorityProbe); !errors.Is(err, memory.ErrInsufficient) {
			t.Error(err)
		}
		if _, err := b.move(row, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankSecondModel, "family:qwen")); !errors.Is(err, memory.ErrInsufficient) {
			t.Error(err)
		}
		if b.head(row).State() != memory.StateUnverified {
			t.Error(b.head(row).State())
		}
	})
}

// Nobody is asked about a row of the working layer, whatever becomes of it; and a layer that
// nobody chose is not one that somebody did.
func TestNobodyIsAskedAboutTheWorkingLayer(t *testing.T) {
	b := newBench(t)
	d := modelDraft(says("step", "of", "1"))
	d.Layer = memory.LayerWorking
	scratch := b.put(d).ID
	kept := b.put(modelDraft(says("acme", "owner", "Ada"))).ID
	due := func(id memory.ID) bool {
		t.Helper()
		_, ok, err := b.DueMark(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if due(scratch) || !due(kept) {
		t.Fatal(due(scratch), due(kept))
	}
	b.mustMove(scratch, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
	b.mustMove(scratch, memory.TruthUnverified, memory.AuthorityProbe)
	if err := b.Reschedule(t.Context(), scratch, b.Now(), 0, "read"); err != nil || due(scratch) {
		t.Error(err, due(scratch))
	}
	if v, err := b.VerifyAll(t.Context(), memory.Verifying{}); err != nil || v.Found != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := b.Rebuild(t.Context(), "test", nil); err != nil || due(scratch) || !due(kept) {
		t.Error(err, due(scratch), due(kept))
	}
	if l := b.head(kept).Layer; l != 0 {
		t.Errorf("nobody chose a layer, and it is %s", l)
	}
	row := b.row(kept)
	if _, err := row.MarshalJSON(); err != nil {
		t.Error(err)
	}
}
