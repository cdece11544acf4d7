// Package sqlitestore keeps a memory store in one SQLite file, in pure Go.
//
//	d, err := sqlitestore.Open(ctx, "agent.db", nil)
//	if err != nil {
//		return err
//	}
//	store, err := memory.New(d, keys, nil) // keys: see memory/keyring
//	defer store.Close()
//
// The file is in WAL mode, so two more files (-wal, -shm) stand beside it while
// it is open; a copy of the first alone is not a backup. Several handles, in one
// process or in many on one machine, may use one file: a write waits for another
// write, as long as its context lets it, and nobody waits for a reader. A network
// file system is no place for the file.
//
// A batch is acknowledged when it is in the file, with [Full] after an fsync: a
// process that is killed loses nothing that was acknowledged and leaves no half
// batch, whatever the option; a machine that loses power does so with [Full].
// [Driver.Inspect] says what a store that is open promises and what speaks against
// it, and Options.Strict refuses to open one of which anything does.
//
// What is deleted or replaced is overwritten in the file at once, but its bytes stay
// in the log of the file until [Driver.Compact].
package sqlitestore
