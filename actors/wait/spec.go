package wait

import (
	"cmp"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Terms say which lease an acquire asks for. The zero value asks for a lease of Options.Lease that the watchdog renews. An acquire with other
// Terms gets a grant of its own. Other holders never share that grant, but its owner may re-enter it.
type Terms struct {
	Lease   time.Duration // of an acquire: the length of a fixed lease, or 0 for a lease that the watchdog renews; of an extend: the new length
	Renewed time.Duration // the length that the watchdog sets, or 0 for Options.Lease
	AtMost  time.Duration // the longest time from the acquire to the end of the lease, no matter how often it is renewed; 0 means no limit
	AtLeast time.Duration // of an acquire or extend: nobody else gets the lock for this long, even if it is released sooner; 0 means no minimum
}

// Length returns the length of the lease. The parameter `usual` is the length in the options.
func (t Terms) Length(usual time.Duration) time.Duration { return cmp.Or(t.Lease, t.Renewed, usual) }

// First returns how long the lease lasts if it is never renewed. The parameter `usual` is the length in the options.
func (t Terms) First(usual time.Duration) time.Duration {
	if t.AtMost > 0 {
		return min(t.Length(usual), t.AtMost)
	}
	return t.Length(usual)
}

// Own reports whether the acquire needs a grant of its own, which is neither handed on nor shared.
func (t Terms) Own() bool { return t != Terms{} }

// AcquireSpec is what an acquire asks for.
type AcquireSpec struct {
	Terms
	Owner protocol.Owner // if zero, the acquire gets an owner of its own
	Wait  time.Duration  // if 0, only the context bounds the wait
	Try   bool

	Backoff  protocol.Backoff // back-off of a spin lock; zero fields: defaults
	BacksOff bool             // the caller gave a back-off, which may be the zero value
}

// Check returns an error if the spec is invalid for the kind or the runtime. It also fills in the defaults of a spin lock's back-off.
func (s *AcquireSpec) Check(kind *scripts.Kind, runtime string) error {
	if kind.Spins {
		if err := completeBackoff(&s.Backoff); err != nil {
			return err
		}
	}
	switch {
	case !kind.Spins && (s.BacksOff || s.Backoff != (protocol.Backoff{})):
		return fmt.Errorf("%w: a %s does not spin, so it has no back-off", protocol.ErrInvalid, kind.Name)
	case !s.Owner.IsZero() && s.Owner.Runtime() != runtime:
		return fmt.Errorf("%w: owner %v is of another runtime", protocol.ErrInvalid, s.Owner)
	case s.Wait < 0:
		return fmt.Errorf("%w: wait %v is negative", protocol.ErrInvalid, s.Wait)
	case s.Wait > 0 && s.Try:
		return fmt.Errorf("%w: a try does not wait", protocol.ErrInvalid)
	}
	for _, given := range []struct {
		what string
		d    time.Duration
	}{{"lease", s.Lease}, {"renewed lease", s.Renewed}, {"at-most", s.AtMost}, {"at-least", s.AtLeast}} {
		if given.d != 0 {
			if err := lease.Check(given.what, given.d); err != nil {
				return err
			}
		}
	}
	switch {
	case s.Lease != 0 && (s.Renewed != 0 || s.AtMost != 0):
		return fmt.Errorf("%w: a fixed lease is not renewed", protocol.ErrInvalid)
	case s.AtMost != 0 && !kind.Bounds():
		return fmt.Errorf("%w: a %s has no at-most", protocol.ErrInvalid, kind.Name)
	case s.AtLeast != 0 && !kind.Bounds():
		return fmt.Errorf("%w: a %s has no at-least", protocol.ErrInvalid, kind.Name)
	case s.AtMost != 0 && s.AtLeast > s.AtMost, s.Lease != 0 && s.AtLeast > s.Lease:
		return fmt.Errorf("%w: the lease ends after %v, before its at-least %v has passed", protocol.ErrInvalid, cmp.Or(s.Lease, s.AtMost), s.AtLeast)
	}
	return nil
}

// completeBackoff fills in the defaults of a back-off. It returns an error if the back-off is invalid.
func completeBackoff(b *protocol.Backoff) error {
	b.Initial, b.Max = cmp.Or(b.Initial, time.Millisecond), cmp.Or(b.Max, 128*time.Millisecond)
	b.Multiplier = cmp.Or(b.Multiplier, 2)
	if b.Initial < 0 || b.Max < b.Initial || !(b.Multiplier >= 1) {
		return fmt.Errorf("%w: back-off %v, must not be negative, shrink, or have a Max below its Initial", protocol.ErrInvalid, *b)
	}
	return nil
}
