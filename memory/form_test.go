package memory

import (
	"reflect"
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
