package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// scene is where an operation is played.
type scene struct {
	ctx   context.Context
	p     *plan
	s     *memory.Store // whose calls the plan counts
	plain *memory.Store // the same, unseen by the plan
	ring  *keyring.Ring
	key   *audit.Key // of checkpoints

	driver memory.Driver // of both
	tenant string
	ledger memory.Witness
}

// operation is something that a store is asked to do and that may go wrong.
type operation struct {
	name  string
	setup func(x *scene) error // acknowledged before
	act   func(x *scene) error
	again func(x *scene) error // after it went wrong, whatever of it was done; nil = act
	done  func(x *scene) error // asks that it is
	// between is in how many states that can be told apart the store is on the way from
	// before to after: 0 for what is one transaction.
	between int
	// behind says that until it is done the store lacks what its witness has.
	behind bool
}

var dump = memory.ImportSource{Name: "elsewhere", Dump: "dump 1", Actor: "importer"}

func says(subject, predicate, object string) memory.Content {
	return memory.Content{Subject: subject, Predicate: predicate, Object: object, Cardinality: memory.CardinalityFunctional}
}

func evidence(rank memory.Rank, group string, relation memory.Relation) memory.Evidence {
	return memory.Evidence{Relation: relation, Rank: rank, Source: group, Verifier: "verifier", Group: group, Anchor: memory.Anchor{URI: "test:" + group}, At: time.Now()}
}

func byModel(c memory.Content, from ...memory.ID) memory.Draft {
	return memory.Draft{Content: c, Origin: memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
		Asserter: memory.Asserter{Principal: "ana", Model: "Sonnet", Family: "claude"}, DerivedFrom: from}
}

func byTool(c memory.Content) memory.Draft {
	d := memory.Draft{Content: c, Origin: memory.OriginFirstHand, State: memory.StateVerified, Sensitivity: memory.SensitivityInternal,
		Asserter: memory.Asserter{Principal: "bench", Tool: "crm"}}
	d.Evidence = []memory.Evidence{evidence(memory.RankTool, d.Asserter.Group(), memory.RelationSupports)}
	return d
}

func byUser(c memory.Content) memory.Draft {
	d := memory.Draft{Content: c, Origin: memory.OriginUserAsserted, State: memory.StateVerified, Sensitivity: memory.SensitivityInternal,
		Asserter: memory.Asserter{Principal: "ana"}}
	d.Evidence = []memory.Evidence{evidence(memory.RankUser, "user:ana", memory.RelationSupports)}
	return d
}

var (
	acme  = says("acme", "email", "a@acme.example")
	rival = says("acme", "email", "b@acme.example")
	child = says("invoice 7", "goes to", "a@acme.example")
)

// find is the row with a content.
func (x *scene) find(c memory.Content) (*memory.Row, error) {
	for r, err := range x.plain.Rows(x.ctx, memory.Filter{Claim: c.ClaimKey()}) {
		if err != nil {
			return nil, err
		}
		if r.Content == c {
			return &r, nil
		}
	}
	return nil, fmt.Errorf("no row says %+v", c)
}

// puts writes drafts.
func puts(drafts ...memory.Draft) func(x *scene) error {
	return func(x *scene) error {
		for _, d := range drafts {
			if _, err := x.s.Put(x.ctx, d); err != nil {
				return err
			}
		}
		return nil
	}
}

// of gives an operation on the row with a content.
func of(c memory.Content, do func(x *scene, r *memory.Row) error) func(x *scene) error {
	return func(x *scene) error {
		r, err := x.find(c)
		if err != nil {
			return err
		}
		return do(x, r)
	}
}

// holds asks something of the row with a content.
func holds(c memory.Content, what string, ask func(r *memory.Row) bool) func(x *scene) error {
	return of(c, func(_ *scene, r *memory.Row) error {
		if !ask(r) {
			return fmt.Errorf("after it was done again it does not hold that %s: %+v", what, r.Head)
		}
		return nil
	})
}

func all(steps ...func(x *scene) error) func(x *scene) error {
	return func(x *scene) error {
		for _, step := range steps {
			if err := step(x); err != nil {
				return err
			}
		}
		return nil
	}
}

// at is where an axis of a head is.
func at(h *memory.Head, axis memory.AxisValue) memory.AxisValue {
	switch axis.(type) {
	case memory.Truth:
		return h.Truth
	case memory.Retrieval:
		return h.Retrieval
	case memory.Security:
		return h.Security
	case memory.Freshness:
		return h.Freshness
	}
	return h.Outage
}

// move moves the row with a content to a value of an axis, unless it is there.
func move(c memory.Content, to memory.AxisValue) func(x *scene) error {
	return of(c, func(x *scene, r *memory.Row) error {
		if at(&r.Head, to) == to {
			return nil
		}
		t := memory.Transition{Row: r.ID, Revision: r.Revision, To: to, Actor: "ana", Source: "test", Reason: "asked for"}
		for _, who := range []memory.Authority{memory.AuthoritySystem, memory.AuthorityProbe, memory.AuthorityUser} {
			if memory.Legal(at(&r.Head, to), to, who) {
				t.Authority = who
			}
		}
		if to == memory.AxisValue(memory.TruthSupported) {
			t.Authority, t.Evidence = memory.AuthorityProbe, []memory.Evidence{evidence(memory.RankTool, "tool:crm", memory.RelationSupports)}
		}
		_, err := x.s.Apply(x.ctx, t)
		return err
	})
}

func operations() []operation {
	verified := func(r *memory.Row) bool { return r.State() == memory.StateVerified }
	list := []operation{
		{
			name:  "the first row of a store",
			setup: all(),
			act:   puts(byModel(acme)),
			done:  holds(acme, "it is there", func(r *memory.Row) bool { return r.Revision == 1 }),
		},
		{
			name:  "a row made from another",
			setup: puts(byTool(acme)),
			act:   of(acme, func(x *scene, r *memory.Row) error { return puts(byModel(child, r.ID))(x) }),
			done:  holds(child, "it has a parent", func(r *memory.Row) bool { return len(r.DerivedFrom) == 1 && r.Depth == 1 }),
		},
		{
			name:  "a verified row that displaces another",
			setup: puts(byTool(acme)),
			act:   puts(byUser(rival)),
			done: all(holds(rival, "it is verified", verified),
				holds(acme, "the other one is not", func(r *memory.Row) bool { return r.Truth == memory.TruthContradicted })),
		},
		{
			name:  "a claim that comes back",
			setup: puts(byModel(acme)),
			act:   puts(byModel(acme)),
			done:  holds(acme, "it came back", func(r *memory.Row) bool { return r.Echoes.Count >= 1 && r.Revision == 1 }),
		},
		{
			name:  "a claim that its source says again",
			setup: puts(byTool(acme)),
			act:   puts(byTool(acme)),
			done:  holds(acme, "it is reaffirmed", func(r *memory.Row) bool { return verified(r) && r.Revision >= 2 }),
		},
		{
			name:  "a claim that comes back in other words",
			setup: puts(byModel(acme)),
			act: of(acme, func(x *scene, r *memory.Row) error {
				_, err := x.s.Echo(x.ctx, r.ID, memory.Asserter{Principal: "ana", Model: "Sonnet", Family: "claude"}, "run 1", "mail goes to a@acme.example")
				return err
			}),
			done: holds(acme, "it came back", func(r *memory.Row) bool { return r.Echoes.Reworded >= 1 }),
		},
		{
			name:  "a rejection",
			setup: puts(byTool(acme)),
			act: of(acme, func(x *scene, r *memory.Row) error {
				if r.Rejection != nil {
					return nil
				}
				_, err := x.s.Apply(x.ctx, memory.Transition{Row: r.ID, Revision: r.Revision, To: memory.TruthContradicted, Authority: memory.AuthorityUser, Actor: "ana", Source: "form", Reason: "wrong", Reject: true})
				return err
			}),
			done: holds(acme, "it is rejected", func(r *memory.Row) bool { return r.Rejection != nil && r.Truth == memory.TruthContradicted }),
		},
		{
			name:  "evidence that moves nothing",
			setup: puts(byModel(acme)),
			act: of(acme, func(x *scene, r *memory.Row) error {
				return x.s.AddEvidence(x.ctx, r.ID, "worker", "looked it up", evidence(memory.RankModel, "family:gpt", memory.RelationSupports))
			}),
			done: holds(acme, "it has the evidence once", func(r *memory.Row) bool { return len(r.Evidence) == 1 }),
		},
		{
			name:  "evidence that contests a verified row",
			setup: puts(byTool(acme)),
			act: of(acme, func(x *scene, r *memory.Row) error {
				return x.s.AddEvidence(x.ctx, r.ID, "worker", "looked it up", evidence(memory.RankTool, "tool:erp", memory.RelationContradicts))
			}),
			done: holds(acme, "it is contested", func(r *memory.Row) bool { return len(r.Evidence) == 2 && r.Has(memory.FlagContested) }),
		},
		{
			name:  "heat",
			setup: puts(byModel(acme)),
			act: of(acme, func(x *scene, r *memory.Row) error {
				_, err := x.s.AddHeat(x.ctx, map[memory.ID]float64{r.ID: 1})
				return err
			}),
			done: of(acme, func(x *scene, r *memory.Row) error {
				if mark, ok, err := x.plain.DueMark(x.ctx, r.ID); err != nil || !ok || mark.Heat < 0.9 {
					return fmt.Errorf("the heat is %+v (%w)", mark, err)
				}
				return nil
			}),
		},
		{
			name:  "a row that is parked",
			setup: puts(byModel(acme)),
			act: of(acme, func(x *scene, r *memory.Row) error {
				return x.s.Park(x.ctx, memory.Due{ID: r.ID, Tries: 5}, memory.ParkedUncovered, "the crm does not know")
			}),
			done: of(acme, func(x *scene, r *memory.Row) error {
				n := 0
				for parked, err := range x.plain.ParkedRows(x.ctx) {
					if n++; err != nil || n > 1 || parked.Tries != 5 {
						return fmt.Errorf("number %d of the parked rows is %+v (%w)", n, parked, err)
					}
				}
				if n == 0 {
					return errors.New("no row is parked")
				}
				return nil
			}),
		},
		{
			name:  "a call that fires",
			setup: puts(byTool(acme)),
			act:   record(true),
			done:  decisions(true, 1),
		},
		{
			name:  "a call that is blocked",
			setup: puts(byModel(acme)),
			act:   record(false),
			done:  decisions(false, 1),
		},
		{
			name:  "the outcome of a call",
			setup: all(puts(byTool(acme)), record(true)),
			act: func(x *scene) error {
				list, err := x.plain.Decisions(x.ctx)
				if err != nil || len(list) != 1 {
					return fmt.Errorf("%d decisions (%w)", len(list), err)
				}
				return x.s.RecordOutcome(x.ctx, list[0].ID, memory.CallDone, "")
			},
			done: decisions(true, 1),
		},
		{
			name:  "a call that fires on what is not fit",
			setup: puts(byModel(acme)),
			act:   recordOf(true, memory.OwnWrite{Subject: "order 7", Value: "Oslo"}),
			done:  all(decisions(true, 1), noted("order 7")),
		},
		{
			name:  "what such a call made",
			setup: all(puts(byModel(acme)), recordOf(true, memory.OwnWrite{Subject: "order 7", Value: "Oslo"})),
			act: func(x *scene) error {
				list, err := x.plain.Decisions(x.ctx)
				if err != nil || len(list) != 1 {
					return fmt.Errorf("%d decisions (%w)", len(list), err)
				}
				return x.s.RecordWrites(x.ctx, list[0].ID, []memory.OwnWrite{{Subject: "order 8", Value: "Oslo"}})
			},
			done: all(decisions(true, 1), noted("order 7"), noted("order 8")),
		},
		{
			name:  "a rollback that brings a row back",
			setup: puts(byTool(acme), byUser(rival)),
			act:   rollback(rival),
			done: all(holds(rival, "it is retracted", func(r *memory.Row) bool { return r.Truth == memory.TruthSuperseded }),
				holds(acme, "the other one is back", func(r *memory.Row) bool { return r.Truth == memory.TruthUnverified })),
		},
		{
			name:  "a rollback that brings none back",
			setup: puts(byTool(acme)),
			act:   rollback(acme),
			done:  holds(acme, "it is retracted", func(r *memory.Row) bool { return r.Truth == memory.TruthSuperseded }),
		},
		{
			name:  "a new epoch",
			setup: puts(byTool(acme)),
			act:   func(x *scene) error { return x.s.BumpEpoch(x.ctx, "operator", "the server was restored") },
			done: func(x *scene) error {
				if f, err := x.plain.Fitness(x.ctx, nil); err != nil || f.Epoch == 0 {
					return fmt.Errorf("the epoch is %d (%w)", f.Epoch, err)
				}
				return nil
			},
		},
		{
			name:  "a checkpoint",
			setup: puts(byTool(acme), byModel(child)),
			act: func(x *scene) error {
				m, err := audit.NewMaker(x.s, x.key, "hearsay.example", nil)
				if err == nil {
					_, err = m.Make(x.ctx)
				}
				return err
			},
			done: func(x *scene) error {
				if c, err := x.plain.LastCheckpoint(x.ctx); err != nil || c.Index == 0 || len(c.Leaves) == 0 {
					return fmt.Errorf("the checkpoint is %d (%w)", c.Index, err)
				}
				return nil
			},
		},
		{
			name:  "an import",
			setup: puts(byTool(acme)),
			act: func(x *scene) error {
				i, err := x.s.Importing(x.ctx, dump)
				if err != nil {
					return err
				}
				rows := []memory.Imported{
					{Name: "a", Draft: byModel(says("bolt", "email", "b@bolt.example"))},
					{Name: "b", Draft: byModel(says("parcel 1", "goes to", "b@bolt.example")), DerivedFrom: []string{"a"}},
					{Name: "c", Draft: byModel(acme)},
				}
				out, err := i.Put(x.ctx, rows, func([]memory.ImportReceipt) []byte { return []byte("3") })
				if err != nil {
					return err
				}
				for _, r := range out {
					if r.Err != nil {
						return r.Err
					}
				}
				return i.Finish(x.ctx)
			},
			done:    holds(says("parcel 1", "goes to", "b@bolt.example"), "it has its parent", func(r *memory.Row) bool { return len(r.DerivedFrom) == 1 }),
			between: 1, // the rows with the cursor, and no cursor any more
		},
		{
			name: "an erasure",
			setup: all(puts(byUser(says("eve", "lives in", "Oslo"))),
				of(says("eve", "lives in", "Oslo"), func(x *scene, r *memory.Row) error {
					err := puts(byModel(says("parcel 1", "goes to", "Oslo"), r.ID), byModel(memory.Content{Text: "Eve called about her bill.", Cardinality: memory.CardinalityUnknown}))(x)
					if err != nil {
						return err
					}
					return x.s.Record(x.ctx, memory.DecisionRecord{Epoch: 1, ID: x.s.NewDecisionID(), Tool: "mail", Run: "run 1", Rows: []memory.Cited{{Row: r.ID, Revision: 1}}, Data: []byte(`{"to":"Oslo"}`)})
				}), puts(byTool(acme))),
			act: func(x *scene) error {
				_, err := x.s.Erase(x.ctx, memory.Erasure{Subject: "eve", Request: "R-1", Actor: "dpo"})
				return err
			},
			done: all(decisions(false, 0), holds(acme, "it stays", verified), func(x *scene) error {
				rows, gone := 0, 0
				_, err := x.plain.Verify(x.ctx, nil, func(l *memory.Log) error {
					id, ok := rowID(l.Key)
					if !ok {
						return nil
					}
					rows++
					if _, err := x.plain.Get(x.ctx, id); errors.Is(err, memory.ErrErased) {
						gone++
					}
					return nil
				})
				if err != nil || rows != 4 || gone != 3 {
					return fmt.Errorf("%d of %d rows are erased, want 3 of 4 (%w)", gone, rows, err)
				}
				return nil
			}),
			between: 5, // begun, the classes closed, rows, logs, decisions
		},
		{
			name:  "a rebuild",
			setup: all(puts(byTool(acme), byModel(child), byModel(child), byUser(rival)), record(false)),
			act: func(x *scene) error {
				_, err := x.s.Rebuild(x.ctx, "operator", nil)
				return err
			},
			done:    all(holds(rival, "it is verified", verified), decisions(false, 1)),
			between: 1, // rebuilt, and then the new epoch
		},
		{
			name:  "a compaction",
			setup: all(puts(byModel(acme)), of(acme, many)),
			act: func(x *scene) error {
				_, err := x.s.Compact(x.ctx)
				return err
			},
			done:    holds(acme, "all of it is there", func(r *memory.Row) bool { return r.Echoes.Count == longLog }),
			between: -1, // it says the same all the way
		},
		{
			name:  "a recovery",
			setup: all(puts(byTool(acme)), lose(move(acme, memory.TruthContradicted))),
			act: func(x *scene) error {
				_, err := x.s.Recover(x.ctx, "operator")
				return err
			},
			done: holds(acme, "it is demoted again", func(r *memory.Row) bool {
				return r.Truth == memory.TruthContradicted && r.Retrieval == memory.RetrievalHidden
			}),
			between: 1, // the row, and then the new epoch
			behind:  true,
		},
		{
			name:  "a new audit key",
			setup: puts(byTool(acme)),
			act: func(x *scene) error {
				err := x.p.do(x.ctx, "rotate", true, func() error {
					_, err := x.ring.Rotate(x.ctx)
					return err
				})
				if err != nil {
					return err
				}
				return puts(byModel(child))(x)
			},
			done: holds(child, "it is there", func(r *memory.Row) bool { return r.Revision == 1 }),
		},
	}
	out := byModel(acme)
	out.State = memory.StateUnavailableAtWriteTime
	for _, m := range []struct {
		to   memory.AxisValue
		over memory.AxisValue // on the way there; nil = none
		of   memory.Draft
	}{
		{memory.TruthSupported, nil, byModel(acme)}, {memory.TruthContradicted, nil, byTool(acme)}, {memory.TruthUnverified, nil, byTool(acme)}, {memory.TruthSuperseded, nil, byTool(acme)},
		{memory.RetrievalRestricted, nil, byTool(acme)}, {memory.RetrievalHidden, nil, byTool(acme)}, {memory.RetrievalNormal, memory.RetrievalRestricted, byTool(acme)},
		{memory.RetrievalPrivilegedOnly, nil, byTool(acme)}, {memory.RetrievalBlocked, nil, byTool(acme)},
		{memory.SecuritySuspicious, nil, byTool(acme)}, {memory.SecurityQuarantined, nil, byTool(acme)}, {memory.SecurityMalicious, memory.SecurityQuarantined, byTool(acme)},
		{memory.SecurityClean, memory.SecuritySuspicious, byTool(acme)},
		{memory.FreshnessStale, nil, byTool(acme)}, {memory.FreshnessExpired, memory.FreshnessStale, byTool(acme)}, {memory.FreshnessFresh, memory.FreshnessStale, byTool(acme)},
		{memory.OutageResolved, nil, out},
	} {
		setup := puts(m.of)
		if m.over != nil {
			setup = all(setup, move(acme, m.over))
		}
		list = append(list, operation{
			name:  fmt.Sprintf("a move to %s", m.to),
			setup: setup,
			act:   move(acme, m.to),
			done:  holds(acme, "it moved", func(r *memory.Row) bool { return at(&r.Head, m.to) == m.to }),
		})
	}
	return list
}

// longLog is how many entries a log needs to be packed.
const longLog = 80

// many lets a claim come back often, in one run of an import.
func many(x *scene, r *memory.Row) error {
	for range longLog {
		if _, err := x.s.Put(x.ctx, byModel(r.Content)); err != nil {
			return err
		}
	}
	return nil
}

func record(fired bool) func(x *scene) error { return recordOf(fired) }

// recordOf records a decision of a call that sets what is given.
func recordOf(fired bool, writes ...memory.OwnWrite) func(x *scene) error {
	return of(acme, func(x *scene, r *memory.Row) error {
		if list, err := x.plain.Decisions(x.ctx); err != nil || len(list) > 0 {
			return err // it was recorded
		}
		f, err := x.s.Fitness(x.ctx, []memory.ID{r.ID})
		if err != nil {
			return err
		}
		return x.s.Record(x.ctx, memory.DecisionRecord{ID: x.s.NewDecisionID(), Tool: "mail", Run: "run 1", Fired: fired, Epoch: f.Epoch,
			Rows: []memory.Cited{{Row: r.ID, Revision: f.Heads[0].Revision, Class: f.Heads[0].Class}}, Data: []byte(`{"to":"acme"}`), Writes: writes})
	})
}

// noted asks that a call set the city of a subject to Oslo.
func noted(subject string) func(x *scene) error {
	return func(x *scene) error {
		marks, err := x.plain.MarkLines(x.ctx, memory.Content{Subject: subject, Predicate: "city"})
		if err != nil {
			return err
		}
		if _, _, ours := marks[0].OwnWrite("city", "Oslo"); !ours {
			return fmt.Errorf("what was set of %s is not noted", subject)
		}
		return nil
	}
}

func decisions(fired bool, want int) func(x *scene) error {
	return func(x *scene) error {
		list, err := x.plain.Decisions(x.ctx)
		if err != nil || len(list) != want || want > 0 && list[0].Fired != fired {
			return fmt.Errorf("%d decisions, want %d (%w)", len(list), want, err)
		}
		return nil
	}
}

func rollback(c memory.Content) func(x *scene) error {
	return of(c, func(x *scene, r *memory.Row) error {
		if r.Truth == memory.TruthSuperseded {
			return nil
		}
		_, err := x.s.Rollback(x.ctx, memory.Rollback{Row: r.ID, Revision: r.Revision, Authority: memory.AuthorityPolicy, Actor: "operator", Reason: "a wrong import"})
		return err
	})
}

// lose has the store do something and then lose it, as a server does that is put back
// to an older copy. The witness keeps it.
func lose(do func(x *scene) error) func(x *scene) error {
	return func(x *scene) error {
		d := &remembering{Driver: x.driver}
		s, err := memory.New(d, x.ring, &memory.Options{Tenant: x.tenant, Authority: anybody, Witness: x.ledger})
		if err != nil {
			return err
		}
		y := *x
		y.s = s
		if err := do(&y); err != nil {
			return err
		}
		if len(d.undo) == 0 {
			return errors.New("nothing was written that could be lost")
		}
		for i := len(d.undo) - 1; i >= 0; i-- {
			if err := d.undo[i](x.ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// remembering is a driver that knows how to take back what was written with it.
type remembering struct {
	memory.Driver
	undo []func(ctx context.Context) error
}

func (d *remembering) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	keys := make([]string, len(b.Puts))
	for i, p := range b.Puts {
		keys[i] = p.Key
	}
	was, err := d.Get(ctx, tenant, keys)
	if err != nil {
		return err
	}
	terms := map[string][]memory.Term{}
	for o, err := range d.Objects(ctx, tenant, "") {
		if err != nil {
			return err
		}
		terms[o.Key] = o.Terms
	}
	if err := d.Driver.Apply(ctx, tenant, b); err != nil {
		return err
	}
	d.undo = append(d.undo, func(ctx context.Context) error {
		var back []memory.Restored
		for i, p := range b.Puts {
			back = append(back, memory.Restored{Object: was[i], Terms: terms[p.Key]})
			if p.Entry == nil {
				continue
			}
			log, err := d.History(ctx, tenant, p.Key, p.From, 1)
			if err != nil {
				return err
			}
			if len(log) == 0 {
				return fmt.Errorf("%q has no entry to take back", p.Key)
			}
			gone := memory.Rewritten{LogEntry: memory.LogEntry{Revision: log[0].Revision}, Was: log[0].Data}
			if err := d.Rewrite(ctx, tenant, p.Key, []memory.Rewritten{gone}); err != nil {
				return err
			}
		}
		return d.Restore(ctx, tenant, back)
	})
	return nil
}
