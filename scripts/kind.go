package scripts

import (
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

// Family groups the kinds that share one actor per name.
type Family uint8

// The families. ReadWrite contains two kinds, and every other family one. Plain, fair, fenced and spin locks of one name have different
// actors, but exclude each other in Redis.
const (
	Plain Family = iota
	Fair
	Fenced
	Spin
	ReadWrite
	Permits
	Counters
	PermitCounters
	Latches
	FamilyCount // not a family, but the number of families
)

// Grants says what a grant is for.
type Grants uint8

const (
	GrantPerLock    Grants = iota // a grant is for the lock, so only one process has a grant at a time
	GrantPerProcess               // the holders of a process share a grant, but a holder with its own terms of the lease has a grant for itself
	GrantPerHolder                // a grant is for a single holder
)

// Kind describes one kind of locks, semaphores or latches: its scripts, and how the actors use them. The actors decide by these fields, and not by
// the kind's name. ARCHITECTURE.md lists what else a new kind needs.
type Kind struct {
	Name   protocol.Kind
	Family Family

	// Handoff: when a local holder releases, the next one may get the lock without a release in Redis. It gets the same grant, or one made by Pass.
	Handoff bool
	// Queued: Redis keeps the queue, so every waiter contends by itself from the start.
	Queued bool
	// Grants says what a grant is for. This decides how many grants there may be at once.
	Grants Grants
	// Owned: an owner may re-enter.
	Owned bool
	// Spins: waiters are not notified of releases, so they poll with their own back-off.
	Spins bool
	// Lingers: a released grant may stay in Redis for a while, for the next local holder (Options.Linger).
	Lingers bool
	// Tokens: every holder has a fencing token.
	Tokens bool
	// ID makes the owner field of a grant from runtimeUUID:number. It is nil if runtimeUUID:number is the owner field.
	ID func(plain string) string

	// PassEndsTurn: a pass may end a turn (Terms.TurnEnds). If another process waits for the lock, such a pass releases the lock.
	PassEndsTurn bool

	// Counting is set for a kind that counts something instead of being held. Such a kind also sets Name and Family, and may set NotSet and Channel.
	// It sets no other fields.
	Counting *Counting

	NotSet string // error text of an acquire while the number of permits is not set, or "" if the kind has no such number

	Channel func(raw, grant string) string // the channel on which a contender for this grant is notified of releases, or nil if there is none
	// Others is set only for Queued kinds. It is the channel on which locks of other kinds with the same name publish their releases. The first
	// waiter in Redis' queue subscribes to Others and to Channel. Kinds without a queue do not need Others, because their Channel carries
	// these messages.
	Others func(raw string) string

	Keeps func(raw string) string // the key that stays in Redis after the lock is released, or nil if there is none

	Acquire      func(s *Site, raw string, t Terms) Call
	Release      func(s *Site, raw string, t Terms) Call
	Pass         func(s *Site, raw string, t Terms) Call
	Renew        func(s *Site, raws, grants []string, lease time.Duration) Call
	Look         func(raw, grant string) Call // checks whether Redis has the grant
	Inspect      func(raw string) Call
	ForceRelease func(s *Site, raw string) Call
}

// Many reports whether a process may have several contenders or grants for one name.
func (k *Kind) Many() bool { return k.Queued || k.Grants != GrantPerLock || k.Family == ReadWrite }

// TakesTurns reports whether processes take turns: Redis keeps no queue, and the holders of a process share its grant.
func (k *Kind) TakesTurns() bool { return !k.Queued && k.Grants != GrantPerHolder }

// Bounds reports whether a lease may have a minimum and a maximum duration.
func (k *Kind) Bounds() bool { return k.Owned && k.Grants == GrantPerLock && !k.Spins }

// GrantID is the owner field of a grant.
func (k *Kind) GrantID(plain string) string {
	if k.ID == nil {
		return plain
	}
	return k.ID(plain)
}

// checkLease is the TTL of the keys that a check creates. It matters only if the process dies during the check.
const checkLease = 5 * time.Second

// Check returns calls that run every command of this kind's scripts at least once, and leave the lock free.
func (k *Kind) Check(s *Site, raw string, newID func() string) []Call {
	if k.Counting != nil {
		return k.Counting.Check(s, raw, newID)
	}
	first, second, third := k.GrantID(newID()), k.GrantID(newID()), k.GrantID(newID())
	terms := func(grant string) Terms {
		return Terms{Grant: grant, Lease: checkLease, Report: LockChannel(raw)}
	}
	calls := []Call{
		k.Acquire(s, raw, terms(first)),
		k.Acquire(s, raw, terms(second)), // second and third share the lock as readers, join the queue, or are refused
		k.Acquire(s, raw, terms(third)),
		k.Renew(s, []string{raw}, []string{first}, checkLease),
		k.Look(raw, first),
		k.Release(s, raw, terms(second)),
	}
	if k.Bounds() {
		calls = append(calls, k.Release(s, raw, Terms{Grant: first, Keep: checkLease}), k.Release(s, raw, terms(Nobody(first))), k.Acquire(s, raw, terms(first)))
	}
	if k.Pass != nil {
		pass := Terms{From: first, Grant: second, Lease: checkLease, TurnEnds: k.PassEndsTurn}
		calls = append(calls, k.Pass(s, raw, pass), k.Release(s, raw, terms(second)))
	}
	calls = append(calls, k.Release(s, raw, Terms{Grant: first, Heir: third, HeirLease: checkLease}), k.Release(s, raw, terms(third)))
	if k.Inspect != nil {
		calls = append(calls, k.Inspect(raw), k.ForceRelease(s, raw))
	}
	return calls
}

// Site has the parameters that are the same in all calls of one runtime.
type Site struct {
	Runtime  string        // its UUID
	Publish  any           // PUBLISH or SPUBLISH, or an encoding.BinaryMarshaler that returns one of them when the call is sent
	Lease    time.Duration // the lease that the watchdog renews
	FairWait time.Duration // how long Redis keeps a waiter's place in a fair lock's queue
	Tokens   int           // number of fencing tokens that a turn may need

	Migrating bool // an acquire treats a key that holds a string as a busy lock
}

// of returns the script to call: the given one or, while a fleet migrates, its variant from migrating.go.
func (s *Site) of(script *Script) *Script {
	if s != nil && s.Migrating {
		return script.Migrating
	}
	return script
}

// Terms are the parameters of a call.
type Terms struct {
	Grant      string        // owner field of the grant that the call is about
	From       string        // of a pass: the grant that ends
	TurnEnds   bool          // of a pass, or of a release with an heir: the turn ends, so other waiters go first
	Idlers     int           // of a pass that ends a turn: number of subscribers to the lock's channel that do not want the lock
	Lease      time.Duration // of acquire and pass
	WriteGrant string        // of an acquire: the grant with which the same owner already holds the write lock
	Report     string        // of an acquire of a plain or fenced lock: the argument `report` of lock_acquire.lua
	Try        bool          // of an acquire: do not wait in Redis' queue
	Standing   bool          // of an acquire: the grant should already be in the queue
	Heir       string        // of a release: this runtime's first waiter, which gets the lock at once if it is next
	HeirLease  time.Duration // the heir's lease
	Keep       time.Duration // of a release: how long the lock stays taken after the release
	Room       *Room         // memory for the command; if nil, it is allocated
	Arguments  *Arguments    // the lock's arguments from earlier calls, or nil if they are not kept
}

var kinds = map[protocol.Kind]*Kind{}

func init() {
	for _, k := range []*Kind{Lock, FairLock, FencedLock, SpinLock, ReadLock, WriteLock} {
		kinds[k.Name] = k
	}
}

// Everything returns every kind that can be checked. Permit is missing, because the check of PermitSemaphore includes it.
func Everything() []*Kind {
	return []*Kind{Lock, FairLock, FencedLock, SpinLock, ReadLock, WriteLock, PermitSemaphore, Semaphore, CountDownLatch}
}

// KindOf returns the kind that has this name in messages to actors.
func KindOf(name protocol.Kind) (*Kind, bool) {
	k, ok := kinds[name]
	return k, ok
}
