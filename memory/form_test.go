package memory

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func drawHead(t *rapid.T) Head {
	enum := func(name string, n int) uint8 { return uint8(rapid.IntRange(0, n).Draw(t, name)) }
	moment := func(name string) time.Time { return fromMicros(rapid.Int64Range(0, 1<<50).Draw(t, name)) }
	token := func(name string) Token { return Token(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, name)) }
	return Head{Origin: Origin(enum("origin", 4)), Truth: Truth(enum("truth", 4)), Retrieval: Retrieval(enum("retrieval", 5)),
		Security: Security(enum("security", 4)), Freshness: Freshness(enum("freshness", 3)), Outage: Outage(enum("outage", 3)),
		Sensitivity: Sensitivity(enum("sensitivity", 4)), Criticality: Criticality(enum("criticality", 4)), Kind: Kind(enum("kind", 8)),
		Layer: Layer(enum("layer", 6)), Rank: Rank(enum("rank", 6)), Flags: Flags(rapid.Uint16Range(0, 31).Draw(t, "flags")),
		Depth: rapid.Uint32().Draw(t, "depth"), CreatedAt: moment("created"), VerifiedAt: moment("verified"), StaleAt: moment("stale"),
		ExpiresAt: moment("expires"), ValidFrom: moment("from"), ValidUntil: moment("until"), Speaker: token("speaker"), Commitment: token("commitment"), Claim: token("claim"), Group: token("group"),
		Class: Class(rapid.Uint64().Draw(t, "class")), evidence: rapid.Uint32().Draw(t, "evidence"),
		ancestors: rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "ancestors")}
}

func TestAHeadIsTheFirstOneMovedByTheLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, last := drawHead(t), drawHead(t)
		want := first
		want.Origin, want.Truth, want.Retrieval, want.Security, want.Freshness, want.Outage = last.Origin, last.Truth, last.Retrieval, last.Security, last.Freshness, last.Outage
		want.Sensitivity, want.Criticality, want.Kind, want.Layer, want.Rank, want.Flags = last.Sensitivity, last.Criticality, last.Kind, last.Layer, last.Rank, last.Flags
		want.VerifiedAt, want.StaleAt, want.ExpiresAt, want.ValidFrom, want.ValidUntil = last.VerifiedAt, last.StaleAt, last.ExpiresAt, last.ValidFrom, last.ValidUntil
		want.Speaker, want.evidence = last.Speaker, last.evidence
		got, err := replay(first.encode(), last.encodeMoving(), false)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n%+v\nwant\n%+v", err, got, want)
		}
		var back Head
		if err := back.decode(want.encode()); err != nil || !reflect.DeepEqual(back, want) {
			t.Fatalf("%v\n%+v\nwant\n%+v", err, back, want)
		}
		if err := back.decode(first.encodeMoving()); err == nil {
			t.Fatal("what moves is read as a head")
		}
	})
}

func TestBodiesAndEvidenceReadAsTheyWereWritten(t *testing.T) {
	id := ID(newID(idPrefix, 1_700_000_000_000_000, 1, [8]byte{7}))
	rapid.Check(t, func(t *rapid.T) {
		str := rapid.StringN(0, 20, 80)
		v := body{Content: Content{Text: str.Draw(t, "text"), Subject: str.Draw(t, "subject"), Cardinality: CardinalityFunctional}, Origin: OriginFirstHand,
			Asserter: Asserter{Principal: str.Draw(t, "principal")}, DerivedFrom: []ID{id}, Subjects: []string{"a", str.Draw(t, "about")},
			ValidFrom: fromMicros(rapid.Int64Range(0, 1<<50).Draw(t, "from")), CheckEvery: time.Hour}
		v.Supersedes, v.Quotes, v.DeclaredFrom, v.AgentVersion, v.Task, v.Purpose = id, id, []ID{id}, "v1", "task", "billing"
		v.DataClass, v.Domains, v.SaidAt, v.ValidFromGrain = DataClassPersonal, []string{"x"}, v.ValidFrom, GranularityDay
		v.ValidFromConfidence, v.Foreign = 0.5, []Attribute{{"score", str.Draw(t, "value")}}
		v.ValidUntilGrain, v.ValidUntilConfidence = GranularityMonth, 0.25
		var got body
		if err := got.decode(v.encode()); err != nil || !reflect.DeepEqual(got, v) {
			t.Fatalf("%v\n%+v\nwant\n%+v", err, got, v)
		}

		e := Evidence{Relation: RelationSupports, Rank: RankTool, Source: str.Draw(t, "source"), Group: "g", At: v.ValidFrom, Quorum: 2, Void: true, Kind: SourceKindTool}
		d := decoder{b: encodeEvidence([]Evidence{e, e})}
		if list := d.evidence(); d.end() != nil || len(list) != 2 || !reflect.DeepEqual(list[1], e) {
			t.Fatalf("evidence: %+v", list)
		}
	})
}

// A record with an optional member that this version does not know is refused, and the error
// names the member and the record.
func TestAMemberThatIsNotKnownIsRefused(t *testing.T) {
	with := func(b []byte) []byte { // ends with the zero that ends its members
		return append(binary.AppendUvarint(bytes.Clone(b[:len(b)-1]), 99), 1, 0)
	}
	tried := 0
	for name, decode := range map[string]func() error{
		"row body": func() error { return faulty(new(body).decode(with((&body{}).encode())), "row body") },
		"row evidence": func() error {
			d := decoder{b: with(encodeEvidence([]Evidence{{Source: "s"}}))}
			d.evidence()
			return faulty(d.end(), "row evidence")
		},
		"line": func() error {
			_, err := lineOf(Object{Data: with((&lineRecord{}).encode())})
			return err
		},
		"mark of a call": func() error {
			_, err := callMarkOf(with((&callMark{fired: "dec_1"}).encode()))
			return err
		},
		"decision record": func() error {
			return faulty(fromJSON([]byte(`{"id":"dec_1","99":1}`), new(keptDecision)), "decision record")
		},
		"hold": func() error {
			return faulty(fromJSON([]byte(`{"id":"hold_1","99":1}`), &keptHold{Hold: new(Hold)}), "hold")
		},
	} {
		err := decode()
		if !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "99") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		tried++
	}
	t.Logf("%d kinds of records", tried)
}

// A member that is out of order, there twice, or there with the zero value is damage.
func TestMembersHaveOneForm(t *testing.T) {
	plain := (&body{}).encode()
	plain = plain[:len(plain)-1]
	for name, c := range map[string]struct {
		members string
		want    error
	}{
		"in order":          {"\x04\x01v\x05\x01t\x00", nil},
		"out of order":      {"\x05\x01t\x04\x01v\x00", ErrDamaged},
		"twice":             {"\x04\x01v\x04\x01v\x00", ErrDamaged},
		"an empty string":   {"\x04\x00\x00", ErrDamaged},
		"an empty list":     {"\x08\x00\x00", ErrDamaged},
		"a zero byte":       {"\x07\x00\x00", ErrDamaged},
		"no end":            {"\x04\x01v", ErrDamaged},
		"more than the end": {"\x00\x00", ErrDamaged},
	} {
		err := faulty(new(body).decode(append(bytes.Clone(plain), c.members...)), "row body")
		if !errors.Is(err, c.want) || errors.Is(err, ErrSchema) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// One value has one form: what decodes encodes to the same bytes.
func FuzzARecordHasOneForm(f *testing.F) {
	f.Add(byte(0), (&body{Task: "t", Domains: []string{"x"}, SaidAt: fromMicros(1)}).encode())
	f.Add(byte(1), encodeEvidence([]Evidence{{Source: "s", Authority: "a"}, {Anchor: Anchor{URI: "u"}}}))
	f.Add(byte(2), (&lineRecord{By: "mem_1"}).encode())
	f.Add(byte(3), (&callMark{hold: "hold_1", done: "dec_1"}).encode())
	f.Add(byte(3), (&callMark{fired: "dec_1", at: fromMicros(1), slot: Token{1}}).encode())
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		var again []byte
		switch kind % 4 {
		case 0:
			var v body
			if v.decode(b) != nil {
				return
			}
			again = v.encode()
		case 1:
			d := decoder{b: b}
			list := d.evidence()
			if d.end() != nil {
				return
			}
			again = encodeEvidence(list)
		case 2:
			l, err := lineOf(Object{Data: b})
			if err != nil || b == nil {
				return
			}
			again = l.encode()
		default:
			m, err := callMarkOf(b)
			if err != nil || len(b) == 0 {
				return
			}
			again = m.encode()
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("%q is encoded as %q", b, again)
		}
	})
}
