package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
)

// collector is a server that takes spans.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	bodies  []string
	headers []http.Header
	paths   []string
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("a batch that ends early: %v", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bodies, c.headers, c.paths = append(c.bodies, string(body)), append(c.headers, r.Header.Clone()), append(c.paths, r.URL.Path)
		io.WriteString(w, "{}")
	}))
	t.Cleanup(c.Close)
	return c
}

// span is what the test asks of a span, in either form.
type span struct {
	name, trace, parent string
	values              []string
}

// fromCollector reads requests in the JSON form of OTLP.
func fromCollector(t *testing.T, requests []string) (all []span) {
	t.Helper()
	for _, text := range requests {
		var r struct {
			ResourceSpans []struct {
				ScopeSpans []struct {
					Spans []struct {
						Name, TraceID, ParentSpanID string
						Attributes                  []struct{ Value struct{ StringValue string } }
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for _, resource := range r.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					one := span{name: s.Name, trace: s.TraceID, parent: s.ParentSpanID}
					for _, a := range s.Attributes {
						one.values = append(one.values, a.Value.StringValue)
					}
					all = append(all, one)
				}
			}
		}
	}
	return all
}

// fromStdout reads what the SDK prints.
func fromStdout(t *testing.T, text string) (all []span) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var s struct {
			Name                string
			SpanContext, Parent struct{ TraceID, SpanID string }
			Attributes          []struct{ Value struct{ Value any } }
		}
		err := d.Decode(&s)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		one := span{name: s.Name, trace: s.SpanContext.TraceID, parent: strings.Trim(s.Parent.SpanID, "0")}
		for _, a := range s.Attributes {
			one.values = append(one.values, fmt.Sprint(a.Value.Value))
		}
		all = append(all, one)
	}
}

func named(spans []span, name string) (out []span) {
	for _, s := range spans {
		if s.name == name {
			out = append(out, s)
		}
	}
	return out
}

// all returns what came so far.
func (c *collector) all() (bodies []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.bodies)
}

// spansOf returns the spans of each kind that a check of a row has.
func spansOf(spans []span, id memory.ID) (process, checks, asked []span) {
	of := slices.DeleteFunc(slices.Clone(spans), func(s span) bool { return !slices.Contains(s.values, string(id)) })
	return named(of, "promotion.process"), named(of, "promotion.check"), named(of, "promotion.verify")
}

// quick sends spans every 50 ms, and gives a collector minutes to take them.
var quick = []string{"OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_BSP_EXPORT_TIMEOUT=300000", "OTEL_EXPORTER_OTLP_TIMEOUT=300000"}

// TestSpansReachACollectorAndShowNoClaim runs the real worker over a right row, a wrong
// one, and one whose source answers nonsense that quotes it.
func TestSpansReachACollectorAndShowNoClaim(t *testing.T) {
	for _, to := range []string{"otlp", "stdout"} {
		t.Run(to, func(t *testing.T) {
			o := newOffice(t)
			odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, `{"found":"%s of umbrella %s"}`, right, secret)
			}))
			t.Cleanup(odd.Close)
			c := newCollector(t)
			path := filepath.Join(t.TempDir(), "agent.db")
			env := []string{"TMPDIR=" + shortDir(t), "CRM_TOKEN=" + secret, "OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_HEADERS=api-key=" + secret + "%20x",
				"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test"}
			d := start(t, append(env, quick...), "-store", "sqlite:"+path, "-trace", to, "-budget", "0", "-sweep-every", "200ms",
				"-verifier-http", "crm="+o.URL+"/fact,predicate=billing.email,token_env=CRM_TOKEN", "-verifier-http", "odd="+odd.URL+",predicate=billing.email")
			s := openStore(t, path)
			good, bad := put(t, s, "acme", right), put(t, s, "acme", wrong)
			other := put(t, s, "umbrella", right)
			eventually(t, "rows are checked", func() bool {
				one, two := get(t, s, good), get(t, s, bad)
				return one.State() == memory.StateVerified && two.Truth == memory.TruthContradicted
			})
			eventually(t, "the odd answer was seen", func() bool {
				_, body := d.get("/metrics")
				return strings.Contains(body, `hearsay_verifier_seconds_count{verifier="odd"}`) // there is none before the first question
			})
			eventually(t, "the spans of each row are sent", func() bool { // the end of the worker waits for the last ones only for a while
				spans := fromCollector(t, c.all())
				if to == "stdout" {
					text := d.out.String()
					spans = fromStdout(t, text[:strings.LastIndex(text, "\n")+1])
				}
				for _, id := range []memory.ID{good, bad, other} {
					if process, checks, asked := spansOf(spans, id); len(process) == 0 || len(checks) == 0 || len(asked) == 0 {
						return false
					}
				}
				return len(named(spans, "promotion.transition")) >= 2
			})
			if code := d.stop(); code != exitDone {
				t.Fatalf("exit %d\n%s", code, d.log())
			}
			all, spans := strings.Join(c.bodies, ""), fromCollector(t, c.bodies)
			if to == "stdout" {
				all, spans = d.out.String(), fromStdout(t, d.out.String())
				if len(c.bodies) > 0 {
					t.Error("spans went to the collector too")
				}
			} else {
				if out := d.out.String(); out != "" {
					t.Errorf("spans went to stdout too: %s", out)
				}
				for i, h := range c.headers {
					if h.Get("Api-Key") != secret+" x" || h.Get("Content-Type") != "application/json" || c.paths[i] != "/v1/traces" {
						t.Errorf("%s %v", c.paths[i], h)
					}
				}
			}
			for _, id := range []memory.ID{good, bad, other} {
				process, checks, asked := spansOf(spans, id)
				if len(process) == 0 || len(checks) == 0 || len(asked) == 0 || checks[0].parent == "" || checks[0].trace != process[0].trace && len(process) == 1 {
					t.Errorf("the spans of %s: %+v, %+v, %+v", id, process, checks, asked)
				}
			}
			if len(named(spans, "promotion.transition")) < 2 {
				t.Error("no transition has a span")
			}
			for _, want := range []string{`"hearsay-worker"`, `"deployment.environment.name"`, `"crm"`} {
				if !strings.Contains(all, want) {
					t.Errorf("no %s in the spans", want)
				}
			}
			for _, never := range []string{"acme", "umbrella", "billing", "example", secret, o.URL, odd.URL, path} {
				if strings.Contains(all, never) {
					t.Errorf("%q in the spans", never)
				}
			}
			if strings.Contains(d.log(), secret) {
				t.Errorf("a secret in the log\n%s", d.log())
			}
		})
	}
}

func TestACollectorThatIsDownCostsSpansAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
	}{
		{"a collector that refuses", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, secret, http.StatusUnauthorized) }},
		{"a collector that sends elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/"+secret, http.StatusTemporaryRedirect)
		}},
		{"a collector that takes a part", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"partialSuccess":{"rejectedSpans":"2","errorMessage":"`+secret+`"}}`)
		}},
		{"a collector that hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.answer)
			t.Cleanup(server.Close)
			o := newOffice(t)
			path := filepath.Join(t.TempDir(), "agent.db")
			d := start(t, []string{"TMPDIR=" + shortDir(t), "OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + server.URL + "/?token=" + secret, "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_EXPORTER_OTLP_TIMEOUT=1000", "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"},
				"-store", "sqlite:"+path, "-budget", "0", "-sweep-every", "200ms", "-verifier-http", "crm="+o.URL+",predicate=billing.email")
			s := openStore(t, path)
			id := put(t, s, "acme", right)
			d.wait("spans are lost")
			eventually(t, "the row is verified", func() bool { r := get(t, s, id); return r.State() == memory.StateVerified })
			asked := o.asked.Load()
			put(t, s, "umbrella", right)
			eventually(t, "another is asked about", func() bool { return o.asked.Load() > asked })
			if code := d.stop(); code != exitDone || strings.Count(d.log(), "spans are lost") != 1 || strings.Contains(d.log(), secret) {
				t.Errorf("exit %d\n%s", code, d.log())
			}
		})
	}
}

func TestWhereSpansGo(t *testing.T) {
	for _, c := range []struct {
		name string
		flag string
		env  func(string) string
		to   string
	}{
		{"nowhere by default", "", env(), traceOff},
		{"nowhere if an endpoint alone is set", "", env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:1"), traceOff},
		{"nowhere if none is asked for", "", env("OTEL_TRACES_EXPORTER", "none"), traceOff},
		{"nowhere if the SDK is off", "", env("OTEL_TRACES_EXPORTER", "otlp", "OTEL_SDK_DISABLED", "TRUE"), traceOff},
		{"nowhere if the flag says so", "off", env("OTEL_TRACES_EXPORTER", "otlp"), traceOff},
		{"to stdout by flag", "stdout", env("OTEL_TRACES_EXPORTER", "otlp"), traceStdout},
		{"to stdout by the environment", "", env("OTEL_TRACES_EXPORTER", "console"), traceStdout},
		{"to a collector by flag", "otlp", env(), traceOTLP},
		{"to a collector by the environment", "", env("OTEL_TRACES_EXPORTER", "otlp"), traceOTLP},
		{"to a collector in JSON, whatever other signals take", "otlp", env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"), traceOTLP},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &problems{}
			if got := p.trace(c.flag, c.env); len(p.list) > 0 || got != c.to {
				t.Errorf("%q %v", got, p.list)
			}
		})
	}
}

func TestAVariableOfTheExporterThatMakesNoSenseEndsTheWorkerAndIsNotRepeated(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS":     secret,
		"OTEL_EXPORTER_OTLP_ENDPOINT":    "http://" + secret + "\x7f",
		"OTEL_EXPORTER_OTLP_TIMEOUT":     secret,
		"OTEL_EXPORTER_OTLP_CERTIFICATE": "/" + secret,
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			_, _, err := newTracer(t.Context(), traceOTLP, io.Discard, slog.New(slog.DiscardHandler))
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Error(err)
			}
		})
	}
}

// TestACollectorThatRedirectsGetsNoSecretSentElsewhere: only what the operator named sees
// the headers, whatever it answers.
func TestACollectorThatRedirectsGetsNoSecretSentElsewhere(t *testing.T) {
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		elsewhere := newCollector(t)
		var asked atomic.Int64
		named := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			http.Redirect(w, r, elsewhere.URL, status)
		}))
		t.Cleanup(named.Close)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", named.URL)
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key="+secret)
		for _, v := range quick {
			name, value, _ := strings.Cut(v, "=")
			t.Setenv(name, value)
		}
		var log testmain.Output
		tracer, last, err := newTracer(t.Context(), traceOTLP, io.Discard, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		_, span := tracer.Start(t.Context(), "promotion.check")
		span.End()
		eventually(t, "it is said that the span is lost", func() bool { return strings.Contains(log.String(), "spans are lost") })
		last(t.Context())
		if asked.Load() != 1 || len(elsewhere.headers) > 0 || !strings.Contains(log.String(), "spans are lost") || strings.Contains(log.String(), secret) {
			t.Errorf("%d: asked %d times, and the other %d times with %v\n%s", status, asked.Load(), len(elsewhere.headers), elsewhere.headers, log.String())
		}
	}
}
