// Package sample chooses which cases run in a test that can try every case: every crash
// point of an operation, every byte of a file.
//
// A run of the tests takes a fixed sample. With HEARSAY_FULL=1 it takes every case.
package sample

import (
	"os"
	"slices"
)

// variable names the environment variable that asks for every case.
const variable = "HEARSAY_FULL"

// least is how many cases a sample has, if there are as many.
const least = 20

// Full reports whether every case is to run: HEARSAY_FULL is 1.
func Full() bool { return os.Getenv(variable) == "1" }

// Of returns the numbers of the cases that run, of n cases from 0, in ascending order. In a
// full run it returns all of them. Else it returns 20 cases, or 5 % if that is more, at even
// distances from the first to the last, and the first case of each kind beside them. It
// returns the same numbers each time. kind may be nil.
func Of(n int, kind func(i int) string) []int {
	return of(Full(), n, kind)
}

func of(full bool, n int, kind func(i int) string) []int {
	size := max(least, (n+19)/20)
	if full || n <= size {
		size = n
	}
	var list []int
	for i := range size {
		if size == 1 {
			list = append(list, 0)
			continue
		}
		list = append(list, i*(n-1)/(size-1))
	}
	if kind != nil && size < n {
		met := map[string]bool{}
		for i := range n {
			if k := kind(i); !met[k] {
				met[k] = true
				list = append(list, i)
			}
		}
		slices.Sort(list)
		list = slices.Compact(list)
	}
	return list
}
