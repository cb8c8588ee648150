package actors

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// replyWait is how long at most a connection is read from, or written to, for one pipeline.
const replyWait = 5 * time.Second

// bounded is the client as the engine uses it, with the same connections and hooks. The user's timeouts may be long or off: then a
// connection that has died without a word would keep a worker for ever, also after Redis is back, and Close would wait for it.
func bounded(client redis.UniversalClient) redis.UniversalClient {
	c, single := client.(*redis.Client)
	if !single || inBounds(c.Options().ReadTimeout) && inBounds(c.Options().WriteTimeout) {
		return client
	}
	return c.WithTimeout(replyWait)
}

func inBounds(timeout time.Duration) bool { return timeout > 0 && timeout <= replyWait }
