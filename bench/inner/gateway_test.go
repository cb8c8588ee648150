package inner

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The gateway has many calls to make and must not block on any of them. In these benchmarks, one goroutine does that: it issues EVALSHA calls and
// receives each result. They compare the gateway's own pipelines with go-redis's AutoPipeline.

// caller issues calls without waiting for their results. It calls the function `done` once for each call, on any goroutine.
type caller struct {
	call  func(command []any, done func(error))
	close func()
}

// openPlain uses the plain client, with a goroutine for each call.
func openPlain(_ testing.TB, client *redis.Client) caller {
	return caller{func(command []any, done func(error)) {
		go func() {
			c := newCommand(command)
			_ = client.Process(context.Background(), c)
			done(granted(c.Cmd))
		}()
	}, func() {}}
}

// openBlocking uses AutoPipeline's blocking interface: each call needs a goroutine to block in.
func openBlocking(tb testing.TB, client *redis.Client) caller {
	pipeline, err := client.AutoPipeline()
	if err != nil {
		tb.Fatal(err)
	}
	return caller{func(command []any, done func(error)) {
		go func() {
			c := newCommand(command)
			_ = pipeline.Process(context.Background(), c)
			done(granted(c.Cmd))
		}()
	}, func() {}}
}

// openAsync uses AutoPipeline's asynchronous interface. A single goroutine waits for the answers in the order of the calls. If an answer hangs, it
// delays the answers behind it. This cannot be avoided, because AutoPipeline has no callback.
func openAsync(options *redis.AutoPipelineOptions) func(tb testing.TB, client *redis.Client) caller {
	return func(tb testing.TB, client *redis.Client) caller {
		pipeline, err := client.AsyncAutoPipelineWithOptions(options)
		if err != nil {
			tb.Fatal(err)
		}
		type pending struct {
			command noRetry
			done    func(error)
		}
		flying := make(chan pending, 4096)
		var reader sync.WaitGroup
		reader.Go(func() {
			for p := range flying {
				p.done(granted(p.command.Cmd)) // blocks until the answer has arrived
			}
		})
		return caller{func(command []any, done func(error)) {
			c := newCommand(command)
			_ = pipeline.Process(context.Background(), c)
			flying <- pending{c, done}
		}, func() {
			close(flying)
			reader.Wait()
		}}
	}
}

// noRetry is a command that go-redis does not retry on its own, as in actors/redisnode.
type noRetry struct{ *redis.Cmd }

func (noRetry) NoRetry() bool { return true }

func newCommand(args []any) noRetry { return noRetry{redis.NewCmd(context.Background(), args...)} }

// batches works like actors/gateway: while all workers are busy, the next batch fills. It has no deadlines, and never replaces a worker.
type batches struct {
	client *redis.Client

	mu      sync.Mutex
	waiting []waitingCall
	free    int

	jobs  chan []waitingCall
	group sync.WaitGroup
}

type waitingCall struct {
	command []any
	done    func(error)
}

const batchMax = 256

func openBatches(workers int) func(tb testing.TB, client *redis.Client) caller {
	return func(_ testing.TB, client *redis.Client) caller {
		b := &batches{client: client, free: workers, jobs: make(chan []waitingCall, workers)}
		for range workers {
			b.group.Go(b.work)
		}
		return caller{b.call, func() {
			close(b.jobs)
			b.group.Wait()
		}}
	}
}

func (b *batches) call(command []any, done func(error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, waitingCall{command, done})
	b.send()
}

// send hands waiting calls to free workers. The caller holds mu.
func (b *batches) send() {
	for b.free > 0 && len(b.waiting) > 0 {
		n := min(len(b.waiting), batchMax)
		b.free--
		b.jobs <- append([]waitingCall(nil), b.waiting[:n]...)
		b.waiting = append(b.waiting[:0], b.waiting[n:]...)
	}
}

func (b *batches) work() {
	for calls := range b.jobs {
		pipe := b.client.Pipeline()
		commands := make([]noRetry, len(calls))
		for i, call := range calls {
			commands[i] = newCommand(call.command)
			_ = pipe.Process(context.Background(), commands[i])
		}
		_, _ = pipe.Exec(context.Background()) // each command has its own error
		for i, call := range calls {
			call.done(granted(commands[i].Cmd))
		}
		b.mu.Lock()
		b.free++
		b.send()
		b.mu.Unlock()
	}
}

// issue returns a contender with a single goroutine, which makes all calls. The workload says how many calls this goroutine keeps in flight. With one
// call in flight, the contender shows the latency of a call that cannot be batched.
func issue(name string, open func(tb testing.TB, client *redis.Client) caller) contender {
	return contender{name, func(tb testing.TB, flying int, nameOf func(int) string) load {
		client := newClient(tb, 0)
		loadScripts(tb, client)
		c := open(tb, client)
		tb.Cleanup(c.close)
		return load{1, func(w *worker) {
			// slot is one call in flight. Slots are reused, so a call does not allocate one.
			type slot struct {
				command []any
				sent    time.Time
				done    func(error)
			}
			var mu sync.Mutex // guards w
			free := make(chan *slot, flying)
			for i := range flying {
				s := &slot{command: acquireCall(nameOf(i), "11111111-2222-4333-8444-555555555555:1")}
				s.done = func(err error) {
					took := time.Since(s.sent)
					mu.Lock()
					w.done(1, took)
					mu.Unlock()
					if err != nil {
						w.fail(err)
					}
					free <- s
				}
				free <- s
			}
			for w.take(1) > 0 {
				s := <-free
				s.sent = time.Now()
				c.call(s.command, s.done)
			}
			for range flying {
				<-free
			}
		}}
	}}
}

var gatewayWays = []contender{
	issue("own-batches-2", openBatches(2)),
	issue("own-batches-1", openBatches(1)),
	issue("own-batches-3", openBatches(3)),
	issue("plain-goroutine-per-call", openPlain),
	issue("autopipeline-goroutine-per-call", openBlocking),
	issue("async-autopipeline-one-reader", openAsync(nil)),
	issue("async-autopipeline-fullduplex", openAsync(&redis.AutoPipelineOptions{FullDuplex: true})),
}

var gatewayWorkloads = []workload{
	{"gateway", 1, "calls", 1, gatewayWays},
	{"gateway", 64, "calls", 1, gatewayWays},
	{"gateway", 1000, "calls", 1, gatewayWays},
}

func BenchmarkGateway(b *testing.B) { benchmark(b, gatewayWorkloads) }

// TestGateway measures the contenders in turn; with -v it prints a table.
func TestGateway(t *testing.T) { gate(t, gatewayWorkloads) }
