package memory

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrTampered is the sentinel of [*TamperError].
var ErrTampered = errors.New("memory: the audit does not hold")

// TamperError names the first entry of a log, or the object, that is not what was
// written. errors.Is(err, ErrTampered) holds.
type TamperError struct {
	Key      string // of the log: "head/mem_…"
	Revision uint64 // of the entry; the object's own if what is wrong is the object
	Reason   string
}

func (e *TamperError) Error() string {
	return fmt.Sprintf("memory: %s, entry %d: %s", KeyText(e.Key), e.Revision, e.Reason)
}

// Is reports whether target is [ErrTampered].
func (e *TamperError) Is(target error) bool { return target == ErrTampered }

// Auditor holds logs against their chains. It needs the keys of a store and not
// the store: what was exported is verified with it elsewhere. It is safe for
// concurrent use.
type Auditor struct {
	keys   Keys
	scope  scope
	chains chains
}

// NewAuditor returns an auditor for one scope.
func NewAuditor(k Keys, tenant, namespace string) *Auditor {
	return &Auditor{keys: k, scope: newScope(k.Root(), firstNonEmpty(tenant, "default"), namespace)}
}

// Log is how far a log was verified. The zero value with its Key set is a log of
// which nothing was.
type Log struct {
	Key      string
	Revision uint64 // of the last entry
	MAC      [32]byte

	sequence Sequence
	first    []byte // the state of the first entry
	state    []byte // and of the last one that has a state
	marks    map[uint64][32]byte
	stripped uint64 // the last entry whose payload was taken away
	erased   bool
	ended    uint64 // the last entry that says so: an erasure takes what comes before it

	entry     record                           // that is looked at
	begun     Sequence                         // of the first entry
	at        time.Time                        // and its own moment
	covered   uint64                           // what comes after it is noted
	uncovered Sequence                         // of the first such entry; 0 = there is none
	each      func(revision uint64, r *record) // hears of each entry that holds
}

// Cover says how far something else vouches for the log, a checkpoint say.
func (l *Log) Cover(revision uint64) { l.covered = max(l.covered, revision) }

// Uncovered is the first entry after that, and when it was written; ok is false if there
// is none.
func (l *Log) Uncovered() (revision uint64, at Sequence, ok bool) {
	return l.covered + 1, l.uncovered, l.uncovered > 0
}

// Mark asks that the MAC at a revision be kept while the log is verified.
func (l *Log) Mark(revision uint64) {
	if l.marks == nil {
		l.marks = map[uint64][32]byte{}
	}
	l.marks[revision] = [32]byte{}
}

// Marked returns the MAC at a revision that was marked; ok is false if the log has
// no such entry.
func (l *Log) Marked(revision uint64) (mac [32]byte, ok bool) {
	mac, ok = l.marks[revision]
	return mac, ok && revision <= l.Revision
}

// Next verifies the entry that follows. It gives a [*TamperError] if the entry is
// not the one that was written there, or if the key that it says it was
// authenticated with is not at hand.
func (a *Auditor) Next(log *Log, l LogEntry) error {
	if !packed(l) {
		return a.next(log, l)
	}
	for one, err := range expand(l) {
		if err != nil {
			return &TamperError{log.Key, l.Revision, "a packed entry does not decode"}
		}
		if err := a.next(log, one); err != nil {
			return err
		}
	}
	return nil
}

func (a *Auditor) next(log *Log, l LogEntry) error {
	fault := func(format string, args ...any) error {
		return &TamperError{log.Key, l.Revision, fmt.Sprintf(format, args...)}
	}
	if l.Revision != log.Revision+1 {
		return fault("the entry before it is %d: entries are missing", log.Revision)
	}
	r := &log.entry
	covered, err := r.decode(l.Data)
	if err != nil {
		return fault("it does not decode")
	}
	c, err := a.chains.of(a.keys, &a.scope, r.key)
	if err != nil {
		return fault("audit key %d is not at hand: the entry was changed, or the key is missing", r.key)
	}
	mac := c.sum(log.Key, l.Revision, &log.MAC, covered)
	switch {
	case !hmac.Equal(mac[:], r.mac[:]):
		return fault("its MAC does not hold: it, or the one before it, was changed")
	case r.payload != nil && digestOf(r.payload) != r.digest:
		return fault("its payload was changed")
	case r.sequence <= log.sequence:
		return fault("it is older than the one before it")
	}
	if r.payload == nil {
		log.stripped = l.Revision
	}
	if EntryErase == kindOf(r.kind) {
		log.erased, log.state = true, nil // a claim may come back later
		if r.payload != nil {             // it keeps its own
			log.ended = l.Revision
		}
	}
	log.Revision, log.MAC, log.sequence = l.Revision, r.mac, r.sequence
	if l.Revision == 1 {
		log.begun, log.at = r.sequence, r.at
	}
	if l.Revision > log.covered && log.uncovered == 0 {
		log.uncovered = r.sequence
	}
	if log.each != nil {
		log.each(l.Revision, r)
	}
	if _, ok := log.marks[l.Revision]; ok {
		log.marks[l.Revision] = r.mac
	}
	if len(r.state) > 0 {
		if log.state = r.state; log.first == nil {
			log.first = r.state
		}
	}
	return nil
}

func kindOf(code byte) EntryKind {
	if int(code) < len(entryKinds) {
		return entryKinds[code]
	}
	return ""
}

// End asks that a log which was verified to its end is all there, beside the
// object it is the history of.
func (a *Auditor) End(log *Log, o Object) error {
	fault := func(reason string) error { return &TamperError{log.Key, max(o.Revision, log.Revision), reason} }
	if log.stripped > log.ended {
		return &TamperError{log.Key, log.stripped, "its payload is gone, and no erasure is recorded"}
	}
	if o.Revision == 0 {
		return fault("the object is gone, its log is not")
	}
	var last link
	rest, err := last.decode(o.Data)
	switch {
	case err != nil:
		return fault("the object does not decode")
	case o.Revision > log.Revision:
		return fault("the log ends before the object: its tail is cut")
	case o.Revision < log.Revision:
		return fault("the object is older than its log")
	case last.mac != log.MAC || last.sequence != log.sequence:
		return fault("the object does not belong to the log")
	}
	data, ok := projected(log)
	if ok && !bytes.Equal(data, rest) {
		return fault("the object is not what its log says")
	}
	if handKey.holds(log.Key) && (len(rest) == 0 || !bytes.Equal(handState(rest), log.state)) {
		return fault("the object is not what its log says")
	}
	if (decisionKey.holds(log.Key) || holdKey.holds(log.Key) || ledgerKey.holds(log.Key)) && len(rest) > 0 {
		if digest := sha256.Sum256(rest); !bytes.Equal(digest[:], log.state) {
			return fault("the object is not what its log says")
		}
	}
	return nil
}

// projected is what the log says the object holds, for objects that are
// projections of their logs.
func projected(log *Log) (data []byte, ok bool) {
	switch {
	case headKey.holds(log.Key):
		h, err := replay(log.first, log.state, log.erased)
		if err != nil {
			return nil, true // equal to no head
		}
		return h.encode(), true
	case echoKey.holds(log.Key), noteKey.holds(log.Key), erasureKey.holds(log.Key), systemKey.holds(log.Key):
		return log.state, true
	}
	return nil, false
}

// replay is the head that a log adds up to.
func replay(first, last []byte, erased bool) (Head, error) {
	var h Head
	if err := h.decode(first); err != nil {
		return h, err
	}
	if len(last) == headMoving {
		if err := h.decodeMoving(last); err != nil {
			return h, err
		}
	} else if !bytes.Equal(first, last) {
		return h, errHead
	}
	if erased {
		h.forget()
	}
	return h, nil
}

// evidenceFits asks that the evidence of a row is at the change that its logs end
// with: an older list was not put back. objs are the head, the evidence, the note.
func evidenceFits(log *Log, objs []Object) error {
	if len(objs) < 3 || log.erased {
		return nil
	}
	var h Head
	if err := decodeHead(&h, "", objs[0].Revision, objs[0].Data); err != nil {
		return &TamperError{log.Key, objs[0].Revision, "the head does not decode"}
	}
	last := uint64(h.evidence)
	if objs[2].Data != nil {
		var l link
		rest, err := l.decode(objs[2].Data)
		d := decoder{b: rest}
		if last = max(last, d.num()); err != nil || d.end() != nil {
			return &TamperError{objs[2].Key, objs[2].Revision, "the note does not decode"}
		}
	}
	if objs[1].Revision != last {
		return &TamperError{objs[1].Key, objs[1].Revision, fmt.Sprintf("it is not the list after change %d, which the log ends with", last)}
	}
	return nil
}

// Verification is what [Store.Verify] read.
type Verification struct {
	Logs      int `json:"logs"`
	Entries   int `json:"entries"`
	Erased    int `json:"erased"`    // logs of what was erased
	Objects   int `json:"objects"`   // that were opened
	Decisions int `json:"decisions"` // that were held against the rows that they cite
	Terms     int `json:"terms"`     // lines of the index of terms
	Found     int `json:"found"`     // what is not what was written
}

// Verify is [Store.VerifyAll] up to the first thing that is not what was written, which
// is a [*TamperError]. begin and seen may be nil: begin is given each log before it is
// read, seen once it holds; an error of seen ends the verification.
//
// The chains show a change within what is there. That a whole row is missing, or
// that all of the store is an older copy, a checkpoint shows.
func (s *Store) Verify(ctx context.Context, begin func(*Log), seen func(*Log) error) (Verification, error) {
	return s.VerifyAll(ctx, Verifying{Begin: begin, Seen: seen})
}

// holdGroup is how many objects Holds reads in one trip.
const holdGroup = 1000

// Holds reports for each leaf whether the store has that very entry, and stands on
// it: the log goes on from it unbroken to where the object is now. It costs the
// objects of the logs, and the entries since. A log that does not hold from there on
// is a [*TamperError]. It asks what is stored, whatever this process met before.
func (s *Store) Holds(ctx context.Context, leaves ...Leaf) ([]bool, error) {
	if _, err := s.admit(ctx); err != nil {
		return nil, err
	}
	held := make([]bool, 0, len(leaves))
	a := NewAuditor(s.keys, s.scope.tenant, s.scope.namespace)
	for part := range slices.Chunk(leaves, holdGroup) {
		keys := make([]string, len(part))
		for i := range part {
			keys[i] = part[i].Key
		}
		objs, damaged, err := s.driver.asStored(ctx, s.scope.tenant, keys)
		if err != nil {
			return nil, err
		}
		if len(damaged) > 0 {
			o := &objs[damaged[0]]
			return nil, &TamperError{o.Key, o.Revision, "the object is not what was written"}
		}
		for i := range part {
			ok, err := s.holds(ctx, a, &part[i], objs[i])
			if err != nil {
				return nil, err
			}
			held = append(held, ok)
		}
	}
	return held, nil
}

func (s *Store) holds(ctx context.Context, a *Auditor, leaf *Leaf, o Object) (bool, error) {
	if leaf.Revision == 0 || o.Revision < leaf.Revision {
		return false, nil
	}
	var last link
	if _, err := last.decode(o.Data); err != nil {
		return false, &TamperError{o.Key, o.Revision, "the object does not decode"}
	}
	if o.Revision == leaf.Revision {
		return last.mac == leaf.MAC, nil
	}
	log := Log{Key: leaf.Key}
	for l, err := range s.unpacked(ctx, leaf.Key, max(leaf.Revision, 2)-2) {
		if err != nil {
			return false, err
		}
		if l.Revision > o.Revision { // it came since
			break
		}
		if l.Revision+1 == leaf.Revision { // its MAC is what the next one is held against
			var r record
			if _, err := r.decode(l.Data); err != nil {
				return false, &TamperError{log.Key, l.Revision, "it does not decode"}
			}
			log.Revision, log.MAC, log.sequence = l.Revision, r.mac, r.sequence
			continue
		}
		if err := a.Next(&log, l); err != nil {
			return false, err
		}
		if l.Revision == leaf.Revision && log.MAC != leaf.MAC {
			return false, nil
		}
	}
	switch {
	case log.Revision < o.Revision:
		return false, &TamperError{log.Key, o.Revision, "the log ends before the object: its tail is cut"}
	case log.MAC != last.mac || log.sequence != last.sequence:
		return false, &TamperError{log.Key, o.Revision, "the object does not belong to the log"}
	}
	return true, nil
}
