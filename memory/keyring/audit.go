package keyring

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AuditKey is a key that audit entries are authenticated with, and its id. It
// prints, logs and marshals as its id alone.
type AuditKey struct {
	id   uint32
	made time.Time      // zero: not known
	key  func() *secret // fmt, with one verb or another, prints what is behind a pointer
}

func hide(key secret) func() *secret { return func() *secret { return &key } }

// ID returns the id of the key; it is not a secret.
func (a AuditKey) ID() uint32 { return a.id }

// String returns the id and that the key is redacted.
func (a AuditKey) String() string { return "audit key " + strconv.Itoa(int(a.id)) + " (redacted)" }

// Format writes what String returns, whatever the verb.
func (a AuditKey) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, a.String()) }

// LogValue returns what String returns.
func (a AuditKey) LogValue() slog.Value { return slog.StringValue(a.String()) }

// MarshalText returns what String returns: a key is not written this way.
func (a AuditKey) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// ParseAuditKeys reads audit keys from the form that an environment variable has
// them in, such as HEARSAY_AUDIT_KEYS:
//
//	2:base64,1:base64
//
// Each is an id (1 or more, never used for another key) and 32 random bytes in
// standard base64 (openssl rand -base64 32). The first is the current one, the
// others verify what was written with them. Errors wrap [ErrAuditKeys] and quote
// nothing of the text.
func ParseAuditKeys(text string) ([]AuditKey, error) {
	var keys []AuditKey
	for i, entry := range strings.Split(text, ",") {
		number, encoded, _ := strings.Cut(strings.TrimSpace(entry), ":")
		id, err := strconv.ParseUint(number, 10, 32)
		if err != nil || id == 0 || number != strconv.FormatUint(id, 10) {
			return nil, fmt.Errorf("%w: entry %d does not begin with an id and a colon", ErrAuditKeys, i+1)
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err != nil || len(raw) != keySize || strings.ContainsAny(encoded, "\r\n") {
			return nil, fmt.Errorf("%w: entry %d is not 32 bytes in standard base64", ErrAuditKeys, i+1)
		}
		key := secret(raw)
		keys = append(keys, AuditKey{id: uint32(id), key: hide(key)})
	}
	if _, err := newAuditKeys(keys, nil); err != nil {
		return nil, err
	}
	return keys, nil
}

// auditKeys is the set that is in use, never written to once it is made.
type auditKeys struct {
	current AuditKey
	byID    map[uint32]AuditKey
}

// newAuditKeys puts the keys of a program and those of a file together. The first
// of the program's is the current one, or else the last of the file's.
func newAuditKeys(given []AuditKey, stored []storedAudit) (*auditKeys, error) {
	all := &auditKeys{byID: map[uint32]AuditKey{}}
	add := func(a AuditKey) error {
		if known, ok := all.byID[a.id]; ok && *known.key() != *a.key() {
			return fmt.Errorf("%w: two keys have the id %d", ErrAuditKeys, a.id)
		}
		all.byID[a.id] = a
		return nil
	}
	for i, a := range given {
		if _, twice := all.byID[a.id]; twice || a.id == 0 || a.key == nil {
			return nil, fmt.Errorf("%w: entry %d has no key, or an id that another has", ErrAuditKeys, i+1)
		}
		all.byID[a.id] = a
	}
	for _, s := range stored {
		all.current = AuditKey{s.id, time.Unix(s.made, 0), hide(s.key)}
		if err := add(all.current); err != nil {
			return nil, err
		}
	}
	if len(given) > 0 {
		all.current = given[0]
	}
	if all.current.id == 0 {
		return nil, fmt.Errorf("%w: the file holds none, so the program must give them (Options.AuditKeys)", ErrAuditKeys)
	}
	return all, nil
}

func (a *auditKeys) lastID() uint32 { return slices.Max(slices.Collect(maps.Keys(a.byID))) }
