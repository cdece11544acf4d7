package hearsay_test

import (
	"os"
	"os/exec"
	"regexp"
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
	if got, want := block(t, string(readme), "quickstart"), "func run("+run; got != want {
		t.Errorf("the README's program is not examples/quickstart from func run on:\n%s", got)
	}
	out, err := exec.Command("go", "run", "./examples/quickstart").Output()
	if err != nil {
		t.Fatalf("the quickstart: %v", err)
	}
	got := strings.TrimSpace(volatile.ReplaceAllString(block(t, string(readme), "quickstart output"), "…"))
	if want := strings.TrimSpace(volatile.ReplaceAllString(string(out), "…")); got != want {
		t.Errorf("the README shows this output:\n%s\nthe quickstart prints:\n%s", got, want)
	}
}

// TestNothingIsLeftUndone keeps notes to self out of the code.
func TestNothingIsLeftUndone(t *testing.T) {
	out, err := exec.Command("git", "grep", "-nIE", "TODO|FIXME|XXX[^X]|not implemented", "--", "*.go", "*.md", ":!readme_test.go").CombinedOutput()
	if err == nil || len(out) > 0 {
		if _, statErr := os.Stat(".git"); statErr == nil {
			t.Errorf("left undone:\n%s", out)
		}
	}
	files, err := os.ReadDir(".")
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing was looked at: %v", err)
	}
}
