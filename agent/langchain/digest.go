package langchain

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"reflect"
	"slices"
)

// deepest bounds how deep a value is looked at, so that a circle ends.
const deepest = 32

// digest stands for all that a value holds at this moment, through pointers, and for its
// types. No two values that differ have one digest; what is changed in place has another
// one from then on. ok is false where that cannot be told: of a function, a channel, a
// circle. Then the value is like no other, not even itself.
func digest(v any) (sum [sha256.Size]byte, ok bool) {
	h := sha256.New()
	ok = write(h, reflect.ValueOf(v), deepest)
	return [sha256.Size]byte(h.Sum(nil)), ok
}

// write puts a value into a hash so that no other one is written alike: its type, its
// length where values of the type have several, and what it holds.
func write(h hash.Hash, v reflect.Value, depth int) bool {
	if depth == 0 {
		return false
	}
	if !v.IsValid() {
		words(h, "nothing")
		return true
	}
	words(h, v.Type().PkgPath(), v.Type().String())
	switch v.Kind() {
	case reflect.String:
		words(h, v.String())
	case reflect.Bool:
		number(h, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		number(h, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		number(h, v.Uint())
	case reflect.Float32, reflect.Float64:
		number(h, v.Float())
	case reflect.Complex64, reflect.Complex128:
		number(h, v.Complex())
	case reflect.Interface, reflect.Pointer:
		number(h, v.IsNil())
		return v.IsNil() || write(h, v.Elem(), depth-1)
	case reflect.Slice, reflect.Array:
		number(h, int64(v.Len()))
		for i := range v.Len() {
			if !write(h, v.Index(i), depth-1) {
				return false
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !write(h, v.Field(i), depth-1) {
				return false
			}
		}
	case reflect.Map:
		return writeMap(h, v, depth)
	default:
		return false
	}
	return true
}

// writeMap puts in the members of a map, in the order of what they are written as.
func writeMap(h hash.Hash, v reflect.Value, depth int) bool {
	members := make([][]byte, 0, v.Len())
	for each := v.MapRange(); each.Next(); {
		m := sha256.New()
		if !write(m, each.Key(), depth-1) || !write(m, each.Value(), depth-1) {
			return false
		}
		members = append(members, m.Sum(nil))
	}
	slices.SortFunc(members, bytes.Compare)
	number(h, int64(len(members)))
	for _, m := range members {
		h.Write(m)
	}
	return true
}

// words writes texts with their lengths.
func words(h hash.Hash, texts ...string) {
	for _, s := range texts {
		number(h, int64(len(s)))
		h.Write([]byte(s))
	}
}

// number writes a value of a fixed size.
func number(h hash.Hash, n any) {
	_ = binary.Write(h, binary.BigEndian, n) // neither a hash nor a value of a fixed size fails
}
