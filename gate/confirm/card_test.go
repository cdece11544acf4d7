package confirm_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
)

// A statement is bound to all that the card shows, and says nothing of the words that it
// shows apart.
func TestAStatementIsBoundToTheCard(t *testing.T) {
	w := newWorld(t)
	quote := func(claim *memory.Row, words string) *memory.Row {
		t.Helper()
		r, err := w.Put(t.Context(), memory.Quotation(claim.ID, memory.Draft{Content: claim.Content, Origin: claim.Origin, Asserter: claim.Asserter, Sensitivity: claim.Sensitivity}, words))
		if err != nil {
			t.Fatal(err)
		}
		return w.row(t, r.ID)
	}
	row, other := w.pending(t, fact("ops@acme.example")), w.pending(t, fact("pay@acme.example"))
	words, foreign := quote(row, "Their office opens at nine."), quote(other, "CFO confirmed by phone.")
	on := func(c confirm.Card) confirm.Statement {
		return c.Statement(confirm.Confirm, w.Tenant(), "ana", "asked them", w.Now(), time.Hour)
	}
	shown := on(confirm.Card{Row: row, Quoted: []memory.Row{*words}})
	for name, spoil := range map[string]func(*confirm.Statement){
		"that hides the quotation it was shown": func(s *confirm.Statement) { s.Quoted = nil },
		"that names one it was not shown":       func(s *confirm.Statement) { s.Quoted = append(s.Quoted, s.Quoted...) },
		"that was shown the words of another":   func(s *confirm.Statement) { *s = on(confirm.Card{Row: row, Quoted: []memory.Row{*foreign}}) },
		"that was shown something for the words": func(s *confirm.Statement) {
			*s = on(confirm.Card{Row: row, Quoted: []memory.Row{*other}})
			s.Quoted = []memory.ID{words.ID}
		},
	} {
		s := shown
		spoil(&s)
		if _, err := w.apply(t, sign(t, s)); !errors.Is(err, confirm.ErrContent) {
			t.Errorf("a statement %s: %v", name, err)
		}
	}
	if res, err := w.apply(t, sign(t, shown)); err != nil || res.State != memory.StateVerified {
		t.Fatalf("%+v, %v", res, err)
	}
	if r := w.row(t, words.ID); r.State() != memory.StateUnverified {
		t.Error("the words were confirmed with the claim")
	}
	if _, err := w.apply(t, sign(t, w.statement(confirm.Confirm, w.row(t, words.ID), "cleo"))); !errors.Is(err, memory.ErrIllegalMove) {
		t.Errorf("words alone were confirmed: %v", err)
	}
}

// Nobody says that right is what she cannot see.
func TestAClaimThatHidesCharactersIsNotConfirmed(t *testing.T) {
	w := newWorld(t)
	for name, object := range map[string]string{
		"tag characters":         "ops@acme.example\U000e0062\U000e0063",
		"a zero-width space":     "ops@ac\u200bme.example",
		"an override":            "\u202eops@acme.example",
		"joiners in Latin":       "ops@ac\u200dme.example",
		"a sequence of joiners":  "می\u200c\u200d\u200cخواهم",
		"variation selectors":    "ops@acme.example\ufe00",
		"behind an emoji, many":  "\u2764\ufe0f\ufe0f\ufe0f",
		"a control, not escaped": "ops@acme.example\x08",
	} {
		if _, err := w.apply(t, sign(t, w.statement(confirm.Confirm, w.pending(t, fact(object)), "ana"))); !errors.Is(err, confirm.ErrContent) {
			t.Errorf("%s: %v", name, err)
		}
	}
	hidden := w.pending(t, fact("a\u200bb@acme.example"))
	if _, err := w.apply(t, sign(t, w.statement(confirm.Reject, hidden, "ana"))); err != nil {
		t.Errorf("and it cannot be rejected: %v", err)
	}
	s := w.statement(confirm.Contradict, w.pending(t, fact("old@acme.example")), "ana")
	s.Object = "new@acme.example\u200b"
	if _, err := w.apply(t, sign(t, s)); !errors.Is(err, confirm.ErrContent) {
		t.Errorf("a right object that hides: %v", err)
	}
	for name, object := range map[string]string{"a script that joins": "نمی\u200cدانم", "an emoji": "\u2764\ufe0f\u200d\U0001f525"} {
		if res, err := w.apply(t, sign(t, w.statement(confirm.Confirm, w.pending(t, fact(object)), "ana"))); err != nil && !errors.Is(err, memory.ErrContested) {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
}
