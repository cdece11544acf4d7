package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const (
	traceOff    = "off"
	traceStdout = "stdout"
	traceOTLP   = "otlp"

	// defaultTraceEndpoint is the one of the OpenTelemetry specification; the exporter
	// itself would ask for TLS there.
	defaultTraceEndpoint = "http://localhost:4318/v1/traces"
	// tracePatience is how long the last spans may take when the worker ends.
	tracePatience = 3 * time.Second
)

// trace takes where spans go from the flag, or from the standard variables of
// OpenTelemetry.
func (p *problems) trace(flag string, getenv func(string) string) (to string) {
	to = flag
	if flag == "" {
		switch exporter := getenv("OTEL_TRACES_EXPORTER"); {
		case exporter == "" || exporter == "none" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true"):
			to = traceOff
		case exporter == "console":
			to = traceStdout
		case exporter == "otlp":
			to = traceOTLP
		default:
			p.add("OTEL_TRACES_EXPORTER %q: want otlp, console or none", exporter)
		}
	}
	switch to {
	case traceOTLP:
		name := "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
		if getenv(name) == "" {
			name = "OTEL_EXPORTER_OTLP_PROTOCOL"
		}
		switch getenv(name) {
		case "", "http/protobuf", "http/json":
		default:
			p.add("%s %q: want http/protobuf or http/json", name, getenv(name))
		}
	case "", traceOff, traceStdout:
	default:
		p.add("-trace %q: want off, stdout or otlp", flag)
	}
	return to
}

// newTracer returns the tracer of the process and what sends the last spans and ends
// it. Spans wait in memory, some two thousand at most: a collector that is down costs
// spans, and no check waits for it. The exporter to a collector takes the standard
// OTEL_EXPORTER_OTLP variables; one that makes no sense is an error.
func newTracer(ctx context.Context, to string, out io.Writer, log *slog.Logger) (trace.Tracer, func(context.Context), error) {
	if to == traceOff || to == "" {
		return noop.NewTracerProvider().Tracer(""), func(context.Context) {}, nil
	}
	said := &complaints{}
	otel.SetLogger(logr.FromSlogHandler(said))
	var exporter sdktrace.SpanExporter
	var err error
	if to == traceOTLP {
		options := []otlptracehttp.Option{otlptracehttp.WithProxy(stayHere)}
		if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
			options = append(options, otlptracehttp.WithEndpointURL(defaultTraceEndpoint))
		}
		exporter, err = otlptracehttp.New(ctx, options...)
	} else {
		exporter, err = stdouttrace.New(stdouttrace.WithWriter(out))
	}
	if err == nil {
		err = said.err()
	}
	if err != nil {
		return nil, nil, err
	}
	r, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "hearsay-worker"), attribute.String("service.version", version())), resource.WithFromEnv())
	switch {
	case errors.Is(err, resource.ErrPartialResource):
		log.Warn("OTEL_RESOURCE_ATTRIBUTES is obeyed in part: want NAME=VALUE[,NAME=VALUE…]")
	case err != nil:
		return nil, nil, err
	}
	// What an exporter says of a fault quotes addresses and answers, which may hold
	// secrets: it is told without them.
	told := &telling{SpanExporter: exporter, log: log}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { told.faulty.Store(true) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(r), sdktrace.WithBatcher(told))
	return provider.Tracer("github.com/hearsay-go/hearsay", trace.WithInstrumentationVersion(version())), func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, tracePatience)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last spans may be lost")
		}
	}, nil
}

// stayHere is the proxy of the environment, and none for a request that a redirect led
// to: spans, and the secrets in the headers, go to the collector that was named and
// nowhere else.
func stayHere(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, errors.New("the collector redirects")
	}
	return http.ProxyFromEnvironment(r)
}

// telling says once that spans are lost, and once that they are sent again.
type telling struct {
	sdktrace.SpanExporter
	log    *slog.Logger
	faulty atomic.Bool // the collector took a part of a batch, of which the exporter says no more
	lost   bool        // batches come one after the other
}

// ExportSpans implements [sdktrace.SpanExporter].
func (t *telling) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := t.SpanExporter.ExportSpans(ctx, spans)
	lost := t.faulty.Swap(false) || err != nil
	switch {
	case lost && !t.lost:
		t.log.Warn("spans are lost: the collector does not take them")
	case t.lost && !lost:
		t.log.Info("spans are sent again")
	}
	t.lost = lost
	return err
}

// complaints keeps what an exporter says of its variables, and none of their values:
// headers and URLs hold secrets.
type complaints struct {
	mu   sync.Mutex
	list []string
}

func (c *complaints) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.list) == 0 {
		return nil
	}
	return fmt.Errorf("a variable OTEL_EXPORTER_OTLP_… makes no sense: %s", strings.Join(c.list, "; "))
}

// Enabled implements [slog.Handler].
func (c *complaints) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle implements [slog.Handler].
func (c *complaints) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.list) < 10 {
		c.list = append(c.list, r.Message)
	}
	return nil
}

// WithAttrs implements [slog.Handler].
func (c *complaints) WithAttrs([]slog.Attr) slog.Handler { return c }

// WithGroup implements [slog.Handler].
func (c *complaints) WithGroup(string) slog.Handler { return c }
