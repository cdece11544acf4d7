package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/visible"
)

func FuzzOneLine(f *testing.F) {
	for _, s := range []string{"plain", hostile, hostileName, strings.Repeat("é", 300), "a\u0301\u0301\u0301\u0301\u0301b", "\u0301", "x\xffy", "  a \n\n b  "} {
		f.Add(s, 40)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(1, min(limit, 1000))
		got := oneLine(s, limit)
		if n := utf8.RuneCountInString(got); n > limit+1 {
			t.Errorf("%d characters, at most %d and an ellipsis", n, limit)
		}
		for _, c := range got {
			if c != ' ' && visible.Hidden(c) {
				t.Errorf("%U in %q", c, got)
			}
		}
		if again := oneLine(got, limit+1); again != got {
			t.Errorf("%q is not stable: %q", got, again)
		}
	})
}

func FuzzVisibleJSON(f *testing.F) {
	for _, s := range []string{"plain", hostile, "\U000e0041\u007f", `"\\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := json.Marshal(map[string]string{"k": s, s: "v"})
		if err != nil {
			t.Fatal(err)
		}
		shown := visible.JSON(b)
		for _, c := range string(shown) {
			if c != '\n' && visible.Hidden(c) {
				t.Errorf("%U in %q", c, shown)
			}
		}
		var before, after map[string]string
		if json.Unmarshal(b, &before) != nil || json.Unmarshal(shown, &after) != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%q became %q", before, after)
		}
	})
}

func TestMarks(t *testing.T) {
	head := memory.Head{Revision: 1, Origin: memory.OriginModelDerived, Truth: memory.TruthUnverified, Outage: memory.OutageNone}
	for _, c := range []struct {
		want string
		set  func(*memory.Row)
	}{
		{"? unverified", func(*memory.Row) {}},
		{"✓ verified", func(r *memory.Row) { r.Truth = memory.TruthSupported }},
		{"✗ contradicted", func(r *memory.Row) { r.Truth = memory.TruthContradicted }},
		{"✗ superseded", func(r *memory.Row) { r.Truth = memory.TruthSuperseded }},
		{"✗ rejected", func(r *memory.Row) { r.Rejection = &memory.Rejection{} }},
		{"✓ verified", func(r *memory.Row) { r.Truth, r.Origin = memory.TruthSupported, memory.OriginRecallReentry }},
		{"⌛ verifier was down", func(r *memory.Row) { r.Outage = memory.OutageRecorded }},
		{"✗ contradicted", func(r *memory.Row) { r.Truth, r.Outage = memory.TruthContradicted, memory.OutageRecorded }},
		{"~ recalled", func(r *memory.Row) { r.Origin = memory.OriginRecallReentry }},
		{"~ recalled", func(r *memory.Row) { r.Origin, r.Retrieval = memory.OriginRecallReentry, memory.RetrievalRestricted }},
		{"✗ restricted", func(r *memory.Row) {
			r.Origin, r.Retrieval, r.Truth = memory.OriginRecallReentry, memory.RetrievalRestricted, memory.TruthSupported
		}},
		{"✗ hidden", func(r *memory.Row) { r.Origin, r.Retrieval = memory.OriginRecallReentry, memory.RetrievalHidden }},
		{"✗ blocked", func(r *memory.Row) { r.Truth, r.Retrieval = memory.TruthSupported, memory.RetrievalBlocked }},
		{"✓ verified", func(r *memory.Row) { r.Truth, r.Retrieval = memory.TruthSupported, memory.RetrievalPrivilegedOnly }},
		{"✗ quarantined", func(r *memory.Row) { r.Security, r.Retrieval = memory.SecurityQuarantined, memory.RetrievalHidden }},
	} {
		r := memory.Row{Head: head}
		c.set(&r)
		if m := markOf(&r); m.glyph+" "+m.word != c.want {
			t.Errorf("%s %s, want %s", m.glyph, m.word, c.want)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Hour: "0s", 59 * time.Second: "59s", time.Minute: "1m", 59 * time.Minute: "59m", 47 * time.Hour: "47h", 48 * time.Hour: "2d"} {
		if got := age(epoch.Add(d), epoch); got != want {
			t.Errorf("%s is %s, want %s", d, got, want)
		}
	}
}
