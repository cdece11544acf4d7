// Package redisurl reads the URLs of Redis servers: of one, of a Cluster, and of a
// master that Sentinels watch. The store and the queue are named the same way.
package redisurl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	neturl "net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory/reach"
)

// The Redis client has one logger for the whole process, which writes to stderr. What it
// says there is in the errors that its callers get. So its lines go to [slog.Default], at
// debug, from the moment that this package is initialised. A program that sets a logger
// of its own with [redis.SetLogger] does so later, and keeps it: nothing sets one again.
func init() { redis.SetLogger(lines{}) }

type lines struct{}

// Printf implements the logger of go-redis.
func (lines) Printf(ctx context.Context, format string, args ...any) {
	if slog.Default().Enabled(ctx, slog.LevelDebug) {
		slog.DebugContext(ctx, "redis", "line", fmt.Sprintf(format, args...))
	}
}

// Server names what options lead to, for people: a host and its port, several of them,
// or the path of a socket.
func Server(o *redis.UniversalOptions) string {
	if len(o.Addrs) == 0 {
		return "localhost:6379" // which the client takes then
	}
	return strings.Join(o.Addrs, ", ")
}

// Why says why a server was not reached, or did not let a user in: with its name, as
// that of [Server]. It is "" if err is of another kind. The text holds nothing that the
// server sent.
func Why(err error, server string) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return reach.Why(err, server)
	}
	switch text := reply.Error(); {
	case strings.HasPrefix(text, "WRONGPASS "), strings.Contains(text, "invalid password"), strings.Contains(text, "without any password configured"):
		return server + " does not know the user or the password"
	case strings.HasPrefix(text, "NOAUTH "):
		return server + " wants a user and a password"
	case strings.Contains(text, "DB index is out of range"):
		return server + " has no database of that number"
	}
	return ""
}

// ErrURL: the URL names no server. The URL is never in the text, since it may hold a
// password.
var ErrURL = errors.New("redisurl: the URL or the options cannot be used")

// Parse reads a URL without dialling. Of a server it is what [redis.ParseURL] reads;
// of a Cluster and of Sentinel, which that does not know, it is
//
//	redis://host:6379,host:6379/?cluster=true
//	redis://host:26379,host:26379/?master=name&sentinel_username=…&sentinel_password=…
//
// An error wraps [ErrURL], and says nothing of what is in the URL.
func Parse(url string) (*redis.UniversalOptions, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	if !slices.Contains([]string{"redis", "rediss", "unix"}, scheme) {
		return nil, fmt.Errorf("%w: want redis://, rediss:// or unix://", ErrURL)
	}
	var hosts []string
	if scheme != "unix" {
		authority, path := rest, ""
		if end := strings.IndexAny(rest, "/?#"); end >= 0 {
			authority, path = rest[:end], rest[end:]
		}
		user := authority[:strings.LastIndex(authority, "@")+1]
		hosts = strings.Split(authority[len(user):], ",")
		url = scheme + "://" + user + hosts[0] + path
	}
	u, err := neturl.Parse(url)
	if err != nil {
		return nil, fmt.Errorf("%w: the URL does not parse", ErrURL)
	}
	query := u.Query()
	take := func(name string) string {
		defer query.Del(name)
		return query.Get(name)
	}
	isCluster, master := take("cluster"), take("master")
	sentinelUser, sentinelPassword := take("sentinel_username"), take("sentinel_password")
	u.RawQuery = query.Encode()
	one, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, fmt.Errorf("%w: the URL does not parse", ErrURL)
	}
	switch {
	case isCluster != "" && isCluster != "true" && isCluster != "false":
		return nil, fmt.Errorf("%w: cluster is true or false", ErrURL)
	case isCluster == "true" && (master != "" || one.DB != 0 || scheme == "unix"):
		return nil, fmt.Errorf("%w: a cluster has no master by name, only database 0, and no socket", ErrURL)
	case master != "" && scheme == "unix":
		return nil, fmt.Errorf("%w: Sentinel has no socket", ErrURL)
	case len(hosts) > 1 && isCluster != "true" && master == "":
		return nil, fmt.Errorf("%w: of several hosts, say cluster=true or master=NAME", ErrURL)
	}
	o := &redis.UniversalOptions{
		Addrs: []string{one.Addr}, DB: one.DB, Username: one.Username, Password: one.Password, TLSConfig: one.TLSConfig,
		ClientName: one.ClientName, MaxRetries: one.MaxRetries, MinRetryBackoff: one.MinRetryBackoff, MaxRetryBackoff: one.MaxRetryBackoff,
		DialTimeout: one.DialTimeout, ReadTimeout: one.ReadTimeout, WriteTimeout: one.WriteTimeout,
		PoolFIFO: one.PoolFIFO, PoolSize: one.PoolSize, PoolTimeout: one.PoolTimeout, MinIdleConns: one.MinIdleConns, MaxIdleConns: one.MaxIdleConns,
		MaxActiveConns: one.MaxActiveConns, ConnMaxIdleTime: one.ConnMaxIdleTime, ConnMaxLifetime: one.ConnMaxLifetime,
		IsClusterMode: isCluster == "true", MasterName: master, SentinelUsername: sentinelUser, SentinelPassword: sentinelPassword,
	}
	if o.TLSConfig != nil && (o.IsClusterMode || master != "") {
		o.TLSConfig.ServerName = "" // each server has its own
	}
	port := "6379"
	if master != "" {
		port = "26379"
	}
	if scheme != "unix" {
		o.Addrs = nil
		for _, h := range hosts {
			if _, _, err := net.SplitHostPort(h); err != nil {
				h = net.JoinHostPort(strings.Trim(h, "[]"), port)
			}
			o.Addrs = append(o.Addrs, h)
		}
	}
	return o, nil
}
