// Package promotion decides when the state of a row changes: rule 7 of the seven.
//
// [Next] is the rule: a pure function of a row and a verdict. A [Worker] reads
// the row, asks the sources that cover it in order of rank, and applies the move;
// the store enforces sufficiency and independence again (I-4). Three triggers
// lead to it: [Serve] on its own schedule, reads noted by a [Heater], and a
// user's signed word, which package gate/confirm applies by itself.
//
//	unverified ──(independent support)──► verified ──(contradiction of higher rank)──► unverified, due at once
//	verifier down: nothing moves; the check comes back by the breaker's clock
//
// Reads schedule, evidence decides: how often a row is read orders the queue and
// is never evidence. A row is asked about at most once per verdict lifetime,
// however often it is read, so a loop cannot buy the verifier's time.
//
// Everything here is safe to repeat and to overlap: a move is compared and
// swapped on the row's revision, and the row store alone says what is due.
package promotion
