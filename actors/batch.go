package actors

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// command is a Redis command that go-redis must not send twice on its own, whatever the client's options say: only the lock
// actor knows whether a repeat is the same attempt.
type command struct{ *redis.Cmd }

// NoRetry switches go-redis's retries off for the whole pipeline.
func (command) NoRetry() bool { return true }

func newCommand(args ...any) command {
	return command{redis.NewCmd(context.Background(), args...)}
}

// run sends a batch and posts the results. It blocks in go-redis for as long as that pleases: the gateway has its own deadlines.
func (e *Engine) run(b *batch) {
	defer e.recoverBatch(b)
	bounded := false
	for _, call := range b.calls {
		bounded = bounded || call.Bounded()
	}
	if bounded && !b.node.clock.known() {
		if err := e.askTime(b.ctx, b.node); err != nil {
			b.lost = true
			e.failBatch(b, err)
			return
		}
	}
	open := b.begin(len(b.calls))
	defer b.clear()
	for range 3 {
		e.exchange(b, open)
		e.follow(b, open)
		if open = e.postExcept(b, open); len(open) == 0 {
			return
		}
	}
	for _, i := range open {
		e.post(b, i, result{class: scripts.Refused, err: errFlushed})
	}
}

// exchange sends the open calls as one pipeline, with the scripts they turned out to need and a look at the server's clock
// in front when due, and a mark at the end.
func (e *Engine) exchange(b *batch, open []int) {
	ctx, server := b.ctx, &b.node.clock
	pipe := b.node.client.Pipeline()
	b.sent = e.clock.Now()
	var clock command
	if asked := server.stale(b.sent); asked {
		clock = newCommand("time")
		_ = pipe.Process(ctx, clock)
	}
	loads := e.loads(b, pipe)
	for _, i := range open {
		e.bound(b.calls[i], server)
	}
	parcels := b.pack(open)
	for _, p := range parcels {
		_ = pipe.Process(ctx, p.command)
	}
	unacked, err := e.finish(b, pipe, parcels)
	if b.lost = err != nil; b.lost {
		e.masters.suspect() // another may be the master now
	} else if clock.Cmd != nil {
		_ = server.observe(clock, e.clock.Now()) // without it the old sample serves on
	}
	for _, load := range loads {
		if load.Err() != nil && scripts.Classify(load.Err()) == scripts.Rejected {
			for _, p := range parcels { // say why there is no script, not that there is none
				if isNoScript(p.Err()) {
					p.SetErr(load.Err())
				}
			}
		}
	}
	b.unpack(parcels, unacked)
	if demoted(parcels) {
		e.masters.suspect()
	}
}

// demoted reports that the server is no master any more. A client that may read from replicas is not redirected by them: they run
// the script, which they refuse to let write.
func demoted(parcels []parcel) bool {
	return slices.ContainsFunc(parcels, func(p parcel) bool {
		err := p.Err()
		return err != nil && isReply(err) && strings.HasPrefix(scripts.Reply(err), "READONLY")
	})
}

// bound says by the server's clock when the call must not be executed any more, and what tokens follow.
func (e *Engine) bound(c *scriptCall, server *serverClock) {
	if c.Bounded() {
		c.SetNotAfter(server.at(c.notAfter))
	}
	if c.TakesTokens() {
		c.SetFloor(e.peaks.time(e.masters.part(c.Key()), server, e.clock.Now()).Microseconds())
	}
}

// finish sends a pipeline of calls, which ends with the replicas' acknowledgements where they are wanted. err says why nobody knows
// what became of the calls; nil: their replies are theirs. unacked says why too few replicas may have what they wrote.
func (e *Engine) finish(b *batch, pipe redis.Pipeliner, parcels []parcel) (unacked, err error) {
	wait := e.waitForReplicas(b, pipe)
	if err = e.exec(b.ctx, pipe); err != nil {
		distrust(err, parcels)
	}
	return e.unacked(wait), err
}

// mark is the last command of a pipeline, and comes back with what it was sent with. If it does not, the connection was out of
// step or broke: some of the replies before may be those to other commands.
type mark struct {
	command
	text string
}

// exec sends a pipeline with a mark at its end, and says why the mark has not come back; nil: it has. Each command has its own
// error besides. When the server refuses the handshake of a new connection, go-redis tells that to Exec alone: the commands get
// to know it here, too.
func (e *Engine) exec(ctx context.Context, pipe redis.Pipeliner) error {
	text := strconv.FormatUint(e.marks.Add(1), 10)
	end := mark{newCommand("ping", text), text}
	_ = pipe.Process(ctx, end)
	commands, err := pipe.Exec(ctx)
	unsent := err != nil && end.Err() == nil && end.Val() == nil
	for _, c := range commands {
		if answered, ok := c.(interface{ Val() any }); ok && answered.Val() == nil && c.Err() == nil {
			c.SetErr(err)
		}
	}
	if unsent {
		return err
	}
	return end.missing()
}

var (
	errOutOfStep = errors.New("what came over the connection may be the replies to other commands")
	// refusesPing are the refusals that a server may give to every command.
	refusesPing = []string{"LOADING", "BUSY", "MASTERDOWN", "NOAUTH", "NOPERM"}
)

// missing says why the mark has not come back; nil: it has.
func (m mark) missing() error {
	err := m.Err()
	if err == nil && m.Val() != m.text {
		return errOutOfStep
	}
	if err == nil || !isReply(err) {
		return err
	}
	switch code, _, _ := strings.Cut(err.Error(), " "); {
	case code == "MISCONF":
		return nil // a server that cannot save refuses even a ping, but runs scripts that only read
	case slices.Contains(refusesPing, code):
		return err
	}
	return fmt.Errorf("%w: %v", errOutOfStep, err) //nolint:errorlint // it is no reply to the mark
}

// distrust takes back the replies of a pipeline without its mark: nobody knows what became of the calls. A server that refuses
// everything, mark included, is believed.
func distrust(cause error, parcels []parcel) {
	var refusal redis.Error
	refused := errors.As(cause, &refusal)
	if refused {
		cause = fmt.Errorf("%w: %v", errOutOfStep, cause) //nolint:errorlint // a refusal of the mark is none of the calls
	}
	for _, p := range parcels {
		err := p.Err()
		if scripts.Classify(err) == scripts.Done || errors.As(err, &refusal) && !refused {
			p.SetErr(cause)
		}
	}
}

// loads puts the scripts that the server did not have in front of the batch.
func (e *Engine) loads(b *batch, pipe redis.Pipeliner) []command {
	var loads []command
	for _, s := range b.missing {
		load := newCommand("script", "load", s.Source)
		_ = pipe.Process(b.ctx, load)
		loads = append(loads, load)
	}
	b.missing = nil
	return loads
}

// postExcept posts all results but those of scripts that the server does not have, or not for many; their indices are returned.
func (e *Engine) postExcept(b *batch, open []int) []int {
	var again []int
	for _, i := range open {
		value, err := b.replies[i].value, b.replies[i].err
		if isNoScript(err) || errors.Is(err, errApart) {
			again = append(again, i)
			continue
		}
		if err == nil && value == nil {
			err = b.node.causes.noAnswer() // a nil reply is redis.Nil; this is none at all
		}
		if ms, late := scripts.LateBy(err); late {
			b.node.clock.correct(ms, e.clock.Now())
		}
		e.post(b, i, result{class: scripts.Classify(err), reply: value, err: err, sent: b.sent, unacked: b.replies[i].unacked})
	}
	return again
}

func isNoScript(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") }

// post answers one call, unless the gateway has given it up.
func (e *Engine) post(b *batch, i int, r result) {
	b.reached = b.reached || scripts.Reached(r.err)
	r.err = b.node.causes.advise(r.err)
	b.node.causes.note(r.err)
	if b.claims[i].taken.CompareAndSwap(false, true) {
		r.last = true
		b.calls[i].answerTo(e.root, r)
	}
}

// sends is what can send messages: an actor's context, or the root.
type sends interface {
	Send(pid *actor.PID, message any)
}

// answerTo sends the call's answer to whoever asked. Only who has claimed the call may do so.
func (c *scriptCall) answerTo(by sends, r result) {
	r.call = c
	c.answer = r
	by.Send(c.from, &c.answer)
}

// failBatch answers calls that were certainly not sent.
func (e *Engine) failBatch(b *batch, err error) {
	class := scripts.Classify(err)
	if class != scripts.Rejected {
		class = scripts.Refused
	}
	for i := range b.calls {
		e.post(b, i, result{class: class, err: err})
	}
}

func (e *Engine) askTime(ctx context.Context, n *node) error {
	pipe := n.client.Pipeline()
	clock := newCommand("time")
	_ = pipe.Process(ctx, clock)
	if err := e.exec(ctx, pipe); err != nil {
		return err
	}
	return n.clock.observe(clock, e.clock.Now())
}

// recoverBatch is for hooks of the user's client that panic.
func (e *Engine) recoverBatch(b *batch) {
	value := recover()
	if value == nil {
		return
	}
	b.lost = true
	e.events.emit(protocol.ActorPanicked{Value: value, Stack: string(debug.Stack())})
	for i := range b.calls {
		e.post(b, i, result{class: scripts.Unknown, err: fmt.Errorf("the Redis client panicked: %v", value), sent: b.sent})
	}
}
