package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/actors"
)

// process is a runtime with a client and users of its own, like a separate operating-system process.
type process struct {
	world  *world
	name   string
	dice   dice
	client *redis.Client
	clock  *processClock
	system *actor.ActorSystem
	rt     *holdfast.Runtime
	ctx    context.Context // the users' context, which ends with the process
	cancel context.CancelFunc

	mu      sync.Mutex
	wires   []*wire                    // in the order of their creation
	away    time.Time                  // no connection can be made before this time
	held    [directionIn + 1]time.Time // no message arrives before this time, by direction
	paused  time.Time                  // nothing of the process runs before this time
	swallow int                        // how many more replies are lost, with their connections
	astray  astray                     // messages that go astray
	losses  losses
	ledger  ledger
	dead    bool
	drains  time.Time // when Shutdown was called, or zero if it was not
	closed  bool
	gone    bool            // Close or Shutdown has succeeded
	left    error           // the error of Close or Shutdown, if some releases were given up; every later Close then fails, too
	drawn   time.Time       // when draw was last called
	ties    map[dice]uint64 // how often each value was drawn at that instant
}

func newProcess(w *world, name string, number uint64) (*process, error) {
	p := &process{world: w, name: name, dice: w.dice.of('p', number)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.ledger = ledger{o: w.oracle, p: p, granted: map[string]int{}, asked: map[question]int{}, slow: w.plan.lease / 2}
	p.client = redis.NewClient(&redis.Options{
		Addr:                     "127.0.0.1:6379", // never resolved: the dialer ignores it
		Dialer:                   func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx) },
		DialerRetries:            1,  // go-redis pauses between dials with a mutex locked, which stops the bubble's time
		MaxRetries:               -1, // go-redis pauses in the same way between handshakes; it never repeats the runtime's own commands
		PoolSize:                 20,
		DisableIdentity:          true,
		ConnMaxIdleTime:          -1, // go-redis measures idle time with a clock outside the bubble
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	quiet := slog.New(slog.DiscardHandler)
	p.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(time.Millisecond))
	p.clock = &processClock{p: p, start: time.Now()}
	p.system.Extensions.Register(&actors.Seams{
		ID: uuid(p.dice), First: 1 << 16, Clock: p.clock,
		Jitter:  func(d time.Duration) time.Duration { return p.draw('j', uint64(d)).below(d) },
		Salt:    func() uint64 { return uint64(number) },
		Between: p.between,
		Shard:   w.shard,
	})
	var err error
	p.rt, err = holdfast.New(p.client, holdfast.Options{Lease: w.plan.lease, Handoff: w.plan.handoff, Logger: quiet, System: p.system,
		Trace: p.ledger.trace(), SlowWait: p.ledger.slow, Linger: w.plan.linger})
	return p, err
}

// shard chooses the shard of a name. If the seed is odd, all names of a world are in one shard, so that an idle actor can get another name. If it is
// even, two names are in two shards, because they differ in the last letter.
func (w *world) shard(name string) uint64 {
	if w.plan.seed%2 == 1 {
		return 0
	}
	return uint64(name[len(name)-1])
}

type userKey struct{}

// between makes the user of ctx sleep until an instant at which nobody else acts.
func (p *process) between(ctx context.Context) {
	if u, ok := ctx.Value(userKey{}).(*user); ok {
		u.sleep(between(u.r, 0, 20*time.Microsecond))
	}
}

// freshen makes the runtime's client drop connections that broke while they were idle. It tries to acquire a lock until a try succeeds, at most 32
// times. With sockets, go-redis checks an idle connection before it uses it again. It cannot check a simulated connection, so each broken one would
// cost a user an attempt.
func (p *process) freshen(ctx context.Context) {
	for range 32 {
		if lease, err := p.rt.Lock("fresh:" + p.name).TryAcquire(ctx); err == nil {
			_ = lease.Release(ctx)
			return
		}
	}
}

// end closes the runtime and the client of the process, which cannot be used afterwards.
func (p *process) end(ctx context.Context) error {
	p.cancel()
	p.world.pause(time.Millisecond)
	err := p.rt.Close(ctx)
	p.world.pause(time.Millisecond)
	p.ledger.close(p.name, p.rt.Stats())
	_ = p.client.Close()
	return err
}

// uuid returns a UUID that no other process of the world has.
func uuid(d dice) string {
	const digits = "0123456789abcdef"
	b := []byte("00000000-0000-4000-8000-000000000000")
	for i := range b {
		if b[i] == '0' {
			b[i] = digits[mix(uint64(d.of('u', uint64(i))))&15]
		}
	}
	return string(b)
}

var errAway = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

func (p *process) dial(ctx context.Context) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil || p.dead || time.Now().Before(p.away) {
		return nil, errAway
	}
	pipe, err := p.world.server.Dial()
	if err != nil {
		return nil, err
	}
	w := newWire(p, pipe)
	p.wires = append(p.wires, w)
	return w, nil
}

// shape returns a checksum of a message that ignores the order of its parts, which may come from a map. It also leaves out digits and
// the letters a to f: numbers and ids are drawn at random, or depend on the order of two simultaneous requests.
func shape(message []byte) (sum uint64) {
	for _, c := range message {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			sum += mix(uint64(c))
		}
	}
	return sum
}

// draw returns dice for this instant. If the same dice are drawn again at this instant, a counter makes them different.
func (p *process) draw(parts ...uint64) dice {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); !now.Equal(p.drawn) {
		p.drawn = now
		p.ties = map[dice]uint64{}
	}
	d := p.dice.of(parts...).of(uint64(p.drawn.UnixNano()))
	p.ties[d]++
	if p.world.wires {
		p.world.history.add(fmt.Sprint(p.name, "?", parts), "drawn, time number %d", p.ties[d])
	}
	return d.of(p.ties[d])
}

func (p *process) heldUntil(direction uint64) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused.After(p.held[direction]) {
		return p.paused
	}
	return p.held[direction]
}

func (p *process) swallows() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.swallow > 0
	p.swallow = max(p.swallow-1, 0)
	return now
}

// cutAll breaks the connections one after the other, so the users of two connections do not get their errors at the same instant.
func (p *process) cutAll(how func(*wire), r *rand.Rand) {
	p.mu.Lock()
	wires := slices.Clone(p.wires)
	p.mu.Unlock()
	for _, w := range wires {
		if !w.in.ended() {
			p.world.pause(between(r, time.Microsecond, 20*time.Microsecond))
			how(w)
		}
	}
}

// working returns one of the connections in use; nil if there is none.
func (p *process) working(n uint64) *wire {
	p.mu.Lock()
	defer p.mu.Unlock()
	var up []*wire
	for _, w := range p.wires {
		if _, ok := w.drawn(); ok && !w.in.ended() {
			up = append(up, w)
		}
	}
	if len(up) == 0 {
		return nil
	}
	slices.SortFunc(up, func(a, b *wire) int { return cmp.Compare(a.dice, b.dice) })
	return up[n%uint64(len(up))]
}

// listening returns the pub/sub connections.
func (p *process) listening() (all []*wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.wires {
		if w.isFor("subscribe") && !w.in.ended() {
			all = append(all, w)
		}
	}
	return all
}

func (p *process) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// kill ends the process without any notice.
func (p *process) kill(how func(*wire), r *rand.Rand) {
	p.set(func() { p.dead = true })
	p.cutAll(how, r)
	p.cancel()
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *process) isGone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// over reports whether the users of the process have nothing left to do.
func (p *process) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead || p.closed
}

// awake waits while the process is paused.
func (p *process) awake(d dice) {
	for n := uint64(0); ; n++ {
		p.mu.Lock()
		left := time.Until(p.paused)
		p.mu.Unlock()
		if left <= 0 {
			return
		}
		p.world.pause(left + d.of('w', n).below(50*time.Microsecond))
	}
}
