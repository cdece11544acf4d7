package main

import (
	"strings"
	"testing"
)

func TestBenchRun(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		args []string
		code int
		out  string
		talk string
	}{
		"a scenario":              {[]string{"bench", "run", "--scenario", "C0", "--systems", "append"}, exitDone, "C0  control: no loop", ""},
		"an unknown scenario":     {[]string{"bench", "run", "--scenario", "S99"}, exitUsage, "", "no scenario"},
		"an argument too many":    {[]string{"bench", "run", "S1"}, exitUsage, "", "takes no argument"},
		"no command":              {[]string{"bench"}, exitUsage, "", "run"},
		"what it is and measures": {[]string{"bench", "run", "--help"}, exitDone, "--seeds", ""},
	} {
		if r := w.run(c.args...); r.code != c.code || !strings.Contains(r.out, c.out) || !strings.Contains(r.talk, c.talk) {
			t.Errorf("%s: exit %d\n%s\n%s", name, r.code, r.out, r.talk)
		}
	}
}
