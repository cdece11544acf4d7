package memory

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Every object that matters has a log, and each entry of it stands on the one
// before: its MAC covers the MAC of the entry before, so that an entry that is
// altered, dropped, moved or inserted breaks the chain (C12-4.5, LS-22). What an
// entry says of persons is sealed under the data key of its row's class and only
// its digest is in the chain: an erasure takes the payload away and the chain
// still holds.

// EntryKind says what an audit entry records.
type EntryKind string

// The kinds of audit entries.
const (
	EntryWrite      EntryKind = "write"      // a row was written
	EntryTransition EntryKind = "transition" // an axis moved
	EntryReaffirm   EntryKind = "reaffirm"   // a verified row was verified again
	EntryEcho       EntryKind = "echo"       // the claim came back
	EntryEvidence   EntryKind = "evidence"   // evidence was added; no state moved
	EntryContest    EntryKind = "contest"    // a contradiction of the same rank stands open
	EntryDecision   EntryKind = "decision"   // the gate decided
	EntryOutcome    EntryKind = "outcome"    // a call that fired ended
	EntryEpoch      EntryKind = "epoch"      // open permits were voided
	EntryErase      EntryKind = "erase"      // the content was erased
	EntryImport     EntryKind = "import"     // the row came from another store
	EntryReject     EntryKind = "reject"     // a user rejected the claim
	EntryRollback   EntryKind = "rollback"   // a move was taken back
	EntryLedger     EntryKind = "ledger"     // what decisions of a run cite was kept
	EntryHold       EntryKind = "hold"       // a held call moved
	EntryRevoke     EntryKind = "revoke"     // a verifier, source or document was revoked, or evidence with it
	EntryReinstate  EntryKind = "reinstate"  // what was revoked is believed again, from then on
	EntryMade       EntryKind = "made"       // the object was made with its store
	EntryWitness    EntryKind = "witness"    // the store has a witness, or it was given up
	EntryLeave      EntryKind = "leave"      // something was left under a nonce
	EntrySpend      EntryKind = "spend"      // a nonce was used up
	EntryDamage     EntryKind = "damage"     // a verification found what was changed behind the store's back
	EntryCleared    EntryKind = "cleared"    // a person says that what was found is dealt with
)

// entryKinds are the kinds by their stored number; a number is never used again.
var entryKinds = [...]EntryKind{1: EntryWrite, EntryTransition, EntryReaffirm, EntryEcho, EntryEvidence, EntryContest,
	EntryDecision, EntryOutcome, EntryEpoch, EntryErase, EntryImport, EntryReject, EntryRollback, EntryLedger, EntryHold, EntryRevoke, EntryReinstate, EntryMade,
	EntryWitness, EntryLeave, EntrySpend, EntryDamage, EntryCleared}

// Sequence orders all changes of a store: microseconds since 1970 in the upper 52
// bits, a counter below. It grows along every chain even if a clock goes back;
// entries written in one transaction have the same one.
type Sequence uint64

const sequenceBits = 12

// SequenceAt is the highest sequence that a moment can have.
func SequenceAt(t time.Time) Sequence {
	if t.IsZero() || t.Before(minTime) {
		return 0
	}
	return Sequence(t.UnixMicro())<<sequenceBits | (1<<sequenceBits - 1)
}

// Time is the moment of the sequence, to the microsecond.
func (q Sequence) Time() time.Time { return fromMicros(int64(q >> sequenceBits)) }

// MarshalText writes the sequence in decimal: as a JSON string, since it does not
// fit the numbers of every reader of JSON.
func (q Sequence) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(q), 10), nil }

// UnmarshalText reads what MarshalText wrote.
func (q *Sequence) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return invalid("sequence", "malformed", "not a number")
	}
	*q = Sequence(v)
	return nil
}

// AuditEntry is one line of a history: who moved what, in which capacity, on whose
// word and why. It is written in the same transaction as the move (I-6) and is never
// changed; of an erased row it keeps what moved and when, and nothing else.
type AuditEntry struct {
	Kind      EntryKind  `json:"kind"`
	Row       ID         `json:"row,omitempty"`
	Revision  uint64     `json:"revision"` // of the object after the entry
	Sequence  Sequence   `json:"sequence"`
	At        time.Time  `json:"at"`
	Actor     string     `json:"actor"`
	Authority Authority  `json:"authority"`
	Source    string     `json:"source"`
	Reason    string     `json:"reason"`
	Axis      Axis       `json:"axis,omitzero"`
	From      string     `json:"from,omitempty"`
	To        string     `json:"to,omitempty"`
	Evidence  []Evidence `json:"evidence,omitempty"`
	Wording   string     `json:"wording,omitempty"` // of an echo
	Run       string     `json:"run,omitempty"`
	Nonce     string     `json:"nonce"`
	// Erased says that who, why and on what evidence was erased.
	Erased bool `json:"erased,omitempty"`
}

// link is what a logged object keeps of its log, in front of its data: the
// sequence and MAC of its last entry.
type link struct {
	sequence Sequence
	mac      [sha256.Size]byte
}

const linkSize = 8 + sha256.Size

func (l *link) decode(b []byte) (rest []byte, err error) {
	if len(b) < linkSize {
		return nil, errWire
	}
	l.sequence = Sequence(binary.BigEndian.Uint64(b))
	copy(l.mac[:], b[8:])
	return b[linkSize:], nil
}

func (l *link) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(l.sequence))
	return append(b, l.mac[:]...)
}

// record is a stored entry before anything in it is decrypted.
type record struct {
	kind, authority, axis, from, to byte
	sequence                        Sequence
	at                              time.Time
	nonce                           [8]byte
	key                             uint32 // of the MAC
	class                           Class  // of the payload; 0 = it has none
	state                           []byte // what the object holds after the entry, or what changed in it
	payload                         []byte // sealed; nil if it was erased
	digest                          [digestSize]byte
	mac                             [sha256.Size]byte
}

const (
	recordMark  = 1 // a pack begins with another one
	recordFixed = 1 + 5 + 8 + 8 + 8
	digestSize  = 16 // of SHA-256: what a payload must be to fit is fixed by 128 bits
)

func digestOf(payload []byte) (d [digestSize]byte) {
	sum := sha256.Sum256(payload)
	copy(d[:], sum[:])
	return d
}

// encode writes the entry without its MAC: what the chain covers comes first and
// ends with the digest of the payload.
func (r *record) encode() (b []byte, covered int) {
	b = make([]byte, 0, recordFixed+16+len(r.state)+digestSize+1+len(r.payload)+sha256.Size)
	b = append(b, recordMark, r.kind, r.authority, r.axis, r.from, r.to)
	b = binary.BigEndian.AppendUint64(b, uint64(r.sequence))
	b = append(b, r.nonce[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.class))
	b = binary.AppendUvarint(b, uint64(r.key))
	b = binary.AppendUvarint(b, uint64(r.sequence>>sequenceBits)-uint64(micros(r.at))) // never behind its clock
	b = binary.AppendUvarint(b, uint64(len(r.state)))
	b = append(b, r.state...)
	b = append(b, r.digest[:]...)
	covered = len(b)
	if r.payload == nil {
		return append(b, 0), covered
	}
	b = append(b, 1)
	return append(b, r.payload...), covered
}

// decode reads what encode and the MAC made. It keeps slices of b. covered is what
// the MAC covers besides the chain.
func (r *record) decode(b []byte) (covered []byte, err error) {
	if len(b) < recordFixed || b[0] != recordMark {
		return nil, errWire
	}
	all := b
	r.kind, r.authority, r.axis, r.from, r.to = b[1], b[2], b[3], b[4], b[5]
	r.sequence = Sequence(binary.BigEndian.Uint64(b[6:]))
	copy(r.nonce[:], b[14:])
	r.class = Class(binary.BigEndian.Uint64(b[22:]))
	d := decoder{b: b[recordFixed:]}
	r.key = uint32(d.num())
	r.at = fromMicros(int64(uint64(r.sequence>>sequenceBits) - d.num()))
	r.state = d.take(d.num())
	copy(r.digest[:], d.take(digestSize))
	n := len(all) - len(d.b)
	present := d.byte()
	if d.bad || present > 1 || len(d.b) < sha256.Size || present == 0 && len(d.b) != sha256.Size {
		return nil, errWire
	}
	r.payload = nil
	if present == 1 {
		r.payload = d.b[:len(d.b)-sha256.Size]
		if r.payload == nil {
			r.payload = []byte{}
		}
	}
	copy(r.mac[:], d.b[len(d.b)-sha256.Size:])
	return all[:n:n], nil
}

// chain computes the MACs of one scope's entries under one audit key.
type chain struct {
	id uint32 // of the key
	*keyed
}

func newChain(id uint32, key [32]byte, s *scope) *chain {
	return &chain{id, newKeyed(derive(key, "audit/1", s.tenant, s.namespace))}
}

// sum is the MAC of an entry at a revision of a key, after an entry with MAC prev
// (zero for the first).
func (c *chain) sum(key string, revision uint64, prev *[sha256.Size]byte, covered []byte) [sha256.Size]byte {
	return c.keyed.sum(func(b []byte) []byte {
		b = binary.BigEndian.AppendUint64(b, revision)
		b = binary.BigEndian.AppendUint64(b, uint64(len(key)))
		b = append(b, key...)
		b = append(b, prev[:]...)
		return append(b, covered...)
	})
}

// chains are the chains of the audit keys of a scope, each made once.
type chains struct {
	last  atomic.Pointer[chain] // nearly every entry is under the same key
	known sync.Map
}

// of returns the chain of an audit key.
func (c *chains) of(k Keys, s *scope, id uint32) (*chain, error) {
	if last := c.last.Load(); last != nil && last.id == id {
		return last, nil
	}
	found, ok := c.known.Load(id)
	if !ok {
		key, ok := k.AuditKey(id)
		if !ok {
			return nil, fmt.Errorf("%w: no audit key %d", ErrKey, id)
		}
		found, _ = c.known.LoadOrStore(id, newChain(id, key, s))
	}
	c.last.Store(found.(*chain))
	return found.(*chain), nil
}

// codes of From and To: the value of the axis, or of the state of a row that is
// written.
func (e *AuditEntry) codes() (from, to byte) {
	return e.code(e.From), e.code(e.To)
}

func (e *AuditEntry) names() []string {
	switch {
	case e.Kind == EntryWrite || e.Kind == EntryImport:
		return stateEnum.names
	case e.Kind == EntryHold, e.Kind == EntryOutcome:
		return holdEnum.names
	case e.Axis == AxisTruth:
		return truthEnum.names
	case e.Axis == AxisRetrieval:
		return retrievalEnum.names
	case e.Axis == AxisSecurity:
		return securityEnum.names
	case e.Axis == AxisFreshness:
		return freshnessEnum.names
	case e.Axis == AxisKind:
		return kindEnum.names
	case e.Axis == AxisLayer:
		return layerEnum.names
	case e.Axis == AxisOutage:
		return outageEnum.names
	}
	return nil
}

func (e *AuditEntry) code(name string) byte {
	if name == "" {
		return 0
	}
	return byte(max(slices.Index(e.names(), name), 0))
}

func (e *AuditEntry) name(code byte) string {
	if names := e.names(); code != 0 && int(code) < len(names) {
		return names[code]
	}
	return ""
}

// change is what an entry does to the list of evidence of its row. The changes in
// the logs of head and note are numbered together, from 1: they add up to the list.
type change struct {
	number uint64 // 0 = the entry changes nothing
	void   voiding
	added  []Evidence
}

type voiding byte

const (
	voidsNothing voiding = iota
	voidsSupports
	voidsEverything
	replacesAll // added is the whole list
)

func (c change) apply(have []Evidence) []Evidence {
	switch c.void {
	case voidsSupports:
		have, _ = voidSupports(have)
	case voidsEverything:
		have, _ = voidAll(have)
	case replacesAll:
		have = nil
	}
	return append(slices.Clone(have), c.added...)
}

// detail is the payload of an entry.
func (e *AuditEntry) detail(c change) []byte {
	w := encoder{b: make([]byte, 0, 128)}
	w.str(e.Actor)
	w.str(e.Source)
	w.str(e.Reason)
	w.str(e.Wording)
	w.str(e.Run)
	w.num(c.number)
	if c.number > 0 {
		w.byte(byte(c.void))
		w.evidence(c.added)
	}
	return w.b
}

func (e *AuditEntry) readDetail(b []byte) (c change, err error) {
	d := decoder{b: b}
	e.Actor, e.Source, e.Reason, e.Wording, e.Run = d.str(), d.str(), d.str(), d.str(), d.str()
	if c.number = d.num(); c.number > 0 {
		c.void = voiding(d.byte())
		c.added = d.evidence()
	}
	return c, d.end()
}

// entry makes of a record what a reader sees of it without the payload.
func (r *record) entry(revision uint64) AuditEntry {
	e := AuditEntry{Revision: revision, Sequence: r.sequence, At: r.at, Authority: Authority(r.authority), Axis: Axis(r.axis),
		Nonce: hex.EncodeToString(r.nonce[:]), Erased: r.payload == nil}
	if int(r.kind) < len(entryKinds) {
		e.Kind = entryKinds[r.kind]
	}
	e.From, e.To = e.name(r.from), e.name(r.to)
	return e
}

// entry decodes a log entry of key, its payload too unless that was erased. With an error that
// is [unreadable] it returns what stands outside the payload.
func (s *Store) entry(ctx context.Context, key string, l LogEntry) (AuditEntry, change, error) {
	var r record
	if _, err := r.decode(l.Data); err != nil {
		return AuditEntry{}, change{}, fmt.Errorf("%w: entry %d of %s", ErrStore, l.Revision, KeyText(key))
	}
	e := r.entry(l.Revision)
	if r.payload == nil {
		return e, change{}, nil
	}
	var plain []byte
	class, err := s.sealing(ctx, r.class)
	if err == nil {
		plain, err = class.open(r.payload, s.scope.associated(entryPlace+key, l.Revision))
	}
	switch {
	case isErased(err):
		e.Erased = true
		return e, change{}, nil
	case err != nil:
		return e, change{}, fmt.Errorf("entry %d of %s: %w", l.Revision, KeyText(key), err)
	}
	c, err := e.readDetail(plain)
	if err != nil {
		return AuditEntry{}, change{}, fmt.Errorf("%w: entry %d of %s", ErrStore, l.Revision, KeyText(key))
	}
	e.Evidence = c.added
	return e, c, nil
}

// entryPlace keeps the payload of an entry and the data of its object apart.
const entryPlace = "log/"
