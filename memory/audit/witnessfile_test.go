package audit_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
)

// TestACheckpointIsGrownFromTheOneThatWasSeen: a machine that was taken over shows a
// history that was made again, of the same origin and with a later number.
func TestACheckpointIsGrownFromTheOneThatWasSeen(t *testing.T) {
	seenOf := func(checkpoints int) (path string, seen *audit.Seen, scope string) {
		t.Helper()
		b := newBench(t)
		w, path := newWitness(t)
		m := b.maker(&audit.MakerOptions{Witness: w})
		for range checkpoints {
			b.rows(2)
			b.make(m)
		}
		must(t, w.Close())
		f, err := audit.ServeWitness(path)
		must(t, err)
		defer f.Close()
		scope = scopeOfDefault(t, b)
		page, err := f.Read(t.Context(), audit.Query{Scope: scope})
		must(t, err)
		if page.Checkpoint == nil {
			t.Fatal("it saw none")
		}
		return path, page.Checkpoint, scope
	}
	path, seen, scope := seenOf(1)
	_, other, _ := seenOf(2)
	f, err := audit.ServeWitness(path)
	must(t, err)
	defer f.Close()
	text, err := json.Marshal(seen)
	must(t, err)
	sum := sha256.Sum256(text)
	after := hex.EncodeToString(sum[:])
	fewer, longer := *other, *seen
	fewer.Index = seen.Index
	longer.Index++
	longer.Origin = "x" + longer.Origin
	for name, c := range map[string]struct {
		change audit.Change
		want   error
	}{
		"another history, with any tree":          {audit.Change{Checkpoint: other, After: after, Grown: other.Tree}, memory.ErrInvalid},
		"another history, with no tree":           {audit.Change{Checkpoint: other, After: after}, memory.ErrInvalid},
		"one that follows what nobody saw":        {audit.Change{Checkpoint: other}, memory.ErrConflict},
		"one of the same number":                  {audit.Change{Checkpoint: &fewer, After: after}, memory.ErrInvalid},
		"one of another origin":                   {audit.Change{Checkpoint: &longer, After: after}, memory.ErrInvalid},
		"one together with entries":               {audit.Change{Checkpoint: other, Acknowledge: []audit.Acknowledged{{Leaf: leaf("h/a", 1, 1)}}}, memory.ErrInvalid},
		"a settlement of one log by another":      {audit.Change{Settle: &audit.Settlement{Lost: audit.Acknowledged{Leaf: leaf("h/a", 1, 1)}, Again: audit.Acknowledged{Leaf: leaf("h/b", 1, 1)}}}, memory.ErrInvalid},
		"the same, from where it is much further": {audit.Change{Checkpoint: seen, Known: audit.Position{Lines: 99, Digest: "x"}}, audit.ErrWitnessOlder},
	} {
		c.change.Scope = scope
		if _, err := f.Append(t.Context(), c.change); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.Append(t.Context(), audit.Change{Scope: scope, Checkpoint: seen}); err != nil {
		t.Error("the same again:", err)
	}
	page, err := f.Read(t.Context(), audit.Query{Scope: scope})
	must(t, err)
	if page.Checkpoint.Index != seen.Index || page.Checkpoint.Note != seen.Note {
		t.Error("it has another one now")
	}
}

// scopeOfDefault is the scope of a store, as its checkpoints end.
func scopeOfDefault(t *testing.T, b *bench) string {
	t.Helper()
	c, err := b.LastCheckpoint(t.Context())
	must(t, err)
	for i, at := range c.Note {
		if at == '\n' {
			return string(c.Note[i-32 : i])
		}
	}
	t.Fatal("no origin")
	return ""
}
