package cloudsecrets_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/keyring/cloudsecrets"
	_ "gocloud.dev/secrets/localsecrets"
)

const (
	one = "base64key://smGbjm71Nxd1Ig5FS0wj9SlbzAIrnolCz9bQQ6uAhl4="
	two = "base64key://QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="
)

func open(t *testing.T, versions ...cloudsecrets.Version) *keyring.Options {
	t.Helper()
	w, closeKeys, err := cloudsecrets.Open(t.Context(), versions...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeKeys(); err != nil {
			t.Error(err)
		}
	})
	return &keyring.Options{Wrapping: w}
}

func TestAnErasureIsPendingUntilTheKeyOfTheServiceIsDestroyed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	first, second := cloudsecrets.Version{Name: "1", URL: one}, cloudsecrets.Version{Name: "2", URL: two}
	k, err := keyring.Create(dir, open(t, first))
	if err != nil {
		t.Fatal(err)
	}
	id, err := k.Key(t.Context(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	stays, err := k.Key(t.Context(), "bob")
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := k.Seal(t.Context(), stays, []byte("about bob"), nil)
	if err != nil {
		t.Fatal(err)
	}
	pending := func(words string, versions ...cloudsecrets.Version) {
		t.Helper()
		k, err := keyring.Open(dir, open(t, versions...))
		if err != nil {
			t.Fatal(err)
		}
		d, err := k.Destroy(t.Context(), id)
		if err != nil || (d.Pending == "") != (words == "") || !strings.Contains(d.Pending, words) {
			t.Fatalf("%+v, %v", d, err)
		}
		if words == "" && d.Version != "1" {
			t.Fatalf("%+v", d)
		}
		if _, err := k.Seal(t.Context(), id, nil, nil); !errors.Is(err, memory.ErrErased) {
			t.Fatal(err)
		}
		if got, err := k.Open(t.Context(), stays, sealed, nil); err != nil || string(got) != "about bob" {
			t.Fatal(got, err)
		}
	}
	pending("no newer version than 1", first)
	pending("version 1 of the wrapping key is still at hand", second, first)
	pending("", second)
	if _, err := keyring.Open(dir, open(t, first)); !errors.Is(err, keyring.ErrWrapping) {
		t.Fatalf("the old version opens it: %v", err)
	}
}

func TestAURLThatNamesNoKeyIsRefusedAndNotShown(t *testing.T) {
	for _, url := range []string{"", "nokms://s3cret", "base64key://s3cret"} {
		_, _, err := cloudsecrets.Open(t.Context(), cloudsecrets.Version{Name: "1", URL: url})
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Fatalf("%q: %v", url, err)
		}
	}
	if _, _, err := cloudsecrets.Open(t.Context()); err == nil {
		t.Fatal("no version is one")
	}
}
