package promotion

import "context"

// ServeSource serves one source of a worker, with so many places.
func (w *Worker) ServeSource(ctx context.Context, q CheckQueue, source string, places int) error {
	serve, stop := newService(q, []Scope{{Worker: w}}).source(source, places)
	defer stop()
	return serve(ctx)
}
