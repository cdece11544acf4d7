package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/redisstore/redisurl"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
)

// queueFlags are the flags of the commands that look at a queue.
type queueFlags struct {
	*storeFlags
	redis string
}

func (a *app) queueCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "See the queue of checks, stop it, and bring back what is set aside",
		Long: `queue works on the queue of the worker: the Redis that -redis names, as the worker's
-redis does. A worker without one has a private queue that nobody else reaches.

The queue only orders the work. Which rows want a check is in the store; a queue that
is lost is built again from it by the next sweep of a worker.`,
		Example: "  hearsay queue status -redis redis://q:6379 --store sqlite:agent.db\n" +
			"  hearsay queue pause -redis redis://q:6379",
		RunE: subcommandWanted,
		Args: cobra.ArbitraryArgs,
	}
	f := &queueFlags{storeFlags: addStoreFlags(cmd)}
	cmd.PersistentFlags().StringVar(&f.redis, "redis", "", "the Redis URL of the worker's queue (or HEARSAY_REDIS)")
	cmd.AddCommand(a.queueStatusCommand(f), a.queuePauseCommand(f), a.queueResumeCommand(f), a.queueDrainCommand(f), a.queueRetryCommand(f))
	return cmd
}

// queue opens the queue that the flags name. The caller closes what it is on.
func (a *app) queue(ctx context.Context, f *queueFlags) (q *asynqqueue.Queue, tenant string, free func() error, err error) {
	url := f.redis
	if url == "" {
		url = a.getenv("HEARSAY_REDIS")
	}
	if url == "" {
		return nil, "", nil, usage("no queue: give -redis URL or set HEARSAY_REDIS, as the worker has it")
	}
	tenant = f.tenant
	if tenant == "" {
		tenant = tenantOf(a.getenv("HEARSAY_TENANT"))
	}
	namespace := f.namespace
	if namespace == "" {
		namespace = a.getenv("HEARSAY_NAMESPACE")
	}
	r, err := localredis.Open(ctx, url, nil)
	switch {
	case errors.Is(err, redisurl.ErrURL):
		return nil, "", nil, usage("-redis: %w", err)
	case err != nil:
		return nil, "", nil, fail(exitUnreachable, "%w", err)
	}
	return asynqqueue.New(r.Client, &asynqqueue.Options{Tenant: tenant, Namespace: namespace}), tenant, r.Close, nil
}

// onQueue makes the action of a command that does one thing to the queue, and then
// shows it.
func (a *app) onQueue(f *queueFlags, o *output, act func(context.Context, *asynqqueue.Queue) (string, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		q, tenant, free, err := a.queue(cmd.Context(), f)
		if err != nil {
			return err
		}
		defer free()
		said, err := act(cmd.Context(), q)
		if err != nil {
			return err
		}
		if *o == asJSON {
			return a.emitQueue(cmd.Context(), q, tenant, nil)
		}
		return a.write(said + "\n")
	}
}

// queueJSON is the output of the commands of the queue.
type queueJSON struct {
	Schema   string         `json:"schema"` // hearsay.queue/1
	Tenant   string         `json:"tenant"`
	Queue    string         `json:"queue"` // asynq's name for it
	Paused   bool           `json:"paused"`
	Workers  int            `json:"workers"`
	Rows     queueRows      `json:"rows"`
	Backlogs []queueBacklog `json:"backlogs"` // of verifiers that refused rows
	Tokens   queueTokens    `json:"tokens"`
	Store    *queueStored   `json:"store,omitempty"` // if a store is named
}

type queueRows struct {
	Waiting int64 `json:"waiting"`
	Claimed int64 `json:"claimed"`
	Later   int64 `json:"later"`
}

// queueBacklog is what waits for a verifier.
type queueBacklog struct {
	Verifiers     []string `json:"verifiers"` // all that refused the rows
	Rows          int64    `json:"rows"`
	ClosedSeconds float64  `json:"closed_seconds"` // 0 = workers take them
	Alone         bool     `json:"alone"`          // it is closed for one worker at least, and not for all
}

type queueTokens struct {
	Pending       int     `json:"pending"`
	Active        int     `json:"active"`
	Retry         int     `json:"retry"`
	Archived      int     `json:"archived"`
	OldestSeconds float64 `json:"oldest_seconds"`
}

// queueStored is what the row store says.
type queueStored struct {
	Due    int         `json:"due"` // counted up to [countedMost]
	Parked int         `json:"parked"`
	Rows   []parkedRow `json:"parked_rows"` // the first of them
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
	out := &queueStored{Rows: []parkedRow{}}
	for _, err := range s.DueRows(ctx, s.Now()) {
		if err != nil {
			return nil, err
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

func (a *app) emitQueue(ctx context.Context, q *asynqqueue.Queue, tenant string, s *queueStored) error {
	now, err := q.Stats(ctx)
	if err != nil {
		return fail(exitUnreachable, "%w", err)
	}
	backlogs := []queueBacklog{}
	for _, backlog := range now.Backlogs {
		backlogs = append(backlogs, queueBacklog{backlog.Verifiers, backlog.Rows, backlog.Closed.Seconds(), backlog.Alone})
	}
	return a.emit(queueJSON{Schema: "hearsay.queue/1", Tenant: tenant, Queue: q.Name(), Paused: now.Paused, Workers: now.Workers,
		Rows: queueRows{now.Waiting, now.Claimed, now.Later}, Backlogs: backlogs,
		Tokens: queueTokens{now.Pending, now.Active, now.Retry, now.Archived, now.Latency.Seconds()}, Store: s})
}

func (a *app) queueStatusCommand(f *queueFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "How many rows wait, who works on them, and what is parked and why",
		Long: `status shows the facts of the queue, as asynq's inspector and the sorted sets have them:

  waiting   rows that want a check, hottest first
  claimed   rows that a worker checks now
  later     rows whose verifier is down or whose budget is spent; they come back by themselves
  behind V  of those, and of the waiting ones, the rows that verifier V refused, and for
            how long it may not be asked; V are several if each of them refused.
            "Each worker by itself": a worker found it down or was told to wait; others
            that can ask it take the rows
  tokens    what wakes workers; none of them stands for a row

With a store it also counts the rows that are due by it, and shows those that are
parked, with the reason.

With -o json: {"schema": "hearsay.queue/1", "paused": …, "workers": …, "rows": {…}}.`,
		Example: "  hearsay queue status -redis redis://q:6379\n  hearsay queue status -redis redis://q:6379 --store sqlite:agent.db -o json",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		q, tenant, free, err := a.queue(ctx, f)
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
		if *o == asJSON {
			return a.emitQueue(ctx, q, tenant, known)
		}
		now, err := q.Stats(ctx)
		if err != nil {
			return fail(exitUnreachable, "%w", err)
		}
		var b strings.Builder
		tw := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
		state := "running"
		if now.Paused {
			state = "paused: hearsay queue resume"
		}
		fmt.Fprintf(tw, "queue\t%s\t%s\n", q.Name(), state)
		fmt.Fprintf(tw, "workers\t%d\t\n", now.Workers)
		fmt.Fprintf(tw, "rows\t%d waiting, %d claimed, %d later\t\n", now.Waiting, now.Claimed, now.Later)
		for _, backlog := range now.Backlogs {
			until := "may be asked"
			if backlog.Closed > 0 {
				until = "for " + max(backlog.Closed.Round(time.Second), time.Second).String()
				if backlog.Alone {
					until += ", each worker by itself"
				}
			}
			fmt.Fprintf(tw, "  behind %s\t%d rows\t%s\n", oneLine(strings.Join(backlog.Verifiers, ", "), maxMessage), backlog.Rows, until)
		}
		fmt.Fprintf(tw, "tokens\t%d pending, %d active, %d retry, %d archived\t\n", now.Pending, now.Active, now.Retry, now.Archived)
		if known != nil {
			more := ""
			if known.Due >= countedMost {
				more = " or more"
			}
			fmt.Fprintf(tw, "store\t%d%s due, %d parked\t\n", known.Due, more, known.Parked)
			for _, r := range known.Rows {
				fmt.Fprintf(tw, "  %s\tafter %d tries\t%s\n", r.ID, r.Tries, oneLine(r.Reason, maxMessage))
			}
		}
		tw.Flush()
		return a.write(b.String())
	}
	return cmd
}

func (a *app) queuePauseCommand(f *queueFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Let no worker take a row until resume",
		Long: `pause stops all workers of the tenant from taking rows; checks under way end. Nothing
is lost: rows go on being counted, and stay in their order. It outlives the workers,
and not a Redis that is wiped.

With -o json: {"schema": "hearsay.queue/1", "paused": true, …}.`,
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
		Short:   "Let workers take rows again",
		Long:    "resume ends a pause.\n\nWith -o json: {\"schema\": \"hearsay.queue/1\", \"paused\": false, …}.",
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
		Long: `drain pauses the queue and waits until no worker holds a row: for an upgrade of the
workers, or before the store is rebuilt. End it with resume. If a check does not end
within --within, drain exits with 1 and the queue stays paused.

With -o json: {"schema": "hearsay.queue/1", "paused": true, "rows": {"claimed": 0, …}, …}.`,
		Example: "  hearsay queue drain -redis redis://q:6379 --within 1m",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.Flags().DurationVar(&within, "within", time.Minute, "how long to wait")
	cmd.RunE = a.onQueue(f, o, func(ctx context.Context, q *asynqqueue.Queue) (string, error) {
		if err := q.Pause(ctx); err != nil {
			return "", err
		}
		// Workers learn of the pause within a pump; a row that one took meanwhile counts.
		const settled = time.Second
		s, err := q.Stats(ctx) // before the time begins, so that what is held is known when it is over
		if err != nil {
			return "", err
		}
		held := s.Claimed
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		t := time.NewTicker(100 * time.Millisecond)
		defer t.Stop()
		for idle := time.Now(); ; {
			select {
			case <-t.C:
			case <-ctx.Done():
				return "", fail(exitFailed, "%d rows are still being checked after %s; the queue stays paused", held, within)
			}
			s, err := q.Stats(ctx)
			if err != nil && ctx.Err() == nil {
				return "", err
			}
			if err == nil {
				held = s.Claimed
			}
			if held > 0 {
				idle = time.Now()
			}
			if err == nil && time.Since(idle) >= settled {
				return "drained; hearsay queue resume lets workers take rows again", nil
			}
		}
	})
	return cmd
}

func (a *app) queueRetryCommand(f *queueFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry [ROW…]",
		Short: "Bring back what is parked or set aside",
		Long: `retry marks parked rows due again, all of them or those that are named, and brings
back at once what is set aside: rows whose question failed, and those behind a budget that
is spent. What stands behind an open breaker comes back by the clock of the worker that
has it. A row that took its worker along comes back only this way. It needs the store,
where the parked rows are.

With -o json: {"schema": "hearsay.queue/1", …}.`,
		Example: "  hearsay queue retry -redis redis://q:6379 --store sqlite:agent.db\n  hearsay queue retry -redis redis://q:6379 --store sqlite:agent.db k3f9a2b1",
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
		return a.onQueue(f, o, func(ctx context.Context, q *asynqqueue.Queue) (string, error) {
			parked, err := promotion.Unpark(ctx, s, "retried by "+operator(), func(d memory.Due) bool { return len(only) == 0 || slices.Contains(only, d.ID) })
			if err != nil {
				return "", err
			}
			later, err := q.Retry(ctx)
			if err != nil {
				return "", err
			}
			// Offered here too, so that a long pause between two sweeps is not waited for.
			if _, err := promotion.NewSweeper(s, q, 0, nil).Sweep(ctx); err != nil {
				return "", err
			}
			return fmt.Sprintf("%d parked rows and %d that were set aside are back", parked, later), nil
		})(cmd, nil)
	}
	return cmd
}
