package keyring_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory/keyring"
)

// overtaking is a wrapping key. Before each of the first Unwraps, somebody else goes on to
// a later version of it.
type overtaking struct {
	keyring.Wrapping
	left   int
	goesOn func()
}

func (o *overtaking) Unwrap(ctx context.Context, version string, wrapped []byte) ([]byte, error) {
	if o.left > 0 {
		o.left--
		o.goesOn()
	}
	return o.Wrapping.Unwrap(ctx, version, wrapped)
}

func TestARingIsReadHoweverOftenAnotherProcessGoesOnMeanwhile(t *testing.T) {
	t.Parallel()
	dir := fresh(t)
	other := create(t, dir)
	path := filepath.Join(dir, "wrap")
	version := func() []byte { return must(os.ReadFile(path))(t) }
	var all sync.WaitGroup
	o := &overtaking{Wrapping: must(keyring.WrappingFile(path))(t), left: 40}
	o.goesOn = func() {
		before := version()
		id := key(t, other, fmt.Sprint("subject ", o.left))
		all.Go(func() {
			if _, err := other.Destroy(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
		for bytes.Equal(version(), before) { // not until Destroy returns: it waits for this reader
			time.Sleep(time.Millisecond)
		}
	}
	k := must(keyring.Open(dir, &keyring.Options{Wrapping: o}))(t)
	all.Wait()
	if o.left > 0 {
		t.Errorf("%d of the versions were not overtaken", o.left)
	}
	key(t, k, "bob")
}

func TestAVersionOlderThanTheFileIsForgotten(t *testing.T) {
	t.Parallel()
	w := must(keyring.CreateWrappingFile(filepath.Join(t.TempDir(), "wrap")))(t)
	for _, version := range []string{"3", "2"} {
		if gone, err := w.Forget(t.Context(), version); !gone || err != nil {
			t.Errorf("version %s: %t, %v", version, gone, err)
		}
	}
	if _, _, err := w.Wrap(t.Context(), "2", make([]byte, 32)); err == nil {
		t.Error("version 2 is at hand")
	}
}
