package redisnode

import (
	"context"
	"net"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"
)

// withTimeout returns a client with the same connections and hooks, and other timeouts.
//
// WithTimeout of go-redis does not copy the hooks, but the new client needs them: a hook may put a prefix before all keys. go-redis has no way to
// read the hooks of a client. It only runs them around the client's own commands, so the new client sends each command through the old client. The
// last hook of the old client is handBack, which hands the command back to the new client. The hook handBack stays in the old client, and does
// nothing with other commands.
func withTimeout(client *redis.Client, timeout time.Duration) *redis.Client {
	known := handBackOnce(client)
	bounded := client.WithTimeout(timeout)
	bounded.AddHook(through{client, known})
	return bounded
}

// withHooksOf returns a client with the connections of `client` and the hooks of `hooked`. As in withTimeout, the new client sends each command
// through another client. Here, that client is `hooked`.
func withHooksOf(client, hooked *redis.Client) *redis.Client {
	bare := client.WithTimeout(client.Options().ReadTimeout)
	bare.AddHook(through{hooked, handBackOnce(hooked)})
	return bare
}

// detour is the value that the new client puts into the context of a command before it sends the command through the old client. The detour names
// the old client and the first command. handBack hands back only this command, or the pipeline that begins with it. It must not hand back other
// commands: a hook of the user may send its own commands with the same context, to the old client or to another one. If a hook replaces the first
// command, or puts another command before it, handBack hands nothing back. The old client then sends the commands itself, with its own timeouts.
type detour struct {
	outer    *detour // the detour that was already in the context when this one began, or nil
	of       weak.Pointer[redis.Client]
	first    redis.Cmder
	process  redis.ProcessHook         // gets a single command back
	pipeline redis.ProcessPipelineHook // gets a pipeline back
}

type detourKey struct{}

// through sends the commands of a client through the hooks of another client.
type through struct {
	client *redis.Client
	known  weak.Pointer[redis.Client]
}

func (through) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t through) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		outer, _ := ctx.Value(detourKey{}).(*detour)
		d := detour{outer: outer, of: t.known, first: command, process: next}
		return t.client.Process(context.WithValue(ctx, detourKey{}, &d), command)
	}
}

func (t through) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		pipe := t.client.Pipeline()
		for _, command := range commands {
			_ = pipe.Process(ctx, command)
		}
		outer, _ := ctx.Value(detourKey{}).(*detour)
		d := detour{outer: outer, of: t.known, first: commands[0], pipeline: next}
		_, err := pipe.Exec(context.WithValue(ctx, detourKey{}, &d))
		return err
	}
}

// Connected is the context with which a connection for messages is used after it is made. It keeps go-redis from connecting again after an error:
// while go-redis connects, it holds a mutex, which would stay locked if the user's dialer panicked. With Connected, go-redis cannot connect, because
// the context has ended, and because handBack, the last hook of a client, refuses to dial. Reads and writes still work: they use only the deadline
// of a context, and Connected has no deadline.
var Connected = func() context.Context {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), connectedKey{}, true))
	cancel()
	return ctx
}()

type connectedKey struct{}

// handBack is the last hook of a client. It hands the commands of a detour back to the new client. It also keeps go-redis from connecting under
// Connected.
type handBack struct{ of weak.Pointer[redis.Client] }

// due returns the detour that begins with this command, or the zero value if there is none. The result is not a pointer, because handBack also calls
// due for the user's own commands, which should cost no allocation.
func (h handBack) due(ctx context.Context, command redis.Cmder) (d detour) {
	for on, _ := ctx.Value(detourKey{}).(*detour); on != nil; on = on.outer {
		if on.of == h.of && on.first == command {
			return *on
		}
	}
	return d
}

func (handBack) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if ctx.Value(connectedKey{}) != nil {
			return nil, ctx.Err()
		}
		return next(ctx, network, addr)
	}
}

func (h handBack) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if back := h.due(ctx, command).process; back != nil {
			return back(ctx, command)
		}
		return next(ctx, command)
	}
}

func (h handBack) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if len(commands) == 0 {
			return next(ctx, commands)
		}
		if back := h.due(ctx, commands[0]).pipeline; back != nil {
			return back(ctx, commands)
		}
		return next(ctx, commands)
	}
}

// handsBack holds the clients that have the hook handBack.
var handsBack sync.Map // weak.Pointer[redis.Client] -> *sync.Once

// handBackOnce adds the hook handBack to a client, unless the client has the hook already. The hook has only a weak pointer to the client, so that
// the user's client can be garbage-collected.
func handBackOnce(client *redis.Client) weak.Pointer[redis.Client] {
	known := weak.Make(client)
	once, _ := handsBack.LoadOrStore(known, new(sync.Once))
	once.(*sync.Once).Do(func() {
		client.AddHook(handBack{known})
		runtime.AddCleanup(client, func(gone weak.Pointer[redis.Client]) { handsBack.Delete(gone) }, known)
	})
	return known
}
