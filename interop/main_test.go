package interop

import (
	"flag"
	"testing"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

// All kinds at once: the tests here wait, most of the time.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "12")
	locktest.Main(m)
}
