package machinetest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// Process is one process in a model of locks or of counters. It has all that surrounds the process's machine: the timer, the subscriptions and the
// faults.
type Process struct {
	World *World
	Name  string
	Step  func(message any) // handles a message
	Among func() int        // returns the field Among of a wait.ChannelReady; nil means 0

	PausedTo   time.Duration // the process handles no messages before this time
	Subscribed map[string]bool

	alarms  int            // counts alarm effects, so that an older timer is ignored
	watches map[string]int // by channel: counts subscriptions, so that the start of an older subscription is ignored
}

// Post sends a message to the process. A paused process gets it after the pause.
func (p *Process) Post(delay time.Duration, message any) {
	p.World.At(max(p.World.Now+delay, p.PausedTo), func() { p.Take(message) })
}

// Take handles a message, or postpones it while the process is paused.
func (p *Process) Take(message any) {
	if p.World.Now < p.PausedTo {
		p.Post(0, message)
		return
	}
	p.Step(message)
}

// SetAlarm sets the timer; clock.Never stops it.
func (p *Process) SetAlarm(at time.Duration) {
	if !p.World.Chance(5) { // sometimes the old timer counts as fired already, and its message still arrives
		p.alarms++
	}
	number := p.alarms
	if at != clock.Never {
		p.World.At(at+p.World.UpTo(time.Millisecond), func() {
			if number == p.alarms {
				p.Take(wait.Alarm{})
			}
		})
	}
}

// Watch subscribes to a channel or unsubscribes. Messages of an earlier subscription may still arrive.
func (p *Process) Watch(channel string, on bool) {
	if p.watches == nil {
		p.watches, p.Subscribed = map[string]int{}, map[string]bool{}
	}
	p.watches[channel]++
	number := p.watches[channel]
	p.World.After(p.World.UpTo(time.Millisecond), func() {
		if number != p.watches[channel] {
			return
		}
		delete(p.Subscribed, channel)
		if on {
			p.Subscribed[channel] = true
			ready := wait.ChannelReady{Channel: channel}
			if p.Among != nil {
				ready.Among = p.Among()
			}
			p.Post(p.World.UpTo(time.Millisecond), ready)
		}
	})
}

// Channels returns the channels that the process is subscribed to.
func (p *Process) Channels() []string { return slices.Sorted(maps.Keys(p.Subscribed)) }

// Disconnect breaks the pub/sub connection, and restores it after a while. Messages that are published in between are lost.
func (p *Process) Disconnect(pause time.Duration) {
	for _, channel := range p.Channels() {
		delete(p.Subscribed, channel)
		number := p.watches[channel]
		p.World.After(pause, func() {
			if number == p.watches[channel] {
				p.Watch(channel, true)
			}
		})
	}
}

// Suffer lets faults happen to the process: its connection breaks, it pauses, its runtime is closed.
func (p *Process) Suffer() {
	w := p.World
	w.After(w.UpTo(Use), p.reconnect)
	if w.Chance(30) {
		w.After(w.UpTo(Use), p.pause)
	}
	if w.Chance(20) {
		w.After(w.UpTo(Use), func() { p.Post(0, wait.Close{Stage: wait.Closing}) })
	}
	if w.Chance(20) { // a Shutdown; sometimes a Close comes later
		w.After(w.UpTo(Use), func() { p.Post(0, wait.Close{Stage: wait.Draining}) })
	}
	if w.Chance(2) {
		w.After(w.UpTo(Use), func() {
			w.Excused = true
			p.Post(0, wait.Close{Stage: wait.Closing})
			p.Post(0, wait.Close{Stage: wait.Aborting})
		})
	}
}

// reconnect breaks the pub/sub connection now and then.
func (p *Process) reconnect() {
	w := p.World
	if len(p.Subscribed) > 0 {
		p.Disconnect(w.UpTo(50 * time.Millisecond))
	}
	if !w.Calm {
		w.After(w.UpTo(500*time.Millisecond), p.reconnect)
	}
}

func (p *Process) pause() {
	p.PausedTo = p.World.Now + p.World.UpTo(2*Lease)
	p.World.Logf("%s pauses until %v", p.Name, p.PausedTo)
}

// Survive runs a step of a machine. If the step panics, Survive does what the shell does: it refuses the current request, and the machine starts
// over.
func Survive(m wait.Machine, now time.Duration, message any) (effects []wait.Effect, panicked any) {
	defer func() {
		if panicked = recover(); panicked == nil {
			return
		}
		r, _ := message.(*wait.Request)
		if r != nil {
			r.Err = fmt.Errorf("the actor panicked: %v", panicked)
		}
		effects = m.Distrust(now, r)
	}()
	return m.Step(now, message), nil
}
