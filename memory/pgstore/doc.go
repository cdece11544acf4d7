// Package pgstore keeps a memory store in a schema of a PostgreSQL database.
//
//	if _, err := pgstore.Migrate(ctx, ownerURL, &pgstore.Options{Role: "app"}); err != nil {
//		return err
//	}
//	d, err := pgstore.Open(ctx, "postgres://app@db/hearsay", nil)
//	if err != nil {
//		return err
//	}
//	store, err := memory.New(d, keys, nil) // keys: see memory/keyring
//	defer store.Close()
//
// # Two roles
//
// The owner makes the tables ([Migrate]) and compacts them; the application runs
// as another role, a plain one that neither owns them nor is a superuser:
//
//	CREATE ROLE app LOGIN NOSUPERUSER NOBYPASSRLS;
//
// Migrate with Options.Role grants it what [Open] needs. Open never migrates. It
// gives [memory.ErrSchema] for a schema that is behind, ahead or altered, and
// [memory.ErrForeign] for one that holds the tables of another program.
//
// # Tenants
//
// A tenant is a number, which the keys of its rows begin with. Every statement names
// its tenant, and row-level security is a second wall behind that: each transaction
// sets hearsay.tenant for itself, and the server shows and takes rows of that tenant
// only. It guards against a statement that forgets its
// tenant, not against somebody who may run statements of his own as the role: he
// may set hearsay.tenant as well. The names of tenants stand in a table without
// that wall, so that Tenants can list them; it holds names, numbers and nothing else.
//
// # Promise
//
// A batch is acknowledged when the server has committed it. What a commit outlives
// is a matter of its settings: [Driver.Inspect] lists them, and Options.Strict
// makes Open refuse a server that would lose what it acknowledged.
package pgstore
