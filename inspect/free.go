package inspect

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// freeWithin limits how late Redis may execute a call of Free. A call that was delayed for longer could free the lock of the next holder.
const freeWithin = 2 * time.Second

// Free frees a lock, no matter who holds it, and wakes its waiters. For a permit semaphore it takes back the acquired permits, at most 10 000 in one
// call. It returns false if nobody held the lock. Holders learn of their loss at their next renewal, and continue to work until then. A holder whose
// lease is not renewed (holdfast.WithLease) may not notice the loss until the lease ends.
//
// Semaphores and latches have no holders: for them the error matches holdfast.ErrInvalid. If the key holds something other than a
// lock, the error matches holdfast.ErrForeignKey. After any other error the lock may have been freed.
func Free(ctx context.Context, client redis.UniversalClient, name string) (bool, error) {
	freed, err := free(ctx, client, name)
	if err != nil {
		return freed, fmt.Errorf("holdfast: free %q: %w", name, scripts.Explain(err))
	}
	return freed, nil
}

func free(ctx context.Context, client redis.UniversalClient, name string) (bool, error) {
	l := newLooker(client)
	o, err := l.lookAt(ctx, name)
	if err != nil {
		return false, err
	}
	site := &scripts.Site{Publish: l.publish(o)}
	switch o.Kind {
	case protocol.KindSemaphore, protocol.KindLatch:
		return false, fmt.Errorf("%w: a %s has no holders", protocol.ErrInvalid, o.Kind)
	case protocol.KindPermitSemaphore:
		return freePermits(ctx, client, site, o)
	}
	kind, ok := scripts.KindOf(o.Kind)
	if !ok || len(o.Holders) == 0 {
		return false, nil
	}
	server, err := masterOf(ctx, client, name)
	if err != nil {
		return false, err
	}
	now, err := timeOf(ctx, server)
	if err != nil {
		return false, err
	}
	call := kind.ForceRelease(site, name)
	call.SetNotAfter((now + freeWithin).Milliseconds())
	reply, err := run(ctx, client, call)
	if err != nil {
		return false, err
	}
	freed, err := scripts.ReadFreed(reply)
	return len(freed) > 0, err
}

// publish returns the command that notifies the waiters: SPUBLISH for sharded messages, or PUBLISH for plain ones. If the servers of a cluster know
// sharded messages, waiters subscribe to sharded messages by default, and to plain ones if Options.PubSub of their runtime demands it. On such a
// cluster, publish therefore returns PUBLISH only if the lock has plain subscriptions and no sharded ones.
func (l *looker) publish(o *object) string {
	if o.sharded > 0 || l.shards && o.plain == 0 {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// freePermits releases each permit by itself, so that no script blocks the server for long.
func freePermits(ctx context.Context, client redis.UniversalClient, site *scripts.Site, o *object) (freed bool, err error) {
	for _, h := range o.Holders {
		call := scripts.Permit.Release(site, o.Name, scripts.Terms{Grant: h.ID})
		reply, err := run(ctx, client, call)
		if err != nil {
			return freed, err
		}
		released, err := scripts.ReadReleased(reply)
		if err != nil {
			return freed, err
		}
		freed = freed || released.Held
	}
	return freed, nil
}

// run calls a script, and loads it if the server does not have it.
func run(ctx context.Context, client redis.UniversalClient, call scripts.Call) (any, error) {
	reply, err := process(ctx, client, call)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		if err = loadScript(ctx, client, call); err != nil {
			return nil, err
		}
		reply, err = process(ctx, client, call)
	}
	if err == nil || err == redis.Nil { //nolint:errorlint // go-redis does not wrap it
		return reply, nil
	}
	return nil, call.WithKeys(err)
}

// loadScript loads a script on the server that needs it. The ScriptLoad of a cluster client would need an answer from every master.
func loadScript(ctx context.Context, client redis.UniversalClient, call scripts.Call) error {
	server, err := masterOf(ctx, client, call.Key())
	if err != nil {
		return err
	}
	return server.ScriptLoad(ctx, call.Script.Source).Err()
}

func process(ctx context.Context, client redis.UniversalClient, call scripts.Call) (any, error) {
	cmd := once{redis.NewCmd(ctx, call.Sent()...)}
	_ = client.Process(ctx, cmd)
	return cmd.Result()
}

// once is a command that go-redis must not retry by itself: a retry could free the lock of the next holder.
type once struct{ *redis.Cmd }

// NoRetry returns true, so that go-redis does not retry the command.
func (once) NoRetry() bool { return true }
