package wait

import (
	"cmp"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// AcquireSpec is what an acquire asks for.
type AcquireSpec struct {
	Owner protocol.Owner // zero: an owner of its own
	Lease time.Duration  // 0: renewed by the watchdog
	Wait  time.Duration  // 0: no bound but the context
	Try   bool

	Backoff  protocol.Backoff // of spin locks; zero fields: defaults
	BacksOff bool             // one was given, be it the default
}

// Check returns what is wrong with a spec, and fills in the defaults of its back-off.
func (s *AcquireSpec) Check(kind *scripts.Kind, runtime string) error {
	if err := s.checkBackoff(kind); err != nil {
		return err
	}
	switch {
	case !s.Owner.IsZero() && s.Owner.Runtime() != runtime:
		return fmt.Errorf("%w: owner %v is of another runtime", protocol.ErrInvalid, s.Owner)
	case s.Wait < 0:
		return fmt.Errorf("%w: wait %v is negative", protocol.ErrInvalid, s.Wait)
	case s.Wait > 0 && s.Try:
		return fmt.Errorf("%w: a try does not wait", protocol.ErrInvalid)
	case s.Lease != 0:
		return lease.Check(s.Lease)
	}
	return nil
}

func (s *AcquireSpec) checkBackoff(kind *scripts.Kind) error {
	b := &s.Backoff
	if !kind.Spins && (s.BacksOff || *b != (protocol.Backoff{})) {
		return fmt.Errorf("%w: a %s does not spin, so it has no back-off", protocol.ErrInvalid, kind.Name)
	}
	b.Initial, b.Max = cmp.Or(b.Initial, time.Millisecond), cmp.Or(b.Max, 128*time.Millisecond)
	b.Multiplier = cmp.Or(b.Multiplier, 2)
	if b.Initial < 0 || b.Max < b.Initial || !(b.Multiplier >= 1) {
		return fmt.Errorf("%w: back-off %v, must not be negative, shrink, or have a Max below its Initial", protocol.ErrInvalid, *b)
	}
	return nil
}
