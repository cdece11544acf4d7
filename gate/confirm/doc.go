// Package confirm is how a person speaks to the store: by a statement signed with
// a key of her own, that confirms, rejects or contradicts one row as she saw it.
//
// It is the one lever with which a user raises trust, so it is kept out of the
// agent's reach: neither the agent nor any adapter imports it, and the public
// keys come from a file of the operator, never from the store. Who can write that
// file, or read a private key, speaks for a user; an agent with a shell under the
// same account cannot be kept out.
//
// A statement is bound to its verb, row, content, fitness version, principal,
// tenant, end, nonce and words. It counts once: each statement that is applied
// moves the fitness version of its row, a fitness version is never reused, and
// the store compares and swaps on it. The same statement, applied again, is stale,
// and so is any other that was signed for the same state of the row. No list of
// used nonces is needed, which could be lost in a restore; the nonce makes two
// statements of the same words two pieces of evidence.
//
// A revocation is signed in the same way: it says that a verifier, a source or a
// document is not to be believed from a moment on.
package confirm
