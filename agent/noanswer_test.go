package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// hangUp answers part of a response, or nothing, and closes the connection.
func hangUp(t *testing.T, part string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, part)
		_ = c.Close()
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// resets is a server that speaks HTTP/2, and resets each stream after part of an answer, or none.
func resets(t *testing.T, part string) (*http.Client, string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _ = io.Copy(io.Discard, r.Body); part != "" {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Client(), s.URL
}

// late is an error of a time that is over.
type late struct{ over bool }

func (l late) Error() string { return "late" }
func (l late) Timeout() bool { return l.over }

// reset is shaped like net/http's error of a stream that was reset.
type reset struct {
	StreamID, Code uint32
	Cause          error
}

func (reset) Error() string { return "reset" }
func (r reset) As(target any) bool {
	to := reflect.ValueOf(target).Elem()
	if to.Kind() != reflect.Struct || !reflect.TypeFor[reset]().ConvertibleTo(to.Type()) {
		return false
	}
	to.Set(reflect.ValueOf(r).Convert(to.Type()))
	return true
}

func ordered(at string) error { return orderedBy(http.DefaultClient, at) }

func orderedBy(client *http.Client, at string) error {
	res, err := client.Post(at, "text/plain", strings.NewReader("pay"))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.ReadAll(res.Body)
	return err
}

// An error that says nothing of what was done leaves the call in doubt, in whatever words the
// tool reports it: the same call is held, in every run. After any other error it may be made
// again.
func TestAnErrorThatIsNoAnswerLeavesTheCallInDoubt(t *testing.T) {
	silent, broken := hangUp(t, ""), hangUp(t, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	resetting, broke := resets(t, "")
	halving, half := resets(t, "half")
	killed := func() error {
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			return nil
		}
		_ = cmd.Process.Kill()
		return cmd.Wait()
	}
	nobody := "http://" + closed.Addr().String()
	_ = closed.Close()
	for name, c := range map[string]struct {
		cut   bool // the context of the call ends while the tool works
		fails func() error
		doubt bool
	}{
		"killed by its context":              {true, func() error { return errors.New("signal: killed") }, true},
		"its context's words":                {true, func() error { return fmt.Errorf("gave up: %v", context.Canceled) }, true},
		"a deadline of a connection":         {false, func() error { return fmt.Errorf("read: %w", os.ErrDeadlineExceeded) }, true},
		"the server closed without a word":   {false, func() error { return ordered(silent) }, true},
		"the server closed inside an answer": {false, func() error { return ordered(broken) }, true},
		"a panic with an error":              {false, func() error { panic(fmt.Errorf("lost: %w", agent.ErrNoAnswer)) }, true},
		"a panic":                            {false, func() error { panic("index out of range") }, true},
		"its process was killed":             {false, killed, true},
		"one process failed, one was killed": {false, func() error { return errors.Join(exec.Command("sh", "-c", "exit 3").Run(), killed()) }, true},
		"a stream was reset":                 {false, func() error { return orderedBy(resetting, broke) }, true},
		"a stream was reset in an answer":    {false, func() error { return orderedBy(halving, half) }, true},
		"the server goes away": {false, func() error {
			return fmt.Errorf("pay: %w", errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR"))
		}, true},
		"a stream was cancelled":          {false, func() error { return fmt.Errorf("pay: %w", reset{Code: 8}) }, true},
		"the server has refused a stream": {false, func() error { return fmt.Errorf("pay: %w", reset{Code: 7}) }, false},
		"a stream was refused unread":     {false, func() error { return errors.New("stream error: stream ID 1; REFUSED_STREAM; received from peer") }, false},
		"refused once, and then too late": {false, func() error { return errors.Join(ordered(nobody), os.ErrDeadlineExceeded) }, true},
		"not late once, and then late":    {false, func() error { return errors.Join(late{}, fmt.Errorf("again: %w", late{true})) }, true},
		"late behind an error of net/url": {false, func() error { return &url.Error{Op: "Post", URL: "x", Err: fmt.Errorf("once: %w", late{true})} }, true},
		"not late":                        {false, func() error { return late{} }, false},
		"its process failed":              {false, func() error { return exec.Command("sh", "-c", "exit 3").Run() }, false},
		"no server is there":              {false, func() error { return ordered(nobody) }, false},
		"an error":                        {false, func() error { return errors.New("insufficient funds") }, false},
		"an end of file":                  {false, func() error { return fmt.Errorf("reading the reply: %w", io.EOF) }, true},
		"its connection was reset":        {false, func() error { return fmt.Errorf("reading: %w", syscall.ECONNRESET) }, true},
		"its pipe is broken":              {false, func() error { return fmt.Errorf("writing: %w", syscall.EPIPE) }, true},
		"it was not called":               {true, func() error { return fmt.Errorf("%w: %w", agent.ErrNotCalled, context.Canceled) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			a := w.agent(t, agent.Func("pay", "pays", func(context.Context, searchIn) (string, error) {
				if w.fire("pay"); w.ran("pay") > 1 {
					return "receipt 17", nil
				}
				if c.cut {
					cancel()
				}
				return "", c.fails()
			}, agent.Irreversible(), agent.Sinks("/words")))
			run := a.Start("ana")
			typed(t, run, "pay invoice-4711")
			res, err := run.Call(ctx, "pay", args(searchIn{"invoice-4711"}))
			if !errors.Is(err, agent.ErrTool) || errors.Is(err, agent.ErrNoAnswer) != c.doubt || strings.HasPrefix(agent.ToolText(res, err), "MAY HAVE BEEN DONE") != c.doubt {
				t.Fatalf("%v\n%s", err, agent.ToolText(res, err))
			}
			if d, err := w.store.Decision(t.Context(), res.Decision.ID); err != nil || (d.Outcome == memory.CallUnknown) != c.doubt {
				t.Errorf("recorded as %q, %v", d.Outcome, err)
			}
			other := a.Start("ana")
			typed(t, other, "pay invoice-4711")
			if _, err := other.Call(t.Context(), "pay", args(searchIn{"invoice-4711"})); errors.Is(err, gate.ErrOutcomeUnknown) != c.doubt || (err == nil) == c.doubt {
				t.Errorf("another run: %v", err)
			}
		})
	}
}

// A call whose answer cannot be written down was done all the same.
func TestAnAnswerThatIsNoJSONIsOfACallThatWasDone(t *testing.T) {
	w := newWorld(t)
	run := w.agent(t, agent.Func("pay", "pays", func(context.Context, searchIn) (float64, error) {
		w.fire("pay")
		return math.NaN(), nil
	}, agent.Irreversible(), agent.Sinks("/words"))).Start("ana")
	typed(t, run, "pay invoice-4711")
	res, err := run.Call(t.Context(), "pay", args(searchIn{"invoice-4711"}))
	if text := agent.ToolText(res, err); err != nil || !strings.HasPrefix(text, "The tool ran and gave no error. Its answer cannot be written as JSON") {
		t.Errorf("%v\n%s", err, text)
	}
	if res, _ := repeats(t, run, searchIn{"invoice-4711"}); !strings.Contains(string(res.Output), "gave no error") || w.ran("pay") != 1 {
		t.Errorf("it ran %d times; the second time: %s", w.ran("pay"), res.Output)
	}
}

// A tool that is reached through another server is the same tool of it: naming the server keeps
// the name that the tool has there.
func TestAToolOfANamedServerKeepsItsNameThere(t *testing.T) {
	w := newWorld(t)
	pay := func(name string, options ...agent.Option) *agent.Run {
		run := w.agent(t, agent.Func(name, "pays", func(context.Context, searchIn) (string, error) {
			w.fire("pay")
			return "", agent.ErrNoAnswer
		}, append(options, agent.Irreversible(), agent.Sinks("/words"))...)).Start("ana")
		typed(t, run, "pay invoice-4711")
		return run
	}
	if _, err := pay("bank.pay", agent.Server("bank", "pay"), agent.Server("remit", "")).Call(t.Context(), "bank.pay", args(searchIn{"invoice-4711"})); !errors.Is(err, agent.ErrNoAnswer) {
		t.Fatal(err)
	}
	var denied *gate.DeniedError
	if _, err := pay("pay", agent.Server("remit", "")).Call(t.Context(), "pay", args(searchIn{"invoice-4711"})); !errors.As(err, &denied) || !denied.Decision.Has(gate.OutcomeUnknown) || w.ran("pay") != 1 {
		t.Errorf("%v, made %d times", err, w.ran("pay"))
	}
}

// TestASentinelIsNobodysWord: an error without a word of the tool is no input of later calls, so
// that the call is free once a person says that it was not done.
func TestASentinelIsNobodysWord(t *testing.T) {
	for name, c := range map[string]struct {
		fail  error
		doubt bool // the call is held until a person settles it
		rests bool // later calls rest on the words of the error
	}{
		"no answer":           {agent.ErrNoAnswer, true, false},
		"not called":          {agent.ErrNotCalled, false, false},
		"a deadline":          {context.DeadlineExceeded, true, false},
		"an end":              {context.Canceled, true, false},
		"no answer in words":  {fmt.Errorf("%w: paid", agent.ErrNoAnswer), true, true},
		"not called, as said": {fmt.Errorf("%w: ask again", agent.ErrNotCalled), false, true},
		"words of the same":   {errors.New(agent.ErrNotCalled.Error()), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			fail := c.fail
			run := w.agent(t, agent.Func("pay", "pays", func(context.Context, searchIn) (nothing, error) {
				w.fire("pay")
				return nothing{}, fail
			}, agent.Irreversible(), agent.Sinks("/words"))).Start("ana")
			typed(t, run, "pay invoice-4711")
			res, err := run.Call(t.Context(), "pay", args(searchIn{"invoice-4711"}))
			if !errors.Is(err, agent.ErrTool) {
				t.Fatal(err)
			}
			fail = nil
			if c.doubt {
				mustBlock(t, run, "pay", searchIn{"invoice-4711"}, gate.ErrOutcomeUnknown)
				w.pass(memory.UnknownAfter)
				w.settle(t, res.Decision.ID, false)
			}
			if c.rests {
				mustBlock(t, run, "pay", searchIn{"invoice-4711"}, gate.ErrUnverified)
				return
			}
			mustFire(t, run, "pay", searchIn{"invoice-4711"})
		})
	}
}
