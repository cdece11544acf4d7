package memory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Fitness is what the gate decides on: the current heads of the rows it asked
// for, in its order, from one snapshot, and the clock they are judged by. A row
// that does not exist has the zero revision.
type Fitness struct {
	Heads []Head
	Epoch uint64 // bumped on fail-over and restore; a permit checks it
	Fence Fence  // where the demotion fence stood
	Now   time.Time
	// Act is what [Store.FitnessFor] read of the act; zero if it was not asked for.
	Act ActMark
}

// ActMark says whether an act may have been done: the call that a run asks for, whichever
// run asks.
type ActMark struct {
	Revision uint64 // of the mark; what is recorded next checks it
	// Decision let a call of the act through, in any run, and nobody knows how it ended; ""
	// if there is none.
	Decision string
	At       time.Time // when it did
	Own      bool      // the call was of the slot that was asked for
	// Done let a call of the act through that is not to be made twice, and a person said last
	// of it, at Settled, that it was done; "" if there is none.
	Done    string
	Settled time.Time
}

// Fitness reads the current heads of ids in one round trip. States are never
// cached. A store that lost an acknowledged demotion gives [ErrBehind], and one that lacks
// its epoch, revocations or fences, or has one that was changed, [ErrDamaged] (I-14). A
// damaged head is one of a row that does not exist, with [FlagDamaged].
func (s *Store) Fitness(ctx context.Context, ids []ID) (Fitness, error) {
	return s.FitnessFor(ctx, ids, Digest{}, Digest{})
}

// FitnessFor is [Store.Fitness], and reads the mark of an act in the same trip, unless act
// is zero. slot is of the call that is about to be made; see [CallStep]. A mark that cannot
// be read is an error.
func (s *Store) FitnessFor(ctx context.Context, ids []ID, act, slot Digest) (Fitness, error) {
	if err := s.ready(ctx); err != nil {
		return Fitness{}, err
	}
	incarnation, err := s.confirm(ctx)
	if err != nil {
		return Fitness{}, err
	}
	keys := headKey.each(make([]string, 0, len(ids)+4+fences), ids)
	keys = append(append(append(keys, epochKey, revokedKey), fenceKeys[:]...), outageKey)
	if !act.IsZero() {
		keys = append(keys, s.actOf(act))
	}
	objs, damaged, err := s.each(ctx, keys)
	if err != nil {
		return Fitness{}, err
	}
	var made ActMark
	if !act.IsZero() {
		last := len(objs) - 1
		if slices.Contains(damaged, last) {
			return Fitness{}, &DamagedError{Keys: []string{objs[last].Key}}
		}
		m, err := callMarkOf(objs[last].Data)
		if err != nil {
			return Fitness{}, err
		}
		made = ActMark{Revision: objs[last].Revision, Decision: m.fired, At: m.at, Own: m.fired != "" && m.slot == s.scope.slot(slot), Done: m.done, Settled: m.settled}
		objs = objs[:last]
	}
	last := len(objs) - 1
	unknown := slices.Contains(damaged, last) // how the verifiers are decides nothing
	s.noteOutages(objs[last], unknown)
	objs = objs[:last]
	if unknown {
		damaged = damaged[:len(damaged)-1]
	}
	if err := s.same(incarnation); err != nil {
		return Fitness{}, err
	}
	shared := objs[len(ids):]
	if err := whole(shared, damaged, len(ids)); err != nil {
		return Fitness{}, err
	}
	for _, i := range damaged {
		objs[i] = Object{Key: objs[i].Key}
	}
	heads, err := decodeHeads(objs[:len(ids)], ids)
	if err != nil {
		return Fitness{}, err
	}
	for _, i := range damaged {
		heads[i].Flags = FlagDamaged
	}
	if err := s.unfit(ctx, heads, shared[1]); err != nil {
		return Fitness{}, err
	}
	f := Fitness{Heads: heads, Epoch: objs[len(ids)].Revision, Fence: Fence{incarnation: incarnation + 1}, Now: s.Now(), Act: made}
	for i, o := range objs[len(ids)+2:] {
		f.Fence.revision[i] = o.Revision
	}
	return f, nil
}

// whole asks that what every store has is there, and is what was written. damaged are
// indices into a list that begins some objects before.
func whole(shared []Object, damaged []int, before int) error {
	e := &DamagedError{}
	for i := range shared {
		if shared[i].Revision == 0 || slices.Contains(damaged, before+i) {
			e.Keys = append(e.Keys, shared[i].Key)
		}
	}
	if len(e.Keys) > 0 {
		return e
	}
	return nil
}

// Get returns the rows with these ids, in their order. A missing one is
// [ErrNotFound]: all or an error.
func (s *Store) Get(ctx context.Context, ids ...ID) ([]Row, error) {
	for _, id := range ids {
		if err := id.check("id"); err != nil {
			return nil, err
		}
	}
	const per = 3
	keys := make([]string, 0, per*len(ids))
	for _, id := range ids {
		keys = append(keys, headKey.of(id), bodyKey.of(id), evidKey.of(id))
	}
	objs, err := s.get(ctx, append(keys, revokedKey)...)
	if err != nil {
		return nil, err
	}
	revoked, err := s.revocationsOf(objs[len(keys)])
	if err != nil {
		return nil, err
	}
	bodies := make([]Object, len(ids))
	for i := range ids {
		bodies[i] = objs[per*i+1]
	}
	s.openAll(ctx, bodies)
	rows := make([]Row, len(ids))
	keys = keys[:0]
	for i, id := range ids {
		if err := s.row(ctx, &rows[i], id, objs[per*i:per*i+per]); err != nil {
			return nil, err
		}
		if revoked.open() {
			revoked.harm(&rows[i].Head, rows[i].Evidence)
		}
		if slices.Contains(revoked.damaged, id) {
			rows[i].revoke()
			rows[i].Flags |= FlagDamaged
		}
		keys = append(keys, echoKey.at(rows[i].Claim), claimKey.at(rows[i].Claim))
	}
	if objs, err = s.get(ctx, keys...); err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].Echoes, _, err = echoesOf(objs[2*i]); err != nil {
			return nil, err
		}
		known, err := s.claimOf(ctx, objs[2*i+1])
		if err != nil {
			return nil, err
		}
		about, err := s.reach(ctx, &known, rows[i].ID, rows[i].Content)
		if err != nil {
			return nil, err
		}
		// One that only withholds says nothing of a row that is verified.
		if about == ReachesName || about.withholds(RankTool) && rows[i].Truth != TruthSupported {
			rows[i].Rejection = known.Rejection
		}
	}
	return rows, nil
}

func (s *Store) row(ctx context.Context, r *Row, id ID, objs []Object) error {
	if objs[0].Data == nil {
		return fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	if err := decodeHead(&r.Head, id, objs[0].Revision, objs[0].Data); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if r.Has(FlagErased) {
		return fmt.Errorf("%w: %s", ErrErased, id)
	}
	b, err := s.body(ctx, objs[1])
	if err != nil {
		return err
	}
	evid, err := s.evidenceOf(ctx, &r.Head, objs[2])
	if err != nil {
		return err
	}
	r.Evidence = evid.list
	r.fill(&b)
	return nil
}

// fill sets what a body says.
func (r *Row) fill(b *body) {
	r.Content, r.Asserter, r.DerivedFrom, r.SelectedBy, r.Anchor = b.Content, b.Asserter, b.DerivedFrom, b.SelectedBy, b.Anchor
	r.ValueConfidence, r.ValidTimeConfidence, r.ValidFrom = b.ValueConfidence, b.ValidTimeConfidence, b.ValidFrom
	r.Source, r.Category, r.Run, r.Subjects = b.Source, b.Category, b.Run, b.Subjects
	r.Supersedes, r.Quotes, r.DeclaredFrom, r.Foreign = b.Supersedes, b.Quotes, b.DeclaredFrom, b.Foreign
	r.AgentVersion, r.Task, r.Purpose, r.DataClass, r.Domains = b.AgentVersion, b.Task, b.Purpose, b.DataClass, b.Domains
	r.SaidAt, r.ValidFromGrain, r.ValidUntilGrain = b.SaidAt, b.ValidFromGrain, b.ValidUntilGrain
	r.ValidFromConfidence, r.ValidUntilConfidence = b.ValidFromConfidence, b.ValidUntilConfidence
}

// Closure returns the strict ancestors of the rows together, each once: from the
// heads where they are inline, else by tracing up, with the same answer. Beyond
// [MaxClosure] it gives [ErrClosureTooLarge]; a row that is not there, [ErrNotFound].
func (s *Store) Closure(ctx context.Context, ids ...ID) ([]ID, error) {
	heads, err := s.existing(ctx, ids)
	if err != nil {
		return nil, err
	}
	return s.closure(ctx, heads)
}

// Ancestry is what is above one row.
type Ancestry struct {
	IDs []ID  // its strict ancestors, each once
	Err error // [ErrClosureTooLarge] beyond [MaxClosure]; [ErrDamaged] if one of them cannot be read
}

// Closures returns the strict ancestors of each row, in the order of the rows. What is above
// several of them is read once. A row that is not there gives [ErrNotFound].
func (s *Store) Closures(ctx context.Context, ids ...ID) ([]Ancestry, error) {
	up := newLineage()
	heads, err := s.headsIn(ctx, ids, up)
	if err != nil {
		return nil, err
	}
	if err := allThere(heads); err != nil {
		return nil, err
	}
	if err := s.trace(ctx, heads, up, len(ids)*MaxClosure); err != nil {
		return nil, err
	}
	out := make([]Ancestry, len(ids))
	for i, id := range ids {
		out[i].IDs, out[i].Err = up.reach(id)
	}
	return out, nil
}

// existing reads the heads of rows. The lineage of one that is not there is unknown, not empty.
func (s *Store) existing(ctx context.Context, ids []ID) ([]Head, error) {
	heads, err := s.heads(ctx, ids)
	if err != nil {
		return nil, err
	}
	return heads, allThere(heads)
}

func allThere(heads []Head) error {
	for _, h := range heads {
		if h.Revision == 0 {
			return fmt.Errorf("%w: %s", ErrNotFound, h.ID)
		}
	}
	return nil
}

// closureOf returns the rows themselves and all their ancestors.
func (s *Store) closureOf(ctx context.Context, parents []Head) ([]ID, error) {
	up, err := s.closure(ctx, parents)
	if err != nil {
		return nil, err
	}
	all := make([]ID, 0, len(parents)+len(up))
	for _, p := range parents {
		all = append(all, p.ID)
	}
	all = dedupe(append(all, up...))
	if len(all) > MaxClosure {
		return nil, fmt.Errorf("%w: more than %d rows", ErrClosureTooLarge, MaxClosure)
	}
	return all, nil
}

func (s *Store) closure(ctx context.Context, heads []Head) ([]ID, error) {
	up := newLineage()
	if err := s.trace(ctx, heads, up, MaxClosure); err != nil {
		return nil, err
	}
	ids := make([]ID, len(heads))
	for i := range heads {
		ids[i] = heads[i].ID
	}
	return up.reach(ids...)
}

// above is what stands above a row: all its ancestors if the head lists those, else what it was
// made from directly.
type above struct {
	ids   []ID
	whole bool
	err   error // what is above it is not known
}

// lineage is what is above rows. Each row has a number, so that a walk over what is above it
// looks nothing up by name. It is of one goroutine.
type lineage struct {
	numbers map[ID]int32
	rows    []traced // by number
	walk    int32    // of the walk that reach is at
}

// traced is a row of a lineage.
type traced struct {
	id    ID
	up    []int32 // see above
	whole bool
	err   error
	known bool  // what is above it was looked for
	above bool  // it is above a row of the lineage
	asked bool  // its head was read, or is being read
	seen  int32 // the walk that met it last
}

func newLineage() *lineage { return &lineage{numbers: map[ID]int32{}} }

// number is that of a row. It gets one if it has none.
func (l *lineage) number(id ID) int32 {
	n, have := l.numbers[id]
	if !have {
		n = int32(len(l.rows))
		l.numbers[id] = n
		l.rows = append(l.rows, traced{id: id})
	}
	return n
}

// put notes what is above a row.
func (l *lineage) put(id ID, a above) *traced {
	up := make([]int32, len(a.ids))
	for i, p := range a.ids {
		up[i] = l.number(p)
	}
	n := l.number(id)
	r := &l.rows[n]
	r.up, r.whole, r.err, r.known = up, a.whole, a.err, true
	return r
}

// headsIn reads the heads of rows. Of one that is damaged the lineage notes that what is above it
// is not known, and its head is left out.
func (s *Store) headsIn(ctx context.Context, ids []ID, up *lineage) ([]Head, error) {
	const trip = 5000 // rows
	heads := make([]Head, 0, len(ids))
	for ids := range slices.Chunk(ids, trip) {
		objs, damaged, err := s.each(ctx, headKey.each(make([]string, 0, len(ids)), ids))
		if err != nil {
			return nil, err
		}
		for i, o := range objs {
			h := Head{ID: ids[i]} // of one that is not there
			if slices.Contains(damaged, i) || o.Data != nil && decodeHead(&h, ids[i], o.Revision, o.Data) != nil {
				up.put(ids[i], above{err: fmt.Errorf("%w: row %s of the lineage", ErrDamaged, ids[i])})
				continue
			}
			heads = append(heads, h)
		}
	}
	return heads, nil
}

// trace adds to a lineage what is above rows, each once, and ends when more than so many ancestors
// are known.
func (s *Store) trace(ctx context.Context, heads []Head, up *lineage, most int) error {
	ancestors := 0
	for i := range heads {
		n := up.number(heads[i].ID)
		up.rows[n].asked = true
	}
	for len(heads) > 0 {
		var next, trace []ID
		found := func(id ID, a above) {
			for _, n := range up.put(id, a).up {
				p := &up.rows[n]
				if !p.above {
					p.above = true
					ancestors++
				}
				if !a.whole && !p.asked {
					p.asked = true
					next = append(next, p.id)
				}
			}
		}
		for i := range heads {
			h := &heads[i]
			if ids, ok := h.Ancestors(); ok {
				found(h.ID, above{ids: ids, whole: true})
			} else if ids, ok := h.parents(); ok {
				found(h.ID, above{ids: ids})
			} else {
				trace = append(trace, h.ID)
			}
		}
		keys := make([]string, len(trace))
		for i, id := range trace {
			keys[i] = bodyKey.of(id)
		}
		objs, damaged, err := s.each(ctx, keys)
		if err != nil {
			return err
		}
		for i, o := range objs {
			if slices.Contains(damaged, i) {
				found(trace[i], above{err: fmt.Errorf("%w: row %s of the lineage", ErrDamaged, trace[i])})
				continue
			}
			b, err := s.body(ctx, o)
			if err != nil {
				found(trace[i], above{err: fmt.Errorf("a row of the lineage: %w", err)})
				continue
			}
			found(trace[i], above{ids: b.DerivedFrom})
		}
		if ancestors > most {
			return nil // who needs the rest has too many
		}
		if heads, err = s.headsIn(ctx, next, up); err != nil {
			return err
		}
	}
	return nil
}

// reach collects what is above rows.
func (l *lineage) reach(ids ...ID) (out []ID, err error) {
	l.walk++
	trace := make([]int32, len(ids))
	for i, id := range ids {
		trace[i] = l.number(id)
	}
	for len(trace) > 0 {
		r := &l.rows[trace[len(trace)-1]]
		trace = trace[:len(trace)-1]
		switch {
		case !r.known:
			return nil, fmt.Errorf("%w: more than %d rows", ErrClosureTooLarge, MaxClosure)
		case r.err != nil:
			return nil, r.err
		}
		for _, n := range r.up {
			p := &l.rows[n]
			if p.seen == l.walk {
				continue
			}
			p.seen = l.walk
			if out = append(out, p.id); !r.whole {
				trace = append(trace, n)
			}
		}
		if len(out) > MaxClosure {
			return nil, fmt.Errorf("%w: more than %d rows", ErrClosureTooLarge, MaxClosure)
		}
	}
	return out, nil
}

// Filter selects rows. Set at most one of the string and key fields; an empty
// filter selects all rows.
type Filter struct {
	State     State  // rows in this state; with Subject and Predicate, those of the line
	Subject   string // with Predicate: rows of this line, by exact name ([ExactName])
	Predicate string
	Claim     Key      // rows of this claim
	Asserter  Asserter // rows by this model (Model) or group (Tool, Family, Principal)
	Parent    ID       // rows made directly from this one
	Quotes    ID       // quotations of this one; see [Quotation]
	Run       string   // rows written by this run
}

func (s *Store) termOf(f Filter) string {
	switch {
	case f.State != 0 && f.Subject == "":
		return termState(f.State)
	case f.Subject != "":
		return s.termLine(Content{Subject: f.Subject, Predicate: f.Predicate})
	case f.Claim != Key{}:
		return s.termClaim(s.scope.claim(f.Claim))
	case f.Asserter.Model != "":
		return s.termModel(f.Asserter.Model)
	case f.Asserter != Asserter{}:
		return s.termBy(f.Asserter.Group())
	case f.Parent != "":
		return termChild(f.Parent)
	case f.Quotes != "":
		return termQuotes(f.Quotes)
	case f.Run != "":
		return s.termRun(f.Run)
	default:
		return termRow
	}
}

// Rows lists the rows a filter selects, newest first (children of a parent:
// oldest first). Stopping early is fine. It pages; rows written meanwhile may or
// may not appear, and a row that stays put appears exactly once. One that cannot be read
// comes with its id and an [*UnreadableError], and the listing goes on; any other error
// ends it.
func (s *Store) Rows(ctx context.Context, f Filter) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		term := s.termOf(f)
		for after := ""; ; {
			_, ids, next, err := s.queryRows(ctx, Query{Term: term, After: after, Limit: 100})
			if err != nil {
				yield(Row{}, err)
				return
			}
			if f.State != 0 && f.Subject != "" {
				ids, err = s.inState(ctx, ids, f.State)
			}
			var rows []Row
			if err == nil {
				rows, err = s.present(ctx, ids)
			}
			if oneIsLost(err) {
				if !s.oneByOne(ctx, f, ids, yield) {
					return
				}
				rows, err = nil, nil
			}
			if err != nil {
				yield(Row{}, err)
				return
			}
			for _, r := range rows {
				if f.State != 0 && r.State() != f.State {
					continue // it moved between the listing and the read
				}
				if !yield(r, nil) {
					return
				}
			}
			if after = next; after == "" {
				return
			}
		}
	}
}

// unreadable reports whether an error is of one row and not of the store.
func unreadable(err error) bool {
	var wrong *WrongKeyError
	return !errors.As(err, &wrong) && (errors.Is(err, ErrDamaged) || errors.Is(err, ErrKey) || errors.Is(err, errNoClass))
}

// oneIsLost reports whether an error is of one row that was listed: it cannot be read, or
// it is of the index and nowhere else.
func oneIsLost(err error) bool { return unreadable(err) || errors.Is(err, ErrNotFound) }

// UnreadableError: a row cannot be read, and those beside it can. It wraps the reason.
type UnreadableError struct {
	Row ID
	Err error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("row %s cannot be read: %s", e.Row, strings.TrimPrefix(e.Err.Error(), "memory: "))
}

// Unwrap is the reason.
func (e *UnreadableError) Unwrap() error { return e.Err }

// oneByOne gives rows one of which cannot be read, and an [*UnreadableError] in place of
// that.
func (s *Store) oneByOne(ctx context.Context, f Filter, ids []ID, yield func(Row, error) bool) (goOn bool) {
	for _, id := range ids {
		rows, err := s.present(ctx, []ID{id})
		switch {
		case oneIsLost(err):
			if !yield(Row{Head: Head{ID: id, Flags: FlagDamaged}}, &UnreadableError{id, err}) {
				return false
			}
		case err != nil:
			yield(Row{}, err)
			return false
		}
		for _, r := range rows {
			if f.State != 0 && r.State() != f.State {
				continue
			}
			if !yield(r, nil) {
				return false
			}
		}
	}
	return true
}

// inState are those of some rows that are in a state, by their heads.
func (s *Store) inState(ctx context.Context, ids []ID, state State) ([]ID, error) {
	objs, damaged, err := s.each(ctx, headKey.each(make([]string, 0, len(ids)), ids))
	if err != nil {
		return nil, err
	}
	var out []ID
	for i := range objs {
		if slices.Contains(damaged, i) {
			continue
		}
		heads, err := decodeHeads(objs[i:i+1], ids[i:i+1])
		if err != nil {
			return nil, err
		}
		if heads[0].State() == state {
			out = append(out, ids[i])
		}
	}
	return out, nil
}

// present reads rows that were listed, but for those that are being erased: between
// the first and the last transaction of an erasure they are listed and cannot be read.
func (s *Store) present(ctx context.Context, ids []ID) ([]Row, error) {
	rows, err := s.Get(ctx, ids...)
	if !isErased(err) {
		return rows, err
	}
	rows = nil
	for _, id := range ids {
		one, err := s.Get(ctx, id)
		switch {
		case isErased(err):
		case err != nil:
			return nil, err
		default:
			rows = append(rows, one...)
		}
	}
	return rows, nil
}

// maxSearchWords bounds the index entries of one row.
const maxSearchWords = 48

// searchWords are the distinct folded words of a claim, without the commonest.
func searchWords(c Content) []string {
	out := make([]string, 0, 32)
	text := strings.ToLower(Canonical(c.Text + " " + c.Subject + " " + c.Predicate + " " + c.Object))
	for w := range strings.FieldsFuncSeq(text, betweenWords) {
		if len(w) > 64 || commonWords[w] {
			continue
		}
		if w = stem(w); slices.Contains(out, w) {
			continue
		}
		if out = append(out, w); len(out) == maxSearchWords {
			break
		}
	}
	return out
}

func betweenWords(r rune) bool {
	if r < 0x80 {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && (r < 'A' || r > 'Z')
	}
	return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r)
}

// stem cuts the commonest English endings, so that a question finds the claim
// that answers it: prefers, preferred and preferring are prefer. It serves search
// only; no identity is judged by it.
func stem(w string) string {
	const shortest = 4 // of what is left
	for _, ending := range [...]string{"ing", "ed", "es", "s"} {
		cut, ok := strings.CutSuffix(w, ending)
		if !ok || len(cut) < shortest-1 || ending == "s" && strings.HasSuffix(cut, "s") {
			continue
		}
		if ending == "es" { // makes -> make, boxes -> boxe: the same for both spellings
			return cut + "e"
		}
		if n := len(cut); ending != "s" && n > shortest && cut[n-1] == cut[n-2] {
			cut = cut[:n-1]
		}
		return cut
	}
	return w
}

var commonWords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields("a an and are as at be by for from has have in is it its of on or that the this to was were will with what which who") {
		m[w] = true
	}
	return m
}()

// History returns the audit entries of a row, oldest first: its transitions, its
// evidence, and its claim's re-entries if echoes is set. Entries are never
// changed.
func (s *Store) History(ctx context.Context, row ID, echoes bool) ([]AuditEntry, error) {
	heads, err := s.heads(ctx, []ID{row})
	if err != nil {
		return nil, err
	}
	if heads[0].Revision == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, row)
	}
	out, err := s.logOf(ctx, headKey.of(row), row)
	if err != nil {
		return nil, err
	}
	notes, err := s.logOf(ctx, noteKey.of(row), row)
	if err != nil {
		return nil, err
	}
	for _, n := range notes { // a contest that the evidence made shows it too
		for i := range out {
			if out[i].Nonce == n.Nonce {
				out[i].Evidence = n.Evidence
			}
		}
	}
	out = append(out, notes...)
	if echoes {
		again, err := s.logOf(ctx, echoKey.at(heads[0].Claim), "")
		if err != nil {
			return nil, err
		}
		out = append(out, again...)
	}
	slices.SortStableFunc(out, func(a, b AuditEntry) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return out, nil
}

// logOf decodes the log of one key.
func (s *Store) logOf(ctx context.Context, key string, row ID) (out []AuditEntry, err error) {
	for l, err := range s.entries(ctx, key, 0) {
		if err != nil {
			return nil, err
		}
		e, _, err := s.entry(ctx, key, l)
		if err != nil {
			return nil, err
		}
		e.Row = row
		out = append(out, e)
	}
	return out, nil
}

// Cited is a row at the fitness version a decision was made on.
type Cited struct {
	Row      ID     `json:"row"`
	Revision uint64 `json:"revision"`
	Class    Class  `json:"-"` // of the row's head, if it is at hand; the record is sealed under it

	mark rowMark // what was read of the row; see [Head.Cite]
}

// Cite is the row at the fitness version at which it was read, for a decision that is
// made on it. The record of the decision then says what was read of the row.
func (h *Head) Cite() Cited {
	c := Cited{Row: h.ID, Revision: h.Revision, mark: h.read()}
	if !h.Has(FlagErased) { // nothing is sealed for an erased one
		c.Class = h.Class
	}
	return c
}

// read stands for what was read of the row.
func (h *Head) read() rowMark {
	if h.moving == nil {
		return h.mark
	}
	return markOf(h.link.mac[:], h.moving)
}

// DecisionRecord is what the gate decided, to be kept with the rows it cites.
type DecisionRecord struct {
	ID    string  `json:"id"` // from NewDecisionID
	Tool  string  `json:"tool"`
	Run   string  `json:"run"`
	Fired bool    `json:"fired"` // the record is the fire intent of a permitted call
	Epoch uint64  `json:"epoch"`
	Rows  []Cited `json:"rows"`
	// NotAfter is when the clock alone makes one of the rows unfit; zero = never. A
	// call does not fire at or past it.
	NotAfter time.Time `json:"not_after,omitzero"`
	// Fence, of a record that fires, is where the fence stood when Rows were at their
	// versions: the transaction then checks that it stands there still, in place of each row.
	// nil = it checks each row. It is not kept.
	Fence *Fence          `json:"-"`
	Data  json.RawMessage `json:"data"` // the decision itself, as the gate writes it
	At    time.Time       `json:"at"`
	// Call is what the decision does to the standing of its call; nil = nothing.
	Call *CallStep `json:"-"`
	Slot Digest    `json:"slot,omitzero"` // of a call that fired and is tracked; Record sets it
	Act  Digest    `json:"act,omitzero"`  // CallStep.Act of a call that fired; Record sets it
	Once bool      `json:"once,omitzero"` // CallStep.Once of a call that fired; Record sets it
	// Held is the hold that the call fired out of; Record sets it.
	Held string `json:"held,omitempty"`
	// Writes are what a call that fires sets in systems of record, if it rests on what is
	// not fit. The same transaction notes them, and Marked names the objects that say so: what a
	// source repeats of it later verifies nothing. Unvouched are the rows at fault, and
	// UnvouchedMore says that they are not all.
	Writes        []OwnWrite `json:"-"`
	Marked        [][]byte   `json:"marked,omitempty"`
	Unvouched     []ID       `json:"unvouched,omitempty"`
	UnvouchedMore bool       `json:"unvouched_more,omitempty"`
	// Settled is set if a person said how it ended.
	Settled *Settled `json:"settled,omitempty"`
	// Outcome is how a call that fired ended, as [Store.RecordOutcome] noted it; unset
	// while nobody has said. Note is more of it, for people. Answer are the rows that the
	// answer became, of a call that is not to be made twice.
	Outcome CallOutcome `json:"outcome,omitzero"`
	Note    string      `json:"note,omitempty"`
	Answer  []ID        `json:"answer,omitempty"`
}

// Record writes a decision. If the decision fires a call, this is where the permit is
// consumed (I-7): the same transaction checks that every row it cites is still at the cited
// fitness version and that the epoch has not moved. NotAfter is held against the store's
// clock. With a Fence it checks in place of the rows that nothing was taken
// from any of them since. What moved gives a [*ConflictError], a limit that passed
// [ErrExpired]; nothing is written, and the caller decides again.
//
// It is sealed under the keys of all that the rows are about. If one of these is missing
// or damaged, nobody could read on what a call fired: that gives an [*UnreadableError]
// which names a row, and nothing is written.
//
// What the decisions of a run cite alike is kept once, as segments of its ledger.
func (s *Store) Record(ctx context.Context, r DecisionRecord) error {
	if !strings.HasPrefix(r.ID, "blk_") {
		return invalid("id", "malformed", "not a decision id")
	}
	if len(r.Data) > 0 && !json.Valid(r.Data) {
		return invalid("data", "malformed", "not JSON")
	}
	for _, c := range r.Rows {
		if err := c.Row.check("rows"); err != nil {
			return err
		}
		if r.Fired && c.Revision == 0 {
			return invalid("rows", "not_found", "no call fires on a row that does not exist: %s", c.Row)
		}
	}
	if r.Fence != nil && r.Fence.incarnation == 0 {
		return invalid("fence", "required", "nobody looked at it")
	}
	r.At, r.Slot, r.Act, r.Once, r.Held, r.Answer = s.Now(), r.tracked(), Digest{}, false, "", nil
	if !r.Slot.IsZero() {
		if r.Act, r.Once = r.Call.Act, r.Call.Once; r.Call.Hold != nil {
			r.Held = r.Call.Hold.ID
		}
	}
	if r.Fired && !r.NotAfter.IsZero() && !r.At.Before(r.NotAfter) {
		return fmt.Errorf("%w at %s", ErrExpired, r.NotAfter.Format(time.RFC3339))
	}
	incarnation, err := s.confirm(ctx)
	if err != nil {
		return err
	}
	if r.Fired && r.Fence != nil && r.Fence.incarnation != incarnation+1 {
		return &ConflictError{Key: epochKey}
	}
	const looks = 4 // at the ledger: it is new, another process wrote it, it was erased
	for look := 1; ; look++ {
		c := citation{rest: r.Rows}
		if look < looks {
			c = s.cite(r.Run, r.Rows)
		}
		err := s.record(ctx, &r, c)
		if look < looks && s.meets(r.Run, c, err) {
			continue
		}
		if err != nil && unreadable(err) {
			err = s.unreadableAmong(ctx, r.Rows, err)
		}
		if err == nil && r.Fired { // what was checked may have been checked against the wrong server
			err = s.same(incarnation)
		}
		return err
	}
}

// unreadableAmong names the row of a decision whose class cannot be opened, if that is why
// the decision could not be written.
func (s *Store) unreadableAmong(ctx context.Context, rows []Cited, err error) error {
	var unknown []ID
	for _, c := range rows {
		if c.Revision > 0 && c.Class == 0 {
			unknown = append(unknown, c.Row)
		}
	}
	heads, fault := s.heads(ctx, unknown)
	if fault != nil {
		return err
	}
	read := make(map[ID]Class, len(heads))
	for i := range heads {
		read[heads[i].ID] = heads[i].Class
	}
	looked := map[Class]bool{0: true}
	for _, c := range rows {
		class := c.Class
		if class == 0 {
			class = read[c.Row]
		}
		if looked[class] {
			continue
		}
		looked[class] = true
		if _, fault := s.sealing(ctx, class); fault != nil && unreadable(fault) {
			return &UnreadableError{c.Row, fault}
		}
	}
	return err
}

func (s *Store) record(ctx context.Context, r *DecisionRecord, c citation) error {
	tx := s.begin(ctx, r.At)
	class := tx.classOfCitation(c)
	if tx.err != nil {
		return tx.err
	}
	if r.Fired {
		tx.check(epochKey, r.Epoch)
		if r.Fence != nil {
			if err := tx.since(r.Fence, r.Rows); err != nil {
				return err
			}
		} else {
			tx.Checks = slices.Grow(tx.Checks, len(r.Rows))
			for _, c := range r.Rows {
				tx.check(headKey.of(c.Row), c.Revision)
			}
		}
	}
	if r.Call != nil {
		if err := tx.call(r, class); err != nil {
			return err
		}
	}
	if r.Fired && len(r.Writes) > 0 {
		r.Marked = nil
		if err := tx.noteOwnWrites(r); err != nil {
			return err
		}
	}
	tx.segments(c)
	kept := keptDecision{DecisionRecord: *r}
	kept.Rows = c.rest
	for _, g := range c.segments {
		kept.Ledger = append(kept.Ledger, g.key[len(ledgerKey):]...)
	}
	kept.Seen = c.seen(r)
	key := decisionKey.named(r.ID)
	nonce := newNonce() // not the id: recording one decision twice must not look like having won
	entry := AuditEntry{Kind: EntryDecision, Revision: 1, At: r.At, Actor: "gate", Authority: AuthorityPolicy, Source: r.Tool, Reason: "decided", Nonce: nonce}
	if err := tx.decision(&kept, Object{Key: key}, link{}, class, s.decisionTerms(&kept, class), entry); err != nil {
		return err
	}
	err := tx.commit(key, 1, nonce)
	var conflict *ConflictError
	if errors.As(err, &conflict) && conflict.Key == key {
		return fmt.Errorf("%w: decision id used twice", ErrInvalidBatch)
	}
	if !r.Slot.IsZero() {
		s.madeCalls.put(key, s.marksOf(r), err)
	} else if r.Call != nil && err != nil {
		s.madeCalls.forget(s.markOf(r.Call.Slot))
	}
	if err == nil && len(c.segments) > 0 {
		for i, g := range c.segments {
			if !g.known {
				there := *g
				there.known = true
				c.segments[i] = &there
			}
		}
		s.ledgers.put(r.Run, c.segments)
	}
	return err
}

// decisionTerms are what a decision is found by.
func (s *Store) decisionTerms(r *keptDecision, class Class) []Term {
	at := newestFirst(r.At)
	segments := r.segments()
	terms := make([]Term, 0, len(r.Rows)+len(segments)+4)
	terms = append(terms, Term{termDecision, at}, Term{s.termCalls(r.Run), at}, Term{termClass(class), at})
	if r.Unsettled() {
		terms = append(terms, Term{termOpenCall, at})
	}
	for _, key := range segments {
		terms = append(terms, Term{termLedger(key), at})
	}
	for _, c := range r.Rows {
		terms = append(terms, Term{termCites(c.Row), at})
	}
	return terms
}

// classOfCited is the class of rows: of the subjects of all of them.
func (t *transaction) classOfCited(rows []Cited) Class {
	classes, err := t.classesOf(rows)
	if err != nil && t.err == nil {
		t.err = err
	}
	return t.classFor(classes, nil)
}

// classesOf are the classes of rows, each once.
func (t *transaction) classesOf(rows []Cited) (classes []Class, err error) {
	var unknown []ID
	for _, c := range rows {
		switch {
		case c.Revision == 0:
		case c.Class == 0:
			unknown = append(unknown, c.Row)
		case !slices.Contains(classes, c.Class):
			classes = append(classes, c.Class)
		}
	}
	if len(unknown) > 0 {
		heads, err := t.store.heads(t.ctx, unknown)
		if err != nil {
			return nil, err
		}
		for _, h := range heads {
			if h.Revision > 0 && !h.Has(FlagErased) && !slices.Contains(classes, h.Class) {
				classes = append(classes, h.Class)
			}
		}
	}
	return classes, nil
}

// decision puts a decision. The chain covers the digest of what was decided.
func (t *transaction) decision(r *keptDecision, old Object, prev link, class Class, terms []Term, e AuditEntry) error {
	b, err := toJSON(r)
	if err != nil {
		return invalid("data", "malformed", "%v", err)
	}
	data := t.seal(class, old.Key, old.Revision, b)
	digest := sha256.Sum256(data)
	t.log(Put{Key: old.Key, From: old.Revision, Add: terms}, prev, data, digest[:], class, e, change{})
	return t.err
}

// decisionOf opens a decision. ok is false if it was erased.
func (s *Store) decisionOf(ctx context.Context, o Object) (r keptDecision, prev link, class Class, ok bool, err error) {
	b, prev, class, ok, err := s.opened(ctx, o)
	if ok {
		err = fromJSON(b, &r)
		ok = err == nil
	}
	return r, prev, class, ok, faulty(err, "decision record")
}

// opened opens an object that has a log and is sealed. ok is false if it was erased.
func (s *Store) opened(ctx context.Context, o Object) (b []byte, prev link, class Class, ok bool, err error) {
	rest, err := prev.decode(o.Data)
	if err != nil || len(rest) < 8 {
		return nil, prev, 0, false, err
	}
	class = Class(binary.BigEndian.Uint64(rest))
	b, err = s.unseal(ctx, o.Key, o.Revision, rest)
	if isErased(err) {
		return nil, prev, class, false, nil
	}
	return b, prev, class, err == nil, err
}

// RecordOutcome notes how a fired call ended, and more of it for people: note is at most
// [MaxField] bytes and may be empty. [CallUnknown] leaves the call in the way of its like; any
// other outcome clears it. That a person says how it ended is for [Store.Settle]. What is
// known does not become unknown again, and what was done stays done, by the tool's word or
// by a person's: a later word against it is kept in the log of the decision and changes
// nothing. That a call was done does take the place of a word that it was not.
//
// answer are the rows that the call's answer became. They are kept of a call that is not to
// be made twice ([CallStep.Once]), the first [MaxAnswer] of them.
func (s *Store) RecordOutcome(ctx context.Context, id string, outcome CallOutcome, note string, answer ...ID) error {
	if err := callOutcomeEnum.check(outcome); err != nil {
		return err
	}
	if outcome == CallSettledDone || outcome == CallSettledNotDone {
		return invalid("outcome", "conflict", "a person settles a call")
	}
	if err := checkText("note", note, MaxField); err != nil {
		return err
	}
	return s.recordOutcome(ctx, id, outcome, note, answer, nil)
}

// ending is how the call ended, in words.
func (r *DecisionRecord) ending() string {
	if r.Settled != nil && (r.Outcome == CallSettledDone || r.Outcome == CallSettledNotDone) {
		return (&Settlement{Actor: r.Settled.By, Done: r.Outcome == CallSettledDone}).words()
	}
	return r.Outcome.noted(r.Note)
}

// noted is an outcome with a note.
func (o CallOutcome) noted(note string) string {
	if note == "" {
		return o.String()
	}
	return o.String() + ", " + note
}

// MaxAnswer is how many rows of an answer the record of a decision names.
const MaxAnswer = 64

// recordOutcome is [Store.RecordOutcome], or [Store.Settle] if it is by a person.
func (s *Store) recordOutcome(ctx context.Context, id string, outcome CallOutcome, note string, answer []ID, by *Settlement) error {
	for _, row := range answer {
		if err := row.check("answer"); err != nil {
			return err
		}
	}
	_, err := retry(ctx, func() (struct{}, error) {
		keys := []string{decisionKey.named(id)}
		keys = append(keys, s.madeCalls.of(keys[0])...)
		objs, err := s.get(ctx, keys...)
		if err != nil {
			return struct{}{}, err
		}
		if objs[0].Data == nil {
			return struct{}{}, fmt.Errorf("%w: decision %s", ErrNotFound, clip(id, 40))
		}
		r, prev, class, ok, err := s.decisionOf(ctx, objs[0])
		if err != nil {
			return struct{}{}, err
		}
		if !ok {
			return struct{}{}, fmt.Errorf("%w: decision %s", ErrErased, clip(id, 40))
		}
		switch {
		case by != nil:
			if err := by.settles(&r.DecisionRecord, s.Now()); err != nil {
				return struct{}{}, err
			}
		case !counts(outcome, r.Outcome) && (outcome.isOpen() || outcome == r.Outcome && note == r.Note):
			return struct{}{}, nil // it says nothing new
		}
		was, news := r.StateAt(r.At), counts(outcome, r.Outcome)
		if news {
			r.Outcome, r.Note = outcome, note
		}
		if news && r.once() {
			r.Answer = answer[:min(len(answer), MaxAnswer)]
		}
		nonce, now := newNonce(), s.Now()
		entry := AuditEntry{Kind: EntryOutcome, Revision: objs[0].Revision + 1, At: now, Actor: "run", Authority: AuthoritySystem, Source: "tool", Reason: outcome.noted(note), Nonce: nonce,
			From: was.String(), To: r.Outcome.state().String()}
		if by != nil {
			r.Settled = &Settled{By: by.Actor, Reason: by.Reason, At: now}
			entry.Actor, entry.Authority, entry.Source, entry.Reason = by.Actor, AuthorityUser, "settle", by.words()+": "+by.Reason
		}
		tx := s.begin(ctx, now)
		if err := tx.decision(&r, objs[0], prev, class, nil, entry); err != nil {
			return struct{}{}, err
		}
		if !r.Unsettled() {
			p := &tx.Puts[len(tx.Puts)-1]
			p.Remove = append(p.Remove, termOpenCall)
		}
		if news {
			if err := tx.ended(&r.DecisionRecord, objs[1:], by); err != nil {
				return struct{}{}, err
			}
		}
		err = tx.commit(objs[0].Key, objs[0].Revision+1, nonce)
		if err == nil && !r.Unsettled() {
			s.madeCalls.ended(objs[0].Key, tx.Puts)
		}
		return struct{}{}, err
	})
	return err
}

// CitedDecision is a decision that cites a row. Dependent is set if it fired and
// the row was demoted, quarantined or withdrawn after the fitness version it
// cites, whatever became of the row later: I-7 and I-11 call it a dependent
// decision.
type CitedDecision struct {
	DecisionRecord
	Dependent bool
}

// DecisionsCiting lists the decisions that cite a row, newest first. Whether one
// depends on a reading that no longer holds is computed here from the versions,
// not stored (I-11).
func (s *Store) DecisionsCiting(ctx context.Context, row ID) ([]CitedDecision, error) {
	hits, err := s.hits(ctx, termCites(row))
	if err == nil {
		hits, err = s.throughSegments(ctx, hits)
	}
	if err != nil {
		return nil, err
	}
	records, err := s.decisionsAt(ctx, hits)
	if err != nil {
		return nil, err
	}
	harmed, err := s.lastHarm(ctx, row)
	if err != nil {
		return nil, err
	}
	out := make([]CitedDecision, len(records))
	for i, r := range records {
		out[i].DecisionRecord = r
		for _, c := range r.Rows {
			if c.Row == row && r.Fired && c.Revision < harmed {
				out[i].Dependent = true
			}
		}
	}
	return out, nil
}

// lastHarm is the fitness version at which a row last lost trust; 0 = never.
func (s *Store) lastHarm(ctx context.Context, row ID) (harmed uint64, err error) {
	key := headKey.of(row)
	objs, err := s.get(ctx, key)
	if err != nil {
		return 0, err
	}
	last := uint64(0)
	for l, err := range s.entries(ctx, key, 0) {
		if err != nil {
			return 0, err
		}
		var r record
		if _, err := r.decode(l.Data); err != nil {
			return 0, fmt.Errorf("%w: entry %d of %s", ErrStore, l.Revision, key)
		}
		if e := r.entry(l.Revision); e.harms() {
			harmed = l.Revision
		}
		last = l.Revision
	}
	if last < objs[0].Revision {
		return 0, fmt.Errorf("%w: the log of %s is cut", ErrDamaged, KeyText(key))
	}
	return harmed, nil
}

// harms reports whether the entry took trust away from the row.
func (e *AuditEntry) harms() bool {
	switch e.Kind {
	case EntryReject, EntryErase, EntryRevoke:
		return true
	case EntryTransition, EntryRollback:
	default:
		return false
	}
	switch e.Axis {
	case AxisTruth:
		return e.To != TruthSupported.String()
	case AxisSecurity:
		return e.To != SecurityClean.String()
	case AxisRetrieval:
		raised := e.From == RetrievalHidden.String() || e.From == RetrievalBlocked.String()
		return e.To == RetrievalHidden.String() && e.From != RetrievalBlocked.String() || e.To == RetrievalBlocked.String() ||
			e.To == RetrievalRestricted.String() && !raised
	}
	return false
}

// Decisions lists all decisions, newest first.
func (s *Store) Decisions(ctx context.Context) ([]DecisionRecord, error) {
	hits, err := s.hits(ctx, termDecision)
	if err != nil {
		return nil, err
	}
	return s.decisionsAt(ctx, hits)
}

// NewestDecisions lists the newest decisions, at most limit of them, newest first.
func (s *Store) NewestDecisions(ctx context.Context, limit int) ([]DecisionRecord, error) {
	hits, _, err := s.query(ctx, Query{Term: termDecision, Limit: limit})
	if err != nil {
		return nil, err
	}
	return s.decisionsAt(ctx, hits)
}

// decisionsAt reads decisions, but for erased ones, each with all rows that it cites.
func (s *Store) decisionsAt(ctx context.Context, hits []Hit) ([]DecisionRecord, error) {
	var out []DecisionRecord
	segments := map[string]*segment{}
	for page := range slices.Chunk(hits, 500) {
		keys := make([]string, 0, len(page))
		for _, h := range page {
			if decisionKey.holds(h.Key) {
				keys = append(keys, h.Key)
			}
		}
		objs, err := s.get(ctx, keys...)
		if err != nil {
			return nil, err
		}
		var kept []keptDecision
		keys = keys[:0]
		for _, o := range objs {
			if o.Revision == 0 {
				continue // a line of the index that stands for nothing
			}
			k, _, _, ok, err := s.decisionOf(ctx, o)
			if err != nil {
				return nil, err
			}
			if ok {
				kept, keys = append(kept, k), append(keys, k.segments()...)
			}
		}
		if err := s.segmentsOf(ctx, keys, segments); err != nil {
			return nil, err
		}
		for i := range kept {
			out = append(out, kept[i].whole(segments))
		}
	}
	return out, nil
}

// BumpEpoch voids every permit that was decided and not yet consumed. Operators
// call it after a fail-over or a restore.
func (s *Store) BumpEpoch(ctx context.Context, actor, reason string) error {
	_, err := retry(ctx, func() (struct{}, error) {
		objs, err := s.get(ctx, epochKey)
		if err != nil {
			return struct{}{}, err
		}
		var prev link
		if objs[0].Data != nil {
			if _, err := prev.decode(objs[0].Data); err != nil {
				return struct{}{}, faulty(err, "epoch")
			}
		}
		nonce, now := newNonce(), s.Now()
		entry := AuditEntry{Kind: EntryEpoch, Revision: objs[0].Revision + 1, At: now, Actor: actor, Authority: AuthoritySystem, Source: "store", Reason: reason, Nonce: nonce}
		tx := s.begin(ctx, now)
		tx.log(Put{Key: epochKey, From: objs[0].Revision}, prev, nil, nil, tx.nobody(), entry, change{})
		return struct{}{}, tx.commit(epochKey, objs[0].Revision+1, nonce)
	})
	return err
}
