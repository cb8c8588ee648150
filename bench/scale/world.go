// Package scale counts what a lock costs with up to a thousand processes, more than one machine can run. Each process is a runtime with its own
// client. All of them use one miniredis in a bubble of testing/synctest. Messages take 0.2 to 0.3 ms in either direction; the server and the
// processes take no time at all. So the package does not measure speed. It counts commands and messages, and shows how long processes wait for each
// other.
package scale

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/scripts"
)

// Demand is the number of processes, and the locks that they want.
type Demand struct {
	Processes int // each with one goroutine, which always wants a lock
	Names     int // number of names that they choose from, by Zipf's law
	Grants    int // number of grants after which the world ends

	Patience time.Duration // a process waits for one to two times this duration, then gives up and tries again; if 0, it never gives up
	Think    time.Duration // how long a process does something else after it has given up
	Patient  int           // number of processes that never give up, whatever Patience is
	Leavers  int           // number of processes that stop wanting locks half a second after the beginning
	Slow     int           // number of processes whose messages take three times as long

	Listeners int // for each lock, number of subscribers to its releases that never want the lock
}

// zipfS is the exponent of Zipf's law: of 10 000 names, the first is chosen about every seventh time.
const zipfS = 1.1

// section is how long a lock is held.
const section = time.Millisecond

// pace is the shortest average time from one grant to the next: the section, and a round trip.
const pace = section + 2*(wayMin+waySpan/2)

// Curve is what one demand costs.
type Curve struct {
	Demand
	Scripts  float64 // per grant
	Commands float64 // per grant, including those within scripts
	Messages float64 // messages that reach a subscriber, per grant
	Pace     float64 // number of grants of the most wanted lock, divided by the highest possible number
	// Longest compares the waits with an ideal wait: the time in which each contender for the lock gets it once, if every grant takes `pace`. Longest is
	// the largest quotient of a wait and its ideal wait. Waits shorter than `shortest` do not count.
	Longest  float64
	Patients float64 // fewest grants of one of the Patient processes, divided by the average of all processes
	Share    float64 // fewest grants of one process, divided by the average; meaningful only if all processes want the same lock
}

// Run runs d.Processes processes until they have been granted a lock d.Grants times in all, and returns what that cost. It must be called in a bubble
// of testing/synctest.
func Run(t testing.TB, d Demand) Curve {
	w := &world{Demand: d, server: miniredis.NewMiniRedis(), over: make(chan struct{}), places: make([]place, d.Names), counted: make([]int, d.Processes)}
	w.server.ClockTTL(true)
	defer w.server.Close()
	if pipe, err := w.server.Dial(); err == nil { // from now on w.server.Server() exists
		_ = pipe.Close()
	}
	w.server.Server().SetPreHook(w.count)
	defer w.listen()()
	var all sync.WaitGroup
	for i := range d.Processes {
		all.Go(func() { w.process(t, i) })
	}
	all.Wait()
	time.Sleep(time.Minute) // for messages in flight, and for timers of go-redis
	return w.curve()
}

// listen makes the mere listeners, and returns a function that ends them.
func (w *world) listen() (over func()) {
	var all []*miniredis.Subscriber
	for range w.Listeners {
		s := w.server.NewSubscriber()
		for name := range w.Names {
			s.Subscribe(scripts.LockChannel(nameOf(name)))
		}
		go func() {
			for range s.Messages() {
			}
		}()
		all = append(all, s)
	}
	return func() {
		for _, s := range all {
			s.Close()
		}
	}
}

func nameOf(name int) string { return fmt.Sprint("name", name) }

type world struct {
	Demand
	server *miniredis.Miniredis
	over   chan struct{} // closed when enough has been granted

	on                          atomic.Bool // counting has begun
	scripts, commands, messages atomic.Int64

	mu      sync.Mutex
	began   time.Time
	ended   time.Time
	grants  int
	counted []int // grants, by process
	places  []place
	longest float64
}

// place is the state of the lock with one name.
type place struct {
	wanted int     // the number of contenders that wait for it, hold it, or release it
	waits  []*wait // the waits that have not ended
	held   bool
	grants int // number of grants so far
}

// count counts every command, including those within scripts.
func (w *world) count(_ *server.Peer, command string, _ ...string) bool {
	if !w.on.Load() {
		return false
	}
	w.commands.Add(1)
	if strings.EqualFold(command, "EVALSHA") || strings.EqualFold(command, "EVAL") {
		w.scripts.Add(1)
	}
	return false
}

// dialer returns how a process connects to the server.
func (w *world) dialer(process int) func(context.Context, string, string) (net.Conn, error) {
	times := time.Duration(1)
	if process < w.Slow {
		times = 3
	}
	return func(context.Context, string, string) (net.Conn, error) {
		pipe, err := w.server.Dial()
		if err != nil {
			return nil, err
		}
		return newWire(&listener{Conn: pipe, messages: &w.messages, on: &w.on}, times), nil
	}
}

// listener counts the messages that reach a subscriber.
type listener struct {
	net.Conn
	messages *atomic.Int64
	on       *atomic.Bool
}

func (l *listener) Read(into []byte) (int, error) {
	n, err := l.Conn.Read(into)
	if l.on.Load() {
		l.messages.Add(int64(strings.Count(string(into[:n]), "$7\r\nmessage\r\n")))
	}
	return n, err
}

// process runs one process with its runtime.
func (w *world) process(t testing.TB, number int) {
	time.Sleep(time.Duration(number) * 20 * time.Microsecond)
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", Dialer: w.dialer(number), DialerRetries: 1, MaxRetries: -1, DisableIdentity: true, ConnMaxIdleTime: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	rt, err := holdfast.New(client, holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Error(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-w.over:
		case <-w.leave(number):
		}
		cancel()
	}()
	random := rand.New(rand.NewPCG(uint64(number), 1))
	zipf := rand.NewZipf(random, zipfS, 1, uint64(w.Names-1))
	time.Sleep(settle - time.Duration(number)*20*time.Microsecond)
	for w.take(ctx, t, rt, number, int(zipf.Uint64())) {
		time.Sleep(rand.N(10 * time.Microsecond))
	}
	cancel()
	if err := rt.Close(context.Background()); err != nil {
		t.Error(err)
	}
	_ = client.Close()
}

// leave returns a channel that says when a process stops wanting locks.
func (w *world) leave(process int) <-chan time.Time {
	if process < w.Leavers {
		return time.After(settle + time.Second/2)
	}
	return nil
}

// settle is the time after which all processes have begun.
const settle = time.Second

// take does one acquire, section and release. It returns false if the world has ended.
func (w *world) take(ctx context.Context, t testing.TB, rt *holdfast.Runtime, process, name int) bool {
	wait := w.comes(name)
	lease, err := w.acquire(ctx, process, rt.Lock(nameOf(name)))
	w.waited(wait, name)
	if err != nil {
		w.goes(name)
		if w.Patience == 0 && ctx.Err() == nil {
			t.Error(err)
		}
		time.Sleep(w.Think)
		return ctx.Err() == nil
	}
	w.granted(t, process, name)
	time.Sleep(section)
	w.leaves(name)
	if err := lease.Release(context.WithoutCancel(ctx)); err != nil {
		t.Error(err)
	}
	w.goes(name)
	return ctx.Err() == nil
}

// acquire acquires a lock. A process that gives up (see Demand) does so after one to two times Patience.
func (w *world) acquire(ctx context.Context, process int, lock *holdfast.Lock) (*holdfast.Lease, error) {
	if w.Patience > 0 && process >= w.Patient {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.Patience+rand.N(w.Patience))
		defer cancel()
	}
	return lock.Acquire(ctx)
}

// wait is one acquire.
type wait struct {
	since  time.Time
	rivals int // largest value of place.wanted during the wait
}

// comes adds a contender for the lock with this name, and begins its wait.
func (w *world) comes(name int) *wait {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.began.IsZero() {
		w.began = time.Now()
		w.on.Store(true)
	}
	at := &w.places[name]
	at.wanted++
	it := &wait{since: time.Now()}
	at.waits = append(at.waits, it)
	for _, other := range at.waits {
		other.rivals = max(other.rivals, at.wanted)
	}
	return it
}

// shortest is the shortest wait that counts for Longest. A shorter wait may have nothing to do with other contenders: even a process without rivals
// sometimes leaves a lock free for 25 ms, so that clients that only poll can get the lock.
const shortest = 50 * time.Millisecond

// waited records the end of a wait. A wait that the end of the world cuts short counts, too.
func (w *world) waited(it *wait, name int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := &w.places[name]
	at.waits = slices.DeleteFunc(at.waits, func(other *wait) bool { return other == it })
	if took := time.Since(it.since); took >= shortest {
		w.longest = max(w.longest, float64(took)/float64(time.Duration(it.rivals)*pace))
	}
}

func (w *world) granted(t testing.TB, process, name int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.places[name].held {
		t.Error("a lock has two holders")
	}
	w.places[name].held = true
	if !w.ended.IsZero() {
		return
	}
	w.places[name].grants++
	w.counted[process]++
	if w.grants++; w.grants == w.Grants {
		w.ended = time.Now()
		w.on.Store(false)
		close(w.over)
	}
}

func (w *world) leaves(name int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.places[name].held = false
}

func (w *world) goes(name int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.places[name].wanted--
}

func (w *world) curve() Curve {
	most, least := 0, w.Grants
	for _, p := range w.places {
		most = max(most, p.grants)
	}
	for _, n := range w.counted {
		least = min(least, n)
	}
	patients := w.Grants
	for _, n := range w.counted[:w.Patient] {
		patients = min(patients, n)
	}
	grants := float64(w.grants)
	return Curve{
		Patients: float64(patients) * float64(w.Processes) / grants,
		Demand:   w.Demand, Scripts: float64(w.scripts.Load()) / grants, Commands: float64(w.commands.Load()) / grants,
		Messages: float64(w.messages.Load()) / grants, Pace: float64(most) * float64(pace) / float64(w.ended.Sub(w.began)),
		Longest: w.longest, Share: float64(least) * float64(w.Processes) / grants,
	}
}
