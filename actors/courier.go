package actors

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/protocol"
)

// couriers tell the actors of the user what there is to tell: answers, losses, and that somebody watches them.
//
// Telling runs the user's code. An actor on protoactor's synchronized dispatcher handles the message within the send, the
// sender of a bounded mailbox that is full spins until there is room, and a process that the user has registered does what it
// pleases. A lock actor must not wait for any of that: it has other requesters, and a lease that has a deadline. So each actor
// that there is something to tell has a courier, a goroutine that lives until all is told. What is posted first is told first.
type couriers struct {
	// fixed at construction
	engine *Engine

	mu    sync.Mutex
	busy  map[string]*courier // by the ID of the actor
	timer Timer               // set while somebody is busy
	over  bool                // nobody looks after those that do not come back any more
	idle  chan struct{}       // closed by the last one; nil unless somebody waits for that
}

// courier is the one on its way to one actor. It is guarded by the mutex of all.
type courier struct {
	to      *actor.PID
	letters []letter
	told    int  // letters so far
	seen    int  // told when it was last looked after; -1 before that
	missed  bool // it was reported that it does not come back
}

// letter is one thing to tell, about a lock.
type letter struct {
	lock    string
	message any  // for the actor's Receive
	system  bool // or for protoactor: Watch, Unwatch
}

// courierPatience is how often couriers are looked after: one that tells the same from one look to the next is reported.
const courierPatience = time.Second

func newCouriers(e *Engine) *couriers { return &couriers{engine: e, busy: map[string]*courier{}} }

// post has an actor told.
func (c *couriers) post(to *actor.PID, l letter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if co := c.busy[to.Id]; co != nil {
		co.letters = append(co.letters, l)
		return
	}
	co := &courier{to: to, letters: []letter{l}, seen: -1}
	c.busy[to.Id] = co
	if c.timer == nil && !c.over {
		c.timer = c.engine.clock.AfterFunc(courierPatience, c.lookAfter)
	}
	go c.run(co)
}

// run tells everything. Actors may end the goroutine that they run on (runtime.Goexit): another one goes on.
func (c *couriers) run(co *courier) {
	done := false
	defer func() {
		if !done {
			go c.run(co)
		}
	}()
	for {
		l, ok := c.next(co)
		if !ok {
			done = true
			return
		}
		c.tell(co.to, l)
	}
}

// next takes the next letter; without one the courier is no more.
func (c *couriers) next(co *courier) (letter, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(co.letters) == 0 {
		delete(c.busy, co.to.Id)
		if len(c.busy) == 0 && c.idle != nil {
			close(c.idle)
			c.idle = nil
		}
		return letter{}, false
	}
	l := co.letters[0]
	co.letters[0] = letter{}
	co.letters = co.letters[1:]
	co.told++
	return l, true
}

// tell runs the user's code.
func (c *couriers) tell(to *actor.PID, l letter) {
	defer func() {
		if value := recover(); value != nil {
			c.engine.events.emit(protocol.ActorPanicked{
				Name: l.lock, Value: fmt.Sprintf("telling %s: %v", to.Id, value), Stack: string(debug.Stack()),
			})
		}
	}()
	if !l.system {
		c.engine.root.Send(to, l.message)
		return
	}
	process, _ := c.engine.system.ProcessRegistry.Get(to) // for an actor that is gone, the one that answers with Terminated
	process.SendSystemMessage(to, l.message)
}

// lookAfter reports those that have not come back since the last look.
func (c *couriers) lookAfter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = nil
	for _, co := range c.busy {
		if co.told == co.seen && !co.missed {
			co.missed = true
			c.engine.events.emit(protocol.RequesterBlocked{Requester: co.to.Id, Waiting: len(co.letters)})
		}
		co.seen = co.told
	}
	if len(c.busy) > 0 && !c.over {
		c.timer = c.engine.clock.AfterFunc(courierPatience, c.lookAfter)
	}
}

// finish waits until all is told, but not for long for somebody who does not come back.
func (c *couriers) finish(grace time.Duration) error {
	idle := c.stop()
	if idle == nil {
		return nil
	}
	elapsed, timer := elapse(c.engine.clock, grace)
	defer timer.Stop()
	select {
	case <-idle:
		return nil
	case <-elapsed:
		return fmt.Errorf("%s: telling these actors does not come back", strings.Join(c.names(), ", "))
	}
}

// stop ends the looking after; idle is closed when all is told, and nil when it is.
func (c *couriers) stop() (idle chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if len(c.busy) > 0 {
		c.idle = make(chan struct{})
	}
	return c.idle
}

func (c *couriers) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for id := range c.busy {
		names = append(names, id)
	}
	slices.Sort(names)
	return names
}
