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

// process is a runtime with a client of its own and users, as a process of its own would have it.
type process struct {
	world  *world
	name   string
	dice   dice
	client *redis.Client
	clock  *processClock
	system *actor.ActorSystem
	rt     *holdfast.Runtime
	ctx    context.Context // of its users; ends with the process
	cancel context.CancelFunc

	mu      sync.Mutex
	wires   []*wire                    // in the order in which they were made
	away    time.Time                  // no connection can be made until then
	held    [directionIn + 1]time.Time // messages do not arrive until then
	paused  time.Time                  // nothing of the process runs until then
	swallow int                        // so many replies are lost, and their connections
	astray  astray                     // messages
	losses  losses
	dead    bool
	drains  time.Time // when Shutdown was called; zero: it was not
	closed  bool
	gone    bool            // closing has come to a good end
	left    error           // why it has not: Redis was silent for too long; told again by every later Close
	drawn   time.Time       // when draw was last asked
	ties    map[dice]uint64 // what was asked at that instant, and how often
}

func newProcess(w *world, name string, number uint64) (*process, error) {
	p := &process{world: w, name: name, dice: w.dice.of('p', number)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.client = redis.NewClient(&redis.Options{
		Addr:                     "127.0.0.1:6379", // never resolved: the dialer ignores it
		Dialer:                   func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx) },
		DialerRetries:            1,  // it pauses in between with a mutex locked, which stops the bubble's time
		MaxRetries:               -1, // so it does between handshakes; the runtime's own commands are never repeated by go-redis
		PoolSize:                 20,
		DisableIdentity:          true,
		ConnMaxIdleTime:          -1, // it goes by a clock outside of the bubble
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
		Shard:   func(name string) uint64 { return uint64(name[len(name)-1]) }, // of two names each has a shard of its own
	})
	var err error
	p.rt, err = holdfast.New(p.client, holdfast.Options{Lease: w.plan.lease, Handoff: w.plan.handoff, Logger: quiet, System: p.system})
	return p, err
}

// userKey finds in a context whose it is.
type userKey struct{}

// between gives what a user does next an instant of its own.
func (p *process) between(ctx context.Context) {
	if u, ok := ctx.Value(userKey{}).(*user); ok {
		u.sleep(between(u.r, 0, 20*time.Microsecond))
	}
}

// freshen has the runtime's client drop connections that broke while nobody used them. It finds out itself when they are sockets, which
// it looks at before it uses one again; as they are here, each costs somebody an attempt.
func (p *process) freshen(ctx context.Context) {
	for range 32 {
		if lease, err := p.rt.Lock("fresh:" + p.name).TryAcquire(ctx); err == nil {
			_ = lease.Release(ctx)
			return
		}
	}
}

// end closes everything of the process. Nothing may be asked of it any more.
func (p *process) end(ctx context.Context) error {
	p.cancel()
	p.world.pause(time.Millisecond)
	err := p.rt.Close(ctx)
	p.world.pause(time.Millisecond)
	_ = p.client.Close()
	return err
}

// uuid is one that nobody else in a world has.
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

// shape is a sum of what a message is about. Numbers and ids are left out: they are drawn by chance, or in either order by two requests
// at one instant. So is the order, in which a map may have a part.
func shape(message []byte) (sum uint64) {
	for _, c := range message {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			sum += mix(uint64(c))
		}
	}
	return sum
}

// draw are dice for what happens now. What happens twice at one instant is told apart by a counter, and only that.
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
		p.world.history.add(fmt.Sprint(p.name, "?", parts), "drawn, for the %d. time", p.ties[d])
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

// cutAll breaks the connections one after the other: who waits at the one shall not be told at the same instant as who waits at the
// other.
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

// working is one of the connections that are in use; nil: there is none.
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

// listening are the connections for messages.
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

// kill ends the process without a word.
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

// over reports that its users have nothing to do any more.
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
