//go:build unix

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/fault"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/jackc/pgx/v5"
)

// One server serves all tests of the package that do not break it; each test has a
// schema of its own there. The tables belong to the role owner, drivers connect as
// the role app.
var (
	shared  *server.PostgresServer
	missing error // why there is none
	schemas atomic.Int64
)

func TestMain(m *testing.M) {
	fault.Child(openNamed)
	server.Together(8)
	shared, missing = start(context.Background(), "fsync=off") // no power is lost there
	testmain.Run(m, func() error {
		if shared == nil {
			return nil
		}
		return shared.Stop(context.Background())
	})
}

// openNamed opens the store that the URL of a role, that of the owner, and a schema
// name, in this process and in children.
func openNamed(ctx context.Context, name string) (memory.Driver, error) {
	parts := strings.Fields(name)
	return pgstore.Open(ctx, parts[0], &pgstore.Options{MaintenanceURL: parts[1], Schema: parts[2], Role: "app"})
}

func start(ctx context.Context, settings ...string) (*server.PostgresServer, error) {
	s, err := server.Postgres(ctx, settings...)
	if err != nil {
		return nil, err
	}
	c, err := pgx.Connect(ctx, s.URL())
	if err == nil {
		defer c.Close(ctx)
		_, err = c.PgConn().Exec(ctx, `CREATE ROLE owner LOGIN; GRANT CREATE ON DATABASE postgres TO owner; GRANT pg_checkpoint TO owner;
			CREATE ROLE app LOGIN; CREATE ROLE other LOGIN`).ReadAll()
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop(ctx))
	}
	return s, nil
}

// own starts a server for one test.
func own(t *testing.T, settings ...string) *server.PostgresServer {
	t.Helper()
	s, err := start(t.Context(), settings...)
	server.Need(t, err)
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fresh are options for a schema of its own, which has no tables yet.
func fresh(tb testing.TB) *pgstore.Options {
	tb.Helper()
	server.Need(tb, missing)
	return &pgstore.Options{Schema: fmt.Sprintf("store_%d", schemas.Add(1)), Role: "app", MaintenanceURL: shared.RuntimeURL("owner")}
}

func migrate(tb testing.TB, s *server.PostgresServer, o *pgstore.Options) {
	tb.Helper()
	if _, err := pgstore.Migrate(tb.Context(), s.RuntimeURL("owner"), o); err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, s *server.PostgresServer, o *pgstore.Options) *pgstore.Driver {
	tb.Helper()
	d, err := pgstore.Open(tb.Context(), s.RuntimeURL("app"), o)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// made is a driver on a fresh store.
func made(tb testing.TB) *pgstore.Driver {
	tb.Helper()
	o := fresh(tb)
	migrate(tb, shared, o)
	return open(tb, shared, o)
}

func TestADriverKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) memory.Driver { return made(t) })
}

func TestADriverWithOneConnectionKeepsTheContract(t *testing.T) {
	storetest.RunSample(t, func(t *testing.T) memory.Driver {
		o := fresh(t)
		o.MaxConns = 1
		migrate(t, shared, o)
		return open(t, shared, o)
	})
}

func TestAStoreOutlivesItsHandles(t *testing.T) {
	storetest.RunDurable(t, func(t *testing.T) (memory.Driver, func() memory.Driver) {
		o := fresh(t)
		migrate(t, shared, o)
		return open(t, shared, o), func() memory.Driver { return open(t, shared, o) }
	})
}

func TestAStoreThatHadAWitnessDoesNotGoOnWithoutIt(t *testing.T) {
	o := fresh(t)
	migrate(t, shared, o)
	fault.Unwitnessed(t, open(t, shared, o))
}

func TestEveryCrashPointLeavesAWholeStore(t *testing.T) {
	t.Parallel()
	s := own(t, "fsync=off") // clients die here, the server does not
	fault.Points(t, fault.Store{Open: openNamed, Fresh: func(t *testing.T) string {
		o := &pgstore.Options{Schema: fmt.Sprintf("store_%d", schemas.Add(1)), Role: "app"}
		migrate(t, s, o)
		return strings.Join([]string{s.RuntimeURL("app"), s.RuntimeURL("owner"), o.Schema}, " ")
	}})
}

func TestALineageOfTenThousandRowsIsAnsweredWholeAndALargerOneRefused(t *testing.T) {
	t.Parallel()
	storetest.RunLineage(t, func(t *testing.T) memory.Driver {
		o := fresh(t)
		migrate(t, shared, o)
		return open(t, shared, o)
	})
}

func TestNoObjectCanBeForged(t *testing.T) {
	t.Parallel()
	storetest.RunForgery(t, func(t *testing.T) memory.Driver { return made(t) })
}

func TestNobodyHidesARowFromItsRivals(t *testing.T) {
	t.Parallel()
	storetest.RunRivals(t, func(t *testing.T) memory.Driver { return made(t) })
}

func TestWhatMayBeReliedOnIsFoundAmongManyOthers(t *testing.T) {
	t.Parallel()
	storetest.RunFlood(t, func(t *testing.T) memory.Driver { return made(t) })
}

func TestRandomOperationsGiveWhatTheReferenceGives(t *testing.T) {
	t.Parallel()
	storetest.Compare(t, func(t *testing.T) memory.Driver { return made(t) })
}

func Benchmark(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) memory.Driver { return made(b) })
}

// BenchmarkBare is what the rows of a transition cost when they are written by
// plain statements in one transaction, and a single row of the same bytes.
func BenchmarkBare(b *testing.B) {
	server.Need(b, missing)
	c, err := pgx.Connect(b.Context(), shared.RuntimeURL("owner"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(b.Context())
	if _, err := c.Exec(b.Context(), `CREATE SCHEMA IF NOT EXISTS bare`); err != nil {
		b.Fatal(err)
	}
	if _, err := c.Exec(b.Context(), `DROP TABLE IF EXISTS bare.bare; CREATE TABLE bare.bare (id bigserial PRIMARY KEY, data bytea)`, pgx.QueryExecModeSimpleProtocol); err != nil {
		b.Fatal(err)
	}
	b.Run("Select1", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Exec(b.Context(), `SELECT 1`); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, rows := range []int{1, 8} {
		b.Run(fmt.Sprintf("Insert%d", rows), func(b *testing.B) {
			for b.Loop() {
				var batch pgx.Batch
				for range rows {
					batch.Queue(`INSERT INTO bare.bare (data) VALUES ($1)`, make([]byte, 900/rows))
				}
				if err := c.SendBatch(b.Context(), &batch).Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestWhoeverEditsTheServersDataIsFound(t *testing.T) {
	t.Parallel()
	storetest.RunEdits(t, func(t *testing.T) memory.Driver { return made(t) })
}

func TestTheWordsOfAClaimAreKeptBesideItAndVerifiedWithNothing(t *testing.T) {
	t.Parallel()
	storetest.RunQuotations(t, func(t *testing.T) memory.Driver { return made(t) })
}

func TestARebuildMendsASchemaThatLostAnObject(t *testing.T) {
	t.Parallel()
	o := fresh(t)
	migrate(t, shared, o)
	c, err := pgx.Connect(t.Context(), shared.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	storetest.RunLost(t, open(t, shared, o), func(t *testing.T, key string) {
		if _, err := c.Exec(t.Context(), `DELETE FROM `+o.Schema+`.object WHERE substring(key, 5) = $1`, []byte(key)); err != nil {
			t.Fatal(err)
		}
	})
}
