//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package audit_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
)

// TestAWitnessThatDoesNotAnswerHoldsNobodyUp: another process holds its lock and hangs.
// A call ends with its context, and what it told is there once the witness answers.
func TestAWitnessThatDoesNotAnswerHoldsNobodyUp(t *testing.T) {
	b := newBench(t)
	b.rows(1)
	b.make(b.maker(nil))
	w, path := newWitness(t)
	l := w.Ledger(b.Tenant(), b.Namespace())
	other, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer other.Close()
	must(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
	for name, call := range map[string]func(ctx context.Context) error{
		"acknowledge": func(ctx context.Context) error {
			return l.Acknowledge(ctx, memory.EntryErase, []memory.Leaf{leaf("h/1", 1, 1)})
		},
		"behind": func(ctx context.Context) error { _, err := l.Behind(ctx, b.Store); return err },
		"list": func(ctx context.Context) error {
			return l.Acknowledged(ctx, func(memory.EntryKind, memory.Leaf) error { return nil })
		},
		"see":    func(ctx context.Context) error { return w.See(ctx, b.Store, b.key.Verifier()) },
		"verify": func(ctx context.Context) error { _, err := audit.Verify(ctx, b.Store, b.options(w)); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	must(t, syscall.Flock(int(other.Fd()), syscall.LOCK_UN))
	must(t, l.Acknowledge(t.Context(), memory.EntryErase, []memory.Leaf{leaf("h/2", 1, 1)}))
	if have := acknowledged(t, l); len(have) != 2 {
		t.Errorf("%d entries are there", len(have))
	}
}
