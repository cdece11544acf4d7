package keyring

import (
	"fmt"
	"path/filepath"
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
	list := s.backend.Findings(background)
	switch b := s.backend.(type) {
	case *inMemory:
		return list
	case *inFile:
		list = append(list, s.findStore(b.disk.dir))
	}
	return append(list, s.findAudit(), s.findKeys())
}

func (s *state) findStore(dir string) memory.Finding {
	f := memory.Finding{Name: "keys.apart_from_store", Found: "the path of the store was not given", Safe: true}
	if s.options.StorePath == "" {
		return f
	}
	store, err := filepath.Abs(s.options.StorePath)
	if err != nil {
		store = s.options.StorePath
	}
	keys, folder := real(dir), real(filepath.Dir(store))
	f.Found = fmt.Sprintf("keys in %s, store in %s", keys, folder)
	if within(keys, folder) || within(folder, keys) {
		f.Safe = false
		f.Loss = "a copy of the one folder takes the other along: whoever has it reads what was erased since"
		f.Fix = "stop the programs, mv " + dir + " to a folder that is backed up apart from the store, or not at all, and name that folder (--keyring or HEARSAY_KEYRING)"
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
	keys := s.lately().audit
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
	v, err := s.fresh(background, 0)
	live, destroyed := 0, 0
	var holders []string
	if err == nil {
		err = s.backend.Do(background, Read, func(tx Tx) (err error) {
			live, destroyed, err = tx.Count()
			return err
		})
	}
	if err == nil {
		holders, err = s.behind(background, v.Dropped)
	}
	if err != nil {
		f.Found, f.Safe = err.Error(), false
		f.Loss = "rows whose keys cannot be read cannot be read either, and erasure is held up"
		f.Fix = "bring the ring back as a whole from a copy, then erase again whoever was erased since"
		return f
	}
	f.Found = fmt.Sprintf("%d, %d destroyed; wrapping key version %s", live, destroyed, v.Version)
	left := ""
	if l, ok := s.wrapping.(listed); ok && l.index(v.Version) != len(l)-1 {
		left = "older versions of the wrapping key are still given"
	}
	switch {
	case v.Dropped >= v.Epoch:
		left = "the wrapping key has no newer version"
	case len(holders) > 0:
		left = "an older version of the wrapping key is still held by " + strings.Join(holders, ", ")
	}
	if left != "" && v.Dropped > 0 {
		f.Safe = false
		f.Found += "; " + left
		f.Loss = "nothing here; but with a copy of the ring from before an erasure, what was erased can be read"
		f.Fix = "do what hearsay erase said, and run it again"
	}
	return f
}
