package inner

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

// contender is one way to get locks. It is opened once per benchmark; its load is then measured as often as wanted.
type contender struct {
	name string
	open func(tb testing.TB, goroutines int, nameOf func(goroutine int) string) load
}

// lease is the lease of all contenders, none of which is renewed in time to matter.
const lease = 30 * time.Second

// locker is a lock library.
type locker interface {
	acquire(ctx context.Context, lock string) (held, error)
}

type held interface {
	Release(ctx context.Context) error
}

// library makes a contender of a lock library: each goroutine acquires and releases its lock, with an empty section in which
// only the exclusion is checked.
func library(name string, newLocker func(tb testing.TB) locker) contender {
	return contender{name, func(tb testing.TB, goroutines int, nameOf func(int) string) load {
		l := newLocker(tb)
		names, inside := make([]string, goroutines), map[string]*atomic.Int32{}
		for i := range names {
			names[i] = nameOf(i)
			inside[names[i]] = new(atomic.Int32)
		}
		return load{goroutines, func(w *worker) {
			lock := names[w.number]
			n := inside[lock]
			for w.take(1) > 0 {
				start := time.Now()
				h, err := l.acquire(w, lock)
				if err != nil {
					w.fail(err)
					return
				}
				wait := time.Since(start)
				if n.Add(1) != 1 {
					w.fail(fmt.Errorf("%s let two into %s at once", name, lock))
				}
				n.Add(-1)
				if err := h.Release(w); err != nil {
					w.fail(err)
					return
				}
				w.done(1, wait)
			}
		}}
	}}
}

// Holdfast, with its default options.

type holdfastLocker struct{ rt *holdfast.Runtime }

func (l holdfastLocker) acquire(ctx context.Context, lock string) (held, error) {
	return l.rt.Lock(lock).Acquire(ctx)
}

var viaHoldfast = library("holdfast", func(tb testing.TB) locker {
	return holdfastLocker{newRuntime(tb)}
})

func newRuntime(tb testing.TB) *holdfast.Runtime {
	rt, err := holdfast.New(newClient(tb, 0), holdfast.Options{Lease: lease})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return rt
}

// redislock. The context always has a deadline, since otherwise redislock stops waiting after its TTL.

type redislockLocker struct {
	client  *redislock.Client
	options *redislock.Options
}

func (l redislockLocker) acquire(ctx context.Context, lock string) (held, error) {
	return l.client.Obtain(ctx, lock, lease, l.options)
}

// viaRedislock is on a plain pool.
func viaRedislock(name string, backoff time.Duration, poolSize int) contender {
	return library(name, func(tb testing.TB) locker {
		return redislockLocker{redislock.New(newClient(tb, poolSize)), &redislock.Options{RetryStrategy: redislock.LinearBackoff(backoff)}}
	})
}

// viaAutoPipeline is redislock on the blocking face of go-redis's AutoPipeline.
func viaAutoPipeline(name string, backoff time.Duration) contender {
	return library(name, func(tb testing.TB) locker {
		pipeline, err := newClient(tb, 0).AutoPipeline()
		if err != nil {
			tb.Fatal(err)
		}
		return redislockLocker{redislock.New(pipeline), &redislock.Options{RetryStrategy: redislock.LinearBackoff(backoff)}}
	})
}

// Bare EVALSHA: Holdfast's own scripts without Holdfast. What remains is what go-redis and the server cost.

var site = scripts.Site{Publish: "PUBLISH"}

// acquireCall and releaseCall are the commands of one pair. They may be sent again and again.
func acquireCall(lock, grant string) []any {
	call := scripts.Lock.Acquire(&site, lock, scripts.Terms{Grant: grant, Lease: lease, WantHolder: true})
	call.SetNotAfter(time.Now().Add(24 * time.Hour).UnixMilli())
	return call.Command
}

func releaseCall(lock, grant string) []any {
	return scripts.Lock.Release(&site, lock, scripts.Terms{Grant: grant}).Command
}

// granted is nil when the command was an acquire that got its lock.
func granted(command *redis.Cmd) error {
	if err := command.Err(); err != nil {
		return err
	}
	acquired, err := scripts.ReadAcquired(command.Val(), command.Args()[4].(string))
	if err == nil && !acquired.Granted {
		err = fmt.Errorf("taken for %v", acquired.TTL)
	}
	return err
}

func loadScripts(tb testing.TB, client *redis.Client) {
	for _, s := range []*scripts.Script{scripts.Lock.Acquire(&site, "", scripts.Terms{}).Script, scripts.Lock.Release(&site, "", scripts.Terms{}).Script} {
		if err := client.ScriptLoad(context.Background(), s.Source).Err(); err != nil {
			tb.Fatal(err)
		}
	}
}

type bareLocker struct {
	client *redis.Client
	grants atomic.Uint64
}

type bareHeld struct {
	client      *redis.Client
	lock, grant string
}

func (l *bareLocker) acquire(ctx context.Context, lock string) (held, error) {
	grant := "11111111-2222-4333-8444-555555555555:" + strconv.FormatUint(l.grants.Add(1), 10)
	if err := granted(l.client.Do(ctx, acquireCall(lock, grant)...)); err != nil {
		return nil, err
	}
	return &bareHeld{l.client, lock, grant}, nil
}

func (h *bareHeld) Release(ctx context.Context) error {
	return h.client.Do(ctx, releaseCall(h.lock, h.grant)...).Err()
}

// viaBare is a pair of EVALSHA through a plain go-redis client.
func viaBare(name string, poolSize int) contender {
	return library(name, func(tb testing.TB) locker {
		client := newClient(tb, poolSize)
		loadScripts(tb, client)
		return &bareLocker{client: client}
	})
}

// viaBatches is go-redis at its best: no goroutine per lock, just as many pipelines as given, each with its share of the locks,
// all acquired in one round trip and released in the next.
func viaBatches(name string, pipelines int) contender {
	return contender{name, func(tb testing.TB, goroutines int, nameOf func(int) string) load {
		client := newClient(tb, 0)
		loadScripts(tb, client)
		return load{pipelines, func(w *worker) {
			acquires, releases := callsOf(w.number, pipelines, goroutines, nameOf)
			exchange := func(calls [][]any) {
				pipe := client.Pipeline()
				for _, call := range calls {
					pipe.Do(w, call...)
				}
				if _, err := pipe.Exec(w); err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
					w.fail(err)
				}
			}
			for n := w.take(len(acquires)); n > 0; n = w.take(len(acquires)) {
				start := time.Now()
				exchange(acquires[:n])
				wait := time.Since(start)
				exchange(releases[:n])
				w.done(n, wait)
			}
		}}
	}}
}

// viaSocket is the floor: the same commands, encoded beforehand, written to a socket; the replies are counted and not read.
func viaSocket(name string, connections int) contender {
	return contender{name, func(tb testing.TB, goroutines int, nameOf func(int) string) load {
		loadScripts(tb, newClient(tb, 0))
		conns := make([]net.Conn, connections)
		for i := range conns {
			conn, err := net.Dial("tcp", redistest.Shared(tb).Addr())
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { _ = conn.Close() })
			conns[i] = conn
		}
		return load{connections, func(w *worker) {
			acquires, releases := callsOf(w.number, connections, goroutines, nameOf)
			conn := conns[w.number]
			replies := bufio.NewReaderSize(conn, 1<<16)
			acquire, release := encode(acquires), encode(releases)
			exchange := func(commands [][]byte, n int) {
				if _, err := conn.Write(commands[n]); err != nil {
					w.fail(err)
				}
				for range n {
					if err := skipReply(replies); err != nil {
						w.fail(err)
						return
					}
				}
			}
			for n := w.take(len(acquires)); n > 0; n = w.take(len(acquires)) {
				start := time.Now()
				exchange(acquire, n)
				wait := time.Since(start)
				exchange(release, n)
				w.done(n, wait)
			}
		}}
	}}
}

// skipReply passes over one reply: a line, and for a bulk string its text. Anything else is an error, since to lose count would
// leave the server at work on this contender's commands while the next one is measured.
func skipReply(r *bufio.Reader) error {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	switch line[0] {
	case ':', '_':
		return nil
	case '$':
		size, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
		if err == nil && size >= 0 {
			_, err = r.Discard(size + len("\r\n"))
		}
		return err
	}
	return fmt.Errorf("floor: reply %q", line)
}

// callsOf are the commands of one share of the locks.
func callsOf(share, shares, locks int, nameOf func(int) string) (acquires, releases [][]any) {
	for i := share; i < locks; i += shares {
		grant := "11111111-2222-4333-8444-555555555555:" + strconv.Itoa(i)
		acquires = append(acquires, acquireCall(nameOf(i), grant))
		releases = append(releases, releaseCall(nameOf(i), grant))
	}
	return acquires, releases
}

// encode writes commands in Redis' protocol; the nth element has the first n of them.
func encode(calls [][]any) [][]byte {
	var all bytes.Buffer
	ends := []int{0}
	for _, call := range calls {
		fmt.Fprintf(&all, "*%d\r\n", len(call))
		for _, arg := range call {
			text := fmt.Sprint(arg)
			fmt.Fprintf(&all, "$%d\r\n%s\r\n", len(text), text)
		}
		ends = append(ends, all.Len())
	}
	commands := make([][]byte, len(ends))
	for i, end := range ends {
		commands[i] = all.Bytes()[:end]
	}
	return commands
}
