package locktest

import (
	"context"
	"flag"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Main is the TestMain of packages whose tests mostly wait, for a lease to end or for Redis: four run at a time, unless -parallel
// says otherwise. It exits.
func Main(m *testing.M) {
	flag.Parse()
	if !isSet("test.parallel") {
		_ = flag.Set("test.parallel", "4")
	}
	redis.SetLogger(silent{}) // it tells of every connection that a test has broken
	redistest.Main(m)
}

// isSet tells whether a flag was given on the command line.
func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
