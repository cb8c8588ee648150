package holdfast_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Whatever the options are, New makes a runtime that works, or says which fields are wrong: all of those, and no other.
func FuzzOptions_WorkOrAreNamed(f *testing.F) {
	const second, day = int64(time.Second), int64(24 * time.Hour)
	f.Add(int64(0), 0, int64(0), 0, int64(0), 0, 0, int64(0), 0)
	f.Add(second, 1, int64(1), 1, int64(1), 1, 0, int64(1), 1)
	f.Add(day, 10_000, int64(math.MaxInt64), math.MaxInt, day/3, math.MaxInt, math.MaxInt, day/3, 1)
	f.Add(day+1, 10_001, int64(-1), -1, day, -1, -1, day, 3)
	f.Add(int64(50*time.Millisecond)-1, -1, int64(math.MinInt64), math.MinInt, int64(-1), math.MinInt, math.MinInt, int64(math.MinInt64), -1)
	f.Add(5*second, 100, second, 1<<53+1, int64(time.Millisecond), 1, 0, second, 2)
	f.Add(int64(-7), -7, int64(-7), -7, int64(-7), -7, -7, int64(-7), 256)
	f.Fuzz(func(t *testing.T, lease int64, renewBatch int, fairWait int64, most int, passFor int64, waiters, replicas int, ackTimeout int64, pubsub int) {
		if pubsub >= 256 { // else hardly any of them would work
			lease, passFor, ackTimeout = second+positive(lease)%(day-second), positive(passFor)%(second/3), positive(ackTimeout)%(second/3)
			renewBatch, most, waiters = positive(renewBatch)%10_001, positive(most), positive(waiters)
			fairWait, replicas, pubsub = positive(fairWait), 0, pubsub%2
		}
		o := holdfast.Options{
			Lease: time.Duration(lease), RenewBatch: renewBatch, FairWait: time.Duration(fairWait),
			Handoff: holdfast.Handoff{Max: most, For: time.Duration(passFor)}, MaxWaiters: waiters,
			AckReplicas: replicas, AckTimeout: time.Duration(ackTimeout), PubSub: holdfast.PubSubMode(pubsub), Logger: locktest.Quiet(),
		}
		client := redistest.Shared(t).Client(t)
		rt, err := holdfast.New(client, o)
		if wrong := wrongFields(o); len(wrong) > 0 {
			requireNamed(t, err, wrong)
			return
		}
		require.NoError(t, err)
		defer func() { require.NoError(t, rt.Close(context.Background())) }()
		if replicas > 0 || o.Lease != 0 && o.Lease < time.Second {
			return // there are no replicas, and a busy machine may be too slow for a short lease
		}
		for _, lock := range []*holdfast.Lock{rt.FencedLock(redistest.Name(t)), rt.FairLock(redistest.Name(t))} {
			lease := locktest.Acquire(t, lock)
			require.True(t, lease.Valid())
			locktest.Release(t, lease)
		}
	})
}

func positive[T int | int64](n T) T { return max(n, -(n + 1)) }

// wrongFields are those that the documentation forbids.
func wrongFields(o holdfast.Options) (wrong []string) {
	lease := o.Lease
	if lease == 0 {
		lease = 30 * time.Second
	}
	for field, bad := range map[string]bool{
		"Lease":       lease < 50*time.Millisecond || lease > 24*time.Hour,
		"RenewBatch":  o.RenewBatch < 0 || o.RenewBatch > 10_000,
		"FairWait":    o.FairWait < 0,
		"Handoff.Max": o.Handoff.Max < 0,
		"Handoff.For": o.Handoff.For < 0 || o.Handoff.For > lease/3,
		"MaxWaiters":  o.MaxWaiters < 0,
		"AckReplicas": o.AckReplicas < 0,
		"AckTimeout":  o.AckTimeout < 0 || o.AckTimeout > lease/3 || o.AckTimeout >= 5*time.Second, // the client's ReadTimeout
		"PubSub":      o.PubSub != holdfast.PubSubAuto && o.PubSub != holdfast.PubSubPlain,         // sharded needs a cluster
	} {
		if bad {
			wrong = append(wrong, field)
		}
	}
	return wrong
}

func requireNamed(t *testing.T, err error, wrong []string) {
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	said := 0
	for _, field := range wrong {
		require.Contains(t, err.Error(), field+" is ")
	}
	for _, field := range []string{"Lease", "RenewBatch", "FairWait", "Handoff.Max", "Handoff.For", "MaxWaiters", "AckReplicas", "AckTimeout", "PubSub"} {
		said += strings.Count(err.Error(), field+" is ")
	}
	require.Equal(t, len(wrong), said, "%v, wrong are %v", err, wrong)
}
