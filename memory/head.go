package memory

import (
	"encoding/binary"
	"errors"
	"time"
)

// MaxInlineClosure is how many ancestors a head keeps with it. A larger closure
// is traced by [Store.Closure], with the same answer, up to [MaxClosure].
const (
	MaxInlineClosure = 256
	MaxClosure       = 10_000
)

// Flags of a head.
type Flags uint16

// The flags.
const (
	// FlagContested: a contradiction of rank tool or higher is open.
	FlagContested Flags = 1 << iota
	// FlagTainted: the row is, or once was, quarantined or malicious, or was made from one
	// that was, and no user has reviewed it since.
	FlagTainted
	// FlagLineageUnknown: part of what the row was made from is not known.
	FlagLineageUnknown
	// FlagTraced: the closure is larger than MaxInlineClosure and is not inline.
	FlagTraced
	// FlagErased: what the row said was erased; the skeleton stays.
	FlagErased
	// FlagRevoked: the row is read as unverified since support that it rests on was
	// revoked, and the walk over the rows has not reached it. It is never stored.
	FlagRevoked
	// FlagOwnWord: the row is verified by the own word of the principal that Speaker
	// stands for, and by nothing else. In calls made for anybody else that word is
	// unverified evidence (I-13).
	FlagOwnWord
	// FlagOwnDispute: the own word of the principal that Speaker stands for says
	// otherwise. In calls made for that principal the row is outranked.
	FlagOwnDispute
	// FlagDamaged: the head is not what was written, and nothing else of it is known. It
	// is never stored.
	FlagDamaged
	// FlagOutdated: the row is superseded because the source that alone verified it has
	// said otherwise since. It was true then. When that source says it again, the row is
	// verified again (I-16).
	FlagOutdated
	// FlagImported: the row is restricted since nobody vouched for the dump that it came
	// from, and for no other reason. Any move of the retrieval axis ends that.
	FlagImported
)

// Head is the compact projection of a row that the gate decides on. Its Revision
// moves only when an input of fitness moves (the fitness version): an echo, a
// read or a corroboration record leaves it alone. The zero Head is a row that
// does not exist; nothing about it is fit.
type Head struct {
	ID       ID
	Revision uint64 // fitness version; 0 = no such row

	Origin      Origin
	Truth       Truth
	Retrieval   Retrieval
	Security    Security
	Freshness   Freshness // as stored; see FreshnessAt
	Outage      Outage
	Sensitivity Sensitivity
	Criticality Criticality
	Kind        Kind
	Layer       Layer
	Rank        Rank // rank of the evidence that verified it; unset if not verified
	Flags       Flags

	// Speaker stands for a principal whose own word moved the row, see FlagOwnWord and
	// FlagOwnDispute; zero if none did. [Store.Speaker] gives the token of a principal.
	Speaker Token

	Depth      uint32 // inference hops from the nearest first-hand row (MP-20)
	CreatedAt  time.Time
	VerifiedAt time.Time // zero if never
	StaleAt    time.Time // past it the row is stale
	ExpiresAt  time.Time // past it the row is expired
	ValidFrom  time.Time // zero = not stated; before it the row says nothing yet
	ValidUntil time.Time // zero = not stated
	// Commitment, Claim and Group stand for the exact content, the claim key and the
	// asserter's independence group. They compare within one store, and say nothing
	// to who has only a copy of it.
	Commitment Token
	Claim      Token
	Group      Token
	Class      Class // of the data key that the row is sealed under

	ancestors []byte // 16 bytes an id; decoded by Ancestors and parents
	moving    []byte // what a transition can move, as it was read
	mark      rowMark
	evidence  uint32 // changes of the evidence, up to this revision
	link      link
}

// State projects the axes onto the three verification states.
func (h *Head) State() State {
	switch {
	case h.Revision == 0:
		return 0
	case h.Truth == TruthSupported:
		return StateVerified
	case h.Truth == TruthUnverified && h.Outage == OutageRecorded:
		return StateUnavailableAtWriteTime
	default:
		return StateUnverified
	}
}

// FreshnessAt is the freshness at a moment: the stored value, or what the clock
// has made of it since, whichever is worse. Outside the time that a row is valid for it
// is expired: before it, too.
func (h *Head) FreshnessAt(now time.Time) Freshness {
	f := h.Freshness
	switch {
	case f == 0:
		return FreshnessExpired
	case !h.ExpiresAt.IsZero() && !now.Before(h.ExpiresAt), !h.ValidUntil.IsZero() && !now.Before(h.ValidUntil), h.NotYetValid(now):
		return FreshnessExpired
	case f == FreshnessFresh && !h.StaleAt.IsZero() && now.After(h.StaleAt): // 30 days old is in, LS-19
		return FreshnessStale
	}
	return f
}

// NotYetValid reports whether what the row says holds from a later moment on only.
func (h *Head) NotYetValid(now time.Time) bool { return now.Before(h.ValidFrom) }

// LookedAt is when the row was looked at last: verified, or found to hold still. Its time
// until it is stale, and until it is expired, runs from there.
func (h *Head) LookedAt() time.Time { return h.StaleAt.Add(-h.window()) }

// window is the time in which the row is to be looked at again. StaleAt is one window after
// its beginning and ExpiresAt three, so it is half of what lies between.
func (h *Head) window() time.Duration { return h.ExpiresAt.Sub(h.StaleAt) / (expiryFactor - 1) }

// Has reports whether all of the flags are set.
func (h *Head) Has(f Flags) bool { return h.Flags&f == f }

// Ancestors returns the strict ancestors of the row, each once. ok is false if
// they are too many to be kept inline; [Store.Closure] then traces them.
func (h *Head) Ancestors() (ids []ID, ok bool) {
	if h.Has(FlagTraced) {
		return nil, false
	}
	return unpackIDs(h.ancestors), true
}

// parents returns what the row was made from directly, if its closure is too large to be kept
// inline and they are not. If ok is false its body has them.
func (h *Head) parents() (ids []ID, ok bool) {
	if !h.Has(FlagTraced) || len(h.ancestors) == 0 {
		return nil, false
	}
	return unpackIDs(h.ancestors), true
}

// The form of a head.
const (
	headMoving = 11 + 2 + 5*8 + 4 + 16         // what a transition can move
	headFixed  = headMoving + 4 + 8 + 3*16 + 8 // and what it cannot, but for the ancestors
)

var errHead = errors.New("memory: a stored head does not decode")

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(v int64) time.Time {
	if v == 0 {
		return time.Time{}
	}
	return time.UnixMicro(v).UTC()
}

// encode writes the fixed binary form: what can move, depth, when it was
// written in microseconds, three tokens, the class, the ancestors.
func (h *Head) encode() []byte {
	b := make([]byte, 0, headFixed+len(h.ancestors))
	b = h.appendMoving(b)
	b = binary.BigEndian.AppendUint32(b, h.Depth)
	b = binary.BigEndian.AppendUint64(b, uint64(micros(h.CreatedAt)))
	b = append(b, h.Commitment[:]...)
	b = append(b, h.Claim[:]...)
	b = append(b, h.Group[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Class))
	return append(b, h.ancestors...)
}

func (h *Head) encodeMoving() []byte { return h.appendMoving(make([]byte, 0, headMoving)) }

func (h *Head) appendMoving(b []byte) []byte {
	b = append(b,
		byte(h.Origin), byte(h.Truth), byte(h.Retrieval), byte(h.Security), byte(h.Freshness), byte(h.Outage),
		byte(h.Sensitivity), byte(h.Criticality), byte(h.Kind), byte(h.Layer), byte(h.Rank))
	b = binary.BigEndian.AppendUint16(b, uint16(h.Flags))
	for _, t := range [...]time.Time{h.VerifiedAt, h.StaleAt, h.ExpiresAt, h.ValidFrom, h.ValidUntil} {
		b = binary.BigEndian.AppendUint64(b, uint64(micros(t)))
	}
	b = binary.BigEndian.AppendUint32(b, h.evidence)
	return append(b, h.Speaker[:]...)
}

// decodeMoving reads what appendMoving wrote.
func (h *Head) decodeMoving(b []byte) error {
	if len(b) != headMoving {
		return errHead
	}
	h.Origin, h.Truth, h.Retrieval, h.Security = Origin(b[0]), Truth(b[1]), Retrieval(b[2]), Security(b[3])
	h.Freshness, h.Outage, h.Sensitivity, h.Criticality = Freshness(b[4]), Outage(b[5]), Sensitivity(b[6]), Criticality(b[7])
	h.Kind, h.Layer, h.Rank = Kind(b[8]), Layer(b[9]), Rank(b[10])
	h.Flags = Flags(binary.BigEndian.Uint16(b[11:]))
	b = b[13:]
	for i, t := range [...]*time.Time{&h.VerifiedAt, &h.StaleAt, &h.ExpiresAt, &h.ValidFrom, &h.ValidUntil} {
		*t = fromMicros(int64(binary.BigEndian.Uint64(b[8*i:])))
	}
	h.evidence = binary.BigEndian.Uint32(b[40:])
	copy(h.Speaker[:], b[44:])
	return nil
}

// forget makes the head one of an erased row: nothing stands for what it said,
// and it can be read by nobody.
func (h *Head) forget() {
	h.Commitment, h.Claim, h.Group, h.Speaker = Token{}, Token{}, Token{}, Token{}
}

// decodeHead reads a head object: its link, and what encode wrote. It keeps a
// slice of b.
func decodeHead(h *Head, id ID, revision uint64, b []byte) error {
	*h = Head{ID: id, Revision: revision}
	b, err := h.link.decode(b)
	if err != nil {
		return errHead
	}
	if err := h.decode(b); err != nil {
		return err
	}
	h.moving = b[:headMoving]
	return nil
}

// decode reads what encode wrote. It keeps a slice of b.
func (h *Head) decode(b []byte) error {
	if len(b) < headFixed || (len(b)-headFixed)%packedID != 0 {
		return errHead
	}
	if err := h.decodeMoving(b[:headMoving]); err != nil {
		return err
	}
	b = b[headMoving:]
	h.Depth = binary.BigEndian.Uint32(b)
	h.CreatedAt = fromMicros(int64(binary.BigEndian.Uint64(b[4:])))
	b = b[12:]
	copy(h.Commitment[:], b)
	copy(h.Claim[:], b[16:])
	copy(h.Group[:], b[32:])
	h.Class = Class(binary.BigEndian.Uint64(b[48:]))
	h.ancestors = b[56:]
	return nil
}
