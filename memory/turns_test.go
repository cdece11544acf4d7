package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// slow is a driver on which something happens before each batch of a marked writer.
type slow struct {
	memory.Driver
	before func()
	tries  int
}

type marked struct{}

func (s *slow) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	if ctx.Value(marked{}) != nil {
		s.tries++
		s.before()
	}
	return s.Driver.Apply(ctx, tenant, b)
}

// TestASlowWriterGetsItsTurn: before every attempt of it a faster one says the same. The
// second attempt is made while the others wait.
func TestASlowWriterGetsItsTurn(t *testing.T) {
	for name, say := range map[string]func(context.Context, *memory.Store, memory.ID) error{
		"in the same words": func(ctx context.Context, s *memory.Store, _ memory.ID) error {
			_, err := s.Put(ctx, modelDraft(berlin))
			return err
		},
		"in other words": func(ctx context.Context, s *memory.Store, id memory.ID) error {
			_, err := s.Echo(ctx, id, modelDraft(berlin).Asserter, "", "she lives in Berlin")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &slow{Driver: storetest.NewMap()}
				s, err := memory.New(d, keyring.Ephemeral(), nil)
				if err != nil {
					t.Fatal(err)
				}
				r, err := s.Put(t.Context(), modelDraft(berlin))
				if err != nil {
					t.Fatal(err)
				}
				others := make(chan error, 1000)
				begun := 0
				d.before = func() {
					begun++
					go func() { others <- say(t.Context(), s, r.ID) }()
					synctest.Wait() // it is done, or waits
				}
				if err := say(context.WithValue(t.Context(), marked{}, true), s, r.ID); err != nil {
					t.Error(err)
				}
				if d.tries != 2 {
					t.Errorf("%d attempts", d.tries)
				}
				for range begun {
					if err := <-others; err != nil {
						t.Error(err)
					}
				}
				rows, err := s.Get(t.Context(), r.ID)
				if err != nil || rows[0].Echoes.Count != begun+1 {
					t.Errorf("%d of %d echoes are counted, %v", rows[0].Echoes.Count, begun+1, err)
				}
			})
		})
	}
}

// TestAWriterThatWaitsForItsTurnMayGiveUp, and holds up nobody then.
func TestAWriterThatWaitsForItsTurnMayGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &slow{Driver: storetest.NewMap()}
		s, err := memory.New(d, keyring.Ephemeral(), nil)
		if err != nil {
			t.Fatal(err)
		}
		put := func(ctx context.Context) error {
			_, err := s.Put(ctx, modelDraft(berlin))
			return err
		}
		if err := put(t.Context()); err != nil {
			t.Fatal(err)
		}
		gaveUp := make(chan error, 1)
		d.before = func() {
			switch d.tries {
			case 1: // the first attempt is to conflict
				if err := put(t.Context()); err != nil {
					t.Error(err)
				}
			case 2: // while it has its turn, another one waits and gives up
				ctx, cancel := context.WithCancel(t.Context())
				go func() { gaveUp <- put(ctx) }()
				synctest.Wait()
				cancel()
				if err := <-gaveUp; !errors.Is(err, context.Canceled) {
					t.Errorf("it did not wait: %v", err)
				}
			}
		}
		if err := put(context.WithValue(t.Context(), marked{}, true)); err != nil || d.tries != 2 {
			t.Errorf("%d attempts, %v", d.tries, err)
		}
		// Nobody waits any more: the next writer tries at once, and a faster one comes before it.
		d.tries, d.before = 0, func() {
			if d.tries == 1 {
				go func() { gaveUp <- put(t.Context()) }()
				synctest.Wait()
			}
		}
		if err := put(context.WithValue(t.Context(), marked{}, true)); err != nil || d.tries != 2 {
			t.Errorf("%d attempts, %v", d.tries, err)
		}
		if err := <-gaveUp; err != nil {
			t.Error(err)
		}
	})
}
