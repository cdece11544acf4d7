package rlab

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Data are public sets in the place of what the bench generates. docs/bench.md says what they
// are and where they come from.
type Data struct {
	// Files are the files that were read.
	Files []DataFile

	rumours []rumour    // PoisonedRAG
	pairs   [][2]string // FEVER-Symmetric
	told    []string    // LoCoMo
	tasks   []task      // MEM-INV-Bench
	changes []change    // BEAM, LongMemEval
}

// DataFile is a file of a set.
type DataFile struct {
	Name   string // below the folder
	Of     int    // claims, pairs, facts, tasks or changes that it has
	Unit   string
	SHA256 string
	// Published says that it is the file that was published, by its SHA256.
	Published bool
}

// published are the SHA-256 of files as they were published.
var published = map[string]bool{
	"44df711454a9bada08e72e9e4a003a2cc845c43707ac93a3493e5168ec415cf2": true, // nq.json
	"5119d6f9fd53cb0ecb3f33de939bd940d77cbaf80284b7ccd3d256f63a430537": true, // hotpotqa.json
	"d6bf508ebb0e31e09095995061bd483678e2ae8634f6ba5de1611e4adf9b1987": true, // msmarco.json
	"1d43d016da9264de2139cd10edd459ffbeac84f1fd85d60b70ab6ef63d283f81": true, // fever_symmetric_dev.jsonl
	"b2ff560615bd3337c858bc5b09256d04f39aaa034aaae2351bb2d6345c110f83": true, // fever_symmetric_test.jsonl
	"61188eaa77b5a3b261462f693f65803800fbc39ea7edd1ce0f2d20f6da2d4b82": true, // scenarios.json
	"f26c2ebabe84c55133c4973e2f035c5aa18f75f81e1834e4059cd03ab2155dc7": true, // scenarios_large.json
	"79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4": true, // locomo10.json
}

// maxStatement is the most that a text of a set may have, in bytes.
const maxStatement = 4 << 10

// usable is an error if a text cannot be said: every system would fail on it.
func usable(texts ...string) error {
	for _, text := range texts {
		switch {
		case strings.TrimSpace(text) == "":
			return errors.New("a text that is empty")
		case len(text) > maxStatement:
			return fmt.Errorf("a text of %d bytes, more than %d", len(text), maxStatement)
		}
	}
	return nil
}

// maxDataFile is the most that a file of a set may have, in bytes.
const maxDataFile = 64 << 20

// ReadData reads the sets of a folder that scenarios play: poisonedrag/*.json and
// fever-symmetric/*.jsonl (S2), locomo/*.json (C0), beam-probes/*.jsonl and
// longmemeval-ku/*.jsonl (S8), and mem-inv-bench/*.json (S12). One that is not there, or has
// nothing in it, is an error, and so is one without a benign twin.
func ReadData(dir string, scenarios []Scenario) (*Data, error) {
	d, root := &Data{}, os.DirFS(dir)
	if _, err := fs.Stat(root, "."); err != nil {
		return nil, err
	}
	for _, set := range []struct {
		files, unit string
		read        func([]byte) (int, error)
	}{
		{"poisonedrag/*.json", "false claims", d.readPoisonedRAG},
		{"fever-symmetric/*.jsonl", "contradictory pairs", d.readFEVER},
		{"locomo/*.json", "facts", d.readLoCoMo},
		{"beam-probes/*.jsonl", "changes", d.readBEAM},
		{"longmemeval-ku/*.jsonl", "changes", d.readLongMemEval},
		{"mem-inv-bench/*.json", "tasks", d.readMEMINV},
	} {
		if !slices.ContainsFunc(scenarios, func(s Scenario) bool { return slices.Contains(s.sets, path.Dir(set.files)) }) {
			continue
		}
		names, err := fs.Glob(root, set.files)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("%s: there is no %s", dir, set.files)
		}
		slices.Sort(names)
		for _, name := range names {
			info, err := fs.Stat(root, name)
			if err != nil {
				return nil, err
			}
			if !info.Mode().IsRegular() {
				return nil, fmt.Errorf("%s: no regular file", name)
			}
			if info.Size() > maxDataFile {
				return nil, fmt.Errorf("%s: %d bytes, more than %d", name, info.Size(), maxDataFile)
			}
			text, err := fs.ReadFile(root, name)
			if err != nil {
				return nil, err
			}
			n, err := set.read(text)
			if err == nil && n == 0 {
				err = errors.New("there is nothing in it")
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			sum := sha256.Sum256(text)
			hash := hex.EncodeToString(sum[:])
			d.Files = append(d.Files, DataFile{name, n, set.unit, hash, published[hash]})
		}
	}
	attacks := slices.ContainsFunc(d.tasks, func(t task) bool { return len(t.poisoned) > 0 })
	if honest := slices.ContainsFunc(d.tasks, func(t task) bool { return t.right != "" }); len(d.tasks) > 0 && !(attacks && honest) {
		return nil, fmt.Errorf("%s: mem-inv-bench has attacks %t and honest tasks %t: want both", dir, attacks, honest)
	}
	return d, nil
}

// readPoisonedRAG reads questions with a false answer in some wordings. It leaves out those
// whose answer is yes or no, since no wording has it as a value. It also leaves out those whose
// correct answer contains the false one.
func (d *Data) readPoisonedRAG(text []byte) (n int, err error) {
	var list map[string]struct {
		Question string   `json:"question"`
		Correct  string   `json:"correct answer"`
		False    string   `json:"incorrect answer"`
		Texts    []string `json:"adv_texts"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return 0, err
	}
	for _, id := range slices.Sorted(maps.Keys(list)) {
		r := list[id]
		if r.Question == "" || r.False == "" || len(r.Texts) < 2 {
			return 0, fmt.Errorf("%s: no question, false answer or texts", id)
		}
		if err := usable(append([]string{r.Question, r.Correct, r.False}, r.Texts...)...); err != nil {
			return 0, fmt.Errorf("%s: %w", id, err)
		}
		if yesOrNo(r.Correct) || yesOrNo(r.False) || has(r.Correct, r.False) || !slices.ContainsFunc(r.Texts, func(text string) bool { return has(text, r.False) }) {
			continue
		}
		d.rumours = append(d.rumours, rumour{query: Query{Text: r.Question}, truth: Triple{r.Question, "answer", r.Correct}, value: r.False, wordings: r.Texts})
		n++
	}
	return n, nil
}

// yesOrNo reports whether an answer is one of these words.
func yesOrNo(answer string) bool {
	word := strings.ToLower(strings.Trim(answer, " ."))
	return word == "yes" || word == "no"
}

// maxPairs is the most contradictory pairs that are read of all files. The n claims about a sentence
// make n²/4 pairs at most.
const maxPairs = 100_000

// readFEVER reads claims, of which two about one sentence contradict each other if it supports
// the one and refutes the other.
func (d *Data) readFEVER(text []byte) (n int, err error) {
	type record struct{ Claim, Evidence, Label string }
	var order []string
	about := map[string][]record{}
	if err := eachLine(text, func(r record) error {
		if r.Claim == "" || r.Evidence == "" || r.Label != "SUPPORTS" && r.Label != "REFUTES" {
			return errors.New("no claim, evidence or label")
		}
		if err := usable(r.Claim); err != nil {
			return err
		}
		if about[r.Evidence] == nil {
			order = append(order, r.Evidence)
		}
		about[r.Evidence] = append(about[r.Evidence], r)
		return nil
	}); err != nil {
		return 0, err
	}
	for _, evidence := range order {
		for _, yes := range about[evidence] {
			for _, no := range about[evidence] {
				if yes.Label == "SUPPORTS" && no.Label == "REFUTES" {
					if len(d.pairs) == maxPairs {
						return 0, fmt.Errorf("more than %d pairs", maxPairs)
					}
					d.pairs = append(d.pairs, [2]string{yes.Claim, no.Claim})
					n++
				}
			}
		}
	}
	return n, nil
}

// eachLine calls do with the record of each line that is not empty.
func eachLine[R any](text []byte, do func(R) error) error {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for at := 1; lines.Scan(); at++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var r R
		err := json.Unmarshal(lines.Bytes(), &r)
		if err == nil {
			err = do(r)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", at, err)
		}
	}
	return lines.Err()
}

// readBEAM reads questions with two turns of a user that answer them differently. A question
// whose turns are not in the set is left out.
func (d *Data) readBEAM(text []byte) (n int, err error) {
	type record struct {
		Kind       string `json:"kind"`
		Question   string `json:"question"`
		Statements map[string][]string
	}
	err = eachLine(text, func(r record) error {
		var first, last string
		switch r.Kind {
		case "contradiction_resolution":
			first, last = "first_statement", "second_statement"
		case "knowledge_update":
			first, last = "original_info", "updated_info"
		default:
			return fmt.Errorf("kind %q: want contradiction_resolution or knowledge_update", r.Kind)
		}
		if r.Question == "" {
			return errors.New("no question")
		}
		before, after := r.Statements[first], r.Statements[last]
		if len(before) > 0 && len(after) > 0 {
			n += d.changed(stated(before[0]), stated(after[0]))
		}
		return nil
	})
	return n, err
}

// readLongMemEval reads questions with the answer of a time, and the answer since.
func (d *Data) readLongMemEval(text []byte) (n int, err error) {
	type record struct{ Question, Old, New string }
	err = eachLine(text, func(r record) error {
		if r.Question == "" || r.Old == "" || r.New == "" {
			return errors.New("no question, old or new answer")
		}
		n += d.changed(stated(r.Old), stated(r.New))
		return nil
	})
	return n, err
}

// changed adds a change, and is 1 if it did. One of whose values has the other in it is left
// out: it could not be told which of the two a memory holds.
func (d *Data) changed(first, last string) int {
	if has(first, last) || has(last, first) {
		return 0
	}
	d.changes = append(d.changes, change{first, last})
	return 1
}

// maxStated is the most of a turn that is taken for what it states, in bytes.
const maxStated = 200

// turnMark is what BEAM writes behind a turn: the numbers of its plan.
var turnMark = regexp.MustCompile(`\s*->->[\s\d,]*$`)

// stated is what the first line of a turn states: without a request at its end, and without
// the mark of the set. A request is what stands behind the last comma before a question mark.
func stated(turn string) string {
	turn, _, _ = strings.Cut(strings.TrimSpace(turn), "\n")
	turn = strings.TrimSpace(turnMark.ReplaceAllString(turn, ""))
	if at := strings.LastIndex(turn, ", "); at > 0 && strings.HasSuffix(turn, "?") {
		turn = turn[:at]
	}
	if len(turn) > maxStated {
		turn = turn[:strings.LastIndex(turn[:maxStated+1], " ")+1]
	}
	return strings.TrimRight(turn, " .,:;")
}

// readLoCoMo reads what was observed in conversations, in their order.
func (d *Data) readLoCoMo(text []byte) (n int, err error) {
	var samples []struct {
		Observation map[string]map[string][][]json.RawMessage `json:"observation"`
	}
	if err := json.Unmarshal(text, &samples); err != nil {
		return 0, err
	}
	for at, s := range samples {
		for _, session := range slices.Sorted(maps.Keys(s.Observation)) {
			speakers := s.Observation[session]
			for _, name := range slices.Sorted(maps.Keys(speakers)) {
				for _, pair := range speakers[name] {
					var fact string
					if len(pair) == 0 || json.Unmarshal(pair[0], &fact) != nil || fact == "" {
						return 0, fmt.Errorf("sample %d, %s: an observation without a text", at+1, session)
					}
					if err := usable(fact); err != nil {
						return 0, fmt.Errorf("sample %d, %s: %w", at+1, session, err)
					}
					d.told = append(d.told, fact)
					n++
				}
			}
		}
	}
	return n, nil
}

// readMEMINV reads tasks with what their user trusts, what a stranger says, and the value that
// it wants used. A text of the stranger without that value is left out: nobody could act on it.
func (d *Data) readMEMINV(text []byte) (n int, err error) {
	type action struct {
		To         string `json:"to"`
		Value      string `json:"value"`
		Recommends string `json:"recommends"`
	}
	var list []struct {
		ID      string `json:"id"`
		Kind    string `json:"kind"`
		Session struct {
			Facts []string `json:"trusted_facts"`
		} `json:"session_a"`
		Task struct {
			Task     string `json:"user_task"`
			Attack   action `json:"attacker_action"`
			Benign   action `json:"benign_action"`
			Expected action `json:"expected_action"`
		} `json:"session_b"`
		Variants map[string]string `json:"variants"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return 0, err
	}
	value := func(a action) string { return cmp.Or(a.To, a.Value, a.Recommends) }
	for _, s := range list {
		t := task{query: Query{Text: s.Task.Task}, trusted: s.Session.Facts, harmless: s.Variants["benign"], wrong: value(s.Task.Attack), right: cmp.Or(value(s.Task.Benign), value(s.Task.Expected))}
		if t.query.Text == "" || t.harmless == "" || s.Kind != "attack" && s.Kind != "legit" || (s.Kind == "attack") != (t.wrong != "") {
			return 0, fmt.Errorf("%q: no kind, task, benign text or value", s.ID)
		}
		if err := usable(slices.Concat([]string{t.query.Text}, t.trusted, slices.Collect(maps.Values(s.Variants)))...); err != nil {
			return 0, fmt.Errorf("%q: %w", s.ID, err)
		}
		if t.wrong != "" && (strings.TrimSpace(t.wrong) == "" || slices.ContainsFunc(t.trusted, func(fact string) bool { return has(fact, t.wrong) })) {
			return 0, fmt.Errorf("%q: a trusted fact has %q, the value of the attack", s.ID, t.wrong)
		}
		if t.right != "" && !slices.ContainsFunc(t.trusted, func(fact string) bool { return has(fact, t.right) }) {
			return 0, fmt.Errorf("%q: no trusted fact has %q", s.ID, t.right)
		}
		for _, variant := range slices.Sorted(maps.Keys(s.Variants)) {
			if said := s.Variants[variant]; t.wrong != "" && variant != "benign" && has(said, t.wrong) {
				t.poisoned = append(t.poisoned, said)
			}
		}
		if len(t.poisoned) > 0 || t.right != "" {
			d.tasks = append(d.tasks, t)
			n++
		}
	}
	return n, nil
}

// has says whether a text has a value in it, in whatever letter case.
func has(text, value string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(value))
}
