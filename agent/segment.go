package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// Segment is one typed piece of a run's input. The zero Segment is of unknown
// origin. Only principal-typed words vouch for anything; a front end that cannot
// tell typed from pasted text must send it as quoted.
type Segment struct {
	kind   segmentKind
	text   string
	source string
	hand   Handoff
	token  string
	from   *claims
	level  memory.Sensitivity // 0 = internal
}

type segmentKind uint8

const (
	segmentUnknown segmentKind = iota
	segmentOperator
	segmentTyped
	segmentQuoted
	segmentRun
	segmentToken
	segmentRelayed
)

// Operator is text of the operator: the system prompt, pinned instructions. It
// taints nothing and vouches for nothing.
func Operator(text string) Segment { return Segment{kind: segmentOperator, text: text} }

// Typed is what the principal typed, handed in by an authenticated front end. It
// is the only thing that user_asserted rows are made of (I-13).
func Typed(text string) Segment { return Segment{kind: segmentTyped, text: text} }

// Quoted is text that the principal brought from elsewhere: a pasted mail, a
// file. It becomes an unverified row of that source.
func Quoted(source, text string) Segment {
	return Segment{kind: segmentQuoted, text: text, source: source}
}

// Sensitive is the segment, said to be as secret as that; unsaid, internal. Only a
// segment that becomes a row can carry it: [Quoted], [FromToken], the words of a [Served]
// request, and [UnknownText] if it is said of it. Run.Input refuses it of any other with a [*memory.FieldError].
func (s Segment) Sensitive(level memory.Sensitivity) Segment {
	s.level = level
	return s
}

// FromRun is what another run concluded. It carries that run's lineage. A conclusion
// that is more secret than the receiving agent's recall may show is [ErrCeiling].
func FromRun(h Handoff) Segment { return Segment{kind: segmentRun, hand: h} }

// UnknownText is text of which nothing is known: history a framework kept,
// another agent's words without a handoff. It makes the run's lineage unknown,
// and unknown blocks.
func UnknownText(text string) Segment { return Segment{text: text} }

// Handoff is a conclusion on its way to another agent. It names the rows it
// rests on; the zero Handoff is of unknown lineage.
type Handoff struct {
	rows    []memory.ID
	unknown bool
	text    string
}

// Text is the conclusion as it was written. Render it to a model only through
// Run.Input, which tags it.
func (h Handoff) Text() string { return h.text }

// Rows are the rows the conclusion rests on.
func (h Handoff) Rows() []memory.ID { return slices.Clone(h.rows) }

// Input tells the run what enters its context beside recall and tool results,
// and returns the text of each segment as the model may see it: quoted and
// handed-over text with its tag, and the instruction how to read tags before it.
func (r *Run) Input(ctx context.Context, segments ...Segment) ([]string, error) {
	if err := r.readyIn(ctx); err != nil {
		return nil, err
	}
	out := make([]string, 0, len(segments))
	for _, s := range segments {
		text, err := r.input(ctx, s)
		if err != nil {
			// What could not be recorded may still reach the model: its lineage is lost.
			r.ledger.lose("an input segment could not be recorded")
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// ErrCeiling: what was handed over is more secret than the recall policy of the
// receiving agent lets it be shown.
var ErrCeiling = errors.New("agent: above the ceiling of the receiving agent")

// secrecy is how secret the row of a segment is.
func (s *Segment) secrecy() (memory.Sensitivity, error) {
	becomesRow := s.kind == segmentQuoted || s.kind == segmentUnknown || s.kind == segmentToken || s.kind == segmentRelayed
	switch {
	case s.level == 0:
		return memory.SensitivityInternal, nil
	case s.level > memory.SensitivitySecret:
		return 0, &memory.FieldError{Field: "segment.sensitivity", Rule: "unknown_value", Text: fmt.Sprintf("%d is none", uint8(s.level))}
	case !becomesRow:
		return 0, &memory.FieldError{Field: "segment.sensitivity", Rule: "conflict", Text: "no row is made of such a segment, so that nothing would carry it"}
	}
	return s.level, nil
}

// handed shows rows that another agent or process handed over, as far as the agent's
// recall policy lets it be shown anything so secret (LS-15, LS-24).
func (r *Run) handed(ctx context.Context, ids ...memory.ID) (string, error) {
	rows, err := r.rows(ctx, ids)
	if err != nil {
		return "", err
	}
	ceiling := cmp.Or(r.agent.opts.Recall.Ceiling, memory.SensitivityInternal)
	for i := range rows {
		if s := rows[i].Sensitivity; s == 0 || s > ceiling {
			return "", fmt.Errorf("%w: row %s is %s", ErrCeiling, rows[i].ID, s)
		}
	}
	if err := r.enter(ctx, rows); err != nil {
		return "", err
	}
	return recall.Instructed(r.agent.store.Now(), rows...), nil
}

func (r *Run) input(ctx context.Context, s Segment) (string, error) {
	level, err := s.secrecy()
	if err != nil {
		return "", err
	}
	switch s.kind {
	case segmentOperator:
		return s.text, nil
	case segmentTyped:
		r.ledger.heard(s.text)
		return s.text, nil
	case segmentQuoted:
		return r.quote(ctx, s.source, s.text, level)
	case segmentRun:
		if s.hand.unknown || len(s.hand.rows) == 0 {
			r.ledger.lose("a conclusion was handed over without its lineage")
		}
		if len(s.hand.rows) == 0 {
			return recall.Defuse(s.hand.text), nil
		}
		return r.handed(ctx, s.hand.rows...)
	case segmentToken:
		from, ok := r.admit(ctx, s.token, []byte(s.text), r.ledger.carry)
		if !ok {
			return recall.Defuse(s.text), nil
		}
		return r.relayed(ctx, from, s.text, level)
	case segmentRelayed:
		if !r.rest(ctx, s.from, r.ledger.carry) {
			return recall.Defuse(s.text), nil
		}
		return r.relayed(ctx, s.from, s.text, level)
	default:
		r.ledger.lose("text of unknown origin entered the run")
		if s.level != 0 {
			_, err = r.quote(ctx, "unknown", s.text, level)
		}
		return s.text, err
	}
}

// quote makes a row of what the principal brought from elsewhere, at its source, and
// shows that row. The same words from another source are another row.
func (r *Run) quote(ctx context.Context, source, text string, level memory.Sensitivity) (string, error) {
	d := memory.Draft{
		Content: memory.Content{Text: text, Cardinality: memory.CardinalityUnknown},
		Origin:  memory.OriginFirstHand, State: memory.StateUnverified,
		Asserter: memory.Asserter{Principal: r.principal, Tool: "quote:" + source},
		Anchor:   "quote:" + source, Sensitivity: level, Source: source, Run: r.id,
	}
	d.Evidence = mentions([]string{source}, d.Anchor, d.Asserter.Group(), r.agent.store.Now())
	rows, err := r.put(ctx, []memory.Draft{d}, r.agent.write.Principal)
	if err != nil {
		return "", fmt.Errorf("agent: quoted segment: %w", err)
	}
	ids := make([]memory.ID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return r.receive(ctx, ids[len(ids)-1])
}

// Conclude writes down a conclusion of the run for another agent. The handoff
// carries the lineage of everything this run has read (SR-6.4); give it to the
// other run with [FromRun].
func (r *Run) Conclude(ctx context.Context, text string) (Handoff, error) {
	receipt, err := r.Remember(ctx, Note{Content: memory.Content{Text: text}})
	if err != nil {
		return Handoff{}, err
	}
	now := r.ledger.snapshot()
	h := Handoff{rows: []memory.ID{receipt.ID}, unknown: now.unknown != "", text: text}
	if receipt.Disposition != memory.Created {
		// The words collapsed onto a row; that narrows nothing (I-8).
		for _, id := range now.direct {
			if id != receipt.ID {
				h.rows = append(h.rows, id)
			}
		}
	}
	return h, nil
}
