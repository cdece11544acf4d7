package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

func env(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(k string) string { return m[k] }
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "verifiers.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const secret = "sk-never-print-this"

func TestHalfAConfigurationIsRefused(t *testing.T) {
	store := []string{"-store", "sqlite:x.db"}
	var many strings.Builder
	for i := range maxShares + 1 {
		fmt.Fprintf(&many, "n%d=1,", i)
	}
	for _, c := range []struct {
		name string
		args []string
		env  func(string) string
		say  string
	}{
		{"no store", []string{"-http", "off"}, env(), "-store is missing"},
		{"another store", []string{"-store", "mysql://u:" + secret + "@h/db"}, env(), "want sqlite:PATH"},
		{"a bare path", []string{"-store", "x.db"}, env(), "want sqlite:PATH"},
		{"no path", []string{"-store", "sqlite:"}, env(), "needs a path"},
		{"a Redis URL that is none", append(store, "-redis", "localhost:6379/"+secret), env(), "want redis://"},
		{"a Redis URL of the environment that is none", store, env("HEARSAY_REDIS", "http://"+secret), "want redis://"},
		{"a queue without a weight", append(store, "-queues", "a=1,b"), env(), `-queues: "b" has no weight`},
		{"a queue of weight 0", append(store, "-queues", "a=1,b=0"), env(), `-queues: the weight of "b" is "0", want 1 to 100`},
		{"a queue of a negative weight", append(store, "-queues", "a=-1"), env(), `-queues: the weight of "a"`},
		{"a queue of too much weight", append(store, "-queues", "a=101"), env(), `-queues: the weight of "a"`},
		{"a weight that is no number", append(store, "-queues", "a=many"), env(), `-queues: the weight of "a" is "many"`},
		{"a queue that is there twice", append(store, "-queues", "a=1,b=2,a=3"), env(), `-queues: "a" is there twice`},
		{"a queue with a blank before its name", append(store, "-queues", "a=1, b=2"), env(), `-queues: " b" is no name`},
		{"a queue whose name is no text", append(store, "-queues", "a\xff=1"), env(), "is no name of a namespace"},
		{"a queue whose name has a control character", append(store, "-queues", "a\x01=1"), env(), "is no name of a namespace"},
		{"queues that end in a comma", append(store, "-queues", "a=1,"), env(), `-queues: "" has no weight`},
		{"queues of the environment that are none", store, env("HEARSAY_QUEUES", "a"), `-queues: "a" has no weight`},
		{"queues beside a namespace", append(store, "-queues", "a=1", "-namespace", "b"), env(), "-queues and -namespace: want one of them"},
		{"queues beside a namespace of the environment", append(store, "-queues", "a=1"), env("HEARSAY_NAMESPACE", "b"), "-queues and -namespace: want one of them"},
		{"more queues than one worker can look after", append(store, "-queues", strings.TrimSuffix(many.String(), ",")), env(), "-queues: 101 namespaces"},
		{"spans to somewhere else", append(store, "-trace", "jaeger"), env(), "-trace \"jaeger\": want off, stdout or otlp"},
		{"spans of the environment to somewhere else", store, env("OTEL_TRACES_EXPORTER", "zipkin"), "OTEL_TRACES_EXPORTER"},
		{"a collector of another protocol", append(store, "-trace", "otlp"), env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), `OTEL_EXPORTER_OTLP_PROTOCOL "grpc": want http/protobuf or http/json`},
		{"an address without a port", append(store, "-http", "127.0.0.1"), env(), "want HOST:PORT"},
		{"an address beyond this machine", append(store, "-http", "0.0.0.0:8787"), env(), "-http-insecure-bind"},
		{"every address", append(store, "-http", ":8787"), env(), "-http-insecure-bind"},
		{"every address of IPv6", append(store, "-http", "[::]:8787"), env(), "-http-insecure-bind"},
		{"a name beyond this machine", append(store, "-http", "worker.example:8787"), env(), "beyond this machine"},
		{"a verifier without a predicate", append(store, "-verifier-http", "crm=http://127.0.0.1/f"), env(), "predicates: missing"},
		{"a verifier without a URL", append(store, "-verifier-http", "crm="), env(), "url: missing"},
		{"a verifier without a name", append(store, "-verifier-http", "=http://h/,predicate=p"), env(), "NAME=URL"},
		{"a verifier that is only a URL", append(store, "-verifier-http", "http://u:"+secret+"@h/"), env(), "NAME=URL"},
		{"a verifier with an unknown key", append(store, "-verifier-http", "crm=http://h/,predicat=p"), env(), `"predicat": no such key`},
		{"a verifier with a part that is no key", append(store, "-verifier-http", "crm=http://h/,p"), env(), "key=value"},
		{"a verifier with a password in the URL", append(store, "-verifier-http", "crm=https://u:"+secret+"@h/,predicate=p"), env(), "user name or password"},
		{"a verifier of another scheme", append(store, "-verifier-http", "crm=ftp://h/,predicate=p"), env(), "want http://HOST"},
		{"a verifier with a rank it cannot have", append(store, "-verifier-http", "crm=http://h/,predicate=p,rank=user"), env(), "rank"},
		{"a verifier with an unknown cardinality", append(store, "-verifier-http", "crm=http://h/,predicate=p,cardinality=one"), env(), "cardinality"},
		{"a verifier with an unknown comparison", append(store, "-verifier-http", "crm=http://h/,predicate=p,compare=close"), env(), "compare"},
		{"a verifier with a timeout that is none", append(store, "-verifier-http", "crm=http://h/,predicate=p,timeout=5"), env(), "timeout"},
		{"a verifier whose token is not there", append(store, "-verifier-http", "crm=https://h/,predicate=p,token_env=CRM"), env(), `no "CRM"`},
		{"a token in clear text", append(store, "-verifier-http", "crm=http://crm.example/,predicate=p,token_env=CRM"), env("CRM", secret), "clear text"},
		{"two verifiers of one name", append(store, "-verifier-http", "crm=http://h/,predicate=p", "-verifier-http", "CRM=http://h/,predicate=q"), env(), "two verifiers"},
		{"a model without its family", append(store, "-model", "m", "-model-base-url", "http://127.0.0.1/v1"), env(), "-model-family missing"},
		{"a model without its server", append(store, "-model", "m", "-model-family", "f"), env(), "-model-base-url missing"},
		{"a family without a model", append(store, "-model-family", "f"), env(), "-model-base-url and -model missing"},
		{"a key without a model", store, env("HEARSAY_MODEL_KEY", secret), "HEARSAY_MODEL_KEY is set"},
		{"a key by flag", append(store, "-model-key", secret), env(), "HEARSAY_MODEL_KEY instead"},
		{"a key for a model in clear text", append(store, "-model", "m", "-model-family", "f", "-model-base-url", "http://far.example/v1"), env("HEARSAY_MODEL_KEY", secret), "clear text"},
		{"a negative budget", append(store, "-budget", "-1"), env(), "-budget"},
		{"a tick of nothing", append(store, "-tick", "0s"), env(), "-tick"},
		{"a verdict that stands for nothing", append(store, "-verdict-lifetime", "0s"), env(), "-verdict-lifetime"},
		{"a concurrency of nothing", append(store, "-concurrency", "0"), env(), "-concurrency"},
		{"a sweep without a pause", append(store, "-sweep-every", "0s"), env(), "-sweep-every"},
		{"a sweep that is no duration", append(store, "-sweep-every", "soon"), env(), "sweep-every"},
		{"a variable that is no duration", store, env("HEARSAY_SWEEP_EVERY", "soon"), "HEARSAY_SWEEP_EVERY"},
		{"a deployment with a very long name", append(store, "-deployment", strings.Repeat("x", maxDeployment+1)), env(), "-deployment"},
		{"a word that ends before the next", append(store, "-publish-every", "9h"), env(), "-publish-every"},
		{"a negative drain", append(store, "-drain", "-1s"), env(), "-drain"},
		{"another log format", append(store, "-log-format", "xml"), env(), "text or json"},
		{"another log level", append(store, "-log-level", "loud"), env(), "-log-level"},
		{"an unknown flag", append(store, "-bogus"), env(), "-bogus: no such flag"},
		{"an argument", append(store, "start"), env(), "unexpected argument"},
		{"a file that is not there", append(store, "-config", "none.json"), env(), "-config"},
		{"an unknown field of the file", append(store, "-config", file(t, `{"https":[]}`)), env(), ".https: no such field"},
		{"an unknown field of a verifier", append(store, "-config", file(t, `{"http":[{"name":"a","url":"http://h/","predicates":["p"],"ranks":"tool"}]}`)), env(), "http[0].ranks: no such field"},
		{"a field of a verifier twice", append(store, "-config", file(t, `{"http":[{"name":"a","Name":"b","url":"http://h/","predicates":["p"]}]}`)), env(), "http[0].Name: given twice"},
		{"a field of the wrong type", append(store, "-config", file(t, `{"http":[{"name":7}]}`)), env(), "http[0].name: a JSON number"},
		{"a verifier of the file without a predicate", append(store, "-config", file(t, `{"http":[{},{"name":"a","url":"http://h/"}]}`)), env(), "http[1].predicates: missing"},
		{"an empty predicate", append(store, "-config", file(t, `{"http":[{"name":"a","url":"http://h/","predicates":[" "]}]}`)), env(), "one of them is empty"},
		{"a model of the file without its family", append(store, "-config", file(t, `{"models":[{"name":"a","base_url":"http://h/v1","model":"m"}]}`)), env(), "models[0].family: missing"},
		{"a model of the file whose key is not there", append(store, "-config", file(t, `{"models":[{"name":"a","base_url":"https://h/v1","model":"m","family":"f","key_env":"K"}]}`)), env(), `no "K"`},
		{"a file that goes on", append(store, "-config", file(t, `{} {}`)), env(), "something follows"},
		{"a file that is no JSON", append(store, "-config", file(t, `http: []`)), env(), "-config"},
	} {
		t.Run(c.name+" is refused", func(t *testing.T) {
			var talk strings.Builder
			if code := run(t.Context(), c.args, c.env, &talk, &talk); code != exitUsage {
				t.Errorf("exit %d, want %d", code, exitUsage)
			}
			if !strings.Contains(talk.String(), c.say) {
				t.Errorf("%q does not say %q", talk.String(), c.say)
			}
			if strings.Contains(talk.String(), secret) {
				t.Errorf("a secret was printed: %s", talk.String())
			}
		})
	}
	t.Run("all that is wrong is said at once", func(t *testing.T) {
		_, err := parse([]string{"-http", ":1", "-concurrency", "0"}, env(), &strings.Builder{})
		var problems *usageError
		if !errors.As(err, &problems) || len(problems.problems) != 3 {
			t.Errorf("%v", err)
		}
	})
}

func TestConfiguration(t *testing.T) {
	t.Run("a flag wins over the environment", func(t *testing.T) {
		c, err := parse([]string{"-store", "sqlite:flag.db", "-concurrency", "3"}, env("HEARSAY_STORE", "sqlite:env.db", "HEARSAY_TENANT", "acme", "HEARSAY_NAMESPACE", "team", "HEARSAY_CONCURRENCY", "5"), nil)
		if err != nil || c.store != "sqlite:flag.db" || c.tenant != "acme" || len(c.shares) != 1 || c.shares[0] != (share{"team", 1}) || c.concurrency != 3 || c.http != defaultHTTP {
			t.Errorf("%+v %v", c, err)
		}
	})
	t.Run("queues are namespaces with weights, and a name may hold an equals sign or be empty", func(t *testing.T) {
		c, err := parse([]string{"-store", "sqlite:x", "-queues", "team=3,a=b=2,=1"}, env("HEARSAY_QUEUES", "else=1"), nil)
		if err != nil || !slices.Equal(c.shares, []share{{"team", 3}, {"a=b", 2}, {"", 1}}) || !c.named() {
			t.Errorf("%+v %v", c, err)
		}
	})
	t.Run("without queues and namespace the rows of no namespace are served", func(t *testing.T) {
		c, err := parse([]string{"-store", "sqlite:x"}, env(), nil)
		if err != nil || !slices.Equal(c.shares, []share{{"", 1}}) || c.named() {
			t.Errorf("%+v %v", c, err)
		}
	})
	t.Run("a verifier by flag has all that a file can say", func(t *testing.T) {
		c, err := parse([]string{"-store", "sqlite:x", "-verifier-http",
			"crm=https://crm.example/fact?v=2,predicate=Billing.Email,predicate=vat,rank=primary_source,group=doc:7,cardinality=functional,compare=exact,timeout=3s,token_env=CRM"}, env("CRM", secret), nil)
		if err != nil || len(c.roster.HTTP) != 1 {
			t.Fatalf("%v", err)
		}
		s := c.roster.HTTP[0]
		if s.Name != "crm" || s.URL.Query().Get("v") != "2" || len(s.Predicates) != 2 || s.Rank != memory.RankPrimarySource || s.Group != "doc:7" ||
			s.Cardinality != memory.CardinalityFunctional || s.Compare == nil || s.Timeout != 3*time.Second || s.Token != secret {
			t.Errorf("%+v", s)
		}
	})
	t.Run("a file holds several verifiers", func(t *testing.T) {
		path := file(t, `{"http":[{"name":"crm","url":"http://127.0.0.1:1/f","predicates":["*"],"token_env":"CRM"},{"name":"erp","url":"https://h/","predicates":["vat"]}],
			"models":[{"name":"second","base_url":"http://127.0.0.1:2/v1","model":"m","family":"f","timeout":"30s"}]}`)
		c, err := parse([]string{"-store", "sqlite:x", "-config", path}, env("CRM", secret), nil)
		if err != nil || len(c.roster.HTTP) != 2 || len(c.roster.Models) != 1 || c.roster.Models[0].Timeout != 30*time.Second || c.roster.HTTP[1].Rank != memory.RankTool {
			t.Errorf("%+v %v", c, err)
		}
	})
	t.Run("each variable is named after its flag", func(t *testing.T) {
		for name, variable := range environment {
			if want := "HEARSAY_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")); variable != want {
				t.Errorf("-%s has %s, want %s", name, variable, want)
			}
			_, err := parse(nil, env(variable, "\x00"), nil)
			if err == nil || strings.Contains(err.Error(), "no such flag") {
				t.Errorf("%s stands for no flag: %v", variable, err)
			}
		}
	})
	t.Run("loopback in any form is no risk", func(t *testing.T) {
		for _, addr := range []string{"localhost:0", "[::1]:0", "127.0.0.53:0", "off"} {
			if _, err := parse([]string{"-store", "sqlite:x", "-http", addr}, env(), nil); err != nil {
				t.Errorf("%s: %v", addr, err)
			}
		}
	})
	t.Run("an open address can be asked for", func(t *testing.T) {
		if _, err := parse([]string{"-store", "sqlite:x", "-http", "0.0.0.0:8787", "-http-insecure-bind"}, env(), nil); err != nil {
			t.Error(err)
		}
	})
	t.Run("help names each flag, the file and the exit codes", func(t *testing.T) {
		var talk strings.Builder
		if _, err := parse([]string{"--help"}, env(), &talk); !errors.Is(err, flag.ErrHelp) {
			t.Error(err)
		}
		for _, want := range []string{"-store", "-verifier-http", "-http-insecure-bind", `"predicates"`, "HEARSAY_MODEL_KEY", "Exit codes"} {
			if !strings.Contains(talk.String(), want) {
				t.Errorf("help does not say %q", want)
			}
		}
	})
}
