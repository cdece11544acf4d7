// Package document has primary sources: documents and tables that a claim can be
// held against. They answer questions as [verifier.Ask] does, blind, so that
// [verifier.NewTool] with rank primary source compares what they say by type.
//
// A document is fetched anew for every question, over https or from a file, through
// a [Fetcher], which reaches only the hosts and folders that the operator named. It
// may be pinned by the SHA-256 of all of it. One that has vanished, or is not what
// was pinned, gives [verifier.ErrGone]: that refutes nothing, and what it verified
// becomes stale.
//
// [Table] reads values out of CSV, and [Text] out of prose by a pattern. What they
// return names the address, the version and the excerpt that it rests on.
package document
