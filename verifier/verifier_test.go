package verifier_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

func good(o verifier.Outcome) verifier.Verdict {
	return verifiertest.New("crm").Verdict(o, "DE89")
}

func TestTheZeroVerdictSaysNothing(t *testing.T) {
	var v verifier.Verdict
	if v.Outcome != verifier.Unknown || v.Outcome.String() != "unknown" || v.Check() != nil {
		t.Fatalf("the zero verdict is %v, %v", v.Outcome, v.Check())
	}
	if got := verifier.Outcome(9).String(); got != "outcome(9)" {
		t.Fatalf("an outcome of no name is %q", got)
	}
}

func TestAVerdictThatDecidesShowsItsEvidence(t *testing.T) {
	for _, o := range []verifier.Outcome{verifier.Supported, verifier.Refuted} {
		if v := good(o); v.Check() != nil {
			t.Fatalf("complete evidence was refused: %v", v.Check())
		}
	}
	for name, spoil := range map[string]func(*verifier.Verdict){
		"an outcome of no name":     func(v *verifier.Verdict) { v.Outcome = 9 },
		"another relation":          func(v *verifier.Verdict) { v.Evidence.Relation = memory.RelationContradicts },
		"no rank":                   func(v *verifier.Verdict) { v.Evidence.Rank = 0 },
		"rank recall":               func(v *verifier.Verdict) { v.Evidence.Rank = memory.RankRecall },
		"rank user (I-13)":          func(v *verifier.Verdict) { v.Evidence.Rank = memory.RankUser },
		"a rank of no name":         func(v *verifier.Verdict) { v.Evidence.Rank = 77 },
		"no source":                 func(v *verifier.Verdict) { v.Evidence.Source = " " },
		"no verifier":               func(v *verifier.Verdict) { v.Evidence.Verifier = "" },
		"no group":                  func(v *verifier.Verdict) { v.Evidence.Group = "" },
		"no anchor":                 func(v *verifier.Verdict) { v.Evidence.Anchor = memory.Anchor{} },
		"no time":                   func(v *verifier.Verdict) { v.Evidence.At = time.Time{} },
		"no evidence at all":        func(v *verifier.Verdict) { v.Evidence = memory.Evidence{} },
		"a refutation that agrees":  func(v *verifier.Verdict) { v.Outcome = verifier.Refuted },
		"a version for all anchors": func(v *verifier.Verdict) { v.Evidence.Anchor = memory.Anchor{Version: "1"} },
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			v := good(verifier.Supported)
			spoil(&v)
			if err := v.Check(); !errors.Is(err, verifier.ErrMalformed) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestErrorsNameTheirClassOnce(t *testing.T) {
	cause := errors.New("connection refused")
	for _, c := range []struct {
		err         error
		is, not     error
		text        string
		unwrapsThis error
	}{
		{&verifier.UnavailableError{Verifier: "crm", RetryAfter: 7 * time.Second, Err: cause},
			verifier.ErrUnavailable, verifier.ErrMisconfigured, "verifier: unavailable: crm: connection refused (retry after 7s)", cause},
		{&verifier.UnavailableError{}, verifier.ErrUnavailable, verifier.ErrMisconfigured, "verifier: unavailable", nil},
		{&verifier.UnavailableError{Verifier: "crm", Err: verifier.ErrUnavailable},
			verifier.ErrUnavailable, verifier.ErrMisconfigured, "verifier: unavailable: crm", nil},
		{&verifier.MisconfiguredError{Verifier: "crm", Err: cause},
			verifier.ErrMisconfigured, verifier.ErrUnavailable, "verifier: misconfigured: crm: connection refused", cause},
	} {
		if !errors.Is(c.err, c.is) || errors.Is(c.err, c.not) || c.err.Error() != c.text {
			t.Errorf("%q is %v: %v, is %v: %v; want %q", c.err, c.is, errors.Is(c.err, c.is), c.not, errors.Is(c.err, c.not), c.text)
		}
		if c.unwrapsThis != nil && !errors.Is(c.err, c.unwrapsThis) {
			t.Errorf("%q hides its cause", c.err)
		}
	}
}

func TestRetryAfterReadsSecondsAndDates(t *testing.T) {
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"7": 7 * time.Second, " 120 ": 2 * time.Minute, "0": 0, "": 0, "-3": 0, "soon": 0, "1.5": 0, "99999999999999": 0,
		"Sat, 14 Mar 2026 12:00:30 GMT": 30 * time.Second,
		"Sat, 14 Mar 2026 11:00:00 GMT": 0,
	} {
		h := http.Header{}
		h.Set("Retry-After", text)
		if got := verifier.RetryAfter(h, now); got != want {
			t.Errorf("%q gives %v, want %v", text, got, want)
		}
	}
	if got := verifier.RetryAfter(nil, now); got != 0 {
		t.Errorf("no header gives %v", got)
	}
}

func row(subject, predicate, object string, c memory.Cardinality) memory.Row {
	return memory.Row{Content: memory.Content{Subject: subject, Predicate: predicate, Object: object, Cardinality: c}}
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		p, ok := recover().(string)
		if !ok || !strings.HasPrefix(p, "verifier: ") {
			t.Errorf("it did not panic with a reason: %v", p)
		}
	}()
	f()
}

func TestAFunctionIsAVerifier(t *testing.T) {
	var v verifier.Verifier = verifier.Func(func(context.Context, memory.Row) (verifier.Verdict, error) {
		return good(verifier.Refuted), nil
	})
	if got, err := v.Verify(t.Context(), memory.Row{}); err != nil || got.Outcome != verifier.Refuted {
		t.Fatal(got, err)
	}
}
