package memory

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// Maintenance is what a driver must be able to do for an operator: rebuild what
// is a projection, erase, compact, and say what it promises. No call of an agent
// goes through it, and it knows no rule either. The package memory/storetest asks
// it of every driver.
type Maintenance interface {
	// Tenants must list the tenants that have an object or a log entry, in
	// ascending memcmp order, after a tenant ("" = from the start). next is ""
	// at the end.
	Tenants(ctx context.Context, after string, limit int) (tenants []string, next string, err error)

	// Logs must list the keys of a tenant that begin with prefix and have a log
	// entry, in ascending memcmp order, after a key ("" = from the start). What
	// stays put while a caller pages must be listed exactly once. It must not
	// lean on terms or objects: those may be lost.
	Logs(ctx context.Context, tenant, prefix, after string, limit int) (keys []string, next string, err error)

	// Scan must list the log entries of all keys of a tenant that begin with prefix,
	// in ascending order of key (memcmp) and revision, after a place (the zero value
	// = from the start), at most limit of them. A page must end once its data come to
	// MaxBatchBytes, and may end earlier, but not without an entry if there is one;
	// more says whether others follow the last one given. What stays put while a
	// caller pages must be listed exactly once, whatever is inserted meanwhile. It
	// must not lean on terms or objects, and should take as many round trips for a
	// page of a thousand keys as for one.
	Scan(ctx context.Context, tenant, prefix string, after LogPlace, limit int) (entries []Logged, more bool, err error)

	// Objects must list the objects of a tenant whose keys begin with prefix, each with
	// the terms that are kept beside it, in any order: tombstones too, and what is there
	// without a log. What stays put must be listed exactly once, whatever is written
	// meanwhile. An object that cannot be read must be listed by its key, with an error
	// that wraps [ErrDamaged], and the listing goes on; any other error ends it. It must
	// not hold up writers, nor more than some thousand objects in memory. Of a term whose
	// name is longer than 512 bytes the name may be what the driver keeps of it.
	Objects(ctx context.Context, tenant, prefix string) iter.Seq2[Restored, error]

	// Carriers must list the index of terms of a tenant, those terms whose names begin
	// with prefix: what [Driver].Query would find, line by line, whether or not there is
	// such an object. For the rest it is as Objects is; a line that cannot be read must
	// be listed by its term.
	Carriers(ctx context.Context, tenant, prefix string) iter.Seq2[Carrier, error]

	// Restore must set objects outright, all or none, whatever is there now: the
	// revision, the data, and exactly these terms. Revision 0 removes the object
	// with its terms, as if it had never been written; its log stays. The caps of
	// [Batch] hold: a larger list must give [ErrTooLarge].
	Restore(ctx context.Context, tenant string, objects []Restored) error

	// Rewrite must replace the data of log entries of one key, all or none: erasure
	// strips payloads, compaction packs. Each entry must still hold what the caller
	// says that it was, byte by byte, in the same transaction; an entry that holds anything
	// else, or is not there, must give a [*ConflictError] naming the key, with nothing
	// written. So of two rewrites that read the same log, the second one to write
	// knows that it has to read again.
	Rewrite(ctx context.Context, tenant, key string, entries []Rewritten) error

	// Compact must overwrite what was deleted or replaced, as far as the driver can
	// see to it: afterwards, bytes that no object, term or entry holds are in none
	// of the store's files. It may take long, and calls may wait for it.
	Compact(ctx context.Context) error

	// Inspect must say what the store behind the driver is and what it promises,
	// setting by setting.
	Inspect(ctx context.Context) (Inspection, error)
}

// LogPlace is a place among the log entries of a tenant: just after the entry of
// Key at Revision, whether or not there is one. The zero value is before all.
type LogPlace struct {
	Key      string
	Revision uint64
}

// From is where a listing of what begins with prefix goes on: here, or where the
// prefix begins if that is further on.
func (p LogPlace) From(prefix string) LogPlace {
	if p.Key < prefix {
		return LogPlace{Key: prefix}
	}
	return p
}

// Logged is a log entry and the key whose log it is in.
type Logged struct {
	Key string
	LogEntry
}

// Place is just after the entry.
func (l *Logged) Place() LogPlace { return LogPlace{l.Key, l.Revision} }

// Carrier is a line of the index of terms: what is at Key carries the term.
type Carrier struct {
	Term
	Key string
}

// Restored is the whole state of one object, for [Maintenance].Restore.
type Restored struct {
	Object
	Terms []Term
}

// Rewritten is a log entry that is to change, for [Maintenance].Rewrite.
type Rewritten struct {
	LogEntry        // Data is what it is to hold; nil removes it
	Was      []byte // what it holds now; nil is what no entry holds
}

// Inspection is what a driver says of the server or file behind it.
type Inspection struct {
	Server   string    // name and version: "PostgreSQL 15.18"
	Promise  string    // what an acknowledged batch outlives, in a sentence
	Findings []Finding // in a fixed order, safe ones included
	// Clock is the server's clock when it was asked; zero if what is behind the driver
	// has none of its own.
	Clock time.Time
}

// Finding is one setting and what it means for what was acknowledged.
type Finding struct {
	Name  string // the setting, as the server calls it: "appendfsync"
	Found string // its value: "everysec"
	Safe  bool   // an acknowledged batch is not lost or changed by it
	Loss  string // if it is not safe: what would be lost, and when
	Fix   string // if it is not safe: what to set
}

// Unsafe returns the findings that are not safe.
func (i Inspection) Unsafe() []Finding {
	var out []Finding
	for _, f := range i.Findings {
		if !f.Safe {
			out = append(out, f)
		}
	}
	return out
}

// CheckRestored validates a list for [Maintenance].Restore against the contract:
// caps, empty or repeated keys. Drivers call it first, so that all refuse alike.
func CheckRestored(objects []Restored) error {
	puts := make([]Put, len(objects))
	for i, o := range objects {
		if o.Revision == 0 && (o.Data != nil || len(o.Terms) > 0) {
			return fmt.Errorf("%w: key %q is removed and has data or terms", ErrInvalidBatch, o.Key)
		}
		puts[i] = Put{Key: o.Key, Data: o.Data, Add: o.Terms}
	}
	return Batch{Puts: puts}.Check()
}

// CheckPage validates the limit of a listing.
func CheckPage(limit int) error {
	if limit < 1 || limit > MaxQueryLimit {
		return fmt.Errorf("%w: limit %d, want 1 to %d", ErrInvalidBatch, limit, MaxQueryLimit)
	}
	return nil
}

// CheckRewrite validates a list for [Maintenance].Rewrite against the contract.
//
// What the entries are to hold may be as large as a batch, and what they were may be so
// too.
func CheckRewrite(key string, entries []Rewritten) error {
	if key == "" {
		return fmt.Errorf("%w: rewrite of an empty key", ErrInvalidBatch)
	}
	if len(entries) > MaxBatchOps {
		return fmt.Errorf("%w: %d entries, at most %d", ErrTooLarge, len(entries), MaxBatchOps)
	}
	size, was := 0, 0
	for i, e := range entries {
		if e.Revision == 0 || i > 0 && e.Revision <= entries[i-1].Revision {
			return fmt.Errorf("%w: revisions to rewrite do not ascend", ErrInvalidBatch)
		}
		size, was = size+len(e.Data), was+len(e.Was)
	}
	if size = max(size, was); size > MaxBatchBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, MaxBatchBytes)
	}
	return nil
}
