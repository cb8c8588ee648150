package scripts

import (
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

// Family groups the kinds that share one actor per name.
type Family uint8

// The families. Locks with one holder have one each, so that an actor serves one kind; in Redis they exclude each other all the same.
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
)

// Kind is one way to lock a name: a set of scripts and a policy. A new kind is a new value; the actors know none by name.
type Kind struct {
	Name   protocol.Kind
	Family Family

	// Handoff: a grant may serve one local holder after another, and may be passed on.
	Handoff bool
	// Queued: Redis keeps the queue, so every waiter contends for itself from the start.
	Queued bool
	// Beside: a process may have several grants at once.
	Beside bool
	// Shared: the watchdog's holders of a process share one grant.
	Shared bool
	// Owned: an owner may enter again.
	Owned bool
	// Spins: nothing tells of releases, so waiters try again and again, by their own back-off.
	Spins bool
	// Tokens: every holder has a fencing token.
	Tokens bool
	// ID makes the owner field of a grant from its runtimeUUID:number; nil: it is that.
	ID func(plain string) string

	// PassEndsTurn: a pass may end a turn, and let go of the lock if somebody else waits for it.
	PassEndsTurn bool

	// Counting: nobody holds anything, something is counted. Such a kind has a name, a family, NotSet and a channel besides, no more.
	Counting *Counting

	NotSet string // why nothing can be acquired before somebody has set how much there is; "": there is nothing to set

	Channel func(raw, grant string) string // where a contender for this grant is told of releases; nil: nowhere
	// Others is where the first in Redis' queue is told of releases of other kinds of lock besides; nil: it is told of all in Channel.
	Others func(raw string) string

	Keeps func(raw string) string // a key that outlives the lock; nil: there is none

	Acquire      func(s *Site, raw string, t Terms) Call
	Release      func(s *Site, raw string, t Terms) Call
	Pass         func(s *Site, raw string, t Terms) Call
	Renew        func(s *Site, raws, grants []string, lease time.Duration) Call
	Look         func(raw, grant string) Call // whether Redis has the grant
	Inspect      func(raw string) Call
	ForceRelease func(s *Site, raw string) Call
}

// Many reports whether a process may have several contenders or grants of one name.
func (k *Kind) Many() bool { return k.Queued || k.Beside || k.Family == ReadWrite }

// TakesTurns reports whether processes have to let one another in: Redis keeps no queue, and there is but one holder at a time.
func (k *Kind) TakesTurns() bool { return !k.Queued && (!k.Beside || k.Shared) }

// GrantID is the owner field of a grant.
func (k *Kind) GrantID(plain string) string {
	if k.ID == nil {
		return plain
	}
	return k.ID(plain)
}

// checkLease is how long what a check leaves behind would stay if the check died.
const checkLease = 5 * time.Second

// Check is calls that run every command of this kind's scripts at least once, and leave the lock free.
func (k *Kind) Check(s *Site, raw string, newID func() string) []Call {
	if k.Counting != nil {
		return k.Counting.Check(s, raw, newID)
	}
	first, second, third := k.GrantID(newID()), k.GrantID(newID()), k.GrantID(newID())
	terms := func(grant string) Terms { return Terms{Grant: grant, Lease: checkLease, WantHolder: true} }
	calls := []Call{
		k.Acquire(s, raw, terms(first)),
		k.Acquire(s, raw, terms(second)), // busy; the second and the third may have to stand in a queue
		k.Acquire(s, raw, terms(third)),
		k.Renew(s, []string{raw}, []string{first}, checkLease),
		k.Look(raw, first),
		k.Release(s, raw, terms(second)),
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

// Site is what is the same in all calls of one runtime.
type Site struct {
	Runtime  string        // its UUID
	Publish  any           // PUBLISH or SPUBLISH, or an encoding.BinaryMarshaler that says which when it is sent
	Lease    time.Duration // of the watchdog
	FairWait time.Duration // how long Redis keeps the place of a waiter in a fair queue
	Tokens   int           // how many fencing tokens a turn may need
}

// Terms are what a call is about.
type Terms struct {
	Grant      string        // owner field of the grant in question
	From       string        // of a pass: the grant that ends
	TurnEnds   bool          // of a pass: others go first
	Idlers     int           // and so many of those who are told of that want nothing
	Lease      time.Duration // of acquire and pass
	Alone      string        // of an acquire: the grant by which the same owner holds the lock alone already
	WantHolder bool          // of an acquire: name a holder if it is busy
	Try        bool          // of an acquire: do not wait in Redis' queue
	Standing   bool          // of an acquire: it should stand in the queue already
	Heir       string        // of a release: our own first waiter, to be granted at once if it is the next one
	HeirLease  time.Duration // its lease
	Room       *Room         // for the command; nil: it has its own
}

var kinds = map[protocol.Kind]*Kind{}

func init() {
	for _, k := range []*Kind{Lock, FairLock, FencedLock, SpinLock, ReadLock, WriteLock} {
		kinds[k.Name] = k
	}
}

// Everything is every kind that a check may be about; what a permit needs is checked with its semaphore.
func Everything() []*Kind {
	return []*Kind{Lock, FairLock, FencedLock, SpinLock, ReadLock, WriteLock, PermitSemaphore, Semaphore, CountDownLatch}
}

// KindOf finds a kind by its name in messages.
func KindOf(name protocol.Kind) (*Kind, bool) {
	k, ok := kinds[name]
	return k, ok
}
