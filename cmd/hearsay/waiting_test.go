package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// confirmed confirms a row, and returns the calls that the command says it frees, and those
// that it says are still held, with why.
func (w *world) confirmed(key, name string) (free []string, held map[string][]string) {
	w.t.Helper()
	id := string(w.ids[name])
	r := w.soon("row", "confirm", id, w.shown(id), "--key", key, "--as", "boss", "--reason", "it is on the letter", "-o", "json")
	var said statementJSON
	if err := json.Unmarshal([]byte(r.out), &said); err != nil || r.code != exitDone {
		w.t.Fatalf("%v, exit %d\n%s%s", err, r.code, r.out, r.talk)
	}
	held = map[string][]string{}
	for _, c := range said.Free {
		free = append(free, c.ID)
	}
	for _, c := range said.StillHeld {
		held[c.ID] = c.Codes
	}
	return free, held
}

// TestConfirmingARowNamesExactlyTheCallsItFrees: they are tried against the policy, and each of
// them is let through when the agent asks again.
func TestConfirmingARowNamesExactlyTheCallsItFrees(t *testing.T) {
	w, mail, book := desk(t)
	key := w.key("boss", "*")
	nowhere := w.sends("nowhere@x.example", "email")
	free, held := w.confirmed(key, "email")
	slices.Sort(free)
	if !slices.Equal(free, []string{mail.HoldID}) || !slices.Equal(held[book.HoldID], []string{"unverified_input"}) || !slices.Equal(held[nowhere.HoldID], []string{"from_nowhere"}) || len(held) != 2 {
		t.Errorf("free %v, held %v", free, held)
	}
	if d := w.ask(gate.Irreversible, "send_email", mailArgs, "email"); d.Blocked() {
		t.Errorf("it is said to be free, and is blocked: %v", d.Err())
	}
	if d := w.ask(gate.StateChanging, "book", `{}`, "email", "note"); !d.Blocked() {
		t.Error("it is said to be held, and is made")
	}
	if d := w.sends("nowhere@x.example", "email"); !errors.Is(d.Err(), gate.ErrFromNowhere) {
		t.Errorf("%v", d.Err())
	}
}

// sends asks for a mail to an address that nobody said.
func (w *world) sends(to string, row string) gate.Decision {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	g, err := gate.New(w.store, gate.Policy{Name: "prod", Version: "7", Declared: true}, &gate.Options{Timeout: time.Hour})
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := json.Marshal(map[string]string{"to": to})
	if err != nil {
		w.t.Fatal(err)
	}
	return g.Decide(w.t.Context(), gate.Request{Contract: gate.Contract{Tool: "send_email", Effect: gate.Irreversible, Sinks: []string{"/to"}}, Args: b,
		Agent: "support-1", Run: "ses_91", Principal: "ana", Lineage: gate.Known([]memory.ID{w.ids[row]}, nil), Sinks: []gate.Sink{{Pointer: "/to"}}})
}

// TestAConfirmedRowThatIsRestrictedFreesNothing, and the way out is named.
func TestAConfirmedRowThatIsRestrictedFreesNothing(t *testing.T) {
	w, mail, book := desk(t)
	key := w.key("boss", "*")
	email := string(w.ids["email"])
	if r := w.soon("row", "restrict", email, "--key", key, "--as", "boss", "--reason", "not yet"); r.code != exitDone {
		t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
	free, held := w.confirmed(key, "email")
	if len(free) != 0 || !slices.Contains(held[mail.HoldID], "not_retrievable") || !slices.Contains(held[book.HoldID], "not_retrievable") {
		t.Errorf("free %v, held %v", free, held)
	}
	if r := w.soon("call", "why", mail.HoldID); r.code != exitNo || !strings.Contains(r.out, "hearsay row expose "+email) {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	if r := w.soon("row", "expose", email, w.shown(email), "--key", key, "--as", "boss", "--reason", "now"); r.code != exitDone || !strings.Contains(r.out, mail.HoldID) {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	if r := w.soon("call", "list"); !strings.Contains(r.out, "nothing any more") {
		t.Errorf("%s", r.out)
	}
}

// TestAHoldOfAnOlderVersionGoesByWhatWasRecorded: it does not keep the terms it was held by.
func TestAHoldOfAnOlderVersionGoesByWhatWasRecorded(t *testing.T) {
	w, mail, book := desk(t)
	h, err := w.store.Hold(t.Context(), mail.HoldID)
	if err != nil || len(h.Asked) == 0 {
		t.Fatal(err)
	}
	h.Asked = nil
	o, err := obstaclesOf(t.Context(), w.store, &h)
	if err != nil || !slices.Equal(o.codes, h.Codes) || o.denied != "" {
		t.Errorf("%+v, %v", o, err)
	}
	for _, verb := range []string{"quarantine", "release"} {
		args := []string{"row", verb, string(w.ids["email"]), "--key", w.key("boss-"+verb, "*"), "--as", "boss-" + verb, "--reason", "looked"}
		if verb == "release" {
			args = append(args, w.shown(string(w.ids["email"])))
		}
		if r := w.soon(args...); r.code != exitDone {
			t.Fatalf("exit %d\n%s", r.code, r.talk)
		}
		o, err := obstaclesOf(t.Context(), w.store, &h)
		if held := verb == "quarantine"; err != nil || (o.denied == gate.QuarantinedInput) != held || slices.Contains(o.codes, "quarantined_input") != held {
			t.Errorf("%s: %+v, %v", verb, o, err)
		}
	}
	w.confirmed(w.key("boss", "*"), "email")
	if o, err = obstaclesOf(t.Context(), w.store, &h); err != nil || !o.none() || !o.moved {
		t.Errorf("%+v, %v", o, err)
	}
	if h, err = w.store.Hold(t.Context(), book.HoldID); err != nil {
		t.Fatal(err)
	}
	h.Asked = nil
	if o, err = obstaclesOf(t.Context(), w.store, &h); err != nil || o.none() {
		t.Errorf("another row of it is not verified: %+v, %v", o, err)
	}
}

// headOf is the head of a row as the file has it.
func (w *world) headOf(name string) (head memory.Restored) {
	w.t.Helper()
	w.below(func(d memory.Driver) {
		for o, err := range d.Objects(w.t.Context(), "default", memory.HeadKey(w.ids[name])) {
			if err != nil {
				w.t.Fatal(err)
			}
			head = o
			head.Data = slices.Clone(o.Data)
			break
		}
	})
	return head
}

func (w *world) restore(o memory.Restored) {
	w.t.Helper()
	w.below(func(d memory.Driver) {
		if err := d.Restore(w.t.Context(), "default", []memory.Restored{o}); err != nil {
			w.t.Fatal(err)
		}
	})
}

// TestARowThatCannotBeReadEndsNoListOfCalls: the call that rests on it stays held, and the
// others are shown.
func TestARowThatCannotBeReadEndsNoListOfCalls(t *testing.T) {
	for name, breaks := range map[string]func(*world){
		"a row that is damaged": func(w *world) {
			o := w.headOf("email")
			o.Data[len(o.Data)-1] ^= 1
			w.restore(o)
		},
		"a row that was erased": func(w *world) {
			if _, err := w.store.Erase(context.Background(), memory.Erasure{Subject: "acme", Actor: "boss", Request: "1"}); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, mail, _ := desk(t)
			w.put("other", said(triple("beta", "billing.email", "pay@beta.example")))
			other := w.ask(gate.StateChanging, "book", `{"day":3}`, "other")
			breaks(w)
			if r := w.soon("call", "list"); r.code != exitDone && r.code != exitTampered || !strings.Contains(r.out, other.HoldID) {
				t.Errorf("call list: exit %d\n%s%s", r.code, r.out, r.talk)
			}
			if r := w.soon("call", "why", other.HoldID); r.code != exitNo || !strings.Contains(r.out, "hearsay row confirm") {
				t.Errorf("call why: exit %d\n%s%s", r.code, r.out, r.talk)
			}
			h, err := w.store.Hold(t.Context(), mail.HoldID)
			if err != nil {
				return // it was erased with its row
			}
			if o, err := obstaclesOf(t.Context(), w.store, &h); err != nil || o.none() || !slices.ContainsFunc(o.faults, func(f fault) bool { return f.row == w.ids["email"] }) {
				t.Errorf("%+v, %v", o, err)
			}
			if r := w.soon("call", "why", mail.HoldID); r.code != exitNo || r.out == "" {
				t.Errorf("call why of the call that rests on it: exit %d\n%s%s", r.code, r.out, r.talk)
			}
		})
	}
}

// TestAStoreThatIsBehindEndsNoListOfCalls: an older row was put back, and the process has met
// the newer one.
func TestAStoreThatIsBehindEndsNoListOfCalls(t *testing.T) {
	w, mail, _ := desk(t)
	old := w.headOf("email")
	rows, err := w.store.Get(t.Context(), w.ids["email"])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Apply(t.Context(), memory.Transition{Row: w.ids["email"], Revision: rows[0].Revision, To: memory.SecurityQuarantined, Authority: memory.AuthorityUser, Actor: "boss", Source: "s", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	w.restore(old)
	h, err := w.store.Hold(t.Context(), mail.HoldID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Fitness(t.Context(), []memory.ID{w.ids["email"]}); !errors.Is(err, memory.ErrBehind) {
		t.Fatalf("the store is not behind: %v", err)
	}
	o, err := obstaclesOf(t.Context(), w.store, &h)
	if err != nil || o.none() || !o.moved {
		t.Errorf("%+v, %v", o, err)
	}
	if _, _, err := waitingFor(t.Context(), w.store, w.ids["email"], w.now); err != nil {
		t.Errorf("%v", err)
	}
}

// TestACallThatWouldBeDeniedNowSaysSo: a row that it rests on is under quarantine, and neither
// an approval nor a confirmation is named as a way out.
func TestACallThatWouldBeDeniedNowSaysSo(t *testing.T) {
	w, mail, _ := desk(t)
	key := w.key("boss", "*")
	email := string(w.ids["email"])
	if r := w.soon("row", "quarantine", email, "--key", key, "--as", "boss", "--reason", "it looks odd"); r.code != exitDone {
		t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
	if list := w.soon("call", "list").out; strings.Count(list, "it would be denied now: quarantined_input") != 2 {
		t.Errorf("%s", list)
	}
	r := w.soon("call", "why", mail.HoldID)
	if r.code != exitNo || !strings.Contains(r.out, "now quarantined_input") || !strings.Contains(r.out, "hearsay row release "+email) ||
		strings.Contains(r.out, "call approve") || !strings.Contains(r.out, "then          the row is verified") || strings.Count(r.out, "(2 calls wait for it)") != 1 || !strings.Contains(r.out, "no approval lets this call through") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	if r := w.soon("row", "release", email, w.shown(email), "--key", key, "--as", "boss", "--reason", "it is right"); r.code != exitDone {
		t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
	if r := w.soon("call", "why", mail.HoldID); r.code != exitNo || strings.Contains(r.out, "row release") || !strings.Contains(r.out, "row confirm "+email) {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
}

// TestAParkedCallThatWasDeniedWaitsNoMore: neither its list nor its card says that it is made
// by itself.
func TestAParkedCallThatWasDeniedWaitsNoMore(t *testing.T) {
	w, _, _ := desk(t)
	key := w.key("boss", "*")
	email := string(w.ids["email"])
	g, err := gate.New(w.store, gate.Policy{Name: "prod", Version: "7", Declared: true}, &gate.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	req := gate.Request{Contract: gate.Contract{Tool: "reserve", Effect: gate.StateChanging, Sinks: []string{"/room"}}, Args: json.RawMessage(`{"room":"blue"}`),
		Agent: "support-1", Run: "ses_91", Principal: "ana", Lineage: gate.Known([]memory.ID{w.ids["email"]}, nil), Sinks: []gate.Sink{{Pointer: "/room"}}, Park: true}
	d := g.Decide(t.Context(), req)
	if !d.Parked {
		t.Fatalf("%+v", d)
	}
	if r := w.soon("call", "show", d.HoldID); !strings.Contains(r.out, "made by itself") {
		t.Errorf("%s%s", r.out, r.talk)
	}
	if r := w.soon("row", "quarantine", email, "--key", key, "--as", "boss", "--reason", "it looks odd"); r.code != exitDone {
		t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
	req.Resumes = d.HoldID
	if d := g.Decide(t.Context(), req); d.Outcome != gate.Deny || !d.Has(gate.QuarantinedInput) || d.HoldID != req.Resumes {
		t.Fatalf("%+v", d)
	}
	if list := w.soon("call", "list").out; strings.Contains(list, d.HoldID) {
		t.Errorf("%s", list)
	}
	if r := w.soon("call", "show", d.HoldID); !strings.Contains(r.out, "✗ stale") || strings.Contains(r.out, "made by itself") {
		t.Errorf("%s%s", r.out, r.talk)
	}
	if r := w.soon("call", "why", d.HoldID); r.code != exitNo || !strings.Contains(r.out, "its parked call was denied by blk_") || !strings.Contains(r.out, ": quarantined_input") || !strings.Contains(r.out, "row release "+email) || strings.Contains(r.out, "may approve") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
}

// TestAnApprovedCallThatWouldBeDeniedSaysSo: an approval lets nothing through on a hidden row.
func TestAnApprovedCallThatWouldBeDeniedSaysSo(t *testing.T) {
	w, mail, _ := desk(t)
	key := w.key("boss", "*")
	email := string(w.ids["email"])
	h, err := w.store.Hold(t.Context(), mail.HoldID)
	if err != nil {
		t.Fatal(err)
	}
	if r := w.soon("call", "approve", mail.HoldID, "--args-sha256", h.ArgsSHA256.String(), "--key", key, "--as", "boss", "--reason", "I know them"); r.code != exitDone {
		t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
	if r := w.soon("call", "why", mail.HoldID); r.code != exitDone {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	if r := w.soon("row", "hide", email, "--key", key, "--as", "boss", "--reason", "it looks odd"); r.code != exitDone {
		t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
	if list := w.soon("call", "list").out; !strings.Contains(list, "it would be denied now: not_retrievable") || !strings.Contains(list, "✓ granted") {
		t.Errorf("%s", list)
	}
	r := w.soon("call", "why", mail.HoldID)
	if r.code != exitNo || !strings.Contains(r.out, "now not_retrievable") || !strings.Contains(r.out, "row expose "+email) || !strings.Contains(r.out, "then          the row is verified") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
}
