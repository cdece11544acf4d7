package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hearsay-go/hearsay/internal/sample"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// Store is how a driver's tests get at stores.
type Store struct {
	// Fresh must make an empty store and return what names it, in other processes too.
	Fresh func(t *testing.T) (name string)
	// Open must open a driver on it.
	Open func(ctx context.Context, name string) (memory.Driver, error)
}

// Which fault.
const (
	breaks = "error"
	hangs  = "hang"
	kills  = "kill"
)

// point is one call of an operation and what goes wrong there.
type point struct {
	Operation string
	At        int  // of the calls that write, or of the others
	Write     bool // of which
	After     bool
	Fault     string

	// Where a child plays it.
	Name, Tenant, Folder string
}

// kinds are the kinds of points that it is of; a sample has one of each.
func (p point) kinds() []string {
	return []string{p.Operation + ": " + p.Fault, fmt.Sprintf("writes %t, after it %t: %s", p.Write, p.After, p.Fault)}
}

func (p point) String() string {
	when := "before"
	if p.After {
		when = "after"
	}
	kind := "read"
	if p.Write {
		kind = "write"
	}
	return fmt.Sprintf("%s: %s %s %s %d", p.Operation, p.Fault, when, kind, p.At)
}

// rehearsal is what an operation does when nothing goes wrong.
type rehearsal struct {
	operation
	calls  []call
	states []string // of the store: before, and after each call that writes
}

func newScene(ctx context.Context, d memory.Driver, folder, tenant string, ring *keyring.Ring, w *audit.Witness, p *plan) (*scene, error) {
	x := &scene{ctx: ctx, p: p, ring: ring, driver: d, tenant: tenant, ledger: w.Ledger(tenant, "")}
	var err error
	if x.key, err = audit.ReadKey(filepath.Join(folder, "key")); err != nil {
		return nil, err
	}
	o := memory.Options{Tenant: tenant, Authority: anybody, Witness: witness{x.ledger, p}}
	if x.s, err = memory.New(driver{d, p}, keys{ring, p}, &o); err != nil {
		return nil, err
	}
	quiet := &plan{at: -1} // never armed
	o.Witness = x.ledger
	if x.plain, err = memory.New(driver{d, quiet}, ring, &o); err != nil {
		return nil, err
	}
	return x, x.plain.Attend(ctx) // so that no operation is the one that makes the witness known
}

// anybody may speak for any subject.
func anybody(string, string, string) bool { return true }

// set sets the stage: what was acknowledged before.
func (x *scene) set(o *operation) error {
	first := *x
	first.s = x.plain
	if err := o.setup(&first); err != nil {
		return fmt.Errorf("%s: the setup: %w", o.name, err)
	}
	return nil
}

// Child plays the part of the process that is killed, if this one was started for
// it; then it does not return. Call it first in TestMain.
func Child(open func(ctx context.Context, name string) (memory.Driver, error)) {
	text := os.Getenv(childPoint)
	if text == "" {
		return
	}
	var p point
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.play(open)
	}
	fmt.Println("not killed:", err)
	os.Exit(1)
}

const childPoint = "HEARSAY_FAULT_POINT"

func (p point) play(open func(ctx context.Context, name string) (memory.Driver, error)) error {
	ctx := context.Background()
	d, err := open(ctx, p.Name)
	if err != nil {
		return err
	}
	ring, err := keyring.Open(filepath.Join(p.Folder, "keys"), nil)
	if err != nil {
		return err
	}
	w, err := audit.OpenWitness(filepath.Join(p.Folder, "witness"))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(operations(), func(o operation) bool { return o.name == p.Operation })
	if i < 0 {
		return errors.New("no such operation")
	}
	o := operations()[i]
	plan := &plan{at: p.At, write: p.Write, after: p.After, fault: func(context.Context) error {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		for err == nil {
			runtime.Gosched()
		}
		return err
	}}
	x, err := newScene(ctx, d, p.Folder, p.Tenant, ring, w, plan)
	if err != nil {
		return err
	}
	if err := x.set(&o); err != nil {
		return err
	}
	plan.armed, plan.real = true, true
	return o.act(x)
}

// theatre is what the points of one store share.
type theatre struct {
	Store
	tenants atomic.Int64

	mu sync.Mutex
	performance
}

// Points runs every operation of a store once for every call that it makes and every
// fault, and logs how many there were.
func Points(t *testing.T, s Store) {
	t.Helper()
	p, err := perform(t, s, sample.Of, kills, breaks, hangs)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("faults: %d operations, %d calls (%d that write): %s", p.operations, p.calls, p.writes, listed(p.counts))
	t.Logf("faults: %d runs: of %d points, %d killed, %d errors, %d hangs; in %d the operation succeeded all the same", p.played[kills]+p.played[breaks]+p.played[hangs], p.points,
		p.played[kills], p.played[breaks], p.played[hangs], p.seenThrough)
	runs := p.played[kills] + p.played[breaks] + p.played[hangs]
	switch {
	case p.writes == 0:
		t.Error("faults: nothing writes")
	case sample.Full() && (runs != p.points || p.played[kills] <= p.writes || p.played[breaks] != p.calls+p.writes || p.played[hangs] != p.calls+p.writes):
		t.Error("faults: not every call was met with every fault")
	case len(p.missed) > 0:
		t.Errorf("faults: no point was played of %v", slices.Sorted(maps.Keys(p.missed)))
	}
}

// performance is what was played.
type performance struct {
	operations, calls, writes int
	points                    int             // of which a sample is played, or all
	counts                    map[string]int  // of calls by name
	played                    map[string]int  // runs by fault
	missed                    map[string]bool // kinds of points of which the sample has none
	seenThrough               int             // runs in which the operation succeeded all the same
}

// perform plays points with some faults, those that choose takes of all. The error is of
// the first that left something amiss.
func perform(t *testing.T, s Store, choose func(n int, kind func(i int) string) []int, faults ...string) (performance, error) {
	th := &theatre{Store: s}
	th.counts, th.played, th.missed = map[string]int{}, map[string]int{}, map[string]bool{}
	var err error
	// Each stage has a store of its own. Where a process is killed nobody has a handle
	// open meanwhile, so that who looks afterwards has to recover.
	var stages []*stage
	for range 4 * runtime.GOMAXPROCS(0) {
		st := &stage{theatre: th, name: s.Fresh(t), folder: t.TempDir(), memory: keyring.Ephemeral()}
		stages = append(stages, st)
		if st.ring, err = keyring.Create(filepath.Join(st.folder, "keys"), nil); err != nil {
			return th.performance, err
		}
		if _, err := audit.WriteKey(filepath.Join(st.folder, "key"), "hearsay.example"); err != nil {
			return th.performance, err
		}
		if st.witness, err = audit.CreateWitness(filepath.Join(st.folder, "witness")); err != nil {
			return th.performance, err
		}
		defer st.witness.Close()
	}
	defer func() {
		for _, st := range stages {
			err = errors.Join(err, st.close())
		}
	}()
	type part struct {
		*rehearsal
		point
	}
	var all []part
	for _, o := range operations() {
		r, err := stages[0].rehearse(t.Context(), o)
		if err != nil {
			return th.performance, err
		}
		th.operations++
		for _, c := range r.calls {
			th.calls++
			th.counts[c.name]++
			if c.durable {
				th.writes++
			}
		}
		for _, p := range r.points() {
			if slices.Contains(faults, p.Fault) {
				all = append(all, part{r, p})
			}
		}
	}
	th.points = len(all)
	var parts []part
	for _, p := range all {
		for _, kind := range p.kinds() {
			th.missed[kind] = true
		}
	}
	for _, i := range choose(len(all), func(i int) string { return all[i].kinds()[0] }) {
		parts = append(parts, all[i])
		for _, kind := range all[i].kinds() {
			delete(th.missed, kind)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var together sync.WaitGroup
	var next atomic.Int64
	for _, st := range stages {
		together.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(parts) {
					return
				}
				if err := st.run(ctx, parts[i].rehearsal, parts[i].point); err != nil {
					cancel(err)
				}
			}
		})
	}
	together.Wait()
	return th.performance, context.Cause(ctx)
}

func listed(counts map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprint(counts[name], " ", name))
	}
	return strings.Join(out, ", ")
}

// points are all the points of an operation. A read is the same whether it was done
// and its reply lost, or not done. A killed process leaves what the last write left,
// so there is one kill before the first call and one after each write.
func (r *rehearsal) points() (list []point) {
	n := map[bool]int{}
	for _, c := range r.calls {
		add := func(after bool, faults ...string) {
			for _, fault := range faults {
				list = append(list, point{Operation: r.name, At: n[c.durable], Write: c.durable, After: after, Fault: fault})
			}
		}
		add(false, breaks, hangs)
		if c.durable {
			add(true, breaks, hangs, kills)
		}
		if c.durable && n[true] == 0 || sample.Full() {
			add(false, kills)
		}
		if !c.durable && sample.Full() {
			add(true, kills)
		}
		n[c.durable]++
	}
	return list
}

func (r *rehearsal) writes() []string { return names(r.calls) }

// names are those of the calls that write.
func names(calls []call) (out []string) {
	for _, c := range calls {
		if c.durable {
			out = append(out, c.name)
		}
	}
	return out
}

// stage is a store on which points are played one after the other, each as a tenant
// of its own.
type stage struct {
	*theatre
	name    string
	open    memory.Driver // nil if it is closed
	folder  string        // of what a child needs
	witness *audit.Witness
	ring    *keyring.Ring // in the folder
	memory  *keyring.Ring // for what no process dies of
}

func (s *stage) close() error {
	if s.open == nil {
		return nil
	}
	err := s.open.Close()
	s.open = nil
	return err
}

func (s *stage) driver(ctx context.Context) (d memory.Driver, err error) {
	if s.open == nil {
		if d, err = s.Open(ctx, s.name); err != nil { // d may be a nil of the driver's own type
			return nil, err
		}
		s.open = d
	}
	return s.open, nil
}

func (s *stage) tenant() string { return fmt.Sprintf("tenant %d", s.tenants.Add(1)) }

// rehearse runs an operation without a fault.
func (s *stage) rehearse(ctx context.Context, o operation) (*rehearsal, error) {
	fail := func(err error) (*rehearsal, error) { return nil, fmt.Errorf("%s: %w", o.name, err) }
	d, err := s.driver(ctx)
	if err != nil {
		return fail(err)
	}
	r := &rehearsal{operation: o}
	// The calls are those of a run without looks in between. With them it may take more than a
	// second on a busy machine; a store forgets the keys of classes then, and reads them again.
	if r.calls, err = s.calls(ctx, d, o); err != nil {
		return fail(err)
	}
	p := &plan{at: -1}
	tenant := s.tenant()
	x, err := newScene(ctx, d, s.folder, tenant, s.memory, s.witness, p)
	if err != nil {
		return fail(err)
	}
	if err := x.set(&o); err != nil {
		return nil, err
	}
	remember := func() {
		text, _, lookErr := look(ctx, d, s.memory, tenant, false)
		err = errors.Join(err, lookErr)
		r.states = append(r.states, text)
	}
	remember()
	p.wrote, p.armed, p.real = remember, true, true
	if actErr := o.act(x); actErr != nil {
		return fail(actErr)
	}
	p.armed = false
	if err != nil {
		return fail(err)
	}
	if err := o.done(x); err != nil {
		return fail(err)
	}
	if len(r.calls) == 0 || len(r.states) < 2 {
		return fail(fmt.Errorf("%d calls, %d states: it did nothing", len(r.calls), len(r.states)))
	}
	different := len(slices.Compact(slices.Clone(r.states)))
	if between := different - 2; between != o.between {
		return fail(fmt.Errorf("between before and after the store was in %d other states, want %d:\n%s", between, o.between, difference(r.states[0], r.states[len(r.states)-1])))
	}
	return r, nil
}

// calls are those that an operation makes.
func (s *stage) calls(ctx context.Context, d memory.Driver, o operation) ([]call, error) {
	p := &plan{at: -1}
	x, err := newScene(ctx, d, s.folder, s.tenant(), s.memory, s.witness, p)
	if err != nil {
		return nil, err
	}
	if err := x.set(&o); err != nil {
		return nil, err
	}
	p.armed, p.real = true, true
	err = o.act(x)
	return p.calls, err
}

// look opens the store as it is now, without anything that was remembered of it.
func look(ctx context.Context, d memory.Driver, ring *keyring.Ring, tenant string, rebuilt bool) (string, []string, error) {
	fresh, err := memory.New(d, ring, &memory.Options{Tenant: tenant})
	if err != nil {
		return "", nil, err
	}
	return whole(ctx, fresh, rebuilt)
}

// run plays one point and asks what must hold after it.
func (s *stage) run(ctx context.Context, r *rehearsal, at point) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", at, err)
		}
	}()
	real := at.Write && r.writes()[at.At] == "compact"
	tenant := s.tenant()
	var want []string // what the store may be
	succeeded, ring := false, s.memory
	if at.Fault == kills {
		ring = s.ring
		if err := s.close(); err != nil {
			return err
		}
		at.Name, at.Tenant, at.Folder = s.name, tenant, s.folder
		if err := at.kill(); err != nil {
			return err
		}
		want = r.states // the reads before it differ from run to run
		if at.Write {
			done := at.At
			if at.After {
				done++
			}
			want = want[done : done+1]
		}
	} else {
		p := &plan{at: at.At, write: at.Write, after: at.After, real: real}
		d, err := s.driver(ctx)
		if err != nil {
			return err
		}
		acting := newLate(ctx)
		p.fault = func(asked context.Context) error {
			if at.Fault == breaks {
				return errFault
			}
			acting.pass()
			<-asked.Done()
			return asked.Err()
		}
		x, err := newScene(ctx, d, s.folder, tenant, ring, s.witness, p)
		if err != nil {
			return err
		}
		if err := x.set(&r.operation); err != nil {
			return err
		}
		// What is asked of the plain store is no part of the operation.
		y := *x
		y.ctx = acting
		y.plain = x.plain
		p.armed = true
		actErr := r.act(&y)
		p.armed = false
		if !p.fired {
			// What is kept for a second is read again after it: a run that is faster than the
			// rehearsal was makes fewer reads, and the fault meets the last of them.
			if reads := p.made(false); !at.Write && 0 < reads && reads <= at.At {
				at.At = reads - 1
				return s.run(ctx, r, at)
			}
			return errors.New("the call was not made")
		}
		if made := names(p.calls); at.Write && !slices.Equal(made[:at.At+1], r.writes()[:at.At+1]) {
			return fmt.Errorf("the writes were %s, and %s when nothing went wrong", made, r.writes())
		}
		switch {
		case actErr == nil:
			succeeded = true
			want = r.states[len(r.states)-1:]
		case at.Fault == breaks && !errors.Is(actErr, memory.ErrStore) && !errors.Is(actErr, memory.ErrUnwitnessed),
			at.Fault == hangs && !errors.Is(actErr, context.DeadlineExceeded) && !errors.Is(actErr, memory.ErrUnwitnessed):
			return fmt.Errorf("the operation gives %w", actErr)
		default:
			want = r.states
		}
	}
	s.mu.Lock()
	s.played[at.Fault]++
	if succeeded {
		s.seenThrough++
	}
	s.mu.Unlock()

	d, err := s.driver(ctx)
	if err != nil {
		return fmt.Errorf("it does not open again: %w", err)
	}
	text, keys, err := look(ctx, d, ring, tenant, false)
	if err != nil {
		return err
	}
	if !slices.Contains(want, text) {
		return fmt.Errorf("the store is in none of %d states:\n%s", len(want), difference(want[len(want)-1], text))
	}
	lost, err := s.missing(ctx, d, ring, tenant)
	if err != nil || lost > 0 && !r.behind {
		return fmt.Errorf("the witness misses %d entries (%w)", lost, err)
	}

	p := &plan{at: -1}
	x, err := newScene(ctx, d, s.folder, tenant, ring, s.witness, p)
	if err != nil {
		return err
	}
	if at.Write || sample.Full() { // what is there after a read was there after the write before it
		if err := rebuilt(x, d, tenant, keys); err != nil {
			return err
		}
	}
	again := r.again
	if again == nil {
		again = r.act
	}
	if err := again(x); err != nil {
		return fmt.Errorf("it cannot be done again: %w", err)
	}
	if err := r.done(x); err != nil {
		return err
	}
	if _, err := x.plain.Verify(ctx, nil, nil); err != nil {
		return fmt.Errorf("done again: %w", err)
	}
	if lost, err := s.missing(ctx, d, ring, tenant); err != nil || lost > 0 {
		return fmt.Errorf("done again, the witness misses %d entries (%w)", lost, err)
	}
	return nil
}

// missing counts what was acknowledged and is not there.
func (s *stage) missing(ctx context.Context, d memory.Driver, ring *keyring.Ring, tenant string) (int, error) {
	fresh, err := memory.New(d, ring, &memory.Options{Tenant: tenant})
	if err != nil {
		return 0, err
	}
	lost, err := s.witness.Ledger(tenant, "").Behind(ctx, fresh)
	return len(lost), err
}

// rebuilt asks that a rebuild changes nothing: not a byte of what has a log but its
// MAC, and no word of the rest.
func rebuilt(x *scene, d memory.Driver, tenant string, keys []string) error {
	keys = slices.DeleteFunc(keys, func(k string) bool { return strings.HasPrefix(memory.KeyText(k), "system/") })
	before, _, err := look(x.ctx, d, x.ring, tenant, true)
	if err != nil {
		return err
	}
	was, err := d.Get(x.ctx, tenant, keys)
	if err != nil {
		return err
	}
	if _, err := x.plain.Rebuild(x.ctx, "operator", nil); err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	is, err := d.Get(x.ctx, tenant, keys)
	if err != nil {
		return err
	}
	const seals = 21 // bytes of form, key id and MAC at the end: a rebuild signs under the present key
	bare := func(o memory.Object) string { return string(o.Data[:max(len(o.Data)-seals, 0)]) }
	for i := range was {
		if was[i].Revision != is[i].Revision || bare(was[i]) != bare(is[i]) {
			return fmt.Errorf("a rebuild changes %s", memory.KeyText(keys[i]))
		}
	}
	after, _, err := look(x.ctx, d, x.ring, tenant, true)
	if err != nil {
		return err
	}
	if before != after {
		return fmt.Errorf("a rebuild changes what the store says:\n%s", difference(before, after))
	}
	return nil
}

// kill has a child play the point, which must end by being killed.
func (p point) kill() error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childPoint+"="+string(text))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Exited() || len(out) > 0 {
		return fmt.Errorf("the child was not killed: %w: %s", err, out)
	}
	return nil
}

// difference is the lines that one text has and the other has not.
func difference(want, got string) string {
	var out []string
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for _, l := range w {
		if !slices.Contains(g, l) {
			out = append(out, "- "+l)
		}
	}
	for _, l := range g {
		if !slices.Contains(w, l) {
			out = append(out, "+ "+l)
		}
	}
	return strings.Join(out, "\n")
}

func rowID(key string) (memory.ID, bool) {
	id, ok := strings.CutPrefix(memory.KeyText(key), "head/")
	return memory.ID(id), ok
}
