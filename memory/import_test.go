package memory_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
)

func noCursor([]memory.ImportReceipt) []byte { return nil }

func (b *bench) importing(trusted bool) *memory.Importing {
	b.Helper()
	i, err := b.Importing(b.Context(), memory.ImportSource{Name: "elsewhere", Dump: "1", Actor: "op", Trusted: trusted})
	if err != nil {
		b.Fatal(err)
	}
	return i
}

// shape is what of a row does not depend on how it came.
type shape struct {
	Content memory.Content
	Origin  memory.Origin
	Anchor  string
	Depth   uint32
	Flags   memory.Flags
	Secret  memory.Sensitivity
	From    []int
	Up      int
	Echoes  int
}

func (b *bench) shapes() []shape {
	b.Helper()
	rows := b.rows(memory.Filter{})
	slices.SortFunc(rows, func(x, y memory.Row) int { return strings.Compare(string(x.ID), string(y.ID)) })
	at := map[memory.ID]int{}
	var out []shape
	for i, r := range rows {
		at[r.ID] = i
		s := shape{Content: r.Content, Origin: r.Origin, Anchor: r.Anchor, Depth: r.Depth, Flags: r.Flags, Secret: r.Sensitivity, Echoes: r.Echoes.Count}
		for _, p := range r.DerivedFrom {
			s.From = append(s.From, at[p])
		}
		up, err := b.Closure(b.Context(), r.ID)
		if err != nil {
			b.Fatal(err)
		}
		s.Up = len(up)
		out = append(out, s)
	}
	return out
}

// TestAnImportInBatchesIsWhatPutWouldHaveWritten writes the same drafts one by one,
// and in batches of any size.
func TestAnImportInBatchesIsWhatPutWouldHaveWritten(t *testing.T) {
	collapsed := 0
	rapid.Check(t, func(rt *rapid.T) {
		one, many := newBench(t), newBench(t)
		var rows []memory.Imported
		ids := map[string]memory.ID{}
		for n := range rapid.IntRange(1, 25).Draw(rt, "rows") {
			d := modelDraft(says("x", "is", fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "object"))))
			if rapid.IntRange(0, 2).Draw(rt, "external") == 0 {
				d.Origin, d.Asserter = memory.OriginFirstHand, memory.Asserter{Principal: "ana", Tool: "crm"}
				d.Anchor = fmt.Sprint("crm:", rapid.IntRange(0, 1).Draw(rt, "anchor"))
			}
			d.Sensitivity = memory.Sensitivity(rapid.IntRange(1, 4).Draw(rt, "sensitivity"))
			m := memory.Imported{Name: fmt.Sprint("row ", n), Draft: d}
			for range rapid.IntRange(0, 3).Draw(rt, "parents") {
				if n > 0 {
					p := fmt.Sprint("row ", rapid.IntRange(0, n-1).Draw(rt, "parent"))
					m.DerivedFrom = append(m.DerivedFrom, p)
					d.DerivedFrom = append(d.DerivedFrom, ids[p])
				}
			}
			r, err := one.Put(t.Context(), d)
			if err != nil {
				rt.Fatal(err)
			}
			ids[m.Name] = r.ID
			if r.Disposition == memory.Collapsed {
				collapsed++
			}
			rows = append(rows, m)
		}
		i := many.importing(true)
		for batch := range slices.Chunk(rows, rapid.IntRange(1, 30).Draw(rt, "batch")) {
			receipts, err := i.Put(t.Context(), batch, noCursor)
			if err != nil {
				rt.Fatal(err)
			}
			for _, r := range receipts {
				if r.Err != nil || r.State != memory.StateUnverified {
					rt.Fatalf("%+v", r)
				}
			}
		}
		if diff := cmp.Diff(one.shapes(), many.shapes()); diff != "" {
			rt.Fatal(diff)
		}
		if _, err := many.Verify(t.Context(), nil, nil); err != nil {
			rt.Fatal(err)
		}
		// And once more, in one batch: all of them are known.
		receipts, err := i.Put(t.Context(), rows, noCursor)
		if err != nil {
			rt.Fatal(err)
		}
		for _, r := range receipts {
			if !r.Known {
				rt.Fatalf("%+v", r)
			}
		}
		if diff := cmp.Diff(one.shapes(), many.shapes()); diff != "" {
			rt.Fatal(diff)
		}
		if _, err := many.Rebuild(t.Context(), "op", nil); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(one.shapes(), many.shapes()); diff != "" {
			rt.Fatal(diff)
		}
	})
	if collapsed == 0 {
		t.Fatal("nothing collapsed")
	}
}

func TestAnImportedLineageMayBeDeeperThanAHeadHolds(t *testing.T) {
	b := newBench(t)
	i := b.importing(false)
	var rows []memory.Imported
	for n := range memory.MaxInlineClosure + 60 {
		m := memory.Imported{Name: fmt.Sprint(n), Draft: modelDraft(says("step", "is", fmt.Sprint(n)))}
		if n > 0 {
			m.DerivedFrom = []string{fmt.Sprint(n - 1)}
		}
		rows = append(rows, m)
	}
	if _, err := i.Put(t.Context(), rows, noCursor); err != nil {
		t.Fatal(err)
	}
	shapes := b.shapes()
	for n, s := range shapes {
		if s.Up != n || int(s.Depth) != n+1 {
			t.Fatalf("row %d: %+v", n, s)
		}
	}
}

func TestARowThatDoesNotFitIsRefusedAlone(t *testing.T) {
	b := newBench(t)
	i := b.importing(false)
	huge := modelDraft(says("x", "is", "huge"))
	for range 3000 {
		e := supports(memory.RankModel, "family:gpt")
		e.Authority, e.Source = strings.Repeat("a", 4000), strings.Repeat("s", 4000)
		huge.Evidence = append(huge.Evidence, e)
	}
	rows := []memory.Imported{{Name: "1", Draft: modelDraft(says("x", "is", "1"))}, {Name: "2", Draft: huge},
		{Name: "3", Draft: modelDraft(says("x", "is", "3")), DerivedFrom: []string{"2"}}, {Name: "4", Draft: modelDraft(says("x", "is", "4")), DerivedFrom: []string{"1"}}}
	marks := 0
	got, err := i.Put(t.Context(), rows, func(r []memory.ImportReceipt) []byte {
		marks++
		return []byte("done")
	})
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Err != nil || !errors.Is(got[1].Err, memory.ErrTooLarge) || got[2].Err != nil || got[3].Err != nil {
		t.Fatalf("%+v", got)
	}
	if h := b.head(got[2].ID); !h.Has(memory.FlagLineageUnknown) {
		t.Fatalf("%+v", h)
	}
	if string(i.Cursor()) != "done" || string(b.importing(false).Cursor()) != "done" || marks == 0 {
		t.Fatal(marks)
	}
	if err := i.Finish(t.Context()); err != nil || b.importing(false).Cursor() != nil {
		t.Fatal(err)
	}
}

func TestWritersBesideAnImportDoNotHarmIt(t *testing.T) {
	b := newBench(t)
	i := b.importing(false)
	rows := []memory.Imported{{Name: "1", Draft: modelDraft(berlin)}, {Name: "2", Draft: modelDraft(says("x", "is", "y")), DerivedFrom: []string{"1"}}}
	var mine memory.Receipt
	b.driver.race = func() { mine = b.put(modelDraft(berlin)) }
	got, err := i.Put(t.Context(), rows, noCursor)
	if err != nil || got[0].ID != mine.ID || got[0].Disposition != memory.Collapsed || b.row(got[1].ID).DerivedFrom[0] != mine.ID {
		t.Fatalf("%+v %v", got, err)
	}
	// Two imports of one dump at once.
	other := b.importing(false)
	if _, err := other.Put(t.Context(), rows, func([]memory.ImportReceipt) []byte { return []byte("other") }); err != nil {
		t.Fatal(err)
	}
	more := []memory.Imported{{Name: "3", Draft: modelDraft(says("x", "is", "z"))}}
	if _, err := i.Put(t.Context(), more, func([]memory.ImportReceipt) []byte { return []byte("mine") }); err != nil {
		t.Fatal(err)
	}
	if string(b.importing(false).Cursor()) != "mine" || len(b.rows(memory.Filter{})) != 3 {
		t.Fatal(string(b.importing(false).Cursor()))
	}
}

func TestImportedRowsOfATrustedSourceHaveNamesOfTheirOwn(t *testing.T) {
	b := newBench(t)
	d := toolDraft(berlin, "crm")
	m := []memory.Imported{{Name: "1", Draft: d}}
	first, err := b.importing(false).Put(t.Context(), m, noCursor)
	if err != nil || first[0].Err != nil {
		t.Fatal(first, err)
	}
	second, err := b.importing(true).Put(t.Context(), m, noCursor)
	if err != nil || second[0].Known || second[0].ID == first[0].ID {
		t.Fatal(second, err)
	}
	if r := b.row(second[0].ID); r.Origin != memory.OriginFirstHand || r.State() != memory.StateUnverified || r.Anchor != d.Anchor || r.Independent() != 0 {
		t.Fatalf("%+v", r)
	}
	if _, err := b.Importing(t.Context(), memory.ImportSource{Name: "x"}); !errors.Is(err, memory.ErrInvalid) {
		t.Fatal(err)
	}
}
