package transfer_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/transfer"
)

// TestARowThatNobodyCanReadEndsNoExport spoils what each row says, and its head, in turn. The dump has
// all other rows, and the id of that one. What was made from it is imported with an unknown lineage.
func TestARowThatNobodyCanReadEndsNoExport(t *testing.T) {
	public, private := newKey(t)
	all := len(filled(t).rows())
	children, suspects := 0, 0
	for n := range 4 * all {
		w := filled(t)
		row := w.rows()[n%all]
		what := []string{"body", "head"}[n/all%2]
		w.driver.missing = n >= 2*all
		w.spoil(what + "/" + string(row.ID))
		w.open()
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
			held := row.Security != memory.SecurityClean || row.Has(memory.FlagTainted) || what == "head"
			for _, got := range to.rows() {
				if got.Content != child.Content {
					continue
				}
				if !got.Has(memory.FlagLineageUnknown) || got.Has(memory.FlagTainted) != held || (got.Security == memory.SecurityClean) == held {
					t.Errorf("%s of row %d is lost, which is held: %t: what was made from it: %+v", what, n, held, got)
				}
				if held {
					suspects++
				}
			}
		}
	}
	if children == 0 || suspects == 0 || suspects == children {
		t.Errorf("%d rows were made from the others, %d of them from held ones", children, suspects)
	}
}

// TestWhatAllRowsNeedEndsAnExport: a store whose revocations cannot be read is not one of unread rows.
func TestWhatAllRowsNeedEndsAnExport(t *testing.T) {
	for name, w := range map[string]*world{"with rows": filled(t), "without rows": newWorld(t)} {
		if name == "without rows" { // it is made all the same
			if err := w.BumpEpoch(t.Context(), "operator", "a test"); err != nil {
				t.Fatal(err)
			}
		}
		w.spoil("system/revoked")
		var dump bytes.Buffer
		if done, err := transfer.Export(t.Context(), w.Store, &dump, nil); !errors.Is(err, memory.ErrDamaged) || errors.Is(err, transfer.ErrUnread) {
			t.Errorf("%s: %+v, %v", name, done, err)
		}
	}
}

// TestWhatIsBesideARowIsSpoiled: a row whose evidence, echoes or class are damaged is unread, and each row is
// in the dump once.
func TestWhatIsBesideARowIsSpoiled(t *testing.T) {
	w := filled(t)
	kinds := map[string]int{}
	for o, err := range w.driver.Objects(t.Context(), "default", "") {
		if err != nil {
			t.Fatal(err)
		}
		name := memory.KeyText(o.Key)
		kind, _, _ := strings.Cut(name, "/")
		if kind != "class" && kind != "evidence" && kind != "echo" {
			continue
		}
		w.driver.spoiled = o.Key
		w.open()
		var dump bytes.Buffer
		done, err := transfer.Export(t.Context(), w.Store, &dump, nil)
		if err != nil && !errors.Is(err, transfer.ErrUnread) {
			t.Errorf("%s: %v", name, err)
		}
		w.mend()
		all := len(w.rows())
		if lines := bytes.Count(dump.Bytes(), []byte("\n")) - 2; done.Rows+done.Unread != all || lines != all {
			t.Errorf("%s: %+v and %d lines of %d rows", name, done, lines, all)
		}
		if done.Unread > 0 {
			kinds[kind]++
		}
	}
	if kinds["class"] == 0 || kinds["echo"] == 0 || kinds["evidence"] == 0 {
		t.Errorf("%v", kinds)
	}
}

// TestAnUnreadParentThatAClockDatedLate is in the dump once, before what was made from it.
func TestAnUnreadParentThatAClockDatedLate(t *testing.T) {
	for _, what := range []string{"body", "head"} {
		w := newWorld(t)
		keys := keyring.Ephemeral()
		var ids []memory.ID
		for _, now := range []time.Time{day0.Add(time.Hour), day0} {
			s, err := memory.New(w.driver, keys, &memory.Options{Clock: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			w.Store = s
			ids = append(ids, w.put(modelDraft(text(now.String()), ids...)))
		}
		parent := ids[0]
		w.spoil(what + "/" + string(parent))
		var dump bytes.Buffer
		if done, err := transfer.Export(t.Context(), w.Store, &dump, nil); !errors.Is(err, transfer.ErrUnread) || done.Rows != 1 || done.Unread != 1 {
			t.Errorf("%s: %+v, %v", what, done, err)
		}
		if r := newWorld(t).load(dump.Bytes(), transfer.Options{}); !r.Complete || r.Rows != 1 || r.Rejected != 1 {
			t.Errorf("%s: %+v", what, r)
		}
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

func (w *world) mend() {
	w.driver.spoiled = ""
	w.open()
}
