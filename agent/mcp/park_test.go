package mcp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/mcp"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// desk is a server with one tool, "book", whose held calls are made by themselves, and
// a client of it whose calls rest on a row that nobody has verified.
type desk struct {
	store   *memory.Store
	row     memory.ID
	session *api.ClientSession
	booked  chan string                // gets what was booked
	fail    error                      // of the tool
	block   chan struct{}              // if set, the tool tells it, and works until it is cut off
	arrived chan struct{}              // gets a word for each call that reaches the server
	left    chan struct{}              // and for each that was answered there
	meta    func(room string) api.Meta // of a call
	end     func()                     // ends what parks
	other   func() *desk               // another client of the same server, with another run
	run     *agent.Run                 // that all calls belong to, if they do
	proxy   *mcp.Proxy                 // if it is one

	decides func(agent.Decider) agent.Decider // wraps the gate, if set
	keeps   agent.Store                       // in place of the store, if set
}

type booking struct {
	Room string `json:"room"`
}

func (d *desk) book(ctx context.Context, in booking) (string, error) {
	if d.block != nil {
		d.block <- struct{}{}
		<-ctx.Done()
		d.booked <- "cut off"
		return "", ctx.Err()
	}
	d.booked <- in.Room
	return "booked " + in.Room, d.fail
}

// made counts the calls that were made.
func (d *desk) made() int { return len(d.booked) }

// watched tells of each call that reaches a server, before and after it is answered.
func (d *desk) watched(server *api.Server) *api.Server {
	server.AddReceivingMiddleware(func(next api.MethodHandler) api.MethodHandler {
		return func(ctx context.Context, method string, req api.Request) (api.Result, error) {
			if method != "tools/call" {
				return next(ctx, method, req)
			}
			d.arrived <- struct{}{}
			defer func() { d.left <- struct{}{} }()
			return next(ctx, method, req)
		}
	})
	return server
}

// ask makes the call, and returns what the client is told.
func (d *desk) ask(ctx context.Context, room string) (*api.CallToolResult, string, error) {
	params := &api.CallToolParams{Name: "book", Arguments: booking{room}}
	if d.meta != nil {
		params.Meta = d.meta(room)
	}
	res, err := d.session.CallTool(ctx, params)
	if err != nil {
		return nil, "", err
	}
	text, _ := res.Content[0].(*api.TextContent)
	return res, text.Text, nil
}

// held makes the call, which must be answered at once that it waits, and returns the
// id that the answer names.
func (d *desk) held(t *testing.T, room string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, text, err := d.ask(ctx, room)
	if err != nil {
		t.Fatalf("not answered at once: %v", err)
	}
	id, _ := res.Meta[mcp.MetaHold].(string)
	if !res.IsError || !strings.HasPrefix(id, "blk_") || !strings.HasPrefix(text, "NOT EXECUTED: book") || !strings.Contains(text, "waiting as "+id) {
		t.Fatalf("%v %q", res.Meta, text)
	}
	<-d.arrived
	<-d.left
	return id
}

// answer is what a call came to.
type answer struct {
	res  *api.CallToolResult
	text string
	err  error
}

// waits makes the call and returns once it has reached the server.
func (d *desk) waits(ctx context.Context, room string) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		res, text, err := d.ask(ctx, room)
		out <- answer{res, text, err}
	}()
	<-d.arrived
	return out
}

func (d *desk) verify(t testing.TB) {
	t.Helper()
	rows, err := d.store.Get(t.Context(), d.row)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.store.Apply(t.Context(), memory.Transition{Row: d.row, Revision: rows[0].Revision, To: memory.TruthSupported, Authority: memory.AuthorityProbe,
		Actor: "worker", Source: "crm", Reason: "it agrees", Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool,
			Source: "crm", Verifier: "crm", Group: "tool:crm", Anchor: memory.Anchor{URI: "crm://1"}, At: d.store.Now()}}}); err != nil {
		t.Fatal(err)
	}
}

// move moves the row on a person's word.
func (d *desk) move(t testing.TB, to memory.AxisValue) {
	t.Helper()
	rows, err := d.store.Get(t.Context(), d.row)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.store.Apply(t.Context(), memory.Transition{Row: d.row, Revision: rows[0].Revision, To: to, Authority: memory.AuthorityUser,
		Actor: "boss", Source: "test", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	d := &desk{store: storetest.NewStore(&memory.Options{Authority: func(string, string, string) bool { return true }}), booked: make(chan string, 100), arrived: make(chan struct{}, 100), left: make(chan struct{}, 100)}
	row, err := d.store.Put(t.Context(), memory.Draft{
		Content: memory.Content{Subject: "acme", Predicate: "room", Object: "Blue", Cardinality: memory.CardinalityFunctional},
		Origin:  memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
		Asserter: memory.Asserter{Principal: "x", Model: "sonnet-4.6", Family: "claude"}})
	if err != nil {
		t.Fatal(err)
	}
	d.row = row.ID
	return d
}

func (d *desk) agent(t testing.TB, name string, tools []agent.Tool, tokens *agent.Tokens) *agent.Agent {
	t.Helper()
	g, err := gate.New(d.store, gate.Policy{Name: "test", Version: "1", Declared: true}, &gate.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var decider agent.Decider = g
	if d.decides != nil {
		decider = d.decides(g)
	}
	if d.keeps == nil {
		d.keeps = d.store
	}
	a, err := agent.New(name, agent.Model{ID: "m", Family: "f"}, d.keeps, decider, tools, &agent.Options{Tokens: tokens, Recall: recall.Policy{Channels: recall.All}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (d *desk) read(t testing.TB, run *agent.Run) {
	t.Helper()
	if got, err := run.Recall(t.Context(), recall.Query{Subject: "acme", Predicate: "room"}); err != nil || len(got.Rows) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
}

func (d *desk) tool() agent.Tool {
	return agent.Func("book", "Books a room.", d.book, agent.StateChanging(), agent.FiresWhenFree())
}

// parking are the ways to serve a desk; each connects its client.
var parking = map[string]func(t testing.TB, d *desk, connect func(*api.Server) api.Transport){
	"Serve": func(t testing.TB, d *desk, connect func(*api.Server) api.Transport) {
		d.run = d.agent(t, "desk", []agent.Tool{d.tool()}, nil).Start("ana")
		d.read(t, d.run)
		server := api.NewServer(&api.Implementation{Name: "desk", Version: "1"}, nil)
		if err := mcp.Serve(server, d.run); err != nil {
			t.Fatal(err)
		}
		d.session, d.end = plain(t, connect(d.watched(server))), d.run.Close
		t.Cleanup(d.run.Close)
	},
	"ServeEach": func(t testing.TB, d *desk, connect func(*api.Server) api.Transport) {
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		server := api.NewServer(&api.Implementation{Name: "desk", Version: "1"}, nil)
		if err := mcp.ServeEach(ctx, server, d.agent(t, "desk", []agent.Tool{d.tool()}, tokens(t, d.store, "server")), func(api.Request) (string, error) { return "ana", nil }); err != nil {
			t.Fatal(err)
		}
		d.session, d.end = plain(t, connect(d.watched(server))), cancel
		mine := func(d *desk) {
			run := d.agent(t, "client", nil, tokens(t, d.store, "client")).Start("ana")
			d.read(t, run)
			d.meta = func(room string) api.Meta {
				token, err := run.Token(context.Background(), "server", fmt.Appendf(nil, "book\n{\"room\":%q}", room))
				if err != nil {
					t.Error(err)
				}
				return api.Meta{mcp.MetaToken: token}
			}
		}
		mine(d)
		d.other = func() *desk {
			o := *d
			mine(&o)
			return &o
		}
	},
	"a proxy": func(t testing.TB, d *desk, connect func(*api.Server) api.Transport) {
		upstream := api.NewServer(&api.Implementation{Name: "rooms", Version: "1"}, nil)
		api.AddTool(upstream, &api.Tool{Name: "book", Description: "Books a room."}, func(ctx context.Context, _ *api.CallToolRequest, in booking) (*api.CallToolResult, any, error) {
			text, err := d.book(ctx, in)
			return &api.CallToolResult{Content: []api.Content{&api.TextContent{Text: text}}}, nil, err
		})
		// The row is served by a tool of the server that it is the system of record of nothing for.
		g, err := gate.New(d.store, gate.Policy{Name: "test", Version: "1", Declared: true}, &gate.Options{Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		near := connect(upstream)
		session, err := mcp.Dial(t.Context(), near, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { session.Close() })
		p, err := mcp.NewProxy(t.Context(), session, d.store, g, &mcp.ProxyOptions{OnlySource: true,
			Contracts: mcp.Contracts{"book": {agent.StateChanging(), agent.FiresWhenFree()}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		if _, err := p.Run().Input(t.Context(), agent.Quoted("mail", "Our room is Blue.")); err != nil {
			t.Fatal(err)
		}
		d.row = p.Run().Lineage().Direct()[0]
		server, err := p.Server()
		if err != nil {
			t.Fatal(err)
		}
		d.session, d.end, d.run, d.proxy = plain(t, connect(d.watched(server))), p.Close, p.Run(), p
	},
}

// TestAParkedCallComesBackOverMCP: a held call is answered at once with its id; the
// same call made again waits for it; it is made once; and what it came to is an answer.
func TestAParkedCallComesBackOverMCP(t *testing.T) {
	for how, connect := range map[string]func(t testing.TB, server *api.Server) api.Transport{
		"over pipes": func(t testing.TB, server *api.Server) api.Transport { return serve(t, server) },
		"over HTTP": func(t testing.TB, server *api.Server) api.Transport {
			web := httptest.NewServer(api.NewStreamableHTTPHandler(func(*http.Request) *api.Server { return server }, nil))
			t.Cleanup(web.Close)
			return &api.StreamableClientTransport{Endpoint: web.URL, DisableStandaloneSSE: true}
		},
	} {
		for kind, open := range parking {
			build := func(t *testing.T) *desk {
				d := newDesk(t)
				open(t, d, func(s *api.Server) api.Transport { return connect(t, s) })
				return d
			}
			fired := func(t *testing.T, d *desk, got answer) {
				t.Helper()
				if got.err != nil || got.res.IsError || got.text != "booked Blue" || d.made() != 1 {
					t.Errorf("made %d times; %q, %v", d.made(), got.text, got.err)
				}
			}
			for name, play := range map[string]func(t *testing.T, d *desk){
				"a call that waits gets the result": func(t *testing.T, d *desk) {
					d.held(t, "Blue")
					again := d.waits(t.Context(), "Blue")
					d.verify(t)
					fired(t, d, <-again)
				},
				"who asks again later gets the result": func(t *testing.T, d *desk) {
					d.held(t, "Blue")
					d.verify(t)
					<-d.booked // nobody waits, and it is made
					d.booked <- "Blue"
					fired(t, d, <-d.waits(t.Context(), "Blue"))
				},
				"a call of its own is made anew once the result was given": func(t *testing.T, d *desk) {
					d.held(t, "Blue")
					again := d.waits(t.Context(), "Blue")
					d.verify(t)
					fired(t, d, <-again)
					if got := <-d.waits(t.Context(), "Blue"); got.err != nil || d.made() == 1 && !got.res.IsError {
						t.Errorf("the same result twice: %+v", got)
					}
				},
				"a denial is told to who waits": func(t *testing.T, d *desk) {
					d.held(t, "Blue")
					again := d.waits(t.Context(), "Blue")
					d.move(t, memory.SecurityQuarantined)
					if got := <-again; got.err != nil || !got.res.IsError || !strings.Contains(got.text, "quarantine") || d.made() != 0 {
						t.Errorf("made %d times; %q, %v", d.made(), got.text, got.err)
					}
				},
				"a client that cancelled may park it again": func(t *testing.T, d *desk) {
					d.held(t, "Blue")
					ctx, cancel := context.WithCancel(t.Context())
					again := d.waits(ctx, "Blue")
					cancel()
					<-again
					<-d.left
					d.held(t, "Blue")
					again = d.waits(t.Context(), "Blue")
					d.verify(t)
					fired(t, d, <-again)
				},
				"a call that was cut off while it was made is not made again, and says so": func(t *testing.T, d *desk) {
					d.block = make(chan struct{})
					d.held(t, "Blue")
					ctx, cancel := context.WithCancel(t.Context())
					gone := d.waits(ctx, "Blue")
					d.verify(t)
					<-d.block // it is being made
					cancel()
					<-gone
					<-d.booked
					if got := <-d.waits(t.Context(), "Blue"); got.err != nil || !got.res.IsError || !strings.HasPrefix(got.text, "MAY HAVE BEEN DONE: ") {
						t.Errorf("%+v", got)
					}
				},
				"a tool that fails says so": func(t *testing.T, d *desk) {
					d.fail = errors.New("no such room")
					d.held(t, "Blue")
					again := d.waits(t.Context(), "Blue")
					d.verify(t)
					if got := <-again; got.err != nil || !got.res.IsError || !strings.HasPrefix(got.text, "FAILED: ") || d.made() != 1 {
						t.Errorf("made %d times: %+v", d.made(), got)
					}
				},
				"a call that a person refused is not made": func(t *testing.T, d *desk) {
					id := d.held(t, "Blue")
					again := d.waits(t.Context(), "Blue")
					if _, err := d.store.MoveHold(t.Context(), memory.HoldMove{Hold: id, To: memory.HoldRejected, Actor: "ben", Reason: "wrong room"}); err != nil {
						t.Fatal(err)
					}
					d.verify(t)
					if got := <-again; got.err != nil || !got.res.IsError || !strings.Contains(got.text, "wrong room") || d.made() != 0 {
						t.Errorf("made %d times: %+v", d.made(), got)
					}
				},
				"other arguments do not attach": func(t *testing.T, d *desk) {
					if one, other := d.held(t, "Blue"), d.held(t, "Red"); one == other {
						t.Error("they do")
					}
				},
				"another run of a client does not attach": func(t *testing.T, d *desk) {
					if d.other == nil {
						return // all share one run
					}
					if one, other := d.held(t, "Blue"), d.other().held(t, "Blue"); one == other {
						t.Error("it does")
					}
				},
				"a call without a token does not attach, and hears of no result": func(t *testing.T, d *desk) {
					if d.other == nil {
						return
					}
					d.held(t, "Blue")
					d.verify(t)
					<-d.booked
					d.meta = nil
					if got := <-d.waits(t.Context(), "Blue"); got.err != nil || !got.res.IsError || !strings.HasPrefix(got.text, "NOT EXECUTED: book") || d.made() != 0 {
						t.Errorf("%+v", got)
					}
				},
			} {
				t.Run(name+", "+kind+" "+how, func(t *testing.T) {
					t.Parallel()
					play(t, build(t))
				})
			}
		}
	}
}

// timed plays with a desk and a client whose time is that of a bubble. heard gets the
// words of progress.
func timed(t *testing.T, play func(t *testing.T, d *desk, heard chan *api.ProgressNotificationParams)) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		run := d.agent(t, "desk", []agent.Tool{d.tool()}, nil).Start("ana")
		d.read(t, run)
		server := api.NewServer(&api.Implementation{Name: "desk", Version: "1"}, nil)
		if err := mcp.Serve(server, run); err != nil {
			t.Fatal(err)
		}
		near, far := api.NewInMemoryTransports()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			d.watched(server).Run(ctx, near) //nolint:errcheck // it ends with the test
		}()
		defer func() { cancel(); <-ended }()
		heard := make(chan *api.ProgressNotificationParams, 100)
		session, err := api.NewClient(&api.Implementation{Name: "agent", Version: "1"}, &api.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, req *api.ProgressNotificationClientRequest) { heard <- req.Params }}).Connect(ctx, far, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		defer func() { run.Close(); time.Sleep(2 * time.Second) }() // it is noticed within a second
		d.session = session
		d.meta = func(string) api.Meta { return api.Meta{"progressToken": "p1"} }
		play(t, d, heard)
	})
}

// inMemory runs a server until the bubble of the test is over.
func inMemory(t *testing.T, server *api.Server) api.Transport {
	near, far := api.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.Run(ctx, near) //nolint:errcheck // it ends with the test
	}()
	t.Cleanup(func() { cancel(); <-ended; time.Sleep(2 * time.Second) })
	return far
}

// proxyInMemory returns a proxy that talks to the office without a socket or a pipe.
func proxyInMemory(t *testing.T, o *office, store *memory.Store, g agent.Decider, options *mcp.ProxyOptions) *mcp.Proxy {
	t.Helper()
	session, err := mcp.Dial(t.Context(), inMemory(t, o.server), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	p, err := mcp.NewProxy(t.Context(), session, store, g, options)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// bubble plays with a desk that is served in each of some ways, in the time of a bubble.
// change wraps something first, if it is not nil.
func bubble(t *testing.T, kinds []string, change func(d *desk), play func(t *testing.T, d *desk)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				if change != nil {
					change(d)
				}
				parking[kind](t, d, func(server *api.Server) api.Transport { return inMemory(t, server) })
				play(t, d)
			})
		})
	}
}

var allKinds = []string{"Serve", "ServeEach", "a proxy"}

// TestAClientThatCancelsGetsNoFire, whenever the row is verified after that; the hold
// stands for who decides about it.
func TestAClientThatCancelsGetsNoFire(t *testing.T) {
	bubble(t, allKinds, nil, func(t *testing.T, d *desk) {
		id := d.held(t, "Blue")
		ctx, cancel := context.WithCancel(t.Context())
		again := d.waits(ctx, "Blue")
		synctest.Wait()
		cancel()
		if got := <-again; !errors.Is(got.err, context.Canceled) {
			t.Errorf("%+v", got)
		}
		<-d.left
		d.verify(t)
		time.Sleep(gate.DefaultParkFor)
		if d.made() != 0 {
			t.Error("it was made")
		}
		if h, err := d.store.Hold(t.Context(), id); err != nil || h.State != memory.HoldWaiting {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

// TestAClientThatCancelsWhileItIsDecidedParksNothing: it never heard that its call waits.
func TestAClientThatCancelsWhileItIsDecidedParksNothing(t *testing.T) {
	var cancel context.CancelFunc
	bubble(t, []string{"Serve", "ServeEach"}, func(d *desk) {
		d.decides = func(g agent.Decider) agent.Decider {
			return deciding(func(ctx context.Context, r gate.Request) gate.Decision {
				got := g.Decide(ctx, r)
				cancel()
				<-ctx.Done()
				return got
			})
		}
	}, func(t *testing.T, d *desk) {
		var ctx context.Context
		ctx, cancel = context.WithCancel(t.Context())
		if got := <-d.waits(ctx, "Blue"); !errors.Is(got.err, context.Canceled) {
			t.Errorf("%+v", got)
		}
		<-d.left
		d.verify(t)
		time.Sleep(time.Minute)
		if d.made() != 0 || d.run != nil && len(d.run.Parked()) != 0 {
			t.Errorf("made %d times, parked %v", d.made(), d.run.Parked())
		}
	})
}

type deciding func(context.Context, gate.Request) gate.Decision

func (f deciding) Decide(ctx context.Context, r gate.Request) gate.Decision { return f(ctx, r) }

// TestNothingIsMadeAfterTheEndOfWhatParks, whenever the row is verified after that.
func TestNothingIsMadeAfterTheEndOfWhatParks(t *testing.T) {
	bubble(t, allKinds, nil, func(t *testing.T, d *desk) {
		d.held(t, "Blue")
		d.end()
		d.verify(t)
		time.Sleep(gate.DefaultParkFor)
		if d.made() != 0 {
			t.Error("it was made")
		}
	})
}

// TestTheSameCallTwiceAtOnceIsOneParkedCall: both answers name the hold that it is made
// in, and nothing else is parked.
func TestTheSameCallTwiceAtOnceIsOneParkedCall(t *testing.T) {
	bubble(t, []string{"Serve", "ServeEach"}, func(d *desk) {
		var both sync.WaitGroup
		both.Add(2)
		var first atomic.Int32
		d.decides = func(g agent.Decider) agent.Decider {
			return deciding(func(ctx context.Context, r gate.Request) gate.Decision {
				got := g.Decide(ctx, r)
				if first.Add(1) <= 2 {
					both.Done()
					both.Wait()
				}
				return got
			})
		}
	}, func(t *testing.T, d *desk) {
		one, two := d.waits(t.Context(), "Blue"), d.waits(t.Context(), "Blue")
		a, b := <-one, <-two
		if a.err != nil || b.err != nil || a.res.Meta[mcp.MetaHold] != b.res.Meta[mcp.MetaHold] || !strings.Contains(a.text, "exactly the same call again") || !strings.Contains(b.text, "exactly the same call again") {
			t.Fatalf("%+v %v\n%+v %v", a, a.res, b, b.res)
		}
		last := d.waits(t.Context(), "Blue")
		d.verify(t)
		if got := <-last; got.err != nil || got.text != "booked Blue" || d.made() != 1 {
			t.Errorf("made %d times: %+v", d.made(), got)
		}
		id, _ := a.res.Meta[mcp.MetaHold].(string)
		if h, err := d.store.Hold(t.Context(), id); err != nil || h.State != memory.HoldDone {
			t.Errorf("%+v, %v", h, err)
		}
		if d.run != nil && len(d.run.Parked()) != 0 {
			t.Errorf("parked %v", d.run.Parked())
		}
	})
}

// moody is a store whose holds cannot be read while it is down.
type moody struct {
	*memory.Store
	down atomic.Bool
}

func (m *moody) Hold(ctx context.Context, id string) (memory.Hold, error) {
	if m.down.Load() {
		return memory.Hold{}, errors.New("connection refused")
	}
	return m.Store.Hold(ctx, id)
}

// TestAStoreThatFailsForAWhileTakesNoParkedCallBack.
func TestAStoreThatFailsForAWhileTakesNoParkedCallBack(t *testing.T) {
	var store *moody
	bubble(t, []string{"Serve", "ServeEach"}, func(d *desk) {
		store = &moody{Store: d.store}
		d.keeps = store
	}, func(t *testing.T, d *desk) {
		d.held(t, "Blue")
		store.down.Store(true)
		time.Sleep(time.Minute)
		d.verify(t)
		time.Sleep(time.Minute)
		if d.made() != 0 {
			t.Error("it was made on a hold that nobody has read")
		}
		store.down.Store(false)
		time.Sleep(5 * time.Second)
		if d.made() != 1 {
			t.Errorf("made %d times", d.made())
		}
	})
	t.Run("and one that never comes back is given up", func(t *testing.T) {
		bubble(t, []string{"Serve"}, func(d *desk) {
			store = &moody{Store: d.store}
			d.keeps = store
		}, func(t *testing.T, d *desk) {
			d.held(t, "Blue")
			store.down.Store(true)
			time.Sleep(2 * gate.DefaultParkFor)
			if left := d.run.Parked(); len(left) != 0 {
				t.Errorf("parked %v", left)
			}
		})
	})
}

// TestTheAnswerNamesTheHoldThatACallWaitsIn, which another row may have changed: only
// that one can be approved.
func TestTheAnswerNamesTheHoldThatACallWaitsIn(t *testing.T) {
	bubble(t, []string{"Serve", "a proxy"}, nil, func(t *testing.T, d *desk) {
		first := d.held(t, "Blue")
		if _, err := d.run.Input(t.Context(), agent.Quoted("mail", "We meet on Monday.")); err != nil {
			t.Fatal(err)
		}
		d.verify(t)
		time.Sleep(time.Minute)
		res, text, err := d.ask(t.Context(), "Blue")
		if err != nil {
			t.Fatal(err)
		}
		id, _ := res.Meta[mcp.MetaHold].(string)
		if id == first || !strings.Contains(text, "still waiting ("+id+")") {
			t.Errorf("%q: %s", id, text)
		}
		if h, err := d.store.Hold(t.Context(), id); err != nil || h.State != memory.HoldWaiting || d.made() != 0 {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

// TestAConnectionThatBreaksTakesItsWaitingCallBack: nobody would hear the result, and
// who asks again would have it made twice.
func TestAConnectionThatBreaksTakesItsWaitingCallBack(t *testing.T) {
	d := newDesk(t)
	parking["a proxy"](t, d, func(s *api.Server) api.Transport { return serve(t, s) })
	type key struct{}
	handler, came := d.proxy.Handler(nil), make(chan net.Conn, 100)
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte("tools/call")) {
			came <- r.Context().Value(key{}).(net.Conn)
		}
		handler.ServeHTTP(w, r)
	}))
	web.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, key{}, c) }
	web.Start()
	t.Cleanup(web.Close)
	d.session = plain(t, &api.StreamableClientTransport{Endpoint: web.URL, DisableStandaloneSSE: true, MaxRetries: -1})
	if res, _, err := d.ask(t.Context(), "Blue"); err != nil || res.Meta[mcp.MetaHold] == nil || len(d.run.Parked()) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	<-came
	gone := make(chan error, 1)
	go func() {
		_, _, err := d.ask(t.Context(), "Blue")
		gone <- err
	}()
	// That one alone: the client ends its session over another one, at once.
	if err := (<-came).Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-gone; err == nil {
		t.Error("it was answered")
	}
	for end := time.Now().Add(time.Minute); len(d.run.Parked()) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("parked %v", d.run.Parked())
		}
	}
}

// TestACallThatWaitsIsAnsweredInTime: a client hears that its call waits, is answered
// before it loses patience, and the parked call stands.
func TestACallThatWaitsIsAnsweredInTime(t *testing.T) {
	timed(t, func(t *testing.T, d *desk, heard chan *api.ProgressNotificationParams) {
		id := d.held(t, "Blue")
		start := time.Now()
		res, text, err := d.ask(t.Context(), "Blue")
		if took := time.Since(start); err != nil || !res.IsError || res.Meta[mcp.MetaHold] != id || !strings.Contains(text, "still waiting ("+id) || took < 30*time.Second || took > time.Minute {
			t.Errorf("after %s: %v, %q, %v", took, res.Meta, text, err)
		}
		synctest.Wait()
		if len(heard) < 3 {
			t.Errorf("%d words of progress", len(heard))
		}
		for last := 0.0; len(heard) > 0; {
			p := <-heard
			if p.ProgressToken != "p1" || p.Progress <= last || !strings.Contains(p.Message, id) {
				t.Errorf("after %v: %+v", last, p)
			}
			last = p.Progress
		}
		got := d.waits(t.Context(), "Blue") // it stands
		<-d.arrived
		d.verify(t)
		if a := <-got; a.err != nil || a.text != "booked Blue" || d.made() != 1 {
			t.Errorf("made %d times: %+v", d.made(), a)
		}
	})
}

// TestAllThatWaitForAParkedCallGetItsResult, made once; and one that cancels takes
// nothing from the others.
func TestAllThatWaitForAParkedCallGetItsResult(t *testing.T) {
	timed(t, func(t *testing.T, d *desk, _ chan *api.ProgressNotificationParams) {
		id := d.held(t, "Blue")
		ctx, cancel := context.WithCancel(t.Context())
		gone, first, second := d.waits(ctx, "Blue"), d.waits(t.Context(), "Blue"), d.waits(t.Context(), "Blue")
		synctest.Wait()
		cancel()
		if a := <-gone; !errors.Is(a.err, context.Canceled) {
			t.Errorf("%+v", a)
		}
		synctest.Wait()
		if len(first)+len(second) > 0 {
			t.Error("others were answered")
		}
		d.verify(t)
		for _, waits := range []<-chan answer{first, second} {
			if a := <-waits; a.err != nil || a.text != "booked Blue" || d.made() != 1 {
				t.Errorf("made %d times: %+v", d.made(), a)
			}
		}
		if h, err := d.store.Hold(t.Context(), id); err != nil || h.State != memory.HoldDone || h.Tries != 1 {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

// TestAParkedCallEndsWithItsTime: it is not made after it, and the client that asks
// hears that once; what it asks then is a new call.
func TestAParkedCallEndsWithItsTime(t *testing.T) {
	timed(t, func(t *testing.T, d *desk, _ chan *api.ProgressNotificationParams) {
		id := d.held(t, "Blue")
		time.Sleep(gate.DefaultParkFor + time.Minute)
		d.verify(t)
		synctest.Wait()
		if res, text, err := d.ask(t.Context(), "Blue"); err != nil || !res.IsError || !strings.Contains(text, "not made by itself any more") || d.made() != 0 {
			t.Errorf("made %d times: %q, %v", d.made(), text, err)
		}
		if res, text, err := d.ask(t.Context(), "Blue"); err != nil || res.IsError || d.made() != 1 {
			t.Errorf("made %d times: %q, %v", d.made(), text, err)
		}
		if h, err := d.store.Hold(t.Context(), id); err != nil || h.Fired != "" {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

// TestADenialIsToldToNobodyLater: who asks when the row is as it should be is decided afresh.
func TestADenialIsToldToNobodyLater(t *testing.T) {
	for _, waits := range []bool{false, true} {
		timed(t, func(t *testing.T, d *desk, _ chan *api.ProgressNotificationParams) {
			d.held(t, "Blue")
			var again <-chan answer
			if waits {
				again = d.waits(t.Context(), "Blue")
			}
			d.move(t, memory.SecurityQuarantined)
			time.Sleep(time.Minute) // of the bubble: the parked call is denied
			if waits {
				if got := <-again; got.err != nil || !strings.Contains(got.text, "quarantine") {
					t.Errorf("%q, %v", got.text, got.err)
				}
			}
			d.move(t, memory.SecurityClean)
			d.verify(t)
			if got := <-d.waits(t.Context(), "Blue"); got.err != nil || got.res.IsError || got.text != "booked Blue" || d.made() != 1 {
				t.Errorf("made %d times; %q, %v", d.made(), got.text, got.err)
			}
		})
	}
}

// TestAResultThatNobodyFetchesIsDropped, and the same call is a new one then.
func TestAResultThatNobodyFetchesIsDropped(t *testing.T) {
	timed(t, func(t *testing.T, d *desk, _ chan *api.ProgressNotificationParams) {
		first := d.held(t, "Blue")
		d.verify(t)
		time.Sleep(time.Minute)
		if d.made() != 1 {
			t.Errorf("%d calls made", d.made())
		}
		time.Sleep(gate.DefaultParkFor)
		if again := d.held(t, "Blue"); again == first { // what the tool said is a text that nobody has verified
			t.Error("it is the same")
		}
	})
}

// TestWhatCannotBeUndoneIsNotParkedOverMCP, whoever says that it cannot be.
func TestWhatCannotBeUndoneIsNotParkedOverMCP(t *testing.T) {
	yes := true
	for name, c := range map[string]struct {
		says     *api.ToolAnnotations
		contract []agent.Option
	}{
		"the operator says so":   {nil, []agent.Option{agent.Irreversible(), agent.FiresWhenFree()}},
		"nobody says what it is": {nil, []agent.Option{agent.FiresWhenFree()}},
		"the server says so":     {&api.ToolAnnotations{DestructiveHint: &yes}, []agent.Option{agent.StateChanging(), agent.FiresWhenFree()}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			upstream := api.NewServer(&api.Implementation{Name: "rooms", Version: "1"}, nil)
			api.AddTool(upstream, &api.Tool{Name: "book", Annotations: c.says}, func(ctx context.Context, _ *api.CallToolRequest, in booking) (*api.CallToolResult, any, error) {
				return nil, nil, nil
			})
			g, err := gate.New(d.store, gate.Policy{Declared: true}, &gate.Options{Timeout: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			p, err := mcp.NewProxy(t.Context(), dial(t, upstream), d.store, g, &mcp.ProxyOptions{OnlySource: true, Contracts: mcp.Contracts{"book": c.contract}})
			if err == nil || !strings.Contains(err.Error(), "never fires by itself") {
				t.Errorf("%v, %v", p, err)
			}
		})
	}
}

// TestAToolThatHasChangedIsNotRun, at once or by itself: what was declared was of another
// one. One that is as it was is run, and so is one that is put back.
func TestAToolThatHasChangedIsNotRun(t *testing.T) {
	o := newOffice(t)
	session := dial(t, o.server)
	store := storetest.NewStore(nil)
	p, err := mcp.NewProxy(t.Context(), session, store, o.decider(t, store), &mcp.ProxyOptions{OnlySource: true, Contracts: contracts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	server, err := p.Server()
	if err != nil {
		t.Fatal(err)
	}
	client := plain(t, serve(t, server))
	runs := func(tool string, want bool) {
		t.Helper()
		before := len(o.calls())
		res, text := say(t, client, tool, customer{"acme"})
		if ran := len(o.calls()) > before; ran != want || res.IsError == want || strings.Contains(text, "not what it was") == want {
			t.Errorf("%s: ran %t, want %t: %q", tool, ran, want, text)
		}
	}
	label := func(description string) {
		api.AddTool(o.server, &api.Tool{Name: "label", Description: description}, func(_ context.Context, _ *api.CallToolRequest, in customer) (*api.CallToolResult, any, error) {
			o.ran("label " + in.Name)
			return nil, nil, nil
		})
	}
	recheck := func(want ...string) {
		t.Helper()
		if got, err := p.Recheck(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("changed: %q, want %q (%v)", got, want, err)
		}
	}
	recheck()
	runs("label", true)
	label("Deletes everything.")
	recheck("label")
	runs("label", false)
	runs("register", true)
	label("Sets a label.")
	o.server.RemoveTools("register")
	recheck("register")
	runs("register", false)
	session.Close()
	if got, err := p.Recheck(t.Context()); !errors.Is(err, mcp.ErrTools) || len(got) != len(contracts) {
		t.Errorf("a server that does not list: %q, %v", got, err)
	}
	runs("search", false)
	if _, err := new(mcp.Proxy).Recheck(t.Context()); err == nil {
		t.Error("a zero proxy")
	}
}
