package keyring

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
)

// samples are one file of each kind, with its parser. What it parses, it encodes.
var samples = map[string]struct {
	data     []byte
	reencode func(data []byte) ([]byte, error)
}{
	"wrapping key": {
		ratchet{7, secret{5}}.encode(),
		func(data []byte) ([]byte, error) {
			r, err := parseWrap(data)
			if err != nil {
				return nil, err
			}
			return r.encode(), nil
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

func TestAListOfAuditKeysThatIsNotInOrderIsDamaged(t *testing.T) {
	t.Parallel()
	for name, list := range map[string][]storedAudit{
		"ids descend": {{2, 0, secret{}}, {1, 0, secret{}}},
		"an id twice": {{2, 0, secret{}}, {2, 0, secret{}}},
		"without id":  {{0, 0, secret{}}},
	} {
		if _, err := parseAudit(encodeAudit(nil, list)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := []storedAudit{{1, 1_700_000_000, secret{2}}, {7, -1, secret{3}}}
	if got, err := parseAudit(encodeAudit(nil, good)); err != nil || !slices.Equal(got, good) {
		t.Errorf("%v, %v", got, err)
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
