package linearize

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The size of a run.
const (
	runtimes = 3
	users    = 4 // of each runtime
	names    = 4
)

// Plan configures a run.
type Plan struct {
	Kind     Kind
	Lease    time.Duration // a run draws the watchdog's lease at random, between Lease and twice Lease
	Duration time.Duration
	Least    int     // a run continues after Duration, for up to locktest.Patience, until it has Least operations and Least/10 grants
	Mutant   *Mutant // nil if the scripts stay as they are
	Restart  bool    // the server is killed now and then, and restarts with all of its data
	Seed     uint64
}

type run struct {
	recorder
	kind      Kind
	lease     time.Duration
	names     []string
	forced    string // the name whose lock is released by force now and then
	registers map[string]*register
	leases    atomic.Int64
	returned  bool
}

func (r *run) nextLease() int { return int(r.leases.Add(1)) }

// register is a resource that refuses tokens smaller than the largest it has seen (M. Kleppmann, "How to do distributed locking", 2016).
type register struct {
	mu      sync.Mutex
	largest int64
}

func (r *register) accepts(token int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.largest {
		return false
	}
	r.largest = token
	return true
}

// Run lets users work on a private Redis while the nemesis rages, and returns the history. Unless the scripts are broken, Run also checks that after
// the faults every runtime can acquire every lock, and that nothing is left in Redis.
func Run(t *testing.T, p Plan) *History {
	var args []string
	if p.Restart {
		args = []string{"--appendonly", "yes", "--appendfsync", "always"}
	}
	server := redistest.Start(t, args...)
	dice := rand.New(rand.NewPCG(p.Seed, 1))
	r := newRun(t, p, dice)
	n := &nemesis{run: r, server: server, control: locktest.NewClient(t, server.Addr()), dice: dice, restart: p.Restart}
	var rts []*holdfast.Runtime
	var changers []*changer
	for i := range runtimes {
		proxy := faultproxy.New(t, server.Addr())
		client := locktest.NewClient(t, proxy.Addr())
		if p.Mutant != nil {
			changers = append(changers, newChanger(p.Mutant))
			client.AddHook(changers[len(changers)-1])
		}
		rt := locktest.NewRuntime(t, client, holdfast.Options{Lease: r.lease, Linger: time.Duration(i%2) * r.lease / 8})
		t.Cleanup(proxy.Heal)
		n.proxies = append(n.proxies, proxy)
		rts = append(rts, rt)
		r.history.Setting.Runtimes = append(r.history.Setting.Runtimes, rt.ID())
	}
	defer r.keepUnlessReturned(t)
	r.prepare(t, rts[0])
	r.rage(t, p, n, rts, locktest.NewClient(t, server.Addr()))
	if p.Mutant == nil {
		r.serveAll(t, rts)
		r.leavesNothing(t, n.control)
	}
	r.returned = true
	h := r.recorded()
	h.Setting.Broken = slices.ContainsFunc(changers, (*changer).broke)
	return h
}

// keepUnlessReturned keeps the history of a run that failed before its end.
func (r *run) keepUnlessReturned(t *testing.T) {
	if r.returned {
		return
	}
	path, err := r.recorded().Keep()
	t.Logf("the history so far is in %s (%v)", path, err)
}

func newRun(t *testing.T, p Plan, dice *rand.Rand) *run {
	r := &run{kind: p.Kind, registers: map[string]*register{}}
	r.lease = p.Lease + time.Duration(dice.Int64N(int64(p.Lease)))
	r.start = time.Now()
	for range names {
		name := redistest.Name(t)
		r.names = append(r.names, name)
		r.registers[name] = &register{}
	}
	s := Setting{
		Kind: p.Kind.Name, Seed: p.Seed, Lease: r.lease, Longest: r.lease, Permits: p.Kind.Permits, Names: r.names,
	}
	if p.Mutant != nil {
		s.Mutant = p.Mutant.Name
	}
	if !p.Kind.Unforced {
		r.forced = r.names[names-1]
	}
	s.Forced = r.forced
	r.history.Setting = s
	return r
}

// prepare sets the numbers of permits.
func (r *run) prepare(t *testing.T, rt *holdfast.Runtime) {
	if r.kind.Permits == 0 {
		return
	}
	for _, name := range r.names {
		locktest.Await(t, "permits", func() bool { return rt.PermitSemaphore(name).SetPermits(t.Context(), r.kind.Permits) == nil })
	}
}

// rage lets all users work under faults until the time is over and enough has been done.
func (r *run) rage(t *testing.T, p Plan, n *nemesis, rts []*holdfast.Runtime, eyes *redis.Client) {
	ctx, cancel := context.WithTimeout(t.Context(), p.Duration+locktest.Patience)
	defer cancel()
	var group sync.WaitGroup
	watching, blind := context.WithCancel(context.Background())
	group.Go(func() { r.observe(watching, eyes) })
	var working sync.WaitGroup
	for i := range runtimes * users {
		u := &user{run: r, rt: rts[i%runtimes], runtime: i % runtimes, number: i, dice: rand.New(rand.NewPCG(p.Seed, uint64(i)+2))}
		working.Go(func() { u.work(ctx) })
	}
	group.Go(func() { r.stopAt(ctx, cancel, p) })
	n.rage(ctx)
	r.worked(r.now())
	for _, proxy := range n.proxies {
		proxy.Heal()
	}
	locktest.Closed(t, "the users' end", closedAfter(&working))
	blind()
	group.Wait()
}

// stopAt ends a run when the time is over and enough has been done.
func (r *run) stopAt(ctx context.Context, cancel func(), p Plan) {
	looks := time.NewTicker(50 * time.Millisecond)
	defer looks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
			if r.now() < p.Duration {
				continue
			}
			if operations, grants := r.counts(); operations >= p.Least && grants >= p.Least/10 {
				cancel()
			}
		}
	}
}

func closedAfter(group *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	return done
}

// serveAll checks that every runtime can acquire everything once the faults are over.
func (r *run) serveAll(t *testing.T, rts []*holdfast.Runtime) {
	ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
	defer cancel()
	modes := r.kind.Modes
	if len(modes) == 0 {
		modes = []string{""}
	}
	for _, rt := range rts {
		for _, name := range r.names {
			for _, mode := range modes {
				lease, err := r.kind.take(rt, name, mode).Acquire(ctx)
				for err != nil && ctx.Err() == nil { // on a busy machine Redis may not answer for a while
					lease, err = r.kind.take(rt, name, mode).Acquire(ctx)
				}
				require.NoError(t, err, "when all was well again")
				_ = lease.Release(ctx) // it may be lost by now
			}
		}
	}
}

// leavesNothing waits until no key is left. It does not check permits, whose keys the user has set.
func (r *run) leavesNothing(t *testing.T, client *redis.Client) {
	if r.kind.Permits > 0 {
		return // the permits are the user's
	}
	locktest.Await(t, "the end of all keys", func() bool { return len(locktest.Keys(t, client)) == 0 })
}
