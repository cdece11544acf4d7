// Package gate decides whether a tool call may fire.
//
// The question is asked at the only place where it can be answered for good: the
// call itself (SR-6.3). A [Request] names the tool, its arguments and the ids of
// the rows that reached the caller, never their states. [Gate.Decide] reads the
// current states in one trip, lets the pure [Policy.Evaluate] judge them, and
// records the decision. For a permit, recording is consuming: the same transaction
// checks that every row is still what it was when it was judged (I-7).
//
// A later call of a run is not read for again. The gate remembers the heads that the
// run's last permits were judged on, and where the store's demotion fence stood when
// they were read. Whatever takes something from a row moves that fence in its own
// transaction. So a call that the remembered heads permit, by the clock as it is now, is
// recorded in a transaction that checks the fence in place of each row: if it stands where
// it stood, nothing was taken from any of the rows, and what they were judged to
// permit they still permit. If it does not, or if the call would be blocked, the rows
// are read. Nothing but a permit ever comes from what is remembered. The argument in
// full is in docs/decisions/0011-a-demotion-fence.md.
//
// Limits of time are moments on the store's clock. A clock that jumps ahead ends what
// it passes, also between the judging of a call and its recording. A clock that jumps
// back gives no row its trust back that was taken away, and moves no limit; what had
// ended by the clock alone may be permitted again until the clock is there again.
//
// Whatever goes wrong on the way denies (I-5), and so does every zero value (I-1):
// a zero Decision denies, a zero Lineage is unknown, a zero Effect is
// irreversible, a zero Policy names no tool.
//
// A call that new evidence or a person's word would release is held, under an id
// that an identical later call shares. It is released by promotion of its rows, by a
// person's confirmation of the fact, or by her approval of this one call: a signed,
// single-use grant for exactly what a permit is bound to, which the gate verifies
// itself ([Options.Approvals]) and consumes in the transaction that records the fire
// intent. Nothing in this package makes one. A call that cannot be undone is not
// made again while nobody knows how it ended.
//
// A [Decision] is one value with four forms, so that what a model, a person, a
// log and a program are told cannot differ: [Decision.ToolText], the error of
// [Decision.Err], [Decision.LogValue] and [Decision.MarshalJSON].
package gate
