package keyring

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// SchemaVersion is the version of the tables that [Schema] makes.
const SchemaVersion = 1

// Schema is what makes the tables of a ring in an empty database. bytes is what the
// database calls a column of bytes.
func Schema(bytes string) []string {
	list := []string{
		`CREATE TABLE ring (one BIGINT PRIMARY KEY CHECK (one = 1), id BYTES NOT NULL, revision BIGINT NOT NULL, epoch BIGINT NOT NULL,
			version TEXT NOT NULL, inner_key BYTES NOT NULL, root BYTES NOT NULL, audit BYTES NOT NULL, watch BYTES NOT NULL, dropped BIGINT NOT NULL)`,
		`CREATE TABLE data_key (id BYTES PRIMARY KEY, subject BYTES, retired BIGINT NOT NULL, sealed BYTES, epoch BIGINT NOT NULL, version TEXT NOT NULL)`,
		`CREATE UNIQUE INDEX data_key_subject ON data_key (subject)`,
		`CREATE TABLE holder (name TEXT PRIMARY KEY, epoch BIGINT NOT NULL, seen BIGINT NOT NULL)`,
	}
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], "BYTES", bytes)
	}
	return list
}

// Statements is a [Tx] over a transaction of a database that has the tables of [Schema].
// Its statements are those that SQLite and PostgreSQL both understand; each runs until
// ctx ends.
func Statements(ctx context.Context, tx *sql.Tx) Tx { return statements{ctx, tx} }

type statements struct {
	ctx context.Context // of the one call of Do that it lives for
	tx  *sql.Tx
}

// background is the context of what is not given up half way.
var background = context.Background()

func (s statements) exec(text string, args ...any) error {
	_, err := s.tx.ExecContext(s.ctx, text, args...)
	return err
}

func (s statements) State() (st State, ok bool, err error) {
	var id []byte
	err = s.tx.QueryRowContext(s.ctx, `SELECT id, revision, epoch, version, inner_key, root, audit, watch, dropped FROM ring WHERE one = 1`).
		Scan(&id, &st.Revision, &st.Epoch, &st.Version, &st.Inner, &st.Root, &st.Audit, &st.Watch, &st.Dropped)
	if errors.Is(err, sql.ErrNoRows) {
		return State{}, false, nil
	}
	if err != nil {
		return State{}, false, err
	}
	if len(id) != len(st.ID) {
		return State{}, false, fmt.Errorf("%w: the id of the ring", ErrDamaged)
	}
	st.ID = [16]byte(id)
	return st, true, nil
}

func (s statements) SetState(st State) error {
	return s.exec(`INSERT INTO ring (one, id, revision, epoch, version, inner_key, root, audit, watch, dropped) VALUES (1, $1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (one) DO UPDATE SET id = excluded.id, revision = excluded.revision, epoch = excluded.epoch, version = excluded.version, inner_key = excluded.inner_key,
		root = excluded.root, audit = excluded.audit, watch = excluded.watch, dropped = excluded.dropped`,
		st.ID[:], st.Revision, st.Epoch, st.Version, st.Inner, st.Root, st.Audit, st.Watch, st.Dropped)
}

// atOnce is how many values one statement takes.
const atOnce = 256

func number(id memory.KeyID) []byte { return binary.BigEndian.AppendUint64(nil, uint64(id)) }

func (s statements) Find(ids ...memory.KeyID) ([]Entry, error) {
	values := make([]any, len(ids))
	for i, id := range ids {
		values[i] = number(id)
	}
	return s.among("id", values)
}

func (s statements) Of(tokens ...Token) ([]Entry, error) {
	values := make([]any, len(tokens))
	for i := range tokens {
		values[i] = tokens[i][:]
	}
	return s.among("subject", values)
}

const selectEntries = `SELECT id, subject, retired, sealed, epoch, version FROM data_key WHERE `

func (s statements) among(column string, values []any) (list []Entry, err error) {
	for part := range slices.Chunk(values, atOnce) {
		some, err := s.entries(selectEntries+column+` IN (`+places(1, len(part))+`)`, part...)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

// places are the places of n values, the first of which has a number.
func places(first, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("$" + strconv.Itoa(first+i))
	}
	return b.String()
}

func (s statements) entries(text string, args ...any) (list []Entry, err error) {
	rows, err := s.tx.QueryContext(s.ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := rows.Close(); err == nil {
			err = closeErr
		}
	}()
	for rows.Next() {
		var (
			e       Entry
			id, of  []byte
			retired int64
		)
		if err := rows.Scan(&id, &of, &retired, &e.Sealed, &e.Epoch, &e.Version); err != nil {
			return nil, err
		}
		if len(id) != 8 || of != nil && len(of) != len(e.Of) {
			return nil, fmt.Errorf("%w: an entry", ErrDamaged)
		}
		e.ID, e.Retired = memory.KeyID(binary.BigEndian.Uint64(id)), retired != 0
		copy(e.Of[:], of)
		list = append(list, e)
	}
	return list, rows.Err()
}

func (s statements) Insert(entries ...Entry) error { return s.put(`DO NOTHING`, entries) }

func (s statements) Update(entries ...Entry) error {
	return s.put(`(id) DO UPDATE SET subject = excluded.subject, retired = excluded.retired, sealed = excluded.sealed, epoch = excluded.epoch, version = excluded.version`, entries)
}

func (s statements) put(conflict string, entries []Entry) error {
	const columns = 6
	for part := range slices.Chunk(entries, atOnce) {
		var text strings.Builder
		text.WriteString(`INSERT INTO data_key (id, subject, retired, sealed, epoch, version) VALUES `)
		args := make([]any, 0, columns*len(part))
		for i, e := range part {
			if i > 0 {
				text.WriteByte(',')
			}
			text.WriteString("(" + places(columns*i+1, columns) + ")")
			var of, sealed any // NULL
			if e.Of != (Token{}) {
				of = e.Of[:]
			}
			if e.Sealed != nil {
				sealed = e.Sealed
			}
			retired := int64(0)
			if e.Retired {
				retired = 1
			}
			args = append(args, number(e.ID), of, retired, sealed, e.Epoch, e.Version)
		}
		if err := s.exec(text.String()+` ON CONFLICT `+conflict, args...); err != nil {
			return err
		}
	}
	return nil
}

func (s statements) Scan(after memory.KeyID, limit int) ([]Entry, error) {
	return s.entries(selectEntries+`id > $1 AND sealed IS NOT NULL ORDER BY id LIMIT $2`, number(after), limit)
}

func (s statements) Count() (live, destroyed int, err error) {
	err = s.tx.QueryRowContext(s.ctx, `SELECT count(sealed), count(*) - count(sealed) FROM data_key`).Scan(&live, &destroyed)
	return live, destroyed, err
}

func (s statements) Holders() (list []Holder, err error) {
	rows, err := s.tx.QueryContext(s.ctx, `SELECT name, epoch, seen FROM holder ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := rows.Close(); err == nil {
			err = closeErr
		}
	}()
	for rows.Next() {
		var h Holder
		if err := rows.Scan(&h.Name, &h.Epoch, &h.Seen); err != nil {
			return nil, err
		}
		list = append(list, h)
	}
	return list, rows.Err()
}

func (s statements) Hold(h Holder) error {
	return s.exec(`INSERT INTO holder (name, epoch, seen) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch, seen = excluded.seen`, h.Name, h.Epoch, h.Seen)
}

func (s statements) Release(name string) error {
	return s.exec(`DELETE FROM holder WHERE name = $1`, name)
}
