package rental

import (
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
)

func TestMain(m *testing.M) { testmain.Run(m) }
