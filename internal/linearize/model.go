package linearize

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// The observer sees these changes of a queue. They are checked like operations, but no user requests them.
const (
	doEnter = "enter" // one or more grants have joined the end of the queue, in a known order
	doLeave = "leave" // the operation's Grant has left the queue without getting the lock
)

// state is what the model knows about one name. Its holdings are only those that are certain: a grant that a user has given up may still be in Redis,
// but it is not in the state (see the type facts). A state is never changed, only replaced.
type state struct {
	holds   []holding // sorted
	left    holding   // the holding that was released last; the runtime may keep its grant for a while, and hand the grant on
	deposed []deposed
	token   int64 // the largest so far
	queue   []string
}

// holding is one owner's share of a grant.
type holding struct {
	owner, grant, mode string
	count              int
	token              int64
	until              time.Duration // nobody else may be granted the lock before then
	length             time.Duration
	doubtful           bool // it may have been released by force, so others may be granted the lock before `until`
}

// deposed is a grant that was released by force. By the instant `told`, its holder must have learned of the release.
type deposed struct {
	grant string
	told  time.Duration
}

// model is porcupine's view of the locks of one kind.
func model(k Kind) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return &state{} },
		Step: func(s, in, _ any) (bool, any) {
			next := *s.(*state)
			legal := next.step(k, in.(*Op))
			return legal, &next
		},
		Equal: func(a, b any) bool { return a.(*state).equal(b.(*state)) },
	}
}

func (s *state) equal(o *state) bool {
	return s.token == o.token && s.left == o.left && slices.Equal(s.holds, o.holds) && slices.Equal(s.deposed, o.deposed) && slices.Equal(s.queue, o.queue)
}

// step reports whether an operation's result is possible in the state, and applies it.
func (s *state) step(k Kind, op *Op) bool {
	switch op.Do {
	case doAcquire, doTry:
		if op.Result == isBusy {
			return s.refuses(k, op)
		}
		return s.grants(k, op)
	case doValid:
		return s.isValid(op)
	case doExtend:
		return s.extends(k, op)
	case doRelease, doLost:
		return s.ends(k, op)
	case doForce:
		return s.isForced(op)
	case doEnter:
		s.queue = slices.Concat(s.queue, op.came)
		return true
	case doLeave:
		i := slices.Index(s.queue, op.Grant)
		if i < 0 {
			return false
		}
		s.queue = slices.Delete(slices.Clone(s.queue), i, i+1)
		return true
	}
	return false
}

// grants applies a grant, and reports whether it is possible. If the owner has the grant already, the token must be the same. If the grant was
// released by force, its runtime may not know this yet, and any result is possible. In all other cases, nobody else may have the lock, the token must
// grow, and the queue's order must be kept.
func (s *state) grants(k Kind, op *Op) bool {
	if i := s.find(op); i >= 0 {
		h := &s.change()[i]
		h.count++
		h.until = max(h.until, op.Until)
		return h.token == op.Token
	}
	if s.wasDeposed(op.Grant) != nil {
		return true // the runtime does not know yet that the grant is lost, and hands it on
	}
	left := slices.DeleteFunc(slices.Clone(s.holds), func(h holding) bool { return excludes(k, op, h) && h.over(op.Return) })
	valid := 0
	for _, h := range left {
		if excludes(k, op, h) {
			return false
		}
		if !h.over(op.Return) {
			valid++
		}
	}
	if k.Permits > 0 && valid >= k.Permits || k.Fenced && op.Token <= s.token || k.Queued && !op.anyPlace && !s.isNext(op.Grant) {
		return false
	}
	s.token, s.left = op.Token, holding{}
	left = append(left, holding{
		owner: op.Owner, grant: op.Grant, mode: op.Mode, count: 1, token: op.Token, until: op.Until, length: op.Length,
	})
	slices.SortFunc(left, func(a, b holding) int { return cmp.Or(cmp.Compare(a.grant, b.grant), cmp.Compare(a.owner, b.owner)) })
	s.holds = left
	return true
}

// over reports whether the lock may have been granted to somebody else by the given instant.
func (h holding) over(at time.Duration) bool { return h.doubtful || h.until <= at }

// excludes reports whether a holding rules out a new grant.
func excludes(k Kind, op *Op, h holding) bool {
	switch {
	case k.Permits > 0:
		return false
	case op.Mode == modeRead && h.mode == modeRead:
		return false
	case op.Mode == modeRead && h.mode == modeWrite:
		return op.Owner != h.owner // a writer may also read
	}
	return true
}

// isNext reports whether a grant is next in the queue, and removes it from there. With an empty queue any grant is next.
func (s *state) isNext(grant string) bool {
	if len(s.queue) > 0 && s.queue[0] == grant {
		s.queue = slices.Clone(s.queue[1:])
		return true
	}
	return len(s.queue) == 0
}

// refuses checks a refusal. If a permit is refused, all permits must be taken. Any other refusal must name a holder of the lock or a deposed holder.
// If readers hold the lock, a writer's refusal may name any of them, perhaps a dead one, so the name is not checked.
func (s *state) refuses(k Kind, op *Op) bool {
	if k.Permits > 0 {
		return len(s.holds) >= k.Permits
	}
	return s.wasDeposed(op.Holder) != nil || slices.ContainsFunc(s.holds, func(h holding) bool {
		return h.grant == op.Holder || h.mode == modeRead && excludes(k, op, h)
	})
}

// isValid applies a check whose result was that the lease is valid. The lease's owner must hold the lock, and the deadline must be at most one lease
// away. A deposed holder may find its lease valid until the instant at which it must have learned of its loss.
func (s *state) isValid(op *Op) bool {
	if i := s.find(op); i >= 0 {
		s.change()[i].until = op.Until
		return op.Until <= op.Return+op.Length
	}
	d := s.wasDeposed(op.Grant)
	return d != nil && op.Until <= d.told
}

// extends applies an extension of a lease. If the extension was confirmed, the lease's owner must hold the lock. If it was not confirmed, the lease
// counts only until the old or the new deadline, whichever is earlier.
func (s *state) extends(k Kind, op *Op) bool {
	i := s.find(op)
	if op.Result == isOK && i < 0 {
		return false
	}
	if i >= 0 {
		h := &s.change()[i]
		h.until, h.length = min(h.until, op.Call+op.Length-margin(op.Length)), max(h.length, op.Length)
		if op.Result == isOK {
			h.until, h.length = op.Until, op.Length
		}
	}
	return op.Result != isLost || s.ends(k, op)
}

// margin is how much earlier a lease ends for its holder than on the server.
func margin(length time.Duration) time.Duration { return length/100 + 2*time.Millisecond }

// ends applies a release or a loss. Only a holder or a deposed holder can release the lock. A loss must not come before the holder's deadline, unless
// the lock may have been released by force.
func (s *state) ends(k Kind, op *Op) bool {
	i := s.find(op)
	if i < 0 {
		return op.Result != isOK || s.wasDeposed(op.Grant) != nil
	}
	if h := s.holds[i]; op.Result != isLost && h.count > 1 {
		s.change()[i].count--
		return true
	} else if op.Result == isLost && !h.over(op.Return) {
		return false
	}
	if op.Result == isOK && !k.Unforced { // only forced releases use s.left
		s.left = s.holds[i]
	}
	s.holds = slices.Delete(slices.Clone(s.holds), i, i+1)
	return true
}

// isForced applies a forced release. If it released something, nobody holds the lock afterwards. If it found nothing, the lock was free before.
// If the result is unknown, all that is held becomes doubtful.
func (s *state) isForced(op *Op) bool {
	switch op.Result {
	case isBusy:
		s.holds = slices.DeleteFunc(slices.Clone(s.holds), func(h holding) bool { return h.over(op.Return) })
		return len(s.holds) == 0
	}
	for _, h := range s.holds {
		s.depose(op, h)
	}
	if s.left.grant != "" {
		s.depose(op, s.left)
	}
	if op.Result == isOK {
		s.holds = nil
		return true
	}
	for i := range s.change() {
		s.holds[i].doubtful = true
	}
	return true
}

// depose notes that a holding was released by force, and forgets holders that learned of their loss long ago.
func (s *state) depose(op *Op, h holding) {
	s.deposed = slices.DeleteFunc(slices.Clone(s.deposed), func(d deposed) bool {
		return d.grant == h.grant || d.told+time.Second < op.Call
	})
	s.deposed = append(s.deposed, deposed{h.grant, op.Return + h.length})
}

func (s *state) wasDeposed(grant string) *deposed {
	for i := range s.deposed {
		if s.deposed[i].grant == grant {
			return &s.deposed[i]
		}
	}
	return nil
}

func (s *state) find(op *Op) int {
	return slices.IndexFunc(s.holds, func(h holding) bool { return h.owner == op.Owner && h.grant == op.Grant && h.mode == op.Mode })
}

// change copies the holdings, so that they can be changed without changing earlier states.
func (s *state) change() []holding {
	s.holds = slices.Clone(s.holds)
	return s.holds
}
