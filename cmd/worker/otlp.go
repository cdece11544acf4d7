package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// otlp is an exporter of spans in the JSON form of OTLP 1: each batch is one
// ExportTraceServiceRequest.
type otlp struct {
	write func(context.Context, []byte) error
	sent  func() // after each batch that was written
	close func() // nil = nothing to close
}

// ExportSpans implements [trace.SpanExporter].
func (o *otlp) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	body, err := encodeSpans(spans)
	if err != nil {
		return fmt.Errorf("otlp: %w", err)
	}
	if err := o.write(ctx, body); err != nil {
		return fmt.Errorf("otlp: %w", err)
	}
	o.sent()
	return nil
}

// Shutdown implements [trace.SpanExporter].
func (o *otlp) Shutdown(context.Context) error {
	if o.close != nil {
		o.close()
	}
	return nil
}

// lines writes each batch as a line.
func lines(out io.Writer) func(context.Context, []byte) error {
	var mu sync.Mutex
	return func(_ context.Context, body []byte) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := out.Write(append(body, '\n'))
		return err
	}
}

// maxCollectorAnswer is how much of a collector's answer is read.
const maxCollectorAnswer = 64 << 10

// post sends each batch to a collector. Its errors show nothing of the URL, the headers
// or the answer.
func post(client *http.Client, endpoint string, headers http.Header) func(context.Context, []byte) error {
	return func(ctx context.Context, body []byte) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
		if err != nil {
			return errors.New("the endpoint is no URL")
		}
		for name, values := range headers {
			r.Header[name] = values
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(r)
		if err != nil {
			var wrapped *url.Error
			if errors.As(err, &wrapped) {
				err = wrapped.Err
			}
			return err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(io.LimitReader(resp.Body, maxCollectorAnswer))
		if resp.StatusCode/100 != 2 {
			return fmt.Errorf("the collector answered %d", resp.StatusCode)
		}
		if err != nil {
			return err
		}
		var partial struct {
			PartialSuccess struct {
				RejectedSpans json.Number `json:"rejectedSpans"`
			} `json:"partialSuccess"`
		}
		if json.Unmarshal(answer, &partial) == nil { // an empty answer is a full success
			if n, err := partial.PartialSuccess.RejectedSpans.Int64(); err == nil && n > 0 {
				return fmt.Errorf("the collector refused %d spans of a batch", n)
			}
		}
		return nil
	}
}

// The messages of OTLP that are used, in their JSON form: ids are hexadecimal, 64-bit
// numbers are strings.
type (
	otlpRequest struct {
		ResourceSpans []otlpResourceSpans `json:"resourceSpans"`
	}
	otlpResourceSpans struct {
		Resource struct {
			Attributes []otlpAttribute `json:"attributes,omitempty"`
		} `json:"resource"`
		ScopeSpans []*otlpScopeSpans `json:"scopeSpans"`
		SchemaURL  string            `json:"schemaUrl,omitempty"`
	}
	otlpScopeSpans struct {
		Scope struct {
			Name    string `json:"name"`
			Version string `json:"version,omitempty"`
		} `json:"scope"`
		Spans []otlpSpan `json:"spans"`
	}
	otlpSpan struct {
		otlpContext
		Parent     string          `json:"parentSpanId,omitempty"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"`
		Start      string          `json:"startTimeUnixNano"`
		End        string          `json:"endTimeUnixNano"`
		Attributes []otlpAttribute `json:"attributes,omitempty"`
		Events     []otlpEvent     `json:"events,omitempty"`
		Links      []otlpLink      `json:"links,omitempty"`
		Status     struct {
			Code    int    `json:"code,omitempty"`
			Message string `json:"message,omitempty"`
		} `json:"status"`
		DroppedAttributes int `json:"droppedAttributesCount,omitempty"`
		DroppedEvents     int `json:"droppedEventsCount,omitempty"`
		DroppedLinks      int `json:"droppedLinksCount,omitempty"`
	}
	otlpContext struct {
		Trace string `json:"traceId"`
		Span  string `json:"spanId"`
		State string `json:"traceState,omitempty"`
		Flags uint32 `json:"flags"`
	}
	otlpEvent struct {
		Time       string          `json:"timeUnixNano"`
		Name       string          `json:"name"`
		Attributes []otlpAttribute `json:"attributes,omitempty"`
	}
	otlpLink struct {
		otlpContext
		Attributes []otlpAttribute `json:"attributes,omitempty"`
	}
	otlpAttribute struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
)

// encodeSpans is a request. All spans are of one provider, so of one resource.
func encodeSpans(spans []trace.ReadOnlySpan) ([]byte, error) {
	var all otlpResourceSpans
	if r := spans[0].Resource(); r != nil {
		all.Resource.Attributes, all.SchemaURL = otlpAttributes(r.Attributes()), r.SchemaURL()
	}
	scopes := map[instrumentation.Scope]*otlpScopeSpans{}
	for _, s := range spans {
		scope := s.InstrumentationScope()
		in := scopes[scope]
		if in == nil {
			in = &otlpScopeSpans{}
			in.Scope.Name, in.Scope.Version = scope.Name, scope.Version
			scopes[scope] = in
			all.ScopeSpans = append(all.ScopeSpans, in)
		}
		in.Spans = append(in.Spans, encodeSpan(s))
	}
	return json.Marshal(otlpRequest{[]otlpResourceSpans{all}})
}

func encodeSpan(s trace.ReadOnlySpan) otlpSpan {
	out := otlpSpan{
		otlpContext: otlpContextOf(s.SpanContext()), Name: s.Name(), Kind: int(s.SpanKind()), // OTLP counts kinds as the API does
		Start: otlpTime(s.StartTime()), End: otlpTime(s.EndTime()), Attributes: otlpAttributes(s.Attributes()),
		DroppedAttributes: s.DroppedAttributes(), DroppedEvents: s.DroppedEvents(), DroppedLinks: s.DroppedLinks(),
	}
	if s.Parent().HasSpanID() {
		out.Parent = s.Parent().SpanID().String()
	}
	for _, e := range s.Events() {
		out.Events = append(out.Events, otlpEvent{otlpTime(e.Time), e.Name, otlpAttributes(e.Attributes)})
	}
	for _, l := range s.Links() {
		out.Links = append(out.Links, otlpLink{otlpContextOf(l.SpanContext), otlpAttributes(l.Attributes)})
	}
	switch s.Status().Code { // which the API counts in another order
	case codes.Ok:
		out.Status.Code = 1
	case codes.Error:
		out.Status.Code, out.Status.Message = 2, s.Status().Description
	}
	return out
}

func otlpContextOf(c api.SpanContext) otlpContext {
	return otlpContext{Trace: c.TraceID().String(), Span: c.SpanID().String(), State: c.TraceState().String(), Flags: uint32(c.TraceFlags())}
}

func otlpTime(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func otlpAttributes(in []attribute.KeyValue) (out []otlpAttribute) {
	for _, kv := range in {
		out = append(out, otlpAttribute{string(kv.Key), otlpValue(kv.Value.AsInterface())})
	}
	return out
}

// otlpValue is an AnyValue. A kind that this version does not know is written as text.
func otlpValue(v any) map[string]any {
	switch v := v.(type) {
	case bool:
		return map[string]any{"boolValue": v}
	case int64:
		return map[string]any{"intValue": strconv.FormatInt(v, 10)}
	case float64:
		switch {
		case math.IsNaN(v):
			return map[string]any{"doubleValue": "NaN"}
		case math.IsInf(v, 0):
			return map[string]any{"doubleValue": map[bool]string{true: "Infinity", false: "-Infinity"}[v > 0]}
		}
		return map[string]any{"doubleValue": v}
	case string:
		return map[string]any{"stringValue": v}
	case []bool:
		return otlpArray(v)
	case []int64:
		return otlpArray(v)
	case []float64:
		return otlpArray(v)
	case []string:
		return otlpArray(v)
	}
	return map[string]any{"stringValue": fmt.Sprint(v)}
}

func otlpArray[T any](in []T) map[string]any {
	values := make([]map[string]any, len(in))
	for i, v := range in {
		values[i] = otlpValue(v)
	}
	return map[string]any{"arrayValue": map[string]any{"values": values}}
}
