package keyring

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// auditKeyAge is how old an audit key may be before Findings says so: whoever
// came by it could have written entries for that long.
const auditKeyAge = 366 * 24 * time.Hour

// Findings says, for an operator, where the keys are and in what state: in a fixed
// order, safe ones included. It changes nothing, and what it cannot find out is a
// finding that is not safe.
func (k *Ring) Findings() []memory.Finding {
	s := k.s()
	if s.disk == nil {
		return []memory.Finding{{
			Name: "keys.folder", Found: "none",
			Loss: "everything that was written, when the process ends", Fix: "keep the keys in a folder: keyring.OpenOrCreate",
		}}
	}
	return []memory.Finding{s.findFolder(), s.findStore(), s.findAudit(), s.findKeys()}
}

func (s *state) findFolder() memory.Finding {
	f := memory.Finding{Name: "keys.folder", Found: s.disk.dir + ", for its owner only", Safe: true}
	err := s.disk.private(s.disk.dir, "700")
	if err == nil {
		err = s.disk.private(s.disk.path(fileRing), "600")
	}
	if err != nil {
		f.Found, f.Safe = err.Error(), false
		f.Loss = "whoever reads the keys reads the store, and writes audit entries that verify"
		f.Fix = "put the folder right, and rotate the audit key"
		var file *FileError
		if errors.As(err, &file) && file.Fix != "" {
			f.Fix = file.Fix + ", and rotate the audit key"
		}
	} else if runtime.GOOS == "windows" {
		f.Found = s.disk.dir + ", access lists not looked at"
	}
	return f
}

func (s *state) findStore() memory.Finding {
	f := memory.Finding{Name: "keys.apart_from_store", Found: "the path of the store was not given", Safe: true}
	if s.options.StorePath == "" {
		return f
	}
	store, err := filepath.Abs(s.options.StorePath)
	if err != nil {
		store = s.options.StorePath
	}
	keys, folder := real(s.disk.dir), real(filepath.Dir(store))
	f.Found = fmt.Sprintf("keys in %s, store in %s", keys, folder)
	if within(keys, folder) || within(folder, keys) {
		f.Safe = false
		f.Loss = "a copy of the one folder takes the other along: whoever has it reads what was erased since"
		f.Fix = "stop the programs, mv " + s.disk.dir + " to a folder that is backed up apart from the store, or not at all, and name that folder (--keyring or HEARSAY_KEYRING)"
	}
	return f
}

// real follows symbolic links, as far as there are any.
func real(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return path
}

// within reports whether a path is a folder or something below it.
func within(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

func (s *state) findAudit() memory.Finding {
	keys := s.auditNow(0)
	f := memory.Finding{Name: "keys.audit", Safe: true}
	if keys.current.made.IsZero() {
		f.Found = fmt.Sprintf("key %d of %d, given by the program", keys.current.id, len(keys.byID))
		return f
	}
	age := time.Since(keys.current.made)
	f.Found = fmt.Sprintf("key %d of %d, %d days old", keys.current.id, len(keys.byID), int(age.Hours()/24))
	if age > auditKeyAge {
		f.Safe = false
		f.Loss = "whoever came by the key in that time can write entries that verify"
		f.Fix = "rotate it"
	}
	return f
}

func (s *state) findKeys() memory.Finding {
	f := memory.Finding{Name: "keys.classes", Safe: true}
	err := s.refresh(context.Background(), 0)
	var all []memory.KeyID
	if err == nil {
		all, err = s.disk.keys()
	}
	v := s.view.Load()
	live := 0
	for _, c := range all {
		if !v.isDestroyed(c) {
			live++
		}
	}
	switch {
	case err != nil:
		f.Found, f.Safe = err.Error(), false
		f.Loss = "rows whose keys cannot be read cannot be read either, and erasure is held up"
		f.Fix = "bring the folder back as a whole from a copy, then destroy again what was destroyed since"
	case live < len(all):
		f.Found, f.Safe = fmt.Sprintf("%d, %d destroyed of which %d are not wiped", live, len(v.destroyed), len(all)-live), false
		f.Loss = "nothing; but a process died while it destroyed keys, and they are still on the disk"
		f.Fix = "open the ring again"
	default:
		f.Found = fmt.Sprintf("%d, %d destroyed", live, len(v.destroyed))
	}
	return f
}
