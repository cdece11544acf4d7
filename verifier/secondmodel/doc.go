// Package secondmodel asks a language model of another family whether a claim is
// right (SR-4.3). Any server that speaks the OpenAI chat completions format will
// do: OpenAI, vLLM, llama.cpp, Ollama.
//
// Its evidence has rank second_model and the independence group of the model's
// family, so models of one training prior count once (SR-4.6, D-22), and by I-4
// it verifies rows of low criticality only, and two families are needed.
//
// The claim is data. It travels as one JSON object in which nothing can close a
// string, start a chat-template token or hide, between two lines that carry a
// token made for this one request; the answer must repeat the token. A model can
// still be talked into an answer by the claim itself: no prompt prevents that, it
// is why one such verdict never suffices.
//
// What the server may do wrong, and what it then means:
//
//	connection refused or closed, time out, 408, 425, 429, 5xx      unavailable
//	200 that is no JSON, has a key twice, "error", or no choice     unavailable
//	400, 401, 404 and the other 4xx, a redirect, an unusable model  misconfigured
//	finish reason other than stop, refusal, answer off the schema,
//	the token of another request, a verdict its value contradicts   unclear
//	ctx cancelled by the caller                                     context.Canceled
//	finished, schema-valid, verdict "refuted"                       refuted, and nothing else is
//
// A Retry-After header becomes the RetryAfter of the error.
package secondmodel
