package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// way is an address that leads to a server, until a client has sent it so many
// messages. Then it is cut for good, or stands still, before the message has passed or
// when the reply is on its way back.
type way struct {
	listener net.Listener
	to       string
	at       int
	after    bool
	fault    string

	mu    sync.Mutex
	sent  int
	cut   bool
	conns []net.Conn
	all   sync.WaitGroup
}

func newWay(to string, p point) (*way, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &way{listener: l, to: to, at: p.At, after: p.After, fault: p.Fault}
	w.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.all.Go(func() { w.carry(c) })
		}
	})
	return w, nil
}

func (w *way) close() {
	w.listener.Close()
	w.end()
	w.all.Wait()
}

// end cuts it.
func (w *way) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for _, c := range w.conns {
		c.Close()
	}
}

func (w *way) keep(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		c.Close()
		return false
	}
	w.conns = append(w.conns, c)
	return true
}

// hit counts a message, and says whether it is the one.
func (w *way) hit() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent++
	return w.sent-1 == w.at
}

// stop makes the fault.
func (w *way) stop() {
	if w.fault != hangs {
		w.end()
	}
}

func (w *way) carry(c net.Conn) {
	defer c.Close()
	if !w.keep(c) {
		return
	}
	s, err := net.Dial("tcp", w.to)
	if err != nil || !w.keep(s) {
		return
	}
	defer s.Close()
	var lost sync.Once
	quiet := make(chan struct{}) // closed when no reply comes back any more
	w.all.Go(func() {
		defer c.Close()
		b := make([]byte, 64<<10)
		for {
			n, err := s.Read(b)
			if err != nil {
				return
			}
			select {
			case <-quiet:
				w.stop()
				continue
			default:
			}
			if _, err := c.Write(b[:n]); err != nil {
				return
			}
		}
	})
	b := make([]byte, 64<<10)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		if w.hit() {
			if !w.after {
				w.stop()
				continue // a message that does not pass
			}
			lost.Do(func() { close(quiet) })
		}
		if _, err := s.Write(b[:n]); err != nil {
			return
		}
	}
}

// Making is how a store is made, step by step, on a server.
type Making struct {
	// Addr is where the server listens.
	Addr string
	// Make must make the store with a name, or open it, talking to a server at an
	// address.
	Make func(ctx context.Context, addr, name string) error
	// Open must open a store that was made.
	Open func(ctx context.Context, name string) (memory.Driver, error)
}

// Makings cuts the way to a server at every message by which a store is made, before
// it arrives and after, and lets it stand still there. Made again, the store must be
// whole.
func Makings(t *testing.T, m Making) {
	t.Helper()
	var cut, still atomic.Int64
	t.Cleanup(func() {
		t.Logf("faults: making a store: the way cut at %d messages, still at %d; whole, or made again, each time", cut.Load(), still.Load())
	})
	for _, fault := range []string{kills, hangs} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after it has arrived: %t", fault, after), func(t *testing.T) {
				t.Parallel()
				deadline := 100 * time.Millisecond
				tries := 0
				for at := 0; ; {
					p := point{Operation: "making a store", At: at, Write: true, After: after, Fault: fault}
					tries++
					sent, made, err := m.play(t.Context(), p, fmt.Sprintf("making_%s_%t_%d", fault, after, tries), deadline)
					switch {
					case err != nil:
						t.Fatalf("%s: %v", p, err)
					case sent > at:
						if at++; fault == kills {
							cut.Add(1)
						} else {
							still.Add(1)
						}
						continue
					case !made: // a slow machine: the deadline came first
						deadline *= 2
						continue
					}
					if at == 0 { // it was made without coming so far
						t.Error("no message was met")
					}
					return
				}
			})
		}
	}
}

// play says how many messages were sent, and whether the store was made at once.
func (m Making) play(ctx context.Context, p point, name string, deadline time.Duration) (sent int, made bool, err error) {
	w, err := newWay(m.Addr, p)
	if err != nil {
		return 0, false, err
	}
	making, cancel := context.WithTimeout(ctx, deadline)
	err = m.Make(making, w.listener.Addr().String(), name)
	cancel()
	w.close()
	made = err == nil
	sent = w.sent
	if err != nil && !errors.Is(err, memory.ErrStore) && !errors.Is(err, context.DeadlineExceeded) {
		return 0, false, fmt.Errorf("the error is %w", err)
	}
	end := time.Now().Add(3 * time.Minute)
	for !made { // what was made is there
		again, cancel := context.WithTimeout(ctx, time.Minute)
		err = m.Make(again, m.Addr, name)
		cancel()
		if err == nil || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		return 0, false, fmt.Errorf("it cannot be made again: %w", err)
	}
	d, err := m.Open(ctx, name)
	if err != nil {
		return 0, false, err
	}
	load := Load{Tenant: "t", Streams: 1, Parts: 2, Size: 10}
	done, errs := load.Write(ctx, d, func(a Acknowledged) bool { return a.Batch < 1 })
	there, err := load.Check(ctx, d)
	if err = errors.Join(append(errs, err, d.Close())...); err != nil {
		return 0, false, err
	}
	if len(done) != 2 || there[0] != 2 {
		return 0, false, fmt.Errorf("%d batches were acknowledged, %d are there", len(done), there[0])
	}
	return sent, made, nil
}
