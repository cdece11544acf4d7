package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// holding is a run that has read a text that nobody has verified, so that its calls of
// "book" are parked.
func holding(t *testing.T) *agent.Run {
	t.Helper()
	store := storetest.NewStore(nil)
	g, err := gate.New(store, gate.Policy{Declared: true}, &gate.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	book := agent.Func("book", "", func(context.Context, struct {
		Room string `json:"room"`
	}) (string, error) {
		return "booked", nil
	}, agent.StateChanging(), agent.FiresWhenFree())
	a, err := agent.New("desk", agent.Model{ID: "m", Family: "m"}, store, g, []agent.Tool{book}, nil)
	if err != nil {
		t.Fatal(err)
	}
	run := a.Start("ana")
	if _, err := run.Input(t.Context(), agent.Quoted("mail", "Our room is Blue.")); err != nil {
		t.Fatal(err)
	}
	return run
}

func (d *desk) book(t *testing.T, run *agent.Run, name, room string) string {
	t.Helper()
	params := &api.CallToolParamsRaw{Name: "book", Arguments: json.RawMessage(fmt.Sprintf(`{"room":%q}`, room))}
	res := d.answer(t.Context(), nil, asker{run, name}, params, false)
	if hold, _ := res.Meta[MetaHold].(string); !res.IsError || !strings.HasPrefix(hold, "blk_") {
		t.Errorf("%v %v", res, res.Meta)
	}
	return res.Content[0].(*api.TextContent).Text
}

// TestADeskThatIsFullHoldsACallAndParksNone: hostile clients may fill it, with calls or
// with bytes, and no further. What is held all the same has its hold and its remedies.
func TestADeskThatIsFullHoldsACallAndParksNone(t *testing.T) {
	for name, c := range map[string]struct {
		asker string
		fill  func(d *desk)
		parks bool
	}{
		"there is room":               {"one run", func(*desk) {}, true},
		"as many calls as may be":     {"one run", func(d *desk) { d.fill(maxParked) }, false},
		"one call fewer":              {"one run", func(d *desk) { d.fill(maxParked - 1) }, true},
		"as many bytes as may be":     {"one run", func(d *desk) { d.size = maxKept }, false},
		"bytes for just this call":    {"one run", func(d *desk) { d.size = maxKept - len(`{"room":"Blue"}`) }, true},
		"nobody knows who asks":       {"", func(*desk) {}, false},
		"what parks has ended before": {"one run", func(d *desk) { d.close() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, run := newDesk(context.Background()), holding(t)
			c.fill(d)
			text := d.book(t, run, c.asker, "Blue")
			if !strings.HasPrefix(text, "NOT EXECUTED: book was not run.") || strings.Contains(text, "made by itself") != c.parks || strings.Contains(text, sameCall) != c.parks {
				t.Errorf("%s", text)
			}
			if got := len(run.Parked()) == 1; got != c.parks {
				t.Errorf("parked: %v", run.Parked())
			}
			d.close()
		})
	}
}

// fill keeps calls of others.
func (d *desk) fill(n int) {
	for i := range n {
		d.calls[callKey{1, byte(i), byte(i >> 8)}] = &kept{}
	}
}

// TestWhatWasTakenBackLeavesRoom: nothing of it is counted or kept.
func TestWhatWasTakenBackLeavesRoom(t *testing.T) {
	d, run := newDesk(context.Background()), holding(t)
	for i := range 10 {
		d.book(t, run, "one run", fmt.Sprint(i))
	}
	if d.mu.Lock(); len(d.calls) != 10 || d.size != 10*len(`{"room":"0"}`) {
		t.Errorf("%d calls, %d bytes", len(d.calls), d.size)
	}
	d.mu.Unlock()
	d.close()
	if len(d.calls) != 0 || d.size != 0 || len(run.Parked()) != 0 {
		t.Errorf("%d calls, %d bytes, parked %v", len(d.calls), d.size, run.Parked())
	}
}

// TestCloseWaitsForEveryParkedCall, also for one that is being parked.
func TestCloseWaitsForEveryParkedCall(t *testing.T) {
	for range 100 {
		d, run := newDesk(context.Background()), holding(t)
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() { d.book(t, run, "one run", fmt.Sprint(i)) })
		}
		d.close()
		group.Wait()
		if len(d.calls) != 0 || len(run.Parked()) != 0 {
			t.Fatalf("%d calls kept, parked %v", len(d.calls), run.Parked())
		}
	}
}

// TestADeskKeepsTheSameCallOnce: of one that was parked beside it nothing is left, and
// one that was taken back meanwhile is not kept.
func TestADeskKeepsTheSameCallOnce(t *testing.T) {
	key := callKey{1}
	for name, c := range map[string]struct {
		meanwhile func(d *desk, run, other *agent.Run, hold string) *kept // gives what is kept then
	}{
		"another run has parked it": {func(d *desk, _, other *agent.Run, _ string) *kept {
			d.calls[key] = &kept{run: other, hold: "blk_other"}
			return d.calls[key]
		}},
		"it was made already": {func(d *desk, run, _ *agent.Run, hold string) *kept {
			d.calls[key] = &kept{run: run, hold: hold, ended: time.Now()}
			return d.calls[key]
		}},
		"another client has taken it back": {func(_ *desk, run, _ *agent.Run, hold string) *kept {
			run.Unpark(hold)
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d, run := newDesk(context.Background()), holding(t)
			defer d.close()
			res, err := run.Call(t.Context(), "book", json.RawMessage(`{"room":"Blue"}`))
			if !res.Decision.Parked {
				t.Fatal(err)
			}
			want := c.meanwhile(d, run, holding(t), res.Decision.HoldID)
			if k := d.keep(t.Context(), key, run, &res.Decision, 1); k != want || len(run.Parked()) != 0 {
				t.Errorf("kept %+v, parked %v", k, run.Parked())
			}
		})
	}
}

// TestWhoWaitsHearsThatItsHTTPRequestHasEnded, whenever it begins to wait, and whatever
// the client writes into the header.
func TestWhoWaitsHearsThatItsHTTPRequestHasEnded(t *testing.T) {
	d := newDesk(context.Background())
	request, end := context.WithCancel(t.Context())
	r := httptest.NewRequest(http.MethodPost, "/", nil).WithContext(request)
	r.Header.Set(requestHeader, "forged")
	call := &api.CallToolRequest{Extra: &api.RequestExtra{Header: r.Header}}
	d.tracked(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		hears, stop := d.hearing(t.Context(), call)
		defer stop()
		if hears.Err() != nil {
			t.Error("it has ended before the request")
		}
		end()
		<-hears.Done()
	})).ServeHTTP(httptest.NewRecorder(), r)
	if late, stop := d.hearing(t.Context(), call); late.Err() == nil {
		t.Error("who comes late does not hear it")
	} else {
		stop()
	}
	other, stop := d.hearing(t.Context(), &api.CallToolRequest{})
	defer stop()
	if other.Err() != nil {
		t.Error("it is heard elsewhere")
	}
}
