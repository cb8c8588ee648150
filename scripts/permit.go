package scripts

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

var (
	//go:embed permit_acquire.lua
	permitAcquireLua string
	//go:embed permit_pass.lua
	permitPassLua string
	//go:embed permit_release.lua
	permitReleaseLua string
	//go:embed permit_renew.lua
	permitRenewLua string
	//go:embed permit_look.lua
	permitLookLua string

	permitAcquire = load("permit_acquire", permitAcquireLua)
	permitPass    = load("permit_pass", permitPassLua)
	permitRelease = load("permit_release", permitReleaseLua)
	permitRenew   = load("permit_renew", permitRenewLua)
	permitLook    = load("permit_look", permitLookLua)
)

// Permit is one permit of a semaphore whose permits are leases. It is not part of the actor message API, so it has no Inspect and
// no ForceRelease.
var Permit = &Kind{
	Name:    protocol.KindPermitSemaphore,
	Family:  Permits,
	Handoff: true,
	Grants:  GrantPerHolder,
	ID:      permitID,
	NotSet:  "it has no permits: SetPermits was never called, or it was deleted since",
	Channel: func(raw, _ string) string { return SemaphoreChannel(raw) },
	Acquire: acquirePermit,
	Pass:    passPermit,
	Release: releasePermit,
	Renew:   renewPermits,
	Look:    lookPermit,
}

// permitMark is the beginning of the ids of all permits that Holdfast makes.
const permitMark = "hfp1"

// permitID returns the id of a permit: 16 bytes in hexadecimal form, as in Redisson, but beginning with permitMark.
func permitID(plain string) string {
	sum := sha256.Sum256([]byte(plain))
	return hex.EncodeToString(append([]byte(permitMark), sum[:12]...))
}

func acquirePermit(s *Site, raw string, t Terms) Call {
	c := newCall(permitAcquire, 3, 4, 2)
	c.Command = append(c.Command, raw, PermitsKey(raw), SemaphoreChannel(raw), t.Grant, t.Lease.Milliseconds(), nil, s.Publish)
	return c
}

func passPermit(_ *Site, raw string, t Terms) Call {
	c := newCall(permitPass, 2, 4, 3)
	c.Command = append(c.Command, raw, PermitsKey(raw), t.From, t.Grant, t.Lease.Milliseconds(), nil)
	return c
}

func releasePermit(s *Site, raw string, t Terms) Call {
	c := newCall(permitRelease, 3, 2, -1)
	c.Command = append(c.Command, raw, PermitsKey(raw), SemaphoreChannel(raw), t.Grant, s.Publish)
	return c
}

func lookPermit(raw, id string) Call {
	c := newCall(permitLook, 1, 1, -1)
	c.Command = append(c.Command, PermitsKey(raw), id)
	return c
}

func renewPermits(_ *Site, raws, grants []string, lease time.Duration) Call {
	c := newCall(permitRenew, len(raws), 2+len(grants), 1)
	for _, raw := range raws {
		c.Command = append(c.Command, PermitsKey(raw))
	}
	c.Command = append(c.Command, lease.Milliseconds(), nil)
	for _, grant := range grants {
		c.Command = append(c.Command, grant)
	}
	return c
}
