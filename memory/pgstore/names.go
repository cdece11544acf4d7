package pgstore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/jackc/pgx/v5"
)

// maxIndexed is the longest name or key that is indexed as it is: a row of an
// index holds about 2,700 bytes, and three of them stand in one.
const maxIndexed = 768

// fold is what a name or key is looked up by. Names of up to maxIndexed bytes are
// themselves; a longer one is its first bytes and a digest, which is longer than
// any short one. Byte order is kept, but among long names that begin alike.
func fold(name string) []byte {
	if len(name) <= maxIndexed {
		return []byte(name)
	}
	sum := sha256.Sum256([]byte(name))
	return append([]byte(name[:maxIndexed]), sum[:]...)
}

// foldAll folds names. Short ones share their bytes.
func foldAll(names []string) [][]byte {
	size := 0
	for _, n := range names {
		size += len(n)
	}
	all, out := make([]byte, 0, size), make([][]byte, len(names))
	for i, n := range names {
		if len(n) > maxIndexed {
			out[i] = fold(n)
			continue
		}
		from := len(all)
		all = append(all, n...)
		out[i] = all[from:len(all):len(all)]
	}
	return out
}

// whole is what stands beside a folded name: nil if it is the name itself.
func whole(name string) []byte {
	if len(name) <= maxIndexed {
		return nil
	}
	return []byte(name)
}

// unfold is the name that fold and whole were made of.
func unfold(folded, whole []byte) string {
	if whole != nil {
		return string(whole)
	}
	return string(folded)
}

// lock is the number of an advisory lock. The numbers are those of the whole
// database, so the schema is in it; two keys of one number only wait for each other.
func (d *Driver) lock(tenant string, key ...string) int64 {
	h := sha256.New()
	for _, part := range append([]string{"hearsay", d.schema, tenant}, key...) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// checkSchema refuses all but plain names, which stand in the bodies of functions
// where no quoting is safe.
func checkSchema(name string) error {
	if !plainName.MatchString(name) || strings.HasPrefix(name, "pg_") || name == "information_schema" {
		return fmt.Errorf("%w: schema %.80q: want up to 63 of a-z, 0-9 and _, and no name of the server's own", memory.ErrStore, name)
	}
	return nil
}

// quote makes an identifier of a name.
func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
