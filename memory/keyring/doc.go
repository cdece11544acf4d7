// Package keyring keeps the secret material of a memory store in a folder of its
// own: it is the [memory.Keys] of a program that runs on one machine.
//
//	keys, err := keyring.OpenOrCreate("agent.keys", nil)
//	if err != nil {
//		return err
//	}
//
// The folder (mode 0700, files 0600) holds all of a ring in one SQLite file, "ring.db":
// the root and audit keys, one data key for each subject, what was retired and destroyed,
// and which witnesses the store has had. All of it is sealed under the ring's own key,
// which is wrapped under a key that lies in the file "wrap", or elsewhere
// ([Options.Wrapping]). No file holds a subject: each is there as a blinded token only.
// Another form, in PostgreSQL for several machines, is in the package pgring; what both
// keep to is held by the package ringtest.
//
// # What erasure rests on
//
// Destroy drops data keys, makes a new inner key, seals all others under it, and
// wraps it under a newer version of the wrapping key; then it destroys the version before.
// A copy of the ring from before the destruction, a backup or a log of the database that
// it lies in, holds the dropped key under a version that nobody has any more. SQLite
// overwrites what it deletes (secure_delete), and its log is emptied.
//
// So keep copies of the wrapping key apart from copies of the ring, and for a shorter
// time than people wait for their erasure: with both, of one moment, what was erased since
// can be read. Where a file system or a disk keeps what was overwritten (snapshots, copy
// on write, the spare blocks of an SSD), put the wrapping key on an encrypted volume or in
// a key service.
//
// # Several processes
//
// Any number of goroutines and of processes on one machine may use one folder; a
// network file system is no place for it.
//
// After Retire has returned, Key gives no key of before in any process: it
// looks at the ring each time. After Destroy has returned, this process opens and seals
// nothing more under the key; another process may for up to [Staleness], and its copy of
// the key leaves its memory with the first call after that. A ring keeps some thousand
// data keys in memory ([Options.Cache]), however many there are.
package keyring
