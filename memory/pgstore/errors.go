package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/reach"
	"github.com/jackc/pgx/v5/pgconn"
)

// faults are words for codes and classes of codes of the server.
var faults = map[string]string{
	"08":    "the connection failed",
	"25006": "the server takes no writes",
	"3F000": "the schema is not there",
	"42501": "the role lacks a right that migrating with the role in Options grants",
	"42P01": "a table is not there",
	"42883": "a function is not there",
	"53100": "the disk is full",
	"53200": "the server is out of memory or of locks",
	"53300": "the server has no connection left",
	"55P03": "a lock was not to be had in time",
	"57014": "the server cancelled the statement",
	"57P":   "the server is shutting down or starting up",
	"58":    "the server's disk reported an error",
	"XX001": "the server's data is damaged",
	"XX002": "the server's data is damaged",
}

// code is the code of an error that the server reported, "" of any other error.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// duplicate is the code of a row that is there already.
const duplicate = "23505"

// transient reports whether the server undid a transaction only because of what
// ran beside it, or was there unseen: it may be run again.
func transient(err error) bool {
	c := code(err)
	return c == "40001" || c == "40P01" || c == duplicate
}

// edge translates an error on its way out. What is a sentinel or a context error
// stays what it is; any other becomes ErrStore with words of our own, and the
// text of the server, which may hold statements, names and data, ends here.
func edge(op string, err error) error {
	if err == nil {
		return nil
	}
	for _, sentinel := range []error{
		memory.ErrConflict, memory.ErrTooLarge, memory.ErrClosed, memory.ErrForeign, memory.ErrSchema, memory.ErrInvalidBatch, memory.ErrStore,
	} {
		if errors.Is(err, sentinel) {
			return fmt.Errorf("pgstore: %s: %w", op, err)
		}
	}
	for _, sentinel := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, sentinel) {
			return fmt.Errorf("pgstore: %s: %w", op, sentinel)
		}
	}
	kind := memory.ErrStore
	if c := code(err); c == "53100" || c == "53200" {
		kind = memory.ErrFull
	}
	return fmt.Errorf("pgstore: %s: %w: %s", op, kind, words(err))
}

func words(err error) string {
	c := code(err)
	for _, n := range []int{5, 3, 2} {
		if text, ok := faults[c[:min(n, len(c))]]; ok {
			return text
		}
	}
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &connect):
		return unreached(connect, c)
	case c != "":
		return "the server refused the statement"
	}
	return "the connection was lost"
}

// unreached says why no connection was made. c is the code that the server gave, if it
// was heard of at all.
func unreached(err *pgconn.ConnectError, c string) string {
	server := serverOf(err.Config)
	why := ""
	switch {
	case c == "28P01":
		why = server + " does not know the user or the password"
	case c == "3D000":
		why = server + " has no database " + strconv.Quote(err.Config.Database)
	case strings.HasPrefix(c, "28"):
		why = server + " does not let this user in from here, into this database, or without TLS (its pg_hba.conf)"
	case c != "":
		why = server + " refused the connection with the code " + c
	case strings.Contains(err.Error(), "server refused TLS connection"): // the library has no other sign of it
		why = server + " does not speak TLS; sslmode=disable does without"
	default:
		why = reach.Why(err, server)
	}
	if why == "" {
		why = server
	}
	return "the server cannot be reached: " + why
}

// serverOf names the hosts and ports of a URL.
func serverOf(c *pgconn.Config) string {
	name := func(host string, port uint16) string {
		if strings.HasPrefix(host, "/") {
			return host + "/.s.PGSQL." + strconv.Itoa(int(port))
		}
		return net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	list := []string{name(c.Host, c.Port)}
	for _, f := range c.Fallbacks {
		if at := name(f.Host, f.Port); !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return strings.Join(list, ", ")
}

// RightError says that a role lacks a right. errors.Is(err, [memory.ErrStore]) holds.
type RightError struct {
	Need string // what the role would have to be
}

func (e *RightError) Error() string { return "the role lacks a right: " + e.Need }

// Is reports whether target is [memory.ErrStore].
func (e *RightError) Is(target error) bool { return target == memory.ErrStore }

// UnsafeError is what [Open] gives with Options.Strict for a server that would
// lose or change what was acknowledged. errors.Is(err, [memory.ErrStore]) holds.
type UnsafeError struct {
	Findings []memory.Finding // only unsafe ones
}

func (e *UnsafeError) Error() string {
	var list []string
	for _, f := range e.Findings {
		list = append(list, fmt.Sprintf("%s is %s: %s", f.Name, f.Found, f.Loss))
	}
	return "the server is not safe: " + strings.Join(list, "; ")
}

// Is reports whether target is [memory.ErrStore].
func (e *UnsafeError) Is(target error) bool { return target == memory.ErrStore }
