package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
)

// RunForm asks that a driver opens a store of [memory.Form] and no other, says which form it
// found, and leaves what it refuses as it is. For each form, fresh makes a store of its own:
// open opens it, and set writes the number of a form into it while it is closed. Form 0 is
// that of a store without a number.
func RunForm(t *testing.T, fresh func(t *testing.T) (open func() (memory.Driver, error), set func(form int))) {
	t.Helper()
	refused := 0
	for _, form := range []int{0, 1, memory.Form - 1, memory.Form + 1} {
		open, set := fresh(t)
		with(t, open, func(d memory.Driver) error {
			return d.Apply(t.Context(), "tenant", memory.Batch{Puts: []memory.Put{{Key: "k", Data: []byte("x"), Entry: []byte("x")}}})
		})
		set(form)
		d, err := open()
		if err == nil {
			d.Close()
		}
		var wrong *memory.FormError
		if !errors.As(err, &wrong) || wrong.Found != form || !errors.Is(err, memory.ErrSchema) {
			t.Fatalf("a store of form %d gives %v", form, err)
		}
		for _, number := range []int{form, memory.Form} {
			if !strings.Contains(err.Error(), fmt.Sprint("form ", number)) {
				t.Errorf("%q does not name form %d", err, number)
			}
		}
		refused++
		set(memory.Form)
		with(t, open, func(d memory.Driver) error {
			objects, err := d.Get(t.Context(), "tenant", []string{"k"})
			if err == nil && (objects[0].Revision != 1 || string(objects[0].Data) != "x") {
				err = fmt.Errorf("a store of form %d was changed: %+v", form, objects[0])
			}
			return err
		})
	}
	t.Logf("storetest: %d other forms were refused", refused)
}

// with does something with a driver, and closes it.
func with(t *testing.T, open func() (memory.Driver, error), do func(d memory.Driver) error) {
	t.Helper()
	d, err := open()
	if err == nil {
		err = errors.Join(do(d), d.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
