// Package redissonpeer is a client for Redisson's locks, semaphores and latch. On the wire it does what Redisson 4.7 does. Tests use it in place of
// Redisson, to share locks with Holdfast. It was written from a description of the wire format, and supports only a single server.
//
// It behaves like Redisson even where Redisson has weaknesses: an acquire is not idempotent, a waiter that loses its
// message sleeps until the lock's TTL ends, and a holder does not learn that it has lost the lock.
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

// Errors that the methods of locks return. Compare them with errors.Is.
var (
	ErrNotHeld = errors.New("redissonpeer: not held by this owner")
	ErrClosed  = errors.New("redissonpeer: peer is closed")
)

const (
	commandWait = 3 * time.Second // Redisson's timeout of a command
	publish     = "PUBLISH"
)

// Config has the settings in which a Peer may differ from Redisson's defaults. The zero value stands for Redisson's defaults.
type Config struct {
	Watchdog time.Duration // lease of locks that are taken without a lease; renewed whenever a third of it has passed; default 30 s
	Batch    int           // locks renewed by one script call; default 100
	FairWait time.Duration // how long a place in the queue of a fair lock is kept; default 5 min

	ClockAhead time.Duration // how far the client's clock is ahead
}

// Wakeups says how often waiters have tried again, with one count for each cause of a try.
type Wakeups struct {
	ByMessage int64 // a message on the lock's channel
	ByTTL     int64 // the end of the lock's TTL, without a message
}

// Peer is one client, like a JVM with one Redisson instance. Close ends it.
type Peer struct {
	client   redis.UniversalClient
	id       string
	watchdog *watchdog // of all locks except read locks
	readers  *watchdog // of read locks

	fairWait, clockAhead time.Duration

	byMessage, byTTL, malformed atomic.Int64

	mu       sync.Mutex
	closed   chan struct{}
	channels map[string]*channel // the channels that have waiters
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

// ID returns the UUID with which every owner field of this peer begins.
func (p *Peer) ID() string { return p.id }

// Wakeups returns how often this peer's waiters have tried again so far, by cause.
func (p *Peer) Wakeups() Wakeups {
	return Wakeups{ByMessage: p.byMessage.Load(), ByTTL: p.byTTL.Load()}
}

// Malformed returns how many messages were not valid on their channel. For locks, only UNLOCK ("0") and READ_UNLOCK ("1")
// are valid. The real Redisson throws on a message that is not a number.
func (p *Peer) Malformed() int64 { return p.malformed.Load() }

// Close stops the renewals and makes waiters return ErrClosed. As in Redisson, locks that are held stay until their TTL ends.
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

// eval runs a script once. The client's own retries are off, so that the caller learns when the result is unknown.
func (p *Peer) eval(ctx context.Context, script string, keys []string, args ...any) (any, error) {
	// The caller's context ends waits, but not commands: the result of a script that has been sent must become known.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandWait)
	defer cancel()
	words := []any{"eval", script, len(keys)}
	for _, key := range keys {
		words = append(words, key)
	}
	cmd := once{redis.NewCmd(ctx, append(words, args...)...)}
	_ = p.client.Process(ctx, cmd) // cmd has the same error
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

// once is a command that go-redis does not retry.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// owner is the hash field of a thread of this peer.
func (p *Peer) owner(thread int64) string { return p.id + ":" + strconv.FormatInt(thread, 10) }

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	text := hex.EncodeToString(b[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

func milliseconds(d time.Duration) int64 { return max(1, d.Milliseconds()) }
