package memory_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
)

func (b *bench) read(id memory.ID, times float64) []memory.Due {
	b.Helper()
	marks, err := b.AddHeat(b.Context(), map[memory.ID]float64{id: times})
	if err != nil {
		b.Fatal(err)
	}
	return marks
}

// dueNow are the rows due now, in their order.
func (b *bench) dueNow(predicates ...string) (ids []memory.ID) {
	b.Helper()
	for _, d := range listed(b, b.DueNow(b.Context(), predicates...)) {
		ids = append(ids, d.ID)
	}
	return ids
}

// wake moves rows whose time has come.
func (b *bench) wake() (n int, next time.Time) {
	b.Helper()
	n, next, err := b.WakeDue(b.Context(), memory.MaxWoken)
	if err != nil {
		b.Fatal(err)
	}
	return n, next
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-6*max(want, 1) }

// TestHeatDecays by half a day, and adds up.
func TestHeatDecays(t *testing.T) {
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	if got := b.due(id).Heat; got != 0 {
		t.Fatalf("nobody read it: %v", got)
	}
	for _, step := range []struct {
		pass  time.Duration
		reads float64
		want  float64
	}{{0, 8, 8}, {memory.HeatHalfLife, 0, 4}, {2 * memory.HeatHalfLife, 3, 4}, {0, 100, 104}, {10 * memory.HeatHalfLife, 0, 104. / 1024}, {-time.Hour, 1, 1 + 104./1024*math.Exp2(1./24)}} {
		b.pass(step.pass)
		marks := b.read(id, step.reads)
		if got := b.due(id).Heat; len(marks) != 1 || !near(got, step.want) || marks[0].Heat != got {
			t.Errorf("%+v: %v, %+v", step, got, marks)
		}
	}
	generation := b.due(id).Generation
	b.read(id, 1e300)
	b.read(id, math.SmallestNonzeroFloat64)
	if d := b.due(id); d.Heat < 1e17 || math.IsInf(d.Heat, 0) || d.Generation != generation {
		t.Errorf("%+v", d)
	}
}

// TestNothingIsCountedOfARowWithoutAMark: it wants no check.
func TestNothingIsCountedOfARowWithoutAMark(t *testing.T) {
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	b.mustMove(id, memory.TruthSuperseded, memory.AuthorityUser)
	if marks := b.read(id, 3); len(marks) != 0 {
		t.Errorf("%+v", marks)
	}
	if _, ok, err := b.DueMark(t.Context(), id); ok || err != nil {
		t.Errorf("%t, %v", ok, err)
	}
}

// TestTheRowsDueNow are those that are due and that WakeDue has found, most read first; of those
// that nobody has read the older one comes first.
func TestTheRowsDueNow(t *testing.T) {
	b := newBench(t)
	var ids []memory.ID
	for i := range 6 {
		b.pass(time.Second)
		ids = append(ids, b.put(modelDraft(says(fmt.Sprint("box ", i), "weighs", "2 kg"))).ID)
	}
	if got := b.dueNow(); !slices.Equal(got, ids) {
		t.Fatalf("nobody read one: %v, want %v", got, ids)
	}
	b.read(ids[4], 10)
	b.read(ids[2], 3)
	b.pass(memory.HeatHalfLife)
	b.read(ids[5], 4) // ten reads of yesterday are five
	if got, want := b.dueNow(), []memory.ID{ids[4], ids[5], ids[2], ids[0], ids[1], ids[3]}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// What is due later is not on the list until it is found, and then in its place.
	later := b.Now().Add(time.Hour)
	for i, at := range map[int]time.Time{4: later, 0: later.Add(time.Minute), 1: {}} {
		if err := b.marks(ids[i], at, 1, "later"); err != nil {
			t.Fatal(err)
		}
	}
	b.read(ids[0], 9) // it counts meanwhile
	before := b.due(ids[0])
	if n, next := b.wake(); n != 0 || !next.Equal(later) {
		t.Errorf("%d are due, the next one %s", n, next)
	}
	b.pass(time.Hour)
	if got, want := b.dueNow(), []memory.ID{ids[5], ids[2], ids[3]}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if n, next := b.wake(); n != 1 || !next.Equal(later.Add(time.Minute)) {
		t.Errorf("%d are due, the next one %s", n, next)
	}
	b.pass(time.Minute)
	if n, next := b.wake(); n != 1 || !next.IsZero() {
		t.Errorf("%d are due, the next one %s", n, next)
	}
	if got, want := b.dueNow(), []memory.ID{ids[0], ids[4], ids[5], ids[2], ids[3]}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if after := b.due(ids[0]); after.Generation != before.Generation || after.Reason != "later" || !after.At.Equal(before.At) {
		t.Errorf("%+v, and then %+v", before, after)
	}
}

// TestRowsAreListedByTheirPredicate as it is canonically written, and those of which it is not
// known by every one.
func TestRowsAreListedByTheirPredicate(t *testing.T) {
	b := newBench(t)
	weighs := b.put(modelDraft(says("box", "weighs", "2 kg"))).ID
	costs := b.put(modelDraft(says("box", "costs", "3 EUR"))).ID
	words := b.put(modelDraft(memory.Content{Text: "the box is heavy", Cardinality: memory.CardinalityUnknown})).ID
	owner := b.put(modelDraft(says("box", "owner", "Ana"))).ID
	b.read(costs, 2)
	b.read(owner, 1)
	for name, c := range map[string]struct {
		predicates []string
		want       []memory.ID
	}{
		"all":              {nil, []memory.ID{costs, owner, weighs, words}},
		"one":              {[]string{"costs"}, []memory.ID{costs}},
		"two, of three":    {[]string{"weighs", "costs"}, []memory.ID{costs, weighs}},
		"one, twice":       {[]string{"Weighs", "weighs "}, []memory.ID{weighs}},
		"one nobody knows": {[]string{"colour"}, nil},
	} {
		if got := b.dueNow(c.predicates...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestDueRowsAreListedWhetherFoundOrNot, by the time they fell due.
func TestDueRowsAreListedWhetherFoundOrNot(t *testing.T) {
	b := newBench(t)
	var ids []memory.ID
	for i := range 5 {
		ids = append(ids, b.put(modelDraft(says(fmt.Sprint("box ", i), "weighs", "2 kg"))).ID)
		if err := b.Reschedule(t.Context(), ids[i], b.Now().Add(time.Duration(5-i)*time.Minute), 0, "later"); err != nil {
			t.Fatal(err)
		}
	}
	if _, due, err := b.OldestDue(t.Context()); due || err != nil {
		t.Fatal(due, err)
	}
	b.pass(2 * time.Minute)
	b.wake()
	b.pass(2 * time.Minute)
	var got []memory.ID
	for _, d := range listed(t, b.DueRows(t.Context(), b.Now())) {
		got = append(got, d.ID)
	}
	if want := []memory.ID{ids[4], ids[3], ids[2], ids[1]}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if first, due, err := b.OldestDue(t.Context()); !due || err != nil || first.ID != ids[4] {
		t.Errorf("%+v, %t, %v", first, due, err)
	}
}

func TestAWakeHasALimit(t *testing.T) {
	b := newBench(t)
	for _, limit := range []int{0, -1, memory.MaxWoken + 1} {
		_, _, err := b.WakeDue(t.Context(), limit)
		wantErr(t, err, memory.ErrInvalid)
	}
	for i := range 5 {
		if err := b.Reschedule(t.Context(), b.put(modelDraft(says(fmt.Sprint("box ", i), "weighs", "2 kg"))).ID, b.Now().Add(time.Second), 0, "later"); err != nil {
			t.Fatal(err)
		}
	}
	b.pass(time.Second)
	for _, want := range []int{2, 2, 1, 0} {
		n, next, err := b.WakeDue(t.Context(), 2)
		if err != nil || n != want || (n == 2) != next.Equal(b.Now()) {
			t.Errorf("%d, want %d, %s, %v", n, want, next, err)
		}
	}
}

// TestTheListOfRowsDueNowIsThatOfTheMarks: whatever happens to rows, each row that is due and was
// found is on the list once, and in its place.
func TestTheListOfRowsDueNowIsThatOfTheMarks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		predicates := []string{"weighs", "costs"}
		var ids []memory.ID
		about := map[memory.ID]string{}
		for i := range 4 {
			p := predicates[i%2]
			id := b.put(modelDraft(says(fmt.Sprint("box ", i), p, "2"))).ID
			ids, about[id] = append(ids, id), p
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			id := rapid.SampledFrom(ids).Draw(rt, "row")
			mark, marked, err := b.DueMark(t.Context(), id)
			if err != nil {
				rt.Fatal(err)
			}
			after := time.Duration(rapid.IntRange(-2, 40).Draw(rt, "minutes")) * time.Minute
			switch rapid.SampledFrom([]string{"read", "read", "pass", "wake", "note", "postpone", "reschedule", "park", "verify", "demote"}).Draw(rt, "step") {
			case "read":
				b.read(id, float64(rapid.IntRange(0, 50).Draw(rt, "reads")))
			case "pass":
				b.pass(max(after, 0))
			case "wake":
				b.wake()
			case "note":
				if marked {
					b.note(mark, "crm", max(after, time.Second), 0)
				}
			case "postpone":
				err = b.Postpone(t.Context(), mark, b.Now().Add(after), 1, "asked")
			case "reschedule":
				err = b.Reschedule(t.Context(), id, b.Now().Add(after), 1, "to be checked again")
			case "park":
				err = b.Park(t.Context(), memory.Due{ID: id, Tries: 1}, memory.ParkedUncovered, "nobody")
			case "verify":
				if b.head(id).Truth != memory.TruthSupported {
					b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankPrimarySource, "doc:1")) // which may have said otherwise
				}
			case "demote":
				if b.head(id).Truth == memory.TruthSupported {
					b.mustMove(id, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankPrimarySource, "doc:1"))
				}
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		b.wake()
		var want []memory.Due
		for _, id := range ids {
			if mark, marked, err := b.DueMark(t.Context(), id); err != nil {
				rt.Fatal(err)
			} else if marked && !mark.At.IsZero() && !mark.At.After(b.Now()) {
				want = append(want, mark)
			}
		}
		slices.SortStableFunc(want, func(a, b memory.Due) int { return cmp.Compare(b.Heat, a.Heat) })
		ordered := func(predicates ...string) {
			var rows []memory.ID
			for _, d := range want {
				if len(predicates) == 0 || slices.Contains(predicates, about[d.ID]) {
					rows = append(rows, d.ID)
				}
			}
			got := b.dueNow(predicates...)
			// Counts that are the same to a millionth are in either order, but those of rows that nobody has
			// read.
			heat := func(list []memory.ID) (out []float64) {
				for _, id := range list {
					out = append(out, b.due(id).Heat)
				}
				return out
			}
			unread := func(list []memory.ID) []memory.ID {
				return slices.DeleteFunc(slices.Clone(list), func(id memory.ID) bool { return b.due(id).Heat > 0 })
			}
			if !slices.EqualFunc(heat(got), heat(rows), near) || !slices.Equal(unread(got), unread(rows)) || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(rows))) {
				rt.Fatalf("%v: %v, want %v (%+v)", predicates, got, rows, want)
			}
		}
		ordered()
		ordered("weighs")
		ordered("costs", "weighs")
		if report, err := b.VerifyAll(t.Context(), memory.Verifying{}); err != nil {
			rt.Fatalf("%+v, %v", report, err)
		}
	})
}

// between is a driver of which somebody else changes the store after a query, once.
type between struct {
	memory.Driver
	then func()
}

func (d *between) Query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	hits, next, err := d.Driver.Query(ctx, tenant, q)
	if then := d.then; then != nil {
		d.then = nil
		then()
	}
	return hits, next, err
}

// TestARowThatMovesWhileItIsWokenStaysAsItIs.
func TestARowThatMovesWhileItIsWokenStaysAsItIs(t *testing.T) {
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	if err := b.Reschedule(t.Context(), id, b.Now().Add(time.Second), 0, "later"); err != nil {
		t.Fatal(err)
	}
	b.pass(time.Second)
	for name, at := range map[string]time.Time{"parked": {}, "put off": b.Now().Add(time.Hour)} {
		d := &between{Driver: b.driver, then: func() {
			if err := b.marks(id, at, 7, "meanwhile"); err != nil {
				t.Fatal(err)
			}
		}}
		s, err := memory.New(d, b.keys, &memory.Options{Clock: b.clock})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.WakeDue(t.Context(), 10); err != nil || d.then != nil {
			t.Fatal(err)
		}
		if mark := b.due(id); mark.Tries != 7 || !mark.At.Equal(at) && at.IsZero() {
			t.Errorf("%s: %+v", name, mark)
		}
		if at.IsZero() && len(listed(t, b.ParkedRows(t.Context()))) != 1 {
			t.Errorf("%s: it is not listed", name)
		}
		if err := b.Reschedule(t.Context(), id, b.Now(), 0, "again"); err != nil {
			t.Fatal(err)
		}
		if err := b.Reschedule(t.Context(), id, b.Now().Add(time.Second), 0, "later"); err != nil {
			t.Fatal(err)
		}
		b.pass(time.Second)
	}
}

// damageMark changes a byte of the due mark of a row.
func (b *bench) damageMark(id memory.ID) {
	b.Helper()
	n := 0
	for o, err := range b.driver.Objects(b.Context(), b.Tenant(), "") {
		if err != nil {
			b.Fatal(err)
		}
		if memory.KeyText(o.Key) != "due/"+string(id) {
			continue
		}
		o.Data = slices.Clone(o.Data)
		o.Data[0] ^= 1
		if err := b.driver.Restore(b.Context(), b.Tenant(), []memory.Restored{o}); err != nil {
			b.Fatal(err)
		}
		n++
	}
	if n != 1 {
		b.Fatalf("%d marks", n)
	}
}

// TestTheMarksOfSomeRows are those that DueMark says, of each row that has one.
func TestTheMarksOfSomeRows(t *testing.T) {
	b := newBenchOf(t, everything)
	var ids []memory.ID
	for i := range 5 {
		ids = append(ids, b.put(modelDraft(says(fmt.Sprint("box ", i), "weighs", "2 kg"))).ID)
	}
	b.mustMove(ids[0], memory.TruthSuperseded, memory.AuthorityUser) // wants no check
	for id, at := range map[memory.ID]time.Time{ids[1]: b.Now().Add(time.Hour), ids[2]: {}} {
		if err := b.marks(id, at, 3, "in words of its own"); err != nil {
			t.Fatal(err)
		}
	}
	b.read(ids[3], 7)
	b.damageMark(ids[4])
	marks, err := b.DueMarks(t.Context(), slices.Concat(ids, []memory.ID{"mem_00000000000000000000000000", ids[1]})...)
	if err != nil || len(marks) != 4 {
		t.Fatalf("%+v, %v", marks, err)
	}
	for _, id := range ids[1:4] {
		if want := b.due(id); !reflect.DeepEqual(marks[id], want) {
			t.Errorf("%+v, want %+v", marks[id], want)
		}
	}
	if m, is := marks[ids[4]]; !is || !reflect.DeepEqual(m, memory.Due{ID: ids[4]}) {
		t.Errorf("a damaged mark is %+v", m)
	}
	if _, err := b.DueMarks(t.Context(), ids[0], "box"); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("%v", err)
	}
	if marks, err := b.DueMarks(t.Context()); len(marks) != 0 || err != nil {
		t.Errorf("%+v, %v", marks, err)
	}
	d := &gets{Driver: b.driver}
	s, err := memory.New(d, b.keys, &memory.Options{Clock: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first time the key of the reasons is read too
		d.n = 0
		if _, err := s.DueMarks(t.Context(), ids...); err != nil {
			t.Fatal(err)
		}
	}
	if d.n != 1 {
		t.Errorf("%d round trips", d.n)
	}
}

// gets is a driver that counts reads.
type gets struct {
	memory.Driver
	n int
}

func (g *gets) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	g.n++
	return g.Driver.Get(ctx, tenant, keys)
}

// TestADamagedMarkHidesNoOther: a row that is due is listed all the same, one that is due later is
// marked anew when its time has come, and reads of others are counted.
func TestADamagedMarkHidesNoOther(t *testing.T) {
	b := newBench(t)
	var ids []memory.ID
	for i := range 3 {
		ids = append(ids, b.put(modelDraft(says(fmt.Sprint("box ", i), "weighs", "2 kg"))).ID)
	}
	if err := b.Reschedule(t.Context(), ids[1], b.Now().Add(time.Second), 4, "later"); err != nil {
		t.Fatal(err)
	}
	b.damageMark(ids[0])
	b.damageMark(ids[1])
	marks, err := b.AddHeat(t.Context(), map[memory.ID]float64{ids[0]: 9, ids[1]: 9, ids[2]: 9})
	var damaged *memory.DamagedError
	if !errors.As(err, &damaged) || len(damaged.Keys) != 2 || len(marks) != 1 || marks[0].ID != ids[2] || !near(marks[0].Heat, 9) {
		t.Errorf("%+v, %v", marks, err)
	}
	if got, want := b.dueNow(), []memory.ID{ids[2], ids[0]}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	b.pass(time.Second)
	if got := listed(t, b.DueRows(t.Context(), b.Now())); len(got) != 3 || got[2].ID != ids[1] || !got[2].At.Equal(b.Now()) {
		t.Errorf("%+v", got)
	}
	if n, _ := b.wake(); n != 1 {
		t.Errorf("%d rows", n)
	}
	if mark := b.due(ids[1]); mark.Generation == 0 || mark.Tries != 0 || !mark.At.Equal(b.Now()) {
		t.Errorf("%+v", mark)
	}
	// What it is about is not known any more, so that every source finds it.
	if got, want := b.dueNow("colour"), []memory.ID{ids[1]}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if _, err := b.Rebuild(t.Context(), "ops", nil); err != nil {
		t.Fatal(err)
	}
	if got := b.dueNow("colour"); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if got := b.dueNow("weighs"); !slices.Equal(got, ids) {
		t.Errorf("%v, want %v", got, ids)
	}
}
