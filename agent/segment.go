package agent

import (
	"context"
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

// FromRun is what another run concluded. It carries that run's lineage.
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
// handed-over text with its tag.
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

func (r *Run) input(ctx context.Context, s Segment) (string, error) {
	switch s.kind {
	case segmentOperator:
		return s.text, nil
	case segmentTyped:
		r.ledger.heard(s.text)
		return s.text, nil
	case segmentQuoted:
		receipt, err := r.agent.write.Principal(ctx, memory.Draft{
			Content: memory.Content{Text: s.text, Cardinality: memory.CardinalityUnknown},
			Origin:  memory.OriginFirstHand, State: memory.StateUnverified,
			Asserter:    memory.Asserter{Principal: r.principal, Tool: "quote:" + s.source},
			Sensitivity: memory.SensitivityInternal, Source: s.source, Run: r.id,
		})
		if err != nil {
			return "", fmt.Errorf("agent: quoted segment: %w", err)
		}
		return r.receive(ctx, receipt.ID)
	case segmentRun:
		if s.hand.unknown || len(s.hand.rows) == 0 {
			r.ledger.lose("a conclusion was handed over without its lineage")
		}
		if len(s.hand.rows) == 0 {
			return recall.Defuse(s.hand.text), nil
		}
		return r.receive(ctx, s.hand.rows...)
	case segmentToken:
		from, ok := r.admit(ctx, s.token, []byte(s.text))
		if !ok {
			return recall.Defuse(s.text), nil
		}
		return r.relayed(ctx, from, s.text)
	case segmentRelayed:
		if !r.rest(ctx, s.from) {
			return recall.Defuse(s.text), nil
		}
		return r.relayed(ctx, s.from, s.text)
	default:
		r.ledger.lose("text of unknown origin entered the run")
		return s.text, nil
	}
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
