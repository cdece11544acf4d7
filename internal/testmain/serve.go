package testmain

import (
	"context"
	"sync"
	"testing"
)

// Serve runs serve in the background until stop is called or the test ends. stop ends its context
// and waits for it. An error that it returns fails the test.
func Serve(t testing.TB, serve func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}
