package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/redisstore/redisurl"
	"github.com/hearsay-go/hearsay/memory/storeurl"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier/roster"
)

// config is what one worker runs with: checked, complete, without a secret that
// was given by flag.
type config struct {
	store      string                      // URL
	keyring    string                      // folder; "" = beside a SQLite file
	predicates map[string]memory.Predicate // of the policy file
	// auditKeys are those that are not in the keyring's folder; nil = they are there.
	auditKeys []keyring.AuditKey
	wrapping  keyring.Wrapping // of the keyring; nil = the file in its folder
	strict    bool
	witness   string // file of the witness, or URL of its server; "" = none
	tenant    string
	shares    []share // one or more; no namespace twice
	redis     string  // "" = embedded

	http         string   // "" = no HTTP server
	httpHosts    []string // host names that the HTTP server is asked for by, besides its own
	insecureBind bool

	roster roster.Roster

	sweep       time.Duration
	budget      int // calls to one verifier a tick; 0 = no limit
	tick        time.Duration
	lifetime    time.Duration // of a verdict that moved nothing
	concurrency int
	drain       time.Duration
	deployment  string        // of the queues; "" = named by what is served
	leaveAlone  time.Duration // a verifier that is down
	publish     time.Duration // how often agents are told which verifiers are down

	checkpoints checkpointConfig
	verifyEvery time.Duration // 0 = not in the background
	trace       string        // traceOff, traceStdout or traceOTLP

	logFormat string
	logLevel  slog.Level
}

// share is a namespace that the worker serves.
type share struct {
	namespace string // "" = the tenant's rows that are in none
	weight    int    // 1 to maxWeight; see [promotion.Scope]
}

// named reports whether any namespace that is served has a name.
func (c *config) named() bool {
	return slices.ContainsFunc(c.shares, func(s share) bool { return s.namespace != "" })
}

// checkpointConfig is how signed checkpoints are made.
type checkpointConfig struct {
	key       *audit.Key // nil = none are made
	verifiers []note.Verifier
	origin    string
	every     time.Duration
}

// usageError is half a configuration or a wrong one: the worker does not start.
type usageError struct{ problems []string }

func (e *usageError) Error() string { return strings.Join(e.problems, "; ") }

const (
	defaultHTTP  = "127.0.0.1:8787"
	defaultSweep = 10 * time.Second
	defaultDrain = 20 * time.Second

	defaultLeaveAlone = 5 * time.Second
	defaultPublish    = 10 * time.Second

	defaultCheckpoint = 5 * time.Minute

	maxWeight = 100
	maxShares = 100 // each has a look for due rows and a count of rows of its own

	maxDeployment = 100 // bytes
)

// environment maps flags to the variables that stand in for them.
var environment = map[string]string{
	"store": "HEARSAY_STORE", "keyring": "HEARSAY_KEYRING", "policy": "HEARSAY_POLICY", "strict": "HEARSAY_STRICT", "witness": "HEARSAY_WITNESS", "tenant": "HEARSAY_TENANT", "namespace": "HEARSAY_NAMESPACE", "queues": "HEARSAY_QUEUES", "redis": "HEARSAY_REDIS", "http": "HEARSAY_HTTP", "http-host": "HEARSAY_HTTP_HOST", "config": "HEARSAY_CONFIG",
	"model-base-url": "HEARSAY_MODEL_BASE_URL", "model": "HEARSAY_MODEL", "model-family": "HEARSAY_MODEL_FAMILY",
	"sweep-every": "HEARSAY_SWEEP_EVERY", "budget": "HEARSAY_BUDGET", "tick": "HEARSAY_TICK", "verdict-lifetime": "HEARSAY_VERDICT_LIFETIME",
	"concurrency": "HEARSAY_CONCURRENCY", "drain": "HEARSAY_DRAIN", "deployment": "HEARSAY_DEPLOYMENT", "leave-alone": "HEARSAY_LEAVE_ALONE", "publish-every": "HEARSAY_PUBLISH_EVERY",
	"checkpoint-key": "HEARSAY_CHECKPOINT_KEY", "checkpoint-keys": "HEARSAY_CHECKPOINT_KEYS", "checkpoint-origin": "HEARSAY_CHECKPOINT_ORIGIN", "checkpoint-every": "HEARSAY_CHECKPOINT_EVERY", "verify-every": "HEARSAY_VERIFY_EVERY",
	"log-format": "HEARSAY_LOG_FORMAT", "log-level": "HEARSAY_LOG_LEVEL",
}

const (
	modelKeyVariable      = "HEARSAY_MODEL_KEY"
	checkpointKeyVariable = "HEARSAY_CHECKPOINT_SECRET" // the text of the key, where there is no file
	wrappingVariable      = "HEARSAY_WRAPPING_KEY"
	auditKeysVariable     = "HEARSAY_AUDIT_KEYS" // where they are not in the keyring's folder
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
HEARSAY_AUDIT_KEYS (2:BASE64,1:BASE64, if the keyring has none), HEARSAY_WRAPPING_KEY
(file:PATH or 2:BASE64,1:BASE64, if it is not in the keyring's folder), or what key_env
and token_env name in the file. The token of a witness that is a URL comes from
HEARSAY_WITNESS_TOKEN or HEARSAY_WITNESS_TOKEN_FILE, and HEARSAY_WITNESS_CA is a file of
the authorities of its certificate. With -checkpoint-key the worker signs a
checkpoint of the audit every -checkpoint-every, and one more when it ends. A store
whose audit does not hold, or that is older than its -witness, ends the worker with
exit code 1; a fault that may pass is logged, counted and, if it lasts, shown in /readyz.
All that is stored is verified in the background within -verify-every. Rows that it
finds changed are recorded as damaged: no process fires a call on them until
hearsay row clear-damage, and /readyz and hearsay_verify_found say so.

A file of verifiers (-config) looks like this:

  {
    "http": [{
      "name": "crm", "url": "https://crm.example/fact", "predicates": ["billing.email"],
      "rank": "tool", "group": "tool:crm", "cardinality": "functional", "compare": "exact",
      "timeout": "5s", "token_env": "CRM_TOKEN"
    }],
    "models": [{
      "name": "second", "base_url": "http://127.0.0.1:11434/v1", "model": "qwen3",
      "family": "qwen", "key_env": "", "timeout": "30s"
    }],
    "documents": [{
      "name": "prices", "uri": "https://docs.example/prices.csv", "sha256": "",
      "table": {"subject": "sku", "columns": {"price": "price_eur"}, "complete": false}
    }, {
      "name": "terms", "uri": "file:///srv/docs/terms.txt",
      "text": {"subject": "shop", "patterns": {"refund.window": "within (\\d+ days)"}}
    }],
    "fetch": {"hosts": ["docs.example"], "private": [], "roots": ["/srv/docs"]},
    "quorums": [{"name": "two of two", "of": ["crm", "prices"], "k": 2}],
    "auto_promote": []
  }

name, url and predicates are required, of a model name, base_url, model and family.
The worker asks URL?subject=…&predicate=… and never shows the claimed value. The
answer is 200 and {"found":true,"value":"…"} or {"found":false}; "values":[…] for
several, "complete":true if there are no others, "uri" and "version" of the record.
Documents are primary sources; only the hosts and folders of fetch are reached. The
members of a quorum are asked in it only. auto_promote names the predicates of which
two tools that said so of their own verify a row; hearsay verifier test tries it all.

Exit codes: 0 drained, 1 failed, 2 wrong or half a configuration.
`

// parse reads flags, environment and file. flag.ErrHelp means that help was
// asked for and printed to out.
func parse(args []string, getenv func(string) string, out io.Writer) (*config, error) {
	var (
		c                       config
		file, level             string
		namespace, queues       string
		httpHosts               string
		traceTo                 string
		checkpointKey           string
		checkpointKeys          string
		baseURL, model, family  string
		policy                  string
		sources                 []string
		flags                   = flag.NewFlagSet("worker", flag.ContinueOnError)
		keyByFlag, printVersion bool
	)
	flags.SetOutput(io.Discard) // errors are reported once, by the caller
	flags.StringVar(&c.store, "store", "", "`URL` of the store: sqlite:PATH, redis://…, rediss://… or postgres://…; required")
	flags.StringVar(&c.keyring, "keyring", "", "the store's keys: a `folder`, or postgres://… (default PATH.keys of a SQLite file; required for a server)")
	flags.StringVar(&policy, "policy", "", "policy `file` whose predicates say what verifies them and for how long; the same that the agents run")
	flags.StringVar(&c.witness, "witness", "", "`file` on another disk or machine that remembers demotions, or URL of the server that has it; with it a store that lost one is noticed\n(hearsay witness create makes it; the worker does not start without the one it is told of, nor without the one\nthat the store has had, unless hearsay witness give-up ended that)")
	flags.BoolVar(&c.strict, "strict", false, "refuse a store whose settings would lose what was acknowledged, one that takes no writes, one that has ever\nhad a witness without one, and keys beside the store or open to others; hearsay doctor lists them")
	flags.StringVar(&c.tenant, "tenant", "", "the tenant whose rows to check (default \"default\")")
	flags.StringVar(&namespace, "namespace", "", "the tenant's namespace whose rows to check; of several, -queues")
	flags.StringVar(&queues, "queues", "", "several namespaces and their weights, as `NAME=WEIGHT`[,NAME=WEIGHT…]: while all have rows waiting, each gets its\npart of the worker; an empty NAME stands for rows in no namespace; excludes -namespace")
	flags.StringVar(&c.redis, "redis", "", "Redis `URL` of the queue; empty = a redis-server of this machine as a child, else in process")
	flags.StringVar(&c.http, "http", defaultHTTP, "`address` of /healthz, /readyz and /metrics; \"off\" = none")
	flags.BoolVar(&c.insecureBind, "http-insecure-bind", false, "let -http listen beyond this machine: anybody who reaches it reads counts of rows, queues and\nverifier names, without a login; no claim is shown and nothing can be changed")
	flags.StringVar(&httpHosts, "http-host", "", "`NAME`[,NAME…] that the HTTP server may be asked for by besides localhost and the address it is reached at;\na request for another host, or by a web page of another site, is refused")
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
	flags.StringVar(&c.deployment, "deployment", "", "`NAME` of the queues in the -redis; workers that serve the same namespaces of the same store share one\n(default the tenant and what stands for the namespaces)")
	flags.DurationVar(&c.sweep, "sweep-every", defaultSweep, "the longest time between two looks for rows that are due, while none is known")
	flags.IntVar(&c.budget, "budget", promotion.DefaultBudget, "the rate of questions to each verifier: so many in one -tick, evenly, of all workers together that share a -redis\nand a -deployment; after a pause so many may be asked at once; 0 = no limit")
	flags.DurationVar(&c.tick, "tick", promotion.DefaultTick, "what -budget counts in; the same for all workers")
	flags.DurationVar(&c.lifetime, "verdict-lifetime", promotion.DefaultVerdictLifetime, "how long an answer that moved nothing stands before a row is asked about again")
	flags.IntVar(&c.concurrency, "concurrency", promotion.DefaultPlaces, "questions that each verifier is asked at once by this worker")
	flags.DurationVar(&c.publish, "publish-every", defaultPublish, "how often the store is told which verifiers are down, so that agents label what they write meanwhile; it goes by it for three times as long")
	flags.DurationVar(&c.leaveAlone, "leave-alone", defaultLeaveAlone, "the longest that a verifier that is down is left alone between two probes, if it does not say so itself")
	flags.DurationVar(&c.drain, "drain", defaultDrain, "how long checks under way may take after SIGTERM")
	flags.StringVar(&checkpointKey, "checkpoint-key", "", "`file` of the private key that signs checkpoints (hearsay audit keygen), or set "+checkpointKeyVariable+";\nwithout either none are made")
	flags.StringVar(&checkpointKeys, "checkpoint-keys", "", "`file` of verifier keys, old ones too, after a change of the key (default that of the key)")
	flags.StringVar(&c.checkpoints.origin, "checkpoint-origin", "", "`name` of what the checkpoints are of; it never changes (default the name of the key)")
	flags.DurationVar(&c.verifyEvery, "verify-every", 24*time.Hour, "within what time all that is stored is verified once in the background, a share\neach minute; 0 = never. Rows that are found changed are denied in all processes")
	flags.DurationVar(&c.checkpoints.every, "checkpoint-every", defaultCheckpoint, "how often checkpoints are made")
	flags.StringVar(&traceTo, "trace", "", "where OpenTelemetry spans go: off, `stdout` or otlp, the collector of\nOTEL_EXPORTER_OTLP_ENDPOINT; without the flag, what OTEL_TRACES_EXPORTER says, else off")
	flags.StringVar(&c.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	flags.BoolVar(&printVersion, "version", false, "print which build this is")

	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(out, usageText)
			flags.SetOutput(out)
			flags.PrintDefaults()
			fmt.Fprint(out, usageTail)
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
	if policy != "" {
		if rules, err := gate.LoadPolicy(policy); err != nil {
			p.add("-policy: %v", err)
		} else {
			c.predicates = rules.Registry()
		}
	}
	if text := getenv(auditKeysVariable); text != "" {
		keys, err := keyring.ParseAuditKeys(text)
		if err != nil { // quotes nothing of the text
			p.add("%s: %v", auditKeysVariable, err)
		}
		c.auditKeys = keys
	}
	if text := getenv(wrappingVariable); text != "" {
		w, err := keyring.ParseWrapping(text)
		if err != nil {
			p.add("%s: %v", wrappingVariable, err)
		}
		c.wrapping = w
	}
	c.shares = p.shares(namespace, queues)
	p.redis(c.redis)
	if len(c.deployment) > maxDeployment || !utf8.ValidString(c.deployment) {
		p.add("-deployment: %d bytes, want a text of %d at most", len(c.deployment), maxDeployment)
	}
	p.hosts(&c, httpHosts)
	if c.http == "off" {
		c.http = ""
	}
	p.bind(c.http, c.insecureBind)
	for _, s := range sources {
		c.roster.AddFlag("-verifier-http", s, getenv)
	}
	p.model(&c, baseURL, model, family, getenv)
	if file != "" {
		c.roster.AddFile("-config "+file, file, getenv)
	}
	p.list = append(p.list, c.roster.Problems()...)
	p.checkpoints(&c.checkpoints, checkpointKey, checkpointKeys, getenv)
	p.atLeast("-checkpoint-every", c.checkpoints.every, 100*time.Millisecond)
	if c.verifyEvery != 0 {
		p.atLeast("-verify-every", c.verifyEvery, time.Second)
	}
	p.atLeast("-sweep-every", c.sweep, 100*time.Millisecond)
	p.atLeast("-tick", c.tick, 100*time.Millisecond)
	p.atLeast("-verdict-lifetime", c.lifetime, time.Second)
	p.atLeast("-drain", c.drain, 0)
	p.atLeast("-publish-every", c.publish, 100*time.Millisecond)
	if most := memory.MaxLease / 3; c.publish > most {
		p.add("-publish-every %s: want %s or less", c.publish, most)
	}
	p.atLeast("-leave-alone", c.leaveAlone, 100*time.Millisecond)
	if c.budget < 0 {
		p.add("-budget %d: want 0 or more", c.budget)
	}
	if c.concurrency < 1 || c.concurrency > 1000 {
		p.add("-concurrency %d: want 1 to 1000", c.concurrency)
	}
	c.trace = p.trace(traceTo, getenv)
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

// shares are the namespaces to serve: the one of -namespace, or those of -queues.
func (p *problems) shares(namespace, queues string) []share {
	if queues == "" {
		return []share{{namespace, 1}}
	}
	if namespace != "" {
		p.add("-queues and -namespace: want one of them; -queues %s=1,%s serves both", namespace, queues)
		return nil
	}
	var out []share
	for text := range strings.SplitSeq(queues, ",") {
		at := strings.LastIndex(text, "=")
		if at < 0 {
			p.add("-queues: %q has no weight, want NAME=WEIGHT[,NAME=WEIGHT…]", text)
			continue
		}
		name := text[:at]
		weight, err := strconv.Atoi(text[at+1:])
		switch {
		case err != nil || weight < 1 || weight > maxWeight:
			p.add("-queues: the weight of %q is %q, want 1 to %d", name, text[at+1:], maxWeight)
		case strings.TrimSpace(name) != name || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
			p.add("-queues: %q is no name of a namespace: it has a blank around it, or what is no text", name)
		case slices.ContainsFunc(out, func(s share) bool { return s.namespace == name }):
			p.add("-queues: %q is there twice", name)
		default:
			out = append(out, share{name, weight})
		}
	}
	if len(out) > maxShares {
		p.add("-queues: %d namespaces, want %d at most in one worker", len(out), maxShares)
	}
	return out
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

// hosts takes the names that the HTTP server is asked for by.
func (p *problems) hosts(c *config, names string) {
	for name := range strings.SplitSeq(names, ",") {
		switch name = strings.TrimSpace(name); {
		case name == "" && names != "":
			p.add("-http-host %q: a name is empty", names)
		case strings.ContainsAny(name, ":/*") || strings.ContainsFunc(name, unicode.IsSpace):
			p.add("-http-host %q: want a host name without a port, as in worker.internal", name)
		case name != "":
			c.httpHosts = append(c.httpHosts, name)
		}
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
	c.roster.AddModel("-model-base-url", roster.Model{Name: "model:" + model, BaseURL: baseURL, Model: model, Family: family, Key: key})
}
