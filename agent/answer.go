package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// maxErrorLine is the most bytes of an error that a model is shown.
const maxErrorLine = 2000

// ToolText is what an adapter gives a model as the result of a call: the output if it
// fired, else a text that begins with NOT EXECUTED. Of a tool that ran and gave an error it
// begins with FAILED. It begins with DONE if what came of a call could not be recorded, and
// with MAY HAVE BEEN DONE if nobody knows; of a tool that changes nothing, with NOT SHOWN.
// It is never empty, since some APIs refuse that. If the answer is longer than the tool's
// [AnswerLimit], the line behind it says how much is left out.
//
// What a tool returned is not memory: where it imitates the tag of memory, the text
// loses the bracket that opens the tag ([recall.Defuse]). A line of it that begins like
// these words of the system begins with "> " instead. The output itself, and the
// row that it became, stay as they were. If a call that only reads repeats what nobody
// has verified ([Result.Pending]), a note behind the output says so. Another one says that
// the same call was done before in the run, of a tool that nobody declared.
func ToolText(res Result, err error) string {
	var (
		denied    *gate.DeniedError
		arguments *gate.ArgumentError
		doubt     *doubtError
	)
	switch {
	case err == nil && len(res.Withheld) > 0:
		return answered(res) + "\n\nNote of the system: " + handlePrefix + "… stands for words that nobody vouches for. Pass one on as a whole argument if a call needs it." + notes(&res)
	case err == nil:
		return answered(res) + notes(&res)
	case errors.As(err, &doubt):
		return doubt.toolText(res)
	case errors.Is(err, ErrTool): // first: a tool may fail over a call that was denied
		return "FAILED: " + recall.Defuse(errorLine(err))
	case errors.As(err, &denied) && len(res.Output) > 0: // the same call was done before
		return denied.ToolText() + "\nThe first call answered: " + toolWords(res.Output)
	case errors.As(err, &denied) && denied.Decision.Has(gate.AlreadyDone):
		return denied.ToolText() + "\nThe first call gave no answer, or none that can be shown any more."
	case errors.As(err, &denied):
		return denied.ToolText()
	case errors.As(err, &arguments):
		return "NOT EXECUTED: the arguments are not valid: " + recall.Defuse(errorLine(arguments)) + "\nCorrect them and call again."
	}
	return "NOT EXECUTED: " + recall.Defuse(errorLine(err))
}

// Notes is what [ToolText] says of a call behind the words of its tool; "" if there is
// nothing to say. It is for who shows the model the output itself.
func Notes(res Result) string { return strings.TrimSpace(res.Note + notes(&res)) }

// notes tell of what the call rests on, and that it was made before.
func notes(res *Result) string { return pendingText(res.Pending) + repeatedText(&res.Decision) }

// APIText is [ToolText] for a model that calls tools by their [APIName]: a tool that it is told
// to call has that name. The tool that was called keeps its own.
func APIText(res Result, err error) string {
	var denied *gate.DeniedError
	if !errors.Is(err, ErrTool) && errors.As(err, &denied) {
		named := gate.DeniedError{Decision: denied.Decision}
		named.Decision.Remedies = slices.Clone(named.Decision.Remedies)
		for i := range named.Decision.Remedies {
			if r := &named.Decision.Remedies[i]; r.Tool != "" {
				r.Tool = APIName(r.Tool)
			}
		}
		err = &named
	}
	return ToolText(res, err)
}

// Ambiguous is why arguments are refused that two readers could read differently: a name that
// is there twice, half a character. It is a [*gate.ArgumentError], and nil of others. A run
// refuses them too; an adapter that keeps the history of a conversation keeps them out of it,
// since a stricter server would refuse it from then on.
func Ambiguous(args json.RawMessage) error {
	var bad *gate.ArgumentError
	if _, err := gate.Canonical(args); errors.As(err, &bad) && (bad.Rule == "malformed" || bad.Rule == "duplicate_key") {
		return bad
	}
	return nil
}

// answered is what a tool said, with the last line that says how much is left out.
func answered(res Result) string {
	switch words := toolWords(res.Output); {
	case res.Note == "":
		return words
	case string(res.Output) == `""`:
		return res.Note
	default:
		return words + "\n" + res.Note
	}
}

// forged finds lines that begin like the system's own words about a call.
//
// A line begins behind whatever a model may take for the end of one, and what nobody sees
// before its first word does not count.
var forged = func() *regexp.Regexp {
	// Blanks, and what nobody sees: also between the letters.
	const unseen = `\p{Cc}\p{Cf}\p{Mn}\x{115F}\x{1160}\x{2800}\x{3164}\x{FFA0}\x{13441}\x{13442}\x{16FE4}\x{1D159}`
	var phrases []string
	for _, phrase := range []string{"NOT EXECUTED", "MAY HAVE BEEN DONE", "NOT SHOWN", "DONE:", "FAILED:", "Note of the system", "The first call answered", "The first call gave"} {
		var words []string
		for _, word := range strings.Fields(phrase) {
			words = append(words, strings.Join(strings.Split(word, ""), `[`+unseen+`]*`))
		}
		phrases = append(phrases, strings.Join(words, `[\p{Z}`+unseen+`]+`))
	}
	return regexp.MustCompile(`(?i)(?:^|[\n\r\v\f\x{85}\x{2028}\x{2029}])[\p{Z}` + unseen + `]*(` + strings.Join(phrases, "|") + `)`)
}()

// toolWords are what a tool said, for a model: it can begin no tag of memory, and a line that
// begins like the system's own words is quoted.
func toolWords(output json.RawMessage) string {
	text := recall.Defuse(outputText(output))
	var b strings.Builder
	from := 0
	for _, at := range forged.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(text[from:at[2]] + "> ")
		from = at[2]
	}
	return b.String() + text[from:]
}

// repeatedText tells a model that it has made a call a second time; "" if it has not.
func repeatedText(d *gate.Decision) string {
	for _, r := range d.Reasons {
		if r.Code == gate.AlreadyDone && r.Outcome == gate.Permit {
			return "\n\nNote of the system: the same call was made before, and it was done (" + recall.Defuse(clean(r.Detail, 300)) + "). It was made once more now."
		}
	}
	return ""
}

// maxPending is how many rows are named one by one.
const maxPending = 5

// pendingText tells a model that a call that only reads was made with what nobody has
// verified; "" if it was not.
func pendingText(ids []memory.ID) string {
	if len(ids) == 0 {
		return ""
	}
	var names []string
	for _, id := range ids[:min(len(ids), maxPending)] {
		names = append(names, string(id))
	}
	if more := len(ids) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return "\n\nNote of the system: the arguments came from what nobody has verified: " + strings.Join(names, ", ") +
		". The answer says nothing about whether that is right; say so if you use it."
}

func outputText(b json.RawMessage) string {
	text := legible(b)
	if strings.TrimSpace(text) == "" || text == "null" {
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
		return fmt.Sprintf("%s… (%d bytes left out)", cut, len(s)-len(cut))
	}
	return s
}
