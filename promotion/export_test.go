package promotion

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// ServeSource serves one source of a worker, with so many places.
func (w *Worker) ServeSource(ctx context.Context, q CheckQueue, source string, places int) error {
	s := newService(q, []Scope{{Worker: w}})
	defer s.source(source, places)()
	group, ctx := errgroup.WithContext(ctx)
	s.serve(ctx, group)
	return group.Wait()
}
