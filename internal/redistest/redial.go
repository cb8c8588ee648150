package redistest

import (
	"bytes"
	"runtime/pprof"
	"time"
)

// redialEnd bounds the wait for closed clients of go-redis to finish their current dials and stop redialing.
const redialEnd = 10 * time.Second

// awaitRedials returns when no client tries to reach a server that is gone, or after redialEnd. go-redis redials in a goroutine that checks
// once a second whether its client has been closed. If a client was never closed, goleak reports that goroutine.
func awaitRedials() {
	for end := time.Now().Add(redialEnd); redialing() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

func redialing() bool {
	var profile bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
	return bytes.Contains(profile.Bytes(), []byte("pool.(*ConnPool).tryDial"))
}
