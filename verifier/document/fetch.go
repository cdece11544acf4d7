package document

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hearsay-go/hearsay/verifier"
)

// Defaults of [FetcherOptions].
const (
	DefaultMaxBytes = 8 << 20
	DefaultTimeout  = 10 * time.Second
)

// FetcherOptions say what a [Fetcher] may reach. Without hosts and roots it reaches
// nothing.
type FetcherOptions struct {
	// Hosts are the hosts of https addresses, HOST or HOST:PORT, compared in lower case
	// and whole; without a port, 443. There are no wildcards.
	Hosts []string
	// Private are those of Hosts that may be at an address that is not public: loopback,
	// private, link-local. Any other host that turns out to be at such an address is
	// not connected to, whatever its name resolves to at that moment.
	Private []string
	// Roots are the folders of file addresses, each what is at its path when a document
	// is fetched: it may be replaced, by a rename or a link, under a running program.
	// Nothing outside is read, through links below a root neither.
	Roots    []string
	MaxBytes int64         // of one document; 0 = 8 MiB
	Timeout  time.Duration // for one document, all of it; 0 = 10 s
	// TLS, if not nil, says which certificates are believed.
	TLS *tls.Config
}

// Fetcher gets documents. It follows no redirect, asks no proxy, sends no
// credentials, and takes no more than MaxBytes in no longer than Timeout. It is safe
// for concurrent use. It holds nothing open and needs no closing.
type Fetcher struct {
	o       FetcherOptions
	hosts   map[string]bool // host:port
	private map[string]bool
	roots   []string
	client  *http.Client
}

// NewFetcher returns a fetcher. A host that is none, and a folder that cannot be
// opened, are errors.
func NewFetcher(o FetcherOptions) (*Fetcher, error) {
	f := &Fetcher{o: o, hosts: map[string]bool{}, private: map[string]bool{}}
	if f.o.MaxBytes <= 0 {
		f.o.MaxBytes = DefaultMaxBytes
	}
	if f.o.Timeout <= 0 {
		f.o.Timeout = DefaultTimeout
	}
	for _, h := range o.Hosts {
		at, err := hostPort(h)
		if err != nil {
			return nil, err
		}
		f.hosts[at] = true
	}
	for _, h := range o.Private {
		at, err := hostPort(h)
		if err != nil {
			return nil, err
		}
		if !f.hosts[at] {
			return nil, fmt.Errorf("document: private host %q is not among the hosts", h)
		}
		f.private[at] = true
	}
	for _, path := range o.Roots {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("document: root %q is not absolute", path)
		}
		root, err := os.OpenRoot(path)
		if err == nil {
			err = root.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("document: root: %w", err)
		}
		f.roots = append(f.roots, filepath.Clean(path))
	}
	f.client = &http.Client{
		Transport: &http.Transport{
			DialContext: f.connect, TLSClientConfig: o.TLS.Clone(), DisableCompression: true, DisableKeepAlives: true,
			ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10, TLSHandshakeTimeout: f.o.Timeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return f, nil
}

func hostPort(h string) (string, error) {
	u, err := url.Parse("https://" + strings.ToLower(h))
	if err != nil || u.Host != strings.ToLower(h) || u.Hostname() == "" || u.User != nil {
		return "", fmt.Errorf("document: %q is no HOST or HOST:PORT", h)
	}
	return net.JoinHostPort(u.Hostname(), portOf(u)), nil
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return "443"
}

// Page is a document as it was fetched.
type Page struct {
	URI     string
	Version string // its ETag if it has one, else the SHA-256 of all of it: "sha256:…"
	SHA256  string // of all of it, in hexadecimal
	Bytes   []byte
}

// Get fetches a document. Its error is [verifier.ErrMisconfigured] for an address
// that may not be reached and an answer that asking again cannot mend, [verifier.ErrGone]
// for 404, 410 and a file that is not there, and [verifier.ErrUnavailable] for all else,
// with the time to wait if the server says one.
func (f *Fetcher) Get(ctx context.Context, uri string) (Page, error) {
	u, err := url.Parse(uri)
	if err != nil || u.User != nil || u.Fragment != "" {
		return Page{}, wrong("the address cannot be used")
	}
	ctx, cancel := context.WithTimeout(ctx, f.o.Timeout)
	defer cancel()
	p := Page{URI: uri}
	switch u.Scheme {
	case "https":
		p.Bytes, p.Version, err = f.web(ctx, u)
	case "file":
		p.Bytes, err = f.file(ctx, u)
	default:
		return Page{}, wrong("want https or file")
	}
	if err != nil {
		return Page{}, err
	}
	sum := sha256.Sum256(p.Bytes)
	p.SHA256 = hex.EncodeToString(sum[:])
	if p.Version == "" {
		p.Version = "sha256:" + p.SHA256
	}
	return p, nil
}

func (f *Fetcher) web(ctx context.Context, u *url.URL) ([]byte, string, error) {
	if !f.hosts[net.JoinHostPort(strings.ToLower(u.Hostname()), portOf(u))] {
		return nil, "", wrong("the host is not among those that may be asked")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, "", wrong("the address makes no request")
	}
	response, err := f.client.Do(r)
	if err != nil {
		if errors.Is(err, errPrivate) {
			return nil, "", wrong(errPrivate.Error())
		}
		return nil, "", &verifier.UnavailableError{Err: withoutAddress(err)}
	}
	defer response.Body.Close()
	switch status := response.StatusCode; {
	case status == http.StatusOK:
	case status == http.StatusNotFound, status == http.StatusGone:
		return nil, "", fmt.Errorf("%w: status %d", verifier.ErrGone, status)
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500, status < 300:
		return nil, "", &verifier.UnavailableError{RetryAfter: verifier.RetryAfter(response.Header, time.Now()), Err: fmt.Errorf("status %d", status)}
	default:
		return nil, "", wrong(fmt.Sprintf("status %d", status))
	}
	b, err := f.read(response.Body)
	version := strings.Trim(strings.TrimPrefix(response.Header.Get("ETag"), "W/"), `"`)
	if len(version) > 200 {
		version = ""
	}
	return b, version, err
}

// connect dials a host that may be asked, and looks at the address it is at when the
// connection is made: a name may resolve to another one each time.
func (f *Fetcher) connect(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Control: func(_, at string, _ syscall.RawConn) error {
		ip, err := netip.ParseAddrPort(at)
		if err != nil {
			return err
		}
		if !f.private[strings.ToLower(address)] && !public(ip.Addr()) {
			return errPrivate
		}
		return nil
	}}
	return d.DialContext(ctx, network, address)
}

var errPrivate = errors.New("the host is at an address that is not public")

// special are blocks that are no public addresses and that netip does not name.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("fec0::/10"),                                 // private once, and routed as such where it is left over
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("2002::/16"), // an IPv4 address inside, of any kind
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), // the same, through NAT64
	netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("::ffff:0:0:0/96"), // the same, through Teredo and SIIT
}

func public(a netip.Addr) bool {
	a = a.Unmap()
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return a.IsGlobalUnicast() && !a.IsPrivate()
}

// file reads a regular file below one of the roots.
func (f *Fetcher) file(ctx context.Context, u *url.URL) ([]byte, error) {
	if u.Host != "" && u.Host != "localhost" || u.RawQuery != "" || !filepath.IsAbs(u.Path) {
		return nil, wrong("want file:///PATH")
	}
	for _, path := range f.roots {
		name, err := filepath.Rel(path, filepath.Clean(u.Path))
		if err != nil || !filepath.IsLocal(name) {
			continue
		}
		root, err := os.OpenRoot(path)
		if err != nil { // it is being replaced, perhaps: that no document of it is there says nothing
			return nil, &verifier.UnavailableError{Err: errors.New("the folder cannot be opened")}
		}
		defer root.Close()
		// A pipe is not waited for.
		file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%w: no such file", verifier.ErrGone)
		case err != nil:
			return nil, wrong("the file cannot be opened")
		}
		defer file.Close()
		if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil, wrong("it is no regular file")
		}
		if ctx.Err() != nil {
			return nil, &verifier.UnavailableError{Err: ctx.Err()}
		}
		return f.read(file)
	}
	return nil, wrong("the file is in none of the folders that may be read")
}

func (f *Fetcher) read(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, f.o.MaxBytes+1))
	switch {
	case err != nil:
		return nil, &verifier.UnavailableError{Err: fmt.Errorf("it broke off: %w", err)}
	case int64(len(b)) > f.o.MaxBytes:
		return nil, wrong(fmt.Sprintf("more than %d bytes", f.o.MaxBytes))
	}
	return b, nil
}

func wrong(text string) error { return &verifier.MisconfiguredError{Err: errors.New(text)} }

// withoutAddress takes the address out of an error: it may hold what was asked.
func withoutAddress(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
