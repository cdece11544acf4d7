package memory_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// text is a pointer to an enumeration.
type text[T any] interface {
	*T
	encoding.TextUnmarshaler
}

func enum[T interface {
	~uint8
	fmt.Stringer
	encoding.TextMarshaler
}, P text[T]](t *testing.T, name string, names ...string) {
	t.Run(name, func(t *testing.T) {
		for i, want := range names {
			v := T(i + 1)
			b, err := v.MarshalText()
			if err != nil || string(b) != want || v.String() != want {
				t.Errorf("%d is %q, %v; want %q", i+1, b, err, want)
			}
			var back T
			if err := P(&back).UnmarshalText(b); err != nil || back != v {
				t.Errorf("%q does not come back: %v %v", b, back, err)
			}
		}
		for _, v := range []T{0, T(len(names) + 1), 255} {
			if _, err := v.MarshalText(); !errors.Is(err, memory.ErrInvalid) {
				t.Errorf("value %d is written: %v", v, err)
			}
		}
		if T(0).String() != "unset" {
			t.Error(T(0).String())
		}
		for _, s := range []string{"", "unset", " " + names[0], names[0] + "\x00", "Verified", "1"} {
			v := T(7)
			if err := P(&v).UnmarshalText([]byte(s)); !errors.Is(err, memory.ErrInvalid) || v != 7 {
				t.Errorf("%q is read as %v, %v", s, v, err)
			}
		}
	})
}

func TestEnumerationsAreClosedAndHaveNoDefault(t *testing.T) {
	enum[memory.State](t, "state", "unverified", "unavailable_at_write_time", "verified")
	enum[memory.Truth](t, "truth", "unverified", "supported", "contradicted", "superseded")
	enum[memory.Retrieval](t, "retrieval", "hidden", "restricted", "normal", "privileged_only", "blocked")
	enum[memory.Security](t, "security", "clean", "suspicious", "quarantined", "malicious")
	enum[memory.Freshness](t, "freshness", "fresh", "stale", "expired")
	enum[memory.Outage](t, "outage", "none", "recorded", "resolved")
	enum[memory.Sensitivity](t, "sensitivity", "public", "internal", "confidential", "secret")
	enum[memory.Criticality](t, "criticality", "low", "medium", "high", "critical")
	enum[memory.Kind](t, "kind", "raw", "episode", "note", "belief", "goal", "relationship", "value", "drive")
	enum[memory.Layer](t, "layer", "working", "session", "episodic", "semantic", "procedural")
	enum[memory.Cardinality](t, "cardinality", "unknown", "functional", "set_valued")
	enum[memory.Rank](t, "rank", "recall", "model", "second_model", "tool", "primary_source", "user")
	enum[memory.Relation](t, "relation", "supports", "contradicts", "contextualizes")
	enum[memory.Authority](t, "authority", "user", "policy", "probe", "sentinel", "reflection", "auto_observation", "system")
	enum[memory.Axis](t, "axis", "truth", "retrieval", "security", "freshness", "outage", "kind", "layer")
	enum[memory.Granularity](t, "granularity", "year", "month", "day", "instant")
	enum[memory.DataClass](t, "data class", "public", "operational", "personal", "sensitive", "credential")
	enum[memory.SourceKind](t, "kind of source", "document", "api", "tool", "human", "model", "code", "row")
}

func TestOriginHasExactlyFourWireShapes(t *testing.T) {
	shapes := map[memory.Origin]string{
		memory.OriginUserAsserted:  `{"type":"External","kind":"UserAsserted"}`,
		memory.OriginFirstHand:     `{"type":"External","kind":"ExternalFirstHand"}`,
		memory.OriginRecallReentry: `{"type":"RecallReEntry"}`,
		memory.OriginModelDerived:  `{"type":"ModelDerived"}`,
	}
	for o, want := range shapes {
		b, err := json.Marshal(o)
		if err != nil || string(b) != want {
			t.Errorf("%s is %s, %v; want %s", o, b, err, want)
		}
		var back memory.Origin
		if err := json.Unmarshal(b, &back); err != nil || back != o {
			t.Errorf("%s comes back as %s, %v", b, back, err)
		}
		if p, err := memory.ParseOrigin(o.String()); err != nil || p != o {
			t.Errorf("%s: %s, %v", o, p, err)
		}
	}
	for _, o := range []memory.Origin{0, 5} {
		if b, err := json.Marshal(o); err == nil {
			t.Errorf("origin %d is written: %s", o, b)
		}
	}
	for _, s := range []string{
		`null`, `""`, `{}`, `[]`, `1`, `"user_asserted"`, `{"type":"External"}`, `{"type":"External","kind":""}`, `{"type":"External","kind":"Other"}`,
		`{"type":"external","kind":"UserAsserted"}`, `{"Type":"RecallReEntry"}`, `{"type":"RecallReEntry","kind":""}`, `{"type":"RecallReEntry","kind":null}`,
		`{"type":"ModelDerived","kind":"UserAsserted"}`, `{"type":"ModelDerived","type":"External","kind":"UserAsserted"}`,
		`{"type":"ModelDerived","extra":1}`, `{"kind":"UserAsserted"}`, `{"type":"RecallReentry"}`, `{"type":"Model\u0044erived"}`,
	} {
		o := memory.OriginModelDerived
		if err := json.Unmarshal([]byte(s), &o); err == nil || o != memory.OriginModelDerived {
			t.Errorf("%s is read as %s", s, o)
		}
	}
	var o memory.Origin
	if err := json.Unmarshal([]byte(" { \"kind\" : \"UserAsserted\" , \"type\" : \"External\" } "), &o); err != nil || o != memory.OriginUserAsserted {
		t.Error("the order of keys and white space do not matter", err)
	}
	if _, err := memory.ParseOrigin("unset"); err == nil {
		t.Error("unset is no origin")
	}
}

var authorities = []memory.Authority{memory.AuthorityUser, memory.AuthorityPolicy, memory.AuthorityProbe, memory.AuthoritySentinel,
	memory.AuthorityReflection, memory.AuthorityAutoObservation, memory.AuthoritySystem}

type axes struct {
	truth     memory.Truth
	retrieval memory.Retrieval
	security  memory.Security
	freshness memory.Freshness
}

func axesOf(h *memory.Head) axes { return axes{h.Truth, h.Retrieval, h.Security, h.Freshness} }

// values of all five axes.
func axisValues() (out []memory.AxisValue) {
	for v := memory.TruthUnverified; v <= memory.TruthSuperseded; v++ {
		out = append(out, v)
	}
	for v := memory.RetrievalHidden; v <= memory.RetrievalBlocked; v++ {
		out = append(out, v)
	}
	for v := memory.SecurityClean; v <= memory.SecurityMalicious; v++ {
		out = append(out, v)
	}
	for v := memory.FreshnessFresh; v <= memory.FreshnessExpired; v++ {
		out = append(out, v)
	}
	for v := memory.OutageNone; v <= memory.OutageResolved; v++ {
		out = append(out, v)
	}
	return out
}

// reach walks a fresh row to the wanted axes by legal moves only.
func reach(b *bench, i int, want axes) memory.ID {
	b.Helper()
	id := b.put(modelDraft(says("ana", fmt.Sprint("p", i), "x"))).ID
	user := func(to memory.AxisValue) { b.mustMove(id, to, memory.AuthorityUser) }
	switch want.truth {
	case memory.TruthSupported:
		b.mustMove(id, want.truth, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
	case memory.TruthContradicted, memory.TruthSuperseded:
		user(want.truth)
	}
	if want.retrieval != memory.RetrievalNormal {
		user(want.retrieval)
	}
	if want.security != memory.SecurityClean {
		user(memory.SecuritySuspicious)
	}
	if want.security >= memory.SecurityQuarantined {
		user(memory.SecurityQuarantined)
	}
	if want.security == memory.SecurityMalicious {
		user(memory.SecurityMalicious)
	}
	for f := memory.FreshnessStale; f <= want.freshness; f++ {
		b.mustMove(id, f, memory.AuthoritySystem)
	}
	if got := axesOf(b.head(id)); got != want {
		b.Fatalf("reached %v, want %v", got, want)
	}
	return id
}

// TestLS5AMoveOnOneAxisMovesNoOther goes over all 4·5·4·3 = 240 combinations, all
// targets and all authorities: a legal move changes its axis alone, an illegal
// one is a typed error and changes nothing.
func TestLS5AMoveOnOneAxisMovesNoOther(t *testing.T) {
	b := newBench(t)
	n, moved, refused := 0, 0, 0
	for tr := memory.TruthUnverified; tr <= memory.TruthSuperseded; tr++ {
		for re := memory.RetrievalHidden; re <= memory.RetrievalBlocked; re++ {
			for se := memory.SecurityClean; se <= memory.SecurityMalicious; se++ {
				for fr := memory.FreshnessFresh; fr <= memory.FreshnessExpired; fr++ {
					n++
					was := axes{tr, re, se, fr}
					id := reach(b, n, was)
					for _, to := range axisValues() {
						for _, who := range authorities {
							evidence := []memory.Evidence{supports(memory.RankTool, "tool:crm")}
							if to == memory.AxisValue(memory.TruthContradicted) {
								evidence = []memory.Evidence{contradicts(memory.RankPrimarySource, "doc:1")}
							}
							if who == memory.AuthorityAutoObservation {
								evidence = append(evidence, supports(memory.RankTool, "tool:erp")) // D-30
							}
							legal := legalFrom(b.head(id), to, who)
							rev := b.head(id).Revision
							_, err := b.move(id, to, who, evidence...)
							is := axesOf(b.head(id))
							if !legal {
								var illegal *memory.IllegalMoveError
								if !errors.As(err, &illegal) || illegal.Authority != who || illegal.To != to.String() || is != was || b.head(id).Revision != rev {
									t.Fatalf("%v to %s by %s: %v, now %v", was, to, who, err, is)
								}
								refused++
								continue
							}
							if err != nil {
								t.Fatalf("%v to %s by %s: %v", was, to, who, err)
							}
							want := was
							switch v := to.(type) {
							case memory.Truth:
								want.truth = v
							case memory.Retrieval:
								want.retrieval = v
							case memory.Security:
								want.security = v
							case memory.Freshness:
								want.freshness = v
							}
							if is != want {
								t.Fatalf("%v to %s by %s gave %v", was, to, who, is)
							}
							moved++
							n++
							id = reach(b, n, was)
						}
					}
				}
			}
		}
	}
	if moved < 240 || refused < 240 {
		t.Fatalf("%d moved, %d refused: the table was not walked", moved, refused)
	}
}

// legalFrom is the table of UP-L1..L5, written a second time by hand.
func legalFrom(h *memory.Head, to memory.AxisValue, who memory.Authority) bool {
	has := func(list ...memory.Authority) bool {
		for _, a := range list {
			if a == who {
				return true
			}
		}
		return false
	}
	const user, policy, probe, sentinel, reflection, auto, system = memory.AuthorityUser, memory.AuthorityPolicy, memory.AuthorityProbe,
		memory.AuthoritySentinel, memory.AuthorityReflection, memory.AuthorityAutoObservation, memory.AuthoritySystem
	switch v := to.(type) {
	case memory.Truth:
		switch from := h.Truth; [2]memory.Truth{from, v} {
		case [2]memory.Truth{1, 2}, [2]memory.Truth{2, 2}: // the second is a reaffirmation
			return has(user, probe, auto)
		case [2]memory.Truth{3, 2}:
			return has(user, probe)
		case [2]memory.Truth{1, 3}:
			return has(user, probe, sentinel)
		case [2]memory.Truth{2, 3}:
			return has(user, probe, sentinel)
		case [2]memory.Truth{2, 1}:
			return has(user, probe, policy, system)
		case [2]memory.Truth{3, 1}:
			return has(user, probe)
		case [2]memory.Truth{1, 4}, [2]memory.Truth{2, 4}, [2]memory.Truth{3, 4}:
			return has(user, reflection)
		}
	case memory.Retrieval:
		const hidden, restricted, normal, privileged, blocked = 1, 2, 3, 4, 5
		switch [2]memory.Retrieval{h.Retrieval, v} {
		case [2]memory.Retrieval{hidden, restricted}:
			return has(user, reflection)
		case [2]memory.Retrieval{restricted, normal}:
			return has(user, probe)
		case [2]memory.Retrieval{normal, privileged}, [2]memory.Retrieval{privileged, restricted}:
			return has(user, policy)
		case [2]memory.Retrieval{normal, restricted}, [2]memory.Retrieval{normal, hidden}, [2]memory.Retrieval{restricted, hidden},
			[2]memory.Retrieval{hidden, blocked}, [2]memory.Retrieval{restricted, blocked}, [2]memory.Retrieval{normal, blocked}, [2]memory.Retrieval{privileged, blocked}:
			return has(user, policy, sentinel)
		case [2]memory.Retrieval{blocked, hidden}:
			return has(user)
		}
	case memory.Security:
		switch [2]memory.Security{h.Security, v} {
		case [2]memory.Security{1, 2}, [2]memory.Security{2, 3}, [2]memory.Security{1, 3}:
			return has(sentinel, probe, user)
		case [2]memory.Security{3, 4}:
			return has(sentinel, user)
		case [2]memory.Security{2, 1}, [2]memory.Security{3, 1}, [2]memory.Security{4, 3}:
			return has(user)
		}
	case memory.Freshness:
		switch [2]memory.Freshness{h.Freshness, v} {
		case [2]memory.Freshness{1, 2}, [2]memory.Freshness{2, 3}:
			return has(system)
		case [2]memory.Freshness{2, 1}, [2]memory.Freshness{3, 1}:
			return has(user, probe, auto)
		}
	case memory.Outage:
		return h.Outage == memory.OutageRecorded && v == memory.OutageResolved && has(user, probe)
	}
	return false
}

func TestStateIsAProjection(t *testing.T) {
	b := newBench(t)
	d := modelDraft(berlin)
	d.State = memory.StateUnavailableAtWriteTime
	id := b.put(d).ID
	if s := b.head(id).State(); s != memory.StateUnavailableAtWriteTime || len(b.rows(memory.Filter{State: s})) != 1 {
		t.Fatal(s)
	}
	b.mustMove(id, memory.OutageResolved, memory.AuthorityProbe)
	if s := b.head(id).State(); s != memory.StateUnverified || len(b.rows(memory.Filter{State: memory.StateUnavailableAtWriteTime})) != 0 {
		t.Fatal(s)
	}
	b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
	if s := b.head(id).State(); s != memory.StateVerified || len(b.rows(memory.Filter{State: s})) != 1 {
		t.Fatal(s)
	}
	var zero memory.Head
	if zero.State() != 0 || zero.FreshnessAt(day0) != memory.FreshnessExpired {
		t.Fatal("the zero head is nothing")
	}
}

func TestFreshnessIsMadeByTheClock(t *testing.T) {
	b := newBench(t)
	id := b.put(toolDraft(berlin, "crm")).ID
	for _, tc := range []struct {
		age  time.Duration
		want memory.Freshness
	}{
		{0, memory.FreshnessFresh}, {30 * 24 * time.Hour, memory.FreshnessFresh}, {30*24*time.Hour + time.Second, memory.FreshnessStale},
		{90*24*time.Hour - time.Second, memory.FreshnessStale}, {90 * 24 * time.Hour, memory.FreshnessExpired},
	} {
		if got := b.head(id).FreshnessAt(day0.Add(tc.age)); got != tc.want {
			t.Errorf("after %s: %s, want %s", tc.age, got, tc.want)
		}
	}
	t.Run("verified again, it is fresh again", func(t *testing.T) {
		b.pass(60 * 24 * time.Hour)
		b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
		if h := b.head(id); h.FreshnessAt(b.Now().Add(29*24*time.Hour)) != memory.FreshnessFresh || h.FreshnessAt(b.Now().Add(31*24*time.Hour)) != memory.FreshnessStale {
			t.Fatal(h.StaleAt)
		}
	})
	t.Run("moved to fresh, it is not stale by the clock at once", func(t *testing.T) {
		b.mustMove(id, memory.FreshnessStale, memory.AuthoritySystem)
		b.pass(60 * 24 * time.Hour)
		b.mustMove(id, memory.FreshnessFresh, memory.AuthorityProbe)
		if f := b.head(id).FreshnessAt(b.Now()); f != memory.FreshnessFresh {
			t.Fatal(f)
		}
	})
	t.Run("what is valid until then is expired then", func(t *testing.T) {
		d := toolDraft(says("ana", "pass", "1"), "crm")
		d.ValidUntil = b.Now().Add(time.Minute)
		h := b.head(b.put(d).ID)
		if h.FreshnessAt(b.Now()) != memory.FreshnessFresh || h.FreshnessAt(b.Now().Add(time.Minute)) != memory.FreshnessExpired {
			t.Fatal(h.ValidUntil)
		}
	})
}

func TestTransitionsNameTheirMaker(t *testing.T) {
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	for field, breakIt := range map[string]func(*memory.Transition){
		"row":       func(x *memory.Transition) { x.Row = "" },
		"to":        func(x *memory.Transition) { x.To = nil },
		"authority": func(x *memory.Transition) { x.Authority = 0 },
		"actor":     func(x *memory.Transition) { x.Actor = " " },
		"source":    func(x *memory.Transition) { x.Source = "" },
		"reason":    func(x *memory.Transition) { x.Reason = "" },
		"reject":    func(x *memory.Transition) { x.Reject = true },
		"relation":  func(x *memory.Transition) { x.Evidence = []memory.Evidence{{}} },
	} {
		x := memory.Transition{Row: id, Revision: 1, To: memory.TruthContradicted, Authority: memory.AuthorityProbe, Actor: "w", Source: "s", Reason: "r"}
		breakIt(&x)
		was := b.driver.revisions()
		_, err := b.Apply(t.Context(), x)
		var f *memory.FieldError
		if !errors.As(err, &f) || f.Field != field || len(was) != len(b.driver.revisions()) || b.head(id).Revision != 1 {
			t.Errorf("%s: %v", field, err)
		}
	}
	b.mustMove(id, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankTool, "tool:crm"))
	log, err := b.History(t.Context(), id, false)
	if err != nil || len(log) != 2 || log[1].Actor == "" || log[1].Source == "" || log[1].Reason == "" || log[1].From != "unverified" || log[1].To != "contradicted" {
		t.Fatalf("%+v %v", log, err)
	}
}

func TestAMoveOnAnotherAxisLeavesTheDueMark(t *testing.T) {
	b := newBench(t)
	id := b.put(toolDraft(berlin, "crm")).ID
	if err := b.Reschedule(t.Context(), id, b.Now(), 3, "a blocked call wants it"); err != nil {
		t.Fatal(err)
	}
	b.mustMove(id, memory.SecuritySuspicious, memory.AuthoritySentinel)
	if mark, ok, err := b.DueMark(t.Context(), id); err != nil || !ok || mark.Tries != 3 || mark.Reason != "a blocked call wants it" {
		t.Fatalf("%+v %v %v", mark, ok, err)
	}
	wantErr(t, b.Reschedule(t.Context(), id, time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC), 0, "never"), memory.ErrInvalid)
}

func TestRowJSONShowsStateAxesAndOrigin(t *testing.T) {
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
	out, err := json.Marshal(b.row(id))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"id":"` + string(id), `"state":"verified"`, `"truth":"supported"`, `"retrieval":"normal"`, `"security":"clean"`, `"freshness":"fresh"`,
		`"outage":"none"`, `"origin":"model_derived"`, `"rank":"tool"`, `"model":"Sonnet"`, `"subject":"ana"`, `"created_at":"2026-04-17T12:00:00Z"`, `"relation":"supports"`} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	if _, err := json.Marshal(memory.Row{}); err == nil {
		t.Error("a row without a state was written")
	}
}
