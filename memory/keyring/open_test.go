package keyring_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// refused asks that Open gives an error that names a path and changes nothing.
func refused(t *testing.T, dir string, want error, path string) {
	t.Helper()
	files := func() map[string][]byte {
		all := contents(t, dir)
		maps.DeleteFunc(all, func(path string, _ []byte) bool { // of locks and of SQLite
			return strings.HasSuffix(path, "lock") || strings.HasSuffix(path, "-wal") || strings.HasSuffix(path, "-shm")
		})
		return all
	}
	before := files()
	_, err := keyring.Open(dir, nil)
	wrong(t, err, want)
	var file *keyring.FileError
	if !errors.As(err, &file) || file.Path != path || !strings.Contains(err.Error(), path) {
		t.Fatalf("error %q does not name %s", err, path)
	}
	if !maps.EqualFunc(before, files(), bytes.Equal) {
		t.Fatal("files were changed")
	}
}

func TestAFileThatIsNotAsItWasWrittenIsRefusedByName(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change func(data []byte) []byte
		ring   error
		wrap   error
	}{
		"cut short":          {func(d []byte) []byte { return d[:len(d)/2] }, keyring.ErrDamaged, keyring.ErrDamaged},
		"empty":              {func(d []byte) []byte { return nil }, keyring.ErrDamaged, keyring.ErrDamaged},
		"all zero":           {func(d []byte) []byte { clear(d); return d }, memory.ErrForeign, memory.ErrForeign},
		"of another program": {func(d []byte) []byte { return []byte("Dear diary, nothing today.") }, memory.ErrForeign, memory.ErrForeign},
		"of a version to come": {func(d []byte) []byte {
			if len(d) < 200 {
				d[8] = 2
			} else {
				d[63] = 2 // user_version
			}
			return d
		}, memory.ErrSchema, memory.ErrSchema},
	} {
		for _, name := range []string{"ring.db", "wrap"} {
			t.Run(name+" is "+what, func(t *testing.T) {
				t.Parallel()
				s := newScene(t)
				path := filepath.Join(s.dir, name)
				data := must(os.ReadFile(path))(t)
				if err := os.WriteFile(path, c.change(data), 0o600); err != nil {
					t.Fatal(err)
				}
				want := c.ring
				if name == "wrap" {
					want = c.wrap
				}
				refused(t, s.dir, want, path)
			})
		}
	}
}

// flip changes a bit of the sealed record of a key, in the file.
func flip(t *testing.T, dir string, sealed []byte) {
	t.Helper()
	path := filepath.Join(dir, "ring.db")
	data := must(os.ReadFile(path))(t)
	at := bytes.Index(data, sealed)
	if at < 0 {
		t.Fatal("the key is not in the file")
	}
	data[at+len(sealed)/2] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedKeyHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	flip(t, s.dir, s.sealedOfAnns)
	k := reopen(t, s.dir)
	opens(t, k, s.b, s.sealB, "about bob")
	_, err := k.Open(t.Context(), s.a, s.sealA, []byte("row 1"))
	wrong(t, err, keyring.ErrDamaged)
	wrong(t, err, memory.ErrKey) // so that the rows beside it are shown
	if path := filepath.Join(s.dir, "ring.db"); !strings.Contains(err.Error(), path) {
		t.Fatalf("error %q does not name %s", err, path)
	}
	must(k.Retire(t.Context(), "bob"))(t)
	destroy(t, k, s.b) // all the others are wrapped anew
	c := key(t, k, "cid")
	opens(t, k, c, seal(t, k, c, "about cid"), "about cid")
	destroy(t, k, s.a) // the way out
	_, err = k.Open(t.Context(), s.a, s.sealA, []byte("row 1"))
	wrong(t, err, memory.ErrErased)
}

// Each record is bound to what it is of: one in the place of another opens nothing.
func TestAKeyInThePlaceOfAnotherOpensNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	k := reopen(t, s.dir)
	sealedB, _ := keyring.KeyBytes(t.Context(), k, s.b)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.dir, "ring.db")
	data := must(os.ReadFile(path))(t)
	at := bytes.Index(data, s.sealedOfAnns)
	if at < 0 || len(sealedB) != len(s.sealedOfAnns) {
		t.Fatal("the keys are not in the file")
	}
	copy(data[at:], sealedB)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := reopen(t, s.dir).Open(t.Context(), s.a, s.sealA, []byte("row 1"))
	wrong(t, err, keyring.ErrDamaged)
}

func TestAFileThatIsGoneIsNamed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	path := filepath.Join(s.dir, "wrap")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	refused(t, s.dir, keyring.ErrNotFound, path)

	// A ring whose file went is not made anew beside its wrapping key.
	s = newScene(t)
	if err := os.Remove(filepath.Join(s.dir, "ring.db")); err != nil {
		t.Fatal(err)
	}
	refused(t, s.dir, keyring.ErrNotFound, s.dir)
	_, err := keyring.OpenOrCreate(s.dir, nil)
	wrong(t, err, keyring.ErrNotFound)
	_, err = keyring.Create(s.dir, nil)
	wrong(t, err, keyring.ErrExists)
}

func TestFilesOfTwoRingsAreNotMixed(t *testing.T) {
	t.Parallel()
	one, two := newScene(t), newScene(t)
	for _, name := range []string{"wrap", "ring.db"} {
		path := filepath.Join(one.dir, name)
		mine := must(os.ReadFile(path))(t)
		copyFile(t, filepath.Join(two.dir, name), path)
		refused(t, one.dir, keyring.ErrWrapping, filepath.Join(one.dir, "wrap"))
		if err := os.WriteFile(path, mine, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reopen(t, one.dir)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	if err := os.WriteFile(to, must(os.ReadFile(from))(t), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhatOthersMayReadIsRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	s := newScene(t)
	for path, mode := range map[string]os.FileMode{s.dir: 0o700, filepath.Join(s.dir, "ring.db"): 0o600, filepath.Join(s.dir, "wrap"): 0o600} {
		for _, more := range []os.FileMode{0o040, 0o004, 0o020, 0o001} {
			if err := os.Chmod(path, mode|more); err != nil {
				t.Fatal(err)
			}
			_, err := keyring.Open(s.dir, nil)
			wrong(t, err, keyring.ErrExposed)
			if want := fmt.Sprintf("chmod %o %s", mode, path); !strings.HasSuffix(err.Error(), want) {
				t.Fatalf("error %q does not end in %q", err, want)
			}
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		reopen(t, s.dir)
	}
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := keyring.Create(open, nil)
	wrong(t, err, keyring.ErrExposed)
	if len(contents(t, open)) > 0 {
		t.Fatal("a file was made in it")
	}
	for path := range contents(t, s.dir) {
		if info := must(os.Stat(path))(t); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
	}
	if info := must(os.Stat(s.dir))(t); info.Mode().Perm() != 0o700 {
		t.Errorf("%s has mode %o", s.dir, info.Mode().Perm())
	}
}

func TestAFolderWithAnythingInItIsNotMadeARing(t *testing.T) {
	t.Parallel()
	dir := fresh(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "letter.txt"), []byte("Dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := keyring.OpenOrCreate(dir, nil)
	wrong(t, err, keyring.ErrNotFound)
	_, err = keyring.Create(dir, nil)
	wrong(t, err, keyring.ErrExists)
	_, err = keyring.Create("", nil)
	wrong(t, err, keyring.ErrNotFound)
}

func encoded(b byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) }

func TestAuditKeysOfTheEnvironment(t *testing.T) {
	t.Parallel()
	for text, ids := range map[string][]uint32{
		"1:" + encoded(1):                                  {1},
		"2:" + encoded(2) + ",1:" + encoded(1):             {2, 1},
		" 4294967295:" + encoded(2) + " , 1:" + encoded(1): {4294967295, 1},
		"":                                     nil,
		"1":                                    nil,
		"1:":                                   nil,
		"0:" + encoded(1):                      nil,
		"01:" + encoded(1):                     nil,
		"+1:" + encoded(1):                     nil,
		"-1:" + encoded(1):                     nil,
		"4294967296:" + encoded(1):             nil,
		"1:" + encoded(1) + ",":                nil,
		"1:" + encoded(1)[1:]:                  nil,
		"1:" + encoded(1) + "AAAA":             nil,
		"1:" + encoded(1) + ",1:" + encoded(2): nil,
		"1:" + encoded(1) + ",1:" + encoded(1): nil,
		"1:" + encoded(1)[:20] + "\n" + encoded(1)[20:]: nil,
	} {
		keys, err := keyring.ParseAuditKeys(text)
		var got []uint32
		for _, k := range keys {
			got = append(got, k.ID())
		}
		if !slices.Equal(got, ids) || (err == nil) != (ids != nil) {
			t.Errorf("%.20q: keys %d, %v", text, got, err)
		}
		if err != nil {
			wrong(t, err, keyring.ErrAuditKeys)
			if strings.Contains(err.Error(), encoded(1)[1:9]) {
				t.Errorf("error %q quotes the key", err)
			}
		}
	}
}

func TestAuditKeysThatTheProgramGivesAreInNoFile(t *testing.T) {
	t.Parallel()
	dir := fresh(t)
	given := func(text string) *keyring.Options {
		return &keyring.Options{AuditKeys: must(keyring.ParseAuditKeys(text))(t)}
	}
	k := must(keyring.Create(dir, given("1:"+encoded(1))))(t)
	if id, key := k.Audit(); id != 1 || key != [32]byte(bytes.Repeat([]byte{1}, 32)) {
		t.Fatalf("audit key %d", id)
	}
	for path, content := range contents(t, dir) {
		if bytes.Contains(content, bytes.Repeat([]byte{1}, 16)) {
			t.Fatalf("it is in %s", path)
		}
	}
	_, err := keyring.Open(dir, nil)
	wrong(t, err, keyring.ErrAuditKeys)
	k = must(keyring.Open(dir, given("2:"+encoded(2)+",1:"+encoded(1))))(t)
	if id, _ := k.Audit(); id != 2 {
		t.Fatalf("audit key %d", id)
	}
	if key, ok := k.AuditKey(1); !ok || key != [32]byte(bytes.Repeat([]byte{1}, 32)) {
		t.Fatal("the key of before is gone")
	}
	if _, ok := k.AuditKey(3); ok {
		t.Fatal("a key that there is not")
	}
	_, err = k.Rotate(t.Context())
	wrong(t, err, keyring.ErrAuditKeys)

	// A folder with keys of its own: they verify on, unless an id is used twice.
	dir = fresh(t)
	id, key := create(t, dir).Audit()
	k = must(keyring.Open(dir, given("9:"+encoded(9))))(t)
	if now, _ := k.Audit(); now != 9 {
		t.Fatalf("audit key %d", now)
	}
	if got, ok := k.AuditKey(id); !ok || got != key {
		t.Fatal("the key of the folder is gone")
	}
	_, err = keyring.Open(dir, given("1:"+encoded(9)))
	wrong(t, err, keyring.ErrAuditKeys)
}

func TestEachRotationHasAnIDAndAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	dir := fresh(t)
	for name, k := range map[string]*keyring.Ring{"folder": create(t, dir), "ephemeral": keyring.Ephemeral()} {
		keys := map[uint32][32]byte{}
		seen := map[[32]byte]bool{}
		for range 5 {
			id, key := k.Audit()
			if _, twice := keys[id]; twice || id == 0 || seen[key] {
				t.Fatalf("%s: id %d or its key was used before", name, id)
			}
			keys[id], seen[key] = key, true
			if next := must(k.Rotate(t.Context()))(t); next == id {
				t.Fatalf("%s: id %d again", name, id)
			}
		}
		if name == "folder" {
			k = reopen(t, dir)
		}
		for id, key := range keys {
			if got, ok := k.AuditKey(id); !ok || got != key {
				t.Fatalf("%s: key %d is gone", name, id)
			}
		}
	}
}

func TestSecretsAreInNothingThatIsPrinted(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	audit := must(keyring.ParseAuditKeys("77:" + encoded(0xab)))(t)
	options := keyring.Options{AuditKeys: audit}
	k := must(keyring.Open(s.dir, &options))(t)
	key(t, k, "canary@example.org")
	root := k.Root()
	_, key := reopen(t, s.dir).Audit()
	secrets := [][]byte{root[:], key[:], bytes.Repeat([]byte{0xab}, 32), s.dataKeyOfAnns, []byte("canary@example.org")}

	var printed strings.Builder
	values := []any{k, *k, audit, audit[0], &audit[0], options, &options, keyring.Ephemeral(),
		struct{ K *keyring.Ring }{k}, struct{ k keyring.Ring }{*k}, struct{ a []keyring.AuditKey }{audit}, map[string]any{"k": k, "a": audit}}
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b", "%o", "%t", "%p", "%w"} {
			fmt.Fprintf(&printed, verb+"\n", v)
		}
		data, _ := json.Marshal(v)
		printed.Write(data)
		for _, h := range []slog.Handler{slog.NewTextHandler(&printed, nil), slog.NewJSONHandler(&printed, nil)} {
			slog.New(h).InfoContext(context.Background(), "value", "value", v)
		}
	}
	for _, err := range []error{
		func() error { _, err := k.Open(t.Context(), s.a, []byte("x"), nil); return err }(),
		func() error { _, err := k.Key(t.Context(), ""); return err }(),
		func() error { _, err := k.Rotate(t.Context()); return err }(),
		func() error { _, err := k.Destroy(t.Context(), 1); return err }(),
	} {
		fmt.Fprintf(&printed, "%v %+v %#v\n", err, err, err)
	}
	fmt.Fprint(&printed, k.Findings())
	text := printed.String()
	for i, secret := range secrets {
		for _, form := range []string{
			string(secret), hex.EncodeToString(secret[:8]), strings.ToUpper(hex.EncodeToString(secret[:8])),
			base64.StdEncoding.EncodeToString(secret)[:12], strings.Trim(fmt.Sprint(secret[:4]), "[]"), strings.Trim(fmt.Sprintf("%#v", secret[:4])[7:], "{}"),
		} {
			if at := strings.Index(text, form); at >= 0 {
				t.Fatalf("secret %d is printed: …%.200q", i, text[max(0, at-150):])
			}
		}
	}
	for _, want := range []string{"keyring " + s.dir, "audit key 77 (redacted)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not printed", want)
		}
	}
}

func TestNoFileHoldsASubjectOrADestroyedKey(t *testing.T) {
	t.Parallel()
	dir := fresh(t)
	k := create(t, dir)
	other := reopen(t, dir) // has the file open too
	var all []memory.KeyID
	var plain, sealed [][]byte
	scan := func(gone ...[]byte) {
		t.Helper()
		for path, content := range contents(t, dir) {
			if bytes.Contains(content, []byte("canary")) || strings.Contains(path, "canary") || bytes.Contains(content, []byte(hex.EncodeToString([]byte("canary")))) {
				t.Fatalf("a subject is in %s", path)
			}
			for _, key := range slices.Concat(plain, gone) {
				if bytes.Contains(content, key) {
					t.Fatalf("a key that is not wrapped, or a destroyed one, is in %s", path)
				}
			}
		}
	}
	there := func(key []byte) bool {
		for _, content := range contents(t, dir) {
			if bytes.Contains(content, key) {
				return true
			}
		}
		return false
	}
	for n := range 150 {
		c := key(t, k, fmt.Sprintf("canary-%d@example.org", n))
		seal(t, other, c, "canary in the text")
		s, p := keyring.KeyBytes(t.Context(), k, c)
		all, sealed, plain = append(all, c), append(sealed, s), append(plain, p)
		if !there(s) {
			t.Fatal("the sealed key is in no file: what follows would show nothing")
		}
	}
	scan()
	wrap := must(os.ReadFile(filepath.Join(dir, "wrap")))(t)
	linked := filepath.Join(t.TempDir(), "copy") // a name that Destroy does not know
	if err := os.Link(filepath.Join(dir, "wrap"), linked); err == nil {
		defer func() {
			if bytes.Contains(must(os.ReadFile(linked))(t), wrap[18:18+32]) {
				t.Error("the wrapping key was unlinked and not overwritten")
			}
		}()
	}
	retired := must(k.Retire(t.Context(), "canary-0@example.org"))(t)
	destroy(t, k, retired...)
	destroy(t, k, all[5])
	// Those that stay are sealed anew: what is in an old copy is under a key that is gone.
	scan(append(sealed, wrap[18:18+32])...)
}

func TestFindingsTellWhatIsNotSafe(t *testing.T) {
	t.Parallel()
	unsafe := func(k *keyring.Ring) (names []string) {
		for _, f := range k.Findings() {
			if !f.Safe {
				names = append(names, f.Name)
				if f.Loss == "" || f.Fix == "" {
					t.Errorf("%+v", f)
				}
			}
		}
		return names
	}
	expect := func(k *keyring.Ring, want ...string) {
		t.Helper()
		if got := unsafe(k); !slices.Equal(got, want) {
			t.Errorf("not safe: %q, want %q", got, want)
		}
	}
	expect(keyring.Ephemeral(), "keys.folder")
	s := newScene(t)
	k := reopen(t, s.dir)
	if list := k.Findings(); len(list) != 4 || list[3].Found != "2, 0 destroyed; wrapping key version 1" {
		t.Errorf("%+v", list)
	}
	expect(k)
	store := filepath.Join(filepath.Dir(s.dir), "agent.db")
	expect(must(keyring.Open(s.dir, &keyring.Options{StorePath: store}))(t), "keys.apart_from_store")
	expect(must(keyring.Open(s.dir, &keyring.Options{StorePath: filepath.Join(s.dir, "db", "agent.db")}))(t), "keys.apart_from_store")
	expect(must(keyring.Open(s.dir, &keyring.Options{StorePath: filepath.Join(t.TempDir(), "agent.db")}))(t))
	if runtime.GOOS != "windows" {
		if err := os.Chmod(s.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		expect(k, "keys.folder")
		if err := os.Chmod(s.dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(s.dir, "ring.db")); err != nil {
		t.Fatal(err)
	}
	expect(k, "keys.folder", "keys.classes")
}

func TestFilesThatVanishUnderARingCloseIt(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	k := reopen(t, s.dir)
	opens(t, k, s.a, s.sealA, "about ann")
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	time.Sleep(keyring.Staleness)
	if _, err := k.Open(t.Context(), s.a, s.sealA, []byte("row 1")); err == nil {
		t.Fatal("what was destroyed cannot be known, and it opens")
	}
}

func TestACopyThatIsBroughtBackUnderARingRevivesNothing(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{true, false} {
		s := newScene(t)
		k := reopen(t, s.dir)
		before := contents(t, s.dir)
		destroy(t, k, s.a)
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		for path, content := range before {
			if !whole && filepath.Base(path) == "wrap" {
				continue // it is kept apart, and was not copied
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(keyring.Staleness)
		for range 2 {
			_, err := k.Open(t.Context(), s.a, s.sealA, []byte("row 1"))
			wrong(t, err, keyring.ErrDamaged)
		}
		if !whole { // nor does a process that knows nothing of before
			_, err := keyring.Open(s.dir, nil)
			wrong(t, err, keyring.ErrWrapping)
			if !strings.Contains(err.Error(), "older copy") {
				t.Fatal(err)
			}
		}
	}
}

func TestARingFileOfAnotherRingIsNotRotated(t *testing.T) {
	t.Parallel()
	s, other := newScene(t), newScene(t)
	k := reopen(t, s.dir)
	must(reopen(t, other.dir).Rotate(t.Context()))(t)
	for _, name := range []string{"ring.db", "wrap"} {
		copyFile(t, filepath.Join(other.dir, name), filepath.Join(s.dir, name+".copy"))
		if err := os.Rename(filepath.Join(s.dir, name+".copy"), filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := k.Rotate(t.Context())
	wrong(t, err, keyring.ErrDamaged)
	time.Sleep(keyring.Staleness)
	if id, key := k.Audit(); id != s.auditID || key != s.auditKey {
		t.Fatal("the audit key is of another ring")
	}
}
