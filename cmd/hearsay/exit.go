package main

import (
	"errors"
	"fmt"

	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/audit/witnesshttp"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

// The exit codes; see the package comment.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitNo          = 4
	exitUnreachable = 5
	exitChanged     = 6
)

// exitError gives an error its exit code, and people the next step.
type exitError struct {
	code int
	err  error
	hint string
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func fail(code int, format string, args ...any) *exitError {
	return &exitError{code: code, err: fmt.Errorf(format, args...)}
}

func usage(format string, args ...any) *exitError { return fail(exitUsage, format, args...) }

func (e *exitError) with(hint string) *exitError {
	e.hint = hint
	return e
}

// classify is the one place where an error becomes an exit code.
func classify(err error) (code int, hint string) {
	var exit *exitError
	if errors.As(err, &exit) {
		return exit.code, exit.hint
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.code, c.hint
		}
	}
	return exitFailed, ""
}

const (
	changedHint = "Look at it again (hearsay row show), then decide."
	scopeHint   = "The operator gives a key more to speak for by a scope in the trusted-keys file."
)

var classes = []struct {
	err  error
	code int
	hint string
}{
	{memory.ErrUnwitnessed, exitFailed, "It has taken effect, and waits in the store for the witness: it is told by the next worker, program or command that has it (HEARSAY_WITNESS)."},
	{audit.ErrLost, exitTampered, "A fail-over to a server that lagged loses what was newest, and so does an older copy that is put back. hearsay store recover does again what was taken away since (it wants HEARSAY_WITNESS; --accept-older if a checkpoint is lost too). If it was neither, somebody cut it: find out who."},
	{audit.ErrRollback, exitTampered, "Find out who put the old copy there. If it was you: what was demoted or erased since is not any more."},
	{memory.ErrTampered, exitTampered, "Stop what writes the store, keep a copy of it, and find out who changed it. Then hearsay store rebuild makes again what the logs tell."},
	{audit.ErrExport, exitTampered, ""},
	{audit.ErrUnsound, exitTampered, "Memory or a disk of this machine fails. Run it on another one."},
	{audit.ErrKey, exitUsage, ""},
	{audit.ErrWitness, exitFailed, "Bring the witness back, or the newest copy of it. If there never was one: hearsay witness create FILE. If it is lost for good: hearsay witness give-up."},
	{confirm.ErrStale, exitChanged, changedHint},
	{confirm.ErrContent, exitChanged, changedHint},
	{confirm.ErrReplayed, exitChanged, changedHint},
	{confirm.ErrUsed, exitNo, "Look at the call: hearsay call show."},
	{confirm.ErrDecided, exitNo, "Look at the call: hearsay call show."},
	{confirm.ErrEarly, exitNo, "Five minutes after it was let through a call counts as one that nobody hears of any more. What was done can be settled as --done at once."},
	{memory.ErrConflict, exitChanged, changedHint},
	{confirm.ErrHalf, exitFailed, ""},
	{confirm.ErrStatement, exitUsage, ""},
	{confirm.ErrUnknownKey, exitNo, keyHint},
	{confirm.ErrForged, exitNo, "The key is not the one that the trusted-keys file has for this principal."},
	{confirm.ErrExpired, exitNo, ""},
	{confirm.ErrTenant, exitNo, ""},
	{confirm.ErrScope, exitNo, scopeHint},
	{confirm.ErrKey, exitUsage, keyHint},
	{memory.ErrNotFound, exitNotFound, ""},
	{memory.ErrNoAuthority, exitNo, scopeHint},
	{memory.ErrRejected, exitNo, ""},
	{memory.ErrContested, exitNo, ""},
	{memory.ErrOutranked, exitNo, ""},
	{memory.ErrInsufficient, exitNo, ""},
	{memory.ErrRevoked, exitNo, ""},
	{memory.ErrUnwalked, exitNo, "hearsay verifier walk looks at them."},
	{memory.ErrIllegalMove, exitNo, ""},
	{storeurl.ErrURL, exitUsage, ""},
	{storeurl.ErrNoKeyring, exitUsage, ""},
	{storeurl.ErrMissing, exitUnreachable, "The worker, or the program that writes rows, makes it."},
	{memory.ErrErased, exitNotFound, ""},
	{witnesshttp.ErrUnavailable, exitUnreachable, "Nothing fires and nothing is erased without the witness. What takes trust away works without it: unset HEARSAY_WITNESS, and it is told later."},
	{witnesshttp.ErrRecovery, exitNo, "The operator of the witness has it: hearsay witness serve --recovery-token-file. Whoever recovers names it in HEARSAY_WITNESS_TOKEN."},
	{witnesshttp.ErrToken, exitUsage, ""},
	{memory.ErrWitnessMissing, exitNo, "hearsay witness show says which witness the store has."},
	{memory.ErrBehind, exitTampered, "Set HEARSAY_WITNESS and run hearsay store recover."},
	{memory.ErrPending, exitNo, "Nothing here reads it any more. Do what is said above, and run the same command again for the certificate."},
	{memory.ErrKey, exitNo, "Give the keyring that the store was made with: --keyring or HEARSAY_KEYRING."},
	{memory.ErrForeign, exitFailed, ""},
	{memory.ErrSchema, exitFailed, ""},
	{memory.ErrStore, exitUnreachable, ""},
	{memory.ErrClosed, exitUnreachable, ""},
	{memory.ErrInvalid, exitUsage, ""},
}
