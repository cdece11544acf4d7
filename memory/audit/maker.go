package audit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/hearsay-go/hearsay/memory"
)

// MakerOptions of [NewMaker]. Every zero field has a usable default.
type MakerOptions struct {
	// Window is how long after the moment that it bears an entry may still appear in
	// the store: a write takes time, and clocks of several machines differ. What
	// changed within it is looked at again. 0 = one minute.
	Window time.Duration
	// Verifiers verify the checkpoints that are there: the signer's own and those of
	// the keys before it. nil = that of the signer, which must then be a [*Key].
	Verifiers []note.Verifier
	// Witness, if not nil, is shown every checkpoint. A store that is behind it gets
	// no checkpoint.
	Witness *Witness
	// Made, if not nil, hears of each look of [Maker.Serve] that ended well, with the
	// newest checkpoint: the one before, if nothing had changed.
	Made func(memory.Checkpoint)
	// Report, if not nil, hears of the faults that [Maker.Serve] goes on after.
	Report func(error)
}

// Maker makes the checkpoints of a store. Several may do so at once, in several
// processes: of two, one wins and the other goes on from there.
type Maker struct {
	store    *memory.Store
	signer   note.Signer
	origin   string
	window   time.Duration
	known    known
	witness  *Witness
	made     func(memory.Checkpoint)
	report   func(error)
	scope    string
	perChunk int
}

// NewMaker returns a maker. origin names the deployment, as a URL without a scheme
// does: "acme.example/hearsay". It must stay the same for the life of the store;
// the digest of tenant and namespace is added to it.
func NewMaker(s *memory.Store, signer note.Signer, origin string, o *MakerOptions) (*Maker, error) {
	if o == nil {
		o = &MakerOptions{}
	}
	scope := scopeOf(s.Tenant(), s.Namespace())
	m := &Maker{store: s, signer: signer, origin: origin + "/" + scope, window: o.Window, known: o.Verifiers,
		witness: o.Witness, made: o.Made, report: o.Report, scope: scope, perChunk: memory.MaxLeaves}
	if m.window <= 0 {
		m.window = time.Minute
	}
	if k, ok := signer.(*Key); ok && len(m.known) == 0 {
		m.known = known{k.Verifier()}
	}
	if _, err := m.known.Verifier(signer.Name(), signer.KeyHash()); err != nil {
		return nil, badKey("the signer's own verifier is not among the verifiers")
	}
	if origin == "" || strings.ContainsFunc(origin, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, fmt.Errorf("%w: the origin %q is empty or has blanks", memory.ErrInvalid, origin)
	}
	return m, nil
}

// attempts bounds how often a maker that lost a race starts again.
const attempts = 16

// Make commits to every log that changed since the last checkpoint, and returns
// the newest checkpoint. If nothing changed it makes none. What is signed was read
// twice, and what was stored is read once more: a bit that flips on the way ends in
// an error and not in a signature.
func (m *Maker) Make(ctx context.Context) (memory.Checkpoint, error) { return m.make(ctx, false) }

// Sweep is Make over all logs, whenever they changed. It finds what became visible
// only after the window, at the cost of reading all checkpoints and where each log
// ends.
func (m *Maker) Sweep(ctx context.Context) (memory.Checkpoint, error) { return m.make(ctx, true) }

func (m *Maker) make(ctx context.Context, sweep bool) (c memory.Checkpoint, err error) {
	if m.witness != nil { // first: a store that was put back gets nothing signed
		if err := m.witness.See(ctx, m.store, m.known...); err != nil {
			return memory.Checkpoint{}, err
		}
	}
	for range attempts {
		r := run{Maker: m}
		if c, err = r.make(ctx, sweep); !errors.Is(err, memory.ErrConflict) {
			break
		}
	}
	if err == nil && m.witness != nil {
		err = m.witness.See(ctx, m.store, m.known...)
	}
	return c, err
}

// sweepEvery is how often Serve sweeps, besides at its start.
const sweepEvery = 24 * time.Hour

// Serve makes checkpoints until the context ends, and then returns nil. It begins
// with a sweep. A store that cannot be reached is tried again; what it returns
// otherwise is a reason to stop: the audit does not hold, the store is behind its
// witness, or a key or the origin is wrong.
func (m *Maker) Serve(ctx context.Context, every time.Duration) error {
	if every <= 0 {
		return fmt.Errorf("%w: checkpoints every %s", memory.ErrInvalid, every)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var swept time.Time
	for {
		sweep := time.Since(swept) > sweepEvery
		c, err := m.make(ctx, sweep)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if sweep {
				swept = time.Now()
			}
			if m.made != nil {
				m.made(c)
			}
		case errors.Is(err, memory.ErrTampered), errors.Is(err, ErrRollback), errors.Is(err, ErrWitness), errors.Is(err, ErrKey),
			errors.Is(err, memory.ErrKey), errors.Is(err, memory.ErrInvalid), errors.Is(err, memory.ErrClosed), errors.Is(err, ErrUnsound):
			return err
		default:
			if m.report != nil {
				m.report(err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// ErrUnsound: what was to be signed, or what was stored, is not what was read.
// Memory or a disk is failing; nothing was signed, or what was is not to be
// relied on.
var ErrUnsound = errors.New("audit: what was read twice differs")

// run is one look for changes. It may end in several checkpoints.
type run struct {
	*Maker
	last    memory.Checkpoint
	place   *position
	since   memory.Sequence
	until   memory.Sequence
	first   uint64 // checkpoint of this run
	ahead   bool   // the last checkpoint is of the future
	seen    map[[16]byte]uint64
	carried []carriedLog
}

// maxCarried bounds what a state carries. What does not fit is committed to twice
// if it is listed again, which does no harm.
const maxCarried = 100_000

func (r *run) make(ctx context.Context, sweep bool) (memory.Checkpoint, error) {
	r.until = memory.SequenceAt(r.store.Now())
	if err := r.begin(ctx, sweep); err != nil {
		return memory.Checkpoint{}, err
	}
	var leaves []memory.Leaf
	for l, err := range r.store.Changed(ctx, r.since) {
		if err != nil {
			return memory.Checkpoint{}, err
		}
		key := keyDigest(l.Key)
		revision, ok := r.seen[key]
		switch {
		case ok && revision > l.Revision:
			return memory.Checkpoint{}, &memory.TamperError{Key: l.Key, Revision: l.Revision,
				Reason: fmt.Sprintf("a checkpoint committed to entry %d: its tail is cut", revision)}
		case ok && revision == l.Revision:
			r.carried = append(r.carried, carriedLog{key, revision})
			continue
		}
		r.seen[key] = l.Revision
		if leaves = append(leaves, l); len(leaves) == r.perChunk {
			// More may follow, so that this one has looked no further than the last.
			if err := r.put(ctx, leaves, r.last.Until); err != nil {
				return memory.Checkpoint{}, err
			}
			leaves = nil
		}
	}
	if len(leaves) > 0 || r.first > 0 || r.ahead {
		if err := r.put(ctx, leaves, r.until); err != nil {
			return memory.Checkpoint{}, err
		}
	}
	return r.last, nil
}

// begin reads where to go on from, and what was committed to and may be listed as
// changed once more.
func (r *run) begin(ctx context.Context, sweep bool) (err error) {
	if r.last, err = r.store.LastCheckpoint(ctx); err != nil {
		return err
	}
	var st state
	if r.place, st, err = at(r.scope, r.known, &r.last); err != nil {
		return err
	}
	if r.place.origin != "" && r.place.origin != r.origin {
		return fmt.Errorf("%w: the origin is %q, and the checkpoints of the store have %q", memory.ErrInvalid, r.origin, r.place.origin)
	}
	r.seen = map[[16]byte]uint64{}
	for _, c := range st.carried {
		r.seen[c.key] = c.revision
	}
	// A maker whose clock was ahead says that it looked further than it did.
	r.ahead = r.last.Until > memory.SequenceAt(r.store.Now().Add(r.window))
	from := st.from
	if sweep || r.ahead {
		from = 1
	} else if r.last.Index > 0 {
		r.since = memory.SequenceAt(r.last.Until.Time().Add(-r.window))
	}
	note := func(leaves []memory.Leaf) {
		for i := range leaves {
			key := keyDigest(leaves[i].Key)
			r.seen[key] = max(r.seen[key], leaves[i].Revision)
		}
	}
	if from == r.last.Index || r.last.Index == 0 {
		note(r.last.Leaves)
		return nil
	}
	for c, err := range r.store.Checkpoints(ctx, max(from, 1)-1) {
		if err != nil {
			return err
		}
		note(c.Leaves)
	}
	return nil
}

// put signs and stores one checkpoint.
func (r *run) put(ctx context.Context, leaves []memory.Leaf, until memory.Sequence) error {
	hashes := make([][]byte, len(leaves))
	for i := range leaves {
		hashes[i] = leafHash(&leaves[i])
	}
	grown, err := r.place.grown(hashes)
	if err != nil {
		return err
	}
	c := memory.Checkpoint{Index: r.last.Index + 1, Size: grown.End(), Until: until, Leaves: leaves}
	if r.first == 0 {
		r.first = c.Index
	}
	st := state{tree: grown.Hashes(), from: r.first, carried: r.carried[max(0, len(r.carried)-maxCarried):]}
	c.State = st.encode()
	if err := r.readAgain(ctx, leaves, hashes); err != nil {
		return err
	}
	again, err := r.place.grown(hashes)
	if err != nil {
		return err
	}
	if !again.Equal(grown) {
		return fmt.Errorf("%w: the tree of checkpoint %d", ErrUnsound, c.Index)
	}
	s := statement{origin: r.origin, size: c.Size, root: rootOf(again), index: c.Index, previous: r.place.digest, until: until, state: sha256.Sum256(c.State)}
	if c.Note, err = note.Sign(&note.Note{Text: s.text()}, r.signer); err != nil {
		return badKey("%w", err)
	}
	// What was signed, and then what was stored, must verify as it will for everybody.
	place, err := r.check(&c)
	if err != nil {
		return err
	}
	if err := r.store.PutCheckpoint(ctx, c); err != nil {
		return err
	}
	for kept, err := range r.store.Checkpoints(ctx, c.Index-1) {
		if errors.Is(err, memory.ErrTampered) {
			return fmt.Errorf("%w: %w", ErrUnsound, err)
		}
		if err != nil {
			return err
		}
		if _, err := r.check(&kept); err != nil {
			return err
		}
		break
	}
	r.last, r.place = c, place
	return nil
}

func (r *run) check(c *memory.Checkpoint) (*position, error) {
	place, _, err := at(r.scope, r.known, &r.last)
	if err == nil {
		_, _, err = place.next(r.known, c)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsound, err)
	}
	return place, nil
}

// readAgain reads the leaves from the store once more and puts the hash of what it
// reads in the place of the first one. A log that moved meanwhile keeps the first.
func (r *run) readAgain(ctx context.Context, leaves []memory.Leaf, hashes [][]byte) error {
	place := make(map[string]int, len(leaves))
	for i := range leaves {
		place[leaves[i].Key] = i
	}
	left := len(place)
	if left == 0 {
		return nil
	}
	for l, err := range r.store.Changed(ctx, r.since) {
		if err != nil {
			return err
		}
		i, ok := place[l.Key]
		if !ok || l.Revision != leaves[i].Revision {
			continue
		}
		if hashes[i] = leafHash(&l); l.MAC != leaves[i].MAC {
			return fmt.Errorf("%w: entry %d of %s", ErrUnsound, l.Revision, memory.KeyText(l.Key))
		}
		delete(place, l.Key)
		if left--; left == 0 {
			return nil
		}
	}
	return nil
}
