package main

import (
	"testing"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/bench/stores"
)

func BenchmarkPut(b *testing.B) {
	_, s, err := stores.Open(b.Context(), "sqlite", b.TempDir(), false)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	subjects(b.Context(), s)
	i := 0
	for b.Loop() {
		report.Must(s.Put(b.Context(), draft(i)))
		i++
	}
}
