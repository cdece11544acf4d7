package roster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/verifier"
)

// maxAnswer is the most bytes of one answer of a source.
const maxAnswer = 1 << 20

// httpSource asks a system of record over HTTP, blind: the URL has the subject
// and the predicate and never the claimed value.
type httpSource struct {
	name   string
	url    *url.URL
	token  string
	client *http.Client
	now    func() time.Time
}

// ask is a [verifier.Ask]. Only a 200 that can be read to the end is an answer.
// What asking again may mend (a timeout, 408, 425, 429, 5xx, a body that is no JSON
// or says that there was an error) is an outage; what it cannot (another 4xx, a
// redirect) is a misconfiguration; JSON of another form than was agreed decides
// nothing. Errors hold no part of the question.
func (s *httpSource) ask(ctx context.Context, q verifier.Question) (verifier.Answer, error) {
	u := *s.url
	query := u.Query()
	query.Set("subject", q.Subject)
	query.Set("predicate", q.Predicate)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return verifier.Answer{}, s.misconfigured(errors.New("the URL makes no request"))
	}
	req.Header.Set("Accept", "application/json")
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		var wrapped *url.Error // its text has the URL, and with it the question
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return verifier.Answer{}, s.unavailable(0, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode == http.StatusOK:
	case resp.StatusCode == http.StatusRequestTimeout, resp.StatusCode == http.StatusTooEarly,
		resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode >= http.StatusInternalServerError:
		return verifier.Answer{}, s.unavailable(verifier.RetryAfter(resp.Header, s.now()), fmt.Errorf("status %d", resp.StatusCode))
	case resp.StatusCode >= http.StatusMultipleChoices:
		return verifier.Answer{}, s.misconfigured(fmt.Errorf("status %d", resp.StatusCode))
	default:
		return verifier.Answer{}, s.unavailable(0, fmt.Errorf("status %d", resp.StatusCode))
	}
	if err != nil {
		return verifier.Answer{}, s.unavailable(0, fmt.Errorf("the answer broke off: %w", err))
	}
	if len(body) > maxAnswer {
		return verifier.Answer{}, s.unavailable(0, fmt.Errorf("an answer of more than %d bytes", maxAnswer))
	}
	a, err := decodeAnswer(body)
	if err != nil && !errors.Is(err, verifier.ErrAnswer) {
		return verifier.Answer{}, s.unavailable(0, err)
	}
	return a, err
}

func (s *httpSource) unavailable(after time.Duration, err error) error {
	return &verifier.UnavailableError{Verifier: s.name, RetryAfter: after, Err: err}
}

func (s *httpSource) misconfigured(err error) error {
	return &verifier.MisconfiguredError{Verifier: s.name, Err: err}
}

// decodeAnswer reads {"found":…,"value":…,…}. Fields of other names are the
// source's own business; ours must be there once, spelled so, and fit together. The
// error is [verifier.ErrAnswer] for JSON that is something else.
func decodeAnswer(body []byte) (verifier.Answer, error) {
	if !utf8.Valid(body) || !json.Valid(body) {
		return verifier.Answer{}, errors.New("the answer is no JSON")
	}
	if repeatedKey(body) != "" {
		return verifier.Answer{}, off("it has a field twice")
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields == nil {
		return verifier.Answer{}, off("it is no JSON object")
	}
	switch string(fields["error"]) {
	case "", "null", "false", `""`:
	default: // what it knows of the error is for its own people
		return verifier.Answer{}, errors.New("the source answered 200 and an error")
	}
	var (
		a     verifier.Answer
		found *bool
	)
	for name, into := range map[string]any{"found": &found, "complete": &a.Complete, "uri": &a.URI, "version": &a.Version} {
		if raw, ok := fields[name]; ok && json.Unmarshal(raw, into) != nil {
			return verifier.Answer{}, off("its field " + name + " is of the wrong type")
		}
	}
	if found == nil {
		return verifier.Answer{}, off("it does not say found")
	}
	a.Found = *found
	if raw, ok := fields["value"]; ok && string(raw) != "null" && (a.Found || string(raw) != `""`) {
		v, err := scalar(raw)
		if err != nil {
			return verifier.Answer{}, err
		}
		a.Value = v
	}
	if raw, ok := fields["values"]; ok && string(raw) != "null" {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return verifier.Answer{}, off("its field values is no list")
		}
		for _, item := range list {
			v, err := scalar(item)
			if err != nil {
				return verifier.Answer{}, err
			}
			a.Values = append(a.Values, v)
		}
	}
	if a.Found != (a.Value != "" || len(a.Values) > 0) {
		return verifier.Answer{}, off("it says found and no value, or a value and not found")
	}
	return a, nil
}

// off says how an answer leaves the form.
func off(text string) error { return fmt.Errorf("%w: %s", verifier.ErrAnswer, text) }

// scalar reads a string, a number (as it is written) or a truth value.
func scalar(raw json.RawMessage) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	tok, err := dec.Token()
	if err == nil {
		switch v := tok.(type) {
		case string:
			if strings.TrimSpace(v) == "" {
				return "", off("a value is empty")
			}
			return v, nil
		case json.Number:
			return v.String(), nil
		case bool:
			return fmt.Sprint(v), nil
		}
	}
	return "", off("a value is no string, number or truth value")
}

// sourceClient asks systems of record. It follows no redirect: the question goes
// where the operator said and nowhere else.
func sourceClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 16
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
