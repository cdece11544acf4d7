// Package verifier asks somebody else whether a row is right.
//
// A [Verifier] is one method. What it may answer is closed:
//
//	verdict, nil                 the source answered: [Supported], [Refuted], [Unclear], or [Gone]
//	ErrUnavailable               nobody answered: refused, timed out, throttled, or not understood; ask again later
//	ErrMisconfigured             it can never answer as configured: wrong key, wrong model, a panic; alarm
//	context.Canceled             the caller gave up; nothing was learned
//
// Only an answer that was understood to the end supports or refutes. A verifier
// that is down, slow, hanging or talking nonsense changes no row (SR-2.2,
// SR-2.3, I-5), and the zero [Verdict] promotes nothing (I-1).
//
// [NewTool] makes a verifier from a tool or system of record: it asks blind,
// without showing the claimed value, and compares what comes back by type.
// Package verifier/document has the pinned documents and tables that it can ask.
// [NewQuorum] asks several and answers when enough of them agree. Nobody here speaks
// for a person: a user's word comes signed, through gate/confirm.
// [WithBreaker] puts a bulkhead, a deadline and a circuit breaker around any
// verifier, also one that ignores its context.
//
// The verdict is evidence, not a decision: whether it suffices is for
// memory.Sufficient, what follows from it is for package promotion.
package verifier
