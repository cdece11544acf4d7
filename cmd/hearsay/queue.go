package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/redisstore/redisurl"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
)

// queueFlags are the flags of the commands that look at queues.
type queueFlags struct {
	*storeFlags
	redis      string
	deployment string
}

func (a *app) queueCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "See the queues of checks, stop them, and bring back what is set aside",
		Long: `queue works on the queues of the workers in the Redis that -redis names, as the worker's
-redis does. A worker without one has private queues that nobody else reaches. Each verifier
has a queue of its own, whose tasks asynq's own tools show as well.

Which rows want a check is in the store. A worker enqueues the next few of each verifier, and
does so again if Redis loses them.`,
		Example: "  hearsay queue status -redis redis://q:6379 --store sqlite:agent.db\n" +
			"  hearsay queue pause -redis redis://q:6379",
		RunE: subcommandWanted,
		Args: cobra.ArbitraryArgs,
	}
	f := &queueFlags{storeFlags: addStoreFlags(cmd)}
	cmd.PersistentFlags().StringVar(&f.redis, "redis", "", "the Redis URL of the workers' queues (or HEARSAY_REDIS)")
	cmd.PersistentFlags().StringVar(&f.deployment, "deployment", "", "only the queues of this deployment, as the worker logs it (or HEARSAY_DEPLOYMENT)")
	cmd.AddCommand(a.queueStatusCommand(f), a.queuePauseCommand(f), a.queueResumeCommand(f), a.queueDrainCommand(f), a.queueRetryCommand(f))
	return cmd
}

// queues are those of a Redis that the flags name.
type queues struct {
	client     redis.UniversalClient
	deployment string // "" = all
}

// queues opens the Redis that the flags name. The caller closes it.
func (a *app) queues(ctx context.Context, f *queueFlags) (q *queues, free func() error, err error) {
	url := cmp.Or(f.redis, a.getenv("HEARSAY_REDIS"))
	if url == "" {
		return nil, nil, usage("no queue: give -redis URL or set HEARSAY_REDIS, as the worker has it")
	}
	r, err := localredis.Open(ctx, url, nil)
	switch {
	case errors.Is(err, redisurl.ErrURL):
		return nil, nil, usage("-redis: %w", err)
	case err != nil:
		return nil, nil, fail(exitUnreachable, "%w", err)
	}
	return &queues{r.Client, cmp.Or(f.deployment, a.getenv("HEARSAY_DEPLOYMENT"))}, r.Close, nil
}

// stats are the facts of the queues.
func (q *queues) stats(ctx context.Context) ([]asynqqueue.Stats, error) {
	all, err := asynqqueue.Every(ctx, q.client)
	if err != nil {
		return nil, fail(exitUnreachable, "%w", err)
	}
	return slices.DeleteFunc(all, func(s asynqqueue.Stats) bool { return q.deployment != "" && s.Deployment != q.deployment }), nil
}

// one is the queue of the deployment that is named, or of the only one that there is.
func (q *queues) one(ctx context.Context) (*asynqqueue.Queue, error) {
	all, err := q.stats(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Deployment)
	}
	names = slices.Compact(names)
	switch {
	case len(names) == 0:
		return nil, fail(exitNo, "no worker has served a queue in this Redis yet")
	case len(names) > 1:
		return nil, usage("there are several deployments in this Redis; name one by --deployment: %s", oneLine(strings.Join(names, ", "), maxMessage))
	}
	return asynqqueue.New(q.client, names[0], nil), nil
}

// onQueue makes the action of a command that does one thing to the queues of a deployment, and then
// shows them.
func (a *app) onQueue(f *queueFlags, o *output, act func(context.Context, *asynqqueue.Queue) (string, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		q, free, err := a.queues(cmd.Context(), f)
		if err != nil {
			return err
		}
		defer free()
		of, err := q.one(cmd.Context())
		if err != nil {
			return err
		}
		said, err := act(cmd.Context(), of)
		if err != nil {
			return err
		}
		if *o == asJSON {
			all, err := of.Stats(cmd.Context())
			if err != nil {
				return fail(exitUnreachable, "%w", err)
			}
			return a.emit(queueJSONOf(all, nil))
		}
		return a.write(said + "\n")
	}
}

// queueJSON is the output of the commands of the queues.
type queueJSON struct {
	Schema string       `json:"schema"` // hearsay.queue/1
	Queues []queueOf    `json:"queues"`
	Store  *queueStored `json:"store,omitempty"` // if a store is named
}

// queueOf is the queue of one verifier.
type queueOf struct {
	Deployment string `json:"deployment"`
	Verifier   string `json:"verifier"`
	Queue      string `json:"queue"` // asynq's name for it
	Paused     bool   `json:"paused"`
	Processes  int    `json:"processes"` // that serve it
	Pending    int    `json:"pending"`
	Active     int    `json:"active"`
	Orphaned   int    `json:"orphaned"`
	Retry      int    `json:"retry"`
	Archived   int    `json:"archived"`
}

func queueJSONOf(all []asynqqueue.Stats, s *queueStored) queueJSON {
	out := queueJSON{Schema: "hearsay.queue/1", Queues: []queueOf{}, Store: s}
	for _, q := range all {
		out.Queues = append(out.Queues, queueOf{q.Deployment, q.Source, q.Queue, q.Paused, q.Processes, q.Pending, q.Active, q.Orphaned, q.Retry, q.Archived})
	}
	return out
}

// queueStored is what the row store says.
type queueStored struct {
	Tenant    string `json:"tenant"`
	Namespace string `json:"namespace"`

	Due      int            `json:"due"`       // counted up to [countedMost]
	SetAside map[string]int `json:"set_aside"` // of those, by verifier: questions about them failed
	Parked   int            `json:"parked"`
	Rows     []parkedRow    `json:"parked_rows"` // the first of them
}

type parkedRow struct {
	ID     memory.ID `json:"id"`
	Tries  int       `json:"tries"`
	Reason string    `json:"reason"`
}

const (
	countedMost = 10_000
	shownParked = 20
)

// stored counts what the store says is due and parked.
func stored(ctx context.Context, s *memory.Store) (*queueStored, error) {
	out := &queueStored{Tenant: s.Tenant(), Namespace: s.Namespace(), Rows: []parkedRow{}, SetAside: map[string]int{}}
	now := s.Now()
	for due, err := range s.DueRows(ctx, now) {
		if err != nil {
			return nil, err
		}
		for _, m := range due.Sources {
			if m.Failures > 0 && m.Until.After(now) {
				out.SetAside[m.Source]++
			}
		}
		if out.Due++; out.Due == countedMost {
			break
		}
	}
	for r, err := range s.ParkedRows(ctx) {
		if err != nil {
			return nil, err
		}
		if len(out.Rows) < shownParked {
			out.Rows = append(out.Rows, parkedRow{r.ID, r.Tries, r.Reason})
		}
		if out.Parked++; out.Parked == countedMost {
			break
		}
	}
	return out, nil
}

func (a *app) queueStatusCommand(f *queueFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "How many checks wait, who makes them, and what is parked and why",
		Long: `status shows how the queue of each verifier stands, by asynq's own lists:

  processes  workers that serve it, as of their last heartbeat
  pending    checks that no worker has taken yet
  active     checks that a worker makes now
  orphaned   checks whose worker has died; another one takes them within about two minutes
  retry      checks that come back within about a second, since the verifier may not be asked
             now: its breaker is open, or its budget is spent

Only the next few rows of each verifier are enqueued. With a store it also counts the rows of one
namespace that are due, and those of them that are set aside for a verifier, since questions about
them failed. It shows the rows that are parked, with the reason.

With -o json: {"schema": "hearsay.queue/1", "queues": [{"verifier": …, "pending": …}], …}.`,
		Example: "  hearsay queue status -redis redis://q:6379\n  hearsay queue status -redis redis://q:6379 --store sqlite:agent.db -o json",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		q, free, err := a.queues(ctx, f)
		if err != nil {
			return err
		}
		defer free()
		var known *queueStored
		if f.url != "" || a.getenv("HEARSAY_STORE") != "" {
			s, err := a.open(ctx, f.storeFlags, nil)
			if err != nil {
				return err
			}
			defer s.Close()
			if known, err = stored(ctx, s); err != nil {
				return err
			}
		}
		all, err := q.stats(ctx)
		if err != nil {
			return err
		}
		if *o == asJSON {
			return a.emit(queueJSONOf(all, known))
		}
		return a.write(queueText(all, known))
	}
	return cmd
}

// queueText is the output of status for people.
func queueText(all []asynqqueue.Stats, known *queueStored) string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	if len(all) == 0 {
		fmt.Fprint(tw, "no worker has served a queue in this Redis yet\n")
	} else {
		fmt.Fprint(tw, "deployment\tverifier\tstate\tprocesses\tpending\tactive\torphaned\tretry\t\n")
	}
	for _, s := range all {
		state := "running"
		if s.Paused {
			state = "paused"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t\n", oneLine(s.Deployment, maxName), oneLine(s.Source, maxName), state, s.Processes, s.Pending, s.Active, s.Orphaned, s.Retry)
	}
	tw.Flush()
	if known == nil {
		return b.String()
	}
	more := ""
	if known.Due >= countedMost {
		more = " or more"
	}
	fmt.Fprintf(&b, "store, namespace %q: %d%s due, %d parked\n", oneLine(known.Namespace, maxName), known.Due, more, known.Parked)
	for _, name := range slices.Sorted(maps.Keys(known.SetAside)) {
		fmt.Fprintf(&b, "  %d set aside for %s, since questions about them failed\n", known.SetAside[name], oneLine(name, maxName))
	}
	for _, r := range known.Rows {
		fmt.Fprintf(tw, "  %s\tafter %d tries\t%s\n", r.ID, r.Tries, oneLine(r.Reason, maxMessage))
	}
	tw.Flush()
	return b.String()
}

func (a *app) queuePauseCommand(f *queueFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Let no worker take a check until resume",
		Long: `pause stops the workers of a deployment from taking checks, of each verifier that they
serve. Checks under way end. Nothing is lost: rows stay due, in their order. A pause
outlives the workers, and not a Redis that is wiped.

With -o json: {"schema": "hearsay.queue/1", "queues": [{"paused": true, …}]}.`,
		Example: "  hearsay queue pause -redis redis://q:6379",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.RunE = a.onQueue(f, o, func(ctx context.Context, q *asynqqueue.Queue) (string, error) { return "paused", q.Pause(ctx) })
	return cmd
}

func (a *app) queueResumeCommand(f *queueFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume",
		Short:   "Let workers take checks again",
		Long:    "resume ends a pause.\n\nWith -o json: {\"schema\": \"hearsay.queue/1\", \"queues\": [{\"paused\": false, …}]}.",
		Example: "  hearsay queue resume -redis redis://q:6379",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.RunE = a.onQueue(f, o, func(ctx context.Context, q *asynqqueue.Queue) (string, error) { return "running", q.Resume(ctx) })
	return cmd
}

func (a *app) queueDrainCommand(f *queueFlags) *cobra.Command {
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Pause, and wait until no check is under way",
		Long: `drain pauses the queues of a deployment and waits until no worker makes a check: for an
upgrade of the workers, or before the store is rebuilt. End it with resume. If a check does not
end within --within, drain exits with 1 and the queues stay paused. A check whose worker has died
is not waited for.

With -o json: {"schema": "hearsay.queue/1", "queues": [{"paused": true, "active": 0, …}]}.`,
		Example: "  hearsay queue drain -redis redis://q:6379 --within 1m",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.Flags().DurationVar(&within, "within", time.Minute, "how long to wait")
	cmd.RunE = a.onQueue(f, o, func(ctx context.Context, q *asynqqueue.Queue) (string, error) {
		if err := q.Pause(ctx); err != nil {
			return "", fail(exitUnreachable, "%w", err)
		}
		late := time.After(within)
		t := time.NewTicker(100 * time.Millisecond)
		defer t.Stop()
		for {
			all, err := q.Stats(ctx)
			if err != nil {
				return "", fail(exitUnreachable, "%w", err)
			}
			active := 0
			for _, s := range all {
				active += s.Active
			}
			if active == 0 {
				return "drained; hearsay queue resume lets workers take checks again", nil
			}
			select {
			case <-t.C:
			case <-late:
				return "", fail(exitFailed, "%s under way after %s; the queues stay paused", plural(active, "check"), within)
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
	})
	return cmd
}

func (a *app) queueRetryCommand(f *queueFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry [ROW…]",
		Short: "Bring back what is parked or set aside",
		Long: `retry marks parked rows due again, all of them or those that are named. Rows that are set
aside for a verifier, since questions about them failed, may be asked about at once. A row that
crashed its workers comes back only this way. It needs the store and no Redis: workers find
the rows at their next look, within their -sweep-every.

With -o json: {"schema": "hearsay.retry/1", "parked": 1, "set_aside": 0}.`,
		Example: "  hearsay queue retry --store sqlite:agent.db\n  hearsay queue retry --store sqlite:agent.db k3f9a2b1",
		Args:    cobra.ArbitraryArgs,
	}
	o := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		s, err := a.open(cmd.Context(), f.storeFlags, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		var only []memory.ID
		for _, name := range names {
			row, err := resolve(cmd.Context(), s, name)
			if err != nil {
				return err
			}
			only = append(only, row.ID)
		}
		parked, aside, err := promotion.Retry(cmd.Context(), s, "retried by "+operator(), func(d memory.Due) bool { return len(only) == 0 || slices.Contains(only, d.ID) })
		if err != nil {
			return err
		}
		if *o == asJSON {
			return a.emit(retryJSON{"hearsay.retry/1", parked, aside})
		}
		return a.write(fmt.Sprintf("%s and %d that were set aside are back\n", plural(parked, "parked row"), aside))
	}
	return cmd
}

// retryJSON is the output of retry.
type retryJSON struct {
	Schema   string `json:"schema"` // hearsay.retry/1
	Parked   int    `json:"parked"`
	SetAside int    `json:"set_aside"`
}
