package confirm_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func TestARevocationIsSignedByWhoMay(t *testing.T) {
	w := newWorld(t)
	w.keys = ring(t, line(t, "ana", "acme"), line(t, "ops", "verifier:crm/revoke"), line(t, "cleo", "*"))
	good := func(by string) confirm.Revocation {
		_, revision, err := w.Revocations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return confirm.NewRevocation(w, memory.RevokedVerifier, "crm", day0, revision, by, "it lied", time.Minute)
	}
	for _, c := range []struct {
		name  string
		by    string
		spoil func(*confirm.Revocation)       // before it is signed
		after func(*confirm.SignedRevocation) // and after
		want  error
	}{
		{"of another's verifier", "ana", nil, nil, confirm.ErrScope},
		{"of another verifier", "ops", func(r *confirm.Revocation) { r.Name = "erp" }, nil, confirm.ErrScope},
		{"of a source of the same name", "ops", func(r *confirm.Revocation) { r.Kind = memory.RevokedSource }, nil, confirm.ErrScope},
		{"by nobody who is known", "eve", nil, nil, confirm.ErrUnknownKey},
		{"with another name under the signature", "cleo", nil, func(s *confirm.SignedRevocation) { s.Name = "erp" }, confirm.ErrForged},
		{"with another moment under it", "cleo", nil, func(s *confirm.SignedRevocation) { s.Since = s.Since.Add(-time.Hour) }, confirm.ErrForged},
		{"with another kind under it", "cleo", nil, func(s *confirm.SignedRevocation) { s.Kind = memory.RevokedSource }, confirm.ErrForged},
		{"with another reason under it", "cleo", nil, func(s *confirm.SignedRevocation) { s.Reason = "x" }, confirm.ErrForged},
		{"without a signature", "cleo", nil, func(s *confirm.SignedRevocation) { s.Signature = nil }, confirm.ErrForged},
		{"of another tenant", "cleo", func(r *confirm.Revocation) { r.Tenant = "other" }, nil, confirm.ErrTenant},
		{"of another namespace", "cleo", func(r *confirm.Revocation) { r.Namespace = "team" }, nil, confirm.ErrTenant},
		{"with another namespace under it", "cleo", nil, func(s *confirm.SignedRevocation) { s.Namespace = "team" }, confirm.ErrForged},
		{"of another store", "cleo", func(r *confirm.Revocation) { r.Store = memory.Token{1} }, nil, confirm.ErrTenant},
		{"of no store", "cleo", func(r *confirm.Revocation) { r.Store = memory.Token{} }, nil, confirm.ErrTenant},
		{"with another store under it", "cleo", nil, func(s *confirm.SignedRevocation) { s.Store = memory.Token{1} }, confirm.ErrForged},
		{"that has ended", "cleo", func(r *confirm.Revocation) { r.Expires = day0.Add(-time.Hour) }, nil, confirm.ErrExpired},
		{"that ends too late", "cleo", func(r *confirm.Revocation) { r.Expires = day0.Add(48 * time.Hour) }, nil, confirm.ErrExpired},
		{"that was seen before another one", "cleo", func(r *confirm.Revocation) { r.Revision = 7 }, nil, confirm.ErrStale},
	} {
		t.Run(c.name+" is refused", func(t *testing.T) {
			r := good(c.by)
			if c.spoil != nil {
				c.spoil(&r)
			}
			s, err := confirm.SignRevocation(keyOf(c.by), r)
			if err != nil {
				t.Fatal(err)
			}
			if c.after != nil {
				c.after(&s)
			}
			if err := confirm.Revoke(t.Context(), w, w.keys, s); !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if list, _, err := w.Revocations(t.Context()); len(list) != 0 || err != nil {
				t.Fatalf("written: %+v, %v", list, err)
			}
		})
	}
	for field, spoil := range map[string]func(*confirm.Revocation){
		"kind": func(r *confirm.Revocation) { r.Kind = 0 }, "name": func(r *confirm.Revocation) { r.Name = "" }, "reason": func(r *confirm.Revocation) { r.Reason = " " },
		"since": func(r *confirm.Revocation) { r.Since = time.Time{} }, "nonce": func(r *confirm.Revocation) { r.Nonce = "1" }, "version": func(r *confirm.Revocation) { r.Version = "1" },
		"expires": func(r *confirm.Revocation) { r.Expires = time.Time{} }, "tenant": func(r *confirm.Revocation) { r.Tenant = "a\x00" },
	} {
		r := good("cleo")
		spoil(&r)
		var refused *confirm.RefusedError
		if _, err := confirm.SignRevocation(keyOf("cleo"), r); !errors.As(err, &refused) || refused.Field != field || !errors.Is(err, confirm.ErrStatement) {
			t.Errorf("%s: %v", field, err)
		}
	}
	t.Run("the one who may is heard, once", func(t *testing.T) {
		s, err := confirm.SignRevocation(keyOf("ops"), good("ops"))
		if err != nil {
			t.Fatal(err)
		}
		if err := confirm.Revoke(t.Context(), w, w.keys, s); err != nil {
			t.Fatal(err)
		}
		if err := confirm.Revoke(t.Context(), w, w.keys, s); !errors.Is(err, confirm.ErrStale) {
			t.Errorf("again: %v", err)
		}
		list, _, err := w.Revocations(t.Context())
		if err != nil || len(list) != 1 || list[0].By != "ops" || list[0].Name != "crm" || !list[0].Since.Equal(day0) || list[0].Reason != "it lied" {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

func TestAReinstatementIsSignedByWhoMayRevoke(t *testing.T) {
	w := newWorld(t)
	w.keys = ring(t, line(t, "ana", "acme"), line(t, "ops", "verifier:crm/revoke"), line(t, "cleo", "*"))
	revision := func() uint64 {
		_, revision, err := w.Revocations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return revision
	}
	revocation, err := confirm.SignRevocation(keyOf("cleo"), confirm.NewRevocation(w, memory.RevokedVerifier, "crm", day0, revision(), "cleo", "it lied", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if err := confirm.Revoke(t.Context(), w, w.keys, revocation); err != nil {
		t.Fatal(err)
	}
	good := func(by string) confirm.Reinstatement {
		return confirm.NewReinstatement(w, memory.RevokedVerifier, "crm", revision(), by, "it was mended", time.Minute)
	}
	sign := func(by string, r confirm.Reinstatement) confirm.SignedReinstatement {
		t.Helper()
		s, err := confirm.SignReinstatement(keyOf(by), r)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if err := confirm.Reinstate(t.Context(), w, w.keys, sign("ops", good("ops"))); !errors.Is(err, memory.ErrUnwalked) {
		t.Fatalf("before the walk: %v", err)
	}
	if _, err := w.WalkRevocations(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		by    string
		spoil func(*confirm.Reinstatement)       // before it is signed
		after func(*confirm.SignedReinstatement) // and after
		want  error
	}{
		{"of another's verifier", "ana", nil, nil, confirm.ErrScope},
		{"of another verifier", "ops", func(r *confirm.Reinstatement) { r.Name = "erp" }, nil, confirm.ErrScope},
		{"of a source of the same name", "ops", func(r *confirm.Reinstatement) { r.Kind = memory.RevokedSource }, nil, confirm.ErrScope},
		{"by nobody who is known", "eve", nil, nil, confirm.ErrUnknownKey},
		{"with another name under the signature", "cleo", nil, func(s *confirm.SignedReinstatement) { s.Name = "erp" }, confirm.ErrForged},
		{"with another kind under it", "cleo", nil, func(s *confirm.SignedReinstatement) { s.Kind = memory.RevokedSource }, confirm.ErrForged},
		{"with another reason under it", "cleo", nil, func(s *confirm.SignedReinstatement) { s.Reason = "x" }, confirm.ErrForged},
		{"with another revision under it", "cleo", nil, func(s *confirm.SignedReinstatement) { s.Revision++ }, confirm.ErrForged},
		{"with the signature of the revocation", "cleo", nil, func(s *confirm.SignedReinstatement) { s.Signature = revocation.Signature }, confirm.ErrForged},
		{"without a signature", "cleo", nil, func(s *confirm.SignedReinstatement) { s.Signature = nil }, confirm.ErrForged},
		{"of another tenant", "cleo", func(r *confirm.Reinstatement) { r.Tenant = "other" }, nil, confirm.ErrTenant},
		{"of another namespace", "cleo", func(r *confirm.Reinstatement) { r.Namespace = "team" }, nil, confirm.ErrTenant},
		{"with another namespace under it", "cleo", nil, func(s *confirm.SignedReinstatement) { s.Namespace = "team" }, confirm.ErrForged},
		{"of another store", "cleo", func(r *confirm.Reinstatement) { r.Store = memory.Token{1} }, nil, confirm.ErrTenant},
		{"with another store under it", "cleo", nil, func(s *confirm.SignedReinstatement) { s.Store = memory.Token{1} }, confirm.ErrForged},
		{"that has ended", "cleo", func(r *confirm.Reinstatement) { r.Expires = day0.Add(-time.Hour) }, nil, confirm.ErrExpired},
		{"that ends too late", "cleo", func(r *confirm.Reinstatement) { r.Expires = day0.Add(48 * time.Hour) }, nil, confirm.ErrExpired},
		{"that was seen before another one", "cleo", func(r *confirm.Reinstatement) { r.Revision = 7 }, nil, confirm.ErrStale},
		{"of what is not revoked", "cleo", func(r *confirm.Reinstatement) { r.Name = "erp" }, nil, memory.ErrNotFound},
	} {
		t.Run(c.name+" is refused", func(t *testing.T) {
			r := good(c.by)
			if c.spoil != nil {
				c.spoil(&r)
			}
			s := sign(c.by, r)
			if c.after != nil {
				c.after(&s)
			}
			if err := confirm.Reinstate(t.Context(), w, w.keys, s); !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if list, _, err := w.Revocations(t.Context()); err != nil || len(list) != 1 || !list[0].Reinstated.At.IsZero() {
				t.Fatalf("written: %+v, %v", list, err)
			}
		})
	}
	for field, spoil := range map[string]func(*confirm.Reinstatement){
		"kind": func(r *confirm.Reinstatement) { r.Kind = 0 }, "name": func(r *confirm.Reinstatement) { r.Name = "" }, "reason": func(r *confirm.Reinstatement) { r.Reason = " " },
		"nonce": func(r *confirm.Reinstatement) { r.Nonce = "1" }, "version": func(r *confirm.Reinstatement) { r.Version = "1" },
		"expires": func(r *confirm.Reinstatement) { r.Expires = time.Time{} }, "tenant": func(r *confirm.Reinstatement) { r.Tenant = "a\x00" },
	} {
		r := good("cleo")
		spoil(&r)
		var refused *confirm.RefusedError
		if _, err := confirm.SignReinstatement(keyOf("cleo"), r); !errors.As(err, &refused) || refused.Field != field || !errors.Is(err, confirm.ErrStatement) {
			t.Errorf("%s: %v", field, err)
		}
	}
	t.Run("the one who may is heard, once", func(t *testing.T) {
		s := sign("ops", good("ops"))
		if err := confirm.Reinstate(t.Context(), w, w.keys, s); err != nil {
			t.Fatal(err)
		}
		if err := confirm.Reinstate(t.Context(), w, w.keys, s); !errors.Is(err, confirm.ErrStale) {
			t.Errorf("again: %v", err)
		}
		list, _, err := w.Revocations(t.Context())
		if err != nil || len(list) != 1 || list[0].Reinstated.By != "ops" || list[0].Reinstated.Reason != "it was mended" || list[0].By != "cleo" {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// TestARevocationAndItsEndAreOfOneNamespace: each namespace of a tenant counts its
// revocations by itself, so that the same number is seen in several.
func TestARevocationAndItsEndAreOfOneNamespace(t *testing.T) {
	keys := ring(t, line(t, "ops", "verifier:*/revoke"))
	now := func() time.Time { return day0 }
	billing, support := storetest.NewStore(&memory.Options{Namespace: "billing", Clock: now}), storetest.NewStore(&memory.Options{Namespace: "support", Clock: now})
	defer billing.Close()
	defer support.Close()
	revoke, err := confirm.SignRevocation(keyOf("ops"), confirm.NewRevocation(billing, memory.RevokedVerifier, "crm", day0, 0, "ops", "it lied", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if err := confirm.Revoke(t.Context(), support, keys, revoke); !errors.Is(err, confirm.ErrTenant) {
		t.Errorf("a revocation of another namespace: %v", err)
	}
	var revision uint64
	for _, s := range []*memory.Store{billing, support} {
		err := s.Revoke(t.Context(), memory.Revocation{Kind: memory.RevokedVerifier, Name: "crm", Since: day0, By: "ops", Reason: "it lied"}, 1)
		if err == nil {
			_, err = s.WalkRevocations(t.Context(), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, revision, err = s.Revocations(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reinstate, err := confirm.SignReinstatement(keyOf("ops"), confirm.NewReinstatement(billing, memory.RevokedVerifier, "crm", revision, "ops", "it was mended", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if err := confirm.Reinstate(t.Context(), support, keys, reinstate); !errors.Is(err, confirm.ErrTenant) {
		t.Errorf("a reinstatement of another namespace: %v", err)
	}
	if list, _, err := support.Revocations(t.Context()); err != nil || len(list) != 1 || !list[0].Reinstated.At.IsZero() {
		t.Errorf("%+v, %v", list, err)
	}
	if err := confirm.Reinstate(t.Context(), billing, keys, reinstate); err != nil {
		t.Error(err)
	}
}
