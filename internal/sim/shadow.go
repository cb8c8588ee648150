package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// shadow is what the executed commands reveal about a place, at the instant of each command.
type shadow struct {
	freed    time.Time // when a release made the place free, or zero if it is not free or nobody was notified
	reserved time.Time // a waiter reserves the semaphore until this time
	holder   string    // the grant that acquired it last
	queue    []string  // of a fair lock
	popped   string    // the previous head of the queue
	left     int       // permits
}

// watch sees a command before it is executed, including the commands of scripts. It assumes that the command succeeds: here no script fails
// half-way.
func (w *world) watch(command string, args []string) {
	if len(args) == 0 {
		return
	}
	for _, p := range w.places {
		if p.kind != multiLock && strings.Contains(args[0], p.name) {
			w.watchPlace(p, command, args)
		}
	}
}

// forget records that the server loses all data.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.places {
		p.shadow = shadow{}
	}
}

func (w *world) watchPlace(p *place, command string, args []string) {
	s, key := &p.shadow, args[0]
	switch {
	case key == "redisson_lock_queue:{"+p.name+"}":
		s.line(command, args)
	case key == "holdfast_want:{"+p.name+"}" && command == "SET":
		ms, _ := strconv.Atoi(args[len(args)-1])
		s.reserved = time.Now().Add(time.Duration(ms) * time.Millisecond)
	case key != p.name:
	case p.kind == semaphore || p.kind == permits:
		s.count(command, args, map[bool]int{true: permitCount, false: 1}[p.kind == semaphore]) // a waiter of a semaphore may want all permits
	case command == "DEL", command == "HDEL" && args[1] == s.holder && p.kind != readWrite:
		s.freed = time.Now()
	case command == "HSET":
		s.freed, s.holder = time.Time{}, args[1]
		if p.kind == fairLock {
			w.inOrder(p, args[1])
		}
	case command == "HDEL", command == "PEXPIRE": // a lock whose key expires is free, but nobody is notified
	}
}

// line follows the queue of a fair lock.
func (s *shadow) line(command string, args []string) {
	switch command {
	case "RPUSH":
		s.queue = append(s.queue, args[1:]...)
	case "LPOP":
		if len(s.queue) > 0 {
			s.popped, s.queue = s.queue[0], s.queue[1:]
		}
	case "LREM":
		s.queue = slices.DeleteFunc(s.queue, func(id string) bool { return id == args[2] })
	case "DEL":
		s.queue = nil
	}
}

// inOrder checks that a fair lock went to the head of its queue, or that the queue was empty (A8).
func (w *world) inOrder(p *place, id string) {
	// An id with ":-" has no holder: the lock is kept for the rest of an at-least time.
	if s := &p.shadow; s.popped != id && len(s.queue) > 0 && !strings.Contains(id, ":-") {
		w.later = append(w.later, "A8: "+id+" has taken "+p.name+" before "+strings.Join(s.queue, ", "))
	}
	p.shadow.popped = ""
}

// count tracks s.left, the number of free permits. With `enough` free permits, any single waiter can acquire what it wants. count sets s.freed when
// a release raises the number to `enough` or more, and clears s.freed when the number falls below `enough`.
func (s *shadow) count(command string, args []string, enough int) {
	number := 0
	if len(args) > 1 {
		number, _ = strconv.Atoi(args[1])
	}
	switch command {
	case "SET":
		s.left = number
	case "INCRBY":
		if s.left += number; s.left >= enough && s.freed.IsZero() {
			s.freed = time.Now()
		}
	case "DECRBY":
		if s.left -= number; s.left < enough {
			s.freed = time.Time{}
		}
	}
}

// tellLater reports violations that were found while the server was executing commands.
func (w *world) tellLater() {
	w.mu.Lock()
	later := w.later
	w.later = nil
	w.mu.Unlock()
	for _, text := range later {
		w.oracle.wrong("%s", text)
	}
}

// free returns the time at which a place became free, or zero if it is not free or nobody was notified.
func (w *world) free(p *place) time.Time {
	w.tellLater()
	w.mu.Lock()
	freed, reserved := p.shadow.freed, p.shadow.reserved
	w.mu.Unlock()
	if !freed.IsZero() && reserved.After(freed) {
		return reserved
	}
	return freed
}
