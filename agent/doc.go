// Package agent is the only place where a tool is called.
//
// [Agent] is the base type to embed. An agent's tools live in an unexported
// field and are reachable only through [Run.Call], which asks the gate first. So an
// agent built on the base type is gated without another line (SR-6.5).
//
// A [Run] is one conversation or task. It keeps the ledger: the rows whose text
// reached its context, what other agents handed over, and whether any of that is
// of unknown lineage. Run.Recall adds what is rendered. Run.Remember derives what
// the model writes from all of it. Run.Call lets a state-changing tool fire only if
// every row in it is fit at that moment. The ledger never shrinks: a clean boundary
// is a new Run.
//
// [Tokens] carry lineage to other processes and over a restart; [Delegate] makes a
// tool of another agent. What arrives without its lineage is of unknown lineage.
//
// What a run is shown stands in its ledger byte by byte. A tool's output is
// third-party text, as secret as the tool may be given. A tool can declare its fields
// ([Authoritative], [Identifier]), how secret they are ([OutputSensitivity],
// [FieldSensitivity]) and which document they are from ([SourceArguments],
// [SourceFields]).
//
// One thing is found in a context.Context: the call that a tool carries out. By it a
// run of another agent joins the run that asked, and a request to another process gets
// its token. A request that lost it is of unknown
// lineage where it arrives, and so is a run of Delegate. Only a tool that starts
// another agent's run itself, and with a context of its own, hides what it rests on.
//
// All principals of a namespace share one memory: what one asserted, or what was read for one,
// is recalled as verified in the runs of the others. Separate people by a namespace each
// ([memory.Options]).
//
// # Precision
//
// By default everything a run has been shown feeds every call. That is sound and
// coarse: one stranger's mail blocks all that follows it. Four modes are sharper, and
// each narrows only where the runtime itself can show what fed what. The agent's own
// word narrows nothing.
//
// Channels. Only fit rows enter the context: the zero recall policy. Sound because a
// row that is in no prompt feeds no call. It does not cover what the principal, a tool
// or another agent brings into the run.
//
// Typed sinks ([TypedSinks], per tool). A call is judged by the rows that its sinks came
// from if that is shown of each sink. A sink stands, verbatim, in the words that the
// principal typed in this run; or it is the typed object of a row that is fit; or a handle
// binds it to one. Sound for what the sinks decide: a stranger's value has no such source, unless the principal or
// a fit row has the same one. Everything derived, a short token, a boolean, a small
// integer, a call without a sink and a run of unknown lineage leave the call to the whole
// run; web and mail addresses and account numbers in other arguments are sinks too; what
// selects one of several genuine objects is cleared only by the principal's words or by
// a row that a person endorsed. Secrecy and quarantine are judged by the whole run, and
// the permit cites all of it. It does not cover which tool was chosen (see [Named]), or
// that a call was made at all. Nor does it cover what free text says short of an address,
// the choice among values that all are fit, or a negation: "not to A" names A.
//
// Handles ([Run.RecallHandles]). A row is an opaque token with a label from a closed
// set; its lineage is added to the call that uses it and to what that call gives back,
// and to no other. Everything else in the call, which handle was chosen included, still
// carries the run's ledger. Sound because the text never reaches the model, in a label,
// a schema error or the text of a block. It does not cover what the label, the number of
// rows, and whether a call was valid tell.
//
// Forks ([Run.Fork], [Run.Join]). A child run reads; what it found out is a row derived
// from its whole ledger, and its parent gets a handle to it. What that buys is that the
// fork's text does not reach the parent. It does not make the row fit: somebody else
// must verify it. It does not cover what a program hands on itself as typed words.
//
// docs/precision.md says more.
package agent
