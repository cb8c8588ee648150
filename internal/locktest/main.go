package locktest

import (
	"context"
	"flag"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Main is the TestMain of packages whose tests mostly wait for a lease to end or for Redis. Unless -parallel says otherwise, a short run has
// twelve tests running at a time. A full run has only four, because it checks times. A run with the race detector has four as well, because it needs
// the processors. Main ends the process.
func Main(m *testing.M) {
	flag.Parse()
	if !isSet("test.parallel") {
		atOnce := "4"
		if testing.Short() && !raceDetector {
			atOnce = "12"
		}
		_ = flag.Set("test.parallel", atOnce)
	}
	redis.SetLogger(silent{}) // otherwise go-redis would log every connection that a test breaks
	redistest.Main(m)
}

// isSet reports whether a flag was given on the command line.
func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
