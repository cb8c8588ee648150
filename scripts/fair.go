package scripts

import (
	_ "embed"

	"github.com/holdfast-go/holdfast/protocol"
)

var (
	//go:embed fair_acquire.lua
	fairAcquireLua string
	//go:embed fair_release.lua
	fairReleaseLua string
	//go:embed fair_inspect.lua
	fairInspectLua string
	//go:embed fair_force_release.lua
	fairForceReleaseLua string

	fairAcquire = load("fair_acquire", fairAcquireLua).toMigrateBy(
		"local holder, foreign = holder_of(lock)", "local holder, foreign = '"+ofString+"', nil\nif not strange then holder, foreign = holder_of(lock) end")
	fairRelease = load("fair_release", fairReleaseLua).toMigrateBy(
		"redis.call('hexists'", "not strange and redis.call('hexists'", "redis.call('hdel'", "not strange and redis.call('hdel'").forMany(5)
	fairInspect      = load("fair_inspect", fairInspectLua)
	fairForceRelease = load("fair_force_release", fairForceReleaseLua)
)

// FairLock is the lock that is granted in queue order, across processes.
var FairLock = &Kind{
	Name:         protocol.KindFair,
	Family:       Fair,
	Queued:       true,
	Owned:        true,
	Channel:      WaiterChannel,
	Others:       LockChannel,
	Acquire:      acquireFair,
	Release:      releaseFair,
	Renew:        renewLocks,
	Look:         lookLock,
	Inspect:      inspectFair,
	ForceRelease: forceReleaseFair,
}

func acquireFair(s *Site, raw string, t Terms) Call {
	place := "new"
	switch {
	case t.Try:
		place = "try"
	case t.Standing:
		place = "kept"
	}
	c := newCall(s.of(fairAcquire), 4, 7, 2)
	c.Command = append(c.Command, raw, QueueKey(raw), timeoutKey(raw), waitingKey(raw),
		t.Grant, t.Lease.Milliseconds(), nil, place, s.FairWait.Milliseconds(), s.Runtime, s.Lease.Milliseconds())
	return c
}

func releaseFair(s *Site, raw string, t Terms) Call {
	c := newCall(s.of(fairRelease), 5, 8, -1)
	c.Command = append(c.Command, raw, QueueKey(raw), timeoutKey(raw), waitingKey(raw), LockChannel(raw),
		t.Grant, s.Publish, t.Heir, t.HeirLease.Milliseconds(), s.FairWait.Milliseconds(), t.keep(), Nobody(t.Grant), t.TurnEnds)
	return c
}

func inspectFair(raw string) Call {
	c := newCall(fairInspect, 2, 0, -1)
	c.Command = append(c.Command, raw, QueueKey(raw))
	return c
}

func forceReleaseFair(s *Site, raw string) Call {
	c := newCall(fairForceRelease, 5, 2, 1)
	c.Command = append(c.Command, raw, QueueKey(raw), timeoutKey(raw), waitingKey(raw), LockChannel(raw), s.Publish, nil)
	return c
}
