package sim

import (
	"bufio"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// fault is one thing that the nemesis does. Some faults end by themselves, some end when heal is called, and some are permanent.
type fault struct {
	name string
	do   func(w *world, r *rand.Rand, p *process)
}

var faults = []fault{
	{"cut", func(w *world, r *rand.Rand, p *process) {
		away := between(r, 0, 2*w.plan.lease) * time.Duration(r.IntN(2))
		how := either(r)
		w.say("cut %s for %v", p.name, away)
		w.troubles(p, reconnected(away))
		p.set(func() { p.away = time.Now().Add(away) })
		p.cutAll(how, r)
	}},
	{"lose reply", func(w *world, r *rand.Rand, p *process) {
		n := 1 + r.IntN(4)
		w.say("lose the next %d replies to %s", n, p.name)
		p.set(func() { p.swallow = n })
	}},
	{"delay", func(w *world, r *rand.Rand, p *process) {
		direction, d := r.IntN(2), between(r, time.Millisecond, w.plan.lease)
		if r.IntN(2) == 0 {
			d += between(r, 0, 3*time.Second) // longer than anybody waits for a reply
		}
		w.say("delay %s, direction %d, by %v", p.name, direction, d)
		w.troubles(p, time.Now().Add(d+calm))
		p.set(func() { p.held[direction] = time.Now().Add(d) })
	}},
	{"stuck", func(w *world, r *rand.Rand, p *process) {
		if r.IntN(2) == 0 {
			late := w.plan.lease / 3 // after a third of a lease, waiters have stopped waiting for the reply to an acquire
			if r.IntN(2) == 0 {
				late = 2 * w.plan.lease
			}
			n := 1 + r.IntN(3)
			w.say("%s loses track of the next %d messages, which arrive up to %v late", p.name, n, late)
			p.set(func() { p.astray.left, p.astray.late = n, late })
			return
		}
		n, direction, d := r.Uint64(), r.IntN(2), between(r, time.Millisecond, w.plan.lease)
		if r.IntN(2) == 0 {
			d += between(r, 0, 3*time.Second)
		}
		if wire := p.working(n); wire != nil {
			w.say("one connection of %s is stuck, direction %d, for %v", p.name, direction, d)
			w.troubles(p, time.Now().Add(d+soon))
			wire.hold(direction, time.Now().Add(d))
			if r.IntN(2) == 0 { // messages in flight may still arrive after others have acquired the lock
				w.at(between(r, 0, min(d, w.plan.lease/3)), wire.cut)
			}
		}
	}},
	{"deaf", func(w *world, r *rand.Rand, p *process) {
		d := between(r, time.Millisecond, w.plan.lease)
		w.say("%s receives no message for %v, and then loses that connection", p.name, d)
		w.troubles(p, reconnected(0).Add(d))
		for _, wire := range p.listening() {
			wire.set(func() { wire.deaf = true })
			w.at(d, wire.cut)
		}
	}},
	{"pause", func(w *world, r *rand.Rand, p *process) {
		d := between(r, time.Millisecond, 2*w.plan.lease)
		w.say("pause %s for %v", p.name, d)
		w.troubles(p, time.Now().Add(d+calm))
		p.set(func() { p.paused = time.Now().Add(d) })
	}},
	{"kill", func(w *world, r *rand.Rand, p *process) {
		if how := either(r); r.IntN(3) == 0 && w.spare() {
			w.say("kill %s", p.name)
			w.troubles(nil, time.Now().Add(w.plan.lease+calm)) // waiters behind the killed process in a queue wait until its entries are dropped
			p.kill(how, r)
		}
	}},
	{"close", func(w *world, r *rand.Rand, p *process) {
		if r.IntN(2) == 0 && w.spare() {
			own := p.dice.of('e').stream() // dice for shutdowns alone, so that the other draws do not depend on them
			if within := between(own, 0, 4*w.plan.lease); p.draining().IsZero() && own.IntN(2) == 0 {
				w.say("shut down %s within %v", p.name, within)
				w.disturbed["shutdown"]++
				w.troubles(nil, time.Now().Add(soon))
				w.shutDown(p, within)
				return
			}
			w.say("close %s", p.name)
			w.close(p)
		}
	}},
	{"flush scripts", func(w *world, _ *rand.Rand, _ *process) {
		w.say("flush scripts")
		w.troubles(nil, time.Now().Add(soon))
		w.flushScripts()
	}},
	{"flush data", func(w *world, r *rand.Rand, _ *process) {
		// After a flush, new tokens follow the server's clock. If that clock were also set back, tokens could decrease. So worlds with even seeds
		// flush data, and only worlds with odd seeds set the clock back.
		if r.IntN(3) == 0 && w.plan.seed%2 == 0 {
			w.say("flush data")
			over := w.oracle.loses("everything", nil)
			w.troubles(nil, time.Now().Add(w.plan.lease+calm)) // nobody is notified
			w.forget()
			w.server.FlushAll()
			over(0)
		}
	}},
	{"clock step", func(w *world, r *rand.Rand, _ *process) {
		if r.IntN(2) == 0 {
			return
		}
		d := between(r, time.Millisecond, 3*w.plan.lease)
		if back := w.plan.seed%2 == 1 && r.IntN(2) == 0; back {
			d = -d
		}
		w.say("step the server's clock by %v", d)
		over := w.plan.lease + calm // the server may think that live waiters of a fair lock are dead
		if d < 0 {
			over += 2*w.plan.lease - d // the server may execute a call that is too late, even after the runtime has cleaned up
		}
		w.troubles(nil, time.Now().Add(over))
		w.step(d)
	}},
	{"error", func(w *world, r *rand.Rand, _ *process) {
		text, d := errorTexts[r.IntN(len(errorTexts))], between(r, time.Millisecond, w.plan.lease)
		w.say("the server says %q for %v", text, d)
		w.troubles(nil, time.Now().Add(d+calm))
		w.refuse(text, d)
	}},
}

// errorTexts are errors that a server may reply instead of executing a command.
var errorTexts = []string{
	"LOADING Redis is loading the dataset in memory",
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	"READONLY You can't write against a read only replica. script: 0, on @user_script:9.",
	"OOM command not allowed when used memory > 'maxmemory'. script: 0, on @user_script:9.",
	"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
}

// isAnswer reports whether the server may reply to a command with the error `text`. A server that is out of memory still runs a script that
// frees memory before it needs any. It replies NOSCRIPT, and not OOM, to a call of an unknown script.
func (w *world) isAnswer(text, command string, args []string) bool {
	switch command {
	case "EVALSHA":
		frugal, known := w.frugal[args[0]]
		return !strings.HasPrefix(text, "OOM") || known && !frugal
	case "PING", "SCRIPT":
		return !strings.HasPrefix(text, "READONLY") && !strings.HasPrefix(text, "OOM")
	}
	return false
}

// isFrugal reports whether a script needs no memory. It knows the script by the name in its first line.
func isFrugal(source string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(source, "-- "), ":")
	name = strings.TrimSuffix(strings.TrimSuffix(name, "_many"), "_migrating")
	i := strings.LastIndexByte(name, '_')
	return slices.Contains([]string{"release", "renew", "undo", "forget", "inspect", "read"}, name[i+1:])
}

// at calls the function `do` after d.
func (w *world) at(d time.Duration, do func()) {
	time.AfterFunc(time.Until(w.unique(time.Now().Add(d))), do)
}

func either(r *rand.Rand) func(*wire) {
	if r.IntN(2) == 0 {
		return (*wire).cut
	}
	return (*wire).sever
}

// nemesis causes faults until the users are done.
func (w *world) nemesis(r *rand.Rand, done <-chan struct{}) {
	for len(w.plan.faults) > 0 {
		pause := time.NewTimer(time.Until(w.unique(time.Now().Add(between(r, w.plan.every/2, w.plan.every*3/2)))))
		select {
		case <-done:
			pause.Stop()
			return
		case <-pause.C:
			w.remnants()
			if p := w.processes[r.IntN(len(w.processes))]; !p.over() {
				fault := w.plan.faults[r.IntN(len(w.plan.faults))]
				said := w.history.count("nemesis")
				fault.do(w, r, p)
				if w.history.count("nemesis") > said { // the fault has taken place
					w.disturbed[fault.name]++
				}
			}
		}
	}
}

// heal ends errors of the server, refused connections, delays, and losses of messages. Other faults, such as pauses, end by themselves.
func (w *world) heal() {
	w.refuse("", 0)
	for _, p := range w.processes {
		p.set(func() { p.away, p.held, p.swallow, p.astray.left = time.Time{}, [2]time.Time{}, 0, 0 })
	}
}

// hook sees every command before the server executes it, including the commands of scripts.
func (w *world) hook(c *server.Peer, command string, args ...string) bool {
	w.mu.Lock()
	text := w.text
	if !time.Now().Before(w.textEnd) {
		text = ""
	}
	if command == "SCRIPT" && len(args) == 2 {
		w.frugal[sum(args[1])] = isFrugal(args[1])
	}
	refused := text != "" && w.isAnswer(text, command, args)
	if refused {
		w.refused = time.Now()
	}
	w.mu.Unlock()
	if refused {
		c.WriteError(text)
		return true
	}
	if w.mutant.scripts != nil {
		w.mutate(command, args)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent {
		w.later = append(w.later, "A5: all runtimes are closed, but the server received "+command)
	}
	w.watch(command, args)
	return false
}

func (w *world) flushScripts() {
	nobody := server.NewPeer(bufio.NewWriter(io.Discard))
	w.server.Server().Dispatch(nobody, []string{"SCRIPT", "FLUSH"})
}
