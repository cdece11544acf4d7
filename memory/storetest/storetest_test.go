package storetest_test

import (
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func newMap(*testing.T) memory.Driver { return storetest.NewMap() }

func TestTheReferenceDriverKeepsTheContract(t *testing.T) { storetest.Run(t, newMap) }

func TestTheReferenceDriverAgreesWithItself(t *testing.T) { storetest.Compare(t, newMap) }
