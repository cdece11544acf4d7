package witnesshttp

import "time"

// WithoutPauses has attempts follow each other at once.
func WithoutPauses() { pauses = []time.Duration{0, 0} }
