package scripts

import (
	_ "embed"

	"github.com/holdfast-go/holdfast/protocol"
)

var (
	//go:embed fenced_acquire.lua
	fencedAcquireLua string
	//go:embed fenced_pass.lua
	fencedPassLua string
	//go:embed fenced_inspect.lua
	fencedInspectLua string

	fencedAcquire = load("fenced_acquire", fencedAcquireLua).toMigrate().forMany(2)
	fencedPass    = load("fenced_pass", fencedPassLua)
	fencedInspect = load("fenced_inspect", fencedInspectLua)
)

// FencedLock is the lock whose holders have fencing tokens.
var FencedLock = &Kind{
	Name:         protocol.KindFenced,
	Family:       Fenced,
	Handoff:      true,
	Owned:        true,
	Lingers:      true,
	Tokens:       true,
	Channel:      Lock.Channel,
	Keeps:        TokenKey,
	Acquire:      acquireFenced,
	Release:      releaseLock,
	Pass:         passFenced,
	PassEndsTurn: true,
	Renew:        renewLocks,
	Look:         lookLock,
	Inspect:      inspectFenced,
	ForceRelease: forceReleaseLock,
}

func acquireFenced(s *Site, raw string, t Terms) Call {
	c := newCallIn(t.Room, s.of(fencedAcquire), 2, 6, 2)
	c.Command = append(c.Command, raw, TokenKey(raw), t.Grant, t.Lease.Milliseconds(), nil, t.Report, s.Tokens)
	return c.withMinToken()
}

func passFenced(s *Site, raw string, t Terms) Call {
	c := newCall(fencedPass, 3, 8, 3)
	c.Command = append(c.Command, raw, TokenKey(raw), LockChannel(raw),
		t.From, t.Grant, t.Lease.Milliseconds(), nil, s.Publish, t.idlers(), s.Tokens)
	return c.withMinToken()
}

// withMinToken appends the script argument "min_token", whose value SetMinToken sets.
func (c Call) withMinToken() Call {
	c.minToken = len(c.Command)
	c.Command = append(c.Command, 0)
	return c
}

func inspectFenced(raw string) Call {
	c := newCall(fencedInspect, 2, 0, -1)
	c.Command = append(c.Command, raw, TokenKey(raw))
	return c
}
