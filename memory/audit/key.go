package audit

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// ErrKey: a key of checkpoints is missing or malformed.
var ErrKey = errors.New("audit: no usable checkpoint key")

func badKey(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrKey, fmt.Errorf(format, args...))
}

// Key is a private key that signs checkpoints. Its text is a signer key as
// [note.NewSigner] reads it: "PRIVATE+KEY+name+hash+…".
type Key struct {
	note.Signer
	verifier note.Verifier
	public   string
}

// Verifier verifies what the key signs.
func (k *Key) Verifier() note.Verifier { return k.verifier }

// Public is the text of the verifier key, "name+hash+…": it goes to whoever
// verifies, and is no secret.
func (k *Key) Public() string { return k.public }

// NewKey makes a key. The text is the secret; the name is in every checkpoint and
// has neither blanks nor a plus sign: "acme.example/hearsay".
func NewKey(name string) (k *Key, text string, err error) {
	if text, _, err = note.GenerateKey(rand.Reader, name); err != nil {
		return nil, "", badKey("%w", err)
	}
	if k, err = ParseKey(text); err != nil {
		return nil, "", badKey("the name %q: at least one character, no blanks, no plus sign", name)
	}
	return k, text, nil
}

// ParseKey reads the text of a private key.
func ParseKey(text string) (*Key, error) {
	text = strings.TrimSpace(text)
	signer, err := note.NewSigner(text)
	if err != nil { // says nothing of the key itself
		return nil, badKey("a private key begins with PRIVATE+KEY+: %w", err)
	}
	// What NewSigner read holds: PRIVATE, KEY, the name, the hash, and the seed with
	// a byte before it.
	seed, err := base64.StdEncoding.DecodeString(strings.SplitN(text, "+", 5)[4])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return nil, badKey("the private key is no Ed25519 key")
	}
	public, err := note.NewEd25519VerifierKey(signer.Name(), ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey))
	if err != nil {
		return nil, badKey("%w", err)
	}
	v, err := note.NewVerifier(public)
	if err != nil {
		return nil, badKey("%w", err)
	}
	return &Key{Signer: signer, verifier: v, public: public}, nil
}

// WriteKey makes a key and writes its text to a new file that only its owner can
// read. It never overwrites a file.
func WriteKey(path, name string) (*Key, error) {
	k, text, err := NewKey(name)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, badKey("%w", err)
	}
	_, err = f.WriteString(text + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = syncFolderOf(path)
	}
	if err != nil {
		return nil, badKey("%w", errors.Join(err, os.Remove(path)))
	}
	return k, nil
}

// ReadKey reads the private key in a file. It refuses a file that others than its
// owner can read or write.
func ReadKey(path string) (*Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, badKey("%w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, badKey("%w", err)
	}
	if info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" { // which has no such modes
		return nil, badKey("others than the owner can read or write %s; chmod 600", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, badKey("%w", err)
	}
	return ParseKey(string(b))
}

const maxKeyFile = 1 << 20

// KeyFromEnv reads the private key in an environment variable.
func KeyFromEnv(name string) (*Key, error) {
	text, ok := os.LookupEnv(name)
	if !ok {
		return nil, badKey("the environment has no %s", name)
	}
	return ParseKey(text)
}

// retired is a verifier of a key that signs no more.
type retired struct {
	note.Verifier
	last uint64
}

// Retired is the verifier of a key that was replaced: it holds for checkpoints up
// to last, and a later one that is signed with it is refused. Whoever stole the old
// key can make nothing new with it.
func Retired(v note.Verifier, last uint64) note.Verifier { return &retired{v, last} }

// ParseVerifiers reads verifier keys, one a line: the text of the key, and for one
// that was replaced the word "until" and the last checkpoint it signed. Empty lines
// and lines that begin with # say nothing. A key that is there twice is refused: of two
// lines that say until when it holds, one would be passed over in silence.
func ParseVerifiers(text string) ([]note.Verifier, error) {
	var out []note.Verifier
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		words := strings.Fields(s.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		v, err := note.NewVerifier(words[0])
		if err != nil {
			return nil, badKey("a verifier key is name+hash+key: %w", err)
		}
		if _, err := known(out).Verifier(v.Name(), v.KeyHash()); err == nil {
			return nil, badKey("%s is there twice", keyName(v))
		}
		switch {
		case len(words) == 3 && words[1] == "until":
			last, err := strconv.ParseUint(words[2], 10, 64)
			if err != nil {
				return nil, badKey("%s until: want the number of a checkpoint", keyName(v))
			}
			v = Retired(v, last)
		case len(words) != 1:
			return nil, badKey("%s: after the key goes nothing, or until and the number of its last checkpoint", keyName(v))
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		return nil, badKey("there is no verifier key")
	}
	return out, nil
}

// ReadVerifiers reads a file of verifier keys.
func ReadVerifiers(path string) ([]note.Verifier, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, badKey("%w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, badKey("%w", err)
	}
	return ParseVerifiers(string(b))
}
