// Package testmain runs the tests of a package. Each TestMain of this module ends with
// [Run].
package testmain

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	_ "pgregory.net/rapid" // defines the flags that Run sets, in every test binary

	"github.com/hearsay-go/hearsay/internal/sample"
)

// The flags of rapid that say how property tests draw, and the variables in their place.
const seedFlag, checksFlag = "rapid.seed", "rapid.checks"

var variable = map[string]string{seedFlag: "RAPID_SEED", checksFlag: "RAPID_CHECKS"}

const (
	// fixed is the seed of all property tests, so that the result of a run does not
	// depend on what they draw.
	fixed = "20261125"
	// more is how many times as many draws a full run makes.
	more = 10
	// patience is how long goroutines have to end after the last test.
	patience = time.Minute
)

// Run runs the tests and exits. After them it calls each stop, which ends what tests share,
// and waits up to a minute until no goroutine is left. It exits with 1 if a test failed, a
// stop returned an error or a goroutine is left.
//
// Property tests draw from one fixed seed. With HEARSAY_FULL=1 each draws from a new seed, and
// ten times as often. The flags -rapid.seed and -rapid.checks and the variables RAPID_SEED
// and RAPID_CHECKS override this.
func Run(m *testing.M, stop ...func() error) { os.Exit(run(m, patience, stop...)) }

func run(m interface{ Run() int }, patience time.Duration, stop ...func() error) int {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	draws(sample.Full(), given)
	code := m.Run()
	for _, end := range stop {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if code != 0 {
		return code // a test that failed may have left anything
	}
	if err := leak(patience); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines are left after all tests:", err)
		return 1
	}
	return 0
}

// leak returns nil once no goroutine is left that tests or what they use started, and what
// is left when the patience is over.
func leak(patience time.Duration) error {
	for end := time.Now().Add(patience); ; {
		err := goleak.Find() // it waits, too, for less than a second
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// draws sets how property tests draw, where no flag that is given and no variable says so.
func draws(full bool, given map[string]bool) {
	unset := func(name string) bool { return !given[name] && os.Getenv(variable[name]) == "" }
	if !full && unset(seedFlag) {
		set(seedFlag, fixed)
	}
	if full && unset(checksFlag) {
		n, err := strconv.Atoi(flag.Lookup(checksFlag).DefValue)
		if err != nil {
			panic(err) // the flag is an int
		}
		set(checksFlag, strconv.Itoa(n*more))
	}
}

// Mark returns the environment variable HEARSAY_RUN as NAME=VALUE, by which a check finds
// the processes that a run left. A test that gives a child an environment of its own adds it.
func Mark() string { return "HEARSAY_RUN=" + os.Getenv("HEARSAY_RUN") }

// Seed makes the property tests that t runs draw once, from a seed that once failed. The
// test must not be parallel.
func Seed(t *testing.T, seed uint64) {
	t.Helper()
	value := strconv.FormatUint(seed, 10)
	t.Setenv(variable[seedFlag], value) // refuses a parallel test: flags are read without a lock
	for name, value := range map[string]string{seedFlag: value, checksFlag: "1"} {
		old := flag.Lookup(name).Value.String()
		set(name, value)
		t.Cleanup(func() { set(name, old) })
	}
}

// Drawn returns the seed of a test that draws by other means than rapid: the seed of the
// property tests or, where they have none, a new one. It logs the seed.
func Drawn(t *testing.T) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(flag.Lookup(seedFlag).Value.String(), 10, 64)
	if err != nil {
		panic(err) // the flag is a uint64
	}
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-rapid.seed=%d", seed)
	return seed
}

func set(name, value string) {
	if err := flag.Set(name, value); err != nil {
		panic(err) // a flag of rapid, and a number
	}
}
