package document

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

// Pin says which document, and which version of it.
type Pin struct {
	URI string // https://HOST/… or file:///…
	// SHA256 of all of the document, in hexadecimal; "" = whatever is there. A document
	// that is not the pinned one answers nothing: [verifier.ErrGone].
	SHA256 string
}

func (p *Pin) check() error {
	if p.URI == "" {
		return errors.New("document: no address")
	}
	if b, err := hex.DecodeString(p.SHA256); err != nil || len(b) != 0 && len(b) != 32 {
		return errors.New("document: the pin is no SHA-256 in hexadecimal")
	}
	return nil
}

func (p *Pin) get(ctx context.Context, f *Fetcher) (Page, error) {
	page, err := f.Get(ctx, p.URI)
	if err == nil && p.SHA256 != "" && !strings.EqualFold(page.SHA256, p.SHA256) {
		return Page{}, fmt.Errorf("%w: it is not the version that was pinned", verifier.ErrGone)
	}
	if err == nil && !utf8.Valid(page.Bytes) {
		return Page{}, unreadable("the document is not UTF-8")
	}
	return page, err
}

// Table is a table in CSV whose first line names the columns: one line a fact.
type Table struct {
	Pin
	Subject string // the column that names what a line is about
	// Columns says which column has the values of a predicate.
	Columns map[string]string
	// Complete says that the table lists every value there is: a value that is missing
	// from a line that is there is then refuted.
	Complete bool
}

// Ask returns the question that the table answers. A table without an address, a
// subject or a column is an error.
func (t Table) Ask(f *Fetcher) (verifier.Ask, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	if t.Subject == "" || len(t.Columns) == 0 {
		return nil, errors.New("document: a table has a subject column and a column for each predicate")
	}
	columns := map[string]string{}
	for predicate, column := range t.Columns {
		columns[memory.Canonical(predicate)] = column
	}
	return func(ctx context.Context, q verifier.Question) (verifier.Answer, error) {
		column, ok := columns[memory.Canonical(q.Predicate)]
		if !ok {
			return verifier.Answer{}, nil
		}
		page, err := t.get(ctx, f)
		if err != nil {
			return verifier.Answer{URI: t.URI}, err
		}
		return t.look(page, q, column)
	}, nil
}

func (t *Table) look(page Page, q verifier.Question, column string) (verifier.Answer, error) {
	text := bytes.TrimPrefix(page.Bytes, []byte("\xef\xbb\xbf"))
	r := csv.NewReader(bytes.NewReader(text))
	head, err := r.Read()
	if err != nil || bytes.HasPrefix(bytes.TrimSpace(text), []byte("<")) { // a page of HTML is a table of one column
		return verifier.Answer{}, unreadable("the document is no CSV")
	}
	head = slices.Clone(head)
	subject, value := slices.Index(head, t.Subject), slices.Index(head, column)
	if subject < 0 || value < 0 || slices.Index(head[subject+1:], t.Subject) >= 0 || slices.Index(head[value+1:], column) >= 0 {
		return verifier.Answer{}, fmt.Errorf("%w: the table has no such column, or has it twice", verifier.ErrAnswer)
	}
	a := verifier.Answer{URI: page.URI, Version: page.Version}
	var lines []string
	for {
		line, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return verifier.Answer{}, unreadable("the document is no CSV")
		}
		if !memory.SameName(strings.TrimSpace(line[subject]), q.Subject) { // one spelled alike is another
			continue
		}
		a.Found = true
		if memory.Canonical(line[value]) != "" {
			a.Values = append(a.Values, strings.TrimSpace(line[value])) // the blanks are of the table
			lines = append(lines, line[subject]+"\x1f"+line[value])
		}
	}
	a.Complete = a.Found && t.Complete
	a.Excerpt = strings.Join(lines, "\n")
	return a, nil
}

// unreadable is what may be another document the next time: half of it, or a page that
// a proxy put in its place.
func unreadable(text string) error { return &verifier.UnavailableError{Err: errors.New(text)} }

// Text is prose, and the patterns that find the value of a predicate in it.
type Text struct {
	Pin
	// Subject is what all of the document is about; a question about anything else is
	// not answered.
	Subject string
	// Patterns has a regular expression (RE2) for each predicate, with one group, which
	// is the value. All places where it matches count.
	Patterns map[string]string
}

// Ask returns the question that the document answers. A pattern that is none, or
// has not exactly one group, is an error.
func (d Text) Ask(f *Fetcher) (verifier.Ask, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	if memory.Canonical(d.Subject) == "" || len(d.Patterns) == 0 {
		return nil, errors.New("document: prose has a subject, and a pattern for each predicate")
	}
	patterns := map[string]*regexp.Regexp{}
	for predicate, text := range d.Patterns {
		p, err := regexp.Compile(text)
		if err != nil || p.NumSubexp() != 1 {
			return nil, fmt.Errorf("document: the pattern for %q is no regular expression with one group", predicate)
		}
		patterns[memory.Canonical(predicate)] = p
	}
	return func(ctx context.Context, q verifier.Question) (verifier.Answer, error) {
		p := patterns[memory.Canonical(q.Predicate)]
		if p == nil || !memory.SameName(q.Subject, d.Subject) {
			return verifier.Answer{}, nil
		}
		page, err := d.get(ctx, f)
		if err != nil {
			return verifier.Answer{URI: d.URI}, err
		}
		a := verifier.Answer{URI: page.URI, Version: page.Version}
		var excerpts []string
		for _, m := range p.FindAllSubmatch(page.Bytes, verifier.MaxValues) {
			a.Found = true
			a.Values = append(a.Values, string(m[1]))
			excerpts = append(excerpts, string(m[0]))
		}
		a.Excerpt = strings.Join(excerpts, "\n")
		return a, nil
	}, nil
}
