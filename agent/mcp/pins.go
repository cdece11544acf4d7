package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofrs/flock"
	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
)

// Errors of [Pins].
var (
	// ErrPinFile: the file of pins cannot be read or written, or is not one.
	ErrPinFile = errors.New("mcp: pins")
	// ErrUnpinned: the tools of the server are not pinned, and [Pins] wants them to be.
	ErrUnpinned = errors.New("mcp: the tools of the server are not pinned")
	// ErrPinned: tools of the server are not those that were pinned; see [PinError].
	ErrPinned = errors.New("mcp: tools of the server are not those that were pinned")
)

// Limits of a file of pins.
const (
	maxPinFile    = 64 << 20 // bytes
	maxServerName = 16 << 10 // bytes
	pinSchema     = "hearsay.pins/1"
	pinWait       = 30 * time.Second // for another process that writes the file
)

// Pins are what an operator has accepted the tools of servers to be: name, description,
// schemas, annotations and whatever else a server says of each. They stand in a file, with
// the hash of each tool. The first time that a server is met, its tools are written there,
// unless Required is set. From then on a tool that differs, or is new, is not offered until
// the operator has seen the difference and accepted it (hearsay mcp pin, or [Pins.Accept]).
//
// Whoever can write the file can accept what they like. Put it where the servers, which
// often run as the same user, cannot write; with Required it is only read.
//
// Pins may be used by several goroutines and, with one file, by several processes.
type Pins struct {
	File string // made if it is not there
	// Required refuses a server whose tools are not pinned ([ErrUnpinned]).
	Required bool
	// Seen, if set, hears of each comparison of [Tools] and [NewProxy], unless it refuses the
	// server; of the first one of a server before its tools are written.
	Seen func(PinReport)
}

// PinnedTool is a tool as a server listed it.
type PinnedTool struct {
	Name   string
	SHA256 string          // of Tool, hexadecimal
	Tool   json.RawMessage // as listed, in JSON
}

// PinDifference is a tool that is not what was pinned. Was is nil of a new one, Is of one
// that is gone.
type PinDifference struct {
	Name    string
	Was, Is json.RawMessage
}

// PinReport is what a server's tools are beside what was pinned.
type PinReport struct {
	Server string
	First  bool // nothing was pinned of the server
	// Alike are the servers of the file with a tool of the same name, if First: one of them
	// may be this one under another command or URL, whose pins then do not count.
	Alike []string
	Tools []PinnedTool
	// Differences from what was pinned, by name; of a server that is met first there are none.
	Differences []PinDifference
}

// Digest stands for the server and all its tools, as the report has them: whoever accepts
// them names it, so that what is accepted is what was seen. It is hexadecimal.
func (r PinReport) Digest() string {
	h := sha256.New()
	for _, s := range append([]string{"hearsay.pin/1", r.Server}, hashes(r.Tools)...) {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func hashes(tools []PinnedTool) (out []string) {
	for _, t := range tools {
		out = append(out, t.SHA256)
	}
	slices.Sort(out)
	return out
}

// PinError names the tools of a server that are not those that were pinned. It is
// [ErrPinned].
type PinError struct {
	Server      string
	Differences []PinDifference
}

// Error is one line.
func (e *PinError) Error() string {
	names := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		names[i] = fmt.Sprintf("%q", d.Name)
	}
	return fmt.Sprintf("%s: %q: %s", ErrPinned, e.Server, strings.Join(names, ", "))
}

// Unwrap returns [ErrPinned].
func (e *PinError) Unwrap() error { return ErrPinned }

// pinFile is a file of pins.
type pinFile struct {
	Schema  string      `json:"schema"`
	Servers []pinServer `json:"servers"` // by name
}

type pinServer struct {
	Server string    `json:"server"`
	Tools  []pinTool `json:"tools"` // by name
}

type pinTool struct {
	SHA256 string          `json:"sha256"`
	Tool   json.RawMessage `json:"tool"`
}

// Compare lists the tools of a server and holds them against the file. It writes nothing.
// server names it: its command, or its URL.
func (p *Pins) Compare(ctx context.Context, session *api.ClientSession, server string) (PinReport, error) {
	listed, err := list(ctx, session)
	if err != nil {
		return PinReport{}, err
	}
	return p.compare(server, listed)
}

func (p *Pins) compare(server string, listed []*api.Tool) (PinReport, error) {
	if strings.TrimSpace(server) == "" || !utf8.ValidString(server) || len(server) > maxServerName {
		return PinReport{}, p.fault("server %.100q: want its command or URL, at most %d bytes", server, maxServerName)
	}
	r := PinReport{Server: server}
	for _, t := range listed {
		tool, err := pinned(t)
		if err != nil {
			return PinReport{}, err
		}
		r.Tools = append(r.Tools, tool)
	}
	slices.SortFunc(r.Tools, func(x, y PinnedTool) int { return cmp.Compare(x.Name, y.Name) })
	file, err := p.read()
	if err != nil {
		return PinReport{}, err
	}
	at := file.at(server)
	if at < 0 {
		r.First, r.Alike = true, file.alike(r.Tools)
		return r, nil
	}
	was := map[string]json.RawMessage{}
	for _, t := range file.Servers[at].Tools {
		was[nameIn(t.Tool)] = t.Tool
	}
	for _, t := range r.Tools {
		if old, known := was[t.Name]; !known || !bytes.Equal(old, t.Tool) {
			r.Differences = append(r.Differences, PinDifference{t.Name, old, t.Tool})
		}
		delete(was, t.Name)
	}
	for name, old := range was {
		r.Differences = append(r.Differences, PinDifference{Name: name, Was: old})
	}
	slices.SortFunc(r.Differences, func(x, y PinDifference) int { return cmp.Compare(x.Name, y.Name) })
	return r, nil
}

// alike names the servers with a tool of a name that one of tools has.
func (f *pinFile) alike(tools []PinnedTool) (servers []string) {
	names := map[string]bool{}
	for _, t := range tools {
		names[t.Name] = true
	}
	for _, s := range f.Servers {
		if slices.ContainsFunc(s.Tools, func(t pinTool) bool { return names[nameIn(t.Tool)] }) {
			servers = append(servers, s.Server)
		}
	}
	return servers
}

// check holds a listing against the file. nil are no pins, and nothing differs.
func (p *Pins) check(server string, listed []*api.Tool) (PinReport, error) {
	if p == nil {
		return PinReport{}, nil
	}
	r, err := p.compare(server, listed)
	if err == nil && r.First && p.Required {
		err = fmt.Errorf("%w: %q in %s", ErrUnpinned, server, p.File)
	}
	if err == nil && p.Seen != nil {
		p.Seen(r)
	}
	return r, err
}

// keep pins the tools of a server that is met first.
func (p *Pins) keep(ctx context.Context, r PinReport) error {
	if p == nil || !r.First {
		return nil
	}
	return p.write(ctx, r, true)
}

// Accept writes what a report says of a server's tools as what they are to be.
func (p *Pins) Accept(ctx context.Context, r PinReport) error { return p.write(ctx, r, false) }

// write puts the tools of a report into the file, in the place of those of the server.
func (p *Pins) write(ctx context.Context, r PinReport, first bool) error {
	ctx, cancel := context.WithTimeout(ctx, pinWait)
	defer cancel()
	lock := flock.New(p.File + ".lock")
	if _, err := lock.TryLockContext(ctx, 5*time.Millisecond); err != nil {
		return p.fault("lock: %w", err)
	}
	defer func() { _ = lock.Unlock() }() // the descriptor is closed either way, and the lock with it
	file, err := p.read()
	if err != nil {
		return err
	}
	entry := pinServer{Server: r.Server, Tools: []pinTool{}}
	for _, t := range r.Tools {
		entry.Tools = append(entry.Tools, pinTool{t.SHA256, t.Tool})
	}
	switch at := file.at(r.Server); {
	case at >= 0 && first:
		return p.fault("another process has pinned the tools of %q meanwhile; start again", r.Server)
	case at >= 0:
		file.Servers[at] = entry
	default:
		file.Servers = append(file.Servers, entry)
		slices.SortFunc(file.Servers, func(x, y pinServer) int { return cmp.Compare(x.Server, y.Server) })
	}
	if err := p.checked(&file); err != nil { // a report that nobody compared, for one
		return err
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return p.fault("%w", err)
	}
	if len(text) >= maxPinFile {
		return p.fault("%d bytes, at most %d", len(text), maxPinFile)
	}
	return p.replace(append(text, '\n'))
}

// replace writes the file anew. Whoever reads it finds all of the old text or all of the new.
func (p *Pins) replace(text []byte) (err error) {
	path, mode := p.File, fs.FileMode(0o600)
	if real, err := filepath.EvalSymlinks(path); err == nil { // a link stays one
		path = real
	}
	if info, err := os.Stat(path); err == nil { // whoever could read it still can
		mode = info.Mode().Perm()
	}
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, filepath.Base(path)+".*.new")
	if err != nil {
		return p.fault("%w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return p.fault("%w", err)
	}
	d, err := os.Open(folder)
	if err != nil {
		return p.fault("%w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return p.fault("%w", err)
	}
	return nil
}

// read reads the file. One that is not there has no pins.
func (p *Pins) read() (file pinFile, err error) {
	file = pinFile{Schema: pinSchema, Servers: []pinServer{}}
	if p.File == "" {
		return file, p.fault("no file")
	}
	f, err := os.Open(p.File)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return file, p.fault("%w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxPinFile+1))
	if err == nil && len(text) > maxPinFile {
		err = fmt.Errorf("more than %d bytes", maxPinFile)
	}
	if err != nil {
		return file, p.fault("%w", err)
	}
	file = pinFile{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return file, p.fault("it is no file of pins: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) || file.Schema != pinSchema {
		return file, p.fault("it is no file of pins: schema %q, want %q and nothing behind it", file.Schema, pinSchema)
	}
	return file, p.checked(&file)
}

// checked asks that each tool is what its hash says, and brings it to the form it is compared
// in.
func (p *Pins) checked(file *pinFile) error {
	servers := map[string]bool{}
	for _, s := range file.Servers {
		if servers[s.Server] || s.Server == "" {
			return p.fault("server %q: no name, or it is there twice", s.Server)
		}
		servers[s.Server] = true
		names := map[string]bool{}
		for i := range s.Tools {
			t := &s.Tools[i]
			var compact bytes.Buffer
			if err := json.Compact(&compact, t.Tool); err != nil {
				return p.fault("server %q, tool %d: %w", s.Server, i, err)
			}
			t.Tool = compact.Bytes()
			name := nameIn(t.Tool)
			if hashed(t.Tool) != t.SHA256 || name == "" || names[name] {
				return p.fault("server %q, tool %q: it is not what its hash says, or is there twice; was it written by hand?", s.Server, name)
			}
			names[name] = true
		}
	}
	return nil
}

func (p *Pins) fault(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w", ErrPinFile, p.File, fmt.Errorf(format, args...))
}

func (f *pinFile) at(server string) int {
	return slices.IndexFunc(f.Servers, func(s pinServer) bool { return s.Server == server })
}

// pinned is a tool as it is pinned.
func pinned(t *api.Tool) (PinnedTool, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return PinnedTool{}, fmt.Errorf("%w: %q: %w", ErrTools, t.Name, err)
	}
	return PinnedTool{Name: t.Name, SHA256: hashed(text), Tool: text}, nil
}

func hashed(tool []byte) string {
	sum := sha256.Sum256(tool)
	return hex.EncodeToString(sum[:])
}

// nameIn is the name of a tool in JSON.
func nameIn(tool json.RawMessage) string {
	var t struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(tool, &t) != nil {
		return ""
	}
	return t.Name
}

// accepted are the tools of a listing that do not differ, with their contracts. What was
// declared of one that differs was declared of another tool.
func (r *PinReport) accepted(listed []*api.Tool, contracts Contracts) ([]*api.Tool, Contracts) {
	differs := map[string]bool{}
	for _, d := range r.Differences {
		differs[d.Name] = true
	}
	contracts = maps.Clone(contracts)
	maps.DeleteFunc(contracts, func(name string, _ []agent.Option) bool { return differs[name] })
	return slices.DeleteFunc(slices.Clone(listed), func(t *api.Tool) bool { return differs[t.Name] }), contracts
}
