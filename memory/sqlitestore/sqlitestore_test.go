package sqlitestore_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"go.uber.org/goleak"
)

// childPath names the variable that makes this binary the child of the kill test or,
// with childLevel, of the one of power.
const childPath = "SQLITESTORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		if level := os.Getenv(childLevel); level != "" {
			os.Exit(writeForPowerLoss(path, level))
		}
		os.Exit(writeUntilKilled(path))
	}
	goleak.VerifyTestMain(m)
}

func open(tb testing.TB, path string, o *sqlitestore.Options) *sqlitestore.Driver {
	tb.Helper()
	d, err := sqlitestore.Open(tb.Context(), path, o)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func fresh(tb testing.TB) string { return filepath.Join(tb.TempDir(), "store.db") }

func TestADriverWithFullSyncKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) memory.Driver { return open(t, fresh(t), nil) })
}

func TestADriverWithNormalSyncAndOneReaderKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) memory.Driver {
		return open(t, fresh(t), &sqlitestore.Options{Synchronous: sqlitestore.Normal, ReadConns: 1})
	})
}

func TestAStoreOutlivesItsHandles(t *testing.T) {
	storetest.RunDurable(t, func(t *testing.T) (memory.Driver, func() memory.Driver) {
		path := fresh(t)
		return open(t, path, nil), func() memory.Driver { return open(t, path, nil) }
	})
}

func TestALineageOfTenThousandRowsIsAnsweredWholeAndALargerOneRefused(t *testing.T) {
	storetest.RunLineage(t, func(t *testing.T) memory.Driver { return open(t, fresh(t), nil) })
}

func TestRandomOperationsGiveWhatTheReferenceGives(t *testing.T) {
	storetest.Compare(t, func(t *testing.T) memory.Driver {
		return open(t, fresh(t), &sqlitestore.Options{Synchronous: sqlitestore.Normal})
	})
}

func BenchmarkFull(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) memory.Driver { return open(b, fresh(b), nil) })
}

func BenchmarkNormal(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) memory.Driver {
		return open(b, fresh(b), &sqlitestore.Options{Synchronous: sqlitestore.Normal})
	})
}
