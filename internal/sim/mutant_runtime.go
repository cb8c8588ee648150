package sim

import (
	"strings"
	"time"
)

// RuntimeMutants are the broken runtimes. In a replacement, BROKEN reports whether the mutant is on, and OLD is the original text.
var RuntimeMutants = []Mutant{
	{
		Name: "slow clock", Breaks: "a runtime's clock runs a tenth slower than the server's, so that its leases end later",
		clock: func(d time.Duration) time.Duration { return d * 9 / 10 },
	},
	broken("hand-off past the deadline", "a lock is handed on however long its turn has been, and however little of its lease is left", exclusive,
		edit{"lock.State.turnOver", "now-s.turn.start >= s.policy.HandoffFor", "!BROKEN && OLD"},
		edit{"lock.State.sound", "return !s.grant.Suspect.Load() && s.grant.Left(now) > s.grant.Lease/3", "if BROKEN {\nreturn true\n}\nOLD"}),
	broken("turn without an end", "a lock is handed on as often as somebody of this process waits", exclusive,
		edit{"lock.State.turnOver", "s.turn.served >= s.policy.HandoffMax", "!BROKEN && OLD"}),
	broken("lost wake-up", "who waits does not hear of releases", []kind{plainLock, fencedLock},
		edit{"lock.State.onChannelMessage", "func (s *State) onChannelMessage(now time.Duration, releases int) {", "OLD\nif BROKEN {\nreturn\n}"}),
	needs("deaf", broken("subscribed again without a wake-up", "who waits does not ask again after a connection was lost, with the messages on it",
		[]kind{plainLock, fencedLock},
		edit{"lock.State.onChannelReady", "if s.watch == wait.Unwatched {\n\t\treturn\n\t}\n\ts.watch = wait.Subscribed",
			"if s.watch == wait.Unwatched || BROKEN && m.Among > 0 {\n\t\treturn\n\t}\n\ts.watch = wait.Subscribed"})),
	broken("cancel loses a grant", "a grant that comes when nobody waits any more is not given back", nil,
		edit{"lock.State.next", "head := s.queue.Front()\n\tswitch {",
			"OLD\n\tcase BROKEN && head == nil && s.turn.served == 0:\n\t\ts.emit(wait.Effect{Do: wait.DoDrop, Grant: &s.grant.Grant})\n\t\ts.endGrant(now, now)\n\t\ts.phase = free"}),
	broken("stale serial accepted", "a release that names an earlier lease ends the present one", exclusive,
		edit{"lock.State.holdOf", "h.Serial == r.Serial", "(BROKEN || OLD)"}),
	needs("cut", broken("at-least that a lost lease forgets", "a lease that is lost frees the lock before its at-least is over", []kind{plainLock, fencedLock, fairLock},
		edit{"lock.State.orphanGrant", "g.lasting, g.least = s.grant.lasting, s.grant.Least()", "OLD\nif BROKEN {\ng.least = 0\n}"})),
	broken("renewals forgotten", "the watchdog does not ask for renewals", nil,
		edit{"watchdog.Watchdog.renew", "raws := make([]string, len(r.timers))", "if BROKEN {\nreturn\n}\nOLD"}),
	needs("delay", broken("validity from the reply", "a lease counts from when its grant has arrived, not from when it was asked for", nil,
		edit{"lock.State.onGranted", "deadline := lease.Deadline(m.sent, s.pending.lease)", "OLD\nif BROKEN {\ndeadline = lease.Deadline(now, s.pending.lease)\n}"},
		edit{"watchdog.Watchdog.onRenewed", "deadline := lease.Deadline(m.Sent, min(r.lease, r.usual))", "OLD\nif BROKEN {\ndeadline = lease.Deadline(now, r.usual)\n}"})),
	broken("loss not told", "a holder is not told that Redis does not have its grant any more", nil,
		edit{"lock.State.receive", "if s.grant.is(m.Grant) && s.phase == held {", "if s.grant.is(m.Grant) && s.phase == held && !BROKEN {"}),
	needs("delay", broken("lease that comes back", "a renewal may take longer than the lease, and revives it", nil,
		edit{"watchdog.Watchdog.renewAll", "min(r.bound, now+rpc.Window(r.usual))", "map[bool]time.Duration{false: OLD, true: now + r.lease}[BROKEN]"},
		edit{"lease.Grant.Extend", "if old == 0 || int64(now) >= old {", "if old == 0 || int64(now) >= old && !BROKEN {"})),
	needs("lose reply", broken("release not repeated", "a release with a lost reply counts as done", nil,
		edit{"lock.State.onReleaseDone", "s.unsure = s.unsure || m.class == scripts.Unknown\n\t\ts.failed(now, m, m.err)",
			"OLD\nif BROKEN {\ns.grant.duplicateUntil = 0\ns.released(now, m.sent, nil)\n}"})),
	needs("lose reply", broken("attempt forgotten", "an acquire with a lost reply counts as not done", nil,
		edit{"lock.State.onAttemptFailed", "if m.class == scripts.Unknown {\n\t\ts.pending.duplicateUntil = max(s.pending.duplicateUntil, m.call.Deadline)",
			"if m.class == scripts.Unknown && !BROKEN {\n\t\ts.pending.duplicateUntil = max(s.pending.duplicateUntil, m.call.Deadline)"})),
	needs("stuck", broken("clean-up that is overtaken", "an acquire that was given up is released once, though a copy of it may still come", nil,
		edit{"lock.State.onOrphanDone", "m.class == scripts.Done && m.sent >= g.duplicateUntil", "m.class == scripts.Done && (BROKEN || m.sent >= g.duplicateUntil)"})),
	needs("stuck", broken("acquire without an end", "an acquire may be executed at any time, also when its caller has given it up", nil,
		edit{"gateway.Sender.bound", "c.SetNotAfter(server.At(c.NotAfter))", "OLD\nif BROKEN {\nc.SetNotAfter(server.At(c.NotAfter + 24*3600e9))\n}"})),
	needs("lose reply", broken("repeat that is a new request", "a repeat of what has no owner does not say that it is one", []kind{semaphore, latch},
		edit{"counter.State.send", "terms.Request, terms.Answered = c.request, c.answered", "OLD\nif BROKEN && c.duplicateUntil > 0 {\nterms.Request = s.policy.NewID()\n}"})),
	broken("place that is not left", "who stops waiting for a fair lock stays in its queue", []kind{fairLock},
		edit{"lock.State.advance", "if s.phase == free && s.pending.standing && s.queue.Len == 0 {\n\t\ts.abandonPending(now)",
			"if BROKEN && s.phase == free && s.queue.Len == 0 {\n\t\ts.pending = pendingGrant{}\n\t}\n\tOLD"}),
	broken("demand not heard", "a process keeps a lock that nobody uses although another one wants it", lingers,
		edit{"lock.State.onDemanded", "s.demanded = true", "s.demanded = !BROKEN"}),
	broken("linger without an end", "a lock that nobody uses or wants is kept for good", lingers,
		edit{"lock.State.linger", "now + s.policy.Linger", "now + s.policy.Linger\n\t\tif BROKEN {\n\t\t\ts.turn.lingerTo += 100 * s.policy.Linger\n\t\t}"}),
	broken("half a multi lock", "who does not get all members keeps those that he has", []kind{multiLock},
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
