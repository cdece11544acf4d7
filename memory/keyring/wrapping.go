package keyring

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/tink-crypto/tink-go/v2/aead/subtle"
)

// Wrapping is the key that a ring's own key is wrapped under, and which is kept apart
// from the ring: in a file, in the environment, or in a key service. It has versions: a
// data key is gone for good, from every copy and backup of the ring, once the version
// that covered it is destroyed. It must be safe for concurrent use, and by several
// processes and machines.
type Wrapping interface {
	// Wrap must encrypt and authenticate a key of up to 64 bytes under a version that is
	// newer than the one named after, or under any if that is "". It returns the version.
	// [ErrNoVersion] if there is none that is newer.
	Wrap(ctx context.Context, after string, key []byte) (version string, wrapped []byte, err error)
	// Unwrap must undo Wrap. [ErrWrapping] if the version is not at hand, or if what was
	// wrapped is not of it.
	Unwrap(ctx context.Context, version string, wrapped []byte) ([]byte, error)
	// Forget must destroy all versions older than the one named, as far as it can, and
	// report whether none of them can unwrap anything here any more.
	Forget(ctx context.Context, version string) (gone bool, err error)
}

// Errors of a [Wrapping].
var (
	// ErrWrapping: the wrapping key at hand does not open the ring.
	ErrWrapping = errors.New("the wrapping key at hand is not the one that the ring was wrapped with")
	// ErrNoVersion: there is no newer version of the wrapping key.
	ErrNoVersion = errors.New("there is no newer version of the wrapping key")
)

const (
	kindWrap = 'V'
	fileWrap = "wrap"
	nextMark = ".next"
	// maxAhead is how many versions one step may lie ahead: more is no version of ours.
	maxAhead = 1 << 20
)

// ratchet is one version of a wrapping key. Each gives the next one and none gives the
// one before, so machines that share one go on together, each when it hears of it.
type ratchet struct {
	version uint64 // from 1
	key     secret
}

// at is a version that is not older.
func (r ratchet) at(version uint64) (ratchet, error) {
	switch {
	case version < r.version:
		return r, fmt.Errorf("%w: its version %d was destroyed, and the ring is an older copy: bring back the copy of the wrapping key that was made with it", ErrWrapping, version)
	case version-r.version > maxAhead:
		return r, fmt.Errorf("%w: version %d", ErrWrapping, version)
	}
	for r.version < version {
		next, err := hkdf.Key(sha256.New, r.key[:], nil, "hearsay memory/keyring 2: next version", keySize)
		if err != nil {
			panic(err) // only for a length that HKDF cannot give
		}
		r = ratchet{r.version + 1, secret(next)}
	}
	return r, nil
}

func (r ratchet) named(version string) (ratchet, error) {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != version {
		return r, fmt.Errorf("%w: version %.32q is none of a file", ErrWrapping, version)
	}
	return r.at(n)
}

// past is the ratchet at a version, or as it is if that one is older.
func (r ratchet) past(version string) (ratchet, error) {
	if n, err := strconv.ParseUint(version, 10, 64); err == nil && 0 < n && n < r.version {
		return r, nil
	}
	return r.named(version)
}

func (r ratchet) wrap(after string, key []byte) (version string, wrapped []byte, err error) {
	if after != "" {
		if r, err = r.named(after); err == nil {
			r, err = r.at(r.version + 1)
		}
		if err != nil {
			return "", nil, err
		}
	}
	version = strconv.FormatUint(r.version, 10)
	wrapped, err = sealUnder(r.key, version, key)
	return version, wrapped, err
}

func (r ratchet) unwrap(version string, wrapped []byte) ([]byte, error) {
	r, err := r.named(version)
	if err != nil {
		return nil, err
	}
	return openUnder(r.key, version, wrapped)
}

func sealUnder(key secret, version string, plain []byte) ([]byte, error) {
	aead, err := subtle.NewAESGCM(key[:])
	if err != nil {
		return nil, fmt.Errorf("keyring: the cipher is not available")
	}
	return aead.Encrypt(plain, []byte("hearsay memory/keyring 2: wrapped "+version))
}

func openUnder(key secret, version string, wrapped []byte) ([]byte, error) {
	aead, err := subtle.NewAESGCM(key[:])
	if err != nil {
		return nil, fmt.Errorf("keyring: the cipher is not available")
	}
	plain, err := aead.Decrypt(wrapped, []byte("hearsay memory/keyring 2: wrapped "+version))
	if err != nil {
		return nil, ErrWrapping
	}
	return plain, nil
}

// momentary is the wrapping key of a ring that ends with the process.
type momentary struct {
	mu sync.Mutex
	r  ratchet
}

func (m *momentary) now() ratchet {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.r
}

func (m *momentary) Wrap(_ context.Context, after string, key []byte) (version string, wrapped []byte, err error) {
	return m.now().wrap(after, key)
}

func (m *momentary) Unwrap(_ context.Context, version string, wrapped []byte) ([]byte, error) {
	return m.now().unwrap(version, wrapped)
}

func (m *momentary) Forget(_ context.Context, version string) (gone bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.r, err = m.r.past(version)
	return err == nil, err
}

// wrapFile is a wrapping key in a file of one version. Machines that share a ring begin
// with a copy of one file; each overwrites its own when the ring has gone on.
type wrapFile struct {
	disk *folder // of its operations
	path string
}

// WrappingFile is the wrapping key in a file, which must be there: mode 0600, made by
// [CreateWrappingFile] or copied from another machine that shares the ring. Its versions
// are numbers.
func WrappingFile(path string) (Wrapping, error) {
	w, err := wrapAt(path)
	if err != nil {
		return nil, err
	}
	if _, err := w.load(background); err != nil {
		return nil, err
	}
	return w, nil
}

// CreateWrappingFile makes a file with a new wrapping key. [ErrExists] if there is one.
func CreateWrappingFile(path string) (Wrapping, error) {
	w, err := wrapAt(path)
	if err != nil {
		return nil, err
	}
	if _, err := w.disk.stat(w.path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = &FileError{Path: w.path, Err: ErrExists, Fix: "name another file"}
		}
		return nil, err
	}
	return w, w.create()
}

func wrapAt(path string) (*wrapFile, error) {
	abs, err := filepath.Abs(path)
	if path == "" || err != nil {
		return nil, &FileError{Path: path, Err: ErrNotFound, Fix: "give the path of a file"}
	}
	return &wrapFile{disk: &folder{dir: filepath.Dir(abs)}, path: abs}, nil
}

func (r ratchet) encode() []byte {
	body := binary.BigEndian.AppendUint64(nil, r.version)
	return pack(kindWrap, append(body, r.key[:]...), plainSum)
}

func parseWrap(data []byte) (r ratchet, err error) {
	body, err := unpack(kindWrap, data, plainSum)
	if err != nil {
		return r, err
	}
	if len(body) != 8+keySize || binary.BigEndian.Uint64(body) == 0 {
		return r, ErrDamaged
	}
	return ratchet{binary.BigEndian.Uint64(body), secret(body[8:])}, nil
}

// String returns the path of the file.
func (w *wrapFile) String() string { return w.path }

func (w *wrapFile) create() error {
	return w.disk.write(w.path, ratchet{1, random()}.encode())
}

// load reads the file, and finishes what a process began that was killed while it went
// on to a later version.
func (w *wrapFile) load(ctx context.Context) (r ratchet, err error) {
	unlock, err := w.disk.lockAt(ctx, w.path+".lock")
	if err != nil {
		return r, err
	}
	defer unlock()
	return w.read()
}

// read is load, under the lock.
func (w *wrapFile) read() (r ratchet, err error) {
	if next, err := w.parse(w.path + nextMark); err == nil {
		return next, w.settle()
	}
	return w.parse(w.path)
}

func (w *wrapFile) parse(path string) (r ratchet, err error) {
	if err := w.disk.private(path, "600"); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = &FileError{Path: path, Err: ErrNotFound, Fix: "bring the file of the wrapping key back: without it the keys in the ring cannot be read"}
		}
		return r, err
	}
	data, err := w.disk.read(path)
	if err != nil {
		return r, err
	}
	if r, err = parseWrap(data); err != nil {
		return r, &FileError{Path: path, Err: err}
	}
	return r, nil
}

// settle puts the next version, which is on disk, in the place of this one: that is
// overwritten where it lies before it goes.
func (w *wrapFile) settle() error {
	if err := w.disk.overwrite(w.path); err != nil {
		return err
	}
	if err := w.disk.do("rename", w.path, func() error { return os.Rename(w.path+nextMark, w.path) }); err != nil {
		return err
	}
	return w.disk.syncDir(filepath.Dir(w.path))
}

func (w *wrapFile) Wrap(ctx context.Context, after string, key []byte) (version string, wrapped []byte, err error) {
	r, err := w.load(ctx)
	if err != nil {
		return "", nil, err
	}
	return r.wrap(after, key)
}

func (w *wrapFile) Unwrap(ctx context.Context, version string, wrapped []byte) ([]byte, error) {
	r, err := w.load(ctx)
	if err != nil {
		return nil, err
	}
	key, err := r.unwrap(version, wrapped)
	if err != nil {
		return nil, &FileError{Path: w.path, Err: err}
	}
	return key, nil
}

func (w *wrapFile) Forget(ctx context.Context, version string) (gone bool, err error) {
	unlock, err := w.disk.lockAt(ctx, w.path+".lock")
	if err != nil {
		return false, err
	}
	defer unlock()
	r, err := w.read()
	if err != nil {
		return false, err
	}
	next, err := r.past(version)
	if err != nil {
		return false, &FileError{Path: w.path, Err: err}
	}
	if next.version == r.version { // another process may have gone on since the ring was read
		return true, nil
	}
	if err := w.disk.write(w.path+nextMark, next.encode()); err != nil {
		return false, err
	}
	return true, w.settle()
}

// Version is one version of a wrapping key that is [Listed].
type Version struct {
	Name string // 1 to 64 of a-z A-Z 0-9 . _ - and never used for another key
	Key  Sealer
}

// Sealer is a key of a key service, such as a *secrets.Keeper of gocloud.dev.
type Sealer interface {
	// Encrypt must encrypt and authenticate, Decrypt undo it or fail.
	Encrypt(ctx context.Context, plaintext []byte) ([]byte, error)
	Decrypt(ctx context.Context, ciphertext []byte) ([]byte, error)
}

// listed are versions that somebody else makes and destroys.
type listed []Version

// Listed is a wrapping key whose versions an operator makes and destroys: the newest one
// first. A version counts as destroyed once it is not listed any more, on each machine.
func Listed(versions ...Version) (Wrapping, error) {
	seen := map[string]bool{}
	for i, v := range versions {
		if v.Key == nil || len(v.Name) > 64 || v.Name == "" || strings.Trim(v.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
			return nil, fmt.Errorf("keyring: wrapping key: version %d has no key, or a name that is not 1 to 64 of a-z A-Z 0-9 . _ -", i+1)
		}
		if seen[v.Name] {
			return nil, fmt.Errorf("keyring: wrapping key: two versions have the name %s", v.Name)
		}
		seen[v.Name] = true
	}
	if len(versions) == 0 {
		return nil, fmt.Errorf("keyring: wrapping key: no version is given")
	}
	return listed(append([]Version(nil), versions...)), nil
}

func (l listed) index(version string) int {
	for i := range l {
		if l[i].Name == version {
			return i
		}
	}
	return -1
}

func (l listed) Wrap(ctx context.Context, after string, key []byte) (version string, wrapped []byte, err error) {
	if l[0].Name == after {
		return "", nil, ErrNoVersion
	}
	wrapped, err = l[0].Key.Encrypt(ctx, key)
	if err != nil {
		return "", nil, fmt.Errorf("keyring: wrapping key %s: %w", l[0].Name, err)
	}
	return l[0].Name, wrapped, nil
}

func (l listed) Unwrap(ctx context.Context, version string, wrapped []byte) ([]byte, error) {
	i := l.index(version)
	if i < 0 {
		return nil, fmt.Errorf("%w: its version %.64q is not among those that are given", ErrWrapping, version)
	}
	key, err := l[i].Key.Decrypt(ctx, wrapped)
	if err != nil {
		return nil, fmt.Errorf("%w: version %s: %w", ErrWrapping, version, err)
	}
	return key, nil
}

func (l listed) Forget(_ context.Context, version string) (gone bool, err error) {
	i := l.index(version)
	return i >= 0 && i == len(l)-1, nil
}

func (l listed) String() string { return "given" }

// Format writes what String returns, whatever the verb.
func (l listed) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, l.String()) }

// local is a version that is in the environment.
type local struct {
	key  func() secret
	name string
}

func (l local) Encrypt(_ context.Context, plain []byte) ([]byte, error) {
	return sealUnder(l.key(), l.name, plain)
}

func (l local) Decrypt(_ context.Context, sealed []byte) ([]byte, error) {
	return openUnder(l.key(), l.name, sealed)
}

// ParseWrapping reads what names a wrapping key in an environment variable such as
// HEARSAY_WRAPPING_KEY: file:PATH for [WrappingFile], or versions in the form of
// [ParseAuditKeys], the newest first: 2:BASE64,1:BASE64. Errors quote nothing of a key.
func ParseWrapping(text string) (Wrapping, error) {
	if path, ok := strings.CutPrefix(text, "file:"); ok {
		return WrappingFile(path)
	}
	var versions []Version
	for i, entry := range strings.Split(text, ",") {
		name, encoded, _ := strings.Cut(strings.TrimSpace(entry), ":")
		raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err != nil || len(raw) != keySize || strings.ContainsAny(encoded, "\r\n") {
			return nil, fmt.Errorf("keyring: wrapping key: entry %d is neither file:PATH nor a name, a colon and 32 bytes in standard base64", i+1)
		}
		key := secret(bytes.Clone(raw))
		versions = append(versions, Version{name, local{func() secret { return key }, name}})
	}
	return Listed(versions...)
}
