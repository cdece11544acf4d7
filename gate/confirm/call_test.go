package confirm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// held is a desk with one row that nobody verified, and a call that waits for it.
func held(t testing.TB) (*desk, gate.Request, gate.Decision) {
	w := newDesk(t, storetest.NewMap(), "")
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	w.rows = []memory.ID{w.say("billing.email", "ops@acme.example")}
	req := w.ask("send", "ses_91", "ops@acme.example", w.rows...)
	d := w.decide(req)
	if d.Outcome != gate.Hold || d.HoldID != d.ID || d.ExpiresAt.IsZero() {
		t.Fatalf("%+v", d)
	}
	return w, req, d
}

// TestACallIsApprovedWhateverItsArgumentsAre: the digest that was signed is of the arguments, byte
// for byte.
func TestACallIsApprovedWhateverItsArgumentsAre(t *testing.T) {
	for _, to := range []string{`R&D <rd@acme.example>`, `https://acme.example/?a=1&b=2`, `a > b`, "line\u2028end\u2029", `a \"quoted\" \\ word`, "\u00e9\U0001f600"} {
		w, _, _ := held(t)
		w.rows = []memory.ID{w.say("billing.email", "ops@acme.example")}
		req := w.ask("send", "ses_91", to, w.rows...)
		d := w.decide(req)
		if d.HoldID == "" {
			t.Fatalf("%s is not held: %v", req.Args, d.Err())
		}
		w.approve(d.HoldID)
		if fired := w.decide(req); fired.Blocked() || fired.HoldID != d.HoldID {
			t.Errorf("%q: %v", to, fired.Err())
		}
	}
}

func (w *desk) approve(hold string) {
	w.t.Helper()
	if err := w.put(w.said(confirm.Approve, hold, "cleo", nil)); err != nil {
		w.t.Fatal(err)
	}
}

func TestAnApprovalLetsOneCallThroughOnce(t *testing.T) {
	w, req, d := held(t)
	w.approve(d.HoldID)
	fired := w.decide(req)
	if fired.Blocked() || fired.Approval == nil || fired.Approval.By != "cleo" || fired.HoldID != d.HoldID || fired.ID == d.ID {
		t.Fatalf("%+v, %v", fired, fired.Err())
	}
	if h, err := w.Hold(t.Context(), d.HoldID); err != nil || h.State != memory.HoldFired || h.Fired != fired.ID {
		t.Errorf("%+v, %v", h, err)
	}
	if w.fitness().Heads[0].State() == memory.StateVerified {
		t.Error("an approval verified the row")
	}
	t.Run("before its outcome is known the same call is held", func(t *testing.T) {
		again := w.decide(req)
		if !errors.Is(again.Err(), gate.ErrOutcomeUnknown) || again.Final() || !strings.Contains(again.ToolText(), "nobody knows whether it went through") {
			t.Errorf("%v\n%s", again.Err(), again.ToolText())
		}
		w.pass(memory.UnknownAfter)
		h, err := w.Hold(t.Context(), d.HoldID)
		if err != nil || h.StateAt(w.Now()) != memory.HoldUnknown {
			t.Errorf("it is %s, %v", h.StateAt(w.Now()), err)
		}
	})
	t.Run("after it the same call waits anew, and is told that the approval was used", func(t *testing.T) {
		if err := w.RecordOutcome(t.Context(), fired.ID, memory.CallDone, ""); err != nil {
			t.Fatal(err)
		}
		w2, req2, d2 := held(t)
		w2.approve(d2.HoldID)
		f2 := w2.decide(req2)
		if err := w2.RecordOutcome(t.Context(), f2.ID, memory.CallFailed, ""); err != nil {
			t.Fatal(err)
		}
		h, err := w2.Hold(t.Context(), d2.HoldID)
		if err != nil || h.State != memory.HoldFailed || h.Args != nil {
			t.Errorf("%+v, %v", h, err)
		}
		if again := w2.decide(req2); !errors.Is(again.Err(), gate.ErrApprovalUsed) || again.HoldID == d2.HoldID || errors.Is(again.Err(), gate.ErrOutcomeUnknown) {
			t.Errorf("%v", again.Err())
		}
	})
	t.Run("a person who knows may have it made once more", func(t *testing.T) {
		w, req, d := held(t)
		w.approve(d.HoldID)
		first := w.decide(req)
		again := w.decide(req)
		if first.Blocked() || !again.Blocked() {
			t.Fatal(first.Err(), again.Err())
		}
		w.approve(again.HoldID)
		if once := w.decide(req); once.Blocked() || once.HoldID != again.HoldID {
			t.Errorf("%v", once.Err())
		}
		if more := w.decide(req); !more.Blocked() {
			t.Error("and once more by itself")
		}
	})
}

// TestAnApprovalThatDoesNotStandIsRefusedByTheGate: each way that a grant may not
// fit the call has a reason of its own, in the decision and in the record.
func TestAnApprovalThatDoesNotStandIsRefusedByTheGate(t *testing.T) {
	other := func(change func(*gate.Request)) func(*testing.T, *desk, *gate.Request, string) {
		return func(_ *testing.T, _ *desk, r *gate.Request, _ string) { change(r) }
	}
	for name, c := range map[string]struct {
		spoil func(*testing.T, *desk, *gate.Request, string)
		want  error
		text  string
	}{
		"of other arguments": {other(func(r *gate.Request) { r.Args = json.RawMessage(`{"to":"eve@evil.example"}`) }), gate.ErrApprovalForeign, "for other arguments"},
		"of another run":     {other(func(r *gate.Request) { r.Run = "ses_92" }), gate.ErrApprovalForeign, "to another run"},
		"of another agent":   {other(func(r *gate.Request) { r.Agent = "scribe" }), gate.ErrApprovalForeign, "to another run"},
		"of another principal, of whom nothing is told": {other(func(r *gate.Request) { r.Principal = "ben" }), gate.ErrUnverified, "nobody has verified"},
		"of another tool":   {other(func(r *gate.Request) { r.Contract.Tool = "post" }), gate.ErrUnverified, "nobody has verified"},
		"of another schema": {other(func(r *gate.Request) { r.Contract.Schema[0]++ }), gate.ErrApprovalStale, "has moved"},
		"of fewer rows":     {other(func(r *gate.Request) { r.Lineage = gate.Known(nil, nil); r.Sinks = nil }), gate.ErrApprovalStale, "has moved"},
		"after a row has moved": {func(_ *testing.T, w *desk, _ *gate.Request, _ string) {
			w.move(0, memory.TruthSupported)
			w.move(0, memory.TruthUnverified)
		}, gate.ErrApprovalStale, "has moved"},
		"under another policy": {func(_ *testing.T, w *desk, _ *gate.Request, _ string) { w.version++; w.reopen() }, gate.ErrApprovalStale, "has moved"},
		"after a restore": {func(t *testing.T, w *desk, _ *gate.Request, _ string) {
			must(t, w.BumpEpoch(t.Context(), "ops", "restored"))
		}, gate.ErrApprovalStale, "has moved"},
		"after it ended": {func(_ *testing.T, w *desk, _ *gate.Request, _ string) { w.pass(time.Hour) }, gate.ErrApprovalExpired, "has ended"},
		"after it was withdrawn": {func(t *testing.T, w *desk, _ *gate.Request, id string) {
			must(t, w.put(w.said(confirm.Withdraw, id, "cleo", nil)))
		}, gate.ErrApprovalWithdrawn, "took that back"},
		"after the call was refused": {func(t *testing.T, w *desk, _ *gate.Request, id string) {
			must(t, w.put(w.said(confirm.Refuse, id, "cleo", nil)))
		}, gate.ErrApprovalRejected, `a person (cleo) refused this call: "I asked them by phone"`},
		"signed by nobody who is known here": {func(t *testing.T, w *desk, _ *gate.Request, id string) {
			w.keys = ring(t, line(t, "eve", "*"))
			w.reopen()
		}, gate.ErrApprovalForged, ""},
		"without a key at the gate": {func(t *testing.T, w *desk, _ *gate.Request, id string) {
			g, err := gate.New(w, gate.Policy{Name: "desk", Version: "0", Declared: true}, &gate.Options{Timeout: time.Hour})
			must(t, err)
			w.gate = g
		}, gate.ErrApprovalForged, ""},
		"written into the store by somebody without a key": {func(t *testing.T, w *desk, _ *gate.Request, id string) {
			must(t, w.put(w.said(confirm.Withdraw, id, "cleo", nil)))
			s := w.said(confirm.Approve, id, "cleo", nil)
			s.Signature[0] ^= 1
			w.plant(t, s)
		}, gate.ErrApprovalForged, ""},
		"of another hold, written into the store": {func(t *testing.T, w *desk, _ *gate.Request, id string) {
			must(t, w.put(w.said(confirm.Withdraw, id, "cleo", nil)))
			w.plant(t, w.said(confirm.Approve, id, "cleo", func(s *confirm.CallStatement) { s.Call = "blk_" + strings.Repeat("0", 26) }), id)
		}, gate.ErrApprovalForeign, "for another call"},
		"of other rows under the same id, written into the store": {func(t *testing.T, w *desk, _ *gate.Request, id string) {
			must(t, w.put(w.said(confirm.Withdraw, id, "cleo", nil)))
			w.plant(t, w.said(confirm.Approve, id, "cleo", func(s *confirm.CallStatement) { s.Binding[0]++ }))
		}, gate.ErrApprovalForeign, "for another call"},
		"of an earlier round, written into the store": {func(t *testing.T, w *desk, _ *gate.Request, id string) {
			s := w.said(confirm.Approve, id, "cleo", func(s *confirm.CallStatement) { s.Round = 0 })
			must(t, w.put(w.said(confirm.Withdraw, id, "cleo", nil)))
			w.plant(t, s)
		}, gate.ErrApprovalUsed, ""},
		"that is a withdrawal, written into the store": {func(t *testing.T, w *desk, _ *gate.Request, id string) {
			s := w.said(confirm.Withdraw, id, "cleo", nil)
			must(t, w.put(s))
			w.plant(t, s)
		}, gate.ErrApprovalForged, ""},
	} {
		t.Run("an approval "+name, func(t *testing.T) {
			w, req, d := held(t)
			w.approve(d.HoldID)
			c.spoil(t, w, &req, d.HoldID)
			got := w.decide(req)
			if !got.Blocked() || got.Fault || !errors.Is(got.Err(), c.want) || !strings.Contains(got.ToolText(), c.text) {
				t.Fatalf("%v\n%s", got.Err(), got.ToolText())
			}
			reason := gate.Reason{Code: gate.Code(codeOf(got, c.want))}
			if refused := []error{gate.ErrApprovalForged, gate.ErrApprovalForeign, gate.ErrApprovalStale, gate.ErrApprovalExpired, gate.ErrApprovalUsed}; slices.Contains(refused, c.want) && !strings.Contains(got.Err().Error(), reason.Text()) {
				t.Errorf("it does not say what is wrong with the approval: %v", got.Err())
			}
			if list, err := w.Decisions(t.Context()); err != nil || list[0].Fired || !strings.Contains(string(list[0].Data), codeOf(got, c.want)) {
				t.Errorf("the record says %s, %v", list[0].Data, err)
			}
			if got.Final() != errors.Is(c.want, gate.ErrApprovalRejected) {
				t.Errorf("final is %v", got.Final())
			}
		})
	}
}

// codeOf is the code of the reason with a sentinel.
func codeOf(d gate.Decision, sentinel error) string {
	for _, r := range d.Reasons {
		if errors.Is(r.Code.Err(), sentinel) {
			return string(r.Code)
		}
	}
	return "no such reason"
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plant moves a hold to granted as who can write the store does, past confirm.
func (w *desk) plant(t *testing.T, s confirm.SignedCall, hold ...string) {
	t.Helper()
	b, err := json.Marshal(s)
	must(t, err)
	id := s.Call
	if len(hold) > 0 {
		id = hold[0]
	}
	h, err := w.Hold(t.Context(), id)
	must(t, err)
	_, err = w.MoveHold(t.Context(), memory.HoldMove{Hold: id, Round: h.Round, To: memory.HoldGranted, Actor: "eve", Reason: "x", Grant: b, Ends: w.Now().Add(time.Hour)})
	must(t, err)
}

// TestAStatementAboutACallIsRefused: each with a sentinel of its own, and nothing
// is written.
func TestAStatementAboutACallIsRefused(t *testing.T) {
	approve := func(change func(*confirm.CallStatement)) func(*testing.T, *desk, string) confirm.SignedCall {
		return func(_ *testing.T, w *desk, id string) confirm.SignedCall {
			return w.said(confirm.Approve, id, "cleo", change)
		}
	}
	for name, c := range map[string]struct {
		say  func(*testing.T, *desk, string) confirm.SignedCall
		want error
	}{
		"by somebody unknown": {func(_ *testing.T, w *desk, id string) confirm.SignedCall {
			return w.said(confirm.Approve, id, "eve", nil)
		}, confirm.ErrUnknownKey},
		"by a key for rows": {func(_ *testing.T, w *desk, id string) confirm.SignedCall {
			return w.said(confirm.Approve, id, "ana", nil)
		}, confirm.ErrScope},
		"by a key for another tool": {func(_ *testing.T, w *desk, id string) confirm.SignedCall {
			return w.said(confirm.Approve, id, "tom", nil)
		}, confirm.ErrScope},
		"by the agent itself": {func(t *testing.T, w *desk, id string) confirm.SignedCall {
			w.keys = ring(t, line(t, "clerk", "*"))
			return w.said(confirm.Approve, id, "clerk", nil)
		}, confirm.ErrScope},
		"that was changed": {func(_ *testing.T, w *desk, id string) confirm.SignedCall {
			s := w.said(confirm.Approve, id, "cleo", nil)
			s.Expires = s.Expires.Add(time.Minute)
			return s
		}, confirm.ErrForged},
		"with a verb that was changed": {func(_ *testing.T, w *desk, id string) confirm.SignedCall {
			s := w.said(confirm.Refuse, id, "cleo", nil)
			s.Verb = confirm.Approve
			return s
		}, confirm.ErrForged},
		"of another tenant":           {approve(func(s *confirm.CallStatement) { s.Tenant = "other" }), confirm.ErrTenant},
		"of other arguments":          {approve(func(s *confirm.CallStatement) { s.ArgsSHA256[0]++ }), confirm.ErrContent},
		"of another binding":          {approve(func(s *confirm.CallStatement) { s.Binding[0]++ }), confirm.ErrContent},
		"of another tool":             {approve(func(s *confirm.CallStatement) { s.Tool = "book" }), confirm.ErrContent},
		"that has ended":              {approve(func(s *confirm.CallStatement) { s.Expires = day0 }), confirm.ErrExpired},
		"that ends too far ahead":     {approve(func(s *confirm.CallStatement) { s.Expires = day0.Add(48 * time.Hour) }), confirm.ErrExpired},
		"of a call that is not there": {approve(func(s *confirm.CallStatement) { s.Call = "blk_" + strings.Repeat("0", 26) }), memory.ErrNotFound},
		"of a call that has expired": {func(_ *testing.T, w *desk, id string) confirm.SignedCall {
			w.pass(time.Hour)
			return w.said(confirm.Approve, id, "cleo", func(s *confirm.CallStatement) { s.Expires = w.Now().Add(time.Hour) })
		}, confirm.ErrExpired},
		"after a row has moved": {func(_ *testing.T, w *desk, id string) confirm.SignedCall {
			w.move(0, memory.TruthSupported)
			return w.said(confirm.Approve, id, "cleo", nil)
		}, confirm.ErrStale},
		"after a restore": {func(t *testing.T, w *desk, id string) confirm.SignedCall {
			must(t, w.BumpEpoch(t.Context(), "ops", "restored"))
			return w.said(confirm.Approve, id, "cleo", nil)
		}, confirm.ErrStale},
		"that was applied and withdrawn, and comes again": {func(t *testing.T, w *desk, id string) confirm.SignedCall {
			s := w.said(confirm.Approve, id, "cleo", nil)
			must(t, w.put(s))
			must(t, w.put(w.said(confirm.Withdraw, id, "cleo", nil)))
			return s
		}, confirm.ErrReplayed},
		"after somebody else": {func(t *testing.T, w *desk, id string) confirm.SignedCall {
			s := w.said(confirm.Approve, id, "cleo", nil)
			must(t, w.put(w.said(confirm.Approve, id, "cleo", nil)))
			return s
		}, confirm.ErrDecided},
		"after it was refused": {func(t *testing.T, w *desk, id string) confirm.SignedCall {
			must(t, w.put(w.said(confirm.Refuse, id, "cleo", nil)))
			return w.said(confirm.Approve, id, "cleo", nil)
		}, confirm.ErrDecided},
		"after it was used": {func(t *testing.T, w *desk, id string) confirm.SignedCall {
			w.approve(id)
			if d := w.decide(w.ask("send", "ses_91", "ops@acme.example", w.rows...)); d.Blocked() {
				t.Fatal(d.Err())
			}
			return w.said(confirm.Withdraw, id, "cleo", nil)
		}, confirm.ErrUsed},
		"that takes back what nobody gave": {func(_ *testing.T, w *desk, id string) confirm.SignedCall {
			return w.said(confirm.Withdraw, id, "cleo", nil)
		}, confirm.ErrDecided},
	} {
		t.Run("a statement "+name, func(t *testing.T) {
			w, _, d := held(t)
			s := c.say(t, w, d.HoldID)
			before, err := w.Hold(t.Context(), d.HoldID)
			must(t, err)
			if err := w.put(s); !errors.Is(err, c.want) {
				t.Errorf("%v", err)
			}
			if after, err := w.Hold(t.Context(), d.HoldID); err != nil || after.Revision != before.Revision {
				t.Errorf("the hold moved: %+v, %v", after, err)
			}
		})
	}
	t.Run("what could be accepted nowhere is not signed", func(t *testing.T) {
		w, _, d := held(t)
		h, err := w.Hold(t.Context(), d.HoldID)
		must(t, err)
		good := confirm.NewCall(confirm.Approve, &h, w.Tenant(), "cleo", "why", w.Now(), time.Minute)
		for field, change := range map[string]func(*confirm.CallStatement){
			"verb": func(s *confirm.CallStatement) { s.Verb = 0 }, "tenant": func(s *confirm.CallStatement) { s.Tenant = "" }, "call": func(s *confirm.CallStatement) { s.Call = "mem_1" },
			"tool": func(s *confirm.CallStatement) { s.Tool = " " }, "principal": func(s *confirm.CallStatement) { s.Principal = "" }, "reason": func(s *confirm.CallStatement) { s.Reason = "\x00" },
			"nonce": func(s *confirm.CallStatement) { s.Nonce = "short" }, "expires": func(s *confirm.CallStatement) { s.Expires = time.Time{} },
			"binding": func(s *confirm.CallStatement) { s.Binding = memory.Digest{} }, "args_sha256": func(s *confirm.CallStatement) { s.ArgsSHA256 = memory.Digest{} },
		} {
			s := good
			change(&s)
			_, err := confirm.SignCall(keyOf("cleo"), s)
			var refused *confirm.RefusedError
			if !errors.As(err, &refused) || refused.Field != field || !errors.Is(err, confirm.ErrStatement) {
				t.Errorf("%s: %v", field, err)
			}
		}
		if _, err := confirm.SignCall(nil, good); !errors.Is(err, confirm.ErrKey) {
			t.Error(err)
		}
	})
}

// hiding is a store that has a held call with other arguments than were asked for.
type hiding struct {
	*memory.Store
	args json.RawMessage
}

func (s hiding) Hold(ctx context.Context, id string) (memory.Hold, error) {
	h, err := s.Store.Hold(ctx, id)
	h.Args = s.args
	return h, err
}

// TestACallThatNobodyCanBeShownIsNotApproved: its digest is right, and its arguments are
// gone, or are others. It can be refused all the same.
func TestACallThatNobodyCanBeShownIsNotApproved(t *testing.T) {
	for name, args := range map[string]json.RawMessage{"gone": nil, "others": json.RawMessage(`{"to":"ops@acme.example "}`)} {
		w, _, d := held(t)
		_, err := confirm.ApplyCall(t.Context(), hiding{w.Store, args}, w.keys, w.said(confirm.Approve, d.HoldID, "cleo", nil))
		var refused *confirm.RefusedError
		if !errors.As(err, &refused) || refused.Field != "args_sha256" || !errors.Is(err, confirm.ErrContent) {
			t.Errorf("%s: %v", name, err)
		}
		if h, err := w.Hold(t.Context(), d.HoldID); err != nil || h.State != memory.HoldWaiting {
			t.Errorf("%s: %s, %v", name, h.State, err)
		}
		if _, err := confirm.ApplyCall(t.Context(), hiding{w.Store, args}, w.keys, w.said(confirm.Refuse, d.HoldID, "cleo", nil)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAScopeOverCalls(t *testing.T) {
	for _, c := range []struct {
		scope, tool string
		may         bool
	}{
		{"*", "send", true}, {"call:send", "send", true}, {"call:s*", "send", true}, {"call:*", "send", true},
		{"call:send", "sender", false}, {"call:book", "send", false}, {"send", "send", false}, {"call%3Asend", "send", false}, {"*/x", "send", false}, {"acme/*", "send", false},
	} {
		w, _, _ := held(t)
		d := w.decide(w.ask(c.tool, "r", "a@b.example", w.rows...))
		w.keys = ring(t, line(t, "cleo", c.scope))
		if err := w.put(w.said(confirm.Approve, d.HoldID, "cleo", nil)); c.may != (err == nil) || !c.may && !errors.Is(err, confirm.ErrScope) {
			t.Errorf("%s over calls of %s: %v", c.scope, c.tool, err)
		}
		if w.keys.Authority("cleo", "call:send", "x") && strings.HasPrefix(c.scope, "call:") {
			t.Errorf("%s is of a subject", c.scope)
		}
	}
}

func TestAnIdenticalCallAttachesToItsHold(t *testing.T) {
	w, req, d := held(t)
	again := w.decide(req)
	if again.HoldID != d.HoldID || again.ID == d.ID || !again.ExpiresAt.Equal(d.ExpiresAt) {
		t.Errorf("%+v", again)
	}
	if h, err := w.Hold(t.Context(), d.HoldID); err != nil || h.Tries != 2 || h.State != memory.HoldWaiting || string(h.Args) != `{"to":"ops@acme.example"}` ||
		!slices.Equal(h.AtFault, w.rows) || h.Effect != "irreversible" || !slices.Equal(h.Codes, []string{"unverified_input"}) {
		t.Errorf("%+v, %v", h, err)
	}
	var out struct{ BlockID, DecisionID string }
	b, err := json.Marshal(again)
	must(t, err)
	b = []byte(strings.NewReplacer("block_id", "BlockID", "decision_id", "DecisionID").Replace(string(b)))
	if err := json.Unmarshal(b, &out); err != nil || out.BlockID != d.HoldID || out.DecisionID != again.ID {
		t.Errorf("%+v, %v", out, err)
	}
	if !slices.ContainsFunc(again.Remedies, func(r gate.Remedy) bool { return r.Kind == gate.RemedyApproveOnce && r.Hold == d.HoldID }) {
		t.Errorf("remedies %+v", again.Remedies)
	}
	t.Run("harmless appends void nothing", func(t *testing.T) {
		w.approve(d.HoldID)
		w.say("billing.email", "ops@acme.example") // it comes back, and is an echo
		_, err := w.AddHeat(t.Context(), map[memory.ID]float64{w.rows[0]: 3})
		must(t, err)
		if got := w.decide(req); got.Blocked() {
			t.Error(got.Err())
		}
	})
	t.Run("the confirmation of one row frees every call that waits for it", func(t *testing.T) {
		w := newDesk(t, storetest.NewMap(), "")
		defer w.Close()
		w.rows = []memory.ID{w.say("a", "x")}
		for i := range 3 {
			w.decide(w.ask("book", fmt.Sprint("run", i), "a@b.example", w.rows...))
		}
		n := 0
		for _, err := range w.HeldCalls(t.Context(), memory.HoldFilter{Row: w.rows[0]}) {
			must(t, err)
			n++
		}
		w.move(0, memory.TruthSupported)
		for i := range 3 {
			if d := w.decide(w.ask("book", fmt.Sprint("run", i), "a@b.example", w.rows...)); d.Blocked() || d.Approval != nil {
				t.Errorf("%v", d.Err())
			}
		}
		if n != 3 {
			t.Errorf("%d calls waited for the row", n)
		}
		for h, err := range w.HeldCalls(t.Context(), memory.HoldFilter{Row: w.rows[0]}) {
			t.Errorf("%s still waits: %v", h.ID, err)
		}
	})
}

func TestWaitingForAHold(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*desk, string)
		how  gate.How
		may  bool
	}{
		"an approval":     {func(w *desk, id string) { w.approve(id) }, gate.HowApproved, true},
		"a promotion":     {func(w *desk, _ string) { w.move(0, memory.TruthSupported) }, gate.HowPromoted, true},
		"a contradiction": {func(w *desk, _ string) { w.move(0, memory.TruthContradicted) }, gate.HowDenied, false},
		"a quarantine":    {func(w *desk, _ string) { w.move(0, memory.SecurityQuarantined) }, gate.HowDenied, false},
		"a hidden row":    {func(w *desk, _ string) { w.move(0, memory.RetrievalHidden) }, gate.HowDenied, false},
		"a refusal":       {func(w *desk, id string) { _ = w.put(w.said(confirm.Refuse, id, "cleo", nil)) }, gate.HowRejected, false},
		"its end":         {func(w *desk, _ string) { w.pass(time.Hour) }, gate.HowExpired, false},
		"another hold": {func(w *desk, _ string) {
			w.version++
			w.reopen()
			w.decide(w.ask("send", "ses_91", "ops@acme.example", w.rows...))
		}, gate.HowStale, false},
		"another caller": {func(w *desk, id string) {
			w.approve(id)
			w.decide(w.ask("send", "ses_91", "ops@acme.example", w.rows...))
		}, gate.HowFired, false},
	} {
		t.Run("it ends with "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _, d := held(t)
				done := make(chan gate.Released)
				go func() {
					r, err := gate.Wait(t.Context(), w.Store, d.HoldID)
					if err != nil {
						t.Error(err)
					}
					done <- r
				}()
				time.Sleep(time.Minute) // of the bubble: nothing happens in it
				select {
				case r := <-done:
					t.Fatalf("%+v", r)
				default:
				}
				c.then(w, d.HoldID)
				if r := <-done; r.How != c.how || r.May() != c.may || r.Hold.ID != d.HoldID {
					t.Errorf("%+v", r)
				}
			})
		})
	}
	t.Run("it ends with the quarantine of a row that was fit", func(t *testing.T) {
		w, _, _ := held(t)
		w.rows = append(w.rows, w.say("billing.phone", "+1 555 0100"))
		w.move(1, memory.TruthSupported)
		d := w.decide(w.ask("send", "ses_92", "ops@acme.example", w.rows...))
		if r, done, err := gate.Look(t.Context(), w.Store, d.HoldID); d.Outcome != gate.Hold || done || err != nil {
			t.Fatalf("%+v, %v", r, err)
		}
		w.move(1, memory.SecurityQuarantined)
		if r, done, err := gate.Look(t.Context(), w.Store, d.HoldID); !done || r.How != gate.HowDenied || err != nil {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("it ends with the quarantine of a row at fault where the hold has lost its terms", func(t *testing.T) {
		w, _, d := held(t)
		if r, done, err := gate.Look(t.Context(), termless{w.Store}, d.HoldID); done || err != nil {
			t.Fatalf("%+v, %v", r, err)
		}
		w.move(0, memory.SecurityQuarantined)
		if r, done, err := gate.Look(t.Context(), termless{w.Store}, d.HoldID); !done || r.How != gate.HowDenied || err != nil {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("it ends with its context", func(t *testing.T) {
		w, _, d := held(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := gate.Wait(ctx, w.Store, d.HoldID); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, err := gate.Wait(t.Context(), w.Store, "blk_"+strings.Repeat("0", 26)); !errors.Is(err, memory.ErrNotFound) {
			t.Error(err)
		}
	})
}

func TestABarrierWaitsForTheCallsThatFired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDesk(t, storetest.NewMap(), "")
		defer w.Close()
		w.rows = []memory.ID{w.say("a", "x"), w.say("b", "y")}
		w.move(0, memory.TruthSupported)
		w.move(1, memory.TruthSupported)
		ended := w.decide(w.ask("send", "r1", "a@b.example", w.rows[0]))
		must(t, w.RecordOutcome(t.Context(), ended.ID, memory.CallDone, ""))
		open := w.decide(w.ask("book", "r2", "a@b.example", w.rows...))
		elsewhere := w.decide(w.ask("send", "r3", "a@b.example", w.rows[1]))
		if open.Blocked() || ended.Blocked() || elsewhere.Blocked() {
			t.Fatal(open.Err(), ended.Err(), elsewhere.Err())
		}
		w.move(0, memory.TruthContradicted)
		if late := w.decide(w.ask("send", "r4", "a@b.example", w.rows[0])); !late.Blocked() {
			t.Fatal("a call fires after the demotion")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		calls, err := confirm.Barrier(ctx, w.Store, w.rows[0])
		var barrier *confirm.BarrierError
		if !errors.As(err, &barrier) || !slices.Equal(barrier.Open, []string{open.ID}) || !errors.Is(err, context.DeadlineExceeded) || len(calls) != 2 {
			t.Fatalf("%v, %v", calls, err)
		}
		done := make(chan []memory.CitedDecision)
		go func() {
			calls, err := confirm.Barrier(t.Context(), w.Store, w.rows[0])
			if err != nil {
				t.Error(err)
			}
			done <- calls
		}()
		time.Sleep(time.Minute)
		select {
		case <-done:
			t.Fatal("it did not wait")
		default:
		}
		must(t, w.RecordOutcome(t.Context(), open.ID, memory.CallDone, ""))
		if calls := <-done; len(calls) != 2 || calls[0].ID != open.ID || calls[1].ID != ended.ID {
			t.Errorf("%+v", calls)
		}
	})
}

// TestABarrierDoesNotWaitForACallThatNobodyEnds: it is named after the time that a call
// may be without an outcome, whoever sets no limit; and one that is at work is waited
// for until then.
func TestABarrierDoesNotWaitForACallThatNobodyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDesk(t, storetest.NewMap(), "")
		defer w.Close()
		w.rows = []memory.ID{w.say("a", "x")}
		w.move(0, memory.TruthSupported)
		dead := w.decide(w.ask("send", "r1", "a@b.example", w.rows...))
		w.pass(memory.UnknownAfter - time.Minute)
		works := w.decide(w.ask("send", "r2", "c@d.example", w.rows...))
		if dead.Blocked() || works.Blocked() {
			t.Fatal(dead.Err(), works.Err())
		}
		w.move(0, memory.TruthContradicted)
		w.pass(time.Minute)
		done := make(chan error)
		go func() {
			calls, err := confirm.Barrier(context.Background(), w.Store, w.rows[0])
			if len(calls) != 2 {
				t.Errorf("%+v", calls)
			}
			done <- err
		}()
		time.Sleep(time.Minute)
		select {
		case err := <-done:
			t.Fatalf("it did not wait for what is at work: %v", err)
		default:
		}
		must(t, w.RecordOutcome(t.Context(), works.ID, memory.CallDone, ""))
		var barrier *confirm.BarrierError
		if err := <-done; !errors.As(err, &barrier) || !slices.Equal(barrier.Open, []string{dead.ID}) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// TestHeldCallsAreInTheAudit: each move is an entry, the chain holds, the index can
// be made again, and an erasure takes a hold with its row.
func TestHeldCallsAreInTheAudit(t *testing.T) {
	w, req, d := held(t)
	w.approve(d.HoldID)
	must(t, w.put(w.said(confirm.Withdraw, d.HoldID, "cleo", nil)))
	w.approve(d.HoldID)
	if got := w.decide(req); got.Blocked() {
		t.Fatal(got.Err())
	}
	w.decide(w.ask("book", "r9", "a@b.example", w.rows...))
	if v, err := w.Verify(t.Context(), nil, nil); err != nil || v.Logs < 5 {
		t.Fatalf("%+v, %v", v, err)
	}
	open := func() (out []string) {
		for h, err := range w.HeldCalls(t.Context(), memory.HoldFilter{Open: true}) {
			must(t, err)
			out = append(out, h.ID+" "+h.State.String())
		}
		return out
	}
	before := open()
	if len(before) != 2 {
		t.Fatalf("%v", before)
	}
	if _, err := w.Rebuild(t.Context(), "ops", nil); err != nil {
		t.Fatal(err)
	}
	if after := open(); !slices.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
	if got := w.decide(req); !errors.Is(got.Err(), gate.ErrOutcomeUnknown) {
		t.Errorf("after the index was made again: %v", got.Err())
	}
	if _, err := w.Erase(t.Context(), memory.Erasure{Subject: "acme", Request: "R-1", Actor: "dpo"}); err != nil {
		t.Fatal(err)
	}
	if got := open(); len(got) != 0 {
		t.Errorf("after the erasure: %v", got)
	}
	if _, err := w.Hold(t.Context(), d.HoldID); !errors.Is(err, memory.ErrErased) {
		t.Error(err)
	}
	if _, err := w.Verify(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}
}

func TestHandlerLearnsAboutCalls(t *testing.T) {
	w, req, d := held(t)
	h, err := confirm.NewHandler(w.Store, w.keys, nil)
	must(t, err)
	post := func(v any) (int, string) {
		b, err := json.Marshal(v)
		must(t, err)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(string(b)))
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		text, err := io.ReadAll(rec.Body)
		must(t, err)
		return rec.Code, string(text)
	}
	good := w.said(confirm.Approve, d.HoldID, "cleo", nil)
	forged := good
	forged.Reason = "else"
	for _, c := range []struct {
		name   string
		body   any
		status int
		has    string
	}{
		{"forged", forged, 403, `"not_signed"`},
		{"out of scope", w.said(confirm.Approve, d.HoldID, "ana", nil), 403, `"scope"`},
		{"with an unknown member", map[string]any{"call": d.HoldID, "x": 1}, 400, `"malformed"`},
		{"of a call that is not there", w.said(confirm.Approve, d.HoldID, "cleo", func(s *confirm.CallStatement) { s.Call = "blk_" + strings.Repeat("0", 26) }), 404, `"not_found"`},
		{"good", good, 200, `{"verb":"approve","call":"` + d.HoldID + `","state":"granted","until":`},
		{"by a second person", good, 409, `"decided"`},
	} {
		if status, text := post(c.body); status != c.status || !strings.Contains(text, c.has) {
			t.Errorf("%s: %d %s", c.name, status, text)
		}
	}
	if got := w.decide(req); got.Blocked() {
		t.Error(got.Err())
	}
	if status, text := post(w.said(confirm.Refuse, d.HoldID, "cleo", nil)); status != 409 || !strings.Contains(text, `"used"`) {
		t.Errorf("%d %s", status, text)
	}
}

// FuzzParseCall: what is parsed says, written and parsed again, the same; nothing
// that nobody signed verifies.
func FuzzParseCall(f *testing.F) {
	f.Add([]byte(`{"verb":"approve","tenant":"t","call":"blk_1","round":1,"binding":"` + strings.Repeat("ab", 32) + `","tool":"send","args_sha256":"` + strings.Repeat("01", 32) +
		`","principal":"cleo","expires":"2026-04-17T09:00:00Z","nonce":"0123456789abcdef","reason":"r","signature":"AAAA"}`))
	f.Add([]byte(`{"call":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := confirm.ParseCall(b)
		if err != nil {
			if !errors.Is(err, confirm.ErrStatement) {
				t.Fatalf("%v", err)
			}
			return
		}
		keys := ring(t, line(t, "cleo", "*"))
		if confirm.VerifyCall(keys, s, day0) == nil {
			t.Fatal("it verifies")
		}
		if _, err := keys.OpenGrant(b); err == nil {
			t.Fatal("it is a grant")
		}
		if s.Verb == 0 {
			return
		}
		out, err := json.Marshal(s)
		if err != nil {
			return // a year that JSON cannot hold
		}
		if again, err := confirm.ParseCall(out); err != nil || again.Tool != s.Tool || again.Round != s.Round || again.Binding != s.Binding || !again.Expires.Equal(s.Expires) {
			t.Fatalf("%+v, %v", again, err)
		}
	})
}

// slow is a store that answers once nobody waits any more.
type slow struct{ *memory.Store }

func (s slow) OpenCalls(ctx context.Context, decisions ...string) ([]string, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestABarrierNamesWhatItKnowsOfIfTheStoreIsSlow: nothing is known to have ended.
func TestABarrierNamesWhatItKnowsOfIfTheStoreIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDesk(t, storetest.NewMap(), "")
		defer w.Close()
		w.rows = []memory.ID{w.say("a", "x")}
		w.move(0, memory.TruthSupported)
		open := w.decide(w.ask("send", "r1", "a@b.example", w.rows...))
		w.move(0, memory.TruthContradicted)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		calls, err := confirm.Barrier(ctx, slow{w.Store}, w.rows[0])
		var barrier *confirm.BarrierError
		if !errors.As(err, &barrier) || !slices.Equal(barrier.Open, []string{open.ID}) || !errors.Is(err, context.DeadlineExceeded) || len(calls) != 1 {
			t.Errorf("%+v, %v", calls, err)
		}
	})
}

// TestARefusalIsQuotedInNoRecord: the model is told the person's words, and the record of a
// call that she refused, which may rest on no row, has none of them.
func TestARefusalIsQuotedInNoRecord(t *testing.T) {
	w, req, d := held(t)
	must(t, w.put(w.said(confirm.Refuse, d.HoldID, "cleo", nil)))
	again := w.decide(req)
	r, err := w.Decision(t.Context(), again.ID)
	if must(t, err); again.Words == "" || !strings.Contains(again.ToolText(), again.Words) || strings.Contains(string(r.Data), again.Words) || !strings.Contains(string(r.Data), "cleo") {
		t.Errorf("%q, %s", again.Words, r.Data)
	}
}

// termless is a store whose holds do not keep the question that they came from.
type termless struct{ *memory.Store }

func (s termless) Hold(ctx context.Context, id string) (memory.Hold, error) {
	h, err := s.Store.Hold(ctx, id)
	h.Asked = nil
	return h, err
}
