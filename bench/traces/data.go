package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// set is a folder of offline traces.
type set struct {
	suites    []*suite
	pairs     []pair
	templates map[string]string
}

type suite struct {
	Name       string               `json:"suite"`
	Principal  string               `json:"principal"`
	Rows       map[string]row       `json:"rows"`
	Tasks      []task               `json:"user_tasks"`
	Injections []injection          `json:"injection_tasks"`
	tools      map[string]traceTool // by name
	order      []string             // of the tools
	memory     []row                // what a memory holds before any task
}

type traceTool struct {
	Name   string          `json:"name"`
	About  string          `json:"description"`
	Schema json.RawMessage `json:"parameters"`
	Effect string          `json:"effect"`
	Sinks  []string        `json:"sink_args"`
	Egress bool            `json:"egress"`
}

type row struct {
	ID       string          `json:"id"`
	Kind     string          `json:"kind"`
	Author   string          `json:"author"`
	Origin   string          `json:"origin"`
	Text     string          `json:"text"`
	Fields   json.RawMessage `json:"fields"`
	Vectors  []string        `json:"vectors"`
	Template string          `json:"template"`
	attacked bool            // it shows an attack's text
}

// pending reports whether nobody who may has vouched for the row: it came from a
// third party or from nobody known, or a third party can write into it.
func (r *row) pending() bool {
	return r.Origin != "user" && r.Origin != "system" || len(r.Vectors) > 0
}

type call struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
	Rows []string        `json:"rows"`
}

type task struct {
	ID      string `json:"id"`
	Prompt  string `json:"prompt"`
	Changes bool   `json:"state_changing"`
	Calls   []call `json:"calls"`
}

type injection struct {
	ID       string `json:"id"`
	Goal     string `json:"goal"`
	TextOnly bool   `json:"text_only"`
	Calls    []call `json:"calls"`
}

type pair struct {
	Suite     string   `json:"suite"`
	Task      string   `json:"user_task"`
	Injection string   `json:"injection_task"`
	Vectors   []string `json:"vectors"`
	Exposed   int      `json:"first_exposed_call"`
}

// load reads every suite of a folder: one file for each that pairs.jsonl names.
func load(dir string) (*set, error) {
	s := &set{}
	var (
		tools map[string][]traceTool
		held  map[string][]row
	)
	for name, into := range map[string]any{"tools.json": &tools, "env_rows.json": &held, "attack_templates.json": &s.templates} {
		if err := read(dir, name, into); err != nil {
			return nil, err
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "pairs.jsonl"))
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	by := map[string]*suite{}
	for lines.Scan() {
		var p pair
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("pairs.jsonl, line %d: %w", len(s.pairs)+1, err)
		}
		s.pairs = append(s.pairs, p)
		if by[p.Suite] != nil {
			continue
		}
		one := &suite{tools: map[string]traceTool{}}
		if err := read(dir, p.Suite+".json", one); err != nil {
			return nil, err
		}
		for _, t := range tools[p.Suite] {
			one.tools[t.Name], one.order = t, append(one.order, t.Name)
		}
		one.memory = held[p.Suite]
		by[p.Suite], s.suites = one, append(s.suites, one)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return s, s.check(by)
}

func read(dir, name string, into any) error {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// check refuses a set in which something is named that is not there: a trace that
// reads no row, or calls no tool, would fire nothing and look safe.
func (s *set) check(by map[string]*suite) error {
	if len(s.pairs) == 0 || strings.Count(s.templates[wording], "{goal}") == 0 {
		return fmt.Errorf("no pair, or no attack wording %q", wording)
	}
	for _, one := range s.suites {
		check := func(where string, calls []call) error {
			for _, c := range calls {
				if _, known := one.tools[c.Tool]; !known {
					return fmt.Errorf("%s, %s: no tool %q", one.Name, where, c.Tool)
				}
				for _, id := range c.Rows {
					if _, known := one.Rows[id]; !known {
						return fmt.Errorf("%s, %s: no row %q", one.Name, where, id)
					}
				}
			}
			return nil
		}
		for _, t := range one.Tasks {
			if err := check(t.ID, t.Calls); err != nil {
				return err
			}
		}
		for _, i := range one.Injections {
			if err := check(i.ID, i.Calls); err != nil {
				return err
			}
		}
	}
	for _, p := range s.pairs {
		t, i := by[p.Suite].task(p.Task), by[p.Suite].injection(p.Injection)
		switch {
		case t == nil || i == nil || p.Exposed < 0 || p.Exposed >= len(t.Calls):
			return fmt.Errorf("%s, %s, %s: no such pair", p.Suite, p.Task, p.Injection)
		case !i.TextOnly && len(i.Calls) == 0:
			return fmt.Errorf("%s, %s: an attack without a call", p.Suite, p.Injection)
		}
	}
	return nil
}

// row is a row as a trace shows it, with the attack's text in the place of its
// vectors if there is an attack.
func (s *suite) row(id string, attack *injection, text string) row {
	r := s.Rows[id]
	if attack == nil || len(r.Vectors) == 0 {
		return r
	}
	r.Text, r.attacked = r.Template, true
	for _, v := range r.Vectors {
		r.Text = strings.ReplaceAll(r.Text, "{{"+v+"}}", text)
	}
	return r
}

func (s *suite) attackText(template string, a *injection) string {
	return strings.NewReplacer("{goal}", a.Goal, "{user}", s.Principal, "{model}", "the model").Replace(template)
}

func (s *suite) task(id string) *task {
	for i := range s.Tasks {
		if s.Tasks[i].ID == id {
			return &s.Tasks[i]
		}
	}
	return nil
}

func (s *suite) injection(id string) *injection {
	for i := range s.Injections {
		if s.Injections[i].ID == id {
			return &s.Injections[i]
		}
	}
	return nil
}

// folder is the data set below dir, or dir itself if it is one.
func folder(dir, name string) (string, error) {
	for _, d := range []string{filepath.Join(dir, name), dir} {
		if _, err := os.Stat(filepath.Join(d, "pairs.jsonl")); err == nil {
			return d, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("%s holds no data set %s", dir, name)
}
