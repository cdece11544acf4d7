package redisurl_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory/redisstore/redisurl"
)

// own is the logger that a program sets itself.
type own struct{ lines *bytes.Buffer }

func (o own) Printf(_ context.Context, format string, args ...any) {
	fmt.Fprintf(o.lines, format, args...)
}

// TestHelperDialsNobody is a program that uses the client, in one of three ways.
func TestHelperDialsNobody(t *testing.T) {
	how := os.Getenv("REDISURL_HELPER")
	if how == "" {
		return
	}
	var said bytes.Buffer
	switch how {
	case "its own logger":
		redis.SetLogger(own{&said})
	case "slog at debug":
		slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})))
	}
	o, err := redisurl.Parse("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewUniversalClient(o)
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Fatal("somebody answers")
	}
	if how == "its own logger" && said.Len() == 0 {
		fmt.Fprintln(os.Stderr, "its logger heard nothing")
	}
}

// TestTheClientFillsNoStderr: and whoever wants its lines has them.
func TestTheClientFillsNoStderr(t *testing.T) {
	for how, want := range map[string]string{"nothing": "", "its own logger": "", "slog at debug": "level=DEBUG msg=redis"} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelperDialsNobody$")
			cmd.Env = append(os.Environ(), "REDISURL_HELPER="+how)
			var talk bytes.Buffer
			cmd.Stderr = &talk
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, talk.String())
			}
			if said := talk.String(); want == "" && said != "" || !strings.Contains(said, want) {
				t.Errorf("stderr has %q, want %q", said, want)
			}
		})
	}
}
