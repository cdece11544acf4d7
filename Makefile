# The commands of the checks. .ci/run and .ci/full call these targets.

BIN ?= bin
PACKAGES ?= ./...
TESTFLAGS ?=
STATICCHECK = go tool -modfile="$(CURDIR)/.ci/tools.mod" staticcheck

# These tests try every case of something, or take one long input. With the race detector they
# take three times as long; other tests of their packages race the same code. In the first two, which have
# many goroutines in a bubble of testing/synctest, the detector of Go 1.26 fails itself (golang/go#78156).
# promotion/servehand_test.go is built without it for the same reason.
NO_RACE = ScopesWithNothingToDoCostLittle|ALongListTakesNoRoomFromOtherScopes|EveryCrashPointLeavesAWholeStore|EveryChangeOfAnExportIsFound|EveryChangeOfALogIsFound|EveryByteOfAnExportCounts|TheSuiteFindsEveryFaultyDriver|EveryWayToAToolIsListed|ManyTargetsAreLookedUp|TargetsOfTheLongestArgumentsAreFound|ACallWithManyTargetsIsDecided|ALongQuestionIsNoted|ErasureReadsLongTexts|AnAnswerThatIsTooLongIsNotRead

# These tests start no goroutine, and take seconds with the race detector. Other tests race what
# they call. .ci/run leaves them
# out; .ci/full race empties this list.
ONE_GOROUTINE = LS5AMoveOnOneAxisMovesNoOther|ARowThatDoesNotFitIsRefusedAlone|I11DecisionsAreFoundThroughTheirLedger|APointInTimeIsWhatItWas|NothingThatHappensBetweenTwoReadsIsTakenForTampering|ArgumentsThatTakeTooLongAreRefused|ASchemaThatIsUsualIsTaken|ALongOutputIsRecordedWhole|OneLookClearsARowOfWhichNothingIsFound|Spoofing|TheLargestLineageFires|ARingDoesAsAModelDoes|WhoeverEditsTheFileIsFound|ALossOfPowerTakesNothingAcknowledgedWithFullAndNeverHalfABatch|ALineageOfTenThousandRowsIsAnsweredWholeAndALargerOneRefused

.PHONY: help modules lint lint-nested build test race benchmarks check check-full
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

modules: ## verify the modules, and that go.mod is tidy
	go mod verify
	go mod tidy -diff

lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(git ls-files -z '*.go' | xargs -0 -r gofmt -l) || exit 1; [ -z "$$unformatted" ] || { echo "not formatted: $$unformatted" >&2; exit 1; }
	go vet ./...
	$(STATICCHECK) ./...

lint-nested: ## tidy, go vet, staticcheck of the module in DIR
	cd "$(DIR)" && go mod tidy -diff && go vet ./... && $(STATICCHECK) ./...

build: ## build all programs into BIN (bin)
	@mkdir -p "$(BIN)"
	go build -o "$(BIN)/" ./...

test: ## go test PACKAGES (./...), with TESTFLAGS; HEARSAY_FULL=1 tries every case
	go test -timeout 30m $(TESTFLAGS) $(PACKAGES)

# The engine of SQLite is C made into Go. It shares nothing with goroutines but what our code
# hands it, and with it instrumented its tests take eight times as long.
race: ## go test -race PACKAGES (./...), with TESTFLAGS, without NO_RACE and ONE_GOROUTINE
	go test -race -count=1 -timeout 30m -vet=off -gcflags='modernc.org/...=-race=false' -skip '^Test($(NO_RACE)|$(ONE_GOROUTINE))$$' $(TESTFLAGS) $(PACKAGES)

benchmarks: ## run each benchmark of the tests once
	go test -run '^$$' -timeout 30m -vet=off -bench . -benchtime 1x $(PACKAGES)

check: ## what must be green before a change lands: .ci/run
	.ci/run

check-full: ## everything: .ci/full
	.ci/full
