// Package gate decides whether a tool call may fire.
//
// The question is asked at the only place where it can be answered for good: the
// call itself (SR-6.3). A [Request] names the tool, its arguments and the ids of
// the rows that reached the caller, never their states. [Gate.Decide] reads the
// current states in one trip, lets the pure [Policy.Evaluate] judge them, and
// records the decision. For a permit, recording is consuming: the same atom
// checks that every row is still what it was when it was judged (I-7).
//
// Whatever goes wrong on the way denies (I-5), and so does every zero value (I-1):
// a zero Decision denies, a zero Lineage is unknown, a zero Effect is
// irreversible, a zero Policy names no tool.
//
// A call that new evidence or a person's word would release is held, under an id
// that an identical later call shares. It is released by promotion of its rows, by a
// person's confirmation of the fact, or by her approval of this one call: a signed,
// single-use grant for exactly what a permit is bound to, which the gate verifies
// itself ([Options.Approvals]) and consumes in the atom that records the fire
// intent. Nothing in this package makes one. A call that cannot be undone is not
// made again while nobody knows how it ended.
//
// A [Decision] is one value with four forms, so that what a model, a person, a
// log and a program are told cannot differ: [Decision.ToolText], the error of
// [Decision.Err], [Decision.LogValue] and [Decision.MarshalJSON].
package gate
