package asynqqueue

// For tests.
var (
	TaskID  = taskID
	CheckOf = check
)

// Payload is what a task says.
type Payload = payload
