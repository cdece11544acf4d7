// Command ruleoff switches each rule of trust off in turn, and fails if the test of a rule does not
// notice it. rules.tsv names the rules: the subtest of TestJudge, the file and the function that has
// the rule, its code, and what takes the place of that. docs/trust.md has to list each of them.
//
//	go run ./internal/ruleoff [RULE ...]
//
// It changes no file: the tests are built with an overlay.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

//go:embed rules.tsv
var table string

const (
	docs   = "docs/trust.md"
	tested = "memory/judge_test.go" // alone: the other tests of the package take long to build
	limit  = 5 * time.Minute        // for one rule
)

// rule is a line of the table.
type rule struct{ name, file, function, code, off string }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ruleoff:", err)
		os.Exit(1)
	}
}

func run(only []string) error {
	rules, err := parse(table)
	if err != nil {
		return err
	}
	if err := documented(rules); err != nil {
		return err
	}
	for _, name := range only {
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.name == name }) {
			return fmt.Errorf("no rule %q", name)
		}
	}
	if len(only) > 0 {
		rules = slices.DeleteFunc(rules, func(r rule) bool { return !slices.Contains(only, r.name) })
	}
	if len(rules) == 0 {
		return errors.New("no rules")
	}
	if out, err := test(context.Background(), "", "."); err != nil {
		return fmt.Errorf("TestJudge fails with all rules on: %w\n%s", err, out)
	}
	dir, err := os.MkdirTemp("", "ruleoff")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	unnoticed := make([]error, len(rules))
	var group errgroup.Group
	group.SetLimit(max(1, runtime.GOMAXPROCS(0)))
	for i, r := range rules {
		group.Go(func() error {
			unnoticed[i] = r.try(filepath.Join(dir, strconv.Itoa(i)))
			return nil
		})
	}
	group.Wait()
	failed := errors.Join(unnoticed...)
	bad := len(slices.DeleteFunc(unnoticed, func(err error) bool { return err == nil }))
	fmt.Printf("%d of %d rules are noticed when they are switched off\n", len(rules)-bad, len(rules))
	return failed
}

// parse reads the table. The code of a rule is there once.
func parse(table string) (rules []rule, err error) {
	for i, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		f := strings.Split(line, "\t")
		if len(f) != 5 {
			return nil, fmt.Errorf("rules.tsv:%d: %d fields, want 5", i+2, len(f))
		}
		r := rule{name: f[0], file: f[1], function: f[2]}
		if r.code, err = strconv.Unquote(f[3]); err == nil {
			r.off, err = strconv.Unquote(f[4])
		}
		if err != nil {
			return nil, fmt.Errorf("rules.tsv:%d: %w", i+2, err)
		}
		source, err := os.ReadFile(r.file)
		if err != nil {
			return nil, err
		}
		if n := bytes.Count(source, []byte(r.code)); n != 1 {
			return nil, fmt.Errorf("rules.tsv:%d: %s has the code of %q %d times", i+2, r.file, r.name, n)
		}
		before, _, _ := bytes.Cut(source, []byte(r.code))
		if all := functions.FindAllSubmatch(before, -1); len(all) == 0 || string(all[len(all)-1][1]) != r.function {
			return nil, fmt.Errorf("rules.tsv:%d: the code of %q is not in %s of %s", i+2, r.name, r.function, r.file)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

var functions = regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?(\w+)`)

// documented asks that the docs say of each rule where it is, and of no other.
func documented(rules []rule) error {
	text, err := os.ReadFile(docs)
	if err != nil {
		return err
	}
	text, _, _ = bytes.Cut(text, []byte("\n## What is decided elsewhere\n"))
	want := map[string]bool{}
	for _, r := range rules {
		want[r.name] = true
		line := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(r.name) + " \\| .*`" + regexp.QuoteMeta(r.file) + "`, `" + regexp.QuoteMeta(r.function) + "`.* \\|$")
		if !line.Match(text) {
			return fmt.Errorf("%s does not say that %q is in %s, %s", docs, r.name, r.file, r.function)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| ([^|]+) \\| `").FindAllSubmatch(text, -1) {
		if !want[string(m[1])] {
			return fmt.Errorf("%s has the rule %q, which rules.tsv has not", docs, m[1])
		}
	}
	return nil
}

// try runs the test of a rule while it is off. It is an error if that passes, or does not build.
func (r *rule) try(dir string) error {
	source, err := os.ReadFile(r.file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, bytes.Replace(source, []byte(r.code), []byte(r.off), 1), 0o600); err != nil {
		return err
	}
	original, err := filepath.Abs(r.file)
	if err != nil {
		return err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	out, err := test(ctx, overlay, "^"+regexp.QuoteMeta(strings.ReplaceAll(r.name, " ", "_"))+"$")
	switch {
	case err == nil:
		return fmt.Errorf("%q (%s, %s) is off, and its test passes", r.name, r.file, r.function)
	case !bytes.Contains(out, []byte("--- FAIL: TestJudge/")):
		return fmt.Errorf("%q (%s, %s): %w\n%s", r.name, r.file, r.function, err, out)
	}
	return nil
}

func test(ctx context.Context, overlay, subtest string) ([]byte, error) {
	args := []string{"test", "-count=1", "-vet=off", "-run", "^TestJudge$/" + subtest}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	return exec.CommandContext(ctx, "go", append(args, tested)...).CombinedOutput()
}
