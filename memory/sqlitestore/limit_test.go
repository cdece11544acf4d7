package sqlitestore

import (
	"strings"
	"testing"
)

// TestNoStatementIsPreparedAnew: a bound LIMIT is part of the plan, so that SQLite would prepare the
// statement again for each call.
func TestNoStatementIsPreparedAnew(t *testing.T) {
	limits := 0
	for _, text := range texts {
		n := strings.Count(text, "LIMIT ?")
		if limits += n; strings.Count(text, "LIMIT ? + 0") != n {
			t.Errorf("%s", text)
		}
	}
	if limits == 0 {
		t.Error("no statement has a limit")
	}
}
