// Package redissonpeer is a lock client that behaves on the wire as Redisson 4.7 does with its locks, semaphores
// and latch, for tests that let another implementation share locks with it. It is written from a description of
// the wire format; it knows a single server.
//
// It keeps to what Redisson does even where that is not wise: an acquire is no idempotent request, a waiter
// that loses its message sleeps until the lock's TTL is over, and a holder is not told of a lost lock.
package redissonpeer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Errors of a lock's methods, to be compared with errors.Is.
var (
	ErrNotHeld = errors.New("redissonpeer: not held by this owner")
	ErrClosed  = errors.New("redissonpeer: peer is closed")
)

const (
	commandWait = 3 * time.Second // Redisson's timeout of a command
	publish     = "PUBLISH"
)

// Config is how a Peer differs from a Redisson with default settings. The zero value is no difference.
type Config struct {
	Watchdog time.Duration // lease of a lock taken without one, renewed every third of it; default 30 s
	Batch    int           // locks renewed by one script call; default 100
	FairWait time.Duration // how long a place in the queue of a fair lock is kept; default 5 min

	ClockAhead time.Duration // how far the client's clock is wrong
}

// Wakeups tells what made waiters try again.
type Wakeups struct {
	ByMessage int64 // a message on the lock's channel
	ByTTL     int64 // the end of the lock's TTL, without a message
}

// Peer is one client, as a JVM with one Redisson instance is. Close ends it.
type Peer struct {
	client   redis.UniversalClient
	id       string
	watchdog *watchdog // of all locks, but for
	readers  *watchdog

	fairWait, clockAhead time.Duration

	byMessage, byTTL, malformed atomic.Int64

	mu       sync.Mutex
	closed   chan struct{}
	channels map[string]*channel // those that somebody waits on
}

// New makes a peer that uses client and leaves it open.
func New(client redis.UniversalClient, config Config) *Peer {
	if config.Watchdog <= 0 {
		config.Watchdog = 30 * time.Second
	}
	if config.Batch <= 0 {
		config.Batch = 100
	}
	if config.FairWait <= 0 {
		config.FairWait = 5 * time.Minute
	}
	p := &Peer{
		fairWait: config.FairWait, clockAhead: config.ClockAhead,
		client:   client,
		id:       newUUID(),
		closed:   make(chan struct{}),
		channels: map[string]*channel{},
	}
	p.watchdog = newWatchdog(p, config, p.renewFirst)
	p.readers = newWatchdog(p, config, p.renewReaders)
	return p
}

// ID is the UUID with which every owner of this peer begins.
func (p *Peer) ID() string { return p.id }

// Wakeups tells what made this peer's waiters try again so far.
func (p *Peer) Wakeups() Wakeups {
	return Wakeups{ByMessage: p.byMessage.Load(), ByTTL: p.byTTL.Load()}
}

// Malformed is how many messages came that are no UNLOCK ("0") and no READ_UNLOCK ("1"). A real Redisson
// throws on what is no number.
func (p *Peer) Malformed() int64 { return p.malformed.Load() }

// Close ends renewals and waits. As with Redisson, locks that are held stay until their TTL is over.
func (p *Peer) Close() {
	p.mu.Lock()
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	p.mu.Unlock()
	p.watchdog.wait()
	p.readers.wait()
}

// eval runs a script once: the client's own repetitions are off, so that an unknown result is told.
func (p *Peer) eval(ctx context.Context, script string, keys []string, args ...any) (any, error) {
	// The caller's context ends waits, not commands: the result of a script that was sent must be known.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandWait)
	defer cancel()
	words := []any{"eval", script, len(keys)}
	for _, key := range keys {
		words = append(words, key)
	}
	cmd := once{redis.NewCmd(ctx, append(words, args...)...)}
	_ = p.client.Process(ctx, cmd) // the error is the command's too
	result, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return result, err
}

// evalInt is eval for a script that returns an integer or nil.
func (p *Peer) evalInt(ctx context.Context, script string, keys []string, args ...any) (*int64, error) {
	result, err := p.eval(ctx, script, keys, args...)
	if err != nil || result == nil {
		return nil, err
	}
	n, ok := result.(int64)
	if !ok {
		return nil, fmt.Errorf("redissonpeer: reply %v is no integer", result)
	}
	return &n, nil
}

// once is a command that go-redis does not repeat.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// owner is the hash field of a thread of this peer.
func (p *Peer) owner(thread int64) string { return p.id + ":" + strconv.FormatInt(thread, 10) }

// newUUID is a random UUID of version 4.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	text := hex.EncodeToString(b[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

func milliseconds(d time.Duration) int64 { return max(1, d.Milliseconds()) }
