package gate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Calls is what a gate needs of a store to keep held calls; [*memory.Store] is one.
type Calls interface {
	// Standing must read what became of a call before.
	Standing(ctx context.Context, slot memory.Digest) (memory.Standing, error)
	// Granted must list the approved calls of a tool that were not made yet.
	Granted(ctx context.Context, tool string, limit int) ([]memory.Hold, error)
}

// Holds is what waiting for a held call needs of a store; [*memory.Store] is one.
type Holds interface {
	Tried
	// Hold must return the hold with an id, or [memory.ErrNotFound].
	Hold(ctx context.Context, id string) (memory.Hold, error)
}

// Approvals tells a grant that a person signed from one that nobody did. The
// keyring of package gate/confirm is one; it holds public keys only, from the
// configuration that the program was started with.
type Approvals interface {
	// OpenGrant must verify the signature, and that the signer may approve calls of
	// the tool, and return what she signed. It must not look at anything else: the
	// gate itself asks whether the grant is for this call, now.
	OpenGrant(signed []byte) (memory.Grant, error)
}

// ParkedDenied is how [memory.Hold.Why] begins of a hold whose parked call was denied. The id
// of the denial and its code follow.
const ParkedDenied = "its parked call was denied by "

// DefaultParkFor is how long a parked call waits to fire by itself.
const DefaultParkFor = 15 * time.Minute

// Approval is the grant that a call fired on.
type Approval struct {
	Hold string    `json:"hold"`
	By   string    `json:"by"`
	Ends time.Time `json:"ends"`
}

// hash collects parts, each with its length before it, so that no two lists of
// parts run together.
type hash struct{ b []byte }

func (h *hash) add(part string) {
	h.b = binary.BigEndian.AppendUint64(h.b, uint64(len(part)))
	h.b = append(h.b, part...)
}

func (h *hash) sum() memory.Digest { return sha256.Sum256(h.b) }

// named is the tool's name where it is.
func (c *Contract) named() string { return cmp.Or(c.AtServer, c.Tool) }

// slotOf stands for the call: what is asked for, by whom and for whom, whatever the run calls
// the tool. Two calls whose declared identity is equal are one call.
func slotOf(req *Request) memory.Digest {
	h := hash{make([]byte, 0, 512)}
	run := req.Run
	if req.SentBy != "" {
		run = "sent by " + req.SentBy
	}
	for _, part := range [...]string{"hearsay/call/1", req.Contract.Server, req.Contract.named(), string(req.Contract.SameCall(req.Args)), req.Agent, run, req.Principal} {
		h.add(part)
	}
	return h.sum()
}

// actOf stands for what is done if the call is made, whichever run asks for it, and
// whatever the run calls the tool.
func actOf(req *Request) memory.Digest {
	h := hash{make([]byte, 0, 512)}
	for _, part := range [...]string{"hearsay/act/1", req.Contract.Server, req.Contract.named(), string(req.Contract.SameCall(req.Args)), req.Agent, req.Principal} {
		h.add(part)
	}
	return h.sum()
}

// binding stands for all that a permit of the call is bound to, and for what stands
// against the call: nobody approves what she was not shown. That the outcome of an
// earlier call is unknown can only pass, so it is left out.
func (g *Gate) binding(slot memory.Digest, req *Request, f memory.Fitness, against []Reason) memory.Digest {
	h := hash{make([]byte, 0, 256+96*len(f.Heads))}
	h.add("hearsay/binding/1")
	h.add(string(slot[:]))
	if len(req.Contract.Identity) > 0 { // else the slot stands for all of them
		h.add(string(req.Args))
	}
	h.add(g.label)
	h.add(string(g.rules[:]))
	h.add(string(req.Contract.Schema[:]))
	h.add(strconv.FormatUint(f.Epoch, 10))
	for i := range f.Heads {
		r := &f.Heads[i]
		h.add(string(r.ID))
		h.add(strconv.FormatUint(r.Revision, 10))
		h.add(string(r.Commitment[:]))
	}
	for i := range against {
		if r := &against[i]; r.Outcome != Permit && r.Code != OutcomeUnknown {
			h.add("against")
			h.add(string(r.Code))
			h.add(string(r.Row))
			h.add(r.Argument)
		}
	}
	return h.sum()
}

// rulesOf is a digest of a policy, so that an edited policy of the same version is
// another one.
func rulesOf(p *Policy) memory.Digest {
	b, err := json.Marshal(p)
	if err != nil { // what cannot be written down is known by its version
		b = []byte(p.String())
	}
	return sha256.Sum256(b)
}

// stand settles a judged call with what became of it before: it opens a hold or
// attaches the call to an open one, lets it through on a grant, or refuses it. The
// step it returns belongs into the transaction that records the decision; nil = none.
//
// A call that is permitted is presumed to have no standing, which its transaction checks;
// look says that it has one.
func (g *Gate) stand(ctx context.Context, d *Decision, req *Request, f memory.Fitness, look bool) (*memory.CallStep, error) {
	if d.Fault || (d.Has(ArgumentsInvalid) || req.Contract.Unknown) && req.Resumes == "" {
		return nil, nil
	}
	if d.Effect == ReadOnly && d.Outcome == Permit && req.Resumes == "" {
		return nil, nil // it may be repeated at will
	}
	s := &standing{g: g, d: d, req: req, f: f, step: &memory.CallStep{Slot: slotOf(req)}}
	s.step.Track = d.Effect != ReadOnly
	if d.Effect == Irreversible {
		s.step.Once = !slices.Contains(d.Loosened, repeatable)
		s.step.Act, s.step.ActSeen, s.step.ActDone, s.step.ActSettled, s.made = actOf(req), f.Act.Revision, f.Act.Done, f.Act.Settled, f.Act
	}
	// What a person said of a call of another run stands as long as her refusal of one would.
	settled := s.step.Once && s.made.Done != "" && f.Now.Sub(s.made.Settled) < memory.RejectedFor
	if req.Within && d.Effect != ReadOnly {
		s.block(Reason{Code: NestedCall})
		if req.Resumes == "" {
			return nil, nil
		}
	}
	if req.Resumes == "" {
		switch {
		case d.Outcome == Permit && !look && s.made.Decision == "" && !settled:
			return s.step, nil
		case d.Outcome == Deny: // it is not held, and the model is told all the same
			if at, err := g.store.Standing(ctx, s.step.Slot); err == nil && d.Effect != ReadOnly {
				if prior := cmp.Or(s.made.Decision, at.Prior); prior != "" {
					d.add(Reason{Code: OutcomeUnknown, Detail: prior})
				}
				if s.step.Once {
					s.done = at
				}
				if s.done.Done == "" && settled {
					s.done = settledBefore(&s.made)
				}
				if s.done.Done != "" {
					d.add(s.alreadyDone())
				}
				order(d.Reasons)
			}
			return nil, nil
		}
	}
	at, err := g.store.Standing(ctx, s.step.Slot)
	if err != nil {
		return nil, fmt.Errorf("gate: the held calls could not be read: %w", err)
	}
	s.step.Seen, s.before, s.own, s.prior, s.priorAt = at.Revision, at.Hold, at.Prior, at.Prior, at.PriorAt
	if s.step.Once {
		s.done = at
	}
	if s.done.Done == "" && settled {
		s.done = settledBefore(&s.made)
	}
	if s.made.Decision != "" { // the last one, in whichever run
		s.prior, s.priorAt = s.made.Decision, s.made.At
	}
	return s.step, s.settle(ctx)
}

// standing is one call beside what became of it before.
type standing struct {
	g      *Gate
	d      *Decision
	req    *Request
	f      memory.Fitness
	step   *memory.CallStep
	before *memory.Hold

	prior   string // let the same call through last, and its outcome is not known
	priorAt time.Time
	own     string          // did so in this run
	done    memory.Standing // Done of it: did so in this run, or a person says so of another one, and was done; "" if the call may be repeated
	made    memory.ActMark  // of the act, if it is irreversible
}

func (s *standing) settle(ctx context.Context) error {
	d, h, now := s.d, s.before, s.f.Now
	state := memory.HoldState(0)
	if h != nil {
		state = h.StateAt(now)
	}
	if h != nil && h.Rejected(now) {
		d.HoldID, d.Words, d.By = h.ID, h.Why, h.By
		s.block(Reason{Code: ApprovalRejected})
		return nil
	}
	open := state == memory.HoldWaiting || state == memory.HoldGranted
	if s.req.Resumes != "" {
		if s.resumable(h, state); d.Outcome == Deny && open && h.ID == s.req.Resumes { // nobody waits in it any more
			s.step.Stale = s.stale(h, ParkedDenied+d.ID+": "+string(d.primary().Code))
			d.HoldID = h.ID
		}
	}
	if d.Outcome == Deny {
		return nil
	}
	s.unsettled()
	s.repeated()
	if d.Outcome == Permit { // its rows are fit now, or never were in question
		if open && h.ArgsSHA256.String() != d.ArgsSHA256 { // what waits is not what is made
			s.step.Stale = s.stale(h, s.moved(h))
		} else if open {
			if s.req.Resumes != "" {
				d.before(h.ExpiresAt) // nothing is made by itself after its time
			}
			s.through("its rows are fit", "gate")
		}
		return nil
	}
	binding := s.g.binding(s.step.Slot, s.req, s.f, s.d.Reasons)
	switch {
	case open && (h.Binding != binding || h.Tool != clip(s.req.Contract.Tool) || state == memory.HoldGranted && !s.knows(h)):
		if state == memory.HoldGranted {
			s.note(ApprovalStale, s.moved(h))
		}
		s.step.Stale = s.stale(h, s.moved(h))
	case state == memory.HoldWaiting:
		if h.Withdrawn {
			s.note(ApprovalWithdrawn, "")
		}
		s.attach(memory.HoldWaiting, "asked for again")
		return nil
	case state == memory.HoldGranted:
		s.grant(binding)
		return nil
	case state == memory.HoldExpired && h.State == memory.HoldGranted:
		s.note(ApprovalExpired, "")
	case h != nil && len(h.Grant) > 0 && h.Binding == binding: // it was made once on a person's word
		s.note(ApprovalUsed, "")
	case h == nil:
		if err := s.elsewhere(ctx); err != nil {
			return err
		}
	}
	return s.open(binding)
}

// unsettled holds the call if the same one was let through before and nobody knows how it
// ended, unless its source has told since, or it can be put back and the policy's time has
// passed: then it is a note.
func (s *standing) unsettled() {
	d := s.d
	if s.prior == "" || d.Effect == ReadOnly {
		s.prior, s.own = "", ""
		return
	}
	r := Reason{Code: OutcomeUnknown, Detail: s.prior}
	note := ""
	switch limit := s.g.policy.unknownFor(); {
	case s.told():
		note = ", and its source has been read since"
	case d.Effect == StateChanging && limit > 0 && !s.priorAt.IsZero() && s.f.Now.Sub(s.priorAt) >= limit:
		note = ", more than " + limit.String() + " ago"
	case s.abandoned():
		note = ", in another run more than " + abandonedFor.String() + " ago, and no key is configured by which a person could settle it"
	case d.Outcome == Permit && s.g.opts.Mode == Observe && d.Effect != Irreversible:
		r.Outcome, d.Observed = Hold, true
		d.Reasons = append(d.Reasons, r)
		order(d.Reasons)
		s.prior, s.own = "", ""
		return
	default:
		s.block(r)
		return
	}
	r.Detail += note
	d.note(r)
	order(d.Reasons)
	s.prior, s.own = "", ""
}

// repeated holds a call that cannot be undone if the run has made the same one and it was
// done. Of a tool that nobody declared it is a note.
func (s *standing) repeated() {
	if s.done.Done == "" {
		return
	}
	r := s.alreadyDone()
	if s.undeclared() {
		s.d.note(r)
		order(s.d.Reasons)
		return
	}
	s.block(r)
}

// settledBefore is what a person says of a call of another run.
func settledBefore(m *memory.ActMark) memory.Standing {
	return memory.Standing{Done: m.Done, Settled: &memory.Settled{At: m.Settled}}
}

// alreadyDone says which call was done before, when, and when a person said so if the run did
// not see it. It quotes nobody: the reason is recorded with calls that rest on other rows, and
// stays when what she spoke of is erased. Her words are for the caller alone.
func (s *standing) alreadyDone() Reason {
	const layout = "2006-01-02 15:04:05 MST"
	at := &s.done
	s.d.Answer, s.d.settled = at.Answer, at.Settled
	r := Reason{Code: AlreadyDone, Detail: at.Done}
	if !at.DoneAt.IsZero() {
		r.Detail += " at " + at.DoneAt.UTC().Format(layout)
	}
	if by := at.Settled; by != nil {
		r.Detail += ", as a person settled at " + by.At.UTC().Format(layout)
	}
	return r
}

// undeclared reports whether neither the tool's declaration nor the policy says what the
// tool does.
func (s *standing) undeclared() bool { return undeclared(&s.g.policy, &s.req.Contract) }

func undeclared(p *Policy, c *Contract) bool {
	rule := p.Tools[c.Tool]
	return c.Undeclared && rule.Effect == nil && !rule.Once
}

// abandonedFor is how long another run's call of a tool that nobody declared stands in the
// way where nobody can settle it.
const abandonedFor = 24 * time.Hour

// abandoned reports whether nobody will ever say how the call of another run ended.
func (s *standing) abandoned() bool {
	return s.undeclared() && s.g.opts.Approvals == nil && s.own == "" && s.made.Decision == s.prior && !s.made.Own &&
		s.f.Now.Sub(s.made.At) >= abandonedFor
}

// told reports whether a row that the run has read since shows how the call ended: what
// its declared source says now. The gate does not know which of its values says that the call
// was made, so that this frees nothing that cannot be undone.
func (s *standing) told() bool {
	if s.d.Effect == Irreversible || s.req.Told == "" || s.req.ToldOf != s.prior || !slices.Contains(s.d.Loosened, s.req.Contract.shown()) {
		return false
	}
	for i, id := range s.req.Lineage.direct {
		if h := &s.f.Heads[i]; id == s.req.Told && h.ID == id {
			return h.Truth == memory.TruthSupported && h.Rank >= memory.RankTool && h.Security == memory.SecurityClean && h.Flags&(memory.FlagTainted|memory.FlagContested) == 0
		}
	}
	return false
}

// resumable blocks a call that must not go on by itself. One may if the hold that it was parked
// in is still its own and open, and if the tool is the one that it was parked for.
func (s *standing) resumable(h *memory.Hold, state memory.HoldState) {
	why := ""
	switch {
	case h == nil:
		why = "its hold is not there any more"
	case h.ID != s.req.Resumes:
		why = "another call took its place"
	case state != memory.HoldWaiting && state != memory.HoldGranted:
		why = "it is " + state.String()
	case h.Schema != memory.Digest(s.req.Contract.Schema):
		why = "the tool is not what it was"
	case s.d.Effect == Irreversible:
		why = "what cannot be undone never fires by itself"
	default:
		return
	}
	s.d.HoldID = s.req.Resumes
	s.block(Reason{Code: HoldEnded, Detail: why})
}

// block adds a reason that blocks, also to a call that would have fired.
func (s *standing) block(r Reason) {
	s.d.Observed = false
	s.d.add(r)
	order(s.d.Reasons)
	s.d.Consumed, s.d.Epoch = nil, 0
	s.d.Retry = RetryNeverAsIs
	if s.d.Final() {
		s.d.Retry = RetryNever
	}
}

// note says what became of an approval, beside what holds the call.
func (s *standing) note(c Code, detail string) {
	s.d.add(Reason{Code: c, Detail: detail})
	order(s.d.Reasons)
}

// moved says what is not as it was when the hold was opened.
func (s *standing) moved(h *memory.Hold) string {
	switch {
	case !s.knows(h):
		return "the same call was made since, and how it ended is not known"
	case h.Policy != s.g.label:
		return "the policy is another one"
	case h.ArgsSHA256.String() != s.d.ArgsSHA256:
		return "the same call was asked for with other arguments"
	case h.Schema != memory.Digest(s.req.Contract.Schema):
		return "the tool is another one"
	case h.Tool != clip(s.req.Contract.Tool):
		return "the tool has another name"
	case h.Epoch != s.f.Epoch:
		return "the store was restored"
	case len(h.Rows) != len(s.f.Heads):
		return "the call rests on other rows"
	}
	for i, c := range h.Rows {
		if r := &s.f.Heads[i]; r.ID != c.Row {
			return "the call rests on other rows"
		} else if r.Revision != c.Revision {
			return "row " + string(c.Row) + " has moved"
		}
	}
	return "something else stands against it, or the policy was edited"
}

// stale ends a hold that is of no use any more.
func (s *standing) stale(h *memory.Hold, why string) *memory.Hold {
	stale := *h
	stale.State, stale.By, stale.Why, stale.Grant = memory.HoldStale, "gate", why, nil
	return &stale
}

// hold is the open hold, as it will be.
func (s *standing) hold(to memory.HoldState, by, why string) *memory.Hold {
	next := *s.before
	next.State, next.By, next.Why = to, by, why
	s.step.Hold, s.step.Track = &next, false
	s.d.HoldID = next.ID
	return &next
}

// knows reports whether who looks at the hold hears of the last call that may have been
// done.
func (s *standing) knows(h *memory.Hold) bool {
	return s.prior == "" || s.prior == h.Prior || s.prior == h.Made
}

// attach joins the call to the open hold.
func (s *standing) attach(to memory.HoldState, why string) *memory.Hold {
	next := s.hold(to, "gate", why)
	next.Tries++
	if !s.knows(next) {
		next.Made = s.prior
		next.Round++ // what was signed before does not know of it
	}
	s.d.ExpiresAt, s.d.Parked = next.ExpiresAt, next.Parked && s.req.Park && s.d.Effect != Irreversible
	return next
}

// through lets the call through, and ends the hold.
func (s *standing) through(why, by string) {
	next := s.hold(memory.HoldFired, by, why)
	next.Fired, next.Prior, next.Made = s.d.ID, "", ""
}

// grant lets the call through if a person's signature says so for exactly this call,
// now. One that does not is taken away, with what is wrong with it.
func (s *standing) grant(binding memory.Digest) {
	h := s.before
	refuse := func(c Code, detail string) {
		s.note(c, detail)
		next := s.attach(memory.HoldWaiting, "the approval does not hold: "+string(c))
		next.Grant, next.GrantEnds = nil, time.Time{}
		next.Round++
	}
	if s.g.opts.Approvals == nil {
		refuse(ApprovalForged, "no key is configured here")
		return
	}
	g, err := s.g.opts.Approvals.OpenGrant(h.Grant)
	switch {
	case err != nil:
		refuse(ApprovalForged, "no key that is known here signed it")
	case g.Hold != h.ID || g.Tool != s.req.Contract.Tool || g.Binding != binding:
		refuse(ApprovalForeign, "it was signed for another call")
	case memory.SameName(g.Principal, s.req.Agent):
		refuse(ApprovalForeign, "who asks for a call cannot approve it")
	case g.Round+1 != h.Round:
		refuse(ApprovalUsed, "it was signed for an earlier round of this call")
	case !s.f.Now.Before(g.Expires):
		refuse(ApprovalExpired, "")
	default:
		for i := range s.d.Reasons {
			s.d.Reasons[i].Outcome = Permit
		}
		s.d.Outcome, s.d.Retry, s.d.ExpiresAt = Permit, "", time.Time{}
		s.d.Consumed, s.d.Epoch, s.d.Binding = cited(s.req.Lineage, s.f), s.f.Epoch, binding
		ends := g.Expires
		if h.GrantEnds.Before(ends) {
			ends = h.GrantEnds
		}
		s.d.before(ends) // and not past the limits of the rows that needed no approval
		s.d.Approval = &Approval{Hold: h.ID, By: g.Principal, Ends: ends}
		s.through("approved by "+g.Principal, g.Principal)
	}
}

// maxElsewhere bounds how many approvals are looked through for a word to the model.
const maxElsewhere = 20

// elsewhere notes that an approval exists for a call that is nearly this one.
func (s *standing) elsewhere(ctx context.Context) error {
	granted, err := s.g.store.Granted(ctx, s.req.Contract.Tool, maxElsewhere)
	if err != nil {
		return fmt.Errorf("gate: the held calls could not be read: %w", err)
	}
	for i := range granted {
		h := &granted[i]
		if h.Principal != s.req.Principal {
			continue // whose it is is nobody else's business
		}
		detail := "it was given for other arguments"
		if h.Run != s.req.Run || h.Agent != s.req.Agent {
			detail = "it was given to another run"
		}
		s.note(ApprovalForeign, detail)
		return nil
	}
	return nil
}

// open opens a hold under the id of the decision.
func (s *standing) open(binding memory.Digest) error {
	d, req := s.d, s.req
	var args memory.Digest
	if err := args.UnmarshalText([]byte(d.ArgsSHA256)); err != nil {
		return err
	}
	h := &memory.Hold{
		ID: d.ID, Slot: s.step.Slot, Binding: binding, State: memory.HoldWaiting,
		Tool: clip(req.Contract.Tool), Server: clip(req.Contract.Server), Effect: d.Effect.String(), BlastRadius: d.BlastRadius.String(), Agent: clip(req.Agent), Run: clip(req.Run), Principal: clip(req.Principal),
		Args: json.RawMessage(req.Args), Asked: s.g.question(req), ArgsSHA256: args, Schema: req.Contract.Schema, Policy: d.Policy, Epoch: s.f.Epoch,
		Rows: cited(req.Lineage, s.f), AtFault: rowIDs(d.Reasons), OpenedAt: s.f.Now, ExpiresAt: s.f.Now.Add(s.g.opts.HoldFor),
		Tries: 1, Prior: s.own, Done: s.done.Done, By: "gate", Why: "held",
	}
	if !s.knows(h) {
		h.Made = s.prior
	}
	for _, r := range d.Reasons {
		if r.Outcome != Permit && !slices.Contains(h.Codes, string(r.Code)) {
			h.Codes = append(h.Codes, string(r.Code))
		}
	}
	if req.Park && d.Effect != Irreversible && s.prior == "" { // what may have been done never fires by itself
		h.Parked, h.ExpiresAt = true, s.f.Now.Add(s.g.opts.ParkFor)
		if old := s.step.Stale; old != nil && old.Parked && old.ExpiresAt.Before(h.ExpiresAt) {
			h.ExpiresAt = old.ExpiresAt // it waits for more, not longer
		}
	}
	d.HoldID, d.ExpiresAt, d.Parked = h.ID, h.ExpiresAt, h.Parked
	s.step.Hold, s.step.Track = h, false
	return nil
}

// How says how a hold ended, or that a new attempt is worth while.
type How string

// The ways that [Wait] ends.
const (
	HowApproved How = "approved" // a person approved this one call
	HowPromoted How = "promoted" // the rows at fault are verified now, or nothing holds the call any more
	HowRejected How = "rejected" // a person refused it
	HowExpired  How = "expired"  // nobody decided in time: it is denied
	HowStale    How = "stale"    // another hold took its place, or its parked call was denied
	HowFired    How = "fired"    // the call was made, by whoever else waited
	HowSettled  How = "settled"  // it is known now how the same call ended before
	HowDenied   How = "denied"   // something that no approval releases stands against it: it is denied as things are
)

// Released says why a wait ended.
type Released struct {
	Hold memory.Hold
	How  How
}

// May reports whether the call is worth another attempt, which is decided afresh.
func (r Released) May() bool {
	return r.How == HowApproved || r.How == HowPromoted || r.How == HowSettled
}

// Pauses between two looks at a hold that is waited for.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// Wait returns when the hold with an id is decided or ends. It also returns when the rows at
// fault are verified, or nothing holds the call any more ([HowPromoted]). It returns, too, when
// the call is to be denied, as a row that it rests on was contradicted, quarantined or hidden.
// The hold may have been opened by another process. Wait makes no call. An error is that of ctx,
// of the store, or [memory.ErrNotFound].
func Wait(ctx context.Context, s Holds, hold string) (Released, error) {
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		r, done, err := Look(ctx, s, hold)
		if done || err != nil {
			return r, err
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return r, ctx.Err()
		case <-t.C:
		}
	}
}

// Look is one look of [Wait]: done says that Wait would return.
func Look(ctx context.Context, s Holds, hold string) (r Released, done bool, err error) {
	if r.Hold, err = s.Hold(ctx, hold); err != nil {
		return r, false, fmt.Errorf("gate: wait: %w", err)
	}
	h := &r.Hold
	f, err := s.Fitness(ctx, h.AtFault)
	if err != nil {
		return r, false, fmt.Errorf("gate: wait: %w", err)
	}
	switch h.StateAt(f.Now) {
	case memory.HoldGranted:
		r.How = HowApproved
	case memory.HoldRejected:
		r.How = HowRejected
	case memory.HoldExpired:
		r.How = HowExpired
	case memory.HoldStale:
		r.How = HowStale
	case memory.HoldWaiting:
		denied, free := slices.ContainsFunc(f.Heads, func(head memory.Head) bool {
			return head.Truth == memory.TruthContradicted || head.Security != memory.SecurityClean
		}), false
		if !denied { // a hold that does not keep its terms goes by its rows at fault alone
			tried, kept, err := Try(ctx, s, h)
			if err != nil {
				return r, false, err
			}
			denied, free = kept && tried.Outcome == Deny, kept && tried.Outcome == Permit
		}
		if denied {
			r.How = HowDenied
			return r, true, nil
		}
		if len(f.Heads) == 0 && h.Unknown() == "" && len(h.Codes) == 1 && h.Codes[0] == string(OutcomeUnknown) {
			r.How = HowSettled
			return r, true, nil
		}
		if len(f.Heads) == 0 || h.Unknown() != "" || slices.Contains(h.Codes, string(AlreadyDone)) { // only a person can release it
			return r, false, nil
		}
		for i := range f.Heads {
			if h := f.Heads[i].For(memory.Token{}); !free && (h.State() != memory.StateVerified || f.Heads[i].Revision == revisionOf(&r.Hold, f.Heads[i].ID)) {
				return r, false, nil
			}
		}
		r.How = HowPromoted
	default:
		r.How = HowFired
	}
	return r, true, nil
}

// revisionOf is the fitness version that a row was held at.
func revisionOf(h *memory.Hold, id memory.ID) uint64 {
	for _, c := range h.Rows {
		if c.Row == id {
			return c.Revision
		}
	}
	return 0
}
