package keyring_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

func TestABackupIsARingOfItsMoment(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	k := reopen(t, s.dir)
	key(t, k, "cid") // in the log, not in the file yet
	to := filepath.Join(t.TempDir(), "copy")
	if err := keyring.Backup(s.dir, to, nil); err != nil {
		t.Fatal(err)
	}
	late := key(t, k, "late")
	destroy(t, k, s.a)
	back := reopen(t, to)
	opens(t, back, s.a, s.sealA, "about ann")
	if n := len(must(back.Subject(t.Context(), "cid"))(t)); n != 1 {
		t.Fatalf("%d keys", n)
	}
	_, err := back.Seal(t.Context(), late, nil, nil)
	wrong(t, err, memory.ErrKey)
	for path := range contents(t, to) {
		if info := must(os.Stat(path))(t); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
	}
	wrong(t, keyring.Backup(s.dir, to, nil), keyring.ErrExists)

	// With the wrapping key as it is now, a copy of before opens nothing at all.
	copyFile(t, filepath.Join(s.dir, "wrap"), filepath.Join(to, "wrap"))
	_, err = keyring.Open(to, nil)
	wrong(t, err, keyring.ErrWrapping)
}

func TestARingThatAnOlderVersionWroteIsRefusedAndKept(t *testing.T) {
	t.Parallel()
	dir := fresh(t)
	if err := os.MkdirAll(filepath.Join(dir, "classes"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"ring": "HrsyKeys\x01R", "ended": "HrsyKeys\x01E", "classes/0000000000000001": "HrsyKeys\x01C"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := contents(t, dir)
	_, err := keyring.Open(dir, nil)
	wrong(t, err, keyring.ErrOldForm)
	_, err = keyring.OpenOrCreate(dir, nil)
	wrong(t, err, keyring.ErrOldForm)
	_, err = keyring.Create(dir, nil)
	wrong(t, err, keyring.ErrExists)
	for path, content := range files {
		if got := must(os.ReadFile(path))(t); !bytes.Equal(got, content) {
			t.Errorf("%s was changed", path)
		}
	}
}
