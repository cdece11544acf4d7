// Package proxy is a TCP proxy between a program under test and its server.
package proxy

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy is an address that leads to one server and later to another. Its methods are safe
// for concurrent use.
type Proxy struct {
	// Addr is where the proxy listens.
	Addr string

	lose    atomic.Int64
	replies atomic.Int64
	lost    atomic.Int64

	mu    sync.Mutex
	to    string
	conns []net.Conn
}

// New returns a proxy that leads to a server. It closes with the test.
func New(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), to: to}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.carry(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.Lead("")
		all.Wait()
	})
	return p
}

// Lead closes all connections and leads new ones to another server. If to is empty, it
// closes new connections at once.
func (p *Proxy) Lead(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// LoseReplies makes a connection end in place of each nth reply, counted over all
// connections. With 0 no reply is lost.
func (p *Proxy) LoseReplies(n int64) { p.lose.Store(n) }

// Lost returns how many replies were lost so far.
func (p *Proxy) Lost() int64 { return p.lost.Load() }

// loses counts a reply and reports whether it is lost.
func (p *Proxy) loses() bool {
	n := p.lose.Load()
	if n == 0 || p.replies.Add(1)%n != 0 {
		return false
	}
	p.lost.Add(1)
	return true
}

// dial connects a client to the server, or returns nil.
func (p *Proxy) dial(client net.Conn) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.to == "" {
		return nil
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return nil
	}
	p.conns = append(p.conns, client, server)
	return server
}

// carry serves a client until it or the server closes the connection.
func (p *Proxy) carry(client net.Conn) {
	defer client.Close()
	server := p.dial(client)
	if server == nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		defer client.Close()
		buffer := make([]byte, 32<<10)
		for {
			n, err := server.Read(buffer)
			if err != nil || p.loses() {
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	_, _ = io.Copy(server, client) // it ends when either side does
	server.Close()
	back.Wait()
}
