package transfer

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/visible"
)

// Schema names the form of a dump.
const Schema = "hearsay.rows/1"

// MaxLine is the most bytes of a line. A row that takes more is not exported whole:
// its evidence is left out.
const MaxLine = 4 << 20

type header struct {
	Schema     string    `json:"schema"`
	Tenant     string    `json:"tenant"`
	Namespace  string    `json:"namespace"`
	ExportedAt time.Time `json:"exported_at"`
	Dump       string    `json:"dump"` // random: no two dumps share it
	Hash       string    `json:"hash,omitempty"`
}

// row is the line of a row. What follows created_at is information.
type row struct {
	ID                  memory.ID          `json:"id"`
	Content             memory.Content     `json:"content"`
	Origin              memory.Origin      `json:"origin"`
	Asserter            memory.Asserter    `json:"asserter"`
	Subjects            []string           `json:"subjects,omitempty"`
	DerivedFrom         []memory.ID        `json:"derived_from,omitempty"`
	SelectedBy          []memory.ID        `json:"selected_by,omitempty"`
	Quotes              memory.ID          `json:"quotes,omitempty"`
	LineageUnknown      bool               `json:"lineage_unknown,omitempty"`
	Anchor              string             `json:"anchor,omitempty"`
	Sensitivity         memory.Sensitivity `json:"sensitivity"`
	Criticality         memory.Criticality `json:"criticality"`
	Kind                memory.Kind        `json:"kind"`
	Layer               memory.Layer       `json:"layer,omitzero"`
	Security            memory.Security    `json:"security"`
	Retrieval           memory.Retrieval   `json:"retrieval"`
	Contested           bool               `json:"contested,omitempty"`
	Tainted             bool               `json:"tainted,omitempty"`
	ValueConfidence     float64            `json:"value_confidence"`
	ValidTimeConfidence float64            `json:"valid_time_confidence"`
	ValidFrom           time.Time          `json:"valid_from,omitzero"`
	ValidUntil          time.Time          `json:"valid_until,omitzero"`
	CheckEvery          string             `json:"check_every,omitempty"`
	Source              string             `json:"source,omitempty"`
	Category            string             `json:"category,omitempty"`
	Run                 string             `json:"run,omitempty"`
	CreatedAt           time.Time          `json:"created_at"`
	Was                 was                `json:"was"`
	Prev                string             `json:"prev,omitempty"`
	Hash                string             `json:"hash,omitempty"`
}

// was is what the exporting store held of a row, which proves nothing here.
type was struct {
	State      memory.State      `json:"state"`
	Truth      memory.Truth      `json:"truth"`
	Rank       memory.Rank       `json:"rank,omitzero"`
	VerifiedAt time.Time         `json:"verified_at,omitzero"`
	Evidence   []memory.Evidence `json:"evidence,omitempty"`
	Echoes     memory.Echoes     `json:"echoes,omitzero"`
	Rejected   bool              `json:"rejected,omitempty"` // by a user
}

// lostRow is the line of a row that nobody could read when the dump was made. What was made from
// it is imported with an unknown lineage. Held says that the row was quarantined or under suspicion,
// or that this is not known: what was made from it is under suspicion too.
type lostRow struct {
	ID     memory.ID `json:"id"`
	Unread bool      `json:"unread"`
	Held   bool      `json:"held,omitempty"`
	Prev   string    `json:"prev,omitempty"`
	Hash   string    `json:"hash,omitempty"`
}

type trailer struct {
	End  end    `json:"end"`
	Prev string `json:"prev,omitempty"`
	Hash string `json:"hash,omitempty"`
}

type end struct {
	Rows      int    `json:"rows"`
	Digest    string `json:"digest"`
	Key       string `json:"key,omitempty"` // see KeyID
	Signature []byte `json:"signature,omitempty"`
}

// sum is a hash of the chain.
type sum [sha256.Size]byte

func (s sum) String() string { return hex.EncodeToString(s[:]) }

// chained ends the JSON of a line with the hash of the line before, if there is one,
// and its own.
func chained(object []byte, prev *sum) (line []byte, own sum) {
	line = object[:len(object)-1]
	if prev != nil {
		line = append(line, `,"prev":"`...)
		line = hex.AppendEncode(line, prev[:])
		line = append(line, '"')
	}
	own = hashed(line)
	line = append(line, `,"hash":"`...)
	line = hex.AppendEncode(line, own[:])
	return append(line, `"}`...), own
}

func hashed(b []byte) (own sum) {
	h := sha256.New()
	h.Write([]byte(Schema + "\n"))
	h.Write(b)
	h.Sum(own[:0])
	return own
}

// member is the length of the last member of a line, a hash: `,"hash":"…"`.
const member = len(`,"hash":""`) + 2*sha256.Size

// verify holds a line against its own hash, byte by byte: the digits are in lower
// case, so that there is one form.
func verify(line []byte) (own sum, ok bool) {
	cut := len(line) - member - 1
	if cut < 0 {
		return own, false
	}
	own = hashed(line[:cut])
	return own, string(line[cut:]) == `,"hash":"`+own.String()+`"}`
}

// digest covers the chain and what it is the chain of.
func digest(head, last sum, rows int) sum {
	b := append([]byte("end\n"), head[:]...)
	b = append(b, last[:]...)
	return hashed(binary.BigEndian.AppendUint64(b, uint64(rows)))
}

// signed is the form that is signed. Its domain keeps a signature for one purpose
// from counting for another.
func signed(digest sum) []byte {
	var b []byte
	for _, p := range [...]string{"hearsay/rows/1", string(digest[:])} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}

// KeyID names a public key in dumps and reports.
func KeyID(k ed25519.PublicKey) string {
	h := sha256.Sum256(k)
	return "ed25519:" + hex.EncodeToString(h[:8])
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return visible.JSON(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

func newDump() string { return rand.Text() }

// wire is the line of a row of a store.
func wire(r *memory.Row) row {
	w := row{ID: r.ID, Content: r.Content, Origin: r.Origin, Asserter: r.Asserter, Subjects: r.Subjects, DerivedFrom: r.DerivedFrom, SelectedBy: r.SelectedBy, Quotes: r.Quotes,
		LineageUnknown: r.Has(memory.FlagLineageUnknown), Anchor: r.Anchor, Sensitivity: r.Sensitivity, Criticality: r.Criticality, Kind: r.Kind, Layer: r.Layer,
		Security: r.Security, Retrieval: r.Retrieval, Contested: r.Has(memory.FlagContested), Tainted: r.Has(memory.FlagTainted),
		ValueConfidence: r.ValueConfidence, ValidTimeConfidence: r.ValidTimeConfidence, ValidFrom: r.ValidFrom, ValidUntil: r.ValidUntil,
		Source: r.Source, Category: r.Category, Run: r.Run, CreatedAt: r.CreatedAt,
		Was: was{State: r.State(), Truth: r.Truth, Rank: r.Rank, VerifiedAt: r.VerifiedAt, Evidence: r.Evidence, Echoes: r.Echoes, Rejected: r.Rejection != nil}}
	if r.Truth == memory.TruthContradicted || w.Was.Rejected {
		w.Contested = true
	}
	// A row is stale one window after it was checked, and expires after three.
	if window := r.ExpiresAt.Sub(r.StaleAt) / 2; window != memory.DefaultCheckEvery {
		w.CheckEvery = window.String()
	}
	return w
}

// parse reads the line of a row.
func parse(line []byte) (memory.Imported, error) {
	var w row
	if err := strict(line, &w); err != nil {
		var lost lostRow
		if strict(line, &lost) == nil && lost.Unread {
			err = bad("unread", "unreadable")
		}
		return memory.Imported{}, err
	}
	if !w.ID.Valid() {
		return memory.Imported{}, bad("id", "malformed")
	}
	m := memory.Imported{Name: string(w.ID), Security: w.Security, Retrieval: w.Retrieval, WrittenAt: w.CreatedAt, Note: w.Was.State.String()}
	for _, ids := range [...]struct {
		field string
		in    []memory.ID
		out   *[]string
	}{{"derived_from", w.DerivedFrom, &m.DerivedFrom}, {"selected_by", w.SelectedBy, &m.SelectedBy}} {
		for _, id := range ids.in {
			switch {
			case !id.Valid():
				return memory.Imported{}, bad(ids.field, "malformed")
			case id == w.ID:
				return memory.Imported{}, bad(ids.field, "cycle")
			}
			*ids.out = append(*ids.out, string(id))
		}
	}
	switch {
	case w.Quotes == "":
	case !w.Quotes.Valid():
		return memory.Imported{}, bad("quotes", "malformed")
	case w.Quotes == w.ID:
		return memory.Imported{}, bad("quotes", "cycle")
	}
	m.Quotes = string(w.Quotes)
	if w.Contested {
		m.Flags |= memory.FlagContested
	}
	if w.Tainted {
		m.Flags |= memory.FlagTainted
	}
	m.Draft = memory.Draft{Content: w.Content, Origin: w.Origin, State: memory.StateUnverified, Asserter: w.Asserter, Subjects: w.Subjects,
		LineageUnknown: w.LineageUnknown, Evidence: w.Was.Evidence, Anchor: w.Anchor, Sensitivity: w.Sensitivity, Criticality: w.Criticality,
		Kind: w.Kind, Layer: w.Layer, ValueConfidence: w.ValueConfidence, ValidTimeConfidence: w.ValidTimeConfidence,
		ValidFrom: w.ValidFrom, ValidUntil: w.ValidUntil, Source: w.Source, Category: w.Category, Run: w.Run}
	if w.CheckEvery != "" {
		every, err := time.ParseDuration(w.CheckEvery)
		if err != nil {
			return memory.Imported{}, bad("check_every", "malformed")
		}
		m.Draft.CheckEvery = every
	}
	if w.CreatedAt.IsZero() {
		return memory.Imported{}, bad("created_at", "required")
	}
	if !inRange(w.CreatedAt) {
		return memory.Imported{}, bad("created_at", "out_of_range")
	}
	return m, nil
}

// split takes apart what other programs write in one line: a triple,
// and words beside it. The words become a row that quotes the triple.
func split(m memory.Imported) []memory.Imported {
	words := m.Draft.Content.Beside()
	if words == "" {
		return []memory.Imported{m}
	}
	q := m
	q.Name, q.Quotes = m.Name+" quoted", m.Name
	q.Draft = memory.Quotation("", m.Draft, words)
	m.Draft.Content.Text = ""
	if memory.Canonical(words) == "" {
		return []memory.Imported{m}
	}
	return []memory.Imported{m, q}
}

func inRange(t time.Time) bool {
	return !t.Before(time.Date(1970, 1, 1, 0, 0, 1, 0, time.UTC)) && t.UTC().Year() <= 9999
}

// strict decodes one JSON object. It refuses what encoding/json lets pass: invalid
// UTF-8, halves of surrogate pairs, a key given twice or in another letter case, an
// unknown key, more than one value (T5).
func strict(b []byte, into any) error {
	if err := scan(b, true); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		return nil
	}
	var field *memory.FieldError
	var typed *json.UnmarshalTypeError
	switch {
	case errors.As(err, &field):
		return field
	case errors.As(err, &typed):
		if typed.Field == "" {
			typed.Field = wholeLine
		}
		return bad(typed.Field, "wrong_type")
	}
	if name, ok := strings.CutPrefix(err.Error(), `json: unknown field "`); ok {
		return bad(strings.TrimSuffix(name, `"`), "unknown_field")
	}
	return bad(wholeLine, "malformed")
}

// maxDepth is of nested arrays and objects.
const maxDepth = 16

// scan asks that b is one JSON object without a key twice. ours says that keys are of
// lower-case letters and underscores.
func scan(b []byte, ours bool) error {
	if !utf8.Valid(b) || halfSurrogate(b) {
		return bad(wholeLine, "not_utf8")
	}
	if !json.Valid(b) {
		var first json.RawMessage
		if json.NewDecoder(bytes.NewReader(b)).Decode(&first) == nil {
			return bad(wholeLine, "trailing_data")
		}
		return bad(wholeLine, "malformed")
	}
	if b = bytes.TrimLeft(b, " \t\r"); b[0] != '{' {
		return bad(wholeLine, "malformed")
	}
	// It is JSON, so that in an object a string after a brace or comma is a key.
	var open []keys
	key := false
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			if len(open) == maxDepth {
				return bad(wholeLine, "too_deep")
			}
			key = b[i] == '{'
			open = append(open, keys{object: key})
		case '}', ']':
			open = open[:len(open)-1]
			key = false
		case ',':
			key = open[len(open)-1].object
		case '"':
			from := i
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if !key {
				continue
			}
			key = false
			name, err := keyOf(b[from:i+1], ours)
			if err != nil {
				return err
			}
			if !open[len(open)-1].add(name) {
				return bad(name, "duplicate")
			}
		}
	}
	return nil
}

func keyOf(quoted []byte, ours bool) (string, error) {
	name := string(quoted[1 : len(quoted)-1])
	if ours {
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			return "", bad(name, "unknown_field")
		}
		return name, nil
	}
	if strings.Contains(name, `\`) && json.Unmarshal(quoted, &name) != nil {
		return "", bad(wholeLine, "malformed")
	}
	return name, nil
}

// keys are the keys of one object so far; few as a rule.
type keys struct {
	object bool
	few    []string
	many   map[string]bool
}

func (k *keys) add(name string) bool {
	const few = 40
	if k.many == nil && len(k.few) < few {
		if slices.Contains(k.few, name) {
			return false
		}
		k.few = append(k.few, name)
		return true
	}
	if k.many == nil {
		k.many = map[string]bool{}
		for _, n := range k.few {
			k.many[n] = true
		}
	}
	if k.many[name] {
		return false
	}
	k.many[name] = true
	return true
}

// halfSurrogate finds an escaped half of a surrogate pair, which encoding/json
// replaces by another character.
func halfSurrogate(b []byte) bool {
	unit := func(b []byte) uint64 {
		if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
			return 0
		}
		v, _ := strconv.ParseUint(string(b[2:6]), 16, 16)
		return v
	}
	for {
		at := bytes.IndexByte(b, '\\')
		if at < 0 || at+1 >= len(b) {
			return false
		}
		b = b[at:]
		switch v := unit(b); {
		case v>>10 == 0xd800>>10:
			if next := unit(b[6:]); next>>10 != 0xdc00>>10 {
				return true
			}
			b = b[12:]
		case v>>10 == 0xdc00>>10:
			return true
		default:
			b = b[2:]
		}
	}
}
