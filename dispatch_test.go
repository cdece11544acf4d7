package hearsay_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryWayToAToolIsListed enumerates, in the source of this module and of the
// libraries that have an adapter, every place where a tool is reached and every
// place where something that reaches one can enter. A place that is not listed fails
// the test, and so does a line that stands for none: whoever adds one says how it is
// gated, and tests it where the line says.
func TestEveryWayToAToolIsListed(t *testing.T) {
	const (
		lc     = "github.com/tmc/langchaingo"
		oai    = "github.com/sashabaranov/go-openai"
		sdk    = "github.com/modelcontextprotocol/go-sdk"
		ours   = module + "/agent"
		gated  = "gated: "
		ground = "reaches no tool: "
	)
	all := load(t, module+"/agent/...")
	for name, c := range map[string]struct {
		find  func(p *source) []string
		in    func(path string) bool
		known map[string]string
	}{
		"where this module calls the function inside a tool": {usesOf(ours, "Tool", "call"), under(module), map[string]string{
			"agent.safely": "after the gate: TestNoCallWithoutAPermit and all others", "agent.Func": "sets it", "agent.Raw": "sets it",
			"agent.(*Tool).seal": "is there one", "agent.(*Run).decide": "is there one",
		}},
		"where this module makes a run": {composites(ours, "Run"), under(module), map[string]string{
			"agent.(*Agent).Start": "known and empty: all others begin here", "agent.(*Run).Fork": "TestI8AForkCannotNarrow",
		}},
		"where a run is begun": {callsOf(ours, "Start"), under(module), map[string]string{
			"agent.(*Agent).Resume": "TestI8ASavedRunGoesOnAsItWas", "agent.(*Agent).Handler": "TestLineageCrossesHTTP",
			"agent.Delegate": "TestI8NoRowSlipsPastTheGate", "agent/mcp.each": "TestLineageCrossesMCP", "agent/mcp.NewProxy": "TestAProxyGatesAnAgentThatItDoesNotOwn",
		}},
		"where this module answers a call of a model": {callsOf(ours, "Call", "CallWithID"), under(module), map[string]string{
			"agent.(*Run).Call": "is CallWithID", "agent/langchain.(*tool).Call": "TestAnInputBecomesArguments",
			"agent/openai.call": "TestEveryCallIsAnsweredOnceAndInOrder", "agent/mcp.(*desk).answer": "TestServeTakesToolsCallOver",
		}},
		"where this module makes parked calls": {callsOf(ours, "Resume", "ResumeCall"), under(module), map[string]string{
			"agent.(*Run).Resume": "is ResumeCall", "agent/mcp.(*kept).make": "TestAParkedCallComesBackOverMCP",
			"agent/openai.(*Chat).Resume": "TestTheResultOfAParkedCallReachesTheModel", "agent/langchain.Resume": "TestTheResultOfAParkedCallReachesTheExecutor",
		}},
		"where this module calls a tool of langchaingo":                {callsOf(lc+"/tools", "Call"), under(module), map[string]string{}},
		"where this module asks an agent of langchaingo for its tools": {callsOf(lc+"/agents", "GetTools"), under(module), map[string]string{}},
		"where this module calls a tool of an MCP server": {callsOf(sdk+"/mcp", "CallTool"), under(module), map[string]string{
			"agent/mcp.caller": "the function of a tool, after the gate: TestARunCallsTheToolsOfAServerThroughTheGate",
		}},
		"where langchaingo calls a tool": {callsOf(lc+"/tools", "Call"), under(lc), map[string]string{
			"agents.(*Executor).doAction": gated + "TestTheExecutorRunsGatedTools",
		}},
		"where langchaingo asks an agent for its tools": {callsOf(lc+"/agents", "GetTools"), under(lc), map[string]string{
			"agents.(*Executor).Call": gated + "Gate answers with the run's tools: TestNoWayRoundTheGate",
		}},
		"where a tool enters langchaingo": {surface(lc+"/tools", "Tool"), under(lc), map[string]string{
			"agents.Agent":                   gated + "GetTools, by Gate",
			"agents.Initialize":              gated + "TestEveryAgentOfTheFrameworkIsGated",
			"agents.NewConversationalAgent":  gated + "TestEveryAgentOfTheFrameworkIsGated",
			"agents.NewOneShotAgent":         gated + "TestEveryAgentOfTheFrameworkIsGated",
			"agents.NewOpenAIFunctionsAgent": gated + "TestEveryAgentOfTheFrameworkIsGated",
			"agents.ConversationalAgent":     gated + "its field, by Gate", "agents.OneShotZeroAgent": gated + "its field, by Gate", "agents.OpenAIFunctionsAgent": gated + "its field, by Gate",
		}},
		"where go-openai has a call of a tool": {fieldsOf(oai, "ToolCall", "FunctionCall"), under(oai), map[string]string{
			"go-openai.ChatCompletionMessage.ToolCalls":              gated + "Answer: TestEveryCallIsAnsweredOnceAndInOrder",
			"go-openai.ChatCompletionMessage.FunctionCall":           "refused: TestWhatIsNoAnswerIsAnError",
			"go-openai.ChatCompletionStreamChoiceDelta.ToolCalls":    gated + "Collect, then Answer: TestACallThatComesInPieces",
			"go-openai.ChatCompletionStreamChoiceDelta.FunctionCall": "refused: TestAStreamThatIsNoAnswerIsAnError",
			"go-openai.SubmitToolOutputs.ToolCalls":                  ground + "assistants run at the server, and Answer takes the calls they ask for",
			"go-openai.StepDetails.ToolCalls":                        ground + "what an assistant's run did, told afterwards",
			"go-openai.ToolCall.Function":                            ground + "a part of a ToolCall",
		}},
		"where go-openai has arguments for a tool": {fieldsNamed("Arguments"), under(oai), map[string]string{
			"go-openai.FunctionCall.Arguments":        gated + "a part of a ToolCall",
			"go-openai.ResponseOutputItem.Arguments":  ground + "there is no adapter for the Responses API; a tool is reached by Run.Call only",
			"go-openai.ResponseStreamEvent.Arguments": ground + "as above",
		}},
		"where go-openai could call back": {callbacks(oai), under(oai), map[string]string{
			"go-openai.ClientConfig.AzureModelMapperFunc": ground + "it maps names of models",
		}},
		"where the MCP library calls the handler of a tool": {callsOfType(sdk+"/mcp", "ToolHandler"), under(sdk), map[string]string{
			"mcp.(*Server).callTool": gated + "behind the middleware of Serve: TestServeTakesToolsCallOver",
		}},
		"where the MCP library names tools/call": {mentions(sdk+"/mcp", "methodCallTool"), under(sdk), map[string]string{
			"mcp.(*ClientSession).CallTool":      gated + "OnlyGated: TestACallPastTheRunIsNotSent",
			"mcp.clientMultiRoundTripMiddleware": gated + "Dial switches it off, and output refuses what it would answer",
			"mcp.serverMultiRoundTripMiddleware": gated + "inside the middleware of Serve, which never goes on with tools/call",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			found := map[string]bool{}
			for path, p := range all {
				if c.in(path) {
					for _, at := range c.find(p) {
						found[at] = true
					}
				}
			}
			for _, at := range slices.Sorted(maps.Keys(found)) {
				if c.known[at] == "" {
					t.Errorf("%s: nobody has said how this is gated", at)
				}
			}
			for at := range c.known {
				if !found[at] {
					t.Errorf("%s is listed and is not there any more", at)
				}
			}
		})
	}
}

func under(prefix string) func(string) bool {
	return func(path string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }
}

// source is a package, parsed and type-checked.
type source struct {
	name  string // its path, without that of its module
	pkg   *types.Package
	info  *types.Info
	files []*ast.File
}

// load type-checks the packages of this module that match and of the libraries with
// an adapter that they are built from; the rest is export data.
func load(t *testing.T, pattern string) map[string]*source {
	t.Helper()
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
		Module                  *struct{ Path string }
	}
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module", pattern)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports, wanted := map[string]string{}, []listed{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.Module != nil && slices.Contains([]string{module, "github.com/tmc/langchaingo", "github.com/sashabaranov/go-openai", "github.com/modelcontextprotocol/go-sdk"}, p.Module.Path) {
			wanted = append(wanted, p)
		}
	}
	fset := token.NewFileSet()
	from := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	all := map[string]*source{}
	for _, p := range wanted {
		s := &source{info: &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}, Types: map[ast.Expr]types.TypeAndValue{}}}
		for _, f := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, f), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			s.files = append(s.files, file)
		}
		config := types.Config{Importer: from}
		if s.pkg, err = config.Check(p.ImportPath, fset, s.files, s.info); err != nil {
			t.Fatalf("%s: %v", p.ImportPath, err)
		}
		s.name = strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
		if s.name == "" {
			s.name = filepath.Base(p.ImportPath)
		}
		all[p.ImportPath] = s
	}
	if len(all) < 10 {
		t.Fatalf("only %d packages were read", len(all))
	}
	return all
}

// each calls visit with every node of a package and the function it stands in.
func (s *source) each(visit func(in string, n ast.Node)) {
	for _, f := range s.files {
		for _, d := range f.Decls {
			in := s.name
			if fn, ok := d.(*ast.FuncDecl); ok {
				in = s.name + "." + fn.Name.Name
				if fn.Recv != nil {
					recv := types.ExprString(fn.Recv.List[0].Type)
					if strings.HasPrefix(recv, "*") {
						recv = "(" + recv + ")"
					}
					in = s.name + "." + recv + "." + fn.Name.Name
				}
			}
			ast.Inspect(d, func(n ast.Node) bool { visit(in, n); return true })
		}
	}
}

func is(o types.Object, path, name string) bool {
	return o != nil && o.Name() == name && o.Pkg() != nil && o.Pkg().Path() == path
}

// named reports whether a type is, or is built from, a named type.
func named(t types.Type, path, name string) bool {
	switch t := t.(type) {
	case *types.Named:
		return is(t.Obj(), path, name)
	case *types.Pointer:
		return named(t.Elem(), path, name)
	case *types.Slice:
		return named(t.Elem(), path, name)
	case *types.Array:
		return named(t.Elem(), path, name)
	case *types.Map:
		return named(t.Elem(), path, name) || named(t.Key(), path, name)
	case *types.Chan:
		return named(t.Elem(), path, name)
	case *types.Signature:
		for _, part := range []*types.Tuple{t.Params(), t.Results()} {
			for i := range part.Len() {
				if named(part.At(i).Type(), path, name) {
					return true
				}
			}
		}
	}
	return false
}

// callsOf finds calls of methods that a package declares.
func callsOf(path string, methods ...string) func(*source) []string {
	return func(s *source) (out []string) {
		s.each(func(in string, n ast.Node) {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && s.info.Selections[sel] != nil {
				for _, m := range methods {
					if is(s.info.Selections[sel].Obj(), path, m) {
						out = append(out, in)
					}
				}
			}
		})
		return out
	}
}

// callsOfType finds calls of values of a named function type.
func callsOfType(path, name string) func(*source) []string {
	return func(s *source) (out []string) {
		s.each(func(in string, n ast.Node) {
			if call, ok := n.(*ast.CallExpr); ok && !s.info.Types[call.Fun].IsType() && named(s.info.TypeOf(call.Fun), path, name) {
				if _, isFunc := s.info.TypeOf(call.Fun).(*types.Signature); !isFunc {
					out = append(out, in)
				}
			}
		})
		return out
	}
}

// usesOf finds where a field of a type is used.
func usesOf(path, owner, field string) func(*source) []string {
	return func(s *source) (out []string) {
		s.each(func(in string, n ast.Node) {
			if sel, ok := n.(*ast.SelectorExpr); ok && s.info.Selections[sel] != nil {
				if chosen := s.info.Selections[sel]; is(chosen.Obj(), path, field) && named(chosen.Recv(), path, owner) {
					out = append(out, in)
				}
			}
		})
		return out
	}
}

// mentions finds where a constant is used inside a function.
func mentions(path, name string) func(*source) []string {
	return func(s *source) (out []string) {
		s.each(func(in string, n ast.Node) {
			if id, ok := n.(*ast.Ident); ok && is(s.info.Uses[id], path, name) && in != s.name {
				out = append(out, in)
			}
		})
		return out
	}
}

// composites finds where a value of a type is made.
func composites(path, name string) func(*source) []string {
	return func(s *source) (out []string) {
		s.each(func(in string, n ast.Node) {
			if lit, ok := n.(*ast.CompositeLit); ok && lit.Type != nil {
				if t, isNamed := s.info.TypeOf(lit).(*types.Named); isNamed && is(t.Obj(), path, name) {
					out = append(out, in)
				}
			}
		})
		return out
	}
}

// surface finds what of a package takes or gives a type: functions, and types by
// their fields and methods.
func surface(path, name string) func(*source) []string {
	return func(s *source) (out []string) {
		scope := s.pkg.Scope()
		for _, n := range scope.Names() {
			o := scope.Lookup(n)
			if !o.Exported() || is(o, path, name) {
				continue
			}
			hit := named(o.Type(), path, name) && !is(o, path, name)
			if t, ok := o.Type().(*types.Named); ok {
				hit = false
				if st, ok := t.Underlying().(*types.Struct); ok {
					for i := range st.NumFields() {
						hit = hit || named(st.Field(i).Type(), path, name)
					}
				}
				if it, ok := t.Underlying().(*types.Interface); ok {
					for i := range it.NumMethods() {
						hit = hit || named(it.Method(i).Type(), path, name)
					}
				}
			}
			if hit {
				out = append(out, s.name+"."+n)
			}
		}
		return out
	}
}

// fieldsOf finds the exported fields of exported structs that hold one of some types.
func fieldsOf(path string, holds ...string) func(*source) []string {
	return func(s *source) (out []string) {
		eachField(s, func(owner string, f *types.Var) {
			for _, h := range holds {
				if named(f.Type(), path, h) {
					out = append(out, s.name+"."+owner+"."+f.Name())
				}
			}
		})
		return out
	}
}

// fieldsNamed finds the exported fields of a name.
func fieldsNamed(name string) func(*source) []string {
	return func(s *source) (out []string) {
		eachField(s, func(owner string, f *types.Var) {
			if f.Name() == name {
				out = append(out, s.name+"."+owner+"."+name)
			}
		})
		return out
	}
}

// callbacks finds the exported fields that hold functions.
func callbacks(path string) func(*source) []string {
	return func(s *source) (out []string) {
		if s.pkg.Path() != path {
			return nil
		}
		eachField(s, func(owner string, f *types.Var) {
			if _, ok := f.Type().Underlying().(*types.Signature); ok {
				out = append(out, s.name+"."+owner+"."+f.Name())
			}
		})
		return out
	}
}

func eachField(s *source, visit func(owner string, f *types.Var)) {
	scope := s.pkg.Scope()
	for _, n := range scope.Names() {
		if st, ok := scope.Lookup(n).Type().Underlying().(*types.Struct); ok && ast.IsExported(n) {
			for i := range st.NumFields() {
				if st.Field(i).Exported() {
					visit(n, st.Field(i))
				}
			}
		}
	}
}
