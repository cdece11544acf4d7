//go:build unix

package teststore

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/jackc/pgx/v5"
)

func init() { kinds, openers["postgres"] = append(kinds, "postgres"), openPostgres }

var postgres *server.PostgresServer // nil: not started

func openPostgres(t testing.TB, n int) (memory.Driver, error) {
	ctx := context.WithoutCancel(t.Context())
	if postgres == nil {
		s, err := startPostgres(ctx)
		if err != nil {
			return nil, err
		}
		postgres = s
		stops = append(stops, func() error {
			postgres = nil
			return s.Stop(context.Background())
		})
	}
	o := &pgstore.Options{Schema: fmt.Sprintf("store_%d", n), Role: "app", MaintenanceURL: postgres.URL()}
	if _, err := pgstore.Migrate(ctx, postgres.URL(), o); err != nil {
		return nil, err
	}
	return pgstore.Open(ctx, postgres.RuntimeURL("app"), o)
}

// startPostgres starts a server with the role app, as which drivers connect.
func startPostgres(ctx context.Context) (*server.PostgresServer, error) {
	s, err := server.Postgres(ctx, "fsync=off")
	if err != nil {
		return nil, err
	}
	c, err := pgx.Connect(ctx, s.URL())
	if err == nil {
		_, err = c.Exec(ctx, `CREATE ROLE app LOGIN`)
		err = errors.Join(err, c.Close(ctx))
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop(ctx))
	}
	return s, nil
}
