package memory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// longErasable is newErasable with many entries in the log of the row that only names
// eve: its key stays, so that an erasure has to strip that log.
func longErasable(t *testing.T) (e *erasable, named string) {
	e = newErasable(t, 1)
	id := e.eve[2]
	for i := range 50 {
		e.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, fmt.Sprint("tool:canary ", i)))
		e.mustMove(id, memory.TruthUnverified, memory.AuthorityProbe)
	}
	return e, memory.HeadKey(id)
}

var erasureOfEve = memory.Erasure{Subject: "eve canary", Request: "R-1", Actor: "dpo"}

// An erasure takes the payloads out of a log that a compaction has read and not packed
// yet. The compaction may end there, as if its process was killed.
func TestACompactionBringsNothingBackThatWasErasedMeanwhile(t *testing.T) {
	for name, killed := range map[string]bool{"and goes on": false, "and is killed after it wrote": true} {
		t.Run(name, func(t *testing.T) {
			e, named := longErasable(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			raced := 0
			e.driver.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
				if key == named && raced == 0 {
					raced = len(entries)
					if _, err := e.Erase(t.Context(), erasureOfEve); err != nil {
						t.Fatal(err)
					}
					e.gone(t)
					if killed {
						defer cancel()
					}
				}
				return e.driver.Driver.Rewrite(ctx, tenant, key, entries)
			}
			c, err := e.Compact(ctx)
			if killed != (err != nil) || raced != 64 {
				t.Fatalf("%+v %v, %d entries were packed when the erasure came", c, err, raced)
			}
			e.gone(t)
			if !killed && c.Entries < 64 {
				t.Fatalf("what was erased was not packed: %+v", c)
			}
		})
	}
}

// A log is packed while one of its entries is being stripped. All but that one were
// stripped before: an erasure was interrupted.
func TestAStripLosesNoEntryThatIsPackedMeanwhile(t *testing.T) {
	e, named := longErasable(t)
	broken := fmt.Errorf("%w: the wire broke", memory.ErrStore)
	var stripped []memory.LogEntry
	e.driver.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
		if key != named {
			return e.driver.Driver.Rewrite(ctx, tenant, key, entries)
		}
		for _, r := range entries {
			stripped = append(stripped, r.LogEntry)
		}
		return broken
	}
	if _, err := e.Erase(t.Context(), erasureOfEve); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if len(stripped) != 101 {
		t.Fatalf("%d entries were to be stripped", len(stripped))
	}
	before := e.stored(named)
	// The last entry of the first run to be packed is the one that is left.
	if err := storetest.Rewrite(t.Context(), e.driver.Driver, e.Tenant(), named, append(stripped[:63:63], stripped[64:]...)); err != nil {
		t.Fatal(err)
	}
	raced := false
	e.driver.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
		if key == named && !raced {
			raced = true
			if len(entries) != 1 || entries[0].Revision != 64 {
				t.Fatalf("%d entries are stripped", len(entries))
			}
			if c, err := e.another().Compact(t.Context()); err != nil || c.Entries != 64 {
				t.Fatalf("%+v %v", c, err)
			}
		}
		return e.driver.Driver.Rewrite(ctx, tenant, key, entries)
	}
	if _, err := e.Erase(t.Context(), erasureOfEve); err != nil {
		t.Fatal(err)
	}
	if !raced {
		t.Fatal("nothing raced")
	}
	e.gone(t)
	if log, err := e.History(t.Context(), e.eve[2], false); err != nil || len(log) != len(before) {
		t.Fatalf("%d entries, were %d (%v)", len(log), len(before), err)
	}
}
