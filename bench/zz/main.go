package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	_ "modernc.org/sqlite"
)

func main() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "zz")
	defer os.RemoveAll(dir)
	d, err := sqlitestore.Open(ctx, dir+"/a.db", &sqlitestore.Options{Synchronous: sqlitestore.Normal})
	if err != nil {
		panic(err)
	}
	s, _ := memory.New(d, keyring.Ephemeral(), nil)
	n := 2000
	words := strings.Fields("the quick brown fox jumps over lazy dogs while seventeen purple elephants negotiate contracts about wonderful maritime insurance policies")
	for i := range n {
		text := ""
		for j := 0; len(text) < 190; j++ {
			text += words[(i*7+j*3)%len(words)] + fmt.Sprint(i%50) + " "
		}
		text += fmt.Sprint(i)
		r, err := s.Put(ctx, memory.Draft{Content: memory.Content{Text: text, Cardinality: memory.CardinalityUnknown}, Origin: memory.OriginModelDerived, State: memory.StateUnverified,
			Asserter: memory.Asserter{Principal: "ana", Model: "sonnet", Family: "claude"}, Sensitivity: memory.SensitivityInternal})
		if err != nil {
			panic(err)
		}
		ev := memory.Evidence{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "crm", Group: "tool:crm", Anchor: memory.Anchor{URI: "crm:customer/" + fmt.Sprint(i)}, At: time.Now()}
		rev := r.Revision
		for k, to := range []memory.AxisValue{memory.TruthSupported, memory.TruthUnverified, memory.TruthSupported} {
			tr := memory.Transition{Row: r.ID, Revision: rev, To: to, Authority: memory.AuthorityProbe, Actor: "worker:host-1", Source: "crm", Reason: "the crm says so"}
			if k != 1 {
				ev.Anchor.Version = fmt.Sprint(k)
				tr.Evidence = []memory.Evidence{ev}
			}
			h, err := s.Apply(ctx, tr)
			if err != nil {
				panic(err)
			}
			rev = h.Revision
		}
	}
	d.Compact(ctx)
	fi, _ := os.Stat(dir + "/a.db")
	fmt.Println("bytes per row", fi.Size()/int64(n))
	db, _ := sql.Open("sqlite", dir+"/a.db")
	for _, q := range []string{
		"select substr(cast(key as text),1,5), count(*), sum(length(key)), sum(length(data)) from object group by 1",
		"select substr(cast(key as text),1,5), count(*), sum(length(key)), sum(length(data)) from log group by 1",
		"select case when instr(cast(name as text),'=')>0 then substr(cast(name as text),1,instr(cast(name as text),'=')) else cast(name as text) end, count(*), sum(length(key)), sum(length(name)) from term group by 1",
	} {
		rows, err := db.Query(q)
		if err != nil {
			panic(err)
		}
		for rows.Next() {
			var a string
			var c, k, dd int
			rows.Scan(&a, &c, &k, &dd)
			fmt.Printf("%-8q n/row %.2f key/row %.0f data/row %.0f\n", a, float64(c)/float64(n), float64(k)/float64(n), float64(dd)/float64(n))
		}
	}
}
