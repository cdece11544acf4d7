package testmain

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type result int

func (r result) Run() int { return int(r) }

func TestAStopThatFailsAndAGoroutineThatIsLeftFailTheRun(t *testing.T) {
	flags(t)
	fine := func() error { return nil }
	for _, c := range []struct {
		name  string
		tests result
		stops []func() error
		left  bool
		want  int
	}{
		{"all is well", 0, []func() error{fine, fine}, false, 0},
		{"a test failed", 1, nil, false, 1},
		{"a test failed, and left a goroutine", 1, nil, true, 1},
		{"the first stop fails", 0, []func() error{func() error { return errors.New("it does not stop") }, fine}, false, 1},
		{"a goroutine is left", 0, []func() error{fine}, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			end, ended := make(chan struct{}), make(chan struct{})
			if c.left {
				go func() {
					defer close(ended)
					<-end
				}()
			} else {
				close(ended)
			}
			called := 0
			stops := make([]func() error, len(c.stops))
			for i, stop := range c.stops {
				stops[i] = func() error { called++; return stop() }
			}
			// The goroutines of the test itself, which is not over, are known to goleak.
			if got := run(c.tests, time.Millisecond, stops...); got != c.want || called != len(stops) {
				t.Errorf("exit code %d, %d stops called; want %d, %d", got, called, c.want, len(stops))
			}
			close(end)
			<-ended
		})
	}
}

func TestAGoroutineMayTakeItsTimeToEnd(t *testing.T) {
	end := make(chan struct{})
	go func() { <-end }()
	time.AfterFunc(2*time.Second, func() { close(end) }) // longer than goleak waits by itself
	if err := leak(time.Minute); err != nil {
		t.Error(err)
	}
}

// flags restores the flags that a test sets.
func flags(t *testing.T) {
	for _, name := range []string{seedFlag, checksFlag} {
		old := flag.Lookup(name).Value.String()
		t.Cleanup(func() { set(name, old) })
	}
}

func TestHowPropertyTestsDraw(t *testing.T) {
	flags(t)
	for _, c := range []struct {
		name         string
		full         bool
		given        []string // flags and variables
		seed, checks string
	}{
		{"in a plain run", false, nil, fixed, "9"},
		{"in a plain run, with a seed", false, []string{seedFlag}, "7", "9"},
		{"in a plain run, with a seed in the environment", false, []string{"RAPID_SEED"}, "7", "9"},
		{"in a plain run, with a number of draws", false, []string{checksFlag}, fixed, "9"},
		{"in a full run", true, nil, "7", "1000"},
		{"in a full run, with a number of draws in the environment", true, []string{"RAPID_CHECKS"}, "7", "9"},
		{"in a full run, with both", true, []string{seedFlag, checksFlag}, "7", "9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("RAPID_SEED", "")
			t.Setenv("RAPID_CHECKS", "")
			set(seedFlag, "7") // what rapid has read
			set(checksFlag, "9")
			given := map[string]bool{}
			for _, name := range c.given {
				if given[name] = true; strings.HasPrefix(name, "RAPID_") {
					t.Setenv(name, "1")
				}
			}
			draws(c.full, given)
			if seed, checks := flag.Lookup(seedFlag).Value.String(), flag.Lookup(checksFlag).Value.String(); seed != c.seed || checks != c.checks {
				t.Errorf("seed %s, %s draws; want %s and %s", seed, checks, c.seed, c.checks)
			}
		})
	}
}

func TestASeedDrawsOnceAndTheSame(t *testing.T) {
	var drawn []uint64
	for range 2 {
		t.Run("", func(t *testing.T) {
			Seed(t, 5)
			rapid.Check(t, func(t *rapid.T) { drawn = append(drawn, rapid.Uint64().Draw(t, "number")) })
		})
	}
	if len(drawn) != 2 || drawn[0] != drawn[1] {
		t.Errorf("drawn: %d", drawn)
	}
	if now := flag.Lookup(seedFlag).Value.String(); now == "5" {
		t.Error("the seed is set after the test")
	}
}

func TestEveryTestMainEndsWithRun(t *testing.T) {
	packages := 0
	err := filepath.WalkDir("../..", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil && dir != "../.." || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 || d.Name() == "testdata" {
			return fs.SkipDir // a module of its own, and no package
		}
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			return err
		}
		packages++
		runs := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			runs = runs || strings.Contains(string(text), "testmain.Run(m")
		}
		if !runs && filepath.Base(dir) != "testmain" {
			t.Errorf("%s: TestMain does not end with testmain.Run", dir)
		}
		return nil
	})
	if err != nil || packages == 0 {
		t.Fatalf("%d packages: %v", packages, err)
	}
	t.Logf("%d packages", packages)
}
