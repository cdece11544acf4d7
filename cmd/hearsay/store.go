package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
)

// storeFlags are the flags of every command that opens a store.
type storeFlags struct{ url, tenant string }

func addStoreFlags(cmd *cobra.Command) *storeFlags {
	f := &storeFlags{}
	cmd.PersistentFlags().StringVar(&f.url, "store", "", "the store, as sqlite:PATH (or HEARSAY_STORE)")
	cmd.PersistentFlags().StringVar(&f.tenant, "tenant", "", "the tenant whose rows to see (or HEARSAY_TENANT; default \"default\")")
	return f
}

// open opens the store that the flags name. It makes none: a mistyped path is an
// error, not an empty memory. o gives what is not in the flags; nil is usable.
func (a *app) open(ctx context.Context, f *storeFlags, o *memory.Options) (*memory.Store, error) {
	url, tenant := f.url, f.tenant
	if url == "" {
		url = a.getenv("HEARSAY_STORE")
	}
	if tenant == "" {
		tenant = a.getenv("HEARSAY_TENANT")
	}
	if url == "" {
		return nil, usage("no store: give -store sqlite:PATH or set HEARSAY_STORE")
	}
	scheme, path, ok := strings.Cut(url, ":")
	switch {
	case !ok || scheme != "sqlite":
		return nil, usage("-store: want sqlite:PATH; no other store is supported") // url may hold a password
	case path == "":
		return nil, usage("-store sqlite: needs a path, as in sqlite:agent.db")
	}
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fail(exitUnreachable, "no store at %s: the worker, or the program that writes rows, makes it", path)
	} else if err != nil {
		return nil, fail(exitUnreachable, "the store cannot be reached: %w", err)
	} else if info.IsDir() {
		return nil, usage("-store sqlite:%s: it is a folder, not a file", path)
	}
	driver, err := sqlitestore.Open(ctx, path, &sqlitestore.Options{ReadConns: 2})
	if err != nil {
		return nil, err
	}
	options := memory.Options{Tenant: tenant, Clock: a.now}
	if o != nil {
		options.Authority = o.Authority
	}
	return memory.New(driver, &options), nil
}

// minShortID is the fewest characters that may stand for an id.
const minShortID = 4

// resolve finds the row that an argument names: an id, or a unique beginning or
// end of one, with or without "mem_" and the ellipsis that tables print.
func resolve(ctx context.Context, s *memory.Store, arg string) (memory.Row, error) {
	if id := memory.ID(arg); id.Valid() {
		rows, err := s.Get(ctx, id)
		if err != nil {
			return memory.Row{}, err
		}
		return rows[0], nil
	}
	part := strings.Trim(strings.TrimPrefix(arg, "mem_"), "…")
	part = strings.TrimPrefix(part, "mem_")
	if len(part) < minShortID || strings.Trim(part, "0123456789abcdefghijklmnopqrstuv") != "" {
		return memory.Row{}, usage("%q is no row id, and no beginning or end of one (at least %d of 0-9 a-v)", arg, minShortID)
	}
	var found []memory.Row
	for r, err := range s.Rows(ctx, memory.Filter{}) {
		if err != nil {
			return memory.Row{}, err
		}
		id := strings.TrimPrefix(string(r.ID), "mem_")
		if strings.HasPrefix(id, part) || strings.HasSuffix(id, part) {
			if found = append(found, r); len(found) > 5 {
				break
			}
		}
	}
	switch len(found) {
	case 0:
		return memory.Row{}, fail(exitNotFound, "no row %q", arg)
	case 1:
		return found[0], nil
	}
	ids := make([]string, 0, len(found))
	for _, r := range found {
		ids = append(ids, string(r.ID))
	}
	slices.Sort(ids)
	return memory.Row{}, usage("%q may be any of %s", arg, strings.Join(ids, ", "))
}

// emit prints a value as JSON: stable names, two spaces, a newline at the end.
func (a *app) emit(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot write JSON: %w", err)
	}
	return a.write(string(visibleJSON(b)) + "\n")
}
