package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/redisstore"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

// TestAServerThatDiesWhileAToolRunsLeavesTheMark: a real server is killed between the tool and
// its record, and started again. The model was told that the call was done, and the same call
// is held, by another process too, until a person says how it ended.
func TestAServerThatDiesWhileAToolRunsLeavesTheMark(t *testing.T) {
	redis, err := server.Redis(t.Context(), server.RedisOptions{Settings: []string{"appendonly yes", "appendfsync always"}})
	server.Need(t, err)
	t.Cleanup(func() {
		if err := redis.Stop(); err != nil {
			t.Error(err)
		}
	})
	ring := keyring.Ephemeral()
	open := func() (*memory.Store, *gate.Gate) {
		t.Helper()
		d, err := redisstore.Open(t.Context(), redis.URL(), nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := memory.New(d, ring, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() }) // its server is gone by then
		return s, must(gate.New(s, gate.Policy{Name: "p", Version: "1", Declared: true}, &gate.Options{Timeout: time.Hour}))
	}
	store, g := open()
	ran := 0
	book := agent.Func("book", "books", func(context.Context, searchIn) (nothing, error) {
		if ran++; ran == 1 {
			redis.Kill9()
		}
		return nothing{}, nil
	}, agent.StateChanging())
	a := must(agent.New("a", agent.Model{ID: "m", Family: "f"}, store, g, []agent.Tool{book}, nil))
	run := a.Start("ana")
	res, err := run.Call(t.Context(), "book", args(searchIn{"Blue"}))
	if text := agent.ToolText(res, err); !errors.Is(err, agent.ErrUnrecorded) || !strings.HasPrefix(text, "DONE: book ran") || ran != 1 {
		t.Fatalf("ran %d times: %v\n%s", ran, err, text)
	}
	if err := redis.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	other, _ := open()
	if err := until(time.Minute, func() bool {
		_, err := run.Call(t.Context(), "book", args(searchIn{"Blue"}))
		return errors.Is(err, gate.ErrOutcomeUnknown)
	}); err != nil || ran != 1 {
		t.Fatalf("the same call again: ran %d times", ran)
	}
	if err := other.Settle(t.Context(), memory.Settlement{Decision: res.Decision.ID, Done: true, Actor: "cleo", Reason: "the hotel has it"}); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Call(t.Context(), "book", args(searchIn{"Blue"})); !errors.Is(err, gate.ErrApprovalRejected) || !strings.Contains(agent.ToolText(agent.Result{}, err), "it was done already: the hotel has it") || ran != 1 {
		t.Errorf("ran %d times: %v", ran, err)
	}
}

// until asks again until it is so.
func until(limit time.Duration, is func() bool) error {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if is() {
			return nil
		}
	}
	return errors.New("it was not so in time")
}
