package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// byHand is the head of a row that a person endorsed.
func byHand(name string) memory.Head {
	h := verified(name)
	h.Rank = memory.RankUser
	return h
}

// TestI7APermitEndsWithTheRowThatNamedItsTool: a row that vouches for nothing but the
// choice of the tool is a limit of the permit as any other is.
func TestI7APermitEndsWithTheRowThatNamedItsTool(t *testing.T) {
	names := byHand("names")
	names.ExpiresAt = clock0.Add(time.Minute)
	for name, req := range map[string]gate.Request{
		"a call that changes nothing": {Contract: gate.Contract{Tool: "look", Effect: gate.ReadOnly, Named: true}},
		"a call judged by its sinks": {Contract: gate.Contract{Tool: "pay", Effect: gate.StateChanging, Named: true, Precision: gate.TypedSinks,
			Sinks: []string{"/to"}, Kinds: map[string]gate.Kind{"/to": gate.KindAccount}},
			Args: []byte(`{"to":"ACME"}`), Sinks: []gate.Sink{{Pointer: "/to", Value: "ACME", Source: gate.SourcePrincipal}}},
	} {
		t.Run(name, func(t *testing.T) {
			req.Lineage, req.Choice = gate.Known([]memory.ID{names.ID}, nil), gate.Sink{Source: gate.SourceRow, Row: names.ID}
			f := newFake(names)
			if d := newGate(t, f, declared(), nil).Decide(t.Context(), req); d.Blocked() || !f.records[0].NotAfter.Equal(names.ExpiresAt) {
				t.Errorf("%v, the record ends at %v", d.Err(), f.records[0].NotAfter)
			}
		})
	}
}

// TestASinkWithinAnotherIsHeldToTheStricterOfBoth: what selects does so wherever it is.
func TestASinkWithinAnotherIsHeldToTheStricterOfBoth(t *testing.T) {
	for _, sinks := range [][]string{{"/to", "/to/id"}, {"/to/id", "/to"}} {
		req := gate.Request{Contract: gate.Contract{Tool: "delete", Effect: gate.StateChanging, Precision: gate.TypedSinks, Sinks: sinks,
			Kinds: map[string]gate.Kind{"/to": gate.KindName, "/to/id": gate.KindObjectID}},
			Sinks: []gate.Sink{{Pointer: "/to/id", Value: "file-13", Source: gate.SourceRow, Row: id("says")}}, Lineage: gate.Known([]memory.ID{id("says"), id("other")}, nil)}
		p := declared()
		if d := p.Evaluate(&req, memory.Fitness{Now: clock0, Heads: []memory.Head{verified("says"), unverified("other")}}); !d.Blocked() || d.Precision != gate.WholeRun {
			t.Errorf("%v: a row that nobody endorsed chose the object: %v", sinks, d.Err())
		}
	}
}

// approved is a store in which a person has approved the last call that was held.
type approved struct {
	*fake
	hold *memory.Hold
}

func (a *approved) Standing(context.Context, memory.Digest) (memory.Standing, error) {
	return memory.Standing{Revision: 1, Hold: a.hold}, nil
}

// grants is what she signed.
type grants struct{ memory.Grant }

func (g grants) OpenGrant([]byte) (memory.Grant, error) { return g.Grant, nil }

// ask holds a call, has it approved by somebody, and decides it again after a change.
func (a *approved) ask(t *testing.T, req gate.Request, by string, change func(*gate.Request)) gate.Decision {
	t.Helper()
	if d := newGate(t, a.fake, declared(), nil).Decide(t.Context(), req); d.Outcome != gate.Hold {
		t.Fatal(d.Err())
	}
	h := *a.records[0].Call.Hold
	h.State, h.Round, h.Revision, h.Grant, h.GrantEnds = memory.HoldGranted, 1, 2, []byte("{}"), h.ExpiresAt
	a.hold = &h
	change(&req)
	return newGate(t, a, declared(), &gate.Options{Approvals: grants{memory.Grant{Hold: h.ID, Binding: h.Binding, Tool: h.Tool, Principal: by, Expires: h.ExpiresAt}}}).Decide(t.Context(), req)
}

// TestAnApprovalIsOfWhatStoodAgainstTheCall: it lets nothing through that the person
// was not shown, and not past the time of rows that she was not asked about.
func TestAnApprovalIsOfWhatStoodAgainstTheCall(t *testing.T) {
	short := verified("short")
	short.ExpiresAt = clock0.Add(time.Minute)
	fresh := func() *approved { return &approved{fake: newFake(unverified("guess"), short)} }
	req := mail(id("guess"), id("short"))
	t.Run("it ends with the rows that were fit", func(t *testing.T) {
		a := fresh()
		d := a.ask(t, req, "cleo", func(*gate.Request) {})
		if last := a.records[len(a.records)-1]; d.Blocked() || d.Approval == nil || !last.NotAfter.Equal(short.ExpiresAt) {
			t.Errorf("%v, the record ends at %v", d.Err(), last.NotAfter)
		}
	})
	t.Run("a row that time has made unfit since was not approved", func(t *testing.T) {
		a := fresh()
		d := a.ask(t, req, "cleo", func(*gate.Request) {
			h := a.heads[short.ID]
			h.ExpiresAt = clock0 // at the same revision: as if the clock had moved
			a.heads[short.ID] = h
		})
		if !d.Blocked() || !errors.Is(d.Err(), gate.ErrApprovalStale) {
			t.Errorf("%v", d.Err())
		}
	})
	t.Run("an argument that comes from nowhere now was not approved", func(t *testing.T) {
		if d := fresh().ask(t, req, "cleo", func(r *gate.Request) { r.Sinks = nil }); !d.Blocked() || !errors.Is(d.Err(), gate.ErrApprovalStale) {
			t.Errorf("%v", d.Err())
		}
	})
	t.Run("nor under the same name in other bytes", func(t *testing.T) {
		req := req
		req.Agent = "andr\u00e9"
		if d := fresh().ask(t, req, "andre\u0301", func(*gate.Request) {}); !d.Blocked() || !errors.Is(d.Err(), gate.ErrApprovalForeign) {
			t.Errorf("%v", d.Err())
		}
	})
	t.Run("who asks does not approve, wherever the grant came from", func(t *testing.T) {
		if d := fresh().ask(t, req, req.Agent, func(*gate.Request) {}); !d.Blocked() || !errors.Is(d.Err(), gate.ErrApprovalForeign) {
			t.Errorf("%v", d.Err())
		}
	})
}

// TestI7ThePermitRecordBindsWhatItWasGivenFor: the record of a permit has the schema of
// the tool and one digest that no change of what it is bound to leaves alone.
func TestI7ThePermitRecordBindsWhatItWasGivenFor(t *testing.T) {
	type bound struct {
		Schema  memory.Digest `json:"tool_schema"`
		Binding memory.Digest `json:"binding"`
	}
	permit := func(req gate.Request, p gate.Policy, h memory.Head, epoch uint64) bound {
		t.Helper()
		f := newFake(h)
		f.fitness = func(_ context.Context, _ []memory.ID, fit memory.Fitness) (memory.Fitness, error) {
			fit.Epoch = epoch
			return fit, nil
		}
		d := newGate(t, f, p, nil).Decide(t.Context(), req)
		var b bound
		if d.Blocked() || json.Unmarshal(f.records[0].Data, &b) != nil || b.Binding.IsZero() || b.Binding != d.Binding || b.Schema != d.Schema {
			t.Fatalf("%v, recorded %s", d.Err(), f.records[0].Data)
		}
		return b
	}
	row := verified("row")
	req := mail(row.ID)
	req.Contract.Schema = [32]byte{5}
	first := permit(req, declared(), row, 7)
	if first.Schema != (memory.Digest{5}) || first != permit(req, declared(), row, 7) {
		t.Errorf("%+v", first)
	}
	for what, change := range map[string]func(*gate.Request, *gate.Policy, *memory.Head, *uint64){
		"tool": func(r *gate.Request, _ *gate.Policy, _ *memory.Head, _ *uint64) { r.Contract.Tool = "send_email2" },
		"arguments": func(r *gate.Request, _ *gate.Policy, _ *memory.Head, _ *uint64) {
			r.Args = []byte(`{"to":"ops@acme.example"}`)
		},
		"schema":    func(r *gate.Request, _ *gate.Policy, _ *memory.Head, _ *uint64) { r.Contract.Schema[0]++ },
		"agent":     func(r *gate.Request, _ *gate.Policy, _ *memory.Head, _ *uint64) { r.Agent, r.Run = "a", "b" },
		"run":       func(r *gate.Request, _ *gate.Policy, _ *memory.Head, _ *uint64) { r.Agent, r.Run = "ab", "" },
		"principal": func(r *gate.Request, _ *gate.Policy, _ *memory.Head, _ *uint64) { r.Principal = "ben" },
		"policy": func(_ *gate.Request, p *gate.Policy, _ *memory.Head, _ *uint64) {
			p.Tools = map[string]gate.Rule{"x": {Never: true}}
		},
		"version":    func(_ *gate.Request, p *gate.Policy, _ *memory.Head, _ *uint64) { p.Version = "8" },
		"revision":   func(_ *gate.Request, _ *gate.Policy, h *memory.Head, _ *uint64) { h.Revision++ },
		"commitment": func(_ *gate.Request, _ *gate.Policy, h *memory.Head, _ *uint64) { h.Commitment[0]++ },
		"epoch":      func(_ *gate.Request, _ *gate.Policy, _ *memory.Head, e *uint64) { *e++ },
	} {
		r, p, h, epoch := req, declared(), row, uint64(7)
		change(&r, &p, &h, &epoch)
		if permit(r, p, h, epoch).Binding == first.Binding {
			t.Errorf("another %s is the same permit", what)
		}
	}
	t.Run("on an approval it is what was signed", func(t *testing.T) {
		a := &approved{fake: newFake(unverified("row"))}
		if d := a.ask(t, req, "cleo", func(*gate.Request) {}); d.Blocked() || d.Binding != a.hold.Binding {
			t.Errorf("%v: %s, signed %s", d.Err(), d.Binding, a.hold.Binding)
		}
	})
	t.Run("a block has none", func(t *testing.T) {
		if d := newGate(t, newFake(unverified("row")), declared(), nil).Decide(t.Context(), req); !d.Blocked() || !d.Binding.IsZero() {
			t.Errorf("%+v", d)
		}
	})
}
