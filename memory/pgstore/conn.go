package pgstore

import (
	"context"
	"math"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// A connection is made in this time, or not at all: one whose caller has given up
	// is made all the same, and takes its place in the pool meanwhile.
	connecting = 10 * time.Second
	// A connection that was idle for more than a second is looked at before it is
	// used, and given up if it does not answer in this time.
	answering = 5 * time.Second
)

// connections are the pool of a driver. Every connection of it was identified, and
// none is handed out that a call left in doubt.
type connections struct {
	pool  *pgxpool.Pool
	done  context.Context // ends when the driver is closed
	close context.CancelFunc
}

// connections are those of a config, at most so many. None is made yet.
func (d *Driver) connections(config *pgxpool.Config, most int) (connections, error) {
	config.MaxConns, config.MinConns, config.MinIdleConns = int32(min(most, math.MaxInt32)), 0, 0
	config.PingTimeout = answering
	if config.ConnConfig.ConnectTimeout <= 0 {
		config.ConnConfig.ConnectTimeout = connecting
	}
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, connecting)
		defer cancel()
		return d.identify(ctx, c)
	}
	done, cancel := context.WithCancel(context.Background())
	pool, err := pgxpool.NewWithConfig(done, config)
	if err != nil {
		cancel()
	}
	return connections{pool, done, cancel}, err
}

// take waits for a connection. Who waits when the driver is closed does not get one.
func (p *connections) take(ctx context.Context) (*pgxpool.Conn, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.done, cancel)()
	c, err := p.pool.Acquire(waiting)
	switch {
	case err == nil:
		return c, nil
	case p.done.Err() != nil:
		return nil, memory.ErrClosed
	}
	return nil, err
}

// give takes a connection back, with the error of what it was used for. After a
// call that was given up it is not used again: pgx closes it and has the server
// cancel the statement, which may come late and meet the statement of somebody else.
func (p *connections) give(ctx context.Context, c *pgxpool.Conn, err error) {
	conn := c.Conn()
	broken := conn.IsClosed() || conn.PgConn().IsBusy() || conn.PgConn().TxStatus() != 'I'
	if broken || err != nil && ctx.Err() != nil {
		end(conn)
	}
	c.Release() // a closed one is not kept
	if broken && ctx.Err() == nil {
		p.pool.Reset() // the server went away, and the idle ones went with it
	}
}

// drain waits for the calls that are under way and closes every connection.
func (p *connections) drain() {
	p.close()
	p.pool.Close()
}

// end closes a connection, which says goodbye to the server if that is quick.
func end(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}
