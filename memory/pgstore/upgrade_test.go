//go:build unix

package pgstore_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/jackc/pgx/v5"
)

// first brings a schema to version 1 as a program of then did.
func first(t *testing.T, c *pgx.Conn, o *pgstore.Options) {
	t.Helper()
	all, err1 := pgstore.SQL(0, o)
	rest, err2 := pgstore.SQL(1, o)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	_, head, _ := strings.Cut(all, "\n") // a line for psql
	_, tail, _ := strings.Cut(rest, "\n")
	script, ok := strings.CutSuffix(head, tail)
	if !ok {
		t.Fatal("the script of all versions does not end with that of the later ones")
	}
	s := o.Schema
	exec1(t, c, script+`GRANT USAGE ON SCHEMA `+s+` TO app; GRANT SELECT ON `+s+`.hearsay_migration TO app; GRANT SELECT, INSERT ON `+s+`.tenant TO app;
		GRANT SELECT, INSERT, UPDATE, DELETE ON `+s+`.object, `+s+`.log, `+s+`.term TO app;
		GRANT SELECT ON `+s+`.log TO other`)
}

// firstly writes a batch that makes objects, as version 1 kept them.
func firstly(t *testing.T, c *pgx.Conn, schema, tenant string, b memory.Batch) {
	t.Helper()
	exec1(t, c, `SET search_path = `+schema)
	var all pgx.Batch
	name, long := pgstore.Fold(tenant)
	all.Queue(`SELECT set_config('hearsay.tenant', $1::bytea::text, false)`, name)
	all.Queue(`INSERT INTO tenant VALUES ($1, $2) ON CONFLICT DO NOTHING`, name, long)
	for _, p := range b.Puts {
		key, longKey := pgstore.Fold(p.Key)
		all.Queue(`INSERT INTO object VALUES ($1, $2, $3, 1, $4)`, name, key, longKey, p.Data)
		if p.Entry != nil {
			all.Queue(`INSERT INTO log VALUES ($1, $2, $3, 1, $4)`, name, key, longKey, p.Entry)
		}
		for _, term := range p.Add {
			folded, _ := pgstore.Fold(term.Name)
			all.Queue(`INSERT INTO term VALUES ($1, $2, $3, $4, $5)`, name, folded, binary.BigEndian.AppendUint64(nil, term.Sort), key, longKey)
		}
	}
	all.Queue(`SELECT set_config('hearsay.tenant', '', false)`)
	if err := c.SendBatch(t.Context(), &all).Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAStoreOfTheFirstVersionHoldsWhatItHeldAfterMigrating(t *testing.T) {
	t.Parallel()
	seed := testmain.Drawn(t)
	random := rand.New(rand.NewPCG(seed, 0))
	o := fresh(t)
	o.Role = "" // the rights that were granted then are kept
	owner := connect(t, shared, "owner")
	first(t, owner, o)
	refused(t, o, memory.ErrSchema, "run `hearsay migrate up`")

	text := func(most int) string {
		b := make([]byte, 1+random.IntN(most))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return string(b)
	}
	names := []string{"t", text(10), text(126) + "x", strings.Repeat("n", 127), strings.Repeat("n", 128), strings.Repeat("n", 300), strings.Repeat("n", 768), strings.Repeat("n", 769), text(3000)}
	reference := storetest.NewMap()
	defer reference.Close()
	tenants := []string{"", "a", "tenant\x00", strings.Repeat("long", 300)}
	written := map[string]memory.Batch{}
	terms := 0
	for _, tenant := range tenants {
		var b memory.Batch
		for i := range 60 {
			size := 12
			if i%7 == 0 {
				size = 2000
			}
			p := memory.Put{Key: fmt.Sprint(i) + text(size)}
			if i%3 > 0 {
				p.Data = []byte(text(400))
			}
			if i%4 > 0 {
				p.Entry = []byte(text(400))
			}
			for n := range random.IntN(len(names)) {
				p.Add = append(p.Add, memory.Term{Name: names[n], Sort: random.Uint64() >> random.IntN(64)})
				terms++
			}
			b.Puts = append(b.Puts, p)
		}
		written[tenant] = b
		firstly(t, owner, o.Schema, tenant, b)
		if err := reference.Apply(t.Context(), tenant, b); err != nil {
			t.Fatal(err)
		}
	}
	ran, err := pgstore.Migrate(t.Context(), shared.RuntimeURL("owner"), o)
	if err != nil || len(ran) != len(pgstore.Migrations())-1 {
		t.Fatalf("%d migrations ran (%v)", len(ran), err)
	}
	d := open(t, shared, o)
	defer d.Close()

	compared := 0
	same := func(words string, ask func(d memory.Driver) (any, error)) {
		t.Helper()
		got, err1 := ask(d)
		want, err2 := ask(reference)
		if err1 != nil || err2 != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s differ (%v, %v)", words, err1, err2)
		}
		compared++
	}
	compare := func() {
		t.Helper()
		same("tenants", func(d memory.Driver) (any, error) {
			list, _, err := d.Tenants(t.Context(), "", 100)
			return list, err
		})
		for _, tenant := range tenants {
			var keys []string
			for _, p := range written[tenant].Puts {
				keys = append(keys, p.Key)
				same("histories", func(d memory.Driver) (any, error) { return d.History(t.Context(), tenant, p.Key, 0, 10) })
			}
			same("objects", func(d memory.Driver) (any, error) { return d.Get(t.Context(), tenant, keys) })
			same("logs", func(d memory.Driver) (any, error) {
				list, _, err := d.Logs(t.Context(), tenant, "", "", 1000)
				return list, err
			})
			for _, name := range names {
				same("carriers", func(d memory.Driver) (any, error) {
					list, _, err := d.Query(t.Context(), tenant, memory.Query{Term: name, Limit: 1000})
					return list, err
				})
			}
		}
	}
	compare()
	// And it can be written to: terms are moved, taken away and added.
	for _, tenant := range tenants {
		var b memory.Batch
		var gone []memory.Restored
		for i, p := range written[tenant].Puts {
			next := memory.Put{Key: p.Key, From: 1, Data: []byte("next"), Entry: []byte("next")}
			for n, term := range p.Add {
				switch (n + i) % 3 {
				case 0:
					next.Remove = append(next.Remove, term.Name)
				case 1:
					next.Add = append(next.Add, memory.Term{Name: term.Name, Sort: term.Sort ^ uint64(i%2)})
				}
			}
			next.Add = append(next.Add, memory.Term{Name: "new", Sort: uint64(i)})
			b.Puts = append(b.Puts, next)
			if i%5 == 0 {
				gone = append(gone, memory.Restored{Object: memory.Object{Key: p.Key}})
			}
		}
		for _, d := range []memory.Driver{d, reference} {
			if err := d.Apply(t.Context(), tenant, b); err != nil {
				t.Fatal(err)
			}
			if err := d.Restore(t.Context(), tenant, gone); err != nil {
				t.Fatal(err)
			}
		}
	}
	names = append(names, "new")
	compare()
	t.Logf("%d objects with %d terms were moved, %d answers compared", len(tenants)*60, terms, compared)
	if compared == 0 || terms == 0 {
		t.Fatal("nothing was compared")
	}

	// No table of before is left, and the walls stand.
	var tables, walls, others int
	err = owner.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE relrowsecurity AND relforcerowsecurity),
		count(*) FILTER (WHERE has_table_privilege('other', oid, 'SELECT')) FROM pg_class
		WHERE relnamespace = $1::text::regnamespace AND relkind = 'r'`, o.Schema).Scan(&tables, &walls, &others)
	if err != nil || tables != 5 || walls != 3 || others != 1 {
		t.Fatalf("%d tables, %d with a wall, %d that another role may read (%v)", tables, walls, others, err)
	}
}
