// Package gate decides whether a tool call may run.
//
// [Policy.Evaluate] is the decision: a pure function of a request, which names
// rows, and of the current state of those rows. [Gate.Decide] stands around it:
// it reads the states in one round trip, evaluates, and records the decision in
// the atom that consumes the permit. Any fault on the way blocks.
//
// A block is data: which rows stand against the call, by which chain, and what
// would help. It has four forms, all of one [Decision].
//
// # Soundness and its limits
//
// The default feeds every call with everything the run has been shown, so no row
// can slip past by being paraphrased, summarised or copied. What is not covered:
// which tool the model chooses and what it leaves out, and harm that lies in the
// combination of verified rows.
package gate
