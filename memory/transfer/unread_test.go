package transfer_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/transfer"
)

// TestARowThatNobodyCanReadEndsNoExport spoils what each row says, and its head, in turn. The dump has
// all other rows, and the id of that one. What was made from it is imported with an unknown lineage.
func TestARowThatNobodyCanReadEndsNoExport(t *testing.T) {
	public, private := newKey(t)
	all := len(filled(t).rows())
	children := 0
	for _, what := range []string{"body", "head"} {
		for n := range all {
			w := filled(t)
			row := w.rows()[n]
			w.spoil(what + "/" + string(row.ID))
			var dump bytes.Buffer
			done, err := transfer.Export(t.Context(), w.Store, &dump, &transfer.ExportOptions{Sign: private})
			if !errors.Is(err, transfer.ErrUnread) || done.Rows != all-1 || done.Unread != 1 {
				t.Fatalf("%s of row %d: %+v, %v", what, n, done, err)
			}
			to := newWorld(t)
			r := to.load(dump.Bytes(), transfer.Options{Trust: public})
			if !r.Complete || r.Rows+r.Collapsed != all-1 || r.Rejected != 1 || r.bad[0].Field != "unread" || r.bad[0].Rule != "unreadable" {
				t.Fatalf("%s of row %d: %+v", what, n, r)
			}
			w.mend()
			for _, child := range w.rows() {
				if !slices.Contains(child.DerivedFrom, row.ID) {
					continue
				}
				children++
				for _, got := range to.rows() {
					if got.Content == child.Content && !got.Has(memory.FlagLineageUnknown) {
						t.Errorf("%s of row %d is lost: what was made from it: %+v", what, n, got)
					}
				}
			}
		}
	}
	if children == 0 {
		t.Error("nothing was made from the rows")
	}
}

// spoil has an object read as one that is not what was written, until mend.
func (w *world) spoil(name string) {
	w.Helper()
	for o, err := range w.driver.Objects(w.Context(), "default", "") {
		if err != nil {
			w.Fatal(err)
		}
		if memory.KeyText(o.Key) == name {
			w.driver.spoiled = o.Key
			return
		}
	}
	w.Fatal("no object ", name)
}

func (w *world) mend() { w.driver.spoiled = "" }
