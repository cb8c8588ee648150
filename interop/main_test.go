package interop

import (
	"flag"
	"testing"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

// Many kinds at once: the tests here wait, most of the time.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "20")
	locktest.Main(m)
}
