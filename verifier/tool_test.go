package verifier_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

const (
	functional = memory.CardinalityFunctional
	setValued  = memory.CardinalitySetValued
	unstated   = memory.CardinalityUnknown
)

func answering(a verifier.Answer) verifier.Ask {
	return func(context.Context, verifier.Question) (verifier.Answer, error) { return a, nil }
}

func value(v string) verifier.Answer     { return verifier.Answer{Found: true, Value: v} }
func values(v ...string) verifier.Answer { return verifier.Answer{Found: true, Values: v} }
func complete(v ...string) verifier.Answer {
	return verifier.Answer{Found: true, Values: v, Complete: true}
}

func TestAToolAnswerIsJudgedByCardinality(t *testing.T) {
	for _, c := range []struct {
		name     string
		object   string
		c        memory.Cardinality
		answer   verifier.Answer
		want     verifier.Outcome
		observed string
	}{
		{"the one value, the same", "DE89", functional, value("DE89"), verifier.Supported, "DE89"},
		{"the one value, another", "DE89", functional, value("GB12"), verifier.Refuted, "GB12"},
		{"the one value, twice in one spelling", "DE89", functional, values("GB12", "GB12"), verifier.Refuted, "GB12"},
		{"the one value, in two spellings", "1000 km", functional, values("1,000 km", "1000km"), verifier.Supported, "1,000 km"},
		{"two values where there is one", "DE89", functional, values("DE89", "GB12"), verifier.Unclear, `["DE89","GB12"]`},
		{"the one value, in another unit", "1000 km", functional, value("621 mi"), verifier.Unclear, "621 mi"},
		{"the one value, in other words", "Paris", functional, value("Paris, France"), verifier.Unclear, "Paris, France"},
		{"nothing known", "DE89", functional, verifier.Answer{}, verifier.Unclear, ""},
		{"nothing known, and a value all the same", "DE89", functional, verifier.Answer{Value: "GB12"}, verifier.Unclear, ""},
		{"found, and no value", "DE89", functional, verifier.Answer{Found: true}, verifier.Unclear, ""},
		{"found, complete, and no value where there is one", "DE89", functional, complete(), verifier.Unclear, ""},
		{"found, and a value of nothing but space", "DE89", functional, value(" \u200b "), verifier.Unclear, ""},
		{"a set that has it", "b@x.org", setValued, values("a@x.org", "b@x.org"), verifier.Supported, "b@x.org"},
		{"a set that lacks it", "c@x.org", setValued, values("a@x.org", "b@x.org"), verifier.Unclear, `["a@x.org","b@x.org"]`},
		{"a complete set that lacks it", "c@x.org", setValued, complete("b@x.org", "a@x.org"), verifier.Refuted, `["a@x.org","b@x.org"]`},
		{"a complete set in another unit", "3 km", setValued, complete("3 mi", "7 mi"), verifier.Unclear, `["3 mi","7 mi"]`},
		{"a complete, empty set", "c@x.org", setValued, complete(), verifier.Refuted, "[]"},
		{"unstated, and the same", "DE89", unstated, value("DE89"), verifier.Supported, "DE89"},
		{"unstated, and another", "DE89", unstated, value("GB12"), verifier.Unclear, "GB12"},
		{"unstated, another, and complete", "DE89", unstated, verifier.Answer{Found: true, Value: "GB12", Complete: true}, verifier.Refuted, "GB12"},
		{"unset is unstated", "DE89", 0, value("GB12"), verifier.Unclear, "GB12"},
	} {
		t.Run(c.name+" is "+c.want.String(), func(t *testing.T) {
			v, err := verifier.NewTool("crm", answering(c.answer), nil).Verify(t.Context(), row("acme", "iban", c.object, c.c))
			if err != nil || v.Outcome != c.want || v.Observed != c.observed {
				t.Fatalf("got %v %q (%s), %v; want %q", v.Outcome, v.Observed, v.Detail, err, c.observed)
			}
			decides := c.want == verifier.Supported || c.want == verifier.Refuted
			if v.Check() != nil || v.Detail == "" || decides != (v.Evidence.Relation != 0) {
				t.Fatalf("%v comes with %+v: %v", v.Outcome, v.Evidence, v.Check())
			}
		})
	}
}

func TestTheEvidenceOfAToolIsComplete(t *testing.T) {
	at := time.Date(2026, 3, 14, 12, 0, 0, 0, time.FixedZone("", 3600))
	ask := answering(verifier.Answer{Found: true, Value: "GB12", URI: "https://crm.example/acme", Version: "7"})
	v, err := verifier.NewTool("crm", ask, &verifier.ToolOptions{Clock: func() time.Time { return at }}).
		Verify(t.Context(), row("acme", "iban", "DE89", functional))
	sum := sha256.Sum256([]byte("GB12"))
	want := memory.Evidence{
		Relation: memory.RelationContradicts, Rank: memory.RankTool, Source: "crm", Verifier: "crm", Group: "tool:crm",
		Anchor: memory.Anchor{URI: "https://crm.example/acme", Version: "7", Hash: hex.EncodeToString(sum[:])}, At: at.UTC(),
	}
	if err != nil || v.Evidence.ID() != want.ID() || v.Evidence.Source != want.Source || !v.Evidence.At.Equal(at) || v.Evidence.Anchor != want.Anchor {
		t.Fatalf("got %+v, %v", v.Evidence, err)
	}

	t.Run("with the rank, group and source of its options", func(t *testing.T) {
		v, err := verifier.NewTool("handbook", answering(value("DE89")), &verifier.ToolOptions{
			Rank: memory.RankPrimarySource, Group: "document:handbook", Source: "handbook.pdf",
		}).Verify(t.Context(), row("acme", "iban", "DE89", functional))
		e := v.Evidence
		if err != nil || e.Rank != memory.RankPrimarySource || e.Group != "document:handbook" || e.Source != "handbook.pdf" || e.Anchor.URI != "tool:handbook" {
			t.Fatalf("got %+v, %v", e, err)
		}
	})
}

func TestAQuestionIsBlind(t *testing.T) {
	var got verifier.Question
	ask := func(_ context.Context, q verifier.Question) (verifier.Answer, error) {
		got = q
		return verifier.Answer{}, nil
	}
	r := row("acme", "iban", "DE89", functional)
	r.Content.Text = "the IBAN of acme is DE89"
	if _, err := verifier.NewTool("crm", ask, nil).Verify(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if want := (verifier.Question{Subject: "acme", Predicate: "iban", Cardinality: functional}); got != want {
		t.Fatalf("asked %+v", got)
	}
}

func TestAToolIsNotAskedAboutFreeText(t *testing.T) {
	ask := func(context.Context, verifier.Question) (verifier.Answer, error) { panic("asked") }
	v, err := verifier.NewTool("crm", ask, nil).Verify(t.Context(), memory.Row{Content: memory.Content{Text: "the IBAN of acme is DE89"}})
	if err != nil || v.Outcome != verifier.Unclear || !strings.Contains(v.Detail, "nothing to ask") {
		t.Fatal(v, err)
	}
}

// A source answers for the spelling that it has. What the claimant hid in his own is
// verified by no comparison, one that the program brings included.
func TestAToolSupportsNoSpellingThatItDoesNotHave(t *testing.T) {
	lax := verifier.ToolOptions{Compare: func(string, string) verifier.Match { return verifier.MatchSame }}
	asked := 0
	ask := func(context.Context, verifier.Question) (verifier.Answer, error) {
		asked++
		return value("billing@acme.example"), nil
	}
	for _, c := range []struct {
		name  string
		row   memory.Row
		asked int
		want  verifier.Outcome
	}{
		{"a plain claim", row("acme", "billing.email", "billing@acme.example", functional), 1, verifier.Supported},
		{"tag characters behind the object", row("acme", "billing.email", "billing@acme.example\U000e0062\U000e0063", functional), 1, verifier.Unclear},
		{"a zero-width space in the subject", row("ac\u200bme", "billing.email", "billing@acme.example", functional), 0, verifier.Unclear},
		{"an override in the predicate", row("acme", "\u202ebilling.email", "billing@acme.example", functional), 0, verifier.Unclear},
		{"a name that is spelled with a joiner", row("می\u200cخواهم", "billing.email", "billing@acme.example", functional), 1, verifier.Supported},
	} {
		for _, o := range []*verifier.ToolOptions{nil, &lax} {
			asked = 0
			v, err := verifier.NewTool("crm", ask, o).Verify(t.Context(), c.row)
			if err != nil || v.Outcome != c.want || asked != c.asked {
				t.Errorf("%s: %v after %d questions, %v; want %v", c.name, v.Outcome, asked, err, c.want)
			}
		}
	}
}

// TestAToolDoesNotSupportAnotherSpelling: nor does it refute it; which of the two is meant
// is not known.
func TestAToolDoesNotSupportAnotherSpelling(t *testing.T) {
	for _, o := range []*verifier.ToolOptions{nil, {Cardinality: functional}, {Compare: verifier.CompareExact}} {
		for _, claimed := range []string{"/srv/data", "/srv/Data ", "/srv/Data\u00a0", "/srv/data\u200b"} {
			v, err := verifier.NewTool("crm", answering(value("/srv/Data")), o).Verify(t.Context(), row("acme", "path", claimed, functional))
			if err != nil || v.Outcome == verifier.Supported {
				t.Errorf("%q is supported: %+v, %v", claimed, v, err)
			}
		}
		for _, claimed := range []string{"evil", "Evil ", " Evil"} {
			v, err := verifier.NewTool("crm", answering(value("Evil")), o).Verify(t.Context(), row("acme", "user", claimed, functional))
			if err != nil || v.Outcome != verifier.Unclear {
				t.Errorf("%q: %+v, %v", claimed, v, err)
			}
		}
	}
}

func TestAToolComparesAsItsOptionsSay(t *testing.T) {
	o := &verifier.ToolOptions{
		Cardinality: functional,
		Compare:     verifier.CompareExact,
		CompareBy:   map[string]verifier.Compare{"Colours": verifier.CompareSet},
	}
	tool := verifier.NewTool("crm", answering(value("not approved")), o)
	o.CompareBy["status"] = verifier.CompareText // after the door: no effect
	v, err := tool.Verify(t.Context(), row("acme", "status", "approved", unstated))
	if err != nil || v.Outcome != verifier.Refuted {
		t.Fatalf("the closed list was not compared exactly, or the cardinality of the source not used: %v %v", v, err)
	}
	v, err = verifier.NewTool("crm", answering(value("red, green")), o).Verify(t.Context(), row("acme", "colours", "green, red", functional))
	if err != nil || v.Outcome != verifier.Supported {
		t.Fatal(v, err)
	}
}

func TestAToolThatDoesNotAnswerRefutesNothing(t *testing.T) {
	odd := errors.New("odd")
	long := strings.Repeat("x", memory.MaxField+1)
	for _, c := range []struct {
		name string
		ask  verifier.Ask
		is   error
	}{
		{"an error of no class is an outage", failing(odd), verifier.ErrUnavailable},
		{"an outage is an outage", failing(&verifier.UnavailableError{Err: odd}), verifier.ErrUnavailable},
		{"a bare outage is an outage", failing(verifier.ErrUnavailable), verifier.ErrUnavailable},
		{"a cancellation that the caller did not make is an outage", failing(context.Canceled), verifier.ErrUnavailable},
		{"a wrong key is a misconfiguration", failing(verifier.ErrMisconfigured), verifier.ErrMisconfigured},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := verifier.NewTool("crm", c.ask, nil).Verify(t.Context(), row("acme", "iban", "DE89", functional))
			if !errors.Is(err, c.is) || v.Outcome != verifier.Unknown {
				t.Fatalf("got %v, %v", v, err)
			}
			if !strings.Contains(err.Error(), ": crm") {
				t.Fatalf("%q does not name the verifier", err)
			}
		})
	}
	for _, c := range []struct {
		name string
		ask  verifier.Ask
	}{
		{"an oversized value", answering(value(long))},
		{"an oversized anchor", answering(verifier.Answer{Found: true, Value: "x", URI: long})},
		{"too many values", answering(values(make([]string, verifier.MaxValues+1)...))},
		{"bytes that are no text", answering(value("\xff"))},
		{"a NUL", answering(values("a\x00"))},
		{"what the source says is off its form", failing(fmt.Errorf("crm: %w", verifier.ErrAnswer))},
	} {
		t.Run(c.name+" is unclear", func(t *testing.T) {
			v, err := verifier.NewTool("crm", c.ask, nil).Verify(t.Context(), row("acme", "iban", "DE89", functional))
			if err != nil || v.Outcome != verifier.Unclear || v.Detail == "" || v.Observed != "" || v.Check() != nil || v.Evidence.Relation != 0 {
				t.Fatalf("got %+v, %v", v, err)
			}
		})
	}

	t.Run("a RetryAfter is kept", func(t *testing.T) {
		_, err := verifier.NewTool("crm", failing(&verifier.UnavailableError{RetryAfter: 7 * time.Second, Err: odd}), nil).
			Verify(t.Context(), row("acme", "iban", "DE89", functional))
		var down *verifier.UnavailableError
		if !errors.As(err, &down) || down.RetryAfter != 7*time.Second || down.Verifier != "crm" || !errors.Is(err, odd) {
			t.Fatal(err)
		}
	})

	t.Run("a slow tool is an outage at its deadline, even if it answers then", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			slow := func(ctx context.Context, _ verifier.Question) (verifier.Answer, error) {
				<-ctx.Done()
				return value("GB12"), nil
			}
			_, err := verifier.NewTool("crm", slow, nil).Verify(t.Context(), row("acme", "iban", "DE89", functional))
			if !errors.Is(err, verifier.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 5*time.Second {
				t.Fatal(err, time.Since(start))
			}
		})
	})

	t.Run("the caller's cancellation passes", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ask := func(ctx context.Context, _ verifier.Question) (verifier.Answer, error) {
			cancel()
			return verifier.Answer{}, odd
		}
		for range 2 { // while asking, and before
			_, err := verifier.NewTool("crm", ask, nil).Verify(ctx, row("acme", "iban", "DE89", functional))
			if err != context.Canceled {
				t.Fatal(err)
			}
		}
	})
}

func failing(err error) verifier.Ask {
	return func(context.Context, verifier.Question) (verifier.Answer, error) {
		return value("GB12"), err
	}
}

func TestAToolThatCannotWorkIsRefusedAtTheStart(t *testing.T) {
	ask := answering(verifier.Answer{})
	mustPanic(t, func() { verifier.NewTool(" ", ask, nil) })
	mustPanic(t, func() { verifier.NewTool("crm", nil, nil) })
	mustPanic(t, func() { verifier.NewTool("crm", ask, &verifier.ToolOptions{Rank: memory.RankUser}) })
	mustPanic(t, func() { verifier.WithBreaker("", verifier.NewTool("crm", ask, nil), nil) })
	mustPanic(t, func() { verifier.WithBreaker("crm", nil, nil) })
	if verifier.NewTool("crm", ask, nil).Name() != "crm" {
		t.Error("the name was lost")
	}
}

// A list out of which something says that nothing is known is not complete, and an empty one that is complete refutes.
func TestAListThatSaysNothingRefutesNothing(t *testing.T) {
	for _, c := range []struct {
		values []string
		want   verifier.Outcome
	}{{nil, verifier.Refuted}, {[]string{"bob"}, verifier.Refuted}, {[]string{"N/A"}, verifier.Unclear}, {[]string{"bob", "unknown"}, verifier.Unclear}} {
		ask := func(context.Context, verifier.Question) (verifier.Answer, error) {
			return verifier.Answer{Found: true, Values: c.values, Complete: true}, nil
		}
		v, err := verifier.NewTool("crm", ask, nil).Verify(t.Context(), row("admins", "member", "ana", memory.CardinalitySetValued))
		if err != nil || v.Outcome != c.want {
			t.Errorf("%q: %v, %v", c.values, v.Outcome, err)
		}
	}
}
