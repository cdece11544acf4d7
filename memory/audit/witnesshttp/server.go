package witnesshttp

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/internal/localhttp"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
)

// ServerOptions are of a [Server].
type ServerOptions struct {
	// Token is what a client shows to read and to append; required.
	Token string
	// RecoveryToken is what a client shows to recover a store besides: to settle what was
	// lost, and to go on from an older copy. Without one nobody does. It is another one.
	RecoveryToken string
	// Names are the host names that the server is asked for by, besides those of the
	// machine for itself and the address that it is reached at.
	Names []string
	// Logger is told of what was refused and what failed; nil = slog.Default().
	Logger *slog.Logger
}

// Server is the one program that writes the file of a witness, for all that reach it.
type Server struct {
	file     *audit.WitnessFile
	token    [sha256.Size]byte
	recovery *[sha256.Size]byte
	names    []string
	log      *slog.Logger
}

// NewServer is a server of a file that [audit.ServeWitness] opened. The caller closes it.
func NewServer(file *audit.WitnessFile, o ServerOptions) (*Server, error) {
	token, err := ParseToken(o.Token)
	if err != nil {
		return nil, err
	}
	s := &Server{file: file, token: sha256.Sum256([]byte(token)), names: o.Names, log: o.Logger}
	if s.log == nil {
		s.log = slog.Default()
	}
	if o.RecoveryToken != "" {
		token, err := ParseToken(o.RecoveryToken)
		if err != nil {
			return nil, fmt.Errorf("recovery: %w", err)
		}
		sum := sha256.Sum256([]byte(token))
		if s.recovery = &sum; sum == s.token {
			return nil, tokenFault("the token of recovery is the one that every machine has")
		}
	}
	return s, nil
}

// Handler answers requests. Asked by a host name that is not one of its own, or by a
// page of another site, it refuses before anything is looked at.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+readPath, s.authorized(s.read))
	mux.HandleFunc("POST "+appendPath, s.authorized(s.append))
	return localhttp.Guard{Names: s.names}.Handler(mux)
}

// Serve answers on l until ctx ends, over TLS if t is not nil.
func (s *Server) Serve(ctx context.Context, l net.Listener, t *tls.Config) error {
	if t != nil {
		l = tls.NewListener(l, t)
	}
	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       20 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		quick, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if srv.Shutdown(quick) != nil {
			srv.Close()
		}
	})
	err := srv.Serve(l)
	if !stop() {
		<-done
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// authorized lets who shows a token ask, of the witness that is here. recovers says
// that it is the token of recovery.
func (s *Server) authorized(next func(w http.ResponseWriter, r *http.Request, recovers bool) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		known, recovers := s.knows(r)
		if !known {
			w.Header().Set("WWW-Authenticate", "Bearer")
			s.refuse(w, r, http.StatusUnauthorized, codeToken, nil)
			return
		}
		id := s.file.Identity()
		w.Header().Set(identityHeader, id.String())
		if asked := r.Header.Get(identityHeader); asked != "" && asked != id.String() {
			s.refuse(w, r, http.StatusConflict, codeAnother, nil)
			return
		}
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			s.refuse(w, r, http.StatusUnsupportedMediaType, codeInvalid, err)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		answer, err := next(w, r, recovers)
		if err != nil && r.Context().Err() != nil {
			return // nobody waits for it
		}
		if err != nil {
			status, code := sorted(err)
			s.refuse(w, r, status, code, err)
			return
		}
		s.answer(w, http.StatusOK, answer)
	}
}

// knows reports whether a request shows a token. Both are compared, whatever the first
// comparison says.
func (s *Server) knows(r *http.Request) (known, recovers bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(token))
	plain := subtle.ConstantTimeCompare(sum[:], s.token[:])
	high := 0
	if s.recovery != nil {
		high = subtle.ConstantTimeCompare(sum[:], s.recovery[:])
	}
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return false, false
	}
	return plain|high == 1, high == 1
}

var errRecovery = errors.New("the token is not that of recovery")

// sorted is how a fault is told.
func sorted(err error) (status int, code string) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, codeTooLarge
	case errors.Is(err, errRecovery):
		return http.StatusForbidden, codeRecovery
	case errors.Is(err, audit.ErrSuperseded):
		return http.StatusConflict, codeSuperseded
	case errors.Is(err, memory.ErrConflict):
		return http.StatusConflict, codeConflict
	case errors.Is(err, memory.ErrInvalid):
		return http.StatusBadRequest, codeInvalid
	case errors.Is(err, audit.ErrWitnessOlder):
		return http.StatusPreconditionFailed, codeOlder
	}
	return http.StatusServiceUnavailable, codeWitness
}

// refuse says that something was not done. The log has nothing that the client sent.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, code string, err error) {
	level := slog.LevelWarn
	switch code {
	case codeWitness, codeOlder:
		level = slog.LevelError
	case codeConflict:
		level = slog.LevelDebug
	}
	s.log.Log(r.Context(), level, "refused", "code", code, "from", r.RemoteAddr, "err", err)
	s.answer(w, status, fault{code})
}

func (s *Server) answer(w http.ResponseWriter, status int, answer any) {
	b, err := json.Marshal(answer)
	if err != nil { // never: numbers, text and bytes
		s.log.Error("an answer does not encode", "err", err)
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client may be gone; it asks again
}

func (s *Server) read(_ http.ResponseWriter, r *http.Request, _ bool) (any, error) {
	var q audit.Query
	if err := decode(r.Body, &q); err != nil {
		return nil, err
	}
	if q.Scope != "" && !isScope(q.Scope) || q.Limit < 0 {
		return nil, fmt.Errorf("%w: a scope or a limit", memory.ErrInvalid)
	}
	if q.Limit == 0 || q.Limit > pageSize {
		q.Limit = pageSize
	}
	return s.file.Read(r.Context(), q)
}

func (s *Server) append(_ http.ResponseWriter, r *http.Request, recovers bool) (any, error) {
	var c audit.Change
	if err := decode(r.Body, &c); err != nil {
		return nil, err
	}
	switch {
	case !isScope(c.Scope) || len(c.Acknowledge) > pageSize:
		return nil, fmt.Errorf("%w: a scope, or too many entries", memory.ErrInvalid)
	case c.Recovers() && !recovers:
		return nil, errRecovery
	}
	// What was begun is ended, though nobody waits for the answer any more.
	return s.file.Append(context.WithoutCancel(r.Context()), c)
}

// decode reads one value, and nothing after it.
func decode(r io.Reader, v any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, after := d.Token(); after != io.EOF {
			err = errors.Join(errors.New("something follows"), after)
		}
	}
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &large):
		return large
	}
	return fmt.Errorf("%w: the request does not decode", memory.ErrInvalid)
}

// isScope reports whether text is the digest of a tenant and namespace.
func isScope(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == 16 && strings.ToLower(text) == text
}
