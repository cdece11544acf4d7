package reach_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory/reach"
)

// listening serves each connection with a function until the test ends.
func listening(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

// Each error is the one that the network of this machine gives.
func TestEachWayNotToReachAServerReadsAsWhatItIs(t *testing.T) {
	dial := func(address string) error {
		c, err := net.DialTimeout("tcp", address, time.Minute)
		if err == nil {
			c.Close()
		}
		return err
	}
	secured := httptest.NewUnstartedServer(nil)
	secured.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are to fail
	secured.StartTLS()
	defer secured.Close()
	handshake := func(address string, c *tls.Config) error {
		conn, err := (&tls.Dialer{Config: c, NetDialer: &net.Dialer{Timeout: time.Minute}}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			conn.Close()
		}
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(secured.Certificate())
	at := secured.Listener.Addr().String()

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	over, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	_, deadline := (&net.Dialer{}).DialContext(over, "tcp", at)
	_, socket := net.Dial("unix", filepath.Join(t.TempDir(), "none"))
	read := func(address string) error {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = io.ReadAll(io.LimitReader(c, 1))
		if err == nil {
			err = io.EOF
		}
		return err
	}

	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a port that is closed":               {dial(closed.Addr().String()), "S refused the connection"},
		"a host that there is not":            {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}}, "the host of S is not known"},
		"a name server that is silent":        {&net.DNSError{Err: "i/o timeout", Name: "x", IsTimeout: true}, "could not be looked up"},
		"TLS with who does not speak it":      {handshake(listening(t, func(c net.Conn) { fmt.Fprint(c, "-ERR what?\r\n") }), &tls.Config{ServerName: "x"}), "S does not speak TLS"},
		"a certificate that nobody knows":     {handshake(at, &tls.Config{ServerName: "example.com"}), "signed by nobody that this machine trusts"},
		"a certificate for another name":      {handshake(at, &tls.Config{ServerName: "other.example", RootCAs: trusted}), "is for another name"},
		"a certificate of another time":       {handshake(at, &tls.Config{ServerName: "example.com", RootCAs: trusted, Time: func() time.Time { return time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC) }}), "out of date"},
		"a handshake that the server refuses": {tls.AlertError(116), "S refused the TLS handshake"},
		"a server that is silent":             {deadline, "S does not answer"},
		"a server that hangs up":              {read(listening(t, func(net.Conn) {})), "S ended the connection"},
		"a socket that there is not":          {socket, "there is no socket S"},
	} {
		if got := reach.Why(fmt.Errorf("as a client wraps it: %w", c.err), "S"); !strings.Contains(got, c.want) {
			t.Errorf("%s (%v) reads %q, want %q", name, c.err, got, c.want)
		}
	}
	for _, other := range []error{nil, errors.New("the statement is wrong"), context.Canceled} {
		if got := reach.Why(other, "S"); got != "" {
			t.Errorf("%v reads as %q", other, got)
		}
	}
}
