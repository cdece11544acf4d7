package restate_test

import (
	"fmt"

	"github.com/hearsay-go/hearsay/memory/admission/restate"
)

func Example() {
	row := restate.Of("User prefers Vim")
	for _, text := range []string{
		"As noted earlier, Vim is the user's favourite editor.",
		"Preferred editor: Vim",
		"The user no longer prefers Vim.",
		"The user prefers Vim over Emacs.",
		"The user confirmed that they prefer Vim.",
	} {
		v := restate.Compare(row, restate.Of(text))
		fmt.Printf("%s: %s\n", v.Relation(), v.Reason())
	}
	// Output:
	// restates: adds nothing typed
	// restates: adds nothing typed
	// different: polarity
	// different: name added
	// different: claims confirmation
}
