package rlab

// Mislabel has a run label its claims by another rule than the truth: the first claim as the
// rule says of 0, the next of 1, and so on.
func Mislabel(o Options, rule func(n int) (isTrue bool, origins int)) Options {
	n := -1
	o.mislabel = func(label) label {
		n++
		isTrue, origins := rule(n)
		return label{isTrue, origins}
	}
	return o
}
