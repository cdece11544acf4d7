package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// OwnWrite is a value that a call sets in a system of record. Where the call rests on what
// is not fit, what the system says afterwards of that value is no word of its own: it
// repeats ours (I-4). [DecisionRecord.Writes] notes it.
type OwnWrite struct {
	Subject   string
	Predicate string // or a place in a record, as "order/status", in which a number is any; "" = any
	Value     string
	Any       bool // it may be any value
	// Picked says that the value names an object that was there before. It is then no value of
	// ours where an object of the principal's own is looked up by its identifier.
	Picked bool
}

// What is noted of own writes. Beyond it less is told apart, and more is taken for ours.
const (
	maxOwnWrites   = 512  // spellings of values, about one subject
	maxOwnRows     = 16   // that one of them rested on
	maxOwnSubjects = 1000 // of one call
	maxOwnParts    = 16   // of a subject that is a list
)

// ErrOwnWrite: a source supports what a call set that rested on what was not fit. It
// repeats it, and vouches for nothing (I-4). It wraps [ErrInsufficient].
var ErrOwnWrite = fmt.Errorf("%w: %s", ErrInsufficient, ownWriteReason)

const ownWriteReason = "the source repeats what a call set that rested on what nobody verified"

// ownKeys are the keys of the objects that say what calls set about a subject. One that is
// a list of names is about each of them too.
func (s *scope) ownKeys(subject string) []string {
	names := []string{subject}
	var parts []string
	if json.Unmarshal([]byte(subject), &parts) == nil {
		names = append(names, parts[:min(len(parts), maxOwnParts)]...)
	}
	var keys []string
	for _, name := range names {
		if key := ownKey.at(s.blind("own write about", spelling(name))); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// spelling is what is compared of a text that a system may have written in its own way: its
// letters, folded, and its digits, without zeros before them if there is no letter. Of a text that
// has neither it is the signs.
func spelling(s string) string {
	fold := cases.Fold() // it has a state
	wide := norm.NFKC.String(s)
	plain := strings.Map(func(c rune) rune {
		switch {
		case unicode.IsDigit(c):
			return '0' + digitOf(c)
		case unicode.IsLetter(c):
			return c
		}
		return -1
	}, fold.String(wide)) // a folded İ has a mark
	switch {
	case plain == "":
		return strings.Map(func(c rune) rune {
			if unicode.IsSpace(c) || unicode.In(c, unicode.M, unicode.Cf) {
				return -1
			}
			return c
		}, wide)
	case strings.Trim(plain, "0123456789") == "":
		return firstNonEmpty(strings.TrimLeft(plain, "0"), "0")
	}
	return plain
}

// digitOf is what a decimal digit of any script is worth. Each script has its ten in a row.
func digitOf(c rune) rune {
	for _, r := range unicode.Nd.R16 {
		if rune(r.Lo) <= c && c <= rune(r.Hi) {
			return (c - rune(r.Lo)) % 10
		}
	}
	for _, r := range unicode.Nd.R32 {
		if rune(r.Lo) <= c && c <= rune(r.Hi) {
			return (c - rune(r.Lo)) % 10
		}
	}
	return 0
}

// spellings are what is compared of a value: its spelling and, of a number, what it may be worth.
func spellings(value string) []string {
	out := []string{spelling(value)}
	for _, n := range worth(value) {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// maxNumeral is the length, in bytes, up to which a text without its signs and outer zeros is
// compared as a number.
const maxNumeral = 60

var (
	// figures are a number with what groups its digits, and letters of a currency or a unit.
	figures = regexp.MustCompile(`^(\pL{0,4}?)([0-9.,]*[0-9][0-9.,]*)(?:e([+-]?)0*([0-9]{1,3}))?(\pL*)$`)
	// grouped is a number of whose digits two or three stand together behind each mark.
	grouped = regexp.MustCompile(`^[0-9]{1,3}([.,][0-9]{2,3})*[.,][0-9]{3}$`)
)

// worth is what a text is worth as a number, without its sign: "1,500.50", "$1500.5" and
// "EUR 1.500,50" are worth the same. It is two numbers where a comma or a dot may group digits or
// begin the decimals, and none if the text is no number. A whole number that letters touch is a
// name.
func worth(text string) (out []string) {
	const most = 1 << 13 // longer texts are no numbers, whatever zeros they have
	if len(text) > most {
		return nil
	}
	words := slices.DeleteFunc(strings.Fields(norm.NFKC.String(text)), func(w string) bool { // a currency, or a unit
		w = strings.TrimSuffix(w, ".")
		return utf8.RuneCountInString(w) <= 4 && w != "" && !strings.ContainsFunc(w, func(c rune) bool { return !unicode.IsLetter(c) })
	})
	plain := strings.Trim(strings.Map(func(c rune) rune {
		switch {
		case unicode.IsDigit(c):
			return '0' + digitOf(c)
		case unicode.IsLetter(c), c == '.', c == ',', c == '+', c == '-':
			return unicode.ToLower(c)
		case c == '·', c == '٫', c == '⎖':
			return '.'
		case c == '٬', c == '،':
			return ','
		}
		return -1
	}, strings.Join(words, "")), "+-.,")
	m := figures.FindStringSubmatch(strings.TrimLeft(plain, "0"))
	if m == nil {
		return nil
	}
	digits, exponent := m[2], ""
	if m[1] != "" {
		digits = strings.TrimLeft(digits, ".,") // "Fr. 5"
	}
	if m[4] != "" {
		exponent = "e" + m[3] + m[4]
	}
	if m[1]+m[5] != "" && exponent == "" && !strings.ContainsAny(digits, ".,") {
		return nil
	}
	for _, marks := range [...]struct{ groups, decimals string }{{",", "."}, {".", ","}} {
		whole, part, _ := strings.Cut(digits, marks.decimals)
		if strings.ContainsAny(part, ".,") || strings.Contains(whole, marks.groups) && !grouped.MatchString(whole) {
			continue
		}
		number := strings.TrimLeft(strings.ReplaceAll(whole, marks.groups, ""), "0")
		if part = strings.TrimRight(part, "0"); len(number)+len(part) > maxNumeral {
			continue
		}
		if n, ok := new(big.Rat).SetString("0" + number + "." + part + "0" + exponent); ok && !slices.Contains(out, n.RatString()) {
			out = append(out, n.RatString())
		}
	}
	return out
}

// ownWrites are what calls set about one subject.
type ownWrites []ownWrite

type ownWrite struct {
	anywhere  bool  // under whatever predicate
	whatever  bool  // and whatever value
	predicate Token // or place in a record
	value     Token
	picked    bool // it names an object that was there before
	rows      []ID // that the call rested on, and that were not fit
	more      bool // or something else that is not known
}

// The first byte of an own write.
const (
	ownAnywhere byte = 1 << iota
	ownWhatever
	ownMore
	ownPicked
	ownUnknown // and what is above it is in no object
)

func ownWritesOf(o Object) (list ownWrites, err error) {
	if o.Data == nil {
		return nil, nil
	}
	d := decoder{b: o.Data}
	n := d.num()
	for i := uint64(0); i < n && i < maxOwnWrites; i++ {
		flags := d.byte()
		w := ownWrite{anywhere: flags&ownAnywhere != 0, whatever: flags&ownWhatever != 0, more: flags&ownMore != 0, picked: flags&ownPicked != 0}
		w.predicate, w.value = d.token(), d.token()
		w.rows = d.ids()
		if flags >= ownUnknown {
			return nil, faulty(errWire, "own writes")
		}
		list = append(list, w)
	}
	if d.end() != nil || n > maxOwnWrites {
		return nil, faulty(errWire, "own writes")
	}
	return list, nil
}

func (l ownWrites) encode() []byte {
	e := encoder{}
	e.num(uint64(len(l)))
	for i := range l {
		w := &l[i]
		var flags byte
		if w.anywhere {
			flags |= ownAnywhere
		}
		if w.whatever {
			flags |= ownWhatever
		}
		if w.more {
			flags |= ownMore
		}
		if w.picked {
			flags |= ownPicked
		}
		e.byte(flags)
		e.token(w.predicate)
		e.token(w.value)
		e.ids(w.rows)
	}
	return e.b
}

// add notes a write. Where there is no room, all of them become one that stands for any.
func (l ownWrites) add(w ownWrite) ownWrites {
	for i := range l {
		if have := &l[i]; have.whatever && have.anywhere || have.anywhere == w.anywhere && have.whatever == w.whatever && have.predicate == w.predicate && have.value == w.value {
			have.join(&w)
			have.picked = have.picked && w.picked
			return l
		}
	}
	if len(l) < maxOwnWrites {
		return append(l, w)
	}
	all := ownWrite{anywhere: true, whatever: true}
	for i := range l {
		all.join(&l[i])
	}
	all.join(&w)
	return ownWrites{all}
}

func (w *ownWrite) join(other *ownWrite) {
	w.more = w.more || other.more
	for _, id := range other.rows {
		switch {
		case slices.Contains(w.rows, id):
		case len(w.rows) < maxOwnRows:
			w.rows = append(w.rows, id)
		default:
			w.more = true
		}
	}
}

// ownPredicate is what is compared of a predicate or a place. A number in a place stands for
// any: an element of a list moves when another one comes before it.
func (s *scope) ownPredicate(p string) Token {
	steps := strings.Split(p, "/")
	for i, step := range steps[1:] {
		if step != "" && strings.Trim(step, "0123456789") == "" {
			steps[1+i] = "*"
		}
	}
	return s.blind("own write under", ExactName(strings.Join(steps, "/")))
}

func (s *scope) ownValues(v string) (out []Token) {
	for _, text := range spellings(v) {
		out = append(out, s.blind("own write", text))
	}
	return out
}

// noteOwnWrites notes in the transaction what a call sets that rests on unfit rows, and in its
// record which objects say so.
func (t *transaction) noteOwnWrites(r *DecisionRecord) error {
	s, keys := t.store, []string{}
	about := map[string][]ownWrite{}
	spelled, named := map[string][]Token{}, map[string][]string{} // each text once: it may be long
	for i := range r.Writes {
		w := &r.Writes[i]
		note := ownWrite{anywhere: w.Predicate == "", whatever: w.Any, picked: w.Picked, more: r.UnvouchedMore}
		values := []Token{{}}
		if !w.Any {
			if values = spelled[w.Value]; values == nil {
				values = s.ownValues(w.Value)
				spelled[w.Value] = values
			}
		}
		if named[w.Subject] == nil {
			named[w.Subject] = s.ownKeys(w.Subject)
		}
		if w.Predicate != "" {
			note.predicate = s.ownPredicate(w.Predicate)
		}
		note.join(&ownWrite{rows: r.Unvouched})
		for _, key := range named[w.Subject] {
			if about[key] == nil {
				keys = append(keys, key)
			}
			for _, note.value = range values {
				about[key] = append(about[key], note)
			}
		}
	}
	if len(keys) > maxOwnSubjects {
		return invalid("writes", "too_many", "about %d subjects, more than %d", len(keys), maxOwnSubjects)
	}
	objs, err := s.get(t.ctx, keys...)
	if err != nil {
		return err
	}
	for i, key := range keys {
		list, err := ownWritesOf(objs[i])
		if err != nil {
			return err
		}
		for _, w := range about[key] {
			list = list.add(w)
		}
		t.put(Put{Key: key, From: objs[i].Revision, Data: list.encode()})
		r.Marked = append(r.Marked, []byte(key[len(ownKey):]))
	}
	return nil
}

// RecordWrites notes what a call set about subjects that only its answer names, such as the
// thing that it made. The call fired with [DecisionRecord.Writes], and what it rested on
// then is what these rest on. Of any other call it is an error.
func (s *Store) RecordWrites(ctx context.Context, decision string, writes []OwnWrite) error {
	if len(writes) == 0 {
		return nil
	}
	_, err := retry(ctx, func() (struct{}, error) {
		objs, err := s.get(ctx, decisionKey.named(decision))
		if err != nil {
			return struct{}{}, err
		}
		if objs[0].Data == nil {
			return struct{}{}, fmt.Errorf("%w: decision %s", ErrNotFound, clip(decision, 40))
		}
		r, prev, class, ok, err := s.decisionOf(ctx, objs[0])
		switch {
		case err != nil:
			return struct{}{}, err
		case !ok:
			return struct{}{}, fmt.Errorf("%w: decision %s", ErrErased, clip(decision, 40))
		case !r.Fired || len(r.Marked) == 0:
			return struct{}{}, invalid("decision", "conflict", "it let no call through that rests on what is not fit")
		}
		nonce, now := newNonce(), s.Now()
		r.Writes = writes
		tx := s.begin(ctx, now)
		if err := tx.noteOwnWrites(&r.DecisionRecord); err != nil {
			return struct{}{}, err
		}
		entry := AuditEntry{Kind: EntryOutcome, Revision: objs[0].Revision + 1, At: now, Actor: "run", Authority: AuthoritySystem, Source: "tool",
			Reason: "what it set is noted", Nonce: nonce}
		if err := tx.decision(&r, objs[0], prev, class, nil, entry); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, tx.commit(objs[0].Key, objs[0].Revision+1, nonce)
	})
	return err
}

// marked are the keys of the objects in which a call noted what it sets.
func (r *DecisionRecord) marked() []string {
	var keys []string
	for _, m := range r.Marked {
		if len(m) == len(Token{}) {
			keys = append(keys, ownKey.at(Token(m)))
		}
	}
	return keys
}

// ownNotes are what calls set about the subject of a content, out of objects.
type ownNotes struct {
	scope *scope
	objs  []Object
	lists []ownWrites // of objs
}

func (s *scope) ownNotes(objs []Object) (*ownNotes, error) {
	n := &ownNotes{scope: s, objs: objs}
	empty := true
	for _, o := range objs {
		list, err := ownWritesOf(o)
		if err != nil {
			return nil, err
		}
		n.lists, empty = append(n.lists, list), empty && len(list) == 0
	}
	if empty {
		return nil, nil
	}
	return n, nil
}

// living leaves of the rows that writes rested on those that are there: of what was erased
// nothing is made.
func (s *Store) living(ctx context.Context, n *ownNotes) error {
	if n == nil {
		return nil
	}
	for _, list := range n.lists {
		for i := range list {
			w := &list[i]
			heads, err := s.heads(ctx, w.rows)
			if err != nil {
				return err
			}
			all := len(w.rows)
			w.rows = w.rows[:0]
			for _, h := range heads {
				if h.Revision > 0 && !h.Has(FlagErased) {
					w.rows = append(w.rows, h.ID)
				}
			}
			w.more = w.more || len(w.rows) < all
		}
	}
	return nil
}

// says is the write that set a value under a predicate or at a place in a record, nil if none
// did. If place is "" the value is an identifier, under whatever predicate.
func (n *ownNotes) says(place, value string) *ownWrite {
	if n == nil {
		return nil
	}
	record, _, _ := strings.Cut(place, "/")
	predicates := []Token{n.scope.ownPredicate(place), n.scope.ownPredicate(record)}
	values := n.scope.ownValues(value)
	var all *ownWrite
	for _, list := range n.lists {
		for i := range list {
			w := &list[i]
			switch {
			case !w.whatever && !slices.Contains(values, w.value):
				continue
			case place == "" && w.picked, place != "" && !w.anywhere && !slices.Contains(predicates, w.predicate):
				continue
			}
			if all == nil {
				all = &ownWrite{}
			}
			all.join(w)
		}
	}
	return all
}

// of is the write that set what a content says, or one value of it if it is a record.
func (n *ownNotes) of(c *Content) (w *ownWrite) {
	if n == nil {
		return nil
	}
	visitPlaces(c, func(place, value string) {
		if set := n.says(place, value); set != nil && w == nil {
			w = set
		} else if set != nil {
			w.join(set)
		}
	})
	return w
}

// visitPlaces calls f with the object of a content and, if it is a record, with each value
// in it and its place. In a place * is any element of a list.
func visitPlaces(c *Content, f func(place, value string)) {
	if f(c.Predicate, c.Object); !structured(c.Object) {
		return
	}
	dec := json.NewDecoder(strings.NewReader(c.Object))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) == nil {
		visitValues(c.Predicate, v, f)
	}
}

// structured reports whether an object is a record.
func structured(object string) bool {
	return (strings.HasPrefix(object, "{") || strings.HasPrefix(object, "[")) && json.Valid([]byte(object))
}

// stepOf writes the name of a member as a step of a place.
var stepOf = strings.NewReplacer("~", "~0", "/", "~1")

func visitValues(place string, v any, f func(place, value string)) {
	switch node := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(node)) {
			visitValues(place+"/"+stepOf.Replace(name), node[name], f)
		}
	case []any:
		for _, child := range node {
			visitValues(place+"/*", child, f)
		}
	case nil:
	default:
		f(place, fmt.Sprint(node))
	}
}

// vouched reports whether a person verified one of the rows of a claim, for everybody. She
// vouches for the value, whoever set it.
func (s *Store) vouched(ctx context.Context, known *claimRecord) (bool, error) {
	verified, err := s.listed(ctx, known.Rows, TruthSupported)
	if err == nil {
		verified, err = s.standing(ctx, verified)
	}
	return slices.ContainsFunc(verified, func(r bystander) bool {
		return !r.unread && r.Rank >= RankUser && !r.Has(FlagOwnWord)
	}), err
}

// repeats reports whether a source repeats what a call of ours set, and no person vouches
// for it.
func (s *Store) repeats(ctx context.Context, known *claimRecord, c *Content, objs []Object) (bool, error) {
	notes, err := s.scope.ownNotes(objs)
	if err != nil || notes.of(c) == nil {
		return false, err
	}
	vouched, err := s.vouched(ctx, known)
	return !vouched, err
}

// disown is a draft of what a source repeats after a call of ours: unverified, and made of
// what the call rested on. What the source said before, it says no more.
func (s *Store) disown(ctx context.Context, d Draft, claim Token, line Object, w *ownWrite) (Draft, error) {
	if err := s.outdate(ctx, &d, claim, line); err != nil {
		return d, err
	}
	d.State, d.ours = StateUnverified, true
	d.LineageUnknown = d.LineageUnknown || w.more
	d.DerivedFrom = dedupe(slices.Concat(d.DerivedFrom, w.rows))
	return d, nil
}

// outdate makes history of what a source said before about the line of a draft, or contests
// what others support as well. An answer that was overtaken takes nothing.
func (s *Store) outdate(ctx context.Context, d *Draft, claim Token, line Object) error {
	if d.Content.Cardinality != CardinalityFunctional {
		return nil
	}
	l, err := lineOf(line)
	if err != nil {
		return err
	}
	ids, _ := l.rivals(true)
	rivals, err := s.listed(ctx, ids, TruthSupported)
	if err != nil {
		return err
	}
	if d.Asked.overtaken(line, claim, rivals) != nil {
		return nil
	}
	for i := range rivals {
		r := &rivals[i]
		if r.unread || r.Claim == claim || r.Has(FlagOwnWord) {
			continue
		}
		says := Evidence{Relation: RelationContradicts, Rank: RankTool, Source: d.Asserter.Tool, Verifier: "call",
			Group: d.Asserter.Group(), Anchor: Anchor{URI: firstNonEmpty(d.Anchor, d.Source)}, At: s.Now()}
		err := error(ErrOutranked)
		if !s.registry.isCritical(d.Content.Predicate) { // of what is critical one source makes no history
			_, err = s.Apply(ctx, Transition{Row: r.ID, Revision: r.Revision, To: TruthContradicted, Authority: AuthorityProbe,
				Actor: d.Asserter.Principal, Source: d.Asserter.Group(), Reason: "its source says something else now", Evidence: []Evidence{says}})
		}
		if errors.Is(err, ErrOutranked) || errors.Is(err, ErrIllegalMove) {
			err = s.AddEvidence(ctx, r.ID, d.Asserter.Principal, "its source says something else now", says)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
