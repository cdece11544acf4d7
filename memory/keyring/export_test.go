package keyring

import (
	"context"

	"github.com/hearsay-go/hearsay/memory"
)

// Fault runs an operation on a file, or does not.
type Fault = func(op, path string, act func() error) error

func CreateWith(dir string, fault Fault) (*Ring, error) {
	return create(&folder{dir: dir, fault: fault}, nil)
}

func OpenWith(dir string, fault Fault) (*Ring, error) {
	f := &folder{dir: dir, fault: fault}
	f.tx = func(tx Tx) Tx { return &failing{tx, f} }
	return open(f, nil)
}

// failing is a transaction each call of which is an operation.
type failing struct {
	Tx
	f *folder
}

func (t *failing) do(op string, act func() error) error {
	return t.f.do(op, t.f.path(fileRing), act)
}

func (t *failing) State() (s State, ok bool, err error) {
	err = t.do("state", func() (err error) { s, ok, err = t.Tx.State(); return err })
	return s, ok, err
}

func (t *failing) SetState(s State) error {
	return t.do("set state", func() error { return t.Tx.SetState(s) })
}

func (t *failing) Insert(list ...Entry) error {
	return t.do("insert", func() error { return t.Tx.Insert(list...) })
}

func (t *failing) Update(list ...Entry) error {
	return t.do("update", func() error { return t.Tx.Update(list...) })
}

// Cached returns how many keys and subjects a ring has in memory.
func Cached(k *Ring) (keys, subjects int) {
	v := k.s().view.Load()
	return v.ciphers.Len(), v.known.Len()
}

// KeyBytes are a data key as it is kept, and as it is used.
func KeyBytes(ctx context.Context, k *Ring, id memory.KeyID) (sealed, plain []byte) {
	err := k.s().read(ctx, func(v *view, tx Tx) error {
		list, err := tx.Find(id)
		if err != nil {
			return err
		}
		sealed = list[0].Sealed
		plain, err = v.inner.Decrypt(sealed, v.boundEntry(list[0]))
		return err
	})
	if err != nil {
		panic(err)
	}
	return sealed, plain
}
