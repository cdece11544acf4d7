package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// TestACallOfWhichNobodyKnowsIsShownAndSettled, held before or not.
func TestACallOfWhichNobodyKnowsIsShownAndSettled(t *testing.T) {
	for _, done := range []bool{true, false} {
		w := newWorld(t)
		w.put("address", w.returned("crm", triple("acme", "address", "1 Main St")))
		key := w.key("cleo", "call:book")
		first := w.ask(gate.StateChanging, "book", `{"room":"blue"}`, "address")
		if first.Blocked() {
			t.Fatal(first.Err())
		}
		if r := w.after(time.Minute, "call", "list"); !strings.Contains(r.out, "→ fired") || !strings.Contains(r.out, first.ID) {
			t.Errorf("while it is made:\n%s%s", r.out, r.talk)
		}
		early := w.after(time.Minute, "call", "settle", first.ID, "--not-done", "--key", key, "--as", "cleo", "--reason", "no such booking")
		if early.code != exitNo || !strings.Contains(early.talk, "may still be at work") {
			t.Errorf("exit %d\n%s%s", early.code, early.out, early.talk)
		}
		w.now = w.now.Add(memory.UnknownAfter)
		held := w.ask(gate.StateChanging, "book", `{"room":"blue"}`, "address")
		if !errors.Is(held.Err(), gate.ErrOutcomeUnknown) {
			t.Fatal(held.Err())
		}
		list := w.soon("call", "list")
		if !strings.Contains(list.out, "⌛ unknown outcome") || !strings.Contains(list.out, first.ID) || !strings.Contains(list.out, "hearsay call settle") || !strings.Contains(list.out, held.HoldID) || !strings.Contains(list.out, "outcome_unknown") {
			t.Errorf("%s%s", list.out, list.talk)
		}
		if ids := w.soon("call", "list", "-o", "id"); ids.out != held.HoldID+"\n"+first.ID+"\n" {
			t.Errorf("%q", ids.out)
		}
		settle := "hearsay call settle " + first.ID
		for _, id := range []string{first.ID, first.ID[18:], held.HoldID} {
			if r := w.soon("call", "show", id); r.code != 0 || !strings.Contains(r.out, settle) {
				t.Errorf("%s: exit %d\n%s%s", id, r.code, r.out, r.talk)
			}
			r := w.soon("call", "why", id)
			if !strings.Contains(r.out, settle) || !strings.Contains(r.out, "outcome_unknown") || id == held.HoldID && r.code != exitNo {
				t.Errorf("%s: exit %d\n%s%s", id, r.code, r.out, r.talk)
			}
		}

		as := []string{"--key", key, "--as", "cleo", "--reason", "it is in the hotel's list"}
		verb := map[bool]string{true: "--done", false: "--not-done"}[done]
		for name, c := range map[string]struct {
			code int
			args []string
		}{
			"without a verb":        {exitUsage, append([]string{first.ID}, as...)},
			"with both":             {exitUsage, append([]string{first.ID, "--done", "--not-done"}, as...)},
			"without a key":         {exitUsage, []string{first.ID, verb, "--as", "cleo", "--reason", "r"}},
			"of a key of another":   {exitUsage, []string{first.ID, verb, "--key", w.key("dan", "call:pay"), "--as", "dan", "--reason", "r"}},
			"of a call that is not": {exitNotFound, append([]string{"blk_00000000000000000000000000", verb}, as...)},
		} {
			r := w.soon(append([]string{"call", "settle"}, c.args...)...)
			if name == "of a key of another" {
				if r.code == 0 || !strings.Contains(r.talk, "scope") {
					t.Errorf("%s: exit %d\n%s", name, r.code, r.talk)
				}
			} else if r.code != c.code {
				t.Errorf("%s: exit %d\n%s", name, r.code, r.talk)
			}
		}
		r := w.soon(append([]string{"call", "settle", held.HoldID, verb, "-o", "json"}, as...)...) // by the call that waits for it
		var said settledJSON
		if err := json.Unmarshal([]byte(r.out), &said); err != nil || r.code != 0 || said.ID != first.ID || said.Verb != verb[2:] || said.By != "cleo" {
			t.Fatalf("exit %d, %v\n%s%s", r.code, err, r.out, r.talk)
		}
		if r := w.soon(append([]string{"call", "settle", first.ID, verb}, as...)...); r.code != exitNo || !strings.Contains(r.talk, "is known") {
			t.Errorf("twice: exit %d\n%s", r.code, r.talk)
		}
		if r := w.soon("call", "list"); strings.Contains(r.out, first.ID) || strings.Contains(r.out, held.HoldID) == done {
			t.Errorf("done %t:\n%s", done, r.out)
		}
		if r := w.soon("call", "why", first.ID); r.code != 0 || !strings.Contains(r.out, "let through "+moment(first.At)) || !strings.Contains(r.out, ", settled ") || !strings.Contains(r.out, `by "cleo": "it is in the hotel's list"`) ||
			strings.HasPrefix(r.out, "✓ book") != done || strings.Contains(r.out, "the agent asks again") == done || strings.Contains(r.out, "its run says") {
			t.Errorf("done %t: exit %d\n%s%s", done, r.code, r.out, r.talk)
		}
		again := w.ask(gate.StateChanging, "book", `{"room":"blue"}`, "address")
		if done && (!errors.Is(again.Err(), gate.ErrApprovalRejected) || !strings.Contains(again.ToolText(), "it was done already: it is in the hotel's list")) || !done && again.Blocked() {
			t.Errorf("done %t: %v\n%s", done, again.Err(), again.ToolText())
		}
	}
}

// A call whose record was erased with a person's rows is settled while the same call waits,
// by the id of either.
func TestACallWhoseRecordWasErasedIsSettled(t *testing.T) {
	for name, c := range map[string]struct{ done, byHold bool }{
		"done, by the call that waits": {true, true}, "not done, by the erased one": {false, false},
	} {
		w := newWorld(t)
		w.put("eve", w.returned("crm", triple("eve", "room", "blue")))
		key := w.key("cleo", "call:book")
		first := w.ask(gate.StateChanging, "book", `{"room":"blue"}`, "eve")
		if first.Blocked() {
			t.Fatal(first.Err())
		}
		w.now = w.now.Add(memory.UnknownAfter)
		if _, err := w.store.Erase(t.Context(), memory.Erasure{Subject: "eve", Request: "R-1", Actor: "dpo"}); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(memory.UnknownAfter)
		verb := map[bool]string{true: "--done", false: "--not-done"}[c.done]
		as := []string{verb, "--key", key, "--as", "cleo", "--reason", "it is in the hotel's list"}
		if r := w.soon(append([]string{"call", "settle", first.ID}, as...)...); r.code != exitNo || !strings.Contains(r.talk, "asked for again") {
			t.Errorf("%s: nobody waits: exit %d\n%s", name, r.code, r.talk)
		}
		held := w.ask(gate.StateChanging, "book", `{"room":"blue"}`)
		if !errors.Is(held.Err(), gate.ErrOutcomeUnknown) {
			t.Fatal(held.Err())
		}
		if r := w.soon("call", "settle", held.HoldID, verb, "--key", w.key("dan", "call:pay"), "--as", "dan", "--reason", "r"); r.code == 0 || !strings.Contains(r.talk, "scope") {
			t.Errorf("%s: a key of another tool: exit %d\n%s", name, r.code, r.talk)
		}
		id := map[bool]string{true: held.HoldID, false: first.ID}[c.byHold]
		r := w.soon(append([]string{"call", "settle", id, "-o", "json"}, as...)...)
		var said settledJSON
		if err := json.Unmarshal([]byte(r.out), &said); err != nil || r.code != 0 || said.ID != first.ID || said.Tool != "book" || said.Run != "ses_91" {
			t.Fatalf("%s: exit %d, %v\n%s%s", name, r.code, err, r.out, r.talk)
		}
		again := w.ask(gate.StateChanging, "book", `{"room":"blue"}`)
		if c.done && !strings.Contains(again.ToolText(), "it was done already: it is in the hotel's list") || !c.done && again.Blocked() {
			t.Errorf("%s: %v\n%s", name, again.Err(), again.ToolText())
		}
		if r := w.soon("audit", "verify"); r.code != 0 {
			t.Errorf("%s: exit %d\n%s%s", name, r.code, r.out, r.talk)
		}
	}
}

// TestACallThatWaitsInARunThatHasEndedSaysWhatEndsTheDoubt.
func TestACallThatWaitsInARunThatHasEndedSaysWhatEndsTheDoubt(t *testing.T) {
	w := newWorld(t)
	w.put("address", w.returned("crm", triple("acme", "address", "1 Main St")))
	first := w.ask(gate.StateChanging, "book", `{"room":"blue"}`, "address")
	w.now = w.now.Add(memory.UnknownAfter)
	held := w.ask(gate.StateChanging, "book", `{"room":"blue"}`, "address")
	if !errors.Is(held.Err(), gate.ErrOutcomeUnknown) {
		t.Fatal(held.Err())
	}
	if err := w.store.EndRun(t.Context(), "ses_91"); err != nil {
		t.Fatal(err)
	}
	if r := w.soon("call", "list"); !strings.Contains(r.out, "outcome_unknown; its run has ended") {
		t.Errorf("%s", r.out)
	}
	if r := w.soon("call", "why", held.HoldID); r.code != exitNo || !strings.Contains(r.out, "hearsay call settle "+first.ID) || !strings.Contains(r.out, "its run has ended") {
		t.Errorf("exit %d\n%s", r.code, r.out)
	}
	if r := w.soon("call", "why", first.ID); !strings.HasPrefix(r.out, "? book") {
		t.Errorf("%s", r.out)
	}
}

// TestAnApprovalForARunThatHasEndedIsRefused, with what would help.
func TestAnApprovalForARunThatHasEndedIsRefused(t *testing.T) {
	w, mail, _ := desk(t)
	key := w.key("cleo", "call:*")
	if err := w.store.EndRun(t.Context(), "ses_91"); err != nil {
		t.Fatal(err)
	}
	if r := w.soon("call", "list", "--tool", "send_email"); !strings.Contains(r.out, "its run has ended") {
		t.Errorf("%s", r.out)
	}
	if r := w.soon("call", "why", mail.HoldID); r.code != exitNo || !strings.Contains(r.out, "its run has ended") || !strings.Contains(r.out, "hearsay call list --tool send_email\n") {
		t.Errorf("exit %d\n%s", r.code, r.out)
	}
	r := w.soon("call", "approve", mail.HoldID, "--args-sha256", mail.ArgsSHA256[:8], "--key", key, "--as", "cleo", "--reason", "asked")
	if r.code != exitNo || !strings.Contains(r.talk, "the run that asked for it has ended") || !strings.Contains(r.talk, "hearsay call list --tool send_email\n") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	if r := w.soon("call", "reject", mail.HoldID, "--key", key, "--as", "cleo", "--reason", "no"); r.code != 0 {
		t.Errorf("it cannot be refused: exit %d\n%s", r.code, r.talk)
	}
}
