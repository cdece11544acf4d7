package keyring

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hearsay-go/hearsay/memory"
)

// inMemory is the backend of a ring that ends with the process. It is its own
// transaction: there is nobody else, and nothing in it fails.
type inMemory struct {
	gate    chan struct{} // holds one value while somebody is in
	state   *State
	entries map[memory.KeyID]Entry
	tokens  map[Token]memory.KeyID
	holders map[string]Holder
}

func newInMemory() *inMemory {
	return &inMemory{gate: make(chan struct{}, 1), entries: map[memory.KeyID]Entry{}, tokens: map[Token]memory.KeyID{}, holders: map[string]Holder{}}
}

// Do runs work alone. It undoes nothing: a ring checks before it changes.
func (m *inMemory) Do(ctx context.Context, _ Mode, work func(Tx) error) error {
	select {
	case m.gate <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("keyring: %w", ctx.Err())
	}
	defer func() { <-m.gate }()
	return work(m)
}

func (m *inMemory) Scrub(context.Context) error { return nil }
func (m *inMemory) Holder() string              { return "" }
func (m *inMemory) Close() error                { return nil }
func (m *inMemory) String() string              { return "(ephemeral)" }

func (m *inMemory) Findings(context.Context) []memory.Finding {
	return []memory.Finding{{
		Name: "keys.folder", Found: "none",
		Loss: "everything that was written, when the process ends", Fix: "keep the keys in a folder: keyring.OpenOrCreate",
	}}
}

func (m *inMemory) State() (State, bool, error) {
	if m.state == nil {
		return State{}, false, nil
	}
	return *m.state, true, nil
}

func (m *inMemory) SetState(s State) error {
	m.state = &s
	return nil
}

func (m *inMemory) Find(ids ...memory.KeyID) (list []Entry, err error) {
	for _, id := range ids {
		if e, ok := m.entries[id]; ok {
			list = append(list, e)
		}
	}
	return list, nil
}

func (m *inMemory) Of(tokens ...Token) (list []Entry, err error) {
	for _, t := range tokens {
		if id, ok := m.tokens[t]; ok {
			list = append(list, m.entries[id])
		}
	}
	return list, nil
}

func (m *inMemory) Insert(entries ...Entry) error {
	for _, e := range entries {
		_, taken := m.entries[e.ID]
		if _, known := m.tokens[e.Of]; taken || known && e.Of != (Token{}) {
			continue
		}
		m.entries[e.ID] = e
		if e.Of != (Token{}) {
			m.tokens[e.Of] = e.ID
		}
	}
	return nil
}

func (m *inMemory) Update(entries ...Entry) error {
	for _, e := range entries {
		m.entries[e.ID] = e
	}
	return nil
}

func (m *inMemory) Scan(after memory.KeyID, limit int) (list []Entry, err error) {
	for id, e := range m.entries {
		if id > after && e.Sealed != nil {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	return list[:min(limit, len(list))], nil
}

func (m *inMemory) Count() (live, destroyed int, err error) {
	for _, e := range m.entries {
		if e.Sealed != nil {
			live++
		} else {
			destroyed++
		}
	}
	return live, destroyed, nil
}

func (m *inMemory) Holders() (list []Holder, err error) {
	for _, name := range slices.Sorted(maps.Keys(m.holders)) {
		list = append(list, m.holders[name])
	}
	return list, nil
}

func (m *inMemory) Hold(h Holder) error {
	m.holders[h.Name] = h
	return nil
}

func (m *inMemory) Release(name string) error {
	delete(m.holders, name)
	return nil
}
