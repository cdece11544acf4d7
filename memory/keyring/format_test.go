package keyring

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
)

// samples are one file of each kind, with its parser: what it parses, it encodes.
var samples = map[string]struct {
	data     []byte
	reencode func(data []byte) ([]byte, error)
}{
	"ring": {
		(&ringFile{root: secret{1}, audit: []storedAudit{{1, 1_700_000_000, secret{2}}, {7, -1, secret{3}}}}).encode(),
		func(data []byte) ([]byte, error) {
			f, err := parseRing(data)
			if err != nil {
				return nil, err
			}
			return f.encode(), nil
		},
	},
	"key": {
		(&keyFile{id: 5, key: secret{4}, of: token{1}}).encode(plainSum),
		func(data []byte) ([]byte, error) {
			f, err := parseKey(data, plainSum)
			if err != nil {
				return nil, err
			}
			return f.encode(plainSum), nil
		},
	},
	"ended": {
		ended{[]token{{1}, {2}}, []memory.KeyID{3, 9}}.encode(plainSum),
		func(data []byte) ([]byte, error) {
			e, err := parseEnded(data, plainSum)
			if err != nil {
				return nil, err
			}
			return e.encode(plainSum), nil
		},
	},
}

func TestAFileReadsAsItWasWrittenAndNotOtherwise(t *testing.T) {
	t.Parallel()
	for name, s := range samples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if again, err := s.reencode(s.data); err != nil || !bytes.Equal(again, s.data) {
				t.Fatalf("%x reads as %x (%v)", s.data, again, err)
			}
			refused := func(data []byte) {
				t.Helper()
				_, err := s.reencode(data)
				if !errors.Is(err, ErrDamaged) && !errors.Is(err, memory.ErrForeign) && !errors.Is(err, memory.ErrSchema) {
					t.Fatalf("%x: %v", data, err)
				}
			}
			for i := range s.data {
				refused(s.data[:i])
				for bit := range 8 {
					flipped := slices.Clone(s.data)
					flipped[i] ^= 1 << bit
					refused(flipped)
				}
			}
			refused(append(slices.Clone(s.data), 0))
			for other, o := range samples {
				if other != name {
					refused(o.data)
				}
			}
		})
	}
}

func TestAListThatIsNotInOrderIsDamaged(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{
		"audit keys that descend":     (&ringFile{audit: []storedAudit{{2, 0, secret{}}, {1, 0, secret{}}}}).encode(),
		"an audit key twice":          (&ringFile{audit: []storedAudit{{2, 0, secret{}}, {2, 0, secret{}}}}).encode(),
		"an audit key without an id":  (&ringFile{audit: []storedAudit{{0, 0, secret{}}}}).encode(),
		"a key of two subjects":       pack(kindKey, appendTokens(append([]byte{7: 1}, make([]byte, keySize)...), []token{{1}, {2}}), plainSum),
		"a key of nobody":             pack(kindKey, appendTokens(append([]byte{7: 1}, make([]byte, keySize)...), nil), plainSum),
		"a key without an id":         (&keyFile{}).encode(plainSum),
		"a retired token twice":       ended{[]token{{1}, {1}}, nil}.encode(plainSum),
		"retired tokens that descend": ended{[]token{{2}, {1}}, nil}.encode(plainSum),
		"destroyed keys in disorder":  ended{nil, []memory.KeyID{2, 1}}.encode(plainSum),
		"no key destroyed":            ended{nil, []memory.KeyID{0}}.encode(plainSum),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kind, s := range samples {
				if _, err := s.reencode(data); !errors.Is(err, ErrDamaged) {
					t.Errorf("as a file of kind %s: %v", kind, err)
				}
			}
		})
	}
}

// What parses re-encodes to the same bytes; nothing panics, and nothing is made
// that is larger than what was read. Each input is tried as it is and with a
// header and a checksum that are right.
func FuzzFilesReadAsTheyWereWritten(f *testing.F) {
	for _, s := range samples {
		f.Add(s.data)
		f.Add(s.data[headerSize : len(s.data)-sumSize])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, s := range samples {
			for _, data := range [][]byte{data, pack(s.data[len(magic)+1], data, plainSum)} {
				again, err := s.reencode(data)
				if err == nil && !bytes.Equal(again, data) {
					t.Fatalf("%s: %x reads as %x", name, data, again)
				}
			}
		}
	})
}

func FuzzAuditKeysNeverShow(f *testing.F) {
	f.Add("2:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=,1:AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	f.Add("1:short")
	f.Add("01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := ParseAuditKeys(text)
		if err == nil && len(keys) == 0 || err != nil && !errors.Is(err, ErrAuditKeys) {
			t.Fatalf("%v, %v", keys, err)
		}
		seen := map[uint32]bool{}
		for _, k := range keys {
			if k.id == 0 || seen[k.id] || k.key == nil {
				t.Fatalf("%v", keys)
			}
			seen[k.id] = true
		}
	})
}

// Two subjects with one key are not to be had, so one is asked for in the place of the
// other.
func TestAKeyIsNeverSharedWithAnother(t *testing.T) {
	t.Parallel()
	k := Ephemeral()
	c, err := k.Key(t.Context(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.s().ensure(c, token{1}); !errors.Is(err, memory.ErrKey) {
		t.Fatalf("another subject has the key of ann: %v", err)
	}
}
