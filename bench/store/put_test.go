package main

import (
	"testing"
)

func BenchmarkPut(b *testing.B) {
	_, s, err := open(b.Context(), openSQLite, b.TempDir(), false)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	subjects(b.Context(), s)
	i := 0
	for b.Loop() {
		must(s.Put(b.Context(), draft(i)))
		i++
	}
}
