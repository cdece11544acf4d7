package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// whole says what a store holds, in words that are the same for two stores to which
// the same was done: rows by their order of writing, and no times. With
// projections, what a rebuild makes anew on the safe side is left out. The audit of
// the store is verified on the way.
func whole(ctx context.Context, s *memory.Store, rebuilt bool) (text string, keys []string, err error) {
	type logOf struct {
		key      string
		revision uint64
	}
	var logs []logOf
	if _, err := s.Verify(ctx, nil, func(l *memory.Log) error {
		logs = append(logs, logOf{l.Key, l.Revision})
		return nil
	}); err != nil {
		return "", nil, err
	}
	var ids []memory.ID
	for _, l := range logs {
		keys = append(keys, l.key)
		if id, ok := strings.CutPrefix(memory.KeyText(l.key), "head/"); ok {
			ids = append(ids, memory.ID(id))
		}
	}
	slices.Sort(ids) // by time of writing
	var names []string
	for i, id := range ids {
		names = append(names, string(id), fmt.Sprintf("row %d", i))
	}
	named := strings.NewReplacer(names...)
	var lines []string
	line := func(format string, args ...any) { lines = append(lines, named.Replace(fmt.Sprintf(format, args...))) }

	for _, l := range logs {
		kind, rest, _ := strings.Cut(memory.KeyText(l.key), "/")
		switch {
		case kind == "system" && rebuilt: // the epoch goes on
		case strings.HasPrefix(rest, "untold_"): // that the witness was told late
		case kind == "head" || kind == "note":
			line("%s of %s: %d entries", kind, rest, l.revision)
		default:
			line("%s: %d entries", kind, l.revision)
		}
	}
	for _, id := range ids {
		if err := wholeRow(ctx, s, id, line, rebuilt); err != nil {
			return "", nil, err
		}
	}
	for state := range memory.State(4) {
		var list []string
		for r, err := range s.Rows(ctx, memory.Filter{State: state}) {
			if err != nil {
				return "", nil, err
			}
			list = append(list, string(r.ID))
		}
		line("listed in state %d: %s", state, list)
	}
	decisions, err := s.Decisions(ctx)
	if err != nil {
		return "", nil, err
	}
	for _, d := range decisions {
		line("decision of %s, fired %t, on %v: %s", d.Tool, d.Fired, cited(d.Rows), d.Data)
	}
	last, err := s.LastCheckpoint(ctx)
	if err != nil {
		return "", nil, err
	}
	line("checkpoint %d of %d leaves, %d", last.Index, last.Size, len(last.Leaves))
	i, err := s.Importing(ctx, dump)
	if err != nil {
		return "", nil, err
	}
	line("import up to %q", i.Cursor())
	slices.Sort(lines)
	return strings.Join(lines, "\n"), keys, nil
}

func cited(rows []memory.Cited) (out []string) {
	for _, c := range rows {
		out = append(out, fmt.Sprint(c.Row, "@", c.Revision))
	}
	return out
}

func wholeRow(ctx context.Context, s *memory.Store, id memory.ID, line func(string, ...any), rebuilt bool) error {
	heads, err := s.Heads(ctx, id) // it looks, and decides nothing
	if err != nil {
		return err
	}
	h := &heads[0]
	line("%s at %d is %s, %s, %s, %s, %s, rank %d, flags %b, depth %d, %s", id, h.Revision, h.State(), h.Retrieval, h.Security, h.Freshness, h.Outage, h.Rank, h.Flags, h.Depth, h.Origin)
	log, err := s.History(ctx, id, true)
	if err != nil {
		return err
	}
	for _, e := range log {
		line("%s entry %s %d by %q: %s, %s to %s, %q, %q, evidence %v", id, e.Kind, e.Revision, e.Actor, e.Axis, e.From, e.To, e.Reason, e.Wording, spoken(e.Evidence))
	}
	if h.Has(memory.FlagErased) {
		return nil
	}
	rows, err := s.Get(ctx, id)
	if errors.Is(err, memory.ErrErased) {
		line("%s is being erased", id)
		return nil
	}
	if err != nil {
		return err
	}
	r := &rows[0]
	line("%s says %+v, from %v, came back %d times, rejected %t, evidence %v", id, r.Content, r.DerivedFrom, r.Echoes.Count, r.Rejection != nil, spoken(r.Evidence))
	found, err := s.Search(ctx, r.Content.Subject+" "+r.Content.Text, 100)
	if err != nil {
		return err
	}
	line("%s is found: %t", id, slices.ContainsFunc(found, func(r memory.Row) bool { return r.ID == id }))
	for child, err := range s.Rows(ctx, memory.Filter{Parent: id}) {
		if err != nil {
			return err
		}
		line("%s is made from %s", child.ID, id)
	}
	if rebuilt {
		return nil
	}
	mark, due, err := s.DueMark(ctx, id)
	line("%s is due %t, parked %t: %s, %d tries, read %.0f times", id, due, due && mark.At.IsZero(), mark.Reason, mark.Tries, mark.Heat)
	return err
}

func spoken(list []memory.Evidence) (out []string) {
	for _, e := range list {
		out = append(out, fmt.Sprintf("%s %s of %s void %t", e.Relation, e.Rank, e.Group, e.Void))
	}
	return out
}
