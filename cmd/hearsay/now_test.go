package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// notes has an agent ask for a call that is the same one for each note about an order.
func (w *world) notes(args string, rows ...string) gate.Decision {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	g, err := gate.New(w.store, gate.Policy{Name: "prod", Version: "7", Declared: true}, &gate.Options{Timeout: time.Hour})
	if err != nil {
		w.t.Fatal(err)
	}
	var ids []memory.ID
	for _, n := range rows {
		ids = append(ids, w.ids[n])
	}
	return g.Decide(w.t.Context(), gate.Request{Contract: gate.Contract{Tool: "book", Effect: gate.StateChanging, Identity: []string{"/order"}}, Args: []byte(args),
		Agent: "support-1", Run: "ses_91", Principal: "ana", Lineage: gate.Known(ids, nil)})
}

// fires records that a call was done that is let through.
func (w *world) fires(d gate.Decision) gate.Decision {
	w.t.Helper()
	if d.Blocked() {
		w.t.Fatal(d.Err())
	}
	if err := w.store.RecordOutcome(w.t.Context(), d.ID, memory.CallDone, ""); err != nil {
		w.t.Fatal(err)
	}
	return d
}

// breakDecision changes the record of a decision behind the store's back.
func (w *world) breakDecision(id string) {
	w.t.Helper()
	key := ""
	for k, err := range w.store.Logs(w.t.Context()) {
		if err != nil {
			w.t.Fatal(err)
		}
		if memory.KeyText(k) == "decision/"+id {
			key = k
		}
	}
	w.below(func(d memory.Driver) {
		for o, err := range d.Objects(w.t.Context(), "default", key) {
			if err != nil {
				w.t.Fatal(err)
			}
			o.Data = slices.Clone(o.Data)
			o.Data[len(o.Data)-1] ^= 1
			w.restore(o)
			return
		}
		w.t.Fatalf("no decision %s", id)
	})
}

// TestACallThatWasMadeWhenItsHoldEndedIsNotAskedForAgain: the transaction that lets it through
// ends the hold. A record that cannot be read hides it only if it is its own.
func TestACallThatWasMadeWhenItsHoldEndedIsNotAskedForAgain(t *testing.T) {
	for name, c := range map[string]struct {
		breaks  func(w *world, made, other gate.Decision)
		code    int
		release string
		reason  string
		steps   string
	}{
		"all can be read":          {code: exitDone, reason: "the same call was let through since, by blk_"},
		"another one cannot be":    {breaks: func(w *world, _, other gate.Decision) { w.breakDecision(other.ID) }, code: exitDone, reason: "the same call was let through since, by blk_"},
		"its own record cannot be": {breaks: func(w *world, made, _ gate.Decision) { w.breakDecision(made.ID) }, code: exitNo, release: "with_step", reason: "it is not known whether the same call was made since", steps: "a person looks at the system that the tool changes: if the same call was made since, nothing is left to do; then the agent asks again if it was not made, and it is decided afresh"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put("email", said(triple("acme", "billing.email", "pay@acme.example")))
			w.put("phone", w.returned("crm", triple("acme", "phone", "1")))
			key := w.key("boss", "*")
			held := w.notes(`{"note":"a","order":7}`, "email")
			w.says(key, "confirm", "email")
			made := w.fires(w.notes(`{"note":"b","order":7}`, "email"))
			other := w.fires(w.notes(`{"note":"c","order":8}`, "phone"))
			if c.breaks != nil {
				c.breaks(w, made, other)
			}
			steps, said := w.why(held.HoldID)
			if r := w.soon("call", "why", held.HoldID); r.code != c.code || said.Release != c.release || steps != c.steps || !strings.HasPrefix(said.Reasons[len(said.Reasons)-1], c.reason) {
				t.Errorf("exit %d\n%s\n%s%s", r.code, steps, r.out, r.talk)
			}
		})
	}
}

// TestNobodyIsToldToConfirmWhatIsKnownToBeWrong, or one of two rows of which at most one is right.
func TestNobodyIsToldToConfirmWhatIsKnownToBeWrong(t *testing.T) {
	const (
		both     = "the run rests on both row right and row wrong, of which at most one is right: the agent asks in a new run that reads only the right one"
		rejected = "row wrong was rejected: the agent asks in a new run that does not rest on it"
		denied   = "verified row right says otherwise than row wrong: the agent asks in a new run that does not rest on it"
	)
	for name, c := range map[string]struct {
		said   []string // of which row what is said
		direct []string
		steps  string
		free   bool // a run that rests on the right row alone is let through
	}{
		"nobody has spoken":                   {direct: []string{"right", "wrong"}, steps: both + "; or approve"},
		"one is rejected, the other verified": {said: []string{"reject wrong", "confirm right"}, direct: []string{"right", "wrong"}, steps: rejected, free: true},
		"one is verified":                     {said: []string{"confirm right"}, direct: []string{"right", "wrong"}, steps: denied + "; " + asksAnew, free: true},
		"one is rejected":                     {said: []string{"reject wrong"}, direct: []string{"right", "wrong"}, steps: rejected + "; and confirm right; " + noApproval},
		"the verified one is not in the run":  {said: []string{"confirm right"}, direct: []string{"wrong"}, steps: denied + "; or approve", free: true},
		"a row between them":                  {direct: []string{"right", "email", "wrong"}, steps: both + "; and confirm email; or approve"},
		"three of them":                       {direct: []string{"right", "wrong", "third"}, steps: "the run rests on row right, row wrong and row third, of which at most one is right: the agent asks in a new run that reads only the right one; or approve"},
		"a subject may have many":             {direct: []string{"one", "many"}, steps: "confirm one; and confirm many; or approve"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for name, object := range map[string]string{"right": "555", "wrong": "777", "third": "999"} {
				w.put(name, said(triple("acme", "phone", object)))
			}
			w.put("email", said(triple("acme", "billing.email", "pay@acme.example")))
			for name, object := range map[string]string{"one": "red", "many": "blue"} {
				d := said(triple("acme", "colour", object))
				d.Content.Cardinality = memory.CardinalitySetValued
				w.put(name, d)
			}
			key := w.key("boss", "*")
			before := slices.Contains(c.direct, "right")
			d := gate.Decision{}
			if before {
				d = w.rested(c.direct, nil)
			}
			for _, word := range c.said {
				verb, row, _ := strings.Cut(word, " ")
				w.says(key, verb, row)
			}
			if !before {
				d = w.rested(c.direct, nil)
			}
			if steps, said := w.why(d.HoldID); steps != c.steps || !said.Blocked {
				t.Errorf("%s\nwant %s", steps, c.steps)
			}
			if next := w.rested([]string{"right"}, nil); next.Blocked() == c.free {
				t.Errorf("the right row alone: %v", next.Err())
			}
		})
	}
}

// TestTwoVerifiedRowsThatSayDifferentThingsAreSettledByAPerson who knows which is wrong: what the
// steps say in the end lets a call through that cannot be undone.
func TestTwoVerifiedRowsThatSayDifferentThingsAreSettledByAPerson(t *testing.T) {
	w := newWorld(t)
	w.put("crm", w.returned("crm", triple("acme", "phone", "555")))
	w.put("erp", w.returned("erp", triple("acme", "phone", "777")))
	key := w.key("boss", "*")
	d := w.ask(gate.Irreversible, "send", `{"to":"555"}`, "crm", "erp")
	if steps, _ := w.why(d.HoldID); steps != "row crm and row erp are both verified, and say different things: a person who knows rejects the wrong one (hearsay row reject); or approve" {
		t.Errorf("%s: %v", steps, d.Err())
	}
	w.says(key, "reject", "erp")
	if steps, _ := w.why(d.HoldID); steps != "row erp was rejected: the agent asks in a new run that does not rest on it; and confirm crm; "+noApproval {
		t.Errorf("one is rejected: %s", steps)
	}
	d = w.ask(gate.Irreversible, "send", `{"to":"555"}`, "crm")
	if steps, _ := w.why(d.ID); steps != "confirm crm; or approve" {
		t.Errorf("the other alone: %s", steps)
	}
	w.says(key, "confirm", "crm")
	if d = w.ask(gate.Irreversible, "send", `{"to":"555"}`, "crm"); d.Blocked() {
		t.Error(d.Err())
	}
}

// TestWhatAPersonSaidIsReadFromNoSource: only a row that a tool spoke for is read again.
func TestWhatAPersonSaidIsReadFromNoSource(t *testing.T) {
	w := newWorld(t)
	own := func(object string) memory.Draft {
		return memory.Draft{Content: triple("ana", "phone", object), Origin: memory.OriginUserAsserted, State: memory.StateVerified, Asserter: memory.Asserter{Principal: "ana"},
			Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankUser, Source: "user:ana", Verifier: "user:ana", Group: "user:ana", At: w.now}}}
	}
	w.put("old", own("1"))
	w.put("", own("2"))
	d := w.rested([]string{"old"}, nil)
	if steps, said := w.why(d.HoldID); steps != "row old was superseded: the agent asks in a new run that does not rest on it; or approve" {
		t.Errorf("%s %q", steps, said.Reasons)
	}
}

// TestTheWordOfWhomTheCallIsMadeForDeniesARow in her calls.
func TestTheWordOfWhomTheCallIsMadeForDeniesARow(t *testing.T) {
	w := newWorld(t)
	w.put("crm", w.returned("crm", triple("ana", "phone", "1")))
	w.put("own", memory.Draft{Content: triple("ana", "phone", "2"), Origin: memory.OriginUserAsserted, State: memory.StateVerified, Asserter: memory.Asserter{Principal: "ana"},
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankUser, Source: "user:ana", Verifier: "user:ana", Group: "user:ana", At: w.now}}})
	d := w.rested([]string{"crm"}, nil)
	if steps, said := w.why(d.ID); steps != "verified row own says otherwise than row crm: the agent asks in a new run that does not rest on it" || !said.Blocked {
		t.Errorf("%s %q: %v", steps, said.Reasons, d.Err())
	}
}

// TestARowThatSaidWhatHeldUntilATimeIsConfirmedByNobody: that does not make it hold now.
func TestARowThatSaidWhatHeldUntilATimeIsConfirmedByNobody(t *testing.T) {
	const past = "row email said what held until 2026-04-17 08:30:00: the run reads again what holds now, in a run that does not rest on it"
	w := newWorld(t)
	lasts := w.returned("crm", triple("acme", "billing.email", "pay@acme.example"))
	lasts.ValidUntil = epoch.Add(30 * time.Minute)
	w.put("email", lasts)
	w.now = epoch.Add(31 * time.Minute)
	d := w.restedLong([]string{"email"})
	if steps, _ := w.why(d.HoldID); steps != past+"; or approve" {
		t.Errorf("%s", steps)
	}
	w.says(w.key("boss", "*"), "confirm", "email")
	if steps, said := w.why(d.HoldID); steps != past+"; "+asksAnew || !said.Blocked {
		t.Errorf("confirmed: %s", steps)
	}
}

// TestAnApprovalIsWorthlessOnceAnotherRowStandsAgainstTheCall for the same reason.
func TestAnApprovalIsWorthlessOnceAnotherRowStandsAgainstTheCall(t *testing.T) {
	w := newWorld(t)
	for i, name := range []string{"email", "phone"} {
		d := w.returned("crm", triple("acme", name, "1"))
		d.ValidUntil = epoch.Add(time.Duration(30+30*i) * time.Minute)
		w.put(name, d)
	}
	key := w.key("boss", "*")
	w.now = epoch.Add(31 * time.Minute)
	d := w.restedLong([]string{"email", "phone"})
	w.approve(key, d.HoldID)
	if _, said := w.why(d.HoldID); said.Blocked || said.Call.Worthless {
		t.Errorf("%+v", said)
	}
	w.now = epoch.Add(61 * time.Minute)
	if steps, said := w.why(d.HoldID); !said.Blocked || !said.Call.Worthless {
		t.Errorf("%s: %q", steps, said.Call.Now)
	}
	if next := w.restedLong([]string{"email", "phone"}); !next.Has(gate.ApprovalStale) {
		t.Errorf("%v", next.Err())
	}
}

// TestTheRowsThatCallsWaitForAreThoseOfNow, not those of when they were held.
func TestTheRowsThatCallsWaitForAreThoseOfNow(t *testing.T) {
	w := newWorld(t)
	w.put("email", said(triple("acme", "billing.email", "pay@acme.example")))
	w.put("phone", w.returned("crm", triple("acme", "phone", "1")))
	w.put("note", said(memory.Content{Text: "Acme pays late"}))
	key := w.key("boss", "*")
	w.restedLong([]string{"email", "phone"})
	w.ask(gate.StateChanging, "post", `{}`, "note")
	listed := func() (names string) {
		var all []string
		for _, name := range []string{"email", "phone", "note"} {
			if strings.Contains(w.soon("call", "list", "--by-row").out, string(w.ids[name])) {
				all = append(all, name)
			}
		}
		return strings.Join(all, " ")
	}
	for _, c := range []struct{ verb, row, want string }{
		{"", "", "email note"},
		{"confirm", "note", "email"}, // its call is free
		{"quarantine", "phone", "email phone"},
		{"confirm", "email", "phone"},
		{"release", "phone", ""},
	} {
		if c.verb != "" {
			w.says(key, c.verb, c.row)
		}
		if got := listed(); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.verb, c.row, got, c.want)
		}
	}
}

// settle has a person say how a call ended.
func (w *world) settle(key, id, verb string) {
	w.t.Helper()
	if r := w.after(10*time.Minute, "call", "settle", id, verb, "--key", key, "--as", "boss", "--reason", "I looked"); r.code != exitDone {
		w.t.Fatalf("settle %s: exit %d\n%s", verb, r.code, r.talk)
	}
}

// TestADeniedCallSaysWhatBecameOfTheSameCall, before it and since.
func TestADeniedCallSaysWhatBecameOfTheSameCall(t *testing.T) {
	const (
		gone   = "what stood in its way is gone: the agent asks again, and it is decided afresh"
		decide = "or the agent asks again; it is decided afresh, and a person may approve that call"
	)
	asks := func(w *world, rows ...string) gate.Decision {
		return w.ask(gate.StateChanging, "book", `{"day":9}`, rows...)
	}
	mended := func(w *world, key string) {
		w.says(key, "release", "email")
		w.says(key, "confirm", "email")
	}
	ends := func(w *world) {
		if err := w.store.EndRun(w.t.Context(), "ses_91"); err != nil {
			w.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		before  func(w *world)
		then    func(w *world, key string, prior gate.Decision)
		steps   string
		blocked bool
		release string
	}{
		"nobody knows how it ended before": {before: func(w *world) { asks(w, "phone") }, steps: "settle; and release email; then confirm email; " + noApproval, blocked: true, release: "with_step"},
		"it was not done before": {before: func(w *world) { asks(w, "phone") }, then: func(w *world, key string, prior gate.Decision) { w.settle(key, prior.ID, "--not-done") },
			steps: "release email; then confirm email; " + noApproval, blocked: true, release: "with_step"},
		"its outcome came in, and its row is mended": {before: func(w *world) { asks(w, "phone") }, then: func(w *world, key string, prior gate.Decision) {
			if err := w.store.RecordOutcome(w.t.Context(), prior.ID, memory.CallDone, ""); err != nil {
				w.t.Fatal(err)
			}
			mended(w, key)
		}, steps: gone, release: "ask_again"},
		"it was made since": {then: func(w *world, key string, _ gate.Decision) { mended(w, key); w.fires(asks(w, "email")) }},
		"it was made since, and nobody knows how that ended": {then: func(w *world, key string, _ gate.Decision) { mended(w, key); asks(w, "email") }, steps: "settle", release: "settle"},
		"another one was made since": {then: func(w *world, key string, _ gate.Decision) {
			mended(w, key)
			w.fires(w.ask(gate.StateChanging, "book", `{"day":10}`, "email"))
		}, steps: gone, release: "ask_again"},
		"it is held since": {then: func(w *world, key string, _ gate.Decision) { w.says(key, "release", "email"); asks(w, "email") }, steps: "why", blocked: true, release: "with_step"},
		"its run has ended": {then: func(w *world, _ string, _ gate.Decision) { ends(w) },
			steps: "release email; then confirm email; then its run has ended: the agent asks in a new run, and it is decided afresh", blocked: true, release: "with_step"},
		"its run has ended, and its row is mended": {then: func(w *world, key string, _ gate.Decision) { mended(w, key); ends(w) },
			steps: "its run has ended: the agent asks in a new run, and it is decided afresh", blocked: true, release: "with_step"},
		"its run has ended, and its row is released": {then: func(w *world, key string, _ gate.Decision) { w.says(key, "release", "email"); ends(w) },
			steps: "list", blocked: true, release: "with_step"},
		"its row is released": {then: func(w *world, key string, _ gate.Decision) { w.says(key, "release", "email") }, steps: "confirm email; " + decide, blocked: true, release: "with_step"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put("phone", w.returned("crm", triple("acme", "phone", "1")))
			w.put("email", said(triple("acme", "billing.email", "pay@acme.example")))
			key := w.key("boss", "*")
			w.says(key, "quarantine", "email")
			prior := gate.Decision{}
			if c.before != nil {
				c.before(w)
				prior.ID = w.blk[0]
			}
			d := asks(w, "email")
			if d.Outcome != gate.Deny {
				t.Fatal(d.Err())
			}
			if c.then != nil {
				c.then(w, key, prior)
			}
			if steps, said := w.why(d.ID); steps != c.steps || said.Blocked != c.blocked || said.Release != c.release {
				t.Errorf("%s, blocked %v, %q\nwant %s", steps, said.Blocked, said.Release, c.steps)
			}
		})
	}
}

// TestADeniedCallThatWasDoneBeforeIsApprovedOnceMore, after what denies it is mended.
func TestADeniedCallThatWasDoneBeforeIsApprovedOnceMore(t *testing.T) {
	w := newWorld(t)
	w.put("phone", w.returned("crm", triple("acme", "phone", "1")))
	w.put("email", w.returned("crm", triple("acme", "billing.email", "pay@acme.example")))
	key := w.key("boss", "*")
	w.fires(w.ask(gate.Irreversible, "send", `{"to":"1"}`, "phone"))
	w.says(key, "quarantine", "email")
	d := w.ask(gate.Irreversible, "send", `{"to":"1"}`, "phone", "email")
	if d.Outcome != gate.Deny || !d.Has(gate.AlreadyDone) {
		t.Fatal(d.Err())
	}
	if steps, _ := w.why(d.ID); steps != "release email; then the agent asks again; the same call was done before, so a person has to approve it once more" {
		t.Errorf("%s", steps)
	}
	w.says(key, "release", "email")
	if steps, said := w.why(d.ID); steps != "the agent asks again; it is decided afresh, and a person may approve that call" || !said.Blocked {
		t.Errorf("%s", steps)
	}
	d = w.ask(gate.Irreversible, "send", `{"to":"1"}`, "phone", "email")
	if steps, _ := w.why(d.HoldID); steps != "approve" {
		t.Errorf("%s: %v", steps, d.Err())
	}
	w.approve(key, d.HoldID)
	if d = w.ask(gate.Irreversible, "send", `{"to":"1"}`, "phone", "email"); d.Blocked() {
		t.Error(d.Err())
	}
}

// TestAPrintedCommandHasTheFlagsThatWereGiven, and runs as it stands.
func TestAPrintedCommandHasTheFlagsThatWereGiven(t *testing.T) {
	w := newWorld(t)
	w.put("email", said(triple("acme", "billing.email", "pay@acme.example")))
	d := w.ask(gate.StateChanging, "book a room", `{}`, "email")
	for _, c := range []struct {
		env  map[string]string
		args []string
		want string // at the end of the command
	}{
		{map[string]string{"HEARSAY_STORE": "sqlite:" + w.path}, nil, " --reason TEXT --trusted-keys FILE"},
		{map[string]string{"HEARSAY_STORE": "sqlite:" + w.path, "HEARSAY_TRUSTED_KEYS": "trusted"}, nil, " --reason TEXT"},
		{map[string]string{"HEARSAY_TRUSTED_KEYS": "trusted"}, []string{"-store", "sqlite:" + w.path, "-tenant", "default"}, " --reason TEXT --store sqlite:" + w.path + " --tenant default"},
	} {
		w.env = c.env
		r := w.soon(append([]string{"call", "why", d.HoldID}, c.args...)...)
		if !strings.Contains(r.out, c.want+"  # DIGITS: as hearsay row show "+string(w.ids["email"])+" prints them\n") || strings.Count(r.out, "# DIGITS: as hearsay row show") != 1 {
			t.Errorf("want %s\n%s%s", c.want, r.out, r.talk)
		}
	}
	if err := w.store.EndRun(t.Context(), "ses_91"); err != nil {
		t.Fatal(err)
	}
	w.env = map[string]string{"HEARSAY_STORE": "sqlite:" + w.path}
	_, why := w.why(d.HoldID)
	if want := "hearsay call list --tool 'book a room'"; why.Steps[0].Command != want {
		t.Errorf("%q", why.Steps[0].Command)
	}
	if r := w.soon("call", "list", "--tool", "book a room"); r.code != exitDone || !strings.Contains(r.out, d.HoldID) {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	for url, want := range map[string]string{"postgres://app:secret@db/hearsay": " --store URL", "postgres://app@db/hearsay": " --store postgres://app@db/hearsay", "it's": ` --store 'it'\''s'`,
		"postgres://app@db/hearsay?password=secret": " --store URL", "host=db password=secret": " --store URL", "postgres://%zz@db": " --store URL", "sqlite:two  blanks.db": " --store 'sqlite:two  blanks.db'"} {
		if got := (&app{}).command(&storeFlags{url: url}, "", "hearsay"); got != "hearsay"+want {
			t.Errorf("%s", got)
		}
	}
}

// TestARowThatMayNotBeActedOnIsMarked, and its card names what ends that first.
func TestARowThatMayNotBeActedOnIsMarked(t *testing.T) {
	w := newWorld(t)
	w.put("email", w.returned("crm", triple("acme", "billing.email", "pay@acme.example")))
	w.put("note", memory.Draft{Content: memory.Content{Text: "Acme likes Vim"}, Origin: memory.OriginRecallReentry, State: memory.StateUnverified, Asserter: memory.Asserter{Principal: "ana", Model: "qwen3", Family: "qwen"}})
	key := w.key("boss", "*")
	for _, c := range []struct{ verb, row, mark, first string }{
		{"", "email", "✓ verified", "confirm"},
		{"hide", "email", "✗ hidden", "expose"},
		{"quarantine", "email", "✗ quarantined", "release"},
		{"release", "email", "✗ hidden", "expose"},
		{"expose", "email", "✓ verified", "confirm"},
		{"restrict", "email", "✗ restricted", "expose"},
		{"block", "email", "✗ blocked", "expose"},
		{"", "note", "~ recalled", "expose"},
	} {
		if c.verb != "" {
			w.says(key, c.verb, c.row)
		}
		id := string(w.ids[c.row])
		r := w.soon("row", "show", id)
		if !strings.Contains(w.soon("row", "list").out, c.mark) || !strings.Contains(r.out, c.mark) || !strings.Contains(r.talk, "to decide: hearsay row "+c.first+" "+id) {
			t.Errorf("%s %s: want %s, %s\n%s%s", c.verb, c.row, c.mark, c.first, r.out, r.talk)
		}
	}
}

// TestSettlingDoneTakesTheLastWordOnTheCallThatIsNamed, by its hold or by its own id, and leaves
// another one in doubt.
func TestSettlingDoneTakesTheLastWordOnTheCallThatIsNamed(t *testing.T) {
	w := newWorld(t)
	w.put("email", said(triple("acme", "billing.email", "pay@acme.example")))
	key := w.key("boss", "*")
	ask := func() gate.Decision { return w.ask(gate.StateChanging, "book", `{"day":9}`, "email") }
	is := func(what, id string, want memory.HoldState) {
		t.Helper()
		if d, err := w.store.Decision(t.Context(), id); err != nil || d.StateAt(w.now.Add(memory.UnknownAfter)) != want {
			t.Errorf("%s: %s, want %s, %v", what, d.StateAt(w.now), want, err)
		}
	}
	held := ask()
	w.says(key, "confirm", "email")
	freed := ask()
	if freed.Blocked() || freed.HoldID != held.HoldID {
		t.Fatalf("%+v", freed)
	}
	w.settle(key, held.HoldID, "--not-done")
	is("a held call, not done", freed.ID, memory.HoldFailed)
	w.settle(key, held.HoldID, "--done")
	is("a held call, done after all", freed.ID, memory.HoldDone)

	w.now = w.now.Add(20 * time.Minute)
	prior := ask()
	again := ask() // held, since nobody knows how that ended
	w.approve(key, again.HoldID)
	approved := ask()
	if prior.Blocked() || !again.Blocked() || approved.Blocked() || approved.HoldID != again.HoldID {
		t.Fatal(prior.Err(), again.Err(), approved.Err())
	}
	w.settle(key, approved.ID, "--not-done")
	w.settle(key, approved.ID, "--done")
	is("the call that is named", approved.ID, memory.HoldDone)
	is("the one in doubt", prior.ID, memory.HoldUnknown)
	w.settle(key, prior.ID, "--not-done")
	is("the one in doubt, named", prior.ID, memory.HoldFailed)
	is("the other one", approved.ID, memory.HoldDone)
}
