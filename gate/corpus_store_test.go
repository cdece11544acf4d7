package gate_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/internal/teststore"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// TestDecisionCorpusOnStores runs the corpus again, through a gate on a real
// store of each kind: its rows are written, verified, contradicted and
// quarantined by the store's own doors, and what a case says of a row is looked
// up before it is decided. A case that no store can hold says so, and why.
func TestDecisionCorpusOnStores(t *testing.T) {
	t.Parallel()
	cases := corpus(t)
	for _, kind := range teststore.Kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			w := newScene(t, teststore.Open(t, kind))
			ran, fired, unheld := 0, 0, 0
			var undecided int
			for _, cc := range cases {
				c, err := parseCase(cc.body)
				if err != nil {
					t.Fatalf("%s: %s: %v", cc.file, cc.name, err)
				}
				if c.unheld != "" {
					unheld++
					continue
				}
				ran++
				d := w.run(t, cc.name, c)
				if !d.Blocked() {
					fired++
				}
				if d.Fault {
					undecided++
				}
			}
			t.Logf("%s: %d decisions (%d fired, %d blocked, %d of them by a fault), %d cases no store can hold, %s",
				kind, ran, fired, ran-fired, undecided, unheld, time.Since(start).Round(time.Millisecond))
			if ran < 200 || fired == 0 || fired == ran || undecided == 0 {
				t.Error("too little was decided")
			}
			w.recorded(t, fired)
		})
	}
}

// scene is a store whose clock stands where a case wants it.
type scene struct {
	*memory.Store
	mu    sync.Mutex
	now   time.Time
	cases int
}

func newScene(t *testing.T, d memory.Driver) *scene {
	w := &scene{now: clock0}
	w.Store = storetest.On(d, &memory.Options{
		Clock: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.now
		},
		Authority: func(string, string, string) bool { return true },
	})
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *scene) at(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = t
}

// run decides one case on the store.
func (w *scene) run(t *testing.T, name string, c *testCase) gate.Decision {
	t.Helper()
	w.cases++
	called := map[memory.ID]memory.ID{} // what a row of the case is called here
	if err := w.hold(t.Context(), c, called); err != nil {
		t.Errorf("%s: the store does not hold the rows: %v", name, err)
		return gate.Decision{}
	}
	here := func(heads []memory.Head) (ids []memory.ID) {
		for _, id := range idsOf(heads) {
			ids = append(ids, cmp.Or(called[id], id))
		}
		return ids
	}
	c.req.Lineage = lineages[c.lineage](here(c.rows), here(c.above))
	for i := range c.req.Sinks {
		row := c.req.Sinks[i].Row
		c.req.Sinks[i].Row = cmp.Or(called[row], row)
	}
	if len(c.req.Args) == 0 && c.req.Contract.Precision == gate.TypedSinks { // a gate looks at the arguments itself
		given := map[string]string{}
		for _, s := range c.req.Sinks {
			given[strings.TrimPrefix(s.Pointer, "/")] = "x"
		}
		text, err := json.Marshal(given)
		if err != nil {
			t.Fatal(err)
		}
		c.req.Args = text
	}
	c.req.Choice.Row = cmp.Or(called[c.req.Choice.Row], c.req.Choice.Row)
	b := &troubled{Store: w.Store, answer: faults[c.fault]}
	var o gate.Options
	if trouble := gateFaults[c.fault]; trouble != nil {
		trouble(b, &o)
	}
	g := newGate(t, b, c.policy, &o)
	d := g.Decide(t.Context(), apart(c.req))
	if !d.Blocked() { // its call has ended before the next case makes the same one
		if err := w.RecordOutcome(t.Context(), d.ID, memory.CallDone, ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	said := d
	said.Reasons = slices.Clone(d.Reasons)
	for i := range said.Reasons {
		for written, id := range called {
			if said.Reasons[i].Row == id {
				said.Reasons[i].Row = written
			}
		}
	}
	want := cmp.Or(c.gate, c.want)
	if got := outcome(&said); got != want {
		t.Errorf("%s:\ngot  %s\nwant %s (%v)", name, got, want, d.Err())
	}
	fires := strings.HasPrefix(want, "permitted")
	if (d.Err() == nil) != fires {
		t.Errorf("%s: Err is %v", name, d.Err())
	}
	cites := 0
	if fires {
		cites = len(c.req.Lineage.Direct()) + len(c.req.Lineage.Ancestors())
	}
	if len(d.Consumed) != cites {
		t.Errorf("%s: %d rows were consumed of %d", name, len(d.Consumed), cites)
	}
	return d
}

// recorded holds that a call fired if and only if its permit is on record.
func (w *scene) recorded(t *testing.T, fired int) {
	t.Helper()
	records, err := w.Decisions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range records {
		if records[i].Fired {
			n++
		}
	}
	if n != fired {
		t.Errorf("%d calls fired, %d permits are on record", fired, n)
	}
	t.Logf("%d decisions on record", len(records))
}

// hold brings the rows of a case into the store: the ancestors, what was made
// from them, and then what became of each.
func (w *scene) hold(ctx context.Context, c *testCase, called map[memory.ID]memory.ID) error {
	var parents []memory.ID
	for _, list := range [][]memory.Head{c.above, c.rows} {
		var made []memory.ID
		for i := range list {
			h := &list[i]
			if h.Revision == 0 {
				continue // it is to be missing
			}
			at, err := w.write(ctx, c, h, parents, called)
			if err != nil {
				return fmt.Errorf("%s: %w", h.ID, err)
			}
			made = append(made, called[h.ID])
			if h.Truth == memory.TruthSupported {
				w.at(at)
				if err := w.verify(ctx, called[h.ID], h.Rank); err != nil {
					return fmt.Errorf("%s: %w", h.ID, err)
				}
			}
		}
		parents = made
	}
	for _, h := range slices.Concat(c.above, c.rows) {
		if h.Revision == 0 {
			continue
		}
		if err := w.become(ctx, called[h.ID], &h); err != nil {
			return fmt.Errorf("%s: %w", h.ID, err)
		}
	}
	w.at(clock0)
	for _, h := range slices.Concat(c.above, c.rows) {
		if h.Revision == 0 {
			continue
		}
		if err := w.holds(ctx, called[h.ID], &h); err != nil {
			return fmt.Errorf("%s: %w", h.ID, err)
		}
	}
	// What the case calls the ancestors is what the store traces.
	var direct, above []memory.ID
	for i := range c.rows {
		if c.rows[i].Revision != 0 {
			direct = append(direct, called[c.rows[i].ID])
		}
	}
	for i := range c.above {
		if c.above[i].Revision != 0 {
			above = append(above, called[c.above[i].ID])
		}
	}
	traced, err := w.Closure(ctx, direct...)
	if err != nil {
		return err
	}
	slices.Sort(traced)
	slices.Sort(above)
	if len(direct) > 0 && !slices.Equal(traced, above) {
		return fmt.Errorf("the store traces %v, not %v", traced, above)
	}
	return nil
}

// write puts a row that was made by a model, at such a time that it is verified
// and expires when the case says.
func (w *scene) write(ctx context.Context, c *testCase, h *memory.Head, parents []memory.ID, called map[memory.ID]memory.ID) (at time.Time, err error) {
	at = h.VerifiedAt
	if at.IsZero() {
		at = clock0.Add(-time.Hour)
	}
	if !at.Before(h.ExpiresAt) {
		at = h.ExpiresAt.Add(-3 * time.Hour)
	}
	w.at(at)
	d := memory.Draft{
		Content: triple(fmt.Sprintf("case %d row %s", w.cases, h.ID), "billing.email", "ops@acme.example"), Origin: memory.OriginModelDerived, State: memory.StateUnverified,
		DerivedFrom: parents, Asserter: memory.Asserter{Principal: "writer", Model: "sonnet-4.6", Family: "claude"}, Sensitivity: h.Sensitivity,
		LineageUnknown: h.Has(memory.FlagLineageUnknown), Criticality: memory.CriticalityLow, ValidUntil: h.ValidUntil, CheckEvery: h.ExpiresAt.Sub(at) / 3,
	}
	if h.Outage != memory.OutageNone {
		d.State = memory.StateUnavailableAtWriteTime
	}
	if text, ok := c.says[h.ID]; ok {
		d.Content.Object = text
	}
	marks := h.Flags & memory.FlagTainted
	if h.Truth != memory.TruthSupported {
		marks |= h.Flags & memory.FlagContested
	}
	if h.Security == memory.SecurityClean && marks != 0 { // it brought the mark with it
		called[h.ID], err = w.fetch(ctx, d, marks)
		return at, err
	}
	r, err := w.Put(ctx, d)
	called[h.ID] = r.ID
	return at, err
}

// fetch imports a row that was marked where it comes from.
func (w *scene) fetch(ctx context.Context, d memory.Draft, marks memory.Flags) (memory.ID, error) {
	i, err := w.Importing(ctx, memory.ImportSource{Name: "other", Dump: "dump", Actor: "ops", Trusted: true})
	if err != nil {
		return "", err
	}
	m := memory.Imported{Name: d.Content.Subject, Draft: d, Flags: marks, WrittenAt: w.Now()}
	for _, parent := range d.DerivedFrom {
		m.DerivedFrom = append(m.DerivedFrom, string(parent))
	}
	m.Draft.DerivedFrom = nil
	got, err := i.Put(ctx, []memory.Imported{m}, func([]memory.ImportReceipt) []byte { return []byte("read") })
	if err != nil {
		return "", err
	}
	return got[0].ID, got[0].Err
}

// verify has sources of a rank support a row, in a group of their own.
func (w *scene) verify(ctx context.Context, row memory.ID, rank memory.Rank) error {
	groups, authority := []string{"tool:registry"}, memory.AuthorityProbe
	switch rank {
	case memory.RankSecondModel:
		groups = []string{"family:gpt", "family:llama"}
	case memory.RankUser:
		groups, authority = []string{"user:ana"}, memory.AuthorityUser
	}
	var said []memory.Evidence
	for _, g := range groups {
		said = append(said, says(memory.RelationSupports, rank, g))
	}
	return w.move(ctx, row, memory.TruthSupported, authority, said...)
}

func says(relation memory.Relation, rank memory.Rank, group string) memory.Evidence {
	return memory.Evidence{Relation: relation, Rank: rank, Source: "registry", Verifier: "corpus", Group: group, Anchor: memory.Anchor{URI: "doc:1"}, At: clock0}
}

func (w *scene) move(ctx context.Context, row memory.ID, to memory.AxisValue, authority memory.Authority, said ...memory.Evidence) error {
	f, err := w.Fitness(ctx, []memory.ID{row})
	if err != nil {
		return err
	}
	actor := "worker"
	if authority == memory.AuthorityUser {
		actor = "ana"
	}
	_, err = w.Apply(ctx, memory.Transition{Row: row, Revision: f.Heads[0].Revision, To: to, Authority: authority, Actor: actor, Source: "registry", Reason: "the case says so", Evidence: said})
	return err
}

// become moves the axes of a row to where the case has them, by legal moves.
func (w *scene) become(ctx context.Context, row memory.ID, h *memory.Head) error {
	type step struct {
		to  memory.AxisValue
		who memory.Authority
	}
	var steps []step
	switch h.Truth {
	case memory.TruthContradicted:
		steps = append(steps, step{h.Truth, memory.AuthoritySentinel})
	case memory.TruthSuperseded:
		steps = append(steps, step{h.Truth, memory.AuthorityReflection})
	}
	if h.Outage == memory.OutageResolved && h.Truth != memory.TruthSupported { // verifying resolved it
		steps = append(steps, step{h.Outage, memory.AuthorityProbe})
	}
	if h.Retrieval != memory.RetrievalNormal {
		steps = append(steps, step{h.Retrieval, memory.AuthorityPolicy})
	}
	if h.Security == memory.SecurityMalicious {
		steps = append(steps, step{memory.SecurityQuarantined, memory.AuthoritySentinel})
	}
	if h.Security != memory.SecurityClean {
		steps = append(steps, step{h.Security, memory.AuthoritySentinel})
	}
	if h.Freshness == memory.FreshnessExpired {
		steps = append(steps, step{memory.FreshnessStale, memory.AuthoritySystem})
	}
	if h.Freshness != memory.FreshnessFresh {
		steps = append(steps, step{h.Freshness, memory.AuthoritySystem})
	}
	for _, s := range steps {
		if err := w.move(ctx, row, s.to, s.who); err != nil {
			return err
		}
	}
	if !h.Has(memory.FlagContested) {
		return nil
	}
	return w.AddEvidence(ctx, row, "worker", "the case says so", says(memory.RelationContradicts, memory.RankTool, "tool:ledger"))
}

// holds compares what the store has with what the case wrote, axis by axis.
func (w *scene) holds(ctx context.Context, row memory.ID, want *memory.Head) error {
	f, err := w.Fitness(ctx, []memory.ID{row})
	if err != nil {
		return err
	}
	got := &f.Heads[0]
	const marks = memory.FlagContested | memory.FlagTainted | memory.FlagLineageUnknown
	type axes struct {
		memory.Truth
		memory.Retrieval
		memory.Security
		memory.Freshness
		memory.Outage
		memory.Sensitivity
		memory.Rank
		memory.Flags
	}
	of := func(h *memory.Head) axes {
		a := axes{h.Truth, h.Retrieval, h.Security, h.FreshnessAt(clock0), h.Outage, h.Sensitivity, h.Rank, h.Flags & marks}
		if h.Truth != memory.TruthSupported {
			a.Rank = 0
		}
		return a
	}
	switch a, b := of(got), of(want); {
	case a != b:
		return fmt.Errorf("it is %+v, not %+v", a, b)
	case want.Truth == memory.TruthSupported && want.VerifiedAt.Before(want.ExpiresAt) && !got.VerifiedAt.Equal(want.VerifiedAt):
		return fmt.Errorf("it was verified at %s, not %s", got.VerifiedAt, want.VerifiedAt)
	case got.Truth == memory.TruthSupported && got.ExpiresAt.Sub(want.ExpiresAt).Abs() > 3*time.Microsecond: // a window is stored to the microsecond
		return fmt.Errorf("it expires at %s, not %s", got.ExpiresAt, want.ExpiresAt)
	}
	return nil
}

// troubled is a real store with something wrong on the way to it, or something
// that happens between the look and the record.
type troubled struct {
	*memory.Store
	answer  func(memory.Fitness) memory.Fitness
	read    func(ctx context.Context) error
	between func(ctx context.Context, rows []memory.ID) error // before the first record
	record  func() error
	looked  []memory.ID
	records int
}

func (b *troubled) FitnessFor(ctx context.Context, ids []memory.ID, act, slot memory.Digest) (memory.Fitness, error) {
	if b.read != nil {
		if err := b.read(ctx); err != nil {
			return memory.Fitness{}, err
		}
	}
	b.looked = ids
	f, err := b.Store.FitnessFor(ctx, ids, act, slot)
	if err == nil && b.answer != nil {
		f = b.answer(f)
	}
	return f, err
}

func (b *troubled) Record(ctx context.Context, r memory.DecisionRecord) error {
	b.records++
	if b.between != nil && b.records == 1 {
		if err := b.between(ctx, b.looked); err != nil {
			return err
		}
	}
	if b.record != nil {
		if err := b.record(); err != nil {
			return err
		}
	}
	return b.Store.Record(ctx, r)
}

// gateFaults are what only a gate can meet.
var gateFaults = map[string]func(b *troubled, o *gate.Options){
	"unreadable": func(b *troubled, _ *gate.Options) {
		b.read = func(context.Context) error { return errors.New("no connection") }
	},
	"late": func(b *troubled, o *gate.Options) {
		o.Timeout = 10 * time.Millisecond
		b.read = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
	},
	"unrecorded": func(b *troubled, _ *gate.Options) {
		b.record = func() error { return errors.New("disk full") }
	},
	"moving": func(b *troubled, o *gate.Options) {
		o.Timeout = 100 * time.Millisecond
		b.record = func() error { return memory.ErrConflict }
	},
	"contradicted_meanwhile": meanwhile(func(ctx context.Context, w *scene, row memory.ID) error {
		return w.move(ctx, row, memory.TruthContradicted, memory.AuthorityUser)
	}),
	"quarantined_meanwhile": meanwhile(func(ctx context.Context, w *scene, row memory.ID) error {
		return w.move(ctx, row, memory.SecurityQuarantined, memory.AuthoritySentinel)
	}),
	"demoted_meanwhile": meanwhile(func(ctx context.Context, w *scene, row memory.ID) error {
		return w.move(ctx, row, memory.TruthUnverified, memory.AuthoritySystem)
	}),
	"contested_meanwhile": meanwhile(func(ctx context.Context, w *scene, row memory.ID) error {
		return w.AddEvidence(ctx, row, "worker", "it was asked", says(memory.RelationContradicts, memory.RankTool, "tool:ledger"))
	}),
	"hidden_meanwhile": meanwhile(func(ctx context.Context, w *scene, row memory.ID) error {
		return w.move(ctx, row, memory.RetrievalHidden, memory.AuthorityPolicy)
	}),
	"expired_meanwhile": meanwhile(func(ctx context.Context, w *scene, row memory.ID) error {
		if err := w.move(ctx, row, memory.FreshnessStale, memory.AuthoritySystem); err != nil {
			return err
		}
		return w.move(ctx, row, memory.FreshnessExpired, memory.AuthoritySystem)
	}),
	"corroborated_meanwhile": meanwhile(func(ctx context.Context, w *scene, row memory.ID) error {
		return w.AddEvidence(ctx, row, "worker", "it was asked", says(memory.RelationSupports, memory.RankTool, "tool:ledger"))
	}),
	"read_meanwhile": meanwhile(func(ctx context.Context, w *scene, row memory.ID) error {
		_, err := w.AddHeat(ctx, map[memory.ID]float64{row: 1})
		return err
	}),
	"verified_meanwhile": meanwhile(func(ctx context.Context, w *scene, row memory.ID) error {
		return w.verify(ctx, row, memory.RankTool)
	}),
	"restored_meanwhile": meanwhile(func(ctx context.Context, w *scene, _ memory.ID) error {
		return w.BumpEpoch(ctx, "ops", "a copy was put back")
	}),
}

// meanwhile does something to the first row after it was looked at.
func meanwhile(do func(ctx context.Context, w *scene, row memory.ID) error) func(*troubled, *gate.Options) {
	return func(b *troubled, _ *gate.Options) {
		b.between = func(ctx context.Context, rows []memory.ID) error {
			if len(rows) == 0 {
				return errors.New("the case has no row for it to happen to")
			}
			return do(ctx, &scene{Store: b.Store}, rows[0])
		}
	}
}
