package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestGateVet(t *testing.T) {
	doc, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, good, _ := strings.Cut(string(doc), "```json\n")
	good, _, _ = strings.Cut(good, "```")
	loose := strings.Replace(good, `"24h"`, `"48h"`, 1)
	vet := func(t *testing.T, text string, more ...string) (code int, out, talk string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "policy.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var o, e bytes.Buffer
		a := &app{out: &o, talk: &e, getenv: func(string) string { return "" }, now: time.Now}
		code = a.run(t.Context(), append([]string{"gate", "vet", path}, more...))
		return code, strings.ReplaceAll(o.String(), path, "policy.json"), e.String()
	}
	for name, c := range map[string]struct {
		text      string
		code      int
		out, talk string
	}{
		"the documented policy is without a finding": {good, exitDone, "", ""},
		"a limit that was loosened is found by its cases": {loose, exitNo,
			"policy.json:10: tools.send_email.max_age: no case comes out otherwise without it", "hearsay: 2 findings\n"},
		"a field that does not exist": {strings.Replace(good, `"ceiling": "public"`, `"cieling": "public"`, 1), exitUsage,
			"policy.json:8: tools.search.cieling: no such field", "not a policy: 1 mistakes"},
		"what is no JSON": {"tools:\n  pay: {}\n", exitUsage, "policy.json:1: not JSON\n", "not a policy: 1 mistakes"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, talk := vet(t, c.text)
			if code != c.code || !strings.HasPrefix(out, c.out) || c.out == "" && out != "" || !strings.Contains(talk, c.talk) || c.talk == "" && talk != "" {
				t.Errorf("exit %d\n%s%s", code, out, talk)
			}
		})
	}
	t.Run("as JSON", func(t *testing.T) {
		code, out, _ := vet(t, loose, "-o", "json")
		var got vetJSON
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitNo || got.Schema != "hearsay.vet/1" || !got.Policy || len(got.Findings) != 2 {
			t.Fatalf("exit %d, %v\n%s", code, err, out)
		}
		if f := got.Findings[1]; f.Field != "cases.7" || !strings.Contains(f.Text, "want held, and it is permitted") {
			t.Errorf("%+v", f)
		}
	})
	t.Run("a file that is not there", func(t *testing.T) {
		var e bytes.Buffer
		a := &app{out: &e, talk: &e, getenv: func(string) string { return "" }, now: time.Now}
		if code := a.run(t.Context(), []string{"gate", "vet", filepath.Join(t.TempDir(), "none.json")}); code != exitNotFound {
			t.Errorf("exit %d: %s", code, e.String())
		}
	})
}
