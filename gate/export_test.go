package gate

import (
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Directly judges one row that was read, and Weighed does so by its reasons alone.
// until is how long the decision lasts for it.
func Directly(c Contract, now time.Time, h memory.Head, id memory.ID) (d Decision, until time.Time) {
	t := tighten(&c, Rule{}, now)
	d.direct(&t, &h, id)
	return d, d.until
}

func Weighed(c Contract, now time.Time, h memory.Head, id memory.ID) (d Decision, until time.Time) {
	t := tighten(&c, Rule{}, now)
	d.weigh(&t, &h, id)
	return d, d.until
}
