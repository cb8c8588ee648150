package load

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// oneWriter is what a writer adds to the count of holders in a section; a reader adds 1.
const oneWriter = 1 << 16

// section is the critical section of a lock. It counts the holders that are in it at the same time.
type section struct{ inside atomic.Int32 }

// enter adds a holder, and reports whether it may be in the section together with the others.
func (s *section) enter(kind peer.Kind, permits int) bool {
	switch kind {
	case peer.Read:
		return s.inside.Add(1) < oneWriter
	case peer.Semaphore:
		return int(s.inside.Add(1)) <= permits
	}
	return s.inside.Add(oneWriter) == oneWriter
}

func (s *section) leave(kind peer.Kind) {
	if kind == peer.Read || kind == peer.Semaphore {
		s.inside.Add(-1)
	} else {
		s.inside.Add(-oneWriter)
	}
}

// oracle counts the holders in the section, of all processes together. The count is in Redis. The oracle is used only while a contender is checked.
type oracle struct {
	redis *redis.Client
	key   string
}

func newOracle(addr, prefix string) *oracle {
	return &oracle{redis.NewClient(&redis.Options{Addr: addr}), "oracle:" + prefix}
}

// alone stays in the section for a moment, and reports whether no other holder was in it then.
func (o *oracle) alone(ctx context.Context) (bool, error) {
	n, err := o.redis.Incr(ctx, o.key).Result()
	if err != nil {
		return false, err
	}
	time.Sleep(200 * time.Microsecond)
	left, err := o.redis.Decr(ctx, o.key).Result()
	return n == 1 && left == 0, err
}
