package lock

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// orphan is a grant that may exist in Redis although no local request wants it. This process releases it repeatedly, until it certainly no longer
// exists or its lease has expired. No later grant can be released by mistake, because an id is never used twice.
//
// One release is not enough: if a network or a server has delayed the acquire, the release may reach Redis first. So releases are repeated until one
// has been sent after duplicateUntil. The earlier releases are useful nevertheless: they often free the lock sooner.
type orphan struct {
	id             string
	duplicateUntil time.Duration // a delayed duplicate of its acquire may run until this instant, so an earlier release is not enough
	until          time.Duration // when its lease has certainly expired on the server
	next           time.Duration
	inflight       bool
	releases       int           // number of releases that were executed before duplicateUntil
	failures       int           // number of failed releases
	lasting        bool          // must be released even after its lease: it may be in Redis' queue, or other grants of its owner keep the key alive
	least          time.Duration // end of its at-least time: the lock stays taken until then
	nobody         bool          // a second release (see releaseOnceMore): the grant was released before, and only its at-least time keeps the lock taken
}

// orphans are the orphans of a state.
type orphans struct {
	base  *wait.Base
	all   []orphan
	freed string // the last orphan that was released, or "" if there was none
}

// add makes a grant an orphan, which is released in the background. The first release is sent at the instant `from`. The parameter `length` is
// the lease that Redis was asked for.
func (o *orphans) add(from time.Duration, id string, duplicateUntil, length time.Duration) *orphan {
	o.all = append(o.all, orphan{
		id: id, duplicateUntil: duplicateUntil, next: from, until: max(from, duplicateUntil) + length + lease.Margin(length),
		lasting: o.base.Address.Kind.Queued,
	})
	return &o.all[len(o.all)-1]
}

// frees reports whether the lock is about to be free because the grant `id` is being released in the background. While the grant's at-least time
// lasts, frees returns false. If `id` is the last grant that was released in the background, frees returns true: a reply that names this grant as the
// holder is older than its release.
func (o *orphans) frees(now time.Duration, id string) bool {
	return id != "" && id == o.freed || slices.ContainsFunc(o.all, func(g orphan) bool { return g.id == id && g.least <= now })
}

// has reports whether a grant is being released in the background.
func (o *orphans) has(id string) bool {
	return slices.ContainsFunc(o.all, func(g orphan) bool { return g.id == id })
}

// addLater makes a grant an orphan although Redis does not have the grant now: a delayed duplicate of its acquire may still create it. The first
// release waits a little, because it would find nothing now.
func (o *orphans) addLater(now time.Duration, id string, duplicateUntil, lease time.Duration) *orphan {
	return o.add(min(now+o.base.Policy.OrphanPause(0), max(now, duplicateUntil)), id, duplicateUntil, lease)
}

// release sends the releases that are due. These go before other calls, because an orphan keeps everybody from the lock.
func (o *orphans) release(now time.Duration) {
	for i := range o.all {
		g := &o.all[i]
		if g.inflight || now < g.next {
			continue
		}
		g.inflight = true
		c := &lockCall{do: callOrphan, address: o.base.Address, terms: scripts.Terms{Grant: g.id, Keep: max(g.least-now, 0)}}
		c.Timing = rpc.Patient(now, rpc.Window(o.base.Policy.Lease), min(o.base.Policy.Patience, max(g.until-now, o.base.Policy.ProbeMax)))
		c.First = true
		o.base.Emit(wait.Effect{Do: wait.DoCall, Call: c})
	}
}

// nextAt returns the instant of the next release, or clock.Never if none is planned.
func (o *orphans) nextAt() time.Duration {
	at := clock.Never
	for _, g := range o.all {
		if !g.inflight {
			at = min(at, g.next)
		}
	}
	return at
}

// onDone ends an orphan, or schedules its next release. The orphan ends if Redis has executed a release that was sent after the last instant at
// which a copy of the acquire could run. It also ends if its lease has expired on the server, or if Redis refuses a release, because Redis would
// refuse the next one as well.
//
// A lasting orphan does not end with its lease: it may have a place in Redis' queue, or other grants of its owner may keep the key alive. So its
// release is repeated until Redis confirms it, or until the runtime closes.
func (o *orphans) onDone(now time.Duration, m *callDone) {
	i := slices.IndexFunc(o.all, func(g orphan) bool { return g.id == m.call.terms.Grant })
	if i < 0 {
		return
	}
	g := &o.all[i]
	g.inflight = false
	switch {
	case m.class == scripts.Rejected, now > g.until && (!g.lasting || o.base.Stage >= wait.Closing), m.class == scripts.Done && m.sent >= g.duplicateUntil:
		o.end(now, i, m)
	case m.class == scripts.Done:
		g.next = min(g.duplicateUntil, now+o.base.Policy.OrphanPause(g.releases))
		g.releases++
	default:
		g.failures++
		g.next = now + o.base.Policy.Backoff(g.failures)
	}
}

// end removes an orphan after the result of its last release.
func (o *orphans) end(now time.Duration, i int, m *callDone) {
	lasting := o.all[i].lasting
	o.all = slices.Delete(o.all, i, i+1)
	if err := scripts.Explain(m.err); m.class == scripts.Rejected && !errors.Is(err, protocol.ErrForeignKey) {
		o.base.Leave(err)
	}
	if lasting {
		o.releaseOnceMore(now, m)
	}
	if m.class == scripts.Done && m.call.terms.Keep == 0 {
		o.freed = m.call.terms.Grant
	}
}

// releaseOnceMore schedules a second release of a lasting grant if the first release came before the end of the grant's at-least time, and so did not
// free the lock. The second release is sent when the at-least time ends. It is needed because other grants of the owner may keep the key alive.
// Without such grants, the key expires by itself.
func (o *orphans) releaseOnceMore(now time.Duration, m *callDone) {
	if m.call.terms.Keep > 0 && o.base.Stage < wait.Closing {
		end := now + m.call.terms.Keep
		g := o.add(end, scripts.Nobody(m.call.terms.Grant), 0, 0)
		g.lasting, g.least, g.nobody = true, end, true
	}
}

// close drops the second releases, which wait for the end of an at-least time.
func (o *orphans) close() {
	o.all = slices.DeleteFunc(o.all, func(g orphan) bool { return g.nobody })
}

// distrust prepares the orphans for a machine that starts over after a panic: the results of the calls in flight will not come.
func (o *orphans) distrust() {
	for i := range o.all {
		o.all[i].inflight = false
	}
}
