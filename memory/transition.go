package memory

import (
	"strings"
	"time"
)

// AxisValue is a value that a transition can move an axis to: [Truth],
// [Retrieval], [Security], [Freshness] or [Outage].
type AxisValue interface {
	axis() Axis
	code() uint8
	String() string
}

func (Truth) axis() Axis     { return AxisTruth }
func (Retrieval) axis() Axis { return AxisRetrieval }
func (Security) axis() Axis  { return AxisSecurity }
func (Freshness) axis() Axis { return AxisFreshness }
func (Outage) axis() Axis    { return AxisOutage }

func (v Truth) code() uint8     { return uint8(v) }
func (v Retrieval) code() uint8 { return uint8(v) }
func (v Security) code() uint8  { return uint8(v) }
func (v Freshness) code() uint8 { return uint8(v) }
func (v Outage) code() uint8    { return uint8(v) }

// Transition asks to move one axis of one row. It is compared and swapped on
// Revision: if the row has moved since, [ErrConflict], and nothing is written.
type Transition struct {
	Row       ID
	Revision  uint64 // the fitness version the mover looked at
	To        AxisValue
	Authority Authority // in what capacity
	Actor     string    // who: "worker:host-1"; with authority user the principal itself, "ana"
	Source    string    // on whose word: "crm", "demo"
	Reason    string    // why, for people
	Evidence  []Evidence
	// Reject, with authority user and To = TruthContradicted, attaches the
	// contradiction to the claim key and voids the evidence so far (SR-7.11).
	Reject bool
	// Asked is where the line of the row stood before the source was asked. If another
	// value was verified since, the answer is overtaken. The zero LineMark asks nothing.
	Asked LineMark

	// again says that the row's own first-hand source says it anew, so that its word
	// counts as it does for a row that is written.
	again bool
	// exact is [Draft.Exact] then.
	exact bool
}

func (t *Transition) check() error {
	if err := t.Row.check("row"); err != nil {
		return err
	}
	if t.To == nil || t.To.code() == 0 {
		return invalid("to", "required", "where the axis moves to")
	}
	if err := authorityEnum.check(t.Authority); err != nil {
		return err
	}
	for _, f := range [...]struct{ name, value string }{{"actor", t.Actor}, {"source", t.Source}, {"reason", t.Reason}} {
		if strings.TrimSpace(f.value) == "" {
			return invalid(f.name, "required", "a transition names its actor, source and reason (SR-1.4)")
		}
		if err := checkText(f.name, f.value, MaxField); err != nil {
			return err
		}
	}
	if t.Reject && (t.Authority != AuthorityUser || t.To != AxisValue(TruthContradicted)) {
		return invalid("reject", "conflict", "only a user's contradiction rejects a claim")
	}
	if len(t.Evidence) > MaxItems {
		return invalid("evidence", "too_many", "%d, at most %d", len(t.Evidence), MaxItems)
	}
	for i := range t.Evidence {
		if err := t.Evidence[i].check(); err != nil {
			return err
		}
	}
	return nil
}

type move struct {
	axis     Axis
	from, to uint8
}

type authorities uint16

func by(list ...Authority) (set authorities) {
	for _, a := range list {
		set |= 1 << a
	}
	return set
}

func (s authorities) has(a Authority) bool { return a != 0 && s&(1<<a) != 0 }

// legalMoves is the table of LS-8 (UP-L1..L5 minus UD-15..18). A pair that is
// not in it is no move. Nobody moves to where a row already is. No move on the
// security axis reaches the children of a row: whoever shows a row or acts on it
// looks at its closure ([Head.Held]).
var legalMoves = buildMoves()

func buildMoves() map[move]authorities {
	t := map[move]authorities{}
	add := func(from, to AxisValue, who authorities) {
		t[move{from.axis(), from.code(), to.code()}] = who
	}
	any4 := []Retrieval{RetrievalHidden, RetrievalRestricted, RetrievalNormal, RetrievalPrivilegedOnly}

	up := by(AuthorityUser, AuthorityProbe, AuthorityAutoObservation)
	down := by(AuthorityUser, AuthorityProbe, AuthoritySentinel)
	add(TruthUnverified, TruthSupported, up)
	add(TruthContradicted, TruthSupported, by(AuthorityUser, AuthorityProbe))
	add(TruthUnverified, TruthContradicted, down)
	add(TruthSupported, TruthContradicted, down)
	add(TruthSupported, TruthUnverified, by(AuthorityUser, AuthorityProbe, AuthorityPolicy, AuthoritySystem))
	add(TruthContradicted, TruthUnverified, by(AuthorityUser, AuthorityProbe))
	for _, from := range []Truth{TruthUnverified, TruthSupported, TruthContradicted} {
		add(from, TruthSuperseded, by(AuthorityUser, AuthorityReflection))
	}
	// Of a row that is outdated only; one that was retracted stays so.
	add(TruthSuperseded, TruthSupported, by(AuthorityUser, AuthorityProbe))
	add(TruthSuperseded, TruthContradicted, by(AuthorityUser))

	add(RetrievalHidden, RetrievalRestricted, by(AuthorityUser, AuthorityReflection))
	add(RetrievalRestricted, RetrievalNormal, by(AuthorityUser, AuthorityProbe))
	add(RetrievalNormal, RetrievalPrivilegedOnly, by(AuthorityUser, AuthorityPolicy))
	lower := by(AuthorityUser, AuthorityPolicy, AuthoritySentinel)
	add(RetrievalNormal, RetrievalRestricted, lower)
	add(RetrievalNormal, RetrievalHidden, lower)
	add(RetrievalRestricted, RetrievalHidden, lower)
	add(RetrievalPrivilegedOnly, RetrievalRestricted, by(AuthorityUser, AuthorityPolicy))
	for _, from := range any4 {
		add(from, RetrievalBlocked, lower)
	}
	add(RetrievalBlocked, RetrievalHidden, by(AuthorityUser))

	detect := by(AuthoritySentinel, AuthorityProbe, AuthorityUser)
	add(SecurityClean, SecuritySuspicious, detect)
	add(SecuritySuspicious, SecurityQuarantined, detect)
	add(SecurityClean, SecurityQuarantined, detect)
	add(SecurityQuarantined, SecurityMalicious, by(AuthoritySentinel, AuthorityUser))
	add(SecurityMalicious, SecurityQuarantined, by(AuthorityUser)) // and no further: another look lets it go
	add(SecuritySuspicious, SecurityClean, by(AuthorityUser))
	add(SecurityQuarantined, SecurityClean, by(AuthorityUser))

	add(FreshnessFresh, FreshnessStale, by(AuthoritySystem))
	add(FreshnessStale, FreshnessExpired, by(AuthoritySystem))
	add(FreshnessStale, FreshnessFresh, up)
	add(FreshnessExpired, FreshnessFresh, up)

	add(OutageRecorded, OutageResolved, by(AuthorityUser, AuthorityProbe))
	return t
}

// Legal reports whether an authority may move an axis from one value to another.
// Both values must be of the same axis.
func Legal(from, to AxisValue, who Authority) bool {
	if from == nil || to == nil || from.axis() != to.axis() {
		return false
	}
	return legalMoves[move{from.axis(), from.code(), to.code()}].has(who)
}

// axisOf returns the current value of an axis of a head.
func (h *Head) axisOf(a Axis) AxisValue {
	switch a {
	case AxisTruth:
		return h.Truth
	case AxisRetrieval:
		return h.Retrieval
	case AxisSecurity:
		return h.Security
	case AxisFreshness:
		return h.Freshness
	default:
		return h.Outage
	}
}

// Default freshness of a row (LS-19, D-28): stale 30 days after it was last
// verified, expired after 90.
const (
	DefaultCheckEvery = 30 * 24 * time.Hour
	expiryFactor      = 3
)

// set moves one axis and what hangs on it in the same head, and nothing else:
// the axes are independent (LS-5).
func (h *Head) set(to AxisValue, now time.Time) {
	switch v := to.(type) {
	case Truth:
		h.Truth = v
		h.Flags &^= FlagOutdated
		if v == TruthSupported {
			h.VerifiedAt = now
			h.renew(now)
		} else {
			h.Rank, h.Speaker = 0, Token{}
			h.Flags &^= FlagOwnWord | FlagOwnDispute
		}
	case Retrieval:
		h.Retrieval = v
		h.Flags &^= FlagImported
	case Security:
		h.Security = v
		switch v {
		case SecurityQuarantined, SecurityMalicious:
			h.Flags |= FlagTainted
		case SecurityClean:
			h.Flags &^= FlagTainted // only a user moves to clean: that is the review
		}
	case Freshness:
		h.Freshness = v
		if v == FreshnessFresh { // else the clock would call it stale at once
			h.renew(now)
		}
	case Outage:
		h.Outage = v
	}
}

// wasStale adds to a reason that the clock had made a row stale, and the move that the
// reason is of makes it fresh.
func (h *Head) wasStale(next *Head, now time.Time, reason string) string {
	if was := h.FreshnessAt(now); was != FreshnessFresh && h.Freshness == FreshnessFresh && next.FreshnessAt(now) == FreshnessFresh {
		return clip(reason+"; it was "+was.String()+" by the clock, and is fresh again", MaxField)
	}
	return reason
}

// renew starts the freshness window anew.
func (h *Head) renew(now time.Time) {
	window := h.window()
	h.StaleAt, h.ExpiresAt = now.Add(window), now.Add(window*expiryFactor)
}
