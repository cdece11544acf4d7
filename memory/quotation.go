package memory

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// MaxQuotations bounds the rows that [Store.Put] writes to quote one claim. What is
// quoted beyond them counts in the corroboration record of the claim, whose log keeps the
// words. Writers at the same moment may pass the bound by one row each.
const MaxQuotations = 16

// Quotation is the draft of the words that a claim was taken from. It has the origin, the
// lineage and the secrecy of the draft of the claim, is about the same subjects, and is
// written after it, with the row that holds the claim:
//
//	r, err := store.Put(ctx, d)
//	…
//	store.Put(ctx, memory.Quotation(r.ID, d, words))
//
// A quotation is unverified for good: nobody verifies or confirms it, with the claim or
// alone. It is found by its claim only ([Filter.Quotes]), so that no word of it ranks or
// recalls anything. The same words of the same source are one row.
func Quotation(claim ID, d Draft, words string) Draft {
	if d.Content.Subject != "" {
		d.Subjects = append(slices.Clone(d.Subjects), d.Content.Subject)
	}
	d.Content = Content{Text: words, Cardinality: CardinalityUnknown}
	d.State, d.Evidence, d.Quotes, d.Supersedes = StateUnverified, nil, claim, ""
	return d
}

// checkQuotation keeps a quotation apart from what is verified.
func (d *Draft) checkQuotation() error {
	switch {
	case d.Quotes == "":
		return nil
	case d.Content.Typed():
		return invalid("quotes", "conflict", "a quotation is free text")
	case d.State != StateUnverified:
		return invalid("state", "not_earned", "a quotation is unverified: nobody is asked about it")
	case len(d.Evidence) > 0:
		return invalid("evidence", "not_earned", "evidence is of a claim, not of its quotation")
	}
	return nil
}

// claimKey is the key of what a draft claims. A quotation claims nothing: its key stands
// for the exact words, the row they are quoted for, and who said them, so that it is the
// echo of nothing else.
func (d *Draft) claimKey() Key {
	if d.Quotes == "" {
		return d.Content.ClaimKey()
	}
	return digest("quotation/1", string(d.Quotes), d.Content.Text, d.Asserter.Group())
}

// identityKey is the key of a row that the draft, of a claim, would be.
func (d *Draft) identityKey(claim Key) Key {
	if d.Quotes == "" {
		return d.Content.identityKey(claim, d.Anchor)
	}
	return digest("identity/1", string(claim[:]), "")
}

// termQuotes is carried by the quotations of a row.
func termQuotes(id ID) string { return place("y").of(id) }

// quoted is the head of a row that is to be quoted.
func (s *Store) quoted(o Object, id ID) (*Head, error) {
	heads, err := decodeHeads([]Object{o}, []ID{id})
	if err != nil {
		return nil, err
	}
	return &heads[0], quotable(&heads[0])
}

// quotable asks that a row is there to be quoted.
func quotable(h *Head) error {
	switch {
	case h.Revision == 0:
		return invalid("quotes", "not_found", "no row %s", h.ID)
	case h.Has(FlagErased):
		return fmt.Errorf("%w: row %s, which this one quotes", ErrErased, h.ID)
	}
	return nil
}

// full reports whether a claim has as many quotations as it may.
func (s *Store) full(ctx context.Context, claim ID) (bool, error) {
	hits, _, err := s.query(ctx, Query{Term: termQuotes(claim), Limit: MaxQuotations})
	return len(hits) >= MaxQuotations, err
}

// overflow counts the words of a quotation in the corroboration record of its claim.
func (s *Store) overflow(ctx context.Context, d Draft, claim Head, now time.Time) (Receipt, error) {
	record, err := s.get(ctx, echoKey.at(claim.Claim))
	if err != nil {
		return Receipt{}, err
	}
	if _, err := s.echo(ctx, d.Asserter, d.Run, claim, record[0], d.Content.Text, now); err != nil {
		return Receipt{}, err
	}
	return overflowed(claim), nil
}

// overflowed is the receipt of words that are kept in the record of their claim.
func overflowed(claim Head) Receipt {
	r := collapsed(claim)
	r.Reason = fmt.Sprintf("the claim has %d quotations; the words are kept in its corroboration record", MaxQuotations)
	return r
}
