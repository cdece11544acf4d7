// Package localhttp keeps web pages away from an HTTP server that asks for no login: a
// browser on the machine asks what a page of any site tells it to, under a name that the
// site chose if its DNS says that this machine has it.
package localhttp

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Guard says by which names a server is asked for. The zero value is usable: by the
// names and addresses of the machine for itself.
type Guard struct {
	// Names are host names besides, without a port, such as that of a service.
	Names []string
	// Remote lets who reaches the server by another address than a loopback one ask for
	// it by any name: it is behind something that is known by one.
	Remote bool
}

// Handler refuses with 403, before next sees anything, a request for another host, and
// one that a page of another site made.
func (g Guard) Handler(next http.Handler) http.Handler {
	names := make([]string, len(g.Names))
	for i, name := range g.Names {
		names[i] = strings.ToLower(strings.TrimSuffix(name, "."))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !g.asked(r, names):
			http.Error(w, "forbidden: this server is not asked for by that host name", http.StatusForbidden)
		case foreign(r):
			http.Error(w, "forbidden: asked by a page of another site", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// asked reports whether the request is for a host that this server is. A name can be
// pointed at this machine by whoever owns it; an address is what it is.
func (g Guard) asked(r *http.Request, names []string) bool {
	host := hostOf(r.Host)
	local, known := localAddress(r)
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap().WithZone("")
		return ip.IsLoopback() || known && ip == local || g.Remote && !(known && local.IsLoopback())
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || host != "" && slices.Contains(names, host) {
		return true
	}
	return g.Remote && !(known && local.IsLoopback())
}

// hostOf is a host without its port and brackets.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

// localAddress is the address that the request reached.
func localAddress(r *http.Request) (ip netip.Addr, ok bool) {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if addr == nil {
		return ip, false
	}
	at, err := netip.ParseAddrPort(addr.String())
	return at.Addr().Unmap().WithZone(""), err == nil
}

// foreign reports whether a browser made the request for a page of another site,
// whatever the method: to read is what such a page is after. Programs say nothing of it.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return true
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return false
	}
	u, err := url.Parse(origins[0])
	return len(origins) > 1 || err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
}
