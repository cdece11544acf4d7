package memory_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// lived is a bench with a history: rows, transitions, evidence, echoes, a
// rejection, decisions with outcomes.
func lived(t testing.TB) (*bench, []memory.ID) {
	b := newBench(t)
	var ids []memory.ID
	for i := range 6 {
		b.pass(time.Second)
		id := b.put(modelDraft(says(fmt.Sprint("customer ", i), "lives in", "Oslo"), ids...)).ID
		ids = append(ids, id)
		b.pass(time.Second)
		b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, fmt.Sprint("tool:crm", i)))
		if err := b.AddEvidence(b.Context(), id, "worker:1", "a context", says4(memory.RelationContextualizes, memory.RankTool, "erp", "tool:erp")); err != nil {
			t.Fatal(err)
		}
		b.put(modelDraft(says(fmt.Sprint("customer ", i), "lives in", "Oslo")))
	}
	b.pass(time.Second)
	b.mustMove(ids[1], memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankPrimarySource, "doc:9"))
	ana := b.put(userDraft("ana", says("ana", "prefers", "Emacs"))).ID
	ids = append(ids, ana)
	if _, err := b.Apply(b.Context(), memory.Transition{Row: ana, Revision: b.head(ana).Revision, To: memory.TruthContradicted, Authority: memory.AuthorityUser,
		Actor: "ana", Source: "form", Reason: "never said so", Reject: true}); err != nil {
		t.Fatal(err)
	}
	for i, fired := range []bool{true, false} {
		r := memory.DecisionRecord{Epoch: 1, ID: b.NewDecisionID(), Tool: "mail", Run: "run-1", Fired: fired, Data: []byte(`{"n":1}`),
			Rows: []memory.Cited{{Row: ids[2], Revision: b.head(ids[2]).Revision}, {Row: ids[i], Revision: b.head(ids[i]).Revision}}}
		if err := b.Record(b.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := b.RecordOutcome(b.Context(), r.ID, memory.CallDone, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.BumpEpoch(b.Context(), "operator", "a test"); err != nil {
		t.Fatal(err)
	}
	return b, ids
}

// keysOf are the keys of all logs.
func (b *bench) logs() []string {
	b.Helper()
	var keys []string
	for k, err := range b.Logs(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
		keys = append(keys, k)
	}
	return keys
}

func (b *bench) stored(key string) []memory.LogEntry {
	b.Helper()
	log, err := b.driver.History(b.Context(), b.Tenant(), key, 0, memory.MaxQueryLimit)
	if err != nil {
		b.Fatal(err)
	}
	return log
}

func TestTheAuditHoldsAndShowsEveryChange(t *testing.T) {
	b, ids := lived(t)
	v, err := b.Verify(t.Context(), nil, nil)
	if err != nil || v.Entries < 30 || v.Logs != len(b.logs()) {
		t.Fatal(v, err)
	}
	key := memory.HeadKey(ids[1])
	entries := b.stored(key)
	if len(entries) != 3 {
		t.Fatalf("%d entries", len(entries))
	}
	rewrite := func(revision uint64, data []byte) {
		t.Helper()
		if err := storetest.Rewrite(t.Context(), b.driver, b.Tenant(), key, []memory.LogEntry{{Revision: revision, Data: data}}); err != nil {
			t.Fatal(err)
		}
	}
	terms := termsOf(t, b.driver, b.Tenant(), key)
	tampered := func(what string, revision uint64) {
		t.Helper()
		_, err := b.Verify(t.Context(), nil, nil)
		var found *memory.TamperError
		if !errors.As(err, &found) || !errors.Is(err, memory.ErrTampered) {
			t.Fatalf("%s: %v", what, err)
		}
		if found.Key != key || found.Revision != revision {
			t.Fatalf("%s: names %s entry %d, want %s entry %d", what, found.Key, found.Revision, key, revision)
		}
	}
	t.Run("every byte of every entry", func(t *testing.T) {
		n := 0
		for _, l := range entries {
			for i := range l.Data {
				bad := bytes.Clone(l.Data)
				bad[i] ^= 1
				rewrite(l.Revision, bad)
				tampered(fmt.Sprintf("byte %d", i), l.Revision)
				n++
			}
			rewrite(l.Revision, l.Data)
		}
		t.Logf("%d bytes changed", n)
	})
	t.Run("an entry that is gone, swapped, or cut off at the end", func(t *testing.T) {
		rewrite(2, nil)
		tampered("the middle is gone", 3)
		b.restoreLog(key, entries)
		rewrite(1, entries[1].Data)
		rewrite(2, entries[0].Data)
		tampered("two are swapped", 1)
		b.restoreLog(key, entries)
		rewrite(3, nil)
		tampered("the tail is cut", 3)
		b.restoreLog(key, entries)
	})
	t.Run("a head that was changed, dropped, or put back to an older one", func(t *testing.T) {
		objs, err := b.driver.Get(t.Context(), b.Tenant(), []string{key})
		if err != nil {
			t.Fatal(err)
		}
		put := func(o memory.Object) {
			t.Helper()
			terms := terms
			if o.Revision == 0 {
				terms = nil
			}
			if err := b.driver.Restore(t.Context(), b.Tenant(), []memory.Restored{{Object: o, Terms: terms}}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range objs[0].Data {
			bad := objs[0]
			bad.Data = bytes.Clone(bad.Data)
			bad.Data[i] ^= 1
			put(bad)
			tampered(fmt.Sprintf("byte %d of the head", i), 3)
		}
		put(memory.Object{Key: key})
		tampered("the head is gone", 3)
		put(memory.Object{Key: key, Revision: 2, Data: objs[0].Data})
		tampered("an older revision", 2)
		put(objs[0])
	})
	if _, err := b.Verify(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
}

// restoreLog puts the entries of a log back as they were.
func (b *bench) restoreLog(key string, entries []memory.LogEntry) {
	b.Helper()
	have := b.stored(key)
	missing := false
	for _, l := range entries {
		if slices.ContainsFunc(have, func(h memory.LogEntry) bool { return h.Revision == l.Revision }) {
			if err := storetest.Rewrite(b.Context(), b.driver, b.Tenant(), key, []memory.LogEntry{l}); err != nil {
				b.Fatal(err)
			}
		} else {
			missing = true
		}
	}
	if missing { // an entry is only ever appended: from the revision before it
		objs, err := b.driver.Get(b.Context(), b.Tenant(), []string{key})
		if err != nil {
			b.Fatal(err)
		}
		for _, l := range entries {
			if slices.ContainsFunc(have, func(h memory.LogEntry) bool { return h.Revision == l.Revision }) {
				continue
			}
			if err := b.driver.Restore(b.Context(), b.Tenant(), []memory.Restored{{Object: memory.Object{Key: key, Revision: l.Revision - 1, Data: objs[0].Data}}}); err != nil {
				b.Fatal(err)
			}
			if err := b.driver.Driver.Apply(b.Context(), b.Tenant(), memory.Batch{Puts: []memory.Put{{Key: key, From: l.Revision - 1, Data: objs[0].Data, Entry: l.Data}}}); err != nil {
				b.Fatal(err)
			}
		}
		if err := b.driver.Restore(b.Context(), b.Tenant(), []memory.Restored{{Object: objs[0]}}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAStoreOfOtherKeysIsRefused(t *testing.T) {
	b, ids := lived(t)
	other := storetest.On(b.driver, &memory.Options{Clock: b.clock})
	before := b.driver.revisions()
	if _, err := other.Get(t.Context(), ids[0]); !errors.Is(err, memory.ErrKey) {
		t.Fatal(err)
	}
	if _, err := other.Put(t.Context(), modelDraft(berlin)); !errors.Is(err, memory.ErrKey) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, b.driver.revisions()); diff != "" {
		t.Fatal(diff)
	}
	if _, err := memory.New(b.driver, nil, nil); !errors.Is(err, memory.ErrInvalid) {
		t.Fatal(err)
	}
	if _, err := memory.New(b.driver, keyring.Ephemeral(), &memory.Options{Namespace: "a\x01b"}); !errors.Is(err, memory.ErrInvalid) {
		t.Fatal(err)
	}
}

// heads are the bytes of every head and corroboration record, by key, with their
// revisions.
func (b *bench) projections() map[string]string {
	b.Helper()
	out := map[string]string{}
	for _, key := range b.logs() {
		if name := memory.KeyText(key); strings.HasPrefix(name, "head/") || strings.HasPrefix(name, "echo/") || strings.HasPrefix(name, "note/") {
			objs, err := b.driver.Get(b.Context(), b.Tenant(), []string{key})
			if err != nil {
				b.Fatal(err)
			}
			out[key] = fmt.Sprintf("%d %x", objs[0].Revision, objs[0].Data)
		}
	}
	return out
}

// seen is what readers see of the store.
func (b *bench) seen(ids []memory.ID) (out []string) {
	b.Helper()
	note := func(name string, v any) {
		out = append(out, name+" "+string(mustMarshal(b, v)))
	}
	for _, id := range ids {
		note("row", b.row(id))
		log, err := b.History(b.Context(), id, true)
		if err != nil {
			b.Fatal(err)
		}
		note("history", log)
		cited, err := b.DecisionsCiting(b.Context(), id)
		if err != nil {
			b.Fatal(err)
		}
		note("cited", cited)
	}
	for _, f := range []memory.Filter{{}, {State: memory.StateVerified}, {State: memory.StateUnverified}, {Subject: "ana", Predicate: "prefers"},
		{Parent: ids[0]}, {Asserter: memory.Asserter{Model: "Sonnet"}}} {
		note("list", b.rows(f))
	}
	found, err := b.Search(b.Context(), "where does customer 3 live", 10)
	if err != nil {
		b.Fatal(err)
	}
	note("found", found)
	return out
}

func TestARebuildMakesTheProjectionsByteForByte(t *testing.T) {
	b, ids := lived(t)
	before, seen := b.projections(), b.seen(ids)
	var drop []memory.Restored
	for key := range b.driver.revisions() {
		_, key, _ = strings.Cut(key, "\x00")
		kind, _, _ := strings.Cut(memory.KeyText(key), "/")
		switch kind {
		case "head", "evidence", "note", "identity", "claim", "line", "due", "echo":
			drop = append(drop, memory.Restored{Object: memory.Object{Key: key}})
		case "body", "decision": // their indexes only
			objs, err := b.driver.Get(t.Context(), b.Tenant(), []string{key})
			if err != nil {
				t.Fatal(err)
			}
			drop = append(drop, memory.Restored{Object: objs[0]})
		}
	}
	if err := b.driver.Restore(t.Context(), b.Tenant(), drop); err != nil {
		t.Fatal(err)
	}
	if len(b.rows(memory.Filter{})) != 0 {
		t.Fatal("nothing was dropped")
	}
	done, err := b.Rebuild(t.Context(), "operator", nil)
	if err != nil || done.Rows != len(ids) || done.Decisions != 2 || done.Lost != 0 {
		t.Fatal(done, err)
	}
	t.Logf("%d objects dropped, %s", len(drop), done)
	if diff := cmp.Diff(before, b.projections()); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff(seen, b.seen(ids)); diff != "" {
		t.Fatal(diff)
	}
	if _, err := b.Verify(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	// and life goes on: the identity collapses, the rejection stands
	if r := b.put(modelDraft(says("customer 3", "lives in", "Oslo"))); r.Disposition != memory.Collapsed || r.ID != ids[3] {
		t.Fatal(r)
	}
	if r := b.row(ids[6]); r.Rejection == nil || r.Rejection.By != "ana" {
		t.Fatal(r.Rejection)
	}
}

// Where a line has no object nobody looks for rivals: who verifies a row makes one, and a
// rebuild makes it again.
func TestARebuildFindsTheRivalsOfAVerifiedRowAgain(t *testing.T) {
	for name, c := range map[string]struct {
		drop, rebuild bool
		want          memory.State
	}{
		"the line is there":           {false, false, memory.StateUnverified},
		"it was dropped and rebuilt":  {true, true, memory.StateUnverified},
		"rebuilt where it was not":    {false, true, memory.StateUnverified},
		"dropped, and not made again": {true, false, memory.StateVerified},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			lives := says("ana", "lives in", "Berlin")
			lives.Cardinality = memory.CardinalityFunctional
			first := toolDraft(lives, "registry")
			incumbent := b.put(first).ID
			b.mustMove(incumbent, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankPrimarySource, "doc:1"))
			var drop []memory.Restored
			for key := range b.driver.revisions() {
				if _, key, _ = strings.Cut(key, "\x00"); c.drop && strings.HasPrefix(memory.KeyText(key), "line/") {
					drop = append(drop, memory.Restored{Object: memory.Object{Key: key}})
				}
			}
			if c.drop != (len(drop) == 1) {
				t.Fatalf("%d lines dropped", len(drop))
			}
			if err := b.driver.Restore(t.Context(), b.Tenant(), drop); err != nil {
				t.Fatal(err)
			}
			if c.rebuild {
				if _, err := b.Rebuild(t.Context(), "operator", nil); err != nil {
					t.Fatal(err)
				}
			}
			lives.Object = "Oslo"
			if r, err := b.another().Put(t.Context(), toolDraft(lives, "crm")); err != nil || r.State != c.want {
				t.Errorf("the rival is %s, %v", r.State, err)
			}
		})
	}
}

func TestAPointInTimeIsWhatItWas(t *testing.T) {
	b, ids := lived(t)
	id := ids[0]
	type moment struct {
		at    memory.Sequence
		state memory.State
		evid  int
		rows  int
	}
	var moments []moment
	note := func() {
		r := b.row(id)
		moments = append(moments, moment{memory.SequenceAt(b.Now()), r.State(), len(r.Evidence), len(b.rows(memory.Filter{}))})
		b.pass(time.Second)
	}
	note()
	for i := range 200 { // more than one snapshot of the evidence
		switch i % 4 {
		case 0:
			b.mustMove(id, memory.TruthUnverified, memory.AuthorityProbe)
		case 1:
			b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, fmt.Sprint("tool:n", i)))
		case 2:
			if err := b.AddEvidence(t.Context(), id, "worker:1", "a context", says4(memory.RelationContextualizes, memory.RankTool, fmt.Sprint("e", i), "tool:e")); err != nil {
				t.Fatal(err)
			}
		case 3:
			b.put(modelDraft(says(fmt.Sprint("thing ", i), "is", "new")))
		}
		note()
	}
	ask := func(t *testing.T) {
		for _, m := range moments {
			r, err := b.RowAt(t.Context(), id, m.at)
			if err != nil || r.State() != m.state || len(r.Evidence) != m.evid || r.Content.Object != "Oslo" {
				t.Fatalf("at %s: %s with %d pieces of evidence (%v), was %s with %d", m.at.Time(), r.State(), len(r.Evidence), err, m.state, m.evid)
			}
		}
		for _, m := range []moment{moments[0], moments[100], moments[200]} {
			n := 0
			for _, err := range b.RowsAt(t.Context(), memory.Filter{}, m.at) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n != m.rows {
				t.Fatalf("%d rows at %s, were %d", n, m.at.Time(), m.rows)
			}
		}
		if _, err := b.RowAt(t.Context(), id, memory.SequenceAt(day0)); !errors.Is(err, memory.ErrNotFound) {
			t.Fatalf("before it was written: %v", err)
		}
	}
	t.Run("as it was written", ask)
	t.Run("and after compaction", func(t *testing.T) {
		before, seen := b.projections(), b.seen(ids)
		c, err := b.Compact(t.Context())
		if err != nil || c.Logs < 1 || c.Entries < 64 || c.After >= c.Before {
			t.Fatal(c, err)
		}
		t.Logf("%d entries of %d logs: %d bytes are %d", c.Entries, c.Logs, c.Before, c.After)
		ask(t)
		if diff := cmp.Diff(before, b.projections()); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(seen, b.seen(ids)); diff != "" {
			t.Fatal(diff)
		}
		if _, err := b.Verify(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		again, err := b.Compact(t.Context())
		if err != nil || again.Entries != 0 {
			t.Fatal("packed what was packed", again, err)
		}
		b.mustMove(id, memory.TruthUnverified, memory.AuthorityProbe)
		if _, err := b.Rebuild(t.Context(), "operator", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Verify(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("at a cost of the entries since the last snapshot", func(t *testing.T) {
		reads := 0
		b.driver.history = func() error { reads++; return nil }
		defer func() { b.driver.history = nil }()
		if _, err := b.RowAt(t.Context(), id, moments[190].at); err != nil {
			t.Fatal(err)
		}
		if reads > 8 {
			t.Fatalf("%d reads", reads)
		}
	})
}

func TestTheSequenceGrowsEvenIfTheClockGoesBack(t *testing.T) {
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	b.pass(-time.Hour)
	b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
	log, err := b.History(t.Context(), id, false)
	if err != nil || len(log) != 2 || log[1].Sequence <= log[0].Sequence || !log[1].At.Before(log[0].At) {
		t.Fatal(log, err)
	}
	if _, err := b.Verify(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
}
