package memory

// CanonicalForms are the canonical form of a text by the general way, and by that of
// printable ASCII.
func CanonicalForms(s string) (general, ascii string) { return canonical(s), canonicalASCII(s) }

// OlderForm is the first object of a store that an older version wrote with these keys: its
// key, and its data, which bears neither a form nor a MAC.
func (s *Store) OlderForm() (key string, data []byte) { return keysKey, s.fingerprint() }
