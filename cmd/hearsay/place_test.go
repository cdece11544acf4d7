package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

func TestAQuarantineListsFirstWhatItHolds(t *testing.T) {
	w := newWorld(t)
	w.put("mail", said(triple("acme", "billing.email", "ops@acme.example")))
	child := w.put("child", said(memory.Content{Text: "write to ops"}, w.ids["mail"]))
	grandchild := w.put("grandchild", said(memory.Content{Text: "wrote to ops"}, child))
	w.put("other", said(memory.Content{Text: "nothing of it"}))
	key := w.key("boss", "*")
	mail := string(w.ids["mail"])
	r := w.run("row", "quarantine", mail, "--key", key, "--as", "boss", "--reason", "forged")
	if r.code != exitDone || !strings.Contains(r.talk, "2 rows are held with it") || !strings.Contains(r.talk, string(child)) || !strings.Contains(r.talk, string(grandchild)) ||
		strings.Contains(r.talk, string(w.ids["other"])) || !strings.Contains(r.out, "quarantined") || !strings.Contains(r.out, "hearsay row release "+mail) {
		t.Errorf("exit %d\n%s%s", r.code, r.talk, r.out)
	}
	if r := w.run("row", "quarantine", mail, "--key", key, "--as", "boss", "--reason", "forged"); r.code == exitDone {
		t.Errorf("twice:\n%s", r.out)
	}
	if r := w.run("row", "release", mail, "--key", key, "--as", "boss", "--reason", "it was genuine"); r.code != exitUsage || !strings.Contains(r.talk, "--shown-sha256") {
		t.Errorf("it was released unseen: exit %d\n%s%s", r.code, r.talk, r.out)
	}
	r = w.run("row", "release", mail, w.shown(mail), "--key", key, "--as", "boss", "--reason", "it was genuine", "-o", "json")
	var said statementJSON
	if err := json.Unmarshal([]byte(r.out), &said); err != nil || r.code != exitDone || len(said.Derived) != 2 || said.After.Security != memory.SecurityClean || said.Before.Security != memory.SecurityQuarantined {
		t.Errorf("%v, exit %d\n%s%s", err, r.code, r.talk, r.out)
	}
}

// What a model recalled and wrote down is restricted. That its claim is confirmed lets
// nobody act on it, and the way out is named where one asks.
func TestEveryPlaceARowIsKeptInHasAWayOut(t *testing.T) {
	w := newWorld(t)
	w.put("email", said(triple("acme", "billing.email", "ops@acme.example")))
	key := w.key("boss", "*")
	email := string(w.ids["email"])
	confirmed := []string{w.shown(email), "--key", key, "--as", "boss", "--reason", "it is on the letter"}
	if r := w.run("row", "restrict", email, "--key", key, "--as", "boss", "--reason", "not yet"); r.code != exitDone || !strings.Contains(r.out, "hearsay row expose "+email) {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	if r := w.run(append([]string{"row", "confirm", email}, confirmed...)...); r.code != exitDone {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	d := w.ask(gate.Irreversible, "send_email", mailArgs, "email")
	if !errors.Is(d.Err(), gate.ErrNotRetrievable) {
		t.Fatalf("%v", d.Err())
	}
	r := w.run("call", "why", d.ID)
	if !strings.Contains(r.out, "hearsay row expose "+email) {
		t.Errorf("the way out is not named:\n%s%s", r.out, r.talk)
	}
	for _, verb := range []string{"hide", "block", "expose"} {
		if r := w.run(append([]string{"row", verb, email, "--key", key, "--as", "boss", "--reason", "r"}, shownIf(w, verb, email)...)...); r.code != exitDone {
			t.Errorf("%s: exit %d\n%s%s", verb, r.code, r.out, r.talk)
		}
	}
	if d := w.ask(gate.Irreversible, "send_email", mailArgs, "email"); d.Blocked() {
		t.Errorf("the row is verified and exposed, and the call is blocked: %v", d.Err())
	}
}

func shownIf(w *world, verb, id string) []string {
	if verb == "expose" {
		return []string{w.shown(id)}
	}
	return nil
}
