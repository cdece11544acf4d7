package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
)

// process runs the program as a process of its own.
func (w *world) process(args ...string) result {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(w.t.Context(), self, args...)
	cmd.Env = []string{"HEARSAY_TEST_AS_PROGRAM=1", testmain.Mark(), "HEARSAY_STORE=sqlite:" + w.path}
	for k, v := range w.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), talk.String()}
}

func TestProcess(t *testing.T) {
	w := office(t)
	key := w.key("ana", "acme")
	id := string(w.ids["down"])
	for _, c := range []struct {
		name string
		args []string
		code int
	}{
		{"a listing", []string{"row", "list"}, exitDone},
		{"a wrong flag", []string{"row", "list", "--bogus"}, exitUsage},
		{"no row", []string{"row", "show", "mem_" + strings.Repeat("v", 25) + "s"}, exitNotFound},
		{"a refusal", []string{"row", "confirm", id, w.shown(id), "--key", key, "--as", "bob", "--reason", "r"}, exitNo},
		{"no store", []string{"row", "list", "-store", "sqlite:" + w.path + ".none"}, exitUnreachable},
		{"a passed version", []string{"row", "confirm", id, w.shown(id), "--key", key, "--as", "ana", "--reason", "r", "--revision", "7"}, exitChanged},
	} {
		t.Run(fmt.Sprintf("%s ends with exit code %d", c.name, c.code), func(t *testing.T) {
			r := w.process(c.args...)
			if r.code != c.code || (r.out == "") != (c.code != 0) || strings.Contains(r.out+r.talk, "\x1b") {
				t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
			}
		})
	}
}

func TestTwoProcessesOnOneFile(t *testing.T) {
	w := office(t)
	key := w.key("ana", "acme")
	stop, wrote := make(chan struct{}), make(chan error, 1)
	go func() { // an agent that goes on writing
		for i := 0; ; i++ {
			select {
			case <-stop:
				wrote <- nil
				return
			default:
			}
			d := said(memory.Content{Text: fmt.Sprintf("remark %d of the agent", i), Cardinality: memory.CardinalityUnknown})
			d.Sensitivity = memory.SensitivityInternal
			if _, err := w.store.Put(t.Context(), d); err != nil {
				wrote <- err
				return
			}
		}
	}()
	t.Run("a listing in another process is whole JSON while rows are written", func(t *testing.T) {
		for range 3 {
			r := w.process("row", "list", "-o", "json", "--limit", "0")
			var got rowsOut
			if err := json.Unmarshal([]byte(r.out), &got); r.code != 0 || err != nil || len(got.Rows) < 8 {
				t.Fatalf("exit %d, %v, %d rows\n%s", r.code, err, len(got.Rows), r.talk)
			}
		}
	})
	t.Run("a confirmation in another process is seen here at once", func(t *testing.T) {
		r := w.process("row", "confirm", string(w.ids["down"]), w.shown(string(w.ids["down"])), "--key", key, "--as", "ana", "--reason", "seen it")
		if r.code != 0 {
			t.Fatalf("exit %d\n%s", r.code, r.talk)
		}
		if row := w.row("down"); row.State() != memory.StateVerified || row.Rank != memory.RankUser {
			t.Errorf("%s, rank %s", row.State(), row.Rank)
		}
	})
	t.Run("of many confirmations of one version, one is done and the others see a change", func(t *testing.T) {
		row := w.row("email")
		codes := make(chan int)
		const n = 4
		for range n {
			go func() {
				codes <- w.process("row", "reject", string(row.ID), "--key", key, "--as", "ana", "--reason", "old", "--revision", fmt.Sprint(row.Revision)).code
			}()
		}
		count := map[int]int{}
		for range n {
			count[<-codes]++
		}
		if count[exitDone] != 1 || count[exitChanged] != n-1 {
			t.Errorf("exit codes %v", count)
		}
	})
	close(stop)
	if err := <-wrote; err != nil {
		t.Errorf("the writer: %v", err)
	}
}
