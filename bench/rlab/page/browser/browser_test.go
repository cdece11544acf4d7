package browser

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/hearsay-go/hearsay/bench/rlab"
	"github.com/hearsay-go/hearsay/bench/rlab/page"
	"github.com/hearsay-go/hearsay/bench/rlab/rules"
)

// axeVersion is the release of axe-core that judges the page.
const axeVersion = "4.14.1"

// axe is the source of axe-core, from npm.
var axe = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "axe-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("npm", "pack", "--silent", "axe-core@"+axeVersion)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm pack: %w: %s", err, out)
	}
	packed, err := os.Open(filepath.Join(dir, "axe-core-"+axeVersion+".tgz"))
	if err != nil {
		return "", err
	}
	defer packed.Close()
	unzipped, err := gzip.NewReader(packed)
	if err != nil {
		return "", err
	}
	for files := tar.NewReader(unzipped); ; {
		file, err := files.Next()
		if err != nil {
			return "", err
		}
		if file.Name == "package/axe.min.js" {
			source, err := io.ReadAll(files)
			return string(source), err
		}
	}
})

// view is how somebody looks at the page.
type view struct {
	name          string
	width, height int64
	dark, phone   bool
}

var views = []view{
	{"light", 1280, 900, false, false}, {"dark", 1280, 900, true, false},
	{"phone", 390, 844, false, true}, {"phone, dark", 390, 844, true, true},
}

// found is what is wrong with a page in one view.
type found struct {
	console []string // what the browser complains of
	clipped []string // what reaches out of its place
	axe     []string // what axe-core complains of
	charts  int
	shot    []byte
}

// clips finds what reaches out of its place: the page out of the window, a chart out of its
// parent, a text or a mark out of its chart.
const clips = `(() => {
	const out = [], root = document.documentElement;
	if (root.scrollWidth > root.clientWidth) out.push('the page is ' + root.scrollWidth + ' wide, the window ' + root.clientWidth);
	const all = document.querySelectorAll('svg[role=img]');
	for (const svg of all) {
		const name = svg.getAttribute('aria-label') || svg.textContent.slice(0, 40);
		const at = svg.getBoundingClientRect();
		if (at.width < 100 || at.height < 50) out.push(name + ': ' + at.width + ' by ' + at.height);
		for (let el = svg.parentElement; el; el = el.parentElement) {
			const style = getComputedStyle(el), box = el.getBoundingClientRect();
			if (['auto', 'scroll'].includes(style.overflowX)) break;
			if (at.right > box.right + 1 || at.left < box.left - 1) { out.push(name + ' is wider than its ' + el.tagName); break; }
		}
		for (const el of svg.querySelectorAll('text, circle, path, line')) {
			const box = el.getBoundingClientRect();
			if (box.left < at.left - 1 || box.right > at.right + 1 || box.top < at.top - 1 || box.bottom > at.bottom + 1) {
				out.push(name + ': ' + el.tagName + ' ' + (el.textContent || '') + ' is cut off');
			}
		}
	}
	return {clipped: out, charts: all.length};
})()`

// open opens all tables.
const open = `document.querySelectorAll('details').forEach(d => { d.open = true }); 0`

// look opens a page in a view, with its tables closed and then open.
func look(ctx context.Context, url string, v view) (out found, err error) {
	source, err := axe()
	if err != nil {
		return out, err
	}
	tab, cancel := chromedp.NewContext(ctx)
	defer cancel()
	theme := "light"
	if v.dark {
		theme = "dark"
	}
	messages := chromedp.Console(tab)
	if _, err := chromedp.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}); err != nil {
		return out, err
	}
	size := chromedp.EmulateViewport(v.width, v.height)
	if v.phone {
		size = chromedp.EmulateViewport(v.width, v.height, chromedp.EmulateMobile, chromedp.EmulatePortrait)
	}
	if err := chromedp.Do(tab, size, chromedp.Navigate(url)); err != nil {
		return out, err
	}
	if out.shot, err = chromedp.Run(tab, chromedp.FullScreenshot(100)); err != nil {
		return out, err
	}
	for _, change := range []string{"0", open} {
		if err := chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](change)); err != nil {
			return out, err
		}
		seen, err := chromedp.Run(tab, chromedp.Evaluate[struct {
			Clipped []string `json:"clipped"`
			Charts  int      `json:"charts"`
		}](clips))
		if err != nil {
			return out, err
		}
		out.clipped, out.charts = append(out.clipped, seen.Clipped...), seen.Charts
	}
	const end = "the end of what the page says"
	if err := chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](fmt.Sprintf("console.log(%q)", end))); err != nil {
		return out, err
	}
	for m, err := range messages {
		if err != nil {
			return out, err
		}
		if m.Text == end {
			break
		}
		out.console = append(out.console, m.String())
	}
	if err := chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](source+";0")); err != nil {
		return out, err
	}
	judged, err := chromedp.Run(tab, chromedp.Evaluate[[]byte](`axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'best-practice']})`, chromedp.EvalAwaitPromise))
	if err != nil {
		return out, err
	}
	var result struct {
		Violations []struct {
			ID    string `json:"id"`
			Nodes []struct {
				HTML string `json:"html"`
			} `json:"nodes"`
		} `json:"violations"`
		Passes []struct {
			ID string `json:"id"`
		} `json:"passes"`
	}
	if err := json.Unmarshal(judged, &result); err != nil {
		return out, err
	}
	if len(result.Passes) == 0 {
		return out, errors.New("axe-core judged nothing")
	}
	for _, r := range result.Violations {
		for _, n := range r.Nodes[:min(len(r.Nodes), 3)] {
			out.axe = append(out.axe, fmt.Sprintf("%s: %.200s", r.ID, n.HTML))
		}
	}
	return out, nil
}

// chromium is a browser without a window.
func chromium(t *testing.T) context.Context {
	t.Helper()
	// A container has no user namespaces for its sandbox. The page is ours.
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU)...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// served is the URL of a page.
func served(t *testing.T, html []byte) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			w.WriteHeader(http.StatusNoContent) // the icon that browsers ask for
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(html) //nolint:errcheck // the browser sees it
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestThePageInABrowser: no complaint, nothing cut off, enough contrast, light and dark, on a
// desk and on a phone. `go test -artifacts -outputdir DIR` keeps what it looks like.
func TestThePageInABrowser(t *testing.T) {
	scenarios, err := rlab.Choose("C0,S1,S3,S4,S5,S7,S12")
	if err != nil {
		t.Fatal(err)
	}
	plays, err := rlab.Run(t.Context(), rlab.Options{Scenarios: scenarios, Entrants: rules.All(), Seeds: []uint64{1}})
	if err != nil {
		t.Fatal(err)
	}
	plays = append(plays, rlab.Played{Scenario: "S1", System: strings.Repeat("a long name ", 8), Seed: 1, Err: fmt.Errorf("%w: it is gone", rlab.ErrNoAnswer)})
	var html bytes.Buffer
	if err := page.Write(&html, rlab.Figures(plays, scenarios, rlab.Small, nil)); err != nil {
		t.Fatal(err)
	}
	ctx, url := chromium(t), served(t, html.Bytes())
	for _, v := range views {
		t.Run(v.name, func(t *testing.T) {
			got, err := look(ctx, url, v)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Count(html.String(), `<svg role="img"`); got.charts != want || want < 15 {
				t.Errorf("%d charts, want %d", got.charts, want)
			}
			for _, wrong := range slices.Concat(got.console, got.clipped, got.axe) {
				t.Error(wrong)
			}
			if err := os.WriteFile(filepath.Join(t.ArtifactDir(), "page.png"), got.shot, 0o600); err != nil {
				t.Error(err)
			}
			t.Logf("%d charts, a picture of %d bytes", got.charts, len(got.shot))
		})
	}
}

// TestWhatIsWrongIsFound: each kind of fault, in a page that has it.
func TestWhatIsWrongIsFound(t *testing.T) {
	const frame = `<!doctype html><html lang="en"><head><meta name="viewport" content="width=device-width"><title>x</title></head><body><main><h1>x</h1>%s</main></body></html>`
	const good = `<svg role="img" aria-label="a chart" width="200" height="100"><text x="10" y="50">in it</text></svg>`
	ctx := chromium(t)
	for name, c := range map[string]struct {
		body string
		says func(found) []string
	}{
		"a script that complains":  {`<script>console.error("no")</script>`, func(f found) []string { return f.console }},
		"a script that throws":     {`<script>throw new Error("no")</script>`, func(f found) []string { return f.console }},
		"a page that is too wide":  {`<div style="width:3000px">x</div>`, func(f found) []string { return f.clipped }},
		"a chart that is cut off":  {`<div style="width:50px;overflow:hidden">` + good + `</div>`, func(f found) []string { return f.clipped }},
		"a text that is cut off":   {`<svg role="img" aria-label="a chart" width="200" height="100"><text x="190" y="50">out of it</text></svg>`, func(f found) []string { return f.clipped }},
		"a chart without a size":   {`<svg role="img" aria-label="a chart" width="1" height="1"></svg>`, func(f found) []string { return f.clipped }},
		"text that is too pale":    {`<p style="color:#ccc;background:#fff">pale</p>`, func(f found) []string { return f.axe }},
		"a table that is too wide": {`<details><summary>t</summary><div style="width:3000px">x</div></details>`, func(f found) []string { return f.clipped }},
		"a table that is too pale": {`<details><summary>t</summary><p style="color:#ccc;background:#fff">pale</p></details>`, func(f found) []string { return f.axe }},
		"a chart without a name":   {`<svg role="img" width="200" height="100"></svg>`, func(f found) []string { return f.axe }},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := look(ctx, served(t, fmt.Appendf(nil, frame, c.body)), views[0])
			if err != nil || len(c.says(got)) == 0 {
				t.Errorf("%v, console %q, clipped %q, axe %q", err, got.console, got.clipped, got.axe)
			}
		})
	}
	got, err := look(ctx, served(t, fmt.Appendf(nil, frame, good)), views[0])
	if wrong := slices.Concat(got.console, got.clipped, got.axe); err != nil || len(wrong) > 0 || got.charts != 1 {
		t.Errorf("a good page: %v, %q, %d charts", err, wrong, got.charts)
	}
}
