package asynqqueue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
)

// Deployment is a name for the processes that serve the same namespaces of a tenant, each of which is a
// [memory.Store]. It is the name of the tenant, a hyphen, and eight characters that differ for other
// namespaces and for other stores. The order of the namespaces does not matter.
func Deployment(first *memory.Store, others ...*memory.Store) string {
	ids := []memory.Token{first.Identity()}
	for _, s := range others {
		ids = append(ids, s.Identity())
	}
	slices.SortFunc(ids, func(a, b memory.Token) int { return slices.Compare(a[:], b[:]) })
	h := sha256.New()
	for _, id := range ids {
		h.Write(id[:])
	}
	return first.Tenant() + "-" + hex.EncodeToString(h.Sum(nil)[:lenDeployment/2])
}

// lenDeployment is how many characters of a deployment follow the tenant and the hyphen.
const lenDeployment = 8

// IsDeployment reports whether a name is one that [Deployment] gives to namespaces of a tenant.
func IsDeployment(name, tenant string) bool {
	return strings.HasPrefix(name, tenant+"-") && len(name) == len(tenant)+1+lenDeployment
}

// Stats are the facts of the queue of one source. They are read one after the other, so that a task that
// moves meanwhile may be counted twice or not at all.
type Stats struct {
	Deployment string
	Source     string
	Queue      string // asynq's name for it
	Pending    int    // checks that no worker has taken yet
	Active     int    // checks that a worker makes now
	Orphaned   int    // checks whose worker has died or does not reach Redis; another one takes them
	Retry      int    // checks that come back within a second, or some six if their store is slow or their source full
	Archived   int    // none, unless a person archives a task; its row is checked by another task
	Processes  int    // that serve the source, as of their last heartbeat
	Paused     bool
}

// Every is how the queues of all deployments in a Redis stand, by deployment and source. A queue is
// known once a process has served it or has enqueued a check.
func Every(ctx context.Context, client redis.UniversalClient) ([]Stats, error) {
	return inspect(ctx, client, func(string, string) bool { return true })
}

// Stats is how the queues of the deployment stand, by source: those of the sources named, or if none is
// named, all that are known.
func (q *Queue) Stats(ctx context.Context, sources ...string) ([]Stats, error) {
	return inspect(ctx, q.redis, func(deployment, source string) bool {
		return q.of(deployment, source) && (len(sources) == 0 || slices.Contains(sources, source))
	})
}

// of reports whether a queue is of the deployment.
func (q *Queue) of(deployment, _ string) bool { return deployment == q.deployment }

// Paused implements [promotion.CheckQueue].
func (q *Queue) Paused(ctx context.Context, source string) (bool, error) {
	return paused(ctx, q.redis, q.Name(source))
}

// paused reads the key that asynq sets. Its inspector says whether a queue is paused only beside how
// much memory it takes, which some servers refuse to tell.
func paused(ctx context.Context, client redis.UniversalClient, queue string) (bool, error) {
	n, err := client.Exists(ctx, queueKey(queue)+"paused").Result()
	if err != nil {
		return false, fmt.Errorf("asynqqueue: %w", err)
	}
	return n > 0, nil
}

// Find implements [promotion.CheckQueue].
func (q *Queue) Find(ctx context.Context, c promotion.Check) (promotion.Place, error) {
	name, id := q.Name(c.Source), taskID(c)
	inspector := asynq.NewInspectorFromRedisClient(q.redis)
	info, err := inspector.GetTaskInfo(name, id)
	if isMissing(err) {
		return promotion.Lost, nil
	}
	if err != nil && !q.damaged(ctx, name, id) {
		return promotion.Lost, fmt.Errorf("asynqqueue: %w", err)
	}
	if err != nil || info.State == asynq.TaskStateActive { // what is active ends, or is stranded
		leased, fault := q.isLeased(ctx, name, id)
		switch {
		case fault != nil:
			return promotion.Lost, fmt.Errorf("asynqqueue: %w", fault)
		case leased: // asynq takes it back from a process that died when its lease has ended
			return promotion.Taken, nil
		case err == nil:
			return promotion.Stranded, nil
		}
	}
	if err != nil || !isOf(info, c) {
		if gone := q.remove(ctx, name, id); gone != nil {
			return promotion.Lost, fmt.Errorf("asynqqueue: %w", gone)
		}
		q.opts.Logger.LogAttrs(ctx, slog.LevelError, "a task that has the id of a check, and is not that check, was deleted", slog.String("row", string(c.Row)))
		return promotion.Lost, nil
	}
	comes := false // a person may have archived it, and a clock that is ahead, or a person, put it off
	switch info.State {
	case asynq.TaskStatePending:
		comes, err = isThere(q.redis.LPos(ctx, queueKey(name)+"pending", id, redis.LPosArgs{}).Err())
	case asynq.TaskStateRetry, asynq.TaskStateScheduled:
		comes, err = isThere(q.redis.ZScore(ctx, queueKey(name)+info.State.String(), id).Err())
		comes = comes && time.Until(info.NextProcessAt) < mostOff
	}
	switch {
	case err != nil:
		return promotion.Lost, fmt.Errorf("asynqqueue: %w", err)
	case comes:
		return promotion.Waiting, nil
	}
	return promotion.Stranded, nil
}

// isMissing reports whether asynq has no such task.
func isMissing(err error) bool {
	return errors.Is(err, asynq.ErrQueueNotFound) || errors.Is(err, asynq.ErrTaskNotFound)
}

// isLeased reports whether a worker makes the check of a task now, or died a moment ago.
func (q *Queue) isLeased(ctx context.Context, name, id string) (bool, error) {
	until, err := q.redis.ZScore(ctx, queueKey(name)+"lease", id).Result()
	there, err := isThere(err)
	return there && time.Since(time.Unix(int64(until), 0)).Abs() < mostOff, err
}

// isThere reports whether Redis found something. What is of another type is not there: whoever can write to Redis can put
// that in its place.
func isThere(err error) (bool, error) {
	if errors.Is(err, redis.Nil) || err != nil && redis.HasErrorPrefix(err, "WRONGTYPE") {
		return false, nil
	}
	return err == nil, err
}

// queueKey is what the keys of a queue begin with in Redis.
func queueKey(name string) string { return "asynq:{" + name + "}:" }

// taskKey is the key of a task in Redis.
func taskKey(name, id string) string { return queueKey(name) + "t:" + id }

// damaged reports whether Redis answers, and asynq cannot read what stands under the id of a task. Whoever can write to
// Redis can put that there.
func (q *Queue) damaged(ctx context.Context, name, id string) bool {
	wrong, err := q.isNoTask(ctx, name, id)
	if err != nil || wrong {
		return wrong
	}
	_, err = asynq.NewInspectorFromRedisClient(q.redis).GetTaskInfo(name, id)
	return err != nil && slices.ContainsFunc(unreadable, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// unreadable is what asynq says of a task that it cannot read: the codes of its errors are in their text alone. That of other
// errors of Redis is UNKNOWN. If a list of asynq is of another type, all of its tasks read so: each is deleted once it is overdue,
// and enqueued again.
var unreadable = []string{"asynq: INTERNAL_ERROR", "asynq: FAILED_PRECONDITION", "WRONGTYPE"}

// isNoTask reports whether what stands under the id of a task is of another type of Redis.
func (q *Queue) isNoTask(ctx context.Context, name, id string) (bool, error) {
	err := q.redis.HGet(ctx, taskKey(name, id), "msg").Err()
	switch {
	case err == nil, errors.Is(err, redis.Nil):
		return false, nil
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return true, nil
	}
	return false, err
}

// remove removes what stands under the id of a task and is not that task, also from asynq's lists. asynq does not remove
// what it cannot read.
func (q *Queue) remove(ctx context.Context, name, id string) error {
	err := asynq.NewInspectorFromRedisClient(q.redis).DeleteTask(name, id)
	if err == nil || isMissing(err) {
		return nil
	}
	done, err := q.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, taskKey(name, id))
		for _, list := range []string{"pending", "active"} {
			p.LRem(ctx, queueKey(name)+list, 0, id)
		}
		for _, set := range []string{"lease", "retry", "scheduled", "archived", "completed"} {
			p.ZRem(ctx, queueKey(name)+set, id)
		}
		return nil
	})
	if len(done) > 0 && done[0].Err() == nil { // what is not a list has no task
		_, err = isThere(err)
	}
	return err
}

// isOf reports whether a task is one that Enqueue makes of a check. Whoever can write to Redis can put another
// under its id.
func isOf(t *asynq.TaskInfo, c promotion.Check) bool {
	is, err := check(asynq.NewTask(t.Type, t.Payload), c.Source)
	return err == nil && is == c && t.MaxRetry == math.MaxInt32 && t.Deadline.IsZero() && t.Timeout >= time.Second && t.Retention == 0
}

// mostOff is how far the time at which asynq takes a task may lie in the future, and how far from now its lease may end.
// asynq looks every minute.
const mostOff = 3 * time.Minute

// ErrNoQueue is the error of what is done to the queues of a deployment that has none.
var ErrNoQueue = errors.New("no process has served this deployment yet")

// Pause stops all processes from taking checks of the sources that are known. Checks under way end.
func (q *Queue) Pause(ctx context.Context) error { return q.pause(ctx, true) }

// Resume ends a pause.
func (q *Queue) Resume(ctx context.Context) error { return q.pause(ctx, false) }

func (q *Queue) pause(ctx context.Context, want bool) error {
	i := asynq.NewInspectorFromRedisClient(q.redis)
	all, err := known(i, q.of)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("asynqqueue: deployment %q: %w", q.deployment, ErrNoQueue)
	}
	for _, s := range all {
		change := i.UnpauseQueue
		if want {
			change = i.PauseQueue
		}
		if err := change(s.Queue); err != nil {
			if is, other := paused(ctx, q.redis, s.Queue); other == nil && is == want {
				continue // it is already, which asynq tells only in words
			}
			return fmt.Errorf("asynqqueue: %w", err)
		}
	}
	return nil
}

// named reads the name of a queue. ok is false if it is none of this package.
func named(queue string) (deployment, source string, ok bool) {
	parts := strings.Split(queue, ":")
	if len(parts) != 3 || parts[0] != "hearsay" {
		return "", "", false
	}
	deployment, err := url.QueryUnescape(strings.ReplaceAll(parts[1], "=", "%"))
	source, other := url.QueryUnescape(strings.ReplaceAll(parts[2], "=", "%"))
	return deployment, source, err == nil && other == nil && deployment != "" && source != ""
}

// known are the queues that a process has served or filled, and how many processes serve each.
func known(i *asynq.Inspector, want func(deployment, source string) bool) (map[string]*Stats, error) {
	of := map[string]*Stats{}
	note := func(queue string) *Stats {
		if s := of[queue]; s != nil {
			return s
		}
		deployment, source, ok := named(queue)
		if !ok || !want(deployment, source) {
			return nil
		}
		of[queue] = &Stats{Deployment: deployment, Source: source, Queue: queue}
		return of[queue]
	}
	names, err := i.Queues()
	if err != nil {
		return nil, fmt.Errorf("asynqqueue: %w", err)
	}
	servers, err := i.Servers()
	if err != nil {
		return nil, fmt.Errorf("asynqqueue: %w", err)
	}
	for _, name := range names {
		note(name)
	}
	for _, server := range servers {
		for name := range server.Queues {
			if s := note(name); s != nil && server.Status == "active" {
				s.Processes++
			}
		}
	}
	return of, nil
}

func inspect(ctx context.Context, client redis.UniversalClient, want func(deployment, source string) bool) ([]Stats, error) {
	i := asynq.NewInspectorFromRedisClient(client)
	of, err := known(i, want)
	if err != nil {
		return nil, err
	}
	out := make([]Stats, 0, len(of))
	for _, s := range of {
		if err := ctx.Err(); err != nil { // asynq's inspector takes no context
			return nil, fmt.Errorf("asynqqueue: %w", err)
		}
		if err := s.read(ctx, client, i); err != nil {
			return nil, err
		}
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Stats) int { return strings.Compare(a.Queue, b.Queue) })
	return out, nil
}

// read counts the tasks of a queue.
func (s *Stats) read(ctx context.Context, client redis.UniversalClient, i *asynq.Inspector) (err error) {
	if s.Paused, err = paused(ctx, client, s.Queue); err != nil {
		return err
	}
	for _, c := range []struct {
		list func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error)
		n    *int
	}{{i.ListPendingTasks, &s.Pending}, {i.ListActiveTasks, &s.Active}, {i.ListRetryTasks, &s.Retry}, {i.ListArchivedTasks, &s.Archived}} {
		const page = 1000
		for at, more := 1, true; more; at++ {
			tasks, err := c.list(s.Queue, asynq.PageSize(page), asynq.Page(at))
			if errors.Is(err, asynq.ErrQueueNotFound) { // Redis was wiped a moment ago
				break
			}
			if err != nil {
				return fmt.Errorf("asynqqueue: queue %s: %w", s.Queue, err)
			}
			for _, t := range tasks {
				if t.IsOrphaned {
					s.Orphaned++
				} else {
					*c.n++
				}
			}
			more = len(tasks) == page
		}
	}
	return nil
}
