package scripts

import (
	_ "embed"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

var (
	//go:embed read_acquire.lua
	readAcquireLua string
	//go:embed read_release.lua
	readReleaseLua string
	//go:embed read_renew.lua
	readRenewLua string
	//go:embed write_acquire.lua
	writeAcquireLua string
	//go:embed write_release.lua
	writeReleaseLua string
	//go:embed write_renew.lua
	writeRenewLua string
	//go:embed write_pass.lua
	writePassLua string
	//go:embed read_write_force_release.lua
	readWriteForceReleaseLua string

	readAcquire           = load("read_acquire", readAcquireLua).toMigrate()
	readRelease           = load("read_release", readReleaseLua)
	readRenew             = load("read_renew", readRenewLua)
	writeAcquire          = load("write_acquire", writeAcquireLua).toMigrate()
	writeRelease          = load("write_release", writeReleaseLua)
	writeRenew            = load("write_renew", writeRenewLua)
	writePass             = load("write_pass", writePassLua)
	readWriteForceRelease = load("read_write_force_release", readWriteForceReleaseLua)
)

// ReadLock is the half of a read/write lock that readers share.
var ReadLock = &Kind{
	Name:         protocol.KindRead,
	Family:       ReadWrite,
	Handoff:      true,
	Grants:       GrantPerProcess,
	Owned:        true,
	Channel:      readWriteChannel,
	Acquire:      acquireRead,
	Release:      releaseRead,
	Renew:        renewReads,
	Look:         lookLock,
	Inspect:      inspectLock,
	ForceRelease: forceReleaseRead,
}

// WriteLock is the half of a read/write lock that only one writer can hold.
var WriteLock = &Kind{
	Name:         protocol.KindWrite,
	Family:       ReadWrite,
	Handoff:      true,
	Owned:        true,
	Lingers:      true,
	ID:           func(plain string) string { return plain + ":write" },
	Channel:      readWriteChannel,
	Acquire:      acquireWrite,
	Release:      releaseWrite,
	Pass:         passWrite,
	Renew:        renewWrites,
	Look:         lookLock,
	Inspect:      inspectLock,
	ForceRelease: forceReleaseWrite,
}

func acquireRead(s *Site, raw string, t Terms) Call {
	c := newCall(s.of(readAcquire), 2, 4, 2)
	c.Command = append(c.Command, raw, readTimeoutKey(raw, t.Grant), t.Grant, t.Lease.Milliseconds(), nil, t.WriteGrant)
	return c
}

func releaseRead(s *Site, raw string, t Terms) Call {
	c := newCall(readRelease, 4, 2, -1)
	c.Command = append(c.Command, raw, ReadWriteChannel(raw), readTimeoutKey(raw, t.Grant), ReadTimeouts(raw), t.Grant, s.Publish)
	return c
}

func renewReads(_ *Site, raws, grants []string, lease time.Duration) Call {
	c := newCall(readRenew, 2*len(raws), 2+len(grants), 1)
	for i, raw := range raws {
		c.Command = append(c.Command, raw, readTimeoutKey(raw, grants[i]))
	}
	c.Command = append(c.Command, lease.Milliseconds(), nil)
	for _, grant := range grants {
		c.Command = append(c.Command, grant)
	}
	return c
}

func forceReleaseRead(s *Site, raw string) Call { return forceReleaseReadWrite(s, raw, "read", "0") }

func acquireWrite(s *Site, raw string, t Terms) Call {
	c := newCall(s.of(writeAcquire), 1, 3, 2)
	c.Command = append(c.Command, raw, t.Grant, t.Lease.Milliseconds(), nil)
	return c
}

func releaseWrite(s *Site, raw string, t Terms) Call {
	c := newCall(writeRelease, 3, 4, -1)
	c.Command = append(c.Command, raw, ReadWriteChannel(raw), ReadTimeouts(raw), t.Grant, s.Publish, t.keep(), Nobody(t.Grant))
	return c
}

func renewWrites(_ *Site, raws, grants []string, lease time.Duration) Call {
	return renewEach(writeRenew, raws, grants, lease)
}

func passWrite(_ *Site, raw string, t Terms) Call {
	c := newCall(writePass, 1, 4, 3)
	c.Command = append(c.Command, raw, t.From, t.Grant, t.Lease.Milliseconds(), nil)
	return c
}

func forceReleaseWrite(s *Site, raw string) Call { return forceReleaseReadWrite(s, raw, "write", "1") }

func forceReleaseReadWrite(s *Site, raw, mode, message string) Call {
	c := newCall(readWriteForceRelease, 3, 4, 1)
	c.Command = append(c.Command, raw, ReadWriteChannel(raw), ReadTimeouts(raw), s.Publish, nil, mode, message)
	return c
}

func readWriteChannel(raw, _ string) string { return ReadWriteChannel(raw) }
