package memory

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Anchor pins what a piece of evidence rests on.
type Anchor struct {
	URI     string `json:"uri,omitempty"`
	Version string `json:"version,omitempty"`
	Hash    string `json:"hash,omitempty"` // SHA-256 of the excerpt, hexadecimal
}

// Evidence supports or contradicts a row. It is append-only; the same
// (verifier, anchor, relation) counts once (KN-7, UD-11).
type Evidence struct {
	Relation Relation `json:"relation"`
	Rank     Rank     `json:"rank"`
	// Kind says what sort of source spoke.
	Kind     SourceKind `json:"kind,omitzero"`
	Source   string     `json:"source"`   // what was asked: "crm", "user:ana"
	Verifier string     `json:"verifier"` // who asked it
	Group    string     `json:"group"`    // independence group (D-22)
	Anchor   Anchor     `json:"anchor,omitzero"`
	// DerivedFrom are rows that this evidence itself rests on. If the claim, or
	// another row of its identity, is among them or their ancestors, the evidence
	// is the claim coming back and does not count (C12-11.4, X-32).
	DerivedFrom []ID      `json:"derived_from,omitempty"`
	Authority   string    `json:"authority,omitempty"` // of a user: the scope that gave it
	At          time.Time `json:"at"`
	// Quorum is how many independence groups must say the same, this one among them,
	// for the evidence to count at all; 0 and 1 = it counts alone. Members of a quorum
	// are of rank tool or primary source. At most [MaxQuorum].
	Quorum int `json:"quorum,omitempty"`
	// Void is set when a user's contradiction ended what this evidence said.
	Void bool `json:"void,omitempty"`
}

// MaxQuorum is the most groups that a piece of evidence may ask for.
const MaxQuorum = 64

// ID names the evidence by what it rests on: repeating it gives the same id.
func (e *Evidence) ID() string {
	if e.Quorum > 1 {
		k := digest("evidence/1", e.Relation.String(), e.Rank.String(), e.Verifier, e.Group, e.Anchor.URI, e.Anchor.Version, e.Anchor.Hash, strconv.Itoa(e.Quorum))
		return "evi_" + hex.EncodeToString(k[:10])
	}
	k := digest("evidence/1", e.Relation.String(), e.Rank.String(), e.Verifier, e.Group, e.Anchor.URI, e.Anchor.Version, e.Anchor.Hash)
	return "evi_" + hex.EncodeToString(k[:10])
}

func (e *Evidence) check() error {
	if err := relationEnum.check(e.Relation); err != nil {
		return err
	}
	if err := rankEnum.check(e.Rank); err != nil {
		return err
	}
	if err := optional(sourceKindEnum, e.Kind); err != nil {
		return err
	}
	for _, f := range [...]struct{ name, value string }{
		{"evidence.source", e.Source}, {"evidence.verifier", e.Verifier}, {"evidence.group", e.Group},
	} {
		if strings.TrimSpace(f.value) == "" {
			return invalid(f.name, "required", "evidence names its source, verifier and independence group")
		}
	}
	for _, f := range [...]struct{ name, value string }{
		{"evidence.source", e.Source}, {"evidence.verifier", e.Verifier}, {"evidence.group", e.Group}, {"evidence.authority", e.Authority},
		{"evidence.anchor.uri", e.Anchor.URI}, {"evidence.anchor.version", e.Anchor.Version}, {"evidence.anchor.hash", e.Anchor.Hash},
	} {
		if err := checkText(f.name, f.value, MaxField); err != nil {
			return err
		}
	}
	if e.Quorum < 0 || e.Quorum > MaxQuorum {
		return invalid("evidence.quorum", "out_of_range", "%d, want 0 to %d", e.Quorum, MaxQuorum)
	}
	if e.Quorum > 1 && e.Rank != RankTool && e.Rank != RankPrimarySource {
		return invalid("evidence.quorum", "conflict", "evidence of rank %s is no member of a quorum", e.Rank)
	}
	if e.At.IsZero() {
		return invalid("evidence.at", "required", "when it was seen")
	}
	if err := checkTime("evidence.at", e.At); err != nil {
		return err
	}
	return checkIDs("evidence.derived_from", e.DerivedFrom)
}

// Kin is what independence is judged against: the claim, its ancestors, and for
// each piece of evidence the rows that it rests on.
type Kin struct {
	Claim     Head
	Ancestors []Head
	// EvidenceLineage has, per evidence ID, the heads of the rows it rests on and
	// of all their ancestors.
	EvidenceLineage map[string][]Head
	// Group says which token the heads have for an independence group, with case and
	// kind folded. Without it every piece of evidence depends on the claim.
	Group func(folded string) Token
}

// fold compares independence groups. Here, to take two for one is the safe
// error: neither case nor a missing "family:" makes a group independent.
func fold(group string) string {
	group = strings.ToLower(Canonical(group))
	for _, kind := range [...]string{"family:", "tool:", "user:"} {
		if bare, ok := strings.CutPrefix(group, kind); ok {
			return bare
		}
	}
	return group
}

// Sufficient applies I-4. It returns the rank the evidence earns, or an error
// that wraps [ErrInsufficient] and says what is missing. Sufficient is: one user
// with authority, or one primary source, or one tool of another group, or, only
// for rows of low criticality, two other model families that were asked. Evidence that asks for a
// quorum counts when so many groups are there ([Evidence.Quorum]). Voided and repeated
// evidence, evidence of the claim's own group or of an ancestor's, and evidence
// that rests on the claim itself or on another row of its identity, count
// nothing; nor does any of it suffice against a standing contradiction of a higher
// rank. Confidence is not an argument (SR-4.1).
func Sufficient(kin Kin, evidence []Evidence) (Rank, error) {
	var best Rank
	families, strong := map[string]bool{}, map[string]bool{}
	var members []*Evidence // of a quorum, or alone
	reason := "no evidence"
	for i := range evidence {
		e := &evidence[i]
		if e.Relation != RelationSupports || e.Void {
			continue
		}
		if why := dependent(kin, e); why != "" {
			reason = why
			continue
		}
		switch e.Rank {
		case RankUser:
			best = RankUser
		case RankPrimarySource, RankTool:
			strong[fold(e.Group)] = true
			members = append(members, e)
		case RankModel: // what it says unasked, whoever else says it
			reason = "what a model said of its own verifies nothing"
		case RankSecondModel:
			families[fold(e.Group)] = true
		default:
			reason = "a recall supports nothing"
		}
	}
	for _, e := range members {
		if e.Quorum <= len(strong) {
			best = max(best, e.Rank)
		} else {
			reason = fmt.Sprintf("%d independent groups of %d say so", len(strong), e.Quorum)
		}
	}
	if best == 0 && len(families) >= 2 && kin.Claim.Criticality == CriticalityLow {
		best = RankSecondModel
	}
	if open := openContradiction(evidence); best != 0 && open > best {
		return 0, fmt.Errorf("%w: it is contradicted at rank %s", ErrInsufficient, open)
	}
	if best != 0 {
		return best, nil
	}
	switch {
	case len(families) >= 2:
		reason = "two models suffice for rows of low criticality only"
	case len(families) == 1:
		reason = "one model of another family does not suffice"
	}
	return 0, fmt.Errorf("%w: %s", ErrInsufficient, reason)
}

// dependent says why a piece of evidence is not independent of the claim, or "".
func dependent(kin Kin, e *Evidence) string {
	for _, h := range kin.EvidenceLineage[e.ID()] {
		if h.Revision == 0 || h.Has(FlagErased) || h.Has(FlagLineageUnknown) {
			return "what the evidence rests on is not known"
		}
		if h.ID == kin.Claim.ID || h.Claim == kin.Claim.Claim {
			return "the evidence rests on the claim itself"
		}
	}
	// A user who looked at the claim and signed for it is asked, not echoed.
	if e.Rank == RankUser {
		return ""
	}
	if kin.Group == nil {
		return "the groups cannot be compared"
	}
	group := kin.Group(fold(e.Group))
	if group == kin.Claim.Group {
		return "the evidence is of the claim's own independence group"
	}
	for _, a := range kin.Ancestors {
		if group == a.Group {
			return "the evidence is of the independence group of an ancestor"
		}
	}
	return ""
}

func encodeEvidence(list []Evidence) []byte {
	e := encoder{}
	e.evidence(list)
	return e.b
}

func (e *encoder) evidence(list []Evidence) {
	e.num(uint64(len(list)))
	for i := range list {
		v := &list[i]
		void := byte(v.Quorum) << 1 // the lowest bit says void
		if v.Void {
			void |= 1
		}
		e.byte(byte(v.Relation))
		e.byte(byte(v.Rank))
		e.byte(void)
		e.byte(byte(v.Kind))
		e.time(v.At)
		for _, s := range [...]string{v.Source, v.Verifier, v.Group} {
			e.str(s)
		}
		e.members(v.members)
	}
}

func (d *decoder) evidence() []Evidence {
	n := d.num()
	if n > uint64(len(d.b)) { // each takes more than a byte
		d.bad = true
	}
	if d.bad || n == 0 {
		return nil
	}
	list := make([]Evidence, n)
	for i := range list {
		v := &list[i]
		v.Relation, v.Rank = Relation(d.byte()), Rank(d.byte())
		void := d.byte()
		v.Void, v.Quorum = void&1 == 1, int(void>>1)
		v.Kind = SourceKind(d.byte())
		v.At = d.time()
		for _, s := range [...]*string{&v.Source, &v.Verifier, &v.Group} {
			*s = d.str()
		}
		d.members(v.members)
	}
	return list
}

// members lists the optional members.
func (v *Evidence) members(m *members) {
	m.str(1, &v.Anchor.URI)
	m.str(2, &v.Anchor.Version)
	m.str(3, &v.Anchor.Hash)
	m.str(4, &v.Authority)
	m.ids(5, &v.DerivedFrom)
}
