package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Many systems take "ACME" and "acme." for "acme". So a source that was asked about another
// spelling adds no second source, and a value that a person rejected under one name comes back
// under another. Two kinds of objects say what was said before: which names of a predicate are
// spelled alike, and which sources gave a value that was rejected. They hold tokens alone.

// ErrRespelt: the source says the same of a name that is only spelled otherwise, and that was
// verified first. It is an [ErrInsufficient]. A predicate is registered with
// [Predicate.ExactSubjects] if each spelling is a name of its own.
var ErrRespelt = fmt.Errorf("%w: %s", ErrInsufficient, respeltReason)

// ErrRejectedElsewhere: a person rejected the value where the source gave it before, and the
// predicate is registered as [Predicate.Identifier]. It is an [ErrInsufficient]. It ends when a
// person takes the rejection back, or confirms the value of this subject.
var ErrRejectedElsewhere = fmt.Errorf("%w: %s", ErrInsufficient, elsewhereReason)

const (
	respeltReason   = "the source says the same of a name that is only spelled otherwise"
	elsewhereReason = "a person rejected the value where the source gave it before"
)

// loose is what is compared of texts that a system may take for the same: without letter case,
// blanks, what nobody sees, and the punctuation around it.
func loose(s string) string {
	fold := cases.Fold() // it has a state
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || slices.Contains(inkless, r) {
			return -1
		}
		return visible(r)
	}, fold.String(norm.NFKC.String(s)))
	around := func(r rune) bool { return unicode.IsPunct(r) || r == '<' || r == '>' }
	return norm.NFKC.String(firstNonEmpty(strings.TrimFunc(s, around), s))
}

// looseName is loose of a subject: of one that is a list of names, of each of them.
func looseName(subject string) string {
	var parts []string
	if !strings.HasPrefix(subject, "[") || json.Unmarshal([]byte(subject), &parts) != nil {
		return loose(subject)
	}
	for i := range parts {
		parts[i] = loose(parts[i])
	}
	if len(parts) == 1 {
		return parts[0]
	}
	key := digest("subjects", parts...)
	return string(key[:])
}

// namesOf is the key of the lines of a predicate whose subjects are spelled alike.
func (s *scope) namesOf(c *Content) string {
	k := digest("names/1", ExactName(c.Predicate), looseName(c.Subject))
	return alikeKey.at(s.blind("names", string(k[:])))
}

// rejectedAs is the key of the claims of a predicate with one object that were rejected, or "" if
// the object is a record: which value of it is wrong, a rejection does not say. It is one key for all
// rows of a claim.
func (s *scope) rejectedAs(c *Content) string {
	if !c.Typed() || structured(Canonical(c.Object)) {
		return ""
	}
	k := digest("rejected/1", Canonical(c.Predicate), loose(c.Object))
	return alikeKey.at(s.blind("rejected", string(k[:])))
}

// alikeRecord is what such an object holds, in the order in which it came. More than it has room
// for is not known.
type alikeRecord struct {
	list []alikeEntry
	more bool
}

// alikeEntry is a line; or a claim whose rejection stands, and one of these: the claim again; the group of
// a source that gave it; zero for any source; or forOneself, if it is rejected for the name of its
// rejecter only.
type alikeEntry struct{ of, by Token }

// forOneself stands in the place of the sources of a rejection by a principal's own word about itself. It
// withholds nothing from others (I-13).
var forOneself = Token{15: 1}

// alikeMore is the first byte of the object if more is true, else 0.
const alikeMore byte = 1

func alikeOf(o Object) (r alikeRecord, err error) {
	if o.Data == nil {
		return r, nil
	}
	d := decoder{b: o.Data}
	flags := d.byte()
	n := d.num()
	for i := uint64(0); i < n && i < maxListed; i++ {
		r.list = append(r.list, alikeEntry{d.token(), d.token()})
	}
	r.more = flags == alikeMore
	if d.end() != nil || n > maxListed || flags > alikeMore {
		return alikeRecord{}, faulty(errWire, "what is spelled alike")
	}
	return r, nil
}

func (r *alikeRecord) encode() []byte {
	e := encoder{}
	if r.more {
		e.byte(alikeMore)
	} else {
		e.byte(0)
	}
	e.num(uint64(len(r.list)))
	for _, of := range r.list {
		e.token(of.of)
		e.token(of.by)
	}
	return e.b
}

// at is the place of a line, or -1.
func (r *alikeRecord) at(line Token) int {
	return slices.IndexFunc(r.list, func(e alikeEntry) bool { return e.of == line })
}

// add adds an entry if there is room, and reports whether that changed anything.
func (r *alikeRecord) add(e alikeEntry) bool {
	switch {
	case slices.Contains(r.list, e):
		return false
	case len(r.list) < maxListed:
		r.list = append(r.list, e)
	case r.more:
		return false
	default:
		r.more = true
	}
	return true
}

// without leaves the entries that are not of a claim; if own, only that of a principal's own word goes.
func (r *alikeRecord) without(claim Token, own bool) (out alikeRecord, any bool) {
	out = alikeRecord{more: r.more}
	for _, e := range r.list {
		if e.of != claim || own && e.by != forOneself {
			out.list = append(out.list, e)
		}
	}
	return out, len(out.list) < len(r.list)
}

func lineToken(key string) (t Token) {
	copy(t[:], key[len(lineKey):])
	return t
}

// alike is what is known of the names that are spelled like the subject of a content, and of what
// was rejected that has its object.
type alike struct {
	names, rejected Object      // rejected has no key if it does not matter, or cannot be read
	list            alikeRecord // of names
	lost            bool        // it cannot be read
	elsewhere       []string    // groups whose word does not count: ErrRejectedElsewhere
	respelt         []string    // ErrRespelt
}

// alikeKeys are the objects to read before a content is verified.
func (s *Store) alikeKeys(c *Content) []string {
	if !c.Typed() {
		return nil
	}
	keys := []string{s.namesOf(c)}
	if s.registry.identifies(c.Predicate) {
		if key := s.rejectedAs(c); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// nearby are the objects of alikeKeys, and which of them cannot be read.
type nearby struct {
	objs    []Object
	damaged []int
}

// nearbyIn are those that were read behind others.
func nearbyIn(objs []Object, damaged []int, others int) (n nearby) {
	if n.objs = objs[min(others, len(objs)):]; len(n.objs) > 0 {
		for _, i := range damaged {
			n.damaged = append(n.damaged, i-others)
		}
	}
	return n
}

// alikeIn looks which of some groups do not count for a content. What cannot be read counts against
// them. exact says that no caller chose the spelling.
func (s *Store) alikeIn(ctx context.Context, c *Content, known *claimRecord, near nearby, exact bool, groups []string) (a *alike, err error) {
	if len(near.objs) == 0 {
		return nil, nil
	}
	a = &alike{names: near.objs[0]}
	a.list, err = alikeOf(a.names)
	a.lost = slices.Contains(near.damaged, 0) || err != nil
	if len(near.objs) > 1 {
		list, err := alikeOf(near.objs[1])
		lost := slices.Contains(near.damaged, 1) || err != nil
		if !lost {
			a.rejected = near.objs[1]
		}
		if a.elsewhere, err = s.elsewhere(ctx, known, c, &list, lost, groups); err != nil {
			return nil, err
		}
	}
	if !exact && !s.registry.exact(c.Predicate) {
		a.respelt, err = s.respelt(ctx, a, c, groups)
	}
	return a, err
}

// elsewhere are those groups that gave the object in a claim whose rejection stands, unless the subject
// has, or had, a verified row with it.
func (s *Store) elsewhere(ctx context.Context, known *claimRecord, c *Content, list *alikeRecord, lost bool, groups []string) (gave []string, err error) {
	if len(groups) == 0 || !lost && len(list.list) == 0 {
		return nil, nil
	}
	givers := map[Token]bool{{}: lost || list.more} // zero = any
	for _, e := range list.list {
		if givers[e.by] = true; e.of != e.by {
			continue
		}
		later, err := s.giversOf(ctx, e.of) // who said it since it was rejected
		if err != nil {
			return nil, err
		}
		for _, g := range later {
			givers[g] = true
		}
	}
	for _, g := range groups {
		if givers[Token{}] || givers[s.scope.group(g)] {
			gave = append(gave, g)
		}
	}
	if len(gave) == 0 {
		return nil, nil
	}
	if had, err := s.had(ctx, known, c); had || err != nil {
		return nil, err
	}
	return gave, nil
}

// giversOf are the givers of a claim, as far as its rows are there.
func (s *Store) giversOf(ctx context.Context, claim Token) ([]Token, error) {
	objs, damaged, err := s.each(ctx, []string{claimKey.at(claim)})
	if err != nil || len(damaged) > 0 {
		return []Token{{}}, err
	}
	known, err := s.claimOf(ctx, objs[0])
	if err != nil {
		return []Token{{}}, unlessUnknown(err)
	}
	return s.givers(ctx, &known)
}

// respelt are those groups that said the same of a name that is spelled alike and was verified before
// this one. If a source has a record of it, any other record is the same: it may have a time in it.
func (s *Store) respelt(ctx context.Context, a *alike, c *Content, groups []string) (same []string, err error) {
	at := a.list.at(lineToken(s.line(*c)))
	switch {
	case len(groups) == 0 || at == 0:
		return nil, nil
	case a.lost, at < 0 && a.list.more:
		return groups, nil
	case at < 0:
		at = len(a.list.list)
	}
	var keys []string
	for _, e := range a.list.list[:at] {
		keys = append(keys, lineKey.at(e.of))
	}
	if len(keys) == 0 {
		return nil, nil
	}
	objs, damaged, err := s.each(ctx, keys)
	if err != nil {
		return nil, err
	}
	var ids []ID
	for i, o := range objs {
		l, err := lineOf(o)
		listed, whole := l.rivals(true)
		if err != nil || slices.Contains(damaged, i) || !whole {
			return groups, nil
		}
		ids = append(ids, listed...)
	}
	rows, err := s.fitOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if slices.ContainsFunc(rows, func(r bystander) bool { return r.unread || r.says(c) && r.stands(g) }) {
			same = append(same, g)
		}
	}
	return same, nil
}

// says reports whether a row has the object of a content.
func (r *bystander) says(c *Content) bool {
	is := r.body.Content.Object
	return structured(is) && structured(c.Object) || Canonical(is) == Canonical(c.Object)
}

// stands reports whether a row stands on the word of a group.
func (r *bystander) stands(group string) bool {
	return slices.ContainsFunc(r.evid.list, func(e Evidence) bool {
		return e.Relation == RelationSupports && !e.Void && fold(e.Group) == fold(group)
	})
}

// had reports whether a claim has a row of the very subject that a source or a person verified for
// everybody, or had one before a source said something else. What a person contradicted does not count.
func (s *Store) had(ctx context.Context, known *claimRecord, c *Content) (bool, error) {
	fit, err := s.fitOf(ctx, known.Rows)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(fit, func(r bystander) bool {
		return !r.unread && r.Rank >= RankTool && !r.Has(FlagOwnWord) && r.body.Content.beside(*c)
	}) {
		return true, nil
	}
	old, err := s.listed(ctx, known.Rows, TruthSuperseded, TruthContradicted)
	if err != nil {
		return false, err
	}
	for i := range old {
		r := &old[i]
		counted := slices.ContainsFunc(everybodys(r.evid.list), func(e Evidence) bool { return e.Relation == RelationSupports && e.Rank >= RankTool })
		taken := slices.ContainsFunc(r.evid.list, func(e Evidence) bool { return e.Relation == RelationContradicts && e.Rank == RankUser })
		if r.unread || r.Truth == TruthSuperseded && !r.Has(FlagOutdated) || !counted || taken || !r.body.Content.beside(*c) {
			continue
		}
		if was, err := s.everVerified(ctx, r.ID); was || err != nil { // and not overtaken when it was written
			return was, err
		}
	}
	return false, nil
}

// everVerified reports whether a row was verified at some time.
func (s *Store) everVerified(ctx context.Context, id ID) (bool, error) {
	for l, err := range s.entries(ctx, headKey.of(id), 0) {
		if err != nil {
			return false, err
		}
		var r record
		if _, err := r.decode(l.Data); err != nil {
			return false, fmt.Errorf("%w: entry %d of %s", ErrStore, l.Revision, KeyText(headKey.of(id)))
		}
		if to := r.entry(l.Revision).To; to == StateVerified.String() || to == TruthSupported.String() {
			return true, nil
		}
	}
	return false, nil
}

// spelled puts what is known of other spellings into the facts.
func (j *judging) spelled(a *alike) {
	if j.alike = a; a != nil {
		j.Elsewhere, j.Respelt = a.elsewhere, a.respelt
	}
}

// spelledStill looks whose word does not count, of a row that loses a support. It is not one that was there
// before. The source that it came from counts as it did.
func (j *judging) spelledStill(ctx context.Context) error {
	s := j.store
	objs, damaged, err := s.each(ctx, []string{bodyKey.of(j.row), claimKey.at(j.Row.Claim)})
	if err != nil || len(damaged) > 0 {
		return err
	}
	b, err := s.body(ctx, objs[0])
	if err != nil {
		return unlessUnknown(err)
	}
	known, err := s.claimOf(ctx, objs[1])
	if err != nil {
		return unlessUnknown(err)
	}
	known.Rows = without(known.Rows, j.row)
	keys := s.alikeKeys(&b.Content)
	if len(keys) == 0 {
		return nil
	}
	var near nearby
	if near.objs, near.damaged, err = s.each(ctx, keys); err != nil {
		return err
	}
	groups := slices.DeleteFunc(supporters(j.Standing), func(g string) bool { return b.Origin == OriginFirstHand && s.scope.group(g) == j.Row.Group })
	a, err := s.alikeIn(ctx, &b.Content, &known, near, b.Exact == 1, groups)
	if err == nil {
		j.spelled(a)
	}
	return err
}

// joinNames lists the line of a row that is verified among those that are spelled alike, and sees to it
// that its object was not rejected meanwhile. Of two names that are verified for the first time at
// once, one sees the other.
func (t *transaction) joinNames(j *judging) {
	a := j.alike
	if a == nil {
		return
	}
	if a.rejected.Key != "" && j.By != AuthorityUser {
		t.check(a.rejected.Key, a.rejected.Revision)
	}
	if !a.lost && a.list.add(alikeEntry{of: lineToken(j.line.Key)}) {
		t.put(Put{Key: a.names.Key, From: a.names.Revision, Data: a.list.encode()})
	}
}

// reject notes that a claim is rejected, and which sources gave its object. What cannot be read of such
// notes withholds the object from all.
func (t *transaction) reject(known *claimRecord, claim Token, c *Content, own bool) error {
	o, r, ok, err := t.rejectedIn(c)
	if errors.Is(err, ErrBehind) || !ok && err == nil { // a rejection takes effect all the same
		return nil
	}
	if err != nil {
		return err
	}
	groups := []Token{forOneself}
	if !own {
		if groups, err = t.store.givers(t.ctx, known); err != nil {
			return err
		}
		groups = append(groups, claim)
	}
	changed := false
	for _, g := range groups {
		changed = r.add(alikeEntry{claim, g}) || changed
	}
	if changed {
		t.put(Put{Key: o.Key, From: o.Revision, Data: r.encode()})
	}
	return nil
}

// rejectedIn reads the rejected claims with the object of a content. ok is false if there are none for it, or
// they cannot be read.
func (t *transaction) rejectedIn(c *Content) (o Object, r alikeRecord, ok bool, err error) {
	key := t.store.rejectedAs(c)
	if key == "" {
		return o, r, false, nil
	}
	objs, damaged, err := t.store.each(t.ctx, []string{key})
	if err != nil || len(damaged) > 0 {
		return o, r, false, err
	}
	r, err = alikeOf(objs[0])
	return objs[0], r, err == nil, nil
}

// lift takes a claim from those whose rejection stands: a person says again what was rejected. cleared
// says that she ends a rejection that is known; that of a claim which was erased is not.
func (t *transaction) lift(j *judging, claim Token, cleared bool) error {
	forgotten := j.known.Rejection == nil && j.By == AuthorityUser && !j.own() && j.alike != nil && j.alike.rejected.Key != ""
	if !cleared && !forgotten {
		return nil
	}
	o, r, ok, err := t.rejectedIn(&j.Content)
	if left, any := r.without(claim, j.own()); ok && any {
		t.put(Put{Key: o.Key, From: o.Revision, Data: left.encode()})
	}
	return err
}

// givers are the groups of the sources that gave what a claim says: who asserted a row of it at
// first hand, and who supported one, whatever became of that. The zero token is any: of what cannot
// be read it is not known.
func (s *Store) givers(ctx context.Context, known *claimRecord) (groups []Token, err error) {
	rows, err := s.listed(ctx, known.Rows, TruthUnverified, TruthSupported, TruthContradicted, TruthSuperseded)
	if err != nil {
		return nil, err
	}
	if known.more || known.beyond {
		groups = append(groups, Token{})
	}
	for i := range rows {
		r := &rows[i]
		if r.unread {
			groups = append(groups, Token{})
			continue
		}
		groups = append(groups, s.scope.gave(&r.Head, r.body.Origin, r.evid.list)...)
	}
	slices.SortFunc(groups, func(a, b Token) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(groups), nil
}

// gave are the groups that gave what a row says.
func (s *scope) gave(h *Head, origin Origin, evidence []Evidence) (groups []Token) {
	if origin == OriginFirstHand {
		groups = append(groups, h.Group)
	}
	for i := range evidence {
		if e := &evidence[i]; e.Relation == RelationSupports && e.Rank != RankUser {
			groups = append(groups, s.group(e.Group))
		}
	}
	return groups
}

// supporters are the groups, besides persons, whose word speaks for a row.
func supporters(lists ...[]Evidence) (groups []string) {
	for _, list := range lists {
		for i := range list {
			if e := &list[i]; e.Relation == RelationSupports && !e.Void && e.Rank != RankUser && !slices.Contains(groups, e.Group) {
				groups = append(groups, e.Group)
			}
		}
	}
	return groups
}

// onlyUnheard reports whether nothing else keeps a draft from being verified than that the word of its
// source does not count for its subject.
func (s *Store) onlyUnheard(ctx context.Context, d *Draft, known *claimRecord, revoked *revocations) (bool, error) {
	by := d.Asserter.Group()
	if d.alike == nil || !slices.Contains(d.alike.elsewhere, by) && !slices.Contains(d.alike.respelt, by) ||
		!s.registry.speaks(d.Content.Predicate, by) || s.SaysNothing(d.Content.Predicate, d.Content.Object) || revoked.refuse(d.Evidence) != nil {
		return false, nil
	}
	reach, err := s.reach(ctx, known, "", d.Content)
	return !reach.withholds(RankTool), err
}
