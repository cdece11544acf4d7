package hearsay_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/hearsay-go/hearsay"

// allowance says what a package may import besides the standard library: other packages
// of this module, and third-party modules. A package that is not in the table
// fails the test, and so does a line without a package or a permission that
// nobody uses. Programs (cmd, examples, bench) may import anything.
type allowance struct {
	own     []string
	foreign []string
}

var allowances = map[string]allowance{
	"memory":                     {foreign: []string{"golang.org/x/text"}},
	"memory/admission":           {own: []string{"memory", "memory/admission/restate"}},
	"memory/admission/restate":   {foreign: []string{"golang.org/x/text"}},
	"memory/audit":               {own: []string{"memory", "memory/visible"}, foreign: []string{"github.com/transparency-dev/merkle", "golang.org/x/mod"}},
	"memory/audit/witnesshttp":   {own: []string{"internal/localhttp", "memory", "memory/audit", "memory/reach"}},
	"memory/audit/witnesstest":   {own: []string{"memory", "memory/audit", "memory/keyring", "memory/storetest"}, foreign: []string{"golang.org/x/mod"}},
	"memory/coalesce":            {own: []string{"memory"}},
	"memory/keyring":             {own: []string{"memory"}, foreign: []string{"github.com/tink-crypto/tink-go", "github.com/gofrs/flock", "github.com/hashicorp/golang-lru/v2", "modernc.org/sqlite"}},
	"memory/recall":              {own: []string{"memory"}},
	"memory/reach":               {},
	"memory/redisstore":          {own: []string{"memory", "memory/redisstore/redisurl"}, foreign: []string{"github.com/redis/go-redis"}},
	"memory/redisstore/redisurl": {own: []string{"memory/reach"}, foreign: []string{"github.com/redis/go-redis"}},
	"memory/sqlitestore":         {own: []string{"memory"}, foreign: []string{"modernc.org/sqlite"}},
	"memory/keyring/pgring":      {own: []string{"memory", "memory/keyring"}, foreign: []string{"github.com/jackc/pgx/v5"}},
	"memory/keyring/ringtest":    {own: []string{"memory", "memory/keyring"}},
	"memory/storeurl":            {own: []string{"memory", "memory/keyring", "memory/keyring/pgring", "memory/pgstore", "memory/redisstore", "memory/sqlitestore"}},
	"memory/storetest":           {own: []string{"internal/sample", "memory", "memory/keyring"}, foreign: []string{"pgregory.net/rapid"}},
	"memory/transfer":            {own: []string{"memory", "memory/visible"}},
	"memory/visible":             {},
	"memory/pgstore":             {own: []string{"memory", "memory/reach"}, foreign: []string{"github.com/jackc/pgx/v5"}},
	"memory/storetest/fault":     {own: []string{"gate", "internal/sample", "memory", "memory/audit", "memory/keyring"}},
	"memory/storetest/server":    {},

	"internal/localhttp": {},
	"internal/sample":    {},
	"internal/proxy":     {},
	"internal/ruleoff":   {foreign: []string{"golang.org/x/sync/errgroup"}},
	"internal/teststore": {own: []string{"memory", "memory/pgstore", "memory/redisstore", "memory/sqlitestore", "memory/storetest", "memory/storetest/server"}, foreign: []string{"github.com/jackc/pgx/v5"}},
	"internal/testmain":  {own: []string{"internal/sample"}, foreign: []string{"go.uber.org/goleak", "pgregory.net/rapid"}},

	"gate":         {own: []string{"memory", "memory/recall"}, foreign: []string{"github.com/gowebpki/jcs"}},
	"gate/confirm": {own: []string{"memory"}},

	"verifier":              {own: []string{"memory"}, foreign: []string{"github.com/sony/gobreaker"}},
	"verifier/document":     {own: []string{"memory", "verifier"}},
	"verifier/roster":       {own: []string{"memory", "verifier", "verifier/document", "verifier/secondmodel"}},
	"verifier/secondmodel":  {own: []string{"memory", "verifier"}, foreign: []string{"github.com/sashabaranov/go-openai"}},
	"verifier/verifiertest": {own: []string{"memory", "verifier"}},

	"promotion":            {own: []string{"memory", "verifier"}, foreign: []string{"go.opentelemetry.io/otel", "golang.org/x/sync/errgroup", "golang.org/x/sync/semaphore", "golang.org/x/time/rate"}},
	"promotion/asynqqueue": {own: []string{"memory", "promotion"}, foreign: []string{"github.com/go-redis/redis_rate", "github.com/hibiken/asynq", "github.com/redis/go-redis", "go.opentelemetry.io/otel"}},
	"promotion/localredis": {own: []string{"memory/redisstore/redisurl"}, foreign: []string{"github.com/redis/go-redis", "github.com/alicebob/miniredis"}},

	"agent":           {own: []string{"memory", "memory/admission", "memory/recall", "gate"}, foreign: []string{"github.com/google/jsonschema-go"}},
	"agent/langchain": {own: []string{"agent"}, foreign: []string{"github.com/tmc/langchaingo"}},
	"agent/mcp":       {own: []string{"agent", "gate", "internal/localhttp"}, foreign: []string{"github.com/gofrs/flock", "github.com/google/jsonschema-go", "github.com/modelcontextprotocol/go-sdk"}},
	"agent/openai":    {own: []string{"agent"}, foreign: []string{"github.com/sashabaranov/go-openai"}},
}

// lent are the modules that one program alone may import: what it measures us beside.
var lent = map[string]string{
	"github.com/cedar-policy/cedar-go": "bench/gate",
	"github.com/open-policy-agent/opa": "bench/gate",
}

// programs are the folders whose packages may import anything.
var programs = []string{"cmd", "examples", "bench"}

// TestImportsKeepToTheTable holds design decision 1: every arrow between packages
// points to memory, the gate knows no promotion, the agent has no hand on the
// lever that raises trust, and each third-party library has the fewest importers.
func TestImportsKeepToTheTable(t *testing.T) {
	packages := listPackages(t)
	seen := map[string]bool{}
	checked := 0
	borrowed := map[string]bool{}
	for _, p := range packages {
		for _, imp := range p.Imports {
			for m, program := range lent {
				if imp != m && !strings.HasPrefix(imp, m+"/") {
					continue
				}
				checked++
				borrowed[m] = true
				if p.ImportPath != module+"/"+program {
					t.Errorf("%s may not import %s, only %s may", p.ImportPath, imp, program)
				}
			}
		}
	}
	for m, program := range lent {
		if !borrowed[m] {
			t.Errorf("the table lends %s to %s, which does not import it", m, program)
		}
	}
	for _, p := range packages {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if name == "" || slices.ContainsFunc(programs, func(top string) bool { return name == top || strings.HasPrefix(name, top+"/") }) {
			continue
		}
		allowed, ok := allowances[name]
		if !ok {
			t.Errorf("package %s is not in the table", name)
			continue
		}
		seen[name] = true
		used := map[string]bool{}
		for _, imp := range p.Imports {
			checked++
			switch {
			case imp == module || strings.HasPrefix(imp, module+"/"):
				own := strings.TrimPrefix(strings.TrimPrefix(imp, module), "/")
				if !slices.Contains(allowed.own, own) {
					t.Errorf("%s may not import %s", name, own)
				}
				used[own] = true
			case strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
				at := slices.IndexFunc(allowed.foreign, func(m string) bool { return imp == m || strings.HasPrefix(imp, m+"/") })
				if at < 0 {
					t.Errorf("%s may not import %s", name, imp)
					continue
				}
				used[allowed.foreign[at]] = true
			}
		}
		for _, permission := range slices.Concat(allowed.own, allowed.foreign) {
			if !used[permission] {
				t.Errorf("the table lets %s import %s, which it does not", name, permission)
			}
		}
	}
	for name := range allowances {
		if !seen[name] {
			t.Errorf("the table has a line for %s, which does not exist", name)
		}
	}
	if checked == 0 {
		t.Fatal("no import was checked")
	}
	t.Logf("%d packages, %d imports checked", len(seen), checked)
}

// TestNoAgentDecidesAboutAHeldCall holds design section 6: neither an agent nor an
// adapter reaches, through anything, the package that approves calls and confirms rows,
// or names the verb of the store behind it.
func TestNoAgentDecidesAboutAHeldCall(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Deps \" \"}}", "./agent/...", "./gate", "./promotion/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, line := range lines {
		if deps := strings.Fields(line); slices.Contains(deps, module+"/gate/confirm") {
			t.Errorf("%s reaches gate/confirm", deps[0])
		}
	}
	if len(lines) < 6 {
		t.Fatalf("only %d packages were looked at", len(lines))
	}
	read := 0
	for _, dir := range []string{"agent", "agent/*", "gate", "promotion", "promotion/*"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if read++; strings.Contains(string(text), "MoveHold(") && !strings.HasSuffix(path, "_test.go") {
				t.Errorf("%s calls the store's verb", path)
			}
		}
	}
	if read < 40 {
		t.Fatalf("only %d files were read", read)
	}
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func listPackages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}
