// Package keyring keeps the secret material of a memory store in a folder of its
// own: it is the [memory.Keys] of a program that runs on one machine.
//
//	keys, err := keyring.OpenOrCreate("agent.keys", nil)
//	if err != nil {
//		return err
//	}
//
// The folder (mode 0700, files 0600) holds the root and audit keys in one file,
// "ring"; the data key of each subject in a small file of its own under "classes";
// and in "ended" what was retired and destroyed. No file holds a subject: each is
// there as a blinded token only. Files are never changed in place, except to wipe
// a key; each is checksummed, and a damaged one is refused by name.
//
// # What erasure rests on
//
// Destroy first records that the key is destroyed, then overwrites its
// file, then removes it. Where a file system or a disk keeps what was
// overwritten (snapshots, copy on write, the spare blocks of an SSD), put the
// folder on an encrypted volume. A copy of the folder is a copy of the keys:
// Destroy cannot reach it. Back the folder up apart from the store, keep such
// copies for a shorter time than people wait for their erasure, and after a
// restore destroy again what was destroyed since.
//
// # Several processes
//
// Any number of goroutines and of processes on one machine may use one folder; a
// network file system is no place for it. What makes or ends a key takes a file
// lock for a short time; sealing, opening and asking for a known key take none.
//
// After Retire has returned, Key gives no key of before in any process: it
// looks whether something ended each time. After Destroy has returned, this
// process opens and seals nothing more under the key; another process may for
// up to [Staleness], and its copy of the key leaves its memory with the first call
// after that.
package keyring
