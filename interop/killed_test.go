package interop

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// killedLease is the lease of the process that is killed.
const killedLease = time.Second

func init() { childproc.Register("holder", hold) }

// hold is the main function of a process that holds a lock until it is killed.
func hold() {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("ADDR")})
	rt, err := holdfast.New(client, holdfast.Options{Lease: killedLease})
	if err == nil {
		var lease *holdfast.Lease
		lease, err = kindOf(os.Getenv("KIND")).ours(rt, os.Getenv("NAME")).Acquire(context.Background())
		defer runtime.KeepAlive(lease)
	}
	fmt.Println(err)
	select {}
}

// One of our processes is killed while it holds a lock that its watchdog renews. A sleeping waiter on Redisson's side gets the lock when the lease
// has ended.
func TestInterop_KilledHoldersLeaseEnds(t *testing.T) {
	redisson(t)
	p := singleServer(t)
	for _, k := range kinds {
		if !leased(k) {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			stalls := locktest.WatchStalls(t, &locktest.Place{Addr: p.addr})
			ctx, cancel := context.WithTimeout(t.Context(), 2*locktest.Patience)
			defer cancel()
			m := meet(t, p, k)
			theirs := m.theirs(t, 0)
			require.NoError(t, theirs.set(ctx, k, m.name, 1))
			child := childproc.Run(t, "holder", "ADDR="+p.addr, "KIND="+k.name, "NAME="+m.name)
			require.Equal(t, "<nil>", child.Line())
			waits := theirs.party(k.waiter(), m.name)
			granted := m.waiting(t, theirs, waits)
			child.Kill()
			killed := time.Now()
			took, due := at(t, granted).Sub(killed), killedLease
			if k.counter == "permit" {
				due += skewed
			}
			assert.Less(t, took, due+2*time.Second+stalls.Slack())
			m.stillHeld(t, waits)
			m.report(t, "a Go process with a lease of 1 s is killed", fmt.Sprintf("Java gets it after %s", seconds(took)))
		})
	}
}
