package agent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// paper is a store of tokens that nothing is kept in but what a test says.
type paper struct {
	now   time.Time
	left  []byte
	spent error
}

func (p *paper) Identity() memory.Token { return memory.Token{7} }
func (p *paper) Fitness(context.Context, []memory.ID) (memory.Fitness, error) {
	return memory.Fitness{Epoch: 3, Now: p.now}, nil
}
func (p *paper) Leave(_ context.Context, _ memory.Token, _ time.Time, b []byte) error {
	p.left = b
	return nil
}
func (p *paper) Spend(context.Context, memory.Token) ([]byte, error) { return p.left, p.spent }

func paperTokens(t testing.TB) (*paper, *Tokens) {
	p := &paper{now: time.Date(2026, 4, 17, 9, 0, 0, 0, time.UTC)}
	k := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	tokens, err := NewTokens(p, TokenOptions{Audience: "b", KeyID: "k", Key: k, Trusted: map[string]ed25519.PublicKey{"k": k.Public().(ed25519.PublicKey)}})
	if err != nil {
		t.Fatal(err)
	}
	return p, tokens
}

func numbered(n int) []memory.ID {
	ids := make([]memory.ID, n)
	for i := range ids {
		ids[i] = memory.ID(fmt.Sprintf("mem_%025d0", i))
	}
	return ids
}

// TestALineageOfTooManyRowsIsUnknown: it is capped, fails closed, and says so.
func TestALineageOfTooManyRowsIsUnknown(t *testing.T) {
	_, tokens := paperTokens(t)
	for n, known := range map[int]bool{0: true, 128: true, 129: true, memory.MaxClosure: true, memory.MaxClosure + 1: false, 100_000: false} {
		text, err := tokens.issue(t.Context(), claims{kind: kindWords, audience: "b", direct: numbered(n)}, []byte("x"))
		if err != nil || len(text) > 4096 {
			t.Fatal(n, len(text), err)
		}
		c, err := tokens.open(t.Context(), kindWords, text, []byte("x"))
		if err != nil || c.unknown == known || !known && c.why != "it rests on too many rows" || len(c.direct) != min(n, memory.MaxClosure) {
			t.Errorf("%d rows: unknown %t (%s), %d direct, %v", n, c.unknown, c.why, len(c.direct), err)
		}
	}
}

func TestRowsThatWereExchangedInTheStoreAreRefused(t *testing.T) {
	p, tokens := paperTokens(t)
	text, err := tokens.issue(t.Context(), claims{kind: kindWords, audience: "b", direct: numbered(200)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	good := p.left
	for name, left := range map[string][]byte{"none": nil, "fewer": good[:len(good)-16], "others": append(bytes.Clone(good[:len(good)-1]), 1), "more": append(bytes.Clone(good), good[4:20]...)} {
		p.left = left
		if _, err := tokens.open(t.Context(), kindWords, text, nil); !errors.Is(err, refusedLedger) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.left = good
	if _, err := tokens.open(t.Context(), kindWords, text, nil); err != nil {
		t.Error(err)
	}
}

func TestATokenThatIsGoodForTooLongIsRefused(t *testing.T) {
	_, tokens := paperTokens(t)
	tokens.o.Life = 2 * time.Hour // a process that was configured otherwise
	text, err := tokens.issue(t.Context(), claims{kind: kindWords, audience: "b"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.open(t.Context(), kindWords, text, nil); !errors.Is(err, refusedLife) {
		t.Error(err)
	}
}

// FuzzClaims: what is read is what would be written, byte for byte, so that a token
// has one form; and nothing panics.
func FuzzClaims(f *testing.F) {
	for _, c := range []claims{
		{kind: kindWords, audience: "b", key: "k"},
		{kind: kindState, typed: []string{"pay", ""}, unknown: true, why: "x", issued: time.UnixMicro(5), expires: time.UnixMicro(6)},
		{kind: kindWords, left: true, agent: "ä"},
	} {
		c.issued, c.expires = time.UnixMicro(5), time.UnixMicro(6)
		rows, err := packRows(numbered(2), nil)
		if err != nil {
			f.Fatal(err)
		}
		if c.left {
			rows = nil
		}
		f.Add(c.encode(rows))
	}
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 300))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, rows, err := decodeClaims(b)
		if err != nil {
			if !errors.Is(err, refusedMalformed) {
				t.Fatalf("another refusal: %v", err)
			}
			return
		}
		if again := c.encode(rows); !bytes.Equal(again, b) {
			t.Fatalf("%x is read and would be written %x", b, again)
		}
		_, _, _ = unpackRows(rows)
	})
}

// FuzzToken: a text opens only if it is the one that was signed.
func FuzzToken(f *testing.F) {
	_, tokens := paperTokens(f)
	good, err := tokens.issue(context.Background(), claims{kind: kindWords, audience: "b", direct: numbered(3)}, []byte("x"))
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"", "=", "hl1.", "AAAA", "\n", base64.StdEncoding.EncodeToString(make([]byte, 400))} {
		f.Add(0, len(good), s) // all of it
		f.Add(len(good), 0, s)
		f.Add(4, 8, s)
	}
	f.Fuzz(func(t *testing.T, at, cut int, insert string) {
		at = int(uint(at) % uint(len(good)+1)) // each process of the fuzzer has a token of its own
		cut = int(uint(cut) % uint(len(good)-at+1))
		text := good[:at] + insert + good[at+cut:]
		_, err := tokens.open(context.Background(), kindWords, text, []byte("x"))
		var why refusal
		switch {
		case err == nil && text != good:
			t.Fatalf("opened: %q, and %q was signed", text, good)
		case err != nil && text == good:
			t.Fatal(err)
		case err != nil && !errors.As(err, &why):
			t.Fatalf("no refusal: %v", err)
		}
	})
}
