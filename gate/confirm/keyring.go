package confirm

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/memory"
)

// Keyring is the operator's list of who may speak for what. It is immutable and
// safe for concurrent use. A nil or zero Keyring knows no key, and so confirms
// nothing.
//
// Its file has one key a line; empty lines and lines that begin with # are
// skipped:
//
//	principal  base64-public-key  scope [scope ...]
//
// A scope is a subject, or subject/predicate. Either part may end in * and then
// stands for everything that begins so; "*" alone is everything. Parts are
// compared as exact names ([memory.ExactName]), and written percent-encoded if they hold
// a blank, a slash, a star or a percent sign. One with characters that nobody sees is
// refused, and so is such a principal. A principal may have several keys.
//
// A scope that begins with call: is of a tool, whose held calls the key may decide
// about: call:send_email, call:crm.*, call:*. Of the other scopes only "*" reaches
// calls. A subject that begins so is written call%3A.
type Keyring struct{ keys []key }

type key struct {
	principal string
	public    ed25519.PublicKey
	scopes    []scope
}

type scope struct {
	subject, predicate pattern
	call               bool    // it is of calls, not of rows
	tool               pattern // of calls
}

type pattern struct {
	text   string
	prefix bool
}

// matches compares exact names: see [memory.ExactName].
func (p pattern) matches(s string) bool {
	s = memory.ExactName(s)
	if p.prefix {
		return strings.HasPrefix(s, p.text)
	}
	return s == p.text
}

func (k *key) covers(subject, predicate string) bool {
	for _, s := range k.scopes {
		if !s.call && s.subject.matches(subject) && s.predicate.matches(predicate) {
			return true
		}
	}
	return memory.OwnSubject(k.principal, subject, predicate)
}

// calls reports whether the key may decide about calls of a tool.
func (k *key) calls(tool string) bool {
	everything := pattern{prefix: true}
	for _, s := range k.scopes {
		if s.call && s.tool.matches(tool) || !s.call && s.subject == everything && s.predicate == everything {
			return true
		}
	}
	return false
}

// Authority reports whether a principal may speak for a subject and predicate: by
// a scope of one of its keys, or of itself ([memory.OwnSubject]). It is meant for
// memory.Options.Authority. A nil Keyring leaves everybody itself.
func (k *Keyring) Authority(principal, subject, predicate string) bool {
	if k != nil {
		for i := range k.keys {
			if memory.SameName(k.keys[i].principal, principal) && k.keys[i].covers(subject, predicate) {
				return true
			}
		}
	}
	return memory.OwnSubject(principal, subject, predicate)
}

// Principals lists who has a key, in the order of the file, each once.
func (k *Keyring) Principals() []string {
	var out []string
	seen := map[string]bool{}
	if k != nil {
		for i := range k.keys {
			if p := k.keys[i].principal; !seen[p] {
				seen[p] = true
				out = append(out, p)
			}
		}
	}
	return out
}

// KeyringError names the line and the field of a keyring that cannot be read.
type KeyringError struct {
	Line  int    // from 1
	Field string // principal, key, scope, or line
	Text  string
}

// Error is one line.
func (e *KeyringError) Error() string {
	return fmt.Sprintf("confirm: keyring line %d: %s: %s", e.Line, e.Field, e.Text)
}

// Is reports whether target is [ErrKey].
func (e *KeyringError) Is(target error) bool { return target == ErrKey }

const (
	maxKeyring     = 1 << 20
	maxKeyringLine = 16 << 10
)

// ParseKeyring reads a keyring. One line that cannot be read refuses all of it,
// as a [*KeyringError].
func ParseKeyring(r io.Reader) (*Keyring, error) {
	k := &Keyring{}
	seen := map[string]int{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxKeyringLine)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		parsed, field, text := parseKey(line)
		if text == "" {
			if first := seen[string(parsed.public)]; first > 0 {
				field, text = "key", fmt.Sprintf("it is on line %d already", first)
			}
		}
		if text != "" {
			return nil, &KeyringError{Line: n, Field: field, Text: text}
		}
		seen[string(parsed.public)] = n
		k.keys = append(k.keys, parsed)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, &KeyringError{Line: n + 1, Field: "line", Text: fmt.Sprintf("more than %d bytes", maxKeyringLine)}
	} else if err != nil {
		return nil, fmt.Errorf("confirm: keyring: %w", err)
	}
	return k, nil
}

func parseKey(line string) (k key, field, text string) {
	if !utf8.ValidString(line) {
		return k, "line", "not UTF-8"
	}
	const nonJoiner, joiner = '\u200c', '\u200d' // which some scripts are written with
	if strings.ContainsFunc(line, func(r rune) bool {
		return r != nonJoiner && r != joiner && (unicode.Is(unicode.Cf, r) || unicode.IsControl(r) && r != '\t')
	}) {
		return k, "line", "it holds characters that nobody sees"
	}
	f := strings.Fields(line)
	k.principal = f[0]
	if memory.CheckName("principal", k.principal) != nil {
		return k, "principal", "it holds characters that nobody sees"
	}
	if len(k.principal) > maxName {
		return k, "principal", fmt.Sprintf("more than %d bytes", maxName)
	}
	if len(f) < 2 {
		return k, "key", "it is missing"
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(f[1])
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return k, "key", "not 32 bytes in base64"
	}
	k.public = raw
	if len(f) < 3 {
		return k, "scope", "it is missing: a key without a scope speaks for nothing"
	}
	for _, s := range f[2:] {
		parsed, ok := parseScope(s)
		if !ok {
			return k, "scope", "not subject, subject/predicate or call:tool, percent-encoded, of what can be seen"
		}
		k.scopes = append(k.scopes, parsed)
	}
	return k, "", ""
}

func parseScope(s string) (scope, bool) {
	if tool, ok := strings.CutPrefix(s, "call:"); ok {
		p, ok := parsePattern(tool)
		return scope{call: true, tool: p}, ok
	}
	subject, predicate, both := strings.Cut(s, "/")
	if !both {
		predicate = "*"
	}
	sub, ok1 := parsePattern(subject)
	pred, ok2 := parsePattern(predicate)
	return scope{subject: sub, predicate: pred}, ok1 && ok2
}

func parsePattern(s string) (pattern, bool) {
	text, prefix := strings.CutSuffix(s, "*")
	if strings.ContainsAny(text, "*/") || text == "" && !prefix {
		return pattern{}, false
	}
	plain, err := url.PathUnescape(text)
	if err != nil || !utf8.ValidString(plain) {
		return pattern{}, false
	}
	name := plain
	if prefix { // what follows it may be a word
		name = strings.TrimRightFunc(plain, unicode.IsSpace)
	}
	if name != "" && memory.CheckName("scope", name) != nil {
		return pattern{}, false
	}
	return pattern{memory.ExactName(plain), prefix}, true
}

// LoadKeyring reads a keyring file. It refuses one that others than its owner can
// write: who writes it speaks for everybody in it.
func LoadKeyring(path string) (*Keyring, error) {
	b, err := readFile(path, 0o022, "others can write it")
	if err != nil {
		return nil, err
	}
	k, err := ParseKeyring(strings.NewReader(string(b)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// Line is the line of a keyring for a public key.
func Line(principal string, public ed25519.PublicKey, scopes ...string) (string, error) {
	line := principal + " " + base64.StdEncoding.EncodeToString(public) + " " + strings.Join(scopes, " ")
	k, field, text := parseKey(line)
	if text == "" && (k.principal != principal || len(k.scopes) != len(scopes) || principal[0] == '#') {
		field, text = "principal", "it and each scope are one word without blanks"
	}
	if text != "" {
		return "", &KeyringError{Line: 1, Field: field, Text: text}
	}
	return line, nil
}

// GenerateKey makes a key and writes it to a new file, in PEM (PKCS #8), which
// only its owner can read. It never overwrites a file.
func GenerateKey(path string) (ed25519.PublicKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("confirm: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("confirm: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("confirm: key file: %w", err)
	}
	err = pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return nil, fmt.Errorf("confirm: key file: %w", errors.Join(err, os.Remove(path)))
	}
	return public, nil
}

// LoadKey reads a private key that [GenerateKey] wrote. It refuses a file that
// others than its owner can read.
func LoadKey(path string) (ed25519.PrivateKey, error) {
	b, err := readFile(path, 0o077, "others can read or write it")
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, refuse(ErrKey, "", path+" is no PEM private key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, refuse(ErrKey, "", path+" is no Ed25519 key")
	}
	return private, nil
}

// readFile reads a small regular file whose mode has none of the bits. It looks
// at what it opened, not at the name.
func readFile(path string, forbidden fs.FileMode, text string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		text := path + " cannot be opened"
		if errors.Is(err, fs.ErrNotExist) {
			text = path + " does not exist"
		}
		return nil, &RefusedError{Kind: ErrKey, Text: text, cause: err}
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, &RefusedError{Kind: ErrKey, Text: path + " cannot be read", cause: err}
	case !info.Mode().IsRegular():
		return nil, refuse(ErrKey, "", path+" is no regular file")
	case runtime.GOOS != "windows" && info.Mode().Perm()&forbidden != 0:
		return nil, refuse(ErrKey, "", fmt.Sprintf("%s has mode %04o: %s", path, info.Mode().Perm(), text))
	case info.Size() > maxKeyring:
		return nil, refuse(ErrKey, "", path+" is too large")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyring))
	if err != nil {
		return nil, &RefusedError{Kind: ErrKey, Text: path + " cannot be read", cause: err}
	}
	return b, nil
}
