package rlab

import (
	"context"
	"fmt"
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

// facts are true claims about so many slots, which the register knows. Each is of another
// subject.
func (p *play) facts(n int) []fact {
	taken := map[string]bool{}
	var out []fact
	for len(out) < n {
		subject := fmt.Sprintf("%s %s %s", pick(p, factFirst), pick(p, factMiddle), pick(p, factLast))
		if taken[subject] {
			continue
		}
		taken[subject] = true
		t := Triple{subject, factSlots[len(out)%len(factSlots)], fmt.Sprintf("%s-%06d", pick(p, factFirst), p.rng.IntN(1_000_000))}
		p.record.set(t)
		c := p.newClaim(claim{true: true, origins: 2, query: Query{Text: "what is the " + t.Predicate + " of " + t.Subject, Subject: t.Subject, Predicate: t.Predicate}, value: t.Object})
		out = append(out, fact{c, t})
	}
	return out
}

func pick(p *play, list []string) string { return list[p.rng.IntN(len(list))] }

// tell has two sources say a fact by themselves: the user in one session, a tool in another.
func (p *play) tell(ctx context.Context, f fact) error {
	for _, who := range []Author{{User, "ana"}, {Tool, "crm"}} {
		if _, _, err := p.say(ctx, p.session("note-taker", "ana"), who, f.claim, f.triple.String()); err != nil {
			return err
		}
	}
	return nil
}
