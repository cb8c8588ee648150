package inner

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The gateway actor has many calls to make and must not block for any of them. These benchmarks compare its own pipelines with
// go-redis's AutoPipeline for that use: one goroutine issues EVALSHA calls and receives each result.

// caller issues calls without blocking for the answer; done is called once with it, on any goroutine.
type caller struct {
	call  func(command []any, done func(error))
	close func()
}

// openPlain is the plain client.
func openPlain(_ testing.TB, client *redis.Client) caller {
	return caller{func(command []any, done func(error)) {
		go func() {
			c := newCommand(command)
			_ = client.Process(context.Background(), c)
			done(granted(c.Cmd))
		}()
	}, func() {}}
}

// openBlocking is the blocking face: each call needs a goroutine to block in.
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

// openAsync is the deferred face. Its stream is ordered, so that a single goroutine can wait for one answer after the other. That
// is the best it allows: there is no callback, and an answer that hangs hides those behind it.
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
				p.done(granted(p.command.Cmd)) // blocks until it is there
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

// noRetry is a command that go-redis does not repeat on its own, as in actors/batch.go.
type noRetry struct{ *redis.Cmd }

func (noRetry) NoRetry() bool { return true }

func newCommand(args []any) noRetry { return noRetry{redis.NewCmd(context.Background(), args...)} }

// batches is the idea of actors/gateway.go without its actor, deadlines and replaced workers: while all workers are busy the
// next batch fills.
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

// send hands what waits to a free worker. The caller holds mu.
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

// issue is a contender whose one goroutine makes the calls, each as soon as fewer than the workload's number are on their way.
// With one that is the latency of a call for which there is nothing to be batched with.
func issue(name string, open func(tb testing.TB, client *redis.Client) caller) contender {
	return contender{name, func(tb testing.TB, flying int, nameOf func(int) string) load {
		client := newClient(tb, 0)
		loadScripts(tb, client)
		c := open(tb, client)
		tb.Cleanup(c.close)
		return load{1, func(w *worker) {
			// slot is one of the calls on their way. It is used again, so that it is no allocation of the call.
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

// TestGateway measures in turn, and prints a table with -v.
func TestGateway(t *testing.T) { gate(t, gatewayWorkloads) }
