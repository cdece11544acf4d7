package verifier_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

func oslo() memory.Row {
	return memory.Row{Content: memory.Content{Subject: "acme", Predicate: "city", Object: "Oslo", Cardinality: memory.CardinalityFunctional}}
}

func TestAQuorumAnswersWhenEnoughGroupsAgree(t *testing.T) {
	yes, no, dunno, down, wrong := verifiertest.Supports(), verifiertest.Refutes("Rome"), verifiertest.Unclear(), verifiertest.Down(time.Minute), verifiertest.Misconfigured()
	for _, c := range []struct {
		name    string
		k       int
		members []verifiertest.Step // in order of rank
		want    verifier.Outcome
		err     error
		asked   int
		heard   string // S supports, C contradicts
	}{
		{"two of three agree, and the third is not asked", 2, []verifiertest.Step{yes, yes, no}, verifier.Supported, nil, 2, "SS"},
		{"two of three deny, and the third is not asked", 2, []verifiertest.Step{no, no, yes}, verifier.Refuted, nil, 2, "CC"},
		{"one of two knows nothing", 2, []verifiertest.Step{yes, dunno}, verifier.Unclear, nil, 2, "S"},
		{"the third makes up for who knows nothing", 2, []verifiertest.Step{yes, dunno, yes}, verifier.Supported, nil, 3, "SS"},
		{"two that disagree decide nothing, and both are heard", 2, []verifiertest.Step{yes, no, yes}, verifier.Unclear, nil, 2, "SC"},
		{"nor if they begin the other way", 2, []verifiertest.Step{no, yes, no}, verifier.Unclear, nil, 2, "CS"},
		{"the third makes up for who is down", 2, []verifiertest.Step{down, yes, yes}, verifier.Supported, nil, 3, "SS"},
		{"who is down may still make it", 2, []verifiertest.Step{yes, down, dunno}, 0, verifier.ErrUnavailable, 3, ""},
		{"who is down could not make it", 2, []verifiertest.Step{dunno, down}, verifier.Unclear, nil, 1, ""},
		{"all are down", 1, []verifiertest.Step{down, down}, 0, verifier.ErrUnavailable, 2, ""},
		{"who is misconfigured might have made it", 2, []verifiertest.Step{yes, wrong}, 0, verifier.ErrMisconfigured, 2, ""},
		{"an outage ends, a wrong key does not", 2, []verifiertest.Step{yes, wrong, down}, 0, verifier.ErrUnavailable, 3, ""},
		{"support without evidence is none", 1, []verifiertest.Step{verifiertest.Malformed(), dunno}, 0, verifier.ErrUnavailable, 2, ""},
		{"all of three", 3, []verifiertest.Step{yes, yes, yes}, verifier.Supported, nil, 3, "SSS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var members []verifier.Member
			var asked []*verifiertest.Scripted
			for i, step := range c.members {
				s := verifiertest.New(fmt.Sprint("m", i), step)
				asked = append(asked, s)
				members = append(members, verifier.Member{Name: s.Name, Rank: s.Rank, Verifier: s})
			}
			v, err := verifier.NewQuorum("q", c.k, members...).Verify(t.Context(), oslo())
			if v.Outcome != c.want || !errors.Is(err, c.err) || v.Check() != nil {
				t.Fatalf("%+v, %v", v, err)
			}
			n, heard := 0, ""
			for _, s := range asked {
				n += s.Calls()
			}
			for _, e := range v.Said() {
				heard += map[memory.Relation]string{memory.RelationSupports: "S", memory.RelationContradicts: "C"}[e.Relation]
				if want := map[bool]int{true: c.k}[e.Relation == memory.RelationSupports]; e.Quorum != want {
					t.Errorf("quorum %d of %+v", e.Quorum, e)
				}
			}
			if n != c.asked || heard != c.heard {
				t.Errorf("asked %d, heard %q; want %d, %q", n, heard, c.asked, c.heard)
			}
			var u *verifier.UnavailableError
			if errors.As(err, &u) && c.name == "all are down" && u.RetryAfter != time.Minute {
				t.Errorf("retry after %s", u.RetryAfter)
			}
		})
	}
}

func TestAQuorumCountsGroupsAndAsksByRank(t *testing.T) {
	t.Run("one group in two spellings is one", func(t *testing.T) {
		a, b := verifiertest.New("a", verifiertest.Supports()), verifiertest.New("b", verifiertest.Supports())
		a.Group, b.Group = "tool:crm", "Tool:CRM"
		v, err := verifier.NewQuorum("q", 2, verifier.Member{Name: "a", Rank: memory.RankTool, Verifier: a}, verifier.Member{Name: "b", Rank: memory.RankTool, Verifier: b}).Verify(t.Context(), oslo())
		if v.Outcome != verifier.Unclear || err != nil || len(v.Heard) != 2 {
			t.Fatalf("%+v %v", v, err)
		}
	})
	t.Run("the highest rank is asked first, and decides", func(t *testing.T) {
		tool, doc := verifiertest.New("tool", verifiertest.Supports()), verifiertest.New("doc", verifiertest.Supports())
		doc.Rank = memory.RankPrimarySource
		q := verifier.NewQuorum("q", 1, verifier.Member{Name: "tool", Rank: tool.Rank, Verifier: tool}, verifier.Member{Name: "doc", Rank: doc.Rank, Verifier: doc})
		v, err := q.Verify(t.Context(), oslo())
		if err != nil || v.Evidence.Rank != memory.RankPrimarySource || tool.Calls() != 0 || q.Name() != "q" {
			t.Fatalf("%+v %v, the tool was asked %d times", v, err, tool.Calls())
		}
	})
	t.Run("a model's word is no member's", func(t *testing.T) {
		m := verifiertest.New("m", verifiertest.Supports())
		m.Rank = memory.RankSecondModel
		v, err := verifier.NewQuorum("q", 1, verifier.Member{Name: "m", Rank: memory.RankTool, Verifier: m}).Verify(t.Context(), oslo())
		if v.Outcome != verifier.Unclear || err != nil || len(v.Heard) != 0 {
			t.Fatalf("%+v %v", v, err)
		}
	})
	t.Run("nobody is asked for nothing while a member that is needed is down", func(t *testing.T) {
		a, b := verifiertest.New("a", verifiertest.Down(time.Minute)), verifiertest.New("b", verifiertest.Supports())
		open := verifier.WithBreaker("a", a, &verifier.BreakerOptions{Failures: 1})
		of := func(members ...verifier.Verifier) error {
			var all []verifier.Member
			for i, m := range members {
				all = append(all, verifier.Member{Name: fmt.Sprint(i), Rank: memory.RankTool, Verifier: m})
			}
			_, err := verifier.NewQuorum("q", 2, all...).Verify(t.Context(), oslo())
			if !errors.Is(err, verifier.ErrUnavailable) {
				t.Fatal(err)
			}
			return err
		}
		of(open, b)
		if err := of(open, b); !errors.Is(err, verifier.ErrOpen) || b.Calls() != 0 {
			t.Errorf("%v, the other was asked %d times", err, b.Calls())
		}
		if err := of(b, open); errors.Is(err, verifier.ErrOpen) || b.Calls() != 1 {
			t.Errorf("%v: one was asked, %d times", err, b.Calls())
		}
	})
	t.Run("a caller that gives up learns nothing", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := verifiertest.New("m", func(context.Context, *verifiertest.Scripted, memory.Row) (verifier.Verdict, error) {
			cancel()
			return verifier.Verdict{}, ctx.Err()
		})
		_, err := verifier.NewQuorum("q", 1, verifier.Member{Name: "m", Rank: memory.RankTool, Verifier: m}).Verify(ctx, oslo())
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})
	for name, bad := range map[string]func(){
		"none": func() { verifier.NewQuorum("q", 1) },
		"too many": func() {
			verifier.NewQuorum("q", 2, verifier.Member{Name: "a", Rank: memory.RankTool, Verifier: verifiertest.New("a")})
		},
		"of nobody": func() {
			verifier.NewQuorum("q", 0, verifier.Member{Name: "a", Rank: memory.RankTool, Verifier: verifiertest.New("a")})
		},
		"of models": func() {
			verifier.NewQuorum("q", 1, verifier.Member{Name: "a", Rank: memory.RankSecondModel, Verifier: verifiertest.New("a")})
		},
		"without name": func() {
			verifier.NewQuorum("", 1, verifier.Member{Name: "a", Rank: memory.RankTool, Verifier: verifiertest.New("a")})
		},
		"without voice": func() { verifier.NewQuorum("q", 1, verifier.Member{Name: "a", Rank: memory.RankTool}) },
	} {
		t.Run("a quorum "+name+" is refused", func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it was made")
				}
			}()
			bad()
		})
	}
}

// taken is a verifier that may have no place for a question.
type taken struct {
	verifier.Verifier
	full  bool
	state verifier.State
}

func (v taken) IsFull() bool          { return v.full }
func (v taken) State() verifier.State { return v.state }

// TestAQuorumIsFullIfAMemberIsThatMayBeAsked: a question would wait for it.
func TestAQuorumIsFullIfAMemberIsThatMayBeAsked(t *testing.T) {
	for _, c := range []struct {
		full  bool
		state verifier.State
		want  bool
	}{{false, verifier.StateClosed, false}, {true, verifier.StateClosed, true}, {true, verifier.StateHalfOpen, true}, {true, verifier.StateOpen, false}} {
		for k := 1; k <= 2; k++ {
			members := []verifier.Member{{Name: "plain", Rank: memory.RankTool, Verifier: verifiertest.New("plain")},
				{Name: "guarded", Rank: memory.RankTool, Verifier: taken{verifiertest.New("guarded"), c.full, c.state}}}
			if is := verifier.NewQuorum("q", k, members...).IsFull(); is != c.want {
				t.Errorf("%d of 2 agree, %+v: %t", k, c, is)
			}
		}
	}
}

// Whatever the members say: a quorum supports only if k groups do and none denies, and
// refutes only if k groups do and none supports.
func TestAQuorumNeverSaysMoreThanItsMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "n")
		k := rapid.IntRange(1, n).Draw(t, "k")
		var members []verifier.Member
		all := map[string]map[string]bool{"S": {}, "C": {}}
		for i := range n {
			says := rapid.SampledFrom([]string{"S", "C", "U", "D"}).Draw(t, "says")
			s := verifiertest.New(fmt.Sprint("m", i), map[string]verifiertest.Step{"S": verifiertest.Supports(), "C": verifiertest.Refutes("Rome"), "U": verifiertest.Unclear(), "D": verifiertest.Down(0)}[says])
			s.Group = rapid.SampledFrom([]string{"tool:a", "tool:b", "tool:c"}).Draw(t, "group")
			if all[says] != nil {
				all[says][s.Group] = true
			}
			members = append(members, verifier.Member{Name: s.Name, Rank: s.Rank, Verifier: s})
		}
		v, err := verifier.NewQuorum("q", k, members...).Verify(context.Background(), oslo())
		groups := map[memory.Relation]map[string]bool{memory.RelationSupports: {}, memory.RelationContradicts: {}}
		for _, e := range v.Said() {
			groups[e.Relation][e.Group] = true
		}
		yes, no := len(groups[memory.RelationSupports]), len(groups[memory.RelationContradicts])
		switch v.Outcome {
		case verifier.Supported:
			if yes < k || no > 0 || len(all["S"]) < k {
				t.Fatalf("%d of %d support: %+v", yes, k, v)
			}
		case verifier.Refuted:
			if no < k || yes > 0 || len(all["C"]) < k {
				t.Fatalf("%d of %d deny: %+v", no, k, v)
			}
		case verifier.Unclear:
			if err != nil {
				t.Fatal(err)
			}
		default:
			if !errors.Is(err, verifier.ErrUnavailable) {
				t.Fatal(err)
			}
		}
	})
}

// A condition is asked once, when the first member would be, and not if none can be asked.
func TestAQuorumAsksItsConditionOnce(t *testing.T) {
	denied := errors.New("no budget")
	open := func(v verifier.Verifier) verifier.Verifier {
		g := verifier.WithBreaker("m", v, &verifier.BreakerOptions{Failures: 1, FirstOpen: time.Hour, OpenFor: time.Hour})
		g.Verify(t.Context(), oslo())
		return g
	}
	for _, c := range []struct {
		name       string
		plain      bool // no member has a breaker; else the first one's is open
		allOpen    bool
		says       error
		conditions int
		asked      int // of the second and third
		want       error
	}{
		{"the first that can be asked", false, false, nil, 1, 2, nil},
		{"it is denied, and nobody is asked", false, false, denied, 1, 0, denied},
		{"none can be asked", false, true, nil, 0, 0, verifier.ErrOpen},
		{"members without breakers", true, false, nil, 1, 1, nil},
		{"members without breakers, and it is denied", true, false, denied, 1, 0, denied},
	} {
		t.Run(c.name, func(t *testing.T) {
			var members []verifier.Member
			var asked []*verifiertest.Scripted
			for i := range 3 {
				s := verifiertest.New(fmt.Sprint("m", i), verifiertest.Supports())
				var v verifier.Verifier = s
				if !c.plain && (i == 0 || c.allOpen) {
					s.Set(verifiertest.Down(0))
					v = open(s)
				}
				if i > 0 {
					asked = append(asked, s)
				}
				members = append(members, verifier.Member{Name: s.Name, Rank: s.Rank, Verifier: v})
			}
			before, conditions := asked[0].Calls()+asked[1].Calls(), 0
			_, err := verifier.NewQuorum("q", 2, members...).VerifyIf(t.Context(), oslo(), func(context.Context) error { conditions++; return c.says })
			if n := asked[0].Calls() + asked[1].Calls() - before; !errors.Is(err, c.want) || conditions != c.conditions || n != c.asked {
				t.Errorf("%v after %d conditions, and %d asked; want %v, %d and %d", err, conditions, n, c.want, c.conditions, c.asked)
			}
		})
	}
}

// TestAQuorumIsInTheStateOfItsKthMember: without that no answer comes.
func TestAQuorumIsInTheStateOfItsKthMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := verifiertest.New("down", verifiertest.Down(0))
		bare := verifiertest.New("bare", verifiertest.Unclear())
		states := map[verifier.State]*verifier.Guarded{}
		for state, openFor := range map[verifier.State]time.Duration{verifier.StateOpen: time.Hour, verifier.StateHalfOpen: time.Second, verifier.StateClosed: 0} {
			g := verifier.WithBreaker(state.String(), down, &verifier.BreakerOptions{Failures: 1, FirstOpen: openFor, OpenFor: openFor, Timeout: 3 * time.Second})
			if states[state] = g; openFor > 0 {
				ask(t, g)
			}
		}
		time.Sleep(time.Minute)
		open, half, closed := verifier.StateOpen, verifier.StateHalfOpen, verifier.StateClosed
		for _, c := range []struct {
			k       int
			members []verifier.State
			want    verifier.State
		}{
			{1, []verifier.State{open}, open},
			{1, []verifier.State{open, closed}, closed},
			{2, []verifier.State{closed, open}, open},
			{2, []verifier.State{closed, half}, half},
			{2, []verifier.State{half, closed, open, closed}, closed},
			{3, []verifier.State{half, closed, open, closed}, half},
			{4, []verifier.State{half, closed, open, closed}, open},
		} {
			var members []verifier.Member
			for i, s := range c.members {
				members = append(members, verifier.Member{Name: fmt.Sprint(i), Rank: memory.RankTool, Verifier: states[s]})
			}
			q := verifier.NewQuorum("all", c.k, members...)
			if got := q.State(); got != c.want {
				t.Errorf("%d of %v: %s, want %s", c.k, c.members, got, c.want)
			}
			if got := q.Bound(); got != time.Duration(len(members))*6*time.Second {
				t.Errorf("it takes %s at most", got)
			}
			q = verifier.NewQuorum("all", 1, append(members, verifier.Member{Name: "bare", Rank: memory.RankTool, Verifier: bare})...)
			if q.State() != closed || q.Bound() != 0 {
				t.Errorf("with a member without a breaker: %s, %s", q.State(), q.Bound())
			}
		}
	})
}

// TestAQuorumProbesItsMembers, although the answer of one that is half-open decides nothing.
func TestAQuorumProbesItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, back := verifiertest.New("up", verifiertest.Unclear()), verifiertest.New("back", verifiertest.Down(0))
		g := verifier.WithBreaker("back", back, &verifier.BreakerOptions{Failures: 1})
		ask(t, g)
		time.Sleep(time.Second)
		back.Set(verifiertest.Unclear())
		q := verifier.NewQuorum("both", 2, verifier.Member{Name: "up", Rank: memory.RankPrimarySource, Verifier: up}, verifier.Member{Name: "back", Rank: memory.RankTool, Verifier: g})
		if q.State() != verifier.StateHalfOpen {
			t.Fatal(q.State())
		}
		for range 2 {
			if o, _, err := ask(t, q); o != verifier.Unclear || err != nil || q.State() != verifier.StateClosed {
				t.Fatal(o, err, q.State())
			}
		}
		if up.Calls() != 2 || back.Calls() != 2 { // once when it was down, and once to probe
			t.Errorf("%d and %d questions", up.Calls(), back.Calls())
		}
	})
}
