// Package memory holds what an agent knows and whence it knows it.
//
// A [Row] is one claim. It carries an immutable [Origin] (who spoke), a [State] (whether
// anybody checked), four independent axes, and its lineage. A [Store] owns every rule about
// rows. The [Driver] under it knows none. These are the states:
//
//	             write: verifier said no, was unclear, or was not asked
//	           ┌────────────────────────────► unverified ◄─────────────┐
//	Draft ─────┤ write: verifier down              ▲ │                 │ demote
//	           ├───────────► unavailable_at_write ─┘ │ promote:        │ (contradiction of higher
//	           │                                     │ independent     │  rank, user contradiction,
//	           │ write: user with authority, or      ▼ evidence        │  evidence gone)
//	           └───────────► verified ◄──────────────┴─────────────────┘
//
// What a row is written with never changes: origin, asserter, lineage, depth
// and content have no setter (I-2). What may change, the verification state and
// the axes, changes only by [Store.Apply]. It writes the move and its audit entry in
// one transaction, with compare-and-swap on the row's revision (I-6). A table says which
// moves are legal. A promotion needs evidence that is independent of the claim and of
// sufficient rank (I-4). A claim that comes back, however it is labelled,
// collapses onto its row and raises nothing (MP-16).
//
// The zero value of every type is the safe one: an unset origin or state is
// refused at the door and is unfit to act on (I-1).
//
// The ids in comments (I-4, MP-16, SR-2.5) are explained in docs/sources.md.
package memory
