package rlab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestWordings: each says the value of its slot, in words of its own.
func TestWordings(t *testing.T) {
	for _, predicate := range factSlots {
		slot := Triple{"Ivy Glen Forge", predicate, "Rowan-123456"}
		seen := map[string]bool{}
		for _, text := range slot.wordings() {
			if seen[text] || strings.Count(text, slot.Subject) != 1 || strings.Count(text, slot.Object) != 1 {
				t.Errorf("%s: %q", predicate, text)
			}
			seen[text] = true
		}
		if len(seen) != 5 {
			t.Errorf("%s: %d wordings", predicate, len(seen))
		}
	}
}

// TestContradictSaysSomethingElse, in nearly the same words.
func TestContradictSaysSomethingElse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		slot := Triple{"Ivy Glen Forge", rapid.SampledFrom(factSlots).Draw(rt, "slot"), fmt.Sprintf("Rowan-%06d", rapid.IntRange(0, 999_999).Draw(rt, "value"))}
		text := rapid.SampledFrom(slot.wordings()).Draw(rt, "text")
		way := rapid.IntRange(0, 9).Draw(rt, "way")
		got := contradict(way, text, slot, "Slate-000007")
		same := strings.Contains(got, slot.Object) && strings.Contains(got, slot.Subject+"'s") == strings.Contains(text, slot.Subject+"'s")
		if got == text || strings.Contains(got, "%!") || (way%5 == 0 || way%5 == 3) && same || len(got) > len(text)+30 {
			rt.Errorf("%d: %q became %q", way, text, got)
		}
	})
}

// TestTheLoopHasTheShapeOfTheCase: the invention first, then 190 echoes in its words and 617
// in others, each wording before any comes again.
func TestTheLoopHasTheShapeOfTheCase(t *testing.T) {
	words := LoopWordings()
	if len(words) < 150 {
		t.Fatalf("%d wordings", len(words))
	}
	for seed := range uint64(5) {
		p := &play{rng: rand.New(rand.NewPCG(seed, 1))}
		same, near, facts := 0, 0, 0
		times := map[string]int{}
		for i, turn := range p.loop() {
			switch turn.kind {
			case invention, echo:
				if (turn.kind == invention) != (i == 0) {
					t.Errorf("seed %d: turn %d is of kind %d", seed, i, turn.kind)
				}
				if turn.text == LoopClaim {
					same++
				} else {
					times[turn.text]++
				}
			case nearMiss:
				near++
			case trueFact:
				facts++
			}
		}
		reworded := 0
		for _, w := range words {
			if n := times[w]; n < 3 || n > 4 {
				t.Errorf("seed %d: %q comes %d times", seed, w, n)
			}
			reworded += times[w]
		}
		if same != LoopSame || same+reworded != LoopWrites || near != len(nearMisses) || facts != loopTrue || len(times) != len(words) {
			t.Errorf("seed %d: %d same, %d reworded, %d near misses, %d facts", seed, same, reworded, near, facts)
		}
	}
}

func TestLanded(t *testing.T) {
	var of Landed
	l := landing{of: &of, seen: map[string]bool{}}
	for _, w := range [][2]string{{"a", LoopClaim}, {"a", LoopClaim}, {"a", "Vim it is"}, {"b", "Vim!"}, {"b", "Vim!"}, {"b", LoopClaim}, {"b", "Vim"}, {"c", LoopClaim}} {
		l.add(w[0], w[1])
	}
	if want := (Landed{First: 1, Same: 1, Recognised: 1, Own: 2, Again: 3}); of != want || of.Sum() != 8 {
		t.Errorf("%+v", of)
	}
}

// lineage is a memory that counts a statement as a source if it was made of no memory.
type lineage struct {
	notebook
	always bool // it counts every statement
	row    func(say Statement) string
	rows   map[string]int
}

func (l *lineage) Write(ctx context.Context, t Turn, say Statement) (string, error) {
	l.mu.Lock()
	if l.rows == nil {
		l.rows = map[string]int{}
	}
	id := l.row(say)
	if l.rows[id] += 0; l.always || len(say.Recalled) == 0 {
		l.rows[id]++
	}
	l.mu.Unlock()
	_, err := l.notebook.Write(ctx, t, say)
	return id, err
}

func (l *lineage) Recall(context.Context, Turn, Query) ([]Memory, error) {
	return []Memory{{ID: "some"}}, nil
}

func (l *lineage) Look(_ context.Context, ids []string) (out []Memory, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		out = append(out, Memory{ID: id, Supports: l.rows[id]})
	}
	return out, nil
}

// TestLaundering: an echo with its receipt is told from one that lost it, and two statements
// that contradict each other are merged or not.
func TestLaundering(t *testing.T) {
	byText := func(s Statement) string { return s.Text }
	for name, c := range map[string]struct {
		system  func() System
		counted bool
		support float64
		pairs   bool
	}{
		"reads receipts": {func() System { return &lineage{row: byText} }, false, 6, false},
		"reads none":     {func() System { return &lineage{row: byText, always: true} }, true, 813, false},
		// What lands on the memory of another claim is merged, and nothing else.
		"one row of all": {func() System { return &lineage{row: func(Statement) string { return "1" }} }, false, 0, true},
	} {
		got, err := Run(t.Context(), Options{Scenarios: chosen(t, "S2"), Entrants: []Entrant{entrant("a", c.system)}, Seeds: []uint64{1}})
		if err != nil || got[0].Err != nil {
			t.Fatal(name, err, got[0].Err)
		}
		all := func(name string) bool { r := got[0].Rates[name]; return r.N > 0 && r.K == r.N }
		none := func(name string) bool { r := got[0].Rates[name]; return r.N > 0 && r.K == 0 }
		if r := got[0].Rates[pairsMerged]; all(pairsMerged) != c.pairs || none(pairsMerged) == c.pairs || r.N != 200 {
			t.Errorf("%s: %+v pairs merged", name, r)
		}
		if c.pairs {
			if !none(sourceTaken) { // the one row has another source
				t.Errorf("%s: %+v sources taken for echoes", name, got[0].Rates[sourceTaken])
			}
			continue
		}
		if r := got[0].Rates[echoesCounted]; all(echoesCounted) != c.counted || none(echoesCounted) == c.counted || r.N != 30*807 {
			t.Errorf("%s: %+v echoes counted", name, r)
		}
		if r := got[0].Rates[lostCounted]; !all(lostCounted) || r.N != 30 {
			t.Errorf("%s: %+v counted without a receipt", name, r)
		}
		if r := got[0].Rates[sourceTaken]; !none(sourceTaken) || r.N != 10 {
			t.Errorf("%s: %+v sources taken for echoes", name, r)
		}
		rows, support := got[0].Values[rowsPerClaim], got[0].Values[supportFactor]
		if len(rows) != 30 || len(support) != 30 || rows[0].V != 5 || support[0].V != c.support {
			t.Errorf("%s: %v rows, support %v", name, rows, support)
		}
	}
}

// burst is a memory with a row for each text, which does some writes badly.
type burst struct {
	mu     sync.Mutex
	rows   map[string]string // texts by id
	record Record
	bad    string // what it does badly
	writes int
	most   int // writes at once
	now    int
	second chan struct{} // closed when a second write has begun before the first ended
}

var errBusy = errors.New("busy")

func (b *burst) Write(ctx context.Context, _ Turn, say Statement) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes++
	b.now++
	if b.most = max(b.most, b.now); b.most == 2 && b.second != nil {
		close(b.second)
		b.second = nil
	}
	if second := b.second; second != nil && b.writes > 3+burstSteps(burstWrites(Small)/burstCalm) {
		b.mu.Unlock()
		<-second // the writes of the burst come at once
		b.mu.Lock()
	}
	b.now--
	id := say.Text
	user := say.Author.Kind == User
	switch {
	case b.bad == "fails" && user && b.writes > 3 && b.writes%2 == 0:
		return "", errBusy
	case b.bad == "keeps twice":
		id = fmt.Sprint(say.Text, b.writes)
	case b.bad == "loses" && user:
		return id, nil
	case b.bad == "asks":
		if t, ok := Extract(say.Text); ok && !user {
			b.record.Lookup(ctx, t.Subject, t.Predicate) //nolint:errcheck // it is up
		}
	}
	b.rows[id] = say.Text
	return id, nil
}

func (b *burst) Recall(_ context.Context, _ Turn, q Query) (out []Memory, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, text := range b.rows {
		if strings.Contains(text, q.Subject) && len(out) < Shown {
			out = append(out, Memory{ID: id, Text: text})
		}
	}
	return out, nil
}

func (b *burst) Look(_ context.Context, ids []string) (out []Memory, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		if text, has := b.rows[id]; has {
			out = append(out, Memory{ID: id, Text: text})
		}
	}
	return out, nil
}

// TestBurst: what a memory loses, keeps twice, fails to do or asks too often is measured.
func TestBurst(t *testing.T) {
	for bad, want := range map[string]struct {
		failed, lost, twice bool
		rows, asked         bool
	}{
		"":            {},
		"fails":       {failed: true},
		"loses":       {lost: true},
		"keeps twice": {twice: true, rows: true},
		"asks":        {asked: true},
	} {
		var b *burst
		e := Entrant{Name: "a", Open: func(_ context.Context, e Env) (System, error) {
			b = &burst{rows: map[string]string{}, bad: bad, record: e.Record, second: make(chan struct{})}
			return b, nil
		}}
		got, err := Run(t.Context(), Options{Scenarios: chosen(t, "S3"), Entrants: []Entrant{e}, Seeds: []uint64{1}})
		if err != nil || got[0].Err != nil {
			t.Fatal(bad, err, got[0].Err)
		}
		r, v := got[0].Rates, got[0].Values
		if r[failed].K > 0 != want.failed || r[failed].N != 3740 {
			t.Errorf("%q: %+v failed", bad, r[failed])
		}
		if all := r[lost].K == r[lost].N; all != want.lost || r[lost].N != 68 || !all && r[lost].K > 0 && !want.failed {
			t.Errorf("%q: %+v lost", bad, r[lost])
		}
		if r[twice].K > 0 != want.twice || r[twice].N == 0 {
			t.Errorf("%q: %+v kept twice", bad, r[twice])
		}
		if rows := v[rowsPerClaim][0].V; rows > 1 != want.rows {
			t.Errorf("%q: %v rows", bad, rows)
		}
		if n := v[asked][0].V; n > 0 != want.asked || want.asked && n < 3000 {
			t.Errorf("%q: %v questions", bad, n)
		}
		if w := v[writeP99][0]; w.N != 3520 || w.V <= 0 || w.Floor <= 0 || w.V < v[writeP50][0].V {
			t.Errorf("%q: %+v", bad, w)
		}
		if b.most < 2 {
			t.Errorf("%q: %d writes at once", bad, b.most)
		}
	}
}

func TestQuantile(t *testing.T) {
	var list []time.Duration
	for i := range 100 {
		list = append(list, time.Duration(100-i)*time.Millisecond)
	}
	if got := [4]float64{quantile(list, 0.5), quantile(list, 0.99), quantile(list[:1], 0.99), quantile(nil, 0.5)}; got != [4]float64{50, 99, 100, 0} {
		t.Errorf("%v", got)
	}
}

// TestTargetOfARatio: it is the ratio to the floor that is held to it.
func TestTargetOfARatio(t *testing.T) {
	for v, ok := range map[float64]bool{7: true, 9: false} {
		plays := []Played{{Scenario: "S3", System: Ours, Seed: 1, Values: map[string][]Value{writeP99: {{v, 4, 1000}, {v, 4, 1000}}}}}
		for _, f := range Figures(plays, chosen(t, "S3"), Small, nil) {
			if f.Name == "S3/hearsay/"+writeP99 && (f.OK != ok || f.N != 2000 || f.Floor != 4 || f.Ratio != v/4 || f.Value != v) {
				t.Errorf("%+v", f)
			}
		}
	}
}
