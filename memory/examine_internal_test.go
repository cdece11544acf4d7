package memory

import (
	"fmt"
	"testing"
)

// TestWhatARowWasMadeFromIsHeldAgainstItsLog: a body with another lineage than the log of its
// row is found.
func TestWhatARowWasMadeFromIsHeldAgainstItsLog(t *testing.T) {
	var ids []ID
	for i := range 4 {
		ids = append(ids, ID(fmt.Sprintf("mem_%025d0", i)))
	}
	row := packedRow(appendID(nil, ids[3]))
	for name, c := range map[string]struct {
		above, from []ID
		traced, ok  bool
	}{
		"nothing, and nothing":            {nil, nil, false, true},
		"one of its ancestors":            {ids[:2], ids[:1], false, true},
		"nothing, where it had ancestors": {ids[:2], nil, false, false},
		"another row":                     {ids[:2], ids[1:3], false, false},
		"itself":                          {ids, ids[3:], false, false},
		"a wide lineage, the same":        {ids[:2], ids[:2], true, true},
		"a wide lineage, one less":        {ids[:2], ids[:1], true, false},
		"a wide lineage, one more":        {ids[:2], ids[:3], true, false},
		"a wide lineage, none":            {ids[:2], nil, true, false},
		"too much to be in the head":      {nil, ids[:2], true, true},
	} {
		f := rowFacts{above: packIDs(c.above), traced: c.traced}
		if ok := f.madeFrom(c.from, row); ok != c.ok {
			t.Errorf("%s: %t", name, ok)
		}
	}
}
