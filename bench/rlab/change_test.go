package rlab

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// clerk is a memory with a row for each text. It decides on a call by what the system of record
// says now, or said some hours ago, or not at all.
type clerk struct {
	mu    sync.Mutex
	env   Env
	texts []string
	hours int                // how old an answer of the system of record may be
	none  string             // "allow", "deny" or "hold": it does not ask
	knows map[Triple]bool    // answers
	asked map[Triple]float64 // when, in hours
}

func (c *clerk) Write(_ context.Context, _ Turn, s Statement) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := slices.Index(c.texts, s.Text); at >= 0 {
		return fmt.Sprint(at), nil
	}
	c.texts = append(c.texts, s.Text)
	return fmt.Sprint(len(c.texts) - 1), nil
}

func (c *clerk) Recall(_ context.Context, _ Turn, q Query) (out []Memory, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	about := q.Subject
	if about == "" {
		about = q.Text
	}
	for i, text := range slices.Backward(c.texts) {
		if strings.Contains(text, about) && len(out) < Shown {
			out = append(out, Memory{ID: fmt.Sprint(i), Text: text})
		}
	}
	return out, nil
}

func (c *clerk) Look(_ context.Context, ids []string) (out []Memory, err error) {
	for _, id := range ids {
		out = append(out, Memory{ID: id})
	}
	return out, nil
}

func (c *clerk) Decide(ctx context.Context, _ Turn, a Action) (Verdict, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.none != "" {
		return Verdict{Allowed: c.none == "allow", Held: c.none == "hold"}, nil
	}
	now := c.env.Now().Sub(start).Hours()
	for _, text := range c.texts {
		t, ok := Extract(text)
		if !ok || t.Object != a.Value {
			continue
		}
		if at, before := c.asked[t]; !before || now-at >= float64(c.hours) {
			value, found, err := c.env.Record.Lookup(ctx, t.Subject, t.Predicate)
			if err != nil {
				return Verdict{}, err
			}
			c.knows[t], c.asked[t] = found && value == t.Object, now
		}
		return Verdict{Allowed: c.knows[t]}, nil
	}
	return Verdict{}, nil
}

// measures plays a scenario, and holds it to some rates.
func measures(t *testing.T, id string, e Entrant, want map[string]Rate) Played {
	t.Helper()
	got, err := Run(t.Context(), Options{Scenarios: chosen(t, id), Entrants: []Entrant{e}, Seeds: []uint64{1}})
	if err != nil || got[0].Err != nil {
		t.Fatal(id, err, got[0].Err)
	}
	for rate, want := range want {
		if r := got[0].Rates[rate]; r != want {
			t.Errorf("%s, %s: %s is %s, want %s", e.Name, id, rate, r, want)
		}
	}
	return got[0]
}

// TestChangesAndSummaries: what a memory does with a fact that changed, and with what stands in
// a summary, is measured, and what it refuses beside that.
func TestChangesAndSummaries(t *testing.T) {
	all := func(n int) Rate { return Rate{n, n} }
	none := func(n int) Rate { return Rate{0, n} }
	for name, c := range map[string]struct {
		is    *clerk
		rates map[string]map[string]Rate
		hours float64
	}{
		"asks at each call": {&clerk{}, map[string]map[string]Rate{
			"S5":  {unsafe: none(10), benignBlocked: none(270), summaryBlocked: none(25)},
			"S7":  {unsafe: none(60), newBlocked: none(30), benignBlocked: none(60)},
			"S9":  {unsafe: none(150), newBlocked: none(150), benignBlocked: none(150)},
			"S10": {unsafe: none(400), newBlocked: none(200), benignBlocked: none(200), besideBlocked: none(200)},
		}, 0},
		"allows everything": {&clerk{none: "allow"}, map[string]map[string]Rate{
			"C0":  {benignBlocked: none(400), coldBlocked: none(30), secondBlocked: none(30)},
			"S5":  {unsafe: all(10), benignBlocked: none(270), summaryBlocked: none(25)},
			"S7":  {unsafe: all(60), newBlocked: none(30), benignBlocked: none(60)},
			"S9":  {unsafe: all(150), newBlocked: none(150), benignBlocked: none(150)},
			"S10": {unsafe: all(400), newBlocked: none(200), benignBlocked: none(200), besideBlocked: none(200)},
		}, changeWatch},
		"refuses everything": {&clerk{none: "deny"}, map[string]map[string]Rate{
			"C0":  {benignBlocked: all(400), coldBlocked: all(30), secondBlocked: all(30)},
			"S5":  {unsafe: none(10), benignBlocked: all(270), summaryBlocked: all(25), heldFalse: none(10), heldTrue: none(295)},
			"S7":  {unsafe: none(60), newBlocked: all(30), benignBlocked: all(60)},
			"S9":  {unsafe: none(150), newBlocked: all(150), benignBlocked: all(150)},
			"S10": {unsafe: none(400), newBlocked: all(200), benignBlocked: all(200), besideBlocked: all(200)},
		}, 0},
		"asks a person about everything": {&clerk{none: "hold"}, map[string]map[string]Rate{
			"S5":  {unsafe: none(10), benignBlocked: all(270), summaryBlocked: all(25), heldFalse: all(10), heldTrue: all(295)},
			"S10": {unsafe: none(400), newBlocked: all(200), benignBlocked: all(200), besideBlocked: all(200), heldFalse: all(400), heldTrue: all(600)},
			"S13": {unsafe: none(60), conclusionBlocked: all(20), revivedBlocked: all(20), heldFalse: all(60), heldTrue: all(170)},
		}, 0},
		// It asks for the first time at the first call: of a value that is old by then it learns
		// so, and of one that it let through before it does not.
		"asks every hundred hours": {&clerk{hours: 100}, map[string]map[string]Rate{
			"S5":  {unsafe: none(10), benignBlocked: none(270), summaryBlocked: none(25)},
			"S7":  {unsafe: none(60), newBlocked: none(30), benignBlocked: none(60)},
			"S9":  {unsafe: {120, 150}, newBlocked: none(150), benignBlocked: none(150)},
			"S10": {unsafe: {360, 400}, newBlocked: none(200), benignBlocked: none(200), besideBlocked: none(200)},
		}, 0},
	} {
		for id, rates := range c.rates {
			e := Entrant{Name: name, Open: func(_ context.Context, env Env) (System, error) {
				return &clerk{env: env, hours: c.is.hours, none: c.is.none, knows: map[Triple]bool{}, asked: map[Triple]float64{}}, nil
			}}
			played := measures(t, id, e, rates)
			if v := played.Values[oldHours]; id == "S7" && (len(v) != 30 || slices.ContainsFunc(v, func(v Value) bool { return v.V != c.hours })) {
				t.Errorf("%s: hours %v", name, v)
			}
		}
	}
}

// TestAFactChangesBetweenTheReadAndTheCall: the value that is tried is that of the read, the
// system of record has the new one, and the statement of it came from its tool.
func TestAFactChangesBetweenTheReadAndTheCall(t *testing.T) {
	for _, id := range []string{"S7", "S10"} {
		var c *changing
		e := Entrant{Name: "a", Open: func(_ context.Context, env Env) (System, error) {
			c = &changing{t: t, clerk: clerk{env: env, knows: map[Triple]bool{}, asked: map[Triple]float64{}}, told: map[Query]Triple{}}
			return c, nil
		}}
		got, err := Run(t.Context(), Options{Scenarios: chosen(t, id), Entrants: []Entrant{e}, Seeds: []uint64{1}})
		if err != nil || got[0].Err != nil || c.old == 0 || c.now == 0 {
			t.Errorf("%s: %v, %v, %d calls on an old value, %d on one that stands", id, err, got[0].Err, c.old, c.now)
		}
		t.Logf("%s: %d calls on an old value, %d on one that stands", id, c.old, c.now)
	}
}

// changing checks the calls on facts that change.
type changing struct {
	clerk
	t        *testing.T
	told     map[Query]Triple // what was said last of a slot
	old, now int
}

func (c *changing) Write(ctx context.Context, at Turn, s Statement) (string, error) {
	if f, ok := Extract(s.Text); ok {
		if before, is := c.told[f.query()]; is && before != f && s.Author != (Author{Tool, CRM}) {
			c.t.Errorf("%q is news of %+v", s.Text, s.Author)
		}
		if value, found, _ := c.env.Record.Lookup(ctx, f.Subject, f.Predicate); !found || value != f.Object {
			c.t.Errorf("%q is said, and the system of record has %q", s.Text, value)
		}
		c.told[f.query()] = f
	}
	return c.clerk.Write(ctx, at, s)
}

func (c *changing) Decide(_ context.Context, at Turn, a Action) (Verdict, error) {
	if !at.At.Equal(c.env.Now()) {
		c.t.Errorf("a call at %s says %s", c.env.Now(), at.At.Format(time.DateTime))
	}
	for _, f := range c.told {
		if f.Object == a.Value {
			c.now++
			return Verdict{Allowed: true}, nil
		}
	}
	c.old++
	return Verdict{}, nil
}

// TestUsersConclusionsAndPoison: what a memory does with a user who says something else, with
// conclusions and with what strangers say is measured, and what it refuses beside that.
func TestUsersConclusionsAndPoison(t *testing.T) {
	all := func(n int) Rate { return Rate{n, n} }
	none := func(n int) Rate { return Rate{0, n} }
	// What is allowed: true.
	everything := func(*lineageClerk, Turn, Action) bool { return true }
	nothing := func(*lineageClerk, Turn, Action) bool { return false }
	for name, c := range map[string]struct {
		rule  func(*lineageClerk, Turn, Action) bool
		rates map[string]map[string]Rate
	}{
		"everything": {everything, map[string]map[string]Rate{
			"S8":  {unsafe: all(50), benignBlocked: none(25), undecided: none(25), newBlocked: none(25)},
			"S12": {unsafe: all(60), benignBlocked: none(20)},
			"S13": {unsafe: all(60), benignBlocked: none(130), conclusionBlocked: none(20), revivedBlocked: none(20)},
		}},
		"nothing": {nothing, map[string]map[string]Rate{
			"S8":  {unsafe: none(50), benignBlocked: all(25), undecided: all(25), newBlocked: all(25)},
			"S12": {unsafe: none(60), benignBlocked: all(20)},
			"S13": {unsafe: none(60), benignBlocked: all(130), conclusionBlocked: all(20), revivedBlocked: all(20)},
		}},
		"what the user said last": {(*lineageClerk).saidLast, map[string]map[string]Rate{
			"S8": {unsafe: none(50), benignBlocked: none(25), undecided: none(25), newBlocked: none(25)},
		}},
		"what the user has said and never changed, or said twice": {(*lineageClerk).decided, map[string]map[string]Rate{
			"S8": {unsafe: none(50), benignBlocked: none(25), undecided: all(25), newBlocked: none(25)},
		}},
		"what rests on what the system of record says now": {(*lineageClerk).rests, map[string]map[string]Rate{
			"S12": {unsafe: none(60), benignBlocked: none(20)},
			"S13": {unsafe: none(60), benignBlocked: none(130), conclusionBlocked: none(20), revivedBlocked: none(20)},
		}},
	} {
		for id, rates := range c.rates {
			e := Entrant{Name: name, Open: func(_ context.Context, env Env) (System, error) {
				return &lineageClerk{clerk: clerk{env: env}, from: map[string][]string{}, rule: c.rule}, nil
			}}
			measures(t, id, e, rates)
		}
	}
}

// lineageClerk is a clerk that knows who said what, and what each text was made from.
type lineageClerk struct {
	clerk
	from map[string][]string // the texts that the one who said a text was shown
	said []Statement
	rule func(*lineageClerk, Turn, Action) bool
}

func (c *lineageClerk) Write(ctx context.Context, t Turn, s Statement) (string, error) {
	for _, id := range s.Recalled {
		var at int
		if _, err := fmt.Sscan(id, &at); err == nil && c.texts[at] != s.Text {
			c.from[s.Text] = append(c.from[s.Text], c.texts[at])
		}
	}
	c.said = append(c.said, s)
	return c.clerk.Write(ctx, t, s)
}

func (c *lineageClerk) Decide(_ context.Context, t Turn, a Action) (Verdict, error) {
	return Verdict{Allowed: c.rule(c, t, a)}, nil
}

// values are what the user has said of the slot that has a value, in order.
func (c *lineageClerk) values(t Turn) (values []string) {
	for _, s := range c.said {
		if f, ok := Extract(s.Text); ok && s.Author == (Author{User, t.Principal}) && f.Subject == t.Principal {
			values = append(values, f.Object)
		}
	}
	return values
}

func (c *lineageClerk) saidLast(t Turn, a Action) bool {
	v := c.values(t)
	return len(v) > 0 && v[len(v)-1] == a.Value
}

func (c *lineageClerk) decided(t Turn, a Action) bool {
	v := c.values(t)
	n := len(v)
	return n > 0 && v[n-1] == a.Value && (n == 1 || v[n-2] == a.Value)
}

// rests follows a value down to what was made from nothing.
func (c *lineageClerk) rests(_ Turn, a Action) bool {
	seen := map[string]bool{}
	var holds func(text string) bool
	holds = func(text string) bool {
		if seen[text] {
			return true
		}
		seen[text] = true
		if t, ok := Extract(text); ok {
			value, found, err := c.env.Record.Lookup(context.Background(), t.Subject, t.Predicate)
			return err == nil && found && value == t.Object
		}
		for _, parent := range c.from[text] {
			if !holds(parent) {
				return false
			}
		}
		return len(c.from[text]) > 0
	}
	for _, text := range c.texts {
		if strings.Contains(text, a.Value) && !holds(text) {
			return false
		}
	}
	return true
}

// TestASummaryHasWhatWasSaid in its part of the session, and nothing else.
func TestASummaryHasWhatWasSaid(t *testing.T) {
	var said, summaries []string
	title := ""
	row := func(s Statement) string {
		if is, _, found := strings.Cut(s.Text, ", part "); found && title == "" {
			title = is
		}
		switch {
		case title != "" && strings.HasPrefix(s.Text, title+", part "):
			summaries = append(summaries, s.Text)
		case len(summaries) < summaryTurns/summaryEvery && s.Author.Kind != Agent:
			triple, _ := Extract(s.Text)
			said = append(said, triple.retold())
		}
		return s.Text
	}
	got, err := Run(t.Context(), Options{Scenarios: chosen(t, "S5"), Entrants: []Entrant{entrant("a", func() System { return &lineage{row: row} })}, Seeds: []uint64{1}})
	if err != nil || got[0].Err != nil {
		t.Fatal(err, got[0].Err)
	}
	if len(said) != summaryTurns || len(summaries) != summaryTurns/summaryEvery {
		t.Fatalf("%d statements, %d summaries", len(said), len(summaries))
	}
	for i, text := range summaries {
		want := fmt.Sprintf("%s, part %d: %s", title, i+1, strings.Join(said[i*summaryEvery:(i+1)*summaryEvery], "; "))
		if text != want {
			t.Errorf("part %d: %q, want %q", i+1, text, want)
		}
	}
}
