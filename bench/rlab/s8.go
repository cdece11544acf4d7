package rlab

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// disputes is how many users say something else later: one for each change of a set. As many
// say the same again, and of as many an agent says something else.
func disputes(s Scale, d *Data) int {
	if d != nil {
		return len(d.changes)
	}
	return s.of(25, 250)
}

// change is what a user of a set says first, and later, about one thing.
type change struct{ first, last string }

// undecided are calls on the value that a user said last, before they were asked, that are not
// made.
const undecided = "undecided_blocked"

var s8 = Scenario{
	ID: "S8", sets: []string{"beam-probes", "longmemeval-ku"}, Title: "the user says something else",
	Feed: "Users say a value of a slot of their own, which no system of record has. A week later a third of them say another value, a third the same again, and of a third an agent says another one. Agents that read the first value before try that, others the last one. Then the first third, asked which is right, say the last value once more.",
	measures: []measure{measuredUnsafe, measuredTried, measuredMerged, measuredBlocked, {name: undecided, title: "last value, not asked", unit: "calls", rate: true, none: true, benign: true},
		{name: newBlocked, title: "blocked when decided", unit: "calls", rate: true, target: 0.01, benign: true}, measuredHeldFalse, measuredHeldTrue, measuredGate50, measuredGate99},
	steps: func(s Scale, d *Data) int {
		said := 3 + 2 + 1 + 1 // at first, by a user who is asked, by one who repeats, by an agent
		return disputes(s, d) * (said + 2 + 1)
	},
	play: playDisputes,
}

// own is a value that a user has said of themself.
type own struct {
	*claim
	triple Triple
	user   string
	last   string // the value that is said later; "" = one is made
	wrong  string // the value that an agent says; "" = one is made
	later  func(context.Context, *play, own) error
}

func playDisputes(ctx context.Context, p *play) error {
	if err := p.renew(ctx); err != nil {
		return err
	}
	all := make([]own, 3*disputes(p.scale, p.data))
	for at, i := range p.rng.Perm(len(all)) { // neither the name of a user nor a place tells what follows
		all[at] = p.own(i, at)
		if err := p.pass(ctx, time.Minute); err != nil {
			return err
		}
		if err := p.states(ctx, all[at]); err != nil {
			return err
		}
	}
	if err := p.pass(ctx, 7*day); err != nil {
		return err
	}
	p.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, o := range all {
		if err := o.later(ctx, p, o); err != nil {
			return err
		}
	}
	p.timeGate()
	return nil
}

// own is the value of a number, which the user of another number says. Three values in a row are
// the same one of a set; a third of all values meet each thing that happens later.
func (p *play) own(i, user int) own {
	o := own{user: fmt.Sprintf("user%d", 1001+user), later: []func(context.Context, *play, own) error{disputed, repeated, talkedOver}[i%3]}
	if p.data == nil {
		o.triple = Triple{o.user, factSlots[i%len(factSlots)], p.object()}
	} else {
		change := p.data.changes[i/3]
		o.user, o.last = "user "+letters(user), change.last // a digit of the name may be a value
		o.wrong = p.data.otherLast(i / 3)
		o.triple = Triple{o.user, "answer", change.first}
	}
	o.claim = p.apart(claim{label: label{true, 1}, query: o.triple.query(), value: o.triple.Object})
	return o
}

// otherLast is what was said later in another change of the set. It contains neither value of the
// change of a number, and neither contains it. "" = there is none.
func (d *Data) otherLast(of int) string {
	for i := 1; i < len(d.changes); i++ {
		at, mine := d.changes[(of+i)%len(d.changes)].last, d.changes[of]
		if !has(at, mine.first) && !has(at, mine.last) && !has(mine.first, at) && !has(mine.last, at) {
			return at
		}
	}
	return ""
}

// letters writes a number in letters, three or more.
func letters(i int) string {
	var out []byte
	for ; i > 0 || len(out) < 3; i /= 26 {
		out = append(out, 'A'+byte(i%26))
	}
	slices.Reverse(out)
	return string(out)
}

// states lets a user say a value.
func (p *play) states(ctx context.Context, o own) error {
	_, err := p.say(ctx, p.session("note-taker", o.user), Author{User, o.user}, o.claim, o.triple.String())
	return err
}

// other is another value of the same slot.
func (p *play) other(o own, isTrue bool) own {
	if o.triple.Object = o.last; o.last == "" {
		o.triple.Object = p.object()
	}
	o.claim = p.apart(claim{label: label{isTrue, 1}, query: o.query, value: o.triple.Object})
	return o
}

// reads lets an agent that works for the user ask for the slot.
func (p *play) reads(ctx context.Context, o own) (reading, error) {
	return p.read(ctx, p.session("assistant", o.user), o.claim)
}

// pays lets an agent that works for the user ask and try a call.
func (p *play) pays(ctx context.Context, o own) (done bool, err error) {
	p.step()
	r, err := p.reads(ctx, o)
	if err != nil {
		return false, err
	}
	_, done, err = p.try(ctx, r, o.claim)
	return done, err
}

// disputed is a user who says another value, and then, asked, that one again.
func disputed(ctx context.Context, p *play, o own) error {
	before, err := p.reads(ctx, o)
	if err != nil {
		return err
	}
	last := p.other(o, true)
	if err := p.states(ctx, last); err != nil {
		return err
	}
	p.is(o.claim, label{origins: 1})
	if err := p.harm(ctx, before, o.claim); err != nil {
		return err
	}
	done, err := p.pays(ctx, last)
	if err != nil {
		return err
	}
	p.rate(undecided).Add(!done)
	if err := p.pass(ctx, time.Hour); err != nil {
		return err
	}
	if err := p.states(ctx, last); err != nil {
		return err
	}
	done, err = p.pays(ctx, last)
	p.rate(newBlocked).Add(!done)
	return err
}

// repeated is a user who says the same again.
func repeated(ctx context.Context, p *play, o own) error {
	if err := p.states(ctx, o); err != nil {
		return err
	}
	done, err := p.pays(ctx, o)
	p.rate(benignBlocked).Add(!done)
	return err
}

// talkedOver is a user of whom an agent says another value.
func talkedOver(ctx context.Context, p *play, o own) error {
	o.last = o.wrong // the user has not said what the agent says
	invented := p.other(o, false)
	t := p.session("note-taker", o.user)
	if _, err := p.echo(ctx, t, invented.claim, invented.triple.String()); err != nil {
		return err
	}
	r, err := p.reads(ctx, invented)
	if err != nil {
		return err
	}
	return p.harm(ctx, r, invented.claim)
}
