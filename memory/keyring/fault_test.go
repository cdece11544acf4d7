package keyring_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

var errFault = errors.New("the disk reported an error")

// A mode says what becomes of operation number at and of those after it.
type mode struct {
	name string
	run  func(n, at int, act func() error) error
}

var modes = []mode{
	{"is refused", func(n, at int, act func() error) error {
		if n == at {
			return errFault
		}
		return act()
	}},
	{"is done, but reported as failed", func(n, at int, act func() error) error {
		err := act()
		if n == at {
			return errors.Join(errFault, err)
		}
		return err
	}},
	// What a killed process does not do: nothing after it is done either.
	{"is not lived to see", func(n, at int, act func() error) error {
		if n >= at {
			return errFault
		}
		return act()
	}},
}

// scene is a ring with something in it.
type scene struct {
	dir           string
	a, b          memory.KeyID
	sealA, sealB  []byte
	auditID       uint32
	auditKey      [32]byte
	dataKeyOfAnns []byte // as it is in memory
	sealedOfAnns  []byte // as it is in the file
}

func newScene(t *testing.T) scene {
	t.Helper()
	s := scene{dir: fresh(t)}
	k := create(t, s.dir)
	s.a, s.b = key(t, k, "ann"), key(t, k, "bob")
	s.sealA, s.sealB = seal(t, k, s.a, "about ann"), seal(t, k, s.b, "about bob")
	s.auditID, s.auditKey = k.Audit()
	s.sealedOfAnns, s.dataKeyOfAnns = keyring.KeyBytes(t.Context(), k, s.a)
	if err := k.Close(); err != nil { // all of it is in the one file then
		t.Fatal(err)
	}
	return s
}

// unhurt asks for what must hold whatever happened to the folder.
func (s scene) unhurt(t *testing.T, k *keyring.Ring) {
	t.Helper()
	opens(t, k, s.b, s.sealB, "about bob")
	if key, ok := k.AuditKey(s.auditID); !ok || key != s.auditKey {
		t.Fatal("the audit key is gone")
	}
	got, err := k.Open(t.Context(), s.a, s.sealA, []byte("row 1"))
	if !errors.Is(err, memory.ErrErased) && (err != nil || string(got) != "about ann") {
		t.Fatalf("%q, %v", got, err)
	}
}

var faultCases = []struct {
	name string
	act  func(t *testing.T, s scene, k *keyring.Ring) error
	// done asks, of a ring that was opened after act had succeeded, for its effect.
	done func(t *testing.T, s scene, k *keyring.Ring)
}{
	{"making a key",
		func(t *testing.T, s scene, k *keyring.Ring) error {
			_, err := k.Key(t.Context(), "cid")
			return err
		},
		func(t *testing.T, s scene, k *keyring.Ring) {
			if n := len(must(k.Subject(t.Context(), "cid"))(t)); n != 1 {
				t.Fatalf("%d keys", n)
			}
		}},
	{"retiring",
		func(t *testing.T, s scene, k *keyring.Ring) error {
			list, err := k.Retire(t.Context(), "ann")
			if want := []memory.KeyID{s.a}; err == nil && !slices.Equal(list, want) {
				t.Fatalf("retired %x, want %x", list, want)
			}
			return err
		},
		func(t *testing.T, s scene, k *keyring.Ring) {
			if key(t, k, "ann") == s.a {
				t.Fatal("the key of before is in use")
			}
			opens(t, k, s.a, s.sealA, "about ann")
		}},
	{"destroying",
		func(t *testing.T, s scene, k *keyring.Ring) error {
			d, err := k.Destroy(t.Context(), s.a)
			if err == nil {
				s.noKey(t)
				if d.Pending != "" {
					t.Fatalf("pending: %s", d.Pending)
				}
			}
			return err
		},
		func(t *testing.T, s scene, k *keyring.Ring) {
			s.noKey(t)
			_, err := k.Open(t.Context(), s.a, s.sealA, []byte("row 1"))
			wrong(t, err, memory.ErrErased)
			_, err = k.Key(t.Context(), "ann") // she was not retired
			wrong(t, err, memory.ErrErased)
		}},
	{"rotating",
		func(t *testing.T, s scene, k *keyring.Ring) error {
			_, err := k.Rotate(t.Context())
			return err
		},
		func(t *testing.T, s scene, k *keyring.Ring) {
			if id, key := k.Audit(); id <= s.auditID || key == s.auditKey {
				t.Fatal("the audit key of before is in use")
			}
		}},
}

func (s scene) noKey(t *testing.T) {
	t.Helper()
	for _, content := range contents(t, s.dir) {
		if bytes.Contains(content, s.dataKeyOfAnns) || bytes.Contains(content, s.sealedOfAnns) {
			t.Fatal("the key that was destroyed is in a file")
		}
	}
}

// contents reads every file below a folder. One that goes meanwhile holds nothing.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out[path], err = os.ReadFile(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Every operation on a file, one after the other, goes wrong in every way; then
// the same is asked again, of the same ring if its process lives and of another.
func TestWhereverAFileOperationFailsTheSameCallRepairsIt(t *testing.T) {
	t.Parallel()
	var points atomic.Int64
	t.Cleanup(func() {
		if t.Logf("%d points", points.Load()); !t.Failed() && points.Load() < 100 {
			t.Error("too few")
		}
	})
	for _, c := range faultCases {
		for _, m := range modes {
			t.Run(c.name+", an operation "+m.name, func(t *testing.T) {
				t.Parallel()
				for at := 0; ; at++ {
					s := newScene(t)
					n, armed, reached, last := 0, false, false, ""
					k, err := keyring.OpenWith(s.dir, func(op, path string, act func() error) error {
						if !armed {
							return act()
						}
						if n == at {
							reached, last = true, op+" "+filepath.Base(path)
						}
						err := m.run(n, at, act)
						n++
						return err
					})
					if err != nil {
						t.Fatal(err)
					}
					armed = true
					err = c.act(t, s, k)
					armed = false
					if reached && err == nil && m.name == modes[2].name {
						t.Fatalf("a process that died at %q reported success", last)
					}
					if err != nil {
						wrong(t, err, errFault)
						var file *keyring.FileError
						if !errors.As(err, &file) || file.Path == "" {
							t.Fatalf("%q: the error names no file: %v", last, err)
						}
					}
					other := reopen(t, s.dir)
					s.unhurt(t, other)
					if m.name != modes[2].name {
						s.unhurt(t, k)
						if err := c.act(t, s, k); err != nil {
							t.Fatalf("%q failed, and then again: %v", last, err)
						}
					} else if err := c.act(t, s, other); err != nil {
						t.Fatalf("%q failed, and then in another process: %v", last, err)
					}
					third := reopen(t, s.dir)
					s.unhurt(t, third)
					c.done(t, s, third)
					if !reached {
						break
					}
					points.Add(1)
				}
			})
		}
	}
}

func TestWhereverMakingARingFailsItCanBeMade(t *testing.T) {
	t.Parallel()
	points := 0
	for _, m := range modes {
		for at := 0; ; at++ {
			dir := fresh(t)
			n, reached, last := 0, false, ""
			_, err := keyring.CreateWith(dir, func(op, path string, act func() error) error {
				if n == at {
					reached, last = true, op+" "+filepath.Base(path)
				}
				err := m.run(n, at, act)
				n++
				return err
			})
			if !reached {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			points++
			if _, err := keyring.OpenOrCreate(dir, nil); err != nil {
				t.Fatalf("%q %s (%v), and then: %v", last, m.name, err, err)
			}
		}
	}
	t.Logf("%d points", points)
}
