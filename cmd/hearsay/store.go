package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit/witnesshttp"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storeurl"
	"github.com/hearsay-go/hearsay/memory/visible"
)

// storeFlags are the flags of every command that opens a store.
type storeFlags struct{ url, keyring, tenant, namespace, maintenance, policy string }

func addStoreFlags(cmd *cobra.Command) *storeFlags {
	f := &storeFlags{}
	cmd.PersistentFlags().StringVar(&f.url, "store", "", "the store: sqlite:PATH, redis://…, rediss://… or postgres://… (or HEARSAY_STORE)")
	cmd.PersistentFlags().StringVar(&f.keyring, "keyring", "", "the store's keys: a folder, or postgres://… (or HEARSAY_KEYRING; default PATH.keys of a SQLite file)")
	cmd.PersistentFlags().StringVar(&f.tenant, "tenant", "", "the tenant whose rows to see (or HEARSAY_TENANT; default \"default\")")
	cmd.PersistentFlags().StringVar(&f.maintenance, "maintenance-url", "", "of a PostgreSQL store, where the owner of its tables connects to, for compaction (or HEARSAY_MAINTENANCE_URL)")
	cmd.PersistentFlags().StringVar(&f.namespace, "namespace", "", "the tenant's namespace (or HEARSAY_NAMESPACE)")
	return f
}

// open opens the store that the flags name. It makes none: a mistyped path is an
// error, not an empty memory. o gives what is not in the flags; nil is usable.
func (a *app) open(ctx context.Context, f *storeFlags, o *memory.Options) (*memory.Store, error) {
	url, options, err := a.storeOptions(f)
	if err != nil {
		return nil, err
	}
	if o != nil {
		options.Authority = o.Authority
	}
	return a.openURL(ctx, url, options)
}

// openOrMake opens the store that the flags name, for a command whose calls fire: with
// its witness, if it has one.
func (a *app) openOrMake(ctx context.Context, f *storeFlags) (*memory.Store, error) {
	url, options, err := a.storeOptions(f)
	if err != nil {
		return nil, err
	}
	options.Existing, options.Unwitnessed = false, false
	return a.openURL(ctx, url, options)
}

func (a *app) openURL(ctx context.Context, url string, options *storeurl.Options) (*memory.Store, error) {
	if path := a.getenv(witnessVariable); path != "" {
		w, err := witnesshttp.Open(ctx, path, a.getenv) // open until the command ends
		if err != nil {
			return nil, err
		}
		options.Witness = w.Ledger(tenantOf(options.Tenant), options.Namespace)
	}
	return storeurl.Open(ctx, url, options)
}

// witnessVariable names the witness of demotions and erasures: a file, or the URL of a server.
const witnessVariable = "HEARSAY_WITNESS"

// auditKeysVariable has the audit keys, where they are not in the keyring's folder.
const auditKeysVariable = "HEARSAY_AUDIT_KEYS"

func (a *app) auditKeys() ([]keyring.AuditKey, error) {
	text := a.getenv(auditKeysVariable)
	if text == "" {
		return nil, nil
	}
	keys, err := keyring.ParseAuditKeys(text)
	if err != nil {
		return nil, usage("%s: %w", auditKeysVariable, err)
	}
	return keys, nil
}

// wrappingVariable names the key that the keyring is wrapped under.
const wrappingVariable = "HEARSAY_WRAPPING_KEY"

// keyringOptions are what the environment says of a keyring.
func (a *app) keyringOptions() (*keyring.Options, error) {
	auditKeys, err := a.auditKeys()
	if err != nil {
		return nil, err
	}
	o := &keyring.Options{AuditKeys: auditKeys}
	if text := a.getenv(wrappingVariable); text != "" {
		if o.Wrapping, err = keyring.ParseWrapping(text); err != nil {
			return nil, fmt.Errorf("%s: %w", wrappingVariable, err)
		}
	}
	return o, nil
}

func tenantOf(name string) string { return cmp.Or(name, "default") }

// storeOptions are what flags and environment say of the store.
func (a *app) storeOptions(f *storeFlags) (url string, o *storeurl.Options, err error) {
	or := func(flag, variable string) string {
		if flag == "" {
			return a.getenv(variable)
		}
		return flag
	}
	url = or(f.url, "HEARSAY_STORE")
	if url == "" {
		return "", nil, usage("no store: give --store sqlite:PATH or set HEARSAY_STORE")
	}
	keys, err := a.keyringOptions()
	if err != nil {
		return "", nil, err
	}
	predicates, err := registry(or(f.policy, "HEARSAY_POLICY"))
	if err != nil {
		return "", nil, err
	}
	return url, &storeurl.Options{Existing: true, Unwitnessed: true, AuditKeys: keys.AuditKeys, Wrapping: keys.Wrapping, Keyring: or(f.keyring, "HEARSAY_KEYRING"), MaintenanceURL: or(f.maintenance, "HEARSAY_MAINTENANCE_URL"),
		Options: memory.Options{Tenant: or(f.tenant, "HEARSAY_TENANT"), Namespace: or(f.namespace, "HEARSAY_NAMESPACE"), Clock: a.now, Predicates: predicates},
		Waiting: func(waited time.Duration) {
			fmt.Fprintf(a.talk, "waiting for the store for %s: it does not answer, or another process has locked it\n", waited.Round(time.Second))
		}}, nil
}

// registry is what a policy file says of predicates; "" = nothing.
func registry(path string) (map[string]memory.Predicate, error) {
	if path == "" {
		return nil, nil
	}
	b, err := readPolicy(path)
	if err != nil {
		return nil, err
	}
	p, err := gate.ParsePolicy(b)
	if err != nil {
		return nil, usage("%s: %w", path, err)
	}
	return p.Registry(), nil
}

// command is a command that is printed, with what was given by flags and not by the environment,
// so that it runs as it stands. trusted is the flag of the trusted keys.
func (a *app) command(f *storeFlags, trusted, text string) string {
	if text == "" {
		return ""
	}
	if strings.Contains(text, " --key FILE") {
		switch {
		case trusted != "":
			text += " --trusted-keys " + word(trusted)
		case a.getenv("HEARSAY_TRUSTED_KEYS") == "":
			text += " --trusted-keys FILE"
		}
	}
	for _, flag := range [...]struct{ name, value string }{{"store", f.url}, {"keyring", f.keyring}, {"tenant", f.tenant}, {"namespace", f.namespace}} {
		if flag.value == "" {
			continue
		}
		if secretive(flag.value) {
			flag.value = "URL"
		}
		text += " --" + flag.name + " " + word(flag.value)
	}
	return text
}

// secretive reports whether the address of a store may have a password in it, which is printed
// nowhere.
func secretive(address string) bool {
	if strings.Contains(strings.ToLower(address), "password") {
		return true
	}
	u, err := url.Parse(address)
	if err != nil {
		return strings.Contains(address, "://")
	}
	_, secret := u.User.Password()
	return secret
}

// word is a text as a shell takes it for one word.
func word(s string) string {
	if len(s) > maxMessage || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		s = oneLine(s, maxMessage)
	}
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+,=") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
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
	return a.write(string(visible.JSON(b)) + "\n")
}
