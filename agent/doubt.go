package agent

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// doubtError is of a call that was made, and of which it is not known, or not recorded, how
// it ended.
type doubtError struct {
	tool   string
	effect gate.Effect
	failed error // what the tool gave; nil = no error
	cause  error // why it is not recorded; nil = it is
	kept   bool  // what it returned is recorded: only how the call ended is not
}

// Error is one line.
func (e *doubtError) Error() string {
	switch {
	case e.cause == nil:
		return fmt.Sprintf("agent: %s was called: %v", e.tool, e.failed)
	case e.failed != nil:
		return fmt.Sprintf("agent: %s was called: %v; what came of it could not be recorded: %v", e.tool, e.failed, e.cause)
	}
	return fmt.Sprintf("agent: %s ran, and what came of it could not be recorded: %v", e.tool, e.cause)
}

// Unwrap returns [ErrTool], what the tool gave, and, of what is not recorded,
// [ErrUnrecorded] and why.
func (e *doubtError) Unwrap() []error {
	errs := []error{ErrTool}
	if e.failed != nil {
		errs = append(errs, e.failed)
	}
	if e.cause != nil {
		errs = append(errs, ErrUnrecorded, e.cause)
	}
	return errs
}

// notAgain is what a model is told of a call that was done, or may have been.
const notAgain = "Do not call it again, in these words or in others: it might be done twice. Say plainly that it was done, or may have been, and that a person has to look."

// toolText says for a model that the tool was called. Nothing of the store's words is in it.
func (e *doubtError) toolText(res Result) string {
	name := recall.Defuse(clean(e.tool, 64))
	text := ""
	switch {
	case e.effect == gate.ReadOnly:
		return "NOT SHOWN: " + name + " ran, and its answer could not be recorded, so you are not shown it. It changes nothing: you may call it again."
	case e.failed != nil:
		text = "MAY HAVE BEEN DONE: " + name + ": " + recall.Defuse(errorLine(e.failed))
		if e.cause != nil {
			text += ". How it ended could not be recorded."
		}
	default:
		text = "DONE: " + name + " ran and gave no error. How it ended could not be recorded."
		if e.kept && len(res.Output) > 0 {
			text += " It answered: " + answered(res)
		}
	}
	return text + "\n" + notAgain + " (" + res.Decision.ID + ")"
}

// doubts are the calls of a run of which it is not known how they ended, and that their
// declared source may show.
type doubts struct {
	mu    sync.Mutex
	begun int // calls of the run, to tell which began after which had ended
	calls map[string]*doubt
}

// doubt is one of them.
type doubt struct {
	call  string // the decision that let it through
	line  string // what shows it, by lineOf
	after int    // the calls that had begun when it ended
	row   memory.ID
}

// begin counts a call.
func (d *doubts) begin() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun++
	return d.begun
}

func doubtKey(t *Tool, args json.RawMessage) string {
	return t.name + "\x00" + string(t.contract.SameCall(args))
}

// ended notes how a call ended that a decision let through.
func (d *doubts) ended(t *Tool, args json.RawMessage, decision string, unknown bool) {
	if t.told == nil || t.contract.Effect == gate.ReadOnly {
		return
	}
	subject := together(t.told.Subject, decode(args))
	d.mu.Lock()
	defer d.mu.Unlock()
	key := doubtKey(t, args)
	delete(d.calls, key)
	if !unknown || subject == "" {
		return
	}
	if d.calls == nil {
		d.calls = map[string]*doubt{}
	}
	d.calls[key] = &doubt{call: decision, line: lineOf(&memory.Content{Subject: subject, Predicate: t.told.Predicate}), after: d.begun}
}

// read notes what a call that began then has read, as verified.
func (d *doubts) read(l *ledger, rows []memory.ID, begun int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, of := range d.calls {
		for _, id := range rows {
			if r, fit := l.verified(id); fit && begun > of.after && r.Content.Typed() && lineOf(&r.Content) == of.line {
				of.row = id
			}
		}
	}
}

// told is the row that shows how the same call ended, and the decision that let that call
// through; both are "" if the run has read none.
func (d *doubts) told(t *Tool, args json.RawMessage) (row memory.ID, decision string) {
	if t.told == nil {
		return "", ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.calls[doubtKey(t, args)]; of != nil && of.row != "" {
		return of.row, of.call
	}
	return "", ""
}

// verified is a row of the ledger, and whether it was verified by a tool or better.
func (l *ledger) verified(id memory.ID) (memory.Row, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, have := l.rows[id]
	return r, have && standing(&r) >= memory.RankTool
}
