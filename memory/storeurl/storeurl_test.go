//go:build unix

package storeurl_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/internal/teststore"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

func TestMain(m *testing.M) { testmain.Run(m) }

const secret = "s3cr3tXYZ"

func TestCheck(t *testing.T) {
	good, bad := 0, 0
	for _, url := range []string{
		"sqlite:agent.db", "sqlite:/var/lib/agent.db", "sqlite:///var/lib/agent.db", "sqlite:./a b?c#d@e.db", "sqlite:C:\\agent.db",
		"redis://h", "redis://h:6379", "redis://h:6379/7", "redis://:" + secret + "@h:6379/0", "rediss://u:" + secret + "@h", "redis://[::1]:6379", "redis://h?pool_size=3&dial_timeout=2s",
		"redis://a,b:6380,c/?cluster=true", "redis://:" + secret + "@s1,s2/?master=m&sentinel_password=" + secret, "redis://u:%2F%3F%23%40@h",
		"postgres://u@h/db", "postgresql://u:" + secret + "@h:5433/db?sslmode=disable", "postgres://a,b:5433/db?target_session_attrs=read-write",
		"postgres:///db?host=/run/postgresql", "postgres://u@h/db?schema=team_2", "postgres://h/db?password=" + secret, "postgres://u:%2F%3F%23%40@h/db",
	} {
		good++
		if err := storeurl.Check(url); err != nil {
			t.Errorf("%s: %v", strings.ReplaceAll(url, secret, "…"), err)
		}
	}
	for _, c := range []struct{ name, url, say string }{
		{"nothing", "", "want sqlite:PATH"},
		{"a bare path", "agent.db", "want sqlite:PATH"},
		{"another database", "mysql://u:" + secret + "@h/db", "want sqlite:PATH"},
		{"a scheme in capitals", "SQLITE:agent.db", "want sqlite:PATH"},
		{"a socket of Redis", "unix://:" + secret + "@/run/redis.sock", "want sqlite:PATH"},
		{"SQLite without a path", "sqlite:", "needs a path"},
		{"SQLite with a host", "sqlite://agent.db", "takes a path and no host"},
		{"SQLite with a NUL in its path", "sqlite:a\x00b", "NUL"},
		{"Redis without a host", "redis:h", "want redis://HOST:PORT"},
		{"Redis over TLS without a host", "rediss:h", "want rediss://HOST:PORT"},
		{"PostgreSQL without a host", "postgres:h/db", "want postgres://USER@HOST/DATABASE"},
		{"PostgreSQL by its other name without a host", "postgresql:h", "want postgresql://USER@HOST/DATABASE"},
		{"a port of Redis that is none", "redis://:" + secret + "@h:port", "the host or the port"},
		{"a port that is too large", "postgres://u:" + secret + "@h:65536/db", "the host or the port"},
		{"port 0", "redis://h:0", "the host or the port"},
		{"a password for a port", "redis://user:" + secret, "the host or the port"},
		{"a password with a slash", "redis://:" + secret + "/x@h", "the host or the port"},
		{"a password with a question mark", "postgres://u:" + secret + "?x@h/db", "the host or the port"},
		{"a password with a number sign", "postgres://u:" + secret + "#x@h/db", "the host or the port"},
		{"an address of IPv6 that is none", "redis://[" + secret + "]:1", "the host or the port"},
		{"a password of Redis that is not encoded", "redis://:%zz" + secret + "@h", "the user or password"},
		{"a password of PostgreSQL that is not encoded", "postgres://u:%zz" + secret + "@h/db", "the user or password"},
		{"a database of Redis that is no number", "redis://:" + secret + "@h/one", "the database"},
		{"a database of a Cluster", "redis://:" + secret + "@a,b/1?cluster=true", "the database"},
		{"an unknown parameter of Redis", "redis://:" + secret + "@h/?pool=3", "the parameter pool "},
		{"a parameter of Redis of the wrong kind", "redis://:" + secret + "@h/?db=0&pool_size=many" + secret, "the parameter pool_size "},
		{"a parameter of a Cluster of the wrong kind", "redis://:" + secret + "@a,b/?cluster=true&pool_size=many", "the parameter pool_size "},
		{"a Cluster by halves", "redis://h/?cluster=perhaps", "the parameter cluster "},
		{"several hosts of what", "redis://:" + secret + "@a,b", "do not fit together"},
		{"a Cluster with a master by name", "redis://h/?cluster=true&master=" + secret, "do not fit together"},
		{"a parameter of PostgreSQL of the wrong kind", "postgres://u:" + secret + "@h/db?connect_timeout=soon", "the parameter connect_timeout "},
		{"a schema that is no plain name", "postgres://u:" + secret + "@h/db?schema=a%3Bb", "the parameter schema "},
		{"an unknown way of TLS", "postgres://u:" + secret + "@h/db?sslmode=perhaps", "the parameter sslmode "},
		{"a certificate that is not there", "postgres://u@h/db?sslrootcert=/none/" + secret, "the parameter sslrootcert "},
		{"a password among the parameters, cut by its own mark", "redis://h/?sentinel_password=a&" + strings.ToLower("scretxyz") + "=1", "(not shown)"},
	} {
		bad++
		t.Run(c.name+" is refused", func(t *testing.T) {
			err := storeurl.Check(c.url)
			if !errors.Is(err, storeurl.ErrURL) || !strings.Contains(err.Error(), c.say) {
				t.Fatalf("%v, want %q", err, c.say)
			}
			if _, open := storeurl.Open(t.Context(), c.url, nil); !errors.Is(open, storeurl.ErrURL) {
				t.Errorf("Open: %v", open)
			}
			for _, never := range []string{secret, "scretxyz"} {
				if strings.Contains(err.Error(), never) || strings.Contains(storeurl.Redacted(c.url), secret) {
					t.Error("what may be a password is shown")
				}
			}
		})
	}
	t.Logf("%d good and %d bad URLs", good, bad)
}

func TestRedacted(t *testing.T) {
	for url, want := range map[string]string{
		"sqlite:/var/agent.db":                                  "sqlite:/var/agent.db",
		"redis://u:" + secret + "@h:6379/3":                     "redis://h:6379/3",
		"redis://:" + secret + "@a:1,b:2,[::1]:3/?master=m":     "redis://a:1,b:2,[::1]:3/",
		"rediss://h?sentinel_password=" + secret:                "rediss://h",
		"postgres://u:p@" + secret + "@h/db?password=" + secret: "postgres://h/db",
		"postgres:///db?host=/run/p":                            "postgres:///db",
		"postgres://u:" + secret + "/@h/db":                     "postgres://…",
		"postgres://u:" + secret + "?@h/db":                     "postgres://…",
		"postgres://u:" + secret + "#@h/db":                     "postgres://…",
		"postgres://u:" + secret:                                "postgres://…",
		"":                                                      "(not a store)",
		secret:                                                  "(not a store)",
		secret + "://h":                                         "(not a store)",
	} {
		if got := storeurl.Redacted(url); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// FuzzURL: no URL makes anything panic, and what is between a user and the last @,
// or in a parameter, is never shown.
func FuzzURL(f *testing.F) {
	for _, seed := range [][5]string{
		{"redis", "u:", "", "h:6379", "/0?pool_size=3"}, {"postgres", "u:", "x", "h", "/db?sslmode=disable"}, {"rediss", "/", "?#@", "a,b", "/?cluster=true"},
		{"postgres", "%zz", "%", "[::1]:1", "/?connect_timeout=soon"}, {"redis", "", "", "", ""}, {"sqlite", "", "", "", ""}, {"redis", "\x00", "&a=", "h:0", "#"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	f.Fuzz(func(t *testing.T, scheme, before, after, hosts, tail string) {
		raw := scheme + ":" + before + after + hosts + tail
		_, _ = storeurl.Check(raw), storeurl.Redacted(raw)
		switch scheme {
		case "redis", "rediss", "postgres", "postgresql":
		default:
			return // a path, which is shown, or no store at all
		}
		for _, url := range []string{
			scheme + "://" + before + secret + after + "@" + hosts + tail,
			scheme + "://" + hosts + "/?password=" + before + secret + after,
			scheme + "://" + hosts + "/?sentinel_password=" + before + secret + after,
		} {
			shown := storeurl.Redacted(url)
			err := storeurl.Check(url)
			if err != nil {
				shown += err.Error()
				if !errors.Is(err, storeurl.ErrURL) {
					t.Errorf("%v", err)
				}
			}
			if _, err := storeurl.Driver(over, url, nil); err == nil {
				t.Error("a store was opened after the end")
			} else {
				shown += err.Error()
			}
			if strings.Contains(shown, secret) {
				t.Errorf("the password is shown: %q of %q", shown, url)
			}
		}
	})
}

func row(subject string) memory.Draft {
	return memory.Draft{Content: memory.Content{Subject: subject, Predicate: "is in", Object: "Oslo", Cardinality: memory.CardinalityFunctional},
		Origin: memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
		Asserter: memory.Asserter{Principal: "ana", Model: "m", Family: "f"}}
}

// TestOpen opens a store of each scheme twice: what the first wrote the second reads.
func TestOpen(t *testing.T) {
	redis, err := server.Redis(t.Context(), server.RedisOptions{Password: secret})
	server.Need(t, err)
	defer redis.Stop()
	postgres, err := server.Postgres(t.Context(), "fsync=off")
	server.Need(t, err)
	defer postgres.Stop(context.WithoutCancel(t.Context()))
	if _, err := pgstore.Migrate(t.Context(), postgres.URL(), nil); err != nil {
		t.Fatal(err)
	}
	stores := 0
	t.Run("a Redis without a store stays without one if it must be there already", func(t *testing.T) {
		for range 2 {
			if _, err := storeurl.Open(t.Context(), redis.URL(), &storeurl.Options{Existing: true}); !errors.Is(err, storeurl.ErrMissing) {
				t.Errorf("%v", err)
			}
		}
	})
	for _, c := range []struct{ name, url string }{
		{"SQLite", "sqlite:" + filepath.Join(t.TempDir(), "agent.db")}, {"Redis", redis.URL()}, {"PostgreSQL", postgres.URL()},
	} {
		t.Run(c.name+" is opened, written and read again", func(t *testing.T) {
			o := &storeurl.Options{Keyring: filepath.Join(t.TempDir(), "keys")}
			s, err := storeurl.Open(t.Context(), c.url, o)
			if err != nil {
				t.Fatal(err)
			}
			put, err := s.Put(t.Context(), row("acme"))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			o.Existing = true
			if s, err = storeurl.Open(t.Context(), c.url, o); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if rows, err := s.Get(t.Context(), put.ID); err != nil || rows[0].Content.Object != "Oslo" {
				t.Errorf("%v %v", rows, err)
			}
			other := &storeurl.Options{Keyring: filepath.Join(t.TempDir(), "other")}
			if _, err := storeurl.Open(t.Context(), c.url, other); !errors.Is(err, memory.ErrKey) || !strings.Contains(err.Error(), "bring it back") {
				t.Errorf("without its keyring: %v", err)
			}
			if _, err := os.Stat(other.Keyring); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a keyring was made in the place of the one that is not there: %v", err)
			}
			if _, err := keyring.Create(other.Keyring, nil); err != nil {
				t.Fatal(err)
			}
			stranger, err := storeurl.Open(t.Context(), c.url, other)
			if err != nil {
				t.Fatal(err)
			}
			defer stranger.Close()
			if _, err := stranger.Get(t.Context(), put.ID); !errors.Is(err, memory.ErrKey) {
				t.Errorf("with other keys: %v", err)
			}
			stores++
		})
	}
	if stores != 3 {
		t.Fatalf("%d stores were opened", stores)
	}
	t.Run("a server that asks for another password is an error without one", func(t *testing.T) {
		_, err := storeurl.Open(t.Context(), strings.Replace(redis.URL(), secret, secret+"x", 1), nil)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%v", err)
		}
	})
	t.Run("strictly, a server without an fsync is refused", func(t *testing.T) {
		_, err := storeurl.Open(t.Context(), postgres.URL(), &storeurl.Options{Strict: true})
		var unsafe *pgstore.UnsafeError
		if !errors.As(err, &unsafe) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a server has no keyring by default, and nothing stays open", func(t *testing.T) {
		for _, url := range []string{redis.URL(), postgres.URL()} {
			if _, err := storeurl.Open(t.Context(), url, nil); !errors.Is(err, storeurl.ErrNoKeyring) {
				t.Errorf("%v", err)
			}
		}
	})
	t.Run("a server that is not there is an error without its password", func(t *testing.T) {
		for _, url := range []string{"redis://:" + secret + "@127.0.0.1:1", "postgres://u:" + secret + "@127.0.0.1:1/db?sslmode=disable"} {
			if _, err := storeurl.Open(t.Context(), url, nil); !errors.Is(err, memory.ErrStore) || strings.Contains(err.Error(), secret) {
				t.Errorf("%v", err)
			}
		}
	})
}

func TestOptions(t *testing.T) {
	inside := func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "agent.db") }
	t.Run("the keyring of a SQLite file is beside it, for its owner only", func(t *testing.T) {
		url := inside(t)
		s, err := storeurl.Open(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		info, err := os.Stat(strings.TrimPrefix(url, "sqlite:") + ".keys")
		if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
			t.Errorf("%v %v", info, err)
		}
	})
	t.Run("keys that a program gives win over a folder", func(t *testing.T) {
		ring, err := keyring.Create(filepath.Join(t.TempDir(), "keys"), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := storeurl.Keys(t.Context(), inside(t), &storeurl.Options{Keys: ring, Keyring: "/none"})
		if err != nil || got != memory.Keys(ring) {
			t.Errorf("%v %v", got, err)
		}
	})
	t.Run("what must be there and is not, is not made", func(t *testing.T) {
		url := inside(t)
		if _, err := storeurl.Open(t.Context(), url, &storeurl.Options{Existing: true}); !errors.Is(err, storeurl.ErrMissing) {
			t.Errorf("%v", err)
		}
		if found, _ := filepath.Glob(strings.TrimPrefix(url, "sqlite:") + "*"); len(found) > 0 {
			t.Errorf("%q was made", found)
		}
		s, err := storeurl.Open(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		_, err = storeurl.Open(t.Context(), url, &storeurl.Options{Existing: true, Keyring: filepath.Join(t.TempDir(), "none")})
		if !errors.Is(err, keyring.ErrNotFound) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a folder is no store", func(t *testing.T) {
		if _, err := storeurl.Open(t.Context(), "sqlite:"+t.TempDir(), nil); !errors.Is(err, storeurl.ErrURL) {
			t.Errorf("%v", err)
		}
	})
	t.Run("fast and strict exclude each other", func(t *testing.T) {
		_, err := storeurl.Open(t.Context(), inside(t), &storeurl.Options{Fast: true, Strict: true})
		var unsafe *sqlitestore.UnsafeError
		if !errors.As(err, &unsafe) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a store is of the tenant that was asked for", func(t *testing.T) {
		s, err := storeurl.Open(t.Context(), inside(t), &storeurl.Options{Options: memory.Options{Tenant: "acme", Namespace: "n"}, Fast: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if s.Tenant() != "acme" || s.Namespace() != "n" {
			t.Errorf("%s %s", s.Tenant(), s.Namespace())
		}
	})
	t.Run("options of a store that are none close what was opened", func(t *testing.T) {
		if s, err := storeurl.Open(t.Context(), inside(t), &storeurl.Options{Options: memory.Options{Tenant: strings.Repeat("x", 1<<20)}}); err == nil {
			s.Close()
			t.Error("a name of a megabyte was taken")
		}
	})
}

// TestWhoWaitsForAStoreIsTold, and no more once it is open.
func TestWhoWaitsForAStoreIsTold(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "agent.db")
	o := &storeurl.Options{Waiting: func(time.Duration) { t.Error("Waiting is called, and nobody waits") }}
	s, err := storeurl.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	unlock := teststore.Lock(t, strings.TrimPrefix(url, "sqlite:"))
	told := make(chan time.Duration, 9)
	o.Waiting = func(waited time.Duration) { told <- waited; unlock() }
	if s, err = storeurl.Open(t.Context(), url, o); err != nil {
		t.Fatal(err)
	}
	if waited := <-told; waited < 5*time.Second || len(told) > 0 {
		t.Errorf("told after %s, and %d times more", waited, len(told))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
