package main

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// narrowed asks the gate about the rows that a call's sink arguments came from,
// where that can be shown of each of them, and about the whole run where it cannot.
// It decides nothing: whether those rows are fit is the gate's answer.
//
// A sink argument is cleared alone if it is verbatim in the principal's typed words,
// or verbatim the typed value of a row that the run was shown. A short one clears
// nothing and blames nothing. The whole run answers if an argument came from nowhere,
// if none is left that clears, if the tool declared no sinks, and if a URL, an
// address or an account number stands in another argument and is not cleared itself.
type narrowed struct {
	gate  *gate.Gate
	store *memory.Store
	// corroborate also takes a verified row that the run was not shown, if it holds
	// the very value. That vouches for the value and not for what is asked of it.
	corroborate bool

	mu    sync.Mutex
	typed map[string]string // by run: what the principal typed
	shown map[string]bool   // by run: its last call was judged by the rows of its sinks
}

// heard tells what the principal typed in a run.
func (n *narrowed) heard(run, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.typed[run] = text
}

// narrow reports whether the last call of a run was judged by the rows of its sinks.
func (n *narrowed) narrow(run string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.shown[run]
}

func (n *narrowed) said(run, words string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return standsIn(n.typed[run], words)
}

// Decide is that of the gate, of the rows that the call can be shown to rest on.
func (n *narrowed) Decide(ctx context.Context, req gate.Request) gate.Decision {
	narrow := false
	if req.Contract.Effect != gate.ReadOnly && !req.Contract.Undeclared && len(req.Contract.Sinks) > 0 && req.Lineage.IsKnown() {
		if rows, sinks, ok := n.clear(ctx, &req); ok {
			if up, err := n.store.Closure(ctx, rows...); err == nil {
				req.Lineage, req.Sinks, narrow = gate.Known(rows, up), sinks, true
			}
		}
	}
	n.mu.Lock()
	n.shown[req.Run] = narrow
	n.mu.Unlock()
	return n.gate.Decide(ctx, req)
}

// clear finds the rows that vouch for the arguments, with the sinks that name them.
// ok is false if the whole run must answer.
func (n *narrowed) clear(ctx context.Context, req *gate.Request) (rows []memory.ID, sinks []gate.Sink, ok bool) {
	shown, err := n.store.Get(ctx, req.Lineage.Direct()...)
	if err != nil {
		return nil, nil, false
	}
	sinks = slices.Clone(req.Sinks)
	clearing := 0
	for i := range sinks {
		switch s := &sinks[i]; s.Source {
		case gate.SourceShort:
			continue
		case gate.SourcePrincipal:
		case gate.SourceRow:
			row, found := n.holds(ctx, shown, s.Value)
			if !found {
				row = s.Row // a number that is spelled otherwise
			}
			s.Row, rows = row, append(rows, row)
		default:
			return nil, nil, false
		}
		clearing++
	}
	if clearing == 0 {
		return nil, nil, false
	}
	for _, token := range targets(req.Args, req.Contract.Sinks) {
		if n.said(req.Run, token) {
			continue
		}
		row, found := n.holds(ctx, shown, token)
		if !found {
			return nil, nil, false
		}
		rows = append(rows, row)
	}
	slices.Sort(rows)
	return slices.Compact(rows), sinks, true
}

// holds finds a row whose typed object is exactly the value, a verified one before
// any other.
func (n *narrowed) holds(ctx context.Context, shown []memory.Row, value string) (id memory.ID, found bool) {
	for i := range shown {
		r := &shown[i]
		if !r.Content.Typed() || r.Content.Object != value {
			continue
		}
		if r.State() == memory.StateVerified {
			return r.ID, true
		}
		id, found = r.ID, true
	}
	if !found || !n.corroborate {
		return id, found
	}
	known, err := n.store.Search(ctx, value, 1000)
	if err != nil {
		return id, found
	}
	for i := range known {
		if r := &known[i]; r.Content.Typed() && r.Content.Object == value && r.State() == memory.StateVerified {
			return r.ID, true
		}
	}
	return id, found
}

// target is what a message can point its reader to: a URL or a host, a mail
// address, an account number.
var target = regexp.MustCompile(`(?i)https?://\S+|www\.\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\b[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|example)(?:/\S*)?|\b[A-Z]{2}[0-9]{10,}\b`)

// targets lists what the arguments that are no sinks point to.
func targets(args json.RawMessage, sinks []string) (out []string) {
	dec := json.NewDecoder(strings.NewReader(string(args)))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil
	}
	leaves("", v, func(at, leaf string) {
		if slices.ContainsFunc(sinks, func(p string) bool { return at == p || strings.HasPrefix(at, p+"/") }) {
			return
		}
		for _, found := range target.FindAllString(leaf, -1) {
			out = append(out, strings.TrimRight(found, `.,;:!?)'"`))
		}
	})
	return out
}

// standsIn reports whether words stand in a text, with no letter or digit on either
// side.
func standsIn(text, words string) bool {
	for from := 0; words != ""; {
		at := strings.Index(text[from:], words)
		if at < 0 {
			return false
		}
		start, end := from+at, from+at+len(words)
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		after, _ := utf8.DecodeRuneInString(text[end:])
		word := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
		if !word(before) && !word(after) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[start:])
		from = start + size
	}
	return false
}
