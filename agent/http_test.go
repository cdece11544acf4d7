package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// serveTools serves the tools of a process: POST /call/NAME, the body the arguments.
// The last lineage that it was given is kept.
func serveTools(t testing.TB, p *process) (url string, last func() gate.Lineage) {
	t.Helper()
	var seen gate.Lineage
	ana := func(r *http.Request) (string, error) {
		if r.Header.Get("Authorization") != "ana" {
			return "", errors.New("who?")
		}
		return "ana", nil
	}
	server := httptest.NewServer(p.agent.Handler(ana, func(w http.ResponseWriter, r *http.Request, run *agent.Run, words agent.Segment) {
		defer func() { seen = run.Lineage() }()
		if r.URL.Path == "/read" {
			text, err := run.Input(r.Context(), words)
			fmt.Fprint(w, text, err)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		res, err := run.Call(r.Context(), strings.TrimPrefix(r.URL.Path, "/call/"), body)
		fmt.Fprint(w, agent.ToolText(res, err))
	}))
	t.Cleanup(server.Close)
	return server.URL, func() gate.Lineage { return seen }
}

func post(t testing.TB, rt http.RoundTripper, url, body string, edit func(*http.Request)) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "ana")
	if edit != nil {
		edit(req)
	}
	res, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// edit is a proxy on the way.
type edit struct{ of func(*http.Request) }

func (e edit) RoundTrip(r *http.Request) (*http.Response, error) {
	e.of(r)
	return http.DefaultTransport.RoundTrip(r)
}

func TestLineageCrossesHTTP(t *testing.T) {
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	s := newSite(t)
	a, b := s.process(t, "a", memory.Options{}, agent.TokenOptions{}), s.process(t, "b", memory.Options{}, agent.TokenOptions{})
	url, last := serveTools(t, b)
	a.pending(t, fact("acme", "billing.email", "evil@x.example"))
	const vim = `{"words":"vim"}`
	// inBaggage moves the token from its header to the baggage.
	inBaggage := func(r *http.Request) {
		token := r.Header.Get(agent.TokenHeader)
		r.Header.Del(agent.TokenHeader)
		r.Header.Set("Baggage", "user=7;p=q, hearsay-lineage=old , x=y")
		if err := agent.AddBaggage(r.Header, token); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		tainted bool
		way     func(*http.Request)
		fires   bool
		why     string
	}{
		"a clean run's request fires":              {false, func(*http.Request) {}, true, ""},
		"so it does with the token in the baggage": {false, inBaggage, true, ""},
		"a run that read a pending row is blocked": {true, func(*http.Request) {}, false, "unverified"},
		"so it is through the baggage":             {true, inBaggage, false, "unverified"},
		"without the header":                       {false, func(r *http.Request) { r.Header.Del(agent.TokenHeader) }, false, "there is none"},
		"with two headers":                         {false, func(r *http.Request) { r.Header.Add(agent.TokenHeader, r.Header.Get(agent.TokenHeader)) }, false, "more than one"},
		"with another in the baggage":              {false, func(r *http.Request) { r.Header.Set("Baggage", "hearsay-lineage=hl1.x") }, false, "more than one"},
		"with two in the baggage":                  {false, func(r *http.Request) { r.Header.Set("Baggage", "hearsay-lineage=hl1.x,hearsay-lineage=hl1.x") }, false, "more than one"},
		"with an empty one in the baggage":         {false, func(r *http.Request) { r.Header.Del(agent.TokenHeader); r.Header.Set("Baggage", "hearsay-lineage=") }, false, "malformed"},
		"with an empty header":                     {false, func(r *http.Request) { r.Header.Set(agent.TokenHeader, "") }, false, "there is none"},
		"with another body": {false, func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(`{"words":"nano"}`)), -1
		}, false, "made for other words"},
		"with another query":  {false, func(r *http.Request) { r.URL.RawQuery = "force=1" }, false, "made for other words"},
		"with another path":   {false, func(r *http.Request) { r.URL.Path = "/call/send_email" }, false, "made for other words"},
		"with another method": {false, func(r *http.Request) { r.Method = http.MethodPut }, false, "made for other words"},
	} {
		t.Run(name, func(t *testing.T) {
			run := a.agent.Start("ana")
			if c.tainted {
				read(t, run, "acme", "billing.email")
			}
			before := b.ran("set_editor")
			_, said := post(t, &agent.Transport{Run: run, Audience: "b", Base: edit{c.way}}, url+"/call/set_editor", vim, nil)
			if fired := b.ran("set_editor") > before; fired != c.fires {
				t.Fatalf("fired %t: %s", fired, said)
			}
			if l := last(); c.fires != l.IsKnown() && !c.tainted || !strings.Contains(l.Why(), c.why) && c.why != "unverified" {
				t.Errorf("lineage known %t, %q", l.IsKnown(), l.Why())
			}
			if !c.fires && !strings.HasPrefix(said, "NOT EXECUTED") {
				t.Error(said)
			}
		})
	}
	t.Run("a request that is sent twice is known once", func(t *testing.T) {
		var kept *http.Request
		run := a.agent.Start("ana")
		rt := &agent.Transport{Run: run, Audience: "b", Base: edit{func(r *http.Request) { kept = r.Clone(context.Background()) }}}
		post(t, rt, url+"/call/set_editor", vim, nil)
		if !last().IsKnown() {
			t.Fatal(last().Why())
		}
		kept.Body = io.NopCloser(strings.NewReader(vim))
		res, err := http.DefaultTransport.RoundTrip(kept)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if last().IsKnown() || !strings.Contains(last().Why(), "used before") {
			t.Error(last().Why())
		}
	})
	t.Run("the caller's own header is not believed", func(t *testing.T) {
		_, said := post(t, &agent.Transport{}, url+"/call/set_editor", vim, func(r *http.Request) { r.Header.Set(agent.TokenHeader, "hl1.forged") })
		if last().IsKnown() || !strings.Contains(last().Why(), "there is none") {
			t.Error(last().Why(), said)
		}
	})
	t.Run("words for a model become a row with its tag", func(t *testing.T) {
		run := a.agent.Start("ana")
		_, said := post(t, &agent.Transport{Run: run, Audience: "b"}, url+"/read", "All is well.", nil)
		if !strings.Contains(said, "Memory (asserted by sonnet-4.6, unverified, ") || !last().IsKnown() {
			t.Error(said, last().Why())
		}
		if _, said = post(t, http.DefaultTransport, url+"/read", "All is well.", nil); strings.Contains(said, "Memory (") || last().IsKnown() {
			t.Error(said)
		}
	})
	t.Run("who is not authenticated is refused", func(t *testing.T) {
		if code, said := post(t, http.DefaultTransport, url, "", func(r *http.Request) { r.Header.Del("Authorization") }); code != http.StatusUnauthorized {
			t.Error(code, said)
		}
	})
	t.Run("a body that is too large is refused on both sides", func(t *testing.T) {
		big := strings.Repeat("x", agent.MaxBody+1)
		if code, said := post(t, http.DefaultTransport, url, big, nil); code != http.StatusRequestEntityTooLarge {
			t.Error(code, said)
		}
		req := httptest.NewRequest(http.MethodPost, url, strings.NewReader(big))
		if _, err := (&agent.Transport{Run: a.agent.Start("ana"), Audience: "b"}).RoundTrip(req); !errors.Is(err, agent.ErrBody) {
			t.Error(err)
		}
	})
	t.Run("a tool that sends its call on takes the lineage with it", func(t *testing.T) {
		client := &http.Client{Transport: &agent.Transport{}}
		remote := func(name string, o ...agent.Option) agent.Tool {
			return agent.Func(name, "", func(ctx context.Context, in searchIn) (string, error) {
				body, err := json.Marshal(in)
				if err != nil {
					return "", err
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/call/set_editor", bytes.NewReader(body))
				if err != nil {
					return "", err
				}
				req.Header.Set("Authorization", "ana")
				res, err := client.Do(req)
				if err != nil {
					return "", err
				}
				defer res.Body.Close()
				b, err := io.ReadAll(res.Body)
				return string(b), err
			}, append(o, agent.ReadOnly())...)
		}
		pa := a.agentWith(t, "a", a.gate, []agent.Tool{remote("remote", agent.SendsTo("b")), remote("silent")},
			&agent.Options{Tokens: a.tokens, Recall: recall.Policy{Channels: recall.All}})
		clean, tainted, silent := pa.Start("ana"), pa.Start("ana"), pa.Start("ana")
		read(t, tainted, "acme", "billing.email")
		before := b.ran("set_editor")
		mustFire(t, clean, "remote", searchIn{"vim"})
		if b.ran("set_editor") != before+1 {
			t.Error("a clean call was not let through: ", last().Why())
		}
		mustFire(t, tainted, "remote", searchIn{"vim"})
		if l := last(); !l.IsKnown() || len(l.Direct()) == 0 || b.ran("set_editor") != before+1 {
			t.Errorf("a tool that says it reads laundered the lineage: %v", l)
		}
		mustFire(t, silent, "silent", searchIn{"vim"})
		if last().IsKnown() || b.ran("set_editor") != before+1 {
			t.Error("a tool that declares no audience reached the other side as known")
		}
	})
}

func TestBaggageKeepsToItsLimits(t *testing.T) {
	for name, c := range map[string]struct {
		there string
		fits  bool
	}{
		"nothing there":         {"", true},
		"others there":          {"a=1,b=2;x", true},
		"8,192 bytes in all":    {strings.Repeat("a", 8192-1-len("hearsay-lineage=hl1.abc")-2) + "=1", true},
		"one byte more":         {strings.Repeat("a", 8192-len("hearsay-lineage=hl1.abc")-2) + "=1", false},
		"63 others":             {strings.TrimSuffix(strings.Repeat("a=1,", 63), ","), true},
		"64 others":             {strings.TrimSuffix(strings.Repeat("a=1,", 64), ","), false},
		"an old token in place": {"hearsay-lineage=hl1.old;p=1,b=2", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			h.Set("Baggage", c.there)
			err := agent.AddBaggage(h, "hl1.abc")
			if c.fits != (err == nil) || err != nil && !errors.Is(err, agent.ErrBaggage) {
				t.Fatal(err)
			}
			got, err := agent.FindToken(h)
			if want := map[bool]string{true: "hl1.abc", false: ""}[c.fits]; got != want || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if strings.Contains(c.there, "b=2") && !strings.Contains(h.Get("Baggage"), "b=2") {
				t.Errorf("others are lost: %s", h.Get("Baggage"))
			}
		})
	}
}

// TestARedirectGetsNoToken: the path and query that a token is bound to must be the
// run's, and not those of a server that redirects.
func TestARedirectGetsNoToken(t *testing.T) {
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	s := newSite(t)
	a, b := s.process(t, "a", memory.Options{}, agent.TokenOptions{}), s.process(t, "b", memory.Options{}, agent.TokenOptions{})
	url, last := serveTools(t, b)
	hostile := httptest.NewServer(http.RedirectHandler(url+"/call/set_editor", http.StatusTemporaryRedirect))
	t.Cleanup(hostile.Close)
	client := &http.Client{Transport: &agent.Transport{Run: a.agent.Start("ana"), Audience: "b"}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hostile.URL, strings.NewReader(`{"words":"vim"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "ana")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if b.ran("set_editor") != 0 || res.StatusCode != http.StatusOK || !strings.Contains(last().Why(), "there is none") {
		t.Errorf("%d calls, status %d, %q", b.ran("set_editor"), res.StatusCode, last().Why())
	}
}
