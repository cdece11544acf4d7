package main

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory/audit/witnesshttp"
)

const (
	machineToken  = "the-token-that-every-machine-has-0123456789"
	recoveryToken = "the-token-of-whoever-recovers-a-store-0123456789"
)

// serving runs hearsay witness serve as a process of its own, and returns its URL, what
// kills it, and the lines that it said first.
func serving(t *testing.T, path, listen string) (url string, kill func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "witness", "serve", path, "--listen", listen)
	cmd.Env = []string{"HEARSAY_TEST_AS_PROGRAM=1", testmain.Mark(), witnesshttp.TokenVariable + "=" + machineToken, recoveryTokenVariable + "=" + recoveryToken}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	if !lines.Scan() {
		t.Fatal("it said nothing")
	}
	_, url, found := strings.Cut(lines.Text(), " on ")
	if !found {
		t.Fatal(lines.Text())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines.Scan() {
			if strings.Contains(lines.Text(), machineToken) {
				t.Error("the token is in its log")
			}
		}
		_ = cmd.Wait()
	}()
	kill = func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	t.Cleanup(kill)
	return url, kill
}

func TestMachinesShareAWitnessThroughItsServer(t *testing.T) {
	t.Parallel()
	w := office(t)
	path := filepath.Join(t.TempDir(), "witness")
	w.ok("witness", "create", path)
	url, kill := serving(t, path, "127.0.0.1:0")
	w.env["HEARSAY_WITNESS"], w.env[witnesshttp.TokenVariable] = url, machineToken
	key := w.key("cleo", "*")
	reject := func(row string) result {
		return w.process("row", "reject", string(w.ids[row]), "--key", key, "--as", "cleo", "--reason", "wrong")
	}
	show := func() (out witnessJSON) {
		t.Helper()
		r := w.process("witness", "show", "-o", "json")
		if err := json.Unmarshal([]byte(r.out), &out); err != nil {
			t.Fatalf("exit %d: %s%s", r.code, r.out, r.talk)
		}
		return out
	}
	if r := reject("address"); r.code != exitDone {
		t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
	if got := show(); !got.AtHand || got.Untold != 0 {
		t.Fatalf("%+v", got)
	}
	if r := w.process("doctor"); !strings.Contains(r.out, url) {
		t.Fatalf("doctor: %s%s", r.out, r.talk)
	}
	w.env["HEARSAY_WITNESS"] = path
	if r := reject("down"); r.code != exitFailed || !strings.Contains(r.talk, "served by another program") {
		t.Fatalf("the file beside its server: exit %d\n%s", r.code, r.talk)
	}
	w.env["HEARSAY_WITNESS"] = url
	w.env[witnesshttp.TokenVariable] = "not-" + machineToken
	if r := w.process("witness", "show"); r.code != exitUnreachable || !strings.Contains(r.talk, "refuses the token") || strings.Contains(r.talk, machineToken) {
		t.Fatalf("another token: exit %d\n%s", r.code, r.talk)
	}
	w.env[witnesshttp.TokenVariable] = machineToken
	kill()
	addr := strings.TrimPrefix(url, "http://")
	for _, args := range [][]string{{"erase", "--subject", "nobody"}, {"witness", "show"}} {
		if r := w.process(args...); r.code != exitUnreachable || !strings.Contains(r.talk, addr+" refused the connection") {
			t.Fatalf("%q while it is gone: exit %d\n%s", args, r.code, r.talk)
		}
	}
	if r := w.process("doctor"); !strings.Contains(r.out+r.talk, addr+" refused the connection") {
		t.Fatalf("doctor: %s%s", r.out, r.talk)
	}
	delete(w.env, "HEARSAY_WITNESS") // what takes trust away does not wait for it
	if r := reject("down"); r.code != exitFailed || !strings.Contains(r.talk, "not confirmed by the witness") {
		t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
	again, _ := serving(t, path, addr)
	w.env["HEARSAY_WITNESS"] = again
	if got := show(); got.Told != 1 || got.Untold != 0 {
		t.Fatalf("%+v", got)
	}
	w.env[witnesshttp.TokenVariable] = recoveryToken
	if r := w.process("store", "recover"); r.code != exitDone {
		t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
}

func TestWitnessServeRefusesWhatWouldShowItsToken(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "witness")
	w.ok("witness", "create", path)
	open := filepath.Join(dir, "open")
	if err := os.WriteFile(open, []byte(machineToken), 0o644); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]struct {
		token string
		args  []string
		code  int
		say   string
	}{
		"no token":                            {"", []string{path}, exitUsage, "no token"},
		"a short token":                       {"short", []string{path}, exitUsage, "32 characters"},
		"a file that others can read":         {"", []string{path, "--token-file", open}, exitUsage, "chmod 600"},
		"two tokens":                          {machineToken, []string{path, "--token-file", open}, exitUsage, "want one"},
		"all addresses":                       {machineToken, []string{path, "--listen", ":0"}, exitUsage, "--insecure-bind"},
		"an address of others":                {machineToken, []string{path, "--listen", "10.0.0.1:0"}, exitUsage, "--tls-cert"},
		"half an address":                     {machineToken, []string{path, "--listen", "8790"}, exitUsage, "HOST:PORT"},
		"half of TLS":                         {machineToken, []string{path, "--tls-cert", open}, exitUsage, "go together"},
		"a certificate that is none":          {machineToken, []string{path, "--tls-cert", open, "--tls-key", open}, exitUsage, "--tls-cert"},
		"a host with a port":                  {machineToken, []string{path, "--host", "a:1"}, exitUsage, "without a port"},
		"no file":                             {machineToken, []string{path + ".none"}, exitFailed, "witness create"},
		"an address that somebody else is at": {machineToken, []string{path, "--listen", taken.Addr().String()}, exitFailed, "in use"},
	} {
		w.env[witnesshttp.TokenVariable] = c.token
		r := w.run(append([]string{"witness", "serve"}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.talk, c.say) || strings.Contains(r.talk, machineToken) {
			t.Errorf("%s: exit %d\n%s", name, r.code, r.talk)
		}
	}
}
