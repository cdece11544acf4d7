package pgstore

import (
	"context"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/jackc/pgx/v5"
)

const (
	// A connection that was idle for longer is looked at before it is used.
	restful = time.Second
	// A connection is closed when it is that old: the caches of its process at the
	// server only ever grow.
	lifetime = time.Hour
)

// conn is a connection of a pool.
type conn struct {
	*pgx.Conn
	made, used time.Time
}

// pool hands out at most so many connections. It makes them as they are needed.
type pool struct {
	connect func(ctx context.Context) (*pgx.Conn, error)
	slots   chan struct{}
	done    chan struct{} // closed when the driver is

	mu   sync.Mutex
	idle []*conn // the one used last is taken first
}

// take waits for a slot, then gives an idle connection or makes one.
func (p *pool) take(ctx context.Context) (*conn, error) {
	select {
	case <-p.done:
		return nil, memory.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	case p.slots <- struct{}{}:
	}
	select { // a slot and done may have been ready at once
	case <-p.done:
		<-p.slots
		return nil, memory.ErrClosed
	default:
	}
	now := time.Now()
	for {
		c := p.pop()
		if c == nil {
			break
		}
		if now.Sub(c.made) < lifetime && (now.Sub(c.used) < restful || c.Ping(ctx) == nil) {
			return c, nil
		}
		end(c.Conn)
		if ctx.Err() != nil {
			<-p.slots
			return nil, ctx.Err()
		}
	}
	c, err := p.connect(ctx)
	if err != nil {
		<-p.slots
		return nil, err
	}
	return &conn{Conn: c, made: now}, nil
}

func (p *pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	c := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	return c
}

// give takes a connection back, with the error of what it was used for. After a
// call that was given up it is not used again: pgx closes it and has the server
// cancel the statement, which may come late and meet the statement of somebody else.
func (p *pool) give(ctx context.Context, c *conn, err error) {
	broken := c.IsClosed() || c.PgConn().IsBusy() || c.PgConn().TxStatus() != 'I'
	if broken || err != nil && ctx.Err() != nil {
		end(c.Conn)
	} else {
		c.used = time.Now()
		p.mu.Lock()
		p.idle = append(p.idle, c)
		p.mu.Unlock()
	}
	if broken && ctx.Err() == nil {
		p.empty() // the server went away, and the idle ones went with it
	}
	<-p.slots
}

// empty closes the idle connections.
func (p *pool) empty() {
	for c := p.pop(); c != nil; c = p.pop() {
		end(c.Conn)
	}
}

// drain waits for the calls that are under way and closes every connection.
func (p *pool) drain() {
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	p.empty()
}

// end closes a connection, which says goodbye to the server if that is quick.
func end(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}
