package sim

import (
	"strings"
	"time"
)

// RuntimeMutants are the broken runtimes. In a replacement, BROKEN reports whether the mutant is on, and OLD is the original text.
var RuntimeMutants = []Mutant{
	{
		Name: "slow clock", Breaks: "a runtime's clock runs a tenth slower than the server's, so that its leases expire too late",
		clock: func(d time.Duration) time.Duration { return d * 9 / 10 },
	},
	broken("hand-off past the deadline", "a lock is handed on however long its turn has lasted, and however little of its lease is left", exclusive,
		edit{"lock.State.turnOver", "now-s.turn.start >= s.Policy.HandoffFor", "!BROKEN && OLD"},
		edit{"lock.grant.sound", "return !g.Suspect.Load() && g.Left(now) > g.Lease/3", "if BROKEN {\nreturn true\n}\nOLD"}),
	broken("turn without an end", "a lock is handed on as long as its process has waiters", exclusive,
		edit{"lock.State.turnOver", "s.turn.served >= s.Policy.HandoffMax", "!BROKEN && OLD"}),
	broken("freed permits unnoticed", "waiters for permits do not ask when permits have become free", []kind{permits},
		edit{"lock.spare.freed", "min(p.count+n, contendersMax)", "OLD\nif BROKEN {\np.count = 0\n}"}),
	broken("lost wake-up", "waiters ignore release messages", []kind{plainLock, fencedLock},
		edit{"lock.State.onChannelMessage", "func (s *State) onChannelMessage(now time.Duration, m wait.ChannelMessage) {", "OLD\nif BROKEN {\nreturn\n}"}),
	needs("deaf", broken("subscribed again without a wake-up", "waiters do not retry after a lost connection, though release messages may have been lost with it",
		[]kind{plainLock, fencedLock},
		edit{"lock.State.onChannelReady", "if s.subscription.Watch == wait.Unwatched ||", "OLD BROKEN && m.Among > 0 ||"})),
	broken("the call does not come", "a process that waits for the call of its row never asks again", []kind{plainLock, fencedLock},
		edit{"lock.State.pauseAfter", "pause = s.turns.OpensAt() - now", "OLD\n\t\tif BROKEN {\n\t\t\tpause = time.Hour\n\t\t}"}),
	broken("cancel loses a grant", "a grant that arrives after its only waiter has left is not released", nil,
		edit{"lock.State.next", "head := s.Queue.Front()\n\tswitch {",
			"OLD\n\tcase BROKEN && head == nil && s.turn.served == 0:\n\t\ts.Emit(wait.Effect{Do: wait.DoDrop, Grant: &s.grant.Grant})\n\t\ts.endGrant(now, now)\n\t\ts.phase = free"}),
	broken("dead actor keeps its leases", "the leases of an actor outlive it", exclusive,
		edit{"actors.shell.requesterGone", "for _, h := range holds {", "if BROKEN {\nholds = nil\n}\nOLD"}),
	broken("dead actor waits on", "the waits of an actor outlive it", exclusive,
		edit{"actors.shell.requesterGone", "for _, r := range waits {", "if BROKEN {\nwaits = nil\n}\nOLD"}),
	broken("stale serial accepted", "a release of an earlier lease ends the current one", exclusive,
		edit{"wait.Requesters.Hold", "if h := q.holds[r.Serial];", "if BROKEN {\nfor _, h := range q.holds {\nreturn h\n}\n}\nOLD"}),
	needs("cut", broken("at-least forgotten after a loss", "a lost lease frees the lock before its at-least time is over", []kind{plainLock, fencedLock, fairLock},
		edit{"lock.State.orphanGrant", "g.lasting, g.least = g.lasting || s.grant.lasting, s.grant.Least()", "OLD\nif BROKEN {\ng.least = 0\n}"})),
	broken("renewals forgotten", "the watchdog sends no renewals", nil,
		edit{"watchdog.Watchdog.renew", "raws := make([]string, len(r.timers))", "if BROKEN {\nreturn\n}\nOLD"}),
	needs("delay", broken("validity from the reply", "a lease counts from the arrival of its grant, not from the instant when the acquire was sent", nil,
		edit{"lock.State.onGranted", "deadline := lease.Deadline(m.sent, s.pending.lease)", "OLD\nif BROKEN {\ndeadline = lease.Deadline(now, s.pending.lease)\n}"},
		edit{"watchdog.Watchdog.onRenewed", "deadline := lease.Deadline(m.Sent, min(r.lease, r.usual))", "OLD\nif BROKEN {\ndeadline = lease.Deadline(now, r.usual)\n}"})),
	broken("loss not reported", "a holder is not notified that Redis has lost its grant", nil,
		edit{"lock.State.receive", "if s.grant.is(m.Grant) && s.phase == held {", "if s.grant.is(m.Grant) && s.phase == held && !BROKEN {"}),
	needs("delay", broken("lease revived", "a renewal that takes longer than the lease revives it", nil,
		edit{"watchdog.Watchdog.renewAll", "min(r.bound, now+rpc.Window(r.usual))", "map[bool]time.Duration{false: OLD, true: now + r.lease}[BROKEN]"},
		edit{"lease.Grant.Extend", "if old == 0 || int64(now) >= old {", "if old == 0 || int64(now) >= old && !BROKEN {"})),
	needs("lose reply", broken("release not retried", "a release whose reply was lost counts as done", nil,
		edit{"lock.State.onReleaseDone", "s.unsure = s.unsure || m.class == scripts.Unknown\n\t\ts.failed(now, m, m.err)",
			"OLD\nif BROKEN {\ns.grant.duplicateUntil = 0\ns.released(now, m.sent, nil)\n}"})),
	needs("lose reply", broken("attempt forgotten", "an acquire whose reply was lost counts as not executed", nil,
		edit{"lock.State.onAcquireDone", "if m.class == scripts.Unknown {", "if m.class == scripts.Unknown && !BROKEN {"})),
	broken("clean-up without need", "Close releases every lock until no copy of its acquire can run, though that acquire was answered", exclusive,
		edit{"lock.State.endGrant", "if s.grant.duplicateUntil > sent {",
			"if BROKEN && s.Stage >= wait.Closing {\ns.grant.duplicateUntil = now + s.Policy.Lease/3\n}\nOLD"}),
	needs("stuck", broken("clean-up too early", "an abandoned acquire is undone once only, though a delayed duplicate of it may still arrive", nil,
		edit{"lock.orphans.onDone", "m.class == scripts.Done && m.sent >= g.duplicateUntil", "m.class == scripts.Done && (BROKEN || m.sent >= g.duplicateUntil)"})),
	needs("stuck", broken("acquire without an end", "an acquire may be executed at any time, even after its caller has given up", nil,
		edit{"gateway.Sender.bound", "c.SetNotAfter((offset + c.NotAfter).Milliseconds())",
			"OLD\nif BROKEN {\nc.SetNotAfter((offset + c.NotAfter + 24*3600e9).Milliseconds())\n}"})),
	needs("lose reply", broken("retry that looks new", "a retried call of a semaphore or latch is not marked as a retry", []kind{semaphore, latch},
		edit{"counter.State.send", "terms.Request, terms.Answered = c.request, c.answered", "OLD\nif BROKEN && c.duplicateUntil > 0 {\nterms.Request = s.Policy.NewID()\n}"})),
	broken("queue place not left", "a waiter that gives up stays in the queue of a fair lock", []kind{fairLock},
		edit{"lock.State.advance", "if s.phase == free && s.pending.standing && s.Queue.Len == 0 {\n\t\ts.abandonPending(now)",
			"if BROKEN && s.phase == free && s.Queue.Len == 0 {\n\t\ts.pending = pendingGrant{}\n\t}\n\tOLD"}),
	broken("demand ignored", "a lingering process ignores that another process wants the lock", lingers,
		edit{"lock.State.onDemanded", "s.demanded = true", "s.demanded = !BROKEN"}),
	broken("linger without an end", "a lock that nobody uses or wants is kept forever", lingers,
		edit{"lock.State.linger", "now + s.Policy.Linger", "now + s.Policy.Linger\n\t\tif BROKEN {\n\t\t\ts.turn.lingerTo += 100 * s.Policy.Linger\n\t\t}"}),
	broken("state of the previous name", "an actor that gets another name keeps the key and the state of its previous one", exclusive,
		edit{"actors.shell.handle", "if m.Routed && keyOf(m.Address) != keyOf(a.address) {", "if m.Routed && keyOf(m.Address) != keyOf(a.address) && !BROKEN {"}),
	broken("half a multi lock", "an acquire that fails to get all members keeps those that it has", []kind{multiLock},
		edit{"holdfast.MultiLock.takeInOrder", "if leases == nil {", "if leases == nil && !BROKEN {"}),
}

func broken(name, breaks string, kinds []kind, edits ...edit) Mutant {
	for i, e := range edits {
		edits[i].replacement = strings.NewReplacer("OLD", e.old, "BROKEN", "mutation.On("+quote(name)+")").Replace(e.replacement)
	}
	return Mutant{Name: name, Breaks: breaks, kinds: kinds, runtime: edits}
}

func needs(fault string, m Mutant) Mutant {
	m.fault = fault
	return m
}

func quote(s string) string { return `"` + s + `"` }
