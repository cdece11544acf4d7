package asynqqueue

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/hearsay-go/hearsay/promotion"
)

// maxLinks bounds the links of one span.
const maxLinks = 32

// offering begins the span of an offer, which is linked to the reads that led to it. An
// offer that no span asked for gets none.
func (q *Queue) offering(ctx context.Context, rows []promotion.Offer) (offer context.Context, end func()) {
	var links []trace.Link
	seen := map[trace.SpanID]bool{}
	for _, o := range rows {
		if len(links) < maxLinks && o.Reader.IsValid() && !seen[o.Reader.SpanID()] {
			seen[o.Reader.SpanID()] = true
			links = append(links, trace.Link{SpanContext: o.Reader})
		}
	}
	if len(links) == 0 && !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, func() {}
	}
	ctx, span := q.opts.Tracer.Start(ctx, "promotion.enqueue", trace.WithSpanKind(trace.SpanKindProducer), trace.WithLinks(links...),
		trace.WithAttributes(attribute.String("messaging.destination.name", q.name), attribute.Int("hearsay.rows", len(rows))))
	return ctx, func() { span.End() }
}

const traceparent = "traceparent" // W3C Trace Context

// traced is what Redis keeps of the spans that want a row: of the offer, and of the read.
// It is "" if nothing is traced.
func (q *Queue) traced(offer context.Context, reader trace.SpanContext) string {
	var out []string
	for _, span := range []trace.SpanContext{trace.SpanContextFromContext(offer), reader} {
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), span), carrier)
		if carrier[traceparent] != "" {
			out = append(out, carrier[traceparent])
		}
	}
	return strings.Join(out, " ")
}

// taken begins the span of a row that was taken: a trace of its own, since the wait for
// it may be long, linked to those that wanted it. What Redis says of them is read as
// trace contexts and as nothing else.
func (q *Queue) taken(ctx context.Context, c claim) (checked context.Context, end func(error)) {
	var links []trace.Link
	for _, text := range strings.Fields(c.trace) {
		from := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: text})
		if span := trace.SpanContextFromContext(from); span.IsValid() && len(links) < maxLinks {
			links = append(links, trace.Link{SpanContext: span})
		}
	}
	ctx, span := q.opts.Tracer.Start(ctx, "promotion.process", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links...),
		trace.WithAttributes(attribute.String("messaging.destination.name", q.name), attribute.String("hearsay.row", string(c.id)), attribute.Int("hearsay.lost", c.lost)))
	return ctx, func(err error) {
		if err != nil { // its text may quote the row
			span.SetStatus(codes.Error, "not checked")
		}
		span.End()
	}
}
