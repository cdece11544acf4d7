package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// TestI8TheLedgerCannotBeStripped: whatever a run reads, says, calls and writes,
// in any order, all that it writes later has all that it read as ancestors, and
// no collapse narrows that.
func TestI8TheLedgerCannotBeStripped(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		w := newWorld(t)
		for i := range 3 {
			w.pending(t, fact(fmt.Sprintf("s%d", i), "p", fmt.Sprintf("pending object %d", i)))
			w.verified(t, fact(fmt.Sprintf("s%d", i), "q", fmt.Sprintf("verified object %d", i)))
		}
		a := w.agent(t)
		runs := []*agent.Run{a.Start("ana"), a.Start("bob")}
		read := []map[memory.ID]bool{{}, {}} // what each run is known to have read
		lost := []bool{false, false}
		var handoffs []agent.Handoff
		var carries []map[memory.ID]bool // what each handoff rests on, at least
		var carriesLost []bool
		noted := 0

		for step := range rapid.IntRange(1, 25).Draw(rt, "steps") {
			r := rapid.IntRange(0, 1).Draw(rt, "run")
			run := runs[r]
			before := run.Lineage()
			switch what := rapid.SampledFrom([]string{"recall", "typed", "quoted", "unknown", "handoff", "search", "register", "note", "again", "conclude", "conclude again", "blocked"}).Draw(rt, "what"); what {
			case "recall":
				got, err := run.Recall(ctx, recall.Query{Subject: fmt.Sprintf("s%d", rapid.IntRange(0, 2).Draw(rt, "s")), Predicate: rapid.SampledFrom([]string{"p", "q"}).Draw(rt, "p")})
				if err != nil {
					rt.Fatal(err)
				}
				for _, row := range got.Rows {
					read[r][row.ID] = true
				}
			case "typed":
				if _, err := run.Input(ctx, agent.Typed("hello"), agent.Operator("be brief")); err != nil {
					rt.Fatal(err)
				}
			case "quoted":
				if _, err := run.Input(ctx, agent.Quoted("mail", fmt.Sprint("mail ", rapid.IntRange(0, 3).Draw(rt, "mail")))); err != nil {
					rt.Fatal(err)
				}
				for _, id := range run.Lineage().Direct() { // the row it became
					read[r][id] = true
				}
			case "unknown":
				if rapid.IntRange(0, 3).Draw(rt, "really") == 0 {
					if _, err := run.Input(ctx, agent.UnknownText("history")); err != nil {
						rt.Fatal(err)
					}
					lost[r] = true
				}
			case "handoff":
				if len(handoffs) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(handoffs)-1).Draw(rt, "handoff")
				if _, err := run.Input(ctx, agent.FromRun(handoffs[i])); err != nil {
					rt.Fatal(err)
				}
				for id := range carries[i] {
					read[r][id] = true
				}
				for _, id := range handoffs[i].Rows() {
					read[r][id] = true
				}
				lost[r] = lost[r] || carriesLost[i]
			case "search", "register":
				in := any(searchIn{"words"})
				if what == "register" {
					in = lookupIn{"acme"}
				}
				res, err := run.Call(ctx, what, args(in))
				if err != nil {
					rt.Fatal(err)
				}
				for _, id := range res.Rows {
					read[r][id] = true
				}
			case "note", "again", "conclude", "conclude again":
				text := fmt.Sprintf("a thought of its own, number %d", noted)
				switch {
				case what == "again":
					text = "s0.p = pending object 0"
				case what == "conclude again":
					text = "the same conclusion as ever"
				default:
					noted++
				}
				if strings.HasPrefix(what, "conclude") {
					h, err := run.Conclude(ctx, text)
					if err != nil {
						rt.Fatal(err)
					}
					handoffs, carries, carriesLost = append(handoffs, h), append(carries, clone(read[r])), append(carriesLost, lost[r])
					checkAncestors(rt, w, h.Rows(), read[r])
					break
				}
				origin := rapid.SampledFrom([]memory.Origin{0, memory.OriginUserAsserted, memory.OriginFirstHand, memory.OriginRecallReentry, memory.OriginModelDerived}).Draw(rt, "label")
				got, err := run.Remember(ctx, agent.Note{Content: memory.Content{Text: text}, Origin: origin})
				if err != nil {
					rt.Fatal(err)
				}
				if got.Disposition == memory.Created {
					checkAncestors(rt, w, []memory.ID{got.ID}, read[r])
					row := w.row(t, got.ID)
					if row.Origin.External() || row.State() == memory.StateVerified {
						rt.Fatalf("step %d: a note became %s, %s", step, row.Origin, row.State())
					}
					if lost[r] && !row.Has(memory.FlagLineageUnknown) {
						rt.Fatalf("step %d: a note of a run of unknown lineage is taken for known", step)
					}
				}
			case "blocked":
				_, err := run.Call(ctx, "set_editor", args(searchIn{"vim"}))
				if pending := hasPending(t, w, read[r]); (pending || lost[r]) != errors.Is(err, gate.ErrDenied) {
					rt.Fatalf("step %d: pending rows %t, lost %t, and the call gives %v", step, pending, lost[r], err)
				}
			}
			after := run.Lineage()
			if lost[r] == after.IsKnown() {
				rt.Fatalf("step %d: lost is %t, known is %t", step, lost[r], after.IsKnown())
			}
			if after.IsKnown() {
				all := slices.Concat(after.Direct(), after.Ancestors())
				for id := range read[r] {
					if !slices.Contains(all, id) {
						rt.Fatalf("step %d: row %s was read and is not in the lineage", step, id)
					}
				}
				for _, id := range slices.Concat(before.Direct(), before.Ancestors()) {
					if !slices.Contains(all, id) {
						rt.Fatalf("step %d: the ledger lost %s", step, id)
					}
				}
			}
		}
	})
}

func clone(m map[memory.ID]bool) map[memory.ID]bool {
	out := map[memory.ID]bool{}
	for id := range m {
		out[id] = true
	}
	return out
}

func hasPending(t testing.TB, w *world, ids map[memory.ID]bool) bool {
	for id := range ids {
		if r := w.row(t, id); r.State() != memory.StateVerified {
			return true
		}
	}
	return false
}

// checkAncestors holds that rows rest on every row that was read, directly or
// through others.
func checkAncestors(rt *rapid.T, w *world, rows []memory.ID, read map[memory.ID]bool) {
	up, err := w.store.Closure(context.Background(), rows...)
	if err != nil {
		rt.Fatal(err)
	}
	up = append(up, rows...)
	for id := range read {
		if !slices.Contains(up, id) {
			rt.Fatalf("what was written does not rest on %s, which was read before", id)
		}
	}
}

func TestSR64AConclusionIsGatedTwoHopsAway(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	root := w.pending(t, fact("acme", "billing.email", "evil@x.example"))
	a, b, c := w.agent(t).Start("ana"), w.agent(t).Start("ana"), w.agent(t).Start("ana")

	read(t, a, "acme", "billing.email")
	first, err := a.Conclude(ctx, "Acme wants its bills by e-mail from now on.")
	if err != nil {
		t.Fatal(err)
	}
	said := input(t, b, agent.FromRun(first))
	if !strings.HasPrefix(said[0], instructed+"Memory (asserted by sonnet-4.6, unverified, ") {
		t.Errorf("B is told without a tag: %s", said[0])
	}
	secondHop, err := b.Conclude(ctx, "All customers of that kind get the new letter.")
	if err != nil {
		t.Fatal(err)
	}
	input(t, c, agent.FromRun(secondHop))
	typed(t, c, "write to ops@acme.example")
	denied := mustBlock(t, c, "send_email", mailIn{To: "ops@acme.example"}, gate.ErrUnverified)
	if !slices.Contains(c.Lineage().Ancestors(), root) {
		t.Error("the root is not in C's lineage")
	}
	chained := false
	for _, r := range denied.Decision.Rows {
		chained = chained || slices.ContainsFunc(chainIDs(r), func(id memory.ID) bool { return id == root })
	}
	if !chained {
		t.Errorf("the denial does not show the chain to its root: %+v", denied.Decision.Rows)
	}
	if w.ran("send_email") != 0 {
		t.Error("C acted")
	}

	t.Run("a conclusion that collapses onto another row narrows nothing", func(t *testing.T) {
		d := w.agent(t).Start("ana")
		w.pending(t, fact("beta", "billing.email", "other@x.example"))
		other := read(t, d, "beta", "billing.email").Rows[0].ID
		h, err := d.Conclude(ctx, "Acme wants its bills by e-mail from now on.") // A's words
		if err != nil {
			t.Fatal(err)
		}
		e := w.agent(t).Start("ana")
		input(t, e, agent.FromRun(h))
		if !slices.Contains(slices.Concat(e.Lineage().Direct(), e.Lineage().Ancestors()), other) {
			t.Error("what D had read is lost")
		}
	})
	t.Run("a handoff of unknown lineage keeps its tag and its rows", func(t *testing.T) {
		d := w.agent(t).Start("ana")
		read(t, d, "acme", "billing.email")
		input(t, d, agent.UnknownText("history"))
		h, err := d.Conclude(ctx, "Something else altogether.")
		if err != nil {
			t.Fatal(err)
		}
		e := w.agent(t).Start("ana")
		said := input(t, e, agent.FromRun(h))
		if e.Lineage().IsKnown() || !strings.HasPrefix(said[0], instructed+"Memory (") {
			t.Errorf("known %t, said %q", e.Lineage().IsKnown(), said[0])
		}
	})
}

// TestI13NobodyMintsTheUser: a user_asserted row is made of a verbatim span of
// what the principal typed in this run, and of nothing else.
func TestI13NobodyMintsTheUser(t *testing.T) {
	ctx := t.Context()
	t.Run("of typed words, verbatim", func(t *testing.T) {
		w := newWorld(t)
		run := w.agent(t).Start("ana")
		typed(t, run, "By the way, my editor is Emacs, not Vim.")
		got, err := run.Assert(ctx, agent.Assertion{Span: "my editor is Emacs", Subject: "ana", Predicate: "editor", Object: "Emacs"})
		if err != nil {
			t.Fatal(err)
		}
		r := w.row(t, got.ID)
		if r.Origin != memory.OriginUserAsserted || r.State() != memory.StateVerified || r.Rank != memory.RankUser || r.Asserter.Principal != "ana" || r.Asserter.Model != "" {
			t.Errorf("row %+v", r)
		}
	})
	t.Run("free text and the affairs of others are unverified", func(t *testing.T) {
		w := newWorld(t)
		run := w.agent(t).Start("ana")
		typed(t, run, "Acme pays from ops@acme.example.")
		for name, a := range map[string]agent.Assertion{
			"free text":         {Span: "Acme pays from ops@acme.example"},
			"another's subject": {Span: "Acme pays from ops@acme.example", Subject: "acme", Predicate: "billing.email", Object: "ops@acme.example"},
		} {
			got, err := run.Assert(ctx, a)
			if err != nil {
				t.Fatal(err)
			}
			if r := w.row(t, got.ID); r.Origin != memory.OriginUserAsserted || r.State() != memory.StateUnverified {
				t.Errorf("%s: %s, %s", name, r.Origin, r.State())
			}
		}
	})
	t.Run("what the words deny is no fact", func(t *testing.T) {
		for typedWords, c := range map[string]struct {
			span, predicate string
			verified        bool
		}{
			"I like football.":                                                 {"I like football", "likes", true},
			"Ana does not like football.":                                      {"Ana does not like football", "likes", false},
			"I do not like football":                                           {"like football", "likes", false},
			"I doesn’t like football":                                          {"like football", "likes", false},
			"I never said that I like football":                                {"I like football", "likes", false},
			"I hate rain. I like football":                                     {"I like football", "likes", true},
			"I do not smoke. I like football":                                  {"I like football", "likes", true},
			"I do not smoke.\nI like football":                                 {"I like football", "likes", true},
			"I like football, not rugby":                                       {"I like football", "likes", true},
			"I do not like footballs. I like football":                         {"like football", "likes", true},
			"No, I like football":                                              {"I like football", "likes", true},
			"I don't like football, ever":                                      {"I don't like football", "does not like", true},
			"I  don't  like football":                                          {"like football", "likes_not", true},
			"Ich mag football nicht":                                           {"Ich mag football nicht", "likes", false},
			"I like football. I do not like football":                          {"like football", "likes", false},
			"Please note that I do not\nlike football":                         {"like football", "likes", false},
			"I do not smoke\r\nI like football":                                {"I like football", "likes", false},
			"I do not smoke\n \nI like football":                               {"I like football", "likes", true},
			"I do not smoke\r\n\r\nI like football":                            {"I like football", "likes", true},
			"I do not smoke\r\rI like football":                                {"I like football", "likes", true},
			"I do not smoke\r \rI like football":                               {"I like football", "likes", true},
			"football I do not like":                                           {"football", "likes", false},
			"I like football is wrong":                                         {"I like football", "likes", false},
			"I like football? no":                                              {"I like football", "likes", false},
			"I like football? Nope.":                                           {"I like football?", "likes", false},
			"I like football? Yes, not that I play.":                           {"I like football", "likes", false},
			"Do I like football?":                                              {"Do I like football?", "likes", false},
			"I like football, don't you?":                                      {"I like football", "likes", true},
			"I like football; do you?":                                         {"I like football", "likes", true},
			"I do not smoke; I like football":                                  {"I like football", "likes", false},
			"Do I like football? Please check.":                                {"Do I like football? Please check.", "likes", false},
			"How are you? I like football.":                                    {"How are you? I like football.", "likes", true},
			"Hi! Do I like football? I forgot.":                                {"Hi! Do I like football? I forgot.", "likes", false},
			"Do I like football?🙂":                                             {"like football", "likes", false},
			"Do I like football **?**":                                         {"like football", "likes", false},
			"Do I like football in the U.S.? Tell me.":                         {"football", "likes", false},
			"Do I like football؟":                                              {"football", "likes", false},
			"I like football. See https://x.example/?q=1":                      {"I like football", "likes", true},
			"At https://x.example/?q=1 I like football":                        {"I like football", "likes", true},
			"I do not like... football.":                                       {"football", "likes", false},
			"I do not like these.\n" + strings.Repeat(" ", 600) + "- football": {"football", "likes", false},
			"No. I like football":                                              {"I like football", "likes", true},
			"Rugby? No. I like football":                                       {"I like football", "likes", true},
			"I ❤\ufe0f football":                                               {"I ❤\ufe0f football", "likes", true},
			"I like football 👨‍👩‍👧":                                            {"I like football", "likes", true},
			"I like football 👎🏽":                                               {"I like football", "likes", false},
			"I doesn`t like football":                                          {"like football", "likes", false},
			"I do _not_ like football":                                         {"like football", "likes", false},
			"I do not write to Gov. football":                                  {"football", "likes", false},
			"I wont like football":                                             {"I wont like football", "likes", false},
			"I have no football":                                               {"football", "no_of_games", false},
			"I am not for football":                                            {"football", "not_before", false},
			"Do you? I like football":                                          {"I like football", "likes", true},
			"I cant stand football":                                            {"I cant stand football", "likes", false},
			"Favourite sports: football: no":                                   {"football", "likes", false},
			"I like football: no, really":                                      {"I like football", "likes", false},
			"I like football. I do not smoke":                                  {"I like football.", "likes", true},
			"I like football.\nNo more for today":                              {"I like football.", "likes", true},
			"I like football\nnot":                                             {"I like football", "likes", false},
			"I like football\n\nNo rush":                                       {"I like football", "likes", true},
			"I like football, and I do not smoke":                              {"I like football", "likes", true},
			"I like football (not rugby)":                                      {"I like football", "likes", false}, // no sentence is understood
			"I like football! Do not tell":                                     {"I like football", "likes", true},
			"I like football and never rugby":                                  {"I like football", "likes", false},
		} {
			w := newWorld(t)
			run := w.agent(t).Start("ana")
			typed(t, run, typedWords)
			got, err := run.Assert(ctx, agent.Assertion{Span: c.span, Subject: "ana", Predicate: c.predicate, Object: "football"})
			if err != nil {
				t.Fatal(err)
			}
			r := w.row(t, got.ID)
			if verified := r.State() == memory.StateVerified; r.Origin != memory.OriginUserAsserted || verified != c.verified || (len(r.Evidence) > 0) != c.verified {
				t.Errorf("%q: %s, %d pieces of evidence", typedWords, r.State(), len(r.Evidence))
			}
		}
	})
	t.Run("nor where its names look like words of negation, or its sentence seems to end", func(t *testing.T) {
		for typedWords, c := range map[string]struct {
			span, predicate, object string
			verified                bool
		}{
			"My account number is not DE89370400440532013000":  {"My account number is not DE89370400440532013000", "account_no", "DE89370400440532013000", false},
			"My order no A-4711 is late":                       {"My order no A-4711", "order_no", "A-4711", true},
			"A-4711 is not my order":                           {"A-4711", "order_no", "A-4711", false},
			"Do not use no-reply@acme.example for me":          {"Do not use no-reply@acme.example", "contact.email", "no-reply@acme.example", false},
			"My drink is Never Enough":                         {"My drink is Never Enough", "drink", "Never Enough", true},
			"Never pay to non-eu@bank.example":                 {"Never pay to non-eu@bank.example", "pay_to", "non-eu@bank.example", false},
			"I am not allergic to Non-Dairy creamer":           {"I am not allergic to Non-Dairy creamer", "allergic_to", "Non-Dairy creamer", false},
			"I do not work with Dr. Smith":                     {"Smith", "doctor", "Smith", false},
			"Please do not send it to e.g. bob@x.example":      {"bob@x.example", "send_to", "bob@x.example", false},
			"I don't live at No. 5 Main Street":                {"5 Main Street", "address", "5 Main Street", false},
			"I do not like ❤️ mails":                           {"I do not like ❤️ mails", "likes", "❤️ mails", false},
			"I ❤️ Rome":                                        {"I ❤️ Rome", "likes", "Rome", true},
			"I have no 5 star hotel":                           {"5 star hotel", "has", "5 star hotel", false},
			"I want no more newsletters":                       {"more newsletters", "wants", "more newsletters", false},
			"Things I do not eat:\n- milk\n- fish":             {"fish", "eats", "fish", false},
			"Not that one. My doctor is Dr. Smith":             {"My doctor is Dr. Smith", "doctor", "Dr. Smith", true},
			"I do not smoke.\n\nThings I eat:\n- milk\n- fish": {"fish", "eats", "fish", true},
			"Foods I cannot eat:\n- nuts.\n- fish.":            {"fish", "eats", "fish", false},
			"I do not eat:\n1. nuts.\n2. fish.":                {"fish", "eats", "fish", false},
			"I do not eat:\n\n1) nuts\n\n2) fish":              {"fish", "eats", "fish", false},
			"I do not eat:\n\n+ nuts\n\n+ fish":                {"fish", "eats", "fish", false},
			"I do not eat:\n\n– nuts!\n\n– fish!":              {"fish", "eats", "fish", false},
			"I eat:\n1. nuts.\n2. fish.":                       {"fish", "eats", "fish", true},
			"I do not smoke.\n2026 was my year of fish":        {"fish", "eats", "fish", true},
			"Do I eat fish❓":                                   {"I eat fish", "eats", "fish", false},
			"¿Do I eat fish":                                   {"I eat fish", "eats", "fish", false},
			"Do I eat fish ❔ Tell me":                          {"I eat fish", "eats", "fish", false},
			"Fish❓ No. I eat fish":                             {"I eat fish", "eats", "fish", true},
			"I do not eat meals, incl. fish":                   {"fish", "eats", "fish", false},
			"I do not live near Mt. Vernon":                    {"Vernon", "lives_near", "Vernon", false},
			"I do not (ever.) eat fish":                        {"eat fish", "eats", "fish", false},
			"I do not...eat fish":                              {"eat fish", "eats", "fish", false},
			"I don&rsquo;t eat fish":                           {"eat fish", "eats", "fish", false},
			"do i eat fish":                                    {"i eat fish", "eats", "fish", false},
			"I do eat fish":                                    {"I do eat fish", "eats", "fish", true},
			"5 is the number of my fish":                       {"fish", "eats", "fish", true},
			"Is fish what I eat? Yes":                          {"fish", "eats", "fish", false},
			"is my dish fish":                                  {"my dish fish", "eats", "fish", false},
			"Hi, am I on fish":                                 {"fish", "eats", "fish", false},
			"Thanks. So can I eat fish":                        {"fish", "eats", "fish", false},
			"My dish is fish. Do you sell it":                  {"My dish is fish", "eats", "fish", true},
			"When I am hungry I eat fish":                      {"I eat fish", "eats", "fish", true},
			"Who said I eat fish?":                             {"I eat fish", "eats", "fish", false},
			"How can I eat fish":                               {"fish", "eats", "fish", false},
			"Bin ich auf fish":                                 {"fish", "eats", "fish", false},
			"Heute bin ich auf fish":                           {"fish", "eats", "fish", true},
			"Est-ce que je mange fish":                         {"fish", "eats", "fish", false},
			"Mange-t-elle fish":                                {"fish", "eats", "fish", false},
			"Will Smith eats fish":                             {"eats fish", "eats", "fish", true},
			"May is the month of fish":                         {"fish", "eats", "fish", true},
			"Have my dish made of fish":                        {"fish", "eats", "fish", true},
			"Je n'ai plus de fish":                             {"fish", "eats", "fish", false},
			"Je n’aime fish":                                   {"fish", "eats", "fish", false},
			"Ich lebe ohne fish":                               {"fish", "eats", "fish", false},
			"Je vis sans fish":                                 {"fish", "eats", "fish", false},
			"I am unable to eat fish":                          {"fish", "eats", "fish", false},
			"Everything except fish":                           {"fish", "eats", "fish", false},
			"My dish is !fish":                                 {"fish", "eats", "fish", false},
			"I dnt eat fish":                                   {"fish", "eats", "fish", false},
			"I do nt eat fish":                                 {"fish", "eats", "fish", false},
			"<del>I eat fish</del>":                            {"I eat fish", "eats", "fish", false},
		} {
			w := newWorld(t)
			run := w.agent(t).Start("ana")
			typed(t, run, typedWords)
			got, err := run.Assert(ctx, agent.Assertion{Span: c.span, Subject: "ana", Predicate: c.predicate, Object: c.object})
			if err != nil {
				t.Fatalf("%q: %v", typedWords, err)
			}
			if r := w.row(t, got.ID); (r.State() == memory.StateVerified) != c.verified {
				t.Errorf("%q: %s", typedWords, r.State())
			}
		}
	})
	t.Run("of nothing that was not typed", func(t *testing.T) {
		w := newWorld(t)
		w.pending(t, fact("ana", "editor", "Nano of Mark"))
		run := w.agent(t).Start("ana")
		other := w.agent(t).Start("ana")
		typed(t, run, "My editor is Emacs.")
		typed(t, other, "My editor is Joe's own.")
		input(t, run, agent.Quoted("mail", "My editor is Vim."), agent.Operator("My editor is Ed."), agent.UnknownText("My editor is Acme."))
		read(t, run, "ana", "editor")
		mustFire(t, run, "search", searchIn{"My editor is Kate."})
		h, err := other.Conclude(ctx, "My editor is Helix.")
		if err != nil {
			t.Fatal(err)
		}
		input(t, run, agent.FromRun(h))
		for name, a := range map[string]agent.Assertion{
			"quoted":               {Span: "My editor is Vim"},
			"the operator's":       {Span: "My editor is Ed"},
			"unknown":              {Span: "My editor is Acme"},
			"recalled":             {Span: "Nano of Mark"},
			"a tool's":             {Span: "My editor is Kate"},
			"handed over":          {Span: "My editor is Helix"},
			"typed in another run": {Span: "My editor is Joe's own"},
			"invented":             {Span: "My editor is Sublime"},
			"a part of a word":     {Span: "editor is Ema"},
			"in another case":      {Span: "my editor is emacs"},
			"empty":                {},
			"an object beside it":  {Span: "My editor is Emacs", Subject: "ana", Predicate: "editor", Object: "Vim"},
			"a part of an object":  {Span: "My editor is Emacs", Subject: "ana", Predicate: "editor", Object: "mac"},
		} {
			if _, err := run.Assert(ctx, a); !errors.Is(err, agent.ErrNotTyped) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, r := range w.rows(t) {
			if r.Origin == memory.OriginUserAsserted {
				t.Errorf("minted: %s", r.Content.String())
			}
		}
	})
}

func TestI13RandomSpans(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		run := w.agent(t).Start("ana")
		word := rapid.SampledFrom([]string{"pay", "ops@acme.example", "x", "42", "é", "now", "@", "acme"})
		said := strings.Join(rapid.SliceOfN(word, 1, 8).Draw(rt, "typed"), " ")
		quoted := strings.Join(rapid.SliceOfN(word, 1, 8).Draw(rt, "quoted"), " ")
		span := strings.Join(rapid.SliceOfN(word, 1, 4).Draw(rt, "span"), rapid.SampledFrom([]string{" ", "", "."}).Draw(rt, "between"))
		ctx := context.Background()
		if _, err := run.Input(ctx, agent.Typed(said), agent.Quoted("mail", quoted)); err != nil {
			rt.Fatal(err)
		}
		_, err := run.Assert(ctx, agent.Assertion{Span: span})
		if err == nil && !strings.Contains(said, span) {
			rt.Fatalf("%q was never typed: %q", span, said)
		}
		whole := strings.Contains(" "+said+" ", " "+span+" ")
		if err != nil && whole && strings.ContainsAny(span, "abcdefghijklmnopqrstuvwxyz0123456789é") && !strings.Contains(said, "@ ") && !strings.Contains(said, " @") {
			rt.Fatalf("%q was typed as whole words in %q: %v", span, said, err)
		}
	})
}

func TestAModelsNoteIsWhatItIs(t *testing.T) {
	for _, label := range []memory.Origin{0, memory.OriginUserAsserted, memory.OriginFirstHand, memory.OriginModelDerived, memory.OriginRecallReentry} {
		t.Run("labelled "+label.String(), func(t *testing.T) {
			w := newWorld(t)
			run := w.agent(t).Start("ana")
			typed(t, run, "I use Emacs")
			got, err := run.Remember(t.Context(), agent.Note{Content: fact("ana", "editor", "Emacs"), Origin: label, Confidence: 1})
			if err != nil {
				t.Fatal(err)
			}
			r := w.row(t, got.ID)
			if r.Origin.External() || r.State() != memory.StateUnverified || r.Asserter != (memory.Asserter{Principal: "billing", Model: "sonnet-4.6", Family: "claude"}) || len(r.Evidence) != 0 {
				t.Errorf("row %+v", r)
			}
		})
	}
	t.Run("with its verifier down it is unavailable_at_write_time", func(t *testing.T) {
		w := newWorld(t)
		a := w.agentWith(t, "a", w.gate, w.tools(), &agent.Options{Down: func(c memory.Content) bool { return c.Predicate == "editor" }})
		run := a.Start("ana")
		for predicate, want := range map[string]memory.State{"editor": memory.StateUnavailableAtWriteTime, "shell": memory.StateUnverified} {
			got, err := run.Remember(t.Context(), agent.Note{Content: fact("ana", predicate, "x1")})
			if err != nil || got.State != want {
				t.Errorf("%s: %s, %v", predicate, got.State, err)
			}
		}
	})
	t.Run("what it read may raise its sensitivity and its own word may not lower that", func(t *testing.T) {
		w := newWorld(t)
		w.put(t, memory.Draft{Content: fact("acme", "plan", "a merger"), Origin: memory.OriginModelDerived, State: memory.StateUnverified,
			Asserter: memory.Asserter{Principal: "x", Model: "m", Family: "f"}, Sensitivity: memory.SensitivitySecret})
		a := w.agentWith(t, "a", w.gate, w.tools(), &agent.Options{Recall: recall.Policy{Channels: recall.All, Ceiling: memory.SensitivitySecret}})
		run := a.Start("ana")
		read(t, run, "acme", "plan")
		got, err := run.Remember(t.Context(), agent.Note{Content: memory.Content{Text: "nothing to see"}, Sensitivity: memory.SensitivityPublic})
		if err != nil || w.row(t, got.ID).Sensitivity != memory.SensitivitySecret {
			t.Errorf("sensitivity %s, %v", w.row(t, got.ID).Sensitivity, err)
		}
	})
}

// Test808ReentriesLeaveOneRow replays the loop of mem0 issue 4573 through the
// whole of a run: recall, and remember what was recalled.
func Test808ReentriesLeaveOneRow(t *testing.T) {
	for name, label := range map[string]memory.Origin{"unlabelled": 0, "labelled as recall": memory.OriginRecallReentry, "labelled as the user's word": memory.OriginUserAsserted} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.agent(t)
			claim := fact("user", "editor", "Vim")
			first, err := a.Start("ana").Remember(t.Context(), agent.Note{Content: claim})
			if err != nil {
				t.Fatal(err)
			}
			run := a.Start("ana")
			for i := range 808 {
				if i%100 == 0 {
					run = a.Start("ana")
				}
				read(t, run, "user", "editor")
				got, err := run.Remember(t.Context(), agent.Note{Content: claim, Origin: label, Confidence: 1})
				if err != nil || got.Disposition != memory.Collapsed || got.ID != first.ID {
					t.Fatalf("re-entry %d: %+v, %v", i, got, err)
				}
			}
			rows := w.rows(t)
			if len(rows) != 1 {
				t.Fatalf("%d rows", len(rows))
			}
			r := rows[0]
			if r.State() != memory.StateUnverified || r.Echoes.Count != 808 || r.Independent() != 0 || r.Revision != 1 {
				t.Errorf("state %s, %d echoes, %d independent, revision %d", r.State(), r.Echoes.Count, r.Independent(), r.Revision)
			}
			mustBlock(t, run, "set_editor", searchIn{"Vim"}, gate.ErrUnverified)
		})
	}
}

// heard collects what a run tells of its reads.
type heard struct{ ids []memory.ID }

func (h *heard) ObserveReads(_ context.Context, ids []memory.ID, _ float64) {
	h.ids = append(h.ids, ids...)
}

func TestReadsAreTold(t *testing.T) {
	w := newWorld(t)
	id := w.pending(t, fact("acme", "city", "Berlin"))
	var h heard
	run := w.agentWith(t, "a", w.gate, w.tools(), &agent.Options{Reads: &h, Recall: recall.Policy{Channels: recall.All}}).Start("ana")
	read(t, run, "acme", "city")
	read(t, run, "acme", "city")
	if !slices.Equal(h.ids, []memory.ID{id, id}) {
		t.Errorf("heard %v", h.ids)
	}
}

func chainIDs(r gate.RowAtFault) []memory.ID { return r.Chain }
