package actors

// What goes into a transcript: messages from their lines.

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// ready says that the channel is subscribed to, after a reconnection among others.
func (p *player) ready(a arguments) wait.ChannelReady {
	ready := wait.ChannelReady{Channel: p.channel}
	if n := a.values["among"]; n != "" {
		ready.Among = p.number(n)
	}
	return ready
}

// message is what a line says; nil when it is done already.
func (p *player) message(verb string, a arguments) any {
	switch verb {
	case "acquire":
		return p.acquire(a)
	case "release", "extend", "inspect", "force-release":
		return p.ask(verb, a)
	case "claim": // the holder calls Release; the message comes with a later "release"
		require.True(p.t, p.request(a.word(0)).Hold.Claim())
	case "cancel":
		return p.cancel(a)
	case "ready":
		return p.ready(a)
	case "message":
		releases := 1
		if n := a.values["releases"]; n != "" {
			releases = p.number(n)
		}
		return wait.ChannelMessage{Channel: p.channel, Releases: releases}
	case "alarm":
		return wait.Alarm{}
	case "due": // the watchdog says that the deadline is near; suspect: because a renewal failed
		g := p.grants[a.word(0)]
		g.Suspect.Store(a.has("suspect"))
		return grantDue{g}
	case "renewed": // by the watchdog, with a renewal sent at this instant; nobody is told
		g := p.grants[a.word(0)]
		require.True(p.t, g.Extend(p.now, lease.Deadline(p.now, g.Lease)))
		g.Suspect.Store(false)
	case "gone":
		return grantGone{grant: p.grants[a.word(0)]}
	case "terminated":
		return wait.RequesterGone{Requester: p.pid(a.word(0)), Replaced: a.has("replaced")}
	case "retire":
		return wait.TryRetire{}
	case "close":
		if a.has("abort") {
			return wait.Close{Stage: wait.Aborting}
		}
		return wait.Close{Stage: wait.Closing}
	case "shut-down":
		return wait.Close{Stage: wait.Draining}
	case "break": // the next lease that is given makes the step panic
		p.broken = true
	default:
		return p.answer(verb, a)
	}
	return nil
}

func (p *player) acquire(a arguments) any {
	r := p.newRequest(wait.Acquire, a.word(0), a)
	r.Hold = &lease.Hold{}
	p.acquires = append(p.acquires, a.word(0))
	r.Try, r.Bounded = a.has("try"), a.has("wait")
	if lease := a.values["lease"]; lease != "" {
		r.Lease = p.duration(lease)
	}
	if owner := a.values["owner"]; owner != "" {
		r.Owner = protocol.NewOwner(owner, 1)
	}
	return r
}

func (p *player) newRequest(do wait.Operation, name string, a arguments) *wait.Request {
	r := &wait.Request{Do: do, Address: &lease.Address{Kind: p.kind, Name: "orders", Raw: "orders"}}
	for _, word := range []string{"read", "write"} { // which half
		if p.kind.Family == scripts.ReadWrite && a.has(word) {
			r.Address.Kind = p.kindOf(word)
		}
	}
	if from := a.values["from"]; from != "" {
		r.Requester = p.pid(from)
		r.ID = uint64(p.number(a.values["id"]))
	}
	p.names[r] = name
	if do == wait.Acquire {
		p.requests[name] = r
	} else {
		p.requests[do.String()+" "+name] = r
	}
	return r
}

func (p *player) pid(name string) *actor.PID {
	if p.pids[name] == nil {
		p.pids[name] = actor.NewPID("here", name)
	}
	return p.pids[name]
}

// request finds "a", or "release a" for a cancel.
func (p *player) request(words ...string) *wait.Request {
	r := p.requests[strings.Join(words, " ")]
	if r == nil {
		p.fail("there is no request %q", words)
	}
	return r
}

func (p *player) ask(verb string, a arguments) any {
	do := wait.Operation(slices.IndexFunc([]wait.Operation{0, 1, 2, 3, 4}, func(o wait.Operation) bool { return o.String() == verb }))
	r := p.newRequest(do, a.word(0), a)
	switch {
	case do == wait.Inspect || do == wait.ForceRelease:
	case r.Requester != nil:
		r.Serial = uint64(p.number(a.values["serial"]))
	default:
		r.Hold = p.request(a.word(0)).Hold
	}
	if do == wait.Release && r.Hold != nil && !a.has("claimed") {
		require.True(p.t, r.Hold.Claim(), "%s: the hold has ended", p.line)
	}
	if deadline := a.values["deadline"]; deadline != "" {
		r.Deadline = p.duration(deadline)
	}
	if do == wait.Extend {
		r.Lease = p.duration(a.word(1))
	}
	return r
}

// cancel takes "a" or "release a", and a cause: without one the time to wait is over.
func (p *player) cancel(a arguments) any {
	m := wait.CancelRequest{Request: p.request(a.words...), Cause: protocol.ErrNotAcquired}
	if cause := a.values["cause"]; cause != "" {
		m.Cause = errors.New(cause)
	}
	return m
}

// answer is the answer of the call on its way; if there are several, the kind or the grant says which.
func (p *player) answer(verb string, a arguments) any {
	call := p.flying(a)
	done := &callDone{call: call, class: scripts.Done, sent: p.sent[call]}
	if sent := a.values["sent"]; sent != "" {
		done.sent = p.duration(sent)
	}
	switch verb {
	case "granted":
		done.acquired.Granted = true
		if a.values["unacked"] != "" {
			done.unacked = protocol.ErrNotReplicated
		}
	case "busy":
		done.acquired = scripts.Acquired{
			TTL: -time.Millisecond, Holder: a.values["holder"], Queued: a.values["queued"] != "", Next: a.values["next"], First: a.values["first"] != "",
		}
		if ttl := a.values["ttl"]; ttl != "" {
			done.acquired.TTL = p.duration(ttl)
		}
	case "done": // a pass, release, extend or force-release did it, an inspect has been answered; inherits: and the heir has the lock
		done.held = true
		done.inherits = call.heir != nil && a.values["inherits"] == call.heir.id
		if call.do == callForceRelease {
			done.freed = strings.Split(cmp.Or(a.values["freed"], "peer"), ",")
		}
		if others := a.values["receivers"]; others != "" {
			done.receivers = p.number(others)
		}
		done.state = protocol.State{Held: true, Holders: []protocol.Holder{{ID: "peer", Holds: 1}}}
	case "freed": // by a pass, for others
		done.receivers = p.number(a.values["receivers"])
	case "not-held": // the grant does not hold the lock
	case "refused", "rejected", "unknown":
		done.class = map[string]scripts.Class{"refused": scripts.Refused, "rejected": scripts.Rejected, "unknown": scripts.Unknown}[verb]
		done.err = errors.New("no answer")
		if text := a.values["error"]; text != "" {
			done.err = errors.New(text)
		}
	default:
		p.fail("unknown message %q", verb)
	}
	p.calls = slices.DeleteFunc(p.calls, func(c *lockCall) bool { return c == call })
	return done
}

func (p *player) flying(a arguments) *lockCall {
	var found []*lockCall
	for _, call := range p.calls {
		if !slices.ContainsFunc(a.words, func(word string) bool { return word != call.do.word() && word != call.grant }) {
			found = append(found, call)
		}
	}
	if len(found) != 1 {
		p.fail("%d calls are meant", len(found))
	}
	return found[0]
}
