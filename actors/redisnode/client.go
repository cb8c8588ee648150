package redisnode

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// ReplyWait is the longest time for which one pipeline may read from its connection, or write to it, even if the client's options allow more.
const ReplyWait = 5 * time.Second

// Silence is the longest time that a server may take to reply. A longer silence counts as an outage.
const Silence = 500 * time.Millisecond

// hasty returns a client like the given one, with timeouts of at most Silence. It returns nil if the client is not a *redis.Client: other types
// cannot be bounded.
func hasty(client redis.UniversalClient) redis.UniversalClient {
	if _, single := client.(*redis.Client); !single {
		return nil
	}
	return bounded(client, Silence)
}

// bounded returns a client with the same connections and hooks, and with timeouts of at most `most`. If the user's timeouts are long or disabled, a
// worker of the gateway whose connection has died silently would be blocked. In the end all workers could be blocked, even after Redis has become
// available again, and Close would wait for them. A client that is not a *redis.Client is returned as it is.
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

// timeouts are the timeouts of a client. A field that is not positive means that there is no timeout.
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

// CheckAckTimeout returns an error if d is too long for a wait for replicas. The server answers only after the wait, and an answer that comes
// after the client's ReadTimeout would be lost.
func CheckAckTimeout(client redis.UniversalClient, d time.Duration) error {
	t, most := timeoutsOf(client), ReplyWait
	if inBounds(t.read, ReplyWait) {
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
