package memory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// registered is a bench whose store has a registry.
func registered(t testing.TB, registry map[string]memory.Predicate) *bench {
	b := newBenchOf(t, everything)
	s, err := memory.New(b.driver, b.keys, &memory.Options{Clock: b.clock, Authority: b.scopes, Predicates: registry})
	if err != nil {
		t.Fatal(err)
	}
	b.Store = s
	return b
}

func (b *bench) contested(want bool, ids ...memory.ID) {
	b.Helper()
	for _, id := range ids {
		if h := b.head(id); h.Truth != memory.TruthSupported || h.Has(memory.FlagContested) != want {
			b.Errorf("%s is %s, %v; contested: want %v", b.row(id).Content, h.Truth, h.Flags.Names(), want)
		}
	}
}

func TestTwoWordsOfOnePersonDoNotStandSilentlySideBySide(t *testing.T) {
	unknown := func(object string, c memory.Cardinality) memory.Draft {
		return userDraft("ana", memory.Content{Subject: "ana", Predicate: "city", Object: object, Cardinality: c})
	}
	t.Run("both are contested where nobody said how many there can be", func(t *testing.T) {
		b := newBench(t)
		berlin, munich := b.put(unknown("Berlin", memory.CardinalityUnknown)).ID, b.put(unknown("Munich", memory.CardinalityUnknown)).ID
		b.contested(true, berlin, munich)
		clean(b)
	})
	t.Run("and by a scope, not the own name", func(t *testing.T) {
		b := newBenchOf(t, everything)
		acme := func(object string) memory.Draft {
			return userDraft("ana", memory.Content{Subject: "acme", Predicate: "city", Object: object, Cardinality: memory.CardinalityUnknown})
		}
		b.contested(true, b.put(acme("Berlin")).ID, b.put(acme("Munich")).ID)
	})
	t.Run("the same object again contests nothing", func(t *testing.T) {
		b := newBench(t)
		berlin := b.put(unknown("Berlin", memory.CardinalityUnknown)).ID
		b.put(unknown("Berlin", memory.CardinalityUnknown))
		b.contested(false, berlin)
	})
	t.Run("what is declared a set is one", func(t *testing.T) {
		b := newBench(t)
		b.contested(false, b.put(unknown("Berlin", memory.CardinalitySetValued)).ID, b.put(unknown("Munich", memory.CardinalitySetValued)).ID)
	})
	t.Run("what is registered a set is one", func(t *testing.T) {
		b := registered(t, map[string]memory.Predicate{"city": {Cardinality: memory.CardinalitySetValued}})
		b.contested(false, b.put(unknown("Berlin", memory.CardinalityUnknown)).ID, b.put(unknown("Munich", memory.CardinalityUnknown)).ID)
	})
	t.Run("what is registered functional has one object at a time", func(t *testing.T) {
		b := registered(t, map[string]memory.Predicate{"city": {Cardinality: memory.CardinalityFunctional}})
		berlin := b.put(unknown("Berlin", memory.CardinalityUnknown)).ID
		munich := b.put(unknown("Munich", memory.CardinalityUnknown)).ID
		b.contested(false, munich)
		if h := b.head(berlin); h.Truth == memory.TruthSupported {
			t.Error("both are verified")
		}
	})
	t.Run("two tools say many things of one subject", func(t *testing.T) {
		b := newBench(t)
		many := func(object string) memory.Draft {
			return toolDraft(memory.Content{Subject: "acme", Predicate: "office", Object: object, Cardinality: memory.CardinalityUnknown}, "crm")
		}
		b.contested(false, b.put(many("Berlin")).ID, b.put(many("Munich")).ID)
	})
	t.Run("what a person confirms, somebody else said", func(t *testing.T) {
		b := newBenchOf(t, everything)
		var ids []memory.ID
		for _, object := range []string{"Berlin", "Munich"} {
			id := b.put(modelDraft(memory.Content{Subject: "acme", Predicate: "office", Object: object, Cardinality: memory.CardinalityUnknown})).ID
			b.mustMove(id, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "user:ana"))
			ids = append(ids, id)
		}
		b.contested(false, ids...)
	})
	t.Run("two people each have a word", func(t *testing.T) {
		b := newBenchOf(t, everything)
		of := func(who, object string) memory.Draft {
			return userDraft(who, memory.Content{Subject: "acme", Predicate: "likes", Object: object, Cardinality: memory.CardinalityUnknown})
		}
		b.contested(false, b.put(of("ana", "tea")).ID, b.put(of("bob", "coffee")).ID)
	})
}

func TestWhatIsCriticalOneSourceAloneDoesNotTurn(t *testing.T) {
	b := registered(t, map[string]memory.Predicate{"state": {Criticality: memory.CriticalityCritical}})
	open := b.reads("crm", "open").ID
	packed := b.reads("crm", "packed").ID
	b.contested(true, open, packed)
	b.mustMove(packed, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:erp"))
	b.contested(false, packed)
	b.outdated(open)
	clean(b)

	t.Run("a person decides it", func(t *testing.T) {
		b := registered(t, map[string]memory.Predicate{"state": {Criticality: memory.CriticalityCritical}})
		open := b.reads("crm", "open").ID
		packed := b.reads("crm", "packed").ID
		b.mustMove(packed, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "user:ana"))
		b.contested(false, packed)
		if h := b.head(open); h.Truth == memory.TruthSupported {
			t.Error("what a person decided against is verified")
		}
	})
}

func TestOnlyARegisteredSourceSpeaksForAPredicate(t *testing.T) {
	b := registered(t, map[string]memory.Predicate{"state": {Sources: []string{"crm"}}})
	if r := b.reads("web", "open"); r.State == memory.StateVerified {
		t.Error("another tool's word is born verified")
	}
	packed := b.put(modelDraft(says("order 7", "state", "packed"))).ID
	if _, err := b.move(packed, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:web")); !errors.Is(err, memory.ErrInsufficient) {
		t.Errorf("another verifier's word: %v", err)
	}
	b.mustMove(packed, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
	if r := b.reads("crm", "sent"); r.State != memory.StateVerified {
		t.Errorf("the source's own word: %+v", r)
	}
	if r := b.put(userDraft("ana", says("order 7", "state", "lost"))); r.State != memory.StateVerified {
		t.Errorf("a person's word: %+v", r)
	}
}

func TestARegistryFillsWhatADraftLeavesOpen(t *testing.T) {
	b := registered(t, map[string]memory.Predicate{"state": {Criticality: memory.CriticalityHigh, CheckEvery: time.Hour, Cardinality: memory.CardinalityFunctional}})
	d := toolDraft(says("order 7", "state", "open"), "crm")
	d.Content.Cardinality, d.Criticality = memory.CardinalityUnknown, memory.CriticalityLow
	row := b.row(b.put(d).ID)
	if row.Content.Cardinality != memory.CardinalityFunctional || row.Criticality != memory.CriticalityHigh || !row.StaleAt.Equal(row.CreatedAt.Add(time.Hour)) {
		t.Errorf("%+v", row)
	}
	d.Content.Cardinality = memory.CardinalitySetValued
	var wrong *memory.FieldError
	if _, err := b.Put(t.Context(), d); !errors.As(err, &wrong) || wrong.Field != "content.cardinality" {
		t.Errorf("another cardinality: %v", err)
	}
	for name, registry := range map[string]map[string]memory.Predicate{
		"no name":          {"": {}},
		"a hidden name":    {"sta\u200bte": {}},
		"no such enum":     {"state": {Cardinality: 9}},
		"below no time":    {"state": {CheckEvery: -1}},
		"nobody may speak": {"state": {Sources: []string{}}},
		"somebody unnamed": {"state": {Sources: []string{""}}},
	} {
		if _, err := memory.New(b.driver, b.keys, &memory.Options{Predicates: registry}); !errors.As(err, &wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsRegisteredOfAPlaceHoldsForTheRecord(t *testing.T) {
	record := func(tool, iban string) memory.Draft {
		return toolDraft(says("acme", "supplier", `{"iban":"`+iban+`"}`), tool)
	}
	b := registered(t, map[string]memory.Predicate{"supplier/iban": {Sources: []string{"crm"}, Criticality: memory.CriticalityCritical, CheckEvery: time.Hour}, "supplier": {CheckEvery: 2 * time.Hour}, "suppliers/iban": {Sources: []string{"erp"}}})
	if r := b.put(record("portal", "DE1")); r.State == memory.StateVerified {
		t.Error("the word of a source that does not speak for a place in it is verified")
	}
	d := record("crm", "DE1")
	d.Evidence[0].Anchor.URI = "call 1"
	one := b.put(d).ID
	if row := b.row(one); row.State() != memory.StateVerified || row.Criticality != memory.CriticalityCritical || !row.StaleAt.Equal(row.CreatedAt.Add(time.Hour)) {
		t.Errorf("%+v", row)
	}
	d = record("crm", "DE2")
	d.Evidence[0].Anchor.URI = "call 2"
	b.contested(true, one, b.put(d).ID)
}
