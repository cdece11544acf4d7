package keyring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/hearsay-go/hearsay/memory"
)

// Names in the folder of a ring.
const (
	fileRing  = "ring"
	fileEnded = "ended"
	fileLock  = "lock"
	fileTemp  = "new" // whoever has the lock may write it, so one name is enough
	dirKeys   = "classes"
)

// folder is the one place where files are touched. All that writes is called
// under its lock.
type folder struct {
	dir string
	// fault, in tests, runs every operation, or does not.
	fault func(op, path string, act func() error) error
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) keyPath(id memory.KeyID) string {
	return f.path(filepath.Join(dirKeys, fmt.Sprintf("%016x", uint64(id))))
}

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
	l := flock.New(f.path(fileLock), flock.SetFlag(os.O_CREATE|os.O_RDWR))
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

// replace puts a file in its place, whole or not at all, and so that a loss of
// power does not take it away again.
func (f *folder) replace(path string, data []byte) (err error) {
	temp := f.path(fileTemp)
	var file *os.File
	err = f.do("create", temp, func() error {
		file, err = os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		if file != nil {
			_ = file.Close()
		}
		if err != nil {
			_ = f.do("remove", temp, func() error { return os.Remove(temp) })
		}
	}()
	if err := f.do("write", temp, func() error { _, err := file.Write(data); return err }); err != nil {
		return err
	}
	if err := f.do("sync", temp, file.Sync); err != nil {
		return err
	}
	err = f.do("close", temp, file.Close)
	if file = nil; err != nil {
		return err
	}
	if err := f.do("rename", path, func() error { return os.Rename(temp, path) }); err != nil {
		return err
	}
	return f.syncDir(filepath.Dir(path))
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

// wipe overwrites a file where it lies and removes it. That it is gone is durable
// after a syncDir only; that it was overwritten is at once.
func (f *folder) wipe(path string) error {
	var file *os.File
	err := f.do("open", path, func() (err error) {
		file, err = os.OpenFile(path, os.O_WRONLY, 0)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = f.do("wipe", path, func() error {
		info, err := file.Stat()
		if err != nil {
			return err
		}
		_, err = file.WriteAt(make([]byte, info.Size()), 0)
		return err
	})
	if err == nil {
		err = f.do("sync", path, file.Sync)
	}
	if closeErr := file.Close(); err == nil && closeErr != nil {
		err = &FileError{Path: path, Err: closeErr}
	}
	if err != nil {
		return err
	}
	return f.do("remove", path, func() error { return os.Remove(path) })
}

// keys lists the data keys that have a file, ascending.
func (f *folder) keys() (list []memory.KeyID, err error) {
	dir := f.path(dirKeys)
	var entries []fs.DirEntry
	err = f.do("list", dir, func() error {
		entries, err = os.ReadDir(dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		var c memory.KeyID
		if _, err := fmt.Sscanf(e.Name(), "%x", &c); err != nil || f.keyPath(c) != filepath.Join(dir, e.Name()) {
			return nil, &FileError{Path: filepath.Join(dir, e.Name()), Err: memory.ErrForeign, Fix: "move it out of the folder"}
		}
		list = append(list, c)
	}
	return list, nil
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

// lay makes the folder of a new ring, or refuses what is there.
func (f *folder) lay() error {
	if err := f.do("make", f.dir, func() error { return os.MkdirAll(f.dir, 0o700) }); err != nil {
		return err
	}
	return f.private(f.dir, "700")
}

// vacant refuses a folder with anything in it besides what a Create that was cut
// short leaves.
func (f *folder) vacant() error {
	var entries []fs.DirEntry
	err := f.do("list", f.dir, func() (err error) {
		entries, err = os.ReadDir(f.dir)
		return err
	})
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case fileLock, fileTemp:
			continue
		case fileEnded:
			// Its checksum was made with a root key that is in no file yet.
			if info, err := e.Info(); err == nil && info.Size() == int64(headerSize+8+sumSize) {
				continue
			}
		case dirKeys:
			if inside, err := f.keys(); err == nil && len(inside) == 0 {
				continue
			}
		}
		fix := "choose an empty folder"
		if strings.HasPrefix(e.Name(), fileRing) {
			fix = "open it instead"
		}
		return &FileError{Path: f.path(e.Name()), Err: ErrExists, Fix: fix}
	}
	return nil
}

func (f *folder) makeKeys() error {
	dir := f.path(dirKeys)
	return f.do("make", dir, func() error {
		if err := os.Mkdir(dir, 0o700); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
}

// removeTemp removes what a process that was killed left behind: a key that was
// never used, or one that is in the file it was meant for.
func (f *folder) removeTemp() error {
	return f.wipe(f.path(fileTemp))
}
