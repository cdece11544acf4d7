package asynqqueue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// What this package relies on of asynq v0.26. If an update breaks one of these,
// the queue has to be thought about again.

var errDown = errors.New("down")

// asynqOn runs asynq until the test ends.
func asynqOn(t *testing.T, client redis.UniversalClient, c asynq.Config, h asynq.Handler) (*asynq.Client, *asynq.Inspector) {
	t.Helper()
	c.Concurrency, c.Queues, c.LogLevel = 4, map[string]int{"facts": 1}, asynq.FatalLevel
	c.TaskCheckInterval, c.DelayedTaskCheckInterval, c.ShutdownTimeout = 10*time.Millisecond, 50*time.Millisecond, time.Second
	server := asynq.NewServerFromRedisClient(client, c)
	if err := server.Start(h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	return asynq.NewClientFromRedisClient(client), asynq.NewInspectorFromRedisClient(client)
}

func enqueue(t *testing.T, c *asynq.Client, kind string, opts ...asynq.Option) *asynq.TaskInfo {
	t.Helper()
	info, err := c.EnqueueContext(t.Context(), asynq.NewTask(kind, nil), append(opts, asynq.Queue("facts"))...)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestAsynqCountsNoRetryForWhatIsNoFailureAndItsDelayNeverGrows(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		var runs, grew atomic.Int32
		counts := make(chan int, 99)
		client, inspector := asynqOn(t, open(t), asynq.Config{
			IsFailure: func(err error) bool { return !errors.Is(err, errDown) },
			RetryDelayFunc: func(n int, _ error, _ *asynq.Task) time.Duration {
				if n != 0 {
					grew.Add(1)
				}
				return 0
			},
		}, asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
			n, _ := asynq.GetRetryCount(ctx)
			counts <- n
			if runs.Add(1) <= 4 {
				return errDown
			}
			return nil
		}))
		enqueue(t, client, "check", asynq.MaxRetry(1)) // fewer retries than there are outages
		eventually(t, "it is done", func() bool { return runs.Load() == 5 })
		for range 5 {
			if n := <-counts; n != 0 {
				t.Errorf("a retry was counted: %d", n)
			}
		}
		archived, err := inspector.ListArchivedTasks("facts")
		if err != nil || len(archived) != 0 || grew.Load() != 0 {
			t.Errorf("%+v, %v, n grew %d times", archived, err, grew.Load())
		}
	})
}

func TestAsynqArchivesATaskWithoutRetriesAtOnceThoughNothingFailed(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		client, inspector := asynqOn(t, open(t), asynq.Config{IsFailure: func(error) bool { return false }},
			asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return errDown }))
		enqueue(t, client, "check", asynq.MaxRetry(0))
		eventually(t, "it is archived", func() bool {
			archived, err := inspector.ListArchivedTasks("facts")
			return err == nil && len(archived) == 1
		})
	})
}

func TestAsynqKeepsATaskIDTakenWhileTheOldTaskIsArchived(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		client, inspector := asynqOn(t, open(t), asynq.Config{}, asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return asynq.SkipRetry }))
		enqueue(t, client, "check", asynq.TaskID("row"))
		eventually(t, "it is archived", func() bool {
			info, err := inspector.GetTaskInfo("facts", "row")
			return err == nil && info.State == asynq.TaskStateArchived
		})
		if _, err := client.EnqueueContext(t.Context(), asynq.NewTask("check", nil), asynq.Queue("facts"), asynq.TaskID("row")); !errors.Is(err, asynq.ErrTaskIDConflict) {
			t.Errorf("%v", err)
		}
	})
}

func TestAsynqRunsAHandlerThatOutlivesItsTimeoutTwiceAtOnce(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		var began, ended atomic.Int32
		release := make(chan struct{})
		client, _ := asynqOn(t, open(t), asynq.Config{RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 }},
			asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
				began.Add(1)
				<-release // deaf to its context
				ended.Add(1)
				return nil
			}))
		enqueue(t, client, "check", asynq.Timeout(time.Second), asynq.MaxRetry(5))
		eventually(t, "it runs twice", func() bool { return began.Load() >= 2 })
		close(release)
		eventually(t, "all runs end", func() bool { return ended.Load() == began.Load() })
	})
}

func TestAsynqsClientSaysOnceInItsLifeThatAQueueExists(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		r := open(t)
		client := asynq.NewClientFromRedisClient(r)
		enqueue(t, client, "check")
		if err := r.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		enqueue(t, client, "check")
		if _, err := asynq.NewInspectorFromRedisClient(r).ListPendingTasks("facts"); !errors.Is(err, asynq.ErrQueueNotFound) {
			t.Errorf("the queue is known: %v", err)
		}
	})
}
