package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVerifiersAreTried(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("vat.csv", "name,vat\nacme,DE123\n")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/down" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Write([]byte(`{"found":true,"value":"DE999","version":"7"}`))
	}))
	defer srv.Close()
	list := `{"name":"list","uri":"file://` + folder + `/vat.csv","table":{"subject":"name","columns":{"vat":"vat"}}}`
	up := write("up.json", `{"http":[{"name":"crm","url":"`+srv.URL+`/fact","predicates":["vat"],"cardinality":"functional"},{"name":"erp","url":"`+srv.URL+`/fact","predicates":["city"]}],
		"documents":[`+list+`,{"name":"old","uri":"file://`+folder+`/gone.csv","table":{"subject":"name","columns":{"vat":"vat"}}}],"fetch":{"roots":["`+folder+`"]}}`)
	down := write("down.json", `{"http":[{"name":"crm","url":"`+srv.URL+`/down","predicates":["vat"]}],"documents":[`+list+`]}`)
	w := newWorld(t)
	claim := []string{"--subject", "acme", "--predicate", "vat", "--object", "DE123"}
	tryIt := func(args ...string) result {
		return w.run(append(append([]string{"verifier", "test"}, args...), claim...)...)
	}

	r := tryIt("-config", up, "-o", "json")
	var got triedJSON
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != exitDone {
		t.Fatalf("%+v, %v", r, err)
	}
	said := map[string]string{}
	for _, v := range got.Verdicts {
		said[v.Verifier] = v.Outcome
	}
	for name, want := range map[string]string{"crm": "refuted", "erp": "not_covered", "list": "supported", "old": "gone"} {
		if said[name] != want {
			t.Errorf("%s: %s, want %s", name, said[name], want)
		}
	}
	if r := tryIt("crm", "-config", up); r.code != exitDone || !strings.Contains(r.out, "DE999") || strings.Contains(r.out, "list") {
		t.Errorf("one of them: %+v", r)
	}
	if r := tryIt("-config", down); r.code != exitNo || !strings.Contains(r.out, "unavailable") || !strings.Contains(r.out, "misconfigured") || !strings.Contains(r.talk, "status 503") {
		t.Errorf("one is down, and one may reach no folder: %+v", r)
	}
	for _, c := range []struct {
		args []string
		code int
		talk string
	}{
		{[]string{"verifier", "test"}, exitUsage, "-config FILE is missing"},
		{[]string{"verifier", "test", "-config", up}, exitUsage, "--subject"},
		{append([]string{"verifier", "test", "nobody", "-config", up}, claim...), exitNotFound, `no verifier "nobody"`},
		{append([]string{"verifier", "test", "-config", up, "--cardinality", "one"}, claim...), exitUsage, "--cardinality"},
		{append([]string{"verifier", "test", "-config", write("bad.json", `{"https":[]}`)}, claim...), exitUsage, "https: no such field"},
	} {
		if r := w.run(c.args...); r.code != c.code || !strings.Contains(r.talk, c.talk) {
			t.Errorf("%q: exit %d: %s", c.args, r.code, r.talk)
		}
	}
}
