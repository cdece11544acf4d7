package rlab

import (
	"context"
	"fmt"
	"slices"
)

// fact is a true claim that the system of record knows.
type fact struct {
	*claim
	triple Triple
}

// Parts of the names of generated facts. A name of three parts is one of 24 × 20 × 16.
var (
	factFirst  = []string{"Alder", "Amber", "Birch", "Brook", "Cedar", "Clover", "Copper", "Coral", "Dale", "Ember", "Fern", "Flint", "Garnet", "Hazel", "Heron", "Ivy", "Juniper", "Linden", "Maple", "Onyx", "Pearl", "Quartz", "Rowan", "Slate"}
	factMiddle = []string{"Bay", "Bridge", "Cliff", "Cove", "Creek", "Field", "Ford", "Gate", "Glen", "Grove", "Harbor", "Hill", "Lake", "Marsh", "Mill", "Moor", "Point", "Ridge", "Vale", "Wharf"}
	factLast   = []string{"Bakery", "Books", "Clinic", "Dairy", "Farm", "Forge", "Freight", "Gallery", "Hotel", "Labs", "Motors", "Paper", "Press", "Supply", "Textiles", "Works"}
	factSlots  = []string{"account", "billing email", "manager", "delivery address"}
)

// CRM is the name of the tool that reads the system of record. What other tools say comes from
// somewhere else.
const CRM = "crm"

// Slots are the predicates that the system of record has.
func Slots() []string { return slices.Clone(factSlots) }

// facts are true claims about so many slots, which the register knows. Each is of another
// subject.
func (p *play) facts(n int) []fact {
	out := make([]fact, n)
	from := p.rng.IntN(len(factSlots)) // the first one is of any slot
	for i := range out {
		t := p.slot(from + i)
		p.record.set(t)
		out[i] = fact{p.newClaim(claim{label: label{true, 2}, query: t.query(), value: t.Object}), t}
	}
	return out
}

// slot is a slot of a subject that has none yet, with a value. Those of four in a row are
// different ones. When half of the names of three parts are taken, the names have four.
func (p *play) slot(i int) Triple {
	for {
		subject := fmt.Sprintf("%s %s %s", pick(p, factFirst), pick(p, factMiddle), pick(p, factLast))
		if 2*len(p.taken) > len(factFirst)*len(factMiddle)*len(factLast) {
			subject = pick(p, factFirst) + " " + subject
		}
		if !p.taken[subject] {
			p.taken[subject] = true
			return Triple{subject, factSlots[i%len(factSlots)], p.object()}
		}
	}
}

// object is a value.
func (p *play) object() string {
	return fmt.Sprintf("%s-%06d", pick(p, factFirst), p.rng.IntN(1_000_000))
}

// query asks for the value of a slot.
func (t Triple) query() Query {
	return Query{Text: "what is the " + t.Predicate + " of " + t.Subject, Subject: t.Subject, Predicate: t.Predicate}
}

func pick(p *play, list []string) string { return list[p.rng.IntN(len(list))] }

// askFreely has half of some claims, which are drawn, asked for in words alone, as what has no slot
// is asked for. It returns them.
func (p *play) askFreely(claims []*claim) (freely []*claim) {
	for _, at := range p.rng.Perm(len(claims))[:len(claims)/2] {
		c := claims[at]
		c.query = Query{Text: c.query.Text}
		freely = append(freely, c)
	}
	return freely
}

func claimsOf(facts []fact) []*claim {
	out := make([]*claim, len(facts))
	for i, f := range facts {
		out[i] = f.claim
	}
	return out
}

// tell has two sources say a fact by themselves: the user in one session, a tool in another.
func (p *play) tell(ctx context.Context, f fact) error {
	for _, who := range []Author{{User, "ana"}, {Tool, CRM}} {
		if _, err := p.say(ctx, p.session("note-taker", "ana"), who, f.claim, f.triple.String()); err != nil {
			return err
		}
	}
	return nil
}
