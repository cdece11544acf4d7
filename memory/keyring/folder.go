package keyring

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/hearsay-go/hearsay/memory"
)

// Options of [Open]. nil is usable.
type Options struct {
	// AuditKeys, if there are any, are used instead of those in the folder.
	AuditKeys AuditKeys
}

// Errors of [Open] and of a folder in use.
var (
	// ErrMissing: there is no keyring.
	ErrMissing = errors.New("keyring: no such keyring")
	// ErrExists: there is one, and none is made over it.
	ErrExists = errors.New("keyring: there is one already")
	// ErrExposed: others than the owner can read the folder.
	ErrExposed = errors.New("keyring: readable by others")
	// ErrDamaged: a file of the folder is not as it was written, or of another
	// version. It wraps [memory.ErrKey].
	ErrDamaged = fmt.Errorf("%w: keyring: damaged", memory.ErrKey)
)

// Open opens the keyring in a folder. Nothing is made: see [Create] and
// [OpenOrCreate].
func Open(dir string, o *Options) (*Ring, error) {
	if o == nil {
		o = &Options{}
	}
	f, err := newFolder(dir)
	if err != nil {
		return nil, err
	}
	kept, err := f.read()
	if err != nil {
		return nil, err
	}
	audit := kept.audit
	if len(o.AuditKeys.list) > 0 {
		audit = o.AuditKeys.list
	}
	if len(audit) == 0 {
		return nil, fmt.Errorf("%w: %s has none, and none are given", ErrAuditKeys, dir)
	}
	r := newRing(kept.root, audit, f)
	return r, r.fresh(0)
}

// Create makes a keyring in a folder, which is made if it is not there; the folder
// around it must be. With audit keys in the options the folder gets none.
func Create(dir string, o *Options) (*Ring, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := exposed(dir); err != nil {
		return nil, err
	}
	f := &folder{dir: dir}
	release, err := f.lock(context.Background())
	if err != nil {
		return nil, err
	}
	err = func() error {
		if _, err := os.Lstat(f.path(ringName)); err == nil {
			return fmt.Errorf("%w at %s", ErrExists, dir)
		}
		if err := os.MkdirAll(f.path(classDir), 0o700); err != nil {
			return err
		}
		kept := ringFile{root: newSecret()}
		if o == nil || len(o.AuditKeys.list) == 0 {
			kept.audit = []auditKey{{id: 1, key: newSecret(), made: time.Now().UTC().Truncate(time.Second)}}
		}
		if err := f.bump(); err != nil {
			return err
		}
		return f.write(kept)
	}()
	if err := errors.Join(err, release()); err != nil {
		return nil, err
	}
	return Open(dir, o)
}

// OpenOrCreate opens the keyring in a folder, and makes it if there is none.
func OpenOrCreate(dir string, o *Options) (*Ring, error) {
	r, err := Open(dir, o)
	if !errors.Is(err, ErrMissing) {
		return r, err
	}
	if r, err = Create(dir, o); errors.Is(err, ErrExists) {
		return Open(dir, o) // another process was faster
	}
	return r, err
}

// The files of a folder: ring.json with root and audit keys; classes/HEX.json for
// each class; subjects/HEX for each subject that was ever retired; changes, which
// grows by a byte with each change that other processes must know of; lock.
const (
	ringName    = "ring.json"
	changesName = "changes"
	lockName    = "lock"
	classDir    = "classes"
	subjectDir  = "subjects"

	ringFormat  = "hearsay.keyring/1"
	classFormat = "hearsay.class/1"
	maxFile     = 16 << 20
)

type folder struct{ dir string }

func newFolder(dir string) (*folder, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w at %s: hearsay keyring create makes one", ErrMissing, dir)
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%w: %s is not a folder", ErrDamaged, dir)
	}
	if err := exposed(dir); err != nil {
		return nil, err
	}
	return &folder{dir: dir}, nil
}

// exposed refuses a folder that others can look into.
func exposed(dir string) error {
	if runtime.GOOS == "windows" { // has no such bits
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%w: %s has mode %04o; chmod 700 %s", ErrExposed, dir, mode, dir)
	}
	return nil
}

func (f *folder) path(parts ...string) string {
	return filepath.Join(append([]string{f.dir}, parts...)...)
}

// lock keeps other processes out of changes.
func (f *folder) lock(ctx context.Context) (release func() error, err error) {
	l := flock.New(f.path(lockName), flock.SetPermissions(0o600))
	if _, err := l.TryLockContext(ctx, time.Millisecond); err != nil {
		return nil, fmt.Errorf("keyring: lock %s: %w", f.dir, err)
	}
	return l.Close, nil
}

// changed is how often the folder was changed in a way that others must know of.
func (f *folder) changed() (int64, error) {
	info, err := os.Stat(f.path(changesName))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return info.Size(), nil
}

func (f *folder) bump() (err error) {
	file, err := os.OpenFile(f.path(changesName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write([]byte{'.'}); err != nil {
		return err
	}
	return file.Sync()
}

// replaceFile writes a file so that it is there whole or not at all.
func (f *folder) replaceFile(data []byte, parts ...string) (err error) {
	path := f.path(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err = os.Rename(temp.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // folders have no fsync there
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f *folder) readFile(parts ...string) ([]byte, error) {
	file, err := os.Open(f.path(parts...))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%w: %s is too large", ErrDamaged, file.Name())
	}
	return b, errors.Join(err, file.Close())
}

// ringFile is what ring.json holds.
type ringFile struct {
	root  secret
	audit []auditKey
}

type ringJSON struct {
	Format string      `json:"format"`
	Root   string      `json:"root"`
	Audit  []auditJSON `json:"audit"`
}

type auditJSON struct {
	ID   uint32    `json:"id"`
	Key  string    `json:"key"`
	Made time.Time `json:"made"`
}

func (f *folder) read() (ringFile, error) {
	b, err := f.readFile(ringName)
	if errors.Is(err, fs.ErrNotExist) {
		return ringFile{}, fmt.Errorf("%w at %s: hearsay keyring create makes one", ErrMissing, f.dir)
	}
	if err != nil {
		return ringFile{}, err
	}
	r, err := parseRing(b)
	if err != nil {
		return ringFile{}, fmt.Errorf("%w: %s", err, f.path(ringName))
	}
	return r, nil
}

func (f *folder) write(r ringFile) error { return f.replaceFile(formatRing(r), ringName) }

func formatRing(r ringFile) []byte {
	j := ringJSON{Format: ringFormat, Root: hex.EncodeToString(r.root[:]), Audit: []auditJSON{}}
	for _, k := range r.audit {
		j.Audit = append(j.Audit, auditJSON{k.id, hex.EncodeToString(k.key[:]), k.made.UTC()})
	}
	return marshal(j)
}

func parseRing(b []byte) (r ringFile, err error) {
	var j ringJSON
	if err := unmarshal(b, &j); err != nil {
		return r, err
	}
	if j.Format != ringFormat {
		return r, fmt.Errorf("%w: another format than %s", ErrDamaged, ringFormat)
	}
	if err := r.root.parse(j.Root); err != nil {
		return r, err
	}
	for i, a := range j.Audit {
		k := auditKey{id: a.ID, made: a.Made}
		if a.ID == 0 || i > 0 && a.ID <= j.Audit[i-1].ID {
			return r, fmt.Errorf("%w: ids of audit keys do not ascend", ErrDamaged)
		}
		if err := k.key.parse(a.Key); err != nil {
			return r, err
		}
		r.audit = append(r.audit, k)
	}
	if !bytes.Equal(formatRing(r), b) {
		return r, fmt.Errorf("%w: not as it is written", ErrDamaged)
	}
	return r, nil
}

func (s *secret) parse(digits string) error {
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != len(s) {
		return fmt.Errorf("%w: a key is not %d hexadecimal digits", ErrDamaged, 2*len(s))
	}
	copy(s[:], b)
	return nil
}

type classJSON struct {
	Format   string   `json:"format"`
	Class    string   `json:"class"`
	Key      string   `json:"key"` // "" once it is destroyed
	Retired  bool     `json:"retired"`
	Subjects []string `json:"subjects"`
}

func className(id memory.Class) string { return id.String() + ".json" }

func formatClass(id memory.Class, c *class) []byte {
	j := classJSON{Format: classFormat, Class: id.String(), Retired: c.retired, Subjects: []string{}}
	if c.key != (secret{}) {
		j.Key = hex.EncodeToString(c.key[:])
	}
	for _, t := range c.set {
		j.Subjects = append(j.Subjects, hex.EncodeToString(t[:]))
	}
	return marshal(j)
}

func parseClass(id memory.Class, b []byte) (*class, error) {
	var j classJSON
	if err := unmarshal(b, &j); err != nil {
		return nil, err
	}
	if j.Format != classFormat || j.Class != id.String() {
		return nil, fmt.Errorf("%w: it is not of class %s", ErrDamaged, id)
	}
	c := &class{retired: j.Retired}
	for _, digits := range j.Subjects {
		t, err := hex.DecodeString(digits)
		if err != nil || len(t) != len(token{}) {
			return nil, fmt.Errorf("%w: a subject is not %d hexadecimal digits", ErrDamaged, 2*len(token{}))
		}
		c.set = append(c.set, token(t))
	}
	if j.Key != "" && strings.Trim(j.Key, "0") != "" { // zeros: it was being destroyed
		if err := c.key.parse(j.Key); err != nil {
			return nil, err
		}
	}
	if check := *c; j.Key == "" || check.key != (secret{}) {
		if !bytes.Equal(formatClass(id, &check), b) {
			return nil, fmt.Errorf("%w: not as it is written", ErrDamaged)
		}
	}
	if c.key == (secret{}) {
		c.retired = true
		return c, nil
	}
	return c, c.arm()
}

func (f *folder) getClass(id memory.Class) (*class, error) {
	b, err := f.readFile(classDir, className(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: no class %s in %s", memory.ErrKey, id, f.dir)
	}
	if err != nil {
		return nil, err
	}
	c, err := parseClass(id, b)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, f.path(classDir, className(id)))
	}
	return c, nil
}

func (f *folder) putClass(id memory.Class, c *class) error {
	return f.replaceFile(formatClass(id, c), classDir, className(id))
}

func (f *folder) replaceClass(id memory.Class, c *class) error { return f.putClass(id, c) }

// wipe overwrites the key of a class where it lies.
func (f *folder) wipe(id memory.Class) (err error) {
	path := f.path(classDir, className(id))
	b, err := f.readFile(classDir, className(id))
	if err != nil {
		return err
	}
	const name = `"key": "`
	at := bytes.Index(b, []byte(name))
	if at < 0 || len(b) < at+len(name)+2*len(secret{}) {
		return fmt.Errorf("%w: %s", ErrDamaged, path)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.WriteAt(bytes.Repeat([]byte{'0'}, 2*len(secret{})), int64(at+len(name))); err != nil {
		return err
	}
	return file.Sync()
}

func (f *folder) listClasses() ([]memory.Class, error) {
	entries, err := os.ReadDir(f.path(classDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var ids []memory.Class
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		n, err := strconv.ParseUint(digits, 16, 64)
		if err != nil || memory.Class(n).String() != digits {
			return nil, fmt.Errorf("%w: %s is no file of a keyring", ErrDamaged, f.path(classDir, e.Name()))
		}
		ids = append(ids, memory.Class(n))
	}
	return ids, nil
}

func (f *folder) generation(subject token) (uint64, error) {
	name := hex.EncodeToString(subject[:])
	b, err := f.readFile(subjectDir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(string(b), "\n"), 10, 32)
	if err != nil || strconv.FormatUint(n, 10)+"\n" != string(b) {
		return 0, fmt.Errorf("%w: %s", ErrDamaged, f.path(subjectDir, name))
	}
	return n, nil
}

func (f *folder) setGeneration(subject token, n uint64) error {
	return f.replaceFile([]byte(strconv.FormatUint(n, 10)+"\n"), subjectDir, hex.EncodeToString(subject[:]))
}

func marshal(v any) []byte {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic("keyring: " + err.Error()) // strings, numbers and times of this package
	}
	return append(b, '\n')
}

func unmarshal(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: it does not parse", ErrDamaged)
	}
	return nil
}

// Findings say what an operator should know of the keyring of a store at path
// ("" = on a server).
func (r *Ring) Findings(store string) []memory.Finding {
	if r.files == nil {
		return []memory.Finding{{Name: "keyring", Found: "this process", Loss: "everything the store says, when the process ends", Fix: "open a keyring in a folder"}}
	}
	id, _ := r.Audit()
	found := []memory.Finding{{Name: "keyring", Found: fmt.Sprintf("%s, audit key %d of %d", r.files.dir, id, len(r.audit)), Safe: true}}
	beside := memory.Finding{Name: "keyring apart from the store", Found: "yes", Safe: true}
	if a, err := filepath.Abs(store); err == nil && store != "" {
		if b, err := filepath.Abs(r.files.dir); err == nil && filepath.Dir(a) == filepath.Dir(b) {
			beside = memory.Finding{Name: beside.Name, Found: "no: both lie in " + filepath.Dir(a),
				Loss: "who copies or backs up the folder has the keys with the store, and an erasure does not reach the copy",
				Fix:  "move the keyring to another disk or machine and name it with --keyring"}
		}
	}
	return append(found, beside)
}
