package server

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
)

func TestMain(m *testing.M) { testmain.Run(m) }

// A server whose port another one has does not start, though that one answers in its place.
func TestAServerDoesNotStartOnThePortOfAnother(t *testing.T) {
	first, err := Redis(t.Context(), RedisOptions{})
	Need(t, err)
	t.Cleanup(func() {
		if err := first.Stop(); err != nil {
			t.Error(err)
		}
	})
	second := &RedisServer{Dir: t.TempDir(), Addr: first.Addr}
	second.config = filepath.Join(second.Dir, "redis.conf")
	config, err := os.ReadFile(first.config)
	if err == nil {
		err = os.WriteFile(second.config, config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := second.Start(context.WithoutCancel(t.Context())); err == nil {
			t.Fatal("it started")
		}
	}
	if _, err := first.Do(t.Context(), "PING"); err != nil {
		t.Error(err)
	}
}

// Nobody else gets a port that is kept, whether its server runs or not.
func TestAPortIsGivenOnce(t *testing.T) {
	given := map[int]bool{}
	for range 200 {
		p, err := takePort(true)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.free)
		if given[p.number] {
			t.Fatalf("%d is given twice", p.number)
		}
		given[p.number] = true
	}
}
