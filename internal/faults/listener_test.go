package faults_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// TestFault_MereListenerCostsLittle counts how often a process gets a lock, with and without a monitor that listens to every release. The count with
// the monitor comes between two counts without it, so a change in the load of the machine affects both results.
func TestFault_MereListenerCostsLittle(t *testing.T) {
	const least = 0.5 // of the rate without a monitor; about 1 is expected, but the machine may be busy with other things
	settle, span := time.Second, time.Duration(locktest.Scaled(2_000, 500))*time.Millisecond
	locktest.InTurn(t, func(t *testing.T, p *locktest.Place) {
		if !p.Kind.TakesTurns() {
			t.Skip("processes do not take turns")
		}
		if testing.Short() && p.Kind.Name != "lock" {
			t.Skip("the other kinds behave the same")
		}
		for _, goroutines := range []int{1, 16} {
			t.Run(fmt.Sprint(goroutines, " goroutines"), func(t *testing.T) {
				measure(t, func() string {
					p := p.Another(t)
					ctx, stop := context.WithCancel(t.Context())
					lock := p.Lock(p.Runtime(t, holdfast.Options{}))
					var served atomic.Int64
					var group sync.WaitGroup
					for range goroutines {
						group.Go(func() { serve(ctx, lock, 0, &served) })
					}
					defer group.Wait()
					defer stop()
					count := func() float64 {
						<-time.After(settle)
						before := served.Load()
						<-time.After(span)
						return float64(served.Load() - before)
					}
					without := count()
					monitor := locktest.NewClient(t, p.Addr).PSubscribe(t.Context(), "*")
					_, err := monitor.Receive(t.Context())
					require.NoError(t, err)
					beside := count()
					require.NoError(t, monitor.Close())
					without = (without + count()) / 2
					t.Logf("%.0f times a second without a monitor, %.2f of that beside one", without/span.Seconds(), beside/without)
					if beside < least*without {
						return fmt.Sprintf("the rate beside a monitor is %.2f of the rate without", beside/without)
					}
					return ""
				})
			})
		}
	})
}
