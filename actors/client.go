package actors

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// replyWait is how long at most a connection is read from, or written to, for one pipeline.
const replyWait = 5 * time.Second

// bounded is the client as the engine uses it, with the same connections and hooks. The user's timeouts may be long or off: then a
// connection that has died without a word would keep a worker for ever, also after Redis is back, and Close would wait for it.
func bounded(client redis.UniversalClient) redis.UniversalClient {
	c, single := client.(*redis.Client)
	if !single || timeoutsOf(client).bounded() {
		return client
	}
	return c.WithTimeout(replyWait)
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

func (t timeouts) bounded() bool { return inBounds(t.read) && inBounds(t.write) }

func inBounds(timeout time.Duration) bool { return timeout > 0 && timeout <= replyWait }

// CheckAckTimeout says what is wrong with waiting so long for replicas: the server does not answer meanwhile, and an answer that comes
// after the client's ReadTimeout is none.
func CheckAckTimeout(client redis.UniversalClient, d time.Duration) error {
	t, most := timeoutsOf(client), replyWait
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
		"for a reply: lower AckTimeout, or raise ReadTimeout", d, read, replyWait)
}
