//go:build race

package transfer_test

func init() { long = 20_000 } // the detector makes all of it some ten times slower
