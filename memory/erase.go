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
)

// Erasure asks for the erasure of a data subject: the one walk that follows
// lineage eagerly (I-11, C12-10.2).
type Erasure struct {
	Subject string // by exact name ([ExactName]): whoever is only spelled alike is somebody else
	// Spellings are other exact names of the same person, as [Store.Alike] gives them:
	// what is about those goes too.
	Spellings []string
	Request   string // the request's name; the certificate has a digest of it
	Actor     string
	// DryRun counts what would go, and changes nothing.
	DryRun bool
	// Would, if not nil, is shown each row that a dry run counts and that can be read, the
	// oldest first, until it returns false.
	Would func(Row) bool
	// Progress, if not nil, hears how many rows are erased.
	Progress func(rows int)
}

// Certificate says what an erasure did. It holds no personal data: subject and
// request are keyed digests.
type Certificate struct {
	Subject   Token `json:"-"`
	Request   Token `json:"-"`
	Rows      int   `json:"rows"`      // erased, derived ones included
	Decisions int   `json:"decisions"` // that cited one of them
	Claims    int   `json:"claims"`    // of which no row is left
	Keys      int   `json:"keys"`      // data keys destroyed
	DryRun    bool  `json:"dry_run,omitempty"`
	// Unread is how many rows could not be read and are not known to be under a key of the subject: a
	// row or its class is damaged, or a key is missing. Whether they name the subject is not known.
	// They stay. Another erasure looks at them once they can be read.
	Unread    int       `json:"unread,omitempty"`
	Completed time.Time `json:"completed_at,omitzero"`
	Version   string    `json:"wrapping_version,omitempty"` // of the wrapping key that covered the data keys
	Gone      time.Time `json:"wrapping_gone_at,omitzero"`  // when it was found destroyed
}

// ErrPending: what an erasure was to erase is erased, its data keys are dropped, and a
// version of the wrapping key that covered them is not destroyed yet: there is no
// certificate before it is.
var ErrPending = errors.New("the rows are erased, and their keys are dropped; the erasure is pending")

// Erase erases what the store holds of a subject: the rows about it or asserted by
// it, the rows whose words name it, whatever was made from those through any
// depth, and the decisions that cite them. Contents, evidence, indexes and due marks go,
// the data keys of all classes that the subject has a part in are destroyed, and
// the driver compacts. The skeleton stays: that a row was there, and what moved
// when; the chain of its log still holds.
//
// Subjects are compared as exact names, and so are the words of a triple; those of a
// free text count in any letter case and any form of their letters, and in both what a
// program wrote in escapes is read. What is about a name that is only spelled alike stays.
// [Store.Alike] lists such names for a person, who may add them.
//
// A row that nobody can read stands in the way of no erasure. It goes if it is under a key of
// the subject, or was made from a row that goes, and else [Certificate.Unread] counts it. What
// [Store.Rebuild] makes again, such as a head, has to be made again first: [ErrDamaged].
//
// What is written about the subject afterwards is of new keys. A row that is being
// made from an erased one at the same time is either erased too, or refused with
// [ErrErased]. Erase may be interrupted at any point, and is completed by calling
// it again; the certificate is written last, once nothing is found any more.
func (s *Store) Erase(ctx context.Context, e Erasure) (Certificate, error) {
	if err := e.check(); err != nil {
		return Certificate{}, err
	}
	if _, err := s.admit(ctx); err != nil {
		return Certificate{}, err
	}
	if !e.DryRun {
		if err := s.Attend(ctx); err != nil {
			return Certificate{}, err
		}
	}
	x := erasing{s: s, Erasure: e, names: e.names()}
	x.Certificate.Subject, x.Certificate.Request = s.subjectToken(e.Subject), s.scope.blind("request", e.Request)
	if e.DryRun {
		return x.dryRun(ctx)
	}
	return x.run(ctx)
}

func (e *Erasure) check() error {
	for _, f := range [...]struct{ name, value string }{{"subject", e.Subject}, {"request", e.Request}, {"actor", e.Actor}} {
		if err := checkText(f.name, f.value, MaxField); err != nil {
			return err
		}
	}
	if err := CheckName("subject", e.Subject); err != nil {
		return err
	}
	if strings.TrimSpace(e.Actor) == "" {
		return invalid("actor", "required", "who erases")
	}
	if len(e.Spellings) > MaxItems {
		return invalid("spellings", "too_many", "%d, at most %d", len(e.Spellings), MaxItems)
	}
	for _, name := range e.Spellings {
		if err := checkText("spellings", name, MaxField); err != nil {
			return err
		}
		if err := CheckName("spellings", name); err != nil {
			return err
		}
	}
	return nil
}

// names are the exact names that are erased, each once.
func (e *Erasure) names() (out []string) {
	for _, name := range append([]string{e.Subject}, e.Spellings...) {
		if name = ExactName(name); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// subjectToken stands for a subject in certificates.
func (s *Store) subjectToken(name string) Token { return s.scope.blind("subject", ExactName(name)) }

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
	names   []string       // exact: the subject, and its other spellings
	keys    []KeyID        // of the subject, and of nobody else
	classes map[Class]bool // that have a part in one of them
	opened  cache[Class, *sealing]
	object  Object
	link    link
	open    bool
	again   bool    // what is erased is erased again
	pending []ID    // rows of the last transaction that only name the subject, whose logs and children are not settled
	echoes  []Token // claims that went with them
	// stripping is the log of the decision or segment that the last transaction erased: its
	// payloads go after that.
	stripping string
}

// eraserKey is the key of a context's value: the erasure that a call is part of. It
// still reads what is of the classes that it ends, until their keys are destroyed:
// what a row is found by is known by what it says.
type eraserKey struct{}

func (x *erasing) dryRun(ctx context.Context) (Certificate, error) {
	for _, name := range x.names {
		keys, err := x.s.keys.Subject(ctx, x.s.scope.subject(name))
		if err != nil {
			return Certificate{}, err
		}
		x.keys = append(x.keys, keys...)
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
	if err := x.show(ctx, rows); err != nil {
		return Certificate{}, err
	}
	return Certificate{Subject: x.Certificate.Subject, Request: x.Certificate.Request,
		Rows: len(rows), Decisions: len(decisions), Keys: len(x.keys), Unread: x.Unread, DryRun: true}, nil
}

// show shows the rows that would go.
func (x *erasing) show(ctx context.Context, rows map[ID]bool) error {
	if x.Would == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		switch got, err := x.s.Get(ctx, id); {
		case isErased(err), errors.Is(err, ErrDamaged), errors.Is(err, ErrKey): // it is counted
		case err != nil:
			return err
		case !x.Would(got[0]):
			return nil
		}
	}
	return nil
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
	gone, err := x.s.keys.Destroy(ctx, x.keys...)
	if err != nil {
		return Certificate{}, fmt.Errorf("the rows are erased, their keys are not destroyed yet; erase again to go on: %w", err)
	}
	x.s.classes.clear()
	x.s.sets.clear()
	x.s.subjects.clear()
	if err := x.s.driver.Compact(ctx); err != nil {
		return Certificate{}, fmt.Errorf("the rows are erased, the store is not compacted yet; erase again to go on: %w", err)
	}
	if gone.Pending != "" {
		return Certificate{}, fmt.Errorf("%w: %s; then erase again", ErrPending, gone.Pending)
	}
	x.Version, x.Gone = gone.Version, gone.At
	return x.certify(ctx)
}

// begin opens the record of the erasure, or goes on with one.
func (x *erasing) begin(ctx context.Context) error {
	open, err := x.resume(ctx)
	if err != nil {
		return err
	}
	reason, known := "erasure goes on", len(x.keys)
	if !open {
		reason, known, x.keys = "erasure began", -1, nil
		x.Rows, x.Decisions, x.Claims, x.Completed = 0, 0, 0, time.Time{}
		x.Version, x.Gone = "", time.Time{}
		x.open = true
	}
	// Of one that was interrupted too: what was written since is under newer keys.
	for _, name := range x.names {
		keys, err := x.s.keys.Retire(ctx, x.s.scope.subject(name))
		if err != nil {
			return err
		}
		for _, k := range keys {
			if !slices.Contains(x.keys, k) {
				x.keys = append(x.keys, k)
			}
		}
	}
	if x.stripping != "" {
		if err := x.s.stripLog(ctx, x.stripping); err != nil {
			return err
		}
	}
	if len(x.keys) == known {
		return nil
	}
	x.Keys = len(x.keys)
	tx := x.s.begin(ctx, x.s.Now())
	nonce, err := x.note(ctx, tx, reason)
	if err != nil {
		return err
	}
	return x.commit(tx, nonce)
}

// resume reads the record of the erasure, and reports whether it is open.
func (x *erasing) resume(ctx context.Context) (open bool, err error) {
	objs, err := x.s.get(ctx, erasureKey.at(x.Certificate.Subject))
	if err != nil {
		return false, err
	}
	err = x.decode(objs[0])
	return x.open, err
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
	w.str(x.Version)
	w.time(x.Gone)
	w.num(uint64(x.Unread))
	w.str(x.stripping)
	return w.b
}

// note puts the progress of the erasure.
func (x *erasing) note(ctx context.Context, tx *transaction, reason string) (nonce string, err error) {
	record := x.encode()
	nonce = newNonce()
	tx.log(Put{Key: x.object.Key, From: x.object.Revision}, x.link, record, record, tx.nobody(),
		AuditEntry{Kind: EntryErase, At: tx.now, Actor: "eraser", Authority: AuthoritySystem, Source: "erasure", Reason: reason, Nonce: nonce}, change{})
	return nonce, nil
}

// commit applies a transaction that has a note in it.
func (x *erasing) commit(tx *transaction, nonce string) error {
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
	x.Version, x.Gone, x.Unread = d.str(), d.time(), int(d.num())
	x.stripping = d.str()
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
			objs, _, err := x.s.each(ctx, keys) // a damaged class is ended as well: its data is not needed
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
// name it, and all that quote them or were made from them. It counts the others that nobody
// can read.
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
	var walk, shut []ID
	add := func(id ID) {
		if !found[id] {
			found[id] = true
			walk = append(walk, id)
		}
	}
	named, seen := newMention(x.names), map[ID]bool{}
	look := func(ids []ID, logged bool) error {
		ids = slices.DeleteFunc(ids, func(id ID) bool { return seen[id] })
		objs, damaged, err := x.s.each(ctx, bodyKey.each(make([]string, 0, len(ids)), ids))
		if err != nil {
			return err
		}
		for i, id := range ids {
			lost := slices.Contains(damaged, i)
			if objs[i].Data == nil && !lost && !logged { // a line of the index alone is no row
				continue
			}
			if seen[id] = true; found[id] {
				continue
			}
			if objs[i].Data == nil {
				shut = append(shut, id)
				continue
			}
			b, err := x.s.body(ctx, objs[i])
			switch {
			case isErased(err):
				add(id) // its key is gone, it is not
				continue
			case unreadable(err):
				shut = append(shut, id)
				continue
			case err != nil:
				return err
			}
			if whose := b.of(x.names); whose == theirs || whose == nobodys && named.in(&b) {
				add(id)
			}
		}
		return nil
	}
	for after := ""; ; {
		_, ids, next, err := x.s.queryRows(ctx, Query{Term: termRow, After: after, Limit: 500})
		if err != nil {
			return nil, err
		}
		if err := look(ids, false); err != nil {
			return nil, err
		}
		if after = next; after == "" {
			break
		}
	}
	for after := ""; ; { // those whose body is gone, with what it is found by
		keys, next, err := x.s.driver.Logs(ctx, x.s.scope.tenant, string(headKey), after, 500)
		if err != nil {
			return nil, err
		}
		ids := make([]ID, len(keys))
		for i, key := range keys {
			ids[i] = rowOf(key)
		}
		if err := look(ids, true); err != nil {
			return nil, err
		}
		if after = next; after == "" {
			break
		}
	}
	left := shut[:0]
	for part := range slices.Chunk(shut, eraseLook) { // by their classes: a term of theirs may be missing
		heads, err := x.headsOf(ctx, part)
		if err != nil {
			return nil, err
		}
		for i, id := range part {
			if heads[i].Has(FlagErased) {
				continue
			}
			if left = append(left, id); x.classes[heads[i].Class] {
				add(id)
			}
		}
	}
	shut = left
	for len(walk) > 0 {
		id := walk[len(walk)-1]
		walk = walk[:len(walk)-1]
		for _, term := range [...]string{termChild(id), termQuotes(id)} {
			for below, err := range x.s.carriers(ctx, term) {
				if err != nil {
					return nil, err
				}
				add(below)
			}
		}
	}
	x.Unread = len(slices.DeleteFunc(shut, func(id ID) bool { return found[id] }))
	for part := range slices.Chunk(slices.Collect(maps.Keys(found)), eraseLook) {
		heads, err := x.headsOf(ctx, part)
		if err != nil {
			return nil, err
		}
		for i := range heads {
			if heads[i].Revision == 0 || heads[i].Has(FlagErased) { // what it was found by is left behind
				delete(found, part[i])
			}
		}
	}
	return found, nil
}

// headsOf reads the heads of rows. A missing head is damage, unless nothing else of the row is there.
func (x *erasing) headsOf(ctx context.Context, ids []ID) ([]Head, error) {
	heads, err := x.s.heads(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		if heads[i].Revision > 0 {
			continue
		}
		objs, damaged, err := x.s.each(ctx, []string{bodyKey.of(id)})
		if err != nil {
			return nil, err
		}
		log, err := x.s.driver.History(ctx, x.s.scope.tenant, headKey.of(id), 0, 1)
		if err != nil {
			return nil, err
		}
		if len(damaged) > 0 || objs[0].Revision > 0 || len(log) > 0 {
			return nil, &DamagedError{Keys: []string{headKey.of(id)}}
		}
	}
	return heads, nil
}

// whose says whom a row is about.
type whose uint8

const (
	nobodys      whose = iota // none of the names, nor what is spelled like one
	theirs                    // one of the names
	somebodyElse              // no name, and what is spelled like one
)

// of says whether a row is about one of some exact names, or only about what falls
// together with one.
func (v *body) of(names []string) whose {
	about := nobodys
	for _, own := range v.named() {
		exact := ExactName(own)
		for _, name := range names {
			switch {
			case exact == name:
				return theirs
			case Canonical(exact) == Canonical(name):
				about = somebodyElse
			}
		}
	}
	return about
}

// named are the names that a row has: of its subject, of the persons that it was said
// to be about, and of who asserted it.
func (v *body) named() []string {
	return append([]string{v.Content.Subject, v.Asserter.Principal}, v.Subjects...)
}

// texts are all that a row says beside its names and its free text: a longer name that
// has a name in it is somebody else's.
func (v *body) texts() []string {
	out := append([]string(nil), v.Content.Predicate, v.Content.Object, v.Anchor, v.Source, v.Category, v.Run, v.AgentVersion, v.Task, v.Purpose)
	for _, a := range v.Foreign {
		out = append(out, a.Name, a.Value)
	}
	return append(out, v.Domains...)
}

// eraseGroup is how many rows go in one transaction: the terms of many rows lie on the same
// pages of an index, so that fewer and larger transactions write much less. eraseLook is how
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

// group is rows that go in one transaction.
type group struct {
	ids  []ID
	rows []*doomed
	rest []ID // those of ids that have to wait
	err  error
	done chan struct{} // closed once it is read
}

// settle finishes the rows of the last transaction that only name the subject: what was made
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
		for _, term := range [...]string{termChild(heads[i].ID), termQuotes(heads[i].ID)} {
			for id, err := range x.s.carriers(ctx, term) {
				if err != nil {
					return err
				}
				below[i] = append(below[i], id)
			}
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

// eraseRows erases rows in one transaction.
func (x *erasing) eraseRows(ctx context.Context, rows []*doomed) error {
	if len(rows) == 0 {
		return nil
	}
	tx := x.s.begin(ctx, x.s.Now())
	x.pending, x.echoes, x.stripping = nil, nil, ""
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
	objs               []Object // head, body, evidence, due mark, note
	draft              Draft    // of the body: what makes its identity
	readable           bool     // the body could be opened
	ident, claim, echo Object
	other              ID // a row of the claim that stays and may not be listed in its record, or ""
}

// eraseBytes is how much of contents one transaction opens, but for its first row's.
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
	const each = 5
	keys := make([]string, 0, each*len(ids))
	for _, id := range ids {
		keys = append(keys, headKey.of(id), bodyKey.of(id), evidKey.of(id), dueKey.of(id), noteKey.of(id))
	}
	objs, damaged, err := x.s.each(ctx, keys)
	if err != nil {
		return nil, err
	}
	for _, at := range damaged {
		switch o := &objs[at]; {
		case headKey.holds(o.Key):
			return nil, &DamagedError{Keys: []string{o.Key}}
		case noteKey.holds(o.Key):
			last, err := x.s.lastLink(ctx, *o)
			if err != nil {
				return nil, err
			}
			o.Data = last.append(nil)
		default:
			o.Data = []byte{} // it goes, whatever it holds
		}
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
		if r.readable = err == nil; err != nil && !isErased(err) && !unreadable(err) {
			return nil, err
		}
		r.draft = Draft{Content: b.Content, Anchor: b.Anchor, Quotes: b.Quotes, Asserter: b.Asserter}
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
		_, ident := s.tokens(&r.draft)
		keys = append(keys, identKey.at(ident), claimKey.at(r.Claim), echoKey.at(r.Claim))
	}
	objs, damaged, err := s.each(ctx, keys)
	if err != nil {
		return err
	}
	for _, at := range damaged {
		if at%per > 0 {
			return &DamagedError{Keys: []string{objs[at].Key}}
		}
		objs[at].Data = []byte(rows[at/per].ID) // a damaged identity is deleted: only this row can own its key
	}
	return together(ctx, len(rows), func(ctx context.Context, i int) error {
		r := rows[i]
		r.ident, r.claim, r.echo = objs[per*i], objs[per*i+1], objs[per*i+2]
		known, err := s.claimOf(ctx, r.claim)
		if err != nil || !known.more && !known.beyond {
			return err
		}
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

func (x *erasing) eraseRow(tx *transaction, r *doomed) error {
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
	for _, o := range r.objs[1:4] { // body, evidence, due mark
		if o.Data != nil {
			tx.put(Put{Key: o.Key, From: o.Revision, Clear: true})
		}
	}
	if note := r.objs[4]; note.Data != nil {
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
func (x *erasing) eraseClaim(tx *transaction, r *doomed, nobody Class, e AuditEntry) error {
	known, err := x.s.claimOf(tx.ctx, r.claim)
	if err != nil {
		return err
	}
	had := len(known.Rows)
	known.Rows = without(known.Rows, r.ID)
	if len(known.Rows) == 0 && r.other != "" {
		known.Rows = []ID{r.other}
	}
	if len(known.Rows) > 0 {
		if known.Rejected == r.ID || known.Rejection != nil && x.classes[known.class] { // it stands, and no longer says who, why and of whom
			known.Rejection, known.class = &Rejection{By: "(erased)", Reason: "(erased)", At: known.Rejection.At}, 0
		} else if len(known.Rows) == had {
			return nil
		}
		tx.claim(r.claim.Key, r.claim.Revision, known)
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
	objs, damaged, err := s.each(ctx, []string{key})
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
	switch {
	case len(damaged) > 0:
		prev, err = s.lastLink(ctx, objs[0])
	case holdKey.holds(key):
		_, prev, class, err = s.holdOf(ctx, objs[0])
	default:
		_, prev, class, _, err = s.decisionOf(ctx, objs[0])
	}
	if err != nil && !isErased(err) && (class == 0 || !unreadable(err)) {
		return err
	}
	if class == 0 && len(damaged) == 0 { // it is erased already, through a segment that it cites
		return s.stripLog(ctx, key)
	}
	tx := s.begin(ctx, s.Now())
	tx.log(Put{Key: key, From: objs[0].Revision, Clear: true}, prev, nil, nil, tx.nobody(), AuditEntry{Kind: EntryErase, At: tx.now, Actor: "eraser", Authority: AuthoritySystem, Source: "erasure",
		Reason: "erased", Nonce: newNonce()}, change{})
	if decisionKey.holds(key) { // a hold is none
		x.Decisions++
	}
	x.stripping = key
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

// lastLink is the end of the log of a damaged object. Its revision is not trusted either: if it
// is not that of the log, nothing can be appended before a rebuild.
func (s *Store) lastLink(ctx context.Context, o Object) (link, error) {
	log, err := s.rebuilding().read(ctx, o.Key, nil)
	if err != nil {
		return link{}, err
	}
	if log.Revision != o.Revision {
		return link{}, &DamagedError{Keys: []string{o.Key}}
	}
	return log.link(), nil
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

// stripLog takes the payloads out of the entries of a log that come before the last one
// that says that it was erased. The digests stay, and the chain holds. What was written
// after that entry stays: a claim may come back at once. What is packed or stripped
// between the reading of an entry and its writing is read again.
func (s *Store) stripLog(ctx context.Context, key string) error {
	_, err := retry(ctx, func() (struct{}, error) { return struct{}{}, s.stripEntries(ctx, key) })
	return err
}

// lastErasure finds the last entry of a log that says that it was erased; 0 = there is
// none. all is the whole log, or nil if it is too long to be held.
func (s *Store) lastErasure(ctx context.Context, key string) (last uint64, all []LogEntry, err error) {
	all = []LogEntry{}
	size := 0
	for l, err := range s.stored(ctx, key, 0) {
		if err != nil {
			return 0, nil, err
		}
		for one, err := range expand(l) {
			var r record
			if err == nil {
				_, err = r.decode(one.Data)
			}
			if err != nil {
				return 0, nil, fmt.Errorf("%w: entry %d of %s", ErrStore, l.Revision, KeyText(key))
			}
			if r.payload != nil && kindOf(r.kind) == EntryErase {
				last = one.Revision
			}
		}
		if size += len(l.Data); size > packBytes {
			all = nil
		}
		if all != nil {
			all = append(all, l)
		}
	}
	return last, all, nil
}

// held yields what lastErasure read of a log; if it held nothing, the log is read again.
func (s *Store) held(ctx context.Context, key string, all []LogEntry) iter.Seq2[LogEntry, error] {
	if all == nil {
		return s.stored(ctx, key, 0)
	}
	return func(yield func(LogEntry, error) bool) {
		for _, l := range all {
			if !yield(l, nil) {
				return
			}
		}
	}
}

func (s *Store) stripEntries(ctx context.Context, key string) error {
	until, all, err := s.lastErasure(ctx, key)
	if err != nil {
		return err
	}
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
	for l, err := range s.held(ctx, key, all) {
		if err != nil {
			return err
		}
		stripped, changed, err := strip(l, until)
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

// strip takes the payloads of the entries before a revision out of a stored entry.
func strip(l LogEntry, until uint64) (LogEntry, bool, error) {
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
		if r.payload != nil && one.Revision < until && kindOf(r.kind) != EntryErase {
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
	x.open, x.Completed, x.pending, x.echoes, x.stripping = false, tx.now, nil, nil, ""
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
	t := s.subjectToken(subject)
	return hex.EncodeToString(t[:])
}
