package memory

import (
	"encoding/binary"
	"errors"
	"testing"
)

// TestAClassListsEachKeyOnceAndInOrder: a class without a key would have one that everybody
// knows.
func TestAClassListsEachKeyOnceAndInOrder(t *testing.T) {
	class := func(keys ...KeyID) []byte {
		e := encoder{}
		e.num(uint64(len(keys)))
		for _, k := range keys {
			e.b = binary.BigEndian.AppendUint64(e.b, uint64(k))
			e.str("a sealed share")
		}
		return e.b
	}
	if c, sealed, err := decodeClass(7, class(1, 2, 9)); err != nil || c.class != 7 || len(c.keys) != 3 || c.keys[2] != 9 || string(sealed[2]) != "a sealed share" {
		t.Fatalf("%+v, %d shares, %v", c, len(sealed), err)
	}
	for name, b := range map[string][]byte{
		"nothing":          nil,
		"no key":           class(),
		"a key twice":      class(1, 2, 2),
		"in another order": class(2, 1),
		"and more":         append(class(1, 2), 0),
		"cut short":        class(1, 2)[:20],
		"many":             {0xff, 0xff, 0xff, 0xff, 0x0f},
	} {
		if _, _, err := decodeClass(7, b); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
