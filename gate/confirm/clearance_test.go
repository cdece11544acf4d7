package confirm_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
)

func TestADamagedRowIsClearedByWhoMay(t *testing.T) {
	w := newWorld(t)
	w.keys = ring(t, line(t, "ana", "acme"), line(t, "ops", "row:*/clear-damage"), line(t, "cleo", "*"))
	row, other := w.known(t, fact("pay@acme.example")).ID, w.pending(t, fact("evil@x.example")).ID
	if err := w.MarkDamaged(t.Context(), "worker", "a byte differs", row); err != nil {
		t.Fatal(err)
	}
	good := func(by string) confirm.Clearance {
		_, revision, err := w.DamagedRows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return confirm.NewClearance(w, row, revision, by, "put back", time.Minute)
	}
	for _, c := range []struct {
		name  string
		by    string
		spoil func(*confirm.Clearance)       // before it is signed
		after func(*confirm.SignedClearance) // and after
		want  error
	}{
		{"by whose scope is another", "ana", nil, nil, confirm.ErrScope},
		{"by nobody who is known", "eve", nil, nil, confirm.ErrUnknownKey},
		{"of a row that is not recorded", "ops", func(r *confirm.Clearance) { r.Row = other }, nil, memory.ErrNotFound},
		{"with another row under the signature", "ops", nil, func(s *confirm.SignedClearance) { s.Row = other }, confirm.ErrForged},
		{"with another reason under it", "ops", nil, func(s *confirm.SignedClearance) { s.Reason = "x" }, confirm.ErrForged},
		{"with another revision under it", "ops", nil, func(s *confirm.SignedClearance) { s.Revision++ }, confirm.ErrForged},
		{"with another principal under it", "ops", nil, func(s *confirm.SignedClearance) { s.Principal = "cleo" }, confirm.ErrForged},
		{"without a signature", "ops", nil, func(s *confirm.SignedClearance) { s.Signature = nil }, confirm.ErrForged},
		{"of another tenant", "ops", func(r *confirm.Clearance) { r.Tenant = "other" }, nil, confirm.ErrTenant},
		{"of another namespace", "ops", func(r *confirm.Clearance) { r.Namespace = "team" }, nil, confirm.ErrTenant},
		{"of another store", "ops", func(r *confirm.Clearance) { r.Store = memory.Token{1} }, nil, confirm.ErrTenant},
		{"that has ended", "ops", func(r *confirm.Clearance) { r.Expires = w.Now().Add(-time.Hour) }, nil, confirm.ErrExpired},
		{"that ends too late", "ops", func(r *confirm.Clearance) { r.Expires = w.Now().Add(48 * time.Hour) }, nil, confirm.ErrExpired},
		{"of another state of the record", "ops", func(r *confirm.Clearance) { r.Revision-- }, nil, confirm.ErrStale},
	} {
		t.Run(c.name+" is refused", func(t *testing.T) {
			r := good(c.by)
			if c.spoil != nil {
				c.spoil(&r)
			}
			s, err := confirm.SignClearance(keyOf(c.by), r)
			if err != nil {
				t.Fatal(err)
			}
			if c.after != nil {
				c.after(&s)
			}
			if err := confirm.Clear(t.Context(), w, w.keys, s); !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if rows, _, err := w.DamagedRows(t.Context()); len(rows) != 1 || err != nil {
				t.Fatalf("it was cleared: %v, %v", rows, err)
			}
		})
	}
	for field, spoil := range map[string]func(*confirm.Clearance){
		"row": func(r *confirm.Clearance) { r.Row = "" }, "reason": func(r *confirm.Clearance) { r.Reason = " " }, "nonce": func(r *confirm.Clearance) { r.Nonce = "1" },
		"expires": func(r *confirm.Clearance) { r.Expires = time.Time{} }, "tenant": func(r *confirm.Clearance) { r.Tenant = "a\x00" }, "principal": func(r *confirm.Clearance) { r.Principal = "" },
	} {
		r := good("ops")
		spoil(&r)
		var refused *confirm.RefusedError
		if _, err := confirm.SignClearance(keyOf("ops"), r); !errors.As(err, &refused) || refused.Field != field || !errors.Is(err, confirm.ErrStatement) {
			t.Errorf("%s: %v", field, err)
		}
	}
	s, err := confirm.SignClearance(keyOf("ops"), good("ops"))
	if err != nil {
		t.Fatal(err)
	}
	if err := confirm.Clear(t.Context(), w, w.keys, s); err != nil {
		t.Fatal(err)
	}
	if err := w.MarkDamaged(t.Context(), "worker", "again", row); err != nil {
		t.Fatal(err)
	}
	if err := confirm.Clear(t.Context(), w, w.keys, s); !errors.Is(err, confirm.ErrStale) {
		t.Fatalf("one clearance counts twice: %v", err)
	}
}
