package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
)

// rested has an agent ask for a call that changes something, on rows and on what those were
// made from.
func (w *world) rested(direct, ancestors []string) gate.Decision {
	w.t.Helper()
	return w.resumed("", direct, ancestors)
}

// resumed is [world.rested] of a call that is parked as a hold, if it is not "".
func (w *world) resumed(hold string, direct, ancestors []string) gate.Decision {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	o := &gate.Options{Timeout: time.Hour}
	if path := w.env["HEARSAY_TRUSTED_KEYS"]; path != "" {
		keys, err := confirm.LoadKeyring(path)
		if err != nil {
			w.t.Fatal(err)
		}
		o.Approvals = keys
	}
	g, err := gate.New(w.store, gate.Policy{Name: "prod", Version: "7", Declared: true}, o)
	if err != nil {
		w.t.Fatal(err)
	}
	var ids [2][]memory.ID
	for i, names := range [][]string{direct, ancestors} {
		for _, n := range names {
			ids[i] = append(ids[i], w.ids[n])
		}
	}
	d := g.Decide(w.t.Context(), gate.Request{Contract: gate.Contract{Tool: "book", Effect: gate.StateChanging}, Args: []byte(`{"day":9}`),
		Agent: "support-1", Run: "ses_91", Principal: "ana", Lineage: gate.Known(ids[0], ids[1]), Park: true, Resumes: hold})
	if d.Fault {
		w.t.Fatal(d.Err())
	}
	return d
}

// says has a person say something of a row, with the digits of what is shown.
func (w *world) says(key, verb, name string) {
	w.t.Helper()
	args := []string{"row", verb, string(w.ids[name]), "--key", key, "--as", "boss", "--reason", "looked"}
	if slices.Contains([]string{"confirm", "release", "expose", "acquit"}, verb) {
		args = append(args, w.shown(string(w.ids[name])))
	}
	if r := w.soon(args...); r.code != exitDone {
		w.t.Fatalf("row %s %s: exit %d\n%s%s", verb, name, r.code, r.out, r.talk)
	}
}

// attack finds that a row is an attack.
func (w *world) attack(name string) {
	w.t.Helper()
	for _, to := range []memory.AxisValue{memory.SecurityQuarantined, memory.SecurityMalicious} {
		rows, err := w.store.Get(w.t.Context(), w.ids[name])
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.store.Apply(w.t.Context(), memory.Transition{Row: w.ids[name], Revision: rows[0].Revision, To: to, Authority: memory.AuthoritySentinel, Actor: "sentinel", Source: "sentinel", Reason: "attack"}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// why is what call why says: its steps in short, and whether the call is blocked.
func (w *world) why(id string) (steps string, said whyJSON) {
	w.t.Helper()
	r := w.soon("call", "why", id, "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &said); err != nil || said.Blocked != (r.code == exitNo) {
		w.t.Fatalf("%v, exit %d\n%s%s", err, r.code, r.out, r.talk)
	}
	names := map[string]string{}
	for name, id := range w.ids {
		names[string(id)] = name
	}
	var all []string
	for _, step := range said.Steps {
		short := step.What
		if words := strings.Fields(step.Command); len(words) > 3 {
			if short = words[2]; words[1] == "row" {
				short += " " + names[words[3]]
			}
		}
		for id, name := range names {
			short = strings.ReplaceAll(short, id, name)
		}
		all = append(all, strings.TrimSpace(step.Joins+" "+short))
	}
	return strings.Join(all, "; "), said
}

const (
	noApproval = "then the agent asks again: no approval lets this call through"
	asksAnew   = "or what it rests on has moved since, so this hold can be approved no more: the agent asks again, and a person approves the call that is held then"
)

// TestTheStepsOfEachRowAreThoseThatFreeTheCall: a held call names them, and once a person has
// done what they say the call is let through.
func TestTheStepsOfEachRowAreThoseThatFreeTheCall(t *testing.T) {
	one := func(w *world) { w.put("email", said(triple("acme", "billing.email", "pay@acme.example"))) }
	two := func(w *world) {
		one(w)
		w.put("phone", said(triple("acme", "phone", "1")))
	}
	made := func(w *world) {
		w.put("mail", said(memory.Content{Text: "a stranger's mail"}))
		w.put("email", said(triple("acme", "billing.email", "pay@acme.example"), w.ids["mail"]))
	}
	quoted := func(w *world) {
		one(w)
		w.put("words", memory.Quotation(w.ids["email"], said(triple("acme", "billing.email", "pay@acme.example")), "write to pay@acme.example"))
	}
	outdated := func(w *world) {
		w.put("email", w.returned("crm", triple("acme", "billing.email", "pay@acme.example")))
		w.now = w.now.Add(time.Minute)
		w.put("", w.returned("crm", triple("acme", "billing.email", "new@acme.example")))
	}
	const (
		readAgain = "the run reads again what its source says now, and goes by that"
		rejected  = "row email was rejected: the agent asks in a new run that does not rest on it"
		quotation = "row words is a quotation, which nobody confirms: the agent asks in a new run that recalls the claim alone"
	)
	for name, c := range map[string]struct {
		rows      func(w *world)
		direct    []string
		ancestors []string
		then      func(w *world, key string)
		steps     string
		done      []string // what a person says then; nil if that is not all
	}{
		"one row": {rows: one, direct: []string{"email"}, steps: "confirm email; or approve", done: []string{"confirm email"}},
		"two rows, both needed": {rows: two, direct: []string{"email", "phone"}, steps: "confirm email; and confirm phone; or approve",
			done: []string{"confirm email", "confirm phone"}},
		"two rows, one under quarantine": {rows: two, direct: []string{"email", "phone"}, then: func(w *world, key string) { w.says(key, "quarantine", "phone") },
			steps: "release phone; then confirm phone; and confirm email; " + noApproval, done: []string{"release phone", "confirm phone", "confirm email"}},
		"two rows that contradict each other": {rows: func(w *world) {
			one(w)
			w.put("other", said(triple("acme", "billing.email", "new@acme.example")))
		}, direct: []string{"email", "other"}, steps: "the run rests on both row email and row other, of which at most one is right: the agent asks in a new run that reads only the right one; or approve"},
		"what it was made from is under quarantine": {rows: made, direct: []string{"email"}, ancestors: []string{"mail"}, then: func(w *world, key string) { w.says(key, "quarantine", "mail") },
			steps: "release mail; and confirm email; " + noApproval, done: []string{"release mail", "confirm email"}},
		"what it was made from is an attack": {rows: made, direct: []string{"email"}, ancestors: []string{"mail"}, then: func(w *world, _ string) { w.attack("mail") },
			steps: "acquit mail; then release mail; and confirm email; " + noApproval, done: []string{"acquit mail", "release mail", "confirm email"}},
		"what it was made from is hidden, which stops nothing": {rows: made, direct: []string{"email"}, ancestors: []string{"mail"}, then: func(w *world, key string) { w.says(key, "hide", "mail") },
			steps: "confirm email; " + asksAnew, done: []string{"confirm email"}},
		"an attack that is hidden": {rows: one, direct: []string{"email"}, then: func(w *world, key string) { w.attack("email"); w.says(key, "hide", "email") },
			steps: "acquit email; then release email; then expose email; then confirm email; " + noApproval, done: []string{"acquit email", "release email", "expose email", "confirm email"}},
		"a contradicted row": {rows: one, direct: []string{"email"}, then: func(w *world, key string) { w.says(key, "contradict", "email") },
			steps: rejected},
		"a claim and its quotation": {rows: quoted, direct: []string{"email", "words"}, steps: "confirm email; and " + quotation + "; or approve"},
		"a quotation of a verified claim": {rows: quoted, direct: []string{"email", "words"}, then: func(w *world, key string) { w.says(key, "confirm", "email") },
			steps: quotation + "; " + asksAnew},
		"a quotation under quarantine": {rows: quoted, direct: []string{"email", "words"}, then: func(w *world, key string) { w.says(key, "quarantine", "words") },
			steps: quotation + "; and confirm email; " + noApproval},
		"a superseded row": {rows: outdated, direct: []string{"email"}, steps: readAgain + "; or approve"},
		"a superseded row under quarantine": {rows: outdated, direct: []string{"email"}, then: func(w *world, key string) { w.says(key, "quarantine", "email") },
			steps: "release email; then " + readAgain + "; " + noApproval},
		"a superseded row that is hidden": {rows: outdated, direct: []string{"email"}, then: func(w *world, key string) { w.says(key, "hide", "email") },
			steps: "expose email; then " + readAgain + "; " + noApproval},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.rows(w)
			d := w.rested(c.direct, c.ancestors)
			if !d.Blocked() || d.HoldID == "" {
				t.Fatalf("%+v", d)
			}
			key := w.key("boss", "*")
			if c.then != nil {
				c.then(w, key)
			}
			if steps, said := w.why(d.HoldID); steps != c.steps || !said.Blocked {
				t.Errorf("%s\nwant %s", steps, c.steps)
			}
			if c.done == nil {
				return
			}
			for _, word := range c.done {
				if w.rested(c.direct, c.ancestors).Outcome == gate.Permit {
					t.Fatalf("it is let through before %s", word)
				}
				verb, row, _ := strings.Cut(word, " ")
				w.says(key, verb, row)
			}
			if d := w.rested(c.direct, c.ancestors); d.Blocked() {
				t.Errorf("every step is done, and it is blocked: %v", d.Err())
			}
		})
	}
}

// TestEachStepNamesHowItJoinsTheOnesBefore in the text for people too.
func TestEachStepNamesHowItJoinsTheOnesBefore(t *testing.T) {
	w := newWorld(t)
	w.put("email", said(triple("acme", "billing.email", "pay@acme.example")))
	w.put("phone", said(triple("acme", "phone", "1")))
	d := w.rested([]string{"email", "phone"}, nil)
	var labels []string
	for line := range strings.Lines(w.soon("call", "why", d.HoldID).out) {
		if label, _, _ := strings.Cut(line, " "); slices.Contains([]string{"release", joinAnd, joinThen, joinOr}, label) {
			labels = append(labels, label)
		}
	}
	if !slices.Equal(labels, []string{"release", "and", "or"}) {
		t.Errorf("%q", labels)
	}
}

// TestAQuotationIsListedAsOne among the rows that calls wait for.
func TestAQuotationIsListedAsOne(t *testing.T) {
	w := newWorld(t)
	w.put("email", said(triple("acme", "billing.email", "pay@acme.example")))
	w.put("words", memory.Quotation(w.ids["email"], said(triple("acme", "billing.email", "pay@acme.example")), "write to pay@acme.example"))
	w.rested([]string{"email", "words"}, nil)
	r := w.soon("call", "list", "--by-row")
	if r.code != exitDone || !strings.Contains(r.out, "✗ quotation   "+string(w.ids["words"])) || !strings.Contains(r.out, "? unverified  "+string(w.ids["email"])) {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
}

// approve has a person approve a call.
func (w *world) approve(key, id string) {
	w.t.Helper()
	h, err := w.store.Hold(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	if r := w.soon("call", "approve", id, "--args-sha256", h.ArgsSHA256.String(), "--key", key, "--as", "boss", "--reason", "I know them"); r.code != exitDone {
		w.t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
}

// TestAnApprovedCallIsJudgedAsItStandsNow: list, why and show say whether the approval lets it
// through, and the next attempt agrees.
func TestAnApprovedCallIsJudgedAsItStandsNow(t *testing.T) {
	const (
		worthless = "or the approval is worthless, since what it is bound to has moved: the agent asks again, and a person approves the call that is held then"
		runOver   = "its run has ended: nobody asks for it again"
		afresh    = "its run has ended: the agent asks in a new run, and it is decided afresh"
	)
	for name, c := range map[string]struct {
		then    func(w *world, key string)
		steps   string
		blocked bool
		list    string // what the list says
		show    []string
		next    gate.Code // what holds or denies the next attempt; "" if it is let through
	}{
		"nothing has changed": {then: func(*world, string) {}, list: "unverified_input"},
		"its row was under quarantine, and is not any more": {then: func(w *world, key string) { w.says(key, "quarantine", "email"); w.says(key, "release", "email") },
			steps: "confirm email; or list", blocked: true, list: "unverified_input; its approval is worthless", show: []string{"its approval is worthless"}, next: gate.ApprovalStale},
		"its row is under quarantine": {then: func(w *world, key string) { w.says(key, "quarantine", "email") },
			steps: "release email; then confirm email; " + noApproval, blocked: true, list: "it would be denied now: quarantined_input", show: []string{"it would be denied: quarantined_input"}, next: gate.QuarantinedInput},
		"its row is verified": {then: func(w *world, key string) { w.says(key, "confirm", "email") }, list: "nothing any more", show: []string{"nothing stands in its way"}},
		"its run has ended": {then: func(w *world, _ string) {
			if err := w.store.EndRun(w.t.Context(), "ses_91"); err != nil {
				w.t.Fatal(err)
			}
		}, steps: "list", blocked: true, list: "unverified_input; " + runOver, show: []string{runOver, "approved or not"}},
		"its run has ended, and its row is verified": {then: func(w *world, key string) {
			w.says(key, "confirm", "email")
			if err := w.store.EndRun(w.t.Context(), "ses_91"); err != nil {
				w.t.Fatal(err)
			}
		}, steps: afresh, blocked: true, list: runOver, show: []string{runOver}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put("email", said(triple("acme", "billing.email", "pay@acme.example")))
			key := w.key("boss", "*")
			d := w.rested([]string{"email"}, nil)
			w.approve(key, d.HoldID)
			c.then(w, key)
			steps, said := w.why(d.HoldID)
			if steps != c.steps || said.Blocked != c.blocked || said.Standing != "granted" {
				t.Errorf("%s: %s, blocked %v; want %s, %v", said.Standing, steps, said.Blocked, c.steps, c.blocked)
			}
			if c.steps == "list" && !strings.Contains(said.Steps[0].What, "its run has ended") || strings.HasSuffix(c.steps, "; or list") && !strings.Contains(said.Steps[1].What, strings.TrimPrefix(worthless, "or ")) {
				t.Errorf("%+v", said.Steps)
			}
			if stale := slices.ContainsFunc(said.Reasons, func(r string) bool { return strings.HasPrefix(r, "now approval_stale") }); stale != said.Call.Worthless || stale != (c.next != "") {
				t.Errorf("worthless %v: %q", said.Call.Worthless, said.Reasons)
			}
			if r := w.soon("call", "list"); !strings.Contains(r.out, c.list) || !strings.Contains(r.out, "✓ granted") {
				t.Errorf("list: want %q\n%s", c.list, r.out)
			}
			r := w.soon("call", "show", d.HoldID)
			for _, text := range c.show {
				if !strings.Contains(r.out, text) {
					t.Errorf("show: want %q\n%s", text, r.out)
				}
			}
			if ended := strings.Contains(c.list, runOver); strings.Contains(r.out, "made by itself") == ended {
				t.Errorf("show of a parked call\n%s", r.out)
			}
			if strings.Contains(c.list, runOver) {
				return
			}
			if next := w.rested([]string{"email"}, nil); next.Blocked() != (c.next != "") || c.next != "" && !next.Has(c.next) {
				t.Errorf("want %q: %v", c.next, next.Err())
			}
		})
	}
}

// TestAnApprovalIsWorthlessOnceSomethingElseStandsAgainstTheCall: a person approves what she was
// shown. Here time alone brings the other reason.
func TestAnApprovalIsWorthlessOnceSomethingElseStandsAgainstTheCall(t *testing.T) {
	w := newWorld(t)
	w.put("email", said(triple("acme", "billing.email", "pay@acme.example")))
	lasts := w.returned("crm", triple("acme", "phone", "1"))
	lasts.ValidUntil = w.now.Add(30 * time.Minute)
	w.put("phone", lasts)
	key := w.key("boss", "*")
	d := w.restedLong([]string{"email", "phone"})
	w.approve(key, d.HoldID)
	if _, said := w.why(d.HoldID); said.Blocked || said.Call.Worthless {
		t.Errorf("%+v", said)
	}
	w.now = w.now.Add(30 * time.Minute)
	if steps, said := w.why(d.HoldID); !said.Blocked || !said.Call.Worthless || !strings.HasPrefix(steps, "confirm ") {
		t.Errorf("%s: %+v", steps, said)
	}
	if next := w.restedLong([]string{"email", "phone"}); !next.Has(gate.ApprovalStale) {
		t.Errorf("%v", next.Err())
	}
}

// restedLong is [world.rested] of a call that is not parked, so that it waits for an hour.
func (w *world) restedLong(direct []string) gate.Decision {
	w.t.Helper()
	return w.ask(gate.StateChanging, "book", `{"day":9}`, direct...)
}

// TestACallShowsTheCodesThatHoldItNow, and not those that it was held for.
func TestACallShowsTheCodesThatHoldItNow(t *testing.T) {
	w := newWorld(t)
	key := w.key("boss", "*")
	w.put("phone", w.returned("crm", triple("acme", "phone", "1")))
	w.put("email", said(triple("acme", "billing.email", "pay@acme.example")))
	if d := w.ask(gate.StateChanging, "book", `{"day":9}`, "phone"); d.Blocked() { // how it ends nobody records
		t.Fatal(d.Err())
	}
	d := w.ask(gate.StateChanging, "book", `{"day":9}`, "phone", "email")
	for _, c := range []struct {
		then  func()
		codes string
		steps string
	}{
		{func() {}, "outcome_unknown, unverified_input", "settle; and confirm email; or approve"},
		{func() {
			if r := w.after(10*time.Minute, "call", "settle", d.HoldID, "--not-done", "--key", key, "--as", "boss", "--reason", "I looked"); r.code != exitDone {
				t.Fatalf("exit %d\n%s", r.code, r.talk)
			}
		}, "unverified_input", "confirm email; or approve"},
		{func() { w.says(key, "hide", "phone") }, "not_retrievable, unverified_input", "expose phone; and confirm email; " + noApproval},
		{func() { w.says(key, "expose", "phone") }, "unverified_input", "confirm email; " + asksAnew},
	} {
		c.then()
		steps, said := w.why(d.HoldID)
		var codes []string
		for _, r := range said.Reasons {
			code, _, _ := strings.Cut(strings.TrimPrefix(r, "now "), ":")
			codes = append(codes, code)
		}
		if got := strings.Join(codes, ", "); got != c.codes || steps != c.steps || strings.Join(said.Call.Now, ", ") != c.codes {
			t.Errorf("%s: %s\nwant %s: %s", got, steps, c.codes, c.steps)
		}
		list, show := w.soon("call", "list").out, w.soon("call", "show", d.HoldID).out
		if said.Call.Denied == "" && !strings.Contains(list, "  "+c.codes+"\n") || strings.Contains(list, "outcome_unknown") != strings.HasPrefix(c.codes, "outcome_unknown") || strings.Contains(show, "outcome_unknown:") != strings.HasPrefix(c.codes, "outcome_unknown") {
			t.Errorf("%s\n%s", list, show)
		}
	}
}

// TestACallWhoseHoldIsOverIsJudgedAsItStandsNow: of a parked call that was denied, or of one that
// nobody decided about in time, the agent may ask again; or the same call was made since.
func TestACallWhoseHoldIsOverIsJudgedAsItStandsNow(t *testing.T) {
	const (
		gone   = "what stood in its way is gone: the agent asks again, and it is decided afresh"
		decide = "or the agent asks again; it is decided afresh, and a person may approve that call"
	)
	rows := []string{"email"}
	denied := func(w *world, key, hold string) {
		w.says(key, "quarantine", "email")
		if d := w.resumed(hold, rows, nil); d.Outcome != gate.Deny {
			w.t.Fatal(d.Err())
		}
	}
	freed := func(w *world, key, hold string) {
		denied(w, key, hold)
		w.says(key, "release", "email")
		w.says(key, "confirm", "email")
	}
	fires := func(w *world) {
		if err := w.store.RecordOutcome(w.t.Context(), w.rested(rows, nil).ID, memory.CallDone, ""); err != nil {
			w.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		then     func(w *world, key, hold string)
		standing string
		steps    string
		blocked  bool
		release  string
		reason   string // how the last reason begins
	}{
		"denied": {then: denied, standing: "stale", steps: "release email; then confirm email; " + noApproval, blocked: true, release: "with_step", reason: "now quarantined_input"},
		"denied, and its row released": {then: func(w *world, key, hold string) { denied(w, key, hold); w.says(key, "release", "email") },
			standing: "stale", steps: "confirm email; " + decide, blocked: true, release: "with_step", reason: "stale: its parked call was denied"},
		"denied, and its row released and verified": {then: freed, standing: "stale", steps: gone, release: "ask_again", reason: "stale: its parked call was denied"},
		"denied for a row that its run read since": {then: func(w *world, key, hold string) {
			w.put("phone", said(triple("acme", "phone", "1")))
			w.says(key, "quarantine", "phone")
			w.says(key, "confirm", "email")
			if d := w.resumed(hold, []string{"email", "phone"}, nil); d.Outcome != gate.Deny {
				w.t.Fatal(d.Err())
			}
		}, standing: "stale", steps: "release phone; then confirm phone; " + noApproval, blocked: true, release: "with_step", reason: "now quarantined_input"},
		"denied for a row that its run read since, which is verified now": {then: func(w *world, key, hold string) {
			w.put("phone", said(triple("acme", "phone", "1")))
			w.says(key, "quarantine", "phone")
			w.says(key, "confirm", "email")
			if d := w.resumed(hold, []string{"email", "phone"}, nil); d.Outcome != gate.Deny {
				w.t.Fatal(d.Err())
			}
			w.says(key, "release", "phone")
			w.says(key, "confirm", "phone")
		}, standing: "stale", steps: gone, release: "ask_again", reason: "stale: its parked call was denied"},
		"denied, and held again": {then: func(w *world, key, hold string) {
			denied(w, key, hold)
			w.says(key, "release", "email")
			w.rested(rows, nil)
		}, standing: "stale", steps: "why", blocked: true, release: "with_step", reason: "stale: its parked call was denied"},
		"denied, and made since": {then: func(w *world, key, hold string) {
			freed(w, key, hold)
			fires(w)
		}, standing: "stale", reason: "the same call was let through since, by blk_"},
		"denied, and made since on an approval": {then: func(w *world, key, hold string) {
			denied(w, key, hold)
			w.says(key, "release", "email")
			w.approve(key, w.rested(rows, nil).HoldID)
			fires(w)
		}, standing: "stale", reason: "the same call was let through since, by blk_"},
		"denied, and made since, and nobody knows how that ended": {then: func(w *world, key, hold string) {
			freed(w, key, hold)
			w.rested(rows, nil)
		}, standing: "stale", steps: "settle", release: "settle", reason: "the same call was let through since, by blk_"},
		"denied, and its run has ended": {then: func(w *world, key, hold string) {
			denied(w, key, hold)
			if err := w.store.EndRun(w.t.Context(), "ses_91"); err != nil {
				w.t.Fatal(err)
			}
		}, standing: "stale", steps: "release email; then confirm email; then its run has ended: the agent asks in a new run, and it is decided afresh", blocked: true, release: "with_step", reason: "now quarantined_input"},
		"over": {then: func(w *world, _, _ string) { w.now = w.now.Add(time.Hour) },
			standing: "expired", steps: "confirm email; " + decide, blocked: true, release: "with_step", reason: "unverified_input"},
		"over, and its row verified": {then: func(w *world, key, _ string) { w.now = w.now.Add(time.Hour); w.says(key, "confirm", "email") },
			standing: "expired", steps: gone, release: "ask_again", reason: "unverified_input"},
		"refused": {then: func(w *world, key, hold string) {
			if r := w.soon("call", "reject", hold, "--key", key, "--as", "boss", "--reason", "no"); r.code != exitDone {
				w.t.Fatalf("exit %d\n%s", r.code, r.talk)
			}
		}, standing: "rejected", blocked: true, release: "never", reason: "approval_rejected: boss refused it"},
		"refused more than a day ago": {then: func(w *world, key, hold string) {
			if r := w.soon("call", "reject", hold, "--key", key, "--as", "boss", "--reason", "no"); r.code != exitDone {
				w.t.Fatalf("exit %d\n%s", r.code, r.talk)
			}
			w.now = w.now.Add(25 * time.Hour)
		}, standing: "rejected", steps: "confirm email; " + decide, blocked: true, release: "with_step", reason: "approval_rejected: boss refused it"},
		"approved, and its row moved before it was made": {then: func(w *world, key, hold string) {
			w.approve(key, hold)
			w.says(key, "hide", "email")
			w.says(key, "expose", "email")
			w.rested(rows, nil)
		}, standing: "stale", steps: "why", blocked: true, release: "with_step", reason: "stale: row mem_"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put("email", said(triple("acme", "billing.email", "pay@acme.example")))
			key := w.key("boss", "*")
			d := w.rested(rows, nil)
			c.then(w, key, d.HoldID)
			steps, said := w.why(d.HoldID)
			if steps != c.steps || said.Blocked != c.blocked || said.Release != c.release || said.Standing != c.standing || len(said.Reasons) == 0 || !strings.HasPrefix(said.Reasons[len(said.Reasons)-1], c.reason) {
				t.Errorf("%+v\n%s\nwant %s", said, steps, c.steps)
			}
			if r := w.soon("call", "why", d.HoldID); c.steps != "" && !strings.Contains(r.out, "\nrelease ") {
				t.Errorf("no step is shown\n%s", r.out)
			}
			if c.steps == gone {
				if next := w.rested(rows, nil); next.Blocked() {
					t.Errorf("%v", next.Err())
				}
			}
		})
	}
}

// TestADeniedCallNamesTheStepsOfAHeldOne: they free it, and once they are done none is named.
func TestADeniedCallNamesTheStepsOfAHeldOne(t *testing.T) {
	const (
		gone     = "what stood in its way is gone: the agent asks again, and it is decided afresh"
		decide   = "or the agent asks again; it is decided afresh, and a person may approve that call"
		rejected = "row email was rejected: the agent asks in a new run that does not rest on it"
	)
	one := func(w *world) { w.put("email", said(triple("acme", "billing.email", "pay@acme.example"))) }
	made := func(w *world) {
		w.put("mail", said(memory.Content{Text: "a stranger's mail"}))
		w.put("email", said(triple("acme", "billing.email", "pay@acme.example"), w.ids["mail"]))
	}
	secret := func(w *world) {
		d := said(triple("acme", "billing.email", "pay@acme.example"))
		d.Sensitivity = memory.SensitivitySecret
		w.put("email", d)
	}
	for name, c := range map[string]struct {
		rows      func(w *world)
		ancestors []string
		before    func(w *world, key string)
		steps     []string // of the call, and after each of done
		done      []string
	}{
		"an attack": {rows: one, before: func(w *world, _ string) { w.attack("email") },
			steps: []string{"acquit email; then release email; then confirm email; " + noApproval, "release email; then confirm email; " + noApproval, "confirm email; " + decide, gone},
			done:  []string{"acquit email", "release email", "confirm email"}},
		"quarantined and hidden": {rows: one, before: func(w *world, key string) { w.says(key, "hide", "email"); w.says(key, "quarantine", "email") },
			steps: []string{"release email; then expose email; then confirm email; " + noApproval, "expose email; then confirm email; " + noApproval, "confirm email; " + decide, gone},
			done:  []string{"release email", "expose email", "confirm email"}},
		"contradicted": {rows: one, before: func(w *world, key string) { w.says(key, "contradict", "email") },
			steps: []string{rejected}},
		"rejected": {rows: one, before: func(w *world, key string) { w.says(key, "reject", "email") },
			steps: []string{rejected}},
		"made from a row under quarantine": {rows: made, ancestors: []string{"mail"}, before: func(w *world, key string) { w.says(key, "quarantine", "mail") },
			steps: []string{"release mail; and confirm email; " + noApproval, "confirm email; " + decide, gone}, done: []string{"release mail", "confirm email"}},
		"hidden, and under quarantine since": {rows: one, before: func(w *world, key string) { w.says(key, "hide", "email") },
			steps: []string{"expose email; then confirm email; " + noApproval, "release email; then expose email; then confirm email; " + noApproval}, done: []string{"quarantine email"}},
		"too secret": {rows: secret, before: func(*world, string) {},
			steps: []string{"row email is more secret than the tool may be given: the agent asks in a new run that does not rest on it, or the tool's ceiling is raised; " + noApproval}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.rows(w)
			key := w.key("boss", "*")
			c.before(w, key)
			d := w.rested([]string{"email"}, c.ancestors)
			if d.Outcome != gate.Deny {
				t.Fatalf("%+v", d)
			}
			for i, want := range c.steps {
				if i > 0 {
					verb, row, _ := strings.Cut(c.done[i-1], " ")
					w.says(key, verb, row)
				}
				if steps, said := w.why(d.ID); steps != want || said.Blocked != (want != gone) {
					t.Errorf("%s\nwant %s", steps, want)
				}
			}
			if c.steps[len(c.steps)-1] != gone {
				return
			}
			if next := w.rested([]string{"email"}, c.ancestors); next.Blocked() {
				t.Errorf("every step is done, and it is blocked: %v", next.Err())
			}
		})
	}
}

// TestADenialThatIsNoRowsFaultStands whatever becomes of the rows.
func TestADenialThatIsNoRowsFaultStands(t *testing.T) {
	w := newWorld(t)
	w.put("email", said(triple("acme", "billing.email", "pay@acme.example")))
	w.now = w.now.Add(time.Minute)
	g, err := gate.New(w.store, gate.Policy{Name: "prod", Version: "7", Declared: true}, &gate.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	d := g.Decide(t.Context(), gate.Request{Contract: gate.Contract{Tool: "book", Effect: gate.StateChanging}, Args: []byte(`{}`), Agent: "support-1", Run: "ses_91", Principal: "ana",
		Lineage: gate.Partial("a text", []memory.ID{w.ids["email"]}, nil)})
	const lineage = "a person does what docs/why-blocked.md says of lineage_unknown"
	if steps, said := w.why(d.ID); steps != "confirm email; and "+lineage+"; "+noApproval || !said.Blocked {
		t.Errorf("%s", steps)
	}
	w.says(w.key("boss", "*"), "confirm", "email")
	if steps, said := w.why(d.ID); steps != lineage+"; "+noApproval || !said.Blocked {
		t.Errorf("%s", steps)
	}
}

// TestACallThatWasDoneBeforeIsHeldForThatOnlyIfItsToolIsDeclared: an approval is what lets it be
// made once more, and of an undeclared tool it holds nothing.
func TestACallThatWasDoneBeforeIsHeldForThatOnlyIfItsToolIsDeclared(t *testing.T) {
	for undeclared, c := range map[bool]struct{ codes, steps string }{
		false: {"already_done, unverified_input", "approve"},
		true:  {"unverified_input", "confirm email; or approve"},
	} {
		w := newWorld(t)
		w.put("phone", w.returned("crm", triple("acme", "phone", "1")))
		w.put("email", said(triple("acme", "billing.email", "pay@acme.example")))
		ask := func(row string) gate.Decision {
			w.now = w.now.Add(time.Minute)
			g, err := gate.New(w.store, gate.Policy{Name: "prod", Version: "7", Declared: true}, &gate.Options{Timeout: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			return g.Decide(t.Context(), gate.Request{Contract: gate.Contract{Tool: "send", Effect: gate.Irreversible, Undeclared: undeclared}, Args: []byte(`{}`), Agent: "support-1", Run: "ses_91", Principal: "ana",
				Lineage: gate.Known([]memory.ID{w.ids[row]}, nil)})
		}
		d := ask("phone")
		if d.Blocked() {
			t.Fatal(d.Err())
		}
		if err := w.store.RecordOutcome(t.Context(), d.ID, memory.CallDone, ""); err != nil {
			t.Fatal(err)
		}
		d = ask("email")
		if steps, said := w.why(d.HoldID); steps != c.steps || strings.Join(said.Call.Now, ", ") != c.codes {
			t.Errorf("undeclared %v: %q: %s", undeclared, said.Call.Now, steps)
		}
	}
}
