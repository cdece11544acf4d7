package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/visible"
)

// ask has an agent ask the gate for a call on named rows, a minute after the last
// write.
func (w *world) ask(effect gate.Effect, tool, args string, names ...string) gate.Decision {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	o := &gate.Options{}
	if path := w.env["HEARSAY_TRUSTED_KEYS"]; path != "" {
		keys, err := confirm.LoadKeyring(path)
		if err != nil {
			w.t.Fatal(err)
		}
		o.Approvals = keys
	}
	g, err := gate.New(w.store, gate.Policy{Name: "prod", Version: "7", Declared: true, Tools: map[string]gate.Rule{"wipe": {Never: true, Why: "nobody wipes"}}}, o)
	if err != nil {
		w.t.Fatal(err)
	}
	var rows []memory.ID
	for _, n := range names {
		rows = append(rows, w.ids[n])
	}
	r := gate.Request{Contract: gate.Contract{Tool: tool, Effect: effect}, Args: []byte(args),
		Agent: "support-1", Run: "ses_91", Principal: "ana", Lineage: gate.Known(rows, nil)}
	if effect == gate.Irreversible { // whom it is sent to is from the first row
		r.Contract.Sinks, r.Sinks = []string{"/to"}, []gate.Sink{{Pointer: "/to", Source: gate.SourceRow, Row: rows[0]}}
	}
	d := g.Decide(w.t.Context(), r)
	if d.Fault {
		w.t.Fatal(d.Err())
	}
	w.blk = append(w.blk, d.ID)
	return d
}

const mailArgs = `{"body":"Invoice 1180","cc":[],"n":9007199254740992,"to":"pay@acme.example"}`

// desk has three calls that wait, two of them for one row.
func desk(t *testing.T) (w *world, mail, book gate.Decision) {
	w = newWorld(t)
	w.put("address", w.returned("crm", triple("acme", "address", "1 Main St")))
	w.put("email", said(triple("acme", "billing.email", "pay@acme.example"), w.ids["address"]))
	w.put("note", said(memory.Content{Text: "Acme pays late"}, w.ids["email"]))
	mail = w.ask(gate.Irreversible, "send_email", mailArgs, "email")
	book = w.ask(gate.StateChanging, "book", `{}`, "email", "note")
	w.ask(gate.StateChanging, "book", `{"day":2}`, "note")
	w.ask(gate.Irreversible, "send_email", mailArgs, "email")
	if !mail.Blocked() || !book.Blocked() {
		t.Fatal(mail.Err(), book.Err())
	}
	return w, mail, book
}

var hex64 = regexp.MustCompile(`"(slot|binding)": "[0-9a-f]{64}"`)

func (w *world) soon(args ...string) result { return w.after(5*time.Minute, args...) }

func TestCallTables(t *testing.T) {
	w, mail, _ := desk(t)
	never := w.ask(gate.ReadOnly, "wipe", `{}`)
	policy := filepath.Join(filepath.Dir(w.path), "policy.json")
	if err := os.WriteFile(policy, []byte("{\n \"tools\": {\n  \"x\": {},\n  \"send_email\": {}\n }\n}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		code int
		args []string
	}{
		"call_list":        {0, []string{"call", "list"}},
		"call_list_json":   {0, []string{"call", "list", "--tool", "send_email", "-o", "json"}},
		"call_list_ndjson": {0, []string{"call", "list", "--limit", "2", "-o", "ndjson"}},
		"call_list_id":     {0, []string{"call", "list", "--row", string(w.ids["note"]), "-o", "id"}},
		"call_by_row":      {0, []string{"call", "list", "--by-row"}},
		"call_by_row_json": {0, []string{"call", "list", "--by-row", "-o", "json"}},
		"call_show":        {0, []string{"call", "show", mail.HoldID}},
		"call_why":         {exitNo, []string{"call", "why", mail.HoldID[20:]}},
		"call_why_policy":  {exitNo, []string{"call", "why", mail.HoldID, "--policy", policy}},
		"call_why_json":    {exitNo, []string{"call", "why", mail.HoldID, "-o", "json", "--depth", "1"}},
		"call_why_never":   {exitNo, []string{"call", "why", never.ID}},
	} {
		t.Run(name+" prints its golden file", func(t *testing.T) {
			w.t = t
			r := w.soon(c.args...)
			if r.code != c.code {
				t.Fatalf("exit %d\n%s", r.code, r.talk)
			}
			got := strings.ReplaceAll(hex64.ReplaceAllString(r.out, `"$1": "…"`), policy, "policy.json")
			got = regexp.MustCompile(`"(slot|binding)":"[0-9a-f]{64}"`).ReplaceAllString(got, `"$1":"…"`)
			if strings.HasSuffix(name, "_json") && !json.Valid([]byte(got)) {
				t.Errorf("no JSON:\n%s", got)
			}
			w.golden(name, got)
		})
	}
	t.Run("an attached call is found by the id of its decision", func(t *testing.T) {
		w.t = t
		if r := w.soon("call", "show", w.blk[3]); r.code != 0 || !strings.Contains(r.out, mail.HoldID) || !strings.Contains(r.out, "2 times") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("after an hour nothing is listed, and all of it is with --all", func(t *testing.T) {
		w.t = t
		if r := w.run("call", "list"); r.code != 0 || r.out != "" || !strings.Contains(r.talk, "no calls") {
			t.Errorf("%+v", r)
		}
		if r := w.run("call", "list", "--all"); strings.Count(r.out, "✗ expired") != 3 {
			t.Errorf("%+v", r)
		}
		if r := w.run("call", "why", mail.HoldID); r.code != exitNo || !strings.Contains(r.out, "the agent asks again") {
			t.Errorf("%+v", r)
		}
	})
	for name, c := range map[string]struct {
		code int
		args []string
	}{
		"an id that is none":         {exitUsage, []string{"call", "show", "x"}},
		"an id that is not there":    {exitNotFound, []string{"call", "show", "blk_" + strings.Repeat("v", 26)}},
		"an end of no id":            {exitNotFound, []string{"call", "why", "vvvvvvvv"}},
		"a decision of no hold":      {exitNotFound, []string{"call", "show", never.ID}},
		"a format that is none":      {exitUsage, []string{"call", "list", "-o", "xml"}},
		"a limit below nothing":      {exitUsage, []string{"call", "list", "--limit", "-1"}},
		"a policy that is not one":   {exitUsage, []string{"call", "why", mail.HoldID, "--policy", w.path}},
		"a policy that is not there": {exitNotFound, []string{"call", "why", mail.HoldID, "--policy", policy + "x"}},
	} {
		t.Run(name+" has its exit code", func(t *testing.T) {
			w.t = t
			if r := w.soon(c.args...); r.code != c.code || r.out != "" {
				t.Errorf("exit %d, want %d: %s%s", r.code, c.code, r.out, r.talk)
			}
		})
	}
}

func TestDecidingAboutACall(t *testing.T) {
	w, mail, book := desk(t)
	key := w.key("ana", "call:send_email")
	say := func(verb, id string, more ...string) result {
		return w.soon(append([]string{"call", verb, id, "--key", key, "--as", "ana", "--reason", "asked Acme by phone"}, more...)...)
	}
	h, err := w.store.Hold(t.Context(), mail.HoldID)
	if err != nil {
		t.Fatal(err)
	}
	seen := h.ArgsSHA256.String()[:8]
	t.Run("an approval needs the digits that only who saw the call knows", func(t *testing.T) {
		for _, digits := range []string{"", seen[:7], "00000000"} {
			if r := say("approve", mail.HoldID, "--args-sha256", digits); r.code != exitUsage || !strings.Contains(r.talk, `/n = 9007199254740992`) || !strings.Contains(r.talk, h.ArgsSHA256.String()) || r.out != "" {
				t.Errorf("%q: %+v", digits, r)
			}
		}
	})
	t.Run("a key without the scope may not, and writes nothing", func(t *testing.T) {
		held, err := w.store.Hold(t.Context(), book.HoldID)
		if err != nil {
			t.Fatal(err)
		}
		if r := say("approve", book.HoldID, "--args-sha256", held.ArgsSHA256.String()); r.code != exitNo || !strings.Contains(r.talk, "scope") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("approve, withdraw, approve: the call is made once", func(t *testing.T) {
		w.t = t
		r := say("approve", mail.HoldID, "--args-sha256", seen)
		if r.code != 0 {
			t.Fatal(r.talk)
		}
		w.golden("call_approve", r.out)
		if r := say("approve", mail.HoldID, "--args-sha256", seen); r.code != exitNo || !strings.Contains(r.talk, "approved by ana already") {
			t.Errorf("%+v", r)
		}
		if r := w.soon("call", "why", mail.HoldID); r.code != 0 || !strings.Contains(r.out, "granted") {
			t.Errorf("%+v", r)
		}
		if r := say("withdraw", mail.HoldID); r.code != 0 || !strings.Contains(r.out, "the call waits again") {
			t.Errorf("%+v", r)
		}
		if d := w.ask(gate.Irreversible, "send_email", mailArgs, "email"); !d.Has(gate.ApprovalWithdrawn) {
			t.Errorf("%v", d.Err())
		}
		var done decidedJSON
		if err := json.Unmarshal([]byte(say("approve", mail.HoldID, "--args-sha256", seen, "-o", "json").out), &done); err != nil || done.Call.State != memory.HoldGranted || done.Undo == "" {
			t.Errorf("%+v, %v", done, err)
		}
		w.now = w.now.Add(5 * time.Minute)
		if d := w.ask(gate.Irreversible, "send_email", mailArgs, "email"); d.Blocked() || d.Approval == nil || d.Approval.By != "ana" {
			t.Fatalf("%v", d.Err())
		}
		if r := say("withdraw", mail.HoldID); r.code != exitNo || !strings.Contains(r.talk, "used") {
			t.Errorf("%+v", r)
		}
		if r := w.soon("call", "list"); !strings.Contains(r.out, "⌛ unknown outcome") {
			t.Errorf("a call without an outcome is listed as\n%s", r.out)
		}
	})
	t.Run("reject tells the model why, and the call is final", func(t *testing.T) {
		w, mail, _ := desk(t)
		key := w.key("ana", "*")
		r := w.soon("call", "reject", mail.HoldID, "--key", key, "--as", "ana", "--reason", "wrong customer, ask sales first")
		if r.code != 0 || !strings.Contains(r.out, "rejected") {
			t.Fatalf("%+v", r)
		}
		w.now = w.now.Add(6 * time.Minute)
		d := w.ask(gate.Irreversible, "send_email", mailArgs, "email")
		if !d.Final() || !strings.Contains(d.ToolText(), `a person (ana) refused this call: "wrong customer, ask sales first"`) {
			t.Errorf("%s", d.ToolText())
		}
		if r := w.soon("call", "why", mail.HoldID); r.code != exitNo || !strings.Contains(r.out, "never: no step and no approval") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a row that moved makes an approval stale", func(t *testing.T) {
		w, mail, _ := desk(t)
		key := w.key("ana", "*")
		w.now = w.now.Add(10 * time.Minute)
		if r := w.soon("row", "confirm", string(w.ids["email"]), w.shown(string(w.ids["email"])), "--key", key, "--as", "ana", "--reason", "it is on the letter"); r.code != 0 {
			t.Fatal(r.talk)
		}
		if r := w.soon("call", "approve", mail.HoldID, "--args-sha256", seen, "--key", key, "--as", "ana", "--reason", "r"); r.code != exitChanged {
			t.Errorf("%+v", r)
		}
	})
	t.Run("without a key nothing is said", func(t *testing.T) {
		for _, verb := range []string{"approve", "withdraw", "reject"} {
			if r := w.soon("call", verb, book.HoldID, "--as", "ana", "--reason", "r"); r.code != exitUsage || !strings.Contains(r.talk, "hearsay keygen") {
				t.Errorf("%+v", r)
			}
		}
	})
}

func TestRejectWithABarrier(t *testing.T) {
	w := newWorld(t)
	w.put("address", w.returned("crm", triple("acme", "address", "1 Main St")))
	key := w.key("ana", "acme")
	fired := w.ask(gate.StateChanging, "post", `{}`, "address")
	if fired.Blocked() {
		t.Fatal(fired.Err())
	}
	full := []string{"row", "reject", string(w.ids["address"]), "--key", key, "--as", "ana", "--reason", "they moved", "--barrier"}
	r := w.soon(append(full, "20ms")...)
	if r.code != exitNo || !strings.Contains(r.talk, "the outcome of 1 call") {
		t.Fatalf("%+v", r)
	}
	w.golden("reject_barrier", r.out)
	if err := w.store.RecordOutcome(t.Context(), fired.ID, memory.CallDone, ""); err != nil {
		t.Fatal(err)
	}
	if r := w.soon(append(full, "10m")...); r.code != 0 || strings.Contains(r.out, "OPEN") || !strings.Contains(r.out, "DEPENDENT     1 call ran on it before") {
		t.Errorf("%+v", r)
	}
}

func TestHostileCall(t *testing.T) {
	w := enemy(t)
	args, err := json.Marshal(map[string]string{"to": hostile})
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := gate.Canonical(args)
	if err != nil {
		t.Fatal(err)
	}
	d := w.ask(gate.StateChanging, "t", string(canonical), "hostile", "child")
	for _, args := range [][]string{{"call", "list"}, {"call", "list", "--by-row"}, {"call", "show", d.HoldID}, {"call", "why", d.HoldID}} {
		for _, format := range []string{"table", "json"} {
			r := w.soon(append(args, "-o", format)...)
			if r.out == "" {
				t.Errorf("%q: %+v", args, r)
			}
			for _, c := range r.out + r.talk {
				if c != '\n' && c != ' ' && visible.Hidden(c) {
					t.Fatalf("%q: %U in the output:\n%q", args, c, r.out+r.talk)
				}
			}
		}
	}
}

func TestAConfirmationNamesTheCallsThatItFrees(t *testing.T) {
	w, mail, book := desk(t)
	key := w.key("boss", "*")
	email := string(w.ids["email"])
	if r := w.soon("row", "confirm", email, w.shown(email), "--key", key, "--as", "boss", "--reason", "it is on the letter"); r.code != 0 {
		t.Fatal(r.talk)
	} else if frees, held, ok := strings.Cut(r.out, "still held"); !ok || !strings.Contains(frees, mail.HoldID) || strings.Contains(frees, book.HoldID) ||
		!strings.Contains(held, book.HoldID) || !strings.Contains(held, "unverified_input") || strings.Count(r.out, mail.HoldID) != 1 {
		t.Errorf("it does not say which call it frees, once, and which it does not:\n%s", r.out)
	}
	list := w.soon("call", "list").out
	for _, line := range strings.Split(list, "\n") {
		if strings.Contains(line, mail.HoldID) != strings.Contains(line, "may ask again") {
			t.Errorf("the list is wrong about what held a call:\n%s", list)
		}
	}
	if r := w.soon("call", "why", mail.HoldID); r.code != exitDone || !strings.Contains(r.out, "what held it is gone") || strings.Contains(r.out, "row confirm") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	if r := w.soon("call", "why", book.HoldID); r.code != exitNo || strings.Contains(r.out, "confirm "+email) || !strings.Contains(r.out, "confirm "+string(w.ids["note"])) || !strings.Contains(r.out, "approved no more") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	h, err := w.store.Hold(t.Context(), book.HoldID)
	if err != nil {
		t.Fatal(err)
	}
	if r := w.soon("call", "approve", book.HoldID, "--args-sha256", h.ArgsSHA256.String(), "--key", key, "--as", "boss", "--reason", "r"); r.code != exitChanged || !strings.Contains(r.talk, "When the agent asks again") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	again := w.ask(gate.Irreversible, "send_email", mailArgs, "email")
	if again.Blocked() {
		t.Errorf("what was said to be free is held: %v", again.Err())
	}
	if r := w.soon("call", "show", book.HoldID); !strings.Contains(r.out, "this run only") {
		t.Errorf("the card does not say for which run an approval counts:\n%s", r.out)
	}
}
