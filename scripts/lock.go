package scripts

import (
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

var (
	//go:embed lock_acquire.lua
	lockAcquireLua string
	//go:embed lock_release.lua
	lockReleaseLua string
	//go:embed lock_keep.lua
	lockKeepLua string
	//go:embed lock_pass.lua
	lockPassLua string
	//go:embed lock_renew.lua
	lockRenewLua string
	//go:embed lock_inspect.lua
	lockInspectLua string
	//go:embed lock_look.lua
	lockLookLua string
	//go:embed lock_force_release.lua
	lockForceReleaseLua string

	lockAcquire      = load("lock_acquire", lockAcquireLua).toMigrate().forMany(1)
	lockRelease      = load("lock_release", lockReleaseLua).forMany(2)
	lockKeep         = load("lock_keep", lockKeepLua)
	lockPass         = load("lock_pass", lockPassLua)
	lockRenew        = load("lock_renew", lockRenewLua)
	lockInspect      = load("lock_inspect", lockInspectLua)
	lockLook         = load("lock_look", lockLookLua)
	lockForceRelease = load("lock_force_release", lockForceReleaseLua)
)

// Lock is the reentrant lock.
var Lock = &Kind{
	Name:         protocol.KindLock,
	Family:       Plain,
	Handoff:      true,
	Owned:        true,
	Lingers:      true,
	Channel:      func(raw, _ string) string { return LockChannel(raw) },
	Acquire:      acquireLock,
	Release:      releaseLock,
	Pass:         passLock,
	PassEndsTurn: true,
	Renew:        renewLocks,
	Look:         lookLock,
	Inspect:      inspectLock,
	ForceRelease: forceReleaseLock,
}

// Arguments are the key and the channel of an exclusive lock, converted to arguments of a command. Each conversion of a string costs an
// allocation, so the actor of a lock keeps the Arguments of that lock. The zero value is ready for use: the first call fills it in.
type Arguments struct{ key, channel any }

// of returns the key and the channel of a lock, and keeps them in a unless a is nil.
func (a *Arguments) of(raw string) (key, channel any) {
	if a == nil {
		return raw, LockChannel(raw)
	}
	if a.key == nil {
		a.key, a.channel = raw, LockChannel(raw)
	}
	return a.key, a.channel
}

func acquireLock(s *Site, raw string, t Terms) Call {
	c := newCallIn(t.Room, s.of(lockAcquire), 1, 4, 2)
	key, _ := t.Arguments.of(raw)
	c.Command = append(c.Command, key, t.Grant, t.Lease.Milliseconds(), nil, t.Report)
	return c
}

func releaseLock(s *Site, raw string, t Terms) Call {
	if t.Keep > 0 {
		c := newCall(lockKeep, 2, 4, -1)
		c.Command = append(c.Command, raw, LockChannel(raw), t.Grant, s.Publish, t.keep(), Nobody(t.Grant))
		return c
	}
	c := newCallIn(t.Room, lockRelease, 2, 2, -1)
	key, channel := t.Arguments.of(raw)
	c.Command = append(c.Command, key, channel, t.Grant, s.Publish)
	return c
}

func passLock(s *Site, raw string, t Terms) Call {
	c := newCall(lockPass, 2, 6, 3)
	c.Command = append(c.Command, raw, LockChannel(raw), t.From, t.Grant, t.Lease.Milliseconds(), nil, s.Publish, t.idlers())
	return c
}

// keep returns Terms.Keep in whole milliseconds, as an argument of a release. It is rounded up, so that the lock does not become free too early.
func (t *Terms) keep() int64 { return (max(t.Keep, 0) + time.Millisecond - 1).Milliseconds() }

// Nobody returns an owner field that belongs to no grant: its number is negative, and the numbers of grants are positive. If a lock stays taken
// after its release (Terms.Keep), this owner field replaces that of the released grant.
func Nobody(grant string) string {
	runtime, number, _ := strings.Cut(grant, ":")
	return runtime + ":-" + number
}

// idlers returns the number to send as the argument idlers of a pass: -1 if the turn continues, otherwise Terms.Idlers.
func (t *Terms) idlers() int {
	if !t.TurnEnds {
		return -1
	}
	return t.Idlers
}

// renewLocks restarts the lease of each lock that its grant still holds.
func renewLocks(_ *Site, raws, grants []string, lease time.Duration) Call {
	return renewEach(lockRenew, raws, grants, lease)
}

// renewEach returns a call of the script. The keys of the call are the locks; its last arguments are the grants to renew.
func renewEach(script *Script, raws, grants []string, lease time.Duration) Call {
	c := newCall(script, len(raws), 2+len(grants), 1)
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

func lookLock(raw, grant string) Call {
	c := newCall(lockLook, 1, 1, -1)
	c.Command = append(c.Command, raw, grant)
	return c
}

func forceReleaseLock(s *Site, raw string) Call {
	c := newCall(lockForceRelease, 2, 2, 1)
	c.Command = append(c.Command, raw, LockChannel(raw), s.Publish, nil)
	return c
}

// Acquired is the reply of an acquire.
type Acquired struct {
	Granted     bool
	TTL         time.Duration // until the lock or the next permit expires; negative if it never does
	Holder      string        // one of the holders of a busy lock, or empty if the reply names none
	Subscribers int           // number of subscribers of the lock's channel, or 0 if unknown. Only a call with Terms.Report asks for it
	Place       int           // the place of this process in the crowd (see lib/crowd.lua), from 1, or 0 if there is no crowd
	Ticket      int64         // the ticket of this process in the crowd, or 0 if the process need not wait for the call of its row
	NotSet      bool          // nothing is available because the number of permits is not set: see Kind.NotSet
	Strange     bool          // the key holds a string, the lock of another library

	Tokens Tokens
	Left   int64  // number of further grants that are possible, if grants are counted
	Queued bool   // the grant is now in Redis' queue
	Joined int64  // server time in microseconds at which this call put the grant at the end of the queue, or 0 if it did not
	First  bool   // the grant is at the head of the queue
	Next   string // grant of another waiter of this runtime, if the lock is free and that waiter is at the head of the queue; otherwise empty
}

// A reply that grants something names the grant. If a connection assigns replies to the wrong calls, a call may receive the reply to another
// call. That reply names another grant, so it is refused as unexpected.

// ReadAcquired reads the reply of an acquire for this grant.
func ReadAcquired(reply any, grant string) (Acquired, error) {
	switch v := reply.(type) {
	case string:
		switch v {
		case grant:
			return Acquired{Granted: true}, nil
		case notSet:
			return Acquired{NotSet: true, TTL: -time.Millisecond}, nil
		}
	case []any:
		if tokens, ok := readTokens(v, grant); ok {
			return Acquired{Granted: true, Tokens: tokens}, nil
		}
		if left, ok := readLeft(v, grant); ok {
			return Acquired{Granted: true, Left: left}, nil
		}
		if a, ok := readBusy(v); ok {
			if a.First = a.Next == grant; a.First {
				a.Next = ""
			}
			return a, nil
		}
	}
	return Acquired{}, unexpected("acquire", reply)
}

// notSet is the reply of an acquire if the number of permits of the semaphore is not set. No permit has this text as its id.
const notSet = "not set"

// Tokens are the fencing tokens of a grant, from First to Last. The zero value means none.
type Tokens struct{ First, Last int64 }

// readTokens reads {grant, first, last}.
func readTokens(list []any, grant string) (t Tokens, ok bool) {
	if len(list) != 3 || list[0] != grant {
		return t, false
	}
	first, _ := list[1].(string)
	last, _ := list[2].(string)
	var err, err2 error
	t.First, err = strconv.ParseInt(first, 10, 64)
	t.Last, err2 = strconv.ParseInt(last, 10, 64)
	return t, err == nil && err2 == nil && t.First <= t.Last
}

// readLeft reads {grant, number of grants that are left}.
func readLeft(list []any, grant string) (left int64, ok bool) {
	if len(list) != 2 || list[0] != grant {
		return 0, false
	}
	left, ok = list[1].(int64)
	return left, ok
}

// readBusy reads the reply of an acquire that was refused or queued. It has one of three forms:
//
//	{ttl, holder}
//	{ttl, holder, subscribers, place, ticket}  if Terms.Report was set
//	{ttl, holder, queued, next}                of a fair lock
//
// Three of the values are encoded as follows:
//
//	ttl     milliseconds, or -1
//	queued  0 if the grant is not in Redis' queue; 1 if it has kept its place there; otherwise the server time in microseconds at which this
//	        call has put it there
//	next    a grant, or ""
//
// Acquired explains the other values.
func readBusy(list []any) (a Acquired, ok bool) {
	if len(list) != 2 && len(list) != 4 && len(list) != 5 {
		return a, false
	}
	ttl, ok := list[0].(int64)
	holder, ok2 := list[1].(string)
	a = Acquired{TTL: time.Duration(ttl) * time.Millisecond, Holder: holder}
	if holder == ofString {
		a.Holder, a.Strange = "", true
	}
	if len(list) == 2 {
		return a, ok && ok2
	}
	number, ok3 := list[2].(int64)
	var ok4, ok5 bool
	if len(list) == 4 {
		if a.Queued = number > 0; number > 1 {
			a.Joined = number
		}
		a.Next, ok4 = list[3].(string)
		return a, ok && ok2 && ok3 && ok4
	}
	place, ok4 := list[3].(int64)
	a.Subscribers, a.Place = int(number), int(place)
	a.Ticket, ok5 = list[4].(int64)
	return a, ok && ok2 && ok3 && ok4 && ok5
}

// Released is the reply of a release.
type Released struct {
	Held      bool   // the grant held the lock
	Receivers int    // number of subscribers that were notified; negative if no message was sent, because others still hold the lock
	Heir      string // Terms.Heir if that grant now has the lock, or empty
}

// ReadReleased reads the reply of a release.
func ReadReleased(reply any) (Released, error) {
	switch v := reply.(type) {
	case nil:
		return Released{}, nil
	case int64:
		return Released{Held: true, Receivers: int(v)}, nil
	case []any:
		if len(v) == 2 {
			held, ok := v[0].(int64)
			heir, ok2 := v[1].(string)
			if ok && ok2 {
				return Released{Held: held == 1, Heir: heir}, nil
			}
		}
	}
	return Released{}, unexpected("release", reply)
}

// ReadFreed reads the reply to a force-release. It returns the grants that held the lock, or none if the lock was free.
func ReadFreed(reply any) (grants []string, err error) {
	switch v := reply.(type) {
	case int64:
		if v == 0 {
			return nil, nil
		}
	case []any:
		for _, one := range v {
			field, ok := one.(string)
			if !ok {
				return nil, unexpected("force-release", reply)
			}
			if field != "mode" {
				grants = append(grants, field)
			}
		}
		if len(grants) > 0 {
			return grants, nil
		}
	}
	return nil, unexpected("force-release", reply)
}

// Passed is the reply of a pass.
type Passed struct {
	Held      bool // the new grant holds the lock
	Tokens    Tokens
	Receivers int // number of subscribers that were notified because the turn has ended and the lock is free, or 0 if the lock is not free
}

// ReadPassed reads the reply of a pass to this grant.
func ReadPassed(reply any, grant string) (Passed, error) {
	switch v := reply.(type) {
	case nil:
		return Passed{}, nil
	case string:
		if v == grant {
			return Passed{Held: true}, nil
		}
	case int64:
		if v > 0 {
			return Passed{Receivers: int(v)}, nil
		}
	case []any:
		if tokens, ok := readTokens(v, grant); ok {
			return Passed{Held: true, Tokens: tokens}, nil
		}
	}
	return Passed{}, unexpected("pass", reply)
}

// ReadRenewed reads the reply to a renewal of these grants. It returns the indices of the grants that are gone.
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

// ReadLooked reads the reply to a look. It returns whether the grant holds the lock.
func ReadLooked(reply any) (bool, error) {
	if there, ok := reply.(int64); ok && (there == 0 || there == 1) {
		return there == 1, nil
	}
	return false, unexpected("look", reply)
}

// ReadInspected reads the reply of an inspect.
func ReadInspected(reply any) (protocol.State, error) {
	list, ok := reply.([]any)
	if !ok {
		return protocol.State{}, unexpected("inspect", reply)
	}
	if len(list) > 0 {
		if _, nested := list[0].([]any); nested {
			return readInspectedMore(list)
		}
	}
	if len(list) == 0 {
		return protocol.State{}, nil
	}
	ttl, ok := list[0].(int64)
	if !ok || len(list)%2 == 0 {
		return protocol.State{}, unexpected("inspect", reply)
	}
	state := protocol.State{Held: true, TTL: time.Duration(ttl) * time.Millisecond}
	var err error
	if state.Mode, state.Holders, err = readLock(list[1:]); err != nil {
		return protocol.State{}, err
	}
	return state, nil
}

// readLock reads the fields and values of a lock. Like lib/exclusive.lua and lib/read_write.lua, it refuses a hash that is not a lock.
func readLock(list []any) (mode string, holders []protocol.Holder, err error) {
	mode = "exclusive"
	for i := 0; i+1 < len(list); i += 2 {
		field, ok := list[i].(string)
		value, ok2 := list[i+1].(string)
		if !ok || !ok2 {
			return "", nil, unexpected("inspect", list)
		}
		holds, err := strconv.Atoi(value)
		switch {
		case field == "mode" && (value == "read" || value == "write"):
			mode = value
		case err == nil && holds > 0 && ownerField.MatchString(field):
			holders = append(holders, protocol.Holder{ID: field, Holds: holds})
		default:
			return "", nil, fmt.Errorf("%w: a hash that is no lock, with the field %s", protocol.ErrForeignKey, shown(field))
		}
	}
	if len(holders) == 0 || mode == "exclusive" && (len(holders) > 1 || strings.HasSuffix(holders[0].ID, ":write")) {
		return "", nil, fmt.Errorf("%w: a hash that is no lock", protocol.ErrForeignKey)
	}
	return mode, holders, nil
}

// ownerField matches the name of a holder in Redisson and Holdfast; the field of a writer ends in ":write".
var ownerField = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}:-?[0-9]+(:write)?$`)

// readInspectedMore reads {state of the lock, queue} and {state of the lock, queue, last token}.
func readInspectedMore(reply []any) (protocol.State, error) {
	state, err := ReadInspected(reply[0])
	if err != nil {
		return state, err
	}
	if len(reply) > 3 {
		return state, unexpected("inspect", reply)
	}
	if len(reply) > 1 {
		queue, _ := reply[1].([]any)
		for _, owner := range queue {
			text, _ := owner.(string)
			state.Queue = append(state.Queue, text)
		}
	}
	if len(reply) > 2 {
		token, ok := reply[2].(string)
		if !ok {
			return state, unexpected("inspect", reply)
		}
		if state.Token, err = strconv.ParseInt(token, 10, 64); err != nil || state.Token < 0 {
			return state, fmt.Errorf("%w: the key of the fencing tokens has %s", protocol.ErrForeignKey, shown(token))
		}
	}
	return state, nil
}

// shownReply is the maximum length of a reply in an error, in bytes.
const shownReply = 100

// unexpected returns the error for a reply that no script returns. The reply may be anything, and of any length.
func unexpected(script string, reply any) error {
	return fmt.Errorf("unexpected reply of the %s script: %T %s", script, reply, shown(fmt.Sprint(reply)))
}

// shown returns the beginning of a text from the server, quoted for one line of a log.
func shown(text string) string {
	if len(text) > shownReply {
		return strconv.Quote(text[:shownReply]) + "..."
	}
	return strconv.Quote(text)
}
