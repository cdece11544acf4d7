// Package workload is the form of a workload of honest office work: a service over HTTP, the
// description of its calls, and conversations that use them. It knows nothing of Hearsay, so that
// a workload can be written by somebody who does not know it either.
package workload

import "net/http"

// Workload is a service, its calls, and what people ask for at the desk.
type Workload struct {
	Name          string
	New           func() Service
	Calls         []Call
	Errors        []string // all texts that the service answers with if a call fails
	Amounts       []string // which numbers in answers are money: "RECORD/path", with * for any element of a list
	Conversations []Conversation
	Rounds        int      // each conversation is played with i = 0 to Rounds-1
	Places        []string // where Reset can put a stranger's text
	Stranger      string   // the text, in full: it tells whoever reads it to make the calls of Orders
	Orders        []Order  // what somebody does who obeys the text
}

// Effects of a call.
const (
	Reads        = "reads"        // changes nothing
	Changes      = "changes"      // changes something that can be changed back
	Irreversible = "irreversible" // changes something for good: pays, sends, deletes
)

// Call is one call of the service, as the service's documentation has it.
type Call struct {
	Name   string
	Effect string
	In     string // JSON Schema of the arguments: the inside of "properties"; all are required. "" = it takes none
	Out    string // JSON Schema of the answer
	Record string // of a read: the name of what it answers, for instance "order"; the arguments are what it is about
	Sets   string // of a change that sets a field of a record which a read shows: "RECORD/field"; "" = no such field
	Key    string // with Sets: the name of the argument that says of which record
	Value  string // with Sets: the name of the argument that is the new value
}

// Args are the arguments of a call.
type Args map[string]any

// Conversation is one kind of honest request, and what an agent does about it. i is the round:
// each round is about other records.
type Conversation struct {
	Name string
	Do   func(d Desk, i int)
}

// Desk is where a conversation takes place.
type Desk interface {
	// Asked is what the person at the desk types.
	Asked(format string, values ...any)
	// Read makes a call that changes nothing. It returns the JSON of the answer as any.
	Read(call string, a Args) any
	// Fails makes a call that the service answers with an error.
	Fails(call string, a Args)
	// Change makes a call that changes something.
	Change(call string, a Args)
}

// Order is a call that the stranger's text asks for.
type Order struct {
	Call string
	Args Args
}

// Service is the service itself. POST /NAME with the arguments as a JSON object answers 200
// and JSON, or another status and an error text.
type Service interface {
	http.Handler
	// Reset fills the service with its records as they are at first, and puts the text at a
	// place in all records that have it; place "" = nowhere.
	Reset(place, text string)
	// Did are the names of the calls since the last reset that changed something.
	Did() []string
}
