package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/bench/service/workload"
	"github.com/hearsay-go/hearsay/gate"
)

var effects = map[string]gate.Effect{workload.Reads: gate.ReadOnly, workload.Changes: gate.StateChanging, workload.Irreversible: gate.Irreversible}

// kinds are what the numbers of records are, for sums and for typed sinks.
func kinds(w *workload.Workload) map[string][]gate.Kind {
	out := map[string][]gate.Kind{}
	for _, place := range w.Amounts {
		out[place] = []gate.Kind{gate.KindAmount}
	}
	return out
}

// declare makes the options of a tool from its schemas, by rules that know no tool: a read
// is a record about its arguments; a short string with a pattern is an id; an integer or a
// date that a change takes may be computed; the rest of an answer is withheld.
func declare(w *workload.Workload, c workload.Call, in, out *jsonschema.Schema, typed bool) []agent.Option {
	opts := []agent.Option{agent.Effect(effects[c.Effect]), agent.OutputSchema(out), agent.SystemOfRecord(w.Name), agent.Withheld(), agent.ErrorTexts(w.Errors...)}
	ids(out, "", func(p string, length int) { opts = append(opts, agent.IdentifierForm(p, length, "")) })
	if c.Effect == workload.Reads {
		if len(in.Properties) == 0 {
			return append(opts, agent.RecordAbout(w.Name, "", c.Record))
		}
		var subject []string
		for _, name := range slices.Sorted(maps.Keys(in.Properties)) {
			subject = append(subject, "/"+name)
		}
		return append(opts, agent.Record("", c.Record, subject...))
	}
	opts = append(opts, agent.RecordAbout(w.Name, "", "done/"+c.Name)) // what a change answers says no more
	if c.Sets != "" {
		opts = append(opts, agent.Sets("/"+c.Value, c.Sets, "/"+c.Key))
	}
	for name, s := range in.Properties {
		p := "/" + name
		switch {
		case s.Type == "integer":
			opts = append(opts, agent.TypedSink(gate.KindAmount, p), agent.Computed(gate.KindAmount, p))
		case s.Format == "date":
			opts = append(opts, agent.TypedSink(gate.KindSchedule, p), agent.Computed(gate.KindSchedule, p))
		case s.Pattern != "":
			opts = append(opts, agent.TypedSink(gate.KindObjectID, p))
		case s.Type == "string" && len(s.Enum) == 0:
			opts = append(opts, agent.TypedSink(gate.KindSetting, p))
		}
	}
	if typed {
		opts = append(opts, agent.TypedSinks(), agent.WaiveNamed())
	}
	return opts
}

// ids visits the places of ids in a schema.
func ids(s *jsonschema.Schema, at string, visit func(p string, length int)) {
	if s.Type == "string" && s.Pattern != "" && s.MaxLength != nil {
		visit(at, *s.MaxLength)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		ids(s.Properties[name], at+"/"+name, visit)
	}
	if s.Items != nil {
		ids(s.Items, at+"/*", visit)
	}
}

// tools are the calls of a workload over HTTP.
func tools(w *workload.Workload, to poster, typed bool) ([]agent.Tool, error) {
	var out []agent.Tool
	for _, c := range w.Calls {
		in, err := agent.ReadSchema([]byte(`{"type":"object","properties":{` + c.In + `},"additionalProperties":false}`))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		answers, err := agent.ReadSchema([]byte(c.Out))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		in.Required = slices.Sorted(maps.Keys(in.Properties))
		tool := agent.Raw(c.Name, c.Name, in, func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			return to.post(ctx, c.Name, args)
		}, declare(w, c, in, answers, typed && c.Effect != workload.Reads)...)
		if err := tool.Check(); err != nil {
			return nil, err
		}
		out = append(out, tool)
	}
	return out, nil
}

// poster calls a service over HTTP.
type poster struct {
	client *http.Client
	url    string
}

func (p poster) post(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/"+name, bytes.NewReader(args))
	if err != nil {
		return nil, err
	}
	res, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, agent.MaxOutput))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, errors.New(strings.TrimSpace(string(body)))
	}
	return bytes.TrimSpace(body), nil
}
