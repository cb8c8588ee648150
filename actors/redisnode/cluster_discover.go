package redisnode

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// Until the first answer arrives, a discovery asks go-redis for the masters every askAgain, at most asksMax times. The reason is that go-redis
	// asks one node after the other, in random order, and waits for a silent node until the client's timeout has passed.
	askAgain = 100 * time.Millisecond
	asksMax  = 8
	// asksHanging is the maximum number of questions in flight, in all discoveries together. If the client has no timeouts, a question to a silent node
	// hangs until the node answers. Such questions accumulate: there are up to four discoveries a second, and if one of six nodes is silent, every
	// sixth discovery or so asks this node first.
	asksHanging = 64
	// suspectAgain is the pause before the next discovery.
	suspectAgain = 200 * time.Millisecond
)

// Discover finds out which masters there are and how releases are published. It returns when ctx ends, even if go-redis is still waiting.
func (c *Cluster) Discover(ctx context.Context) error {
	masters, err := c.list(ctx, c.inBackground)
	if err != nil {
		return err
	}
	if err := c.decide(ctx, masters); err != nil {
		return err
	}
	c.known.Store(true)
	return nil
}

// list returns the masters that the first answer names, or an error if there is no answer. start runs a function on another goroutine.
func (c *Cluster) list(ctx context.Context, start func(func())) ([]*redis.Client, error) {
	type answer struct {
		masters []*redis.Client
		err     error
	}
	answers := make(chan answer, asksMax) // buffered, so a late answer blocks nobody and is dropped
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for range asksMax {
		select {
		case c.asks <- struct{}{}:
			start(func() {
				defer func() { <-c.asks }()
				masters, err := c.askWho(ctx)
				answers <- answer{masters, err}
			})
		default: // asksHanging questions are in flight: ask no more now
		}
		select {
		case a := <-answers:
			return a.masters, a.err
		case <-again.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	select {
	case a := <-answers:
		return a.masters, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// askWho gets the masters from go-redis, which asks one node after the other.
func (c *Cluster) askWho(ctx context.Context) (masters []*redis.Client, err error) {
	defer RecoverTo(&err)
	var mu sync.Mutex
	err = c.client.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, master)
		return nil
	})
	return masters, err
}

// inBackground runs a function on another goroutine, because go-redis may block for longer than the caller wants to wait. If the timeouts of the
// client are at most ReplyWait, Close waits for the function. If they are longer or disabled, Close does not wait, because the function may be
// blocked until the user closes the client.
func (c *Cluster) inBackground(f func()) {
	if timeoutsOf(c.client).bounded() {
		c.background.Go(f)
	} else {
		go f()
	}
}

// decide finds out how releases are published. The first master that answers decides.
func (c *Cluster) decide(ctx context.Context, masters []*redis.Client) error {
	if !c.tells.auto {
		return nil
	}
	answers := make(chan error, len(masters))
	for _, master := range masters {
		c.background.Go(func() { answers <- c.decideBy(ctx, bounded(master, c.replyWait), len(masters) == 1) })
	}
	err := error(ErrNoMaster)
	for i := range masters {
		select {
		case answer := <-answers:
			if answer == nil {
				return nil
			}
			if i == 0 {
				err = answer
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// decideBy asks one master. alone is true if there is no other master. If the client has a ClusterSlots function, the master may not belong to a
// cluster: go-redis also makes such a cluster client for Sentinel, with one master and its replicas. Releases are then published with plain PUBLISH.
func (c *Cluster) decideBy(ctx context.Context, master redis.UniversalClient, alone bool) error {
	if alone && c.client.Options().ClusterSlots != nil {
		switch clustered, err := isCluster(ctx, master); {
		case err != nil && !isNever(err):
			return err
		case err == nil && !clustered:
			c.tells.settle(false)
			return nil
		}
	}
	return c.tells.decide(ctx, master)
}

// Each calls f for all masters concurrently.
func (c *Cluster) Each(ctx context.Context, f func(n *Node)) error {
	masters, err := c.list(ctx, c.inBackground)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	for _, master := range masters {
		group.Go(func() { f(c.node(master)) })
	}
	group.Wait()
	return nil
}
