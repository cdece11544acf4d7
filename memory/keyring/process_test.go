package keyring_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// child makes keys of a few subjects, at once with other processes, retires
// and destroys some, and says what it sealed and destroyed.
func child(dir string, seed uint64) error {
	ctx, draw := context.Background(), rand.New(rand.NewPCG(seed, 2))
	k, err := keyring.OpenOrCreate(dir, nil)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		subject := fmt.Sprint("subject ", draw.IntN(6))
		c, err := k.Key(ctx, subject)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%d says %d", os.Getpid(), n)
		sealed, err := k.Seal(ctx, c, []byte(text), nil)
		if err != nil && !errors.Is(err, memory.ErrErased) { // by another, just now
			return err
		}
		if err == nil {
			fmt.Printf("sealed %d %x %s\n", uint64(c), sealed, hex.EncodeToString([]byte(text)))
		}
		if n%5 == 4 {
			list, err := k.Retire(ctx, subject)
			if err != nil {
				return err
			}
			fmt.Printf("destroying %s\n", texts(list))
			if _, err := k.Destroy(ctx, list...); err != nil {
				return err
			}
			fmt.Printf("destroyed %s\n", texts(list))
		}
	}
}

func texts(list []memory.KeyID) string {
	var out []string
	for _, c := range list {
		out = append(out, fmt.Sprint(uint64(c)))
	}
	return strings.Join(out, " ")
}

func TestProcessesThatAreKilledLoseNoKeyAndKeepNone(t *testing.T) {
	t.Parallel()
	const rounds, children = 6, 3
	dir := fresh(t)
	type cipher struct {
		key          memory.KeyID
		sealed, text []byte
	}
	var mu sync.Mutex
	var sealed []cipher
	draw := rand.New(rand.NewPCG(testmain.Drawn(t), 1))
	begun, done := map[memory.KeyID]bool{}, map[memory.KeyID]bool{}
	for range rounds {
		var all sync.WaitGroup
		for range children {
			seed, last := draw.Uint64(), 5+draw.IntN(40) // the child is killed after so many lines
			all.Go(func() {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), childPath+"="+dir, childSeed+"="+fmt.Sprint(seed))
				out, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Error(err)
					return
				}
				lines := bufio.NewScanner(out)
				for n := 1; lines.Scan(); n++ {
					if n == last {
						_ = cmd.Process.Kill()
					}
					word, rest, _ := strings.Cut(lines.Text(), " ")
					mu.Lock()
					switch word {
					case "sealed":
						var c cipher
						if _, err := fmt.Sscanf(rest, "%d %x %x", &c.key, &c.sealed, &c.text); err == nil {
							sealed = append(sealed, c)
						}
					case "destroying", "destroyed":
						for _, number := range strings.Fields(rest) {
							var c memory.KeyID
							_, _ = fmt.Sscan(number, &c)
							if word == "destroyed" {
								done[c] = true
							}
							begun[c] = true
						}
					default:
						t.Errorf("a child says %q", lines.Text())
					}
					mu.Unlock()
				}
				_ = cmd.Wait() // killed
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		k := must(keyring.OpenOrCreate(dir, nil))(t) // the first ones may not have come to making it
		for _, c := range sealed {
			got, err := k.Open(t.Context(), c.key, c.sealed, nil)
			switch {
			case errors.Is(err, memory.ErrErased):
				if !begun[c.key] {
					t.Fatalf("key %x is erased and nobody destroyed it", c.key)
				}
			case err != nil:
				t.Fatalf("key %x: %v", c.key, err)
			case done[c.key]:
				t.Fatalf("key %x was destroyed and opens", c.key)
			case !slices.Equal(got, c.text):
				t.Fatalf("key %x opens as %q, was %q", c.key, got, c.text)
			}
		}
		for c := range done {
			_, err := k.Seal(t.Context(), c, nil, nil)
			wrong(t, err, memory.ErrErased)
		}
	}
	if len(sealed) < 10*rounds || len(done) < rounds {
		t.Fatalf("only %d texts and %d keys destroyed", len(sealed), len(done))
	}
	t.Logf("%d texts, %d keys destroyed", len(sealed), len(done))
}

func TestRingsThatMakeAKeyAtOnceHaveOne(t *testing.T) {
	t.Parallel()
	dir := fresh(t)
	var rings []*keyring.Ring
	for range 8 {
		rings = append(rings, must(keyring.OpenOrCreate(dir, nil))(t))
	}
	for round := range 10 {
		made := make([]memory.KeyID, len(rings))
		sealed := make([][]byte, len(rings))
		var all sync.WaitGroup
		for i, k := range rings {
			all.Go(func() {
				var err error
				made[i], err = k.Key(t.Context(), fmt.Sprint("subject ", round))
				if err == nil {
					sealed[i], err = k.Seal(t.Context(), made[i], []byte("text"), []byte("row 1"))
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for i := range rings {
			if made[i] != made[0] {
				t.Fatalf("keys %x", made)
			}
			for _, k := range rings {
				opens(t, k, made[0], sealed[i], "text")
			}
		}
	}
}

func TestAnotherRingNoticesWhatEnded(t *testing.T) {
	t.Parallel()
	dir := fresh(t)
	here, there := create(t, dir), reopen(t, dir)
	a := key(t, here, "ann")
	sealed := seal(t, here, a, "text")
	opens(t, there, a, sealed, "text")
	if key(t, there, "ann") != a {
		t.Fatal("another key")
	}
	if list := must(here.Retire(t.Context(), "ann"))(t); !slices.Equal(list, []memory.KeyID{a}) {
		t.Fatalf("retired %x", list)
	}
	if key(t, there, "ann") == a {
		t.Fatal("a retired key is in use")
	}
	destroy(t, here, a)
	_, err := here.Open(t.Context(), a, sealed, []byte("row 1"))
	wrong(t, err, memory.ErrErased)
	time.Sleep(keyring.Staleness)
	_, err = there.Open(t.Context(), a, sealed, []byte("row 1"))
	wrong(t, err, memory.ErrErased)
	_, err = there.Seal(t.Context(), a, nil, nil)
	wrong(t, err, memory.ErrErased)

	id := must(here.Rotate(t.Context()))(t)
	if _, ok := there.AuditKey(id); !ok {
		time.Sleep(keyring.Staleness) // it was looked at just now
	}
	hereKey, _ := here.AuditKey(id)
	if thereKey, ok := there.AuditKey(id); !ok || hereKey != thereKey {
		t.Fatal("the new audit key is not known")
	}
	if now, _ := there.Audit(); now != id {
		t.Fatalf("audit key %d, want %d", now, id)
	}
}

func TestOneRingServesManyGoroutines(t *testing.T) {
	t.Parallel()
	everyRing(t, func(t *testing.T, k *keyring.Ring) {
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for n := range 30 {
					subject := fmt.Sprint("subject ", n%4)
					c, err := k.Key(t.Context(), subject)
					if err != nil {
						t.Error(err)
						return
					}
					sealed, err := k.Seal(t.Context(), c, []byte(subject), nil)
					if err == nil {
						var got []byte
						if got, err = k.Open(t.Context(), c, sealed, nil); err == nil && string(got) != subject {
							t.Errorf("opened %q", got)
						}
					}
					if err != nil && !errors.Is(err, memory.ErrErased) {
						t.Error(err)
					}
					if n%10 == g {
						list, err := k.Retire(t.Context(), subject)
						if err == nil {
							_, err = k.Destroy(t.Context(), list...)
						}
						if err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		all.Wait()
	})
}

func TestAContextEndsTheWaitForTheLock(t *testing.T) {
	t.Parallel()
	dir := fresh(t)
	other := create(t, dir)
	known := key(t, other, "known")
	inside, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	armed := false
	k := must(keyring.OpenWith(dir, func(op, path string, act func() error) error {
		if armed && op == "insert" {
			once.Do(func() { close(inside); <-leave })
		}
		return act()
	}))(t)
	seal(t, k, known, "text")
	armed = true
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := k.Key(context.Background(), "ann"); err != nil {
			t.Error(err)
		}
	})
	<-inside
	for _, waiting := range []*keyring.Ring{k, other} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := waiting.Key(ctx, "bob")
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v", err)
		}
		if _, err = waiting.Seal(t.Context(), known, nil, nil); err != nil {
			t.Errorf("who only seals waits for the lock: %v", err)
		}
	}
	close(leave)
	all.Wait()
}
