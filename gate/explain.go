package gate

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// Limits of an explanation. It is for readers, so it may be cut short; the
// decision is not.
const (
	maxRowsExplained = 8
	maxRowsWeighed   = 64 // of them, those that explain best are shown
	maxRowsRead      = 512
	maxChain         = 64
)

// explain fills in which rows a block fell over, how they reached the call, and
// what would help. A store that cannot tell takes nothing from the decision.
func (g *Gate) explain(ctx context.Context, d *Decision, req *Request, f memory.Fitness) {
	heads := make(map[memory.ID]*memory.Head, len(f.Heads))
	for i := range f.Heads {
		heads[f.Heads[i].ID] = &f.Heads[i]
	}
	at := map[memory.ID]int{}
	for _, r := range d.Reasons {
		if r.Row == "" || r.Outcome == Permit {
			continue
		}
		i, have := at[r.Row]
		if !have {
			i = len(at)
			at[r.Row] = i
			if i < maxRowsWeighed {
				row := RowAtFault{ID: r.Row, Ancestor: r.Ancestor}
				if h := heads[r.Row]; h != nil {
					row.Revision, row.State = h.Revision, h.State()
				}
				d.Rows = append(d.Rows, row)
			}
		}
		if i < maxRowsWeighed && !slices.Contains(d.Rows[i].Codes, r.Code) {
			d.Rows[i].Codes = append(d.Rows[i].Codes, r.Code)
		}
	}
	d.RowsAtFault = len(at)
	if len(d.Rows) > 0 && d.cause == nil {
		rows := g.climb(ctx, d.Rows, req.Lineage.direct, heads)
		for i := range d.Rows {
			d.Rows[i].describeFrom(rows, req.Lineage.direct, slices.Contains(req.Unseen, d.Rows[i].ID))
		}
		g.repeated(ctx, d.Rows)
		d.lead(req.Sinks)
	}
	d.Rows = d.Rows[:min(len(d.Rows), maxRowsExplained)]
	d.Remedies = g.remedies(d, req)
}

// repeated notes of rows at fault that their source only repeats what a call set.
func (g *Gate) repeated(ctx context.Context, rows []RowAtFault) {
	lines, ok := g.store.(Lines)
	if !ok {
		return
	}
	var said []memory.Content
	var of []*RowAtFault
	for i := range rows {
		if r := &rows[i]; r.Object != "" && slices.Contains(r.Codes, UnverifiedInput) {
			said, of = append(said, memory.Content{Subject: r.Subject, Predicate: r.Predicate, Object: r.Object}), append(of, r)
		}
	}
	if len(said) == 0 {
		return
	}
	marks, err := lines.MarkLines(ctx, said...)
	if err != nil || len(marks) != len(said) {
		return
	}
	for i, r := range of {
		_, _, r.Repeated = marks[i].OwnWrite(r.Predicate, r.Object)
	}
}

// lead puts the rows first that explain the block best: of those with the gravest
// reason, the ones that say what an argument says, then the ones that came back
// most often. The overlap explains and permits nothing (design section 6).
func (d *Decision) lead(sinks []Sink) {
	code := d.primary().Code
	says := func(r *RowAtFault) bool {
		return slices.ContainsFunc(sinks, func(s Sink) bool { return len(s.Value) > 2 && strings.Contains(r.Claim, s.Value) })
	}
	slices.SortStableFunc(d.Rows, func(a, b RowAtFault) int {
		return cmp.Or(compareBool(!slices.Contains(a.Codes, code), !slices.Contains(b.Codes, code)),
			compareBool(!says(&a), !says(&b)), cmp.Compare(b.Echoes, a.Echoes))
	})
	if at := slices.IndexFunc(d.Reasons, func(r Reason) bool { return r.Row == d.Rows[0].ID && r.Code == code }); at > 0 {
		first := d.Reasons[at]
		d.Reasons = slices.Insert(slices.Delete(d.Reasons, at, at+1), 0, first)
	}
}

// climb reads the rows at fault and what they were made from, level by level, until it knows how
// each of them came to be. For an ancestor at fault the way starts at the direct inputs.
func (g *Gate) climb(ctx context.Context, at []RowAtFault, direct []memory.ID, heads map[memory.ID]*memory.Head) map[memory.ID]*memory.Row {
	var level []memory.ID
	asked := map[memory.ID]bool{}
	want := func(id memory.ID) {
		if h := heads[id]; asked[id] || h != nil && h.Revision == 0 || !id.Valid() || len(asked) >= maxRowsRead {
			return
		}
		asked[id] = true
		level = append(level, id)
	}
	ancestor := false
	for _, r := range at {
		ancestor = ancestor || r.Ancestor
		if !r.Ancestor {
			want(r.ID)
		}
	}
	if ancestor {
		for _, id := range direct {
			want(id)
		}
	}
	rows := map[memory.ID]*memory.Row{}
	open := slices.Clone(at)
	for depth := range maxChain {
		if len(level) == 0 || len(open) == 0 {
			break
		}
		got, err := g.store.Get(ctx, level...)
		if err != nil || len(got) != len(level) {
			break
		}
		level = nil
		for i := range got {
			rows[got[i].ID] = &got[i]
			for _, p := range got[i].DerivedFrom {
				want(p)
			}
		}
		open = slices.DeleteFunc(open, func(r RowAtFault) bool {
			if r.Ancestor {
				return rows[r.ID] != nil
			}
			// All that is so near was read, so that no way is shorter.
			way := r.unsupported(rows)
			return way != nil && len(way) <= depth+1
		})
	}
	return rows
}

// unsupported is the shortest way from the row to a root that nobody verified.
func (r *RowAtFault) unsupported(rows map[memory.ID]*memory.Row) []memory.ID {
	return chain(rows, r.ID, func(id memory.ID) bool {
		return rows[id] != nil && len(rows[id].DerivedFrom) == 0 && rows[id].Truth != memory.TruthSupported
	})
}

// describeFrom fills a row at fault from what was read. Of an unseen row it says
// nothing that the row says.
func (r *RowAtFault) describeFrom(rows map[memory.ID]*memory.Row, direct []memory.ID, unseen bool) {
	if r.Ancestor {
		for _, from := range direct {
			way := chain(rows, from, func(id memory.ID) bool { return id == r.ID })
			if way != nil && (r.Chain == nil || len(way) < len(r.Chain)) {
				r.Chain = way
			}
		}
	} else {
		// Where it came from is best told by a root that nobody verified.
		if r.Chain = r.unsupported(rows); r.Chain == nil {
			r.Chain = chain(rows, r.ID, func(id memory.ID) bool { return rows[id] != nil && len(rows[id].DerivedFrom) == 0 })
		}
	}
	row := rows[r.ID]
	if row == nil {
		return
	}
	r.SaidBy, r.At = speaker(row.Asserter), row.CreatedAt
	r.Independent, r.Echoes = row.Independent(), row.Echoes.Count
	shown := row.Retrieval == memory.RetrievalNormal || row.Retrieval == memory.RetrievalRestricted || row.Retrieval == memory.RetrievalPrivilegedOnly
	if !r.Ancestor && !unseen && shown && row.Security == memory.SecurityClean {
		r.Claim = row.Content.String()
		r.Subject, r.Predicate, r.Object = row.Content.Subject, row.Content.Predicate, row.Content.Object
	}
}

// chain is the shortest way up from a row to one that is wanted, both included;
// nil if there is none in what was read.
func chain(rows map[memory.ID]*memory.Row, from memory.ID, wanted func(memory.ID) bool) []memory.ID {
	below := map[memory.ID]memory.ID{from: ""}
	for queue := []memory.ID{from}; len(queue) > 0; queue = queue[1:] {
		id := queue[0]
		if wanted(id) {
			var up []memory.ID
			for ; id != ""; id = below[id] {
				up = append(up, id)
			}
			slices.Reverse(up)
			return up
		}
		if rows[id] == nil {
			continue
		}
		for _, p := range rows[id].DerivedFrom {
			if _, seen := below[p]; !seen {
				below[p] = id
				queue = append(queue, p)
			}
		}
	}
	return nil
}

func speaker(a memory.Asserter) Speaker {
	switch {
	case a.Model != "":
		return Speaker{"model", a.Model}
	case a.Tool != "":
		return Speaker{"tool", a.Tool}
	}
	return Speaker{"user", a.Principal}
}

// remedies are the ways out that exist: an invented one is worse than none.
func (g *Gate) remedies(d *Decision, req *Request) []Remedy {
	if d.Final() {
		return nil
	}
	var call, ask, confirm []Remedy
	for i := range d.Rows {
		r := &d.Rows[i]
		if slices.Contains(r.Codes, SupersededInput) && !d.Fault && !r.Ancestor {
			tool := g.policy.Verifies[r.Predicate]
			if tool == "" {
				tool = req.Reads[r.Predicate]
			}
			if tool != "" && tool != d.Tool && !g.policy.Tools[tool].Never && g.knows(tool) &&
				!slices.ContainsFunc(call, func(c Remedy) bool { return c.Tool == tool && c.Subject == r.Subject }) {
				call = append(call, Remedy{Kind: RemedyCallTool, Tool: tool, Subject: r.Subject, Row: r.ID})
			}
			continue // nobody can make true what its source says no more
		}
		if d.Fault || d.Has(ToolNotNamed) || !r.confirmable() {
			continue
		}
		tool := g.policy.Verifies[r.Predicate]
		if r.Predicate != "" && tool != "" && tool != d.Tool && !r.Repeated && !g.policy.Tools[tool].Never && g.knows(tool) &&
			!slices.Contains(r.Codes, VerifierWasDown) && !slices.ContainsFunc(call, func(c Remedy) bool { return c.Tool == tool && c.Subject == r.Subject }) {
			call = append(call, Remedy{Kind: RemedyCallTool, Tool: tool, Subject: r.Subject, Row: r.ID})
		}
		if r.Claim != "" && !slices.Contains(r.Codes, ContradictedInput) {
			ask = append(ask, Remedy{Kind: RemedyAskUser, Row: r.ID, Question: question(r)})
		}
		confirm = append(confirm, Remedy{Kind: RemedyConfirmRow, Row: r.ID, By: "person"})
	}
	for _, r := range d.Reasons {
		if r.Code == FromNowhere && !d.Fault && !d.Has(ToolNotNamed) {
			ask = append(ask, Remedy{Kind: RemedyAskUser, Question: "Which value should " + quoted(r.Argument, 60) + " of " + toolName(d.Tool) + " have?"})
		}
		if r.Code == ToolNotChosen && !d.Fault && !d.Has(ToolNotNamed) {
			ask = append(ask, Remedy{Kind: RemedyAskUser, Question: "Should " + toolName(d.Tool) + " be used?"})
		}
	}
	if g.opts.Unattended {
		ask = nil
	}
	var out []Remedy
	for _, kind := range [][]Remedy{call, ask, confirm} {
		out = append(out, kind[:min(len(kind), maxRemediesPerKind)]...)
	}
	if g.opts.Approvals != nil && d.Outcome == Hold && d.HoldID != "" {
		out = append(out, Remedy{Kind: RemedyApproveOnce, Hold: d.HoldID, By: "person"})
	}
	return append(out, Remedy{Kind: RemedyGoOnWithout})
}

// question asks a person about the claim of a row. It quotes all of the claim or none of
// it: nobody can say that half of it is right.
func question(r *RowAtFault) string {
	if whole := neutral(r.Claim, len(r.Claim)+1); neutral(r.Claim, MaxClaim) != whole {
		return "Is what row " + string(r.ID) + " says right? It is too long to be quoted here."
	}
	return "Is this right: " + quoted(r.Claim, MaxClaim) + "?"
}

// knows reports whether a tool may run at all by this policy.
func (g *Gate) knows(tool string) bool {
	_, named := g.policy.Tools[tool]
	return named || g.policy.Declared
}

// confirmable reports whether a person's word on the claim would mend the row.
func (r *RowAtFault) confirmable() bool {
	if r.Ancestor || r.Revision == 0 {
		return false
	}
	mends := false
	for _, c := range r.Codes {
		switch c {
		case UnverifiedInput, VerifierWasDown, StaleInput, RankTooLow, ContestedInput, ContradictedInput:
			mends = true
		case QuarantinedInput, NotRetrievable, SensitivityExceeded, Undecided:
			return false
		}
	}
	return mends
}
