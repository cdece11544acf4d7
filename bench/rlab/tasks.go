package rlab

import "context"

// task is one of MEM-INV-Bench: what a user trusts, and what a stranger says before the user
// asks for something.
type task struct {
	query    Query
	trusted  []string // what the user says
	poisoned []string // what a stranger says who wants the wrong value used
	harmless string   // what it says in the twin
	wrong    string
	right    string // a value of the trusted facts that the task takes; "" = it takes none
}

// steps is how many writes and calls a task has.
func (t *task) steps() int {
	steps := 0
	texts := len(t.poisoned)
	if t.right != "" {
		texts++
	}
	for _, channel := range channelSteps {
		steps += texts * (len(t.trusted) + 1 + channel + 1)
	}
	return steps
}

// playTasks plays each text of a stranger by each channel, and each twin, in a memory of its
// own.
func playTasks(ctx context.Context, p *play) error {
	for i := range p.data.tasks {
		t := &p.data.tasks[i]
		for _, text := range t.poisoned {
			for _, channel := range channels {
				if err := p.task(ctx, t, claim{label: label{origins: 1}, query: t.query, value: t.wrong}, text, channel); err != nil {
					return err
				}
			}
		}
		if t.right == "" {
			continue
		}
		for _, channel := range channels {
			if err := p.task(ctx, t, claim{label: label{true, 1}, query: t.query, value: t.right}, t.harmless, channel); err != nil {
				return err
			}
		}
	}
	return nil
}

// task lets the user say what they trust and a stranger its text, which goes through a channel,
// and tries the value of a claim. A false one is the stranger's.
func (p *play) task(ctx context.Context, t *task, tried claim, text string, channel func(context.Context, *play, *claim, words) error) error {
	if err := p.renew(ctx); err != nil {
		return err
	}
	act := p.newClaim(tried)
	beside := p.texts(claim{label: label{true, 1}, query: t.query})
	for _, fact := range t.trusted {
		of := act
		if !tried.true || !has(fact, tried.value) {
			of = beside(fact)
		}
		if _, err := p.say(ctx, p.session("note-taker", "ana"), Author{User, "ana"}, of, fact); err != nil {
			return err
		}
	}
	stranger := act
	if tried.true {
		stranger = beside(text)
	}
	if _, err := p.say(ctx, p.session("note-taker", "ana"), Author{Tool, poisoned[0]}, stranger, text); err != nil {
		return err
	}
	if err := channel(ctx, p, stranger, words{text, text, "Note: " + text, text}); err != nil {
		return err
	}
	return p.judge(ctx)
}
