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
		entries = append(entries, Entry{h.Name, "http", h.Rank, guard(h.Name, tool, guardTimeout(h.Timeout, 5*time.Second)), h.covers})
	}
	for _, d := range r.Documents {
		v, err := d.verifier(fetch)
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{d.Name, "document", memory.RankPrimarySource, guard(d.Name, v, guardTimeout(r.Fetch.Timeout, document.DefaultTimeout)), d.covers})
	}
	for _, m := range r.Models {
		v, err := secondmodel.New(secondmodel.Config{Name: m.Name, BaseURL: m.BaseURL, APIKey: m.Key, Model: m.Model, Family: m.Family, Timeout: m.Timeout})
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{m.Name, "model", memory.RankSecondModel, guard(m.Name, v, guardTimeout(m.Timeout, 30*time.Second)), func(memory.Content) bool { return true }})
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
	rank := memory.Rank(0)
	rest := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool {
		if !slices.Contains(q.Of, e.Name) {
			return false
		}
		members = append(members, verifier.Member{Name: e.Name, Rank: e.Rank, Verifier: e.Verifier})
		covers, rank = append(covers, e.Covers), max(rank, e.Rank)
		return true
	})
	return append(rest, Entry{q.Name, "quorum", rank, verifier.NewQuorum(q.Name, q.K, members...), func(c memory.Content) bool {
		for _, covers := range covers {
			if !covers(c) {
				return false
			}
		}
		return true
	}})
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
	return memory.Canonical(c.Subject) == memory.Canonical(d.Text.Subject) && of(d.Text.Patterns)
}

// guardTimeout lets a verifier report its own timeout before the guard does.
func guardTimeout(own, otherwise time.Duration) time.Duration {
	if own == 0 {
		own = otherwise
	}
	return own + time.Second
}
