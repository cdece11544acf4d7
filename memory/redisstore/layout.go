package redisstore

import (
	"encoding/binary"
	"unsafe"

	"github.com/hearsay-go/hearsay/memory"
)

func number4(s string) uint32 {
	return uint32(s[0])<<24 | uint32(s[1])<<16 | uint32(s[2])<<8 | uint32(s[3])
}

func number8(s string) uint64 { return uint64(number4(s))<<32 | uint64(number4(s[4:])) }

func bytes8(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

// appendSmall writes a number in one byte, or as a byte and four.
func appendSmall(to []byte, n int) []byte {
	if n < 255 {
		return append(to, byte(n))
	}
	return binary.BigEndian.AppendUint32(append(to, 255), uint32(n))
}

// objectSize is the most bytes that an object takes.
func objectSize(terms []memory.Term, data []byte) int { return 13 + termsSize(terms) + len(data) }

// appendObject writes an object as its field keeps it.
func appendObject(to []byte, revision uint64, terms []memory.Term, data []byte) []byte {
	to = binary.BigEndian.AppendUint64(to, revision)
	var room [512]byte
	carried := appendTerms(room[:0], terms)
	size := 2 * len(carried)
	if data != nil {
		size++
	}
	to = appendSmall(to, size)
	to = append(to, carried...)
	return append(to, data...)
}

// parseObject reads the value of an object's field into o, which takes it over, and
// returns its terms.
func parseObject(value string, o *memory.Object) (terms string, err error) {
	if len(value) < 9 {
		return "", errDamaged
	}
	size, from := int(value[8]), 9
	if size == 255 {
		if len(value) < 13 {
			return "", errDamaged
		}
		size, from = int(number4(value[9:])), 13
	}
	end := from + size/2
	if end > len(value) {
		return "", errDamaged
	}
	o.Revision = number8(value)
	if size%2 == 1 {
		o.Data = bytesOf(value[end:])
	}
	return value[from:end], nil
}

// bytesOf is a part of a reply as bytes, without a copy: a reply is memory of its own,
// which nobody else knows, and its parts do not overlap.
func bytesOf(reply string) []byte {
	if reply == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(reply), len(reply))
}

// termsSize is the most bytes that terms take.
func termsSize(terms []memory.Term) int {
	size := 0
	for i := range terms {
		size += 5 + len(terms[i].Name) + 8
	}
	return size
}

// appendTerms writes terms as an object keeps them.
func appendTerms(to []byte, terms []memory.Term) []byte {
	for i := range terms {
		t := &terms[i]
		same := byte(0)
		if i > 0 && terms[i-1].Sort == t.Sort {
			same = 1
		}
		if len(t.Name) < 127 {
			to = append(to, byte(2*len(t.Name))+same)
		} else {
			to = binary.BigEndian.AppendUint32(append(to, 254+same), uint32(len(t.Name)))
		}
		to = append(to, t.Name...)
		if same == 0 {
			to = binary.BigEndian.AppendUint64(to, t.Sort)
		}
	}
	return to
}

func parseTerms(s string) ([]memory.Term, error) {
	var terms []memory.Term
	sort, sorted := uint64(0), false
	for len(s) > 0 {
		n, same := int(s[0]/2), s[0]%2 == 1
		s = s[1:]
		if n == 127 {
			if len(s) < 4 {
				return nil, errDamaged
			}
			n, s = int(number4(s)), s[4:]
		}
		if len(s) < n || same && !sorted || !same && len(s) < n+8 {
			return nil, errDamaged
		}
		name := s[:n]
		s = s[n:]
		if !same {
			sort, sorted, s = number8(s), true, s[8:]
		}
		terms = append(terms, memory.Term{Name: name, Sort: sort})
	}
	return terms, nil
}

// appendRecord writes an entry as a log keeps it.
func appendRecord(to []byte, revision uint64, data []byte) []byte {
	to = binary.BigEndian.AppendUint32(to, uint32(len(data)))
	to = append(to, data...)
	return binary.BigEndian.AppendUint64(to, revision)
}

// recordEnd is where the record ends that s begins with.
func recordEnd(s string) (int, error) {
	if len(s) < 12 || len(s)-12 < int(number4(s)) {
		return 0, errDamaged
	}
	return 12 + int(number4(s)), nil
}

// parseLog reads at most limit entries after a revision from pieces of a log.
func parseLog(pieces []string, after uint64, limit int) ([]memory.LogEntry, error) {
	var entries []memory.LogEntry
	for _, s := range pieces {
		for len(s) > 0 && len(entries) < limit {
			end, err := recordEnd(s)
			if err != nil {
				return nil, err
			}
			if revision := number8(s[end-8:]); revision > after {
				entries = append(entries, memory.LogEntry{Revision: revision, Data: []byte(s[4 : end-8])})
			}
			s = s[end:]
		}
	}
	return entries, nil
}

// upTo is the end of a range, before the first string after all that begin with a
// prefix: the last byte that can grow does.
func upTo(prefix string) string {
	for end := []byte(prefix); len(end) > 0; end = end[:len(end)-1] {
		if end[len(end)-1] < 255 {
			end[len(end)-1]++
			return "(" + string(end)
		}
	}
	return "+"
}
