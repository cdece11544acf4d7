package mcp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent/mcp"
)

// TestWhatOneConnectionWasPassedFeedsTheCallsOfAll: a transport without sessions
// does not say which requests are of one agent.
func TestWhatOneConnectionWasPassedFeedsTheCallsOfAll(t *testing.T) {
	o := newOffice(t)
	p, _ := newProxy(t, o, &mcp.ProxyOptions{Contracts: contracts, OnlySource: true})
	web := httptest.NewServer(p.Handler(nil))
	t.Cleanup(web.Close)
	const clients = 8
	var sessions []*api.ClientSession
	for range clients {
		sessions = append(sessions, plain(t, &api.StreamableClientTransport{Endpoint: web.URL, DisableStandaloneSSE: true}))
	}
	all := func(fails bool) (n int) {
		var (
			group sync.WaitGroup
			mu    sync.Mutex
		)
		for i, session := range sessions { // the very same call would wait for how the first one ends
			group.Go(func() {
				res, err := session.CallTool(t.Context(), &api.CallToolParams{Name: "label", Arguments: customer{fmt.Sprint("acme ", i)}})
				mu.Lock()
				defer mu.Unlock()
				if err != nil || res.IsError != fails {
					t.Errorf("%v, %v", res, err)
					return
				}
				n++
			})
		}
		group.Wait()
		return n
	}
	if n := all(false); n != clients {
		t.Errorf("before anything was read %d of %d calls ran", n, clients)
	}
	if res, _ := say(t, sessions[0], "search", customer{"acme"}); res.IsError {
		t.Fatal(res)
	}
	if n := all(true); n != clients {
		t.Errorf("after one read %d of %d calls were blocked", n, clients)
	}
	if got := len(o.calls()); got != clients+1 {
		t.Errorf("%d calls reached the server, want %d", got, clients+1)
	}
}

// TestAClientOfAnOlderProtocol speaks by hand, with a session of the transport.
func TestAClientOfAnOlderProtocol(t *testing.T) {
	o := newOffice(t)
	p, _ := newProxy(t, o, &mcp.ProxyOptions{Contracts: contracts})
	web := httptest.NewServer(p.Handler(nil))
	t.Cleanup(web.Close)
	session := ""
	send := func(method, body string, header ...string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, web.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
			req.Header.Set("Mcp-Protocol-Version", "2025-06-18")
		}
		for i := 0; i < len(header); i += 2 {
			if req.Header.Set(header[i], header[i+1]); header[i] == "Host" {
				req.Host = header[i+1]
			}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if id := res.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		return res.StatusCode, string(b)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	post := func(body string, header ...string) (int, string) {
		t.Helper()
		return send(http.MethodPost, body, header...)
	}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`
	for name, header := range map[string][]string{
		"from another web site": {"Sec-Fetch-Site", "cross-site", "Origin", "http://evil.example"},
		"by another host name":  {"Host", "evil.example"},
	} {
		if code, body := post(hello, header...); code != http.StatusForbidden {
			t.Errorf("%s: %d %q", name, code, body)
		}
	}
	if code, body := post(hello); code != http.StatusOK || session == "" || !strings.Contains(body, `"2025-06-18"`) {
		t.Fatalf("initialize: %d %q", code, body)
	}
	post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for call, want := range map[string]string{
		`{"name":"register","arguments":{"name":"acme"}}`: `pay@acme.example`,
		`{"name":"label","arguments":{"name":"acme"}}`:    `NOT EXECUTED: label`,
		`{"name":"label"}`: `NOT EXECUTED: the arguments are not valid`,
		`{"name":"label","arguments":{"name":"a","name":"b"}}`:                        `NOT EXECUTED: the arguments are not valid`,
		`{"name":"label","arguments":["acme"]}`:                                       `NOT EXECUTED: the arguments are not valid`,
		`{"name":"wipe","arguments":{}}`:                                              `NOT EXECUTED: wipe`,
		`{"name":"register","arguments":{"name":"a"},"requestState":"s"}`:             `NOT EXECUTED: this server asks for no further input`,
		`{"name":"label","arguments":{"name":"acme"},"_meta":{"lineage":"verified"}}`: `NOT EXECUTED: label`,
	} {
		code, body := post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` + call + `}`)
		if code != http.StatusOK || !strings.Contains(body, want) || strings.Contains(body, `"isError":true`) != strings.HasPrefix(want, "NOT") {
			t.Errorf("%s: %d %q, want %q", call, code, body, want)
		}
	}
	if got := o.calls(); len(got) != 1 {
		t.Errorf("reached the server: %q", got)
	}
	if code, body := send(http.MethodDelete, ""); code != http.StatusNoContent {
		t.Errorf("the end of the session: %d %q", code, body)
	}
}
