// Package openai lets a model that speaks the OpenAI chat format call the tools
// of an agent, through github.com/sashabaranov/go-openai.
//
// The library has no runner, so the loop is here: [Chat] asks the model, answers
// its tool calls through [agent.Run.Call], and asks again until it calls none.
// [Answer] is the middle of it alone, for a program with a loop of its own.
//
// A denial is an answer to the model that names what is unverified and what would
// help (SR-6.3), never an error that ends the conversation. What the model is
// shown enters through the run: typed, quoted and handed-over text through
// Run.Input, memory through Run.Recall, the output of tools through Run.Call.
//
// What ends it is an error of the server, or a model that repeats a call that is denied or
// refused (*agent.StalledError). If calls were made before, the error is an *agent.CallsError
// that has them.
//
// A server holds the history to rules that its own model breaks, and refuses every later
// request then. So what a model sent is kept as strict servers take it back; see [Answer].
// Fields that the library does not know, such as signatures of thoughts, are lost in it; a
// server that demands them back refuses the next request.
//
// A call that is parked is answered at once, with a text that says it waits;
// [Chat.Resume], or [Resumed] in a loop of one's own, brings the result later.
package openai
