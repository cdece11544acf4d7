package verifiertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

func claim(id memory.ID, object string) memory.Row {
	return memory.Row{Head: memory.Head{ID: id}, Content: memory.Content{Subject: "acme", Predicate: "iban", Object: object}}
}

func TestEachStepDoesWhatItSays(t *testing.T) {
	odd := errors.New("odd")
	for name, c := range map[string]struct {
		step verifiertest.Step
		want verifier.Outcome
		is   error
	}{
		"supports":           {verifiertest.Supports(), verifier.Supported, nil},
		"refutes":            {verifiertest.Refutes("GB12"), verifier.Refuted, nil},
		"knows it true":      {verifiertest.Truth(" DE89 "), verifier.Supported, nil},
		"knows it false":     {verifiertest.Truth("GB12"), verifier.Refuted, nil},
		"lies of the true":   {verifiertest.Lies(verifiertest.Truth(" DE89 ")), verifier.Refuted, nil},
		"lies of the false":  {verifiertest.Lies(verifiertest.Truth("GB12")), verifier.Supported, nil},
		"cannot lie if down": {verifiertest.Lies(verifiertest.Down(0)), 0, verifier.ErrUnavailable},
		"is unclear":         {verifiertest.Unclear(), verifier.Unclear, nil},
		"is down":            {verifiertest.Down(time.Second), 0, verifier.ErrUnavailable},
		"is misconfigured":   {verifiertest.Misconfigured(), 0, verifier.ErrMisconfigured},
		"fails":              {verifiertest.Fails(odd), 0, odd},
		"hangs":              {verifiertest.Hangs(), 0, context.DeadlineExceeded},
		"is slow":            {verifiertest.Slow(time.Second, verifiertest.Supports()), verifier.Supported, nil},
		"is too slow":        {verifiertest.Slow(time.Hour, verifiertest.Supports()), 0, context.DeadlineExceeded},
	} {
		t.Run("one that "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				got, err := verifiertest.New("crm", c.step).Verify(ctx, claim("a", "DE89"))
				if got.Outcome != c.want || !errors.Is(err, c.is) || got.Check() != nil {
					t.Fatal(got, err, got.Check())
				}
			})
		})
	}
	t.Run("a malformed verdict is malformed", func(t *testing.T) {
		if got, err := verifiertest.New("crm", verifiertest.Malformed()).Verify(t.Context(), claim("a", "DE89")); err != nil || got.Check() == nil {
			t.Fatal(got, err)
		}
	})
	t.Run("one that is stuck ignores its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		release := make(chan struct{})
		done := make(chan verifier.Verdict)
		go func() {
			v, _ := verifiertest.New("crm", verifiertest.Stuck(release, verifiertest.Supports())).Verify(ctx, claim("a", "DE89"))
			done <- v
		}()
		close(release)
		if v := <-done; v.Outcome != verifier.Supported {
			t.Fatal(v)
		}
	})
	t.Run("one that panics panics", func(t *testing.T) {
		defer func() {
			if recover() != "boom" {
				t.Error("no panic")
			}
		}()
		_, _ = verifiertest.New("crm", verifiertest.Panics("boom")).Verify(t.Context(), claim("a", "DE89"))
	})
}

func TestAScriptIsFollowed(t *testing.T) {
	s := verifiertest.New("crm", verifiertest.Down(0), verifiertest.Supports())
	outcomes := func(n int) (got []verifier.Outcome) {
		for i := range n {
			v, _ := s.Verify(t.Context(), claim(memory.ID(fmt.Sprint("row", i)), "DE89"))
			got = append(got, v.Outcome)
		}
		return got
	}
	if got := outcomes(3); !slices.Equal(got, []verifier.Outcome{0, verifier.Supported, verifier.Supported}) {
		t.Fatal(got)
	}
	s.Set(verifiertest.Flaps(verifiertest.Unclear(), verifiertest.Refutes("x")))
	if got := outcomes(3); !slices.Equal(got, []verifier.Outcome{verifier.Unclear, verifier.Refuted, verifier.Unclear}) {
		t.Fatal(got)
	}
	s.Set()
	if got := outcomes(1); !slices.Equal(got, []verifier.Outcome{0}) {
		t.Fatal("a verifier without a script is not down")
	}
	if got := s.Asked(); s.Calls() != 7 || !slices.Equal(got, []memory.ID{"row0", "row1", "row2", "row0", "row1", "row2", "row0"}) {
		t.Fatal(s.Calls(), got)
	}
}

func Example() {
	s := verifiertest.New("crm", verifiertest.Down(0), verifiertest.Refutes("GB12"))
	for range 2 {
		v, err := s.Verify(context.Background(), claim("mem_1", "DE89"))
		fmt.Println(v.Outcome, errors.Is(err, verifier.ErrUnavailable))
	}
	fmt.Println(s.Calls(), "calls")
	// Output:
	// unknown true
	// refuted false
	// 2 calls
}
