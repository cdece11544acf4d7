package storetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// RunLost asks that a rebuild mends a store that lost one object without a trace: the object is
// gone and its lines of the index are still there. lose takes an object of the tenant "default"
// away behind the driver. What lies in one place only does not come back, and everything else is
// as it was. An erasure ends although the bodies of rows are lost: it erases what is under a key
// of the subject, and counts the others.
func RunLost(t *testing.T, d memory.Driver, lose func(t *testing.T, key string)) {
	t.Helper()
	closeLater(t, d)
	ctx, ring := t.Context(), keyring.Ephemeral()
	open := func() *memory.Store {
		s, err := memory.New(d, ring, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	var rows []memory.ID
	for _, draft := range []memory.Draft{
		said("ana", "city", "Oslo"), said("ben", "city", "Rome"),
		{Content: memory.Content{Text: "the sky is blue", Cardinality: memory.CardinalityUnknown}, Origin: memory.OriginModelDerived, State: memory.StateUnverified, Asserter: memory.Asserter{Principal: "ana", Model: "Sonnet", Family: "claude"}, Sensitivity: memory.SensitivityInternal},
	} {
		r, err := s.Put(ctx, draft)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r.ID)
	}
	if _, err := s.Apply(ctx, memory.Transition{Row: rows[1], Revision: 1, To: memory.TruthContradicted, Authority: memory.AuthorityUser, Actor: "ben", Source: "ben", Reason: "wrong", Reject: true}); err != nil {
		t.Fatal(err)
	}
	was, err := s.Get(ctx, rows...)
	if err != nil {
		t.Fatal(err)
	}
	var objects []memory.Restored
	for o, err := range d.Objects(ctx, "default", "") {
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	mended := 0
	for _, o := range objects {
		name := memory.KeyText(o.Key)
		lose(t, o.Key)
		if objs, err := d.Get(ctx, "default", []string{o.Key}); err != nil || objs[0].Revision != 0 {
			t.Fatalf("%s is still there: %v", name, err)
		}
		s := open()
		done, err := s.Rebuild(ctx, "operator", nil)
		if err != nil || done.Rows != len(rows) {
			t.Fatalf("%s is lost: %+v, %v", name, done, err)
		}
		s = open()
		once := strings.HasPrefix(name, "body/") || strings.HasPrefix(name, "class/")
		if (done.Lost > 0) != once && !(strings.HasPrefix(name, "class/") && done.Lost == 0) {
			t.Errorf("%s is lost: %+v", name, done)
		}
		f, err := s.Fitness(ctx, rows)
		if err != nil {
			t.Fatalf("%s is lost: %v", name, err)
		}
		for i, id := range rows {
			if f.Heads[i].State() != was[i].State() {
				t.Errorf("%s is lost: %s is %s, it was %s", name, id, f.Heads[i].State(), was[i].State())
			}
			got, err := s.Get(ctx, id)
			switch {
			case err == nil && (got[0].Rejection == nil) != (was[i].Rejection == nil):
				t.Errorf("%s is lost, and a rejection with it: %+v", name, got[0])
			case err != nil && (!once || !errors.Is(err, memory.ErrDamaged)):
				t.Errorf("%s is lost: %s: %v", name, id, err)
			}
		}
		if !once {
			mended++
			if v, err := s.VerifyAll(ctx, memory.Verifying{}); err != nil {
				t.Errorf("%s is lost: %+v, %v", name, v, err)
			}
			continue
		}
		if err := d.Restore(ctx, "default", []memory.Restored{o}); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("storetest: %d of %d objects are made again", mended, len(objects))
	if mended < 20 {
		t.Errorf("only %d objects were tried", mended)
	}
	for _, o := range objects {
		if strings.HasPrefix(memory.KeyText(o.Key), "body/") {
			lose(t, o.Key)
		}
	}
	ask := memory.Erasure{Subject: "ana", Request: "R-1", Actor: "dpo"}
	for _, want := range []int{1, 0} { // one is under her key, two were said by her
		if done, err := open().Erase(ctx, ask); err != nil || done.Rows != want || done.Unread != 2 {
			t.Errorf("the bodies are lost: %+v, %v, want %d rows erased", done, err, want)
		}
	}
}

func said(subject, predicate, object string) memory.Draft {
	return memory.Draft{Content: memory.Content{Subject: subject, Predicate: predicate, Object: object, Cardinality: memory.CardinalityFunctional},
		Origin: memory.OriginModelDerived, State: memory.StateUnverified, Asserter: memory.Asserter{Principal: "ana", Model: "Sonnet", Family: "claude"}, Sensitivity: memory.SensitivityInternal}
}
