package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/examples/internal/golden"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/internal/testmain"
)

func TestMain(m *testing.M) { testmain.Run(m) }

func TestTheExampleTellsItsStory(t *testing.T) { golden.Check(t, main) }

func TestThePolicyFileDoesWhatItSays(t *testing.T) {
	if found, err := gate.VetPolicy(policyFile); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestAnotherPolicyFileIsObeyed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.json")
	never := strings.Replace(string(policyFile), `{"max_age": "24h"}`, `{"never": "no bills today"}`, 1)
	if err := os.WriteFile(path, []byte(never), 0o600); err != nil {
		t.Fatal(err)
	}
	got := golden.Output(t, main, "-policy", path)
	if !strings.HasSuffix(got, "Bills went out to: \n") || !strings.Contains(got, "this tool is not allowed here") {
		t.Error(got)
	}
}
