package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

func mustMarshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// erasable is a store about eve: a row of hers, a chain of rows made from it, a row
// that only names her, one made from that, and rows of others.
type erasable struct {
	*bench
	eve, kept []memory.ID
}

func newErasable(t testing.TB, depth int) *erasable {
	e := &erasable{bench: newBench(t)}
	own := e.put(userDraft("eve canary", says("eve canary", "lives in", "canary street 7"))).ID
	e.eve = append(e.eve, own)
	up := own
	for i := range depth {
		up = e.put(modelDraft(says(fmt.Sprint("parcel ", i), "goes to", "canary street 7"), up)).ID
		e.eve = append(e.eve, up)
	}
	named := e.put(modelDraft(memory.Content{Text: "The call was about Eve Canary and her bill.", Cardinality: memory.CardinalityUnknown})).ID
	made := e.put(modelDraft(says("bill 12", "is", "disputed"), named)).ID
	e.eve = append(e.eve, named, made)
	e.put(modelDraft(says("bill 12", "is", "disputed"))) // comes back
	if _, err := e.Echo(e.Context(), named, memory.Asserter{Principal: "ana", Model: "Sonnet", Family: "claude"}, "run-1", "eve canary called"); err != nil {
		t.Fatal(err)
	}
	e.mustMove(up, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:canary-crm"))
	for _, c := range []memory.Content{berlin, says("evelyn canary", "lives in", "Bergen")} {
		e.kept = append(e.kept, e.put(modelDraft(c)).ID)
	}
	for _, cites := range [][]memory.ID{{own, e.kept[0]}, {made}, {e.kept[0]}} {
		r := memory.DecisionRecord{Epoch: 1, ID: e.NewDecisionID(), Tool: "mail", Run: "run-1", Fired: true, Data: []byte(`{"args":"canary"}`)}
		for _, id := range cites {
			r.Rows = append(r.Rows, memory.Cited{Row: id, Revision: e.head(id).Revision})
		}
		if err := e.Record(e.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func (e *erasable) gone(t *testing.T) {
	t.Helper()
	for _, id := range e.eve {
		if _, err := e.Get(t.Context(), id); !errors.Is(err, memory.ErrErased) {
			t.Fatalf("%s: %v", id, err)
		}
		h := e.head(id)
		if !h.Has(memory.FlagErased) || h.State() == memory.StateVerified || h.Retrieval != memory.RetrievalBlocked || h.Claim != (memory.Token{}) {
			t.Fatalf("%+v", h)
		}
		log, err := e.History(t.Context(), id, false)
		if err != nil || len(log) < 2 || log[len(log)-1].Kind != memory.EntryErase {
			t.Fatal(log, err)
		}
		for _, entry := range log {
			if entry.Kind == memory.EntryErase {
				continue
			}
			if !entry.Erased || entry.Actor+entry.Source+entry.Reason != "" || entry.Evidence != nil {
				t.Fatalf("%+v", entry)
			}
		}
		if r, err := e.RowAt(t.Context(), id, memory.SequenceAt(e.Now())); err != nil || !r.Has(memory.FlagErased) || r.Content.Text+r.Content.Object != "" {
			t.Fatal(r, err)
		}
	}
	for _, id := range e.kept {
		if r := e.row(id); r.Has(memory.FlagErased) || r.Content.Object == "" {
			t.Fatal(r)
		}
	}
	if found, err := e.Search(t.Context(), "canary street 7 eve bill", 20); err != nil || len(found) != 1 {
		t.Fatal(found, err) // evelyn's
	}
	if n := len(e.rows(memory.Filter{})); n != len(e.kept) {
		t.Fatalf("%d rows are listed", n)
	}
	decisions, err := e.Decisions(t.Context())
	if err != nil || len(decisions) != 1 {
		t.Fatal(decisions, err)
	}
	if _, err := e.Verify(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if due := listed(t, e.DueRows(t.Context(), e.Now())); len(due) != len(e.kept) {
		t.Fatal(due, err)
	}
}

func TestErasureTakesTheSubjectAndAllThatWasMadeOfIt(t *testing.T) {
	e := newErasable(t, 5)
	ask := memory.Erasure{Subject: "eve canary", Request: "R-1", Actor: "dpo", DryRun: true}
	before := e.driver.revisions()
	dry, err := e.Erase(t.Context(), ask)
	if err != nil || dry.Rows != len(e.eve) || dry.Decisions != 2 || !dry.DryRun {
		t.Fatalf("%+v %v", dry, err)
	}
	if after := e.driver.revisions(); len(after) != len(before) {
		t.Fatal("a dry run wrote")
	}
	ask.DryRun = false
	done, err := e.Erase(t.Context(), ask)
	if err != nil || done.Rows != len(e.eve) || done.Decisions != 2 || done.Keys == 0 || done.Completed.IsZero() || done.Claims == 0 {
		t.Fatalf("%+v %v", done, err)
	}
	e.gone(t)
	again, err := e.Erase(t.Context(), ask)
	if err != nil || again.Rows != 0 {
		t.Fatalf("%+v %v", again, err)
	}
	e.gone(t)

	// What comes after is a new life, under new keys.
	if _, err := e.Put(t.Context(), modelDraft(says("parcel 9", "goes to", "Oslo"), e.eve[0])); !errors.Is(err, memory.ErrErased) {
		t.Fatalf("made from an erased row: %v", err)
	}
	back := e.put(userDraft("eve canary", says("eve canary", "lives in", "Bergen")))
	if back.Disposition != memory.Created || e.row(back.ID).Content.Object != "Bergen" {
		t.Fatal(back)
	}
	third, err := e.Erase(t.Context(), ask)
	if err != nil || third.Rows != 1 {
		t.Fatalf("%+v %v", third, err)
	}
	if _, err := e.Rebuild(t.Context(), "operator", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Get(t.Context(), back.ID); !errors.Is(err, memory.ErrErased) {
		t.Fatalf("a rebuild brought it back: %v", err)
	}
}

func TestNoPlaintextIsInAStore(t *testing.T) {
	e := newErasable(t, 2)
	e.pass(1)
	if err := e.Reschedule(t.Context(), e.eve[0], e.Now(), 1, "the crm said: canary"); err != nil {
		t.Fatal(err)
	}
	n, bytes := 0, 0
	for _, raw := range e.driver.raw(t) {
		n++
		bytes += len(raw)
		if strings.Contains(strings.ToLower(raw), "canary") {
			t.Errorf("plaintext in %q", raw)
		}
	}
	if n < 50 {
		t.Fatalf("%d values were looked at", n)
	}
	t.Logf("%d keys, terms, objects and entries, %d bytes", n, bytes)
}

// TestErasureGoesOnAfterAnyFault fails every write of an erasure in turn, before
// and after it is applied, and erases again.
func TestErasureGoesOnAfterAnyFault(t *testing.T) {
	runs := 0
	for _, after := range []bool{false, true} {
		for at := 0; ; at++ {
			e := newErasable(t, 3)
			n := 0
			fail := func(memory.Batch) error {
				if n++; n == at+1 {
					return fmt.Errorf("%w: the wire broke", memory.ErrStore)
				}
				return nil
			}
			e.driver.history = func() error { return nil }
			if after {
				e.driver.after = fail
			} else {
				e.driver.before = fail
			}
			ask := memory.Erasure{Subject: "eve canary", Request: "R-1", Actor: "dpo"}
			_, err := e.Erase(t.Context(), ask)
			e.driver.before, e.driver.after = nil, nil
			if n <= at {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			done, err2 := e.Erase(t.Context(), ask)
			if err2 != nil {
				t.Fatalf("write %d: %v, then %v", at, err, err2)
			}
			if err != nil && done.Rows != len(e.eve) {
				t.Fatalf("write %d: the certificate says %d rows of %d (%v)", at, done.Rows, len(e.eve), err)
			}
			e.gone(t)
			runs++
		}
	}
	if runs < 10 {
		t.Fatalf("%d runs", runs)
	}
	t.Logf("%d faults", runs)
}

func TestRacingWritesDoNotEscapeAnErasure(t *testing.T) {
	raced, stopped := 0, 0
	for round := range 20 {
		e := newErasable(t, 3)
		var (
			wg      sync.WaitGroup
			mu      sync.Mutex
			written []memory.ID
			refused int
			first   = make(chan struct{}) // closed once there is a row that races
			once    sync.Once
		)
		ctx, cancel := context.WithCancel(t.Context())
		for w := range 4 {
			wg.Go(func() {
				parents := append([]memory.ID(nil), e.eve...)
				for i := 0; ctx.Err() == nil && i < 400; i++ {
					r, err := e.Put(ctx, modelDraft(says(fmt.Sprint("copy ", w, " ", i), "of", "her"), parents[i%len(parents)]))
					switch {
					case err == nil:
						parents = append(parents, r.ID)
						mu.Lock()
						written = append(written, r.ID)
						mu.Unlock()
						once.Do(func() { close(first) })
					case errors.Is(err, memory.ErrErased):
						mu.Lock()
						refused++
						mu.Unlock()
						return
					case ctx.Err() == nil && !errors.Is(err, memory.ErrConflict):
						t.Error(err)
						return
					}
				}
			})
		}
		<-first
		if _, err := e.Erase(t.Context(), memory.Erasure{Subject: "eve canary", Request: "R", Actor: "dpo"}); err != nil {
			t.Fatal(err)
		}
		cancel()
		wg.Wait()
		for _, id := range written {
			if _, err := e.Get(t.Context(), id); !errors.Is(err, memory.ErrErased) {
				t.Fatalf("round %d: %s escaped: %v", round, id, err)
			}
		}
		raced, stopped = raced+len(written), stopped+refused
	}
	t.Logf("%d rows raced, %d writers were refused", raced, stopped)
	if raced == 0 || stopped == 0 {
		t.Fatal("nothing raced")
	}
}

func TestErasingRaisesNothing(t *testing.T) {
	b := newBench(t)
	claim := b.put(modelDraft(berlin)).ID
	against := b.put(toolDraft(says("eve", "says", "no"), "eve-crm")).ID
	_ = against
	if err := b.AddEvidence(t.Context(), claim, "w", "eve disagrees", contradicts(memory.RankTool, "tool:eve")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Erase(t.Context(), memory.Erasure{Subject: "eve", Actor: "dpo"}); err != nil {
		t.Fatal(err)
	}
	if s := b.head(claim).State(); s != memory.StateUnverified {
		t.Fatal(s)
	}
	_, err := b.move(claim, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
	wantErr(t, err, memory.ErrInsufficient)
	for name, ask := range map[string]memory.Erasure{"nobody": {Actor: "dpo"}, "by nobody": {Subject: "eve"}, "NUL": {Subject: "e\x00ve", Actor: "dpo"}} {
		if _, err := b.Erase(t.Context(), ask); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNothingIsFoundByWhatWasErased(t *testing.T) {
	for name, handle := range map[string]func(*erasable) *memory.Store{
		"by the handle that wrote it": func(e *erasable) *memory.Store { return e.Store },
		"by one that knows nothing":   func(e *erasable) *memory.Store { return e.another() },
	} {
		t.Run(name, func(t *testing.T) {
			e := newErasable(t, 3)
			erased := map[string]bool{}
			for _, id := range e.eve {
				erased[memory.HeadKey(id)[2:]] = true
			}
			// What an erased row or a decision on one carries, and of which kind it is.
			carried := func() map[string]int {
				found, asked := map[string]int{}, map[string]bool{}
				for _, term := range e.driver.terms {
					if asked[term] {
						continue
					}
					asked[term] = true
					hits, _, err := e.driver.Query(t.Context(), "default", memory.Query{Term: term, Limit: 1000})
					if err != nil {
						t.Fatal(err)
					}
					for _, h := range hits {
						if what, _, _ := strings.Cut(memory.KeyText(h.Key), "/"); erased[h.Key[2:]] || what == "decision" {
							found[what+" "+term[:1]]++
						}
					}
				}
				return found
			}
			before := carried()
			if before["body w"] < 10 || before["body R"] != len(e.eve) || before["decision X"] != 3 {
				t.Fatalf("%v", before)
			}
			if _, err := handle(e).Erase(t.Context(), memory.Erasure{Subject: "eve canary", Request: "R", Actor: "dpo"}); err != nil {
				t.Fatal(err)
			}
			after := carried()
			for what, n := range after {
				if what != "head L" && !(strings.HasPrefix(what, "decision") && n == 1) && what != "decision L" { // the order of changes; the decision that stays
					t.Errorf("%d of %q are left", n, what)
				}
			}
			t.Logf("%d kinds of terms, then %d", len(before), len(after))
		})
	}
}

// lingering keys open and seal for a moment after they were destroyed, as those of
// another process do.
type lingering struct{ memory.Keys }

func (lingering) Destroy(context.Context, ...memory.KeyID) (memory.Destruction, error) {
	return memory.Destruction{}, nil
}

// Other handles, other processes for that matter, keep what they know of data keys.
// After an erasure each has to notice on its own that they are gone.
func TestAHandleThatWasOpenDuringAnErasureWritesUnderNewKeys(t *testing.T) {
	about := func(i int) memory.Draft { return modelDraft(says("eve canary", "said", fmt.Sprint("thing ", i))) }
	with := func(i int) memory.Draft {
		d := about(i)
		d.Subjects = []string{"bob"}
		return d
	}
	for name, make := range map[string]func() memory.Keys{"keys are gone at once": func() memory.Keys { return keyring.Ephemeral() }, "keys linger": func() memory.Keys { return lingering{keyring.Ephemeral()} }} {
		for _, namespace := range []string{"", "team"} {
			for what, draft := range map[string]memory.Draft{"under a class that it knew": about(2), "under a class that it makes of a key it knew": with(3)} {
				d, keys := newMapDriver(), make()
				open := func() *memory.Store {
					s, err := memory.New(d, keys, &memory.Options{Namespace: namespace})
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				eraser, other := open(), open()
				first, err := other.Put(t.Context(), about(1))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := eraser.Erase(t.Context(), memory.Erasure{Subject: "eve canary", Request: "R", Actor: "dpo"}); err != nil {
					t.Fatal(err)
				}
				r, err := other.Put(t.Context(), draft)
				if err != nil {
					t.Fatalf("%s, %s, in %q: %v", name, what, namespace, err)
				}
				if row, err := eraser.Get(t.Context(), r.ID); err != nil || row[0].Content.Object != draft.Content.Object {
					t.Fatal(row, err)
				}
				if _, err := other.Put(t.Context(), modelDraft(says("x", "is", "y"), first.ID)); !errors.Is(err, memory.ErrErased) {
					t.Fatalf("%s, %s: a row was made from an erased one: %v", name, what, err)
				}
				if _, err := eraser.Verify(t.Context(), nil, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestAConflictInANamespaceNamesTheKeyAsTheStoreDoes(t *testing.T) {
	s, err := memory.New(newMapDriver(), keyring.Ephemeral(), &memory.Options{Namespace: "team"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Put(t.Context(), modelDraft(berlin))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Apply(t.Context(), memory.Transition{Row: r.ID, Revision: r.Revision + 1, To: memory.TruthContradicted, Authority: memory.AuthorityProbe,
		Actor: "w", Source: "s", Reason: "r", Evidence: []memory.Evidence{contradicts(memory.RankTool, "tool:x")}})
	var conflict *memory.ConflictError
	if !errors.As(err, &conflict) || conflict.Key != memory.HeadKey(r.ID) {
		t.Fatal(err)
	}
}
