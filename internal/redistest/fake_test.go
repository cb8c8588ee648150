package redistest_test

import (
	"fmt"
	"runtime"
	"testing"
)

// failingTB is a testing.TB that may fail without failing the test around it.
type failingTB struct {
	testing.TB
	cleanups []func()
	fatal    string
}

func (f *failingTB) Helper() {}

func (f *failingTB) Cleanup(cleanup func()) { f.cleanups = append(f.cleanups, cleanup) }

func (f *failingTB) Fatalf(format string, args ...any) {
	f.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// fatalOf runs body as a separate test and returns its failure message, "" if it did not fail.
func fatalOf(t *testing.T, body func(tb testing.TB)) string {
	f := &failingTB{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		body(f)
	}()
	<-ended
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		f.cleanups[i]()
	}
	return f.fatal
}
