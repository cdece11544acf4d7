package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/redisstore/redisurl"
	"github.com/hearsay-go/hearsay/memory/storeurl"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/verifier"
)

// config is what one worker runs with: checked, complete, without a secret that
// was given by flag.
type config struct {
	store   string // URL
	keyring string // folder; "" = beside a SQLite file
	// auditKeys are those that are not in the keyring's folder; nil = they are there.
	auditKeys []keyring.AuditKey
	strict    bool
	witness   string // file of the witness; "" = none
	tenant    string
	namespace string
	redis     string // "" = embedded

	http         string // "" = no HTTP server
	insecureBind bool

	sources []sourceConfig
	models  []modelConfig

	sweep       time.Duration
	budget      int // calls to one verifier a tick; 0 = no limit
	tick        time.Duration
	lifetime    time.Duration // of a verdict that moved nothing
	concurrency int
	drain       time.Duration
	lease       time.Duration
	leaveAlone  time.Duration // a verifier that is down

	checkpoints checkpointConfig

	logFormat string
	logLevel  slog.Level
}

// checkpointConfig is how signed checkpoints are made.
type checkpointConfig struct {
	key       *audit.Key // nil = none are made
	verifiers []note.Verifier
	origin    string
	every     time.Duration
}

// sourceConfig is a system of record that answers questions over HTTP.
type sourceConfig struct {
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

// modelConfig is a language model that gives a second opinion.
type modelConfig struct {
	Name, BaseURL, Model, Family, Key string
	Timeout                           time.Duration
}

// usageError is half a configuration or a wrong one: the worker does not start.
type usageError struct{ problems []string }

func (e *usageError) Error() string { return strings.Join(e.problems, "; ") }

const (
	defaultHTTP  = "127.0.0.1:8787"
	defaultSweep = 10 * time.Second
	defaultDrain = 20 * time.Second

	defaultLeaveAlone = 10 * time.Second

	defaultCheckpoint = 5 * time.Minute
)

// environment maps flags to the variables that stand in for them.
var environment = map[string]string{
	"store": "HEARSAY_STORE", "keyring": "HEARSAY_KEYRING", "strict": "HEARSAY_STRICT", "witness": "HEARSAY_WITNESS", "tenant": "HEARSAY_TENANT", "namespace": "HEARSAY_NAMESPACE", "redis": "HEARSAY_REDIS", "http": "HEARSAY_HTTP", "config": "HEARSAY_CONFIG",
	"model-base-url": "HEARSAY_MODEL_BASE_URL", "model": "HEARSAY_MODEL", "model-family": "HEARSAY_MODEL_FAMILY",
	"sweep-every": "HEARSAY_SWEEP_EVERY", "budget": "HEARSAY_BUDGET", "tick": "HEARSAY_TICK", "verdict-lifetime": "HEARSAY_VERDICT_LIFETIME",
	"concurrency": "HEARSAY_CONCURRENCY", "drain": "HEARSAY_DRAIN", "lease": "HEARSAY_LEASE", "leave-alone": "HEARSAY_LEAVE_ALONE",
	"checkpoint-key": "HEARSAY_CHECKPOINT_KEY", "checkpoint-keys": "HEARSAY_CHECKPOINT_KEYS", "checkpoint-origin": "HEARSAY_CHECKPOINT_ORIGIN", "checkpoint-every": "HEARSAY_CHECKPOINT_EVERY",
	"log-format": "HEARSAY_LOG_FORMAT", "log-level": "HEARSAY_LOG_LEVEL",
}

const (
	modelKeyVariable      = "HEARSAY_MODEL_KEY"
	checkpointKeyVariable = "HEARSAY_CHECKPOINT_SECRET" // the text of the key, where there is no file
	auditKeysVariable     = "HEARSAY_AUDIT_KEYS"        // where they are not in the keyring's folder
)

const usageText = `worker checks the rows of a memory and moves their state by evidence.

  worker -store sqlite:agent.db -verifier-http 'crm=http://127.0.0.1:9000/fact,predicate=billing.email'

It is asked for no decision and calls no tool of an agent. Rows are checked hottest
first; a verifier that is down leaves them as they are.

Flags. Most have a variable, named like HEARSAY_STORE and HEARSAY_SWEEP_EVERY; a flag
wins over it:
`

const usageTail = `
Keys come from the environment only: HEARSAY_MODEL_KEY, HEARSAY_CHECKPOINT_SECRET,
HEARSAY_AUDIT_KEYS (2:BASE64,1:BASE64, if the keyring's folder has none), or what
key_env and token_env name in the file. With -checkpoint-key the worker signs a
checkpoint of the audit every -checkpoint-every, and one more when it ends. A store
whose audit does not hold, or that is older than its -witness, ends the worker with
exit code 1; a fault that may pass is logged, counted and, if it lasts, shown in /readyz.

A file of verifiers (-config) looks like this:

  {
    "http": [{
      "name": "crm", "url": "https://crm.example/fact", "predicates": ["billing.email"],
      "rank": "tool", "group": "tool:crm", "cardinality": "functional", "compare": "text",
      "timeout": "5s", "token_env": "CRM_TOKEN"
    }],
    "models": [{
      "name": "second", "base_url": "http://127.0.0.1:11434/v1", "model": "qwen3",
      "family": "qwen", "key_env": "", "timeout": "30s"
    }]
  }

name, url and predicates are required, of a model name, base_url, model and family.
The worker asks URL?subject=…&predicate=… and never shows the claimed value. The
answer is 200 and {"found":true,"value":"…"} or {"found":false}; "values":[…] for
several, "complete":true if there are no others, "uri" and "version" of the record.

Exit codes: 0 drained, 1 failed, 2 wrong or half a configuration.
`

// parse reads flags, environment and file. flag.ErrHelp means that help was
// asked for and printed.
func parse(args []string, getenv func(string) string, talk io.Writer) (*config, error) {
	var (
		c                       config
		file, level             string
		checkpointKey           string
		checkpointKeys          string
		baseURL, model, family  string
		sources                 []string
		flags                   = flag.NewFlagSet("worker", flag.ContinueOnError)
		keyByFlag, printVersion bool
	)
	flags.SetOutput(io.Discard) // errors are reported once, by the caller
	flags.StringVar(&c.store, "store", "", "`URL` of the store: sqlite:PATH, redis://…, rediss://… or postgres://…; required")
	flags.StringVar(&c.keyring, "keyring", "", "`folder` of the store's keys (default PATH.keys of a SQLite file; required for a server)")
	flags.StringVar(&c.witness, "witness", "", "`file` on another disk or machine that remembers demotions; with it a store that lost one is noticed\n(hearsay witness create makes it; the worker does not start without the one it is told of)")
	flags.BoolVar(&c.strict, "strict", false, "refuse a store whose settings would lose what was acknowledged; hearsay doctor lists them")
	flags.StringVar(&c.tenant, "tenant", "", "the tenant whose rows to check (default \"default\")")
	flags.StringVar(&c.namespace, "namespace", "", "the tenant's namespace whose rows to check; each namespace has a worker of its own")
	flags.StringVar(&c.redis, "redis", "", "Redis `URL` of the queue; empty = a redis-server of this machine as a child, else in process")
	flags.StringVar(&c.http, "http", defaultHTTP, "`address` of /healthz, /readyz and /metrics; \"off\" = none")
	flags.BoolVar(&c.insecureBind, "http-insecure-bind", false, "let -http listen beyond this machine: anybody who reaches it reads counts of rows, queues and\nverifier names, without a login; no claim is shown and nothing can be changed")
	flags.StringVar(&file, "config", "", "JSON `file` of verifiers, see below")
	flags.Func("verifier-http", "a system of record, as `NAME=URL,predicate=P`[,predicate=…][,rank=primary_source][,group=G]\n[,cardinality=functional][,compare=exact][,timeout=5s][,token_env=VAR]; may be repeated", func(s string) error {
		sources = append(sources, s)
		return nil
	})
	flags.StringVar(&baseURL, "model-base-url", "", "second model: OpenAI-compatible `URL`, without /chat/completions")
	flags.StringVar(&model, "model", "", "second model: its `name` at that server")
	flags.StringVar(&family, "model-family", "", "second model: its training `family`, spelled as the rows spell it")
	flags.Func("model-key", "refused: a `key` on the command line is seen by everybody; set "+modelKeyVariable, func(string) error {
		keyByFlag = true
		return nil
	})
	flags.DurationVar(&c.sweep, "sweep-every", defaultSweep, "how often rows are looked through for due ones")
	flags.IntVar(&c.budget, "budget", promotion.DefaultBudget, "at most so many questions to each verifier in one -tick; 0 = no limit")
	flags.DurationVar(&c.tick, "tick", promotion.DefaultTick, "what -budget counts in")
	flags.DurationVar(&c.lifetime, "verdict-lifetime", promotion.DefaultVerdictLifetime, "how long an answer that moved nothing stands before a row is asked about again")
	flags.IntVar(&c.concurrency, "concurrency", asynqqueue.DefaultConcurrency, "rows checked at once")
	flags.DurationVar(&c.lease, "lease", asynqqueue.DefaultLease, "how long a row stays with a worker that died; one that lives renews it")
	flags.DurationVar(&c.leaveAlone, "leave-alone", defaultLeaveAlone, "how long a verifier that is down is left alone, if it does not say so itself")
	flags.DurationVar(&c.drain, "drain", defaultDrain, "how long checks under way may take after SIGTERM")
	flags.StringVar(&checkpointKey, "checkpoint-key", "", "`file` of the private key that signs checkpoints (hearsay audit keygen), or set "+checkpointKeyVariable+";\nwithout either none are made")
	flags.StringVar(&checkpointKeys, "checkpoint-keys", "", "`file` of verifier keys, old ones too, after a change of the key (default that of the key)")
	flags.StringVar(&c.checkpoints.origin, "checkpoint-origin", "", "`name` of what the checkpoints are of; it never changes (default the name of the key)")
	flags.DurationVar(&c.checkpoints.every, "checkpoint-every", defaultCheckpoint, "how often checkpoints are made")
	flags.StringVar(&c.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	flags.BoolVar(&printVersion, "version", false, "print which build this is")

	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(talk, usageText)
			flags.SetOutput(talk)
			flags.PrintDefaults()
			fmt.Fprint(talk, usageTail)
			return nil, err
		}
		return nil, &usageError{[]string{strings.TrimPrefix(err.Error(), "flag provided but not defined: ") + unknownFlag(err)}}
	}
	p := &problems{}
	if flags.NArg() > 0 {
		p.add("unexpected argument %q", flags.Arg(0))
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, variable := range environment {
		if v := getenv(variable); v != "" && !given[name] {
			if err := flags.Set(name, v); err != nil {
				p.add("%s: %v", variable, err)
			}
		}
	}
	if printVersion {
		return nil, errVersion
	}
	if keyByFlag {
		p.add("-model-key: a key on the command line is seen by everybody on the machine; set %s instead", modelKeyVariable)
	}

	c.store = p.store(c.store)
	if c.store != "" && c.keyring == "" && !strings.HasPrefix(c.store, "sqlite:") {
		p.add("-keyring is missing: a store on a server needs the folder of its keys by name; hearsay keyring create makes one")
	}
	if text := getenv(auditKeysVariable); text != "" {
		keys, err := keyring.ParseAuditKeys(text)
		if err != nil { // quotes nothing of the text
			p.add("%s: %v", auditKeysVariable, err)
		}
		c.auditKeys = keys
	}
	p.redis(c.redis)
	if c.http == "off" {
		c.http = ""
	}
	p.bind(c.http, c.insecureBind)
	for _, s := range sources {
		p.source(&c, s, getenv)
	}
	p.model(&c, baseURL, model, family, getenv)
	if file != "" {
		p.file(&c, file, getenv)
	}
	p.names(&c)
	p.checkpoints(&c.checkpoints, checkpointKey, checkpointKeys, getenv)
	p.atLeast("-checkpoint-every", c.checkpoints.every, 100*time.Millisecond)
	p.atLeast("-sweep-every", c.sweep, 100*time.Millisecond)
	p.atLeast("-tick", c.tick, 100*time.Millisecond)
	p.atLeast("-verdict-lifetime", c.lifetime, time.Second)
	p.atLeast("-drain", c.drain, 0)
	p.atLeast("-lease", c.lease, 300*time.Millisecond)
	p.atLeast("-leave-alone", c.leaveAlone, 100*time.Millisecond)
	if c.budget < 0 {
		p.add("-budget %d: want 0 or more", c.budget)
	}
	if c.concurrency < 1 || c.concurrency > 1000 {
		p.add("-concurrency %d: want 1 to 1000", c.concurrency)
	}
	if c.logFormat != "text" && c.logFormat != "json" {
		p.add("-log-format %q: want text or json", c.logFormat)
	}
	if err := c.logLevel.UnmarshalText([]byte(level)); err != nil {
		p.add("-log-level %q: want debug, info, warn or error", level)
	}
	if len(p.list) > 0 {
		return nil, &usageError{p.list}
	}
	return &c, nil
}

var errVersion = errors.New("version")

func unknownFlag(err error) string {
	if strings.HasPrefix(err.Error(), "flag provided but not defined") {
		return ": no such flag"
	}
	return ""
}

// problems collects all that is wrong, so that one start shows all of it.
type problems struct{ list []string }

func (p *problems) add(format string, args ...any) {
	p.list = append(p.list, fmt.Sprintf(format, args...))
}

func (p *problems) atLeast(name string, d, least time.Duration) {
	if d < least {
		p.add("%s %s: want %s or more", name, d, least)
	}
}

func (p *problems) store(s string) string {
	if s == "" {
		p.add("-store is missing: give -store sqlite:PATH or set HEARSAY_STORE")
		return ""
	}
	if err := storeurl.Check(s); err != nil { // which does not repeat s: it may hold a password
		p.add("-store: %v", err)
		return ""
	}
	return s
}

// redis checks the form only, and never repeats the URL: it may hold a password.
func (p *problems) redis(s string) {
	if s == "" {
		return
	}
	if _, err := redisurl.Parse(s); err != nil {
		p.add("-redis: %v; want redis://HOST:PORT/DB, rediss://…, unix:///PATH, or several hosts with ?cluster=true or ?master=NAME", err)
	}
}

// bind refuses an address that others can reach, unless that is said.
func (p *problems) bind(addr string, insecure bool) {
	if addr == "" {
		return
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		p.add("-http %q: want HOST:PORT, as in %s", addr, defaultHTTP)
		return
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() || insecure {
		return
	}
	p.add("-http %q would listen beyond this machine: anybody who reaches it reads counts of rows, queues and verifier names without a login; "+
		"use a loopback address behind a proxy that asks for one, or say -http-insecure-bind", addr)
}

// checkpoints takes the keys of checkpoints: a key by file or by environment, and
// nothing about checkpoints without one.
func (p *problems) checkpoints(c *checkpointConfig, key, keys string, getenv func(string) string) {
	text := getenv(checkpointKeyVariable)
	var err error
	switch {
	case key != "" && text != "":
		p.add("-checkpoint-key and %s: want one of them", checkpointKeyVariable)
		return
	case key != "":
		c.key, err = audit.ReadKey(key)
	case text != "":
		c.key, err = audit.ParseKey(text)
	default:
		if keys != "" || c.origin != "" {
			p.add("-checkpoint-keys and -checkpoint-origin: nothing signs checkpoints; give -checkpoint-key or set %s", checkpointKeyVariable)
		}
		return
	}
	if err != nil { // says nothing of the key itself
		p.add("-checkpoint-key: %v", err)
		return
	}
	c.origin = cmp.Or(c.origin, c.key.Name())
	c.verifiers = []note.Verifier{c.key.Verifier()}
	if keys == "" {
		return
	}
	if c.verifiers, err = audit.ReadVerifiers(keys); err != nil {
		p.add("-checkpoint-keys: %v", err)
	} else if !slices.ContainsFunc(c.verifiers, func(v note.Verifier) bool { return v.Name() == c.key.Name() && v.KeyHash() == c.key.KeyHash() }) {
		p.add("-checkpoint-keys: the verifier key of -checkpoint-key is not in it")
	}
}

// source reads NAME=URL,key=value,….
func (p *problems) source(c *config, s string, getenv func(string) string) {
	name, rest, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		p.add("-verifier-http: want NAME=URL,predicate=P")
		return
	}
	parts := strings.Split(rest, ",")
	w := sourceWire{Name: name, URL: parts[0]}
	for _, part := range parts[1:] {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			p.add("-verifier-http %s: %q: want key=value (a URL with a comma goes into the -config file)", name, part)
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
			p.add("-verifier-http %s: %q: no such key", name, key)
			return
		}
	}
	p.addSource(c, "-verifier-http "+name, w, getenv)
}

// model takes the second model of the flags: all three of them or none.
func (p *problems) model(c *config, baseURL, model, family string, getenv func(string) string) {
	key := getenv(modelKeyVariable)
	if baseURL == "" && model == "" && family == "" {
		if key != "" {
			p.add("%s is set, but -model-base-url, -model and -model-family are missing", modelKeyVariable)
		}
		return
	}
	var missing []string
	for _, f := range [...]struct{ name, value string }{{"-model-base-url", baseURL}, {"-model", model}, {"-model-family", family}} {
		if f.value == "" {
			missing = append(missing, f.name)
		}
	}
	if len(missing) > 0 {
		p.add("half a second model: %s missing", strings.Join(missing, " and "))
		return
	}
	if why := badURL(baseURL, key != ""); why != "" {
		p.add("-model-base-url: %s", why)
		return
	}
	c.models = append(c.models, modelConfig{Name: "model:" + model, BaseURL: baseURL, Model: model, Family: family, Key: key})
}

// The file of verifiers.
type (
	fileWire struct {
		HTTP   []json.RawMessage `json:"http"`
		Models []json.RawMessage `json:"models"`
	}
	sourceWire struct {
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
)

const maxFile = 1 << 20

func (p *problems) file(c *config, path string, getenv func(string) string) {
	b, err := os.ReadFile(path)
	if err != nil {
		p.add("-config: %v", err)
		return
	}
	if len(b) > maxFile {
		p.add("-config %s: %d bytes, at most %d", path, len(b), maxFile)
		return
	}
	var w fileWire
	if why := strict(b, &w); why != "" {
		p.add("-config %s: %s", path, why)
		return
	}
	for i, raw := range w.HTTP {
		at := fmt.Sprintf("-config %s: http[%d]", path, i)
		var s sourceWire
		if why := strict(raw, &s); why != "" {
			p.add("%s%s", at, why)
			continue
		}
		p.addSource(c, at, s, getenv)
	}
	for i, raw := range w.Models {
		at := fmt.Sprintf("-config %s: models[%d]", path, i)
		var m modelWire
		if why := strict(raw, &m); why != "" {
			p.add("%s%s", at, why)
			continue
		}
		p.addModel(c, at, m, getenv)
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

func (p *problems) addSource(c *config, at string, w sourceWire, getenv func(string) string) {
	before := len(p.list)
	s := sourceConfig{Name: w.Name, Group: w.Group}
	if w.Name == "" {
		p.add("%s.name: missing", at)
	}
	s.Token = p.secret(at+".token_env", w.TokenEnv, getenv)
	if w.URL == "" {
		p.add("%s.url: missing", at)
	} else if why := badURL(w.URL, w.TokenEnv != ""); why != "" {
		p.add("%s.url: %s", at, why)
	} else {
		s.URL, _ = url.Parse(w.URL) // badURL parsed it
	}
	for _, predicate := range w.Predicates {
		canonical := memory.Canonical(predicate)
		if canonical == "" {
			p.add("%s.predicates: one of them is empty", at)
		}
		s.Predicates = append(s.Predicates, canonical)
	}
	if len(w.Predicates) == 0 {
		p.add("%s.predicates: missing: say what this source is asked for (* = everything)", at)
	}
	switch w.Rank {
	case "", memory.RankTool.String():
		s.Rank = memory.RankTool
	case memory.RankPrimarySource.String():
		s.Rank = memory.RankPrimarySource
	default:
		p.add("%s.rank: %q: want tool or primary_source", at, w.Rank)
	}
	if w.Cardinality != "" {
		if err := s.Cardinality.UnmarshalText([]byte(w.Cardinality)); err != nil {
			p.add("%s.cardinality: %q: want functional, set_valued or unknown", at, w.Cardinality)
		}
	}
	compare, known := compares[w.Compare]
	if s.Compare = compare; !known {
		p.add("%s.compare: %q: want type, exact, number, date, set or text", at, w.Compare)
	}
	s.Timeout = p.timeout(at, w.Timeout)
	if len(p.list) == before {
		c.sources = append(c.sources, s)
	}
}

func (p *problems) addModel(c *config, at string, w modelWire, getenv func(string) string) {
	before := len(p.list)
	for _, f := range [...]struct{ name, value string }{{"name", w.Name}, {"base_url", w.BaseURL}, {"model", w.Model}, {"family", w.Family}} {
		if f.value == "" {
			p.add("%s.%s: missing", at, f.name)
		}
	}
	m := modelConfig{Name: w.Name, BaseURL: w.BaseURL, Model: w.Model, Family: w.Family, Key: p.secret(at+".key_env", w.KeyEnv, getenv)}
	if w.BaseURL != "" {
		if why := badURL(w.BaseURL, w.KeyEnv != ""); why != "" {
			p.add("%s.base_url: %s", at, why)
		}
	}
	m.Timeout = p.timeout(at, w.Timeout)
	if len(p.list) == before {
		c.models = append(c.models, m)
	}
}

// secret reads the variable that a field names. A name without a value is half a
// configuration.
func (p *problems) secret(at, variable string, getenv func(string) string) string {
	if variable == "" {
		return ""
	}
	v := getenv(variable)
	if v == "" {
		p.add("%s: the environment has no %s", at, strconv.Quote(variable))
	}
	return v
}

func (p *problems) timeout(at, s string) time.Duration {
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 || d > 5*time.Minute {
		p.add("%s.timeout: %q: want a duration up to 5m, such as 5s", at, s)
	}
	return d
}

// names refuses two verifiers of one name: evidence could not tell them apart.
func (p *problems) names(c *config) {
	seen := map[string]bool{}
	for _, name := range c.verifierNames() {
		if folded := strings.ToLower(name); seen[folded] {
			p.add("two verifiers are named %q", name)
		} else {
			seen[folded] = true
		}
	}
}

func (c *config) verifierNames() []string {
	var out []string
	for _, s := range c.sources {
		out = append(out, s.Name)
	}
	for _, m := range c.models {
		out = append(out, m.Name)
	}
	return out
}

// badURL says why a URL cannot be asked, or "". It repeats no part that may hold
// a secret.
func badURL(s string, secret bool) string {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "it cannot be parsed"
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
