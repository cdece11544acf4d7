package memory

import (
	"context"
	"encoding/json"
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
	key := digest("subjects", parts...)
	return string(key[:])
}

// namesOf is the key of the lines of a predicate whose subjects are spelled alike.
func (s *scope) namesOf(c *Content) string {
	k := digest("names/1", ExactName(c.Predicate), looseName(c.Subject))
	return alikeKey.at(s.blind("names", string(k[:])))
}

// rejectedAs is the key of the claims of a predicate with one object that were rejected, or "" if
// the object is a record: which value of it is wrong, a rejection does not say.
func (s *scope) rejectedAs(c *Content) string {
	if !c.Typed() || structured(c.Object) {
		return ""
	}
	k := digest("rejected/1", ExactName(c.Predicate), loose(c.Object))
	return alikeKey.at(s.blind("rejected", string(k[:])))
}

// alikeRecord is what such an object holds, in the order in which it came. More than it has room
// for is not known.
type alikeRecord struct {
	list []alikeEntry
	more bool
}

// alikeEntry is a line; or a claim that was rejected, and the group of a source that gave it, which
// is zero for any.
type alikeEntry struct{ of, by Token }

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

func lineToken(key string) (t Token) {
	copy(t[:], key[len(lineKey):])
	return t
}

// alike is what is known of the names that are spelled like the subject of a content, and of what
// was rejected that has its object.
type alike struct {
	names, rejected Object
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
func (s *Store) alikeIn(ctx context.Context, c *Content, known *claimRecord, claim Token, near nearby, exact bool, groups []string) (*alike, error) {
	if len(near.objs) == 0 {
		return nil, nil
	}
	a := &alike{names: near.objs[0]}
	var err error
	a.list, err = alikeOf(a.names)
	a.lost = slices.Contains(near.damaged, 0) || err != nil
	if len(groups) == 0 {
		return a, nil
	}
	if len(near.objs) > 1 {
		if a.rejected = near.objs[1]; slices.Contains(near.damaged, 1) {
			a.elsewhere = groups
		} else if err := s.elsewhere(ctx, a, claim, groups); err != nil {
			return nil, err
		}
	}
	if !exact && !s.registry.exact(c.Predicate) {
		if err := s.respelt(ctx, a, c, groups); err != nil {
			return nil, err
		}
	}
	if len(a.elsewhere)+len(a.respelt) == 0 {
		return a, nil
	}
	is, was, err := s.had(ctx, known, c)
	if is {
		a.respelt = nil
	}
	if is || was {
		a.elsewhere = nil
	}
	return a, err
}

// elsewhere looks for sources that gave the object in a claim whose rejection stands.
func (s *Store) elsewhere(ctx context.Context, a *alike, claim Token, groups []string) error {
	list, err := alikeOf(a.rejected)
	if err != nil || list.more {
		a.elsewhere = groups
		return nil
	}
	for _, g := range groups {
		token := s.scope.group(g)
		var claims []Token
		for _, e := range list.list {
			if e.of != claim && (e.by == token || e.by == Token{}) {
				claims = append(claims, e.of)
			}
		}
		stand, err := s.rejections(ctx, claims)
		if err != nil {
			return err
		}
		if slices.Contains(stand, true) {
			a.elsewhere = append(a.elsewhere, g)
		}
	}
	return nil
}

// rejections reports of each claim whether its rejection stands. What cannot be read stands.
func (s *Store) rejections(ctx context.Context, claims []Token) ([]bool, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	keys := make([]string, len(claims))
	for i, c := range claims {
		keys[i] = claimKey.at(c)
	}
	objs, damaged, err := s.each(ctx, keys)
	if err != nil {
		return nil, err
	}
	stand := make([]bool, len(claims))
	for i, o := range objs {
		if slices.Contains(damaged, i) || o.Data == nil {
			stand[i] = true
			continue
		}
		known, err := s.claimOf(ctx, o)
		if err != nil && !unreadable(err) {
			return nil, err
		}
		stand[i] = err != nil || known.Rejection != nil
	}
	return stand, nil
}

// respelt looks for sources that said the same of a name that is spelled alike and came first.
func (s *Store) respelt(ctx context.Context, a *alike, c *Content, groups []string) error {
	at := a.list.at(lineToken(s.line(*c)))
	switch {
	case a.lost, at < 0 && a.list.more:
		a.respelt = groups
		return nil
	case at < 0:
		at = len(a.list.list)
	}
	if at == 0 {
		return nil
	}
	var keys []string
	for _, e := range a.list.list[:at] {
		keys = append(keys, lineKey.at(e.of))
	}
	objs, damaged, err := s.each(ctx, keys)
	if err != nil {
		return err
	}
	var ids []ID
	for i, o := range objs {
		l, err := lineOf(o)
		if err != nil || slices.Contains(damaged, i) {
			a.respelt = groups
			return nil
		}
		listed, _ := l.rivals(true)
		ids = append(ids, listed...)
	}
	rows, err := s.fitOf(ctx, ids)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if slices.ContainsFunc(rows, func(r bystander) bool { return r.unread || r.says(c) && r.stands(g) }) {
			a.respelt = append(a.respelt, g)
		}
	}
	return nil
}

// says reports whether a row has the object of a content.
func (r *bystander) says(c *Content) bool {
	return Canonical(r.body.Content.Object) == Canonical(c.Object)
}

// stands reports whether a row stands on the word of a group.
func (r *bystander) stands(group string) bool {
	return slices.ContainsFunc(r.evid.list, func(e Evidence) bool {
		return e.Relation == RelationSupports && !e.Void && fold(e.Group) == fold(group)
	})
}

// had reports whether a claim has a row of the very subject that a source or a person verified for
// everybody, and whether it had one before its source said something else.
func (s *Store) had(ctx context.Context, known *claimRecord, c *Content) (is, was bool, err error) {
	fit, err := s.fitOf(ctx, known.Rows)
	if err != nil {
		return false, false, err
	}
	is = slices.ContainsFunc(fit, func(r bystander) bool {
		return !r.unread && r.Rank >= RankTool && !r.Has(FlagOwnWord) && r.body.Content.beside(*c)
	})
	old, err := s.listed(ctx, known.Rows, TruthSuperseded)
	if err != nil {
		return false, false, err
	}
	was = slices.ContainsFunc(old, func(r bystander) bool {
		return !r.unread && r.Has(FlagOutdated) && r.body.Content.beside(*c)
	})
	return is, was, nil
}

// spelled puts what is known of other spellings into the facts.
func (j *judging) spelled(a *alike) {
	if j.alike = a; a != nil {
		j.Elsewhere, j.Respelt = a.elsewhere, a.respelt
	}
}

// joinNames lists the line of a row that is verified among those that are spelled alike. Of two names that
// are verified for the first time at once, one sees the other. What is rejected or verified meanwhile of
// a name that is listed comes after this row.
func (t *transaction) joinNames(j *judging) {
	a := j.alike
	if a == nil {
		return
	}
	if !a.lost && a.list.add(alikeEntry{of: lineToken(j.line.Key)}) {
		t.put(Put{Key: a.names.Key, From: a.names.Revision, Data: a.list.encode()})
	}
}

// reject notes which sources gave the object of a claim that is rejected.
func (t *transaction) reject(known *claimRecord, claim Token, c *Content) error {
	s, key := t.store, t.store.rejectedAs(c)
	if key == "" {
		return nil
	}
	objs, damaged, err := s.each(t.ctx, []string{key})
	if err != nil || len(damaged) > 0 { // what cannot be read withholds the object from all
		return err
	}
	r, err := alikeOf(objs[0])
	if err != nil {
		return nil
	}
	groups, err := s.givers(t.ctx, known)
	if err != nil {
		return err
	}
	if len(r.list)+len(groups) > maxListed { // rejections that were taken back make room
		var claims []Token
		for _, e := range r.list {
			claims = append(claims, e.of)
		}
		stand, err := s.rejections(t.ctx, claims)
		if err != nil {
			return err
		}
		var list []alikeEntry
		for i, e := range r.list {
			if stand[i] && e.of != claim {
				list = append(list, e)
			}
		}
		r.list = list
	}
	changed := false
	for _, g := range groups {
		changed = r.add(alikeEntry{claim, g}) || changed
	}
	if changed {
		t.put(Put{Key: key, From: objs[0].Revision, Data: r.encode()})
	}
	return nil
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
	if origin == OriginFirstHand && !h.Has(FlagImported) {
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
