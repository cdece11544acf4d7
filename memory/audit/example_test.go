package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// A worker signs what all logs are now and then; an operator, or a monitor,
// verifies the store against that and against the witness.
func ExampleVerify() {
	ctx := context.Background()
	store := storetest.NewStore(nil)
	defer store.Close()
	folder, _ := os.MkdirTemp("", "audit")
	defer os.RemoveAll(folder)
	key, _, _ := audit.NewKey("acme.example/hearsay")
	witness, err := audit.CreateWitness(filepath.Join(folder, "witness")) // on another machine, in earnest
	if err != nil {
		fmt.Println(err)
		return
	}
	defer witness.Close()

	_, _ = store.Put(ctx, memory.Draft{Content: memory.Content{Text: "the sky is blue", Cardinality: memory.CardinalityUnknown}, Origin: memory.OriginModelDerived,
		State: memory.StateUnverified, Asserter: memory.Asserter{Principal: "ana", Model: "Sonnet", Family: "claude"}, Sensitivity: memory.SensitivityPublic})
	maker, err := audit.NewMaker(store, key, key.Name(), &audit.MakerOptions{Witness: witness})
	if err != nil {
		fmt.Println(err)
		return
	}
	checkpoint, err := maker.Make(ctx)
	fmt.Println(checkpoint.Index, checkpoint.Size, err)

	report, err := audit.Verify(ctx, store, audit.Options{Verifiers: []note.Verifier{key.Verifier()}, Witness: witness})
	fmt.Println(report.Entries, report.Newer, report.Witnessed, err)
	// Output:
	// 1 3 <nil>
	// 3 0 1 <nil>
}

// An export is verified where the store is not, with its audit keys.
func ExampleVerifyExport() {
	ctx := context.Background()
	driver, keys := storetest.NewMap(), keyring.Ephemeral()
	store, err := memory.New(driver, keys, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	_ = store.BumpEpoch(ctx, "operator", "an example")

	var export bytes.Buffer
	fmt.Println(audit.Export(ctx, store, &export))
	report, err := audit.VerifyExport(ctx, bytes.NewReader(export.Bytes()), keys, audit.Options{})
	fmt.Println(report.Logs, report.Entries, err)

	cut := export.Bytes()[:export.Len()-300]
	_, err = audit.VerifyExport(ctx, bytes.NewReader(cut), keys, audit.Options{})
	fmt.Println(errors.Is(err, audit.ErrExport))
	// Output:
	// <nil>
	// 2 3 <nil>
	// true
}

// A demotion is acknowledged to the witness before its caller hears that it is
// done; after a fail-over, what the store lost is found.
func ExampleLedger_Behind() {
	ctx := context.Background()
	store := storetest.NewStore(nil)
	defer store.Close()
	folder, _ := os.MkdirTemp("", "audit")
	defer os.RemoveAll(folder)
	witness, err := audit.CreateWitness(filepath.Join(folder, "witness"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer witness.Close()
	ledger := witness.Ledger(store.Tenant(), store.Namespace())
	lost := memory.Leaf{Key: memory.DecisionKey("blk_example"), Revision: 2, MAC: [32]byte{1}}
	fmt.Println(ledger.Acknowledge(ctx, memory.EntryTransition, []memory.Leaf{lost}))

	behind, err := ledger.Behind(ctx, store)
	for _, entry := range behind {
		fmt.Println(memory.KeyText(entry.Key), entry.Revision, err)
	}
	// Output:
	// <nil>
	// decision/blk_example 2 <nil>
}
