package agent

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// maxErrorLine is the most bytes of an error that a model is shown.
const maxErrorLine = 2000

// ToolText is what an adapter gives a model as the result of a call: the output
// if it fired, else a text that begins with NOT EXECUTED, or with FAILED if the
// tool ran and failed. It is never empty, since some APIs refuse that.
//
// What a tool returned is not memory: where it imitates the tag of memory, the text
// loses the bracket that opens the tag ([recall.Defuse]). The output itself, and the
// row that it became, stay as they were.
func ToolText(res Result, err error) string {
	var (
		denied    *gate.DeniedError
		arguments *gate.ArgumentError
	)
	switch {
	case err == nil:
		return recall.Defuse(outputText(res.Output))
	case errors.As(err, &denied):
		return denied.ToolText()
	case errors.As(err, &arguments):
		return "NOT EXECUTED: the arguments are not valid: " + recall.Defuse(errorLine(arguments)) + "\nCorrect them and call again."
	case errors.Is(err, ErrTool):
		return "FAILED: " + recall.Defuse(errorLine(err))
	}
	return "NOT EXECUTED: " + recall.Defuse(errorLine(err))
}

func outputText(b json.RawMessage) string {
	text := strings.ToValidUTF8(string(b), string(unicode.ReplacementChar))
	var s string
	if json.Unmarshal(b, &s) == nil { // a string, or null
		text = s
	}
	if strings.TrimSpace(text) == "" {
		return "(empty)"
	}
	return text
}

// errorLine puts an error's text on one short line of visible characters.
func errorLine(err error) string {
	s := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(err.Error(), string(unicode.ReplacementChar)))
	s = strings.Join(strings.Fields(s), " ")
	if cut := clean(s, maxErrorLine); cut != s {
		return cut + "…"
	}
	return s
}
