// Package fault asks of a store what faults leave of it: one specification for all
// drivers, as memory/storetest is for the calls of one.
//
// [Points] names every call that an operation of [memory.Store] makes of its driver,
// its keys and its witness, by a run without a fault. Then it runs the operation
// again for each of these calls: the call gives an error, or hangs until the
// deadline, before it is done and after; and at each call that changes something the
// process is killed. Reopened, the store must be what it was after one of the
// operation's writes, whole; its audit must hold; a rebuild must give the same bytes;
// the witness must miss nothing; and the operation must be able to go on.
//
// [Load] is a stream of batches whose loss and halves are counted, for tests that
// take the power, the disk or the server away.
//
// A driver's test file has:
//
//	func TestMain(m *testing.M) {
//		fault.Child(open) // where a child is killed
//		…
//	}
//
//	func TestEveryCrashPoint(t *testing.T) {
//		fault.Points(t, fault.Store{Fresh: …, Open: open})
//	}
package fault
