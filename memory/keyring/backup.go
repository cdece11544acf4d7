package keyring

import (
	"os"
	"path/filepath"
)

// Backup copies the ring in a folder into another one, which must be empty or not be
// there, while programs use it: as it is at one moment, and with its wrapping key if that
// is in the folder. What is destroyed afterwards is in the copy still: delete a copy soon,
// above all that of the wrapping key.
func Backup(dir, to string, o *Options) error {
	from, err := at(dir)
	if err != nil {
		return err
	}
	ring, err := open(from, o)
	if err != nil {
		return err
	}
	defer ring.Close()
	f, err := at(to)
	if err != nil {
		return err
	}
	if err := f.do("make", f.dir, func() error { return os.MkdirAll(f.dir, 0o700) }); err != nil {
		return err
	}
	if err := f.private(f.dir, "700"); err != nil {
		return err
	}
	if err := f.vacant(); err != nil {
		return err
	}
	// The wrapping key first: an older version of it opens a newer ring, and not the
	// other way round.
	if w, ok := ring.s().wrapping.(*wrapFile); ok && filepath.Dir(w.path) == from.dir {
		r, err := w.load(background)
		if err != nil {
			return err
		}
		if err := f.write(f.path(fileWrap), r.encode()); err != nil {
			return err
		}
	}
	b := ring.s().backend.(*inFile)
	file, err := b.take()
	if err != nil {
		return err
	}
	defer b.give(file)
	path := f.path(fileRing)
	if err := f.write(path, nil); err != nil { // with its mode, before anything is in it
		return err
	}
	if err := f.do("copy", path, func() error { _, err := file.db.Exec(`VACUUM INTO $1`, path); return err }); err != nil {
		return b.edge(err)
	}
	return f.syncDir(f.dir)
}
