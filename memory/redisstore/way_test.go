package redisstore_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// way is an address that leads to one server and later to another.
type way struct {
	addr string
	lose atomic.Bool

	mu    sync.Mutex
	to    string
	conns []net.Conn
}

func newWay(t *testing.T, to string) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{addr: l.Addr().String(), to: to}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { w.carry(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.lead("")
		all.Wait()
	})
	return w
}

func (w *way) carry(c net.Conn) {
	defer c.Close()
	w.mu.Lock()
	s, err := net.Dial("tcp", w.to)
	if err != nil {
		w.mu.Unlock()
		return
	}
	w.conns = append(w.conns, c, s)
	w.mu.Unlock()
	defer s.Close()
	var back sync.WaitGroup
	back.Go(func() {
		defer c.Close()
		buffer := make([]byte, 32<<10)
		for {
			n, err := s.Read(buffer)
			if err != nil || w.lose.Load() {
				return
			}
			if _, err := c.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	_, _ = io.Copy(s, c) // it ends when either side does
	s.Close()
	back.Wait()
}

// lead closes all connections; new ones go to another server.
func (w *way) lead(to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

// loseReplies has connections end instead of bringing a reply.
func (w *way) loseReplies(lose bool) { w.lose.Store(lose) }
