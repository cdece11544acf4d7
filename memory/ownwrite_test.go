package memory_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
)

// fires records a call that a person approved although a row is not fit, and what it sets.
func (b *bench) fires(row memory.ID, writes ...memory.OwnWrite) (decision string) {
	b.Helper()
	f, err := b.Fitness(b.Context(), []memory.ID{row})
	if err != nil {
		b.Fatal(err)
	}
	decision = b.NewDecisionID()
	if err := b.Record(b.Context(), memory.DecisionRecord{ID: decision, Tool: "update", Run: "run", Fired: true, Epoch: f.Epoch, Data: json.RawMessage(`{}`),
		Rows: []memory.Cited{f.Heads[0].Cite()}, Unvouched: []memory.ID{row}, Writes: writes}); err != nil {
		b.Fatal(err)
	}
	return decision
}

func sets(value string) memory.OwnWrite {
	return memory.OwnWrite{Subject: "order 7", Predicate: "state", Value: value}
}

// repeated asks that what a source said was written unverified, and made of the row.
func (b *bench) repeated(r memory.Receipt, row memory.ID) {
	b.Helper()
	got := b.row(r.ID)
	if got.State() != memory.StateUnverified || len(got.DerivedFrom) != 1 || got.DerivedFrom[0] != row || !strings.Contains(r.Reason, "repeats") {
		b.Errorf("it is %s, made of %v, %q", got.State(), got.DerivedFrom, r.Reason)
	}
}

func TestI4WhatACallSetIsNoWordOfItsSource(t *testing.T) {
	start := func(t *testing.T) (*bench, memory.ID) {
		b := newBenchOf(t, everything)
		return b, b.put(modelDraft(says("order 7", "state", "paid"))).ID
	}
	t.Run("what it repeats is unverified, and what it said before is history", func(t *testing.T) {
		b, said := start(t)
		open := b.reads("crm", "open").ID
		b.fires(said, sets("paid"))
		b.repeated(b.reads("crm", "paid"), said)
		b.outdated(open)
	})
	t.Run("in the source's own spelling too", func(t *testing.T) {
		for written, reads := range map[string][]string{
			"ops@acme.example": {"OPS@acme.example "}, "+49 (30) 1": {"+49-301"}, "10.0": {"10", "1e1", "10,00"}, "Größe": {"GRÖßE", "GRÖSSE"}, "οδος": {"ΟΔΟΣ"},
			"0170 1234567": {"01701234567", "1701234567"}, "04-00-04": {"040004", "40004"}, "007 007 007": {"7007007"}, "01.02.2026": {"01022026"}, "-1701234567": {"1701234567"},
			"０１７０": {"0170", "170"}, "٠١٧٠": {"0170"}, "1,500.50": {"1500.5", "1500,50"}, "$1500.50": {"1500.5"}, "EUR 1.500,50": {"1500.5", "1 500,50 €"}, "1500.00 ": {"1500", "1.5e3"},
			"1e3": {"1000"}, "1e-7": {"0.0000001"}, "1,500": {"1500", "1.5"}, "0": {"00", "0.0"}, "1500 kg": {"1500"}, "1500 руб": {"1500"}, "1500": {"1500 грн.", "1500"}, "İstanbul": {"i̇stanbul", "İSTANBUL"}, strings.Repeat(" ", 4090) + "paid": {"paid"},
			"1500.50" + strings.Repeat(" ", 60): {"1500.5"}, strings.Repeat("0", 600) + "1500.50" + strings.Repeat("0", 600): {"1500.5"}, "1500.50\u200b": {"1500.5"}, "1500.50.": {"1500.5"},
			"(1500.50)": {"1500.5"}, "1500.50-": {"1500.5"}, "~1500.50": {"1500.5"}, "#1500.50": {"1500.5"}, `"1500.50"`: {"1500.5"}, "EUR1500.50": {"1500.5"}, "1500.50EUR": {"1500.5"},
			"US$1500.50": {"1500.5"}, "1500.50 Euro": {"1500.5"}, "Fr. 1500.50": {"1500.5"}, "1500.50 per month": {"1500.5"}, "1500.50/m": {"1500.5"}, "1500·50": {"1500.5"}, "١٥٠٠٫٥٠": {"1500.5"},
			"15.50 %": {"15.5"}, "1,50,000.50": {"150000.5"}, "1e0003": {"1000"}, "1.50e+0003": {"1500"}, " * ": {"*"}, "*": {"* "}, "✔": {"✔️"}, "1500.50 zł": {"1500.5"},
		} {
			for _, read := range reads {
				b, said := start(t)
				b.fires(said, sets(written))
				if r := b.reads("crm", read); r.State != memory.StateUnverified {
					t.Errorf("%q was set, and %q is %s", written, read, r.State)
				}
			}
		}
		for written, read := range map[string]string{"1500.50": "15005", "A17": "17", "1500": "15", "no": "0", "1.5e3": "1.5", "ab": "abc", "[open]": "closed"} {
			b, said := start(t)
			b.fires(said, sets(written))
			if r := b.reads("crm", read); r.State != memory.StateVerified {
				t.Errorf("%q was set, and %q is %s", written, read, r.State)
			}
		}
	})
	t.Run("a subject in another spelling is the same subject", func(t *testing.T) {
		b, said := start(t)
		b.fires(said, memory.OwnWrite{Subject: "ORDER-7", Predicate: "state", Value: "paid"})
		b.repeated(b.reads("crm", "paid"), said)
		for written, read := range map[string]string{"0012-34": "001234", "ΟΔΟΣ": "οδος", "1.50": "1,50", "№ 7": "no7"} {
			b.fires(said, memory.OwnWrite{Subject: written, Predicate: "state", Value: "paid"})
			b.repeated(b.put(toolDraft(says(read, "state", "paid"), "crm")), said)
		}
	})
	t.Run("any other value is its own word", func(t *testing.T) {
		b, said := start(t)
		b.fires(said, sets("paid"))
		b.current(b.reads("crm", "packed").ID)
	})
	t.Run("a call that rested on fit rows is noted nowhere", func(t *testing.T) {
		b, said := start(t)
		b.fires(said)
		b.current(b.reads("crm", "paid").ID)
	})
	t.Run("it stays so when another source says it", func(t *testing.T) {
		b, said := start(t)
		b.fires(said, sets("paid"))
		b.repeated(b.reads("shop", "paid"), said)
	})
	t.Run("a row that was verified before is not renewed by it, and stands", func(t *testing.T) {
		b, said := start(t)
		paid := b.reads("crm", "paid")
		before := *b.head(paid.ID)
		b.pass(time.Hour)
		b.fires(said, sets("paid"))
		b.reads("crm", "paid")
		if h := b.head(paid.ID); h.Truth != memory.TruthSupported || !h.VerifiedAt.Equal(before.VerifiedAt) {
			t.Errorf("it is %s, verified at %s", h.Truth, h.VerifiedAt)
		}
	})
	t.Run("a verifier that reads it back promotes nothing", func(t *testing.T) {
		b, said := start(t)
		b.fires(said, sets("paid"))
		if _, err := b.move(said, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm")); !errors.Is(err, memory.ErrOwnWrite) || !errors.Is(err, memory.ErrInsufficient) {
			t.Errorf("want ErrOwnWrite, got %v", err)
		}
	})
	t.Run("a person's word counts, and what the source says then as well", func(t *testing.T) {
		b, said := start(t)
		b.fires(said, sets("paid"))
		b.mustMove(said, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "principal:ana"))
		if r := b.reads("crm", "paid"); r.State != memory.StateVerified {
			t.Errorf("it is %s: %s", r.State, r.Reason)
		}
	})
	t.Run("a source that agrees does not renew what it was told", func(t *testing.T) {
		b, said := start(t)
		b.mustMove(said, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "principal:ana"))
		b.fires(said, sets("paid"))
		b.pass(20 * 24 * time.Hour)
		if _, err := b.renew(said, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm")); !errors.Is(err, memory.ErrOwnWrite) || !errors.Is(err, memory.ErrInsufficient) {
			t.Errorf("want ErrOwnWrite, got %v", err)
		}
	})
	t.Run("it is not forgotten when the source says something else", func(t *testing.T) {
		b, said := start(t)
		b.fires(said, sets("paid"))
		b.pass(time.Hour)
		b.readsAt("crm", "packed", b.mark())
		b.repeated(b.reads("crm", "paid"), said)
		b.current(b.reads("crm", "sent").ID)
	})
	t.Run("a value in a record", func(t *testing.T) {
		b, said := start(t)
		b.fires(said, memory.OwnWrite{Subject: "order 7", Predicate: "state/status", Value: "paid"})
		b.repeated(b.reads("crm", `{"status":"Paid","total":3}`), said)
		b.current(b.reads("crm", `{"note":"paid","total":3}`).ID)
	})
	t.Run("an element of a list is the same behind another one", func(t *testing.T) {
		b, said := start(t)
		b.fires(said, memory.OwnWrite{Subject: "order 7", Predicate: "state/items/0/price", Value: "7"})
		b.repeated(b.reads("crm", `{"items":[{"price":2},{"price":7}]}`), said)
		b.repeated(b.reads("crm", `{"items":{"3":{"price":7}}}`), said)
		b.current(b.reads("crm", `{"items":[{"price":2},{"count":7}]}`).ID)
		row := b.put(modelDraft(says("order 7", "state", `{"items":[{"price":7}]}`))).ID
		if _, err := b.move(row, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm")); !errors.Is(err, memory.ErrOwnWrite) {
			t.Errorf("a verifier: want ErrOwnWrite, got %v", err)
		}
	})
	t.Run("what a tool sets that does not say where", func(t *testing.T) {
		b, said := start(t)
		b.fires(said, memory.OwnWrite{Subject: "order 7", Value: "paid"})
		b.repeated(b.reads("crm", "paid"), said)
		b.repeated(b.reads("crm", `{"list":[{"status":"paid"}]}`), said)
		b.current(b.reads("crm", "packed").ID)
	})
	t.Run("a subject of several names is each of them", func(t *testing.T) {
		b, said := start(t)
		b.fires(said, memory.OwnWrite{Subject: "order 7", Value: "paid"})
		d := toolDraft(says(`["acme","order 7"]`, "state", "paid"), "crm")
		b.repeated(b.put(d), said)
	})
	t.Run("what is set about several names is set about each of them, in whatever order", func(t *testing.T) {
		b, said := start(t)
		b.fires(said, memory.OwnWrite{Subject: `["acme","order 7"]`, Predicate: "state", Value: "paid"})
		b.repeated(b.reads("crm", "paid"), said)
		b.repeated(b.put(toolDraft(says(`["order 7","acme"]`, "state", "paid"), "shop")), said)
	})
	t.Run("more values than are told apart stand for any", func(t *testing.T) {
		b, said := start(t)
		for i := range 512 {
			b.fires(said, sets(fmt.Sprint("value ", i)))
		}
		b.current(b.reads("crm", "something else").ID)
		b.repeated(b.reads("crm", "value 0"), said)
		b.fires(said, sets("one more"))
		b.repeated(b.reads("crm", "something else again"), said)
	})
	t.Run("a row that was erased since leaves the lineage unknown", func(t *testing.T) {
		b := newBench(t)
		said := b.put(modelDraft(says("eve", "wants", "order 7 paid"))).ID
		b.fires(said, sets("paid"))
		if _, err := b.Erase(t.Context(), memory.Erasure{Subject: "eve", Request: "R-1", Actor: "dpo"}); err != nil {
			t.Fatal(err)
		}
		r := b.reads("crm", "paid")
		if h := b.head(r.ID); h.State() != memory.StateUnverified || !h.Has(memory.FlagLineageUnknown) {
			t.Errorf("it is %s, %v", h.State(), h.Flags.Names())
		}
	})
	t.Run("what its answer names is noted with what it rested on", func(t *testing.T) {
		b, said := start(t)
		id := b.fires(said, memory.OwnWrite{Subject: "acme", Value: "paid"})
		if err := b.RecordWrites(t.Context(), id, []memory.OwnWrite{sets("paid")}); err != nil {
			t.Fatal(err)
		}
		b.repeated(b.reads("crm", "paid"), said)
		if _, err := b.VerifyAll(t.Context(), memory.Verifying{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("nothing is noted of a call that rested on fit rows", func(t *testing.T) {
		b, said := start(t)
		id := b.fires(said)
		if err := b.RecordWrites(t.Context(), id, []memory.OwnWrite{sets("paid")}); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("want ErrInvalid, got %v", err)
		}
	})
	t.Run("one that is put back or taken away is found, and a rebuild takes any value for it", func(t *testing.T) {
		b, said := start(t)
		b.fires(said, sets("paid"))
		var key string
		for o, err := range b.driver.Objects(b.Context(), b.Tenant(), "y/") {
			if err != nil {
				t.Fatal(err)
			}
			key = o.Key
		}
		older := b.beneath(key)
		b.fires(said, sets("packed"))
		gone := memory.Restored{Object: memory.Object{Key: key}}
		for name, o := range map[string]memory.Restored{"put back": older, "taken away": gone} {
			b.restore(o)
			found := 0
			if _, err := b.VerifyAll(t.Context(), memory.Verifying{Found: func(err error) error {
				var tampered *memory.TamperError
				if errors.As(err, &tampered) && tampered.Key == key {
					found++
				}
				return nil
			}}); err != nil || found != 1 {
				t.Errorf("%s: found %d times, %v", name, found, err)
			}
		}
		b.restore(gone)
		if _, err := b.Rebuild(t.Context(), "ana", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := b.VerifyAll(t.Context(), memory.Verifying{}); err != nil {
			t.Error(err)
		}
		b.repeated(b.reads("crm", "anything"), said)
	})
	t.Run("a rebuild keeps what is there", func(t *testing.T) {
		b, said := start(t)
		b.fires(said, sets("paid"))
		if _, err := b.Rebuild(t.Context(), "ana", nil); err != nil {
			t.Fatal(err)
		}
		b.repeated(b.reads("crm", "paid"), said)
		b.current(b.reads("crm", "packed").ID)
	})
}

// TestI4NoSpellingOfAnOwnWriteVerifies draws what a call sets and how the source writes it.
func TestI4NoSpellingOfAnOwnWriteVerifies(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		said := b.put(modelDraft(says("order 7", "state", "paid"))).ID
		value := rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9]{0,11}`).Draw(rt, "value")
		var read strings.Builder
		for _, c := range value {
			read.WriteString(rapid.SampledFrom([]string{"", " ", "-", ".", "/", "("}).Draw(rt, "between"))
			if rapid.Bool().Draw(rt, "upper") {
				read.WriteString(strings.ToUpper(string(c)))
			} else {
				read.WriteString(strings.ToLower(string(c)))
			}
		}
		b.fires(said, sets(value))
		if r := b.reads("crm", read.String()); r.State == memory.StateVerified {
			rt.Errorf("%q was set, and %q is verified", value, read.String())
		}
	})
}
