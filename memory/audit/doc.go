// Package audit shows that a store is all there and is the one that was written:
// checkpoints commit to every log, a witness outside the store remembers them,
// and what was exported is verified without the store.
//
// The chains of package memory show a change within a log. That a whole log is
// missing, that a log was cut together with the object it is the history of, or
// that somebody with the audit key wrote another history, a checkpoint shows. That
// all of the store is an older copy, checkpoints included, only a [Witness] shows:
// it must be kept where who writes the store cannot write.
//
// # What a checkpoint signs
//
// A leaf says that a log had this many entries once, the last with this MAC. The
// leaves of a scope make one Merkle tree that only grows (RFC 6962, SHA-256). The
// data of a leaf is the revision as eight bytes, big-endian, then the 32 bytes of
// the MAC, then the key of the log. The note is a C2SP tlog-checkpoint
// (c2sp.org/tlog-checkpoint), signed with Ed25519:
//
//	<origin>/<digest of tenant and namespace>
//	<size of the tree>
//	<root of the tree>
//	index <1, 2, …>
//	previous <SHA-256 of the text of the checkpoint before>
//	until <sequence up to which the changes were looked for>
//	state <SHA-256 of what the maker goes on from>
//
// Any tool that reads tlog checkpoints verifies the signature, and skips the last
// four lines.
package audit
