//go:build unix

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func put(key string, from uint64, content string) memory.Batch {
	return memory.Batch{Puts: []memory.Put{{Key: key, From: from, Data: []byte(content), Entry: []byte(content), Add: []memory.Term{{Name: "t", Sort: from}}}}}
}

func count(t *testing.T, c *pgx.Conn, schema, table string) (n int) {
	t.Helper()
	if err := c.QueryRow(t.Context(), `SELECT count(*) FROM `+schema+`.`+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTheServerKeepsTenantsApartFromStatementsThatForgetThem(t *testing.T) {
	t.Parallel()
	o := fresh(t)
	migrate(t, shared, o)
	d := open(t, shared, o)
	defer d.Close()
	for _, tenant := range []struct {
		name string
		rows int
	}{{"a", 2}, {"b", 3}, {"", 1}} { // numbers 1, 2 and 3
		for i := range tenant.rows {
			if err := d.Apply(t.Context(), tenant.name, put(fmt.Sprint(i), 0, "x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, role := range []string{"app", "owner"} { // the owner is not exempt
		c := connect(t, shared, role)
		for _, table := range []string{"object", "log", "term"} {
			if n := count(t, c, o.Schema, table); n != 0 {
				t.Fatalf("%s sees %d rows of %s without a tenant", role, n, table)
			}
		}
		for set, want := range map[string]int{`1`: 2, `2`: 3, `3`: 1, `4`: 0, `0`: 0, `-1`: 0, ``: 0} {
			tx, err := c.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), `SELECT set_config('hearsay.tenant', $1, true)`, set); err != nil {
				t.Fatal(err)
			}
			for _, table := range []string{"object", "log", "term"} {
				if n := count(t, c, o.Schema, table); n != want {
					t.Fatalf("%s as %q sees %d rows of %s, want %d", role, set, n, table, want)
				}
				column := "key"
				if table == "term" {
					column = "entry"
				}
				tag, err := tx.Exec(t.Context(), `DELETE FROM `+o.Schema+`.`+table+` WHERE `+column+` > '\x00000002' AND `+column+` < '\x00000003'`)
				if err != nil || set != `2` && tag.RowsAffected() != 0 || set == `2` && tag.RowsAffected() != 3 {
					t.Fatalf("%s as %q removed %d rows of b (%v)", role, set, tag.RowsAffected(), err)
				}
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, foreign := range []string{
				`INSERT INTO object VALUES (1, '\x000000096b')`, `INSERT INTO object VALUES (1, '\x')`,
				`INSERT INTO log VALUES (1, '\x000000096b', NULL, 'x')`, `INSERT INTO term VALUES ('\x000000096b')`,
				`UPDATE object SET key = '\x00000009' || key`, `UPDATE term SET entry = '\x00000009' || entry`,
			} {
				tx, err := c.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				_, err1 := tx.Exec(t.Context(), `SELECT set_config('hearsay.tenant', $1, true), set_config('search_path', $2, true)`, set, o.Schema)
				tag, err2 := tx.Exec(t.Context(), foreign)
				if err1 != nil || err2 == nil && (want > 0 || tag.RowsAffected() > 0) {
					t.Fatalf("%s as %q wrote a row of another tenant: %s (%v)", role, set, foreign, err1)
				} else if e := new(pgconn.PgError); err2 != nil && (!errors.As(err2, &e) || e.Code != "42501") {
					t.Fatal(err2)
				}
				if err := tx.Rollback(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if n := count(t, c, o.Schema, "object"); n != 0 {
				t.Fatalf("%s sees %d rows after the transaction", role, n)
			}
		}
	}
}

func TestAConnectionCarriesNoTenantOverWhateverHappened(t *testing.T) {
	t.Parallel()
	o := fresh(t)
	o.MaxConns = 1
	migrate(t, shared, o)
	d := open(t, shared, o)
	defer d.Close()
	if err := d.Apply(t.Context(), "a", put("k", 0, "x")); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithTimeout(t.Context(), time.Microsecond)
	defer cancel()
	for name, call := range map[string]func() error{
		"get":      func() error { _, err := d.Get(t.Context(), "a", []string{"k"}); return err },
		"conflict": func() error { return d.Apply(t.Context(), "a", put("k", 0, "x")) },
		"apply":    func() error { return d.Apply(t.Context(), "a", put("other", 0, "x")) },
		"tenants":  func() error { _, _, err := d.Tenants(t.Context(), "", 10); return err },
		"cancel":   func() error { _, err := d.Get(cancelled, "a", []string{"k"}); return err },
		"panic": func() (err error) {
			defer func() { err = fmt.Errorf("%v", recover()) }()
			return d.Panic(t.Context(), "a")
		},
	} {
		err := call()
		seen, err2 := d.Unset(t.Context())
		if err2 != nil || seen != 0 {
			t.Fatalf("after %s (%v) %d rows are seen without a tenant (%v)", name, err, seen, err2)
		}
	}
}

func TestBatchesThatCheckWhatTheOtherCreatesNeverBothWin(t *testing.T) {
	t.Parallel()
	d := made(t)
	defer d.Close()
	const pairs = 300
	var won, none atomic.Int64
	var all sync.WaitGroup
	slots := make(chan struct{}, 6)
	for pair := range pairs {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			x, y := fmt.Sprintf("x%d", pair), fmt.Sprintf("y%d", pair)
			if pair%3 == 0 { // the rings meet at objects that are there as well
				for _, k := range []string{x, y} {
					if err := d.Apply(t.Context(), "t", put(k, 0, "")); err != nil {
						t.Error(err)
					}
				}
			}
			from := uint64(0)
			if pair%3 == 0 {
				from = 1
			}
			filler := func(side int) (puts []memory.Put) { // beyond maxLocks keys the tenant is locked
				for i := range (pair % 2) * 200 * side {
					puts = append(puts, memory.Put{Key: fmt.Sprintf("%d/%d/%d", pair, side, i)})
				}
				return puts
			}
			var both sync.WaitGroup
			var errs [2]error
			for side, keys := range [][2]string{{x, y}, {y, x}} {
				both.Go(func() {
					errs[side] = d.Apply(t.Context(), "t", memory.Batch{
						Checks: []memory.Check{{Key: keys[0], Revision: from}},
						Puts:   append(filler(side), memory.Put{Key: keys[1], From: from, Data: []byte("x")}),
					})
				})
			}
			both.Wait()
			wins := 0
			for _, err := range errs {
				if err == nil {
					wins++
				} else if !errors.Is(err, memory.ErrConflict) {
					t.Error(err)
				}
			}
			switch wins {
			case 0:
				none.Add(1)
			case 1:
				won.Add(1)
			default:
				t.Errorf("pair %d: both won", pair)
			}
		})
	}
	all.Wait()
	if won.Load() != pairs {
		t.Fatalf("of %d pairs %d had a winner, %d had none", pairs, won.Load(), none.Load())
	}
}

// TestAWriterThatTakesNoLocksCannotBeOverwritten: the puts compare revisions
// themselves, whoever moved the row.
func TestAWriterThatTakesNoLocksCannotBeOverwritten(t *testing.T) {
	t.Parallel()
	o := fresh(t)
	migrate(t, shared, o)
	d := open(t, shared, o)
	defer d.Close()
	if err := d.Apply(t.Context(), "a", put("k", 0, "x")); err != nil {
		t.Fatal(err)
	}
	c := connect(t, shared, "app")
	for words, moved := range map[string]struct {
		statement string
		batch     memory.Batch
	}{
		"one that moves an object":  {`UPDATE ` + o.Schema + `.object SET revision = 2 WHERE key = '\x000000016b'`, put("k", 1, "y")},
		"one that makes an object":  {`INSERT INTO ` + o.Schema + `.object VALUES (1, '\x000000016e')`, put("n", 0, "y")},
		"one that appends to a log": {`INSERT INTO ` + o.Schema + `.log VALUES (1, '\x000000016c', NULL, 'x')`, put("l", 0, "y")},
	} {
		exec1(t, c, `BEGIN; SET LOCAL hearsay.tenant = '1'; `+moved.statement)
		applied := make(chan error, 1)
		go func() { applied <- d.Apply(t.Context(), "a", moved.batch) }()
		waiting(t, o.Schema+`".apply`)
		exec1(t, c, `COMMIT`)
		err := <-applied
		clean(t, err, memory.ErrConflict, "conflict on")
		var conflict *memory.ConflictError
		if !errors.As(err, &conflict) || conflict.Key != moved.batch.Puts[0].Key {
			t.Fatalf("%s: %v", words, err)
		}
	}
}

// waiting waits until a statement waits for a lock.
func waiting(t *testing.T, statement string) {
	t.Helper()
	c := connect(t, shared, "postgres")
	isTrue(t, c, `SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '(%' AND pid <> pg_backend_pid()`, statement)
}

func TestACallThatHangsReturnsByItsDeadlineAndIsCancelledAtTheServer(t *testing.T) {
	t.Parallel()
	o := fresh(t)
	migrate(t, shared, o)
	d := open(t, shared, o)
	defer d.Close()
	if err := d.Apply(t.Context(), "a", put("k", 0, "x")); err != nil {
		t.Fatal(err)
	}
	c := connect(t, shared, "owner")
	exec1(t, c, `BEGIN; LOCK TABLE `+o.Schema+`.object, `+o.Schema+`.log, `+o.Schema+`.term`)
	const patience = 200 * time.Millisecond
	for name, call := range map[string]func(ctx context.Context) error{
		"apply": func(ctx context.Context) error { return d.Apply(ctx, "a", put("k", 1, "y")) },
		"get":   func(ctx context.Context) error { _, err := d.Get(ctx, "a", []string{"k"}); return err },
		"query": func(ctx context.Context) error {
			_, _, err := d.Query(ctx, "a", memory.Query{Term: "t", Limit: 1})
			return err
		},
		"history": func(ctx context.Context) error { _, err := d.History(ctx, "a", "k", 0, 1); return err },
		"logs":    func(ctx context.Context) error { _, _, err := d.Logs(ctx, "a", "", "", 1); return err },
		"tenants": func(ctx context.Context) error { _, _, err := d.Tenants(ctx, "", 1); return err },
		"rewrite": func(ctx context.Context) error {
			return storetest.Rewrite(ctx, d, "a", "k", []memory.LogEntry{{Revision: 1, Data: []byte("y")}})
		},
		"restore": func(ctx context.Context) error {
			return d.Restore(ctx, "a", []memory.Restored{{Object: memory.Object{Key: "k"}}})
		},
		"compact": func(ctx context.Context) error { return d.Compact(ctx) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		select { // the lock is held
		case err := <-done:
			clean(t, err, context.DeadlineExceeded, "")
		case <-time.After(time.Minute):
			t.Fatalf("%s does not return", name)
		}
		cancel()
	}
	// None of them goes on at the server, now or when the lock is free.
	calm(t, o.Schema)
	exec1(t, c, `COMMIT`)
	objects, err := d.Get(t.Context(), "a", []string{"k"})
	if err != nil || objects[0].Revision != 1 || string(objects[0].Data) != "x" {
		t.Fatalf("the object is %+v (%v)", objects, err)
	}
}

// calm waits until nobody is at work on a schema.
func calm(t *testing.T, schema string) {
	t.Helper()
	c := connect(t, shared, "postgres") // who sees what others ask
	start := time.Now()
	for busy := true; busy; time.Sleep(20 * time.Millisecond) { // it takes what other tests need
		if time.Since(start) > time.Minute {
			t.Fatal("the server is still at work on what was given up")
		}
		if err := c.QueryRow(t.Context(), `SELECT count(*) > 0 FROM pg_stat_activity WHERE state = 'active' AND strpos(query, $1) > 0 AND pid <> pg_backend_pid()`, schema).Scan(&busy); err != nil {
			t.Fatal(err)
		}
	}
}

// A server hears of a cancelled call on another connection, and may not hear of it. pgx
// hangs up on a server that says nothing for 15 seconds.
func TestACallThatIsGivenUpStopsThoughTheServerNeverHearsThatItIsCancelled(t *testing.T) {
	t.Parallel()
	o := fresh(t)
	migrate(t, shared, o)
	server, err := url.Parse(shared.RuntimeURL("app"))
	if err != nil {
		t.Fatal(err)
	}
	address := server.Host
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var shut atomic.Bool
	var turned atomic.Int64
	var conns sync.WaitGroup
	t.Cleanup(func() {
		door.Close()
		conns.Wait()
	})
	conns.Go(func() {
		for {
			in, err := door.Accept()
			if err != nil {
				return
			}
			if shut.Load() {
				turned.Add(1)
				in.Close()
				continue
			}
			out, err := net.Dial("tcp", address)
			if err != nil {
				in.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				conns.Go(func() {
					_, _ = io.Copy(way[0], way[1]) // until one of them closes
					way[0].Close()
					way[1].Close()
				})
			}
		}
	})
	server.Host = door.Addr().String()
	d, err := pgstore.Open(t.Context(), server.String(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Apply(t.Context(), "a", put("k", 0, "x")); err != nil {
		t.Fatal(err)
	}
	c := connect(t, shared, "owner")
	exec1(t, c, `BEGIN; LOCK TABLE `+o.Schema+`.object, `+o.Schema+`.log`)
	shut.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- d.Apply(ctx, "a", put("k", 1, "y")) }()
	isTrue(t, c, `SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = $1::text::regclass`, o.Schema+`.object`)
	cancel()
	clean(t, <-done, context.Canceled, "")
	calm(t, o.Schema)
	exec1(t, c, `COMMIT`)
	shut.Store(false)
	objects, err := d.Get(t.Context(), "a", []string{"k"})
	if err != nil || string(objects[0].Data) != "x" {
		t.Fatalf("the object is %+v (%v)", objects, err)
	}
	if turned.Load() == 0 {
		t.Fatal("nobody tried to cancel it")
	}
}

// isTrue waits, a minute at most, until a query says so.
func isTrue(t *testing.T, c *pgx.Conn, query string, arg string) {
	t.Helper()
	for late, yes := time.Now().Add(time.Minute), false; !yes; time.Sleep(time.Millisecond) {
		if err := c.QueryRow(t.Context(), query, arg).Scan(&yes); err != nil {
			t.Fatal(err)
		}
		if !yes && time.Now().After(late) {
			t.Fatal("did not come true: ", query)
		}
	}
}

func TestCloseWaitsForTheCallThatRunsAndTurnsAwayTheOnesThatWait(t *testing.T) {
	t.Parallel()
	o := fresh(t)
	o.MaxConns = 1
	migrate(t, shared, o)
	d := open(t, shared, o)
	c := connect(t, shared, "owner")
	exec1(t, c, `BEGIN; LOCK TABLE `+o.Schema+`.object`)
	get := func() chan error {
		done := make(chan error, 1)
		go func() {
			_, err := d.Get(t.Context(), "a", []string{"k"})
			done <- err
		}()
		return done
	}
	running := get()
	watch := connect(t, shared, "postgres")
	isTrue(t, watch, `SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = $1::text::regclass`, o.Schema+`.object`)
	waiting := []chan error{get(), get(), get()}
	time.Sleep(50 * time.Millisecond) // so that most of them wait already
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	for _, w := range waiting {
		clean(t, <-w, memory.ErrClosed, "")
	}
	select {
	case err := <-closed:
		t.Fatalf("Close did not wait (%v)", err)
	case err := <-running:
		t.Fatalf("the call did not run on (%v)", err)
	case <-time.After(50 * time.Millisecond):
	}
	exec1(t, c, `COMMIT`)
	if err := errors.Join(<-running, <-closed); err != nil {
		t.Fatal(err)
	}
}

// trips counts round trips: answers of the server that follow on something said
// by the client.
type trips struct {
	net.Listener
	n       atomic.Int64
	clients sync.WaitGroup
}

func (p *trips) serve(to string) {
	for {
		client, err := p.Accept()
		if err != nil {
			return
		}
		upstream, err := net.Dial("tcp", to)
		if err != nil {
			client.Close()
			return
		}
		var asked atomic.Bool
		pipe := func(from, to net.Conn, seen func()) {
			defer to.Close()
			buffer := make([]byte, 1<<20)
			for {
				n, err := from.Read(buffer)
				if err != nil {
					return
				}
				seen()
				if _, err := to.Write(buffer[:n]); err != nil {
					return
				}
			}
		}
		p.clients.Go(func() { pipe(client, upstream, func() { asked.Store(true) }) })
		p.clients.Go(func() {
			pipe(upstream, client, func() {
				if asked.Swap(false) {
					p.n.Add(1)
				}
			})
		})
	}
}

func TestEachCallOfAnAgentIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	o := fresh(t)
	o.MaxConns = 1
	migrate(t, shared, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &trips{Listener: l}
	u, err := url.Parse(shared.RuntimeURL("app"))
	if err != nil {
		t.Fatal(err)
	}
	to := u.Host
	p.clients.Go(func() { p.serve(to) })
	u.Host = l.Addr().String()
	d, err := pgstore.Open(t.Context(), u.String(), o)
	if err != nil {
		t.Fatal(err)
	}
	revision := uint64(0)
	for name, call := range map[string]func() error{
		"get": func() error { _, err := d.Get(t.Context(), "a", []string{"k", "l"}); return err },
		"apply": func() error {
			b := put("k", revision, "x")
			b.Checks = []memory.Check{{Key: "c"}, {Key: "k", Revision: revision}}
			b.Puts = append(b.Puts, memory.Put{Key: fmt.Sprint("new", revision), Remove: []string{"u"}})
			revision++
			return d.Apply(t.Context(), "a", b)
		},
		"query":   func() error { _, _, err := d.Query(t.Context(), "a", memory.Query{Term: "t", Limit: 1}); return err },
		"history": func() error { _, err := d.History(t.Context(), "a", "k", 0, 1); return err },
	} {
		if err := call(); err != nil { // the first time a statement is prepared
			t.Fatal(err)
		}
		before := p.n.Load()
		for range 10 {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		}
		if n := p.n.Load() - before; n != 10 {
			t.Errorf("10 of %s took %d round trips", name, n)
		}
	}
	d.Close()
	l.Close()
	p.clients.Wait()
}

func TestLongKeysAreListedInTheOrderOfTheirBytes(t *testing.T) {
	t.Parallel()
	d := made(t)
	defer d.Close()
	random := rand.New(rand.NewPCG(1, 1))
	prefix := strings.Repeat("p", 768)
	var b memory.Batch
	for i := range 60 {
		tail := make([]byte, random.IntN(3000))
		for j := range tail {
			tail[j] = byte(random.Uint32())
		}
		key := prefix[:len(prefix)-i%3] + string(tail)
		b.Puts = append(b.Puts, memory.Put{Key: key, Entry: []byte("x"), Add: []memory.Term{{Name: prefix + "t", Sort: uint64(i % 2)}}})
	}
	tenant := strings.Repeat("tenant", 1000)
	if err := d.Apply(t.Context(), tenant, b); err != nil {
		t.Fatal(err)
	}
	var last memory.Hit
	listed := 0
	for q := (memory.Query{Term: prefix + "t", Limit: 7}); ; {
		hits, next, err := d.Query(t.Context(), tenant, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hits {
			if h.Sort < last.Sort || h.Sort == last.Sort && h.Key <= last.Key {
				t.Fatal("the carriers are not in order")
			}
			last = h
		}
		listed += len(hits)
		if q.After = next; next == "" {
			break
		}
	}
	if listed != len(b.Puts) {
		t.Fatalf("%d carriers of %d", listed, len(b.Puts))
	}
	for _, p := range []string{"", prefix[:10], prefix, prefix + "\x01"} {
		var keys []string
		for after := ""; ; {
			page, next, err := d.Logs(t.Context(), tenant, p, after, 7)
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, page...)
			if after = next; next == "" {
				break
			}
		}
		want := 0
		for _, put := range b.Puts {
			if strings.HasPrefix(put.Key, p) {
				want++
			}
		}
		for i := range keys {
			if i > 0 && keys[i] <= keys[i-1] {
				t.Fatal("the keys are not in order")
			}
		}
		if len(keys) != want {
			t.Fatalf("%d keys of %d with prefix of %d bytes", len(keys), want, len(p))
		}
	}
	if tenants, _, err := d.Tenants(t.Context(), "", 10); err != nil || len(tenants) != 1 || tenants[0] != tenant {
		t.Fatalf("%d tenants (%v)", len(tenants), err)
	}
}

// TestNoCallReadsMoreRowsThanItIsAskedFor: the planner knows little of the tables,
// and for one that was small when it planned it likes to read all that a tenant has.
func TestNoCallReadsMoreRowsThanItIsAskedFor(t *testing.T) {
	t.Parallel()
	o := fresh(t)
	o.MaxConns = 1
	migrate(t, shared, o)
	super := connect(t, shared, "postgres")
	// read is how many rows and index entries were read, once a driver has gone.
	read := func(d *pgstore.Driver) (n int) {
		t.Helper()
		pid, err := d.PID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
		for there := true; there; {
			if err := super.QueryRow(t.Context(), `SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = $1`, pid).Scan(&there); err != nil {
				t.Fatal(err)
			}
		}
		err = super.QueryRow(t.Context(), `SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = $1)
			+ (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = $1)`, o.Schema).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const objects, rounds = 3000, 30
	key := func(i int) string { return fmt.Sprintf("k%04d", i) }
	work := func(d *pgstore.Driver, first int, revision uint64) {
		t.Helper()
		for n := range rounds {
			var b memory.Batch
			var keys []string
			for i := range 10 {
				k := key((first + n*10 + i) % objects)
				keys = append(keys, k)
				b.Checks = append(b.Checks, memory.Check{Key: k, Revision: revision}, memory.Check{Key: "absent " + k})
				b.Puts = append(b.Puts, memory.Put{Key: k, From: revision, Entry: []byte("x"), Add: []memory.Term{{Name: "t", Sort: uint64(n)}}, Remove: []string{"u"}})
			}
			_, err1 := d.Get(t.Context(), "t", keys)
			err2 := d.Apply(t.Context(), "t", b)
			_, _, err3 := d.Query(t.Context(), "t", memory.Query{Term: "t", From: 1, Limit: 10})
			_, err4 := d.History(t.Context(), "t", keys[0], 0, 10)
			_, _, err5 := d.Logs(t.Context(), "t", keys[0], "", 10)
			err6 := storetest.Rewrite(t.Context(), d, "t", keys[0], []memory.LogEntry{{Revision: revision + 1}})
			_, _, err7 := d.Scan(t.Context(), "t", "", memory.LogPlace{Key: keys[0]}, 10)
			if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := open(t, shared, o)
	work(d, 0, 0) // every statement is planned while the tables are small
	var fill memory.Batch
	for i := rounds * 10; i < objects; i++ {
		fill.Puts = append(fill.Puts, memory.Put{Key: key(i), Entry: []byte("x"), Add: []memory.Term{{Name: "t", Sort: 5}, {Name: "u", Sort: 5}}})
	}
	if err := d.Apply(t.Context(), "t", fill); err != nil {
		t.Fatal(err)
	}
	work(d, 1000, 1)
	before := read(d)
	d = open(t, shared, o) // every statement is planned anew, now that the tables are larger
	work(d, 2000, 1)
	n := read(d) - before
	t.Logf("%d rows and index entries were read in %d rounds of 7 calls, and %d before", n, rounds, before)
	if n > rounds*200 || before > rounds*400 {
		t.Errorf("%d and %d rows and index entries were read in %d rounds", before, n, rounds)
	}
}
