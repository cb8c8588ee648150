package faults_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

const mixLease = 400 * time.Millisecond

// mix is the readers and writers of one lock, in processes whose links fail.
type mix struct {
	name             string
	readers, writers locktest.Spans // when they saw their leases valid
}

// Readers and writers acquire and release while their links are cut, lose replies or are delayed, and processes are cut off for longer than a
// lease. A writer's lease is never valid at the same time as any other lease, and nothing is left.
func TestFault_ReadersAndWritersOverBrokenLinks(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(locktest.Scaled(40, 4))*time.Second)
	defer cancel()
	var users, faults sync.WaitGroup
	mixes := []*mix{{name: p.Name + "0"}, {name: p.Name + "1"}, {name: p.Name + "2"}}
	for range 4 {
		rt, proxy := p.Proxied(t, holdfast.Options{Lease: mixLease})
		faults.Go(func() { breakLink(ctx, proxy) })
		for _, m := range mixes {
			for range 3 {
				users.Go(func() { m.use(ctx, rt.RWLock(m.name)) })
			}
		}
	}
	users.Wait()
	faults.Wait()
	for _, m := range mixes {
		t.Logf("%d readers, %d writers", m.readers.Len(), m.writers.Len())
		assert.Positive(t, m.readers.Len())
		assert.Positive(t, m.writers.Len())
		assert.Empty(t, m.writers.Overlaps(), "writers")
		assert.Empty(t, m.writers.Meets(&m.readers), "writers and readers")
	}
	locktest.Await(t, "nothing to be left", func() bool { return len(p.Keys(t)) == 0 })
}

func (m *mix) use(ctx context.Context, lock *holdfast.RWLock) {
	for ctx.Err() == nil {
		half, spans, options := lock.Read(), &m.readers, []holdfast.AcquireOption{holdfast.WithWait(4 * mixLease)}
		if rand.IntN(3) == 0 {
			half, spans = lock.Write(), &m.writers
		}
		if rand.IntN(3) == 0 {
			options = append(options, holdfast.WithLease(mixLease/2+rand.N(mixLease)))
		}
		lease, err := half.Acquire(ctx, options...)
		if err != nil {
			continue
		}
		length := rand.N(20 * time.Millisecond)
		if rand.IntN(10) == 0 {
			length = rand.N(2 * mixLease)
		}
		spans.Hold(lease, length)
		_ = lease.Release(ctx) // the lease may be lost
	}
}

// breakLink makes a link fail now and then, in one of several ways, mostly for a moment, sometimes for longer than a lease.
func breakLink(ctx context.Context, proxy *faultproxy.Proxy) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(2 * mixLease)):
		}
		switch rand.IntN(5) {
		case 0:
			proxy.Cut()
		case 1:
			proxy.DropReplies(1)
		case 2:
			proxy.SwallowReplies(true)
		case 3:
			proxy.Delay(faultproxy.ToServer, rand.N(mixLease/2))
		default:
			proxy.Blackhole(true)
		}
		length := rand.N(mixLease / 4)
		if rand.IntN(4) == 0 {
			length = rand.N(mixLease * 3 / 2)
		}
		<-time.After(length)
		proxy.Heal()
	}
}
