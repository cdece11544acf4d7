package sqlitestore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// UnsafeError says why [Open] with Options.Strict did not open a store. It wraps
// [memory.ErrStore].
type UnsafeError struct {
	Findings []memory.Finding // the unsafe ones, at least one
}

func (e *UnsafeError) Error() string {
	var list []string
	for _, f := range e.Findings {
		list = append(list, fmt.Sprintf("%s is %s (%s)", f.Name, f.Found, f.Loss))
	}
	return "the store is not safe: " + strings.Join(list, "; ")
}

// Unwrap returns [memory.ErrStore].
func (e *UnsafeError) Unwrap() error { return memory.ErrStore }

// Inspect says how the file is opened, where it is, who may read it, and whether
// it is whole. It reads the whole file.
func (d *Driver) Inspect(ctx context.Context) (memory.Inspection, error) {
	i, err := d.inspect(ctx)
	if err != nil {
		return memory.Inspection{}, edge("inspect", err)
	}
	return i, nil
}

func (d *Driver) inspect(ctx context.Context) (memory.Inspection, error) {
	if err := d.enter(ctx); err != nil {
		return memory.Inspection{}, err
	}
	c, err := d.writer.take(ctx)
	if err != nil {
		return memory.Inspection{}, err
	}
	var settings struct{ version, synchronous, journal, secure string }
	for _, ask := range []struct {
		text string
		into *string
	}{
		{"SELECT sqlite_version()", &settings.version},
		{"PRAGMA synchronous", &settings.synchronous},
		{"PRAGMA journal_mode", &settings.journal},
		{"PRAGMA secure_delete", &settings.secure},
	} {
		if err == nil {
			err = c.text(ctx, ask.text, ask.into)
		}
	}
	d.writer.give(c, false)
	if err != nil {
		return memory.Inspection{}, err
	}

	synchronous := memory.Finding{Name: "synchronous", Found: "FULL", Safe: true}
	promise := "an acknowledged batch outlives the death of the process and a loss of power"
	if settings.synchronous != "2" {
		synchronous = memory.Finding{Name: "synchronous", Found: "NORMAL",
			Loss: "the batches since the last checkpoint, when the machine loses power or its system stops", Fix: "open the store with Synchronous: Full"}
		promise = "an acknowledged batch outlives the death of the process; a loss of power may take the last ones, never half of one"
	}
	journal := memory.Finding{Name: "journal_mode", Found: settings.journal, Safe: settings.journal == "wal"}
	if !journal.Safe {
		journal.Loss = "batches, when another program writes to the file"
		journal.Fix = "PRAGMA journal_mode = WAL, on a disk of this machine"
	}
	secure := memory.Finding{Name: "secure_delete", Found: "ON", Safe: settings.secure == "1"}
	if !secure.Safe {
		secure.Found = "OFF"
		secure.Loss = "no batch; what was erased stays in the file until Compact"
		secure.Fix = "PRAGMA secure_delete = ON"
	}
	whole, err := d.quickCheck(ctx)
	if err != nil {
		return memory.Inspection{}, err
	}
	return memory.Inspection{
		Server: "SQLite " + settings.version, Promise: promise,
		Findings: []memory.Finding{synchronous, journal, secure, permissions(d.path), place(d.path), whole},
	}, nil
}

// text reads one value as a text.
func (c *conn) text(ctx context.Context, statement string, into *string) error {
	return c.once(ctx, statement, 1, func(row []driver.Value) error {
		*into = fmt.Sprint(row[0])
		return nil
	})
}

func (d *Driver) quickCheck(ctx context.Context) (memory.Finding, error) {
	f := memory.Finding{Name: "quick_check", Found: "ok", Safe: true}
	err := d.read(ctx, true, func(c *conn) error {
		var answer string
		err := c.text(ctx, "PRAGMA quick_check(1)", &answer)
		if code := primary(err); code == codeCorrupt || code == codeNotADB {
			answer, err = "damaged", nil
		}
		if answer != "ok" {
			// The text of SQLite may hold content, so it is not passed on.
			f = memory.Finding{Name: "quick_check", Found: "damaged", Loss: "what is on the damaged pages", Fix: "stop writing, copy the files, and go back to a backup"}
		}
		return err
	})
	return f, err
}

// permissions looks at who may do what with the files of the store.
func permissions(path string) memory.Finding {
	f := memory.Finding{Name: "permissions", Safe: true}
	if runtime.GOOS == "windows" {
		f.Found = "not looked at on this system"
		return f
	}
	var mode fs.FileMode
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if info, err := os.Stat(path + suffix); err == nil {
			mode |= info.Mode().Perm()
		} else if suffix == "" {
			return memory.Finding{Name: "permissions", Found: "no file under its name", Loss: "everything, when the last handle is closed",
				Fix: "stop, and find out who removed or renamed the file"}
		}
	}
	f.Found = fmt.Sprintf("%04o", mode)
	if mode&0o077 != 0 {
		f.Safe = false
		f.Loss = "anything: other users of the machine may read the files or change them"
		f.Fix = "chmod 600 on the file and on the files beside it"
	}
	return f
}

// place looks at the file system that the file is on.
func place(path string) memory.Finding {
	name, fault := fileSystem(path)
	f := memory.Finding{Name: "file system", Found: name, Safe: fault == fsLocal}
	switch fault {
	case fsNetwork:
		f.Loss = "batches, and the whole file: locks and shared memory of a network file system do not do what they must"
		f.Fix = "move the file to a disk of this machine"
	case fsMemory:
		f.Loss = "everything, when the machine stops"
		f.Fix = "move the file to a disk"
	}
	return f
}

// What is wrong with a file system.
const (
	fsLocal = iota // nothing that is known
	fsNetwork
	fsMemory
)
