// Package pgring keeps a ring of memory/keyring in a PostgreSQL database: the form for a
// store that several machines use. The database is another one than that of the rows, or
// at least another schema with backups of its own; all in it is sealed, and opens with the
// wrapping key alone, which lies on each machine or in a key service.
//
//	wrapping, err := keyring.WrappingFile("/etc/hearsay/wrap")
//	…
//	ring, err := pgring.Open(ctx, "postgres://app@keys/hearsay_keys", &pgring.Options{Options: keyring.Options{Wrapping: wrapping}})
//
// Machines that make the key of one subject at once get the same one. A destruction
// wraps all other keys under a newer version of the wrapping key; it is pending until
// each machine has let go of the one before, which a machine does when it next looks.
// What the database's log, its replicas and its backups keep of a destroyed key is sealed
// under a version that nobody has.
package pgring
