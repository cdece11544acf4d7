package memory

import (
	"context"
	"encoding/binary"
)

// CanonicalForms are the canonical form of a text by the general way, and by that of
// printable ASCII.
func CanonicalForms(s string) (general, ascii string) { return canonical(s), canonicalASCII(s) }

// OlderForm is the first object of a store that a version wrote with these keys that knew no
// number of a form: its key, and its data, which bears no MAC either.
func (s *Store) OlderForm() (key string, data []byte) { return keysKey, s.fingerprint() }

// MakeForm makes the first object of a store of another form, as that version made it.
func (s *Store) MakeForm(ctx context.Context, form uint64) error {
	data := binary.AppendUvarint(s.fingerprint(), form)
	return s.driver.Apply(ctx, s.scope.tenant, Batch{Puts: []Put{{Key: keysKey, Data: data}}})
}

// ActKey is the key of the mark of an act.
func (s *Store) ActKey(act Digest) string { return s.actOf(act) }

// MarkKey is the key of the mark of a call.
func (s *Store) MarkKey(slot Digest) string { return s.markOf(slot) }
