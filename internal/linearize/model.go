package linearize

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// What the observer sees of a queue. No user does it.
const (
	doEnter = "enter" // some stand in the queue, at its end; together, for their order is known, and nobody behind them is granted
	doLeave = "leave" // Grant has left it, and not by being granted
)

// state is all that the model knows of one name: who certainly holds it. Who may hold it besides, because of a grant that somebody gave
// up, is not in it: see facts. It is never changed, only replaced.
type state struct {
	holds   []holding // in an order of their own
	deposed []deposed
	token   int64 // the largest
	queue   []string
}

// holding is what one owner has of one grant.
type holding struct {
	owner, grant, mode string
	count              int
	token              int64
	until              time.Duration // nobody else may be granted the lock before
	length             time.Duration
	doubtful           bool // somebody may have freed it by force: its time means nothing
}

// deposed is a grant that was freed by force, which its holder need not know before this instant.
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
	return s.token == o.token && slices.Equal(s.holds, o.holds) && slices.Equal(s.deposed, o.deposed) && slices.Equal(s.queue, o.queue)
}

// step reports whether an operation may do what it has done, and does it.
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
		return s.extends(op)
	case doRelease, doLost:
		return s.ends(op)
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

// grants: to an owner who has it already, in the order of the queue, or when nobody else can have it.
func (s *state) grants(k Kind, op *Op) bool {
	if i := s.find(op); i >= 0 {
		h := &s.change()[i]
		h.count++
		h.until = max(h.until, op.Until)
		return h.token == op.Token
	}
	if s.wasDeposed(op.Grant) != nil {
		return true // its runtime hands on what it does not know to be lost
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
	s.token = op.Token
	left = append(left, holding{
		owner: op.Owner, grant: op.Grant, mode: op.Mode, count: 1, token: op.Token, until: op.Until, length: op.Length,
	})
	slices.SortFunc(left, func(a, b holding) int { return cmp.Or(cmp.Compare(a.grant, b.grant), cmp.Compare(a.owner, b.owner)) })
	s.holds = left
	return true
}

// over reports whether somebody else may have been granted the lock at an instant.
func (h holding) over(at time.Duration) bool { return h.doubtful || h.until <= at }

// excludes reports whether what is held is in the way of a new grant.
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

// isNext reports whether it is a grant's turn, and takes it out of the queue.
func (s *state) isNext(grant string) bool {
	if len(s.queue) > 0 && s.queue[0] == grant {
		s.queue = slices.Clone(s.queue[1:])
		return true
	}
	return len(s.queue) == 0
}

// refuses: the lock is with whom the refusal names, or all permits are out. Of readers it names any, perhaps one who has died beside
// others.
func (s *state) refuses(k Kind, op *Op) bool {
	if k.Permits > 0 {
		return len(s.holds) >= k.Permits
	}
	return s.wasDeposed(op.Holder) != nil || slices.ContainsFunc(s.holds, func(h holding) bool {
		return h.grant == op.Holder || h.mode == modeRead && excludes(k, op, h)
	})
}

// isValid: who holds it may be sure until the deadline, which is no later than a lease from now. A deposed holder learns of it in time.
func (s *state) isValid(op *Op) bool {
	if i := s.find(op); i >= 0 {
		s.change()[i].until = op.Until
		return op.Until <= op.Return+op.Length
	}
	d := s.wasDeposed(op.Grant)
	return d != nil && op.Until <= d.told
}

// extends: who is confirmed holds it; until then the shorter time counts.
func (s *state) extends(op *Op) bool {
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
	return op.Result != isLost || s.ends(op)
}

// margin is how much earlier than the server a holder counts its lease as over.
func margin(length time.Duration) time.Duration { return length/100 + 2*time.Millisecond }

// ends: given back by who holds it, or lost not before its time.
func (s *state) ends(op *Op) bool {
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
	s.holds = slices.Delete(slices.Clone(s.holds), i, i+1)
	return true
}

// isForced: nothing is held any more, or nothing was. When nobody knows, nobody can be sure of what is held.
func (s *state) isForced(op *Op) bool {
	switch op.Result {
	case isBusy:
		s.holds = slices.DeleteFunc(slices.Clone(s.holds), func(h holding) bool { return h.over(op.Return) })
		return len(s.holds) == 0
	}
	for _, h := range s.holds {
		s.depose(op, h)
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

// depose forgets holders that learned of their loss long ago.
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

// change makes the holdings the state's own.
func (s *state) change() []holding {
	s.holds = slices.Clone(s.holds)
	return s.holds
}
