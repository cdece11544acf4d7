package memory_test

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
)

// due is the mark of a row, which has one.
func (b *bench) due(id memory.ID) memory.Due {
	b.Helper()
	mark, ok, err := b.DueMark(b.Context(), id)
	if err != nil || !ok {
		b.Fatal(ok, err)
	}
	return mark
}

// listed are the marks of a list.
func listed(t testing.TB, list iter.Seq2[memory.Due, error]) (marks []memory.Due) {
	t.Helper()
	for d, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		marks = append(marks, d)
	}
	return marks
}

func noteErr(b *bench, mark memory.Due, m memory.SourceMark) error {
	_, err := b.Note(b.Context(), mark, m)
	return err
}

func (b *bench) note(mark memory.Due, source string, after time.Duration, failures int) {
	b.Helper()
	noted, err := b.Note(b.Context(), mark, memory.SourceMark{Source: source, Until: b.Now().Add(after), Failures: failures})
	if now := b.due(mark.ID); err != nil || !reflect.DeepEqual(noted, now) {
		b.Fatalf("%+v, and the mark is %+v: %v", noted, now, err)
	}
}

// TestANoteLeavesTheRound: only what is known of the source changes.
func TestANoteLeavesTheRound(t *testing.T) {
	for name, at := range map[string]time.Time{"due": day0, "parked": {}} {
		b := newBench(t)
		id := b.put(toolDraft(berlin, "crm")).ID
		if err := b.marks(id, at, 3, "a blocked call wants it"); err != nil {
			t.Fatal(err)
		}
		before := b.due(id)
		b.note(before, "wiki", time.Second, 2)
		b.note(before, "crm", time.Hour, 0) // another check, which read the same mark
		b.note(before, "wiki", time.Minute, 3)
		after := b.due(id)
		want := []memory.SourceMark{{Source: "crm", Until: b.Now().Add(time.Hour)}, {Source: "wiki", Until: b.Now().Add(time.Minute), Failures: 3}}
		if !slices.Equal(after.Sources, want) || after.Of("wiki") != want[1] || after.Of("erp") != (memory.SourceMark{}) {
			t.Errorf("%s: %+v", name, after.Sources)
		}
		if after.Generation != before.Generation || after.At != before.At || after.Tries != 3 || after.Reason != "a blocked call wants it" {
			t.Errorf("%s: %+v, and then %+v", name, before, after)
		}
		due, parked := listed(t, b.DueRows(t.Context(), b.Now())), listed(t, b.ParkedRows(t.Context()))
		if len(due)+len(parked) != 1 || (len(parked) == 1) != at.IsZero() {
			t.Fatalf("%s: %d due, %d parked", name, len(due), len(parked))
		}
		if listed := append(due, parked...)[0]; !slices.Equal(listed.Sources, want) || listed.Generation != before.Generation {
			t.Errorf("%s: listed as %+v", name, listed)
		}
	}
}

// TestARoundThatIsOver: whoever read the mark before writes nothing.
func TestARoundThatIsOver(t *testing.T) {
	anew := map[string]func(b *bench, id memory.ID, mark memory.Due){
		"rescheduled": func(b *bench, id memory.ID, _ memory.Due) {
			if err := b.Reschedule(b.Context(), id, b.Now(), 0, "again"); err != nil {
				b.Fatal(err)
			}
		},
		"postponed": func(b *bench, _ memory.ID, mark memory.Due) {
			if err := b.Postpone(b.Context(), mark, b.Now().Add(time.Hour), 1, "asked"); err != nil {
				b.Fatal(err)
			}
		},
		"verified": func(b *bench, id memory.ID, _ memory.Due) {
			b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
		},
		"demoted": func(b *bench, id memory.ID, _ memory.Due) {
			b.mustMove(id, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankTool, "tool:crm"))
		},
	}
	for name, change := range anew {
		b := newBench(t)
		id := b.put(modelDraft(berlin)).ID
		old := b.due(id)
		change(b, id, old)
		now := b.due(id)
		if now.Generation <= old.Generation {
			t.Errorf("%s: generation %d, and then %d", name, old.Generation, now.Generation)
		}
		wantErr(t, b.Postpone(t.Context(), old, b.Now(), 9, "late"), memory.ErrConflict)
		wantErr(t, noteErr(b, old, memory.SourceMark{Source: "crm", Until: b.Now()}), memory.ErrConflict)
		if after := b.due(id); after.Reason != now.Reason || after.Tries != now.Tries || after.Generation != now.Generation || len(after.Sources) > 0 {
			t.Errorf("%s: %+v, and then %+v", name, now, after)
		}
	}
}

// TestAPostponementOutlivesANote that was made since the mark was read.
func TestAPostponementOutlivesANote(t *testing.T) {
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	mark := b.due(id)
	b.note(mark, "crm", time.Hour, 0)
	b.note(mark, "wiki", time.Minute, 0)
	b.pass(2 * time.Minute)
	if err := b.Postpone(t.Context(), mark, b.Now().Add(time.Hour), 1, "asked"); err != nil {
		t.Fatal(err)
	}
	// The answer of crm still stands in the next round; that of wiki has ended.
	if next := b.due(id); len(next.Sources) != 1 || next.Of("crm").Until != day0.Add(time.Hour) {
		t.Errorf("%+v", next.Sources)
	}
}

func TestANoteIsChecked(t *testing.T) {
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	mark := b.due(id)
	for field, m := range map[string]memory.SourceMark{
		"source":   {Until: b.Now()},
		"failures": {Source: "crm", Until: b.Now(), Failures: -1},
		"until":    {Source: "crm"},
	} {
		var f *memory.FieldError
		if err := noteErr(b, mark, m); !errors.As(err, &f) || f.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	long := memory.SourceMark{Source: strings.Repeat("x", 257), Until: b.Now()}
	wantErr(t, noteErr(b, mark, long), memory.ErrInvalid)
	wantErr(t, noteErr(b, mark, memory.SourceMark{Source: "crm", Until: time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC)}), memory.ErrInvalid)
	if after := b.due(id); len(after.Sources) > 0 {
		t.Errorf("%+v", after)
	}
	long.Source = long.Source[:256]
	if err := noteErr(b, mark, long); err != nil {
		t.Error(err)
	}
	nobody := mark
	nobody.ID = newBench(t).put(modelDraft(berlin)).ID // of another store
	wantErr(t, noteErr(b, nobody, long), memory.ErrNotFound)
	nobody.ID = "no id"
	wantErr(t, noteErr(b, nobody, long), memory.ErrInvalid)
}

// TestAMarkForgetsOneOfTooManySources: the one that may be asked first.
func TestAMarkForgetsOneOfTooManySources(t *testing.T) {
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	mark := b.due(id)
	for i := range 70 {
		b.note(mark, fmt.Sprintf("source-%02d", i), time.Hour+time.Duration(70-i)*time.Second, 0)
	}
	after := b.due(id)
	if len(after.Sources) != 64 || after.Of("source-00") == (memory.SourceMark{}) || after.Of("source-64") != (memory.SourceMark{}) {
		t.Errorf("%d sources: %+v", len(after.Sources), after.Sources)
	}
}

// TestNotesAtOnce: none is lost.
func TestNotesAtOnce(t *testing.T) {
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	mark := b.due(id)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			if err := noteErr(b, mark, memory.SourceMark{Source: fmt.Sprint("source-", i), Until: b.Now().Add(time.Hour)}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if after := b.due(id); len(after.Sources) != 8 || after.Generation != mark.Generation {
		t.Errorf("%+v", after)
	}
}

// TestGenerationsOnlyGrow, whatever is done to a row and however the clock goes.
func TestGenerationsOnlyGrow(t *testing.T) {
	rounds := 0
	rapid.Check(t, func(r *rapid.T) {
		b := newBench(t)
		id := b.put(modelDraft(berlin)).ID
		stale := b.due(id)
		seen := stale.Generation
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			now := b.due(id)
			same := false
			switch rapid.SampledFrom([]string{"note", "late note", "postpone", "late postponement", "reschedule", "park", "verify", "demote", "time", "back"}).Draw(r, "step") {
			case "note":
				b.note(now, "crm", time.Minute, 1)
				same = true
			case "late note":
				err := noteErr(b, stale, memory.SourceMark{Source: "wiki", Until: b.Now().Add(time.Hour)})
				if (err == nil) != (stale.Generation == now.Generation) {
					r.Fatalf("generation %d at %d: %v", stale.Generation, now.Generation, err)
				}
				same = true
			case "postpone":
				if err := b.Postpone(t.Context(), now, b.Now().Add(time.Hour), 1, "asked"); err != nil {
					r.Fatal(err)
				}
			case "late postponement":
				err := b.Postpone(t.Context(), stale, b.Now(), 1, "late")
				if same = stale.Generation != now.Generation; same == (err == nil) {
					r.Fatalf("generation %d at %d: %v", stale.Generation, now.Generation, err)
				}
			case "reschedule":
				if err := b.Reschedule(t.Context(), id, b.Now(), 1, "again"); err != nil {
					r.Fatal(err)
				}
			case "park":
				if err := b.Park(t.Context(), memory.Due{ID: id, Tries: 1}, memory.ParkedUncovered, "nobody to ask"); err != nil {
					r.Fatal(err)
				}
			case "verify":
				_, err := b.move(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
				same = err != nil
			case "demote":
				_, err := b.move(id, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankTool, "tool:crm"))
				same = err != nil
			case "time":
				b.pass(time.Hour)
				same = true
			case "back":
				b.pass(-time.Minute)
				same = true
			}
			next := b.due(id).Generation
			if same && next != seen || !same && next <= seen {
				r.Fatalf("the same %t: generation %d, and then %d", same, seen, next)
			}
			if next != seen {
				rounds++
			}
			seen = next
		}
	})
	if rounds == 0 {
		t.Error("no round ended")
	}
	t.Logf("%d rounds", rounds)
}

// marks says when a row wants its next check; zero = it is parked.
func (b *bench) marks(id memory.ID, at time.Time, tries int, reason string) error {
	if at.IsZero() {
		return b.Park(b.Context(), memory.Due{ID: id, Tries: tries}, memory.ParkedUncovered, reason)
	}
	return b.Reschedule(b.Context(), id, at, tries, reason)
}

func noted(_ memory.Due, err error) error { return err }

// TestAParkedRowSaysWhy, and one that is marked anew is parked no more.
func TestAParkedRowSaysWhy(t *testing.T) {
	b := newBenchOf(t, everything)
	id := b.put(toolDraft(berlin, "crm")).ID
	for _, why := range []memory.ParkedFor{memory.ParkedAsked, memory.ParkedUncovered, memory.ParkedStuck} {
		old := b.due(id)
		if err := b.Park(t.Context(), old, why, "because"); err != nil {
			t.Fatal(err)
		}
		if m := b.due(id); m.Parked != why || m.Reason != "because" || !m.At.IsZero() || m.Tries != old.Tries {
			t.Errorf("%s: %+v", why, m)
		}
		listed := 0
		for m, err := range b.ParkedRows(t.Context()) {
			if listed++; err != nil || m.Parked != why {
				t.Errorf("%s: %+v, %v", why, m, err)
			}
		}
		if listed != 1 {
			t.Errorf("%s: %d rows are listed", why, listed)
		}
		wantErr(t, b.Park(t.Context(), old, why, "late"), memory.ErrConflict)
	}
	for _, err := range []error{b.Park(t.Context(), b.due(id), 0, "x"), b.Park(t.Context(), b.due(id), 9, "x"),
		noted(b.Note(t.Context(), memory.Due{ID: id}, memory.SourceMark{Source: "crm", Until: b.Now()})),
		b.Reschedule(t.Context(), id, time.Time{}, 0, "x"), b.Postpone(t.Context(), b.due(id), time.Time{}, 0, "x")} {
		wantErr(t, err, memory.ErrInvalid)
	}
	if err := b.Reschedule(t.Context(), id, b.Now(), 0, "again"); err != nil {
		t.Fatal(err)
	}
	if m := b.due(id); m.Parked != 0 || m.At.IsZero() {
		t.Errorf("%+v", m)
	}
}
