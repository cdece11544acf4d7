// Package mcp gates the tools of Model Context Protocol servers, through
// github.com/modelcontextprotocol/go-sdk.
//
// [Tools] makes the tools of a server into tools of an agent: its Run calls them
// like any other, after the gate. [OnlyGated] closes the way around. [Serve] is
// the other side: a server whose tools/call reaches the tools of a Run, and
// nothing else. A [Proxy] is both: it stands in front of a server, for an agent
// that is not built with this module.
//
// # What a server may say
//
// What a tool does to the world is declared by the embedder, never taken from the
// server. The annotations of a tool may only tighten: a tool that its server
// annotates without readOnlyHint is state-changing at least, one with
// destructiveHint irreversible. A tool that nobody declared fails [Tools].
//
// The output of a tool is third-party text, but for the fields that the embedder
// declares. If a result has structured content, that is the output, and JSON
// pointers point into it; its text blocks, which the protocol wants to say the
// same, are not shown to the model. A text that is one JSON object or array is
// read as that. A result with images, sounds or resources is recorded as a whole,
// and no pointer reaches into it. The _meta of a result reaches nobody.
//
// # Calls that wait
//
// A held call is answered at once. If its tool has agent.FiresWhenFree, the server makes
// it once its rows are verified, and its result is the answer to the same call made
// again; see [Serve] and docs/holds.md.
//
// # What is not covered
//
// The names, descriptions and schemas of a server's tools are shown to the model
// as if the embedder had written them: read them before you declare a tool. They
// are taken once; a server that changes them later changes nothing, unless it says so to a
// proxy ([Proxy.Recheck]). [Pins] hold them to what they were at the first start. Resources and
// prompts are no tools: a text that a program reads with its own session enters a
// run by agent.Run.Input, and a proxy passes none.
package mcp
