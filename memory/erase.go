package memory

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
)

// Erasure asks for the erasure of a data subject: the one walk that follows
// lineage eagerly (I-11, C12-10.2).
type Erasure struct {
	Subject string // compared in canonical form
	Request string // the request's name; the certificate has a digest of it
	Actor   string
	// DryRun counts what would go, and changes nothing.
	DryRun bool
	// Progress, if not nil, hears how many rows are erased.
	Progress func(rows int)
}

// Certificate says what an erasure did. It holds no personal data: subject and
// request are keyed digests.
type Certificate struct {
	Subject   Token     `json:"-"`
	Request   Token     `json:"-"`
	Rows      int       `json:"rows"`      // erased, derived ones included
	Decisions int       `json:"decisions"` // that cited one of them
	Claims    int       `json:"claims"`    // of which no row is left
	Keys      int       `json:"keys"`      // data keys destroyed
	DryRun    bool      `json:"dry_run,omitempty"`
	Completed time.Time `json:"completed_at,omitzero"`
}

// Erase erases what the store holds of a subject: the rows about it or asserted by
// it, the rows whose words name it, whatever was made from those through any
// depth, and the decisions that cite them. Contents, evidence, indexes and heat go,
// the data keys of all classes that the subject has a part in are destroyed, and
// the driver compacts. The skeleton stays: that a row was there, and what moved
// when; the chain of its log still holds.
//
// What is written about the subject afterwards is of new keys. A row that is being
// made from an erased one at the same time is either erased too, or refused with
// [ErrErased]. Erase may be interrupted at any point, and is completed by calling
// it again; the certificate is written last, once nothing is found any more.
func (s *Store) Erase(ctx context.Context, e Erasure) (Certificate, error) {
	subject := Canonical(e.Subject)
	switch {
	case subject == "":
		return Certificate{}, invalid("subject", "required", "who is to be erased")
	case strings.TrimSpace(e.Actor) == "":
		return Certificate{}, invalid("actor", "required", "who erases")
	}
	for _, f := range [...]struct{ name, value string }{{"subject", e.Subject}, {"request", e.Request}, {"actor", e.Actor}} {
		if err := checkText(f.name, f.value, MaxField); err != nil {
			return Certificate{}, err
		}
	}
	if _, err := s.admit(ctx); err != nil {
		return Certificate{}, err
	}
	x := erasing{s: s, Erasure: e, subject: subject}
	x.Certificate.Subject, x.Certificate.Request = s.scope.blind("subject", subject), s.scope.blind("request", e.Request)
	if e.DryRun {
		return x.dryRun(ctx)
	}
	return x.run(ctx)
}

// Erased is the record of an erasure: how far it is, or its certificate.
type Erased struct {
	Certificate
	Open bool    // it was interrupted, or is under way; Erase goes on with it
	Keys []KeyID // the data keys that it destroys
}

// Erasures lists the records of all erasures of the scope, those that are complete
// and those that are not.
func (s *Store) Erasures(ctx context.Context) iter.Seq2[Erased, error] {
	return func(yield func(Erased, error) bool) {
		if _, err := s.admit(ctx); err != nil {
			yield(Erased{}, err)
			return
		}
		for after := ""; ; {
			keys, next, err := s.driver.Logs(ctx, s.scope.tenant, string(erasureKey), after, 1000)
			var objs []Object
			if err == nil && len(keys) > 0 {
				objs, err = s.get(ctx, keys...)
			}
			if err != nil {
				yield(Erased{}, err)
				return
			}
			for _, o := range objs {
				x := erasing{s: s}
				err := x.decode(o)
				_, subject := placeOf(o.Key)
				copy(x.Certificate.Subject[:], subject)
				if !yield(Erased{Certificate: x.Certificate, Open: x.open, Keys: x.keys}, err) || err != nil {
					return
				}
			}
			if after = next; after == "" {
				return
			}
		}
	}
}

// erasing is one erasure. Its progress is an object of the store, so that another
// process can go on with it.
type erasing struct {
	s *Store
	Erasure
	Certificate
	subject string
	keys    []KeyID        // of the subject
	classes map[Class]bool // that have a part in one of them
	opened  shelf[Class, *sealing]
	object  Object
	link    link
	open    bool
	again   bool    // what is erased is erased again
	pending []ID    // rows of the last atom that only name the subject, whose logs and children are not settled
	echoes  []Token // claims that went with them
}

// eraserKey is the key of a context's value: the erasure that a call is part of. It
// still reads what is of the classes that it ends, until their keys are destroyed:
// what a row is found by is known by what it says.
type eraserKey struct{}

func (x *erasing) dryRun(ctx context.Context) (Certificate, error) {
	var err error
	if x.keys, err = x.s.keys.Subject(ctx, x.s.scope.subject(x.subject)); err != nil {
		return Certificate{}, err
	}
	if err := x.listClasses(ctx); err != nil {
		return Certificate{}, err
	}
	rows, err := x.find(ctx)
	if err != nil {
		return Certificate{}, err
	}
	decisions := map[string]bool{}
	for id := range rows {
		if err := x.citing(ctx, id, decisions); err != nil {
			return Certificate{}, err
		}
	}
	return Certificate{Subject: x.Certificate.Subject, Request: x.Certificate.Request,
		Rows: len(rows), Decisions: len(decisions), Keys: len(x.keys), DryRun: true}, nil
}

func (x *erasing) run(ctx context.Context) (Certificate, error) {
	if err := x.begin(ctx); err != nil {
		return Certificate{}, err
	}
	if err := x.close(ctx); err != nil {
		return Certificate{}, err
	}
	ctx = context.WithValue(ctx, eraserKey{}, x)
	rows, err := x.find(ctx)
	if err != nil {
		return Certificate{}, err
	}
	if err := x.eraseAll(ctx, rows); err != nil {
		return Certificate{}, err
	}
	for c := range x.classes { // decisions without a row of theirs left
		if err := x.eraseDecisions(ctx, termClass(c)); err != nil {
			return Certificate{}, err
		}
	}
	if err := x.s.keys.Destroy(ctx, x.keys...); err != nil {
		return Certificate{}, fmt.Errorf("the rows are erased, their keys are not destroyed yet; erase again to go on: %w", err)
	}
	x.s.classes.clear()
	x.s.sets.clear()
	x.s.subjects.clear()
	if err := x.s.driver.Compact(ctx); err != nil {
		return Certificate{}, fmt.Errorf("the rows are erased, the store is not compacted yet; erase again to go on: %w", err)
	}
	return x.certify(ctx)
}

// begin opens the record of the erasure, or goes on with one.
func (x *erasing) begin(ctx context.Context) error {
	key := erasureKey.at(x.Certificate.Subject)
	objs, err := x.s.get(ctx, key)
	if err != nil {
		return err
	}
	if err := x.decode(objs[0]); err != nil {
		return err
	}
	if x.object.Key = key; x.open {
		return nil
	}
	if x.keys, err = x.s.keys.Retire(ctx, x.s.scope.subject(x.subject)); err != nil {
		return err
	}
	x.Rows, x.Decisions, x.Claims, x.Keys, x.Completed = 0, 0, 0, len(x.keys), time.Time{}
	x.open = true
	tx := x.s.begin(ctx, x.s.Now())
	nonce, err := x.note(ctx, tx, "erasure began")
	if err != nil {
		return err
	}
	return x.commit(tx, nonce)
}

// encode is the record of an erasure. Nothing personal is in it.
func (x *erasing) encode() []byte {
	w := encoder{}
	if x.open {
		w.byte(1)
	} else {
		w.byte(0)
	}
	w.b = append(w.b, x.Certificate.Request[:]...)
	for _, n := range [...]int{x.Rows, x.Decisions, x.Claims, x.Keys} {
		w.num(uint64(n))
	}
	w.time(x.Completed)
	w.num(uint64(len(x.keys)))
	for _, k := range x.keys {
		w.num(uint64(k))
	}
	w.ids(x.pending)
	w.num(uint64(len(x.echoes)))
	for _, t := range x.echoes {
		w.b = append(w.b, t[:]...)
	}
	return w.b
}

// note puts the progress of the erasure.
func (x *erasing) note(ctx context.Context, tx *atom, reason string) (nonce string, err error) {
	record := x.encode()
	nonce = newNonce()
	tx.log(Put{Key: x.object.Key, From: x.object.Revision}, x.link, record, record, tx.nobody(),
		AuditEntry{Kind: EntryErase, At: tx.now, Actor: "eraser", Authority: AuthoritySystem, Source: "erasure", Reason: reason, Nonce: nonce}, change{})
	return nonce, nil
}

// commit applies an atom that has a note in it.
func (x *erasing) commit(tx *atom, nonce string) error {
	if err := tx.commit(x.object.Key, x.object.Revision+1, nonce); err != nil {
		return err
	}
	return x.reload(tx.ctx)
}

func (x *erasing) decode(o Object) error {
	if x.object = o; o.Data == nil {
		return nil
	}
	rest, err := x.link.decode(o.Data)
	if err != nil {
		return faulty(err, "record of an erasure")
	}
	d := decoder{b: rest}
	x.open = d.byte() == 1
	if request := d.take(16); x.Certificate.Request == (Token{}) { // the record's, if this is none of another request
		copy(x.Certificate.Request[:], request)
	}
	x.Rows, x.Decisions, x.Claims, x.Keys = int(d.num()), int(d.num()), int(d.num()), int(d.num())
	x.Completed = d.time()
	x.keys = nil
	for range min(d.num(), uint64(len(d.b))) {
		x.keys = append(x.keys, KeyID(d.num()))
	}
	x.pending, x.echoes = d.ids(), nil
	for range min(d.num(), uint64(len(d.b))) {
		var t Token
		copy(t[:], d.take(uint64(len(t))))
		x.echoes = append(x.echoes, t)
	}
	return faulty(d.end(), "record of an erasure")
}

// close ends the classes that have a part in the subject: from here on, nothing is
// written under them, and none is made.
func (x *erasing) close(ctx context.Context) error {
	for _, k := range x.keys {
		_, err := retry(ctx, func() (struct{}, error) {
			objs, err := x.s.get(ctx, endedObject(k))
			if err != nil || objs[0].Revision > 0 {
				return struct{}{}, err
			}
			return struct{}{}, x.s.write(ctx, Batch{Puts: []Put{{Key: endedObject(k), Data: []byte{1}}}})
		})
		if err != nil {
			return err
		}
	}
	if err := x.listClasses(ctx); err != nil {
		return err
	}
	classes := slices.Sorted(maps.Keys(x.classes))
	for part := range slices.Chunk(classes, 1000) {
		_, err := retry(ctx, func() (struct{}, error) {
			keys := make([]string, len(part))
			for i, c := range part {
				keys[i] = classObject(c)
			}
			objs, err := x.s.get(ctx, keys...)
			if err != nil {
				return struct{}{}, err
			}
			var b Batch
			for _, o := range objs {
				if o.Revision == 1 {
					b.Puts = append(b.Puts, Put{Key: o.Key, From: 1, Data: o.Data})
				}
			}
			if len(b.Puts) == 0 {
				return struct{}{}, nil
			}
			return struct{}{}, x.s.write(ctx, b)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// listClasses finds the classes that have a part in the subject.
func (x *erasing) listClasses(ctx context.Context) error {
	x.classes = map[Class]bool{}
	for _, k := range x.keys {
		for after := ""; ; {
			hits, next, err := x.s.query(ctx, Query{Term: termKey(k), After: after, Limit: 1000})
			if err != nil {
				return err
			}
			for _, h := range hits {
				if p, rest := placeOf(h.Key); p == classKey && len(rest) == 8 {
					x.classes[Class(binary.BigEndian.Uint64([]byte(rest)))] = true
				}
			}
			if after = next; after == "" {
				break
			}
		}
	}
	return nil
}

// find lists what is to go: the rows of the subject's classes, those whose words
// name it, and all that were made from them.
func (x *erasing) find(ctx context.Context) (map[ID]bool, error) {
	found := map[ID]bool{}
	// What was made from a row of the subject is of a class that she has a part in.
	for c := range x.classes {
		for id, err := range x.s.carriers(ctx, termClass(c)) {
			if err != nil {
				return nil, err
			}
			if id.Valid() { // decisions carry the term too
				found[id] = true
			}
		}
	}
	var walk []ID
	add := func(id ID) {
		if !found[id] {
			found[id] = true
			walk = append(walk, id)
		}
	}
	names := namesOf(x.subject)
	for after := ""; ; {
		hits, next, err := x.s.query(ctx, Query{Term: termRow, After: after, Limit: 500})
		if err != nil {
			return nil, err
		}
		keys := make([]string, len(hits))
		for i := range hits {
			keys[i] = hits[i].Key
		}
		objs, err := x.s.get(ctx, keys...)
		if err != nil {
			return nil, err
		}
		for i, id := range idsOf(hits) {
			if objs[i].Data == nil || found[id] {
				continue
			}
			b, err := x.s.body(ctx, objs[i])
			if isErased(err) {
				add(id) // its key is gone, it is not
				continue
			}
			if err != nil {
				return nil, err
			}
			if b.names(names) {
				add(id)
			}
		}
		if after = next; after == "" {
			break
		}
	}
	for len(walk) > 0 {
		id := walk[len(walk)-1]
		walk = walk[:len(walk)-1]
		for child, err := range x.s.carriers(ctx, termChild(id)) {
			if err != nil {
				return nil, err
			}
			add(child)
		}
	}
	return found, nil
}

// namesOf is a subject as its words stand in a text.
func namesOf(subject string) string {
	return " " + strings.Join(words(subject), " ") + " "
}

func words(s string) []string {
	return strings.FieldsFunc(strings.ToLower(Canonical(s)), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r)
	})
}

// names reports whether any text of the row has the words of the subject in it,
// one after the other.
func (v *body) names(subject string) bool {
	for _, s := range append([]string{v.Content.Text, v.Content.Subject, v.Content.Predicate, v.Content.Object,
		v.Asserter.Principal, v.Anchor, v.Source, v.Category, v.Run}, v.Subjects...) {
		if s != "" && strings.Contains(namesOf(s), subject) {
			return true
		}
	}
	return false
}

// eraseGroup is how many rows go in one atom: the terms of many rows lie on the same
// pages of an index, so that fewer and larger atoms write much less. eraseLook is how
// many are read with one call, eraseAtOnce how many of their questions are asked at once.
const (
	eraseGroup  = 1024
	eraseLook   = 128
	eraseAtOnce = 8
)

// together runs work for 0 to n-1, some at once, and returns its first error.
func together(ctx context.Context, n int, work func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(n, eraseAtOnce) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := work(ctx, int(i)); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// eraseAll erases rows, and those that were made from them meanwhile: once a row is
// erased nothing more is made from it, so its children are listed then. While one group
// is erased the next one is read.
func (x *erasing) eraseAll(ctx context.Context, rows map[ID]bool) error {
	queue := slices.Sorted(maps.Keys(rows))
	settle := func() error {
		children, err := x.settle(ctx)
		for _, id := range children {
			if !rows[id] {
				rows[id] = true
				queue = append(queue, id)
			}
		}
		return err
	}
	if err := settle(); err != nil { // what an interrupted erasure left
		return err
	}
	size, conflicts := eraseGroup, 0
	read := func() *group {
		g := &group{ids: queue[:min(size, len(queue))], done: make(chan struct{})}
		queue = queue[len(g.ids):]
		go func() {
			defer close(g.done)
			g.rows, g.rest, g.err = x.look(ctx, g.ids, rows)
		}()
		return g
	}
	var next *group
	for next != nil || len(queue) > 0 {
		g := next
		if g == nil {
			g = read()
		}
		<-g.done
		if g.err != nil {
			return g.err
		}
		if next = nil; len(queue) > 0 {
			next = read()
		}
		err := x.eraseRows(ctx, g.rows)
		if next != nil { // it reads rows, to which settle adds
			<-next.done
		}
		switch {
		case err == nil:
			size, conflicts = min(2*size, eraseGroup), 0
			queue = append(queue, g.rest...)
			err = settle()
		case errors.Is(err, ErrConflict) && ctx.Err() == nil && conflicts < conflictRetries:
			size, conflicts = max(size/2, 1), conflicts+1 // fewer are less in the way of others
			queue, err = append(queue, g.ids...), nil
		}
		if err != nil {
			return err
		}
		if x.Progress != nil {
			x.Progress(x.Rows)
		}
	}
	return nil
}

// group is rows that go in one atom.
type group struct {
	ids  []ID
	rows []*doomed
	rest []ID // those of ids that have to wait
	err  error
	done chan struct{} // closed once it is read
}

// settle finishes the rows of the last atom that only name the subject: what was made
// of them, and their keys, may be of classes that she has no part in. It takes the
// payloads out of their logs, erases the decisions that cite them, and returns the
// children that they got meanwhile. Those of the other rows are found by their class.
func (x *erasing) settle(ctx context.Context) (children []ID, err error) {
	heads, err := x.s.heads(ctx, x.pending)
	if err != nil {
		return nil, err
	}
	heads = slices.DeleteFunc(heads, func(h Head) bool { return x.classes[h.Class] })
	if err := x.strip(ctx, heads); err != nil {
		return nil, err
	}
	below := make([][]ID, len(heads))
	cited := make([]bool, len(heads))
	err = together(ctx, len(heads), func(ctx context.Context, i int) error {
		for child, err := range x.s.carriers(ctx, termChild(heads[i].ID)) {
			if err != nil {
				return err
			}
			below[i] = append(below[i], child)
		}
		hits, _, err := x.s.query(ctx, Query{Term: termCites(heads[i].ID), Limit: 1})
		cited[i] = len(hits) > 0
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range heads {
		if cited[i] {
			for _, term := range [...]string{termCites(heads[i].ID), termWaits(heads[i].ID)} {
				if err := x.eraseDecisions(ctx, term); err != nil {
					return nil, err
				}
			}
		}
	}
	return slices.Concat(below...), nil
}

// eraseRows erases rows in one atom.
func (x *erasing) eraseRows(ctx context.Context, rows []*doomed) error {
	if len(rows) == 0 {
		return nil
	}
	tx := x.s.begin(ctx, x.s.Now())
	x.pending, x.echoes = nil, nil
	for _, r := range rows {
		if err := x.eraseRow(tx, r); err != nil {
			return err
		}
		x.Rows++
		if !x.classes[r.Class] { // else its key goes, and all that was made of it is found by its class
			x.pending = append(x.pending, r.ID)
		}
	}
	nonce, err := x.note(ctx, tx, "rows erased")
	if err == nil {
		err = x.commit(tx, nonce)
	}
	if err != nil {
		return errors.Join(err, x.reload(ctx))
	}
	return nil
}

// reload goes back to what the record of the erasure says.
func (x *erasing) reload(ctx context.Context) error {
	objs, err := x.s.get(ctx, x.object.Key)
	if err != nil {
		return err
	}
	return x.decode(objs[0])
}

// doomed is a row that is being erased, with what hangs on it.
type doomed struct {
	Head
	objs               []Object // head, body, evidence, due mark, heat, note
	draft              Draft    // of the body: what makes its identity
	readable           bool     // the body could be opened
	ident, claim, echo Object
	other              ID // a row of the claim that stays, or ""
}

// eraseBytes is how much of contents one atom opens, but for its first row's.
const eraseBytes = 8 << 20

// look reads rows that are not erased yet, and what hangs on them. rest are those
// that have to wait: another one has the same claim, or they are too large together.
func (x *erasing) look(ctx context.Context, ids []ID, all map[ID]bool) (rows []*doomed, rest []ID, err error) {
	claims, size := map[Token]bool{}, 0
	for part := range slices.Chunk(ids, eraseLook) {
		if size > eraseBytes {
			rest = append(rest, part...)
			continue
		}
		seen, err := x.lookAt(ctx, part)
		if err != nil {
			return nil, nil, err
		}
		var kept []*doomed
		for _, r := range seen {
			if size += len(r.objs[1].Data); claims[r.Claim] || size > eraseBytes && len(rows)+len(kept) > 0 {
				rest = append(rest, r.ID)
				continue
			}
			claims[r.Claim] = true
			kept = append(kept, r)
		}
		if err := x.beside(ctx, kept, all); err != nil {
			return nil, nil, err
		}
		rows = append(rows, kept...)
	}
	return rows, rest, nil
}

// lookAt reads rows that are not erased yet.
func (x *erasing) lookAt(ctx context.Context, ids []ID) (rows []*doomed, err error) {
	const each = 6
	keys := make([]string, 0, each*len(ids))
	for _, id := range ids {
		keys = append(keys, headKey.of(id), bodyKey.of(id), evidKey.of(id), dueKey.of(id), heatKey.of(id), noteKey.of(id))
	}
	objs, err := x.s.get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		r := &doomed{objs: objs[each*i : each*i+each]}
		head, body := r.objs[0], r.objs[1]
		if head.Data == nil {
			continue
		}
		if err := decodeHead(&r.Head, id, head.Revision, head.Data); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrStore, err)
		}
		if r.Has(FlagErased) && !x.again {
			continue
		}
		b, err := x.s.body(ctx, body)
		if r.readable = err == nil; err != nil && !isErased(err) && body.Data != nil {
			return nil, err
		}
		r.draft = Draft{Content: b.Content, Anchor: b.Anchor}
		rows = append(rows, r)
	}
	return rows, nil
}

// beside reads what is known of the identities and claims of rows.
func (x *erasing) beside(ctx context.Context, rows []*doomed, all map[ID]bool) error {
	s := x.s
	const per = 3
	keys := make([]string, 0, per*len(rows))
	for _, r := range rows {
		keys = append(keys, identKey.at(s.ident(r.draft)), claimKey.at(r.Claim), echoKey.at(r.Claim))
	}
	objs, err := s.get(ctx, keys...)
	if err != nil {
		return err
	}
	return together(ctx, len(rows), func(ctx context.Context, i int) error {
		r := rows[i]
		r.ident, r.claim, r.echo = objs[per*i], objs[per*i+1], objs[per*i+2]
		for id, err := range s.carriers(ctx, s.termClaim(r.Claim)) {
			if err != nil {
				return err
			}
			if id != r.ID && !all[id] && (r.other == "" || id < r.other) {
				r.other = id
			}
		}
		return nil
	})
}

func (x *erasing) eraseRow(tx *atom, r *doomed) error {
	nobody := tx.nobody()
	gone := AuditEntry{Kind: EntryErase, Row: r.ID, At: tx.now, Actor: "eraser", Authority: AuthoritySystem, Source: "erasure", Reason: "erased"}
	entry := func() AuditEntry {
		e := gone
		e.Nonce = newNonce()
		return e
	}
	next := r.Head
	next.forget()
	next.Flags |= FlagErased
	next.Truth, next.Rank, next.Retrieval = TruthUnverified, 0, RetrievalBlocked
	tx.log(Put{Key: headKey.of(r.ID), From: r.Revision, Clear: true}, r.link, next.encode(), next.encodeMoving(), nobody, entry(), change{})

	if r.readable && ID(r.ident.Data) == r.ID {
		tx.put(Put{Key: r.ident.Key, From: r.ident.Revision})
	}
	// The terms of a body that nobody can open any more go with it: none of them has to
	// be known.
	for _, o := range r.objs[1:5] { // body, evidence, due mark, heat
		if o.Data != nil {
			tx.put(Put{Key: o.Key, From: o.Revision, Clear: true})
		}
	}
	if note := r.objs[5]; note.Data != nil {
		var prev link
		if _, err := prev.decode(note.Data); err != nil {
			return faulty(err, "row note")
		}
		tx.log(Put{Key: note.Key, From: note.Revision}, prev, nil, nil, nobody, entry(), change{})
	}
	return x.eraseClaim(tx, r, nobody, entry())
}

// eraseClaim takes the row out of what is known of its claim, and the claim with it
// if no other row holds it.
func (x *erasing) eraseClaim(tx *atom, r *doomed, nobody Class, e AuditEntry) error {
	if r.other != "" {
		known, err := x.s.claimOf(tx.ctx, r.claim)
		if err != nil {
			return err
		}
		if known.First == r.ID || known.Rejected == r.ID {
			if known.First == r.ID {
				known.First = r.other
			}
			if known.Rejected == r.ID { // it stands, and no longer says who and why
				known.Rejection = &Rejection{By: "(erased)", Reason: "(erased)", At: known.Rejection.At}
				known.Rejected = r.other
			}
			tx.claim(r.claim.Key, r.claim.Revision, known, nobody)
		}
		return nil
	}
	if r.claim.Data != nil {
		x.Claims++
		tx.put(Put{Key: r.claim.Key, From: r.claim.Revision})
	}
	if r.echo.Data != nil {
		_, prev, err := echoesOf(r.echo)
		if err != nil {
			return err
		}
		tx.log(Put{Key: r.echo.Key, From: r.echo.Revision}, prev, nil, nil, nobody, e, change{})
		x.echoes = append(x.echoes, r.Claim)
		return tx.err
	}
	return nil
}

// eraseDecisions erases the decisions that carry a term, each after the hold that it
// opened: one that waits no more is found by nothing else, and keeps its arguments.
func (x *erasing) eraseDecisions(ctx context.Context, term string) error {
	s := x.s
	seen := map[string]bool{}
	for after := ""; ; {
		hits, next, err := s.query(ctx, Query{Term: term, After: after, Limit: 500})
		if err != nil {
			return err
		}
		for _, hit := range hits {
			if ledgerKey.holds(hit.Key) && !seen[hit.Key] {
				seen[hit.Key] = true
				if err := x.eraseSegment(ctx, hit.Key); err != nil {
					return err
				}
			}
			keys := []string{hit.Key}
			switch {
			case decisionKey.holds(hit.Key):
				keys = []string{holdKey.named(strings.TrimPrefix(hit.Key, string(decisionKey))), hit.Key}
			case !holdKey.holds(hit.Key):
				continue
			}
			for _, key := range keys {
				if seen[key] {
					continue
				}
				seen[key] = true
				if _, err := retry(ctx, func() (struct{}, error) { return struct{}{}, x.eraseDecision(ctx, key) }); err != nil {
					return err
				}
			}
		}
		if after = next; after == "" {
			return nil
		}
	}
}

func (x *erasing) eraseDecision(ctx context.Context, key string) error {
	s := x.s
	objs, err := s.get(ctx, key)
	if err != nil {
		return err
	}
	if objs[0].Revision == 0 { // most decisions open no hold
		return nil
	}
	var (
		prev  link
		class Class
	)
	if holdKey.holds(key) {
		_, prev, class, err = s.holdOf(ctx, objs[0])
	} else {
		_, prev, class, _, err = s.decisionOf(ctx, objs[0])
	}
	if err != nil && !isErased(err) {
		return err
	}
	if class == 0 { // it is erased already, through a segment that it cites
		return s.stripLog(ctx, key)
	}
	tx := s.begin(ctx, s.Now())
	tx.log(Put{Key: key, From: objs[0].Revision, Clear: true}, prev, nil, nil, tx.nobody(), AuditEntry{Kind: EntryErase, At: tx.now, Actor: "eraser", Authority: AuthoritySystem, Source: "erasure",
		Reason: "erased", Nonce: newNonce()}, change{})
	if decisionKey.holds(key) { // a hold is none
		x.Decisions++
	}
	nonce, err := x.note(ctx, tx, "decision erased")
	if err == nil {
		err = x.commit(tx, nonce)
	}
	if err != nil {
		return errors.Join(err, x.reload(ctx))
	}
	if x.classes[class] {
		return nil // its key goes
	}
	return s.stripLog(ctx, key)
}

func (x *erasing) citing(ctx context.Context, id ID, into map[string]bool) error {
	hits, err := x.s.hits(ctx, termCites(id))
	if err == nil {
		hits, err = x.s.throughSegments(ctx, hits)
	}
	for _, h := range hits {
		into[h.Key] = true
	}
	return err
}

// strip takes the payloads out of the logs of rows whose class has a key that
// stays: rows that only name the subject.
func (x *erasing) strip(ctx context.Context, heads []Head) error {
	keys := make([]string, 0, 2*len(heads)+len(x.echoes))
	for _, t := range x.echoes {
		keys = append(keys, echoKey.at(t))
	}
	for i := range heads {
		keys = append(keys, headKey.of(heads[i].ID), noteKey.of(heads[i].ID))
	}
	for _, key := range keys {
		if err := x.s.stripLog(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// stripLog takes the payloads out of all entries of a log but of those that say that it
// was erased. The digests stay, and the chain holds. What is packed or stripped between
// the reading of an entry and its writing is read again.
func (s *Store) stripLog(ctx context.Context, key string) error {
	_, err := retry(ctx, func() (struct{}, error) { return struct{}{}, s.stripEntries(ctx, key) })
	return err
}

func (s *Store) stripEntries(ctx context.Context, key string) error {
	var change []Rewritten
	size := 0
	flush := func() error {
		if len(change) == 0 {
			return nil
		}
		err := s.driver.Rewrite(ctx, s.scope.tenant, key, change)
		change, size = nil, 0
		return err
	}
	for l, err := range s.stored(ctx, key, 0) {
		if err != nil {
			return err
		}
		stripped, changed, err := strip(l)
		if err != nil {
			return fmt.Errorf("%w: entry %d of %s", ErrStore, l.Revision, KeyText(key))
		}
		if !changed {
			continue
		}
		if size += len(l.Data); size > packBytes || len(change) == 1000 {
			if err := flush(); err != nil {
				return err
			}
			size = len(l.Data)
		}
		change = append(change, Rewritten{stripped, l.Data})
	}
	return flush()
}

func strip(l LogEntry) (LogEntry, bool, error) {
	var run []LogEntry
	changed := false
	for one, err := range expand(l) {
		if err != nil {
			return l, false, err
		}
		var r record
		if _, err := r.decode(one.Data); err != nil {
			return l, false, err
		}
		if r.payload != nil && kindOf(r.kind) != EntryErase {
			r.payload, changed = nil, true
			b, _ := r.encode()
			one.Data = append(b, r.mac[:]...)
		}
		run = append(run, one)
	}
	if !changed || !packed(l) {
		return run[0], changed, nil
	}
	p, err := pack(run)
	return p, true, err
}

// certify writes the certificate, if nothing is left.
func (x *erasing) certify(ctx context.Context) (Certificate, error) {
	rows, err := x.find(ctx)
	if err != nil {
		return Certificate{}, err
	}
	if len(rows) > 0 {
		return Certificate{}, fmt.Errorf("%w: %d rows of the subject were written meanwhile; erase again", ErrConflict, len(rows))
	}
	tx := x.s.begin(ctx, x.s.Now())
	x.open, x.Completed, x.pending, x.echoes = false, tx.now, nil, nil
	nonce, err := x.note(ctx, tx, "erasure completed")
	if err != nil {
		return Certificate{}, err
	}
	if err := x.commit(tx, nonce); err != nil {
		return Certificate{}, err
	}
	return x.Certificate, nil
}

// SubjectDigest is the keyed digest that a certificate names a subject by, in
// hexadecimal.
func (s *Store) SubjectDigest(subject string) string {
	t := s.scope.blind("subject", Canonical(subject))
	return hex.EncodeToString(t[:])
}
