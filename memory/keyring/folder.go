package keyring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gofrs/flock"
)

// Names in the folder of a ring.
const (
	fileRing = "ring.db"
	fileLock = "lock"
	dirNew   = "new" // a ring that is being made
)

// folder is the one place where files are touched, but for those that SQLite reads and
// writes. All that writes is called under its lock.
type folder struct {
	dir string
	// fault, in tests, runs every operation, or does not.
	fault func(op, path string, act func() error) error
	tx    func(Tx) Tx // in tests, of the ring's file
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// do runs one operation on a file.
func (f *folder) do(op, path string, act func() error) error {
	var err error
	if f.fault != nil {
		err = f.fault(op, path, act)
	} else {
		err = act()
	}
	if err == nil {
		return nil
	}
	// The errors of os say the operation and the path once more.
	var of *fs.PathError
	var link *os.LinkError
	if errors.As(err, &of) {
		err = of.Err
	} else if errors.As(err, &link) {
		err = link.Err
	}
	return &FileError{Path: path, Err: fmt.Errorf("%s: %w", op, err)}
}

// lock waits for the lock of the folder, as long as the context lets it.
func (f *folder) lock(ctx context.Context) (unlock func(), err error) {
	return f.lockAt(ctx, f.path(fileLock))
}

func (f *folder) lockAt(ctx context.Context, path string) (unlock func(), err error) {
	l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR))
	err = f.do("lock", l.Path(), func() error {
		_, err := l.TryLockContext(ctx, time.Millisecond)
		return err
	})
	if err != nil {
		return nil, err
	}
	return func() { _ = l.Unlock() }, nil // the descriptor is closed either way, and the lock with it
}

func (f *folder) read(path string) (data []byte, err error) {
	err = f.do("read", path, func() error {
		data, err = os.ReadFile(path)
		return err
	})
	return data, err
}

func (f *folder) stat(path string) (info fs.FileInfo, err error) {
	err = f.do("stat", path, func() error {
		info, err = os.Stat(path)
		return err
	})
	return info, err
}

// write makes a file, so that a loss of power does not take it away again.
func (f *folder) write(path string, data []byte) error {
	err := f.do("write", path, func() error {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		_, err = file.Write(data)
		if err == nil {
			err = file.Sync()
		}
		return errors.Join(err, file.Close())
	})
	if err != nil {
		return err
	}
	return f.syncDir(filepath.Dir(path))
}

// overwrite puts zeros in the place of what a file holds, where it lies.
func (f *folder) overwrite(path string) error {
	err := f.do("overwrite", path, func() error {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		info, err := file.Stat()
		if err == nil {
			_, err = file.WriteAt(make([]byte, info.Size()), 0)
		}
		if err == nil {
			err = file.Sync()
		}
		return errors.Join(err, file.Close())
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (f *folder) syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // a folder cannot be opened for this
	}
	return f.do("sync", dir, func() error {
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		err = d.Sync()
		return errors.Join(err, d.Close())
	})
}

// private refuses what others than the owner may read or write.
func (f *folder) private(path, mode string) error {
	info, err := f.stat(path)
	if err != nil {
		return err
	}
	// (Elsewhere access is a matter of lists that a mode does not show.)
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return &FileError{Path: path, Err: fmt.Errorf("mode %04o: %w", info.Mode().Perm(), ErrExposed), Fix: "chmod " + mode + " " + path}
	}
	return nil
}

// vacant refuses a folder with anything in it besides what a Create that was cut short
// leaves.
func (f *folder) vacant() error {
	var entries []fs.DirEntry
	err := f.do("list", f.dir, func() (err error) {
		entries, err = os.ReadDir(f.dir)
		return err
	})
	if err != nil {
		return err
	}
	begun := false
	for _, e := range entries {
		begun = begun || e.Name() == dirNew
	}
	for _, e := range entries {
		switch e.Name() {
		case fileLock, dirNew, fileWrap + ".lock":
			continue
		case fileWrap:
			if begun { // no ring was ever wrapped with it
				continue
			}
		}
		fix := "choose an empty folder"
		switch e.Name() {
		case fileRing:
			fix = "open it instead"
		case oldRing:
			fix = oldFix
		}
		return &FileError{Path: f.path(e.Name()), Err: ErrExists, Fix: fix}
	}
	return nil
}

// oldRing is the file of the root key in a folder that an older version wrote.
const oldRing = "ring"

const oldFix = "an older version wrote it: use that version, or name another folder and make a new ring and a new store"

// exists reports whether there is something by a name. What cannot be told is there.
func (f *folder) exists(name string) bool {
	_, err := f.stat(f.path(name))
	return !errors.Is(err, fs.ErrNotExist)
}
