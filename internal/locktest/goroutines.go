package locktest

import (
	"bytes"
	"context"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// GoroutinesLeft runs f with a label, which the goroutines that f starts inherit. It waits up to two seconds for these goroutines to end, and returns
// how many goroutines still have the label. If all others have ended, that is 1, because the caller has the label too. Other tests may run at the
// same time.
func GoroutinesLeft(t *testing.T, f func()) (left int) {
	pprof.Do(context.Background(), pprof.Labels("test", t.Name()), func(context.Context) {
		f()
		looks := time.NewTicker(2 * time.Millisecond)
		defer looks.Stop()
		for end := time.Now().Add(2 * time.Second); ; <-looks.C {
			if left = Goroutines(t); left == 1 || time.Now().After(end) {
				return
			}
		}
	})
	return left
}

// Goroutines counts the goroutines of a test that runs inside GoroutinesLeft.
func Goroutines(t *testing.T) (n int) {
	var profile bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
	for _, group := range strings.Split(profile.String(), "\n\n") {
		count := regexp.MustCompile(`(?m)^(\d+) @`).FindStringSubmatch(group)
		if count != nil && strings.Contains(group, `"test":"`+t.Name()+`"`) {
			some, err := strconv.Atoi(count[1])
			require.NoError(t, err)
			n += some
		}
	}
	return n
}
