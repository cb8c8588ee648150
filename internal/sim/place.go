package sim

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// place is one name in Redis, and what users acquire under it.
type place struct {
	w    *world
	name string
	kind kind

	members []*place // of a multi lock

	shadow shadow // guarded by the world's mutex

	// owned by the oracle
	tokens   []tokenGiven
	valid    map[*process]time.Time // when a process was last seen to hold it
	register int64                  // the largest token that the resource has seen
	taken    int                    // permits of a semaphore that users know they have
	vague    int                    // permits or count-downs whose outcome is unknown
	counted  int                    // count-downs that were started
}

func newPlace(w *world, name string, k kind) *place {
	return &place{w: w, name: name, kind: k, valid: map[*process]time.Time{}}
}

type tokenGiven struct {
	token int64
	owner holdfast.Owner
	at    time.Time
}

const permitCount = 2

// taker has the methods that all things that grant leases share.
type taker interface {
	Acquire(ctx context.Context, opts ...holdfast.AcquireOption) (*holdfast.Lease, error)
	TryAcquire(ctx context.Context, opts ...holdfast.AcquireOption) (*holdfast.Lease, error)
}

// of returns a process's handle of the place. For a read/write lock it is the read lock if the argument `reads` is true, else the write lock.
func (p *place) of(rt *holdfast.Runtime, reads bool) taker {
	if p.kind == permits {
		return rt.PermitSemaphore(p.name)
	}
	if p.kind == multiLock {
		return holdfast.Multi(p.members[1].lock(rt, false), p.members[0].lock(rt, false))
	}
	return p.lock(rt, reads)
}

func (p *place) lock(rt *holdfast.Runtime, reads bool) *holdfast.Lock {
	switch p.kind {
	case fairLock:
		return rt.FairLock(p.name)
	case fencedLock:
		return rt.FencedLock(p.name)
	case spinLock:
		return rt.SpinLock(p.name)
	case readWrite:
		if reads {
			return rt.RWLock(p.name).Read()
		}
		return rt.RWLock(p.name).Write()
	}
	return rt.Lock(p.name)
}

// bounds reports whether a lease may have an at-least time and an at-most time.
func (p *place) bounds(reads bool) bool {
	return p.leased() && p.kind != permits && p.kind != spinLock && !reads
}

// leased reports whether the place grants leases.
func (p *place) leased() bool { return p.kind != semaphore && p.kind != latch }

// known reports whether the server has a grant or a permit. A reader's grant has a field and a timeout key, and both must exist. When a reader's
// lease expires, the timeout key is gone, but the field stays as long as the lock has other readers.
func (p *place) known(id string) bool {
	p.w.setServerClock()
	if p.kind != permits {
		expired := p.kind == readWrite && !strings.HasSuffix(id, ":write") && !p.w.server.Exists(scripts.ReadTimeoutKey(p.name, id, 1))
		return p.w.server.HGet(p.name, id) != "" && !expired
	}
	member, err := hex.DecodeString(id)
	if err != nil {
		return false
	}
	score, err := p.w.server.ZScore("{"+p.name+"}:timeout", string(member))
	return err == nil && int64(score) > p.w.serverNow().UnixMilli()
}

// grants returns those grants of the lock that the server has.
func (p *place) grants() []string {
	p.w.setServerClock() // otherwise an expired key stays until the next command

	fields, _ := p.w.server.HKeys(p.name) // an error means that there are none
	return slices.DeleteFunc(fields, func(field string) bool { return field == "mode" || !p.known(field) })
}

// message returns the kind of the lock in actor messages.
func (p *place) message(reads bool) protocol.Kind {
	switch p.kind {
	case fairLock:
		return protocol.KindFair
	case fencedLock:
		return protocol.KindFenced
	case spinLock:
		return protocol.KindSpin
	case readWrite:
		if reads {
			return protocol.KindRead
		}
		return protocol.KindWrite
	}
	return protocol.KindLock
}

// holderOf returns the id of a grant that the given runtime has on the server, or "" if it has none.
func (p *place) holderOf(runtime string) string {
	for _, id := range p.grants() {
		if strings.HasPrefix(id, runtime+":") {
			return id
		}
	}
	return ""
}

// prepare sets the permits of a semaphore or the count of a latch, unless they are set already.
func (p *place) prepare(ctx context.Context, rt *holdfast.Runtime) (err error) {
	switch p.kind {
	case permits:
		_, err = rt.PermitSemaphore(p.name).TrySetPermits(ctx, permitCount)
	case semaphore:
		_, err = rt.Semaphore(p.name).TrySetPermits(ctx, permitCount)
	case latch:
		_, err = rt.CountDownLatch(p.name).TrySetCount(ctx, p.w.plan.processes*p.w.plan.users)
	}
	return err
}
