package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
)

// inDoubt is the decision that let a held call, or the same call before it, through and of
// which nobody knows how that ended; "" if there is none.
func inDoubt(h *memory.Hold) string {
	if h.State == memory.HoldFired || h.State == memory.HoldUnknown {
		return h.Fired
	}
	return h.Unknown()
}

// settleCommand is no command until one of the two words is chosen: a shell takes a bar for a pipe.
func settleCommand(decision string) string {
	return "hearsay call settle " + decision + " --done/--not-done --key FILE --as NAME --reason TEXT"
}

// askAnew finds the call of a run that has ended when it is asked for in another run.
func askAnew(tool string) string { return "hearsay call list --tool " + word(tool) }

// unsettledCall is a call that was let through without a hold, as a held one is shown. ok
// is false if the record is not one of a gate, or is of a call that was held.
func unsettledCall(d *memory.DecisionRecord, now time.Time) (h memory.Hold, ok bool) {
	var said struct {
		BlockID     string        `json:"block_id"`
		Agent       string        `json:"agent"`
		Principal   string        `json:"principal"`
		Effect      string        `json:"effect"`
		BlastRadius string        `json:"blast_radius"`
		Policy      string        `json:"policy"`
		ArgsSHA256  memory.Digest `json:"args_sha256"`
		Schema      memory.Digest `json:"tool_schema"`
		Binding     memory.Digest `json:"binding"`
	}
	if json.Unmarshal(d.Data, &said) != nil || said.BlockID != d.ID {
		return h, false
	}
	return memory.Hold{ID: d.ID, Fired: d.ID, Slot: d.Slot, Binding: said.Binding, State: d.StateAt(now), Tool: d.Tool, Effect: said.Effect, BlastRadius: said.BlastRadius,
		Agent: said.Agent, Run: d.Run, Principal: said.Principal, ArgsSHA256: said.ArgsSHA256, Schema: said.Schema, Policy: said.Policy, Epoch: d.Epoch, Rows: d.Rows,
		AtFault: []memory.ID{}, Codes: []string{string(gate.OutcomeUnknown)}, OpenedAt: d.At, ExpiresAt: d.At, Tries: 1, By: "gate", Why: "let through", At: d.At}, true
}

// withUnsettled adds to the held calls those that were let through without a hold and of
// which nobody knows how they ended, newest first.
func withUnsettled(ctx context.Context, s *memory.Store, calls []callJSON, tool string, row memory.ID, now time.Time) ([]callJSON, error) {
	for d, err := range s.UnsettledCalls(ctx) {
		if errors.Is(err, memory.ErrDamaged) {
			continue // audit verify names it
		}
		if err != nil {
			return nil, err
		}
		h, ok := unsettledCall(&d, now)
		if !ok || tool != "" && h.Tool != tool || row != "" && !slices.ContainsFunc(h.Rows, func(c memory.Cited) bool { return c.Row == row }) {
			continue
		}
		calls = append(calls, callOf(&h, now))
	}
	slices.SortStableFunc(calls, func(a, b callJSON) int { return cmp.Compare(b.OpenedAt.UnixNano(), a.OpenedAt.UnixNano()) })
	return calls, nil
}

// settledJSON is the output of call settle.
type settledJSON struct {
	Schema string           `json:"schema"` // hearsay.settled/1
	Verb   string           `json:"verb"`   // done or not-done
	ID     string           `json:"id"`     // of the decision that let the call through
	Tool   string           `json:"tool"`
	Run    string           `json:"run"`
	State  memory.HoldState `json:"state"` // done or failed
	By     string           `json:"by"`
}

func (a *app) callSettleCommand(store *storeFlags) *cobra.Command {
	var (
		f             callStatementFlags
		done, notDone bool
	)
	cmd := &cobra.Command{
		Use:   "settle ID --done|--not-done",
		Short: "Say whether a call was done of which nobody knows, signed with your key",
		Long: `A call that changes something and has no recorded outcome may have been done: its
process died, its tool gave no answer, or the store was lost. Until it is known, the same
call of its run is held, and of every run if it cannot be undone. Look at the system that
the tool changes, then settle it.

  --done      it was done. A call that waits for this is refused in your words. If it
              cannot be undone, the same call of any run is held for a day as done already,
              so that a program which starts again does not do it twice.
  --not-done  it was not done. The same call is decided afresh, and may be made. Not within
              five minutes of a call that may still be at work.

ID is that of the call, or of one that is held for it. A call whose record was erased is
settled while one is held for it. The statement is signed with your
key, whose scope has to reach calls of the tool (call:TOOL). Exit code 4 if it is known
how the call ended, or too early to say.

With -o json: {"schema": "hearsay.settled/1", "verb", "id", "tool", "run", "state", "by"}.`,
		Example: "  hearsay call settle -store sqlite:agent.db blk_… --not-done --key ana.key --as ana \\\n      -trusted-keys trusted-keys --reason \"no such booking in the hotel's list\"",
		Args:    args("ID"),
	}
	o := outputFlag(cmd)
	cmd.Flags().BoolVar(&done, "done", false, "the call was done")
	cmd.Flags().BoolVar(&notDone, "not-done", false, "the call was not done")
	cmd.Flags().StringVar(&f.key, "key", "", "your private key, as keygen wrote it")
	cmd.Flags().StringVar(&f.as, "as", "", "the principal you speak as")
	cmd.Flags().StringVar(&f.reason, "reason", "", "how you know; of --done, what the model is told")
	cmd.Flags().StringVar(&f.trusted, "trusted-keys", "", "file of trusted public keys (or HEARSAY_TRUSTED_KEYS)")
	cmd.RunE = func(cmd *cobra.Command, got []string) error {
		if done == notDone {
			return usage("want one of --done and --not-done")
		}
		verb := confirm.NotDone
		if done {
			verb = confirm.Done
		}
		said, err := a.settleCall(cmd.Context(), store, verb, &f, got[0])
		if err != nil {
			return err
		}
		if *o == asJSON {
			return a.emit(said)
		}
		c := card{}
		fmt.Fprintf(&c, "%s  %s\n", oneLine(said.Tool, maxName), said.Verb)
		c.line("id", "%s", said.ID)
		c.line("settled", "by %s", oneLine(said.By, maxName))
		if done {
			c.line("the same call", "is refused in your words where it waits; if it cannot be undone, it is held for a day in every run")
		} else {
			c.line("the same call", "is decided afresh when it is asked for again")
		}
		return a.write(c.String())
	}
	return cmd
}

// settleCall signs how a call ended, and applies it.
func (a *app) settleCall(ctx context.Context, store *storeFlags, verb confirm.CallVerb, f *callStatementFlags, arg string) (settledJSON, error) {
	keyring, key, err := a.speaker(f.key, f.as, f.trusted, f.reason, "settle a call")
	if err != nil {
		return settledJSON{}, err
	}
	s, err := a.open(ctx, store, &memory.Options{Authority: keyring.Authority})
	if err != nil {
		return settledJSON{}, err
	}
	defer s.Close()
	said := settledJSON{Schema: "hearsay.settled/1", Verb: verb.String(), By: f.as}
	h, d, ok, err := held(ctx, s, arg)
	if errors.Is(err, memory.ErrErased) {
		h, ok, err = waitsFor(ctx, s, arg, err)
	}
	if err != nil {
		return settledJSON{}, err
	}
	if ok && !d.Fired { // a decision that let the call through is named; or the hold, or another decision of it
		made := cmp.Or(inDoubt(&h), h.Fired)
		if made == "" {
			return settledJSON{}, fail(exitNo, "call %s was not made: there is no outcome to settle", h.ID).with("hearsay call list --fired lists the calls that were made.")
		}
		d, err = s.Decision(ctx, made)
	}
	var statement confirm.CallStatement
	switch {
	case errors.Is(err, memory.ErrErased): // the hold says which call it was
		said.Tool, said.Run = h.Tool, h.Run
		statement = confirm.NewCall(verb, &h, s.Tenant(), f.as, f.reason, s.Now(), statementValidity)
	case err != nil:
		return settledJSON{}, err
	case !d.Fired:
		return settledJSON{}, fail(exitNo, "decision %s let no call through", d.ID)
	default:
		said.Tool, said.Run = d.Tool, d.Run
		if statement, err = confirm.NewSettlement(verb, &d, s.Tenant(), f.as, f.reason, s.Now(), statementValidity); err != nil {
			return settledJSON{}, err
		}
	}
	signed, err := confirm.SignCall(key, statement)
	if err != nil {
		return settledJSON{}, err
	}
	res, err := confirm.ApplyCall(ctx, s, keyring, signed)
	if err != nil {
		return settledJSON{}, err
	}
	said.ID, said.State = res.Call, res.State
	return said, nil
}

// waitsFor is a held call that waits for one whose record was erased. Without one nobody can
// tell which call that was, and the error is the one that was met.
func waitsFor(ctx context.Context, s *memory.Store, decision string, erased error) (memory.Hold, bool, error) {
	for h, err := range s.HeldCalls(ctx, memory.HoldFilter{Open: true}) {
		if errors.Is(err, memory.ErrDamaged) {
			continue
		}
		if err != nil {
			return h, false, err
		}
		if strings.TrimPrefix(h.Unknown(), "blk_") == strings.TrimPrefix(decision, "blk_") {
			return h, true, nil
		}
	}
	return memory.Hold{}, false, fail(exitNo, "%w; it can be settled once the same call is asked for again and waits", erased)
}
