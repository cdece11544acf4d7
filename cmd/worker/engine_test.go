//go:build linux

package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// TestAnEngineThatDoesNotStartHoldsNothing: the folders of documents are let go of if
// the queue cannot be reached.
func TestAnEngineThatDoesNotStartHoldsNothing(t *testing.T) {
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	held := func() (n int) {
		t.Helper()
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range open {
			if at, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && at == folder {
				n++
			}
		}
		return n
	}
	c := &config{redis: "redis://127.0.0.1:1", shares: []share{{weight: 1}}}
	c.roster.Fetch.Roots = []string{folder}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	e, err := newEngine(over, c, []*memory.Store{storetest.NewStore(nil)}, nil, nil, newMeters(), slog.New(slog.DiscardHandler))
	if err == nil {
		e.close()
		t.Fatal("a queue that nobody serves was reached")
	}
	if n := held(); n != 0 {
		t.Errorf("the folder is still open %d times after %v", n, err)
	}
}
