package redistest

import (
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

// tests ends the shared server before goleak looks.
type tests struct{ m *testing.M }

func (t tests) Run() int {
	defer stopShared()
	return t.m.Run()
}
