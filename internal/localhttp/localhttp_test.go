package localhttp_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hearsay-go/hearsay/internal/localhttp"
)

func TestAGuardLetsInWhoAsksForThisMachine(t *testing.T) {
	type header map[string]string
	loopback, outside := "127.0.0.1:8787", "10.1.2.3:8787"
	for name, c := range map[string]struct {
		guard   localhttp.Guard
		at      string // the address that is reached; "" = not known
		host    string
		headers header
		in      bool
	}{
		"its address": {at: loopback, host: "127.0.0.1:8787", in: true},
		"its name":    {at: loopback, host: "localhost:8787", in: true},
		"its name in capitals, with the last dot":     {at: loopback, host: "LOCALHOST.:8787", in: true},
		"its name without a port":                     {at: loopback, host: "localhost", in: true},
		"the address of six":                          {at: "[::1]:8787", host: "[::1]:8787", in: true},
		"a name that was pointed here":                {at: loopback, host: "evil.example", in: false},
		"a name that begins like ours":                {at: loopback, host: "localhost.evil.example", in: false},
		"a name that begins like an address":          {at: loopback, host: "127.0.0.1.evil.example", in: false},
		"no host":                                     {at: loopback, host: "", in: false},
		"another address":                             {at: loopback, host: "10.9.9.9:8787", in: false},
		"an address that nobody knows as ours":        {host: "10.1.2.3", in: false},
		"the address of a machine that lets others":   {at: outside, host: "10.1.2.3:8787", in: true},
		"a name of a machine that lets others":        {at: outside, host: "evil.example", in: false},
		"a name that was configured":                  {guard: localhttp.Guard{Names: []string{"Worker.internal"}}, at: outside, host: "worker.internal:8787", in: true},
		"a name beside the one that was configured":   {guard: localhttp.Guard{Names: []string{"worker.internal"}}, at: outside, host: "evil.example", in: false},
		"any name from outside, if that is said":      {guard: localhttp.Guard{Remote: true}, at: outside, host: "tools.example", in: true},
		"and none for a loopback address":             {guard: localhttp.Guard{Remote: true}, at: loopback, host: "tools.example", in: false},
		"a page of another site":                      {at: loopback, host: "127.0.0.1:8787", headers: header{"Origin": "https://evil.example"}, in: false},
		"a page of no site":                           {at: loopback, host: "127.0.0.1:8787", headers: header{"Origin": "null"}, in: false},
		"a page of another port":                      {at: loopback, host: "127.0.0.1:8787", headers: header{"Origin": "http://127.0.0.1:3000"}, in: false},
		"its own page":                                {at: loopback, host: "127.0.0.1:8787", headers: header{"Origin": "http://127.0.0.1:8787", "Sec-Fetch-Site": "same-origin"}, in: true},
		"a browser that says another site sent it":    {at: loopback, host: "127.0.0.1:8787", headers: header{"Sec-Fetch-Site": "cross-site"}, in: false},
		"a browser that says the same site":           {at: loopback, host: "localhost:8787", headers: header{"Sec-Fetch-Site": "same-site"}, in: false},
		"a browser whose user typed it":               {at: loopback, host: "localhost:8787", headers: header{"Sec-Fetch-Site": "none"}, in: true},
		"a page of another site, on a name that's in": {guard: localhttp.Guard{Remote: true}, at: outside, host: "tools.example", headers: header{"Origin": "https://evil.example"}, in: false},
	} {
		t.Run(name, func(t *testing.T) {
			seen := false
			h := c.guard.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen = true }))
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead, http.MethodOptions} {
				seen = false
				ctx := t.Context()
				if c.at != "" {
					addr, err := net.ResolveTCPAddr("tcp", c.at)
					if err != nil {
						t.Fatal(err)
					}
					ctx = context.WithValue(ctx, http.LocalAddrContextKey, net.Addr(addr))
				}
				r := httptest.NewRequestWithContext(ctx, method, "/metrics", nil)
				r.Host = c.host
				for k, v := range c.headers {
					r.Header.Set(k, v)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if seen != c.in || !c.in && w.Code != http.StatusForbidden {
					t.Fatalf("%s: let in %t, status %d", method, seen, w.Code)
				}
			}
		})
	}
}
