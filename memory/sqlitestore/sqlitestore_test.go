package sqlitestore_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/fault"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

// childPath names the variable that makes this binary the child of the kill test or,
// with childLevel, of the one of power.
const childPath = "SQLITESTORE_TEST_CHILD"

func TestMain(m *testing.M) {
	fault.Child(openNamed)
	if path := os.Getenv(childPath); path != "" {
		if level := os.Getenv(childLevel); level != "" {
			if level == "open" {
				os.Exit(openForKill(path))
			}
			os.Exit(writeForPowerLoss(path, level))
		}
		os.Exit(writeUntilKilled(path))
	}
	server.Together(4)
	testmain.Run(m)
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

// openNamed opens a file by its path, in this process and in children.
func openNamed(ctx context.Context, path string) (memory.Driver, error) {
	return sqlitestore.Open(ctx, path, nil)
}

func TestADriverWithFullSyncKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) memory.Driver { return open(t, fresh(t), nil) })
}

func TestADriverWithNormalSyncAndOneReaderKeepsTheContract(t *testing.T) {
	storetest.RunSample(t, func(t *testing.T) memory.Driver {
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

func TestAStoreThatHadAWitnessDoesNotGoOnWithoutIt(t *testing.T) {
	fault.Unwitnessed(t, open(t, fresh(t), nil))
}

func TestEveryCrashPointLeavesAWholeStore(t *testing.T) {
	t.Parallel()
	fault.Points(t, fault.Store{Fresh: func(t *testing.T) string { return fresh(t) }, Open: openNamed})
}

func BenchmarkFull(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) memory.Driver { return open(b, fresh(b), nil) })
}

func BenchmarkNormal(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) memory.Driver {
		return open(b, fresh(b), &sqlitestore.Options{Synchronous: sqlitestore.Normal})
	})
}

func TestWhoeverEditsTheFileIsFound(t *testing.T) {
	t.Parallel()
	storetest.RunEdits(t, func(t *testing.T) memory.Driver {
		return open(t, fresh(t), &sqlitestore.Options{Synchronous: sqlitestore.Normal})
	})
}

func TestTheWordsOfAClaimAreKeptBesideItAndVerifiedWithNothing(t *testing.T) {
	storetest.RunQuotations(t, func(t *testing.T) memory.Driver { return open(t, fresh(t), nil) })
}

func TestNoObjectCanBeForged(t *testing.T) {
	storetest.RunForgery(t, func(t *testing.T) memory.Driver { return open(t, fresh(t), nil) })
}

func TestNobodyHidesARowFromItsRivals(t *testing.T) {
	storetest.RunRivals(t, func(t *testing.T) memory.Driver { return open(t, fresh(t), nil) })
}

func TestWhatMayBeReliedOnIsFoundAmongManyOthers(t *testing.T) {
	storetest.RunFlood(t, func(t *testing.T) memory.Driver {
		return open(t, fresh(t), &sqlitestore.Options{Synchronous: sqlitestore.Normal})
	})
}

func TestARebuildMendsAFileThatLostAnObject(t *testing.T) {
	path := fresh(t)
	d := open(t, path, &sqlitestore.Options{Synchronous: sqlitestore.Normal})
	db := other(t, path)
	storetest.RunLost(t, d, func(t *testing.T, key string) {
		if _, err := db.Exec(`DELETE FROM object WHERE key = ?`, []byte(key)); err != nil {
			t.Fatal(err)
		}
	})
}
