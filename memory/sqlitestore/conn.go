package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"modernc.org/sqlite"
)

// The statements. Every parameter is an anonymous one: the driver asks for the
// name of a numbered one on every use.
const (
	stBeginRead = iota
	stBeginWrite
	stSchema
	stCommit
	stRollback
	stCreate
	stMove
	stMoveTerms
	stAppend
	stDrop
	stDropAll
	stTerms
	stTenant
	stNewTenant
	stHistory
	stQuery
	stTenants
	stLogs
	stSet
	stForget
	stReplace
	stStrike
	stScan
	stObjects
	stCarriers
	statements
)

// SQLite prepares a statement with LIMIT ? again whenever another value is bound to it, because
// the value is part of the plan (since 3.46, sqlite3ExprIsInteger). LIMIT ? + 0 is not.
var texts = [statements]string{
	stBeginRead:  `BEGIN`,
	stBeginWrite: `BEGIN IMMEDIATE`,
	stSchema:     `PRAGMA schema_version`,
	stCommit:     `COMMIT`,
	stRollback:   `ROLLBACK`,
	stCreate:     `INSERT INTO object (tenant, key, revision, data, terms) VALUES (?, ?, 1, ?, ?) ON CONFLICT DO NOTHING`,
	stMove:       `UPDATE object SET revision = ?, data = ? WHERE tenant = ? AND key = ? AND revision = ?`,
	stMoveTerms:  `UPDATE object SET revision = ?, data = ?, terms = ? WHERE tenant = ? AND key = ? AND revision = ?`,
	stAppend:     `INSERT INTO log (tenant, key, revision, data) VALUES (?, ?, ?, ?)`,
	stDrop:       `DELETE FROM term WHERE tenant = ? AND name = ? AND sort = ? AND key = ?`,
	stDropAll:    `DELETE FROM term WHERE tenant = ? AND key = ?`,
	stTerms:      `SELECT terms FROM object WHERE tenant = ? AND key = ?`,
	stTenant:     `SELECT id FROM tenant WHERE name = ?`,
	stNewTenant:  `INSERT INTO tenant (name) VALUES (?) ON CONFLICT DO NOTHING`,
	stHistory:    `SELECT revision, data FROM log WHERE tenant = ? AND key = ? AND revision > ? ORDER BY revision LIMIT ? + 0`,
	stQuery: `SELECT sort, key FROM term WHERE tenant = ? AND name = ? AND (sort, key) > (?, ?) AND sort <= ?
		ORDER BY sort, key LIMIT ? + 0`,
	// This steps from one key to the next in the index, over whatever lies between
	// them: a key may have a million entries.
	stTenants: `SELECT name FROM tenant WHERE name > ? AND (EXISTS (SELECT 1 FROM object WHERE object.tenant = tenant.id)
			OR EXISTS (SELECT 1 FROM log WHERE log.tenant = tenant.id)) ORDER BY name LIMIT ? + 0`,
	stLogs: `WITH RECURSIVE found (key) AS (
			SELECT (SELECT min(key) FROM log WHERE tenant = ? AND key > ? AND key >= ?)
			UNION ALL
			SELECT (SELECT min(key) FROM log WHERE tenant = ? AND key > found.key) FROM found WHERE substr(key, 1, ?) = ?)
		SELECT key FROM found WHERE substr(key, 1, ?) = ? LIMIT ? + 0`,
	stSet: `INSERT INTO object (tenant, key, revision, data, terms) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET revision = excluded.revision, data = excluded.data, terms = excluded.terms`,
	stForget:  `DELETE FROM object WHERE tenant = ? AND key = ?`,
	stReplace: `UPDATE log SET data = ? WHERE tenant = ? AND key = ? AND revision = ? AND data = ?`,
	stStrike:  `DELETE FROM log WHERE tenant = ? AND key = ? AND revision = ? AND data = ?`,
	stScan:    `SELECT key, revision, data FROM log WHERE tenant = ? AND (key, revision) > (?, ?) ORDER BY key, revision LIMIT ? + 0`,
	stObjects: `SELECT key, revision, data, terms FROM object WHERE tenant = ? AND key >= ? ORDER BY key LIMIT ? + 0`,
	stCarriers: `SELECT name, sort, key FROM term WHERE tenant = ? AND (name, sort, key) > (?, ?, ?)
		ORDER BY name, sort, key LIMIT ? + 0`,
}

// The statement that looks up many keys takes them as rows of VALUES with their
// ordinals, so that the answer needs no sorting out: duplicates are two rows, and
// what is absent is missing. One statement is kept for each size class; the rest
// of a class is padded with NULL, which equals no key.
const (
	exactClasses = 32
	maxLookup    = 1024 // keys in one statement; SQLite takes 32,766 variables
)

var wideClasses = [...]int{48, 64, 96, 128, 192, 256, 384, 512, 768, maxLookup}

const classes = exactClasses + 1 + len(wideClasses)

// class is the smallest class that holds n keys, and its size.
func class(n int) (index, size int) {
	if n <= exactClasses {
		return n, n
	}
	for i, size := range wideClasses {
		if n <= size {
			return exactClasses + 1 + i, size
		}
	}
	return classes - 1, maxLookup
}

func lookupText(size int, data bool) string {
	var b strings.Builder
	b.WriteString(`WITH wanted (at, key) AS (VALUES `)
	for i := range size {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("(" + strconv.Itoa(i) + ",?)")
	}
	b.WriteString(`) SELECT wanted.at, object.revision`)
	if data {
		b.WriteString(`, object.data`)
	}
	b.WriteString(` FROM wanted CROSS JOIN object ON object.tenant = ? AND object.key = wanted.key`)
	return b.String()
}

// errEnough ends the reading of rows, of which there may be more.
var errEnough = errors.New("enough")

type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// conn is one connection with its prepared statements and scratch space. It
// speaks to the SQLite driver below database/sql, whose scanning and pooling
// would double the cost of a small read. One goroutine uses it at a time.
type conn struct {
	raw     driver.Conn
	done    <-chan struct{} // the store is closing: wait no more
	fixed   [statements]statement
	lookups [2][classes]statement // revisions; revisions and data
	carries [len(carrySizes)]statement
	args    []driver.NamedValue
	arena   []byte
	// What the transaction will take out of the index of terms, and add to it.
	dropped, carriers []carrier
	row               [4]driver.Value
	order             []int  // of a lookup
	schema            *int64 // the version of the schema that was verified; nil = none
}

func connect(ctx context.Context, done <-chan struct{}, dsn string) (*conn, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	var raw driver.Conn
	err = patiently(ctx, done, func() error {
		raw, err = connector.Connect(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw, done: done}, nil
}

func (c *conn) close() error {
	var errs []error
	for _, list := range [][]statement{c.fixed[:], c.lookups[0][:], c.lookups[1][:], c.carries[:]} {
		for _, s := range list {
			if s != nil {
				errs = append(errs, s.Close())
			}
		}
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

func (c *conn) prepare(place *statement, text func() string) (statement, error) {
	if *place != nil {
		return *place, nil
	}
	s, err := c.raw.Prepare(text())
	if err != nil {
		return nil, err
	}
	*place = s.(statement) // the SQLite driver's statement is all three
	return *place, nil
}

func (c *conn) statement(id int) (statement, error) {
	return c.prepare(&c.fixed[id], func() string { return texts[id] })
}

// bind starts a new argument list; arg adds to it.
func (c *conn) bind() {
	clear(c.args)
	c.args = c.args[:0]
	if c.arena == nil || cap(c.arena) > 1<<20 {
		c.arena = make([]byte, 0, 4096) // not nil: nil bytes would be NULL, not an empty blob
	}
	c.arena = c.arena[:0]
}

func (c *conn) arg(v driver.Value) {
	c.args = append(c.args, driver.NamedValue{Ordinal: len(c.args) + 1, Value: v})
}

// blob adds the bytes of a string. They are copied to the arena, once for many.
func (c *conn) blob(s string) {
	from := len(c.arena)
	c.arena = append(c.arena, s...)
	c.arg(c.arena[from:len(c.arena):len(c.arena)])
}

// exec runs a statement with the bound arguments and returns how many rows it
// changed. No context goes below: the driver would start a goroutine for each
// statement. Callers ask their context between statements.
func (c *conn) exec(id int) (int64, error) {
	s, err := c.statement(id)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(context.Background(), c.args)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// do runs a statement without arguments.
func (c *conn) do(id int) error {
	c.bind()
	_, err := c.exec(id)
	return err
}

// rows runs a statement with the bound arguments and yields its rows.
func (c *conn) rows(ctx context.Context, s statement, width int, yield func(row []driver.Value) error) (err error) {
	rows, err := s.QueryContext(context.Background(), c.args)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := rows.Close(); err == nil {
			err = closeErr
		}
	}()
	row := c.row[:width]
	defer clear(row)
	for n := 1; ; n++ {
		switch err := rows.Next(row); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := yield(row); err != nil {
			return err
		}
		if n%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// lookup fills in the revision, and if wanted the data, of objects whose keys
// are set. More than one statement needs a transaction around it.
func (c *conn) lookup(ctx context.Context, tenant int64, objects []memory.Object, data bool) error {
	width, lists := 2, &c.lookups[0]
	if data {
		width, lists = 3, &c.lookups[1]
	}
	for len(objects) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := objects[:min(len(objects), maxLookup)]
		objects = objects[len(part):]
		index, size := class(len(part))
		s, err := c.prepare(&lists[index], func() string { return lookupText(size, data) })
		if err != nil {
			return err
		}
		order := c.ordered(part)
		c.bind()
		for _, i := range order {
			part[i].Revision, part[i].Data = 0, nil
			c.blob(part[i].Key)
		}
		for range size - len(part) {
			c.arg(nil)
		}
		c.arg(tenant)
		err = c.rows(ctx, s, width, func(row []driver.Value) error {
			o := &part[order[row[0].(int64)]]
			o.Revision = uint64(row[1].(int64))
			if data {
				o.Data = content(row[2])
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ordered is the places of objects in the order of their keys, if they are many: what
// lies beside each other in the file is then read together.
func (c *conn) ordered(objects []memory.Object) []int {
	c.order = c.order[:0]
	for i := range objects {
		c.order = append(c.order, i)
	}
	if len(objects) > exactClasses {
		slices.SortFunc(c.order, func(a, b int) int { return strings.Compare(objects[a].Key, objects[b].Key) })
	}
	return c.order
}

// content is the value of a data column: nil of NULL, and never nil of a blob.
func content(v driver.Value) []byte {
	if v == nil {
		return nil
	}
	if b := v.([]byte); b != nil {
		return b
	}
	return []byte{}
}

// transaction runs work between begin and commit. After an error it rolls back;
// lost says that even that failed, and the connection is of no more use.
func (c *conn) transaction(ctx context.Context, begin int, work func() error) (lost bool, err error) {
	clear(c.dropped)
	clear(c.carriers)
	c.dropped, c.carriers = c.dropped[:0], c.carriers[:0]
	if err := patiently(ctx, c.done, func() error { return c.do(begin) }); err != nil {
		return false, err
	}
	if err = work(); err == nil {
		err = ctx.Err()
	}
	if err == nil {
		// In a file that is not yet in WAL mode, a reader holds a commit up. The transaction
		// stays as it is until the commit gets through.
		err = patiently(ctx, c.done, func() error { return c.do(stCommit) })
	}
	if err != nil && c.do(stRollback) != nil {
		lost = true
	}
	return lost, err
}

// patiently repeats what finds the file locked until it does not, or until the
// context or the store ends. SQLite itself waits a little each time (busy_timeout); it cannot
// be told of a context, so it is not left to wait long.
func patiently(ctx context.Context, done <-chan struct{}, try func() error) error {
	for {
		err := try()
		if err == nil || !busy(err) {
			return err
		}
		if err := pause(ctx, done); err != nil {
			return err
		}
	}
}

// pause waits some milliseconds, or until the context or the store ends.
func pause(ctx context.Context, done <-chan struct{}) error {
	timer := time.NewTimer(time.Millisecond + rand.N(4*time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-done:
		return memory.ErrClosed
	case <-timer.C:
		return nil
	}
}

// pool hands out connections, the one used last first, since its cache is warm.
// They are opened when they are needed.
type pool struct {
	dsn   string
	slots chan struct{}
	done  <-chan struct{}

	mu   sync.Mutex
	idle []*conn
}

func newPool(dsn string, size int, done <-chan struct{}) *pool {
	return &pool{dsn: dsn, slots: make(chan struct{}, size), done: done}
}

func (p *pool) take(ctx context.Context) (*conn, error) {
	select {
	case p.slots <- struct{}{}:
	default:
		select {
		case p.slots <- struct{}{}:
		case <-p.done:
			return nil, memory.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	select {
	case <-p.done:
		<-p.slots
		return nil, memory.ErrClosed
	default:
	}
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	c, err := connect(ctx, p.done, p.dsn)
	if err != nil {
		<-p.slots
		return nil, err
	}
	return c, nil
}

func (p *pool) give(c *conn, lost bool) {
	if lost {
		_ = c.close() // its fault was reported where it happened
	} else {
		p.mu.Lock()
		p.idle = append(p.idle, c)
		p.mu.Unlock()
	}
	<-p.slots
}

// drain waits until every connection is back and closes them. The pool must be
// done; nobody gets a connection afterwards.
func (p *pool) drain() error {
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, c := range p.idle {
		errs = append(errs, c.close())
	}
	p.idle = nil
	return errors.Join(errs...)
}
