package hearsay_test

import (
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block returns what stands between the markers of a name in the README.
func block(t *testing.T, readme, name string) string {
	t.Helper()
	_, rest, ok := strings.Cut(readme, "<!-- "+name+" -->\n")
	if !ok {
		t.Fatalf("the README has no <!-- %s -->", name)
	}
	body, _, ok := strings.Cut(rest, "<!-- /"+name+" -->")
	if !ok {
		t.Fatalf("the README has no <!-- /%s -->", name)
	}
	body = strings.TrimSpace(body)
	first := strings.IndexByte(body, '\n')
	if !strings.HasPrefix(body, "```") || !strings.HasSuffix(body, "```") || first < 0 {
		t.Fatalf("%s in the README is no code block", name)
	}
	return strings.TrimSuffix(body[first+1:], "```")
}

var update = flag.Bool("update", false, "rewrite the README's blocks from what they show")

// replace puts a body between the markers of a name in the README.
func replace(t *testing.T, readme, name, lang, body string) string {
	t.Helper()
	open, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	from, to := strings.Index(readme, open), strings.Index(readme, end)
	if from < 0 || to < from {
		t.Fatalf("the README has no %s", open)
	}
	return readme[:from+len(open)] + "```" + lang + "\n" + strings.TrimRight(body, "\n") + "\n```\n" + readme[to:]
}

// ids and dates differ from run to run.
var volatile = regexp.MustCompile(`(mem|blk)_[0-9a-v]{26}|\d{4}-\d{2}-\d{2}`)

func TestTheReadmeShowsTheQuickstartAsItIs(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("examples/quickstart/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, run, ok := strings.Cut(string(program), "func run(")
	if !ok {
		t.Fatal("the quickstart has no func run")
	}
	out, err := exec.Command("go", "run", "./examples/quickstart").Output()
	if err != nil {
		t.Fatalf("the quickstart: %v", err)
	}
	golden, err := os.ReadFile("gate/testdata/golden/unverified.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(golden), "-- text --\n")
	if !ok {
		t.Fatal("the gate's golden file has no text for the model")
	}
	text, _, _ = strings.Cut(text, "\n-- ")
	shown := map[string]string{"quickstart": "func run(" + run, "quickstart output": string(out), "block": text}
	if *update {
		for name, body := range shown {
			lang := ""
			if name == "quickstart" {
				lang = "go"
			}
			readme = []byte(replace(t, string(readme), name, lang, body))
		}
		if err := os.WriteFile("README.md", readme, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range shown {
		got := volatile.ReplaceAllString(strings.TrimSpace(block(t, string(readme), name)), "…")
		if want := volatile.ReplaceAllString(strings.TrimSpace(want), "…"); got != want {
			t.Errorf("the README shows under %q:\n%s\nit is:\n%s", name, got, want)
		}
	}
}

// TestNothingIsLeftUndone keeps notes to self out of the code.
func TestNothingIsLeftUndone(t *testing.T) {
	note := regexp.MustCompile(`TODO|FIXME|XXX[^X]|not implemented`)
	looked := 0
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() != "." && strings.HasPrefix(e.Name(), "."):
			return filepath.SkipDir
		case e.IsDir() || path == "readme_test.go" || !slices.Contains([]string{".go", ".md"}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		looked++
		for n, line := range strings.Split(string(text), "\n") {
			if note.MatchString(line) {
				t.Errorf("%s:%d: %s", path, n+1, line)
			}
		}
		return nil
	})
	if err != nil || looked == 0 {
		t.Fatalf("%d files were looked at: %v", looked, err)
	}
}

// TestEveryReasonIsExplained holds docs/why-blocked.md to the codes of the gate.
func TestEveryReasonIsExplained(t *testing.T) {
	doc, err := os.ReadFile("docs/why-blocked.md")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("gate/*.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`Code += "([a-z_]+)"`)
	codes := map[string]bool{}
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			codes[m[1]] = true
		}
	}
	if len(codes) < 10 {
		t.Fatalf("found only %d reason codes", len(codes))
	}
	for code := range codes {
		if !strings.Contains(string(doc), "\n## `"+code+"`") {
			t.Errorf("docs/why-blocked.md has no heading for %s", code)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^## `([a-z_]+)`").FindAllStringSubmatch(string(doc), -1) {
		if !codes[m[1]] {
			t.Errorf("docs/why-blocked.md explains %s, which is no code", m[1])
		}
	}
}

// TestEveryIDThatIsCitedIsExplained holds docs/sources.md to the comments.
func TestEveryIDThatIsCitedIsExplained(t *testing.T) {
	doc, err := os.ReadFile("docs/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z0-9]+-[A-Z0-9.]+) \|`).FindAllStringSubmatch(string(doc), -1) {
		explained[m[1]] = true
	}
	id := regexp.MustCompile(`\b(?:MP|KN|SR|LS|UD|UP|X|D|I|C12)-L?[0-9]+(?:\.[0-9]+)*\b`)
	cited := 0
	err = filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			_, comment, ok := strings.Cut(line, "//")
			if !ok {
				continue
			}
			for _, m := range id.FindAllString(comment, -1) {
				cited++
				if !explained[m] {
					t.Errorf("%s cites %s, which docs/sources.md does not explain", path, m)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if cited < 100 {
		t.Fatalf("found only %d citations", cited)
	}
	t.Logf("%d citations of %d ids", cited, len(explained))
}
