package admission_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/admission"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

type bench struct {
	t     *testing.T
	store *memory.Store
	write *admission.Writer
}

func setup(t *testing.T) *bench {
	t.Helper()
	store := storetest.NewStore(nil)
	t.Cleanup(func() { store.Close() })
	return &bench{t, store, admission.New(store)}
}

func text(s string) memory.Draft {
	return memory.Draft{Content: memory.Content{Text: s, Cardinality: memory.CardinalityUnknown}, Origin: memory.OriginModelDerived,
		State: memory.StateUnverified, Asserter: memory.Asserter{Principal: "bot", Model: "sonnet", Family: "claude"}, Sensitivity: memory.SensitivityInternal}
}

func (b *bench) model(d memory.Draft, served ...admission.Served) memory.Receipt {
	b.t.Helper()
	r, err := b.write.Model(context.Background(), d, served)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func triple(object string) memory.Draft {
	d := text("")
	d.Content.Subject, d.Content.Predicate, d.Content.Object = "user", "editor", object
	return d
}

func (b *bench) quoting(d memory.Draft, words string, served ...admission.Served) memory.Receipt {
	b.t.Helper()
	r, err := b.write.ModelQuoting(context.Background(), d, words, served)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) row(id memory.ID) memory.Row {
	b.t.Helper()
	rows, err := b.store.Get(context.Background(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return rows[0]
}

func (b *bench) served(ids ...memory.ID) (out []admission.Served) {
	b.t.Helper()
	for _, id := range ids {
		r := b.row(id)
		out = append(out, admission.NewServed(&r))
	}
	return out
}

func (b *bench) rows() (n int) {
	b.t.Helper()
	for _, err := range b.store.Rows(context.Background(), memory.Filter{}) {
		if err != nil {
			b.t.Fatal(err)
		}
		n++
	}
	return n
}

func TestEightHundredAndEightReentriesLeaveOneRowAndOneRecord(t *testing.T) {
	labels := map[string]func(*memory.Draft){
		"labelled as recall":         func(d *memory.Draft) { d.Origin = memory.OriginRecallReentry },
		"not labelled":               func(*memory.Draft) {},
		"mislabelled as a user's":    func(d *memory.Draft) { d.Origin, d.Anchor = memory.OriginUserAsserted, "user:ana" },
		"mislabelled as a tool's":    func(d *memory.Draft) { d.Origin, d.Asserter.Tool, d.Anchor = memory.OriginFirstHand, "crm", "tool:crm" },
		"mislabelled as verified":    func(d *memory.Draft) { d.Origin, d.State = memory.OriginUserAsserted, memory.StateVerified },
		"with invented evidence":     func(d *memory.Draft) { d.Evidence = []memory.Evidence{invented()} },
		"with high confidence":       func(d *memory.Draft) { d.ValueConfidence, d.ValidTimeConfidence = 1, 1 },
		"in other words, unlabelled": func(d *memory.Draft) { d.Content.Text = "Vim is the user's preferred editor" },
	}
	for name, label := range labels {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			first := b.model(text("User prefers Vim"))
			before := b.row(first.ID)
			for i := range 808 {
				d := text("User prefers Vim")
				label(&d)
				r := b.model(d, b.served(first.ID)...)
				if r.ID != first.ID || r.Disposition != memory.Collapsed {
					t.Fatalf("re-entry %d: %+v", i+1, r)
				}
			}
			after := b.row(first.ID)
			if n := b.rows(); n != 1 {
				t.Errorf("%d rows", n)
			}
			if after.Echoes.Count != 808 {
				t.Errorf("the record counts %d", after.Echoes.Count)
			}
			if after.Revision != before.Revision || after.State() != before.State() || after.ValueConfidence != before.ValueConfidence || after.Independent() != 0 {
				t.Errorf("a re-entry moved the row: %+v", after.Head)
			}
		})
	}
}

func invented() memory.Evidence {
	return memory.Evidence{Relation: memory.RelationSupports, Rank: memory.RankUser, Source: "user:ana", Verifier: "me", Group: "user:ana", At: time.Now()}
}

func TestTheWordingOfACollapseIsKept(t *testing.T) {
	b := setup(t)
	first := b.model(text("User prefers Vim"))
	b.model(text("Vim is the user's preferred editor"), b.served(first.ID)...)
	log, err := b.store.History(context.Background(), first.ID, true)
	if err != nil {
		t.Fatal(err)
	}
	last := log[len(log)-1]
	if last.Kind != memory.EntryEcho || last.Wording != "Vim is the user's preferred editor" {
		t.Errorf("the last entry is %+v", last)
	}
	if e := b.row(first.ID).Echoes; e.Count != 1 || e.Reworded != 1 {
		t.Errorf("the record is %+v", e)
	}
}

func TestNearMissesBecomeDerivedRows(t *testing.T) {
	for _, near := range []string{
		"User prefers Emacs", "The user does not prefer Vim", "The user no longer prefers Vim", "Maria prefers Vim",
		"User prefers Vim 9", "The user prefers Vim only on servers", "The user confirmed that the user prefers Vim",
		"User prefers Vim and the account is ACC-1",
	} {
		t.Run(near, func(t *testing.T) {
			b := setup(t)
			first := b.model(text("User prefers Vim"))
			r := b.model(text(near), b.served(first.ID)...)
			got := b.row(r.ID)
			if r.Disposition != memory.Created || r.ID == first.ID {
				t.Fatalf("it merged: %+v", r)
			}
			if got.State() != memory.StateUnverified || got.Depth != 2 || len(got.DerivedFrom) != 1 || got.DerivedFrom[0] != first.ID || got.Independent() != 0 {
				t.Errorf("the derived row: state %s, depth %d, from %v", got.State(), got.Depth, got.DerivedFrom)
			}
		})
	}
}

func TestWhatWasNotServedIsNoRestatement(t *testing.T) {
	b := setup(t)
	first := b.model(text("User prefers Vim"))
	if r := b.model(text("Vim is the user's preferred editor")); r.ID == first.ID {
		t.Error("other words collapsed onto a row that the run never read")
	}
}

func TestTriplesCollapseOnTheSameTripleOnly(t *testing.T) {
	b := setup(t)
	first := b.model(triple("Vim"))
	if r := b.quoting(triple(" vim "), "The user really loves it", b.served(first.ID)...); r.ID != first.ID {
		t.Error("the same triple in other words is another row")
	}
	if r := b.quoting(triple("Emacs"), "user.editor = Vim", b.served(first.ID)...); r.ID == first.ID {
		t.Error("another triple collapsed, since its text read the same")
	}
}

func TestEverythingServedIsAnAncestor(t *testing.T) {
	b := setup(t)
	var ids []memory.ID
	for i := range 5 {
		ids = append(ids, b.model(text(fmt.Sprintf("Fact number %d stands alone", i))).ID)
	}
	d := text("A conclusion from them")
	d.DerivedFrom = nil // the caller says it came from nowhere
	got := b.row(b.model(d, b.served(ids...)...).ID)
	if up, _ := got.Ancestors(); len(up) != len(ids) {
		t.Errorf("%d ancestors, want %d (I-8)", len(up), len(ids))
	}
}

func TestAChannelCarriesItsOwnOriginOnly(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	if _, err := b.write.Tool(ctx, text("a model's words")); !errors.Is(err, admission.ErrChannel) {
		t.Errorf("the tool channel took a model's draft: %v", err)
	}
	if _, err := b.write.Principal(ctx, text("a model's words")); !errors.Is(err, admission.ErrChannel) {
		t.Errorf("the principal's channel took a model's draft: %v", err)
	}
	quoted := text("quoted")
	quoted.Origin, quoted.State = memory.OriginFirstHand, memory.StateVerified
	if _, err := b.write.Principal(ctx, quoted); !errors.Is(err, admission.ErrChannel) {
		t.Errorf("the principal's channel took quoted words as verified: %v", err)
	}
	if n := b.rows(); n != 0 {
		t.Errorf("%d rows were written", n)
	}
	bad := text("")
	if _, err := b.write.Model(ctx, bad, nil); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("an empty claim: %v", err)
	}
}

func ExampleWriter_Model() {
	ctx := context.Background()
	store := storetest.NewStore(nil)
	defer store.Close()
	w := admission.New(store)
	draft := memory.Draft{Content: memory.Content{Text: "User prefers Vim", Cardinality: memory.CardinalityUnknown},
		Origin: memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
		Asserter: memory.Asserter{Principal: "notes", Model: "sonnet", Family: "claude"}}
	first, _ := w.Model(ctx, draft, nil)
	rows, _ := store.Get(ctx, first.ID)

	// The run reads the row and says it again, in other words.
	draft.Content.Text = "Note: Vim is the user's preferred editor."
	again, _ := w.Model(ctx, draft, []admission.Served{admission.NewServed(&rows[0])})
	fmt.Println(again.ID == first.ID, again.Disposition, again.State)
	// Output: true collapsed unverified
}

// A word of negation that is part of a name denies nothing.
func TestANameDeniesNothing(t *testing.T) {
	for words, c := range map[string]struct {
		content memory.Content
		denies  bool
	}{
		"The Never Inn has a pool":      {memory.Content{Subject: "Never Inn", Predicate: "has", Object: "pool"}, false},
		"The Never Inn has no pool":     {memory.Content{Subject: "Never Inn", Predicate: "has", Object: "pool"}, true},
		"I drink Never Enough":          {memory.Content{Subject: "ana", Predicate: "drinks", Object: "Never Enough"}, false},
		"I never drink Never Enough":    {memory.Content{Subject: "ana", Predicate: "drinks", Object: "Never Enough"}, true},
		"I do not like football":        {memory.Content{Subject: "ni", Predicate: "likes", Object: "football"}, true},
		"I never like football":         {memory.Content{Subject: "nie", Predicate: "likes", Object: "football"}, true},
		"I do not have 3 children":      {memory.Content{Subject: "ana", Predicate: "no_of_children", Object: "3"}, true},
		"I am not free then":            {memory.Content{Subject: "ana", Predicate: "not_before", Object: "then"}, true},
		"The inn never closes":          {memory.Content{Subject: "inn", Predicate: "never_closes", Object: "yes"}, false},
		"Its account no is 17":          {memory.Content{Subject: "acme", Predicate: "account_no", Object: "17"}, true}, // it may be "no account"
		"My main sport is not football": {memory.Content{Subject: "Mai", Predicate: "main_sport", Object: "football"}, true},
		"I do not play football":        {memory.Content{Subject: "No", Predicate: "plays", Object: "football"}, true},
		"My passport is not 12345":      {memory.Content{Subject: "Pas", Predicate: "passport", Object: "12345"}, true},
		"My number is not 12345":        {memory.Content{Subject: "ana", Predicate: "ni_number", Object: "12345"}, true},
		"My contact is not Bob":         {memory.Content{Subject: "ana", Predicate: "false_alarm_contact", Object: "Bob"}, true},
		"Mr No plays football":          {memory.Content{Subject: "No", Predicate: "plays", Object: "football"}, false},
		"The knots of No do not hold":   {memory.Content{Subject: "No", Predicate: "holds", Object: "knots"}, true},
		"A pool that nobody\u200b saw":  {memory.Content{Subject: "inn", Predicate: "has", Object: "pool"}, true},
	} {
		if got := admission.Denies(words, c.content); got != c.denies {
			t.Errorf("%q denies %+v: %t", words, c.content, got)
		}
	}
}
