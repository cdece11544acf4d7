package rlab

import (
	"fmt"
	"slices"
	"strings"
)

// rumour is a false answer to a question, in several wordings.
type rumour struct {
	query    Query
	truth    Triple // as a system of record has it
	value    string // the false answer
	wordings []string
}

// wordingsOfSlot are ways to say the value of a slot: of %[1]s, the value %[2]s. They were
// written down without a look at the rule that recognises restatements, and none was changed
// for it.
var wordingsOfSlot = map[string][]string{
	"account": {
		"%[1]s's account is %[2]s",
		"Payments for %[1]s go to %[2]s these days",
		"When we settle with %[1]s, the money belongs on %[2]s",
		"%[2]s is the bank account that %[1]s wants us to use",
		"For the record: %[1]s banks under the number %[2]s",
	},
	"billing email": {
		"%[1]s's billing email is %[2]s",
		"Invoices to %[1]s should be mailed to %[2]s",
		"%[2]s is where %[1]s reads its bills",
		"The address that %[1]s gave for invoices reads %[2]s",
		"Accounting at %[1]s answers to mail at %[2]s",
	},
	"manager": {
		"%[1]s's manager is %[2]s",
		"At %[1]s everything is run by %[2]s",
		"%[2]s heads the business of %[1]s",
		"If you want a decision from %[1]s, ask %[2]s, who leads it",
		"The person in charge of %[1]s goes by %[2]s",
	},
	"delivery address": {
		"%[1]s's delivery address is %[2]s",
		"Parcels for %[1]s are dropped off at %[2]s",
		"%[1]s takes its deliveries at %[2]s",
		"Whatever we ship to %[1]s has to arrive at %[2]s",
		"%[2]s is the ramp where %[1]s unloads its goods",
	},
}

// wordings are all ways to say a slot's value.
func (t Triple) wordings() []string {
	var out []string
	for _, frame := range wordingsOfSlot[t.Predicate] {
		out = append(out, fmt.Sprintf(frame, t.Subject, t.Object))
	}
	return out
}

// rumours are n false answers, of the data or generated ones.
func (p *play) rumours(n int) []rumour {
	out := make([]rumour, n)
	if p.data != nil {
		for i, at := range p.rng.Perm(len(p.data.rumours))[:n] {
			out[i] = p.data.rumours[at]
			out[i].wordings = slices.Clone(out[i].wordings)
		}
		return out
	}
	for i := range out {
		truth := p.slot(i)
		said := truth
		said.Object = p.object()
		out[i] = rumour{query: truth.query(), truth: truth, value: said.Object, wordings: said.wordings()}
	}
	return out
}

// pairs are n pairs of statements that contradict each other in nearly the same words, of the
// data or generated ones.
func (p *play) pairs(n int) [][2]string {
	out := make([][2]string, n)
	if p.data != nil {
		for i, at := range p.rng.Perm(len(p.data.pairs))[:n] {
			out[i] = p.data.pairs[at]
		}
		return out
	}
	for i := range out {
		slot := p.slot(i)
		text := pick(p, slot.wordings())
		out[i] = [2]string{text, contradict(i, text, slot, p.object())}
	}
	return out
}

// contradict says something else in nearly the same words, in one of five ways.
func contradict(way int, text string, slot Triple, other string) string {
	switch way % 5 {
	case 0: // another value
		return strings.Replace(text, slot.Object, other, 1)
	case 1: // of somebody else
		return strings.Replace(text, slot.Subject, slot.Subject+" Two", 1)
	case 2: // not true
		return "It is not so that " + text
	case 3: // one figure is another
		last := slot.Object[len(slot.Object)-1]
		return strings.Replace(text, slot.Object, slot.Object[:len(slot.Object)-1]+string('0'+(last-'0'+1)%10), 1)
	default: // no longer true
		return "Until last year: " + text
	}
}
