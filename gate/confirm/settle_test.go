package confirm_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// doubtful is a desk with a call of the tool book that was let through, and of which nobody
// knows how it ended.
func doubtful(t *testing.T) (*desk, gate.Request, *memory.DecisionRecord) {
	t.Helper()
	w := newDesk(t, storetest.NewMap(), "")
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	req := w.ask("book", "ses_91", "ops@acme.example")
	fired := w.decide(req)
	if fired.Blocked() {
		t.Fatal(fired.Err())
	}
	w.pass(memory.UnknownAfter)
	d, err := w.Decision(t.Context(), fired.ID)
	must(t, err)
	return w, req, &d
}

// post sends a statement over HTTP.
func (w *desk) post(s confirm.SignedCall) *httptest.ResponseRecorder {
	w.t.Helper()
	h, err := confirm.NewHandler(w.Store, w.keys, nil)
	must(w.t, err)
	b, err := json.Marshal(s)
	must(w.t, err)
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, "/", strings.NewReader(string(b)))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

// settling is a signed statement of how a call ended.
func (w *desk) settling(v confirm.CallVerb, d *memory.DecisionRecord, who string, change func(*confirm.CallStatement)) confirm.SignedCall {
	w.t.Helper()
	s, err := confirm.NewSettlement(v, d, w.Tenant(), who, "I looked", w.Now(), time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	if change != nil {
		change(&s)
	}
	signed, err := confirm.SignCall(keyOf(who), s)
	if err != nil {
		w.t.Fatal(err)
	}
	return signed
}

// TestOnlyASignedWordOfWhoMaySettlesACall, over HTTP too.
func TestOnlyASignedWordOfWhoMaySettlesACall(t *testing.T) {
	for name, c := range map[string]struct {
		who    string
		verb   confirm.CallVerb
		before func(*desk, *memory.DecisionRecord)
		change func(*confirm.CallStatement)
		after  func(*confirm.SignedCall)
		want   error
		status int
	}{
		"it was done, by a key of the tool":  {who: "tom", verb: confirm.Done, status: http.StatusOK},
		"it was not done, by a key of all":   {who: "cleo", verb: confirm.NotDone, status: http.StatusOK},
		"a key of no call":                   {who: "ana", verb: confirm.Done, want: confirm.ErrScope, status: http.StatusForbidden},
		"no key that is known":               {who: "eve", verb: confirm.Done, want: confirm.ErrUnknownKey, status: http.StatusForbidden},
		"another verb than was signed":       {who: "cleo", verb: confirm.Done, after: func(s *confirm.SignedCall) { s.Verb = confirm.NotDone }, want: confirm.ErrForged, status: http.StatusForbidden},
		"other arguments":                    {who: "cleo", verb: confirm.Done, change: func(s *confirm.CallStatement) { s.ArgsSHA256[0] ^= 1 }, want: confirm.ErrContent, status: http.StatusConflict},
		"another tool, of which the key may": {who: "tom", verb: confirm.Done, change: func(s *confirm.CallStatement) { s.Binding[0] ^= 1 }, want: confirm.ErrContent, status: http.StatusConflict},
		"another tenant":                     {who: "cleo", verb: confirm.Done, change: func(s *confirm.CallStatement) { s.Tenant = "other" }, want: confirm.ErrTenant, status: http.StatusForbidden},
		"a statement that has ended":         {who: "cleo", verb: confirm.Done, before: func(w *desk, _ *memory.DecisionRecord) { w.pass(2 * time.Hour) }, change: func(s *confirm.CallStatement) { s.Expires = day0.Add(time.Hour) }, want: confirm.ErrExpired, status: http.StatusGone},
		"a call of which it is known": {who: "cleo", verb: confirm.Done, before: func(w *desk, d *memory.DecisionRecord) {
			must(w.t, w.RecordOutcome(w.t.Context(), d.ID, memory.CallDone, ""))
		}, want: confirm.ErrDecided, status: http.StatusConflict},
		"a call that somebody has settled": {who: "cleo", verb: confirm.NotDone, before: func(w *desk, d *memory.DecisionRecord) { must(w.t, w.put(w.settling(confirm.Done, d, "tom", nil))) }, want: confirm.ErrDecided, status: http.StatusConflict},
		"settled as not done by mistake":   {who: "cleo", verb: confirm.Done, before: func(w *desk, d *memory.DecisionRecord) { must(w.t, w.put(w.settling(confirm.NotDone, d, "tom", nil))) }, status: http.StatusOK},
		"no call":                          {who: "cleo", verb: confirm.Done, change: func(s *confirm.CallStatement) { s.Call = "blk_00000000000000000000000000" }, want: memory.ErrNotFound, status: http.StatusNotFound},
	} {
		for _, way := range []string{"directly", "over HTTP"} {
			t.Run(name+", "+way, func(t *testing.T) {
				w, req, d := doubtful(t)
				w.t = t
				if c.before != nil {
					c.before(w, d)
				}
				s := w.settling(c.verb, d, c.who, c.change)
				if c.after != nil {
					c.after(&s)
				}
				if way == "directly" {
					if err := w.put(s); !errors.Is(err, c.want) {
						t.Errorf("%v", err)
					}
				} else {
					if rec := w.post(s); rec.Code != c.status {
						t.Errorf("%d: %s", rec.Code, rec.Body)
					}
				}
				if c.want != nil {
					return
				}
				after, err := w.Decision(t.Context(), d.ID)
				must(t, err)
				if after.Unsettled() || after.Settled == nil || after.Settled.By != c.who || (after.Outcome == memory.CallSettledDone) != (c.verb == confirm.Done) {
					t.Errorf("%s, %+v", after.Outcome, after.Settled)
				}
				if again := w.decide(req); again.Blocked() {
					t.Errorf("nobody had asked for it meanwhile: %v", again.Err())
				}
				if err := w.put(s); !errors.Is(err, confirm.ErrDecided) {
					t.Errorf("said again: %v", err)
				}
			})
		}
	}
}

// TestACallThatMayBeAtWorkIsNotSaidToBeUndone, and who asked for it settles nothing.
func TestACallThatMayBeAtWorkIsNotSaidToBeUndone(t *testing.T) {
	w, _, _ := doubtful(t)
	fired := w.decide(w.ask("book", "ses_92", "ops@acme.example"))
	d, err := w.Decision(t.Context(), fired.ID)
	must(t, err)
	if err := w.put(w.settling(confirm.NotDone, &d, "cleo", nil)); !errors.Is(err, confirm.ErrEarly) {
		t.Errorf("%v", err)
	}
	w.keys = ring(t, line(t, "clerk", "*"))
	if err := w.put(w.settling(confirm.Done, &d, "clerk", nil)); !errors.Is(err, confirm.ErrScope) {
		t.Errorf("the agent settles its own call: %v", err)
	}
	if _, err := confirm.NewSettlement(confirm.Approve, &d, "", "cleo", "r", w.Now(), time.Hour); !errors.Is(err, confirm.ErrStatement) {
		t.Errorf("an approval settles nothing: %v", err)
	}
	if _, err := confirm.NewSettlement(confirm.Done, &memory.DecisionRecord{Data: json.RawMessage(`{}`)}, "", "cleo", "r", w.Now(), time.Hour); !errors.Is(err, confirm.ErrContent) {
		t.Errorf("a record of no gate: %v", err)
	}
}

// A call whose record was erased is settled by a statement about a call that waits for it, and
// by none about another one.
func TestACallWhoseRecordWasErasedIsSettledByAStatementAboutTheOneThatWaits(t *testing.T) {
	for name, c := range map[string]struct {
		who    string
		erased bool
		known  bool // how the first call ended is
		change func(*confirm.CallStatement)
		want   error
	}{
		"by a key of the tool":     {who: "tom", erased: true},
		"by a key of no call":      {who: "ana", erased: true, want: confirm.ErrScope},
		"by the agent":             {who: "clerk", erased: true, want: confirm.ErrScope},
		"about other arguments":    {who: "tom", erased: true, change: func(s *confirm.CallStatement) { s.ArgsSHA256[0] ^= 1 }, want: confirm.ErrContent},
		"about what it rests on":   {who: "tom", erased: true, change: func(s *confirm.CallStatement) { s.Binding[0] ^= 1 }, want: confirm.ErrContent},
		"its record is there":      {who: "tom", want: confirm.ErrContent},
		"it is known how it ended": {who: "tom", known: true, want: confirm.ErrDecided},
	} {
		w := newDesk(t, storetest.NewMap(), "")
		w.keys = ring(t, line(t, "tom", "call:book"), line(t, "ana", "acme"), line(t, "clerk", "*"))
		rows := []memory.ID{w.say("a", "x")}
		w.rows = rows
		w.move(0, memory.TruthSupported)
		first := w.decide(w.ask("book", "r1", "a@b.example", rows...))
		if first.Blocked() {
			t.Fatal(first.Err())
		}
		if c.erased {
			if _, err := w.Erase(t.Context(), memory.Erasure{Subject: "acme", Request: "R-1", Actor: "dpo"}); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(memory.UnknownAfter)
		d := w.decide(w.ask("book", "r1", "a@b.example"))
		if !errors.Is(d.Err(), gate.ErrOutcomeUnknown) {
			t.Fatalf("%s: %v", name, d.Err())
		}
		if c.known {
			must(t, w.RecordOutcome(t.Context(), first.ID, memory.CallFailed, ""))
		}
		err := w.put(w.said(confirm.NotDone, d.HoldID, c.who, c.change))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		h, err := w.Hold(t.Context(), d.HoldID)
		if must(t, err); (h.Unknown() == "") != (c.want == nil || c.known) {
			t.Errorf("%s: %+v", name, h)
		}
		must(t, w.Close())
	}
}

// TestNoApprovalIsTakenForARunThatHasEnded, with a kind of its own.
func TestNoApprovalIsTakenForARunThatHasEnded(t *testing.T) {
	w, _, d := held(t)
	must(t, w.EndRun(t.Context(), "ses_91"))
	if err := w.put(w.said(confirm.Approve, d.HoldID, "cleo", nil)); !errors.Is(err, confirm.ErrRunEnded) || errors.Is(err, confirm.ErrStale) {
		t.Errorf("%v", err)
	}
	if err := w.put(w.said(confirm.Refuse, d.HoldID, "cleo", nil)); err != nil {
		t.Errorf("%v", err)
	}
}

// TestAStatementAboutAnErasedCallOverHTTP is told what to sign for.
func TestAStatementAboutAnErasedCallOverHTTP(t *testing.T) {
	w := newDesk(t, storetest.NewMap(), "")
	w.keys = ring(t, line(t, "tom", "call:book"))
	w.rows = []memory.ID{w.say("a", "x")}
	w.move(0, memory.TruthSupported)
	first := w.decide(w.ask("book", "r1", "a@b.example", w.rows...))
	if first.Blocked() {
		t.Fatal(first.Err())
	}
	w.pass(memory.UnknownAfter)
	made, err := w.Decision(t.Context(), first.ID)
	must(t, err)
	s := w.settling(confirm.NotDone, &made, "tom", nil)
	_, err = w.Erase(t.Context(), memory.Erasure{Subject: "acme", Request: "R-1", Actor: "dpo"})
	must(t, err)
	if rec := w.post(s); rec.Code != http.StatusGone || !strings.Contains(rec.Body.String(), "erased") {
		t.Errorf("%d: %s", rec.Code, rec.Body)
	}
	must(t, w.Close())
}
