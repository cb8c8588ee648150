package faults_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/scripts"
)

// TestFault_SubscribeWhileBusy makes a process lose its connections while another client's script keeps the server busy, so that Redis refuses
// the new subscriptions to 400 channels. When the script has ended, every channel is subscribed to, and releases wake the waiters.
func TestFault_SubscribeWhileBusy(t *testing.T) {
	t.Parallel()
	p := locktest.OwnPlace(t, locktest.PlaceOf(t, "lock").Kind, "--lua-time-limit", "20")
	holder := p.Runtime(t, holdfast.Options{})
	waiter, proxy := p.Proxied(t, holdfast.Options{})
	var channels []string
	for i := range 400 {
		name := fmt.Sprint(p.Name, ".", i)
		locktest.Acquire(t, holder.Lock(name))
		channels = append(channels, scripts.LockChannel(name))
		waiter.Lock(name).AcquireAsync(t.Context())
	}
	awaitSubscribed(t, p.Redis, channels, 1)

	free := occupy(t, p)
	proxy.Cut()
	locktest.Await(t, "the process to subscribe", func() bool { return proxy.Open() > 1 })
	<-time.After(50 * time.Millisecond) // long enough for the refusals
	free()

	awaitSubscribed(t, p.Redis, channels, 1)
	showWoken(t, p.Another(t), holder, waiter)
}

// occupy makes the server refuse everything until the function `free` is called.
func occupy(t *testing.T, p *locktest.Place) (free func()) {
	script, ended := locktest.NewClient(t, p.Addr), make(chan struct{})
	go func() {
		defer close(ended)
		_ = script.Eval(context.Background(), "while true do end", nil).Err() // fails when the script is killed
	}()
	look := locktest.NewClient(t, p.Addr)
	locktest.Await(t, "the server to be busy", func() bool { return redis.HasErrorPrefix(look.Ping(t.Context()).Err(), "BUSY") })
	return func() {
		require.NoError(t, look.ScriptKill(t.Context()).Err())
		<-ended
	}
}

// awaitSubscribed returns when each channel has n subscribers.
func awaitSubscribed(t *testing.T, client redis.UniversalClient, channels []string, n int64) {
	t.Helper()
	var lacking []string
	defer func() { assert.Zero(t, len(lacking), "channels without enough subscribers") }()
	locktest.Await(t, "the subscriptions", func() bool {
		counts := client.PubSubNumSub(t.Context(), channels...).Val()
		lacking = slices.DeleteFunc(slices.Clone(channels), func(channel string) bool { return counts[channel] == n })
		return len(lacking) == 0
	})
}

// showWoken releases a lock while a process waits for it, again and again. A message wakes the waiter each time.
func showWoken(t *testing.T, p *locktest.Place, holder, waiter *holdfast.Runtime) {
	rounds := locktest.Scaled(1000, 20)
	stalls := locktest.WatchStalls(t, p)
	var waits []time.Duration
	late, slow := 0, 0
	for round := range rounds {
		lease := locktest.Acquire(t, p.Lock(holder))
		pending := p.Lock(waiter).AcquireAsync(t.Context())
		p.WaitForWaiter(t, waiter)
		stalls.Take()
		start := time.Now()
		locktest.Release(t, lease)
		next, err := pending.Lease()
		require.NoError(t, err)
		wait := time.Since(start)
		if wait > stalls.Slack() {
			late++
		}
		if wait > 50*time.Millisecond {
			t.Logf("round %d: %v", round, wait)
			slow++
		}
		waits = append(waits, wait)
		locktest.Release(t, next)
	}
	slices.Sort(waits)
	t.Logf("%d rounds: woken after %v (median), %v at most; %d after more than 50 ms, %d of them without a stall of the machine",
		rounds, waits[rounds/2], waits[rounds-1], slow, late)
	assert.Zero(t, late, "waits of more than 50 ms without a stall of the machine")
}

// TestFault_RefusedChannel has a process wait for several locks. Its Redis user may not subscribe to the channel of one of them. After a reconnection
// the process subscribes to the other channels again, and an event names the refused channel. When the user gets the right, the process subscribes to
// that channel, too.
func TestFault_RefusedChannel(t *testing.T) {
	t.Parallel()
	p := locktest.OwnPlaceOf(t, "lock")
	user := p.Name
	allow := func(rules ...string) {
		require.NoError(t, p.Redis.ACLSetUser(context.Background(), user, rules...).Err())
	}
	allow("reset", "on", ">secret", "~*", "+@all", "&*good*", "&*holdfast*")
	var events locktest.Recorder
	client := locktest.ClientWith(t, &redis.Options{Addr: p.Addr, Username: user, Password: "secret"})
	holder, waiter := p.Runtime(t, holdfast.Options{}), locktest.NewRuntime(t, client, holdfast.Options{OnEvent: events.Record})
	var channels []string
	for i := range 10 {
		name := fmt.Sprint("good", i)
		locktest.Acquire(t, holder.Lock(name))
		waiter.Lock(name).AcquireAsync(t.Context())
		channels = append(channels, scripts.LockChannel(name))
	}
	awaitSubscribed(t, p.Redis, channels, 1)
	locktest.Acquire(t, holder.Lock("bad"))
	waiter.Lock("bad").AcquireAsync(t.Context())
	p.Named("bad").WaitForWaiting(t, waiter, 1)

	require.Positive(t, p.Redis.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Val())
	locktest.Await(t, "the connection to be back", func() bool { return len(locktest.Recorded[holdfast.Reconnected](&events)) > 0 })
	awaitSubscribed(t, p.Redis, channels, 1)
	showWoken(t, p.Named("good"), holder, waiter)
	locktest.Await(t, "the event", func() bool { return len(locktest.Recorded[holdfast.SubscribeRefused](&events)) > 0 })
	told := locktest.Recorded[holdfast.SubscribeRefused](&events)
	require.Len(t, told, 1, "the refusal is reported once")
	assert.Equal(t, "bad", told[0].Lock())
	assert.Equal(t, scripts.LockChannel("bad"), told[0].Channel)
	assert.ErrorContains(t, told[0].Err, "NOPERM")
	assert.True(t, strings.Contains(fmt.Sprint(told[0]), `"bad"`), told[0])

	allow("&*bad*")
	awaitSubscribed(t, p.Redis, append(channels, scripts.LockChannel("bad")), 1)
}
