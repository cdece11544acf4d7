package asynqqueue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// recorded is what spans a tracer made.
type recorded struct {
	*tracetest.SpanRecorder
	trace.Tracer
}

func record() recorded {
	r := tracetest.NewSpanRecorder()
	return recorded{r, sdk.NewTracerProvider(sdk.WithSpanProcessor(r)).Tracer("test")}
}

// of are the ended spans of a name about a row; "" = about any.
func (r recorded) of(name string, row memory.ID) (out []sdk.ReadOnlySpan) {
	for _, s := range r.Ended() {
		if s.Name() == name && (row == "" || slices.Contains(s.Attributes(), attribute.String("hearsay.row", string(row)))) {
			out = append(out, s)
		}
	}
	return out
}

func linksTo(s sdk.ReadOnlySpan, to trace.SpanContext) bool {
	return slices.ContainsFunc(s.Links(), func(l sdk.Link) bool {
		return l.SpanContext.TraceID() == to.TraceID() && l.SpanContext.SpanID() == to.SpanID()
	})
}

// traced is a worker with a tracer over the store of a world.
func (w *world) traced(spans recorded) *promotion.Worker {
	w.t.Helper()
	worker, err := promotion.NewWorker(w.store, []promotion.Source{{Name: "crm", Verifier: w.verifier, Rank: memory.RankTool}},
		&promotion.Options{Budget: -1, Tracer: spans})
	if err != nil {
		w.t.Fatal(err)
	}
	return worker
}

// TestSpansAreLinkedAcrossTheQueue follows a blocked call: the offer of its row is linked
// to it; the check, which is a trace of its own in what may be another process, to both;
// and the question and the transition are within the check.
func TestSpansAreLinkedAcrossTheQueue(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, verifiertest.Supports())
		agent, worker := record(), record()
		put := newQueue(client, &asynqqueue.Options{Tracer: agent})
		id := w.write("umbrella-7731", memory.StateUnverified)
		heater := promotion.NewHeater(w.store, put, nil)
		g, err := gate.New(w.store, gate.Policy{Name: "p", Declared: true}, &gate.Options{OnBlock: heater.ObserveBlocked})
		if err != nil {
			t.Fatal(err)
		}
		ctx, call := agent.Start(t.Context(), "call")
		d := g.Decide(ctx, gate.Request{Contract: gate.Contract{Tool: "book", Effect: gate.StateChanging}, Agent: "a", Run: "r", Principal: "ana", Lineage: gate.Known([]memory.ID{id}, nil)})
		call.End()
		if !d.Blocked() {
			t.Fatalf("%+v", d)
		}
		if err := heater.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.sweep(put) // has no span, and takes no link away
		enqueued := agent.of("promotion.enqueue", "")
		if len(enqueued) != 1 || !linksTo(enqueued[0], call.SpanContext()) || enqueued[0].SpanKind() != trace.SpanKindProducer {
			t.Fatalf("%d spans of offers, want one that is linked to the call", len(enqueued))
		}

		take := newQueue(client, &asynqqueue.Options{Tracer: worker})
		serve(t, take, w.traced(worker))
		eventually(t, "the row is verified and the spans ended", func() bool {
			return w.all(memory.StateVerified, id) && len(worker.of("promotion.process", id)) == 1
		})
		process := worker.of("promotion.process", id)[0]
		if !linksTo(process, enqueued[0].SpanContext()) || !linksTo(process, call.SpanContext()) || len(process.Links()) != 2 || process.Parent().IsValid() {
			t.Errorf("links %v, parent %v", process.Links(), process.Parent())
		}
		parent := process
		for _, name := range []string{"promotion.check", "promotion.verify"} {
			all := worker.of(name, id)
			if len(all) != 1 || all[0].Parent().SpanID() != parent.SpanContext().SpanID() {
				t.Fatalf("%d spans %s, want one within %s", len(all), name, parent.Name())
			}
			if name == "promotion.check" {
				parent = all[0]
			}
		}
		moved := worker.of("promotion.transition", id)
		if len(moved) != 1 || moved[0].Parent().SpanID() != parent.SpanContext().SpanID() || !slices.Contains(moved[0].Attributes(), attribute.String("hearsay.status", "promoted")) {
			t.Fatalf("%v", moved)
		}
		eventually(t, "Redis forgets the links of what is done", func() bool { return client.HLen(t.Context(), take.TraceKey()).Val() == 0 })
	})
}

func TestSpansShowNoClaim(t *testing.T) {
	client := inProcess(t)
	const secret = "umbrella-7731"
	said := errors.New("no such customer: " + secret)
	w := newWorld(t, verifiertest.Fails(said), verifiertest.Refutes(secret+"-not"), verifiertest.Supports())
	spans := record()
	q := newQueue(client, &asynqqueue.Options{Tracer: spans})
	worker := w.traced(spans)
	id := w.write(secret, memory.StateUnverified)
	for range 3 {
		if _, err := worker.Check(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Offer(trace.ContextWithSpanContext(t.Context(), spans.of("promotion.check", id)[0].SpanContext()), []promotion.Offer{{ID: id}}); err != nil {
		t.Fatal(err)
	}
	if n := len(spans.of("promotion.verify", id)); n < 2 {
		t.Fatalf("%d questions", n)
	}
	for _, s := range spans.Ended() {
		text := fmt.Sprint(s.Name(), s.Attributes(), s.Events(), s.Status(), s.Resource(), s.Links())
		if strings.Contains(text, secret) || strings.Contains(text, "customer") || len(s.Events()) > 0 {
			t.Errorf("%s shows what was claimed or said: %s", s.Name(), text)
		}
	}
}

func TestWhatRedisSaysOfTracesIsNotTrusted(t *testing.T) {
	t.Parallel()
	client := inProcess(t)
	for i, text := range []string{"nonsense", "00-zz", strings.Repeat("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 ", 500), "00-00000000000000000000000000000000-0000000000000000-01", "\x00\n\xff"} {
		t.Run("a row is checked whatever stands there", func(t *testing.T) {
			w := newWorld(t, verifiertest.Supports())
			spans := record()
			q := newQueue(client, &asynqqueue.Options{Tracer: spans, Tenant: fmt.Sprint("t", i)})
			id := w.write("x", memory.StateUnverified)
			w.sweep(q)
			if err := client.HSet(t.Context(), q.TraceKey(), string(id), text).Err(); err != nil {
				t.Fatal(err)
			}
			serve(t, q, w.traced(spans))
			eventually(t, "the row is verified", func() bool { return w.all(memory.StateVerified, id) && len(spans.of("promotion.process", id)) == 1 })
			if n := len(spans.of("promotion.process", id)[0].Links()); n > 32 || !strings.HasPrefix(text, "00-0a") && n > 0 {
				t.Errorf("%d links", n)
			}
		})
	}
}
