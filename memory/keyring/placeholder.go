package keyring

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

type Options struct{}

type saved struct{ Root, Audit string }

func Open(dir string, _ *Options) (*Ring, error) {
	b, err := os.ReadFile(filepath.Join(dir, "ring.json"))
	if err != nil {
		return nil, err
	}
	var s saved
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, err
	}
	r := Ephemeral()
	hex.Decode(r.root[:], []byte(s.Root))
	hex.Decode(r.audit[:], []byte(s.Audit))
	r.derived = true
	return r, nil
}

func OpenOrCreate(dir string, o *Options) (*Ring, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		r := Ephemeral()
		b, _ := json.Marshal(saved{hex.EncodeToString(r.root[:]), hex.EncodeToString(r.audit[:])})
		os.MkdirAll(dir, 0o700)
		if err := os.WriteFile(filepath.Join(dir, "ring.json"), b, 0o600); err != nil {
			return nil, err
		}
	}
	return Open(dir, o)
}
