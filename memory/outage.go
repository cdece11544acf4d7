package memory

import (
	"context"
	"slices"
	"time"
)

// A worker says through the store which verifiers are down, so that what an agent writes
// meanwhile can be told from what nobody has got round to (SR-2.2). It says so under a
// lease. That chooses a label and words: no outcome of a call, no order of checks, and no
// breaker of another process goes by it. What is absent, has expired or cannot be read is
// not known.

// VerifierState is what one worker knows of one verifier.
type VerifierState struct {
	Name       string
	Predicates []string // that it can be asked about, in any spelling; none = all
	Down       bool
	// Advisory: no claim waits for it, such as a second model, whose word alone verifies nothing. What is
	// written while it is down is not labelled.
	Advisory bool
}

// Bits of a state as it is kept.
const (
	verifierDown     = 1
	verifierAdvisory = 2
)

// Limits of what workers say.
const (
	MaxVerifiers = 256            // of one worker
	MaxLease     = 24 * time.Hour // of what it says
	maxWorkers   = 64             // whose lease has not ended
)

// outages is what the workers of a scope say of the verifiers.
type outages struct {
	workers []workerSays
}

type workerSays struct {
	name  string
	until time.Time
	of    []VerifierState
}

// knownOutages are outages as they were read last.
type knownOutages struct {
	outages
	at time.Time
}

// outagesStand is how long what was read of them does for a write that reads nothing else.
const outagesStand = 5 * time.Second

func (o *outages) encode() []byte {
	e := encoder{}
	e.num(uint64(len(o.workers)))
	for _, w := range o.workers {
		e.str(w.name)
		e.time(w.until)
		e.num(uint64(len(w.of)))
		for _, v := range w.of {
			e.str(v.Name)
			var bits byte
			if v.Down {
				bits |= verifierDown
			}
			if v.Advisory {
				bits |= verifierAdvisory
			}
			e.byte(bits)
			e.strs(v.Predicates)
		}
	}
	return e.b
}

// outagesOf reads the object. One that cannot be read says nothing.
func outagesOf(o Object) outages {
	if o.Data == nil {
		return outages{}
	}
	var out outages
	d := decoder{b: o.Data}
	for n := d.num(); n > 0 && !d.bad; n-- {
		w := workerSays{name: d.str(), until: d.time()}
		for n := d.num(); n > 0 && !d.bad; n-- {
			v := VerifierState{Name: d.str()}
			bits := d.byte()
			v.Down, v.Advisory, v.Predicates = bits&verifierDown > 0, bits&verifierAdvisory > 0, d.strs()
			w.of = append(w.of, v)
		}
		out.workers = append(out.workers, w)
	}
	if d.end() != nil {
		return outages{}
	}
	return out
}

// down reports whether all verifiers that may be asked about a content are down, and there
// is one. A verifier that one worker reaches is not down.
func (o *outages) down(c Content, now time.Time) bool {
	if !c.Typed() {
		return false
	}
	states := map[string]bool{} // whether nobody reaches it
	for _, w := range o.workers {
		if !now.Before(w.until) {
			continue
		}
		for _, v := range w.of {
			if v.Advisory || !v.covers(c) {
				continue
			}
			down, known := states[v.Name]
			states[v.Name] = v.Down && (down || !known)
		}
	}
	for _, down := range states {
		if !down {
			return false
		}
	}
	return len(states) > 0
}

// covers reports whether the verifier may be asked about a content. Only models are asked about text.
func (v *VerifierState) covers(c Content) bool {
	if !c.Typed() && !v.Advisory {
		return false
	}
	return len(v.Predicates) == 0 || slices.ContainsFunc(v.Predicates, func(p string) bool { return Canonical(p) == Canonical(c.Predicate) })
}

// covered reports whether a worker has a verifier that may be asked about a content, up or down.
func (o *outages) covered(c Content, now time.Time) bool {
	for _, w := range o.workers {
		if now.Before(w.until) && slices.ContainsFunc(w.of, func(v VerifierState) bool { return v.covers(c) }) {
			return true
		}
	}
	return false
}

// Covered reports of each content whether a worker says, by [Store.PublishVerifiers], that it has a
// verifier that may be asked about it. False means that none is known.
func (s *Store) Covered(ctx context.Context, contents ...Content) ([]bool, error) {
	objs, damaged, err := s.each(ctx, []string{outageKey})
	if err != nil {
		return nil, err
	}
	s.noteOutages(objs[0], len(damaged) > 0)
	known, now, out := s.outages.Load(), s.Now(), make([]bool, len(contents))
	for i, c := range contents {
		out[i] = known.covered(c, now)
	}
	return out, nil
}

// PublishVerifiers says, for one worker, how its verifiers are, until its lease ends. Each
// time it says all that it knows. A lease of 0 takes back what it said.
func (s *Store) PublishVerifiers(ctx context.Context, worker string, lease time.Duration, of []VerifierState) error {
	switch {
	case worker == "":
		return invalid("worker", "required", "who says so")
	case lease < 0 || lease > MaxLease:
		return invalid("lease", "out_of_range", "%s, want 0 to %s", lease, MaxLease)
	case len(of) > MaxVerifiers:
		return invalid("verifiers", "too_many", "%d, at most %d", len(of), MaxVerifiers)
	}
	if err := checkText("worker", worker, MaxField); err != nil {
		return err
	}
	for _, v := range of {
		if v.Name == "" {
			return invalid("verifier", "required", "a verifier has a name")
		}
		for _, name := range append([]string{v.Name}, v.Predicates...) {
			if err := checkText("verifier", name, MaxField); err != nil {
				return err
			}
		}
	}
	_, err := retry(ctx, func() (struct{}, error) {
		objs, _, err := s.each(ctx, []string{outageKey})
		if err != nil {
			return struct{}{}, err
		}
		now := s.Now()
		said := outagesOf(objs[0])
		said.workers = slices.DeleteFunc(said.workers, func(w workerSays) bool { return w.name == worker || !now.Before(w.until) })
		if lease > 0 {
			said.workers = append(said.workers, workerSays{name: worker, until: now.Add(lease), of: of})
		}
		if n := len(said.workers); n > maxWorkers { // those that end first say least
			slices.SortStableFunc(said.workers, func(a, b workerSays) int { return a.until.Compare(b.until) })
			said.workers = said.workers[n-maxWorkers:]
		}
		return struct{}{}, s.write(ctx, Batch{Puts: []Put{{Key: outageKey, From: objs[0].Revision, Data: said.encode()}}})
	})
	return err
}

// VerifiersDown reports whether workers say that every verifier of a content is down. It
// is false where nothing is known.
func (s *Store) VerifiersDown(ctx context.Context, c Content) (bool, error) {
	objs, damaged, err := s.each(ctx, []string{outageKey})
	if err != nil {
		return false, err
	}
	s.noteOutages(objs[0], len(damaged) > 0)
	return s.outages.Load().down(c, s.Now()), nil
}

// noteOutages keeps what was read of them.
func (s *Store) noteOutages(o Object, damaged bool) {
	known := &knownOutages{at: s.Now()}
	if !damaged {
		known.outages = outagesOf(o)
	}
	s.outages.Store(known)
}

// outagesKnown reports whether they were read lately.
func (s *Store) outagesKnown() bool {
	known := s.outages.Load()
	return known != nil && s.Now().Sub(known.at) < outagesStand
}

// labelled is a draft with the label that an outage gives it.
func (s *Store) labelled(d Draft, now time.Time) Draft {
	if known := s.outages.Load(); d.LabelOutage && d.State == StateUnverified && d.Quotes == "" && known != nil && known.down(d.Content, now) {
		d.State = StateUnavailableAtWriteTime
	}
	return d
}
