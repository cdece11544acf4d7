package memory_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

func TestSaysNothing(t *testing.T) {
	for object, want := range map[string]bool{
		"": true, " ": true, "-": true, "—": true, "???": true, "N/A": true, "n/a": true, " N/A. ": true, "#N/A": true, "n.a.": true, "(unknown)": true, "Unknown": true, "UNKNOWN": true, "null": true,
		"<null>": true, "undefined": true, "Not available": true, "not known": true, "TBD": true, "n/\u200ba\u200b": false, "\u200bn/a": true,
		"none": false, "NA": false, "no": false, "0": false, "false": false, "unknown@acme.example": false, "unknown to science": false, "DE89": false, "*": false, "[]": false, "{}": false, strings.Repeat("-", 41): false, strings.Repeat("-", 40): true, "N/A" + strings.Repeat(" ", 38): false,
	} {
		if got := memory.SaysNothing(object); got != want {
			t.Errorf("%.40q: %v", object, got)
		}
	}
}

// A source that says that it does not know has not contradicted what it said before, and what it says
// is verified by nobody but a person.
func TestWhatSaysNothingIsVerifiedByNoSource(t *testing.T) {
	b := registered(t, map[string]memory.Predicate{"state": {Placeholders: []string{"None given", "-1"}}})
	open := b.reads("crm", "open").ID
	for _, object := range []string{"N/A", "unknown", "none given", "NONE GIVEN", "-1"} {
		r := b.reads("crm", object)
		if r.State != memory.StateUnverified || !strings.Contains(r.Reason, "nothing is known") {
			t.Errorf("%q: %+v", object, r)
		}
		if _, err := b.move(r.ID, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankPrimarySource, "register")); !errors.Is(err, memory.ErrPlaceholder) || !errors.Is(err, memory.ErrInsufficient) {
			t.Errorf("%q: %v", object, err)
		}
		if again := b.reads("crm", object); again.State != memory.StateUnverified {
			t.Errorf("%q, once more: %+v", object, again)
		}
	}
	b.contested(false, open)
	if r := b.reads("crm", "1"); r.State != memory.StateVerified { // -1 says nothing, and 1 does
		t.Errorf("%+v", r)
	}
	b.mustMove(b.reads("erp", "unknown").ID, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "user:ana"))
	if r := b.put(toolDraft(says("order 7", "stage", "none given"), "crm")); r.State != memory.StateVerified {
		t.Errorf("of another predicate: %+v", r)
	}
	clean(b)

	for _, wrong := range []string{"", " ", strings.Repeat("x", 41)} {
		_, err := memory.New(b.driver, b.keys, &memory.Options{Predicates: map[string]memory.Predicate{"state": {Placeholders: []string{wrong}}}})
		var field *memory.FieldError
		if !errors.As(err, &field) || field.Field != "predicates.state.placeholders" {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// TestNoClockOrdersWhatASourceSaid: what is written later was said later, whatever the clock of whoever asked.
func TestNoClockOrdersWhatASourceSaid(t *testing.T) {
	at := func(e memory.Evidence, b *bench, skew time.Duration) memory.Evidence {
		e.At = b.clock().Add(skew)
		return e
	}
	for _, skew := range []time.Duration{-24 * time.Hour, -time.Second, 0, time.Second, 24 * time.Hour} {
		b := newBench(t)
		note := b.put(modelDraft(says("order 7", "state", "open"))).ID
		yes, no := supports(memory.RankTool, "tool:crm"), contradicts(memory.RankTool, "tool:crm")
		for _, off := range []time.Duration{skew, 0, -skew} { // by three workers in turn
			b.pass(time.Hour)
			b.mustMove(note, memory.TruthSupported, memory.AuthorityProbe, at(yes, b, off))
			b.mustMove(note, memory.TruthContradicted, memory.AuthorityProbe, at(no, b, 0))
		}
		b.pass(time.Hour)
		b.mustMove(note, memory.TruthSupported, memory.AuthorityProbe, at(yes, b, skew))
		clean(b)

		// What it contradicted before it supported it stands against no other row of the claim.
		other := modelDraft(says("order 7", "state", "Open"))
		other.Anchor, other.Origin, other.Asserter = "elsewhere", memory.OriginFirstHand, memory.Asserter{Principal: "ana", Tool: "web"}
		b.mustMove(note, memory.TruthContradicted, memory.AuthorityProbe, at(no, b, 24*time.Hour))
		b.pass(time.Hour)
		b.mustMove(b.put(other).ID, memory.TruthSupported, memory.AuthorityProbe, at(yes, b, skew))
	}
}
