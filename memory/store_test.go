package memory_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

var berlin = says("ana", "city", "Berlin")

func TestI1ADraftIsRefusedWholeForEachBrokenRule(t *testing.T) {
	long := strings.Repeat("x", memory.MaxField+1)
	ghost := memory.ID("mem_" + strings.Repeat("0", 26))
	for _, tc := range []struct {
		name, field string
		breakIt     func(*memory.Draft)
	}{
		{"no origin", "origin", func(d *memory.Draft) { d.Origin = 0 }},
		{"a fifth origin", "origin", func(d *memory.Draft) { d.Origin = 5 }},
		{"no state", "state", func(d *memory.Draft) { d.State = 0 }},
		{"a fourth state", "state", func(d *memory.Draft) { d.State = 4 }},
		{"no claim", "content", func(d *memory.Draft) { d.Content = memory.Content{Cardinality: memory.CardinalityUnknown} }},
		{"a claim of invisible characters", "content", func(d *memory.Draft) {
			d.Content = memory.Content{Text: "\u200b \u2060\x01", Cardinality: memory.CardinalityUnknown}
		}},
		{"a triple without predicate", "content.predicate", func(d *memory.Draft) { d.Content.Predicate = "" }},
		{"a triple without object", "content.object", func(d *memory.Draft) { d.Content.Object = "\u200b" }},
		{"no cardinality", "cardinality", func(d *memory.Draft) { d.Content.Cardinality = 0 }},
		{"a text that is too long", "content.text", func(d *memory.Draft) { d.Content.Text = strings.Repeat("x", memory.MaxText+1) }},
		{"a subject that is not UTF-8", "content.subject", func(d *memory.Draft) { d.Content.Subject = "\xff" }},
		{"a NUL in an object", "content.object", func(d *memory.Draft) { d.Content.Object = "a\x00b" }},
		{"no principal", "asserter.principal", func(d *memory.Draft) { d.Asserter.Principal = "" }},
		{"an invisible principal", "asserter.principal", func(d *memory.Draft) { d.Asserter.Principal = "\u200b" }},
		{"a model claim without model (SR-1.5)", "asserter.model", func(d *memory.Draft) { d.Asserter.Model = " " }},
		{"a model claim without family", "asserter.family", func(d *memory.Draft) { d.Asserter.Family = "" }},
		{"a model that is a tool", "asserter.tool", func(d *memory.Draft) { d.Asserter.Tool = "crm" }},
		{"a user who is a model", "asserter.model", func(d *memory.Draft) { d.Origin = memory.OriginUserAsserted }},
		{"a tool result without tool", "asserter.tool", func(d *memory.Draft) {
			d.Origin, d.Asserter = memory.OriginFirstHand, memory.Asserter{Principal: "ana"}
		}},
		{"a tool result by a model", "asserter.model", func(d *memory.Draft) { d.Origin, d.Asserter.Tool = memory.OriginFirstHand, "crm" }},
		{"no sensitivity", "sensitivity", func(d *memory.Draft) { d.Sensitivity = 0 }},
		{"an unknown criticality", "criticality", func(d *memory.Draft) { d.Criticality = 9 }},
		{"an unknown kind", "kind", func(d *memory.Draft) { d.Kind = 9 }},
		{"an unknown layer", "layer", func(d *memory.Draft) { d.Layer = 9 }},
		{"a confidence above one", "value_confidence", func(d *memory.Draft) { d.ValueConfidence = 1.1 }},
		{"a negative confidence", "valid_time_confidence", func(d *memory.Draft) { d.ValidTimeConfidence = -0.1 }},
		{"an anchor of a model", "anchor", func(d *memory.Draft) { d.Anchor = "doc:1" }},
		{"a long anchor", "anchor", func(d *memory.Draft) { d.Anchor = long }},
		{"a long source", "source", func(d *memory.Draft) { d.Source = long }},
		{"a long category", "category", func(d *memory.Draft) { d.Category = long }},
		{"a long run", "run", func(d *memory.Draft) { d.Run = long }},
		{"a time out of range", "valid_from", func(d *memory.Draft) { d.ValidFrom = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"the moment that stands for not stated", "valid_until", func(d *memory.Draft) { d.ValidUntil = time.Unix(0, 0) }},
		{"an end before the beginning", "valid_until", func(d *memory.Draft) { d.ValidFrom, d.ValidUntil = day0, day0.Add(-time.Hour) }},
		{"a negative window", "check_every", func(d *memory.Draft) { d.CheckEvery = -1 }},
		{"a window that overflows", "check_every", func(d *memory.Draft) { d.CheckEvery = 200 * 365 * 24 * time.Hour }},
		{"a parent that is no id", "derived_from", func(d *memory.Draft) { d.DerivedFrom = []memory.ID{"x"} }},
		{"a parent that is not there", "derived_from", func(d *memory.Draft) { d.DerivedFrom = []memory.ID{ghost} }},
		{"a selector that is not there", "selected_by", func(d *memory.Draft) { d.SelectedBy = []memory.ID{ghost} }},
		{"a model row born verified (I-3)", "state", func(d *memory.Draft) { d.State = memory.StateVerified }},
		{"recall born verified", "state", func(d *memory.Draft) {
			d.Origin, d.State = memory.OriginRecallReentry, memory.StateVerified
		}},
		{"free text of a tool born verified", "state", func(d *memory.Draft) {
			*d = toolDraft(memory.Content{Text: "pay Bob", Cardinality: memory.CardinalityUnknown}, "crm")
		}},
		{"born verified without evidence", "evidence", func(d *memory.Draft) { *d = toolDraft(berlin, "crm"); d.Evidence = nil }},
		{"born verified by another's evidence", "evidence.rank", func(d *memory.Draft) {
			*d = toolDraft(berlin, "crm")
			d.Evidence[0].Group = "tool:erp"
		}},
		{"born verified with a second, stolen support", "evidence.rank", func(d *memory.Draft) {
			*d = toolDraft(berlin, "crm")
			d.Evidence = append(d.Evidence, supports(memory.RankUser, "user:ana"))
		}},
		{"a model row that brings tool evidence", "evidence.rank", func(d *memory.Draft) {
			d.Evidence = []memory.Evidence{supports(memory.RankTool, "tool:crm")}
		}},
		{"evidence without relation", "relation", func(d *memory.Draft) { d.Evidence = []memory.Evidence{{}} }},
		{"evidence without source", "evidence.source", func(d *memory.Draft) {
			e := supports(memory.RankModel, "family:gpt")
			e.Source = " "
			d.Evidence = []memory.Evidence{e}
		}},
		{"evidence without a time", "evidence.at", func(d *memory.Draft) {
			e := supports(memory.RankModel, "family:gpt")
			e.At = time.Time{}
			d.Evidence = []memory.Evidence{e}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			d := modelDraft(berlin)
			tc.breakIt(&d)
			_, err := b.Put(t.Context(), d)
			var field *memory.FieldError
			if !errors.As(err, &field) || !errors.Is(err, memory.ErrInvalid) || field.Field != tc.field {
				t.Fatalf("got %v, want a FieldError of %s", err, tc.field)
			}
			if len(b.driver.revisions()) != 0 {
				t.Fatal("something was written")
			}
		})
	}
}

func TestI2NoVerbChangesWhatARowWasWrittenWith(t *testing.T) {
	b := newBench(t)
	parent := b.put(modelDraft(says("x", "is", "y"))).ID
	id := b.put(modelDraft(berlin, parent)).ID
	type written struct {
		Origin   memory.Origin
		Asserter memory.Asserter
		From     []memory.ID
		Depth    uint32
		Content  memory.Content
		Hash     memory.Token
		Claim    memory.Token
		Group    memory.Token
		Created  time.Time
	}
	snap := func() written {
		r := b.row(id)
		return written{r.Origin, r.Asserter, r.DerivedFrom, r.Depth, r.Content, r.Commitment, r.Claim, r.Group, r.CreatedAt}
	}
	was := snap()
	b.pass(time.Hour)
	for _, step := range []func(){
		func() {
			b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
		},
		func() {
			b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:erp"))
		},
		func() { b.mustMove(id, memory.SecurityQuarantined, memory.AuthoritySentinel) },
		func() { b.mustMove(id, memory.SecurityClean, memory.AuthorityUser) },
		func() { b.mustMove(id, memory.RetrievalHidden, memory.AuthorityPolicy) },
		func() { b.mustMove(id, memory.FreshnessStale, memory.AuthoritySystem) },
		func() {
			b.mustMove(id, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankPrimarySource, "doc:1"))
		},
		func() { b.put(modelDraft(says("Ana", "city", "berlin"))) },
		func() { b.put(userDraft("ana", berlin)) },
		func() {
			d := modelDraft(berlin)
			d.Origin = memory.OriginRecallReentry
			b.put(d)
		},
		func() {
			if err := b.AddEvidence(t.Context(), id, "w", "r", contradicts(memory.RankModel, "family:gpt")); err != nil {
				t.Fatal(err)
			}
		},
		func() {
			if _, err := b.AddHeat(t.Context(), map[memory.ID]float64{id: 3}); err != nil {
				t.Fatal(err)
			}
		},
		func() {
			if err := b.Reschedule(t.Context(), id, b.Now(), 1, "x"); err != nil {
				t.Fatal(err)
			}
		},
		func() { b.mustMove(id, memory.TruthSuperseded, memory.AuthorityUser) },
	} {
		step()
		if diff := cmp.Diff(was, snap()); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestI3NothingAModelDoesVerifies: no sequence of writes, re-entries, reads and
// transitions that carry evidence of the writer's family verifies a row.
func TestI3NothingAModelDoesVerifies(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		d := modelDraft(berlin)
		d.Criticality = rapid.SampledFrom([]memory.Criticality{1, 2, 3, 4}).Draw(rt, "criticality")
		d.ValueConfidence = 1
		id := b.put(d).ID
		groups := []string{"family:claude", "family:Claude", "claude", "family:cl\u200baude"}
		for i := range rapid.IntRange(1, 12).Draw(rt, "steps") {
			e := says4(memory.RelationSupports, rapid.SampledFrom([]memory.Rank{memory.RankRecall, memory.RankModel, memory.RankSecondModel, memory.RankTool}).Draw(rt, "rank"),
				fmt.Sprint("s", i), rapid.SampledFrom(groups).Draw(rt, "group"))
			switch rapid.IntRange(0, 5).Draw(rt, "verb") {
			case 0:
				again := modelDraft(berlin)
				again.Origin = rapid.SampledFrom([]memory.Origin{memory.OriginModelDerived, memory.OriginRecallReentry}).Draw(rt, "origin")
				again.ValueConfidence = 1
				b.put(again)
			case 1:
				if _, err := b.Echo(t.Context(), id, d.Asserter, "", "she lives in Berlin"); err != nil {
					rt.Fatal(err)
				}
			case 2:
				if _, err := b.AddHeat(t.Context(), map[memory.ID]float64{id: 1e6}); err != nil {
					rt.Fatal(err)
				}
			case 3:
				if err := b.AddEvidence(t.Context(), id, "agent", "sure", e); err != nil {
					rt.Fatal(err)
				}
			default:
				who := rapid.SampledFrom([]memory.Authority{1, 2, 3, 4, 5, 6, 7}).Draw(rt, "authority")
				if _, err := b.move(id, memory.TruthSupported, who, e); err == nil {
					rt.Fatalf("%s verified the row with %v", who, e)
				}
			}
			if s := b.head(id).State(); s != memory.StateUnverified {
				rt.Fatalf("state %s", s)
			}
		}
	})
}

func TestI6OfManyTransitionsOnOneRevisionOneWins(t *testing.T) {
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	var wg sync.WaitGroup
	errs := make([]error, 64)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = b.Apply(t.Context(), memory.Transition{Row: id, Revision: 1, To: memory.TruthSupported, Authority: memory.AuthorityProbe,
				Actor: fmt.Sprint("worker:", i), Source: "crm", Reason: "checked", Evidence: []memory.Evidence{supports(memory.RankTool, "tool:crm")}})
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, memory.ErrConflict) {
			t.Error(err)
		}
	}
	log, err := b.History(t.Context(), id, true)
	if err != nil || won != 1 || len(log) != 2 || b.head(id).Revision != 2 {
		t.Fatalf("%d won, %d entries, revision %d, %v; want 1, write + transition, 2", won, len(log), b.head(id).Revision, err)
	}
}

func TestI6ATransitionIsOneTransactionUnderFaults(t *testing.T) {
	boom := fmt.Errorf("%w: the wire broke", memory.ErrStore)
	type fault struct {
		name          string
		before, after bool // where the driver fails
		blind         bool // the history cannot be read either
		ok, applied   bool
	}
	for _, f := range []fault{
		{"a fault before the batch writes nothing", true, false, false, false, false},
		{"a fault after the batch is found out to be a success", false, true, false, true, true},
		{"a fault after the batch that cannot be looked into stays unknown", false, true, true, false, true},
	} {
		t.Run(f.name, func(t *testing.T) {
			b := newBench(t)
			id := b.put(modelDraft(berlin)).ID
			was := b.driver.revisions()
			fail := func(memory.Batch) error { return boom }
			if f.before {
				b.driver.before = fail
			}
			if f.after {
				b.driver.after = fail
			}
			if f.blind {
				b.driver.history = func() error { return boom }
			}
			_, err := b.move(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
			b.driver.before, b.driver.after, b.driver.history = nil, nil, nil
			if (err == nil) != f.ok || err != nil && !errors.Is(err, memory.ErrStore) {
				t.Fatalf("got %v", err)
			}
			log, logErr := b.History(t.Context(), id, true)
			mark, due, dueErr := b.DueMark(t.Context(), id)
			if logErr != nil || dueErr != nil {
				t.Fatal(logErr, dueErr)
			}
			state := b.head(id).State()
			if f.applied {
				if state != memory.StateVerified || len(log) != 2 || !due || !mark.At.Equal(b.head(id).StaleAt) || len(b.row(id).Evidence) != 1 {
					t.Fatalf("half a transition: %s, %d entries, due %v", state, len(log), mark)
				}
			} else if diff := cmp.Diff(was, b.driver.revisions()); diff != "" {
				t.Fatal(diff)
			}
		})
	}
	t.Run("a write whose outcome is unknown is not written twice", func(t *testing.T) {
		b := newBench(t)
		b.driver.after = func(memory.Batch) error { return boom }
		r, err := b.Put(t.Context(), modelDraft(berlin))
		b.driver.after = nil
		if err != nil || r.Disposition != memory.Created || len(b.rows(memory.Filter{})) != 1 {
			t.Fatal(r, err)
		}
	})
	t.Run("a cancelled caller still learns that it was applied", func(t *testing.T) {
		b := newBench(t)
		b.put(modelDraft(says("a", "store", "that is known")))
		ctx, cancel := context.WithCancel(t.Context())
		b.driver.after = func(memory.Batch) error { cancel(); return ctx.Err() }
		if _, err := b.Put(ctx, modelDraft(berlin)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestI8TheClosureIsTracedWithOneAnswer(t *testing.T) {
	t.Run("a chain counts its hops", func(t *testing.T) {
		b := newBench(t)
		from := b.put(toolDraft(says("a0", "is", "b"), "crm")).ID
		if d := b.head(from).Depth; d != 0 {
			t.Fatalf("depth %d of a first-hand row", d)
		}
		for i := range 5 {
			from = b.put(modelDraft(says(fmt.Sprint("a", i+1), "is", "b"), from)).ID
			if d := b.head(from).Depth; d != uint32(i+1) {
				t.Fatalf("depth %d after %d hops", d, i+1)
			}
		}
		if up, err := b.Closure(t.Context(), from); err != nil || len(up) != 5 {
			t.Fatal(up, err)
		}
	})
	t.Run("a diamond has each ancestor once, and the deeper depth", func(t *testing.T) {
		b := newBench(t)
		top := b.put(modelDraft(says("top", "is", "b"))).ID
		left := b.put(modelDraft(says("left", "is", "b"), top)).ID
		right := b.put(modelDraft(says("right", "is", "b"), top, left)).ID
		low := b.put(modelDraft(says("low", "is", "b"), left, right, left)).ID
		up, err := b.Closure(t.Context(), low)
		if err != nil || len(up) != 3 || b.head(low).Depth != 4 {
			t.Fatalf("%v %v depth %d", up, err, b.head(low).Depth)
		}
	})
	t.Run("beyond the inline limit the answer is the same", func(t *testing.T) {
		b := newBench(t)
		all := b.putMany(memory.MaxInlineClosure + 3)
		wide := b.put(modelDraft(says("wide", "is", "b"), all...)).ID
		child := b.put(modelDraft(says("child", "is", "b"), wide)).ID
		h := b.head(wide)
		if ids, ok := h.Ancestors(); ok || ids != nil || !h.Has(memory.FlagTraced) {
			t.Fatal("the large closure was kept inline")
		}
		up, err := b.Closure(t.Context(), child)
		if err != nil || len(up) != len(all)+1 {
			t.Fatalf("%d ancestors, %v", len(up), err)
		}
		exact := b.put(modelDraft(says("exact", "is", "b"), all[:memory.MaxInlineClosure]...)).ID
		h = b.head(exact)
		if ids, ok := h.Ancestors(); !ok || len(ids) != memory.MaxInlineClosure {
			t.Fatal("256 ancestors fit inline")
		}
	})
	t.Run("of several rows each has its own", func(t *testing.T) {
		b := newBench(t)
		random := rand.New(rand.NewPCG(1, 2))
		all := b.putMany(memory.MaxInlineClosure + 100)
		for i := range 40 { // of some the head lists what is above, of others it does not
			var from []memory.ID
			for range 1 + random.IntN(200) {
				from = append(from, all[random.IntN(len(all))])
			}
			all = append(all, b.put(modelDraft(says(fmt.Sprint("t", i), "is", "b"), from...)).ID)
		}
		tops, inline := all[len(all)-40:], 0
		got, err := b.Closures(t.Context(), tops...)
		if err != nil || len(got) != len(tops) {
			t.Fatalf("%d, %v", len(got), err)
		}
		for i, id := range tops {
			want, err := b.Closure(t.Context(), id)
			if err != nil || got[i].Err != nil {
				t.Fatal(err, got[i].Err)
			}
			slices.Sort(want)
			slices.Sort(got[i].IDs)
			if !slices.Equal(want, got[i].IDs) || len(want) == 0 {
				t.Errorf("row %d: %d ancestors, want %d", i, len(got[i].IDs), len(want))
			}
			if h := b.head(id); !h.Has(memory.FlagTraced) {
				inline++
			}
		}
		if inline == 0 || inline == len(tops) {
			t.Errorf("%d heads list what is above them", inline)
		}
		if _, err := b.Closures(t.Context(), tops[0], memory.ID("mem_"+strings.Repeat("0", 26))); !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("of one that is not there: %v", err)
		}
		if got, err := b.Closures(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("of none: %v, %v", got, err)
		}
	})
	t.Run("a head with a wide lineage lists what the row was made from", func(t *testing.T) {
		b := newBench(t)
		all := b.putMany(memory.MaxInlineClosure + 1)
		left := b.put(modelDraft(says("left", "is", "b"), all[:200]...)).ID
		right := b.put(modelDraft(says("right", "is", "b"), all[200:]...)).ID
		low := b.put(modelDraft(says("low", "is", "b"), left, right, left)).ID
		lower := b.put(modelDraft(says("lower", "is", "b"), low)).ID
		if h := b.head(lower); !h.Has(memory.FlagTraced) {
			t.Fatal("it is not wide")
		}
		if v, err := b.VerifyAll(t.Context(), memory.Verifying{}); err != nil {
			t.Errorf("%+v, %v", v, err)
		}
		for _, id := range []memory.ID{low, lower} { // the body is not asked
			b.restore(memory.Restored{Object: memory.Object{Key: strings.Replace(memory.HeadKey(id), "h/", "b/", 1)}})
		}
		if up, err := b.Closure(t.Context(), lower); err != nil || len(up) != len(all)+3 {
			t.Errorf("%d ancestors, %v", len(up), err)
		}
		if h := b.head(lower).WithoutLineage(); !h.Has(memory.FlagTraced) {
			t.Error("without its lineage it has one")
		} else if ids, ok := h.Ancestors(); ok || ids != nil {
			t.Errorf("%d ancestors", len(ids))
		}
	})
	t.Run("what is above a row that cannot be read is not known, and of others it is", func(t *testing.T) {
		b := newBench(t)
		all := b.putMany(memory.MaxInlineClosure + 1)
		broken := b.put(modelDraft(says("broken", "is", "b"), all...)).ID
		below := b.put(modelDraft(says("below", "is", "b"), broken)).ID
		whole := b.put(modelDraft(says("whole", "is", "b"), all...)).ID
		b.restore(memory.Restored{Object: memory.Object{Key: strings.Replace(memory.HeadKey(broken), "h/", "b/", 1)}})
		got, err := b.Closures(t.Context(), below, whole)
		if err != nil || !errors.Is(got[0].Err, memory.ErrDamaged) || got[0].IDs != nil || got[1].Err != nil || len(got[1].IDs) != len(all) {
			t.Errorf("%v; %v, %d; %v, %d", err, got[0].Err, len(got[0].IDs), got[1].Err, len(got[1].IDs))
		}
		if up, err := b.Closure(t.Context(), below, whole); !errors.Is(err, memory.ErrDamaged) || up != nil {
			t.Errorf("together: %d, %v", len(up), err)
		}
		rows, err := b.Get(t.Context(), below, whole)
		if err != nil {
			t.Fatal(err)
		}
		judged, err := recall.Judge(t.Context(), b.Store, rows)
		if err != nil || !judged[0].Has(memory.FlagTainted) || judged[1].Has(memory.FlagTainted) {
			t.Errorf("judged %v and %v, %v", judged[0].Flags.Names(), judged[1].Flags.Names(), err)
		}
	})
	for _, kind := range []string{"h/", "b/"} {
		t.Run("so it is above one of which somebody changed the object "+kind, func(t *testing.T) {
			b := newBench(t)
			all := b.putMany(memory.MaxInlineClosure + 1)
			broken := b.put(modelDraft(says("broken", "is", "b"), all...)).ID
			between := b.put(modelDraft(says("between", "is", "b"), append(all[:1:1], broken)...)).ID
			below := b.put(modelDraft(says("below", "is", "b"), append(all[1:2:2], between)...)).ID
			whole := b.put(modelDraft(says("whole", "is", "b"), all...)).ID
			rows, err := b.Get(t.Context(), below, whole)
			if err != nil {
				t.Fatal(err)
			}
			o := b.beneath(strings.Replace(memory.HeadKey(broken), "h/", kind, 1))
			o.Data = slices.Clone(o.Data)
			o.Data[len(o.Data)/2] ^= 1
			b.restore(o)
			judged, err := recall.Judge(t.Context(), b.Store, rows)
			if err != nil || !judged[0].Has(memory.FlagTainted) || judged[1].Has(memory.FlagTainted) {
				t.Fatalf("judged %v, %v", judged, err)
			}
			got, err := b.Closures(t.Context(), below, whole, broken)
			if err != nil || len(got[1].IDs) != len(all) || got[1].Err != nil {
				t.Fatalf("%v; %v", err, got[1].Err)
			}
			for _, i := range []int{0, 2} {
				if !errors.Is(got[i].Err, memory.ErrDamaged) || got[i].IDs != nil {
					t.Errorf("of %d: %d ancestors, %v", i, len(got[i].IDs), got[i].Err)
				}
			}
		})
	}
	t.Run("beyond ten thousand rows the write is refused", func(t *testing.T) {
		b := newBench(t)
		var all []memory.ID
		for i := range memory.MaxClosure {
			all = append(all, b.put(modelDraft(memory.Content{Text: fmt.Sprint("s", i), Cardinality: memory.CardinalityUnknown})).ID)
		}
		wide := b.put(modelDraft(says("wide", "is", "b"), all...)).ID
		_, err := b.Put(t.Context(), modelDraft(says("child", "is", "b"), wide))
		wantErr(t, err, memory.ErrClosureTooLarge)
	})
	t.Run("the lineage of a row that is not there is unknown, not empty", func(t *testing.T) {
		_, err := newBench(t).Closure(t.Context(), memory.ID("mem_"+strings.Repeat("0", 26)))
		wantErr(t, err, memory.ErrNotFound)
	})
	t.Run("secrecy and unknown lineage flow down", func(t *testing.T) {
		b := newBench(t)
		d := modelDraft(says("top", "is", "b"))
		d.Sensitivity, d.LineageUnknown = memory.SensitivitySecret, true
		top := b.put(d).ID
		low := modelDraft(says("low", "is", "b"), top)
		low.Sensitivity = memory.SensitivityPublic
		h := b.head(b.put(low).ID)
		if h.Sensitivity != memory.SensitivitySecret || !h.Has(memory.FlagLineageUnknown) {
			t.Fatalf("%s %b", h.Sensitivity, h.Flags)
		}
	})
}

func TestMP16ReentriesLeaveOneRowAndOneRecord(t *testing.T) {
	for _, tc := range []struct {
		name  string
		label func(*memory.Draft)
	}{
		{"labelled recall", func(d *memory.Draft) { d.Origin = memory.OriginRecallReentry }},
		{"labelled model", func(*memory.Draft) {}},
		{"labelled first hand, which it is not (UD-6)", func(d *memory.Draft) {
			d.Origin, d.Asserter = memory.OriginFirstHand, memory.Asserter{Principal: "ana", Tool: "echo"}
		}},
		{"labelled user asserted, which it is not (UD-6)", func(d *memory.Draft) {
			d.Origin, d.Asserter = memory.OriginUserAsserted, memory.Asserter{Principal: "ana"}
		}},
		{"labelled recall with a foreign parent (UD-2)", func(d *memory.Draft) { d.Origin = memory.OriginRecallReentry }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			first := modelDraft(berlin)
			first.ValueConfidence, first.ValidTimeConfidence = 0.4, 0.2
			id := b.put(first).ID
			other := b.put(modelDraft(says("bob", "city", "Rome"))).ID
			was, otherWas := b.row(id), b.row(other)
			for range 808 {
				d := modelDraft(berlin)
				d.ValueConfidence = 1
				tc.label(&d)
				if strings.Contains(tc.name, "foreign") {
					d.DerivedFrom = []memory.ID{other}
				}
				if r := b.put(d); r.ID != id || r.Disposition != memory.Collapsed || r.State != memory.StateUnverified || r.Revision != 1 {
					t.Fatalf("%+v", r)
				}
			}
			is := b.row(id)
			if is.Echoes.Count != 808 || b.driver.prefixed("echo/") != 1 || len(b.rows(memory.Filter{})) != 2 {
				t.Fatalf("%+v, %d records, %d rows", is.Echoes, b.driver.prefixed("echo/"), len(b.rows(memory.Filter{})))
			}
			is.Echoes = memory.Echoes{}
			if !reflect.DeepEqual(was, is) || !reflect.DeepEqual(otherWas, b.row(other)) || is.Independent() != 0 {
				t.Fatal("a re-entry moved something")
			}
		})
	}
}

func TestMP33TheSeedExampleRunsLiterally(t *testing.T) {
	b := newBench(t)
	c := says("user", "home_city", "Berlin")
	first := userDraft("user", c)
	first.ValueConfidence, first.Criticality = 1, memory.CriticalityMedium
	a := b.put(first)
	again := modelDraft(c)
	again.Origin, again.DerivedFrom = memory.OriginRecallReentry, nil
	again.ValueConfidence = 1
	r := b.put(again)                                                                       // UD-1: derived_from is empty, and the claim is found all the same
	if r.ID != a.ID || r.Disposition != memory.Collapsed || b.row(a.ID).Echoes.Count != 1 { // UD-5
		t.Fatalf("%+v after %+v", r, a)
	}
	if a.State != memory.StateVerified || r.State != memory.StateVerified || r.Revision != a.Revision {
		t.Fatalf("%+v after %+v", r, a)
	}
}

func TestMP14RecallFindsTheClaimAtWhateverAnchorItWasSeen(t *testing.T) {
	b := newBench(t)
	id := b.put(toolDraft(berlin, "crm")).ID // at the anchor "tool:crm"
	for _, origin := range []memory.Origin{memory.OriginRecallReentry, memory.OriginModelDerived} {
		d := modelDraft(says("Ana", "city", "berlin"))
		d.Origin = origin
		if r := b.put(d); r.ID != id || r.Disposition != memory.Collapsed {
			t.Fatalf("%+v", r)
		}
	}
}

func TestUD7AUserWhoSaysItTwiceHasOneRow(t *testing.T) {
	b := newBench(t)
	a := b.put(userDraft("ana", berlin))
	b.pass(time.Hour)
	d := userDraft("ana", says("ana", "city", " berlin "))
	d.Evidence[0].At = b.Now()
	r := b.put(d)
	h := b.head(a.ID)
	if r.ID != a.ID || r.Disposition != memory.Reaffirmed || h.State() != memory.StateVerified || h.Has(memory.FlagContested) || len(b.rows(memory.Filter{})) != 1 {
		t.Fatalf("%+v %+v", r, h)
	}
	if !h.VerifiedAt.Equal(b.Now()) {
		t.Error("the freshness window did not start anew")
	}
}

func TestConcurrentPutsOfOneClaimGiveOneRow(t *testing.T) {
	b := newBench(t)
	var wg sync.WaitGroup
	receipts := make([]memory.Receipt, 32)
	for i := range receipts {
		wg.Go(func() {
			var err error
			if receipts[i], err = b.Put(t.Context(), modelDraft(berlin)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	created := 0
	for _, r := range receipts {
		if r.Disposition == memory.Created {
			created++
		}
		if r.ID != receipts[0].ID {
			t.Error("two rows of one claim")
		}
	}
	if created != 1 || len(b.rows(memory.Filter{})) != 1 || b.row(receipts[0].ID).Echoes.Count != 31 {
		t.Fatalf("%d created, %d echoes", created, b.row(receipts[0].ID).Echoes.Count)
	}
}

func TestI7ARecordIsConsumedWithItsChecks(t *testing.T) {
	record := func(b *bench, id memory.ID, rev uint64) memory.DecisionRecord {
		return memory.DecisionRecord{Epoch: 1, ID: b.NewDecisionID(), Tool: "pay", Run: "r1", Fired: true, Rows: []memory.Cited{{Row: id, Revision: rev}}, Data: []byte(`{}`)}
	}
	for _, tc := range []struct {
		name string
		move func(*bench, memory.ID)
	}{
		{"a demotion", func(b *bench, id memory.ID) {
			b.mustMove(id, memory.TruthContradicted, memory.AuthorityUser)
		}},
		{"a quarantine", func(b *bench, id memory.ID) { b.mustMove(id, memory.SecurityQuarantined, memory.AuthoritySentinel) }},
		{"a fail-over", func(b *bench, _ memory.ID) {
			if err := b.BumpEpoch(b.Context(), "op", "restore"); err != nil {
				b.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name+" between reading and firing stops the call", func(t *testing.T) {
			b := newBench(t)
			id := b.put(userDraft("ana", berlin)).ID
			f, err := b.Fitness(t.Context(), []memory.ID{id})
			if err != nil {
				t.Fatal(err)
			}
			tc.move(b, id)
			was := b.driver.revisions()
			r := record(b, id, f.Heads[0].Revision)
			r.Epoch = f.Epoch
			wantErr(t, b.Record(t.Context(), r), memory.ErrConflict)
			if diff := cmp.Diff(was, b.driver.revisions()); diff != "" {
				t.Fatal(diff)
			}
		})
	}
	t.Run("echo, heat and low evidence void nothing", func(t *testing.T) {
		b := newBench(t)
		id := b.put(userDraft("ana", berlin)).ID
		b.put(modelDraft(berlin))
		_, err := b.AddHeat(t.Context(), map[memory.ID]float64{id: 1})
		if err := errors.Join(err,
			b.AddEvidence(t.Context(), id, "w", "r", contradicts(memory.RankModel, "family:gpt")),
			b.Record(t.Context(), record(b, id, 1))); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a permit is spent once", func(t *testing.T) {
		b := newBench(t)
		id := b.put(userDraft("ana", berlin)).ID
		r := record(b, id, 1)
		if err := b.Record(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := b.Record(t.Context(), r); err == nil {
			t.Fatal("the same permit was spent twice")
		}
	})
	t.Run("no call fires on a row that is not there", func(t *testing.T) {
		b := newBench(t)
		wantErr(t, b.Record(t.Context(), record(b, memory.ID("mem_"+strings.Repeat("0", 26)), 0)), memory.ErrInvalid)
	})
	t.Run("a record that is no JSON is an error and no panic", func(t *testing.T) {
		b := newBench(t)
		r := record(b, b.put(userDraft("ana", berlin)).ID, 1)
		r.Data = []byte(`{`)
		wantErr(t, b.Record(t.Context(), r), memory.ErrInvalid)
	})
}

func TestI11ADemotionMakesEarlierCallsDependentWithConstantWrites(t *testing.T) {
	writes := func(children int) (n int) {
		b := newBench(t)
		id := b.put(userDraft("ana", berlin)).ID
		for i := range children {
			b.put(modelDraft(says(fmt.Sprint("c", i), "is", "x"), id))
			if err := b.Record(t.Context(), memory.DecisionRecord{Epoch: 1, ID: b.NewDecisionID(), Fired: true, Rows: []memory.Cited{{Row: id, Revision: 1}}}); err != nil {
				t.Fatal(err)
			}
		}
		b.driver.before = func(batch memory.Batch) error { n += len(batch.Puts); return nil }
		b.mustMove(id, memory.TruthContradicted, memory.AuthorityUser)
		b.driver.before = nil
		cited, err := b.DecisionsCiting(t.Context(), id)
		if err != nil || len(cited) != children {
			t.Fatal(len(cited), err)
		}
		for _, c := range cited {
			if !c.Dependent {
				t.Fatal("a call fired before the demotion is not dependent")
			}
		}
		return n
	}
	if few, many := writes(1), writes(100); few != many {
		t.Fatalf("%d writes with one dependent, %d with a hundred", few, many)
	}
	for _, tc := range []struct {
		name string
		want bool
		then func(*bench, memory.ID)
	}{
		{"an echo makes nothing dependent", false, func(b *bench, _ memory.ID) { b.put(modelDraft(berlin)) }},
		{"a reaffirmation makes nothing dependent", false, func(b *bench, id memory.ID) {
			b.mustMove(id, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "user:ana"))
		}},
		{"a quarantine does", true, func(b *bench, id memory.ID) { b.mustMove(id, memory.SecurityQuarantined, memory.AuthoritySentinel) }},
		{"a demotion does, also once it is mended", true, func(b *bench, id memory.ID) {
			b.mustMove(id, memory.TruthContradicted, memory.AuthorityUser)
			b.mustMove(id, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "user:ana"))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			id := b.put(userDraft("ana", berlin)).ID
			if err := b.Record(t.Context(), memory.DecisionRecord{Epoch: 1, ID: b.NewDecisionID(), Fired: true, Rows: []memory.Cited{{Row: id, Revision: 1}}}); err != nil {
				t.Fatal(err)
			}
			tc.then(b, id)
			cited, err := b.DecisionsCiting(t.Context(), id)
			if err != nil || len(cited) != 1 || cited[0].Dependent != tc.want {
				t.Fatalf("%+v %v", cited, err)
			}
		})
	}
}

func TestAParkedRowIsListedUntilItIsDueAgain(t *testing.T) {
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	list := func(of func() iter.Seq2[memory.Due, error]) (ids []memory.ID) {
		t.Helper()
		for _, r := range listed(t, of()) {
			ids = append(ids, r.ID)
		}
		return ids
	}
	due := func() iter.Seq2[memory.Due, error] { return b.DueRows(b.Context(), b.Now()) }
	parked := func() iter.Seq2[memory.Due, error] { return b.ParkedRows(b.Context()) }
	if len(list(due)) != 1 || len(list(parked)) != 0 {
		t.Fatalf("a new row: due %v, parked %v", list(due), list(parked))
	}
	if err := b.Park(b.Context(), memory.Due{ID: id, Tries: 0}, memory.ParkedUncovered, "nobody to ask"); err != nil {
		t.Fatal(err)
	}
	if got := list(parked); len(list(due)) != 0 || len(got) != 1 || got[0] != id {
		t.Fatalf("a parked row: due %v, parked %v", list(due), got)
	}
	if err := b.Reschedule(b.Context(), id, b.Now(), 0, "again"); err != nil {
		t.Fatal(err)
	}
	if len(list(due)) != 1 || len(list(parked)) != 0 {
		t.Fatalf("a row brought back: due %v, parked %v", list(due), list(parked))
	}
}
