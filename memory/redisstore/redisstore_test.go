package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/redisstore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

// tests ends the servers that tests share, before anybody looks for leaks.
type tests struct{ *testing.M }

func (t tests) Run() int {
	code := t.M.Run()
	for _, stop := range stops {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	// The client asks a server that was gone once a second whether it is back, and
	// sees only then that it was closed.
	for end := time.Now().Add(3 * time.Second); goleak.Find() != nil && time.Now().Before(end); {
	}
	return code
}

var (
	stopsMu sync.Mutex
	stops   []func() error
)

func stopLater(stop func() error) {
	stopsMu.Lock()
	defer stopsMu.Unlock()
	stops = append(stops, stop)
}

// The servers that tests share, each started when it is first asked for. Nobody may
// change their settings.
var (
	sharedServer = sync.OnceValues(func() (*server.RedisServer, error) {
		s, err := server.Redis(context.Background(), server.RedisOptions{})
		if err == nil {
			stopLater(s.Stop)
		}
		return s, err
	})
	sharedCluster = sync.OnceValues(func() (*server.RedisGroup, error) {
		g, err := server.RedisCluster(context.Background(), 3, 0, server.RedisOptions{Settings: []string{"appendfsync everysec"}})
		if err == nil {
			stopLater(g.Stop)
		}
		return g, err
	})
)

// have is what a start function gave. Without a Redis on the machine the test is
// skipped, but never in CI.
func have[S any](tb testing.TB, s S, err error) S {
	tb.Helper()
	switch {
	case errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") == "":
		tb.Skip("there is no redis-server in the PATH")
	case err != nil:
		tb.Fatal(err)
	}
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

func TestADriverOnOneServerKeepsTheContract(t *testing.T) {
	url := shared(t).URL()
	storetest.Run(t, func(t *testing.T) memory.Driver { return open(t, url, fresh()) })
}

func TestADriverOnAClusterKeepsTheContract(t *testing.T) {
	g, err := sharedCluster()
	url := have(t, g, err).URL()
	storetest.Run(t, func(t *testing.T) memory.Driver { return open(t, url, fresh()) })
}

func TestAStoreOutlivesItsHandles(t *testing.T) {
	url := shared(t).URL()
	storetest.RunDurable(t, func(t *testing.T) (memory.Driver, func() memory.Driver) {
		o := fresh()
		return open(t, url, o), func() memory.Driver { return open(t, url, o) }
	})
}

func TestAStoreOnAClusterOutlivesItsHandles(t *testing.T) {
	g, err := sharedCluster()
	url := have(t, g, err).URL()
	storetest.RunDurable(t, func(t *testing.T) (memory.Driver, func() memory.Driver) {
		o := fresh()
		return open(t, url, o), func() memory.Driver { return open(t, url, o) }
	})
}

func TestALineageOfTenThousandRowsIsAnsweredWholeAndALargerOneRefused(t *testing.T) {
	url := shared(t).URL()
	storetest.RunLineage(t, func(t *testing.T) memory.Driver { return open(t, url, fresh()) })
}

func TestRandomOperationsGiveWhatTheReferenceGives(t *testing.T) {
	url := shared(t).URL()
	storetest.Compare(t, func(t *testing.T) memory.Driver { return open(t, url, fresh()) })
}

func TestRandomOperationsOnAClusterGiveWhatTheReferenceGives(t *testing.T) {
	g, err := sharedCluster()
	url := have(t, g, err).URL()
	storetest.Compare(t, func(t *testing.T) memory.Driver { return open(t, url, fresh()) })
}

func BenchmarkAlways(b *testing.B) {
	url := shared(b).URL()
	storetest.Benchmark(b, func(b *testing.B) memory.Driver { return open(b, url, fresh()) })
}

func BenchmarkEverySecond(b *testing.B) {
	url := own(b, server.RedisOptions{Settings: []string{"appendfsync everysec"}}).URL()
	storetest.Benchmark(b, func(b *testing.B) memory.Driver { return open(b, url, fresh()) })
}
