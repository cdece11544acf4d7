package memory_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
)

// reinstate reinstates a verifier of the tests.
func (b *bench) reinstate(name string) error {
	b.Helper()
	_, revision, err := b.Revocations(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return b.Reinstate(b.Context(), memory.RevokedVerifier, "verifier:"+name, "", memory.Reinstatement{By: "ops", Reason: "it was mended"}, revision)
}

// by is evidence for a row, given at a moment.
func by(name string, at time.Time) memory.Evidence {
	e := supports(memory.RankTool, name)
	e.At = at
	return e
}

func TestWhoIsReinstatedIsHeardFromThenOn(t *testing.T) {
	b := newBench(t)
	before := b.verifiedBy("tea", by("crm", day0.Add(-time.Hour)))
	between := b.verifiedBy("go", by("crm", day0))
	ahead := b.verifiedBy("chess", by("crm", day0.Add(48*time.Hour))) // its clock was wrong
	b.pass(time.Hour)
	b.revoke(memory.RevokedVerifier, "verifier:crm")
	wantErr(t, b.reinstate("crm"), memory.ErrUnwalked)
	b.walk()
	b.pass(time.Hour)
	if err := b.reinstate("crm"); err != nil {
		t.Fatal(err)
	}
	since := b.Now()

	for _, b.Store = range []*memory.Store{b.Store, b.another()} {
		for id, want := range map[memory.ID]memory.State{before: memory.StateVerified, between: memory.StateUnverified, ahead: memory.StateUnverified} {
			if h := b.head(id); h.State() != want {
				t.Errorf("%s is %s, want %s: %+v", id, h.State(), want, b.row(id).Evidence)
			}
		}
	}
	for _, at := range []time.Time{day0, day0.Add(time.Minute), since.Add(-time.Microsecond)} {
		_, err := b.move(between, memory.TruthSupported, memory.AuthorityProbe, by("crm", at))
		wantErr(t, err, memory.ErrRevoked)
		wantErr(t, b.AddEvidence(t.Context(), between, "w", "r", by("crm", at)), memory.ErrRevoked)
	}
	// The same answer as before, given anew.
	if h := b.mustMove(between, memory.TruthSupported, memory.AuthorityProbe, by("crm", since)); h.State() != memory.StateVerified {
		t.Errorf("%+v", h)
	}

	list, _, err := b.Revocations(t.Context())
	want := memory.Reinstatement{At: since, By: "ops", Reason: "it was mended"}
	if err != nil || len(list) != 1 || list[0].Reinstated != want || !list[0].Walked {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := b.Rebuild(t.Context(), "op", nil); err != nil {
		t.Fatal(err)
	}
	b.Store = b.another()
	if again, _, err := b.Revocations(t.Context()); err != nil || !slices.Equal(list, again) {
		t.Errorf("after a rebuild: %+v, %v", again, err)
	}
	if _, err := b.Verify(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}

	t.Run("revoked again since the same moment, it loses what it said since", func(t *testing.T) {
		b.pass(10 * time.Minute)
		b.revoke(memory.RevokedVerifier, "verifier:crm")
		b.walk()
		if h := b.head(between); h.State() != memory.StateUnverified {
			t.Errorf("%+v", h)
		}
		b.pass(-9 * time.Minute) // a clock that goes back reopens nothing
		if err := b.reinstate("crm"); err != nil {
			t.Fatal(err)
		}
		_, err := b.move(between, memory.TruthSupported, memory.AuthorityProbe, by("crm", since.Add(5*time.Minute)))
		wantErr(t, err, memory.ErrRevoked)
	})
}

func TestAReinstatementIsWellFormedAndCountsOnce(t *testing.T) {
	b := newBench(t)
	good := memory.Reinstatement{By: "ops", Reason: "it was mended"}
	say := func(kind memory.RevokedKind, name, version string, r memory.Reinstatement, revision uint64) error {
		return b.Reinstate(t.Context(), kind, name, version, r, revision)
	}
	wantErr(t, say(memory.RevokedVerifier, "verifier:crm", "", good, 0), memory.ErrNotFound)
	b.revoke(memory.RevokedVerifier, "verifier:crm")
	b.walk()
	list, revision, err := b.Revocations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		field string
		err   error
	}{
		{"kind", say(0, "verifier:crm", "", good, revision)},
		{"name", say(memory.RevokedVerifier, " ", "", good, revision)},
		{"by", say(memory.RevokedVerifier, "verifier:crm", "", memory.Reinstatement{Reason: "r"}, revision)},
		{"reason", say(memory.RevokedVerifier, "verifier:crm", "", memory.Reinstatement{By: "ops"}, revision)},
		{"version", say(memory.RevokedVerifier, "verifier:crm", "1", good, revision)},
	} {
		var f *memory.FieldError
		if !errors.As(c.err, &f) || f.Field != c.field {
			t.Errorf("%s: %v", c.field, c.err)
		}
	}
	wantErr(t, say(memory.RevokedVerifier, "verifier:erp", "", good, revision), memory.ErrNotFound)
	wantErr(t, say(memory.RevokedSource, "verifier:crm", "", good, revision), memory.ErrNotFound)
	wantErr(t, say(memory.RevokedVerifier, "verifier:crm", "", good, revision-1), memory.ErrConflict)
	if now, at, err := b.Revocations(t.Context()); err != nil || at != revision || !slices.Equal(now, list) {
		t.Fatalf("something was written: %+v %d %v", now, at, err)
	}
	if err := say(memory.RevokedVerifier, "verifier:crm", "", good, revision); err != nil {
		t.Fatal(err)
	}
	wantErr(t, say(memory.RevokedVerifier, "verifier:crm", "", good, revision), memory.ErrConflict)
	wantErr(t, say(memory.RevokedVerifier, "verifier:crm", "", good, revision+1), memory.ErrNotFound)
}

// TestNothingRevokedEverCountsAgain: whoever verifies, revokes, walks and reinstates in
// whatever order and with whatever clocks, no evidence that a revocation was of, when it
// was acknowledged or later, ever carries a row; and whoever was reinstated is heard.
func TestNothingRevokedEverCountsAgain(t *testing.T) {
	names := []string{"crm", "erp"}
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		var ids []memory.ID
		type span struct{ since, until time.Time } // until zero: revoked still
		spans := map[string][]span{}
		killed := map[string]bool{} // what was there when it was revoked
		key := func(id memory.ID, e memory.Evidence) string { return fmt.Sprint(id, e.Source, e.At.UnixMicro()) }
		dead := func(e memory.Evidence) bool {
			return slices.ContainsFunc(spans[e.Source], func(s span) bool {
				return !e.At.Before(s.since) && (s.until.IsZero() || e.At.Before(s.until))
			})
		}
		write := func() memory.ID {
			c := says("ana", "likes", fmt.Sprint("thing", len(ids)))
			c.Cardinality = memory.CardinalitySetValued
			ids = append(ids, b.put(modelDraft(c)).ID)
			return ids[len(ids)-1]
		}
		moment := func(rt *rapid.T) time.Time {
			return b.Now().Add(time.Duration(rapid.IntRange(-120, 120).Draw(rt, "minutes")) * time.Minute)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(*rapid.T) { write() },
			"time":  func(rt *rapid.T) { b.pass(time.Duration(rapid.IntRange(1, 90).Draw(rt, "pass")) * time.Minute) },
			"verify": func(rt *rapid.T) {
				if len(ids) == 0 {
					rt.Skip("nothing is written")
				}
				e, id := by(rapid.SampledFrom(names).Draw(rt, "by"), moment(rt)), rapid.SampledFrom(ids).Draw(rt, "row")
				_, err := b.move(id, memory.TruthSupported, memory.AuthorityProbe, e)
				if dead(e) && !errors.Is(err, memory.ErrRevoked) {
					rt.Fatalf("heard at %s: %v", e.At, err)
				}
				if err == nil { // it is said anew, maybe of the very moment of what was revoked
					delete(killed, key(id, e))
				}
			},
			"revoke": func(rt *rapid.T) {
				name, since := rapid.SampledFrom(names).Draw(rt, "name"), moment(rt)
				_, revision, err := b.Revocations(b.Context())
				if err != nil {
					rt.Fatal(err)
				}
				err = b.Revoke(b.Context(), memory.Revocation{Kind: memory.RevokedVerifier, Name: "verifier:" + name, Since: since, By: "ops", Reason: "it lied"}, revision)
				if errors.Is(err, memory.ErrInvalid) {
					rt.Skip("it is revoked since that moment already")
				}
				if err != nil {
					rt.Fatal(err)
				}
				spans[name] = append(spans[name], span{since: since})
				for _, id := range ids {
					for _, e := range b.row(id).Evidence {
						if e.Source == name && !e.At.Before(since) {
							killed[key(id, e)] = true
						}
					}
				}
			},
			"walk": func(*rapid.T) { b.walk() },
			"reinstate": func(rt *rapid.T) {
				name := rapid.SampledFrom(names).Draw(rt, "name")
				open := slices.ContainsFunc(spans[name], func(s span) bool { return s.until.IsZero() })
				b.pass(time.Minute)
				err := b.reinstate(name)
				switch {
				case !open && errors.Is(err, memory.ErrNotFound), open && errors.Is(err, memory.ErrUnwalked):
					return
				case err != nil || !open:
					rt.Fatalf("revoked %t: %v", open, err)
				}
				for i := range spans[name] {
					if s := &spans[name][i]; s.until.IsZero() {
						s.until = b.Now()
					}
				}
				b.mustMove(write(), memory.TruthSupported, memory.AuthorityProbe, by(name, b.Now()))
			},
			"": func(rt *rapid.T) {
				for _, id := range ids {
					if b.head(id).State() != memory.StateVerified {
						continue
					}
					evidence := b.row(id).Evidence
					if !slices.ContainsFunc(evidence, func(e memory.Evidence) bool { return !e.Void && !dead(e) && !killed[key(id, e)] }) {
						rt.Fatalf("%s is fit on %+v", id, evidence)
					}
				}
			},
		})
		if _, err := b.Verify(b.Context(), nil, nil); err != nil {
			rt.Fatal(err)
		}
	})
}
