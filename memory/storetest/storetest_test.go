package storetest_test

import (
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func newMap(*testing.T) memory.Driver { return storetest.NewMap() }

func TestTheReferenceDriverKeepsTheContract(t *testing.T) { storetest.Run(t, newMap) }

func TestTheReferenceDriverAgreesWithItself(t *testing.T) { storetest.Compare(t, newMap) }

func TestWhoeverEditsTheMapIsFound(t *testing.T) { storetest.RunEdits(t, newMap) }

func TestTheWordsOfAClaimAreKeptBesideItAndVerifiedWithNothing(t *testing.T) {
	storetest.RunQuotations(t, newMap)
}

func TestNoObjectCanBeForged(t *testing.T) { storetest.RunForgery(t, newMap) }

func TestNobodyHidesARowFromItsRivals(t *testing.T) { storetest.RunRivals(t, newMap) }

func TestWhatMayBeReliedOnIsFoundAmongManyOthers(t *testing.T) { storetest.RunFlood(t, newMap) }
