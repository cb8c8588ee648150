package gateway

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

	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

var errFlushed = errors.New("the server forgets scripts faster than they can be loaded: somebody flushes them all the time")

// run sends a batch and posts the results. It blocks in go-redis for as long as that pleases: the gateway has its own deadlines.
func (s *Sender) run(b *batch) {
	defer s.recoverBatch(b)
	bounded := false
	for _, call := range b.calls {
		bounded = bounded || call.Bounded()
	}
	if bounded && !b.node.Clock.Known() {
		if err := s.askTime(b.ctx, b.node); err != nil {
			b.lost = true
			s.failBatch(b, err)
			return
		}
	}
	open := b.begin(len(b.calls))
	defer b.clear()
	for range 3 {
		s.exchange(b, open)
		s.follow(b, open)
		if open = s.postExcept(b, open); len(open) == 0 {
			return
		}
	}
	for _, i := range open {
		s.post(b, i, rpc.Result{Class: scripts.Refused, Err: errFlushed})
	}
}

// exchange sends the open calls as one pipeline, with the scripts they turned out to need and a look at the server's clock
// in front when due, and a mark at the end.
func (s *Sender) exchange(b *batch, open []int) {
	ctx, server := b.ctx, &b.node.Clock
	pipe := b.node.Client.Pipeline()
	b.sent = s.Clock.Now()
	var clock redisnode.Command
	if asked := server.Stale(b.sent); asked {
		clock = redisnode.NewCommand("time")
		_ = pipe.Process(ctx, clock)
	}
	loads := s.loads(b, pipe)
	for _, i := range open {
		s.bound(b.calls[i], server)
	}
	parcels := b.pack(open)
	for _, p := range parcels {
		_ = pipe.Process(ctx, p.Command)
	}
	unacked, err := s.finish(b, pipe, parcels)
	if b.lost = err != nil; b.lost {
		s.Nodes.Suspect() // another may be the master now
	} else if clock.Cmd != nil {
		_ = server.Observe(clock, s.Clock.Now()) // without it the old sample serves on
	}
	for _, load := range loads {
		if load.Err() != nil && scripts.Classify(load.Err()) == scripts.Rejected {
			for _, p := range parcels { // say why there is no script, not that there is none
				if redisnode.IsNoScript(p.Err()) {
					p.SetErr(load.Err())
				}
			}
		}
	}
	b.unpack(parcels, unacked)
	if demoted(parcels) {
		s.Nodes.Suspect()
	}
}

// demoted reports that the server is no master any more. A client that may read from replicas is not redirected by them: they run
// the script, which they refuse to let write.
func demoted(parcels []parcel) bool {
	return slices.ContainsFunc(parcels, func(p parcel) bool {
		err := p.Err()
		return err != nil && redisnode.IsReply(err) && strings.HasPrefix(scripts.Reply(err), "READONLY")
	})
}

// bound says by the server's clock when the call must not be executed any more, and what tokens follow.
func (s *Sender) bound(c *rpc.Call, server *redisnode.Clock) {
	if c.Bounded() {
		c.SetNotAfter(server.At(c.NotAfter))
	}
	if c.TakesTokens() {
		c.SetFloor(s.peaks.Time(s.Nodes.Part(c.Key()), server, s.Clock.Now()).Microseconds())
	}
}

// finish sends a pipeline of calls, which ends with the replicas' acknowledgements where they are wanted. err says why nobody knows
// what became of the calls; nil: their replies are theirs. unacked says why too few replicas may have what they wrote.
func (s *Sender) finish(b *batch, pipe redis.Pipeliner, parcels []parcel) (unacked, err error) {
	wait := s.waitForReplicas(b, pipe)
	if err = s.exec(b.ctx, pipe); err != nil {
		invalidateReplies(err, parcels)
	}
	return s.unacked(wait), err
}

// mark is the last command of a pipeline, and comes back with what it was sent with. If it does not, the connection was out of
// step or broke: some of the replies before may be those to other commands.
type mark struct {
	redisnode.Command
	text string
}

// exec sends a pipeline with a mark at its end, and says why the mark has not come back; nil: it has. Each command has its own
// error besides. When the server refuses the handshake of a new connection, go-redis tells that to Exec alone: the commands get
// to know it here, too.
func (s *Sender) exec(ctx context.Context, pipe redis.Pipeliner) error {
	text := strconv.FormatUint(s.marks.Add(1), 10)
	end := mark{redisnode.NewCommand("ping", text), text}
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
	if err == nil || !redisnode.IsReply(err) {
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

// invalidateReplies takes back the replies of a pipeline without its mark: nobody knows what became of the calls. A server that refuses
// everything, mark included, is believed.
func invalidateReplies(cause error, parcels []parcel) {
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
func (s *Sender) loads(b *batch, pipe redis.Pipeliner) []redisnode.Command {
	var loads []redisnode.Command
	for _, script := range b.missing {
		load := redisnode.NewCommand("script", "load", script.Source)
		_ = pipe.Process(b.ctx, load)
		loads = append(loads, load)
	}
	b.missing = nil
	return loads
}

// postExcept posts all results but those of scripts that the server does not have, or not for many; their indices are returned.
func (s *Sender) postExcept(b *batch, open []int) []int {
	var again []int
	for _, i := range open {
		value, err := b.replies[i].value, b.replies[i].err
		if redisnode.IsNoScript(err) || errors.Is(err, errApart) {
			again = append(again, i)
			continue
		}
		if err == nil && value == nil {
			err = b.node.Errors.NoAnswer() // a nil reply is redis.Nil; this is none at all
		}
		if ms, late := scripts.LateBy(err); late {
			b.node.Clock.Correct(ms, s.Clock.Now())
		}
		s.post(b, i, rpc.Result{Class: scripts.Classify(err), Reply: value, Err: err, Sent: b.sent, Unacked: b.replies[i].unacked})
	}
	return again
}

// post answers one call, unless the gateway has given it up.
func (s *Sender) post(b *batch, i int, r rpc.Result) {
	b.reached = b.reached || scripts.Reached(r.Err)
	r.Err = b.node.Errors.ExplainWithHint(r.Err)
	b.node.Errors.Remember(r.Err)
	if b.claims[i].taken.CompareAndSwap(false, true) {
		r.Last = true
		answer(s.Root, b.calls[i], r)
	}
}

// sends is what can send messages: an actor's context, or the root.
type sends interface {
	Send(pid *actor.PID, message any)
}

// answer sends the call's result to whoever asked. Only whoever has claimed the call may do so.
func answer(by sends, call *rpc.Call, r rpc.Result) {
	to, _ := call.From.(*actor.PID)
	by.Send(to, call.Answer(r))
}

// failBatch answers calls that were certainly not sent.
func (s *Sender) failBatch(b *batch, err error) {
	class := scripts.Classify(err)
	if class != scripts.Rejected {
		class = scripts.Refused
	}
	for i := range b.calls {
		s.post(b, i, rpc.Result{Class: class, Err: err})
	}
}

func (s *Sender) askTime(ctx context.Context, n *redisnode.Node) error {
	pipe := n.Client.Pipeline()
	clock := redisnode.NewCommand("time")
	_ = pipe.Process(ctx, clock)
	if err := s.exec(ctx, pipe); err != nil {
		return err
	}
	return n.Clock.Observe(clock, s.Clock.Now())
}

// recoverBatch is for hooks of the user's client that panic.
func (s *Sender) recoverBatch(b *batch) {
	value := recover()
	if value == nil {
		return
	}
	b.lost = true
	s.Events.Emit(protocol.ActorPanicked{Value: value, Stack: string(debug.Stack())})
	for i := range b.calls {
		s.post(b, i, rpc.Result{Class: scripts.Unknown, Err: fmt.Errorf("the Redis client panicked: %v", value), Sent: b.sent})
	}
}
