package agent

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/admission"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// ask notes which of the principal's words a third party was asked about: those that
// stand in what a tool, or memory, was asked for before it answered with text that
// nobody vouches for. Such a word was typed so that the text is read. It does not say
// that anything be sent there, and the text may ask for that. What is put together from
// several words, or written without its blanks and dashes, is asked about too.
func (l *ledger) ask(questions []string) {
	l.mu.Lock()
	typed := slices.Clone(l.typed)
	l.mu.Unlock()
	if len(typed) == 0 || len(questions) == 0 {
		return
	}
	asked := map[string]bool{}
	for _, q := range questions {
		for _, q := range spellings(q) {
			text, words := plain(q), map[string]bool{}
			for _, w := range wordsOf(q) {
				words[w] = true
			}
			for _, said := range typed {
				for _, word := range wordsOf(said) {
					if !asked[word] && (admission.HasWord(text, word) || slices.ContainsFunc(parts(word), func(p string) bool { return words[p] })) {
						asked[word] = true
					}
				}
				joined := joinedText(said)
				for w := range words {
					for _, part := range parts(w) {
						if part != w && !strings.ContainsFunc(part, unicode.IsDigit) {
							continue // a word within a word, as of a host, names nobody
						}
						if b := joinedText(part); utf8.RuneCountInString(b) >= joinedToken && !asked[joinedMark+b] && strings.Contains(joined, b) {
							asked[joinedMark+b] = true
						}
					}
				}
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.Copy(l.asked, asked)
}

const (
	joinedMark  = "=" // begins what was asked about without its blanks and dashes; no word does
	joinedToken = 5   // characters that such a thing has at least
	maxParts    = 64  // of one word
)

// spellings are a question as it is, and as the addressed server may read it.
func spellings(q string) []string {
	if read, err := url.PathUnescape(q); err == nil && read != q {
		return []string{q, read}
	}
	return []string{q}
}

// joinedText is a text without all that is no letter and no digit.
func joinedText(text string) string {
	return strings.Map(func(r rune) rune {
		if letterOrDigit(r) {
			return r
		}
		return -1
	}, plain(text))
}

// parts are what stands in a word between characters that are no letters or digits: each
// one, and those that follow one another.
func parts(word string) (out []string) {
	var starts, ends []int
	in := false
	for i, r := range word {
		if letterOrDigit(r) != in {
			if in = !in; in {
				starts = append(starts, i)
			} else {
				ends = append(ends, i)
			}
		}
	}
	if in {
		ends = append(ends, len(word))
	}
	for i := range starts {
		for j := i; j < len(ends) && len(out) < maxParts; j++ {
			out = append(out, word[starts[i]:ends[j]])
		}
	}
	return out
}

// wasAsked reports whether a value is, or has in it, or is part of, a word that a third
// party was asked about.
func (l *ledger) wasAsked(value string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.asked) == 0 {
		return false
	}
	text, words, joined := plain(value), wordsOf(value), joinedText(value)
	for word := range l.asked {
		if b, is := strings.CutPrefix(word, joinedMark); is {
			if strings.Contains(joined, b) || utf8.RuneCountInString(joined) >= joinedToken && strings.Contains(b, joined) {
				return true
			}
			continue
		}
		if admission.HasWord(text, word) || slices.ContainsFunc(words, func(w string) bool { return admission.HasWord(word, w) }) {
			return true
		}
	}
	return false
}

// askedBefore takes over what was asked about before the run was saved.
func (l *ledger) askedBefore(words []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range words {
		l.asked[w] = true
	}
}

// askedWords are what was asked about, in order.
func (l *ledger) askedWords() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]string, 0, len(l.asked))
	for w := range l.asked {
		out = append(out, w)
	}
	slices.Sort(out)
	return out
}

// wordsOf are the words of a text that are long enough to mean somebody.
func wordsOf(text string) (out []string) {
	for w := range strings.FieldsFuncSeq(plain(text), func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`,;<>()[]{}"'’“”`, r) }) {
		if w = strings.TrimFunc(w, func(r rune) bool { return !letterOrDigit(r) }); utf8.RuneCountInString(w) >= shortToken {
			out = append(out, w)
		}
	}
	return out
}

func plain(text string) string { return strings.ToLower(memory.Plain(text)) }

func letterOrDigit(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// questions are the arguments of a call that only say what is to be looked up: all of a
// tool that changes nothing, and of another one those that are no sink.
func questions(t *Tool, call *bound) (out []string) {
	if t.contract.Effect != gate.ReadOnly && len(t.contract.Sinks) == 0 {
		return nil
	}
	walk("", decode(call.args), t.schema, func(at string, leaf any) {
		if t.contract.Effect != gate.ReadOnly && slices.ContainsFunc(t.contract.Sinks, func(p string) bool { return at == p || strings.HasPrefix(at, p+"/") }) {
			return
		}
		if s, ok := scalar(leaf); ok {
			out = append(out, s)
		}
	})
	return out
}

// asks is what a query to memory asks about. The whole of what the principal typed asks
// nobody in particular.
func (r *Run) asks(q recall.Query) []string {
	out := []string{q.Subject}
	if text := strings.TrimSpace(q.Text); text != "" && !r.ledger.typedWhole(text) {
		out = append(out, text)
	}
	return out
}

// typedWhole reports whether the principal typed exactly a text.
func (l *ledger) typedWhole(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.typed, func(t string) bool { return strings.TrimSpace(t) == text })
}

// unfit reports whether the run was shown a row, of some, that nobody vouches for.
func (l *ledger) unfit(ids []memory.ID) bool {
	return slices.ContainsFunc(ids, func(id memory.ID) bool { return !l.fit(id) })
}
