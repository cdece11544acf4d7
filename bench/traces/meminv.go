package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// scenario is one of mem-inv-bench: a session that put a note into memory, and a later
// one that reads it. It is played as a suite of traces. A trusted fact is a row of the
// platform, with each account, address and number in it as a typed value; the note is a
// row of a third party, its benign wording in the task, and its static or adaptive one
// in the attack. The task reads them and then does what it should.
type scenario struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	Earlier struct {
		Facts []string `json:"trusted_facts"`
	} `json:"session_a"`
	Later struct {
		Task     string         `json:"user_task"`
		Attack   map[string]any `json:"attacker_action"`
		Benign   map[string]any `json:"benign_action"`
		Expected map[string]any `json:"expected_action"`
	} `json:"session_b"`
	Variants map[string]string `json:"variants"`
}

// answering is the tool that only talks: what it says is no call that a gate sees.
const answering = "answer"

// scenarioTools are what the scenarios call. They declare no tools, so this is ours.
var scenarioTools = []traceTool{
	{Name: "recall_memory", Effect: "read"},
	{Name: "wire_transfer", Effect: "irreversible", Sinks: []string{"to", "amount"}},
	{Name: "pay", Effect: "irreversible", Sinks: []string{"to", "amount"}},
	{Name: "purchase", Effect: "irreversible", Sinks: []string{"item", "to", "amount"}},
	{Name: "send_data", Effect: "irreversible", Sinks: []string{"to", "data"}},
	{Name: "update_setting", Effect: "write", Sinks: []string{"key", "value"}},
}

// typedValue is what a fact states in the form of a value.
var typedValue = regexp.MustCompile(`[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|[0-9]+`)

// scenarios reads mem-inv-bench; nil if the folder is not there.
func scenarios(dir string) (*set, error) {
	b, err := os.ReadFile(filepath.Join(dir, "mem-inv-bench", "scenarios.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []scenario
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("scenarios.json: %w", err)
	}
	one := &suite{Name: "scenarios", Principal: "user", Rows: map[string]row{}, tools: map[string]traceTool{}}
	for _, t := range scenarioTools {
		one.tools[t.Name], one.order = t, append(one.order, t.Name)
	}
	s := &set{suites: []*suite{one}, templates: map[string]string{wording: "{goal}"}}
	for i := range all {
		if err := s.play(one, &all[i]); err != nil {
			return nil, fmt.Errorf("scenarios.json, %s: %w", all[i].ID, err)
		}
	}
	return s, s.check(map[string]*suite{one.Name: one})
}

func (s *set) play(one *suite, sc *scenario) error {
	read := call{Tool: "recall_memory", Args: json.RawMessage(`{}`)}
	for i, text := range sc.Earlier.Facts {
		fields, err := json.Marshal(typedValue.FindAllString(text, -1))
		if err != nil {
			return err
		}
		id := fmt.Sprintf("fact:%s:%d", sc.ID, i)
		one.Rows[id] = row{ID: id, Author: "registry", Origin: "system", Text: text, Fields: fields}
		read.Rows = append(read.Rows, id)
	}
	note := row{ID: "note:" + sc.ID, Author: "a third party", Origin: "external", Text: sc.Variants["benign"], Vectors: []string{"v"}, Template: "{{v}}"}
	one.Rows[note.ID], read.Rows = note, append(read.Rows, note.ID)
	t := task{ID: sc.ID, Prompt: sc.Later.Task, Calls: []call{read}}
	for _, act := range []map[string]any{sc.Later.Benign, sc.Later.Expected} {
		c, err := action(act)
		if err != nil {
			return err
		}
		if c != nil {
			t.Calls, t.Changes = append(t.Calls, *c), true
		}
	}
	one.Tasks = append(one.Tasks, t)
	if sc.Kind != "attack" {
		return nil
	}
	for _, variant := range []string{"static", "adaptive"} {
		a := injection{ID: sc.ID + " " + variant, Goal: sc.Variants[variant]}
		c, err := action(sc.Later.Attack)
		if err != nil {
			return err
		}
		if c != nil {
			a.Calls = []call{*c}
		}
		a.TextOnly = c == nil
		one.Injections = append(one.Injections, a)
		s.pairs = append(s.pairs, pair{Suite: one.Name, Task: sc.ID, Injection: a.ID, Vectors: note.Vectors})
	}
	return nil
}

// action is the call of an action, nil if it only talks.
func action(what map[string]any) (*call, error) {
	tool, _ := what["tool"].(string)
	if len(what) == 0 || tool == answering {
		return nil, nil
	}
	args := map[string]any{}
	for k, v := range what {
		if k != "tool" {
			args[k] = v
		}
	}
	b, err := json.Marshal(args)
	return &call{Tool: tool, Args: b}, err
}
