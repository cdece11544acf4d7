package memory_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// listable is how many rows a claim or a line lists.
const listable = 256

// several says the same of a subject that may have several.
func several(subject, predicate, object string) memory.Content {
	c := says(subject, predicate, object)
	c.Cardinality = memory.CardinalitySetValued
	return c
}

// anchored is a draft of a tool, read at its own place.
func anchored(c memory.Content, at int) memory.Draft {
	d := toolDraft(c, "crm")
	d.Anchor = fmt.Sprint("page ", at)
	return d
}

func TestALineWithMoreRowsThanItListsContestsWhatWouldStandAlone(t *testing.T) {
	b := newBench(t)
	for i := range listable + 1 {
		if b.head(b.put(toolDraft(several("acme", "contact", fmt.Sprint("person ", i)), "crm")).ID).Has(memory.FlagContested) {
			t.Fatalf("row %d is contested, and nobody calls the predicate functional", i)
		}
	}
	r := b.put(toolDraft(says("acme", "contact", "zoe"), "crm"))
	if h := b.head(r.ID); !h.Has(memory.FlagContested) {
		t.Errorf("beside rows that the line does not list it is %s, %v", h.State(), h.Flags)
	}
	if r := b.put(toolDraft(several("acme", "contact", "yan"), "crm")); b.head(r.ID).Truth != memory.TruthSupported {
		t.Errorf("one that leaves room for others is %s", r.State)
	}
}

func TestALineIsFullOfVerifiedRowsAlone(t *testing.T) {
	b := newBench(t)
	for i := range listable {
		r := b.put(toolDraft(several("acme", "contact", fmt.Sprint("person ", i)), "crm"))
		b.mustMove(r.ID, memory.TruthUnverified, memory.AuthorityProbe)
	}
	b.put(toolDraft(several("acme", "contact", "zoe"), "crm"))
	if h := b.head(b.put(toolDraft(says("acme", "contact", "yan"), "crm")).ID); h.Truth != memory.TruthSupported || h.Has(memory.FlagContested) {
		// The same source says another thing: zoe, who is listed, is demoted.
		t.Errorf("rows that are verified no more keep room: %s, %v", h.State(), h.Flags)
	}
}

func TestALineForgetsWhatWasSuperseded(t *testing.T) {
	b := newBench(t)
	for i := range 20 {
		d := toolDraft(says("acme", "balance", fmt.Sprint(i)), "crm")
		d.Evidence[0].At = day0.Add(time.Duration(i) * time.Second)
		b.put(d)
	}
	for _, key := range b.sharedObjects() {
		if n := len(b.beneath(key).Data); strings.HasPrefix(key, "l/") && n > 100 {
			t.Errorf("the object of a line with one verified row has %d bytes", n)
		}
	}
	clean(b)
}

func TestAClaimWithMoreRowsThanItListsIsContested(t *testing.T) {
	b := newBenchOf(t, everything)
	var rows []memory.ID
	for i := range listable {
		r := b.put(anchored(several("acme", "iban", "one"), i))
		if rows = append(rows, r.ID); b.head(r.ID).Has(memory.FlagContested) {
			t.Fatalf("row %d is contested", i)
		}
	}
	more := b.put(anchored(several("acme", "iban", "one"), listable))
	if h := b.head(more.ID); !h.Has(memory.FlagContested) {
		t.Errorf("a row that its claim does not list is %s, %v", h.State(), h.Flags)
	}
	h, err := b.Apply(b.Context(), memory.Transition{Row: more.ID, Revision: 1, To: memory.TruthSupported, Authority: memory.AuthorityUser, Actor: "ana", Source: "test", Reason: "seen",
		Evidence: []memory.Evidence{supports(memory.RankUser, "user:ana")}})
	if err != nil || !h.Has(memory.FlagContested) {
		t.Errorf("a user's word made room for it: %v, %v", h.Flags, err)
	}
	b.mustMove(rows[3], memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankPrimarySource, "register"))
	below := b.put(anchored(several("acme", "iban", "one"), listable+1))
	if below.State != memory.StateUnverified || !strings.Contains(below.Reason, "more rows") {
		t.Errorf("what was said against a claim may not be listed, and a row of it is born %s (%s)", below.State, below.Reason)
	}
	if _, err := b.move(below.ID, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankPrimarySource, "court")); !errors.Is(err, memory.ErrInsufficient) {
		t.Errorf("it was verified below a user's word: %v", err)
	}
	if h, err := b.move(below.ID, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "user:ana")); err != nil || h.Truth != memory.TruthSupported {
		t.Errorf("a user's word did not verify it: %v", err)
	}
	clean(b)
}

// A crowd of rows that nobody verified keeps no room from one that is, and takes nothing
// from what was said against the claim.
func TestUnverifiedRowsDoNotCrowdAClaim(t *testing.T) {
	b := newBench(t)
	for i := range listable + 5 {
		d := anchored(says("acme", "iban", "one"), i)
		d.State, d.Evidence = memory.StateUnverified, nil
		b.put(d)
	}
	one := b.put(anchored(says("acme", "iban", "one"), -1))
	if h := b.head(one.ID); h.Truth != memory.TruthSupported || h.Has(memory.FlagContested) {
		t.Fatalf("beside many that nobody verified it is %s, %v", h.State(), h.Flags)
	}
	b.mustMove(one.ID, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankPrimarySource, "register"))
	if r := b.put(anchored(says("acme", "iban", "one"), -2)); r.State != memory.StateUnverified {
		t.Errorf("one of them was contradicted, and another one is born %s", r.State)
	}
	clean(b)
}

// clean asks that a verification finds nothing.
func clean(b *bench) {
	b.Helper()
	if _, err := b.another().VerifyAll(b.Context(), memory.Verifying{}); err != nil {
		b.Error(err)
	}
}

// sharedObjects are the keys of the objects of all claims and lines.
func (b *bench) sharedObjects() (keys []string) {
	b.Helper()
	for _, place := range []string{"c/", "l/"} {
		for o, err := range b.driver.Objects(b.Context(), b.Tenant(), place) {
			if err != nil {
				b.Fatal(err)
			}
			keys = append(keys, o.Key)
		}
	}
	return keys
}

func (b *bench) beneath(key string) memory.Restored {
	b.Helper()
	objs, err := b.driver.Get(b.Context(), b.Tenant(), []string{key})
	if err != nil {
		b.Fatal(err)
	}
	return memory.Restored{Object: objs[0]}
}

func (b *bench) restore(o memory.Restored) {
	b.Helper()
	if err := b.driver.Restore(b.Context(), b.Tenant(), []memory.Restored{o}); err != nil {
		b.Fatal(err)
	}
	b.Store = b.another()
}

func TestAVerificationFindsAListThatLacksARow(t *testing.T) {
	b := newBench(t)
	b.put(anchored(says("acme", "iban", "one"), 1))
	before := map[string]memory.Restored{}
	for _, key := range b.sharedObjects() {
		before[key] = b.beneath(key)
	}
	second := b.put(anchored(says("acme", "iban", "one"), 2)).ID
	clean(b)
	if len(before) != 2 {
		t.Fatalf("%d objects of claims and lines", len(before))
	}
	for key, o := range before {
		is := b.beneath(key)
		b.restore(o)
		found := 0
		_, err := b.another().VerifyAll(b.Context(), memory.Verifying{Found: func(err error) error {
			var tampered *memory.TamperError
			if errors.As(err, &tampered) && tampered.Key == key && strings.Contains(tampered.Error(), string(second)) {
				found++
			}
			return nil
		}})
		if err != nil || found != 1 {
			t.Errorf("%s of before row %s: found %d times, %v", memory.KeyText(key), second, found, err)
		}
		b.restore(is)
	}
	clean(b)
}

func TestRebuildMakesTheListsAgain(t *testing.T) {
	b := newBench(t)
	one := b.put(anchored(says("acme", "iban", "one"), 1)).ID
	sibling := b.put(anchored(says("acme", "iban", "one"), 2)).ID
	second := anchored(says("acme", "iban", "one"), 3)
	second.State, second.Evidence = memory.StateUnverified, nil
	other := b.put(second).ID
	keys := b.sharedObjects()
	if len(keys) != 2 {
		t.Fatalf("%d objects of claims and lines", len(keys))
	}
	for _, key := range keys {
		b.restore(memory.Restored{Object: memory.Object{Key: key}})
	}
	if _, err := b.Rebuild(b.Context(), "ops", nil); err != nil {
		t.Fatal(err)
	}
	b.Store = b.another()
	clean(b)
	rival := b.put(toolDraft(says("acme", "iban", "two"), "register"))
	for _, id := range []memory.ID{one, sibling, rival.ID} {
		if !b.head(id).Has(memory.FlagContested) {
			t.Errorf("row %s did not meet its rival after a rebuild", id)
		}
	}
	b.mustMove(one, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankPrimarySource, "court"))
	if h := b.head(sibling); h.Truth != memory.TruthContradicted {
		t.Errorf("a row of a claim that was contradicted after a rebuild is %s", h.Truth)
	}
	if _, err := b.move(other, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:mail")); !errors.Is(err, memory.ErrInsufficient) {
		t.Errorf("what was said against the claim does not count: %v", err)
	}
}

// An imported row of a claim that has one in the same transaction is listed beside it.
func TestRowsOfOneClaimThatAreImportedTogetherAreListed(t *testing.T) {
	b := newBench(t)
	in, err := b.Importing(b.Context(), memory.ImportSource{Name: "dump", Dump: "1", Actor: "ops", Trusted: true})
	if err != nil {
		t.Fatal(err)
	}
	var rows []memory.Imported
	for i := range 3 {
		d := anchored(says("acme", "iban", "one"), i)
		d.State, d.Evidence = memory.StateUnverified, nil
		rows = append(rows, memory.Imported{Name: fmt.Sprint("row ", i), Draft: d})
	}
	got, err := in.Put(b.Context(), rows, func([]memory.ImportReceipt) []byte { return nil })
	if err != nil {
		t.Fatal(err)
	}
	clean(b)
	b.mustMove(got[1].ID, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankPrimarySource, "court"))
	if _, err := b.move(got[2].ID, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:mail")); !errors.Is(err, memory.ErrInsufficient) {
		t.Errorf("what was said against the claim does not count: %v", err)
	}
}

// An erased row leaves the record of its claim, and who is left holds the claim.
func TestAnErasedRowLeavesTheRecordOfItsClaim(t *testing.T) {
	b := newBench(t)
	claim := says("bill 12", "is", "disputed")
	hers := anchored(claim, 1)
	hers.Subjects = []string{"dora"}
	gone, stays := b.put(hers).ID, b.put(anchored(claim, 2)).ID
	if _, err := b.Erase(b.Context(), memory.Erasure{Subject: "dora", Request: "r1", Actor: "ops"}); err != nil {
		t.Fatal(err)
	}
	b.Store = b.another()
	clean(b)
	if f, err := b.Fitness(b.Context(), []memory.ID{gone}); err != nil || !f.Heads[0].Has(memory.FlagErased) {
		t.Fatalf("it was not erased: %v", err)
	}
	if r := b.put(modelDraft(claim)); r.ID != stays || r.Disposition != memory.Collapsed {
		t.Errorf("a draft of the claim became %s, %s; want %s", r.ID, r.Disposition, stays)
	}
	if h, err := b.move(stays, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankPrimarySource, "court")); err != nil || h.Has(memory.FlagContested) {
		t.Errorf("beside a row that was lawfully erased: %v, %v", h.Flags, err)
	}
}

// A rejection is sealed again when another row joins the claim: what a person said stays
// under that person's class.
func TestARejectionStaysAsItWasWhenRowsJoinTheClaim(t *testing.T) {
	b := newBenchOf(t, everything)
	first := b.put(anchored(says("acme", "iban", "one"), 1)).ID
	if _, err := b.Apply(b.Context(), memory.Transition{Row: first, Revision: 1, To: memory.TruthContradicted, Authority: memory.AuthorityUser, Reject: true, Actor: "cleo", Source: "confirm",
		Reason: "a false one", Evidence: []memory.Evidence{contradicts(memory.RankUser, "user:cleo")}}); err != nil {
		t.Fatal(err)
	}
	other := anchored(says("acme", "iban", "one"), 2)
	other.Subjects = []string{"dora"} // it is of another class
	second := b.put(other).ID
	b.Store = b.another()
	for _, key := range b.sharedObjects() {
		class := binary.BigEndian.AppendUint64(nil, uint64(b.head(first).Class))
		if strings.HasPrefix(key, "c/") && !bytes.Contains(b.beneath(key).Data, class) {
			t.Error("the rejection is not sealed under the class of the row that was rejected")
		}
	}
	if r := b.row(second); r.Rejection == nil || r.Rejection.By != "cleo" || r.Rejection.Reason != "a false one" {
		t.Errorf("the rejection became %+v", r.Rejection)
	}
	clean(b)
}

// counted is a driver that counts round trips.
type counted struct {
	memory.Driver
	gets, queries int
}

func (d *counted) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	d.gets++
	return d.Driver.Get(ctx, tenant, keys)
}

func (d *counted) Query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	d.queries++
	return d.Driver.Query(ctx, tenant, q)
}

func TestRivalsAndSiblingsTakeNoQuery(t *testing.T) {
	d := &counted{Driver: storetest.NewMap()}
	s, err := memory.New(d, keyring.Ephemeral(), &memory.Options{Clock: func() time.Time { return day0 }})
	if err != nil {
		t.Fatal(err)
	}
	counts := func(what string, gets int, do func() error) {
		t.Helper()
		d.gets, d.queries = 0, 0
		if err := do(); err != nil || d.gets > gets || d.queries > 0 {
			t.Errorf("%s took %d reads and %d queries, want %d reads; %v", what, d.gets, d.queries, gets, err)
		}
	}
	var last memory.ID
	put := func(d memory.Draft) func() error {
		return func() error {
			r, err := s.Put(t.Context(), d)
			last = r.ID
			return err
		}
	}
	move := func(id memory.ID, to memory.Truth, e memory.Evidence) func() error {
		return func() error {
			f, err := s.Fitness(t.Context(), []memory.ID{id})
			if err != nil {
				return err
			}
			d.gets = 0
			_, err = s.Apply(t.Context(), memory.Transition{Row: id, Revision: f.Heads[0].Revision, To: to, Authority: memory.AuthorityProbe, Actor: "w", Source: "s", Reason: "r", Evidence: []memory.Evidence{e}})
			return err
		}
	}
	for _, c := range []memory.Content{several("zed", "likes", "tea"), says("acme", "name", "Acme")} { // what is made once of each subject
		if err := put(toolDraft(c, "crm"))(); err != nil {
			t.Fatal(err)
		}
	}
	counts("a row of a new claim", 1, put(anchored(says("acme", "iban", "one"), 1)))
	first := last
	counts("another row of a claim", 3, put(anchored(says("acme", "iban", "one"), 2)))
	counts("a rival", 4, put(toolDraft(says("acme", "iban", "two"), "register")))
	counts("a row beside one of a line where nobody calls the predicate functional", 0, put(toolDraft(several("zed", "likes", "wine"), "crm")))
	counts("a row that is contradicted", 4, move(first, memory.TruthContradicted, contradicts(memory.RankPrimarySource, "court")))
	counts("a row of a claim that was contradicted", 3, put(anchored(says("acme", "iban", "one"), 3)))
}

// unindexed is a driver whose index does not list rows by claim or line, as if somebody
// deleted those lines as soon as they are there.
type unindexed struct{ memory.Driver }

func (d unindexed) Query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	if strings.HasPrefix(q.Term, "c") || strings.HasPrefix(q.Term, "l") {
		return nil, "", nil
	}
	return d.Driver.Query(ctx, tenant, q)
}

// Whatever writers do at once on one functional line, and whatever its index says, two
// objects are never both verified and uncontested.
func TestTwoRivalsNeverStandUncontested(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		driver, keys := unindexed{storetest.NewMap()}, keyring.Ephemeral()
		open := func() *memory.Store {
			s, err := memory.New(driver, keys, &memory.Options{Clock: func() time.Time { return day0 }, Authority: everything})
			if err != nil {
				rt.Fatal(err)
			}
			return s
		}
		type step struct {
			object, source int
			rank           memory.Rank
			to             memory.Truth
			write          bool
		}
		const objects = 3
		s := open()
		var rows []memory.ID
		for i := range objects {
			r, err := s.Put(t.Context(), modelDraft(says("acme", "iban", fmt.Sprint(i))))
			if err != nil {
				rt.Fatal(err)
			}
			rows = append(rows, r.ID)
		}
		var wg sync.WaitGroup
		all := make(chan memory.ID, 1000)
		for range rapid.IntRange(1, 3).Draw(rt, "writers") {
			steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
				return step{rapid.IntRange(0, objects-1).Draw(rt, "object"), rapid.IntRange(0, 2).Draw(rt, "source"),
					rapid.SampledFrom([]memory.Rank{memory.RankTool, memory.RankTool, memory.RankPrimarySource, memory.RankUser}).Draw(rt, "rank"),
					rapid.SampledFrom([]memory.Truth{memory.TruthSupported, memory.TruthSupported, memory.TruthContradicted}).Draw(rt, "to"), rapid.Bool().Draw(rt, "write")}
			}), 1, 6).Draw(rt, "steps")
			own := open()
			wg.Go(func() {
				for i, st := range steps {
					source := fmt.Sprint("tool:", st.source)
					if st.write {
						d := toolDraft(says("acme", "iban", fmt.Sprint(st.object)), fmt.Sprint(st.source))
						d.Anchor = fmt.Sprint(source, i)
						if r, err := own.Put(t.Context(), d); err == nil {
							all <- r.ID
						}
						continue
					}
					f, err := own.Fitness(t.Context(), rows[st.object:st.object+1])
					if err != nil {
						continue
					}
					e := says4(memory.RelationSupports, st.rank, source, source)
					if st.to == memory.TruthContradicted {
						e.Relation = memory.RelationContradicts
					}
					authority := memory.AuthorityProbe
					if st.rank == memory.RankUser {
						authority = memory.AuthorityUser
					}
					own.Apply(t.Context(), memory.Transition{Row: rows[st.object], Revision: f.Heads[0].Revision, To: st.to, Authority: authority, Actor: "cleo", Source: source, Reason: "asked", Evidence: []memory.Evidence{e}})
				}
			})
		}
		wg.Wait()
		close(all)
		for id := range all {
			rows = append(rows, id)
		}
		got, err := open().Get(t.Context(), rows...)
		if err != nil {
			rt.Fatal(err)
		}
		stands := map[string]memory.ID{}
		for i := range got {
			if r := &got[i]; r.Truth == memory.TruthSupported && !r.Has(memory.FlagContested) {
				stands[r.Content.Object] = r.ID
			}
		}
		if len(stands) > 1 {
			rt.Fatalf("both stand: %v", stands)
		}
		if _, err := open().VerifyAll(t.Context(), memory.Verifying{}); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestRowsOfManySubjectsAreOpenedTogether: a store that knows no class yet reads those of some
// rows in one trip.
func TestRowsOfManySubjectsAreOpenedTogether(t *testing.T) {
	ring, d := keyring.Ephemeral(), &counted{Driver: storetest.NewMap()}
	open := func() *memory.Store { return storeOn(t, d, ring) }
	writer := open()
	var ids []memory.ID
	for i := range 50 {
		r, err := writer.Put(t.Context(), modelDraft(says(fmt.Sprint("subject ", i), "is", "b")))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	gets := func(n int) int {
		s := open()
		if _, err := s.Get(t.Context(), ids[0]); err != nil { // what a store reads once
			t.Fatal(err)
		}
		d.gets = 0
		rows, err := s.Get(t.Context(), ids[1:1+n]...)
		if err != nil || len(rows) != n || rows[n-1].Content.Subject != fmt.Sprint("subject ", n) {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		return d.gets
	}
	if few, many := gets(2), gets(49); few != many || many > 3 {
		t.Errorf("2 rows took %d trips, 49 took %d", few, many)
	}
}
