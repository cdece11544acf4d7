package report

import (
	"flag"
	"testing"
)

func TestAProgramHasNoFlagsOfALibrary(t *testing.T) {
	all := flag.NewFlagSet("promotion", flag.ContinueOnError)
	short := all.Bool("short", false, "fewer rows")
	all.Int("rapid.checks", 100, "of a library that the program links")
	own := ownFlags(all)
	if own.Lookup("rapid.checks") != nil || own.Lookup("short") == nil || own.Lookup("short").DefValue != "false" {
		t.Error("the flags are not those of the program")
	}
	if err := own.Parse([]string{"-short"}); err != nil || !*short {
		t.Errorf("its own flag does not reach it: %v", err)
	}
}
