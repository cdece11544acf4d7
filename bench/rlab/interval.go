package rlab

import (
	"fmt"
	"math"
)

// Rate is how often something happened of how many times it could.
type Rate struct{ K, N int }

// Add counts one time more.
func (r *Rate) Add(happened bool) {
	if r.N++; happened {
		r.K++
	}
}

// Value is the share; 0 of nothing.
func (r Rate) Value() float64 {
	if r.N == 0 {
		return 0
	}
	return float64(r.K) / float64(r.N)
}

// Wilson is the 95 % interval of the share (Wilson 1927, z = 1.96). Of nothing it is 0 to 1.
func (r Rate) Wilson() (low, high float64) {
	if r.N == 0 {
		return 0, 1
	}
	const z = 1.959963984540054
	n, p := float64(r.N), r.Value()
	middle := p + z*z/(2*n)
	spread := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	whole := 1 + z*z/n
	if low = (middle - spread) / whole; r.K == 0 {
		low = 0 // but for rounding
	}
	if high = (middle + spread) / whole; r.K == r.N {
		high = 1
	}
	return low, high
}

// String is "3/40 [2.6–19.9 %]".
func (r Rate) String() string {
	if r.N == 0 {
		return "–"
	}
	low, high := r.Wilson()
	return fmt.Sprintf("%d/%d [%s–%s %%]", r.K, r.N, percent(low), percent(high))
}

// percent has two significant digits below one percent, and one decimal above.
func percent(share float64) string {
	switch p := 100 * share; {
	case p == 0 || p == 100:
		return fmt.Sprint(p)
	case p < 1:
		return fmt.Sprintf("%.2g", p)
	default:
		return fmt.Sprintf("%.1f", p)
	}
}
