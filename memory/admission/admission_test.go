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

// Each place where a name stands is taken off once, however many names stand there.
func TestAPlaceOfANameCountsOnce(t *testing.T) {
	for _, c := range []struct {
		words, subject, object string
		denies                 bool
	}{
		{"It is not no-reply@acme.example", "no-reply", "no-reply@acme.example", true},
		{"It is no-reply@acme.example", "no-reply", "no-reply@acme.example", false},
		{"I do not work for Doctors Without Borders", "Without Borders", "Doctors Without Borders", true},
		{"I do not work for Doctors Without Borders", "Doctors Without Borders", "Doctors Without Borders", true},
		{"I do not work for Doctors Without Borders", "Doctors Without", "Without Borders", true},
		{"I work for Doctors Without Borders", "Doctors Without", "Without Borders", false},
		{"I work for Doctors Without Borders, that is Doctors Without Borders", "ana", "Doctors Without Borders", false},
		{"I don't work for Doctors Without Borders, that is Doctors Without Borders", "ana", "Doctors Without Borders", true},
		{"doctors without borders is in Oslo", "Doctors Without Borders", "Oslo", false},
		{"I eat no fish at No Fish", "ana", "No Fish", true},
		{"I eat at No Fish", "ana", "No Fish", false},
		{"I never was at Never", "ana", "Never", true},
		{"I never was at Never", "Never", "Oslo", true},
		{"I was at Never", "ana", "Never", false},
		{"I never said never", "ana", "never", true},
		{"I can't say can't", "ana", "can't", true},
		{"I cannot say cannot", "ana", "cannot", true},
		{"No, I do not play football", "No", "football", true},
		{"No, I play football", "No", "football", false},
		{"I play no football", "No", "football", true},
		{"order no Never-7 is late", "ana", "Never-7", false},
		{"I ship not-No-reply", "ana", "No-reply", true},
		{"my mood is 👎", "ana", "👎", false},
		{"my mood is not 👎", "ana", "👎", true},
		{"我住在不丹", "我", "不丹", false},
		{"我不住在不丹", "我", "不丹", true},
		{"不丹, 不丹", "我", "不丹", false},
		{"मैं नहीं होटल में हूँ", "ana", "नहीं होटल", false},
		{"near abc不丹", "ana", "不丹", false},
		{"near 不丹abc", "ana", "不丹", false},
		{"It is near Never Inns", "Never Inn", "x", true},
		{"Ana never inn", "A Never Inn", "x", true},
		{"doctors without borders, or doctors without borders", "Doctors Without Borders", "Oslo", true},
		{"I 👎 a 👎", "ana", "👎", true},
		{"I drink Never ❤\ufe0f", "ana", "Never ❤\ufe0f", false},
		{"No. Doctors Without Borders it is", "ana", "Doctors Without Borders", false},
		{"A non-smoking flat is in Oslo", "smoking flat", "Oslo", true},
		{"Never Inn \xff", "Never Inn", "x", true},
	} {
		if got := admission.Denies(c.words, memory.Content{Subject: c.subject, Predicate: "is", Object: c.object}); got != c.denies {
			t.Errorf("%q with %q and %q: %t", c.words, c.subject, c.object, got)
		}
	}
}

// A predicate takes off the words of negation that it has, and no others.
func TestAPredicateDeniesWhatItNames(t *testing.T) {
	for _, c := range []struct {
		words, predicate, object string
		denies                   bool
	}{
		{"I rarely eat fish", "rarely_eats", "fish", false},
		{"I seldom eat fish", "seldom_eats", "fish", false},
		{"I cannot eat fish", "cannot_eat", "fish", false},
		{"I can't eat fish", "cant_eat", "fish", false},
		{"I cant eat fish", "can't_eat", "fish", false},
		{"I cant eat fish", "cannot_eat", "fish", false},
		{"I never eat fish", "does not eat", "fish", false},
		{"The wrong address is Elm St", "wrong_address", "Elm St", false},
		{"Ana isst nicht fish", "isst_nicht", "fish", false},
		{"Ana isst nie fish", "nie_isst", "fish", false},
		{"Ana ne mange pas fish", "ne_mange_pas", "fish", false},
		{"Ana is a non smoker: yes", "non_smoker", "yes", false},
		{"Ana is a non-smoker: yes", "non_smoker", "yes", false},
		{"Ana is a non-smoker", "non_smoker", "non-smoker", false},
		{"我不吃 fish", "不吃", "fish", false},
		{"I don't work for Doctors Without Borders", "works_not_for", "Doctors Without Borders", false},
		{"I rarely eat fish", "eats", "fish", true},
		{"I do not rarely eat fish", "rarely_eats", "fish", true},
		{"I do not eat fish", "rarely_eats", "fish", true},
		{"My address is not Elm St", "wrong_address", "Elm St", true},
		{"It is wrong that the address is Elm St", "wrong_address", "Elm St", true},
		{"It is false that my alarm contact is Bob", "false_alarm_contact", "Bob", true},
		{"My false alarm contact is Bob", "false_alarm_contact", "Bob", false},
		{"The number 5 is wrong", "is_wrong", "5", false},
		{"Ana is not a non-smoker", "non_smoker", "non-smoker", true},
		{"Ana isst nicht fish", "isst", "fish", true},
		{"My ni number is 5", "ni_number", "5", false},
		{"My ni number is not 5", "ni_number", "5", true},
		{"I have no account 5", "account_no", "5", true},
		{"I do not eat before 5", "not_before", "5", true},
	} {
		if got := admission.Denies(c.words, memory.Content{Subject: "ana", Predicate: c.predicate, Object: c.object}); got != c.denies {
			t.Errorf("%q as %s: %t", c.words, c.predicate, got)
		}
	}
}

// A word with a hyphen denies what the triple says if it is about it.
func TestAWordWithAHyphenThatIsAboutTheTriple(t *testing.T) {
	for _, c := range []struct {
		words, predicate, object string
		denies                   bool
	}{
		{"I work for a non-profit in Oslo", "works_in", "Oslo", false},
		{"I fly non-stop to Oslo", "flies_to", "Oslo", false},
		{"I fly non-stop to Oslo", "stops_in", "Oslo", true},
		{"I have a non-smoking flat", "lives_in", "flat", false},
		{"I have a non-smoking flat", "smokes_in", "flat", true},
		{"I work for a not-for-profit", "works_for", "not-for-profit", false},
		{"I work for a non-profit", "works_for", "profit", true},
		{"I like yes/no questions", "likes", "questions", false},
		{"I live at Oslo-No 5", "lives_in", "Oslo", false},
		{"My page is https://no.wikipedia.org", "page", "https://no.wikipedia.org", false},
		{"My page is not https://no.wikipedia.org", "page", "https://no.wikipedia.org", true},
		{"I eat non-fat", "eats", "fat", true},
		{"I eat non-fat yoghurt", "eats", "yoghurt", false},
		{"I work for a not-for-profit in Oslo", "works_for", "Oslo", false},
		{"I am a non-member of Acme", "member_of", "Acme", true},
		{"I live in not- Oslo", "lives_in", "Oslo", true},
		{"I live in no-Oslo", "lives_in", "Oslo", true},
	} {
		if got := admission.Denies(c.words, memory.Content{Subject: "ana", Predicate: c.predicate, Object: c.object}); got != c.denies {
			t.Errorf("%q as %s %s: %t", c.words, c.predicate, c.object, got)
		}
	}
}
