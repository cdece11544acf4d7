package confirm_test

import (
	"errors"
	"testing"

	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
)

// move moves an axis as the store's own processes do.
func (w *world) move(t testing.TB, id memory.ID, to memory.AxisValue, by memory.Authority) {
	t.Helper()
	if _, err := w.Apply(t.Context(), memory.Transition{Row: id, Revision: w.row(t, id).Revision, To: to, Authority: by, Actor: "cleo", Source: "test", Reason: "why"}); err != nil {
		t.Fatal(err)
	}
}

// Every place a row can be in, and every verb that says where it may go: it ends where the
// verb wants it, by legal moves, and nothing else of it moves.
func TestAStatementSaysWhereARowMayGo(t *testing.T) {
	retrieval := map[string][]memory.AxisValue{
		"normal": nil, "restricted": {memory.RetrievalRestricted}, "hidden": {memory.RetrievalHidden}, "blocked": {memory.RetrievalBlocked}, "privileged_only": {memory.RetrievalPrivilegedOnly},
	}
	security := map[string][]memory.AxisValue{
		"clean": nil, "suspicious": {memory.SecuritySuspicious}, "quarantined": {memory.SecurityQuarantined},
		"malicious": {memory.SecurityQuarantined, memory.SecurityMalicious},
	}
	n := 0
	try := func(from string, way []memory.AxisValue, verb confirm.Verb, of func(*memory.Row) memory.AxisValue, want memory.AxisValue) {
		n++
		t.Run(verb.String()+" what is "+from, func(t *testing.T) {
			w := newWorld(t)
			id := w.known(t, fact("ops@acme.example")).ID
			for _, to := range way {
				w.move(t, id, to, memory.AuthorityUser)
			}
			before := w.row(t, id)
			res, err := w.apply(t, sign(t, w.statement(verb, before, "ana")))
			after := w.row(t, id)
			switch {
			case (from == "malicious") != (verb == confirm.Acquit) && (verb == confirm.Acquit || of(before) == memory.AxisValue(memory.SecurityMalicious)): // it takes two steps back
				if !errors.Is(err, confirm.ErrStatement) || after.Revision != before.Revision {
					t.Errorf("%v, %v", err, of(after))
				}
			case of(before) == want:
				if !errors.Is(err, confirm.ErrStatement) || after.Revision != before.Revision {
					t.Errorf("it is there already: %v", err)
				}
			case err != nil || of(after) != want || res.Revision != after.Revision || after.Truth != before.Truth || after.State() != before.State():
				t.Errorf("%v: %v, %s", err, of(after), after.Truth)
			case res.Security != after.Security || res.Retrieval != after.Retrieval:
				t.Errorf("%+v", res)
			}
			if err == nil {
				if _, err := w.apply(t, sign(t, w.statement(verb, before, "ana"))); !errors.Is(err, confirm.ErrStale) {
					t.Errorf("the same once more: %v", err)
				}
			}
		})
	}
	for from, way := range retrieval {
		for verb, want := range map[confirm.Verb]memory.AxisValue{confirm.Hide: memory.RetrievalHidden, confirm.Block: memory.RetrievalBlocked,
			confirm.Restrict: memory.RetrievalRestricted, confirm.Expose: memory.RetrievalNormal} {
			try(from, way, verb, func(r *memory.Row) memory.AxisValue { return r.Retrieval }, want)
		}
	}
	for from, way := range security {
		for verb, want := range map[confirm.Verb]memory.AxisValue{confirm.Quarantine: memory.SecurityQuarantined, confirm.Release: memory.SecurityClean, confirm.Acquit: memory.SecurityQuarantined} {
			try(from, way, verb, func(r *memory.Row) memory.AxisValue { return r.Security }, want)
		}
	}
	if n != 32 {
		t.Errorf("%d cases", n)
	}
}

func TestWhoMayNotSpeakOfARowMovesItNowhere(t *testing.T) {
	for verb := confirm.Quarantine; verb <= confirm.Expose; verb++ {
		w := newWorld(t)
		row := w.known(t, fact("ops@acme.example"))
		w.move(t, row.ID, memory.RetrievalRestricted, memory.AuthorityPolicy)
		w.move(t, row.ID, memory.SecuritySuspicious, memory.AuthoritySentinel)
		row = w.row(t, row.ID)
		foreign := w.statement(verb, row, "ben")
		if _, err := w.apply(t, sign(t, foreign)); !errors.Is(err, confirm.ErrScope) {
			t.Errorf("%s without a scope: %v", verb, err)
		}
		forged := sign(t, w.statement(verb, row, "ana"))
		forged.Verb = confirm.Confirm
		if _, err := w.apply(t, forged); !errors.Is(err, confirm.ErrForged) {
			t.Errorf("%s under another verb: %v", verb, err)
		}
		if after := w.row(t, row.ID); after.Revision != row.Revision {
			t.Errorf("%s moved it", verb)
		}
	}
}

func TestAQuarantineHoldsWhatWasMadeFromTheRow(t *testing.T) {
	w := newWorld(t)
	row := w.known(t, fact("ops@acme.example"))
	r, err := w.Put(t.Context(), memory.Draft{Content: memory.Content{Text: "mail acme at ops", Cardinality: memory.CardinalityUnknown}, Origin: memory.OriginModelDerived, State: memory.StateUnverified,
		Sensitivity: memory.SensitivityConfidential, DerivedFrom: []memory.ID{row.ID}, Asserter: memory.Asserter{Principal: "assistant", Model: "m", Family: "f"}})
	if err != nil {
		t.Fatal(err)
	}
	held := func() bool {
		up, err := w.Closure(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range up {
			if w.row(t, id).Held() {
				return true
			}
		}
		return false
	}
	if held() {
		t.Fatal("it is held before")
	}
	if _, err := w.apply(t, sign(t, w.statement(confirm.Quarantine, w.row(t, row.ID), "ana"))); err != nil || !held() {
		t.Errorf("%v: what was made from it is free", err)
	}
	if _, err := w.apply(t, sign(t, w.statement(confirm.Release, w.row(t, row.ID), "ana"))); err != nil || held() {
		t.Errorf("%v: what was made from it is held", err)
	}
}
