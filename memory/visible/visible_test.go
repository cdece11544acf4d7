package visible_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory/visible"
)

func TestTextKeepsNothingThatATerminalObeys(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"a colour":                   {"\x1b[31mred", "<U+001B>[31mred"},
		"CSI of eight bits":          {"\u009b2J", "<U+009B>2J"},
		"a bare byte of CSI":         {"\x9b2J", "<0x9B>2J"},
		"a line turned around":       {"a\u202eb", "a<U+202E>b"},
		"a width of nothing":         {"a\u200bb", "a<U+200B>b"},
		"a tag character":            {"a\U000e0041", "a<U+E0041>"},
		"a return over what stood":   {"true\rfalse", "true<U+000D>false"},
		"lines and tabs are kept":    {"a\tb\nc", "a\tb\nc"},
		"other scripts are kept":     {"žlutý 日本", "žlutý 日本"},
		"a note without a head":      {"a\U0001D159\U00013441\U00013442\U00016FE4\u2800", "a<U+1D159><U+13441><U+13442><U+16FE4><U+2800>"},
		"a delete":                   {"a\x7f", "a<U+007F>"},
		"a window title with a bell": {"\x1b]0;x\a", "<U+001B>]0;x<U+0007>"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := visible.Text(c.in); got != c.want {
				t.Fatalf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestAWriterShowsTheSameHoweverItIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.ReplaceAll(rapid.String().Draw(t, "text")+"\x1b[2J\u009b\u202e\U000e0041 end", "\r", "") + "\n"
		var out bytes.Buffer
		w := visible.Writer(&out)
		for rest := []byte(text); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			if wrote, err := w.Write(rest[:n]); wrote != n || err != nil {
				t.Fatal(wrote, err)
			}
			rest = rest[n:]
		}
		if want := visible.Text(text); out.String() != want {
			t.Fatalf("%q, want %q", out.String(), want)
		}
		for _, c := range out.String() {
			if visible.Hidden(c) && c != '\n' && c != '\t' {
				t.Fatalf("%U came through", c)
			}
		}
	})
}

func TestAWriterDropsTheReturnOfALineOfWindows(t *testing.T) {
	var out bytes.Buffer
	w := visible.Writer(&out)
	for _, part := range []string{"a\r", "\nb\r\nc\r", "d"} {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.String(); got != "a\nb\nc<U+000D>d" {
		t.Fatalf("%q", got)
	}
}

func TestJSONSaysTheSameAfterIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "value") + "\x1b\u009b\u202e\u2066\ufeff\U000e0041"
		b, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var again string
		if err := json.Unmarshal(visible.JSON(b), &again); err != nil || again != strings.ToValidUTF8(value, "\ufffd") {
			t.Fatalf("%q, %v", again, err)
		}
		for _, c := range string(visible.JSON(b)) {
			if visible.Hidden(c) {
				t.Fatalf("%U came through", c)
			}
		}
	})
}
