package keyring_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	dataKeyOfAnns []byte // as it is in the file
}

func newScene(t *testing.T) scene {
	t.Helper()
	s := scene{dir: fresh(t)}
	k := create(t, s.dir)
	s.a, s.b = key(t, k, "ann"), key(t, k, "bob")
	s.sealA, s.sealB = seal(t, k, s.a, "about ann"), seal(t, k, s.b, "about bob")
	s.auditID, s.auditKey = k.Audit()
	s.dataKeyOfAnns = dataKey(t, s.dir, s.a)
	return s
}

// dataKey is what is in the file of a key: behind mark, version, kind and id.
func dataKey(t *testing.T, dir string, c memory.KeyID) []byte {
	t.Helper()
	data := must(os.ReadFile(filepath.Join(dir, "classes", fmt.Sprintf("%016x", uint64(c)))))(t)
	return data[18 : 18+32]
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
			err := k.Destroy(t.Context(), s.a)
			if err == nil {
				s.noKey(t)
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
		if bytes.Contains(content, s.dataKeyOfAnns) {
			t.Fatal("the key that was destroyed is in a file")
		}
	}
}

// contents reads every file below a folder.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out[path], err = os.ReadFile(path)
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

func TestOpenFinishesWhatADeathInDestroyLeft(t *testing.T) {
	t.Parallel()
	points := 0
	for _, m := range modes {
		for at := 0; ; at++ {
			s := newScene(t)
			// It dies when the key is recorded as destroyed and still there.
			dead := false
			k := must(keyring.OpenWith(s.dir, func(op, path string, act func() error) error {
				if dead = dead || op == "wipe"; dead {
					return errFault
				}
				return act()
			}))(t)
			wrong(t, k.Destroy(t.Context(), s.a), errFault)
			if !bytes.Equal(dataKey(t, s.dir, s.a), s.dataKeyOfAnns) {
				t.Fatal("the key is gone already")
			}
			n, reached := 0, false
			_, err := keyring.OpenWith(s.dir, func(op, path string, act func() error) error {
				reached = reached || n == at
				err := m.run(n, at, act)
				n++
				return err
			})
			if err == nil {
				s.noKey(t)
			} else {
				wrong(t, err, errFault)
			}
			third := reopen(t, s.dir)
			s.noKey(t)
			s.unhurt(t, third)
			if !reached {
				break
			}
			points++
		}
	}
	t.Logf("%d points", points)
}

// What survives a loss of power is what was synced before it: so the order of the
// operations is the promise.
func TestTheOrderOfOperationsSurvivesALossOfPower(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var trace []string
	k := must(keyring.OpenWith(s.dir, func(op, path string, act func() error) error {
		switch op {
		case "lock", "stat", "read", "list", "open", "close", "create":
		default:
			trace = append(trace, op+" "+strings.Replace(filepath.Base(path), fmt.Sprintf("%016x", uint64(s.a)), "KEY", 1))
		}
		return act()
	}))(t)
	expect := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(trace, want) {
			t.Errorf("%s: %q, want %q", what, trace, want)
		}
		trace = nil
	}
	put := func(name, dir string) []string {
		return []string{"write new", "sync new", "rename " + name, "sync " + dir}
	}
	expect("opening")
	c := key(t, k, "cid")
	expect("making a key", put(fmt.Sprintf("%016x", uint64(c)), "classes")...)
	key(t, k, "ann")
	expect("a key that another process made", "sync classes")
	key(t, k, "ann")
	seal(t, k, c, "text")
	expect("a known key")
	must(k.Retire(t.Context(), "ann"))(t)
	expect("retiring", put("ended", "keys")...)
	must(k.Retire(t.Context(), "ann"))(t)
	expect("retiring again", "sync keys")
	if err := k.Destroy(t.Context(), s.a); err != nil {
		t.Fatal(err)
	}
	wiped := []string{"sync keys", "wipe KEY", "sync KEY", "remove KEY", "sync classes"}
	expect("destroying", append(put("ended", "keys"), wiped...)...)
	if err := k.Destroy(t.Context(), s.a); err != nil {
		t.Fatal(err)
	}
	expect("destroying again", "sync keys", "sync classes")
	must(k.Rotate(t.Context()))(t)
	expect("rotating", put("ring", "keys")...)
}
