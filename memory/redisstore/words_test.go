package redisstore_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

// TestWhyAStoreIsNotReachedReadsAsWhatItIs: each text names the server as its operator
// did, and says which of the ways not to get there it was.
func TestWhyAStoreIsNotReachedReadsAsWhatItIs(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	open, locked := own(t, server.RedisOptions{}), own(t, server.RedisOptions{Password: "secret"})
	secured := httptest.NewUnstartedServer(nil)
	secured.Config.ErrorLog = log.New(io.Discard, "", 0)
	secured.TLS = &tls.Config{}
	secured.StartTLS()
	t.Cleanup(secured.Close)
	behindTLS := secured.Listener.Addr().String()

	for name, c := range map[string]struct{ url, want, at string }{
		"a port that is closed":          {"redis://" + closed.Addr().String(), "refused the connection: nothing listens there", closed.Addr().String()},
		"a host that there is not":       {"redis://nowhere.invalid:6379", "nowhere.invalid:6379", "nowhere.invalid:6379"},
		"a socket that there is not":     {"unix:///nowhere/redis.sock", "there is no socket", "/nowhere/redis.sock"},
		"TLS with who does not speak it": {"rediss://" + open.Addr + "?dial_timeout=1s", "if it speaks no TLS, say redis://", open.Addr},
		"no TLS with who wants it":       {"redis://" + behindTLS, "if it wants TLS, say rediss://", behindTLS},
		"a certificate that nobody knows": {"rediss://" + behindTLS,
			"signed by nobody that this machine trusts", behindTLS},
		"a wrong password":         {"redis://:wrong@" + locked.Addr, "does not know the user or the password", locked.Addr},
		"a user that there is not": {"redis://nobody:secret@" + locked.Addr, "does not know the user or the password", locked.Addr},
		"no password":              {"redis://" + locked.Addr, "wants a user and a password", locked.Addr},
		"a database that there is not": {"redis://" + open.Addr + "/99",
			"has no database of that number", open.Addr},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := refused(t, c.url, nil, memory.ErrStore)
			if text := err.Error(); !strings.Contains(text, c.want) || !strings.Contains(text, c.at) {
				t.Errorf("it reads %q, want %q of %s", text, c.want, c.at)
			}
		})
	}
}

// TestAServerThatIsOutOfMemoryIsReadAsEver: what only reads goes on, of several objects
// at once too, and a write says what is wrong.
func TestAServerThatIsOutOfMemoryIsReadAsEver(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{})
	d := opened(t, s.URL(), nil)
	var keys []string
	batch := memory.Batch{}
	for i := range 300 {
		key := fmt.Sprintf("%02d/%d", i%37, i)
		keys = append(keys, key)
		batch.Puts = append(batch.Puts, put(key, 0, strings.Repeat("x", 100)).Puts...)
	}
	if err := d.Apply(t.Context(), "tenant", batch); err != nil {
		t.Fatal(err)
	}
	long := put("long", 0, "first")
	for n := range uint64(20) {
		long.Puts[0].From = n
		if err := d.Apply(t.Context(), "tenant", long); err != nil {
			t.Fatal(err)
		}
	}
	do(t, s, "CONFIG", "SET", "maxmemory", "1")
	err := d.Apply(t.Context(), "tenant", put("new", 0, "x"))
	clean(t, err, memory.ErrFull)
	if !errors.Is(err, memory.ErrStore) || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("a write that finds no room says %v", err)
	}
	fresh := opened(t, s.URL(), nil) // also by who comes when it is full
	for name, d := range map[string]memory.Driver{"who was there": d, "who comes now": fresh} {
		for _, n := range []int{1, 2, 40, 300} {
			objects, err := d.Get(t.Context(), "tenant", keys[:n])
			if err != nil || len(objects) != n || objects[n-1].Revision != 1 {
				t.Errorf("%s cannot read %d objects: %v", name, n, err)
			}
		}
		if hits, _, err := d.Query(t.Context(), "tenant", memory.Query{Term: "t", Limit: 1000}); err != nil || len(hits) != 301 {
			t.Errorf("%s finds %d carriers: %v", name, len(hits), err)
		}
		if log, err := d.History(t.Context(), "tenant", "long", 0, 100); err != nil || len(log) != 20 {
			t.Errorf("%s reads %d entries: %v", name, len(log), err)
		}
		listed := 0
		for _, err := range d.Objects(t.Context(), "tenant", "") {
			if err != nil {
				t.Fatalf("%s lists objects: %v", name, err)
			}
			listed++
		}
		carried := 0
		for _, err := range d.Carriers(t.Context(), "tenant", "") {
			if err != nil {
				t.Fatalf("%s lists carriers: %v", name, err)
			}
			carried++
		}
		if listed != 301 || carried != 301 {
			t.Errorf("%s lists %d objects and %d carriers", name, listed, carried)
		}
	}
	do(t, s, "CONFIG", "SET", "maxmemory", "0")
	if err := d.Apply(t.Context(), "tenant", put("new", 0, "x")); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
