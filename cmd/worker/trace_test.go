package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

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

// spansOf are the spans of requests, one a text.
func spansOf(t *testing.T, requests []string) (all []otlpSpan) {
	t.Helper()
	for _, text := range requests {
		var r otlpRequest
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for _, resource := range r.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				all = append(all, scope.Spans...)
			}
		}
	}
	return all
}

func named(spans []otlpSpan, name string) (out []otlpSpan) {
	for _, s := range spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// TestSpansReachACollectorAndShowNoClaim runs the real worker over a right row, a wrong
// one, and one whose source answers nonsense that quotes it. The last spans come with the
// end of the worker.
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
			env := []string{"TMPDIR=" + shortDir(t), "CRM_TOKEN=" + secret, "OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_EXPORTER_OTLP_HEADERS=api-key=" + secret + "%20x",
				"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test"}
			d := start(t, env, "-store", "sqlite:"+path, "-trace", to, "-budget", "0", "-sweep-every", "200ms",
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
			if code := d.stop(); code != exitDone {
				t.Fatalf("exit %d\n%s", code, d.log())
			}
			requests := c.bodies
			if to == "stdout" {
				requests = strings.Split(strings.TrimSpace(d.out.String()), "\n")
				if len(c.bodies) > 0 {
					t.Error("spans went to the collector too")
				}
			} else {
				if d.out.Len() > 0 {
					t.Errorf("spans went to stdout too: %s", d.out.String())
				}
				for i, h := range c.headers {
					if h.Get("Api-Key") != secret+" x" || h.Get("Content-Type") != "application/json" || c.paths[i] != "/v1/traces" {
						t.Errorf("%s %v", c.paths[i], h)
					}
				}
			}
			spans := spansOf(t, requests)
			for _, id := range []memory.ID{good, bad, other} {
				of := slices.DeleteFunc(slices.Clone(spans), func(s otlpSpan) bool {
					return !slices.ContainsFunc(s.Attributes, func(a otlpAttribute) bool { return a.Value["stringValue"] == string(id) })
				})
				process, checks, asked := named(of, "promotion.process"), named(of, "promotion.check"), named(of, "promotion.verify")
				if len(process) == 0 || len(checks) == 0 || len(asked) == 0 || checks[0].Parent == "" || checks[0].Trace != process[0].Trace && len(process) == 1 {
					t.Errorf("the spans of %s: %+v", id, of)
				}
			}
			if len(named(spans, "promotion.transition")) < 2 {
				t.Error("no transition has a span")
			}
			all := strings.Join(requests, "")
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
		say    string
	}{
		{"a collector that refuses", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, secret, http.StatusUnauthorized) }, "the collector answered 401"},
		{"a collector that sends elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/"+secret, http.StatusTemporaryRedirect)
		}, "the collector answered 307"},
		{"a collector that takes a part", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"partialSuccess":{"rejectedSpans":"2","errorMessage":"`+secret+`"}}`)
		}, "the collector refused 2 spans"},
		{"a collector that hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "spans are lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.answer)
			t.Cleanup(server.Close)
			o := newOffice(t)
			path := filepath.Join(t.TempDir(), "agent.db")
			d := start(t, []string{"TMPDIR=" + shortDir(t), "OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + server.URL + "/?token=" + secret, "OTEL_BSP_SCHEDULE_DELAY=50"},
				"-store", "sqlite:"+path, "-budget", "0", "-sweep-every", "200ms", "-verifier-http", "crm="+o.URL+",predicate=billing.email")
			s := openStore(t, path)
			id := put(t, s, "acme", right)
			d.wait("spans are lost")
			eventually(t, "the row is verified", func() bool { r := get(t, s, id); return r.State() == memory.StateVerified })
			asked := o.asked.Load()
			put(t, s, "umbrella", right)
			eventually(t, "another is asked about", func() bool { return o.asked.Load() > asked })
			if code := d.stop(); code != exitDone || !strings.Contains(d.log(), c.say) || strings.Count(d.log(), "spans are lost") != 1 || strings.Contains(d.log(), secret) {
				t.Errorf("exit %d\n%s", code, d.log())
			}
		})
	}
}

// TestOTLPInJSON holds a batch against what OTLP 1 says of its JSON form.
func TestOTLPInJSON(t *testing.T) {
	var got []byte
	exporter := &otlp{sent: func() {}, write: func(_ context.Context, body []byte) error { got = body; return nil }}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter), sdktrace.WithIDGenerator(&ids{}),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "w"))))
	at := time.Unix(1_700_000_000, 7)
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{0xab}, SpanID: trace.SpanID{0xcd}, TraceFlags: trace.FlagsSampled, Remote: true})
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), remote)
	_, span := provider.Tracer("t", trace.WithInstrumentationVersion("2")).Start(ctx, "s", trace.WithTimestamp(at), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithLinks(trace.Link{SpanContext: remote, Attributes: []attribute.KeyValue{attribute.Bool("b", true)}}),
		trace.WithAttributes(attribute.Int("i", -5), attribute.Float64("f", 0.5), attribute.Float64("nan", math.NaN()), attribute.Float64("inf", math.Inf(-1)), attribute.StringSlice("l", []string{"x"}),
			attribute.Int64Slice("n", []int64{1}), attribute.BoolSlice("bs", []bool{false}), attribute.Float64Slice("fs", []float64{2})))
	span.AddEvent("e", trace.WithTimestamp(at), trace.WithAttributes(attribute.String("k", "v")))
	span.SetStatus(codes.Error, "not checked")
	span.End(trace.WithTimestamp(at.Add(time.Second)))

	const want = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"w"}}]},"scopeSpans":[{"scope":{"name":"t","version":"2"},"spans":[{
		"traceId":"ab000000000000000000000000000000","spanId":"0200000000000000","flags":1,"parentSpanId":"cd00000000000000","name":"s","kind":5,
		"startTimeUnixNano":"1700000000000000007","endTimeUnixNano":"1700000001000000007",
		"attributes":[{"key":"i","value":{"intValue":"-5"}},{"key":"f","value":{"doubleValue":0.5}},{"key":"nan","value":{"doubleValue":"NaN"}},{"key":"inf","value":{"doubleValue":"-Infinity"}},
			{"key":"l","value":{"arrayValue":{"values":[{"stringValue":"x"}]}}},{"key":"n","value":{"arrayValue":{"values":[{"intValue":"1"}]}}},
			{"key":"bs","value":{"arrayValue":{"values":[{"boolValue":false}]}}},{"key":"fs","value":{"arrayValue":{"values":[{"doubleValue":2}]}}}],
		"events":[{"timeUnixNano":"1700000000000000007","name":"e","attributes":[{"key":"k","value":{"stringValue":"v"}}]}],
		"links":[{"traceId":"ab000000000000000000000000000000","spanId":"cd00000000000000","flags":1,"attributes":[{"key":"b","value":{"boolValue":true}}]}],
		"status":{"code":2,"message":"not checked"}}]}]}]}`
	var a, b any
	if err := json.Unmarshal([]byte(want), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &b); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	_, span = provider.Tracer("t").Start(t.Context(), "root")
	span.SetStatus(codes.Ok, "")
	span.End()
	if s := spansOf(t, []string{string(got)}); s[0].Parent != "" || s[0].Status.Code != 1 || s[0].Kind != 1 {
		t.Errorf("a root that went well: %s", got)
	}
	exporter.write = func(context.Context, []byte) error { return errors.New("no room") }
	if err := exporter.ExportSpans(t.Context(), tracetest.SpanStubs{{Name: "s"}}.Snapshots()); err == nil {
		t.Error("a batch that was not written was exported")
	}
}

// ids counts spans.
type ids struct{ n byte }

func (g *ids) NewIDs(context.Context) (trace.TraceID, trace.SpanID) {
	g.n++
	return trace.TraceID{g.n}, trace.SpanID{g.n + 1}
}

func (g *ids) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	g.n++
	return trace.SpanID{g.n + 1}
}

func TestWhereSpansGo(t *testing.T) {
	for _, c := range []struct {
		name     string
		flag     string
		env      func(string) string
		to       string
		endpoint string
	}{
		{"nowhere by default", "", env(), traceOff, ""},
		{"nowhere if an endpoint alone is set", "", env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:1"), traceOff, ""},
		{"nowhere if none is asked for", "", env("OTEL_TRACES_EXPORTER", "none"), traceOff, ""},
		{"nowhere if the SDK is off", "", env("OTEL_TRACES_EXPORTER", "otlp", "OTEL_SDK_DISABLED", "TRUE"), traceOff, ""},
		{"nowhere if the flag says so", "off", env("OTEL_TRACES_EXPORTER", "otlp"), traceOff, ""},
		{"to stdout by flag", "stdout", env("OTEL_TRACES_EXPORTER", "otlp"), traceStdout, ""},
		{"to stdout by the environment", "", env("OTEL_TRACES_EXPORTER", "console"), traceStdout, ""},
		{"to the collector of this machine", "otlp", env(), traceOTLP, defaultTraceEndpoint},
		{"to the collector of all signals", "", env("OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT", "https://h:1/base/"), traceOTLP, "https://h:1/base/v1/traces"},
		{"to the collector of traces, as it is written", "otlp", env("OTEL_EXPORTER_OTLP_ENDPOINT", "https://h:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:2/x?y"), traceOTLP, "http://t:2/x?y"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &problems{}
			got := p.trace(c.flag, c.env)
			if len(p.list) > 0 || got.to != c.to || got.endpoint != c.endpoint {
				t.Errorf("%+v %v", got, p.list)
			}
		})
	}
	t.Run("headers, timeout and protocol are those of traces, else those of all signals", func(t *testing.T) {
		p := &problems{}
		got := p.trace("otlp", env("OTEL_EXPORTER_OTLP_HEADERS", "a=1, b=x%3Dy=z ,", "OTEL_EXPORTER_OTLP_TIMEOUT", "5", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "7", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"))
		if len(p.list) > 0 || got.timeout != 7*time.Millisecond || got.headers.Get("a") != "1" || got.headers.Get("b") != "x=y=z" {
			t.Errorf("%+v %v", got, p.list)
		}
	})
}
