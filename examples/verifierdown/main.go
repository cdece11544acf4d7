// A verifier that is down when something is remembered. The row says so, blocks
// every call that rests on it, and waits; when the verifier is back, the worker
// promotes the row by itself, and the same call runs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storeurl"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier"
)

// crm knows every customer's address, when it is up. It is never told what the
// agent believes.
type crm struct{ up atomic.Bool }

func (c *crm) ask(_ context.Context, q verifier.Question) (verifier.Answer, error) {
	if !c.up.Load() {
		return verifier.Answer{}, errors.New("connection refused")
	}
	return verifier.Answer{Found: true, Value: "pay@" + q.Subject + ".example"}, nil
}

type mail struct {
	To string `json:"to"`
}

func send(_ context.Context, m mail) (struct{}, error) {
	fmt.Println("  sent to", m.To)
	return struct{}{}, nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "hearsay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := storeurl.Open(ctx, "sqlite:"+filepath.Join(dir, "agent.db"), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	redis, err := localredis.Open(ctx, "", nil) // a redis-server of our own, or one inside the process
	if err != nil {
		return err
	}
	defer redis.Close()

	// Promotion: a worker that asks the CRM, a queue of its checks, and a count of what is read. The worker
	// would put the CRM behind a breaker by itself; this one is impatient.
	var source crm
	guarded := verifier.WithBreaker("crm", verifier.NewTool("crm", source.ask, nil), &verifier.BreakerOptions{Failures: 1, FirstOpen: time.Second, OpenFor: time.Second})
	results := make(chan promotion.Result, 100)
	worker, err := promotion.NewWorker(store, []promotion.Source{{Name: "crm", Verifier: guarded, Rank: memory.RankTool}},
		&promotion.Options{Observe: func(r promotion.Result) {
			select {
			case results <- r:
			default: // nobody waits for so many
			}
		}})
	if err != nil {
		return err
	}
	queue := asynqqueue.New(redis.Client, asynqqueue.Deployment(store), nil)
	heater := promotion.NewHeater(store, queue, nil)

	// The agent: it asks the worker whether the verifier is down, and has no other
	// hand on promotion.
	g, err := gate.New(store, gate.Policy{Name: "billing", Version: "1", Declared: true}, &gate.Options{OnBlock: heater.ObserveBlocked})
	if err != nil {
		return err
	}
	billing, err := agent.New("billing", agent.Model{ID: "sonnet", Family: "claude"}, store, g, []agent.Tool{
		agent.Func("send_email", "sends an e-mail", send, agent.Irreversible()),
	}, &agent.Options{
		Recall: recall.Policy{Channels: recall.All}, Reads: heater,
		Down: worker.Down,
	})
	if err != nil {
		return err
	}

	claim := memory.Content{Subject: "acme", Predicate: "billing.email", Object: "pay@acme.example", Cardinality: memory.CardinalityFunctional}
	_, err = guarded.Verify(ctx, memory.Row{Content: claim})
	fmt.Println("The CRM is down:", errors.Is(err, verifier.ErrUnavailable))
	receipt, err := billing.Start("ana").Remember(ctx, agent.Note{Content: claim})
	if err != nil {
		return err
	}
	fmt.Println("  the model notes an address; it is stored as", receipt.State)

	conversation := billing.Start("ana")
	query := recall.Query{Subject: "acme", Predicate: "billing.email"}
	if err := show(ctx, store, conversation, query); err != nil {
		return err
	}
	call := func() error {
		_, err := conversation.Call(ctx, "send_email", json.RawMessage(`{"to": "pay@acme.example"}`))
		return err
	}
	if err := call(); !errors.Is(err, gate.ErrVerifierDown) {
		return fmt.Errorf("the call was not blocked: %w", err)
	} else {
		fmt.Println("  blocked:", err)
	}

	var serving sync.WaitGroup
	working, stop := context.WithCancel(ctx)
	defer serving.Wait()
	defer stop()
	serving.Go(func() {
		if err := promotion.Serve(working, queue, promotion.Scope{Worker: worker, Reads: heater}); err != nil {
			log.Print(err)
		}
	})
	if err := await(ctx, results, promotion.Down); err != nil {
		return err
	}
	fmt.Println("  the worker asks, and is told nothing: that is no failure; the row stays as it is and the check comes back")

	fmt.Println("The CRM is back:")
	source.up.Store(true)
	if err := await(ctx, results, promotion.Promoted); err != nil {
		return err
	}
	if err := show(ctx, store, conversation, query); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}

	fmt.Println("What the audit says of the row:")
	history, err := store.History(ctx, receipt.ID, false)
	if err != nil {
		return err
	}
	for _, e := range history {
		fmt.Printf("  %s: %s %s, by %s on the word of %s: %s\n", e.Kind, e.Axis, e.To, e.Actor, e.Source, e.Reason)
	}
	return nil
}

// await reads results until one has the status.
func await(ctx context.Context, results <-chan promotion.Result, want promotion.Status) error {
	for {
		select {
		case r := <-results:
			if r.Status == want {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("the worker did not come to %q: %w", want, ctx.Err())
		}
	}
}

// show recalls into a conversation, and prints the tagged lines.
func show(ctx context.Context, store *memory.Store, run *agent.Run, q recall.Query) error {
	recalled, err := run.Recall(ctx, q)
	if err != nil {
		return err
	}
	fmt.Print("  ", recall.Render(store.Now(), recalled.Rows...))
	return nil
}
