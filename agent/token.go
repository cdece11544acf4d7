package agent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/memory"
)

var (
	// ErrNoTokens: the agent was built without [Options.Tokens], or with some that
	// have no key to sign with.
	ErrNoTokens = errors.New("agent: no lineage tokens")
	// ErrTokens: lineage tokens were configured wrongly.
	ErrTokens = errors.New("agent: lineage tokens")
)

// TokenStore is what lineage tokens need of a store; [*memory.Store] is one.
type TokenStore interface {
	Identity() memory.Token
	Fitness(ctx context.Context, ids []memory.ID) (memory.Fitness, error)
	Leave(ctx context.Context, nonce memory.Token, until time.Time, b []byte) error
	Spend(ctx context.Context, nonce memory.Token) ([]byte, error)
}

// Defaults and limits of [TokenOptions].
const (
	DefaultTokenLife = 2 * time.Minute
	DefaultStateLife = 7 * 24 * time.Hour
	MaxStateLife     = 90 * 24 * time.Hour
	maxTokenLife     = time.Hour
	// clockSkew is how far the clocks of two processes may be apart.
	clockSkew = time.Minute
)

// TokenOptions configure [Tokens]. Keys come from the configuration of a process,
// never from its store. They must not be the keys that persons confirm rows with
// (package gate/confirm): an agent's process holds these.
type TokenOptions struct {
	// Audience is the name that other processes know this one by. It takes tokens
	// made out to this name and to no other.
	Audience string
	// KeyID and Key sign. Without a key, tokens are read and none is made.
	KeyID string
	Key   ed25519.PrivateKey
	// Trusted are the keys, by their ids, whose tokens are believed; the public half
	// of Key is believed for states only, unless it is here. To rotate a key, trust
	// the new one everywhere, then sign with it, then trust the old one no more.
	Trusted map[string]ed25519.PublicKey
	// Life is how long a token may be on its way: 0 = 2 minutes, at most an hour.
	// StateLife is how long a saved run may rest: 0 = 7 days, at most 90.
	Life, StateLife time.Duration
}

// Tokens makes and reads lineage tokens: signed statements of what words were made
// from, that travel beside them to another process. It is immutable and safe for
// concurrent use.
//
// A token is bound to the words, to the store with its tenant, namespace and epoch,
// to the audience, and to a short time, and is good for one use, which the store
// keeps count of. Whatever is wrong with it, what it came with is of unknown
// lineage. See docs/lineage-tokens.md.
type Tokens struct {
	store TokenStore
	o     TokenOptions
}

// NewTokens checks the options. What is wrong is an [ErrTokens] that names the field.
func NewTokens(store TokenStore, o TokenOptions) (*Tokens, error) {
	wrong := func(field, text string) (*Tokens, error) {
		return nil, fmt.Errorf("%w: %s: %s", ErrTokens, field, text)
	}
	o.Trusted = maps.Clone(o.Trusted)
	switch {
	case store == nil:
		return wrong("store", "there is none")
	case !plainName(o.Audience):
		return wrong("Audience", "not a name of 1 to 255 visible characters")
	case o.Key != nil && len(o.Key) != ed25519.PrivateKeySize:
		return wrong("Key", "not an Ed25519 key")
	case o.Key != nil && !plainName(o.KeyID):
		return wrong("KeyID", "not a name of 1 to 255 visible characters")
	case o.Key == nil && o.KeyID != "":
		return wrong("KeyID", "of no key")
	case o.Key == nil && len(o.Trusted) == 0:
		return wrong("Trusted", "no key to sign with, and none to trust")
	case o.Life < 0 || o.Life > maxTokenLife:
		return wrong("Life", fmt.Sprintf("not between 0 and %s", maxTokenLife))
	case o.StateLife < 0 || o.StateLife > MaxStateLife:
		return wrong("StateLife", fmt.Sprintf("not between 0 and %s", MaxStateLife))
	}
	for id, k := range o.Trusted {
		if !plainName(id) || len(k) != ed25519.PublicKeySize {
			return wrong("Trusted", fmt.Sprintf("%q is not the id of an Ed25519 key", id))
		}
		if id == o.KeyID && o.Key != nil && !k.Equal(o.Key.Public()) {
			return wrong("Trusted", fmt.Sprintf("%q is another key than the one that signs", id))
		}
	}
	if o.Life == 0 {
		o.Life = DefaultTokenLife
	}
	if o.StateLife == 0 {
		o.StateLife = DefaultStateLife
	}
	return &Tokens{store: store, o: o}, nil
}

// Audience is the name that tokens for this process are made out to.
func (t *Tokens) Audience() string { return t.o.Audience }

func plainName(s string) bool {
	return s != "" && len(s) < 256 && utf8.ValidString(s) && clean(s, len(s)) == s && errorLine(errors.New(s)) == s
}

// refusal is why a token is not believed, in words of a closed set: it stands in
// decisions and logs.
type refusal string

func (r refusal) Error() string { return "lineage token: " + string(r) }

const (
	refusedMissing   refusal = "there is none"
	refusedTwice     refusal = "there is more than one"
	refusedMalformed refusal = "malformed"
	refusedKey       refusal = "signed with a key that is not trusted"
	refusedSignature refusal = "its signature does not hold"
	refusedKind      refusal = "of another kind"
	refusedAudience  refusal = "made out to another audience"
	refusedStore     refusal = "of another store, tenant or namespace"
	refusedEpoch     refusal = "of another epoch of the store"
	refusedWords     refusal = "made for other words"
	refusedEarly     refusal = "issued in the future"
	refusedExpired   refusal = "expired"
	refusedLife      refusal = "good for too long"
	refusedReplay    refusal = "used before"
	refusedLedger    refusal = "the rows it refers to are not those it was signed for"
	refusedRow       refusal = "a row that it names is not in the store"
	refusedStoreDown refusal = "the store failed"
	refusedRun       refusal = "of another agent or principal"
	refusedNone      refusal = "this agent reads none"
)

type tokenKind byte

const (
	kindWords tokenKind = 1 // beside words or a call
	kindState tokenKind = 2 // a saved run
)

const (
	tokenPrefix = "hl1."
	tokenDomain = "hearsay lineage token/1\x00"
	// inlineIDs is how many ids a token carries itself, so that a header with it stays
	// under 4 KiB and baggage under its limit; more are left in the store. A state is
	// in no header.
	inlineIDs    = 128
	maxTokenText = 8 << 10
	maxStateText = 2 << 20
	maxWhy       = 255
	flagUnknown  = 1
	flagLeft     = 2
)

// claims are what a token says.
type claims struct {
	kind                 tokenKind
	key                  string // id of the key that signed
	store                memory.Token
	epoch                uint64
	audience             string
	agent, model, family string // who made the words
	run, principal       string // principal of a state only: names do not travel
	issued, expires      time.Time
	nonce                memory.Token
	words                [sha256.Size]byte // digest of what it stands beside
	unknown              bool
	why                  string
	left                 bool              // the rows are in the store, under the nonce
	sum                  [sha256.Size]byte // digest of the packed rows, wherever they are
	direct, ancestors    []memory.ID
	typed                []string // of a state: the principal's words
	asked                []string // and those of them that a third party was asked about
	caller               string   // of a state: the run whose calls the run makes
}

// issue signs. It fills in all that does not say what the words were made from.
func (t *Tokens) issue(ctx context.Context, c claims, words []byte) (string, error) {
	if t == nil || t.o.Key == nil {
		return "", ErrNoTokens
	}
	f, err := t.store.Fitness(ctx, nil)
	if err != nil {
		return "", fmt.Errorf("agent: lineage token: %w", err)
	}
	life := t.o.Life
	if c.kind == kindState {
		life = t.o.StateLife
	}
	c.key, c.store, c.epoch = t.o.KeyID, t.store.Identity(), f.Epoch
	c.issued = f.Now.Truncate(time.Microsecond)
	c.expires = c.issued.Add(life)
	c.words = sha256.Sum256(words)
	rand.Read(c.nonce[:])
	if len(c.direct)+len(c.ancestors) > memory.MaxClosure {
		c.unknown, c.why = true, "it rests on too many rows"
		c.direct, c.ancestors = c.direct[:min(len(c.direct), memory.MaxClosure)], nil
	}
	rows, err := packRows(c.direct, c.ancestors)
	if err != nil {
		return "", fmt.Errorf("agent: lineage token: %w", err)
	}
	c.sum = sha256.Sum256(rows)
	if c.left = c.kind == kindWords && len(c.direct)+len(c.ancestors) > inlineIDs; c.left {
		if err := t.store.Leave(ctx, c.nonce, c.expires.Add(clockSkew), rows); err != nil {
			return "", fmt.Errorf("agent: lineage token: %w", err)
		}
		rows = nil
	}
	b := c.encode(rows)
	b = append(b, ed25519.Sign(t.o.Key, append([]byte(tokenDomain), b...))...)
	text := tokenPrefix + base64.RawURLEncoding.EncodeToString(b)
	if c.kind == kindState && len(text) > maxStateText {
		return "", fmt.Errorf("%w: a run with more than %d bytes of typed words is not saved", ErrTokens, maxStateText)
	}
	return text, nil
}

// open reads a token that stands beside words, and uses it up. Any error means that
// the lineage of the words is unknown.
func (t *Tokens) open(ctx context.Context, kind tokenKind, text string, words []byte) (claims, error) {
	switch {
	case t == nil:
		return claims{}, refusedNone
	case text == "":
		return claims{}, refusedMissing
	}
	b, signature, err := splitToken(kind, text)
	if err != nil {
		return claims{}, err
	}
	c, rows, err := decodeClaims(b)
	if err != nil {
		return claims{}, err
	}
	key := t.o.Trusted[c.key]
	if kind == kindState && t.o.Key != nil && c.key == t.o.KeyID {
		key = t.o.Key.Public().(ed25519.PublicKey)
	}
	if key == nil {
		return claims{}, refusedKey
	}
	if !ed25519.Verify(key, append([]byte(tokenDomain), b...), signature) {
		return claims{}, refusedSignature
	}
	f, err := t.store.Fitness(ctx, nil)
	if err != nil {
		return claims{}, errors.Join(refusedStoreDown, err)
	}
	limit := maxTokenLife
	if kind == kindState {
		limit = MaxStateLife
	}
	digest := sha256.Sum256(words)
	switch {
	case c.kind != kind:
		return claims{}, refusedKind
	case c.audience != t.o.Audience:
		return claims{}, refusedAudience
	case c.store != t.store.Identity():
		return claims{}, refusedStore
	case c.epoch != f.Epoch:
		return claims{}, refusedEpoch
	case subtle.ConstantTimeCompare(c.words[:], digest[:]) != 1:
		return claims{}, refusedWords
	case c.expires.Sub(c.issued) > limit:
		return claims{}, refusedLife
	case c.issued.After(f.Now.Add(clockSkew)):
		return claims{}, refusedEarly
	case !f.Now.Before(c.expires):
		return claims{}, refusedExpired
	}
	left, err := t.store.Spend(ctx, c.nonce) // the last thing, so that a bad token writes nothing
	switch {
	case errors.Is(err, memory.ErrSpent):
		return claims{}, refusedReplay
	case err != nil:
		return claims{}, errors.Join(refusedStoreDown, err)
	}
	if c.left {
		rows = left
	}
	if sum := sha256.Sum256(rows); sum != c.sum {
		return claims{}, refusedLedger
	}
	if c.direct, c.ancestors, err = unpackRows(rows); err != nil {
		return claims{}, refusedLedger
	}
	return c, nil
}

// splitToken undoes base64 and parts the signature. One token has one spelling.
func splitToken(kind tokenKind, text string) (signed, signature []byte, err error) {
	limit := maxTokenText
	if kind == kindState {
		limit = maxStateText
	}
	body, ok := strings.CutPrefix(text, tokenPrefix)
	if !ok || len(text) > limit {
		return nil, nil, refusedMalformed
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || base64.RawURLEncoding.EncodeToString(b) != body || len(b) < ed25519.SignatureSize {
		return nil, nil, refusedMalformed
	}
	at := len(b) - ed25519.SignatureSize
	return b[:at], b[at:], nil
}

// encode is the canonical form: fixed fields and lengths of fixed size, all of them
// big-endian, so that equal claims have equal bytes and others none. rows are the
// packed rows, or nothing if they are left.
func (c *claims) encode(rows []byte) []byte {
	flags := byte(0)
	if c.unknown {
		flags |= flagUnknown
	}
	if c.left {
		flags |= flagLeft
	}
	b := []byte{c.kind.version(), byte(c.kind), flags}
	b = append(b, c.store[:]...)
	b = binary.BigEndian.AppendUint64(b, c.epoch)
	b = binary.BigEndian.AppendUint64(b, uint64(c.issued.UnixMicro()))
	b = binary.BigEndian.AppendUint64(b, uint64(c.expires.UnixMicro()))
	b = append(b, c.nonce[:]...)
	b = append(b, c.words[:]...)
	b = append(b, c.sum[:]...)
	for _, s := range c.names() {
		*s = clean(*s, 255)
		b = append(append(b, byte(len(*s))), *s...)
	}
	b = appendBytes(b, rows)
	b = binary.BigEndian.AppendUint32(b, uint32(len(c.typed)))
	for _, s := range c.typed {
		b = appendBytes(b, []byte(s))
	}
	if c.kind == kindState {
		b = binary.BigEndian.AppendUint32(b, uint32(len(c.asked)))
		for _, s := range c.asked {
			b = appendBytes(b, []byte(s))
		}
		b = appendBytes(b, []byte(c.caller))
	}
	return b
}

// version is that of the form. A token of another version is refused.
func (k tokenKind) version() byte {
	if k == kindState {
		return 3
	}
	return 1
}

// names are the short texts of a token, in order.
func (c *claims) names() []*string {
	return []*string{&c.key, &c.audience, &c.agent, &c.model, &c.family, &c.run, &c.principal, &c.why}
}

func appendBytes(b, s []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

// decodeClaims reads what encode wrote, and nothing else. rows are packed.
func decodeClaims(b []byte) (c claims, rows []byte, err error) {
	d := decoding{b: b}
	version, kind, flags := d.byte(), d.byte(), d.byte()
	d.copy(c.store[:])
	c.epoch = d.u64()
	issued, expires := int64(d.u64()), int64(d.u64())
	d.copy(c.nonce[:])
	d.copy(c.words[:])
	d.copy(c.sum[:])
	for _, s := range c.names() {
		*s = string(d.take(int(d.byte())))
		d.bad = d.bad || clean(*s, len(*s)) != *s
	}
	rows = d.take(int(d.u32()))
	for n := d.u32(); n > 0 && !d.bad; n-- {
		c.typed = append(c.typed, string(d.take(int(d.u32()))))
	}
	if tokenKind(kind) == kindState {
		for n := d.u32(); n > 0 && !d.bad; n-- {
			c.asked = append(c.asked, string(d.take(int(d.u32()))))
		}
		c.caller = string(d.take(int(d.u32())))
	}
	c.kind, c.unknown, c.left = tokenKind(kind), flags&flagUnknown != 0, flags&flagLeft != 0
	c.issued, c.expires = time.UnixMicro(issued).UTC(), time.UnixMicro(expires).UTC()
	const year9999 = 253402300799 * 1e6
	switch {
	case d.bad, len(d.b) > 0, version != tokenKind(kind).version(), flags > flagUnknown|flagLeft, c.left && len(rows) > 0,
		issued < 0, expires < issued, expires > year9999, c.kind == kindWords && len(c.typed) > 0:
		return claims{}, nil, refusedMalformed
	}
	return c, rows, nil
}

// packRows writes the ids of a lineage: how many are direct, then all of them.
func packRows(direct, ancestors []memory.ID) ([]byte, error) {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(direct)))
	for _, ids := range [][]memory.ID{direct, ancestors} {
		p, err := memory.PackIDs(ids)
		if err != nil {
			return nil, err
		}
		b = append(b, p...)
	}
	return b, nil
}

func unpackRows(b []byte) (direct, ancestors []memory.ID, err error) {
	d := decoding{b: b}
	n := int(d.u32())
	ids, err := memory.UnpackIDs(d.b)
	if d.bad || err != nil || n > len(ids) || len(ids) > memory.MaxClosure {
		return nil, nil, refusedLedger
	}
	return ids[:n:n], ids[n:], nil
}

// decoding reads from the front of bytes; the first thing missing sticks.
type decoding struct {
	b   []byte
	bad bool
}

func (d *decoding) take(n int) []byte {
	if d.bad || n < 0 || n > len(d.b) {
		d.bad = true
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *decoding) copy(to []byte) { copy(to, d.take(len(to))) }

func (d *decoding) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoding) u32() uint32 {
	if b := d.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (d *decoding) u64() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// ParseTrusted reads the keys whose tokens are believed: one line each, the id and
// the public key in base64; empty lines and those that begin with # are skipped. One
// line that cannot be read refuses all.
func ParseTrusted(text []byte) (map[string]ed25519.PublicKey, error) {
	out := map[string]ed25519.PublicKey{}
	for n, line := range bytes.Split(text, []byte("\n")) {
		f := strings.Fields(string(line))
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		wrong := func(text string) error { return fmt.Errorf("%w: trusted keys, line %d: %s", ErrTokens, n+1, text) }
		if len(f) != 2 || !plainName(f[0]) {
			return nil, wrong("not an id and a key")
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(f[1])
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return nil, wrong("not 32 bytes in base64")
		}
		if out[f[0]] != nil {
			return nil, wrong("the id stands there twice")
		}
		out[f[0]] = raw
	}
	return out, nil
}
