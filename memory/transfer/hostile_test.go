package transfer_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/transfer"
)

const header = `{"schema":"hearsay.rows/1","tenant":"evil","namespace":"","exported_at":"2026-04-17T12:00:00Z","dump":"X"}`

func id(n int) memory.ID { return memory.ID(fmt.Sprintf("mem_%025d0", n)) }

// object is a good line of a row, with members replaced: a nil value leaves one out.
func object(n int, with map[string]any) string {
	o := map[string]any{
		"id": id(n), "content": map[string]any{"text": fmt.Sprint("claim ", n), "cardinality": "unknown"},
		"origin": map[string]any{"type": "ModelDerived"}, "asserter": map[string]any{"principal": "eve", "model": "m", "family": "f"},
		"sensitivity": "internal", "criticality": "low", "kind": "raw", "layer": "episodic", "security": "clean", "retrieval": "normal",
		"value_confidence": 0.5, "valid_time_confidence": 0, "created_at": "2026-04-17T12:00:00Z",
		"was": map[string]any{"state": "unverified", "truth": "unverified"},
	}
	for k, v := range with {
		if o[k] = v; v == nil {
			delete(o, k)
		}
	}
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(b)
}

type set = map[string]any

func TestABadLineIsRejectedAloneByNumberAndField(t *testing.T) {
	good := object(2, nil)
	for _, tc := range []struct{ name, line, field, rule string }{
		{"broken JSON", `{"id":}`, "line", "malformed"},
		{"no object", `["id"]`, "line", "malformed"},
		{"two objects", good + good, "line", "trailing_data"},
		{"an unknown field", object(2, set{"verified": true}), "verified", "unknown_field"},
		{"an unknown field that is no name", object(2, set{"Ana's pin": 1}), "line", "unknown_field"},
		{"a field in another case", strings.Replace(good, `"kind"`, `"Kind"`, 1), "line", "unknown_field"},
		{"a field twice", `{"id":"` + string(id(9)) + `",` + good[1:], "id", "duplicate"},
		{"a field of a field twice", strings.Replace(good, `"model":`, `"principal":"x","model":`, 1), "principal", "duplicate"},
		{"a wrong type", object(2, set{"subjects": "ana"}), "subjects", "wrong_type"},
		{"a number out of range", object(2, set{"value_confidence": 1e300}), "value_confidence", "out_of_range"},
		{"a number beyond floats", strings.Replace(good, "0.5", "1e400", 1), "value_confidence", "wrong_type"},
		{"no id", object(2, set{"id": nil}), "id", "malformed"},
		{"an id of another kind", object(2, set{"id": "blk_1"}), "id", "malformed"},
		{"an id that is taken by another claim", object(1, set{"content": set{"text": "other", "cardinality": "unknown"}}), "id", "conflict"},
		{"a bad enumeration", object(2, set{"sensitivity": "none"}), "sensitivity", "unknown_value"},
		{"a bad origin", object(2, set{"origin": set{"type": "Verified"}}), "origin", "unknown_value"},
		{"no origin", object(2, set{"origin": nil}), "origin", "required"},
		{"no sensitivity", object(2, set{"sensitivity": nil}), "sensitivity", "required"},
		{"its own parent", object(2, set{"derived_from": []memory.ID{id(2)}}), "derived_from", "cycle"},
		{"a parent that comes later", object(2, set{"derived_from": []memory.ID{id(3)}}), "derived_from", "not_found"},
		{"a parent that is not there", object(2, set{"derived_from": []memory.ID{id(77)}}), "derived_from", "not_found"},
		{"a parent that is no id", object(2, set{"derived_from": []string{"x"}}), "derived_from", "malformed"},
		{"a time before 1970", object(2, set{"valid_from": "1969-01-01T00:00:00Z"}), "valid_from", "out_of_range"},
		{"it was written before 1970", object(2, set{"created_at": "1960-01-01T00:00:00Z"}), "created_at", "out_of_range"},
		{"no time", object(2, set{"created_at": nil}), "created_at", "required"},
		{"a time that is none", object(2, set{"valid_until": "soon"}), "line", "malformed"},
		{"a year of five digits", object(2, set{"valid_until": "10000-01-01T00:00:00Z"}), "line", "malformed"},
		{"a NUL", object(2, set{"category": "a\x00b"}), "category", "nul"},
		{"a raw NUL", strings.Replace(good, "claim 2", "claim\x002", 1), "line", "malformed"},
		{"invalid UTF-8", strings.Replace(good, "claim 2", "claim \xff", 1), "line", "not_utf8"},
		{"half a surrogate pair", strings.Replace(good, "claim 2", `\ud83d claim`, 1), "line", "not_utf8"},
		{"no claim", object(2, set{"content": set{"cardinality": "unknown"}}), "content", "required"},
		{"a model without family", object(2, set{"asserter": set{"principal": "eve", "model": "m"}}), "asserter.family", "required"},
		{"an anchor of a model", object(2, set{"anchor": "doc:1"}), "anchor", "conflict"},
		{"a text that is too long", object(2, set{"content": set{"text": strings.Repeat("x", memory.MaxText+1), "cardinality": "unknown"}}), "content.text", "too_long"},
		{"a line that is too long", object(2, set{"source": strings.Repeat("x", transfer.MaxLine)}), "line", "too_long"},
		{"nests too deep", object(2, set{"was": json.RawMessage(strings.Repeat("[", 40) + strings.Repeat("]", 40))}), "line", "too_deep"},
		{"bad evidence", object(2, set{"was": set{"state": "unverified", "truth": "unverified", "evidence": []set{{"relation": "supports", "rank": "user"}}}}), "evidence.source", "required"},
		{"a window that is none", object(2, set{"check_every": "often"}), "check_every", "malformed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			r := w.load(transfer.Dump(header, object(1, nil), tc.line, object(3, nil)), transfer.Options{Batch: 2})
			want := transfer.LineError{Line: 3, Field: tc.field, Rule: tc.rule}
			if r.Rejected != 1 || len(r.bad) != 1 || r.bad[0] != want || r.Rows != 2 {
				t.Fatalf("%+v, want %v alone", r, &want)
			}
			if !errors.Is(&r.bad[0], memory.ErrInvalid) || r.bad[0].Error() != fmt.Sprintf("line 3: %s: %s", tc.field, tc.rule) {
				t.Fatal(r.bad[0].Error())
			}
		})
	}
}

func TestEveryFlippedBitOfALineRejectsThatLineAlone(t *testing.T) {
	from := newWorld(t)
	for i := range 3 {
		from.put(modelDraft(text(fmt.Sprint("row ", i))))
	}
	dump := from.export(nil)
	begin := bytes.IndexByte(dump, '\n') + 1
	begin += bytes.IndexByte(dump[begin:], '\n') + 1
	length := bytes.IndexByte(dump[begin:], '\n')
	flips := 0
	for at := begin; at < begin+length; at++ {
		for bit := range 8 {
			broken := bytes.Clone(dump)
			broken[at] ^= 1 << bit
			w := newWorld(t)
			r := w.load(broken, transfer.Options{})
			split := broken[at] == '\n' // then it is two bad lines
			if r.Rows != 2 || r.Complete || slices.ContainsFunc(r.bad, func(e transfer.LineError) bool { return e.Line != 3 && (!split || e.Line != 4) }) || len(r.bad) == 0 {
				t.Fatalf("byte %d, bit %d: %+v", at-begin, bit, r)
			}
			flips++
		}
	}
	t.Logf("%d bits of one line", flips)
}

func TestMissingMovedAndForeignLinesShow(t *testing.T) {
	from := newWorld(t)
	for i := range 5 {
		from.put(modelDraft(text(fmt.Sprint("row ", i))))
	}
	dump := from.export(nil)
	lines := bytes.SplitAfter(dump, []byte("\n"))
	other := bytes.SplitAfter(newWorldWith(t, "elsewhere").export(nil), []byte("\n"))
	for name, cut := range map[string][][]byte{
		"a line is missing":       slices.Delete(slices.Clone(lines), 2, 3),
		"two lines are swapped":   {lines[0], lines[1], lines[3], lines[2], lines[4], lines[5], lines[6]},
		"a line is there twice":   slices.Insert(slices.Clone(lines), 3, lines[2]),
		"a line of another dump":  slices.Insert(slices.Clone(lines), 3, other[1]),
		"the tail is cut":         lines[:4],
		"the last row is cut":     slices.Delete(slices.Clone(lines), 5, 6),
		"a trailer of another":    append(slices.Clone(lines[:6]), other[2]),
		"something follows":       append(slices.Clone(lines), lines[1]),
		"a header of another one": append([][]byte{other[0]}, lines[1:]...),
	} {
		w := newWorld(t)
		if r := w.load(bytes.Join(cut, nil), transfer.Options{}); r.Complete && r.Rejected == 0 {
			t.Errorf("%s: %+v", name, r)
		}
		w.nothingIsTrusted()
	}
}

func newWorldWith(t testing.TB, claims ...string) *world {
	w := newWorld(t)
	for _, c := range claims {
		w.put(modelDraft(text(c)))
	}
	return w
}

func TestAFileThatIsNoDumpIsRefusedWhole(t *testing.T) {
	line := object(1, nil)
	good := string(transfer.Dump(header, line))
	for name, tc := range map[string]struct {
		dump string
		o    transfer.Options
		want error
	}{
		"empty":                     {"", transfer.Options{}, transfer.ErrFormat},
		"empty, as a legacy one":    {"", transfer.Options{Legacy: true}, transfer.ErrFormat},
		"another program's":         {"SQLite format 3\x00\n" + good, transfer.Options{}, transfer.ErrFormat},
		"no header":                 {string(transfer.Dump(line)), transfer.Options{}, transfer.ErrFormat},
		"another schema":            {`{"schema":"hearsay.audit/1"}` + "\n", transfer.Options{}, transfer.ErrFormat},
		"the next version":          {strings.Replace(good, "rows/1", "rows/2", 1), transfer.Options{}, transfer.ErrVersion},
		"a changed header":          {strings.Replace(good, "evil", "good", 1), transfer.Options{}, transfer.ErrFormat},
		"an unknown header field":   {string(transfer.Dump(strings.Replace(header, `"dump"`, `"x":1,"dump"`, 1), line)), transfer.Options{}, transfer.ErrFormat},
		"a dump as a legacy one":    {good, transfer.Options{Legacy: true}, transfer.ErrFormat},
		"a legacy dump as one":      {`{"text":"tea"}`, transfer.Options{}, transfer.ErrFormat},
		"unsigned, with a key":      {good, transfer.Options{Trust: make(ed25519.PublicKey, 32)}, transfer.ErrSignature},
		"a key of the wrong length": {good, transfer.Options{Trust: make(ed25519.PublicKey, 31)}, transfer.ErrSignature},
		"a legacy dump with a key":  {`{"text":"tea"}`, transfer.Options{Legacy: true, Trust: make(ed25519.PublicKey, 32)}, transfer.ErrSignature},
	} {
		w := newWorld(t)
		if _, err := w.tryImport([]byte(tc.dump), tc.o); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		if len(w.rows()) != 0 {
			t.Errorf("%s: something was written", name)
		}
	}
	w := newWorld(t)
	if _, err := transfer.Import(t.Context(), w.Store, strings.NewReader(good), transfer.Options{}); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("without an actor: %v", err)
	}
}

func TestASignatureIsOfAllLinesAndOfOneKey(t *testing.T) {
	public, private := newKey(t)
	from := filled(t)
	dump := from.export(&transfer.ExportOptions{Sign: private})
	other, otherPrivate := newKey(t)
	refused := func(name string, dump []byte, key ed25519.PublicKey) {
		t.Helper()
		w := newWorld(t)
		if _, err := w.tryImport(dump, transfer.Options{Trust: key}); !errors.Is(err, transfer.ErrSignature) && !errors.Is(err, transfer.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
		if len(w.rows()) != 0 {
			t.Errorf("%s: something was written", name)
		}
	}
	refused("another key", dump, other)
	for at := 0; at < len(dump)-1; at += 97 {
		broken := bytes.Clone(dump)
		broken[at] ^= 4
		refused(fmt.Sprint("byte ", at), broken, public)
	}
	lines := bytes.SplitAfter(dump, []byte("\n"))
	for i := range lines[:len(lines)-1] {
		refused(fmt.Sprint("without line ", i+1), bytes.Join(slices.Delete(slices.Clone(lines), i, i+1), nil), public)
	}
	refused("more lines", append(bytes.Clone(dump), lines[1]...), public)
	// A signature of the key for something else, or of another key, by its name.
	var tr map[string]any
	last := lines[len(lines)-2]
	if err := json.Unmarshal(last, &tr); err != nil {
		t.Fatal(err)
	}
	forged := from.export(&transfer.ExportOptions{Sign: otherPrivate})
	refused("forged", bytes.ReplaceAll(forged, []byte(transfer.KeyID(other)), []byte(transfer.KeyID(public))), public)
	w := newWorld(t)
	if _, err := transfer.Import(t.Context(), w.Store, struct{ io.Reader }{bytes.NewReader(dump)}, transfer.Options{Actor: "op", Trust: public}); !errors.Is(err, transfer.ErrSignature) {
		t.Errorf("a stream: %v", err)
	}
}

func TestRowsOfARejectedLineLandWithUnknownLineage(t *testing.T) {
	tool := set{"origin": set{"type": "External", "kind": "ExternalFirstHand"}, "asserter": set{"principal": "eve", "tool": "crm"}, "anchor": "crm:1"}
	child := map[string]any{"derived_from": []memory.ID{id(1)}}
	for k, v := range tool {
		child[k] = v
	}
	w := newWorld(t)
	r := w.load(transfer.Dump(header,
		object(1, set{"sensitivity": "none"}),
		object(2, child),
		object(3, set{"derived_from": []memory.ID{id(2)}}),
		object(4, set{"derived_from": []memory.ID{id(5)}}), // comes later
		object(5, nil)), transfer.Options{})
	if r.Rows != 3 || r.Rejected != 2 || r.bad[0].Line != 2 || r.bad[1].Line != 5 {
		t.Fatalf("%+v", r)
	}
	for _, row := range w.rows()[:2] {
		if !row.Has(memory.FlagLineageUnknown) || row.Origin != memory.OriginModelDerived {
			t.Fatalf("%+v", row)
		}
	}
}

func TestWhatWasKnownAgainstARowStays(t *testing.T) {
	w := newWorld(t)
	w.load(transfer.Dump(header,
		object(1, set{"security": "malicious", "retrieval": "blocked"}), object(2, set{"contested": true}), object(3, set{"security": "suspicious"}),
		object(4, set{"origin": set{"type": "RecallReEntry"}, "retrieval": "normal"}), object(5, set{"tainted": true, "lineage_unknown": true})), transfer.Options{})
	rows := w.rows()
	if r := rows[0]; r.Security != memory.SecurityMalicious || r.Retrieval != memory.RetrievalBlocked || !r.Has(memory.FlagTainted) {
		t.Errorf("%+v", r.Head)
	}
	if r := rows[1]; !r.Has(memory.FlagContested) {
		t.Errorf("%+v", r.Head)
	}
	if r := rows[2]; r.Security != memory.SecuritySuspicious {
		t.Errorf("%+v", r.Head)
	}
	if r := rows[3]; r.Retrieval != memory.RetrievalRestricted {
		t.Errorf("%+v", r.Head)
	}
	if r := rows[4]; !r.Has(memory.FlagTainted | memory.FlagLineageUnknown) {
		t.Errorf("%+v", r.Head)
	}
}

func TestImportedEvidenceNeitherCountsNorStandsInTheWay(t *testing.T) {
	w := newWorld(t)
	real := evidence(memory.RankTool, "tool:crm")
	said := set{"relation": "supports", "rank": "tool", "source": real.Source, "verifier": real.Verifier, "group": real.Group,
		"anchor": set{"uri": real.Anchor.URI}, "at": "9999-12-31T00:00:00Z"}
	against := set{"relation": "contradicts", "rank": "user", "source": "ana", "verifier": "ana", "group": "user:ana", "at": "2026-01-01T00:00:00Z"}
	w.load(transfer.Dump(header, object(1, set{"was": set{"state": "verified", "truth": "supported", "rank": "user", "evidence": []set{said, said, against}}})), transfer.Options{})
	w.nothingIsTrusted()
	row := w.rows()[0]
	if len(row.Evidence) != 3 {
		t.Fatalf("%+v", row.Evidence)
	}
	_, err := w.Apply(t.Context(), memory.Transition{Row: row.ID, Revision: row.Revision, To: memory.TruthSupported, Authority: memory.AuthorityProbe,
		Actor: "worker", Source: "crm", Reason: "again, from what came along", Evidence: nil})
	if !errors.Is(err, memory.ErrInsufficient) {
		t.Fatalf("imported evidence verified a row: %v", err)
	}
	w.move(row.ID, memory.TruthSupported, memory.AuthorityProbe, real)
}

func TestALegacyDumpLandsUnverified(t *testing.T) {
	dump := strings.Join([]string{
		`{"id":1,"text":"Ana likes tea","verified":true,"confidence":0.99,"status":"CONFIRMED","embedding":[1,2],"category":"fact","source":"user","created_at":"2024-01-02 03:04:05"}`,
		`{"subject":"acme","predicate":"owes","object":"12 EUR","model":"old-model","timestamp":1700000000.5}`,
		``,
		`{"content":"Ana likes  TEA"}`,
		`{"content":"Ana likes  TEA"}`,
		`{"text":"dup","text":"dup"}`,
		`{"text":7}`,
		`{"note":"nothing"}`,
		`not json`,
		`{"subject":"acme","predicate":"owes"}`,
		`{"text":"old","created_at":"1066-10-14T00:00:00Z"}`,
		`{"text":"odd","created_at":"yesterday"}`,
		`{"text":"last","Derived-From":["x"],"provenance":"verified"}` + "\r",
	}, "\n")
	for _, stream := range []bool{false, true} {
		w := newWorld(t)
		var r result
		if stream {
			var err error
			r.Report, err = transfer.Import(t.Context(), w.Store, struct{ io.Reader }{strings.NewReader(dump)}, transfer.Options{Actor: "operator", Legacy: true, Batch: 2})
			if err != nil {
				t.Fatal(err)
			}
		} else {
			r = w.load([]byte(dump), transfer.Options{Legacy: true, Batch: 2})
			want := []transfer.LineError{{6, "text", "duplicate"}, {7, "text", "wrong_type"}, {8, "content", "required"}, {9, "line", "malformed"},
				{10, "content.object", "required"}, {11, "created_at", "out_of_range"}, {12, "created_at", "malformed"}}
			slices.SortFunc(r.bad, func(a, b transfer.LineError) int { return a.Line - b.Line })
			if !slices.Equal(r.bad, want) {
				t.Fatalf("%+v", r.bad)
			}
		}
		if r.Rows != 4 || r.Known != 1 || r.Rejected != 7 || r.Lines != 13 {
			t.Fatalf("%+v", r)
		}
		w.nothingIsTrusted()
		rows := w.rows()
		for _, row := range rows {
			if row.Origin != memory.OriginModelDerived || !row.Has(memory.FlagLineageUnknown) || row.Sensitivity != memory.SensitivitySecret || row.ValueConfidence != 0 {
				t.Fatalf("%+v", row)
			}
		}
		if r := rows[0]; r.Category != "fact" || r.Source != "user" {
			t.Fatalf("%+v", r)
		}
		if r := rows[1]; r.Asserter.Model != "old-model" {
			t.Fatalf("%+v", r)
		}
		log, err := w.History(t.Context(), rows[0].ID, false)
		if err != nil || !strings.Contains(log[0].Reason, "verified true") || !strings.Contains(log[0].Reason, "written there 2024-01-02") {
			t.Fatal(log, err)
		}
		if r := w.load([]byte(dump), transfer.Options{Legacy: true}); r.Rows+r.Collapsed != 0 {
			t.Fatalf("%+v", r)
		}
	}
}

// TestNoDumpRaisesTrust holds I-1 and I-3 against dumps that say whatever they like.
func TestNoDumpRaisesTrust(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "rows")
		objects := []string{header}
		pick := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, name) }
		for i := 1; i <= n; i++ {
			with := set{
				"origin": json.RawMessage(pick("origin", `{"type":"External","kind":"UserAsserted"}`, `{"type":"External","kind":"ExternalFirstHand"}`,
					`{"type":"RecallReEntry"}`, `{"type":"ModelDerived"}`)),
				"security": pick("security", "clean", "suspicious", "quarantined", "malicious"), "retrieval": pick("retrieval", "hidden", "restricted", "normal", "privileged_only", "blocked"),
				"content": set{"subject": pick("subject", "ana", "eve"), "predicate": "owes", "object": pick("object", "1", "2", "3"), "cardinality": "functional"},
				"was": set{"state": pick("state", "unverified", "unavailable_at_write_time", "verified"), "truth": pick("truth", "unverified", "supported", "contradicted", "superseded"),
					"rank": pick("rank", "recall", "model", "second_model", "tool", "primary_source", "user"), "verified_at": "2026-04-17T12:00:00Z",
					"evidence": []set{{"relation": pick("relation", "supports", "contradicts", "contextualizes"), "rank": pick("rank of evidence", "tool", "user"),
						"source": "crm", "verifier": "crm", "group": "tool:crm", "at": "2026-04-17T12:00:00Z", "void": rapid.Bool().Draw(rt, "void")}}},
			}
			switch o := string(with["origin"].(json.RawMessage)); {
			case strings.Contains(o, "UserAsserted"):
				with["asserter"] = set{"principal": pick("who", "ana", "eve")}
			case strings.Contains(o, "FirstHand"):
				with["asserter"], with["anchor"] = set{"principal": "eve", "tool": "crm"}, pick("anchor", "crm:1", "crm:2")
			}
			if p := rapid.IntRange(0, n+1).Draw(rt, "parent"); p > 0 {
				with["derived_from"] = []memory.ID{id(p)}
			}
			o := object(i, with)
			if rapid.IntRange(0, 9).Draw(rt, "broken") == 0 {
				o = strings.Replace(o, `"kind"`, `"knid"`, 1)
			}
			objects = append(objects, o)
		}
		w := newWorld(t)
		var before []memory.Receipt
		for _, d := range []memory.Draft{userDraft("ana", says("ana", "owes", "1")), modelDraft(says("eve", "owes", "2"))} {
			r, err := w.Put(t.Context(), d)
			if err != nil {
				rt.Fatal(err)
			}
			before = append(before, r)
		}
		r, err := w.tryImport(transfer.Dump(objects...), transfer.Options{Batch: rapid.IntRange(1, 5).Draw(rt, "batch")})
		if err != nil || r.Rows+r.Collapsed+r.Known+r.Rejected != n {
			rt.Fatalf("%+v %v", r, err)
		}
		for _, row := range w.rows() {
			ours := false
			for _, b := range before { // what was here is what it was
				if row.ID == b.ID {
					ours = true
					if row.Revision != b.Revision || row.State() != b.State {
						rt.Fatalf("%+v", row)
					}
				}
			}
			if ours {
				continue
			}
			seen[row.Origin.String()]++
			if row.State() != memory.StateUnverified || row.Origin.External() || row.Independent() != 0 || row.Rank != 0 || row.Anchor != "" {
				rt.Fatalf("%+v", row)
			}
			// Nor does any of what came along verify it later.
			_, err := w.Apply(t.Context(), memory.Transition{Row: row.ID, Revision: row.Revision, To: memory.TruthSupported, Authority: memory.AuthorityProbe,
				Actor: "worker", Source: "crm", Reason: "from what came along"})
			if !errors.Is(err, memory.ErrInsufficient) {
				rt.Fatalf("%v", err)
			}
			up, err := w.Closure(t.Context(), row.ID)
			if err != nil || slices.Contains(up, row.ID) {
				rt.Fatal(up, err)
			}
		}
		w.sound()
	})
	if seen["model_derived"] == 0 || seen["recall_reentry"] == 0 {
		t.Fatal(seen)
	}
}

// FuzzLine asks that what the parser of lines accepts is a row which can be written
// and says on the way out again what it said.
func FuzzLine(f *testing.F) {
	for _, w := range bytes.Split(transfer.Dump(header, object(1, nil), object(2, set{"derived_from": []memory.ID{id(1)}, "check_every": "1h"})), []byte("\n")) {
		f.Add(w)
	}
	f.Add([]byte(`{"text":"tea","created_at":1}`))
	f.Add([]byte(`{"id":"\ud83d"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if m, err := transfer.ParseLegacy(line, transfer.Options{Actor: "op", Sensitivity: memory.SensitivitySecret}); err == nil {
			if m.Draft.State != memory.StateUnverified || m.Draft.Origin != memory.OriginModelDerived || !m.Draft.LineageUnknown || !json.Valid(line) {
				t.Fatalf("%+v", m)
			}
		}
		m, err := transfer.Parse(line)
		if err != nil {
			if !errors.Is(err, memory.ErrInvalid) {
				t.Fatalf("an error without a field: %v", err)
			}
			return
		}
		if m.Draft.State != memory.StateUnverified || !memory.ID(m.Name).Valid() || slices.Contains(m.DerivedFrom, m.Name) || m.WrittenAt.IsZero() {
			t.Fatalf("%+v", m)
		}
		w := newWorld(t)
		m.Lacking = true
		i, err := w.Importing(t.Context(), memory.ImportSource{Name: "fuzz", Actor: "op"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := i.Put(t.Context(), []memory.Imported{m}, func([]memory.ImportReceipt) []byte { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Err == nil && w.rows()[0].Content != m.Draft.Content {
			t.Fatalf("%+v", w.rows()[0])
		}
		w.nothingIsTrusted()
	})
}

// swapped is a file that becomes another one once it was read.
type swapped struct {
	*bytes.Reader
	then []byte
}

func (r *swapped) Seek(at int64, whence int) (int64, error) {
	if whence == io.SeekStart {
		r.Reader = bytes.NewReader(r.then)
	}
	return r.Reader.Seek(at, whence)
}

// TestADumpThatIsChangedAfterItsSignatureWasVerified keeps nothing that was not signed,
// wherever it stands and whether or not its chain holds.
func TestADumpThatIsChangedAfterItsSignatureWasVerified(t *testing.T) {
	public, private := newKey(t)
	_, theirs := newKey(t)
	lines := func(object string, key ed25519.PrivateKey) [][]byte {
		w := newWorld(t)
		for i := range 300 {
			w.put(toolDraft(says(fmt.Sprint("bill ", i), "is", object), "crm"))
		}
		return bytes.SplitAfter(w.export(&transfer.ExportOptions{Sign: key}), []byte("\n"))
	}
	signed, other := lines("open", private), lines("paid", theirs)
	kept := 0
	for _, cut := range []int{0, 1, 2, 99, 100, 101, 150, 250, 300, 301} {
		head, tail := bytes.Join(signed[:cut], nil), bytes.Join(other[cut:], nil)
		for name, then := range map[string][]byte{
			"other lines follow":         slices.Concat(head, tail),
			"lines that fit follow":      transfer.Rechain(slices.Concat(head, tail)),
			"a line comes between":       slices.Concat(head, other[1], bytes.Join(signed[cut:], nil)),
			"a line that fits is put in": transfer.Rechain(slices.Concat(head, other[1], bytes.Join(signed[cut:], nil))),
			"it is cut":                  head,
		} {
			w := newWorld(t)
			o := transfer.Options{Actor: "op", Trust: public, Batch: 10}
			if _, err := transfer.Import(t.Context(), w.Store, &swapped{bytes.NewReader(bytes.Join(signed, nil)), then}, o); err == nil {
				t.Errorf("line %d, %s: taken", cut+1, name)
			}
			for _, r := range w.rows() {
				if kept++; r.Content.Object != "open" {
					t.Fatalf("line %d, %s: %q was taken, %s", cut+1, name, r.Content, r.Origin)
				}
			}
			if cut == 250 { // the dump itself goes on from there
				if r := w.load(bytes.Join(signed, nil), transfer.Options{Trust: public}); r.Rows+r.Known != 300 || !r.Complete || r.Resumed == 0 {
					t.Fatalf("%s: %+v", name, r)
				}
			}
		}
	}
	if kept == 0 {
		t.Fatal("what was signed is not kept either")
	}
}

// An unsigned line says nothing about its own bar: whose it is, how grave it would be if it
// were wrong, and what it was made from are taken at their worst, of every origin.
func TestAnUnsignedLineChoosesNothingAboutItsOwnBar(t *testing.T) {
	for _, origin := range []string{"model_derived", "inferred", "user_asserted", "first_hand"} {
		w := newWorld(t)
		r := w.load(transfer.Dump(header, object(1, set{"origin": origin, "criticality": "low",
			"asserter": set{"principal": "eve", "model": "sonnet", "family": "nobody"}})), transfer.Options{})
		if r.Rows+r.Rejected != 1 {
			t.Fatalf("%s: %+v", origin, r)
		}
		for _, row := range w.rows() {
			if row.Criticality != memory.CriticalityCritical || !row.Has(memory.FlagLineageUnknown) || row.Asserter.Family == "nobody" || row.State() == memory.StateVerified {
				t.Errorf("%s: %s, %v, family %q, %s", origin, row.Criticality, row.Flags.Names(), row.Asserter.Family, row.State())
			}
		}
	}
}
