package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory/pgstore"
)

// migrationsJSON is the output of migrate status and migrate up.
type migrationsJSON struct {
	Schema     string          `json:"schema"` // hearsay.migrations/1
	Migrations []migrationJSON `json:"migrations"`
}

type migrationJSON struct {
	Version int       `json:"version"`
	Name    string    `json:"name"`
	Applied time.Time `json:"applied_at,omitzero"`
}

func (a *app) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make and update the tables of a PostgreSQL store",
		Long: `migrate makes the tables of a store in PostgreSQL, and brings them to the version of
this program. Programs never do that by themselves: they refuse tables that are behind,
ahead or altered. Migrations only go forward.

The URL is of the owner of the tables. Let programs connect as another role, which
--role grants what they need: a plain one, neither owner nor superuser, so that
row-level security holds for it.`,
		Example: "  hearsay migrate up --store postgres://owner@db/hearsay --role app",
		RunE:    subcommandWanted,
		Args:    cobra.ArbitraryArgs,
	}
	var o pgstore.Options
	var url string
	cmd.PersistentFlags().StringVar(&url, "store", "", "the database: postgres://OWNER@HOST/DATABASE (or HEARSAY_MAINTENANCE_URL)")
	cmd.PersistentFlags().StringVar(&o.Schema, "schema", "", "the schema that holds the tables (default hearsay); programs name another in their URL, as in postgres://app@db/hearsay?schema=NAME")
	database := func() (string, error) {
		if url == "" {
			url = a.getenv("HEARSAY_MAINTENANCE_URL")
		}
		if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
			return "", usage("migrate: want --store postgres://OWNER@HOST/DATABASE; a SQLite file needs no migration")
		}
		return url, nil
	}

	status := &cobra.Command{Use: "status", Short: "List the migrations, and when each was applied", Example: "  hearsay migrate status --store postgres://owner@db/hearsay", Args: args()}
	statusOutput := outputFlag(status)
	status.RunE = func(cmd *cobra.Command, _ []string) error {
		url, err := database()
		if err != nil {
			return err
		}
		list, err := pgstore.Status(cmd.Context(), url, &o)
		if err != nil {
			return err
		}
		found := migrationsJSON{"hearsay.migrations/1", []migrationJSON{}}
		for _, m := range list {
			found.Migrations = append(found.Migrations, migrationJSON{m.Version, m.Name, m.Applied})
		}
		return a.migrations(found, *statusOutput)
	}

	up := &cobra.Command{Use: "up", Short: "Bring the tables to this program's version", Example: "  hearsay migrate up --store postgres://owner@db/hearsay --role app", Args: args()}
	up.Flags().StringVar(&o.Role, "role", "", "the role that programs connect as; it is granted what they need")
	upOutput := outputFlag(up)
	up.RunE = func(cmd *cobra.Command, _ []string) error {
		url, err := database()
		if err != nil {
			return err
		}
		ran, err := pgstore.Migrate(cmd.Context(), url, &o)
		if err != nil {
			return err
		}
		list, err := pgstore.Status(cmd.Context(), url, &o)
		if err != nil {
			return err
		}
		found := migrationsJSON{"hearsay.migrations/1", []migrationJSON{}}
		for _, m := range list[len(list)-len(ran):] { // the last ones, since they only go forward
			found.Migrations = append(found.Migrations, migrationJSON{m.Version, m.Name, m.Applied})
		}
		fmt.Fprintf(a.talk, "%s applied\n", plural(len(ran), "migration"))
		return a.migrations(found, *upOutput)
	}

	from := 0
	sql := &cobra.Command{
		Use:     "sql",
		Short:   "Print what up would run, for psql",
		Example: "  hearsay migrate sql | psql hearsay",
		Args:    args(),
		RunE: func(*cobra.Command, []string) error {
			text, err := pgstore.SQL(from, &o)
			if err != nil {
				return err
			}
			return a.write(text)
		},
	}
	sql.Flags().IntVar(&from, "from", 0, "the version that the tables are at; 0 = there are none")
	sql.Flags().StringVar(&o.Role, "role", "", "the role that programs connect as; it is granted what they need")
	cmd.AddCommand(status, up, sql)
	return cmd
}

func (a *app) migrations(found migrationsJSON, o output) error {
	if o == asJSON {
		return a.emit(found)
	}
	t := table{head: []string{"VERSION", "NAME", "APPLIED"}}
	for _, m := range found.Migrations {
		applied := "no"
		if !m.Applied.IsZero() {
			applied = moment(m.Applied)
		}
		t.add("", fmt.Sprint(m.Version), m.Name, applied)
	}
	if len(found.Migrations) == 0 {
		return nil
	}
	return a.print(&t)
}
