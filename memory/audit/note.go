package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"

	"github.com/hearsay-go/hearsay/memory"
)

// CheckpointError names the first checkpoint that does not hold.
// errors.Is(err, memory.ErrTampered) holds.
type CheckpointError struct {
	Index  uint64
	Size   uint64 // of the tree that the checkpoint says it has
	Reason string
}

func (e *CheckpointError) Error() string {
	return fmt.Sprintf("audit: checkpoint %d (size %d): %s", e.Index, e.Size, e.Reason)
}

// Is reports whether target is [memory.ErrTampered].
func (e *CheckpointError) Is(target error) bool { return target == memory.ErrTampered }

// scopeOf is a tenant and namespace as the origin of a checkpoint and the lines of
// a witness have them.
func scopeOf(tenant, namespace string) string {
	sum := sha256.Sum256([]byte("hearsay/audit/scope/1\x00" + tenant + "\x00" + namespace))
	return hex.EncodeToString(sum[:scopeLength/2])
}

const scopeLength = 32

// statement is the text that a checkpoint signs.
type statement struct {
	origin   string // with the scope
	size     uint64
	root     []byte
	index    uint64
	previous [sha256.Size]byte
	until    memory.Sequence
	state    [sha256.Size]byte
}

func (s *statement) text() string {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("%s\n%d\n%s\nindex %d\nprevious %s\nuntil %d\nstate %s\n",
		s.origin, s.size, b64(s.root), s.index, b64(s.previous[:]), s.until, b64(s.state[:]))
}

func (s *statement) digest() [sha256.Size]byte { return sha256.Sum256([]byte(s.text())) }

var errText = errors.New("its note is not a checkpoint of this package")

// parse reads what text wrote, and nothing else: one form for one statement.
func (s *statement) parse(text string) error {
	lines := strings.Split(text, "\n")
	if len(lines) != 8 {
		return errText
	}
	number := func(line, name string) uint64 {
		n, _ := strconv.ParseUint(strings.TrimPrefix(line, name), 10, 64)
		return n
	}
	hash := func(line, name string) []byte {
		b, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(line, name))
		return b
	}
	s.origin, s.size, s.root = lines[0], number(lines[1], ""), hash(lines[2], "")
	s.index, s.until = number(lines[3], "index "), memory.Sequence(number(lines[5], "until "))
	copy(s.previous[:], hash(lines[4], "previous "))
	copy(s.state[:], hash(lines[6], "state "))
	if s.origin == "" || len(s.root) != sha256.Size || s.text() != text {
		return errText
	}
	return nil
}

// known are the verifiers of a deployment, as a note looks them up.
type known []note.Verifier

// Verifier implements [note.Verifiers].
func (k known) Verifier(name string, hash uint32) (note.Verifier, error) {
	for _, v := range k {
		if v.Name() == name && v.KeyHash() == hash {
			return v, nil
		}
	}
	return nil, &note.UnknownVerifierError{Name: name, KeyHash: hash}
}

func keyName(v note.Verifier) string { return fmt.Sprintf("%s+%08x", v.Name(), v.KeyHash()) }

// open verifies the signature of a note and reads it. key is whose signature holds.
func (k known) open(msg []byte) (s statement, key string, err error) {
	n, err := note.Open(msg, k)
	var unverified *note.UnverifiedNoteError
	switch {
	case errors.As(err, &unverified):
		names := make([]string, 0, len(unverified.Note.UnverifiedSigs))
		for _, sig := range unverified.Note.UnverifiedSigs {
			names = append(names, fmt.Sprintf("%s+%08x", sig.Name, sig.Hash))
		}
		return s, "", fmt.Errorf("no key at hand signed it; it names %s", strings.Join(names, ", "))
	case err != nil:
		return s, "", errors.New("its signature does not hold")
	}
	if err := s.parse(n.Text); err != nil {
		return s, "", err
	}
	for _, sig := range n.Sigs {
		v, err := k.Verifier(sig.Name, sig.Hash)
		if err != nil {
			continue
		}
		if _, err := base64.StdEncoding.Strict().DecodeString(sig.Base64); err != nil {
			return s, "", errors.New("its signature does not hold") // bits that nothing covers were changed
		}
		if r, ok := v.(*retired); ok && s.index > r.last {
			return s, "", fmt.Errorf("the key %s was retired after checkpoint %d", keyName(v), r.last)
		}
		key = keyName(v)
	}
	return s, key, nil
}

var tree = &compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

func leafHash(l *memory.Leaf) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+sha256.Size+len(l.Key)), l.Revision)
	b = append(b, l.MAC[:]...)
	return rfc6962.DefaultHasher.HashLeaf(append(b, l.Key...))
}

func rootOf(r *compact.Range) []byte {
	if r.End() == 0 {
		return rfc6962.DefaultHasher.EmptyRoot()
	}
	root, err := r.GetRootHash(nil)
	if err != nil {
		panic("audit: every range here begins at 0: " + err.Error())
	}
	return root
}

// state is what a maker goes on from. The note has its digest.
type state struct {
	tree [][]byte
	// from is the first checkpoint of the look-around that this one ended: what it
	// and those after it committed to may be listed as changed once more.
	from uint64
	// carried are the logs that were listed and had been committed to before.
	carried []carriedLog
}

type carriedLog struct {
	key      [16]byte
	revision uint64
}

const stateVersion = 1

func keyDigest(key string) (d [16]byte) {
	sum := sha256.Sum256([]byte(key))
	copy(d[:], sum[:])
	return d
}

func (s *state) encode() []byte {
	b := []byte{stateVersion, byte(len(s.tree))}
	for _, h := range s.tree {
		b = append(b, h...)
	}
	b = binary.BigEndian.AppendUint64(b, s.from)
	for i := range s.carried {
		b = append(b, s.carried[i].key[:]...)
		b = binary.BigEndian.AppendUint64(b, s.carried[i].revision)
	}
	return b
}

const carriedSize = 16 + 8

func (s *state) decode(b []byte) error {
	if len(b) < 2 || b[0] != stateVersion || len(b) < 2+int(b[1])*sha256.Size+8 {
		return errText
	}
	n := int(b[1])
	for b = b[2:]; n > 0; n-- {
		s.tree, b = append(s.tree, bytes.Clone(b[:sha256.Size])), b[sha256.Size:]
	}
	s.from, b = binary.BigEndian.Uint64(b), b[8:]
	if len(b)%carriedSize != 0 {
		return errText
	}
	for ; len(b) > 0; b = b[carriedSize:] {
		c := carriedLog{revision: binary.BigEndian.Uint64(b[16:])}
		copy(c.key[:], b)
		s.carried = append(s.carried, c)
	}
	return nil
}

// position is a place in the chain of checkpoints: what the next one must follow.
type position struct {
	origin string // "" = any: nothing was seen yet
	scope  string
	index  uint64
	digest [sha256.Size]byte // of the text at index
	tree   *compact.Range
	since  *compact.Range // if not nil, of what is added
}

func start(scope string) *position { return &position{scope: scope, tree: tree.NewEmptyRange(0)} }

// grown is the tree with leaves added; the position keeps its own.
func (p *position) grown(hashes [][]byte) (*compact.Range, error) {
	r, err := tree.NewRange(0, p.tree.End(), slices.Clone(p.tree.Hashes()))
	if err != nil {
		return nil, err
	}
	for _, h := range hashes {
		if err := r.Append(h, nil); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// next verifies the checkpoint that follows and moves on. key is who signed it.
func (p *position) next(k known, c *memory.Checkpoint) (s statement, key string, err error) {
	fault := func(format string, args ...any) error {
		return &CheckpointError{Index: c.Index, Size: c.Size, Reason: fmt.Sprintf(format, args...)}
	}
	if len(k) == 0 {
		return s, "", badKey("there are checkpoints, and no verifier key is at hand")
	}
	s, key, err = k.open(c.Note)
	var st state
	switch {
	case err != nil:
		return s, "", fault("%v", err)
	case c.Index != p.index+1:
		return s, "", fault("the one before it is %d: checkpoints are missing", p.index)
	case s.index != c.Index || s.size != c.Size || s.until != c.Until || s.state != sha256.Sum256(c.State):
		return s, "", fault("what is beside the note is not what the note says")
	case s.origin != p.origin && p.origin != "":
		return s, "", fault("its origin is %q, the one before it has %q", s.origin, p.origin)
	case !strings.HasSuffix(s.origin, "/"+p.scope):
		return s, "", fault("it is of another tenant, namespace or store: origin %q", s.origin)
	case s.previous != p.digest:
		return s, "", fault("it does not follow the checkpoint before it")
	case s.size != p.tree.End()+uint64(len(c.Leaves)):
		return s, "", fault("leaves are missing or too many: %d and %d before them", len(c.Leaves), p.tree.End())
	case st.decode(c.State) != nil:
		return s, "", fault("its state does not decode")
	}
	for i := range c.Leaves {
		leaf := leafHash(&c.Leaves[i])
		if err := p.tree.Append(leaf, nil); err != nil {
			return s, "", fault("%v", err)
		}
		if p.since == nil {
			continue
		}
		if err := p.since.Append(leaf, nil); err != nil {
			return s, "", fault("%v", err)
		}
	}
	if !bytes.Equal(rootOf(p.tree), s.root) {
		return s, "", fault("the root of its leaves is not the root that was signed")
	}
	if !equalHashes(st.tree, p.tree.Hashes()) {
		return s, "", fault("its state is not that of its tree")
	}
	p.origin, p.index, p.digest = s.origin, s.index, s.digest()
	return s, key, nil
}

// at is the position after a checkpoint, on the word of its signer.
func at(scope string, k known, c *memory.Checkpoint) (*position, state, error) {
	p, st := start(scope), state{}
	if c.Index == 0 {
		return p, st, nil
	}
	fault := func(format string, args ...any) error {
		return &CheckpointError{Index: c.Index, Size: c.Size, Reason: fmt.Sprintf(format, args...)}
	}
	s, _, err := k.open(c.Note)
	switch {
	case err != nil:
		return nil, st, fault("%v", err)
	case s.index != c.Index || s.size != c.Size || s.until != c.Until || s.state != sha256.Sum256(c.State):
		return nil, st, fault("what is beside the note is not what the note says")
	case !strings.HasSuffix(s.origin, "/"+scope):
		return nil, st, fault("it is of another tenant, namespace or store: origin %q", s.origin)
	case st.decode(c.State) != nil:
		return nil, st, fault("its state does not decode")
	}
	if p.tree, err = tree.NewRange(0, s.size, st.tree); err != nil || !bytes.Equal(rootOf(p.tree), s.root) {
		return nil, st, fault("its state is not that of its tree")
	}
	p.origin, p.index, p.digest = s.origin, s.index, s.digest()
	return p, st, nil
}

func equalHashes(a, b [][]byte) bool {
	return bytes.Equal(bytes.Join(a, nil), bytes.Join(b, nil))
}
