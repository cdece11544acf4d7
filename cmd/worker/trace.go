package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// traceConfig is where spans go.
type traceConfig struct {
	to       string // traceOff, traceStdout or traceOTLP
	endpoint string // of OTLP
	headers  http.Header
	timeout  time.Duration // of one request
}

const (
	traceOff    = "off"
	traceStdout = "stdout"
	traceOTLP   = "otlp"

	defaultTraceEndpoint = "http://localhost:4318/v1/traces"
	defaultTraceTimeout  = 10 * time.Second
	// tracePatience is how long the last spans may take when the worker ends.
	tracePatience = 3 * time.Second
)

// trace takes what the flag or the standard variables of OpenTelemetry say. A variable
// that cannot be obeyed is a problem, so that nobody believes that it is.
func (p *problems) trace(flag string, getenv func(string) string) traceConfig {
	c := traceConfig{to: flag}
	if flag == "" {
		switch exporter := getenv("OTEL_TRACES_EXPORTER"); {
		case exporter == "" || exporter == "none" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true"):
			c.to = traceOff
		case exporter == "console":
			c.to = traceStdout
		case exporter == "otlp":
			c.to = traceOTLP
		default:
			p.add("OTEL_TRACES_EXPORTER %q: want otlp, console or none", exporter)
		}
	}
	switch c.to {
	case traceOTLP:
		p.otlp(&c, getenv)
	case "", traceOff, traceStdout:
	default:
		p.add("-trace %q: want off, stdout or otlp", flag)
	}
	return c
}

// otlp takes the variables of the exporter: the one for traces, else the one for all
// signals. It repeats no value, since headers and URLs hold secrets.
func (p *problems) otlp(c *traceConfig, getenv func(string) string) {
	of := func(what string) (value, name string) {
		name = "OTEL_EXPORTER_OTLP_TRACES_" + what
		if value = getenv(name); value == "" {
			name = "OTEL_EXPORTER_OTLP_" + what
			value = getenv(name)
		}
		return value, name
	}
	endpoint, name := of("ENDPOINT")
	c.endpoint = cmp.Or(endpoint, defaultTraceEndpoint)
	u, err := url.Parse(c.endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		p.add("%s: want http://HOST:PORT or https://HOST:PORT", name)
	case u.User != nil:
		p.add("%s: holds a user name or password; put it into OTEL_EXPORTER_OTLP_HEADERS", name)
	case endpoint != "" && name == "OTEL_EXPORTER_OTLP_ENDPOINT":
		c.endpoint = u.JoinPath("v1", "traces").String()
	}
	if protocol, name := of("PROTOCOL"); protocol != "" && protocol != "http/json" {
		p.add("%s: want http/json, which is all that this worker speaks", name)
	}
	if compression, name := of("COMPRESSION"); compression != "" && compression != "none" {
		p.add("%s: want none", name)
	}
	for _, what := range []string{"CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE"} {
		if value, name := of(what); value != "" {
			p.add("%s is not obeyed; SSL_CERT_FILE names the certificates that are trusted", name)
		}
	}
	c.timeout = defaultTraceTimeout
	if text, name := of("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms < 1 || ms > 600_000 {
			p.add("%s: want milliseconds, 1 to 600000", name)
		}
		c.timeout = time.Duration(ms) * time.Millisecond
	}
	c.headers = http.Header{}
	text, name := of("HEADERS")
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || !isHeader(key, value) {
			p.add("%s: want NAME=VALUE[,NAME=VALUE…], percent-encoded", name)
			return
		}
		c.headers.Add(key, value)
	}
}

func isHeader(name, value string) bool {
	for _, r := range name {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) {
			return false
		}
	}
	return name != "" && value == textproto.TrimString(value) && !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// newTracer returns the tracer of the process and what sends the last spans and ends
// it. Spans wait in memory, some two thousand at most: a collector that is down costs
// spans, and no check waits for it.
func newTracer(ctx context.Context, c traceConfig, out io.Writer, log *slog.Logger) (trace.Tracer, func(context.Context), error) {
	if c.to == traceOff || c.to == "" {
		return noop.NewTracerProvider().Tracer(""), func(context.Context) {}, nil
	}
	exporter := &otlp{write: lines(out)}
	if c.to == traceOTLP {
		client := &http.Client{Timeout: c.timeout, Transport: http.DefaultTransport.(*http.Transport).Clone(),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // headers are for this host
		exporter = &otlp{write: post(client, c.endpoint, c.headers), close: client.CloseIdleConnections}
	}
	r, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "hearsay-worker"), attribute.String("service.version", version())), resource.WithFromEnv())
	switch {
	case errors.Is(err, resource.ErrPartialResource):
		log.Warn("OTEL_RESOURCE_ATTRIBUTES is obeyed in part: want NAME=VALUE[,NAME=VALUE…]")
	case err != nil:
		return nil, nil, err
	}
	var lost atomic.Bool
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if !lost.Swap(true) { // said once, not for each batch
			log.Warn("spans are lost", "err", err)
		}
	}))
	exporter.sent = func() {
		if lost.Swap(false) {
			log.Info("spans are sent again")
		}
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(r), sdktrace.WithBatcher(exporter))
	return provider.Tracer("github.com/hearsay-go/hearsay", trace.WithInstrumentationVersion(version())), func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, tracePatience)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			otel.Handle(err)
		}
	}, nil
}
