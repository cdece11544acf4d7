package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ImportSource says where imported rows come from.
type ImportSource struct {
	// Name is what the names of rows are unique in: another store, a program. Rows
	// of a source that was verified and of one that was not have different names.
	Name string
	// Dump names one file of the source; the cursor is kept for it.
	Dump string
	// Actor is who imports.
	Actor string
	// Trusted says that a signature over all of the rows was verified: their origins
	// are kept. Else each is the claim of a model, [ImportedBy], critical, of unknown
	// lineage, restricted until somebody has looked at it ([FlagImported]), and to be
	// checked as often as any: a dump chooses nothing of its own bar.
	Trusted bool
}

// Imported is one row of another store. The state of its draft does not count: it
// lands unverified, with new id, closure and depth (I-1). Its evidence is kept
// as information, void.
type Imported struct {
	Name  string // what the row is called there
	Draft Draft  // without DerivedFrom, SelectedBy and Quotes
	// DerivedFrom and SelectedBy are names of rows of the source, or ids of this
	// store. A parent has to be imported before its children.
	DerivedFrom []string
	SelectedBy  []string
	// Quotes names the row that this one quotes, in the same way; "" = none. It has to be
	// imported before.
	Quotes string
	// Lacking lets the row be written if a parent is not there: of unknown lineage,
	// and no longer first hand. Else it is refused.
	Lacking bool

	// What is known against the row there stays against it. Unset is nothing. Of the
	// flags FlagContested, FlagTainted and FlagLineageUnknown count.
	Security  Security
	Retrieval Retrieval
	Flags     Flags

	WrittenAt time.Time // there; zero = not known. Its freshness counts from then
	Note      string    // for the audit: what else was known of it there

	actor, source string
	unvouched     bool // no signature says whose it is
}

// ImportReceipt is what became of one imported row.
type ImportReceipt struct {
	Receipt
	Known bool  // it was here already, by an earlier import or as the very row; nothing was written
	Err   error // why it was refused; nothing of it was written
}

// Importing writes the rows of one source. It is not safe for concurrent use.
type Importing struct {
	s      *Store
	from   ImportSource
	cursor Object
}

// Importing starts or resumes the import of one dump.
func (s *Store) Importing(ctx context.Context, from ImportSource) (*Importing, error) {
	for _, f := range [...]struct{ name, value string }{{"source", from.Name}, {"dump", from.Dump}, {"actor", from.Actor}} {
		if err := checkText(f.name, f.value, MaxField); err != nil {
			return nil, err
		}
	}
	if strings.TrimSpace(from.Actor) == "" {
		return nil, invalid("actor", "required", "who imports")
	}
	i := &Importing{s: s, from: from}
	return i, i.read(ctx)
}

func (i *Importing) token(kind, name string) Token {
	k := digest("import/1", fmt.Sprint(i.from.Trusted), i.from.Name, name)
	return i.s.scope.blind(kind, string(k[:]))
}

func (i *Importing) read(ctx context.Context) error {
	objs, err := i.s.get(ctx, cursorKey.at(i.token("cursor", i.from.Dump)))
	if err == nil {
		i.cursor = objs[0]
	}
	return err
}

// Cursor is what the last Put that was acknowledged was given; nil if there was none,
// or if the import was finished.
func (i *Importing) Cursor() []byte { return i.cursor.Data }

// Finish forgets the cursor: the next import of the dump starts at its beginning.
func (i *Importing) Finish(ctx context.Context) error {
	if i.cursor.Data == nil {
		return nil
	}
	return i.mark(ctx, nil)
}

// mark moves the cursor alone. Another import of the same dump may move it too:
// what either says is done, is done.
func (i *Importing) mark(ctx context.Context, cursor []byte) error {
	_, err := retry(ctx, func() (struct{}, error) {
		if err := i.read(ctx); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, i.s.write(ctx, Batch{Puts: []Put{{Key: i.cursor.Key, From: i.cursor.Revision, Data: cursor}}})
	})
	if err == nil {
		i.cursor.Revision++
		i.cursor.Data = cursor
	}
	return err
}

// Put writes rows in as few transactions as they fit in. The last of them also has the cursor
// that the function makes of what becomes of the rows; it may be called more than once.
//
// A row that is refused refuses no other row. Its receipt gives the reason:
//   - it breaks a rule of [Draft]
//   - its name stands for a row with another claim
//   - a parent is not there
//   - the row, or one that it is made from, was erased
//
// A row that was imported before is left as it is. The claim of any other row collapses as
// it does in [Store.Put].
//
// On an error the rows up to some point were written; the same rows again are safe.
func (i *Importing) Put(ctx context.Context, rows []Imported, cursor func([]ImportReceipt) []byte) ([]ImportReceipt, error) {
	out := make([]ImportReceipt, len(rows))
	ready, refused := make([]foreign, len(rows)), map[string]bool{}
	for j := range rows {
		ready[j] = i.receive(rows[j])
	}
	if err := i.s.prepare(ctx, ready); err != nil {
		return out, err
	}
	window, marked := len(rows), false
	for at := 0; at < len(rows); {
		n := min(window, len(rows)-at)
		var last func() []byte
		if at+n == len(rows) {
			last = func() []byte { return cursor(out) }
		}
		done, err := retry(ctx, func() (int, error) { return i.put(ctx, ready[at:at+n], out[at:at+n], last, refused) })
		switch {
		case err == nil:
			at += done
			window = max(2*done, 16)
			marked = at == len(rows)
		case ctx.Err() != nil || !alone(err):
			return out, err
		case n > 1: // one of them: which?
			window = (n + 1) / 2
		default:
			out[at] = ImportReceipt{Err: err}
			refused[rows[at].Name] = true
			at++
		}
	}
	if marked {
		return out, nil
	}
	return out, i.mark(ctx, cursor(out))
}

// prepare makes the data keys of all that rows are about, in one go.
func (s *Store) prepare(ctx context.Context, rows []foreign) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	var names []string
	for i := range rows {
		if rows[i].fault != nil {
			continue
		}
		for _, name := range rows[i].Draft.subjects() {
			if _, known := s.subjects.get(name); !known {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	subjects := make([]string, len(names))
	for i, name := range names {
		subjects[i] = s.scope.subject(name)
	}
	ids, err := s.keys.Prepare(ctx, subjects...)
	if err != nil {
		return fmt.Errorf("the data keys: %w", err)
	}
	for i, id := range ids {
		if id != 0 {
			s.subjects.put(names[i], id)
		}
	}
	return nil
}

// importBatch is one transaction of an import. What it puts is read as if it were there.
type importBatch struct {
	*transaction
	i       *Importing
	seen    map[string]Object
	heads   map[ID]Head // of rows that the transaction puts
	echoes  map[string]*reentry
	order   []string // of the echoes
	refused map[string]bool
	size    int
	counted int // puts whose size is counted

	// One of its log entries, by which the transaction is known again.
	key      string
	revision uint64
	nonce    string
}

// foreign is an imported row that proves nothing, or why it can be none.
type foreign struct {
	Imported
	claim, ident Token
	fault        error
}

func (i *Importing) receive(m Imported) foreign {
	f := foreign{Imported: m}
	f.actor, f.source = i.from.Actor, i.from.Name
	if f.fault = f.check(); f.fault == nil && !i.from.Trusted {
		f.unsigned()
	}
	if f.Draft.SaidAt.IsZero() {
		f.Draft.SaidAt = f.WrittenAt
	}
	if f.fault == nil {
		f.fault = i.s.registry.fill(&f.Draft)
	}
	if f.fault == nil {
		f.claim, f.ident = i.s.tokens(&f.Draft)
	}
	return f
}

type reentry struct {
	by  Asserter
	run string
	row Head
	n   int
}

// put writes as many of the rows as fit in one transaction, and says how many.
func (i *Importing) put(ctx context.Context, rows []foreign, out []ImportReceipt, last func() []byte, refused map[string]bool) (int, error) {
	s := i.s
	b := &importBatch{transaction: s.begin(ctx, s.Now()), i: i, seen: map[string]Object{}, heads: map[ID]Head{}, echoes: map[string]*reentry{}, refused: refused}
	b.own = map[string]int{}
	if err := b.prefetch(rows); err != nil {
		return 0, err
	}
	done := 0
	for ; done < len(rows); done++ {
		r, full, err := b.add(rows[done])
		if full {
			break
		}
		if b.err != nil {
			return 0, b.err
		}
		if err != nil && !alone(err) {
			return 0, err
		}
		out[done] = ImportReceipt{Receipt: r.Receipt, Known: r.Known, Err: err}
		if err != nil {
			out[done].Receipt = Receipt{}
			refused[rows[done].Name] = true
		} else {
			delete(refused, rows[done].Name)
		}
	}
	for _, key := range b.order {
		e := b.echoes[key]
		record := b.seen[key]
		nonce, err := b.echo(e.by, e.run, e.row, record, "", e.n)
		if err != nil {
			return 0, err
		}
		b.key, b.revision, b.nonce = key, record.Revision+1, nonce
	}
	var cursor []byte
	if done == len(rows) && last != nil {
		cursor = last()
		if len(b.Puts) == 0 {
			return done, i.mark(ctx, cursor)
		}
		b.put(Put{Key: i.cursor.Key, From: i.cursor.Revision, Data: cursor})
	}
	if len(b.Puts) == 0 {
		return done, nil
	}
	err := b.commit(b.key, b.revision, b.nonce)
	if errors.Is(err, ErrConflict) { // an import of the same dump beside this one moves the cursor too
		err = errors.Join(err, i.read(ctx))
	}
	if err != nil {
		return 0, err
	}
	if cursor != nil {
		i.cursor.Revision++
		i.cursor.Data = cursor
	}
	return done, nil
}

// alone reports whether an error is about the row. Any other is about the store or its
// keys, and is none of the row's fault: a key may not be made because a disk is full.
func alone(err error) bool {
	return errors.Is(err, ErrInvalid) || errors.Is(err, ErrErased) || errors.Is(err, ErrClosureTooLarge) || errors.Is(err, ErrTooLarge)
}

// prefetch reads in two round trips what the rows are likely to need.
func (b *importBatch) prefetch(rows []foreign) error {
	keys := make([]string, 0, 6*len(rows))
	name := func(n string) {
		keys = append(keys, b.name(n))
		if id := ID(n); id.Valid() {
			keys = append(keys, headKey.of(id))
		}
	}
	for j := range rows {
		m := &rows[j]
		if m.fault != nil {
			continue
		}
		name(m.Name)
		for _, p := range m.DerivedFrom {
			name(p)
		}
		for _, p := range m.SelectedBy {
			name(p)
		}
		if m.Quotes != "" {
			name(m.Quotes)
		}
		keys = append(keys, claimKey.at(m.claim), echoKey.at(m.claim), identKey.at(m.ident))
	}
	if err := b.load(keys); err != nil {
		return err
	}
	var heads []string
	for _, k := range keys {
		o := b.seen[k]
		switch {
		case o.Data == nil:
		case claimKey.holds(k):
			c, err := b.store.claimOf(b.ctx, o)
			if err != nil {
				return err
			}
			heads = append(heads, headKey.of(c.holder()))
		case importKey.holds(k), identKey.holds(k):
			heads = append(heads, headKey.of(ID(o.Data)))
		}
	}
	return b.load(heads)
}

// load reads keys that were not read yet.
func (b *importBatch) load(keys []string) error {
	want := make([]string, 0, len(keys))
	for _, k := range keys {
		if _, ok := b.seen[k]; !ok {
			b.seen[k] = Object{Key: k}
			want = append(want, k)
		}
	}
	for chunk := range slices.Chunk(want, MaxQueryLimit) {
		objs, err := b.store.get(b.ctx, chunk...)
		if err != nil {
			return err
		}
		for _, o := range objs {
			b.seen[o.Key] = o
		}
	}
	return nil
}

func (b *importBatch) object(key string) (Object, error) {
	err := b.load([]string{key})
	return b.seen[key], err
}

// rowHead is the head of a row, one that the transaction puts too.
func (b *importBatch) rowHead(id ID) (Head, error) {
	if h, ok := b.heads[id]; ok {
		return h, nil
	}
	o, err := b.object(headKey.of(id))
	if err != nil || o.Data == nil {
		return Head{ID: id}, err
	}
	var h Head
	if err := decodeHead(&h, id, o.Revision, o.Data); err != nil {
		return h, fmt.Errorf("%w: %w", ErrStore, err)
	}
	return h, nil
}

func (b *importBatch) name(n string) string { return importKey.at(b.i.token("import", n)) }

// named finds the row that a name of the source stands for: one that was imported,
// or the very row. Its revision is 0 if there is none.
func (b *importBatch) named(n string) (Head, error) {
	o, err := b.object(b.name(n))
	if err != nil {
		return Head{}, err
	}
	if o.Data != nil {
		if h, err := b.rowHead(ID(o.Data)); err != nil || h.Revision > 0 {
			return h, err
		}
	}
	if id := ID(n); id.Valid() {
		return b.rowHead(id)
	}
	return Head{}, nil
}

// add composes one row. full says that it has to wait for the transaction to be written.
func (b *importBatch) add(f foreign) (r ImportReceipt, full bool, err error) {
	if f.fault != nil {
		return r, false, f.fault
	}
	s := b.store
	quoted, err := b.quoted(&f)
	if err != nil {
		return r, false, err
	}
	m := f.Imported
	here, err := b.named(m.Name)
	switch {
	case err != nil:
		return r, false, err
	case here.Has(FlagErased):
		return r, false, fmt.Errorf("%w: the row is %s here", ErrErased, here.ID)
	case here.Revision > 0 && here.Claim != f.claim && quoted == nil:
		return r, false, invalid("id", "conflict", "it names another claim here")
	case here.Revision > 0:
		return ImportReceipt{Receipt: Receipt{ID: here.ID, State: here.State(), Revision: here.Revision}, Known: true}, false, nil
	}
	if len(b.Puts)+len(b.Checks)+2*len(b.order) > MaxBatchOps*3/4 || b.size > MaxBatchBytes/4 {
		return r, true, nil
	}
	parents, full, err := b.parents(&m)
	if full || err != nil {
		return r, full, err
	}
	d := m.Draft
	if d.Origin != f.Draft.Origin { // a parent is missing
		f.claim, f.ident = s.tokens(&d)
	}
	objs := make([]Object, 3)
	for j, key := range [...]string{identKey.at(f.ident), claimKey.at(f.claim), echoKey.at(f.claim)} {
		if objs[j], err = b.object(key); err != nil {
			return r, false, err
		}
	}
	known, err := s.claimOf(b.ctx, objs[1])
	if err != nil {
		return r, false, err
	}
	onto := ID(objs[0].Data)
	var h Head
	if onto != "" { // of a row whose erasure was made good for, the identity may be left
		if h, err = b.rowHead(onto); err != nil {
			return r, false, err
		}
		if h.Has(FlagErased) {
			onto = ""
		}
	}
	if onto == "" && objs[1].Data != nil && !d.Origin.External() {
		onto = known.holder()
		if h, err = b.rowHead(onto); err != nil {
			return r, false, err
		}
	}
	name := b.seen[b.name(m.Name)]
	if onto != "" {
		e := b.echoes[objs[2].Key]
		if e == nil {
			e = &reentry{by: d.Asserter, run: d.Run, row: h}
			b.echoes[objs[2].Key] = e
			b.order = append(b.order, objs[2].Key)
		}
		e.n++
		b.link(name, onto)
		return ImportReceipt{Receipt: collapsed(h)}, false, nil
	}
	w, err := b.row(d, f.claim, known, objs, parents, quoted, &m)
	if err != nil {
		return r, false, err
	}
	b.heads[w.ID] = w.head
	b.key, b.revision, b.nonce = headKey.of(w.ID), 1, w.nonce
	b.link(name, w.ID)
	at := b.own[objs[1].Key] // of a row before, if that had the same claim
	b.seen[objs[1].Key] = Object{Key: objs[1].Key, Revision: b.Puts[at].From + 1, Data: b.Puts[at].Data}
	return ImportReceipt{Receipt: w.Receipt}, false, nil
}

// quoted resolves the name of the row that a row quotes, nil if it quotes none. Words
// whose claim was refused are free text like any other, made from what nobody knows.
func (b *importBatch) quoted(f *foreign) (*Head, error) {
	if f.Quotes == "" {
		return nil, nil
	}
	h, err := b.named(f.Quotes)
	if err != nil {
		return nil, err
	}
	if h.Revision == 0 && (f.Lacking || b.refused[f.Quotes]) {
		f.Flags |= FlagLineageUnknown
		f.secondHand()
	} else if err := quotable(&h); err != nil {
		return nil, err
	} else {
		f.Draft.Quotes = h.ID
	}
	f.claim, f.ident = b.store.tokens(&f.Draft)
	if f.Draft.Quotes == "" {
		return nil, nil
	}
	return &h, nil
}

// link puts the name of a row, and takes note of what the transaction has put.
func (b *importBatch) link(name Object, id ID) {
	b.put(Put{Key: name.Key, From: name.Revision, Data: []byte(id)})
	before := b.counted
	for _, p := range b.Puts[before:] {
		if p.Data != nil { // else it is logged, and is found by its head
			b.seen[p.Key] = Object{Key: p.Key, Revision: p.From + 1, Data: p.Data}
		}
		b.size += len(p.Key) + len(p.Data)
		for _, t := range p.Add {
			b.size += len(t.Name) + 8
		}
	}
	b.counted = len(b.Puts)
	if l := len(b.logged); l > 0 && b.logged[l-1].put >= before { // the entry is not written yet
		b.size += 1<<10 + len(b.logged[l-1].data)
		for _, e := range b.logged[l-1].change.added {
			b.size += 256 + len(e.Source) + len(e.Verifier) + len(e.Group) + len(e.Anchor.URI) + len(e.Authority)
		}
	}
}

func (b *importBatch) puts(key string) bool {
	_, ok := b.own[key]
	return ok
}

// parents resolves the names of the parents into the draft.
func (b *importBatch) parents(m *Imported) (parents []Head, full bool, err error) {
	d := &m.Draft
	for _, n := range m.DerivedFrom {
		h, err := b.named(n)
		switch {
		case err != nil:
			return nil, false, err
		case h.Has(FlagErased):
			return nil, false, fmt.Errorf("%w: row %s, which this one is made from", ErrErased, h.ID)
		case h.Revision == 0 && !m.Lacking && !b.refused[n]:
			return nil, false, invalid("derived_from", "not_found", "no such row before it")
		case h.Revision == 0:
			m.Flags |= FlagLineageUnknown
			m.secondHand()
			continue
		case h.Has(FlagTraced) && b.puts(headKey.of(h.ID)):
			return nil, true, nil // its lineage is traced in the store
		}
		if !slices.Contains(d.DerivedFrom, h.ID) {
			d.DerivedFrom = append(d.DerivedFrom, h.ID)
			parents = append(parents, h)
		}
	}
	for _, n := range m.SelectedBy {
		h, err := b.named(n)
		if err != nil {
			return nil, false, err
		}
		if h.Revision > 0 && !h.Has(FlagErased) && !slices.Contains(d.SelectedBy, h.ID) {
			d.SelectedBy = append(d.SelectedBy, h.ID)
		}
	}
	d.LineageUnknown = d.LineageUnknown || m.Flags.has(FlagLineageUnknown)
	return parents, false, nil
}

func (f Flags) has(of Flags) bool { return f&of != 0 }

// check asks of the row what [Draft.Check] asks of a draft, and makes it one that
// proves nothing: unverified, its evidence void.
func (m *Imported) check() error {
	d := &m.Draft
	evidence := d.Evidence
	d.State, d.Evidence, d.DerivedFrom, d.SelectedBy, d.Quotes = StateUnverified, nil, nil, nil, ""
	if err := d.Check(); err != nil {
		return err
	}
	if m.Quotes != "" && d.Content.Typed() {
		return invalid("quotes", "conflict", "a quotation is free text")
	}
	for _, err := range [...]error{
		checkText("id", m.Name, MaxField), checkText("quotes", m.Quotes, MaxField), checkText("note", m.Note, MaxField), checkTime("written_at", m.WrittenAt),
		optional(securityEnum, m.Security), optional(retrievalEnum, m.Retrieval),
	} {
		if err != nil {
			return err
		}
	}
	if m.Name == "" {
		return invalid("id", "required", "what the row is called there")
	}
	if len(evidence) > MaxItems {
		return invalid("evidence", "too_many", "%d, at most %d", len(evidence), MaxItems)
	}
	if len(m.DerivedFrom) > MaxItems {
		return invalid("derived_from", "too_many", "%d, at most %d", len(m.DerivedFrom), MaxItems)
	}
	if len(m.SelectedBy) > MaxItems {
		return invalid("selected_by", "too_many", "%d, at most %d", len(m.SelectedBy), MaxItems)
	}
	for j := range evidence {
		if err := evidence[j].check(); err != nil {
			return err
		}
		d.Evidence = append(d.Evidence, evidence[j].elsewhere())
	}
	return nil
}

// importVerifier marks evidence that was seen elsewhere: no evidence of this store
// is taken for a repetition of it.
const importVerifier = "import:"

// elsewhere is the evidence as information.
func (e Evidence) elsewhere() Evidence {
	if !strings.HasPrefix(e.Verifier, importVerifier) {
		e.Verifier = importVerifier + e.Verifier
	}
	e.Void, e.DerivedFrom = true, nil
	return e
}

// ImportedBy is the model and family of every row that came without a signature which
// shows whose it is.
const ImportedBy = "import"

// unsigned takes from a row whatever would set the bar that it has to pass: nobody
// vouches for who said it, from what it was made, how much hangs on it, until when it is
// good, or where it may be shown. Only what makes a row stricter is kept.
func (m *Imported) unsigned() {
	m.secondHand()
	m.unvouched = true
	d := &m.Draft
	said := d.Asserter.Group()
	if d.Asserter.Family != ImportedBy {
		m.Note = strings.TrimSpace(clip(m.Note, MaxField/2) + " " + d.Origin.String() + " of " + said)
		d.Asserter = Asserter{Principal: d.Asserter.Principal, Model: ImportedBy, Family: ImportedBy}
	}
	d.Criticality, d.CheckEvery, d.LineageUnknown = CriticalityCritical, 0, true
	d.Sensitivity = max(d.Sensitivity, SensitivityInternal)
	d.Kind, d.Layer = KindRaw, LayerEpisodic
	d.ValueConfidence, d.ValidTimeConfidence, d.ValidFromConfidence, d.ValidUntilConfidence = 0, 0, 0, 0
	d.DeclaredFrom, d.Supersedes, d.Quotes = nil, "", ""
	if m.Retrieval == RetrievalPrivilegedOnly { // who may be shown it is no word of a stranger's
		m.Retrieval = RetrievalRestricted
	}
}

// secondHand makes a first-hand row the claim of a model, made from what nobody
// knows. Who was said to have said it, and where, stays as information.
func (m *Imported) secondHand() {
	d := &m.Draft
	if !d.Origin.External() {
		return
	}
	said := d.Asserter.Group()
	if d.Origin == OriginUserAsserted { // with the erasure of who said it the row goes, still
		d.Subjects = append(slices.Clone(d.Subjects), d.Asserter.Principal)
	}
	if d.Anchor != "" {
		at := m.WrittenAt
		if at.IsZero() {
			at = minTime
		}
		d.Evidence = append(d.Evidence, Evidence{Relation: RelationContextualizes, Rank: RankModel, Source: said, Verifier: importVerifier,
			Group: said, Anchor: Anchor{URI: d.Anchor}, At: at, Void: true})
	}
	m.Note = strings.TrimSpace(clip(m.Note, MaxField/2) + " " + d.Origin.String() + " of " + said)
	d.Origin, d.Anchor = OriginModelDerived, ""
	d.Asserter = Asserter{Principal: d.Asserter.Principal, Model: ImportedBy, Family: ImportedBy}
	d.LineageUnknown = true
}

// lower keeps against a row what was known against it there, and how old it is. What
// nobody vouches for is restricted until a verifier or a person has looked at it (LS-14).
func (m *Imported) lower(h *Head) {
	if age := h.CreatedAt.Sub(m.WrittenAt); !m.WrittenAt.IsZero() && age > 0 {
		h.StaleAt, h.ExpiresAt = h.StaleAt.Add(-age), h.ExpiresAt.Add(-age)
	}
	h.Flags |= m.Flags & (FlagContested | FlagTainted)
	if m.Security > SecurityClean {
		h.Security = m.Security
	}
	if m.Security >= SecurityQuarantined {
		h.Flags |= FlagTainted
	}
	switch {
	case m.Retrieval == 0, m.Retrieval == RetrievalNormal:
	case m.Retrieval == RetrievalPrivilegedOnly && h.Retrieval == RetrievalRestricted: // what is recalled stays so
	default:
		h.Retrieval = m.Retrieval
	}
	if m.unvouched && h.Retrieval == RetrievalNormal {
		h.Retrieval = RetrievalRestricted
		h.Flags |= FlagImported
	}
}

// note is the reason of the audit entry.
func (m *Imported) note() string {
	s := "imported as " + clip(m.Name, 80)
	if !m.WrittenAt.IsZero() {
		s += ", written there " + m.WrittenAt.UTC().Format(time.RFC3339)
	}
	if m.Note != "" {
		s += ": " + m.Note
	}
	return s
}
