package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrWitnessMissing is the sentinel of [*WitnessError].
var ErrWitnessMissing = errors.New("memory: the store has a witness that is not at hand")

// WitnessError says that a store has a witness, and that it is not the one at hand.
// Nothing fires, nothing is reinstated and nothing is erased without it. Reading works,
// and what takes trust away takes effect and gives [ErrUnwitnessed].
// errors.Is(err, ErrWitnessMissing) holds.
type WitnessError struct {
	Want Token // the witness of the store; zero: the one at hand was given up
	Have Token // the one at hand; zero: none
}

func (e *WitnessError) Error() string {
	const set = "set HEARSAY_WITNESS (a worker's -witness, a program's Options.Witness) to its file, or to the URL of its server"
	switch {
	case e.Want.isZero():
		return fmt.Sprintf("memory: the witness %s was given up, and was not told of what was taken away since; go on without it, or make a new one with hearsay witness create", e.Have)
	case e.Have.isZero():
		return fmt.Sprintf("memory: the store has a witness, %s, and it is not at hand; %s; if it is lost for good, hearsay witness give-up %s", e.Want, set, e.Want)
	default:
		return fmt.Sprintf("memory: the store has the witness %s, and the one at hand is another, %s; %s; if it is lost for good, hearsay witness give-up %s", e.Want, e.Have, set, e.Want)
	}
}

// Is reports whether target is [ErrWitnessMissing].
func (e *WitnessError) Is(target error) bool { return target == ErrWitnessMissing }

func (t Token) isZero() bool { return t == Token{} }

// Witnessing is what is known of the witness of a store.
type Witnessing struct {
	ID      Token // of the witness; zero: there is none
	GivenUp bool  // there was one
	AtHand  bool  // it is the one of the store's options
	Untold  int   // changes that it was not told of yet; at most some hundred are counted
}

// Attend makes sure that the witness of the store is at hand: [*WitnessError] if it is
// not. The first one that a store is used with becomes its witness: the keys record it,
// and the store's audit has an entry. From then on the keys count, whatever the store
// says. A program that is to act on rows calls it when it starts.
func (s *Store) Attend(ctx context.Context) error {
	known, err := s.witnesses(ctx)
	if err != nil {
		return err
	}
	have := s.identity()
	w := current(known)
	switch {
	case s.witness != nil && have.isZero():
		return invalid("witness", "required", "it does not say who it is")
	case w.ID == have:
		return s.noteOnce(ctx, have)
	case w.ID.isZero() && has(known, have):
		return &WitnessError{Have: have}
	case !w.ID.isZero():
		return &WitnessError{Want: w.ID, Have: have}
	}
	if err := s.keys.SetWitness(ctx, len(known), have); err != nil {
		if errors.Is(err, ErrConflict) { // another process was faster
			return s.Attend(ctx)
		}
		return fmt.Errorf("the witness: %w", err)
	}
	err = s.noteWitness(ctx, have, "store", AuthoritySystem, "the store was first used with it")
	if errors.Is(err, ErrDamaged) { // an audit finds it; the keys count
		return nil
	}
	return err
}

// Witnessing says which witness the store has. It changes nothing in the store.
func (s *Store) Witnessing(ctx context.Context) (Witnessing, error) {
	known, err := s.witnesses(ctx)
	w := current(known)
	if err != nil {
		return w, err
	}
	w.AtHand = !w.ID.isZero() && w.ID == s.identity()
	const most = 500
	hits, _, err := s.query(ctx, Query{Term: termUntold, Limit: most})
	w.Untold = len(hits)
	return w, err
}

// Heads reads the current heads of rows as [Store.Fitness] does, for who decides nothing
// by them: it works on a store whose witness is not at hand.
func (s *Store) Heads(ctx context.Context, ids ...ID) ([]Head, error) {
	objs, err := s.get(ctx, append(headKey.each(make([]string, 0, len(ids)+1), ids), revokedKey)...)
	if err != nil {
		return nil, err
	}
	heads, err := decodeHeads(objs[:len(ids)], ids)
	if err != nil {
		return nil, err
	}
	return heads, s.unfit(ctx, heads, objs[len(ids)])
}

// GiveUpWitness ends that the store has a witness: its file is lost for good. What was
// demoted or erased since an older copy or a fail-over is not found any more. It must be
// named; [ErrNotFound] if the store's is another, or none.
func (s *Store) GiveUpWitness(ctx context.Context, id Token, actor, reason string) error {
	for _, f := range [...]struct{ name, value string }{{"actor", actor}, {"reason", reason}} {
		if strings.TrimSpace(f.value) == "" {
			return invalid(f.name, "required", "who gives the witness up, and why")
		}
		if err := checkText(f.name, f.value, MaxField); err != nil {
			return err
		}
	}
	known, err := s.witnesses(ctx)
	if err != nil {
		return err
	}
	if w := current(known); id.isZero() || w.ID != id {
		return fmt.Errorf("%w: the store's witness is not %s", ErrNotFound, id)
	}
	if err := s.keys.SetWitness(ctx, len(known), Token{}); err != nil {
		return fmt.Errorf("the witness: %w", err)
	}
	if err := s.noteWitness(ctx, Token{}, actor, AuthorityPolicy, reason); err != nil && !errors.Is(err, ErrDamaged) {
		return fmt.Errorf("the keys record it, the audit does not: %w", err)
	}
	// In a log that whoever damaged the other one has not: permits are void too.
	return s.BumpEpoch(ctx, actor, clip("the witness "+id.String()+" was given up: "+reason, MaxField))
}

// noteOnce writes what the keys know into the audit of the store, if it is not there: a
// process died in between, or it was taken away. What is there is left as it is.
func (s *Store) noteOnce(ctx context.Context, id Token) error {
	if now := s.driver.Incarnation() + 1; id.isZero() || s.noted.Swap(now) == now {
		return nil
	}
	objs, err := s.get(ctx, witnessKey)
	if errors.Is(err, ErrDamaged) { // an audit finds it; the keys count
		return nil
	}
	if err != nil {
		s.noted.Store(0)
		return err
	}
	if objs[0].Revision == 0 { // that it cannot be written, an audit says; the keys count
		_ = s.noteWitness(ctx, id, "store", AuthoritySystem, "the store has it, by its keys")
	}
	return nil
}

func current(known []Token) Witnessing {
	if len(known) == 0 {
		return Witnessing{}
	}
	last := known[len(known)-1]
	return Witnessing{ID: last, GivenUp: last.isZero()}
}

func has(known []Token, id Token) bool {
	for _, k := range known {
		if k == id && !id.isZero() {
			return true
		}
	}
	return false
}

func (s *Store) identity() Token {
	if s.witness == nil {
		return Token{}
	}
	return s.witness.Identity()
}

// witnesses are those that the keys know of. What the store itself says counts where
// the keys have no word: they were copied before it had a witness.
func (s *Store) witnesses(ctx context.Context) ([]Token, error) {
	known, err := s.keys.Witnesses(ctx)
	if err != nil {
		return nil, fmt.Errorf("the witness: %w", err)
	}
	now := s.driver.Incarnation() + 1
	if s.attended.Load() == now {
		return known, nil
	}
	if _, err := s.admit(ctx); err != nil {
		return nil, err
	}
	if len(known) == 0 {
		noted, err := s.witnessNoted(ctx)
		if err != nil {
			return nil, err
		}
		for _, id := range noted {
			if err := s.keys.SetWitness(ctx, len(known), id); err != nil && !errors.Is(err, ErrConflict) {
				return nil, fmt.Errorf("the witness: %w", err)
			}
			known = append(known, id)
		}
	}
	s.attended.Store(now)
	return known, nil
}

// witnessNoted reads the store's own record: the log of one object.
func (s *Store) witnessNoted(ctx context.Context) (ids []Token, err error) {
	objs, err := s.get(ctx, witnessKey)
	if err != nil || objs[0].Revision == 0 {
		return nil, err
	}
	log, err := s.heldLog(ctx, objs[0], func(state []byte) error {
		if len(state) != len(Token{}) {
			return &TamperError{witnessKey, objs[0].Revision, "it names no witness"}
		}
		ids = append(ids, Token(state))
		return nil
	})
	if err == nil && log.Revision != uint64(len(ids)) {
		err = &TamperError{witnessKey, log.Revision, "it names no witness"}
	}
	return ids, err
}

// heldLog reads the log of an object, held against its chain and against the object. each,
// if not nil, hears the state after each entry.
func (s *Store) heldLog(ctx context.Context, o Object, each func(state []byte) error) (Log, error) {
	a, log := NewAuditor(s.keys, s.scope.tenant, s.scope.namespace), Log{Key: o.Key}
	for l, err := range s.entries(ctx, o.Key, 0) {
		if err == nil {
			err = a.Next(&log, l)
		}
		if err == nil && each != nil {
			err = each(log.state)
		}
		if err != nil {
			return log, err
		}
	}
	return log, a.End(&log, o)
}

// noteWitness writes the entry of the audit.
func (s *Store) noteWitness(ctx context.Context, id Token, actor string, authority Authority, reason string) error {
	_, err := retry(ctx, func() (struct{}, error) {
		objs, err := s.get(ctx, witnessKey)
		if err != nil {
			return struct{}{}, err
		}
		var prev link
		if objs[0].Data != nil {
			if _, err := prev.decode(objs[0].Data); err != nil {
				return struct{}{}, faulty(err, "witness")
			}
		}
		now := s.Now()
		tx := s.begin(ctx, now)
		e := AuditEntry{Kind: EntryWitness, Revision: objs[0].Revision + 1, At: now, Actor: actor, Authority: authority, Source: "witness", Reason: reason, Nonce: newNonce()}
		tx.log(Put{Key: witnessKey, From: objs[0].Revision}, prev, id[:], id[:], tx.nobody(), e, change{})
		return struct{}{}, tx.commit(witnessKey, objs[0].Revision+1, e.Nonce)
	})
	return err
}

// harms reports whether an entry of the transaction takes trust away or erases.
func (t *transaction) harms() bool {
	for i := range t.logged {
		if t.logged[i].entry.harms() {
			return true
		}
	}
	return false
}

// taken are the entries of the transaction that take trust away or erase.
func (t *transaction) taken() (kind EntryKind, leaves []Leaf) {
	kind = EntryTransition
	for i := range t.logged {
		l := &t.logged[i]
		if !l.entry.harms() {
			continue
		}
		if l.entry.Kind == EntryErase {
			kind = EntryErase
		}
		leaves = append(leaves, Leaf{Key: t.Puts[l.put].Key, Revision: t.Puts[l.put].From + 1, MAC: l.mac})
	}
	return kind, leaves
}

// witnessed tells the witness of entries that took trust away or erased.
func (t *transaction) witnessed() error {
	if t.untold != nil { // it waits in the store
		return fmt.Errorf("%w: %w", ErrUnwitnessed, t.untold)
	}
	w := t.store.witness
	if w == nil {
		return nil
	}
	kind, leaves := t.taken()
	if len(leaves) == 0 {
		return nil
	}
	if err := w.Acknowledge(t.ctx, kind, leaves); err != nil {
		if kept := t.store.leaveUntold(t.ctx, kind, leaves); kept != nil { // a conflict of it is none of the change
			return fmt.Errorf("%w: %w; %v", ErrUnwitnessed, err, kept)
		}
		return fmt.Errorf("%w: %w", ErrUnwitnessed, err)
	}
	return nil
}

// leaveUntold adds to the transaction what the witness is to be told: the entries that it has
// so far.
func (t *transaction) leaveUntold() {
	key := untoldKey.named(newNonce())
	e := AuditEntry{Kind: EntryWitness, Revision: 1, At: t.now, Actor: "store", Authority: AuthoritySystem, Source: "witness", Reason: "it is not told yet of what was taken away", Nonce: newNonce()}
	t.log(Put{Key: key, Add: []Term{untoldSince(t.now)}}, link{}, nil, nil, t.nobody(), e, change{})
	t.logged[len(t.logged)-1].untold = true
}

// leaveUntold keeps in the store what the witness did not confirm.
func (s *Store) leaveUntold(ctx context.Context, kind EntryKind, leaves []Leaf) error {
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_, err := retry(ctx, func() (struct{}, error) {
		tx := s.begin(ctx, s.Now())
		if tx.leaveUntold(); tx.err != nil {
			return struct{}{}, tx.err
		}
		l := &tx.logged[0]
		l.untold, l.data = false, encodeUntold(kind, leaves)
		l.state = l.data
		return struct{}{}, tx.commit(tx.Puts[l.put].Key, 1, l.entry.Nonce)
	})
	if err != nil {
		return fmt.Errorf("nor is it kept for the witness: %w", err)
	}
	return nil
}

// What an object of untold entries begins with.
const (
	untoldMark = 1
	toldMark   = 2 // and nothing follows
)

// untoldSince is the term by which the witness's news are found, oldest first.
func untoldSince(t time.Time) Term { return Term{termUntold, uint64(t.UnixMicro())} }

// untoldTerms are the terms that an object of untold entries carries after its log.
func (log *Log) untoldTerms() []Term {
	if isTold(log.state) {
		return nil
	}
	return []Term{untoldSince(log.at)}
}

func isTold(data []byte) bool { return len(data) == 1 && data[0] == toldMark }

func encodeUntold(kind EntryKind, leaves []Leaf) []byte {
	w := encoder{}
	w.byte(untoldMark)
	w.str(string(kind))
	w.num(uint64(len(leaves)))
	for i := range leaves {
		w.str(leaves[i].Key)
		w.num(leaves[i].Revision)
		w.b = append(w.b, leaves[i].MAC[:]...)
	}
	return w.b
}

func decodeUntold(data []byte) (kind EntryKind, leaves []Leaf, err error) {
	d := decoder{b: data}
	if d.byte() != untoldMark {
		return "", nil, errWire
	}
	kind = EntryKind(d.str())
	for n := d.num(); n > 0 && !d.bad; n-- {
		l := Leaf{Key: d.str(), Revision: d.num()}
		copy(l.MAC[:], d.take(uint64(len(l.MAC))))
		leaves = append(leaves, l)
	}
	return kind, leaves, d.end()
}

// TellWitness tells the witness what was taken away while it was not at hand, or did
// not confirm, and returns how many entries that were; [ErrUnwitnessed] if it still does
// not. Fitness does so when a process
// looks at the store first; one that runs for long calls it now and then.
func (s *Store) TellWitness(ctx context.Context) (told int, err error) {
	if s.witness == nil {
		return 0, nil
	}
	if err := s.Attend(ctx); err != nil {
		return 0, err
	}
	const page = 100
	for {
		hits, _, err := s.query(ctx, Query{Term: termUntold, Limit: page})
		if err != nil || len(hits) == 0 {
			return told, err
		}
		n, err := s.tell(ctx, hits)
		told += n
		if err != nil {
			return told, err
		}
	}
}

// tell tells the witness what some objects have, and notes in them that it knows.
func (s *Store) tell(ctx context.Context, hits []Hit) (told int, err error) {
	known := map[string]uint64{} // an entry stands for those before it
	if err := s.witness.Acknowledged(ctx, func(_ EntryKind, l Leaf) error { known[l.Key] = l.Revision; return nil }); err != nil {
		return 0, fmt.Errorf("the witness: %w", err)
	}
	for _, h := range hits {
		data, prev, revision, err := s.untold(ctx, h.Key)
		if err != nil {
			return told, err
		}
		if !isTold(data) {
			kind, leaves, err := decodeUntold(data)
			if err != nil {
				return told, faulty(err, KeyText(h.Key))
			}
			news := leaves[:0]
			for _, l := range leaves {
				if l.Revision > known[l.Key] {
					news, known[l.Key] = append(news, l), l.Revision
				}
			}
			if len(news) > 0 {
				if err := s.witness.Acknowledge(ctx, kind, news); err != nil {
					return told, fmt.Errorf("%w: %w", ErrUnwitnessed, err)
				}
			}
			told += len(news)
		}
		tx := s.begin(ctx, s.Now())
		e := AuditEntry{Kind: EntryWitness, Revision: revision + 1, At: tx.now, Actor: "store", Authority: AuthoritySystem, Source: "witness", Reason: "it was told", Nonce: newNonce()}
		tx.log(Put{Key: h.Key, From: revision, Remove: []string{termUntold}}, prev, []byte{toldMark}, []byte{toldMark}, tx.nobody(), e, change{})
		if err := tx.commit(h.Key, revision+1, e.Nonce); err != nil && !errors.Is(err, ErrConflict) { // another process told it too
			return told, err
		}
	}
	return told, nil
}

// untold reads an object of untold entries, held against its log: nobody without a key
// tells the witness anything.
func (s *Store) untold(ctx context.Context, key string) (data []byte, prev link, revision uint64, err error) {
	objs, err := s.get(ctx, key)
	if err != nil {
		return nil, prev, 0, err
	}
	if !untoldKey.holds(key) || objs[0].Data == nil {
		return nil, prev, 0, fmt.Errorf("%w: %s is listed for the witness", ErrDamaged, KeyText(key))
	}
	log, err := s.heldLog(ctx, objs[0], nil)
	if err != nil {
		return nil, prev, 0, err
	}
	return log.state, log.link(), log.Revision, nil
}
