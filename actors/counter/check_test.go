package counter

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// countChecker watches one State from outside, step by step, and reports violations of its invariants. Both the transcripts and the random
// model test use it.
type countChecker struct {
	state *State

	open    map[*wait.Request]bool // asked, not answered
	flying  map[*countCall]bool    // sent, not answered
	alarmAt time.Duration
	watched bool
}

func newCountChecker(s *State) *countChecker {
	return &countChecker{state: s, open: map[*wait.Request]bool{}, flying: map[*countCall]bool{}, alarmAt: clock.Never}
}

// step takes one step and checks it. If the step panics, the request being handled counts as answered.
func (c *countChecker) step(now time.Duration, message any) (effects []wait.Effect, panicked any, err error) {
	returns := c.returns()
	switch m := message.(type) {
	case *wait.Request:
		c.open[m] = true
	case *countDone:
		delete(c.flying, m.call)
	case wait.Alarm:
		c.alarmAt = clock.Never
	}
	effects, panicked = machinetest.Survive(c.state, now, message)
	if r, ok := message.(*wait.Request); ok && panicked != nil {
		delete(c.open, r)
	}
	err = c.after(now, effects, panicked != nil)
	if message == (wait.Close{Stage: wait.Aborting}) {
		err = errors.Join(err, checkReported(effects, returns))
	}
	return effects, panicked, err
}

// returns counts the returns of permits that Redis has not confirmed, including those that have not been sent yet. The key is the name of the
// operation (CountOp.Word).
func (c *countChecker) returns() map[string]int {
	n := map[string]int{}
	for _, e := range c.state.tasks {
		if e.op.Way == scripts.Give {
			n[e.op.Word]++
		}
	}
	switch s := c.state; {
	case s.owed > 0:
		n[s.Address.Kind.Counting.Give.Word]++
	case s.pending.number > 0:
		n[s.pending.op.Word]++
	}
	return n
}

// checkReported checks that an abort has emitted an event for each return that it has given up. The parameter `returns` has the counts from before
// the abort.
func checkReported(effects []wait.Effect, returns map[string]int) error {
	for i := range effects {
		if event, ok := effects[i].Event.(protocol.Unconfirmed); ok {
			returns[event.Do]--
		}
	}
	for word, n := range returns {
		if n > 0 {
			return fmt.Errorf("%s was given up %d times without an event", word, n)
		}
	}
	return nil
}

func (c *countChecker) after(now time.Duration, effects []wait.Effect, panicked bool) error {
	for i := range effects {
		if err := c.effect(now, &effects[i]); err != nil {
			return err
		}
	}
	if panicked { // after a panic, the remaining rules need not hold until the next step has run
		return c.checkOpen()
	}
	return errors.Join(c.checkOpen(), c.checkProgress(now), c.checkAttempt(), c.checkTwins())
}

func (c *countChecker) effect(now time.Duration, e *wait.Effect) error {
	switch e.Do {
	case wait.DoCall:
		c.flying[e.Call.(*countCall)] = true
		switch {
		case machinetest.CheckTiming(now, &e.Call.(*countCall).Timing) != nil:
			return machinetest.CheckTiming(now, &e.Call.(*countCall).Timing)
		case e.Call.(*countCall).terms.Request == "":
			return fmt.Errorf("a call without an id")
		}
	case wait.DoAnswer:
		if !c.open[e.Request] {
			return fmt.Errorf("an answer to a request that is not open (answered twice?): %s", e.Request.Count.Word)
		}
		delete(c.open, e.Request)
	case wait.DoWatch, wait.DoUnwatch:
		if c.watched == (e.Do == wait.DoWatch) {
			return fmt.Errorf("watch or unwatch twice")
		}
		c.watched = e.Do == wait.DoWatch
	case wait.DoAlarm:
		c.alarmAt = e.At
	}
	return nil
}

// checkOpen checks that each unanswered request is in exactly one place that will answer it.
func (c *countChecker) checkOpen() error {
	s := c.state
	places := map[*wait.Request]int{}
	for r := s.Queue.Front(); r != nil; r = r.Next {
		places[r]++
	}
	for _, e := range s.tasks {
		for _, r := range e.requests {
			places[r]++
		}
	}
	for _, r := range s.pending.requests {
		places[r]++
	}
	for r, n := range places {
		if n != 1 || !c.open[r] {
			return fmt.Errorf("%s waits in %d places, open: %v", r.Count.Word, n, c.open[r])
		}
	}
	for r := range c.open {
		if places[r] == 0 {
			return fmt.Errorf("%s is forgotten: nothing will answer it", r.Count.Word)
		}
	}
	return nil
}

// checkProgress checks that all unfinished work has a call in flight or an alarm, and that no alarm is due already.
func (c *countChecker) checkProgress(now time.Duration) error {
	s := c.state
	moving := func(call *countCall) bool { return c.alarmAt != clock.Never || call != nil && c.flying[call] }
	switch {
	case s.Queue.Len > 0 && !moving(s.attempt.call):
		return fmt.Errorf("%d wait for ever", s.Queue.Len)
	case s.pending.number > 0 && s.giving == nil:
		return fmt.Errorf("permits or a count-down are never returned")
	case s.subscription.Watch != wait.Unwatched && s.Queue.Len == 0 && c.alarmAt == clock.Never:
		return fmt.Errorf("the channel is never unsubscribed")
	case c.alarmAt <= now:
		return fmt.Errorf("the alarm at %v is due already: the actor would spin", c.alarmAt)
	case c.alarmAt != clock.Never && s.Idle():
		return fmt.Errorf("idle with an alarm")
	}
	ids := map[string]bool{}
	for _, e := range s.tasks {
		if !moving(e.call) {
			return fmt.Errorf("a stuck task: %s", e.op.Word)
		}
		if ids[e.request] || e.request == s.attempt.request {
			return fmt.Errorf("two requests with id %s", e.request)
		}
		ids[e.request] = true
	}
	for _, id := range s.answered {
		if ids[id] || id == s.attempt.request {
			return fmt.Errorf("the result of %s would be deleted while it may be needed", id)
		}
	}
	return nil
}

// checkAttempt checks that the requests of an attempt still wait, and that all acquired permits have been given to somebody.
func (c *countChecker) checkAttempt() error {
	a := &c.state.attempt
	if a.request == "" && (a.call != nil || a.served != nil || a.duplicateUntil != 0) {
		return fmt.Errorf("an attempt without id: %+v", *a)
	}
	if a.request != "" && a.op.Way == scripts.Take && len(a.served) != len(a.number) {
		return fmt.Errorf("an attempt for %d with %d numbers", len(a.served), len(a.number))
	}
	for _, r := range a.served {
		if r != nil && r.Queue != &c.state.Queue {
			return fmt.Errorf("an attempt for a request that does not wait")
		}
	}
	if c.state.owed != 0 {
		return fmt.Errorf("%d permits belong to nobody", c.state.owed)
	}
	return nil
}

// checkTwins checks that the shell's timer and subscription are what the state believes them to be.
func (c *countChecker) checkTwins() error {
	s := c.state
	switch {
	case s.AlarmAt != c.alarmAt:
		return fmt.Errorf("alarm at %v, believed at %v", c.alarmAt, s.AlarmAt)
	case (s.subscription.Watch != wait.Unwatched) != c.watched:
		return fmt.Errorf("watched: %v, believed %v", c.watched, s.subscription.Watch)
	}
	return nil
}
