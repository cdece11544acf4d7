package secondmodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/memory"
)

const (
	maxBody   = 1 << 20 // bytes of a response
	maxNested = 32      // levels of JSON
)

var (
	errJSON     = errors.New("not strict JSON")
	errAnswer   = errors.New("not an answer")
	errRedirect = errors.New("the server redirects")
	errError    = errors.New("the server answered 200 and an error")
)

// checkJSON reports whether b is one JSON value that every decoder reads alike:
// valid UTF-8, nothing after it, no object with a key twice, not even in another
// letter case. encoding/json would take the last of {"verdict":…,"VERDICT":…},
// and so let whoever writes the second one choose.
func checkJSON(b []byte) error {
	if !utf8.Valid(b) {
		return fmt.Errorf("%w: not UTF-8", errJSON)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := checkValue(d, maxNested); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more than one value", errJSON)
	}
	return nil
}

func checkValue(d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return fmt.Errorf("%w: %w", errJSON, err)
	}
	open, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	if depth == 0 {
		return fmt.Errorf("%w: nested too deep", errJSON)
	}
	keys := map[string]bool{}
	for d.More() {
		if open == '{' {
			t, err := d.Token()
			if err != nil {
				return fmt.Errorf("%w: %w", errJSON, err)
			}
			key, ok := t.(string)
			if !ok {
				return fmt.Errorf("%w: a key that is no string", errJSON)
			}
			if key = memory.FoldMember(key); keys[key] {
				return fmt.Errorf("%w: a key twice", errJSON)
			}
			keys[key] = true
		}
		if err := checkValue(d, depth-1); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("%w: %w", errJSON, err)
	}
	return nil
}

// answer is what the model says.
type answer struct{ nonce, reason, verdict, value string }

// decodeAnswer accepts exactly the four keys of the schema, each once, each a
// string of at most 4 KiB, and one of the three verdicts.
func decodeAnswer(b []byte) (answer, error) {
	var a answer
	if err := checkJSON(b); err != nil {
		return answer{}, err
	}
	var fields map[string]json.RawMessage // matches keys exactly
	if err := json.Unmarshal(b, &fields); err != nil || fields == nil {
		return answer{}, fmt.Errorf("%w: no object", errAnswer)
	}
	for _, f := range [...]struct {
		key   string
		value *string
	}{{"nonce", &a.nonce}, {"reason", &a.reason}, {"verdict", &a.verdict}, {"value", &a.value}} {
		raw, ok := fields[f.key]
		if !ok {
			return answer{}, fmt.Errorf("%w: no %s", errAnswer, f.key)
		}
		if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, f.value) != nil {
			return answer{}, fmt.Errorf("%w: %s is no string", errAnswer, f.key)
		}
		if len(*f.value) > memory.MaxField {
			return answer{}, fmt.Errorf("%w: %s is too long", errAnswer, f.key)
		}
		delete(fields, f.key)
	}
	if len(fields) > 0 {
		return answer{}, fmt.Errorf("%w: a key that was not asked for", errAnswer)
	}
	switch a.verdict {
	case "supported", "refuted", "unclear":
		return a, nil
	}
	return answer{}, fmt.Errorf("%w: no such verdict", errAnswer)
}

// strictDoer reads the whole response before go-openai does, so that a body
// without end, a redirect, an "error" that comes with status 200, or an envelope
// that two decoders would read differently never looks like an answer.
type strictDoer struct{ client *http.Client }

func (d strictDoer) Do(r *http.Request) (*http.Response, error) {
	response, err := d.client.Do(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if closed := response.Body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, fmt.Errorf("the answer broke off: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	switch {
	case response.StatusCode >= 400:
		response.Body = io.NopCloser(bytes.NewReader(body[:min(len(body), maxBody)]))
		return response, nil
	case response.StatusCode >= 300:
		return nil, errRedirect
	case len(body) > maxBody:
		return nil, fmt.Errorf("an answer of more than %d bytes", maxBody)
	}
	if err := checkJSON(body); err != nil {
		return nil, err
	}
	var envelope struct {
		Error any `json:"error"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return nil, fmt.Errorf("%w: %w", errJSON, err)
	}
	if envelope.Error != nil {
		return nil, errError
	}
	return response, nil
}
