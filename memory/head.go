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
type Flags uint8

// The flags.
const (
	// FlagContested: a contradiction of rank tool or higher is open.
	FlagContested Flags = 1 << iota
	// FlagTainted: the row is, or once was, quarantined or malicious, and no user
	// has reviewed it since.
	FlagTainted
	// FlagLineageUnknown: part of what the row was made from is not known.
	FlagLineageUnknown
	// FlagTraced: the closure is larger than MaxInlineClosure and is not inline.
	FlagTraced
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

	Depth       uint32 // inference hops from the nearest first-hand row (MP-20)
	CreatedAt   time.Time
	VerifiedAt  time.Time // zero if never
	StaleAt     time.Time // past it the row is stale
	ExpiresAt   time.Time // past it the row is expired
	ValidUntil  time.Time // zero = not stated
	ContentHash [32]byte
	Claim       Key    // the claim key
	Group       string // independence group of the asserter

	ancestors []byte // 16 bytes an id; decoded by Ancestors
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
// has made of it since, whichever is worse.
func (h *Head) FreshnessAt(now time.Time) Freshness {
	f := h.Freshness
	switch {
	case f == 0:
		return FreshnessExpired
	case !h.ExpiresAt.IsZero() && !now.Before(h.ExpiresAt), !h.ValidUntil.IsZero() && !now.Before(h.ValidUntil):
		return FreshnessExpired
	case f == FreshnessFresh && !h.StaleAt.IsZero() && now.After(h.StaleAt): // 30 days old is in, LS-19
		return FreshnessStale
	}
	return f
}

// Has reports whether all of the flags are set.
func (h *Head) Has(f Flags) bool { return h.Flags&f == f }

// Ancestors returns the strict ancestors of the row, each once. ok is false if
// they are too many to be kept inline; [Store.Closure] then traces them.
func (h *Head) Ancestors() (ids []ID, ok bool) {
	if h.Has(FlagTraced) {
		return nil, false
	}
	ids = make([]ID, 0, len(h.ancestors)/16)
	for b := h.ancestors; len(b) >= 16; b = b[16:] {
		ids = append(ids, ID(idPrefix+idAlphabet.EncodeToString(b[:16])))
	}
	return ids, true
}

func packIDs(ids []ID) []byte {
	out := make([]byte, 0, 16*len(ids))
	for _, id := range ids {
		out, _ = idAlphabet.AppendDecode(out, []byte(id[len(idPrefix):])) // ids were checked by Valid
	}
	return out
}

const (
	headVersion = 1
	headFixed   = 1 + 12 + 4 + 5*8 + 32 + 32 + 2
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

// encode writes the fixed binary form: version, twelve bytes of enums and flags,
// depth, five times in microseconds, two digests, the group, the ancestors.
func (h *Head) encode() []byte {
	b := make([]byte, 0, headFixed+len(h.Group)+len(h.ancestors))
	b = append(b, headVersion,
		byte(h.Origin), byte(h.Truth), byte(h.Retrieval), byte(h.Security), byte(h.Freshness), byte(h.Outage),
		byte(h.Sensitivity), byte(h.Criticality), byte(h.Kind), byte(h.Layer), byte(h.Rank), byte(h.Flags))
	b = binary.BigEndian.AppendUint32(b, h.Depth)
	for _, t := range [...]time.Time{h.CreatedAt, h.VerifiedAt, h.StaleAt, h.ExpiresAt, h.ValidUntil} {
		b = binary.BigEndian.AppendUint64(b, uint64(micros(t)))
	}
	b = append(b, h.ContentHash[:]...)
	b = append(b, h.Claim[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(h.Group)))
	b = append(b, h.Group...)
	return append(b, h.ancestors...)
}

// decodeHead reads what encode wrote. It keeps a slice of b.
func decodeHead(h *Head, id ID, revision uint64, b []byte) error {
	if len(b) < headFixed || b[0] != headVersion {
		return errHead
	}
	group := int(binary.BigEndian.Uint16(b[headFixed-2:]))
	if len(b) < headFixed+group || (len(b)-headFixed-group)%16 != 0 {
		return errHead
	}
	*h = Head{
		ID: id, Revision: revision,
		Origin: Origin(b[1]), Truth: Truth(b[2]), Retrieval: Retrieval(b[3]), Security: Security(b[4]),
		Freshness: Freshness(b[5]), Outage: Outage(b[6]), Sensitivity: Sensitivity(b[7]), Criticality: Criticality(b[8]),
		Kind: Kind(b[9]), Layer: Layer(b[10]), Rank: Rank(b[11]), Flags: Flags(b[12]),
		Depth:      binary.BigEndian.Uint32(b[13:]),
		CreatedAt:  fromMicros(int64(binary.BigEndian.Uint64(b[17:]))),
		VerifiedAt: fromMicros(int64(binary.BigEndian.Uint64(b[25:]))),
		StaleAt:    fromMicros(int64(binary.BigEndian.Uint64(b[33:]))),
		ExpiresAt:  fromMicros(int64(binary.BigEndian.Uint64(b[41:]))),
		ValidUntil: fromMicros(int64(binary.BigEndian.Uint64(b[49:]))),
		Group:      string(b[headFixed : headFixed+group]),
		ancestors:  b[headFixed+group:],
	}
	copy(h.ContentHash[:], b[57:])
	copy(h.Claim[:], b[89:])
	return nil
}
