package redisstore

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// reads is fields that are to be read, each of the hash that it is in: one of
// objects, or behind those one of logs.
type reads struct {
	names []string
	in    []uint8
	count [objectHashes + logHashes]int
	place []int // of each, among all in the order of hashes
}

func newReads(n int) *reads {
	return &reads{names: make([]string, 0, n), in: make([]uint8, 0, n)}
}

func (r *reads) add(field string, in int) {
	r.names = append(r.names, field)
	r.in = append(r.in, uint8(in))
	r.count[in]++
}

func (r *reads) object(key string) { r.add(key, objectHash(key)) }
func (r *reads) log(key string)    { r.add(logField(key), objectHashes+logHash(key)) }

// logField is the field of the end of a log.
func logField(key string) string { return "l" + key }

// sort finds the place of each field, and returns them in the order of places.
func (r *reads) sort() []any {
	var next [objectHashes + logHashes]int
	sum := 0
	for at, n := range r.count {
		next[at], sum = sum, sum+n
	}
	r.place = make([]int, len(r.names))
	sorted := make([]any, len(r.names))
	for i, at := range r.in {
		r.place[i] = next[at]
		sorted[next[at]] = r.names[i]
		next[at]++
	}
	return sorted
}

// batch gathers the keys and arguments of a writing script.
type batch struct {
	base     string
	keys     []string
	names    strings.Builder // the keys of terms are parts of it
	index    map[string]int  // of a term in terms
	terms    []termKey
	members  []member
	ops      []byte
	contents []byte // all of them lie here
	args     []any
}

// termKey is the key of a term, and the carriers to drop and to add there.
type termKey struct {
	number uint32
	lists  [2]memberList
}

const dropping, adding = 0, 1

// memberList is where the first and the last of some members are, if there are any.
type memberList struct{ first, last, count int }

type member struct {
	sort uint64
	key  string
	next int // of the same list
}

func newBatch(base string, terms int) *batch {
	return &batch{
		base: base, keys: make([]string, 0, 16+terms),
		index: make(map[string]int, terms), terms: make([]termKey, 0, terms), members: make([]member, 0, terms),
	}
}

// key adds a key, and returns its number. Lua counts from 1.
func (b *batch) key(name string) uint32 {
	b.keys = append(b.keys, name)
	return uint32(len(b.keys))
}

func (b *batch) term(name string) *termKey {
	at, ok := b.index[name]
	if !ok {
		at = len(b.terms)
		b.index[name] = at
		from := b.names.Len()
		b.names.WriteString(b.base)
		b.names.WriteString(kindTerm)
		b.names.WriteString(name)
		b.terms = append(b.terms, termKey{number: b.key(b.names.String()[from:])})
	}
	return &b.terms[at]
}

// member notes a carrier to drop or to add.
func (b *batch) member(list int, t memory.Term, key string) {
	l := &b.term(t.Name).lists[list]
	at := len(b.members)
	b.members = append(b.members, member{sort: t.Sort, key: key})
	if l.count == 0 {
		l.first = at
	} else {
		b.members[l.last].next = at
	}
	l.last = at
	l.count++
}

func (b *batch) number4(n uint32) { b.ops = binary.BigEndian.AppendUint32(b.ops, n) }
func (b *batch) count(n int)      { b.number4(uint32(n)) }
func (b *batch) number8(n uint64) { b.ops = binary.BigEndian.AppendUint64(b.ops, n) }

func (b *batch) flag(set bool) {
	if set {
		b.ops = append(b.ops, 1)
	} else {
		b.ops = append(b.ops, 0)
	}
}

// fields adds the fields that are read first.
func (b *batch) fields(r *reads) {
	b.args = append(b.args, r.sort()...)
	lists := len(b.ops)
	b.count(0)
	for at, n := range r.count {
		if n == 0 {
			continue
		}
		objects := at < objectHashes
		if objects {
			b.number4(b.key(of(b.base, kindObject, at)))
		} else {
			b.number4(b.key(of(b.base, kindLog, at-objectHashes)))
		}
		b.count(n)
		b.flag(objects)
		b.counted(lists)
	}
}

// carriers adds the carriers to drop or to add.
func (b *batch) carriers(list int) {
	lists := len(b.ops)
	b.count(0)
	for i := range b.terms {
		l := &b.terms[i].lists[list]
		if l.count == 0 {
			continue
		}
		b.number4(b.terms[i].number)
		b.count(l.count)
		for at, n := l.first, 0; n < l.count; n++ {
			m := &b.members[at]
			b.count(8 + len(m.key))
			b.number8(m.sort)
			b.ops = append(b.ops, m.key...)
			at = m.next
		}
		b.counted(lists)
	}
}

// counted adds one to a count that was written before.
func (b *batch) counted(at int) {
	binary.BigEndian.PutUint32(b.ops[at:], binary.BigEndian.Uint32(b.ops[at:])+1)
}

// content makes an argument of the contents from a place on.
func (b *batch) content(from int) { b.args = append(b.args, b.contents[from:]) }

// field adds a field by its place. Lua counts from 1.
func (b *batch) field(place int) { b.count(place + 1) }

func (d *Driver) write(ctx context.Context, s script, b *batch) (int, error) {
	b.args[0] = b.ops
	return answer(d.run(ctx, s, true, b.keys, b.args...))
}

// change is what one put does to terms.
type change struct {
	add    []memory.Term
	remove []string
}

// applying are the keys and arguments of the apply script. known are the names of the
// terms that the objects carry which are to carry none any more: each of them is a key
// of the script.
func applying(base string, in *memory.Batch, known map[string][]string) *batch {
	terms, bytes, names := 0, 0, 0
	for i := range in.Puts {
		p := &in.Puts[i]
		terms += len(p.Add) + len(p.Remove)
		bytes += objectSize(p.Add, p.Data) + 12 + len(p.Entry)
		names += len(p.Add) * len(p.Key)
	}
	r := newReads(len(in.Checks) + 2*len(in.Puts))
	for i := range in.Checks {
		r.object(in.Checks[i].Key)
	}
	b := newBatch(base, terms)
	b.names.Grow(terms * (len(base) + 20)) // most names of terms are short
	b.key(base + kindRegister)
	changes := make([]change, len(in.Puts))
	for i := range in.Puts {
		p := &in.Puts[i]
		c := &changes[i]
		c.add = distinct(p.Add)
		switch {
		case p.From > 0 && p.Clear:
			c.remove = removed(known[p.Key], c.add)
		case p.From > 0:
			c.remove = removed(p.Remove, c.add)
		}
		for _, t := range c.add {
			b.member(adding, t, p.Key)
		}
		r.object(p.Key)
		if p.Entry != nil {
			r.log(p.Key)
		}
	}
	b.ops = make([]byte, 0, 512+20*terms+names+12*len(in.Checks)+64*len(in.Puts))
	b.contents = make([]byte, 0, bytes)
	b.args = make([]any, 1, 1+len(r.names)+2*len(in.Puts))
	b.count(len(in.Checks))
	b.count(len(in.Puts))
	b.fields(r)
	at := r.place
	for i := range in.Checks {
		b.field(at[0])
		b.number8(in.Checks[i].Revision)
		at = at[1:]
	}
	b.carriers(adding)
	for i := range in.Puts {
		at = b.put(&in.Puts[i], &changes[i], at)
	}
	return b
}

// put adds a put whose fields have the next places, and returns the places after.
func (b *batch) put(p *memory.Put, c *change, at []int) []int {
	b.field(at[0])
	b.number8(p.From)
	b.number8(p.From + 1)
	b.flag(p.Data != nil)
	b.flag(p.Clear)
	at = at[1:]
	if p.Entry != nil {
		b.field(at[0])
		at = at[1:]
	} else {
		b.count(0)
	}
	from := len(b.contents)
	if p.From == 0 { // as it is kept
		b.count(0)
		b.contents = appendObject(b.contents, 1, c.add, p.Data)
		b.content(from)
	} else {
		b.edits(c)
		if p.Data != nil {
			b.contents = append(b.contents, p.Data...)
			b.content(from)
		}
	}
	if p.Entry != nil {
		from = len(b.contents)
		b.contents = appendRecord(b.contents, p.From+1, p.Entry)
		b.content(from)
	}
	return at
}

// edits adds the terms of a put that an object carries from now on or no longer.
func (b *batch) edits(c *change) {
	b.count(len(c.remove) + len(c.add))
	if len(c.remove)+len(c.add) == 0 {
		return
	}
	from := len(b.ops)
	b.count(0)
	b.ops = appendTerms(b.ops, c.add)
	binary.BigEndian.PutUint32(b.ops[from:], uint32(len(b.ops)-from-4))
	edit := func(name string, added bool) {
		b.number4(b.term(name).number)
		b.flag(added)
		b.count(len(name))
		b.ops = append(b.ops, name...)
	}
	for _, name := range c.remove {
		edit(name, false)
	}
	for _, t := range c.add {
		edit(t.Name, true)
		b.number8(t.Sort)
	}
}

// restoring are the keys and arguments of the restore script; carried are the terms
// that each object has now.
func restoring(base string, objects []memory.Restored, carried []string) (*batch, error) {
	r := newReads(len(objects))
	b := newBatch(base, 0)
	terms := make([][]memory.Term, len(objects))
	bytes := 0
	for i := range objects {
		o := &objects[i]
		before, err := parseTerms(carried[i])
		if err != nil {
			return nil, err
		}
		terms[i] = distinct(o.Terms)
		r.object(o.Key)
		for _, t := range missing(before, terms[i]) {
			b.member(dropping, t, o.Key)
		}
		for _, t := range missing(terms[i], before) {
			b.member(adding, t, o.Key)
		}
		bytes += objectSize(terms[i], o.Data)
	}
	b.contents = make([]byte, 0, bytes)
	b.args = make([]any, 1, 1+3*len(objects))
	b.count(len(objects))
	b.fields(r)
	b.carriers(dropping)
	b.carriers(adding)
	for i := range objects {
		o := &objects[i]
		b.field(r.place[i])
		b.flag(o.Revision > 0)
		b.args = append(b.args, carried[i])
		if o.Revision > 0 {
			from := len(b.contents)
			b.contents = appendObject(b.contents, o.Revision, terms[i], o.Data)
			b.content(from)
		}
	}
	return b, nil
}

// missing are the terms of a that are not in b.
func missing(a, b []memory.Term) []memory.Term {
	in := make(map[memory.Term]struct{}, len(b))
	for _, t := range b {
		in[t] = struct{}{}
	}
	var out []memory.Term
	for _, t := range a {
		if _, ok := in[t]; !ok {
			out = append(out, t)
		}
	}
	return out
}

// distinct keeps the last of terms of one name.
func distinct(terms []memory.Term) []memory.Term {
	if !repeated(terms) {
		return terms
	}
	at := make(map[string]int, len(terms))
	out := make([]memory.Term, 0, len(terms))
	for _, t := range terms {
		if i, ok := at[t.Name]; ok {
			out[i] = t
			continue
		}
		at[t.Name] = len(out)
		out = append(out, t)
	}
	return out
}

// repeated says whether terms may have a name twice. Few are compared without a map.
func repeated(terms []memory.Term) bool {
	if len(terms) > 64 {
		return true
	}
	for i := range terms {
		for j := range i {
			if terms[i].Name == terms[j].Name {
				return true
			}
		}
	}
	return false
}

// removed are the names that go for good: a term that is removed and added stays.
func removed(names []string, add []memory.Term) []string {
	if len(names) == 0 {
		return nil
	}
	done := make(map[string]struct{}, len(names)+len(add))
	for _, t := range add {
		done[t.Name] = struct{}{}
	}
	out := make([]string, 0, len(names))
	for _, name := range names {
		if _, ok := done[name]; !ok {
			done[name] = struct{}{}
			out = append(out, name)
		}
	}
	return out
}
