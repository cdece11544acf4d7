// Package agent is the only place where a tool is called.
//
// [Agent] is the base type to embed. An agent's tools live in an unexported
// field and are reachable only through [Run.Call], which asks the gate first, so
// an agent built on the base type is gated without another line (SR-6.5).
//
// A [Run] is one conversation or task. It keeps the ledger: the rows whose text
// reached its context, what other agents handed over, and whether any of that is
// of unknown lineage. Run.Recall adds what is rendered, Run.Remember derives
// what the model writes from all of it, and Run.Call lets a state-changing tool
// fire only if every row in it is fit at that moment. The ledger never shrinks: a
// clean boundary is a new Run.
//
// [Tokens] carry lineage to other processes and over a restart; [Delegate] makes a
// tool of another agent. What arrives without its lineage is of unknown lineage.
//
// The one thing that is found in a context.Context is the call that a tool carries
// out, by which a run of another agent joins the run that asked, and by which a
// request to another process gets its token. A request that lost it is of unknown
// lineage where it arrives, and so is a run of Delegate. Only a tool that starts
// another agent's run itself, and with a context of its own, hides what it rests on.
package agent
