package lock

import (
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/turns"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// onBusy handles a refused attempt. If this process was subscribed to the lock's channel before the attempt, its waiters wait for a release message.
// If it was not, the lock may be released before the subscription, without a message to this process. So the first waiter tries again when the
// subscription is confirmed. In both cases a timer limits the wait: a message may be lost, and nobody sends one when the lease of a dead process
// expires.
func (s *State) onBusy(now time.Duration, m *callDone) {
	switch {
	case m.acquired.Queued:
		s.pending.standing, s.phase = true, free
		s.member.first = m.acquired.First
	case s.pending.standing: // the place was lost: the next attempt joins the queue again, with a new grant
		s.Emit(wait.Effect{Do: wait.DoEmit, Event: protocol.QueueLost{Name: s.Address.Name, ID: s.pending.id}})
		s.forgetPending(now, m.sent)
		s.failures, s.retryAt = wait.Failures{}, now
		return
	default:
		s.forgetPending(now, m.sent)
	}
	s.failures = wait.Failures{}
	holder, _, _ := strings.Cut(m.acquired.Holder, ":")
	s.turns.Refused(&s.Policy.Policy, now, turns.Refusal{
		Sent: m.sent, Longest: s.Policy.HandoffFor, Subscribers: m.acquired.Subscribers,
		Place: m.acquired.Place, Ticket: m.acquired.Ticket, Holder: holder,
	})
	s.crowded = m.acquired.Place > 0
	s.busy = busy{known: true, unset: m.acquired.NotSet, holder: m.acquired.Holder, until: now + max(m.acquired.TTL, 0)}
	// The refusal answers each try that was made before the call was sent. For a later try, Redis has to be asked again.
	for r := s.Queue.Front(); r != nil && r.Try && r.Came <= m.sent && !s.excuses(now, r); r = s.Queue.Front() {
		s.Queue.Remove(r)
		s.Answer(r, s.busyError(now, r))
	}
	switch head := s.Queue.Front(); {
	case head == nil:
		return
	case head.Try && head.Came <= m.sent:
		s.retryAt = now + s.Policy.Backoff(0)
		return
	case head.Try: // the try came while an earlier waiter's attempt was in flight: the lock may have been released since
		s.retryAt = now
		return
	}
	// If a wake-up came while the attempt was in flight, the refusal may be older than the release that caused the wake-up.
	if s.wokenFor != clock.Never {
		s.retryAt = max(s.wokenFor, now)
		return
	}
	s.retryAt = now + s.pauseAfter(now, m.acquired)
	s.listen()
}

// pauseAfter returns how long the first waiter waits after a refusal before it tries again, unless a message comes first.
func (s *State) pauseAfter(now time.Duration, refusal scripts.Acquired) time.Duration {
	pause := wait.PollCap
	if s.Address.Kind.Spins {
		pause = s.nextSpin()
	}
	if s.standby {
		pause = min(max(pause, s.Policy.Lease/3), s.Policy.Lease/2) // short enough that other processes do not take this one for dead
	} else if s.pending.standing {
		pause = min(pause, s.Policy.Lease/3) // short enough to keep the place in Redis' queue
	}
	if !s.Address.Kind.Spins { // a pause between spins has its jitter already
		pause += s.Policy.Jitter(pause/4 + time.Millisecond)
	}
	if s.turns.Row() > 0 {
		pause = s.turns.OpensAt() - now // not sooner, even if the holder's lease expires: the processes ahead of this one try then
	} else if refusal.TTL >= 0 {
		pause = upToExpiry(s.Policy, pause, refusal.TTL)
	}
	if refusal.Strange && !s.standby {
		pause = strangeMin + s.Policy.Jitter(strangeMax-strangeMin) // the release of the other library sends no message
	}
	return pause
}

// upToExpiry shortens a pause that is longer than the rest of the holder's lease (`left`). The pause then ends soon after that lease, because nobody
// sends a message when a lease expires.
func upToExpiry(p *wait.Policy, pause, left time.Duration) time.Duration {
	if left < pause {
		pause = min(pause, left+p.Jitter(min(left/4, expiryJitter)+time.Millisecond))
	}
	return pause
}

// The bounds of the pause between two attempts at a lock that another library holds.
const strangeMin, strangeMax = 50 * time.Millisecond, 250 * time.Millisecond

// expiryJitter is the time over which processes that wait for the end of the same lease spread their attempts.
const expiryJitter = 20 * time.Millisecond

// excuses reports whether a refused try is repeated instead of being answered. It is repeated if the lock's holder is an orphan: a grant that this
// process is releasing in the background, or has just released in the background. To the user, such a lock is free: the attempt may merely have
// reached Redis before the orphan's release. Once rpc.Window has passed since the try came, the try is refused all the same.
func (s *State) excuses(now time.Duration, r *wait.Request) bool {
	ours := s.orphans.frees(now, s.busy.holder)
	if s.member != nil {
		s.member.group.each(func(other *State) { ours = ours || other.orphans.frees(now, s.busy.holder) })
	}
	return ours && now < r.Came+rpc.Window(s.Policy.Lease)
}

// nextSpin returns the pause of a spin lock's first waiter before its next attempt. The pause grows with each attempt up to the maximum; up
// to half of it is random.
func (s *State) nextSpin() time.Duration {
	b := s.Queue.Front().Backoff
	pause := time.Duration(float64(b.Initial) * math.Pow(b.Multiplier, float64(s.spins)))
	if pause >= b.Max || pause <= 0 {
		pause = b.Max
	} else {
		s.spins++
	}
	return pause - s.Policy.Jitter(pause/2)
}

// listen subscribes to the channel on which releases are published, if the kind of lock has such a channel. Most locks have one channel. A lock with
// a queue in Redis has one channel for each grant. There are three special cases:
//   - A contender on standby does not subscribe, because another contender of this process is ahead of it, and has subscribed.
//   - A process far back in a crowd subscribes to the channel of its row instead (package turns).
//   - The first contender in Redis' queue also subscribes to the channel on which releases of other kinds of lock are published (Kind.Others).
func (s *State) listen() {
	if s.standby || s.Address.Kind.Channel == nil {
		return
	}
	kind, row := s.Address.Kind, s.turns.Row()
	if s.subscription.Watch != wait.Unwatched && (row != s.row || kind.Queued && s.subscription.Channel != kind.Channel(s.Address.Raw, s.pending.id)) {
		s.unlisten()
	}
	if s.subscription.Watch == wait.Unwatched { // make the channel's name only now: listen runs for every waiter that arrives
		channel := kind.Channel(s.Address.Raw, s.pending.id)
		if row > 0 {
			channel = scripts.RowChannel(channel, row)
		}
		s.subscription.Begin(&s.Base, channel)
		s.row = row
	}
	if s.member != nil && s.member.first && s.member.others == "" {
		s.member.others = s.Address.Kind.Others(s.Address.Raw)
		s.Emit(wait.Effect{Do: wait.DoWatch, Channel: s.member.others})
	}
}

// report returns the argument with which an attempt asks for this process's place among the waiting processes, or "" if the attempt asks for no
// place. The argument is the channel of releases. A mark before the channel says that this process has a ticket in a crowd (scripts.HasTicket), or
// has just had the lock (scripts.Yields). The script reports a place only if it refuses the attempt.
func (s *State) report(head *wait.Request) string {
	mark := ""
	switch {
	case s.turns.InCrowd():
		mark = scripts.HasTicket
	case s.turns.Yields() && s.subscription.Watch != wait.Unwatched && head != nil && !head.Try:
		mark = scripts.Yields
	case s.subscription.Watch != wait.Subscribed || !s.turns.AsksPlace():
		return ""
	}
	if s.row > 0 || s.subscription.Watch == wait.Unwatched { // s.subscription.Channel is the channel of a row, or is out of date
		return mark + s.Address.Kind.Channel(s.Address.Raw, s.pending.id)
	}
	return mark + s.subscription.Channel
}

// onChannelReady makes the first waiter try, because the lock may have been released before the subscription. If this process is waiting for its
// turn, or for the call of its row, the waiter tries only when that wait ends (Turns.OpensAt). After a reconnection, the first waiters of all actors
// try. To spread their attempts, each waits for a short random time, unless its next attempt is due earlier.
//
// A new subscription (not a restored one) is treated differently in two cases. If it is to the channel of a row, it causes no attempt: the process
// cannot have missed the call of its row, because at least one other row is called first. If it is to the channel of releases, and the process has a
// place in a crowd, the process waits for its turn (Turns.FirstTry).
func (s *State) onChannelReady(now time.Duration, m wait.ChannelReady) {
	if s.subscription.Watch == wait.Unwatched || s.member == nil && m.Channel != s.subscription.Channel {
		return
	}
	isNew := s.subscription.Confirm()
	if s.row > 0 && isNew {
		return
	}
	s.turns.Joined(now)
	if isNew {
		if at := s.turns.FirstTry(&s.Policy.Policy, now); at > 0 {
			s.wake(now, at)
			return
		}
	}
	if s.Address.Kind.Grants == scripts.GrantPerHolder { // the group decides which waiters try
		return
	}
	if opens := s.turns.OpensAt(); now < opens {
		s.wake(now, opens)
		return
	}
	at := now + s.Policy.Spread(m.Among)
	if s.phase == free {
		at = min(at, max(s.retryAt, now))
	}
	s.wake(now, at)
}

// onChannelMessage decides when to try after a release message. If the kind takes turns, the process that has waited longest tries first
// (package turns). Otherwise all try at once, or when the pause of this process is over.
func (s *State) onChannelMessage(now time.Duration, m wait.ChannelMessage) {
	switch {
	case !s.Address.Kind.TakesTurns():
		s.wake(now, max(now, s.turns.OpensAt()))
	case m.Channel != s.subscription.Channel: // of a subscription that has ended
	case s.row > 0:
		s.turns.Called(now, s.Policy.HandoffFor)
		if s.Queue.Len > 0 {
			s.listen()
		}
	case s.phase != free && s.phase != acquiring:
		// The message comes from an earlier release, from this process's own release, or from a force-release. This process notices a force-release
		// in another way: it renews the lease, or asks Redis about a fixed lease (look.go).
		s.beside = m.Beside
		s.turns.Overheard(m.Releases)
	default:
		s.beside = m.Beside
		if at := s.turns.Hear(&s.Policy.Policy, now, m.Releases); at != clock.Never {
			s.wake(now, at)
		}
	}
}

// wake schedules the next attempt for the instant `at`. While an attempt is in flight, wake only stores the instant in wokenFor. Redis may have
// executed that attempt before or after the release, so its result decides whether another attempt is needed. After failures, wake changes nothing,
// and the back-off continues: a message that arrives on one connection does not prove that calls on another connection reach Redis.
func (s *State) wake(now, at time.Duration) {
	switch {
	case s.phase == acquiring:
		s.wokenFor = at
	case s.phase == free && s.failures.Count == 0:
		s.retryAt = at
	}
}

// standBy puts the contender on standby, because it is now behind others of this process.
func (s *State) standBy() {
	s.standby = true
	if s.subscription.Watch != wait.Unwatched {
		s.unlistenAll()
	}
}

// unlistenAll ends the subscription to the lock's own channel, and the one to the releases of other kinds of lock.
func (s *State) unlistenAll() {
	s.unlisten()
	if s.member != nil && s.member.others != "" {
		s.Emit(wait.Effect{Do: wait.DoUnwatch, Channel: s.member.others})
		s.member.others = ""
	}
}

// unlisten ends the subscription to the lock's own channel: the channel of releases or of a row.
func (s *State) unlisten() {
	s.subscription.End(&s.Base)
	s.beside = 0
}
