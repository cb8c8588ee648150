package locktest

import (
	"context"
	"flag"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Main is the TestMain of packages whose tests mostly wait, for a lease to end or for Redis. Unless -parallel says otherwise, twelve tests
// run at a time. In a full run, which checks times, and with the race detector, which needs the processors, four do. Main exits.
func Main(m *testing.M) {
	flag.Parse()
	if !isSet("test.parallel") {
		atOnce := "4"
		if testing.Short() && !raceDetector {
			atOnce = "12"
		}
		_ = flag.Set("test.parallel", atOnce)
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
