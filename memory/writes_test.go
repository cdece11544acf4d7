package memory_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// readOnly is a driver whose server takes no writes.
type readOnly struct {
	memory.Driver
	refuses bool
}

var errReadOnly = errors.New("the server takes no writes")

func (d *readOnly) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	if d.refuses {
		return errReadOnly
	}
	return d.Driver.Apply(ctx, tenant, b)
}

func objectsOf(t *testing.T, d memory.Driver) (n, bytes int) {
	t.Helper()
	for o, err := range d.Objects(t.Context(), "default", "") {
		if err != nil {
			t.Fatal(err)
		}
		n, bytes = n+1, bytes+len(o.Data)
	}
	return n, bytes
}

func TestACheckOfWritesWritesOneObjectAndNoMore(t *testing.T) {
	d := &readOnly{Driver: storetest.NewMap()}
	s := storetest.On(d, nil)
	if _, err := s.Put(t.Context(), modelDraft(says("acme", "city", "Oslo"))); err != nil {
		t.Fatal(err)
	}
	before, _ := objectsOf(t, d)
	if err := s.CheckWrites(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, size := objectsOf(t, d)
	for range 100 {
		if err := s.CheckWrites(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n, bytes := objectsOf(t, d); n != first || bytes != size || first != before+1 {
		t.Errorf("%d objects of %d bytes grew to %d of %d by it; there were %d before the first", first, size, n, bytes, before)
	}
	if v, err := s.VerifyAll(t.Context(), memory.Verifying{}); err != nil || v.Found != 0 {
		t.Errorf("a verification finds %d things: %v", v.Found, err)
	}
	d.refuses = true
	if err := s.CheckWrites(t.Context()); !errors.Is(err, errReadOnly) {
		t.Errorf("of a server that only reads it says %v", err)
	}
	if _, err := s.Fitness(t.Context(), nil); err != nil {
		t.Errorf("which reads: %v", err)
	}
}

func TestACheckOfWritesMakesNoStore(t *testing.T) {
	d := storetest.NewMap()
	s := storetest.On(d, nil)
	if err := s.CheckWrites(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, _ := objectsOf(t, d); n != 1 {
		t.Errorf("a store that was never written has %d objects", n)
	}
	if _, err := s.Put(t.Context(), modelDraft(says("acme", "city", "Oslo"))); err != nil {
		t.Fatalf("the first row: %v", err)
	}
	if v, err := s.VerifyAll(t.Context(), memory.Verifying{}); err != nil || v.Found != 0 {
		t.Errorf("a verification finds %d things: %v", v.Found, err)
	}
	if err := s.CheckWrites(t.Context()); err != nil {
		t.Error(err)
	}
}

// What somebody made of the object is no reason to take the store for one that cannot be
// written.
func TestACheckOfWritesGoesOnAfterItsObjectWasChanged(t *testing.T) {
	d := storetest.NewMap()
	s := storetest.On(d, nil)
	if _, err := s.Put(t.Context(), modelDraft(says("acme", "city", "Oslo"))); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckWrites(t.Context()); err != nil {
		t.Fatal(err)
	}
	objs, err := d.Get(t.Context(), "default", []string{"s/probe"})
	if err != nil || objs[0].Revision == 0 {
		t.Fatalf("%+v %v", objs, err)
	}
	if err := d.Apply(t.Context(), "default", memory.Batch{Puts: []memory.Put{{Key: "s/probe", From: objs[0].Revision, Data: []byte("forged")}}}); err != nil {
		t.Fatal(err)
	}
	if v, err := s.VerifyAll(t.Context(), memory.Verifying{Found: func(error) error { return nil }}); err != nil || v.Found != 1 {
		t.Errorf("a verification finds %d things, want one: %v", v.Found, err)
	}
	if err := s.CheckWrites(t.Context()); err != nil {
		t.Error(err)
	}
	if v, err := s.VerifyAll(t.Context(), memory.Verifying{}); err != nil || v.Found != 0 {
		t.Errorf("after the next write a verification finds %d things: %v", v.Found, err)
	}
}

func TestManyProcessesCheckAtOnce(t *testing.T) {
	d := storetest.NewMap()
	first := storetest.On(d, nil)
	if _, err := first.Put(t.Context(), modelDraft(says("acme", "city", "Oslo"))); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	const n, rounds = 8, 20
	for range n {
		go func() {
			var failed error
			for range rounds {
				failed = errors.Join(failed, first.CheckWrites(t.Context()))
			}
			errs <- failed
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
