package lock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// call sends a script call of this process to the model of Redis.
func (p *proc) call(c *lockCall, answer func(callDone)) {
	w := p.w
	give := func(done callDone, sent time.Duration) {
		done.call, done.sent = c, sent
		answer(done)
	}
	w.Send(machinetest.Script{
		Call: &c.Call, Way: w.way, Rejects: true,
		Execute: func() func(sent time.Duration) {
			done := w.execute(c)
			return func(sent time.Duration) { give(done, sent) }
		},
		Fail: func(class scripts.Class, err error, sent time.Duration) { give(callDone{class: class, err: err}, sent) },
	})
}

// forceRelease does what the shell does for a force-release: the machine gets a message about the grants that have ended, or may have ended.
func (p *proc) forceRelease(a *lease.Address) {
	w := p.w
	if a.Kind.ForceRelease == nil {
		return
	}
	c := &rpc.Call{Timing: rpc.Hasty(w.Now, rpc.Window(machinetest.Lease))}
	tell := func(message any) { p.Post(w.UpTo(100*time.Microsecond), message) }
	w.Send(machinetest.Script{
		Call: c, Way: w.way, Rejects: true,
		Execute: func() func(sent time.Duration) {
			if w.Now > c.NotAfter {
				return func(time.Duration) {}
			}
			freed := w.key.forceRelease(w, a.Kind)
			w.Logf("Redis force-release: %v, has %v", freed, w.key)
			return func(time.Duration) {
				if len(freed) > 0 {
					tell(wait.Freed{Grants: freed, Reason: protocol.LossForceReleased})
				}
			}
		},
		Fail: func(class scripts.Class, _ error, _ time.Duration) {
			if class == scripts.Unknown {
				tell(wait.LookAround{})
			}
		},
	})
}

// execute does what the script of a call does.
func (w *world) execute(c *lockCall) callDone {
	bounded := c.do != callRelease && c.do != callOrphan && c.do != callLook
	misjudged := !w.Calm && w.Chance(w.Faults/10) // the process misjudges the server's clock, so a call that is in time is refused as late
	if bounded && (w.Now > c.NotAfter || misjudged) {
		return callDone{class: scripts.Refused, err: errors.New("LATE 1")}
	}
	done := callDone{class: scripts.Done}
	w.key.execute(w, c, &done)
	w.noteRelease(c, &done)
	if w.Trace != nil {
		w.Logf("Redis %s %s: %v, has %v", c.do.word(), c.terms.Grant, done.held || done.acquired.Granted, w.key)
	}
	return done
}

// noteRelease notes that the release of a holder was executed. If a pass was sent instead of the release, noteRelease also notes the grant that the
// pass created. If the pass was repeated, it is enough that one copy was executed.
func (w *world) noteRelease(c *lockCall, done *callDone) {
	switch {
	case c.do == callRelease && done.held:
		w.released[c.terms.Grant] = ""
	case c.do == callPass && (done.held || done.receivers > 0):
		w.released[c.terms.From] = c.terms.Grant
	}
}

// checkRelease checks that the answer to a release that was executed is not ErrLeaseLost. There is one exception: if the new grant of a pass was
// deleted, the process finds neither grant in Redis, and cannot know that the pass was executed.
func (w *world) checkRelease(p *proc, h *lease.Hold, err error) {
	heir, released := w.released[h.Grant.ID]
	if released && errors.Is(err, protocol.ErrLeaseLost) && !w.removed[heir] {
		w.Failf("%s: the release of %s was executed, but: %v", p.Name, h.Grant.ID, err)
	}
}

// checkKept checks that a release keeps the lock taken until the WithAtLeast time of its holders is over.
func (w *world) checkKept(c *lockCall) {
	if least := w.leasts[c.terms.Grant]; w.Now+c.terms.Keep < least {
		w.Failf("%s is released and kept for %v, but has to be kept until %v", c.terms.Grant, c.terms.Keep, least)
	}
}

// channel returns the channel of releases.
func (w *world) channel() string {
	if kind := w.kinds[0]; kind.Others == nil {
		return kind.Channel("orders", "")
	}
	return w.kinds[0].Others("orders")
}

// publish sends the message of a release to all its subscribers.
func (w *world) publish() (receivers int) {
	w.tenure++
	for _, tell := range w.told {
		tell()
	}
	return w.listeners + w.publishOn(w.channel())
}

// publishOn sends the message of a release to the subscribers of one channel.
func (w *world) publishOn(channel string) (receivers int) {
	for _, p := range w.procs {
		if p.Subscribed[channel] {
			receivers++
			if w.Calm || w.lossless || !w.Chance(10) {
				p.Post(p.lag+w.UpTo(2*w.way), wait.ChannelMessage{Channel: channel, Releases: 1})
			}
		}
	}
	return receivers
}

func (w *world) subscribers() (n int) {
	n = w.listeners
	for _, p := range w.procs {
		if p.Subscribed[w.channel()] {
			n++
		}
	}
	return n
}

// joinCrowd gives the process that sent an acquire a place in the crowd. Sometimes the place is so far back that the process has to wait until its
// row is called.
func (w *world) joinCrowd(c *lockCall, a *scripts.Acquired) {
	if !w.crowded {
		return
	}
	if strings.Contains(c.terms.Report, ":crowd:") {
		w.Failf("the subscribers of a row are counted: %s", c.terms.Report)
	}
	name, _, _ := strings.Cut(c.terms.Grant, ":")
	if !slices.Contains(w.crowd, name) {
		w.crowd = append(w.crowd, name)
	}
	a.Subscribers, a.Place = max(a.Subscribers, 1), slices.Index(w.crowd, name)+1
	if !w.Calm && w.Chance(60) {
		a.Ticket = int64(16 + w.Random.IntN(100))
	}
}

// leaveCrowd removes the process that sent an acquire from the crowd, and about half of the dead processes. Then it calls the rows: it sends a
// message to each process that subscribes to the channel of a row. Unless the world is calm, about half of these messages are lost.
func (w *world) leaveCrowd(c *lockCall) {
	name, _, _ := strings.Cut(c.terms.Grant, ":")
	if !strings.HasPrefix(c.terms.Report, scripts.HasTicket) || !slices.Contains(w.crowd, name) {
		return
	}
	w.crowd = slices.DeleteFunc(w.crowd, func(other string) bool { return other == name || other == "dead" && w.Chance(50) })
	for _, p := range w.procs {
		for _, channel := range p.Channels() {
			if channel != w.channel() && (w.Calm || w.Chance(50)) {
				p.Post(p.lag+w.UpTo(2*w.way), wait.ChannelMessage{Channel: channel, Releases: 1})
			}
		}
	}
}

// demand sends the holder of a grant the message that another process wants the lock. A holder outside the model receives no message.
func (w *world) demand(holder string, freed bool) {
	if strings.HasPrefix(holder, "peer") || strings.Contains(holder, ":-") {
		return
	}
	if p := w.procs[holder[0]-'A']; p.policy.Linger > 0 && (w.Calm || !w.Chance(10)) {
		w.demands[holder] = w.tenure
		p.Post(p.lag+w.UpTo(2*w.way), wait.Demanded{Grant: holder, Freed: freed})
	}
}

// key is the model of the lock's key in Redis.
type key interface {
	fmt.Stringer
	execute(w *world, c *lockCall, done *callDone)
	forceRelease(w *world, kind *scripts.Kind) (freed []string)
	has(w *world, id string) bool // whether the grant holds the lock
	fields(w *world) []string     // the grants of the model's processes that are in the key
	remove(w *world)              // deletes the key
	peer(w *world)                // a client of another library takes the lock, and may die while it holds the lock
}

// plainKey models the key of a lock with one holder.
type plainKey struct {
	holder  string // "" when it is free
	expires time.Duration
}

func (k *plainKey) String() string { return fmt.Sprintf("%q until %v", k.holder, k.expires) }

func (k *plainKey) free(w *world) bool { return k.holder == "" || w.Now >= k.expires }

func (k *plainKey) has(w *world, id string) bool { return k.holder == id && !k.free(w) }

func (k *plainKey) fields(w *world) []string {
	if k.free(w) || strings.HasPrefix(k.holder, "peer") || strings.Contains(k.holder, ":-") { // not a grant of ours
		return nil
	}
	return []string{k.holder}
}

func (k *plainKey) execute(w *world, c *lockCall, done *callDone) {
	if k.free(w) {
		k.holder = ""
	}
	mine := k.holder == c.terms.Grant
	switch c.do {
	case callAcquire:
		if done.acquired.Granted = k.holder == "" || mine; done.acquired.Granted {
			k.take(w, c)
			w.leaveCrowd(c)
		} else {
			done.acquired.TTL = k.expires - w.Now
			done.acquired.Holder = k.holder
			if c.terms.Report != "" {
				done.acquired.Subscribers = w.subscribers()
				w.joinCrowd(c, &done.acquired)
			}
			w.demand(k.holder, false)
		}
	case callPass:
		if k.holder == c.terms.From && c.terms.TurnEnds {
			if told := w.publish(); told > c.terms.Idlers {
				k.holder, done.receivers = "", told
				return
			}
		}
		if done.held = mine || k.holder == c.terms.From; done.held {
			k.take(w, c)
		}
	case callExtend:
		if done.held = mine; mine {
			k.take(w, c)
		}
	case callLook:
		done.held = mine
	case callRelease, callOrphan:
		if done.held = mine; mine {
			w.checkKept(c)
			if k.holder = ""; c.terms.Keep > 0 {
				k.holder, k.expires = scripts.Nobody(c.terms.Grant), w.Now+c.terms.Keep
			}
			done.receivers = w.publish()
		}
	}
}

func (k *plainKey) forceRelease(w *world, _ *scripts.Kind) (freed []string) {
	if k.free(w) {
		return nil
	}
	freed = []string{k.holder}
	w.removed[k.holder] = true
	w.demand(k.holder, true)
	k.holder = ""
	w.publish()
	return freed
}

func (k *plainKey) take(w *world, c *lockCall) {
	if c.do == callAcquire && k.holder != c.terms.Grant {
		w.tenure++
	}
	k.holder, k.expires = c.terms.Grant, w.Now+c.terms.Lease
}

func (k *plainKey) peer(w *world) {
	if k.free(w) {
		k.holder, k.expires = "peer", w.Now+w.UpTo(machinetest.Lease)
		if w.Chance(70) {
			w.After(w.UpTo(20*time.Millisecond), func() {
				if k.holder == "peer" {
					k.holder = ""
					w.publish()
				}
			})
		}
	}
}

func (k *plainKey) remove(w *world) {
	w.removed[k.holder] = true
	k.holder = ""
}

// peer lets a client of another library contend from time to time, as long as there are users.
func (w *world) peer() {
	w.key.peer(w)
	if !w.Calm {
		w.After(w.UpTo(50*time.Millisecond), w.peer)
	}
}

// remove deletes the key now and then, whoever holds the lock.
func (w *world) remove() {
	w.Logf("the key of %v is deleted", w.key)
	w.key.remove(w)
	if !w.Calm {
		w.After(w.UpTo(machinetest.Use/2), w.remove)
	}
}
