package rental

import (
	"encoding/json"

	"github.com/hearsay-go/hearsay/bench/service/workload"
)

// clerk is the agent at the desk. A call for which it lacks a value is left out.
type clerk struct{ workload.Desk }

// asked is what the person types: one of the forms, depending on the round.
func (c clerk) asked(i int, forms []string, values ...any) {
	c.Asked(forms[i%len(forms)], values...)
}

// look reads, if all arguments are there.
func (c clerk) look(call string, a workload.Args) any {
	if lacks(a) {
		return nil
	}
	return c.Read(call, a)
}

// do changes, if all arguments are there.
func (c clerk) do(call string, a workload.Args) {
	if !lacks(a) {
		c.Change(call, a)
	}
}

// lacks reports whether an argument is missing: no honest call here has an empty text or a zero.
func lacks(a workload.Args) bool {
	for _, v := range a {
		if v == nil || v == "" || v == 0 {
			return true
		}
	}
	return false
}

// at is what an answer has under a path of names and positions, or nil.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p < 0 || p >= len(l) {
				return nil
			}
			v = l[p]
		default:
			return nil
		}
	}
	return v
}

// str is a text of an answer, or "".
func str(v any, path ...any) string {
	s, _ := at(v, path...).(string)
	return s
}

// num is a number of an answer, or 0.
func num(v any, path ...any) int {
	switch n := at(v, path...).(type) {
	case int:
		return n
	case int64:
		return int(n)
	case float64:
		return int(n)
	case json.Number:
		k, _ := n.Int64()
		return int(k)
	}
	return 0
}

// items is a list of an answer, or nil.
func items(v any, path ...any) []any {
	l, _ := at(v, path...).([]any)
	return l
}

// sum adds up a number of all elements of a list; 0 if there is none.
func sum(list []any, path ...any) int {
	total := 0
	for _, e := range list {
		total += num(e, path...)
	}
	return total
}

// with is the first element of a list that has a text under a path, or nil.
func with(list []any, value string, path ...any) any {
	for _, e := range list {
		if value != "" && str(e, path...) == value {
			return e
		}
	}
	return nil
}

// balance is what is open on an invoice that has been read; 0 if the answer has no lines.
func balance(inv any) int {
	lines := items(inv, "lines")
	if len(lines) == 0 || at(inv, "paid") == nil {
		return 0
	}
	return sum(lines, "amount") - num(inv, "paid")
}
