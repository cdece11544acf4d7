package asynqqueue

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/localredis"
)

// model is what the queue should be: where each row is, and its order.
type model struct {
	at     map[memory.ID]string // "waiting", "claimed", "later", or a backlog by its source
	heat   map[memory.ID]float64
	yields map[memory.ID]bool // it did; true = the time in which all others go before it is not over
	last   map[memory.ID]bool // all others go before it
	closed map[string]bool    // for all
	noted  map[string]bool    // one worker leaves it alone, as people are told
	avoids []map[string]bool  // which backlogs each worker closed for itself; true = and does not draw from
	claims map[memory.ID]claim
	by     map[memory.ID]int // who has it
}

// takes is what a worker gets: the hottest rows of those that wait and of the backlogs that
// are open to it.
func (m *model) takes(worker, most int) []memory.ID {
	var can []memory.ID
	for id, at := range m.at {
		_, avoids := m.avoids[worker][at]
		if at == "waiting" || at != "claimed" && at != "later" && !m.closed[at] && !avoids {
			can = append(can, id)
		}
	}
	slices.SortFunc(can, func(a, b memory.ID) int {
		if m.last[a] != m.last[b] {
			return map[bool]int{true: 1, false: -1}[m.last[a]]
		}
		return cmp.Or(cmp.Compare(m.heat[b], m.heat[a]), cmp.Compare(a, b))
	})
	return can[:min(most, len(can))]
}

// TestI12NoRowIsLostOrTwiceWhateverBecomesOfItsClaims: offers, claims, all their endings,
// lost leases and retries, in any order, keep each row in one place, and give rows in the
// order of heat.
func TestI12NoRowIsLostOrTwiceWhateverBecomesOfItsClaims(t *testing.T) {
	t.Parallel()
	i12(t)
}

// The model once did not know that a worker leaves a backlog alone whose verifier is down.
func TestI12AWorkerLeavesABacklogAloneWhoseVerifierIsDown(t *testing.T) {
	testmain.Seed(t, 5157417472828264036)
	i12(t)
}

func i12(t *testing.T) {
	r, err := localredis.Open(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	client := Patient(r.Client)
	defer client.Close()
	sources := []string{"crm", "a source: {odd}", "two|crm", "two, crm"} // "|" = of several verifiers
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		if err := client.FlushDB(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		workers := []*Queue{New(client, &Options{Lease: time.Hour, Concurrency: 1}), New(client, &Options{Lease: time.Hour, Concurrency: 1})}
		q := workers[0]
		someWorker := func(t *rapid.T) int { return rapid.IntRange(0, len(workers)-1).Draw(t, "worker") }
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		m := &model{at: map[memory.ID]string{}, heat: map[memory.ID]float64{}, yields: map[memory.ID]bool{}, last: map[memory.ID]bool{},
			closed: map[string]bool{}, noted: map[string]bool{}, avoids: []map[string]bool{{}, {}}, claims: map[memory.ID]claim{}, by: map[memory.ID]int{}}
		someClaim := func(t *rapid.T) claim {
			if len(m.claims) == 0 {
				t.Skip("nothing is claimed")
			}
			return m.claims[rapid.SampledFrom(slices.Sorted(maps.Keys(m.claims))).Draw(t, "claim")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"offer": func(t *rapid.T) {
				id := memory.ID(fmt.Sprint("row", rapid.IntRange(0, 9).Draw(t, "row")))
				m.last[id] = m.yields[id]
				m.heat[id] = float64(rapid.IntRange(0, 5).Draw(t, "heat"))
				if m.at[id] == "" {
					m.at[id] = "waiting"
				}
				must(q.Offer(ctx, []promotion.Offer{{ID: id, Heat: m.heat[id]}}))
			},
			"claim": func(t *rapid.T) {
				worker, most := someWorker(t), rapid.IntRange(1, 4).Draw(t, "most")
				want := m.takes(worker, most)
				if last := slices.IndexFunc(want, func(id memory.ID) bool { return m.last[id] }); last >= 0 { // it is taken alone
					want = want[:max(last, 1)]
				}
				claims, err := workers[worker].claim(ctx, most)
				must(err)
				drawn, drew := m.draws(worker, workers[worker])
				if len(claims) == 1 && claims[0].drawn != "" {
					if at := m.at[claims[0].id]; !drew || at != drawn || claims[0].drawn != backlogOf(drawn) || m.closed[at] {
						t.Fatalf("drew %+v from %q (it is to draw from %q: %t)", claims[0], at, drawn, drew)
					}
					for id, at := range m.at {
						if at == drawn && m.last[claims[0].id] && !m.last[id] {
							t.Fatalf("drew %s, which yields, and %s does not", claims[0].id, id)
						}
					}
					want = []memory.ID{claims[0].id}
				} else if drew && !m.closed[drawn] && slices.Contains(slices.Collect(maps.Values(m.at)), drawn) {
					t.Fatalf("nothing was drawn from %q", drawn)
				}
				var got []memory.ID
				for _, c := range claims {
					got = append(got, c.id)
					m.at[c.id], m.claims[c.id], m.by[c.id] = "claimed", c, worker
				}
				if !slices.Equal(got, want) {
					t.Fatalf("claimed %v, want %v", got, want)
				}
				maps.DeleteFunc(m.noted, func(source string, _ bool) bool { return !slices.Contains(slices.Collect(maps.Values(m.at)), source) })
			},
			"release": func(t *rapid.T) {
				c := someClaim(t)
				worker := m.by[c.id]
				over, source := false, ""
				e := released{claim: c, ending: rapid.SampledFrom([]ending{done, back, later, behind, behind, alone, alone}).Draw(t, "ending"), at: time.Now().Add(time.Hour)}
				if rapid.Bool().Draw(t, "yields") {
					e.yield = time.Duration(rapid.IntRange(1, 3).Draw(t, "hours")) * time.Hour
					m.yields[c.id], m.last[c.id] = true, true
				}
				result := promotion.Result{}
				switch e.ending {
				case done:
					delete(m.at, c.id)
					delete(m.heat, c.id)
					delete(m.last, c.id)
					delete(m.yields, c.id)
					result.Status = rapid.SampledFrom([]promotion.Status{promotion.Promoted, promotion.Unclear, promotion.Misconfigured, promotion.NotDue, promotion.Parked, promotion.Moved}).Draw(t, "status")
				case back:
					m.at[c.id] = "waiting"
				case later:
					m.at[c.id] = "later"
					result.Status = promotion.Down
				case behind:
					source = rapid.SampledFrom(sources).Draw(t, "source")
					// One that was open closes; a refusal whose time is over opens nothing.
					if over = rapid.Bool().Draw(t, "over"); over {
						e.at = time.Now().Add(-time.Hour)
					} else {
						m.closed[source] = true
						delete(m.noted, source)
					}
					m.at[c.id] = source
				case alone:
					source = rapid.SampledFrom(sources).Draw(t, "source")
					if over = rapid.Bool().Draw(t, "over"); over {
						e.at = time.Now().Add(-time.Hour)
					} else {
						m.noted[source] = m.noted[source] || !m.closed[source]
					}
					m.at[c.id] = source
				}
				e.backlog = backlogOf(source)
				if source != "" {
					result = promotion.Result{Status: promotion.Deferred, Behind: strings.Split(source, "|"), Alone: e.ending == alone}
				}
				if c.drawn != "" && e.ending != back {
					workers[worker].drew(c.drawn, result)
					switch drawn := m.source(c.drawn, sources); {
					case result.Status == promotion.Promoted, result.Status == promotion.Unclear, result.Status == promotion.Misconfigured, source != "" && (source != drawn || e.ending != alone):
						delete(m.avoids[worker], drawn)
					case result.Status == promotion.Down: // for a pump, which is an hour here
						workers[worker].avoids[c.drawn] = time.Now().Add(time.Hour)
						m.avoids[worker][drawn] = true
					default:
						m.avoids[worker][drawn] = false
					}
				}
				must(workers[worker].release(ctx, []released{e}))
				if e.ending == alone {
					m.avoids[worker][source] = m.avoids[worker][source] || !over
					if !m.avoids[worker][source] { // for a pump, which is over too
						workers[worker].avoids[backlogOf(source)] = time.Now()
					}
					over = over && !m.noted[source]
				}
				if over && !m.closed[source] { // one that was open closes for a pump at most, which is over too
					delete(m.noted, source)
					must(client.HSet(ctx, q.closed, backlogOf(source), 1).Err())
				}
				delete(m.claims, c.id)
				must(q.release(ctx, []released{{claim: c, ending: done}})) // the claim is gone: it does nothing
			},
			"a worker dies": func(t *rapid.T) {
				c := someClaim(t)
				must(client.ZAdd(ctx, q.claimed, redis.Z{Score: 1, Member: string(c.id)}).Err())
				must(client.HDel(ctx, q.lost, string(c.id)).Err()) // how such rows are taken is another test's
				must(q.pump(ctx))
				m.at[c.id] = "waiting"
				delete(m.claims, c.id)
			},
			"the time of a backlog comes": func(t *rapid.T) {
				source := rapid.SampledFrom(sources).Draw(t, "source")
				if !m.closed[source] {
					t.Skip("it is open")
				}
				must(client.HSet(ctx, q.closed, backlogOf(source), 1).Err())
				delete(m.closed, source)
			},
			"the time of a note comes": func(t *rapid.T) {
				source := rapid.SampledFrom(sources).Draw(t, "source")
				if m.closed[source] || !m.noted[source] || !client.HExists(ctx, q.closed, backlogOf(source)).Val() {
					t.Skip("there is none")
				}
				must(client.HSet(ctx, q.closed, backlogOf(source), -1).Err())
				delete(m.noted, source)
			},
			"a breaker closes": func(t *rapid.T) {
				worker, source := someWorker(t), rapid.SampledFrom(sources).Draw(t, "source")
				if !m.avoids[worker][source] {
					t.Skip("it is closed")
				}
				workers[worker].avoids[backlogOf(source)] = time.Now()
				m.avoids[worker][source] = false
			},
			"others went first for long enough": func(t *rapid.T) {
				if len(m.yields) == 0 {
					t.Skip("none yields")
				}
				id := rapid.SampledFrom(slices.Sorted(maps.Keys(m.yields))).Draw(t, "row")
				must(client.HSet(ctx, q.yields, string(id), 1).Err())
				m.yields[id] = false // it is last until it is offered anew
			},
			"pump": func(t *rapid.T) {
				worker := someWorker(t)
				must(workers[worker].pump(ctx))
				can := len(m.takes(worker, len(m.at)))
				for _, at := range m.at { // of a backlog from which it draws it can take one, and then more
					if shut, avoids := m.avoids[worker][at]; avoids && !shut && !m.closed[at] {
						can++
					}
				}
				if workers[worker].waits.Load() != int64(can) {
					t.Fatalf("%d rows wait, and %d can be taken", workers[worker].waits.Load(), can)
				}
			},
			"retry": func(t *rapid.T) {
				n, err := q.Retry(ctx)
				must(err)
				for id, at := range m.at {
					if at == "later" || m.closed[at] {
						n--
					}
					if at == "later" {
						m.at[id] = "waiting"
					}
				}
				if n != 0 {
					t.Fatalf("%d more came back than were put aside", n)
				}
				clear(m.closed)
				clear(m.yields)
			},
			"": func(t *rapid.T) {
				m.hold(t, q)
				for i, avoids := range m.avoids {
					if len(avoids) != len(workers[i].avoids) {
						t.Fatalf("worker %d closed %v for itself, want %v", i, workers[i].avoids, avoids)
					}
					for source, shut := range avoids {
						if until := time.Until(workers[i].avoids[backlogOf(source)]); !shut && until > 0 {
							t.Fatalf("worker %d draws from the backlog of %s in %s, and was to do so now", i, source, until)
						} else if !shut {
							continue
						}
						if until := time.Until(workers[i].avoids[backlogOf(source)]); until < 50*time.Minute {
							t.Fatalf("worker %d leaves the backlog of %s alone for %s, and was to for an hour", i, source, until)
						}
					}
				}
			},
		})
	})
}

// What came of a row that was drawn says whether its backlog opens.
func TestABacklogOpensWhenAProbeWasAnswered(t *testing.T) {
	const opens, at, pump, held = "it opens", "the next is drawn at once", "the next is drawn in the next pump", "release says when the next is drawn"
	drawn := []string{"crm", "erp"}
	for _, c := range []struct {
		name string
		r    promotion.Result
		want string
	}{
		{"promoted", promotion.Result{Status: promotion.Promoted}, opens},
		{"demoted", promotion.Result{Status: promotion.Demoted}, opens},
		{"evidence was kept", promotion.Result{Status: promotion.Kept}, opens},
		{"it knows nothing", promotion.Result{Status: promotion.Unclear}, opens},
		{"it can never answer, which is no outage", promotion.Result{Status: promotion.Misconfigured}, opens},
		{"one of the two answered", promotion.Result{Status: promotion.Down, Behind: drawn[:1], Alone: true}, opens},
		{"the budget of all is spent, so the breaker let it pass", promotion.Result{Status: promotion.Deferred, Behind: drawn}, opens},
		{"both refuse still", promotion.Result{Status: promotion.Down, Behind: drawn, Alone: true}, held},
		{"the question failed", promotion.Result{Status: promotion.Down}, pump},
		{"a fault", promotion.Result{}, pump},
		{"nobody was asked", promotion.Result{Status: promotion.NotDue}, at},
		{"the row moved", promotion.Result{Status: promotion.Moved}, at},
		{"nobody can be asked", promotion.Result{Status: promotion.Parked}, at},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &Queue{avoids: map[string]time.Time{backlog(drawn): time.Now()}}
				if s, ok := q.draws(); !ok || s != backlog(drawn) {
					t.Fatal("it does not draw")
				}
				<-time.After(tokenTimeout / 2)
				if _, ok := q.draws(); ok {
					t.Fatal("two are drawn at once")
				}
				q.drew(backlog(drawn), c.r)
				if c.want == held {
					q.avoid(backlog(drawn), time.Now().Add(time.Hour))
				}
				until, avoids := q.avoids[backlog(drawn)]
				if got := map[bool]string{true: map[time.Duration]string{0: at, pumpEvery: pump, time.Hour: held}[time.Until(until)], false: opens}[avoids]; got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		})
	}
}

// hold compares the keys in Redis with the model.
func (m *model) hold(t *rapid.T, q *Queue) {
	ctx := context.Background()
	at := map[memory.ID]string{}
	note := func(key, place string) {
		rows, err := q.redis.ZRange(ctx, key, 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range rows {
			if at[memory.ID(id)] != "" {
				t.Fatalf("%s is in two sets", id)
			}
			at[memory.ID(id)] = place
		}
	}
	note(q.waiting, "waiting")
	note(q.claimed, "claimed")
	note(q.later, "later")
	backlogs, err := q.redis.Keys(ctx, q.behind+":*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range backlogs {
		name := strings.TrimPrefix(key, q.behind+":")
		source, err := onBacklog(name)
		if known := q.redis.HExists(ctx, q.closed, name).Val(); err != nil || !known {
			t.Fatalf("the backlog %s is not listed: %v", name, err)
		}
		note(key, strings.Join(source, "|"))
	}
	if !maps.Equal(at, m.at) {
		t.Fatalf("rows are at\n%v, want\n%v", at, m.at)
	}
	if yields := q.redis.HGetAll(ctx, q.yields).Val(); len(yields) != len(m.yields) {
		t.Fatalf("%v yield, want %v", yields, m.yields)
	}
	placed, ordered := q.redis.HGetAll(ctx, q.behind).Val(), q.redis.HGetAll(ctx, q.order).Val()
	var waiting, claimed, later int64
	for id, at := range m.at {
		on, onBacklog := placed[string(id)]
		_, apart := ordered[string(id)]
		if away := at == "claimed" || at == "later"; away != apart || onBacklog && on != backlogOf(at) || onBacklog != (!away && at != "waiting") {
			t.Fatalf("%s is %s: its order is kept apart: %t, its backlog is %q", id, at, apart, on)
		}
		switch {
		case at == "claimed":
			claimed++
		case at == "later" || m.closed[at] || m.noted[at]:
			later++
		default:
			waiting++
		}
	}
	if len(placed)+len(ordered) > len(m.at) {
		t.Fatalf("of rows that are gone something is left: %v %v", placed, ordered)
	}
	s, err := q.count(ctx)
	if n, want := []int64{s.Waiting, s.Claimed, s.Later}, []int64{waiting, claimed, later}; err != nil || !slices.Equal(n, want) {
		t.Fatalf("waiting, claimed and later are %v, want %v (%v)", n, want, err)
	}
	for _, backlog := range s.Backlogs {
		source := strings.Join(backlog.Verifiers, "|")
		closed, noted := m.closed[source], m.noted[source]
		if (backlog.Closed > 50*time.Minute) != (closed || noted) || (backlog.Closed > 0) != (closed || noted) || backlog.Alone != (noted && !closed) {
			t.Fatalf("%+v; it is closed for all: %t, for one: %t", backlog, closed, noted)
		}
	}
}

func backlogOf(source string) string { return backlog(strings.Split(source, "|")) }

// draws says from which backlog a worker drew, and notes that it draws from it no more for
// now: for a pump, which is an hour here.
func (m *model) draws(worker int, q *Queue) (source string, drew bool) {
	for s, shut := range m.avoids[worker] {
		if !shut && q.avoids[backlogOf(s)].After(time.Now()) { // or nothing was there: for a pump
			q.avoids[backlogOf(s)] = time.Now().Add(time.Hour)
			m.avoids[worker][s] = true
			return s, true
		}
	}
	return "", false
}

func (m *model) source(backlog string, sources []string) string {
	return sources[slices.IndexFunc(sources, func(s string) bool { return backlogOf(s) == backlog })]
}
