package lock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
)

// holder returns the grant with which this process holds the lock, or nil if it does not hold the lock. In a group of members (see Group), the grant
// may belong to another member.
func (s *State) holder() *grant {
	if s.grant == nil && s.member != nil && s.member.group.holding > 0 {
		return s.member.group.known().grant
	}
	return s.grant
}

// busyError returns an error that names the holder of the lock: this process, or the holder that Redis named last.
func (s *State) busyError(now time.Duration, r *wait.Request) error {
	e := &protocol.BusyError{Name: r.Address.Name}
	if g := s.holder(); g != nil {
		e.Holder, e.TTL, e.Local = g.ID, max(0, g.Left(now)), true
		return e
	}
	if s.busy.unset {
		return r.Because(wait.NotSet(r))
	}
	e.Holder, e.TTL = s.busy.holder, max(0, s.busy.until-now)
	e.Local = strings.HasPrefix(e.Holder, s.Policy.Runtime+":") // this process holds the key, through a lock of another kind
	return e
}

// reportSlow reports the waiters that have waited for SlowWait.
func (s *State) reportSlow(now time.Duration) {
	for r, ahead := s.Queue.NextSlow(now, s.Policy.SlowWait); r != nil; r, ahead = s.Queue.NextSlow(now, s.Policy.SlowWait) {
		s.Emit(s.slow(now, r, s.ahead()+ahead))
	}
}

// ahead returns the number of requests that wait in the earlier members of a group.
func (s *State) ahead() (n int) {
	if s.member == nil {
		return 0
	}
	for m := s.member.prev; m != nil; m = m.prev {
		n += m.Queue.Len
	}
	return n
}

// slow reports one waiter, with what is known of the lock's holder.
func (s *State) slow(now time.Duration, r *wait.Request, ahead int) wait.Effect {
	w := &protocol.Waiting{Kind: r.Address.Kind.Name, Name: r.Address.Name, Waited: now - r.Came, Holder: s.busy.holder, Ahead: ahead}
	if g := s.holder(); g != nil {
		w.Holder = g.ID
	}
	w.Local = strings.HasPrefix(w.Holder, s.Policy.Runtime+":")
	return wait.Effect{Do: wait.DoReport, Request: r, Waiting: w}
}

// waitError is the answer to a waiter whose wait has ended. If the last call failed, the answer names that failure, because it is newer than what is
// known about the lock's holder. Otherwise the answer names the holder, if it is known.
func (s *State) waitError(now time.Duration, r *wait.Request, cause error) error {
	err := s.busyError(now, r)
	switch {
	case s.failures.Count > 0:
		err = r.Because(fmt.Errorf("%w: %w", protocol.ErrNotAcquired, s.failures.Last))
	case s.grant == nil && !s.busy.known:
		err = r.Because(fmt.Errorf("%w: %w", protocol.ErrNotAcquired, s.Policy.Why(s.Address.Raw)))
	}
	if cause == nil || errors.Is(cause, protocol.ErrNotAcquired) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
