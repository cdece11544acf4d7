// Package roster says who may be asked: it reads the verifiers of a configuration and
// makes them. The worker has one, and whoever wants to try a verifier.
package roster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/document"
)

// HTTP is a system of record that answers questions over HTTP.
type HTTP struct {
	Name        string
	URL         *url.URL
	Predicates  []string // canonical; "*" = all
	Rank        memory.Rank
	Group       string
	Cardinality memory.Cardinality
	Compare     verifier.Compare
	Timeout     time.Duration
	Token       string
}

// Model is a language model that gives a second opinion.
type Model struct {
	Name, BaseURL, Model, Family, Key string
	Timeout                           time.Duration
}

// Document is a pinned document or table: a primary source.
type Document struct {
	Name        string
	Table       *document.Table // one of the two
	Text        *document.Text
	Group       string // "" = the address
	Cardinality memory.Cardinality
	Compare     verifier.Compare
}

// Quorum is several of the others that are asked together, and no more alone.
type Quorum struct {
	Name string
	Of   []string
	K    int
}

// Roster is who may be asked. Add to it, and look at Problems before Make. The zero
// Roster is empty.
type Roster struct {
	HTTP      []HTTP
	Models    []Model
	Documents []Document
	Quorums   []Quorum
	Fetch     document.FetcherOptions // what documents may be fetched from
	Observe   []string                // predicates of the narrow auto-promotion policy (D-30)

	problems []string
}

func (r *Roster) add(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// Problems lists all that is wrong, each with the place and the field. No line holds a
// secret.
func (r *Roster) Problems() []string {
	return append(slices.Clone(r.problems), r.between()...)
}

// between is what is wrong between the parts: two of one name, a quorum of strangers.
func (r *Roster) between() (problems []string) {
	seen := map[string]bool{}
	for _, name := range r.Names() {
		if folded := strings.ToLower(name); seen[folded] {
			problems = append(problems, fmt.Sprintf("two verifiers are named %q", name))
		} else {
			seen[folded] = true
		}
	}
	taken := map[string]bool{}
	for _, q := range r.Quorums {
		for _, of := range q.Of {
			member := slices.ContainsFunc(r.HTTP, func(h HTTP) bool { return h.Name == of }) || slices.ContainsFunc(r.Documents, func(d Document) bool { return d.Name == of })
			switch {
			case !member:
				problems = append(problems, fmt.Sprintf("the quorum %q is of %q, which is no source or document", q.Name, of))
			case taken[of]:
				problems = append(problems, fmt.Sprintf("%q is asked twice in quorums", of))
			}
			taken[of] = true
		}
	}
	return problems
}

// Names are the names of all, in the order of the configuration.
func (r *Roster) Names() (out []string) {
	for _, h := range r.HTTP {
		out = append(out, h.Name)
	}
	for _, d := range r.Documents {
		out = append(out, d.Name)
	}
	for _, m := range r.Models {
		out = append(out, m.Name)
	}
	for _, q := range r.Quorums {
		out = append(out, q.Name)
	}
	return out
}

// The file of verifiers.
type (
	fileWire struct {
		HTTP        []json.RawMessage `json:"http"`
		Models      []json.RawMessage `json:"models"`
		Documents   []json.RawMessage `json:"documents"`
		Quorums     []json.RawMessage `json:"quorums"`
		Fetch       json.RawMessage   `json:"fetch"`
		AutoPromote []string          `json:"auto_promote"`
	}
	httpWire struct {
		Name        string   `json:"name"`
		URL         string   `json:"url"`
		Predicates  []string `json:"predicates"`
		Rank        string   `json:"rank"`
		Group       string   `json:"group"`
		Cardinality string   `json:"cardinality"`
		Compare     string   `json:"compare"`
		Timeout     string   `json:"timeout"`
		TokenEnv    string   `json:"token_env"`
	}
	modelWire struct {
		Name    string `json:"name"`
		BaseURL string `json:"base_url"`
		Model   string `json:"model"`
		Family  string `json:"family"`
		KeyEnv  string `json:"key_env"`
		Timeout string `json:"timeout"`
	}
	documentWire struct {
		Name        string `json:"name"`
		URI         string `json:"uri"`
		SHA256      string `json:"sha256"`
		Group       string `json:"group"`
		Cardinality string `json:"cardinality"`
		Compare     string `json:"compare"`
		Table       *struct {
			Subject  string            `json:"subject"`
			Columns  map[string]string `json:"columns"`
			Complete bool              `json:"complete"`
		} `json:"table"`
		Text *struct {
			Subject  string            `json:"subject"`
			Patterns map[string]string `json:"patterns"`
		} `json:"text"`
	}
	quorumWire struct {
		Name string   `json:"name"`
		Of   []string `json:"of"`
		K    int      `json:"k"`
	}
	fetchWire struct {
		Hosts    []string `json:"hosts"`
		Private  []string `json:"private"`
		Roots    []string `json:"roots"`
		MaxBytes int64    `json:"max_bytes"`
	}
)

const maxFile = 1 << 20

// AddFile adds what a JSON file has: http, models, documents, fetch, quorums,
// auto_promote. Secrets are in variables that the file names. at says which file, for
// who mends it.
func (r *Roster) AddFile(at, path string, getenv func(string) string) {
	b, err := os.ReadFile(path)
	if err != nil {
		r.add("%s: %v", at, err)
		return
	}
	if len(b) > maxFile {
		r.add("%s: %d bytes, at most %d", at, len(b), maxFile)
		return
	}
	var w fileWire
	if why := strict(b, &w); why != "" {
		r.add("%s: %s", at, why)
		return
	}
	each(r, at+": http", w.HTTP, func(at string, w httpWire) { r.addHTTP(at, w, getenv) })
	each(r, at+": models", w.Models, func(at string, w modelWire) { r.addModel(at, w, getenv) })
	each(r, at+": documents", w.Documents, r.addDocument)
	each(r, at+": quorums", w.Quorums, r.addQuorum)
	if len(w.Fetch) > 0 {
		var f fetchWire
		if why := strict(w.Fetch, &f); why != "" {
			r.add("%s: fetch%s", at, why)
		}
		r.Fetch.Hosts, r.Fetch.Private, r.Fetch.Roots = append(r.Fetch.Hosts, f.Hosts...), append(r.Fetch.Private, f.Private...), append(r.Fetch.Roots, f.Roots...)
		r.Fetch.MaxBytes = f.MaxBytes
	}
	for _, p := range w.AutoPromote {
		if memory.Canonical(p) == "" || p == "*" {
			r.add("%s: auto_promote: %q is no predicate: name each", at, p)
			continue
		}
		r.Observe = append(r.Observe, p)
	}
}

func each[W any](r *Roster, at string, list []json.RawMessage, add func(at string, w W)) {
	for i, raw := range list {
		at := fmt.Sprintf("%s[%d]", at, i)
		var w W
		if why := strict(raw, &w); why != "" {
			r.add("%s%s", at, why)
			continue
		}
		add(at, w)
	}
}

// AddFlag reads NAME=URL,key=value,…: a source over HTTP. at names the flag.
func (r *Roster) AddFlag(at, s string, getenv func(string) string) {
	name, rest, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		r.add("%s: want NAME=URL,predicate=P", at)
		return
	}
	parts := strings.Split(rest, ",")
	w := httpWire{Name: name, URL: parts[0]}
	for _, part := range parts[1:] {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			r.add("%s %s: %q: want key=value (a URL with a comma goes into the -config file)", at, name, part)
			return
		}
		switch key {
		case "predicate":
			w.Predicates = append(w.Predicates, value)
		case "rank":
			w.Rank = value
		case "group":
			w.Group = value
		case "cardinality":
			w.Cardinality = value
		case "compare":
			w.Compare = value
		case "timeout":
			w.Timeout = value
		case "token_env":
			w.TokenEnv = value
		default:
			r.add("%s %s: %q: no such key", at, name, key)
			return
		}
	}
	r.addHTTP(at+" "+name, w, getenv)
}

func (r *Roster) addDocument(at string, w documentWire) {
	before := len(r.problems)
	d := Document{Name: w.Name, Group: w.Group}
	if strings.TrimSpace(w.Name) == "" {
		r.add("%s.name: missing", at)
	}
	if w.Cardinality != "" {
		if err := d.Cardinality.UnmarshalText([]byte(w.Cardinality)); err != nil {
			r.add("%s.cardinality: %q: want functional, set_valued or unknown", at, w.Cardinality)
		}
	}
	compare, known := compares[w.Compare]
	if d.Compare = compare; !known {
		r.add("%s.compare: %q: want type, exact, number, date, set or text", at, w.Compare)
	}
	pin := document.Pin{URI: w.URI, SHA256: w.SHA256}
	var err error
	switch {
	case w.Table != nil && w.Text == nil:
		d.Table = &document.Table{Pin: pin, Subject: w.Table.Subject, Columns: w.Table.Columns, Complete: w.Table.Complete}
		_, err = d.Table.Ask(nil)
	case w.Text != nil && w.Table == nil:
		d.Text = &document.Text{Pin: pin, Subject: w.Text.Subject, Patterns: w.Text.Patterns}
		_, err = d.Text.Ask(nil)
	default:
		err = errors.New("want table or text")
	}
	if err != nil {
		r.add("%s: %v", at, err)
	}
	if len(r.problems) == before {
		r.Documents = append(r.Documents, d)
	}
}

func (r *Roster) addQuorum(at string, w quorumWire) {
	switch {
	case strings.TrimSpace(w.Name) == "":
		r.add("%s.name: missing", at)
	case w.K < 1 || w.K > len(w.Of) || len(w.Of) > memory.MaxQuorum:
		r.add("%s.k: %d of %d, at most %d", at, w.K, len(w.Of), memory.MaxQuorum)
	default:
		r.Quorums = append(r.Quorums, Quorum(w))
	}
}

// strict decodes one JSON value: no unknown field, no field twice, nothing after
// it. It says what is wrong, beginning with the field, or "".
func strict(b []byte, into any) string {
	if key := repeatedKey(b); key != "" {
		return fmt.Sprintf(".%s: given twice", key)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		var typed *json.UnmarshalTypeError
		if errors.As(err, &typed) {
			return fmt.Sprintf(".%s: a JSON %s does not fit", typed.Field, typed.Value)
		}
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return fmt.Sprintf(".%s: no such field", strings.Trim(name, `"`))
		}
		return ": " + strings.TrimPrefix(err.Error(), "json: ")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return ": something follows the object"
	}
	return ""
}

// repeatedKey returns a key that an object has twice at its top level, in any
// letter case, or "". Malformed JSON has none; the decoder will say so.
func repeatedKey(b []byte) string {
	dec := json.NewDecoder(bytes.NewReader(b))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return ""
	}
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		key, ok := tok.(string)
		if err != nil || !ok {
			return ""
		}
		if folded := strings.ToLower(key); seen[folded] {
			return key
		} else {
			seen[folded] = true
		}
		var skip json.RawMessage
		if dec.Decode(&skip) != nil {
			return ""
		}
	}
	return ""
}

var compares = map[string]verifier.Compare{
	"": nil, "type": verifier.CompareByType, "exact": verifier.CompareExact, "number": verifier.CompareNumber,
	"date": verifier.CompareDate, "set": verifier.CompareSet, "text": verifier.CompareText,
}

func (r *Roster) addHTTP(at string, w httpWire, getenv func(string) string) {
	before := len(r.problems)
	s := HTTP{Name: w.Name, Group: w.Group}
	if w.Name == "" {
		r.add("%s.name: missing", at)
	}
	s.Token = r.secret(at+".token_env", w.TokenEnv, getenv)
	if w.URL == "" {
		r.add("%s.url: missing", at)
	} else if why := badURL(w.URL, w.TokenEnv != ""); why != "" {
		r.add("%s.url: %s", at, why)
	} else {
		s.URL, _ = url.Parse(w.URL) // badURL parsed it
	}
	for _, predicate := range w.Predicates {
		canonical := memory.Canonical(predicate)
		if canonical == "" {
			r.add("%s.predicates: one of them is empty", at)
		}
		s.Predicates = append(s.Predicates, canonical)
	}
	if len(w.Predicates) == 0 {
		r.add("%s.predicates: missing: say what this source is asked for (* = everything)", at)
	}
	switch w.Rank {
	case "", memory.RankTool.String():
		s.Rank = memory.RankTool
	case memory.RankPrimarySource.String():
		s.Rank = memory.RankPrimarySource
	default:
		r.add("%s.rank: %q: want tool or primary_source", at, w.Rank)
	}
	if w.Cardinality != "" {
		if err := s.Cardinality.UnmarshalText([]byte(w.Cardinality)); err != nil {
			r.add("%s.cardinality: %q: want functional, set_valued or unknown", at, w.Cardinality)
		}
	}
	compare, known := compares[w.Compare]
	if s.Compare = compare; !known {
		r.add("%s.compare: %q: want type, exact, number, date, set or text", at, w.Compare)
	}
	s.Timeout = r.timeout(at, w.Timeout)
	if len(r.problems) == before {
		r.HTTP = append(r.HTTP, s)
	}
}

// AddModel adds a model. at says where it stands, for who mends it.
func (r *Roster) AddModel(at string, m Model) {
	if why := badURL(m.BaseURL, m.Key != ""); why != "" {
		r.add("%s: %s", at, why)
		return
	}
	r.Models = append(r.Models, m)
}

func (r *Roster) addModel(at string, w modelWire, getenv func(string) string) {
	before := len(r.problems)
	for _, f := range [...]struct{ name, value string }{{"name", w.Name}, {"base_url", w.BaseURL}, {"model", w.Model}, {"family", w.Family}} {
		if f.value == "" {
			r.add("%s.%s: missing", at, f.name)
		}
	}
	m := Model{Name: w.Name, BaseURL: w.BaseURL, Model: w.Model, Family: w.Family, Key: r.secret(at+".key_env", w.KeyEnv, getenv)}
	m.Timeout = r.timeout(at, w.Timeout)
	if w.BaseURL != "" {
		if why := badURL(w.BaseURL, w.KeyEnv != ""); why != "" {
			r.add("%s.base_url: %s", at, why)
		}
	}
	if len(r.problems) == before {
		r.Models = append(r.Models, m)
	}
}

// secret reads the variable that a field names. A name without a value is half a
// configuration.
func (r *Roster) secret(at, variable string, getenv func(string) string) string {
	if variable == "" {
		return ""
	}
	v := getenv(variable)
	if v == "" {
		r.add("%s: the environment has no %s", at, strconv.Quote(variable))
	}
	return v
}

func (r *Roster) timeout(at, s string) time.Duration {
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 || d > 5*time.Minute {
		r.add("%s.timeout: %q: want a duration up to 5m, such as 5s", at, s)
	}
	return d
}

// badURL says why a URL cannot be asked, or "". It repeats no part that may hold
// a secret.
func badURL(s string, secret bool) string {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "it is not of the form http://HOST/PATH"
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "want http://HOST/… or https://HOST/…"
	case u.User != nil:
		return "it holds a user name or password; name a variable with token_env instead"
	case u.Fragment != "":
		return "it holds a fragment, which no server sees"
	}
	if ip := net.ParseIP(u.Hostname()); secret && u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "a key would travel in clear text; use https"
	}
	return ""
}
