// Package storetest is the specification of a [memory.Driver]: every "must" of
// its contract is asked here, of every driver alike. There is no list of things
// that a driver may leave out.
//
// A driver's test file is a few lines:
//
//	func TestDriver(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) memory.Driver {
//			d, err := mystore.Open(t.Context(), …) // a fresh, empty store
//			if err != nil {
//				t.Fatal(err)
//			}
//			return d // storetest closes it
//		})
//	}
//
// [Run] asks the contract. [RunDurable] asks what must outlive a handle. [RunForm] asks
// that stores of other forms are refused. [Compare] runs random operations against the
// reference driver of [NewMap]. [Benchmark] measures the calls that the rest of the program
// is made of.
//
// Where the contract leaves a choice, this package makes it, so that all drivers
// choose alike: Get and History of the empty key find nothing; a term that one
// put both removes and adds is added; the last of two additions of one term
// wins; a tombstone keeps its terms until a put removes them; data and entries of
// no bytes are not nil; a list that ends with its last carrier has no cursor; a
// cursor that no query gave is an invalid query; a second Close gives ErrClosed.
//
// And of maintenance: Tenants never lists the tenant of no name, which no cursor
// could name, and which no [memory.Store] uses; a page of names with a cursor is a
// full one; a Rewrite or a Restore of nothing does nothing; a put that brings an
// entry of a revision that the log already has, since Restore put the object back
// behind its log, is stale and names its key; if Rewrite made room there, the new
// entry takes its place in the order; a key whose last entry was removed has no
// log, and a tenant that has neither an object nor an entry left is not listed.
package storetest
