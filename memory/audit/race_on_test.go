//go:build race

package audit_test

// slow says that the race detector makes all of this ten times slower: what is
// asked of every entry is then asked of a shorter log.
const slow = true
