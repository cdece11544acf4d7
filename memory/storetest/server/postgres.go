//go:build unix

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// PostgresServer is a private PostgreSQL server in a folder of its own, for tests
// and measurements. It listens on a loopback port and trusts whoever connects.
type PostgresServer struct {
	dir  string
	bin  string
	port port
	as   *syscall.Credential
	args []string

	filled bool // from the template
}

// Postgres makes and starts a private PostgreSQL server, with the binaries of the
// PATH or of /usr/lib/postgresql. Settings are "name=value" lines of the server,
// on top of its own defaults: fsync is on unless they say otherwise. The caller
// ends with Stop, which removes the folder.
//
// PostgreSQL refuses to run as root; for root the server runs as the user
// "postgres". An error that wraps [exec.ErrNotFound] means that no PostgreSQL is
// installed.
func Postgres(ctx context.Context, settings ...string) (*PostgresServer, error) {
	bin, err := postgresBinaries()
	if err != nil {
		return nil, err
	}
	s := &PostgresServer{bin: bin}
	if os.Getuid() == 0 {
		if s.as, err = credential("postgres"); err != nil {
			return nil, err
		}
	}
	parent, err := os.MkdirTemp("", "hearsay-postgres-")
	if err != nil {
		return nil, err
	}
	s.dir = filepath.Join(parent, "data")
	if err := s.create(ctx, parent, settings); err != nil {
		s.port.free()
		return nil, errors.Join(err, os.RemoveAll(parent), s.released())
	}
	return s, nil
}

func (s *PostgresServer) create(ctx context.Context, parent string, settings []string) error {
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return err
	}
	if s.as != nil {
		for _, path := range []string{parent, s.dir} {
			if err := os.Chown(path, int(s.as.Uid), int(s.as.Gid)); err != nil {
				return err
			}
		}
	}
	if err := s.fill(ctx); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		var err error
		s.port.free()
		if s.port, err = takePort(false); err != nil {
			return err
		}
		s.args = []string{
			"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-p", strconv.Itoa(s.port.number),
			"-c", "max_connections=200", "-c", "shared_buffers=64MB", "-c", "max_wal_size=512MB",
		}
		for _, setting := range settings {
			s.args = append(s.args, "-c", setting)
		}
		if err = s.start(ctx); err == nil {
			return nil
		}
		// Another program may take the port before the server does.
		log, _ := os.ReadFile(s.log())
		if attempt == 5 || !strings.Contains(string(log), "could not bind") {
			return fmt.Errorf("%w\n%s", err, log)
		}
	}
}

func (s *PostgresServer) log() string { return filepath.Join(filepath.Dir(s.dir), "log") }

// template is a data directory that no server has run on. initdb takes longer than
// all else that a short test does, so it runs once for the servers that a process has
// at the same time; the last of them to end removes it.
var template struct {
	sync.Mutex
	dir     string // "" = there is none
	servers int
}

// fill makes the data directory, from the template.
func (s *PostgresServer) fill(ctx context.Context) (err error) {
	template.Lock()
	defer template.Unlock()
	defer func() {
		if s.filled = err == nil; s.filled {
			template.servers++
		}
	}()
	if template.dir == "" {
		// No fsync of the fresh folder: what a crash of this machine leaves of it is
		// nobody's data. Checksums are on, as they are by default from version 18.
		if err := s.run(ctx, "initdb", "-D", s.dir, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--data-checksums"); err != nil {
			return err
		}
		dir, err := os.MkdirTemp("", "hearsay-postgres-template-")
		if err != nil {
			return err
		}
		if s.as != nil {
			err = os.Chown(dir, int(s.as.Uid), int(s.as.Gid))
		}
		if err == nil {
			err = s.copy(ctx, s.dir, dir)
		}
		if err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
		template.dir = dir
		return nil
	}
	return s.copy(ctx, template.dir, s.dir)
}

// released removes the template, if the server was the last one that it served.
func (s *PostgresServer) released() error {
	template.Lock()
	defer template.Unlock()
	if !s.filled {
		return nil
	}
	s.filled = false
	if template.servers--; template.servers > 0 {
		return nil
	}
	dir := template.dir
	template.dir = ""
	return os.RemoveAll(dir)
}

// copy copies what is in a folder, with modes and owner.
func (s *PostgresServer) copy(ctx context.Context, from, to string) error {
	cp, err := exec.LookPath("cp")
	if err != nil {
		return err
	}
	return s.run(ctx, cp, "-a", from+"/.", to)
}

// Dir is the data directory of the server.
func (s *PostgresServer) Dir() string { return s.dir }

// Program is the path of a program of the server's release, such as pg_dump.
func (s *PostgresServer) Program(name string) string { return filepath.Join(s.bin, name) }

// URL is where the superuser of the server connects to.
func (s *PostgresServer) URL() string { return s.RuntimeURL("postgres") }

// RuntimeURL is where a role of the server connects to.
func (s *PostgresServer) RuntimeURL(role string) string {
	u := url.URL{Scheme: "postgres", User: url.User(role), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port.number)), Path: "postgres", RawQuery: "sslmode=disable"}
	return u.String()
}

// CrashImmediate ends the server without a checkpoint and without a word to its
// clients (pg_ctl stop -m immediate). Restart recovers it.
func (s *PostgresServer) CrashImmediate(ctx context.Context) error { return s.stop(ctx, "immediate") }

// Kill ends the server and all its processes with SIGKILL. Restart recovers it.
func (s *PostgresServer) Kill(ctx context.Context) error {
	pid, err := s.pid()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	// The children see that their parent is gone and end by themselves; a server
	// started before they did would find its shared memory in use.
	for ctx.Err() == nil {
		if err := s.start(ctx); err == nil {
			return s.stop(ctx, "immediate")
		}
	}
	return ctx.Err()
}

// Restart starts the server again on its port and folder, after a regular stop if
// it is running.
func (s *PostgresServer) Restart(ctx context.Context) error {
	if _, err := s.pid(); err == nil {
		if err := s.stop(ctx, "fast"); err != nil {
			return err
		}
	}
	return s.start(ctx)
}

// Stop ends the server, if it is running, and removes its folder.
func (s *PostgresServer) Stop(ctx context.Context) error {
	var err error
	if _, running := s.pid(); running == nil {
		err = s.stop(ctx, "immediate")
	}
	s.port.free()
	return errors.Join(err, os.RemoveAll(filepath.Dir(s.dir)), s.released())
}

// Backend tells the process of a connection to end itself as after a memory
// fault, upon which the server ends all connections and recovers.
func (s *PostgresServer) Backend(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }

func (s *PostgresServer) start(ctx context.Context) error {
	quoted := make([]string, len(s.args))
	for i, arg := range s.args {
		quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return s.run(ctx, "pg_ctl", "start", "-D", s.dir, "-w", "-t", "60", "-s", "-l", s.log(), "-o", strings.Join(quoted, " "))
}

func (s *PostgresServer) stop(ctx context.Context, mode string) error {
	return s.run(ctx, "pg_ctl", "stop", "-D", s.dir, "-w", "-t", "60", "-s", "-m", mode)
}

// pid is the process id of the running server.
func (s *PostgresServer) pid() (int, error) {
	content, err := os.ReadFile(filepath.Join(s.dir, "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(content), "\n")
	return strconv.Atoi(line)
}

// run runs a program of PostgreSQL, or the one at a path. Its output goes to a file: a pipe would stay
// open for as long as the server that pg_ctl starts.
func (s *PostgresServer) run(ctx context.Context, program string, args ...string) error {
	out, err := os.CreateTemp(filepath.Dir(s.dir), "out-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	if !filepath.IsAbs(program) {
		program = s.Program(program)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, filepath.Dir(s.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setsid: true}
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, strings.TrimSpace(string(text)))
	}
	return nil
}

// postgresBinaries is the folder with the programs of the newest PostgreSQL.
func postgresBinaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(found, func(a, b string) int { return majorOf(b) - majorOf(a) })
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			found = append([]string{filepath.Dir(path)}, found...)
		}
	}
	for _, bin := range found {
		complete := true
		for _, program := range []string{"postgres", "initdb", "pg_ctl"} {
			if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
				complete = false
			}
		}
		if complete {
			return bin, nil
		}
	}
	return "", fmt.Errorf("PostgreSQL is not installed: %w", exec.ErrNotFound)
}

// majorOf is the version in a path like /usr/lib/postgresql/15/bin.
func majorOf(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user %q to run it: %w", name, exec.ErrNotFound)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
