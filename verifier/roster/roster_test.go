package roster

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

func read(t *testing.T, text string) *Roster {
	t.Helper()
	path := filepath.Join(t.TempDir(), "verifiers.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &Roster{}
	r.AddFile("file", path, func(k string) string { return map[string]string{"TOKEN": secret}[k] })
	return r
}

func bare(_ string, v verifier.Verifier, _ time.Duration) verifier.Verifier { return v }

func TestAFileNamesWhoMayBeAsked(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"a.csv": "sku,price\nA-1,10 EUR\n", "b.txt": "A-1 costs 10 EUR today."} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := read(t, `{
		"http": [{"name": "crm", "url": "http://127.0.0.1:1/f", "predicates": ["vat"]}],
		"documents": [
			{"name": "list", "uri": "file://`+folder+`/a.csv", "table": {"subject": "sku", "columns": {"price": "price"}}},
			{"name": "page", "uri": "file://`+folder+`/b.txt", "text": {"subject": "A-1", "patterns": {"price": "costs (\\d+ EUR)"}}}],
		"fetch": {"roots": ["`+folder+`"]},
		"models": [{"name": "second", "base_url": "http://127.0.0.1:2/v1", "model": "m", "family": "f"}],
		"quorums": [{"name": "both", "of": ["list", "page"], "k": 2}],
		"auto_promote": ["vat"]}`)
	entries, err := r.Make(bare)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name+" "+e.Kind+" "+e.Rank.String())
	}
	if want := []string{"crm http tool", "second model second_model", "both quorum primary_source"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v: who is in a quorum is not asked alone", names, want)
	}
	both := entries[2]
	price := memory.Content{Subject: "A-1", Predicate: "Price", Object: "10 EUR", Cardinality: memory.CardinalityFunctional}
	if !both.Covers(price) || both.Covers(memory.Content{Subject: "A-2", Predicate: "price", Object: "1"}) || both.Covers(memory.Content{Text: "x"}) || !slices.Equal(r.Observe, []string{"vat"}) {
		t.Error("it covers what its members do, and nothing else")
	}
	v, err := both.Verifier.Verify(t.Context(), memory.Row{Content: price})
	if err != nil || v.Outcome != verifier.Supported || v.Evidence.Quorum != 2 || len(v.Heard) != 1 || v.Evidence.Group != "document:file://"+folder+"/a.csv" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestAFileThatIsHalfIsRefused(t *testing.T) {
	for say, text := range map[string]string{
		"documents[0].name: missing":                `{"documents":[{"uri":"file:///x","table":{"subject":"s","columns":{"a":"b"}}}]}`,
		"documents[0]: want table or text":          `{"documents":[{"name":"a","uri":"file:///x"}]}`,
		"documents[0]: document: no address":        `{"documents":[{"name":"a","text":{"subject":"s","patterns":{"p":"(x)"}}}]}`,
		"documents[0]: document: the pin":           `{"documents":[{"name":"a","uri":"file:///x","sha256":"ab","text":{"subject":"s","patterns":{"p":"(x)"}}}]}`,
		"documents[0].compare":                      `{"documents":[{"name":"a","compare":"close","uri":"file:///x","text":{"subject":"s","patterns":{"p":"(x)"}}}]}`,
		"documents[0].cardinality":                  `{"documents":[{"name":"a","cardinality":"one","uri":"file:///x","text":{"subject":"s","patterns":{"p":"(x)"}}}]}`,
		"documents[0].sha1: no such field":          `{"documents":[{"sha1":""}]}`,
		"quorums[0].k: 2 of 1":                      `{"quorums":[{"name":"q","of":["a"],"k":2}]}`,
		"quorums[0].name: missing":                  `{"quorums":[{"of":["a"],"k":1}]}`,
		`the quorum "q" is of "a", which is no`:     `{"quorums":[{"name":"q","of":["a"],"k":1}]}`,
		`"a" is asked twice in quorums`:             `{"http":[{"name":"a","url":"http://h/","predicates":["p"]}],"quorums":[{"name":"q","of":["a","a"],"k":2}]}`,
		`two verifiers are named "A"`:               `{"http":[{"name":"a","url":"http://h/","predicates":["p"]}],"models":[{"name":"A","base_url":"http://127.0.0.1/","model":"m","family":"f"}]}`,
		`auto_promote: "*" is no predicate`:         `{"auto_promote":["*"]}`,
		"fetch.host: no such field":                 `{"fetch":{"host":["a"]}}`,
		"http[0].token_env: the environment has no": `{"http":[{"name":"a","url":"https://h/","predicates":["p"],"token_env":"NONE"}]}`,
		"http[0].url: a key would travel in clear":  `{"http":[{"name":"a","url":"http://h/","predicates":["p"],"token_env":"TOKEN"}]}`,
	} {
		r := read(t, text)
		problems := strings.Join(r.Problems(), "\n")
		if !strings.Contains(problems, say) || strings.Contains(problems, secret) {
			t.Errorf("%q does not say %q", problems, say)
		}
		if _, err := r.Make(bare); err == nil {
			t.Errorf("%s: it was made", say)
		}
	}
	r := &Roster{}
	r.Fetch.Roots = []string{"/nowhere/at/all"}
	if _, err := r.Make(bare); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
