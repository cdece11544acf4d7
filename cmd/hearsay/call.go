package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/visible"
)

func (a *app) callCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "call",
		Short: "Look at tool calls that were held, approve or reject them",
		Long: `A call that rests on a row nobody verified is held. Three things release it: its rows
are verified, a person confirms the fact (hearsay row confirm), which frees every call
that waits for it, or a person approves this one call, which leaves the row as it is.

  waiting    nobody has decided            granted  approved, and not made since
  fired      made, outcome not recorded    unknown  made, and nobody knows how it ended: call settle
  done       made                          failed   let through, and the tool gave an error, or not made
  rejected   a person refused it           stale    what it rests on moved, or it was denied since
  expired    nobody decided in time`,
		Example: "  hearsay call list -store sqlite:agent.db\n  hearsay call why -store sqlite:agent.db blk_…",
		RunE:    subcommandWanted,
		Args:    cobra.ArbitraryArgs,
	}
	store := addStoreFlags(cmd)
	cmd.AddCommand(a.callListCommand(store), a.callShowCommand(store), a.callWhyCommand(store))
	cmd.AddCommand(a.callStatementCommands(store)...)
	cmd.AddCommand(a.callSettleCommand(store))
	return cmd
}

// More formats of data on stdout.
const (
	asNDJSON output = "ndjson"
	asIDs    output = "id"
)

// listOutput is the format of a list.
type listOutput struct{ output }

func (o *listOutput) Type() string { return "table|json|ndjson|id" }

func (o *listOutput) Set(s string) error {
	if v := output(s); v == asNDJSON || v == asIDs {
		o.output = v
		return nil
	}
	if o.output.Set(s) != nil {
		return errors.New("want table, json, ndjson or id")
	}
	return nil
}

// callJSON is a held call: what is stored of it, and what time makes of that.
type callJSON struct {
	memory.Hold
	Standing memory.HoldState `json:"standing"` // its state now
	// What follows is said of a call that waits or is approved.
	// Now are the codes that stand in its way now; Codes are those that it was held for.
	Now []string `json:"now,omitempty"`
	// Free says that what held it is gone: the agent may ask again.
	Free bool `json:"free,omitempty"`
	// RunEnded says that its run has ended: nobody asks for it again.
	RunEnded bool `json:"run_ended,omitempty"`
	// Denied is why it would be denied as things are.
	Denied gate.Code `json:"denied,omitempty"`
	// Worthless says that it is approved, and that the approval lets nothing through any more,
	// since what it is bound to has moved.
	Worthless bool `json:"worthless,omitempty"`
}

func callOf(h *memory.Hold, now time.Time) callJSON {
	return callJSON{Hold: *h, Standing: h.StateAt(now)}
}

// lookAt is a held call with what stands in its way now, if it waits or is approved.
func lookAt(ctx context.Context, s *memory.Store, h *memory.Hold, now time.Time) (c callJSON, left obstacles, err error) {
	c = callOf(h, now)
	if !h.Open(now) {
		return c, left, nil
	}
	if left, err = obstaclesOf(ctx, s, h); err != nil {
		return c, left, err
	}
	c.Free, c.RunEnded, c.Denied = left.none(), left.ended, left.denied
	for _, code := range left.codes {
		if code != runEnded {
			c.Now = append(c.Now, code)
		}
	}
	c.Worthless = c.Standing == memory.HoldGranted && left.moved && len(c.Now) > 0
	return c, left, nil
}

// why are the codes of a call to show: those that stand in its way now, if they are known, and
// those that say why an approval did not help.
func (c *callJSON) why() []string {
	if c.Standing != memory.HoldWaiting && c.Standing != memory.HoldGranted {
		return c.Codes
	}
	why := slices.Clone(c.Now)
	for _, code := range c.Codes {
		if isNote(gate.Code(code)) && !slices.Contains(why, code) {
			why = append(why, code)
		}
	}
	return why
}

// callsJSON is the output of call list.
type callsJSON struct {
	Schema string     `json:"schema"` // hearsay.calls/1
	Calls  []callJSON `json:"calls"`  // newest first
	More   bool       `json:"more"`
	// Damaged are calls that are not what was written, in words; whether they match is
	// not known.
	Damaged []string `json:"damaged,omitempty"`
}

// rowsWaitedForJSON is the output of call list --by-row.
type rowsWaitedForJSON struct {
	Schema string             `json:"schema"` // hearsay.waiting/1
	Rows   []rowWaitedForJSON `json:"rows"`   // the one that most calls wait for first
}

type rowWaitedForJSON struct {
	Row   memory.ID `json:"row"`
	Mark  string    `json:"mark"`
	Claim string    `json:"claim"`
	Calls []string  `json:"calls"`
}

func (a *app) callListCommand(store *storeFlags) *cobra.Command {
	var (
		all, byRow, made bool
		row, tool        string
		limit            int
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List held calls, newest first",
		Long: `list prints the calls that wait or are approved, and those that were made and of which
nobody knows how they ended, held before or not; with --all, held ones that have ended too.
WHY is what stands in the way of a call now, or why it ended.
The same call as one of the latter is held until it is known: hearsay call settle.

With --by-row it lists the rows instead that stand in the way of a call now, the one that
most calls wait for first: to confirm one frees those that wait for nothing else. Nobody
confirms a quotation. With --fired it lists the calls that were made instead, held before
or not, with how each ended.

With -o json: {"schema": "hearsay.calls/1", "calls": […], "more": false}; with --by-row
{"schema": "hearsay.waiting/1", "rows": [{"row", "mark", "claim", "calls"}]}, with --fired
{"schema": "hearsay.fired/1", "calls": [{"id", "at", "tool", "run", "rows", "outcome"}]}.
ndjson is one call a line, id one id.`,
		Example: "  hearsay call list -store sqlite:agent.db\n  hearsay call list -store sqlite:agent.db --by-row",
		Args:    args(),
	}
	o := listOutput{asTable}
	cmd.Flags().VarP(&o, "output", "o", "what to print")
	cmd.Flags().BoolVar(&all, "all", false, "also calls that have ended")
	cmd.Flags().BoolVar(&byRow, "by-row", false, "the rows that calls wait for, with the calls")
	cmd.Flags().BoolVar(&made, "fired", false, "the calls that were made instead")
	cmd.Flags().StringVar(&row, "row", "", "only calls that wait for this row, or rest on it")
	cmd.Flags().StringVar(&tool, "tool", "", "only calls of this tool")
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many calls; 0 = all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 0 {
			return usage("--limit %d: want 0 or more", limit)
		}
		if made && (all || byRow) {
			return usage("--fired lists other calls than --all and --by-row")
		}
		ctx := cmd.Context()
		s, err := a.open(ctx, store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		filter := memory.HoldFilter{Open: !all}
		if row != "" {
			r, err := resolve(ctx, s, row)
			if err != nil {
				return err
			}
			filter.Row = r.ID
		}
		if made {
			decisions, err := s.Decisions(ctx)
			if err != nil {
				return err
			}
			return a.listFired(o.output, fired(decisions, tool, filter.Row, limit))
		}
		found, now := callsJSON{Schema: "hearsay.calls/1", Calls: []callJSON{}}, s.Now()
		var damaged []error
		waiting := map[memory.ID][]string{}
		for h, err := range s.HeldCalls(ctx, filter) {
			if errors.Is(err, memory.ErrDamaged) { // the others are listed all the same
				damaged = append(damaged, err)
				found.Damaged = append(found.Damaged, oneLine(err.Error(), maxMessage))
				continue
			}
			if err != nil {
				return err
			}
			c := callOf(&h, now)
			if tool != "" && h.Tool != tool || !all && c.Standing == memory.HoldExpired || byRow && !h.Open(now) {
				continue
			}
			if limit > 0 && len(found.Calls) == limit {
				found.More = true
				break
			}
			c, left, err := lookAt(ctx, s, &h, now)
			if err != nil {
				return err
			}
			found.Calls = append(found.Calls, c)
			for i := range left.faults {
				waiting[left.faults[i].row] = append(waiting[left.faults[i].row], h.ID)
			}
		}
		if !byRow {
			found.Calls, err = withUnsettled(ctx, s, found.Calls, tool, filter.Row, now)
			if err != nil {
				return err
			}
			if limit > 0 && len(found.Calls) > limit {
				found.Calls, found.More = found.Calls[:limit], true
			}
		}
		if byRow {
			err = a.waitedFor(ctx, s, o.output, waiting)
		} else {
			err = a.listCalls(o.output, found, now)
		}
		if err == nil && len(damaged) > 0 {
			err = fail(exitTampered, "call list: %s damaged: %w", plural(len(damaged), "call"), damaged[0]).with("The others are listed. hearsay audit verify says what is not as it was written.")
		}
		return err
	}
	return cmd
}

// lines prints a list one item a line: its id, or all of it as JSON.
func (a *app) lines(o output, n int, item func(i int) (id string, whole any)) error {
	var b strings.Builder
	for i := range n {
		id, whole := item(i)
		line := []byte(id)
		if o == asNDJSON {
			j, err := json.Marshal(whole)
			if err != nil {
				return err
			}
			line = visible.JSON(j)
		}
		b.Write(append(line, '\n'))
	}
	return a.write(b.String())
}

func (a *app) listCalls(o output, found callsJSON, now time.Time) error {
	switch o {
	case asJSON:
		return a.emit(found)
	case asNDJSON, asIDs:
		return a.lines(o, len(found.Calls), func(i int) (string, any) { return found.Calls[i].ID, found.Calls[i] })
	}
	if len(found.Calls) == 0 {
		fmt.Fprintln(a.talk, "no calls")
		return nil
	}
	t := table{head: []string{"STATE", "ID", "TOOL", "AGENT", "FOR", "AGE", "TRIES", "EXPIRES", "WHY"}}
	for i := range found.Calls {
		c := &found.Calls[i]
		m, why := callMark(c.Standing), strings.Join(c.why(), ", ")
		switch {
		case c.Free:
			why = "nothing any more: the agent may ask again"
		case c.RunEnded:
			why = strings.TrimPrefix(why+"; its run has ended: nobody asks for it again", "; ")
		case c.Denied != "":
			why = "it would be denied now: " + string(c.Denied)
		case c.Worthless:
			why += "; its approval is worthless (approval_stale): it is held anew when the agent asks again"
		case c.Standing == memory.HoldFired:
			why = "it is being made, or its process died: then hearsay call settle"
		case c.Standing == memory.HoldUnknown:
			why = "nobody knows how it ended: hearsay call settle"
		case c.Standing == memory.HoldExpired:
			why = "nobody decided in time"
		case !c.Open(now):
			why = strings.TrimSuffix(c.By+": "+c.Why, ": ")
		}
		t.add(m.color, m.glyph+" "+m.word, c.ID, oneLine(c.Tool, maxName), oneLine(c.Agent, maxName), oneLine(c.Principal, maxName), age(now, c.OpenedAt), fmt.Sprint(c.Tries),
			left(&c.Hold, now), oneLine(why, maxClaim))
	}
	if err := a.print(&t); err != nil {
		return err
	}
	if found.More {
		fmt.Fprintf(a.talk, "the newest %s; --limit shows more\n", plural(len(found.Calls), "call"))
	}
	return nil
}

// waitedFor lists the rows that calls wait for as things are now.
func (a *app) waitedFor(ctx context.Context, s *memory.Store, o output, calls map[memory.ID][]string) error {
	list := rowsWaitedForJSON{Schema: "hearsay.waiting/1", Rows: []rowWaitedForJSON{}}
	t := table{head: []string{"CALLS", "STATE", "ROW", "CLAIM"}}
	for _, id := range slices.SortedFunc(maps.Keys(calls), func(x, y memory.ID) int {
		return cmp.Or(cmp.Compare(len(calls[y]), len(calls[x])), cmp.Compare(x, y))
	}) {
		rows, err := s.Get(ctx, id)
		switch {
		case errors.Is(err, memory.ErrErased) || errors.Is(err, memory.ErrNotFound):
			continue
		case unreadable(err): // it is shown, though nobody can confirm it
			list.Rows = append(list.Rows, rowWaitedForJSON{Row: id, Mark: "unreadable", Calls: calls[id]})
			t.add(red, fmt.Sprint(len(calls[id])), "✗ unreadable", string(id), "")
			continue
		}
		if err != nil {
			return err
		}
		m := markOf(&rows[0])
		if rows[0].Quotes != "" {
			m = mark{"✗", "quotation", red} // nobody confirms it
		}
		list.Rows = append(list.Rows, rowWaitedForJSON{Row: id, Mark: m.word, Claim: rows[0].Content.String(), Calls: calls[id]})
		t.add(m.color, fmt.Sprint(len(calls[id])), m.glyph+" "+m.word, string(id), claimOf(&rows[0]))
	}
	switch o {
	case asJSON:
		return a.emit(list)
	case asNDJSON, asIDs:
		return a.lines(o, len(list.Rows), func(i int) (string, any) { return string(list.Rows[i].Row), list.Rows[i] })
	}
	if len(list.Rows) == 0 {
		fmt.Fprintln(a.talk, "no call waits for a row")
		return nil
	}
	return a.print(&t)
}

func callMark(s memory.HoldState) mark {
	switch s {
	case memory.HoldGranted:
		return mark{"✓", "granted", green}
	case memory.HoldDone:
		return mark{"✓", "done", green}
	case memory.HoldFired:
		return mark{"→", "fired", yellow}
	case memory.HoldWaiting:
		return mark{"?", "waiting", yellow}
	case memory.HoldUnknown:
		return mark{"⌛", "unknown outcome", red}
	default:
		return mark{"✗", s.String(), red}
	}
}

// left says how long a call can still be released.
func left(h *memory.Hold, now time.Time) string {
	switch {
	case !h.Open(now):
		return "-"
	case h.StateAt(now) == memory.HoldGranted:
		return "in " + age(h.GrantEnds, now)
	}
	return "in " + age(h.ExpiresAt, now)
}

// idLength is how many characters follow the prefix of an id.
const idLength = 26

// held finds the hold that an argument names: an id, or a unique beginning or end of
// one; or a decision whose call attached to it, or any other decision. ok is false if the decision held
// nothing.
func held(ctx context.Context, s *memory.Store, arg string) (h memory.Hold, d memory.DecisionRecord, ok bool, err error) {
	part := strings.Trim(strings.TrimPrefix(arg, "blk_"), "…")
	part = strings.TrimPrefix(part, "blk_")
	if len(part) < minShortID || strings.Trim(part, "0123456789abcdefghijklmnopqrstuv") != "" {
		return h, d, false, usage("%q is no id of a call, and no beginning or end of one (at least %d of 0-9 a-v)", arg, minShortID)
	}
	id := "blk_" + part
	if len(part) < idLength {
		var found []string
		for h, err := range s.HeldCalls(ctx, memory.HoldFilter{}) {
			if errors.Is(err, memory.ErrDamaged) {
				continue // it is none that can be named
			}
			if err != nil {
				return h, d, false, err
			}
			if p := strings.TrimPrefix(h.ID, "blk_"); strings.HasPrefix(p, part) || strings.HasSuffix(p, part) {
				found = append(found, h.ID)
			}
		}
		for d, err := range s.UnsettledCalls(ctx) {
			if errors.Is(err, memory.ErrDamaged) {
				continue
			}
			if err != nil {
				return h, d, false, err
			}
			if p := strings.TrimPrefix(d.ID, "blk_"); (strings.HasPrefix(p, part) || strings.HasSuffix(p, part)) && !slices.Contains(found, d.ID) {
				found = append(found, d.ID)
			}
		}
		if len(found) == 0 { // of those that were neither held nor are in doubt, which are many
			decisions, err := s.Decisions(ctx)
			if err != nil && !unreadable(err) {
				return h, d, false, err
			}
			for i := range decisions {
				if p := strings.TrimPrefix(decisions[i].ID, "blk_"); strings.HasPrefix(p, part) || strings.HasSuffix(p, part) {
					found = append(found, decisions[i].ID)
				}
			}
		}
		switch {
		case len(found) == 0:
			return h, d, false, fail(exitNotFound, "no decision %q", arg)
		case len(found) > 1:
			slices.Sort(found)
			return h, d, false, usage("%q may be any of %s", arg, strings.Join(found[:min(len(found), 5)], ", "))
		}
		id = found[0]
	}
	if h, err = s.Hold(ctx, id); err == nil || !errors.Is(err, memory.ErrNotFound) {
		return h, d, err == nil, err
	}
	if d, err = s.Decision(ctx, id); err != nil {
		return h, d, false, err
	}
	var said struct {
		BlockID string `json:"block_id"`
	}
	if json.Unmarshal(d.Data, &said) == nil && said.BlockID != "" && said.BlockID != id {
		h, err = s.Hold(ctx, said.BlockID)
		return h, d, err == nil, err
	}
	return h, d, false, nil
}

func (a *app) callShowCommand(store *storeFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a held call with all of its arguments",
		Long: `show prints one held call: every argument, what it rests on, who asked and how often,
what was decided and until when, and what call approve wants of it. On a terminal it is
shown by $PAGER, or less if that is there. A run of 5 spaces is written \s{5}, a
character that nobody would see \u{200B}, a member whose name is a number ~'0'; │ begins a line that goes on with the one above.

With -o json: {"schema": "hearsay.call/1", "call": {…}}.`,
		Example: "  hearsay call show -store sqlite:agent.db blk_…",
		Args:    args("ID"),
	}
	o := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, got []string) error {
		s, err := a.open(cmd.Context(), store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		h, d, ok, err := held(cmd.Context(), s, got[0])
		if err == nil && !ok && d.Unsettled() {
			h, ok = unsettledCall(&d, s.Now())
		}
		switch {
		case err != nil:
			return err
		case !ok:
			return fail(exitNotFound, "decision %s held no call; see hearsay call why", got[0])
		}
		c, _, err := lookAt(cmd.Context(), s, &h, s.Now())
		if err != nil {
			return err
		}
		if *o == asJSON {
			return a.emit(struct {
				Schema string   `json:"schema"`
				Call   callJSON `json:"call"`
			}{"hearsay.call/1", c})
		}
		return a.show(a.callCard(&c, s.Now(), store))
	}
	return cmd
}

// callCard prints a held call.
func (a *app) callCard(call *callJSON, now time.Time, store *storeFlags) string {
	c, h, m := card{}, &call.Hold, callMark(call.Standing)
	fmt.Fprintf(&c, "%s  %s\n", a.paint(m.glyph+" "+m.word, m.color), oneLine(h.Tool, maxName))
	c.line("id", "%s", h.ID)
	of := ""
	if h.Server != "" {
		of = " of " + quotedWhole(h.Server)
	}
	c.whole("tool", whole(h.Tool)+of+", "+h.Effect)
	if h.BlastRadius != "" {
		c.line("may reach", "%s", h.BlastRadius)
	}
	leaves := argumentsOf(h.Args)
	for i, l := range leaves {
		label := ""
		if i == 0 {
			label = "arguments"
		}
		c.whole(label, atPointer(l.pointer)+" = "+l.value)
	}
	if h.Args == nil && h.Fired == h.ID {
		c.line("arguments", "not kept: the call was never held; if it is asked for again, that one has them")
	} else if h.Args == nil {
		c.line("arguments", "not kept: the call has ended")
	} else if len(leaves) == 0 {
		c.line("arguments", "none")
	}
	c.line("args-sha256", "%s", h.ArgsSHA256)
	c.whole("asked by", fmt.Sprintf("%s for %s, run %s, %s ago, %s", quotedWhole(h.Agent), quotedWhole(h.Principal), quotedWhole(h.Run), age(now, h.OpenedAt), plural(h.Tries, "time")))
	for i, code := range call.why() {
		label := ""
		if i == 0 {
			label = "why"
		}
		c.line(label, "%s: %s", code, gate.Reason{Code: gate.Code(code)}.Text())
	}
	for _, text := range call.now() {
		c.line("NOW", "%s", text)
	}
	for i, id := range h.AtFault {
		label := ""
		if i == 0 {
			label = "waits for"
		}
		c.line(label, "%s", id)
	}
	c.line("rests on", "%s, epoch %d", plural(len(h.Rows), "row"), h.Epoch)
	for _, r := range h.Rows {
		c.line("", "%s, revision %d", r.Row, r.Revision)
	}
	if !h.Schema.IsZero() {
		c.line("tool schema", "sha256 %s", h.Schema)
	}
	c.whole("policy", whole(h.Policy))
	if h.Done != "" {
		c.line("BEFORE", "the same call was done, by %s; hearsay call why %s says when", h.Done, h.Done)
	}
	if h.Prior != "" {
		c.line("BEFORE", "the same call was made by %s, and how it ended is not known", h.Prior)
	}
	if h.Made != "" {
		c.line("BEFORE", "the same call was made in another run, by %s, and how it ended is not known", h.Made)
	}
	if made := inDoubt(h); made != "" {
		c.line("settle", "%s", a.command(store, "", settleCommand(made)))
	}
	if h.Parked && h.Open(now) && !call.RunEnded {
		c.line("parked", "it is made by itself once its rows are verified, unless something denies it then")
	}
	if h.By != "gate" || h.Round > 0 { // a person decided; what the gate made of it too
		c.whole("last", fmt.Sprintf("%s by %s, %s: %s", h.State, whole(h.By), moment(h.At), whole(h.Why)))
	}
	if h.Fired != "" {
		c.line("made by", "%s", h.Fired)
	}
	if h.Open(now) {
		c.line("expires", "%s", left(h, now))
		c.line("counts for", "this run only: an approval frees no call of another run, which asks anew")
	}
	return c.String()
}

// argument is a leaf of the arguments of a call: a string as it is, and any value as it
// is shown, whole.
type argument struct{ pointer, text, value string }

// now says in words what became of a call that waits or is approved.
func (c *callJSON) now() (out []string) {
	if c.RunEnded {
		out = append(out, "its run has ended: nobody asks for it again, approved or not")
	}
	if c.Denied != "" {
		out = append(out, "it would be denied: "+string(c.Denied))
	}
	if c.Worthless {
		out = append(out, "its approval is worthless: "+gate.Reason{Code: gate.ApprovalStale}.Text())
	}
	if c.Free {
		out = append(out, "nothing stands in its way any more: the agent may ask again")
	}
	return out
}

// atPointer is a pointer as it is shown before the value that stands there.
func atPointer(pointer string) string {
	if strings.ContainsAny(pointer, " =") {
		return quotedWhole(pointer)
	}
	return whole(pointer)
}

// argumentsOf lists every leaf, with exact numbers, in the order of the names.
func argumentsOf(args json.RawMessage) (out []argument) {
	d := json.NewDecoder(strings.NewReader(string(args)))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch node := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(node)) {
				step := strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
				if step != "" && strings.Trim(step, "0123456789") == "" {
					step = "~'" + step + "'" // no element of a list; nothing else is written so
				}
				walk(at+"/"+step, node[name])
			}
			if len(node) == 0 && at != "" {
				out = append(out, argument{pointer: at, value: "{}"})
			}
		case []any:
			for i, child := range node {
				walk(at+"/"+strconv.Itoa(i), child)
			}
			if len(node) == 0 {
				out = append(out, argument{pointer: at, value: "[]"})
			}
		case string:
			out = append(out, argument{at, node, quotedWhole(node)})
		case nil:
			out = append(out, argument{pointer: at, value: "null"})
		default:
			out = append(out, argument{pointer: at, value: fmt.Sprint(v)})
		}
	}
	walk("", v)
	return out
}

// whyJSON is the output of call why.
type whyJSON struct {
	Schema   string `json:"schema"` // hearsay.why/1
	ID       string `json:"id"`
	Tool     string `json:"tool"`
	Standing string `json:"standing"` // state of the hold; of a decision that held nothing: denied, permitted, observed or failed; not_made of a call that was let through and was not
	Blocked  bool   `json:"blocked"`
	// Release is never or with_step. It is settle if nobody knows how the call ended. It is
	// ask_again if what stood in its way is gone, or if it was not made. It is left out if its
	// approval lets it through, or if it was made.
	Release string     `json:"release,omitempty"`
	Steps   []stepJSON `json:"steps"`
	Reasons []string   `json:"reasons"`
	Policy  string     `json:"policy"`
	Rule    string     `json:"rule,omitempty"` // file and line, with --policy
	Call    *callJSON  `json:"call,omitempty"`
	Trees   []treeJSON `json:"trees"` // of the rows at fault
}

type stepJSON struct {
	// Joins says how a step stands to those before it. With then it follows on the last one.
	// With and it is needed beside them. With or it does in the place of all of them. It is "" in
	// the first.
	Joins   string `json:"joins,omitempty"`
	What    string `json:"what"`
	Command string `json:"command,omitempty"`
	Waiting int    `json:"waiting,omitempty"` // open calls that wait for the same row, some of them for more
	apart   bool   // it is for another run to ask
}

func (a *app) callWhyCommand(store *storeFlags) *cobra.Command {
	var (
		policy string
		depth  int
	)
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Show why a call does not run, and what would let it",
		Long: `why prints the call, the rows it fell over and what those were made from, the policy it
was judged by, and each step that would release it, all as it stands now. Of a call that no
step would release it says so. The id is of a hold or of any decision.

A step follows on the one before it (then), is needed beside those before it (and), or does
in their place (or).

Exit code 4 while the call is blocked, 0 if its approval lets it through, it was made, or
what stood in its way is gone, so that the agent may ask again. With --policy
the line of the file that has the tool's rule is named.

With -o json: {"schema": "hearsay.why/1", "id", "tool", "standing", "blocked",
"release", "steps", "reasons", "policy", "rule", "call", "trees"}.`,
		Example: "  hearsay call why -store sqlite:agent.db blk_…\n  hearsay call why -store sqlite:agent.db blk_… --policy policy.json -o json",
		Args:    args("ID"),
	}
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&policy, "policy", "", "the policy file that the gate runs, to name the line of the rule")
	cmd.Flags().IntVar(&depth, "depth", 4, "how many hops above a row to show; 0 = all")
	cmd.RunE = func(cmd *cobra.Command, got []string) error {
		if depth < 0 {
			return usage("--depth %d: want 0 or more", depth)
		}
		ctx := cmd.Context()
		s, err := a.open(ctx, store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		h, d, ok, err := held(ctx, s, got[0])
		if err != nil {
			return err
		}
		w := whyJSON{Schema: "hearsay.why/1", Steps: []stepJSON{}, Reasons: []string{}, Trees: []treeJSON{}}
		tree := ""
		if ok {
			tree, err = a.whyHeld(ctx, s, &w, &h, depth)
		} else {
			tree, err = a.whyDecided(ctx, s, &w, &d, depth)
		}
		if err != nil {
			return err
		}
		for i := range w.Steps {
			w.Steps[i].Command = a.command(store, "", w.Steps[i].Command)
		}
		if policy != "" {
			if w.Rule, err = ruleLine(policy, w.Tool); err != nil {
				return err
			}
		}
		if *o == asJSON {
			err = a.emit(w)
		} else {
			err = a.write(whyText(&w, tree))
		}
		if err != nil {
			return err
		}
		if w.Blocked {
			if w.Standing == memory.HoldGranted.String() {
				return fail(exitNo, "%s is blocked, although it was approved", w.ID)
			}
			return fail(exitNo, "%s is blocked: %s", w.ID, w.Standing)
		}
		return nil
	}
	return cmd
}

func ruleLine(path, tool string) (string, error) {
	b, err := readPolicy(path)
	if err != nil {
		return "", err
	}
	line, err := gate.RuleLine(b, tool)
	switch {
	case err != nil:
		return "", usage("--policy: %w", err)
	case line == 0:
		return path + " has no rule for the tool", nil
	}
	return fmt.Sprintf("%s:%d", path, line), nil
}

func (a *app) whyHeld(ctx context.Context, s *memory.Store, w *whyJSON, h *memory.Hold, depth int) (string, error) {
	c, left, err := lookAt(ctx, s, h, s.Now())
	if err != nil {
		return "", err
	}
	w.ID, w.Tool, w.Standing, w.Policy, w.Call = h.ID, h.Tool, c.Standing.String(), h.Policy, &c
	for _, code := range c.why() {
		text := code + ": " + gate.Reason{Code: gate.Code(code)}.Text() + left.at(gate.Code(code))
		switch {
		case !slices.Contains(h.Codes, code):
			text = "now " + text
		case h.Fired != "":
			text = "it was held for " + text
		}
		w.Reasons = append(w.Reasons, text)
	}
	switch c.Standing {
	case memory.HoldFired, memory.HoldUnknown:
		w.doubt(h.Fired, c.Standing)
	case memory.HoldWaiting, memory.HoldGranted:
		if err := w.open(ctx, s, &c, &left); err != nil {
			return "", err
		}
	case memory.HoldDone, memory.HoldFailed:
		d, err := s.Decision(ctx, h.Fired)
		if unreadable(err) { // what it said was erased
			break
		}
		if err != nil {
			return "", err
		}
		w.ended(&d)
	default: // rejected, expired, stale
		switch c.Standing {
		case memory.HoldRejected:
			w.Reasons = append(w.Reasons, fmt.Sprintf("approval_rejected: %s refused it until %s: %s", h.By, moment(h.At.Add(memory.RejectedFor)), h.Why))
		case memory.HoldStale:
			w.Reasons = append(w.Reasons, "stale: "+h.Why)
		}
		if h.Rejected(s.Now()) {
			w.Blocked, w.Release = true, "never"
			break
		}
		if err := w.over(ctx, s, h); err != nil {
			return "", err
		}
	}
	return a.callTree(ctx, s, w, callMark(c.Standing), h.Args, h.AtFault, depth)
}

// doubt says of a call that was let through, and whose outcome nobody knows, who settles it. While
// it may still be made, nothing is wrong yet.
func (w *whyJSON) doubt(made string, standing memory.HoldState) {
	w.Blocked, w.Release = standing == memory.HoldUnknown, "settle"
	w.Reasons = append(w.Reasons, string(gate.OutcomeUnknown)+": it was let through, and how it ended is not known; the same call is held: of its run, and of every run if it cannot be undone")
	w.step("", stepJSON{What: "a person who has looked says whether it was done", Command: settleCommand(made)})
}

// open says what releases a call that waits, and of an approved one whether that lets it
// through.
func (w *whyJSON) open(ctx context.Context, s *memory.Store, c *callJSON, left *obstacles) error {
	granted := c.Standing == memory.HoldGranted
	switch {
	case c.Free && granted:
		return nil // it is made, with the approval or without
	case c.Free:
		w.Release = "ask_again"
		w.step("", stepJSON{What: "what held it is gone: the agent asks again in the same run, and it is decided afresh"})
		return nil
	case granted && !c.RunEnded && c.Denied == "" && !c.Worthless:
		return nil
	}
	w.Blocked, w.Release = true, "with_step"
	if c.Worthless {
		w.Reasons = append(w.Reasons, "now approval_stale: "+gate.Reason{Code: gate.ApprovalStale}.Text())
	}
	if c.RunEnded {
		return w.runOver(ctx, s, left)
	}
	if err := w.mend(ctx, s, left); err != nil {
		return err
	}
	switch {
	case c.Denied != "":
		w.afterDenial(left)
	case c.Worthless:
		w.step(joinOr, stepJSON{What: "the approval is worthless, since what it is bound to has moved: the agent asks again, and a person approves the call that is held then", Command: askAnew(c.Tool)})
	case left.moved:
		w.step(joinOr, stepJSON{What: "what it rests on has moved since, so this hold can be approved no more: the agent asks again, and a person approves the call that is held then"})
	default:
		w.step(joinOr, stepJSON{What: "a person approves this one call, in its run", Command: fmt.Sprintf("hearsay call approve %s --args-sha256 DIGITS --key FILE --as NAME --reason TEXT", c.ID)})
	}
	return nil
}

// over says of a call whose hold is over whether it was made since, and else what it needs now.
func (w *whyJSON) over(ctx context.Context, s *memory.Store, h *memory.Hold) error {
	at, err := s.Standing(ctx, h.Slot)
	if err != nil && !unreadable(err) {
		return err
	}
	unread := false
	if at.Hold == nil || at.Hold.ID != h.ID {
		since := decided{s, h.ID, h.At, func(d *memory.DecisionRecord) bool { return d.Slot == h.Slot }}
		made, ok, more, err := since.made(ctx)
		if err != nil {
			return err
		}
		if ok {
			w.madeSince(&made)
			return nil
		}
		unread = more
	}
	if at.Hold != nil && at.Hold.ID != h.ID {
		w.heldSince(at.Hold.ID)
		return nil
	}
	left, err := obstaclesOf(ctx, s, h)
	if err != nil {
		return err
	}
	if err := left.deniedBy(ctx, s, h); err != nil {
		return err
	}
	left.unread = unread
	return w.anew(ctx, s, h.Codes, &left)
}

// madeSince says that the same call was let through since.
func (w *whyJSON) madeSince(d *memory.DecisionRecord) {
	w.Reasons = append(w.Reasons, "the same call was let through since, by "+d.ID+", "+moment(d.At)+madeText(d))
	if d.Unsettled() {
		w.Release = "settle"
		w.step("", settleStep(d.ID))
	}
}

// heldSince says that the same call is held since.
func (w *whyJSON) heldSince(hold string) {
	w.Blocked, w.Release = true, "with_step"
	w.step("", stepJSON{What: "the same call was asked for since; this is about that one", Command: "hearsay call why " + hold})
}

// deniedBy adds what a parked call was denied for and the hold does not tell: what the run has
// read since.
func (o *obstacles) deniedBy(ctx context.Context, s *memory.Store, h *memory.Hold) error {
	why, parked := strings.CutPrefix(h.Why, gate.ParkedDenied)
	if !parked || h.State != memory.HoldStale {
		return nil
	}
	id, code, _ := strings.Cut(why, ": ")
	d, err := s.Decision(ctx, id)
	if unreadable(err) { // nobody knows what of
		o.add([]gate.Reason{{Code: gate.Code(code)}})
		return nil
	}
	if err != nil {
		return err
	}
	said, err := recordOf(&d)
	if err != nil {
		return err
	}
	now, err := said.now(ctx, s, &d)
	o.add(slices.DeleteFunc(now, func(r gate.Reason) bool {
		return r.Code == gate.HoldEnded || !r.Row.Valid() && slices.Contains(o.others, r.Code) ||
			slices.ContainsFunc(h.Rows, func(c memory.Cited) bool { return c.Row == r.Row })
	}))
	return err
}

// anew says what a call needs that nothing waits for any more: the agent has to ask again. said
// are the codes that were recorded.
func (w *whyJSON) anew(ctx context.Context, s *memory.Store, said []string, left *obstacles) error {
	for _, code := range left.codes {
		if code != runEnded && !slices.Contains(said, code) {
			w.Reasons = append(w.Reasons, "now "+code+": "+gate.Reason{Code: gate.Code(code)}.Text())
		}
	}
	w.Blocked, w.Release = !left.none() || left.unread, "with_step"
	if left.unread {
		w.Reasons = append(w.Reasons, "it is not known whether the same call was made since: a record of a decision cannot be read (hearsay audit verify)")
		w.step("", stepJSON{What: "a person looks at the system that the tool changes: if the same call was made since, nothing is left to do"})
	}
	switch {
	case left.none() && left.unread:
		w.step(joinThen, stepJSON{What: "the agent asks again if it was not made, and it is decided afresh"})
		return nil
	case left.none():
		w.Release = "ask_again"
		w.step("", stepJSON{What: "what stood in its way is gone: the agent asks again, and it is decided afresh"})
		return nil
	case left.ended:
		return w.runOver(ctx, s, left)
	}
	if err := w.mend(ctx, s, left); err != nil {
		return err
	}
	if left.denied != "" {
		w.afterDenial(left)
	} else {
		w.step(joinOr, stepJSON{What: "the agent asks again; it is decided afresh, and a person may approve that call"})
	}
	return nil
}

// runOver says what is to be done about a call whose run has ended: what denies it is mended, and
// another run asks for it.
func (w *whyJSON) runOver(ctx context.Context, s *memory.Store, left *obstacles) error {
	afresh := stepJSON{What: "its run has ended: the agent asks in a new run, and it is decided afresh"}
	switch {
	case left.denied != "":
		if err := w.mend(ctx, s, left); err != nil {
			return err
		}
		w.step(joinThen, afresh)
	case len(left.codes) == 1: // nothing else is left
		w.step(joinAnd, afresh)
	default:
		if left.unsettled != "" {
			w.step(joinAnd, settleStep(left.unsettled))
		}
		w.step(joinAnd, stepJSON{What: "its run has ended, so an approval frees nothing: the agent asks in a new run, and it is decided afresh; if it is held, a person may approve that call", Command: askAnew(w.Tool)})
	}
	return nil
}

// notMade reports whether a call that was let through was not made.
func notMade(d *memory.DecisionRecord) bool {
	return d.Outcome == memory.CallNotMade || d.Outcome == memory.CallSettledNotDone
}

// ended says how a call that was let through ended.
func (w *whyJSON) ended(d *memory.DecisionRecord) {
	w.Reasons = append(w.Reasons, "let through "+moment(d.At)+madeText(d))
	if notMade(d) {
		w.Standing, w.Release = "not_made", "ask_again"
		w.Steps = append(w.Steps, stepJSON{What: "it was let through and not made: the agent asks again, and it is decided afresh"})
	}
}

// whyDecided explains a decision that held nothing: a denial, or a permit.
func (a *app) whyDecided(ctx context.Context, s *memory.Store, w *whyJSON, d *memory.DecisionRecord, depth int) (string, error) {
	said, err := recordOf(d)
	if err != nil {
		return "", err
	}
	w.ID, w.Tool, w.Standing, w.Policy = d.ID, d.Tool, said.Status, said.Policy
	if d.Unsettled() {
		standing := d.StateAt(s.Now())
		w.Standing = standing.String()
		w.doubt(d.ID, standing)
	}
	failed := d.StateAt(s.Now()) == memory.HoldFailed
	if failed {
		w.Standing = memory.HoldFailed.String()
	}
	if d.Fired {
		w.ended(d)
	}
	var rows []memory.ID
	var codes []string
	for _, r := range said.Reasons {
		w.Reasons, codes = append(w.Reasons, string(r.Code)+": "+r.Text), append(codes, string(r.Code))
		if r.Row.Valid() && r.Outcome != gate.Permit && !slices.Contains(rows, r.Row) {
			rows = append(rows, r.Row)
		}
	}
	switch {
	case d.Fired:
	case said.Final:
		w.Blocked, w.Release = true, "never"
	default:
		if err := w.denied(ctx, s, d, &said, codes); err != nil {
			return "", err
		}
	}
	m := mark{"✗", "denied", red}
	switch {
	case d.Unsettled():
		m = mark{"?", "permitted", yellow}
	case d.Fired && !failed:
		m = mark{"✓", "permitted", green}
	}
	return a.callTree(ctx, s, w, m, nil, rows, depth)
}

// denied says of a call that was denied whether it was made or held since, and else what it needs
// now. codes are those that were recorded.
func (w *whyJSON) denied(ctx context.Context, s *memory.Store, d *memory.DecisionRecord, said *gateRecord, codes []string) error {
	since := decided{s, d.ID, d.At, func(other *memory.DecisionRecord) bool { return said.same(d, other) }}
	made, ok, unread, err := since.made(ctx)
	if err != nil {
		return err
	}
	if ok {
		w.madeSince(&made)
		return nil
	}
	hold, err := said.heldSince(ctx, s, d)
	if err != nil {
		return err
	}
	if hold != "" {
		w.heldSince(hold)
		return nil
	}
	now, err := said.now(ctx, s, d)
	if err != nil {
		return err
	}
	left := obstacles{unread: unread, principal: said.Principal}
	left.add(now)
	if err := left.endedBy(ctx, s, d.Run); err != nil {
		return err
	}
	return w.anew(ctx, s, codes, &left)
}

// madeText says how a call ended, and who said so.
func madeText(d *memory.DecisionRecord) string {
	out := ""
	switch {
	case d.Settled != nil: // which the outcome then repeats
		by := d.Settled
		out = fmt.Sprintf(", settled %s by %s: %s", moment(by.At), quotedWhole(oneLine(by.By, maxName)), quotedWhole(oneLine(by.Reason, maxClaim)))
		if d.Outcome != memory.CallSettledDone && d.Outcome != memory.CallSettledNotDone {
			out += "; its run says that it ended as: " + outcomeText(d)
		}
	case d.Outcome == memory.CallDone && d.Note == "":
		out = ", and done"
	case d.Outcome == memory.CallNotMade:
		out = ", and not made after all"
	case d.Outcome != 0:
		out = ", and it ended as: " + outcomeText(d)
	}
	return out
}

// outcomeText is how a call ended, in a few words.
func outcomeText(d *memory.DecisionRecord) string {
	text := strings.ReplaceAll(d.Outcome.String(), "_", " ")
	if d.Note != "" {
		text += ", " + oneLine(d.Note, maxClaim)
	}
	return text
}

// callTree draws a call and, below it, the arguments that rows say something of and
// what those rows were made from.
func (a *app) callTree(ctx context.Context, s *memory.Store, w *whyJSON, m mark, args json.RawMessage, rows []memory.ID, depth int) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s    %s\n", a.paint(m.glyph, m.color), oneLine(w.Tool, maxName), w.Standing)
	leaves := argumentsOf(args)
	for i, id := range rows {
		branch, trunk := "├── ", "│   "
		if i == len(rows)-1 {
			branch, trunk = "└── ", "    "
		}
		got, err := s.Get(ctx, id)
		if errors.Is(err, memory.ErrErased) || errors.Is(err, memory.ErrNotFound) {
			fmt.Fprintf(&b, "%s✗ %s  it is not there any more\n", branch, short(id))
			continue
		}
		if unreadable(err) {
			fmt.Fprintf(&b, "%s✗ %s  it cannot be read: %s\n", branch, short(id), oneLine(err.Error(), maxMessage))
			continue
		}
		if err != nil {
			return "", err
		}
		l, err := trace(ctx, s, got[0], depth)
		if err != nil {
			return "", err
		}
		w.Trees = append(w.Trees, l.json())
		claim := got[0].Content.String()
		if at := slices.IndexFunc(leaves, func(x argument) bool {
			return len(x.text) > 2 && strings.Contains(claim, x.text)
		}); at >= 0 {
			fmt.Fprintf(&b, "%s%s = %s\n", branch, oneLine(leaves[at].pointer, maxName), oneLine(leaves[at].value, maxClaim))
			branch, trunk = trunk+"└── ", trunk+"    "
		}
		for n, line := range strings.Split(strings.TrimSuffix(a.draw(l), "\n"), "\n") {
			if n == 0 {
				b.WriteString(branch + line + "\n")
			} else {
				b.WriteString(trunk + line + "\n")
			}
		}
	}
	return b.String(), nil
}

func whyText(w *whyJSON, tree string) string {
	c := card{}
	c.WriteString(tree)
	c.line("id", "%s", w.ID)
	policy := oneLine(w.Policy, maxName)
	if w.Rule != "" {
		policy += ", " + oneLine(w.Rule, maxMessage)
	}
	c.line("policy", "%s", policy)
	for i, r := range w.Reasons {
		label := ""
		if i == 0 {
			label = "why"
		}
		c.line(label, "%s", oneLine(r, maxMessage))
	}
	switch {
	case w.Release == "never":
		c.line("release", "never: no step and no approval lets this call through")
	case w.Blocked, w.Release == "ask_again", w.Release == "settle":
		told := map[string]bool{}
		for i, step := range w.Steps {
			label := step.Joins
			if i == 0 {
				label = "release"
			}
			waiting := ""
			if step.Waiting > 1 {
				waiting = fmt.Sprintf(" (%d calls wait for it)", step.Waiting)
			}
			c.line(label, "%s%s", step.What, waiting)
			if step.Command != "" {
				c.line("", "  %s%s", step.Command, digitsFrom(step.Command, told))
			}
		}
	}
	return c.String()
}

// digitsFrom says once for rows and once for calls where the digits of a command come from, as a
// comment that a shell passes over. told are those of which it was said.
func digitsFrom(command string, told map[string]bool) string {
	words := strings.Fields(command) // hearsay row confirm ID
	if len(words) < 4 || !slices.Contains(words, "DIGITS") || told[words[1]] {
		return ""
	}
	told[words[1]] = true
	return "  # DIGITS: as hearsay " + words[1] + " show " + words[3] + " prints them"
}

// callStatementFlags say who speaks about a call, with which key.
type callStatementFlags struct {
	key, as, reason, trusted, args string
	valid                          time.Duration
}

// decidedJSON is the output of call approve, withdraw and reject.
type decidedJSON struct {
	Schema string    `json:"schema"` // hearsay.decided/1
	Verb   string    `json:"verb"`
	Call   callJSON  `json:"call"`
	By     string    `json:"by"`
	Until  time.Time `json:"until,omitzero"`
	Undo   string    `json:"undo,omitempty"` // the command that takes it back, while nobody used it
}

// minDigits is the fewest digits that say what was seen.
const minDigits = 8

func (a *app) callStatementCommands(store *storeFlags) []*cobra.Command {
	command := func(verb confirm.CallVerb, short, long string) *cobra.Command {
		var f callStatementFlags
		name := verb.String()
		example := "  hearsay call " + name + " -store sqlite:agent.db blk_… --key ana.key --as ana \\\n      -trusted-keys trusted-keys --reason \"asked Acme by phone\""
		if verb == confirm.Approve {
			example += " --args-sha256 9f2c41d0"
		}
		cmd := &cobra.Command{
			Use:   name + " ID",
			Short: short,
			Long: long + `

The statement is signed with your key, bound to the tool, every argument, the rows at
their versions, the policy, run and principal, and counts once. Exit code 6 if the
call, or a row of it, has moved since; 4 if it was decided or made already.

With -o json: {"schema": "hearsay.decided/1", "verb", "call", "by", "until", "undo"}.`,
			Example: example,
			Args:    args("ID"),
		}
		o := outputFlag(cmd)
		cmd.Flags().StringVar(&f.key, "key", "", "your private key, as keygen wrote it")
		cmd.Flags().StringVar(&f.as, "as", "", "the principal you speak as")
		cmd.Flags().StringVar(&f.reason, "reason", "", "why, for people; of reject, what the model is told")
		cmd.Flags().StringVar(&f.trusted, "trusted-keys", "", "file of trusted public keys (or HEARSAY_TRUSTED_KEYS)")
		if verb == confirm.Approve {
			cmd.Flags().StringVar(&f.args, "args-sha256", "", "the first digits of the arguments' digest, from call show")
			cmd.Flags().DurationVar(&f.valid, "for", time.Hour, "how long the approval may be used, at most until the call expires")
		}
		cmd.RunE = func(cmd *cobra.Command, got []string) error {
			done, err := a.decideCall(cmd.Context(), store, verb, &f, got[0])
			if err != nil {
				return err
			}
			if *o == asJSON {
				return a.emit(done)
			}
			return a.write(decidedText(done))
		}
		return cmd
	}
	return []*cobra.Command{
		command(confirm.Approve, "Let one held call be made once, signed with your key",
			`approve lets exactly this call be made once, by the run that asked for it. Its rows
stay unverified: the next call that rests on them is held again, and so is the same call
of another run. To vouch for the fact itself, use hearsay row confirm.

You give the first digits of the arguments' digest as call show prints them, so that
nobody approves a call without having seen it.`),
		command(confirm.Withdraw, "Take an approval back that was not used yet, signed with your key",
			`withdraw takes back an approval that was not used yet. The call waits again.`),
		command(confirm.Refuse, "Refuse a held call and tell the agent why, signed with your key",
			`reject refuses a call for a day, whatever becomes of its rows. The model is told
your reason: 160 characters of it, on one line.`),
	}
}

// decideCall signs a statement about a held call as it is now, and applies it.
func (a *app) decideCall(ctx context.Context, store *storeFlags, verb confirm.CallVerb, f *callStatementFlags, arg string) (decidedJSON, error) {
	keyring, key, err := a.speaker(f.key, f.as, f.trusted, f.reason, verb.String()+" a call")
	if err != nil {
		return decidedJSON{}, err
	}
	s, err := a.open(ctx, store, &memory.Options{Authority: keyring.Authority})
	if err != nil {
		return decidedJSON{}, err
	}
	defer s.Close()
	h, _, ok, err := held(ctx, s, arg)
	if err != nil {
		return decidedJSON{}, err
	}
	if !ok {
		return decidedJSON{}, fail(exitNo, "decision %s held no call, so there is nothing to %s", arg, verb)
	}
	valid := f.valid
	if verb != confirm.Approve {
		valid = statementValidity
	} else if len(f.args) < minDigits || !strings.HasPrefix(h.ArgsSHA256.String(), strings.ToLower(f.args)) {
		c, _, err := lookAt(ctx, s, &h, s.Now())
		if err != nil {
			return decidedJSON{}, err
		}
		if _, err := fmt.Fprint(a.talk, a.callCard(&c, s.Now(), store)); err != nil {
			return decidedJSON{}, err
		}
		return decidedJSON{}, usage("--args-sha256 is missing, or not that of this call: give at least %d digits of it, from the card above", minDigits)
	}
	signed, err := confirm.SignCall(key, confirm.NewCall(verb, &h, s.Tenant(), f.as, f.reason, s.Now(), valid))
	if err != nil {
		return decidedJSON{}, err
	}
	res, err := confirm.ApplyCall(ctx, s, keyring, signed)
	if errors.Is(err, confirm.ErrRunEnded) {
		return decidedJSON{}, fail(exitNo, "%w", err).with("When the agent asks anew, the call is held in its new run: " + a.command(store, "", askAnew(h.Tool)))
	}
	if errors.Is(err, confirm.ErrStale) && verb == confirm.Approve {
		return decidedJSON{}, fail(exitChanged, "%w", err).with("This hold can be approved no more. When the agent asks again, the call is held anew or made: hearsay call list, then hearsay call approve.")
	}
	if err != nil {
		return decidedJSON{}, err
	}
	after, err := s.Hold(ctx, h.ID)
	if err != nil {
		return decidedJSON{}, err
	}
	done := decidedJSON{Schema: "hearsay.decided/1", Verb: verb.String(), Call: callOf(&after, s.Now()), By: f.as, Until: res.Until}
	if verb == confirm.Approve {
		done.Undo = a.command(store, f.trusted, fmt.Sprintf("hearsay call withdraw %s --reason TEXT --key FILE --as NAME", h.ID))
	}
	return done, nil
}

func decidedText(d decidedJSON) string {
	c := card{}
	fmt.Fprintf(&c, "%s  %s\n", oneLine(d.Call.Tool, maxName), d.Call.Standing)
	c.line("id", "%s", d.Call.ID)
	switch d.Call.State {
	case memory.HoldGranted:
		c.line("approved", "once, with exactly these arguments, in run %s, until %s, by %s", oneLine(d.Call.Run, maxName), moment(d.Until), oneLine(d.By, maxName))
		c.line("rows", "stay as they are: the next call that rests on them is held again")
	case memory.HoldRejected:
		c.line("rejected", "until %s, by %s", moment(d.Until), oneLine(d.By, maxName))
	default:
		c.line("withdrawn", "by %s; the call waits again", oneLine(d.By, maxName))
	}
	if d.Undo != "" {
		c.line("undo", "until it is used: %s", d.Undo)
	}
	return c.String()
}
