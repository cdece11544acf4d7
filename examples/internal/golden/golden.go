// Package golden runs an example and holds what it prints to a file.
package golden

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

// maxLines is how long the story of an example may be.
const maxLines = 60

// Check runs a program's main function, with the arguments given, and compares
// what it prints with testdata/output.golden. Ids and the date of today differ
// from run to run and are masked. Example programs are small: the output has to
// fit a pipe that is read while main runs.
func Check(t *testing.T, main func(), args ...string) {
	t.Helper()
	path := filepath.Join("testdata", "output.golden")
	got := Output(t, main, args...)
	if n := strings.Count(got, "\n"); n > maxLines {
		t.Errorf("%d lines, at most %d", n, maxLines)
	}
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the output has changed; run the test with -update if that is meant.\ngot:\n%s\nwant:\n%s", got, want)
	}
}

// Output runs a program's main function, with the arguments given, and returns what
// it prints, masked.
func Output(t *testing.T, main func(), args ...string) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, arguments := os.Stdout, os.Args
	os.Stdout, os.Args = w, append([]string{"example"}, args...)
	defer func() { os.Stdout, os.Args = stdout, arguments }()
	printed := make(chan string)
	go func() {
		b, err := io.ReadAll(r)
		if err != nil {
			b = append(b, err.Error()...)
		}
		printed <- string(b)
	}()
	main()
	w.Close()
	return Mask(<-printed)
}

var masks = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`\b(mem|blk|run|evi)_[a-z0-9]+`), "${1}_…"},
	{regexp.MustCompile(`127\.0\.0\.1:[0-9]+`), "127.0.0.1:port"},
}

// Mask replaces what differs from run to run. Other dates than today's are part
// of a story and stay.
func Mask(s string) string {
	s = strings.ReplaceAll(s, time.Now().UTC().Format(time.DateOnly), "today")
	for _, m := range masks {
		s = m.find.ReplaceAllString(s, m.put)
	}
	return s
}
