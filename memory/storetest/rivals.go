package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// RunRivals asks that whoever changes a store behind it, without its keys, hides no row
// from another one that it speaks against. A rival of the same line, and a row of the same
// claim that was contradicted, count though the index lists them no more, and though they
// cannot be read.
func RunRivals(t *testing.T, open func(t *testing.T) memory.Driver) {
	t.Helper()
	d := open(t)
	closeLater(t, d)
	w := &rivalry{T: t, d: d, keys: keyring.Ephemeral(), now: time.Date(2026, 4, 17, 9, 0, 0, 0, time.UTC)}
	w.met()
	for _, rank := range []memory.Rank{memory.RankTool, memory.RankPrimarySource} {
		w.unlisted(rank)
		for _, place := range []string{"h/", "b/", "e/"} {
			w.damagedRival(rank, place, w.flip)
			w.damagedRival(rank, place, w.drop)
		}
	}
	w.sibling("unlisted", w.unlist)
	for _, place := range []string{"h/", "b/", "e/"} {
		w.sibling("damaged "+place, func(id memory.ID) { w.flip(placed(place, id)) })
		w.sibling("dropped "+place, func(id memory.ID) { w.drop(placed(place, id)) })
	}
	w.rejection()
	w.shared()
}

type rivalry struct {
	*testing.T
	d     memory.Driver
	keys  memory.Keys
	now   time.Time
	s     *memory.Store
	cases int
}

// met is a process that has met nothing.
func (w *rivalry) met() {
	w.Helper()
	s, err := memory.New(w.d, w.keys, &memory.Options{Tenant: "rivals", Clock: func() time.Time { return w.now }, Authority: func(string, string, string) bool { return true }})
	w.must(err)
	w.s = s
}

func (w *rivalry) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *rivalry) subject() string {
	w.cases++
	return fmt.Sprint("customer ", w.cases)
}

// noted is a row of a tool that is not verified yet.
func (w *rivalry) noted(subject, object, anchor string) memory.ID {
	w.Helper()
	w.now = w.now.Add(time.Second)
	r, err := w.s.Put(w.Context(), memory.Draft{Content: memory.Content{Subject: subject, Predicate: "lives in", Object: object, Cardinality: memory.CardinalityFunctional},
		Origin: memory.OriginFirstHand, State: memory.StateUnverified, Asserter: memory.Asserter{Principal: "desk", Tool: "reader"}, Anchor: anchor, Sensitivity: memory.SensitivityInternal})
	w.must(err)
	return r.ID
}

func (w *rivalry) head(id memory.ID) memory.Head {
	w.Helper()
	f, err := w.s.Fitness(w.Context(), []memory.ID{id})
	w.must(err)
	return f.Heads[0]
}

func (w *rivalry) move(id memory.ID, to memory.Truth, authority memory.Authority, rank memory.Rank, source string) (memory.Head, error) {
	w.Helper()
	w.now = w.now.Add(time.Second)
	relation := memory.RelationSupports
	if to == memory.TruthContradicted {
		relation = memory.RelationContradicts
	}
	return w.s.Apply(w.Context(), memory.Transition{Row: id, Revision: w.head(id).Revision, To: to, Authority: authority, Actor: "cleo", Source: source, Reason: "asked",
		Reject:   authority == memory.AuthorityUser && to == memory.TruthContradicted,
		Evidence: []memory.Evidence{{Relation: relation, Rank: rank, Source: source, Verifier: source, Group: source, Anchor: memory.Anchor{URI: source}, At: w.now}}})
}

func (w *rivalry) verified(subject, object, anchor string) memory.ID {
	w.Helper()
	id := w.noted(subject, object, anchor)
	_, err := w.move(id, memory.TruthSupported, memory.AuthorityProbe, memory.RankTool, "crm")
	w.must(err)
	return id
}

// placed is the key of an object of a row.
func placed(place string, id memory.ID) string { return place + memory.HeadKey(id)[len(place):] }

func (w *rivalry) object(key string) memory.Restored {
	w.Helper()
	for o, err := range w.d.Objects(w.Context(), "rivals", key) {
		w.must(err)
		if o.Key == key {
			o.Data = bytes.Clone(o.Data)
			return o
		}
	}
	w.Fatalf("no object %s", memory.KeyText(key))
	return memory.Restored{}
}

func (w *rivalry) set(o memory.Restored) {
	w.Helper()
	w.must(w.d.Restore(context.WithoutCancel(w.Context()), "rivals", []memory.Restored{o}))
	w.met()
}

func (w *rivalry) flip(key string) {
	w.Helper()
	o := w.object(key)
	o.Data[len(o.Data)/2] ^= 1
	w.set(o)
}

func (w *rivalry) drop(key string) {
	w.Helper()
	w.set(memory.Restored{Object: memory.Object{Key: key}})
}

// unlist takes away all terms that a row is found by.
func (w *rivalry) unlist(id memory.ID) {
	w.Helper()
	o := w.object(placed("b/", id))
	o.Terms = nil
	w.set(o)
}

// line is the key of the object of the line of the last case: that which no other case has.
func (w *rivalry) line(before []string) string {
	w.Helper()
	for _, key := range w.lines() {
		if !slices.Contains(before, key) {
			return key
		}
	}
	w.Fatal("no line was made")
	return ""
}

func (w *rivalry) lines() (keys []string) {
	w.Helper()
	for o, err := range w.d.Objects(w.Context(), "rivals", "l/") {
		w.must(err)
		keys = append(keys, o.Key)
	}
	return keys
}

func (w *rivalry) unlisted(rank memory.Rank) {
	w.Helper()
	subject := w.subject()
	rival, newer := w.verified(subject, "Oslo", "a"), w.noted(subject, "Bergen", "b")
	w.unlist(rival)
	h, err := w.move(newer, memory.TruthSupported, memory.AuthorityProbe, rank, "register")
	w.must(err)
	was := w.head(rival)
	if rank == memory.RankTool && (!h.Has(memory.FlagContested) || !was.Has(memory.FlagContested)) {
		w.Errorf("a rival that the index does not list: %+v beside %+v", h, was)
	}
	if rank > memory.RankTool && was.Truth != memory.TruthContradicted {
		w.Errorf("a rival that the index does not list stands beside rank %s: %+v", rank, was)
	}
}

func (w *rivalry) damagedRival(rank memory.Rank, place string, damage func(key string)) {
	w.Helper()
	subject := w.subject()
	rival, newer := w.verified(subject, "Oslo", "a"), w.noted(subject, "Bergen", "b")
	damage(placed(place, rival))
	h, err := w.move(newer, memory.TruthSupported, memory.AuthorityProbe, rank, "register")
	if err != nil || !h.Has(memory.FlagContested) {
		w.Errorf("beside a rival whose %s was damaged: %s, %v, %v", place, h.Truth, h.Flags, err)
	}
	if was := w.head(rival); place != "h/" && !was.Has(memory.FlagContested) {
		w.Errorf("a rival whose %s was damaged is not contested", place)
	}
}

func (w *rivalry) sibling(name string, damage func(id memory.ID)) {
	w.Helper()
	subject := w.subject()
	first, second := w.noted(subject, "Oslo", "a"), w.noted(subject, "Oslo", "b")
	_, err := w.move(first, memory.TruthContradicted, memory.AuthorityProbe, memory.RankPrimarySource, "register")
	w.must(err)
	damage(first)
	if h, err := w.move(second, memory.TruthSupported, memory.AuthorityProbe, memory.RankTool, "crm"); !errors.Is(err, memory.ErrInsufficient) {
		w.Errorf("%s: a contradicted row of the claim counts no more: %s, %v", name, h.Truth, err)
	}
	third, err := w.s.Put(w.Context(), memory.Draft{Content: memory.Content{Subject: subject, Predicate: "lives in", Object: "Oslo", Cardinality: memory.CardinalityFunctional},
		Origin: memory.OriginFirstHand, State: memory.StateVerified, Asserter: memory.Asserter{Principal: "desk", Tool: "reader"}, Anchor: "c", Sensitivity: memory.SensitivityInternal,
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "reader", Verifier: "call", Group: "tool:reader", Anchor: memory.Anchor{URI: "c"}, At: w.now}}})
	if err != nil || third.State != memory.StateUnverified || !strings.Contains(third.Reason, "of the claim") {
		w.Errorf("%s: a row of the claim was born %s (%s), %v", name, third.State, third.Reason, err)
	}
	if h, err := w.move(second, memory.TruthSupported, memory.AuthorityUser, memory.RankUser, "cleo"); err != nil || h.Truth != memory.TruthSupported {
		w.Errorf("%s: a user's word did not verify it: %v", name, err)
	}
}

// rejection asks that a user's word reaches every row of the claim, and is not stopped by
// one that cannot be read.
func (w *rivalry) rejection() {
	w.Helper()
	subject := w.subject()
	of := map[string]memory.ID{}
	for _, name := range []string{"rejected", "unlisted", "b/", "e/", "d/", "h/"} {
		of[name] = w.verified(subject, "Oslo", name)
	}
	w.unlist(of["unlisted"])
	for _, place := range []string{"b/", "e/", "d/", "h/"} {
		w.flip(placed(place, of[place]))
	}
	h, err := w.move(of["rejected"], memory.TruthContradicted, memory.AuthorityUser, memory.RankUser, "cleo")
	var damaged *memory.DamagedError
	if h.Truth != memory.TruthContradicted || !errors.As(err, &damaged) || len(damaged.Keys) != 4 {
		w.Errorf("a rejection beside rows that cannot be read: %s, %v", h.Truth, err)
	}
	for name, id := range of {
		if f, err := w.s.Fitness(w.Context(), []memory.ID{id}); err == nil && f.Heads[0].Truth == memory.TruthSupported {
			w.Errorf("the row (%s) of a claim that a user rejected is verified", name)
		}
	}
}

// shared asks that damage of what the rows of a claim and a line share denies, and does
// not keep anybody from taking from a row.
func (w *rivalry) shared() {
	w.Helper()
	for name, damage := range map[string]func(key string, before memory.Restored){
		"damaged":  func(key string, _ memory.Restored) { w.flip(key) },
		"dropped":  func(key string, _ memory.Restored) { w.drop(key) },
		"put back": func(_ string, before memory.Restored) { w.set(before) },
	} {
		lines := w.lines()
		subject := w.subject()
		w.verified(subject, "Oslo", "a")
		line := w.line(lines)
		first := w.noted(subject, "Paris", "a")
		claim := "c/" + memory.EchoKey(w.head(first).Claim)[len("o/"):]
		claimBefore, lineBefore := w.object(claim), w.object(line)
		second := w.noted(subject, "Paris", "b")
		damage(claim, claimBefore)
		if h, err := w.move(second, memory.TruthSupported, memory.AuthorityProbe, memory.RankTool, "register"); !errors.Is(err, memory.ErrDamaged) {
			w.Errorf("a row was verified while the record of its claim is %s: %s, %v", name, h.Truth, err)
		}
		h, err := w.move(second, memory.TruthContradicted, memory.AuthorityUser, memory.RankUser, "cleo")
		if h.Truth != memory.TruthContradicted || !errors.Is(err, memory.ErrDamaged) {
			w.Errorf("a rejection while the record of its claim is %s: %s, %v", name, h.Truth, err)
		}
		if _, err := w.move(second, memory.TruthSupported, memory.AuthorityProbe, memory.RankTool, "register"); !errors.Is(err, memory.ErrRejected) {
			w.Errorf("a rejection does not stand after the record of its claim was %s: %v", name, err)
		}
		third := w.verified(subject, "Rome", "a")
		damage(line, lineBefore)
		if _, err := w.move(third, memory.TruthSupported, memory.AuthorityProbe, memory.RankTool, "crm"); !errors.Is(err, memory.ErrDamaged) {
			w.Errorf("a row was verified again while its line is %s: %v", name, err)
		}
		if h, err := w.move(third, memory.TruthContradicted, memory.AuthorityUser, memory.RankUser, "cleo"); h.Truth != memory.TruthContradicted || !errors.Is(err, memory.ErrDamaged) {
			w.Errorf("a rejection while the line is %s: %s, %v", name, h.Truth, err)
		}
	}
}
