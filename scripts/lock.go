package scripts

import (
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

var (
	//go:embed lock_acquire.lua
	lockAcquireLua string
	//go:embed lock_release.lua
	lockReleaseLua string
	//go:embed lock_pass.lua
	lockPassLua string
	//go:embed lock_renew.lua
	lockRenewLua string
	//go:embed lock_inspect.lua
	lockInspectLua string
	//go:embed lock_force_release.lua
	lockForceReleaseLua string

	lockAcquire      = load("lock_acquire", lockAcquireLua)
	lockRelease      = load("lock_release", lockReleaseLua)
	lockPass         = load("lock_pass", lockPassLua)
	lockRenew        = load("lock_renew", lockRenewLua)
	lockInspect      = load("lock_inspect", lockInspectLua)
	lockForceRelease = load("lock_force_release", lockForceReleaseLua)
)

// Lock is the reentrant lock.
var Lock = &Kind{
	Name:         protocol.KindLock,
	Family:       Plain,
	Handoff:      true,
	Owned:        true,
	Channel:      func(raw, _ string) string { return LockChannel(raw) },
	Acquire:      acquireLock,
	Release:      releaseLock,
	Pass:         passLock,
	Renew:        renewLocks,
	Inspect:      inspectLock,
	ForceRelease: forceReleaseLock,
}

func acquireLock(_ *Site, raw string, t Terms) Call {
	want := 0
	if t.WantHolder {
		want = 1
	}
	c := newCall(lockAcquire, 1, 4, 2)
	c.Command = append(c.Command, raw, t.Grant, t.Lease.Milliseconds(), nil, want)
	return c
}

func releaseLock(s *Site, raw string, t Terms) Call {
	c := newCall(lockRelease, 2, 2, -1)
	c.Command = append(c.Command, raw, LockChannel(raw), t.Grant, s.Publish)
	return c
}

func passLock(_ *Site, raw string, t Terms) Call {
	c := newCall(lockPass, 1, 4, 3)
	c.Command = append(c.Command, raw, t.From, t.Grant, t.Lease.Milliseconds(), nil)
	return c
}

// renewLocks gives each lock a full lease again if its grant still holds it.
func renewLocks(_ *Site, raws, grants []string, lease time.Duration) Call {
	c := newCall(lockRenew, len(raws), 2+len(grants), 1)
	for _, raw := range raws {
		c.Command = append(c.Command, raw)
	}
	c.Command = append(c.Command, lease.Milliseconds(), nil)
	for _, grant := range grants {
		c.Command = append(c.Command, grant)
	}
	return c
}

func inspectLock(raw string) Call {
	c := newCall(lockInspect, 1, 0, -1)
	c.Command = append(c.Command, raw)
	return c
}

func forceReleaseLock(s *Site, raw string) Call {
	c := newCall(lockForceRelease, 2, 2, 1)
	c.Command = append(c.Command, raw, LockChannel(raw), s.Publish, nil)
	return c
}

// Acquired is the reply of an acquire.
type Acquired struct {
	Granted bool
	TTL     time.Duration // of the holder; negative: the key has none
	Holder  string        // one of the holders, if asked for
}

// The replies that grant something name the grant: should a connection ever get out of step, another call's reply grants nothing.

// ReadAcquired reads the reply of an acquire for this grant.
func ReadAcquired(reply any, grant string) (Acquired, error) {
	switch v := reply.(type) {
	case string:
		if v == grant {
			return Acquired{Granted: true}, nil
		}
	case int64:
		return Acquired{TTL: time.Duration(v) * time.Millisecond}, nil
	case []any:
		if len(v) == 2 {
			ttl, ok := v[0].(int64)
			holder, ok2 := v[1].(string)
			if ok && ok2 {
				return Acquired{TTL: time.Duration(ttl) * time.Millisecond, Holder: holder}, nil
			}
		}
	}
	return Acquired{}, unexpected("acquire", reply)
}

// ReadReleased reads the reply of a release: how many subscribers were told; held is false when the grant did not hold the lock.
func ReadReleased(reply any) (receivers int, held bool, err error) {
	switch v := reply.(type) {
	case nil:
		return 0, false, nil
	case int64:
		return int(v), true, nil
	}
	return 0, false, unexpected("release", reply)
}

// ReadFlag reads the reply of a script that answers 1 or 0.
func ReadFlag(reply any) (bool, error) {
	if v, ok := reply.(int64); ok && (v == 0 || v == 1) {
		return v == 1, nil
	}
	return false, unexpected("script", reply)
}

// ReadPassed reads the reply of a pass to this grant.
func ReadPassed(reply any, grant string) (bool, error) {
	switch v := reply.(type) {
	case nil:
		return false, nil
	case string:
		if v == grant {
			return true, nil
		}
	}
	return false, unexpected("pass", reply)
}

// ReadRenewed reads the reply of a renewal of these grants: the indices of those that are gone.
func ReadRenewed(reply any, grants []string) ([]int, error) {
	list, ok := reply.([]any)
	if !ok || len(list) == 0 || list[0] != grants[0] {
		return nil, unexpected("renew", reply)
	}
	gone := make([]int, 0, len(list)-1)
	for _, item := range list[1:] {
		position, ok := item.(int64)
		if !ok || position < 1 || position > int64(len(grants)) {
			return nil, unexpected("renew", reply)
		}
		gone = append(gone, int(position-1))
	}
	return gone, nil
}

// ReadInspected reads the reply of an inspect.
func ReadInspected(reply any) (protocol.State, error) {
	list, ok := reply.([]any)
	if !ok || (len(list) > 0 && len(list)%2 == 0) {
		return protocol.State{}, unexpected("inspect", reply)
	}
	if len(list) == 0 {
		return protocol.State{}, nil
	}
	ttl, ok := list[0].(int64)
	if !ok {
		return protocol.State{}, unexpected("inspect", reply)
	}
	state := protocol.State{Held: true, Mode: "exclusive", TTL: time.Duration(ttl) * time.Millisecond}
	for i := 1; i+1 < len(list); i += 2 {
		field, ok := list[i].(string)
		value, ok2 := list[i+1].(string)
		if !ok || !ok2 {
			return protocol.State{}, unexpected("inspect", reply)
		}
		if field == "mode" {
			state.Mode = value
			continue
		}
		holds, err := strconv.Atoi(value)
		if err != nil {
			return protocol.State{}, fmt.Errorf("%w: a hash whose field %q counts no holds", protocol.ErrForeignKey, field)
		}
		state.Holders = append(state.Holders, protocol.Holder{ID: field, Holds: holds})
	}
	return state, nil
}

func unexpected(script string, reply any) error {
	return fmt.Errorf("unexpected reply of the %s script: %T %v", script, reply, reply)
}
