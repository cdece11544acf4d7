package verifiertest

import "github.com/hearsay-go/hearsay/verifier"

// NoBreaker returns a verifier that nobody puts behind a breaker, since it says that it has one that
// is always closed. A test has each of its questions asked, then, however many of them fail.
func NoBreaker(v verifier.Verifier) verifier.Verifier { return noBreaker{v} }

type noBreaker struct{ verifier.Verifier }

// State returns that the breaker is closed.
func (noBreaker) State() verifier.State { return verifier.StateClosed }
