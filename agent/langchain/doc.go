// Package langchain gates the tools of agents built with
// github.com/tmc/langchaingo.
//
// [Tools] gives an agent's tools to the framework; each is a line to
// agent.Run.Call and to nothing else. [Gate] wraps a framework agent so that its
// executor gets only those, whatever tools it was built with. [Ask] runs an
// executor with both, and tells the run whose words it starts with.
//
// A tool of langchaingo takes one string and has no call id, and an error from
// one ends the whole run and loses its steps. Therefore nothing here gives an
// error to the executor: a denial, arguments that do not fit and a failure are
// observations for the model to read.
//
// What does end it, such as words of the model that cannot be parsed, comes out of [Ask] as an
// *agent.CallsError if calls were made before. A model that repeats a call that is denied or
// refused is stopped after the third time (*agent.StalledError).
//
// A call that is parked gives an observation that says it waits; [Resume] runs the
// executor again on its result.
//
// Text that reaches the model another way is not seen: fill prompts from
// Run.Recall and Run.Input, and wrap the executor's memory with [Memory].
package langchain
