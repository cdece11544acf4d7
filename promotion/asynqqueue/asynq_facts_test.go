package asynqqueue_test

import (
	"context"
	"errors"
	"fmt"
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
	onEveryRedis(t, func(t *testing.T, redis redis.UniversalClient) {
		var runs, grew atomic.Int32
		counts := make(chan int, 99)
		client, inspector := asynqOn(t, redis, asynq.Config{
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
		info, err := inspector.GetQueueInfo("facts")
		if err != nil || info.Archived != 0 || info.Failed != 0 || grew.Load() != 0 {
			t.Errorf("%+v, %v, n grew %d times", info, err, grew.Load())
		}
	})
}

func TestAsynqArchivesATaskWithoutRetriesAtOnceThoughNothingFailed(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, redis redis.UniversalClient) {
		client, inspector := asynqOn(t, redis, asynq.Config{IsFailure: func(error) bool { return false }},
			asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return errDown }))
		enqueue(t, client, "check", asynq.MaxRetry(0))
		eventually(t, "it is archived", func() bool {
			info, err := inspector.GetQueueInfo("facts")
			return err == nil && info.Archived == 1
		})
	})
}

func TestAsynqKeepsATaskIDTakenWhileTheOldTaskIsArchived(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, redis redis.UniversalClient) {
		client, inspector := asynqOn(t, redis, asynq.Config{}, asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return asynq.SkipRetry }))
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

func TestAsynqsMuxMatchesByPrefix(t *testing.T) {
	mux := asynq.NewServeMux()
	handled := false
	mux.HandleFunc("hearsay:check", func(context.Context, *asynq.Task) error { handled = true; return nil })
	if err := mux.ProcessTask(t.Context(), asynq.NewTask("hearsay:check_everything", nil)); err != nil || !handled {
		t.Errorf("it matches exactly now: %v", err)
	}
}

func TestAsynqRunsAHandlerThatOutlivesItsTimeoutTwiceAtOnce(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, redis redis.UniversalClient) {
		var began, ended atomic.Int32
		release := make(chan struct{})
		client, _ := asynqOn(t, redis, asynq.Config{RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 }},
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
	onEveryRedis(t, func(t *testing.T, r redis.UniversalClient) {
		client := asynq.NewClientFromRedisClient(r)
		enqueue(t, client, "check")
		if err := r.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		enqueue(t, client, "check")
		// The error is none that errors.Is knows, so the queue asks for the names.
		if _, err := asynq.NewInspectorFromRedisClient(r).GetQueueInfo("facts"); err == nil || errors.Is(err, asynq.ErrQueueNotFound) {
			t.Errorf("the queue is known, or the error is: %v", err)
		}
	})
}

func TestAsynqForgetsWhatItArchivedBeyondTenThousand(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		tasks, inspector := asynqOn(t, client, asynq.Config{}, asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return asynq.SkipRetry }))
		// Ten thousand archived tasks, as asynq keeps them, and one that it archives.
		const limit = 10_000
		at := float64(time.Now().Unix())
		for i := 0; i < limit; {
			pipe := client.Pipeline()
			for range 10 { // a larger pipeline than a pipe holds would wait for itself in the process
				id := fmt.Sprintf("old%05d", i)
				pipe.ZAdd(t.Context(), "asynq:{facts}:archived", redis.Z{Score: at, Member: id})
				pipe.HSet(t.Context(), "asynq:{facts}:t:"+id, "state", "archived")
				i++
			}
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		enqueue(t, tasks, "check")
		eventually(t, "the oldest are gone", func() bool {
			info, err := inspector.GetQueueInfo("facts")
			left, err2 := client.Exists(t.Context(), "asynq:{facts}:t:old00000").Result()
			return err == nil && err2 == nil && info.Archived < limit+1 && info.Archived > 0 && left == 0
		})
	})
}
