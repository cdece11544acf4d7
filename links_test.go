package hearsay_test

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	links    = regexp.MustCompile(`\]\(<?([^()\s>]+)>?(?: "[^"]*")?\)`)
	headings = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
	unlinked = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the names under which the headings of a text can be linked to.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range headings.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		out[strings.ReplaceAll(unlinked.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return out
}

// TestEveryLinkInTheDocsLeadsSomewhere: each relative link in a Markdown file names a
// file of the module, and after a # a heading of it.
func TestEveryLinkInTheDocsLeadsSomewhere(t *testing.T) {
	files, found := 0, 0
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && file != ".":
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".md":
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		files++
		for _, m := range links.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			to, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %q is no link", file, m[1])
				continue
			}
			if to.IsAbs() || to.Host != "" {
				continue
			}
			found++
			target := file
			if to.Path != "" {
				target = filepath.FromSlash(path.Join(path.Dir(filepath.ToSlash(file)), to.Path))
			}
			there, err := os.Stat(target)
			if err != nil || !filepath.IsLocal(target) {
				t.Errorf("%s: %s leads nowhere", file, m[1])
				continue
			}
			if to.Fragment == "" || there.IsDir() || filepath.Ext(target) != ".md" {
				continue
			}
			if other, err := os.ReadFile(target); err != nil || !anchors(string(other))[to.Fragment] {
				t.Errorf("%s: %s names no heading (%v)", file, m[1], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 || found < 40 {
		t.Fatalf("only %d links in %d files", found, files)
	}
	t.Logf("%d links in %d files", found, files)
}
