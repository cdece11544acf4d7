package memory

import (
	"context"
	"encoding/binary"
	"slices"
)

// Which rows a claim has, and which verified rows a line has, decides what becomes of
// another row. So their objects list them, and they are found by their keys alone: lines
// of an index bear no MAC, and whoever writes the store's files could drop them.

// maxListed bounds the rows that the object of a claim or of a line lists.
const maxListed = 256

// claimRecord is what is known of a claim key, whatever rows carry it. The rows of the
// claim that are verified or contradicted are listed, and others while there is room. A
// row that became verified and found no room is contested.
type claimRecord struct {
	Rows      []ID // the first one holds the claim
	said      bool // a row of the claim was contradicted, or rejected
	more      bool // it has rows that are not listed, and were neither verified nor contradicted then
	beyond    bool // a row that is verified or contradicted may be missing in the list
	Rejected  ID   // the row whose rejection stands; "" = none does
	Rejection *Rejection
	class     Class // that the rejection is sealed under; 0 = that of nobody
}

// The first byte of the record of a claim.
const (
	claimSaid byte = 1 << iota
	claimMore
	claimBeyond
	claimRejected
	claimUnknown // and what is above it is in no record
)

// holder is the row that drafts of the claim collapse onto, "" if there is none.
func (c *claimRecord) holder() ID {
	if len(c.Rows) == 0 {
		return ""
	}
	return c.Rows[0]
}

// misses reports whether a row of the claim should be listed and is not: the record is
// gone, or one of before the row was put back.
func (c *claimRecord) misses(id ID) bool {
	return !c.more && !c.beyond && !slices.Contains(c.Rows, id)
}

// distrust makes the record one of which nothing is known but that it has the row: below
// a user's word nothing of the claim is verified.
func (c *claimRecord) distrust(id ID) {
	c.said, c.more, c.beyond = true, true, true
	if !slices.Contains(c.Rows, id) {
		c.Rows = append(c.Rows, id)
	}
}

// encode is the record without what is sealed of it.
func (c *claimRecord) encode() []byte {
	var flags byte
	for _, f := range [...]struct {
		is   bool
		flag byte
	}{{c.said, claimSaid}, {c.more, claimMore}, {c.beyond, claimBeyond}, {c.Rejected != "", claimRejected}} {
		if f.is {
			flags |= f.flag
		}
	}
	e := encoder{}
	e.byte(flags)
	e.ids(c.Rows)
	if c.Rejected != "" {
		e.ids([]ID{c.Rejected})
	}
	return e.b
}

// claimOf opens the record of a claim. A rejection that cannot be opened stands.
func (s *Store) claimOf(ctx context.Context, o Object) (c claimRecord, err error) {
	if o.Data == nil {
		return c, nil
	}
	d := decoder{b: o.Data}
	flags := d.byte()
	c.Rows = d.ids()
	c.said, c.more, c.beyond = flags&claimSaid != 0, flags&claimMore != 0, flags&claimBeyond != 0
	if d.bad || flags >= claimUnknown || len(c.Rows) == 0 {
		return claimRecord{}, faulty(errWire, "claim record")
	}
	if flags&claimRejected == 0 {
		return c, faulty(d.end(), "claim record")
	}
	const classBytes = 8
	rejected := d.ids()
	if d.bad || len(rejected) != 1 || len(d.b) < classBytes {
		return claimRecord{}, faulty(errWire, "claim record")
	}
	c.Rejected, c.class = rejected[0], Class(binary.BigEndian.Uint64(d.b))
	plain, err := s.unseal(ctx, o.Key, o.Revision, d.b)
	switch {
	case isErased(err): // it stands, whoever it was
		c.Rejection, c.class = &Rejection{By: "(erased)", Reason: "(erased)"}, 0
		return c, nil
	case unreadable(err):
		c.Rejection, c.class = &Rejection{By: "(unreadable)", Reason: "(unreadable)"}, 0
		return c, nil
	case err != nil:
		return claimRecord{}, err
	}
	r := decoder{b: plain}
	c.Rejection = &Rejection{By: r.str(), Reason: r.str(), At: r.time()}
	return c, faulty(r.end(), "claim record")
}

// claim puts the record of a claim. A rejection is sealed under the class of the
// row that was rejected. Rows of one claim that come in one transaction put it once.
func (t *transaction) claim(key string, from uint64, c claimRecord) {
	at, again := t.own[key]
	if again {
		from = t.Puts[at].From
	}
	data := c.encode()
	if c.Rejection != nil {
		class := c.class
		if class == 0 {
			class = t.nobody()
		}
		said := encoder{}
		said.str(c.Rejection.By)
		said.str(c.Rejection.Reason)
		said.time(c.Rejection.At)
		data = append(data, t.seal(class, key, from, said.b)...)
	}
	if again {
		t.Puts[at].Data = data
		return
	}
	t.put(Put{Key: key, From: from, Data: data})
}

// join lists a row in the record of its claim. Where the list is full, those rows leave it that
// are not kept, which are neither verified nor contradicted: once they are, they join again. A
// row that decides, and for which there is no room even so, is beyond the record.
func (c *claimRecord) join(id ID, decides bool, kept []ID) {
	switch {
	case slices.Contains(c.Rows, id):
	case len(c.Rows) < maxListed:
		c.Rows = append(c.Rows, id)
	case !decides:
		c.more = true
	case len(kept) == 0 || len(kept) >= maxListed:
		c.beyond = true
	default:
		c.more, c.Rows = true, append(kept, id)
	}
}

// deciding are the rows of a record that stay in it if it is full: its holder, those that are
// verified or contradicted, and those of which that is not known.
func (s *Store) deciding(ctx context.Context, c *claimRecord) ([]ID, error) {
	heads, lost, err := s.headsOf(ctx, c.Rows)
	if err != nil {
		return nil, err
	}
	kept := c.Rows[:1:1]
	for i, h := range heads[1:] {
		if lost[i+1] || h.decides() {
			kept = append(kept, h.ID)
		}
	}
	return kept, nil
}

// headsOf is heads for who must not do without one of them: lost says which are gone,
// damaged, or recorded as damaged. Of these nothing but the id is known.
func (s *Store) headsOf(ctx context.Context, ids []ID) (heads []Head, lost []bool, err error) {
	revoked, err := s.knownRevocations(ctx)
	if err != nil {
		return nil, nil, err
	}
	objs, damaged, err := s.each(ctx, headKey.each(make([]string, 0, len(ids)), ids))
	if err != nil {
		return nil, nil, err
	}
	heads, lost = make([]Head, len(ids)), make([]bool, len(ids))
	for i, o := range objs {
		lost[i] = slices.Contains(damaged, i) || o.Data == nil || slices.Contains(revoked.damaged, ids[i]) ||
			decodeHead(&heads[i], ids[i], o.Revision, o.Data) != nil
		if lost[i] {
			heads[i] = Head{ID: ids[i]}
		}
	}
	return heads, lost, nil
}

// listed reads those of some rows whose truth is wanted, with what moves with them. One
// that cannot be read is among them, marked so; one that was erased is not.
func (s *Store) listed(ctx context.Context, ids []ID, truths ...Truth) ([]bystander, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	heads, lost, err := s.headsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	var out []bystander
	var keys []string
	for i, h := range heads {
		switch {
		case lost[i]:
			out = append(out, bystander{Head: h, unread: true})
		case slices.Contains(truths, h.Truth) && !h.Has(FlagErased):
			out = append(out, bystander{Head: h})
		default:
			continue
		}
		keys = append(keys, bodyKey.of(h.ID), evidKey.of(h.ID), dueKey.of(h.ID))
	}
	if len(out) == 0 {
		return nil, nil
	}
	const per = 3
	objs, damaged, err := s.each(ctx, keys)
	if err != nil {
		return nil, err
	}
	for _, i := range damaged {
		out[i/per].unread = true
	}
	for i := range out {
		r := &out[i]
		if r.unread {
			continue
		}
		r.mark = objs[per*i+2]
		if r.body, err = s.body(ctx, objs[per*i]); err == nil {
			r.evid, err = s.evidenceOf(ctx, &r.Head, objs[per*i+1])
		}
		switch {
		case isErased(err):
			r.gone = true
		case unreadable(err):
			r.unread = true
		case err != nil:
			return nil, err
		}
	}
	return slices.DeleteFunc(out, func(r bystander) bool { return r.gone }), nil
}

// decides reports whether a row says something for or against its claim that other rows of
// it are held against.
func (h *Head) decides() bool {
	return h.Truth == TruthSupported || h.Truth == TruthContradicted || h.Has(FlagOutdated)
}

// lifts reports whether an entry that verifies a row ends the rejection of its claim: a
// user's word does, and nothing else.
func lifts(by Authority, kind EntryKind, origin Origin) bool {
	return by == AuthorityUser || (kind == EntryWrite || kind == EntryImport) && origin == OriginUserAsserted
}

// reach says what the rejection of a claim is to a row of the claim.
func (s *Store) reach(ctx context.Context, known *claimRecord, row ID, c Content) (Reach, error) {
	if known.Rejection == nil {
		return ReachesNot, nil
	}
	if known.Rejected == row {
		return ReachesName, nil
	}
	objs, _, err := s.each(ctx, []string{bodyKey.of(known.Rejected)})
	if err != nil {
		return 0, err
	}
	b, err := s.body(ctx, objs[0])
	by := known.Rejection.By
	switch {
	case isErased(err), unreadable(err): // whose it was is not known any more
		return ReachesClaim, nil
	case err != nil:
		return 0, err
	case b.Content.beside(c):
		return ReachesName, nil
	case s.authority(by, b.Content.Subject, b.Content.Predicate) && !s.authority(by, c.Subject, c.Predicate):
		return ReachesNamesake, nil
	}
	return ReachesClaim, nil // if the store does not know who spoke, it does not know for whom
}
