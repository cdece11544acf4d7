package memory

import (
	"context"
	"errors"
	"sync"
)

// turns let the writers of one object that met a conflict write one after the other, first
// come, first served. Without them the slowest of many writers may lose every race. They hold
// within this store only; writers of other processes are met as before, by a conflict. The
// zero value is ready. It is safe for concurrent use.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

// turn is whose turn it is at one object.
type turn struct {
	free    chan struct{} // holds one value while nobody has the turn
	writers int           // who have it or wait for it
}

// take waits for the turn at an object, and returns what gives it back.
func (t *turns) take(ctx context.Context, key string) (giveBack func(), err error) {
	t.mu.Lock()
	at := t.of[key]
	if at == nil {
		if at = (&turn{free: make(chan struct{}, 1)}); t.of == nil {
			t.of = map[string]*turn{}
		}
		at.free <- struct{}{}
		t.of[key] = at
	}
	at.writers++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if at.writers--; at.writers == 0 {
			delete(t.of, key)
		}
	}
	select {
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	case <-at.free:
		return func() {
			at.free <- struct{}{}
			leave()
		}, nil
	}
}

// crowded reports whether somebody has the turn at an object.
func (t *turns) crowded(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[key] != nil
}

// retryInTurn is [retry] for what many writers may do to one object at the same time. A writer
// that met a conflict, or comes while others wait, has the turn at the key while it tries. No
// attempt may make another one in turn.
func (s *Store) retryInTurn(ctx context.Context, key string, attempt func() (Receipt, error)) (Receipt, error) {
	if !s.turns.crowded(key) {
		if r, err := attempt(); !errors.Is(err, ErrConflict) {
			return r, err
		}
	}
	giveBack, err := s.turns.take(ctx, key)
	if err != nil {
		return Receipt{}, err
	}
	defer giveBack()
	return retry(ctx, attempt)
}
