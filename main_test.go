package holdfast_test

import (
	"context"
	"flag"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !isSet("test.parallel") {
		_ = flag.Set("test.parallel", "4") // most of the time a test waits for a lease to end
	}
	redis.SetLogger(silent{}) // it tells of every connection that a test has broken
	childproc.Register("holder", holdUntilKilled)
	redistest.Main(m)
}

// isSet tells whether a flag was given on the command line.
func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
