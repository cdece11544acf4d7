package secondmodel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/secondmodel"
)

// A model of another family is asked about a claim. Its word is evidence of rank
// second_model and of its family's group; whether that suffices is not for it to
// say. A real BaseURL is for instance "http://127.0.0.1:11434/v1".
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Messages []struct{ Content string } }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		token := strings.Fields(in.Messages[1].Content)[2]
		answer, _ := json.Marshal(map[string]string{
			"nonce": token, "reason": "The capital of France is Paris.", "verdict": "refuted", "value": "Paris",
		})
		_ = json.NewEncoder(w).Encode(map[string]any{"model": "llama3", "choices": []any{map[string]any{
			"finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": string(answer)},
		}}})
	}))
	defer server.Close()

	model, err := secondmodel.New(secondmodel.Config{
		Name: "judge", BaseURL: server.URL + "/v1", Model: "llama3", Family: "llama", HTTPClient: server.Client(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := verifier.WithBreaker("judge", model, nil).Verify(context.Background(), memory.Row{
		Content:  memory.Content{Subject: "France", Predicate: "capital", Object: "Lyon", Cardinality: memory.CardinalityFunctional},
		Asserter: memory.Asserter{Principal: "ana", Model: "gpt-x", Family: "gpt"},
	})
	fmt.Println(v.Outcome, err)
	fmt.Println(v.Observed, "|", v.Detail)
	fmt.Println(v.Evidence.Relation, v.Evidence.Rank, v.Evidence.Group)
	// Output:
	// refuted <nil>
	// Paris | The capital of France is Paris.
	// contradicts second_model family:llama
}
