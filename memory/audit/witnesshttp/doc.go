// Package witnesshttp keeps a witness on a machine of its own, for several machines that
// share a store: a server over the file of a witness, and a client that is a witness to
// its programs.
//
// The server answers two questions and nothing else: what the witness has, and whether a
// change is on disk. An append only adds. What is newer than what is told stays, another
// entry of the same revision is refused, and a checkpoint must be grown from the one that
// was seen. The two changes that take the place of something, which recovery makes, want a
// token of their own.
//
// Each request names the witness that it is for, and how far its client has seen it. So a
// server with another file, or with an older state of the same one, is found out by whoever
// was running before. A client that starts afterwards cannot tell, as with a file.
//
// Entries are not put in an order: of each log the newest counts, whoever tells it first.
// A checkpoint names the one that it follows, and a settlement the entry that was lost; of
// two machines that do so at once, one is told to look again.
package witnesshttp

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// ErrToken: a token is missing, too short, or in a file that others can read.
var ErrToken = errors.New("witnesshttp: the token cannot be used")

const (
	identityHeader = "Hearsay-Witness"
	readPath       = "/v1/read"
	appendPath     = "/v1/append"

	maxRequest = 4 << 20
	maxAnswer  = 8 << 20
	pageSize   = 1000 // entries in a request or an answer
	minToken   = 32   // characters
	maxToken   = 4096
)

// fault is the answer to what was not done.
type fault struct {
	Code string `json:"error"`
}

// The codes of faults.
const (
	codeToken      = "token"
	codeRecovery   = "recovery_token"
	codeInvalid    = "invalid"
	codeTooLarge   = "too_large"
	codeAnother    = "another_witness"
	codeOlder      = "older"
	codeSuperseded = "superseded"
	codeConflict   = "conflict"
	codeWitness    = "witness"
)

// ParseToken takes a token from the text of a file or a variable, without blanks around
// it. It has 32 characters or more, and no blanks in it; errors hold nothing of it.
func ParseToken(text string) (string, error) {
	token := strings.TrimSpace(text)
	switch {
	case len(token) < minToken:
		return "", tokenFault("it has less than 32 characters; openssl rand -hex 32 makes one")
	case len(token) > maxToken:
		return "", tokenFault("it has more than 4096 characters")
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", tokenFault("it has a blank in it, or what is no ASCII")
	}
	return token, nil
}

// ReadToken reads the token in a file. It refuses a file that others than its owner can
// read or write.
func ReadToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrToken, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrToken, err)
	}
	if info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" { // which has no such modes
		return "", tokenFault("others than the owner can read or write " + path + "; chmod 600")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxToken+2))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrToken, err)
	}
	return ParseToken(string(b))
}

func tokenFault(text string) error { return fmt.Errorf("%w: %s", ErrToken, text) }

// parseIdentity reads who a witness is.
func parseIdentity(text string) (id memory.Token, ok bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, false
	}
	id = memory.Token(b)
	return id, id != memory.Token{}
}
