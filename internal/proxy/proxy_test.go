package proxy_test

import (
	"bufio"
	"io"
	"net"
	"testing"

	"github.com/hearsay-go/hearsay/internal/proxy"
	"github.com/hearsay-go/hearsay/internal/testmain"
)

func TestMain(m *testing.M) { testmain.Run(m) }

// echo is a server that answers each line with its name and the line.
func echo(t *testing.T, name string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					io.WriteString(c, name+" "+line)
				}
			}()
		}
	}()
	return l.Addr().String()
}

// ask says a line over a connection and returns the answer.
func ask(c net.Conn) (string, error) {
	if _, err := io.WriteString(c, "x\n"); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}

func connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestLead(t *testing.T) {
	one, two := echo(t, "one"), echo(t, "two")
	p := proxy.New(t, one)
	c := connect(t, p.Addr)
	for range 2 {
		if got, err := ask(c); got != "one x\n" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	p.Lead("")
	for _, c := range []net.Conn{c, connect(t, p.Addr)} {
		if got, err := ask(c); err == nil {
			t.Errorf("an answer though the proxy leads nowhere: %q", got)
		}
	}
	p.Lead(two)
	if got, err := ask(connect(t, p.Addr)); got != "two x\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestLoseReplies(t *testing.T) {
	p := proxy.New(t, echo(t, "one"))
	p.LoseReplies(2)
	for range 3 {
		c := connect(t, p.Addr)
		if got, err := ask(c); err != nil {
			t.Fatalf("the first of two is lost: %q, %v", got, err)
		}
		if got, err := ask(c); err == nil {
			t.Errorf("the second of two is not lost: %q", got)
		}
	}
	if n := p.Lost(); n != 3 {
		t.Errorf("3 replies were lost, and %d are counted", n)
	}
	p.LoseReplies(0)
	c := connect(t, p.Addr)
	for range 4 {
		if _, err := ask(c); err != nil {
			t.Fatal(err)
		}
	}
}
