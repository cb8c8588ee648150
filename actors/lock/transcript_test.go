package lock

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
)

// TestTranscripts plays testdata/*.txt: the messages that a lock actor receives, with their times, and its decisions. A file looks like this:
//
//	=== name of the case, which starts with a new lock
//	policy max=2
//
//	@0ms acquire a owner=x
//	----
//	call acquire g1 lease=30s deadline=2s
//
// Above the dashes are messages, each of them a step; below are their effects. Lines with # are for the reader. The methods `message` and `answer`
// define the messages. After every step the stepChecker looks for what must never happen.
func TestTranscripts(t *testing.T) {
	machinetest.PlayAll(t, "testdata/*.txt", func(t *testing.T, title string) machinetest.Transcript { return newPlayer(t, title) })
}

// player plays one case.
type player struct {
	machinetest.Player

	state   wait.Machine
	checker *stepChecker

	requests map[string]*wait.Request // by name
	names    map[*wait.Request]string
	acquires []string        // names of acquires, in order
	ended    map[string]bool // by name: acquires whose hold was reported as lost
	calls    []*lockCall     // calls in flight
	sent     map[*lockCall]time.Duration
	grants   map[string]*lease.Grant
}

func newPlayer(t *testing.T, title string) *player {
	p := &player{
		Player:   machinetest.Player{T: t, Title: title},
		requests: map[string]*wait.Request{}, names: map[*wait.Request]string{}, ended: map[string]bool{},
		sent: map[*lockCall]time.Duration{}, grants: map[string]*lease.Grant{},
	}
	p.SetPolicy(nil)
	return p
}

// start makes the machine and its checker.
func (p *player) start() {
	p.state = New(&p.Policy, &lease.Address{Kind: p.Kind, Name: "orders", Raw: "orders"}, nil, nil)
	p.checker = newStepChecker(p.state)
}

// SetPolicy begins the case with these options.
func (p *player) SetPolicy(options []string) {
	p.Player.SetPolicy(options)
	p.start()
}

// Play takes the step of a line.
func (p *player) Play(line string) {
	verb, a := p.Read(line, p.checker.alarmAt)
	if message := p.message(verb, a); message != nil {
		p.step(message)
	}
}

func (p *player) step(message any) {
	effects, panicked, err := p.checker.step(p.Now, message)
	p.Check(err)
	if panicked != nil {
		p.Writef("panic %q", panicked)
		if r, ok := message.(*wait.Request); ok {
			p.printAnswer(r)
		}
	}
	for i := range effects {
		p.print(&effects[i])
	}
	p.Handled(p.state, message)
	for _, name := range p.acquires { // some holds end without an effect
		if h := p.request(name).Hold; lost(h) && !p.ended[name] {
			p.ended[name] = true
			p.Writef("end %s %q", name, h.Err())
		}
	}
}
