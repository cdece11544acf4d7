package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/visible"
)

// key makes a key with the real command and trusts it.
func (w *world) key(principal string, scopes ...string) (file string) {
	w.t.Helper()
	dir := filepath.Dir(w.path)
	prefix := filepath.Join(dir, principal)
	args := []string{"keygen", "-out", prefix, "--principal", principal}
	for _, s := range scopes {
		args = append(args, "--scope", s)
	}
	line := w.ok(args...)
	trusted := filepath.Join(dir, "trusted-keys")
	f, err := os.OpenFile(trusted, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.WriteString(f, line); err != nil {
		w.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.env["HEARSAY_TRUSTED_KEYS"] = trusted
	return prefix + ".key"
}

// shown is what a person gives to say that she has seen all of a row.
func (w *world) shown(id string) string {
	w.t.Helper()
	var got struct {
		Shown string `json:"shown_sha256"`
	}
	if err := json.Unmarshal([]byte(w.ok("row", "show", id, "-o", "json")), &got); err != nil {
		w.t.Fatal(err)
	}
	return "--shown-sha256=" + got.Shown[:8]
}

func (w *world) row(name string) memory.Row {
	w.t.Helper()
	rows, err := w.store.Get(w.t.Context(), w.ids[name])
	if err != nil {
		w.t.Fatal(err)
	}
	return rows[0]
}

func TestStatements(t *testing.T) {
	t.Run("confirm verifies a row, says what it unblocks and how to undo", func(t *testing.T) {
		w := office(t)
		key := w.key("ana", "acme")
		w.golden("confirm", w.ok("row", "confirm", string(w.ids["plan"])[20:], w.shown(string(w.ids["plan"])), "--key", w.key("boss", "*"), "--as", "boss", "--reason", "asked Acme by phone"))
		if r := w.row("plan"); r.State() != memory.StateVerified || r.Rank != memory.RankUser {
			t.Errorf("%s, rank %s", r.State(), r.Rank)
		}
		w.golden("confirm_json", w.ok("row", "confirm", string(w.ids["down"]), w.shown(string(w.ids["down"])), "--key", key, "--as", "ana", "--reason", "it is on the letter", "-o", "json"))
	})
	t.Run("reject takes a row away and names the calls that ran on it", func(t *testing.T) {
		w := office(t)
		key := w.key("ana", "acme/billing.*", "acme/address")
		w.decide("post", true, "address")
		w.golden("reject", w.ok("row", "reject", string(w.ids["address"]), "--key", key, "--as", "ana", "--reason", "they moved"))
		if r := w.row("address"); r.State() != memory.StateUnverified || r.Rejection == nil {
			t.Errorf("%s, %+v", r.State(), r.Rejection)
		}
		out := w.ok("row", "list", "--predicate", "address")
		if !strings.Contains(out, "✗ rejected") {
			t.Error(out)
		}
	})
	t.Run("a row in quarantine is not listed as verified", func(t *testing.T) {
		w := office(t)
		id := string(w.ids["address"])
		out := w.ok("row", "quarantine", id, "--key", w.key("boss", "*"), "--as", "boss", "--reason", "forged")
		if undo := "hearsay row release " + id + " --reason TEXT --shown-sha256 DIGITS --key FILE --as NAME"; !strings.Contains(out, undo) {
			t.Errorf("no %q in\n%s", undo, out)
		}
		if out := w.ok("row", "list", "--predicate", "address"); !strings.Contains(out, "✗ quarantined") || strings.Contains(out, "✓") {
			t.Error(out)
		}
	})
	t.Run("contradict writes what is right", func(t *testing.T) {
		w := office(t)
		key := w.key("ana", "acme")
		var got statementJSON
		out := w.ok("row", "contradict", string(w.ids["email"]), w.shown(string(w.ids["email"])), "--key", key, "--as", "ana", "--reason", "old address", "--object", "pay@acme.example", "-o", "json")
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		rows, err := w.store.Get(t.Context(), got.Correction)
		if err != nil || rows[0].State() != memory.StateVerified || rows[0].Content.Object != "pay@acme.example" {
			t.Errorf("%v %+v", err, rows)
		}
		if wrong := w.row("email"); wrong.State() != memory.StateUnverified {
			t.Error("the wrong row is still verified")
		}
	})
	t.Run("what confirm did, reject undoes, and the audit has both", func(t *testing.T) {
		w := office(t)
		key := w.key("ana", "acme")
		w.ok("row", "confirm", string(w.ids["down"]), w.shown(string(w.ids["down"])), "--key", key, "--as", "ana", "--reason", "seen it")
		w.ok("row", "reject", string(w.ids["down"]), "--key", key, "--as", "ana", "--reason", "misread it")
		out := w.ok("audit", "list", "--row", string(w.ids["down"]))
		for _, want := range []string{"user", "seen it", "misread it", "truth supported → contradicted"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	})
}

func TestStatementsAreRefused(t *testing.T) {
	w := office(t)
	trusted := w.key("ana", "acme")
	stranger := w.key("eve", "acme")
	line := w.env["HEARSAY_TRUSTED_KEYS"]
	only := filepath.Join(filepath.Dir(w.path), "only-ana")
	b, err := os.ReadFile(line)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(only, []byte(strings.Split(string(b), "\n")[0]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(filepath.Dir(w.path), "open")
	if err := os.WriteFile(open, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	id, rev := string(w.ids["down"]), fmt.Sprint(w.row("down").Revision)
	full := []string{"--key", trusted, "--as", "ana", "--reason", "r", "-trusted-keys", only}
	with := func(id string, more ...string) []string {
		seen := w.ids["down"]
		if id == string(w.ids["contact"]) {
			seen = w.ids["contact"]
		}
		return append(append([]string{"row", "confirm", id, w.shown(string(seen))}, full...), more...)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		say  string
	}{
		{"without a key", []string{"row", "confirm", id, "--as", "ana", "--reason", "r", "-trusted-keys", only}, exitUsage, "hearsay keygen"},
		{"without a principal", []string{"row", "confirm", id, "--key", trusted, "--reason", "r", "-trusted-keys", only}, exitUsage, "--as"},
		{"without a reason", []string{"row", "confirm", id, "--key", trusted, "--as", "ana", "-trusted-keys", only}, exitUsage, "--reason"},
		{"with a key file that is not there", with(id, "--key", trusted+"x"), exitUsage, "no key"},
		{"with a keyring that others can write", with(id, "-trusted-keys", open), exitUsage, "others can write"},
		{"with the key of somebody else", with(id, "--key", stranger), exitNo, "forged"},
		{"as somebody who is not trusted", with(id, "--as", "eve", "--key", stranger), exitNo, "unknown key"},
		{"out of the scope of the key", with(string(w.ids["contact"])), exitNo, "scope"},
		{"on a row that is not there", with("mem_" + strings.Repeat("v", 25) + "s"), exitNotFound, "not found"},
		{"on a version that has passed", with(id, "--revision", "99"), exitChanged, "you looked at 99"},
		{"without what was shown", append([]string{"row", "confirm", id}, full...), exitUsage, "from the card above"},
		{"with what another row shows", append([]string{"row", "confirm", id, w.shown(string(w.ids["contact"]))}, full...), exitUsage, "from the card above"},
		{"with too few digits", append([]string{"row", "confirm", id, w.shown(id)[:len("--shown-sha256=")+7]}, full...), exitUsage, "from the card above"},
		{"with a right object and without what was shown", append([]string{"row", "contradict", id, "--object", "DE9"}, full...), exitUsage, "from the card above"},
		{"with a reason that is too long", with(id, "--reason", strings.Repeat("x", 5000)), exitUsage, "reason"},
	} {
		t.Run("a confirmation is refused "+c.name, func(t *testing.T) {
			r := w.run(c.args...)
			if r.code != c.code || !strings.Contains(r.talk, c.say) || r.out != "" {
				t.Errorf("exit %d, want %d and %q\n%s%s", r.code, c.code, c.say, r.out, r.talk)
			}
		})
	}
	t.Run("a confirmation is refused without a keyring", func(t *testing.T) {
		delete(w.env, "HEARSAY_TRUSTED_KEYS")
		r := w.run("row", "confirm", id, "--key", trusted, "--as", "ana", "--reason", "r")
		if r.code != exitUsage || !strings.Contains(r.talk, "hearsay keygen") {
			t.Errorf("%+v", r)
		}
	})
	if got := fmt.Sprint(w.row("down").Revision); got != rev {
		t.Errorf("a refused statement moved the row from version %s to %s", rev, got)
	}
	t.Run("and accepted with all of it", func(t *testing.T) { w.ok(with(id, "--revision", rev)...) })
}

func TestKeygen(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	t.Run("the key is readable by its owner only, and stdout has the line alone", func(t *testing.T) {
		r := w.run("keygen", "-out", filepath.Join(dir, "ana"), "--principal", "ana", "--scope", "acme/*")
		if r.code != 0 || strings.Count(r.out, "\n") != 1 || !strings.HasPrefix(r.out, "ana ") || !strings.HasSuffix(r.out, " acme/*\n") {
			t.Fatalf("%+v", r)
		}
		info, err := os.Stat(filepath.Join(dir, "ana.key"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info.Mode(), err)
		}
		secret, err := os.ReadFile(filepath.Join(dir, "ana.key"))
		if err != nil {
			t.Fatal(err)
		}
		if body := strings.Split(string(secret), "\n")[1]; strings.Contains(r.out+r.talk, body) {
			t.Error("the private key was printed")
		}
	})
	t.Run("a key is never overwritten", func(t *testing.T) {
		before, err := os.ReadFile(filepath.Join(dir, "ana.key"))
		if err != nil {
			t.Fatal(err)
		}
		r := w.run("keygen", "-out", filepath.Join(dir, "ana"), "--principal", "ana")
		after, err := os.ReadFile(filepath.Join(dir, "ana.key"))
		if r.code != exitFailed || r.out != "" || err != nil || string(before) != string(after) {
			t.Errorf("%+v %v", r, err)
		}
	})
	t.Run("JSON names the file and the line", func(t *testing.T) {
		var got keyJSON
		if err := json.Unmarshal([]byte(w.ok("keygen", "-out", filepath.Join(dir, "bob"), "--principal", "bob", "-o", "json")), &got); err != nil {
			t.Fatal(err)
		}
		if got.File != filepath.Join(dir, "bob.key") || !strings.HasSuffix(got.Line, " bob") || len(got.Scopes) != 1 {
			t.Errorf("%+v", got)
		}
	})
	for name, args := range map[string][]string{
		"no file":                       {"--principal", "x"},
		"no principal":                  {"-out", filepath.Join(dir, "none")},
		"a principal of two words":      {"-out", filepath.Join(dir, "none"), "--principal", "ana maria"},
		"a principal like a comment":    {"-out", filepath.Join(dir, "none"), "--principal", "#ana"},
		"a principal with hidden signs": {"-out", filepath.Join(dir, "none"), "--principal", "ana\u202e"},
		"a scope with a blank":          {"-out", filepath.Join(dir, "none"), "--principal", "ana", "--scope", "a b"},
		"a scope with two slashes":      {"-out", filepath.Join(dir, "none"), "--principal", "ana", "--scope", "a/b/c"},
		"an empty scope":                {"-out", filepath.Join(dir, "none"), "--principal", "ana", "--scope", ""},
	} {
		t.Run(name+" is a usage error and makes no file", func(t *testing.T) {
			r := w.run(append([]string{"keygen"}, args...)...)
			if r.code != exitUsage || r.out != "" {
				t.Errorf("%+v", r)
			}
			if _, err := os.Stat(filepath.Join(dir, "none.key")); err == nil {
				t.Error("a key was made")
			}
		})
	}
}

func TestHostileStatement(t *testing.T) {
	w := enemy(t)
	key := w.key("ana", "*")
	for _, format := range []string{"table", "json"} {
		for _, verb := range []string{"confirm", "reject", "contradict", "quarantine", "release", "hide", "block", "restrict", "expose"} {
			t.Run(verb+" of a hostile row as "+format+" shows nothing a terminal obeys", func(t *testing.T) {
				r := w.run("row", verb, string(w.ids["hostile"]), "--key", key, "--as", "ana", "--reason", "why "+hostile, "-o", format)
				for _, c := range r.out + r.talk {
					if c != '\n' && c != ' ' && visible.Hidden(c) {
						t.Fatalf("%U in the output:\n%q", c, r.out+r.talk)
					}
				}
			})
		}
	}
}

// TestAConfirmationNamesWhatItDisplaces: the row of the other value is verified no more, calls ran
// on it, and what is printed as the way back brings it back.
func TestAConfirmationNamesWhatItDisplaces(t *testing.T) {
	w := newWorld(t)
	key := w.key("boss", "*")
	w.put("pay", w.returned("crm", triple("acme", "billing.email", "pay@acme.example")))
	w.put("ops", said(triple("acme", "billing.email", "ops@acme.example")))
	w.put("phone", w.returned("crm", triple("acme", "phone", "1")))
	w.decide("send", true, "pay")
	w.decide("dial", true, "phone")
	id := string(w.ids["ops"])
	unseen := w.run("row", "confirm", id, "--key", key, "--as", "boss", "--reason", "asked")
	for of, text := range map[string]string{"row show": w.ok("row", "show", id), "the card": unseen.talk} {
		want := fmt.Sprintf("VERIFIED      %s  acme.billing.email = pay@acme.example: verified (rank tool)", w.ids["pay"])
		if !strings.Contains(text, want) || strings.Contains(text, string(w.ids["phone"])) {
			t.Errorf("%s does not say what the confirmation would displace:\n%s", of, text)
		}
	}
	as := []string{"row", "confirm", id, w.shown(id), "--key", key, "--as", "boss", "--reason", "asked"}
	text := w.ok(as...)
	var got statementJSON
	for _, want := range []string{"DISPLACED", string(w.ids["pay"]), "pay@acme.example", "1 call ran on what lost its trust"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	back := strings.Fields(text[strings.Index(text, "hearsay row rollback ")+len("hearsay "):])
	for i, word := range back {
		if word == "TEXT" {
			back = append(back[:i:i], "I was wrong")
			break
		}
	}
	if out := w.ok(back...); !strings.Contains(out, string(w.ids["pay"])+" is back, unverified") {
		t.Errorf("%s", out)
	}
	if r := w.soon("row", "show", id); strings.Contains(r.talk, "row confirm") || !strings.Contains(r.talk, "retracted for good") {
		t.Errorf("what a rollback retracted may be confirmed:\n%s", r.talk)
	}

	w = newWorld(t)
	key = w.key("boss", "*")
	w.put("pay", w.returned("crm", triple("acme", "billing.email", "pay@acme.example")))
	w.put("ops", said(triple("acme", "billing.email", "ops@acme.example")))
	w.decide("send", true, "pay")
	id = string(w.ids["ops"])
	out := w.ok("row", "confirm", id, w.shown(id), "--key", key, "--as", "boss", "--reason", "asked", "-o", "json")
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Displaced) != 1 || got.Displaced[0].Row != w.ids["pay"] || got.Displaced[0].Before.State != memory.StateVerified || len(got.Dependent) != 1 {
		t.Errorf("%v\n%s", err, out)
	}
}
