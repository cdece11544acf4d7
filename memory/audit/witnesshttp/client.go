package witnesshttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/reach"
)

// ErrUnavailable is the sentinel of [*UnavailableError].
var ErrUnavailable = errors.New("witnesshttp: the witness is not at hand")

// ErrRecovery: the token does not do for a change that takes the place of what the
// witness has.
var ErrRecovery = errors.New("witnesshttp: the witness lets nobody recover without the token of recovery")

// UnavailableError says that a witness was not reached, or did not let us in, at this
// moment. errors.Is(err, ErrUnavailable) and errors.Is(err, memory.ErrWitnessMissing)
// hold: nothing fires, and what takes trust away waits in the store to be told.
type UnavailableError struct {
	Server string // host and port
	Why    string // with the host and port in it
}

func (e *UnavailableError) Error() string { return ErrUnavailable.Error() + ": " + e.Why }

// Is reports whether target is [ErrUnavailable] or [memory.ErrWitnessMissing].
func (e *UnavailableError) Is(target error) bool {
	return target == ErrUnavailable || target == memory.ErrWitnessMissing
}

// Options are of a [Client].
type Options struct {
	// Token is what the server knows its clients by; required.
	Token string
	// Roots are the certificate authorities of an https:// server; nil = the system's.
	Roots *x509.CertPool
	// ReadOnly refuses to append.
	ReadOnly bool
}

// The variables that say how a server is reached.
const (
	TokenVariable     = "HEARSAY_WITNESS_TOKEN"
	TokenFileVariable = "HEARSAY_WITNESS_TOKEN_FILE"
	RootsVariable     = "HEARSAY_WITNESS_CA" // file of PEM certificates
)

// Environment takes options from [TokenVariable] or [TokenFileVariable], and from
// [RootsVariable]. A missing token is no fault before a server wants one.
func Environment(getenv func(string) string) (*Options, error) {
	o := &Options{Token: getenv(TokenVariable)}
	path := getenv(TokenFileVariable)
	if path != "" && o.Token != "" {
		return nil, tokenFault(TokenVariable + " and " + TokenFileVariable + " are both set; want one of them")
	}
	if path != "" {
		var err error
		if o.Token, err = ReadToken(path); err != nil {
			return nil, err
		}
	}
	if path := getenv(RootsVariable); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", memory.ErrInvalid, RootsVariable, err)
		}
		o.Roots = x509.NewCertPool()
		if !o.Roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%w: %s: no certificate in %s", memory.ErrInvalid, RootsVariable, path)
		}
	}
	return o, nil
}

// IsURL reports whether where names a server and not a file.
func IsURL(where string) bool {
	scheme, _, found := strings.Cut(where, "://")
	return found && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// Open opens the witness in a file, or that of a server if where is an http:// or
// https:// URL. What it needs for a server is in the variables of [Environment].
func Open(ctx context.Context, where string, getenv func(string) string) (*audit.Witness, error) {
	if !IsURL(where) {
		return audit.OpenWitness(where)
	}
	return open(ctx, where, getenv, false)
}

// OpenToRead is [Open] for reading only.
func OpenToRead(ctx context.Context, where string, getenv func(string) string) (*audit.Witness, error) {
	if !IsURL(where) {
		return audit.ReadWitness(where)
	}
	return open(ctx, where, getenv, true)
}

func open(ctx context.Context, where string, getenv func(string) string, readOnly bool) (*audit.Witness, error) {
	o, err := Environment(getenv)
	if err != nil {
		return nil, err
	}
	o.ReadOnly = readOnly
	return Dial(ctx, where, o)
}

// Dial is the witness of a server. It asks the server who the witness is; another one
// that is there later is refused. Plain http:// goes to this machine only.
func Dial(ctx context.Context, server string, o *Options) (*audit.Witness, error) {
	at, err := address(server)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &Options{}
	}
	c := &client{base: at.Scheme + "://" + at.Host, server: hostPort(at), readOnly: o.ReadOnly}
	if c.token, err = ParseToken(o.Token); err != nil {
		return nil, fmt.Errorf("%w (%s or %s)", err, TokenVariable, TokenFileVariable)
	}
	c.http = &http.Client{
		Transport:     transport(at.Scheme == "http", o.Roots),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if _, err := c.Read(ctx, audit.Query{}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return audit.NewWitness(c), nil
}

// address reads the URL of a server. Errors do not repeat it: it may hold a password.
func address(server string) (*url.URL, error) {
	u, err := url.Parse(server)
	wrong := func(text string) (*url.URL, error) {
		return nil, fmt.Errorf("%w: the URL of a witness: %s; want https://HOST:PORT, or http:// on this machine", memory.ErrInvalid, text)
	}
	switch {
	case err != nil:
		return wrong("it is no URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return wrong("it has another scheme, or no host")
	case u.User != nil:
		return wrong("it has a user or a password in it; the token is in " + TokenVariable)
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return wrong("something follows the host")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return wrong("http:// shows the token to whoever is between, and " + u.Hostname() + " is not this machine")
	}
	return u, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// transport goes to the server and by no proxy, so that the token goes nowhere else. If
// local, whatever the name server says of localhost, it goes to this machine.
func transport(local bool, roots *x509.CertPool) *http.Transport {
	d := &net.Dialer{Timeout: 5 * time.Second}
	if local {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().Unmap().IsLoopback() {
				return errNotLocal
			}
			return nil
		}
	}
	return &http.Transport{
		DialContext:            d.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    5 * time.Second,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 16 << 10,
	}
}

var errNotLocal = errors.New("localhost is not this machine")

// client is the [audit.Backend] of a server.
type client struct {
	base, server string
	token        string
	readOnly     bool
	http         *http.Client

	mu    sync.Mutex
	id    memory.Token // zero until the server has said it
	known audit.Position
}

// Identity is what the server said first.
func (c *client) Identity() memory.Token {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id
}

// Close lets go of connections.
func (c *client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Read asks the server for one page.
func (c *client) Read(ctx context.Context, q audit.Query) (p audit.Page, err error) {
	q.Known = c.seen()
	if err := c.ask(ctx, readPath, q, &p); err != nil {
		return audit.Page{}, err
	}
	if err := c.see(q.Known, p.At); err != nil {
		return audit.Page{}, err
	}
	after := string(q.After)
	for i := range p.Entries {
		if p.Entries[i].Key <= after {
			return audit.Page{}, c.unlike()
		}
		after = p.Entries[i].Key
	}
	if p.More && len(p.Entries) == 0 {
		return audit.Page{}, c.unlike()
	}
	return p, nil
}

// Append has the server append. Of many entries it sends a part at a time: one that was
// sent is there, though another one after it may be refused.
func (c *client) Append(ctx context.Context, change audit.Change) (at audit.Position, err error) {
	if c.readOnly {
		return at, fmt.Errorf("%w: it is open for reading", audit.ErrWitness)
	}
	all := change.Acknowledge
	for {
		change.Acknowledge = all[:min(len(all), pageSize)]
		all = all[len(change.Acknowledge):]
		change.Known = c.seen()
		if err := c.ask(ctx, appendPath, change, &at); err != nil {
			return audit.Position{}, err
		}
		if err := c.see(change.Known, at); err != nil || len(all) == 0 {
			return at, err
		}
	}
}

func (c *client) seen() audit.Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// see remembers how far the witness is. Answers may come in another order than the
// questions, but none is of before its own question.
func (c *client) see(before, at audit.Position) error {
	switch {
	case at.Lines == 0 || at.Digest == "":
		return c.unlike()
	case at.Lines < before.Lines:
		return c.older()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.Lines > c.known.Lines {
		c.known = at
	}
	return nil
}

func (c *client) unavailable(why string) error { return &UnavailableError{c.server, why} }

func (c *client) unlike() error {
	return c.unavailable(c.server + " does not answer as a witness does")
}

// pauses are between attempts: what a restart of the server takes. Each request may be
// made again, since the same change again is no other one.
var pauses = []time.Duration{100 * time.Millisecond, 400 * time.Millisecond}

// attemptWithin is how long one attempt may take.
const attemptWithin = 10 * time.Second

// ask makes one request, some times if the server is not reached.
func (c *client) ask(ctx context.Context, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("%w: %w", memory.ErrInvalid, err)
	}
	for attempt := 0; ; attempt++ {
		again, err := c.attempt(ctx, path, body, answer)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !again || attempt == len(pauses):
			return err
		}
		timer := time.NewTimer(pauses[attempt])
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// attempt makes a request once. again says that another attempt may succeed.
func (c *client) attempt(ctx context.Context, path string, body []byte, answer any) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptWithin)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return false, c.unavailable("the URL of " + c.server + " makes no request")
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", "application/json")
	id := c.Identity()
	if id != (memory.Token{}) {
		r.Header.Set(identityHeader, id.String())
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return !errors.Is(err, errNotLocal), c.lost(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return true, c.lost(err)
	case len(b) > maxAnswer:
		return false, c.unlike()
	case resp.StatusCode != http.StatusOK:
		return c.refused(resp.StatusCode, b)
	}
	got, ok := parseIdentity(resp.Header.Get(identityHeader))
	switch {
	case !ok:
		return false, c.unlike()
	case id == memory.Token{}:
		c.mu.Lock()
		c.id = got
		c.mu.Unlock()
	case got != id:
		return false, c.another()
	}
	if decode(bytes.NewReader(b), answer) != nil {
		return false, c.unlike()
	}
	return false, nil
}

func (c *client) lost(err error) error {
	why := reach.Why(err, c.server)
	switch {
	case errors.Is(err, errNotLocal):
		why = "http:// goes to this machine only, and " + c.server + " is another one by its address"
	case why == "":
		why = c.server + " cannot be reached"
	}
	return c.unavailable(why)
}

func (c *client) another() error {
	return fmt.Errorf("%w: another one was put in the place of the one at %s", audit.ErrWitness, c.server)
}

func (c *client) older() error {
	return fmt.Errorf("%w: %w: %s was seen further on", audit.ErrWitness, audit.ErrWitnessOlder, c.server)
}

// refused says what an answer that is not 200 means. Nothing of its text is repeated.
func (c *client) refused(status int, body []byte) (again bool, err error) {
	var f fault
	if json.Unmarshal(body, &f) != nil {
		f.Code = ""
	}
	switch f.Code {
	case codeToken:
		return false, c.unavailable(c.server + " refuses the token (" + TokenVariable + " or " + TokenFileVariable + ")")
	case codeRecovery:
		return false, fmt.Errorf("%w: %s", ErrRecovery, c.server)
	case codeAnother:
		return false, c.another()
	case codeOlder:
		return false, c.older()
	case codeSuperseded:
		return false, fmt.Errorf("%w: %s", audit.ErrSuperseded, c.server)
	case codeConflict:
		return false, fmt.Errorf("%w: %s was told of another checkpoint meanwhile", memory.ErrConflict, c.server)
	case codeInvalid, codeTooLarge:
		return false, fmt.Errorf("%w: %s refuses the request as one of another form or size", memory.ErrInvalid, c.server)
	case codeWitness:
		return false, fmt.Errorf("%w: %s has it, and its log says why", audit.ErrWitness, c.server)
	}
	switch {
	case status >= 300 && status < 400:
		return false, c.unavailable(c.server + " answers with a redirect, which is not followed")
	case status == http.StatusForbidden:
		return false, c.unavailable(c.server + " is not asked for by that host name (hearsay witness serve --host)")
	case status >= 500:
		return true, c.unavailable(fmt.Sprintf("%s answers with status %d", c.server, status))
	}
	return false, c.unlike()
}
