package redistest

import (
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/childproc"
)

// Main is called by a TestMain. In a child process it runs the child's entry (see childproc). Otherwise it
// runs the tests, ends the shared server, checks that no goroutine is left, and exits.
func Main(m *testing.M, opts ...goleak.Option) {
	childproc.Main()
	goleak.VerifyTestMain(tests{m}, opts...)
}

var ends []func()

// AtEnd registers the function `end`, which ends things that the tests of a package share. Main calls it after all tests, before it looks for
// goroutines that are left. The function registered last is called first.
func AtEnd(end func()) { ends = append(ends, end) }

// tests runs the tests for goleak, which looks for goroutines after Run has returned. So Run also ends everything that the tests share, the server
// last, and waits until closed clients no longer redial.
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
