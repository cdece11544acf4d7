package recall_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

func TestMain(m *testing.M) { testmain.Run(m) }

// fakeStore is a store of given rows: every text finds them all, in their order.
type fakeStore struct {
	rows []memory.Row
	now  time.Time
	err  error
}

var _ recall.Store = (*memory.Store)(nil)

func (s fakeStore) Now() time.Time { return s.now }

func (s fakeStore) Closures(context.Context, ...memory.ID) ([]memory.Ancestry, error) {
	return nil, s.err
}

func (s fakeStore) Fitness(context.Context, []memory.ID) (memory.Fitness, error) {
	return memory.Fitness{}, s.err
}

func (s fakeStore) Find(_ context.Context, l memory.Lookup) ([]memory.Row, bool, error) {
	rows := slices.Clone(s.rows)
	if l.Text == "" {
		rows = slices.DeleteFunc(rows, func(r memory.Row) bool {
			return r.Content.Subject != l.Subject || r.Content.Predicate != l.Predicate || !r.Content.Typed()
		})
	}
	return rows, false, s.err
}

func (s fakeStore) Rows(_ context.Context, f memory.Filter) iter.Seq2[memory.Row, error] {
	return func(yield func(memory.Row, error) bool) {
		if s.err != nil {
			yield(memory.Row{}, s.err)
			return
		}
		for _, r := range s.rows {
			if r.Content.Subject == f.Subject && r.Content.Predicate == f.Predicate && r.Content.Typed() && !yield(r, nil) {
				return
			}
		}
	}
}

// stock numbers rows and keys their claims, as a store would.
func stock(rows ...memory.Row) fakeStore {
	for i := range rows {
		rows[i].ID = memory.ID(fmt.Sprintf("mem_%025d0", i))
		key := rows[i].Content.ClaimKey()
		rows[i].Claim = memory.Token(key[:16])
	}
	return fakeStore{rows: rows, now: day0}
}

func fit(r *memory.Row) {
	r.Truth, r.Rank, r.VerifiedAt, r.ValueConfidence = memory.TruthSupported, memory.RankTool, day0, 0.1
}

func sure(r *memory.Row) { r.ValueConfidence, r.ValidTimeConfidence = 1, 1 }

func claims(object string) func(*memory.Row) {
	return func(r *memory.Row) {
		r.Content = memory.Content{Subject: "ana", Predicate: "city", Object: object, Cardinality: memory.CardinalityFunctional}
	}
}

func ask(t *testing.T, s recall.Store, p recall.Policy) recall.Result {
	t.Helper()
	r, err := recall.Recall(t.Context(), s, recall.Query{Text: "x"}, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func shape(r recall.Result) string {
	return fmt.Sprintf("%d %d %d", len(r.Context), len(r.Uncertain), len(r.Contradictions))
}

func TestX18EachRowIsInItsChannel(t *testing.T) {
	const none, context, uncertain, contradictions = "0 0 0", "1 0 0", "0 1 0", "0 0 1"
	for _, tc := range []struct {
		name, want string
		change     func(*memory.Row)
		policy     recall.Policy
	}{
		{"a fit row", context, fit, recall.Policy{}},
		{"an unverified row, sure of itself (LS-16)", uncertain, sure, recall.Policy{}},
		{"a row written while the verifier was down", uncertain, func(r *memory.Row) { r.Outage = memory.OutageRecorded }, recall.Policy{}},
		{"a contradicted row", contradictions, func(r *memory.Row) { r.Truth = memory.TruthContradicted }, recall.Policy{}},
		{"a rejected claim, written again", contradictions, func(r *memory.Row) { r.Rejection = &memory.Rejection{By: "ana"} }, recall.Policy{}},
		{"a superseded row", none, func(r *memory.Row) { r.Truth = memory.TruthSuperseded }, recall.Policy{}},
		{"a row of no truth value", none, func(r *memory.Row) { r.Truth = 0 }, recall.Policy{}},
		{"a row that is not there", none, func(r *memory.Row) { fit(r); r.Revision = 0 }, recall.Policy{}},
		{"hidden (LS-17)", none, func(r *memory.Row) { fit(r); sure(r); r.Retrieval = memory.RetrievalHidden }, recall.Policy{Clearance: true}},
		{"blocked", none, func(r *memory.Row) { fit(r); sure(r); r.Retrieval = memory.RetrievalBlocked }, recall.Policy{Clearance: true}},
		{"of unset retrieval", none, func(r *memory.Row) { fit(r); r.Retrieval = 0 }, recall.Policy{Clearance: true}},
		{"restricted", uncertain, func(r *memory.Row) { fit(r); r.Retrieval = memory.RetrievalRestricted }, recall.Policy{}},
		{"privileged, without clearance", none, func(r *memory.Row) { fit(r); r.Retrieval = memory.RetrievalPrivilegedOnly }, recall.Policy{}},
		{"privileged, with clearance", context, func(r *memory.Row) { fit(r); r.Retrieval = memory.RetrievalPrivilegedOnly }, recall.Policy{Clearance: true}},
		{"suspicious (LS-23)", none, func(r *memory.Row) { fit(r); sure(r); r.Security = memory.SecuritySuspicious }, recall.Policy{Clearance: true}},
		{"quarantined (LS-25)", none, func(r *memory.Row) { fit(r); sure(r); r.Security = memory.SecurityQuarantined }, recall.Policy{Clearance: true}},
		{"malicious", none, func(r *memory.Row) { fit(r); sure(r); r.Security = memory.SecurityMalicious }, recall.Policy{Clearance: true}},
		{"tainted and not reviewed", none, func(r *memory.Row) { fit(r); r.Flags = memory.FlagTainted }, recall.Policy{}},
		{"internal is within the default ceiling (LS-20)", context, func(r *memory.Row) { fit(r); r.Sensitivity = memory.SensitivityInternal }, recall.Policy{}},
		{"confidential is above it (LS-26)", none, func(r *memory.Row) { fit(r); r.Sensitivity = memory.SensitivityConfidential }, recall.Policy{Clearance: true}},
		{"a secret is in no explanation (LS-24)", none, func(r *memory.Row) { r.Sensitivity = memory.SensitivitySecret }, recall.Policy{Purpose: recall.PurposeExplanation}},
		{"an unset sensitivity is a secret", none, func(r *memory.Row) { fit(r); r.Sensitivity = 0 }, recall.Policy{Ceiling: memory.SensitivitySecret}},
		{"a higher ceiling", context, func(r *memory.Row) { fit(r); r.Sensitivity = memory.SensitivityConfidential }, recall.Policy{Ceiling: memory.SensitivityConfidential}},
		{"30 days old (LS-19)", context, func(r *memory.Row) { fit(r); r.VerifiedAt = day0.Add(-30 * 24 * time.Hour) }, recall.Policy{}},
		{"30 days and a second", uncertain, func(r *memory.Row) { fit(r); r.VerifiedAt = day0.Add(-30*24*time.Hour - time.Second) }, recall.Policy{}},
		{"verified 60 days ago, and renewed since", context, func(r *memory.Row) {
			fit(r)
			r.VerifiedAt, r.StaleAt, r.ExpiresAt = day0.Add(-60*24*time.Hour), day0.Add(20*24*time.Hour), day0.Add(80*24*time.Hour)
		}, recall.Policy{}},
		{"renewed longer ago than the policy wants", uncertain, func(r *memory.Row) {
			fit(r)
			r.VerifiedAt, r.StaleAt, r.ExpiresAt = day0.Add(-60*24*time.Hour), day0.Add(20*24*time.Hour), day0.Add(80*24*time.Hour)
		}, recall.Policy{MaxAge: 9 * 24 * time.Hour}},
		{"older than the policy wants", uncertain, func(r *memory.Row) { fit(r); r.VerifiedAt = day0.Add(-2 * time.Hour) }, recall.Policy{MaxAge: time.Hour}},
		{"stale by the clock (LS-24)", uncertain, func(r *memory.Row) { fit(r); r.StaleAt = day0.Add(-time.Second) }, recall.Policy{}},
		{"expired today (UD-15)", uncertain, func(r *memory.Row) { fit(r); r.Freshness = memory.FreshnessExpired }, recall.Policy{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := stock(row("x", tc.change))
			tc.policy.Channels = recall.All
			if got := shape(ask(t, s, tc.policy)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			tc.policy.Channels = 0
			want := none
			if tc.want == context {
				want = context
			}
			if got := shape(ask(t, s, tc.policy)); got != want {
				t.Errorf("by default got %s, want %s", got, want)
			}
		})
	}
}

func TestLS27RivalsAreSurfaced(t *testing.T) {
	t.Run("a rival that the search did not find is listed, an unrelated row is not", func(t *testing.T) {
		s := stock(row("", claims("Berlin"), fit), row("", claims("Munich"), sure), row("", claims("Rome"), func(r *memory.Row) { r.Content.Predicate = "birthplace" }))
		r, err := recall.Recall(t.Context(), only{s, 1}, recall.Query{Text: "x"}, recall.Policy{Channels: recall.Context | recall.Contradictions})
		if err != nil || shape(r) != "1 0 1" || r.Contradictions[0].Content.Object != "Munich" {
			t.Fatal(shape(r), err)
		}
	})
	t.Run("each row is in one channel", func(t *testing.T) {
		s := stock(row("", claims("Berlin"), fit), row("", claims("Munich")), row("", claims("Rome"), func(r *memory.Row) { r.Truth = memory.TruthContradicted }), row("note"))
		if got := shape(ask(t, s, recall.Policy{Channels: recall.All})); got != "1 1 2" {
			t.Error(got)
		}
	})
	t.Run("of rivals that nobody checked the first is uncertain and the others oppose it", func(t *testing.T) {
		s := stock(row("", claims("Berlin")), row("", claims("Munich")))
		if got := shape(ask(t, s, recall.Policy{Channels: recall.All})); got != "0 1 1" {
			t.Error(got)
		}
		if got := shape(ask(t, s, recall.Policy{Channels: recall.Uncertain})); got != "0 2 0" {
			t.Error(got)
		}
	})
	t.Run("a quarantined rival is in no channel", func(t *testing.T) {
		s := stock(row("", claims("Berlin"), fit), row("", claims("Munich"), func(r *memory.Row) { r.Security = memory.SecurityQuarantined }))
		if got := shape(ask(t, s, recall.Policy{Channels: recall.All})); got != "1 0 0" {
			t.Error(got)
		}
	})
	t.Run("members of a set do not oppose one another", func(t *testing.T) {
		set := func(r *memory.Row) { r.Content.Cardinality = memory.CardinalitySetValued }
		s := stock(row("", claims("tea"), set, fit), row("", claims("go"), set))
		if got := shape(ask(t, s, recall.Policy{Channels: recall.All})); got != "1 1 0" {
			t.Error(got)
		}
	})
	t.Run("the same claim at another anchor is no rival", func(t *testing.T) {
		s := stock(row("", claims("Berlin"), fit), row("", claims("berlin")))
		if got := shape(ask(t, s, recall.Policy{Channels: recall.All})); got != "1 1 0" {
			t.Error(got)
		}
	})
}

// TestALineIsReadOnce: the rivals of what was asked for by its line are in that line.
func TestALineIsReadOnce(t *testing.T) {
	verified := func(rank memory.Rank) func(*memory.Row) {
		return func(r *memory.Row) { fit(r); r.Rank = rank }
	}
	contradicted := func(r *memory.Row) { r.Truth = memory.TruthContradicted }
	s := &finding{fakeStore: stock(row("", claims("Rome")), row("", claims("Oslo"), contradicted), row("", claims("Berlin"), verified(memory.RankTool)), row("", claims("Munich"), verified(memory.RankUser)))}
	r, err := recall.Recall(t.Context(), s, recall.Query{Subject: "ana", Predicate: "city"}, recall.Policy{Channels: recall.All})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range r.Rows() {
		got = append(got, row.Content.Object)
	}
	// The rank orders what is fit. What stands against it follows.
	if want := []string{"Munich", "Berlin", "Oslo", "Rome"}; !slices.Equal(got, want) || s.times != 1 {
		t.Errorf("%v in %d trips, want %v in one", got, s.times, want)
	}
	s.times = 0
	if _, err := recall.Recall(t.Context(), s, recall.Query{Text: "x"}, recall.Policy{Channels: recall.All}); err != nil || s.times != 2 {
		t.Errorf("by text: %d trips, %v", s.times, err)
	}
}

// finding counts how often it is asked.
type finding struct {
	fakeStore
	times int
}

func (f *finding) Find(ctx context.Context, l memory.Lookup) ([]memory.Row, bool, error) {
	f.times++
	return f.fakeStore.Find(ctx, l)
}

// only finds the first n rows of a fakeStore by their words.
type only struct {
	fakeStore
	n int
}

func (o only) Find(ctx context.Context, l memory.Lookup) ([]memory.Row, bool, error) {
	rows, _, err := o.fakeStore.Find(ctx, l)
	if l.Text != "" {
		rows = rows[:o.n]
	}
	return rows, false, err
}

func TestQueryByLineIsOrderedByRank(t *testing.T) {
	s := stock(row("", claims("Berlin"), fit), row("", claims("berlin"), fit, sure), row("", claims("Berlin "), fit, func(r *memory.Row) { r.Rank = memory.RankUser }))
	r, err := recall.Recall(t.Context(), s, recall.Query{Subject: "ana", Predicate: "city", Limit: 2}, recall.Policy{})
	if err != nil || len(r.Context) != 2 || r.Context[0].Rank != memory.RankUser || r.Context[1].ID != s.rows[0].ID || !r.Truncated {
		t.Fatalf("%+v %v", r, err)
	}
	if ids := r.IDs(); len(ids) != 2 || ids[0] != s.rows[2].ID {
		t.Fatal(ids)
	}
	if r.Policy.MaxAge != recall.DefaultMaxAge || r.Policy.Ceiling != memory.SensitivityInternal || r.Policy.Limit != 2 || !r.At.Equal(day0) {
		t.Fatalf("%+v", r.Policy)
	}
}

func TestLimitsHoldInEachChannel(t *testing.T) {
	var rows []memory.Row
	for i := range 60 {
		rows = append(rows, row(fmt.Sprint("u", i)), row(fmt.Sprint("f", i), fit), row(fmt.Sprint("c", i), func(r *memory.Row) { r.Truth = memory.TruthContradicted }))
	}
	r := ask(t, stock(rows...), recall.Policy{Channels: recall.All})
	if shape(r) != "20 20 20" || !r.Truncated || r.Context[0].Content.Text != "f0" {
		t.Fatal(shape(r), r.Truncated)
	}
}

func TestBadQuestionsAreRefused(t *testing.T) {
	good := recall.Query{Text: "x"}
	for _, tc := range []struct {
		field string
		q     recall.Query
		p     recall.Policy
	}{
		{"query", recall.Query{}, recall.Policy{}},
		{"query", recall.Query{Subject: "ana"}, recall.Policy{}},
		{"query", recall.Query{Predicate: "city"}, recall.Policy{}},
		{"query", recall.Query{Text: "x", Subject: "ana", Predicate: "city"}, recall.Policy{}},
		{"query.limit", recall.Query{Text: "x", Limit: -1}, recall.Policy{}},
		{"policy.channels", good, recall.Policy{Channels: 8}},
		{"policy.purpose", good, recall.Policy{Purpose: 9}},
		{"policy.ceiling", good, recall.Policy{Ceiling: 9}},
		{"policy.max_age", good, recall.Policy{MaxAge: -1}},
		{"policy.limit", good, recall.Policy{Limit: recall.MaxLimit + 1}},
	} {
		_, err := recall.Recall(t.Context(), stock(), tc.q, tc.p)
		var f *memory.FieldError
		if !errors.As(err, &f) || f.Field != tc.field {
			t.Errorf("%+v %+v: %v, want %s", tc.q, tc.p, err, tc.field)
		}
	}
}

func TestAFaultShowsNoPartOfAnAnswer(t *testing.T) {
	s := stock(row("", claims("Berlin"), fit))
	s.err = memory.ErrStore
	for _, q := range []recall.Query{{Text: "x"}, {Subject: "ana", Predicate: "city"}} {
		r, err := recall.Recall(t.Context(), s, q, recall.Policy{Channels: recall.All})
		if !errors.Is(err, memory.ErrStore) || len(r.Rows()) != 0 {
			t.Errorf("%v %v", r, err)
		}
	}
}

// TestLS23ConfidenceLiftsNothing: two stores that differ in confidence, purpose
// and order of confidence give the same channels; and what no channel may show
// is in none.
func TestLS23ConfidenceLiftsNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var rows []memory.Row
		for i := range rapid.IntRange(1, 6).Draw(rt, "rows") {
			rows = append(rows, row("", claims(rapid.SampledFrom([]string{"Berlin", "Rome", "Oslo"}).Draw(rt, "object")), func(r *memory.Row) {
				r.Content.Text = fmt.Sprint(i)
				r.Truth = memory.Truth(rapid.IntRange(0, 4).Draw(rt, "truth"))
				r.Retrieval = memory.Retrieval(rapid.IntRange(0, 5).Draw(rt, "retrieval"))
				r.Security = memory.Security(rapid.SampledFrom([]int{0, 1, 1, 1, 2, 3, 4}).Draw(rt, "security"))
				r.Freshness = memory.Freshness(rapid.IntRange(0, 3).Draw(rt, "freshness"))
				r.Sensitivity = memory.Sensitivity(rapid.IntRange(0, 4).Draw(rt, "sensitivity"))
				r.VerifiedAt = day0
			}))
		}
		p := recall.Policy{Channels: recall.All, Clearance: rapid.Bool().Draw(rt, "clearance"), Ceiling: memory.Sensitivity(rapid.IntRange(0, 4).Draw(rt, "ceiling"))}
		a := stock(slices.Clone(rows)...)
		for i := range rows {
			sure(&rows[i])
		}
		b := stock(rows...)
		q := p
		q.Purpose = recall.PurposeDecision
		ra, rb := ask(t, a, p), ask(t, b, q)
		if shape(ra) != shape(rb) || !slices.Equal(ra.IDs(), rb.IDs()) {
			rt.Fatalf("%s and %s", shape(ra), shape(rb))
		}
		seen := map[memory.ID]bool{}
		for _, r := range ra.Rows() {
			if seen[r.ID] || r.Security != memory.SecurityClean || r.Retrieval == memory.RetrievalHidden || r.Retrieval == memory.RetrievalBlocked ||
				r.Sensitivity == 0 || r.Sensitivity > max(p.Ceiling, memory.SensitivityPublic) && p.Ceiling != 0 || r.Retrieval == memory.RetrievalPrivilegedOnly && !p.Clearance {
				rt.Fatalf("%+v", r)
			}
			seen[r.ID] = true
		}
		for _, r := range ra.Context {
			if r.State() != memory.StateVerified || r.Freshness != memory.FreshnessFresh {
				rt.Fatalf("%+v", r)
			}
		}
	})
}
