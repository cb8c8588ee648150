package interop

import (
	"flag"
	"testing"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

// Many tests run at the same time, because they mostly wait.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "20")
	locktest.Main(m)
}
