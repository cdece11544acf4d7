package memory

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// readObjects opens all objects and holds them against the facts of the logs.
func (x *examination) readObjects() error {
	for o, err := range x.s.driver.Objects(x.ctx, x.s.scope.tenant, "") {
		if x.s.scope.namespace == "" && strings.HasPrefix(o.Key, spaceMark) {
			continue // another namespace
		}
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				return err
			}
			if !x.damaged[o.Key] { // else it was told of beside its log
				x.damaged[o.Key] = true
				if err := x.found(&TamperError{o.Key, o.Revision, "the object is not what was written"}); err != nil {
					return err
				}
			}
			x.unreadable(o.Key)
			continue
		}
		for _, t := range o.Terms {
			x.index[x.bucket(o.Key)] += x.line(t.Name, t.Sort, o.Key)
		}
		if err := x.object(o); err != nil {
			return err
		}
		if x.Objects++; x.Objects%500 == 0 {
			if err := x.pause(500); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasLog reports whether an object always has a log.
func hasLog(o Restored) bool {
	key := o.Key
	switch p, _ := placeOf(key); p {
	case handKey, headKey, noteKey, echoKey, decisionKey, holdKey, erasureKey, ledgerKey:
		return true
	}
	return key == epochKey || key == revokedKey || key == witnessKey || untoldKey.holds(key)
}

func (x *examination) object(o Restored) error {
	if hasLog(o) {
		x.loggedObject(o)
		return nil
	}
	p, rest := placeOf(o.Key)
	var terms []Term
	var err error
	switch p {
	case bodyKey:
		return x.body(o)
	case evidKey:
		err = x.evidence(o)
	case dueKey:
		terms, err = x.due(o)
	case identKey:
		x.identity(o, rest)
	case claimKey:
		err = x.claimRecord(o, rest)
	case lineKey:
		err = x.lineRecord(o)
	case callKey:
		x.call(o.Key).found = o.Data
	case classKey:
		terms, err = x.class(o, rest)
	case checkptKey:
		index, parse := strconv.ParseUint(rest, 16, 64)
		if parse != nil || checkpointAt(index) != o.Key {
			x.suspect(o.Key, o.Revision, "no such object is written by the store")
		}
		x.newest = max(x.newest, index)
	case fenceKey:
		for i := range fenceKeys {
			if fenceKeys[i] == o.Key {
				x.moved[i] = o.Revision
			}
		}
	case importKey:
		if id := ID(o.Data); o.Data != nil && !id.Valid() {
			err = faulty(errWire, "a name of an import")
		}
	case endedKey:
		x.ended[o.Key] = true
	case ownKey:
		_, err = ownWritesOf(Object{Key: o.Key, Revision: o.Revision, Data: o.Data})
		x.ownAt[o.Key] = o.Revision
	case alikeKey:
		var r alikeRecord
		r, err = alikeOf(o.Object)
		recordAt(x.alike, o.Key).alikeRecord = r
	case cursorKey, handKey, runKey:
	case statusKey:
		if o.Key != outageKey {
			x.suspect(o.Key, o.Revision, "no such object is written by the store")
		}
	case systemKey:
		if o.Key == checkpointHead {
			x.head = o.Revision
			if len(o.Data) != 8 || binary.BigEndian.Uint64(o.Data) != o.Revision {
				x.suspect(o.Key, o.Revision, "it does not name the newest checkpoint")
			}
		}
	default:
		x.suspect(o.Key, o.Revision, "no such object is written by the store")
	}
	if err := x.unopened(o.Key, o.Revision, err); err != nil {
		return err
	}
	x.carries(o, terms)
	return nil
}

// unreadable notes what cannot be said of an object that was told of already.
func (x *examination) unreadable(key string) {
	p, rest := placeOf(key)
	var id packedRow
	copy(id[:], rest)
	switch f := x.rows[id]; {
	case p == bodyKey && f != nil:
		f.body = true
	case p == dueKey && f != nil:
		f.due = true
	case p == identKey && len(rest) == len(Token{}):
		x.idents[Token([]byte(rest))] = &identFacts{}
	case p == claimKey && len(rest) == len(Token{}):
		delete(x.claims, Token([]byte(rest)))
	case p == lineKey:
		x.lines[key] = &lineFacts{met: true, record: lineRecord{moreFunctional: true, morePlain: true}}
	case p == alikeKey:
		recordAt(x.alike, key).more = true
	case p == endedKey:
		x.ended[key] = true
	case p == classKey && len(rest) == 8:
		x.classes[classIn(rest)] = true
	case p == callKey:
		x.gone[key] = true
	case p == fenceKey:
		for i := range fenceKeys {
			if fenceKeys[i] == key {
				x.moved[i] = math.MaxUint64
			}
		}
	case key == checkpointHead:
		x.head = math.MaxUint64
	}
}

// carries asks that an object carries exactly some terms.
func (x *examination) carries(o Restored, want []Term) {
	if slices.Equal(o.Terms, want) || x.sum(o.Key, o.Terms) == x.sum(o.Key, want) && len(o.Terms) == len(want) {
		return
	}
	byName := func(a, b Term) int { return strings.Compare(a.Name, b.Name) }
	for _, t := range slices.SortedFunc(slices.Values(want), byName) {
		if !slices.Contains(o.Terms, t) {
			x.suspect(o.Key, o.Revision, "it is not found by a term that it should carry (%x)", t.Name)
			return
		}
	}
	for _, t := range slices.SortedFunc(slices.Values(o.Terms), byName) {
		if !slices.Contains(want, t) {
			x.suspect(o.Key, o.Revision, "it is found by a term that it should not carry (%x)", t.Name)
			return
		}
	}
}

func (x *examination) loggedObject(o Restored) {
	sum, ok := x.logs[o.Key]
	switch {
	case !ok:
		x.suspect(o.Key, 1, "its log is gone")
	case x.faulty[o.Key], x.damaged[o.Key]:
	case x.shut[o.Key]: // what it is to be found by stands in it
	case x.offers(o, sum):
	case x.sum(o.Key, o.Terms) != sum:
		x.suspect(o.Key, o.Revision, "it does not carry the terms that it is to be found by (%x)", x.sum(o.Key, o.Terms)-sum)
	}
}

// offers notes what the head of a row that may be relied on carries beside what its log
// tells. Whether that is right, its content says.
func (x *examination) offers(o Restored, sum uint64) bool {
	p, rest := placeOf(o.Key)
	if p != headKey || len(rest) != packedID {
		return false
	}
	f := x.rows[packedRow([]byte(rest))]
	if f == nil || f.erased || !f.offer.is {
		return false
	}
	f.over, f.carried = x.sum(o.Key, o.Terms)-sum, true
	return true
}

// body holds what a row says against what its head committed to.
func (x *examination) body(o Restored) error {
	var id packedRow
	if copy(id[:], o.Key[len(bodyKey):]) != packedID || len(o.Key) != len(bodyKey)+packedID {
		x.suspect(o.Key, o.Revision, "no such object is written by the store")
		return nil
	}
	f := x.rows[id]
	switch {
	case x.faulty[string(headKey)+string(id[:])]:
		return nil
	case f == nil:
		x.suspect(o.Key, o.Revision, "its row has no log")
		return nil
	case f.erased:
		if o.Data != nil {
			x.suspect(o.Key, o.Revision, "its row was erased")
		}
		return nil
	case o.Data == nil:
		x.suspect(o.Key, o.Revision, "its content is gone, and no erasure is recorded")
		return nil
	}
	f.body = true
	b, err := x.s.body(x.ctx, o.Object)
	if err != nil {
		return x.unopened(o.Key, o.Revision, err)
	}
	f.due = f.due || b.Quotes != "" // nobody is asked about it
	d := b.draft()
	claim, key := x.scope.tokens(&d)
	if field := x.differs(f, &b, claim, id); field != "" {
		x.suspect(o.Key, o.Revision, "it is not what the row was written with: %s", field)
		return nil
	}
	h := Head{Claim: f.claim, Class: f.class, CreatedAt: f.created}
	x.carries(o, x.scope.bodyTerms(d, &h, b.DerivedFrom))
	i := x.idents[key]
	if i == nil {
		i = &identFacts{}
		x.idents[key] = i
	}
	i.want, i.wants = id, true
	f.named = true
	f.offers = x.sum(string(headKey)+string(id[:]), x.scope.offerTerms(f.offer, b.Content))
	if c := x.claims[f.claim]; c != nil && c.rejected {
		if key := x.scope.rejectedAs(&b.Content); key != "" {
			r := recordAt(x.alike, key)
			r.claims = append(r.claims, f.claim)
		}
	}
	if f.truth == TruthSupported && b.Content.Typed() {
		key := x.scope.line(b.Content)
		names := recordAt(x.alike, x.scope.namesOf(&b.Content))
		if line := lineToken(key); !slices.Contains(names.lines, line) {
			names.lines = append(names.lines, line)
		}
		l := x.lineAt(key)
		if b.Content.Cardinality == CardinalityFunctional {
			l.functional = append(l.functional, id)
		} else {
			l.plain = append(l.plain, id)
		}
	}
	return nil
}

// differs names what of a body is not as the first entry of the row's log has it (I-2).
func (x *examination) differs(f *rowFacts, b *body, claim Token, row packedRow) string {
	switch {
	case x.scope.commitment(b.Content) != f.commit:
		return "the content"
	case claim != f.claim:
		return "the claim"
	case x.scope.group(b.Asserter.Group()) != f.group:
		return "who asserted it"
	case b.Origin != f.origin:
		return "the origin"
	}
	if !f.madeFrom(b.DerivedFrom, row) {
		return "the lineage"
	}
	if least := len(b.DerivedFrom) > 0 || !b.Origin.External(); least != (f.depth > 0) {
		return "the depth"
	}
	return ""
}

// madeFrom reports whether what the log says is above a row is so if it was made from these.
func (f *rowFacts) madeFrom(from []ID, row packedRow) bool {
	if f.traced { // what it was made from, or nothing if that is much
		return len(f.above) == 0 || bytes.Equal(f.above, packIDs(from))
	}
	for _, p := range from {
		if packed := appendID(nil, p); bytes.Equal(packed, row[:]) || !holdsID(f.above, packed) {
			return false
		}
	}
	return len(from) > 0 || len(f.above) == 0
}

func holdsID(packed, id []byte) bool {
	for ; len(packed) >= packedID; packed = packed[packedID:] {
		if bytes.Equal(packed[:packedID], id) {
			return true
		}
	}
	return false
}

// evidence opens the evidence of a row. Whether it is the list that the logs end with was
// seen beside them.
func (x *examination) evidence(o Restored) error {
	if o.Data == nil {
		return nil
	}
	plain, err := x.s.unseal(x.ctx, o.Key, o.Revision, o.Data)
	if err != nil {
		return err
	}
	d := decoder{b: plain}
	d.evidence()
	return faulty(d.end(), "row evidence")
}

func (x *examination) due(o Restored) ([]Term, error) {
	var id packedRow
	copy(id[:], o.Key[len(dueKey):])
	f := x.rows[id]
	if f == nil {
		if !x.faulty[string(headKey)+string(id[:])] {
			x.suspect(o.Key, o.Revision, "its row has no log")
		}
		return o.Terms, nil
	}
	f.due = f.due || o.Data != nil || f.erased || f.truth == TruthSuperseded
	if o.Data == nil {
		return nil, nil
	}
	d, err := x.s.dueOf(x.ctx, o.Object)
	return d.terms(), err
}

func (x *examination) identity(o Restored, rest string) {
	if len(rest) != len(Token{}) {
		x.suspect(o.Key, o.Revision, "no such object is written by the store")
		return
	}
	if o.Data == nil {
		return
	}
	key := Token([]byte(rest))
	i := x.idents[key]
	if i == nil {
		i = &identFacts{}
		x.idents[key] = i
	}
	packed := appendID(nil, ID(o.Data))
	if i.found = true; len(packed) != packedID {
		x.suspect(o.Key, o.Revision, "it names no row")
		return
	}
	copy(i.have[:], packed)
}

func (x *examination) claimRecord(o Restored, rest string) error {
	if len(rest) != len(Token{}) {
		x.suspect(o.Key, o.Revision, "no such object is written by the store")
		return nil
	}
	known, err := x.s.claimOf(x.ctx, o.Object)
	if err != nil {
		return err
	}
	c := x.claim(Token([]byte(rest)))
	c.met, c.standing = c.met || o.Data != nil, known.Rejection != nil
	if o.Data == nil {
		return nil
	}
	for _, id := range known.Rows {
		if f := x.rows[packedRow(appendID(nil, id))]; f != nil && f.claim == Token([]byte(rest)) {
			f.claimed = true
		}
	}
	c.record.more, c.record.beyond = known.more, known.beyond
	for _, id := range append(known.Rows, known.Rejected) {
		var packed packedRow
		copy(packed[:], appendID(nil, id))
		f := x.rows[packed]
		switch {
		case id == "", x.faulty[headKey.of(id)]:
		case f == nil:
			x.suspect(o.Key, o.Revision, "it names row %s, which has no log", id)
		case f.claim != Token([]byte(rest)):
			x.suspect(o.Key, o.Revision, "it names row %s, which is of another claim", id)
		}
	}
	return nil
}

// lineRecord notes which rows the object of a line lists.
func (x *examination) lineRecord(o Restored) error {
	l, err := lineOf(o.Object)
	if err != nil {
		return err
	}
	ids, _ := l.rivals(true)
	for _, id := range ids {
		if f := x.rows[packedRow(appendID(nil, id))]; f != nil {
			f.lined = true
		} else if !x.faulty[headKey.of(id)] {
			x.suspect(o.Key, o.Revision, "it names row %s, which has no log", id)
		}
	}
	facts := x.lineAt(o.Key)
	facts.met, facts.record.moreFunctional, facts.record.morePlain = o.Data != nil, l.moreFunctional, l.morePlain
	return nil
}

// spelled asks that what is spelled alike, and what was rejected, is listed.
func (x *examination) spelled() {
	for key, a := range x.alike {
		if a.more {
			continue
		}
		for _, line := range a.lines {
			if a.at(line) < 0 {
				x.suspect(key, 1, "it does not list a name that has a verified row: another spelling would be verified beside it")
			}
		}
		for _, claim := range a.claims {
			if a.at(claim) < 0 {
				x.suspect(key, 1, "it does not list a claim that a user rejected: its source would verify the value of another name")
			}
		}
	}
}

// listed asks that claims and lines list the rows that decide.
func (x *examination) listed() {
	for id, f := range x.rows {
		c := x.claims[f.claim]
		if f.erased || f.claimed || !f.named || c == nil || !c.met {
			continue
		}
		if decides := f.truth == TruthSupported || f.truth == TruthContradicted; decides && !c.record.beyond || !decides && !c.record.more {
			x.suspect(claimKey.at(f.claim), 1, "it does not list row %s: what is said of it would count for no other row", rowText(id))
		}
	}
	for key, l := range x.lines {
		if !l.met {
			if len(l.functional)+len(l.plain) > 0 {
				x.suspect(key, 1, "it is gone: nobody would look for what contradicts its rows")
			}
			continue
		}
		for i, rows := range [...][]packedRow{l.functional, l.plain} {
			if more := [...]bool{l.record.moreFunctional, l.record.morePlain}[i]; more {
				continue
			}
			for _, id := range rows {
				if f := x.rows[id]; f != nil && !f.lined {
					x.suspect(key, 1, "it does not list row %s, which is verified: a rival would not meet it", rowText(id))
				}
			}
		}
	}
}

func (x *examination) class(o Restored, rest string) ([]Term, error) {
	if len(rest) != 8 || o.Data == nil {
		return nil, faulty(errWire, "a class")
	}
	x.classes[classIn(rest)] = true
	c, _, err := decodeClass(classIn(rest), o.Data)
	if err != nil {
		return nil, err
	}
	set := x.s.setOf(c.keys)
	var terms []Term
	for _, k := range c.keys {
		terms = append(terms, Term{termKey(k), set})
	}
	return terms, nil
}

// rowText is a row for people. A reason that names it is not that of a row which was
// written in its place meanwhile.
func rowText(id packedRow) ID { return unpackIDs(id[:])[0] }

// missing asks that what the logs imply was there.
func (x *examination) missing() error {
	for id, f := range x.rows {
		row := string(id[:])
		if f.erased || x.faulty[string(headKey)+row] {
			continue
		}
		if !f.body {
			x.suspect(string(bodyKey)+row, 1, "it is gone, and no erasure is recorded")
		}
		if f.named && f.carried && f.over != f.offers {
			x.suspect(string(headKey)+row, 1, "it does not carry the terms that it is to be found by (%x)", f.over-f.offers)
		}
		if !f.due && f.truth != TruthSuperseded {
			x.suspect(string(dueKey)+row, 1, "it is gone: the row would never be checked again")
		}
	}
	for token, i := range x.idents {
		key := identKey.at(token)
		switch {
		case x.damaged[key]:
		case i.wants && !i.found:
			x.suspect(key, 1, "it is gone: row %s could be written again", rowText(i.want))
		case i.wants && i.have != i.want:
			x.suspect(key, 1, "it names row %s, and %s has the identity", rowText(i.have), rowText(i.want))
		case i.found && !i.wants:
			if f := x.rows[i.have]; f == nil && !x.faulty[string(headKey)+string(i.have[:])] {
				x.suspect(key, 1, "it names row %s, which has no log", rowText(i.have))
			} else if f != nil && f.named {
				x.suspect(key, 1, "it names row %s, which has another identity", rowText(i.have))
			}
		}
	}
	for token, c := range x.claims {
		key := claimKey.at(token)
		switch {
		case c.live && !c.met:
			x.suspect(key, 1, "it is gone, and row %s has the claim: what was said against it would count no more", rowText(c.row))
		case c.live && c.rejected && !c.standing && c.at < c.erased && c.erased < c.begun: // with the last row it went
		case c.live && c.rejected && !c.standing:
			x.suspect(key, 1, "a user rejected the claim, and it does not say so: an older one was put back")
		case c.met && c.standing && !c.everRejected:
			x.suspect(key, 1, "it says that a user rejected the claim, and no log does")
		}
	}
	for class, met := range x.classes {
		if !met {
			x.suspect(classObject(class), 1, "it is gone: nobody can read what entries of logs say")
		}
	}
	for key, met := range x.ended {
		if !met {
			x.suspect(key, 1, "it is gone: that the key of a subject was destroyed is not known")
		}
	}
	x.listed()
	x.spelled()
	for key, c := range x.calls {
		x.mark(key, c)
		x.twice(c.made)
	}
	for key, calls := range x.own {
		if x.ownAt[key] >= calls {
			continue
		}
		objs, err := x.s.get(x.ctx, key) // it may have been put since it was passed
		if err != nil && !unreadable(err) {
			return err
		}
		if err == nil && objs[0].Revision < calls {
			x.suspect(key, objs[0].Revision, "%d calls noted there what they set: it is gone, or an older one was put back", calls)
		}
	}
	for _, key := range []string{epochKey, revokedKey} { // made with the store
		if _, met := x.logs[key]; !met && x.Logs > 0 {
			x.suspect(key, 1, "it is gone, with its log")
		}
	}
	for i := range x.fences {
		n := uint64(len(x.fences[i]))
		if x.moved[i] == 0 && x.Logs > 0 {
			x.suspect(fenceKeys[i], 1, "it is gone")
		} else if x.moved[i] < n {
			x.suspect(fenceKeys[i], x.moved[i], "it was moved at least %d times: an older one was put back", n)
		}
	}
	for _, f := range x.fired {
		if !x.decided[f.sequence] {
			x.suspect(f.key, f.revision, "it let a call through, and no decision says so")
		}
	}
	if x.newest > x.head {
		x.suspect(checkpointHead, x.head, "there is a checkpoint %d, and the newest is said to be %d", x.newest, x.head)
	}
	return nil
}

// twice asks that no call was made again before it was known how the first one ended, unless
// a person approved it. Nor may it be made again after it was done, if it is not to be made
// twice. Otherwise its mark stood in the way, and was taken away for a while.
func (x *examination) twice(calls []made) {
	slices.SortFunc(calls, func(a, b made) int { return cmp.Compare(a.at, b.at) })
	for i, later := range calls {
		if later.held {
			continue
		}
		for _, first := range calls[:i] {
			if first.known == 0 || first.known > x.late(later.at) {
				x.suspect(later.decision, 1, "it made the call of %s again, of which nobody knew how it ended", KeyText(first.decision))
				break
			}
			if later.once && 0 < first.done && x.late(first.done) < later.at {
				x.suspect(later.decision, 1, "it made the call of %s again, which had been done", KeyText(first.decision))
				break
			}
		}
	}
}

// late is the last moment that the clock of another process may bear for one at which
// something was written.
func (x *examination) late(at Sequence) Sequence { return SequenceAt(at.Time().Add(x.o.Window)) }

// mark holds the mark of a call against what the logs say of it. What it says of a hold or a
// decision that was erased since nobody can check.
func (x *examination) mark(key string, c *callFacts) {
	found, err := callMarkOf(c.found)
	if err != nil {
		x.suspect(key, 1, "it does not decode")
		return
	}
	unread := func(key string) bool { return x.gone[key] || x.faulty[key] }
	want := c.callHistory.mark()
	if unread(holdKey.named(found.hold)) {
		want.hold = found.hold
	}
	if unread(decisionKey.named(found.fired)) {
		want.fired, want.at, want.slot = found.fired, found.at, found.slot
	}
	if unread(decisionKey.named(found.done)) {
		want.done, want.settled = found.done, found.settled
	}
	if i := slices.IndexFunc(c.done, func(d doneCall) bool { return d.id == found.done }); i >= 0 { // whichever of them ended last
		want.done, want.settled = c.done[i].id, c.done[i].settled
	}
	switch {
	case found == want:
	case len(c.found) == 0:
		x.suspect(key, 1, "it is gone: the call could be made a second time")
	default:
		x.suspect(key, 1, "it says %s, and the logs say %s: an older one was put back", found.text(), want.text())
	}
}

// text names what a mark names.
func (m *callMark) text() string {
	var parts []string
	for _, part := range [...]struct{ what, id string }{{"hold ", m.hold}, {"call ", m.fired}, {"done ", m.done}} {
		if part.id != "" {
			parts = append(parts, part.what+part.id)
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// compareIndex holds the index of terms against what objects carry.
func (x *examination) compareIndex() error {
	n := 0
	list := func(line func(c Carrier) error) error {
		for c, err := range x.s.driver.Carriers(x.ctx, x.s.scope.tenant, "") {
			if x.s.scope.namespace == "" && strings.HasPrefix(c.Name, spaceMark) {
				continue
			}
			if err != nil {
				if !errors.Is(err, ErrDamaged) {
					return err
				}
				x.suspect(c.Key, 0, "a line of the index of terms cannot be read (%x)", c.Name)
				continue
			}
			if err := line(c); err != nil {
				return err
			}
			if n++; n%2000 == 0 {
				if err := x.pause(500); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := list(func(c Carrier) error {
		x.Terms++
		x.index[x.bucket(c.Key)] -= x.line(c.Name, c.Sort, c.Key)
		return nil
	})
	if err != nil || x.index == [buckets]uint64{} {
		return err
	}
	return x.indexDiffers(list)
}

// indexDiffers finds the lines that are too many or too few, among the objects of the
// buckets that differ.
func (x *examination) indexDiffers(list func(func(Carrier) error) error) error {
	const most = 1 << 20 // lines that are looked at
	lines := map[Carrier]int{}
	count := func(c Carrier, by int) {
		if len(lines) < most || lines[c] != 0 {
			if lines[c] += by; lines[c] == 0 {
				delete(lines, c)
			}
		}
	}
	for o, err := range x.s.driver.Objects(x.ctx, x.s.scope.tenant, "") {
		switch {
		case x.s.scope.namespace == "" && strings.HasPrefix(o.Key, spaceMark):
		case err != nil && !errors.Is(err, ErrDamaged):
			return err
		case err == nil && x.index[x.bucket(o.Key)] != 0:
			for _, t := range o.Terms {
				count(Carrier{t, o.Key}, 1)
			}
		}
	}
	err := list(func(c Carrier) error {
		if x.index[x.bucket(c.Key)] != 0 {
			count(c, -1)
		}
		return nil
	})
	for c, n := range lines {
		what := "is not found by a term that it carries"
		if n < 0 {
			what = "is found by a term that it does not carry, or at another place"
		}
		x.suspect(c.Key, 0, "it %s (%s)", what, fmt.Sprintf("%x at %d", c.Name, c.Sort))
	}
	return err
}
