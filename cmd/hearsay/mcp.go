package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	api "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/mcp"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/visible"
)

// startWithin is how long a server behind the proxy may take to start and list
// its tools.
const startWithin = 30 * time.Second

func (a *app) mcpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "mcp",
		Short:   "Gate the tools of a Model Context Protocol server",
		Example: "  hearsay mcp proxy -store sqlite:agent.db --read-only search -- some-server",
		RunE:    subcommandWanted,
		Args:    cobra.ArbitraryArgs,
	}
	cmd.AddCommand(a.proxyCommand(), a.pinCommand())
	return cmd
}

// proxyFlags are what the operator says of the server and of the agent.
type proxyFlags struct {
	effects       map[gate.Effect]*[]string
	sinks         []string
	optional      []string
	authoritative []string
	fixed         []string
	sources       []string
	sourceFields  []string
	sensitivity   []string
	ceilings      []string
	blast         []string
	never         []string
	parks         []string
	repeatable    []string
	records       []string
	schemas       []string
	operators     []string
	identifiers   []string
	withheld      []string
	limits        []string
	systems       []string
	computed      []string
	policy        string
	prefix        string
	server        string
	pins          string
	requirePin    bool
	principal     string
	listen        string
	onlySource    bool
	lineageKeys   string
	audience      string
	approvers     string
}

func (a *app) proxyCommand() *cobra.Command {
	f := proxyFlags{effects: map[gate.Effect]*[]string{gate.ReadOnly: {}, gate.StateChanging: {}, gate.Irreversible: {}}}
	cmd := &cobra.Command{
		Use:   "proxy [flags] -- CMD [ARG…]",
		Short: "Stand in front of an MCP server and gate its tools",
		Long: `proxy starts CMD, an MCP server that speaks over its stdin and stdout, and serves the
same tools to an agent that need not know of it: put it where the agent's
configuration has CMD. Every call goes through the gate and is recorded in the store,
which is made if there is none; every answer becomes rows before the agent sees it.

A tool that no flag names is irreversible, with every argument a sink. What the
server says of its own tools can only make them graver.

A text of more than --answer-limit bytes is cut. Of a longer JSON object or list the agent
gets the declared fields. A last line says how much was left out. Images and audio do not
count.

The proxy cannot see what else the agent has read. Unless --only-source says that it
reads nothing else, the lineage of every call is unknown, and only read-only tools
run. Nor does it see the words of the user: an irreversible call passes only on values
from an --authoritative field, or from a row that was verified. --only-source also
vouches for the descriptions of the server's tools, which you should read, and that
no conversation goes on after the proxy was started again.

An agent that is built with this module says itself what each call rests on, in a
signed lineage token (docs/lineage-tokens.md). With --lineage-keys, a file of lines
"ID PUBLIC-KEY", and --audience, the name that such tokens are made out to, each call
rests on what its token says, and a call without one that holds is of unknown lineage.

--sensitivity says how secret what a tool returns is, and --ceiling how secret what
feeds a call may be. An answer of a tool with a ceiling above internal is as secret as
that unless a flag says otherwise. --source names the argument, and --source-field the
field of the output, that says which document an answer is from; hearsay verifier
revoke --kind document reaches its rows by that name.

A tool that reads a system of record is best declared whole: its --output-schema, the
--record in it, its --identifier fields, and --withhold for the rest. What the agent
reads then holds up no call; a text that a stranger may have written is a handle, which
the agent may pass on as a whole argument. docs/tools.md says more.

With --policy FILE the gate runs the policy in the file; see hearsay gate vet. A flag
says what a tool is, or refuses it: it never lifts what the file asks. Decisions name
the policy, and after a "+" the tools that --never refuses.

A call that cannot be undone and was done is held when the agent makes it again, unless
--repeatable TOOL says that it may be repeated; of a tool that no flag names it is made,
with a note. A held call is answered at once, and the answer names it (hearsay call show). With
--fires-when-free TOOL the proxy makes it once its rows are verified, within a quarter
of an hour; the agent gets the result when it makes the same call again, which waits
for it. To cancel that call is to take it back.

With --pins FILE the tools of CMD are what they were at the first start, which prints
them: name, description, schemas and annotations. A tool that differs at a later start is
not offered until you have seen the difference and accepted it (hearsay mcp pin).

Resources and prompts of the server are not passed. CMD does not get the environment
variables that begin with HEARSAY_.`,
		Example: "  hearsay mcp proxy -store sqlite:agent.db --read-only search -- some-server --stdio\n" +
			"  hearsay mcp proxy -store sqlite:agent.db --only-source --read-only crm \\\n" +
			"    --authoritative crm:/email=billing.email@/name --sink mail:/to -- some-server",
	}
	store := addStoreFlags(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(f.effects[gate.ReadOnly], "read-only", nil, "a tool that changes nothing (may be repeated, like every flag that names a tool)")
	flags.StringArrayVar(f.effects[gate.StateChanging], "state-changing", nil, "a tool whose effect can be put back")
	flags.StringArrayVar(f.effects[gate.Irreversible], "irreversible", nil, "a tool whose effect cannot be undone")
	flags.StringArrayVar(&f.never, "never", nil, "a tool that is refused, whatever its inputs")
	flags.StringArrayVar(&f.parks, "fires-when-free", nil, "a --state-changing or --read-only tool whose held call is made by itself once its rows are verified")
	flags.StringArrayVar(&f.repeatable, "repeatable", nil, "an --irreversible tool whose same call may be made again after it was done; without it, such a call is held")
	flags.StringArrayVar(&f.blast, "blast-radius", nil, "TOOL=RADIUS, how far a call may reach: tenant, principal or one_object; without one, the outside world")
	flags.StringVar(&f.policy, "policy", "", "policy file that the gate runs (docs/policy.md); without one, every tool runs as the flags declare it")
	flags.StringVar(&f.approvers, "trusted-keys", "", "file of trusted public keys: who may approve a held call (or HEARSAY_TRUSTED_KEYS); without it no approval counts")
	flags.StringArrayVar(&f.sinks, "sink", nil, "TOOL:/POINTER, an argument where the harm of a call is decided; without one, every argument is")
	flags.StringArrayVar(&f.optional, "optional-sink", nil, "TOOL:/POINTER, a --sink that a call may leave out; without it, a call that leaves it out is judged as if no sink was declared")
	flags.StringArrayVar(&f.authoritative, "authoritative", nil, "TOOL:/FIELD=PREDICATE@/SUBJECT, a field of the output that is the system of record; the subject is an argument, or several: @/FROM,/TO")
	flags.StringArrayVar(&f.records, "record", nil, "TOOL:/FIELD=PREDICATE@/SUBJECT, a part of the output, TOOL:=… for all of it, that is a record of the system of record, believed as far as --output-schema closes it; without a subject it is the principal's")
	flags.StringArrayVar(&f.schemas, "output-schema", nil, "TOOL=FILE, the JSON Schema of the output, which you vouch for; a --record wants it, and the server's own does not do")
	flags.StringArrayVar(&f.operators, "operator-text", nil, "TOOL:/FIELD, a text in a --record that nobody but whoever runs the system writes; a step * is any element")
	flags.StringArrayVar(&f.identifiers, "identifier", nil, "TOOL:/FIELD, an id that the system assigned; a step * is any element")
	flags.StringArrayVar(&f.withheld, "withhold", nil, "a tool of whose output the agent sees only what is declared; a handle stands for the rest")
	flags.StringArrayVar(&f.limits, "answer-limit", nil, fmt.Sprintf("TOOL=BYTES, the most of an answer that the agent is shown, up to %d; without one, %d", agent.MaxShown, agent.DefaultAnswerLimit))
	flags.StringArrayVar(&f.systems, "system-of-record", nil, "TOOL=ID, the system that the tool reads; tools of one system are one source")
	flags.StringArrayVar(&f.computed, "computed", nil, "TOOL:/POINTER=KIND or KIND<=NUMBER, an argument that the agent may compute: amount or schedule")
	flags.StringArrayVar(&f.fixed, "fixed", nil, "TOOL:/POINTER=VALUE, the one value in which an argument that is no subject leaves authoritative fields what they are")
	flags.StringArrayVar(&f.sources, "source", nil, "TOOL:/POINTER, an argument that names the document a call reads; the rows of its answer carry the name, and can be revoked by it")
	flags.StringArrayVar(&f.sourceFields, "source-field", nil, "TOOL:/FIELD, a field of the output that names the document it is from")
	flags.StringArrayVar(&f.sensitivity, "sensitivity", nil, "TOOL=LEVEL or TOOL:/FIELD=LEVEL, how secret the output or a field of it is: public, internal, confidential or secret; without one, as its --ceiling, and internal at least")
	flags.StringArrayVar(&f.ceilings, "ceiling", nil, "TOOL=LEVEL, how secret what feeds a call may be; without one, internal")
	flags.StringVar(&f.prefix, "prefix", "", "what stands before the name of each tool, as in crm_, for an agent with several servers; policies and the audit know the tool by the whole name, flags by the server's")
	flags.StringVar(&f.server, "server", "", serverUsage)
	flags.StringVar(&f.pins, "pins", "", "file that says what the server's tools are to be, made at the first start; a tool that differs is not offered (hearsay mcp pin)")
	flags.BoolVar(&f.requirePin, "require-pin", false, "refuse a server whose tools are not in --pins")
	flags.BoolVar(&f.onlySource, "only-source", false, "the agent reads nothing but its user, its operator and this proxy")
	flags.StringVar(&f.lineageKeys, "lineage-keys", "", "believe the lineage tokens of the keys in this file; with --audience")
	flags.StringVar(&f.audience, "audience", "", "the name that lineage tokens for this proxy are made out to")
	flags.StringVar(&f.principal, "principal", "mcp", "whom the agent acts for, in rows and decisions")
	flags.StringVar(&f.listen, "listen", "", "serve streamable HTTP on this local address, such as 127.0.0.1:8765, in place of stdin and stdout")
	cmd.Args = commandWanted
	cmd.RunE = func(cmd *cobra.Command, got []string) error {
		contracts, err := f.contracts()
		if err != nil {
			return err
		}
		if err := local("hearsay mcp proxy", f.listen, "calls the tools"); f.listen != "" && err != nil {
			return err
		}
		if err := (&mcp.Options{Prefix: f.prefix}).Check(); err != nil {
			return usage("hearsay mcp proxy: --prefix: %w", err)
		}
		if f.requirePin && f.pins == "" {
			return usage("hearsay mcp proxy: --require-pin without --pins FILE")
		}
		trusted, err := f.lineage()
		if err != nil {
			return err
		}
		return a.proxy(cmd.Context(), cmd.InOrStdin(), store, &f, contracts, trusted, got)
	}
	return cmd
}

// commandWanted asks for the command of a server behind the flags.
func commandWanted(cmd *cobra.Command, got []string) error {
	if len(got) == 0 || cmd.ArgsLenAtDash() != 0 {
		return usage("%s: want the server's command after --; see %s --help", cmd.CommandPath(), cmd.CommandPath())
	}
	return nil
}

// contracts are the flags, tool by tool.
func (f *proxyFlags) contracts() (mcp.Contracts, error) {
	out := mcp.Contracts{}
	for effect, names := range f.effects {
		for _, name := range *names {
			if _, twice := out[name]; twice {
				return nil, usage("hearsay mcp proxy: %q is given two effects", name)
			}
			out[name] = []agent.Option{agent.Effect(effect)}
		}
	}
	for _, name := range f.never {
		out[name] = append(out[name], nil...) // a tool that the server does not have is a typing error
	}
	for _, name := range f.parks {
		if !slices.Contains(*f.effects[gate.StateChanging], name) && !slices.Contains(*f.effects[gate.ReadOnly], name) {
			return nil, usage("hearsay mcp proxy: --fires-when-free %q: no flag says that it can be put back, and what cannot be undone never fires by itself", name)
		}
		out[name] = append(out[name], agent.FiresWhenFree())
	}
	for _, name := range f.repeatable {
		if !slices.Contains(*f.effects[gate.Irreversible], name) && !slices.Contains(*f.effects[gate.StateChanging], name) {
			return nil, usage("hearsay mcp proxy: --repeatable %q: no flag says that it changes anything", name)
		}
		out[name] = append(out[name], agent.Repeatable())
	}
	for _, s := range f.blast {
		tool, radius, _ := strings.Cut(s, "=")
		var b gate.BlastRadius
		if tool == "" || b.UnmarshalText([]byte(radius)) != nil {
			return nil, usage("hearsay mcp proxy: --blast-radius %q: want TOOL=RADIUS, one of outside_world, tenant, principal, one_object", s)
		}
		out[tool] = append(out[tool], agent.BlastRadius(b))
	}
	for _, s := range f.sinks {
		tool, pointer, ok := strings.Cut(s, ":")
		if !ok || tool == "" || !strings.HasPrefix(pointer, "/") {
			return nil, usage("hearsay mcp proxy: --sink %q: want TOOL:/POINTER", s)
		}
		out[tool] = append(out[tool], agent.Sinks(pointer))
	}
	for _, s := range f.optional {
		tool, pointer, ok := strings.Cut(s, ":")
		if !ok || tool == "" || !strings.HasPrefix(pointer, "/") {
			return nil, usage("hearsay mcp proxy: --optional-sink %q: want TOOL:/POINTER", s)
		}
		out[tool] = append(out[tool], agent.Optional(pointer))
	}
	for _, s := range f.authoritative {
		tool, rest, ok := strings.Cut(s, ":")
		field, rest, ok2 := strings.Cut(rest, "=")
		predicate, subject, ok3 := strings.Cut(rest, "@")
		subjects := strings.Split(subject, ",")
		if !ok || !ok2 || !ok3 || tool == "" || predicate == "" || !strings.HasPrefix(field, "/") ||
			slices.ContainsFunc(subjects, func(p string) bool { return !strings.HasPrefix(p, "/") }) {
			return nil, usage("hearsay mcp proxy: --authoritative %q: want TOOL:/FIELD=PREDICATE@/SUBJECT", s)
		}
		out[tool] = append(out[tool], agent.Authoritative(field, predicate, subjects[0], subjects[1:]...))
	}
	for _, s := range f.fixed {
		tool, rest, ok := strings.Cut(s, ":")
		pointer, value, ok2 := strings.Cut(rest, "=")
		if !ok || !ok2 || tool == "" || !strings.HasPrefix(pointer, "/") {
			return nil, usage("hearsay mcp proxy: --fixed %q: want TOOL:/POINTER=VALUE", s)
		}
		out[tool] = append(out[tool], agent.Fixed(pointer, value))
	}
	return out, errors.Join(f.facts(out), f.disclosures(out))
}

// facts are the flags that say how far an output is believed, and what may be computed.
func (f *proxyFlags) facts(out mcp.Contracts) error {
	wrong := func(flag, s, want string) error {
		return usage("hearsay mcp proxy: --%s %q: want %s", flag, s, want)
	}
	for _, s := range f.schemas {
		tool, file, ok := strings.Cut(s, "=")
		if !ok || tool == "" || file == "" {
			return wrong("output-schema", s, "TOOL=FILE")
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return usage("hearsay mcp proxy: --output-schema: %w", err)
		}
		schema, err := agent.ReadSchema(text)
		if err != nil {
			return usage("hearsay mcp proxy: --output-schema %s: %w", file, err)
		}
		out[tool] = append(out[tool], agent.OutputSchema(schema))
	}
	for _, s := range f.records {
		tool, rest, ok := strings.Cut(s, ":")
		field, rest, ok2 := strings.Cut(rest, "=")
		predicate, subject, about := strings.Cut(rest, "@")
		var subjects []string
		if about {
			subjects = strings.Split(subject, ",")
		}
		if !ok || !ok2 || tool == "" || predicate == "" || field != "" && !strings.HasPrefix(field, "/") ||
			slices.ContainsFunc(subjects, func(p string) bool { return !strings.HasPrefix(p, "/") }) {
			return wrong("record", s, "TOOL:/FIELD=PREDICATE@/SUBJECT")
		}
		out[tool] = append(out[tool], agent.Record(field, predicate, subjects...))
	}
	for flag, of := range map[string]struct {
		given  []string
		option func(pointer string) agent.Option
	}{
		"operator-text": {f.operators, func(p string) agent.Option { return agent.WrittenByOperator(p) }},
		"identifier":    {f.identifiers, agent.Identifier},
	} {
		for _, s := range of.given {
			tool, pointer, ok := strings.Cut(s, ":")
			if !ok || tool == "" || !strings.HasPrefix(pointer, "/") {
				return wrong(flag, s, "TOOL:/FIELD")
			}
			out[tool] = append(out[tool], of.option(pointer))
		}
	}
	for _, tool := range f.withheld {
		out[tool] = append(out[tool], agent.Withheld())
	}
	for _, s := range f.limits {
		tool, text, ok := strings.Cut(s, "=")
		bytes, err := strconv.Atoi(text)
		if !ok || tool == "" || err != nil || bytes < 1 || bytes > agent.MaxShown {
			return wrong("answer-limit", s, fmt.Sprintf("TOOL=BYTES, 1 to %d", agent.MaxShown))
		}
		out[tool] = append(out[tool], agent.AnswerLimit(bytes))
	}
	for _, s := range f.systems {
		tool, id, ok := strings.Cut(s, "=")
		if !ok || tool == "" || id == "" {
			return wrong("system-of-record", s, "TOOL=ID")
		}
		out[tool] = append(out[tool], agent.SystemOfRecord(id))
	}
	for _, s := range f.computed {
		tool, rest, ok := strings.Cut(s, ":")
		pointer, rest, ok2 := strings.Cut(rest, "=")
		name, most, _ := strings.Cut(rest, "<=")
		var kind gate.Kind
		if !ok || !ok2 || tool == "" || !strings.HasPrefix(pointer, "/") || kind.UnmarshalText([]byte(name)) != nil {
			return wrong("computed", s, "TOOL:/POINTER=amount, or amount<=NUMBER, or schedule")
		}
		out[tool] = append(out[tool], agent.ComputedAtMost(kind, pointer, most))
	}
	return nil
}

// disclosures are the flags that say how secret outputs are, and what they are from.
func (f *proxyFlags) disclosures(out mcp.Contracts) error {
	for flag, of := range map[string]struct {
		given  []string
		option func(...string) agent.Option
	}{"--source": {f.sources, agent.SourceArguments}, "--source-field": {f.sourceFields, agent.SourceFields}} {
		for _, s := range of.given {
			tool, pointer, ok := strings.Cut(s, ":")
			if !ok || tool == "" || !strings.HasPrefix(pointer, "/") {
				return usage("hearsay mcp proxy: %s %q: want TOOL:/POINTER", flag, s)
			}
			out[tool] = append(out[tool], of.option(pointer))
		}
	}
	for _, s := range f.ceilings {
		tool, level, ok := leveled(s)
		if !ok {
			return usage("hearsay mcp proxy: --ceiling %q: want TOOL=LEVEL, one of public, internal, confidential, secret", s)
		}
		out[tool] = append(out[tool], agent.Ceiling(level))
	}
	for _, s := range f.sensitivity {
		place, level, ok := leveled(s)
		tool, pointer, field := strings.Cut(place, ":")
		switch {
		case !ok || tool == "" || field && !strings.HasPrefix(pointer, "/"):
			return usage("hearsay mcp proxy: --sensitivity %q: want TOOL=LEVEL or TOOL:/FIELD=LEVEL, one of public, internal, confidential, secret", s)
		case field:
			out[tool] = append(out[tool], agent.FieldSensitivity(level, pointer))
		default:
			out[tool] = append(out[tool], agent.OutputSensitivity(level))
		}
	}
	return nil
}

// leveled reads PLACE=LEVEL.
func leveled(s string) (place string, level memory.Sensitivity, ok bool) {
	at := strings.LastIndexByte(s, '=')
	if at < 1 || level.UnmarshalText([]byte(s[at+1:])) != nil || level == 0 {
		return "", 0, false
	}
	return s[:at], level, true
}

// rules are the policy of the file, or one under which every tool runs as it is
// declared, with what the flags refuse.
func (f *proxyFlags) rules() (gate.Policy, error) {
	policy := gate.Policy{Name: "mcp-proxy", Version: "1", Declared: true}
	if f.policy != "" {
		b, err := readPolicy(f.policy)
		if err != nil {
			return gate.Policy{}, err
		}
		if policy, err = gate.ParsePolicy(b); err != nil {
			return gate.Policy{}, usage("hearsay mcp proxy: --policy %s: %w", f.policy, err)
		}
	}
	if policy.Tools == nil {
		policy.Tools = map[string]gate.Rule{}
	}
	var never []string
	for _, name := range f.never {
		name = f.prefix + name // a policy knows the whole name
		rule := policy.Tools[name]
		rule.Never, rule.Why = true, cmp.Or(rule.Why, "the operator of the proxy refuses it")
		policy.Tools[name], never = rule, append(never, name)
	}
	if f.policy != "" && len(never) > 0 {
		policy.Version += "+never=" + strings.Join(slices.Compact(slices.Sorted(slices.Values(never))), ",")
	}
	return policy, nil
}

// strangers are the tools that a policy has a rule for and a proxy does not have.
func strangers(policy *gate.Policy, proxy *mcp.Proxy) (names []string) {
	have := proxy.Run().Agent().Tools()
	for _, name := range slices.Sorted(maps.Keys(policy.Tools)) {
		if !slices.ContainsFunc(have, func(d agent.Declaration) bool { return d.Name == name }) {
			names = append(names, name)
		}
	}
	return names
}

// lineage are the keys whose lineage tokens are believed; nil = none are read.
func (f *proxyFlags) lineage() (map[string]ed25519.PublicKey, error) {
	switch {
	case f.lineageKeys == "" && f.audience == "":
		return nil, nil
	case f.lineageKeys == "" || f.audience == "":
		return nil, usage("hearsay mcp proxy: --lineage-keys and --audience go together")
	case f.onlySource:
		return nil, usage("hearsay mcp proxy: --only-source and --lineage-keys are two ways to know the lineage; give one")
	}
	text, err := os.ReadFile(f.lineageKeys)
	if err != nil {
		return nil, usage("hearsay mcp proxy: --lineage-keys: %w", err)
	}
	keys, err := agent.ParseTrusted(text)
	switch {
	case err != nil:
		return nil, usage("hearsay mcp proxy: --lineage-keys %s: %w", f.lineageKeys, err)
	case len(keys) == 0:
		return nil, usage("hearsay mcp proxy: --lineage-keys %s: no key in it", f.lineageKeys)
	}
	return keys, nil
}

// local refuses an address that others than this machine reach: the command asks nobody who
// they are. may is what anyone who reaches it can do.
func local(command, address, may string) error {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usage("%s: --listen %q: want a local address such as 127.0.0.1:8765; anyone who reaches it %s", command, address, may)
	}
	return nil
}

// stderrPatience is how long after its end what a server said last is waited for.
const stderrPatience = 2 * time.Second

// proxy runs until its client, its server or the context ends.
func (a *app) proxy(ctx context.Context, in io.Reader, flags *storeFlags, f *proxyFlags, contracts mcp.Contracts, trusted map[string]ed25519.PublicKey, command []string) (err error) {
	policy, err := f.rules()
	if err != nil {
		return err
	}
	flags.policy = f.policy
	store, err := a.openOrMake(ctx, flags)
	if err != nil {
		return err
	}
	defer store.Close()
	logger := slog.New(slog.NewTextHandler(a.talk, nil))
	asks := &gate.Options{Logger: logger, Unattended: true}
	if path := cmp.Or(f.approvers, a.getenv("HEARSAY_TRUSTED_KEYS")); path != "" {
		keys, err := confirm.LoadKeyring(path)
		if err != nil {
			return fmt.Errorf("trusted keys: %w", err)
		}
		asks.Approvals = keys
	}
	g, err := gate.New(store, policy, asks)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	starting, give := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("the server did not start within %s", startWithin))
	defer give()
	changes := make(chan struct{}, 1)
	session, err := mcp.Dial(starting, a.child(command), func() {
		select {
		case changes <- struct{}{}:
		default: // it is known already
		}
	})
	if err != nil {
		return err
	}
	defer session.Close() // its error is how the server exited, after the last answer
	options := &mcp.ProxyOptions{Contracts: contracts, Principal: f.principal, Server: serverOf(f.server, command), Prefix: f.prefix, Pins: a.pinsOf(f), OnlySource: f.onlySource, Kinds: policy.Kinds(), Logger: logger}
	if trusted != nil {
		if options.Tokens, err = agent.NewTokens(store, agent.TokenOptions{Audience: f.audience, Trusted: trusted}); err != nil {
			return usage("hearsay mcp proxy: %w", err)
		}
	}
	var declared *agent.DeclarationError
	proxy, err := mcp.NewProxy(starting, session, store, g, options)
	switch {
	case errors.As(err, &declared) && flagOf[declared.Field] != "":
		return usage("hearsay mcp proxy: --%s %s: %s: %s", flagOf[declared.Field], declared.Tool, oneLine(declared.Pointer, maxMessage), oneLine(declared.Text, maxMessage))
	case errors.Is(err, mcp.ErrNoTool):
		return usage("hearsay mcp proxy: %w", err)
	case errors.Is(err, mcp.ErrUnpinned):
		return fail(exitNo, "%w", err).with("Look at the tools and accept them: " + pinCommand(f.pins, f.server, "", command))
	case err != nil:
		return err
	}
	if names := proxy.Undeclared(); len(names) > 0 {
		logger.Warn("tools that no flag names count as irreversible", "tools", oneLine(strings.Join(names, ", "), maxMessage))
	}
	if f.pins == "" {
		logger.Warn("the server's tools are not pinned: whether they are others at the next start is not noticed (--pins FILE)")
	}
	if d := proxy.Differences(); len(d) > 0 {
		logger.Warn("tools of the server are not those that were pinned, and are not offered", "tools", oneLine(differing(d), maxMessage), "see", "hearsay mcp pin")
	}
	if names := strangers(&policy, proxy); len(names) > 0 {
		logger.Warn("the policy has rules for tools that the server does not have", "tools", oneLine(strings.Join(names, ", "), maxMessage))
	}
	if !f.onlySource && trusted == nil {
		logger.Warn("only read-only tools will run: what else the agent reads is not known (--only-source)")
	}

	go recheck(ctx, proxy, changes, logger)
	ended := make(chan struct{})
	go func() {
		_ = session.Wait() // how it ended is said below
		close(ended)       // before the cancel, which would else be taken for a signal
		cancel()
	}()
	defer func() { session.Close(); <-ended }()
	defer proxy.Close() // first: the session stays open for calls that are being made
	if f.listen != "" {
		err = a.listen(ctx, f.listen, proxy, logger)
	} else {
		err = a.serve(ctx, in, proxy)
	}
	select {
	case <-ended:
		return fail(exitFailed, "the server behind the proxy ended")
	default:
	}
	if errors.Is(err, context.Canceled) {
		return nil // a signal
	}
	return err
}

// child is the way to a server that is started.
func (a *app) child(command []string) *api.CommandTransport {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr, cmd.Env = visible.Writer(a.talk), childEnvironment()
	ownGroup(cmd)                  // a key that interrupts the proxy leaves it the answers
	cmd.WaitDelay = stderrPatience // whoever it started may keep its stderr open
	return &api.CommandTransport{Command: cmd}
}

// flagOf is the flag that declares a field of a tool.
var flagOf = map[string]string{"sink": "sink", "optional": "optional-sink", "authoritative": "authoritative", "subject": "authoritative", "fixed": "fixed", "identifier": "identifier", "record": "record", "operator": "operator-text", "computed": "computed", "system_of_record": "system-of-record",
	"field_sensitivity": "sensitivity", "source_arguments": "source", "source_fields": "source-field"}

// recheck looks at the server's tools whenever it says that they have changed.
func recheck(ctx context.Context, proxy *mcp.Proxy, changes <-chan struct{}, logger *slog.Logger) {
	again := time.NewTimer(0)
	again.Stop()
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
		case <-again.C:
		}
		within, cancel := context.WithTimeout(ctx, startWithin)
		names, err := proxy.Recheck(within)
		cancel()
		tools := oneLine(strings.Join(names, ", "), maxMessage)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			again.Reset(startWithin)
			logger.Warn("the server says that its tools have changed, and does not list them: none is run", "error", oneLine(err.Error(), maxMessage))
		case len(names) > 0:
			logger.Warn("tools of the server have changed, and are not run; look at them and start the proxy again", "tools", tools)
		default:
			logger.Warn("the server says that its tools have changed; start the proxy again to see those that are new")
		}
	}
}

// answerWithin is how long the answers of a closed proxy may take to reach its clients.
const answerWithin = 5 * time.Second

// serve speaks over stdin and stdout until the client closes them. When the context ends,
// the client gets the answers of the calls that are being made; see [mcp.Proxy.Close].
func (a *app) serve(ctx context.Context, in io.Reader, proxy *mcp.Proxy) error {
	server, err := proxy.Server()
	if err != nil {
		return err
	}
	reader, ok := in.(io.ReadCloser)
	if !ok {
		reader = io.NopCloser(in)
	}
	// A signal cuts off no call: proxy.Close says how long it may take.
	client := &answering{Transport: &api.IOTransport{Reader: reader, Writer: unclosed{a.out}}}
	session, err := server.Connect(context.WithoutCancel(ctx), client, nil)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	proxy.Close()
	late := time.NewTimer(answerWithin) // a client that reads no answer keeps nobody here
	defer late.Stop()
	select {
	case <-ended:
		return ctx.Err()
	case <-client.answered(): // a session that is being closed writes no answer
	case <-late.C:
	}
	go session.Close() //nolint:errcheck // ended says when it is closed
	select {
	case <-ended:
	case <-late.C:
	}
	return ctx.Err()
}

// answering is a transport, of one connection, that knows whether every call that was read
// has its answer. It is safe for concurrent use.
type answering struct {
	api.Transport
	api.Connection

	mu   sync.Mutex
	open int           // calls without an answer
	none chan struct{} // closed when there is none; nil = nobody waits
}

func (a *answering) Connect(ctx context.Context) (c api.Connection, err error) {
	a.Connection, err = a.Transport.Connect(ctx)
	return a, err
}

func (a *answering) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := a.Connection.Read(ctx)
	if call, ok := m.(*jsonrpc.Request); ok && call.IsCall() {
		a.count(1)
	}
	return m, err
}

func (a *answering) Write(ctx context.Context, m jsonrpc.Message) error {
	if _, ok := m.(*jsonrpc.Response); ok {
		defer a.count(-1)
	}
	return a.Connection.Write(ctx, m)
}

func (a *answering) count(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open += n; a.open == 0 && a.none != nil {
		close(a.none)
		a.none = nil
	}
}

// answered is closed once no call is without an answer.
func (a *answering) answered() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	none := make(chan struct{})
	if a.none = none; a.open == 0 {
		close(none)
		a.none = nil
	}
	return none
}

// unclosed is a writer that outlives the connection.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// listen serves HTTP until the context ends. Then it sends the answers as serve does.
func (a *app) listen(ctx context.Context, address string, proxy *mcp.Proxy, logger *slog.Logger) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("hearsay mcp proxy: %w", err)
	}
	server := &http.Server{Handler: proxy.Handler(logger), ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintf(a.talk, "listening on http://%s\n", l.Addr())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		proxy.Close()
		within, cancel := context.WithTimeout(context.Background(), answerWithin)
		defer cancel()
		_ = server.Shutdown(within)
		_ = server.Close() // streams to clients never end by themselves
		<-failed
		return ctx.Err()
	}
}

// childEnvironment is what the server behind the proxy gets: keys of the store are
// not for it.
func childEnvironment() []string {
	env := []string{} // nil would be all of it
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HEARSAY_") {
			env = append(env, v)
		}
	}
	return env
}
