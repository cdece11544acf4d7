package roster

import (
	"errors"
	"slices"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/document"
	"github.com/hearsay-go/hearsay/verifier/secondmodel"
)

// Entry is a verifier that was made, and the claims it can be asked about.
type Entry struct {
	Name     string
	Kind     string // http, document, model or quorum
	Rank     memory.Rank
	Verifier verifier.Verifier
	Covers   func(memory.Content) bool
	// Predicates are those that it covers claims of: canonical, none = all triples. Asks are the guarded verifiers behind it, of which Need have to
	// be up for it to answer. Need 0 = a claim does not wait for this verifier: a second
	// model verifies nothing alone, and a text covers single subjects.
	Predicates []string
	Asks       []string
	Need       int
}

// Guard puts a breaker around a verifier that answers within timeout or not at all.
type Guard func(name string, v verifier.Verifier, timeout time.Duration) verifier.Verifier

// Make makes the verifiers, each behind its guard; the members of a quorum are guarded
// one by one. A roster with problems is an error.
func (r *Roster) Make(guard Guard) (entries []Entry, err error) {
	if p := r.Problems(); len(p) > 0 {
		return nil, errors.New("roster: " + p[0])
	}
	fetch, err := document.NewFetcher(r.Fetch)
	if err != nil {
		return nil, err
	}
	for _, h := range r.HTTP {
		web := &httpSource{name: h.Name, url: h.URL, token: h.Token, client: sourceClient(), now: time.Now}
		tool := verifier.NewTool(h.Name, web.ask, &verifier.ToolOptions{Rank: h.Rank, Group: h.Group, Timeout: h.Timeout, Cardinality: h.Cardinality, Compare: h.Compare})
		entries = append(entries, Entry{h.Name, "http", h.Rank, guard(h.Name, tool, guardTimeout(h.Timeout, 5*time.Second)), h.covers, h.names(), []string{h.Name}, 1})
	}
	for _, d := range r.Documents {
		v, err := d.verifier(fetch)
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{d.Name, "document", memory.RankPrimarySource, guard(d.Name, v, guardTimeout(r.Fetch.Timeout, document.DefaultTimeout)), d.covers, d.names(), []string{d.Name}, d.need()})
	}
	for _, m := range r.Models {
		v, err := secondmodel.New(secondmodel.Config{Name: m.Name, BaseURL: m.BaseURL, APIKey: m.Key, Model: m.Model, Family: m.Family, Timeout: m.Timeout})
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{m.Name, "model", memory.RankSecondModel, guard(m.Name, v, guardTimeout(m.Timeout, 30*time.Second)), func(memory.Content) bool { return true }, nil, []string{m.Name}, 0})
	}
	for _, q := range r.Quorums {
		entries = q.gather(entries)
	}
	return entries, nil
}

// gather puts a quorum in the place of its members.
func (q *Quorum) gather(entries []Entry) []Entry {
	var members []verifier.Member
	var covers []func(memory.Content) bool
	var asks, predicates []string
	all, need := true, q.K
	rank := memory.Rank(0)
	rest := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool {
		if !slices.Contains(q.Of, e.Name) {
			return false
		}
		members = append(members, verifier.Member{Name: e.Name, Rank: e.Rank, Verifier: e.Verifier})
		covers, rank = append(covers, e.Covers), max(rank, e.Rank)
		asks, need = append(asks, e.Asks...), min(need, q.K*e.Need) // 0 if what one covers cannot be told
		switch {
		case len(e.Predicates) == 0:
		case all:
			all, predicates = false, slices.Clone(e.Predicates)
		default:
			predicates = slices.DeleteFunc(predicates, func(p string) bool { return !slices.Contains(e.Predicates, p) })
		}
		return true
	})
	return append(rest, Entry{q.Name, "quorum", rank, verifier.NewQuorum(q.Name, q.K, members...), func(c memory.Content) bool {
		for _, covers := range covers {
			if !covers(c) {
				return false
			}
		}
		return true
	}, predicates, asks, q.waited(need, all, predicates)})
}

// waited is how many members have to be up, or 0 if the quorum covers nothing.
func (q *Quorum) waited(need int, all bool, predicates []string) int {
	if !all && len(predicates) == 0 {
		return 0
	}
	return need
}

func (d *Document) verifier(f *document.Fetcher) (verifier.Verifier, error) {
	var ask verifier.Ask
	var err error
	var uri string
	if d.Table != nil {
		uri = d.Table.URI
		ask, err = d.Table.Ask(f)
	} else {
		uri = d.Text.URI
		ask, err = d.Text.Ask(f)
	}
	if err != nil {
		return nil, err
	}
	group := d.Group
	if group == "" {
		group = "document:" + uri
	}
	return verifier.NewTool(d.Name, ask, &verifier.ToolOptions{Rank: memory.RankPrimarySource, Group: group, Source: uri, Timeout: document.DefaultTimeout, Cardinality: d.Cardinality, Compare: d.Compare}), nil
}

// covers says whether a source can be asked about a claim: a triple with one of its
// predicates.
func (h *HTTP) covers(c memory.Content) bool {
	return c.Typed() && (slices.Contains(h.Predicates, "*") || slices.Contains(h.Predicates, memory.Canonical(c.Predicate)))
}

func (h *HTTP) names() []string {
	if slices.Contains(h.Predicates, "*") {
		return nil
	}
	return h.Predicates
}

func (d *Document) names() (out []string) {
	var of map[string]string
	if d.Table != nil {
		of = d.Table.Columns
	} else if d.Text != nil {
		of = d.Text.Patterns
	}
	for p := range of {
		out = append(out, memory.Canonical(p))
	}
	slices.Sort(out)
	return out
}

func (d *Document) need() int {
	if d.Table == nil || len(d.Table.Columns) == 0 {
		return 0
	}
	return 1
}

func (d *Document) covers(c memory.Content) bool {
	if !c.Typed() {
		return false
	}
	of := func(m map[string]string) bool {
		for p := range m {
			if memory.Canonical(p) == memory.Canonical(c.Predicate) {
				return true
			}
		}
		return false
	}
	if d.Table != nil {
		return of(d.Table.Columns)
	}
	return memory.SameName(c.Subject, d.Text.Subject) && of(d.Text.Patterns)
}

// guardTimeout lets a verifier report its own timeout before the guard does.
func guardTimeout(own, otherwise time.Duration) time.Duration {
	if own == 0 {
		own = otherwise
	}
	return own + time.Second
}
