package holdfast

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/scripts"
)

// Leader asks Redis who leads. The error matches ErrNoLeader if nobody leads, or if the leader has not announced itself yet. If Redis does not answer
// within Options.Lease/3 (at least 1 s, at most 10 s), the error wraps the cause.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	ctx, cancel := e.untilClosed(ctx)
	defer cancel()
	leader, err := e.look(ctx)
	if err != nil {
		return Leader{}, fmt.Errorf("holdfast: leader of %s: %w", lease.Quoted(e.lock.Name()), err)
	}
	return leader, nil
}

func (e *Election) look(ctx context.Context) (Leader, error) {
	if e.bad != nil {
		return Leader{}, e.bad
	}
	reply, err := e.ask(ctx, scripts.ReadLeader(e.lock.address.Raw))
	if err != nil {
		return Leader{}, err
	}
	leader, leads, err := scripts.LeaderOf(reply)
	if err == nil && !leads {
		err = ErrNoLeader
	}
	epoch := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	return Leader{Value: leader.Value, Runtime: leader.Runtime, Token: leader.Token, Since: epoch.Add(leader.Since).Local()}, err
}

// Watch yields the present leader, if there is one, and then each new leader, until ctx ends or the runtime is closed. It yields nothing when a
// leader leaves, only when the next one begins. A message tells Watch of the change. If that message is lost, Watch notices the change within
// ElectionOptions.Lease (at least 1 s, at most 30 s). If a leader is replaced before Watch has noticed it, Watch does not yield that leader.
//
// When Redis is unreachable or refuses, Watch keeps trying. Only the first of several failures in a row is logged. With a bad name or option Watch
// yields nothing.
func (e *Election) Watch(ctx context.Context) iter.Seq[Leader] {
	return func(yield func(Leader) bool) {
		if e.bad == nil {
			e.watch(ctx, yield)
		}
	}
}

func (e *Election) watch(ctx context.Context, yield func(Leader) bool) {
	ctx, cancel := e.untilClosed(ctx)
	defer cancel()
	news := make(chan struct{}, 1) // has an element if a message may have arrived
	stop := e.rt.engine.Listen(scripts.LeaderKey(e.lock.address.Raw), e.lock.Name(), func() {
		select {
		case news <- struct{}{}:
		default:
		}
	})
	defer stop()
	var last Leader
	for failed := false; ctx.Err() == nil; {
		again := e.lookEvery()
		leader, err := e.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil, errors.Is(err, ErrNoLeader):
			failed = false
		default:
			e.log(&failed, "leader unknown", err)
			again = retryAfter
		}
		// A failover may lose the latest term. The next leader then gets the lost term's token again, so the runtimes are compared, too.
		if err == nil && (leader.Token != last.Token || leader.Runtime != last.Runtime) {
			if last = leader; !yield(leader) {
				return
			}
		}
		select {
		case <-news:
		case <-time.After(again):
		case <-ctx.Done():
		}
	}
}

// tellLeaders calls OnLeader for each new leader, until the returned function stop is called.
func (e *Election) tellLeaders(ctx context.Context) (stop func()) {
	if e.options.OnLeader == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for leader := range e.Watch(ctx) {
			e.rt.engine.Safely(func() { e.options.OnLeader(leader) })
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// untilClosed returns a context that also ends when the runtime is closed, with the cause ErrClosed.
func (e *Election) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	select {
	case <-e.rt.engine.Closing():
		cancel(ErrClosed)
	default:
	}
	go func() {
		select {
		case <-e.rt.engine.Closing():
			cancel(ErrClosed)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// ask calls a script. It fails when ctx ends, or when Redis does not answer in time.
func (e *Election) ask(ctx context.Context, call scripts.Call) (any, error) {
	reply, err := e.rt.engine.Ask(ctx, &e.lock.address, call)
	if err != nil && ctx.Err() != nil {
		return nil, whyEnded(ctx)
	}
	return reply, err
}

// whyEnded returns the error for a context of untilClosed that has ended.
func whyEnded(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), ErrClosed) {
		return ErrClosed
	}
	return ctx.Err()
}
