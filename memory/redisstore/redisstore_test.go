package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/redisstore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/fault"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

func TestMain(m *testing.M) {
	fault.Child(openNamed)
	server.Together(8)
	testmain.Run(m, stopShared)
}

// openNamed opens the store that a URL and, behind a blank, a prefix name, in this
// process and in children.
func openNamed(ctx context.Context, name string) (memory.Driver, error) {
	url, prefix, _ := strings.Cut(name, " ")
	return redisstore.Open(ctx, url, &redisstore.Options{Prefix: prefix})
}

var (
	stopsMu sync.Mutex
	stops   []func() error
)

// stopShared ends the servers that tests share.
func stopShared() error {
	var errs []error
	for _, stop := range stops {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

func stopLater(stop func() error) {
	stopsMu.Lock()
	defer stopsMu.Unlock()
	stops = append(stops, stop)
}

// The servers that tests share, each started when it is first asked for. Nobody may
// change their settings. The quiet ones are for tests that list tenants, again and
// again: that looks at every key of a database, and others write very many.
var (
	sharedServer  = startOnce(server.RedisOptions{})
	quietServer   = startOnce(server.RedisOptions{Settings: []string{"appendfsync no"}})
	sharedCluster = formOnce("appendfsync everysec")
	quietCluster  = formOnce("appendfsync no")
)

func startOnce(o server.RedisOptions) func() (*server.RedisServer, error) {
	return sync.OnceValues(func() (*server.RedisServer, error) {
		s, err := server.Redis(context.Background(), o)
		if err == nil {
			stopLater(s.Stop)
		}
		return s, err
	})
}

func formOnce(setting string) func() (*server.RedisGroup, error) {
	return sync.OnceValues(func() (*server.RedisGroup, error) {
		g, err := server.RedisCluster(context.Background(), 3, 0, server.RedisOptions{Settings: []string{setting}})
		if err == nil {
			stopLater(g.Stop)
		}
		return g, err
	})
}

// have is what a start function gave, where a Redis is installed.
func have[S any](tb testing.TB, s S, err error) S {
	tb.Helper()
	server.Need(tb, err)
	return s
}

func shared(tb testing.TB) *server.RedisServer {
	tb.Helper()
	s, err := sharedServer()
	return have(tb, s, err)
}

// own starts a server for one test.
func own(tb testing.TB, o server.RedisOptions) *server.RedisServer {
	tb.Helper()
	s, err := server.Redis(tb.Context(), o)
	s = have(tb, s, err)
	tb.Cleanup(func() {
		if err := s.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

var prefixes atomic.Int64

// fresh is a prefix that nobody has used.
func fresh() *redisstore.Options {
	return &redisstore.Options{Prefix: fmt.Sprintf("test%d", prefixes.Add(1))}
}

func open(tb testing.TB, url string, o *redisstore.Options) *redisstore.Driver {
	tb.Helper()
	d, err := redisstore.Open(tb.Context(), url, o)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// opened is open, and closes the driver after the test.
func opened(tb testing.TB, url string, o *redisstore.Options) *redisstore.Driver {
	tb.Helper()
	d := open(tb, url, o)
	tb.Cleanup(func() {
		if err := d.Close(); err != nil && !errors.Is(err, memory.ErrClosed) {
			tb.Error(err)
		}
	})
	return d
}

// anyServer is a database for a test: on the quiet server if it lists tenants.
func anyServer(t *testing.T) string {
	t.Helper()
	start := sharedServer
	if strings.Contains(t.Name(), "tenants") {
		start = quietServer
	}
	s, err := start()
	return fmt.Sprintf("%s/%d", have(t, s, err).URL(), prefixes.Add(1)%16)
}

func anyCluster(t *testing.T) string {
	t.Helper()
	start := sharedCluster
	if strings.Contains(t.Name(), "tenants") {
		start = quietCluster
	}
	g, err := start()
	return have(t, g, err).URL()
}

func TestADriverOnOneServerKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) memory.Driver { return open(t, anyServer(t), fresh()) })
}

func TestADriverOnAClusterKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) memory.Driver { return open(t, anyCluster(t), fresh()) })
}

func TestAStoreOutlivesItsHandles(t *testing.T) {
	t.Parallel()
	storetest.RunDurable(t, func(t *testing.T) (memory.Driver, func() memory.Driver) {
		url, o := anyServer(t), fresh()
		return open(t, url, o), func() memory.Driver { return open(t, url, o) }
	})
}

func TestAStoreOnAClusterOutlivesItsHandles(t *testing.T) {
	t.Parallel()
	storetest.RunDurable(t, func(t *testing.T) (memory.Driver, func() memory.Driver) {
		url, o := anyCluster(t), fresh()
		return open(t, url, o), func() memory.Driver { return open(t, url, o) }
	})
}

func TestALineageOfTenThousandRowsIsAnsweredWholeAndALargerOneRefused(t *testing.T) {
	t.Parallel()
	url := shared(t).URL()
	storetest.RunLineage(t, func(t *testing.T) memory.Driver { return open(t, url, fresh()) })
}

func TestNoObjectCanBeForged(t *testing.T) {
	t.Parallel()
	url := shared(t).URL()
	storetest.RunForgery(t, func(t *testing.T) memory.Driver { return open(t, url, fresh()) })
}

func TestNobodyHidesARowFromItsRivals(t *testing.T) {
	t.Parallel()
	url := shared(t).URL()
	storetest.RunRivals(t, func(t *testing.T) memory.Driver { return open(t, url, fresh()) })
}

func TestWhatMayBeReliedOnIsFoundAmongManyOthers(t *testing.T) {
	t.Parallel()
	url := shared(t).URL()
	storetest.RunFlood(t, func(t *testing.T) memory.Driver { return open(t, url, fresh()) })
}

func TestRandomOperationsGiveWhatTheReferenceGives(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{Settings: []string{"appendfsync no"}})
	storetest.Compare(t, func(t *testing.T) memory.Driver { return open(t, s.URL(), fresh()) })
}

func TestRandomOperationsOnAClusterGiveWhatTheReferenceGives(t *testing.T) {
	t.Parallel()
	g, err := quietCluster()
	url := have(t, g, err).URL()
	storetest.Compare(t, func(t *testing.T) memory.Driver { return open(t, url, fresh()) })
}

func TestAStoreThatHadAWitnessDoesNotGoOnWithoutIt(t *testing.T) {
	fault.Unwitnessed(t, open(t, shared(t).URL(), fresh()))
}

func TestEveryCrashPointLeavesAWholeStore(t *testing.T) {
	t.Parallel()
	// Clients die here, the server does not: what it syncs is of no interest. A rebuild scans all keys
	// of a database, so each store has its own.
	url := own(t, server.RedisOptions{Settings: []string{"appendfsync no", "databases 1000"}}).URL()
	stores := 0
	fault.Points(t, fault.Store{Fresh: func(*testing.T) string {
		stores++
		return fmt.Sprintf("%s/%d %s", url, stores, fresh().Prefix)
	}, Open: openNamed})
}

func BenchmarkAlways(b *testing.B) {
	url := shared(b).URL()
	storetest.Benchmark(b, func(b *testing.B) memory.Driver { return open(b, url, fresh()) })
}

func BenchmarkEverySecond(b *testing.B) {
	url := own(b, server.RedisOptions{Settings: []string{"appendfsync everysec"}}).URL()
	storetest.Benchmark(b, func(b *testing.B) memory.Driver { return open(b, url, fresh()) })
}

func TestWhoeverEditsTheServersDataIsFound(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{Settings: []string{"appendfsync no"}})
	storetest.RunEdits(t, func(t *testing.T) memory.Driver { return open(t, s.URL(), fresh()) })
}

func TestTheWordsOfAClaimAreKeptBesideItAndVerifiedWithNothing(t *testing.T) {
	t.Parallel()
	url := shared(t).URL()
	storetest.RunQuotations(t, func(t *testing.T) memory.Driver { return open(t, url, fresh()) })
}
