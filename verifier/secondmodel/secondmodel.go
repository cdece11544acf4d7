package secondmodel

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

// Config says which model to ask. Name, BaseURL, Model and Family are required.
type Config struct {
	Name    string // of the verifier, as in evidence and errors
	BaseURL string // up to and without /chat/completions: "http://127.0.0.1:11434/v1"
	APIKey  string // "" sends none; it never appears in an error
	Model   string // as the server calls it
	// Family is the training prior of the model, spelled as in the asserter of
	// the rows that models of it write: they are compared byte by byte (SR-4.6).
	Family string
	// HTTPClient carries the requests; nil = a client that follows no redirect.
	HTTPClient *http.Client
	Timeout    time.Duration // for one claim, the whole answer included; 0 = 30 s
}

// MaxClaim is the length of the longest claim that is asked about, in bytes; a
// longer one is unclear.
const MaxClaim = 16 << 10

// Verifier asks one model. It is safe for concurrent use. It does not retry and
// has no breaker: put verifier.WithBreaker around it.
type Verifier struct {
	c      Config
	client *openai.Client
	// sampling is false for models that fix their temperature.
	sampling bool
}

// New returns a verifier that asks the model. Half a configuration, or a model
// that go-openai knows to be unfit for chat requests with a JSON schema, is an
// error that wraps verifier.ErrMisconfigured. No request is made.
func New(c Config) (*Verifier, error) {
	for _, f := range [...]struct{ name, value string }{
		{"Name", c.Name}, {"BaseURL", c.BaseURL}, {"Model", c.Model}, {"Family", c.Family},
	} {
		if strings.TrimSpace(f.value) == "" {
			return nil, misconfigured(c.Name, fmt.Errorf("secondmodel: no %s", f.name))
		}
	}
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, misconfigured(c.Name, errors.New("secondmodel: BaseURL is no http or https address"))
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.HTTPClient == nil {
		c.HTTPClient = &http.Client{
			Timeout:       c.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	config := openai.DefaultConfig(c.APIKey)
	config.BaseURL = c.BaseURL
	config.HTTPClient = strictDoer{c.HTTPClient}
	v := &Verifier{c: c, client: openai.NewClientWithConfig(config), sampling: true}
	validate := openai.NewReasoningValidator().Validate
	if validate(v.request("", "")) != nil {
		v.sampling = false
		if err := validate(v.request("", "")); err != nil {
			return nil, misconfigured(c.Name, fmt.Errorf("secondmodel: model %s: %w", c.Model, err))
		}
	}
	return v, nil
}

// Name returns the configured name.
func (v *Verifier) Name() string { return v.c.Name }

// Verify asks the model about the triple of the row, or about its text if it has
// no triple; the free text beside a triple is not sent. A row that a model of the
// same family wrote is unclear without a request: it could not be evidence. One that
// hides characters is never supported: the answer would not say of which spelling.
func (v *Verifier) Verify(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
	if err := ctx.Err(); err != nil {
		return verifier.Verdict{}, v.fail(ctx, err, nil)
	}
	if strings.EqualFold(row.Asserter.Family, v.c.Family) {
		return unclear("a model of the same family wrote the claim"), nil
	}
	claim := encodeClaim(row.Content)
	if len(claim) > MaxClaim {
		return unclear("the claim is too long to ask about"), nil
	}
	nonce := rand.Text()
	asking, cancel := context.WithTimeout(ctx, v.c.Timeout)
	defer cancel()
	response, err := v.client.CreateChatCompletion(asking, v.request(claim, nonce))
	if err != nil {
		return verifier.Verdict{}, v.fail(ctx, err, response.Header())
	}
	if len(response.Choices) == 0 {
		return verifier.Verdict{}, v.fail(ctx, errors.New("the answer has no choices"), response.Header())
	}
	return v.judge(row.Content, response, nonce), nil
}

// hides reports whether what is asked about has characters that nobody sees.
func hides(c memory.Content) bool {
	if !c.Typed() {
		return memory.Hides(c.Text)
	}
	return memory.Hides(c.Subject) || memory.Hides(c.Predicate) || memory.Hides(c.Object)
}

// request is the same for every claim but for the claim and the nonce.
func (v *Verifier) request(claim, nonce string) openai.ChatCompletionRequest {
	r := openai.ChatCompletionRequest{
		Model: v.c.Model,
		Messages: []openai.ChatCompletionMessage{
			{Role: openai.ChatMessageRoleSystem, Content: instructions + nonce},
			{Role: openai.ChatMessageRoleUser, Content: fenced(claim, nonce)},
		},
		ResponseFormat: &openai.ChatCompletionResponseFormat{
			Type: openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{
				Name: "verdict", Schema: answerSchema, Strict: true,
			},
		},
	}
	if v.sampling {
		r.Temperature = math.SmallestNonzeroFloat32 // 0 would be omitted
		//lint:ignore SA1019 many local servers know no other name for it
		r.MaxTokens = maxAnswerTokens
	} else {
		r.MaxCompletionTokens = maxReasoningTokens
	}
	return r
}

const (
	maxAnswerTokens    = 512
	maxReasoningTokens = 8192
)

// judge reads a response that arrived whole. Whatever is not exactly as asked is
// unclear.
func (v *Verifier) judge(c memory.Content, response openai.ChatCompletionResponse, nonce string) verifier.Verdict {
	if len(response.Choices) != 1 {
		return unclear("more than one choice")
	}
	choice := response.Choices[0]
	switch {
	case choice.FinishReason != openai.FinishReasonStop:
		return unclear("the answer did not finish: " + clean(string(choice.FinishReason)))
	case choice.Message.Refusal != "":
		return unclear("the model refused to answer")
	case len(choice.Message.ToolCalls) > 0 || choice.Message.FunctionCall != nil:
		return unclear("the model called a tool instead of answering")
	}
	a, err := decodeAnswer([]byte(choice.Message.Content))
	if err != nil {
		return unclear("the answer is off the schema: " + clean(err.Error()))
	}
	if a.nonce != nonce {
		return unclear("the answer belongs to another request")
	}
	match, respelled := verifier.MatchUnknown, false
	if c.Typed() && a.value != "" {
		match = verifier.CompareByType(c.Object, a.value)
		respelled = verifier.CompareExact(c.Object, a.value) == verifier.MatchUnknown
	}
	verdict := verifier.Verdict{Observed: a.value, Detail: a.reason}
	rests := a.value // what the evidence rests on
	var relation memory.Relation
	switch {
	case a.verdict == "supported" && match == verifier.MatchDifferent, a.verdict == "refuted" && match == verifier.MatchSame:
		return unclear("the answer contradicts itself")
	case a.verdict != "unclear" && respelled:
		return unclear("the answer spells the value otherwise")
	case a.verdict == "supported" && hides(c):
		return unclear("the claim has characters that nobody sees")
	case a.verdict == "supported":
		verdict.Outcome, relation = verifier.Supported, memory.RelationSupports
		verdict.Observed, rests = c.Object, c.Object
		if !c.Typed() {
			rests = c.Text
		}
	case a.verdict == "refuted":
		verdict.Outcome, relation = verifier.Refuted, memory.RelationContradicts
	default:
		verdict.Outcome = verifier.Unclear
		return verdict
	}
	sum := sha256.Sum256([]byte(rests))
	verdict.Evidence = memory.Evidence{
		Relation: relation, Rank: memory.RankSecondModel,
		Source: v.c.Model, Verifier: v.c.Name, Group: memory.Asserter{Family: v.c.Family}.Group(),
		Anchor: memory.Anchor{URI: "model:" + v.c.Model, Version: clean(response.Model), Hash: hex.EncodeToString(sum[:])},
		At:     time.Now().UTC().Round(0),
	}
	return verdict
}

func unclear(detail string) verifier.Verdict {
	return verifier.Verdict{Outcome: verifier.Unclear, Detail: detail}
}

// fail puts what CreateChatCompletion returned into its class.
func (v *Verifier) fail(ctx context.Context, err error, h http.Header) error {
	var api *openai.APIError
	var raw *openai.RequestError
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.As(err, &api):
		return v.refused(api.HTTPStatusCode, api.Message, h)
	case errors.As(err, &raw):
		return v.refused(raw.HTTPStatusCode, string(raw.Body), h)
	case errors.Is(err, errRedirect), errors.Is(err, openai.ErrChatCompletionInvalidModel):
		return misconfigured(v.c.Name, err)
	default:
		return &verifier.UnavailableError{Verifier: v.c.Name, RetryAfter: verifier.RetryAfter(h, time.Now()), Err: err}
	}
}

// refused classifies an HTTP status. The text of the server is kept for people,
// without the key: some servers repeat it.
func (v *Verifier) refused(status int, text string, h http.Header) error {
	if v.c.APIKey != "" {
		text = strings.ReplaceAll(text, v.c.APIKey, "[key]")
	}
	err := &verifier.Quote{Err: fmt.Errorf("HTTP %d", status), Text: clean(text)}
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
	default:
		if status >= 400 && status < 500 {
			return misconfigured(v.c.Name, err)
		}
	}
	return &verifier.UnavailableError{Verifier: v.c.Name, RetryAfter: verifier.RetryAfter(h, time.Now()), Err: err}
}

func misconfigured(name string, err error) error {
	return &verifier.MisconfiguredError{Verifier: name, Err: err}
}

// clean makes one short line of what the server wrote.
func clean(s string) string {
	const most = 200
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
