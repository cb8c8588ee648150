package faults_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// The lock of a killed process becomes free when its lease expires. A waiter gets it then, although no release is published.
func TestFault_KilledHolder(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		var freed, granted []time.Duration
		stalls := locktest.WatchStalls(t, p)
		waiter := p.Runtime(t, holdfast.Options{})
		for range locktest.Scaled(20, 1) {
			q := p.Another(t)
			child := childproc.Run(t, "stopped holder", "ADDR="+p.Addr, "REGISTERS="+p.Addr, "KIND="+p.Kind.Name)
			child.Send("%s", q.Name)
			require.Equal(t, "held: true", child.Line())
			holder := q.Fields(t)
			waiting := q.Lock(waiter).AcquireAsync(t.Context())
			q.WaitForWaiting(t, waiter, 1)
			<-time.After(rand.N(2 * stopLease)) // at any point of the renewal cycle

			child.Kill()
			killed := time.Now()
			stalls.Take()
			locktest.Await(t, "the dead holder's key to expire", func() bool { return !sameFields(holder, q.Fields(t)) })
			freed = append(freed, time.Since(killed))
			lease, err := waiting.Lease()
			granted = append(granted, time.Since(killed))
			require.NoError(t, err)
			slack := stalls.Slack()
			assert.LessOrEqual(t, freed[len(freed)-1], stopLease+slack)
			assert.LessOrEqual(t, granted[len(granted)-1], 2*stopLease+slack)
			locktest.Release(t, lease)
		}
		t.Logf("%d tries, lease %v: free after at most %v, granted to the next after at most %v",
			len(freed), stopLease, slices.Max(freed), slices.Max(granted))
	})
}

func sameFields(a, b map[string]string) bool {
	for field := range a {
		if _, there := b[field]; !there {
			return false
		}
	}
	return true
}
