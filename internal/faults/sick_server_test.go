package faults_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// sickLease is a lease with which two limits are one second. One is how long an attempt waits for its answer (rpc.Window). The other is how long
// Redis may be silent before waiters are refused (Policy.Patience). Both are a third of the lease.
const sickLease = 3 * time.Second

// Bounds on how long a call takes while the server is sick, on a machine that is busy with other things.
const (
	sickWait      = 8 * time.Second  // two or three seconds are usual
	sickCheckWait = 16 * time.Second // for Check; ten seconds are usual
)

// A server fails to serve, in various ways. Each call ends in time with an error that names the lock and the reason. A caller that gets an error
// holds nothing. When the server recovers, the runtime does too.
func TestFault_SickServer(t *testing.T) {
	t.Parallel()
	for _, s := range sicknesses {
		runSick(t, s, "all at once")
		if allClients() {
			runSick(t, s, "default")
		}
	}
}

// Each call to a sick server ends in time, whatever the client's options are. The test covers the two sicknesses for which the options matter most:
// no answer at all, and no connection.
func TestFault_SickServerWhateverTheClient(t *testing.T) {
	t.Parallel()
	for _, s := range sicknesses[:2] {
		for client := range clients {
			if allClients() || client == "no timeouts" && s.name == "stopped" {
				runSick(t, s, client)
			}
		}
	}
}

// allClients reports whether there is time to test all clients.
func allClients() bool { return locktest.Scaled(100, 0) == 100 }

func runSick(t *testing.T, s sickness, client string) {
	t.Run(s.name+"/"+client, func(t *testing.T) {
		t.Parallel()
		showSickServer(t, s, client)
	})
}

func showSickServer(t *testing.T, s sickness, client string) {
	if s.hides && client == "all at once" {
		s.says, s.typed = "Redis at ", isTimeout
	}
	places := locktest.OnOneServer(t, s.args...)
	p := places[0]
	require.NoError(t, p.Redis.Ping(t.Context()).Err())
	holder := locktest.NewRuntime(t, clientOf(t, p, client), holdfast.Options{Lease: sickLease})
	fresh := locktest.NewRuntime(t, clientOf(t, p, client), holdfast.Options{Lease: sickLease})
	leases := make([]*holdfast.Lease, len(places))
	for i, p := range places {
		leases[i] = locktest.Acquire(t, p.Lock(holder), holdfast.WithLease(time.Minute))
	}
	heal := s.fall(t, p)
	var well sync.Once
	defer well.Do(heal)

	var calls sync.WaitGroup
	calls.Go(func() { checkSick(t, s, fresh) })
	var releases sync.Mutex
	for i, p := range places {
		calls.Go(func() {
			if s.spares { // only the open connection works, and several releases at once could need a second one
				releases.Lock()
				defer releases.Unlock()
			}
			releaseFromSick(t, p, s, leases[i])
		})
		for _, call := range sickCalls {
			calls.Go(func() { callSick(t, p.Another(t).Lock(fresh), s, call) })
		}
	}
	calls.Wait()
	well.Do(heal)
	for _, p := range places {
		for _, rt := range []*holdfast.Runtime{fresh, holder} {
			locktest.Await(t, "an acquire and a release", func() bool { // a busy machine may need more than a second
				lease, err := p.Another(t).Lock(rt).Acquire(t.Context())
				return err == nil && lease.Release(t.Context()) == nil
			})
		}
	}
	var left []string
	defer func() { assert.Empty(t, left) }()
	locktest.Await(t, "all locks to be free", func() bool {
		left = slices.DeleteFunc(p.Redis.Keys(context.Background(), "*").Val(), func(key string) bool {
			return strings.HasPrefix(key, "filling") || strings.HasPrefix(key, "redisson_lock_token:") // counters of tokens never expire
		})
		return len(left) == 0
	})
}

type sickCall struct {
	op     string // as errors name it
	writes bool
	call   func(*holdfast.Lock) error
}

var sickCalls = []sickCall{
	{"acquire", true, func(l *holdfast.Lock) error { return taken(l.Acquire(context.Background())) }},
	{"acquire", true, func(l *holdfast.Lock) error { return taken(l.TryAcquire(context.Background())) }},
	{"acquire", true, func(l *holdfast.Lock) error { return taken(l.AcquireAsync(context.Background()).Lease()) }},
	{"acquire", true, func(l *holdfast.Lock) error {
		return taken(l.Acquire(context.Background(), holdfast.WithLease(time.Hour)))
	}},
	{"acquire", true, func(l *holdfast.Lock) error {
		return l.Do(context.Background(), func(context.Context) error { return nil })
	}},
	{"inspect", false, func(l *holdfast.Lock) error { _, err := l.Inspect(context.Background()); return err }},
	{"force-release", false, func(l *holdfast.Lock) error { _, err := l.ForceRelease(context.Background()); return err }},
}

// taken returns the error of an acquire. If the acquire was granted, it releases the lease and returns the error of the release.
func taken(lease *holdfast.Lease, err error) error {
	if lease != nil {
		return lease.Release(context.Background())
	}
	return err
}

func callSick(t *testing.T, lock *holdfast.Lock, s sickness, c sickCall) {
	var err error
	succeeds := !c.writes && s.reads
	for range 5 {
		start := time.Now()
		err = c.call(lock)
		assert.Less(t, time.Since(start), sickWait, c.op)
		if err == nil || s.typed(err) && !succeeds || !isTimeout(err) {
			break // after any other timeout, call again: the machine was too busy for the server to answer
		}
	}
	switch {
	case succeeds:
		assert.NoError(t, err, c.op)
	case err != nil || !s.may:
		assertSays(t, s, err, `holdfast: `+c.op+` "`+lock.Name()+`": `)
	}
}

func releaseFromSick(t *testing.T, p *locktest.Place, s sickness, held *holdfast.Lease) {
	assert.True(t, held.Valid(), "a held lock stays held")
	start := time.Now()
	err := held.Release(context.Background())
	assert.Less(t, time.Since(start), sickWait, "release")
	assert.ErrorIs(t, held.Err(), holdfast.ErrNotHeld, "it is over for the caller")
	if s.frees || s.spares {
		assert.NoError(t, err)
		return
	}
	if isTimeout(err) { // as above
		s.says, s.typed = "Redis at ", isTimeout
	}
	assertSays(t, s, err, `holdfast: release "`+p.Name+`": not confirmed, the lock comes free within its lease: `)
}

func checkSick(t *testing.T, s sickness, rt *holdfast.Runtime) {
	start := time.Now()
	err := rt.Check(context.Background())
	assert.Less(t, time.Since(start), sickCheckWait, "check")
	var found *holdfast.CheckError
	switch {
	case err == nil && s.name == "wants a password": // the check may have used connections that are logged in
	case errors.As(err, &found): // Check describes the problem in its own words
		assert.True(t, strings.HasPrefix(err.Error(), "holdfast: check: "), err)
	default:
		assertSays(t, s, err, "holdfast: check: ")
	}
}

// assertSays checks that an error alone, without any context, says what was called and what is wrong.
func assertSays(t *testing.T, s sickness, err error, begins string) {
	if !assert.Error(t, err, begins) {
		return
	}
	text := err.Error()
	assert.True(t, strings.HasPrefix(text, begins), "%q begins otherwise than %q", text, begins)
	assert.Contains(t, text, s.says)
	assert.NotContains(t, text, "\n", "one line")
	assert.True(t, s.typed(err), "%T %v", err, err)
	for _, wrong := range []error{holdfast.ErrNotAcquired, holdfast.ErrLeaseLost, holdfast.ErrClosed, holdfast.ErrForeignKey, holdfast.ErrInvalid} {
		assert.NotErrorIs(t, err, wrong)
	}
}
