package gate_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/internal/teststore"
	"github.com/hearsay-go/hearsay/memory"
)

// act is what was done about one held call. Of a person's decision it names the round
// that she saw.
type act struct {
	verb  string // saw, approve, withdraw, reject, use, expire
	round uint64
}

// cameTo is what an act came to: whether it was done, and of one that only looks, what
// it saw.
type cameTo struct {
	done bool
	saw  aHold
}

// aHold is a held call as a sequence of acts leaves it.
type aHold struct {
	state memory.HoldState
	round uint64
	over  bool // its time is
}

// oneHold is what a held call must do if its acts happen one after the other: an
// approval counts once, for the round that the person saw, until it is taken back,
// refused, used or over.
var oneHold = porcupine.Model{
	Init: func() any { return aHold{state: memory.HoldWaiting} },
	Step: func(state, input, output any) (bool, any) {
		h, in, out := state.(aHold), input.(act), output.(cameTo)
		next := h
		may := !h.over && h.round == in.round
		switch in.verb {
		case "saw":
			// A limit of time is held against the clock before an act is written, so what
			// was begun in time may be seen to come later. It counts for nothing then.
			return h.over || out.saw == aHold{h.state, h.round, false}, h
		case "expire":
			next.over = true
			return true, next
		case "approve":
			may = may && h.state == memory.HoldWaiting
			next.state, next.round = memory.HoldGranted, h.round+1
		case "withdraw":
			may = may && h.state == memory.HoldGranted
			next.state, next.round = memory.HoldWaiting, h.round+1
		case "reject":
			may = may && (h.state == memory.HoldWaiting || h.state == memory.HoldGranted)
			next.state, next.round = memory.HoldRejected, h.round+1
		case "use":
			may = !h.over && h.state == memory.HoldGranted
			next.state = memory.HoldFired
		}
		if !out.done {
			next = h
		}
		return out.done == may, next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v %+v", input, output) },
}

// apartStore uses an approval as a program does that looks first and writes down
// afterwards: whether the approval was still there then, it does not ask.
type apartStore struct {
	*memory.Store
	guardOff  bool
	between   func()
	conflicts int
}

func (s *apartStore) Record(ctx context.Context, r memory.DecisionRecord) error {
	s.between()
	err := s.Store.Record(ctx, r)
	if errors.Is(err, memory.ErrConflict) {
		if s.conflicts++; s.guardOff && r.Fired {
			return nil
		}
	}
	return err
}

// TestApprovalsAreLinearizable lets callers, who approves, who takes back, and the clock
// loose on one held call of a real store, and asks whether some order of what they did,
// one after the other, explains what each of them was told. The same with check and use
// apart must not be explained.
func TestApprovalsAreLinearizable(t *testing.T) {
	t.Parallel()
	for _, name := range teststore.Durable() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPair(t, teststore.Open(t, name), nil)
			// At least so many; on a busy machine one side of a race can win eight
			// times, so that more are played until each act was done by someone.
			const histories, apart, limit = 8, 4, 64
			var ops, used, twice, raced, undone, ended, broken, naive, naiveTwice int
			first, n := testmain.Drawn(t), uint64(0)
			for ; n < histories || n < limit && (used == 0 || undone == 0 || ended == 0 || raced == 0); n++ {
				seed := first + n
				h, conflicts := w.approvals(t, seed, false)
				if got := porcupine.CheckOperations(oneHold, h.done); !got {
					t.Errorf("seed %d: no order explains the %d operations", seed, len(h.done))
					for _, op := range h.done {
						t.Logf("%d: %d to %d: %s", op.ClientId, op.Call, op.Return, oneHold.DescribeOperation(op.Input, op.Output))
					}
				}
				ops += len(h.done)
				raced += conflicts
				n := h.did("use")
				used += n
				twice += max(0, n-1)
				undone += h.did("withdraw") + h.did("reject")
				ended += h.did("expire")
			}
			played := n
			for n = 0; n < apart || n < limit && broken == 0; n++ {
				seed := first + n
				h, _ := w.approvals(t, seed, true)
				if porcupine.CheckOperationsTimeout(oneHold, h.done, time.Minute) == porcupine.Illegal {
					broken++
				}
				n := h.did("use")
				naive += n
				naiveTwice += max(0, n-1)
			}
			t.Logf("seeds %d and on: %d operations in %d histories, all linearizable: %d approvals used, %d taken back, %d times over; the race was hit %d times, and none was used twice", first, ops, played, used, undone, ended, raced)
			t.Logf("check and use apart: %d of %d histories are not linearizable; of %d calls %d were made on an approval that was used", broken, n, naive, naiveTwice)
			if twice > 0 {
				t.Errorf("%d approvals were used twice", twice)
			}
			if used == 0 || undone == 0 || ended == 0 || raced == 0 || broken == 0 {
				t.Errorf("the race was not exercised: %d used, %d taken back, %d over, %d hits, %d broken when apart", used, undone, ended, raced, broken)
			}
		})
	}
}

// did counts the acts of a kind that were done.
func (h *history) did(verb string) (n int) {
	for _, op := range h.done {
		if op.Input.(act).verb == verb && op.Output.(cameTo).done {
			n++
		}
	}
	return n
}

// approvals has a call held, and lets clients loose on it, each with pauses of its own.
// Those who call and those who decide are two processes.
func (p *pair) approvals(t *testing.T, seed uint64, guardOff bool) (*history, int) {
	t.Helper()
	const callers, turns = 3, 4
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))
	line, err := confirm.Line("cleo", key.Public().(ed25519.PublicKey), "call:*")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := confirm.ParseKeyring(strings.NewReader(line))
	if err != nil {
		t.Fatal(err)
	}
	row := p.put((&world{}).fromModel(triple("acme", fmt.Sprintf("a%d.%t", seed, guardOff), "x")))
	req := apart(mail(row))
	opts := &gate.Options{Approvals: keys}
	first := newGate(t, p.decides, declared(), opts).Decide(t.Context(), req)
	if first.Outcome != gate.Hold {
		t.Fatalf("%+v", first)
	}
	hold := first.HoldID
	h := &history{start: time.Now()}
	var group sync.WaitGroup
	begin := func(id int, do func(me *client, random *rand.Rand, pause func())) {
		random := rand.New(rand.NewPCG(seed, uint64(id)))
		pause := func() { time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond) }
		group.Go(func() { do(&client{id, h}, random, pause) })
	}
	var conflicts [callers]int
	// On a slow store the callers win each race. In every second set of histories they begin only when
	// the first attempt to take the approval back is over.
	withdrawn := make(chan struct{})
	if seed%8 < 4 || seed%4 == 2 {
		close(withdrawn)
	}
	decide := func(me *client, v confirm.CallVerb) {
		call := me.now()
		seen, err := p.moves.Hold(t.Context(), hold)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			return
		}
		me.add(call, act{verb: "saw"}, cameTo{saw: aHold{state: seen.State, round: seen.Round}})
		signed, err := confirm.SignCall(key, confirm.NewCall(v, &seen, p.moves.Tenant(), "cleo", "I asked them", p.moves.Now(), 3*time.Hour))
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			return
		}
		call = me.now()
		_, err = confirm.ApplyCall(t.Context(), p.moves, keys, signed)
		var refused *confirm.RefusedError
		switch {
		case errors.Is(err, memory.ErrConflict) && errors.Is(err, confirm.ErrStale) && !errors.As(err, new(*memory.HoldError)): // nothing was done
			return
		case err != nil && !errors.As(err, &refused):
			t.Errorf("seed %d: %v", seed, err)
			return
		}
		me.add(call, act{verb: v.String(), round: seen.Round}, cameTo{done: err == nil})
	}
	if seed%2 == 0 { // the race is for an approval that is there
		decide(&client{callers, h}, confirm.Approve)
	}
	for id := range callers {
		begin(id, func(me *client, _ *rand.Rand, pause func()) {
			store := &apartStore{Store: p.decides, guardOff: guardOff, between: pause}
			g := newGate(t, store, declared(), opts)
			<-withdrawn
			for range turns {
				pause()
				call := me.now()
				d := g.Decide(t.Context(), req)
				switch {
				case d.Fault && d.Reasons[0].Detail == "its rows kept changing": // nothing was done
					continue
				case d.Fault, d.Err() == nil && (d.Approval == nil || d.HoldID != hold):
					t.Errorf("seed %d: %+v, %v", seed, d, d.Err())
				}
				me.add(call, act{verb: "use"}, cameTo{done: d.Err() == nil})
			}
			conflicts[id] = store.conflicts
		})
	}
	begin(callers, func(me *client, _ *rand.Rand, pause func()) {
		for range turns {
			pause()
			decide(me, confirm.Approve)
		}
	})
	if seed%4 != 2 { // else it is for the callers alone
		begin(callers+1, func(me *client, random *rand.Rand, pause func()) {
			for turn := range turns {
				pause()
				v := confirm.Withdraw
				if random.IntN(6) == 0 {
					v = confirm.Refuse
				}
				decide(me, v)
				if turn == 0 && seed%8 >= 4 {
					close(withdrawn)
				}
			}
		})
	}
	if seed%4 == 3 {
		begin(callers+2, func(me *client, random *rand.Rand, pause func()) {
			for range 1 + random.IntN(4) {
				pause()
			}
			call := me.now()
			p.jump(2 * time.Hour)
			me.add(call, act{verb: "expire"}, cameTo{done: true})
		})
	}
	group.Wait()
	n := 0
	for _, c := range conflicts {
		n += c
	}
	return h, n
}
