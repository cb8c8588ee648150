package redistest

import (
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/childproc"
)

// Main is what a TestMain calls: in a child process it runs the child's entry (see childproc), otherwise it
// runs the tests, ends the shared server, checks that no goroutine is left, and exits.
func Main(m *testing.M, opts ...goleak.Option) {
	childproc.Main()
	goleak.VerifyTestMain(tests{m}, opts...)
}

var ends []func()

// AtEnd has end called when all tests of the package are over, before Main looks for goroutines that are left: for what its
// tests share. What was given last is called first.
func AtEnd(end func()) { ends = append(ends, end) }

// tests ends what is shared, the server last, and waits for clients that are about to end, before goleak looks.
type tests struct{ m *testing.M }

func (t tests) Run() int {
	defer awaitRedials()
	defer stopShared()
	defer func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}()
	return t.m.Run()
}
