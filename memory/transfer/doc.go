// Package transfer carries the rows of a memory from one store to another, as lines
// of JSON.
//
// A dump is a header, one line a row with parents before their children, and a
// trailer:
//
//	{"schema":"hearsay.rows/1","tenant":…,"namespace":…,"exported_at":…,"dump":…,"hash":…}
//	{"id":"mem_…","content":…,"origin":…,"asserter":…,…,"was":{"state":…,"evidence":…},"prev":…,"hash":…}
//	{"id":"mem_…","unread":true,"held":true,"prev":…,"hash":…}
//	{"end":{"rows":2,"digest":…,"key":…,"signature":…},"prev":…,"hash":…}
//
// The third line is of a row that could not be read. It says whether the row was under suspicion,
// or that this is not known ("held"), and end.rows counts it. An import rejects the line.
//
// The hash of a line is the SHA-256 of "hearsay.rows/1\n" and of the bytes of the
// line up to its last member, which is the hash itself; prev is the hash of the line
// before. A line that was changed is found by its own hash, and one that is missing
// or was moved by the next one's prev. The digest covers the chain and the number of
// rows, and the signature covers the digest.
//
// An import never raises trust (I-1, I-3). Every row lands unverified, under a new id,
// with a lineage computed here, whatever the dump says; its state and its evidence
// there are information. What is said to be first hand stays so only under a
// signature of a key that the importer trusts. What was known against a row stays
// against it, but that a person's rejection lands as a contest: evidence may end that.
//
// A line that cannot be taken is rejected alone, by its number. A row that was made from that
// row lands with unknown lineage. It lands under suspicion if that row was under suspicion.
//
// An import that was interrupted goes on after its last batch, if it is started again
// with the same dump; a second import of a dump writes nothing twice.
package transfer
