// Command bench plays the recall-loop amplification bench; hearsay bench run is the same.
//
//	go run ./bench                        all scenarios and systems
//	go run ./bench -scenario S1 -seeds 5  one scenario under five seeds
//	go run ./bench -o json                an array of figures
//	go run ./bench -check                 exit status 4 if a target is missed
//
// docs/bench.md says what is played and measured.
package main

import (
	"os"

	"github.com/hearsay-go/hearsay/bench/rlab/command"
)

func main() { os.Exit(command.Main(os.Args[1:])) }
