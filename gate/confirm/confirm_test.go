package confirm_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/internal/teststore"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func TestMain(m *testing.M) { testmain.Run(m, teststore.Stop) }

var day0 = time.Date(2026, 4, 17, 9, 0, 0, 0, time.UTC)

// keyOf is the same key for the same name.
func keyOf(name string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte((name + strings.Repeat(".", 32))[:32]))
}

func line(t testing.TB, name string, scopes ...string) string {
	t.Helper()
	l, err := confirm.Line(name, keyOf(name).Public().(ed25519.PublicKey), scopes...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func ring(t testing.TB, lines ...string) *confirm.Keyring {
	t.Helper()
	k, err := confirm.ParseKeyring(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

type world struct {
	*memory.Store
	keys *confirm.Keyring
	mu   sync.Mutex
	now  time.Time
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// newWorld has a store and three people: ana for acme's billing, ben for what
// concerns tickets, cleo for everything.
func newWorld(t testing.TB) *world {
	w := &world{now: day0, keys: ring(t, "# who may confirm what", "", line(t, "ana", "acme/billing.*"), line(t, "ben", "ticket*"), line(t, "cleo", "*"))}
	w.Store = storetest.NewStore(&memory.Options{Authority: w.keys.Authority, Clock: func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.now = w.now.Add(time.Microsecond)
		return w.now
	}})
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func fact(object string) memory.Content {
	return memory.Content{Subject: "acme", Predicate: "billing.email", Object: object, Cardinality: memory.CardinalityFunctional}
}

// pending is a row that a model made up.
func (w *world) pending(t testing.TB, c memory.Content) *memory.Row {
	t.Helper()
	r, err := w.Put(t.Context(), memory.Draft{Content: c, Origin: memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityConfidential,
		Criticality: memory.CriticalityHigh, Asserter: memory.Asserter{Principal: "assistant", Model: "sonnet-4.6", Family: "claude"}})
	if err != nil {
		t.Fatal(err)
	}
	return w.row(t, r.ID)
}

// known is a row that a system of record verified.
func (w *world) known(t testing.TB, c memory.Content) *memory.Row {
	t.Helper()
	by := memory.Asserter{Principal: "assistant", Tool: "crm"}
	r, err := w.Put(t.Context(), memory.Draft{Content: c, Origin: memory.OriginFirstHand, State: memory.StateVerified, Asserter: by, Sensitivity: memory.SensitivityInternal, Anchor: "tool:crm",
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "call", Group: by.Group(), Anchor: memory.Anchor{URI: "call:1"}, At: day0}}})
	if err != nil {
		t.Fatal(err)
	}
	return w.row(t, r.ID)
}

func (w *world) row(t testing.TB, id memory.ID) *memory.Row {
	t.Helper()
	rows, err := w.Get(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return &rows[0]
}

func (w *world) statement(v confirm.Verb, r *memory.Row, who string) confirm.Statement {
	return confirm.New(v, r, w.Tenant(), who, "I asked them by phone", w.Now(), time.Hour)
}

func sign(t testing.TB, s confirm.Statement) confirm.Signed {
	t.Helper()
	signed, err := confirm.Sign(keyOf(s.Principal), s)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func (w *world) apply(t testing.TB, s confirm.Signed) (confirm.Result, error) {
	t.Helper()
	return confirm.Apply(t.Context(), w.Store, w.keys, s)
}

func TestConfirmVerifiesTheRow(t *testing.T) {
	w := newWorld(t)
	row := w.pending(t, fact("ops@acme.example"))
	s := w.statement(confirm.Confirm, row, "ana")
	res, err := w.apply(t, sign(t, s))
	if err != nil || res.State != memory.StateVerified || res.Row != row.ID || res.Revision != row.Revision+1 {
		t.Fatalf("%+v, %v", res, err)
	}
	got := w.row(t, row.ID)
	if got.State() != memory.StateVerified || got.Rank != memory.RankUser || got.Origin != memory.OriginModelDerived || len(got.Evidence) != 1 {
		t.Errorf("row %+v", got)
	}
	e := got.Evidence[0]
	if e.Rank != memory.RankUser || e.Relation != memory.RelationSupports || e.Anchor.URI != "confirm:"+s.Nonce || e.Group != "user:ana" || e.Source != "user:ana" {
		t.Errorf("evidence %+v", e)
	}
	log, err := w.History(t.Context(), row.ID, false)
	if err != nil || len(log) != 2 || log[1].Actor != "ana" || log[1].Authority != memory.AuthorityUser || log[1].Reason != s.Reason {
		t.Errorf("history %+v, %v", log, err)
	}
	t.Run("a verified row can be confirmed again", func(t *testing.T) {
		w.pass(time.Hour)
		if res, err := w.apply(t, sign(t, w.statement(confirm.Confirm, w.row(t, row.ID), "cleo"))); err != nil || res.State != memory.StateVerified {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

func TestRejectAttachesToTheClaim(t *testing.T) {
	for name, make := range map[string]func(*world, testing.TB) *memory.Row{
		"an unverified row":          func(w *world, t testing.TB) *memory.Row { return w.pending(t, fact("ops@acme.example")) },
		"a row that a tool verified": func(w *world, t testing.TB) *memory.Row { return w.known(t, fact("ops@acme.example")) },
		"a row that is contradicted yet": func(w *world, t testing.TB) *memory.Row {
			r := w.pending(t, fact("ops@acme.example"))
			if _, err := w.Apply(t.Context(), memory.Transition{Row: r.ID, Revision: r.Revision, To: memory.TruthContradicted, Authority: memory.AuthorityProbe, Actor: "worker", Source: "crm", Reason: "says otherwise",
				Evidence: []memory.Evidence{{Relation: memory.RelationContradicts, Rank: memory.RankTool, Source: "crm", Verifier: "crm", Group: "tool:crm", At: day0}}}); err != nil {
				t.Fatal(err)
			}
			return w.row(t, r.ID)
		},
	} {
		for _, verb := range []confirm.Verb{confirm.Reject, confirm.Contradict} {
			t.Run(name+", "+verb.String(), func(t *testing.T) {
				w := newWorld(t)
				row := make(w, t)
				signed := sign(t, w.statement(verb, row, "ana"))
				if _, err := w.apply(t, signed); err != nil {
					t.Fatal(err)
				}
				got := w.row(t, row.ID)
				if got.Truth != memory.TruthContradicted || got.Rejection == nil || got.Rejection.By != "ana" {
					t.Errorf("truth %s, rejection %+v", got.Truth, got.Rejection)
				}
				if again, err := w.apply(t, signed); !errors.Is(err, confirm.ErrStale) {
					t.Errorf("replayed: %+v, %v", again, err)
				}
			})
		}
	}
}

func TestContradictWritesWhatIsRight(t *testing.T) {
	w := newWorld(t)
	row := w.known(t, fact("old@acme.example"))
	s := w.statement(confirm.Contradict, row, "ana")
	s.Object = "new@acme.example"
	res, err := w.apply(t, sign(t, s))
	if err != nil || res.Correction == "" || res.State != memory.StateUnverified {
		t.Fatalf("%+v, %v", res, err)
	}
	right := w.row(t, res.Correction)
	if right.State() != memory.StateVerified || right.Origin != memory.OriginUserAsserted || right.Rank != memory.RankUser || right.Content.Object != s.Object ||
		right.Content.Subject != "acme" || right.Content.Predicate != "billing.email" || right.Asserter.Principal != "ana" || right.Sensitivity != row.Sensitivity {
		t.Errorf("row %+v", right)
	}
	if wrong := w.row(t, row.ID); wrong.Truth != memory.TruthContradicted || wrong.Rejection == nil {
		t.Errorf("the wrong row is %s", wrong.Truth)
	}
	t.Run("a replay does not bring the right one back after it was rejected", func(t *testing.T) {
		signed := sign(t, s)
		if _, err := w.apply(t, sign(t, w.statement(confirm.Reject, right, "cleo"))); err != nil {
			t.Fatal(err)
		}
		if _, err := w.apply(t, signed); !errors.Is(err, confirm.ErrStale) {
			t.Errorf("%v", err)
		}
		if got := w.row(t, right.ID); got.State() == memory.StateVerified {
			t.Error("it is verified again")
		}
	})
	t.Run("free text has no object to correct", func(t *testing.T) {
		row := w.pending(t, memory.Content{Text: "Acme pays late", Cardinality: memory.CardinalityUnknown})
		s := w.statement(confirm.Contradict, row, "cleo")
		s.Object = "x"
		if _, err := w.apply(t, sign(t, s)); !errors.Is(err, confirm.ErrStatement) {
			t.Errorf("%v", err)
		}
		if w.row(t, row.ID).Truth != memory.TruthUnverified {
			t.Error("the row moved")
		}
	})
	t.Run("if the right one cannot be written, the contradiction stands and can be said again", func(t *testing.T) {
		w := newWorld(t)
		row := w.known(t, fact("old@acme.example"))
		s := w.statement(confirm.Contradict, row, "ana")
		s.Object = "new@acme.example"
		broken := brokenPut{w.Store}
		res, err := confirm.Apply(t.Context(), broken, w.keys, sign(t, s))
		if !errors.Is(err, confirm.ErrHalf) || !errors.Is(err, memory.ErrStore) || w.row(t, row.ID).Truth != memory.TruthContradicted || res.Correction != "" {
			t.Fatalf("%+v, %v", res, err)
		}
		s = w.statement(confirm.Contradict, w.row(t, row.ID), "ana")
		s.Object = "new@acme.example"
		if res, err = w.apply(t, sign(t, s)); err != nil || w.row(t, res.Correction).State() != memory.StateVerified {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

type brokenPut struct{ *memory.Store }

func (brokenPut) Put(context.Context, memory.Draft) (memory.Receipt, error) {
	return memory.Receipt{}, memory.ErrStore
}

// TestAStatementCountsOnce: each verb moves the fitness version, so the same
// statement, and every other that was signed for the same state, is stale.
func TestAStatementCountsOnce(t *testing.T) {
	for _, verb := range []confirm.Verb{confirm.Confirm, confirm.Reject, confirm.Contradict} {
		t.Run(verb.String(), func(t *testing.T) {
			w := newWorld(t)
			row := w.pending(t, fact("ops@acme.example"))
			first, second := sign(t, w.statement(verb, row, "ana")), sign(t, w.statement(verb, row, "cleo"))
			if _, err := w.apply(t, first); err != nil {
				t.Fatal(err)
			}
			after := w.row(t, row.ID)
			for name, s := range map[string]confirm.Signed{"the same": first, "another for the same state": second} {
				if _, err := w.apply(t, s); !errors.Is(err, confirm.ErrStale) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if got := w.row(t, row.ID); got.Revision != after.Revision || len(got.Evidence) != len(after.Evidence) {
				t.Error("a replay wrote something")
			}
		})
	}
	t.Run("of many at once, one", func(t *testing.T) {
		w := newWorld(t)
		row := w.pending(t, fact("ops@acme.example"))
		s := sign(t, w.statement(confirm.Confirm, row, "ana"))
		var group sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			group.Go(func() { _, errs[i] = confirm.Apply(t.Context(), w.Store, w.keys, s) })
		}
		group.Wait()
		applied := 0
		for _, err := range errs {
			if err == nil {
				applied++
			} else if !errors.Is(err, confirm.ErrStale) {
				t.Error(err)
			}
		}
		if applied != 1 {
			t.Errorf("it was applied %d times", applied)
		}
	})
}

// TestEveryFieldIsSigned alters each field of a signed statement in turn.
func TestEveryFieldIsSigned(t *testing.T) {
	w := newWorld(t)
	row, other := w.pending(t, fact("ops@acme.example")), w.pending(t, fact("evil@x.example"))
	base := w.statement(confirm.Contradict, row, "ana")
	base.Object = "new@acme.example"
	signed := sign(t, base)
	for name, c := range map[string]struct {
		alter func(*confirm.Signed)
		want  error
	}{
		"verb":                {func(s *confirm.Signed) { s.Verb, s.Object = confirm.Confirm, "" }, confirm.ErrForged},
		"another verb":        {func(s *confirm.Signed) { s.Verb, s.Object = confirm.Reject, "" }, confirm.ErrForged},
		"tenant":              {func(s *confirm.Signed) { s.Tenant = "other" }, confirm.ErrForged},
		"row":                 {func(s *confirm.Signed) { s.Row = other.ID }, confirm.ErrForged},
		"content hash":        {func(s *confirm.Signed) { s.ContentHash[0]++ }, confirm.ErrForged},
		"revision":            {func(s *confirm.Signed) { s.Revision++ }, confirm.ErrForged},
		"principal":           {func(s *confirm.Signed) { s.Principal = "cleo" }, confirm.ErrForged},
		"unknown principal":   {func(s *confirm.Signed) { s.Principal = "dora" }, confirm.ErrUnknownKey},
		"principal in case":   {func(s *confirm.Signed) { s.Principal = "Ana" }, confirm.ErrUnknownKey},
		"end":                 {func(s *confirm.Signed) { s.Expires = s.Expires.Add(time.Nanosecond) }, confirm.ErrForged},
		"nonce":               {func(s *confirm.Signed) { s.Nonce += "x" }, confirm.ErrForged},
		"reason":              {func(s *confirm.Signed) { s.Reason += "." }, confirm.ErrForged},
		"object":              {func(s *confirm.Signed) { s.Object = "evil@x.example" }, confirm.ErrForged},
		"no object":           {func(s *confirm.Signed) { s.Object = "" }, confirm.ErrForged},
		"words moved over":    {func(s *confirm.Signed) { s.Reason, s.Object = s.Reason+s.Object[:1], s.Object[1:] }, confirm.ErrForged},
		"signature":           {func(s *confirm.Signed) { s.Signature = bytes.Clone(s.Signature); s.Signature[3] ^= 1 }, confirm.ErrForged},
		"no signature":        {func(s *confirm.Signed) { s.Signature = nil }, confirm.ErrForged},
		"short signature":     {func(s *confirm.Signed) { s.Signature = s.Signature[:63] }, confirm.ErrForged},
		"long signature":      {func(s *confirm.Signed) { s.Signature = append(bytes.Clone(s.Signature), 0) }, confirm.ErrForged},
		"another's signature": {func(s *confirm.Signed) { s.Signature = ed25519.Sign(keyOf("ben"), []byte("x")) }, confirm.ErrForged},
		"no verb":             {func(s *confirm.Signed) { s.Verb = 0 }, confirm.ErrStatement},
		"a verb that is none": {func(s *confirm.Signed) { s.Verb = 9 }, confirm.ErrStatement},
		"no tenant":           {func(s *confirm.Signed) { s.Tenant = "" }, confirm.ErrStatement},
		"no row":              {func(s *confirm.Signed) { s.Row = "" }, confirm.ErrStatement},
		"no revision":         {func(s *confirm.Signed) { s.Revision = 0 }, confirm.ErrStatement},
		"no principal":        {func(s *confirm.Signed) { s.Principal = " " }, confirm.ErrStatement},
		"no end":              {func(s *confirm.Signed) { s.Expires = time.Time{} }, confirm.ErrStatement},
		"no nonce":            {func(s *confirm.Signed) { s.Nonce = "" }, confirm.ErrStatement},
		"a short nonce":       {func(s *confirm.Signed) { s.Nonce = "123456789012345" }, confirm.ErrStatement},
		"no reason":           {func(s *confirm.Signed) { s.Reason = "" }, confirm.ErrStatement},
	} {
		t.Run(name, func(t *testing.T) {
			s := signed
			c.alter(&s)
			_, err := w.apply(t, s)
			var refused *confirm.RefusedError
			if !errors.Is(err, c.want) || !errors.As(err, &refused) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if err := confirm.Verify(w.keys, s, w.Now()); !errors.Is(err, c.want) {
				t.Errorf("Verify: %v", err)
			}
			if w.row(t, row.ID).Revision != row.Revision || w.row(t, other.ID).Revision != other.Revision {
				t.Fatal("something moved")
			}
		})
	}
	t.Run("the verb alone", func(t *testing.T) {
		s := sign(t, w.statement(confirm.Confirm, row, "ana"))
		s.Verb = confirm.Reject
		if _, err := w.apply(t, s); !errors.Is(err, confirm.ErrForged) {
			t.Errorf("%v", err)
		}
	})
	t.Run("the principal alone", func(t *testing.T) {
		public := base64.StdEncoding.EncodeToString(keyOf("ana").Public().(ed25519.PublicKey))
		s := sign(t, w.statement(confirm.Confirm, row, "ana"))
		s.Principal = "cleo" // who has the same key, on another list
		if err := confirm.Verify(ring(t, "cleo "+public+" *"), s, w.Now()); !errors.Is(err, confirm.ErrForged) {
			t.Errorf("%v", err)
		}
	})
	if _, err := w.apply(t, signed); err != nil {
		t.Errorf("and unaltered: %v", err)
	}
}

// TestTheSignedFormIsPinned: another implementation signs the same bytes, and a
// change of the form is a change of its domain.
func TestTheSignedFormIsPinned(t *testing.T) {
	s := confirm.Statement{Verb: confirm.Contradict, Tenant: "default", Row: memory.ID("mem_" + strings.Repeat("0", 26)), ContentHash: fact("a").Hash(), Revision: 3,
		Principal: "ana", Expires: day0.Add(time.Hour), Nonce: "0123456789abcdef", Reason: "asked", Object: "b"}
	var want []byte
	hash := fact("a").Hash()
	for _, part := range []string{"hearsay/confirm/1", "contradict", "default", "mem_00000000000000000000000000", string(hash[:]), "3", "ana", "2026-04-17T10:00:00Z", "0123456789abcdef", "asked", "b"} {
		want = binary.BigEndian.AppendUint64(want, uint64(len(part)))
		want = append(want, part...)
	}
	if signed := sign(t, s); !ed25519.Verify(keyOf("ana").Public().(ed25519.PublicKey), want, signed.Signature) {
		t.Error("the signed form has changed")
	}
}

// TestStatementsThatAreSignedAndStillRefused: a good signature is not enough.
func TestStatementsThatAreSignedAndStillRefused(t *testing.T) {
	for name, c := range map[string]struct {
		who   string
		alter func(*world, *confirm.Statement)
		want  error
	}{
		"ended":                      {"ana", func(w *world, s *confirm.Statement) { w.pass(2 * time.Hour) }, confirm.ErrExpired},
		"ends this moment":           {"ana", func(w *world, s *confirm.Statement) { s.Expires = w.Now().Add(time.Microsecond) }, confirm.ErrExpired},
		"ends too far ahead":         {"ana", func(w *world, s *confirm.Statement) { s.Expires = w.Now().Add(25 * time.Hour) }, confirm.ErrExpired},
		"of another tenant":          {"ana", func(_ *world, s *confirm.Statement) { s.Tenant = "other" }, confirm.ErrTenant},
		"of other content":           {"ana", func(_ *world, s *confirm.Statement) { s.ContentHash = confirm.Hash{1} }, confirm.ErrContent},
		"of an older state":          {"ana", func(_ *world, s *confirm.Statement) { s.Revision += 7 }, confirm.ErrStale},
		"of a row that is not there": {"ana", func(_ *world, s *confirm.Statement) { s.Row = memory.ID("mem_" + strings.Repeat("0", 26)) }, memory.ErrNotFound},
		"of another row": {"ana", func(w *world, s *confirm.Statement) {
			s.Row = w.pending(t, fact("evil@x.example")).ID
		}, confirm.ErrContent},
		"out of scope": {"ben", func(*world, *confirm.Statement) {}, confirm.ErrScope},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			row := w.pending(t, fact("ops@acme.example"))
			s := w.statement(confirm.Confirm, row, c.who)
			c.alter(w, &s)
			if _, err := w.apply(t, sign(t, s)); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if got := w.row(t, row.ID); got.Revision != row.Revision {
				t.Error("the row moved")
			}
		})
	}
	t.Run("the row moved after it was looked at", func(t *testing.T) {
		w := newWorld(t)
		row := w.known(t, fact("ops@acme.example"))
		s := sign(t, w.statement(confirm.Confirm, row, "ana"))
		if _, err := w.Apply(t.Context(), memory.Transition{Row: row.ID, Revision: row.Revision, To: memory.SecurityQuarantined, Authority: memory.AuthoritySentinel, Actor: "sentinel", Source: "scan", Reason: "looks odd"}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.apply(t, s); !errors.Is(err, confirm.ErrStale) {
			t.Errorf("%v", err)
		}
	})
	t.Run("the row moves between the look and the swap", func(t *testing.T) {
		w := newWorld(t)
		row := w.known(t, fact("ops@acme.example"))
		s := sign(t, w.statement(confirm.Confirm, row, "ana"))
		moving := movingStore{w.Store, func() {
			if _, err := w.Apply(t.Context(), memory.Transition{Row: row.ID, Revision: row.Revision, To: memory.SecurityQuarantined, Authority: memory.AuthoritySentinel, Actor: "sentinel", Source: "scan", Reason: "looks odd"}); err != nil {
				t.Fatal(err)
			}
		}}
		if _, err := confirm.Apply(t.Context(), moving, w.keys, s); !errors.Is(err, confirm.ErrStale) || !errors.Is(err, memory.ErrConflict) {
			t.Errorf("%v", err)
		}
	})
	t.Run("the store gives the principal no authority", func(t *testing.T) {
		w := newWorld(t)
		row := w.pending(t, fact("ops@acme.example"))
		s := sign(t, w.statement(confirm.Confirm, row, "ben"))
		wide := ring(t, line(t, "ben", "*")) // the operator's two lists disagree
		if _, err := confirm.Apply(t.Context(), w.Store, wide, s); !errors.Is(err, confirm.ErrScope) || !errors.Is(err, memory.ErrNoAuthority) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a narrow key of a principal who has a wide one too", func(t *testing.T) {
		w := newWorld(t)
		row := w.pending(t, fact("ops@acme.example"))
		wide := base64.StdEncoding.EncodeToString(keyOf("ana at home").Public().(ed25519.PublicKey))
		w.keys = ring(t, line(t, "ana", "beta"), "ana "+wide+" *")
		s := sign(t, w.statement(confirm.Confirm, row, "ana"))
		if _, err := confirm.Apply(t.Context(), w.Store, w.keys, s); !errors.Is(err, confirm.ErrScope) || errors.Is(err, memory.ErrNoAuthority) {
			t.Errorf("%v", err)
		}
	})
	t.Run("without a key nothing is confirmed", func(t *testing.T) {
		w := newWorld(t)
		row := w.pending(t, fact("ops@acme.example"))
		s := sign(t, w.statement(confirm.Confirm, row, "ana"))
		for name, k := range map[string]*confirm.Keyring{"nil": nil, "zero": {}, "empty": ring(t, "# nobody yet")} {
			if _, err := confirm.Apply(t.Context(), w.Store, k, s); !errors.Is(err, confirm.ErrKey) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := confirm.Sign(nil, s.Statement); !errors.Is(err, confirm.ErrKey) {
			t.Errorf("signed without a key: %v", err)
		}
	})
	t.Run("a key that was taken off the list", func(t *testing.T) {
		w := newWorld(t)
		s := sign(t, w.statement(confirm.Confirm, w.pending(t, fact("ops@acme.example")), "ana"))
		if _, err := confirm.Apply(t.Context(), w.Store, ring(t, line(t, "cleo", "*")), s); !errors.Is(err, confirm.ErrUnknownKey) {
			t.Errorf("%v", err)
		}
	})
}

type movingStore struct {
	*memory.Store
	before func()
}

func (m movingStore) Apply(ctx context.Context, tr memory.Transition) (memory.Head, error) {
	m.before()
	return m.Store.Apply(ctx, tr)
}

func TestASignatureIsForOnePurpose(t *testing.T) {
	w := newWorld(t)
	s := w.statement(confirm.Confirm, w.pending(t, fact("ops@acme.example")), "ana")
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"the JSON": b, "nothing": nil, "the nonce": []byte(s.Nonce)} {
		forged := confirm.Signed{Statement: s, Signature: ed25519.Sign(keyOf("ana"), text)}
		if err := confirm.Verify(w.keys, forged, w.Now()); !errors.Is(err, confirm.ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSignedFormIsInjective: two statements that differ have two signatures.
func TestSignedFormIsInjective(t *testing.T) {
	draw := func(rt *rapid.T, name string) confirm.Statement {
		text := rapid.SampledFrom([]string{"a", "aa", "a\x01", "b", "ab"})
		return confirm.Statement{Verb: confirm.Contradict, Tenant: text.Draw(rt, name), Row: memory.ID("mem_" + strings.Repeat("0", 26)), Revision: rapid.Uint64Range(1, 3).Draw(rt, name),
			Principal: text.Draw(rt, name), Expires: day0, Nonce: strings.Repeat("n", 15) + text.Filter(func(s string) bool { return !strings.Contains(s, "\x01") }).Draw(rt, name), Reason: text.Draw(rt, name), Object: text.Draw(rt, name)}
	}
	rapid.Check(t, func(rt *rapid.T) {
		a, b := draw(rt, "a"), draw(rt, "b")
		x, err := confirm.Sign(keyOf("k"), a)
		if err != nil {
			rt.Fatal(err)
		}
		y, err := confirm.Sign(keyOf("k"), b)
		if err != nil {
			rt.Fatal(err)
		}
		if reflect.DeepEqual(a, b) != bytes.Equal(x.Signature, y.Signature) {
			rt.Fatalf("%+v and %+v", a, b)
		}
	})
}

func TestKeyringScopes(t *testing.T) {
	k := ring(t, line(t, "ana", "acme/billing.*", "beta/city"), line(t, "ben", "ticket*"), line(t, "cleo", "*"), line(t, "dan", "a%20b%2Fc/x%2A"), line(t, "eve", "*/city"))
	for _, c := range []struct {
		who, subject, predicate string
		want                    bool
	}{
		{"ana", "acme", "billing.email", true}, {"ana", "acme", "billing.", true}, {"ana", "acme", "billing", false}, {"ana", "acme", "city", false},
		{"ana", "acme2", "billing.email", false}, {"ana", "Acme", "billing.email", false}, {"ana", "acme\u200b", "billing.email", false}, {"ana", "", "billing.email", false},
		{"ana", "beta", "city", true}, {"ana", "beta", "City", false}, {"ana", "ana", "editor", true}, {"Ana", "acme", "billing.email", false},
		{"ben", "ticket", "state", true}, {"ben", "ticket-7", "state", true}, {"ben", "tickeT", "state", false}, {"ben", "acme", "state", false},
		{"cleo", "anything", "at all", true}, {"cleo", "", "", true}, {"dan", "a b/c", "x*", true}, {"dan", "a b/c", "xy", false}, {"eve", "acme", "city", true}, {"eve", "acme", "name", false},
		{"nobody", "acme", "city", false}, {"nobody", "nobody", "city", true}, {"", "", "", false},
	} {
		if got := k.Authority(c.who, c.subject, c.predicate); got != c.want {
			t.Errorf("%s over %s %s: %t", c.who, c.subject, c.predicate, got)
		}
	}
	var none *confirm.Keyring
	if none.Authority("ana", "acme", "city") || !none.Authority("ana", "ana", "city") || len(none.Principals()) != 0 {
		t.Error("a nil keyring")
	}
	if got := fmt.Sprint(k.Principals()); got != "[ana ben cleo dan eve]" {
		t.Errorf("principals %s", got)
	}
}

func TestKeyringErrorsNameLineAndField(t *testing.T) {
	good := base64.StdEncoding.EncodeToString(keyOf("x").Public().(ed25519.PublicKey))
	for text, want := range map[string]string{
		"ana":                                            "line 1: key: it is missing",
		"\n# x\nana " + good:                             "line 3: scope: it is missing",
		"ana short *":                                    "line 1: key: not 32 bytes",
		"ana " + good[:43] + " *":                        "line 1: key: not 32 bytes",
		"ana " + good + " a/b/c":                         "line 1: scope: not",
		"ana " + good + " a*b":                           "line 1: scope: not",
		"ana " + good + " /x":                            "line 1: scope: not",
		"ana " + good + " a/":                            "line 1: scope: not",
		"ana " + good + " a%zz":                          "line 1: scope: not",
		"ana " + good + " a%ff":                          "line 1: scope: not",
		"ana " + good + " *\nben " + good + " *":         "line 2: key: it is on line 1 already",
		"an\u200ba " + good + " *":                       "line 1: line: it holds characters that nobody sees",
		"ana\xff " + good + " *":                         "line 1: line: not UTF-8",
		strings.Repeat("x", 600) + " " + good + " *":     "line 1: principal: more than",
		"ana " + good + " " + strings.Repeat("x", 1<<15): "line 1: line: more than",
	} {
		k, err := confirm.ParseKeyring(strings.NewReader(text))
		var e *confirm.KeyringError
		if k != nil || !errors.As(err, &e) || !errors.Is(err, confirm.ErrKey) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
	for _, principal := range []string{"", "a b", "#ana", "a\nb"} {
		if l, err := confirm.Line(principal, keyOf("x").Public().(ed25519.PublicKey), "*"); err == nil {
			t.Errorf("a line for %q: %s", principal, l)
		}
	}
	if l, err := confirm.Line("ana", keyOf("x").Public().(ed25519.PublicKey)); err == nil {
		t.Errorf("a line without scope: %s", l)
	}
	if l, err := confirm.Line("ana", keyOf("x").Public().(ed25519.PublicKey), "a b"); err == nil {
		t.Errorf("a scope of two words: %s", l)
	}
}

func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ana.key")
	public, err := confirm.GenerateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	key, err := confirm.LoadKey(path)
	if err != nil || !public.Equal(key.Public()) {
		t.Errorf("the key does not come back: %v", err)
	}
	if _, err := confirm.GenerateKey(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("a key was overwritten: %v", err)
	}
	keys := filepath.Join(dir, "keyring")
	l, err := confirm.Line("ana", public, "*")
	if err != nil {
		t.Fatal(err)
	}
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o644: true, 0o664: false, 0o666: false, 0o602: false} {
		write(keys, l, mode)
		k, err := confirm.LoadKeyring(keys)
		if (err == nil) != ok || (k != nil) != ok || !ok && !errors.Is(err, confirm.ErrKey) {
			t.Errorf("keyring of mode %o: %v", mode, err)
		}
	}
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o644: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := confirm.LoadKey(path); (err == nil) != ok || !ok && !errors.Is(err, confirm.ErrKey) {
			t.Errorf("key of mode %o: %v", mode, err)
		}
	}
	write(keys, "ana short *", 0o600)
	if _, err := confirm.LoadKeyring(keys); err == nil || !strings.Contains(err.Error(), keys) || !strings.Contains(err.Error(), "line 1: key") {
		t.Errorf("%v", err)
	}
	for name, text := range map[string]string{"empty": "", "no PEM": "secret", "another PEM": "-----BEGIN X-----\nAAAA\n-----END X-----\n", "no key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		write(keys, text, 0o600)
		if _, err := confirm.LoadKey(keys); !errors.Is(err, confirm.ErrKey) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, p := range []string{dir, filepath.Join(dir, "none")} {
		if _, err := confirm.LoadKey(p); !errors.Is(err, confirm.ErrKey) {
			t.Errorf("%s: %v", p, err)
		}
		if _, err := confirm.LoadKeyring(p); !errors.Is(err, confirm.ErrKey) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestParse(t *testing.T) {
	w := newWorld(t)
	signed := sign(t, w.statement(confirm.Confirm, w.pending(t, fact("ops@acme.example")), "ana"))
	b, err := json.Marshal(signed)
	if err != nil {
		t.Fatal(err)
	}
	back, err := confirm.Parse(b)
	if err != nil || confirm.Verify(w.keys, back, w.Now()) != nil {
		t.Errorf("it does not come back: %v", err)
	}
	for name, text := range map[string]string{
		"nothing": "", "no JSON": "x", "an array": "[]", "two values": string(b) + "{}", "an unknown member": `{"verb":"confirm","vote":1}`,
		"an unknown verb": `{"verb":"approve"}`, "an empty verb": `{"verb":""}`, "a short hash": `{"content_hash":"00"}`, "a hash that is none": `{"content_hash":"` + strings.Repeat("z", 64) + `"}`,
		"a negative revision": `{"revision":-1}`, "too large": `{"reason":"` + strings.Repeat("x", confirm.MaxSigned) + `"}`,
	} {
		if _, err := confirm.Parse([]byte(text)); !errors.Is(err, confirm.ErrStatement) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, err := json.Marshal(confirm.Statement{}); err == nil {
		t.Errorf("a zero statement has a JSON form: %s", b)
	}
}

// FuzzParse: nothing that was not signed verifies.
func FuzzParse(f *testing.F) {
	k := ring(f, line(f, "ana", "*"))
	s := confirm.Statement{Verb: confirm.Confirm, Tenant: "default", Row: memory.ID("mem_" + strings.Repeat("0", 26)), Revision: 1, Principal: "ana", Expires: day0.Add(time.Hour), Nonce: strings.Repeat("n", 16), Reason: "r"}
	signed := sign(f, s)
	b, err := json.Marshal(signed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"verb":"reject"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := confirm.Parse(in)
		if err != nil {
			return
		}
		if confirm.Verify(k, got, day0) == nil && (!got.Expires.Equal(s.Expires) || got.Verb != s.Verb || got.Row != s.Row || got.Revision != s.Revision || got.Nonce != s.Nonce || got.Reason != s.Reason || got.Object != s.Object) {
			t.Errorf("forged: %s", in)
		}
	})
}

func TestTheHandler(t *testing.T) {
	w := newWorld(t)
	var logged bytes.Buffer
	h, err := confirm.NewHandler(w.Store, w.keys, &confirm.HandlerOptions{Logger: slog.New(slog.NewTextHandler(&logged, nil)), TrustedOrigins: []string{"https://app.example"}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	defer server.Close()
	post := func(t *testing.T, body string, change func(*http.Request)) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if change != nil {
			change(r)
		}
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s, %v", resp.Header, err)
		}
		return resp.StatusCode, string(b)
	}
	body := func(s confirm.Signed) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	row := w.pending(t, fact("ops@acme.example"))
	good := body(sign(t, w.statement(confirm.Confirm, row, "ana")))
	forged := sign(t, w.statement(confirm.Confirm, row, "ana"))
	forged.Reason = "else"
	stranger := sign(t, w.statement(confirm.Confirm, row, "zoe"))
	outside := sign(t, w.statement(confirm.Confirm, row, "ben"))
	late := w.statement(confirm.Confirm, row, "ana")
	late.Expires = day0.Add(-time.Hour)
	missing := w.statement(confirm.Confirm, row, "ana")
	missing.Row = memory.ID("mem_" + strings.Repeat("0", 26))
	foreign := w.statement(confirm.Confirm, row, "ana")
	foreign.Tenant = "other"
	for name, c := range map[string]struct {
		body   string
		change func(*http.Request)
		status int
		code   string
	}{
		"a page of another site":       {good, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403, "cross_origin"},
		"a page of another origin":     {good, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403, "cross_origin"},
		"a form":                       {good, func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415, "media_type"},
		"no content type":              {good, func(r *http.Request) { r.Header.Del("Content-Type") }, 415, "media_type"},
		"a GET":                        {good, func(r *http.Request) { r.Method = http.MethodGet }, 405, "method"},
		"too large":                    {strings.Repeat(" ", confirm.MaxSigned+1), nil, 413, "too_large"},
		"no JSON":                      {"x", nil, 400, "malformed"},
		"forged":                       {body(forged), nil, 403, "not_signed"},
		"of a stranger, told the same": {body(stranger), nil, 403, "not_signed"},
		"out of scope":                 {body(outside), nil, 403, "scope"},
		"ended":                        {body(sign(t, late)), nil, 410, "expired"},
		"a row that is not there":      {body(sign(t, missing)), nil, 404, "not_found"},
		"another tenant":               {body(sign(t, foreign)), nil, 403, "tenant"},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := post(t, c.body, c.change)
			if status != c.status || !strings.Contains(text, `{"error":{"code":"`+c.code+`"`) {
				t.Errorf("%d %s", status, text)
			}
			if w.row(t, row.ID).Revision != row.Revision {
				t.Fatal("the row moved")
			}
		})
	}
	status, text := post(t, good, func(r *http.Request) {
		r.Header.Set("Origin", "https://app.example")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	})
	if status != 200 || !strings.Contains(text, `"state":"verified"`) {
		t.Errorf("a trusted origin: %d %s", status, text)
	}
	if status, text = post(t, good, nil); status != 409 || !strings.Contains(text, "stale") {
		t.Errorf("a replay: %d %s", status, text)
	}
	if strings.Contains(logged.String(), "acme") || !strings.Contains(logged.String(), "statement applied") || !strings.Contains(logged.String(), "code=stale") {
		t.Errorf("logged %s", logged.String())
	}
	t.Run("a store that fails is no refusal", func(t *testing.T) {
		h, err := confirm.NewHandler(brokenGet{w.Store}, w.keys, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(good))
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if rec.Code != 503 || strings.Contains(rec.Body.String(), "secret driver text") {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
	t.Run("half a configuration is refused", func(t *testing.T) {
		if _, err := confirm.NewHandler(nil, w.keys, nil); err == nil {
			t.Error("no store")
		}
		if _, err := confirm.NewHandler(w.Store, w.keys, &confirm.HandlerOptions{TrustedOrigins: []string{"app.example"}}); err == nil {
			t.Error("an origin that is none")
		}
	})
}

type brokenGet struct{ *memory.Store }

func (brokenGet) Get(context.Context, ...memory.ID) ([]memory.Row, error) {
	return nil, fmt.Errorf("%w: secret driver text", memory.ErrStore)
}

// Ana looks at a row, signs that it is right, and it becomes verified.
func Example() {
	ctx := context.Background()
	key := keyOf("ana")
	text, err := confirm.Line("ana", key.Public().(ed25519.PublicKey), "acme/billing.*")
	if err != nil {
		fmt.Println(err)
		return
	}
	keys, err := confirm.ParseKeyring(strings.NewReader(text))
	if err != nil {
		fmt.Println(err)
		return
	}
	store := storetest.NewStore(&memory.Options{Authority: keys.Authority})
	defer store.Close()
	written, err := store.Put(ctx, memory.Draft{
		Content: memory.Content{Subject: "acme", Predicate: "billing.email", Object: "ops@acme.example", Cardinality: memory.CardinalityFunctional},
		Origin:  memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
		Asserter: memory.Asserter{Principal: "assistant", Model: "sonnet-4.6", Family: "claude"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	rows, err := store.Get(ctx, written.ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	signed, err := confirm.Sign(key, confirm.New(confirm.Confirm, &rows[0], store.Tenant(), "ana", "asked Acme by phone", store.Now(), time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := confirm.Apply(ctx, store, keys, signed)
	fmt.Println(written.State, "->", res.State, err)
	_, err = confirm.Apply(ctx, store, keys, signed)
	fmt.Println("again:", errors.Is(err, confirm.ErrStale))
	// Output:
	// unverified -> verified <nil>
	// again: true
}
