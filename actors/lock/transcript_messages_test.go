package lock

// This file makes messages from the lines of a transcript.

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// message returns the message of a line. If the line is an instruction instead, message carries it out and returns nil.
func (p *player) message(verb string, a machinetest.Arguments) any {
	switch verb {
	case "acquire":
		return p.acquire(a)
	case "release", "extend":
		return p.ask(verb, a)
	case "claim": // the holder calls Release; a later "release" sends the message
		require.True(p.T, p.request(a.Word(0)).Hold.Claim())
	case "cancel":
		return p.cancel(a)
	case "ready":
		return p.Ready(a)
	case "message":
		m := wait.ChannelMessage{Channel: p.Channel, Releases: 1}
		for name, value := range map[string]*int{"releases": &m.Releases, "beside": &m.Beside} {
			if n := a.Values[name]; n != "" {
				*value = p.Number(n)
			}
		}
		return m
	case "alarm":
		return wait.Alarm{}
	case "due": // the watchdog reports that the deadline is near or, with the word "suspect", that a renewal has failed
		g := p.grants[a.Word(0)]
		g.Suspect.Store(a.Has("suspect"))
		return lease.Due{Grant: g}
	case "renewed": // the watchdog has renewed the lease, with a call sent at this instant; the machine gets no message
		g := p.grants[a.Word(0)]
		require.True(p.T, g.Extend(p.Now, lease.Deadline(p.Now, g.Lease)))
		g.Suspect.Store(false)
	case "gone":
		return lease.Gone{Grant: p.grants[a.Word(0)]}
	case "demanded":
		return wait.Demanded{Grant: a.Word(0), Freed: a.Has("freed")}
	case "force-released": // a force-release of this process has ended these grants
		return wait.Freed{Grants: a.Words, Reason: protocol.LossForceReleased}
	case "look-around": // a force-release of this process may have ended grants
		return wait.LookAround{}
	case "demands-missed":
		return wait.DemandsMissed{}
	case "sweep":
		p.Sweep(p.state)
	case "close":
		if a.Has("abort") {
			return wait.Close{Stage: wait.Aborting}
		}
		return wait.Close{Stage: wait.Closing}
	case "shut-down":
		return wait.Close{Stage: wait.Draining}
	case "break": // the next grant of a lease makes the step panic
		p.Broken = true
	default:
		return p.answer(verb, a)
	}
	return nil
}

func (p *player) acquire(a machinetest.Arguments) any {
	r := p.newRequest(wait.Acquire, a.Word(0), a)
	r.Hold = &lease.Hold{}
	p.acquires = append(p.acquires, a.Word(0))
	r.Try = a.Has("try")
	if lease := a.Values["lease"]; lease != "" {
		r.Lease = p.Duration(lease)
	}
	for name, value := range map[string]*time.Duration{"renewed": &r.Renewed, "least": &r.AtLeast, "most": &r.AtMost} {
		if d := a.Values[name]; d != "" {
			*value = p.Duration(d)
		}
	}
	if owner := a.Values["owner"]; owner != "" {
		r.Owner = protocol.NewOwner(owner, 1)
	}
	return r
}

func (p *player) newRequest(do wait.Operation, name string, a machinetest.Arguments) *wait.Request {
	r := &wait.Request{Do: do, Address: &lease.Address{Kind: p.Kind, Name: "orders", Raw: "orders"}}
	for _, word := range []string{"read", "write"} { // the half of a read/write lock
		if p.Kind.Family == scripts.ReadWrite && a.Has(word) {
			r.Address.Kind = p.KindOf(word)
		}
	}
	p.names[r] = name
	if do == wait.Acquire {
		p.requests[name] = r
	} else {
		p.requests[do.String()+" "+name] = r
	}
	return r
}

// request returns an earlier request: "a" is the acquire of that name, "release a" is its release.
func (p *player) request(words ...string) *wait.Request {
	r := p.requests[strings.Join(words, " ")]
	if r == nil {
		p.Fail("there is no request %q", words)
	}
	return r
}

func (p *player) ask(verb string, a machinetest.Arguments) any {
	do := map[string]wait.Operation{"release": wait.Release, "extend": wait.Extend}[verb]
	r := p.newRequest(do, a.Word(0), a)
	r.Hold = p.request(a.Word(0)).Hold
	if do == wait.Release && r.Hold != nil && !a.Has("claimed") {
		require.True(p.T, r.Hold.Claim(), "%s: the hold has ended", p.Line)
	}
	if do == wait.Extend {
		r.Lease = p.Duration(a.Word(1))
	}
	return r
}

// cancel makes the message that cancels the request "a" or "release a". The line may name a cause; the default cause is that the time to wait is
// over.
func (p *player) cancel(a machinetest.Arguments) any {
	m := wait.CancelRequest{Request: p.request(a.Words...), Cause: protocol.ErrNotAcquired}
	if cause := a.Values["cause"]; cause != "" {
		m.Cause = errors.New(cause)
	}
	return m
}

// answer makes the result of the call in flight. If there are several, the line names the call by its kind or grant.
func (p *player) answer(verb string, a machinetest.Arguments) any {
	call := p.flying(a)
	done := &callDone{call: call, class: scripts.Done, sent: p.sent[call]}
	if sent := a.Values["sent"]; sent != "" {
		done.sent = p.Duration(sent)
	}
	switch verb {
	case "granted":
		done.acquired.Granted = true
		if left := a.Values["left"]; left != "" {
			done.acquired.Left = int64(p.Number(left))
		}
		if a.Values["unacked"] != "" {
			done.unacked = protocol.ErrNotReplicated
		}
	case "busy":
		done.acquired = scripts.Acquired{
			TTL: -time.Millisecond, Holder: a.Values["holder"], Queued: a.Values["queued"] != "", Next: a.Values["next"], First: a.Values["first"] != "",
		}
		if at := a.Values["joined"]; at != "" {
			done.acquired.Queued, done.acquired.Joined = true, int64(p.Number(at))
		}
		if n := a.Values["subscribers"]; n != "" {
			done.acquired.Subscribers = p.Number(n)
		}
		if n := a.Values["place"]; n != "" {
			done.acquired.Place = p.Number(n)
		}
		if n := a.Values["ticket"]; n != "" {
			done.acquired.Ticket = int64(p.Number(n))
		}
		if ttl := a.Values["ttl"]; ttl != "" {
			done.acquired.TTL = p.Duration(ttl)
		}
	case "done": // a pass, release or extend has succeeded; inherits=g2: the heir g2 has the lock
		done.held = true
		done.inherits = call.terms.Heir != "" && a.Values["inherits"] == call.terms.Heir
		if others := a.Values["receivers"]; others != "" {
			done.receivers = p.Number(others)
		}
	case "freed": // a pass has released the lock, because other processes wait
		done.receivers = p.Number(a.Values["receivers"])
	case "not-held": // the grant does not hold the lock
	case "refused", "rejected", "unknown":
		done.class = map[string]scripts.Class{"refused": scripts.Refused, "rejected": scripts.Rejected, "unknown": scripts.Unknown}[verb]
		done.err = errors.New("no answer")
		if text := a.Values["error"]; text != "" {
			done.err = errors.New(text)
		}
	default:
		p.Fail("unknown message %q", verb)
	}
	p.calls = slices.DeleteFunc(p.calls, func(c *lockCall) bool { return c == call })
	return done
}

func (p *player) flying(a machinetest.Arguments) *lockCall {
	var found []*lockCall
	for _, call := range p.calls {
		if !slices.ContainsFunc(a.Words, func(word string) bool { return word != call.do.word() && word != call.terms.Grant }) {
			found = append(found, call)
		}
	}
	if len(found) != 1 {
		p.Fail("%d calls are meant", len(found))
	}
	return found[0]
}
