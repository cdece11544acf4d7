package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// record is all that a store keeps of one row.
type record struct {
	objects []memory.Restored
	log     []memory.LogEntry
}

// TestOneCommandFindsTheNineEditsOfThePublicSuite plays the nine edits behind a store's
// back of the suite agent-memory-integrity (0.6.3), by its names, and asks one command.
func TestOneCommandFindsTheNineEditsOfThePublicSuite(t *testing.T) {
	w, at := auditor(t)
	audit := []string{"audit", "verify", "--checkpoint-keys", at("audit.pub"), "--witness", at("witness")}
	w.ok(audit...)
	read := func() []byte {
		t.Helper()
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(w.path)
		if err != nil {
			t.Fatal(err)
		}
		w.reopen()
		return b
	}
	whole := read()
	rows := slices.Sorted(func(yield func(memory.ID) bool) {
		for _, id := range w.ids {
			if !yield(id) {
				return
			}
		}
	})
	if len(rows) < 5 {
		t.Fatalf("only %d rows", len(rows))
	}
	first, mid, next, last := rows[0], rows[len(rows)/2], rows[len(rows)/2+1], rows[len(rows)-1]

	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	get := func(d memory.Driver, tenant string, id memory.ID) (r record) {
		t.Helper()
		row := strings.TrimPrefix(memory.HeadKey(id), "h/")
		for o, err := range d.Objects(t.Context(), tenant, "") {
			must(err)
			if strings.HasSuffix(o.Key, row) {
				r.objects = append(r.objects, o)
			}
		}
		log, err := d.History(t.Context(), tenant, memory.HeadKey(id), 0, 100)
		must(err)
		if r.log = log; len(r.objects) < 2 || len(log) == 0 {
			t.Fatalf("of row %s there is %+v", id, r)
		}
		return r
	}
	remove := func(d memory.Driver, id memory.ID) {
		t.Helper()
		r := get(d, "default", id)
		var gone []memory.LogEntry
		for _, e := range r.log {
			gone = append(gone, memory.LogEntry{Revision: e.Revision})
		}
		must(storetest.Rewrite(t.Context(), d, "default", memory.HeadKey(id), gone))
		for _, o := range r.objects {
			must(d.Restore(t.Context(), "default", []memory.Restored{{Object: memory.Object{Key: o.Key}}}))
		}
	}
	// onto writes what the objects of one row hold over those of another of the same kind.
	onto := func(d memory.Driver, to memory.ID, from record) {
		t.Helper()
		written := 0
		for _, o := range get(d, "default", to).objects {
			for _, f := range from.objects {
				if o.Key[:2] == f.Key[:2] {
					o.Data = f.Data
					must(d.Restore(t.Context(), "default", []memory.Restored{o}))
					written++
				}
			}
		}
		if written < 2 {
			t.Fatalf("%d objects were written over", written)
		}
	}
	flip := func(d memory.Driver, id memory.ID, kind string, at int) {
		t.Helper()
		for _, o := range get(d, "default", id).objects {
			if strings.HasPrefix(o.Key, kind) {
				o.Data = bytes.Clone(o.Data)
				o.Data[at] ^= 1
				must(d.Restore(t.Context(), "default", []memory.Restored{o}))
				return
			}
		}
		t.Fatalf("row %s has no object %s", id, kind)
	}
	other := newWorld(t)
	other.put("theirs", said(memory.Content{Text: "of another context"}))
	must(other.store.Close())

	edits := []struct {
		name string
		edit func(d memory.Driver)
	}{
		{"tamper", func(d memory.Driver) { flip(d, mid, "b/", 40) }},
		{"truncate", func(d memory.Driver) { remove(d, last); remove(d, rows[len(rows)-2]) }},
		{"delete_middle", func(d memory.Driver) { remove(d, mid) }},
		{"reorder", func(d memory.Driver) {
			a, b := get(d, "default", mid), get(d, "default", next)
			onto(d, mid, b)
			onto(d, next, a)
		}},
		{"forge", func(d memory.Driver) {
			end := "8" // another one, that an id may have
			if strings.HasSuffix(string(last), end) {
				end = "c"
			}
			forged := last[:len(last)-1] + memory.ID(end)
			r := get(d, "default", last)
			for _, o := range r.objects {
				o.Key = o.Key[:2] + strings.TrimPrefix(memory.HeadKey(forged), "h/")
				var log []byte
				if strings.HasPrefix(o.Key, "h/") {
					log = r.log[0].Data
				}
				must(d.Apply(t.Context(), "default", memory.Batch{Puts: []memory.Put{{Key: o.Key, Data: o.Data, Entry: log, Add: o.Terms}}}))
			}
		}},
		{"cross_replay", func(d memory.Driver) {
			var theirs record
			other.below(func(d memory.Driver) { theirs = get(d, "default", other.ids["theirs"]) })
			onto(d, last, theirs)
		}},
		{"rollback_replay", func(d memory.Driver) { onto(d, last, get(d, "default", first)) }},
		{"metadata_tamper", func(d memory.Driver) { flip(d, mid, "h/", 42) }},
	}
	found := 0
	find := func(name string) {
		t.Helper()
		if r := w.run(audit...); r.code != exitTampered {
			t.Errorf("%s is not found: exit %d\n%s%s", name, r.code, r.out, r.talk)
			return
		}
		found++
	}
	for _, e := range edits {
		w.below(e.edit)
		find(e.name)
		must(w.store.Close())
		w.file(w.path, string(whole))
		w.reopen()
		w.ok(audit...)
	}
	w.put("one more", said(memory.Content{Text: "something new"}))
	w.ok("audit", "checkpoint", "--key", at("audit.key"), "--witness", at("witness"))
	must(w.store.Close())
	w.file(w.path, string(whole))
	w.reopen()
	find("snapshot_rollback")
	if found != 9 {
		t.Errorf("%d of nine edits were found", found)
	}
}
