// Package redisstore keeps a memory store in Redis: in one server, in a master
// that Sentinel watches, or in a Redis Cluster.
//
//	d, err := redisstore.Open(ctx, "redis://localhost:6379", &redisstore.Options{Strict: true})
//	if err != nil {
//		return err
//	}
//	defer d.Close()
//
// Redis 6.2 or later with Lua scripts is needed, and a user who may run them, read
// and write hashes and sorted sets, and use MULTI and EXEC, INFO and SCAN; one who may
// also WATCH reads large lineages faster. All keys of a tenant carry one hash tag, so a
// tenant lives on one master of a Cluster and many tenants spread.
// The store is known by its prefix: several may share a server, also with other
// programs, as long as the prefixes differ.
//
// # What an acknowledged batch outlives
//
// That is for the settings of the server to say, and [Driver.Inspect] reads them
// out; Options.Strict refuses a server that would lose what was acknowledged.
//
//	settings              server killed   machine loses power   failover
//	appendfsync always    nothing lost    nothing lost          see below
//	appendfsync everysec  nothing lost    1 to 2 seconds lost   see below
//	appendfsync no        nothing lost    half a minute lost    see below
//	appendonly no         what came after the last snapshot is lost
//
// Never half of a batch is lost. Redis copies to replicas after it has
// acknowledged, so a failover may lose the last batches, and a master that is cut
// off acknowledges batches that nobody will see. With min-replicas-to-write of 1
// or more that ends after min-replicas-max-lag seconds. The driver cannot prevent
// the rest; it says so: [Driver.Incarnation] grows with every restart and failover
// before anything is answered from there, and [memory.Store] acts on it.
//
// # Retries
//
// A read whose connection failed is asked again. A batch is sent once, and never
// again when its reply was lost: sent twice, it would be in conflict with itself.
// Then Apply gives an error that wraps [memory.ErrStore], and the batch may have
// been applied.
//
// A call ends at the deadline of its context even if the server hangs. A context
// that is cancelled without a deadline is heeded between the steps of a call; one
// step ends after the read timeout, 10 seconds if the URL does not say otherwise.
package redisstore
