//go:build unix

package pgstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/fault"
	"github.com/jackc/pgx/v5"
)

const crashParts = 5

func part(stream int, batch, n uint64) string { return fmt.Sprintf("%d/%d/%d", stream, batch, n) }

// crashBatch is one batch of a stream: it moves a counter and writes parts of its own.
func crashBatch(stream int, batch uint64) memory.Batch {
	b := memory.Batch{Puts: []memory.Put{{
		Key: fmt.Sprintf("counter/%d", stream), From: batch, Data: fmt.Append(nil, batch), Entry: fmt.Append(nil, batch),
		Add: []memory.Term{{Name: "counter", Sort: batch}},
	}}}
	for n := range uint64(crashParts) {
		b.Puts = append(b.Puts, memory.Put{
			Key: part(stream, batch, n), Data: bytes.Repeat([]byte{byte(batch)}, 3000), Entry: []byte("x"),
			Add: []memory.Term{{Name: fmt.Sprintf("batch/%d/%d", stream, batch), Sort: n}},
		})
	}
	return b
}

// A crash of the server is not a loss of power: what the server had written without
// an fsync outlives it. That fsync is on is asked by Inspect.
func TestAServerThatCrashesLosesNothingAcknowledgedAndLeavesNoHalfBatch(t *testing.T) {
	t.Parallel()
	const rounds, streams = 6, 4
	seed := testmain.Drawn(t)
	random := rand.New(rand.NewPCG(seed, 0))
	s := own(t)
	o := &pgstore.Options{Role: "app"}
	migrate(t, s, o)
	d := open(t, s, o)
	defer d.Close()
	var acknowledged [streams]uint64
	total := 0
	for round := range rounds {
		var writers sync.WaitGroup
		var written atomic.Int64
		enough := int64(1 + random.IntN(150))
		reached := make(chan struct{})
		var begin [streams]uint64 // read before anybody can crash the server
		for stream := range streams {
			objects, err := d.Get(t.Context(), "t", []string{fmt.Sprintf("counter/%d", stream)})
			if err != nil {
				t.Fatal(err)
			}
			begin[stream] = objects[0].Revision
		}
		for stream := range streams {
			writers.Go(func() {
				for batch := begin[stream]; ; batch++ {
					if err := d.Apply(t.Context(), "t", crashBatch(stream, batch)); err != nil {
						clean(t, err, memory.ErrStore, "")
						return
					}
					acknowledged[stream] = batch + 1
					if written.Add(1) == enough {
						close(reached)
					}
				}
			})
		}
		<-reached
		before := d.Incarnation()
		crash := s.CrashImmediate
		if round%3 == 2 {
			crash = s.Kill
		}
		if err := errors.Join(crash(t.Context()), s.Restart(t.Context())); err != nil {
			t.Fatal(err)
		}
		writers.Wait()
		total += int(written.Load())
		for stream, acknowledged := range acknowledged {
			counter := fmt.Sprintf("counter/%d", stream)
			objects, err := d.Get(t.Context(), "t", []string{counter})
			if err != nil {
				t.Fatal(err)
			}
			if d.Incarnation() == before {
				t.Fatal("an answer after the crash has the incarnation of before")
			}
			there := objects[0].Revision
			if there < acknowledged || there > acknowledged+uint64(round)+1 { // one of each round may be unknown
				t.Fatalf("round %d: %d batches of stream %d are there, %d were acknowledged", round, there, stream, acknowledged)
			}
			log, err := d.History(t.Context(), "t", counter, 0, memory.MaxQueryLimit)
			if err != nil || uint64(len(log)) != there {
				t.Fatalf("round %d: the log of stream %d has %d entries of %d (%v)", round, stream, len(log), there, err)
			}
			for batch := range there + 2 {
				var keys []string
				for n := range uint64(crashParts) {
					keys = append(keys, part(stream, batch, n))
				}
				objects, err := d.Get(t.Context(), "t", keys)
				if err != nil {
					t.Fatal(err)
				}
				hits, _, err := d.Query(t.Context(), "t", memory.Query{Term: fmt.Sprintf("batch/%d/%d", stream, batch), Limit: 100})
				if err != nil {
					t.Fatal(err)
				}
				parts, want := 0, 0
				for _, o := range objects {
					if o.Revision == 1 && bytes.Equal(o.Data, bytes.Repeat([]byte{byte(batch)}, 3000)) {
						parts++
					}
				}
				if batch < there {
					want = crashParts
				}
				if parts != want || len(hits) != want {
					t.Fatalf("round %d: batch %d of stream %d (of %d) has %d parts and %d terms", round, batch, stream, there, parts, len(hits))
				}
			}
		}
	}
	t.Logf("%d rounds, %d batches acknowledged", rounds, total)
}

func TestTheIncarnationGrowsWithEachRestartAndOnlyThen(t *testing.T) {
	t.Parallel()
	s := own(t)
	o := &pgstore.Options{Role: "app", MaxConns: 3}
	migrate(t, s, o)
	d := open(t, s, o)
	defer d.Close()
	use := func() {
		t.Helper()
		var all sync.WaitGroup
		for range 6 { // on every connection
			all.Go(func() {
				if _, err := d.Get(t.Context(), "t", []string{"k"}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	use()
	for name, restart := range map[string]func() error{
		"a regular restart": func() error { return s.Restart(t.Context()) },
		"a crash":           func() error { return errors.Join(s.CrashImmediate(t.Context()), s.Restart(t.Context())) },
		"a kill":            func() error { return errors.Join(s.Kill(t.Context()), s.Restart(t.Context())) },
		"the crash of one process": func() error {
			c, other := connect(t, s, "postgres"), connect(t, s, "postgres")
			if err := s.Backend(int(c.PgConn().PID())); err != nil {
				return err
			}
			for other.Ping(t.Context()) == nil { // until the server has noticed
			}
			for { // until it has recovered
				if c, err := pgx.Connect(t.Context(), s.URL()); err == nil {
					return c.Close(t.Context())
				}
			}
		},
	} {
		before := d.Incarnation()
		use()
		if d.Incarnation() != before {
			t.Fatalf("the incarnation grew before %s", name)
		}
		if err := restart(); err != nil {
			t.Fatal(err)
		}
		use()
		if after := d.Incarnation(); after <= before {
			t.Fatalf("the incarnation is %d after %s, and was %d", after, name, before)
		}
	}
}

func TestAStandbyIsRefused(t *testing.T) {
	t.Parallel()
	s := own(t)
	o := &pgstore.Options{Role: "app"}
	migrate(t, s, o)
	d := open(t, s, o)
	defer d.Close()
	if err := errors.Join(s.CrashImmediate(t.Context()), os.WriteFile(filepath.Join(s.Dir(), "standby.signal"), nil, 0o644), s.Restart(t.Context())); err != nil {
		t.Fatal(err)
	}
	_, err := d.Get(t.Context(), "t", []string{"k"})
	clean(t, err, memory.ErrStore, "the server is a standby")
	_, err = pgstore.Open(t.Context(), s.RuntimeURL("app"), o)
	clean(t, err, memory.ErrStore, "the server is a standby")
}

func TestAServerThatIsDownIsToldInPlainWords(t *testing.T) {
	t.Parallel()
	s := own(t)
	o := &pgstore.Options{Role: "app"}
	migrate(t, s, o)
	d := open(t, s, o)
	defer d.Close()
	if err := s.CrashImmediate(t.Context()); err != nil {
		t.Fatal(err)
	}
	clean(t, d.Apply(t.Context(), "t", put("k", 0, "x")), memory.ErrStore, "")
	_, err := d.Get(t.Context(), "t", []string{"k"})
	clean(t, err, memory.ErrStore, "the server cannot be reached")
	_, err = pgstore.Open(t.Context(), s.RuntimeURL("app"), o)
	clean(t, err, memory.ErrStore, "the server cannot be reached")
}

func TestOpenRefusesWhatIsNoURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://app:secret@%zz", "postgres://app:secret@host:port/x"} {
		_, err := pgstore.Open(t.Context(), url, nil)
		clean(t, err, memory.ErrStore, "the URL")
		if strings.Contains(err.Error(), "secret") {
			t.Fatalf("the password is in %q", err)
		}
	}
}

// scan counts the files below a folder that hold some bytes.
func scan(t *testing.T, dir string, canary []byte) (files, found int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		if bytes.Contains(content, canary) {
			found++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, found
}

func TestAfterCompactWhatWasRemovedIsInNoFileOfTheTables(t *testing.T) {
	t.Parallel()
	s := own(t, "autovacuum=off")
	o := &pgstore.Options{Role: "app", MaintenanceURL: s.RuntimeURL("owner")}
	migrate(t, s, o)
	d := open(t, s, o)
	defer d.Close()
	random := rand.New(rand.NewPCG(3, 3))
	secret := make([]byte, 5000) // no compression hides it
	for i := range secret {
		secret[i] = byte(random.Uint32())
	}
	canaries := map[string][]byte{
		"short data": []byte("canary-of-short-data"), "long data": secret[:2500], "an entry": []byte("canary-of-an-entry"),
		"a key": []byte("canary-of-a-key"), "a term": []byte("canary-of-a-term"), "a tenant": []byte("canary-of-a-tenant"),
	}
	tenant, key := string(canaries["a tenant"]), string(canaries["a key"])
	err := errors.Join(
		d.Apply(t.Context(), "stays", put("k", 0, "stays-as-it-is")),
		d.Apply(t.Context(), tenant, memory.Batch{Puts: []memory.Put{{Key: key, Data: canaries["short data"], Entry: canaries["an entry"], Add: []memory.Term{{Name: string(canaries["a term"])}}}}}),
		d.Apply(t.Context(), tenant, memory.Batch{Puts: []memory.Put{{Key: key, From: 1, Data: secret, Entry: secret}}}),
	)
	if err != nil {
		t.Fatal(err)
	}
	super := connect(t, s, "postgres")
	exec1(t, super, `ANALYZE; CHECKPOINT`)
	base := filepath.Join(s.Dir(), "base")
	for name, canary := range canaries {
		if name == "long data" {
			canary = canary[:500] // it is cut into chunks
		}
		if _, found := scan(t, base, canary); found == 0 {
			t.Fatalf("%s was never in a file, so its absence will show nothing", name)
		}
	}

	exec1(t, super, `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class`)
	err = errors.Join(
		storetest.Rewrite(t.Context(), d, tenant, key, []memory.LogEntry{{Revision: 1}, {Revision: 2}}),
		d.Restore(t.Context(), tenant, []memory.Restored{{Object: memory.Object{Key: key}}}),
	)
	if err != nil {
		t.Fatal(err)
	}
	// The snapshot keeps the rows, and Compact does not say that they went.
	for deadline := time.Second; ; deadline *= 2 { // it may end while a table is written
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		err = d.Compact(ctx)
		cancel()
		if err == nil || errors.Is(err, memory.ErrStore) {
			break
		}
		if deadline > 2*time.Minute {
			t.Fatalf("Compact does not end in %v", deadline)
		}
		clean(t, err, context.DeadlineExceeded, "")
	}
	clean(t, err, memory.ErrStore, "still sees what was removed")
	exec1(t, super, `COMMIT`)

	if err := d.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	files := 0
	for name, canary := range canaries {
		if name == "long data" {
			canary = canary[:500]
		}
		n, found := scan(t, base, canary)
		if files = n; found != 0 {
			t.Errorf("%s is in %d files", name, found)
		}
	}
	if _, found := scan(t, base, []byte("stays-as-it-is")); found == 0 {
		t.Error("what stays is in no file")
	}
	t.Logf("%d files read", files)
	if objects, err := d.Get(t.Context(), "stays", []string{"k"}); err != nil || string(objects[0].Data) != "stays-as-it-is" {
		t.Fatalf("%+v (%v)", objects, err)
	}
}

func TestCompactNeedsTheOwner(t *testing.T) {
	t.Parallel()
	o := fresh(t)
	o.MaintenanceURL = ""
	migrate(t, shared, o)
	d := open(t, shared, o)
	defer d.Close()
	err := d.Compact(t.Context())
	clean(t, err, memory.ErrStore, "set MaintenanceURL")
	var right *pgstore.RightError
	if !errors.As(err, &right) || right.Need == "" {
		t.Fatalf("error %v is no *RightError", err)
	}
}

func TestStrictRefusesAServerThatWouldLoseBatches(t *testing.T) {
	t.Parallel()
	s := own(t, "fsync=off", "full_page_writes=off", "synchronous_commit=off")
	o := &pgstore.Options{Role: "app", Strict: true}
	migrate(t, s, o)
	_, err := pgstore.Open(t.Context(), s.RuntimeURL("app"), o)
	clean(t, err, memory.ErrStore, "fsync is off: ")
	var unsafe *pgstore.UnsafeError
	if !errors.As(err, &unsafe) || len(unsafe.Findings) != 3 {
		t.Fatalf("error %v does not list three settings", err)
	}
	for _, f := range unsafe.Findings {
		if f.Safe || f.Loss == "" || f.Fix == "" {
			t.Fatalf("%+v", f)
		}
	}
	o.Strict = false
	d := open(t, s, o)
	defer d.Close()
	i, err := d.Inspect(t.Context())
	if err != nil || len(i.Unsafe()) != 3 || !strings.Contains(i.Promise, "may be lost") {
		t.Fatalf("%+v (%v)", i, err)
	}
}

func TestStrictOpensASafeServerAndRefusesARoleThatPassesTheWall(t *testing.T) {
	t.Parallel()
	s := own(t) // with fsync, unlike the shared one
	o := fresh(t)
	o.Strict = true
	migrate(t, s, o)
	d := open(t, s, o)
	defer d.Close()
	i, err := d.Inspect(t.Context())
	if err != nil || len(i.Findings) != 12 || !strings.HasPrefix(i.Server, "PostgreSQL ") {
		t.Fatalf("%+v (%v)", i, err)
	}
	for role, finding := range map[string]string{"owner": "owner is on", "postgres": "superuser is on"} {
		_, err := pgstore.Open(t.Context(), s.RuntimeURL(role), o)
		clean(t, err, memory.ErrStore, finding)
	}
	exec1(t, connect(t, s, "owner"), `ALTER TABLE `+o.Schema+`.log NO FORCE ROW LEVEL SECURITY`)
	_, err = pgstore.Open(t.Context(), s.RuntimeURL("app"), o)
	clean(t, err, memory.ErrStore, "row_security is off")
}

func TestABatchThatNoStandbyConfirmedIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	s := own(t)
	o := &pgstore.Options{Role: "app", MaxConns: 1}
	migrate(t, s, o)
	super := connect(t, s, "postgres")
	exec1(t, super, `SET synchronous_commit = local`)
	exec1(t, super, `ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
	exec1(t, super, `SELECT pg_reload_conf()`)
	d := open(t, s, o)
	defer d.Close()
	inWait := `FROM pg_stat_activity WHERE wait_event = 'SyncRep'`
	for key, end := range map[string]func(cancel func()){
		"ours":          func(cancel func()) { cancel() },
		"administrator": func(func()) { exec1(t, super, `SELECT pg_cancel_backend(pid) `+inWait) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		applied := make(chan error, 1)
		go func() { applied <- d.Apply(ctx, "t", put(key, 0, "x")) }()
		for waits := false; !waits; {
			if err := super.QueryRow(t.Context(), `SELECT count(*) > 0 `+inWait).Scan(&waits); err != nil {
				t.Fatal(err)
			}
		}
		end(cancel)
		if err := <-applied; !errors.Is(err, memory.ErrStore) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error is %v", key, err)
		}
		cancel()
		objects, err := d.Get(t.Context(), "t", []string{key}) // it may be there: it was unknown
		if err != nil || objects[0].Revision > 1 {
			t.Errorf("%s: %+v (%v)", key, objects, err)
		}
	}
	i, err := d.Inspect(t.Context())
	if err != nil || !strings.Contains(i.Promise, "synchronous standby") {
		t.Fatalf("%+v (%v)", i, err)
	}
}

// The server is put back to a copy of its folder that was made before.
func TestAfterAnOlderCopyIsRestoredTheGateStaysClosedUntilDemotionsAreBack(t *testing.T) {
	t.Parallel()
	s := own(t, "fsync=off") // no power is lost here
	o := &pgstore.Options{Role: "app", MaintenanceURL: s.RuntimeURL("owner")}
	migrate(t, s, o)
	d := open(t, s, o)
	defer d.Close()
	base := filepath.Join(t.TempDir(), "base")
	fault.Overtaken(t, fault.Overtaking{
		Driver: d,
		Keep: func() error {
			return errors.Join(s.CrashImmediate(t.Context()), copyFolder(s.Dir(), base), s.Restart(t.Context()))
		},
		Lose: func() error {
			return errors.Join(s.CrashImmediate(t.Context()), copyFolder(base, s.Dir()), s.Restart(t.Context()))
		},
	})
}

func TestAServerThatStandsStillUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	s := own(t)
	o := &pgstore.Options{Role: "app"}
	migrate(t, s, o)
	d := open(t, s, o)
	defer d.Close()
	all := func(signal syscall.Signal) error {
		var errs []error
		for _, pid := range processes(t, s) {
			if err := syscall.Kill(pid, signal); err != syscall.ESRCH { // a connection may have ended
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
	fault.Paused(t, d, func() error { return all(syscall.SIGSTOP) }, func() error { return all(syscall.SIGCONT) })
}
