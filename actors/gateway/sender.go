package gateway

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/trace"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Config is shared by all gateways of a runtime.
type Config struct {
	Ctx      context.Context // the context of all calls to Redis
	Clock    clock.Clock
	Events   *outbox.Events
	Recorder *trace.Recorder
	Nodes    redisnode.Nodes
	Errors   *redisnode.Errors

	Lease       time.Duration
	AckReplicas int           // how many replicas must acknowledge a grant
	AckTimeout  time.Duration // how long to wait for their acknowledgement
	FirstMark   uint64        // the number before the mark of the first pipeline; random, because two runtimes must not use the same marks

	Pause        func(failures int) time.Duration // the pause between two attempts to reach Redis
	OnDiscovered func()                           // called when the masters of a cluster have been discovered
}

// Sender sends batches of calls to Redis, for all gateways of a runtime.
type Sender struct {
	Config
	Renewer rpc.Caller // gets Recovered; set before the first call
	peaks   redisnode.Peaks
	marks   atomic.Uint64 // the last mark of a pipeline
	heard   atomic.Uint64 // counts the batches that have reached Redis
}

// NewSender makes a Sender.
func NewSender(c Config) *Sender {
	s := &Sender{Config: c}
	s.marks.Store(c.FirstMark)
	return s
}

// Heard counts the batches that have reached Redis.
func (s *Sender) Heard() uint64 { return s.heard.Load() }

var errFlushed = errors.New("the server forgets scripts faster than they can be loaded: somebody flushes them all the time")

// run sends a batch and posts the results. It may block in go-redis for any length of time. That delays nothing else, because the gateway has
// deadlines of its own.
func (s *Sender) run(b *batch) {
	defer s.recoverBatch(b)
	if !b.node.Clock.Known() && slices.ContainsFunc(b.calls, (*rpc.Call).Bounded) {
		if err := s.askTime(b, b.node); err != nil {
			b.lost = true
			s.failBatch(b, err)
			b.returned = true
			return
		}
	}
	b.replies, b.open = slices.Grow(b.replies[:0], len(b.calls))[:len(b.calls)], b.open[:0]
	for i := range b.calls {
		b.open = append(b.open, i)
	}
	open := b.open
	defer b.clear()
	for tries := 0; len(open) > 0 && tries < 3; tries++ {
		s.exchange(b, open)
		var away []int
		if !b.node.Standalone {
			open, away = b.split(open) // answered calls (`open`) are posted first, so that they do not wait for another master
		}
		open = s.postExcept(b, open)
		if len(away) > 0 && !b.detach(away) {
			s.follow(b, away)
			open = append(open, s.postExcept(b, away)...)
		}
	}
	for _, i := range open {
		s.post(b, i, rpc.Result{Class: scripts.Refused, Err: errFlushed})
	}
	b.returned = true
}

// exchange sends the open calls as one pipeline. The pipeline begins with a TIME if one is due, and with the scripts that the server turned out to
// lack. It ends with a mark (see exec).
func (s *Sender) exchange(b *batch, open []int) {
	server, commands := &b.node.Clock, b.commands[:0]
	b.sent = s.Clock.Now()
	var clock redisnode.Command
	offset, stale := server.Read(b.sent)
	if stale {
		clock = redisnode.NewCommand("time")
		commands = append(commands, clock)
	}
	var loads []redis.Cmder
	if len(b.missing) > 0 {
		loads = b.loads()
		commands = append(commands, loads...)
	}
	for _, i := range open {
		s.bound(b.calls[i], offset)
	}
	parcels := b.pack(open)
	for _, p := range parcels {
		commands = append(commands, p.Command)
	}
	if b.pipe == nil {
		b.pipe = b.client(b.node).Pipeline()
	}
	unacked, err := s.finish(b, b.pipe, commands, parcels)
	b.commands = commands
	s.Recorder.Exchanged(len(open), b.sent, err, func() int { return b.locks(open) })
	if b.lost = err != nil; b.lost {
		s.Nodes.Suspect() // another node may be the master now
	} else if clock.Cmd != nil {
		_ = server.Observe(clock, s.Clock.Now()) // if it fails, the old sample stays in use
	}
	for _, load := range loads {
		if load.Err() != nil && scripts.Classify(load.Err()) == scripts.Rejected {
			for _, p := range parcels { // report why the script could not be loaded, instead of NOSCRIPT
				if redisnode.IsNoScript(p.Err()) {
					p.SetErr(load.Err())
				}
			}
		}
	}
	b.unpack(b.node, parcels, unacked)
	if !b.node.Standalone && slices.ContainsFunc(parcels, demoted) {
		s.Nodes.Suspect()
	}
}

// demoted reports whether a reply shows that the server is now a replica. A replica does not always redirect a call: if the client may read from
// replicas, the replica runs the script and refuses the script's writes.
func demoted(p parcel) bool {
	err := p.Err()
	return err != nil && redisnode.IsReply(err) && strings.HasPrefix(scripts.Reply(err), "READONLY")
}

// bound sets the limits of a call: the server time after which Redis must not execute it, and the lowest fencing token that it may issue. offset is
// the server's time at the instant 0 of this process.
func (s *Sender) bound(c *rpc.Call, offset time.Duration) {
	c.SetNotAfter((offset + c.NotAfter).Milliseconds())
	if c.TakesTokens() {
		c.SetMinToken(s.peaks.Time(s.Nodes.Part(c.Key()), offset, s.Clock.Now()).Microseconds())
	}
}

// finish sends commands as one pipeline. If replicas must acknowledge, a WAIT follows on the same connection, because WAIT covers only the writes of
// its own connection. unacked says why the writes may be on too few replicas; it is nil if enough have acknowledged, or if none had to.
//
// If err is nil, each call has its own reply or error. If err is not nil, the pipeline's mark did not come back: err says why (see exec), and the
// replies do not count. There is one exception: a server that refuses every command also refuses the mark (refusesPing). Then the refusals of the
// calls count.
func (s *Sender) finish(b *batch, pipe redis.Pipeliner, commands []redis.Cmder, parcels []parcel) (unacked, err error) {
	var wait redisnode.Command
	if b.acked {
		wait = redisnode.NewCommand("wait", s.AckReplicas, (s.AckTimeout + time.Millisecond - 1).Milliseconds()) // rounded up: 0 means for ever
		commands = append(commands, wait)
	}
	if err = s.exec(b.ctx, pipe, commands); err != nil {
		invalidateReplies(err, parcels)
	}
	if b.acked {
		unacked = s.unacked(wait)
	}
	return unacked, err
}

// exec sends commands as one pipeline, with a mark at its end: a PING whose reply repeats its argument. If the mark does not come back, the
// connection was out of step or broke, and some of the earlier replies may belong to other commands.
//
// exec returns the reason why the mark did not come back, or nil if it did. Each command also has its own error. If the server refuses the
// handshake of a new connection, go-redis returns the refusal from Exec and sets no error in the commands. So exec copies the refusal to them.
func (s *Sender) exec(ctx context.Context, pipe redis.Pipeliner, commands []redis.Cmder) error {
	var text any = strconv.FormatUint(s.marks.Add(1), 10)
	mark := redisnode.NewCommand("ping", text)
	_ = pipe.BatchProcess(ctx, append(commands, mark)...)
	_, err := pipe.Exec(ctx)
	if err == nil && mark.Val() == text {
		return nil
	}
	unsent := err != nil && mark.Err() == nil && mark.Val() == nil
	for _, c := range append(commands, mark) {
		if answered, ok := c.(redisnode.Command); ok && answered.Val() == nil && c.Err() == nil {
			c.SetErr(err)
		}
	}
	if unsent {
		return err
	}
	return missing(mark, text)
}

var (
	errOutOfStep = errors.New("what came over the connection may be the replies to other commands")
	// refusesPing lists the errors with which a server may refuse every command, even a PING.
	refusesPing = []string{"LOADING", "BUSY", "MASTERDOWN", "NOAUTH", "NOPERM"}
)

// missing returns the reason why the mark with this text did not come back, or nil if it did. It also returns nil if a server that only refuses
// writes has refused the PING (MISCONF).
func missing(mark redisnode.Command, text any) error {
	err := mark.Err()
	if err == nil && mark.Val() != text {
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
	return fmt.Errorf("%w: %v", errOutOfStep, err) //nolint:errorlint // err is no reply to the mark
}

// invalidateReplies discards the replies of a pipeline whose mark did not come back. The outcome of its calls is then unknown. There is one
// exception: if the mark was refused because the server refuses every command, the refusals of the calls count.
func invalidateReplies(cause error, parcels []parcel) {
	var refusal redis.Error
	refused := errors.As(cause, &refusal)
	if refused {
		cause = fmt.Errorf("%w: %v", errOutOfStep, cause) //nolint:errorlint // not %w, because only the mark was refused, not the calls
	}
	for _, p := range parcels {
		err := p.Err()
		if scripts.Classify(err) == scripts.Done || errors.As(err, &refusal) && !refused {
			p.SetErr(cause)
		}
	}
}

// postExcept posts the results, except for calls that have to be sent again: those whose script the server lacks, and those whose bundle the server
// refused. It returns the indices of the calls to send again.
func (s *Sender) postExcept(b *batch, open []int) []int {
	var again []int
	for _, i := range open {
		r := &b.replies[i]
		if r.err == nil && r.value == nil {
			r.err = b.node.Errors.NoAnswer() // there is no reply at all: for a nil reply, err would be redis.Nil
		}
		class := scripts.Done
		if r.err != nil {
			class = scripts.Classify(r.err)
			if redisnode.IsNoScript(r.err) || errors.Is(r.err, errApart) {
				again = append(again, i)
				continue
			}
			if ms, late := scripts.LateBy(r.err); late {
				r.node.Clock.Correct(ms, s.Clock.Now())
			}
		}
		s.post(b, i, rpc.Result{Class: class, Reply: r.value, Err: r.err, Sent: b.sent, Unacked: r.unacked})
	}
	return again
}

// post answers one call, unless the gateway has given it up.
func (s *Sender) post(b *batch, i int, r rpc.Result) {
	node := b.node
	if b.away && b.replies[i].node != nil {
		node = b.replies[i].node
	}
	if r.Err != nil {
		r.Err = node.Errors.ExplainWithHint(r.Err)
	}
	b.reached = node.Errors.Remember(r.Err) || b.reached
	s.Errors.Remember(r.Err) // s.Errors is for all nodes: Close reads it, and so does a waiter whose node is unknown
	if b.claims[i].taken.CompareAndSwap(false, true) {
		r.Last = true
		if r.Err != nil {
			r.Err = b.calls[i].WithKeys(r.Err)
		}
		b.calls[i].From.Send(b.calls[i].Answer(r))
	}
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

func (s *Sender) askTime(b *batch, n *redisnode.Node) error {
	clock := redisnode.NewCommand("time")
	if err := s.exec(b.ctx, b.client(n).Pipeline(), []redis.Cmder{clock}); err != nil {
		return err
	}
	return n.Clock.Observe(clock, s.Clock.Now())
}

// recoverBatch handles a panic of a hook of the user's client, and a hook that ends its goroutine (runtime.Goexit, as t.FailNow does).
func (s *Sender) recoverBatch(b *batch) {
	value := recover()
	if b.returned && value == nil {
		return
	}
	if value == nil {
		value = "a hook has ended its goroutine"
	}
	b.lost = true
	s.Events.Emit(protocol.ActorPanicked{Value: value, Stack: string(debug.Stack())})
	for i := range b.calls {
		s.post(b, i, rpc.Result{Class: scripts.Unknown, Err: redisnode.Panicked(value), Sent: b.sent})
	}
}

// unacked returns an error unless the WAIT shows that enough replicas have acknowledged the writes.
func (s *Sender) unacked(wait redisnode.Command) error {
	n, err := wait.Int()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", protocol.ErrNotReplicated, s.Errors.Explain(err))
	case n < s.AckReplicas:
		return fmt.Errorf("%w: %d replicas of %d have acknowledged within %v, it is being undone", protocol.ErrNotReplicated, n, s.AckReplicas, s.AckTimeout)
	}
	return nil
}
