// Package recall decides which rows of a memory reach a context, and in which
// words. It is the only way from a stored claim to a prompt (I-10).
//
// [Recall] asks a [Store] and sorts what it finds into three channels:
//
//	context         rows fit to rely on: verified, normal, clean, fresh (the default)
//	uncertain       rows nobody has checked, or not lately; tagged, and no more than that
//	contradictions  contradicted rows, and open rivals of what is in the result
//
// Rows that are hidden, blocked, suspicious, quarantined or malicious, or made from
// what is or was quarantined ([Judge]), are in no channel, whatever their confidence (LS-23, LS-25); rows above the ceiling are
// in none either (LS-26).
//
// [Prompt] renders a result, one tagged line for each row. The content of a row
// cannot forge, close or strip a tag, and [Strip] takes the lines out of a text
// again. Tags are for readers. No decision ever reads one back: the gate asks
// the store.
//
// Whether a model heeds a tag is a bet and not a result (SR-5.6). What a model
// does with a claim is held by the gate, not by this text.
package recall
