package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// observing decides as a gate does that only observes.
func (w *world) observing(effect gate.Effect, tool string, names ...string) gate.Decision {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	g, err := gate.New(w.store, gate.Policy{Name: "prod", Version: "7", Declared: true}, &gate.Options{Mode: gate.Observe})
	if err != nil {
		w.t.Fatal(err)
	}
	var rows []memory.ID
	for _, n := range names {
		rows = append(rows, w.ids[n])
	}
	return g.Decide(w.t.Context(), gate.Request{Contract: gate.Contract{Tool: tool, Effect: effect}, Args: fmt.Appendf(nil, `{"at":%d}`, w.now.Unix()), Agent: "support-1", Run: "ses_91", Principal: "ana", Lineage: gate.Known(rows, nil)})
}

func TestAReportCountsWhatAGateThatObservesWouldBlock(t *testing.T) {
	w := newWorld(t)
	w.put("email", said(triple("acme", "billing.email", "ops@acme.example")))
	w.put("address", w.returned("crm", triple("acme", "address", "1 Main St")))
	before := w.observing(gate.StateChanging, "book", "email")
	w.now = w.now.Add(48 * time.Hour)
	for range 2 {
		if d := w.observing(gate.StateChanging, "book", "email"); !d.Observed {
			t.Fatal(d.Err())
		}
	}
	if d := w.observing(gate.StateChanging, "book", "address"); d.Observed || d.Blocked() {
		t.Fatal(d.Err())
	}
	mail := w.observing(gate.Irreversible, "send_email", "email")
	if !mail.Blocked() {
		t.Fatal("what cannot be undone was let through")
	}
	var got observedJSON
	if err := json.Unmarshal([]byte(w.after(time.Minute, "observe", "report", "-o", "json").out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Calls != 5 || got.Permitted != 1 || got.Observed != 3 || got.Blocked != 1 {
		t.Errorf("%+v", got)
	}
	if r := got.Reasons[0]; r.Tool != "book" || r.Code != "unverified_input" || r.Observed != 3 || r.Blocked != 0 || r.Example == before.ID {
		t.Errorf("%+v", got.Reasons)
	}
	for _, r := range got.Reasons[1:] {
		if r.Tool != "send_email" || r.Blocked != 1 || r.Observed != 0 || r.Example != mail.ID {
			t.Errorf("%+v", r)
		}
	}
	if r := w.after(time.Minute, "observe", "report", "--since", "1d", "--tool", "book"); r.code != exitDone || !strings.Contains(r.talk, "3 calls decided: 1 permitted, 2 would have been blocked") ||
		!strings.Contains(r.out, "unverified_input") || strings.Contains(r.out, "send_email") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	for _, since := range []string{"yesterday", "-3h", "d", "1w"} {
		if r := w.run("observe", "report", "--since", since); r.code != exitUsage {
			t.Errorf("--since %s: exit %d\n%s", since, r.code, r.talk)
		}
	}

	t.Run("the calls that were made are listed with how they ended", func(t *testing.T) {
		if err := w.store.RecordOutcome(t.Context(), before.ID, memory.CallDone, ""); err != nil {
			t.Fatal(err)
		}
		var made firedJSON
		if err := json.Unmarshal([]byte(w.after(time.Minute, "call", "list", "--fired", "-o", "json").out), &made); err != nil {
			t.Fatal(err)
		}
		if len(made.Calls) != 4 || made.More {
			t.Errorf("%d calls: %+v", len(made.Calls), made)
		}
		oldest := made.Calls[len(made.Calls)-1]
		if oldest.ID != before.ID || oldest.Outcome != memory.CallDone.String() || !oldest.Observed || oldest.Agent != "support-1" || oldest.Principal != "ana" || len(oldest.Rows) != 1 || oldest.Rows[0] != w.ids["email"] {
			t.Errorf("%+v", oldest)
		}
		if r := w.after(time.Minute, "call", "list", "--fired", "--row", string(w.ids["address"])); strings.Count(r.out, "blk_") != 1 || !strings.Contains(r.out, "not known") {
			t.Errorf("by row:\n%s%s", r.out, r.talk)
		}
		if r := w.after(time.Minute, "call", "list", "--fired", "--limit", "1", "-o", "id"); strings.Count(r.out, "\n") != 1 {
			t.Errorf("ids:\n%s%s", r.out, r.talk)
		}
		if r := w.run("call", "list", "--fired", "--all"); r.code != exitUsage {
			t.Errorf("exit %d", r.code)
		}
	})
}

func TestMovesAreListedByWhoMadeThemAndWhatTheyAreAbout(t *testing.T) {
	w := newWorld(t)
	w.put("email", said(triple("acme", "billing.email", "ops@acme.example")))
	w.put("address", w.returned("crm", triple("acme", "address", "1 Main St")))
	early := w.now.Add(time.Second)
	w.now = w.now.Add(72 * time.Hour)
	w.apply("email", memory.TruthSupported, memory.RelationSupports, memory.RankTool, "erp")
	for args, want := range map[string][]string{
		"":                                      {"email", "address", "email"},
		"--tool crm":                            {"address"},
		"--run run-1":                           {"email", "email"},
		"--run run-2":                           {},
		"--tool crm --run run-1":                {},
		"--source erp":                          {"email"},
		"--by worker:test":                      {"email"},
		"--by worker:test --source crm":         {},
		"--authority probe":                     {"email"},
		"--authority system":                    {"email", "address"},
		"--since 1d":                            {"email"},
		"--until " + early.Format(time.RFC3339): {"email", "address"},
		"--authority system --tool crm":         {"address"},
	} {
		r := w.after(time.Minute, append([]string{"audit", "list", "-o", "json"}, strings.Fields(args)...)...)
		var got auditJSON
		if err := json.Unmarshal([]byte(r.out), &got); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, r.talk)
		}
		left := map[memory.ID]int{}
		for _, name := range want {
			left[w.ids[name]]++
		}
		for _, e := range got.Entries {
			left[e.Row]--
		}
		for id, n := range left {
			if n != 0 {
				t.Errorf("audit list %s: %d entries of %s too few", args, n, id)
			}
		}
	}
	if r := w.run("audit", "list", "--authority", "boss"); r.code != exitUsage || !strings.Contains(r.talk, "auto_observation") {
		t.Errorf("exit %d\n%s", r.code, r.talk)
	}
}
