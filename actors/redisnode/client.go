package redisnode

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// ReplyWait is the longest time that a connection is read from, or written to, for one pipeline, whatever the client's options say.
const ReplyWait = 5 * time.Second

// bounded is the client as the engine uses it, with the same connections and hooks. The user's timeouts may be long or off: then a
// connection that has died without a word would keep a worker for longer than there are workers, also after Redis is back, and Close would
// wait for it.
func bounded(client redis.UniversalClient, most time.Duration) redis.UniversalClient {
	c, single := client.(*redis.Client)
	t := timeoutsOf(client)
	switch {
	case !single || t.within(most):
		return client
	case inBounds(t.read, most):
		most = t.read
	}
	return withTimeout(c, most)
}

// timeouts are those of a client; zero or less: none.
type timeouts struct{ read, write time.Duration }

func timeoutsOf(client redis.UniversalClient) (t timeouts) {
	switch c := client.(type) {
	case *redis.Client:
		t = timeouts{c.Options().ReadTimeout, c.Options().WriteTimeout}
	case *redis.ClusterClient:
		t = timeouts{c.Options().ReadTimeout, c.Options().WriteTimeout}
	}
	return t
}

func (t timeouts) bounded() bool { return t.within(ReplyWait) }

func (t timeouts) within(most time.Duration) bool {
	return inBounds(t.read, most) && inBounds(t.write, most)
}

func inBounds(timeout, most time.Duration) bool { return timeout > 0 && timeout <= most }

// CheckAckTimeout says what is wrong with waiting so long for replicas: the server does not answer meanwhile, and an answer that comes
// after the client's ReadTimeout is none.
func CheckAckTimeout(client redis.UniversalClient, d time.Duration) error {
	t, most := timeoutsOf(client), ReplyWait
	if t.bounded() {
		most = t.read
	}
	if d < most {
		return nil
	}
	read := "none"
	if t.read > 0 {
		read = t.read.String()
	}
	return fmt.Errorf("AckTimeout is %v, must be shorter than the client's ReadTimeout = %s, and than %v, the longest that a runtime waits "+
		"for a reply: lower AckTimeout, or raise ReadTimeout", d, read, ReplyWait)
}
