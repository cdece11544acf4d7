package audit_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/internal/sample"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// exported is a store with a history, and the lines of its export. long is how many
// entries its longest log has.
func exported(t testing.TB, long int) (*bench, [][]byte) {
	b := newBench(t)
	m := b.maker(nil)
	ids := b.rows(4)
	b.make(m)
	b.verified(ids[1])
	b.demoted(ids[1])
	b.echo(ids[2], long)
	if _, err := b.Erase(b.Context(), memory.Erasure{Subject: "nobody at all", Actor: "operator"}); err != nil {
		t.Fatal(err)
	}
	b.make(m)
	return b, bytes.SplitAfter([]byte(b.export()), []byte("\n"))
}

// sealed is an export of lines to which somebody who knows the form, and not the
// keys, gave a fitting end.
func sealed(lines [][]byte) []byte {
	var out bytes.Buffer
	var end struct {
		End struct {
			Checkpoints int    `json:"checkpoints"`
			Logs        int    `json:"logs"`
			Entries     int    `json:"entries"`
			Digest      []byte `json:"sha256"`
		} `json:"end"`
	}
	for _, l := range lines {
		switch {
		case bytes.HasPrefix(l, []byte(`{"checkpoint"`)):
			end.End.Checkpoints++
		case bytes.HasPrefix(l, []byte(`{"object"`)):
			end.End.Logs++
		case bytes.HasPrefix(l, []byte(`{"entry"`)):
			end.End.Entries++
		case bytes.HasPrefix(l, []byte(`{"end"`)):
			continue
		}
		out.Write(l)
	}
	sum := sha256.Sum256(out.Bytes())
	end.End.Digest = sum[:]
	last, err := json.Marshal(end)
	if err != nil {
		panic(err)
	}
	return append(append(out.Bytes(), last...), '\n')
}

func (b *bench) imports(data []byte) (audit.Report, error) {
	return audit.VerifyExport(b.Context(), bytes.NewReader(data), b.keys, b.options(nil))
}

// broken verifies an export that was changed, and returns the line at fault.
func (b *bench) broken(what string, data []byte) *audit.ExportError {
	b.Helper()
	_, err := b.imports(data)
	var fault *audit.ExportError
	if !errors.As(err, &fault) || !errors.Is(err, audit.ErrExport) {
		b.Fatalf("%s: %v", what, err)
	}
	return fault
}

func TestAnExportIsVerifiedWithoutItsStore(t *testing.T) {
	b, lines := exported(t, 20)
	online := b.holds(b.options(nil))
	offline, err := b.imports(bytes.Join(lines, nil))
	if err != nil {
		t.Fatal(err)
	}
	if offline.Logs != online.Logs || offline.Entries != online.Entries || offline.Leaves != online.Leaves || offline.Newer != online.Newer || offline.Checkpoints != 2 {
		t.Fatalf("%+v\n%+v", online, offline)
	}
	if again, err := b.imports(sealed(lines)); err != nil || again.Logs != offline.Logs {
		t.Fatal("the test's own end does not fit:", err)
	}
	w, _ := newWitness(t)
	must(t, w.See(t.Context(), b.Store, b.key.Verifier()))
	if r, err := audit.VerifyExport(t.Context(), bytes.NewReader(bytes.Join(lines, nil)), b.keys, b.options(w)); err != nil || r.Witnessed != 2 {
		t.Fatal(r, err)
	}
	if _, err := audit.VerifyExport(t.Context(), bytes.NewReader(bytes.Join(lines, nil)), keyring.Ephemeral(), b.options(nil)); !errors.Is(err, memory.ErrTampered) {
		t.Fatal("with other keys:", err)
	}
	t.Run("packed logs and erased rows too", func(t *testing.T) {
		b := newBench(t)
		ids := b.rows(3)
		b.echo(ids[0], 300)
		m := b.maker(nil)
		b.make(m)
		if c, err := b.Compact(t.Context()); err != nil || c.Entries == 0 {
			t.Fatal(c, err)
		}
		if c, err := b.Erase(t.Context(), memory.Erasure{Subject: "ana", Actor: "operator"}); err != nil || c.Rows != 3 {
			t.Fatal(c, err)
		}
		if _, err := b.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.make(m)
		online := b.holds(b.options(nil))
		offline, err := b.imports([]byte(b.export()))
		if err != nil || online.Erased < 3 || offline.Entries != online.Entries || offline.Newer != 0 {
			t.Fatalf("%+v\n%+v\n%v", online, offline, err)
		}
	})
	t.Run("of one namespace only", func(t *testing.T) {
		b.Store.Close()
		d := storetest.NewMap()
		keys := keyring.Ephemeral()
		for _, ns := range []string{"", "one", "two"} {
			s, err := memory.New(d, keys, &memory.Options{Namespace: ns})
			must(t, err)
			_, err = s.Put(t.Context(), says("in", "is", ns+"!"))
			must(t, err)
			var out bytes.Buffer
			must(t, audit.Export(t.Context(), s, &out))
			if r, err := audit.VerifyExport(t.Context(), &out, keys, audit.Options{}); err != nil || r.Logs != 3 || r.Newer != 3 { // two that every store has, and the row
				t.Fatal(ns, r, err)
			}
		}
	})
}

func TestEveryChangeOfAnExportIsFound(t *testing.T) {
	t.Parallel()
	long := 1000
	if slow {
		long = 50
	}
	b, lines := exported(t, long)
	lines = lines[:len(lines)-1] // after the last end there is nothing
	n := len(lines)
	if _, err := b.imports(bytes.Join(lines, nil)); err != nil {
		t.Fatal(err)
	}
	without := func(i int) [][]byte { return append(append([][]byte{}, lines[:i]...), lines[i+1:]...) }
	// An export is read from its front: what is found before the end is found whatever
	// the end says.
	fitting := func(what string, changed [][]byte) *audit.ExportError {
		f := b.broken(what+", with a fitting end", sealed(changed))
		if f.Line >= len(changed) {
			b.broken(what, bytes.Join(changed, nil))
		}
		return f
	}
	cases := sample.Of(n, func(i int) string { // the first members of a line say what it is
		switch {
		case i >= n-2:
			return fmt.Sprint("line ", i-n, " from the end")
		case i < 4:
			return fmt.Sprint("line ", i)
		}
		return string(lines[i][:min(len(lines[i]), 12)])
	})
	for _, i := range cases {
		b.broken(fmt.Sprint("cut after line ", i), bytes.Join(lines[:i], nil))
		twice := append(append(append([][]byte{}, lines[:i+1]...), lines[i]), lines[i+1:]...)
		if i+1 >= n-1 {
			b.broken(fmt.Sprint("without line ", i+1), bytes.Join(without(i), nil))
			b.broken(fmt.Sprint("line twice ", i+1), bytes.Join(twice, nil))
			continue
		}
		if f := fitting(fmt.Sprint("line twice ", i+1), twice); f.Line > i+3 {
			t.Fatalf("line %d is there twice, and line %d is named", i+1, f.Line)
		}
		if i == 2 { // the newest checkpoint: below
			b.broken(fmt.Sprint("without line ", i+1), bytes.Join(without(i), nil))
			continue
		}
		f := fitting(fmt.Sprint("without line ", i+1), without(i))
		if bytes.HasPrefix(lines[i], []byte(`{"entry"`)) && f.Line > i+2 {
			t.Fatalf("line %d is missing, and line %d is named", i+1, f.Line)
		}
		swapped := append([][]byte{}, lines...)
		swapped[i], swapped[i+1] = lines[i+1], lines[i]
		fitting(fmt.Sprint("swapped ", i+1), swapped)
	}
	t.Logf("%d of %d lines: each deletion, repetition, swap and cut is found", len(cases), n)
	t.Run("the newest checkpoint left out, with a fitting end, by a witness", func(t *testing.T) {
		w, _ := newWitness(t)
		must(t, w.See(t.Context(), b.Store, b.key.Verifier()))
		for _, o := range []audit.Options{b.options(nil), b.options(w)} {
			_, err := audit.VerifyExport(t.Context(), bytes.NewReader(sealed(without(2))), b.keys, o)
			if found := errors.Is(err, audit.ErrRollback); found != (o.Witness != nil) {
				t.Fatal(err)
			}
		}
	})
	t.Run("a whole log that is left out, with a fitting end", func(t *testing.T) {
		count := 0
		for i, l := range lines {
			if !bytes.HasPrefix(l, []byte(`{"object"`)) {
				continue
			}
			from := i
			for bytes.HasPrefix(lines[from-1], []byte(`{"entry"`)) {
				from--
			}
			f := b.broken("a log left out", sealed(append(append([][]byte{}, lines[:from]...), lines[i+1:]...)))
			var gone *memory.TamperError
			if !errors.As(f, &gone) || !strings.Contains(gone.Reason, "gone") {
				t.Fatal(f)
			}
			count++
		}
		t.Logf("%d logs left out, each found by the checkpoints", count)
	})
}

func TestEveryByteOfAnExportCounts(t *testing.T) {
	t.Parallel()
	b, lines := exported(t, 3)
	whole := bytes.Join(lines, nil)
	cases := sample.Of(len(whole), func(i int) string { return fmt.Sprint("line ", bytes.Count(whole[:i], []byte("\n"))) })
	for _, i := range cases {
		for _, bit := range []byte{1, 0x20} {
			bad := bytes.Clone(whole)
			bad[i] ^= bit
			f := b.broken(fmt.Sprint("byte ", i), bad)
			if at := 1 + bytes.Count(whole[:i], []byte("\n")); f.Line < at {
				t.Fatalf("byte %d of line %d is changed, and line %d is named", i, at, f.Line)
			}
		}
		b.broken(fmt.Sprint("without byte ", i), append(append([]byte{}, whole[:i]...), whole[i+1:]...))
		b.broken(fmt.Sprint("cut at byte ", i), whole[:i])
	}
	b.broken("a byte too many", append(bytes.Clone(whole), '\n'))
	t.Logf("%d of %d bytes", len(cases), len(whole))
	for what, data := range map[string]string{
		"nothing":             "",
		"another schema":      `{"header":{"schema":"hearsay.audit.export/9","tenant":"default","namespace":"","at":"2026-04-17T08:00:00Z"}}` + "\n",
		"an empty object":     "{}\n",
		"no header":           string(bytes.Join(lines[1:], nil)),
		"two headers":         string(lines[0]) + string(lines[0]),
		"a line of two kinds": `{"header":{"schema":"hearsay.audit.export/1","tenant":"default","namespace":"","at":"2026-04-17T08:00:00Z"},"end":{"checkpoints":0,"logs":0,"entries":0,"sha256":""}}` + "\n",
	} {
		b.broken(what, []byte(data))
	}
	long := io.MultiReader(strings.NewReader(`{"header":{"schema":"`), &endless{left: audit.MaxExportLine + 10})
	if _, err := audit.VerifyExport(t.Context(), long, b.keys, audit.Options{}); !errors.Is(err, audit.ErrExport) {
		t.Fatal("a line without an end:", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := audit.VerifyExport(cancelled, bytes.NewReader(whole), b.keys, audit.Options{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	n := min(len(p), e.left)
	for i := range n {
		p[i] = 'x'
	}
	if e.left -= n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// FuzzVerifyExport asks that no input makes the verification panic, and that of
// what has the checkpoints of a store nothing holds but its export: it has one form.
// The moment in the header is nobody's to prove.
func FuzzVerifyExport(f *testing.F) {
	b, lines := exported(f, 3)
	whole := bytes.Join(lines, nil)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(sealed(lines[:len(lines)-3]))
	f.Add(sealed(append(append([][]byte{}, lines[:4]...), lines[5:]...)))
	f.Add([]byte("{}\n"))
	body := func(data []byte) []byte {
		_, rest, _ := bytes.Cut(data, []byte("\n"))
		rest, _, _ = bytes.Cut(rest, []byte(`{"end"`))
		return rest
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := audit.VerifyExport(t.Context(), bytes.NewReader(data), b.keys, b.options(nil))
		if err == nil && r.Checkpoints == 2 && !bytes.Equal(body(data), body(whole)) {
			t.Fatalf("it holds:\n%s", data)
		}
		if err == nil && !bytes.Equal(sealed(bytes.SplitAfter(data, []byte("\n"))), data) {
			t.Fatalf("its end does not fit:\n%s", data)
		}
	})
}
