package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/redisstore/redisurl"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options of [Open] and [New]. Every zero field has a usable default.
type Options struct {
	// Prefix is what the store is known by: every key of it begins with the prefix
	// and a colon. At most 64 letters, digits and "._:-"; "" = "hearsay". What is
	// under one prefix must not be under another: "a" and "a:b" are no two stores.
	Prefix string
	// Strict refuses a server that by its settings would lose what was acknowledged,
	// with an [*UnsafeError]. That a failover to a replica may take the last batches
	// is no setting, and not refused: Incarnation is there for it.
	Strict bool
	// Existing asks that the store is there already: where there is none, nothing is
	// written and the error wraps [ErrMissing].
	Existing bool
}

const (
	defaultPrefix = "hearsay"
	// The mark of a store says whose it is, and its form: [memory.Form].
	markKind = ":store"
	magic    = "hearsay redisstore "

	// How long a step of a call may take if its context says nothing shorter.
	readTimeout = 10 * time.Second
	// How long a connection is used: a server that is no master any more says so to
	// a new connection, and not to an old one that only reads.
	connLifetime = 5 * time.Minute
)

// mode is what stands behind the client.
type mode string

const (
	single   mode = "single"
	sentinel mode = "sentinel"
	cluster  mode = "cluster"
)

// Open opens the store that a URL names, and makes it if there is none under the
// prefix. The URL is one of
//
//	redis://user:password@host:6379/0             one server, database 0
//	rediss://…                                    the same over TLS, as for all that follow
//	unix://user:password@/path/to/socket?db=0     one server of this machine
//	redis://host:6379,host:6379/?cluster=true     a Cluster, by one or more of its nodes
//	redis://host:26379,host:26379/?master=name    the master of that name, by its Sentinels;
//	                                              sentinel_username, sentinel_password
//
// and may have the further parameters of [redis.ParseURL], dial_timeout,
// read_timeout and pool_size among them.
//
// An error wraps [ErrURL]; [ErrServer]; [ErrMissing]; [memory.ErrForeign] if there are keys under
// the prefix and no store; [memory.ErrSchema] if the store is of another version;
// or [memory.ErrStore] if the server cannot be reached, refuses the user, or with
// Options.Strict is not safe. Nothing was written then.
func Open(ctx context.Context, url string, o *Options) (*Driver, error) {
	client, err := redisurl.Parse(url)
	if err != nil {
		return nil, edge(ctx, "open", "", err)
	}
	return New(ctx, client, o)
}

// New is [Open] for what no URL can say: certificates, credentials that change, a
// dialler. It takes options of a client and not a client, since the driver must see
// every connection that is made; the client that it makes from a copy of them is
// its own, and Close closes it. MasterName asks for Sentinel, IsClusterMode or
// several addresses for a Cluster.
//
// Reads from replicas, retries of writes, the RESP protocol and DialerRetries are
// the driver's to decide, and ContextTimeoutEnabled is set.
func New(ctx context.Context, client *redis.UniversalOptions, o *Options) (*Driver, error) {
	if o == nil {
		o = &Options{}
	}
	type result struct {
		d   *Driver
		err error
	}
	opened := make(chan result, 1)
	go func() {
		d, err := open(ctx, *client, o)
		opened <- result{d, err}
	}()
	select {
	case r := <-opened:
		return r.d, hinted(edge(ctx, "open", redisurl.Server(client), r.err), r.err, client.TLSConfig != nil)
	case <-ctx.Done(): // see call
		go func() {
			if r := <-opened; r.d != nil {
				_ = r.d.Close() // nobody waits for it
			}
		}()
		return nil, edge(ctx, "open", "", ctx.Err())
	}
}

// hinted adds to the error of an open what a server that hangs up or is silent at once
// may mean by it.
func hinted(edged, err error, withTLS bool) error {
	var network net.Error
	switch {
	case edged == nil || !errors.Is(edged, memory.ErrStore):
	case withTLS && errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("%w; if it speaks no TLS, say redis://", edged)
	case !withTLS && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return fmt.Errorf("%w; if it wants TLS, say rediss://", edged)
	}
	return edged
}

func open(ctx context.Context, client redis.UniversalOptions, o *Options) (*Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := &Driver{prefix: o.Prefix, at: redisurl.Server(&client), seen: map[string]string{}}
	if d.prefix == "" {
		d.prefix = defaultPrefix
	}
	if len(d.prefix) > 64 || strings.Trim(d.prefix, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-") != "" {
		return nil, fmt.Errorf("%w: the prefix has other characters than letters, digits and ._:- or more than 64", ErrURL)
	}
	d.connect(client)
	err := d.start(ctx)
	if err == nil && o.Strict {
		err = d.strict(ctx)
	}
	if err == nil {
		err = d.adopt(ctx, o.Existing)
	}
	if err != nil {
		_ = d.client.Close() // why it is closed is what counts
		return nil, err
	}
	return d, nil
}

// CheckURL asks whether [Open] can read a URL, without dialling: [ErrURL] if not.
func CheckURL(url string) error {
	_, err := redisurl.Parse(url)
	return err
}

// connect makes the client. It dials nothing yet.
func (d *Driver) connect(o redis.UniversalOptions) {
	o.ContextTimeoutEnabled = true
	o.Protocol = 2 // no pushes to look for before each reply
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
	o.DialerRetries = 1 // a call is tried again, not each dial of it
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = readTimeout
	}
	if o.ConnMaxLifetime == 0 {
		o.ConnMaxLifetime = connLifetime
	}
	switch {
	case o.MasterName != "" && !o.IsClusterMode:
		d.mode = sentinel
		f := o.Failover()
		f.OnConnect = d.greet("", o.OnConnect)
		c := redis.NewFailoverClient(f)
		c.AddHook(watch{d})
		d.client = c
	case o.IsClusterMode || len(o.Addrs) > 1:
		d.mode = cluster
		c := o.Cluster()
		c.DisableRoutingPolicies = true
		theirs := o.OnConnect
		c.NewClient = func(node *redis.Options) *redis.Client {
			node.OnConnect = d.greet(node.Addr, theirs)
			client := redis.NewClient(node)
			client.AddHook(watch{d})
			return client
		}
		d.client = redis.NewClusterClient(c)
	default:
		d.mode = single
		s := o.Simple()
		s.OnConnect = d.greet("", o.OnConnect)
		c := redis.NewClient(s)
		c.AddHook(watch{d})
		d.client = c
	}
}

// masters runs work on every master, and returns the first error. In a Cluster it
// runs on all of them at once.
func (d *Driver) masters(ctx context.Context, work func(ctx context.Context, c *redis.Client) error) error {
	switch c := d.client.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, work)
	case *redis.Client:
		return work(ctx, c)
	}
	return nil
}

// start makes a connection to every master, so that all of them are known, and
// gives them the scripts.
func (d *Driver) start(ctx context.Context) error {
	err := d.masters(ctx, func(ctx context.Context, c *redis.Client) error {
		for _, s := range scripts {
			if err := c.ScriptLoad(ctx, s.text).Err(); err != nil {
				if redisurl.Why(err, "") != "" { // it was not let in, or not reached
					return err
				}
				switch code(err) {
				case "ERR", "NOPERM":
					return fmt.Errorf("%w: it does not let this user run scripts", ErrServer)
				}
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = true
	return nil
}

// adopt finds the mark of the store, or sets it where nothing is, unless the store
// must exist.
func (d *Driver) adopt(ctx context.Context, existing bool) error {
	found, err := d.marked(ctx)
	if err != nil || found {
		return err
	}
	empty, err := d.empty(ctx)
	if err != nil {
		return err
	}
	if empty && existing {
		return fmt.Errorf("%w: there is none under the prefix %q", ErrMissing, d.prefix)
	}
	if empty {
		if err := d.client.SetNX(ctx, d.prefix+markKind, fmt.Sprint(magic, memory.Form), 0).Err(); err != nil {
			return err
		}
	}
	// Somebody else may have made the store meanwhile, of whatever version.
	if found, err = d.marked(ctx); err == nil && !found {
		err = fmt.Errorf("%w: there are keys under the prefix %q, and no store", memory.ErrForeign, d.prefix)
	}
	return err
}

func (d *Driver) marked(ctx context.Context) (bool, error) {
	mark, err := d.client.Get(ctx, d.prefix+markKind).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil
	case code(err) == "WRONGTYPE":
		return false, memory.ErrForeign
	case err != nil:
		return false, err
	}
	number, ok := strings.CutPrefix(mark, magic)
	if !ok {
		return false, memory.ErrForeign
	}
	form, _ := strconv.Atoi(number) // what is no number is of no form
	return true, memory.CheckForm(form)
}

// empty says whether there is no key under the prefix.
func (d *Driver) empty(ctx context.Context) (bool, error) {
	keys, err := d.scan(ctx, d.prefix+":*", func(string) (string, bool) { return "", true })
	return len(keys) == 0, err
}
