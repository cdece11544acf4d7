package verifier_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

// A system of record becomes a verifier by one function. The question does not
// contain the claimed value, and the answer is compared by type.
func ExampleNewTool() {
	distances := map[string]string{"Berlin-Paris": "1,050 km", "Berlin-Rome": "1,500 km"}
	atlas := verifier.NewTool("atlas", func(_ context.Context, q verifier.Question) (verifier.Answer, error) {
		d, found := distances[q.Subject]
		return verifier.Answer{Found: found, Value: d, URI: "atlas:" + q.Subject}, nil
	}, nil)

	for _, claim := range []memory.Content{
		{Subject: "Berlin-Paris", Predicate: "distance", Object: "1050km", Cardinality: memory.CardinalityFunctional},
		{Subject: "Berlin-Rome", Predicate: "distance", Object: "900 km", Cardinality: memory.CardinalityFunctional},
		{Subject: "Berlin-Rome", Predicate: "distance", Object: "932 mi", Cardinality: memory.CardinalityFunctional},
		{Subject: "Berlin-Oslo", Predicate: "distance", Object: "840 km", Cardinality: memory.CardinalityFunctional},
		{Text: "Oslo is far away"},
	} {
		v, err := atlas.Verify(context.Background(), memory.Row{Content: claim})
		fmt.Println(v.Outcome, err, v.Observed, "|", v.Detail)
	}
	// Output:
	// supported <nil> 1,050 km | the source says the same
	// refuted <nil> 1,500 km | the source says otherwise
	// unclear <nil> 1,500 km | the values cannot be compared
	// unclear <nil>  | the source knows nothing of it
	// unclear <nil>  | nothing to ask: free text has no subject and predicate
}

// A guard turns a source that is down into ErrUnavailable with a time to come
// back, and spares it further questions until then.
func ExampleWithBreaker() {
	asked := 0
	crm := verifier.NewTool("crm", func(context.Context, verifier.Question) (verifier.Answer, error) {
		asked++
		return verifier.Answer{}, errors.New("connection refused")
	}, nil)
	guarded := verifier.WithBreaker("crm", crm, &verifier.BreakerOptions{Failures: 2, FirstOpen: time.Hour, OpenFor: time.Hour})

	claim := memory.Row{Content: memory.Content{Subject: "acme", Predicate: "iban", Object: "DE89"}}
	for range 5 {
		_, err := guarded.Verify(context.Background(), claim)
		fmt.Println(errors.Is(err, verifier.ErrUnavailable), errors.Is(err, verifier.ErrOpen), guarded.State())
	}
	fmt.Println("asked", asked, "times; again in", time.Until(guarded.RetryAt()).Round(time.Minute))
	// Output:
	// true false closed
	// true false open
	// true true open
	// true true open
	// true true open
	// asked 2 times; again in 1h0m0s
}
