package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/internal/proxy"
	"github.com/hearsay-go/hearsay/internal/sample"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/redisstore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/fault"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/redis/go-redis/v9"
)

// clean asks for an error with a sentinel, and that its text gives nothing away.
func clean(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want one that is %q", err, want)
	}
	for _, w := range []string{"ERR ", "redis: ", "OOM", "READONLY", "WRONGPASS", "NOAUTH", "WRONGTYPE", "secret", "tcp"} {
		if strings.Contains(err.Error(), w) {
			t.Fatalf("error %q has %q in it", err, w)
		}
	}
}

func refused(t *testing.T, url string, o *redisstore.Options, want error) error {
	t.Helper()
	d, err := redisstore.Open(t.Context(), url, o)
	if err == nil {
		d.Close()
	}
	clean(t, err, want)
	return err
}

func do(t *testing.T, s *server.RedisServer, args ...string) string {
	t.Helper()
	answer, err := s.Do(t.Context(), args...)
	if err != nil {
		t.Fatalf("%.80q: %v", args, err)
	}
	return answer
}

func put(key string, from uint64, content string) memory.Batch {
	return memory.Batch{Puts: []memory.Put{{Key: key, From: from, Data: []byte(content), Entry: []byte(content), Add: []memory.Term{{Name: "t", Sort: from}}}}}
}

func apply(t *testing.T, d memory.Driver, b memory.Batch) {
	t.Helper()
	if err := d.Apply(t.Context(), "tenant", b); err != nil {
		t.Fatal(err)
	}
}

func revision(t *testing.T, d memory.Driver, key string) uint64 {
	t.Helper()
	objects, err := d.Get(t.Context(), "tenant", []string{key})
	if err != nil {
		t.Fatal(err)
	}
	return objects[0].Revision
}

// eventually asks until it is so. A Sentinel whose process gets no processor for two
// seconds votes for nobody for 30 seconds after that (TILT).
func eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !ask(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestAURLThatNamesNoServerIsRefusedWithoutBeingShown(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "localhost:6379", "http://:secret@localhost", "redis://:secret@h:port", "redis://:secret@a,b", "redis://:secret@a/?cluster=perhaps",
		"redis://:secret@a/1?cluster=true", "redis://:secret@a/?cluster=true&master=m", "redis://:secret@a/?no_such=1", "redis://:secret@a/x", "unix://:secret@/s?master=m",
	} {
		refused(t, url, nil, redisstore.ErrURL)
	}
	for _, prefix := range []string{"{a}", "a*", "a b", "\x00", strings.Repeat("a", 65)} {
		refused(t, "redis://localhost:1", &redisstore.Options{Prefix: prefix}, redisstore.ErrURL)
	}
	refused(t, "redis://:secret@127.0.0.1:1", nil, memory.ErrStore)
}

func TestAWrongPasswordIsRefused(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{Password: "right"})
	refused(t, strings.Replace(s.URL(), "right", "secret", 1), nil, memory.ErrStore)
	refused(t, "redis://"+s.Addr, nil, memory.ErrStore)
	opened(t, s.URL(), nil)
}

func TestAUserWithoutScriptsIsRefused(t *testing.T) {
	t.Parallel()
	s := shared(t)
	do(t, s, "ACL", "SETUSER", "plain", "on", ">pw", "~*", "+@all", "-@scripting")
	refused(t, "redis://plain:pw@"+s.Addr, nil, redisstore.ErrServer)
	do(t, s, "ACL", "SETUSER", "blind", "on", ">pw", "~*", "+@all", "-info")
	defer do(t, s, "ACL", "DELUSER", "plain", "blind")
	refused(t, "redis://blind:pw@"+s.Addr, nil, redisstore.ErrServer)
}

func TestWhatTheURLSaysMustBeTrueOfTheServer(t *testing.T) {
	t.Parallel()
	refused(t, shared(t).URL()+"?cluster=true", nil, redisstore.ErrServer)
	g, err := sharedCluster()
	g = have(t, g, err)
	refused(t, g.Servers[0].URL(), nil, redisstore.ErrServer)
}

func TestKeysOfAnotherProgramUnderThePrefixAreRefusedUntouched(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for i, foreign := range [][]string{
		{"SET", "PREFIX:session:1", "x"}, {"SET", "PREFIX:store", "x"}, {"HSET", "PREFIX:store", "a", "b"}, {"SET", "PREFIX:{t}n", "1"},
	} {
		o := &redisstore.Options{Prefix: fmt.Sprintf("foreign%d", i)}
		for at, arg := range foreign {
			foreign[at] = strings.Replace(arg, "PREFIX", o.Prefix, 1)
		}
		do(t, s, foreign...)
		before := do(t, s, "DUMP", foreign[1])
		refused(t, s.URL(), o, memory.ErrForeign)
		if keys := do(t, s, "KEYS", o.Prefix+"*"); keys != foreign[1] || do(t, s, "DUMP", foreign[1]) != before {
			t.Fatalf("there are %q after %q was refused", keys, foreign)
		}
	}
	// Beside the prefix anything may be.
	opened(t, s.URL(), &redisstore.Options{Prefix: "foreign"})
}

func TestAStoreOfAnotherFormIsRefused(t *testing.T) {
	t.Parallel()
	s := shared(t)
	storetest.RunForm(t, func(t *testing.T) (func() (memory.Driver, error), func(int)) {
		o := fresh()
		open := func() (memory.Driver, error) { return redisstore.Open(t.Context(), s.URL(), o) }
		return open, func(form int) {
			number := ""
			if form > 0 {
				number = fmt.Sprint(form)
			}
			do(t, s, "SET", o.Prefix+":store", "hearsay redisstore "+number)
		}
	})
}

func TestAStoreOfTheFirstLayoutIsRefusedUntouched(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	// What version 1 wrote for an object with a log and a term.
	base := "hearsay:{t" + fmt.Sprintf("%x", "tenant") + "}"
	written := [][]string{
		{"SET", "hearsay:store", "hearsay redisstore 1"}, {"SET", base + "ok", "\x00\x00\x00\x00\x00\x00\x00\x01d\x00\x00\x00\x00x"}, {"SET", base + "n", "1"},
		{"RPUSH", base + "lk", "\x00\x00\x00\x00\x00\x00\x00\x01x"}, {"ZADD", base + "tt", "0", "\x00\x00\x00\x00\x00\x00\x00\x00k"}, {"ZADD", base + "r", "0", "k"},
	}
	for _, command := range written {
		do(t, s, command...)
	}
	err := refused(t, s.URL(), nil, memory.ErrSchema)
	var wrong *memory.FormError
	if !errors.As(err, &wrong) || wrong.Found != 1 {
		t.Fatalf("%v does not say which form", err)
	}
	if keys := strings.Split(do(t, s, "KEYS", "*"), "\n"); len(keys) != len(written) {
		t.Fatalf("there were %d keys and are %q", len(written), keys)
	}
	// Without its mark it is no store at all.
	do(t, s, "DEL", "hearsay:store")
	refused(t, s.URL(), nil, memory.ErrForeign)
}

func TestAReplicaIsRefused(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	do(t, s, "REPLICAOF", "127.0.0.1", "1")
	refused(t, s.URL(), nil, memory.ErrStore)
}

func TestStrictRefusesWhatWouldLoseBatches(t *testing.T) {
	t.Parallel()
	opened(t, shared(t).URL(), &redisstore.Options{Prefix: "strict", Strict: true})
	for name, settings := range map[string][]string{
		"appendonly":             {"appendonly no"},
		"appendfsync":            {"appendfsync everysec"},
		"maxmemory-policy":       {"maxmemory 100mb", "maxmemory-policy allkeys-lru"},
		"CONFIG":                 {`rename-command CONFIG ""`},
		"aof-load-truncated":     {"appendfsync no"},
		"aof_last_write_status ": nil, // nothing is wrong here
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := own(t, server.RedisOptions{Settings: settings})
			d, err := redisstore.Open(t.Context(), s.URL(), &redisstore.Options{Strict: true})
			if settings == nil {
				if err != nil {
					t.Fatal(err)
				}
				d.Close()
				return
			}
			clean(t, err, memory.ErrStore)
			var unsafe *redisstore.UnsafeError
			found := false
			if errors.As(err, &unsafe) {
				for _, f := range unsafe.Findings {
					found = found || f.Name == name && !f.Safe && f.Loss != "" && f.Fix != ""
				}
			}
			if !found {
				t.Fatalf("%v does not name %s", err, name)
			}
			if keys := do(t, s, "KEYS", "*"); keys != "" {
				t.Fatalf("refused, and it wrote %q", keys)
			}
			i, err := opened(t, s.URL(), nil).Inspect(t.Context())
			if err != nil || !strings.Contains(i.Server, "Redis ") || i.Promise == "" {
				t.Fatalf("%+v %v", i, err)
			}
		})
	}
}

func TestAServerWithoutMemoryRefusesABatchWhole(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	d := opened(t, s.URL(), nil)
	apply(t, d, put("k", 0, "before"))
	do(t, s, "CONFIG", "SET", "maxmemory", "1")
	b := put("k", 1, "after")
	b.Puts[0].Remove, b.Puts[0].Add = []string{"t"}, nil
	for i := range 200 {
		b.Puts = append(b.Puts, put(fmt.Sprint(i), 0, "x").Puts...)
	}
	clean(t, d.Apply(t.Context(), "tenant", b), memory.ErrStore)
	clean(t, d.Restore(t.Context(), "tenant", []memory.Restored{{Object: memory.Object{Key: "k", Revision: 7}}}), memory.ErrStore)
	clean(t, storetest.Rewrite(t.Context(), d, "tenant", "k", []memory.LogEntry{{Revision: 1, Data: []byte("y")}}), memory.ErrStore)
	do(t, s, "CONFIG", "SET", "maxmemory", "0")
	if got := revision(t, d, "k"); got != 1 {
		t.Fatalf("k is at %d", got)
	}
	hits, _, err := d.Query(t.Context(), "tenant", memory.Query{Term: "t", Limit: 1000})
	if err != nil || len(hits) != 1 || revision(t, d, "0") != 0 {
		t.Fatalf("half a batch: %v %v", hits, err)
	}
	log, err := d.History(t.Context(), "tenant", "k", 0, 10)
	if err != nil || len(log) != 1 || string(log[0].Data) != "before" {
		t.Fatalf("the log is %v (%v)", log, err)
	}
	apply(t, d, b)
}

func TestTooFewReplicasRefuseABatchWhole(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	d := opened(t, s.URL(), nil)
	do(t, s, "CONFIG", "SET", "min-replicas-to-write", "1")
	clean(t, d.Apply(t.Context(), "tenant", put("k", 0, "x")), memory.ErrStore)
	if got := revision(t, d, "k"); got != 0 {
		t.Fatalf("k is at %d", got)
	}
}

func TestAKeyOfTheStoreThatHoldsSomethingElseLeavesNothingOfABatch(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	b := memory.Batch{Puts: append(put("first", 0, "x").Puts, put("other", 0, "x").Puts...)}
	b.Puts[1].Add = []memory.Term{{Name: "u", Sort: 1}}
	// The keys that the batch writes, as it writes them elsewhere.
	apply(t, opened(t, s.URL(), &redisstore.Options{Prefix: "a"}), b)
	var keys []string
	for _, key := range strings.Split(do(t, s, "KEYS", "a:{*"), "\n") {
		keys = append(keys, strings.TrimPrefix(key, "a:"))
	}
	if len(keys) < 4 {
		t.Fatalf("the batch wrote %q", keys)
	}
	for i, key := range keys {
		o := &redisstore.Options{Prefix: fmt.Sprintf("b%d", i)}
		d := opened(t, s.URL(), o)
		do(t, s, "SADD", o.Prefix+":"+key, "x")
		clean(t, d.Apply(t.Context(), "tenant", b), memory.ErrStore)
		if _, kind, _ := strings.Cut(key, "}"); kind[0] == 'o' || kind[0] == 't' { // what a Restore writes
			clean(t, d.Restore(t.Context(), "tenant", []memory.Restored{
				{Object: memory.Object{Key: "first", Revision: 7}, Terms: []memory.Term{{Name: "t"}}}, {Object: memory.Object{Key: "other", Revision: 7}, Terms: []memory.Term{{Name: "u"}}},
			}), memory.ErrStore)
		}
		do(t, s, "DEL", o.Prefix+":"+key)
		if left := do(t, s, "KEYS", o.Prefix+":{*"); left != "" {
			t.Fatalf("with a foreign %s, there is %q of the batch", key, left)
		}
		apply(t, d, b)
	}
	// Fields that hold what no object and no log does.
	o := &redisstore.Options{Prefix: "c"}
	d := opened(t, s.URL(), o)
	apply(t, d, put("k", 0, "x"))
	object, log := do(t, s, "KEYS", "c:{*}o?"), do(t, s, "KEYS", "c:{*}l?")
	for _, value := range []string{"", "short", "12345678\xff", "12345678\xfe"} {
		do(t, s, "HSET", object, "k", value)
		_, err := d.Get(t.Context(), "tenant", []string{"k"})
		clean(t, err, memory.ErrStore)
	}
	for _, value := range []string{"", "s1", "s\x00\x00\x01\x00", "d\x00\x00\x00\x0112345678"} {
		do(t, s, "HSET", log, "lk", value)
		_, err := d.History(t.Context(), "tenant", "k", 0, 10)
		clean(t, err, memory.ErrStore)
	}
}

func TestScriptsThatWereFlushedAreSentAgain(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	d := opened(t, s.URL(), nil)
	for i := range uint64(3) {
		do(t, s, "SCRIPT", "FLUSH")
		apply(t, d, put("k", i, "x"))
		do(t, s, "SCRIPT", "FLUSH")
		if log, err := d.History(t.Context(), "tenant", "k", 1, 10); err != nil || len(log) != int(i) {
			t.Fatalf("%d entries after %d puts: %v", len(log), i+1, err)
		}
	}
}

func TestARestartedServerIsAnotherIncarnationAndHasEverything(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	d := opened(t, s.URL(), nil)
	for round := range uint64(3) {
		apply(t, d, put("k", round, "x"))
		before := d.Incarnation()
		if round == 1 {
			s.Kill9()
			clean(t, d.Apply(t.Context(), "tenant", put("k", round+1, "x")), memory.ErrStore)
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		} else if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := revision(t, d, "k"); got != round+1 {
			t.Fatalf("k is at %d after round %d", got, round)
		}
		if d.Incarnation() <= before {
			t.Fatal("the server was restarted and answered, and the incarnation is the same")
		}
		after := d.Incarnation()
		for range 20 {
			revision(t, d, "k")
		}
		if d.Incarnation() != after {
			t.Fatal("the incarnation does not settle")
		}
	}
}

// TestAFailoverToAReplicaThatLagsIsAnotherIncarnation goes through an address that
// leads from one server to another, as a virtual one does.
func TestAFailoverToAReplicaThatLagsIsAnotherIncarnation(t *testing.T) {
	t.Parallel()
	master := own(t, server.RedisOptions{})
	replica := own(t, server.RedisOptions{})
	way := proxy.New(t, master.Addr)
	d := opened(t, "redis://"+way.Addr, nil)
	apply(t, d, put("k", 0, "copied"))
	host, port, _ := strings.Cut(master.Addr, ":")
	do(t, replica, "REPLICAOF", host, port)
	eventually(t, "the replica has a copy", func() bool {
		return strings.Contains(do(t, replica, "INFO", "replication"), "master_link_status:up")
	})
	do(t, replica, "REPLICAOF", "NO", "ONE") // cut off here, and promoted
	apply(t, d, put("k", 1, "acknowledged and lost"))
	before := d.Incarnation()
	way.Lead(replica.Addr)
	if got := revision(t, d, "k"); got != 1 {
		t.Fatalf("k is at %d; was the replica not behind?", got)
	}
	if d.Incarnation() <= before {
		t.Fatal("another server answered, and the incarnation is the same")
	}
	before = d.Incarnation()
	way.Lead(master.Addr) // and back
	if got := revision(t, d, "k"); got != 2 || d.Incarnation() <= before {
		t.Fatalf("k is at %d, the incarnation %d after %d", got, d.Incarnation(), before)
	}
	// A master that is made a replica says so when it is written to.
	before = d.Incarnation()
	do(t, master, "REPLICAOF", "127.0.0.1", "1")
	clean(t, d.Apply(t.Context(), "tenant", put("k", 2, "x")), memory.ErrStore)
	if d.Incarnation() <= before {
		t.Fatal("the server is no master any more, and the incarnation is the same")
	}
}

func TestSentinelLeadsToTheMasterAndFailsOver(t *testing.T) {
	t.Parallel()
	g, err := server.RedisSentinel(t.Context(), 1, server.RedisOptions{})
	g = have(t, g, err)
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	d := opened(t, g.URL(), nil)
	apply(t, d, put("k", 0, "x"))
	i, err := d.Inspect(t.Context())
	if err != nil || len(i.Unsafe()) == 0 || i.Findings[0].Name != "topology" || !strings.Contains(i.Promise, "failover") {
		t.Fatalf("%+v %v", i, err)
	}
	if err := d.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := d.Incarnation()
	if before != 0 {
		t.Fatalf("the incarnation is %d in plain use", before)
	}
	eventually(t, "the replica has the object", func() bool { return strings.Contains(do(t, g.Servers[1], "KEYS", "*"), "}o") })
	if err := g.FailOver(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	n := revisionAfterFailover(t, d)
	if n != 1 || d.Incarnation() <= before {
		t.Fatalf("k is at %d, the incarnation %d after %d", n, d.Incarnation(), before)
	}
	apply(t, d, put("k", 1, "y"))
}

// revisionAfterFailover asks until there is an answer.
func revisionAfterFailover(t *testing.T, d memory.Driver) (n uint64) {
	t.Helper()
	eventually(t, "another master answers", func() bool {
		objects, err := d.Get(t.Context(), "tenant", []string{"k"})
		if err == nil {
			n = objects[0].Revision
		}
		return err == nil
	})
	return n
}

func TestAFailoverInAClusterIsAnotherIncarnation(t *testing.T) {
	t.Parallel()
	g, err := server.RedisCluster(t.Context(), 3, 1, server.RedisOptions{})
	g = have(t, g, err)
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	d := opened(t, g.URL(), nil)
	apply(t, d, put("k", 0, "x"))
	before := d.Incarnation()
	if before != 0 {
		t.Fatalf("the incarnation is %d in plain use", before)
	}
	holder := 0
	for i, s := range g.Servers[:3] {
		if strings.Contains(do(t, s, "KEYS", "*{t*"), "}o") {
			holder = i
		}
	}
	eventually(t, "the replica has the object", func() bool { return strings.Contains(do(t, g.Servers[3+holder], "KEYS", "*"), "}o") })
	if err := g.FailOver(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	n := revisionAfterFailover(t, d)
	if n != 1 || d.Incarnation() <= before {
		t.Fatalf("k is at %d, the incarnation %d after %d", n, d.Incarnation(), before)
	}
	eventually(t, "a batch is taken", func() bool { return d.Apply(t.Context(), "tenant", put("other", 0, "x")) == nil })
}

// returns is what a call gives. It fails if the call does not return.
func returns(t *testing.T, name string, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		t.Fatalf("%s does not return", name)
		return nil
	}
}

func TestACallOfAPausedServerEndsWithItsDeadline(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	d := opened(t, s.URL(), nil)
	apply(t, d, put("k", 0, "x"))
	do(t, s, "CLIENT", "PAUSE", "3600000", "ALL")
	for name, call := range map[string]func(ctx context.Context) error{
		"apply": func(ctx context.Context) error { return d.Apply(ctx, "tenant", put("k", 1, "x")) },
		"get": func(ctx context.Context) error {
			_, err := d.Get(ctx, "tenant", []string{"k"})
			return err
		},
		"compact": d.Compact,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := returns(t, name, func() error { return call(ctx) }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s gave %v", name, err)
		}
		cancel()
	}
}

func TestACallIsGivenUpWhenItsContextIsCancelled(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	d := opened(t, s.URL(), nil)
	apply(t, d, put("k", 0, "x"))
	pid, err := strconv.Atoi(info(t, s, "server", "process_id"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := sync.OnceFunc(func() { syscall.Kill(pid, syscall.SIGCONT) })
	defer resume()
	for name, call := range map[string]func(ctx context.Context) error{
		"apply": func(ctx context.Context) error { return d.Apply(ctx, "tenant", put("k", 1, "x")) },
		"get":   func(ctx context.Context) error { _, err := d.Get(ctx, "tenant", []string{"k"}); return err },
		"query": func(ctx context.Context) error {
			_, _, err := d.Query(ctx, "tenant", memory.Query{Term: "t", Limit: 1})
			return err
		},
		"history": func(ctx context.Context) error { _, err := d.History(ctx, "tenant", "k", 0, 1); return err },
		"logs":    func(ctx context.Context) error { _, _, err := d.Logs(ctx, "tenant", "", "", 1); return err },
		"tenants": func(ctx context.Context) error { _, _, err := d.Tenants(ctx, "", 1); return err },
		"scan": func(ctx context.Context) error {
			_, _, err := d.Scan(ctx, "tenant", "", memory.LogPlace{}, 1)
			return err
		},
		"restore": func(ctx context.Context) error {
			return d.Restore(ctx, "tenant", []memory.Restored{{Object: memory.Object{Key: "k", Revision: 2}}})
		},
		"rewrite": func(ctx context.Context) error {
			return d.Rewrite(ctx, "tenant", "k", []memory.Rewritten{{LogEntry: memory.LogEntry{Revision: 1, Data: []byte("x")}, Was: []byte("y")}})
		},
		"inspect": func(ctx context.Context) error { _, err := d.Inspect(ctx); return err },
		"compact": d.Compact,
		"open":    func(ctx context.Context) error { _, err := redisstore.Open(ctx, s.URL(), nil); return err },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		if err := returns(t, name, func() error { return call(ctx) }); !errors.Is(err, context.Canceled) || errors.Is(err, memory.ErrStore) {
			t.Errorf("%s gave %v", name, err)
		}
	}
	// What was given up holds nobody back, and does no harm later.
	if err := returns(t, "close", d.Close); err != nil {
		t.Errorf("close gave %v", err)
	}
	resume()
	again := opened(t, s.URL(), nil)
	if got := revision(t, again, "k"); got != 1 && got != 2 {
		t.Errorf("k is at %d", got)
	}
}

func TestABatchWhoseReplyIsLostIsNotSentTwice(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	way := proxy.New(t, s.Addr)
	d := opened(t, "redis://"+way.Addr, nil)
	apply(t, d, put("k", 0, "x"))
	way.LoseReplies(1)
	err := d.Apply(t.Context(), "tenant", put("k", 1, "y"))
	way.LoseReplies(0)
	clean(t, err, memory.ErrStore)
	if errors.Is(err, memory.ErrConflict) {
		t.Fatalf("the batch was sent twice: %v", err)
	}
	if got := revision(t, d, "k"); got != 2 {
		t.Fatalf("k is at %d", got)
	}
}

func TestKilledOutrightTheServerKeepsEveryAcknowledgedBatch(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	d := opened(t, s.URL(), nil)
	var total uint64
	for round := range uint64(4) {
		const writers = 4
		acknowledged := make(chan [2]uint64, writers)
		for w := range uint64(writers) {
			go func() {
				n := uint64(0)
				for ; ; n++ {
					key := fmt.Sprintf("%d/%d", round, w)
					b := memory.Batch{Puts: append(put(key, n, "x").Puts, put(fmt.Sprintf("%s/%d", key, n), 0, "part").Puts...)}
					if err := d.Apply(context.Background(), "tenant", b); err != nil {
						break
					}
				}
				acknowledged <- [2]uint64{w, n}
			}()
		}
		eventually(t, "some batches are in", func() bool { return revision(t, d, fmt.Sprintf("%d/0", round)) > 20 })
		s.Kill9()
		var counts [writers]uint64
		for range writers {
			a := <-acknowledged
			counts[a[0]] = a[1]
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for w, n := range counts {
			key := fmt.Sprintf("%d/%d", round, w)
			got := revision(t, d, key)
			if got < n || got > n+1 {
				t.Fatalf("%s is at %d, acknowledged were %d", key, got, n)
			}
			log, err := d.History(t.Context(), "tenant", key, 0, memory.MaxQueryLimit)
			if err != nil || uint64(len(log)) != min(got, memory.MaxQueryLimit) {
				t.Fatalf("%s has %d entries of %d (%v)", key, len(log), got, err)
			}
			for part := range got + 1 {
				if there := revision(t, d, fmt.Sprintf("%s/%d", key, part)) == 1; there != (part < got) {
					t.Fatalf("half a batch: part %d of %d is there: %t", part, got, there)
				}
			}
			total += n
		}
	}
	t.Logf("%d batches acknowledged", total)
}

// TestALogThatWasCutOffEndsWithAWholeBatch cuts the file where a loss of power might:
// anywhere.
func TestALogThatWasCutOffEndsWithAWholeBatch(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	d := opened(t, s.URL(), nil)
	const batches, parts = 12, 8
	for i := range uint64(batches) {
		b := put("counter", i, "x")
		for p := range parts {
			b.Puts = append(b.Puts, put(fmt.Sprintf("%d/%d", i, p), 0, "part").Puts...)
		}
		apply(t, d, b)
	}
	s.Shutdown()
	file := ""
	for _, path := range files(t, s.Dir) {
		if strings.Contains(path, ".incr.aof") || strings.HasSuffix(path, "appendonly.aof") {
			file = path
		}
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(batches)
	for cut := 1; cut < 8; cut++ {
		if err := os.WriteFile(file, whole[:len(whole)-cut*len(whole)/16], 0o600); err != nil {
			t.Fatal(err)
		}
		before := d.Incarnation()
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		written := revision(t, d, "counter")
		if written > last || d.Incarnation() <= before {
			t.Fatalf("cut %d: the counter is at %d, the incarnation %d after %d", cut, written, d.Incarnation(), before)
		}
		last = written
		for i := range uint64(batches) {
			for p := range parts {
				if there := revision(t, d, fmt.Sprintf("%d/%d", i, p)) == 1; there != (i < written) {
					t.Fatalf("cut %d: part %d of batch %d of %d is there: %t", cut, p, i, written, there)
				}
			}
		}
		s.Shutdown()
	}
	if last == 0 || last == batches {
		t.Fatalf("nothing was shown: %d batches are left", last)
	}
}

func files(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

const snapshotOfBefore = "a snapshot of before a restart"

func TestAfterCompactNoFileHoldsWhatWasRemoved(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"append-only file": nil,
		"both":             {`save 3600 1`},
		"snapshots":        {"appendonly no", "save 3600 1"},
		snapshotOfBefore:   {"appendonly no"}, // and none made since the server was started
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := own(t, server.RedisOptions{Settings: settings})
			d := opened(t, s.URL(), nil)
			const canary = "CANARY-7f3a"
			b := memory.Batch{}
			for i, key := range []string{canary + "1", "object", "entry", "removed entry", "term"} {
				b.Puts = append(b.Puts, memory.Put{Key: key, Data: []byte("stays"), Entry: []byte("stays")})
				switch i {
				case 1:
					b.Puts[i].Data = []byte(canary + "2")
				case 2, 3:
					b.Puts[i].Entry = []byte(canary + "3")
				case 4:
					b.Puts[i].Add = []memory.Term{{Name: canary + "4"}}
				}
			}
			apply(t, d, b)
			do(t, s, "SAVE")
			holds := func() (list []string) {
				for _, path := range files(t, s.Dir) {
					content, err := os.ReadFile(path)
					if err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
					if bytes.Contains(content, []byte(canary)) {
						list = append(list, path)
					}
				}
				return list
			}
			if len(holds()) == 0 {
				t.Fatal("no file holds the canary to begin with")
			}
			if name == snapshotOfBefore {
				if err := s.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				d = opened(t, s.URL(), nil)
			}
			apply(t, d, memory.Batch{Puts: []memory.Put{{Key: "object", From: 1}, {Key: "term", From: 1, Remove: []string{canary + "4"}}}})
			for _, err := range []error{
				d.Restore(t.Context(), "tenant", []memory.Restored{{Object: memory.Object{Key: canary + "1"}}}),
				storetest.Rewrite(t.Context(), d, "tenant", canary+"1", []memory.LogEntry{{Revision: 1}}),
				storetest.Rewrite(t.Context(), d, "tenant", "entry", []memory.LogEntry{{Revision: 1, Data: []byte("gone")}}),
				storetest.Rewrite(t.Context(), d, "tenant", "removed entry", []memory.LogEntry{{Revision: 1}}),
				d.Compact(t.Context()),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if list := holds(); len(list) > 0 {
				t.Fatalf("%q still hold it", list)
			}
		})
	}
}

func TestAllKeysOfATenantAreInOneSlot(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	d := opened(t, s.URL(), nil)
	g, err := sharedCluster()
	node := have(t, g, err).Servers[0]
	seen := 0
	for _, tenant := range []string{"", "{", "}", "{}", "{a}", "}{", "\x00", "a", "tenant", strings.Repeat("{", 1024), "\xff\r\n"} {
		before := strings.Split(do(t, s, "KEYS", "*"), "\n")
		b := memory.Batch{}
		for _, name := range []string{"k", "{", "}", "{x}", "a:{b}"} {
			b.Puts = append(b.Puts, memory.Put{Key: name, Entry: []byte("x"), Add: []memory.Term{{Name: name}}})
		}
		if err := d.Apply(t.Context(), tenant, b); err != nil {
			t.Fatal(err)
		}
		slots := map[string]bool{}
		old := map[string]bool{}
		for _, key := range before {
			old[key] = true
		}
		for _, key := range strings.Split(do(t, s, "KEYS", "*"), "\n") {
			if !old[key] {
				slots[do(t, node, "CLUSTER", "KEYSLOT", key)] = true
				seen++
			}
		}
		if len(slots) != 1 {
			t.Fatalf("the keys of tenant %.20q are in %d slots", tenant, len(slots))
		}
	}
	if seen < 11*4 { // hashes, sorted sets, the register
		t.Fatalf("%d keys were looked at", seen)
	}
}

func TestADriverCanBeMadeOfOptionsOfTheClient(t *testing.T) {
	t.Parallel()
	asked := false
	o := fresh()
	d, err := redisstore.New(t.Context(), &redis.UniversalOptions{
		Addrs: []string{shared(t).Addr}, OnConnect: func(context.Context, *redis.Conn) error { asked = true; return nil },
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, d, put("k", 0, "x"))
	if err := d.Close(); err != nil || !asked {
		t.Fatalf("close: %v; the caller's OnConnect ran: %t", err, asked)
	}
	if got := revision(t, opened(t, shared(t).URL(), o), "k"); got != 1 {
		t.Fatalf("k is at %d", got)
	}
}

// The replica hears nothing more, the master goes on and dies, and Sentinel makes the
// replica the master.
func TestAfterAFailoverTheGateStaysClosedUntilDemotionsAreBack(t *testing.T) {
	t.Parallel()
	rounds := 1
	if sample.Full() {
		rounds = 3
	}
	for range rounds {
		g, err := server.RedisSentinel(t.Context(), 1, server.RedisOptions{})
		g = have(t, g, err)
		master := g.Servers[0]
		fault.Overtaken(t, fault.Overtaking{
			Driver: opened(t, g.URL(), nil),
			Keep: func() error {
				eventually(t, "the replica has what there is", func() bool {
					size := do(t, master, "DBSIZE")
					return do(t, g.Servers[1], "DBSIZE") == size && strings.Contains(do(t, g.Servers[1], "INFO", "replication"), "master_repl_offset:"+info(t, master, "replication", "master_repl_offset"))
				})
				do(t, master, "ACL", "SETUSER", "default", "-psync", "-sync")
				do(t, master, "CLIENT", "KILL", "TYPE", "replica")
				return nil
			},
			Lose: func() error { return g.FailOver(t.Context(), 0) },
		})
		if err := g.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAServerThatStandsStillUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	pid, err := strconv.Atoi(info(t, s, "server", "process_id"))
	if err != nil {
		t.Fatal(err)
	}
	fault.Paused(t, opened(t, s.URL(), nil),
		func() error { return syscall.Kill(pid, syscall.SIGSTOP) }, func() error { return syscall.Kill(pid, syscall.SIGCONT) })
}

func TestAStoreCanBeMadeAgainWhereverItWasInterrupted(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	fault.Makings(t, fault.Making{
		Addr: s.Addr,
		Make: func(ctx context.Context, addr, name string) error {
			d, err := redisstore.Open(ctx, "redis://"+addr, &redisstore.Options{Prefix: name})
			if err == nil {
				err = d.Close()
			}
			return err
		},
		Open: func(ctx context.Context, name string) (memory.Driver, error) { return openNamed(ctx, s.URL()+" "+name) },
	})
}
