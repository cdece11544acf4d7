package transfer_test

import (
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/transfer"
)

// quoting asks that a store has one claim and one row that quotes it, and neither is
// verified.
func (w *world) quoting(name, words string) {
	w.Helper()
	rows := w.rows()
	if len(rows) != 2 || !rows[0].Content.Typed() || rows[0].Content.Beside() != "" || rows[0].State() != memory.StateUnverified {
		w.Fatalf("%s: %+v", name, rows)
	}
	if q := rows[1]; q.Quotes != rows[0].ID || q.Content.Typed() || q.Content.Text != words || q.State() != memory.StateUnverified || q.Origin != rows[0].Origin {
		w.Fatalf("%s: %+v", name, q)
	}
}

// The words of a claim come over with it, from a store that had them apart, and from a
// dump that has both in one line.
func TestTheWordsOfAClaimComeOverBesideIt(t *testing.T) {
	const words = "Ada said so on the phone."
	c := memory.Content{Subject: "acme", Predicate: "owes", Object: "12 EUR", Cardinality: memory.CardinalityUnknown}
	from := newWorld(t)
	claim := from.put(modelDraft(c))
	from.put(memory.Quotation(claim, modelDraft(c), words))
	dump := from.export(nil)
	to := newWorld(t)
	to.load(dump, transfer.Options{})
	to.quoting("a store that had them apart", words)
	if r := to.load(dump, transfer.Options{}); r.Rows != 0 || r.Rejected != 0 || r.Known != 2 {
		t.Errorf("again: %+v", r)
	}

	old := newWorld(t)
	if r := old.load([]byte(`{"text":"`+words+`","subject":"acme","predicate":"owes","object":"12 EUR"}`+"\n"), transfer.Options{Legacy: true}); r.Rejected != 0 {
		t.Errorf("%+v", r)
	}
	old.quoting("a legacy dump with both", words)

	before := newWorld(t)
	if r := before.load(transfer.Dump(header, object(1, set{"content": set{"text": words, "subject": "acme", "predicate": "owes", "object": "12 EUR", "cardinality": "unknown"}})), transfer.Options{}); r.Rejected != 0 {
		t.Errorf("%+v", r)
	}
	before.quoting("a dump of an older version", words)

	alone := newWorld(t)
	r := alone.load(transfer.Dump(header, object(2, set{"quotes": id(1)}), object(3, set{"quotes": id(3)})), transfer.Options{})
	if r.Rejected != 2 || len(alone.rows()) != 0 {
		t.Errorf("a quotation of nothing: %+v", r)
	}
}
